"""`keep_rows`: the rows that a plain loop keeps, and a neighbour relation that the filter does not break."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from congenial.bundle.report_and_readme import readme
from congenial.curator.pipeline import prepare, simulate
from congenial.curator.preview import preview
from congenial.curator.preview_text import protected
from congenial.errors import ReadingError, SpecError
from congenial.reading import read_tables
from congenial.spec import Spec, parse_spec

HEAD = """\
release: kept
data: {path: data.csv, kind: microdata, status: simulated, public_columns: [state]}
unit: {id: person, at_most: 1}
keep_rows: {state: ["01", "02"]}
dimensions: {sex: [f, m]}
budget: {epsilon: 1}
"""
ROWS = [("01", "f", 1), ("01", "m", 2), ("1", "m", 3), ("03", "f", 4), ("02", "f", 5), ("", "x", 1), ("03", "?", 1)]
DATA = "state,sex,person\n" + "".join(f"{state},{sex},{person}\n" for state, sex, person in ROWS)


def placed(folder: Path, text: str = HEAD, data: str = DATA) -> Spec:
    (folder / "data.csv").write_text(data)
    return parse_spec(text)


def test_rows_are_those_that_a_loop_keeps(tmp_path: Path) -> None:
    """Neither levels nor ids of the others are looked at."""
    wanted = Counter(sex for state, sex, _ in ROWS if state in {"01", "02"})
    spec = placed(tmp_path)
    assert read_tables(spec, tmp_path)[None].counts.tolist() == [wanted["f"], wanted["m"]]
    both = HEAD.replace('{state: ["01", "02"]}', '{state: ["01", "02"], sex: f}').replace("[state]", "[state, sex]")
    assert read_tables(placed(tmp_path, both), tmp_path)[None].counts.tolist() == [wanted["f"], 0]
    with pytest.raises(ReadingError, match="more than 1 row"):
        read_tables(placed(tmp_path, data=DATA + "02,m,5\n"), tmp_path)
    with pytest.raises(ReadingError, match="no row that `keep_rows` keeps"):
        read_tables(placed(tmp_path, HEAD.replace('"01", "02"', '"77"')), tmp_path)
    with pytest.raises(ReadingError, match="no column 'state'"):
        read_tables(placed(tmp_path, data=DATA.replace("state", "region")), tmp_path)


def test_rows_of_parquet_and_of_counts(tmp_path: Path) -> None:
    text = HEAD.replace("data.csv, kind: microdata", "data.parquet, kind: counts, count: n")
    text = text.replace("unit: {id: person, at_most: 1}\n", "").replace('["01", "02"]', "7")
    columns = {"state": [7, 7, 8, 8], "sex": ["f", "m"] * 2, "n": [4, 5, 6, 7]}
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    assert read_tables(parse_spec(text), tmp_path)[None].counts.tolist() == [4, 5]
    pq.write_table(pa.table({**columns, "state": [7.0, 7.0, 8.0, 8.0]}), tmp_path / "data.parquet")
    with pytest.raises(ReadingError, match="rows are kept by column 'state'"):
        read_tables(parse_spec(text), tmp_path)


def refusals(text: str) -> str:
    with pytest.raises(SpecError) as refused:
        parse_spec(text)
    return str(refused.value)


def test_a_column_that_is_not_public_needs_records_that_come_and_go() -> None:
    secret = HEAD.replace(", public_columns: [state]", "")
    found = refusals(secret)
    assert "spec.yaml:4:20: keep_rows, state: column 'state' is not declared public" in found
    assert "`public_columns: [state]` under `data:`" in found
    assert "`neighbours: unbounded`" in found
    assert not parse_spec(secret + "neighbours: unbounded\n").row_filters[0].is_public
    assert "'sex' is no column of `keep_rows:`" in refusals(HEAD.replace("[state]", "[state, sex]"))
    assert "no value is named" in refusals(HEAD.replace('["01", "02"]', "[]"))


def test_the_words_say_whose_membership_is_not_protected(tmp_path: Path) -> None:
    spec = placed(tmp_path)
    kept = "Only rows whose state is 01 or 02 were counted."
    public = "Whether a unit is among them is NOT protected: it is declared to be public (state)."
    assert spec.membership == [kept, public]
    assert protected(preview(spec, tmp_path)).lines[:2] == spec.membership
    published = simulate(spec, tmp_path, tmp_path / "out", seed=1)
    stated = json.loads((published.folder / "manifest.json").read_text())
    assert stated["kept_rows"] == [{"column": "state", "values": ["01", "02"], "is_public": True}]
    assert f"{kept} {public}" in (published.folder / "report.html").read_text()
    assert f"{kept} {public}" in " ".join(readme(published.release.manifest).split())
    unbounded = placed(tmp_path, HEAD + "neighbours: unbounded\n")
    assert "is protected as their record is" in unbounded.membership[1]


def test_other_rows_are_another_plan(tmp_path: Path) -> None:
    more = HEAD.replace('"01", "02"', '"01", "02", "77"')
    assert prepare(placed(tmp_path), tmp_path).digest != prepare(placed(tmp_path, more), tmp_path).digest


Person = tuple[str, str]
PEOPLE: list[Person] = [(state, sex) for state in ("in", "out") for sex in "fm"]


def counted(people: tuple[Person, ...]) -> Counter[str]:
    return Counter(sex for state, sex in people if state == "in")


def apart(first: tuple[Person, ...], second: tuple[Person, ...]) -> tuple[int, int]:
    """Return how many records leave and how many enter among those that are counted."""
    before, after = counted(first), counted(second)
    return (before - after).total(), (after - before).total()


def changed(people: tuple[Person, ...], *, is_public: bool) -> list[tuple[Person, ...]]:
    """Return all data in which one person has another value; a public state stays."""
    return [
        (*people[:place], other, *people[place + 1 :])
        for place, person in enumerate(people)
        for other in PEOPLE
        if not is_public or other[0] == person[0]
    ]


def test_a_public_filter_keeps_neighbours_neighbours() -> None:
    """All data of three people: what is counted differs by one changed record at most, or by one that comes or goes.

    The mutant is a filter that is not public under bounded neighbours: records leave, which no certificate covers.
    """
    everybody = list(product(PEOPLE, repeat=3))
    public = {apart(own, other) for own in everybody for other in changed(own, is_public=True)}
    assert public == {(0, 0), (1, 1)}
    secret = {apart(own, other) for own in everybody for other in changed(own, is_public=False)}
    assert secret == {(0, 0), (1, 1), (1, 0), (0, 1)}
    removed = {apart(own, own[:place] + own[place + 1 :]) for own in everybody for place in range(3)}
    assert removed == {(0, 0), (1, 0)}
