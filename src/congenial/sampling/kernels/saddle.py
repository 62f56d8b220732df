"""Tilts under which every line and column of a grid has mean 0. They move the acceptance, never the law."""

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel

_LONGEST_STEP = 0.5
_MARGIN = 1.002  # more than rounding the tilts takes


@kernel
def moments(value: Floats, first: int, last: int, tilt: float) -> tuple[float, float]:
    """Return mean and variance of a deviation weighted by ``value * tilt ** deviation``; 0 is among its values."""
    mass, above, squares = value[-first], 0.0, 0.0
    power = 1.0
    for x in range(1, last + 1):
        power *= tilt
        weight = value[x - first] * power
        mass += weight
        above += x * weight
        squares += x * x * weight
    power, below = 1.0, 0.0
    for x in range(1, 1 - first):
        power /= tilt
        weight = value[-x - first] * power
        mass += weight
        below += x * weight
        squares += x * x * weight
    mean = (above - below) / mass
    return mean, max(0.0, squares / mass - mean * mean)


@kernel
def settle_tilts(
    value: Floats,
    first: Ints,
    last: Ints,
    least: Floats,
    most: Floats,
    kind: Ints,
    is_tied: Ints,
    is_free: Ints,
    n_sweeps: int,
    lines: Floats,
    columns: Floats,
    mean: Floats,
    variance: Floats,
) -> None:
    """Alternate between lines and columns, a step of Newton's method for each; leave variances at the end.

    Parameters
    ----------
    least, most : array (kind)
        The smallest and the largest tilt of a kind.
    is_tied : array (line)
        Whether the deviations of a line add up to 0; elsewhere its tilt stays 1.
    is_free : array (column)
        Whether nothing holds a column's sum: its tilt stays 1.
    lines, columns : array (line), (column)
        Where the tilts begin, and where they are left.
    mean, variance : array (line, column)
        Of each cell under the tilts at the end.
    """
    n_lines, n_columns = kind.shape
    for sweep in range(n_sweeps):
        farthest = 0.0
        for side in range(2):
            for a in range(n_lines if side == 0 else n_columns):
                if (is_tied[a] == 0) if side == 0 else (is_free[a] == 1):
                    continue
                total, spread = 0.0, 0.0
                for b in range(n_columns if side == 0 else n_lines):
                    i, j = (a, b) if side == 0 else (b, a)
                    k = kind[i, j]
                    if first[k] == last[k]:
                        continue
                    tilt = min(most[k], max(least[k], lines[i] * columns[j]))
                    average, own = moments(value[k], first[k], last[k], tilt)
                    total += average
                    spread += own
                if spread <= 0.0:
                    continue
                step = min(_LONGEST_STEP, max(-_LONGEST_STEP, -total / spread))
                farthest = max(farthest, abs(step))
                factor = (1.0 + step / 2.0) / (1.0 - step / 2.0)
                # No pair may leave the limits of its kind: one that did would hold all others back later.
                low, high = 1e-3, 1e3
                for b in range(n_columns if side == 0 else n_lines):
                    i, j = (a, b) if side == 0 else (b, a)
                    k = kind[i, j]
                    if first[k] != last[k]:
                        other = columns[j] if side == 0 else lines[i]
                        low, high = max(low, least[k] * _MARGIN / other), min(high, most[k] / _MARGIN / other)
                if low > high:
                    continue
                if side == 0:
                    lines[a] = min(high, max(low, lines[a] * factor))
                else:
                    columns[a] = min(high, max(low, columns[a] * factor))
        if farthest < 1e-3 and sweep > 0:
            break
    for i in range(n_lines):
        for j in range(n_columns):
            k = kind[i, j]
            tilt = min(most[k], max(least[k], lines[i] * columns[j]))
            mean[i, j], variance[i, j] = moments(value[k], first[k], last[k], tilt)
