"""Audits of a claimed loss: exact over all pairs and outputs of a small S*, or by draws of neighbouring tables.

An audit can only find a claim too small. That it finds nothing is no proof: certificates are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.errors import PrivacyError, TooLargeError, import_extra
from congenial.fraction import exact_fraction
from congenial.privacy.attack import search_worst_pair
from congenial.privacy.certificate import Certificate
from congenial.privacy.enumerated import Enumerated
from congenial.randomness import RandomStream
from congenial.sampling.choose import sampler_of
from congenial.sampling.target import Measured, Target

Draw = Callable[[Ints, int], Ints]
"""A mechanism from outside: a table and a number of draws to draws (draw, cell)."""

_FEW_OUTCOMES = 20  # draws for each distinct outcome, on average, below which outcomes are pooled


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    found : float
        The largest loss: exactly, or a lower bound that holds with `confidence`.
    claimed : Fraction
        The loss that was claimed.
    confidence : float
        1 for an exact audit.
    pair : pair of tables
        Where it was found.
    """

    method: str
    found: float
    claimed: Fraction
    confidence: float
    pair: tuple[tuple[int, ...], tuple[int, ...]] | None
    n_pairs: int

    @property
    def is_violated(self) -> bool:
        """Whether the claim is shown to be too small."""
        return Fraction(self.found) > self.claimed if self.found < inf else True

    def __repr__(self) -> str:
        verdict = "VIOLATED" if self.is_violated else "not violated"
        sure = "exactly" if self.confidence == 1 else f"at least, with confidence {self.confidence:g}"
        return f"claim of {float(self.claimed):.6g} {verdict}: {self.method} found {self.found:.6g} {sure}"


def audit(
    constraints: Constraints,
    measured: Sequence[Measured],
    certificate: Certificate,
    *,
    rng: RandomStream,
    n_draws: int = 100_000,
) -> Audit:
    """Audit a certificate of a law: exactly when S* is small, else by draws at the worst pair that a search finds.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> from congenial.privacy.certify import certify
    >>> from congenial.randomness import replay_rng
    >>> target = two_bins().target
    >>> claim = certify(target.constraints, target.measured)
    >>> print(audit(target.constraints, target.measured, claim, rng=replay_rng(1)))
    claim of 2.11063 not violated: all pairs and outputs found 2.11063 exactly
    """
    if certificate.loss is None:
        raise PrivacyError("the certificate bounds no pure loss; audit an epsilon at a delta with audit_draws")
    try:
        return audit_exactly(constraints, measured, certificate.loss, certificate.neighbours, certificate.k)
    except TooLargeError:
        pass
    worst = search_worst_pair(constraints, measured, certificate.neighbours, rng=rng)

    def draw(table: Ints, n: int) -> Ints:
        target = Target(constraints, tuple(measured), table)
        return sampler_of(target).at(table).sample(n, rng)

    return audit_draws(draw, worst.table, worst.other, certificate.loss, n_draws=n_draws)


def audit_exactly(
    constraints: Constraints, measured: Sequence[Measured], claimed: object, neighbours: str = "bounded", k: int = 1
) -> Audit:
    """Go through every pair of neighbours at most `k` records apart and every output."""
    claim = exact_fraction(claimed, "the claimed loss")
    listed = Enumerated.of(constraints, measured, neighbours)
    worst, where = 0.0, None
    n_pairs = 0
    for s in range(len(listed.tables)):
        near = np.flatnonzero((listed.records[s] > 0) & (listed.records[s] <= k))
        if not near.size:
            continue
        n_pairs += near.size
        losses = (listed.log_probability[s][None, :] - listed.log_probability[near]).max(axis=1)
        best = int(np.argmax(losses))
        if losses[best] > worst:
            worst, where = float(losses[best]), (s, int(near[best]))
    pair = None if where is None else (tuple(listed.tables[where[0]].tolist()), tuple(listed.tables[where[1]].tolist()))
    return Audit("all pairs and outputs", max(0.0, worst - listed.error), claim, 1.0, pair, n_pairs)


