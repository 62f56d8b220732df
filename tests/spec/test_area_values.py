"""Values of invariants and limits that differ by area, from a public file."""

import json
from pathlib import Path

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.verify import verify_bundle
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import by_area
from congenial.conditions.registry import from_json
from congenial.curator.pipeline import disclose, prepare, simulate
from congenial.errors import BrokenError, ConditionError, SpecError
from congenial.spec import Spec, load_spec

SPEC = """\
release: towns
data: {path: people.csv, kind: counts, count: n, status: simulated}
dimensions: {sex: [f, m], age: [y, o]}
by: {name: town, column: id, levels: {1: Ashby, 2: Bow, 3: Cley}}
invariants:
  - {total: all, equals: {file: known.csv, code: id, value: people}, mandate: yearbook}
  - {margin: [sex], equals: {file: known.csv, code: id, value: [women, men]}}
conditions:
  - {bounds: {age: o}, at_most: {file: known.csv, code: id, value: beds}, name: beds of homes}
budget: {epsilon: 1}
outputs: [csv]
"""
KNOWN = "id,people,women,men,beds\n3,26,11,15,8\n1,10,3,7,4\n2,14,6,8,9\n"
PEOPLE = "id,sex,age,n\n1,f,y,1\n1,f,o,2\n1,m,y,3\n1,m,o,4\n2,f,y,1\n2,f,o,5\n2,m,y,2\n2,m,o,6\n" + (
    "3,f,y,4\n3,f,o,7\n3,m,y,7\n3,m,o,8\n"
)


def placed(folder: Path, *, spec: str = SPEC, known: str = KNOWN, people: str = PEOPLE) -> Spec:
    (folder / "spec.yaml").write_text(spec)
    (folder / "known.csv").write_text(known)
    (folder / "people.csv").write_text(people)
    return load_spec(folder / "spec.yaml")


def test_stated_values_are_those_that_the_data_would_disclose(tmp_path: Path) -> None:
    """The law is the one of invariants without a file, but for the limits, which only the file has."""
    spec = placed(tmp_path)
    areas = disclose(spec, tmp_path)
    plain = SPEC[: SPEC.index("invariants")] + "invariants: [total, margin of sex]\nbudget: {epsilon: 1}\n"
    known = disclose(placed(tmp_path, spec=plain), tmp_path)
    assert isinstance(areas, Areas)
    assert isinstance(known, Areas)
    for label in areas:
        assert areas[label].equalities == known[label].equalities
    upper = {label: [limit.high for limit in areas[label].limits] for label in areas}
    assert upper == {name: [None, beds, None, beds] for name, beds in (("Ashby", 4), ("Bow", 9), ("Cley", 8))}


def test_a_bundle_comes_back(tmp_path: Path) -> None:
    spec = placed(tmp_path)
    published = simulate(spec, tmp_path, tmp_path / "out", seed=1)
    bundle = verify_bundle(published.folder).bundle
    assert {area: int(counts.sum()) for area, counts in bundle.tables.items()} == {"Ashby": 10, "Bow": 14, "Cley": 26}
    for beds, counts in zip((4, 9, 8), bundle.tables.values(), strict=True):
        assert counts.reshape(2, 2)[:, 1].max() <= beds
    stated = json.loads((published.folder / "manifest.json").read_text())
    assert stated["conditions"][2] == {
        "text": "beds of homes",
        "kind": "by_area",
        "name": "beds of homes",
        "each": {"kind": "bounds", "name": "beds of homes", "where": {"age": ["o"]}, "lower": 0},
        "areas": {"Ashby": {"upper": 4}, "Bow": {"upper": 9}, "Cley": {"upper": 8}},
    }
    assert {file["name"] for file in stated["public_files"]} == {"known.csv"}
    assert bundle.manifest.conditions == prepare(spec, tmp_path).conditions


@pytest.mark.parametrize(("row", "condition"), [("1,f,y,1", "total, by area"), ("2,f,y,1", "total, by area")])
def test_a_refusal_does_not_say_in_which_area(row: str, condition: str, tmp_path: Path) -> None:
    spec = placed(tmp_path, people=PEOPLE.replace(row, f"{row[:-1]}2"))
    with pytest.raises(BrokenError) as refused:
        disclose(spec, tmp_path)
    assert refused.value.condition == condition
    assert not {"Ashby", "Bow", "10", "14"} & set(str(refused.value).replace("»", " ").split())
    listed = (tmp_path / "CONFIDENTIAL-broken-conditions-towns.csv").read_text()
    assert ("Ashby" in listed) == row.startswith("1")
    with pytest.raises(BrokenError, match="beds of homes"):
        disclose(placed(tmp_path, known=KNOWN.replace(",9\n", ",5\n")), tmp_path)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (KNOWN.replace("2,14", "4,14"), "known.csv, line 4: '4' is not the code of a town"),
        (KNOWN.replace("2,14", "1,14"), "known.csv, line 4: id '1' stands in line 3 already; give each area one row"),
        (KNOWN.replace("2,14,6,8,9\n", ""), "known.csv has no row for town 'Bow', whose code is '2'"),
        (KNOWN.replace("26", "26.5"), "known.csv, line 2: 'people' is '26.5', and a whole number such as 12 is needed"),
        (KNOWN.replace("people", "persons"), "known.csv, line 1: there is no column 'people'"),
    ],
)
def test_what_is_wrong_in_the_file_is_said_with_its_line(known: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as refused:
        placed(tmp_path, known=known)
    assert words in str(refused.value)
    assert "spec.yaml:6:" in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (SPEC[SPEC.index("by:") : SPEC.index("invariants")], "", "values by area go with areas"),
        ("value: people", "valu: people", "'valu' is not a key here"),
        (", value: people", "", "needs its `file:` and a `value:`"),
        ("[women, men]", "women", "equals has 1 values, 2 are needed"),
        ("value: beds", "value: [beds, beds]", "is one limit, and 2 columns are named"),
        ("at_most: {file", "at_most: [1], at_least: {file", "is not a whole number such as 12"),
        ("value: beds}", "value: beds, valve: x}", "'valve' is not a key here; did you mean 'value'?"),
    ],
)
def test_what_is_wrong_in_the_spec(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as refused:
        placed(tmp_path, spec=SPEC.replace(old, new))
    assert words in str(refused.value)


def test_from_python() -> None:
    schema = cg.Schema({"sex": ["f", "m"]})
    caps = by_area({"north": cg.bounds(0, 3), "south": cg.bounds(0, 9)}, name="caps", mandate="law")
    assert from_json(json.loads(json.dumps(caps.as_json()))) == caps
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=1)], invariants=[cg.total(), caps])
    areas = mechanism.disclose({"north": cg.Table(schema, [3, 1]), "south": cg.Table(schema, [9, 4])})
    assert [int(np.max([limit.high for limit in areas[label].limits])) for label in areas] == [3, 9]
    for tables in (cg.Table(schema, [1, 1]), {"east": cg.Table(schema, [1, 1])}):
        with pytest.raises(ConditionError, match="states values by area"):
            mechanism.disclose(tables)
    with pytest.raises(ConditionError, match="of one kind of condition"):
        by_area({"north": cg.bounds(0, 3), "south": cg.total(equals=3)})
