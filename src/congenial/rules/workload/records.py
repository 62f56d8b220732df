"""Records whose tables are near to targets and have every exact number: annealing in the metric of what was measured.

The records start as a systematic sample of the joint fit, as independent columns where there is none, or as records
that were published earlier. Records are then reassigned so that exact margins hold, one margin after the other where
each shares with those before it no more than a margin of one of them. What still lacks an exact number is brought
there by heavy weights, and what it lacks at the end is refused. From then on every move keeps exact margins: attributes
in none of them change freely, others are exchanged by two records. After taking away the attributes of a *separator*,
exact margins fall into parts; two records that agree in the separator may exchange all attributes of a part, and every
exact margin is as before. No move puts a record into a structural zero or takes an exact sum from its value.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError, TooLargeError, UndecidedError
from congenial.portable_math import log_e
from congenial.progress_and_interrupts import DECIDING, Progress, checkpoint, silent
from congenial.randomness import KeyedWords
from congenial.rules.workload.fit import sample_systematically
from congenial.rules.workload.kernels_records import (
    COUNT_BITS,
    ENERGY,
    SOFT_SUM,
    SUM,
    THRESHOLD_BITS,
    ZEROS,
    Board,
    Moves,
    Partners,
    anneal,
)
from congenial.rules.workload.margins import Axes, count_records, maximal, shape_of, sum_onto
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements

Records = NDArray[np.int16]

WEIGHT_BITS = 12
"""The largest weight of a target is ``2**WEIGHT_BITS``; the others are whole numbers in proportion."""

PULL = 0.3
"""The weight of the cells of the joint fit, over the largest weight of a target, and at most `MOST_PULL`."""
MOST_PULL = 0.02


class Stage(NamedTuple):
    """Some sweeps at one temperature, which is over the largest weight; a sweep is a proposal for each value."""

    temperature: float
    n_sweeps: int
    hold: int = 0


FROM_FIT = (Stage(0.3, 3), Stage(0.075, 3), Stage(0.015, 4))
FROM_COLUMNS = (Stage(130, 5), Stage(13, 10), Stage(4.5, 10), Stage(1.3, 10), Stage(0.45, 10), Stage(0.1, 10))
TOWARDS_EXACT = (
    *(Stage(temperature, 10, hold) for hold in (2, 20, 200) for temperature in (3, 1, 0.3, 0.1)),
    *(Stage(temperature, 20, 10_000) for temperature in (0.3, 0.03)),
)
"""Stages with the weights, over the largest of a target, that bring and hold exact numbers which moves do not keep.

