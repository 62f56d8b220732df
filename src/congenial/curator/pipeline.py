"""From a spec to a published bundle: the data read once, the release planned once, charged, drawn and written."""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.read import open_bundle
from congenial.bundle.recompute import Bundle, check_bundle
from congenial.bundle.signing import read_private_key
from congenial.bundle.write import check_new
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.base import Condition
from congenial.conditions.compile import claims_of
from congenial.conditions.constraints import Constraints
from congenial.curator.alternatives_and_target_error import ways_out_named
from congenial.curator.confidential_report import (
    check_place,
    write_confidential_report,
    write_confidential_report_of_tables,
)
from congenial.errors import BrokenError, BundleError, reason_of
from congenial.ledger import Ledger, Status, open_ledger
from congenial.mechanism_and_hierarchy import Hierarchy, Mechanism, Tables
from congenial.progress_and_interrupts import PLANNING, READING, WRITING, Progress, silent
from congenial.published_release import Release
from congenial.reading.files_and_columns import public_files, write_confidential_csv
from congenial.reading.leaf_list import read_spine
from congenial.reading.tables_and_data_checks import GroupedRows, read_leaves, read_records, read_together
from congenial.release import Prepared, begun, charged, check_first, check_not_confidential, draw_here, resumed
from congenial.release import simulate as simulate_tables
from congenial.release_key import KeyFile
from congenial.schema import Schema
from congenial.spec.load import load_spec
from congenial.spec.spec_and_hierarchy import Spec, TreeFile
from congenial.table import CONFIDENTIAL, AreaTables, Table
from congenial.tree.tree_and_zeros import TreeTables, check_leaves
from congenial.workload.law import ExactCounts
from congenial.workload.workload import PreparedWorkload

# Where a release is read and drawn: on this machine, or by an engine for many. The tables are the same.


class ReleaseEngine:
    """What reads and draws: this machine alone, or what a subclass says.

    Plan, certificate, charge and bundle are made by the process that asks for a release.
    """

    def read(self, spec: Spec, folder: Path) -> GroupedRows | None:  # noqa: ARG002
        """Return the rows that a spec names, equal ones put together; None where they are read here. Confidential."""
        return None

    def check(self, keys: Path | None) -> None:
        """Refuse, before anything is charged, machines that could not draw; `keys` is the folder of keys."""

    def draw(self, ready: Prepared, file: KeyFile, progress: Progress) -> TreeTables:
        """Return one draw of everything; the same tables wherever they are drawn."""
        return draw_here(ready, file, progress)

    def finish(self, release: Release) -> None:
        """Do what is done when the bundle is there, and before the key is destroyed."""


LOCAL = ReleaseEngine()

# Where confidential tables break the conditions that are stated of them. An error names the condition only.


@dataclass(frozen=True)
class Violation:
    """One place where a table breaks a condition. Confidential, as the table is.

    Attributes
    ----------
    area : str or None
        Whose table it is; None where there is one.
    condition : str
        The condition in words, as the error names it.
    statistic : str
        The cell or the sum that breaks it.
    value : int
        The confidential count.
    needed : str
        What it must be, in words.
    """

    area: Area
    condition: str
    statistic: str
    value: int
    needed: str


def find_violations(mechanism: Mechanism, tables: Tables) -> list[Violation]:
    """Return where tables break a mechanism's conditions, area by area; nothing when they obey all. Confidential.

    Parameters
    ----------
    tables : Table, or mapping from an area's label to its Table

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.bounds(0, 5)])
    >>> [violation.statistic for violation in find_violations(mechanism, cg.Table(schema, [3, 9]))]
    ['sex=male']
    """
    for table in tables.values() if isinstance(tables, Mapping) else [tables]:
        mechanism.counts_of(table)  # a table of its schema, or refused
    return list(each_violation(mechanism.schema, mechanism.invariants, tables))


