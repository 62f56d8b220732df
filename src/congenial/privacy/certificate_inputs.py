"""What a certificate depends on but the precisions: conditions of one pattern, what is measured, who is a neighbour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import NONE, AreaGroup, Areas, quick_bounds
from congenial.conditions.constraints import Constraints
from congenial.conditions.determined_cells import distinct
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row, connected_parts
from congenial.errors import PrivacyError, TooLargeError
from congenial.memory_and_threads import parts_of
from congenial.noise import FAMILIES, Noise
from congenial.privacy import RELATIONS, check_relation
from congenial.privacy.bounds_and_enumerated_losses import MOST_TABLES, Enumerated
from congenial.privacy.closest_neighbours_and_unprotected import ClosestPair, Neighbours, closest_pair, neighbours_of
from congenial.privacy.moves import Moves
from congenial.privacy.unimodular import Unimodularity, certify_unimodular
from congenial.sampling.enumeration import may_be_few
from congenial.sampling.target_and_system import Measured


@dataclass(frozen=True)
class SharedFacts:
    """What is known of every area that a case stands for, and not of its own constraints alone.

    Attributes
    ----------
    closest : mapping from relation to ClosestPair
        The fewest records in which two tables of such an area differ.
    widths : tuple of int or None
        How many values above its least each cell can have at most, in any of the areas.
    """

    closest: dict[str, ClosestPair]
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
    shared : SharedFacts or None
        None for one area, whose own values may be used.
    bounded : Case or None
        The same under the other relation, if this one was made from it.
    """

    constraints: Constraints
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str
    shared: SharedFacts | None = field(default=None, repr=False)
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
        return sorted(cell for group in self.moves.groups for cell in group.cells)

    @cached_property
    def is_rank_one(self) -> bool:
        """Whether every independent part of S* is a line: cells without rows, pairs with a fixed sum, and the like."""
        mobile = set(self.mobile_cells)
        hard = [limited.row.within(mobile) for limited in self.constraints.equalities]
        rows = [*(limited.row for limited in self.constraints.rows), *(soft.row for soft in self.moves.soft)]
        parts = connected_parts((row.within(mobile) for row in rows), mobile)
        part_of = {cell: number for number, cells in enumerate(parts) for cell in cells}
        # One rank for all parts would hide a part of rank two beside one of rank zero.
        by_part: list[list[dict[int, int]]] = [[] for _ in parts]
        for row in filter(None, hard):
            by_part[part_of[next(iter(row))]].append(row)
        return all(len(cells) - dependence(some).rank <= 1 for cells, some in zip(parts, by_part, strict=True))

    @cached_property
    def widths(self) -> tuple[int | None, ...]:
        """How many values above its least each cell can have at most; None where that has no limit."""
        if self.shared is not None:
            return self.shared.widths
        bounds = self.constraints.quick_bounds
        pairs = zip(bounds.lower, bounds.upper, strict=True)
        return tuple(None if low is None or high is None else high - low for low, high in pairs)

    def measured(self, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction] = ()) -> tuple[Measured, ...]:
        """Return the rows with their noise and zero weights (1 by default); classes of precision 0 are left out."""
        classes = zip(self.classes, precisions, zero_weights or [Fraction(1)] * len(self.classes), strict=True)
        return tuple(
            Measured(row, self.family(precision), zero_weight)
            for rows, precision, zero_weight in classes
            if precision
            for row in rows
        )

    @cached_property
    def is_small(self) -> bool:
        """Whether few tables obey the conditions, as far as a rough count tells; never for several areas at once."""
        return self.shared is None and may_be_few(self.constraints, MOST_TABLES)

    def listed(self, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction] = ()) -> Enumerated | None:
        """Return all tables with their probabilities where they are few."""
        if not self.is_small:
            return None
        try:
            return Enumerated.of(self.constraints, self.measured(precisions, zero_weights), self.neighbours)
        except TooLargeError:
            return None


# Areas that no certificate tells apart: the same rows, limits and pinned cells, and as few records that can change.

FEW_AREAS = 20
"""Up to so many areas are certified each by its own values: whether few tables fit is itself a question of 40 ms."""


@dataclass(frozen=True)
class Structure:
    """Areas with one case.

    Attributes
    ----------
    places : array (area of the structure,)
        Where they stand among all areas.
    """

    case: Case
    places: Ints = field(repr=False)

    @property
    def n_areas(self) -> int:
        """How many areas it stands for."""
        return len(self.places)


def structures_of(
    areas: Areas, classes: tuple[tuple[Row, ...], ...], noise: str, neighbours: str
) -> tuple[Structure, ...]:
    """Return a case for each area while there are few, else one for all areas that no certificate tells apart."""
    if len(areas) <= FEW_AREAS:
        cases = (Case(constraints, classes, noise, neighbours) for constraints in areas.values())
        return tuple(Structure(case, np.array([place])) for place, case in enumerate(cases))
    out = []
    for group in areas.groups:
        for members, shared in _split(group):
            case = Case(group.constraints(int(members[0])), classes, noise, neighbours, shared)
            out.append(Structure(case, group.places[members]))
    return tuple(out)


