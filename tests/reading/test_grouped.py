"""Rows that were grouped elsewhere are read as the rows themselves: the same counts, and the same refusals."""

from pathlib import Path

import numpy as np
import pytest

from congenial.errors import ReadingError
from congenial.reading.tables_and_data_checks import GroupedRows, cell_columns, read_counts
from congenial.spec.load import load_spec
from congenial.spec.spec_and_hierarchy import Spec
from engines.spark_data import people


def grouped(spec: Spec, rows: object) -> GroupedRows:
    """Put equal rows together, as Spark does."""
    import pyarrow as pa

    assert isinstance(rows, pa.Table)
    columns = cell_columns(spec)
    found = rows.group_by(columns).aggregate([([], "count_all")])
    names = [f"c{place}" for place in range(len(columns))]
    return GroupedRows("rows", tuple(columns), found.select([*columns, "count_all"]).rename_columns([*names, "n"]))


def test_records_that_were_grouped_give_the_same_counts(tmp_path: Path) -> None:
    from pyarrow import parquet

    data = people(tmp_path / "people")
    spec = load_spec(data.spec("r", "people.parquet"))
    rows = parquet.read_table(data.folder / "people.parquet")
    together = grouped(spec, rows)
    assert together.rows.num_rows < rows.num_rows
    expected = read_counts(spec, data.folder)
    assert np.array_equal(read_counts(spec, data.folder, grouped=together), expected)
    assert expected.sum() == rows.num_rows


def test_a_cell_with_two_equal_rows_of_counts_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa

    text = "release: r\ndataset: d\ndata: {path: x.parquet, kind: counts, count: n, missing_cells: zero}\n"
    (tmp_path / "s.yaml").write_text(text + "dimensions: {sex: [f, m]}\nbudget: {epsilon: 1}\n", encoding="utf-8")
    spec = load_spec(tmp_path / "s.yaml")
    once = pa.table({"sex": ["f", "m"], "n": [3, 4]})
    assert read_counts(spec, tmp_path, grouped=grouped(spec, once)).tolist() == [[3, 4]]
    twice = pa.concat_tables([once, once.slice(0, 1)])
    with pytest.raises(ReadingError, match="more than one row"):
        read_counts(spec, tmp_path, grouped=grouped(spec, twice))
    wrong = pa.table({"sex": ["f", "x"], "n": [3, 4]})
    with pytest.raises(ReadingError, match="not declared levels"):
        read_counts(spec, tmp_path, grouped=grouped(spec, wrong))
