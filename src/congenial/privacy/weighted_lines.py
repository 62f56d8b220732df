"""What weighted zeros cost by closed forms, as exact fractions: docs/claims/weighted-zeros.md, sections 2, 4 and 5."""

from fractions import Fraction

from congenial.errors import PrivacyError


def lines_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one changed record under any conditions that treat both cells alike.

    ``2 / (1 + b) - 1`` for ``1 <= weight (1 - b) <= 2 + b``, where b is the square of the base; more outside.

    Examples
    --------
    >>> half = Fraction(1, 2)
    >>> lines_excess(half, 1 / (1 - half)), lines_excess(half, Fraction(1))
    (Fraction(3, 5), Fraction(3, 4))
    """
    b, scaled = _checked(base, weight)
    candidates = [1 / (1 + b), 1 / (scaled + b), (scaled - 1) / (1 + b * scaled)]
    return (1 - b) * max(candidates)


def pair_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one changed record between the only two cells of a group whose total is an invariant.

    It is 0 at ``weight = 1 / (1 - b)``: normalisers are all the same.

    Examples
    --------
    >>> pair_excess(Fraction(1, 2), Fraction(4, 3))
    Fraction(0, 1)
    """
    b, scaled = _checked(base, weight)
    return (1 - b) * max((scaled - 1) / (1 + b * scaled), (1 - scaled) / (b + scaled))


def free_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one record that comes or goes, in a cell that no row but its own measurement touches.

    It is 0 at ``weight = 1 / (1 - base)``, noise clamped at 0; one record loses ``precision + log(1 + excess)``.

    Examples
    --------
    >>> free_excess(Fraction(1, 2), Fraction(2)), free_excess(Fraction(1, 2), Fraction(1))
    (Fraction(0, 1), Fraction(1, 4))
    """
    _checked(base, weight)
    far, near = (1 + base) / (1 - base), weight - 1 / (1 - base)
    ratio = (far + base * near) / (far + near)
    return max(ratio, 1 / ratio) - 1


def _checked(base: Fraction, weight: Fraction) -> tuple[Fraction, Fraction]:
    """Return b and ``weight (1 - b)``."""
    if not 0 < base < 1:
        raise PrivacyError(f"the base of the noise lies strictly between 0 and 1, and it is {base}")
    if weight <= 0:
        raise PrivacyError(f"the weight of zero must be above 0, not {weight}")
    b = base * base
    return b, weight * (1 - b)
