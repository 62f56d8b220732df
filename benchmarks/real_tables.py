"""Real public tables for `check_real`: twenty small P12 tables, and census blocks."""

import csv
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

import congenial as cg
from congenial.examples import p12_schema

RACES = ["hisp", "white", "black", "aian", "asian", "nhpi", "other", "two"]
BLOCK_SCHEMA = cg.Schema({"age": ["u18", "v18"], "race": RACES})


def small_tables(folder: Path) -> list[cg.Table]:
    """Read twenty P12 tables of about 240 people, female first."""
    schema = p12_schema()
    with (folder / "p12_demo20_paper_size.csv").open(encoding="utf-8") as lines:
        return [
            cg.Table(schema, [[int(n) for name, n in row.items() if name.startswith(sex)] for sex in ("f_", "m_")])
            for row in csv.DictReader(lines)
        ]


def blocks(folder: Path, state: str) -> NDArray[np.int64]:
    """Read the 2010 counts of a state's blocks (block, cell)."""
    columns = ", ".join(f"{age}_{race}" for age in ("u18", "v18") for race in RACES)
    rows = duckdb.execute(
        f"SELECT {columns} FROM read_parquet(?) WHERE census = 2010 AND state = ? ORDER BY geo_id",
        [str(folder / "pl94_block_hi_ri.parquet"), state],
    )
    return np.array(rows.fetchall(), np.int64)
