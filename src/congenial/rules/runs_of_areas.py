"""Runs of areas, as the rule *anchored* decides them: structure, what was learned, posteriors, whole numbers.

A run is a fixed number of areas with the same kind of conditions, in the order of their labels. Given what was learned,
it is decided by itself.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from math import ceil, isqrt
from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.errors import ConditionError
from congenial.portable_math import exp_e, log_e
from congenial.rules.cell_bands import CellBands
from congenial.rules.exact_sums_as_graph import SumsAsGraph
from congenial.rules.kernels_anchored import (
    SumModel,
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
    posteriors,
)
from congenial.rules.nearest import NEAREST
from congenial.rules.rule_and_input import WORD_BITS, Learned, RuleInput, TieWords

LEARNED_BITS = 20
ONE = 1 << LEARNED_BITS
"""What is learned are multiples of ``2**-LEARNED_BITS``."""

NUMBERS_AT_ONCE = 1 << 21
MOST_IN_RUN = 512
_LEAST_MEAN = 2e-3
_LEAST_GROUP = 0.3
_TIE_BITS = 10


# Public structure: what is the same whatever was measured.


class Run(NamedTuple):
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
def effects_and_priors() -> tuple[Floats, Floats]:
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


def reach_of(precision: Fraction, exponent: int) -> int:
    """Return how far from a measurement counts are looked at."""
    return max(8, ceil(14 / precision) if exponent == 1 else isqrt(int(64 / precision)) + 4)


class Frame:
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
        return np.array([reach_of(precision, self.data.exponent) for precision in self.kinds], np.int64)

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
    def runs(self) -> list[Run]:
        """The areas, so many at a time: of the same kind of conditions, in the order of their labels."""
        size = min(MOST_IN_RUN, max(1, NUMBERS_AT_ONCE // (self.n_cells * self.width)))
        labels = self.data.areas.labels
        out = []
        for group in self.data.areas.groups:
            graph = SumsAsGraph(group.pattern)
            sums = graph.model(self.bands.part_of_cell)
            order = sorted(range(len(group.places)), key=lambda number: labels[int(group.places[number])] or "")
            for start in range(0, len(order), size):
                numbers = np.array(order[start : start + size], np.int64)
                some = AreaGroup(group.pattern, np.arange(len(numbers)), group.values[numbers])
                out.append(Run(group.places[numbers], some, graph, sums))
        return out

    def measured(self, run: Run) -> Ints:
        """Return the measurement of each cell of a run (area, cell)."""
        return np.ascontiguousarray(self.data.measurements[run.places][:, self.columns])

    def nearest(self, run: Run) -> Ints:
        """Return the nearest tables of a run (area, cell)."""
        data, places = self.data, run.places
        labels = tuple(data.areas.labels[place] for place in places.tolist())
        some = Areas(data.areas.name, labels, (run.group,))
        measurements = np.ascontiguousarray(data.measurements[places])
        facts = (data.rows, data.precisions, data.exponent)
        return NEAREST.decide(RuleInput(some, *facts, measurements, data.seed), n_threads=1)

    def cell_model(self, run: Run, numbers: "Numbers") -> CellModel:
        """Return what posteriors of a run rest on."""
        means, logs, log_sums, ratios = _node_tables()
        effects, priors = effects_and_priors()
        band_of_cell, kinds = self.bands.band_of_cell, self.kinds
        by_band = [np.flatnonzero((band_of_cell == band) & run.sums.is_open) for band in range(self.n_bands)]
        return CellModel(
            noise=self.noise,
            noise_of_cell=np.array(
                [kinds.index(self.data.precisions[column]) for column in self.columns.tolist()], np.int64
            ),
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
class Numbers:
    """What is learned, as kernels take it: multiples of ``2**-20``, and places in lists of shapes."""

    profile: Floats
    shapes: Ints
    effect_shapes: Ints
    exponents: Floats
    weights: Floats
    spread: float

    @classmethod
    def of(cls, learned: Learned, frame: Frame) -> "Numbers":
        """Read what a bundle states; refuses what no areas could teach."""
        expected = {
            "profile": (frame.n_cells, 1, 1 << 62),
            "shapes": (frame.n_bands, 0, len(SHAPES) - 1),
            "effect_shapes": (frame.n_bands, 0, len(EFFECT_SHAPES) - 1),
            "exponents": (frame.n_cells, -20 * ONE, 20 * ONE),
            "weights": (frame.n_cells, 0, ONE),
            "spread": (1, 0, 1 << 40),
        }
        if set(learned) != set(expected):
            raise ConditionError(f"what is learned by this rule are {', '.join(expected)}, not {', '.join(learned)}")
        for name, (n, low, high) in expected.items():
            if len(learned[name]) != n or any(not low <= number <= high for number in learned[name]):
                raise ConditionError(
                    f"the learned {name} are {n:,} whole numbers from {low} to {high}, and these are not"
                )
        arrays = {name: np.array(learned[name], np.int64) for name in expected}
        real: dict[str, Floats] = {
            name: arrays[name].astype(np.float64) / ONE for name in ("profile", "exponents", "weights")
        }
        spread = float(learned["spread"][0]) / ONE
        return cls(
            real["profile"], arrays["shapes"], arrays["effect_shapes"], real["exponents"], real["weights"], spread
        )


# One run.


def _group_sums(tables: Ints, run: Run) -> Ints:
    out = np.zeros((len(tables), run.graph.n_groups), np.int64)
    for group in range(run.graph.n_groups):
        cells = np.flatnonzero((run.sums.group_of_cell == group) & run.sums.is_open)
        out[:, group] = tables[:, cells].sum(axis=1)
    return out


def _shares(profile: Floats, run: Run) -> Floats:
    """Return the sum of the profile over each group, cell after cell."""
    out = [0.0] * run.graph.n_groups
    for cell, value in enumerate(profile.tolist()):
        if run.sums.is_open[cell]:
            out[int(run.sums.group_of_cell[cell])] += value
    return np.array([max(share, 1e-12) for share in out])


def sizes_of_groups(
    frame: Frame, run: Run, profile: Floats, spread: float, nearest: Ints
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return how many records groups are expected to have (area, group): between the profile's and the nearest table's.

    Also the profile's, those of the nearest tables, and the variances of the noise of these (group,).
    """
    raked = np.zeros((len(nearest), run.graph.n_groups))
    raked_groups(_shares(profile, run)[:-1], run.graph.wanted(run.group.values), run.sums, raked)
    noise = run.graph.noise_of_groups * frame.variance(0)
    there = _group_sums(nearest, run).astype(np.float64)
    scatter = spread * raked
    weight = scatter / (scatter + noise + 1e-9)
    out = raked + weight * (there - raked)
    out[:, -1] = there[:, -1]
    return np.maximum(out, _LEAST_GROUP), raked, there, noise


