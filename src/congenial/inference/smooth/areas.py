"""Log rates of many areas: a profile that all share, and deviations of each, wider in some areas than in others.

The effects of `effects` enter by their covariance alone, so that what one effect takes from another need not be
sampled. Given all log rates, the scales of effects are decided by one matrix of sums of products, whatever the number
of areas; and the profile is normal. It goes with an area's size, along a line and a parabola: small counties are older
than large ones, and what the prior gets wrong a little in each adds up over thousands. Areas of few people also deviate
more (a prison, a college): the width of an area's deviations goes with its size and has a part of its own, both
estimated.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import RandomBuffer
from congenial.inference.models.design_and_parameter_steps import normals
from congenial.inference.smooth.effects import DEVIATIONS, PROFILE, Scales, Widths, effects, log_widths
from congenial.schema import Schema

_START = 0.7  # of the normals behind scales
_LEAST = 1e-6  # added to the variance of each cell's own effect: covariances have factors
_LEVEL_DEVIATION = 10.0  # of an area's mean log rate: next to nothing is known of it
_BY_SIZE = 0.3  # deviation of the slope of log widths along log sizes
N_POWERS = 3
_OWN_WIDTH = 0.3  # of the deviation of log widths, half-normal
_FEW_WORDS = 80  # for one slice


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of smooth effects as their scales have it. Public: from the schema alone.

    Attributes
    ----------
    products : array (effect, cell, cell)
        Of each effect at scale 1.
    unit : array (effect)
        The units of the scales, all of which are estimated; the last is that of single cells.
    tail : float
        Of the scales.
    """

    products: Floats
    unit: Floats
    tail: float

    @classmethod
    def of(cls, schema: Schema, ordered: Widths, scales: Scales) -> "Covariance":
        """Return the covariance of the effects of a schema."""
        known = effects(schema, ordered, scales)
        levels = np.unravel_index(np.arange(schema.n_cells), schema.shape)
        products = []
        for term in known:
            product = np.ones((schema.n_cells, schema.n_cells))
            for axis, operator in term.along:
                product *= (operator @ operator.T)[np.ix_(levels[axis], levels[axis])]
            products.append(product)
        unit = np.array([*(term.scale for term in known), scales.cell])
        return cls(np.array([*products, np.eye(schema.n_cells)]), unit, scales.tail)

    def scales(self, hyper: Floats) -> Floats:
        """Return the scales that standard normals stand for: half-normal near 0, with a heavy tail."""
        return np.asarray(self.unit * np.abs(hyper) * np.exp(np.minimum(hyper**2, 40.0) * self.tail))

    def at(self, scales: Floats) -> Floats:
        """Return the covariance (cell, cell)."""
        summed = np.tensordot(scales**2, self.products, axes=1)
        return np.asarray(summed + _LEAST * self.products[-1])


@dataclass(frozen=True, eq=False)
class Deviations:
    """A normal law of deviations whatever their mean: density on differences of cells alone."""

    covariance: Floats

    @cached_property
    def root(self) -> Floats:
        """The lower factor of the covariance."""
        return np.asarray(np.linalg.cholesky(self.covariance))

    @cached_property
    def precision(self) -> Floats:
        """The precision matrix, 0 along equal changes of all cells."""
        half = np.linalg.inv(self.root)
        inverse = half.T @ half
        along = inverse.sum(axis=1)
        return np.asarray(inverse - np.outer(along, along) / along.sum())


