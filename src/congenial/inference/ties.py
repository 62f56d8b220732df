"""Which errors published sums tie together, and in how many ways.

Cells with equal columns in the published sums are a group: the sums see only the sum of its errors. A tie is a set of
groups whose sums of errors are all zero, or all plus or minus one integer y that is free. Errors of different ties are
independent. P12 has one tie: with total, women and voting age published, the errors of women of voting age add up to y,
those of girls and of men of voting age to -y, those of boys to y.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import cells_alike
from congenial.public_law import PublicLaw


@dataclass(frozen=True)
class Tie:
    """Groups of cells whose errors are tied together.

    Attributes
    ----------
    groups : tuple of tuples of int
        Cells, fixed ones left out.
    signs : tuple of int
        The errors of each group add up to its sign times y; a sign of 0 says that they add up to zero.
    why_not : str
        Why no bound of errors is proven here, or nothing.
    """

    groups: tuple[tuple[int, ...], ...]
    signs: tuple[int, ...]
    why_not: str = ""

    @property
    def cells(self) -> tuple[int, ...]:
        """All of its cells."""
        return tuple(cell for group in self.groups for cell in group)


def ties(law: PublicLaw, constraints: Constraints) -> tuple[Tie, ...]:
    """Return all ties of one table's cells.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> law = mechanism.calibrate(mechanism.disclose(p12_table()))
    >>> [(tie.signs, len(tie.cells)) for tie in ties(law, law.areas[None])]
    [((1, -1, -1, 1), 46)]
    """
    strange = _strange_cells(law, constraints)
    return tuple(
        Tie(groups, signs, why or next((strange[cell] for group in groups for cell in group if cell in strange), ""))
        for groups, signs, why in _tied(constraints)
    )


def _tied(constraints: Constraints) -> list[tuple[tuple[tuple[int, ...], ...], tuple[int, ...], str]]:
    fixed = set(constraints.fixed_cells)
    groups: list[tuple[int, ...]] = []
    columns: list[dict[int, int]] = []
    for column, cells in cells_alike(
        [equality.row for equality in constraints.equalities], len(constraints.limits)
    ).items():
        free = tuple(cell for cell in cells if cell not in fixed)
        own = [free] if column else [(cell,) for cell in free]
        groups += [group for group in own if group]
        columns += [dict(column)] * len([group for group in own if group])
    # A column that follows from others: its group's error is free, and moves those of the others.
    follows = dependence(columns).follows
    out = []
    for members in _together([{place, *others} for place, others in follows.items()]):
        first, *more = (place for place in members if place in follows)
        moves = {first: 1, **{place: int(-times) for place, times in follows[first].items() if abs(times) == 1}}
        is_one = not more and len(moves) == len(members)
        why = "" if is_one else "the published sums overlap and tie errors together in more than one way"
        signs = tuple(moves[place] if is_one else 0 for place in members)
        out.append((tuple(groups[place] for place in members), signs, why))
    seen = {cell for tied, _, _ in out for group in tied for cell in group}
    return out + [((group,), (0,), "") for group in groups if group[0] not in seen]


def _together(sets: Sequence[set[int]]) -> list[list[int]]:
    """Join sets that share a member."""
    joined: list[set[int]] = []
    for own in sets:
        apart = [other for other in joined if not other & own]
        joined = [*apart, own.union(*(other for other in joined if other & own))]
    return sorted(sorted(members) for members in joined)


def _strange_cells(law: PublicLaw, constraints: Constraints) -> dict[int, str]:
    """Return the cells whose errors no bound is proven for, with the reason."""
    measured = {query.cell for query in law.measured}
    out = {cell: "not every cell is measured" for cell in range(law.schema.n_cells) if cell not in measured}
    for limited in constraints.ranges:
        out |= dict.fromkeys(limited.row.cells, "some sums have ranges")
    for query in law.measured:
        if query.cell is None:
            out |= dict.fromkeys(
                query.row.cells, "sums are measured beside the cells, which ties their errors together"
            )
        elif query.floor != 1 and constraints.lower[query.cell] is not None:
            out[query.cell] = "lower limits are weighted, and no bound of errors holds for such a law"
    if not law.family.is_discrete:
        out = dict.fromkeys(range(law.schema.n_cells), "the noise is not on the integers")
    return out
