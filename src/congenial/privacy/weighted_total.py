"""What weighted zeros cost a group of alike cells whose total is an invariant: docs/claims/weighted-zeros.md, section 4.

Records that move to a larger cell cost what they cost any group. For those that move to a smaller one, only partial sums
that begin late enough can occur, but the other cells can no longer be taken empty: they are reduced to a few types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import flint

from congenial.balls import ball
from congenial.privacy.weighted_group import (
    BITS,
    Others,
    check_group,
    group_side_holds,
    levels_followed,
    levels_hold,
    smallest_excess,
    tail_bits,
    tail_from,
    tail_holds,
)
from congenial.privacy.weighted_series import Balls, Series

_MOST_WORK = 60_000  # multisets times coefficients: a second or two
_TYPES = {3: 12, 4: 6, 5: 4, 6: 3, 7: 3, 8: 3, 9: 3}
_FEWEST_TYPES = 2

Multiset = tuple[int, ...]


@dataclass(frozen=True)
class Types:
    """Counts 0, ..., `top` - 1, and `top` itself with weight 1 at zero, which stands for all counts from there on.

    Attributes
    ----------
    series : Series
        Of the cells of the group.
    top : int
        The last type, at least 1.
    products : dict
        Of the series of the types in a multiset, so far.
    """

    series: Series
    top: int
    products: dict[Multiset, Balls]

    @classmethod
    def of(cls, base: Fraction, weight: Fraction, top: int, length: int) -> "Types":
        """Start with no cells."""
        series = Series.of(base, weight, length)
        return cls(series, top, {(): series.one})

    def product(self, multiset: Multiset) -> Balls:
        """Return the product of the series of some types, given in descending order."""
        if multiset not in self.products:
            rest, last = self.product(multiset[:-1]), multiset[-1]
            self.products[multiset] = self.series.cell(rest, last, flint.arb(1) if last == self.top else None)
        return self.products[multiset]


def multisets(cells: int, top: int) -> Iterator[Multiset]:
    """Yield every multiset of at most ``cells - 2`` types, the most and the emptiest cells first: they decide mostly."""
    for size in range(cells - 2, -1, -1):
        yield from (chosen[::-1] for chosen in combinations_with_replacement(range(top + 1), size))


def top_type(cells: int) -> int:
    """Return how many types to use: more of them prove a little more, and cost much more in large groups."""
    return _TYPES.get(cells, _FEWEST_TYPES) - 1


def total_is_in_reach(cells: int, base: Fraction) -> bool:
    """Whether the check takes no more than seconds; if not, the bound for any group stands in for it."""
    return comb(cells - 2 + top_type(cells) + 1, top_type(cells) + 1) * tail_from(base, cells - 2) <= _MOST_WORK


def total_excess_holds(cells: int, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    """Whether a ratio of normalisers of at most ``1 + excess`` is proven for a group of cells with a fixed total.

    The parameters are those of `group_excess_holds`; the cells are the whole of what the invariant total adds up.

    Examples
    --------
    >>> base, weight = Fraction("0.6216"), Fraction("2.33")
    >>> total_excess_holds(4, base, weight, Fraction("0.051"))
    True
    >>> total_excess_holds(4, base, weight, Fraction("0.048"))
    False
    """
    return all(total_side_holds(side, cells, base, weight, excess) for side in ("upper", "lower"))


def total_side_holds(
    side: str, cells: int, base: Fraction, weight: Fraction, excess: Fraction, *, is_quick: bool = False
) -> bool:
    """Whether one half of `total_excess_holds` is proven; with `is_quick` it is only likely."""
    if side == "upper":
        return group_side_holds(side, cells, base, weight, excess, is_quick=is_quick)
    check_group(cells, base, weight)
    if excess <= 0:
        return False
    top = top_type(cells)
    end, further = tail_from(base, cells - 2) + top * (cells - 2), levels_followed(base)
    short, long = _types(base, weight, top, cells)
    for multiset in multisets(cells, top):
        if is_quick and sum(map(bool, multiset)) + cells - 2 - len(multiset) > 1:
            continue  # only groups that are empty but for one cell
        k, count = len(multiset), sum(multiset)
        regular = 1 + sum(max(0, one - 1) for one in multiset)
        with flint.ctx.workprec(tail_bits(k + top, weight)):
            others = Others(short.series, short.product(multiset), end, further)
            if not tail_holds(others, Others.lower_terms, ball(excess), regular, k + 1):
                return False
        with flint.ctx.workprec(BITS):
            others = Others(long.series, long.product(multiset), end, further)
            if not levels_hold(others, Others.lower_terms, ball(excess), 1 + count, is_quick=is_quick):
                return False
    return True


@lru_cache(maxsize=2)
def _types(base: Fraction, weight: Fraction, top: int, cells: int) -> tuple[Types, Types]:
    """Return the types with the coefficients that tails are decided by, and with all."""
    end, further = tail_from(base, cells - 2) + top * (cells - 2), levels_followed(base)
    with flint.ctx.workprec(tail_bits(cells - 2 + top, weight)):
        short = Types.of(base, weight, top, (top + 1) * (cells + 2))
    with flint.ctx.workprec(BITS):
        return short, Types.of(base, weight, top, end + 3 * further + 4)


@lru_cache(maxsize=1024)
def total_excess(cells: int, base: Fraction, weight: Fraction) -> Fraction | None:
    """Return the smallest excess of a few significant digits that `total_excess_holds` proves; None if none does."""
    if not total_is_in_reach(cells, base):
        return None

    def holds(excess: Fraction, *, is_quick: bool) -> bool:
        sides = ("upper", "lower")
        return all(total_side_holds(side, cells, base, weight, excess, is_quick=is_quick) for side in sides)

    return smallest_excess(holds)
