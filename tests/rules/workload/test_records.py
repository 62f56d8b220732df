"""Records by annealing: moves against counting, the kernel against a plain twin, exact numbers without exception."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError, UndecidedError
from congenial.rules.workload import records as module
from congenial.rules.workload.fit import fit_proportionally
from congenial.rules.workload.kernels_records import COUNT_BITS, anneal, random_word
from congenial.rules.workload.margins import Axes, count_records, sum_onto
from congenial.rules.workload.measurements import ExactSum, MeasuredTable, WorkloadMeasurements
from congenial.rules.workload.records import (
    FROM_FIT,
    Move,
    Stage,
    assign_exact,
    decide_records,
    free_moves,
    keeping_moves,
    lacking_conditions,
)
from rules.workload.workload_by_force import drawn_workload, noise_of

HELD: dict[str, tuple[Axes, ...]] = {
    "nothing": (),
    "one-ways": ((0,), (3,)),
    "disjoint": ((0, 1), (2, 3)),
    "a path": ((0, 1), (1, 2), (2, 3), (3, 4)),
    "a star": ((0, 1), (0, 2), (0, 3)),
    "three-ways": ((0, 1, 2), (1, 2, 3)),
    "a ring": ((0, 1), (1, 2), (0, 2)),
    "nested": ((0, 1, 2), (0, 1), (3,)),
}
SIZES = (3, 2, 3, 2, 2)


def moved(records: Ints, move: Move, one: int, other: int, value: int) -> Ints | None:
    """Return the records after a move, by its definition; None where the two do not agree."""
    records = records.copy()
    if not move.is_exchange:
        records[one, move.attributes[0]] = value
        return records
    if any(records[one, axis] != records[other, axis] for axis in move.agree):
        return None
    columns = list(move.attributes)
    records[[one, other], :] = records[[other, one], :].copy() if len(columns) == 5 else records[[one, other], :]
    if len(columns) < 5:
        first = records[one, columns].copy()
        records[one, columns] = records[other, columns]
        records[other, columns] = first
    return records


@pytest.mark.parametrize("held", HELD)
def test_moves_keep_exact_margins(request: pytest.FixtureRequest, held: str) -> None:
    rng = own_rng(request)
    records = np.stack([rng.below(np.full(40, size)) for size in SIZES], axis=1)
    n_moved = 0
    for move in keeping_moves(5, HELD[held]):
        for _ in range(30):
            one, other, value = (int(rng.below(np.array([bound]))[0]) for bound in (40, 40, SIZES[move.attributes[0]]))
            after = moved(records, move, one, other, value)
            if after is None:
                continue
            n_moved += 1
            for axes in HELD[held]:
                assert np.array_equal(count_records(after, SIZES, axes), count_records(records, SIZES, axes)), move
    assert n_moved


def test_an_exchange_without_agreement_would_be_caught(request: pytest.FixtureRequest) -> None:
    """The mutant: attributes of a path exchanged by any two records."""
    rng = own_rng(request)
    records = np.stack([rng.below(np.full(40, size)) for size in SIZES], axis=1)
    changed = 0
    for other in range(1, 40):
        after = moved(records, Move((0,), True), 0, other, 0)
        assert after is not None
        changed += not np.array_equal(count_records(after, SIZES, (0, 1)), count_records(records, SIZES, (0, 1)))
    assert changed


# The kernel against a twin that counts everything anew.


def whole_energy(records: Ints, sizes: tuple[int, ...], goals: list[tuple[Axes, Ints, int]]) -> int:
    """Twice the energy, in units of ``2**-2 COUNT_BITS``."""
    return sum(
        weight * int((((count_records(records, sizes, axes) << COUNT_BITS) - target) ** 2).sum())
        for axes, target, weight in goals
    )


def anneal_plainly(
    measured: WorkloadMeasurements,
    records: Ints,
    targets: list[MeasuredTable],
    moves: tuple[Move, ...],
    thresholds: Ints,
    key: np.uint64,
    n_proposals: int,
    energy: Callable[[Ints, tuple[int, ...], list[tuple[Axes, Ints, int]]], int] = whole_energy,
) -> Ints:
    sizes, n = measured.sizes, len(records)
    unit = max(target.precision for target in targets) / 2**module.WEIGHT_BITS
    goals = [
        (t.axes, -np.rint(t.values * -(2.0**COUNT_BITS)).astype(np.int64), max(1, round(t.precision / unit)))
        for t in targets
    ]

    def zeros(some: Ints) -> Ints:
        return np.concatenate([count_records(some, sizes, axes)[mask] for axes, mask in measured.zeros])

    def sums(some: Ints) -> list[int]:
        return [
            abs(int((count_records(some, sizes, e.axes) * e.coefficients).sum()) - e.value) for e in measured.exact_sums
        ]

    for number in range(n_proposals):
        word = int(random_word(key, 2 * number))
        one, threshold = (word >> 32) * n >> 32, int(thresholds[word & 0xFFF])
        move = moves[((word >> 12) & 0xFFFFF) * len(moves) >> 20]
        word = int(random_word(key, 2 * number + 1)) >> 32
        axis = move.attributes[0]
        other, value = word * n >> 32, 0
        if not move.is_exchange:
            if sizes[axis] < 2:
                continue
            value = word * (sizes[axis] - 1) >> 32
            value += value >= records[one, axis]
        after = moved(records, move, one, other, value)
        if after is None or np.array_equal(after, records):
            continue
        inside, inside_after = zeros(records), zeros(after)
        if (inside_after > inside).any():
            continue
        before_sums, after_sums = sums(records), sums(after)
        if any(late > early for early, late in zip(before_sums, after_sums, strict=True)):
            continue
        cost = energy(after, sizes, goals) - energy(records, sizes, goals)
        assert cost % 2 ** (COUNT_BITS + 1) == 0
        cost >>= COUNT_BITS + 1
        for early, late in zip(before_sums, after_sums, strict=True):
            cost -= (module._SUM_WEIGHT * 2**module.WEIGHT_BITS * (early - late)) << COUNT_BITS
        if cost < threshold or (inside_after < inside).any():
            records = after
    return records


def a_case(request: pytest.FixtureRequest) -> tuple[WorkloadMeasurements, Ints, list[MeasuredTable]]:
    rng = own_rng(request)
    sizes = (3, 2, 3, 2)
    records = np.stack([rng.below(np.full(30, size)) for size in sizes], axis=1)
    mask = np.zeros((3, 2), bool)
    mask[1, 1] = True
    exact_sum = ExactSum((1, 2), np.array([[0, 1, 2], [1, 0, 0]]), 20)
    axes: tuple[Axes, ...] = ((0, 1), (1, 2, 3), (0, 3))
    targets = [
        MeasuredTable(some, 30 * rng.uniforms(table.size).reshape(table.shape) / table.size, 1.0 + place)
        for place, some in enumerate(axes)
        for table in [count_records(records, sizes, some)]
    ]
    values = tuple(np.rint(target.values).astype(np.int64) for target in targets)
    return (
        WorkloadMeasurements(sizes, axes, values, (1.0,) * 3, (), (exact_sum,), (((0, 3), mask),)),
        records,
        targets,
    )


def after_kernel(
    measured: WorkloadMeasurements, records: Ints, targets: list[MeasuredTable], moves: tuple[Move, ...], key: int
) -> tuple[Ints, Ints, Ints]:
    """Return what the kernel makes of records, its thresholds, and what its board holds beside a new one."""
    unit = max(target.precision for target in targets) / 2**module.WEIGHT_BITS
    small = np.ascontiguousarray(records, np.int16).copy()
    layout = module._layout(measured, small, targets, unit, 0)
    thresholds = np.rint(module._logarithms() * 2.0 * 2 ** (module.WEIGHT_BITS + COUNT_BITS)).astype(np.int64)
    compiled = module._compiled_moves(moves, layout, measured.sizes)
    partners = module._partners(small, moves, measured.sizes)
    anneal(small, compiled, layout.board, partners, thresholds, np.uint64(key), 400)
    fresh = module._layout(measured, small, targets, unit, 0).board
    same = np.array([np.array_equal(fresh.cells, layout.board.cells), np.array_equal(fresh.away, layout.board.away)])
    return small.astype(np.int64), thresholds, same


@pytest.mark.parametrize("exchange", [False, True])
def test_the_kernel_does_what_its_plain_twin_does(request: pytest.FixtureRequest, exchange: bool) -> None:
    measured, records, targets = a_case(request)
    moves = free_moves(4, [(0,)]) if exchange else tuple(Move((axis,), False) for axis in range(4))
    moves = (*moves, Move((0, 2), True)) if exchange else moves
    for key in (1, 2):
        kernel, thresholds, same = after_kernel(measured, records, targets, moves, key)
        plain = anneal_plainly(measured, records, targets, moves, thresholds, np.uint64(key), 400)
        assert np.array_equal(kernel, plain)
        assert same.all()
        assert not np.array_equal(kernel, records)


def test_a_twin_with_unweighted_tables_is_another(request: pytest.FixtureRequest) -> None:
    measured, records, targets = a_case(request)
    moves = free_moves(4, [(0,)])

    def unweighted(some: Ints, sizes: tuple[int, ...], goals: list[tuple[Axes, Ints, int]]) -> int:
        return whole_energy(some, sizes, [(axes, target, 4096) for axes, target, _ in goals])

    kernel, thresholds, _ = after_kernel(measured, records, targets, moves, 1)
    assert not np.array_equal(
        kernel, anneal_plainly(measured, records, targets, moves, thresholds, np.uint64(1), 400, unweighted)
    )


# Exact numbers and structural zeros, in everything that is drawn.


@pytest.mark.parametrize("number", range(20))
def test_every_exact_number_holds(request: pytest.FixtureRequest, number: int) -> None:
    rng = own_rng(request)
    for _ in range(3):
        workload = drawn_workload(rng, tied=number % 2 == 0)
        measured = workload.measurements(noise_of(workload, rng))
        total = int(workload.joint.sum())
        known = measured if measured.exact else measured.with_exact([((), np.array(total))])
        targets = [MeasuredTable(t.axes, np.maximum(t.values, 0.0), t.precision) for t in known.measured()]
        decided = decide_records(known, targets, total)
        assert not lacking_conditions(known, decided.records)
        fit = fit_proportionally(known, targets, total)
        assert not lacking_conditions(known, decide_records(known, targets, total, fit.cells).records)


@pytest.mark.parametrize("held", HELD)
def test_exact_margins_are_assigned_unless_they_form_a_ring(request: pytest.FixtureRequest, held: str) -> None:
    rng = own_rng(request)
    truth, start = (np.stack([rng.below(np.full(200, size)) for size in SIZES], axis=1) for _ in range(2))
    exact = [(axes, count_records(truth, SIZES, axes)) for axes in HELD[held]]
    assigned = assign_exact(start.astype(np.int16), exact, SIZES, bytes(32))
    missed = [axes for axes, table in exact if not np.array_equal(count_records(assigned, SIZES, axes), table)]
    assert missed == ([(0, 2)] if held == "a ring" else [])


def test_margins_that_no_records_have_are_refused() -> None:
    """Three attributes of which each two agree about their margins, and no joint table has all three of them."""
    same, other = np.array([[5, 0], [0, 5]]), np.array([[0, 5], [5, 0]])
    exact = (((0, 1), same), ((1, 2), same), ((0, 2), other))
    measured = WorkloadMeasurements((2, 2, 2), ((0, 1),), (same,), (1.0,), exact)
    with pytest.raises(UndecidedError, match="no records with every exact number were reached"):
        decide_records(measured, measured.measured(), 10)


def test_records_to_start_from_have_the_right_shape() -> None:
    measured = WorkloadMeasurements((2,), ((0,),), (np.array([1, 2]),), (1.0,))
    with pytest.raises(ConditionError, match=r"records to start from are 3, of 1 attributes; .* \(2, 1\)"):
        decide_records(measured, measured.measured(), 3, start=np.zeros((2, 1), int))


def test_a_pull_keeps_what_nobody_measured(request: pytest.FixtureRequest) -> None:
    """Without it, unmeasured sums walk at random."""
    rng = own_rng(request)
    sizes, every = (6, 6, 6), (0, 1, 2)
    fit = 4_000 * rng.uniforms(216).reshape(sizes) / 108
    total = int(fit.sum())
    axes = list(combinations(every, 2))[:2]
    tables = [MeasuredTable(some, sum_onto(fit, every, some), 0.1) for some in axes]
    values = tuple(np.rint(table.values).astype(np.int64) for table in tables)
    measured = WorkloadMeasurements(sizes, tuple(axes), values, (10.0,) * 2, (((), np.array(total)),))

    def away(records: module.Records) -> float:
        unmeasured: Floats = np.abs(count_records(records, sizes, (1, 2)) - sum_onto(fit, every, (1, 2)))
        return float(unmeasured.mean())

    pulled = decide_records(measured, tables, total, fit).records
    start = module.start_from_fit(fit, total, bytes(32))
    module._sweep_through(
        measured, start, tables, keeping_moves(3, []), (Stage(0.3, 30), *FROM_FIT), "x", lambda *_: None
    )
    assert away(pulled) < 0.5 * away(start)
