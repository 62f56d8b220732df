"""Audits of a claimed loss: exact over all pairs and outputs of a small S*, or by draws of neighbouring tables.

An audit can only find a claim too small. That it finds nothing is no proof: certificates are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, log1p

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints, distinct_rows
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import integer_solutions, spread
from congenial.conditions.integer_program import minimise
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import PrivacyError, TooLargeError, import_extra
from congenial.exact import exact_fraction, log_of
from congenial.privacy import check_relation
from congenial.privacy.bounds_and_enumerated_losses import Enumerated, round_up
from congenial.privacy.certificate import Certificate
from congenial.privacy.closest_neighbours_and_unprotected import neighbours_of
from congenial.randomness import RandomStream
from congenial.sampling.elimination.compiled_layout import Elimination
from congenial.sampling.elimination.sampler import Messages, elimination_of
from congenial.sampling.sampler_and_registry import sampler_of
from congenial.sampling.target_and_system import Measured, Target

# The exact loss of one pair of tables: ``D + log c(s') - log c(s)``, from the exact engine's normalisers.

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
    >>> loss = losses.pair(table.counts, other)
    >>> round(loss.value, 4), loss.error < 1e-11
    (1.0023, True)
    """

    constraints: Constraints
    measured: tuple[Measured, ...]
    engine: Elimination

    @classmethod
    def of(cls, constraints: Constraints, measured: Sequence[Measured]) -> "Losses":
        """Plan the system once; needs Double Geometric noise, where the worst output is the table itself."""
        if not measured or not all(query.noise.is_discrete and query.noise.exponent == 1 for query in measured):
            raise PrivacyError(
                "the loss of a pair is D + log c(s') - log c(s) for double_geometric noise only;"
                " under Gaussian noise go through a small S* with privacy.enumerated"
            )
        target = Target(constraints, tuple(measured), np.array(constraints.point, np.int64))
        return cls(constraints, tuple(measured), elimination_of(target))

    def log_normaliser(self, table: ArrayLike) -> tuple[float, float]:
        """Return ``log c(s)`` and a bound of its error."""
        messages = Messages.of(self.engine, self._checked(table))
        value = messages.log_normaliser
        return value, log1p(messages.relative_error) + 8 * _UNIT * (1 + abs(value))

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


# A search for bad pairs of neighbouring tables: a lower bound of the worst loss, never a certificate.

_FEW_GROUPS = 64
_STARTS = 6


@dataclass(frozen=True)
class WorstPair:
    """The worst pair that was found. No proof that there is no worse one: this is not a certificate.

    Attributes
    ----------
    loss : float
        A lower bound of the worst loss, the error of its computation taken off.
    """

    loss: float
    gamma: float
    table: tuple[int, ...]
    other: tuple[int, ...]
    n_pairs: int


