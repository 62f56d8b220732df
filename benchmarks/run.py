"""Benchmarks: each a ratio of two things measured in one run on one machine. `make bench` prints them and writes JSON.

Machines are shared and noisy, so only ratios and growth are meant to be compared between runs.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from counties import county_tables
from numpy.typing import NDArray

import congenial as cg
from congenial.examples import P12_INDEX_SET, P12_VOTING_AGES, p12_mechanism, p12_schema, p12_table
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.order import find_order
from congenial.sampling.target_and_system import System
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers
from congenial.study.baselines.topdown_and_leaves_alone import TopDown

Result = dict[str, object]


def seconds(call: Callable[[], object], repeat: int = 5) -> float:
    """Return the best of several timings."""
    call()
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def one_table() -> Result:
    """P12: forward pass and one draw; further draws; against Algorithm 1 in effective draws a second."""
    from arviz_stats.base import array_stats

    target = p12_mechanism().law(p12_table()).target
    engine, rng = exact.elimination_of(target), cg.replay_rng("bench")
    first = seconds(lambda: exact.sample_one(engine, target.centre, rng), repeat=200)
    messages = exact.Messages.of(engine, target.centre)
    further = seconds(lambda: messages.sample(20_000, rng)) / 20_000
    # A chain of Algorithm 1 sticks now and then, so its effective size is taken over several chains.
    n, n_chains = 500_000, 6
    chain_seconds = time.perf_counter()
    chains = [
        independence.sample(target, n, cg.replay_rng(f"chain {i}"), proposal_precision="0.6", index_set=P12_INDEX_SET)
        for i in range(n_chains)
    ]
    chain_seconds = time.perf_counter() - chain_seconds
    cells = np.stack([chain.tables for chain in chains]).astype(float)
    effective = float(np.median([array_stats.ess(cells[:, :, cell]) for cell in range(46)]))
    return {
        "forward and one draw, microseconds": first * 1e6,
        "further draws, microseconds each": further * 1e6,
        "Algorithm 1, effective draws a second": effective / chain_seconds,
        "exact draws a second": 1 / further,
        "ratio exact / Algorithm 1": chain_seconds / effective / further,
    }


def batch() -> Result:
    """100,000 P12 tables of mean population 38, on one core; against the TopDown node and raw noise."""
    engine = exact.elimination_of(p12_mechanism().law(p12_table()).target)
    rng = cg.replay_rng("areas")
    sizes = rng.below(np.full(100_000, 77))
    centres = np.zeros((100_000, 46), np.int64)
    for _ in range(76):
        live = sizes > 0
        np.add.at(centres, (np.flatnonzero(live), rng.below(np.full(int(live.sum()), 46))), 1)
        sizes -= live
    exact.sample_batch(engine, centres[:10], rng)
    start = time.perf_counter()
    exact.sample_batch(engine, centres, rng)
    a_table = (time.perf_counter() - start) / len(centres)
    n_topdown = 300
    noise = cg.noise.DoubleGeometric("1/2")
    mechanism, node, schema = p12_mechanism(), TopDown(), p12_schema()
    areas = [cg.Table(schema, table.reshape(schema.shape)) for table in centres[:n_topdown]]
    problems = [Problem.of(mechanism, mechanism.disclose(area)) for area in areas]
    answers = [noisy_answers(problem, area, 1, rng)[0] for problem, area in zip(problems, areas, strict=True)]
    node.repair(problems[0], answers[0])
    start = time.perf_counter()
    for problem, answer in zip(problems, answers, strict=True):  # conditions and noise are made before the clock starts
        node.repair(problem, answer)
    topdown = (time.perf_counter() - start) / n_topdown
    raw = seconds(lambda: noise.sample(46 * 10_000, rng)) / 10_000
    return {
        "mean population": float(centres.sum(axis=1).mean()),
        "tables a second": 1 / a_table,
        "TopDown node, tables a second": 1 / topdown,
        "ratio exact / TopDown": topdown / a_table,
        "raw exact noise, tables a second": 1 / raw,
        "cost of conditioning over raw noise": a_table / raw,
    }


def p12_rows() -> NDArray[np.float64]:
    """Return the rows of total, women and voting age."""
    schema = p12_schema()
    rows = np.zeros((3, 46))
    rows[0] = 1
    rows[1, schema.cells({"sex": "female"})] = 1
    rows[2, schema.cells({"age": P12_VOTING_AGES})] = 1
    return rows


def growth() -> Result:
    """Time against population, precision, number of cells and width."""
    out: Result = {}
    counts = np.full(46, 1)
    for population in (10**2, 10**4, 10**6, 10**9):
        target = p12_mechanism().law(cg.Table(p12_schema(), (counts * (population // 46)).reshape(2, 23))).target
        engine = exact.elimination_of(target)
        out[f"population {population:,}, ms"] = 1e3 * seconds(
            lambda e=engine, t=target: exact.sample_one(e, t.centre, cg.replay_rng(1))
        )  # type: ignore[misc]
    for precision in ("20", "2", "1/2", "1/20", "1/200"):
        target = p12_mechanism(precision).law(cg.Table(p12_schema(), np.full((2, 23), 10**5))).target
        engine = exact.elimination_of(target)
        out[f"precision {precision}, ms"] = 1e3 * seconds(
            lambda e=engine, t=target: exact.sample_one(e, t.centre, cg.replay_rng(1)), 3
        )  # type: ignore[misc]
    for n in (10, 100, 1000):
        schema = cg.Schema({"c": [str(i) for i in range(n)]})
        target = (
            cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
            .law(cg.Table(schema, np.full(n, 50)))
            .target
        )
        engine = exact.elimination_of(target)
        out[f"{n:,} cells, ms"] = 1e3 * seconds(
            lambda e=engine, t=target: exact.sample_one(e, t.centre, cg.replay_rng(1)), 3
        )  # type: ignore[misc]
    for rows, columns, population in ((2, 23, 256), (2, 23, 10**6), (3, 23, 500)):
        out[f"{rows} x {columns}, both margins, n = {population:,}, ms"] = two_way(rows, columns, population)
    return out


def two_way(rows: int, columns: int, population: int) -> float:
    """Return the milliseconds of one draw of a table with both margins fixed."""
    schema = cg.Schema({"r": [str(i) for i in range(rows)], "c": [str(i) for i in range(columns)]})
    counts = np.full((rows, columns), population // (rows * columns))
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("r"), cg.margin("c")])
    target = mechanism.law(cg.Table(schema, counts)).target
    engine = exact.elimination_of(target)
    return 1e3 * seconds(lambda: exact.sample_one(engine, target.centre, cg.replay_rng(1)), 1)


def counties(folder: Path) -> Result:
    """All US counties of the 2010 Census: total, women and voting age exact, precision 1/2."""
    centres = county_tables(folder)
    rows = p12_rows()
    start = time.perf_counter()
    engine = exact.elimination_of(p12_mechanism().law(cg.Table(p12_schema(), centres[0].reshape(2, 23))).target)
    draws = exact.sample_batch(engine, centres, cg.secure_rng())
    total = time.perf_counter() - start
    if not np.array_equal(draws @ rows.T.astype(np.int64), centres @ rows.T.astype(np.int64)) or draws.min() < 0:
        raise RuntimeError("an invariant does not hold")
    sizes = centres.sum(axis=1)
    order = np.argsort(sizes)

    def cost(table: NDArray[np.int64]) -> float:
        own = exact.elimination_of(p12_mechanism().law(cg.Table(p12_schema(), table.reshape(2, 23))).target)
        return seconds(lambda: exact.sample_one(own, table, cg.replay_rng(1)), 20)

    median, largest = cost(centres[order[len(order) // 2]]), cost(centres[order[-1]])
    return {
        "counties": len(centres),
        "populations": f"{sizes.min():,} to {sizes.max():,}",
        "all counties, seconds": total,
        "every invariant holds": True,
        "largest / median county, time": largest / median,
    }


def planning() -> Result:
    """How long plans take to make."""
    law = p12_mechanism().law(p12_table())
    system = System.of(law.target.constraints, law.target.measured)
    out: Result = {"order of P12, ms": 1e3 * seconds(lambda: find_order(system))}
    schema = p12_schema()
    invariants = [cg.total(), cg.total({"age": P12_VOTING_AGES})]
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=invariants, epsilon="1")
    rng = cg.replay_rng("areas to plan")
    for n in (8_000, 73_000):
        counts = rng.below(np.full((n, 46), 3)) * (rng.below(np.full((n, 1), 5)) > 0)
        tables = {str(number): cg.Table(schema, line.reshape(2, 23)) for number, line in enumerate(counts)}
        start = time.process_time()
        areas = mechanism.disclose(tables)
        disclosed = time.process_time()
        plan = mechanism.plan(areas)
        _ = plan.certificate, plan.samplers
        out[f"{n:,} areas disclosed, CPU s"] = disclosed - start
        out[f"{n:,} areas planned and certified, CPU s"] = time.process_time() - disclosed
        out[f"{n:,} areas, structures"] = float(len(plan.structures))
    return out


def main() -> None:
    """Run everything, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with p12_dec2010_county_long.csv.gz")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results.json"))
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], Result]] = {
        "plan": planning,
        "one table": one_table,
        "batch": batch,
        "growth": growth,
    }
    if arguments.data is not None:
        folder = arguments.data
        parts["counties"] = lambda: counties(folder)
    results: dict[str, Result] = {}
    for name, part in parts.items():
        results[name] = part()
        print(name)
        for what, value in results[name].items():
            print(f"  {what:50} {f'{value:,.4g}' if isinstance(value, float) else value}")
    arguments.out.write_text(json.dumps(results, indent=2), encoding="utf-8")
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
