"""The starter spec names the columns, leaves the levels open, and holds nothing from the rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from congenial.errors import ReadingError, SpecError
from congenial.reading import read_tables
from congenial.reading.starter import starter_spec
from congenial.spec import parse_spec

CANARY = "Ermintrude"


def csv(folder: Path, text: str, name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def open_places(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert all("still to be filled in" in mistake.message for mistake in caught.value.mistakes), str(caught.value)
    return [mistake.path.split(", entry")[0] for mistake in caught.value.mistakes]


def test_counts(tmp_path: Path) -> None:
    path = csv(tmp_path, f"sex,county_fips,n\n{CANARY},001,3\nm,001,4\n")
    text = starter_spec(path)
    assert CANARY not in text
    assert open_places(text) == ["dimensions, sex", "by, levels", "budget, epsilon"]
    filled = text.replace('sex: ["FILL IN"]', f"sex: [{CANARY}, m]").replace('levels: ["FILL IN"]', 'levels: ["001"]')
    spec = parse_spec(filled.replace('"FILL IN"', "1"))
    assert (spec.data.kind, spec.data.count, spec.areas) == ("counts", "n", ("001",))
    assert read_tables(spec, tmp_path)["001"].total == 7


def test_microdata(tmp_path: Path) -> None:
    text = starter_spec(csv(tmp_path, f"sex;age\n{CANARY};3\n"))
    assert "separator: semicolon" in text
    assert open_places(text) == ["unit, one_row_per", "dimensions, sex", "dimensions, age", "budget, epsilon"]
    text = starter_spec(csv(tmp_path, "person_id,sex\n7,f\n"))
    assert "id: person_id" in text
    assert open_places(text) == ["dimensions, sex", "budget, epsilon"]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "it's.parquet"
    pq.write_table(pa.table({"name": [CANARY], 'a"; drop': [3]}), path)
    text = starter_spec(path)
    assert CANARY not in text
    assert open_places(text) == ["unit, one_row_per", "dimensions, name", 'dimensions, a"; drop', "budget, epsilon"]


@pytest.mark.parametrize("name", ["no", "a: b", "# x", "*", "é", "'", '"', "1", "null", "a\\b", "{", "- ", "&a", "!x"])
def test_odd_names_of_columns_are_quoted(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    text = starter_spec(csv(tmp_path, f"{quoted},sex\nx,y\n"))
    assert open_places(text) == ["unit, one_row_per", f"dimensions, {name}", "dimensions, sex", "budget, epsilon"]


def test_odd_names_of_files(tmp_path: Path) -> None:
    for name in ("no.csv", "a b.csv", "---.csv", "ü.csv", "yes", "x" * 100 + ".csv", "a[1].csv", "a'b.csv"):
        assert "release" not in open_places(starter_spec(csv(tmp_path, "sex\nx\n", name)))


def test_files_that_are_no_data(tmp_path: Path) -> None:
    with pytest.raises(ReadingError, match="does not exist"):
        starter_spec(tmp_path / "none.csv")
    with pytest.raises(ReadingError, match="is empty"):
        starter_spec(csv(tmp_path, ""))
    with pytest.raises(ReadingError, match="a folder"):
        starter_spec(tmp_path)
