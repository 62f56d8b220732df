"""Reads a bundle: files against their digests, the manifest against itself, tables against their conditions."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes
from congenial.bundle.areas_spine_and_level_files import (
    areas_of_parquet,
    cell_columns,
    exact_columns,
    measured_columns,
    read_level,
    read_spine,
)
from congenial.bundle.cell_intervals import interval_columns
from congenial.bundle.file_registry import (
    AREAS,
    EXACT_LEVEL,
    LARGEST,
    LEARNED,
    MANIFEST,
    MEASURED_LEVEL,
    MEASUREMENTS,
    MEASUREMENTS_CSV,
    PARQUET,
    SIGNATURE,
    SPINE,
    TABLE,
    TOO_LONG,
    csv_columns,
    files_of,
    has_learned,
    is_file_name,
    is_too_long,
    level_file,
    level_files,
    optional_names,
)
from congenial.bundle.law_and_tree_json import StatedTree, TreeParts
from congenial.bundle.learned_numbers_file import read_learned
from congenial.bundle.manifest import Manifest, untouched_values
from congenial.bundle.measurement_files import check_csv as check_measurements_csv
from congenial.bundle.measurement_files import read_parquet
from congenial.bundle.naming_and_versions import SOFTWARE, STATUSES
from congenial.bundle.signing import check_signature, read_public_key
from congenial.bundle.table_files import Columns, check_csv, read_csv, read_tables
from congenial.bundle.workload_earlier import read_manifest
from congenial.bundle.workload_files import files_of_workload, read_workload
from congenial.bundle.workload_files import optional_names as names_optional
from congenial.bundle.workload_manifest import WorkloadManifest, is_workload
from congenial.errors import BundleError, LedgerError, reason_of
from congenial.ledger.records import Receipt
from congenial.ledger.requests_and_canonical_text import check_name, moment
from congenial.memory_and_threads import AREAS_AT_ONCE, explain_memory
from congenial.progress_and_interrupts import VERIFYING, Progress, silent
from congenial.rules.rule_and_input import Learned
from congenial.safe_text import first_hidden
from congenial.schema import Schema
from congenial.tree.exact_sums import ExactRows, ExactSums, exact_sums
from congenial.tree.tree_and_zeros import Tree, TreeTables

# What a manifest says twice, or in one of few ways: its files, its dates and names, the sums of its receipt.

_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,80}")
_WAY_OUT = "get the bundle from its publisher again"


def check_consistency(manifest: Manifest) -> None:
    """Refuse a manifest whose own words contradict each other."""
    if isinstance(manifest, WorkloadManifest):
        _check_listed(manifest, [file.name for file in files_of_workload(manifest)], names_optional(manifest))
    else:
        _check_file_list(manifest)
    _check_names(manifest)
    _check_software(manifest)
    if manifest.receipt is not None:
        _check_receipt(manifest, manifest.receipt)


def _refuse(what: str) -> BundleError:
    return BundleError(f"manifest.json contradicts itself: {what}; {_WAY_OUT}")


def _check_file_list(manifest: Manifest) -> None:
    """See that every file that a bundle can have is listed, or left out with a reason, and no other."""
    expected, known = [file.name for file in files_of(manifest)], optional_names(manifest)
    if is_too_long(manifest) and manifest.left_out.get(TABLE) != TOO_LONG:
        raise _refuse(f"{TABLE} is not left out because {TOO_LONG}")
    _check_listed(manifest, expected, known)


def _check_listed(manifest: Manifest, expected: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in manifest.left_out if name not in known]:
        raise _refuse(f"{unknown[0]!r} is left out, and only {' and '.join(known)} can be")
    if list(manifest.files) != expected:
        raise _refuse(f"it lists {', '.join(map(repr, manifest.files)) or 'no file'}, and should {', '.join(expected)}")
    if not all(manifest.left_out.values()):
        raise _refuse("what is left out has a reason")


def _check_names(manifest: Manifest) -> None:
    naming = manifest.naming
    try:
        check_name(naming.release, "a release's name")
        check_name(naming.dataset, "a dataset's name")
        if naming.replaces is not None:
            check_name(naming.replaces, "the name of a replaced release")
    except LedgerError as wrong:
        raise _refuse(str(wrong)) from None
    if naming.replaces == naming.release:
        raise _refuse("it replaces itself")
    if manifest.plan.rows_per_unit < 1:
        raise _refuse(f"a unit has at least one row, and it says {manifest.plan.rows_per_unit}")
    if naming.status not in STATUSES:
        raise _refuse(f"the status is {naming.status!r}, and it is one of {', '.join(STATUSES)}")
    if manifest.receipt is None and naming.status == STATUSES[0]:
        raise _refuse(
            f"it has no receipt, as a simulation, and its status is {naming.status!r}; a simulation's is one of"
            f" {', '.join(STATUSES[1:])}"
        )
    for file in naming.public_files:
        if not _DIGEST.fullmatch(file.sha256):
            raise _refuse(f"{file.sha256[:70]!r} is not the SHA-256 of a file")
    labels = {dimension.name: len(dimension.labels) for dimension in manifest.law.schema.dimensions}
    labels |= {} if manifest.law.areas.name is None else {manifest.law.areas.name: len(manifest.law.areas)}
    if any(len(codes) != labels.get(name) for name, codes in naming.codes):
        raise _refuse("it has codes of labels that there are not")
    sizes, areas = [n for _, n in naming.parents], manifest.law.areas
    has_parents = areas.name is not None and not manifest.law.is_tree and min(sizes, default=1) > 0
    if sizes and not (has_parents and sum(sizes) == len(areas)):
        raise _refuse(f"it has parents for {sum(sizes):,} areas, and {len(areas):,} tables")
    if naming.unpublished and (areas.name is None or not set(naming.unpublished).isdisjoint(areas)):
        raise _refuse("an area is left unpublished that it publishes")
    if any(not rows.is_public for rows in naming.kept_rows) and manifest.plan.neighbours == "bounded":
        raise _refuse("rows are kept by a column that is not public, and a changed record could leave them")
    if not _is_moment(manifest.made_at):
        raise _refuse(f"made_at is {manifest.made_at[:40]!r}, and should be a time such as 2026-11-16T11:00:00Z")
    budget, open_ones = manifest.plan.budget, [query for query in manifest.plan.requested if query.precision is None]
    if (budget is None) != (not open_ones):
        raise _refuse("a budget sets the precisions that were not given, and there are none, or there is no budget")


def _is_moment(text: str) -> bool:
    try:
        return moment(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)) == text
    except ValueError:
        return False


def _check_software(manifest: Manifest) -> None:
    if tuple(manifest.software) != SOFTWARE:
        raise _refuse(f"it records versions of {', '.join(manifest.software)}, and should of {', '.join(SOFTWARE)}")
    for name, version in manifest.software.items():
        if not _VERSION.fullmatch(version):
            raise _refuse(f"{version[:40]!r} is no version of {name}")


def _check_receipt(manifest: Manifest, receipt: Receipt) -> None:
    """See that the receipt is of this release, at its time, for its plan and its price, and that it adds up."""
    names = (manifest.naming.dataset, manifest.naming.release)
    if (receipt.dataset, receipt.release) != names:
        raise _refuse(f"its receipt is of release {receipt.release!r} of {receipt.dataset!r}")
    if receipt.at != manifest.made_at:
        raise _refuse(f"it was made at {manifest.made_at}, and its receipt is of {receipt.at[:40]}")
    if receipt.currency not in {"epsilon", "rho"} or receipt.loss != manifest.certificate.charged_in(receipt.currency):
        raise _refuse("its receipt is for another amount than its certificate")
    hashes = (receipt.hash, receipt.previous, receipt.plan)
    if not all(_DIGEST.fullmatch(digest) for digest in hashes) or len(set(hashes)) < len(hashes):
        raise _refuse("the hashes of a receipt have 64 digits 0-9 and a-f each, and differ")
    if wrong := _wrong_sums(receipt):
        raise _refuse(f"its receipt does not add up: {wrong}")
    if receipt.plan != manifest.plan_digest:
        raise _refuse("its receipt is for another plan: other names, conditions, budget or law")


def _wrong_sums(receipt: Receipt) -> str:
    """Return what does not add up in a receipt; nothing if all does."""
    before = receipt.spent - receipt.loss
    if receipt.number < 1 or before < 0:
        return f"spend {receipt.number} cost {receipt.loss}, more than the {receipt.spent} of all spends so far"
    if receipt.number == 1 and before:
        return f"the first spend cost {receipt.loss}, and all spends so far {receipt.spent}"
    if receipt.left != receipt.cap - receipt.spent or receipt.left < 0:
        return f"{receipt.spent} of {receipt.cap} is spent, and {receipt.left} cannot be left"
    return ""


@dataclass(frozen=True, eq=False)
class OpenedBundle:
    """What a bundle's files hold. Public.

    Attributes
    ----------
    levels : tuple of arrays (unit, cell)
        The tables of each level.
    signed_by : str or None
        The key that signed the manifest.
    measured_levels : tuple of arrays (unit, row)
        Of a measured release, the measurements of every level.
    more : sequence of (str, array)
        Further columns of its table: measurements and intervals.
    learned : mapping
        What the rule of its tables learned.
    """

    folder: Path
    manifest: Manifest
    levels: TreeTables
    signed_by: str | None
    measured_levels: TreeTables = ()
    more: Columns = ()
    learned: Learned = field(default_factory=dict)

    def check_other_files(self) -> None:
        """See that what was read is in the other file too, where there are two."""
        if MEASUREMENTS_CSV in self.manifest.files and self.measured_levels:
            with _open_file(self.folder, MEASUREMENTS_CSV) as file:
                check_measurements_csv(self.manifest.law, self.measured_levels[0], file)
        if PARQUET in self.manifest.files and TABLE in self.manifest.files:
            with _open_file(self.folder, TABLE) as file:
                check_csv(self.manifest.law, self.levels[0], file, csv_columns(self.manifest, self.more))

    def check_conditions(self) -> None:
        """See that tables obey the published invariants, those of a tree add up, and measurements have exact sums."""
        if self.measured_levels and not self.manifest.plan.has_exact_sums(self.measured_levels):
            raise BundleError("the measurements do not have the exact sums that the manifest states")
        if not self.levels:
            return
        areas, below = self.manifest.law.areas, self.manifest.law.below
        for number in np.flatnonzero(~areas.holds(self.levels[0]))[:1]:
            area = areas.labels[number]
            where = "the table" if area is None else f"the table of {area!r}"
            raise BundleError(f"{where} does not obey the published invariants")
        if not below.hold(self.levels):
            raise BundleError("the tables of the tree do not add up, or break a condition; get the bundle again")


@contextmanager
def memory_error_as_refusal() -> Iterator[None]:
    """Turn a lack of memory into words: what a bundle asks for is decided by whoever made it."""
    try:
        yield
    except MemoryError:
        raise BundleError(
            "the bundle takes more memory than this process can have. Verify a large bundle on a computer with more of"
            " it; a small one that asks for so much was not made by congenial"
        ) from None


@memory_error_as_refusal()
def open_bundle(folder: str | Path, *, key: str | Path | None = None, progress: Progress = silent) -> OpenedBundle:
    """Read a bundle; refuses files that the manifest does not list, and tables that break the published conditions."""
    place = Path(folder)
    if not os.path.isdir(place):
        what = "is a file" if os.path.lexists(place) else "does not exist"
        raise BundleError(f"{place} {what}; a bundle is a folder with a {MANIFEST}")
    progress("reading the manifest")
    content = _read(place, MANIFEST)
    values = untouched_values(content)
    files = _listed_files(values)
    _check_files(place, files)  # before any of them is decoded
    signed_by = _signed_by(place, content, None if key is None else Path(key))
    if is_workload(values):
        return _open_workload(place, values, signed_by)
    manifest = Manifest.from_values(
        values,
        lambda n_exact: areas_of_parquet(_read(place, AREAS), n_exact),
        lambda stated, schema: read_tree(place, stated, schema, values["version"]),
    )
    check_consistency(manifest)
    check_pages(place, [file.name for file in files_of(manifest) if file.is_page])
    progress(VERIFYING)
    measured = _measured_levels(place, manifest, progress)
    levels: TreeTables = ()
    more: Columns = ()
    if manifest.has_tables:
        tree, schema = manifest.law.tree, manifest.law.schema
        if measured:
            more = interval_columns(manifest.plan, measured[0])
        levels = (_tables(place, manifest, progress, more), *_tables_below(place, tree, schema, manifest.version))
    learned = read_learned(manifest, _read(place, LEARNED)) if has_learned(manifest) else {}
    opened = OpenedBundle(place, manifest, levels, signed_by, measured, more, learned)
    opened.check_conditions()  # before anything is computed around tables that no law allows
    return opened


def _open_workload(folder: Path, values: Mapping[str, Any], signed_by: str | None) -> OpenedBundle:
    """Read a bundle of several tables of the same records: its measurements, and its records."""
    manifest = read_manifest(values, partial(_open_file, folder))
    check_consistency(manifest)
    check_pages(folder, [file.name for file in files_of_workload(manifest) if file.is_page])
    measured, records = read_workload(manifest, partial(_open_file, folder))
    return OpenedBundle(folder, manifest, () if records is None else (records,), signed_by, measured)


def _tables(folder: Path, manifest: Manifest, progress: Progress, more: Columns) -> Ints:
    """Read the released tables (area, cell)."""
    law = manifest.law
    _check_room(len(law.areas), law.schema)
    if PARQUET not in manifest.files:
        with _open_file(folder, TABLE) as file:
            return read_csv(law, file, more)
    with _open_file(folder, PARQUET) as file:
        return read_tables(law, file, progress if len(law.areas) > AREAS_AT_ONCE else silent, more)


def _measured_levels(folder: Path, manifest: Manifest, progress: Progress) -> TreeTables:
    """Read the measurements (unit, row) of every level of a measured release; none of a conditional one."""
    law = manifest.law
    if not law.is_measured:
        return ()
    _, *below = law.names_and_codes
    columns = [measured_columns(law, level) for level in range(1, len(below) + 1)]
    n_rows, n_units = [len(law.measured), *map(len, columns)], [len(codes) for _, codes in law.names_and_codes]
    n_numbers = sum(units * rows for units, rows in zip(n_units, n_rows, strict=True))
    if wrong := explain_memory(n_numbers, f"{sum(n_units):,} units with up to {max(n_rows):,} measurements"):
        raise BundleError(wrong)
    with _open_file(folder, MEASUREMENTS) as file:
        first = read_parquet(law, file, progress if len(law.areas) > AREAS_AT_ONCE else silent)
    names = level_files(manifest, MEASURED_LEVEL)
    return (first, *_levels_below(folder, [codes for _, codes in below], names, columns))


def read_tree(folder: Path, stated: StatedTree, schema: Schema, version: int) -> TreeParts:
    """Read a tree; exact numbers below the top are those of the released tables, or of files of a measured release."""
    _check_room(sum(stated.units), schema)
    with _open_file(folder, SPINE) as file:
        tree, zeros, across = read_spine(file, stated.levels, schema.n_cells, stated.units[-1], stated.across)
    rows, exact = stated.exact_rows(schema), tuple[ExactSums | None, ...]()
    if rows and stated.is_measured:
        exact = tuple(_exact_sums(folder, tree, level, some) for level, some in enumerate(rows, 1))
    elif rows:
        exact = exact_sums(rows, _tables_below(folder, tree, schema, version))
    return TreeParts(tree, zeros, exact, across)


def _exact_sums(folder: Path, tree: Tree, level: int, rows: ExactRows | None) -> ExactSums | None:
    """Read the exact numbers of a level of a measured tree."""
    if rows is None:
        return None
    name = level_file(level + 1, tree.levels[level], of=EXACT_LEVEL)
    with _open_file(folder, name) as file:
        return ExactSums(rows, read_level(file, name, tree.codes[level], exact_columns(rows)))


def _check_room(n_tables: int, schema: Schema) -> None:
    """Refuse tables that cannot be in memory, before anything is read into them."""
    if wrong := explain_memory(n_tables * schema.n_cells, f"{n_tables:,} tables of {schema.n_cells:,} cells"):
        raise BundleError(wrong)


def _tables_below(folder: Path, tree: Tree, schema: Schema, version: int) -> TreeTables:
    levels = enumerate(tree.levels[1:], 2)
    names = [level_file(number, level if version > 2 else "") for number, level in levels]
    return _levels_below(folder, tree.codes[1:], names, [cell_columns(schema)] * len(names))


def _levels_below(
    folder: Path, units: Sequence[Codes], names: Sequence[str], columns: Sequence[Sequence[str]]
) -> TreeTables:
    """Read the file of each level below the first, and of areas that cross the tree, given the codes of their units."""
    levels = []
    for name, codes, of_level in zip(names, units, columns, strict=True):
        with _open_file(folder, name) as file:
            levels.append(read_level(file, name, codes, of_level))
    return tuple(levels)


@contextmanager
def _open_file(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of the bundle; refuses what is no ordinary file."""
    path = folder / name
    try:
        if path.is_symlink() or not path.is_file():
            raise BundleError(f"the bundle has no file {name}; it was cut short, or is not a bundle")
        with path.open("rb") as file:
            yield file
    except OSError as refused:
        raise BundleError(f"{name} cannot be read: {reason_of(refused)}") from None


