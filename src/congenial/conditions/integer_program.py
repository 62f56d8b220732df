"""Integer programs over grouped cells, every answer checked in exact integers.

A claim "this is feasible" rests on a point that was substituted, a claim "nothing is below this" on an exact dual
bound, interval arithmetic or a finished branch and bound over them. What cannot be settled within the node limit is
reported as open, and bounds stay on the safe, outer side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple, NoReturn

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.base import Claim
from congenial.conditions.grouped_cells_and_lattice import (
    ROUNDS,
    Box,
    IntegerSolutions,
    group_cells,
    integer_solutions,
    solve_equalities,
)
from congenial.conditions.rows_and_intervals import FREE, Interval, Limited
from congenial.errors import ClashError
from congenial.progress_and_interrupts import checkpoint

# Linear relaxations solved in floats, their answers proven in exact fractions.
#
# A solver's multipliers are only a suggestion: whatever they are, weak duality makes them a bound, and the bound is
# computed here in exact arithmetic. Floats decide how good it is, never whether it is true.

_MAX_NODES = 2_000


@dataclass(frozen=True)
class Relaxation:
    """What is known of a relaxation: a proven lower bound (None: none), and the solver's point when it found one."""

    bound: Fraction | None
    point: Floats | None
    seems_unlimited: bool = False


def relax(rows: Sequence[Limited], box: Box, objective: dict[int, int]) -> Relaxation:
    """Minimise the objective over the real points of a system."""
    matrix, low, high = _float_rows(rows, len(box.low))
    cost = np.zeros(len(box.low))
    cost[list(objective)] = list(objective.values())
    solution = _solve(cost, matrix, (low, high), _float_box(box))
    if solution.point is None:
        return Relaxation(None, None, seems_unlimited=solution.is_unlimited)
    return Relaxation(best_dual_bound(rows, box, objective, solution.multipliers), solution.point)


def infeasibility_multipliers(rows: Sequence[Limited], box: Box) -> Floats | None:
    """Return multipliers that may prove the relaxation empty: those of the least total violation."""
    matrix, low, high = _float_rows(rows, len(box.low))
    n_rows, n = matrix.shape
    slack, (box_low, box_high) = np.eye(n_rows), _float_box(box)
    limits = np.concatenate([box_low, np.zeros(2 * n_rows)]), np.concatenate([box_high, np.full(2 * n_rows, np.inf)])
    cost = np.concatenate([np.zeros(n), np.ones(2 * n_rows)])
    solution = _solve(cost, np.hstack([matrix, slack, -slack]), (low, high), limits)
    return None if solution.point is None else solution.multipliers


def nearest_integers(rows: Sequence[Limited], box: Box, target: Floats, weights: Floats) -> list[int] | None:
    """Return an integer point with a small ``sum weights |y - target|`` by a bounded search; None if none was found.

    The solver works in floats: whoever needs the point substitutes it.
    """
    matrix, low, high = _float_rows(rows, len(box.low))
    n, (box_low, box_high) = len(target), _float_box(box)
    distance = np.hstack([np.eye(n), -np.eye(n), np.eye(n)])  # y - above + below = target
    stacked = np.vstack([np.hstack([matrix, np.zeros((len(matrix), 2 * n))]), distance])
    limits = np.concatenate([box_low, np.zeros(2 * n)]), np.concatenate([box_high, np.full(2 * n, np.inf)])
    ends = np.concatenate([low, target]), np.concatenate([high, target])
    solution = _solve(np.concatenate([np.zeros(n), weights, weights]), stacked, ends, limits, n_integers=n)
    return None if solution.point is None else [round(value) for value in solution.point[:n].tolist()]


class _Solution(NamedTuple):
    """Result of the solver: a point, if it found an optimal one, and the multipliers of the rows."""

    point: Floats | None
    multipliers: Floats
    is_unlimited: bool


