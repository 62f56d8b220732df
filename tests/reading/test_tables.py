"""Counts and microdata, CSV and Parquet: the tables are those that a plain loop makes."""

import csv
import gzip
import io
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from congenial.errors import ReadingError
from congenial.reading import read_tables
from congenial.spec import Spec, parse_spec
from drawn import drawn

SEXES, CODES = ("female", "male"), ("01", "2")
AREAS = ("001", "003", "x y")


def spec(data: str = "kind: microdata", *, path: str = '"data.csv"', extra: str = "", dimensions: str = "") -> Spec:
    unit = "unit: {one_row_per: person}\n" if "microdata" in data and "unit:" not in extra else ""
    levels = dimensions or "{sex: {column: SEX, levels: {'01': female, 2: male}}, age: [y, o]}"
    return parse_spec(
        f"release: t\ndata: {{path: {path}, {data}}}\n{unit}dimensions: {levels}\nbudget: {{epsilon: 1}}\n{extra}"
    )


def write(folder: Path, content: str | bytes, name: str = "data.csv") -> None:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def counts(spec: Spec, folder: Path) -> list[int]:
    return [int(count) for count in read_tables(spec, folder)[None].counts]


def test_microdata(tmp_path: Path) -> None:
    write(tmp_path, "SEX,age\n01,y\n2,o\n01,y\n2,y\n")
    assert counts(spec(), tmp_path) == [2, 0, 1, 1]


def test_counts(tmp_path: Path) -> None:
    write(tmp_path, "age,n,SEX\ny,3,01\no,0,01\ny,9007199254740992,2\no,0007,2\n")
    assert counts(spec("kind: counts, count: n"), tmp_path) == [3, 0, 2**53, 7]


def test_files_packed_by_gzip(tmp_path: Path) -> None:
    """In one piece or in several, under any name, beside files that are not packed."""
    first, second = b"SEX,age\n01,y\n2,", b"o\n01,y\n2,y\n"
    write(tmp_path, gzip.compress(first) + gzip.compress(second), "a.csv.gz")
    write(tmp_path, first + second, "b.csv")
    write(tmp_path, gzip.compress(first + second), "c.csv")
    assert counts(spec(path="a.csv.gz"), tmp_path) == [2, 0, 1, 1]
    assert counts(spec(path="[a.csv.gz, b.csv, c.csv]"), tmp_path) == [6, 0, 3, 3]


def test_cells_without_a_row_may_be_zero(tmp_path: Path) -> None:
    write(tmp_path, "SEX,age,n\n2,o,5\n")
    assert counts(spec("kind: counts, count: n, missing_cells: zero"), tmp_path) == [0, 0, 0, 5]


EMPTY = """{
  sex: {column: SEX, levels: {'01': female, 2: male}, empty: not stated},
  income: {cut: [0, 10], below: true, empty: unknown, groups: {some: {from: 0 to <10}}}
}"""


