"""Errors simulated around published tables: those of releases that are drawn and decided again, by hand."""

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.errors import StudyError
from congenial.plan import Plan
from congenial.randomness import replay_rng
from congenial.study.simulated_errors import AS_IF_TRUE, simulated_errors

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20-29", "30+"]})
COUNTS = np.array([[3 + n % 4, 7, 2, 0, 5, 4 + n % 3, 1, n % 2] for n in range(24)])


def plan_of(method: str, rule: str | None) -> Plan:
    tables = {f"area {n:02}": cg.Table(SCHEMA, line.reshape(2, 4)) for n, line in enumerate(COUNTS)}
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells()], invariants=[cg.total()], epsilon="1", method=method, rule=rule
    )
    return mechanism.plan(mechanism.disclose(tables))


def distance(tables: Ints) -> float:
    return float(np.abs(tables - COUNTS).sum(axis=1).mean())


@pytest.mark.parametrize("rule", ["anchored", "nearest"])
def test_errors_are_those_of_whole_releases(rule: str) -> None:
    plan = plan_of("measured", rule)
    errors = simulated_errors(plan, [COUNTS], n_releases=4)
    rng = replay_rng("simulated errors")
    by_hand = [distance(plan.draw_tables(COUNTS, rng)[0]) for _ in range(4)]
    ((name, metrics),) = errors.levels
    assert name == "area"
    assert metrics[0].value == pytest.approx(np.mean(by_hand))
    assert AS_IF_TRUE in str(errors)
    assert simulated_errors(plan, [COUNTS], n_releases=4).levels == errors.levels


def test_what_is_refused() -> None:
    with pytest.raises(StudyError, match="no rule to run again"):
        simulated_errors(plan_of("conditional", None), [COUNTS])
    with pytest.raises(StudyError, match="two simulated releases or more, not 1"):
        simulated_errors(plan_of("measured", "nearest"), [COUNTS], n_releases=1)
