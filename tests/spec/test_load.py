"""A good spec becomes the mechanism that it describes; a bad one tells all its mistakes at once, each in its place."""

import cProfile
import pickle
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

import congenial as cg
from congenial.errors import SpecError
from congenial.spec import Spec, load_spec, parse_spec
from congenial.spec.yaml_and_mistakes import MOST

GOOD = """\
release: p12-demo
title: "Age and sex: Demo County"
dataset: demo-county-2020
data:
  path: [a.csv, "more/*.parquet"]
  kind: counts
  count: n
  status: simulated
  missing_cells: zero
  separator: semicolon
dimensions:
  sex: {column: SEX, levels: {"1": female, "2": male}}
  age:
    levels: [0-4, 5-17, 18-64, 65+]
    groups: {voting: {from: 18-64}, minors: [0-4, 5-17], small: 0-4, young: {to: 5-17}, middle: {from: 5-17, to: 18-64}}
  income: {cut: [0, 0.5, 50000], below: true}
by: {name: county, column: fips, levels: ["001", "003"]}
measure:
  - cells: all
    portion: 3/4
  - margin: [sex]
    where: {age: voting}
    portion: 0.25
  - total: voting
    precision: 1e-2
invariants:
  - total
  - total of voting by sex
  - total: {age: [minors, 18-64], sex: female}
    equals: 6
    name: girls and women
    mandate: Law 1
  - share: female
    of: {age: voting}
    equals: 1/2
  - margin: sex and age
    equals: [1, 2, 3, 4, 5, 6, 3, 4]
  - linear: [{times: 2, of: female}, {times: -1, of: {sex: male}}]
conditions:
  - zeros: {age: minors, income: 50000 or more}
  - zeros of small and sex male and income below 0
  - bounds: all
    at_most: 1000
  - bounds: {age: 65+}
    at_least: none
  - total: minors
    at_least: 1
  - linear: [{times: 1, of: male}]
    at_most: 99
    name: men
noise: discrete_gaussian
budget: {rho: 0.1}
neighbours: unbounded
outputs: [csv, report]
"""


def test_everything_in_a_spec_arrives() -> None:
    spec = parse_spec(GOOD)
    assert (spec.release, spec.title, spec.dataset) == ("p12-demo", "Age and sex: Demo County", "demo-county-2020")
    assert spec.data.paths == ("a.csv", "more/*.parquet")
    assert (spec.data.kind, spec.data.count, spec.data.status) == ("counts", "n", "simulated")
    assert (spec.data.missing_cells, spec.data.separator) == ("zero", ";")
    assert spec.unit is None
    assert spec.rows_per_unit == 1
    assert spec.areas == ("001", "003")
    assert spec.by is not None
    assert (spec.by.name, spec.by.column) == ("county", "fips")
    sex, age, income = spec.dimensions
    assert (sex.column, sex.codes, sex.labels) == ("SEX", ("1", "2"), ("female", "male"))
    assert age.groups == {
        "voting": ("18-64", "65+"),
        "minors": ("0-4", "5-17"),
        "small": ("0-4",),
        "young": ("0-4", "5-17"),
        "middle": ("5-17", "18-64"),
    }
    assert income.labels == ("below 0", "0 to <0.5", "0.5 to <50000", "50000 or more")
    labels = {"sex": sex.labels, "age": age.labels, "income": income.labels}
    assert spec.schema == cg.Schema(labels, ordered={"income": income.widths})
    assert spec.noise == "discrete_gaussian"
    assert (spec.epsilon, spec.delta, spec.rho) == (None, None, Fraction(1, 10))
    assert (spec.neighbours, spec.outputs) == ("unbounded", ("csv", "report"))
    voting, minors = ("18-64", "65+"), ("0-4", "5-17")
    assert spec.measured == (
        cg.cells(portion="3/4"),
        cg.margin("sex", where={"age": voting}, portion="1/4"),
        cg.total({"age": voting}, precision="1/100"),
    )
    conditions = [statement.condition for statement in spec.invariants]
    assert conditions[:5] == [
        cg.total(),
        cg.margin("sex", where={"age": voting}, name="total of voting by sex"),
        cg.total({"age": (*minors, "18-64"), "sex": ("female",)}, equals=6, name="girls and women", mandate="Law 1"),
        cg.share({"sex": ("female",)}, of={"age": voting}, equals="1/2"),
        cg.margin("sex", "age", equals=[1, 2, 3, 4, 5, 6, 3, 4]),
    ]
    row = conditions[5].rows(spec.schema)[0]  # type: ignore[attr-defined]
    assert row.coefficients == (2,) * 16 + (-1,) * 16
    assert conditions[5].text == "2 x [female] -1 x [sex=male]"
    assert [condition.mandate for condition in conditions] == [None, None, "Law 1", None, None, None]
    assert conditions[2].text == "girls and women"
    assert [one.line for one in spec.invariants] == [27, 28, 29, 33, 36, 38]
    assert [one.condition for one in spec.conditions][:5] == [
        cg.structural_zeros({"age": minors, "income": ("50000 or more",)}),
        cg.structural_zeros({"age": ("0-4",), "sex": ("male",), "income": ("below 0",)}),
        cg.bounds(0, 1000),
        cg.bounds(None, where={"age": ("65+",)}),
        cg.total({"age": minors}, at_least=1),
    ]
    assert spec.conditions[5].condition.text == "men"


