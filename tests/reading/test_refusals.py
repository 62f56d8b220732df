"""Data that do not fit are refused in words, and no word is from the rows: unmistakable values are pushed through."""

import gzip
import os
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from congenial import memory_and_threads as resources
from congenial.errors import CongenialError, ReadingError
from congenial.reading import read_tables
from congenial.reading.tables_and_data_checks import find_csv_error
from congenial.spec import Spec, parse_spec
from drawn import drawn

CANARIES = ("71828182", "Ermintrude", "31415926", "57721566")
N, NAME, ID, MORE = CANARIES
UNKNOWN = "CONFIDENTIAL-unknown-levels-t.csv"
CELLS = "CONFIDENTIAL-rows-of-cells-t.csv"


def spec(data: str, *, path: str = "data.csv", extra: str = "") -> Spec:
    unit = "unit: {one_row_per: person}\n" if "microdata" in data and "unit:" not in extra else ""
    return parse_spec(
        f"release: t\ndata: {{path: {path}, {data}}}\n{unit}budget: {{epsilon: 1}}\n{extra}"
        "dimensions: {sex: [f, m], age: {column: AGE, levels: [y, '01']}}\n"
    )


COUNTS = spec("kind: counts, count: n")
ZEROS = spec("kind: counts, count: n, missing_cells: zero")
MICRO = spec("kind: microdata")
IDS = spec("kind: microdata", extra="unit: {id: pid}\n")
AREAS = spec("kind: microdata", extra="by: {name: county, levels: ['001']}\n")
CUT = parse_spec(
    "release: t\ndata: {path: data.csv, kind: microdata}\nunit: {one_row_per: p}\ndimensions: {x: {cut: [0, 10]}}\n"
    "budget: {epsilon: 1}\n"
)