def audit_draws(
    draw: Draw,
    table: ArrayLike,
    other: ArrayLike,
    claimed: object,
    *,
    delta: object = 0,
    n_draws: int = 100_000,
    confidence: float = 0.9999,
) -> Audit:
    """Audit any mechanism from its draws: a Clopper-Pearson lower bound of epsilon, at a delta.

    Half of the draws pick an event that tells the two tables apart, the other half measure its probabilities. Both
    directions are tried, each at half of the allowed error. A mechanism that reuses its seed gives the same table
    every time, and is caught by that.

    Parameters
    ----------
    draw : callable
        ``draw(table, n)`` returns `n` draws (draw, cell) as the mechanism would release them.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> from congenial.randomness import replay_rng
    >>> law = two_bins()
    >>> def stuck(table, n):  # a mechanism that starts from the same seed in every run
    ...     return np.repeat(law.sample(1, replay_rng(5)) + table - law.target.centre, n, axis=0)
    >>> audit_draws(stuck, [2, 3], [3, 2], "3", n_draws=1000).is_violated
    True
    """
    claim, slack = exact_fraction(claimed, "the claimed loss"), exact_fraction(delta, "delta")
    if not 0 < confidence < 1:
        raise PrivacyError(f"confidence lies strictly between 0 and 1, and it is {confidence}")
    if n_draws < 100:
        raise PrivacyError(f"an audit by draws takes at least 100 draws, not {n_draws}")
    first, second = (np.asarray(side, np.int64).reshape(-1) for side in (table, other))
    draws = [np.asarray(draw(side, n_draws)) for side in (first, second)]
    outcomes = _outcomes(draws, first != second)
    error = (1 - confidence) / 2
    found = max(_bound(*pair, error, float(slack)) for pair in (outcomes, outcomes[::-1]))
    pair = (tuple(first.tolist()), tuple(second.tolist()))
    return Audit(f"{n_draws:,} draws of each table", max(0.0, found), claim, confidence, pair, 1)


def _outcomes(draws: Sequence[Ints], changed: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Number the outcomes: whole tables where they repeat often enough, else the cells that differ in the pair."""
    stacked = np.concatenate(draws)
    labels = _numbered(stacked)
    if labels.max() + 1 > len(labels) / _FEW_OUTCOMES:
        labels = _numbered(stacked[:, changed])
    return labels[: len(draws[0])], labels[len(draws[0]) :]


def _numbered(draws: Ints) -> Ints:
    """Give equal draws equal numbers, from 0 on."""
    low = draws.min(axis=0)
    sizes = (draws.max(axis=0) - low + 1).tolist()
    if prod(sizes) < 2**62:  # one whole number for each draw: ten times faster than comparing rows
        draws = ((draws - low) @ np.cumprod([1, *sizes[:-1]])).reshape(-1, 1)
        return np.unique(draws[:, 0], return_inverse=True)[1].reshape(-1)
    return np.unique(draws, axis=0, return_inverse=True)[1].reshape(-1)


def _bound(first: Ints, two: Ints, error: float, delta: float) -> float:
    """Return a lower bound of ``log (P(E) - delta) / P'(E)``: E is picked on one half and measured on the other."""
    half = len(first) // 2
    size = int(max(first.max(), two.max())) + 1
    picked = [np.bincount(side[:half], minlength=size) for side in (first, two)]
    ratio = (picked[0] + 0.5) / (picked[1] + 0.5)
    order = np.argsort(-ratio, kind="stable")
    ups, downs = np.cumsum(picked[0][order]), np.cumsum(picked[1][order])
    candidates = np.unique(np.geomspace(1, size, 60).astype(int)) - 1
    scores = [_log_ratio(int(ups[i]), int(downs[i]), half, error, delta) for i in candidates]
    event = order[: int(candidates[int(np.argmax(scores))]) + 1]
    hits = [int(np.isin(side[half:], event).sum()) for side in (first, two)]
    return _log_ratio(hits[0], hits[1], len(first) - half, error, delta)


def _log_ratio(hits: int, other_hits: int, n: int, error: float, delta: float) -> float:
    beta = import_extra("scipy.stats", "study").beta  # 0.5 s to import

    # Clopper and Pearson (1934): each end at half of the error.
    low = float(beta.ppf(error / 2, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - error / 2, other_hits + 1, n - other_hits)) if other_hits < n else 1.0
    return log((low - delta) / high) if low > delta else -inf