def search_worst_pair(
    constraints: Constraints,
    measured: Sequence[Measured],
    neighbours: str = "bounded",
    *,
    n_steps: int = 400,
    rng: RandomStream,
) -> WorstPair:
    """Climb from example pairs of neighbours toward pairs that an output tells apart best.

    Both tables of a pair are changed together, so that they stay neighbours: records are moved between cells that the
    equalities treat alike, many at first and fewer later, and a change is kept when the pair's exact loss grows.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> from congenial.randomness import replay_rng
    >>> target = two_bins().target
    >>> worst = search_worst_pair(target.constraints, target.measured, rng=replay_rng(1), n_steps=50)
    >>> round(worst.loss, 4)
    2.1106
    """
    neighbourhood = neighbours_of(constraints, check_relation(neighbours))
    if neighbourhood.pair is None:
        raise PrivacyError("no two tables that obey the conditions are neighbours, so there is no pair to attack")
    losses = Losses.of(constraints, measured)
    classes = [np.array(cells) for cells in constraints.alike.values() if len(cells) > 1]
    across = _across(constraints)
    first, second = (np.array(side, np.int64) for side in neighbourhood.pair)
    best, best_loss, tried = (first, second), -np.inf, 0
    starts = [(first, second), (second, first), *_in_each_class(constraints, first, classes, neighbours)]
    for corner in _corners(constraints):
        starts += _in_each_class(constraints, corner, classes, neighbours)
    starts = sorted(starts, key=lambda pair: -_value(losses, *pair))[:_STARTS]
    for start in starts:
        pair, value = start, _value(losses, *start)
        tried += 1
        for step in range(n_steps // len(starts)):
            size = max(1, int(max(first.max(initial=1), 1) * (1 - step / max(1, n_steps // len(starts))) ** 2))
            # Every fourth step shifts records between classes, along the equalities' own solutions.
            moved = _shifted(pair, across, size, rng) if across and step % 4 == 3 else _moved(pair, classes, size, rng)
            if moved is None or not bool(np.all(constraints.holds(np.stack(moved)))):
                continue
            tried += 1
            attempt = _value(losses, *moved)
            if attempt > value:
                pair, value = moved, attempt
        if value > best_loss:
            best, best_loss = pair, value
    worst = losses.pair(*best)
    return WorstPair(best_loss, worst.gamma, tuple(best[0].tolist()), tuple(best[1].tolist()), tried)


Circuit = list[tuple[Ints, int]]
"""Cells to choose one from, with a weight, for each group that a step touches."""


def _corners(constraints: Constraints) -> Iterator[Ints]:
    """Go through tables in which one group of cells holds as few or as many records as it can."""
    grouped = constraints.grouped
    if len(grouped.members) > _STARTS:
        return
    for group in range(len(grouped.members)):
        for sign in (1, -1):
            point = minimise(grouped.rows, grouped.box, {group: sign}).point
            if point is not None:
                yield np.array(spread(grouped, list(point), constraints.lower, constraints.upper), np.int64)


def _across(constraints: Constraints) -> list[Circuit]:
    """Return steps between groups of cells that keep every equality."""
    grouped = constraints.grouped
    equal = [(row.terms, 0) for row in grouped.rows if row.is_equality]
    solutions = integer_solutions(equal, len(grouped.members)) if len(grouped.members) <= _FEW_GROUPS else None
    lines = () if solutions is None else solutions.basis
    return [[(np.array(grouped.members[g]), weight) for g, weight in enumerate(line) if weight] for line in lines]


def _shifted(pair: tuple[Ints, Ints], across: Sequence[Circuit], size: int, rng: RandomStream) -> tuple[Ints, Ints]:
    """Take some steps of one circuit in both tables at once, out of cells that hold records where it can."""
    number, records, way = rng.below(np.array([len(across), size, 2], np.int64)).tolist()
    first, second = pair[0].copy(), pair[1].copy()
    for cells, weight in across[number]:
        signed = weight if way else -weight
        held = cells[np.minimum(first[cells], second[cells]) > 0] if signed < 0 else cells
        choice = held if len(held) else cells
        cell = int(choice[int(rng.below(np.array([len(choice)], np.int64))[0])])
        for table in (first, second):
            table[cell] += signed * (1 + records)
    return first, second


def _in_each_class(
    constraints: Constraints, table: Ints, classes: Sequence[Ints], neighbours: str
) -> Iterator[tuple[Ints, Ints]]:
    """Go through the classes of cells, with one record changed inside each."""
    if neighbours == "unbounded":
        return
    for cells in classes:
        source = int(cells[int(np.argmax(table[cells]))])
        into = next(int(cell) for cell in cells if cell != source)
        other = table.copy()
        other[source] -= 1
        other[into] += 1
        if constraints.holds(other):
            yield table, other


def _value(losses: Losses, table: Ints, other: Ints) -> float:
    loss = losses.pair(table, other)
    return loss.value - loss.error


def _moved(pair: tuple[Ints, Ints], classes: Sequence[Ints], size: int, rng: RandomStream) -> tuple[Ints, Ints] | None:
    """Move some records between two cells of one class, in both tables; sometimes the pair's own step changes cells."""
    if not classes:
        return None
    pick = rng.below(np.array([len(classes), size, 4, 2**30, 2**30], np.int64)).tolist()
    cells, first, second = classes[pick[0]], pair[0].copy(), pair[1].copy()
    full = cells[np.minimum(first[cells], second[cells]) > 0]
    sources = full if len(full) else cells
    source, into = int(sources[pick[3] % len(sources)]), int(cells[pick[4] % len(cells)])
    if source == into:
        return None
    if pick[2] == 0:  # the changed record goes to, or comes from, another cell of its class
        change = second - first
        ends = [cell for cell in cells.tolist() if change[cell]]
        if ends and not change[into]:
            end = ends[pick[3] % len(ends)]
            second[into] += change[end]
            second[end] -= change[end]
            return first, second
    room = int(min(first[source], second[source]))
    records = min(1 + pick[1], room) if room > 0 else 1
    for table in (first, second):
        table[source] -= records
        table[into] += records
    return first, second


Draw = Callable[[Ints, int], Ints]
"""A mechanism from outside: a table and a number of draws to draws (draw, cell)."""

_FEW_OUTCOMES = 20  # draws for each distinct outcome, on average, below which outcomes are pooled


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found.

    Attributes
    ----------
    loss : float
        The largest that was found: exactly, or a lower bound that holds with `confidence`.
    claimed : Fraction
        The loss that was claimed.
    confidence : float
        1 for an exact audit.
    pair : pair of tables
        Where it was found.
    """

    method: str
    loss: float
    claimed: Fraction
    confidence: float
    pair: tuple[tuple[int, ...], tuple[int, ...]] | None
    n_pairs: int

    @property
    def is_violated(self) -> bool:
        """Whether the claim is shown to be too small."""
        return Fraction(self.loss) > self.claimed if self.loss < inf else True

    def __repr__(self) -> str:
        verdict = "VIOLATED" if self.is_violated else "not violated"
        sure = "exactly" if self.confidence == 1 else f"at least, with confidence {self.confidence:g}"
        return f"claim of {float(self.claimed):.6g} {verdict}: {self.method} found {self.loss:.6g} {sure}"


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
    bound = max(_bound(*pair, error, float(slack)) for pair in (outcomes, outcomes[::-1]))
    pair = (tuple(first.tolist()), tuple(second.tolist()))
    return Audit(f"{n_draws:,} draws of each table", max(0.0, bound), claim, confidence, pair, 1)


def _outcomes(draws: Sequence[Ints], changed: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Number the outcomes: whole tables where they repeat often enough, else the cells that differ in the pair."""
    stacked = np.concatenate(draws)
    _, labels = distinct_rows(stacked)
    if labels.max() + 1 > len(labels) / _FEW_OUTCOMES:
        _, labels = distinct_rows(stacked[:, changed])
    return labels[: len(draws[0])], labels[len(draws[0]) :]


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
