"""Records of several tables, read from rows and from counts: the same records, and the same refusals as elsewhere."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from congenial.errors import ReadingError
from congenial.reading.tables_and_data_checks import RecordCells, read_records
from congenial.spec.load import load_spec, parse_spec
from congenial.workload.records import Records

SPEC = """\
release: tables
data: {path: data.csv, kind: microdata}
unit: {one_row_per: person}
dimensions: {county: [n, s], sex: [f, m], ill: [a, b]}
tables: {one: [county, sex], two: [ill, county]}
budget: {rho: 1}
"""
COUNTS = SPEC.replace("kind: microdata", "kind: counts, count: n").replace("unit: {one_row_per: person}\n", "")
ROWS = ["n,f,a", "n,f,a", "s,m,b", "n,m,a", "s,f,b"]


def read(folder: Path, spec: str, data: str) -> Records:
    (folder / "spec.yaml").write_text(spec, encoding="utf-8")
    (folder / "data.csv").write_text(data, encoding="utf-8")
    return read_records(load_spec(folder / "spec.yaml"), folder)


def rows(*lines: str, head: str = "county,sex,ill") -> str:
    return "\n".join([head, *lines, ""])


def test_rows_and_counts_are_the_same_records(tmp_path: Path) -> None:
    one = read(tmp_path, SPEC, rows(*ROWS))
    counted = [f"{line},{ROWS.count(line)}" for line in dict.fromkeys(ROWS)]
    other = read(tmp_path, COUNTS, rows(*counted, "s,f,a,0", head="county,sex,ill,n"))
    assert one.n_records == other.n_records == 5
    for names in (["county"], ["sex", "ill"], ["county", "sex", "ill"]):
        assert np.array_equal(one.margin(names), other.margin(names))
    assert one.margin(["county", "sex"]).tolist() == [[2, 1], [1, 1]]
    assert repr(one) == "confidential records, 5 of them"


def test_files_of_areas_and_packed_files(tmp_path: Path) -> None:
    by_area = SPEC.replace("county: [n, s], ", "") + "by: {name: county, levels: [n, s]}\n"
    one, other = read(tmp_path, SPEC, rows(*ROWS)), read(tmp_path, by_area, rows(*ROWS))
    assert np.array_equal(one.margin(["county", "ill"]), other.margin(["county", "ill"]))
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(rows(*ROWS).encode()))
    packed = parse_spec(SPEC.replace("data.csv", "data.csv.gz"))
    assert np.array_equal(read_records(packed, tmp_path).margin(["sex"]), one.margin(["sex"]))


def test_many_dimensions_are_never_listed(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(20)]
    dimensions = ", ".join(f"{name}: [a, b, c, d]" for name in names)  # 4^20 cells
    spec = (
        "release: wide\ndata: {path: data.csv, kind: microdata}\nunit: {one_row_per: person}\n"
        f"dimensions: {{{dimensions}}}\nbudget: {{rho: 1}}\n"
        f"tables: {{{', '.join(f't{n}: [d{n}, d{n + 1}]' for n in range(19))}}}\n"
    )
    lines = [",".join("abcd"[(row * 7 + place * row) % 4] for place in range(20)) for row in range(50)]
    records = read(tmp_path, spec, rows(*lines, head=",".join(names)))
    assert records.n_records == 50
    assert records.margin(["d0", "d19"]).sum() == 50
    assert records.margin(["d19"]).tolist() == [sum(line[-1] == label for line in lines) for label in "abcd"]


SECRET = "Ermintrude"
REFUSED = {
    "unknown label": (SPEC, rows(*ROWS, f"n,{SECRET},a"), "sex"),
    "empty": (SPEC, rows(*ROWS, "n,,a"), "sex"),
    "no rows": (SPEC, rows(), "no rows|empty"),
    "no column": (SPEC, rows("n,f", head="county,sex"), "ill"),
    "twice": (COUNTS, rows("n,f,a,3", "n,f,a,4", head="county,sex,ill,n"), "more than one row of counts"),
    "negative": (COUNTS, rows("n,f,a,-71828182", head="county,sex,ill,n"), "'n' has"),
    "a fraction": (COUNTS, rows("n,f,a,71828182.5", head="county,sex,ill,n"), "'n' has"),
    "text": (COUNTS, rows(f"n,f,a,{SECRET}", head="county,sex,ill,n"), "'n' has"),
    "too large": (COUNTS, rows("n,f,a,71828182000000000000", head="county,sex,ill,n"), "'n' has"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_table_is_refused_without_a_value(name: str, tmp_path: Path) -> None:
    spec, data, words = REFUSED[name]
    with pytest.raises(ReadingError, match=words) as refused:
        read(tmp_path, spec, data)
    assert SECRET not in str(refused.value)
    assert "71828182" not in str(refused.value)


def test_another_spec_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(rows(*ROWS), encoding="utf-8")
    spec = parse_spec(SPEC.replace("tables: {one: [county, sex], two: [ill, county]}\n", ""))
    with pytest.raises(ReadingError, match="names no `tables:`"):
        read_records(spec, tmp_path)


def test_many_parts_are_put_together() -> None:
    import pyarrow as pa

    kept, rng = RecordCells(), np.random.Generator(np.random.PCG64(1))
    parts = [rng.integers(0, 30, 20) for _ in range(100)]
    for part in parts:
        kept.take(pa.record_batch({"cell": pa.array(part)}))
    cells, counts = kept.together
    assert np.array_equal(np.bincount(np.concatenate(parts), minlength=30)[cells], counts)
    assert kept.n_rows == 2000
