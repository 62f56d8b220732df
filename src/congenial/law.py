"""The conditional law of one confidential table: what a release is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.conditions.rows import Row, cells_alike
from congenial.errors import ConditionError, SamplingError, TooLargeError
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.all_tables import EnumeratedLaw
from congenial.sampling.choose import sampler_of
from congenial.sampling.contraction import messages as exact
from congenial.sampling.look_ahead.sampler import LookAheadAt
from congenial.sampling.sampler import Drawer
from congenial.sampling.system import System


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
        if not isinstance(self._drawer, LookAheadAt):
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
        if isinstance(self._drawer, LookAheadAt):
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
        if made.layout.engine.program.node_dim[-1] == 0:  # the invariants leave it one value
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
                like = (group, self.target.centre[cell], system.falls[cell], self.constraints.limits[cell])
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
