"""A public CSV file beside the spec: some of its columns, line by line, and the hash that says which file it was."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path

from congenial.bundle.naming import PublicFile
from congenial.errors import CongenialError, SchemaError, did_you_mean, reason_of
from congenial.packing import beginning
from congenial.plain_text import LONGEST, shows, what_is_hidden

LARGEST = 100_000_000  # bytes, unpacked: a million rows of a hundred letters
MOST_ROWS = 1_000_000


@dataclass(frozen=True)
class PublicRows:
    """Columns of a public file, row by row, and where each row stands.

    Attributes
    ----------
    path : Path
    lines : tuple of int
        The line of each row, the header being line 1.
    columns : tuple of tuples of str
        Those that were asked for, in that order.
    """

    path: Path
    lines: tuple[int, ...]
    columns: tuple[tuple[str, ...], ...]

    def refused(self, row: int, what: str) -> SchemaError:
        """Return the error that says what is wrong in a row."""
        return SchemaError(f"{self.path.name}, line {self.lines[row]}: {what}")

    def check_once(self, column: int, name: str, way_out: str) -> None:
        """Refuse a value that stands in a column twice."""
        if len(set(self.columns[column])) == len(self.columns[column]):
            return
        seen: dict[str, int] = {}
        for row, value in enumerate(self.columns[column]):
            first = seen.setdefault(value, row)
            if first != row:
                raise self.refused(row, f"{name} {value!r} stands in line {self.lines[first]} already; {way_out}")

    def as_fact(self, gives: str) -> PublicFile:
        """Return what the manifest says of the file."""
        return public_file(gives, self.path)


def public_file(gives: str, path: Path) -> PublicFile:
    """Return what the manifest says of a public file: what it gives, its name and its SHA-256."""
    with path.open("rb") as stream:
        return PublicFile(gives, path.name, file_digest(stream, "sha256").hexdigest())


def read_public_csv(file: str, folder: Path | None, columns: Sequence[str], separator: str) -> PublicRows:
    """Return the named columns of a public file; what is wrong is said with its line, for all of it is public.

    Parameters
    ----------
    folder : path or None
        The folder of the spec, where paths start; None for a spec that is text alone.
    """
    path = _found(file, folder)
    try:
        content = beginning(path, LARGEST + 1)
    except OSError as error:
        raise SchemaError(f"{file} cannot be read: {reason_of(error)}") from None
    except CongenialError as error:
        raise SchemaError(str(error)) from None
    if len(content) > LARGEST:
        raise SchemaError(f"{path.name} is larger than {LARGEST:,} bytes, the most that a public list may have")
    if content.startswith(b"PAR1"):
        raise SchemaError(f"{path.name} is a Parquet file; a public list is CSV, packed by gzip or not")
    found = _rows(path, _decoded(content, path.name), columns, separator)
    if all(map(_is_right, set(found.columns))):
        return found
    for row, values in enumerate(zip(*found.columns, strict=True)):
        for column, value in zip(columns, values, strict=True):
            if wrong := _wrong(value):
                raise found.refused(row, f"{column!r} {wrong}")
    return found


def _is_right(column: Sequence[str]) -> bool:
    """Whether no text of a column is wrong, seen at once: one by one a list of 100,000 takes a second."""
    return all(map(str.strip, column)) and max(map(len, column)) <= LONGEST and shows("".join(column))


def _found(file: str, folder: Path | None) -> Path:
    if folder is None:
        raise SchemaError(f"the text of a spec does not say where {file!r} is; say which folder the spec is in")
    path = folder / file
    try:
        if not path.is_file():
            raise SchemaError(f"the public list {file[:100]!r} does not exist; paths start at the folder of the spec")
    except OSError as error:
        raise SchemaError(f"{file[:100]!r} cannot be looked up: {reason_of(error)}") from None
    return path


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise SchemaError(f"{name}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None


def _rows(path: Path, text: str, columns: Sequence[str], separator: str) -> PublicRows:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines, rows = [], []
    try:
        header = next(reader, [])
        places = [_place(header, column, path.name) for column in columns]
        for row in reader:
            if len(row) == len(header):
                lines.append(reader.line_num)
                rows.append(row)
            elif row:
                raise SchemaError(
                    f"{path.name}, line {reader.line_num}: the row has {len(row)} fields, the header {len(header)}"
                )
    except csv.Error:
        where = f"{path.name}, line {reader.line_num}"
        raise SchemaError(f"{where}: a quote is opened or closed in the wrong place") from None
    if not 0 < len(rows) <= MOST_ROWS:
        raise SchemaError(f"{path.name} has {len(rows):,} rows below its header; 1 to {MOST_ROWS:,} are read")
    found = {place: tuple(row[place] for row in rows) for place in set(places)}
    return PublicRows(path, tuple(lines), tuple(found[place] for place in places))


def _place(header: Sequence[str], column: str, name: str) -> int:
    if header.count(column) == 1:
        return header.index(column)
    if column in header:
        raise SchemaError(f"{name}, line 1: there are {header.count(column)} columns {column!r}; rename all but one")
    raise SchemaError(f"{name}, line 1: there is no column {column!r}; {did_you_mean(column, header)}")


def _wrong(value: str) -> str:
    """Return why a text cannot be a code or a label, as the end of a sentence; nothing if it can."""
    if not value.strip():
        return "is empty; give every row a text here"
    if len(value) > LONGEST:
        return f"has {len(value):,} letters, and the limit is {LONGEST:,}"
    return what_is_hidden(value, repr(value[:40]))
