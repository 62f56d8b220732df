"""What a draft does, computed at once: noise, errors, certificate, disclosure. Public but for the data that enter.

Of the confidential data only what the invariants disclose enters, as in `congenial plan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from time import perf_counter

import numpy as np
from markupsafe import Markup

from congenial.arrays import Ints
from congenial.bundle.expected_errors import NO_ERROR, SumError, warning_lines
from congenial.bundle.naming_and_versions import Naming
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.queries import Cells, Query
from congenial.conditions.rows_and_intervals import Row
from congenial.curator.alternatives_and_target_error import (
    TreeAlternative,
    disclosed_areas,
    error_of_a_cell,
    noise_on_a_cell,
    tree_alternatives,
)
from congenial.curator.made_up_tables import made_up_sums, typical_tables, uneven_tables
from congenial.curator.preview import TreePreview, tree_preview
from congenial.curator.preview_text import no_proven_intervals, screen
from congenial.curator.sections import PROTECTED, Section
from congenial.errors import SchemaError
from congenial.law import MeasuredQuery, PublicLaw
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.noise import FAMILIES
from congenial.pages.svg_charts import Bar, error_bars
from congenial.plan import Plan
from congenial.privacy.certificate_inputs import CONDITIONAL
from congenial.privacy.disclosure import Disclosure, disclosure_of, level_sentences
from congenial.privacy.weighted_zeros.calibrate import calibrated_lines, is_open_above
from congenial.progress_and_interrupts import cancellation, checkpoint
from congenial.release import Prepared
from congenial.sampling.error_moments import ErrorMoments, exact_errors
from congenial.sampling.target_and_system import System
from congenial.schema import Schema
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import AreaTables, Table
from congenial.workbench.measured_drafts import (
    NO_TABLE,
    PUBLISHED,
    MeasuredErrors,
    measured_errors,
    table_error_of_a_cell,
)
from congenial.workbench.workload_panel import WorkloadDesign
from congenial.workbench.workspace import Leaves, Workspace
from congenial.workload.records import Records

# The table as it is laid out on a page: one dimension down, one across, the others summed over. It holds no counts.

_MOST_CELLS = 4_000  # of the table whose cells get an error each

Key = tuple[int | None, int | None]
"""A row and a column of the layout; None is the sum over all of them."""


@dataclass(frozen=True, eq=False)
class Crosstab:
    """Sums of a table that a page shows.

    Attributes
    ----------
    down : str
        The dimension whose levels are rows.
    across : str or None
        The dimension whose levels are columns; None for a table with one dimension.
    """

    schema: Schema
    down: str
    across: str | None

    @classmethod
    def of(cls, schema: Schema, down: str | None = None, across: str | None = None) -> "Crosstab":
        """Return the layout of two dimensions, or of those that fit a page best: the one with most levels goes down."""
        names = schema.names
        for name in (down, across):
            if name is not None and name not in names:
                raise SchemaError(f"{name!r} is not a dimension; there are {', '.join(names)}")
        longest = max(names, key=lambda name: len(schema.labels(name)))
        first = down or next((name for name in (longest, *names) if name != across), longest)
        others = [name for name in names if name != first]
        second = across if across in others else min(others, key=lambda n: len(schema.labels(n)), default=None)
        return cls(schema, first, second)

    @property
    def rows_labels(self) -> tuple[str, ...]:
        """The labels of rows."""
        return self.schema.labels(self.down)

    @property
    def columns_labels(self) -> tuple[str, ...]:
        """The labels of columns."""
        return () if self.across is None else self.schema.labels(self.across)

    @property
    def summed(self) -> tuple[str, ...]:
        """The dimensions that are summed over."""
        return tuple(name for name in self.schema.names if name not in {self.down, self.across})

    @cached_property
    def places(self) -> dict[Key, int]:
        """Where the sum of a row and a column stands among the statistics."""
        columns: Sequence[int | None] = [None, *range(len(self.columns_labels))]
        keys = [(i, j) for i in (None, *range(len(self.rows_labels))) for j in columns]
        return {key: number for number, key in enumerate(keys)}

    @cached_property
    def rows(self) -> list[Row]:
        """The sums: all cells, each row and column, each crossing; then single cells where these are not crossings."""
        sums = [Row.of(self.name_of(key), self.cells_of(key)) for key in self.places]
        if self.has_cells or self.schema.n_cells > _MOST_CELLS:
            return sums
        return [*sums, *(Row.of(self.schema.cell_name(cell), [cell]) for cell in range(self.schema.n_cells))]

    @property
    def has_cells(self) -> bool:
        """Whether the crossings are single cells."""
        return not self.summed

    @cached_property
    def places_of_cells(self) -> Ints:
        """Where the single cells stand among the statistics; all crossings where there are too many cells."""
        if self.has_cells or self.schema.n_cells > _MOST_CELLS:
            crossings = [(i, j) for i, j in self.places if i is not None and (j is not None or self.across is None)]
            return np.array([self.places[key] for key in crossings], np.int64)
        return np.arange(len(self.places), len(self.rows))

    @cached_property
    def kinds(self) -> list[tuple[str, Ints]]:
        """Kinds of numbers in words, with where they stand."""

        def places(*, by_row: bool, by_column: bool) -> Ints:
            keys = [(i, j) for i, j in self.places if (i is not None, j is not None) == (by_row, by_column)]
            return np.array([self.places[key] for key in keys], np.int64)

        kinds = [("a single cell", self.places_of_cells)]
        if self.summed:
            kinds.append((f"a number by {self.across} and {self.down}", places(by_row=True, by_column=True)))
        if self.across is not None or self.summed:
            kinds.append((f"a number by {self.down}", places(by_row=True, by_column=False)))
        if self.across is not None:
            kinds.append((f"a number by {self.across}", places(by_row=False, by_column=True)))
        return [*kinds, ("the total", np.array([0], np.int64))]

    def where(self, key: Key) -> dict[str, list[str]]:
        """Return the labels that a sum is over; empty for all cells."""
        i, j = key
        labels = {} if i is None else {self.down: [self.rows_labels[i]]}
        return labels if j is None or self.across is None else {**labels, self.across: [self.columns_labels[j]]}

    def cells_of(self, key: Key) -> list[int]:
        """Return the cells of a sum."""
        return [int(cell) for cell in self.schema.cells(self.where(key) or None)]

    def name_of(self, key: Key) -> str:
        """Return a sum in words."""
        return ", ".join(f"{name}={label}" for name, (label,) in self.where(key).items()) or "total"


_LEAST, _MOST = Fraction(1, 100), Fraction(50)  # budgets that are bounded without a long proof
_SOME_AREAS = 9  # that sums over all areas are computed from
_MOST_NUMBERS = 3_000_000  # of all levels together, that are drawn while somebody waits
_MOST_SUMS = 500  # of a layout, that are looked at one by one
_BEING_PROVEN = "How much less noise is enough is being proven; the figures above are the most that it can be."
_WIDER = 1.25  # the picture's scale leaves that much room, so that a small change does not move it


@dataclass(frozen=True)
class PanelLevel:
    """A level of a release: one of areas or of one table, several of a tree.

    Attributes
    ----------
    share : str
        What it gets of the budget, in words; nothing where it has all of it or every precision is stated.
    noise : float
        Standard deviation of the noise on a cell, before anything is made exact or adds up.
    """

    name: str
    n_units: int
    share: str
    noise: float


@dataclass(frozen=True, repr=False)
class Panel:
    """Everything that a page shows beside a draft. Public: of the data it has the disclosed values alone.

    Attributes
    ----------
    levels : tuple of PanelLevel
        The top first.
    sections : list of Section
        What is disclosed and what is promised, in sentences.
    area : Area
        Where errors are computed: the middle one of the areas by size.
    centre : array (cell,)
        A made-up table of that area.
    errors : ErrorMoments or None
        Of the layout's sums in the published table; None where draws are needed.
    is_known : array (cell,)
        Cells of that area that the exact numbers disclose.
    is_bound : bool
        Whether noise is the most that it can be, by a bound that needs no long proof: a better one is being proven.
    population : TreePreview or None
        Of a tree: errors by level, drawn around a made-up population or, where it is measured, in closed form.
    measured : MeasuredErrors or None
        Of a measured release, errors of its measurements beside those of its table.
    """

    spec: Spec
    plan: Plan
    crosstab: Crosstab
    levels: tuple[PanelLevel, ...]
    sections: Sequence[Section]
    area: Area
    centre: Ints
    errors: ErrorMoments | None
    is_known: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    is_bound: bool = False
    population: TreePreview | None = None
    measured: MeasuredErrors | None = None

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on a cell of the lowest level, before anything is made exact."""
        return self.levels[-1].noise

    @property
    def error(self) -> float | None:
        """Root mean squared error of a released cell, over the whole table; of a measured tree, at its lowest level."""
        if self.population is not None and self.population.estimates:
            return self.population.estimates[-1].cell
        if self.errors is None:
            return None
        return float(np.sqrt((self.errors.size[self.crosstab.places_of_cells] ** 2).mean()))

    @property
    def why_no_table(self) -> str:
        """Why a measured release would have no table, in a sentence; nothing where it has one."""
        why = "" if self.measured is None else self.measured.why_no_table
        return f"{NO_TABLE}: {why}" if why else ""

    @property
    def n_numbers(self) -> int:
        """How many numbers all levels have together."""
        return self.spec.schema.n_cells * sum(level.n_units for level in self.levels)

    @property
    def drawn_errors(self) -> TreePreview | None:
        """Where errors are drawn here; larger trees take too long while somebody waits."""
        return self.population if self.n_numbers <= _MOST_NUMBERS else None

    @property
    def seconds(self) -> float:
        """About how long a draw of the units at the top takes."""
        return len(self.plan.law.areas) * self.plan.seconds_per_area

    def bars(self) -> list[Bar]:
        """Return kinds of numbers with their least and largest error, and the bias that is largest."""
        return [] if self.errors is None else self._bars(self.errors)

    def measurement_bars(self) -> list[Bar]:
        """Return the same of the measurements; nothing where there are none, or none of single cells."""
        is_there = self.measured is not None and self.measured.measurements is not None
        return self._bars(self.measured.measurements) if is_there else []  # type: ignore[union-attr,arg-type]

    def _bars(self, errors: ErrorMoments) -> list[Bar]:
        bars: list[Bar] = []
        for title, places in self.crosstab.kinds:
            sizes, biases = errors.size[places], errors.bias[places]
            noisy = sizes[sizes > NO_ERROR]
            bias = float(biases[np.argmax(np.abs(biases))]) if biases.size else 0.0
            low, high = (float(noisy.min()), float(noisy.max())) if noisy.size else (0.0, 0.0)
            bars.append((title, low, high, bias))
        return bars

    def exact_at(self) -> dict[Key, str]:
        """Return for sums of the layout the lowest level at which they are exact, and so in all above it.

        Nothing where errors tell it, or where there are too many sums to look at each.
        """
        lowest: dict[Key, str] = {}
        rows: list[dict[int, int]] = []
        for level in reversed(self.levels) if self.errors is None and len(self.crosstab.places) <= _MOST_SUMS else ():
            rows += self._exact_rows(level.name)
            for key in self.crosstab.places:
                if key not in lowest and rows and _follows(self.crosstab.cells_of(key), rows):
                    lowest[key] = level.name
        return lowest

    def _exact_rows(self, level: str) -> list[dict[int, int]]:
        """Return the sums that are stated to be exact in every unit of a level."""
        invariants = self.spec.invariants
        conditions = [stated.condition for stated in invariants if (stated.at or self.levels[0].name) == level]
        rows = [row for query in conditions if isinstance(query, Query) for row in query.rows(self.spec.schema)]
        return [dict(zip(row.cells, row.coefficients, strict=True)) for row in rows]


