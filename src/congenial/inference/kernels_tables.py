"""Small steps of tables that keep every equality, under Poisson counts, the release's noise and a surrogate for c(s).

The surrogate ``prod_i G(s_i)`` sums the noise of every cell by itself, tilted so that published sums are met on average
(`tilt`). What it misses is decided by the normaliser itself, once for all steps of a sweep.
"""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import Steps, Words, below, uniform
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import NEVER


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
    widest = np.diff(steps.move).max()
    picked, by = np.empty(widest, np.int64), np.empty(widest, np.int64)
    for _ in range(n_steps):
        c = below(steps.move.size - 1, chance)
        size = int(math.exp(uniform(chance) * math.log(steps.longest[c] + 1.0)))
        size = size if uniform(chance) < 0.5 else -size
        n = steps.move[c + 1] - steps.move[c]
        is_possible, gain = True, 0.0
        for m in range(n):
            member = steps.move[c] + m
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
    gain: Floats,  # (table) how much the surrogate has grown
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


# Stand-ins for the normaliser: the noise of each cell by itself, tilted so that published sums are met on average.
#
# ``G_s(q) = sum_t h(t) k(t - s) q^t`` over the counts t from the cell's lower limit on, where h is the floor at the
# limit and ``log q`` adds up what the equalities of the cell say. A surrogate may be rough: the normaliser decides in
# the end.

_SWEEPS = 12
_LONGEST = 0.3  # step of a tilt
_STEEPEST = 3.0


@kernel
def _moments(
    linear: float, quadratic: float, floor: float, room: int, reach: int, tilt: float
) -> tuple[float, float, float]:
    """Return log mass, mean and variance of a deviation that goes down to ``-room`` at most."""
    mass, first, second = 0.0, 0.0, 0.0
    for x in range(-min(room, reach), reach + 1):
        weight = math.exp(linear * abs(x) + quadratic * x * x + tilt * x)
        if x == -room:
            weight *= floor
        mass += weight
        first += x * weight
        second += x * x * weight
    mean = first / mass
    return math.log(mass), mean, max(second / mass - mean * mean, 1e-12)


@kernel
def settle(
    steps: Steps,
    zero_weights: Floats,  # (cell) weight of the lower limit
    reach: Ints,  # (cell) how far the noise goes
    equality: Ints,  # (equality + 1) first entry of each
    cell: Ints,  # (entry)
    coefficient: Ints,  # (entry)
    one_of: Ints,  # (kind) a cell of that kind
    counts: Ints,  # (table, cell) what stands in for the confidential tables
    log_mass: Floats,  # (table, kind, count above the limit)
    slope: Floats,  # (table, kind)
) -> None:
    """Find the tilts of each table by steps of Newton's method, an equality at a time; tabulate the surrogates."""
    n_cells, n_rows = counts.shape[1], equality.size - 1
    for a in range(counts.shape[0]):
        tilt = np.zeros(n_cells)
        for _ in range(_SWEEPS):
            farthest = 0.0
            for r in range(n_rows):
                total, spread = 0.0, 0.0
                for entry in range(equality[r], equality[r + 1]):
                    i, w = cell[entry], coefficient[entry]
                    if steps.lower[i] == steps.upper[i]:
                        continue
                    down = reach[i] if steps.floor[i] == -NEVER else counts[a, i] - steps.floor[i]
                    most = _steepest(steps, i)
                    bounded = min(most, max(-most, tilt[i]))
                    _, mean, variance = _moments(
                        steps.linear[i], steps.quadratic[i], zero_weights[i], down, reach[i], bounded
                    )
                    total += w * mean
                    spread += w * w * variance
                if spread <= 0.0:
                    continue
                step = min(_LONGEST, max(-_LONGEST, -total / spread))
                farthest = max(farthest, abs(step))
                for entry in range(equality[r], equality[r + 1]):
                    tilt[cell[entry]] += step * coefficient[entry]
            if farthest < 1e-3:
                break
        for k in range(one_of.size):
            i = one_of[k]
            most = _steepest(steps, i)
            bounded = min(most, max(-most, tilt[i]))
            slope[a, k] = bounded
            for x in range(log_mass.shape[2]):
                log_weight, _, _ = _moments(steps.linear[i], steps.quadratic[i], zero_weights[i], x, reach[i], bounded)
                log_mass[a, k, x] = log_weight + bounded * x


@kernel
def _steepest(steps: Steps, i: int) -> float:
    """Return the largest tilt under which the noise of a cell can still be summed up."""
    if steps.quadratic[i] < 0.0:
        return _STEEPEST
    return 0.9 * min(_STEEPEST, float(-steps.linear[i]))
