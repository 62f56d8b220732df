"""The posterior of a confidential table given its release: THEORY's section 5.

The prior says how tables are drawn: under the smooth one, chains draw its effects together with the table
(`smooth.chains`); under a density, small sets are enumerated, else chains go by proposals of the exact sampler, or by
small steps where the prior pulls far away from the release (`chains`).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.constraints import Constraints
from congenial.errors import InferenceError, did_you_mean, import_extra
from congenial.inference.chains_and_table_moves import FEW_CHAINS, LogDensity
from congenial.inference.error_intervals import ErrorInterval, error_intervals
from congenial.inference.estimates_and_draw_quality import Estimate, are_poor, effective_draws, estimates, split_rhat
from congenial.inference.measured_target import cell_measurements, check_offered
from congenial.inference.priors import DEFAULT_PRIOR, Prior, prior_of
from congenial.inference.questions import parse_queries
from congenial.law import PublicLaw
from congenial.randomness import RandomStream, secure_rng

_LARGE_CELL_EFFECT = 0.5  # twenty real tables have about 0.2; rough ones, whose cells share nothing, 0.9


class PoorProposalWarning(UserWarning):
    """Draws that are too few in effect: the prior, or the limits, pull far away from the release."""


class ContradictedPriorWarning(UserWarning):
    """The release looks unlike what the prior expects."""


@dataclass(frozen=True, repr=False)
class Posterior:
    """Draws of the confidential table of one area, given the release. Public: made from the bundle alone.

    Attributes
    ----------
    chains : array (chain, draw, cell)
        Draws of the chains; or, where every table could be enumerated, all tables as one chain.
    weights : array (draw,) or None
        Exact posterior probabilities of all tables; None for draws of chains.
    acceptance : float
        Share of proposals accepted; 1 where every table was enumerated.
    cell_effect : float or None
        Under the smooth prior, the estimated scale of what single cells have beyond smooth effects; large where the
        table is rough.
    """

    law: PublicLaw
    area: Area
    released: Ints
    prior: Prior
    chains: Ints
    weights: Floats | None
    acceptance: float
    cell_effect: float | None = None

    @property
    def is_exact(self) -> bool:
        """Whether probabilities are exact and not estimated from draws."""
        return self.weights is not None

    @property
    def tables(self) -> Ints:
        """All draws (draw, cell), chain after chain."""
        return self.chains.reshape(-1, self.chains.shape[-1])

    @property
    def constraints(self) -> Constraints:
        """What every table here obeys."""
        return self.law.areas[self.area]

    @cached_property
    def effective_draws(self) -> Floats:
        """Effective number of independent draws for each cell; infinite where the published numbers fix it."""
        return self._diagnosed(effective_draws, np.inf)

    @cached_property
    def split_rhat(self) -> Floats:
        """Split R-hat of each cell: near 1 when the chains agree."""
        return self._diagnosed(split_rhat, 1.0)

    def _diagnosed(self, diagnose: Callable[[Floats], Floats], best: float) -> Floats:
        """Diagnose each cell; NaN for one that the chains never moved, though it could: nothing is known of it."""
        if self.is_exact:
            return np.full(self.chains.shape[-1], best)
        out = diagnose(self.chains.astype(np.float64))
        out[list(self.constraints.cell_bounds.pinned)] = best
        return out

    def interval(self, query: str, level: float = 0.9) -> Estimate:
        """Return the estimate of one count, share or ratio; see `congenial.inference.questions` for how to ask.

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_printed_release
        >>> from congenial.randomness import replay_rng
        >>> mechanism, released = p12_mechanism(), p12_printed_release()
        >>> law = mechanism.calibrate(mechanism.disclose(released))
        >>> result = posterior(law, None, released.counts, n_draws=2000, rng=replay_rng(1))
        >>> result.interval("sex=female")
        sex=female: exactly 130
        >>> result.interval("sex=female & age in {85+}").low < 5 < result.interval("sex=female & age in {85+}").high
        True
        """
        numbers = self.intervals(query, level)
        if len(numbers) != 1:
            raise InferenceError(f"{query!r} asks for {len(numbers)} numbers; use intervals")
        return numbers[0]

    def intervals(
        self, query: str | Sequence[str], level: float = 0.9, *, is_simultaneous: bool = False
    ) -> list[Estimate]:
        """Return the estimates of one query or several, one by one or (simultaneous) all together at this level."""
        statistics = parse_queries(query, self.law.schema, self.law.areas)
        return estimates(self, statistics, self.released, level=level, is_simultaneous=is_simultaneous)

    def error_interval(self, query: str, level: float = 0.9, *, rng: RandomStream | None = None) -> ErrorInterval:
        """Return the interval by the law of the release's error: approximate, and nearly free of the prior.

        See `congenial.inference.error_intervals`.
        """
        intervals = self.error_intervals(query, level, rng=rng)
        if len(intervals) != 1:
            raise InferenceError(f"{query!r} asks for {len(intervals)} numbers; use error_intervals")
        return intervals[0]

    def error_intervals(
        self, query: str | Sequence[str], level: float = 0.9, *, rng: RandomStream | None = None
    ) -> list[ErrorInterval]:
        """Return the intervals by the law of the release's error of one query or several."""
        check_offered(self.law, "an interval by the error of the decided table")
        statistics = parse_queries(query, self.law.schema, self.law.areas)
        return error_intervals(self, statistics, level, rng or secure_rng())

    def columns(self) -> dict[str, list[Any]]:
        """Return the draws by column: the area if there are several, chain and draw, probability, and each cell's name.

        Probabilities sum to one; draws of chains have equal ones. ``.chain``, ``.iteration``, ``.draw`` are the names
        that R's `posterior` reads.
        """
        schema, (n_chains, n_draws, _) = self.law.schema, self.chains.shape
        probabilities = np.full(n_chains * n_draws, 1 / (n_chains * n_draws)) if self.weights is None else self.weights
        places = {**chain_columns(n_chains, n_draws), "probability": probabilities.tolist()}
        area_name = "area" if self.law.areas.name in places else self.law.areas.name
        return {
            **({} if area_name is None else {area_name: [self.area] * (n_chains * n_draws)}),
            **places,
            **{schema.cell_name(cell): self.tables[:, cell].tolist() for cell in range(schema.n_cells)},
        }

    def to_arviz(self) -> Any:
        """Return the draws of chains as arviz's own object, with named cells; needs the extra ``arviz``.

        Examples
        --------
        ``az.summary(posterior.to_arviz())`` has effective draws and R-hat of every cell.
        """
        if self.is_exact:
            raise InferenceError("every table was gone through, with its probability: there are no chains; use frame()")
        cells = [self.law.schema.cell_name(cell) for cell in range(self.law.schema.n_cells)]
        return to_arviz({"posterior": {"table": self.chains}}, {"cell": cells}, {"table": ["cell"]})

    def frame(self, backend: str = "pandas") -> Any:
        """Return the draws as a pandas, polars or pyarrow table: a row a draw, with the columns of `columns`."""
        return frame(self.columns(), backend)

    def of(self, function: Callable[[Ints], ArrayLike]) -> Floats:
        """Return any function of the table for each draw: it takes tables (draw, cell) and gives a number each."""
        results = np.asarray(function(self.tables), np.float64)
        if results.shape[:1] != (len(self.tables),):
            raise InferenceError(f"the function must give one number for each of {len(self.tables):,} draws")
        return results

    def sample(self, n_tables: int, rng: RandomStream) -> Ints:
        """Return some tables (table, cell): evenly spaced draws of the chains, or draws by exact probabilities."""
        n_draws = len(self.tables)
        if self.weights is None:
            places = np.linspace(0, n_draws - 1, min(n_tables, n_draws)).astype(int)
        else:
            edges = np.cumsum(self.weights)
            places = np.searchsorted(edges, rng.uniforms(n_tables) * edges[-1]).clip(0, n_draws - 1)
        return np.asarray(self.tables[places])

    def mean(self) -> Floats:
        """Return the posterior mean of each cell."""
        return np.asarray(np.average(self.tables, axis=0, weights=self.weights))

    def __repr__(self) -> str:
        where = "" if self.area is None else f" of {self.law.areas.name} {self.area}"
        if self.is_exact:
            return f"exact posterior{where}: all {len(self.tables):,} tables that fit; prior {self.prior.text}"
        n_chains, n_draws, _ = self.chains.shape
        return (
            f"posterior{where}: {n_chains} chains of {n_draws:,} draws, acceptance {self.acceptance:.0%};"
            f" prior {self.prior.text}"
        )


