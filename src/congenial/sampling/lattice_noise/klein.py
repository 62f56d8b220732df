"""Discrete Gaussian noise on a lattice, for any equalities: Klein's sampler with rejection.

The energy of u is ``E(u) = sum of -log(base) * (coordinate or soft row of u)^2``, and its weight ``exp(-E(u))``. With a
basis ``b_1 .. b_m`` of the lattice, coefficients k are drawn one after another, the last first, each from a discrete
Gaussian around a centre that the ones before leave it. That proposes k with probability
``exp(-E'(k)) / prod theta_i(c_i)``, where ``E'(k) = sum d_i (k_i - c_i)^2`` and
``theta_i(c) = sum over integers k of exp(-d_i (k - c)^2)``. Accepting with probability
``exp(E'(k) - E(u)) * prod theta_i(c_i) / theta_i(0)`` leaves ``exp(-E(u))`` up to a constant.

The numbers ``d_i`` and those that the centres are made of come from the Gram-Schmidt vectors of the basis, rounded to
doubles: E' is a form of its own, known exactly, and a little below E, which `Proposal.of` proves. So no rounding is
left in the law, however the basis was found. Centres are multiples of a power of two, exact in doubles.
docs/claims/lattice-noise.md has the proof and the bounds of rounding. Nothing here has seen a table.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, exp, factorial, inf, log, nextafter, sqrt
from typing import ClassVar, Self

import flint
import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import ball, ends
from congenial.noise.weight import NoiseWeight, log_base
from congenial.portable_math import log_e
from congenial.proven_decisions import WORD, Uniform, choose_weighted, is_below, refine_until_proven
from congenial.randomness import KeyedWords
from congenial.sampling.lattice_noise.free_coordinates import signed
from congenial.sampling.lattice_noise.rejection import (
    LEAST_ACCEPTANCE,
    MOST_EXACT,
    UNIT,
    Attempts,
    Flags,
    Words,
    draw_until_accepted,
    matrix_product,
    mean_acceptance,
)
from congenial.sampling.lattice_noise.short_basis import GramSchmidt, lattice_basis
from congenial.sampling.lattice_noise.system import LatticeSystem

MOST_DIMENSIONS = 2000
_MOST_FALL = 64.0
_MOST_REACH = 2048
_TAIL_BITS = 50  # what a window leaves out is below 2^-50 of its sum
_SHRINK = 2.0**-20  # how much E' lies below E
_PANEL = 32  # steps whose centres are prepared together
_NATS = 40.0
_SCALE_BITS = 30  # of the largest scale of several bases
_LEAST_SCALE = 1 << 12  # of the smallest: the form is within 1 / 4096 of the energy
_ACCEPT_HALVINGS = 8  # probabilities below exp(-128) are as good as 0: the tolerance is larger
_SIGNED = signed(np.arange(2 * _MOST_REACH + 2)).astype(np.float64)


# What is drawn from: a discrete Gaussian for each coefficient.

_TAYLOR = [1 / factorial(n) for n in range(14, -1, -1)]  # what is left out is below 2^-55, for a size of 1/2


def exp_of(exponents: Floats, halvings: int) -> Floats:
    """Return exp of numbers of size up to ``2 ** (halvings - 1)``, within ``5 * 2 ** halvings`` units of rounding.

    Examples
    --------
    >>> exp_of(np.array([1.0, -1.0]), 1).round(12).tolist()
    [2.718281828459, 0.367879441171]
    """
    small = exponents * 2.0**-halvings
    out = np.full_like(small, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:  # Horner's rule
        out *= small
        out += coefficient
    for _ in range(halvings):
        out *= out
    return out


def reach_of(fall: float, bits: int) -> int:
    """Return a distance from the nearest integer beyond which ``exp(-fall * (k - c)^2)`` adds up to little.

    In parts of the weight at the nearest integer, below ``2**-bits``: two sides of at most
    ``exp(-fall K (K + 1)) / (1 - exp(-2 fall (K + 1)))`` for a distance K, and K is more than ``1 / sqrt(fall)``.
    """
    nats = (bits + 2) * log_e(2.0) + log_e(1.0 + 1.0 / sqrt(fall))
    return ceil(sqrt(nats / fall))


def enclosures_around(fall: float, offset: Fraction, bits: int) -> list[tuple[int, flint.arb]]:
    """Return integers by distance and their weights in parts of that of 0, so many that the rest is below 2^-bits."""
    d, twice = flint.arb(fall), ball(2 * offset)
    values = signed(np.arange(2 * reach_of(fall, bits) + 1)).tolist()
    return [(value, (-d * value * (value - twice)).exp()) for value in values]


@lru_cache(maxsize=4096)
def mass_of(fall: float, bits: int) -> flint.arb:
    """Return ``theta(0)`` as a ball, at a working precision of so many bits."""
    return _with_rest(enclosures_around(fall, Fraction(0), bits), bits)


def _with_rest(weights: list[tuple[int, flint.arb]], bits: int) -> flint.arb:
    return sum((weight for _, weight in weights), flint.arb(0)) + flint.arb(0).union(flint.arb(2) ** -bits)


@dataclass(frozen=True)
class Step:
    """The discrete Gaussian of one coefficient, around any centre.

    Attributes
    ----------
    fall : float
        ``d`` in ``exp(-d (k - c)^2)``.
    weights : array (K, 1, 1)
        ``exp(-d k^2)`` for k = 1 .. K.
    mass : float
        ``theta(0)``.
    """

    fall: float
    weights: Floats
    mass: float

    @classmethod
    def of(cls, fall: float) -> "Step":
        """Return the step of some fall."""
        with flint.ctx.workprec(128):
            weights = [float((-flint.arb(fall) * k * k).exp().mid()) for k in range(1, reach_of(fall, _TAIL_BITS) + 1)]
            mass = float(mass_of(fall, 128).mid())
        return cls(fall, np.array(weights)[:, None, None], mass)

    @cached_property
    def halvings(self) -> int:
        """How often the exponent ``2 d f``, for an offset f of at most 1/2, is halved until it is at most 1/2."""
        return max(0, ceil(2 * self.fall - 1).bit_length())

    @property
    def error(self) -> float:
        """A bound of the relative error of a sum of weights: powers of a rounded ratio, products, additions."""
        n = len(self.weights)
        return UNIT * (((5 << self.halvings) + 6) * n + 16)

    @property
    def tolerance(self) -> float:
        """How near a boundary of the cdf a word is in doubt."""
        return 2 * self.error + 8 * UNIT + 2.0 ** (1 - _TAIL_BITS)

    def draw(self, offsets: Floats, uniforms: Floats) -> tuple[Ints, Floats, Flags]:
        """Return integers by their weight ``exp(-d k (k - 2 f))``, the sum of weights, and which are in doubt.

        All integers of the window are weighed, whichever is drawn.
        """
        ratio = exp_of(offsets * (2 * self.fall), self.halvings)
        n, pair = len(self.weights), np.stack([ratio, 1.0 / ratio])
        sums = np.empty((2 * n + 1, len(offsets)))
        sums[0] = 1.0
        terms = sums[1:].reshape(n, 2, -1)
        terms[0] = pair
        for k in range(1, n):
            np.multiply(terms[k - 1], pair, out=terms[k])
        terms *= self.weights
        for k in range(1, 2 * n + 1):
            sums[k] += sums[k - 1]
        total = sums[-1]
        aims, band = uniforms * total, self.tolerance * total
        proven = np.add.reduce((sums <= aims - band).view(np.int8), axis=0, dtype=np.int16)
        possible = np.add.reduce((sums <= aims + band).view(np.int8), axis=0, dtype=np.int16)
        return proven, total, (proven != possible) | (possible == 2 * n + 1)


@dataclass(frozen=True)
class Proposal:
    """How coefficients of a basis are drawn, with the proof that the form E' is nowhere above the energy.

    Attributes
    ----------
    basis : array (vector, coordinate)
        Integers, as doubles.
    shifts : array (vector, vector)
        Strictly upper triangular, multiples of ``2**-grid_bits``: the centre of coefficient i is ``shifts[i] @ k``.
    falls : array (vector,)
    most_energy : float
        A value that the energy of a proposal exceeds with probability below exp(-40).
    most_coefficients : array (vector,)
        What coefficients do not exceed as long as the energy does not exceed that.
    """

    basis: Floats
    shifts: Floats
    grid_bits: int
    falls: Floats
    most_energy: float
    most_coefficients: Floats

    @classmethod
    def of(cls, system: LatticeSystem, rows: Ints, unit: float, scales: Ints) -> "Proposal":
        """Return the proposal for the energy ``sum over measured rows r of unit * scales[r] * r(u)^2``."""
        start = lattice_basis(system)
        exact = (start @ rows.T).astype(np.float64)
        if ((exact * exact) @ scales).max(initial=0) >= MOST_EXACT:
            raise TooLargeError("exact numbers or measured sums have too large coefficients; use smaller ones")
        short = GramSchmidt.of(start, (exact * scales) @ exact.T)
        m, falls = len(start), short.norms * (1 - _SHRINK) * unit
        widest = reach_of(max(float(falls.min(initial=_MOST_FALL)), 1e-300), _TAIL_BITS)
        if widest > _MOST_REACH or falls.max(initial=0) > _MOST_FALL:
            raise TooLargeError(
                f"coefficients of this noise have weights exp(-d k^2) with d from {falls.min():.2g} to"
                f" {falls.max():.2g}, and {40 / _MOST_REACH**2:.1g} to {_MOST_FALL:g} is possible; change the precision"
            )
        grid_bits = 44 - (m * widest).bit_length()
        shifts = -np.rint(np.ldexp(np.tril(short.mu, -1), grid_bits)).T * 2.0**-grid_bits
        inverse = np.tril(np.linalg.inv(short.mu), -1) + np.eye(m)
        lower = np.eye(m) - shifts.T
        forms = (short.basis @ rows.T).astype(np.float64)
        if not _is_below(inverse, lower, short.norms * (1 - _SHRINK / 2), forms, scales):
            raise SamplingError(
                "the exact numbers are too nearly dependent for a proof in doubles that proposals fit; leave out some"
            )
        most_energy = 1.001 * 2 * (_NATS + sum(map(_log_moment, falls.tolist())))
        # k_j^2 <= (inverse Gram matrix)_jj E; computed to a few digits, with a reserve of a tenth.
        most = np.ceil(1.1 * np.sqrt(most_energy * ((inverse * inverse) / falls[:, None]).sum(axis=0))) + 1
        largest = max((np.abs(shifts) @ most).max(initial=0) * 2.0**grid_bits, (most @ np.abs(forms)).max(initial=0))
        if largest >= MOST_EXACT:
            raise TooLargeError("this noise is too large for exact centres in doubles; leave out some exact numbers")
        return cls(short.basis.astype(np.float64), shifts, grid_bits, falls, most_energy, most)


def _log_moment(fall: float) -> float:
    """Return a bound of ``log E exp(d x^2 / 2)`` for a coefficient's distance x from its centre, whatever that is."""
    k = np.arange(-3 * reach_of(fall, 10), 3 * reach_of(fall, 10) + 1)
    return log(float(np.exp(-fall / 2 * k * k).sum() / np.exp(-fall * (k - 0.5) ** 2).sum()))


