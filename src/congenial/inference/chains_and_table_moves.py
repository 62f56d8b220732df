"""Draws of the confidential table by Markov chains: the exact sampler proposes, or small steps go.

The release t has law ``p(t; s) / c(s)`` given the confidential table s. The weight ``p(t; s)`` is symmetric in t and s,
so the exact sampler centred at t proposes s from it, and a proposal s' replaces s with chance
``min(1, c(s) prior(s') / (c(s') prior(s)))``. Without the normaliser c, tables far from the limits would be favoured.
Measurements have no normaliser (`measured_target`): there c is 1, and proposals come from around another table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import integer_solutions
from congenial.conditions.rows_and_intervals import Column, row_values
from congenial.errors import InferenceError
from congenial.exact import log_of
from congenial.inference.measured_target import MeasuredTarget
from congenial.noise import Noise
from congenial.randomness import RandomStream
from congenial.sampling.enumeration import all_tables
from congenial.sampling.sampler_and_registry import Drawer, sampler_of
from congenial.sampling.target_and_system import Target

LogDensity = Callable[[Ints], Floats]
"""Log densities, up to a constant, of tables (draw, cell)."""

# Small steps between tables that keep every published equality.


def free_groups(constraints: Constraints) -> dict[Column, Ints]:
    """Return the cells that no equality fixes, by their column in the equalities: equal columns make a group."""
    fixed = set(constraints.fixed_cells)
    free = {column: [cell for cell in cells if cell not in fixed] for column, cells in constraints.alike.items()}
    return {column: np.array(cells, np.int64) for column, cells in free.items() if cells}


def kernel_basis(columns: Iterable[Column]) -> list[tuple[int, ...]]:
    """Return a basis of the changes of groups' sums that keep every equality, from the groups' columns.

    Examples
    --------
    >>> kernel_basis([((0, 1),), ((0, 1), (1, 1)), ((1, 1),)])
    [(1, -1, 1)]
    """
    weights = [dict(column) for column in columns]
    rows = sorted({row for column in weights for row in column})
    equations = [({group: column[row] for group, column in enumerate(weights) if row in column}, 0) for row in rows]
    solutions = integer_solutions(equations, len(weights))
    return [] if solutions is None else [line for line in solutions.basis if any(line)]


TableMove = tuple[tuple[Ints, int], ...]
"""Groups of cells, each with a weight: one cell of every group changes by its weight."""


@dataclass(frozen=True)
class TableMoves:
    """The kinds of step that keep every equality."""

    members: tuple[TableMove, ...]
    n_cells: int

    def draw(self, n_tables: int, rng: RandomStream) -> Ints:
        """Return a random step for each of some tables (table, cell); its opposite is as likely."""
        step = np.zeros((n_tables, self.n_cells), np.int64)
        signs = 1 - 2 * rng.below(np.full(n_tables, 2))
        choices = rng.below(np.full(n_tables, len(self.members)))
        for number, move in enumerate(self.members):
            lines = np.flatnonzero(choices == number)
            if lines.size:
                for cells, weight in move:
                    picked = cells[rng.below(np.full(lines.size, len(cells)))]
                    np.add.at(step, (lines, picked), signs[lines] * weight)
        return step

    @classmethod
    def of(cls, constraints: Constraints) -> "TableMoves":
        """Return steps between cells with the same column, and across groups along the equalities' kernel."""
        groups = free_groups(constraints)
        members: list[TableMove] = [((cells, 1), (cells, -1)) for cells in groups.values() if len(cells) > 1]
        for line in kernel_basis(groups):
            members.append(
                tuple((cells, weight) for cells, weight in zip(groups.values(), line, strict=True) if weight)
            )
        if not members:
            raise InferenceError("the published numbers leave nothing open: there is no table to infer")
        return cls(tuple(members), constraints.schema.n_cells)


# Tables of many chains under any prior: the surrogate transition method, with the exact sampler for long jumps.
#
# The confidential table s has posterior ``f(s) / c(s)``, where ``f(s) = prior(s) p(t; s)`` costs next to nothing and
# the normaliser ``c(s)`` a forward pass of the exact sampler. A kernel of many small steps leaves f invariant and is
# reversible; its end s' then replaces s with chance ``min(1, c(s) / c(s'))``, one decision on all steps together,
# which leaves ``f / c`` invariant. A jump proposes s' from the exact sampler centred at the release, that is from
# ``p(t; s')``: ``prior / c`` decides on it. Jumps reach every table that fits.

