"""Can a clock tell of a measured release what its measurements do not? `make bench-timing` prints how well.

    python benchmarks/measured_timing.py [--draws 4000] [--keys 2000]

The measurements are published: whatever tells of the noise u = n - x tells of the counts x. So the CPU time of one
unit's noise and addition, from key to measurements, is compared between tables that are far from each other, and, for
one table, between draws whose noise is small and draws whose noise is large: in one cell, in a sum of cells, in all.
The AUC is the probability that the one takes longer than the other: 0.5 tells nothing, 0 or 1 everything. A mutant,
whose search in a table of thresholds begins in the middle and stops where it is decided, goes through the same
measurement: that must tell it, or the measurement tells nothing.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import congenial as cg
from congenial.bundle.naming_and_versions import Naming
from congenial.examples import P12_AGES, p12_mechanism, p12_schema
from congenial.measurement import MeasurementDrawing
from congenial.randomness import UnitStreams
from congenial.release import Prepared
from congenial.release_key import ReleaseKey
from congenial.sampling.lattice_noise.sum_tables import DecisionTable

BUDGETS: dict[str, dict[str, str]] = {
    "double_geometric": {"epsilon": "1"},
    "discrete_gaussian": {"rho": "1/2", "noise": "discrete_gaussian"},
}
LEAST, MOST = 0.45, 0.55
"""Where an AUC tells nothing, at thousands of draws on a machine that does other things too."""
TOLD = 0.65
"""An AUC that tells a mutant."""
REPEATS = 9
ONE_UNIT = np.zeros(1, np.int64)
NAMING = Naming("timing", "town", "Timing", "person")
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two tables with the same exact numbers."""

    relation: str
    mechanism: cg.Mechanism
    first: Counts
    other: Counts


def pairs(budget: dict[str, str]) -> Iterator[Pair]:
    """Go through tables with P12's sums exact, and with a total alone."""
    schema = p12_schema()
    exact = {"P12": list(p12_mechanism().invariants), "a total": [cg.total()]}
    even = np.full((2, 23), 400)
    heaped = np.zeros((2, 23), np.int64)  # the same numbers of girls, boys and adults, each group in one cell
    for row in heaped:
        row[0], row[10] = 4 * 400, 19 * 400
    neighbour = even.copy()
    neighbour[0, 8:10] += (1, -1)
    one_cell = np.zeros((2, 23), np.int64)
    one_cell[1, 22] = even.sum()
    for name, invariants in exact.items():
        mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=invariants, method="measured", **budget)
        yield Pair(f"{name}: the same table twice", mechanism, even, even.copy())
        yield Pair(f"{name}: neighbours", mechanism, even, neighbour)
        far = heaped if name == "P12" else one_cell
        yield Pair(f"{name}: far, groups in one cell each, or even", mechanism, far, even)
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.bounds(0)], method="measured", **budget)
    yield Pair("nothing exact: all empty, or 400 a cell", mechanism, np.zeros_like(even), even)
    yield Pair("nothing exact: 0 and 10^9 a cell, or 400", mechanism, 10**9 * (even.cumsum().reshape(2, 23) % 3), even)


def noise_and_time(ready: Prepared, key: ReleaseKey) -> tuple[int, Counts]:
    """Measure one unit in the step that touches data alone: random words, noise, addition."""
    assert isinstance(ready.plan.drawing, MeasurementDrawing)
    start = time.thread_time_ns()
    words = ready.streams(key)
    assert isinstance(words, UnitStreams)
    measurements = ready.plan.drawing.draw(ONE_UNIT, ready.confidential, words)
    return time.thread_time_ns() - start, measurements[0]


def drawn_and_timed(ready: Prepared, key: ReleaseKey) -> tuple[int, Counts]:
    """Measure one unit: CPU nanoseconds from the key to the measurements, and these."""
    start = time.thread_time_ns()  # CPU time: what else the machine does would hide a difference
    (measurements,) = ready.draw(ready.streams(key))
    return time.thread_time_ns() - start, measurements[0]


def auc(first: Floats, other: Floats) -> float:
    """Return the probability that one of the first is above one of the others, ties by halves."""
    ranked = np.sort(other)
    below = np.searchsorted(ranked, first, "left") + np.searchsorted(ranked, first, "right")
    return float(below.mean() / 2 / len(other))


def auc_of_tables(pair: Pair, n_draws: int, dice: random.Random) -> tuple[float, float]:
    """Return the AUC of the times of two tables, and the median microseconds of a draw."""
    shape = pair.mechanism.schema.shape
    ready = [
        pair.mechanism.prepare(cg.Table(pair.mechanism.schema, one.reshape(shape)), NAMING)
        for one in (pair.first, pair.other)
    ]
    for side in (0, 1) * 50:
        drawn_and_timed(ready[side], ReleaseKey())
    order = [i % 2 for i in range(2 * n_draws)]
    dice.shuffle(order)
    times: tuple[list[int], list[int]] = ([], [])
    for side in order:
        times[side].append(drawn_and_timed(ready[side], ReleaseKey())[0])
    first, other = (np.array(column, float) for column in times)
    return auc(first, other), float(np.median(first)) / 1000