# The spec, the file, and words of the refusal.
REFUSED: dict[str, tuple[Spec, bytes, str]] = {
    "empty": (COUNTS, b"", "data.csv is empty"),
    "only a mark": (COUNTS, b"\xef\xbb\xbf", "first line must hold the names"),
    "empty first line": (COUNTS, b"\nsex,AGE,n\n", "first line must hold the names"),
    "header only": (COUNTS, b"sex,AGE,n\n", "has a header and no rows"),
    "header without end": (MICRO, b"sex,AGE", "has a header and no rows"),
    "missing column": (COUNTS, f"sex,AGEGRP,n\nf,{NAME},{N}\n".encode(), "no column 'AGE'; did you mean 'AGEGRP'?"),
    "no header": (COUNTS, f"f,y,{N}\nm,y,{MORE}\n".encode(), "its first line must hold the names of the columns"),
    "missing count": (COUNTS, f"sex,AGE,m\nf,y,{N}\n".encode(), "no column 'n'"),
    "missing id": (IDS, f"sex,AGE,id\nf,y,{ID}\n".encode(), "no column 'pid'; did you mean 'id'?"),
    "missing area": (AREAS, f"sex,AGE\nf,{NAME}\n".encode(), "no column 'county'"),
    "column twice": (COUNTS, f"sex,AGE,n,n\nf,y,{N},{MORE}\n".encode(), "has 2 columns with the name 'n'"),
    "another separator": (COUNTS, f"sex;AGE;n\nf;y;{N}\n".encode(), "write `separator: semicolon`"),
    "no level": (COUNTS, f"sex,AGE,n\n,y,{N}\n".encode(), "column 'sex' has empty values"),
    "quoted nothing": (COUNTS, f'sex,AGE,n\n"",y,{N}\n'.encode(), "column 'sex' has empty values"),
    "unknown level": (
        COUNTS,
        f"sex,AGE,n\n{NAME},y,{N}\n".encode(),
        "column 'sex' has values that are not declared levels",
    ),
    "two unknown": (MICRO, f"sex,AGE\n{NAME},{ID}\n,{ID}\n".encode(), "'sex' has empty values; give each row a level"),
    "spaces": (COUNTS, f"sex,AGE,n\n f,y,{N}\n".encode(), "some match a level after trimming spaces"),
    "zeros": (COUNTS, f"sex,AGE,n\nf,1,{N}\n".encode(), "some match a level but for leading zeros"),
    "capitals": (COUNTS, f"sex,AGE,n\nF,y,{N}\n".encode(), "some match a level but for capital letters"),
    "unknown area": (AREAS, f"sex,AGE,county\nf,y,{NAME}\n".encode(), "column 'county' has values"),
    "no count": (COUNTS, f"sex,AGE,n\nf,y,\nm,y,{N}\n".encode(), "column 'n' has empty values"),
    "negative": (COUNTS, f"sex,AGE,n\nf,y,-{N}\n".encode(), "column 'n' has negative counts"),
    "fraction": (COUNTS, f"sex,AGE,n\nf,y,{N}.5\n".encode(), "decimal point"),
    "whole with a point": (COUNTS, f"sex,AGE,n\nf,y,{N}.0\n".encode(), "12 and not 12.0"),
    "exponent": (COUNTS, f"sex,AGE,n\nf,y,{N}e1\n".encode(), "an exponent"),
    "words": (COUNTS, f"sex,AGE,n\nf,y,{NAME}\n".encode(), "values that are not numbers"),
    "thousands": (COUNTS, b'sex,AGE,n\nf,y,"71,828,182"\n', "thousands separators"),
    "underscores": (COUNTS, b"sex,AGE,n\nf,y,71_828_182\n", "values that are not numbers"),
    "space in count": (COUNTS, f"sex,AGE,n\nf,y, {N}\n".encode(), "without spaces"),
    "hexadecimal": (COUNTS, b"sex,AGE,n\nf,y,0x10\n", "values that are not numbers"),
    "infinite": (COUNTS, b"sex,AGE,n\nf,y,inf\n", "values that are not numbers"),
    "arabic digits": (COUNTS, "sex,AGE,n\nf,y,٣\n".encode(), "values that are not numbers"),
    "just too large": (COUNTS, b"sex,AGE,n\nf,y,9007199254740993\n", "beyond 2^53"),
    "far too large": (COUNTS, f"sex,AGE,n\nf,y,{N * 20}\n".encode(), "beyond 2^53"),
    "all at once": (
        COUNTS,
        f"sex,AGE,n\nf,y,-{N}\nf,01,{NAME}\nm,y,\n".encode(),
        "column 'n' has empty values; negative counts; values that are not numbers",
    ),
    "cell twice": (ZEROS, f"sex,AGE,n\nf,y,{N}\nf,y,{MORE}\n".encode(), "some cells have more than one row"),
    "cell missing": (COUNTS, f"sex,AGE,n\nf,y,{N}\nm,y,{MORE}\n".encode(), "some cells have no row"),
    "id twice": (
        IDS,
        f"sex,AGE,pid\nf,y,{ID}\nm,y,{ID}\n".encode(),
        "column 'pid': some of its values stand in more than 1 row,",
    ),
    "no id": (IDS, f"sex,AGE,pid\nf,y,{ID}\nm,y,\n".encode(), "column 'pid' has empty values"),
    "short row": (
        COUNTS,
        f"sex,AGE,n\nf,y,{N}\n{NAME},y\n".encode(),
        "data.csv, line 3: the row has 2 fields, the header 3",
    ),
    "long row": (COUNTS, f"sex,AGE,n\nf,y,{N},{NAME}\n".encode(), "line 2: the row has 4 fields"),
    "open quote": (
        COUNTS,
        f'sex,AGE,n\nf,"y,{N}\nm,y,{MORE}\n'.encode(),
        "a quote is opened or closed in the wrong place",
    ),
    "odd quote": (COUNTS, f'sex,AGE,n\n"{NAME}"x,y,{N}\n'.encode(), "a quote is opened or closed in the wrong place"),
    "open quote in the header": (COUNTS, f'sex,"AGE,n\nf,y,{N}\n'.encode(), "the first line must hold the names"),
    "mixed line ends": (COUNTS, f"sex,AGE,n\nf,y,{N}\r\nm,y,{MORE}\n".encode(), "one kind of line end"),
    "latin-1": (MICRO, f"sex,AGE\n{NAME}\xe9,y\n".encode("latin-1"), "data.csv is not UTF-8 text: line 2"),
    "latin-1 header": (MICRO, f"sex,\xe9\n{NAME},y\n".encode("latin-1"), "data.csv is not UTF-8 text: line 1"),
    "utf-16": (COUNTS, f"sex,AGE,n\nf,y,{N}\n".encode("utf-16"), "UTF-16"),
    "utf-16 without a mark": (COUNTS, f"sex,AGE,n\nf,y,{N}\n".encode("utf-16-le"), "UTF-16"),
    "gzip": (COUNTS, b"\x1f\x8b\x08" + N.encode(), "data.csv is cut short or damaged"),
    "gzip twice": (COUNTS, gzip.compress(gzip.compress(f"sex,AGE,n\nf,y,{N}\n".encode())), "is packed (gzip, twice)"),
    "gzip of a short row": (COUNTS, gzip.compress(f"sex,AGE,n\nf,y,{N}\n{NAME},y\n".encode()), "data.csv, line 3: the"),
    "zip": (COUNTS, b"PK\x03\x04" + N.encode(), "is packed (zip)"),
    "no Parquet": (COUNTS, b"PAR1" + N.encode() + b"PAR1", "not a Parquet file that can be read"),
    "cut: words": (CUT, f"x\n{NAME}\n".encode(), "numbers outside the declared cuts, or no numbers,"),
    "cut: below": (CUT, f"x\n-{N}\n".encode(), "numbers outside the declared cuts"),
    "cut: infinite": (CUT, b"x\ninf\n", "numbers outside the declared cuts"),
    "cut: empty": (CUT, f"x\n{N}\n\n".encode(), "column 'x' has empty values"),
}


