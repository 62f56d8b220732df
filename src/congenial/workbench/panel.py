"""What a choice does, computed at once: noise, errors, certificate, what is given away. Public but for the tables in.

Of the confidential tables only what the invariants disclose enters, as in `congenial plan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter

import numpy as np
from markupsafe import Markup

from congenial.arrays import Ints
from congenial.bundle.expected_errors import NO_ERROR, SumError, warning_lines
from congenial.bundle.report import level_deviation
from congenial.conditions.areas import Area, Areas
from congenial.conditions.linear_algebra import dependence
from congenial.conditions.queries import Cells, Query
from congenial.curator.alternatives import disclosed, error_of_a_cell, noise_on_a_cell
from congenial.curator.preview import TreePreview, given_away_lines
from congenial.curator.reference_tables import made_up_sums, typical_tables
from congenial.law import MeasuredQuery, PublicLaw
from congenial.mechanism import Mechanism, prepare_tree
from congenial.noise import FAMILIES
from congenial.pages.svg import Bar, error_bars
from congenial.plan import Plan
from congenial.privacy.disclosure import Review, review
from congenial.privacy.zero_weights.calibrate import calibrated_lines, has_floor
from congenial.progress import give_way, patience
from congenial.sampling.error_moments import ErrorMoments, exact_errors
from congenial.sampling.system import System
from congenial.spec.spec import Spec
from congenial.table import AreaTables, Table
from congenial.tree.plan import ChainPlan
from congenial.workbench.desk import Leaves
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
    errors: ErrorMoments | None
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


# What a choice does in a tree of areas: noise and certificate at once, errors level by level when they are drawn.
#
# Of the confidential leaves only what the invariants disclose enters, as in `congenial plan`.

_MOST_NUMBERS = 3_000_000  # of all levels together, that are drawn while somebody waits
_WIDER = 1.25  # the picture's scale leaves that much room, so that a small change does not move it

Row = dict[int, int]


@dataclass(frozen=True, repr=False)
class TreePanel:
    """The plan of a tree, and what a page shows of it. Public: of the data it has the disclosed values alone.

    Attributes
    ----------
    preview : TreePreview
        What `congenial plan` says of it.
    """

    preview: TreePreview
    grid: Grid

    @classmethod
    def of(cls, spec: Spec, leaves: Leaves, grid: Grid) -> "TreePanel":
        """Plan a tree. Nothing is charged, nothing drawn."""
        ready = prepare_tree(spec.tree_mechanism(leaves.tree, leaves.zeros), leaves.counts, spec.naming)
        if ready.chain is None:
            raise ValueError("the spec has no hierarchy")
        return cls(TreePreview(spec, ready.chain, ready.digest, ready.reviews), grid)

    @property
    def chain(self) -> ChainPlan:
        """The plan of all levels."""
        return self.preview.chain

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels, the top first."""
        return self.chain.law.tree.levels

    @property
    def noise(self) -> list[float]:
        """The standard deviation of each level's noise, before anything is made exact or adds up."""
        return [level_deviation(self.chain, number) for number in range(len(self.levels))]

    @property
    def shares(self) -> dict[str, str]:
        """What each level gets of the budget, in words; nothing where every precision is given."""
        given = self.chain.shares or ()
        return {name: f"{float(share):.0%}" for name, share in zip(self.levels, given, strict=False)}

    @property
    def n_numbers(self) -> int:
        """How many numbers all levels have together."""
        return self.chain.law.n_cells * sum(len(codes) for codes in self.chain.law.tree.codes)

    @property
    def has_errors(self) -> bool:
        """Whether errors are drawn here; larger trees take too long while somebody waits."""
        return self.n_numbers <= _MOST_NUMBERS

    def exact_at(self) -> dict[tuple[int | None, int | None], str]:
        """Return for sums of the grid the lowest level at which they are exact, and so in all above it."""
        found: dict[tuple[int | None, int | None], str] = {}
        rows: list[Row] = []
        for level in reversed(self.levels):
            rows += self._stated(level)
            for key in self.grid.places:
                if key not in found and rows and _follows(self.grid.cells_of(key), rows):
                    found[key] = level
        return found

    def _stated(self, level: str) -> list[Row]:
        """Return the sums that are stated to be exact in every unit of a level."""
        conditions = [one.condition for one in self.preview.spec.invariants if (one.at or self.levels[0]) == level]
        rows = [row for one in conditions if isinstance(one, Query) for row in one.rows(self.preview.spec.schema)]
        return [dict(zip(row.cells, row.coefficients, strict=True)) for row in rows]

    def picture(self) -> Markup:
        """Return the errors to expect of a cell and of a total, level by level, around a made-up population."""
        bars: list[Bar] = []
        for one in self.preview.errors:
            bars += [
                (f"{one.name}: a cell", one.cell, one.cell, 0.0),
                (f"{one.name}: its total", one.total, one.total, 0.0),
            ]
        return error_bars(bars, _WIDER * max((bar[2] for bar in bars), default=1.0))


def _follows(cells: Sequence[int], rows: Sequence[Row]) -> bool:
    """Whether a sum of cells is a combination of rows."""
    return len(rows) in dependence([*rows, dict.fromkeys(sorted(cells), 1)]).follows
