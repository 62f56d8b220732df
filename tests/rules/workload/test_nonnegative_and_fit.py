"""Nonnegative margins against nonnegative least squares over the joint table; fits and samples against loops."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import nnls

from agreement import own_rng
from congenial.arrays import Floats
from congenial.errors import TooLargeError
from congenial.rules.workload.fit import (
    FLOOR,
    fit_proportionally,
    sample_systematically,
    shrink_cells,
)
from congenial.rules.workload.margins import Axes, sum_onto
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements
from congenial.rules.workload.nonnegative import nonnegative_margins
from rules.workload.workload_by_force import Workload, noise_of, rows_of

CHAIN = Workload(
    np.arange(36).reshape(3, 4, 3) % 5 * (np.arange(36).reshape(3, 4, 3) % 4 == 0),
    ((0, 1), (1, 2), (2,)),
    (30.0, 10.0, 20.0),
    ((), (1,)),
    (),
    (),
)


def nearest_joint(measured: WorkloadMeasurements) -> Floats:
    """Return the joint table nearest to measurements of those with exact margins, zeros and no negative cell."""
    sizes, n = measured.sizes, measured.n_cells
    every = tuple(range(len(sizes)))
    rows = np.concatenate([rows_of(sizes, axes) for axes in measured.axes])
    weights = np.concatenate([np.full(v.size, 1 / s) for v, s in zip(measured.values, measured.variances, strict=True)])
    values = np.concatenate([v.reshape(-1) for v in measured.values]).astype(float)
    barred = measured.zeros_in(every).reshape(-1)
    keep = np.flatnonzero(~barred)
    # Exact margins as measurements ten thousand times as precise: the program has no others.
    held = [(rows_of(sizes, axes), table.reshape(-1)) for axes, table in measured.exact]
    matrix = np.concatenate([rows * weights[:, None] ** 0.5, *(1e4 * some for some, _ in held)])[:, keep]
    numbers = np.concatenate([values * weights**0.5, *(1e4 * table for _, table in held)])
    solution, _ = nnls(matrix, numbers, maxiter=10_000)
    cells = np.zeros(n)
    cells[keep] = solution
    return cells.reshape(sizes)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("zeros", [False, True])
def test_margins_are_the_nearest_without_negative_cells(
    request: pytest.FixtureRequest, number: int, zeros: bool
) -> None:
    """Of a chain of tables: margins that agree are those of a joint table."""
    mask = np.zeros((4, 3), bool)
    mask[1, 2] = mask[3, 0] = zeros
    workload = CHAIN._replace(joint=np.where(mask, 0, CHAIN.joint), zeros=(((1, 2), mask),))
    measured = workload.measurements(noise_of(workload, own_rng(request)))
    margins = nonnegative_margins(measured, tolerance=1e-6, most_steps=3_000)
    joint = nearest_joint(measured)
    for table in margins.tables:
        assert np.abs(table.values - sum_onto(joint, (0, 1, 2), table.axes)).max() < 1e-3
        assert table.values.min() >= 0
        assert not table.values[measured.zeros_in(table.axes)].any()


def test_without_the_prices_margins_are_not_the_nearest(request: pytest.FixtureRequest) -> None:
    """The mutant: negative cells are set to 0 once, and the rest is fitted to them."""
    measured = CHAIN.measurements(noise_of(CHAIN, own_rng(request)))
    cut = [np.maximum(table.values, 0) for table in nonnegative_margins(measured, most_steps=1).tables]
    joint = nearest_joint(measured)
    away = [
        np.abs(values - sum_onto(joint, (0, 1, 2), axes)).max() for axes, values in zip(CHAIN.axes, cut, strict=True)
    ]
    assert max(away) > 0.1


def fit_by_loops(goals: list[tuple[Axes, Floats]], sizes: tuple[int, ...], total: float, n: int) -> Floats:
    cells = np.full(sizes, total / np.prod(sizes))
    for _ in range(n):
        for axes, goal in goals:
            margin = np.zeros(goal.shape)
            for cell in product(*map(range, sizes)):
                margin[tuple(cell[axis] for axis in axes)] += cells[cell]
            for cell in product(*map(range, sizes)):
                place = tuple(cell[axis] for axis in axes)
                cells[cell] *= goal[place] / margin[place] if margin[place] > 0 else 0
    return cells


def test_fits_are_proportional(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    joint = rng.below(np.full(48, 40)).reshape(3, 2, 4, 2)
    sizes, every = joint.shape, (0, 1, 2, 3)
    axes: list[Axes] = list(combinations(every, 2))
    tables = [MeasuredTable(some, sum_onto(joint, every, some).astype(float), 1.0) for some in axes]
    exact = (((0,), sum_onto(joint, every, (0,))),)
    measured = WorkloadMeasurements(sizes, (every,), (joint,), (1.0,), exact)
    fit = fit_proportionally(measured, tables, int(joint.sum()))
    goals = [(table.axes, table.values) for table in tables] + [(a, t.astype(float)) for a, t in exact]
    by_loops = fit_by_loops(goals, sizes, joint.sum(), fit.n_sweeps)
    assert np.abs(fit.cells - by_loops).max() < 1e-9
    assert fit.gap < 0.05
    assert np.abs(sum_onto(fit.cells, every, (0,)) - exact[0][1]).max() < 1e-9


def test_zeros_stay_and_mere_zero_targets_do_not_bar() -> None:
    mask = np.array([[True, False], [False, False]])
    values = np.array([[0, 10], [10, 0]])
    measured = WorkloadMeasurements((2, 2), ((0, 1),), (values,), (1.0,), zeros=(((0, 1), mask),))
    fit = fit_proportionally(measured, measured.measured(), 20)
    assert fit.cells[0, 0] == 0
    assert fit.cells[1, 1] == pytest.approx(FLOOR)


def test_too_many_cells_are_refused() -> None:
    sizes = (400, 400, 400)
    axes = ((0,), (1,), (2,))
    measured = WorkloadMeasurements(sizes, axes, (np.ones(400, int),) * 3, (1.0,) * 3)
    with pytest.raises(TooLargeError, match="64,000,000 cells, and at most 10,000,000"):
        fit_proportionally(measured, measured.measured(), 400)


def test_shrunken_cells_are_nearer(request: pytest.FixtureRequest) -> None:
    """Than measurements, and than the fit: squared errors over 4,000 cells that vary about a fit."""
    rng = own_rng(request)
    fit = 5 + 95 * rng.uniforms(4_000)
    truth = fit + np.sqrt(2 * fit) * np.sqrt(-2 * np.log1p(-rng.uniforms(4_000))) * np.cos(7 * rng.uniforms(4_000))
    measured = truth + 10 * np.sqrt(-2 * np.log1p(-rng.uniforms(4_000))) * np.cos(2 * np.pi * rng.uniforms(4_000))
    error = [float(np.mean((some - truth) ** 2)) for some in (shrink_cells(fit, measured, 100.0), fit, measured)]
    assert error[0] < 0.9 * min(error[1:])


def test_samples_take_every_nth_part(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    cells = 3 * rng.uniforms(500) ** 4
    places = sample_systematically(cells, 200, 0.3)
    counts = np.bincount(places, minlength=500)
    expected = np.cumsum(cells) / cells.sum() * 200
    assert len(places) == 200
    assert np.abs(np.cumsum(counts) - expected).max() < 1 + 1e-6
    assert not counts[cells == 0].any()
