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

    Each part is left out in turn; if the rest is still proven contradictory it stays out. What remains is irreducible,
    as far as tables were found that obey all but one part.
    """
    n_cells = max([n_cells, *(max(one.row.cells) + 1 for part in parts for one in part.limits)])
    kept = list(parts)
    is_irreducible = True
    for part in parts:
        rest = [other for other in kept if other is not part]
        has_table = _has_table(rest, n_cells)
        if has_table is False:
            kept = rest
        elif has_table is None:
            is_irreducible = False
    if len(kept) == 1:
        message = f"no table of whole numbers obeys the condition «{kept[0].text}»; correct it or leave it out"
    else:
        otherwise = ", while all but any one of them can be met" if is_irreducible else ""
        listed = "\n".join(f"  - {part.text}" for part in kept)
        message = f"no table of whole numbers obeys these conditions together{otherwise}:\n{listed}\n"
        message += "correct or leave out one of them"
    raise ClashError(message, tuple(part.text for part in kept), is_irreducible)


def _has_table(parts: Sequence[Part], n_cells: int) -> bool | None:
    """Whether an integer table obeys all the parts; None when the search ended without an answer."""
    grouped = group_cells([one for part in parts for one in part.limits], [None] * n_cells, [None] * n_cells)
    try:
        return True if find_point(grouped.rows, grouped.box) is not None else None
    except EmptyError:
        return False