They rise slowly: with 60 from the start, three-way tables beside fifteen exact two-way ones were off by 5 a cell, and
so they are off by 2.
"""

BACK_TO_EXACT = (
    *(Stage(temperature, 5, 1_000) for temperature in (200, 100, 50, 20, 10, 3, 1, 0.3)),
    Stage(0.3, 5, 10_000),
)
"""Stages for the few records that still miss exact numbers: hot enough to miss some others on the way."""


_MOST_ATTEMPTS = 8
_SUM_WEIGHT = 60  # of an exact sum that is not reached yet


class Move(NamedTuple):
    """Attributes that are moved together: one of them changed, or all exchanged by two records that agree in others."""

    attributes: Axes
    is_exchange: bool
    agree: Axes = ()


@dataclass(frozen=True, eq=False)
class DecidedRecords:
    """Records, and how they came about.

    Attributes
    ----------
    records : array of int (record, attribute)
    n_sweeps : int
    n_taken : int
        Moves that were taken.
    energy : float
        Half the sum of squared distances from the targets, each times its weight.
    """

    records: Records = field(repr=False)
    n_sweeps: int
    n_taken: int
    energy: float


def keeping_moves(n_attributes: int, exact: Iterable[Axes], in_sums: Iterable[int] = ()) -> tuple[Move, ...]:
    """Return moves that leave exact margins as they are.

    Examples
    --------
    >>> for move in keeping_moves(4, [(0, 1), (1, 2)]):
    ...     print(move)
    Move(attributes=(3,), is_exchange=False, agree=())
    Move(attributes=(0, 1, 2), is_exchange=True, agree=())
    Move(attributes=(0,), is_exchange=True, agree=(1,))
    Move(attributes=(2,), is_exchange=True, agree=(1,))
    Move(attributes=(1,), is_exchange=True, agree=(0, 2))
    """
    held = maximal(axes for axes in exact if axes)
    fixed = sorted({axis for axes in held for axis in axes})
    moves = [Move((axis,), False) for axis in range(n_attributes) if axis not in fixed]
    separators: list[Axes] = [()]
    separators += [tuple(sorted(set(one) & set(other))) for one, other in combinations(held, 2)]
    separators += [tuple(sorted({other for axes in held if axis in axes for other in axes} - {axis})) for axis in fixed]
    for agree in dict.fromkeys(separators):
        moves += [
            Move(part, True, agree)
            for part in _parts(held, fixed, agree)
            if len(part) + len(agree) < n_attributes or agree
        ]
    moves += [Move((axis,), True) for axis in sorted(set(in_sums)) if axis not in fixed]
    return tuple(dict.fromkeys(moves))


def _parts(held: Sequence[Axes], attributes: Sequence[int], without: Axes) -> list[Axes]:
    """Return attributes that exact margins tie together, once some attributes are taken away."""
    parts: list[set[int]] = [{axis} for axis in attributes if axis not in without]
    for axes in held:
        tied = [part for part in parts if part & set(axes)]
        parts = [part for part in parts if not part & set(axes)] + ([set().union(*tied)] if tied else [])
    return sorted(tuple(sorted(part)) for part in parts)


def free_moves(n_attributes: int, exact: Iterable[Axes]) -> tuple[Move, ...]:
    """Return moves that may leave exact margins of several attributes, but not those of one alone."""
    held = maximal(axes for axes in exact if axes)
    alone = {axes[0] for axes in held if len(axes) == 1}
    changes = [Move((axis,), False) for axis in range(n_attributes) if axis not in alone]
    return (*changes, *(Move((axis,), True) for axis in range(n_attributes)))


# Public random numbers.


def _words(seed: bytes, purpose: str, n: int) -> NDArray[np.uint64]:
    key = hashlib.blake2b(purpose.encode(), key=seed, digest_size=32, person=b"workload records").digest()
    stream = KeyedWords(key, np.zeros((1, 2), np.uint64))
    return stream.stretch([0], [0], n + n % 2 + 2)[0, :n]


@lru_cache(maxsize=64)
def _logarithms() -> Floats:
    n = 2**THRESHOLD_BITS
    return np.array([-log_e((number + 0.5) / n) for number in range(n)])


# How records start.


def start_from_fit(cells: Floats, total: int, seed: bytes) -> Records:
    """Return a systematic sample of a joint table (record, attribute)."""
    offset = float(_words(seed, "sample", 2)[0] >> np.uint64(12)) / 2.0**52
    places = sample_systematically(cells, total, offset)
    return np.stack(np.unravel_index(places, cells.shape), axis=1).astype(np.int16)


def start_from_columns(columns: Sequence[Floats], total: int, seed: bytes) -> Records:
    """Return records with independent attributes, whose numbers of each level are near to some targets."""
    records = np.zeros((total, len(columns)), np.int16)
    for axis, target in enumerate(columns):
        levels = sample_systematically(np.maximum(target, 1e-6), total, 0.5)
        records[:, axis] = levels[np.argsort(_words(seed, f"column {axis}", total), kind="stable")]
    return records


def assign_exact(records: Records, exact: Sequence[tuple[Axes, Ints]], sizes: Sequence[int], seed: bytes) -> Records:
    """Return records of which as few as need be are reassigned to have exact margins, one after the other.

    A margin whose attributes meet those before it in no margin of one of them is left for later steps.

    Examples
    --------
    >>> records = np.array([[0, 0], [0, 1], [0, 0], [1, 1]], np.int16)
    >>> assigned = assign_exact(records, [((0,), np.array([2, 2])), ((1,), np.array([1, 3]))], (2, 2), bytes(32))
    >>> np.bincount(assigned[:, 0]).tolist(), np.bincount(assigned[:, 1]).tolist()
    ([2, 2], [1, 3])
    """
    wanted, records = dict(exact), records.copy()
    done: set[int] = set()
    for axes in in_running_order(maximal(axes for axes in wanted if axes)):
        shared = tuple(axis for axis in axes if axis in done)
        _assign(records, axes, shared, wanted[axes], sizes, _words(seed, f"assign {axes}", len(records)))
        done |= set(axes)
    return records


def in_running_order(tables: Sequence[Axes]) -> tuple[Axes, ...]:
    """Return tables such that each meets those before it in a margin of one of them; those of a ring are left out.

    Examples
    --------
    >>> in_running_order([(0, 1), (2, 3), (1, 2)]), in_running_order([(0, 1), (1, 2), (0, 2)])
    (((0, 1), (1, 2), (2, 3)), ((0, 1), (1, 2)))
    """
    waiting, ordered = list(tables), list[Axes]()
    while waiting:
        met = [{axis for some in ordered for axis in some} & set(axes) for axes in waiting]
        fitting = [
            (len(shared), -place)
            for place, shared in enumerate(met)
            if not shared or any(shared <= set(some) for some in ordered)
        ]
        if not fitting:
            break
        ordered.append(waiting.pop(-max(fitting)[1]))
    return tuple(ordered)


def _assign(
    records: Records, axes: Axes, shared: Axes, wanted: Ints, sizes: Sequence[int], words: NDArray[np.uint64]
) -> None:
    """Reassign the attributes of a margin that are not shared, within records that are alike in those that are."""
    own = tuple(axis for axis in axes if axis not in shared)
    order = (*shared, *own)
    goal = np.transpose(wanted, [axes.index(axis) for axis in order]).reshape(-1)
    n_own = prod(sizes[axis] for axis in own)
    cells = np.zeros(len(records), np.int64)
    for axis in order:
        cells = cells * sizes[axis] + records[:, axis]
    mixed = np.argsort(words, kind="stable")
    by_cell = mixed[np.argsort(cells[mixed], kind="stable")]
    counts = np.bincount(cells, minlength=len(goal))
    ranks = np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
    surplus = by_cell[ranks >= goal[cells[by_cell]]]
    surplus = surplus[np.argsort(cells[surplus] // n_own * len(records) + _ranks(words)[surplus], kind="stable")]
    lacking = np.repeat(np.arange(len(goal)), np.maximum(goal - counts, 0))
    if len(surplus) != len(lacking) or (cells[surplus] // n_own != lacking // n_own).any():
        return  # margins before it could not be assigned, so that these do not agree with them
    for axis in reversed(own):
        records[surplus, axis] = lacking % sizes[axis]
        lacking = lacking // sizes[axis]


def _ranks(words: NDArray[np.uint64]) -> Ints:
    ranks = np.empty(len(words), np.int64)
    ranks[np.argsort(words, kind="stable")] = np.arange(len(words))
    return ranks


# The board, and sweeps over it.


class _Layout(NamedTuple):
    """Tables in the order in which a move looks at them, and where their cells begin."""

    axes: tuple[Axes, ...]
    board: Board


def _layout(
    measurements: WorkloadMeasurements, records: Records, targets: Sequence[MeasuredTable], unit: float, hold: int
) -> _Layout:
    sizes, largest = measurements.sizes, 2**WEIGHT_BITS
    axes: list[Axes] = []
    kinds, weights, blocks, away = list[int](), list[int](), list[Ints](), list[int]()
    for zero_axes, mask in measurements.zeros:
        axes.append(zero_axes)
        kinds.append(ZEROS)
        weights.append(0)
        blocks.append(mask.astype(np.int64).reshape(-1))
        away.append(0)
    for exact in measurements.exact_sums:
        axes.append(exact.axes)
        kinds.append(SOFT_SUM if hold else SUM)
        weights.append(largest * (hold or _SUM_WEIGHT))
        blocks.append(exact.coefficients.astype(np.int64).reshape(-1))
        away.append(int((count_records(records, sizes, exact.axes) * exact.coefficients).sum()) - exact.value)
    goals = [(target.axes, target.values, max(1, round(target.precision / unit))) for target in targets]
    if hold:
        tables = dict(measurements.exact)
        goals += [(held, tables[held].astype(np.float64), hold * largest) for held in maximal(tables) if len(held) > 1]
    for goal_axes, values, weight in goals:
        counts = count_records(records, sizes, goal_axes)
        axes.append(goal_axes)
        kinds.append(ENERGY)
        weights.append(weight)
        block = np.rint(values * -(2.0**COUNT_BITS)).astype(np.int64)
        block += counts << COUNT_BITS
        blocks.append(block.reshape(-1))
        away.append(0)
    offsets = np.cumsum([0, *map(len, blocks)])[:-1]
    cells = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
    board = Board(np.array(kinds), offsets.astype(np.int64), np.array(weights), cells, np.array(away))
    return _Layout(tuple(axes), board)


def _compiled_moves(moves: Sequence[Move], layout: _Layout, sizes: Sequence[int]) -> Moves:
    tables, table_starts = list[int](), [0]
    terms, term_starts = list[tuple[int, int, bool]](), [0]
    for move in moves:
        for number, axes in enumerate(layout.axes):
            if set(axes) & set(move.attributes):
                tables.append(number)
                shape = shape_of(sizes, axes)
                terms += [(axis, prod(shape[place + 1 :]), axis in move.attributes) for place, axis in enumerate(axes)]
                term_starts.append(len(terms))
        table_starts.append(len(tables))
    buckets, n_buckets = [], 0
    for move in moves:
        buckets.append(n_buckets if move.agree else -1)
        n_buckets += bool(move.agree)
    starts, attributes = _flat([move.attributes for move in moves])
    agree_starts, agree = _flat([move.agree for move in moves])
    return Moves(
        np.array(sizes),
        starts,
        attributes,
        np.array([move.is_exchange for move in moves]),
        agree_starts,
        agree,
        np.array(buckets),
        np.array(table_starts),
        np.array(tables, np.int64),
        np.array(term_starts),
        np.array([axis for axis, _, _ in terms], np.int64),
        np.array([step for _, step, _ in terms], np.int64),
        np.array([is_moved for _, _, is_moved in terms], np.bool_),
    )


def _flat(groups: Sequence[Axes]) -> tuple[Ints, Ints]:
    starts = np.cumsum([0, *map(len, groups)])
    return starts.astype(np.int64), np.array([axis for group in groups for axis in group], np.int64)


def _partners(records: Records, moves: Sequence[Move], sizes: Sequence[int]) -> Partners:
    keyed = [move.agree for move in moves if move.agree]
    order, first, size = (np.zeros((len(keyed), len(records)), np.int32) for _ in range(3))
    for line, axes in enumerate(keyed):
        cells = np.zeros(len(records), np.int64)
        for axis in axes:
            cells = cells * sizes[axis] + records[:, axis]
        by_cell = np.argsort(cells, kind="stable")
        ordered = cells[by_cell]
        is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        starts = np.flatnonzero(is_new)
        which = np.cumsum(is_new) - 1
        order[line] = by_cell
        first[line, by_cell] = starts[which]
        size[line, by_cell] = np.diff([*starts.tolist(), len(records)])[which]
    return Partners(order, first, size)


def _sweep_through(
    measurements: WorkloadMeasurements,
    records: Records,
    targets: Sequence[MeasuredTable],
    moves: Sequence[Move],
    stages: Sequence[Stage],
    purpose: str,
    progress: Progress,
) -> int:
    """Anneal records in place, and return how many moves were taken."""
    if not len(records) or not moves:
        return 0
    sizes = measurements.sizes
    unit = max(target.precision for target in targets) / 2**WEIGHT_BITS
    n_all, done, n_taken = sum(stage.n_sweeps for stage in stages), 0, 0
    keys = _words(measurements.seed, purpose, n_all)
    layout, partners, compiled, hold = None, None, None, -1
    for stage in stages:
        if stage.hold != hold or layout is None or compiled is None:
            hold = stage.hold
            layout = _layout(measurements, records, targets, unit, hold)
            compiled = _compiled_moves(moves, layout, sizes)
        scale = stage.temperature * 2.0 ** (WEIGHT_BITS + COUNT_BITS)
        thresholds = np.rint(_logarithms() * scale).astype(np.int64)
        for _ in range(stage.n_sweeps):
            checkpoint()
            progress(DECIDING, done, n_all)
            if partners is None or len(partners.order):
                partners = _partners(records, moves, sizes)
            n_taken += int(anneal(records, compiled, layout.board, partners, thresholds, keys[done], records.size))
            done += 1
    return n_taken


# What must hold at the end.


def missed_margins(measurements: WorkloadMeasurements, records: Records) -> list[str]:
    """Return which exact margins records do not have, in words."""
    lacking = []
    for axes, table in measurements.exact:
        missed = int(np.abs(count_records(records, measurements.sizes, axes) - table).sum())
        if missed:
            lacking.append(f"the exact table of attributes {axes} is missed by {missed:,}")
    return lacking


def lacking_conditions(measurements: WorkloadMeasurements, records: Records) -> list[str]:
    """Return which exact numbers and structural zeros records do not have, in words: none if all is well.

    Examples
    --------
    >>> exact = (((0,), np.array([1, 1])),)
    >>> measured = WorkloadMeasurements((2,), ((0,),), (np.array([2, 1]),), (1.0,), exact)
    >>> lacking_conditions(measured, np.array([[0], [0]], np.int16))
    ['the exact table of attributes (0,) is missed by 2']
    """
    lacking, sizes = missed_margins(measurements, records), measurements.sizes
    for exact in measurements.exact_sums:
        missed = int((count_records(records, sizes, exact.axes) * exact.coefficients).sum()) - exact.value
        if missed:
            lacking.append(f"an exact sum in the table of attributes {exact.axes} is missed by {abs(missed):,}")
    for axes, mask in measurements.zeros:
        n_inside = int(count_records(records, sizes, axes)[mask].sum())
        if n_inside:
            lacking.append(f"{n_inside:,} records are in structural zeros of the table of attributes {axes}")
    return lacking


def energy_of(targets: Sequence[MeasuredTable], records: NDArray[Any], sizes: Sequence[int]) -> float:
    """Return half the sum of squared distances of the records' tables from targets, each times its weight."""
    energy = 0.0
    for target in targets:
        squares = (count_records(records, sizes, target.axes) - target.values) ** 2
        energy += 0.5 * target.precision * float(sum_onto(squares, target.axes, ()))
    return energy


