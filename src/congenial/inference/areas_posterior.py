"""What the releases of many areas say of their confidential tables together: sums, differences, ranks.

Under the smooth prior areas share a profile and deviate from it, each effect by a scale that is estimated: small areas
lean on the others. Under the flat prior areas are independent.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.chains_and_table_moves import LogDensity
from congenial.inference.error_intervals import ErrorInterval, areas_errors, interval_of
from congenial.inference.estimates_and_draw_quality import (
    EXACTLY,
    Estimate,
    check_level,
    ends_of_draws,
    estimates,
    estimates_of_draws,
    exact_value,
    known_sum,
    quality_of,
    warn_of_poor,
)
from congenial.inference.measured_target import cell_measurements, check_offered
from congenial.inference.posterior import Posterior, check_n_draws, warn_of_rough
from congenial.inference.priors import DEFAULT_PRIOR, PRIORS, Prior, prior_of
from congenial.inference.questions import parse_query
from congenial.inference.statistics_registry import Statistic
from congenial.law import PublicLaw
from congenial.randomness import RandomStream, secure_rng

_MOST_BYTES = 8e8  # of draws
_MOST_TABLES = 1_000_000  # of all draws together: ten minutes or so for tables of 46 cells
_FEWEST = 200  # draws, however many areas there are


@dataclass(frozen=True, repr=False)
class AreasPosterior:
    """Draws of the confidential tables of all areas, given their releases. Public: made from the bundle alone.

    Attributes
    ----------
    released : array (area, cell)
    chains : array (chain, draw, area, cell) of int32
    cell_effect : float or None
        Under the smooth prior, the scale of what single cells of areas have of their own.
    """

    law: PublicLaw
    released: Ints
    prior: Prior
    chains: NDArray[np.int32]
    acceptance: float
    cell_effect: float | None = None

    @property
    def areas(self) -> tuple[Area, ...]:
        """The labels of the areas."""
        return tuple(self.law.areas.labels)

    @cached_property
    def _places(self) -> dict[Area, int]:
        return {label: place for place, label in enumerate(self.areas)}

    def _place(self, area: Area) -> int:
        if area not in self._places:
            raise InferenceError(f"there is no area {area!r}; {did_you_mean(str(area), map(str, self.areas))}")
        return self._places[area]

    def __getitem__(self, area: Area) -> Posterior:
        """Return the posterior of one area; it leans on the others if the prior has them share a profile."""
        place = self._place(area)
        chains = np.ascontiguousarray(self.chains[:, :, place], np.int64)
        released = self.released[place]
        return Posterior(self.law, area, released, self.prior, chains, None, self.acceptance, self.cell_effect)

    def interval(self, query: str, level: float = 0.9) -> Estimate:
        """Return a number that spans areas, such as a sum over them, or a difference of two."""
        (statistic, *more) = parse_query(query, self.law.schema, self.law.areas)
        if more or statistic.areas is None:
            raise InferenceError(
                f"{query!r} is not one number of all areas: name areas in it, as {self.law.areas.name}=..., or ask"
                " intervals, total, difference or ranks"
            )
        from congenial.inference.ask_and_answers import estimates_across

        return estimates_across(self, [statistic], level)[0]

    def _statistic(self, query: str) -> Statistic:
        """Return the one number of each area that a query asks for."""
        statistics = parse_query(query, self.law.schema)
        if len(statistics) != 1:
            raise InferenceError(f"{query!r} asks for {len(statistics)} numbers of each area, and one is needed here")
        return statistics[0]

    def values(self, query: str) -> Floats:
        """Return a number of each area for every draw (chain, draw, area)."""
        statistic = self._statistic(query)
        return np.stack([[statistic.values(tables.astype(np.int64)) for tables in line] for line in self.chains])

    def intervals(self, query: str, level: float = 0.9) -> dict[Area, list[Estimate]]:
        """Return the estimates of a query for every area."""
        statistics = parse_query(query, self.law.schema)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one warning below instead of one for each area
            by_area = {
                area: estimates(self[area], statistics, self.released[place], level=level)
                for place, area in enumerate(self.areas)
            }
        warn_of_poor([estimate for estimates_of_area in by_area.values() for estimate in estimates_of_area])
        return by_area

    def total(self, query: str, areas: Sequence[str] | None = None, level: float = 0.9) -> Estimate:
        """Return a number of all areas together, or of some: a count of their sum, or a share or ratio in it."""
        places = [self._place(area) for area in (areas or self.areas)]
        statistic = self._statistic(query)
        summed = self.chains[:, :, places].sum(axis=2, dtype=np.int64)
        drawn = statistic.values(summed.reshape(-1, summed.shape[-1])).reshape(summed.shape[:2])
        released = float(statistic.values(self.released[places].sum(axis=0)[None, :])[0])
        named = replace(statistic, text=f"{statistic.text}, {len(places):,} areas")
        chosen = [self.areas[place] for place in places]
        known = statistic.of_known([known_sum(self.law, dict.fromkeys(chosen, row)) for row in statistic.rows])
        return estimates_of_draws([named], [drawn], [released], [known], n_moves=self.n_moves, level=level)[0]

    @cached_property
    def n_moves(self) -> int:
        """How often the tables changed from draw to draw."""
        return int((self.chains[:, 1:] != self.chains[:, :-1]).any(axis=(2, 3)).sum())

    def _is_known(self, statistic: Statistic, places: Sequence[int]) -> bool:
        """Whether the invariants determine a number of each of these areas."""
        return all(exact_value(self.law.areas[self.areas[place]], statistic) is not None for place in places)

    def difference(self, query: str, one: Area, other: Area, level: float = 0.9) -> Estimate:
        """Return a number of one area less that of another."""
        values, places = self.values(query), (self._place(one), self._place(other))
        statistic = self._statistic(query)
        released = statistic.values(self.released[list(places)])
        drawn = values[:, :, places[0]] - values[:, :, places[1]]
        text, is_exact = f"{query}, {one} less {other}", self._is_known(statistic, places)
        return _estimate(text, float(released[0] - released[1]), drawn, level, is_exact, self.n_moves)

    def ranks(self, query: str, level: float = 0.9) -> dict[Area, Estimate]:
        """Return the rank of every area, 1 for the largest number; equal ones share the mean of theirs."""
        statistic, values = self._statistic(query), self.values(query)
        order = np.stack([[_ranked(values_of_draw) for values_of_draw in line] for line in values])
        released = _ranked(statistic.values(self.released))
        is_exact = self._is_known(statistic, range(len(self.areas)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by_area = {
                area: _estimate(
                    f"rank of {area}", float(released[place]), order[:, :, place], level, is_exact, self.n_moves
                )
                for place, area in enumerate(self.areas)
            }
        warn_of_poor(list(by_area.values()))
        return by_area

    def of(self, function: Callable[[Ints], ArrayLike]) -> Floats:
        """Return any function of all tables for each draw (chain, draw): it takes tables (area, cell)."""
        n_chains, n_draws = self.chains.shape[:2]
        results = [float(np.asarray(function(table))) for line in self.chains for table in line]
        return np.array(results).reshape(n_chains, n_draws)

    def error_intervals(
        self, query: str, level: float = 0.9, *, rng: RandomStream | None = None
    ) -> dict[Area, ErrorInterval]:
        """Return approximate intervals by the law of the releases' errors, area by area."""
        check_level(level)
        statistic, errors = self._errors(query, rng)
        return {
            area: interval_of(self.law.areas[area], statistic, released, errors_of_area, level)
            for area, released, errors_of_area in zip(self.areas, self.released, errors, strict=True)
        }

    def error_total(self, query: str, level: float = 0.9, *, rng: RandomStream | None = None) -> ErrorInterval:
        """Return the approximate interval of a count of all areas together: errors of areas are independent."""
        check_level(level)
        statistic, errors_of_areas = self._errors(query, rng)
        if statistic.below is not None:
            raise InferenceError(f"{query!r} is no count; the error of a sum of areas is known for counts")
        released, errors = float(statistic.values(self.released).sum()), errors_of_areas.sum(axis=0)
        low, high = ends_of_draws(errors, None, level)
        text = f"{statistic.text}, {len(self.areas):,} areas"
        return ErrorInterval(text, released, released - float(errors.mean()), released - high, released - low, level)

    def _errors(self, query: str, rng: RandomStream | None) -> tuple[Statistic, Floats]:
        """Return a linear number of each area, and errors of its count (area, error)."""
        check_offered(self.law, "an interval by the errors of decided tables")
        statistic = self._statistic(query)
        if not statistic.definition.is_scaled_count:
            raise InferenceError(f"{query!r} is not linear, and errors are known for counts; ask intervals()")
        weights = np.zeros(self.released.shape, np.int64)
        weights[:, list(statistic.above.cells)] = statistic.above.coefficients
        return statistic, areas_errors(self.law, self.chains, weights, rng or secure_rng())

    def __repr__(self) -> str:
        n_chains, n_draws, n_areas, _ = self.chains.shape
        return f"posterior of {n_areas:,} areas: {n_chains} chains of {n_draws:,} draws; prior {self.prior.text}"


