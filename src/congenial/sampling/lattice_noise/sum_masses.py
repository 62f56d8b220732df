"""The mass function of every sum, with proven bounds: in doubles for tables, in balls for decisions in doubt.

A mass function S is kept on a window ``-radius .. radius``. What is computed is that of fewer vectors: those whose
coordinates and sums stay inside their windows. So no value exceeds the exact one, but for rounding, and what all values
together fall short of is at most `lost`. docs/claims/lattice-noise.md has the bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, isqrt, ldexp, lgamma, log

import flint
import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.exact import double_above, ends
from congenial.noise.weight import NoiseWeight
from congenial.sampling.lattice_noise.sum_forest import Core, Kind, LeafKind, PairKind, WeightedKind

UNIT = 2.0**-53
LEAST = 2.0**-400  # values below it count as lost: no product of two kept ones underflows
MOST_WORK = 2**30  # products in one convolution; about half a second
MOST_VALUES = 2**20  # of one coordinate's weight
MOST_STATES = 2**18  # of a core; in balls, where windows are wider, they take seconds


@dataclass(frozen=True)
class Mass:
    """A mass function in doubles, divided by a power of two.

    Attributes
    ----------
    values : array
        At ``-radius .. radius``, none negative, the largest about 1.
    n_units : int
        Every value is off by a factor of at most ``(1 + 2**-53) ** n_units``, apart from what is lost.
    lost : float
        A bound of the summed differences to the exact mass function, on all integers.
    """

    values: Floats
    n_units: int
    lost: float

    @property
    def radius(self) -> int:
        """Where the window ends."""
        return len(self.values) // 2

    @property
    def total(self) -> float:
        """A bound of the sum of all exact values."""
        return float(self.values.sum()) * (1 + 2 * (self.n_units + len(self.values)) * UNIT) + self.lost

    @property
    def most(self) -> float:
        """A bound of the largest exact value."""
        return float(self.values.max()) * (1 + 2 * self.n_units * UNIT) + self.lost

    def at(self, places: Ints) -> Floats:
        """Return the values at some integers, 0 outside the window."""
        inside = np.abs(places) <= self.radius
        return np.where(inside, self.values[np.where(inside, places, 0) + self.radius], 0.0)


def leaf_radius(weight: NoiseWeight, nats: float) -> int:
    """Return where the weight has fallen below ``exp(-nats)``; what lies beyond is bounded by `leaf_tail`."""
    return ceil(min(weight.distance(nats + max(0.0, weight.log_mass())), 2.0**40))


def leaf_tail(weight: NoiseWeight, radius: int) -> flint.arb:
    """Return a bound of the summed weights beyond a radius, both sides: ratios of neighbours fall with distance."""
    after, later = weight.enclosures([radius + 1, radius + 2])
    return upper(2 * after / (1 - later / after))


def upper(enclosure: flint.arb) -> flint.arb:
    """Return the upper end of a ball, a point."""
    return flint.arb(enclosure.upper())


class Masses:
    """The mass functions of all kinds, made when they are asked for.

    Parameters
    ----------
    nats : float
        Windows end where what lies beyond is ``exp(-nats)`` of the whole.
    """

    def __init__(self, nats: float) -> None:
        self.nats = nats
        self._known: dict[int, Mass] = {}

    def of(self, kind: Kind) -> Mass:
        """Return the mass function of a kind."""
        if kind.number not in self._known:
            self._known[kind.number] = self._made(kind)
        return self._known[kind.number]

    def _made(self, kind: Kind) -> Mass:
        if isinstance(kind, LeafKind):
            radius = leaf_radius(kind.weight, self.nats)
            values = self._weights(kind.weight, 1, radius)
            with flint.ctx.workprec(192):
                lost = double_above(ends(leaf_tail(kind.weight, radius))[1])
            return settled(values, 1, lost, self.nats)
        if isinstance(kind, PairKind):
            return convolved_masses(self.of(kind.parts[0]), self.of(kind.parts[1]), self.nats, kind.times)
        if isinstance(kind, WeightedKind):
            base = self.of(kind.base)
            radius = min(base.radius, leaf_radius(kind.weight, 3 * self.nats) // kind.factor + 1)
            beyond = slice(base.radius - radius, base.radius + radius + 1)
            values = base.values[beyond] * self._weights(kind.weight, kind.factor, radius)
            cut = base.total * exp(float(kind.weight.log_at(kind.factor * (radius + 1.0))) + 1e-6)
            return settled(values, base.n_units + 2, base.lost + (cut if radius < base.radius else 0.0), self.nats)
        return self._tied([self.of(part) for part in kind.parts], kind.times)

    def _weights(self, weight: NoiseWeight, factor: int, radius: int) -> Floats:
        if radius > MOST_VALUES:
            raise TooLargeError(_TOO_WIDE.format(radius))
        with flint.ctx.workprec(192):
            one_side = [float(w.mid()) for w in weight.enclosures(range(0, factor * radius + 1, factor))]
        return np.array(one_side[:0:-1] + one_side)

    def _tied(self, parts: Sequence[Mass], times: Sequence[int]) -> Mass:
        radius = min(part.radius // number for part, number in zip(parts, times, strict=True))
        values, lost, most = np.ones(2 * radius + 1), 0.0, 1.0
        for part, number in zip(parts, times, strict=True):
            values = values * part.at(np.arange(-radius, radius + 1) * number)
            lost = lost * part.most + most * part.lost
            most *= part.most
        # Beyond the window of one part its own values are lost: the bound above has them.
        return settled(values, sum(part.n_units for part in parts) + len(parts), lost, self.nats)


def settled(values: Floats, n_units: int, lost: float, nats: float) -> Mass:
    """Return a mass function scaled by a power of two, without tiny values, its window cut where little lies beyond."""
    power = int(np.frexp(values.max())[1])
    values = np.ldexp(values, -power)
    values[values < LEAST] = 0.0
    middle = len(values) // 2
    # What lies beyond each radius, both sides: sums from the far end.
    beyond = 2 * np.cumsum(values[:middle])
    n_cut = int(np.count_nonzero(beyond <= exp(-nats) * float(values.sum())))
    cut = 1.01 * float(beyond[n_cut - 1]) if n_cut else 0.0
    kept = values[n_cut : len(values) - n_cut]
    return Mass(kept, n_units, ldexp(lost, -power) * 1.01 + cut + LEAST * len(values))


def convolved_masses(first: Mass, second: Mass, nats: float, times: tuple[int, int] = (1, 1)) -> Mass:
    """Return the mass function of ``times[0] * one + times[1] * other``."""
    one, other = stretched(first.values, times[0]), stretched(second.values, times[1])
    if len(one) * len(other) > MOST_WORK:
        raise TooLargeError(_TOO_WIDE.format(max(len(one), len(other))))
    values, n_rounds = convolved(one, other)
    lost = first.lost * second.total + second.lost * first.total
    return settled(values, first.n_units + second.n_units + 1 + n_rounds, lost, nats)


def stretched(values: Floats, times: int) -> Floats:
    """Return the values at multiples of an integer, 0 between them."""
    if times == 1:
        return values
    out = np.zeros((len(values) - 1) * times + 1)
    out[::times] = values
    return out


def convolved(one: Floats, other: Floats) -> tuple[Floats, int]:
    """Return the convolution of two positive sequences, and how many roundings stand behind a sum.

    Block by block: a sum of n products in any order has at most n roundings, so blocks of sqrt(n) leave 2 sqrt(n).
    """
    long, short = (one, other) if len(one) >= len(other) else (other, one)
    size = max(16, isqrt(len(short)))
    out = np.zeros(len(long) + len(short) - 1)
    for start in range(0, len(short), size):
        block = short[start : start + size]
        out[start : start + len(long) + len(block) - 1] += np.convolve(long, block)
    return out, size + ceil(len(short) / size)


_TOO_WIDE = (
    "sums of this noise spread over some {:,} integers, more than tables are made for; take a higher precision, or"
    " fewer exact numbers"
)


# The states of a core: all values of its nodes that are not negligible, in the order of their coefficients.


def core_states(core: Core, logs: Sequence[Floats], nats: float, most: float = MOST_STATES) -> tuple[Ints, float]:
    """Return the values (state, node) that are not negligible, in order, and a bound of the log weight of the others.

    The others inside all windows are together at most ``exp(-nats)`` of the state 0.

    Parameters
    ----------
    logs : sequence of arrays
        The log of each node's mass function on its window, minus infinity where it is 0.
    """
    radii = [len(one) // 2 for one in logs]
    # Already a step to either side in each direction is too much: no need for a basis.
    if min(radii) > 0 and log(3) * (len(core.nodes) - len(core.hard)) > log(most) + 14:
        raise TooLargeError(_TOO_MANY)
    n_vectors, n_nodes = core.basis.shape
    log_size = log_box(core, radii)
    pivots = [int(np.flatnonzero(vector)[0]) for vector in core.basis]
    # Of a box of a few dimensions the negligible corners are most: not more than that can be hoped for.
    if log_size > log(most) + 6 + min(lgamma(n_vectors + 1), 8.0):
        raise TooLargeError(_TOO_MANY)
    log_others = sum(float(one[len(one) // 2]) for one in logs) - nats
    log_least = log_others - log_size
    # Columns up to the next pivot are settled by the vectors so far, and so are soft rows over them.
    next_pivots = [*pivots[1:], n_nodes] if pivots else [n_nodes]
    most_after = np.array([float(one.max()) for one in logs])
    values, weights = np.zeros((1, n_nodes), np.int64), np.zeros(1)
    first = pivots[0] if pivots else n_nodes
    weights = weights + sum(float(one[len(one) // 2]) for one in logs[:first])
    for number, (pivot, until) in enumerate(zip(pivots, next_pivots, strict=True)):
        step, radius = int(core.basis[number, pivot]), radii[pivot]
        low = -((radius + values[:, pivot]) // step)
        n_each = np.maximum((radius - values[:, pivot]) // step - low + 1, 0)
        if n_each.sum() > min(8 * most, most * 64 / n_nodes):
            raise TooLargeError(_TOO_MANY)
        parent = np.repeat(np.arange(len(values)), n_each)
        within = np.arange(len(parent)) - np.repeat(np.cumsum(n_each) - n_each, n_each)
        values = values[parent] + (low[parent] + within)[:, None] * core.basis[number]
        weights = weights[parent]
        inside = np.ones(len(values), np.bool_)
        for node in range(pivot, until):
            inside &= np.abs(values[:, node]) <= radii[node]
        values, weights = values[inside], weights[inside]
        for node in range(pivot, until):
            weights = weights + logs[node][values[:, node] + radii[node]]
        for terms, weight in core.soft:
            if pivot <= int(np.flatnonzero(terms)[-1]) < until:
                weights = weights + weight.log_at(np.abs(values @ np.array(terms)).astype(np.float64))
        near = weights + most_after[until:].sum() >= log_least
        values, weights = values[near], weights[near]
        if len(values) > most:
            raise TooLargeError(_TOO_MANY)
    return values, log_others


def log_box(core: Core, radii: Sequence[int]) -> float:
    """Return the log of a bound of how many states lie in the windows."""
    pivots = [int(np.flatnonzero(vector)[0]) for vector in core.basis]
    steps = [int(vector[pivot]) for vector, pivot in zip(core.basis, pivots, strict=True)]
    return sum(log(2 * radii[pivot] / step + 1) for pivot, step in zip(pivots, steps, strict=True))


_TOO_MANY = (
    f"more than {MOST_STATES:,} values of the sums that rows cross; take a higher precision, or fewer exact numbers"
    " that cross each other"
)
