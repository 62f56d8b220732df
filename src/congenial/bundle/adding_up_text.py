"""Errors and biases of sums, for people: a warning where sums come out wrong, two tables, plain values."""

from collections.abc import Sequence
from dataclasses import asdict
from math import floor, log10
from typing import Any

from congenial.bundle.adding_up import AddingUp, SumError
from congenial.bundle.expected_error import NO_ERROR

Grid = tuple[list[str], list[list[str]]]

_NAMED = 3  # sums in a warning
_MOST_CELLS = 16  # that have a line each

_WHY = "Counts are not negative: noise on cells that are 0 can only add, and larger ones make up for it."
_GIVE = "Which sums of yours are small, nobody knows here: give --reference FILE, a public file of the data's shape."
WAYS_OUT = (
    "Ways out: areas that add up (`hierarchy:` in the spec), so that sums have noise of their own; a coarser table,"
    " with fewer cells that are 0; more budget."
)


def warning_lines(found: AddingUp) -> list[str]:
    """Say which sums over areas come out too large or too small, and what can be done; nothing where none does.

    Examples
    --------
    >>> rare = SumError("race=other", 2, 1_888, 0.4, 1.4, 9_810.0, 9_812.0, 200.0)
    >>> print(warning_lines(AddingUp("last-year.csv", 25_016, 25_016, (rare,), ()))[0])
    These 25,016 tables will add up to about 9,800 too many in race=other (there are 1,888). Counts are not negative: noise on cells that are 0 can only add, and larger ones make up for it.
    """  # noqa: E501
    if found.is_made_up:
        is_wrong = found.biased or any(one.is_biased for _, one in found.rare)
        return [" ".join([*worst_case(found), _WHY]), f"{_GIVE} {WAYS_OUT}"] if is_wrong else []
    if not found.biased:
        return []
    listed = [_off(one) for one in found.biased[:_NAMED]]
    more = f"; {len(found.biased) - _NAMED:,} more sums are off" if len(found.biased) > _NAMED else ""
    return [
        f"These {found.n_areas:,} tables will add up to {', '.join(listed)}{more}. {_WHY}",
        WAYS_OUT,
    ]


def worst_case(found: AddingUp) -> list[str]:
    """Say what a level that hardly occurs comes out as over all areas: the most that sums are off in one direction.

    Examples
    --------
    >>> rare = SumError("race=other", 1, 0, 1.4, 2.0, 54.6, 56.0, 1.0)
    >>> worst_case(AddingUp("", 39, 12, (), (), is_made_up=True, rare=(("race", rare),)))[0]
    'A level that hardly occurs will come out about 55 too large over 39 areas.'
    """
    if not found.rare:
        return []
    (name, most), *others = sorted(found.rare, key=lambda one: -one[1].bias_of_all)
    listed = "".join(f", about {_rounded(one.bias_of_all):,} if of {other}" for other, one in others)
    of = f", if it is one of {name}{listed}" if others else ""
    size = f"about {_rounded(most.bias_of_all):,}"
    return [f"A level that hardly occurs will come out {size} too large over {found.n_areas:,} areas{of}."]


def no_warning_lines(found: AddingUp) -> list[str]:
    """Say what is known where nothing is warned of: without a reference table, no more than the worst case."""
    if not found.is_made_up:
        return ["No sum over areas is off in one direction by much."]
    return [*worst_case(found), _GIVE]


def _off(one: SumError) -> str:
    side = "too many" if one.bias_of_all > 0 else "too few"
    return f"about {_rounded(abs(one.bias_of_all)):,} {side} in {one.text} (there are {one.count:,})"


def _rounded(value: float) -> int:
    """Return two leading digits."""
    step: int = 10 ** max(0, floor(log10(max(value, 1.0))) - 1)
    return step * round(value / step)


def around(found: AddingUp) -> str:
    """Say what the figures are computed around."""
    some = (
        "" if found.n_looked_at == found.n_areas else f"; {found.n_looked_at:,} areas stand for all {found.n_areas:,}"
    )
    return f"computed around {found.reference}{some}"


def sums_table(found: AddingUp) -> Grid:
    """Return a header and a line for each sum: its count, then error and bias in one area and over all areas."""
    n_cells = sum(one.n_cells == 1 for one in found.sums)
    shown = [one for one in found.sums if one.n_cells > 1 or n_cells <= _MOST_CELLS]
    is_one = found.n_areas == 1
    header = ["sum", "count", "error", "bias"]
    if not is_one:
        header = ["sum", "count, all areas", "error in one", "bias in one", "error, all areas", "bias, all areas"]
    rows = []
    for one in shown:
        own = [_error(one.size), _bias(one.bias, 0.0)]
        of_all = [_error(one.size_of_all), _bias(one.bias_of_all, one.doubt)]
        rows.append([one.text, f"{one.count:,}", *own, *([] if is_one else of_all)])
    return header, rows


def classes_table(found: AddingUp) -> Grid:
    """Return a header and a line for each class of counts: how many cells have such, their error and their bias."""
    rows = [[one.text, f"{one.n_cells:,}", _error(one.size), _bias(one.bias, 0.0)] for one in found.classes]
    return ["cells whose count is", "cells", "error", "bias"], rows


def _error(size: float) -> str:
    return "exact" if size < NO_ERROR else _number(size)


def _bias(bias: float, doubt: float) -> str:
    """Write a mean error; what draws cannot tell from none is none."""
    if abs(bias) < max(NO_ERROR, 2 * doubt):
        return "0"
    return f"{'+' if bias > 0 else '-'}{_number(abs(bias))}"


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def as_json(found: AddingUp) -> dict[str, Any]:
    """Return everything as plain values."""
    return {
        "around": found.reference,
        "areas": found.n_areas,
        "areas_looked_at": found.n_looked_at,
        "warnings": warning_lines(found),
        "sums": [{**asdict(one), "is_biased": one.is_biased} for one in found.sums],
        "by_count": [asdict(one) for one in found.classes],
    }


def errors_csv(levels: Sequence[tuple[str, AddingUp]]) -> bytes:
    """Return expected-errors.csv: for each level single cells by class of count, then sums over all areas.

    Examples
    --------
    >>> from congenial.bundle.adding_up import ClassError
    >>> rare = SumError("race=other", 2, 1_888, 0.4, 1.4, 9_810.0, 9_812.0, 200.0)
    >>> found = AddingUp("", 25_016, 25_016, (rare,), (ClassError(1, 5, 700, -0.25, 2.0),))
    >>> print(errors_csv([("block", found)]).decode(), end="")
    level,statistic,count_from,count_to,n,bias,error
    "block","one cell",1,4,700,-0.2500,2.0000
    "block","race=other",1888,1888,25016,9810.0000,9812.0000
    """
    lines = ["level,statistic,count_from,count_to,n,bias,error"]
    for level, found in levels:
        name = _quoted(level)
        for own in found.classes:
            end = "" if own.high is None else own.high - 1
            lines.append(f'{name},"one cell",{own.low},{end},{own.n_cells},{own.bias:.4f},{own.size:.4f}')
        for one in found.sums:
            if one.n_cells > 1:
                figures = f"{found.n_areas},{one.bias_of_all:.4f},{one.size_of_all:.4f}"
                lines.append(f"{name},{_quoted(one.text)},{one.count},{one.count},{figures}")
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
