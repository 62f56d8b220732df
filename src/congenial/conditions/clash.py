"""Which conditions contradict each other: an irreducible set, in words."""

from collections.abc import Sequence
from typing import NoReturn

from congenial.conditions.condition import Claim
from congenial.conditions.groups import group_cells
from congenial.conditions.integer_program import EmptyError, find_point
from congenial.conditions.interval import FREE
from congenial.errors import ClashError


def raise_clash(claims: Sequence[Claim], n_cells: int) -> NoReturn:
    """Raise `ClashError` with an irreducible subset of claims that no integer table obeys.

    Each claim is left out in turn; if the rest is still proven contradictory it stays out. What remains is irreducible,
    as far as tables were found that obey all but one claim.
    """
    n_cells = max([n_cells, *(max(limited.row.cells) + 1 for claim in claims for limited in claim.limits)])
    kept: list[Claim] = []
    is_irreducible = _keep_needed(list(claims), [], kept, n_cells)
    if len(kept) == 1:
        message = f"no table of whole numbers obeys the condition «{kept[0].text}»; correct it or leave it out"
    else:
        otherwise = ", while all but any one of them can be met" if is_irreducible else ""
        listed = "\n".join(f"  - {claim.text}" for claim in kept)
        message = f"no table of whole numbers obeys these conditions together{otherwise}:\n{listed}\n"
        message += "correct or leave out one of them"
    raise ClashError(message, tuple(claim.text for claim in kept), is_irreducible)


def _keep_needed(claims: list[Claim], after: list[Claim], kept: list[Claim], n_cells: int) -> bool:
    """Move the claims that a contradiction needs, beside those kept and after, to `kept`; say whether that is proven.

    A whole half that is not needed goes at once: the outcome is that of trying one by one.
    """
    has_table = _has_table([*kept, *after], n_cells)
    if has_table is False:
        return True
    if len(claims) == 1:
        kept += claims
        return has_table is True
    half = len(claims) // 2
    first = _keep_needed(claims[:half], [*claims[half:], *after], kept, n_cells)
    return _keep_needed(claims[half:], after, kept, n_cells) and first


def _has_table(claims: Sequence[Claim], n_cells: int) -> bool | None:
    """Whether an integer table obeys all the claims; None when the search ended without an answer."""
    grouped = group_cells([limited for claim in claims for limited in claim.limits], [FREE] * n_cells)
    try:
        return True if find_point(grouped.rows, grouped.box) is not None else None
    except EmptyError:
        return False
