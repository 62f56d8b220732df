"""Where a public list of leaves is wrong: the line of a CSV file that its first reading, column by column, lost."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from congenial.errors import CongenialError
from congenial.spec.public_csv import PublicRows, read_public_csv
from congenial.spec.tree import TRUTH, TreeFile


def with_line(refused: CongenialError, given: TreeFile, columns: Sequence[str], folder: Path) -> CongenialError:
    """Return what is wrong in a list of leaves with its line, where there is one, or else what was refused."""
    try:
        rows = read_public_csv(given.file, folder, columns, given.separator)
        rows.check_once(0, given.leaf, "each leaf stands in the list once")
        _check_prefixes(rows, given)
        _check_parents(rows, given)
        _check_truth(rows, given)
    except CongenialError as found:
        return type(refused)(str(found)) if ", line " in str(found) else refused
    return refused


def _check_prefixes(rows: PublicRows, given: TreeFile) -> None:
    longest = max((level.prefix or 0 for level in given.levels), default=0)
    for row, code in enumerate(rows.columns[0]):
        if len(code) < longest:
            raise rows.refused(
                row, f"the code {code!r} has {len(code)} characters, and a level takes the first {longest}"
            )


def _check_parents(rows: PublicRows, given: TreeFile) -> None:
    """Refuse the first row that gives a unit another parent than a row before it."""
    codes, others = rows.columns[0], iter(rows.columns[1:])
    units = [
        next(others) if level.prefix is None else tuple(code[: level.prefix] for code in codes)
        for level in given.levels
    ]
    for names, (above, below) in zip(pairwise(given.names), pairwise([*units, codes]), strict=True):
        first: dict[str, int] = {}
        for row, unit in enumerate(below):
            before = first.setdefault(unit, row)
            if above[before] != above[row]:
                raise rows.refused(
                    row,
                    f"{names[1]} {unit!r} is part of {names[0]} {above[row]!r}, and in line {rows.lines[before]} of"
                    f" {above[before]!r}: a unit has one parent; give units of one name in different places codes of"
                    " their own, or put the levels in order, the top first",
                )


def _check_truth(rows: PublicRows, given: TreeFile) -> None:
    for row, word in enumerate(() if given.uninhabited is None else rows.columns[-1]):
        if word not in TRUTH:
            raise rows.refused(row, f"{given.uninhabited!r} is {word!r}, and not {', '.join(TRUTH)}")