def noise_structures(budget: dict[str, str]) -> Iterator[tuple[str, cg.Mechanism, dict[str, list[int]]]]:
    """Go through P12, and four cells with wide noise, where a search has far to go; with cells that are added up."""
    schema = p12_schema()
    exact = list(p12_mechanism().invariants)
    sums = {
        "a cell": [10],
        "the last cell": [45],
        "women of 65 and more": schema.cells({"sex": "female", "age": P12_AGES[-6:]}).tolist(),
        "adult women, the free sum": list(range(4, 23)),
    }
    yield "P12", cg.Mechanism(schema, measure=[cg.cells()], invariants=exact, method="measured", **budget), sums
    few = cg.Schema({"cell": ["a", "b", "c", "d"]})
    little = {name: {"epsilon": "1/20", "rho": "1/3000"}.get(name, value) for name, value in budget.items()}
    mechanism = cg.Mechanism(few, measure=[cg.cells()], invariants=[cg.total()], method="measured", **little)
    yield "4 cells, wide noise", mechanism, {"a cell": [0], "the last cell": [3], "two cells": [0, 1]}


def aucs_of_noise(mechanism: cg.Mechanism, sums: dict[str, list[int]], n_keys: int) -> dict[str, float]:
    """Return, for one table, the AUC of times between large and small noise: in cells and sums, and in all cells.

    A draw is repeated with its key, which gives the same noise, and the shortest of its times is taken. Nobody can do
    that to a release; here it takes away what else the machine does, and shows what single times would hide.
    """
    schema = mechanism.schema
    table = cg.Table(schema, np.full(schema.shape, 20))
    ready = mechanism.prepare(table, NAMING)
    for _ in range(100):
        noise_and_time(ready, ReleaseKey())
    times, noise = np.empty(n_keys), np.empty((n_keys, schema.n_cells), np.int64)
    for number in range(n_keys):
        key = ReleaseKey()
        several = [noise_and_time(ready, key) for _ in range(REPEATS)]
        times[number], noise[number] = min(each for each, _ in several), several[0][1] - table.counts
    statistics = {name: np.abs(noise[:, cells].sum(axis=1)) for name, cells in sums.items()}
    statistics["all cells, sum of sizes"] = np.abs(noise).sum(axis=1)
    out = {}
    for name, sizes in statistics.items():
        low, high = np.quantile(sizes, (0.5, 0.8))
        out[name] = auc(times[sizes >= max(high, low + 1)], times[sizes <= low])
    return out


def stops_early(self: DecisionTable, rows: Counts, words: Counts, is_open: NDArray[np.bool_]) -> Counts:
    """The mutant: from the middle of a row outwards, until the entry is there."""
    out = np.empty_like(rows)
    for place in np.ndindex(rows.shape):
        row, aim = self.thresholds[rows[place]], int(words[place]) + self.tolerance
        entry = int(np.searchsorted(row, 1 << 61))
        while row[entry] > aim:
            entry -= 1
        while entry + 1 < self.width and row[entry + 1] <= aim:
            entry += 1
        out[place] = entry
        is_open[place] |= aim - row[entry] <= 2 * self.tolerance
    return out


def shown(name: str, value: float, *, is_expected: Callable[[float], bool]) -> bool:
    """Print a line, and return whether it is as expected."""
    is_well = is_expected(value)
    print(f"  {name:58}{value:7.3f}{'' if is_well else '  NOT AS EXPECTED'}", flush=True)
    return is_well


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=4_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice, is_well = random.Random(options.seed), True

    def is_level(value: float) -> bool:
        return LEAST <= value <= MOST

    for noise, budget in BUDGETS.items():
        print(f"{noise}, one unit from its key to its measurements, {options.draws:,} draws: AUC between tables")
        for pair in pairs(budget):
            value, micro = auc_of_tables(pair, options.draws // 2, dice)
            is_well &= shown(f"{pair.relation} ({micro:.0f} us)", value, is_expected=is_level)
        for name, mechanism, sums in noise_structures(budget):
            print(f"{noise}, {name}: AUC between draws of large and of small noise, beside a search that stops early")
            straight = aucs_of_noise(mechanism, sums, options.keys)
            with patch.object(DecisionTable, "decide", stops_early):
                mutant = aucs_of_noise(mechanism, sums, options.keys)
            for what, value in straight.items():
                is_well &= shown(f"{what:44}mutant{mutant[what]:7.3f}", value, is_expected=is_level)
            if name != "P12":
                is_well &= shown("the mutant is told", max(mutant.values()), is_expected=lambda value: value > TOLD)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
