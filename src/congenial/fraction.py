"""Budgets and precisions are exact fractions."""

import math
import re
from fractions import Fraction
from numbers import Rational

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
