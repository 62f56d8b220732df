"""Estimates and intervals of statistics from a posterior: one by one, or all at once."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isfinite, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import InferenceError, import_extra
from congenial.inference.statistics_registry import COUNT, STATISTICS, Statistic
from congenial.law import PublicLaw

if TYPE_CHECKING:
    from congenial.inference.posterior import Posterior

# How good the draws of Markov chains are, quantity by quantity.

_FEW_DRAWS = 100
_LARGE_RHAT = 1.05


@dataclass(frozen=True)
class Quality:
    """How good the draws of one number are.

    Attributes
    ----------
    effective_draws : float
        How many independent draws they are worth; infinite where nothing was drawn, NaN where the chains never moved.
    split_rhat : float
        Near 1 where the chains agree.
    monte_carlo_error : float
        One standard deviation of the mean's own error; NaN where draws that are all alike do not tell it.
    note : str
        In place of figures: what was not drawn, or draws that are all alike.
    """

    effective_draws: float
    split_rhat: float
    monte_carlo_error: float
    note: str = ""

    @property
    def is_poor(self) -> bool:
        """Whether the interval should not be relied on."""
        return bool(are_poor(self.effective_draws, self.split_rhat))

    @property
    def text(self) -> str:
        """It in words."""
        if self.note or not isfinite(self.effective_draws):
            return self.note or "the chains never moved"
        return f"{self.effective_draws:,.0f} effective draws, R-hat {self.split_rhat:.3f}"


ALIKE = "draws alike"
EXACTLY = Quality(inf, 1.0, 0.0, "exact")
"""Of a number that the published ones determine."""

ENUMERATED = Quality(inf, 1.0, 0.0, "all tables gone through")
"""Of a number whose posterior probabilities are exact, while the number itself is not known."""

NOT_DRAWN = Quality(inf, 1.0, nan, "no posterior was asked for")
"""Of a number that measurements answer without a prior."""


def are_poor(effective: float | Floats, rhat: float | Floats) -> np.bool_ | NDArray[np.bool_]:
    """Whether draws are too few in effect, or chains disagree: the one rule for tables, areas, trees and models.

    Examples
    --------
    >>> are_poor(np.array([99.0, 400.0, 400.0, np.nan]), np.array([1.0, 1.06, 1.05, 1.0])).tolist()
    [True, True, False, True]
    """
    return ~((np.asarray(effective) >= _FEW_DRAWS) & (np.asarray(rhat) <= _LARGE_RHAT))


def quality_of(values: Floats, n_moves: int = 0) -> Quality:
    """Return how good the draws (chain, draw) of one number are; where it does not exist, its median counts.

    Parameters
    ----------
    n_moves : int
        How often the tables changed from draw to draw. A number that stayed the same all the while, such as a median,
        is taken to be worth about as many draws. That does not make it exact: other values are rare, not excluded.
    """
    there = np.isfinite(values)
    if not there.any():
        return Quality(float("nan"), float("nan"), float("nan"))
    if there.all() and not np.ptp(values) and n_moves >= _FEW_DRAWS:
        return Quality(float(n_moves), 1.0, nan, ALIKE)
    known = np.where(there, values, np.median(values[there]))[:, :, None]
    draws, rhat = float(effective_draws(known)[0]), float(split_rhat(known)[0])
    return Quality(draws, rhat, float(known.std()) / sqrt(draws) if draws > 0 else float("nan"))


def effective_draws(chains: Floats) -> Floats:
    """Return the effective number of independent draws of each quantity of chains (chain, draw, quantity).

    NaN where the chains never moved: nothing is known of such a quantity.
    """
    array_stats = import_extra("arviz_stats.base", "analysis").array_stats  # half a second to import

    return _of_each(array_stats.ess, chains)


def split_rhat(chains: Floats) -> Floats:
    """Return split R-hat of each quantity of chains (chain, draw, quantity): near 1 when they agree, NaN if stuck."""
    array_stats = import_extra("arviz_stats.base", "analysis").array_stats

    return _of_each(array_stats.rhat, chains)


def _of_each(measure: Callable[[Floats], float], chains: Floats) -> Floats:
    n_chains, n_draws, n_quantities = chains.shape
    if n_chains == 1:  # its two halves
        chains = chains[:, : n_draws - n_draws % 2].reshape(2, -1, n_quantities)
    out = np.full(n_quantities, np.nan)
    for quantity in range(n_quantities):
        values = chains[:, :, quantity]
        if np.ptp(values):
            out[quantity] = float(measure(values))
    return out


class PoorDrawsWarning(UserWarning):
    """The draws of chains are too few in effect, or disagree, for a number that was asked for."""


@dataclass(frozen=True)
class Estimate:
    """A statistic of the confidential table, as far as the release tells.

    Attributes
    ----------
    released : float
        The statistic of the released table.
    mean, median, low, high : float
        Posterior mean (infinite for a ratio over what may be nobody) and median, and the ends of a credible interval of
        at least this level; infinite where there are too few draws for the level.
    is_exact : bool
        Whether the published numbers and limits determine it: then all of them are its value. Draws never do.
    quality : Quality
        How good the draws behind it are, for this very number.
    labels : tuple of str
        Of a median, what the values 0, 1, ... stand for.
    kind : str
        Of the statistic: ``"count"``, ``"share"``, ...
    """

    query: str
    released: float
    mean: float
    median: float
    low: float
    high: float
    level: float
    is_exact: bool
    quality: Quality
    is_simultaneous: bool = False
    labels: tuple[str, ...] = ()
    kind: str = COUNT

    @property
    def centre(self) -> float:
        """The mean, or the median where that is the better estimate; `is_median` says which."""
        return self.median if self.is_median else self.mean

    @property
    def is_median(self) -> bool:
        """Whether the estimate is the median: of ratios, of places among labels, and where there is no mean."""
        return STATISTICS[self.kind].is_estimated_by_median or not isfinite(self.mean)

    def text(self, value: float) -> str:
        """Return a value as people read it: a number, or the label that it stands for."""
        return self.labels[int(value)] if self.labels and isfinite(value) else number_text(value)

    def __repr__(self) -> str:
        if self.is_exact:
            return f"{self.query}: exactly {self.text(self.mean)}"
        joint = " (all together)" if self.is_simultaneous else ""
        ends = f"{self.text(self.low)} to {self.text(self.high)}"
        return f"{self.query}: {self.text(self.centre)}, {self.level:.0%} interval {ends}{joint}"


def number_text(value: float) -> str:
    """Return a number as people read it: whole ones in full, others to four figures.

    Examples
    --------
    >>> number_text(1234.0), number_text(2 / 3), number_text(float("inf"))
    ('1,234', '0.6667', 'inf')
    """
    return f"{value:,.0f}" if isfinite(value) and value == round(value) else f"{value:,.4g}"


def exact_value(constraints: Constraints, statistic: Statistic) -> float | None:
    """Return the value of a statistic that the invariants determine; None where they leave it open."""
    return statistic.of_known([known_count(constraints, row) for row in statistic.rows])


def known_count(constraints: Constraints, row: Row) -> Fraction | None:
    """Return the value of a row that the invariants and limits determine; None where they leave it open."""
    value = constraints.known.implied(row) if row.cells else Fraction(0)
    if value is not None:
        return value
    pairs, limits = list(zip(row.cells, row.coefficients, strict=True)), constraints.quick_bounds.limits
    rest = [(cell, times) for cell, times in pairs if not limits[cell].is_point]
    if len(rest) == len(pairs):
        return None
    pinned = sum(times * (limits[cell].low or 0) for cell, times in pairs if limits[cell].is_point)
    other = constraints.known.implied(Row(row.name, *zip(*rest, strict=True))) if rest else Fraction(0)
    return None if other is None else other + pinned


def known_sum(law: PublicLaw, rows: Mapping[Area, Row]) -> Fraction | None:
    """Return the sum of rows, one of each area's table, if invariants and limits determine it; else None."""
    total = Fraction(0)
    for area, row in rows.items():
        count = known_count(law.areas[area], row)
        if count is None:  # one is enough, and areas may be many
            return None
        total += count
    return total


