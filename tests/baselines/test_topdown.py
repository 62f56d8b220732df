"""The TopDown node: whole, within every condition, near its real solution, and refused where it cannot be."""

import numpy as np
import pytest

import congenial as cg
from congenial.errors import BaselineError
from congenial.examples import p12_mechanism, p12_table
from congenial.randomness import replay_rng
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers, repair_all, sample
from congenial.study.baselines.projection import L2Projection
from congenial.study.baselines.topdown_and_leaves_alone import TopDown, rounded
from systems import SYSTEMS


@pytest.mark.parametrize("name", SYSTEMS)
def test_whole_tables_that_obey_every_condition(name: str) -> None:
    target = SYSTEMS[name]().target
    problem = Problem(target.constraints, target.measured)
    table = cg.Table(target.constraints.schema, target.centre.reshape(target.constraints.schema.shape))
    draws = repair_all(TopDown(), problem, noisy_answers(problem, table, 15, replay_rng(name)))
    assert draws.dtype == np.int64
    assert np.all(target.constraints.holds(draws))


def test_p12_stays_next_to_the_projection() -> None:
    """With cells alone there is one pass: every cell moves by less than one."""
    mechanism, table = p12_mechanism("1"), p12_table()
    problem = Problem.of(mechanism, mechanism.disclose(table))
    answers = noisy_answers(problem, table, 20, replay_rng("p12"))
    projected, whole = repair_all(L2Projection(), problem, answers), repair_all(TopDown(), problem, answers)
    assert np.abs(projected - whole).max() < 1
    assert np.all(problem.constraints.holds(whole))


def test_larger_sums_come_first() -> None:
    """A total measured badly still wins over cells measured well: the order of the passes, not of the variances."""
    schema = cg.Schema({"age": ["a", "b", "c"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="2"), cg.total(precision="1/10")])
    problem = Problem.of(mechanism, mechanism.disclose(cg.Table(schema, [5, 6, 7])))
    answers = np.array([5.0, 6.0, 7.0, 30.0])
    assert TopDown().repair(problem, answers).sum() == 30
    assert L2Projection().repair(problem, answers).sum() < 19


def test_rounding_that_needs_more_room() -> None:
    """Weights of 2 and 3: no corner next to the real table is whole, a wider one is."""
    schema = cg.Schema({"cell": ["a", "b"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.linear({"a": 2, "b": 3})])
    constraints = mechanism.disclose(cg.Table(schema, [1, 3]))
    table = rounded(Problem.of(mechanism, constraints), np.array([2.5, 2.0]))
    assert constraints.holds(table)


def test_rounding_that_cannot_be_done_is_refused() -> None:
    schema = cg.Schema({"cell": ["a", "b"]})
    row = cg.linear({"a": 97, "b": 89})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[row])
    constraints = mechanism.disclose(cg.Table(schema, [100, 0]))
    with pytest.raises(BaselineError, match="no whole-number table next to"):
        rounded(Problem.of(mechanism, constraints), np.array([50.0, 4850 / 89]))


def test_every_method_takes_the_same_mechanism_and_table() -> None:
    draws = sample(TopDown(), p12_mechanism(), p12_table(), 2, replay_rng(1))
    assert draws.shape == (2, 46)
    assert TopDown().label.is_integer
    assert "nothing is known" in TopDown().label.privacy
