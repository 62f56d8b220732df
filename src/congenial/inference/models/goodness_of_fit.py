"""Does the confidential table obey a model? A test whose null law goes through the release's own law.

A statistic of the released table is compared with what it would be if the model were right: rates from the model's
posterior given the release, a confidential table from them that obeys the published numbers, and a release of that
table. Noise, limits and published sums are all in the comparison; the chi-square law of textbooks knows none of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.errors import InferenceError, did_you_mean, import_extra
from congenial.inference.chains_and_table_moves import free_groups, kernel_basis
from congenial.inference.priors import smooth
from congenial.inference.smooth.chains import smooth_draws
from congenial.inference.smooth.effects import INDEPENDENT
from congenial.law import PublicLaw
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.sampler_and_registry import sampler_of
from congenial.schema import Schema

# Tables from a Poisson model that obey the published numbers: what the confidential table could have been.
#
# Cells are Poisson with given rates. Given the sums of groups of cells that the published numbers cannot tell apart,
# cells of a group are multinomial; a chain moves the sums of groups along what the published numbers leave free.

_STEPS = 1_500  # of the chain of groups' sums
_AT_ONCE = 100  # steps whose random numbers are drawn together: a call costs more than they do
_TRIES = 200


@dataclass(frozen=True)
class NullTables:
    """What is drawn: groups of cells, and the ways in which their sums can move.

    Attributes
    ----------
    alone : array of int
        Cells in no published sum.
    groups : tuple of arrays of int
        Cells alike; those with one stated value are left out.
    moves : array (move, group)
        Changes of the groups' sums that keep every published sum.
    """

    constraints: Constraints
    alone: Ints
    groups: tuple[Ints, ...]
    moves: Ints

    @classmethod
    def of(cls, constraints: Constraints) -> "NullTables":
        """Prepare draws for what one table obeys."""
        groups = free_groups(constraints)
        alone = groups.pop((), np.empty(0, np.int64))
        moves = np.array(kernel_basis(groups), np.int64).reshape(-1, len(groups))
        return cls(constraints, alone, tuple(groups.values()), moves)

    def draw(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        """Return a table for each line of rates (table, cell), starting from tables that obey the published numbers."""
        out = start.copy()
        waiting = np.arange(len(start))
        for _ in range(_TRIES):
            out[waiting] = self._drawn(rates[waiting], start[waiting], rng)
            waiting = waiting[~np.asarray(self.constraints.holds(out[waiting]))]
            if not waiting.size:
                return out
        raise InferenceError(
            "the model hardly ever gives a table within the stated limits and ranges; try another model"
        )

    def _drawn(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        stats = import_extra("scipy.stats", "analysis")

        out = start.copy()
        for cell in self.alone:
            out[:, cell] = stats.poisson.ppf(rng.uniforms(len(out)), rates[:, cell])
        for cells, total in zip(self.groups, self._sums(rates, start, rng).T, strict=True):
            group_rates = rates[:, cells]
            behind = np.cumsum(group_rates[:, ::-1], axis=1)[:, ::-1]
            remaining = total.copy()
            for place, cell in enumerate(cells[:-1]):
                share = np.clip(group_rates[:, place] / behind[:, place], 0, 1)
                out[:, cell] = stats.binom.ppf(rng.uniforms(len(out)), remaining, share)
                remaining -= out[:, cell]
            out[:, cells[-1]] = remaining
        return out

    def _sums(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        """Move the sums of groups, which are Poisson too, by random steps of a size that fits them."""
        gammaln = import_extra("scipy.special", "analysis").gammaln

        sums = np.stack([start[:, cells].sum(axis=1) for cells in self.groups], axis=1) if self.groups else start[:, :0]
        if not len(self.moves):
            return sums
        log_rates = np.log(np.stack([rates[:, cells].sum(axis=1) for cells in self.groups], axis=1))
        n_lines, n_moves = len(sums), len(self.moves)
        longest = 1 + int(np.sqrt(sums.max(initial=1)) / 2)

        def log_density(values: Ints) -> Floats:
            return np.asarray((values * log_rates - gammaln(values + 1.0)).sum(axis=1))

        here = log_density(sums)
        for first in range(0, _STEPS, _AT_ONCE):
            shape = min(_AT_ONCE, _STEPS - first), n_lines
            size = (1 + rng.below(np.full(shape, longest))) * (1 - 2 * rng.below(np.full(shape, 2)))
            steps = size[:, :, None] * self.moves[rng.below(np.full(shape, n_moves))]
            coins = np.log(rng.uniforms(size.size)).reshape(shape)
            for step, coin in zip(steps, coins, strict=True):
                tried = sums + step
                is_count = (tried >= 0).all(axis=1)
                there = np.where(is_count, log_density(np.maximum(tried, 0)), -np.inf)
                taken = coin < there - here
                sums, here = np.where(taken[:, None], tried, sums), np.where(taken, there, here)
        return sums


# Draws under the model of independent dimensions: rates from main effects alone, and the table given the release.
#
# The main effects are those of the smooth prior: an ordered dimension has a line, a parabola, a walk and levels of
# their own, so that a profile along 23 ages is learned from few people. With Dirichlet probabilities for each
# dimension, 14 % of independent P12 tables were called dependent at epsilon 1 and a level of 5 %: noisy ages were
# pulled to equal ones.

_CHAINS = 8
_APART = 10  # sweeps from one draw to the next


def independent_draws(
    law: PublicLaw, area: Area, released: Ints, n_draws: int, rng: RandomStream
) -> tuple[Floats, Ints]:
    """Return rates (draw, cell) of independent dimensions given the release, and the tables they were drawn with."""
    alone = replace(law, areas=Areas.one(law.areas[area]))
    each = -(-n_draws // _CHAINS)
    drawn = smooth_draws(
        alone,
        released[None, :],
        smooth(law.schema).ordered,
        n_draws=_CHAINS * each,
        n_chains=_CHAINS,
        rng=rng,
        thin=_APART,
        scales=INDEPENDENT,
        kept_rates=each,
    )
    tables = drawn.tables[:, :, 0].swapaxes(0, 1).reshape(_CHAINS * each, -1).astype(np.int64)  # as log rates are kept
    return np.exp(drawn.eta[:n_draws, 0]), tables[:n_draws]


TableStatistic = Callable[[Ints], Floats]
"""A number for each of some tables (table, cell); large ones speak against the model."""

_FEWEST = 19


@dataclass(frozen=True, repr=False)
class ModelTest:
    """What a test found.

    Attributes
    ----------
    model, statistic : str
        The null hypothesis and what was compared, in words.
    released : float
        The statistic of the released table.
    replicated : array (replicate,)
        The statistic of releases under the null hypothesis.
    """

    model: str
    statistic: str
    released: float
    replicated: Floats = field(compare=False)

    @property
    def p_value(self) -> float:
        """The chance of a statistic at least as large, if the model is right: of replicates and the release itself."""
        return float(1 + np.sum(self.replicated >= self.released - 1e-9)) / (1 + len(self.replicated))

    def __repr__(self) -> str:
        usual = float(np.median(self.replicated))
        return (
            f"{self.model}: p-value {self.p_value:.3g}; {self.statistic} {self.released:.4g}, and {usual:.4g} as a rule"
            f" in {len(self.replicated):,} releases under the model"
        )


def chi_square(schema: Schema) -> TableStatistic:
    """Return Pearson's chi-square of mutual independence of all dimensions.

    Examples
    --------
    >>> two = Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    >>> chi_square(two)(np.array([[1, 2, 2, 4], [5, 0, 0, 5]]))
    array([ 0., 10.])
    """
    axes = range(len(schema.shape))

    def of(tables: Ints) -> Floats:
        cube = tables.reshape(len(tables), *schema.shape).astype(np.float64)
        total = np.maximum(tables.sum(axis=1), 1).reshape(-1, *([1] * len(schema.shape))).astype(np.float64)
        expected = total
        for axis in axes:
            others = tuple(other + 1 for other in axes if other != axis)
            expected = expected * cube.sum(axis=others, keepdims=True) / total
        parts = np.divide((cube - expected) ** 2, expected, out=np.zeros_like(cube), where=expected > 0)
        return np.asarray(parts.reshape(len(tables), -1).sum(axis=1))

    return of


def trend(schema: Schema) -> TableStatistic:
    """Return how far the mean places along the last dimension lie apart, between the levels of the first."""
    if len(schema.shape) != 2:
        raise InferenceError(f"a trend is of tables with two dimensions, and this one has {len(schema.shape)}")
    places = np.arange(len(schema.dimensions[1].labels))

    def of(tables: Ints) -> Floats:
        cube = tables.reshape(len(tables), *schema.shape)
        people = np.maximum(cube.sum(axis=2), 1)
        return np.asarray(np.ptp((cube * places).sum(axis=2) / people, axis=1))

    return of


STATISTICS: Mapping[str, Callable[[Schema], TableStatistic]] = {"chi_square": chi_square, "trend": trend}


def independence_test(
    law: PublicLaw,
    area: Area,
    released: Ints,
    *,
    statistic: str | TableStatistic = "chi_square",
    n_replicates: int = 199,
    rng: RandomStream | None = None,
) -> ModelTest:
    """Test whether all dimensions of the confidential table are independent of each other.

    Parameters
    ----------
    statistic : str or function
        ``"chi_square"``, ``"trend"`` (two dimensions, the second in order), or a function of tables (table, cell).
    """
    schema = law.schema
    if len(schema.shape) < 2:
        raise InferenceError("independence is of two dimensions or more, and the table has one")
    stream = rng or secure_rng()
    rates, tables = independent_draws(law, area, released, check_replicates(n_replicates), stream)
    return replicated_test(law, area, released, rates, tables, "independent dimensions", statistic, stream)


def replicated_test(
    law: PublicLaw,
    area: Area,
    released: Ints,
    rates: Floats,
    start: Ints,
    model: str,
    statistic: str | TableStatistic,
    rng: RandomStream,
) -> ModelTest:
    """Compare the release with releases of tables that a model's rates (replicate, cell) give."""
    measure, name = _statistic(law.schema, statistic)
    tables = NullTables.of(law.areas[area]).draw(rates, start, rng)
    replicates = sampler_of(law.target(area, released)).draw_each(tables, rng)
    return ModelTest(model, name, float(measure(released[None, :])[0]), measure(replicates))


def _statistic(schema: Schema, statistic: str | TableStatistic) -> tuple[TableStatistic, str]:
    if callable(statistic):
        return statistic, "the statistic"
    if statistic not in STATISTICS:
        raise InferenceError(f"statistic {statistic!r} is not known; {did_you_mean(statistic, STATISTICS)}")
    return STATISTICS[statistic](schema), statistic.replace("_", "-")


def check_replicates(n_replicates: object) -> int:
    """Return a number of replicates that gives p-values below 5 %."""
    if type(n_replicates) is not int or n_replicates < _FEWEST:
        raise InferenceError(f"n_replicates is a whole number from {_FEWEST} on, not {n_replicates!r}")
    return n_replicates
