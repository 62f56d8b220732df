"""The bounds of docs/claims as numbers, each an exact fraction rounded up: enclosed in balls, never estimated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, floor, inf, log, sqrt

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import PrivacyError, TooLargeError
from congenial.exact import ball, ends, log_of
from congenial.sampling.enumeration import enumerate_tables, estimate_log10_count
from congenial.sampling.target_and_system import Measured, Target

DIGITS = 15
"""Losses are rounded up to this many decimals."""

_BITS = 160
_FAR = 1000


def round_up(value: Fraction, digits: int = DIGITS) -> Fraction:
    """Return the smallest decimal of so many digits at or above a value.

    Examples
    --------
    >>> round_up(Fraction(1, 3), 2)
    Fraction(17, 50)
    """
    return Fraction(ceil(value * 10**digits), 10**digits)


def unit_of(size: Fraction, digits: int) -> Fraction:
    """Return the last of so many significant digits of a number.

    Examples
    --------
    >>> unit_of(Fraction("3.14159"), 3)
    Fraction(1, 100)
    """
    unit = Fraction(1)
    while size / unit < 10 ** (digits - 1):
        unit /= 10
    while size / unit >= 10**digits:
        unit *= 10
    return unit


def rounded_down(value: Fraction, digits: int = DIGITS) -> Fraction:
    """Return the largest decimal of so many significant digits at or below a value.

    Examples
    --------
    >>> rounded_down(Fraction(2, 3), 2), rounded_down(Fraction(0))
    (Fraction(33, 50), Fraction(0, 1))
    """
    unit = unit_of(value, digits) if value else Fraction(1)
    return floor(value / unit) * unit


def _above(formula: Callable[[], flint.arb], size: Fraction | int = 1) -> Fraction:
    """Return a proven upper end of a formula, at a working precision that suits the size of its terms."""
    with flint.ctx.workprec(_bits(size)):
        return round_up(ends(formula())[1])


def _bits(size: Fraction | int) -> int:
    """Return a working precision at which ``exp(size)`` and 1 can be told apart."""
    return _BITS + 3 * min(int(size), 10**6)


def conditional_loss(distance: Fraction, least: Fraction | None) -> Fraction:
    """Return ``D + log(1 + exp(-2m) (exp(D) - 1))``: docs/claims/conditional-loss.md.

    Parameters
    ----------
    distance : Fraction
        D, the weighted distance of the pair.
    least : Fraction or None
        m, the smallest precision of a limit that the move can meet: 0 gives ``2 D``, None (no limit at all) ``D``.

    Examples
    --------
    >>> float(conditional_loss(Fraction(1), Fraction(1, 2)))  # one changed record, every cell at precision 1/2
    1.48988012564475
    """
    if distance == 0 or least is None:
        return distance
    if least == 0:
        return 2 * distance
    if distance > _FAR:  # log(1 + exp(-2m) (exp(D) - 1)) <= log(1 + exp(D - 2m)), without large exponentials
        gap = distance - 2 * least

        def rest() -> flint.arb:
            return (1 + (-ball(abs(gap))).exp()).log()

        return min(2 * distance, distance + max(gap, Fraction(0)) + _above(rest))
    big, small = distance, least
    return min(
        2 * distance, _above(lambda: ball(big) + (1 + (-2 * ball(small)).exp() * ball(big).expm1()).log(), distance)
    )


def rho_at_all_orders(rho: Fraction) -> Fraction:
    """Return ``min(2 rho, arccosh(exp(2 rho))^2 / 4)``: zCDP at all real orders from the bound at integer orders.

    Examples
    --------
    >>> float(rho_at_all_orders(Fraction(1, 10)))
    0.106841708164377
    """
    if rho == 0:
        return rho

    def formula() -> flint.arb:
        # arccosh(e^x) = x + log(1 + sqrt(1 - e^(-2x))), which does not overflow.
        x = 2 * ball(rho)
        return (x + (1 + (-((-2 * x).expm1())).sqrt()).log()) ** 2 / 4

    return min(2 * rho, _above(formula))


def epsilon_at(rho: Fraction, delta: Fraction) -> Fraction:
    """Return epsilon at delta, from ``D_k <= k rho`` at the best integer order k, rounded up.

    ``epsilon = k rho + (log(1/delta) - log(k - 1) + k log(1 - 1/k)) / (k - 1)``, the conversion of Canonne, Kamath and
    Steinke (2020) at integers, where the bound holds. Never below 0.

    Examples
    --------
    >>> float(round_up(epsilon_at(Fraction("2.56"), Fraction(1, 10**10)), 3))
    17.166
    """
    if rho == 0:
        return Fraction(0)
    need, slope = -log_of(delta), float(rho)

    def rough(order: float) -> float:
        return order * slope + (need - log(order - 1) + order * log(1 - 1 / order)) / (order - 1)

    guess = 1 + sqrt(max(need, 1e-9) / max(slope, 1e-300))
    near = {2, 3, *(max(2, int(guess * step / 16)) for step in range(4, 33))}
    best = min(near, key=rough)
    step = max(1, best // 8)
    while step:  # any order is valid, and near the best one the bound is flat
        best = min((best, max(2, best - step), best + step), key=rough)
        step //= 2
    best = min(range(max(2, best - 3), best + 4), key=rough)
    k = best

    def formula() -> flint.arb:
        log_delta = ball(delta).log()
        return ball(k * rho) + (-log_delta - flint.arb(k - 1).log() + k * (1 - 1 / flint.arb(k)).log()) / (k - 1)

    return max(Fraction(0), _above(formula))


def odds_factor(loss: Fraction) -> float:
    """Return ``exp(loss)`` rounded up to three significant digits, for people; infinite from 700 on.

    Examples
    --------
    >>> odds_factor(Fraction(1))
    2.72
    """
    if loss > 700:
        return inf
    if loss == 0:
        return 1.0
    value = exp(float(loss)) * (1 + 1e-12)
    digits = 2 - len(str(int(value))) + 1
    return ceil(value * 10**digits) / 10**digits if digits > 0 else float(ceil(value))


def calibrated_cells(epsilon: Fraction, neighbours: str) -> Fraction:
    """Return the largest precision of equally precise nonnegative cells at one changed record, rounded down.

    ``2 e0 = log((1 + exp(epsilon)) / 2)`` for bounded neighbours, ``e0 = asinh((exp(epsilon) - 1) / 2)`` for unbounded.

    Examples
    --------
    >>> float(2 * calibrated_cells(Fraction(1), "bounded"))
    0.6201145069582774
    """
    with flint.ctx.workprec(_bits(epsilon)):
        grown = ball(epsilon).expm1()
        value = (1 + grown / 2).log() / 2 if neighbours == "bounded" else (grown / 2).asinh()
        low: Fraction = ends(value)[0]
    return Fraction(floor(low * 10 ** (DIGITS + 1)), 10 ** (DIGITS + 1))


# Certificates of a small S*: every table, every pair of neighbours, every output.
#
# Normalisers are sums of positive doubles with a proven error, which is added to the result:
# docs/claims/enumerated-loss.md.

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
        n, n_rows = len(tables), 2 * len(measured)  # a measured cell may have a zero weight too
        log_weight = np.zeros((n, n))
        for position, query in enumerate(measured):
            if not query.noise.is_discrete:
                raise PrivacyError(f"{query.noise.family} noise is continuous, for study; it has no certificate")
            # Whole numbers until here: values beyond 2^53 would lose their differences.
            gap = np.abs(values[:, None, position] - values[None, :, position]).astype(np.float64)
            log_weight += gap**query.noise.exponent * np.log(float(query.noise.base))
        zero_weights = Target(constraints, tuple(measured), tables[0]).zero_weights(tables)
        for weight, n_at_limit in zero_weights.items():
            log_weight += n_at_limit * log_of(weight)
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
        return _rounded_above(float(self.losses(pairs).max(initial=0.0)), self.error) if len(pairs) else Fraction(0)

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
        return max(beyond, _rounded_above(worst, 4 * self.error))


def _rounded_above(value: float, error: float) -> Fraction:
    return round_up(Fraction(value) + Fraction(error), 12)