def test_a_level_for_empty_values(tmp_path: Path) -> None:
    """Of codes and of cut numbers, in CSV (quoted or not) and in Parquet (null or no letter); not for what is wrong."""
    declared = spec(dimensions=EMPTY, extra="by: {name: town, levels: [a], empty: nowhere}\n")
    rows = [("01", "5", "a"), ("", "5", "a"), ("2", "", "a"), ("", "", "a"), ("", "-1", ""), ("", "", "")]
    write(tmp_path, "SEX,income,town\n" + "".join(f'{sex},"{income}",{town}\n' for sex, income, town in rows))
    sexes, incomes = ("female", "male", "not stated"), ("below 0", "0 to <10", "10 or more", "unknown")
    found = read_tables(declared, tmp_path)
    assert (declared.schema.labels("sex"), declared.schema.labels("income")) == (sexes, incomes)
    expected = {"a": Counter({(0, 1): 1, (2, 1): 1, (1, 3): 1, (2, 3): 1}), "nowhere": Counter({(2, 0): 1, (2, 3): 1})}
    cells = [(sex, income) for sex in range(3) for income in range(4)]
    assert {area: table.counts.tolist() for area, table in found.items()} == {
        area: [own[cell] for cell in cells] for area, own in expected.items()
    }
    by_column = zip(*rows, strict=True)
    columns = [[value if number % 2 else value or None for number, value in enumerate(own)] for own in by_column]
    pq.write_table(pa.table(dict(zip(("SEX", "income", "town"), columns, strict=True))), tmp_path / "data.parquet")
    packed = replace(declared, data=replace(declared.data, paths=("data.parquet",)))
    assert {area: table.counts.tolist() for area, table in read_tables(packed, tmp_path).items()} == {
        area: table.counts.tolist() for area, table in found.items()
    }
    assert declared.dimensions[1].groups == {"some": ("0 to <10", "10 or more")}
    assert not declared.dimensions[1].is_ordered
    for wrong in ("3,5,a", "01,x,a", "01,1e999,a", "01,nan,a", " ,5,a", "01,5,b"):
        write(tmp_path, f"SEX,income,town\n{wrong}\n")
        with pytest.raises(ReadingError, match="not declared levels"):
            read_tables(declared, tmp_path)


def test_areas(tmp_path: Path) -> None:
    write(tmp_path, "SEX,age,county\n01,y,001\n2,o,003\n2,o,003\n")
    areas = "by: {name: county, levels: {'001': North, '003': South, '005': Empty}}\n"
    tables = read_tables(spec(extra=areas), tmp_path)
    assert {name: table.counts.tolist() for name, table in tables.items()} == {
        "North": [1, 0, 0, 0],
        "South": [0, 0, 0, 2],
        "Empty": [0, 0, 0, 0],
    }


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfSEX,age\n01,y\n2,o\n",
        b"SEX,age\r\n01,y\r\n2,o\r\n",
        b"SEX,age\n01,y\n2,o",
        b'"SEX","age"\n"01","y"\n2,"o"\n',
        b"SEX,age\n\n01,y\n\n2,o\n\n",
        b'other,SEX,"a,b\nc",age,age2\nx,01,"q\nr",y,\n,2,"a""b",o,z\n',
    ],
    ids=["byte order mark", "windows", "no end", "quotes", "empty lines", "more columns"],
)
def test_kinds_of_csv(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, content)
    assert counts(spec(), tmp_path) == [1, 0, 0, 1]


@pytest.mark.parametrize(("name", "sign"), [("semicolon", ";"), ("tab", "\t"), ("bar", "|")])
def test_separators(tmp_path: Path, name: str, sign: str) -> None:
    write(tmp_path, f"SEX{sign}age\n01{sign}y\n2{sign}o\n")
    assert counts(spec(f"kind: microdata, separator: {name}"), tmp_path) == [1, 0, 0, 1]


def test_several_files_with_columns_in_any_order(tmp_path: Path) -> None:
    write(tmp_path, "SEX,age\n01,y\n", "a.csv")
    write(tmp_path, "age,x,SEX\no,9,2\n", "b.csv")
    write(tmp_path, "SEX,age\n01,y\n", "c.csv")
    pq.write_table(pa.table({"age": ["y"], "SEX": [2]}), tmp_path / "d.parquet")
    assert counts(spec(path='["*.csv", d.parquet]'), tmp_path) == [2, 0, 1, 1]
    assert counts(spec(path="[a.csv, b.csv]"), tmp_path) == [1, 0, 0, 1]


