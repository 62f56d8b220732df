"""Certificates of a small S*: every table, every pair of neighbours, every output.

Normalisers are sums of positive doubles with a proven error, which is added to the result:
docs/claims/enumerated-loss.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.balls import log_of
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import row_values
from congenial.errors import PrivacyError, TooLargeError
from congenial.privacy.formulas import round_up
from congenial.sampling.all_tables import enumerate_tables, estimate_log10_count
from congenial.sampling.target import Measured, Target

MOST_TABLES = 400
ORDERS = range(2, 65)


@dataclass(frozen=True)
class Enumerated:
    """All log probabilities of a small system, and which tables are neighbours.

    Attributes
    ----------
    log_probability : array (confidential table, released table)
    records : array (table, table)
        How many records two tables are apart; -1 where they are not neighbours at any number.
    error : float
        A proven bound of the absolute error of a difference of two log probabilities.
    is_worst_at_home : bool
        Whether the output that tells s from another table best is s itself: the weight falls with ``|u|``.
    """

    tables: NDArray[np.int64]
    log_probability: Floats
    records: NDArray[np.int64]
    error: float
    is_worst_at_home: bool

    @classmethod
    def of(
        cls, constraints: Constraints, measured: Sequence[Measured], neighbours: str, limit: int = MOST_TABLES
    ) -> "Enumerated":
        """List the system; refuses more than `limit` tables."""
        if estimate_log10_count(constraints) > log(limit, 10) + 1:
            raise TooLargeError(f"more than {limit} tables obey the conditions")
        tables = enumerate_tables(constraints, limit)
        values = row_values([query.row for query in measured], tables)
        n, n_rows = len(tables), 2 * len(measured)  # a measured cell may have a floor too
        log_weight = np.zeros((n, n))
        for position, query in enumerate(measured):
            if not query.noise.is_discrete:
                raise PrivacyError(f"{query.noise.family} noise is continuous, for study; it has no certificate")
            # Whole numbers until here: values beyond 2^53 would lose their differences.
            gap = np.abs(values[:, None, position] - values[None, :, position]).astype(np.float64)
            log_weight += gap**query.noise.exponent * np.log(float(query.noise.base))
        floors = Target(constraints, tuple(measured), tables[0]).floors(tables)
        for floor, n_floors in floors.items():
            log_weight += n_floors * log_of(floor)
        # Each row's term is a whole number times a logarithm, each off by one unit in the last place at most, so a sum
        # of R rows is off by (R + 2) u of its size: so is, relatively, every weight, and c(s), which is their sum.
        unit = 2.0**-53
        normaliser = np.exp(log_weight).sum(axis=1)
        largest = float(np.abs(log_weight).max(initial=0.0))
        error = 8 * unit * ((n_rows + 4) * (n + largest + 1) + n)
        change = tables[:, None, :] - tables[None, :, :]
        norm, balance = np.abs(change).sum(axis=2), change.sum(axis=2)
        records = np.where(balance == 0, norm // 2, -1) if neighbours == "bounded" else norm
        is_worst_at_home = all(query.noise.exponent == 1 for query in measured)
        return cls(tables, log_weight - np.log(normaliser)[:, None], records, error, is_worst_at_home)

    def pairs(self, k: int) -> NDArray[np.intp]:
        """Return the ordered pairs of different tables at most `k` records apart (pair, 2)."""
        return np.argwhere((self.records > 0) & (self.records <= k))

    def losses(self, pairs: NDArray[np.intp]) -> Floats:
        """Return ``max_t log P(t | s) / P(t | s')`` of each pair."""
        if self.is_worst_at_home:
            s, other = pairs[:, 0], pairs[:, 1]
            return np.asarray(self.log_probability[s, s] - self.log_probability[other, s])
        return np.array(
            [float((self.log_probability[s] - self.log_probability[other]).max()) for s, other in pairs.tolist()]
        )

    def divergences(self, pairs: NDArray[np.intp], order: float) -> Floats:
        """Return the Renyi divergence of each pair at an order above 1."""
        out = np.empty(len(pairs))
        for number, (s, other) in enumerate(pairs.tolist()):
            terms = order * self.log_probability[s] + (1 - order) * self.log_probability[other]
            peak = terms.max()
            out[number] = (peak + log(np.exp(terms - peak).sum())) / (order - 1)
        return out

    def worst_loss(self, k: int) -> Fraction:
        """Return an upper bound of the loss of every pair at most `k` records apart."""
        pairs = self.pairs(k)
        return _above(float(self.losses(pairs).max(initial=0.0)), self.error) if len(pairs) else Fraction(0)

    def worst_rho(self, k: int) -> Fraction:
        """Return an upper bound of ``D_alpha / alpha`` over all pairs and all integer orders.

        Up to order 64 by computation; above it ``D_alpha`` is at most the pure loss.
        """
        pairs = self.pairs(k)
        if not len(pairs):
            return Fraction(0)
        worst = max(float(self.divergences(pairs, order).max(initial=0.0)) / order for order in ORDERS)
        beyond = self.worst_loss(k) / (ORDERS[-1] + 1)
        # (alpha - 1) D_alpha mixes two log probabilities with weights alpha and alpha - 1.
        return max(beyond, _above(worst, 4 * self.error))


def _above(value: float, error: float) -> Fraction:
    return round_up(Fraction(value) + Fraction(error), 12)
