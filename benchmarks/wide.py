"""Wide tables with both margins exact, drawn by look-ahead rejection: acceptance, preparation and time a draw.

    python benchmarks/wide.py [--sizes 4x4,6x10] [--decisions 10000000]

Dense: a million people. Medium: about ten in a cell. Sparse: one in two cells, seven of ten cells empty. CPU seconds.
Beside the acceptance stands that of a first sketch in floats, where it was measured. With --decisions it makes so many
acceptance decisions instead, and says the largest chance among them less its tolerance.
"""

import argparse
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from congenial.arrays import Ints
from congenial.noise import FAMILIES
from congenial.randomness import replay_rng
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.target_and_system import System, SystemRow
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejection, TwoWayRejectionAt

SIZES = "4x4,6x10,10x10,20x20,23x60,50x50,100x100"
NOISES = (("double_geometric", "1/2"), ("discrete_gaussian", "1/25"))
FILLINGS = ("dense", "medium", "sparse")
MOST_SECONDS, MOST_DRAWS = 5.0, 200
SKETCH = {
    ("double_geometric", "4x4"): (0.97, 0.85, None),
    ("double_geometric", "6x10"): (0.92, 0.81, 0.6),
    ("double_geometric", "10x10"): (0.97, 0.77, 0.33),
    ("double_geometric", "20x20"): (0.85, 0.62, 0.11),
    ("double_geometric", "23x60"): (0.87, 0.59, 0.074),
    ("double_geometric", "50x50"): (0.79, 0.47, 0.056),
    ("discrete_gaussian", "4x4"): (1.0, None, None),
    ("discrete_gaussian", "6x10"): (1.0, None, 0.6),
    ("discrete_gaussian", "10x10"): (1.0, None, 0.32),
    ("discrete_gaussian", "20x20"): (1.0, None, 0.14),
    ("discrete_gaussian", "23x60"): (1.0, None, 0.056),
}


def counts_of(n_rows: int, n_columns: int, filling: str, seed: int = 1) -> Ints:
    """Return a made-up table."""
    rng = np.random.default_rng(seed)
    shape = n_rows, n_columns
    if filling == "dense":
        return rng.multinomial(10**6, rng.dirichlet(np.full(n_rows * n_columns, 20.0))).reshape(shape)
    mean = rng.gamma(1.0, 10.0, shape) if filling == "medium" else rng.gamma(0.5, 1.0, shape)
    return rng.poisson(mean)


def system_of(n_rows: int, n_columns: int, noise: str, precision: str) -> System:
    """Return the system of a two-way table with both margins exact."""
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    rows = tuple(SystemRow("equal", tuple((int(cell), 1) for cell in line)) for line in [*cells, *cells.T])
    weight = FAMILIES[noise](Fraction(precision)).weight
    n = cells.size
    return System((0,) * n, (None,) * n, (weight,) * n, rows)


def drawer_of(counts: Ints, noise: str, precision: str) -> TwoWayRejectionAt:
    """Return the sampler of both margins at a table."""
    sampler = TwoWayRejection.of(system_of(*counts.shape, noise, precision))
    if sampler is None:
        raise SystemExit("internal: a two-way table is no grid")
    return sampler.at(counts.reshape(-1).astype(np.int64))


def lines(sizes: list[str]) -> Iterator[str]:
    """Measure one table after another."""
    for noise, precision in NOISES:
        for size in sizes:
            for place, filling in enumerate(FILLINGS):
                n_rows, n_columns = map(int, size.split("x"))
                drawer = drawer_of(counts_of(n_rows, n_columns, filling), noise, precision)
                start = time.process_time()
                _ = drawer.attempts
                prepared = time.process_time()
                n_draws = 0
                while n_draws < MOST_DRAWS and time.process_time() - prepared < MOST_SECONDS:
                    drawer.sample(1, replay_rng(n_draws))
                    n_draws += 1
                seconds = (time.process_time() - prepared) / n_draws
                sketch = SKETCH.get((noise, size), (None,) * 3)[place]
                yield (
                    f"{noise:18} {size:>8} {filling:7} {drawer.acceptance:10.3f}"
                    f" {'-' if sketch is None else sketch:>7} {prepared - start:9.2f} {seconds:10.4f}"
                )


