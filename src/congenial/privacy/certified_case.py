"""What a certificate depends on but the precisions: conditions of one pattern, what is measured, who is a neighbour."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import Row
from congenial.errors import PrivacyError, TooLargeError
from congenial.noise import FAMILIES, Noise
from congenial.privacy.closest import Closest
from congenial.privacy.enumerated import MOST_TABLES, Enumerated
from congenial.privacy.moves import Moves
from congenial.privacy.neighbours import Neighbours, neighbours_of
from congenial.privacy.relation import check_relation
from congenial.privacy.unimodular import Unimodularity, certify_unimodular
from congenial.sampling.small_sets import may_be_few
from congenial.sampling.target import Measured


@dataclass(frozen=True)
class Shared:
    """What is known of every area that a case stands for, and not of its own constraints alone.

    Attributes
    ----------
    closest : mapping from relation to Closest
        The fewest records in which two tables of such an area differ.
    widths : tuple of int or None
        How many values above its least each cell can have at most, in any of the areas.
    """

    closest: dict[str, Closest]
    widths: tuple[int | None, ...]


@dataclass(frozen=True)
class Case:
    """Everything a certificate depends on but the precisions: made once for all areas that it stands for. Public.

    Attributes
    ----------
    constraints : Constraints
        Of the one area, or of one of several whose rows, limits and pinned cells agree.
    classes : tuple of tuples of Row
        The measured rows; rows of one class share a precision.
    noise : str
        The family of the noise.
    neighbours : str
        The neighbour relation.
    shared : Shared or None
        None for one area, whose own values may be used.
    bounded : Case or None
        The same under the other relation, if this one was made from it.
    """

    constraints: Constraints
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str
    shared: Shared | None = field(default=None, repr=False)
    bounded: "Case | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if not self.family.is_for_release:
            others = " or ".join(f'noise="{name}"' for name, kind in FAMILIES.items() if kind.is_for_release)
            raise PrivacyError(f"{self.noise} noise has no certificate: {self.family.why_not_released}; use {others}")

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        return FAMILIES[self.noise]

    @cached_property
    def moves(self) -> Moves:
        """The steps between neighbouring tables; they do not depend on the relation."""
        return Moves.of(self.constraints, self.classes) if self.bounded is None else self.bounded.moves

    @cached_property
    def neighbourhood(self) -> Neighbours:
        """The neighbour structure."""
        if self.shared is not None and (closest := self.shared.closest.get(self.neighbours)) is not None:
            return Neighbours(self.constraints, self.neighbours, closest.k, closest.is_smallest, closest.pair)
        return neighbours_of(self.constraints, self.neighbours)

    @cached_property
    def unbounded(self) -> "Case":
        """The same under the relation in which a record comes or goes."""
        if self.neighbours == "unbounded":
            return self
        return replace(self, neighbours="unbounded", bounded=self)

    @cached_property
    def is_one_table(self) -> bool:
        """Whether S* is a single table; refuses other sets in which no two tables are neighbours."""
        if self.neighbourhood.k is not None:
            return False
        if self.unbounded.neighbourhood.k is not None:
            raise PrivacyError(
                "several tables obey the conditions, but no two of them have the same number of records, so a bounded"
                ' guarantee would promise nothing; use neighbours="unbounded", or make total() an invariant'
            )
        return True

    @cached_property
    def unimodularity(self) -> Unimodularity:
        """Whether all rows over several cells are proven totally unimodular."""
        hard = [limited.row for limited in self.constraints.equalities]
        soft = [limited.row for limited in self.constraints.ranges] + [soft.row for soft in self.moves.soft]
        return certify_unimodular(hard, soft, self.mobile_cells)

    @property
    def mobile_cells(self) -> list[int]:
        """Cells that can move, ascending."""
        return sorted(cell for kind in self.moves.kinds for cell in kind.cells)

    @cached_property
    def is_rank_one(self) -> bool:
        """Whether every independent part of S* is a line: cells without rows, pairs with a fixed sum, and the like."""
        mobile = set(self.mobile_cells)
        hard = [_inside(limited.row, mobile) for limited in self.constraints.equalities]
        rows = [
            *(_inside(limited.row, mobile) for limited in self.constraints.rows),
            *(_inside(soft.row, mobile) for soft in self.moves.soft),
        ]
        parent = {cell: cell for cell in mobile}

        def root(cell: int) -> int:
            while parent[cell] != cell:
                parent[cell] = parent[parent[cell]]
                cell = parent[cell]
            return cell

        for row in rows:
            for cell in row:
                parent[root(cell)] = root(next(iter(row)))
        sizes: dict[int, int] = {}
        for cell in mobile:
            sizes[root(cell)] = sizes.get(root(cell), 0) + 1
        # One rank for all parts would hide a part of rank two beside one of rank zero.
        own: dict[int, list[dict[int, int]]] = {}
        for row in hard:
            if row:
                own.setdefault(root(next(iter(row))), []).append(row)
        return all(size - dependence(own.get(part, [])).rank <= 1 for part, size in sizes.items())

    @cached_property
    def widths(self) -> tuple[int | None, ...]:
        """How many values above its least each cell can have at most; None where that has no limit."""
        if self.shared is not None:
            return self.shared.widths
        bounds = self.constraints.quick_bounds
        pairs = zip(bounds.lower, bounds.upper, strict=True)
        return tuple(None if low is None or high is None else high - low for low, high in pairs)

    def measured(self, precisions: Sequence[Fraction], floors: Sequence[Fraction] = ()) -> tuple[Measured, ...]:
        """Return the rows with their noise and floors (1 if none are given); classes of precision 0 are left out."""
        classes = zip(self.classes, precisions, floors or [Fraction(1)] * len(self.classes), strict=True)
        return tuple(
            Measured(row, self.family(precision), floor)
            for rows, precision, floor in classes
            if precision
            for row in rows
        )

    @cached_property
    def is_small(self) -> bool:
        """Whether few tables obey the conditions, as far as a rough count tells; never for several areas at once."""
        return self.shared is None and may_be_few(self.constraints, MOST_TABLES)

    def listed(self, precisions: Sequence[Fraction], floors: Sequence[Fraction] = ()) -> Enumerated | None:
        """Return all tables with their probabilities where they are few."""
        if not self.is_small:
            return None
        try:
            return Enumerated.of(self.constraints, self.measured(precisions, floors), self.neighbours)
        except TooLargeError:
            return None


def _inside(row: Row, cells: set[int]) -> dict[int, int]:
    return {cell: weight for cell, weight in zip(row.cells, row.coefficients, strict=True) if cell in cells}