def _ranked(values: Floats) -> Floats:
    """Return the rank of each number, 1 for the largest, the mean of theirs for equal ones; a share of nobody is last.

    Examples
    --------
    >>> _ranked(np.array([5.0, 7.0, np.nan, 5.0])).tolist()
    [2.5, 1.0, 4.0, 2.5]
    """
    known = np.where(np.isnan(values), -np.inf, values)
    ascending = np.sort(known)
    ends = np.searchsorted(ascending, known, "left") + np.searchsorted(ascending, known, "right")
    return np.asarray(len(known) + 0.5 - ends / 2)


def _estimate(text: str, released: float, drawn: Floats, level: float, is_exact: bool, n_moves: int) -> Estimate:
    """Return the estimate of a number with draws (chain, draw); draws that are all alike do not make it exact."""
    check_level(level)
    flat = drawn.reshape(-1)
    there = flat[np.isfinite(flat)]
    low, high = ends_of_draws(flat, None, level)
    mean, median = (float(there.mean()), float(np.median(there))) if there.size else (np.nan, np.nan)
    if is_exact:
        return Estimate(text, released, mean, mean, mean, mean, level, is_exact, EXACTLY)
    estimate = Estimate(text, released, mean, median, low, high, level, is_exact, quality_of(drawn, n_moves))
    warn_of_poor([estimate])
    return estimate


