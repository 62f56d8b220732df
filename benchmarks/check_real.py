"""Checks on real public tables: `make check-real DATA=folder`. Exits with an error when one fails."""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from counties import county_tables

import congenial as cg
from congenial.baselines.baseline import Problem, noisy_answers
from congenial.baselines.projection import L2Projection
from congenial.baselines.topdown import TopDown
from congenial.examples import p12_mechanism, p12_schema
from congenial.sampling.contraction import messages as exact


def check_counties(folder: Path) -> bool:
    """Every county: one exact draw, one projection and one TopDown table, each held to every invariant."""
    centres, schema, mechanism = county_tables(folder), p12_schema(), p12_mechanism()
    rng = cg.secure_rng()
    # One plan serves all tables of a structure.
    engine = exact.engine_of(mechanism.law(cg.Table(schema, centres[0].reshape(schema.shape))).target)
    draws = exact.sample_batch(engine, centres, rng)
    broken = {"congenial": 0, "L2 projection": 0, "TopDown": 0}
    start = time.perf_counter()
    for number, counts in enumerate(centres, 1):
        table = cg.Table(schema, counts.reshape(schema.shape))
        problem = Problem.of(mechanism, mechanism.disclose(table))
        answers = noisy_answers(problem, table, 1, rng)[0]
        broken["congenial"] += not problem.constraints.holds(draws[number - 1])
        projected = L2Projection().repair(problem, answers)
        broken["L2 projection"] += problem.polytope.farthest(projected) > 1e-9 * (1 + np.abs(projected).max())
        whole = TopDown().repair(problem, answers)
        broken["TopDown"] += not problem.constraints.holds(whole) or whole.min() < 0
        if number % 500 == 0:
            print(f"  {number:,} of {len(centres):,} counties, {time.perf_counter() - start:.0f} s", flush=True)
    for method, count in broken.items():
        print(f"{method}: {len(centres):,} counties, {count} with a broken invariant")
    return not any(broken.values())


def main() -> None:
    """Run every check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with p12_dec2010_county_long.csv.gz")
    sys.exit(0 if check_counties(parser.parse_args().data) else 1)


if __name__ == "__main__":
    main()
