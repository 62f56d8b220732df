"""Measured releases of real public tables: errors, intervals and sums over areas, beside conditional and TopDown.

Called by `make check-real DATA=folder`; by itself: python benchmarks/measured_real.py --data folder. Every metric is
printed, with its standard error over releases, and in which of them the measured table is worse.
"""

import argparse
import sys
from math import exp
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray
from real_tables import small_tables

import congenial as cg
from congenial.examples import P12_AGES, P12_VOTING_AGES, p12_mechanism, p12_schema, p12_table
from congenial.sampling.lattice_noise.statistic_law import statistic_law
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers, repair_all, without_conditions
from congenial.study.baselines.topdown_and_leaves_alone import TopDown
from congenial.study.equal_loss import by_method
from congenial.study.metrics import LevelTally, Metric
from congenial.study.paper.exhibits_table_1_and_figures import PrintedTable

GAUSSIAN = {"noise": "discrete_gaussian"}
BUDGETS: dict[str, dict[str, str]] = {
    **{f"epsilon {epsilon}": {"epsilon": epsilon} for epsilon in ("1/2", "1", "2", "4")},
    **{f"rho {rho}": {"rho": rho, **GAUSSIAN} for rho in ("1/10", "1/2", "1", "2")},
}
MOST_L1 = {"epsilon 1/2": 127.0, "epsilon 1": 71.0, "epsilon 2": 34.0, "epsilon 4": 11.0, "rho 1/2": 44.5}
"""What the mean L1 distance of the table from the truth may be at most."""
HALF_WIDTHS = {"1/2": (26, 9), "1": (13, 4), "2": (6, 2), "4": (3, 1)}
"""By epsilon, of 90 % intervals of people of 65 and more, and of a cell."""
ELDERLY = P12_AGES[-6:]
N_AREAS = 600
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def mechanism_of(budget: dict[str, str], method: str = "measured") -> cg.Mechanism:
    """Return P12 with total, women and voting age exact."""
    return cg.Mechanism(
        p12_schema(), measure=[cg.cells()], invariants=p12_mechanism().invariants, method=method, **budget
    )


def compare_budgets(folder: Path, n_releases: int) -> bool:
    """Twenty P12 tables by each method at each budget, every metric."""
    tables, has_passed = small_tables(folder), True
    methods = ["conditional", "measured", "topdown"]
    for name, budget in BUDGETS.items():
        comparison = cg.compare(mechanism_of(budget), tables, source="public", methods=methods, n_releases=n_releases)
        print(f"\n{name}: {len(tables)} tables, {n_releases} releases each\n{comparison}", flush=True)
        has_passed &= all(result.broken == 0 for result in comparison.results)
    return has_passed


def check_distances(folder: Path, n_releases: int) -> bool:
    """The mean L1 distance of the table alone, of more releases: they are quick, and standard errors small."""
    tables, has_passed = small_tables(folder), True
    print(f"\nL1 of the measured table: {len(tables)} tables, {n_releases} releases each")
    for name, most in MOST_L1.items():
        mechanism = mechanism_of(BUDGETS[name])
        comparison = cg.compare(mechanism, tables, source="public", methods=["measured"], n_releases=n_releases)
        distance = comparison.results[0].levels[0].metrics[0]
        is_near = distance.value <= most
        has_passed &= is_near
        print(f"  {name}: {distance.text}, goal at most {most}: {'kept' if is_near else 'MISSED'}", flush=True)
    return has_passed


# Intervals without a prior: the law of a sum of the noise by convolution, apart from the package.


def law_of_sum(base: float, counts: tuple[int, int]) -> Floats:
    """Return P(q(u) = k) for k = -n .. n, where q adds up so many cells of adult women and of adult men.

    Given total, women and voting age, one number is free: what adult women gain, adult men and girls lose, and boys
    gain. Each group's cells have that sum.
    """
    reach = 400
    cell = base ** np.abs(np.arange(-reach, reach + 1))

    def power(n: int) -> Floats:
        out = np.zeros(2 * reach + 1)
        out[reach] = 1.0
        for _ in range(n):
            out = np.convolve(out, cell)[reach : 3 * reach + 1]
        return out / out.sum()

    n_adults, n_young = len(P12_VOTING_AGES), len(P12_AGES) - len(P12_VOTING_AGES)
    free = power(n_adults) ** 2 * power(n_young) ** 2
    parts = [(power(n), power(n_adults - n)) for n in counts]
    law = np.zeros(4 * reach + 1)
    for k in range(-60 if base < 0.7 else -150, 61 if base < 0.7 else 151):
        each = []
        for (inside, outside), sign in zip(parts, (1, -1), strict=True):
            given = np.zeros(2 * reach + 1)
            places = np.arange(-reach, reach + 1)
            rest = sign * k - places
            is_near = np.abs(rest) <= reach
            given[is_near] = inside[is_near] * outside[rest[is_near] + reach]
            each.append(given / given.sum())
        law += free[k + reach] * np.convolve(*each)
    return law / law.sum()


def half_width(law: Floats, level: float) -> tuple[int, float]:
    """Return the smallest h with P(|q(u)| <= h) at least the level, and that probability."""
    middle = len(law) // 2
    inside = law[middle] + np.concatenate([[0.0], np.cumsum(law[middle + 1 :] + law[middle - 1 :: -1])])
    h = int(np.argmax(inside >= level))
    return h, float(inside[h])


