"""What does not fit the declared levels: named by column in the message, by value in a file marked CONFIDENTIAL."""

from collections.abc import Sequence
from pathlib import Path

from congenial.errors import ReadingError
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.files import Source
from congenial.reading.session import Session
from congenial.reading.sql import place_of, rows_of
from congenial.spec.levels import Levels

_MOST_VALUES = 1_000  # of each column
_HEADER = ("column", "value", "rows")

Unknown = tuple[str, int]
"""A value that is not a declared level and how many rows have it."""


def raise_unknown(
    session: Session,
    sources: Sequence[Source],
    levels: Sequence[Levels],
    separator: str,
    file: Path,
) -> None:
    """Raise what is wrong with the columns of the dimensions; the values go to `file`, never into the message."""
    problems: list[str] = []
    listed: list[tuple[str, str, int]] = []
    for number, dimension in enumerate(levels):
        has_empty, unknown = _misfits(session, sources, dimension, number, separator)
        if has_empty:
            problems.append(
                f"column {dimension.column!r} has empty values; give each row a level, or declare one for"
                " them: `empty: not stated` beside its levels"
            )
        if unknown:
            what = "numbers outside the declared cuts, or no numbers," if dimension.cut else "values"
            problems.append(
                f"column {dimension.column!r} has {what} that are not declared levels{_hints(dimension, unknown)}"
            )
            listed += [(dimension.column, value, rows) for value, rows in unknown]
    where = f"; what they are {write_confidential_csv(file, _HEADER, listed)}" if listed else ""
    raise ReadingError("; ".join(problems or ["some rows do not fit the declared levels"]) + where)


def _misfits(
    session: Session, sources: Sequence[Source], levels: Levels, number: int, separator: str
) -> tuple[bool, list[Unknown]]:
    rows = rows_of(sources, [levels, levels.column], separator)
    place, join = place_of("v0", levels, number)
    found = session.rows(
        f"SELECT v1, sum(w)::BIGINT AS n FROM ({rows}){join} WHERE {place} IS NULL"  # noqa: S608  quoted by `quoted`
        f" GROUP BY v1 ORDER BY v1 IS NOT NULL, n DESC, v1 LIMIT {_MOST_VALUES + 1}"
    )
    values = found or []
    return any(value is None for value, _ in values), [(value, n) for value, n in values if value is not None]


def _hints(levels: Levels, unknown: Sequence[Unknown]) -> str:
    """Say what may help, without a value."""
    codes = set(levels.codes)
    values = [value for value, _ in unknown]
    bare = {code.lstrip("0") for code in codes}
    small = {code.casefold() for code in codes}
    hints = []
    if any(value.strip() in codes for value in values):
        hints.append("some match a level after trimming spaces")
    elif any(value.lstrip("0") in bare for value in values):
        hints.append("some match a level but for leading zeros")
    elif any(value.casefold() in small for value in values):
        hints.append("some match a level but for capital letters")
    if any(value in levels.labels for value in values):
        hints.append("some are labels, where codes are declared")
    return f" ({'; '.join(hints)})" if hints else ""
