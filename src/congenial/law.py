"""The public law: everything about a release's distribution except the confidential tables it is centred at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.conditions.rows import Row, cells_alike
from congenial.errors import ConditionError, NoiseError, SamplingError, TooLargeError, did_you_mean
from congenial.noise import FAMILIES, Noise, make_noise
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.registry import Drawer, sampler_of
from congenial.sampling.system import Measured, System, Target
from congenial.sampling.two_way.sampler import TwoWayRejectionAt
from congenial.schema import Schema


@dataclass(frozen=True)
class MeasuredQuery:
    """Measured rows that all have noise of one precision; precision 0 is not measured.

    Attributes
    ----------
    floor : Fraction
        Of single cells, what the weight of a cell's lower limit is multiplied by; 1 is the noise's own law.
    """

    text: str
    precision: Fraction
    rows: tuple[Row, ...]
    floor: Fraction = Fraction(1)

    @property
    def weighted(self) -> str:
        """What is said of its floor beside its precision."""
        return "" if self.floor == 1 else f", zeros weighted {float(self.floor):.4g}"


@dataclass(frozen=True)
class PublicLaw:
    """Schema, noise, measured queries with their precisions, and what the table of every area obeys. Public.

    Attributes
    ----------
    noise : str
        The family of the noise.
    areas : Areas
        The constraints of every area; of one table under the label None.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> mechanism.calibrate(mechanism.disclose(p12_table()))
    law of one table on Schema(sex: 2, age: 23; 46 cells): every cell at precision 1/2, double_geometric noise
    """

    schema: Schema
    noise: str
    queries: tuple[MeasuredQuery, ...]
    areas: Areas

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        return FAMILIES[self.noise]

    @property
    def precisions(self) -> tuple[Fraction, ...]:
        """The precision of each measured query."""
        return tuple(query.precision for query in self.queries)

    @property
    def floors(self) -> tuple[Fraction, ...]:
        """The floor of each measured query."""
        return tuple(query.floor for query in self.queries)

    @property
    def classes(self) -> tuple[tuple[Row, ...], ...]:
        """The measured rows of each query; they share a precision."""
        return tuple(query.rows for query in self.queries)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """Every measured row with its noise."""
        return tuple(
            Measured(row, self.family(query.precision), query.floor)
            for query in self.queries
            if query.precision
            for row in query.rows
        )

    def target(self, area: Area, centre: ArrayLike) -> Target:
        """Return the law of one area's table around a centre: the confidential table, or any other in S*."""
        if area not in self.areas:
            raise ConditionError(
                f"{area!r} is not an area of this law; {did_you_mean(str(area), map(str, self.areas))}"
            )
        return Target(self.areas[area], self.measured, np.asarray(centre, np.int64).reshape(-1))

    def __repr__(self) -> str:
        measured = ", ".join(f"{query.text} at precision {query.precision}{query.weighted}" for query in self.queries)
        return f"law of {self.areas} on {self.schema}: {measured}, {self.noise} noise"


def measured_rows(schema: Schema, queries: Sequence[Query], noise: object) -> tuple[tuple[Row, ...], ...]:
    """Check the measured queries and return their rows; rows of one query share a precision."""
    if not isinstance(noise, str) or noise not in FAMILIES:
        raise NoiseError(f"noise {noise!r} is not known; {did_you_mean(str(noise), FAMILIES)}")
    if not queries:
        raise ConditionError('measure at least one query, for example measure=[cells(precision="1/2")]')
    seen: dict[tuple[tuple[int, ...], tuple[int, ...]], Query] = {}
    out = []
    for query in queries:
        if not isinstance(query, Query):
            raise ConditionError(f"measure takes cells, total, margin or linear, not a {type(query).__name__}")
        if query.is_stated:
            raise ConditionError(
                f"{query.text} has a stated value, so it is exact, not measured; move it to invariants=[...]"
            )
        if query.precision:
            make_noise(noise, query.precision)  # raises when the noise does not go that far
        rows = tuple(query.rows(schema))
        for row in rows:
            other = seen.setdefault((row.cells, row.coefficients), query)
            if other is not query:
                raise ConditionError(
                    f"{row.name} is measured twice, by {other.how} and by {query.how};"
                    " measure it once, at the precision it should have in all"
                )
        out.append(rows)
    return tuple(out)


# The conditional law of one confidential table: what a release is drawn from.


@dataclass(frozen=True)
class Marginal:
    """The exact distribution of one linear statistic. Confidential."""

    values: Ints
    probabilities: Floats

    @property
    def mean(self) -> float:
        """The expectation."""
        return float(self.values @ self.probabilities)

    @property
    def variance(self) -> float:
        """The variance."""
        return float(((self.values - self.mean) ** 2) @ self.probabilities)


@dataclass(frozen=True)
class Simulated:
    """A number by simulation. Confidential.

    Attributes
    ----------
    error : float
        One standard deviation of the simulation; 0 where the number is known without one.
    """

    value: float
    error: float