def posterior(
    law: PublicLaw,
    area: Area,
    released: Ints,
    *,
    measurements: Ints | None = None,
    prior: str | Prior | LogDensity = DEFAULT_PRIOR,
    n_draws: int = 4_000,
    n_chains: int | None = None,
    rng: RandomStream | None = None,
) -> Posterior:
    """Return the posterior of one area's confidential table.

    Parameters
    ----------
    released : array (cell,)
        The released table; of a measured release the table that was decided, which numbers are compared with.
    measurements : array (measured row,), optional
        Of a measured release, what was measured of this area: all that the posterior goes by.
    prior : str, Prior or function
        A name in `congenial.inference.priors.PRIORS`, a prior of that module, or a log density.
    n_draws : int
        Draws in all chains together; each chain gets an equal whole part of them.
    n_chains : int, optional
        Number of chains. Left out, it is 4, or up to 40 where chains go by small steps.
    """
    check_n_draws(n_draws, FEW_CHAINS if n_chains is None else n_chains)
    if not law.areas[area].holds(released):
        raise InferenceError("the released table does not obey the published numbers; take both from one bundle")
    belief, data = prior_of(law.schema, prior), released
    if law.is_measured:
        data = cell_measurements(law, None if measurements is None else measurements[None, :])[0]
    draws = belief.draw_table(law, area, data, n_draws, n_chains, rng or secure_rng())
    out = Posterior(law, area, released, belief, draws.chains, draws.weights, draws.acceptance, draws.cell_effect)
    if draws.has_small_steps and are_poor(np.nanmin(out.effective_draws), np.nanmax(out.split_rhat)):
        warnings.warn(
            "the prior pulls far away from the release, and the draws are few in effect:"
            f" {np.nanmin(out.effective_draws):.0f} for the worst cell, split R-hat up to"
            f" {np.nanmax(out.split_rhat):.2f}. Look at posterior.effective_draws, and raise n_draws (--draws)",
            PoorProposalWarning,
            stacklevel=2,
        )
    warn_of_rough(draws.cell_effect)
    return out


