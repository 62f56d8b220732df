"""Numbers that span areas: sums over them, differences and shares of some, by all three kinds of intervals."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.areas import Area
from congenial.conditions.rows import Row
from congenial.inference.areas_errors import areas_errors
from congenial.inference.areas_posterior import AreasPosterior
from congenial.inference.error_law import ErrorInterval, interval_by_errors, possible_ends, scale_given
from congenial.inference.intervals import Estimate, check_level, estimates_of_draws, known_count
from congenial.inference.statistic import Statistic
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream

_AT_ONCE = 4_000_000  # cells of draws


def estimates_across(
    posterior: AreasPosterior, statistics: Sequence[Statistic], level: float, *, is_simultaneous: bool = False
) -> list[Estimate]:
    """Return the estimate of each statistic that spans areas."""
    n_chains, n_draws = posterior.chains.shape[:2]
    flat = posterior.chains.reshape(n_chains * n_draws, -1)
    parts = np.array_split(flat, max(1, flat.size // _AT_ONCE))

    def values(statistic: Statistic) -> Floats:
        found = [statistic.values(part.astype(np.int64)) for part in parts]
        return np.concatenate(found).reshape(n_chains, n_draws)

    return estimates_of_draws(
        statistics,
        [values(statistic) for statistic in statistics],
        [_released(posterior, statistic) for statistic in statistics],
        [known_across(posterior.law, statistic) for statistic in statistics],
        n_moves=posterior.n_moves,
        level=level,
        is_simultaneous=is_simultaneous,
    )


def error_intervals_across(
    posterior: AreasPosterior, statistics: Sequence[Statistic], level: float, rng: RandomStream
) -> list[ErrorInterval]:
    """Return the interval of each statistic by the law of the releases' errors, which are independent; approximate."""
    check_level(level)
    return [_by_error(posterior, statistic, level, rng) for statistic in statistics]


def _by_error(posterior: AreasPosterior, statistic: Statistic, level: float, rng: RandomStream) -> ErrorInterval:
    law, n_cells = posterior.law, posterior.law.schema.n_cells
    known = known_across(law, statistic)
    below = None if statistic.below is None else _known_count(law, statistic.by_area(n_cells, statistic.below))
    scale = scale_given(statistic, None if below is None else float(below))
    parts = statistic.by_area(n_cells)
    is_asked = known is None and not isinstance(scale, str)
    errors = _errors(posterior, parts, rng) if is_asked else np.zeros(1)
    least, most = np.sum([possible_ends(law.areas[area], row) for area, row in parts.items()], axis=0)
    ends = float(least), float(most)
    return interval_by_errors(statistic.text, _released(posterior, statistic), known, scale, errors, ends, level)


def _errors(posterior: AreasPosterior, parts: dict[Area, Row], rng: RandomStream) -> Floats:
    """Return errors of a sum of areas' counts."""
    weights = np.zeros(posterior.released.shape, np.int64)
    for place, area in enumerate(posterior.areas):
        if area in parts:
            weights[place, list(parts[area].cells)] = parts[area].coefficients
    return np.asarray(areas_errors(posterior.law, posterior.chains, weights, rng).sum(axis=0))


def _released(posterior: AreasPosterior, statistic: Statistic) -> float:
    return float(statistic.values(posterior.released.reshape(1, -1))[0])


def known_across(law: PublicLaw, statistic: Statistic) -> float | None:
    """Return the value of a statistic that the invariants of all areas determine; None where they leave it open."""
    counts = [_known_count(law, statistic.by_area(law.schema.n_cells, row)) for row in statistic.rows]
    if None in counts:
        return None
    value = float(statistic.of_counts(np.array([counts], np.float64))[0])
    return value if np.isfinite(value) else None


def _known_count(law: PublicLaw, parts: dict[Area, Row]) -> Fraction | None:
    total = Fraction(0)
    for area, row in parts.items():
        own = known_count(law.areas[area], row)
        if own is None:
            return None
        total += own
    return total
