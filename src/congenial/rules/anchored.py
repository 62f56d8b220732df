"""The rule *anchored*: areas lend each other strength, tied to the nearest table where a prior could mislead.

For each area, with n its measurements and N its *nearest* table:

1. each cell has a posterior: negative binomial around the area's size times the profile of all areas, times an effect
   of the area in a band of cells; the exact numbers hold in the mean, by tilting;
2. a cell that is 0 in N is 0;
3. the sum of each part of a band is halfway between the posterior's and N's;
4. the sum of a cell over all areas is the median of those of n, of N and of the posteriors;
5. whole numbers have the least expected absolute error given all that, with the exact numbers.

What is learned from all areas are whole numbers of ``2**-20``, published beside the table. Given these, a run of areas
is decided by itself: a fixed number of areas, in the order of their labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from math import ceil, isqrt, sqrt
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError
from congenial.memory_and_threads import map_in_threads
from congenial.portable_math import exp_e, log_e
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules.cell_bands import CellBands
from congenial.rules.exact_sums_as_graph import SumsAsGraph
from congenial.rules.kernels_anchored import (
    SumModel,
    add_up,
    anchor_bands,
    inherit_zeros,
    meet_sums,
    raked_groups,
    run_carry,
    whole_numbers,
)
from congenial.rules.kernels_cell_posteriors import (
    EFFECT_SHAPES,
    FIRST_EFFECT,
    FIRST_NODE,
    N_EFFECTS,
    N_NODES,
    NODE,
    NODES_OF_EFFECT,
    SHAPES,
    CellModel,
    band_likelihoods,
    posteriors,
)
from congenial.rules.nearest import NEAREST
from congenial.rules.rule_and_input import WORD_BITS, Learned, RuleInput, TableRule, TieWords, check_conditions

FEWEST_AREAS = 20
"""With fewer, there is too little to learn from."""

LEARNED_BITS = 20
_ONE = 1 << LEARNED_BITS
_MOST_CELLS = 5_000
_MOST_SAMPLED = 2_048
_NUMBERS_AT_ONCE = 1 << 21
_MOST_IN_RUN = 512
_LEAST_MEAN = 2e-3
_LEAST_GROUP = 0.3
_STEPS_OF_PROFILE = 3
_STEPS_OF_COLUMNS = 3
_TIE_BITS = 10
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 1e4
TOLERANCE = 1e-3
"""How far what is learned again may be from what was published, relative to 1 or to the number itself."""


@dataclass(frozen=True)
class Anchored(TableRule):
    """Posterior means of cells under a prior learned from all areas, anchored at the nearest tables.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"age": ["0-17", "18-44", "45-64", "65+"]})
    >>> counts = np.array([[3, 9, 6, 2]] * 24)
    >>> areas = Areas.of_counts(schema, [total()], [f"{n:02}" for n in range(24)], counts, name="area")
    >>> rows = tuple(Row.of(schema.cell_name(cell), [cell]) for cell in range(4))
    >>> measured = counts + np.array([[2, -1, -2, 1], [-1, 2, 1, -2]] * 12)
    >>> data = RuleInput(areas, rows, (Fraction(1, 2),) * 4, 1, measured, bytes(32))
    >>> tables = ANCHORED.decide(data)
    >>> bool((tables.sum(axis=1) == 20).all()), bool(abs(tables - counts).sum() < abs(measured - counts).sum())
    (True, True)
    """

    learns: ClassVar[bool] = True

    @property
    def alone(self) -> TableRule:
        """The rule of a unit that has no others beside it."""
        return NEAREST

    def decide(self, data: RuleInput, progress: Progress = silent, *, n_threads: int | None = None) -> Ints:
        """Return the table of each unit (unit, cell), learning from all of them."""
        return self.decide_with(data, self.learn(data, n_threads=n_threads), progress, n_threads=n_threads)

    def learn(self, data: RuleInput, *, n_threads: int | None = None) -> Learned:
        """Return what is learned from the measurements: whole numbers, in units of ``2**-20`` but for shapes."""
        return _Fit(_Frame(data), n_threads).learned()

    def decide_with(
        self, data: RuleInput, learned: Learned, progress: Progress = silent, *, n_threads: int | None = None
    ) -> Ints:
        """Return the table of each unit (unit, cell), given what was learned: the same integers on every machine."""
        frame = _Frame(data)
        numbers = _Numbers.of(learned, frame)
        tables = np.empty((len(data.areas), frame.n_cells), np.int64)
        n_done = 0

        def work(part: slice) -> tuple[Ints, Ints]:
            return frame.runs[part.start].places, _decided(frame, numbers, frame.runs[part.start])

        parts = [slice(number, number + 1) for number in range(len(frame.runs))]
        for places, some in map_in_threads(work, parts, n_threads):
            tables[places] = some
            n_done += len(places)
            progress(DECIDING, n_done, len(tables))
        check_conditions(data, tables)
        return tables

    def check(self, data: RuleInput, tables: Ints) -> None:
        """Raise `ConditionError` unless these are the tables that follow from what the measurements teach."""
        check_conditions(data, tables)
        self._check_tables(data, tables, self.learn(data))

    def check_with(self, data: RuleInput, tables: Ints, learned: Learned) -> None:
        """Raise `ConditionError` unless tables follow from what was learned, and that from the measurements."""
        check_conditions(data, tables)
        self._check_tables(data, tables, learned)
        again = self.learn(data)
        for name, numbers in again.items():
            unit = 1 if name in {"shapes", "effect_shapes"} else _ONE
            for stated, number in zip(learned[name], numbers, strict=True):
                if abs(stated - number) > TOLERANCE * max(unit, abs(number)):
                    raise ConditionError(
                        f"the {name} that are published as learned are not what the measurements teach: {stated} is"
                        f" there and {number} follows, more than {TOLERANCE:g} apart"
                    )

    def _check_tables(self, data: RuleInput, tables: Ints, learned: Learned) -> None:
        n_wrong = int((self.decide_with(data, learned) != tables).any(axis=1).sum())
        if n_wrong:
            units = "the table of 1 unit is" if n_wrong == 1 else f"the tables of {n_wrong:,} units are"
            raise ConditionError(f"{units} not what the rule {self.name!r}, version {self.version}, gives")

    def seconds(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> float:  # noqa: ARG002
        """Return about how long a table takes among many."""
        return 1e-5 * areas.groups[0].pattern.schema.n_cells

    def why_not(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> str | None:
        """Return why the rule does not apply; None if it does."""
        if len(areas) < FEWEST_AREAS:
            there = "1 table" if len(areas) == 1 else f"{len(areas)} areas"
            return (
                f"the rule {self.name} learns from areas, and is made for {FEWEST_AREAS} or more; there is {there}:"
                f" take the rule {NEAREST.name}"
            )
        n_cells = areas.groups[0].pattern.schema.n_cells
        if n_cells > _MOST_CELLS:
            return f"the rule {self.name} is made for {_MOST_CELLS:,} cells, and there are {n_cells:,}: take {NEAREST.name}"
        if (why := NEAREST.why_not(areas, rows, precisions)) is not None:
            return why
        measured = {row.cells[0] for row, share in zip(rows, precisions, strict=True) if row.coefficients == (1,) and share}
        for group in areas.groups:
            graph = SumsAsGraph(group.pattern)
            if not measured.issuperset(range(n_cells)) and set(range(n_cells)) - measured - set(graph.structure.fixed):
                return f"some cells are measured in sums only, and the rule {self.name} is for measured cells: take {NEAREST.name}"
            if (why := graph.why_not) is not None:
                return f"{why}, and the rule {self.name} has no way for that: take {NEAREST.name}"
        return None


ANCHORED = Anchored(
    "anchored",
    1,
    "anchored table",
    "The table with all exact numbers and limits whose expected absolute error is least under a prior that is learned"
    " from the measurements of all areas, so that areas lend to each other; tied to the nearest table: what is 0 there"
    " is 0, sums of bands of cells are halfway, and sums over areas are medians.",
)


_Result = TypeVar("_Result")

# Public structure: what is the same whatever was measured.


class _Run(NamedTuple):
    """Areas that are decided together, in the order of their labels."""

    places: Ints
    group: AreaGroup
    graph: SumsAsGraph
    sums: SumModel


@cache
def _node_tables() -> tuple[Floats, Floats, Floats, Floats]:
    """Return means, their logarithms, ``log(mean + shape)`` and ``mean / (mean + shape)`` at every node."""
    logs = [NODE * (FIRST_NODE + node) for node in range(N_NODES)]
    means = [exp_e(value) for value in logs]
    log_sums = [[log_e(mean + shape) for mean in means] for shape in SHAPES]
    ratios = [[mean / (mean + shape) for mean in means] for shape in SHAPES]
    return np.array(means), np.array(logs), np.array(log_sums), np.array(ratios)


@cache
def _effects() -> tuple[Floats, Floats]:
    """Return the effects, and their prior probabilities for each of `EFFECT_SHAPES`."""
    logs = [NODE * NODES_OF_EFFECT * (FIRST_EFFECT + number) for number in range(N_EFFECTS)]
    effects = [exp_e(value) for value in logs]
    priors = []
    for shape in EFFECT_SHAPES:
        weights = [exp_e(shape * (value - effect + 1.0)) for value, effect in zip(logs, effects, strict=True)]
        total = 0.0
        for weight in weights:
            total += weight
        priors.append([weight / total for weight in weights])
    return np.array(effects), np.array(priors)


class _Frame:
    """The structure of the input: bands, noise, runs."""

    def __init__(self, data: RuleInput) -> None:
        self.data = data
        self.schema = data.areas.groups[0].pattern.schema
        self.n_cells = self.schema.n_cells
        self.columns = self._columns()

    def _columns(self) -> Ints:
        """The measured row of each cell by itself, the most precise one; 0 where there is none: it is determined."""
        out = [-1] * self.n_cells
        for number, (row, precision) in enumerate(zip(self.data.rows, self.data.precisions, strict=True)):
            if row.coefficients == (1,) and precision > 0:
                (cell,) = row.cells
                if out[cell] < 0 or precision > self.data.precisions[out[cell]]:
                    out[cell] = number
        return np.array([max(number, 0) for number in out], np.int64)

    @cached_property
    def bands(self) -> CellBands:
        """The bands of cells."""
        exact = {limited.row.cells for group in self.data.areas.groups for limited in group.pattern.equalities}
        told = {row.cells for row in self.data.rows if len(row.cells) > 1}
        return CellBands.of(self.schema, [cells for cells in sorted(exact | told) if len(cells) > 1])

    @property
    def n_bands(self) -> int:
        """Number of bands."""
        return int(self.bands.band_of_cell.max()) + 1

    @cached_property
    def kinds(self) -> list[Fraction]:
        """The precisions that cells are measured with."""
        return sorted({self.data.precisions[column] for column in self.columns.tolist()})

    @cached_property
    def reach(self) -> Ints:
        """How far from a measurement counts are looked at, for each kind of noise."""
        if self.data.exponent == 1:
            return np.array([max(8, ceil(14 / precision)) for precision in self.kinds], np.int64)
        return np.array([max(8, isqrt(int(64 / precision)) + 4) for precision in self.kinds], np.int64)

    @cached_property
    def noise(self) -> Floats:
        """The weight of the noise at each distance (kind, distance)."""
        out = np.zeros((len(self.kinds), 3 * int(self.reach.max()) + 2))
        for number, precision in enumerate(self.kinds):
            for distance in range(out.shape[1]):
                power = precision * distance if self.data.exponent == 1 else precision * distance**2 / 2
                out[number, distance] = exp_e(-float(power)) if power < 700 else 0.0
        return out

    def variance(self, cell: int) -> float:
        """Return the variance of the noise of a cell by itself."""
        kind = self.kinds.index(self.data.precisions[self.columns[cell]])
        top, bottom = 0.0, 1.0
        for distance in range(1, self.noise.shape[1]):
            top += 2.0 * self.noise[kind, distance] * distance * distance
            bottom += 2.0 * self.noise[kind, distance]
        return top / bottom

    @cached_property
    def width(self) -> int:
        """How many counts the window of a cell has at most."""
        return 2 * int(self.reach.max()) + 1

    @cached_property
    def runs(self) -> list[_Run]:
        """The areas, so many at a time: of the same kind of conditions, in the order of their labels."""
        size = min(_MOST_IN_RUN, max(1, _NUMBERS_AT_ONCE // (self.n_cells * self.width)))
        labels = self.data.areas.labels
        out = []
        for group in self.data.areas.groups:
            graph = SumsAsGraph(group.pattern)
            sums = graph.model(self.bands.part_of_cell)
            order = sorted(range(len(group.places)), key=lambda number: labels[int(group.places[number])] or "")  # noqa: B023
            for start in range(0, len(order), size):
                numbers = np.array(order[start : start + size], np.int64)
                some = AreaGroup(group.pattern, np.arange(len(numbers)), group.values[numbers])
                out.append(_Run(group.places[numbers], some, graph, sums))
        return out

    def measured(self, run: _Run) -> Ints:
        """Return the measurement of each cell of a run (area, cell)."""
        return np.ascontiguousarray(self.data.measurements[run.places][:, self.columns])

    def nearest(self, run: _Run) -> Ints:
        """Return the nearest tables of a run (area, cell)."""
        data, places = self.data, run.places
        labels = tuple(data.areas.labels[place] for place in places.tolist())
        some = Areas(data.areas.name, labels, (run.group,))
        measurements = np.ascontiguousarray(data.measurements[places])
        facts = (data.rows, data.precisions, data.exponent)
        return NEAREST.decide(RuleInput(some, *facts, measurements, data.seed), n_threads=1)

    def cell_model(self, run: _Run, numbers: "_Numbers") -> CellModel:
        """Return what posteriors of a run rest on."""
        means, logs, log_sums, ratios = _node_tables()
        effects, priors = _effects()
        band_of_cell, kinds = self.bands.band_of_cell, self.kinds
        by_band = [np.flatnonzero((band_of_cell == band) & run.sums.is_open) for band in range(self.n_bands)]
        return CellModel(
            noise=self.noise,
            noise_of_cell=np.array([kinds.index(self.data.precisions[column]) for column in self.columns.tolist()], np.int64),
            reach=self.reach,
            lower=run.sums.lower,
            upper=run.sums.upper,
            is_open=run.sums.is_open,
            band_of_cell=band_of_cell,
            cells_by_band=np.concatenate(by_band).astype(np.int64),
            first_of_band=np.concatenate([[0], np.cumsum([len(cells) for cells in by_band])]).astype(np.int64),
            shape_of_band=numbers.shapes,
            prior=np.ascontiguousarray(priors[numbers.effect_shapes]),
            means=means,
            log_means=logs,
            log_sums=log_sums,
            ratios=ratios,
            shapes=np.array(SHAPES),
            log_shapes=np.array([log_e(shape) for shape in SHAPES]),
            effects=effects,
        )


@dataclass(frozen=True)
class _Numbers:
    """What is learned, as kernels take it: multiples of ``2**-20``, and places in lists of shapes."""

    profile: Floats
    shapes: Ints
    effect_shapes: Ints
    exponents: Floats
    weights: Floats
    spread: float

    @classmethod
    def of(cls, learned: Learned, frame: _Frame) -> "_Numbers":
        """Read what a bundle states; refuses what no areas could teach."""
        expected = {
            "profile": (frame.n_cells, 1, 1 << 62),
            "shapes": (frame.n_bands, 0, len(SHAPES) - 1),
            "effect_shapes": (frame.n_bands, 0, len(EFFECT_SHAPES) - 1),
            "exponents": (frame.n_cells, -20 * _ONE, 20 * _ONE),
            "weights": (frame.n_cells, 0, _ONE),
            "spread": (1, 0, 1 << 40),
        }
        if set(learned) != set(expected):
            raise ConditionError(f"what is learned by this rule are {', '.join(expected)}, not {', '.join(learned)}")
        for name, (n, low, high) in expected.items():
            if len(learned[name]) != n or any(not low <= number <= high for number in learned[name]):
                raise ConditionError(f"the learned {name} are {n:,} whole numbers from {low} to {high}, and these are not")
        arrays = {name: np.array(learned[name], np.int64) for name in expected}
        real = {name: arrays[name] * (1.0 / _ONE) for name in ("profile", "exponents", "weights")}
        spread = float(learned["spread"][0]) / _ONE
        return cls(real["profile"], arrays["shapes"], arrays["effect_shapes"], real["exponents"], real["weights"], spread)


# One run.


def _group_sums(tables: Ints, run: _Run) -> Ints:
    out = np.zeros((len(tables), run.graph.n_groups), np.int64)
    for group in range(run.graph.n_groups):
        cells = np.flatnonzero((run.sums.group_of_cell == group) & run.sums.is_open)
        out[:, group] = tables[:, cells].sum(axis=1)
    return out


def _shares(profile: Floats, run: _Run) -> Floats:
    """Return the sum of the profile over each group, cell after cell."""
    out = [0.0] * run.graph.n_groups
    for cell, value in enumerate(profile.tolist()):
        if run.sums.is_open[cell]:
            out[int(run.sums.group_of_cell[cell])] += value
    return np.array([max(share, 1e-12) for share in out])


def _sizes(frame: _Frame, run: _Run, profile: Floats, spread: float, nearest: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """Return how many records groups are expected to have (area, group): between the profile's and the nearest table's.

    Also the profile's, those of the nearest tables, and the variances of the noise of these (group,).
    """
    raked = np.zeros((len(nearest), run.graph.n_groups))
    raked_groups(_shares(profile, run)[:-1], run.graph.wanted(run.group.values), run.sums, raked)
    noise = run.graph.noise_of_groups * frame.variance(0)
    there = _group_sums(nearest, run).astype(np.float64)
    own = spread * raked
    weight = own / (own + noise + 1e-9)
    out = raked + weight * (there - raked)
    out[:, -1] = there[:, -1]
    return np.maximum(out, _LEAST_GROUP), raked, there, noise


def _means(run: _Run, profile: Floats, sizes: Floats) -> Floats:
    """Return what cells are expected to be where the effects of areas are 1 (area, cell)."""
    groups = run.sums.group_of_cell
    per_record = profile / _shares(profile, run)[groups]
    return np.ascontiguousarray(np.maximum(sizes[:, groups] * per_record, _LEAST_MEAN))


class _Posterior(NamedTuple):
    """Posteriors of the cells of a run, that have the exact sums in the mean."""

    measured: Ints
    nearest: Ints
    sizes: Floats
    chances: Floats
    firsts: Ints
    means: Floats
    effects: Floats


def _posterior(frame: _Frame, numbers: _Numbers, run: _Run, keeps_raw: bool = False) -> tuple[_Posterior, Floats]:
    """Return posteriors, tilted to the exact sums; and as they were before, where asked for."""
    measured, nearest = frame.measured(run), frame.nearest(run)
    sizes, *_ = _sizes(frame, run, numbers.profile, numbers.spread, nearest)
    shape = measured.shape
    chances, firsts = np.empty((*shape, frame.width)), np.empty(shape, np.int64)
    effects, means, spreads = np.empty((shape[0], frame.n_bands)), np.empty(shape), np.empty(shape)
    posteriors(measured, _means(run, numbers.profile, sizes), frame.cell_model(run, numbers), chances, firsts, effects)
    raw = chances.copy() if keeps_raw else chances[:0]
    wanted = run.graph.wanted(run.group.values)
    meet_sums(chances, firsts, wanted, np.zeros(shape[1]), run.sums, means, spreads)
    return _Posterior(measured, nearest, sizes, chances, firsts, means, effects), raw


def _decided(frame: _Frame, numbers: _Numbers, run: _Run) -> Ints:
    """Return the tables of a run (area, cell)."""
    some, raw = _posterior(frame, numbers, run, keeps_raw=True)
    firsts, means, spreads = some.firsts, np.empty(some.means.shape), np.empty(some.means.shape)
    inherit_zeros(raw, firsts, some.nearest, run.sums)
    meet_sums(raw, firsts, run.graph.wanted(run.group.values), numbers.exponents, run.sums, means, spreads)
    anchor_bands(raw, firsts, some.means, some.nearest, run.sums, means)
    carry = np.empty(frame.n_cells)
    run_carry(some.measured, some.nearest, means, numbers.weights, carry)
    labels = [frame.data.areas.labels[place] for place in run.places.tolist()]
    words = TieWords(frame.data.seed, labels, frame.n_cells).of(np.arange(len(labels)))
    tables = np.empty_like(some.measured)
    ties = words >> (WORD_BITS - 1 - _TIE_BITS)
    whole_numbers(raw, firsts, means, some.nearest, ties, carry, run.sums, tables)
    return tables


# What areas teach.


class _Fit:
    """Learns from a public sample of areas, at even steps in the order of runs."""

    def __init__(self, frame: _Frame, n_threads: int | None) -> None:
        self.frame, self.n_threads = frame, n_threads
        n_areas = len(frame.data.areas)
        step = max(1, ceil(n_areas / _MOST_SAMPLED))
        size = min(_MOST_IN_RUN, max(1, _NUMBERS_AT_ONCE // (frame.n_cells * frame.width)))
        self.runs: list[_Run] = []
        by_graph: dict[int, list[_Run]] = {}
        for run in frame.runs:
            by_graph.setdefault(id(run.graph), []).append(run)
        first = 0
        for same in by_graph.values():
            places = np.concatenate([run.places for run in same])
            values = np.concatenate([run.group.values for run in same])
            chosen = np.arange((-first) % step, len(places), step)
            first += len(places)
            for start in range(0, len(chosen), size):
                part = chosen[start : start + size]
                group = AreaGroup(same[0].group.pattern, np.arange(len(part)), values[part])
                self.runs.append(_Run(places[part], group, same[0].graph, same[0].sums))
        self.n_sampled = sum(len(run.places) for run in self.runs)

    def learned(self) -> Learned:
        """Return what is learned."""
        numbers = self._start()
        for step in range(_STEPS_OF_PROFILE + 1):
            numbers = replace(numbers, spread=self._spread(numbers))
            if step in {0, _STEPS_OF_PROFILE}:
                numbers = self._with_shapes(numbers)
            if step < _STEPS_OF_PROFILE:
                numbers = replace(numbers, profile=self._profile(numbers))
        numbers = self._with_columns(_Numbers.of(_rounded(numbers), self.frame))
        return _rounded(numbers)

    def _each(self, work: Callable[[_Run], _Result]) -> Iterator[_Result]:
        parts = [slice(number, number + 1) for number in range(len(self.runs))]
        return map_in_threads(lambda part: work(self.runs[part.start]), parts, self.n_threads)

    def _start(self) -> "_Numbers":
        sums = np.zeros(self.frame.n_cells, np.int64)
        for run in self.runs:
            sums += self.frame.measured(run).sum(axis=0)
        profile = np.maximum(sums, 0.5 * sqrt(self.n_sampled))
        none, bands = np.zeros(self.frame.n_cells), np.zeros(self.frame.n_bands, np.int64)
        return _Numbers(_of_mean_one(profile), bands, bands, none, none, 1.0)

    def _spread(self, numbers: "_Numbers") -> float:
        """Return the variance of sums of groups around what the profile gives, over the latter: by moments."""
        top, bottom = 0.0, 0.0
        for run in self.runs:
            _, raked, there, noise = _sizes(self.frame, run, numbers.profile, 1.0, self.frame.nearest(run))
            free = noise > 0
            top += float((((there - raked) ** 2)[:, free] - noise[free]).sum())
            bottom += float(raked[:, free].sum())
        return min(max(top / max(bottom, 1.0), _LEAST_SPREAD), _MOST_SPREAD)

    def _with_shapes(self, numbers: "_Numbers") -> "_Numbers":
        """Return the numbers with the likeliest shapes of each band."""
        _, priors = _effects()

        def likelihood(run: _Run) -> Floats:
            nearest = self.frame.nearest(run)
            sizes, *_ = _sizes(self.frame, run, numbers.profile, numbers.spread, nearest)
            means, model = _means(run, numbers.profile, sizes), self.frame.cell_model(run, numbers)
            out = np.zeros((self.frame.n_bands, len(SHAPES), len(EFFECT_SHAPES)))
            band_likelihoods(self.frame.measured(run), means, model, priors, out)
            return out

        total = np.zeros((self.frame.n_bands, len(SHAPES), len(EFFECT_SHAPES)))
        for some in self._each(likelihood):
            total += some
        best = total.reshape(len(total), -1).argmax(axis=1)
        return replace(numbers, shapes=best // len(EFFECT_SHAPES), effect_shapes=best % len(EFFECT_SHAPES))

    def _profile(self, numbers: "_Numbers") -> Floats:
        """Return the profile after a step: sums of posterior means over what areas and effects make of it."""
        n_cells, band_of_cell = self.frame.n_cells, self.frame.bands.band_of_cell

        def step(run: _Run) -> Floats:
            some, _ = _posterior(self.frame, numbers, run)
            sizes = some.sizes[:, run.sums.group_of_cell]
            return np.stack([some.means.sum(axis=0), sizes.sum(axis=0), (sizes * some.effects[:, band_of_cell]).sum(axis=0)])

        total = np.zeros((3, n_cells))
        for some in self._each(step):
            total += some
        return _of_mean_one(np.maximum(total[0], 0.05) * total[1] / np.maximum(total[2], 1e-9))

    def _with_columns(self, numbers: "_Numbers") -> "_Numbers":
        """Return the numbers with the medians of sums over areas, and the exponents by which means come near to these."""
        whole, real = np.zeros((2, self.frame.n_cells), np.int64), np.zeros(self.frame.n_cells)

        def sums(run: _Run) -> tuple[Ints, Floats]:
            some, _ = _posterior(self.frame, numbers, run)
            whole, real = np.zeros((2, self.frame.n_cells), np.int64), np.zeros(self.frame.n_cells)
            add_up(some.measured, some.nearest, some.means, whole, real)
            return whole, real

        for of_run in self._each(sums):
            whole += of_run[0]
            real += of_run[1]
        low, high = np.minimum(whole[0], whole[1]), np.maximum(whole[0], whole[1])
        target = np.clip(real, low, high)  # the median of three
        gap = whole[1] - whole[0]
        weights = np.where(gap != 0, (target - whole[0]) / np.where(gap != 0, gap, 1), 0.0)
        exponents = np.zeros(self.frame.n_cells)
        for _ in range(_STEPS_OF_COLUMNS):
            there = np.zeros((2, self.frame.n_cells))
            with_exponents = replace(numbers, exponents=exponents)
            for moments in self._each(lambda run, now=with_exponents: self._moments(now, run)):  # type: ignore[misc]
                there += moments
            exponents = exponents + np.clip((target - there[0]) / np.maximum(there[1], 1e-2), -0.4, 0.4)
        return replace(numbers, weights=weights, exponents=exponents)

    def _moments(self, numbers: "_Numbers", run: _Run) -> Floats:
        """Return sums over the areas of a run of means and variances, with zeros and exponents (2, cell)."""
        some, raw = _posterior(self.frame, numbers, run, keeps_raw=True)
        means, spreads = np.empty(some.means.shape), np.empty(some.means.shape)
        inherit_zeros(raw, some.firsts, some.nearest, run.sums)
        meet_sums(raw, some.firsts, run.graph.wanted(run.group.values), numbers.exponents, run.sums, means, spreads)
        return np.stack([means.sum(axis=0), spreads.sum(axis=0)])


def _of_mean_one(profile: Floats) -> Floats:
    out: Floats = np.maximum(profile * (len(profile) / profile.sum()), 4.0 / _ONE)
    return out


def _rounded(numbers: _Numbers) -> Learned:
    """Return numbers as whole multiples of ``2**-20``."""
    return {
        "profile": tuple(np.rint(numbers.profile * _ONE).astype(np.int64).tolist()),
        "shapes": tuple(numbers.shapes.tolist()),
        "effect_shapes": tuple(numbers.effect_shapes.tolist()),
        "exponents": tuple(np.rint(numbers.exponents * _ONE).astype(np.int64).tolist()),
        "weights": tuple(np.rint(numbers.weights * _ONE).astype(np.int64).tolist()),
        "spread": (round(numbers.spread * _ONE),),
    }