def check_level(level: object) -> float:
    """Return a level strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InferenceError(f"the level lies strictly between 0 and 1, such as 0.9, and it is {level!r}")
    return float(level)


def estimates(
    posterior: "Posterior",
    statistics: Sequence[Statistic],
    released: NDArray[np.int64],
    *,
    level: float = 0.9,
    is_simultaneous: bool = False,
) -> list[Estimate]:
    """Return the estimate of each statistic.

    Parameters
    ----------
    is_simultaneous : bool
        Whether the intervals hold for all statistics together with this probability, not one by one.
    """
    values = [statistic.values(posterior.tables).reshape(posterior.chains.shape[:2]) for statistic in statistics]
    return estimates_of_draws(
        statistics,
        values,
        [float(statistic.values(released[None, :])[0]) for statistic in statistics],
        [exact_value(posterior.constraints, statistic) for statistic in statistics],
        weights=posterior.weights,
        n_moves=int((posterior.chains[:, 1:] != posterior.chains[:, :-1]).any(axis=2).sum()),
        level=level,
        is_simultaneous=is_simultaneous,
    )


def estimates_of_draws(
    statistics: Sequence[Statistic],
    values: Sequence[Floats],
    released: Sequence[float],
    known: Sequence[float | None],
    *,
    weights: Floats | None = None,
    n_moves: int = 0,
    level: float = 0.9,
    is_simultaneous: bool = False,
) -> list[Estimate]:
    """Return the estimate of each statistic from its draws (chain, draw), its released value, and its exact one if any.

    Parameters
    ----------
    weights : array (draw,), optional
        Exact probabilities of draws that are all there are.
    n_moves : int
        How often tables changed from draw to draw.
    """
    check_level(level)
    flat = [draws.reshape(-1) for draws in values]
    undetermined = [place for place, value in enumerate(known) if value is None]
    ends = dict.fromkeys(range(len(statistics)), (float("nan"), float("nan")))
    if is_simultaneous and len(undetermined) > 1:
        joint = _simultaneous(np.stack([flat[place] for place in undetermined]), weights, level)
        ends |= dict(zip(undetermined, joint, strict=True))
    else:
        ends |= {place: ends_of_draws(flat[place], weights, level) for place in undetermined}
    out = []
    for place, statistic in enumerate(statistics):
        asked = (statistic.text, released[place])
        if (value := known[place]) is not None:
            summary, quality = (value, value, value, value), EXACTLY
        else:
            summary = (mean_of_draws(flat[place], weights), median_of_draws(flat[place], weights), *ends[place])
            quality = quality_of(values[place], n_moves) if weights is None else ENUMERATED
        is_exact, labels, kind = value is not None, statistic.labels, statistic.kind
        out.append(Estimate(*asked, *summary, level, is_exact, quality, is_simultaneous, labels, kind))
    warn_of_poor(out)
    return out


def estimates_without_draws(
    statistics: Sequence[Statistic], released: Sequence[float], known: Sequence[float | None], *, level: float
) -> list[Estimate]:
    """Return what stands for the posterior of each statistic where none was asked for: its exact value, or nothing."""
    return [
        Estimate(
            statistic.text,
            value,
            *((nan if exact is None else exact,) * 4),
            level=level,
            is_exact=exact is not None,
            quality=NOT_DRAWN if exact is None else EXACTLY,
            labels=statistic.labels,
            kind=statistic.kind,
        )
        for statistic, value, exact in zip(statistics, released, known, strict=True)
    ]


def warn_of_poor(estimates: Sequence[Estimate]) -> None:
    """Say aloud of which numbers the draws say too little."""
    poor = [estimate for estimate in estimates if estimate.quality.is_poor]
    if poor:
        worst = min(poor, key=lambda estimate: estimate.quality.effective_draws)
        more = f", and {len(poor) - 1} more like it" if len(poor) > 1 else ""
        warnings.warn(
            f"{worst.query}: {worst.quality.text}{more}: too little for its interval. Raise n_draws (--draws)",
            PoorDrawsWarning,
            stacklevel=5,
        )


def mean_of_draws(values: Floats, weights: Floats | None) -> float:
    """Average over the draws in which the statistic exists (a share of nobody does not)."""
    there = ~np.isnan(values)
    if not there.any() or (weights is not None and not weights[there].sum()):
        return float("nan")
    return float(np.average(values[there], weights=None if weights is None else weights[there]))


def end_rank(n_draws: int, level: float) -> int:
    """Return which of the ranked draws, counted from 1, is the low end of an interval; the high end is its mirror.

    A further draw, exchangeable with n others, lies outside ranks k to n + 1 - k with probability at most 2k / (n + 1),
    so k is the largest with that below 1 - level. 0 where the draws are too few for the level.

    Examples
    --------
    >>> end_rank(100, 0.9), end_rank(19, 0.9), end_rank(18, 0.9)
    (5, 1, 0)
    """
    return int((n_draws + 1) * (1 - level) / 2 + 1e-9)


def fewest_draws(level: float) -> int:
    """Return how many draws an interval of a level takes at least.

    Examples
    --------
    >>> fewest_draws(0.9), fewest_draws(0.99)
    (19, 199)
    """
    return ceil(2 / (1 - level) - 1e-6) - 1


def ends_of_draws(values: Floats, weights: Floats | None, level: float) -> tuple[float, float]:
    """Return the ends of the equal-tailed interval: by `end_rank`, or by probabilities where draws have exact ones.

    Draws without a value (NaN) are left out. Infinite ends say that the draws are too few for the level.
    """
    known, total = _ranked(values, weights)
    if not known.size:
        return float("nan"), float("nan")
    if weights is None:
        rank = end_rank(known.size, level)
        return (float(known[rank - 1]), float(known[-rank])) if rank else (-inf, inf)
    tail = (1 - level) / 2
    low = known[int(np.searchsorted(total, tail, side="right"))]
    high = known[min(int(np.searchsorted(total, 1 - tail, side="left")), len(known) - 1)]
    return float(low), float(high)


def median_of_draws(values: Floats, weights: Floats | None) -> float:
    """Return the smallest value with more than half of the draws, or of the probability, at or below it."""
    known, total = _ranked(values, weights)
    if not known.size:
        return float("nan")
    return float(known[min(int(np.searchsorted(total, 0.5, side="right")), known.size - 1)])


def _ranked(values: Floats, weights: Floats | None) -> tuple[Floats, Floats]:
    """Return the values that exist in ascending order, and the probability up to each; nothing where that is 0."""
    there = ~np.isnan(values)
    known, mass = values[there], (np.ones(len(values)) if weights is None else weights)[there]
    if not mass.sum():
        return np.empty(0), np.empty(0)
    order = np.argsort(known, kind="stable")
    return known[order], np.cumsum(mass[order]) / mass.sum()


def _simultaneous(values: Floats, weights: Floats | None, level: float) -> list[tuple[float, float]]:
    """Return one band for all statistics: narrow tails alike until the wanted share of draws lies inside all intervals.

    The tail of each interval is found by bisection; a smaller tail gives wider intervals, so the share grows.
    """
    mass = np.full(values.shape[1], 1 / values.shape[1]) if weights is None else weights

    def inside(tail: float) -> tuple[float, list[tuple[float, float]]]:
        ends = [ends_of_draws(line, weights, 1 - 2 * tail) for line in values]
        holds = np.ones(values.shape[1], bool)
        for line, (low, high) in zip(values, ends, strict=True):
            holds &= np.isnan(line) | ((line >= low) & (line <= high))
        return float(mass[holds].sum()), ends

    low, high = 0.0, (1 - level) / 2
    best = [(-inf, inf)] * len(values)
    for _ in range(30):
        middle = (low + high) / 2
        share, ends = inside(middle)
        if share >= level:
            low, best = middle, ends
        else:
            high = middle
    return best