def against_contraction() -> Iterator[str]:
    """Draw small tables by both samplers in one run; CPU seconds of a first draw, bounds or messages included."""
    for noise, precision in NOISES:
        for size, mean in (("3x3", 10), ("3x3", 40), ("2x23", 10), ("2x23", 1000)):
            n_rows, n_columns = map(int, size.split("x"))
            counts = np.random.default_rng(2).poisson(mean, (n_rows, n_columns))
            system = system_of(n_rows, n_columns, noise, precision)
            centre = counts.reshape(-1).astype(np.int64)
            seconds = []
            for sampler in (EliminationSampler.of(system), TwoWayRejection.of(system)):
                if sampler is None or not sampler.is_exact:
                    seconds.append(float("nan"))
                    continue
                sampler.at(centre).sample(1, replay_rng(0))
                start = time.process_time()
                for number in range(5):
                    sampler.at(centre).sample(1, replay_rng(number))
                seconds.append((time.process_time() - start) / 5)
            ratio = seconds[0] / seconds[1]
            yield f"{noise:18} {size:>8} mean {mean:5} {seconds[0]:12.5f} {seconds[1]:12.5f} {ratio:10.2f}"


def growth() -> Iterator[str]:
    """Time a draw with cells, and with population; CPU seconds, bounds included."""
    sizes = [("10x10", 1e2), ("20x20", 1e2), ("40x40", 1e2), ("20x20", 1e3), ("20x20", 1e5), ("20x20", 1e7)]
    for size, people in sizes:
        n_rows, n_columns = map(int, size.split("x"))
        counts = np.random.default_rng(3).poisson(people, (n_rows, n_columns))
        drawer = drawer_of(counts, *NOISES[1])
        start = time.process_time()
        drawer.sample(10, replay_rng(1))
        yield f"{size:>8} {people:12,.0f} people a cell {(time.process_time() - start) / 10:10.4f}"


def decide(n_decisions: float) -> None:
    """Make acceptance decisions on tables of many kinds, and print the largest chance."""
    n, largest, seed = 0.0, 0.0, 0
    while n < n_decisions:
        noise, precision = NOISES[seed % 2]
        filling = FILLINGS[seed // 2 % 3]
        n_rows, n_columns = 3 + seed % 7, 3 + seed % 5
        drawer = drawer_of(counts_of(n_rows, n_columns, filling, seed), noise, precision)
        drawer.sample(20_000, replay_rng(seed))
        n += sum(float(attempt.chances[0]) for attempt in drawer.attempts)
        largest = max(largest, *(float(attempt.chances[1]) for attempt in drawer.attempts))
        seed += 1
    print(f"{n:,.0f} acceptance decisions on {seed} tables; the largest chance less its tolerance is {largest:.12f}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--decisions", type=float)
    arguments = parser.parse_args()
    drawer_of(counts_of(3, 3, "medium"), *NOISES[0]).sample(1, replay_rng(0))  # compile
    if arguments.decisions is not None:
        decide(arguments.decisions)
        return
    print(f"{'noise':18} {'size':>8} {'':10} {'contraction':>12} {'rejection':>12} {'ratio':>10}")
    for line in against_contraction():
        print(line, flush=True)
    print("time of a draw with size, and with population")
    for line in growth():
        print(line, flush=True)
    print(f"{'noise':18} {'size':>8} {'table':7} {'acceptance':>10} {'sketch':>7} {'prepare s':>9} {'draw s':>10}")
    for line in lines(arguments.sizes.split(",")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
