"""Confidence intervals that need no prior: docs/claims/frequentist.md has the statements and the proofs.

Exact where the law of the error is the same whatever the table is (equalities, no limits). Conservative over all other
cells where cells are bounded below only and each is in at most one published sum. Not available elsewhere.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.bundle.published import Area, PublishedLaw
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Limited, Row
from congenial.inference.intervals import check_level, exact_value
from congenial.inference.query import Statistic
from congenial.law import Law
from congenial.noise import DoubleGeometric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

DETERMINED, EXACT, CONSERVATIVE, UNAVAILABLE = "determined", "exact", "conservative", "not available"


@dataclass(frozen=True)
class Confidence:
    """An interval that covers the confidential value with at least this probability, whatever the table is.

    Attributes
    ----------
    how : str
        ``"determined"`` by the invariants, ``"exact"``, ``"conservative"``, or ``"not available"``.
    why : str
        On what the interval rests, or why there is none.
    """

    query: str
    low: float
    high: float
    level: float
    how: str
    why: str

    @property
    def is_available(self) -> bool:
        """Whether there is an interval."""
        return self.how != UNAVAILABLE

    def __repr__(self) -> str:
        if not self.is_available:
            return f"{self.query}: no interval without a prior: {self.why}"
        return f"{self.query}: {self.level:.0%} confidence interval {self.low:g} to {self.high:g} ({self.how})"


def confidence(law: PublishedLaw, area: Area, released: Ints, statistic: Statistic, level: float = 0.9) -> Confidence:
    """Return the interval of a count, or of a share or ratio over a number that the invariants determine."""
    check_level(level)
    constraints = law.constraints[area]
    known = exact_value(constraints, statistic)
    if known is not None:
        return Confidence(statistic.text, known, known, level, DETERMINED, "the published invariants determine it")
    scale = 1.0
    if statistic.below is not None:
        below = exact_value(constraints, Statistic("", "count", statistic.below))
        if not below:
            return _none(statistic, level, "what it is divided by is not published exactly")
        scale = below
    found = _count(law, area, constraints, released, statistic.above, level)
    if isinstance(found, str):
        return _none(statistic, level, found)
    low, high, how, why = found
    return Confidence(statistic.text, low / scale, high / scale, level, how, why)


def _none(statistic: Statistic, level: float, why: str) -> Confidence:
    return Confidence(statistic.text, float("nan"), float("nan"), level, UNAVAILABLE, why)


Found = tuple[float, float, str, str]


def _count(
    law: PublishedLaw, area: Area, constraints: Constraints, released: Ints, row: Row, level: float
) -> Found | str:
    at = row.value(released.tolist())
    limits = [end for ends in (constraints.lower, constraints.upper) for end in ends if end is not None]
    if not limits and not constraints.ranges:
        tail = (1 - level) / 2
        marginal = Law(law.target(area, released)).marginal_of(row)
        total = np.cumsum(marginal.probabilities)
        gaps = marginal.values - at
        least = int(gaps[int(np.searchsorted(total, tail, side="right"))])
        most = int(gaps[min(int(np.searchsorted(total, 1 - tail, side="left")), len(gaps) - 1)])
        return at - most, at - least, EXACT, "the law of the error is the same for every table"
    reason = why_not(law, constraints)
    if reason is not None:
        return reason
    up, down = _errors(law, constraints, set(row.cells))
    tail = (1 - level) / 2
    floor, ceiling = _possible(constraints, set(row.cells))
    low, high = max(at - _reach(up, tail), floor), at + _reach(down, tail)
    return (
        low,
        high if ceiling is None else min(high, ceiling),
        CONSERVATIVE,
        "errors are bounded whatever the others are",
    )


def _possible(constraints: Constraints, cells: set[int]) -> tuple[int, int | None]:
    """Return the least and the most that a sum of cells can be; published sums do not overlap here."""
    lower = [low or 0 for low in constraints.lower]
    least, most, left = sum(lower[cell] for cell in cells), 0, set(cells)
    for one in constraints.equalities:
        inside = left & set(one.row.cells)
        if inside:
            most += (one.lower or 0) - sum(lower[cell] for cell in one.row.cells if cell not in cells)
            left -= inside
    fixed = {cell for cell in left if constraints.lower[cell] == constraints.upper[cell]}
    most += sum(lower[cell] for cell in fixed)
    return least, most if left == fixed else None


def why_not(law: PublishedLaw, constraints: Constraints) -> str | None:
    """Return why the bound of errors does not apply; None when it does."""
    if law.noise != "double_geometric":
        return "with limits on cells, the bound is proven for Double Geometric noise"
    if any(one.cell is None for one in law.measured):
        return "sums are measured beside the cells, which ties their errors together"
    if len({one.cell for one in law.measured}) < law.schema.n_cells:
        return "not every cell is measured"
    if constraints.ranges or any(
        end is not None and end != low for low, end in zip(constraints.lower, constraints.upper, strict=True)
    ):
        return "some cells or sums have upper limits or ranges"
    if None in constraints.lower:
        return "some cells have a lower limit and others have none"
    seen: set[int] = set()
    for one in constraints.equalities:
        cells = set(_free(constraints, one))
        if set(one.row.weights) != {1}:
            return "a published number is not a plain sum of cells"
        if cells & seen:
            return "the published sums overlap, so errors of cells are tied together in more than one way"
        seen |= cells
    return None


def _free(constraints: Constraints, one: Limited) -> list[int]:
    """Return the cells of a row that are not fixed by themselves."""
    return [cell for cell in one.row.cells if constraints.lower[cell] != constraints.upper[cell]]


@dataclass(frozen=True)
class _Part:
    """A negative binomial bound: `size` cells, each step costing the factor `base`."""

    size: int
    base: float


def _errors(law: PublishedLaw, constraints: Constraints, cells: set[int]) -> tuple[list[_Part], list[_Part]]:
    """Return bounds of how far a released sum lies above, and below, the confidential one: one for each published sum.

    In a published sum with k of its cells inside the query and m outside, the error upwards is at most negative
    binomial with k cells and base a (a^2 if m = 1), and downwards with m cells and base a (a^2 if k = 1). A cell that
    is in no published sum errs by at most one such cell in either direction.
    """
    bases = {one.cell: float(one.noise.base) for one in law.measured if isinstance(one.noise, DoubleGeometric)}
    up: list[_Part] = []
    down: list[_Part] = []
    left = {cell for cell in cells if constraints.lower[cell] != constraints.upper[cell]}
    for one in constraints.equalities:
        block = _free(constraints, one)
        inside = [cell for cell in block if cell in cells]
        outside = [cell for cell in block if cell not in cells]
        left -= set(inside)
        if inside and outside:
            most_in, most_out = (max(bases[cell] for cell in part) for part in (inside, outside))
            up.append(_Part(len(inside), most_in * (bases[outside[0]] if len(outside) == 1 else 1.0)))
            down.append(_Part(len(outside), most_out * (bases[inside[0]] if len(inside) == 1 else 1.0)))
    for cell in left:
        up.append(_Part(1, bases[cell]))
        down.append(_Part(1, bases[cell]))
    return up, down


def _reach(parts: list[_Part], tail: float) -> int:
    """Return the smallest r such that the sum of all parts exceeds it with chance at most `tail`."""
    if not parts:
        return 0
    from scipy.stats import nbinom

    size, base = sum(part.size for part in parts), max(part.base for part in parts)
    bases = {part.base for part in parts}
    if len(bases) == 1 or len(parts) > 50:  # a larger base is a larger error
        return int(nbinom.isf(tail * (1 - 1e-9), size, 1 - base))
    longest = int(nbinom.isf(tail / 100, size, 1 - base)) + 2
    chances = np.ones(1)
    for part in parts:
        chances = np.convolve(chances, nbinom.pmf(np.arange(longest), part.size, 1 - part.base))[:longest]
    above = 1 - np.cumsum(chances)
    return int(np.argmax(above <= tail)) if (above <= tail).any() else longest