def each_violation(schema: Schema, conditions: Sequence[Condition], tables: Tables) -> Iterator[Violation]:
    """Return where tables break conditions, one by one: there can be as many as there are cells. Confidential."""
    by_area: Iterable[tuple[Area, Table]] = tables.items() if isinstance(tables, Mapping) else [(None, tables)]
    for area, table in by_area:
        counts = table.counts.tolist()
        for claim in claims_of(schema, [condition.of_area(area) for condition in conditions], counts):
            for limited in claim.limits:
                value = limited.row.value(counts)
                if value not in limited.limits:
                    needed = limited.limits.text.removeprefix("is ")
                    yield Violation(area, claim.of, limited.row.name, value, needed)


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


def prepare(spec: Spec, folder: Path, progress: Progress = silent, engine: ReleaseEngine = LOCAL) -> Prepared:
    """Read the data that a spec in this folder names, and plan the release. Nothing is charged, nothing written."""
    progress(READING)
    naming = replace(spec.naming, public_files=public_files(spec, folder))
    if spec.hierarchy is not None:
        hierarchy, counts = _read_tree(spec, spec.hierarchy, folder, progress, engine)
        progress(PLANNING)
        with _violations_in_a_file(spec, folder, hierarchy.invariants, hierarchy.tables_at_top(counts)):
            return hierarchy.prepare_ordered(counts, naming)
    if spec.tables is not None:
        workload = spec.workload_in(folder)  # before the data are read: a bundle that was changed stops it
        records = read_records(spec, folder, progress, engine.read(spec, folder))
        progress(PLANNING)
        return workload.prepare(records, naming)
    tables = read_together(spec, folder, progress, engine.read(spec, folder))
    progress(PLANNING)
    with (
        _violations_in_a_file(spec, folder, spec.mechanism.invariants, tables),
        ways_out_named(spec, tables, progress),
    ):
        return spec.mechanism.prepare(tables, naming, area=_area(spec))


def _read_tree(
    spec: Spec, tree_file: TreeFile, folder: Path, progress: Progress = silent, engine: ReleaseEngine = LOCAL
) -> tuple[Hierarchy, Ints]:
    """Return what releases a spec's tree, and the confidential leaves (leaf, cell), checked and in its order."""
    tree, zeros, across = read_spine(tree_file, spec.schema.n_cells, folder)
    counts = read_leaves(spec, tree, folder, progress, engine.read(spec, folder))
    check_leaves(tree, spec.schema.n_cells, zeros, counts)
    return spec.tree_mechanism(tree, zeros, across), counts


def read_tree(spec: Spec, tree_file: TreeFile, folder: Path) -> tuple[Hierarchy, Ints]:
    """Return what releases a spec's tree, and the confidential leaves (leaf, cell) as they were listed."""
    hierarchy, counts = _read_tree(spec, tree_file, folder)
    listed = np.empty_like(counts)
    listed[hierarchy.tree.order] = counts
    return hierarchy, listed


def disclose(spec: Spec, folder: Path) -> Constraints | Areas | tuple[ExactCounts, ...]:
    """Read the data that a spec in this folder names, and return what its invariants disclose of them."""
    if spec.tables is not None:
        return spec.workload.disclose(read_records(spec, folder))
    if spec.hierarchy is not None:
        return prepare(spec, folder).plan.law.areas
    tables = read_together(spec, folder)
    with _violations_in_a_file(spec, folder, spec.mechanism.invariants, tables):
        return spec.mechanism.disclose(tables, area=_area(spec))


