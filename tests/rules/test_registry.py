"""The registry of rules, its contract and a toy that follows the recipe; rules reach nothing that reads data."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import congenial.rules
from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import total
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.gls import nearest_counts
from congenial.rules.margin_trees import TreeMargins
from congenial.rules.nearest import NEAREST
from congenial.rules.registry import RULES, RuleInput, TableRule, TreeRule, rule_named
from congenial.rules.rule_and_input import check_conditions
from congenial.rules.tree_measurements import TreeMeasurements
from rules.drawn_systems import schema_of
from rules.nearest_by_force import cell_rows, input_of


@dataclass(frozen=True)
class FirstTable(TableRule):
    """A rule that follows the recipe: the public table that conditions have anyway, whatever was measured."""

    def decide(self, data: RuleInput, progress: Progress = silent, *, n_threads: int | None = None) -> Ints:
        progress("deciding the table", 0, len(data.areas))
        return np.array([constraints.point for constraints in data.areas.values()], np.int64)

    def check(self, data: RuleInput, tables: Ints) -> None:
        check_conditions(data, tables)
        if (self.decide(data) != tables).any():
            raise ConditionError("not the first tables")

    def why_not(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> str | None:
        return None


TOY = FirstTable("first", 1, "first table", "A table that obeys the conditions. Measurements are not looked at.")


def areas() -> Areas:
    return Areas.of_counts(schema_of(4), [total()], ["a", "b"], np.array([[1, 2, 0, 4], [0, 0, 3, 0]]), name="area")


TABLE_RULES = [rule for rule in RULES.values() if isinstance(rule, TableRule)]
TREE_RULES = [rule for rule in RULES.values() if isinstance(rule, TreeRule)]


def tree_data(rule: TreeRule) -> TreeMeasurements:
    """Return measurements that a rule takes: of every cell, or of whole margins."""
    starts = (np.array([0, 2, 4]),)
    top, leaves = np.array([[4, 4], [1, 0]]), np.array([[3, -1], [0, 6], [-2, 1], [4, -1]])
    if rule.measures_cells:
        return TreeMeasurements(starts, (top, leaves), (1.0, 2.0))
    return TreeMargins.of(starts, (2,), ((0,),), ((top,), (leaves,)), ((1.0,), (2.0,)))


@pytest.mark.parametrize("rule", TREE_RULES, ids=lambda rule: rule.name)
def test_contract_of_rules_for_trees(rule: TreeRule) -> None:
    data = tree_data(rule)
    starts = data.starts
    tables = rule.decide(data, nearest_counts)
    assert [table.shape for table in tables] == [(2, 2), (4, 2)]
    assert all(table.dtype == np.int64 and table.min() >= 0 for table in tables)
    assert (np.add.reduceat(tables[1], [0, 2], axis=0) == tables[0]).all()
    rule.check(data, tables, nearest_counts)
    again = rule.decide(data, nearest_counts, n_threads=2)
    assert all((one == other).all() for one, other in zip(tables, again, strict=True))
    with pytest.raises(ConditionError):
        rule.check(data, (tables[0], tables[1][::-1].copy()), nearest_counts)
    assert rule.why_not(starts, 2) is None
    assert rule.words.endswith(".")
    assert rule.version >= 1


@pytest.mark.parametrize("rule", [*TABLE_RULES, TOY], ids=lambda rule: rule.name)
def test_contract(rule: TableRule) -> None:
    data = input_of(areas(), np.array([[3, -1, 0, 6], [-2, 1, 4, -1]]))
    before = data.measurements.copy()
    tables = rule.decide(data)
    assert tables.dtype == np.int64
    assert tables.shape == (2, 4)
    assert data.areas.holds(tables).all()
    rule.check(data, tables)
    assert (rule.decide(data, n_threads=2) == tables).all()
    assert (data.measurements == before).all()
    with pytest.raises(ConditionError):
        rule.check(data, tables + 1)
    with pytest.raises(ConditionError):
        rule.check(data, tables[:, :3])
    assert rule.why_not(data.areas, data.rows, data.precisions) is None
    assert rule.words.endswith(".")
    assert rule.version >= 1


def test_names() -> None:
    assert {name: rule.name for name, rule in RULES.items()} == {name: name for name in RULES}
    assert rule_named("nearest") is rule_named("nearest", 1)
    with pytest.raises(ConditionError, match="did you mean 'nearest'"):
        rule_named("nearst")
    with pytest.raises(ConditionError, match="not version 2"):
        rule_named("nearest", 2)


def test_input_is_checked() -> None:
    one = areas()
    rows, precisions, lines = cell_rows(4), (Fraction(1),) * 4, np.zeros((2, 4), np.int64)
    with pytest.raises(ConditionError, match="64-bit"):
        RuleInput(one, rows, precisions, 1, lines.astype(np.float64), bytes(32))
    with pytest.raises(ConditionError, match="shape"):
        RuleInput(one, rows, precisions, 1, lines[:1], bytes(32))
    with pytest.raises(ConditionError, match="precision"):
        RuleInput(one, rows, precisions[:3], 1, lines, bytes(32))
    with pytest.raises(ConditionError, match="exponent"):
        RuleInput(one, rows, precisions, 3, lines, bytes(32))
    with pytest.raises(ConditionError, match="32 bytes"):
        RuleInput(one, rows, precisions, 1, lines, b"short")


MAY_IMPORT = {
    *("arrays", "conditions", "errors", "exact", "memory_and_threads", "progress_and_interrupts", "randomness"),
    *("portable_math", "rules", "safe_text", "schema"),
}


def test_rules_reach_no_data() -> None:
    """Measurements and public structure only: no tables, no files, no key, no law with a centre."""
    folder = Path(congenial.rules.__file__).parent
    names = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                first, _, rest = module.partition(".")
                names.add(first)
                is_allowed = rest == "sampling.jit" or rest.split(".")[0] in MAY_IMPORT  # which compiles kernels
                assert first != "congenial" or is_allowed, (path.name, module)
    assert not names & {"pyarrow", "duckdb", "numba", "os", "pathlib", "random", "secrets", "io", "sqlite3"}


def test_public_words_only() -> None:
    """Of the module of random bits, rules take keyed words under a public seed, and nothing that makes secrets."""
    folder = Path(congenial.rules.__file__).parent
    taken = {
        alias.name
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "congenial.randomness"
        for alias in node.names
    }
    assert taken == {"KeyedWords"}


def test_one_table() -> None:
    constraints = Constraints.of(schema_of(3), [total(equals=2)])
    data = input_of(constraints, np.array([1, 1, 0]))
    assert NEAREST.decide(data).tolist() == [[1, 1, 0]]