_STARTS = 100  # draws for each chain, among which a start is looked for

LogNormalisers = Callable[[Ints, RandomStream], Floats]
"""``log c`` of tables (table, cell), or what stands for it."""

LogPrior = Callable[[Ints, NDArray[np.intp]], Floats]
"""Log densities of tables (table, cell), given the number of the chain that each belongs to: priors may differ."""


@dataclass(frozen=True)
class Chains:
    """Where the chains stand: their tables (chain, cell), and ``log c`` of each (chain,), or what stands in for it.

    An estimate is kept as long as its table is (the pseudo-marginal method): then chains have the exact law.
    """

    tables: Ints
    log_normalisers: Floats

    def where(self, taken: NDArray[np.bool_], tried: "Chains") -> "Chains":
        """Return the chains after those that took what they tried have moved."""
        return Chains(
            np.where(taken[:, None], tried.tables, self.tables),
            np.where(taken, tried.log_normalisers, self.log_normalisers),
        )


@dataclass(frozen=True)
class Surrogate:
    """Moves of chains that leave the posterior of one release invariant.

    Attributes
    ----------
    target : Target
        The law of the noise, centred at the release.
    at_release : Drawer or None
        The sampler of the noise alone at the release, or near the measurements: it proposes the jumps. None where no
        exact sampler fits, and chains go by small steps alone.
    log_weight : function
        ``log p(t; s)`` of tables s (table, cell).
    log_normalisers : function
    log_excess : function
        What ``log p(t; s)`` has more than the law of the jumps.
    """

    target: Target
    at_release: Drawer | None
    moves: TableMoves
    log_weight: Callable[[Ints], Floats]
    log_normalisers: LogNormalisers
    log_excess: Callable[[Ints], Floats]

    @classmethod
    def of(cls, target: Target) -> "Surrogate":
        """Prepare the moves for the law centred at a release, or for measurements."""
        moves = TableMoves.of(target.constraints)
        return cls(target, _proposals(target), moves, _log_weight(target.unweighted), *_corrections(target))

    def at(self, tables: Ints, rng: RandomStream) -> Chains:
        """Return chains that stand at given tables (chain, cell)."""
        return Chains(tables, self.log_normalisers(tables, rng))

    def start(self, is_possible: Callable[[Ints], NDArray[np.bool_]], n_chains: int, rng: RandomStream) -> Chains:
        """Return chains at draws of the exact sampler, those that the prior gives a chance."""
        if self.at_release is not None:
            drawn = self.at_release.sample(_STARTS * n_chains, rng)
        elif isinstance(self.target, MeasuredTarget):
            drawn = np.tile(self.target.start, (n_chains, 1))
        possible = drawn[is_possible(drawn)]
        if len(possible) < n_chains:
            raise InferenceError(
                "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; take a"
                " prior that allows tables near the release"
            )
        return self.at(possible[:n_chains], rng)

    def step(
        self, chains: Chains, log_prior: LogPrior, n_steps: int, rng: RandomStream
    ) -> tuple[Chains, NDArray[np.bool_]]:
        """Take small steps that leave f invariant, then let the normalisers decide; say which chains moved on."""
        tried = self.at(self._small_steps(chains.tables, log_prior, n_steps, rng), rng)
        taken = _log_coins(chains, rng) < chains.log_normalisers - tried.log_normalisers
        return chains.where(taken, tried), taken

    def jump(self, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> tuple[Chains, NDArray[np.bool_]]:
        """Propose tables of the exact sampler at the release: the prior and the normalisers decide."""
        every = np.arange(len(chains.tables))
        if self.at_release is None:
            return chains, np.zeros(len(every), np.bool_)
        tried = self.at(self.at_release.sample(len(every), rng), rng)
        gain = log_prior(tried.tables, every) - log_prior(chains.tables, every)
        gain = gain + self.log_excess(tried.tables) - self.log_excess(chains.tables)
        taken = _log_coins(chains, rng) < gain + chains.log_normalisers - tried.log_normalisers
        return chains.where(taken, tried), taken

    def _small_steps(self, start: Ints, log_prior: LogPrior, n_steps: int, rng: RandomStream) -> Ints:
        tables, every = start.copy(), np.arange(len(start))
        log_f = log_prior(tables, every) + self.log_weight(tables)
        for _ in range(n_steps):
            tried = tables + self.moves.draw(len(tables), rng)
            inside = np.flatnonzero(self.target.constraints.holds(tried))
            tried_f = np.full(len(tables), -np.inf)
            if inside.size:
                tried_f[inside] = log_prior(tried[inside], inside) + self.log_weight(tried[inside])
            taken = np.log(rng.uniforms(len(tables))) < tried_f - log_f
            tables[taken], log_f = tried[taken], np.where(taken, tried_f, log_f)
        return tables


def _proposals(target: Target) -> Drawer | None:
    """Return the exact sampler of the noise alone at the release; of measurements, at a table near them."""
    if isinstance(target, MeasuredTarget):
        return target.proposals()
    return sampler_of(target.unweighted).at(target.centre)


def _corrections(target: Target) -> tuple[LogNormalisers, Callable[[Ints], Floats]]:
    """Return the log normalisers of tables, and what their log weight has more than the law of proposals."""

    def nothing(tables: Ints, _: RandomStream | None = None) -> Floats:
        return np.zeros(len(tables))

    if isinstance(target, MeasuredTarget):
        return nothing, target.log_excess
    return sampler_of(target).log_normalisers, nothing


def _log_coins(chains: Chains, rng: RandomStream) -> Floats:
    return np.asarray(np.log(rng.uniforms(len(chains.tables))))


def _log_weight(target: Target) -> Callable[[Ints], Floats]:
    """Return ``log p(t; s)`` as a function of tables s; where cells alone are measured, noise by noise and not by row.

    The cells of a table mostly share one noise, and every small step asks.
    """
    of_noise: dict[Noise, list[int]] = {}
    for measured in target.measured:
        if measured.cell is None:
            return target.log_weight
        of_noise.setdefault(measured.noise, []).append(measured.cell)
    groups = [(noise, np.array(cells)) for noise, cells in of_noise.items()]

    def log_weight(tables: Ints) -> Floats:
        out = np.zeros(len(tables))
        for noise, cells in groups:
            out += noise.log_weight(tables[:, cells] - target.centre[cells]).sum(axis=1)
        return out

    return log_weight


# The posterior of small sets: all tables that fit are enumerated, and their probabilities are exact.

MOST_TABLES = 1_000
"""Sets of tables up to here are enumerated, pair by pair."""


def enumerated_posterior(target: Target, prior: LogDensity, tables: Ints) -> tuple[Ints, Floats]:
    """Return the tables that have a chance given the release, and their probabilities.

    Parameters
    ----------
    target : Target
        The law of the noise, centred at the release or at measurements.
    tables : array (table, cell)
        All tables that fit.
    """
    rows = [measured.row for measured in target.measured]
    values, released_values = row_values(rows, tables), row_values(rows, target.centre[None, :])[0]
    has_normaliser = not isinstance(target, MeasuredTarget)
    log_weights = np.zeros((len(tables), len(tables) if has_normaliser else 1))
    log_posterior = prior(tables)
    for place, measured in enumerate(target.measured):
        column = values[:, place]
        if has_normaliser:
            log_weights += measured.noise.log_weight(column[:, None] - column[None, :])
        log_posterior = log_posterior + measured.noise.log_weight(column - released_values[place])
    for floor, n_floors in target.zero_weights(tables).items():
        log_weights += n_floors * log_of(floor)
    log_posterior = log_posterior - _log_sum(log_weights)
    if not np.isfinite(log_posterior).any():
        raise InferenceError("the prior gives no table that fits any chance; check it")
    weights = np.exp(log_posterior - log_posterior.max())
    is_possible = weights > 0  # 0 times an infinite ratio would be no number
    return tables[is_possible], weights[is_possible] / weights[is_possible].sum()


def _log_sum(log_values: Floats) -> Floats:
    top = log_values.max(axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(log_values - top).sum(axis=1)))


