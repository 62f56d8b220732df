"""Variances and covariances of the noise of a lattice, for expected errors: in doubles, to many digits.

From the roots down, the law of every node's value; from the leaves up, each coordinate's mean given a node's value. Two
coordinates meet in one node: their covariance is that of two such means under the joint law of the node's parts. Nodes
of one kind and law share the work; signs are set at the end.
"""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.lattice_noise.sum_forest import Kind, LeafKind, Node, PairKind, SumForest, WeightedKind
from congenial.sampling.lattice_noise.sum_masses import Masses, stretched
from congenial.sampling.lattice_noise.sum_tables import weigh_core
from congenial.sampling.lattice_noise.system import LatticeSystem

_NATS = 30.0


def noise_covariance(system: LatticeSystem) -> Floats:
    """Return the covariances of all coordinates (coordinate, coordinate) of the noise of a system.

    Raises `TooLargeError` where the noise is not one of few sums; `least_squares_variances` serves there.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DiscreteGaussian
    >>> system = LatticeSystem((DiscreteGaussian("1/4").weight,) * 2, (Row.of("total", [0, 1]),))
    >>> noise_covariance(system).round(6)
    array([[ 2., -2.],
           [-2.,  2.]])
    """
    forest = SumForest.of(system)
    moments = _Moments()
    out = np.zeros((system.n_coordinates, system.n_coordinates))
    for node in forest.pinned:
        _place(out, [node], moments.second(node.kind, np.ones(1)))
    for node in forest.free:
        values = moments.masses.of(node.kind).values
        _place(out, [node], moments.second(node.kind, values / values.sum()))
    for core in forest.cores:
        weighed = weigh_core(core, [moments.masses.of(node.kind) for node in core.nodes])
        shares = weighed.weights / weighed.weights.sum()
        _place(out, core.nodes, moments.of_states([node.kind for node in core.nodes], weighed.states, shares))
    return out


def _place(out: Floats, nodes: Sequence[Node], covariance: Floats) -> None:
    leaves = np.array([leaf for node in nodes for leaf in _leaves(node, 1)])
    coordinates, signs = leaves[:, 0], leaves[:, 1]
    out[np.ix_(coordinates, coordinates)] = covariance * np.outer(signs, signs)


def _leaves(node: Node, sign: int) -> list[tuple[int, int]]:
    """Return the coordinates below a node and their signs, from left to right."""
    if isinstance(node.kind, LeafKind):
        return [(node.coordinate, sign)]
    children = zip(node.children, node.signs, strict=True)
    return [leaf for child, turned in children for leaf in _leaves(child, sign * turned)]


