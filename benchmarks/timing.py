"""Can a clock tell two tables apart that have the same public facts? `make bench-timing` prints how well.

    python benchmarks/timing.py [--draws 4000] [--seed 1] [--interpreted]

Two tables are drawn in random order, each time with fresh random words, and every draw is timed. The AUC is the
probability that a draw of the one table takes longer than a draw of the other: 0.5 tells nothing, 0 or 1 everything.
Each line is about one pair; `the same table twice` is the control, and shows what chance and the machine do.
With `--interpreted` Python runs the kernels, as it does for the first few tables of a process.
"""

import argparse
import math
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import congenial as cg
from congenial.examples import P12_VOTING_AGES, p12_schema
from congenial.sampling.choose import sampler_of
from congenial.sampling.kernels import compiled
from congenial.sampling.sampler import Sampler

_SECONDS_A_PAIR = 20.0
NOISES = {"double_geometric": "1/2", "discrete_gaussian": "1/9"}
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Two tables with the same exact numbers."""

    system: str
    relation: str
    mechanism: cg.Mechanism
    one: Counts
    other: Counts


def pairs(noise: str) -> Iterator[Pair]:
    """Go through tables under a total, and under P12's invariants, at a precision that is usual for the noise."""
    for n_cells in (9, 200):
        schema = cg.Schema({"cell": [f"c{i}" for i in range(n_cells)]})
        mechanism = cg.Mechanism(
            schema, measure=[cg.cells(precision=NOISES[noise])], invariants=[cg.total()], noise=noise
        )
        level = np.full(n_cells, 40, np.int64)
        one_more = level.copy()
        one_more[:2] += (1, -1)
        uneven = np.where(np.arange(n_cells) % 2, 60, 20)
        uneven[-1] += level.sum() - uneven.sum()
        all_in_one = np.zeros(n_cells, np.int64)
        all_in_one[-1] = level.sum()
        small = np.full(n_cells, 15, np.int64)
        small_neighbour = small.copy()
        small_neighbour[:2] += (1, -1)
        below, above = np.full(n_cells, 14, np.int64), np.full(n_cells, 16, np.int64)
        below[-1] += 2 * n_cells
        name = f"{n_cells} cells under a total"
        yield Pair(name, "the same table twice", mechanism, level, level.copy())
        yield Pair(name, "neighbours, 40 people a cell", mechanism, level, one_more)
        yield Pair(name, "neighbours, 15 people a cell", mechanism, small, small_neighbour)
        yield Pair(name, "far: 14 or 16 people a cell", mechanism, below, above)
        yield Pair(name, "far: 20 and 60, or 40 in each", mechanism, uneven, level)
        yield Pair(name, "far: all in one cell, or 40 in each", mechanism, all_in_one, level)
    schema = p12_schema()
    exact = [cg.total(), cg.total({"age": P12_VOTING_AGES})]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=NOISES[noise])], invariants=exact, noise=noise)
    level = np.full(46, 30, np.int64)
    neighbour = level.copy()
    neighbour[20:22] += (1, -1)
    far = level.reshape(2, 23).copy()
    far[0, 4:] += 29
    far[1, 4:] -= 29
    yield Pair("P12, total and voting age", "the same table twice", mechanism, level, level.copy())
    yield Pair("P12, total and voting age", "neighbours", mechanism, level, neighbour)
    yield Pair("P12, total and voting age", "far: women 59 a cell, men 1", mechanism, far.reshape(-1), level)


def auc(pair: Pair, n_draws: int, dice: random.Random) -> tuple[float, float, float]:
    """Return the AUC, its standard error for independent draws, and the median microseconds of a draw."""
    table = cg.Table(pair.mechanism.schema, pair.one.reshape(pair.mechanism.schema.shape))
    sampler: Sampler = sampler_of(pair.mechanism.law(table).target)
    rng = cg.secure_rng()
    centres = (pair.one[None, :], pair.other[None, :])
    assert pair.one.sum() == pair.other.sum()
    begun = time.perf_counter()
    for which in (0, 1) * 20:
        sampler.draw_each(centres[which], rng)
    n_draws = min(n_draws, max(200, int(20 * _SECONDS_A_PAIR / (time.perf_counter() - begun))))
    order = [i % 2 for i in range(2 * n_draws)]
    dice.shuffle(order)
    times: tuple[list[int], list[int]] = ([], [])
    for which in order:
        start = time.thread_time_ns()  # CPU time: what else the machine does would hide a difference
        sampler.draw_each(centres[which], rng)
        times[which].append(time.thread_time_ns() - start)
    one, other = (np.array(column, float) for column in times)
    below = np.searchsorted(np.sort(other), one, "left") + np.searchsorted(np.sort(other), one, "right")
    return float(below.mean() / 2 / len(other)), float((1 / 6 / n_draws) ** 0.5), float(np.median(one)) / 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--draws", type=int, default=4000)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    options.add_argument("--interpreted", action="store_true", help="let Python run the kernels")
    given = options.parse_args()
    if given.interpreted:
        setattr(compiled, "_AT_MOST", math.inf)  # noqa: B010  a constant
    dice = random.Random(given.seed)
    print(
        f"seed {given.seed}; {given.draws:,} draws of each table; AUC with its standard error; one draw in microseconds"
    )
    for noise in NOISES:
        for pair in pairs(noise):
            value, error, micro = auc(pair, given.draws, dice)
            print(f"{noise:18}{pair.system:27}{pair.relation:37}{value:6.3f} +- {error:.3f}{micro:9.1f}")


if __name__ == "__main__":
    main()
