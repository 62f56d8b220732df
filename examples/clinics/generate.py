"""Simulate the patients of 24 clinics by age and reason of their first visit. Writes counts.csv.

Nobody in these tables exists. Whole numbers and a public seed give the same file on every machine.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from congenial.randomness import RandomStream, replay_rng

SEED = "examples/clinics"
CLINICS = tuple(f"{number:02d}" for number in range(1, 25))
AGES = ("0-17", "18-39", "40-64", "65-79", "80+")
REASONS = ("infection", "injury", "heart", "lungs", "diabetes", "rare disorder")

# Patients in a thousand, by age and reason; most cells are small, and many rare disorders are seen nowhere.
WEIGHTS = np.array(
    [
        [90, 60, 1, 30, 4, 1],
        [70, 75, 8, 20, 14, 1],
        [60, 50, 55, 35, 60, 2],
        [35, 25, 90, 45, 55, 1],
        [15, 20, 48, 22, 17, 1],
    ]
)


def patients(n: int, rng: RandomStream) -> np.ndarray:
    """Draw each of `n` patients' cell, and count them by age and reason."""
    ends = np.cumsum(WEIGHTS.reshape(-1))
    drawn = np.searchsorted(ends, rng.below(np.full(n, ends[-1])), side="right")
    return np.bincount(drawn, minlength=WEIGHTS.size).reshape(WEIGHTS.shape)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "counts.csv")
    out = parser.parse_args().out
    rng = replay_rng(SEED)
    with out.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["clinic", "age", "reason", "patients"])
        for place, clinic in enumerate(CLINICS):
            counts = patients(60 + 37 * (7 * place % 24), rng)
            for age, line in zip(AGES, counts.tolist(), strict=True):
                rows.writerows([clinic, age, reason, count] for reason, count in zip(REASONS, line, strict=True))


if __name__ == "__main__":
    main()