def areas_posterior(
    law: PublicLaw,
    released: Ints,
    *,
    measurements: Ints | None = None,
    prior: str | Prior | LogDensity = DEFAULT_PRIOR,
    n_draws: int = 4_000,
    n_chains: int | None = None,
    rng: RandomStream | None = None,
) -> AreasPosterior:
    """Return the posterior of all areas together, from their released tables (area, cell).

    Of thousands of areas fewer draws are kept: a million tables in all, but 200 draws at least, and 800 MB at most.

    Parameters
    ----------
    measurements : array (area, measured row), optional
        Of a measured release, what was measured: all that the posterior goes by.
    """
    n_few = (4 if len(released) <= 200 else 2) if n_chains is None else n_chains
    check_n_draws(n_draws, n_few)
    if not law.areas.holds(released).all():
        raise InferenceError("a released table does not obey the published numbers; take both from one bundle")
    n_some = max(_FEWEST, _MOST_TABLES // len(released))
    n_kept = max(2 * n_few, min(n_draws, n_some, int(_MOST_BYTES / (4 * released.size))))
    belief = prior_of(law.schema, prior)
    if not belief.has_areas:
        names = " or ".join(f'"{name}"' for name, make in PRIORS.items() if make(law.schema).has_areas)
        raise InferenceError(f"many areas are asked under the prior {names}, not under {belief.text}; ask area by area")
    data = cell_measurements(law, measurements) if law.is_measured else released
    draws = belief.draw_areas(law, data, n_kept, n_few, rng or secure_rng())
    warn_of_rough(draws.cell_effect)
    return AreasPosterior(law, released, belief, draws.chains, draws.acceptance, draws.cell_effect)