def check_half_widths() -> bool:
    """Half-widths of 90 % intervals at each epsilon, by convolution here and by the law that readers are told."""
    has_passed, table = True, p12_table()
    elderly, one_cell = np.zeros(46, np.int64), np.eye(46, dtype=np.int64)[10]
    elderly[p12_schema().cells({"age": ELDERLY})] = 1
    print("\nhalf-widths of 90 % intervals without a prior, with what they cover: 65+, a cell")
    for epsilon, expected in HALF_WIDTHS.items():
        mechanism = mechanism_of({"epsilon": epsilon})
        plan = mechanism.plan(mechanism.disclose(table))
        base = exp(-float(plan.law.queries[0].precision))
        here = [half_width(law_of_sum(base, counts), 0.9) for counts in ((len(ELDERLY),) * 2, (1, 0))]
        (kind,) = plan.drawing.kinds
        laws = [statistic_law(kind.choice.system, line.tolist()) for line in (elderly, one_cell)]
        told = [law.half_width(0.9) for law in laws]
        is_met = tuple(h for h, _ in here) == expected and [h for h, _ in told] == [h for h, _ in here]
        has_passed &= is_met
        shown = [
            "+-{} ({:.4f})".format(*one) + ", told +-{} ({:.4f})".format(*other)
            for one, other in zip(here, told, strict=True)
        ]
        print(f"  epsilon {epsilon}: {'; '.join(shown)}: {'as expected' if is_met else 'NOT AS EXPECTED'}")
    return has_passed


# Sums over many areas: counties' urban and rural parts.


def county_parts(folder: Path) -> Ints:
    """Read 600 urban and rural parts of counties with 100 to 4,000 people (part, cell), female first, at even steps."""
    path = str(folder / "p12_dec2010_hierarchy.parquet")
    names = [column[0] for column in duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [path]).fetchall()]
    cells = [name for sex in ("f_", "m_") for name in names if name.startswith(sex)]
    lines = duckdb.execute(
        f"SELECT {', '.join(cells)} FROM read_parquet(?) WHERE level = 'county_part' ORDER BY geo_id", [path]
    ).fetchall()
    counts = np.array(lines, np.int64)
    some = counts[(counts.sum(axis=1) >= 100) & (counts.sum(axis=1) <= 4_000)]
    return some[np.linspace(0, len(some) - 1, N_AREAS).astype(np.int64)]


def sum_over_areas(folder: Path, n_releases: int) -> bool:
    """One release of 600 areas at a time, by each method: the bias of their sums is no larger than TopDown's."""
    counts, has_passed = county_parts(folder), True
    schema, rng = p12_schema(), cg.secure_rng()
    tables = {f"{number:04}": cg.Table(schema, line.reshape(schema.shape)) for number, line in enumerate(counts)}
    for name in ("epsilon 1/2", "epsilon 1", "rho 1/2"):
        measured = mechanism_of(BUDGETS[name])
        plan = measured.plan(measured.disclose(tables))
        stated = by_method(measured, plan.certificate, "conditional")
        conditional = stated.plan(stated.disclose(tables))
        plain = without_conditions(measured, plan.certificate).law.measured
        problems = [Problem(measured.disclose(table), plain) for table in tables.values()]
        names = ("conditional", "measured", "measurements", "TopDown")
        tallies = {method: LevelTally(counts, n_releases, schema) for method in names}
        for number in range(n_releases):
            measurements = plan.draw(counts, rng)
            raw = [
                noisy_answers(problem, table, 1, rng) for problem, table in zip(problems, tables.values(), strict=True)
            ]
            topdown = np.array([repair_all(TopDown(), *one)[0] for one in zip(problems, raw, strict=True)])
            decided = plan.decide(measurements)[0]
            drawn = (conditional.draw(counts, rng)[0], decided, measurements[0], topdown)
            for tally, released in zip(tallies.values(), drawn, strict=True):
                tally.add(released[None], slice(None), number)
        metrics = {method: tally.result.metrics for method, tally in tallies.items()}
        print(f"\n{name}: {len(counts)} areas of 100 to 4,000 people, {n_releases} releases")
        heads = ("metric", *metrics)
        lines = [(line[0].name, *(metric.text for metric in line)) for line in zip(*metrics.values(), strict=True)]
        print(PrintedTable("with standard errors", heads, tuple(lines)).text, flush=True)
        has_passed &= _is_no_more_biased(metrics["measured"], metrics["TopDown"])
    return has_passed


def _is_no_more_biased(measured: tuple[Metric, ...], topdown: tuple[Metric, ...]) -> bool:
    is_worse = [one.name for one, other in zip(measured, topdown, strict=True) if one.is_worse_than(other)]
    print(f"  measured is worse than TopDown by more than two standard errors in: {'; '.join(is_worse) or 'nothing'}")
    return not any("size of bias" in name for name in is_worse)


def check_measured(folder: Path, n_releases: int) -> bool:
    """Run every check of measured releases."""
    has_passed = check_half_widths()
    has_passed &= check_distances(folder, 20 * n_releases)
    has_passed &= compare_budgets(folder, n_releases)
    return sum_over_areas(folder, 5 * n_releases) and has_passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with p12_demo20_paper_size.csv")
    parser.add_argument("--releases", type=int, default=20)
    options = parser.parse_args()
    sys.exit(0 if check_measured(options.data, options.releases) else 1)


if __name__ == "__main__":
    main()