class _Moments:
    """Moments by kind, of the coordinates below from left to right."""

    def __init__(self) -> None:
        self.masses = Masses(_NATS)
        self._means: dict[int, Floats] = {}
        self._second: dict[tuple[int, bytes], Floats] = {}

    def means(self, kind: Kind) -> Floats:
        """Return each coordinate's mean given the value (coordinate, value), on the window of the kind."""
        if kind.number not in self._means:
            self._means[kind.number] = self._given(kind)
        return self._means[kind.number]

    def _given(self, kind: Kind) -> Floats:
        radius = self.masses.of(kind).radius
        if isinstance(kind, LeafKind):
            return np.arange(-radius, radius + 1, dtype=np.float64)[None, :]
        if isinstance(kind, WeightedKind):
            return _cropped(self.means(kind.base), radius)
        if not isinstance(kind, PairKind):
            return np.vstack([self.means(part)[:, self._places(part, t, radius)] for part, t in _parts(kind)])
        # Numerators are convolutions of masses times means; the denominator is that of the masses.
        grids = [stretched(self.masses.of(part).values, times) for part, times in _parts(kind)]
        whole = _cropped(np.convolve(grids[0], grids[1])[None, :], radius)[0]
        lines = []
        for (part, times), other in zip(_parts(kind), grids[::-1], strict=True):
            for line in self.means(part) * self.masses.of(part).values:
                lines.append(_cropped(np.convolve(stretched(line, times), other)[None, :], radius)[0])
        out = np.zeros((len(lines), len(whole)))
        np.divide(lines, whole, out=out, where=whole > 0)
        return out

    def _places(self, kind: Kind, times: int, radius: int) -> Ints:
        return times * np.arange(-radius, radius + 1) + self.masses.of(kind).radius

    def second(self, kind: Kind, law: Floats) -> Floats:
        """Return the covariances (coordinate, coordinate) below a node whose value has a law."""
        key = (kind.number, law.tobytes())
        if key not in self._second:
            self._second[key] = self._below(kind, law)
        return self._second[key]

    def _below(self, kind: Kind, law: Floats) -> Floats:
        radius = len(law) // 2
        if isinstance(kind, LeafKind):
            return np.array([[float((np.arange(-radius, radius + 1.0) ** 2 * law).sum())]])
        if isinstance(kind, WeightedKind):
            return self.second(kind.base, law)
        if not isinstance(kind, PairKind):
            values = np.arange(-radius, radius + 1)[:, None] * np.array(kind.times)
            return self.of_states(kind.parts, values, law)
        (one, one_times), (other, other_times) = _parts(kind)
        masses = [stretched(self.masses.of(part).values, times) for part, times in _parts(kind)]
        whole = _cropped(np.convolve(masses[0], masses[1])[None, :], radius)[0]
        ratio = np.divide(law, whole, out=np.zeros_like(law), where=whole > 0)
        laws = [
            (mass * _correlated(ratio, rest, len(mass) // 2))[::times]
            for mass, rest, times in zip(masses, masses[::-1], kind.times, strict=True)
        ]
        if one is other and one_times == other_times:
            laws[1] = laws[0]  # equal but for rounding: worked out once
        first = self.means(one) * self.masses.of(one).values
        far = [
            _correlated(ratio, stretched(line, other_times), len(masses[0]) // 2)[::one_times]
            for line in self.means(other) * self.masses.of(other).values
        ]
        cross = first @ np.array(far).T
        return np.block([[self.second(one, laws[0]), cross], [cross.T, self.second(other, laws[1])]])

    def of_states(self, kinds: Sequence[Kind], states: Ints, shares: Floats) -> Floats:
        """Return the covariances below nodes whose values take some states (state, node) together."""
        radii = [self.masses.of(kind).radius for kind in kinds]
        inside = (np.abs(states) <= radii).all(axis=1)
        states, shares = states[inside], shares[inside]
        blocks = [self.means(kind)[:, states[:, place] + radii[place]] for place, kind in enumerate(kinds)]
        means = np.vstack(blocks)
        out = np.asarray((means * shares) @ means.T, np.float64)
        start = 0
        for place, (kind, block) in enumerate(zip(kinds, blocks, strict=True)):
            law = np.bincount(states[:, place] + radii[place], shares, 2 * radii[place] + 1)
            out[start : start + len(block), start : start + len(block)] = self.second(kind, law.astype(np.float64))
            start += len(block)
        return out


def _parts(kind: PairKind | Kind) -> list[tuple[Kind, int]]:
    assert not isinstance(kind, LeafKind | WeightedKind)  # noqa: S101
    return list(zip(kind.parts, kind.times, strict=True))


def _cropped(lines: Floats, radius: int) -> Floats:
    """Return lines (line, value) on another window, 0 where it is wider."""
    middle = lines.shape[1] // 2
    if radius <= middle:
        return lines[:, middle - radius : middle + radius + 1]
    return np.pad(lines, ((0, 0), (radius - middle, radius - middle)))


def _correlated(ratio: Floats, mass: Floats, radius: int) -> Floats:
    """Return ``sum over y of mass(y) ratio(x + y)`` for x within a radius."""
    line: Floats = _cropped(np.convolve(ratio, mass[::-1])[None, :], radius)[0]
    return line
