"""Projections against an independent solver, closed forms and hand-made cases."""

import numpy as np
import piqp
import pytest
import quadprog
from numpy.typing import NDArray

import congenial as cg
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import BaselineError
from congenial.examples import p12_mechanism, p12_table
from congenial.randomness import RandomStream, replay_rng
from congenial.study.baselines.base_and_least_squares import (
    Polytope,
    Problem,
    least_squares,
    noisy_answers,
    repair_all,
    sample,
)
from congenial.study.baselines.projection import Clipped, L1Projection, L2Projection, Raw, published_total
from drawn import drawn
from systems import SYSTEMS

Floats = NDArray[np.float64]


def random_problem(rng: RandomStream) -> tuple[cg.Constraints, list[int]]:
    """Return conditions around a random table: pinned cells, empty tables, redundant rows, ranges, mixed signs."""
    n = 2 + int(rng.below(np.array([7]))[0])
    schema = cg.Schema({"cell": [f"c{i}" for i in range(n)]})
    is_empty = rng.below(np.array([8]))[0] == 0
    counts = [0] * n if is_empty else rng.below(np.full(n, 6)).tolist()
    conditions: list[object] = []
    for cell, (count, kind) in enumerate(zip(counts, rng.below(np.full(n, 6)).tolist(), strict=True)):
        where = {"cell": f"c{cell}"}
        limits = {0: (count, count), 1: (0, count + 2), 2: (max(0, count - 1), None), 3: (None, None)}
        if kind in limits:
            conditions.append(cg.bounds(*limits[kind], where=where))
    for kind in rng.below(np.full(3, 4)).tolist():
        weights = (rng.below(np.full(n, 2)) if kind < 2 else rng.below(np.full(n, 5)) - 2).tolist()
        if not any(weights):
            continue
        value = sum(w * c for w, c in zip(weights, counts, strict=True))
        if kind == 3:
            conditions.append(cg.linear(weights, at_least=value - 1, at_most=value + 2))
        else:
            conditions += [cg.linear(weights), cg.linear([2 * w for w in weights])]  # the second is redundant
    return cg.Constraints.of(schema, conditions, counts), counts  # type: ignore[arg-type]


def independent(polytope: Polytope, queries: Floats, weights: Floats, answers: Floats) -> Floats:
    """Goldfarb and Idnani's dual method (quadprog); on sets without an inside, where it gives up, PIQP."""
    matrix, low, high = polytope.stacked
    hessian, aim = (queries.T * weights) @ queries, (queries.T * weights) @ answers
    is_equal = low == high
    kept: list[int] = []  # equalities that follow from others would stop both methods
    for row in np.flatnonzero(is_equal).tolist():
        more = [*kept, int(row)]
        kept = more if np.linalg.matrix_rank(matrix[more]) == len(more) else kept
    below, above = np.flatnonzero(~is_equal & np.isfinite(low)), np.flatnonzero(~is_equal & np.isfinite(high))
    columns = np.vstack([matrix[kept], matrix[below], -matrix[above]]).T
    ends = np.concatenate([low[kept], low[below], -high[above]])
    try:
        solved: Floats = quadprog.solve_qp(hessian, aim, columns, ends, len(kept))[0]
    except ValueError:
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = 1e-13
        solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-13
        free = np.flatnonzero(~is_equal & (np.isfinite(low) | np.isfinite(high)))
        limits = (np.maximum(low[free], -1e30), np.minimum(high[free], 1e30))
        f = np.asfortranarray
        solver.setup(f(hessian), -aim, f(matrix[kept]), low[kept], f(matrix[free]), *limits)
        solver.solve()
        solved = solver.result.x
    return solved


@pytest.mark.parametrize("part", range(drawn(4)))
def test_four_hundred_random_problems(part: int, request: pytest.FixtureRequest) -> None:
    """The defect: a solver's default tolerance, a missed condition, a wrong weight."""
    rng = replay_rng(request.node.nodeid)
    for number in range(100):
        if number % 4 == 0:  # conditions take most of the time to compile: four problems for each
            constraints, counts = random_problem(rng)
        n = len(counts)
        extra = (rng.below(np.full((2, n), 3).reshape(-1)) - 1).reshape(2, n)
        queries = np.vstack([np.eye(n), extra]).astype(float)
        weights = 0.1 + rng.uniforms(n + 2)
        answers = queries @ np.array(counts) + 8 * rng.uniforms(n + 2) - 4
        polytope = Polytope.of(constraints)
        found = least_squares(polytope, queries, weights, answers)
        truth = independent(polytope, queries, weights, answers)
        scale = 1 + np.abs(truth).max()
        assert np.abs(found - truth).max() <= 1e-8 * scale
        assert polytope.farthest(found) <= 1e-8 * scale


