"""Real powers from additions, products and quotients alone: the same double on every machine."""

import math

from congenial.sampling.kernels.compiled import compiled

_LOG_2 = 0.6931471805599453


@compiled
def log_e(x: float) -> float:
    """Return the logarithm of a double above 0, to some 1e-15."""
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, out = s * s, 0.0
    for n in range(27, 0, -2):  # 2 (s + s^3 / 3 + ...), and s is at most 0.172
        out = out * square + 1.0 / n
    return 2.0 * s * out + exponent * _LOG_2


@compiled
def exp_e(x: float) -> float:
    """Return e to a power between -700 and 700, to some 1e-15 times the power."""
    whole = math.floor(x / _LOG_2 + 0.5)
    rest, out = x - whole * _LOG_2, 1.0
    for n in range(18, 0, -1):
        out = 1.0 + rest / n * out
    return math.ldexp(out, int(whole))
