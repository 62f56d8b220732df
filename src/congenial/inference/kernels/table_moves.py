"""Small steps of tables that keep every equality, under Poisson counts, the release's noise and a stand-in for c(s).

The stand-in ``prod_i G(s_i)`` sums the noise of every cell by itself, tilted so that published sums are met on average
(`tilt`). What it misses is decided by the normaliser itself, once for all steps of a sweep.
"""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.chance import below, uniform
from congenial.inference.kernels.shapes import Steps, Words
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.codes import NEVER


@kernel
def stand_in(steps: Steps, i: int, count: int, log_mass: Floats, slope: Floats) -> float:
    """Return log G of one cell's count."""
    if steps.floor[i] == -NEVER:
        return 0.0
    kind, place = steps.kind[i], count - steps.floor[i]
    last = log_mass.shape[1] - 1
    if place <= last:
        return float(log_mass[kind, place])
    return float(log_mass[kind, last] + slope[kind] * (place - last))


@kernel
def log_stand_in(steps: Steps, counts: Ints, log_mass: Floats, slope: Floats) -> float:
    """Return log G of a table."""
    total = 0.0
    for i in range(counts.size):
        total += stand_in(steps, i, counts[i], log_mass, slope)
    return total


@kernel
def move_table(
    steps: Steps,
    released: Ints,
    eta: Floats,
    has_noise: bool,
    has_counts: bool,
    log_mass: Floats,  # (kind, count above the limit)
    slope: Floats,  # (kind)
    n_steps: int,
    counts: Ints,
    chance: Words,
) -> None:
    """Try some random steps of one table, under Poisson counts, noise, both, or neither: all tables alike."""
    n_rows = steps.row_linear.size
    value, change = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for i in range(counts.size):
        for entry in range(steps.column[i], steps.column[i + 1]):
            row = steps.row[entry]
            value[row] += steps.coefficient[entry] * counts[i]
            change[row] -= steps.coefficient[entry] * released[i]
    centre = -change
    change[:] = 0
    widest = np.diff(steps.circuit).max()
    picked, by = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for _ in range(n_steps):
        c = below(steps.circuit.size - 1, chance)
        size = int(math.exp(uniform(chance) * math.log(steps.longest[c] + 1.0)))
        size = size if uniform(chance) < 0.5 else -size
        n = steps.circuit[c + 1] - steps.circuit[c]
        is_possible, gain = True, 0.0
        for m in range(n):
            member = steps.circuit[c] + m
            start = steps.member[member]
            i = steps.cell[start + below(steps.member[member + 1] - start, chance)]
            picked[m], by[m] = i, size * steps.weight[member]
            for other in range(m):
                is_possible &= picked[other] != i
            new = counts[i] + by[m]
            is_possible &= steps.lower[i] <= new <= steps.upper[i]
            if is_possible:
                if has_counts:
                    gain += eta[i] * by[m] + math.lgamma(counts[i] + 1.0) - math.lgamma(new + 1.0)
                if has_noise:
                    before, after = float(abs(counts[i] - released[i])), float(abs(new - released[i]))
                    gain += steps.linear[i] * (after - before)
                    gain += steps.quadratic[i] * (after * after - before * before)
                    gain -= stand_in(steps, i, new, log_mass, slope)
                    gain += stand_in(steps, i, counts[i], log_mass, slope)
        coin = math.log(uniform(chance))
        if not is_possible:
            continue
        if n_rows:
            for m in range(n):
                for entry in range(steps.column[picked[m]], steps.column[picked[m] + 1]):
                    change[steps.row[entry]] += steps.coefficient[entry] * by[m]
            for m in range(n):
                for entry in range(steps.column[picked[m]], steps.column[picked[m] + 1]):
                    row = steps.row[entry]
                    if change[row] == 0:
                        continue
                    new = value[row] + change[row]
                    is_possible &= steps.row_lower[row] <= new <= steps.row_upper[row]
                    if has_noise:
                        before, after = float(abs(value[row] - centre[row])), float(abs(new - centre[row]))
                        gain += steps.row_linear[row] * (after - before)
                        gain += steps.row_quadratic[row] * (after * after - before * before)
                    change[row], value[row] = 0, new  # once, though several cells may be in the row
            if not (is_possible and coin < gain):
                for m in range(n):
                    for entry in range(steps.column[picked[m]], steps.column[picked[m] + 1]):
                        value[steps.row[entry]] -= steps.coefficient[entry] * by[m]
        if is_possible and coin < gain:
            for m in range(n):
                counts[picked[m]] += by[m]


@kernel
def move_tables(
    steps: Steps,
    released: Ints,  # (table, cell)
    eta: Floats,  # (table, cell)
    has_noise: bool,
    has_counts: bool,
    log_mass: Floats,  # (table, kind, count above the limit)
    slope: Floats,  # (table, kind)
    n_steps: int,
    n_words: int,
    first: int,
    counts: Ints,  # (table, cell)
    gain: Floats,  # (table) how much the stand-in has grown
    chance: Words,
) -> int:
    """Try some steps of each table; return the table before which words may run out."""
    for a in range(first, counts.shape[0]):
        if chance.words.size - chance.used[0] < n_words:
            return a
        before = log_stand_in(steps, counts[a], log_mass[a], slope[a])
        move_table(steps, released[a], eta[a], has_noise, has_counts, log_mass[a], slope[a], n_steps, counts[a], chance)
        gain[a] = log_stand_in(steps, counts[a], log_mass[a], slope[a]) - before
    return int(counts.shape[0])
