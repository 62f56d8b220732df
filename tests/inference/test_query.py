"""The query language: what is said is what is picked, and every mistake has its place and its way out."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import congenial as cg
from congenial.inference.question import parse_query

SCHEMA = cg.Schema(
    {
        "sex": ["female", "male"],
        "age": ["under 5", "5-9", "85+"],
        "marital status": ["never married", "a, b {c}", 'said "x"'],
    }
)


def cells(query: str) -> set[int]:
    (count,) = parse_query(query, SCHEMA)
    return set(count.above.cells)


def picked(**where: object) -> set[int]:
    named = {name.replace("_", " "): labels for name, labels in where.items()}
    return set(SCHEMA.cells(named).tolist())  # type: ignore[arg-type]


def test_counts() -> None:
    assert cells("all") == set(range(18))
    assert cells("sex=female") == picked(sex="female")
    assert cells(" sex = female & age in {under 5, 85+} ") == picked(sex="female", age=["under 5", "85+"])
    assert cells("age=under 5") == picked(age="under 5")
    assert cells("age != under 5") == picked(age=["5-9", "85+"])
    assert cells("'marital status'=\"a, b {c}\"") == picked(marital_status="a, b {c}")
    assert cells("marital status='said \"x\"'") == picked(marital_status='said "x"')
    assert cells("\"marital status\" in {never married, 'a, b {c}'}") == picked(
        marital_status=["never married", "a, b {c}"]
    )
    assert cells("age in {5-9} & age in {5-9, 85+}") == picked(age="5-9")
    assert cells("sex=female & sex=male") == set()


def test_shares_ratios_and_levels() -> None:
    (share,) = parse_query("share(age=85+ | sex=female)", SCHEMA)
    assert set(share.above.cells) == picked(sex="female", age="85+")
    assert share.below is not None
    assert set(share.below.cells) == picked(sex="female")
    found = parse_query("ratio(sex=male / sex=female) by age, marital status", SCHEMA)
    assert len(found) == 9
    assert found[1].text == "ratio(sex=male / sex=female), age=under 5, marital status=a, b {c}"
    assert set(found[0].above.cells) == picked(sex="male", age="under 5", marital_status="never married")
    tables = 1 + np.arange(36).reshape(2, 18)
    np.testing.assert_allclose(found[0].values(tables), tables[:, 9] / tables[:, 0], equal_nan=True)


def test_a_label_named_all_is_still_a_label() -> None:
    schema = cg.Schema({"all": ["all", "some"]})
    assert parse_query("all=all", schema)[0].above.cells == (0,)
    assert parse_query("all", schema)[0].above.cells == (0, 1)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sex=femal", "did you mean 'female'"),
        ("sx=female", "did you mean 'sex'"),
        ("age in {5-9", "at the end: '}' is expected"),
        ("age in {}", "a label is expected"),
        ("age in {5-9,}", "a label is expected"),
        ("share(sex=female)", "'|' is expected"),
        ("ratio(sex=female | sex=male)", "'/' is expected"),
        ("share(sex=female | all", "'\\)' is expected"),
        ("sex=female &", "a dimension is expected"),
        ("sex=female sex=male", "not a label"),
        ("sex=female & age=5-9)", "nothing more is expected"),
        ("sex", "after 'sex', write ="),
        ("", "a query is text"),
        ("   ", "a query is text"),
        ("'sex=female", "not closed"),
        ("all by ag", "did you mean 'age'"),
        ("all by age, age", "twice"),
        ("=", "a dimension is expected"),
        ("x" * 10_001, "the limit is 10,000"),
    ],
)
def test_mistakes(query: str, said: str) -> None:
    with pytest.raises(cg.CongenialError, match=said):
        parse_query(query, SCHEMA)


@given(st.text(alphabet="sexagfml=&{}()|/!,\"' in0by", max_size=40))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    with suppress(cg.CongenialError):
        parse_query(text, SCHEMA)


def test_quotes_keep_the_words_of_the_language_out() -> None:
    schema = cg.Schema(
        {"born in": ["a", "b"], "born": ["x", "y"], "tenure": ["rented", "rented by born"], "a, b": ["p", "q"]}
    )

    def found(query: str) -> set[int]:
        return set(parse_query(query, schema)[0].above.cells)

    assert found("'born in' in {a}") == set(schema.cells({"born in": "a"}).tolist())
    with pytest.raises(cg.CongenialError, match="write ="):
        parse_query("'born in' {a}", schema)
    with pytest.raises(cg.CongenialError, match="two ways"):
        parse_query("tenure=rented by born", schema)
    assert found("tenure='rented by born'") == set(schema.cells({"tenure": "rented by born"}).tolist())
    assert len(parse_query('all by "a, b", born', schema)) == 4
    with pytest.raises(cg.CongenialError, match="commas between"):
        parse_query("all by ,", schema)
    everything = cg.Schema({"all": ["x", "y"]})
    assert set(parse_query("all != x", everything)[0].above.cells) == {1}
    assert set(parse_query("'all' in {x}", everything)[0].above.cells) == {0}