def expected_means(run: Run, profile: Floats, sizes: Floats) -> Floats:
    """Return what cells are expected to be where the effects of areas are 1 (area, cell)."""
    groups = run.sums.group_of_cell
    per_record = profile / _shares(profile, run)[groups]
    return np.ascontiguousarray(np.maximum(sizes[:, groups] * per_record, _LEAST_MEAN))


class Posterior(NamedTuple):
    """Posteriors of the cells of a run, that have the exact sums in the mean."""

    measured: Ints
    nearest: Ints
    sizes: Floats
    chances: Floats
    firsts: Ints
    means: Floats
    effects: Floats


def posterior_of(frame: Frame, numbers: Numbers, run: Run, keeps_raw: bool = False) -> tuple[Posterior, Floats]:
    """Return posteriors, tilted to the exact sums; and as they were before, where asked for."""
    measured, nearest = frame.measured(run), frame.nearest(run)
    sizes, *_ = sizes_of_groups(frame, run, numbers.profile, numbers.spread, nearest)
    shape = measured.shape
    chances, firsts = np.empty((*shape, frame.width)), np.empty(shape, np.int64)
    effects, means, spreads = np.empty((shape[0], frame.n_bands)), np.empty(shape), np.empty(shape)
    posteriors(
        measured, expected_means(run, numbers.profile, sizes), frame.cell_model(run, numbers), chances, firsts, effects
    )
    raw = chances.copy() if keeps_raw else chances[:0]
    wanted = run.graph.wanted(run.group.values)
    meet_sums(chances, firsts, wanted, np.zeros(shape[1]), run.sums, means, spreads)
    return Posterior(measured, nearest, sizes, chances, firsts, means, effects), raw


def decided_run(frame: Frame, numbers: Numbers, run: Run) -> Ints:
    """Return the tables of a run (area, cell)."""
    some, raw = posterior_of(frame, numbers, run, keeps_raw=True)
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
