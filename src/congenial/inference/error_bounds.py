"""Bounds of the error of a linear number, whatever the table is: its largest and its least law.

Which construction a query gets goes by the published sums and the query alone, never by the release.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, sqrt

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import FREE, Interval, cells_alike
from congenial.law import PublicLaw
from congenial.noise import Noise

# Weights on the integers, and what becomes of them when independent errors are added or conditions are put on them.


@dataclass(frozen=True)
class IntegerWeights:
    """Weights, not negative, of the integers from `low` on; all others have none.

    Examples
    --------
    >>> coin = IntegerWeights(0, np.array([0.5, 0.5]))
    >>> coin.plus(coin), coin.negated.low
    (IntegerWeights(low=0, values=array([0.25, 0.5 , 0.25])), -1)
    """

    low: int
    values: Floats

    @property
    def high(self) -> int:
        """The last integer with a weight."""
        return self.low + len(self.values) - 1

    @property
    def integers(self) -> Ints:
        """All integers from `low` to `high`."""
        return np.arange(self.low, self.high + 1)

    @property
    def negated(self) -> "IntegerWeights":
        """The weights of ``-x``."""
        return IntegerWeights(-self.high, self.values[::-1])

    @property
    def normalised(self) -> "IntegerWeights":
        """The same with sum one."""
        return IntegerWeights(self.low, self.values / self.values.sum())

    def at(self, low: int, high: int) -> Floats:
        """Return the weights of the integers from `low` to `high`, zeros where there are none."""
        out = np.zeros(high - low + 1)
        first, last = max(low, self.low), min(high, self.high)
        if first <= last:
            out[first - low : last - low + 1] = self.values[first - self.low : last - self.low + 1]
        return out

    def plus(self, other: "IntegerWeights") -> "IntegerWeights":
        """Return the weights of the sum of two independent integers."""
        return IntegerWeights(self.low + other.low, np.convolve(self.values, other.values))

    def within(self, reach: int) -> "IntegerWeights":
        """Leave out what is farther than `reach` from zero."""
        low, high = max(self.low, -reach), min(self.high, reach)
        return IntegerWeights(low, self.at(low, high))

    def times(self, other: "IntegerWeights") -> "IntegerWeights":
        """Return the product of both at each integer."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high:
            return IntegerWeights(0, np.zeros(1))
        return IntegerWeights(low, self.at(low, high) * other.at(low, high))

    def stretched(self, factor: int) -> "IntegerWeights":
        """Return the weights of ``factor * x``, the factor not 0."""
        if factor < 0:
            return self.negated.stretched(-factor)
        values = np.zeros((len(self.values) - 1) * factor + 1)
        values[::factor] = self.values
        return IntegerWeights(self.low * factor, values)

    def chance_above(self, bounds: Ints) -> Floats:
        """Return the share of the weight on integers above each bound."""
        tail = np.append(np.cumsum(self.values[::-1])[::-1], 0.0) / self.values.sum()
        return np.asarray(tail[np.clip(bounds - self.low + 1, 0, len(self.values))])

    def upper_bound(self, tail: float) -> int:
        """Return the least bound, not negative, exceeded with chance at most `tail`; allows for rounding."""
        bounds = np.arange(max(self.high, 0) + 1)
        return int(np.argmax(self.chance_above(bounds) <= tail * (1 - 1e-9)))


NOTHING = IntegerWeights(0, np.ones(1))
"""An error that is zero."""


def sum_of(parts: Iterable[tuple[IntegerWeights, int]], reach: int) -> IntegerWeights:
    """Return the weights of a sum of independent integers, each kind so many times, as far as `reach` from zero."""
    out = NOTHING
    for weights, times in parts:
        out = out.plus(_power(weights, times, reach)).within(reach)
    return out


def _power(weights: IntegerWeights, times: int, reach: int) -> IntegerWeights:
    out, square = NOTHING, weights
    while times:
        if times & 1:
            out = out.plus(square).within(reach)
        times >>= 1
        if times:
            square = square.plus(square).within(reach)
    return out


# The largest errors that sums of cells can have, whatever the confidential table is within a box.
#
# docs/claims/frequentist.md has the statements and the proofs; the letters here are those of that page. A cell's
# error d has the weight of its noise where the released count keeps its limits. These weights fall with the
# confidential count in the likelihood ratio order, so errors of sums are extreme where every cell is at one end of
# the box or the other.

