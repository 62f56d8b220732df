"""Arithmetic of messages: doubles, or scaled floats, which are pairs (value, power) here.

Kernels are written with these functions, and the compiler chooses by type; on doubles the plain operation is left.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from congenial import portable_math
from congenial.arrays import Floats, Ints
from congenial.sampling.jit import generic, is_tuple, kernel

# Scaled floats, for systems that span more than doubles do. Imported without numba.
#
# A scaled float is ``value * 2 ** (512 power)`` with a value of 0, or from 2^-256 to below 2^256: products and sums of
# such numbers neither overflow nor underflow, and round like those of doubles.

STEP = 512
"""Bits between two powers."""


class ScaledFloats(NamedTuple):
    """Many scaled floats."""

    value: Floats
    power: Ints


Numbers = Floats | ScaledFloats
"""Doubles, or scaled floats."""


def empty_numbers(n: int, *, is_scaled: bool) -> Numbers:
    """Return room for so many numbers."""
    return ScaledFloats(np.empty(n), np.zeros(n, np.int64)) if is_scaled else np.empty(n)


def normal(value: Floats, power: Ints) -> ScaledFloats:
    """Return scaled floats of products of two values."""
    step = np.where(value >= 2.0 ** (STEP // 2), 1, 0) - np.where((value < 2.0 ** -(STEP // 2)) & (value > 0), 1, 0)
    return ScaledFloats(np.ldexp(value, -STEP * step), np.where(value > 0, power + step, 0))


def as_doubles(numbers: ScaledFloats, lift: int = 0) -> Floats:
    """Return ``number / 2 ** (512 lift)``; what is too small for a double is 0."""
    out: Floats = np.ldexp(numbers.value, STEP * np.maximum(numbers.power - lift, -5))
    return out


_LARGE, _SMALL, _DOWN, _UP = 2.0**256, 2.0**-256, 2.0**-STEP, 2.0**STEP
_LOG_STEP = STEP * math.log(2.0)
_FLUSH = 1e-280  # more than all that underflow can lose of one entry
LOST_BY_SCALING = 1e-300  # more than scaling by a power of two can lose
_SOFT_FLUSH = 1e-262
_FAR_FROM_UNDERFLOW = 1e-270  # an entry above this loses less than a rounding unit of itself to underflow


@generic
def size_of(message: Any) -> Any:
    """Return how many numbers a message has."""
    if is_tuple(message):
        return lambda message: message.value.size
    return lambda message: message.size


@generic
def part(message: Any, start: Any, size: Any) -> Any:
    """Return some numbers of a message, not a copy."""
    if is_tuple(message):
        return lambda message, start, size: ScaledFloats(
            message.value[start : start + size], message.power[start : start + size]
        )
    return lambda message, start, size: message[start : start + size]


@generic
def row_of(table: Any, number: Any) -> Any:
    """Return one row of a table of numbers."""
    if is_tuple(table):
        return lambda table, number: ScaledFloats(table.value[number], table.power[number])
    return lambda table, number: table[number]


@generic
def get(message: Any, i: Any) -> Any:
    """Return a number of a message."""
    if is_tuple(message):
        return lambda message, i: (message.value[i], message.power[i])
    return lambda message, i: message[i]


@generic
def put(message: Any, i: Any, number: Any) -> Any:
    """Set a number of a message."""
    if is_tuple(message):

        def put_scaled(message: Any, i: Any, number: Any) -> None:
            message.value[i], message.power[i] = number

        return put_scaled

    def put_double(message: Any, i: Any, number: Any) -> None:
        message[i] = number

    return put_double


@generic
def zero_of(message: Any) -> Any:
    """Return 0 as a message's kind of number."""
    return (lambda message: (0.0, 0)) if is_tuple(message) else (lambda message: 0.0)


@generic
def one_of(message: Any) -> Any:
    """Return 1 as a message's kind of number."""
    return (lambda message: (1.0, 0)) if is_tuple(message) else (lambda message: 1.0)


@generic
def number_of(message: Any, value: Any) -> Any:
    """Return a double between 2^-256 and 2^256 as a message's kind of number."""
    return (lambda message, value: (value, 0)) if is_tuple(message) else (lambda message, value: value)


@generic
def clear(message: Any) -> Any:
    """Set every number to 0."""
    if is_tuple(message):

        def clear_scaled(message: Any) -> None:
            message.value[:] = 0.0
            message.power[:] = 0

        return clear_scaled

    def clear_double(message: Any) -> None:
        message[:] = 0.0

    return clear_double


@generic
def plus(x: Any, y: Any) -> Any:
    """Return x + y."""
    if not is_tuple(x):
        return lambda x, y: x + y

    def plus_scaled(x: Any, y: Any) -> Any:
        if x[0] == 0.0 or (y[0] != 0.0 and y[1] > x[1]):
            x, y = y, x
        value, power = x
        # One power apart: 2^-512 of a number is exact. Farther: less than 2^-512 of the larger one, below its rounding.
        if y[0] != 0.0 and y[1] >= power - 1:
            value += y[0] if y[1] == power else y[0] * _DOWN
            if value >= _LARGE:
                value, power = value * _DOWN, power + 1
        return value, power

    return plus_scaled


@generic
def times(x: Any, y: Any) -> Any:
    """Return x y."""
    if not is_tuple(x):
        return lambda x, y: x * y

    def times_scaled(x: Any, y: Any) -> Any:
        value, power = x[0] * y[0], x[1] + y[1]
        if value == 0.0:
            return 0.0, 0
        if value >= _LARGE:
            return value * _DOWN, power + 1
        if value < _SMALL:
            return value * _UP, power - 1
        return value, power

    return times_scaled


