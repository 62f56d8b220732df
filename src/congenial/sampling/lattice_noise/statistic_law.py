"""The law of a linear statistic of the noise, with proven bounds: what intervals of measurements rest on.

The statistic is an integer combination of coordinates. Inside a sum, coordinates of one coefficient act through their
own sum, so the joint mass of a sum's value and of the statistic is made class by class; sums are then put together as
the forest says. Weights are positive doubles with a bound of roundings and of what windows leave out, as in
`sum_masses`, and so are the probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import ceil, exp, ldexp, sqrt

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError, TooLargeError
from congenial.noise.weight import NoiseWeight
from congenial.sampling.lattice_noise.sum_forest import Core, LeafKind, Node, PairKind, SumForest, WeightedKind
from congenial.sampling.lattice_noise.sum_masses import (
    LEAST,
    UNIT,
    Mass,
    Masses,
    convolved_masses,
    settled,
    stretched,
)
from congenial.sampling.lattice_noise.sum_tables import weigh_core
from congenial.sampling.lattice_noise.system import LatticeSystem

_NATS = 40.0  # windows leave out about 1e-17
_MOST_WORK = 2**32  # products of one step
_MOST_PLANE = 2**25  # numbers of one joint mass


@dataclass(frozen=True)
class StatisticLaw:
    """The law of an integer statistic q of the noise: symmetric, on ``-radius .. radius`` and a little beyond.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> system = LatticeSystem((DoubleGeometric(1).weight,) * 2, (Row.of("total", [0, 1]),))
    >>> law = statistic_law(system, [1, 0])
    >>> width, coverage = law.half_width(0.9)
    >>> width, round(coverage, 4)
    (1, 0.9677)
    """

    mass: Mass

    @property
    def values(self) -> Ints:
        """The integers that have bounds of their own."""
        return np.arange(-self.mass.radius, self.mass.radius + 1)

    @property
    def _share(self) -> Floats:
        return self.mass.values / float(self.mass.values.sum())

    @property
    def _relative(self) -> float:
        """How far a share is off by rounding: of the value, of the sum of all, of the quotient."""
        return 1.01 * (2 * self.mass.n_units + len(self.mass.values) + 4) * UNIT

    @property
    def _missing(self) -> float:
        """What windows have left out, as a share."""
        return 1.01 * self.mass.lost / float(self.mass.values.sum())

    @property
    def lower(self) -> Floats:
        """A number below the probability of each value."""
        return self._share * (1 - self._relative - self._missing)

    @property
    def upper(self) -> Floats:
        """A number above the probability of each value."""
        return self._share * (1 + self._relative) + self._missing

    @property
    def outside(self) -> float:
        """A number above the probability of all other integers."""
        return self._missing * (1 + self._relative)

    @property
    def variance(self) -> float:
        """The variance, to many digits."""
        return float((self.values.astype(np.float64) ** 2 * self._share).sum())

    def coverage(self, width: int) -> float:
        """Return a number below ``P(|q| <= width)``, and hardly so."""
        inner = self.lower[np.abs(self.values) <= width]
        return float(inner.sum()) * (1 - (len(inner) + 2) * UNIT)

    def half_width(self, level: Fraction | float) -> tuple[int, float]:
        """Return the smallest width whose lower bound of coverage reaches a level, and that bound."""
        middle = self.mass.radius
        inside = self.lower[middle] + 2 * np.cumsum(self.lower[middle + 1 :])
        bounds = np.concatenate([[self.lower[middle]], inside]) * (1 - (2 * len(self.values) + 4) * UNIT)
        reached = np.flatnonzero(bounds >= float(level))
        if not 0 < level < 1 or not len(reached):
            raise SamplingError(f"an interval's level is between 0 and {bounds[-1]:.12g} here, and not {level}")
        return int(reached[0]), float(bounds[reached[0]])

    def plus(self, other: "StatisticLaw") -> "StatisticLaw":
        """Return the law of the sum of two independent statistics."""
        return StatisticLaw(convolved_masses(self.mass, other.mass, _NATS))

    def repeated(self, n: int) -> "StatisticLaw":
        """Return the law of the sum of `n` independent statistics with this law, by squaring.

        Examples
        --------
        >>> from congenial.noise import DoubleGeometric
        >>> one = statistic_law(LatticeSystem((DoubleGeometric(1).weight,)), [1])
        >>> one.repeated(600).half_width(0.9)[0]
        55
        """
        return StatisticLaw(_repeated(self.mass, n))


def statistic_law(system: LatticeSystem, coefficients: Sequence[int]) -> StatisticLaw:
    """Return the law of ``sum coefficients[i] * u[i]`` of the noise of a system.

    Raises `TooLargeError` where the noise is not one of few sums, or the statistic has too many different coefficients:
    `simulated` of `half_widths` serves there.
    """
    if len(coefficients) != system.n_coordinates:
        raise SamplingError(f"{system.n_coordinates} coefficients are needed, and there are {len(coefficients)}")
    forest = SumForest.of(system)
    joint = _Joint(dict(enumerate(int(number) for number in coefficients)))
    parts: dict[object, tuple[Mass, int]] = {}
    for node in forest.free:
        # Many free coordinates have one kind and coefficient: their law is made once.
        key = (node.kind.number, joint.pattern(node, 1))
        mass, n = parts.get(key, (None, 0))
        parts[key] = (joint.free(node) if mass is None else mass, n + 1)
    masses = [_repeated(mass, n) for mass, n in parts.values()]
    masses += [joint.pinned(node) for node in forest.pinned]
    masses += [joint.core(core) for core in forest.cores]
    return StatisticLaw(reduce(lambda a, b: convolved_masses(a, b, _NATS), masses, _POINT))


_POINT = Mass(np.ones(1), 0, 0.0)


def _repeated(mass: Mass, n: int) -> Mass:
    out = _POINT
    for digit in bin(n)[2:]:
        out = convolved_masses(out, out, _NATS) if len(out.values) > 1 else out
        out = convolved_masses(out, mass, _NATS) if digit == "1" else out
    return out


# Joint masses of a node's value k and of the statistic t of all below it.


@dataclass(frozen=True)
class Line:
    """The statistic is a multiple of the value: ``t = slope * k``."""

    mass: Mass
    slope: Fraction

    @property
    def radius(self) -> int:
        """Where the window of values ends."""
        return self.mass.radius

    @property
    def most_statistic(self) -> int:
        """The largest statistic."""
        return ceil(abs(self.slope) * self.mass.radius)

    def statistics(self) -> Ints:
        """Return the statistic at each value; where the mass is 0, any integer."""
        values = np.arange(-self.radius, self.radius + 1)
        return values * self.slope.numerator // self.slope.denominator

    def row(self, value: int) -> tuple[int, Floats]:
        """Return the masses at a value, from some statistic on."""
        weight = self.mass.values[value + self.radius] if abs(value) <= self.radius else 0.0
        return value * self.slope.numerator // self.slope.denominator, np.array([weight])


@dataclass(frozen=True)
class Plane:
    """Masses (value, statistic), both from minus a radius on; `mass` has the sums over statistics."""

    masses: Floats
    mass: Mass

    @property
    def radius(self) -> int:
        """Where the window of values ends."""
        return self.mass.radius

    @property
    def most_statistic(self) -> int:
        """The largest statistic."""
        return int(self.masses.shape[1]) // 2

    @classmethod
    def of(cls, masses: Floats, n_units: int, lost: float) -> "Plane":
        """Return masses scaled by a power of two, cut where little lies beyond."""
        power = int(np.frexp(masses.max())[1])
        masses = np.ldexp(masses, -power)
        masses[masses < LEAST] = 0.0
        lost = 1.01 * ldexp(lost, -power) + LEAST * masses.size
        for axis in (0, 1):
            sums = masses.sum(axis=1 - axis)
            middle = len(sums) // 2
            beyond = np.cumsum(sums[:middle] + sums[:middle:-1])
            n_cut = int(np.count_nonzero(beyond <= exp(-_NATS) * sums.sum()))
            lost += 1.01 * float(beyond[n_cut - 1]) if n_cut else 0.0
            inside = slice(n_cut, len(sums) - n_cut)
            masses = masses[inside] if axis == 0 else masses[:, inside]
        return cls(masses, Mass(masses.sum(axis=1), n_units + masses.shape[1], lost))

    @property
    def n_units(self) -> int:
        """Roundings behind each number."""
        return self.mass.n_units - int(self.masses.shape[1])

    def row(self, value: int) -> tuple[int, Floats]:
        """Return the masses at a value, from some statistic on."""
        if abs(value) > self.radius:
            return 0, np.zeros(1)
        return -self.most_statistic, self.masses[value + self.radius]


Part = Line | Plane


class _Joint:
    """Joint masses of nodes for one statistic."""

    def __init__(self, coefficients: Mapping[int, int]) -> None:
        self.coefficients = coefficients
        self.masses = Masses(_NATS)

    def pattern(self, node: Node, sign: int) -> tuple[int, ...]:
        """Return the signed coefficients of all leaves below a node."""
        if isinstance(node.kind, LeafKind):
            return (sign * self.coefficients[node.coordinate],)
        children = zip(node.children, node.signs, strict=True)
        return tuple(number for child, turned in children for number in self.pattern(child, sign * turned))

    def free(self, node: Node) -> Mass:
        """Return the law of the statistic below a node whose value is free."""
        part = self.part(node, 1)
        if isinstance(part, Line):
            return self._at_statistics(part)
        return settled(part.masses.sum(axis=0), part.n_units + part.masses.shape[0], part.mass.lost, _NATS)

    @staticmethod
    def _at_statistics(line: Line) -> Mass:
        most = line.most_statistic
        values = _counted(line.statistics(), line.mass.values, most)
        return settled(values, line.mass.n_units + len(line.mass.values), line.mass.lost, _NATS)

    def pinned(self, node: Node) -> Mass:
        """Return the law of the statistic below a node whose value is 0."""
        while isinstance(node.kind, WeightedKind):
            (node,) = node.children
        if isinstance(node.kind, PairKind):
            return self._sum_is_zero(self._members(node, 1, 1))
        return self._sum_is_zero([self.part(node, 1)])

    def _members(self, node: Node, sign: int, times: int) -> list[Part]:
        """Return what a sum adds up, through sums of sums: values already multiplied."""
        if not isinstance(node.kind, PairKind):
            return [_stretched(self.part(node, sign), times)]
        lines = zip(node.children, node.signs, node.kind.times, strict=True)
        return _grouped(
            [part for child, turned, own in lines for part in self._members(child, sign * turned, times * own)]
        )

    def part(self, node: Node, sign: int) -> Part:
        """Return the joint mass of a node; with `sign` -1, of its negative value and what is below turned round."""
        kind = node.kind
        if isinstance(kind, LeafKind):
            return Line(self.masses.of(kind), Fraction(sign * self.coefficients[node.coordinate]))
        if isinstance(kind, PairKind):
            return _added_up(self._members(node, sign, 1))
        if isinstance(kind, WeightedKind):
            return _weighted(self.part(node.children[0], sign), kind.weight, kind.factor)
        children = zip(node.children, node.signs, strict=True)
        return reduce(
            _tied,
            [
                _thinned(self.part(child, sign * turned), times)
                for (child, turned), times in zip(children, kind.times, strict=True)
            ],
        )

    def _sum_is_zero(self, members: Sequence[Part]) -> Mass:
        """Return the law of the statistic where the members add up to 0: the last is minus the sum of the others."""
        ordered = sorted(members, key=lambda part: isinstance(part, Plane))
        if len(ordered) == 1:
            return self._law_of_rows([(1.0, [ordered[0].row(0)])], ordered, 0)
        last = ordered.pop()
        rest = _added_up(ordered)
        radius = min(rest.radius, last.radius)
        rows = [(1.0, [rest.row(value), last.row(-value)]) for value in range(-radius, radius + 1)]
        return self._law_of_rows(rows, [rest, last], 0)

    def core(self, core: Core) -> Mass:
        """Return the law of the statistic below a core."""
        parts = [self.part(node, 1) for node in core.nodes]
        weighed = weigh_core(core, [part.mass for part in parts])
        soft = np.ones(len(weighed.states))
        for terms, weight in core.soft:
            sizes = np.abs(weighed.states @ np.array(terms))
            soft *= np.array(weight.doubles(int(sizes.max(initial=0))))[sizes]
        if all(isinstance(part, Line) for part in parts):
            statistics = np.zeros(len(weighed.states), np.int64)
            for number, part in enumerate(parts):
                if isinstance(part, Line):
                    statistics += part.statistics()[weighed.states[:, number] + part.radius]
            most = int(np.abs(statistics).max(initial=0))
            values = _counted(statistics, weighed.weights, most)
            return settled(values, weighed.n_units + len(weighed.weights), weighed.missing, _NATS)
        rows = [
            (float(factor), [part.row(int(value)) for part, value in zip(parts, state, strict=True)])
            for factor, state in zip(soft, weighed.states, strict=True)
        ]
        return self._law_of_rows(rows, parts, 2 * len(core.soft), weighed.missing)

    @staticmethod
    def _law_of_rows(
        rows: Sequence[tuple[float, Sequence[tuple[int, Floats]]]],
        parts: Sequence[Part],
        n_more: int,
        missing: float | None = None,
    ) -> Mass:
        """Add up, over some values of the parts, the convolutions of their rows times a factor."""
        most = sum(part.most_statistic for part in parts)
        widths = [len(row) for _, row in rows[0][1]]
        _limit(len(rows) * int(np.prod([float(width) for width in sorted(widths)[-2:]])))
        values = np.zeros(2 * most + 1)
        for factor, some in rows:
            if all(row.any() for _, row in some):
                product = reduce(np.convolve, [row for _, row in some]) * factor
                start = sum(first for first, _ in some) + most
                values[start : start + len(product)] += product
        n_units = sum(part.mass.n_units + len(row) + 2 for part, (_, row) in zip(parts, rows[0][1], strict=True))
        if missing is None:
            missing = 0.0
            for number, part in enumerate(parts):
                others = [other.mass.most for place, other in enumerate(parts) if place != number]
                missing += part.mass.lost * float(np.prod(others))
        return settled(values, n_units + n_more + len(rows), missing, _NATS)


# Parts put together.


def _counted(statistics: Ints, weights: Floats, most: int) -> Floats:
    """Return the summed weights of each statistic from ``-most`` to `most`."""
    return np.bincount(statistics + most, weights, 2 * most + 1).astype(np.float64, copy=False)


def _limit(work: float) -> None:
    if work > _MOST_WORK:
        raise TooLargeError(
            "the law of this statistic would take too many steps; take a statistic with fewer different coefficients,"
            " or simulate its intervals"
        )


def _grouped(parts: Sequence[Part]) -> list[Part]:
    """Return parts of a sum with those of one slope added up: they act through their sum."""
    lines: dict[Fraction, Mass] = {}
    planes: list[Part] = []
    for part in parts:
        if isinstance(part, Plane):
            planes.append(part)
        else:
            known = lines.get(part.slope)
            lines[part.slope] = part.mass if known is None else convolved_masses(known, part.mass, _NATS)
    return [*(Line(mass, slope) for slope, mass in lines.items()), *planes]


def _stretched(part: Part, times: int) -> Part:
    """Return the joint mass of a multiple of the value."""
    if times == 1:
        return part
    if isinstance(part, Line):
        return Line(Mass(stretched(part.mass.values, times), part.mass.n_units, part.mass.lost), part.slope / times)
    masses = np.zeros((2 * part.radius * times + 1, part.masses.shape[1]))
    masses[::times] = part.masses
    return Plane(masses, Mass(stretched(part.mass.values, times), part.mass.n_units, part.mass.lost))


def _thinned(part: Part, times: int) -> Part:
    """Return the joint mass of z where the value is a multiple of it."""
    radius = part.radius // times
    places = np.arange(-radius, radius + 1) * times + part.radius
    mass = Mass(part.mass.values[places], part.mass.n_units, part.mass.lost)
    return Line(mass, part.slope * times) if isinstance(part, Line) else Plane(part.masses[places], mass)


def _weighted(part: Part, weight: NoiseWeight, factor: int) -> Part:
    """Return a part with a further weight of its value."""
    weights = np.array(weight.doubles(factor * part.radius)[::factor])
    weights = np.concatenate([weights[:0:-1], weights])
    if isinstance(part, Line):
        values = part.mass.values * weights
        return Line(settled(values, part.mass.n_units + 2, part.mass.lost, _NATS), part.slope)
    return Plane.of(part.masses * weights[:, None], part.n_units + 2, part.mass.lost)


def _added_up(parts: Sequence[Part]) -> Part:
    """Return the joint mass of a sum of values; what it will take is known before it is begun."""
    work = square = 0.0
    most = 0.0
    for number, part in enumerate(parts):
        square, most = square + part.radius**2, most + part.most_statistic**2
        size = (2 * part.radius + 1.0) * (1 if isinstance(part, Line) else 2 * part.most_statistic + 1.0)
        work += 4 * sqrt(square * most) * size if number > 1 else 0.0
    _limit(work / 2)
    return reduce(_added, parts)


def _added(one: Part, other: Part) -> Part:
    """Return the joint mass of the sum of two values and of both statistics together."""
    if isinstance(one, Line) and isinstance(other, Line) and one.slope == other.slope:
        return Line(convolved_masses(one.mass, other.mass, _NATS), one.slope)
    if isinstance(one, Line):
        one, other = other, one
    radius, most = one.radius + other.radius, one.most_statistic + other.most_statistic
    if (2 * radius + 1) * (2 * most + 1) > _MOST_PLANE:
        _limit(float("inf"))
    masses = np.zeros((2 * radius + 1, 2 * most + 1))
    lost = one.mass.lost * other.mass.total + other.mass.lost * one.mass.total
    n_units = one.mass.n_units + other.mass.n_units + 1 + min(2 * one.radius + 1, 2 * other.radius + 1)
    if isinstance(one, Line):
        assert isinstance(other, Line)  # noqa: S101  of another slope
        first, second = one.statistics(), other.statistics()
        for number, weight in enumerate(one.mass.values):
            rows = np.arange(number, number + 2 * other.radius + 1)
            masses[rows, first[number] + second + most] += weight * other.mass.values
    elif isinstance(other, Line):
        _limit(float(one.masses.size) * len(other.mass.values))
        for number, (weight, shift) in enumerate(zip(other.mass.values, other.statistics(), strict=True)):
            if weight:
                start = int(shift) + most - one.most_statistic
                inside = masses[number : number + len(one.masses), start : start + one.masses.shape[1]]
                inside += weight * one.masses
    else:
        _limit(float(one.masses.size) * other.masses.size)
        for (row, column), weight in np.ndenumerate(other.masses):
            inside = masses[row : row + len(one.masses), column : column + one.masses.shape[1]]
            inside += weight * one.masses
        n_units += other.masses.size
    return Plane.of(masses, n_units, lost)


def _tied(one: Part, other: Part) -> Part:
    """Return the joint mass of one value that both have, and of both statistics together."""
    radius = min(one.radius, other.radius)
    lost = one.mass.lost * other.mass.most + other.mass.lost * one.mass.most
    if isinstance(one, Line) and isinstance(other, Line):
        places = np.arange(-radius, radius + 1)
        values = one.mass.at(places) * other.mass.at(places)
        return Line(settled(values, one.mass.n_units + other.mass.n_units + 1, lost, _NATS), one.slope + other.slope)
    most = one.most_statistic + other.most_statistic
    widths = [len(part.row(0)[1]) for part in (one, other)]
    _limit((2 * radius + 1.0) * widths[0] * widths[1])
    masses = np.zeros((2 * radius + 1, 2 * most + 1))
    for value in range(-radius, radius + 1):
        (first, row), (second, column) = one.row(value), other.row(value)
        product = np.convolve(row, column)
        start = first + second + most
        masses[value + radius, start : start + len(product)] += product
    return Plane.of(masses, one.mass.n_units + other.mass.n_units + min(widths) + 1, lost)
