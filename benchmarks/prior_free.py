"""Hold intervals without a prior against every table of many drawn systems, and say how wide they are for P12.

    python benchmarks/prior_free.py [--systems 3000]

Coverage is computed exactly, for every confidential table and every outcome; it ends in an error if one is below its
level. Widths are of 90 % intervals on simulated tables of 240 people.
"""

import argparse
import sys
import time
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np

import congenial as cg
from brute import Dice
from congenial.examples import p12_mechanism
from congenial.inference.frequentist import confidences
from congenial.inference.questions import parse_query
from congenial.randomness import replay_rng
from interval_audit import ROUNDING, audit

WIDTHS = [5, 5, 5, 3, 2, 1, 1, 3, 5, 5, 5, 5, 5, 5, 5, 2, 3, 2, 3, 5, 5, 5, 8]
QUERIES = [
    "age >= 65-66",
    "sex=female & age >= 65-66",
    "sex=female & age=85+",
    "sex=female & age=25-29",
    "age 25-29..40-44",
    "difference(sex=female & age >= 65-66, sex=male & age >= 65-66)",
]
BUDGETS: dict[str, dict[str, str]] = {
    "rho 1/2": {"rho": "1/2", "noise": "discrete_gaussian"},
    "epsilon 4, zeros unweighted": {"epsilon": "4"},
    "epsilon 1, zeros unweighted": {"epsilon": "1"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=3_000)
    options = parser.parse_args()
    start = time.monotonic()
    tally = audit((Dice(replay_rng(f"interval {number}")) for number in count()), options.systems)
    print(
        f"coverage of every one of {tally.tables:,} tables of {tally.systems:,} systems in"
        f" {time.monotonic() - start:.0f} s; the least is {tally.least:.6f} above its level"
    )
    if tally.least < -ROUNDING:
        sys.exit("an interval covers less than its level")
    for budget, options in BUDGETS.items():
        say_widths(budget, options)


def say_widths(budget: str, options: dict[str, str], n_tables: int = 10, n_releases: int = 4) -> None:
    p12 = p12_mechanism()
    cells = cg.cells() if "rho" in options else cg.cells(zeros="unweighted")
    mechanism = cg.Mechanism(p12.schema, measure=[cells], invariants=list(p12.invariants), **options)  # type: ignore[arg-type]
    statistics = [parse_query(query, p12.schema)[0] for query in QUERIES]
    rng = replay_rng(f"widths {budget}")
    years = np.cumsum(WIDTHS)
    profile = np.concatenate([WIDTHS * np.exp(-0.012 * years), WIDTHS * np.exp(-0.022 * years)])
    widths, covered = [], []
    for _ in range(n_tables):
        people = np.searchsorted(np.cumsum(profile / profile.sum()), rng.uniforms(240))
        table = cg.Table(p12.schema, np.bincount(people, minlength=46).reshape(2, 23))
        law = mechanism.plan(mechanism.disclose(table)).law
        truths = [statistic.values(table.counts.reshape(1, -1))[0] for statistic in statistics]
        for released in mechanism.law(table).sample(n_releases, rng):
            intervals = confidences(law, {None: released}, statistics)
            widths.append([interval.high - interval.low for interval in intervals])
            covered.append(
                [interval.low <= truth <= interval.high for interval, truth in zip(intervals, truths, strict=True)]
            )
    print(f"\n{budget}: mean width of 90 % intervals, and how many of {len(widths)} cover")
    for query, width, share in zip(QUERIES, np.mean(widths, axis=0), np.mean(covered, axis=0), strict=True):
        print(f"  {query}: {width:.1f}, {share:.0%}")


if __name__ == "__main__":
    main()
