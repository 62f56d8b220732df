"""Reads and verifies a bundle of several tables of the same records: what does not follow from its measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.canonical_json import first_difference
from congenial.bundle.file_registry import FIT, RECORDS
from congenial.bundle.naming_and_versions import other_versions
from congenial.bundle.parquet import WIDEST, check_sizes, damage_as_refusal
from congenial.bundle.read import OpenedBundle
from congenial.bundle.recompute import as_another_version
from congenial.bundle.workload_files import (
    WorkloadContents,
    bytes_of,
    check_records_note,
    contents_of,
    files_of_workload,
)
from congenial.bundle.workload_manifest import WorkloadManifest, naming_with_earlier
from congenial.errors import BundleError, CongenialError, did_you_mean
from congenial.schema import Schema
from congenial.tree.tree_and_zeros import TreeTables
from congenial.workload.estimates import Estimator
from congenial.workload.later import KEEP
from congenial.workload.law import WorkloadLaw
from congenial.workload.plan import WorkloadPlan, check_stated_precisions, is_determined


@dataclass(frozen=True, repr=False)
class WorkloadBundle:
    """A verified bundle of several tables of the same records.

    Attributes
    ----------
    levels : tuple of arrays (1, cell)
        The published tables.
    records : array (record, dimension) or None
        Made-up records whose counts they are: places of labels.
    measured_levels : tuple of arrays (1, cell)
        The measurements of every measured table.
    signed_by : str or None
    not_checked : tuple of str
    """

    manifest: WorkloadManifest
    levels: TreeTables = field(repr=False)
    records: Ints | None = field(repr=False)
    measured_levels: TreeTables = field(repr=False)
    signed_by: str | None = None
    not_checked: tuple[str, ...] = ()

    @property
    def law(self) -> WorkloadLaw:
        """What is measured and exact."""
        return self.manifest.law

    @property
    def plan(self) -> WorkloadPlan:
        """How tables were measured, and what that cost."""
        return self.manifest.plan

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the published tables."""
        return tuple(table.name for table in self.plan.published)

    def schema_of(self, name: str) -> Schema:
        """Return the dimensions of a published table."""
        if name not in self.names:
            raise BundleError(f"the bundle has no table {name!r}; {did_you_mean(name, self.names)}")
        return self.law.schema.part(self.plan.published[self.names.index(name)].dimensions)

    def table(self, name: str) -> Ints:
        """Return the counts of a published table, shaped by its dimensions."""
        shape = self.schema_of(name).shape
        if not self.levels:
            raise BundleError("the bundle has measurements and no tables: congenial decide makes them")
        return self.levels[self.names.index(name)].reshape(shape)

    def measurements(self, name: str) -> Ints:
        """Return the measurements of a table, shaped by its dimensions."""
        names = [table.name for table in self.law.measured_tables_of_records]
        if name not in names:
            raise BundleError(f"the bundle measured no table {name!r}; {did_you_mean(name, names)}")
        number = names.index(name)
        return self.measured_levels[number].reshape(self.law.measured_laws[number].schema.shape)

    @property
    def estimator(self) -> Estimator:
        """Estimates of every margin inside a measured table, with standard errors and intervals."""
        return Estimator(self.plan, self.measured_levels)

    def __repr__(self) -> str:
        naming = self.manifest.naming
        kind = "" if self.manifest.is_for_release else ", a simulation, NOT FOR RELEASE"
        return f"bundle {naming.release!r} of dataset {naming.dataset!r}: {self.law.tables_text}{kind}"


def check_workload(opened: OpenedBundle) -> WorkloadBundle:
    """Compute again what follows from measurements, records, conditions and budget; refuses what says otherwise."""
    manifest, measured, signed_by = opened.manifest, opened.measured_levels, opened.signed_by
    assert isinstance(manifest, WorkloadManifest)  # noqa: S101
    _check_rule(manifest)
    _check_earlier(manifest)
    records = opened.levels[0] if opened.levels else None
    tables: TreeTables = ()
    if records is not None:
        tables = manifest.plan.tables_of(records)
        try:
            manifest.plan.check_tables(tables)
            manifest.plan.check_exact_numbers(records)
        except CongenialError as wrong:
            raise BundleError(str(wrong)) from None
    not_checked = _check_reproducible(manifest)
    if manifest.plan.earlier is not None:
        not_checked.append(
            f"release {manifest.plan.earlier.agreement.release} by itself: congenial verify of its bundle"
        )
    return WorkloadBundle(manifest, tables, records, measured, signed_by, tuple(not_checked))


def _check_rule(manifest: WorkloadManifest) -> None:
    """See that the tables are said to be of the rule that makes them: there is no other one for them."""
    if manifest.decision is None or manifest.decision.rule != manifest.law.rule:
        raise BundleError(
            f"the manifest says that another rule than {manifest.law.rule[0]!r} made the tables, and no other one does"
        )


def _check_earlier(manifest: WorkloadManifest) -> None:
    """See that tables agree with a release of their own dataset, and that it is among the public files."""
    naming, earlier = manifest.naming, manifest.plan.earlier
    if earlier is None:
        return
    try:
        named = naming_with_earlier(naming, earlier).public_files[-1]
    except CongenialError as wrong:
        raise BundleError(str(wrong)) from None
    if named not in naming.public_files:
        raise BundleError(f"release {earlier.agreement.release!r}, which tables agree with, is not among public files")


