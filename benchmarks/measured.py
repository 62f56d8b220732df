"""Noise on the lattice beside raw exact noise of as many cells, and the rule: CPU time of one run, as ratios.

    python benchmarks/measured.py [--units 20000] [--repeat 9] [--data folder]

Every line is measured in one process, by turns, and the median of the turns is taken: other work on the machine falls
on both sides. With --data the same is done for what a release of all US counties adds noise to.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from counties import county_tables
from numpy.typing import NDArray

import congenial as cg
from congenial.conditions.base import Condition
from congenial.examples import p12_mechanism, p12_schema
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.plan import Plan

MOST_RATIO = 2.0
"""How many times raw noise of the same number of cells the noise of a measured release may take."""
BUDGETS: dict[str, dict[str, str]] = {
    "Double Geometric, epsilon 1": {"epsilon": "1"},
    "Double Geometric, epsilon 1/10": {"epsilon": "1/10"},
    "discrete Gaussian, rho 1/2": {"rho": "1/2", "noise": "discrete_gaussian"},
    "discrete Gaussian, rho 1/100": {"rho": "1/100", "noise": "discrete_gaussian"},
}
Counts = NDArray[np.int64]


def by_turns(calls: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Return the median CPU seconds of each call, all of them timed one after another in every turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeat):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: float(np.median(some)) for name, some in times.items()}


def plan_of(counts: Counts, invariants: list[Condition], budget: dict[str, str]) -> Plan:
    """Return the plan of a measured release of areas (area, cell)."""
    schema = p12_schema()
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=invariants, method="measured", **budget)
    tables = {f"{number:06}": cg.Table(schema, line.reshape(schema.shape)) for number, line in enumerate(counts)}
    return mechanism.plan(mechanism.disclose(tables))


def structures() -> Iterator[tuple[str, list[Condition]]]:
    """Go through what is exact: P12's three sums, and a total alone."""
    yield "P12: total, women, voting age", list(p12_mechanism().invariants)
    yield "one sum of 46 cells", [cg.total()]


def only_kind(plan: Plan) -> NoiseKind:
    """Return the one kind of noise that all areas of these plans have."""
    assert isinstance(plan.drawing, MeasurementDrawing)
    (kind,) = plan.drawing.kinds
    return kind


def noise_ratio(plan: Plan, n_units: int, repeat: int) -> tuple[float, float]:
    """Return the CPU microseconds of a unit's noise, and of raw noise for as many cells."""
    kind, rng = only_kind(plan), cg.secure_rng()
    sampler, noise = kind.choice.sampler, plan.law.measured[0].noise
    times = by_turns(
        {
            "lattice": lambda: sampler.draw(rng.keyed(n_units)),
            "raw": lambda: noise.sample(len(kind.rows) * n_units, rng),
        },
        repeat,
    )
    return 1e6 * times["lattice"] / n_units, 1e6 * times["raw"] / n_units


def people(n_areas: int, mean: int, *, is_rough: bool) -> Counts:
    """Return simulated areas (area, cell) with a mean number of people in a cell: all alike, or as uneven as blocks."""
    dice = np.random.default_rng([n_areas, mean, is_rough])
    rates = dice.gamma(0.7, 1 / 0.7, (n_areas, 46)) if is_rough else np.ones((n_areas, 46))
    return dice.poisson(mean * rates)


def rule_times(n_areas: int, repeat: int) -> None:
    """Print the CPU time of noise and rule for areas of few and of many people: neither may depend on them."""
    print(f"{n_areas:,} areas of 46 cells, P12's sums exact, epsilon 1: CPU microseconds an area")
    invariants = list(p12_mechanism().invariants)
    for is_rough in (False, True):
        for mean in (1, 5, 20, 200):
            counts, rng = people(n_areas, mean, is_rough=is_rough), cg.secure_rng()
            plan = plan_of(counts, invariants, {"epsilon": "1"})
            measurements = plan.draw(counts, rng)
            times = by_turns(
                {
                    "noise and addition": lambda p=plan, c=counts, r=rng: p.draw(c, r),  # type: ignore[misc]
                    "rule": lambda p=plan, m=measurements: p.decide(m),  # type: ignore[misc]
                },
                repeat,
            )
            shown = ", ".join(f"{name} {1e6 * seconds / n_areas:.1f}" for name, seconds in times.items())
            print(f"  {'rough' if is_rough else 'smooth'}, {mean} people a cell: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=20_000)
    parser.add_argument("--areas", type=int, default=4_000)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--data", type=Path, help="folder with p12_dec2010_county_long.csv.gz")
    options = parser.parse_args()
    print(f"noise of a unit, CPU microseconds, {options.units:,} units a turn: on the lattice, raw, ratio")
    counts = people(2, 20, is_rough=False)
    for name, invariants in structures():
        for law, budget in BUDGETS.items():
            plan = plan_of(counts, invariants, budget)
            lattice, raw = noise_ratio(plan, options.units, options.repeat)
            verdict = "" if lattice <= MOST_RATIO * raw else f"  ABOVE {MOST_RATIO}"
            head = f"  {name:31}{law:32}{only_kind(plan).choice.sampler.name:13}"
            print(f"{head}{lattice:8.2f}{raw:8.2f}{lattice / raw:7.2f}{verdict}", flush=True)
    rule_times(options.areas, options.repeat)
    if options.data is not None:
        tables = county_tables(options.data)
        plan = plan_of(tables, list(p12_mechanism().invariants), {"epsilon": "1"})
        times = by_turns({"noise": lambda: plan.draw(tables, cg.secure_rng())}, options.repeat)
        measurements = plan.draw(tables, cg.secure_rng())
        times |= by_turns({"rule": lambda: plan.decide(measurements)}, options.repeat)
        shown = ", ".join(f"{name} {1e6 * seconds / len(tables):.1f}" for name, seconds in times.items())
        print(f"{len(tables):,} counties of the 2010 Census, CPU microseconds each: {shown}")


if __name__ == "__main__":
    main()