def refusal(spec: Spec, folder: Path) -> str:
    with pytest.raises(ReadingError) as caught:
        read_tables(spec, folder)
    check_no_canary(caught.value)
    return str(caught.value)


def check_no_canary(error: BaseException | None) -> None:
    while error is not None:
        texts = [*traceback.format_exception_only(error), repr(error), *map(str, error.args)]
        for text in texts:
            digits = text.replace(",", "").replace("_", "")
            assert not any(canary in digits for canary in CANARIES), text
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_without_its_values(case: str, tmp_path: Path) -> None:
    given_spec, content, words = REFUSED[case]
    (tmp_path / "data.csv").write_bytes(content)
    assert words in refusal(given_spec, tmp_path)
    assert set(os.listdir(tmp_path)) <= {"data.csv", UNKNOWN, CELLS}


ROWS = ("f,y", "f,01", "m,y", "m,01")


def test_a_cell_without_one_row_is_named_in_a_file_only(tmp_path: Path) -> None:
    """Data that leave empty cells out would else say which they are: the message is the same whichever it is."""
    messages: dict[str, set[str]] = {"twice": set(), "missing": set()}
    for row in ROWS:
        others = [f"{other},{N}\n" for other in ROWS if other != row]
        for name, own, n_rows in (("twice", f"{row},1\n{row},2\n", 2), ("missing", "", 0)):
            (tmp_path / "data.csv").write_text("sex,AGE,n\n" + "".join(others) + own, encoding="utf-8")
            messages[name].add(refusal(COUNTS, tmp_path))
            assert (tmp_path / CELLS).read_text(encoding="utf-8") == f"sex,age,rows\n{row},{n_rows}\n"
            assert (tmp_path / CELLS).stat().st_mode & 0o077 == 0
    assert {name: len(texts) for name, texts in messages.items()} == {"twice": 1, "missing": 1}
    assert f"the list is in {CELLS}, which stays confidential" in messages["missing"].pop()


