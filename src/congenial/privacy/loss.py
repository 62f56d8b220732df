"""The exact loss of one pair of tables: ``D + log c(s') - log c(s)``, from the exact engine's normalisers."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.balls import log_of
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import row_values
from congenial.errors import PrivacyError
from congenial.privacy.formulas import round_up
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.contraction.messages import Messages, engine_of
from congenial.sampling.target import Measured, Target

_UNIT = 2.0**-53


@dataclass(frozen=True)
class PairLoss:
    """``max_t log P(t | s) / P(t | s')``, and how far the number can be off. As confidential as the tables are.

    Attributes
    ----------
    value : float
    error : float
        A proven bound of the error of `value`.
    distance : float
        D: the loss that the same noise has for this pair without conditions.
    """

    value: float
    error: float
    distance: float

    @property
    def upper(self) -> Fraction:
        """An upper bound, rounded up."""
        return round_up(Fraction(self.value) + Fraction(self.error), 12)

    @property
    def gamma(self) -> float:
        """The pair's own gamma: the share of the distance that conditioning adds."""
        return self.value / self.distance - 1 if self.distance else 0.0


@dataclass(frozen=True)
class Losses:
    """Losses of any pairs of one system, with one plan for all of them.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> table, mechanism = p12_table(), p12_mechanism()
    >>> other = table.counts.copy()
    >>> other[0], other[1] = other[0] - 1, other[1] + 1
    >>> law = mechanism.calibrate(mechanism.disclose(table))
    >>> losses = Losses.of(law.areas[None], law.measured)
    >>> found = losses.pair(table.counts, other)
    >>> round(found.value, 4), found.error < 1e-11
    (1.0023, True)
    """

    constraints: Constraints
    measured: tuple[Measured, ...]
    engine: Engine

    @classmethod
    def of(cls, constraints: Constraints, measured: Sequence[Measured]) -> "Losses":
        """Plan the system once; needs Double Geometric noise, where the worst output is the table itself."""
        if not measured or not all(query.noise.is_discrete and query.noise.exponent == 1 for query in measured):
            raise PrivacyError(
                "the loss of a pair is D + log c(s') - log c(s) for double_geometric noise only;"
                " under Gaussian noise go through a small S* with privacy.enumerated"
            )
        target = Target(constraints, tuple(measured), np.array(constraints.point, np.int64))
        return cls(constraints, tuple(measured), engine_of(target))

    def log_normaliser(self, table: ArrayLike) -> tuple[float, float]:
        """Return ``log c(s)`` and a bound of its error."""
        made = Messages.of(self.engine, self._checked(table))
        value = made.log_normaliser
        return value, log1p(made.relative_error) + 8 * _UNIT * (1 + abs(value))

    def pair(self, table: ArrayLike, other: ArrayLike) -> PairLoss:
        """Return the loss of a release of `table` against one of `other`."""
        first, second = self._checked(table), self._checked(other)
        (log_first, error_first), (log_second, error_second) = self.log_normaliser(first), self.log_normaliser(second)
        distance = self._distance(first, second)
        rounding = 4 * _UNIT * (distance + abs(log_first) + abs(log_second))
        value = distance + log_second - log_first
        return PairLoss(value, error_first + error_second + rounding, distance)

    def _distance(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
        gaps = np.abs(row_values([query.row for query in self.measured], (first - second)[None, :])[0])
        bases = [query.noise.base for query in self.measured]
        moved: dict[Fraction, int] = {}
        for base, gap in zip(bases, gaps.tolist(), strict=True):
            moved[base] = moved.get(base, 0) + gap
        return sum(-gap * log_of(base) for base, gap in moved.items())

    def _checked(self, table: ArrayLike) -> NDArray[np.int64]:
        counts = np.asarray(table)
        if not self.constraints.holds(counts):
            raise PrivacyError("a table of the pair does not obey the conditions: both must share the invariants")
        return counts.reshape(-1).astype(np.int64)
