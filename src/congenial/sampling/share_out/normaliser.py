"""How much weight the children of a cell have together, given their sum: by convolution in one dimension."""

from collections import Counter
from dataclasses import dataclass, field
from math import log

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.noise.family import DiscreteNoise
from congenial.sampling.kernels.share_shapes import ShareTables, empty_tables
from congenial.sampling.share_out.tilts import fineness_of, share_noise


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Summed weights of families under one level's noise. Its tables serve all of them.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> round(Normaliser(DoubleGeometric(1)).log(np.array([1, 0]), 1), 12)  # (1, 0) and (0, 1)
    0.126928011043
    """

    noise: DiscreteNoise
    _tables: dict[int, ShareTables] = field(default_factory=dict, repr=False)

    def log(self, counts: Ints, wanted: int) -> float:
        """Return ``log sum prod f(y_i - s_i)`` over nonnegative y that add up to what is wanted.

        Weights are tilted so that the sum is near its mean, and followed until they fall below ``2**-68`` of the
        largest: correct to about ten digits of the weight.
        """
        if wanted == 0 or counts.size == 1:
            only = counts if wanted == 0 else counts - wanted
            return float(self.noise.log_weight(only).sum())
        if counts.size == 0:
            return -np.inf
        distinct, times = (np.array(found, np.int64) for found in zip(*Counter(counts.tolist()).items(), strict=True))
        tilt = self._log_tilt(distinct, times, counts.size, wanted)
        logs, values, first = 0.0, np.ones(1), 0
        for count, repeats in zip(distinct.tolist(), times.tolist(), strict=True):
            low, weights, log_largest = _weights(self.noise, count, tilt, wanted)
            for _ in range(repeats):
                values = np.convolve(values, weights)[: max(0, wanted - first - low + 1)]
                first += low
                scale = float(values.max(initial=0.0))
                if scale == 0.0:
                    return -np.inf
                values /= scale
                logs += log(scale) + log_largest
        place = wanted - first
        found = float(values[place]) if 0 <= place < values.size else 0.0
        return logs + log(found) - tilt * wanted if found > 0 else -np.inf

    def _log_tilt(self, counts: Ints, times: Ints, n_children: int, wanted: int) -> float:
        """Return the logarithm of the tilt that a draw would take."""
        from congenial.sampling.kernels.share_out import tilt_of

        fineness = fineness_of(n_children)
        made = share_noise(self.noise, fineness)
        if fineness not in self._tables:
            self._tables[fineness] = empty_tables(made)
        tables = self._tables[fineness]
        tilt = tilt_of(made, tables, counts, times, len(counts), n_children, wanted)
        if not made.is_squared:
            return log(float(made.tilts[tilt]))
        shift, part = divmod(int(tilt), made.tilts.size)
        return log(float(made.tilts[part])) - 2 * shift * self.noise.log_base


def _weights(noise: DiscreteNoise, count: int, tilt: float, wanted: int) -> tuple[int, Floats, float]:
    """Return the first value that matters, the tilted weights from there on, and the logarithm of their scale."""
    side = share_noise(noise).side
    if noise.exponent == 2:
        mode = max(0, round(count - tilt / (2 * noise.log_base)))
    else:
        mode = count if tilt >= noise.log_base else 0
    values = np.arange(max(0, mode - side), min(wanted, mode + side) + 1)
    if not values.size:
        values = np.arange(wanted, wanted + 1)
    logs = noise.log_weight(values - count) + tilt * values
    largest = float(logs.max())
    return int(values[0]), np.exp(logs - largest), largest