def _split(group: AreaGroup) -> Iterator[tuple[Ints, SharedFacts]]:
    """Go through the areas of a group that agree in their pinned cells and in the fewest records that can change.

    Areas with equal values are alike, and limits of cells are those of some areas at a time: of a million areas they
    would take gigabytes.
    """
    few, kind_of_area = distinct(group)
    number_of: dict[bytes, int] = {}
    widest: list[Ints] = []
    known: list[dict[str, ClosestPair]] = []
    kinds = np.empty(len(few.places), np.int64)
    for numbers in parts_of(len(few.places)):
        some = few.part(numbers)
        bounds = quick_bounds(some)
        closest = {relation: _closest_codes(some, bounds.pinned, relation) for relation in RELATIONS}
        lines = [np.packbits(bounds.pinned, axis=1), *(codes[:, None].view(np.uint8) for codes in closest.values())]
        keys = np.ascontiguousarray(np.concatenate(lines, axis=1))
        _, first, kind_of = np.unique(keys.view(f"V{keys.shape[1]}"), return_index=True, return_inverse=True)
        numbers_of_kinds = np.empty(len(first), np.int64)
        for kind, place in enumerate(first.tolist()):
            members = np.flatnonzero(kind_of.reshape(-1) == kind)
            widths = bounds.widths[members].max(axis=0)
            numbers_of_kinds[kind] = number = number_of.setdefault(keys[place].tobytes(), len(widest))
            if number == len(widest):
                widest.append(widths)
                known.append({relation: _closest(int(codes[place])) for relation, codes in closest.items()})
            else:
                widest[number] = np.maximum(widest[number], widths)
        kinds[numbers] = numbers_of_kinds[kind_of.reshape(-1)]
    of_area = kinds[kind_of_area]
    _, starts = np.unique(of_area, return_index=True)
    for number in of_area[np.sort(starts)].tolist():  # those first that come first among the areas
        widths = tuple(None if width == NONE else width for width in widest[number].tolist())
        yield np.flatnonzero(of_area == number), SharedFacts(known[number], widths)


def _closest_codes(group: AreaGroup, pinned: NDArray[np.bool_], relation: str) -> Ints:
    """Say of each area how few records can change, as a code."""
    codes = _quick_closest(group, pinned, relation)
    for number in np.flatnonzero(codes == _UNKNOWN):  # by integer programs, area by area: milliseconds each
        codes[number] = _code(closest_pair(group.constraints(int(number)), relation))
    return codes


# Codes of fewest records: 2 k + (1 if fewer are proven impossible), or one of these.
_UNKNOWN, _NOBODY, _ONE, _TWO = -2, -1, 3, 5


def _code(closest: ClosestPair) -> int:
    return _NOBODY if closest.k is None else 2 * closest.k + closest.is_smallest


def _closest(code: int) -> ClosestPair:
    return ClosestPair(None if code == _NOBODY else code // 2, bool(code % 2), None)


def _quick_closest(group: AreaGroup, pinned: NDArray[np.bool_], relation: str) -> Ints:
    """Say of each area how few records can change, as a code, where that is plain without any search.

    One record can pass between two cells with equal columns if one holds more than its least and the other has no upper
    limit. In a plain sum above the sum of its cells' lower limits, some cell holds more than its least, whatever the
    table is: so a sum in which every such cell has a partner decides. Cells in no row at all can be filled first.
    """
    pattern = group.pattern
    codes = np.full(len(group.places), _UNKNOWN)
    in_no_row = set(range(pattern.schema.n_cells)).difference(*(limited.row.cells for limited in pattern.rows))
    if relation == "unbounded":
        if any(_can_rise(pattern, cell) for cell in in_no_row):
            codes[:] = _ONE
        elif () not in pattern.alike:
            bounded = _quick_closest(group, pinned, "bounded")
            codes[bounded == _ONE] = _TWO  # no record comes or goes alone, and one can change
    else:
        has_partner = {cell for cells in pattern.grouped.members if _pairs_up(pattern, cells) for cell in cells}
        if in_no_row & has_partner:
            codes[:] = _ONE
        for number, limited in enumerate(pattern.equalities):
            lowers = [pattern.lower[cell] for cell in limited.row.cells]
            loose = {cell for cell in limited.row.cells if not pattern.is_fixed(cell)}
            if set(limited.row.coefficients) == {1} and None not in lowers and loose <= has_partner:
                least = sum(end for end in lowers if end is not None)
                codes[group.values[:, number] > least] = _ONE
    codes[pinned.all(axis=1)] = _NOBODY
    return codes


def _can_rise(pattern: Constraints, cell: int) -> bool:
    return pattern.upper[cell] is None


def _pairs_up(pattern: Constraints, cells: tuple[int, ...]) -> bool:
    """Whether of cells with equal columns two or more have no upper limit; the others must be fixed by themselves."""
    loose = [cell for cell in cells if not pattern.is_fixed(cell)]
    return len(loose) > 1 and all(_can_rise(pattern, cell) for cell in loose)
