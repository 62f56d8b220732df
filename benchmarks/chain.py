"""Hold the certificate of trees of areas against every pair of many drawn chains, every outcome listed.

    python benchmarks/chain.py [--checks 3000000]

Two and three levels, squared and linear noise, records that change and records that come and go, with and without every
unit's own total exact; integer orders. Ends in an error if a divergence is above its charge by more than rounding.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from itertools import count

from brute import Dice
from chain_audit import ROUNDING, audit
from congenial.randomness import replay_rng


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checks", type=int, default=3_000_000)
    options = parser.parse_args()
    start = time.monotonic()
    tally = audit((Dice(replay_rng(f"chain {number}")) for number in count()), options.checks)
    print(
        f"{tally.checks:,} divergences of {tally.chains:,} chains in {time.monotonic() - start:.0f} s; the largest"
        f" excess over its charge is {tally.largest:.1e}, the nearest reaches {tally.nearest:.6f} of its charge"
    )
    if tally.largest > ROUNDING:
        sys.exit("a divergence is above its charge")


if __name__ == "__main__":
    main()
