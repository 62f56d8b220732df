"""The registry of a bundle's files: when there is one, how it is made and verified, what README.txt says of it.

A further file is one entry of `FILES`; writing, reading, verifying and README.txt go by it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO

from congenial.arrays import Ints
from congenial.bundle.manifest import Manifest
from congenial.bundle.naming_and_versions import SOFTWARE
from congenial.errors import BundleError
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.registry import rule_named
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from congenial.bundle.table_files import Columns

MANIFEST, SIGNATURE = "manifest.json", "signature.json"
"""What is written last, and lists the others."""

TABLE, PARQUET, AREAS, SPINE = "table.csv", "table.parquet", "areas.parquet", "spine.parquet"
MEASUREMENTS, MEASUREMENTS_CSV = "measurements.parquet", "measurements.csv"
CODES = "codes.csv"
EXACT_CELLS, EXPECTED_ERRORS, REPORT, README = (
    *("exact-cells.parquet", "expected-errors.csv"),
    *("report.html", "README.txt"),
)
REPORT_ERRORS, REPORT_PICTURE = "report.html: expected errors", "report.html: picture of the noise"
"""Parts of the report without which it still says what matters."""

NOT_REQUESTED = "not asked for"
MOST_ROWS = 5_000_000
"""Rows of table.csv at most, where table.parquet has them too."""

SPREADSHEET_ROWS = 1_000_000
"""A spreadsheet opens no more. So measurements.csv has no more rows, and table.csv with more has counts alone.

