"""A release from a spec: validate everything, charge the budget, draw once, write the bundle."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.contents import bundle_files
from congenial.bundle.manifest import Manifest
from congenial.bundle.signing import read_private_key
from congenial.bundle.writing import check_new, write_folder
from congenial.errors import BundleError, CongenialError, StudyError
from congenial.ledger import Ledger, Receipt, Request
from congenial.ledger.request import moment
from congenial.public_law import Area
from congenial.randomness import RandomStream, replay_rng, secure_rng
from congenial.reading.tables import read_tables
from congenial.release.confidential_report import check_place, write_confidential_report
from congenial.release.exactly import exactly
from congenial.release.planning import SpecPlan, disclose, plan_spec, structure_of
from congenial.sampling.contraction import messages as exact
from congenial.spec.load import load_spec
from congenial.spec.spec import Spec
from congenial.table import Table

Tables = Mapping[Area, Table]

STEPS = ("reading the data", "planning", "charging the budget", "drawing", "writing the bundle")


@dataclass(frozen=True, repr=False)
class Prepared:
    """A spec with its data read and its release planned: nothing is charged yet. Confidential, for the tables are."""

    spec: Spec
    tables: Tables
    plan: SpecPlan


@dataclass(frozen=True)
class Released:
    """A bundle that was written, and the receipt of its charge."""

    folder: Path
    manifest: Manifest
    receipt: Receipt | None


def no_news(_: str) -> None:
    """Tell nobody how far the work is."""


def prepare(spec_path: Path, progress: Callable[[str], None] = no_news) -> Prepared:
    """Read the spec and the data and plan the release. Nothing is charged, nothing written."""
    spec = load_spec(spec_path)
    progress(STEPS[0])
    tables = read_tables(spec, spec_path.absolute().parent)
    progress(STEPS[1])
    return Prepared(spec, tables, plan_spec(spec, disclose(spec, tables)))


def release(
    spec_path: str | Path,
    out: str | Path,
    *,
    ledger: Ledger,
    who: str,
    now: datetime | None = None,
    key: str | Path | None = None,
    confidential_report: str | Path | None = None,
    progress: Callable[[str], None] = no_news,
) -> Released:
    """Release what a spec describes into a new bundle, charged to a ledger.

    All that can be refused is refused before the charge. The charge is on disk before anything is drawn, and is never
    refunded: a crash afterwards leaves a spend without a bundle, never a bundle without a spend.

    Parameters
    ----------
    out : path
        A folder that does not exist yet.
    who : str
        Who releases, for the ledger.
    key : path, optional
        A private key to sign the manifest with.
    confidential_report : path, optional
        A file outside the bundle, beginning with CONFIDENTIAL, that compares the release with the truth.
    """
    folder = Path(out)
    secret = None if confidential_report is None else Path(confidential_report)
    check_new(folder)
    private_key = None if key is None else read_private_key(Path(key))
    if secret is not None:
        check_place(secret, folder)
    ready = prepare(Path(spec_path), progress)
    _rehearse(ready)
    request = Request(
        dataset=ready.spec.dataset,
        release=ready.spec.release,
        certificate=ready.plan.certificate,
        invariants=_disclosed(ready),
        plan_digest=ready.plan.digest,
        who=who,
    )
    progress(STEPS[2])
    receipt = ledger.charge(request, now=now)
    try:
        progress(STEPS[3])
        drawn = draw(ready, secure_rng())
        progress(STEPS[4])
        manifest = describe(ready, drawn, receipt, receipt.at)
        write_folder(folder, bundle_files(manifest, drawn, ready.spec.outputs, private_key))
    except Exception as refused:  # noqa: BLE001  whatever it was, the curator must know that the charge stands
        reason = str(refused) if isinstance(refused, CongenialError) else f"internal error ({type(refused).__name__})"
        raise BundleError(
            f"{reason}. The budget was charged (spend {receipt.number} of dataset {receipt.dataset!r}) and is not"
            " refunded, because a table was drawn; release again under another name once the cause is removed"
        ) from None
    if secret is not None:
        write_confidential_report(secret, ready.spec, ready.tables, drawn)
    return Released(folder, manifest, receipt)


def simulate(
    spec_path: str | Path,
    out: str | Path,
    *,
    seed: int,
    now: datetime | None = None,
    progress: Callable[[str], None] = no_news,
) -> Released:
    """Make a bundle marked NOT FOR RELEASE, from public or simulated data and a public seed; nothing is charged."""
    folder = Path(out)
    check_new(folder)
    spec = load_spec(Path(spec_path))
    if spec.data.status == "confidential":
        raise StudyError(
            "the spec says that its data are confidential, and a simulation with a public seed would give them away; if"
            " they are public or simulated, write `status: public` or `status: simulated` under data"
        )
    ready = prepare(Path(spec_path), progress)
    progress(STEPS[3])
    drawn = draw(ready, replay_rng(f"simulate {seed}"))
    progress(STEPS[4])
    manifest = describe(ready, drawn, None, moment(now))
    write_folder(folder, bundle_files(manifest, drawn, spec.outputs))
    return Released(folder, manifest, None)


def _rehearse(ready: Prepared) -> None:
    """Draw once with bits that count for nothing, so that a sampler that cannot run is found before the charge."""
    draw(ready, replay_rng("rehearsal"))


def draw(ready: Prepared, rng: RandomStream) -> dict[Area, Ints]:
    """Return one draw for every area, in the declared order; areas of one structure share their sampler."""
    groups: dict[tuple[object, ...], list[Area]] = {}
    for area, constraints in ready.plan.law.tables:
        groups.setdefault(structure_of(constraints), []).append(area)
    found: dict[Area, Ints] = {}
    for key, areas in groups.items():
        centres = np.stack([ready.tables[area].counts for area in areas])
        found |= dict(zip(areas, exact.sample_batch(ready.plan.engines[key], centres, rng), strict=True))
    drawn = {area: found[area] for area in ready.plan.law.areas}
    for area, counts in drawn.items():
        if not ready.plan.law.constraints[area].holds(counts):
            raise BundleError("internal: a drawn table breaks an invariant; nothing is published, please report this")
    return drawn


def describe(ready: Prepared, drawn: Mapping[Area, Ints], receipt: Receipt | None, made_at: str) -> Manifest:
    """Return the manifest: everything in it is public or drawn."""
    spec, plan = ready.spec, ready.plan
    asked = {"epsilon": spec.epsilon, "delta": spec.delta, "rho": spec.rho}
    return Manifest(
        release=spec.release,
        title=spec.title,
        dataset=spec.dataset,
        made_at=made_at,
        status=spec.data.status,
        is_for_release=receipt is not None,
        unit="person" if spec.unit is None else spec.unit.word,
        rows_per_unit=spec.rows_per_unit,
        law=plan.law,
        exactly=exactly(spec.schema, spec.invariants, drawn),
        conditions=tuple((statement.text, statement.mandate) for statement in spec.conditions),
        budget={name: str(value) for name, value in asked.items() if value is not None},
        neighbours=spec.neighbours,
        certificate=plan.certificate,
        sampler="independent draw by contraction over partial sums",
        is_exact=True,
        receipt=receipt,
        software={
            "congenial": version("congenial"),
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "duckdb": version("duckdb"),
        },
        files={},
    )


def _disclosed(ready: Prepared) -> list[tuple[str, object]]:
    """Return every statistic that the release states exactly, with its value, for the ledger."""
    spec = ready.spec
    found = exactly(spec.schema, spec.invariants, {area: table.counts for area, table in ready.tables.items()})
    heads = {area: "" if area is None else f"{ready.plan.law.area_name} {area}: " for area in ready.tables}
    return [(f"{heads[area]}{one.text}", value) for one in found for area, value in one.values.items()]
