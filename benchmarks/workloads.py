"""Several tables decided as records: errors, exact numbers, seconds and memory, against what they should be.

    PYTHONPATH=tests python benchmarks/workloads.py [PART ...] [--runs 3] [--data FOLDER]

The parts `adult`, `cells` and `wide` take the file micro_adult_uci.parquet of the folder; `later` does as well, beside
made-up people. An error is the mean absolute error of a cell, averaged over tables of a kind; seconds are of the
processor.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from pathlib import Path

import duckdb
import numpy as np

import congenial as cg
from congenial.arrays import Floats, Ints
from congenial.noise.families import DiscreteGaussian, DoubleGeometric
from congenial.randomness import RandomStream, replay_rng
from congenial.rules.workload.margins import Axes, count_records
from congenial.rules.workload.measurements import WorkloadMeasurements
from congenial.rules.workload.records import lacking_conditions
from congenial.rules.workload.rule import WorkloadResult, decide
from congenial.workload.estimates import table_columns
from made_up_workloads import (
    DIAGNOSIS_SEX,
    HEALTH_EXACT,
    HEALTH_SIZES,
    HEALTH_TABLES,
    People,
    health_people,
    health_precisions,
    health_zeros,
    measure,
    normals,
)

Errors = dict[str, list[float]]


def error(people: People, tables: Iterable[tuple[Axes, Floats | Ints]]) -> float:
    return float(np.mean([np.abs(table - people.table(axes)).mean() for axes, table in tables]))


def counts(people: People, result: WorkloadResult, axes: Iterable[Axes]) -> float:
    return error(people, [(some, count_records(result.records, people.sizes, some)) for some in axes])


def timed(work: Callable[[], WorkloadResult]) -> tuple[WorkloadResult, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def show(title: str, errors: Errors, limits: dict[str, float] | None = None) -> bool:
    print(f"\n{title}")
    is_good = True
    for name, values in errors.items():
        limit = (limits or {}).get(name)
        # Seconds: the first run may compile.
        mean = float(np.mean(values[1:] if "seconds" in name and len(values) > 1 else values))
        is_met = limit is None or mean <= limit
        is_good &= is_met
        words = "" if limit is None else f"   at most {limit}{'' if is_met else '   TOO MUCH'}"
        print(f"  {name:<44}{mean:9.3f}{words}", flush=True)
    return is_good


def note(errors: Errors, **values: float) -> None:
    for name, value in values.items():
        errors.setdefault(name.replace("_", " "), []).append(value)


def basics(errors: Errors, people: People, measured: WorkloadMeasurements, result: WorkloadResult, cpu: float) -> None:
    axes = list(dict.fromkeys(measured.axes))
    targets = [(some, result.targets[some]) for some in axes]
    note(
        errors,
        plain_noise=error(people, zip(measured.axes, measured.values, strict=True)),
        least_squares=error(people, [(some, result.estimates.table(some)) for some in axes]),
        targets=error(people, targets),
        records=counts(people, result, axes),
        records_over_targets=counts(people, result, axes) / error(people, targets),
        exact_numbers_missed=float(len(lacking_conditions(measured, result.records))),
        misfit_over_cells=float(np.mean([one.squares / one.n_cells for one in result.facts.misfits])),
        seconds=cpu,
        gigabytes=memory(),
    )


def with_conditioned_sexes(
    people: People, measured: WorkloadMeasurements, precision: float, rng: RandomStream
) -> WorkloadMeasurements:
    """Return measurements whose diagnosis by sex has Double Geometric noise conditioned on diagnoses, drawn exactly.

    What is added to women is taken from men, so that the noise is z and -z with weights ``exp(-2 precision |z|)``: less
    than what is left of independent noise. Of the other two tables noise stays independent.
    """
    noise = DoubleGeometric(f"{2 * precision:.9f}")
    drawn = np.asarray(noise.sample(12, rng))
    place = measured.axes.index(DIAGNOSIS_SEX)
    values, variances = list(measured.values), list(measured.variances)
    values[place] = people.table(DIAGNOSIS_SEX) + np.stack([drawn, -drawn])
    variances[place] = 2 * float(noise.variance)  # in directions that sum to zero, which alone count
    return replace(measured, values=tuple(values), variances=tuple(variances))


def health(runs: int, _: Path | None) -> bool:
    is_good = True
    rng = replay_rng("health")
    people = health_people(rng)
    goals = {("rho", 0.5): (1.9, 2.5, 1.3), ("epsilon", 2.0): (3.0, 5.4, 1.6)}
    for (kind, budget), limits in goals.items():
        errors: Errors = {}
        for run in range(runs):
            measured = measure(
                people,
                health_precisions(budget, kind),
                rng,
                ((), *HEALTH_EXACT),
                (health_zeros(),),
                DiscreteGaussian if kind == "rho" else DoubleGeometric,
                run.to_bytes(32, "big"),
            )
            if kind == "epsilon":
                measured = with_conditioned_sexes(people, measured, budget / 6, rng)
            result, cpu = timed(lambda measured=measured: decide(measured, HEALTH_TABLES))
            basics(errors, people, measured, result, cpu)
            for axes in HEALTH_TABLES:
                note(errors, **{f"table {axes}": counts(people, result, [axes])})
                note(errors, **{f"target {axes}": error(people, [(axes, result.targets[axes])])})
            note(errors, unmeasured_age_by_diagnosis=counts(people, result, [(1, 3)]))
            sexes = [count_records(result.records, people.sizes, (2,))] + [
                table.sum(axis=tuple(place for place, axis in enumerate(axes) if axis != 2))
                for axes, table in result.tables.items()
                if 2 in axes
            ]
            note(errors, tables_that_disagree=float(any((some != sexes[0]).any() for some in sexes)))
        names = {f"table {axes}": limit for axes, limit in zip(HEALTH_TABLES, limits, strict=True)}
        names |= {"exact numbers missed": 0, "tables that disagree": 0, "records over targets": 1.03}
        is_good &= show(f"health, {kind} {budget}, {runs} runs", errors, names)
    return is_good


def released(runs: int, _: Path | None) -> bool:
    """Through `Workload`: noise drawn exactly and conditioned, at the noise above and calibrated to exchanges."""
    is_good = True
    people = health_people(replay_rng("health"))
    names = ("county", "age", "sex", "diagnosis")
    dimensions = {name: [f"{name} {n}" for n in range(size)] for name, size in zip(names, HEALTH_SIZES, strict=True)}
    zeros = [
        cg.structural_zeros({"diagnosis": f"diagnosis {diagnosis}", "sex": f"sex {sex}"})
        for diagnosis, sex in ((10, 1), (11, 0))
    ]
    exact = [cg.margin("county"), cg.margin("diagnosis"), *zeros]
    schema = cg.RecordSchema(dimensions)
    records = cg.Records.of_cells(schema, np.ravel_multi_index(tuple(people.records.T), HEALTH_SIZES))
    cases: list[tuple[str, dict[str, str], Sequence[str], tuple[float, ...] | None]] = [
        ("rho 1/2, nominal", {}, ("1/6", "1/12", "1/6"), (1.9, 2.5, 1.3)),
        ("epsilon 2, nominal", {}, ("1/3", "1/6", "1/3"), (3.0, 5.4, 1.6)),
        ("rho 1/2, two that exchange, shares 2:1:2", {"rho": "1/2"}, ("2", "1", "2"), (2.5, 3.2, 1.7)),
        ("epsilon 2, two that exchange, shares 2:1:2", {"epsilon": "2"}, ("2", "1", "2"), (5.0, 8.7, 3.1)),
        ("rho 1/2, two that exchange, equal shares", {"rho": "1/2"}, ("1", "1", "1"), None),
        ("epsilon 2, two that exchange, equal shares", {"epsilon": "2"}, ("1", "1", "1"), None),
    ]
    for title, budget, numbers, limits in cases:
        noise = "double_geometric" if title.startswith("epsilon") else "discrete_gaussian"
        key = "portion" if budget else "precision"
        tables = {
            " x ".join(names[axis] for axis in axes): cg.margin(*(names[axis] for axis in axes), **{key: number})
            for axes, number in zip(HEALTH_TABLES, numbers, strict=True)
        }
        workload = cg.Workload(schema, tables=tables, invariants=exact, noise=noise, **budget)
        plan = workload.plan(workload.disclose(records))
        counts_of, truth = workload.counts_of(records), [people.table(axes).reshape(-1) for axes in HEALTH_TABLES]
        print(f"\n{title}: {', '.join(f'{one.text} {float(one.amount or 0):.3f}' for one in plan.prices)}")
        rng, errors = replay_rng(f"released {title}"), Errors()
        for _run in range(runs):
            measured = plan.draw(counts_of, rng)
            start = time.process_time()
            decision = plan.decide(measured)
            seconds = time.process_time() - start
            plan.check_exact_numbers(decision.records)
            columns = table_columns(plan, measured, decision.tables) if _run < _COVERED else ()
            for place, (table, right) in enumerate(zip(decision.tables, truth, strict=True)):
                note(errors, **{f"table {place + 1}": float(np.abs(table.reshape(-1) - right).mean())})
                if columns:
                    inside = (columns[place].low <= right) & (right <= columns[place].high)
                    near = (columns[place].estimate_low <= right) & (right <= columns[place].estimate_high)
                    note(errors, **{f"inside measured interval {place + 1}": float(inside.mean())})
                    note(errors, **{f"inside estimate's interval {place + 1}": float(near.mean())})
            note(errors, seconds=seconds)
        goals = {} if limits is None else {f"table {n + 1}": limit for n, limit in enumerate(limits)}
        is_good &= show(f"{title}, {runs} runs", errors, goals)
    return is_good


_COVERED = 20  # runs whose intervals are looked at


def adult(folder: Path, n_attributes: int) -> People:
    """Read six attributes of Adult, or as many as are named of thirteen."""
    few = ("sex", "income", "age6", "marital_status", "education4", "race")
    many = (
        *("sex", "income", "age12", "marital_status", "education_num", "race", "workclass", "relationship", "hours7"),
        *("occupation", "gain", "loss", "native"),
    )
    bounds = {
        "age6": ("age", (24, 34, 44, 54, 64)),
        "age12": ("age", (19, 24, 29, 34, 39, 44, 49, 54, 59, 64, 74)),
        "education4": ("education_num", (8, 9, 12)),
        "hours7": ("hours_per_week", (19, 34, 39, 40, 49, 59)),
    }
    signs = {"gain": "capital_gain > 0", "loss": "capital_loss > 0", "native": "native_country = 'United-States'"}
    path = str(folder / "micro_adult_uci.parquet")
    columns = []
    for name in few if n_attributes == 6 else many[:n_attributes]:
        source, cuts = bounds.get(name, (signs.get(name, name), ()))
        values = duckdb.execute(f"SELECT {source} AS value FROM read_parquet(?)", [path]).fetchnumpy()["value"]
        if cuts:
            columns.append(np.searchsorted(cuts, np.asarray(values)))
        else:
            texts = np.array([str(value) for value in np.ma.filled(values, -1).tolist()])
            columns.append(np.unique(texts, return_inverse=True)[1].reshape(-1))
    records = np.stack(columns, axis=1).astype(np.int64)
    return People(records, tuple(int(size) + 1 for size in records.max(axis=0)))


def pairs(n: int) -> list[Axes]:
    return list(combinations(range(n), 2))


def adult_pairs(runs: int, folder: Path | None) -> bool:
    assert folder is not None
    people, is_good = adult(folder, 6), True
    tables = pairs(6)
    for rho, limit in ((1.0, 2.4), (0.5, None), (0.1, 7.8), (0.01, None)):
        rng, errors = replay_rng(f"adult {rho}"), Errors()
        for run in range(runs):
            precisions = dict.fromkeys(tables, rho / 15)
            measured = measure(people, precisions, rng, seed=run.to_bytes(32, "big"))
            result, cpu = timed(lambda measured=measured: decide(measured))
            basics(errors, people, measured, result, cpu)
            note(errors, unmeasured_three_ways=counts(people, result, combinations(range(6), 3)))
        names = {"seconds": 2.0, "records over targets": 1.03, **({"records": limit} if limit else {})}
        is_good &= show(f"Adult, 15 two-ways, rho {rho}, {runs} runs", errors, names)
    return is_good


def adult_cells(runs: int, folder: Path | None) -> bool:
    assert folder is not None
    people, is_good = adult(folder, 6), True
    every = tuple(range(6))
    for rho, share, limits in ((1.0, 0.1, (2.5, 5.3, 0.7)), (0.1, 0.1, None), (1.0, 0.3, None)):
        rng, errors = replay_rng(f"cells {rho} {share}"), Errors()
        for run in range(runs):
            precisions = {**dict.fromkeys(pairs(6), rho * (1 - share) / 15), every: rho * share}
            measured = measure(people, precisions, rng, seed=run.to_bytes(32, "big"))
            result, cpu = timed(lambda measured=measured: decide(measured))
            for n in (1, 2, 3, 4, 6):
                note(errors, **{f"{n}-way": counts(people, result, combinations(range(6), n))})
            fit = result.targets[every]
            note(
                errors,
                fit_3_way=error(
                    people,
                    [(axes, fit.sum(axis=tuple(a for a in every if a not in axes))) for axes in combinations(every, 3)],
                ),
            )
            note(errors, fit_cells=error(people, [(every, fit)]), seconds=cpu)
        names = dict(zip(("2-way", "3-way", "6-way"), limits, strict=True)) if limits else {}
        is_good &= show(f"Adult, two-ways and cells at {share}, rho {rho}, {runs} runs", errors, names)
    return is_good


def wide(runs: int, folder: Path | None) -> bool:
    assert folder is not None
    is_good = True
    for n, limit in ((10, 4.2), (13, 5.3)):
        people, tables = adult(folder, n), pairs(n)
        rng, errors = replay_rng(f"wide {n}"), Errors()
        three = list(combinations(range(n), 3))
        some = [three[int(place)] for place in rng.below(np.full(40, len(three)))]
        for run in range(min(runs, 2)):
            measured = measure(people, dict.fromkeys(tables, 1 / len(tables)), rng, seed=run.to_bytes(32, "big"))
            result, cpu = timed(lambda measured=measured: decide(measured))
            basics(errors, people, measured, result, cpu)
            note(errors, unmeasured_three_ways=counts(people, result, some))
        names = {"records": limit, "seconds": 15.0, "gigabytes": 0.5, "records over targets": 1.03}
        title = f"Adult, {n} attributes, {prod(people.sizes):.1e} cells, {len(tables)} two-ways, rho 1"
        is_good &= show(title, errors, names)
    return is_good


def hidden_classes(shape: tuple[int, ...], n: int) -> People:
    """Return made-up people whose attributes go with one of five classes that nobody sees."""
    rng = replay_rng(f"hidden classes {shape}")
    classes = rng.below(np.full(n, 5))
    waits = [-np.log1p(-rng.uniforms(n)) * (1 + 0.6 * classes) * size / 5 for size in shape]
    columns = [np.minimum(some.astype(np.int64), size - 1) for some, size in zip(waits, shape, strict=True)]
    return People(np.stack(columns, axis=1), shape)


def sizes(_: int, __: Path | None) -> bool:
    is_good = True
    for shape in ((6, 6, 6, 5), (10,) * 5, (10,) * 6, (10,) * 7):
        rng, errors = replay_rng(f"sizes {shape}"), Errors()
        people = hidden_classes(shape, 100_000)
        tables = pairs(len(shape))
        measured = measure(people, dict.fromkeys(tables, 0.5 / len(tables)), rng)
        result, cpu = timed(lambda measured=measured: decide(measured))
        basics(errors, people, measured, result, cpu)
        title = f"{prod(shape):,} cells, {len(tables)} two-ways, 100,000 records, rho 1/2"
        is_good &= show(title, errors, {"seconds": 15.0, "gigabytes": 1.0, "records over targets": 1.03})
    return is_good


def adult_like(rng: RandomStream, n: int = 48_842) -> People:
    """Made-up records of the sizes of six attributes of Adult: log-linear, with effects of every two attributes."""
    sizes = (2, 2, 6, 7, 4, 5)
    log = np.zeros(sizes)
    for axes in [*((axis,) for axis in range(6)), *pairs(6)]:
        shape = tuple(size if axis in axes else 1 for axis, size in enumerate(sizes))
        log += (0.8 if len(axes) == 1 else 0.4) * normals(shape, rng)
    ends = np.cumsum(np.exp(log).reshape(-1))
    cells = np.searchsorted(ends, rng.uniforms(n) * ends[-1], side="right")
    return People(np.stack(np.unravel_index(cells, sizes), axis=1).astype(np.int64), sizes)


def later(runs: int, folder: Path | None) -> bool:
    """Five two-way tables first, then ten that keep or revise them; made-up people where there are no data."""
    is_good = _later("made-up people", adult_like(replay_rng("people like Adult")), runs)
    return is_good if folder is None else is_good & _later("Adult", adult(folder, 6), runs)


def _later(title: str, people: People, runs: int) -> bool:
    first = [(a, a + 1) for a in range(5)]
    second = [axes for axes in pairs(6) if axes not in first]
    rng, errors = replay_rng("later"), Errors()
    for run in range(runs):
        seed = run.to_bytes(32, "big")
        earlier = measure(people, dict.fromkeys(first, 1 / 15), rng, seed=seed)
        before = decide(earlier)
        new = measure(people, dict.fromkeys(second, 1 / 15), rng, seed=seed)
        both = WorkloadMeasurements(
            people.sizes,
            (*earlier.axes, *new.axes),
            (*earlier.values, *new.values),
            (*earlier.variances, *new.variances),
            earlier.exact,
            seed=seed,
        )
        kept, cpu = timed(
            lambda both=both, before=before: decide(both.with_exact(before.tables.items()), second, before.records)
        )
        revised = decide(both)
        note(
            errors,
            first_tables=counts(people, before, first),
            keep_deviations=float(
                sum(
                    np.abs(count_records(kept.records, people.sizes, axes) - before.tables[axes]).sum()
                    for axes in first
                )
            ),
            keep_targets=error(people, [(axes, kept.targets[axes]) for axes in second]),
            keep_later_tables=counts(people, kept, second),
            keep_seconds=cpu,
            revise_first_tables=counts(people, revised, first),
            revise_later_tables=counts(people, revised, second),
        )
    limits = {"keep deviations": 0, "keep later tables": 3.1, "revise first tables": 2.5, "revise later tables": 2.5}
    return show(f"{title}, five two-ways first and ten later, variance 15, {runs} runs", errors, limits)


PARTS: dict[str, Callable[[int, Path | None], bool]] = {
    "health": health,
    "released": released,
    "adult": adult_pairs,
    "cells": adult_cells,
    "wide": wide,
    "sizes": sizes,
    "later": later,
}
NEED_DATA = {"adult", "cells", "wide"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args(arguments)
    parts = options.parts or [name for name in PARTS if options.data or name not in NEED_DATA]
    missing = NEED_DATA & set(parts)
    if missing and not options.data:
        parser.error(f"{', '.join(sorted(missing))} need --data")
    results = [PARTS[name](options.runs, options.data) for name in parts]
    return 0 if min(results) else 1


if __name__ == "__main__":
    sys.exit(main())
