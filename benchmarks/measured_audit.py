"""Hold the theorem of measured releases against the enumerated laws of many drawn systems.

    python benchmarks/measured_audit.py [--systems 5000]

Any integer exact rows (scaled, dependent, with torsion) and measured rows, noise in cells, in answers, independent or
with exact sums dropped; every loss against D, public kernels after the measurements, Renyi divergences at real and
integer orders, lattices that miss a change. Ends in an error if a number differs by more than rounding.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from brute import Dice
from congenial.randomness import replay_rng
from lattice_audit import Tally, drawn_release


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=5000)
    options = parser.parse_args()
    start, tally = time.monotonic(), Tally()
    for number in range(options.systems):
        dice = Dice(replay_rng(f"measured {number}"))
        tally.pure(drawn_release(dice, 1), dice, n_kernels=5)
        tally.gaussian(drawn_release(dice, 2), dice)
    print(f"{tally.systems:,} drawn systems in {time.monotonic() - start:.0f} s: {tally.text}")
    try:
        tally.check()
    except AssertionError as wrong:
        sys.exit(str(wrong))


if __name__ == "__main__":
    main()