def level_bars(population: TreePreview) -> list[Bar]:
    """Return the errors to expect of a cell and of a total, level by level, around a made-up population."""
    bars: list[Bar] = []
    for level in population.errors:
        bars += [
            (f"{level.name}: a cell", level.cell, level.cell, 0.0),
            (f"{level.name}: its total", level.total, level.total, 0.0),
        ]
    return bars


def picture_of(bars: Sequence[Bar], beside: Sequence[Bar] = ()) -> Markup:
    """Return errors as bars, on one scale with those of a picture beside it."""
    return error_bars(bars, _WIDER * max((bar[2] for bar in (*bars, *beside)), default=1.0))


def _follows(cells: Sequence[int], rows: Sequence[dict[int, int]]) -> bool:
    """Whether a sum of cells is a combination of rows."""
    return len(rows) in dependence([*rows, dict.fromkeys(sorted(cells), 1)]).follows


# A design: a spec with its confidential data, of areas or of a tree. Everything else is the same for both.


@dataclass(frozen=True)
class AreasDesign:
    """A spec with the tables of one or more areas. Confidential."""

    spec: Spec
    tables: Table | AreaTables = field(repr=False)

    def panel(self, crosstab: Crosstab, *, seconds: float | None = None) -> Panel:
        """Compute what the spec does. Nothing is charged, nothing drawn.

        Parameters
        ----------
        seconds : float, optional
            How long a proof may take; then noise is bounded by what is known without it.
        """
        mechanism = self.spec.mechanism
        areas = disclosed_areas(self.spec, mechanism, self.tables)
        plan, is_bound = _planned(mechanism, areas, seconds)
        checkpoint()
        centres = typical_tables(plan.law)
        area, centre = list(centres.items())[len(centres) // 2]
        measured = measured_errors(plan, area, centre, crosstab.rows) if plan.law.is_measured else None
        if measured is not None:
            errors = measured.table
        else:
            errors = exact_errors(System.of(plan.law.areas[area], plan.law.measured), centre, crosstab.rows)
        checkpoint()
        disclosure = disclosure_of(areas, mechanism.invariants)
        levels = (PanelLevel(areas.name or "table", len(areas), "", noise_on_a_cell(plan.law)),)
        sections, is_known = self._sections(plan, disclosure, is_bound=is_bound), known_cells(disclosure, plan, area)
        facts = (self.spec, plan, crosstab, levels, sections, area, centre, errors, is_known, is_bound)
        return Panel(*facts, measured=measured)

    def _sections(self, plan: Plan, disclosure: Disclosure, *, is_bound: bool) -> list[Section]:
        unit = "person" if self.spec.unit is None else self.spec.unit.word
        bare, promises, warning = plan.not_protected_text, no_proven_intervals(plan.law), ""
        lines = [*bare, *level_sentences([disclosure], unit)]
        lines = lines or ["Nothing follows from the exact numbers but themselves."]
        if is_bound and plan.budget is not None:
            promises.append(f"At most {plan.budget.amount} for one {unit}. {_BEING_PROVEN}")
        else:
            promises.append(str(plan.meaning))
            warning = plan.meaning.warning
        if plan.law.is_measured:
            promises.append(PUBLISHED)
        promise = Section("What is promised", [*([warning] if warning else []), *promises], n_bold=int(bool(warning)))
        return [Section("Not protected any more", lines, n_bold=len(bare)), promise]

    def plan(self) -> Plan:
        """Return the plan, without anything that is shown around it."""
        mechanism = self.spec.mechanism
        areas = disclosed_areas(self.spec, mechanism, self.tables)
        checkpoint()
        return mechanism.plan(areas)

    def prove(self) -> None:
        """Prove what the spec costs, so that it is known when it is requested."""
        _ = self.plan().certificate

    def price(self, other: Spec, panel: Panel) -> tuple[float, float | None] | None:
        """Return about the noise and the error of a cell that the same budget gives under other invariants.

        Noise is found to three digits and not proven: what is shown has two, and nothing is drawn with it.
        """
        mechanism = other.mechanism
        law = mechanism.likely_law(disclosed_areas(other, mechanism, self.tables))
        checkpoint()
        plan = Plan.of(law, mechanism.neighbours, mechanism.rows_per_unit)
        error_of = table_error_of_a_cell if law.is_measured else error_of_a_cell
        return noise_on_a_cell(law), error_of(plan, panel.area, panel.centre)

    def prepare(self, naming: Naming) -> Prepared:
        """Plan the release. Nothing is charged, nothing drawn."""
        by = self.spec.by
        return self.spec.mechanism.prepare(self.tables, naming, area="area" if by is None else by.name)

    def synthetic(self) -> "AreasDesign":
        """Return the design with made-up tables that have the exact numbers of the data."""
        law, schema = self.plan().law, self.spec.schema
        counts = uneven_tables(law, range(len(law.areas)))
        if self.spec.by is None:
            return AreasDesign(self.spec, Table(schema, counts[0].reshape(schema.shape)))
        return AreasDesign(self.spec, AreaTables(schema, [str(label) for label in law.areas.labels], counts))


@dataclass(frozen=True)
class TreeDesign:
    """A spec with the leaves of a tree. Confidential."""

    spec: Spec
    leaves: Leaves

    def panel(self, crosstab: Crosstab, *, seconds: float | None = None) -> Panel:  # noqa: ARG002
        """Compute what the spec does; there is no long proof to wait for."""
        preview = self._preview()
        plan = preview.plan
        levels = tuple(
            PanelLevel(
                level.name,
                len(level.codes),
                "" if level.share is None else f"{float(level.share):.0%}",
                level.deviation,
            )
            for level in plan.levels
        )
        none = np.zeros(self.spec.schema.n_cells, np.int64)
        sections = sorted(screen(preview), key=lambda section: section.heading == PROTECTED)  # the certificate is below
        is_known = none.astype(np.bool_)
        return Panel(*(self.spec, plan, crosstab, levels, sections, None, none, None, is_known), population=preview)

    def _preview(self) -> TreePreview:
        return tree_preview(self.spec, self.prepare(self.spec.naming))

    def alternatives(self, panel: Panel) -> tuple[TreeAlternative, ...]:
        """Return the same measured tree with exact numbers left out."""
        return tree_alternatives(self.spec, panel.plan, self.leaves.counts)

    def prove(self) -> None:
        """Prove nothing: the certificate of a tree is a formula."""

    def price(self, other: Spec, panel: Panel) -> tuple[float, float | None] | None:  # noqa: ARG002
        """Return nothing: invariants cost no noise in a tree, and errors are drawn."""
        return None

    def prepare(self, naming: Naming) -> Prepared:
        """Plan the release. Nothing is charged, nothing drawn."""
        tree, zeros, counts = self.leaves.tree, self.leaves.zeros, self.leaves.counts
        return self.spec.tree_mechanism(tree, zeros, self.leaves.across).prepare_ordered(counts, naming)

    def synthetic(self) -> "TreeDesign":
        """Return the design with made-up leaves that have the exact numbers of the data, at every level."""
        return TreeDesign(self.spec, replace(self.leaves, counts=self._preview().leaves))


Design = AreasDesign | TreeDesign


def design_of(spec: Spec, data: Table | AreaTables | Leaves) -> Design:
    """Return a spec with its data, of areas or of a tree."""
    return TreeDesign(spec, data) if isinstance(data, Leaves) else AreasDesign(spec, data)


def design_in(workspace: Workspace, spec: Spec, file: str) -> Design | WorkloadDesign:
    """Return a spec of the workbench's folder with its data, whatever these are."""
    data = workspace.data(spec, file)
    if isinstance(data, Records):
        return WorkloadDesign(spec, data, workspace.path(file).parent)
    return design_of(spec, data)


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
        with cancellation(check):
            plan = mechanism.plan(areas)
            _ = plan.certificate
    except TimeoutError:
        return bound, True
    return plan, False


def bounded_plan(mechanism: Mechanism, areas: Areas) -> Plan | None:
    """Return a plan with at least the mechanism's noise: weighted zeros by the bound for any conditions.

    It is valid for one table, or where the total of every area is exact, with every cell measured once and free above;
    None elsewhere. Its loss is the budget (docs/claims/weighted-zeros.md, section 2).
    """
    budget, query = mechanism.budget, mechanism.queries[0]
    is_calibrated = (
        len(mechanism.queries) == 1 and isinstance(query, Cells) and (query.precision, query.zeros) == (None, None)
    )
    if (
        not is_calibrated
        or query.where is not None
        or budget is None
        or budget.epsilon is None
        or budget.delta is not None
    ):
        return None
    if not _LEAST <= budget.epsilon <= _MOST:
        return None
    if FAMILIES[mechanism.noise].exponent != 1 or mechanism.neighbours != "bounded" or mechanism.rows_per_unit > 1:
        return None
    if mechanism.method != CONDITIONAL:
        return None
    patterns = [group.pattern for group in areas.groups]
    cells = range(mechanism.schema.n_cells)
    if any(pattern.ranges for pattern in patterns) or not all(
        pattern.is_fixed(cell) or is_open_above(pattern, cell) for pattern in patterns for cell in cells
    ):
        return None
    line = calibrated_lines(budget.epsilon)
    measured = MeasuredQuery(query.title, line.precision, tuple(query.rows(mechanism.schema)), line.weight)
    law = PublicLaw(mechanism.schema, mechanism.noise, (measured,), areas)
    plan = Plan.of(law, mechanism.neighbours, budget=budget, requested=mechanism.queries)
    is_one = len(areas) == 1 or all(structure.case.moves.total_is_fixed for structure in plan.structures)
    return plan if is_one else None


def known_cells(disclosure: Disclosure, plan: Plan, area: Area) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which cells of an area the exact numbers disclose."""
    place = list(plan.law.areas.labels).index(area)
    for kinds in disclosure.kinds:
        where = np.flatnonzero(kinds.places == place)
        if where.size:
            return np.asarray(kinds.is_disclosed[kinds.kind_of_area[where[0]]])
    return np.zeros(plan.law.schema.n_cells, np.bool_)


def sums_over_areas(plan: Plan) -> tuple[tuple[SumError, ...], list[str]]:
    """Return errors and biases of sums over areas around made-up tables, and warnings; nothing for one table."""
    if plan.law.areas.name is None:
        return (), []
    aggregates = made_up_sums(plan, _SOME_AREAS)
    return aggregates.sums, warning_lines(aggregates)
