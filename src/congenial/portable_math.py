"""Logarithms and powers from additions, products and quotients alone: the same double on every machine.

The functions of a mathematics library differ between machines in the last digit. What decides a draw takes these: the
order in which cells are drawn, and the tilts. `congenial.sampling.kernel_scaled_floats` compiles the same functions.
"""

import math

_LOG_2 = 0.6931471805599453


def log_e(x: float) -> float:
    """Return the logarithm of a double above 0, to some 1e-15.

    Examples
    --------
    >>> round(log_e(10.0), 12)
    2.302585092994
    """
    if x == math.inf:
        return x
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, out = s * s, 0.0
    for n in range(27, 0, -2):  # 2 (s + s^3 / 3 + ...), and s is at most 0.172
        out = out * square + 1.0 / n
    return 2.0 * s * out + exponent * _LOG_2


def exp_e(x: float) -> float:
    """Return e to a power, to some 1e-15 times the power.

    Examples
    --------
    >>> round(exp_e(1.0), 12), exp_e(-2000.0)
    (2.718281828459, 0.0)
    """
    whole = math.floor(x / _LOG_2 + 0.5)
    rest, out = x - whole * _LOG_2, 1.0
    for n in range(18, 0, -1):
        out = 1.0 + rest / n * out
    return math.ldexp(out, whole)


def log_1_plus(x: float) -> float:
    """Return ``log(1 + x)``, however close x is to 0.

    Examples
    --------
    >>> log_1_plus(1e-20)
    1e-20
    """
    if abs(x) > 0.5:
        return log_e(1.0 + x)
    s = x / (2.0 + x)
    square, out = s * s, 0.0
    for n in range(39, 0, -2):  # s is at most 1 / 3
        out = out * square + 1.0 / n
    return 2.0 * s * out


def exp_minus_1(x: float) -> float:
    """Return ``exp(x) - 1``, however close x is to 0.

    Examples
    --------
    >>> exp_minus_1(1e-20)
    1e-20
    """
    if abs(x) > 1.0:
        return exp_e(x) - 1.0
    out = 1.0
    for n in range(20, 1, -1):
        out = 1.0 + x / n * out
    return x * out
