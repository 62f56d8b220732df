"""Least squares by components against dense constrained least squares; squared errors against stated variances."""

from itertools import combinations
from math import prod

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.rules.workload.components import LeastSquares, assemble, components_of, estimate
from congenial.rules.workload.margins import Axes, count_records, shape_of, subsets, sum_onto
from congenial.rules.workload.measurements import ExactSum, WorkloadMeasurements
from rules.workload.workload_by_force import (
    Workload,
    dense_least_squares,
    drawn_workload,
    noise_of,
    rows_of,
)


def near(left: Floats | float, right: Floats | Ints | float) -> bool:
    return bool((np.abs(np.asarray(left) - right) <= 1e-9 * np.maximum(1, np.abs(np.asarray(right)))).all())


def known(workload: Workload) -> list[Axes]:
    return list(dict.fromkeys(part for axes in (*workload.axes, *workload.exact) for part in subsets(axes)))


def test_margins_are_sums(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    table = rng.below(np.full(2 * 3 * 1 * 4 * 2, 100)).reshape(2, 3, 1, 4, 2)
    axes = (0, 2, 3, 5, 7)
    for onto in subsets(axes):
        expected = table.sum(axis=tuple(place for place, axis in enumerate(axes) if axis not in onto))
        assert np.array_equal(sum_onto(table, axes, onto), expected)
        assert np.array_equal(sum_onto(table.astype(float), axes, onto), expected)


def test_a_table_is_the_sum_of_its_components(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    table = rng.uniforms(24).reshape(2, 3, 4)
    parts = components_of(table, (0, 1, 2))
    assert set(parts) == set(subsets((0, 1, 2)))
    for axes, part in parts.items():
        assert all(np.abs(part.sum(axis=place)).max() < 1e-12 for place in range(len(axes)))
    for axes in subsets((0, 1, 2)):
        assert near(assemble(parts, axes, (2, 3, 4)), sum_onto(table, (0, 1, 2), axes))


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("tied", [False, True])
def test_estimates_are_those_of_dense_least_squares(request: pytest.FixtureRequest, number: int, tied: bool) -> None:
    rng = own_rng(request)
    workload = drawn_workload(rng, tied=tied)
    measured = workload.measurements(noise_of(workload, rng))
    sizes = measured.sizes
    dense, estimates = dense_least_squares(measured), estimate(measured)
    every = tuple(range(len(sizes)))
    for axes in known(workload):
        assert near(estimates.table(axes), sum_onto(dense.estimates, every, axes)), axes
        rows = rows_of(sizes, axes)
        shape = shape_of(sizes, axes)
        covariance = rows @ dense.covariance @ rows.T
        assert near(np.broadcast_to(estimates.variance(axes), shape), np.diag(covariance).reshape(shape)), axes
        query = rng.below(np.full(prod(shape), 5)).reshape(shape) - 2
        assert near(estimates.variance(axes, query), query.reshape(-1) @ covariance @ query.reshape(-1)), axes


def test_the_same_margin_measured_twice_is_measured_once_and_better(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    workload = drawn_workload(rng)
    twice = workload._replace(axes=workload.axes * 2, variances=(*workload.variances, *np.arange(1.0, 9)))
    twice = twice._replace(variances=twice.variances[: len(twice.axes)])
    measured = twice.measurements(noise_of(twice, rng))
    dense, estimates = dense_least_squares(measured), estimate(measured)
    for axes in known(twice):
        assert near(estimates.table(axes), sum_onto(dense.estimates, tuple(range(len(measured.sizes))), axes))


def ratios(workload: Workload, request: pytest.FixtureRequest, conditioned: bool, n: int = 600) -> list[float]:
    """Return squared errors over stated variances, averaged over runs, for each measured table."""
    rng = own_rng(request)
    noise = [noise_of(workload, rng) for _ in range(n)]
    first = workload.measurements(noise[0])
    least = LeastSquares.of(first)
    sums = np.zeros(len(workload.axes))
    for errors in noise:
        values = []
        for axes, table in zip(workload.axes, errors, strict=True):
            parts = components_of(table.astype(float), axes)
            if conditioned:  # noise without its components in exact margins: their measurements are exact
                parts = {part: 0 * c if part in least.exact else c for part, c in parts.items()}
            values.append(workload.margin(axes) + assemble(parts, axes, first.sizes))
        estimates = least.estimates(values)
        for place, axes in enumerate(workload.axes):
            sums[place] += np.mean((estimates.table(axes) - workload.margin(axes)) ** 2)
    stated = [float(np.mean(least.variance(axes))) for axes in workload.axes]
    return [float(one / n / other) for one, other in zip(sums, stated, strict=True) if other > 0]


CASE = Workload(
    np.arange(72).reshape(3, 2, 4, 3) % 7,
    ((0, 1, 2), (0, 3), (1, 3), (2, 3)),
    (40.0, 90.0, 60.0, 75.0),
    ((0,), (3,)),
    (),
    (),
)


@pytest.mark.parametrize("conditioned", [False, True])
def test_squared_errors_are_as_stated(request: pytest.FixtureRequest, conditioned: bool) -> None:
    assert all(0.95 <= ratio <= 1.05 for ratio in ratios(CASE, request, conditioned))


def test_squared_errors_with_zeros_and_sums_are_as_stated(request: pytest.FixtureRequest) -> None:
    mask = np.zeros((2, 3), bool)
    mask[0, 1] = True
    joint = CASE.joint.copy()
    joint[:, 0, :, 1] = 0
    case = CASE._replace(joint=joint, zeros=(((1, 3), mask),), exact_sums=(((2, 3), np.arange(12).reshape(4, 3)),))
    assert all(0.95 <= ratio <= 1.05 for ratio in ratios(case, request, False))


def test_a_mutant_that_forgets_the_sizes_is_caught(request: pytest.FixtureRequest) -> None:
    """Components weighted by the precision of cells alone, as if a margin were as precise as its table."""
    rng = own_rng(request)
    measured = CASE.measurements(noise_of(CASE, rng))
    least = LeastSquares.of(measured)
    weights = {axes: 1 / variance for axes, variance in zip(CASE.axes, CASE.variances, strict=True)}
    total = {part: sum(w for axes, w in weights.items() if set(part) <= set(axes)) for part in least.precisions}
    shares = tuple(
        {part: weights[axes] / total[part] for part in some} for axes, some in zip(CASE.axes, least.shares, strict=True)
    )
    mutant = LeastSquares(least.sizes, least.tables, least.precisions, shares, least.exact)
    dense = dense_least_squares(measured)
    values = [table.values for table in measured.measured()]
    assert not near(mutant.estimates(values).table((0, 1, 2)), sum_onto(dense.estimates, (0, 1, 2, 3), (0, 1, 2)))


def test_thirteen_attributes_need_no_joint_table(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    sizes = (2, 2, 12, 7, 16, 5, 9, 6, 7, 15, 2, 2, 2)
    records = np.stack([rng.below(np.full(500, size)) for size in sizes], axis=1)
    axes = tuple(combinations(range(13), 2))
    tables = tuple(count_records(records, sizes, some) for some in axes)
    measured = WorkloadMeasurements(sizes, axes, tables, (4.0,) * len(axes))
    assert measured.n_cells > 10**9
    estimates = estimate(measured)
    assert near(estimates.table((3, 9)), tables[axes.index((3, 9))])


def test_what_nothing_estimates_is_refused() -> None:
    measured = WorkloadMeasurements((2, 2), ((0,), (1,)), (np.array([1, 2]),) * 2, (1.0, 1.0))
    with pytest.raises(ConditionError, match="inside no measured or exact table"):
        estimate(measured).table((0, 1))
    with pytest.raises(ConditionError, match="its variance is unknown"):
        estimate(measured).variance((0, 1))


def test_exact_sums_that_contradict_are_refused() -> None:
    sums = tuple(ExactSum((0,), np.array([1, 0]), value) for value in (3, 4))
    measured = WorkloadMeasurements((2,), ((0,),), (np.array([5, 2]),), (1.0,), exact_sums=sums)
    with pytest.raises(ConditionError, match="contradict"):
        estimate(measured)
