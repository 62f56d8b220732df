"""Which files a spec names, and which columns they have; the files that a message points to in place of values.

Column names are public; rows are not looked at here.
"""

import codecs
import csv
import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from congenial.bundle.naming_and_versions import PublicFile, RowFilter
from congenial.disk_and_gzip import GZIP, read_beginning
from congenial.errors import ReadingError, did_you_mean, reason_of
from congenial.safe_text import is_formula, on_one_line
from congenial.spec.dimension_levels_and_public_lists import public_file
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import CONFIDENTIAL

_HEAD = 1_000_000  # bytes in which the header of a CSV file must end
_PARQUET = b"PAR1"
_PACKED = {GZIP: "gzip, twice", b"PK": "zip", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ": "xz"}
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SEPARATOR_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class FileColumn:
    """A column of a file; CSV columns are all text."""

    name: str
    type: str = "VARCHAR"


@dataclass(frozen=True)
class Source:
    """Files of one format with the same columns, and which of their rows are read.

    Attributes
    ----------
    is_grouped : bool
        Whether it is no file but rows that were grouped elsewhere; the last column says how many each one stands for.
    """

    paths: tuple[Path, ...]
    is_parquet: bool
    columns: tuple[FileColumn, ...]
    is_packed: bool = False
    row_filters: tuple[RowFilter, ...] = ()
    is_grouped: bool = False

    def place(self, name: str) -> int:
        """Return where the one column of this name stands."""
        places = [place for place, column in enumerate(self.columns) if column.name == name]
        if len(places) == 1:
            return places[0]
        file = self.paths[0].name
        if places:
            raise ReadingError(f"{file} has {len(places)} columns with the name {name!r}; rename all but one")
        raise ReadingError(f"{file} has no column {name!r}; {self._hint(name)}")

    def _hint(self, name: str) -> str:
        """Name the closest column. The others of a CSV file are not listed: without a header they would be a row."""
        names = [column.name for column in self.columns]
        if self.is_parquet or get_close_matches(name, names, n=1):
            return did_you_mean(name, names)
        return "its first line must hold the names of the columns"


def find_files(patterns: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """Return the files that a spec names: a pattern is one only if no file has that very name."""
    paths: list[Path] = []
    for pattern in patterns:
        if "://" in pattern:
            raise ReadingError(f"{pattern!r} is an address on a network; data are read from files on this machine only")
        path = folder / pattern
        try:
            if path.exists():
                paths.append(path)
                continue
        except OSError as error:
            reason = reason_of(error)
            raise ReadingError(f"{pattern[:100]!r} cannot be looked up: {reason}") from None
        if not glob.has_magic(pattern):
            raise ReadingError(f"the data file {pattern!r} does not exist; paths start at the folder of the spec")
        matches = [folder / match for match in sorted(glob.glob(pattern, root_dir=folder, recursive=True))]
        matches = [match for match in matches if match.is_file() and not match.name.startswith(CONFIDENTIAL)]
        if not matches:
            raise ReadingError(f"no file matches {pattern!r}; paths start at the folder of the spec")
        paths += matches
    for path in paths:
        if path.is_dir():
            raise ReadingError(
                f"{path.name!r} is a folder, not a file; write {path.name + '/*.csv'!r} for the files in it"
            )
        if not path.is_file():
            raise ReadingError(f"{path.name!r} is not an ordinary file")
        if any("\ud800" <= letter <= "\udfff" for letter in str(path)):  # bytes that are no text: DuckDB cannot open it
            raise ReadingError(f"the name {path.name!r} is not UTF-8 text; rename the file, or its folder")
    unique = tuple(dict.fromkeys(path.resolve() for path in paths))
    if len(unique) != len(paths):
        raise ReadingError("a data file is named twice; its rows would count twice")
    return unique


def first_bytes(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked; refuses files that are empty or cannot be opened."""
    try:
        head = read_beginning(path, _HEAD)
    except OSError as error:
        raise ReadingError(f"{path.name} cannot be opened: {reason_of(error)}") from None
    if not head:
        raise ReadingError(f"{path.name} is empty")
    return head


def is_parquet(path: Path, head: bytes) -> bool:
    """Whether a file says that it is Parquet."""
    if head.startswith(_PARQUET):
        return True
    if path.suffix in {".parquet", ".pq"}:
        raise ReadingError(f"{path.name} is not a Parquet file, though its name says so")
    return False


def read_csv_columns(path: Path, head: bytes, separator: str) -> tuple[FileColumn, ...]:
    """Return the columns in the first line of a CSV file."""
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise ReadingError(f"{path.name} is packed ({name}); unpack it, pack it by gzip, or store it as Parquet")
    if head.startswith(_UTF_16) or b"\0" in head[:4096]:
        raise ReadingError(f"{path.name} is not UTF-8 text (UTF-16, or no text at all); save it as UTF-8")
    header = head.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    names = None
    for count in range(1, min(len(header), 100) + 1):  # a quoted name may hold line breaks
        try:
            text = b"".join(header[:count]).decode()
        except UnicodeDecodeError:
            raise ReadingError(f"{path.name} is not UTF-8 text: line {count}; save it as UTF-8") from None
        try:
            rows = list(csv.reader(text.splitlines(keepends=True), delimiter=separator, strict=True))
        except csv.Error:
            continue
        names = rows[0] if rows else []
        break
    if not names:
        raise ReadingError(f"{path.name}: the first line must hold the names of the columns")
    if len(names) == 1:
        others = [name for other, name in _SEPARATOR_NAMES.items() if other != separator and other in names[0]]
        if others:
            raise ReadingError(
                f"{path.name} has one column, and its name holds a {others[0]};"
                f" write `separator: {others[0]}` under `data:` if that is what separates columns"
            )
    return tuple(FileColumn(name) for name in names)


# The public files that a spec names: lists of levels, of areas, and of a tree's leaves. None of them is the data.


def public_files(spec: Spec, folder: Path) -> tuple[PublicFile, ...]:
    """Return what the manifest says of them: what each gives, its name and its SHA-256."""
    leaves = [public_file(f"every {spec.level_names[-1]}", path) for path in _leaf_lists(spec, folder.resolve())]
    return (*(fact for _, fact in spec.public_files), *leaves)


def _leaf_lists(spec: Spec, folder: Path) -> tuple[Path, ...]:
    return () if spec.hierarchy is None else find_files(spec.hierarchy.lists, folder)


def check_lists_are_public(spec: Spec, folder: Path, data: Sequence[Path]) -> None:
    """Refuse a public list that is a file of confidential data: that would disclose which levels occur."""
    if spec.data.status != "confidential":
        return
    for path in (*(path.resolve() for path, _ in spec.public_files), *_leaf_lists(spec, folder)):
        if path in data:
            raise ReadingError(
                f"{path.name} is a data file of the spec, which is confidential, and a list of levels, which is public;"
                " make the list from a public source, or state `status: public` if the data are"
            )


# Confidential CSV files: what a message may not say, readable by their owner alone.

_MOST_ROWS = 10_000


def write_confidential_csv(
    file: Path, header: Sequence[str], rows: Iterable[Sequence[object]], *, most_rows: int | None = _MOST_ROWS
) -> str:
    """Write some rows and return where they are, as the end of a sentence.

    A person reads the file, in a spreadsheet perhaps, and its texts may come from anywhere: characters that do not show
    are escaped, and what a spreadsheet would compute begins with an apostrophe.
    """
    try:
        file.unlink(missing_ok=True)  # whatever stands there, a link to a public file included, is not written to
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(map(_cell, header))
            writer.writerows(map(_cell, row) for row in islice(rows, most_rows))
    except OSError:
        return f"could not be written to {file.name}: is the folder of the spec writable?"
    return f"is in {file.name}, which stays confidential"


def _cell(value: object) -> object:
    text = on_one_line(value) if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and is_formula(text) else text
