"""Stand-ins for the normaliser: the noise of each cell by itself, tilted so that published sums are met on average.

``G_s(q) = sum_t h(t) k(t - s) q^t`` over the counts t from the cell's lower limit on, where h is the floor at the limit
and ``log q`` adds up what the equalities of the cell say. A stand-in may be rough: the normaliser decides in the end.
"""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.shapes import Steps
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.codes import NEVER

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
    floors: Floats,  # (cell) weight of the lower limit
    reach: Ints,  # (cell) how far the noise goes
    equality: Ints,  # (equality + 1) first entry of each
    cell: Ints,  # (entry)
    coefficient: Ints,  # (entry)
    one_of: Ints,  # (kind) a cell of that kind
    counts: Ints,  # (table, cell) what stands in for the confidential tables
    log_mass: Floats,  # (table, kind, count above the limit)
    slope: Floats,  # (table, kind)
) -> None:
    """Find the tilts of each table by steps of Newton's method, an equality at a time; tabulate the stand-ins."""
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
                    own = min(most, max(-most, tilt[i]))
                    _, mean, variance = _moments(steps.linear[i], steps.quadratic[i], floors[i], down, reach[i], own)
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
            own = min(most, max(-most, tilt[i]))
            slope[a, k] = own
            for x in range(log_mass.shape[2]):
                found, _, _ = _moments(steps.linear[i], steps.quadratic[i], floors[i], x, reach[i], own)
                log_mass[a, k, x] = found + own * x


@kernel
def _steepest(steps: Steps, i: int) -> float:
    """Return the largest tilt under which the noise of a cell can still be summed up."""
    if steps.quadratic[i] < 0.0:
        return _STEEPEST
    return 0.9 * min(_STEEPEST, float(-steps.linear[i]))
