"""Records beside mbi (Private-PGM) on the same measurements: errors of measured tables, unmeasured ones beside.

    PYTHONPATH=tests python benchmarks/workloads_peer.py [--runs 3] [--iterations 1000 10000] [--data folder]

Needs the package mbi, which brings JAX; an environment of its own is best. mbi knows the total exactly and no other
exact number; its tables are fractions, so the targets of the rule, before they become records, stand beside. Nothing
was tuned on the made-up people of hidden classes.
"""

import argparse
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from workloads import Errors, adult, basics, counts, error, hidden_classes, note, pairs, show, timed

from congenial.arrays import Floats
from congenial.randomness import replay_rng
from congenial.rules.workload.margins import Axes
from congenial.rules.workload.measurements import WorkloadMeasurements
from congenial.rules.workload.rule import decide
from made_up_workloads import HEALTH_TABLES, People, health_people, measure

BEHIND = 1.06
"""How far behind a converged mbi measured tables may be."""


def mbi_tables(measured: WorkloadMeasurements, axes: list[Axes], n_iterations: int) -> tuple[list[Floats], float]:
    """Return mbi's estimates of some tables, in doubles, and the seconds of processor time."""
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    warnings.filterwarnings("ignore")
    import jax
    from mbi import Domain, LinearMeasurement, estimation

    jax.config.update("jax_enable_x64", True)
    start = time.process_time()
    domain = Domain([f"a{axis}" for axis in range(len(measured.sizes))], measured.sizes)
    rows = [
        LinearMeasurement(values.astype(float).ravel(), tuple(f"a{axis}" for axis in some), stddev=variance**0.5)
        for some, values, variance in zip(measured.axes, measured.values, measured.variances, strict=True)
    ]
    estimator = estimation.MirrorDescent()
    model = estimator.estimate(domain, rows, known_total=measured.total, iters=n_iterations)
    tables = [np.asarray(model.project(tuple(f"a{axis}" for axis in some)).datavector(flatten=False)) for some in axes]
    return tables, time.process_time() - start


def cases(folder: Path | None) -> Iterator[tuple[str, People, list[Axes]]]:
    if folder is not None:
        yield "Adult, 15 two-ways", adult(folder, 6), pairs(6)
    shape = (7, 3, 5, 9, 4, 2)
    yield "made-up people of hidden classes, 15 two-ways", hidden_classes(shape, 30_000), pairs(6)
    yield "made-up health records, no margin exact", health_people(replay_rng("peer")), list(HEALTH_TABLES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--iterations", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    for name, people, tables in cases(options.data):
        three = [axes for axes in ((0, 1, 2), (1, 2, 3), (0, 2, 3)) if axes not in tables]
        for rho in (1.0, 0.1):
            rng, errors = replay_rng(f"peer {name} {rho}"), Errors()
            for run in range(options.runs):
                precisions = dict.fromkeys(tables, rho / len(tables))
                measured = measure(people, precisions, rng, seed=run.to_bytes(32, "big"))
                result, cpu = timed(lambda measured=measured: decide(measured))
                basics(errors, people, measured, result, cpu)
                note(errors, unmeasured_three_ways=counts(people, result, three))
                for n in options.iterations:
                    estimates, cpu = mbi_tables(measured, [*tables, *three], n)
                    ours = list(zip([*tables, *three], estimates, strict=True))
                    values = {"tables": error(people, ours[: len(tables)]), "seconds": cpu}
                    values |= {"three ways": error(people, ours[len(tables) :])}
                    note(errors, **{f"mbi {n:,}: {kind}": value for kind, value in values.items()})
            last = float(np.mean(errors[f"mbi {options.iterations[-1]:,}: tables"]))
            show(f"{name}, rho {rho}, {options.runs} runs", errors, {"records": round(BEHIND * last, 3)})


if __name__ == "__main__":
    main()