def _is_below(inverse: Floats, lower: Floats, norms: Floats, forms: Floats, scales: Ints) -> bool:
    """Prove that ``lower diag(norms) lower'`` is nowhere above ``forms diag(scales) forms'``, as quadratic forms.

    The difference is multiplied by a unit triangular matrix from both sides, which makes it nearly diagonal, and is
    positive if each diagonal entry is more than the others of its row together (Gershgorin), errors included. Every sum
    of products is off by at most its number of terms times the sum of their sizes, in units of rounding.
    """
    error = 16 * (len(inverse) + forms.shape[1] + 8) * UNIT
    both = []
    size = np.zeros_like(inverse)
    for factor, weights in ((forms, scales), (lower, norms)):
        vectors = inverse @ factor
        both.append((vectors * weights) @ vectors.T)
        sizes = np.abs(inverse) @ np.abs(factor)
        size += (sizes * weights) @ sizes.T
    difference = both[0] - both[1]
    diagonal = np.diag(difference)
    beside = np.abs(difference).sum(axis=1) - np.abs(diagonal)
    return bool(np.all(0.999 * diagonal > 1.001 * beside + error * size.sum(axis=1)))


# The sampler.


@dataclass(frozen=True)
class KleinSampler:
    """Discrete Gaussian noise on the lattice of any equalities, with soft rows and any precisions.

    Parameters
    ----------
    system : LatticeSystem
        All its weights are those of discrete Gaussians.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DiscreteGaussian
    >>> from congenial.sampling.lattice_noise.rejection import public_words
    >>> system = LatticeSystem((DiscreteGaussian(1).weight,) * 3, (Row.of("total", [0, 1, 2]),))
    >>> system.holds(KleinSampler(system).draw(public_words(1000)))
    True
    """

    system: LatticeSystem

    name: ClassVar[str] = "klein"
    title: ClassVar[str] = "Klein's sampler with rejection"
    is_exact: ClassVar[bool] = True

    @classmethod
    def of(cls, system: LatticeSystem) -> Self | None:
        """Return the sampler, or None where some noise is not a discrete Gaussian."""
        weights = (*system.weights, *(soft.weight for soft in system.soft))
        is_gaussian = all(type(w) is NoiseWeight and w.linear == 1 and w.quadratic < 1 for w in weights)
        return cls(system) if is_gaussian and weights else None

    @cached_property
    def _rows(self) -> Ints:
        """The coordinates and the soft rows (measured row, coordinate)."""
        n = self.system.n_coordinates
        return np.vstack([np.eye(n, dtype=np.int64), dense([soft.row for soft in self.system.soft], n)])

    @cached_property
    def _bases(self) -> list[Fraction]:
        """The base of each measured row."""
        return [w.quadratic for w in (*self.system.weights, *(soft.weight for soft in self.system.soft))]

    @cached_property
    def proposal(self) -> Proposal:
        """How coefficients are proposed."""
        if self.system.rank > MOST_DIMENSIONS:
            raise TooLargeError(
                f"the noise has {self.system.rank:,} dimensions and this sampler is for at most {MOST_DIMENSIONS:,};"
                " release the table in parts, or measure fewer cells"
            )
        lows = {base: _double_below_fall(base) for base in set(self._bases)}
        # With several bases, whole multiples of a unit just below each.
        unit = max(lows.values()) * (1.0 if len(lows) == 1 else 2.0**-_SCALE_BITS)
        scales = np.array([int(Fraction(lows[base]) / Fraction(unit)) for base in self._bases])
        if len(lows) > 1 and scales.min() < _LEAST_SCALE:
            most = 2**_SCALE_BITS // _LEAST_SCALE
            raise TooLargeError(f"precisions differ by more than a factor of {most:,}; bring them closer together")
        return Proposal.of(self.system, self._rows, unit, scales)

    @cached_property
    def _steps(self) -> list[Step]:
        steps = {fall: Step.of(fall) for fall in set(self.proposal.falls.tolist())}
        return [steps[fall] for fall in self.proposal.falls.tolist()]

    @cached_property
    def n_words(self) -> int:
        """Words of an attempt: one for each coefficient, one to accept, and one more if that is odd."""
        return (self.system.rank + 2) // 2 * 2

    @cached_property
    def _tolerance(self) -> float:
        """How near its probability a word is in doubt about acceptance: all relative errors, and those of energies."""
        n_terms = 2 * len(self._bases) + 2 * self.system.rank + 64
        factors = sum(step.error + 2.0**-_TAIL_BITS + 8 * UNIT for step in self._steps)
        return 2 * factors + (n_terms * (self.proposal.most_energy + 1) + (5 << _ACCEPT_HALVINGS) + 64) * UNIT

    def _attempt(self, words: Words) -> Attempts:
        proposal, m = self.proposal, self.system.rank
        uniforms = words.T.astype(np.float64) * 2.0**-WORD
        coefficients = np.zeros((m, len(words)))
        proposed, probability, exponent = (np.full(len(words), value) for value in (0.0, 1.0, 0.0))
        is_doubtful = np.zeros(len(words), np.bool_)
        for stop in range(m, 0, -_PANEL):
            start = max(0, stop - _PANEL)
            # Sums of multiples of one power of two, below 2^52 of them: exact in any order.
            centres = matrix_product(proposal.shifts[start:stop, stop:], coefficients[stop:])
            for i in reversed(range(start, stop)):
                step = self._steps[i]
                later = slice(i + 1, stop)
                centre = centres[i - start] + np.einsum("j,ju->u", proposal.shifts[i, later], coefficients[later])
                nearest = np.rint(centre)
                offset = centre - nearest
                outcome, total, doubts = step.draw(offset, uniforms[i])
                value = _SIGNED.take(outcome)
                coefficients[i] = nearest + value
                proposed += step.fall * value * (value - 2 * offset)
                probability *= total * (1 / step.mass)
                is_doubtful |= doubts
            probability, powers = np.frexp(probability)
            exponent += powers
        vectors = matrix_product(
            coefficients.T, proposal.basis
        )  # exact, integers below 2^52 while coefficients are within limits
        sums = matrix_product(vectors, self._rows[self.system.n_coordinates :].T.astype(np.float64))
        squares = np.hstack([vectors, sums]) ** 2
        energy = np.einsum("ur,r->u", squares, np.array([-log_base(base) for base in self._bases]))
        size = 2.0 ** (_ACCEPT_HALVINGS - 1)
        probability *= exp_of(np.clip(proposed - energy + exponent * log_e(2.0), -size, size), _ACCEPT_HALVINGS)
        is_doubtful |= ~(np.abs(uniforms[m] - probability) > self._tolerance)
        is_doubtful |= ~(energy <= proposal.most_energy)
        is_doubtful |= (np.abs(coefficients) > proposal.most_coefficients[:, None]).any(axis=0)
        return Attempts(vectors.astype(np.int64), probability, uniforms[m] < probability, is_doubtful)

    def _refine(self, uniforms: list[Uniform]) -> list[int] | None:
        """Decide an attempt by enclosures: the vector, or None where it is not accepted."""
        return refine_until_proven(lambda bits: self._decide(uniforms, bits))

    def _decide(self, uniforms: list[Uniform], bits: int) -> list[int] | None:
        proposal, m = self.proposal, self.system.rank
        coefficients = [0] * m
        proposed, probability = Fraction(0), flint.arb(1)
        for i in reversed(range(m)):
            places = np.flatnonzero(proposal.shifts[i])
            multiple = sum(int(proposal.shifts[i, j] * 2.0**proposal.grid_bits) * coefficients[j] for j in places)
            centre = Fraction(multiple, 2**proposal.grid_bits)
            offset = centre - round(centre)
            fall = self._steps[i].fall
            weights = enclosures_around(fall, offset, bits)
            value = choose_weighted(uniforms[i], weights, Fraction(1, 2**bits))
            coefficients[i] = round(centre) + value
            proposed += Fraction(fall) * value * (value - 2 * offset)
            probability *= _with_rest(weights, bits) / mass_of(fall, bits)
        vector = [sum(k * int(b) for k, b in zip(coefficients, column, strict=True)) for column in proposal.basis.T]
        rows = [sum(int(row[c]) * vector[c] for c in np.flatnonzero(row)) for row in self._rows]
        squares: dict[Fraction, int] = {}
        for base, value in zip(self._bases, rows, strict=True):
            squares[base] = squares.get(base, 0) + value * value
        energy = sum((-ball(base).log() * square for base, square in squares.items()), flint.arb(0))
        low, high = ends((ball(proposed) - energy).exp() * probability)
        return vector if is_below(uniforms[m], low, high) else None

    def draw(self, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return noise (unit, coordinate), one vector for each unit of the words."""
        return draw_until_accepted(
            words, self.n_words, self.system.n_coordinates, self._attempt, self._refine, always_refined
        )

    @cached_property
    def acceptance(self) -> float:
        """About how often an attempt is accepted, from attempts with public words."""
        return mean_acceptance(self._attempt, self.n_words, 1024)

    @property
    def slow_rate(self) -> float:
        """A bound of the share of attempts that are decided again by enclosures."""
        steps = sum((4 * len(step.weights) + 4) * step.tolerance for step in self._steps)
        return steps + 2 * self._tolerance + exp(-_NATS)

    @property
    def seconds(self) -> float:
        """About how long the noise of a unit takes."""
        operations = sum(10 * len(step.weights) + 60 for step in self._steps) + self.system.rank**2 / 4
        return operations * 5e-10 / max(self.acceptance, LEAST_ACCEPTANCE / 100)

    def check(self) -> None:
        """Refuse a system for which this is too slow, or not proven, by public numbers."""
        if self.acceptance < LEAST_ACCEPTANCE:
            raise SamplingError(
                f"Klein's sampler would accept fewer than one attempt in {1 / LEAST_ACCEPTANCE:,.0f}; lower the"
                " precision, or leave out some of the exact numbers"
            )

    def describe(self) -> str:
        """Return in words how noise is drawn."""
        return (
            f"{self.system.rank} coefficients of a lattice basis drawn one after another; about"
            f" {self.acceptance:.3g} of all attempts are accepted"
        )


def _double_below_fall(base: Fraction) -> float:
    """Return a double at or below ``-log(base)``, next to it."""
    with flint.ctx.workprec(128):
        low = ends(-ball(base).log())[0]
    nearest = float(low)
    return nearest if Fraction(nearest) <= low else nextafter(nearest, -inf)
