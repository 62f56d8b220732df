"""Laws that can be written down: equal noise on every cell, given that it sums to zero.

They need cells without limits, so they serve to check the general samplers, and GM's two-bin histogram.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb, inf, isfinite, isinf
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError, SamplingError
from congenial.exact import Exact, exact_fraction, positive_fraction
from congenial.noise import Laplace, Noise
from congenial.proven_decisions import CdfBounds, exact_choice
from congenial.randomness import RandomStream
from congenial.sampling.target_and_system import Target
from congenial.study.independence_and_rejection_samplers import Draws


def geometric_sum_zero(noise: Noise, n_cells: int, n_draws: int, rng: RandomStream) -> Ints:
    """Return exact draws (draw, cell) of integer noise of weight ``a ** |u|`` given that it sums to zero.

    Noise is a difference of two geometrics; given a zero sum both sides total the same N, with
    ``P(N) ~ (C(N + d - 1, d - 1) a^N)^2``, and each side is a uniform composition of N into d parts.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> from congenial.randomness import replay_rng
    >>> geometric_sum_zero(DoubleGeometric(1), 3, 1000, replay_rng(1)).sum(axis=1).any()
    np.False_
    """
    sizes = exact_choice(_size_cdf(noise.base, n_cells), n_draws, rng)
    return _compositions(sizes, n_cells, rng) - _compositions(sizes, n_cells, rng)


def _size_cdf(base: Fraction, n_cells: int) -> CdfBounds:
    x, d = base * base, n_cells
    # sum_N C(N+d-1, d-1)^2 x^N = sum_k C(d-1, k)^2 x^k / (1 - x)^(2d - 1), by Euler's transformation.
    total = sum((comb(d - 1, k) ** 2 * x**k for k in range(d)), Fraction(0)) / (1 - x) ** (2 * d - 1)

    def cdf_bounds(bits: int) -> tuple[list[int], list[int]]:
        low, high = [], []
        size, missing = 0, total
        power = Fraction(1)
        while missing * 2**bits > total:
            missing -= comb(size + d - 1, d - 1) ** 2 * power
            scaled = (1 - missing / total) * 2**bits
            low.append(scaled.numerator // scaled.denominator)
            high.append(-(-scaled.numerator // scaled.denominator))
            size, power = size + 1, power * x
        return low, high

    return cdf_bounds


def _compositions(sizes: Ints, n_parts: int, rng: RandomStream) -> Ints:
    """Return a uniform weak composition of each size into parts: where d - 1 bars stand among size + d - 1 places."""
    places = sizes + n_parts - 1
    bars = np.full((len(sizes), n_parts - 1), -1, np.int64)
    for k in range(n_parts - 1):  # Floyd's subset: one more place than before is open in each step
        newest = places - (n_parts - 1) + k
        pick = rng.below(newest + 1)
        is_occupied = (bars == pick[:, None]).any(axis=1)
        bars[:, k] = np.where(is_occupied, newest, pick)
    bars.sort(axis=1)
    edges = np.column_stack([np.full(len(sizes), -1), bars, places])
    return np.diff(edges, axis=1) - 1


def laplace_sum_zero(noise: Noise, n_cells: int, n_draws: int, rng: RandomStream) -> Floats:
    """Return draws (draw, cell) of Laplace noise given that it sums to zero.

    Both sides of the difference total the same ``N ~ Gamma(2d - 1, scale / 2)``, spread by uniform points of a simplex.
    """
    exponentials = -np.log(rng.uniforms(n_draws * (4 * n_cells - 1))).reshape(n_draws, -1)
    size = exponentials[:, : 2 * n_cells - 1].sum(axis=1) / (2 * float(noise.precision))
    plus, minus = np.split(exponentials[:, 2 * n_cells - 1 :], 2, axis=1)
    noise_of_cell: Floats = size[:, None] * (_shares(plus) - _shares(minus))
    return noise_of_cell


def _shares(parts: Floats) -> Floats:
    shares: Floats = parts / parts.sum(axis=1, keepdims=True)
    return shares


def two_bin_law(noise: Laplace) -> Laplace:
    """Return the law of the first of two Laplace variables given that they sum to zero: twice the precision.

    With GM's Laplace(2 / epsilon) in each bin this is Laplace(1 / epsilon), their equation for the two-bin histogram.

    Examples
    --------
    >>> two_bin_law(Laplace("1/2"))
    Laplace(precision=Fraction(1, 1))
    """
    return Laplace(2 * noise.precision)


def sample(target: Target, n_draws: int, rng: RandomStream) -> Draws:
    """Return independent draws of a target whose only condition is the total, with the same noise on every cell."""
    noise = _common_noise(target)
    n_cells = len(target.centre)
    if noise.exponent != 1:
        raise SamplingError(f"there is no closed form for {noise.family} noise")
    draw = geometric_sum_zero if noise.is_discrete else laplace_sum_zero
    tables: Ints | Floats = target.centre + draw(noise, n_cells, n_draws, rng)
    return Draws(tables, 1.0, is_independent=True)


def _common_noise(target: Target) -> Noise:
    constraints = target.constraints
    is_total = (
        len(constraints.rows) == 1 and constraints.equalities and set(constraints.rows[0].row.coefficients) == {1}
    )
    covers = is_total and len(constraints.rows[0].row.cells) == len(target.centre)
    unlimited = set(constraints.lower) == set(constraints.upper) == {None}
    noises = {query.noise for query in target.measured}
    cells = sorted(query.cell for query in target.measured if query.cell is not None)
    if not (
        covers
        and unlimited
        and len(noises) == 1
        and cells == list(range(len(target.centre)))
        and len(target.measured) == len(cells)
    ):
        raise SamplingError(
            "the closed form needs the total as the only condition, bounds(None) on every cell"
            " and the same noise on each"
        )
    return noises.pop()


# GM's two-bin histogram with a fixed total, in closed form, and the conditions of their Appendix A on points.


@dataclass(frozen=True)
class TwoBinRelease:
    """A release (s1 + u, s2 - u) of two cells with a fixed total; ``beta`` is None for the conditional law.

    >>> release = l1("1", "3/4")
    >>> release.variance, release.attained_epsilon, release.mean_shift
    (Fraction(5, 1), Fraction(2, 3), 0)
    """

    name: str
    exact_epsilon: Fraction
    beta: Fraction | None = None
    mean_shift: ClassVar[int] = 0  # the noise is symmetric, so E(m1, m2) = (s1, s2)

    @property
    def epsilon(self) -> float:
        """The total budget of the noise before the total is imposed, one changed record."""
        return float(self.exact_epsilon)

    @property
    def variance(self) -> Fraction:
        """The variance of the first cell, exactly."""
        share = Fraction(1, 4) if self.beta is None else self.beta**2 + (1 - self.beta) ** 2
        return 8 * share / self.exact_epsilon**2

    @property
    def attained_epsilon(self) -> Fraction:
        """The smallest epsilon that holds for one changed record (bounded neighbours), exactly."""
        return self.exact_epsilon / (1 if self.beta is None else 2 * max(self.beta, 1 - self.beta))

    def _parts(self, u: ArrayLike) -> tuple[float, Floats, Floats]:
        # With b = max(beta, 1 - beta), a = 1 - b, y = eps |u| / (2 b) and t = y (b - a) / a GM's density is
        # eps / 4 exp(-y) (1 + y (1 - exp(-t)) / t): nothing cancels, and beta = 1/2 is t = 0.
        y = np.abs(np.asarray(u, np.float64)) * float(self.attained_epsilon)
        if self.beta in {None, 0, 1}:
            return self.epsilon / (2 if self.beta is None else 4), y, np.zeros_like(y)
        b = self.exact_epsilon / (2 * self.attained_epsilon)
        with np.errstate(over="ignore"):
            t = y * float(min((2 * b - 1) / (1 - b), Fraction(10**300)))
        t = np.maximum(t, 1e-300)  # (1 - exp(-t)) / t is 1 there
        return self.epsilon / 4, y, y * (-np.expm1(-t) / t)

    def density(self, u: ArrayLike) -> Floats:
        """Return the density of the noise on the first cell.

        >>> l2(1).density([0, 1]).round(4).tolist()
        [0.25, 0.1839]
        """
        return np.asarray(np.exp(self.log_density(u)), np.float64)

    def log_density(self, u: ArrayLike) -> Floats:
        """Return its log, which does not underflow.

        >>> float(congenial(2).log_density(1e6))
        -2000000.0
        """
        height, y, extra = self._parts(u)
        return np.asarray(np.log(height) - y + np.log1p(extra), np.float64)


def congenial(epsilon: Exact) -> TwoBinRelease:
    """Return the conditional law given the total: Laplace(1 / epsilon).

    >>> congenial("1/2").variance
    Fraction(8, 1)
    """
    return TwoBinRelease("congenial", positive_fraction(epsilon, "epsilon"))


def l2(epsilon: Exact) -> TwoBinRelease:
    """Return the L2 projection onto the total: the mean of two Laplace(2 / epsilon).

    >>> l2(1).variance
    Fraction(4, 1)
    """
    return TwoBinRelease("L2", positive_fraction(epsilon, "epsilon"), Fraction(1, 2))


def l1(epsilon: Exact, beta: Exact) -> TwoBinRelease:
    """Return GM's L1 solution with noise beta u1 + (1 - beta) u2, u ~ Laplace(2 / epsilon).

    >>> l1(1, 1).attained_epsilon
    Fraction(1, 2)
    """
    if not 0 <= (weight := exact_fraction(beta, "beta")) <= 1:
        raise ConditionError(f'beta is {weight}, and must lie in 0..1; write for example "1/2" or "3/4"')
    return TwoBinRelease("L1", positive_fraction(epsilon, "epsilon"), weight)


@dataclass(frozen=True)
class NeighbourReading:
    """One way to read (1 + gamma) k unit = loss.

    >>> NeighbourReading("unbounded", 2, Fraction(1), Fraction(1), "").gamma
    Fraction(-1, 2)
    """

    relation: str
    k: int
    loss: Fraction
    unit: Fraction
    sentence: str

    @property
    def gamma(self) -> Fraction:
        """What conditioning costs beyond k units, as a share of them."""
        return self.loss / (self.k * self.unit) - 1


def neighbour_readings(epsilon: Exact) -> tuple[NeighbourReading, ...]:
    """Return gamma of the conditional law under both neighbour relations, and GM's own reading.

    >>> [(r.relation, r.k, str(r.gamma)) for r in neighbour_readings(1)]
    [('bounded', 1, '0'), ('unbounded', 2, '-1/2'), ('unbounded', 2, '0')]
    """
    e = positive_fraction(epsilon, "epsilon")
    return (
        NeighbourReading("bounded", 1, e, e, "One record changes; that costs epsilon with the total or without."),
        NeighbourReading("unbounded", 2, e, e, "GM: one record out, one in, each set against the whole epsilon."),
        NeighbourReading("unbounded", 2, e, e / 2, "One out, one in, each set against its own cost, epsilon / 2."),
    )


@dataclass(frozen=True)
class AppendixACheck:
    """What was seen on points: ``alpha`` is None if the density rises, and infinite if no alpha was found.

    >>> AppendixACheck(True, None, 1.0, 1e9, False).holds_at(0.9)
    False
    """

    is_decreasing: bool
    rises_at: float | None
    alpha: float | None
    reach: float
    is_cut_by_underflow: bool

    def holds_at(self, alpha: float) -> bool:
        """Whether both conditions were seen to hold at this alpha, up to one part in 1e9."""
        return self.alpha is not None and isfinite(self.alpha) and alpha >= self.alpha * (1 - 1e-9)

    @property
    def statement(self) -> str:
        """The result in words."""
        if self.alpha is None:
            seen = f"condition (i) fails: the density rises near |x| = {self.rises_at:.6g}"
        elif isinf(self.alpha):
            seen = "decreasing, but the slope of its log has no bound: no finite alpha (condition (ii) fails)"
        else:
            seen = f"decreasing, and condition (ii) holds from alpha = {self.alpha:.9g} on"
        cut = " (farther out it underflows)" if self.is_cut_by_underflow else ""
        return f"{seen}; seen on points up to {self.reach:.3g}{cut}. A numerical check, not a certificate for a budget."


def appendix_a(
    log_density: Callable[[Floats], Floats] | None = None,
    *,
    density: Callable[[Floats], Floats] | None = None,
    scales: float = 1e9,
) -> AppendixACheck:
    """Look on points up to ``scales`` scales for the smallest alpha of GM's Appendix A: the steepest fall of the log.

    >>> appendix_a(lambda x: -3 * x).holds_at(3)
    True
    >>> appendix_a(lambda x: -x**2).alpha
    inf
    """
    if (log_density is None) == (density is None):
        raise ConditionError("give either log_density or density=, one of the two")

    def log_f(x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            y = np.asarray(log_density(x) if log_density else np.log(density(x)), np.float64)  # type: ignore[misc]
        if y.shape != x.shape or np.isnan(y).any() or (y == inf).any():
            raise ConditionError("the density must give one finite number for each |x|; pass a vectorised function")
        return y

    return _scan(log_f, scales, density is not None)


def _scan(log_f: Callable[[Floats], Floats], scales: float, underflows: bool) -> AppendixACheck:
    powers = np.ldexp(np.ones(401), np.arange(-200, 201))
    fallen = log_f(powers) <= log_f(np.zeros(1)) - 1
    if not fallen.any() or fallen[0]:
        raise ConditionError("the density does not fall by a factor e between 2^-200 and 2^200; rescale it")
    reach, is_cut, vanishes = scales * (scale := float(powers[fallen.argmax()])), False, False
    floor = -660.0 if underflows else -inf  # exp(-660) is the last that keeps all its digits with room to spare
    if log_f(np.array([reach]))[0] <= floor:
        low, high = 0.0, reach
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if log_f(np.array([middle]))[0] > floor else (low, middle)
        vanishes = not underflows or bool(log_f(np.array([low]))[0] > floor + 20)  # zero at once, not by underflow
        reach, is_cut = low, not vanishes
    near = min(4 * scale, reach)
    x = np.unique(np.concatenate([np.linspace(0, near, 8193), np.geomspace(near, reach, 4097)]))
    slope, noise = _slopes(x, log_f(x))
    if (slope < -noise).any():
        return AppendixACheck(False, float(x[(slope < -noise).argmax()]), None, reach, is_cut)
    k = int((slope - noise).argmax())
    alpha = inf if vanishes else max(_refine(log_f, x, k, float(slope[k])), _tail(log_f, reach))
    return AppendixACheck(True, None, alpha, reach, is_cut)


def _slopes(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    width = np.diff(x)
    return -np.diff(y) / width, 1e-15 * np.maximum(1, np.abs(y[1:])) / width


def _refine(log_f: Callable[[Floats], Floats], x: Floats, k: int, best: float) -> float:
    low, high, growth = float(x[max(k - 1, 0)]), float(x[min(k + 2, len(x) - 1)]), 1.0
    for _ in range(60):
        points = np.linspace(low, high, 49)
        with np.errstate(all="ignore"):
            slope, noise = _slopes(points, log_f(points))
        j = int(slope.argmax())
        if np.diff(points).min() <= 0 or noise[j] > 1e-9 * slope[j]:
            break
        growth, best = float(slope[j]) / best, max(best, float(slope[j]))
        low, high = float(points[max(j - 1, 0)]), float(points[min(j + 2, 48)])
    return inf if growth > 1.001 else best  # still steeper at the finest resolution: a jump or a cusp


def _tail(log_f: Callable[[Floats], Floats], reach: float) -> float:
    points = reach / np.array([8.0, 4.0, 2.0, 1.0])
    slope, noise = _slopes(points, log_f(points))
    before, last = np.diff(slope)
    if last <= 1e-13 * slope[-1] + 2 * noise[-1]:
        return float(slope[-1])
    if before <= 0 or last >= 0.999 * before:
        return inf
    return float(slope[-1] + last * last / (before - last))  # the increments go on as a geometric series
