"""Simulate a state of 60 counties: how many women and men of each age group live in each. Writes counts.csv.

Nobody in these tables exists. Whole numbers and a public seed give the same file on every machine.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from congenial.examples import P12_AGES
from congenial.randomness import RandomStream, replay_rng

SEED = "examples/counties"
SEXES = ("female", "male")
SMALLEST, LARGEST = 300, 300_000

# Fictitious names; the codes are odd numbers with leading zeros, as in many countries' lists.
NAMES = """
Alder Aspen Badger Barlow Beacon Birch Blackwater Bramble Bridger Brook Calder Camas Cedar Clay Clover Copper Cotton
Crane Dale Dunmore Eagle Elder Elk Fairview Fern Flint Fox Garnet Glen Granite Harbor Hazel Heron Hollow Iron Juniper
Kestrel Lake Larch Linden Maple Marsh Meadow Mill Moss Oak Orchard Pine Prairie Quarry Ridge River Rowan Sable Spring
Stone Thorn Vale Walnut Willow
"""
COUNTIES = tuple(NAMES.split())

# People in a thousand, by age group; each kind of county has its own profile.
PROFILES = {
    "mixed": (60, 62, 65, 40, 27, 13, 13, 40, 66, 66, 64, 60, 61, 62, 65, 26, 37, 24, 33, 46, 33, 20, 17),
    "college": (38, 36, 35, 25, 98, 55, 52, 108, 86, 62, 52, 44, 40, 39, 42, 17, 24, 16, 22, 30, 21, 13, 12),
    "retirement": (36, 38, 41, 26, 17, 8, 8, 25, 41, 43, 45, 46, 53, 64, 79, 36, 55, 40, 60, 88, 70, 45, 36),
    "families": (84, 85, 84, 48, 25, 12, 12, 38, 74, 82, 83, 73, 63, 54, 48, 17, 22, 14, 18, 24, 16, 9, 7),
}
KINDS = ("mixed", "mixed", "families", "mixed", "retirement", "college", "retirement")
# Women in a hundred people, by age group: boys are a few more at birth, women live longer.
WOMEN = (49, 49, 49, 49, 49, 49, 49, 49, 49, 50, 50, 50, 50, 51, 51, 51, 52, 52, 53, 54, 56, 59, 65)


def sizes() -> list[int]:
    """Return the counties' populations: as many between 300 and 3,000 as between 30,000 and 300,000."""
    steps = len(COUNTIES) - 1
    ordered = [round(SMALLEST * (LARGEST / SMALLEST) ** (step / steps)) for step in range(steps + 1)]
    return [ordered[(37 * place) % len(ordered)] for place in range(len(ordered))]  # not in the alphabet's order


def people(kind: str, n: int, rng: RandomStream) -> np.ndarray:
    """Draw each of `n` people's cell, and count them by sex and age."""
    both = np.array(PROFILES[kind]), np.array(WOMEN)
    weights = np.concatenate([both[0] * both[1], both[0] * (100 - both[1])])
    ends = np.cumsum(weights)
    drawn = np.searchsorted(ends, rng.below(np.full(n, ends[-1])), side="right")
    return np.bincount(drawn, minlength=len(weights)).reshape(len(SEXES), len(P12_AGES))


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "counts.csv")
    out = parser.parse_args().out
    rng = replay_rng(SEED)
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("county", "sex", "age", "people"))
        for place, n in enumerate(sizes()):
            table = people(KINDS[place % len(KINDS)], n, rng)
            for sex, line in zip(SEXES, table.tolist(), strict=True):
                writer.writerows(
                    (f"{2 * place + 1:03}", sex, age, count) for age, count in zip(P12_AGES, line, strict=True)
                )


if __name__ == "__main__":
    main()