def test_the_mechanism_is_that_of_the_python_interface() -> None:
    spec = parse_spec(MINIMAL + "invariants: [total of voting by sex]\n")
    twin = cg.Mechanism(
        spec.schema,
        measure=[cg.cells()],
        invariants=[cg.margin("sex", where={"age": ("18+",)}, name="total of voting by sex")],
        epsilon="1/2",
    )
    mechanism = spec.mechanism
    assert repr(mechanism) == repr(twin)
    table = cg.Table(spec.schema, [[3, 5], [2, 4]])
    assert mechanism.plan(mechanism.disclose(table)).certificate == twin.plan(twin.disclose(table)).certificate


MINIMAL = """\
release: x
data: {path: a.csv, kind: counts, count: n}
dimensions:
  sex: [f, m]
  age: {levels: [0-17, 18+], groups: {voting: 18+}}
budget: {epsilon: 0.5}
"""


def test_defaults() -> None:
    spec = parse_spec(MINIMAL)
    assert (spec.title, spec.dataset) == ("x", "x")
    assert spec.epsilon == Fraction(1, 2)
    assert spec.measured == (cg.cells(),)
    assert spec.areas is None
    assert (spec.data.status, spec.data.missing_cells, spec.data.separator) == ("confidential", "error", ",")
    assert (spec.noise, spec.neighbours) == ("double_geometric", "bounded")
    assert spec.outputs == ("csv", "parquet", "report")
    assert spec.text == MINIMAL


def unit(text: str) -> Spec:
    return parse_spec(MINIMAL.replace("kind: counts, count: n", "kind: microdata") + f"unit: {text}\n")


def test_units_bound_the_rows() -> None:
    assert unit("{one_row_per: person}").rows_per_unit == 1
    assert unit("{one_row_per: person, id: pid, at_most: 1}").unit == unit("{one_row_per: person, id: pid}").unit
    assert unit("{id: pid}").rows_per_unit == 1
    bounded = unit("{id: pid, at_most: 3}")
    assert bounded.rows_per_unit == 3
    assert bounded.unit is not None
    assert bounded.unit.id_column == "pid"


def test_precisions_need_no_budget() -> None:
    text = MINIMAL.replace("budget: {epsilon: 0.5}\n", "measure: [{cells: all, precision: 1/3}]\n")
    assert parse_spec(text).measured[0].precision == Fraction(1, 3)


