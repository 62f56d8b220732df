"""Public tables in place of the confidential ones, before anything is spent: made up, or a curator's reference file."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.expected_errors import AggregateErrors, SumError, aggregate_errors, evenly_by_size, typical_places
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import integer_solutions
from congenial.conditions.integer_program import nearest_integers
from congenial.conditions.queries import margin
from congenial.errors import ConditionError, ReadingError
from congenial.law import PublicLaw
from congenial.plan import Plan
from congenial.randomness import replay_rng
from congenial.spec.spec_and_hierarchy import Spec

UNIFORM = "people spread as evenly as the invariants allow"
MADE_UP = "a made-up population: totals as published, small groups far rarer than large ones"

_RARE_AREAS = 5  # that stand for all: what an empty level gets depends little on the others
_MOST_KINDS = 6  # of levels, in a dimension


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


def even_table(law: PublicLaw, constraints: Constraints) -> Ints:
    """Return a public table within the invariants whose cells are as equal as they can be."""
    sizes = [limited.lower or 0 for limited in constraints.equalities]
    level = max(sizes) / law.schema.n_cells if sizes else 10.0
    for sums in (_even_sums, _nearest_sums):
        table = _spread(constraints, sums(constraints, level))
        if table is not None:
            return table
    return np.array(constraints.point, np.int64)  # a table that obeys the conditions will do


def _even_sums(constraints: Constraints, level: float) -> list[int] | None:
    """Return sums of groups of cells that no condition tells apart, near even, from the equalities alone."""
    grouped = constraints.grouped
    equal = [(row.terms, row.lower or 0) for row in grouped.rows if row.is_equality]
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
    return [int(value) for value in sums.tolist()]


def _nearest_sums(constraints: Constraints, level: float) -> list[int] | None:
    """Return such sums by a solver, which knows ranges and limits as well."""
    grouped = constraints.grouped
    sizes = np.array([len(cells) for cells in grouped.members], np.float64)
    return nearest_integers(grouped.rows, grouped.box, level * sizes, 1 / sizes)


def _spread(constraints: Constraints, sums: list[int] | None) -> Ints | None:
    """Spread sums of groups evenly over their cells; None if that breaks a condition."""
    if sums is None:
        return None
    table = np.zeros(constraints.schema.n_cells, np.int64)
    for cells, total in zip(constraints.grouped.members, sums, strict=True):
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
            loose = [cell for cell in cells if not constraints.is_fixed(cell)]
            shares = np.cumsum(weights[loose]) / max(weights[loose].sum(), 1e-300)
            ends = np.floor(int(even[loose].sum()) * shares + start)  # chance decides who has the last of them
            uneven[loose] = np.diff(ends, prepend=0.0)
        out.append(uneven if constraints.holds(uneven) else even)
    return np.array(out, np.int64)


def emptied_table(constraints: Constraints, table: Ints, cells: Sequence[int]) -> Ints | None:
    """Return a table in which nobody is in some cells: their people are in the others that no condition tells apart.

    None where the conditions leave no such others.
    """
    out, gone = table.copy(), set(cells)
    for members in constraints.grouped.members:
        loose = [cell for cell in members if not constraints.is_fixed(cell)]
        emptied, others = [c for c in loose if c in gone], [c for c in loose if c not in gone]
        if emptied and not others:
            return None
        if emptied:
            whole, rest = divmod(int(out[emptied].sum()), len(others))
            out[emptied] = 0
            out[others] += whole
            out[others[:rest]] += 1
    return out if constraints.holds(out) else None


def made_up_sums(plan: Plan, n_areas: int) -> AggregateErrors:
    """Return what tables add up to around a made-up population, and what levels come out as that nobody has."""
    places = places_by_size(plan.law, n_areas)
    errors = aggregate_errors(plan, uneven_tables(plan.law, places.tolist()), MADE_UP, places=places)
    return replace(errors, is_made_up=True, rare=tuple(_rare_levels(plan)) if len(plan.law.areas) > 1 else ())


def _rare_levels(plan: Plan) -> Iterator[tuple[str, SumError]]:
    """Go through the dimensions: the level of each that comes out most too large over all areas if nobody has it."""
    law, places = plan.law, places_by_size(plan.law, _RARE_AREAS)
    areas = [law.areas[law.areas.labels[place]] for place in places.tolist()]
    even = [even_table(law, constraints) for constraints in areas]
    for name in law.schema.names:
        by_kind: dict[tuple[int, ...], SumError] = {}
        for row in margin(name).rows(law.schema):
            kind = _kind_of(areas[0], row.cells)
            tables = [
                emptied_table(constraints, table, row.cells) for constraints, table in zip(areas, even, strict=True)
            ]
            possible = [place for place, table in enumerate(tables) if table is not None]
            if kind in by_kind or not any(kind) or not possible or len(by_kind) >= _MOST_KINDS:
                continue
            emptied_tables = np.array([tables[place] for place in possible], np.int64)
            by_kind[kind] = aggregate_errors(plan, emptied_tables, MADE_UP, places=places[possible], rows=[row]).sums[0]
        positive = [error for error in by_kind.values() if error.bias_of_all > 0]
        if positive:
            yield name, max(positive, key=lambda error: error.bias_of_all)


def _kind_of(constraints: Constraints, cells: Sequence[int]) -> tuple[int, ...]:
    """Return how many of some cells are in each group that conditions tell apart: levels alike have the same bias."""
    loose = {cell for cell in cells if not constraints.is_fixed(cell)}
    return tuple(len(loose.intersection(members)) for members in constraints.grouped.members)


def places_by_size(law: PublicLaw, most: int) -> Ints:
    """Return some areas, spread evenly over the sizes that the invariants say."""
    return evenly_by_size(_sizes(law), most)


def reference_plan(spec: Spec, plan: Plan, areas: Sequence[str], counts: Ints) -> Plan:
    """Return a plan at the precisions of another, around tables (area, cell) with invariants' values of their own."""
    mechanism = spec.mechanism
    try:
        if spec.by is None:
            disclosed = Areas.one(Constraints.of(spec.schema, mechanism.invariants, counts[0].tolist()))
        else:
            tables = dict(zip(areas, counts, strict=True))
            disclosed = Areas.disclosed(spec.schema, mechanism.invariants, tables, name=spec.by.name)
    except ConditionError as refused:
        raise ReadingError(f"the reference does not obey the conditions of the spec: {refused}") from None
    law = replace(plan.law, areas=disclosed)
    reference = Plan.of(law, plan.neighbours, plan.rows_per_unit)
    reference.check_samplers()
    return reference
