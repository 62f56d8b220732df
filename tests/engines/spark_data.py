"""Small simulated data for Spark: the same rows as a file for one machine and as a folder of Parquet for many."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from congenial.ledger import Ledger, open_ledger

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AREAS = """\
release: RELEASE
dataset: people
data: {path: PATH, kind: microdata}
dimensions:
  sex: [f, m]
  age: {cut: [18, 65], below: true}
unit: {one_row_per: person}
by: {name: county, levels: {LEVELS}}
invariants: [total, margin of sex]
budget: {epsilon: 1}
outputs: [csv, parquet]
"""
TREE = """\
release: RELEASE
dataset: blocks
data: {path: PATH, kind: counts, count: n, missing_cells: zero}
dimensions: {sex: [f, m], age: [young, old]}
hierarchy:
  file: blocks.csv
  leaf: block
  levels: {state: {prefix: 1}, county: {prefix: 3}, tract: {prefix: 5}}
invariants:
  - total
  - {total: all, at: tract}
method: conditional
budget: {rho: 1}
outputs: [csv, parquet]
"""


@dataclass(frozen=True)
class Data:
    """A folder with a spec for each engine; `where` says what the data are called in them."""

    folder: Path
    text: str
    dataset: str

    def spec(self, release: str, path: str) -> Path:
        """Write a spec, and return its file."""
        levels = ", ".join(f'"{code:03}": C{code}' for code in range(32))
        file = self.folder / f"{release}-{path.replace('/', '-').replace(':', '-')}.yaml"
        text = self.text.replace("{LEVELS}", "{" + levels + "}").replace("RELEASE", release)
        file.write_text(text.replace("PATH", f'"{path}"'), encoding="utf-8")
        return file

    def ledger(self, name: str, cap: str = "9") -> Ledger:
        """Return a new ledger, whose beginning is that of all the others."""
        ledger = open_ledger(self.folder / f"{name}.db", create=True)
        currency = "epsilon" if self.dataset == "people" else "rho"
        ledger.create_dataset(self.dataset, neighbours="bounded", who="Ada", now=NOW, **{currency: cap})
        return ledger


def people(folder: Path) -> Data:
    """Persons in 32 counties, one of them empty; `people/county=003/...` and `people.parquet` hold the same rows."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    dice = np.random.default_rng(11)
    counties = [f"{code:03}" for code in dice.integers(1, 32, 1500).tolist()]
    sexes, ages = dice.choice(["f", "m"], 1500).tolist(), dice.integers(0, 95, 1500)
    rows = pa.table({"county": counties, "sex": sexes, "age": ages})
    parquet.write_table(rows, folder / "people.parquet")
    parquet.write_to_dataset(rows, folder / "people", partition_cols=["county"])
    return Data(folder, AREAS, "people")


def blocks(folder: Path) -> Data:
    """Counts of 240 blocks in 120 tracts of 8 counties of 2 states."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir()
    dice = np.random.default_rng(12)
    codes = [
        f"{state}{county:02}{tract:02}{block}"
        for state in (1, 2)
        for county in range(4)
        for tract in range(15)
        for block in "ab"
    ]
    (folder / "blocks.csv").write_text("block\n" + "\n".join(codes) + "\n", encoding="utf-8")
    cells = [(code, sex, age) for code in codes for sex in ("f", "m") for age in ("young", "old")]
    chosen = [cell for cell in cells if dice.random() < 0.8]
    columns = {name: [cell[place] for cell in chosen] for place, name in enumerate(("block", "sex", "age"))}
    rows = pa.table({**columns, "n": dice.poisson(6, len(chosen))})
    parquet.write_table(rows, folder / "counts.parquet")
    (folder / "counts").mkdir()
    for part in range(3):
        parquet.write_table(rows.slice(part * 300, 300 if part < 2 else None), folder / "counts" / f"{part}.parquet")
    return Data(folder, TREE, "blocks")