def _read(folder: Path, name: str) -> bytes:
    with _open_file(folder, name) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise BundleError(f"{name} is larger than a gigabyte; no bundle has such a file")
        return file.read()


def _listed_files(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a manifest lists, with their digests; refuses names that no file of a bundle has."""
    files = values.get("files")
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise BundleError("manifest.json cannot be read: a part is missing or has the wrong form")
    for name in files:
        if not is_file_name(name):
            raise BundleError(f"manifest.json lists {name[:80]!r}, and no bundle has such a file")
    return files


def _check_files(folder: Path, files: Mapping[str, str]) -> None:
    """See that all files are there and have their digests, and that there are no others."""
    wrong = []
    for name, digest in files.items():
        try:
            with _open_file(folder, name) as file:
                if file_digest(file, "sha256").hexdigest() != digest:  # type: ignore[arg-type]
                    wrong.append(f"{name} was changed")
        except BundleError as missing:
            wrong.append(str(missing))
    strange = sorted(path.name for path in folder.iterdir() if path.name not in {*files, MANIFEST, SIGNATURE})
    wrong += [f"{name!r} does not belong to the bundle" for name in strange]
    if wrong:
        raise BundleError(f"the bundle is not as it was published: {'; '.join(wrong)}")


def check_pages(folder: Path, names: Sequence[str]) -> None:
    """Refuse pages for people with characters that do not show: they are not always made again and compared."""
    for name in names:
        try:
            text = _read(folder, name).decode()
        except UnicodeDecodeError:
            raise BundleError(f"{name} is not UTF-8 text; get the bundle from its publisher again") from None
        if hidden := first_hidden(text.replace("\n", "")):
            raise BundleError(f"{name} holds {hidden}, which does not show; get the bundle from its publisher again")


def _signed_by(folder: Path, content: bytes, key: Path | None) -> str | None:
    public = None if key is None else read_public_key(key)
    if not os.path.lexists(folder / SIGNATURE):  # a link that leads nowhere is no missing file
        if public is not None:
            raise BundleError(f"the bundle is not signed: it has no {SIGNATURE}")
        return None
    return check_signature(content, _read(folder, SIGNATURE), public)
