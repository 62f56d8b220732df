"""Simulate a state of 20,000 blocks: how many people of each age and group live in each. Writes two files.

`blocks.csv` is public, the list of all blocks; `counts.parquet` has the cells that are not empty. Nobody in them
exists. Whole numbers and a public seed give the same counts on every machine.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

from congenial.randomness import RandomStream, replay_rng

SEED = "examples/state"
STATE = "90"
AGES, GROUPS = ("u18", "v18"), ("A", "B", "C", "other")
TRACTS = (92, 71, 58, 47, 41, 34, 28, 23, 18, 14, 11, 9)  # of each county: a few towns, and much country
BLOCKS = 45  # of a tract, about
PEOPLE = (400, 4_500)  # of a tract, from and up to
WATER, EMPTY = 12, 20  # blocks in a hundred where nobody can live, and where nobody happens to live


@dataclass
class Block:
    """One block and its people (cell,)."""

    code: str
    is_uninhabited: bool
    counts: np.ndarray


def between(low: int, high: int, n: int, rng: RandomStream) -> np.ndarray:
    """Draw `n` whole numbers, low and high included."""
    return low + rng.below(np.full(n, high - low + 1))


def tract_blocks(code: str, mix: np.ndarray, rng: RandomStream) -> list[Block]:
    """Draw the blocks of a tract and who lives there; `mix` has the weights of groups in its county."""
    n = int(between(BLOCKS - 20, BLOCKS + 20, 1, rng)[0])
    fate = between(0, 99, n, rng)
    is_water, is_open = fate < WATER, fate >= WATER + EMPTY
    if not is_open.any():
        is_water[0], is_open[0] = False, True
    sizes = between(1, 60, n, rng) * between(1, 60, n, rng) * is_open  # skewed: many small blocks, some large ones
    own = mix * between(1, 9, len(GROUPS), rng)
    groups = own[None, :] * between(1, 12, n * len(GROUPS), rng).reshape(n, -1)
    young = between(8, 34, n, rng)
    ages = np.stack([young, 100 - young], axis=1)
    shares = ages[:, :, None] * (1_000 * groups // groups.sum(axis=1, keepdims=True) + 1)[:, None, :]
    weights = (sizes[:, None] * shares.reshape(n, -1)).reshape(-1)
    ends = np.cumsum(weights)
    n_people = int(between(*PEOPLE, 1, rng)[0])
    drawn = np.searchsorted(ends, rng.below(np.full(n_people, ends[-1])), side="right")
    counts = np.bincount(drawn, minlength=len(weights)).reshape(n, -1)
    numbers = [1_000 * (1 + place // 20) + place % 20 for place in range(n)]
    lines = zip(numbers, is_water.tolist(), counts, strict=True)
    return [Block(f"{code}{number}", is_uninhabited, line) for number, is_uninhabited, line in lines]


def blocks() -> list[Block]:
    """Draw every block of the state, in the order of codes: state 2, county 3, tract 6 and block 4 digits."""
    rng, found = replay_rng(SEED), []
    for county, n_tracts in enumerate(TRACTS):
        mix = np.array([60, 14, 8, 5]) * between(1, 8, len(GROUPS), rng)
        for tract in range(n_tracts):
            found += tract_blocks(f"{STATE}{2 * county + 1:03}{100 * (tract + 1):06}", mix, rng)
    return found


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="a folder")
    out = parser.parse_args().out
    found = blocks()
    lines = [f"{block.code},{int(block.is_uninhabited)}" for block in found]
    (out / "blocks.csv").write_text("\n".join(["block,uninhabited", *lines, ""]), encoding="utf-8")
    counts = np.stack([block.counts for block in found])
    places, cells = np.nonzero(counts)
    columns = {
        "block": np.array([block.code for block in found], object)[places],
        "age": np.array(AGES, object)[cells // len(GROUPS)],
        "group": np.array(GROUPS, object)[cells % len(GROUPS)],
        "people": counts[places, cells].astype(np.int32),
    }
    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        database.register("counts", columns)
        database.table("counts").write_parquet(str(out / "counts.parquet"), compression="zstd")


if __name__ == "__main__":
    main()
