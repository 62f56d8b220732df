"""The neighbour structure against brute force over all pairs of tables.

Catches a smallest k that is too large (pairs nobody is promised anything about), a structure called destroyed that is
not (a loss of 0 that is none), examples that break the conditions, and cells called unprotected that are protected.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from brute import Dice, Ints, Limits, records_apart, tables_of
from congenial.conditions.base import Condition
from congenial.privacy.closest_neighbours_and_unprotected import Neighbours, neighbours_of
from congenial.randomness import replay_rng

SHAPES = [(2,), (3,), (4,), (5,), (2, 2), (2, 3), (3, 2), (2, 2, 2)]
RELATIONS = ["bounded", "unbounded"]


@dataclass(frozen=True)
class Drawn:
    """A random system on a table with labelled dimensions."""

    shape: tuple[int, ...]
    box: tuple[tuple[int, int], ...]
    rows: tuple[Limits, ...]

    @property
    def schema(self) -> cg.Schema:
        return cg.Schema({f"d{axis}": [f"{axis}{i}" for i in range(size)] for axis, size in enumerate(self.shape)})

    @property
    def constraints(self) -> cg.Constraints:
        made: list[Condition] = []
        for weights, low, high in self.rows:
            array = np.array(weights).reshape(self.shape).tolist()
            limits = {"equals": low} if low == high else {"at_least": low, "at_most": high}
            made.append(cg.linear(array, **limits))  # type: ignore[arg-type]
        for cell, (low, high) in enumerate(self.box):
            index = np.unravel_index(cell, self.shape)
            where = {f"d{axis}": f"{axis}{int(i)}" for axis, i in enumerate(index)}
            made.append(cg.bounds(low, high, where=where))
        return cg.Constraints.of(self.schema, made)

    @property
    def tables(self) -> Ints:
        return tables_of(self.box, self.rows)


def draw(dice: Dice, *, with_ranges: bool = True) -> Drawn:
    while True:
        shape = dice.choice(SHAPES)
        n = int(np.prod(shape))
        wide = 4 if n <= 4 else 2 if n <= 6 else 1
        box = tuple((low := dice.choice([0, 0, -1, 1]), low + dice.integer(0 if n > 2 else 1, wide)) for _ in range(n))
        inside = [dice.integer(*ends) for ends in box]
        rows: list[Limits] = []
        for _ in range(dice.integer(0, 3)):
            weights = dice.weights(n, [0, 1, 1] if dice.chance(1, 2) else [0, 1, -1, 2, 3])
            value = sum(w * x for w, x in zip(weights, inside, strict=True))
            rows.append((weights, value, value))
        for _ in range(dice.integer(0, 2) if with_ranges else 0):
            weights = dice.weights(n, [0, 1, -1, 2])
            value = sum(w * x for w, x in zip(weights, inside, strict=True))
            ends = (value - dice.integer(0, 2), value + dice.integer(0, 2))
            rows.append((weights, *dice.choice([ends, (ends[0], None), (None, ends[1])])))
        found = Drawn(shape, box, tuple(rows))
        if len(found.tables) <= 250:
            return found


def smallest(tables: Ints, relation: str) -> int | None:
    apart = records_apart(tables, relation)
    return int(apart[apart > 0].min()) if (apart > 0).any() else None


def one_record_changes(tables: Ints) -> NDArray[np.int64]:
    """Return all changes of one record (change, cell)."""
    first, second = np.nonzero(records_apart(tables, "bounded") == 1)
    return np.unique(tables[second] - tables[first], axis=0)


def check_pair(found: Neighbours, drawn: Drawn, relation: str) -> None:
    assert found.pair is not None
    assert found.k is not None
    both = np.array(found.pair)
    inside = {tuple(table) for table in drawn.tables.tolist()}
    assert {tuple(table) for table in both.tolist()} <= inside
    assert records_apart(both, relation)[0, 1] == found.k
    moved = ("changes", "change together") if relation == "bounded" else ("is added", "is removed")
    assert any(word in found.example for word in moved)


WORDS = {1: "intact", None: "destroyed"}


@pytest.mark.parametrize("number", range(45))
def test_the_fewest_records_agree_with_all_pairs(number: int, request: pytest.FixtureRequest) -> None:
    """Four systems a test, both relations."""
    dice = Dice(replay_rng(request.node.name))
    for _ in range(4):
        drawn = draw(dice)
        for relation in RELATIONS:
            found = neighbours_of(drawn.constraints, relation)
            truth = smallest(drawn.tables, relation)
            assert found.is_smallest
            assert found.k == truth, (drawn, relation)
            assert found.disruption == WORDS.get(truth, "substantially disrupted")
            if truth is not None:
                check_pair(found, drawn, relation)
            else:
                assert found.pair is None
                assert "no two tables" in found.example


@pytest.mark.parametrize("number", range(30))
def test_what_is_said_of_cells_and_dimensions(number: int, request: pytest.FixtureRequest) -> None:
    """A real change of one record stays inside the reported classes, and no cell that takes part in one is lonely."""
    dice = Dice(replay_rng(request.node.name))
    for _ in range(4):
        drawn = draw(dice)
        schema, changes = drawn.schema, one_record_changes(drawn.tables)
        found = neighbours_of(drawn.constraints, "bounded")
        for change in changes:
            (leaves,), (enters,) = np.flatnonzero(change < 0), np.flatnonzero(change > 0)
            for axis, attribute in enumerate(found.attributes):
                ends = [schema.labels(f"d{axis}")[np.unravel_index(c, drawn.shape)[axis]] for c in (leaves, enters)]
                assert any(set(ends) <= set(labels) for labels in attribute.classes), (drawn, ends)
                assert not (attribute.is_pinned and ends[0] != ends[1])
        moving = {schema.cell_name(int(cell)) for change in changes for cell in np.flatnonzero(change)}
        assert not moving & set(found.isolated_cells), drawn
        first, second = np.nonzero(records_apart(drawn.tables, "unbounded") == 1)
        alone = {schema.cell_name(int(c)) for c in np.nonzero(drawn.tables[first] - drawn.tables[second])[1]}
        unbounded = neighbours_of(drawn.constraints, "unbounded")
        assert not alone & set(unbounded.isolated_cells), drawn
        stuck = np.flatnonzero((drawn.tables == drawn.tables[0]).all(axis=0))
        assert {schema.cell_name(int(cell)) for cell in stuck} <= set(found.isolated_cells), drawn


@pytest.mark.parametrize("number", range(20))
def test_cells_that_equalities_tie_down_are_lonely(number: int, request: pytest.FixtureRequest) -> None:
    """Equalities only: a moving cell with a column of its own is lonely; unbounded, so is every cell in an equality."""
    dice = Dice(replay_rng(request.node.name))
    for _ in range(4):
        drawn = draw(dice, with_ranges=False)
        name = drawn.schema.cell_name
        matrix = np.array([weights for weights, _, _ in drawn.rows], int).reshape(len(drawn.rows), len(drawn.box))
        columns = [tuple(column) for column in matrix.T.tolist()]
        stuck = set(np.flatnonzero((drawn.tables == drawn.tables[0]).all(axis=0)).tolist())
        free = [cell for cell in range(len(columns)) if cell not in stuck]
        alone = {c for c in free if sum(columns[c] == columns[other] for other in free) == 1}
        tied = {c for c in free if any(columns[c])}
        bounded = neighbours_of(drawn.constraints, "bounded").isolated_cells
        unbounded = neighbours_of(drawn.constraints, "unbounded").isolated_cells
        assert {name(c) for c in alone | stuck} <= set(bounded), drawn
        assert {name(c) for c in tied | stuck} <= set(unbounded), drawn


def test_a_fixed_total_leaves_no_record_alone_under_the_unbounded_relation() -> None:
    """Four cells under one total: none can gain a record by itself, and two tables are two records apart."""
    schema = cg.Schema({"cell": ["a", "b", "c", "d"]})
    found = neighbours_of(cg.Constraints.of(schema, [cg.total(equals=3)]), "unbounded")
    assert (found.k, found.disruption) == (2, "substantially disrupted")
    assert len(found.isolated_cells) == 4


@pytest.mark.parametrize("relation", RELATIONS)
def test_limits_can_forbid_what_equalities_allow(relation: str) -> None:
    """Equal columns are not enough: with -2 <= 2 a - 2 b + c <= -1 no single record moves between a and b."""
    rows: tuple[Limits, ...] = (((1, 1, 0), 3, 3), ((2, -2, 1), -2, -1))
    drawn = Drawn((3,), ((0, 3), (0, 3), (0, 0)), rows)
    found = neighbours_of(drawn.constraints, relation)
    assert found.k == smallest(drawn.tables, relation)


def test_the_test_rejects_a_wrong_k() -> None:
    """The mutants: equal columns taken as proof of a one-record change, and groups taken for single cells."""
    limited = Drawn((2,), ((0, 2), (0, 2)), (((1, -1), 0, 1), ((1, 1), 1, 4)))
    # Both cells have empty columns in the equalities, so a record seems free to pass from a to b.
    apart = records_apart(limited.tables, "bounded")
    assert smallest(limited.tables, "bounded") is None
    assert (apart <= 0).all()
    assert neighbours_of(limited.constraints, "bounded").k is None
    # Two cells of one group: their sum never changes, yet two records do.
    grouped = Drawn((2,), ((0, 3), (0, 3)), (((1, 1), 3, 3),))
    assert smallest(grouped.tables, "unbounded") == 2
    assert neighbours_of(grouped.constraints, "unbounded").k == 2


def test_tables_of_different_sizes_only() -> None:
    """a - b = 1: several tables, none with the same number of records."""
    drawn = Drawn((2,), ((0, 4), (0, 4)), (((1, -1), 1, 1),))
    assert neighbours_of(drawn.constraints, "bounded").k is None
    assert neighbours_of(drawn.constraints, "unbounded").k == smallest(drawn.tables, "unbounded") == 2