LONGEST = 20_000
"""How far errors are followed at most."""

Group = tuple[tuple[int, ...], int]
"""Cells, and the sign with which their errors add up to y."""

_TINY = 1e-13  # what is left out of laws of y, which counts as a miss
_LEAST = 1e-200  # products of weights below it have lost figures


@dataclass(frozen=True)
class CountBox:
    """What is known of the cells: noise, stated limits, and limits of the confidential counts.

    Attributes
    ----------
    limits : sequence of Interval
        Of released counts.
    counts : sequence of Interval
        Of confidential counts; never wider.
    """

    noise: Mapping[int, Noise]
    limits: Sequence[Interval]
    counts: Sequence[Interval]

    def reach(self, cells: Iterable[int]) -> int:
        """Return how far from zero errors of these cells are to be followed."""
        laws = Counter(self.noise[cell] for cell in cells)
        kinds = [(*_spread(noise), n) for noise, n in laws.items()]
        together = sqrt(sum(n * deviation**2 for deviation, _, n in kinds))
        return ceil(10 * together + max(far for _, far, _ in kinds) + sum(n * deviation for deviation, _, n in kinds))

    def errors(self, cells: Iterable[int], reach: int, *, is_least: bool) -> IntegerWeights:
        """Return the weights of the sum of errors of cells whose counts are all the least, or all the most."""
        kinds = Counter((self.noise[cell], self._window(cell, reach, is_least)) for cell in cells)
        return sum_of(((_message(*kind, reach), n) for kind, n in kinds.items()), reach)

    def _window(self, cell: int, reach: int, is_least: bool) -> Interval:
        """Return the errors that a cell can have, the same for all that are farther from a limit than `reach`."""
        centre = self.counts[cell].low if is_least else self.counts[cell].high
        window = FREE if centre is None else self.limits[cell].shifted(-centre)
        return window & Interval(-reach, reach)


@lru_cache(maxsize=256)
def _spread(noise: Noise) -> tuple[float, int]:
    """Return the standard deviation of noise, and how far it goes as far as doubles can tell."""
    return sqrt(float(noise.variance)), int(noise.quantile(1 - 1e-16))


@lru_cache(maxsize=1024)
def _message(noise: Noise, window: Interval, reach: int) -> IntegerWeights:
    low, high = (end if end is not None else reach for end in (window.low, window.high))
    return IntegerWeights(low, np.exp(noise.log_weight(np.arange(low, high + 1)))).normalised


