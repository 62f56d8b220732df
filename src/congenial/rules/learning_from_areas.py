"""What the rule *anchored* learns from the measurements of all areas: profile, shapes, medians of sums over areas."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, sqrt
from typing import TypeVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import AreaGroup
from congenial.memory_and_threads import map_in_threads
from congenial.rules.kernels_anchored import add_up, inherit_zeros, meet_sums
from congenial.rules.kernels_cell_posteriors import EFFECT_SHAPES, SHAPES, band_likelihoods
from congenial.rules.rule_and_input import Learned
from congenial.rules.runs_of_areas import (
    MOST_IN_RUN,
    NUMBERS_AT_ONCE,
    ONE,
    Frame,
    Numbers,
    Run,
    effects_and_priors,
    expected_means,
    posterior_of,
    sizes_of_groups,
)

_MOST_SAMPLED = 2_048
_STEPS_OF_PROFILE = 3
_STEPS_OF_COLUMNS = 3
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 1e4

_Result = TypeVar("_Result")


class Fit:
    """Learns from a public sample of areas, at even steps in the order of runs."""

    def __init__(self, frame: Frame, n_threads: int | None) -> None:
        self.frame, self.n_threads = frame, n_threads
        n_areas = len(frame.data.areas)
        step = max(1, ceil(n_areas / _MOST_SAMPLED))
        size = min(MOST_IN_RUN, max(1, NUMBERS_AT_ONCE // (frame.n_cells * frame.width)))
        self.runs: list[Run] = []
        by_graph: dict[int, list[Run]] = {}
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
                self.runs.append(Run(places[part], group, same[0].graph, same[0].sums))
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
        numbers = self._with_columns(Numbers.of(_rounded(numbers), self.frame))
        return _rounded(numbers)

    def _each(self, work: Callable[[Run], _Result]) -> Iterator[_Result]:
        parts = [slice(number, number + 1) for number in range(len(self.runs))]
        return map_in_threads(lambda part: work(self.runs[part.start]), parts, self.n_threads)

    def _start(self) -> "Numbers":
        sums = np.zeros(self.frame.n_cells, np.int64)
        for run in self.runs:
            sums += self.frame.measured(run).sum(axis=0)
        profile = np.maximum(sums, 0.5 * sqrt(self.n_sampled))
        none, bands = np.zeros(self.frame.n_cells), np.zeros(self.frame.n_bands, np.int64)
        return Numbers(_of_mean_one(profile), bands, bands, none, none, 1.0)

    def _spread(self, numbers: "Numbers") -> float:
        """Return the variance of sums of groups around what the profile gives, over the latter: by moments."""
        top, bottom = 0.0, 0.0
        for run in self.runs:
            _, raked, there, noise = sizes_of_groups(self.frame, run, numbers.profile, 1.0, self.frame.nearest(run))
            free = noise > 0
            top += float((((there - raked) ** 2)[:, free] - noise[free]).sum())
            bottom += float(raked[:, free].sum())
        return min(max(top / max(bottom, 1.0), _LEAST_SPREAD), _MOST_SPREAD)

    def _with_shapes(self, numbers: "Numbers") -> "Numbers":
        """Return the numbers with the likeliest shapes of each band."""
        _, priors = effects_and_priors()

        def likelihood(run: Run) -> Floats:
            nearest = self.frame.nearest(run)
            sizes, *_ = sizes_of_groups(self.frame, run, numbers.profile, numbers.spread, nearest)
            means, model = expected_means(run, numbers.profile, sizes), self.frame.cell_model(run, numbers)
            out = np.zeros((self.frame.n_bands, len(SHAPES), len(EFFECT_SHAPES)))
            band_likelihoods(self.frame.measured(run), means, model, priors, out)
            return out

        total = np.zeros((self.frame.n_bands, len(SHAPES), len(EFFECT_SHAPES)))
        for some in self._each(likelihood):
            total += some
        best = total.reshape(len(total), -1).argmax(axis=1)
        return replace(numbers, shapes=best // len(EFFECT_SHAPES), effect_shapes=best % len(EFFECT_SHAPES))

    def _profile(self, numbers: "Numbers") -> Floats:
        """Return the profile after a step: sums of posterior means over what areas and effects make of it."""
        n_cells, band_of_cell = self.frame.n_cells, self.frame.bands.band_of_cell

        def step(run: Run) -> Floats:
            some, _ = posterior_of(self.frame, numbers, run)
            sizes = some.sizes[:, run.sums.group_of_cell]
            return np.stack(
                [some.means.sum(axis=0), sizes.sum(axis=0), (sizes * some.effects[:, band_of_cell]).sum(axis=0)]
            )

        total = np.zeros((3, n_cells))
        for some in self._each(step):
            total += some
        return _of_mean_one(np.maximum(total[0], 0.05) * total[1] / np.maximum(total[2], 1e-9))

    def _with_columns(self, numbers: "Numbers") -> "Numbers":
        """Return the numbers with the medians of sums over areas, and the exponents that bring means near to these."""
        whole, real = np.zeros((2, self.frame.n_cells), np.int64), np.zeros(self.frame.n_cells)

        def sums(run: Run) -> tuple[Ints, Floats]:
            some, _ = posterior_of(self.frame, numbers, run)
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

    def _moments(self, numbers: "Numbers", run: Run) -> Floats:
        """Return sums over the areas of a run of means and variances, with zeros and exponents (2, cell)."""
        some, raw = posterior_of(self.frame, numbers, run, keeps_raw=True)
        means, spreads = np.empty(some.means.shape), np.empty(some.means.shape)
        inherit_zeros(raw, some.firsts, some.nearest, run.sums)
        meet_sums(raw, some.firsts, run.graph.wanted(run.group.values), numbers.exponents, run.sums, means, spreads)
        return np.stack([means.sum(axis=0), spreads.sum(axis=0)])


def _of_mean_one(profile: Floats) -> Floats:
    out: Floats = np.maximum(profile * (len(profile) / profile.sum()), 4.0 / ONE)
    return out


def _rounded(numbers: Numbers) -> Learned:
    """Return numbers as whole multiples of ``2**-20``."""
    return {
        "profile": tuple(np.rint(numbers.profile * ONE).astype(np.int64).tolist()),
        "shapes": tuple(numbers.shapes.tolist()),
        "effect_shapes": tuple(numbers.effect_shapes.tolist()),
        "exponents": tuple(np.rint(numbers.exponents * ONE).astype(np.int64).tolist()),
        "weights": tuple(np.rint(numbers.weights * ONE).astype(np.int64).tolist()),
        "spread": (round(numbers.spread * ONE),),
    }
