"""From a spec to a published bundle: the data read once, the release planned once, charged, drawn and written."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.breaches import Breach, each_breach
from congenial.bundle.naming import Naming
from congenial.bundle.signing import read_private_key
from congenial.bundle.writing import check_new
from congenial.conditions.areas import Areas
from congenial.conditions.constraints import Constraints
from congenial.curator.confidential_report import check_place, write_confidential_report
from congenial.curator.engine import LOCAL, Engine
from congenial.curator.ways_out import ways_out_named
from congenial.errors import BrokenError
from congenial.hierarchy.hierarchy import Hierarchy
from congenial.hierarchy.leaves import check_leaves
from congenial.ledger import Ledger, Status
from congenial.progress import READING, WRITING, Progress, no_news
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.public_files import public_files
from congenial.reading.spine import read_spine
from congenial.reading.tables import read_leaves, read_together
from congenial.release import STEPS as RELEASE_STEPS
from congenial.release import (
    Prepared,
    begun,
    charged,
    check_first,
    check_not_confidential,
    resumed,
)
from congenial.release import simulate as simulate_tables
from congenial.released import Release
from congenial.spec.spec import Spec
from congenial.spec.tree import TreeFile
from congenial.table import CONFIDENTIAL, AreaTables, Table
from congenial.tree_release import prepare_tree

STEPS = (READING, *RELEASE_STEPS, WRITING)


@dataclass(frozen=True)
class Published:
    """A bundle that was written.

    Attributes
    ----------
    folder : Path
    release : Release
    missing : str
        What could not be made besides the bundle, and why; nothing, as a rule.
    """

    folder: Path
    release: Release
    missing: str = ""


def prepare(spec: Spec, folder: Path, progress: Progress = no_news, engine: Engine = LOCAL) -> Prepared:
    """Read the data that a spec in this folder names, and plan the release. Nothing is charged, nothing written."""
    progress(STEPS[0])
    if spec.hierarchy is not None:
        return _prepare_tree(spec, spec.hierarchy, folder, progress, engine)
    tables = read_together(spec, folder, progress, engine.read(spec, folder))
    progress(STEPS[1])
    naming = _naming(spec, folder)
    with _breaches_in_a_file(spec, folder, tables), ways_out_named(spec, tables, progress):
        return spec.mechanism.prepare(tables, naming, area=_area(spec))


def _prepare_tree(spec: Spec, given: TreeFile, folder: Path, progress: Progress, engine: Engine) -> Prepared:
    hierarchy, counts = _read_tree(spec, given, folder, progress, engine)
    progress(STEPS[1])
    return prepare_tree(hierarchy, counts, _naming(spec, folder))


def _naming(spec: Spec, folder: Path) -> Naming:
    """Return what the manifest says of a release besides its law."""
    return replace(spec.naming, public_files=public_files(spec, folder))


def _read_tree(
    spec: Spec, given: TreeFile, folder: Path, progress: Progress = no_news, engine: Engine = LOCAL
) -> tuple[Hierarchy, Ints]:
    """Return what releases a spec's tree, and the confidential leaves (leaf, cell), checked and in its order."""
    tree, zeros = read_spine(given, spec.schema.n_cells, folder)
    counts = read_leaves(spec, tree, folder, progress, engine.read(spec, folder))
    check_leaves(tree, spec.schema.n_cells, zeros, counts)
    return spec.tree_mechanism(tree, zeros), counts


def read_tree(spec: Spec, given: TreeFile, folder: Path) -> tuple[Hierarchy, Ints]:
    """Return what releases a spec's tree, and the confidential leaves (leaf, cell) as they were listed."""
    hierarchy, counts = _read_tree(spec, given, folder)
    listed = np.empty_like(counts)
    listed[hierarchy.tree.order] = counts
    return hierarchy, listed


def disclose(spec: Spec, folder: Path) -> Constraints | Areas:
    """Read the data that a spec in this folder names, and return what its invariants disclose of them."""
    if spec.hierarchy is not None:
        return prepare(spec, folder).plan.law.areas
    tables = read_together(spec, folder)
    with _breaches_in_a_file(spec, folder, tables):
        return spec.mechanism.disclose(tables, area=_area(spec))


@contextmanager
def _breaches_in_a_file(spec: Spec, folder: Path, tables: Table | AreaTables) -> Iterator[None]:
    """Where tables break a condition is written to a file for the curator alone, and the error says which file."""
    try:
        yield
    except BrokenError as refused:
        found = each_breach(spec.mechanism, tables)
        file = folder / f"{CONFIDENTIAL}broken-conditions-{spec.release}.csv"
        where = write_confidential_csv(file, [field.name for field in fields(Breach)], map(astuple, found))
        raise BrokenError(refused.condition, f"where they do {where}") from None


