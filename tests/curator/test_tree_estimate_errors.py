"""Errors of measured trees in closed form: against dense algebra, and against what releases come out as."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats, Ints
from congenial.curator import tree_estimate_errors
from congenial.curator.tree_estimate_errors import (
    SUMMED,
    EstimateErrors,
    NoiseVariance,
    across_errors,
    area_variances,
    estimate_variances,
    tree_errors,
)
from congenial.decided_tables import exact_cell_sums, tree_measurements
from congenial.noise import FAMILIES
from congenial.plan import Plan
from congenial.rules.gls import estimate
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.tree.areas_across import AreasAcross
from congenial.tree.tree_and_zeros import Zeros
from rules.gls_by_force import dense_estimates

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
SMALL = cg.Tree.of_prefixes(["1ax", "1ay", "1bx", "2cx", "2cy", "2cz"], {"county": 1, "tract": 2}, "block")
LARGE = cg.Tree.of_prefixes(
    [f"{c}{t}{block:02}" for c in "1234" for t in "abcd"[: int(c)] for block in range(3 + 2 * int(c))],
    {"county": 1, "tract": 2},
    "block",
)
EXACT: dict[str, Any] = {
    "nothing": [],
    "top": [cg.total()],
    "nested": {"county": [cg.margin("sex")], "tract": [cg.total()]},
    "crossing at the top": {"county": [cg.margin("sex"), cg.margin("age")], "tract": [cg.total()]},
    "everywhere": {"block": [cg.total()]},
    "loose cells": {"tract": [cg.total({"sex": "f"})]},
}
MANY = 1_000  # in every cell, so that no estimate is below 0


def planned(tree: Any, exact: str, zeros: Any = None, **budget: Any) -> tuple[Plan, Ints]:
    mask = np.zeros((tree.n_leaves, 4), np.bool_) if zeros is None else zeros
    request = cg.Hierarchy(
        tree,
        SCHEMA,
        invariants=EXACT[exact],
        method="measured",
        zeros=None if zeros is None else Zeros.of_leaves(tree, mask),
        **budget,
    )
    leaves = np.where(mask, 0, MANY)
    return request.plan(request.disclose(leaves)), leaves


# Exactly: the covariance of the dense least squares under Gaussian noise.


def dense_covariances(plan: Plan) -> list[Floats]:
    """Return the covariance of all estimates of each level (unit and cell), by feeding single measurements."""
    sizes, n_cells = plan.law.tree.n_units, plan.law.schema.n_cells
    nothing = [np.zeros((n, n_cells), np.int64) for n in sizes]
    base = dense_estimates(tree_measurements(plan.law, nothing))
    out = [np.zeros((n * n_cells, n * n_cells)) for n in sizes]
    for level, (n, noise, rows) in enumerate(
        zip(sizes, (one.noise for one in plan.levels), exact_cell_sums(plan.law), strict=True)
    ):
        matrix = np.zeros((len(rows), n_cells))
        for number, cells in enumerate(rows):
            matrix[number, list(cells)] = 1
        kept = np.eye(n_cells) - (np.linalg.pinv(matrix) @ matrix if len(rows) else 0)  # noise that no sum has
        covariance = float(noise.variance) * np.kron(np.eye(n), kept)
        columns: list[list[Floats]] = []
        for place in range(n * n_cells):
            fed = [numbers.copy() for numbers in nothing]
            fed[level].reshape(-1)[place] = 1
            columns.append(dense_estimates(tree_measurements(plan.law, fed)))
        for below in range(len(sizes)):
            response = np.stack([(column[below] - base[below]).reshape(-1) for column in columns], axis=1)
            out[below] += response @ covariance @ response.T
    return out


def expected_of(covariance: Floats, is_open: Any) -> tuple[float, float, float]:
    """Return the standard deviations of a cell, a total, and a cell's sum over units at random, from all pairs."""
    n_cells = is_open.shape[1]
    by_unit = covariance.reshape(-1, n_cells, covariance.shape[0] // n_cells, n_cells)
    units, cells = np.arange(len(by_unit)), np.flatnonzero(is_open.any(axis=0))
    variances = np.diagonal(covariance).reshape(-1, n_cells)
    of_total = np.mean([by_unit[unit, :, unit, :].sum() for unit in units[is_open.any(axis=1)]])
    sums = []
    for cell in cells:
        some = units[is_open[:, cell]]
        n = min(SUMMED, len(some))
        pairs = by_unit[some][:, cell][:, some, cell]
        together = (pairs.sum() - np.trace(pairs)) / max(1, len(some) * (len(some) - 1))
        sums.append(n * np.trace(pairs) / len(some) + n * (n - 1) * together)
    of_cell, total, of_sum = (
        float(np.sqrt(max(0.0, some))) for some in (variances[is_open].mean(), of_total, np.mean(sums))
    )
    return of_cell, total, of_sum


def check_dense(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    for summed in (2, 40):
        monkeypatch.setattr(tree_estimate_errors, "SUMMED", summed)
        monkeypatch.setitem(globals(), "SUMMED", summed)
        for level, (error, covariance) in enumerate(zip(tree_errors(plan), dense_covariances(plan), strict=True)):
            mask = plan.law.zeros.of_level(level)
            is_open = np.ones((error.n_units, 4), np.bool_) if mask is None else ~mask
            found = (error.cell, error.total, error.sum)
            assert found == pytest.approx(expected_of(covariance, is_open), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("exact", EXACT)
def test_variances_are_those_of_dense_least_squares(exact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_dense(planned(SMALL, exact, rho="1/8")[0], monkeypatch)


@pytest.mark.parametrize("exact", ["nothing", "top", "nested"])
def test_units_that_are_zero_by_structure_say_nothing(exact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.zeros((6, 4), np.bool_)
    zeros[[1, 2]] = True
    check_dense(planned(SMALL, exact, zeros, rho="1/8")[0], monkeypatch)


def test_cells_that_are_zero_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.zeros((6, 4), np.bool_)
    zeros[:, 3], zeros[0, 1], zeros[3:, 2] = True, True, True
    check_dense(planned(SMALL, "nothing", zeros, rho="1/8")[0], monkeypatch)


def test_the_variance_given_a_sum_is_that_of_all_outcomes() -> None:
    for family, precision in (("double_geometric", "1"), ("double_geometric", "3"), ("discrete_gaussian", "2")):
        noise = FAMILIES[family](precision)
        values = np.arange(-30, 31)
        first, second = np.meshgrid(values, values)
        weights = np.exp(noise.log_weight(first) + noise.log_weight(second) + noise.log_weight(first + second))
        expected = (weights * first**2).sum() / weights.sum() * 3 / 2
        assert tree_estimate_errors.variance_given_sum(noise, 3) == pytest.approx(expected, rel=1e-9)


# What comes out: estimates of made-up releases around a large constant table.


def drawn(plan: Plan, leaves: Ints, n_draws: int) -> list[tuple[Floats, Floats, Floats]]:
    """Return for each level the mean squares of each draw: of measured cells, of cells' estimates, of totals'."""
    truth = plan.law.tree.summed(leaves)
    out = np.zeros((3, len(truth), n_draws))
    for draw in range(n_draws):
        measured = plan.draw(leaves, cg.replay_rng(f"draw {draw}"))
        estimates = estimate(tree_measurements(plan.law, measured))
        for level, (table, numbers, some) in enumerate(zip(truth, measured, estimates, strict=True)):
            gap = some / 2.0**FRACTION_BITS - table
            out[:, level, draw] = ((numbers - table) ** 2).mean(), (gap**2).mean(), (gap.sum(axis=1) ** 2).mean()
    return [(out[0, level], out[1, level], out[2, level]) for level in range(len(truth))]


def distances(errors: Sequence[EstimateErrors], squares: Sequence[tuple[Floats, Floats, Floats]]) -> list[float]:
    """Return how far the errors are from those of draws, in standard errors of these."""
    out = []
    for error, of_level in zip(errors, squares, strict=True):
        for size, some in zip((error.measured_cell, error.cell, error.total), of_level, strict=True):
            if size > 1e-6:
                out.append(abs(float(some.mean()) - size**2) / float(some.std(ddof=1) / np.sqrt(some.size)))
            else:
                assert float(some.max()) < 1e-5
    return out


def without_children(
    starts: Sequence[Ints], noise: Sequence[NoiseVariance], first: int, is_open: Any = None
) -> list[Floats]:
    """The mutant: a unit's own measurement says all of it before its parent is heard."""
    assert is_open is None
    out: list[Floats] = []
    for level in range(first, len(noise)):
        variance = noise[level].actual
        if level == 0:
            out.append(np.full(len(starts[0]) - 1, variance))
            continue
        sizes = np.diff(starts[level - 1])
        parents = out[-1] if level > first else np.zeros(len(sizes))
        out.append(np.repeat(variance - variance / sizes + parents / sizes**2, sizes))
    return out


@pytest.mark.parametrize(
    ("exact", "budget"),
    [
        ("top", {"rho": "1"}),
        ("nested", {"epsilon": "2"}),
        ("everywhere", {"epsilon": "2"}),
        ("loose cells", {"rho": "4", "noise": "double_geometric"}),
    ],
)
def test_releases_are_as_far_off_as_is_planned(
    exact: str, budget: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance passes 4.5 standard errors once in 150,000; the mutant stands outside of them."""
    plan, leaves = planned(LARGE, exact, **budget)
    squares, errors = drawn(plan, leaves, 300), tree_errors(plan)
    assert max(distances(errors, squares)) < 4.5
    for error, (_, cells, _) in zip(errors, squares, strict=True):
        assert error.cell == pytest.approx(float(np.sqrt(cells.mean())), rel=0.04)
    monkeypatch.setattr(tree_estimate_errors, "estimate_variances", without_children)
    assert max(distances(tree_errors(plan), squares)) > 4.5


def test_empty_cells_of_tables_are_too_large_by_no_more_than_is_said() -> None:
    """Of a level's empty cells, most of whose siblings are full; a table's bias is of the size that is said."""
    leaves = np.full((LARGE.n_leaves, 4), MANY)
    leaves[:, 0] = np.where(np.arange(len(leaves)) % 3, 0, MANY)
    request = cg.Hierarchy(LARGE, SCHEMA, invariants=[cg.total()], method="measured", rho="1")
    plan = request.plan(request.disclose(leaves))
    gaps = [plan.draw_tables(leaves, cg.replay_rng(f"empty {draw}"))[-1][leaves[:, 0] == 0, 0] for draw in range(60)]
    bias, sure = float(np.mean(gaps)), float(np.std([some.mean() for some in gaps]) / np.sqrt(len(gaps)))
    most = tree_errors(plan)[-1].empty_bias
    assert 0.5 * most < bias < most + 4 * sure


# Areas that cross the tree.


def dense_area_variances(starts: Sequence[Ints], variances: Sequence[float], first: int, areas: Ints) -> Floats:
    """Return the variance of each area's sum, from the matrix of all measurements; above `first` all is exact."""
    sums = [np.eye(len(areas))]
    for bounds in reversed(starts):
        sums.insert(0, np.add.reduceat(sums[0], bounds[:-1], axis=0))
    rows = np.array([areas == area for area in range(int(areas.max()) + 1)], np.float64)
    precision = sum(part.T @ part / v for part, v in list(zip(sums, variances, strict=True))[first:])
    covariance = np.linalg.inv(np.asarray(precision))
    if first:
        exact = sums[first - 1]
        seen = covariance @ exact.T
        covariance = covariance - seen @ np.linalg.inv(exact @ seen) @ seen.T
    out: Floats = np.diag(rows @ covariance @ rows.T)
    return out


@pytest.mark.parametrize("first", [0, 1, 2])
def test_areas_across_have_the_variances_of_dense_least_squares(first: int) -> None:
    starts = [families.starts for families in LARGE.families]
    areas = np.arange(LARGE.n_leaves) * 7 // LARGE.n_leaves
    areas[5::11] = -1
    variances = (3.0, 2.0, 0.7)
    found = area_variances(starts, variances, first, areas, 7)
    assert np.allclose(found, dense_area_variances(starts, variances, first, areas), rtol=1e-9)
    # The mutant: units of an area as if their errors were independent.
    alone = estimate_variances(starts, [NoiseVariance(v, v) for v in variances], first)[-1]
    assert not np.allclose(found, np.bincount(areas[areas >= 0], alone[areas >= 0]), rtol=0.02)


@pytest.mark.parametrize("exact", ["nothing", "top", "nested", "everywhere"])
def test_estimates_of_areas_across_are_off_by_no_more_than_is_said(exact: str) -> None:
    areas = AreasAcross.of(
        LARGE, "district", [str(leaf * 5 // LARGE.n_leaves) for leaf in range(LARGE.n_leaves)], "1/4"
    )
    request = cg.Hierarchy(LARGE, SCHEMA, invariants=EXACT[exact], across=areas, rho="1/2")
    leaves = np.full((LARGE.n_leaves, 4), MANY)
    plan = request.plan(request.disclose(leaves))
    errors = across_errors(plan)
    assert errors is not None
    squares = np.zeros(3)
    n = 100
    for number in range(n):
        drawn = plan.draw(leaves, cg.replay_rng(f"areas across {exact} {number}"))
        truth = areas.summed(leaves)
        estimates = np.ldexp(estimate(tree_measurements(plan.law, drawn))[-1].astype(np.float64), -FRACTION_BITS)
        gap = np.zeros(truth.shape)
        np.add.at(gap, areas.area_of_leaf, estimates - MANY)
        cells = [
            column for column, query in enumerate(plan.law.measured_laws[-1].measured) if len(query.row.cells) == 1
        ]
        squares += [((drawn[-1][:, cells] - truth) ** 2).mean(), (gap**2).mean(), (gap.sum(axis=1) ** 2).mean()]
    measured, cell, total = np.sqrt(squares / n)
    assert measured == pytest.approx(errors.measured_cell, rel=0.1)
    assert 0.75 * errors.cell < cell < 1.1 * errors.cell
    assert total < 1.1 * errors.total or exact == "everywhere"
    assert errors.cell < min(errors.measured_cell, errors.summed_cell)
