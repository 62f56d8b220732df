"""Does the confidential table obey a model? A test whose null law goes through the release's own law.

A statistic of the released table is compared with what it would be if the model were right: rates from the model's
posterior given the release, a confidential table from them that obeys the published numbers, and a release of that
table. Noise, limits and published sums are all in the comparison; the chi-square law of textbooks knows none of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.independent_draws import independent_draws
from congenial.inference.null_tables import NullTables
from congenial.inference.vocabulary import order_of
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.choose import sampler_of
from congenial.schema import Schema

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
    places = np.arange(len(order_of(schema.dimensions[1])))

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


def _statistic(schema: Schema, given: str | TableStatistic) -> tuple[TableStatistic, str]:
    if callable(given):
        return given, "the statistic"
    if given not in STATISTICS:
        raise InferenceError(f"statistic {given!r} is not known; {did_you_mean(given, STATISTICS)}")
    return STATISTICS[given](schema), given.replace("_", "-")


def check_replicates(n_replicates: object) -> int:
    """Return a number of replicates that gives p-values below 5 %."""
    if type(n_replicates) is not int or n_replicates < _FEWEST:
        raise InferenceError(f"n_replicates is a whole number from {_FEWEST} on, not {n_replicates!r}")
    return n_replicates
