"""The declared levels of a dimension: labels, codes in the data, intervals, and named groups."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import file_digest
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.bundle.naming_and_versions import PublicFile
from congenial.disk_and_gzip import read_beginning
from congenial.errors import ConditionError, CongenialError, SchemaError, did_you_mean, reason_of
from congenial.safe_text import LONGEST, explain_hidden, shows
from congenial.schema import Schema
from congenial.spec.yaml_and_mistakes import KeyPath, Mistakes

if TYPE_CHECKING:
    from congenial.spec.file_format import AreaEntry, DimensionEntry, ListEntry, RangeEntry

# A public CSV file beside the spec: some of its columns, line by line, and the hash that says which file it was.

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
    path = _existing_file(file, folder)
    try:
        content = read_beginning(path, LARGEST + 1)
    except OSError as error:
        raise SchemaError(f"{file} cannot be read: {reason_of(error)}") from None
    except CongenialError as error:
        raise SchemaError(str(error)) from None
    if len(content) > LARGEST:
        raise SchemaError(f"{path.name} is larger than {LARGEST:,} bytes, the most that a public list may have")
    if content.startswith(b"PAR1"):
        raise SchemaError(f"{path.name} is a Parquet file; a public list is CSV, packed by gzip or not")
    rows = _rows(path, _decoded(content, path.name), columns, separator)
    if all(map(_is_valid, set(rows.columns))):
        return rows
    for row, values in enumerate(zip(*rows.columns, strict=True)):
        for column, value in zip(columns, values, strict=True):
            if wrong := _explain_text(value):
                raise rows.refused(row, f"{column!r} {wrong}")
    return rows


def _is_valid(column: Sequence[str]) -> bool:
    """Whether no text of a column is wrong, seen at once: one by one a list of 100,000 takes a second."""
    return all(map(str.strip, column)) and max(map(len, column)) <= LONGEST and shows("".join(column))


def _existing_file(file: str, folder: Path | None) -> Path:
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
        places = [_column_index(header, column, path.name) for column in columns]
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
    values = {place: tuple(row[place] for row in rows) for place in set(places)}
    return PublicRows(path, tuple(lines), tuple(values[place] for place in places))


def _column_index(header: Sequence[str], column: str, name: str) -> int:
    if header.count(column) == 1:
        return header.index(column)
    if column in header:
        raise SchemaError(f"{name}, line 1: there are {header.count(column)} columns {column!r}; rename all but one")
    raise SchemaError(f"{name}, line 1: there is no column {column!r}; {did_you_mean(column, header)}")


def _explain_text(value: str) -> str:
    """Return why a text cannot be a code or a label, as the end of a sentence; nothing if it can."""
    if not value.strip():
        return "is empty; give every row a text here"
    if len(value) > LONGEST:
        return f"has {len(value):,} letters, and the limit is {LONGEST:,}"
    return explain_hidden(value, repr(value[:40]))


# The levels of a dimension, or the areas, from a public file: a row a level. It is never made from the data.


@dataclass(frozen=True)
class PublicList:
    """What a file lists, in its order.

    Attributes
    ----------
    parents : tuple of str
        What each area is part of; empty where the spec names no such column.
    path : Path
        Where the file is.
    file : PublicFile
        What the manifest says of it.
    """

    codes: tuple[str, ...]
    labels: tuple[str, ...]
    parents: tuple[str, ...]
    path: Path
    file: PublicFile


def read_list(entry: "ListEntry", name: str, gives: str, folder: Path | None) -> PublicList:
    """Read the list that a spec names.

    Parameters
    ----------
    name : str
        Of the dimension, or of what an area is: the column of codes if the spec names none.
    gives : str
        What it is a list of, in words.
    folder : path or None
        The folder of the spec, where paths start; None for a spec that is text alone.
    """
    if entry.file is None:
        raise SchemaError("a list of levels needs its `file:`")
    code, parent = entry.code or name, getattr(entry, "parent", None)
    columns = [code, entry.label or code, *([] if parent is None else [parent])]
    rows = read_public_csv(entry.file, folder, columns, entry.separator)
    rows.check_once(0, code, "list each level once")
    rows.check_once(1, columns[1], "take a column of names that differ, or leave `label` out")
    codes, labels, *parents = rows.columns
    return PublicList(codes, labels, parents[0] if parents else (), rows.path, rows.as_fact(gives))


@dataclass(frozen=True)
class Levels:
    """How one column of the data becomes the labels of a dimension. Public.

    Attributes
    ----------
    labels : sequence of str
    codes : sequence of str
        The values in the data, one for each label; empty when a numeric column is cut.
    cut : tuple of float
        Where the intervals begin; `has_below` says whether a level lies below the first.
    has_empty : bool
        Whether the last label is of rows without a value; its code is the empty text.
    groups : mapping from name to labels
    listed : PublicList or None
        The public file that lists the levels, where the spec names one.
    """

    name: str
    column: str
    labels: Sequence[str]
    codes: Sequence[str] = ()
    cut: tuple[float, ...] = ()
    has_below: bool = False
    has_empty: bool = False
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_ordered: bool = False
    listed: PublicList | None = None

    @property
    def widths(self) -> tuple[Fraction, ...] | None:
        """How wide cut intervals are, an open one as wide as its neighbour; None where labels have to say it."""
        if len(self.cut) < 2:
            return None
        inner = [Fraction(repr(high)) - Fraction(repr(low)) for low, high in pairwise(self.cut)]
        return (*(inner[:1] if self.has_below else []), *inner, inner[-1])

    @property
    def n_stated(self) -> int:
        """How many levels are of values that a row can have."""
        return len(self.labels) - self.has_empty

    @cached_property
    def codes_known(self) -> frozenset[str]:
        """The codes, to look up one of thousands."""
        return frozenset(self.codes)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each label stands."""
        return {label: place for place, label in enumerate(self.labels)}

    def knows(self, word: str) -> bool:
        """Whether a word is the name of a group or of a label."""
        return word in self.groups or word in self.places

    def in_order(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return labels as they were declared, each once."""
        return tuple(sorted(set(labels), key=self.places.__getitem__))

    def pick(self, word: str) -> tuple[str, ...]:
        """Return the labels that a group's or a label's name stands for."""
        if word in self.groups:
            return self.groups[word]
        if word in self.places:
            return (word,)
        if word in self.codes:
            label = self.labels[self.codes.index(word)]
            raise ConditionError(f"{word!r} is a code of {self.name!r} in the data; write its label {label!r}")
        hint = did_you_mean(word, [*self.groups, *self.labels])
        raise ConditionError(f"{word!r} is not a label or group of dimension {self.name!r}; {hint}")


def schema_of(dimensions: Iterable[Levels]) -> Schema:
    """Return the schema of declared dimensions."""
    known = list(dimensions)
    ordered = {levels.name: levels.widths for levels in known if levels.is_ordered}
    groups = {levels.name: levels.groups for levels in known}
    return Schema({levels.name: levels.labels for levels in known}, groups, ordered)


def read_levels(
    name: str, entry: "list[str] | DimensionEntry | AreaEntry", mistakes: Mistakes, path: KeyPath
) -> Levels | None:
    """Return the levels that a dimension, or the areas, declare; None when they are noted as mistaken."""
    from congenial.spec.file_format import DimensionEntry, ListEntry

    before = len(mistakes.by_path)
    levels, folder = None, mistakes.document.folder
    with mistakes.at(path):
        if isinstance(entry, list):
            levels = _written(name, name, entry)
        elif isinstance(entry, DimensionEntry):
            levels = _with_empty(_dimension(name, entry, folder), entry.empty)
            if entry.ordered and levels.has_empty:
                raise SchemaError(
                    "`ordered` and `empty` do not go together: rows without a value stand nowhere in order"
                )
            is_ordered = entry.ordered or (entry.cut is not None and not levels.has_empty)
            levels = replace(levels, is_ordered=is_ordered)
            for group, members in entry.groups.items():
                with mistakes.at((*path, "groups", group)):
                    levels.groups[group] = _members(levels, group, members)
        elif isinstance(entry.levels, ListEntry):
            listed = read_list(entry.levels, name, "areas", folder)
            levels = _with_empty(_from_file(name, entry.column or name, listed), entry.empty)
        else:
            levels = _with_empty(_written(name, entry.column or name, entry.levels), entry.empty)
    return levels if len(mistakes.by_path) == before else None


def _dimension(name: str, entry: "DimensionEntry", folder: Path | None) -> Levels:
    from congenial.spec.file_format import ListEntry

    if (entry.levels is None) == (entry.cut is None):
        raise SchemaError(f"dimension {name!r} needs its `levels`, or a `cut` for a numeric column: one of them")
    if entry.below and entry.cut is None:
        raise SchemaError("`below` goes with `cut`")
    column = entry.column or name
    if entry.cut is not None:
        return _intervals(name, column, entry.cut, has_below=entry.below)
    if isinstance(entry.levels, ListEntry):
        return _from_file(name, column, read_list(entry.levels, name, f"levels of {name}", folder))
    return _written(name, column, entry.levels)


def _from_file(name: str, column: str, listed: PublicList) -> Levels:
    return Levels(name, column, listed.labels, listed.codes, listed=listed)


def _written(name: str, column: str, entry: list[str] | dict[str, str] | None) -> Levels:
    """Return levels that stand in the spec itself."""
    if not entry:
        raise SchemaError(f"{name!r} needs its `levels`: a list, a mapping from codes in the data to labels, or a file")
    labels = tuple(entry if isinstance(entry, list) else entry.values())
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise SchemaError(f"{name!r} has the level {label!r} twice")
        seen.add(label)
    return Levels(name, column, labels, tuple(entry))


def _with_empty(levels: Levels, label: str | None) -> Levels:
    """Add the level of rows that have no value, if one is declared."""
    if label is None:
        return levels
    if label in levels.places:
        raise SchemaError(
            f"{levels.name!r} has the level {label!r} already; rows without a value need one of their own"
        )
    codes = () if levels.cut else (*levels.codes, "")
    return replace(levels, labels=(*levels.labels, label), codes=codes, has_empty=True)


def _intervals(name: str, column: str, cut: list[Fraction], *, has_below: bool) -> Levels:
    """Return half-open intervals; the data are compared as doubles, so the ends must differ as doubles."""
    if not cut:
        raise SchemaError(f"dimension {name!r}: `cut` needs at least one number")
    if any(abs(end) > 10**300 for end in cut):
        raise SchemaError(f"dimension {name!r}: the numbers of `cut` must lie between -1e300 and 1e300")
    ends = tuple(float(end) for end in cut)
    for before, after in pairwise(ends):
        if not before < after:
            raise SchemaError(f"dimension {name!r}: the numbers of `cut` must rise, and {after:g} follows {before:g}")
    words = [_number(end) for end in cut]
    labels = [f"{low} to <{high}" for low, high in pairwise(words)]
    below = [f"below {words[0]}"] if has_below else []
    return Levels(name, column, (*below, *labels, f"{words[-1]} or more"), cut=ends, has_below=has_below)


def _number(value: Fraction) -> str:
    """Write a number as people do where that is exact."""
    if value.denominator == 1:
        return str(value.numerator)
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else str(value)


def _members(levels: Levels, group: str, entry: "str | list[str] | RangeEntry") -> tuple[str, ...]:
    if group in levels.places:
        raise SchemaError(f"{group!r} is a label of {levels.name!r} and cannot be the name of a group too")
    if isinstance(entry, str | list):
        members = [entry] if isinstance(entry, str) else entry
        if not members:
            raise SchemaError(f"group {group!r} of {levels.name!r} is empty; name at least one level")
        return levels.in_order(label for member in members for label in levels.pick(member))
    if entry.start is None and entry.end is None:
        raise SchemaError(f"group {group!r} of {levels.name!r} needs a `from`, a `to` or both")
    start = 0 if entry.start is None else _place(levels, entry.start)
    end = levels.n_stated - 1 if entry.end is None else _place(levels, entry.end)
    if start > end:
        raise SchemaError(f"group {group!r} of {levels.name!r}: {entry.start!r} stands after {entry.end!r}; swap them")
    return tuple(levels.labels[start : end + 1])


def _place(levels: Levels, label: str) -> int:
    if label not in levels.places:
        raise SchemaError(f"{label!r} is not a level of {levels.name!r}; {did_you_mean(label, levels.labels)}")
    return levels.places[label]
