"""Hold certificates of several tables of the same records against every pair of histograms of few records.

    python benchmarks/tables_audit.py [--systems 1000]

Random tables, exact margins, further exact sums and structural zeros over two to four attributes, both neighbour
relations, both noises; every kind of change, the fewest records that move each table, witnesses, and laws of the noise
by enumeration. Ends in an error if a pair exceeds its certificate, or one that must be attained is not.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from brute import Dice
from congenial.randomness import replay_rng
from workload_audit import WorkloadTally, drawn_workload


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=1000)
    options = parser.parse_args()
    start, tally = time.monotonic(), WorkloadTally()
    try:
        for number in range(options.systems):
            for exponent in (1, 2):
                for neighbours in ("bounded", "unbounded"):
                    dice = Dice(replay_rng(f"tables {number} {exponent} {neighbours}"))
                    small = drawn_workload(dice, exponent, neighbours, plain=dice.chance(1, 3))
                    tally.hold(small)
                    tally.enumerate_laws(small, dice)
        tally.check()
    except AssertionError as wrong:
        sys.exit(f"workload {number}, {neighbours}, power {exponent}: {wrong}")
    print(f"{time.monotonic() - start:.0f} s: {tally.text}")


if __name__ == "__main__":
    main()