def test_the_comparison_rejects_weights_left_out(request: pytest.FixtureRequest) -> None:
    """The mutant of the test above."""
    rng = replay_rng(request.node.nodeid)
    worst = 0.0
    for _ in range(20):
        constraints, counts = random_problem(rng)
        n = len(counts)
        weights = 0.1 + rng.uniforms(n)
        answers = np.array(counts) + 8 * rng.uniforms(n) - 4
        polytope = Polytope.of(constraints)
        found = least_squares(polytope, np.eye(n), np.ones(n), answers)
        worst = max(worst, float(np.abs(found - independent(polytope, np.eye(n), weights, answers)).max()))
    assert worst > 1e-3


def test_two_bins_by_hand() -> None:
    """Projecting onto a fixed total splits the surplus, and stops at zero."""
    schema = cg.Schema({"bin": ["1", "2"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    problem = Problem.of(mechanism, mechanism.disclose(cg.Table(schema, [3, 4])))
    assert np.allclose(L2Projection().repair(problem, np.array([4.0, 5.0])), [3, 4])
    assert np.allclose(L2Projection().repair(problem, np.array([-9.0, 5.0])), [0, 7])
    x = L1Projection().repair(problem, np.array([4.0, 5.0]))
    assert np.isclose(x.sum(), 7)
    assert np.isclose(np.abs(x - [4, 5]).sum(), 2)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name != "unmeasured cells"])
@pytest.mark.parametrize("method", [L2Projection(), L1Projection()], ids=["L2", "L1"])
def test_projections_obey_every_condition(name: str, method: L2Projection | L1Projection) -> None:
    target = SYSTEMS[name]().target
    problem = Problem(target.constraints, target.measured)
    table = cg.Table(target.constraints.schema, target.centre.reshape(target.constraints.schema.shape))
    answers = noisy_answers(problem, table, 20, replay_rng(name))
    draws = repair_all(method, problem, answers)
    polytope = Polytope.of(target.constraints)
    assert max(polytope.farthest(draw) for draw in draws) < 1e-7
    # No feasible table is nearer: the confidential one and the released one of another draw are feasible.
    rows = dense([one.row for one in problem.measured], problem.n_cells)
    queries = np.vstack([target.centre, draws]) @ rows.T
    weights = (
        1 / np.array([float(v) for v in problem.variances])
        if isinstance(method, L2Projection)
        else np.array([float(one.noise.precision) for one in problem.measured])
    )
    power = 2 if isinstance(method, L2Projection) else 1
    for number, line in enumerate(answers):
        own = weights @ np.abs(rows @ draws[number] - line) ** power
        for other in queries:
            assert own <= weights @ np.abs(other - line) ** power * (1 + 1e-7) + 1e-7


def test_raw_and_clipped() -> None:
    mechanism, table = p12_mechanism(), p12_table()
    raw = sample(Raw(), mechanism, table, 50, replay_rng(1))
    assert raw.dtype == np.int64
    assert raw.min() < 0  # nothing is repaired
    clipped = sample(Clipped(), mechanism, table, 50, replay_rng(1))
    assert np.allclose(clipped.sum(axis=1), 256)
    assert clipped.min() == 0
    assert not Clipped().label.keeps_invariants
    free = cg.Mechanism(table.schema, measure=[cg.cells(precision="1")], invariants=[cg.margin("sex")])
    problem = Problem.of(free, free.disclose(table))
    assert published_total(problem) == 256  # implied by the margin
    open_one = cg.Mechanism(table.schema, measure=[cg.cells(precision="1")])
    assert published_total(Problem.of(open_one, open_one.disclose(table))) is None


def test_what_cannot_be_solved_is_refused() -> None:
    schema = cg.Schema({"bin": ["1", "2"]})
    only_total = cg.Mechanism(schema, measure=[cg.total(precision="1")], invariants=[cg.bounds(0, 9)])
    with pytest.raises(BaselineError, match="measure cells"):
        sample(Raw(), only_total, cg.Table(schema, [3, 4]), 1, replay_rng(1))
    impossible = Polytope(np.ones((1, 2)), np.array([5.0]), np.array([5.0]), np.zeros(2), np.ones(2))
    with pytest.raises(BaselineError, match="not solved"):
        least_squares(impossible, np.eye(2), np.ones(2), np.zeros(2))
    with pytest.raises(BaselineError, match="from 1 on, not 0"):
        sample(Raw(), p12_mechanism(), p12_table(), 0, replay_rng(1))
