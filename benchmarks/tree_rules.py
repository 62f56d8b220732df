"""Rules for trees beside each other, on the same measurements of real blocks: *gls* and *leaf-prior*.

    python benchmarks/tree.py --leaf-prior --data FOLDER [--releases 20] [--large]

Rhode Island and Hawaii, 50,197 blocks x 16 cells: errors of cells and totals by level, sums of 40 blocks, zeros kept,
bias by true count; a goal that is missed is an error. Both rules see the same measurements, so the difference is
paired: its mean over releases with its standard error. `--large` says how long 401,576 blocks take, and what 8.2
million would.
"""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tables import BLOCK_SCHEMA
from tree import CASES, LEVELS, Case, blocks, repeated

import congenial as cg
from congenial.decided_tables import tree_measurements
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.rules import gls, leaf_prior
from congenial.rules.tree_measurements import TreeMeasurements
from congenial.tree.tree_and_zeros import Tree

Ints = NDArray[np.int64]

GOALS = {
    "rho 2.56, 2020 shares": {"RI": (0.455, 0.93), "HI": (0.48, 0.906)},
    "rho 2.56, default shares": {},
    "rho .25, 2020 shares": {"RI": (0.92, 0.93), "HI": (0.99, 0.920)},
    "epsilon 4, equal shares": {"RI": (0.475, 0.94), "HI": (0.51, 0.921)},
    "epsilon 16, equal shares": {},
    "rho 2.56, 2020 shares, every unit's total exact": {"RI": (0.385, 0.94)},
    "rho 2.56, 2020 shares, totals exact down to block groups": {},
}
"""By case and state: what the mean absolute error of a block's cell may be at most, and the zeros kept at least."""

BANDS = ((0, 0), (1, 4), (5, 19), (20, None))
N_TOGETHER = 40
NATION, COPIES = 8_200_000, 8
MOST_MICROSECONDS = {False: 110.0, True: 220.0}  # a block, without and with every unit's total exact


def metrics(table: Ints, truth: Ints, order: Ints) -> dict[str, float]:
    """Return all figures of the leaves of one release."""
    gaps = table - truth
    cuts = np.arange(0, len(truth), N_TOGETHER)
    out = {
        "cell": float(np.abs(gaps).mean()),
        "total": float(np.abs(gaps.sum(axis=1)).mean()),
        f"{N_TOGETHER} adjacent": float(np.abs(np.add.reduceat(gaps, cuts, axis=0)).mean()),
        f"{N_TOGETHER} random": float(np.abs(np.add.reduceat(gaps[order], cuts, axis=0)).mean()),
        "RMSE": float(np.sqrt((gaps**2).mean())),
        "zeros kept": float((table == 0)[truth == 0].mean()),
    }
    for low, high in BANDS:
        in_band = (truth >= low) & (truth <= (truth.max() if high is None else high))
        name = f"{low}+" if high is None else f"{low}-{high}" if high > low else str(low)
        out[f"bias of {name}"] = float(gaps[in_band].mean())
    return out


def plan_of(tree: Tree, leaves: Ints, case: Case) -> Plan:
    """Return the plan of a case."""
    invariants = {case.exact: [cg.total()]}
    hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=invariants, shares=case.shares, **case.budget)
    return hierarchy.plan(hierarchy.disclose(leaves))


def decided(plan: Plan, measurements: tuple[Ints, ...]) -> tuple[TreeMeasurements, tuple[Ints, ...]]:
    """Return measurements as rules take them, and the tables of *gls*."""
    return tree_measurements(plan.law, measurements), plan.decide(measurements)


def compare_rules(folder: Path, n: int, *, is_large: bool) -> bool:
    """Print figures of both rules for both states; return whether all goals are met."""
    has_passed = True
    for name, goals in GOALS.items():
        for state in ("RI", "HI"):
            codes, counts = blocks(folder, (state, state))
            tree = Tree.of_prefixes(codes, LEVELS, "block")
            leaves = tree.in_order(counts)
            truth, order = tree.summed(leaves)[-1], np.random.default_rng(0).permutation(len(leaves))
            plan = plan_of(tree, leaves, CASES[name])
            runs: dict[str, list[dict[str, float]]] = {"gls": [], "leaf-prior": []}
            for number in range(n):
                measurements = plan.draw(leaves, cg.replay_rng(f"rules {state} {name} {number}"))
                data, tables = decided(plan, measurements)
                other = leaf_prior.leaves_by_prior(data, tables, leaf_prior.learn(data, tables))
                assert np.array_equal(np.add.reduceat(other, data.starts[-1][:-1], axis=0), tables[-2])
                assert other.min() >= 0
                if CASES[name].exact == "block":
                    assert np.array_equal(other.sum(axis=1), truth.sum(axis=1))
                runs["gls"].append(metrics(tables[-1], truth, order))
                runs["leaf-prior"].append(metrics(other, truth, order))
            print(f"\n{state}, {name}, {n} releases: gls, leaf-prior, difference (its standard error)")
            for metric in runs["gls"][0]:
                ours, theirs = (np.array([run[metric] for run in runs[rule]]) for rule in ("leaf-prior", "gls"))
                doubt = (ours - theirs).std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
                print(
                    f"  {metric}: {theirs.mean():.3f}, {ours.mean():.3f}, {(ours - theirs).mean():+.3f} ({doubt:.3f})",
                    flush=True,
                )
            if state in goals:
                cell, zeros = (float(np.mean([run[m] for run in runs["leaf-prior"]])) for m in ("cell", "zeros kept"))
                is_near = cell <= goals[state][0] and zeros >= goals[state][1]
                has_passed &= is_near
                print(f"  goal {goals[state][0]} and {goals[state][1]}: {'kept' if is_near else 'MISSED'}", flush=True)
    return (time_rules(folder) if is_large else True) and has_passed


def time_rules(folder: Path) -> bool:
    """Print how long the trees of both states take, planted side by side, by both rules; extrapolated to a nation."""
    codes, counts = blocks(folder, ("RI", "HI"))
    tree, leaves = repeated(codes, counts, COPIES)
    has_passed = True
    for exact in (False, True):
        name = "rho 2.56, 2020 shares, every unit's total exact" if exact else "rho 2.56, 2020 shares"
        plan = plan_of(tree, leaves, CASES[name])
        data, tables = decided(plan, plan.draw(leaves, cg.replay_rng("times")))
        top = tables[0]
        start = time.process_time()
        gls.decide(data, lambda _, top=top: top)
        middle = time.process_time()
        leaf_prior.decide(data, lambda _, top=top: top)
        of_gls, of_both = middle - start, time.process_time() - middle
        each = 1e6 * of_both / len(leaves)
        print(
            f"{len(leaves):,} blocks, {name}: gls {of_gls:.1f}, leaf-prior {of_both:.1f} CPU seconds, {each:.1f} us a"
            f" block; {NATION:,} blocks would take {each * NATION / 6e7:.1f} CPU minutes (extrapolated)",
            flush=True,
        )
        has_passed &= each <= MOST_MICROSECONDS[exact]
    return has_passed
