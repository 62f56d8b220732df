"""Confidence intervals that need no prior: docs/claims/frequentist.md has the statements and the proofs.

Exact where the law of the error is the same whatever the table is (equalities, no limits). Conservative over all other
cells where cells are bounded below only and each is in at most one published sum. Not available elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Row
from congenial.inference.intervals import check_level, exact_value
from congenial.inference.question import Statistic
from congenial.law import Law
from congenial.public_law import PublicLaw

_LONGEST = 20_000  # reaches beyond it are not optimised

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


def confidence(law: PublicLaw, area: Area, released: Ints, statistic: Statistic, level: float = 0.9) -> Confidence:
    """Return the interval of a count, or of a share or ratio over a number that the invariants determine."""
    check_level(level)
    constraints = law.areas[area]
    known = exact_value(constraints, statistic)
    if known is not None:
        return Confidence(statistic.text, known, known, level, DETERMINED, "the published invariants determine it")
    scale = 1.0
    if statistic.below is not None:
        below = exact_value(constraints, Statistic("", "count", statistic.below))
        if below is None:
            return _none(statistic, level, "what it is divided by is not published exactly")
        if not below:
            return _none(statistic, level, "what it is divided by is zero")
        scale = below
    found = _count(law, area, constraints, released, statistic.above, level)
    if isinstance(found, str):
        return _none(statistic, level, found)
    low, high, how, why = found
    ends = sorted((low / scale, high / scale))
    return Confidence(statistic.text, ends[0], ends[1], level, how, why)


def _none(statistic: Statistic, level: float, why: str) -> Confidence:
    return Confidence(statistic.text, float("nan"), float("nan"), level, UNAVAILABLE, why)


Found = tuple[float, float, str, str]


def _count(law: PublicLaw, area: Area, constraints: Constraints, released: Ints, row: Row, level: float) -> Found | str:
    at = row.value(released.tolist())
    limits = [end for ends in (constraints.lower, constraints.upper) for end in ends if end is not None]
    if not limits and not constraints.ranges:
        tail = (1 - level) / 2
        marginal = Law(law, released, area).marginal_of(row)
        total = np.cumsum(marginal.probabilities)
        gaps = marginal.values - at
        least = int(gaps[int(np.searchsorted(total, tail, side="right"))])
        most = int(gaps[min(int(np.searchsorted(total, 1 - tail, side="left")), len(gaps) - 1)])
        return at - most, at - least, EXACT, "the law of the error is the same for every table"
    if set(row.coefficients) - {1}:
        return "the number is not a plain sum of cells"
    blocks = published_sums(law, constraints)
    if isinstance(blocks, str):
        return blocks
    up, down = _error_bounds(law, blocks, set(row.cells).difference(constraints.fixed_cells))
    above, below = reaches(up, down, 1 - level)
    floor, ceiling = _possible(constraints, blocks, set(row.cells))
    high = at + below if ceiling is None else min(at + below, ceiling)
    return max(at - above, floor), high, CONSERVATIVE, "errors are bounded whatever the others are"


@dataclass(frozen=True)
class Block:
    """A published plain sum of cells that are not fixed by themselves."""

    cells: frozenset[int]
    value: int


def published_sums(law: PublicLaw, constraints: Constraints) -> str | list[Block]:
    """Return the published sums, none of which share a cell; or why the bound of errors does not apply."""
    if law.family.exponent != 1:
        return "with limits on cells, the bound is proven for Double Geometric noise"
    if any(measured.floor != 1 for measured in law.measured):
        return "lower limits are weighted, and no bound of errors is proven for such a law"
    if any(measured.cell is None for measured in law.measured):
        return "sums are measured beside the cells, which ties their errors together"
    if len({measured.cell for measured in law.measured}) < law.schema.n_cells:
        return "not every cell is measured"
    stated = set(constraints.fixed_cells)
    free = [cell for cell in range(law.schema.n_cells) if cell not in stated]
    if constraints.ranges or any(constraints.upper[cell] is not None for cell in free):
        return "some cells or sums have upper limits or ranges"
    if any(constraints.lower[cell] is None for cell in free):
        return "some cells have a lower limit and others have none"
    found: list[Block] = []
    for equality in constraints.equalities:
        row = equality.row
        if len(set(row.coefficients)) != 1 or abs(row.coefficients[0]) != 1:
            return "a published number is not a plain sum of cells"
        already = sum(constraints.lower[cell] or 0 for cell in row.cells if cell in stated)
        found.append(Block(frozenset(row.cells) - stated, row.coefficients[0] * (equality.lower or 0) - already))
    blocks = _disjoint(found)
    if blocks is None:
        return "the published sums overlap, so errors of cells are tied together in more than one way"
    return blocks


def _disjoint(blocks: list[Block]) -> list[Block] | None:
    """Take sums out of larger ones that contain them; None when some still share a cell."""
    left = sorted((block for block in blocks if block.cells), key=lambda block: len(block.cells))
    changed = True
    while changed:
        changed = False
        for inner in list(left):
            for place, outer in enumerate(left):
                if inner.cells < outer.cells:
                    left[place] = Block(outer.cells - inner.cells, outer.value - inner.value)
                    changed = True
    seen: set[int] = set()
    for block in left:
        if block.cells & seen:
            return None
        seen |= block.cells
    return left


def _possible(constraints: Constraints, blocks: list[Block], cells: set[int]) -> tuple[int, int | None]:
    """Return the least and the most that a sum of cells can be."""
    lower = [low or 0 for low in constraints.lower]
    stated = cells.intersection(constraints.fixed_cells)
    least, most = sum(lower[cell] for cell in cells), sum(lower[cell] for cell in stated)
    left = cells - stated
    for block in blocks:
        if block.cells & cells:
            most += block.value - sum(lower[cell] for cell in block.cells - cells)
            left -= block.cells
    return least, None if left else most


@dataclass(frozen=True)
class ErrorBound:
    """A negative binomial bound of the error of a sum in one direction: of `n_cells` cells, each step times `base`."""

    n_cells: int
    base: float


def _error_bounds(law: PublicLaw, blocks: list[Block], cells: set[int]) -> tuple[list[ErrorBound], list[ErrorBound]]:
    """Return bounds of how far a released sum lies above, and below, the confidential one: one for each published sum.

    In a published sum with k of its cells inside the query and m outside, the error upwards is at most negative
    binomial with k cells and base a (a^2 if m = 1), and downwards with m cells and base a (a^2 if k = 1). A cell that
    is in no published sum errs by at most one such cell in either direction.
    """
    bases = _bases(law)
    up: list[ErrorBound] = []
    down: list[ErrorBound] = []
    left = set(cells)
    for block in blocks:
        inside, outside = sorted(block.cells & cells), sorted(block.cells - cells)
        left -= block.cells
        if inside and outside:
            most_in, most_out = (max(bases[cell] for cell in side) for side in (inside, outside))
            up.append(ErrorBound(len(inside), most_in * (bases[outside[0]] if len(outside) == 1 else 1.0)))
            down.append(ErrorBound(len(outside), most_out * (bases[inside[0]] if len(inside) == 1 else 1.0)))
    alone = [ErrorBound(1, bases[cell]) for cell in left]
    return up + alone, down + alone


def _bases(law: PublicLaw) -> dict[int | None, float]:
    """Return a of each measured cell, whose noise weighs a deviation u by ``a ** |u|``."""
    return {row.cell: float(row.noise.base) for row in law.measured}


def reaches(up: list[ErrorBound], down: list[ErrorBound], miss: float) -> tuple[int, int]:
    """Return how far above and below the confidential sum the released one lies with chance at least ``1 - miss``.

    In one published sum the two directions share the chance of a miss: the released sum is above or below, not both.
    """
    if len(up) == 1 and len(down) == 1 and (found := _shared(up[0], down[0], miss)) is not None:
        return found
    return _reach(up, miss / 2), _reach(down, miss / 2)


def _shared(up: ErrorBound, down: ErrorBound, miss: float) -> tuple[int, int] | None:
    """Return the narrowest pair of reaches whose largest chance of a miss, over all tables, is at most `miss`."""
    from scipy.stats import nbinom

    longest = 1 + max(int(nbinom.isf(miss / 4, bound.n_cells, 1 - bound.base)) for bound in (up, down))
    if longest > _LONGEST:
        return None
    r = np.arange(longest + 1)
    chance = [float(nbinom.sf(0, bound.n_cells, 1 - bound.base)) for bound in (up, down)]
    tails = [nbinom.sf(r, bound.n_cells, 1 - bound.base) / some for bound, some in zip((up, down), chance, strict=True)]
    best: tuple[int, int] | None = None
    for above in range(longest + 1):
        # P(above) <= chance[0], P(below) <= chance[1], together at most 1: the larger tail gets as much as it can.
        first = float(tails[0][above])
        up_first = first >= tails[1]
        share_up = np.where(up_first, chance[0], np.minimum(chance[0], 1 - chance[1]))
        share_down = np.where(up_first, np.minimum(chance[1], 1 - chance[0]), chance[1])
        missed = share_up * first + share_down * tails[1]
        fits = np.flatnonzero(missed <= miss * (1 - 1e-9))
        if fits.size and (best is None or above + int(fits[0]) < sum(best)):
            best = above, int(fits[0])
    return best


def _reach(bounds: list[ErrorBound], tail: float) -> int:
    """Return the smallest r such that the sum of all errors exceeds it with chance at most `tail`."""
    if not bounds:
        return 0
    from scipy.stats import nbinom

    n_cells, base = sum(bound.n_cells for bound in bounds), max(bound.base for bound in bounds)
    whole = int(nbinom.isf(tail * (1 - 1e-9), n_cells, 1 - base))  # every error with the largest base: never too short
    if len({bound.base for bound in bounds}) == 1 or len(bounds) > 50 or whole > _LONGEST:
        return whole
    chances = np.ones(1)
    for bound in bounds:
        chances = np.convolve(chances, nbinom.pmf(np.arange(whole + 1), bound.n_cells, 1 - bound.base))[: whole + 1]
    above = 1 - np.cumsum(chances)
    fits = np.flatnonzero(above <= tail * (1 - 1e-9) - 1e-14)
    return min(whole, int(fits[0])) if fits.size else whole