@pytest.mark.parametrize(
    "name", ["a[1].csv", "a*.csv", "a?.csv", "it's.csv", 'a";b.csv', "sp ace.csv", "ü.csv", "a,b.csv", "sex=3.csv"]
)
def test_odd_names_of_files_are_no_patterns(tmp_path: Path, name: str) -> None:
    write(tmp_path, "SEX,age\n01,y\n", name)
    for other in ("a1.csv", "ab.csv", "aa.csv"):
        write(tmp_path, "SEX,age\n2,o\n2,o\n", other)
    path = "'" + name.replace("'", "''") + "'"
    assert counts(spec(path=path), tmp_path) == [1, 0, 0, 0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_of_folders_are_no_columns(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "SEX=2"
    folder.mkdir()
    write(folder, "SEX,age\n01,y\n")
    pq.write_table(pa.table({"SEX": ["01"], "age": ["y"]}), folder / "data.parquet")
    assert counts(spec(path=f"SEX=2/data.{suffix}"), tmp_path) == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "column", ['a"; drop table x; --', "a'b", "c0", "v0", "select", "é ü", "SEX ", "{x}", "$codes", "%s"]
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_odd_names_of_columns(tmp_path: Path, column: str, suffix: str) -> None:
    dimensions = f"{{sex: {{column: {_yaml(column)}, levels: {{'01': female, 2: male}}}}, age: [y, o]}}"
    stream = io.StringIO()
    csv.writer(stream).writerows([[column, "age"], ["01", "o"], ["2", "y"]])
    write(tmp_path, stream.getvalue())
    pq.write_table(pa.table({column: ["01", "2"], "age": ["o", "y"]}), tmp_path / "data.parquet")
    assert counts(spec(path=f"data.{suffix}", dimensions=dimensions), tmp_path) == [0, 1, 1, 0]


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_odd_levels(tmp_path: Path) -> None:
    levels = ["it's", 'a"b', "a;b", "%", "NULL", "null", "é", " x", "-", "1e3", "nan", "$codes"]
    stream = io.StringIO()
    csv.writer(stream).writerows([["a"], *([level] * (place + 1) for place, level in enumerate(levels))])
    rows = [["a"], *([level] for place, level in enumerate(levels) for _ in range(place + 1))]
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    write(tmp_path, stream.getvalue())
    declared = f"{{a: [{', '.join(map(_yaml, levels))}]}}"
    assert counts(spec(dimensions=declared), tmp_path) == list(range(1, len(levels) + 1))


def test_types_of_parquet_columns(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    values = {
        "i8": pa.array([1, 2], pa.int8()),
        "u64": pa.array([1, 2**64 - 1], pa.uint64()),
        "text": pa.array(["01", "1"]),
        "dictionary": pa.array(["a", "b"]).dictionary_encode(),
        "bool": pa.array([True, False]),
        "date": pa.array([0, 1], pa.date32()),
        "TEXT": pa.array(["x", "y"]),  # differs from another column in capitals only
        "unused": pa.array([[1], [2]]),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "last": pa.array(["x", "y"]),
    }
    pq.write_table(pa.table(values), file)
    dimensions = (
        "{i8: ['1', '2'], u64: ['1', '18446744073709551615'], text: ['01', '1'], dictionary: [a, b],"
        " bool: ['true', 'false'], date: [1970-01-01, 1970-01-02], capitals: {column: TEXT, levels: [x, y]}, last: [x,"
        " y]}"
    )
    cells = counts(spec(path="data.parquet", dimensions=dimensions), tmp_path)
    assert [place for place, count in enumerate(cells) if count] == [0, 2**8 - 1]


def test_counts_in_parquet(tmp_path: Path) -> None:
    for kind in (pa.int16(), pa.uint32(), pa.int64(), pa.string()):
        values = pa.array(["1", "2", "3", "4"]).cast(kind)
        pq.write_table(
            pa.table({"SEX": ["01", "01", "2", "2"], "age": list("yoyo"), "n": values}), tmp_path / "d.parquet"
        )
        assert counts(spec("kind: counts, count: n", path="d.parquet"), tmp_path) == [1, 2, 3, 4]


CUTS = (Fraction(-5), Fraction(0), Fraction(1, 10), Fraction(10000))


@settings(max_examples=drawn(16))
@given(
    st.lists(
        st.one_of(
            st.integers(-20, 20000),
            st.decimals(-10, 20000, places=3),
            st.sampled_from(["0.1", "1e4", "-5", "-.5", "5."]),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_cuts_are_half_open(tmp_path_factory: pytest.TempPathFactory, values: list[object]) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    dimensions = "{income: {cut: [-5, 0, 0.1, 1e4], below: true}}"
    write(folder, "income\n" + "".join(f"{value}\n" for value in values))
    expected = [0] * 5
    for value in values:
        expected[sum(Fraction(str(value)) >= end for end in CUTS)] += 1
    assert counts(spec(dimensions=dimensions), folder) == expected
    doubles = pa.array([float(str(value)) for value in values])
    pq.write_table(pa.table({"income": doubles}), folder / "data.parquet")
    assert counts(spec(path="data.parquet", dimensions=dimensions), folder) == expected


@settings(max_examples=drawn(16))
@given(
    st.lists(st.tuples(st.sampled_from(CODES), st.sampled_from("yo"), st.sampled_from(AREAS)), min_size=1, max_size=60)
)
def test_tables_are_those_of_a_plain_loop(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    write(folder, "SEX,age,area\n" + "".join(",".join(row) + "\n" for row in rows))
    columns = dict(zip(("SEX", "age", "area"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "data.parquet")
    tally = Counter(rows)
    write(folder, "SEX,age,area,n\n" + "".join(",".join(row) + f",{n}\n" for row, n in tally.items()), "counts.csv")
    areas = f"by: {{name: area, levels: {list(AREAS)}}}\n"
    expected = {area: [tally[code, age, area] for code in CODES for age in "yo"] for area in AREAS}
    kinds = [("data.csv", "kind: microdata"), ("data.parquet", "kind: microdata")]
    kinds.append(("counts.csv", "kind: counts, count: n, missing_cells: zero"))
    for path, kind in kinds:
        tables = read_tables(spec(kind, path=path, extra=areas), folder)
        assert {name: table.counts.tolist() for name, table in tables.items()} == expected


def test_ids_within_their_bound(tmp_path: Path) -> None:
    write(tmp_path, "SEX,age,id\n01,y,a\n2,o,a\n2,o,b\n")
    assert counts(spec(extra="unit: {id: id, at_most: 2}\n"), tmp_path) == [1, 0, 0, 2]


def test_many_rows_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are counted in parts; each part sees every row of its ids, in whichever file it stands."""
    from congenial.errors import ReadingError
    from congenial.reading import tables_and_data_checks as ids

    monkeypatch.setattr(ids, "_AT_ONCE", 100)
    rows = [f"01,y,{number}\n" for number in range(1000)]
    write(tmp_path, "SEX,age,id\n" + "".join(rows), "a.csv")
    pq.write_table(
        pa.table({"id": np.arange(1000, 1100), "SEX": ["2"] * 100, "age": ["o"] * 100}), tmp_path / "b.parquet"
    )
    once = spec(path="[a.csv, b.parquet]", extra="unit: {id: id}\n")
    assert counts(once, tmp_path) == [1000, 0, 0, 100]
    pq.write_table(pa.table({"id": [517], "SEX": ["2"], "age": ["o"]}), tmp_path / "b.parquet")
    with pytest.raises(ReadingError, match="more than 1 row,"):
        read_tables(once, tmp_path)


def test_ids_whose_hashes_collide_are_told_apart() -> None:
    """A hash that occurs too often is only a suspicion."""
    from congenial.errors import ReadingError
    from congenial.reading.duckdb_session_and_queries import session
    from congenial.reading.tables_and_data_checks import check_ids
    from congenial.spec.spec_and_hierarchy import PrivacyUnit

    rows = "SELECT unnest(['a', 'b', 'c', 'c']) AS v0"
    with session([]) as database:
        database.rows("CREATE MACRO hash(x) AS 7")
        assert database.rows("SELECT hash('a')") == [(7,)]
        assert check_ids(database, rows, PrivacyUnit("id", "id", 2))
        with pytest.raises(ReadingError, match="more than 1 row,"):
            check_ids(database, rows, PrivacyUnit("id", "id", 1))