def _check_reproducible(manifest: WorkloadManifest) -> list[str]:
    plan, others = manifest.plan, other_versions(manifest.software, ["congenial"])
    try:
        facts = (manifest.naming, manifest.made_at, plan, manifest.conditions, manifest.receipt, manifest.software)
        recomputed = WorkloadManifest.of_plan(*facts, decision=manifest.decision)
    except CongenialError as refused:
        raise BundleError(f"the published law has no certificate: {refused}") from None
    recomputed = replace(recomputed, files=manifest.files, left_out=manifest.left_out, version=manifest.version)
    recomputed, not_checked = as_another_version(recomputed, manifest, others)
    if difference := first_difference(manifest.as_json(), recomputed.as_json()):
        raise BundleError(
            "manifest.json has {1} at {0}, and from its tables, conditions and law follows {2}; get the bundle from its"
            " publisher again".format(*difference)
        )
    return not_checked + _check_precisions(manifest, others)


def _check_precisions(manifest: WorkloadManifest, others: Sequence[str]) -> list[str]:
    """See that what is measured is what was requested, as precisely as the budget allows."""
    plan, law = manifest.plan, manifest.law
    requested = [(query.name, getattr(query, "dimensions", ())) for query in plan.requested]
    if requested != [(table.name, table.dimensions) for table in law.tables]:
        raise BundleError("the manifest measures other tables than its law does")
    if plan.budget is None:
        determined = is_determined(law, plan.neighbours)
        for query, table, is_known in zip(plan.requested, law.tables, determined, strict=True):
            if table.precision != (0 if is_known else query.precision):
                raise BundleError("the manifest states another precision of a table than its law has")
        try:
            check_stated_precisions(law, plan.neighbours, plan.protects)
        except CongenialError as wrong:
            raise BundleError(str(wrong)) from None
        return []
    if not plan.budget.covers(manifest.certificate):
        raise BundleError(f"the manifest's budget of {plan.budget.text} does not cover its certificate")
    try:
        expected = plan.calibrated_precisions()
        is_largest = expected == tuple(table.precision for table in law.tables)
    except CongenialError:
        is_largest = False
    if is_largest:
        return []
    if not others:
        raise BundleError(f"the precisions of its law are not those that its budget of {plan.budget.text} gives")
    return [f"whether the budget allows no larger precisions, for that is by {others[0]}"]


def check_decision(bundle: WorkloadBundle, folder: Path) -> tuple[WorkloadContents, list[str]]:
    """Run the rule again, and see that records and tables are what follows; return these, and what was seen."""
    manifest = bundle.manifest
    if bundle.records is None:
        return contents_of(manifest, bundle.measured_levels, None), [_seen_without_tables(bundle)]
    try:
        decision = manifest.plan.decide(bundle.measured_levels)
    except CongenialError as refused:
        raise BundleError(f"the rule {manifest.law.rule[0]!r} makes no tables of the measurements: {refused}") from None
    if not np.array_equal(np.asarray(decision.records, np.int64), bundle.records):
        raise BundleError(f"the records are not those that the rule {manifest.law.rule[0]!r} makes of the measurements")
    with (folder / RECORDS).open("rb") as file:
        check_records_note(manifest.law, file)
    contents = contents_of(manifest, bundle.measured_levels, decision)
    _check_tables(contents, folder)
    seen = [f"records and tables are what the rule {manifest.law.rule[0]} makes of the measurements"]
    if manifest.plan.earlier is not None:
        agreement = manifest.plan.earlier.agreement
        what = "have its published tables, without one deviation" if agreement.how == KEEP else "revise its tables"
        seen.append(f"files of release {agreement.release} have the digests that it published; the tables {what}")
    return contents, seen


def _seen_without_tables(bundle: WorkloadBundle) -> str:
    """Return whether the rule makes no tables here either: where there was little memory, say, it may now."""
    try:
        bundle.plan.decide(bundle.measured_levels)
    except CongenialError:
        return f"the rule {bundle.law.rule[0]} makes no tables of the measurements here either"
    return "the rule makes tables of the measurements here, which it did not where they were released: congenial decide"


def _check_tables(contents: WorkloadContents, folder: Path) -> None:
    """See that the files of tables hold what follows: CSV and facts to the byte, Parquet by its numbers."""
    for file in files_of_workload(contents.manifest):
        is_table = file.name.startswith("table-")
        if file.name == FIT or (is_table and file.name.endswith(".csv")):
            if (folder / file.name).read_bytes() != bytes_of(file.make(contents)):  # type: ignore[arg-type]
                raise BundleError(f"{file.name} does not hold what follows from the measurements")
        elif is_table:
            content = bytes_of(file.make(contents))  # type: ignore[arg-type]
            with damage_as_refusal():
                is_same = _has_same_numbers(folder / file.name, content)
            if not is_same:
                raise BundleError(f"{file.name} does not hold what follows from the measurements")


def _has_same_numbers(path: Path, content: bytes) -> bool:
    """Whether a Parquet file holds the columns and rows of another; it is unpacked if it is no larger than that."""
    from pyarrow import parquet

    expected = parquet.read_table(BytesIO(content))
    if path.read_bytes() == content:
        return True
    metadata = parquet.read_metadata(path)
    texts = sum(str(field.type) == "string" for field in expected.schema)
    row_bytes = texts * (WIDEST + 4) + 8 * (expected.num_columns - texts)
    check_sizes(metadata, path.name, expected.num_rows, row_bytes)
    table = parquet.read_table(path)
    return bool(table.equals(expected)) and table.schema.metadata == expected.schema.metadata