def mistakes(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_every_mistake_is_told_at_once() -> None:
    text = (
        GOOD.replace("release: p12", "relase: p12")
        .replace("kind: counts", "kind: cuonts")
        .replace("voting by sex", "votin by sx")
        .replace("at_most: 1000", "at_mots: 1000")
        .replace("times: -1", "tmes: -1")
        .replace("[sex]", "[sx]")
        .replace("rho: 0.1", "rho: much")
        .replace("outputs: [csv", "outputs: [cvs")
        .replace("from: 18-64}", "fro: 18-64}")
    )
    found = mistakes(text)
    assert [line.split(": ", 1)[0] for line in found] == [
        "spec.yaml:1:1", "spec.yaml:1:1", "spec.yaml:6:9", "spec.yaml:15:23", "spec.yaml:38:39", "spec.yaml:43:5",
        "spec.yaml:52:15", "spec.yaml:54:11",
    ]  # fmt: skip
    # With the dimensions mended, what is said about them can be checked too.
    found = mistakes(text.replace("fro: 18-64}", "from: 18-64}"))
    assert "spec.yaml:21:5: measure, entry 2: 'sx' is not a dimension; did you mean 'sex'?" in found
    assert "spec.yaml:28:5: invariants, entry 2: 'votin' is not a group or label; did you mean 'voting'?" in found
    assert "spec.yaml:43:5: conditions, entry 3, at_mots: 'at_mots' is not a key here; did you mean 'at_most'?" in found
    assert len(found) == 9


def test_bounds_that_allow_negative_counts_are_heard_first() -> None:
    text = MINIMAL + "invariants: [{total: all, equals: -5}, {total: f, equals: 2}]\n"
    assert "entry 1: no table" in mistakes(text)[0]
    lifted = text + "conditions: [{bounds: all, at_least: none}]\n"
    assert len(parse_spec(lifted).conditions) == 1
    found = mistakes(lifted.replace("equals: 2}", "equals: 2}, {total: m, equals: 2}"))
    assert len(found) == 1
    assert "invariants, entry 3: no table of whole numbers" in found[0]


def test_entries_after_a_broken_one_keep_their_places() -> None:
    text = MINIMAL + "invariants:\n  - {totl: all}\n  - total\n  - [x]\n  - total of f and q\n"
    assert [line.split(": ")[0] + line.split(": ")[1] for line in mistakes(text)] == [
        "spec.yaml:8:6" + "invariants, entry 1, totl",
        "spec.yaml:10:5" + "invariants, entry 3",
        "spec.yaml:11:5" + "invariants, entry 4",
    ]


# What is changed in MINIMAL, to what; where the mistake is and what is said.
WRONG: dict[str, tuple[str, str, str]] = {
    "no release": ("release: x\n", "", "a spec needs a `release:`"),
    "release with spaces": ("release: x", "release: my release", "1:10: release: 'my release' is not a name"),
    "release as a path": ("release: x", "release: ../x", "is not a name"),
    "release as a list": ("release: x", "release: [x]", "text is needed here, not a list"),
    "no data": ("data: {path: a.csv, kind: counts, count: n}\n", "", "a spec needs `data:`"),
    "no path": ("path: a.csv, ", "", "data need a `path:`"),
    "empty path": ("path: a.csv", "path: []", "data need a `path:`"),
    "no kind": ("kind: counts, ", "", "data need a `kind:`"),
    "no count": (", count: n", "", "counts need a `count:`"),
    "share that is not rounded": ("budget", "conditions: [{share: f}]\nbudget", "needs its published value, `rounded:"),
    "rounded invariant": (
        "budget",
        "invariants: [{share: f, rounded: 5 %}]\nbudget",
        "one of entries under `conditions",
    ),
    "empty code": (
        "levels: [0-17, 18+]",
        'levels: {0-17: 0-17, "": 18+}',
        "write `empty: not stated` beside `levels:`",
    ),
    "empty in order": ("levels: [0-17, 18+]", "levels: [0-17, 18+], empty: none, ordered: true", "do not go together"),
    "empty label twice": ("levels: [0-17, 18+]", "levels: [0-17, 18+], empty: 18+", "has the level '18+' already"),
    "count of microdata": ("kind: counts", "kind: microdata", "`count` goes with `kind: counts`"),
    "microdata without unit": ("kind: counts, count: n", "kind: microdata", "microdata need a `unit:`"),
    "unit of counts": ("budget", "unit: {id: x}\nbudget", "`unit` goes with microdata"),
    "odd separator": ("count: n", "count: n, separator: ','", "'comma', 'semicolon', 'tab', 'bar'"),
    "odd status": ("count: n", "count: n, status: secret", "'confidential', 'public', 'simulated'"),
    "no dimensions": (MINIMAL[MINIMAL.index("dim") : MINIMAL.index("budget")], "", "a spec needs `dimensions:`"),
    "dimension as text": (
        "sex: [f, m]",
        "sex: f",
        "4:8: dimensions, sex: a list or a mapping is needed here, not text",
    ),
    "no levels": ("sex: [f, m]", "sex: []", "'sex' needs its `levels`"),
    "no levels and no cut": ("sex: [f, m]", "sex: {column: x}", "needs its `levels`, or a `cut`"),
    "levels and cut": ("sex: [f, m]", "sex: {levels: [f], cut: [1]}", "one of them"),
    "level twice": ("sex: [f, m]", "sex: [f, f]", "has the level 'f' twice"),
    "label twice": ("sex: [f, m]", "sex: {levels: {1: f, 2: f}}", "has the level 'f' twice"),
    "empty level": ("sex: [f, m]", "sex: [f, '']", "4:12: dimensions, sex, entry 2: this is empty"),
    "control character": ("sex: [f, m]", 'sex: [f, "m\\n"]', "(U+000A, a control character), which does not show"),
    "direction mark": ("sex: [f, m]", 'sex: [f, "m\\u202e"]', "(U+202E, RIGHT-TO-LEFT OVERRIDE)"),
    "line separator": ("sex: [f, m]", 'sex: [f, "m\\u2028"]', "(U+2028, LINE SEPARATOR)"),
    "no width": ("sex: [f, m]", 'sex: [f, "m\\u200b"]', "(U+200B, ZERO WIDTH SPACE)"),
    "raw no width": ("sex: [f, m]", "sex: [f, m\u200b]", "(U+200B, ZERO WIDTH SPACE)"),
    "a title turned around": ("release:", 'title: "\\u202e"\nrelease:', "(U+202E, RIGHT-TO-LEFT OVERRIDE)"),
    "level as a list": ("sex: [f, m]", "sex: [f, [m]]", "text is needed here, not a list"),
    "below without cut": ("sex: [f, m]", "sex: {levels: [f], below: true}", "`below` goes with `cut`"),
    "odd truth": ("sex: [f, m]", "sex: {cut: [1], below: maybe}", "'true', 'false'"),
    "empty cut": ("sex: [f, m]", "sex: {cut: []}", "needs at least one number"),
    "falling cut": ("sex: [f, m]", "sex: {cut: [2, 1]}", "must rise, and 1 follows 2"),
    "equal as doubles": ("sex: [f, m]", "sex: {cut: [1, 1.00000000000000000001]}", "must rise"),
    "huge cut": ("sex: [f, m]", "sex: {cut: [1e999]}", "between -1e300 and 1e300"),
    "cut with words": ("sex: [f, m]", "sex: {cut: [low]}", "must be a number such as"),
    "unknown member": ("voting: 18+", "voting: 81+", "5:47: dimensions, age, groups, voting: '81+' is not a label"),
    "group named as a level": ("voting: 18+", "0-17: 18+", "cannot be the name of a group too"),
    "empty group": ("voting: 18+", "voting: []", "is empty; name at least one level"),
    "range of nothing": ("voting: 18+", "voting: {}", "needs a `from`, a `to` or both"),
    "range backwards": ("voting: 18+", "voting: {from: 18+, to: 0-17}", "swap them"),
    "range to nowhere": ("voting: 18+", "voting: {to: 18}", "did you mean '18+'?"),
    "too many cells": (
        "sex: [f, m]",
        "\n  ".join(f"d{number}: [a, b, c, d, e, f, g, h, i, j]" for number in range(8)),
        "the limit is 10,000,000",
    ),
    "areas without a name": ("budget", "by: {levels: [a]}\nbudget", "areas need a `name:`"),
    "areas without levels": ("budget", "by: {name: county}\nbudget", "'county' needs its `levels`"),
    "area named as a dimension": (
        "budget",
        "by: {name: sex, column: q, levels: [a]}\nbudget",
        "is a dimension already",
    ),
    "one column twice": ("sex: [f, m]", "sex: {column: age, levels: [f]}", "column 'age' is taken by dimension 'sex'"),
    "count column twice": ("count: n", "count: sex", "is taken by dimension 'sex' already, and the counts needs"),
    "no budget": ("budget: {epsilon: 0.5}\n", "", "a `budget:` is needed"),
    "empty budget": ("{epsilon: 0.5}", "{}", "a budget needs an `epsilon`"),
    "two budgets": ("{epsilon: 0.5}", "{epsilon: 1, rho: 1}", "not in both"),
    "delta alone": ("{epsilon: 0.5}", "{delta: 0.1}", "a delta goes with an epsilon"),
    "delta of 2": ("{epsilon: 0.5}", "{epsilon: 1, delta: 2}", "strictly between 0 and 1"),
    "negative epsilon": ("epsilon: 0.5", "epsilon: -1", "6:9: budget: "),
    "word for epsilon": ("epsilon: 0.5", "epsilon: much", "6:19: budget, epsilon: this must be a number"),
    "pure epsilon of Gaussian": ("budget", "noise: discrete_gaussian\nbudget", "no pure epsilon"),
    "noise for study": ("budget", "noise: laplace\nbudget", "'laplace' is not one of 'double_geometric'"),
    "odd neighbours": ("budget", "neighbours: bound\nbudget", "did you mean 'bounded'?"),
    "odd output": ("budget", "outputs: [xml]\nbudget", "'xml' is not one of 'csv', 'parquet', 'report'"),
    "no output": ("budget", "outputs: []\nbudget", "name at least one of 'csv'"),
    "nothing measured": ("budget", "measure: []\nbudget", "measure at least one query"),
    "measure as text": ("budget", "measure: cells\nbudget", "6:10: measure: a list is needed here, not text"),
    "measured twice": ("budget", "measure: [cells, cells of voting]\nbudget", "is measured twice"),
    "nothing asked": ("budget", "measure: [{portion: 1}]\nbudget", "this has none of them"),
    "two things asked": ("budget", "measure: [{cells: all, margin: sex}]\nbudget", "this has `margin` and `cells`"),
    "portion and precision": ("budget", "measure: [{cells: all, portion: 1, precision: 1}]\nbudget", "not both"),
    "portion for some": (
        "budget",
        "measure: [{cells: all, portion: 1}, total]\nbudget",
        "give all of them a portion, or none",
    ),
    "portion of nothing": ("budget", "measure: [{cells: all, portion: 0}]\nbudget", "must be above 0"),
    "budget for nothing": ("budget", "measure: [{cells: all, precision: 1}]\nbudget", "has nothing to set"),
    "negative precision": ("budget", "measure: [{cells: all, precision: -1}]\nbudget", "must not be negative"),
    "where of cells": (
        "budget",
        "invariants: [{cells: all, where: voting}]\nbudget",
        "`where` goes with `margin`, not with `cells`; write the cells after `cells:`",
    ),
    "by of cells": ("budget", "invariants: [{cells: all, by: sex}]\nbudget", "`by` goes with `total`"),
    "of without share": ("budget", "invariants: [{total: all, of: f}]\nbudget", "`of` goes with `share`"),
    "share with by": (
        "budget",
        "invariants: [{share: f, by: age}]\nbudget",
        "`by` goes with `total`, not with `share`",
    ),
    "share of all": ("budget", "invariants: [{share: all}]\nbudget", "the share of all cells is 1"),
    "share of 2": ("budget", "invariants: [{share: f, equals: 2}]\nbudget", "lies between 0 and 1"),
    "share without overlap": ("budget", "invariants: [{share: f, of: m}]\nbudget", "picks no cell of its whole"),
    "half a person": ("budget", "invariants: [{total: all, equals: 1/2}]\nbudget", "must be a whole number"),
    "too few values": ("budget", "invariants: [{margin: sex, equals: [1]}]\nbudget", "2 are needed"),
    "ragged values": ("budget", "invariants: [{margin: sex, equals: [[1], [[2]]]}]\nbudget", "equals"),
    "values by name": ("budget", "invariants: [{margin: sex, equals: {f: 1}}]\nbudget", "in the order of the levels"),
    "unknown dimension": ("budget", "invariants: [{total: {sx: f}}]\nbudget", "did you mean 'sex'?"),
    "unknown label": (
        "budget",
        "invariants: [{total: {sex: fm}}]\nbudget",
        "is not a label or group of dimension 'sex'",
    ),
    "nothing picked": ("budget", "invariants: [{total: {}}]\nbudget", "write `all` for every cell"),
    "no label picked": ("budget", "invariants: [{total: {sex: []}}]\nbudget", "no level of 'sex' is named"),
    "no dimension": ("budget", "invariants: [{margin: []}]\nbudget", "name at least one dimension"),
    "zeros as invariant": ("budget", "invariants: [{zeros: f}]\nbudget", "one of entries under `conditions:`"),
    "invariant as condition": ("budget", "conditions: [{margin: sex}]\nbudget", "one of entries under `invariants:`"),
    "all zeros": ("budget", "conditions: [{zeros: all}]\nbudget", "cannot be 0 by logic"),
    "zeros with a limit": (
        "budget",
        "conditions: [{zeros: f, at_most: 1}]\nbudget",
        "`at_most` goes with `total` or `linear` or `bounds`, not with `zeros`",
    ),
    "bounds without limits": ("budget", "conditions: [{bounds: all}]\nbudget", "an `at_least`, an `at_most` or both"),
    "bounds upside down": ("budget", "conditions: [{bounds: all, at_least: 2, at_most: 1}]\nbudget", "swap them"),
    "total without limits": ("budget", "conditions: [{total: all}]\nbudget", "exact values are invariants"),
    "half a limit": ("budget", "conditions: [{total: all, at_most: 1.5}]\nbudget", "is not a whole number"),
    "a huge limit": ("budget", "conditions: [{total: all, at_most: 9999999999999999999}]\nbudget", "2^60"),
    "sentence as condition": ("budget", "conditions: [total]\nbudget", "does not start with 'zeros'"),
    "no terms": ("budget", "conditions: [{linear: [], at_most: 1}]\nbudget", "needs terms"),
    "half a term": ("budget", "conditions: [{linear: [{times: 1}], at_most: 1}]\nbudget", "both `times` and `of`"),
    "terms that cancel": (
        "budget",
        "invariants: [{linear: [{times: 1, of: f}, {times: -1, of: f}]}]\nbudget",
        "every coefficient is 0",
    ),
    "clash": (
        "budget",
        "invariants:\n  - {total: all, equals: 3}\n  - {total: f, equals: 4}\nbudget",
        "8:5: invariants, entry 2: no table of whole numbers obeys these conditions together",
    ),
    "clash with a bound": (
        "budget",
        "invariants: [{total: all, equals: 9}]\nconditions:\n  - {bounds: all, at_most: 2}\nbudget",
        "6:14: invariants, entry 1: no table of whole numbers",
    ),
    "a code for a label": ("sex: [f, m]", "sex: {levels: {1: f, 2: m}, groups: {g: '1'}}", "write its label 'f'"),
    "to fill in": ("sex: [f, m]", "sex: [FILL IN]", "still to be filled in"),
    "no value": ("release: x", "release:", "1:1: release: there is no value here"),
    "a long text": ("release: x", f"release: x\ntitle: {'x' * 1001}", "the limit is 1,000"),
    "at_most without id": ("kind: counts, count: n", "kind: microdata}\nunit: {at_most: 2", "`at_most` needs an `id:`"),
    "a unit of nothing": ("kind: counts, count: n", "kind: microdata}\nunit: {", "a unit needs `one_row_per`"),
    "one row and three": (
        "kind: counts, count: n",
        "kind: microdata}\nunit: {one_row_per: person, id: x, at_most: 3",
        "contradicts at most 3 rows",
    ),
    "no rows": ("kind: counts, count: n", "kind: microdata}\nunit: {id: x, at_most: 0", "0 is below 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_mistake_is_told_in_words_and_in_its_place(case: str) -> None:
    old, new, words = WRONG[case]
    assert old in MINIMAL
    found = mistakes(MINIMAL.replace(old, new, 1))
    assert any(words in line for line in found), found
    assert len(found) <= 2, found


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "no.yaml", "no such file"), (tmp_path, "is a directory"), ("a\0b", "file name")):
        with pytest.raises(SpecError, match=words):
            load_spec(path)
    file = tmp_path / "my.yaml"
    file.write_text(MINIMAL.replace("sex", "\udcff"), encoding="utf-8", errors="surrogateescape")
    with pytest.raises(SpecError, match=r"my\.yaml:4:3: the spec is not UTF-8"):
        load_spec(file)
    file.write_text(MINIMAL, encoding="utf-8")
    assert load_spec(file).file_name == "my.yaml"


def test_errors_travel_between_processes() -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(MINIMAL.replace("release", "relase"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.mistakes == caught.value.mistakes
    assert str(again) == str(caught.value)


@pytest.mark.parametrize(
    ("before", "entry", "after"),
    [
        ("", "key{}: 1\n", ""),
        ("", "key{}:\n", ""),
        ("", "title: {}\n", ""),
        ("invariants:\n", "  - total of q{}\n", ""),
        ("measure:\n", "  - [{}]\n", ""),
        ("by: {name: county, levels: [", "a{}, ", "a]}\n"),
        ("invariants:\n", "  - {{total: all, equals: 1}} # {}\n", "  - {total: all, equals: 2}\n"),
    ],
)
def test_a_file_twice_as_long_takes_about_twice_as_long(before: str, entry: str, after: str) -> None:
    """Counted in calls, which no other program disturbs: four times the entries, well below ten times the work."""

    def calls(n: int) -> int:
        profile = cProfile.Profile()
        text = MINIMAL + before + "".join(entry.format(number) for number in range(n)) + after
        profile.enable()
        with suppress(SpecError):
            parse_spec(text)
        profile.disable()
        return sum(row.callcount for row in profile.getstats())

    calls(1)  # what is imported late
    assert calls(800) < 6 * calls(200)


def test_of_very_many_mistakes_the_first_are_told() -> None:
    found = mistakes(MINIMAL + "".join(f"key{number}: 1\n" for number in range(3000)))
    assert len(found) == MOST + 1
    assert found[-1].endswith("there may be more mistakes; these are the first 1,000")


def test_dimensions_are_limited() -> None:
    text = MINIMAL.replace("sex: [f, m]", "\n  ".join(f"d{number}: [a]" for number in range(70)))
    assert "71 dimensions and the limit is 32" in mistakes(text)[0]
