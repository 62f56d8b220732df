"""table.csv and table.parquet as an analyst reads them: codes stay text, both hold the same."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from congenial.bundle.table_files import header_of
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.law import PublicLaw
from congenial.safe_text import first_hidden
from congenial.schema import Schema
from drawn import drawn
from releases import CASES, Maker
from table_files import csv_of, csv_tables, parquet_of, parquet_tables


@pytest.mark.parametrize("case", CASES)
def test_parquet_equals_csv(case: str, case_folder: Maker) -> None:
    folder = case_folder(case) / "bundle"
    frame = pd.read_parquet(folder / "table.parquet")
    labels = [name for name in frame.columns if frame[name].dtype != np.int64]
    text = pd.read_csv(folder / "table.csv", dtype=dict.fromkeys(labels, str), keep_default_na=False)
    assert list(frame.columns) == list(text.columns)
    assert frame["count"].dtype == np.int64
    assert frame.astype(object).to_numpy().tolist() == text.astype(object).to_numpy().tolist()
    flat = np.concatenate(list(load_bundle(folder).tables.values()))
    assert frame["count"].tolist() == flat.tolist()


def test_codes_are_text_for_readers_that_look_at_quotes(case_folder: Maker) -> None:
    """DuckDB and R's colClasses keep them; Parquet needs nothing said."""
    folder = case_folder("areas") / "bundle"
    header, first, *_ = (folder / "table.csv").read_text(encoding="utf-8").splitlines()
    assert header == '"area","sex","age","count"'
    assert first.startswith('"01","f","010",')
    assert pl.read_parquet(folder / "table.parquet")["area"].unique().sort().to_list() == ["01", "02"]
    frame = pl.read_csv(folder / "table.csv", infer_schema=False).cast({"count": pl.Int64})
    assert frame.equals(pl.read_parquet(folder / "table.parquet"))
    fields = pq.read_schema(folder / "table.parquet")
    assert [str(fields.field(name).type) for name in ("area", "age", "count")] == ["string", "string", "int64"]


WORDS = st.sampled_from(["100%d", "%", 'a "b"']) | st.text(
    st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=8
).filter(lambda text: bool(text.strip()) and not first_hidden(text))


@settings(max_examples=drawn(25), deadline=None)
@given(
    st.lists(WORDS, min_size=1, max_size=4, unique=True),
    st.lists(WORDS, min_size=2, max_size=2, unique=True),
    st.data(),
)
def test_any_labels_and_counts_come_back(labels: list[str], areas: list[str], data: st.DataObject) -> None:
    """Quotes, commas, NULL, NA, blanks, other scripts: CSV and Parquet give them back."""
    schema = Schema({"d": labels})
    law = PublicLaw(
        schema, "double_geometric", (), Areas.collected("a", {area: Constraints.of(schema, []) for area in areas})
    )
    line = st.lists(st.integers(0, 2**53), min_size=len(labels), max_size=len(labels))
    counts: NDArray[np.int64] = np.array([data.draw(line) for _ in areas])
    content = csv_of(law, counts)
    pairs = zip(areas, counts.tolist(), strict=True)
    lines = [["a", "d", "count"], *([a, d, n] for a, row in pairs for d, n in zip(labels, row, strict=True))]
    plain = io.StringIO()
    csv.writer(plain, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(lines)
    assert content.decode() == plain.getvalue()
    assert np.array_equal(csv_tables(law, content), counts)
    parquet = parquet_of(law, counts)
    assert np.array_equal(parquet_tables(law, parquet), counts)
    frame = pq.read_table(io.BytesIO(parquet))
    assert frame.column("a").to_pylist() == [area for area in areas for _ in labels]
    assert frame.column("d").to_pylist() == labels * 2
    assert frame.column("count").to_pylist() == counts.reshape(-1).tolist()


def test_columns_named_count() -> None:
    schema = Schema({"count": ["a"], "released_count": ["b"]})
    law = PublicLaw(schema, "double_geometric", (), Areas.one(Constraints.of(schema, [])))
    assert header_of(law) == ["count", "released_count", "released_released_count"]
    assert csv_tables(law, csv_of(law, np.array([[7]]))).tolist() == [[7]]


@pytest.mark.parametrize("change", [
    ("count", "n"), ('"f","010"', '"f","10"'), ('"f"', '"x"'), ("\n", "\r\n"), (',', ';'),
])  # fmt: skip
def test_other_csv_is_refused(change: tuple[str, str], bundle: Path) -> None:
    law, content = load_bundle(bundle).law, (bundle / "table.csv").read_text(encoding="utf-8")
    forged = content.replace(*change, 1)
    with pytest.raises(BundleError):
        csv_tables(law, forged.encode())


@pytest.mark.parametrize("count", ["1.5", "x", "", "9" * 30, "1e3", " ", "1_0", "+1", "01", " 1"])
def test_counts_that_are_none(count: str, bundle: Path) -> None:
    law, lines = load_bundle(bundle).law, (bundle / "table.csv").read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1].rsplit(",", 1)[0] + f",{count}"
    with pytest.raises(BundleError, match="whole number"):
        csv_tables(law, "\n".join([*lines, ""]).encode())