def check_n_draws(n_draws: object, n_chains: object) -> None:
    """Refuse numbers of draws and chains that are no whole numbers, or too few draws for the chains."""
    if type(n_draws) is not int or type(n_chains) is not int or n_chains < 1 or n_draws < 2 * n_chains:
        raise InferenceError(f"n_draws is a whole number, at least two for each of n_chains, not {n_draws!r}")


def warn_of_rough(cell_effect: float | None) -> None:
    """Warn where single cells go their own ways by more than a smooth prior expects."""
    if cell_effect is not None and cell_effect > _LARGE_CELL_EFFECT:
        warnings.warn(
            f"single cells go their own ways (an effect of {cell_effect:.2f} on the log scale, where smooth tables have"
            " 0.1 to 0.3): the table is rougher than the smooth prior expects. Sums, shares and ratios have their"
            " intervals; a measure of dispersion over many cells, such as a chi-square, is not offered for such a"
            " table: its interval would be too low where cells are sparse. Look at error_interval, and compare with"
            ' prior="flat" (--prior flat)',
            ContradictedPriorWarning,
            stacklevel=3,
        )


# Answers and draws as a pandas, polars or Arrow table, as arviz has them, and as R's `posterior` reads them.

BACKENDS: dict[str, Any] = {
    "pandas": nw.Implementation.PANDAS,
    "polars": nw.Implementation.POLARS,
    "pyarrow": nw.Implementation.PYARROW,
}


def frame(columns: Mapping[str, Sequence[Any]], backend: str = "pandas") -> Any:
    """Return columns as a frame of the library that is asked for; it must be installed.

    Examples
    --------
    >>> frame({"query": ["all"], "mean": [256.0]}, "pyarrow").num_rows
    1
    """
    if backend not in BACKENDS:
        raise InferenceError(f"{backend!r} makes no frames here; {did_you_mean(str(backend), BACKENDS)}")
    try:
        data = nw.from_dict({name: list(values) for name, values in columns.items()}, backend=BACKENDS[backend])
        return data.to_native()
    except ImportError:
        raise InferenceError(f"{backend} is not installed; pip install {backend}") from None


def chain_columns(n_chains: int, n_draws: int) -> dict[str, list[int]]:
    """Return which chain each draw is of, and its place in the chain and in all of them: as R's `posterior` has them.

    Examples
    --------
    >>> chain_columns(2, 2)
    {'.chain': [1, 1, 2, 2], '.iteration': [1, 2, 1, 2], '.draw': [1, 2, 3, 4]}
    """
    return {
        ".chain": [chain for chain in range(1, n_chains + 1) for _ in range(n_draws)],
        ".iteration": list(range(1, n_draws + 1)) * n_chains,
        ".draw": list(range(1, n_chains * n_draws + 1)),
    }


def to_arviz(groups: Mapping[str, Any], names: Mapping[str, Sequence[str]], axes: Mapping[str, Sequence[str]]) -> Any:
    """Return draws (chain, draw, ...) as arviz's own object, with names along their other axes; needs ``arviz``."""
    return import_extra("arviz_base", "analysis").from_dict(groups, coords=dict(names), dims=dict(axes))
