"""Budgets and precisions are exact fractions."""

import math
import re
from fractions import Fraction
from numbers import Rational

import flint

from congenial.errors import FractionError

Exact = str | int | Fraction
"""How a user writes an exact number: ``"1/2"``, ``"0.5"``, ``1``, ``Fraction(1, 2)``."""

_LONGEST = 200
_PATTERN = re.compile(r"[+-]?(\d+/\d+|(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,3})?)", re.ASCII | re.IGNORECASE)


def exact_fraction(value: object, name: str) -> Fraction:
    """Read an exact number; a float is refused with the string to write instead.

    Examples
    --------
    >>> exact_fraction("0.1", "precision")
    Fraction(1, 10)
    >>> exact_fraction(0.1, "precision")
    Traceback (most recent call last):
    congenial.errors.FractionError: precision must be exact, and the float 0.1 is not; write "0.1" or "1/10"
    """
    if isinstance(value, bool):
        raise FractionError(f"{name} must be a number, not the boolean {value}")
    if isinstance(value, float):
        raise FractionError(_refuse_float(value, name))
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, str):
        text = value.strip()
        if len(text) <= _LONGEST and _PATTERN.fullmatch(text) and not re.search(r"/0+$", text):
            return Fraction(text)
        shown = repr(value) if len(value) <= 40 else repr(value[:40] + "...")
        raise FractionError(
            f'{name} must be a number such as "1/2", "0.5" or "2" of at most {_LONGEST} characters, not {shown}'
        )
    raise FractionError(f'{name} must be text, an integer or a Fraction such as "1/2", not a {type(value).__name__}')


def _refuse_float(value: float, name: str) -> str:
    if not math.isfinite(value):
        return f'{name} must be a finite exact number such as "1/2", not {value}'
    decimal = Fraction(repr(float(value)))
    written = f'"{float(value)!r}"'
    ratio = f' or "{decimal}"' if f'"{decimal}"' != written else ""
    return f"{name} must be exact, and the float {float(value)!r} is not; write {written}{ratio}"


def positive_fraction(value: object, name: str) -> Fraction:
    """Read an exact number above zero."""
    number = exact_fraction(value, name)
    if number <= 0:
        raise FractionError(f"{name} must be above 0, not {number}")
    return number


# Ball arithmetic (Arb): real numbers with proven error bounds, as exact fractions.

_UNDERFLOW = -760.0  # exp of it is below the smallest double


def ball(value: Fraction | int) -> flint.arb:
    """Return an enclosure of an exact number at the working precision."""
    fraction = Fraction(value)
    return flint.arb(flint.fmpq(fraction.numerator, fraction.denominator))


def ends(enclosure: flint.arb) -> tuple[Fraction, Fraction]:
    """Return exact numbers below and above whatever lies in the ball."""
    return _exact(enclosure.lower()), _exact(enclosure.upper())


def _exact(point: flint.arb) -> Fraction:
    mantissa, exponent = point.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def scaled_ends(enclosure: flint.arb, bits: int) -> tuple[int, int]:
    """Return integers ``lo <= x * 2**bits <= hi`` for every x in the ball."""
    low, high = ends(enclosure)
    return math.floor(low * 2**bits), math.ceil(high * 2**bits)


def double_above_exp(exponent: Fraction) -> float:
    """Return the smallest double that is at least ``exp(-exponent)``, proven by enclosure.

    Examples
    --------
    >>> double_above_exp(Fraction(1, 2)) >= math.exp(-0.5)
    True
    """
    bits = 128
    while True:
        with flint.ctx.workprec(bits):
            low, high = ends((-ball(exponent)).exp())
        below, above = double_above(low), double_above(high)
        if below == above:
            return above
        bits *= 2


def double_above_power(base: Fraction, exponent: Fraction) -> float:
    """Return the smallest double that is above a power of a positive base other than 1, proven by enclosure.

    Examples
    --------
    >>> double_above_power(Fraction(1, 3), Fraction(-1, 2))
    1.7320508075688774
    """
    if exponent.denominator == 1 and abs(exponent) <= 2:
        return double_above(base ** int(exponent))
    if float(exponent) * log_of(base) < _UNDERFLOW:
        return math.nextafter(0.0, 1.0)
    bits = 128
    while True:
        with flint.ctx.workprec(bits):
            low, high = ends((ball(exponent) * ball(base).log()).exp())
        below, above = double_above(low), double_above(high)
        if below == above:
            return above
        if bits > 4096:  # the power is a double itself, and no enclosure tells on which side of it it lies
            return double_above(high)
        bits *= 2


def log_of(value: Fraction) -> float:
    """Return the logarithm of a positive fraction of any size, to a double's accuracy.

    Examples
    --------
    >>> log_of(Fraction(10) ** 400)
    921.0340371976183
    """
    with flint.ctx.workprec(96):
        return float(ball(value).log().mid())


def double_above(value: Fraction) -> float:
    """Return the smallest double at or above an exact number.

    Examples
    --------
    >>> Fraction(double_above(Fraction(1, 3))) >= Fraction(1, 3)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def circle_points(n: int) -> list[tuple[float, float]]:
    """Return the cosine and the sine of ``2 pi k / n`` for k below n, the same doubles on every machine.

    Examples
    --------
    >>> circle_points(4)
    [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]
    """
    with flint.ctx.workprec(128):
        pairs = [flint.arb.sin_cos_pi_fmpq(flint.fmpq(2 * k, n)) for k in range(n)]
        return [(float(cosine.mid()), float(sine.mid())) for sine, cosine in pairs]
