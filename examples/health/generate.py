"""Simulate new cases of cancer in 39 counties, by age, sex and diagnosis. Writes counts.csv.

Nobody in these tables exists. Whole numbers and a public seed give the same file on every machine.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from congenial.randomness import replay_rng

SEED = "examples/health"
CASES = 40_000
COUNTIES = tuple(f"{number:02d}" for number in range(1, 40))
AGES = ("0-19", "20-29", "30-39", "40-49", "50-59", "60-69", "70-79", "80+")
SEXES = ("female", "male")
DIAGNOSES = (
    *("prostate", "ovary", "breast", "lung", "bowel", "skin"),
    *("blood", "kidney", "bladder", "stomach", "thyroid", "other"),
)

# Cases in ten thousand of one sex, by diagnosis; then how these shift with age, from young to old.
FEMALE = np.array([0, 350, 3_000, 1_100, 1_050, 900, 600, 300, 150, 150, 500, 1_900])
MALE = np.array([2_900, 0, 30, 1_300, 1_200, 1_000, 700, 450, 500, 250, 170, 1_500])
OF_AGE = np.array([2, 3, 6, 10, 18, 26, 22, 13])
YOUNG, OLD = (
    np.array([1, 4, 3, 1, 2, 6, 9, 4, 1, 1, 9, 8]),
    np.array([9, 4, 5, 9, 8, 6, 6, 5, 9, 8, 2, 6]),
)


def weights() -> np.ndarray:
    """Return the weight of each combination of county, age, sex and diagnosis."""
    size = np.array([3 + 97 * (17 * place % 39) ** 2 // 39**2 for place in range(len(COUNTIES))])
    ages = np.arange(len(AGES))[:, None]
    shift = YOUNG * (len(AGES) - 1 - ages) + OLD * ages
    of_sex = np.stack([FEMALE, MALE])
    within = (OF_AGE[:, None] * shift)[:, None, :] * of_sex // 100
    local = 80 + np.arange(len(COUNTIES) * len(DIAGNOSES)).reshape(len(COUNTIES), -1) * 29 % 41
    return size[:, None, None, None] * within * local[:, None, None, :]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "counts.csv")
    out = parser.parse_args().out
    weight = weights()
    ends = np.cumsum(weight.reshape(-1))
    drawn = np.searchsorted(ends, replay_rng(SEED).below(np.full(CASES, ends[-1])), side="right")
    counts = np.bincount(drawn, minlength=weight.size).reshape(weight.shape)
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["county", "age", "sex", "diagnosis", "cases"])
        for county, age, sex, diagnosis in zip(*np.nonzero(counts), strict=True):
            count = int(counts[county, age, sex, diagnosis])
            rows.writerow([COUNTIES[county], AGES[age], SEXES[sex], DIAGNOSES[diagnosis], count])


if __name__ == "__main__":
    main()
