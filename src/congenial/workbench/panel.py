"""What a choice does, computed at once: noise, errors, certificate, what is given away. Public but for the tables in.

Of the confidential tables only what the invariants disclose enters, as in `congenial plan`.
"""

from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.adding_up import SumError
from congenial.bundle.adding_up_text import warning_lines
from congenial.bundle.expected_error import NO_ERROR
from congenial.conditions.areas import Area, Areas
from congenial.conditions.kinds.cells import Cells
from congenial.curator.given_away import given_away_lines
from congenial.curator.price import error_of_a_cell, noise_on_a_cell
from congenial.curator.public_tables import made_up_sums, typical_tables
from congenial.curator.ways_out import disclosed
from congenial.mechanism import Mechanism
from congenial.noise import FAMILIES
from congenial.patience import give_way, patience
from congenial.plan import Plan
from congenial.privacy.review import Review, review
from congenial.privacy.weighted import calibrated_lines
from congenial.privacy.weighted_cells import has_floor
from congenial.public_law import MeasuredQuery, PublicLaw
from congenial.sampling.exact_errors import Errors, exact_errors
from congenial.sampling.system import System
from congenial.spec.spec import Spec
from congenial.table import AreaTables, Table
from congenial.workbench.grid import Grid

_LEAST, _MOST = Fraction(1, 100), Fraction(50)  # budgets that are bounded without a long proof
_SOME_AREAS = 9  # that sums over all areas are computed from


@dataclass(frozen=True, repr=False)
class Panel:
    """Everything that a page shows beside a choice.

    Attributes
    ----------
    area : Area
        Where errors are computed: the middle one of the areas by size.
    sizes, biases : array (statistic,) or None
        Of the grid's sums; None where draws would be needed.
    is_known : array (cell,)
        Cells of that area that the exact numbers give away by themselves.
    is_bound : bool
        Whether noise is the most that it can be, by a bound that needs no long proof: a better one is being proven.
    """

    spec: Spec
    plan: Plan
    grid: Grid
    area: Area
    centre: Ints
    reviewed: Review
    errors: Errors | None
    is_known: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    is_bound: bool = False

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on a cell, before anything is made exact."""
        return noise_on_a_cell(self.plan.law)

    @property
    def error(self) -> float | None:
        """Root mean squared error of a released cell, over the whole table."""
        if self.errors is None:
            return None
        own = self.errors.size[self.grid.places_of_cells]
        return float(np.sqrt((own**2).mean()))

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away by themselves, in words."""
        return given_away_lines([self.reviewed], self.unit)

    @property
    def seconds(self) -> float:
        """About how long a draw of all areas takes."""
        groups = zip(self.plan.law.areas.groups, self.plan.samplers, strict=True)
        return sum(len(group.places) * sampler.seconds for group, sampler in groups)

    def bars(self) -> list[tuple[str, float, float, float]]:
        """Return kinds of numbers with their least and largest error, and the bias that is largest."""
        if self.errors is None:
            return []
        found = []
        for title, places in self.grid.kinds:
            own = self.errors.size[places]
            loose = own[own > NO_ERROR]
            biases = self.errors.bias[places]
            bias = float(biases[np.argmax(np.abs(biases))]) if biases.size else 0.0
            low, high = (float(loose.min()), float(loose.max())) if loose.size else (0.0, 0.0)
            found.append((title, low, high, bias))
        return found


def planned(spec: Spec, tables: Table | AreaTables) -> Plan:
    """Return the plan of a spec, without anything that is shown around it."""
    mechanism = spec.mechanism
    areas = disclosed(spec, mechanism, tables)
    give_way()
    return mechanism.plan(areas)


