"""The rule *records* on a health office's tables and on others: errors, agreement, later tables, one answer."""

import ast
import hashlib
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from agreement import own_rng
from congenial.errors import ConditionError
from congenial.noise.families import DiscreteGaussian, DoubleGeometric
from congenial.randomness import replay_rng
from congenial.rules import workload
from congenial.rules.workload.margins import Axes, count_records, sum_onto
from congenial.rules.workload.measurements import ExactSum, WorkloadMeasurements
from congenial.rules.workload.records import lacking_conditions
from congenial.rules.workload.rule import check, decide
from made_up_workloads import (
    HEALTH_EXACT,
    HEALTH_TABLES,
    People,
    health_people,
    health_precisions,
    health_zeros,
    measure,
)

SMALL: tuple[Axes, ...] = ((0, 1), (1, 2), (2, 3), (0, 3))


def small_people(seed: str, n: int = 2_000, sizes: tuple[int, ...] = (4, 3, 5, 2)) -> People:
    rng = replay_rng(seed)
    hidden = rng.below(np.full(n, 3))
    columns = [np.minimum((rng.uniforms(n) ** (1 + hidden) * size).astype(np.int64), size - 1) for size in sizes]
    return People(np.stack(columns, axis=1), sizes)


@pytest.mark.parametrize("kind", ["rho", "epsilon"])
def test_health_tables_agree_and_have_every_exact_number(request: pytest.FixtureRequest, kind: str) -> None:
    rng = own_rng(request)
    people = health_people(rng, 20_000)
    errors = []
    for run in range(3):
        measured = measure(
            people,
            health_precisions(0.5 if kind == "rho" else 2.0, kind),
            rng,
            ((), *HEALTH_EXACT),
            (health_zeros(),),
            seed=run.to_bytes(32, "big"),
            family=DoubleGeometric if kind == "epsilon" else DiscreteGaussian,
        )
        result = decide(measured, HEALTH_TABLES)
        assert not lacking_conditions(measured, result.records)
        sexes = [sum_onto(result.tables[axes], axes, (2,)) for axes in HEALTH_TABLES if 2 in axes]
        assert np.array_equal(sexes[0], sexes[1])
        for axes in HEALTH_TABLES:
            assert result.tables[axes].min() >= 0
            assert not result.tables[axes][measured.zeros_in(axes)].any()
        noise, tables, targets = (
            [np.abs(some[axes] - people.table(axes)).mean() for axes in HEALTH_TABLES]
            for some in (dict(zip(measured.axes, measured.values, strict=True)), result.tables, result.targets)
        )
        errors.append([noise, tables, targets])
    noise, tables, targets = np.mean(errors, axis=(0, 2))
    assert tables < 0.95 * noise
    assert tables < 1.03 * targets


