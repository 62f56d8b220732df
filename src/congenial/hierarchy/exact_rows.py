"""Exact numbers of units below the top: whether a step with them is covered by the theorem, and can always be drawn.

Public: decided from rows, the number of children and zeros, before anything is charged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from congenial.conditions.rows import Row
from congenial.errors import HierarchyError
from congenial.privacy.unimodular import Unimodularity, certify_unimodular

_MOST_ROWS = 400  # of a step whose rows are compared in pairs, children by children


@dataclass(frozen=True)
class ExactRows:
    """What is exact in every unit of a level: sums of cells.

    Attributes
    ----------
    level : str
        The level's name.
    rows : tuple of Row
        The sums, the same for every unit.
    n_cells : int
        The number of cells of a unit's table.

    Examples
    --------
    >>> nested = ExactRows("county", (Row.of("total", range(4)), Row.of("voting age", [1, 3])), 4)
    >>> nested.certified(3000).why
    "parents' sums are disjoint and the units' rows are nested: two nested families"
    """

    level: str
    rows: tuple[Row, ...]
    n_cells: int

    def __post_init__(self) -> None:
        for row in self.rows:
            if set(row.coefficients) != {1}:
                raise HierarchyError(
                    f"{row.name} is exact in every {self.level} and has coefficients other than 1: a step with it is"
                    " not unimodular; only sums of cells can be exact below the top"
                )

    @property
    def is_nested(self) -> bool:
        """Whether any two sums share no cell, or one is part of the other."""
        sets = [set(row.cells) for row in self.rows]
        return all(not (a & b) or a <= b or b <= a for a, b in combinations(sets, 2))

    def step_rows(self, n_children: int) -> list[Row]:
        """Return all rows of a family with so many children; cells are numbered child by child."""
        n = self.n_cells
        above = [Row.of(f"sum of cell {cell}", range(cell, n * n_children, n)) for cell in range(n)]
        own = [
            Row.of(f"{row.name} of child {child}", [n * child + cell for cell in row.cells])
            for child in range(n_children)
            for row in self.rows
        ]
        return [*above, *own]

    def certified(self, most_children: int) -> Unimodularity:
        """Return whether all rows of the largest family are proven unimodular together; smaller ones are part of it."""
        if self.is_nested:
            why = "parents' sums are disjoint and the units' rows are nested: two nested families"
            return Unimodularity(True, False, why)
        if self.n_cells + most_children * len(self.rows) > _MOST_ROWS:
            # What fails for a few children fails for more.
            few = certify_unimodular(self.step_rows(4), [], range(4 * self.n_cells))
            return few if few.is_refuted else Unimodularity(False, False, "too many rows to decide about")
        return certify_unimodular(self.step_rows(most_children), [], range(most_children * self.n_cells))

    def check(self, most_children: int, *, has_zeros: bool) -> Unimodularity:
        """Refuse a step that no theorem covers, or that could meet a parent's table which it cannot be drawn for."""
        found = self.certified(most_children)
        names = ", ".join(row.name for row in self.rows)
        if not found.is_certified:
            raise HierarchyError(
                f"{names} exact in every {self.level} are not certified together with the parents' sums: {found.why}."
                " Nested sums are, such as the total and the total of voting age: leave out those that cross others"
            )
        if not self.is_nested:
            raise HierarchyError(
                f"{names} exact in every {self.level} cross each other, and it is not proven that every table of a"
                " parent can be shared out among such children; leave out those that cross others"
            )
        if has_zeros:
            raise HierarchyError(
                f"{names} exact in every {self.level} beside structural zeros below: a parent's table may leave no"
                " children that fit. Leave out the zeros, or the exact numbers below the top"
            )
        return found

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Return the cells in parts whose sums follow from nested rows: what a row has beyond those inside it."""
        inside: dict[tuple[int, ...], list[int]] = {}
        for cell in range(self.n_cells):
            having = tuple(number for number, row in enumerate(self.rows) if cell in row.cells)
            inside.setdefault(having, []).append(cell)
        return tuple(map(tuple, inside.values()))


def summed_upward(levels: Sequence[str], exact: dict[str, tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    """Return what is exact at each level, the top first, with what follows from the levels below.

    Examples
    --------
    >>> found = summed_upward(["state", "county", "block"], {"county": (Row.of("total", [0, 1]),)})
    >>> {level: [row.name for row in rows] for level, rows in found.items()}
    {'state': ['total'], 'county': ['total'], 'block': []}
    """
    held: list[Row] = []
    out: dict[str, tuple[Row, ...]] = {}
    for level in reversed(levels):
        for row in exact.get(level, ()):
            if (row.cells, row.coefficients) not in {(other.cells, other.coefficients) for other in held}:
                held.append(row)
        out[level] = tuple(held)
    return {level: out[level] for level in levels}
