"""Estimates of real trees: error by level beside the release and TopDown, coverage, CPU time; part of check_real.py.

python benchmarks/tree_estimates.py --data FOLDER [--releases 2]
"""

import argparse
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from real_tables import BLOCK_SCHEMA
from tree import CENSUS, LEVELS, blocks

import congenial as cg
from congenial.inference.tree.chain import ends
from congenial.inference.tree.estimate_and_files import LevelEstimate, TreeEstimate, estimate_tree
from congenial.randomness import TreeStreams
from congenial.study.baselines.topdown_and_leaves_alone import TopDownTree

Floats = NDArray[np.float64]
N_MINORS = 8  # the first cells of a table are those of minors
MOST_MILLISECONDS = 3.0
SIZES = (0, 1, 5, 20, 50, 200)  # released totals, the last without an end


def estimate_states(folder: Path, n_releases: int) -> bool:
    """Print the figures of docs/estimates.md; return whether blocks are nearer than released and than TopDown."""
    is_kept = [estimate_state(folder, state, n_releases) for state in ("RI", "HI")]
    return all(is_kept)


def estimate_state(folder: Path, state: str, n_releases: int) -> bool:
    """Release a state at rho 2.56 with the 2020 shares, and estimate it from the release alone."""
    codes, counts = blocks(folder, (state, state))
    tree = cg.Tree.of_prefixes(codes, LEVELS, "block")
    hierarchy = cg.Hierarchy(
        tree, BLOCK_SCHEMA, invariants=[cg.total()], rho="2.56", shares=CENSUS, method="conditional"
    )
    leaves = tree.in_order(counts)
    plan, truth = hierarchy.plan(hierarchy.disclose(leaves)), tree.summed(leaves)
    errors: dict[str, list[Floats]] = {"release": [], "TopDown": [], "median": [], "mean": [], "integers": []}
    covered: list[list[tuple[float, float]]] = []
    by_size = {"block": np.zeros((len(SIZES), 2)), "group": np.zeros((len(SIZES), 2))}
    empty, alike = np.zeros(2, np.int64), np.zeros(2, np.int64)
    seconds, warnings_seen = [], set()
    for number in range(n_releases):
        rng = cg.replay_rng(f"estimate {state} {number}")
        released = plan.draw(leaves, TreeStreams.simulated(rng))
        errors["release"].append(_errors(released, truth))
        errors["TopDown"].append(_errors(TopDownTree().release(plan, leaves, rng), truth))
        start = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimate = estimate_tree(plan.law, released, rng=rng)
        levels = [estimate.level(name) for name in tree.levels]
        seconds.append(time.process_time() - start)
        warnings_seen |= {str(warning.message) for warning in caught}
        for name in ("median", "mean", "integers"):
            errors[name].append(_errors([getattr(level, name)[:, :-1] for level in levels], truth, levels, name))
        covered.append(_coverage(estimate, truth))
        for name in by_size:
            by_size[name] += _by_size(levels[tree.level_of(name)], truth[tree.level_of(name)].sum(axis=1))
        above = [(level.low[:, -1], real.sum(axis=1)) for level, real in zip(levels[2:4], truth[2:4], strict=True)]
        empty += np.sum([((real == 0).sum(), ((real == 0) & (low > 0)).sum()) for low, real in above], axis=0)
        is_alike = np.ptp(estimate.draws.leaves, axis=0) == 0
        alike += is_alike.sum(), (is_alike & (estimate.draws.leaves[0] != truth[-1])).sum()
    print(
        f"{state}, rho 2.56, 2020 shares, {len(leaves):,} blocks, {n_releases} releases: mean error of a cell (total)"
    )
    print(f"  {'':10}" + "".join(f"{name:>18}" for name in tree.levels))
    means = {name: np.mean(estimate, axis=0) for name, estimate in errors.items()}
    for name, both in means.items():
        print(f"  {name:10}" + "".join(f"{cell:10.3f} ({total:5.2f})" for cell, total in both), flush=True)
    print("  90 % intervals cover (standard error): " + ", ".join(_covered_text(covered)))
    for name, counted in by_size.items():
        print(f"  totals of {name} units by released size: " + ", ".join(_size_texts(counted)))
    print(f"  tracts and groups without people: {empty[0]}, of which {empty[1]} have an interval above 0")
    print(f"  block cells with draws all alike: {alike[0]:,}, of which {alike[1]:,} have another value")
    spent = 1000 * float(np.mean(seconds)) / len(leaves)
    print(f"  {spent:.2f} CPU ms a block")
    for text in sorted(warnings_seen):
        print(f"  said: {text}")
    block = {name: both[-1, 0] for name, both in means.items()}
    is_kept = block["median"] < min(block["release"], block["TopDown"]) and spent <= MOST_MILLISECONDS
    print(
        f"  blocks nearer than released and than TopDown, at most 3 ms a block: {'yes' if is_kept else 'NO'}",
        flush=True,
    )
    return bool(is_kept)


