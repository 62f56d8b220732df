"""Wide real tables for `check_real`: both margins exact, and areas whose cells add up to measured sums."""

import time
from pathlib import Path

import duckdb
import numpy as np
from counties import county_tables

import congenial as cg
from congenial.sampling.sampler_and_registry import sampler_of
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejectionAt

RHO = {"rho": "1/2", "noise": "discrete_gaussian"}


def adult(folder: Path) -> cg.Table:
    """Read UCI Adult, education by occupation."""
    records = duckdb.execute(
        "SELECT education, occupation, count(*) FROM read_parquet(?) GROUP BY ALL",
        [str(folder / "micro_adult_uci.parquet")],
    ).fetchall()
    rows, columns = (sorted({str(line[side]) for line in records}) for side in (0, 1))
    counts = np.zeros((len(rows), len(columns)), np.int64)
    for row, column, n in records:
        counts[rows.index(str(row)), columns.index(str(column))] = n
    return cg.Table(cg.Schema({"education": rows, "occupation": columns}), counts)


def sixty_counties(folder: Path) -> cg.Table:
    """Read women by age in sixty counties of middling size."""
    tables = county_tables(folder)
    order = np.argsort(tables.sum(axis=1))
    middle = tables[np.sort(order[len(order) // 2 - 30 : len(order) // 2 + 30])][:, :23]
    schema = cg.Schema({"county": [f"{i:02}" for i in range(60)], "age": [f"{j:02}" for j in range(23)]})
    return cg.Table(schema, middle)


def wide_tables(folder: Path, n_releases: int) -> bool:
    """Draw them, and hold them against projection and TopDown at equal rho."""
    cases = {
        "Adult, both margins exact": (adult(folder), [cg.cells()], [cg.margin("education"), cg.margin("occupation")]),
        "60 counties, totals exact, ages of all measured": (
            sixty_counties(folder),
            [cg.cells(portion=1), cg.margin("age", portion=1)],
            [cg.margin("county")],
        ),
    }
    is_kept = True
    for name, (table, measure, invariants) in cases.items():
        mechanism = cg.Mechanism(table.schema, measure=measure, invariants=invariants, **RHO)
        law = mechanism.law(table)
        drawer = sampler_of(law.target).at(table.counts)
        assert isinstance(drawer, TwoWayRejectionAt)
        start = time.process_time()
        drawer.sample(1, cg.secure_rng())
        first = time.process_time()
        drawer.sample(50, cg.secure_rng())
        cost = mechanism.plan(mechanism.disclose(table)).certificate
        print(f"{name}: {' x '.join(map(str, table.schema.shape))} cells, {cost.kind}, k = {cost.k}")
        print(
            f"  acceptance {drawer.acceptance:.2f}, first draw {first - start:.2f} CPU s, further ones"
            f" {(time.process_time() - first) / 50:.4f}"
        )
        methods = ["conditional", "l2", "topdown"]
        comparison = cg.compare(mechanism, table, source="public", methods=methods, n_releases=n_releases)
        for result in comparison.results:
            (level,) = result.levels
            print(f"  {result.name:16} L1 {np.mean(level.l1):8.1f}  L2 {np.mean(level.l2):7.2f}", flush=True)
            is_kept &= result.broken == 0
    return is_kept
