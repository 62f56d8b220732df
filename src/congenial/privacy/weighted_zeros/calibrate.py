"""From a budget to weighted zeros: the largest precision of a group, and the weight, whose certificate stays within it.

Every decision is made in balls on decimals of a fixed number of digits, so that it is the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, floor
from typing import NamedTuple

import flint

from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Column, columns
from congenial.errors import PrivacyError
from congenial.exact import ball, double_above_exp, ends
from congenial.noise import DoubleGeometric
from congenial.privacy.bounds_and_enumerated_losses import calibrated_cells, round_up, rounded_down, unit_of
from congenial.privacy.weighted_zeros.group_cost import (
    EXCESS_DIGITS,
    MOST_CELLS,
    group_excess_holds,
    group_side_holds,
    lines_excess,
    pair_excess,
)
from congenial.privacy.weighted_zeros.group_cost_given_total import (
    MOST_ROUNDS,
    Multiset,
    broken_multiset,
    spread_multisets,
    total_excess,
    total_side_is_likely,
)

_PRECISION_DIGITS = 5
_FEW_DIGITS = 3  # where choices are compared
_WEIGHT_DIGITS = 4
_BITS = 160
# Budgets: outside, the closed form is near or series are too long.
_LEAST_EPSILON, _MAX_EPSILON = Fraction(1, 20), Fraction(30)
_SMALL, _SMALL_FOR_TOTALS, _FEW_CELLS = Fraction(1, 4), Fraction(1, 10), 20


Check = Callable[[str, Fraction, Fraction, Fraction], bool]
"""Whether a side, ``lower`` or ``upper``, holds at a base, a weight and an excess."""


@dataclass(frozen=True)
class WeightedZeros:
    """A group's precision and weight of zero, with what they are proven to cost. Public.

    Attributes
    ----------
    precision : Fraction
        Of the Double Geometric noise of every cell; `base` is the rational number in use.
    weight : Fraction
        Of the value 0.
    excess : Fraction
        The normalisers of two tables one record apart have a ratio of at most ``1 + excess``.
    theorem : str
        ``lines``, ``group`` or ``total``: which section of docs/claims/weighted-zeros.md proves it.
    """

    precision: Fraction
    weight: Fraction
    excess: Fraction
    theorem: str

    @property
    def base(self) -> Fraction:
        """The smallest double at or above ``exp(-precision)``, as noise has it."""
        return Fraction(double_above_exp(self.precision))

    def loss(self, records: int = 1) -> Fraction:
        """Return what so many records cost at most that change between cells of the group, rounded up."""
        return records * changed_loss(self.precision, self.excess)


def changed_loss(precision: Fraction, excess: Fraction) -> Fraction:
    """Return ``2 precision + log(1 + excess)``, rounded up.

    Examples
    --------
    >>> float(changed_loss(Fraction("0.42"), Fraction("0.17")))
    0.997003748809665
    """
    with flint.ctx.workprec(_BITS):
        return 2 * precision + round_up(ends((1 + ball(excess)).log())[1])


def excess_left(epsilon: Fraction, precision: Fraction) -> Fraction:
    """Return the largest excess that a budget leaves beside a precision, rounded down as certificates round it up."""
    with flint.ctx.workprec(_BITS + 3 * ceil(epsilon)):
        low: Fraction = ends(ball(epsilon - 2 * precision).expm1())[0]
    return low if low <= 0 else rounded_down(low, EXCESS_DIGITS)


@lru_cache(maxsize=256)
def calibrated_zeros(epsilon: Fraction, cells: int, *, is_total_fixed: bool = False) -> WeightedZeros:
    """Return the largest precision of a group of cells, with its weight, that a budget for one changed record covers.

    Parameters
    ----------
    epsilon : Fraction
        For one record that changes between two cells of the group.
    cells : int
        Of the group; of a single cell no record can move to another, and nothing is lost but what the cap leaves.
    is_total_fixed : bool
        Whether the total of the group is an invariant, or follows from invariants.

    Examples
    --------
    >>> zeros = calibrated_zeros(Fraction(1), 4)
    >>> float(zeros.precision), float(zeros.weight), zeros.theorem
    (0.39576, 4.968, 'group')
    >>> float(calibrated_zeros(Fraction(1), 4, is_total_fixed=True).precision) > 0.47
    True
    """
    if epsilon <= 0:
        raise PrivacyError(f"a budget must be above 0 to leave a precision, and it is {epsilon}")
    if type(cells) is not int or cells < 1:
        raise PrivacyError(f"a group has a number of cells, from 1 on, not {cells!r}")
    if cells == 1:
        return _alone(epsilon)
    candidates: list[WeightedZeros | None] = [calibrated_lines(epsilon)]
    if _LEAST_EPSILON <= epsilon <= _MAX_EPSILON:
        candidates.append(_calibrated_group(epsilon, cells))
        if is_total_fixed and 2 < cells <= _most_cells_of_totals(epsilon):
            candidates.append(_calibrated_total(epsilon, cells))
    if is_total_fixed and cells == 2:
        candidates.append(_closed_form(epsilon, "total", _balanced, pair_excess))
    return max((zeros for zeros in candidates if zeros is not None), key=lambda zeros: zeros.precision)


@lru_cache(maxsize=256)
def likely_zeros(epsilon: Fraction, cells: int, *, is_total_fixed: bool = False) -> tuple[Fraction, Fraction]:
    """Return about the precision and weight of `calibrated_zeros`, to three digits and without a proof.

    It compares choices in a tenth of the time. Nothing is drawn with it.

    Examples
    --------
    >>> precision, _ = likely_zeros(Fraction(1), 8, is_total_fixed=True)
    >>> zeros = calibrated_zeros(Fraction(1), 8, is_total_fixed=True)
    >>> abs(precision / zeros.precision - 1) < Fraction(1, 100)
    True
    """
    if not _LEAST_EPSILON <= epsilon <= _MAX_EPSILON or cells <= 2:
        zeros = calibrated_zeros(epsilon, cells, is_total_fixed=is_total_fixed)
        return zeros.precision, zeros.weight
    size = min(cells, MOST_CELLS if epsilon >= _SMALL else _FEW_CELLS)
    group = _search(partial(_quick_group, size), epsilon, "group", digits=_FEW_DIGITS) or calibrated_lines(epsilon)
    if is_total_fixed and cells <= _most_cells_of_totals(epsilon):
        tried: tuple[Multiset, ...] = ((0,) * (cells - 2), *spread_multisets(cells, group.base))
        likely = partial(total_side_is_likely, tried, cells)
        total = _search(likely, epsilon, "total", least=group.precision, digits=_FEW_DIGITS)
        group = total or group
    return group.precision, group.weight


def _quick_group(cells: int, side: str, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    return group_side_holds(side, cells, base, weight, excess, is_quick=True)


def _most_cells_of_totals(epsilon: Fraction) -> int:
    """Return up to which size a group with a fixed total is searched: a larger one gains little and takes long."""
    if epsilon >= _SMALL:
        return MOST_CELLS
    return 6 if epsilon >= _SMALL_FOR_TOTALS else 2


@lru_cache(maxsize=256)
def _calibrated_group(epsilon: Fraction, cells: int) -> WeightedZeros | None:
    """Search with a quick check, and once more with the whole one if that does not confirm what was found."""
    # At small budgets series are long, and fewer cells are counted, which is valid.
    size = min(cells, MOST_CELLS if epsilon >= _SMALL else _FEW_CELLS)

    def whole(side: str, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
        return group_side_holds(side, size, base, weight, excess)

    zeros = _search(partial(_quick_group, size), epsilon, "group")
    if zeros is None or group_excess_holds(size, zeros.base, zeros.weight, zeros.excess):
        return zeros
    return _search(whole, epsilon, "group", most=zeros.precision)


def _calibrated_total(epsilon: Fraction, cells: int) -> WeightedZeros | None:
    """Search with few multisets of types, and add the first that breaks what was found until none does."""
    by_group = _calibrated_group(epsilon, cells)
    least = None if by_group is None else by_group.precision
    most: Fraction | None = None
    tried: list[Multiset] = [(0,) * (cells - 2)]
    is_quick = True
    for _ in range(MOST_ROUNDS):
        likely = partial(total_side_is_likely, tuple(tried), cells, is_quick=is_quick)
        zeros = _search(likely, epsilon, "total", least=least, most=most)
        if zeros is None:
            return None
        if len(tried) > 1:  # the certificate will ask the same, and all multisets take a second
            proven = total_excess(cells, zeros.base, zeros.weight)
            if proven is not None and proven <= zeros.excess:
                return zeros
        broken = broken_multiset(cells, zeros.base, zeros.weight, zeros.excess)
        if broken is None:
            is_proven = group_excess_holds(cells, zeros.base, zeros.weight, zeros.excess, sides=("upper",))
            return zeros if is_proven else None
        most = zeros.precision
        if broken in tried:
            is_quick = False
        elif len(tried) == 1:
            tried = [broken, *spread_multisets(cells, zeros.base)]
        else:
            tried = [broken, *tried]
    return None


@lru_cache(maxsize=256)
def calibrated_lines(epsilon: Fraction) -> WeightedZeros:
    """Return the largest precision by the bound for any conditions, with the weight of noise clamped at zero.

    Examples
    --------
    >>> float(calibrated_lines(Fraction(1)).precision)
    0.35377
    """
    zeros = _closed_form(epsilon, "lines", clamped_weight, lines_excess)
    if zeros is None:
        raise PrivacyError(f"a budget of epsilon {float(epsilon):.3g} leaves no precision that noise can have")
    return zeros


def clamped_weight(base: Fraction) -> Fraction:
    """Return the weight of noise that is clamped at zero, ``1 / (1 - base)``, as a short decimal above it."""
    return _rounded_up(1 / (1 - base), _WEIGHT_DIGITS)


def _balanced(base: Fraction) -> Fraction:
    """Return ``1 / (1 - b)`` to ten digits: two cells with a fixed total then have all but equal normalisers."""
    return _rounded_up(1 / (1 - base * base), 10)


def _rounded_up(value: Fraction, digits: int) -> Fraction:
    unit = unit_of(value, digits)
    return ceil(value / unit) * unit


def _closed_form(
    epsilon: Fraction,
    theorem: str,
    weight_of: Callable[[Fraction], Fraction],
    excess_of: Callable[[Fraction, Fraction], Fraction],
) -> WeightedZeros | None:
    def at(precision: Fraction) -> WeightedZeros | None:
        base = Fraction(double_above_exp(precision))
        weight = weight_of(base)
        zeros = WeightedZeros(precision, weight, round_up(excess_of(base, weight)), theorem)
        return zeros if zeros.loss() <= epsilon else None

    return _bisect(at, epsilon)


def _alone(epsilon: Fraction) -> WeightedZeros:
    precision = rounded_down(epsilon / 2, _PRECISION_DIGITS)
    return WeightedZeros(precision, clamped_weight(Fraction(double_above_exp(precision))), Fraction(0), "lines")


def _bisect(
    at: Callable[[Fraction], WeightedZeros | None],
    epsilon: Fraction,
    least: Fraction | None = None,
    most: Fraction | None = None,
    digits: int = _PRECISION_DIGITS,
) -> WeightedZeros | None:
    """Return what is found at the largest decimal precision between two, by default a quarter and half of a budget."""
    unit = unit_of(epsilon / 2, digits)
    low, high = floor((least or epsilon / 4) / unit) - 1, floor((most or epsilon / 2) / unit) + 1
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        if (zeros := at(middle * unit)) is None:
            high = middle
        else:
            low, best = middle, zeros
    return best


def _search(
    holds: Check,
    epsilon: Fraction,
    theorem: str,
    *,
    least: Fraction | None = None,
    most: Fraction | None = None,
    digits: int = _PRECISION_DIGITS,
) -> WeightedZeros | None:
    """Return the largest precision for which some weight passes both sides of a check."""
    share = Fraction(3, 2)  # the weight times 1 - base, where the last search ended

    def at(precision: Fraction) -> WeightedZeros | None:
        nonlocal share
        base, excess = Fraction(double_above_exp(precision)), excess_left(epsilon, precision)
        if excess <= 0:
            return None
        weight = _weight(lambda side, weight: holds(side, base, weight, excess), 1 / (1 - base), share)
        if weight is None:
            return None
        share = weight * (1 - base)
        return WeightedZeros(precision, weight, excess, theorem)

    return _bisect(at, epsilon, least, most, digits)


def _weight(holds: Callable[[str, Fraction], bool], clamped: Fraction, share: Fraction) -> Fraction | None:
    """Return a weight at which both sides hold: too small a weight breaks the lower one, too large a one the upper."""
    unit = unit_of(clamped, _WEIGHT_DIGITS)
    low, high = max(ceil(1 / unit), floor(clamped / 2 / unit)) - 1, ceil(5 * clamped / 2 / unit)
    middle = min(max(floor(share * clamped / unit), low + 1), high - 1)
    while high - low > 1:
        weight = middle * unit
        has_upper, has_lower = holds("upper", weight), holds("lower", weight)
        if has_upper and has_lower:
            return weight
        if not has_upper and not has_lower:  # no weight above holds, and none below
            return None
        low, high = (middle, high) if has_upper else (low, middle)
        middle = (low + high) // 2
    return None


# Which precision and zero weight each cell gets for a budget: every class of alike cells all that its theorem allows.
#
# What is proposed here is public structure and arithmetic; whether the budget covers it is for its certificate to
# say.

_ALONE, _TOTAL, _GROUP, _PLAIN = range(4)
_LEAST, _MOST = Fraction(1, 10**9), Fraction(100)  # outside there is no such noise, or hardly any


@dataclass(frozen=True)
class CellClass:
    """Cells that share a precision and a zero weight."""

    text: str
    cells: tuple[int, ...]
    precision: Fraction
    zero_weight: Fraction


class _Rule(NamedTuple):
    """How a cell is calibrated: alone, in a group with an exact total, in a group, or without a zero weight.

    Attributes
    ----------
    n_cells : int
        How many cells the group has.
    """

    theorem: int
    n_cells: int = 0

    @property
    def text(self) -> str:
        return (
            "every cell in no exact sum",
            f"every cell of the groups of {self.n_cells} with an exact total",
            f"every cell of the groups of {self.n_cells}",
            "every other cell",
        )[self.theorem]

    def scale(self, budget: Fraction, neighbours: str, *, is_likely: bool) -> tuple[Fraction, Fraction]:
        """Return the largest precision that a budget in epsilon covers, and its zero weight; or about them."""
        if self.theorem == _ALONE:
            precision = budget / (2 if neighbours == "bounded" else 1)
            return precision, clamped_zero_weight(precision)
        if self.theorem == _PLAIN:
            return calibrated_cells(budget, "bounded"), Fraction(1)
        if is_likely:
            return likely_zeros(budget, self.n_cells, is_total_fixed=self.theorem == _TOTAL)
        zeros = calibrated_zeros(budget, self.n_cells, is_total_fixed=self.theorem == _TOTAL)
        return zeros.precision, zeros.weight


_FIXED = _Rule(_PLAIN, -1)


def clamped_zero_weight(precision: Fraction) -> Fraction:
    """Return the zero weight of noise that is clamped at the lower limit: all that lies below is moved there."""
    return 1 / (1 - DoubleGeometric(precision).base)


def weighted_cells(
    areas: Areas, neighbours: str, budget: Fraction, *, is_likely: bool = False
) -> tuple[CellClass, ...] | None:
    """Return classes of all cells for a budget in epsilon for one record; None where no zero weight is proposed.

    Parameters
    ----------
    is_likely : bool
        Whether about the precisions is enough, without a proof: to compare choices, never to draw.
    """
    if not _LEAST <= budget <= _MOST:
        return None
    patterns = [group.pattern for group in areas.groups]
    by_pattern = [_rules(pattern, neighbours) for pattern in patterns]
    members: dict[_Rule, list[int]] = {}
    for cell, rules in enumerate(zip(*by_pattern, strict=True)):
        members.setdefault(_joint(rules), []).append(cell)
    if len(members) > 1 and _FIXED in members:
        idle = members.pop(_FIXED)
        members[min(members)].extend(idle)
    if all(rule.theorem == _PLAIN for rule in members):
        return None
    classes = []
    for rule, cells in sorted(members.items()):
        precision, zero_weight = rule.scale(budget, neighbours, is_likely=is_likely)
        text = "every cell" if len(members) == 1 else rule.text
        classes.append(CellClass(text, tuple(sorted(cells)), precision, zero_weight))
    return tuple(classes)


def is_open_above(constraints: Constraints, cell: int) -> bool:
    """Whether a cell has a lower limit and no upper one."""
    return constraints.lower[cell] is not None and constraints.upper[cell] is None


def _rules(pattern: Constraints, neighbours: str) -> list[_Rule]:
    """Return the rule of each cell."""
    n_cells = pattern.schema.n_cells
    loose = {cell for cell in range(n_cells) if not pattern.is_fixed(cell)}
    equal = columns([limited.row for limited in pattern.equalities], n_cells)
    ranges = columns([limited.row for limited in pattern.ranges], n_cells)
    if neighbours == "unbounded" and not _is_fixed(pattern, loose, loose):
        are_alone = all(
            is_open_above(pattern, cell) and not equal[cell] and not ranges[cell] for cell in range(n_cells)
        )
        return [_Rule(_ALONE if are_alone else _PLAIN)] * n_cells
    classes: dict[Column, list[int]] = {}
    for cell in sorted(loose):
        classes.setdefault(equal[cell], []).append(cell)
    # Cells that never move take what others have.
    out = [_Rule(_PLAIN)] * n_cells if len(loose) == n_cells else [_FIXED] * n_cells
    for column, cells in classes.items():
        rule = _Rule(_PLAIN)
        if (
            len(cells) > 1
            and len({ranges[cell] for cell in cells}) == 1
            and all(is_open_above(pattern, c) for c in cells)
        ):
            is_alone = not column and not ranges[cells[0]]
            theorem = _ALONE if is_alone else _TOTAL if _is_fixed(pattern, set(cells), loose) else _GROUP
            rule = _Rule(theorem, 0 if is_alone else len(cells))
        for cell in cells:
            out[cell] = rule
    return out


def _is_fixed(pattern: Constraints, cells: set[int], loose: set[int]) -> bool:
    """Whether the equalities leave the sum of some cells one value."""
    lines = [equality.row.within(loose) for equality in pattern.equalities]
    return len(lines) in dependence([*lines, dict.fromkeys(sorted(cells), 1)]).follows


def _joint(rules: Sequence[_Rule]) -> _Rule:
    """Return a rule that serves areas of several patterns."""
    rules = [rule for rule in rules if rule != _FIXED]
    if len(set(rules)) <= 1:
        return rules[0] if rules else _FIXED
    if any(rule.theorem == _PLAIN for rule in rules):
        return _Rule(_PLAIN)
    return _Rule(_GROUP, min(rule.n_cells for rule in rules if rule.n_cells))
