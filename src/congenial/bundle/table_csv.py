"""Released tables as CSV: one row a cell, readable by base R, spreadsheets and anything else."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import product

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.file_names import LARGEST, TABLE
from congenial.conditions.areas import Area
from congenial.errors import BundleError
from congenial.plain_text import is_taken_for_a_formula
from congenial.public_law import PublicLaw
from congenial.schema import Schema

COUNT = "count"
_LONGEST_COUNT = 21  # a sign, 19 digits and the end of the line


def formula_warnings(schema: Schema, areas: Iterable[str | None]) -> list[str]:
    """Return a warning, if one is due, about labels that a spreadsheet would compute in place of showing them.

    They stay as they are in the file, for a program compares them letter by letter.

    Parameters
    ----------
    areas : texts
        What an area is called, and the areas' labels.
    """
    texts = [text for dimension in schema.dimensions for text in (dimension.name, *dimension.labels)]
    found = [text for text in (*areas, *texts) if text is not None and is_taken_for_a_formula(text)]
    if not found:
        return []
    more = f" and {len(found) - 1:,} more" if len(found) > 1 else ""
    return [f"A spreadsheet would take the label {found[0]!r}{more} for a formula: import table.csv as text."]


def header_of(law: PublicLaw) -> list[str]:
    """Return the columns: the area if there are several, the dimensions, the count."""
    names = [*([] if law.areas.name is None else [law.areas.name]), *law.schema.names]
    count = COUNT
    while count in names:
        count = f"released_{count}"
    return [*names, count]


def types_of(law: PublicLaw) -> dict[str, str]:
    """Return the type of each column in a Parquet file: labels are text."""
    *labels, count = header_of(law)
    return {**dict.fromkeys(labels, "VARCHAR"), count: "BIGINT"}


def _labels(law: PublicLaw) -> Iterator[tuple[str, ...]]:
    return product(*(dimension.labels for dimension in law.schema.dimensions))


def check_size(law: PublicLaw) -> None:
    """Refuse, before anything is spent, tables whose file could be larger than a reader takes, whatever is drawn."""
    n_rows = law.schema.n_cells * len(law.areas)
    columns = [dimension.labels for dimension in law.schema.dimensions]
    if law.areas.name is not None:
        columns.append(tuple(map(str, law.areas)))
    widths = [Fraction(sum(len(label.encode()) + label.count('"') + 3 for label in own), len(own)) for own in columns]
    size = int(n_rows * (sum(widths) + _LONGEST_COUNT))
    if size > LARGEST:
        raise BundleError(
            f"the {n_rows:,} rows of {TABLE} can take {size:,} bytes, and a file of a bundle has at most {LARGEST:,};"
            " nothing was charged. Release fewer areas or fewer cells at a time"
        )


def tables_to_csv(law: PublicLaw, tables: Mapping[Area, Ints]) -> bytes:
    """Return the tables as CSV bytes: labels quoted, so that "010" stays text; areas and cells in declared order."""
    # All but the area and the counts is the same in the lines of every area, and made once.
    ends = ["", *(",".join(map(_quoted, labels)).replace("%", "%%") + ",%d\n" for labels in _labels(law))]
    out = [",".join(map(_quoted, header_of(law))), "\n"]
    for area in law.areas:
        head = "" if area is None else f"{_quoted(area)},".replace("%", "%%")
        out.append(head.join(ends) % tuple(tables[area].tolist()))
    return "".join(out).encode()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def tables_from_csv(law: PublicLaw, content: bytes) -> dict[Area, Ints]:
    """Read what `tables_to_csv` wrote, and refuse anything else."""
    try:
        lines = content.decode().split("\n")[1:-1]
        counts = np.array([int(line[line.rfind(",") + 1 :]) for line in lines], np.int64)
        tables = dict(zip(law.areas, counts.reshape(len(law.areas), law.schema.n_cells), strict=True))
    except (ValueError, OverflowError):
        raise BundleError(_what_is_wrong(law, content)) from None
    if tables_to_csv(law, tables) != content:  # 1_0, +1 or other line ends say the same and are not what was written
        raise BundleError(_what_is_wrong(law, content))
    return tables


def _what_is_wrong(law: PublicLaw, content: bytes) -> str:
    """Say why a file is not the tables of a law as `tables_to_csv` writes them."""
    try:
        lines = list(csv.reader(io.StringIO(content.decode()), strict=True))
    except (UnicodeDecodeError, csv.Error):
        return "table.csv is not the CSV that was published"
    if not lines or lines[0] != header_of(law) or len(lines) != 1 + law.schema.n_cells * len(law.areas):
        return "table.csv does not have the columns and rows that the manifest describes"
    expected = [[*([] if area is None else [area]), *labels] for area in law.areas for labels in _labels(law)]
    if [line[:-1] for line in lines[1:]] != expected:
        return "table.csv does not have the labels that the manifest describes, in their order"
    return "table.csv has a count that is not a whole number as it was written"
