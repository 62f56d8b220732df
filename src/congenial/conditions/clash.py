"""Which conditions contradict each other: an irreducible set, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from congenial.conditions.groups import group_cells
from congenial.conditions.integer_program import EmptyError, find_point
from congenial.conditions.rows import Limited
from congenial.errors import ClashError


@dataclass(frozen=True)
class Part:
    """The smallest statement that makes sense alone: one invariant value, or one set of cell bounds."""

    text: str
    limits: tuple[Limited, ...]


def raise_clash(parts: Sequence[Part], n_cells: int) -> NoReturn:
    """Raise `ClashError` with an irreducible subset of parts that no integer table obeys.

    Each part is left out in turn; if the rest is still proven contradictory it stays out. What remains is irreducible:
    every proper subset has a table (or, with unlimited cells, was at least not proven empty).
    """
    n_cells = max([n_cells, *(max(one.row.cells) + 1 for part in parts for one in part.limits)])
    kept = list(parts)
    for part in parts:
        rest = [other for other in kept if other is not part]
        if is_contradictory(rest, n_cells):
            kept = rest
    listed = "\n".join(f"  - {part.text}" for part in kept)
    message = (
        f"no table of whole numbers obeys the condition «{kept[0].text}»; correct it or leave it out"
        if len(kept) == 1
        else "no table of whole numbers obeys these conditions together, while all but any one of them can be met:"
        f"\n{listed}\ncorrect or leave out one of them"
    )
    raise ClashError(message, tuple(part.text for part in kept))


def is_contradictory(parts: Sequence[Part], n_cells: int) -> bool:
    """Whether it is proven that no integer table obeys all the parts."""
    grouped = group_cells([one for part in parts for one in part.limits], [None] * n_cells, [None] * n_cells)
    try:
        find_point(grouped.rows, grouped.box)
    except EmptyError:
        return True
    return False