@dataclass(eq=False)
class AreasField:
    """Log rates of areas and all that they share, of one chain. It moves, so it is not frozen.

    Attributes
    ----------
    eta : array (area, cell)
        The log rates.
    scales : array (effect)
        Of the areas' deviations.
    log_width : array (area)
        By how much an area's deviations are wider than the scales say.
    """

    deviations: Covariance
    profile_effects: Covariance
    offset: Floats
    is_open: NDArray[np.bool_]
    log_size: Floats
    mean_level: float
    buffer: RandomBuffer
    hyper: Floats
    shared_hyper: Floats  # (power, effect)
    profiles: Floats  # (power, cell) by which log rates go with the powers of an area's size
    eta: Floats
    log_width: Floats
    slope: float = 0.0
    spread: float = _OWN_WIDTH

    @classmethod
    def start(
        cls,
        schema: Schema,
        ordered: Widths,
        counts: Ints,
        released: Ints,
        is_open: NDArray[np.bool_],
        buffer: RandomBuffer,
    ) -> "AreasField":
        """Return log rates near those of some tables (area, cell).

        Parameters
        ----------
        released : array (area, cell)
            The sizes that profiles go with and the level of all are taken from these, so that chains have one law.
        """
        deviations = Covariance.of(schema, ordered, DEVIATIONS)
        n_effects = len(deviations.unit)
        sizes = np.log(released.sum(axis=1) + 1.0)
        return cls(
            deviations,
            Covariance.of(schema, ordered, PROFILE),
            log_widths(schema, ordered),
            is_open,
            sizes - sizes.mean(),
            float(np.log(released.mean() + 0.5)),
            buffer,
            np.full(n_effects, _START),
            np.full((N_POWERS, n_effects), _START),
            np.zeros((N_POWERS, schema.n_cells)),
            np.log(counts + 0.5),
            np.zeros(len(counts)),
        )

    @cached_property
    def powers(self) -> Floats:
        """The powers of an area's size that profiles go with (area, power): 1, size, and its square less its mean."""
        scaled_size = self.log_size / max(1.0, float(self.log_size.std()))
        return np.stack([np.ones(len(scaled_size)), scaled_size, scaled_size**2 - (scaled_size**2).mean()], axis=1)

    @property
    def scales(self) -> Floats:
        """The scales of the areas' deviations."""
        return self.deviations.scales(self.hyper)

    @property
    def _most_words(self) -> int:
        n_cells = int(self.eta.shape[1])
        return 6 * n_cells + 4 * _FEW_WORDS

    def sweep(self, counts: Ints) -> None:
        """Move everything once, given tables (area, cell)."""
        from congenial.inference.smooth.kernels_areas import move_log_rates

        law, centre = Deviations(self.deviations.at(self.scales)), self.offset + self.powers @ self.profiles
        done, most = 0, self._most_words
        while done < len(counts):
            done = move_log_rates(
                law.precision,
                law.root,
                centre,
                self.mean_level,
                _LEVEL_DEVIATION**-2,
                counts,
                self.is_open,
                self.slope * self.log_size,
                self.spread,
                self.log_width,
                self.eta,
                most,
                done,
                self.buffer.at_least(most),
            )
        self._move_widths()
        self._move_profiles(law)
        self._move_scales()

    def _move_widths(self) -> None:
        """Draw the slope of log widths along log sizes, then their deviation given that."""
        precision = float((self.log_size**2).sum()) / self.spread**2 + _BY_SIZE**-2
        mean = float((self.log_size * self.log_width).sum()) / self.spread**2 / precision
        self.slope = mean + float(normals((1,), self.buffer.rng)[0]) / precision**0.5
        from congenial.inference.smooth.kernels_areas import move_spread

        squares = float(((self.log_width - self.slope * self.log_size) ** 2).sum())
        self.spread = move_spread(
            self.spread, _OWN_WIDTH, len(self.log_width), squares, self.buffer.at_least(_FEW_WORDS)
        )

    def _move_profiles(self, law: Deviations) -> None:
        """Draw one profile after the other given the log rates; their means mean nothing."""
        weights, n_cells = np.exp(-2 * self.log_width), self.profiles.shape[1]
        for power, along in enumerate(self.powers.T):
            prior = Deviations(self.profile_effects.at(self.profile_effects.scales(self.shared_hyper[power]))).precision
            precision = float(weights @ along**2) * law.precision + prior + n_cells**-2
            rest = self.eta - self.offset - np.delete(self.powers, power, 1) @ np.delete(self.profiles, power, 0)
            root = np.linalg.cholesky(precision)
            half = np.linalg.solve(root, law.precision @ ((weights * along) @ rest))
            self.profiles[power] = np.linalg.solve(root.T, half + normals((n_cells,), self.buffer.rng))

    def _move_scales(self) -> None:
        """Move the scales of deviations, and of the profiles."""
        off = (self.eta - self.offset - self.powers @ self.profiles) * np.exp(-self.log_width)[:, None]
        _move_hyper(self.deviations, self.hyper, off, self.buffer)
        for hyper, profile in zip(self.shared_hyper, self.profiles, strict=True):
            _move_hyper(self.profile_effects, hyper, profile[None, :], self.buffer)


def _move_hyper(covariance: Covariance, hyper: Floats, off: Floats, buffer: RandomBuffer) -> None:
    """Move the normals behind the scales one after the other, given deviations (area, cell)."""
    from congenial.inference.smooth.kernels_areas import move_hyper

    lines = off
    if len(off) > off.shape[1]:  # as many lines as cells have the same sums of products
        values, vectors = np.linalg.eigh(off.T @ off)
        lines = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    chance = buffer.at_least(_FEW_WORDS * len(hyper))
    move_hyper(
        covariance.products,
        covariance.unit,
        covariance.tail,
        _LEAST,
        len(off),
        np.ascontiguousarray(lines),
        hyper,
        chance,
    )