def panel(spec: Spec, tables: Table | AreaTables, grid: Grid, *, seconds: float | None = None) -> Panel:
    """Compute what a choice does.

    Parameters
    ----------
    seconds : float, optional
        How long a proof may take; then noise is bounded by what is known without it.
    """
    mechanism = spec.mechanism
    areas = disclosed(spec, mechanism, tables)
    plan, is_bound = _planned(mechanism, areas, seconds)
    give_way()
    centres = typical_tables(plan.law)
    area, centre = list(centres.items())[len(centres) // 2]
    errors = exact_errors(System.of(plan.law.areas[area], plan.law.measured), centre, grid.rows)
    give_way()
    found = review(areas, mechanism.invariants)
    return Panel(spec, plan, grid, area, centre, found, errors, known_cells(found, plan, area), is_bound)


def _planned(mechanism: Mechanism, areas: Areas, seconds: float | None) -> tuple[Plan, bool]:
    """Return the plan, and whether it is the one that is known without a long proof."""
    bound = None if seconds is None else bounded_plan(mechanism, areas)
    if bound is None or seconds is None:
        plan = mechanism.plan(areas)
        _ = plan.certificate
        return plan, False
    end = perf_counter() + seconds

    def check() -> None:
        if perf_counter() > end:
            raise TimeoutError

    try:
        with patience(check):
            plan = mechanism.plan(areas)
            _ = plan.certificate
    except TimeoutError:
        return bound, True
    return plan, False


def bounded_plan(mechanism: Mechanism, areas: Areas) -> Plan | None:
    """Return a plan with at least the noise of the mechanism's own: weighted zeros by the bound for any conditions.

    It is valid for one table, or where the total of every area is exact, with every cell measured once and free above;
    None elsewhere. Its loss is the budget (docs/claims/weighted-zeros.md, section 2).
    """
    budget, query = mechanism.budget, mechanism.queries[0]
    is_open = (
        len(mechanism.queries) == 1 and isinstance(query, Cells) and (query.precision, query.zeros) == (None, None)
    )
    if not is_open or query.where is not None or budget is None or budget.epsilon is None or budget.delta is not None:
        return None
    if not _LEAST <= budget.epsilon <= _MOST:
        return None
    if FAMILIES[mechanism.noise].exponent != 1 or mechanism.neighbours != "bounded" or mechanism.rows_per_unit > 1:
        return None
    patterns = [group.pattern for group in areas.groups]
    if any(pattern.ranges for pattern in patterns):
        return None
    if not all(
        pattern.is_fixed(c) or has_floor(pattern, c) for pattern in patterns for c in range(mechanism.schema.n_cells)
    ):
        return None
    found = calibrated_lines(budget.epsilon)
    rows = tuple(query.rows(mechanism.schema))
    law = PublicLaw(
        mechanism.schema, mechanism.noise, (MeasuredQuery(query.title, found.precision, rows, found.weight),), areas
    )
    plan = Plan.of(law, mechanism.neighbours, budget=budget, asked=mechanism.queries)
    is_one = len(areas) == 1 or all(structure.case.moves.total_is_fixed for structure in plan.structures)
    return plan if is_one else None


def known_cells(found: Review, plan: Plan, area: Area) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which cells of an area the exact numbers give away."""
    place = list(plan.law.areas.labels).index(area)
    for kinds in found.kinds:
        where = np.flatnonzero(kinds.places == place)
        if where.size:
            return np.asarray(kinds.is_news[kinds.which[where[0]]])
    return np.zeros(plan.law.schema.n_cells, np.bool_)


@dataclass(frozen=True)
class OverAreas:
    """What sums over all areas are off by, around made-up tables."""

    sums: tuple[SumError, ...]
    warnings: tuple[str, ...]


def over_areas(plan: Plan) -> OverAreas | None:
    """Return errors and biases of sums over areas; None for one table."""
    if plan.law.areas.name is None:
        return None
    found = made_up_sums(plan, _SOME_AREAS)
    return OverAreas(found.sums, tuple(warning_lines(found)))


def price(spec: Spec, tables: Table | AreaTables, area: Area, centre: Ints) -> tuple[float, float | None]:
    """Return about the noise and the error of a cell that the same budget gives under other invariants.

    Noise is found to three digits and not proven: what is shown has two, and nothing is drawn with it.
    """
    mechanism = spec.mechanism
    law = mechanism.likely_law(disclosed(spec, mechanism, tables))
    give_way()
    return noise_on_a_cell(law), error_of_a_cell(law, area, centre)