def test_records_without_a_joint_table(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    sizes = (40, 30, 20, 50, 30)
    people = small_people(request.node.name, 5_000, sizes)
    pairs = list(combinations(range(5), 2))
    measured = measure(people, dict.fromkeys(pairs, 1 / 10), rng)
    assert measured.n_cells > 10**7
    result = decide(measured)
    assert result.facts.fit_sweeps is None
    error = np.mean([np.abs(result.tables[axes] - people.table(axes)).mean() for axes in pairs])
    target = np.mean([np.abs(result.targets[axes] - people.table(axes)).mean() for axes in pairs])
    plain = np.mean([np.abs(v - people.table(a)).mean() for a, v in zip(measured.axes, measured.values, strict=True)])
    assert error < 1.03 * target
    assert error < 0.85 * plain


def test_the_total_is_decided_first(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    people = small_people(request.node.name)
    measured = measure(people, dict.fromkeys(SMALL, 0.01), rng, exact=())
    result = decide(measured)
    assert len(result.records) == round(float(result.estimates.table(())))
    assert len(result.records) != len(people.records)


def test_measured_cells_are_shrunken_onto_the_fit(request: pytest.FixtureRequest) -> None:
    """Cells, beside tables: nearer than their measurements, and unmeasured tables nearer than without them."""
    rng = own_rng(request)
    people, every = small_people(request.node.name), (0, 1, 2, 3)
    without = measure(people, dict.fromkeys(SMALL, 0.1), rng)
    with_cells = measure(people, {**dict.fromkeys(SMALL, 0.1), every: 0.1}, rng)
    errors = []
    for measured in (with_cells, without):
        result = decide(measured)
        errors.append([np.abs(count_records(result.records, people.sizes, axes) - people.table(axes)).mean()
                       for axes in (every, (0, 1, 2))])  # fmt: skip
    measured_cells = np.abs(with_cells.values[-1] - people.table(every)).mean()
    assert errors[0][0] < min(errors[1][0], measured_cells)
    assert errors[0][1] < errors[1][1]


def test_cells_alone_aim_at_published_tables(request: pytest.FixtureRequest) -> None:
    people, every = small_people(request.node.name), (0, 1, 2, 3)
    measured = measure(people, {every: 0.1}, own_rng(request))
    result = decide(measured, SMALL)
    assert set(result.tables) == set(SMALL)
    assert result.targets[every].shape == people.sizes
    assert list(decide(measured).tables) == [every]


def test_exact_two_way_margins_and_sums_hold(request: pytest.FixtureRequest) -> None:
    people = small_people(request.node.name)
    measured = measure(people, dict.fromkeys(SMALL, 0.1), own_rng(request), exact=((0, 1), (1, 2)))
    young = ExactSum((2,), np.array([1, 1, 0, 0, 0]), int(people.table((2,))[:2].sum()))
    odd = ExactSum((2, 3), np.arange(10).reshape(5, 2) % 3, 0)
    odd = replace(odd, value=int((odd.coefficients * people.table((2, 3))).sum()))
    measured = replace(measured, exact_sums=(young, odd))
    result = decide(measured, SMALL)
    assert not lacking_conditions(measured, result.records)
    assert np.array_equal(result.tables[0, 1], people.table((0, 1)))


def test_later_tables_keep_earlier_ones(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    people = small_people(request.node.name)
    earlier = measure(people, dict.fromkeys(SMALL[:3], 0.1), rng)
    before = decide(earlier)
    new = measure(people, dict.fromkeys([(0, 2), (1, 3), (0, 3)], 0.1), rng)
    both = replace(
        new,
        axes=(*earlier.axes, *new.axes),
        values=(*earlier.values, *new.values),
        variances=(*earlier.variances, *new.variances),
    )
    kept = both.with_exact(before.tables.items())
    result = decide(kept, new.axes, before.records)
    for axes, table in before.tables.items():
        assert np.array_equal(count_records(result.records, people.sizes, axes), table)
    check(kept, result, before.records)
    unmeasured, late = (
        np.mean([np.abs(count_records(some, people.sizes, axes) - people.table(axes)).mean() for axes in new.axes])
        for some in (before.records, result.records)
    )
    assert late < 0.5 * unmeasured
    revised = decide(both)
    ours, theirs = (
        np.mean([np.abs(some.tables[axes] - people.table(axes)).mean() for axes in before.tables])
        for some in (revised, before)
    )
    assert ours < theirs


def test_later_tables_beside_a_ring_of_earlier_ones(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    people = small_people(request.node.name)
    pairs = list(combinations(range(4), 2))
    before = decide(measure(people, dict.fromkeys(pairs, 0.1), rng))
    new = measure(people, {(0, 1, 2): 0.1, (3,): 0.1}, rng).with_exact(before.tables.items())
    result = decide(new, [(0, 1, 2)], before.records)
    assert not lacking_conditions(new, result.records)
    start = count_records(before.records, people.sizes, (0, 1, 2))
    truth = people.table((0, 1, 2))
    assert np.abs(result.tables[0, 1, 2] - truth).mean() < np.abs(start - truth).mean()


def test_where_nothing_was_measured_exact_margins_decide() -> None:
    exact = (((0, 1), np.array([[4, 1], [0, 5]])), ((1, 2), np.array([[1, 3], [6, 0]])))
    measured = WorkloadMeasurements((2, 2, 2), (), (), (), exact)
    result = decide(measured, [(0, 1), (1, 2), (0, 2)])
    assert not lacking_conditions(measured, result.records)
    assert np.array_equal(result.tables[0, 1], exact[0][1])


def test_new_exact_numbers_that_contradict_published_tables_are_refused(request: pytest.FixtureRequest) -> None:
    people = small_people(request.node.name)
    measured = measure(people, dict.fromkeys(SMALL, 0.1), own_rng(request), exact=((1,),))
    with pytest.raises(ConditionError, match="disagree about their common margin"):
        measured.with_exact([((0, 1), people.table((0, 1)) + 1)])


def test_records_are_the_same_integers(request: pytest.FixtureRequest) -> None:
    """As on the machine that this was written on: another digest is another version of the rule."""
    rng, sizes = replay_rng("the same integers"), (4, 3, 5, 2)
    records = np.stack([rng.below(np.full(2_000, size)) for size in sizes], axis=1)
    tables = [count_records(records, sizes, axes) for axes in SMALL]
    values = tuple(table + rng.below(np.full(table.size, 13)).reshape(table.shape) - 6 for table in tables)
    exact = (((0,), count_records(records, sizes, (0,))),)
    measured = WorkloadMeasurements(sizes, SMALL, values, (14.0,) * 4, exact)
    result = decide(measured)
    assert np.array_equal(decide(measured).records, result.records)
    digest = hashlib.sha256(result.records.astype("<i2").tobytes()).hexdigest()
    assert (result.facts.version, digest[:16]) == (1, "f0c0318c22bf764a")
    other = decide(replace(measured, seed=bytes(31) + b"\1"))
    assert not np.array_equal(other.records, result.records)


def test_check_runs_again_and_compares(request: pytest.FixtureRequest) -> None:
    people = small_people(request.node.name)
    measured = measure(people, dict.fromkeys(SMALL, 0.1), own_rng(request), exact=((0,),))
    result = decide(measured)
    check(measured, result)
    swapped = result.records.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    if np.array_equal(swapped, result.records):
        swapped[[0, -1]] = swapped[[-1, 0]]
    with pytest.raises(ConditionError, match="makes other records"):
        check(measured, replace(result, records=swapped))
    tables = {**result.tables, (0, 1): result.tables[0, 1] + 1}
    with pytest.raises(ConditionError, match="is not the count"):
        check(measured, replace(result, tables=tables))
    fewer = result.records[:-1]
    with pytest.raises(ConditionError, match="do not have every exact number"):
        check(measured, replace(result, records=fewer))


def test_misfits_tell_a_wrong_exact_number(request: pytest.FixtureRequest) -> None:
    people = small_people(request.node.name)
    measured = measure(people, dict.fromkeys(SMALL, 0.1), own_rng(request), exact=((0,),))
    shift = np.array([200, -200, 0, 0])
    wrong = replace(measured, exact=(((0,), measured.exact[0][1] + shift),))
    fair, far = (max(m.squares / m.n_cells for m in decide(some).facts.misfits) for some in (measured, wrong))
    assert fair < 3 < far


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": ()}, "at least one level"),
        ({"variances": (1.0,)}, "has its attributes, values and variance"),
        ({"variances": (0.0, 1.0)}, "a finite number above 0"),
        ({"values": (np.ones(2), np.ones(3, int))}, "whole numbers of shape"),
        ({"values": (np.ones(3, int), np.ones(3, int))}, "whole numbers of shape"),
        ({"axes": ((0,), (0,)), "values": (np.ones(2, int),) * 2}, "attribute 1 is in no measured"),
        ({"exact": (((0,), np.array([-1, 2])),)}, "at least 0"),
        ({"exact": (((0,), np.array([1, 2])), ((1,), np.array([1, 1, 2])))}, "disagree about their common margin"),
        ({"zeros": (((0,), np.array([1, 0])),)}, "truth values"),
        ({"exact": (((0,), np.array([1, 2])),), "zeros": (((0,), np.array([True, False])),)}, "structural zero"),
        ({"seed": b"short"}, "32 bytes"),
    ],
)
def test_measurements_that_do_not_fit_are_refused(change: dict[str, object], words: str) -> None:
    fields: dict[str, object] = {
        "sizes": (2, 3),
        "axes": ((0,), (1,)),
        "values": (np.ones(2, int), np.ones(3, int)),
        "variances": (1.0, 1.0),
    }
    with pytest.raises(ConditionError, match=words):
        WorkloadMeasurements(**{**fields, **change})  # type: ignore[arg-type]


def test_published_tables_that_do_not_exist_are_refused() -> None:
    measured = WorkloadMeasurements((2,), ((0,),), (np.array([1, 2]),), (1.0,))
    with pytest.raises(ConditionError, match="a published table are numbers from 0 to 0"):
        decide(measured, [(1,)])


BARRED = {"exp", "log", "log2", "power", "einsum", "dot", "matmul", "mean", "linalg", "vdot", "tensordot", "inner"}
FOR_VARIANCES = {"_tied_root", "variance"}
"""Functions of variances decide nothing."""


@pytest.mark.parametrize("path", sorted(Path(workload.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_what_decides_uses_no_sums_or_functions_that_differ_between_machines(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        if function.name in FOR_VARIANCES:
            continue
        for node in ast.walk(function):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            is_numpy = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "np"
            assert not (is_numpy and name in BARRED), f"{function.name} uses np.{name}"
            assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)), function.name
