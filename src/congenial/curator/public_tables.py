"""Public tables to compute with before anything is spent: made up within the invariants, or given by the curator."""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Ints
from congenial.baselines.baseline import Problem
from congenial.baselines.quadratic import least_squares
from congenial.baselines.topdown import rounded
from congenial.bundle.adding_up import evenly
from congenial.bundle.expected_error import typical_places
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.errors import BaselineError, ConditionError, ReadingError
from congenial.plan import Plan
from congenial.public_law import PublicLaw
from congenial.randomness import replay_rng
from congenial.spec.spec import Spec

UNIFORM = "people spread as evenly as the invariants allow"
MADE_UP = "a made-up population: totals as published, small groups far rarer than large ones"


def typical_tables(law: PublicLaw) -> dict[Area, Ints]:
    """Return an even table for one area, or for three of many: what the invariants say of their size decides which."""
    labels = [law.areas.labels[place] for place in typical_places(_sizes(law))]
    return {area: even_table(law, law.areas[area]) for area in labels}


def _sizes(law: PublicLaw) -> Ints:
    """Return how large each area is (area,), as far as the invariants say."""
    sizes = np.zeros(len(law.areas), np.int64)
    for group in law.areas.groups:
        sizes[group.places] = group.values.max(axis=1, initial=0)
    return sizes


def _size(constraints: Constraints) -> int:
    return max((limited.lower or 0 for limited in constraints.equalities), default=0)


def even_table(law: PublicLaw, constraints: Constraints) -> Ints:
    """Return a public table within the invariants whose cells are as equal as they can be."""
    problem = Problem(constraints, law.measured)
    n = law.schema.n_cells
    level = _size(constraints) / n if constraints.equalities else 10.0
    quick = _even_groups(constraints, level)
    if quick is not None:
        return quick
    try:
        near = least_squares(problem.polytope, np.eye(n), np.ones(n), np.full(n, level))
        return rounded(problem, near)
    except BaselineError:  # a table that obeys the conditions will do
        return np.array(constraints.point, np.int64)


def _even_groups(constraints: Constraints, level: float) -> Ints | None:
    """Spread people evenly over cells that no condition tells apart, sums whole and near even; None if that fails.

    No solver is needed for this, and `congenial plan` need not wait half a second to load one.
    """
    grouped = constraints.grouped
    equal = [(dict(row.coefficients), row.lower or 0) for row in grouped.rows if row.is_equality]
    sizes = np.array([len(cells) for cells in grouped.members])
    solutions = integer_solutions(equal, len(sizes))
    if solutions is None:
        return None
    sums = np.array(solutions.point, np.float64)
    if solutions.basis:
        basis = np.array(solutions.basis, np.float64).T
        scaled = basis / np.sqrt(sizes)[:, None]  # even cells, not even sums
        steps = np.linalg.lstsq(scaled, (level * sizes - sums) / np.sqrt(sizes), rcond=None)[0]
        sums = sums + basis @ np.rint(steps)
    table = np.zeros(constraints.schema.n_cells, np.int64)
    for cells, total in zip(grouped.members, sums.astype(np.int64).tolist(), strict=True):
        whole, rest = divmod(total, len(cells))
        table[list(cells)] = [whole + (place < rest) for place in range(len(cells))]
    return table if constraints.holds(table) else None


def uneven_tables(law: PublicLaw, places: Sequence[int]) -> Ints:
    """Return a made-up table (area, cell) for each of some areas: within the invariants, and some cells far rarer.

    Cells that no condition tells apart are as populous in relation to each other in every area, as small groups of a
    population are: what adds up wrongly then shows.
    """
    weights = np.log(replay_rng("made-up population").uniforms(law.schema.n_cells)) ** 2
    starts = replay_rng("made-up rounding").uniforms(len(places))
    out = []
    for place, start in zip(places, starts.tolist(), strict=True):
        constraints = law.areas[law.areas.labels[place]]
        even = even_table(law, constraints)
        uneven = even.copy()
        for cells in constraints.grouped.members:
            own = [cell for cell in cells if not constraints.is_fixed(cell)]
            shares = np.cumsum(weights[own]) / max(weights[own].sum(), 1e-300)
            ends = np.floor(int(even[own].sum()) * shares + start)  # chance decides who has the last of them
            uneven[own] = np.diff(ends, prepend=0.0)
        out.append(uneven if constraints.holds(uneven) else even)
    return np.array(out, np.int64)


def places_by_size(law: PublicLaw, most: int) -> Ints:
    """Return some areas, spread evenly over the sizes that the invariants say."""
    return evenly(_sizes(law), most)


def reference_plan(spec: Spec, plan: Plan, areas: Sequence[str], counts: Ints) -> Plan:
    """Return a plan at the precisions of another, around tables (area, cell) with invariants' values of their own."""
    mechanism = spec.mechanism
    try:
        if spec.by is None:
            own = Areas.one(Constraints.of(spec.schema, mechanism.invariants, counts[0].tolist()))
        else:
            tables = dict(zip(areas, counts, strict=True))
            own = Areas.disclosed(spec.schema, mechanism.invariants, tables, name=spec.by.name)
    except ConditionError as refused:
        raise ReadingError(f"the reference does not obey the conditions of the spec: {refused}") from None
    law = PublicLaw(plan.law.schema, plan.law.noise, plan.law.queries, own)
    made = Plan.of(law, plan.neighbours, plan.rows_per_unit)
    made.check_samplers()
    return made
