"""Time and memory of reading ten million rows of microdata; the file is made here and thrown away.

Run with: python benchmarks/reading.py
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import duckdb

from congenial.reading import read_tables
from congenial.spec import parse_spec

ROWS = """
    SELECT lpad((1 + random() * 99)::INTEGER::VARCHAR, 3, '0') AS county, (1 + random())::TINYINT AS sex,
    (random() * 100)::INTEGER AS age, chr((65 + random() * 6)::INTEGER) AS race,
    random() * 90000 AS income, range AS person
    FROM range({n})
"""
SPEC = """
release: ten-million
data: {{path: rows.{suffix}, kind: microdata}}
unit: {unit}
dimensions:
  sex: {{levels: {{1: female, 2: male}}}}
  race: [A, B, C, D, E, F, G]
  age: {{cut: [0, 5, 18, 30, 65, 85]}}
  income: {{cut: [0, 10000, 20000, 50000]}}
by: {{name: county, levels: [{areas}]}}
budget: {{epsilon: 1}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    n_rows = parser.parse_args().rows
    areas = ", ".join(f"{area:03d}" for area in range(1, 101))
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("parquet", "csv"):
            duckdb.execute(f"COPY ({ROWS.format(n=n_rows)}) TO '{Path(folder) / 'rows'}.{suffix}'")
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"making the files took {megabytes:,.0f} MB")
        for suffix in ("parquet", "csv"):
            for unit in ("{one_row_per: person}", "{id: person}"):
                start = time.perf_counter()
                tables = read_tables(parse_spec(SPEC.format(suffix=suffix, unit=unit, areas=areas)), folder)
                seconds = time.perf_counter() - start
                if sum(table.total for table in tables.values()) != n_rows:
                    raise SystemExit("rows are lost")
                most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                print(f"{suffix:8} {unit:22} {seconds:6.2f} s, at most {most:,.0f} MB so far")


if __name__ == "__main__":
    main()
