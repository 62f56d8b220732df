"""Convolution of a message with one cell's weights.

Messages are windows of a function on the integers: `x` holds its values from `x0` on, and is 0 elsewhere. Only positive
terms are added, never subtracted, so relative errors stay near the rounding of one operation times the length.
"""

from congenial.arrays import Floats
from congenial.sampling.kernels.compiled import compiled

SHORT = 15  # up to here adding shifted copies, which the compiler vectorises, beats the sliding window


@compiled
def add_shifts(x: Floats, x0: int, powers: Floats, first: int, last: int, sign: int, out: Floats, out0: int) -> None:
    """Add ``sum_{v=first..last} a^v x(k - sign * v)`` to ``out(k)``, one shift after the other."""
    for v in range(first, last + 1):
        shift = x0 + sign * v - out0
        start, stop = max(0, -shift), min(x.size, out.size - shift)
        weight = powers[v]
        for i in range(start, stop):
            out[i + shift] += weight * x[i]


@compiled
def add_geometric_tail(
    x: Floats, x0: int, powers: Floats, reach: int, factor: float, work: Floats, out: Floats, out0: int
) -> None:
    """Add ``factor * sum_{v=0..reach} a^v x(k - v)`` to ``out(k)`` for every k of its window. O(length).

    `powers` holds ``a^0, a^1, ...``. Without a limit this is a first-order recurrence, started anew in blocks of the
    length of `powers`, with what came before carried over: a chain of roundings is as long as one block plus the
    number of blocks, not as the message. A limited reach is a sliding window: it is cut at multiples of its length into
    the end of one block and the beginning of the next (`work` holds the ends), so nothing is subtracted.
    """
    a = powers[1]
    n = out0 + out.size - x0  # positions from x0 to the end of out's window
    if n <= 0:
        return
    if reach >= n - 1:
        carry, begin, length = 0.0, 0, powers.size - 1
        while begin < n:
            running, value = 0.0, 0.0
            for i in range(begin, min(begin + length, n)):
                running = a * running + (x[i] if i < x.size else 0.0)
                value = running + powers[i - begin + 1] * carry
                k = x0 + i - out0
                if k >= 0:
                    out[k] += factor * value
            carry, begin = value, begin + length
        return
    block = reach + 1
    start, length = 0, powers.size - 1
    while start < n:
        # Ends of the block before: work[j] = sum_{t=j..block-1} a^(block-1-t) x(start - block + t), added in pieces.
        if start > 0:
            far, near, scale, r = 0.0, 0.0, 1.0, 0
            for j in range(block - 1, -1, -1):
                t = start - block + j
                if t < x.size:
                    near += scale * powers[r] * x[t]
                work[j] = far + near
                r += 1
                if r == length:
                    far, near, scale, r = far + near, 0.0, scale * powers[length], 0
        running, carry, scale, r = 0.0, 0.0, 1.0, 0
        for i in range(start, min(start + block, n)):
            running = a * running + (x[i] if i < x.size else 0.0)
            r += 1
            value = running + powers[r] * carry
            total = value
            if start > 0 and i - start + 1 < block:
                total += scale * powers[r] * work[i - start + 1]
            k = x0 + i - out0
            if k >= 0:
                out[k] += factor * total
            if r == length:
                carry, running, scale, r = value, 0.0, scale * powers[length], 0
        start += block


@compiled
def convolve_geometric(
    x: Floats, x0: int, powers: Floats, below: int, above: int, work: Floats, mirror: Floats, out: Floats, out0: int
) -> None:
    """Set ``out(k) = sum_{v=-below..above} a^|v| x(k - v)``. O(length)."""
    out[:] = 0.0
    if above <= SHORT:
        add_shifts(x, x0, powers, 0, above, 1, out, out0)
    else:
        add_geometric_tail(x, x0, powers, above, 1.0, work, out, out0)
    if below <= SHORT:
        add_shifts(x, x0, powers, 1, below, -1, out, out0)
    else:
        # The other side is the same in the mirror: sum_{v=1..below} a^v x(k + v), the sum over v - 1 times a.
        flipped_x = mirror[: x.size]
        flipped_out = mirror[x.size : x.size + out.size]
        for i in range(x.size):
            flipped_x[i] = x[x.size - 1 - i]
        flipped_out[:] = 0.0
        x_start, out_start = -(x0 + x.size - 1), -(out0 + out.size - 1) - 1
        add_geometric_tail(flipped_x, x_start, powers, below - 1, powers[1], work, flipped_out, out_start)
        for k in range(out.size):
            out[k] += flipped_out[out.size - 1 - k]


@compiled
def convolve_table(x: Floats, x0: int, weights: Floats, below: int, above: int, out: Floats, out0: int) -> None:
    """Set ``out(k) = sum_{v=-below..above} weights[|v|] x(k - v)``, the weights 0 beyond their table."""
    out[:] = 0.0
    low, high = -min(below, weights.size - 1), min(above, weights.size - 1)
    for i in range(x.size):
        if x[i] == 0.0:
            continue
        first = max(low, out0 - x0 - i)
        last = min(high, out0 + out.size - 1 - x0 - i)
        for v in range(first, last + 1):
            out[x0 + i + v - out0] += x[i] * weights[abs(v)]