def _area(spec: Spec) -> str:
    """Return what an area is called; where there is one table nobody asks."""
    return "area" if spec.by is None else spec.by.name


def check_chargeable(spec: Spec, ledger: Ledger) -> Status:
    """Refuse what the ledger could not be charged for, before any data are read; return the dataset's account."""
    return check_first(ledger, spec.naming, neighbours=spec.neighbours, budget=spec.budget)


def release(
    spec: Spec,
    folder: Path,
    out: str | Path,
    *,
    ledger: Ledger,
    who: str,
    now: datetime | None = None,
    key: str | Path | None = None,
    confidential_report: str | Path | None = None,
    progress: Progress = no_news,
    engine: Engine = LOCAL,
) -> Published:
    """Release what a spec describes into a new bundle, charged to a ledger.

    All that can be refused is refused before the charge. The charge is on disk before anything is drawn, and is never
    refunded: a crash afterwards leaves a release that `resume` goes on with, never a bundle without a spend.

    Parameters
    ----------
    folder : path
        The folder of the spec, where its paths start.
    out : path
        A folder that does not exist yet.
    who : str
        Who releases, for the ledger.
    key : path, optional
        A private key to sign the manifest with.
    confidential_report : path, optional
        A file outside the bundle, beginning with CONFIDENTIAL, that compares the release with the truth.
    engine : Engine
        What reads and draws; this machine if not given.
    """
    place, secret = _checked_places(out, confidential_report)
    check_new(place)
    terms = _terms(spec, place, key)
    check_chargeable(spec, ledger)
    ready = prepare(spec, folder, progress, engine)
    engine.check(ledger.keys)
    with charged(ready, ledger=ledger, who=who, terms=terms, now=now, progress=progress, draw=engine.draw) as made:
        progress(STEPS[-1])
        made.write(place, outputs=spec.outputs, sign=key, progress=progress)
        engine.finish(made)
    return _published(spec, place, secret, ready, made)


def resume(
    spec: Spec,
    folder: Path,
    out: str | Path | None = None,
    *,
    ledger: Ledger,
    key: str | Path | None = None,
    confidential_report: str | Path | None = None,
    progress: Progress = no_news,
    engine: Engine = LOCAL,
) -> Published:
    """Go on with a release that was stopped between its charge and its bundle: the same bundle, and no second charge.

    Parameters
    ----------
    out : path, optional
        The folder of the bundle, as the release was begun with.
    """
    if out is None:
        with begun(ledger, spec.dataset, spec.release) as (file, _):
            out = file.terms.get("bundle", spec.release)
    place, secret = _checked_places(out, confidential_report)
    ready = prepare(spec, folder, progress, engine)
    engine.check(ledger.keys)
    terms = _terms(spec, place, key)
    with resumed(ready, ledger=ledger, terms=terms, progress=progress, draw=engine.draw) as made:
        progress(STEPS[-1])
        if not made.is_written(place, outputs=spec.outputs, sign=key):
            made.write(place, outputs=spec.outputs, sign=key, progress=progress)
        engine.finish(made)
    return _published(spec, place, secret, ready, made)


def _checked_places(out: str | Path, confidential_report: str | Path | None) -> tuple[Path, Path | None]:
    """Return where the bundle and the comparison go; refuses a place inside the bundle for the latter."""
    place, secret = Path(out), None if confidential_report is None else Path(confidential_report)
    if secret is not None:
        check_place(secret, place)
    return place, secret


def _terms(spec: Spec, place: Path, key: str | Path | None) -> dict[str, str]:
    """Return what a release is begun with besides its plan."""
    signer = "" if key is None else read_private_key(Path(key)).public_key().public_bytes_raw().hex()
    return {"bundle": str(place.absolute()), "outputs": ", ".join(spec.outputs), "signed by": signer}


def _published(spec: Spec, place: Path, secret: Path | None, ready: Prepared, made: Release) -> Published:
    """Write the comparison for the curator; the bundle is there, whatever becomes of that."""
    if secret is None:
        return Published(place, made)
    try:
        write_confidential_report(secret, spec, ready.of_areas, made)
    except Exception as failed:  # noqa: BLE001
        return Published(place, made, f"{secret.name} could not be written ({type(failed).__name__})")
    return Published(place, made)


def simulate(
    spec: Spec,
    folder: Path,
    out: str | Path,
    *,
    seed: int,
    now: datetime | None = None,
    progress: Progress = no_news,
) -> Published:
    """Make a bundle marked NOT FOR RELEASE, from public or simulated data and a public seed; nothing is charged."""
    place = Path(out)
    check_new(place)
    check_not_confidential(spec.data.status)
    made = simulate_tables(prepare(spec, folder, progress), seed, now=now, progress=progress)
    progress(STEPS[-1])
    made.write(place, outputs=spec.outputs, progress=progress)
    return Published(place, made)