def _errors(tables: object, truth: object, levels: object = None, name: str = "") -> Floats:
    """Return mean absolute errors (level, 2) of cells and of totals; totals have estimates of their own."""
    out = []
    for place, (released, real) in enumerate(zip(tables, truth, strict=True)):  # type: ignore[call-overload]
        totals = released.sum(axis=1) if levels is None else getattr(levels[place], name)[:, -1]  # type: ignore[index]
        out.append((np.abs(released - real).mean(), np.abs(totals - real.sum(axis=1)).mean()))
    return np.array(out)


def _coverage(estimate: TreeEstimate, truth: tuple[NDArray[np.int64], ...]) -> list[tuple[float, float]]:
    """Return coverage and its standard error, clustered by tract: block cells and totals, tract totals, shares."""
    tree = estimate.law.tree
    group = tree.parents[2][tree.parents[3]]
    out = []
    block, tract = estimate.level("block"), estimate.level("tract")
    real = np.concatenate([truth[-1], truth[-1].sum(axis=1, keepdims=True)], axis=1)
    holds = (block.low <= real) & (real <= block.high)
    for lines in (holds[:, :-1].mean(axis=1), holds[:, -1].astype(float)):
        sizes = np.bincount(group)
        means = np.bincount(group, lines) / sizes
        out.append(
            (float(lines.mean()), float((sizes * (means - lines.mean())).std() / sizes.mean() / len(sizes) ** 0.5))
        )
    total = truth[2].sum(axis=1)
    holds = (tract.low[:, -1] <= total) & (total <= tract.high[:, -1])
    out.append(_with_error(holds))
    some = np.flatnonzero(total > 0)
    for level, units in ((2, some), (4, np.flatnonzero(truth[4].sum(axis=1) >= 20))):
        tables = estimate.draws.of_level(level)[:, units]
        shares = tables[:, :, :N_MINORS].sum(axis=2) / np.maximum(tables.sum(axis=2), 1)
        low, _, high = ends(np.sort(shares, axis=0), 0.9)
        true_share = truth[level][units, :N_MINORS].sum(axis=1) / truth[level][units].sum(axis=1)
        out.append(_with_error((low <= true_share) & (true_share <= high)))
    return out


def _by_size(level: LevelEstimate, total: NDArray[np.int64]) -> Floats:
    """Return how many totals have a released size, and how many of them are covered (size, 2)."""
    released, out = level.released[:, -1], np.zeros((len(SIZES), 2))
    holds = (level.low[:, -1] <= total) & (total <= level.high[:, -1])
    np.add.at(out, np.searchsorted(SIZES, released, side="right") - 1, np.stack([np.ones(len(holds)), holds], axis=1))
    return out


def _size_texts(counted: Floats) -> list[str]:
    names = [f"{low}" if high == low + 1 else f"{low}-{high - 1}" for low, high in pairwise(SIZES)]
    pairs = zip([*names, f"{SIZES[-1]}+"], counted, strict=True)
    return [f"{name} {holds / n:.3f} (of {n:,.0f})" for name, (n, holds) in pairs if n]


def _with_error(holds: NDArray[np.bool_]) -> tuple[float, float]:
    share = float(holds.mean())
    return share, float((share * (1 - share) / holds.size) ** 0.5)


def _covered_text(covered: list[list[tuple[float, float]]]) -> list[str]:
    names = ("block cells", "block totals", "tract totals", "shares of minors in tracts", "in blocks of 20 or more")
    shares, errors = np.array(covered).mean(axis=0).T / np.array([[1.0], [len(covered) ** 0.5]])
    return [f"{name} {share:.3f} ({error:.3f})" for name, share, error in zip(names, shares, errors, strict=True)]


def main() -> None:
    """Run both states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--releases", type=int, default=2)
    arguments = parser.parse_args()
    estimate_states(arguments.data, arguments.releases)


if __name__ == "__main__":
    main()
