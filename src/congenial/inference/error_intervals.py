"""Intervals by the law of the release's error: the released number, less what releases of tables like this one are off.

Tables are taken from the posterior, and every one is released again several times by the exact sampler; the quantiles
of ``q(release) - q(table)`` are put around the released number. The prior enters through the bias and the spread of the
noise alone, so that hardly anything depends on it. The interval is approximate: nothing is proven of it, and it covered
between 85 and 98 % at a nominal 90 % where it was tried (docs/inference.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row
from congenial.inference.estimates_and_draw_quality import (
    check_level,
    ends_of_draws,
    exact_value,
    known_count,
    number_text,
)
from congenial.inference.pattern_moves_and_normalisers import PatternSteps
from congenial.inference.statistics_registry import COUNT, Statistic
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.sampler_and_registry import sampler_of

if TYPE_CHECKING:
    from congenial.inference.posterior import Posterior

_TABLES, _RELEASES = 40, 25


@dataclass(frozen=True)
class ErrorInterval:
    """An interval by the law of the release's error. Approximate.

    Attributes
    ----------
    estimate : float
        The released number less the mean error.
    why : str
        Why there is none, or nothing.
    is_exact : bool
        Whether the published numbers determine it. Errors that are all alike do not.
    """

    query: str
    released: float
    estimate: float
    low: float
    high: float
    level: float
    why: str = ""
    is_exact: bool = False

    @property
    def is_available(self) -> bool:
        """Whether there is an interval."""
        return not self.why

    def __repr__(self) -> str:
        if self.why:
            return f"{self.query}: no interval by the error's law: {self.why}"
        if self.is_exact:
            return f"{self.query}: exactly {number_text(self.estimate)}"
        ends = f"{number_text(self.low)} to {number_text(self.high)}"
        return f"{self.query}: {number_text(self.estimate)}, approximate {self.level:.0%} interval {ends}"


def scale_of(statistic: Statistic, below: Fraction | None) -> float | str:
    """Return what a statistic's count is divided by, given `below` if that is known; or why it is not linear."""
    if not statistic.definition.is_scaled_count:
        return "it is not linear"
    if statistic.below is None:
        return 1.0
    if below is None:
        return "what it is divided by is not published exactly"
    return float(below) or "what it is divided by is zero"


def error_intervals(
    posterior: "Posterior", statistics: Sequence[Statistic], level: float, rng: RandomStream
) -> list[ErrorInterval]:
    """Return the interval of each statistic; one that is not linear has none."""
    check_level(level)
    tables = posterior.sample(_TABLES, rng)
    sampler = sampler_of(posterior.law.target(posterior.area, posterior.released))
    releases = np.stack([sampler.at(table).sample(_RELEASES, rng) for table in tables])
    errors = (releases - tables[:, None, :]).reshape(-1, tables.shape[1])
    counts = [replace(statistic, kind=COUNT, below=None, more=()) for statistic in statistics]
    return [
        interval_of(posterior.constraints, statistic, posterior.released, count.values(errors), level)
        for statistic, count in zip(statistics, counts, strict=True)
    ]


def interval_of(
    constraints: Constraints, statistic: Statistic, released: Ints, errors: Floats, level: float
) -> ErrorInterval:
    """Return the interval of a statistic of one table, given errors of its count (draw,)."""
    value, known = float(statistic.values(released[None, :])[0]), exact_value(constraints, statistic)
    below = None if statistic.below is None else known_count(constraints, statistic.below)
    ends = possible_ends(constraints, statistic.above)
    return interval_by_errors(statistic.text, value, known, scale_of(statistic, below), errors, ends, level)


def interval_by_errors(
    text: str,
    released: float,
    known: float | None,
    scale: float | str,
    errors: Floats,
    ends: tuple[float, float],
    level: float,
) -> ErrorInterval:
    """Return the interval of a number from errors of its count.

    Parameters
    ----------
    known : float or None
        The number, if the invariants determine it.
    scale : float or str
        What the count is divided by, or why there is no interval.
    ends : pair of float
        Between which values the count lies.
    """
    if known is not None:
        return ErrorInterval(text, released, known, known, known, level, is_exact=True)
    if isinstance(scale, str):
        nothing = float("nan")
        return ErrorInterval(text, released, nothing, nothing, nothing, level, scale)
    low, high = ends_of_draws(errors, None, level)
    count, (least, most) = released * scale, ends
    estimate, start, stop = (
        min(max(end, least), most) / scale for end in (count - float(errors.mean()), count - high, count - low)
    )
    return ErrorInterval(text, released, estimate, start, stop, level)


def possible_ends(constraints: Constraints, row: Row) -> tuple[float, float]:
    """Return between which values a count lies, as far as the limits of its cells say."""
    least = most = 0.0
    for cell, weight in zip(row.cells, row.coefficients, strict=True):
        limits = constraints.quick_bounds.limits[cell]
        low = -np.inf if limits.low is None else limits.low
        high = np.inf if limits.high is None else limits.high
        least += weight * (low if weight > 0 else high)
        most += weight * (high if weight > 0 else low)
    return least, most


# Errors of a count in each of many areas: some tables of the posterior are released several times.

_AREA_TABLES, _AREA_RELEASES = 12, 30


def areas_errors(law: PublicLaw, chains: NDArray[np.int32], weights: Ints, rng: RandomStream) -> Floats:
    """Return errors (area, error), independent from area to area.

    Parameters
    ----------
    chains : array (chain, draw, area, cell)
    weights : array (area, cell)
        Of the count; areas without any have no error.
    """
    flat = chains.reshape(-1, *chains.shape[2:])
    picked = flat[np.linspace(0, len(flat) - 1, min(_AREA_TABLES, len(flat))).astype(int)]
    n_tables, n_areas, n_cells = picked.shape
    n_releases = -(-_AREA_TABLES * _AREA_RELEASES // n_tables)  # of each table: as many errors of few tables as of many
    out = np.zeros((n_areas, n_tables * n_releases))
    for group in law.areas.groups:
        places_with_weights = group.places[weights[group.places].any(axis=1)]
        if not places_with_weights.size:
            continue
        lines = np.repeat(places_with_weights, n_tables)
        errors = np.empty((len(lines), n_releases))
        tables = picked[:, places_with_weights].swapaxes(0, 1).reshape(-1, n_cells).astype(np.int64)
        for places, drawn in PatternSteps.of(group.pattern, law.measured).errors(tables, n_releases, rng):
            errors[places] = np.einsum("ijk,ik->ij", drawn, weights[lines[places]])
        out[places_with_weights] = errors.reshape(len(places_with_weights), -1)
    # Tables come draw after draw, so the places of errors mean nothing: mix them before areas are added up.
    order = np.argsort(rng.uniforms(out.size).reshape(out.shape), axis=1)
    return np.asarray(np.take_along_axis(out, order, axis=1))