@dataclass(frozen=True)
class GroupPart:
    """The cells of one group in a query, ``times`` each, and its other cells; the group's errors add up to sign * y."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]
    times: int
    sign: int


class TooWideError(ArithmeticError):
    """Weights that floats do not hold."""


def largest_in_a_sum(box: CountBox, part: GroupPart, reach: int) -> IntegerWeights:
    """F1: the largest law of ``times * D_A`` where the errors of A and B add up to zero."""
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    outside = box.errors(part.outside, reach, is_least=not up)
    return _product_law(inside, outside.negated).stretched(part.times)


def largest_in_a_group(box: CountBox, part: GroupPart, others: Sequence[Group], reach: int) -> IntegerWeights:
    """F2: the largest law of ``times * D_A`` where the errors of A and B add up to y, and those of others to +-y.

    Parameters
    ----------
    others : sequence of (cells, sign)
        The other groups.
    """
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    if not others:  # one cell in no published sum
        return inside.stretched(part.times)
    rest = _product_law(*_factors(box, [(cells, sign * part.sign) for cells, sign in others], reach, is_largest=up))
    outside = box.errors(part.outside, reach, is_least=not up) if part.outside else NOTHING
    return _product_law(inside, rest.plus(outside.negated)).stretched(part.times)


def largest_across(
    box: CountBox, parts: Sequence[GroupPart], others: Sequence[Group], steps: int, reach: int
) -> IntegerWeights:
    """F2 across groups: the largest law of ``steps * y + sum times * D_A`` over parts in several groups.

    Two parts whose times * sign cancel, and no steps of y besides: both are extreme at one table, and y lies between
    two laws by the other groups alone. Else y lies between two laws by all groups. Either way the chance that the error
    is large is bounded given y first, then over every law of y in between.
    """
    errors = [(_both(box, part, reach), part) for part in parts]
    if is_pair(parts, steps):
        sums = [(inside.plus(outside), part.sign) for (inside, outside), part in errors]
        known = [weights if sign > 0 else weights.negated for weights, sign in sums]
        ends = [_product_law(*known, *_factors(box, others, reach, is_largest=up)) for up in (False, True)]
    else:
        every = [*others, *(((*part.inside, *part.outside), part.sign) for part in parts)]
        ends = [_product_law(*_factors(box, every, reach, is_largest=up)) for up in (False, True)]
    least, most = ends
    first, last = _quantile(least, _TINY), _quantile(most, 1 - _TINY)
    laws = [_error_given(errors, steps, y) for y in range(first, last + 1)]
    low = min((law.low for law in laws if law is not None), default=0)
    high = max((law.high for law in laws if law is not None), default=0)
    bounds = np.arange(low, high + 1)
    chances = np.stack([np.ones(len(bounds)) if law is None else law.chance_above(bounds) for law in laws])
    above = np.minimum(1.0, largest_mean(least.at(first, last), most.at(first, last), chances) + 4 * _TINY)
    return IntegerWeights(low, -np.diff(above, prepend=1.0))


def is_pair(parts: Sequence[GroupPart], steps: int) -> bool:
    """Whether two parts move against each other with y, and nothing else does."""
    return len(parts) == 2 and not steps and parts[0].times * parts[0].sign == -parts[1].times * parts[1].sign


def largest_mean(least: Floats, most: Floats, values: Floats) -> Floats:
    """Return the largest mean of values[y] over laws of y that lie stochastically between two others.

    A law in between is one of an integer between coupled ones: for each level u, the mean takes the largest value from
    the u-quantile of the least law to that of the most.
    """
    below = [np.minimum(np.cumsum(law), 1.0) for law in (least, most)]
    for cdf in below:
        cdf[-1] = 1.0
    levels = np.unique(np.concatenate([[0.0], *below]))
    middles = (levels[1:] + levels[:-1]) / 2
    first, last = (np.searchsorted(cdf, middles) for cdf in below)
    out = np.zeros(values.shape[1:])
    for level, start, end in zip(np.diff(levels), first, np.maximum(first, last), strict=True):
        out = out + level * values[start : end + 1].max(axis=0)
    return out


def _both(box: CountBox, part: GroupPart, reach: int) -> tuple[IntegerWeights, IntegerWeights]:
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    return inside, (box.errors(part.outside, reach, is_least=not up) if part.outside else NOTHING)


def _error_given(
    errors: Sequence[tuple[tuple[IntegerWeights, IntegerWeights], GroupPart]], steps: int, y: int
) -> IntegerWeights | None:
    """Return the law of the error given y; None where the extreme tables do not allow this y."""
    total = IntegerWeights(steps * y, np.ones(1))
    for (inside, outside), part in errors:
        free = outside.negated
        law = inside.times(IntegerWeights(free.low + part.sign * y, free.values))
        if not law.values.max() > _LEAST:
            return None
        places = np.flatnonzero(law.values > 1e-18 * law.values.max())
        law = IntegerWeights(law.low + int(places[0]), law.values[places[0] : places[-1] + 1])
        total = total.plus(law.normalised.stretched(part.times))
    return total


def _factors(box: CountBox, groups: Sequence[Group], reach: int, *, is_largest: bool) -> list[IntegerWeights]:
    """Return the weights that each group gives to y, with counts that make y the largest, or the least."""
    out = []
    for cells, sign in groups:
        sums = box.errors(cells, reach, is_least=(sign > 0) == is_largest)
        out.append(sums if sign > 0 else sums.negated)
    return out


def _product_law(*weights: IntegerWeights) -> IntegerWeights:
    out = weights[0]
    for other in weights[1:]:
        out = out.times(other)
    if not out.values.max() > _LEAST:
        raise TooWideError
    return out.normalised


def _quantile(law: IntegerWeights, level: float) -> int:
    return law.low + int(np.searchsorted(np.cumsum(law.values), level))


# Which errors depend on each other through published sums, and in how many ways.
#
# Cells with equal columns in the published sums are a group: the sums see only the sum of its errors. A dependency is
# a set of groups whose sums of errors are all zero, or all plus or minus one integer y that is free. Errors of
# different dependencies are independent. P12 has one: with total, women and voting age published, the errors of women
# of voting age add up to y, those of girls and of men of voting age to -y, those of boys to y.


@dataclass(frozen=True)
class Dependency:
    """Groups of cells whose errors depend on each other.

    Attributes
    ----------
    groups : tuple of tuples of int
        Cells, fixed ones left out.
    signs : tuple of int
        The errors of each group add up to its sign times y; a sign of 0 says that they add up to zero.
    why_not : str
        Why no bound of errors is proven here, or nothing.
    """

    groups: tuple[tuple[int, ...], ...]
    signs: tuple[int, ...]
    why_not: str = ""

    @property
    def cells(self) -> tuple[int, ...]:
        """All of its cells."""
        return tuple(cell for group in self.groups for cell in group)


def find_dependencies(law: PublicLaw, constraints: Constraints) -> tuple[Dependency, ...]:
    """Return all dependencies of one table's cells.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> law = mechanism.calibrate(mechanism.disclose(p12_table()))
    >>> [(dependency.signs, len(dependency.cells)) for dependency in find_dependencies(law, law.areas[None])]
    [((1, -1, -1, 1), 46)]
    """
    strange = _strange_cells(law, constraints)
    return tuple(
        Dependency(
            groups, signs, why or next((strange[cell] for group in groups for cell in group if cell in strange), "")
        )
        for groups, signs, why in _dependent_groups(constraints)
    )


def _dependent_groups(constraints: Constraints) -> list[tuple[tuple[tuple[int, ...], ...], tuple[int, ...], str]]:
    fixed = set(constraints.fixed_cells)
    groups: list[tuple[int, ...]] = []
    columns: list[dict[int, int]] = []
    for column, cells in cells_alike(
        [equality.row for equality in constraints.equalities], len(constraints.limits)
    ).items():
        free = tuple(cell for cell in cells if cell not in fixed)
        candidates = [free] if column else [(cell,) for cell in free]
        groups += [group for group in candidates if group]
        columns += [dict(column)] * len([group for group in candidates if group])
    # A column that follows from others: its group's error is free, and moves those of the others.
    follows = dependence(columns).follows
    out = []
    for members in _together([{place, *others} for place, others in follows.items()]):
        first, *more = (place for place in members if place in follows)
        moves = {first: 1, **{place: int(-times) for place, times in follows[first].items() if abs(times) == 1}}
        is_one = not more and len(moves) == len(members)
        why = "" if is_one else "the published sums overlap and tie errors together in more than one way"
        signs = tuple(moves[place] if is_one else 0 for place in members)
        out.append((tuple(groups[place] for place in members), signs, why))
    seen = {cell for groups_of_dependency, _, _ in out for group in groups_of_dependency for cell in group}
    return out + [((group,), (0,), "") for group in groups if group[0] not in seen]


def _together(sets: Sequence[set[int]]) -> list[list[int]]:
    """Join sets that share a member."""
    joined: list[set[int]] = []
    for members_of_set in sets:
        apart = [other for other in joined if not other & members_of_set]
        joined = [*apart, members_of_set.union(*(other for other in joined if other & members_of_set))]
    return sorted(sorted(members) for members in joined)


def _strange_cells(law: PublicLaw, constraints: Constraints) -> dict[int, str]:
    """Return the cells whose errors no bound is proven for, with the reason."""
    measured = {query.cell for query in law.measured}
    out = {cell: "not every cell is measured" for cell in range(law.schema.n_cells) if cell not in measured}
    for limited in constraints.ranges:
        out |= dict.fromkeys(limited.row.cells, "some sums have ranges")
    for query in law.measured:
        if query.cell is None:
            out |= dict.fromkeys(
                query.row.cells, "sums are measured beside the cells, which ties their errors together"
            )
        elif query.zero_weight != 1 and constraints.lower[query.cell] is not None:
            out[query.cell] = "lower limits are weighted, and no bound of errors holds for such a law"
    if not law.family.is_discrete:
        out = dict.fromkeys(range(law.schema.n_cells), "the noise is not on the integers")
    return out


_MANY_PARTS = 8


class NotProvenError(Exception):
    """No bound of errors is proven for what is asked; the message is the reason."""


@dataclass(frozen=True)
class DependencyTerm:
    """What a linear number takes from one dependency: parts of its groups, whole groups, and `steps` times y.

    Examples
    --------
    >>> dependency = Dependency(((0, 1), (2,)), (1, -1))
    >>> DependencyTerm.of(dependency, {0: 1}).parts
    (GroupPart(inside=(0,), outside=(1,), times=1, sign=1),)
    """

    dependency: Dependency
    parts: tuple[GroupPart, ...]
    others: tuple[tuple[tuple[int, ...], int], ...]
    steps: int

    @classmethod
    def of(cls, dependency: Dependency, coefficients: Mapping[int, int]) -> "DependencyTerm":
        """Write the number as ``steps * y + sum times * D_A``, with no steps if that can be."""
        if dependency.why_not:
            raise NotProvenError(dependency.why_not)
        whole: list[tuple[tuple[int, ...], int]] = []
        halves: list[tuple[GroupPart, GroupPart]] = []
        steps = 0
        for group, sign in zip(dependency.groups, dependency.signs, strict=True):
            values = sorted({coefficients.get(cell, 0) for cell in group})
            if len(values) > 2:
                raise NotProvenError("the number gives more than two weights to cells of one published sum")
            if len(values) == 1:
                steps += values[0] * sign
                whole.append((group, sign))
                continue
            sides = [tuple(cell for cell in group if coefficients.get(cell, 0) == value) for value in values]
            gap = values[1] - values[0]
            halves.append((GroupPart(sides[1], sides[0], gap, sign), GroupPart(sides[0], sides[1], -gap, sign)))
            steps += values[0] * sign  # the first half; the other has the larger value besides
        if len(halves) > _MANY_PARTS:
            raise NotProvenError(f"the number takes parts of {len(halves)} groups, and the limit is {_MANY_PARTS}")
        choices = [
            (steps - sum(part.times * part.sign for part in chosen if part.times < 0), chosen)
            for chosen in product(*halves)
        ]
        least, parts = min(choices, key=lambda choice: abs(choice[0]))
        return cls(dependency, parts, tuple(whole), least)

    @property
    def is_ordered(self) -> bool:
        """Whether laws are extreme in the likelihood ratio order, not only stochastically."""
        return len(self.parts) <= 1 and not (self.parts and self.steps)

    def largest(self, box: CountBox) -> IntegerWeights:
        """Return the largest law of the error over all tables in a box."""
        reach = box.reach(self.dependency.cells)
        if reach > LONGEST:
            raise NotProvenError(f"the noise reaches {reach:,} steps, and errors are followed up to {LONGEST:,}")
        try:
            return self._largest(box, reach)
        except TooWideError:
            raise NotProvenError("a published sum has too many cells for its errors to be computed in floats") from None

    def _largest(self, box: CountBox, reach: int) -> IntegerWeights:
        if not any(self.dependency.signs):
            return largest_in_a_sum(box, self.parts[0], reach) if self.parts else NOTHING
        if self.parts and not self.is_ordered:
            return largest_across(box, self.parts, self.others, self.steps, reach)
        if self.parts:
            return largest_in_a_group(box, self.parts[0], self.others, reach)
        if not self.steps:
            return NOTHING
        (cells, sign), *others = self.others
        return largest_in_a_group(box, GroupPart(cells, (), self.steps * sign, sign), others, reach)

    @property
    def negated(self) -> "DependencyTerm":
        """The same for the negative number."""
        return DependencyTerm(
            self.dependency,
            tuple(GroupPart(part.inside, part.outside, -part.times, part.sign) for part in self.parts),
            self.others,
            -self.steps,
        )

    def laws(self, box: CountBox) -> tuple[IntegerWeights, IntegerWeights]:
        """Return the largest law of the error, and that of its negative."""
        return self.largest(box), self.negated.largest(box)


def together(laws: Sequence[IntegerWeights]) -> IntegerWeights:
    """Return the law of a sum of independent errors."""
    out = NOTHING
    for law in laws:
        out = out.plus(law)
    return out
