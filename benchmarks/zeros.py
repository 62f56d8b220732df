"""Hold the certificates of weighted zeros against brute force on many drawn systems.

    python benchmarks/zeros.py [--systems 20000] [--jobs 2]

A system has one to three groups with laws of their own, equalities, and perhaps upper limits, a range, a measured row;
every ordered pair of tables one record or several records of a group apart is compared. Ends in an error at the first
ratio above its certificate.
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from brute import Dice
from congenial.randomness import replay_rng
from weighted_audit import Tally, audit, laws
from weighted_systems import random_weighted

LAWS = laws(["1/5", "7/20", "1/2", "4/5", "6/5", "2"], ["0.7", "1", "1.3", "1.7"])
CHUNK = 250


def chunk(number: int) -> Tally:
    dice = Dice(replay_rng(f"weighted zeros {number}"))
    return audit(random_weighted(dice, LAWS) for _ in range(CHUNK))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start, whole = time.monotonic(), Tally()
    with get_context("spawn").Pool(options.jobs) as pool:
        for tally in pool.imap_unordered(chunk, range(-(-options.systems // CHUNK))):
            whole.systems += tally.systems
            whole.pairs += tally.pairs
            for name, share in tally.largest.items():
                whole.largest[name] = max(whole.largest.get(name, 0.0), share)
            print(f"\r{whole.systems:,} systems", end="", file=sys.stderr, flush=True)
    print(f"\n{whole.systems:,} systems in {time.monotonic() - start:.0f} s, no ratio above its certificate")
    for name, pairs in Counter(whole.pairs).most_common():
        print(f"  {name}: {pairs:,} pairs, at most {whole.largest.get(name, 0.0):.4f} of the bound's logarithm")


if __name__ == "__main__":
    main()