class Law:
    """A `PublicLaw` with a confidential centre: ``P(t | s)`` on S*. Confidential.

    Made by `Mechanism.law`. Everything here is exact: draws are independent and have this law, and the numbers come
    from the same messages, not from simulation.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> law = two_bins()
    >>> law
    Law on Schema(bin: 2; 2 cells), 2 measured queries, centre confidential
    >>> round(law.log_normaliser(), 12)
    0.269859639543
    >>> law.mean().round(3)
    array([2.006, 2.994])
    """

    def __init__(self, public: PublicLaw, centre: ArrayLike, area: Area = None) -> None:
        self.public = public
        self.area = area
        self.target = public.target(area, centre)

    @property
    def constraints(self) -> Constraints:
        """What every table obeys. Public."""
        return self.target.constraints

    @cached_property
    def enumerated(self) -> EnumeratedLaw:
        """All tables with their exact probabilities, by brute force; refuses more than a million tables."""
        return EnumeratedLaw.of(self.target)

    @cached_property
    def _drawer(self) -> Drawer:
        return sampler_of(self.target).at(self.target.centre)

    def sample(self, n_draws: int, rng: RandomStream | None = None) -> Ints:
        """Return independent exact draws (draw, cell).

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> from congenial.randomness import replay_rng
        >>> p12_mechanism().law(p12_table()).sample(5, replay_rng(1)).sum(axis=1)
        array([256, 256, 256, 256, 256])
        """
        if type(n_draws) is not int or n_draws < 1:
            raise SamplingError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
        if rng is not None and not isinstance(rng, RandomStream):
            raise SamplingError(f"rng is replay_rng(seed) or secure_rng(), not a {type(rng).__name__}")
        return self._drawer.sample(n_draws, rng or secure_rng())

    def log_normaliser(self) -> float:
        """Return ``log c(s)``, the log of the summed unnormalised weights; refused for systems too wide to sum up."""
        if not isinstance(self._drawer, TwoWayRejectionAt):
            return self._drawer.log_normaliser
        try:
            return exact.messages(self.target).log_normaliser
        except TooLargeError as refused:
            raise TooLargeError(
                f"{refused}. Rejection knows it by simulation: simulated_log_normaliser() returns it with its error"
            ) from None

    def simulated_log_normaliser(self, n_attempts: int = 10_000, rng: RandomStream | None = None) -> Simulated:
        """Return ``log c(s)`` by simulation, with its error.

        Examples
        --------
        >>> from congenial.examples import two_bins
        >>> two_bins().simulated_log_normaliser()
        Simulated(value=0.2698596395428722, error=0.0)
        """
        if isinstance(self._drawer, TwoWayRejectionAt):
            return Simulated(*self._drawer.simulated_log_normaliser(n_attempts, rng or secure_rng()))
        return Simulated(self._drawer.log_normaliser, 0.0)

    def log_probability(self, draws: ArrayLike) -> Floats:
        """Return the log probability of each draw (draw, cell); minus infinity outside S*."""
        tables, n_cells = np.asarray(draws), self.target.centre.size
        if tables.ndim != 2 or tables.shape[1] != n_cells or tables.dtype.kind not in "iu":
            raise SamplingError(
                f"draws are whole numbers of shape (draw, {n_cells}), not {tables.shape} {tables.dtype}"
            )
        tables = tables.astype(np.int64)
        inside = np.asarray(self.constraints.holds(tables))
        out = np.full(len(tables), -np.inf)
        out[inside] = self.target.log_weight(tables[inside]) - self.log_normaliser()
        return out

    def marginal(self, query: Query | Mapping[str, str]) -> Marginal:
        """Return the exact distribution of a total, a linear combination or a cell (given by its labels).

        Examples
        --------
        >>> from congenial.examples import two_bins
        >>> two_bins().marginal({"bin": "first"}).values
        array([0, 1, 2, 3, 4, 5])
        """
        schema = self.constraints.schema
        if isinstance(query, Mapping):
            return self.marginal_of(Row.of("", [schema.cell(query)]))
        if not isinstance(query, Query):
            raise ConditionError(
                f"a marginal is of total, linear or the labels of a cell, not of a {type(query).__name__}"
            )
        rows = query.rows(schema)
        if len(rows) != 1:
            raise ConditionError(f"{query.text} has {len(rows)} statistics; ask for one of them, with total or linear")
        return self.marginal_of(rows[0])

    def marginal_of(self, row: Row) -> Marginal:
        """Return the exact distribution of one row."""
        made = exact.messages(self.target, [row])
        centre = row.value(self.target.centre.tolist())
        root = made.root
        state = made.layout.state
        if made.layout.elimination.program.node_dim[-1] == 0:  # the invariants leave it one value
            return Marginal(np.array([centre]), np.ones(1))
        values = centre + int(state.node_low[-1, 0]) + np.arange(root.size)
        kept = root > 0
        return Marginal(values[kept], root[kept] / root.sum())

    @cached_property
    def _cell_moments(self) -> Floats:
        """Mean and variance of each cell (2, cell); cells that the law cannot tell apart are computed once."""
        system = System.of(self.constraints, self.target.measured)
        out = np.empty((2, self.target.centre.size))
        known: dict[object, tuple[float, float]] = {}
        rows = [*(limited.row for limited in self.constraints.rows), *(query.row for query in self.target.measured)]
        for group, cells in cells_alike([row for row in rows if len(row.cells) > 1], system.n_cells).items():
            for cell in cells:
                like = (group, self.target.centre[cell], system.weights[cell], self.constraints.limits[cell])
                if like not in known:
                    marginal = self.marginal_of(Row.of("", [cell]))
                    known[like] = (marginal.mean, marginal.variance)
                out[:, cell] = known[like]
        return out

    def mean(self) -> Floats:
        """Return the expectation of each cell."""
        return np.array(self._cell_moments[0])

    def variance(self) -> Floats:
        """Return the variance of each cell."""
        return np.array(self._cell_moments[1])

    def __repr__(self) -> str:
        schema = self.constraints.schema
        return f"Law on {schema}, {len(self.target.measured)} measured queries, centre confidential"
