"""Can a clock tell two tables apart that have the same public facts? `make bench-timing` prints how well.

    python benchmarks/timing.py [--draws 4000] [--seed 1] [--wide] [--interpreted]

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import congenial as cg
from congenial.examples import P12_VOTING_AGES, p12_schema
from congenial.sampling import jit
from congenial.sampling.sampler_and_registry import Sampler, sampler_of

_SECONDS_A_PAIR = 20.0
NOISES = {"double_geometric": "1/2", "discrete_gaussian": "1/9"}
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Two tables with the same exact numbers."""

    system: str
    relation: str
    mechanism: cg.Mechanism
    first: Counts
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


def wide_pairs(noise: str) -> Iterator[Pair]:
    """Go through tables with both margins exact, drawn by rejection: how many attempts there are is in the time."""
    for n in (10, 20):
        schema = cg.Schema({"row": [f"r{i}" for i in range(n)], "column": [f"c{i}" for i in range(n)]})
        mechanism = cg.Mechanism(
            schema,
            measure=[cg.cells(precision=NOISES[noise])],
            invariants=[cg.margin("row"), cg.margin("column")],
            noise=noise,
        )
        mixed = np.full((n, n), 5, np.int64)
        dice = random.Random(n)
        for _ in range(20 * n * n):  # counts that differ, with the same margins
            _swap(mixed, dice.sample(range(n), 2), dice.sample(range(n), 2))
        neighbour = mixed.copy()
        first, other = np.argwhere(mixed > 0)[[0, -1]]
        _swap(neighbour, (int(first[0]), int(other[0])), (int(first[1]), int(other[1])))
        diagonal = 5 * n * np.eye(n, dtype=np.int64)
        blocks = np.kron(np.eye(2, dtype=np.int64), np.full((n // 2, n // 2), 10))
        even = np.full((n, n), 5, np.int64)
        name = f"{n} x {n} cells, both margins"
        for relation, first, second in (
            ("the same table twice", mixed, mixed),
            ("neighbours", mixed, neighbour),
            ("far: 5 in each cell, or mixed", even, mixed),
            ("far: half of the cells 0, or mixed", blocks, mixed),
            ("far: all on the diagonal, or mixed", diagonal, mixed),
        ):
            yield Pair(name, relation, mechanism, first.reshape(-1), second.reshape(-1).copy())


def _swap(table: Counts, rows: Sequence[int], columns: Sequence[int]) -> None:
    """Move one person in each of two rows, so that no margin changes; nothing where a cell would be negative."""
    (i, k), (j, m) = rows, columns
    if table[i, j] and table[k, m]:
        table[i, j] -= 1
        table[k, m] -= 1
        table[i, m] += 1
        table[k, j] += 1


def auc(pair: Pair, n_draws: int, dice: random.Random) -> tuple[float, float, float]:
    """Return the AUC, its standard error for independent draws, and the median microseconds of a draw."""
    table = cg.Table(pair.mechanism.schema, pair.first.reshape(pair.mechanism.schema.shape))
    sampler: Sampler = sampler_of(pair.mechanism.law(table).target)
    rng = cg.secure_rng()
    centres = (pair.first[None, :], pair.other[None, :])
    assert pair.first.sum() == pair.other.sum()
    begun = time.perf_counter()
    for side in (0, 1) * 20:
        sampler.draw_each(centres[side], rng)
    n_draws = min(n_draws, max(200, int(20 * _SECONDS_A_PAIR / (time.perf_counter() - begun))))
    order = [i % 2 for i in range(2 * n_draws)]
    dice.shuffle(order)
    times: tuple[list[int], list[int]] = ([], [])
    for side in order:
        start = time.thread_time_ns()  # CPU time: what else the machine does would hide a difference
        sampler.draw_each(centres[side], rng)
        times[side].append(time.thread_time_ns() - start)
    first, other = (np.array(column, float) for column in times)
    below = np.searchsorted(np.sort(other), first, "left") + np.searchsorted(np.sort(other), first, "right")
    return float(below.mean() / 2 / len(other)), float((1 / 6 / n_draws) ** 0.5), float(np.median(first)) / 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--draws", type=int, default=4000)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    options.add_argument("--wide", action="store_true", help="tables with both margins exact alone")
    options.add_argument("--interpreted", action="store_true", help="let Python run the kernels")
    arguments = options.parse_args()
    if arguments.interpreted:
        setattr(jit, "_MAX_INTERPRETED", math.inf)  # noqa: B010  a constant
    dice = random.Random(arguments.seed)
    print(
        f"seed {arguments.seed}; {arguments.draws:,} draws of each table; AUC with its standard error; one draw in"
        " microseconds"
    )
    for noise in NOISES:
        for pair in (*(() if arguments.wide else pairs(noise)), *wide_pairs(noise)):
            value, error, micro = auc(pair, arguments.draws, dice)
            print(f"{noise:18}{pair.system:29}{pair.relation:40}{value:6.3f} +- {error:.3f}{micro:9.1f}")


if __name__ == "__main__":
    main()
