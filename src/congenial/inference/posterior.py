"""The posterior of a confidential table given its release: THEORY's section 5, by the exact sampler as a proposal.

The release t has law ``p(t; s) / c(s)`` given the confidential table s. The weight ``p(t; s)`` is symmetric in t and s,
so the exact sampler centred at t proposes s from it, and a proposal s' replaces s with chance
``min(1, c(s) prior(s') / (c(s') prior(s)))``. Without the normaliser c, tables far from the limits would be favoured.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import row_values
from congenial.errors import InferenceError, TooLargeError
from congenial.inference.moves import Moves
from congenial.inference.priors import LogDensity, Prior, prior_of
from congenial.noise import DoubleGeometric
from congenial.public_law import Area, PublicLaw
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.contraction import messages as exact
from congenial.sampling.enumerate import enumerate_tables, estimate_log10_count, surely_more_than
from congenial.sampling.target import Target

if TYPE_CHECKING:
    from congenial.inference.intervals import Estimate


_MOST_TABLES = 1_000  # S* up to here is gone through, pair by pair
_POOR_ACCEPTANCE = 0.10
_FEW_DRAWS = 50
_STEPS_A_CELL = 8
_MANY_CHAINS = 40
_BURN_IN = 100


class PoorProposalWarning(UserWarning):
    """Draws that are too few in effect: the prior, or the limits, pull far away from the release."""


@dataclass(frozen=True, repr=False)
class Posterior:
    """Draws of the confidential table of one area, given the release. Public: made from the bundle alone.

    Attributes
    ----------
    chains : array (chain, draw, cell)
        Draws of the chains; or, where every table could be gone through, all tables as one chain.
    weights : array (draw,) or None
        Exact posterior probabilities of all tables; None for draws of chains.
    acceptance : float
        Share of proposals accepted; 1 where every table was gone through.
    """

    law: PublicLaw
    area: Area
    released: Ints
    prior: Prior
    chains: Ints
    weights: Floats | None
    acceptance: float

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
        return self.law.constraints[self.area]

    @cached_property
    def effective_draws(self) -> Floats:
        """Effective number of independent draws for each cell; infinite where the published numbers fix it."""
        return self._diagnose("ess")

    @cached_property
    def split_rhat(self) -> Floats:
        """Split R-hat of each cell: near 1 when the chains agree."""
        return self._diagnose("rhat")

    def _diagnose(self, which: str) -> Floats:
        n_chains, n_draws, n_cells = self.chains.shape
        best = np.inf if which == "ess" else 1.0
        if self.is_exact:
            return np.full(n_cells, best)
        import arviz_stats.base as diagnostics  # half a second to import

        bounds = self.constraints.cell_bounds
        fixed = set(bounds.pinned)
        halves = self.chains if n_chains > 1 else self.chains[:, : n_draws - n_draws % 2].reshape(2, -1, n_cells)
        out = np.full(n_cells, np.nan)  # a cell that the chains never moved, though it could: nothing is known
        for cell in range(n_cells):
            values = halves[:, :, cell].astype(np.float64)
            if cell in fixed:
                out[cell] = best
            elif np.ptp(values):
                out[cell] = float(getattr(diagnostics.array_stats, which)(values))
        return out

    def interval(self, query: str, level: float = 0.9) -> "Estimate":
        """Return the estimate of one count, share or ratio; see `congenial.inference.query` for how to ask.

        Examples
        --------
        >>> from congenial.public_law import MeasuredQuery, PublicLaw
        >>> from congenial.examples import p12_mechanism, p12_printed_release
        >>> from congenial.randomness import replay_rng
        >>> mechanism, released = p12_mechanism(), p12_printed_release()
        >>> queries = [MeasuredQuery("cells", mechanism.queries[0].precision, tuple(mechanism.classes[0]))]
        >>> tables = ((None, mechanism.disclose(released)),)
        >>> law = PublicLaw(mechanism.schema, mechanism.noise, tuple(queries), None, tables)
        >>> found = posterior(law, None, released.counts, n_draws=400, rng=replay_rng(1))
        >>> found.interval("sex=female")
        sex=female: exactly 130
        >>> found.interval("sex=female & age in {85+}").low < 5 < found.interval("sex=female & age in {85+}").high
        True
        """
        found = self.intervals(query, level)
        if len(found) != 1:
            raise InferenceError(f"{query!r} asks for {len(found)} numbers; use intervals")
        return found[0]

    def intervals(
        self, query: str | Sequence[str], level: float = 0.9, *, is_simultaneous: bool = False
    ) -> "list[Estimate]":
        """Return the estimates of one query or several, one by one or (simultaneous) all together at this level."""
        from congenial.inference.intervals import estimates
        from congenial.inference.query import parse_query

        asked = [query] if isinstance(query, str) else list(query)
        statistics = [one for text in asked for one in parse_query(text, self.law.schema)]
        return estimates(self, statistics, self.released, level=level, is_simultaneous=is_simultaneous)

    def frame(self, backend: str = "pandas") -> Any:
        """Return the draws as a pandas, polars or pyarrow table: a row a draw, a column a cell, weights where exact."""
        from congenial.inference.frames import frame

        schema = self.law.schema
        columns: dict[str, list[Any]] = {"draw": list(range(1, len(self.tables) + 1))}
        if self.weights is not None:
            columns["probability"] = self.weights.tolist()
        columns |= {schema.cell_name(cell): self.tables[:, cell].tolist() for cell in range(schema.n_cells)}
        return frame(columns, backend)

    def of(self, function: Callable[[Ints], ArrayLike]) -> Floats:
        """Return any function of the table for each draw: it takes tables (draw, cell) and gives a number each."""
        found = np.asarray(function(self.tables), np.float64)
        if found.shape[:1] != (len(self.tables),):
            raise InferenceError(f"the function must give one number for each of {len(self.tables):,} draws")
        return found

    def mean(self) -> Floats:
        """Return the posterior mean of each cell."""
        return np.asarray(np.average(self.tables, axis=0, weights=self.weights))

    def __repr__(self) -> str:
        where = "" if self.area is None else f" of {self.law.area_name} {self.area}"
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
    prior: "str | Prior | LogDensity" = "flat",
    n_draws: int = 4_000,
    n_chains: int = 4,
    rng: RandomStream | None = None,
) -> Posterior:
    """Return the posterior of one area's confidential table.

    Parameters
    ----------
    prior : str, Prior or function
        ``"flat"``, ``"dirichlet"``, ``"independence"``, one of `congenial.inference.priors`, or a log density.
    n_draws : int
        Draws in all chains together; each chain gets an equal whole part of them.
    """
    if type(n_draws) is not int or type(n_chains) is not int or n_chains < 1 or n_draws < 2 * n_chains:
        raise InferenceError(f"n_draws is a whole number, at least two for each of n_chains, not {n_draws!r}")
    if not law.constraints[area].holds(released):
        raise InferenceError("the released table does not obey the published numbers; take both from one bundle")
    belief = prior_of(law.schema, prior)
    listed = _all_tables(law.constraints[area])
    if listed is not None:
        return _enumerated(law, area, released, belief, listed)
    stream = rng or secure_rng()
    try:
        found = _sampled(law, area, released, belief, n_draws, n_chains, stream)
    except InferenceError:
        found = None
    if found is not None and found.acceptance >= _POOR_ACCEPTANCE:
        return found
    found = _stepped(law, area, released, belief, n_draws, n_chains, stream)
    if not np.nanmin(found.effective_draws) >= _FEW_DRAWS:
        warnings.warn(
            "the prior pulls far away from the release, and the draws are few in effect:"
            f" {np.nanmin(found.effective_draws):.0f} for the worst cell. Look at posterior.effective_draws, and raise"
            " n_draws (--draws)",
            PoorProposalWarning,
            stacklevel=2,
        )
    return found


def _all_tables(constraints: Constraints) -> Ints | None:
    if surely_more_than(constraints, 10 * _MOST_TABLES):
        return None
    bounds = constraints.quick_bounds
    if None in bounds.lower or None in bounds.upper:
        return None
    try:
        if estimate_log10_count(constraints) > np.log10(_MOST_TABLES) + 1:
            return None
        return enumerate_tables(constraints, _MOST_TABLES)
    except TooLargeError:
        return None


def _enumerated(law: PublicLaw, area: Area, released: Ints, prior: Prior, tables: Ints) -> Posterior:
    """Go through all tables: log weight of every pair, normalisers as sums, posterior probabilities exactly."""
    measured = law.measured
    values = row_values([one.row for one in measured], tables)
    log_weights = np.zeros((len(tables), len(tables)))
    for place, one in enumerate(measured):
        column = values[:, place]
        log_weights += one.noise.log_weight(column[:, None] - column[None, :])
    log_normalisers = _log_sum(log_weights)
    own = row_values([one.row for one in measured], released[None, :])[0]
    log_posterior = prior(tables) - log_normalisers
    for place, one in enumerate(measured):
        log_posterior += one.noise.log_weight(values[:, place] - own[place])
    if not np.isfinite(log_posterior).any():
        raise InferenceError("the prior gives no table that fits any chance; check it")
    weights = np.exp(log_posterior - log_posterior.max())
    kept = weights > 0  # 0 times an infinite ratio would be no number
    tables, weights = tables[kept], weights[kept]
    return Posterior(law, area, released, prior, tables[None, :, :], weights / weights.sum(), 1.0)


def _log_sum(log_values: Floats) -> Floats:
    top = log_values.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(log_values - top).sum(axis=1)))


def _sampled(
    law: PublicLaw, area: Area, released: Ints, prior: Prior, n_draws: int, n_chains: int, rng: RandomStream
) -> Posterior:
    target = law.target(area, released)
    engine = exact.engine_of(target)
    each = n_draws // n_chains
    n_proposals = n_chains * (each + _BURN_IN)
    proposals = exact.Messages.of(engine, target.centre).sample(n_proposals, rng)
    log_ratio = prior(proposals) - exact.log_normalisers(engine, proposals)
    by_chain = log_ratio.reshape(n_chains, -1)
    if not np.isfinite(by_chain[:, :_BURN_IN]).any(axis=1).all():
        raise InferenceError(
            "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; raise n_draws,"
            " or take a prior that allows tables near the release"
        )
    chains, accepted = [], 0
    coins = np.log(rng.uniforms(n_proposals)).reshape(n_chains, -1)
    for number, (own, own_coins) in enumerate(zip(by_chain, coins, strict=True)):
        picks, moves = _walk(own, own_coins)
        accepted += moves
        chains.append(proposals[number * (each + _BURN_IN) + picks[_BURN_IN:]])
    return Posterior(law, area, released, prior, np.stack(chains), None, accepted / n_proposals)


def _stepped(
    law: PublicLaw, area: Area, released: Ints, prior: Prior, n_draws: int, n_chains: int, rng: RandomStream
) -> Posterior:
    """Run chains by small steps, for priors that pull far away from the release.

    Some hundred steps leave ``f(s) = prior(s) p(t; s)`` invariant; then ``c(s) / c(s')`` decides on all of them
    together (the surrogate transition method), which leaves ``f / c``, the posterior, invariant. One proposal of the
    exact sampler in every sweep reaches every table that fits.
    """
    n_chains = max(
        n_chains, min(_MANY_CHAINS, n_draws // 10)
    )  # a step of many chains costs hardly more than one of few
    target = law.target(area, released)
    engine, moves = exact.engine_of(target), Moves.of(target.constraints)
    pool = exact.Messages.of(engine, target.centre)
    tables = _possible_starts(pool, prior, n_chains, rng)
    log_c = exact.log_normalisers(engine, tables)
    each = n_draws // n_chains
    burn_in = max(_BURN_IN // 4, each // 4)
    out, accepted = np.empty((n_chains, each, tables.shape[1]), np.int64), 0
    for sweep in range(burn_in + each):
        for is_jump in (False, True):
            tried = pool.sample(n_chains, rng) if is_jump else _small_steps(target, tables, prior, moves, rng)
            tried_c = exact.log_normalisers(engine, tried)
            gain = log_c - tried_c + (prior(tried) - prior(tables) if is_jump else 0.0)
            taken = np.log(rng.uniforms(n_chains)) < gain
            tables, log_c = np.where(taken[:, None], tried, tables), np.where(taken, tried_c, log_c)
            accepted += 0 if is_jump else int(taken.sum())
        if sweep >= burn_in:
            out[:, sweep - burn_in] = tables
    return Posterior(law, area, released, prior, out, None, accepted / (n_chains * (burn_in + each)))


def _possible_starts(pool: exact.Messages, prior: Prior, n_chains: int, rng: RandomStream) -> Ints:
    drawn = pool.sample(_BURN_IN * n_chains, rng)
    possible = drawn[np.isfinite(prior(drawn))]
    if len(possible) < n_chains:
        raise InferenceError(
            "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; take a prior"
            " that allows tables near the release"
        )
    return possible[:n_chains]


def _small_steps(target: Target, start: Ints, prior: Prior, moves: Moves, rng: RandomStream) -> Ints:
    """Take many small steps from each table that leave ``prior(s) p(t; s)`` invariant."""
    tables, log_weight = start.copy(), _quick_weight(target)
    log_f = prior(tables) + log_weight(tables)
    for _ in range(_STEPS_A_CELL * tables.shape[1]):
        tried = tables + moves.draw(len(tables), rng)
        inside = np.flatnonzero(target.constraints.holds(tried))
        tried_f = np.full(len(tables), -np.inf)
        if inside.size:
            tried_f[inside] = prior(tried[inside]) + log_weight(tried[inside])
        taken = np.log(rng.uniforms(len(tables))) < tried_f - log_f
        tables[taken], log_f = tried[taken], np.where(taken, tried_f, log_f)
    return tables


def _quick_weight(target: Target) -> Callable[[Ints], Floats]:
    """Return the log weight of tables; where Double Geometric cells alone are measured, in one line of arithmetic."""
    noises = {one.cell: one.noise for one in target.measured}
    if (
        None in noises
        or len(noises) != len(target.measured)
        or not all(isinstance(n, DoubleGeometric) for n in noises.values())
    ):
        return target.log_weight
    slopes = np.zeros(len(target.centre))
    for cell, noise in noises.items():
        slopes[cell or 0] = float(noise.log_weight(np.array([1]))[0])
    return lambda tables: np.asarray(np.abs(tables - target.centre) @ slopes)


def _walk(log_ratio: Floats, log_coins: Floats) -> tuple[NDArray[np.intp], int]:
    """Run one chain over its proposals: the place of the current one after each step, and the number of moves."""
    picks = np.empty(len(log_ratio), np.intp)
    here, moves = int(np.argmax(np.isfinite(log_ratio))), 0
    ratios, coins = log_ratio.tolist(), log_coins.tolist()
    for step, ratio in enumerate(ratios):
        if coins[step] < ratio - ratios[here]:
            here, moves = step, moves + 1
        picks[step] = here
    return picks, moves