The Parquet files have everything at any length.
"""

TOO_LONG = f"it would have more than {MOST_ROWS:,} rows, and table.parquet has them"
LARGEST = 1 << 30
"""Bytes of one file at most, but for the tables: a reader takes it into memory."""

_LEVEL = re.compile(
    r"(level|measurements|exact|table)-[0-9]{1,3}(-[a-z0-9-]{1,40})?\.parquet|table-[0-9]{1,3}(-[a-z0-9-]{1,40})?\.csv"
)
LEARNED = "learned.json"
RECORDS, FIT = "records.parquet", "fit.json"
"""Of several tables of the same records: made-up records, and what the rule did."""

EARLIER = "earlier-"
"""How names of files begin that are those of the release that tables agree with."""

Content = bytes | Callable[[BinaryIO], None]
"""What a file holds: bytes, or what writes them, where they are too many to have at once."""


@dataclass(frozen=True)
class BundleContents:
    """What the files of a bundle are made from. Public.

    Attributes
    ----------
    levels : tuple of arrays (unit, cell)
        The published tables of each level; of a release without tables, none.
    measured_levels : tuple of arrays (unit, row)
        Of a measured release, the measurements of every level.
    parts : callable
        Gives the parts of the report that take long, by their names in the manifest's `left_out`.
    """

    manifest: Manifest
    levels: TreeTables
    parts: Callable[[], Mapping[str, object]] = dict
    progress: Progress = silent
    measured_levels: TreeTables = ()

    @property
    def measurements(self) -> Ints | None:
        """The measurements of the first level; None of a conditional release."""
        return self.measured_levels[0] if self.measured_levels else None

    @cached_property
    def interval_columns(self) -> "Columns":
        """Of a measured release, further columns of the table: measurements, and the intervals around them."""
        from congenial.bundle.cell_intervals import interval_columns

        return interval_columns(self.manifest.plan, self.measured_levels[0]) if self.measured_levels else []


@dataclass(frozen=True)
class BundleFile:
    """One file of a bundle.

    Attributes
    ----------
    line : str
        What README.txt says of it.
    make : callable
        Makes its content.
    is_due : callable
        Whether a release with this manifest has it, unless it is left out.
    is_required : callable
        Whether there is no bundle without it. Another one that cannot be made is left out, with the reason: it must not
        cost a release that is paid for.
    output : str or None
        The output that a spec lists to have it; None where there is no choice.
    is_page : bool
        Whether it is text for people: refused where it holds characters that do not show.
    software : tuple of str
        The packages whose versions decide its bytes, where it follows from the manifest and the tables: `verify` makes
        it again where these are installed. Empty where the file is read and what is in it is checked.
    """

    name: str
    line: str
    make: Callable[[BundleContents], Content]
    is_due: Callable[[Manifest], bool] = lambda _: True
    is_required: Callable[[Manifest], bool] = lambda _: True
    output: str | None = None
    is_page: bool = False
    software: tuple[str, ...] = ()


def is_too_long(manifest: Manifest) -> bool:
    """Whether table.csv is left out because it would be too long, and table.parquet has its rows."""
    law = manifest.law
    is_long = law.schema.n_cells * len(law.areas) > MOST_ROWS
    return manifest.has_tables and PARQUET not in manifest.left_out and is_long


def csv_columns(manifest: Manifest, more: "Columns") -> "Columns":
    """Return the further columns that table.csv has: all, or none where it is long and table.parquet is there."""
    is_short = manifest.law.schema.n_cells * len(manifest.law.areas) <= SPREADSHEET_ROWS
    return more if is_short or PARQUET in manifest.left_out else []


def has_learned(manifest: Manifest) -> bool:
    """Whether the tables are by a rule that learns, and what it learned is in the bundle."""
    decision = manifest.decision
    return manifest.has_tables and decision is not None and rule_named(*decision.rule).learns


def _table(contents: BundleContents) -> Content:
    from congenial.bundle.table_files import write_csv

    more = csv_columns(contents.manifest, contents.interval_columns)
    return partial(write_csv, contents.manifest.law, contents.levels[0], progress=contents.progress, more=more)


def _parquet(contents: BundleContents) -> Content:
    from congenial.bundle.table_files import write_tables

    manifest = contents.manifest
    progress = contents.progress if is_too_long(manifest) else silent  # table.csv, beside it, tells of its own
    return partial(write_tables, manifest.law, contents.levels[0], progress=progress, more=contents.interval_columns)


def _measurements(contents: BundleContents) -> Content:
    from congenial.bundle.measurement_files import write_parquet

    return partial(write_parquet, contents.manifest.law, contents.measured_levels[0], progress=contents.progress)


def _measurements_below(number: int, contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import measured_columns, write_level

    law = contents.manifest.law
    (_, codes), columns = law.names_and_codes[number], measured_columns(law, number)
    return partial(write_level, codes, contents.measured_levels[number], columns)


def _exact_below(number: int, contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import exact_columns, write_level

    law, exact = contents.manifest.law, contents.manifest.law.exact_below[number - 1]
    if exact is None:
        raise BundleError("internal: nothing is exact in the units of this level")
    return partial(write_level, law.tree.codes[number], exact.values, exact_columns(exact.rows))


def _measurements_csv(contents: BundleContents) -> Content:
    from congenial.bundle.measurement_files import write_csv

    return partial(write_csv, contents.manifest.law, contents.measured_levels[0])


def _has_short_measurements(manifest: Manifest) -> bool:
    law = manifest.law
    return law.is_measured and len(law.measured) * len(law.areas) <= SPREADSHEET_ROWS


def _learned(contents: BundleContents) -> Content:
    from congenial.bundle.learned_numbers_file import learned_json

    return learned_json(contents.manifest, contents.measured_levels, contents.levels)


def _codes(contents: BundleContents) -> Content:
    from congenial.bundle.table_files import codes_csv

    return codes_csv(contents.manifest.law, contents.manifest.naming.codes)


def _areas(contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import areas_to_parquet

    manifest = contents.manifest
    return areas_to_parquet(manifest.law.areas, [exact.values for exact in manifest.exact_statistics])


def _spine(contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import write_spine

    law = contents.manifest.law
    return partial(write_spine, law.tree, law.zeros, law.across)


def _level(number: int, contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import cell_columns, write_level

    law = contents.manifest.law
    return partial(write_level, law.tree.codes[number], contents.levels[number], cell_columns(law.schema))


def _exact_cells(contents: BundleContents) -> Content:
    from congenial.bundle.areas_spine_and_level_files import exact_cells_to_parquet

    return exact_cells_to_parquet(contents.manifest.disclosures)


def _expected_errors(contents: BundleContents) -> Content:
    from congenial.bundle.report_and_readme import expected_errors_csv

    return expected_errors_csv(contents.manifest, contents.levels, contents.parts())


def _report(contents: BundleContents) -> Content:
    from congenial.bundle.report_and_readme import report

    return report(contents.manifest, contents.levels, contents.parts(), contents.measurements).encode()


def _readme(contents: BundleContents) -> Content:
    from congenial.bundle.report_and_readme import readme

    return readme(contents.manifest).encode()


LEVEL = BundleFile(
    *("level-{number}{name}.parquet", "the published counts of each {name}, a row a unit", partial(_level, 1)),
    is_due=lambda manifest: manifest.has_tables,
)
"""The file of each level below the first, whose tables are those of table.csv."""

MEASURED_LEVEL = BundleFile(
    "measurements-{number}{name}.parquet",
    "the measurements of each {name}, a row a unit",
    partial(_measurements_below, 1),
    is_due=lambda manifest: manifest.law.is_measured,
)
"""The same of measurements, of which those of the first level are in measurements.parquet."""

EXACT_LEVEL = BundleFile(
    "exact-{number}{name}.parquet",
    "the exact numbers of each {name}, a row a unit",
    partial(_exact_below, 1),
    is_due=lambda manifest: manifest.law.is_measured,
)
"""The exact numbers of a level of a measured tree, where there are some: they do not hang on there being tables."""

_OF_LEVELS = {EXACT_LEVEL: _exact_below, LEVEL: _level, MEASURED_LEVEL: _measurements_below}

FILES = (
    BundleFile(
        MEASUREMENTS,
        "the measurements: true counts plus noise of the published law, a row a measured number; may be negative",
        _measurements,
        is_due=lambda manifest: manifest.law.is_measured,
    ),
    BundleFile(MEASUREMENTS_CSV, "the same as CSV", _measurements_csv, is_due=_has_short_measurements),
    MEASURED_LEVEL,
    EXACT_LEVEL,
    BundleFile(
        *(TABLE, "the published counts, a row a cell", _table),
        is_due=lambda manifest: manifest.has_tables and not is_too_long(manifest),
    ),
    BundleFile(
        *(PARQUET, "the published counts as Parquet", _parquet),
        is_due=lambda manifest: manifest.has_tables,
        is_required=is_too_long,
        output="parquet",
    ),
    BundleFile(LEARNED, "what the rule learned from the measurements", _learned, is_due=has_learned),
    BundleFile(
        CODES,
        "the code of every label, as the data have it",
        _codes,
        is_due=lambda manifest: bool(manifest.naming.codes),
        software=("python", "congenial", "pyarrow"),
    ),
    BundleFile(
        AREAS,
        "the exact numbers of each area, as the manifest lists them",
        _areas,
        is_due=lambda manifest: manifest.law.areas.name is not None,
    ),
    BundleFile(
        SPINE,
        "every leaf of the tree with the units that it is part of",
        _spine,
        is_due=lambda manifest: len(manifest.law.tree.levels) > 1,
    ),
    LEVEL,
    BundleFile(
        EXACT_CELLS,
        "which cells of which areas follow from the exact numbers, so that nothing protects them",
        _exact_cells,
        is_due=lambda manifest: manifest.discloses_cells,
        is_required=lambda _: False,
        software=("python", "congenial", "pyarrow"),
    ),
    BundleFile(
        EXPECTED_ERRORS,
        "errors and biases to expect, by class of count and level",
        _expected_errors,
        is_due=lambda manifest: manifest.has_tables,
        is_required=lambda _: False,
        is_page=True,
        software=("python", "congenial", "numpy"),
    ),
    BundleFile(
        REPORT,
        "the same with tables and pictures, to read in a browser",
        _report,
        is_due=lambda manifest: manifest.has_tables,
        is_required=lambda _: False,
        output="report",
        is_page=True,
        software=tuple(name for name in SOFTWARE if name != "pyarrow"),
    ),
    BundleFile(README, "this page", _readme, is_page=True, software=("python", "congenial")),
)
"""In the order of the manifest; README.txt, which speaks of the others, is made last."""


def level_file(number: int, level: str = "", *, of: BundleFile = LEVEL) -> str:
    """Return the name of a level's file; the first level is number 1 and has table.csv.

    Parameters
    ----------
    level : str
        What the level is called; bundles of format 2 do not say it.
    of : BundleFile
        `LEVEL` or `MEASURED_LEVEL`.

    Examples
    --------
    >>> level_file(2, "Census tract"), level_file(3, "block", of=MEASURED_LEVEL)
    ('level-2-census-tract.parquet', 'measurements-3-block.parquet')
    """
    letters = re.sub(r"[^a-z0-9]+", "-", level.lower()).strip("-")[:40].strip("-")
    return of.name.format(number=number, name=f"-{letters}" if letters else "")


def level_files(manifest: Manifest, of: BundleFile = LEVEL) -> list[str]:
    """Return the names of the files of levels below the first; of measurements, also that of areas across the tree."""
    law = manifest.law
    names = [name for name, _ in law.names_and_codes][1:] if of is MEASURED_LEVEL else law.tree.levels[1:]
    return [level_file(number, name if manifest.version > 2 else "", of=of) for number, name in enumerate(names, 2)]


def is_file_name(name: str) -> bool:
    """Whether a bundle can have a file of this name, besides the manifest and its signature."""
    if name.startswith(EARLIER):
        name = name.removeprefix(EARLIER)
        return name == MANIFEST or is_file_name(name)
    return (
        _LEVEL.fullmatch(name) is not None
        or name in {RECORDS, FIT}
        or name in {file.name for file in FILES if file not in _OF_LEVELS}
    )


def files_of(manifest: Manifest) -> list[BundleFile]:
    """Return the files that a bundle with this manifest has, those that were left out not among them."""
    return [file for file in _expanded(manifest) if file.is_due(manifest) and file.name not in manifest.left_out]


def _expanded(manifest: Manifest) -> Iterator[BundleFile]:
    """Go through the registry, with an entry for each level below the first."""
    for file in FILES:
        if file not in _OF_LEVELS:
            yield file
            continue
        names = zip([name for name, _ in manifest.law.names_and_codes][1:], level_files(manifest, file), strict=False)
        for number, (level, name) in enumerate(names, 1):
            if file is EXACT_LEVEL and (not manifest.law.exact_below or manifest.law.exact_below[number - 1] is None):
                continue
            make = partial(_OF_LEVELS[file], number)
            yield replace(file, name=name, line=file.line.format(name=level), make=make)


def not_requested(outputs: Sequence[str]) -> dict[str, str]:
    """Return the files that a release with these outputs leaves out, with the reason."""
    return {file.name: NOT_REQUESTED for file in FILES if file.output not in {None, *outputs}}


def optional_names(manifest: Manifest) -> list[str]:
    """Return what a bundle with this manifest may leave out."""
    due = [file for file in FILES if file.is_due(manifest)]
    names = [file.name for file in due if file.output or not file.is_required(manifest)]
    names += [REPORT_ERRORS, REPORT_PICTURE] if REPORT in {file.name for file in files_of(manifest)} else []
    return [*names, TABLE] if is_too_long(manifest) else names
