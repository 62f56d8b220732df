"""The decisions of a draw by tables of sums, in balls: what a unit in doubt takes, from the same words.

Mass functions as in `sum_masses`, enclosed; windows grow with the precision, and what they leave out is part of every
comparison. So each decision is that of a uniform real compared with exact numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import inf

import flint
import numpy as np

from congenial.arrays import Ints
from congenial.exact import ends
from congenial.proven_decisions import Uniform, choose_weighted, refine_until_proven
from congenial.sampling.lattice_noise.sum_forest import (
    Core,
    CoreStep,
    Kind,
    LeafKind,
    PairKind,
    RootStep,
    SplitStep,
    SumProgram,
    TieStep,
    WeightedKind,
    n_decisions,
)
from congenial.sampling.lattice_noise.sum_masses import core_states, leaf_radius, leaf_tail, upper


@dataclass(frozen=True)
class BallMass:
    """A mass function in balls at ``-radius .. radius``: of fewer vectors, whose weights lack `lost` in all."""

    values: list[flint.arb]
    lost: flint.arb

    @property
    def radius(self) -> int:
        """Where the window ends."""
        return len(self.values) // 2

    @property
    def total(self) -> flint.arb:
        """A bound of the sum of all exact values."""
        return upper(sum(self.values, flint.arb(0)) + self.lost)

    @property
    def most(self) -> flint.arb:
        """A bound of every exact value."""
        return upper(max((upper(value) for value in self.values), key=float) + self.lost)

    def at(self, place: int) -> flint.arb:
        """Return the value at an integer, 0 outside the window."""
        return self.values[place + self.radius] if abs(place) <= self.radius else flint.arb(0)


class BallMasses:
    """The mass functions of all kinds at one precision, made when they are asked for."""

    def __init__(self, precision: int) -> None:
        self.precision = precision
        self.nats = 0.75 * precision
        self._known: dict[int, BallMass] = {}

    def of(self, kind: Kind) -> BallMass:
        """Return the mass function of a kind; the working precision is set by the caller."""
        if kind.number not in self._known:
            self._known[kind.number] = self._made(kind)
        return self._known[kind.number]

    def _made(self, kind: Kind) -> BallMass:
        if isinstance(kind, LeafKind):
            radius = leaf_radius(kind.weight, self.nats)
            one_side = kind.weight.enclosures(range(radius + 1))
            return self._cut(one_side[:0:-1] + one_side, leaf_tail(kind.weight, radius))
        if isinstance(kind, PairKind):
            one, other = (self.of(part) for part in kind.parts)
            product = _polynomial(one, kind.times[0]) * _polynomial(other, kind.times[1])
            n = 2 * (kind.times[0] * one.radius + kind.times[1] * other.radius) + 1
            return self._cut([product[k] for k in range(n)], upper(one.lost * other.total + other.lost * one.total))
        if isinstance(kind, WeightedKind):
            base = self.of(kind.base)
            weights = kind.weight.enclosures(kind.factor * k for k in range(-base.radius, base.radius + 1))
            return self._cut([a * b for a, b in zip(base.values, weights, strict=True)], base.lost)
        parts = [self.of(part) for part in kind.parts]
        radius = min(part.radius // times for part, times in zip(parts, kind.times, strict=True))
        values, lost, most = [flint.arb(1)] * (2 * radius + 1), flint.arb(0), flint.arb(1)
        for part, times in zip(parts, kind.times, strict=True):
            values = [value * part.at(times * k) for k, value in zip(count(-radius), values, strict=False)]
            lost = upper(lost * part.most + most * part.lost)
            most = upper(most * part.most)
        return self._cut(values, lost)

    def _cut(self, values: list[flint.arb], lost: flint.arb) -> BallMass:
        """Cut the window where little lies beyond, and count it as lost."""
        allowed = sum(values, flint.arb(0)) * flint.arb(-self.nats).exp()
        beyond, n_cut = flint.arb(0), 0
        while n_cut < len(values) // 2:
            more = upper(beyond + 2 * values[n_cut])
            if not more < allowed:
                break
            beyond, n_cut = more, n_cut + 1
        return BallMass(values[n_cut : len(values) - n_cut], upper(lost + beyond))


def _polynomial(mass: BallMass, times: int) -> flint.arb_poly:
    if times == 1:
        return flint.arb_poly(mass.values)
    padded = [flint.arb(0)] * (2 * mass.radius * times + 1)
    padded[::times] = mass.values
    return flint.arb_poly(padded)


class ExactSums:
    """Draws of a program, decision by decision, in balls."""

    def __init__(self, program: SumProgram) -> None:
        self.program = program
        self._masses = lru_cache(maxsize=4)(BallMasses)

    def draw(self, uniforms: Sequence[Uniform]) -> list[int]:
        """Return the noise of a unit (coordinate,), a uniform real for each decision."""
        values = [0] * self.program.n_values
        for step, start in zip(self.program.steps, self.program.first_words[:-1], strict=True):
            taken = uniforms[start : start + n_decisions(step)]
            if isinstance(step, TieStep):
                for targets, times in zip(step.targets, step.kind.times, strict=True):
                    for parent, target in zip(step.parents.tolist(), targets.tolist(), strict=True):
                        values[target] = times * values[parent]
            elif isinstance(step, RootStep):
                for target, uniform in zip(step.targets.tolist(), taken, strict=True):
                    values[target] = self._root(step.kind, uniform)
            elif isinstance(step, CoreStep):
                for targets, uniform in zip(step.targets.tolist(), taken, strict=True):
                    for target, value in zip(targets, self._core(step.core, uniform), strict=True):
                        values[target] = value
            else:
                self._splits(step, values, taken)
        ordered = zip(self.program.leaves.tolist(), self.program.signs.tolist(), strict=True)
        return [sign * values[leaf] for leaf, sign in ordered]

    def _splits(self, step: SplitStep, values: list[int], uniforms: Sequence[Uniform]) -> None:
        one, other = step.kind.times
        lines = zip(step.parents.tolist(), *(targets.tolist() for targets in step.targets), uniforms, strict=True)
        for parent, first, second, uniform in lines:
            values[first] = self.split(step.kind, values[parent], uniform)
            values[second] = (values[parent] - one * values[first]) // other

    def _decide(
        self, uniform: Uniform, listed: Callable[[BallMasses], tuple[list[tuple[int, flint.arb]], flint.arb]]
    ) -> int:
        def decide(precision: int) -> int:
            # Far values are tiny, and a product has the error of its largest: precision to spare.
            with flint.ctx.workprec(4 * precision):
                weights, missing = listed(self._masses(precision))
                return choose_weighted(uniform, weights, ends(missing)[1])

        return refine_until_proven(decide)

    def _root(self, kind: Kind, uniform: Uniform) -> int:
        def listed(masses: BallMasses) -> tuple[list[tuple[int, flint.arb]], flint.arb]:
            mass = masses.of(kind)
            return list(zip(count(-mass.radius), mass.values, strict=False)), mass.lost

        return self._decide(uniform, listed)

    def split(self, kind: PairKind, value: int, uniform: Uniform) -> int:
        """Return the first part of a sum: outcomes in ascending order, of a negative sum in descending order."""
        one_times, other_times = kind.times
        size, sign = abs(value), -1 if value < 0 else 1

        def listed(masses: BallMasses) -> tuple[list[tuple[int, flint.arb]], flint.arb]:
            one, other = (masses.of(part) for part in kind.parts)
            weights = [
                (j, weight * other.at(rest // other_times))
                for j, weight in zip(count(-one.radius), one.values, strict=False)
                if (rest := size - one_times * j) % other_times == 0 and abs(rest // other_times) <= other.radius
            ]
            return weights or [(0, flint.arb(0))], one.lost * other.most + other.lost * one.most

        return sign * self._decide(uniform, listed)

    def _core(self, core: Core, uniform: Uniform) -> list[int]:
        states: Ints = np.zeros((0, 0), np.int64)

        def listed(masses: BallMasses) -> tuple[list[tuple[int, flint.arb]], flint.arb]:
            nonlocal states
            each = [masses.of(node.kind) for node in core.nodes]
            states, weights, missing = weigh_core_in_balls(core, each, masses.precision / 2)
            return list(enumerate(weights)), missing

        number = self._decide(uniform, listed)
        return [int(value) for value in states[number]]


def weigh_core_in_balls(core: Core, masses: Sequence[BallMass], nats: float) -> tuple[Ints, list[flint.arb], flint.arb]:
    """Return the states of a core that are not negligible, in order, their weights, and a bound of all others'."""
    logs = [np.array([_log_above(value) for value in mass.values]) for mass in masses]
    states, log_others = core_states(core, logs, nats, inf)
    sizes = [np.abs(states @ np.array(terms)) for terms, _ in core.soft]
    soft = [
        weight.enclosures(range(int(one.max(initial=0)) + 1)) for one, (_, weight) in zip(sizes, core.soft, strict=True)
    ]
    weights = []
    for line in range(len(states)):
        product = flint.arb(1)
        for node, mass in enumerate(masses):
            product *= mass.at(int(states[line, node]))
        for one, table in zip(sizes, soft, strict=True):
            product *= table[int(one[line])]
        weights.append(product)
    missing = flint.arb(log_others + 1e-3).exp()
    for number, mass in enumerate(masses):
        others = [*masses[:number], *masses[number + 1 :]]
        by_spread = sorted(others, key=lambda other: -_log_above(other.total / other.most))
        bound = mass.lost
        for rank, other in enumerate(by_spread):
            bound *= other.total if rank < len(core.basis) else other.most
        missing += bound
    return states, weights, upper(missing)


def _log_above(value: flint.arb) -> float:
    """Return the log of a ball's upper end, as a double that may be off in its last digits."""
    top = upper(value)
    return float(top.log().mid()) if top > 0 else -inf
