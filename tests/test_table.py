"""Schema and Table: what they take, what they refuse, how they look."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import congenial as cg
from congenial.errors import ConditionError, SchemaError, TableError
from congenial.table import AreaTables

SCHEMA = cg.Schema({"sex": ["f", "m"], "code": ["010", "10", "1"]})
COUNTS = [[1, 2, 3], [4, 5, 6]]
TABLE = cg.Table(SCHEMA, COUNTS)
COLUMNS = {"sex": ["f"] * 3 + ["m"] * 3, "code": ["010", "10", "1"] * 2, "count": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize(
    "counts",
    [
        np.array(COUNTS),
        np.array(COUNTS, float),
        np.array(COUNTS, np.uint8),
        np.array(COUNTS, object),
        tuple(map(tuple, COUNTS)),
        {("f", "010"): 1, ("f", "10"): 2, ("f", "1"): 3, "m": {"010": 4, "10": 5, "1": 6}},
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).sample(frac=1, random_state=0),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
    ],
    ids=["array", "float", "uint8", "object", "tuples", "mapping", "pandas", "shuffled", "polars", "pyarrow"],
)
def test_every_form_gives_the_same_table(counts: object) -> None:
    assert cg.Table(SCHEMA, counts) == TABLE


def test_unmentioned_cells_are_filled_only_on_request() -> None:
    part = pl.DataFrame(COLUMNS).head(4)
    with pytest.raises(TableError, match=r"^a cell is missing.*fill=0"):
        cg.Table(SCHEMA, part)
    assert cg.Table(SCHEMA, part, fill=0).counts.tolist() == [1, 2, 3, 4, 0, 0]


def test_count_column_among_others() -> None:
    wide = pd.DataFrame(COLUMNS | {"year": [2020] * 6})
    with pytest.raises(TableError, match="2 columns besides"):
        cg.Table(SCHEMA, wide)
    assert cg.Table(SCHEMA, wide, count="count") == TABLE
    with pytest.raises(TableError, match="did you mean 'count'"):
        cg.Table(SCHEMA, wide, count="counts")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-1, "negative"),
        (1.5, "whole number"),
        (float("nan"), "NaN"),
        (float("inf"), "infinite"),
        (True, "boolean"),
        (np.True_, "boolean"),
        (None, "missing"),
        ("7", "this is a str"),
        (2**53 + 1, "2\\^53"),
        (1e300, "2\\^53"),
    ],
)
def test_bad_counts_are_told_without_their_cell(value: object, words: str) -> None:
    """The message is the same whichever cell it is: a cell named here would be an answer that nobody paid for."""
    message = set()
    for cell in range(6):
        counts: list[object] = [1, 2, 3, 4, 5, 6]
        counts[cell] = value
        with pytest.raises(TableError, match=f"^a cell of the counts: .*{words}") as caught:
            cg.Table(SCHEMA, [counts[:3], counts[3:]])
        message.add(str(caught.value))
    assert len(message) == 1


def test_largest_count_is_kept_exactly() -> None:
    assert cg.Table(SCHEMA, [[2**53, 0, 0], [2**53, 0, 1]]).total == 2**54 + 1


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, 2, 3], [4, 5]], "ragged.*'code' has 2 entries"),
        ([[1, 2, 3]], "ragged.*'sex' has 1 entries"),
        ([1, 2], "ragged: at depth 2"),
        ([[[1], 2, 3], [4, 5, 6]], "this is a list"),
        (np.zeros((3, 2), int), r"shape \(3, 2\)"),
        (7, "not a int"),
        ("abc", "not a str"),
        ({("f", "010", "x"): 1}, "one label for each"),
        ({("f", "01"): 1}, "label of dimension 'code'"),
        ({("f", 10): 1}, "must be text"),
        (pd.DataFrame({"sex": ["f"], "n": [1]}), "no column 'code'"),
    ],
)
def test_bad_shapes_are_named(counts: object, words: str) -> None:
    with pytest.raises(TableError, match=words):
        cg.Table(SCHEMA, counts)


@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        ({}, "at least one dimension"),
        ({"a": []}, "no labels"),
        ({"a": ["x", "x"]}, "'x' twice"),
        ({"a": [1, 2]}, 'write "1"'),
        ({"a": "xy"}, "list of labels"),
        ({"a": [""]}, "empty label"),
        ({1: ["x"]}, "name is text"),
        ({"a": [str(i) for i in range(4000)], "b": [str(i) for i in range(4000)]}, "16,000,000 cells"),
        ([("a", ["x"])], "mapping"),
    ],
)
def test_bad_schemas_are_named(dimensions: object, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        cg.Schema(dimensions)  # type: ignore[arg-type]


def test_where_picks_cells_and_helps_with_typos() -> None:
    assert SCHEMA.cells({"sex": "m", "code": ["1", "010"]}).tolist() == [3, 5]
    with pytest.raises(SchemaError, match="did you mean 'code'"):
        SCHEMA.cells({"cod": "1"})
    with pytest.raises(SchemaError, match="'100' is not a label of dimension 'code'; did you mean '10'"):
        SCHEMA.cells({"code": "100"})
    with pytest.raises(SchemaError, match="picks no cell"):
        SCHEMA.cells({"code": []})
    with pytest.raises(SchemaError, match="a mapping"):
        SCHEMA.cells("sex")  # type: ignore[arg-type]
    assert SCHEMA.cell({"code": "10", "sex": "m"}) == SCHEMA.cell(("m", "10")) == 4
    assert SCHEMA.cell_name(4) == "sex=m, code=10"


def test_a_table_cannot_be_changed_or_hashed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        TABLE.counts[0] = 9
    with pytest.raises(TypeError, match="unhashable"):
        hash(TABLE)


def test_text_and_html_show_labels_and_totals() -> None:
    text = repr(TABLE)
    assert "confidential" in text
    assert text.splitlines()[-1].split() == ["total", "5", "7", "9", "21"]
    html = cg.Table(cg.Schema({"a<b": ["<x>", "y"]}), [1, 2])._repr_html_()
    assert "&lt;x&gt;" in html
    assert "<x>" not in html


def test_a_long_table_is_shortened_and_a_wide_one_turned() -> None:
    long = cg.Table(cg.Schema({"area": [str(i) for i in range(500)], "sex": ["f", "m"]}), np.ones((500, 2), int))
    assert "rows not shown" in repr(long)
    assert len(repr(long).splitlines()) < 70
    wide = cg.Table(cg.Schema({"sex": ["f", "m"], "age": [str(i) for i in range(23)]}), np.ones((2, 23), int))
    assert max(map(len, repr(wide).splitlines())) < 40


def test_tables_of_areas_are_those_one_by_one() -> None:
    """One array for all areas discloses and prepares the same as a Table for each."""
    schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    counts = np.array([[3, 4, 1, 2], [0, 0, 9, 1], [5, 5, 5, 5]])
    together = AreaTables(schema, ["a", "b", "c"], counts)
    each = {label: cg.Table(schema, line.reshape(2, 2)) for label, line in zip("abc", counts, strict=True)}
    assert dict(together) == each
    counts[0, 0] = 7  # what was checked stays as it was
    assert together["a"] == each["a"]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total(), cg.margin("sex")])
    assert mechanism.disclose(together) == mechanism.disclose(each)
    with pytest.raises(ConditionError, match="schema"):
        mechanism.disclose(AreaTables(cg.Schema({"sex": ["female", "male"]}), ["a"], np.array([[1, 2]])))


@pytest.mark.parametrize(
    ("labels", "counts"),
    [
        (["a"], [[1, 2, 3]]),
        (["a", "a"], [[1, 2]] * 2),
        (["a"], [[1, -1]]),
        (["a"], [[1, 2**53 + 1]]),
        (["a"], [[0.5, 1]]),
    ],
)
def test_tables_of_areas_that_are_none(labels: list[str], counts: list[list[int]]) -> None:
    with pytest.raises(TableError) as refused:
        AreaTables(cg.Schema({"sex": ["female", "male"]}), labels, np.array(counts))
    assert "-1" not in str(refused.value)
