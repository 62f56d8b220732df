"""Sums of products: what a convolution comes to where windows are short."""

from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.sampling.jit import generic, is_tuple, kernel
from congenial.sampling.kernels.codes import LANES
from congenial.sampling.kernels.numbers import clear, get, part, plus, put, size_of, times, zero_of


@generic
def sum_products(x: Any, weights: Any, shift: Any, is_cut: Any, room: Any, out: Any) -> Any:
    """Set ``out(k)`` to the sum of ``w(j) x(k + shift - j)`` over all j; x is 0 outside its window.

    In whichever order terms are added, rounding is within one unit for each of them. If windows are cut, the shift is
    confidential, and no step that is left out follows from it.
    """
    if x is None:  # by Python

        def sum_by_numpy(x: Any, weights: Any, shift: Any, is_cut: Any, room: Any, out: Any) -> None:
            full, n = np.convolve(x, weights), out.size
            first, last = min(n, max(0, -shift)), max(0, min(n, full.size - shift))
            out[:] = 0.0
            if first < last:
                out[first:last] = full[first + shift : last + shift]

        return sum_by_numpy
    if not is_tuple(x):
        from congenial.sampling.kernels.vector_code import sum_rows

        def sum_doubles(x: Any, weights: Any, shift: Any, is_cut: Any, room: Any, out: Any) -> None:
            n_x, n_weights, n = x.size, weights.size, out.size
            # Zeros around x: as many as a vector reaches over its ends, or a row over them wherever the window lies.
            margin = LANES + (n + n_weights if is_cut else 0)
            for i in range(n_x + 2 * margin):
                room[i] = 0.0
            for i in range(n_x):
                room[margin + i] = x[i]
            shift = max(-n, min(n_x + n_weights, shift))
            for k in range(0, n, LANES):
                first, last = 0, n_weights
                if not is_cut:
                    first, last = max(0, k + shift - n_x + 1), min(n_weights, k + shift + LANES)
                if k + LANES <= n:
                    sum_rows(room, margin + k + shift, weights, first, last, out, k)
                    continue
                spare = n_x + 2 * margin
                sum_rows(room, margin + k + shift, weights, first, last, room, spare)
                for i in range(n - k):
                    out[k + i] = room[spare + i]

        return sum_doubles

    def sum_wide(x: Any, weights: Any, shift: Any, is_cut: Any, room: Any, out: Any) -> None:
        n_full = size_of(x) + size_of(weights) - 1
        full = part(room, 0, n_full)
        clear(full)
        _add_wide(x, weights, full, part(room, n_full, n_full))
        for k in range(size_of(out)):
            inside = 0 <= k + shift < n_full
            found = get(full, k + shift if inside else 0)
            put(out, k, found if inside else zero_of(out))

    return sum_wide


@kernel
def _add_wide(x: Any, weights: Any, out: Any, room: Any) -> None:
    """Add ``w(j) x(i)`` to ``out(i + j)`` for all i and j.

    Where powers are the same, products are those of doubles, and as fast: 2^-512 to 2^512, and sums of them.
    """
    j = 0
    while j < weights.value.size:
        j_end = _end_of_run(weights.power, j)
        i = 0
        while i < x.value.size:
            i_end = _end_of_run(x.power, i)
            n, power = i_end - i + j_end - j - 1, weights.power[j] + x.power[i]
            sums = room.value[:n]
            sums[:] = 0.0
            for b in range(j_end - j):
                for a in range(i_end - i):
                    sums[a + b] += weights.value[j + b] * x.value[i + a]
            for k in range(n):
                found = times((sums[k], power), (1.0, 0))
                put(out, i + j + k, plus(get(out, i + j + k), found))
            i = i_end
        j = j_end


@kernel
def _end_of_run(power: Ints, start: int) -> int:
    """Return where a run of one power ends."""
    end = start + 1
    while end < power.size and power[end] == power[start]:
        end += 1
    return end