_BURN_IN = 100  # proposals; sweeps of small steps need fewer
_STEPS_A_CELL = 8
_POOR_ACCEPTANCE = 0.10
FEW_CHAINS, _MANY_CHAINS = 4, 40  # small steps of many chains at once cost hardly more than those of few


@dataclass(frozen=True)
class ChainDraws:
    """Draws of chains (chain, draw, cell), or (chain, draw, area, cell) in int32 for many areas.

    Attributes
    ----------
    acceptance : float
        Share of proposals accepted; 1 where every table was enumerated.
    weights : array (draw,) or None
        Exact posterior probabilities of all tables, which stand as one chain; None for draws of chains.
    cell_effect : float or None
        Under the smooth prior, the estimated scale of what single cells have beyond smooth effects.
    has_small_steps : bool
        Whether the chains went by small steps, because proposals were hardly ever accepted.
    """

    chains: NDArray[Any]
    acceptance: float
    weights: Floats | None = None
    cell_effect: float | None = None
    has_small_steps: bool = False


def draw_by_density(
    target: Target, prior: LogDensity, n_draws: int, n_chains: int | None, rng: RandomStream
) -> ChainDraws:
    """Draw tables given a release under a log density: all of them with their probabilities where they are few.

    Else chains run by proposals of the exact sampler, or by small steps where the prior pulls far from the release.

    Parameters
    ----------
    n_chains : int, optional
        Left out, it is 4, or up to 40 where chains go by small steps.
    """
    listed = all_tables(target.constraints, MOST_TABLES)
    if listed is not None:
        tables, weights = enumerated_posterior(target, prior, listed)
        return ChainDraws(tables[None, :, :], 1.0, weights)
    try:
        draws = by_proposals(target, prior, n_draws, FEW_CHAINS if n_chains is None else n_chains, rng)
    except InferenceError:
        draws = None
    if draws is not None and draws.acceptance >= _POOR_ACCEPTANCE:
        return draws
    n_many = max(FEW_CHAINS, min(_MANY_CHAINS, n_draws // 10)) if n_chains is None else n_chains
    return by_small_steps(target, prior, n_draws, n_many, rng)


def by_proposals(target: Target, prior: LogDensity, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
    """Run chains by independent proposals of the exact sampler, for priors that are wide next to the noise."""
    drawer, (log_normalisers, log_excess) = _proposals(target), _corrections(target)
    if drawer is None:
        raise InferenceError("no exact sampler proposes tables under these conditions; go by small steps")
    each = n_draws // n_chains
    n_proposals = n_chains * (each + _BURN_IN)
    proposals = drawer.sample(n_proposals, rng)
    log_ratio = prior(proposals) + log_excess(proposals) - log_normalisers(proposals, rng)
    by_chain = log_ratio.reshape(n_chains, -1)
    if not np.isfinite(by_chain[:, :_BURN_IN]).any(axis=1).all():
        raise InferenceError(
            "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; raise n_draws,"
            " or take a prior that allows tables near the release"
        )
    chains, accepted = [], 0
    coins = np.log(rng.uniforms(n_proposals)).reshape(n_chains, -1)
    for number, (ratios, coins_of_chain) in enumerate(zip(by_chain, coins, strict=True)):
        picks, n_moves = walk(ratios, coins_of_chain)
        accepted += n_moves
        chains.append(proposals[number * (each + _BURN_IN) + picks[_BURN_IN:]])
    return ChainDraws(np.stack(chains), accepted / n_proposals)


def walk(log_ratio: Floats, log_coins: Floats) -> tuple[NDArray[np.intp], int]:
    """Run one chain over its proposals: the place of the current one after each step, and the number of moves."""
    picks = np.empty(len(log_ratio), np.intp)
    here, n_moves = int(np.argmax(np.isfinite(log_ratio))), 0
    ratios, coins = log_ratio.tolist(), log_coins.tolist()
    for step, ratio in enumerate(ratios):
        if coins[step] < ratio - ratios[here]:
            here, n_moves = step, n_moves + 1
        picks[step] = here
    return picks, n_moves


def by_small_steps(target: Target, prior: LogDensity, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
    """Run chains by small steps and jumps (see `Surrogate`), for priors that pull far away from the release."""

    def log_prior(tables: Ints, _: NDArray[np.intp]) -> Floats:
        return prior(tables)

    surrogate = Surrogate.of(target)
    chains = surrogate.start(lambda tables: np.isfinite(prior(tables)), n_chains, rng)
    each = n_draws // n_chains
    burn_in = max(_BURN_IN // 4, each // 4)
    n_steps = _STEPS_A_CELL * len(target.centre)
    out, accepted = np.empty((n_chains, each, len(target.centre)), np.int64), 0
    for sweep in range(burn_in + each):
        chains, taken = surrogate.step(chains, log_prior, n_steps, rng)
        chains, _ = surrogate.jump(chains, log_prior, rng)
        accepted += int(taken.sum())
        if sweep >= burn_in:
            out[:, sweep - burn_in] = chains.tables
    return ChainDraws(out, accepted / (n_chains * (burn_in + each)), has_small_steps=True)