@contextmanager
def _violations_in_a_file(
    spec: Spec, folder: Path, conditions: Sequence[Condition], tables: Table | AreaTables
) -> Iterator[None]:
    """Where tables break a condition is written to a file for the curator alone, and the error says which file."""
    try:
        yield
    except BrokenError as refused:
        violations = each_violation(spec.schema, conditions, tables)
        file = folder / f"{CONFIDENTIAL}broken-conditions-{spec.release}.csv"
        where = write_confidential_csv(file, [field.name for field in fields(Violation)], map(astuple, violations))
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
    progress: Progress = silent,
    engine: ReleaseEngine = LOCAL,
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
    engine : ReleaseEngine
        What reads and draws; this machine if not given.
    """
    place, secret = _checked_places(out, confidential_report)
    check_new(place)
    terms = _terms(spec, place, key)
    check_chargeable(spec, ledger)
    ready = prepare(spec, folder, progress, engine)
    engine.check(ledger.keys)
    with charged(ready, ledger=ledger, who=who, terms=terms, now=now, progress=progress, draw=engine.draw) as drawn:
        progress(WRITING)
        drawn.write(place, outputs=spec.outputs, sign=key, progress=progress)
        engine.finish(drawn)
    return _published(spec, place, secret, ready, drawn)


def resume(
    spec: Spec,
    folder: Path,
    out: str | Path | None = None,
    *,
    ledger: Ledger,
    key: str | Path | None = None,
    confidential_report: str | Path | None = None,
    progress: Progress = silent,
    engine: ReleaseEngine = LOCAL,
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
    with resumed(ready, ledger=ledger, terms=terms, progress=progress, draw=engine.draw) as drawn:
        progress(WRITING)
        if not drawn.is_written(place, outputs=spec.outputs, sign=key):
            drawn.write(place, outputs=spec.outputs, sign=key, progress=progress)
        engine.finish(drawn)
    return _published(spec, place, secret, ready, drawn)


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


def _published(spec: Spec, place: Path, secret: Path | None, ready: Prepared, drawn: Release) -> Published:
    """Write the comparison for the curator; the bundle is there, whatever becomes of that."""
    if secret is None:
        return Published(place, drawn)
    try:
        if isinstance(ready, PreparedWorkload):
            write_confidential_report_of_tables(secret, spec, ready, drawn)
        else:
            write_confidential_report(secret, spec, ready.of_areas, drawn)
    except Exception as failed:  # noqa: BLE001
        return Published(place, drawn, f"{secret.name} could not be written ({type(failed).__name__})")
    return Published(place, drawn)


def simulate(
    spec: Spec,
    folder: Path,
    out: str | Path,
    *,
    seed: int,
    now: datetime | None = None,
    progress: Progress = silent,
) -> Published:
    """Make a bundle marked NOT FOR RELEASE, from public or simulated data and a public seed; nothing is charged."""
    place = Path(out)
    check_new(place)
    check_not_confidential(spec.data.status)
    drawn = simulate_tables(prepare(spec, folder, progress), seed, now=now, progress=progress)
    progress(WRITING)
    drawn.write(place, outputs=spec.outputs, progress=progress)
    return Published(place, drawn)


# A first release: the P12 example in a folder of its own, with its ledger and its bundle.

DATASET = "p12-example"


@dataclass(frozen=True)
class Demonstration:
    """Where the pieces are, and the verified bundle."""

    folder: Path
    ledger: Path
    account: str
    bundle: Bundle


def example_files() -> Path:
    """Return the folder of the P12 example: inside an installed package, or in the source tree."""
    inside = Path(__file__).parents[1] / "example_files" / "p12"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "examples" / "p12"


def demonstrate(folder: Path, progress: Progress = silent) -> Demonstration:
    """Copy the example into a new folder, make a ledger with a budget of epsilon 4, release, and verify."""
    try:
        folder.mkdir(parents=True)
        for name in ("spec.yaml", "counts.csv"):
            shutil.copyfile(example_files() / name, folder / name)
    except OSError as refused:
        raise BundleError(f"{folder} cannot be made: {reason_of(refused)}; name a new folder") from None
    place = folder / "budget.db"
    ledger = open_ledger(place, create=True)
    ledger.create_dataset(DATASET, epsilon="4", neighbours="bounded", who="demo")
    spec = load_spec(folder / "spec.yaml")
    published = release(spec, folder, folder / "bundle", ledger=ledger, who="demo", progress=progress)
    account = str(ledger.status(DATASET)).splitlines()[0]
    return Demonstration(published.folder, place, account, check_bundle(open_bundle(published.folder)))