def _solve(
    cost: Floats, matrix: Floats, rows: tuple[Floats, Floats], box: tuple[Floats, Floats], n_integers: int = 0
) -> _Solution:
    """Minimise a cost over ``rows[0] <= matrix x <= rows[1]`` and ``box[0] <= x <= box[1]`` by HiGHS.

    The first `n_integers` numbers of x are whole; then the search ends after some nodes, with the best point so far.
    """
    import highspy

    n_rows, n = matrix.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n, n_rows
    program.col_cost_, (program.col_lower_, program.col_upper_) = cost, box
    program.row_lower_, program.row_upper_ = rows
    places = [np.flatnonzero(line) for line in matrix]
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *map(len, places)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate([*places, np.zeros(0, np.int64)]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate(
        [*(line[place] for line, place in zip(matrix, places, strict=True)), np.zeros(0)]
    )
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if n_integers:
        kinds = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        program.integrality_ = [kinds[place >= n_integers] for place in range(n)]
        solver.setOptionValue("mip_max_nodes", _MAX_NODES)
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    is_limited = n_integers > 0 and status == highspy.HighsModelStatus.kSolutionLimit
    if status != highspy.HighsModelStatus.kOptimal and not is_limited:
        unlimited = (highspy.HighsModelStatus.kUnbounded, highspy.HighsModelStatus.kUnboundedOrInfeasible)
        return _Solution(None, np.zeros(n_rows), status in unlimited)
    solution = solver.getSolution()
    return _Solution(np.array(solution.col_value), np.array(solution.row_dual), is_unlimited=False)


def is_proven_empty(rows: Sequence[Limited], box: Box, multipliers: Floats) -> bool:
    """Whether these multipliers prove, in exact arithmetic, that no real point obeys the rows (Farkas)."""
    bound = best_dual_bound(rows, box, {}, multipliers)
    return bound is not None and bound > 0


def best_dual_bound(
    rows: Sequence[Limited], box: Box, objective: dict[int, int], multipliers: Floats
) -> Fraction | None:
    """Return the better of the exact bounds by the multipliers rounded to simple fractions and as they are."""
    exact = [Fraction(float(value)) for value in multipliers]
    simple = [value.limit_denominator(1000) for value in exact]
    bounds = [bound for choice in (simple, exact) if (bound := _dual_bound(rows, box, objective, choice)) is not None]
    return max(bounds, default=None)


def _dual_bound(
    rows: Sequence[Limited], box: Box, objective: dict[int, int], multipliers: Sequence[Fraction]
) -> Fraction | None:
    """Return ``min objective >= sum_r min(m_r * range_r) + sum_g min(reduced_g * box_g)``; None is minus infinity."""
    reduced = {g: Fraction(cost) for g, cost in objective.items()}
    bound = Fraction(0)
    for row, multiplier in zip(rows, multipliers, strict=True):
        if multiplier == 0:
            continue
        end = row.lower if multiplier > 0 else row.upper
        if end is None:
            return None
        bound += multiplier * end
        for g, times in row.terms.items():
            reduced[g] = reduced.get(g, Fraction(0)) - multiplier * times
    for g, cost in reduced.items():
        if cost == 0:
            continue
        end = box.low[g] if cost > 0 else box.high[g]
        if end is None:
            return None
        bound += cost * end
    return bound


def _float_rows(rows: Sequence[Limited], n: int) -> tuple[Floats, Floats, Floats]:
    matrix = np.zeros((len(rows), n))
    for line, row in zip(matrix, rows, strict=True):
        line[list(row.terms)] = list(row.terms.values())
    return matrix, *_float_box(Box.of(row.limits for row in rows))


def _float_box(box: Box) -> tuple[Floats, Floats]:
    low = np.array([-np.inf if end is None else float(end) for end in box.low])
    return low, np.array([np.inf if end is None else float(end) for end in box.high])


_NODES = 400
_FEW_GROUPS = 64
FAR = 2**55  # limits that run away, as they can where cells are unlimited, are not followed further


class EmptyError(Exception):
    """No integer point: proven."""


@dataclass(frozen=True)
class Minimum:
    """A proven lower bound of an integer program; `is_attained` when `point`, the best one found, has that value."""

    bound: int | None
    is_attained: bool
    point: tuple[int, ...] | None = None


def propagate(rows: Sequence[Limited], box: Box) -> Box:
    """Narrow the limits by each row in turn until nothing changes; raises `EmptyError` when no integer is left."""
    low, high = list(box.low), list(box.high)
    sides: list[tuple[dict[int, int], int]] = []
    for row in rows:
        if row.upper is not None:
            sides.append((row.terms, row.upper))
        if row.lower is not None:
            sides.append(({g: -times for g, times in row.terms.items()}, -row.lower))
    for _ in range(ROUNDS):
        changed = False
        for coefficients, limit in sides:
            changed |= _narrow(coefficients, limit, low, high)
        if not changed:
            break
    return Box(low, high)


def _narrow(coefficients: dict[int, int], limit: int, low: list[int | None], high: list[int | None]) -> bool:
    """Narrow by ``sum coefficients[g] * y[g] <= limit``: each term leaves room for the least that the others can be."""
    least = {g: _least(times, low[g], high[g]) for g, times in coefficients.items()}
    unlimited = [g for g, term in least.items() if term is None]
    if len(unlimited) > 1:
        return False
    known = sum(term for term in least.values() if term is not None)
    changed = False
    for g in unlimited or coefficients:
        room = limit - (known - (least[g] or 0))
        old_low, old_high = low[g], high[g]
        if coefficients[g] > 0:
            end = room // coefficients[g]
            if (old_high is None or end < old_high) and abs(end) < FAR:
                high[g], changed = end, True
        else:
            end = -(room // -coefficients[g])
            if (old_low is None or end > old_low) and abs(end) < FAR:
                low[g], changed = end, True
        new_low, new_high = low[g], high[g]
        if new_low is not None and new_high is not None and new_low > new_high:
            raise EmptyError
    return changed


def _least(times: int, low: int | None, high: int | None) -> int | None:
    end = low if times > 0 else high
    return None if end is None else times * end


def find_point(rows: Sequence[Limited], box: Box) -> list[int] | None:
    """Return an integer point that obeys everything; raises `EmptyError` when there is provably none.

    None means that the search ran into its limit: with cells unlimited on both sides it may not end by itself.
    """
    return _quick_point(rows, box) or _search(rows, box, {})[1]


def _quick_point(rows: Sequence[Limited], box: Box) -> list[int] | None:
    """Return a corner of the relaxation if it is an integer point, as it always is for totals and two-way margins.

    The lattice of all integer solutions, which the full search starts from, takes minutes for thousands of cells.
    """
    node = propagate(rows, box)
    even = _even_point(rows, node)
    if even is not None:
        return even
    on_line = _least_on_line(rows, node, {})
    if on_line is not None and on_line.point is not None:
        return list(on_line.point)
    point = relax(rows, node, {}).point
    return None if point is None else _integer_point(rows, node, point)


def _even_point(rows: Sequence[Limited], box: Box) -> list[int] | None:
    """Return the integer solution of the equalities next to the lower limits, or next to the middle of both.

    For a few sums over roomy cells one of them fits, and the solver of linear programs (0.4 s to load) is not needed.
    """
    low, high = box
    equal = [(row.terms, row.lower or 0) for row in rows if row.is_equality]
    solutions = integer_solutions(equal, len(low)) if len(low) <= _FEW_GROUPS else None
    if solutions is None:
        return None
    basis = np.array(solutions.basis, object).reshape(-1, len(low)).T
    for is_middle in (False, True):
        aim = [_towards(a, b, is_middle=is_middle) for a, b in zip(low, high, strict=True)]
        gap = [end - start for end, start in zip(aim, solutions.point, strict=True)]
        if max(map(abs, gap), default=0) > 2**50:
            return None
        steps = np.linalg.lstsq(basis.astype(np.float64), np.array(gap, np.float64), rcond=None)[0]
        moved = basis @ np.array([round(step) for step in steps.tolist()], object)
        point = [start + int(step) for start, step in zip(solutions.point, moved, strict=True)]
        if _obeys(rows, box, point):
            return point
    return None


def _towards(low: int | None, high: int | None, *, is_middle: bool) -> int:
    if low is None or high is None:
        return low if low is not None else high or 0
    return (low + high) // 2 if is_middle else low


def minimise(rows: Sequence[Limited], box: Box, objective: dict[int, int]) -> Minimum:
    """Return a proven lower bound of ``sum objective[g] * y[g]`` over the integer points (None: no bound found)."""
    checkpoint()
    on_line = _least_on_line(rows, box, objective)
    if on_line is not None:
        return on_line
    bound, point = _search(rows, box, objective)
    if point is None:
        return Minimum(bound, is_attained=False)
    return Minimum(bound, _value(objective, point) == bound, tuple(point))


def _least_on_line(rows: Sequence[Limited], box: Box, objective: dict[int, int]) -> Minimum | None:
    """Return the minimum where the equalities leave a point or a line, whose ends are found by division; else None."""
    n = len(box.limits)
    solutions = _solutions(rows, n) if n <= _FEW_GROUPS else None
    if solutions is None or len(solutions.basis) > 1:
        return None
    start, line = solutions.point, (solutions.basis or ((0,) * n,))[0]
    steps = FREE
    limited = [(start[g], line[g], interval) for g, interval in enumerate(box.limits)]
    limited += [(row.row.value(start), row.row.value(line), row.limits) for row in rows]
    for value, slope, limits in limited:
        room = limits.shifted(-value) if slope >= 0 else limits.shifted(-value).negated
        if slope:
            steps &= room.divided(abs(slope))
        elif 0 not in room:
            raise EmptyError
    if steps.is_empty:
        raise EmptyError
    slope = _value(objective, line)
    step = 0 if not slope else steps.low if slope > 0 else steps.high
    if step is None:
        return Minimum(None, is_attained=False)
    inside = step if slope else next((end for end in (steps.low, steps.high) if end is not None), 0)
    point = tuple(a + inside * b for a, b in zip(start, line, strict=True))
    return Minimum(_value(objective, point), is_attained=True, point=point)


def _value(objective: dict[int, int], point: Sequence[int]) -> int:
    return sum(cost * point[g] for g, cost in objective.items())


def _search(rows: Sequence[Limited], box: Box, objective: dict[int, int]) -> tuple[int | None, list[int] | None]:
    """Move the system to the origin, where floats are accurate, and search there; returns a bound and a point."""
    rows, box = _on_lattice(rows, box)
    if None in box.low or None in box.high:
        # Without limits, narrowing can run away where the plain relaxation sees the contradiction at once.
        multipliers = infeasibility_multipliers(rows, box)
        if multipliers is not None and is_proven_empty(rows, box, multipliers):
            raise EmptyError
    origin = [
        next((end for end in (low, high) if end is not None), 0)
        for low, high in zip(*propagate(rows, box), strict=True)
    ]
    moved = [Limited(row.row, row.limits.shifted(-row.row.value(origin))) for row in rows]
    around = Box.of(limits.shifted(-shift) for limits, shift in zip(box.limits, origin, strict=True))
    bound, point = _branch_and_bound(moved, around, objective)
    return (
        None if bound is None else bound + _value(objective, origin),
        None if point is None else [value + shift for value, shift in zip(point, origin, strict=True)],
    )


def _branch_and_bound(
    rows: Sequence[Limited], box: Box, objective: dict[int, int]
) -> tuple[int | None, list[int] | None]:
    """Return a proven bound of the objective and the best feasible point found."""
    best: list[int] | None = None
    unsettled: list[int | None] = []  # proven bounds of the boxes that were given up
    boxes: list[Box] = [box]
    for _ in range(_NODES):
        if not boxes:
            break
        try:
            node = propagate(rows, boxes.pop())
        except EmptyError:
            continue
        relaxed = relax(rows, node, objective)
        point = relaxed.point
        if relaxed.seems_unlimited:  # safe to believe without a proof: no bound is returned
            return None, best
        if point is None:
            multipliers = infeasibility_multipliers(rows, node)
            if multipliers is not None and is_proven_empty(rows, node, multipliers):
                continue
            lowest = _interval_bound(objective, node)
        else:
            lowest = None if relaxed.bound is None else ceil(relaxed.bound)
            integer_point = _integer_point(rows, node, point)
            if integer_point is not None and (
                best is None or _value(objective, integer_point) < _value(objective, best)
            ):
                best = integer_point
        if best is not None and (not objective or (lowest is not None and lowest >= _value(objective, best))):
            if not objective:
                return 0, best
            continue
        corner = [low for low, high in zip(*node, strict=True) if low is not None and low == high]
        if len(corner) == len(node.low):  # a single point is decided by substitution
            if _obeys(rows, node, corner) and (best is None or _value(objective, corner) < _value(objective, best)):
                best = corner
            continue
        boxes += _split(node, point)
    unsettled += [_interval_bound(objective, unexplored) for unexplored in boxes]
    if best is None and not unsettled:
        raise EmptyError
    bounds = [*unsettled, *([] if best is None else [_value(objective, best)])]
    proven = [bound for bound in bounds if bound is not None]
    return (min(proven) if len(proven) == len(bounds) else None), best


def _on_lattice(rows: Sequence[Limited], box: Box) -> tuple[Sequence[Limited], Box]:
    """Move the limits of rows and variables inward to values that the equalities' integer solutions can take."""
    solutions = _solutions(rows, len(box.low))
    if solutions is None:
        raise EmptyError
    moved = [
        row if row.is_equality else Limited(row.row, _inward(row.limits, *solutions.values(row.terms))) for row in rows
    ]
    ends = (_inward(limits, *steps) for limits, steps in zip(box.limits, solutions.of_variables, strict=True))
    return moved, Box.of(ends)


def _solutions(rows: Sequence[Limited], n: int) -> IntegerSolutions | None:
    """Return all integer solutions of the equalities among rows."""
    return _solved(tuple(row for row in rows if row.is_equality), n)


# The limits of every cell ask for the same system twice a cell: of 46 cells with 25 margins, 60 % of the time.
@lru_cache(maxsize=8)
def _solved(equalities: tuple[Limited, ...], n: int) -> IntegerSolutions | None:
    return integer_solutions([(row.terms, row.lower or 0) for row in equalities], n)


def _inward(limits: Interval, value: int, step: int) -> Interval:
    """Return the limits moved inward to the values ``value + step * k``; raises `EmptyError` when none is left."""
    moved = limits.on_steps(value, step)
    if moved.is_empty:
        raise EmptyError
    return moved


def _interval_bound(objective: dict[int, int], box: Box) -> int | None:
    terms = [_least(cost, box.low[g], box.high[g]) for g, cost in objective.items()]
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def _integer_point(rows: Sequence[Limited], box: Box, point: Floats) -> list[int] | None:
    """Return an exact feasible point near the solver's: rounded, or solved for from what sits at its limits."""
    rounded = [int(value) for value in np.rint(point).tolist()]
    if _obeys(rows, box, rounded):
        return rounded
    at_limit: dict[int, int] = {}
    for g, value in enumerate(point.tolist()):
        for end in (box.low[g], box.high[g]):
            if end is not None and abs(value - end) <= 1e-9 * max(1.0, abs(float(end))):
                at_limit[g] = end
    solved = solve_equalities(rows, at_limit, rounded)
    return solved if solved is not None and _obeys(rows, box, solved) else None


def _obeys(rows: Sequence[Limited], box: Box, point: Sequence[int]) -> bool:
    is_inside = all(value in limits for value, limits in zip(point, box.limits, strict=True))
    return is_inside and all(row.holds(point) for row in rows)


def _split(box: Box, point: Floats | None) -> list[Box]:
    """Cut the box in two at the variable furthest from an integer, or else the widest."""
    width = [inf if low is None or high is None else float(high - low) for low, high in zip(*box, strict=True)]
    loose = [g for g in range(len(width)) if width[g] > 0]
    off = np.zeros(len(width)) if point is None else np.round(np.abs(point - np.rint(point)), 6)
    g = max(loose, key=lambda g: (off[g], width[g]))
    low, high = box.low[g], box.high[g]
    if point is not None:
        middle = int(np.floor(point[g]))
    else:
        middle = (low + high) // 2 if low is not None and high is not None else 0
    if high is not None:
        middle = min(middle, high - 1)
    if low is not None:
        middle = max(middle, low)
    lower_half, upper_half = Box(list(box.low), list(box.high)), Box(list(box.low), list(box.high))
    lower_half.high[g], upper_half.low[g] = middle, middle + 1
    return [lower_half, upper_half]


# Which conditions contradict each other: an irreducible set, in words.


def raise_clash(claims: Sequence[Claim], n_cells: int) -> NoReturn:
    """Raise `ClashError` with an irreducible subset of claims that no integer table obeys.

    Each claim is left out in turn; if the rest is still proven contradictory it stays out. What remains is irreducible,
    as far as tables were found that obey all but one claim.
    """
    n_cells = max([n_cells, *(max(limited.row.cells) + 1 for claim in claims for limited in claim.limits)])
    needed: list[Claim] = []
    is_irreducible = _keep_needed(list(claims), [], needed, n_cells)
    if len(needed) == 1:
        message = f"no table of whole numbers obeys the condition «{needed[0].text}»; correct it or leave it out"
    else:
        otherwise = ", while all but any one of them can be met" if is_irreducible else ""
        listed = "\n".join(f"  - {claim.text}" for claim in needed)
        message = f"no table of whole numbers obeys these conditions together{otherwise}:\n{listed}\n"
        message += "correct or leave out one of them"
    raise ClashError(message, tuple(claim.text for claim in needed), is_irreducible)


def _keep_needed(claims: list[Claim], after: list[Claim], needed: list[Claim], n_cells: int) -> bool:
    """Move the claims that a contradiction needs, beside those kept and after, to `needed`; say whether that is proven.

    A whole half that is not needed goes at once: the outcome is that of trying one by one.
    """
    has_table = _has_table([*needed, *after], n_cells)
    if has_table is False:
        return True
    if len(claims) == 1:
        needed += claims
        return has_table is True
    half = len(claims) // 2
    first = _keep_needed(claims[:half], [*claims[half:], *after], needed, n_cells)
    return _keep_needed(claims[half:], after, needed, n_cells) and first


def _has_table(claims: Sequence[Claim], n_cells: int) -> bool | None:
    """Whether an integer table obeys all the claims; None when the search ended without an answer."""
    grouped = group_cells([limited for claim in claims for limited in claim.limits], [FREE] * n_cells)
    try:
        return True if find_point(grouped.rows, grouped.box) is not None else None
    except EmptyError:
        return False
