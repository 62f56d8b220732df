"""The query language: what is said is what is picked, and every mistake has its place and its way out."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import congenial as cg
from congenial.conditions.areas_and_bounds import Areas
from congenial.inference.questions import parse_query

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
        ("sex=female & sex=male", "picks no cell at all"),
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


AGES = ["0-17", "18-24", "25-64", "65+"]
GROUPED = cg.Schema({"sex": ["female", "male"], "age": AGES}, groups={"age": {"adult": AGES[1:]}})


@pytest.mark.parametrize(
    ("query", "ages"),
    [
        ("age >= 25-64", AGES[2:]),
        ("age > 25-64", AGES[3:]),
        ("age<=18-24", AGES[:2]),
        ("'age' < 18-24", AGES[:1]),
        ("age 18-24..25-64", AGES[1:3]),
        ("age=18-24..25-64", AGES[1:3]),
        ("age in {0-17, 25-64..65+}", [AGES[0], *AGES[2:]]),
        ("age='18-24'..'65+'", AGES[1:]),
        ("age='18-24'..65+", AGES[1:]),
        ("age=18-24..'65+'", AGES[1:]),
        ("age=..18-24", AGES[:2]),
        ("adult", AGES[1:]),
        ("age=adult", AGES[1:]),
        ("age adult", AGES[1:]),
        ("age != adult", AGES[:1]),
        ("adult & age <= 25-64", AGES[1:3]),
    ],
)
def test_ranges_and_groups(query: str, ages: list[str]) -> None:
    (found,) = parse_query(query, GROUPED)
    assert set(found.above.cells) == set(GROUPED.cells({"age": ages}).tolist())
    by_sex = parse_query(f"{query} by sex", GROUPED)
    assert [set(one.above.cells) for one in by_sex] == [
        set(GROUPED.cells({"age": ages, "sex": sex}).tolist()) for sex in ("female", "male")
    ]


def test_a_comparison_in_a_label_is_part_of_it() -> None:
    schema = cg.Schema({"income": ["0 to <10", "10 to <50", "50 or more"]})
    assert parse_query("income=10 to <50", schema)[0].above.cells == (1,)
    assert parse_query("income >= 10 to <50", schema)[0].above.cells == (1, 2)


def test_differences_odds_ratios_and_medians() -> None:
    table = np.array([[3, 1, 2, 2, 0, 4, 1, 1]])
    (gap,) = parse_query("difference(sex=female, sex=male & adult)", GROUPED)
    assert gap.is_linear
    assert gap.values(table).tolist() == [8 - 6]
    (overlap,) = parse_query("difference(sex=female, adult)", GROUPED)
    assert overlap.values(table).tolist() == [8 - 11]
    (odds,) = parse_query("odds_ratio(sex=female, adult)", GROUPED)
    assert odds.values(table).tolist() == [(5 * 0) / (3 * 6)]
    (odds,) = parse_query("odds ratio(sex=male, age >= 25-64)", GROUPED)
    assert odds.values(table).tolist() == [(2 * 4) / (4 * 4)]
    medians = parse_query("median(age) by sex", GROUPED)
    assert [GROUPED.labels("age")[int(one.values(table)[0])] for one in medians] == ["18-24", "18-24"]
    (median,) = parse_query("median(age | sex=female & age >= 18-24)", GROUPED)
    assert median.labels[int(median.values(table)[0])] == "25-64"
    assert np.isnan(median.values(np.zeros((1, 8), np.int64))[0])


def test_areas_in_queries() -> None:
    areas = Areas.disclosed(
        GROUPED, [cg.total()], {"North": [1] * 8, "South Bay": [2] * 8, "9": [3] * 8}, name="county"
    )
    tables = np.array([[1] * 8 + [2] * 8 + [3] * 8])

    def value(query: str) -> float:
        (found,) = parse_query(query, GROUPED, areas)
        assert found.areas == ("North", "South Bay", "9")
        return float(found.values(tables)[0])

    assert value("sum over areas") == value("all over areas") == value("all over county") == 48
    assert value("adult & sex=male over areas") == 18
    assert value("area=North") == value("county=North") == 8
    assert value("county in {North, South Bay} & sex=female") == 12
    assert value("difference(area=9, area=North)") == 16
    assert value("share(area=9 | all)") == 0.5
    assert [one.text for one in parse_query("adult by area", GROUPED, areas)] == [
        "adult, county=North",
        "adult, county=South Bay",
        "adult, county=9",
    ]
    (one,) = parse_query("difference(adult & area=9, area=North)", GROUPED, areas)
    assert {area: len(row.cells) for area, row in one.by_area(8).items()} == {"North": 8, "9": 6}
    assert parse_query("adult", GROUPED, areas)[0].areas is None
    with pytest.raises(cg.CongenialError, match="did you mean 'North'"):
        parse_query("area=Nort", GROUPED, areas)
    with pytest.raises(cg.CongenialError, match="spans areas"):
        one.values(tables[:, :8])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("age >= 24", "single labels"),
        ("age 25-64..18-24", "swap them"),
        ("adlt", "did you mean 'adult'"),
        ("age=adlt", "did you mean 'adult'"),
        ("difference(sex=female)", "',' is expected"),
        ("odds_ratio(sex=female / sex=male)", "',' is expected"),
        ("oddsratio(sex=female, adult)", "did you mean 'odds_ratio'"),
        ("median(ag)", "did you mean 'age'"),
        ("all over areas", "no areas to add up"),
        ("area=North", "no areas"),
        ("sex=female over", "areas to add up"),
        ("age >=", "a label is expected"),
        ("share(sex=female | sex=male)", "compares with nobody"),
        ("ratio(all / sex=female & sex=male)", "compares with nobody"),
        ("odds_ratio(sex=female, sex=male)", "two sets that cross"),
        ("median(age | sex=female & sex=male)", "compares with nobody"),
    ],
)
def test_mistakes_in_the_larger_language(query: str, said: str) -> None:
    with pytest.raises(cg.CongenialError, match=said):
        parse_query(query, GROUPED)


def test_a_group_of_two_dimensions_is_named_with_its_dimension() -> None:
    schema = cg.Schema({"a": ["1", "2"], "b": ["1", "3"]}, groups={"a": {"some": ["1"]}, "b": {"some": ["3"]}})
    with pytest.raises(cg.CongenialError, match="write a=some"):
        parse_query("some", schema)
    assert parse_query("b=some", schema)[0].above.cells == (1, 3)


@pytest.mark.parametrize(
    "groups",
    [{"sex": {}}, {"c": {"1": ["2"]}}, {"c": {"g": []}}, {"c": {"g": ["9"]}}, {"c": {"g": ["1", "1"]}}],
)
def test_groups_of_what_is_not_there_are_refused(groups: dict[str, dict[str, list[str]]]) -> None:
    with pytest.raises(cg.CongenialError):
        cg.Schema({"c": ["1", "2"]}, groups)


def test_groups_change_no_schema() -> None:
    assert cg.Schema({"c": ["1", "2"]}, {"c": {"a": ["1"]}}) == cg.Schema({"c": ["1", "2"]})


@given(st.text(alphabet="sexagmdultfr=&{}()|/!,.<>\"' 0-9by", max_size=40))
def test_any_text_of_the_larger_language_is_read_or_refused(text: str) -> None:
    with suppress(cg.CongenialError):
        parse_query(text, GROUPED)