def decide_records(
    measurements: WorkloadMeasurements,
    targets: Sequence[MeasuredTable],
    total: int,
    fit: Floats | None = None,
    start: NDArray[np.integer] | None = None,
    progress: Progress = silent,
) -> DecidedRecords:
    """Return records whose tables are near to targets, with every exact number and nothing in structural zeros.

    Parameters
    ----------
    targets : sequence of MeasuredTable
        Tables with values that may be fractions, and their weights.
    total : int
        How many records.
    fit : array of float, optional
        A joint table to start from, to which unmeasured sums are pulled.
    start : array of int (record, attribute), optional
        Records to start from, such as those of an earlier release.

    Examples
    --------
    >>> exact = (((0,), np.array([5, 3])),)
    >>> values = np.array([[3, 2], [0, 4]])
    >>> measured = WorkloadMeasurements((2, 2), ((0, 1),), (values,), (1.0,), exact)
    >>> decided = decide_records(measured, measured.measured(), 8)
    >>> count_records(decided.records, (2, 2), (0, 1)).tolist()
    [[3, 2], [0, 3]]
    """
    sizes, seed = measurements.sizes, measurements.seed
    if max(sizes) > np.iinfo(np.int16).max:
        raise TooLargeError(f"an attribute has {max(sizes):,} levels, and records are made of at most 32,767")
    if start is not None:
        if start.shape != (total, len(sizes)):
            raise ConditionError(
                f"records to start from are {total:,}, of {len(sizes)} attributes; these have the shape {start.shape}"
            )
        records = start.astype(np.int16)
    elif fit is not None:
        records = start_from_fit(fit, total, seed)
    else:
        columns = [_column(targets, axis, total, sizes) for axis in range(len(sizes))]
        records = start_from_columns(columns, total, seed)
    stages: tuple[Stage, ...] = FROM_COLUMNS if start is None and fit is None else FROM_FIT
    all_targets = list(targets)
    if fit is not None:
        pull = min(MOST_PULL, PULL * max(target.precision for target in targets))
        every = tuple(range(len(sizes)))
        if not any(target.axes == every for target in targets):
            all_targets.append(MeasuredTable(every, fit, pull))
    records = np.ascontiguousarray(records)
    exact = [axes for axes, _ in measurements.exact]
    n_taken, n_sweeps = 0, 0
    in_sums = [axis for some in measurements.exact_sums for axis in some.axes]
    keeping = keeping_moves(len(sizes), exact, in_sums)
    if missed_margins(measurements, records):
        records = assign_exact(records, measurements.exact, sizes, seed)
    held = maximal(axes for axes in exact if axes)
    # Moves that keep all tables of a ring are few; records that have them leave them, and come back.
    leaves_ring = start is not None and len(in_running_order(held)) < len(held)
    lacking, towards = list[str](), TOWARDS_EXACT
    for attempt in range(_MOST_ATTEMPTS):
        has_margins = not missed_margins(measurements, records)
        if attempt or leaves_ring or not has_margins:
            moves = keeping if has_margins and not leaves_ring else free_moves(len(sizes), exact)
            purpose = f"towards exact {attempt}"
            n_taken += _sweep_through(measurements, records, all_targets, moves, towards, purpose, progress)
            n_sweeps += sum(stage.n_sweeps for stage in towards)
            towards = BACK_TO_EXACT
        if not missed_margins(measurements, records):
            purpose = f"records {attempt}"
            n_taken += _sweep_through(measurements, records, all_targets, keeping, stages, purpose, progress)
            n_sweeps += sum(stage.n_sweeps for stage in stages)
        lacking = lacking_conditions(measurements, records)
        if not lacking:
            break
    if lacking and start is not None and not lacking_conditions(measurements, start.astype(np.int16)):
        records = np.ascontiguousarray(start, np.int16).copy()
        n_taken += _sweep_through(measurements, records, all_targets, keeping, stages, "from the start", progress)
        lacking = []
    if lacking:
        raise UndecidedError(
            f"no records with every exact number were reached: {'; '.join(lacking)}. There may be none that have them"
            " all; make fewer numbers exact, or exact margins that do not form a ring"
        )
    return DecidedRecords(records, n_sweeps, n_taken, energy_of(targets, records, sizes))


def _column(targets: Sequence[MeasuredTable], axis: int, total: int, sizes: Sequence[int]) -> Floats:
    for target in targets:
        if axis in target.axes:
            return np.asarray(sum_onto(target.values, target.axes, (axis,)))
    return np.full(sizes[axis], total / sizes[axis])