@generic
def lift_of(x: Any) -> Any:
    """Return the power at which numbers up to x are ordinary doubles."""
    return (lambda x: x[1]) if is_tuple(x) else (lambda x: 0)


@generic
def lowered(x: Any, lift: Any) -> Any:
    """Return ``x / 2 ** (512 lift)`` as a double; far below 1 that may be 0, which loses less than a rounding of 1."""
    if not is_tuple(x):
        return lambda x, lift: x

    def lowered_scaled(x: Any, lift: Any) -> Any:
        if x[1] == lift or x[0] == 0.0:
            return x[0]
        if x[1] == lift - 1:
            return x[0] * _DOWN
        return 0.0 if x[1] < lift else x[0] * _UP if x[1] == lift + 1 else np.inf

    return lowered_scaled


@generic
def log_of_number(x: Any) -> Any:
    """Return the logarithm of a number above 0."""
    return (lambda x: math.log(x[0]) + x[1] * _LOG_STEP) if is_tuple(x) else (lambda x: np.log(x))  # noqa: PLW0108


@generic
def shortfall(message: Any, log_size: Any, exponent: Any) -> Any:
    """Return how much windows left out, given its logarithm, in a message's scale of ``2 ** exponent``.

    For scaled floats, which have no scale, it stays a logarithm; `shortfall_at` is what makes a double of either.
    """
    if is_tuple(message):
        return lambda message, log_size, exponent: log_size
    return lambda message, log_size, exponent: (
        0.0 if log_size == -np.inf else math.exp(min(700.0, log_size - exponent * math.log(2.0)))
    )


@generic
def shortfall_at(message: Any, lack: Any, lift: Any) -> Any:
    """Return a shortfall as a double beside numbers that are `lowered` by the same lift."""
    if is_tuple(message):
        return lambda message, lack, lift: 0.0 if lack == -np.inf else math.exp(min(700.0, lack - lift * _LOG_STEP))
    return lambda message, lack, lift: lack


@generic
def joint_shortfall(message: Any, of_others: Any, first: Any, of_first: Any, whole: Any) -> Any:
    """Return the shortfall of a product of a first factor, which lacks `of_first`, and others that lack `of_others`."""
    if is_tuple(message):
        return lambda message, of_others, first, of_first, whole: np.logaddexp(
            of_others + log_of_number(first), of_first - log_of_number(first) + log_of_number(whole)
        )
    return lambda message, of_others, first, of_first, whole: of_others * first + of_first / first * whole


@generic
def settle(message: Any) -> Any:
    """Scale a message of doubles that has gone far by a power of two.

    Returns the exponent, what underflow has lost of an entry before that, and the rounding units that stand for it.
    Scaled floats stay what they are.
    """
    if is_tuple(message):
        return lambda message: (0, 0.0, 1.0)

    def settle_doubles(message: Any) -> tuple[int, float, float]:
        top, low = 0.0, np.inf
        for i in range(message.size):
            value = message[i]
            top, low = value if value > top else top, value if value < low else low
        # Underflow is far below a rounding unit of entries that are far from it.
        lost, units = (0.0, 1.0) if low > _FAR_FROM_UNDERFLOW else (_FLUSH, 0.0)
        if 2.0**-100 < top < 2.0**100 or top == 0.0:
            return 0, lost, units
        exponent = max(-1000, int(np.floor(np.log2(top))))
        factor = 2.0 ** float(-exponent)
        for i in range(message.size):
            message[i] *= factor
        return exponent, lost, units

    return settle_doubles


@generic
def flushed_by_product(message: Any, left: Any, right: Any, of_left: Any, of_right: Any) -> Any:
    """Return what underflow has lost of an entry of a product, given that of its factors and their sums."""
    if is_tuple(message):
        return lambda message, left, right, of_left, of_right: 0.0
    return lambda message, left, right, of_left, of_right: left * of_right + right * of_left


@generic
def lost_of_term(message: Any, n_rows: Any) -> Any:
    """Return what underflow can lose of one term of a merge that completes so many rows."""
    if is_tuple(message):
        return lambda message, n_rows: 0.0
    return lambda message, n_rows: _FLUSH if n_rows == 0 else _SOFT_FLUSH


@generic
def cut_tables(message: Any, n_soft: Any) -> Any:
    """Return how many soft weights count as windows: tables of scaled floats end where less than a window's is left."""
    return (lambda message, n_soft: n_soft) if is_tuple(message) else (lambda message, n_soft: 0)


@generic
def log_of_shortfall(message: Any, missing: Any) -> Any:
    """Return the logarithm of a shortfall of a message whose scale is left aside."""
    if is_tuple(message):
        return lambda message, missing: missing
    return lambda message, missing: math.log(missing) if missing > 0.0 else -np.inf


# Numbers that programs and kernels agree on. Imported without numba.

EQUAL, RANGE, SOFT, FREE = 0, 1, 2, 3
"""Kinds of rows, the hard ones first."""

NEVER = 2**62
"""A limit that is not there, with its sign."""

FAR = 2**40
"""Limits of deviations beyond this count as none: no window reaches so far."""

NONE = -1
"""In place of a number that is not there: a row, a half-width, the ratio of a weight that is not geometric."""

LANES = 16
"""Sums that are added up side by side: 8 take twice as long for windows of a hundred, 32 for those of ten."""

WORK = 8
"""Room for a convolution's intermediate numbers, in longest windows: one, two of zeros on either side, and vectors."""

# Logarithms and powers for kernels, the same double on every machine as those that Python computes.

log_e = kernel(portable_math.log_e)
exp_e = kernel(portable_math.exp_e)
