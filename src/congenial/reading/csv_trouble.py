"""Why a CSV file could not be read, in our own words: a line number, never what stands there."""

import csv
import io
from pathlib import Path

from congenial.packing import opened


def csv_trouble(path: Path, n_columns: int, separator: str) -> str | None:
    """Read a refused file again, slowly, and say what is wrong with it; None when nothing is found."""
    ends: set[bytes] = set()
    with opened(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"{path.name} is not UTF-8 text: line {number}; save it as UTF-8"
            ends.add(b"\r\n" if line.endswith(b"\r\n") else line[-1:])
    with opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=separator, strict=True)
        try:
            for row in reader:
                if row and len(row) != n_columns:
                    return (
                        f"{path.name}, line {reader.line_num}: the row has {len(row)} fields, the header {n_columns};"
                        " a field that holds the separator or a line break must be in quotes"
                    )
        except csv.Error:
            return f"{path.name}, line {reader.line_num}: a quote is opened or closed in the wrong place"
    if {b"\r\n", b"\n"} <= ends:
        return f"{path.name} ends some lines in one way and some in another; save it with one kind of line end"
    return None
