"""Checks on real public tables: `make check-real DATA=folder`. Exits with an error when one fails."""

import argparse
import sys
import time
from pathlib import Path

import anchored
import numpy as np
from answers import answer_small_tables
from areas_together import ask_all_counties
from blocks_plan import plan_blocks
from counties import county_tables
from measured_real import check_measured
from real_tables import BLOCK_SCHEMA, blocks, small_tables
from tree import check_trees
from tree_estimates import estimate_states
from wide_real import wide_tables

import congenial as cg
from congenial.examples import P12_AGES, P12_VOTING_AGES, p12_mechanism, p12_schema
from congenial.sampling.elimination import sampler as exact
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers
from congenial.study.baselines.projection import L2Projection
from congenial.study.baselines.topdown_and_leaves_alone import TopDown


def check_counties(folder: Path) -> bool:
    """Every county: one exact draw, one projection and one TopDown table, each held to every invariant."""
    centres, schema, mechanism = county_tables(folder), p12_schema(), p12_mechanism()
    rng = cg.secure_rng()
    # One plan serves all tables of a structure.
    engine = exact.elimination_of(mechanism.law(cg.Table(schema, centres[0].reshape(schema.shape))).target)
    draws = exact.sample_batch(engine, centres, rng)
    broken = {"conditional": 0, "L2 projection": 0, "TopDown": 0}
    start = time.perf_counter()
    for number, counts in enumerate(centres, 1):
        table = cg.Table(schema, counts.reshape(schema.shape))
        problem = Problem.of(mechanism, mechanism.disclose(table))
        answers = noisy_answers(problem, table, 1, rng)[0]
        broken["conditional"] += not problem.constraints.holds(draws[number - 1])
        projected = L2Projection().repair(problem, answers)
        broken["L2 projection"] += problem.polytope.farthest(projected) > 1e-9 * (1 + np.abs(projected).max())
        whole = TopDown().repair(problem, answers)
        broken["TopDown"] += not problem.constraints.holds(whole) or whole.min() < 0
        if number % 500 == 0:
            print(f"  {number:,} of {len(centres):,} counties, {time.perf_counter() - start:.0f} s", flush=True)
    for method, count in broken.items():
        print(f"{method}: {len(centres):,} counties, {count} with a broken invariant")
    return not any(broken.values())


def compare_small_tables(folder: Path, n_releases: int) -> bool:
    """Twenty P12 tables by every method at equal certified loss; the figures of docs/compare.md."""
    tables, schema = small_tables(folder), p12_schema()
    young = [age for age in P12_AGES if age not in P12_VOTING_AGES]
    groups = [cg.total({"sex": sex, "age": ages}) for sex in ("female", "male") for ages in (P12_VOTING_AGES, young)]
    gaussian = {"rho": "1/2", "noise": "discrete_gaussian"}
    cases = {
        "epsilon 1": (p12_mechanism().invariants, {}, {"epsilon": "1"}, ["conditional", "raw", "l2", "topdown"]),
        "epsilon 1, unweighted": (p12_mechanism().invariants, {"zeros": 1}, {"epsilon": "1"}, ["conditional"]),
        "epsilon 1, group totals": (groups, {}, {"epsilon": "1"}, ["conditional"]),
        "epsilon 1, group totals, unweighted": (groups, {"zeros": 1}, {"epsilon": "1"}, ["conditional"]),
        "epsilon 4": (p12_mechanism().invariants, {}, {"epsilon": "4"}, ["conditional", "l2", "topdown"]),
        "rho 1/2": (p12_mechanism().invariants, {}, {"rho": "1/2"}, ["conditional", "l2", "topdown"]),
        "rho 1/2, Gaussian": (p12_mechanism().invariants, {}, gaussian, ["conditional", "l2", "topdown"]),
    }
    print("twenty P12 tables: L1, L2, mean released for empty cells, mean error of cells above 10")
    is_kept = True
    for name, (invariants, cells, budget, methods) in cases.items():
        mechanism = cg.Mechanism(schema, measure=[cg.cells(**cells)], invariants=invariants, **budget)
        comparison = cg.compare(mechanism, tables, source="public", methods=methods, n_releases=n_releases)
        (truth,) = comparison.truths
        for result in comparison.results:
            (level,) = result.levels
            empty, large = level.bias[truth == 0].mean(), level.bias[truth > 10].mean()
            l1, l2 = np.mean(level.l1), np.mean(level.l2)
            print(f"  {name:36}{result.name:16}{l1:7.1f}{l2:7.1f}{empty:7.2f}{large:+7.2f}", flush=True)
            is_kept &= result.name == "raw" or result.broken == 0
    return is_kept


def add_blocks_up(folder: Path) -> None:
    """Hawaii's blocks as areas by themselves at epsilon 1, totals exact: what cells add up to, and the truth."""
    counts = blocks(folder, "HI")
    truth = counts.sum(axis=0)
    tables = {str(i): cg.Table(BLOCK_SCHEMA, block.reshape(2, 8)) for i, block in enumerate(counts)}
    print(f"{len(counts):,} blocks of Hawaii at epsilon 1, each block's total exact: sums of cells, and the truth")
    for zeros in ("unweighted", None):
        mechanism = cg.Mechanism(BLOCK_SCHEMA, measure=[cg.cells(zeros=zeros)], invariants=[cg.total()], epsilon="1")
        plan = mechanism.plan(mechanism.disclose(tables, area="block"))
        (group,) = plan.law.areas.groups
        drawn = plan.samplers[0].draw_each(counts[group.places], cg.secure_rng()).sum(axis=0)
        small = np.argsort(truth)[:4]
        figures = ", ".join(f"{BLOCK_SCHEMA.cell_name(int(c))} {drawn[c]:,} of {truth[c]:,}" for c in small)
        gap = np.abs(drawn - truth).sum() / truth.sum()
        print(f"  {'weighted' if zeros is None else zeros}: {figures}; all cells off by {gap:.1%}", flush=True)


def main() -> None:
    """Run every check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with p12_dec2010_county_long.csv.gz")
    parser.add_argument("--releases", type=int, default=100)
    options = parser.parse_args()
    answer_small_tables(options.data, max(2, options.releases // 20))  # rows that fall short say so themselves
    is_kept = check_measured(options.data, max(3, options.releases // 5))
    is_kept &= anchored.real_tables(options.data, max(10, 2 * options.releases // 5))
    is_kept &= compare_small_tables(options.data, options.releases)
    is_kept &= wide_tables(options.data, max(1, options.releases // 5))
    add_blocks_up(options.data)
    ask_all_counties(options.data)
    is_kept &= plan_blocks(options.data)
    is_kept &= check_trees(options.data, max(20, options.releases // 5))
    is_kept &= estimate_states(options.data, max(1, options.releases // 50))
    sys.exit(0 if check_counties(options.data) and is_kept else 1)


if __name__ == "__main__":
    main()
