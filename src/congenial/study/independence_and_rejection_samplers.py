"""Metropolized independence sampling with invariants: Algorithm 1 of Gong and Meng (2020), as printed.

The cells of a proposal index set are drawn from q, the others solved for from the equalities, and the whole accepted
by the ratio of p to q. A stopped chain is not a draw from the conditional law: nothing here is certified for a release.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import SamplingError
from congenial.exact import Exact, positive_fraction
from congenial.noise import FAMILIES, Noise
from congenial.randomness import RandomStream
from congenial.sampling.jit import kernel
from congenial.sampling.target_and_system import Measured, Target

# The loop of GM's Algorithm 1.


@kernel
def independence_chain(
    words: NDArray[np.uint64],  # (n_iterations, n_free + 1)
    chain: Any,  # a ChainSystem
    proposal: Any,  # a ChainProposal
    state: Floats,  # current deviations, changed in place
    log_ratio: float,  # log p - log q of the current state
    done: int,  # iterations before this call
    thin: int,
    out: Floats,  # (draw, n_cells)
) -> tuple[int, float]:
    """Run GM's Algorithm 1 on deviations from the centre; return the number of acceptances and the last log ratio."""
    is_discrete, free, solved = chain.is_discrete, chain.free, chain.solved
    low, high = chain.low, chain.high
    n_free = free.size
    proposed = np.empty(state.size)
    accepted = 0
    for iteration in range(words.shape[0]):
        log_q = 0.0
        feasible = True
        # Step 1-1: the free cells from q. A cell out of its limits makes the acceptance 0, so the rest can be skipped.
        for k in range(n_free):
            uniform = (np.float64(words[iteration, k] >> np.uint64(12)) + 0.5) * 2.0**-52
            if is_discrete:
                start, stop = proposal.start[k], proposal.start[k + 1]
                lowest, highest = start, stop - 1
                while lowest < highest:
                    middle = (lowest + highest) // 2
                    if proposal.cdf[middle] < uniform:
                        lowest = middle + 1
                    else:
                        highest = middle
                value = proposal.first[k] + (lowest - start)
                log_q += proposal.log_pmf[lowest]
            else:
                rate = proposal.rate[k]
                if uniform < 0.5:
                    value = np.log(2 * uniform) / rate
                else:
                    value = -np.log(2 * (1 - uniform)) / rate
                log_q += np.log(rate / 2) - rate * abs(value)
            cell = free[k]
            if value < low[cell] or value > high[cell]:
                feasible = False
                break
            proposed[cell] = value
        # Steps 1-2 and 1-3: the other cells from the equalities.
        if feasible:
            for j in range(solved.size):
                value = 0.0
                for k in range(n_free):
                    value += chain.solution[j, k] * proposed[free[k]]
                value /= chain.determinant
                cell = solved[j]
                if value < low[cell] or value > high[cell] or (is_discrete and value != np.floor(value)):
                    feasible = False
                    break
                proposed[cell] = value
        if feasible:
            for r in range(chain.range_low.size):
                value = 0.0
                for cell in range(state.size):
                    value += chain.range_rows[r, cell] * proposed[cell]
                if value < chain.range_low[r] or value > chain.range_high[r]:
                    feasible = False
                    break
        # Steps 2 and 3: accept with probability min(1, p(new) q(old) / (p(old) q(new))).
        if feasible:
            log_p = 0.0
            for cell in range(state.size):
                if chain.cell_exponent[cell] == 1:
                    log_p += chain.cell_log_base[cell] * abs(proposed[cell])
                elif chain.cell_exponent[cell] == 2:
                    log_p += chain.cell_log_base[cell] * proposed[cell] * proposed[cell]
            for r in range(chain.soft_exponent.size):
                value = 0.0
                for cell in range(state.size):
                    value += chain.soft_rows[r, cell] * proposed[cell]
                log_p += chain.soft_log_base[r] * (abs(value) if chain.soft_exponent[r] == 1 else value * value)
            new_ratio = log_p - log_q
            uniform = (np.float64(words[iteration, n_free] >> np.uint64(12)) + 0.5) * 2.0**-52
            if np.log(uniform) < new_ratio - log_ratio:
                log_ratio = new_ratio
                state[:] = proposed
                accepted += 1
        if (done + iteration + 1) % thin == 0:
            out[(done + iteration + 1) // thin - 1] = state
    return accepted, log_ratio


# What a sampler hands back.


@dataclass(frozen=True)
class Draws:
    """Tables from a sampler.

    Attributes
    ----------
    tables : array (draw, cell)
        Integers, or floats for continuous noise.
    acceptance : float
        Share of proposals accepted. It depends on the confidential table, so it is confidential itself.
    is_independent : bool
        Whether the draws are independent of each other and of any starting value.
    """

    tables: Ints | Floats
    acceptance: float
    is_independent: bool

    def __repr__(self) -> str:
        kind = "independent draws" if self.is_independent else "draws of a chain"
        return f"Draws({len(self.tables):,} {kind} of {self.tables.shape[1]} cells)"


_CHUNK_WORDS = 1 << 20
_FLOAT_INTEGERS = 2**53
_LONGEST_REACH = 5_000_000


@dataclass(frozen=True)
class _Split:
    """Free cells, solved cells, and ``u_solved = (numerators @ u_free) / determinant`` for deviations u."""

    free: tuple[int, ...]
    solved: tuple[int, ...]
    numerators: Floats
    determinant: float


def default_index_set(target: Target) -> tuple[int, ...]:
    """Return a proposal index set: all cells but the last independent columns of the equalities."""
    solved = _independent_columns(_equalities(target), range(len(target.centre) - 1, -1, -1))
    return tuple(cell for cell in range(len(target.centre)) if cell not in solved)


def _equalities(target: Target) -> Ints:
    return dense([limited.row for limited in target.constraints.known.limits], len(target.centre))


def _independent_columns(matrix: Ints, order: Iterable[int]) -> set[int]:
    cells = list(order)
    columns = [{row: int(value) for row, value in enumerate(matrix[:, cell]) if value} for cell in cells]
    return {cells[position] for position in dependence(columns).independent}


def _split(target: Target, index_set: Sequence[int] | None) -> _Split:
    matrix = _equalities(target)
    n_cells, n_equal = matrix.shape[1], matrix.shape[0]
    free = default_index_set(target) if index_set is None else tuple(sorted(int(cell) for cell in index_set))
    if len(set(free)) != len(free) or not set(free) <= set(range(n_cells)):
        raise SamplingError(f"the index set must hold different cell numbers from 0 to {n_cells - 1}")
    if len(free) != n_cells - n_equal:
        raise SamplingError(
            f"the index set must have {n_cells - n_equal} cells ({n_cells} less {n_equal} independent equalities),"
            f" not {len(free)}"
        )
    solved = tuple(cell for cell in range(n_cells) if cell not in set(free))
    if not solved:
        return _Split(free, solved, np.zeros((0, len(free))), 1.0)
    left_side = flint.fmpz_mat(n_equal, n_equal, [int(v) for v in matrix[:, solved].reshape(-1)])
    if left_side.rank() < n_equal:
        raise SamplingError(
            "the equalities cannot be solved for the cells outside the index set: their columns have rank"
            f" {left_side.rank()} and {n_equal} is needed; leave the index set out to have one chosen"
        )
    right_side = flint.fmpz_mat(n_equal, len(free), [-int(v) for v in matrix[:, free].reshape(-1)])
    numerators, determinant = (
        flint.fmpq_mat(left_side).solve(flint.fmpq_mat(right_side)).numer_denom() if free else (right_side, 1)
    )
    array = np.array([int(v) for v in numerators.entries()], object).reshape(n_equal, len(free))
    if any(abs(value) >= 2**20 for value in array.reshape(-1)):
        raise SamplingError("the equalities have too large coefficients for this sampler")
    return _Split(free, solved, array.astype(np.float64), float(int(determinant)))


def _proposals(target: Target, free: Sequence[int], precision: Exact | Sequence[Exact] | None) -> tuple[Noise, ...]:
    """Return q for each free cell: the family of the cell's own noise, at the precision asked for."""
    noise_of_cell = {query.cell: query.noise for query in target.measured if query.cell is not None}
    # A cell that is not measured by itself is proposed from the family whose tails fall most slowly.
    flattest = min((query.noise.precision for query in target.measured), default=Fraction(1))
    slowest = next(f for f in FAMILIES.values() if f.is_discrete == target.is_discrete and f.exponent == 1)
    wanted: list[Exact | None]
    if isinstance(precision, Sequence) and not isinstance(precision, str):
        wanted = list(precision)
        if len(wanted) != len(free):
            raise SamplingError(f"proposal_precision has {len(wanted)} entries, the index set has {len(free)} cells")
    else:
        wanted = [precision] * len(free)
    out = []
    for cell, wanted_precision in zip(free, wanted, strict=True):
        noise = noise_of_cell.get(cell) or slowest(flattest)
        if not (noise.is_discrete or noise.exponent == 1):
            raise SamplingError(f"this sampler draws no continuous proposals of {noise.family} noise")
        out.append(
            noise
            if wanted_precision is None
            else type(noise)(positive_fraction(wanted_precision, "proposal precision"))
        )
    return tuple(out)


class ChainProposal(NamedTuple):
    """The proposals q for the kernel: discrete ones as tables, one after the other, continuous ones by their rate."""

    start: Ints  # (n_free + 1) where each free cell's proposal stands in the tables below
    first: Floats  # (n_free) smallest value of each
    cdf: Floats
    log_pmf: Floats
    rate: Floats  # (n_free) precision of a continuous proposal

    @classmethod
    def of(cls, proposals: Sequence[Noise]) -> "ChainProposal":
        """Return each discrete proposal as a window of its cdf; beyond it a uniform double cannot reach."""
        starts, firsts, cdfs, logs = [0], [], [np.zeros(0)], [np.zeros(0)]
        known: dict[Noise, tuple[int, Floats, Floats]] = {}
        for noise in proposals:
            if not noise.is_discrete:
                continue
            if noise not in known:
                reach = int(-np.asarray(noise.quantile(2.0**-54)))
                if reach > _LONGEST_REACH:
                    raise SamplingError(f"proposal precision {noise.precision} is too flat for this sampler; raise it")
                values = np.arange(-reach, reach + 1)
                cdf = noise.cdf(values)
                cdf[-1] = 1.0
                known[noise] = (-reach, cdf, noise.log_pmf(values))
            first, cdf, log_pmf = known[noise]
            starts.append(starts[-1] + len(cdf))
            firsts.append(float(first))
            cdfs.append(cdf)
            logs.append(log_pmf)
        rate = np.array([float(noise.precision) for noise in proposals])
        return cls(np.array(starts, np.int64), np.array(firsts), np.concatenate(cdfs), np.concatenate(logs), rate)


class ChainSystem(NamedTuple):
    """The target for the kernel, as deviations from the centre."""

    is_discrete: bool
    free: Ints  # the proposal index set
    solved: Ints  # the other cells
    solution: Floats  # (n_solved, n_free) numerators of what the free cells make of the others
    determinant: float
    low: Floats  # (n_cells)
    high: Floats
    range_rows: Floats  # (n_ranges, n_cells)
    range_low: Floats
    range_high: Floats
    soft_rows: Floats  # (n_soft, n_cells) queries over several cells
    soft_exponent: Ints
    soft_log_base: Floats
    cell_exponent: Ints  # (n_cells) 1: |u|, 2: u^2, 0: not measured
    cell_log_base: Floats

    @classmethod
    def of(cls, target: Target, split: _Split) -> "ChainSystem":
        """Collect constraints and measured queries; a cell's first query of its own is kept with the cell."""
        constraints, centre, n_cells = target.constraints, target.centre.tolist(), len(target.centre)
        ranges = constraints.ranges
        at_centre = [limited.row.value(centre) for limited in ranges]
        exponent, log_base = np.zeros(n_cells, np.int64), np.zeros(n_cells)
        others = []
        for query in target.measured:
            if query.cell is not None and exponent[query.cell] == 0:
                exponent[query.cell], log_base[query.cell] = query.noise.exponent, query.noise.log_base
            else:
                others.append(query)
        return cls(
            target.is_discrete,
            np.array(split.free, np.int64),
            np.array(split.solved, np.int64),
            split.numerators,
            split.determinant,
            _relative(constraints.lower, centre, -np.inf),
            _relative(constraints.upper, centre, np.inf),
            dense([limited.row for limited in ranges], n_cells).astype(np.float64),
            _relative([limited.lower for limited in ranges], at_centre, -np.inf),
            _relative([limited.upper for limited in ranges], at_centre, np.inf),
            dense([query.row for query in others], n_cells).astype(np.float64),
            np.array([query.noise.exponent for query in others], np.int64),
            np.array([query.noise.log_base for query in others], np.float64),
            exponent,
            log_base,
        )


def _relative(limits: Sequence[int | None], centre: Sequence[int], missing: float) -> Floats:
    pairs = zip(limits, centre, strict=True)
    return np.array([missing if limit is None else limit - value for limit, value in pairs], np.float64)


@dataclass(frozen=True)
class _Chain:
    """Algorithm 1 made ready for one target: everything but the state and the random words."""

    target: Target
    split: _Split
    proposals: tuple[Noise, ...]
    system: ChainSystem
    tables: ChainProposal

    @classmethod
    def of(cls, target: Target, precision: Exact | Sequence[Exact] | None, index_set: Sequence[int] | None) -> "_Chain":
        if any(query.zero_weight != 1 for query in target.measured):
            raise SamplingError("Algorithm 1 is for the noise's own law, and this one has weighted limits")
        split = _split(target, index_set)
        proposals = _proposals(target, split.free, precision)
        return cls(target, split, proposals, ChainSystem.of(target, split), ChainProposal.of(proposals))

    @property
    def words_a_step(self) -> int:
        return len(self.split.free) + 1

    def log_ratio(self, states: Floats) -> Floats:
        """Return log p - log q of each state (chain, cell), given as deviations."""
        log_q = np.zeros(len(states))
        for noise, cell in zip(self.proposals, self.split.free, strict=True):
            log_q += noise.log_pmf(states[:, cell])
        return self.target.log_weight(states + self.target.centre) - log_q

    def run(
        self, words: NDArray[np.uint64], state: Floats, log_ratio: float, done: int, thin: int, out: Floats
    ) -> tuple[int, float]:
        """Run one step for each line of words, changing `state` and `out`; return acceptances and the log ratio."""
        return independence_chain(words, self.system, self.tables, state, log_ratio, done, thin, out)


def sample(
    target: Target,
    n_draws: int,
    rng: RandomStream,
    *,
    proposal_precision: Exact | Sequence[Exact] | None = None,
    index_set: Sequence[int] | None = None,
    start: ArrayLike | None = None,
    burn_in: int = 0,
    thin: int = 1,
) -> Draws:
    """Run one chain and return its draws.

    Parameters
    ----------
    proposal_precision : exact number or one for each cell of the index set, optional
        GM's "proposal inverse scale"; each cell's own precision when not given.
    index_set : sequence of int, optional
        The cells that are proposed, by number; the equalities must determine the others. Found when not given.
    start : table, optional
        A table that obeys the constraints; the confidential one when not given.
    burn_in, thin : int
        Iterations before the first draw, and iterations for each draw.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> target = p12_mechanism().law(p12_table()).target
    >>> sample(target, 100, replay_rng(1), proposal_precision="0.6", thin=100)
    Draws(100 draws of a chain of 46 cells)
    """
    if n_draws < 1 or thin < 1 or burn_in < 0:
        raise SamplingError("n_draws and thin must be at least 1, burn_in at least 0")
    chain = _Chain.of(target, proposal_precision, index_set)
    state = _deviations(target, target.centre if start is None else start)[0]
    log_ratio, accepted = float(chain.log_ratio(state[None, :])[0]), 0
    total, width = burn_in + n_draws * thin, chain.words_a_step
    out = np.empty((n_draws, len(state)))
    done = -burn_in
    while done < n_draws * thin:
        # The burn-in ends on a chunk's border, so that draws are counted from there.
        remaining = -done if done < 0 else n_draws * thin - done
        chunk = min(max(1, _CHUNK_WORDS // width), remaining)
        words = rng.words(chunk * width).reshape(chunk, width)
        counted, period = (0, total + 1) if done < 0 else (done, thin)
        hits, log_ratio = chain.run(words, state, log_ratio, counted, period, out)
        accepted += hits
        done += chunk
    return Draws(_tables_from(target, out), accepted / total, is_independent=False)


def advance(
    target: Target,
    starts: ArrayLike,
    n_steps: int,
    rng: RandomStream,
    *,
    proposal_precision: Exact | Sequence[Exact] | None = None,
    index_set: Sequence[int] | None = None,
) -> Ints | Floats:
    """Return where a chain from each start (chain, cell) stands after some steps.

    Chains started at exact draws must end at exact draws: that is how the kernel is tested.
    """
    chain = _Chain.of(target, proposal_precision, index_set)
    states = _deviations(target, starts)
    log_ratios = chain.log_ratio(states)
    words = rng.words(len(states) * n_steps * chain.words_a_step).reshape(len(states), n_steps, chain.words_a_step)
    nothing = np.empty((0, states.shape[1]))
    for state, log_ratio, words_of_chain in zip(states, log_ratios, words, strict=True):
        chain.run(words_of_chain, state, log_ratio, 0, n_steps + 1, nothing)
    return _tables_from(target, states)


def _deviations(target: Target, tables: ArrayLike) -> Floats:
    """Check starting tables and return them as deviations from the centre, a line each."""
    array = np.asarray(tables)
    stack = array.reshape(-1, len(target.centre)) if array.size and array.size % len(target.centre) == 0 else array
    if stack.ndim != 2 or stack.dtype.kind not in "iu" or not np.all(target.constraints.holds(stack)):
        raise SamplingError(
            "a starting value must be a table of whole numbers that obeys every condition;"
            " see constraints.violations(start)"
        )
    return (stack - target.centre).astype(np.float64)


def _tables_from(target: Target, deviations: Floats) -> Ints | Floats:
    if not target.is_discrete:
        return deviations + target.centre
    if np.abs(deviations).max(initial=0.0) >= _FLOAT_INTEGERS:
        raise SamplingError("the chain left the range of exactly held integers")
    tables = deviations.astype(np.int64) + target.centre
    if not np.all(target.constraints.holds(tables)):
        raise SamplingError("internal: a draw of the chain breaks a condition; please report this system")
    return tables


def sweep(
    target: Target,
    proposal_precisions: Iterable[Exact],
    n_iterations: int,
    rng: RandomStream,
    *,
    index_set: Sequence[int] | None = None,
) -> dict[str, float]:
    """Return the acceptance rate at each proposal precision (GM figure 2), keyed by the precision as written."""
    return {
        str(precision): sample(
            target, 1, rng, proposal_precision=precision, index_set=index_set, thin=n_iterations
        ).acceptance
        for precision in proposal_precisions
    }


@dataclass(frozen=True)
class Rate:
    """An acceptance rate and its standard error. Confidential, like `Draws.acceptance`."""

    acceptance: float
    standard_error: float


def equilibrium_acceptance(
    target: Target,
    states: ArrayLike,
    n_proposals: int,
    rng: RandomStream,
    *,
    proposal_precision: Exact | Sequence[Exact] | None = None,
    index_set: Sequence[int] | None = None,
) -> Rate:
    """Return the rate at which a chain in equilibrium accepts, given independent draws of the target as its states.

    ``E min(1, w(y) / w(x))`` over all pairs of a proposal y and a state x, with ``w = p / q``: no chain, so none of its
    luck. A proposal that breaks a condition is never accepted.
    """
    chain = _Chain.of(target, proposal_precision, index_set)
    proposals = np.zeros((n_proposals, len(target.centre)))
    for noise, cell in zip(chain.proposals, chain.split.free, strict=True):
        proposals[:, cell] = noise.sample(n_proposals, rng)
    solved = proposals[:, chain.split.free] @ chain.split.numerators.T / chain.split.determinant
    proposals[:, chain.split.solved] = solved
    whole = np.all(solved == np.floor(solved), axis=1) if target.is_discrete else np.ones(n_proposals, bool)
    tables = (proposals[whole] + target.centre).astype(np.int64 if target.is_discrete else np.float64)
    feasible = proposals[whole][np.asarray(target.constraints.holds(tables))]
    log_states = np.sort(chain.log_ratio(_deviations(target, states)))
    log_proposals = chain.log_ratio(feasible)
    # For a proposal at w(y): states with w(x) <= w(y) accept surely, the others with chance w(y) / w(x).
    above = np.append(np.cumsum(np.exp(-log_states[::-1]))[::-1], 0.0)
    sure = np.searchsorted(log_states, log_proposals, side="right")
    chances = (sure + np.exp(log_proposals) * above[sure]) / len(log_states)
    mean = float(chances.sum()) / n_proposals
    return Rate(mean, float(np.sqrt(max((chances**2).sum() / n_proposals - mean**2, 0.0) / n_proposals)))


# Rejection sampling (GM section 2.3): propose, keep what obeys the conditions. Right by construction, rarely fast.

_BATCH = 100_000


class Proposal(Protocol):
    """Any law that can be drawn from and dominates the target: ``weight(t) <= exp(log_bound) * q(t)`` on S*."""

    log_bound: float

    def draw(self, n: int, rng: RandomStream) -> Ints:
        """Return proposed tables (draw, cell)."""
        ...

    def log_density(self, tables: Ints) -> Floats:
        """Return the log probability of each proposed table, up to the constant that `log_bound` accounts for."""
        ...


@dataclass(frozen=True)
class Unconstrained:
    """The unconstrained mechanism itself: every cell's own noise around the centre.

    Cells that are not measured by themselves are uniform over their limits. Queries over several cells enter through
    the acceptance, where their weight is at most 1.
    """

    target: Target
    log_bound: float = 0.0

    def _query_of_cell(self) -> dict[int, Measured]:
        return {query.cell: query for query in self.target.measured if query.cell is not None}

    def draw(self, n: int, rng: RandomStream) -> Ints:
        """Return the centre plus noise."""
        query_of_cell, bounds = self._query_of_cell(), self.target.constraints.cell_bounds
        out = np.empty((n, len(self.target.centre)), np.int64)
        for cell, value in enumerate(self.target.centre.tolist()):
            low, high = bounds.lower[cell], bounds.upper[cell]
            if cell in query_of_cell:
                out[:, cell] = value + query_of_cell[cell].noise.sample(n, rng)
            elif low is not None and high is not None:
                out[:, cell] = low + rng.below(np.full(n, high - low + 1))
            else:
                name = self.target.constraints.schema.cell_name(cell)
                raise SamplingError(
                    f"cell {name} is neither measured nor limited, so it has no proposal; give it bounds(lower, upper)"
                )
        return out

    def log_density(self, tables: Ints) -> Floats:
        """Return the summed log weights of the cells' own noise."""
        out = np.zeros(len(tables))
        for cell, query in self._query_of_cell().items():
            out += query.noise.log_weight(tables[:, cell] - self.target.centre[cell])
        return out


def rejection_sample(
    target: Target,
    n_draws: int,
    rng: RandomStream,
    *,
    proposal: Proposal | None = None,
    most_proposals: int = 20_000_000,
) -> Draws:
    """Return independent draws of the target.

    Parameters
    ----------
    proposal : Proposal, optional
        The unconstrained mechanism when not given.
    most_proposals : int
        Gives up after so many, with an error.

    Notes
    -----
    Accepts with probability ``weight(t) / (exp(log_bound) q(t))``, compared in floats: for reference and study.
    """
    if not target.is_discrete:
        raise SamplingError(
            "continuous noise meets an equality with probability 0, so rejection never ends;"
            " use the independence sampler"
        )
    if n_draws < 1:
        raise SamplingError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
    law = proposal or Unconstrained(target)
    draws: list[Ints] = []
    n_accepted = n_proposed = 0
    while n_accepted < n_draws:
        if n_proposed >= most_proposals:
            raise SamplingError(
                f"rejection did not finish within {most_proposals:,} proposals; raise most_proposals, or use"
                " a sampler that respects the invariants by construction"
            )
        proposed = law.draw(_BATCH, rng)
        feasible = proposed[target.constraints.holds(proposed)]
        log_ratio = target.log_weight(feasible) - law.log_density(feasible) - law.log_bound
        if log_ratio.size and log_ratio.max() > 1e-9:
            raise SamplingError("the proposal does not dominate the law: raise its log_bound")
        accepted = feasible[np.log(rng.uniforms(len(feasible))) <= log_ratio]
        draws.append(accepted)
        n_accepted += len(accepted)
        n_proposed += _BATCH
    return Draws(np.concatenate(draws)[:n_draws], n_accepted / n_proposed, is_independent=True)
