"""What weighted zeros cost a group of cells whose total is an invariant: docs/claims/weighted-zeros.md, section 4.

Records that move to a larger cell cost what they cost any group. For those that move to a smaller one only partial
sums that begin late enough occur, but the other cells can no longer be taken empty: they are reduced to a few types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations_with_replacement
from math import comb

import flint

from congenial.exact import ball
from congenial.privacy.weighted_zeros.group_cost import (
    BITS,
    SIDES,
    Balls,
    OtherCells,
    Series,
    check_group,
    group_excess_holds,
    group_side_holds,
    levels_followed,
    levels_hold,
    smallest_likely,
    tail_bits,
    tail_from,
    tail_holds,
)
from congenial.progress_and_interrupts import checkpoint

_MOST_WORK = 60_000  # multisets times coefficients: a second or two
_MOST_TYPES = 16
MOST_ROUNDS = 12
"""How often a search is made again with one more multiset."""

Multiset = tuple[int, ...]


@dataclass(frozen=True)
class CountTypes:
    """Counts 0, ..., `top` - 1, and `top` itself with weight 1 at zero, which stands for all counts from there on.

    Attributes
    ----------
    series : Series
        Of the cells of the group.
    top : int
        The last type, at least 1.
    end, further : int
        As `OtherCells` has them.
    products : dict
        Of the series of the types in a multiset, so far.
    """

    series: Series
    top: int
    end: int
    further: int
    products: dict[Multiset, Balls]

    def others(self, multiset: Multiset) -> OtherCells:
        """Return the other cells as types, given in descending order."""
        return OtherCells(self.series, self._product(multiset), self.end, self.further)

    def _product(self, multiset: Multiset) -> Balls:
        if multiset not in self.products:
            rest, last = self._product(multiset[:-1]), multiset[-1]
            self.products[multiset] = self.series.cell(rest, last, flint.arb(1) if last == self.top else None)
        return self.products[multiset]


def multisets(cells: int, top: int) -> Iterator[Multiset]:
    """Yield every multiset of at most ``cells - 2`` types, many and empty cells first: mostly they decide."""
    for size in range(cells - 2, -1, -1):
        yield from (chosen[::-1] for chosen in combinations_with_replacement(range(top + 1), size))


def spread_multisets(cells: int, base: Fraction) -> list[Multiset]:
    """Return a few multisets far apart: one cell, half of the cells or all of them of one type, others empty."""
    k, top = cells - 2, top_type(cells, base) or 1
    types = {0, 1, 2, 4, 8, top} & set(range(top + 1))
    chosen = {(count,) * n + (0,) * (k - n) for count in types for n in {1, (k + 1) // 2, k}}
    return sorted(chosen, reverse=True)


def top_type(cells: int, base: Fraction) -> int | None:
    """Return the last of as many types as the check can take in about a second; None if it cannot take two.

    More types prove a little more, and a group has very many multisets of them.
    """
    k, end = cells - 2, tail_from(base, cells - 2)
    in_reach = [top for top in range(1, _MOST_TYPES) if comb(k + top + 1, k) * (end + top * k) <= _MOST_WORK]
    return max(in_reach, default=None)


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
    return (
        group_excess_holds(cells, base, weight, excess, sides=("upper",))
        and broken_multiset(cells, base, weight, excess) is None
    )


def total_side_is_likely(
    tried: tuple[Multiset, ...],
    cells: int,
    side: str,
    base: Fraction,
    weight: Fraction,
    excess: Fraction,
    *,
    is_quick: bool = True,
) -> bool:
    """Whether one half holds as far as some multisets show: for a search, never for a certificate."""
    if side == "upper":
        return group_side_holds(side, cells, base, weight, excess, is_quick=is_quick)
    return all(_multiset_holds(multiset, cells, base, weight, excess, is_quick=is_quick) for multiset in tried)


def broken_multiset(cells: int, base: Fraction, weight: Fraction, excess: Fraction) -> Multiset | None:
    """Return the first multiset of types for which (L) is not proven; None if it is for all."""
    check_group(cells, base, weight)
    every = multisets(cells, top_type(cells, base) or 1)
    return next((multiset for multiset in every if not _multiset_holds(multiset, cells, base, weight, excess)), None)


def _multiset_holds(
    multiset: Multiset, cells: int, base: Fraction, weight: Fraction, excess: Fraction, *, is_quick: bool = False
) -> bool:
    checkpoint()
    top = top_type(cells, base)
    if top is None or excess <= 0:
        return False
    k, short, long = len(multiset), *_types(base, weight, top, cells)
    regular = 1 + sum(max(0, count - 1) for count in multiset)
    with flint.ctx.workprec(tail_bits(cells - 2 + top, weight)):
        if not tail_holds(short.others(multiset), OtherCells.lower_terms, ball(excess), regular, k + 1):
            return False
    with flint.ctx.workprec(BITS):
        return levels_hold(
            long.others(multiset), OtherCells.lower_terms, ball(excess), 1 + sum(multiset), is_quick=is_quick
        )


@lru_cache(maxsize=2)
def _types(base: Fraction, weight: Fraction, top: int, cells: int) -> tuple[CountTypes, CountTypes]:
    """Return the types with the coefficients that tails are decided by, and with all."""
    end, further = tail_from(base, cells - 2) + top * (cells - 2), levels_followed(base)
    with flint.ctx.workprec(tail_bits(cells - 2 + top, weight)):
        series = Series.of(base, weight, (top + 1) * (cells + 2))
        short = CountTypes(series, top, end, further, {(): series.one})
    with flint.ctx.workprec(BITS):
        series = Series.of(base, weight, end + 3 * further + 4)
        return short, CountTypes(series, top, end, further, {(): series.one})


@lru_cache(maxsize=1024)
def total_excess(cells: int, base: Fraction, weight: Fraction) -> Fraction | None:
    """Return the smallest excess of a few significant digits that `total_excess_holds` proves; None if none is found.

    The search goes by a few multisets, and adds the first that breaks what it found until none does.
    """
    if top_type(cells, base) is None:
        return None
    tried, is_quick = spread_multisets(cells, base), True
    for _ in range(MOST_ROUNDS):
        excess = smallest_likely(partial(_sides_are_likely, tuple(tried), cells, base, weight, is_quick=is_quick))
        if excess is None:
            return None
        broken = broken_multiset(cells, base, weight, excess)
        if broken is None and group_excess_holds(cells, base, weight, excess, sides=("upper",)):
            return excess
        if broken is None or broken in tried:
            if not is_quick:
                return None
            is_quick = False
        else:
            tried = [broken, *tried]
    return None


def _sides_are_likely(
    tried: tuple[Multiset, ...], cells: int, base: Fraction, weight: Fraction, excess: Fraction, *, is_quick: bool
) -> bool:
    sides = (total_side_is_likely(tried, cells, side, base, weight, excess, is_quick=is_quick) for side in SIDES)
    return all(sides)
