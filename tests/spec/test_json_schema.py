"""The JSON Schema for editors is current, accepts what is good and refuses what is misspelt."""

import io
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from congenial.reading import read_tables
from congenial.spec import json_schema, parse_spec
from congenial.spec.file_format import json_schema_text

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())

GOOD = """\
release: x
data: {path: a.csv, kind: counts, count: n, missing_cells: zero}
dimensions:
  year: [2010, 2020]
  flag: {levels: {1: true, 2: false}}
  block: {levels: {file: blocks.csv, code: 010, separator: tab}}
  income: {cut: [0, 0.5, 1e3], below: true, groups: {low: {to: 0.5 to <1e3}, high: [1000 or more]}}
by: {name: town, levels: {file: towns.csv, parent: county}}
measure: [cells, {margin: [year], portion: 1/2}]
invariants: [total, {total: {year: 2010}, equals: 12, mandate: a law}, {margin: year, equals: [1, 2]}]
conditions: [{bounds: all, at_least: none, at_most: 10}, {linear: [{times: 2, of: {year: 2010}}], at_most: 7}]
budget: {epsilon: 0.5, delta: 1e-10}
"""


def as_editors_read_it(text: str) -> Any:
    return YAML(typ="safe").load(io.StringIO(text))


def test_the_published_schema_is_current() -> None:
    published = (ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8")
    assert published == json_schema_text(), "run `make schema`"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_good_specs_validate() -> None:
    assert list(VALIDATOR.iter_errors(as_editors_read_it(GOOD))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("release: x\n", ""),
        ("release: x", "relase: x\nrelease: x"),
        ("kind: counts", "kind: cuonts"),
        ("missing_cells: zero", "missing_cels: zero"),
        ("cut: [0, 0.5, 1e3]", "cut: 0"),
        ("margin: [year], portion", "margn: [year], portion"),
        ("conditions: [", "conditions: [3, ["),
        ("code: 010", "codes: 010"),
        ("block: {levels: {file: blocks.csv, code", "block: {levels: {parent: blocks.csv, file"),
        ("epsilon: 0.5", "epsilon: [1]"),
        ("at_least: none", "at_lest: none"),
    ],
)
def test_bad_specs_do_not(old: str, new: str) -> None:
    changed = GOOD.replace(old, new, 1)
    if new.endswith("["):
        changed = changed.replace("at_most: 7}]", "at_most: 7}]]")
    assert list(VALIDATOR.iter_errors(as_editors_read_it(changed)))


def test_the_schema_and_the_checks_agree_on_the_example() -> None:
    text = GOOD.replace("to: 0.5 to <1e3", "to: 0.5 to <1000").replace("noise", "").replace("true, 2: false", "a, 2: b")
    text = text.replace("measure: [cells, {margin", "measure: [{cells: all, portion: 1}, {margin")
    text = text.replace(", {margin: year, equals: [1, 2]}", "").replace("at_most: 7", "at_most: 700")
    text = text.replace("at_least: none", "at_least: 0").replace("{file: blocks.csv, code: 010, separator: tab}", "[z]")
    text = text.replace("{file: towns.csv, parent: county}", "[here]")
    assert list(VALIDATOR.iter_errors(as_editors_read_it(text))) == []
    assert parse_spec(text).schema.n_cells == 2 * 2 * 4


def test_the_example_of_the_document_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, flags=re.M | re.S)
    assert len(blocks) == 1
    assert list(VALIDATOR.iter_errors(as_editors_read_it(blocks[0]))) == []
    spec = parse_spec(blocks[0])
    assert spec.rows_per_unit == 2
    assert spec.mechanism.schema.n_cells == 2 * 3 * 5
    (tmp_path / "persons.csv").write_text(
        "person_id,state,county_fips,SEX,age,income\n"
        "7,44,001,1,0-17,0\n7,44,001,2,65+,-3.5\n8,15,003,2,18-64,\n9,06,075,1,65+,1\n"
    )
    tables = read_tables(spec, tmp_path)
    assert {area: table.total for area, table in tables.items()} == {"North": 2, "South": 1}


def test_the_document_names_every_key() -> None:
    text = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    keys = {key for part in [json_schema(), *json_schema()["$defs"].values()] for key in part["properties"]}
    assert {key for key in keys if not re.search(rf"\b{key}\b", text)} == set()
