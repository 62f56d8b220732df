"""Small steps keep every published equality, reach every table of small sets, and are as likely back as forth."""

from collections import Counter

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.inference.chains_and_table_moves import MOST_TABLES, TableMoves
from congenial.sampling.enumeration import all_tables

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})


def test_moves_keep_every_equality_and_reach_across_groups() -> None:
    constraints = cg.examples.p12_mechanism().disclose(cg.examples.p12_table())
    moves = TableMoves.of(constraints)
    assert len(moves.members) == 5  # inside four groups, and one across them
    steps = moves.draw(400, cg.replay_rng("circuits"))
    matrix = np.stack([np.isin(np.arange(46), row.row.cells) for row in constraints.equalities]).astype(int)
    assert not (steps @ matrix.T).any()
    assert {int(np.abs(step).sum()) for step in steps} >= {2, 4}


@pytest.mark.parametrize(
    "conditions",
    [
        [cg.total()],
        [cg.margin("sex"), cg.margin("age")],
        [cg.linear([[2, 2], [1, 1]])],
        [cg.total(), cg.bounds(0, 0, where={"sex": "f", "age": "0"})],
    ],
)
def test_steps_connect_small_sets(conditions: list[Condition]) -> None:
    """By search from one table, along steps that stay among the tables that fit: every other is reached."""
    table = cg.Table(SCHEMA, [[0, 1], [2, 2]])
    constraints = cg.Constraints.of(SCHEMA, conditions, table.counts.tolist())
    listed = all_tables(constraints, MOST_TABLES)
    assert listed is not None
    steps = {tuple(step) for step in TableMoves.of(constraints).draw(2_000, cg.replay_rng("connect")).tolist()}
    assert steps == {tuple(-change for change in step) for step in steps}
    left = set(map(tuple, listed.tolist()))
    open_ends = [left.pop()]
    while open_ends:
        here = open_ends.pop()
        reached = left & {tuple(a + b for a, b in zip(here, step, strict=True)) for step in steps}
        left -= reached
        open_ends += reached
    assert not left


def test_a_step_is_as_likely_as_its_opposite() -> None:
    table = cg.Table(SCHEMA, [[0, 1], [2, 2]])
    constraints = cg.Constraints.of(SCHEMA, [cg.linear([[2, 2], [1, 1]])], table.counts.tolist())
    steps = TableMoves.of(constraints).draw(100_000, cg.replay_rng("opposite"))
    counts = Counter(map(tuple, steps.tolist()))
    for step, n in counts.items():
        opposite = counts[tuple(-change for change in step)]
        assert abs(n - opposite) <= 6 * np.sqrt(n + opposite)


def test_nothing_open_is_said() -> None:
    schema = cg.Schema({"bin": ["a"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    constraints = mechanism.disclose(cg.Table(schema, [4]))
    with pytest.raises(cg.CongenialError, match="nothing open"):
        TableMoves.of(constraints)
