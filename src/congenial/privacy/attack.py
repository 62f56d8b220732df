"""A search for bad pairs of neighbouring tables: a lower bound of the worst loss, never a certificate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.groups import spread
from congenial.conditions.integer_program import minimise
from congenial.conditions.lattice import integer_solutions
from congenial.errors import PrivacyError
from congenial.privacy.loss import Losses
from congenial.privacy.neighbours import neighbours_of
from congenial.privacy.relation import check_relation
from congenial.randomness import RandomStream
from congenial.sampling.target import Measured

_FEW_GROUPS = 64
_STARTS = 6


@dataclass(frozen=True)
class Attack:
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
) -> Attack:
    """Climb from example pairs of neighbours toward pairs that an output tells apart best.

    Both tables of a pair are changed together, so that they stay neighbours: records are moved between cells that the
    equalities treat alike, many at first and fewer later, and a change is kept when the pair's exact loss grows.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> from congenial.randomness import replay_rng
    >>> target = two_bins().target
    >>> found = search_worst_pair(target.constraints, target.measured, rng=replay_rng(1), n_steps=50)
    >>> round(found.loss, 4)
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
    found = losses.pair(*best)
    return Attack(best_loss, found.gamma, tuple(best[0].tolist()), tuple(best[1].tolist()), tried)


Circuit = list[tuple[Ints, int]]
"""Cells to choose one from, with a weight, for each group that a step touches."""


def _corners(constraints: Constraints) -> Iterator[Ints]:
    """Go through tables in which one group of cells holds as few or as many records as it can."""
    grouped = constraints.grouped
    if len(grouped.members) > _STARTS:
        return
    for group in range(len(grouped.members)):
        for sign in (1, -1):
            found = minimise(grouped.rows, grouped.box, {group: sign}).point
            if found is not None:
                yield np.array(spread(grouped, list(found), constraints.lower, constraints.upper), np.int64)


def _across(constraints: Constraints) -> list[Circuit]:
    """Return steps between groups of cells that keep every equality."""
    grouped = constraints.grouped
    equal = [(row.coefficients, 0) for row in grouped.rows if row.is_equality]
    solutions = integer_solutions(equal, len(grouped.members)) if len(grouped.members) <= _FEW_GROUPS else None
    lines = () if solutions is None else solutions.basis
    return [[(np.array(grouped.members[g]), weight) for g, weight in enumerate(line) if weight] for line in lines]


def _shifted(pair: tuple[Ints, Ints], across: Sequence[Circuit], size: int, rng: RandomStream) -> tuple[Ints, Ints]:
    """Take some steps of one circuit in both tables at once, out of cells that hold records where it can."""
    which, records, way = rng.below(np.array([len(across), size, 2], np.int64)).tolist()
    first, second = pair[0].copy(), pair[1].copy()
    for cells, weight in across[which]:
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
    found = losses.pair(table, other)
    return found.value - found.error


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