def test_a_file_for_the_curator_holds_text_and_no_formula(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text('sex,AGE\n"=HYPERLINK(1)",y\n-3,\u202ey\n', encoding="utf-8")
    refusal(MICRO, tmp_path)
    lines = (tmp_path / UNKNOWN).read_text(encoding="utf-8").splitlines()
    assert lines[1:] == ["sex,-3,1", "sex,'=HYPERLINK(1),1", r"AGE,\u202ey,1"]


PARQUET: dict[str, tuple[dict[str, Any], str]] = {
    "nested": (
        {"sex": [["f"]], "AGE": ["y"], "n": [int(N)]},
        "column 'sex' of data.parquet holds values of type VARCHAR[]",
    ),
    "struct": ({"sex": [{"a": NAME}], "AGE": ["y"], "n": [1]}, "holds values of type STRUCT"),
    "bytes": ({"sex": [NAME.encode()], "AGE": ["y"], "n": [1]}, "holds values of type BLOB"),
    "floats for codes": ({"sex": ["f"], "AGE": [1.0], "n": [1]}, "type DOUBLE; store them as text or whole numbers"),
    "floats for counts": ({"sex": ["f"], "AGE": ["y"], "n": [float(N)]}, "type DOUBLE; store them as whole numbers"),
    "nothing but nulls": ({"sex": pa.nulls(1), "AGE": ["y"], "n": [1]}, "column 'sex'"),
    "null": ({"sex": ["f", None], "AGE": ["y", "y"], "n": [1, 2]}, "column 'sex' has empty values"),
    "null count": ({"sex": ["f"], "AGE": ["y"], "n": pa.array([None], pa.int64())}, "column 'n' has empty values"),
    "negative": ({"sex": ["f"], "AGE": ["y"], "n": [-int(N)]}, "negative counts"),
    "large": ({"sex": ["f"], "AGE": ["y"], "n": [2**53 + 1]}, "beyond 2^53"),
    "unknown": ({"sex": [NAME], "AGE": ["y"], "n": [1]}, "column 'sex' has values that are not declared levels"),
    "lost zeros": ({"sex": ["f"], "AGE": [1], "n": [1]}, "some match a level but for leading zeros"),
    "missing": ({"sx": ["f"], "AGE": ["y"], "n": [1]}, "no column 'sex'; did you mean 'sx'?"),
    "no rows": (
        {"sex": pa.array([], pa.string()), "AGE": pa.array([], pa.string()), "n": pa.array([], pa.int64())},
        "no rows",
    ),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_that_does_not_fit(case: str, tmp_path: Path) -> None:
    columns, words = PARQUET[case]
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    assert words in refusal(spec("kind: counts, count: n", path="data.parquet"), tmp_path)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_without_a_place_on_the_line(tmp_path: Path, value: float) -> None:
    pq.write_table(pa.table({"x": [1.0, value]}), tmp_path / "data.parquet")
    cut = parse_spec(
        "release: t\ndata: {path: data.parquet, kind: microdata}\nunit: {one_row_per: p}\nbudget: {epsilon: 1}\n"
        "dimensions: {x: {cut: [0, 10], below: true}}\n"
    )
    assert "numbers outside the declared cuts" in refusal(cut, tmp_path)


def test_damaged_parquet(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table({"sex": ["f"] * 999, "AGE": ["y"] * 999, "n": list(range(999))}), file)
    whole = file.read_bytes()
    given_spec = spec("kind: counts, count: n", path="data.parquet")
    file.write_bytes(whole[: len(whole) // 2])
    assert "not a Parquet file that can be read" in refusal(given_spec, tmp_path)
    file.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    assert "cannot be read" in refusal(given_spec, tmp_path) or "not a Parquet file" in refusal(given_spec, tmp_path)
    file.write_bytes(f"sex,AGE,n\nf,y,{N}\n".encode())
    assert "not a Parquet file, though its name says so" in refusal(given_spec, tmp_path)
    pq.write_table(
        pa.Table.from_arrays(
            [pa.array(["f"]), pa.array(["y"]), pa.array([1]), pa.array([2])], ["sex", "AGE", "n", "n"]
        ),
        file,
    )
    assert "has 2 columns with the name 'n'" in refusal(given_spec, tmp_path)


PACKED = gzip.compress(b"sex,AGE,n\n" + b"".join(b"f,y,%d\n" % n for n in range(2_000)), mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        PACKED[:-1],  # cut short
        PACKED[: len(PACKED) // 2],
        PACKED[:1_000] + bytes([PACKED[1_000] ^ 4]) + PACKED[1_001:],  # a changed bit, which DuckDB reads over
        PACKED[:-8] + bytes(4) + PACKED[-4:],  # another checksum
        PACKED + b"more",
    ],
)
def test_damaged_gzip(content: bytes, tmp_path: Path) -> None:
    packed = spec("kind: counts, count: n", path="data.csv.gz")
    (tmp_path / "data.csv.gz").write_bytes(content)
    assert "data.csv.gz is cut short or damaged" in refusal(packed, tmp_path)
    (tmp_path / "data.csv.gz").write_bytes(gzip.decompress(PACKED))
    assert "is not packed by gzip, though its name says so" in refusal(packed, tmp_path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "data.csv").write_text(f"sex,AGE,n\nf,y,{N}\n")
    (tmp_path / "link.csv").symlink_to("data.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    for path, words in {
        "none.csv": "'none.csv' does not exist",
        '"no*.csv"': "no file matches 'no*.csv'",
        "folder": "is a folder, not a file; write 'folder/*.csv'",
        "[data.csv, data.csv]": "named twice",
        "[data.csv, ./link.csv]": "named twice",
        "'https://example.org/a.csv'": "on a network",
        "'s3://bucket/a.csv'": "on a network",
        "pipe.csv": "not an ordinary file",
        "x" * 999: "cannot be looked up",
    }.items():
        assert words in refusal(spec("kind: counts, count: n", path=path), tmp_path)


def test_too_many_cells_in_all_areas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_START", 2 * 10**9)
    monkeypatch.setenv(resources.MEMORY, "1.5GB")
    message = "1 tables of 4 cells take about 2.0 GB of memory, and this process may take 1.5 GB; allow more, --memory"
    assert message in refusal(AREAS, tmp_path)
    monkeypatch.setenv(resources.MEMORY, "plenty")
    with pytest.raises(CongenialError, match=r"'plenty' is no amount of memory of 0\.5 GB or more; write one such as"):
        read_tables(AREAS, tmp_path)


def test_unknown_values_go_to_a_confidential_file(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(f"sex,AGE\nf,{ID}\n{NAME},{ID}\nf,{ID}\nm,y\n,y\n")
    message = refusal(MICRO, tmp_path)
    assert f"what they are is in {UNKNOWN}" in message
    assert (tmp_path / UNKNOWN).read_bytes().decode() == f"column,value,rows\nsex,{NAME},1\nAGE,{ID},3\n".replace(
        "\n", "\r\n"
    )
    assert (tmp_path / UNKNOWN).stat().st_mode & 0o077 == 0
    (tmp_path / UNKNOWN).unlink()
    (tmp_path / UNKNOWN).mkdir()
    assert f"could not be written to {UNKNOWN}" in refusal(MICRO, tmp_path)


def test_the_confidential_file_is_not_taken_for_data(tmp_path: Path) -> None:
    anything = spec("kind: microdata", path='"*.csv"')
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "data.csv").write_text(f"sex,AGE\nf,{ID}\n")
    refusal(anything, tmp_path)
    (tmp_path / "data.csv").write_text("sex,AGE\nf,y\n")
    assert (tmp_path / UNKNOWN).exists()
    assert read_tables(anything, tmp_path)[None].total == 1


def test_labels_where_codes_are_declared(tmp_path: Path) -> None:
    coded = parse_spec(
        "release: t\ndata: {path: data.csv, kind: microdata}\nunit: {one_row_per: p}\n"
        "dimensions: {sex: {levels: {1: female, 2: male}}}\nbudget: {epsilon: 1}\n"
    )
    (tmp_path / "data.csv").write_text("sex\nfemale\n1\n")
    assert "some are labels, where codes are declared" in refusal(coded, tmp_path)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No temporary file, no folder of DuckDB: neither where the data are, nor where the program runs."""
    data, here, home = tmp_path / "data", tmp_path / "here", tmp_path / "home"
    for folder in (data, here, home):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    (data / "data.csv").write_text("sex,AGE\nf,y\n")
    assert read_tables(MICRO, data)[None].total == 1
    (data / "data.csv").write_text(f"sex,AGE\nf,{NAME},3\n")
    refusal(MICRO, data)
    assert [*here.iterdir(), *home.iterdir()] == []
    assert os.listdir(data) == ["data.csv"]


def test_the_session_sees_the_named_files_only(tmp_path: Path) -> None:
    from congenial.reading.duckdb_session_and_queries import quoted, session

    for name in ("data.csv", "other.csv"):
        (tmp_path / name).write_text("a\n1\n")
    with session([tmp_path / "data.csv"]) as database:
        assert database.rows(f"SELECT * FROM read_csv({quoted(str(tmp_path / 'data.csv'))})") == [(1,)]
        for query in (
            f"SELECT * FROM read_csv({quoted(str(tmp_path / 'other.csv'))})",
            f"SELECT * FROM read_csv({quoted(str(tmp_path / '*.csv'))})",
            f"COPY (SELECT 1) TO {quoted(str(tmp_path / 'out.csv'))}",
            f"ATTACH {quoted(str(tmp_path / 'new.db'))}",
            "SELECT * FROM read_csv('https://example.org/a.csv')",
            "INSTALL httpfs",
            "SET enable_external_access = true",
            "SET temp_directory = '/tmp'",
            "SET memory_limit = '9GB'",
        ):
            assert database.rows(query) is None, query


def test_the_canary_can_be_found(tmp_path: Path) -> None:
    """The mutant: passing on what DuckDB says would be caught, even as the context of another error."""
    import duckdb

    file = tmp_path / "data.csv"
    file.write_text(f"sex,AGE\n{NAME},y,3\n")

    def careless() -> None:
        columns = "{'a': 'INT', 'b': 'INT'}"
        try:
            duckdb.execute(f"FROM read_csv('{file}', auto_detect=false, header=true, columns={columns})").fetchall()
        except duckdb.Error:
            raise ReadingError("the file cannot be read") from None

    with pytest.raises(ReadingError) as caught:
        careless()
    with pytest.raises(AssertionError):
        check_no_canary(caught.value)


def test_trouble_that_is_not_found_is_not_made_up(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert find_csv_error(tmp_path / "a.csv", 2, ",") is None


HEADERS = [b"sex,AGE,n\n", b"sex,AGE,n\r\n", b"sex,AGE,pid\n", b"\xef\xbb\xbfsex,AGE,n\n", b""]
PIECES = [
    b"f", b"m", b"y", b"01", b",", b"\n", b"\r\n", b"\r", b'"', b'""', b"\x00", b"\xff", b"\xc3", b" ",
    b"3", b"-1", b"1e5", b";",
    NAME.encode(), N.encode(), b"f,y,3\n", b"m,01,4\n", b"#", b"\\", b"PAR1",
]  # fmt: skip


@settings(max_examples=drawn(40))
@given(
    st.sampled_from([COUNTS, ZEROS, MICRO, IDS, CUT]),
    st.sampled_from(HEADERS),
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=25).map(b"".join),
)
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, given_spec: Spec, header: bytes, body: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "data.csv").write_bytes(header + body)
    try:
        read_tables(given_spec, folder)
    except CongenialError as error:
        if header:
            check_no_canary(error)


@settings(max_examples=drawn(20))
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8))
def test_any_damage_to_parquet(tmp_path_factory: pytest.TempPathFactory, place: int, damage: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    file = folder / "data.parquet"
    pq.write_table(pa.table({"sex": ["f", "m", "f", "m"], "AGE": ["y", "y", "01", "01"], "n": [int(N), 2, 3, 4]}), file)
    whole = bytearray(file.read_bytes())
    place %= len(whole)
    whole[place : place + len(damage)] = damage
    file.write_bytes(whole)
    try:
        read_tables(spec("kind: counts, count: n", path="data.parquet"), folder)
    except CongenialError as error:
        check_no_canary(error)
