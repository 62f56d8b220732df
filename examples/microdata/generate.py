"""Simulate 5,000 persons of four counties, a row each: sex, age, employment, income. Writes persons.csv.

Nobody in this file exists. Whole numbers and a public seed give the same file on every machine.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from congenial.randomness import RandomStream, replay_rng

SEED = "examples/microdata"
PERSONS = 5_000
COUNTIES, PEOPLE = ("Ashford", "Bexley", "Corwen", "Delmar"), (2_600, 1_500, 650, 250)
STATUSES = ("employed", "unemployed", "not in labour force")
WORKING_AGE = 16
# From this age on: how many of a hundred have each status, and what the employed earn most often.
LIVES = {16: ((38, 9, 53), 14_000), 25: ((78, 5, 17), 42_000), 45: ((74, 4, 22), 55_000), 65: ((16, 1, 83), 30_000)}


def pick(weights: tuple[int, ...], rng: RandomStream) -> int:
    """Return a place, as often as its weight says."""
    ends = np.cumsum(weights)
    return int(np.searchsorted(ends, one_below(int(ends[-1]), rng), side="right"))


def one_below(bound: int, rng: RandomStream) -> int:
    """Return a whole number from 0 to just under the bound."""
    return int(rng.below(np.array([bound]))[0])


def income(usual: int, rng: RandomStream) -> int:
    """Return an income in steps of 100: around the usual one, and now and then far above it."""
    percent = 40 + one_below(60, rng) + one_below(60, rng)
    while percent >= 100 and pick((1, 3), rng) == 0:
        percent *= 2
    return usual * percent // 10_000 * 100


def person(rng: RandomStream) -> tuple[str, str, int, str, int]:
    """Return one person's row, without the number."""
    county, sex = COUNTIES[pick(PEOPLE, rng)], ("female", "male")[one_below(2, rng)]
    age = min(one_below(85, rng), one_below(105, rng))  # older people are fewer
    if age < WORKING_AGE:
        return county, sex, age, STATUSES[2], 0
    shares, usual = LIVES[max(start for start in LIVES if start <= age)]
    status = STATUSES[pick(shares, rng)]
    if status == "employed":
        return county, sex, age, status, income(usual, rng)
    return county, sex, age, status, income(16_000, rng) if age >= 65 else one_below(90, rng) * 100


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "persons.csv")
    out = parser.parse_args().out
    rng = replay_rng(SEED)
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("person", "county", "sex", "age", "employment", "income"))
        writer.writerows((f"P{number:05}", *person(rng)) for number in range(1, PERSONS + 1))


if __name__ == "__main__":
    main()
