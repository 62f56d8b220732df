"""Areas that no certificate tells apart: the same rows, limits and pinned cells, and as few records that can change."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.chunks import parts_of
from congenial.conditions.areas import Areas, Group
from congenial.conditions.constraints import Constraints
from congenial.conditions.determined import distinct
from congenial.conditions.many_bounds import NONE, quick_bounds
from congenial.conditions.rows import Row
from congenial.privacy.certified_case import Case, Shared
from congenial.privacy.closest import Closest, closest_pair
from congenial.privacy.relation import RELATIONS

FEW_AREAS = 20
"""Up to so many areas are certified each by its own values: whether few tables fit is itself a question of 40 ms."""

_NO_PAIR, _ONE, _TWO = Closest(None, True, None), Closest(1, True, None), Closest(2, True, None)


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


def _split(group: Group) -> Iterator[tuple[Ints, Shared]]:
    """Go through the areas of a group that agree in their pinned cells and in the fewest records that can change.

    Areas with equal values are alike, and limits of cells are those of some areas at a time: of a million areas they
    would take gigabytes.
    """
    few, which = distinct(group)
    number_of: dict[bytes, int] = {}
    widest: list[Ints] = []
    known: list[dict[str, Closest]] = []
    kinds = np.empty(len(few.places), np.int64)
    for numbers in parts_of(len(few.places)):
        some = few.part(numbers)
        bounds = quick_bounds(some)
        closest = {relation: _closest_codes(some, bounds.pinned, relation) for relation in RELATIONS}
        lines = [np.packbits(bounds.pinned, axis=1), *(codes[:, None].view(np.uint8) for codes in closest.values())]
        keys = np.ascontiguousarray(np.concatenate(lines, axis=1))
        _, first, own = np.unique(keys.view(f"V{keys.shape[1]}"), return_index=True, return_inverse=True)
        found = np.empty(len(first), np.int64)
        for kind, place in enumerate(first.tolist()):
            members = np.flatnonzero(own.reshape(-1) == kind)
            widths = bounds.widths[members].max(axis=0)
            found[kind] = number = number_of.setdefault(keys[place].tobytes(), len(widest))
            if number == len(widest):
                widest.append(widths)
                known.append({relation: _closest(int(codes[place])) for relation, codes in closest.items()})
            else:
                widest[number] = np.maximum(widest[number], widths)
        kinds[numbers] = found[own.reshape(-1)]
    of_area = kinds[which]
    _, starts = np.unique(of_area, return_index=True)
    for number in of_area[np.sort(starts)].tolist():  # those first that come first among the areas
        widths = tuple(None if width == NONE else width for width in widest[number].tolist())
        yield np.flatnonzero(of_area == number), Shared(known[number], widths)


def _closest_codes(group: Group, pinned: NDArray[np.bool_], relation: str) -> Ints:
    """Say of each area how few records can change, as a code."""
    found = _quick_closest(group, pinned, relation)
    for number in np.flatnonzero(found == _UNKNOWN):  # by integer programs, area by area: milliseconds each
        found[number] = _code(closest_pair(group.constraints(int(number)), relation))
    return found


_UNKNOWN, _NOBODY = -2, -1  # codes of fewest records; others are 2 k + (1 if fewer are proven impossible)


def _code(closest: Closest) -> int:
    return _NOBODY if closest.k is None else 2 * closest.k + closest.is_smallest


def _closest(code: int) -> Closest:
    return _NO_PAIR if code == _NOBODY else Closest(code // 2, bool(code % 2), None)


def _quick_closest(group: Group, pinned: NDArray[np.bool_], relation: str) -> Ints:
    """Say of each area how few records can change, as a code, where that is plain without any search.

    One record can pass between two cells with equal columns if one holds more than its least and the other has no upper
    limit. In a plain sum above the sum of its cells' lower limits, some cell holds more than its least, whatever the
    table is: so a sum in which every such cell has a partner decides. Cells in no row at all can be filled first.
    """
    pattern = group.pattern
    found = np.full(len(group.places), _UNKNOWN)
    is_free = {cell for cells in _cells_in_no_row(pattern) for cell in cells}
    if relation == "unbounded":
        if any(_can_rise(pattern, cell) for cell in is_free):
            found[:] = _code(_ONE)
        elif () not in pattern.alike:
            bounded = _quick_closest(group, pinned, "bounded")
            found[bounded == _code(_ONE)] = _code(_TWO)  # no record comes or goes alone, and one can change
    else:
        has_partner = {cell for cells in pattern.grouped.members if _pairs_up(pattern, cells) for cell in cells}
        if is_free & has_partner:
            found[:] = _code(_ONE)
        for number, limited in enumerate(pattern.equalities):
            lowers = [pattern.lower[cell] for cell in limited.row.cells]
            loose = {cell for cell in limited.row.cells if not pattern.is_fixed(cell)}
            if set(limited.row.coefficients) == {1} and None not in lowers and loose <= has_partner:
                least = sum(end for end in lowers if end is not None)
                found[group.values[:, number] > least] = _code(_ONE)
    found[pinned.all(axis=1)] = _NOBODY
    return found


def _can_rise(pattern: Constraints, cell: int) -> bool:
    return pattern.upper[cell] is None


def _cells_in_no_row(pattern: Constraints) -> Iterator[tuple[int, ...]]:
    touched = {cell for limited in pattern.rows for cell in limited.row.cells}
    yield from (cells for cells in pattern.grouped.members if not touched & set(cells))


def _pairs_up(pattern: Constraints, cells: tuple[int, ...]) -> bool:
    """Whether of cells with equal columns two or more have no upper limit; the others must be fixed by themselves."""
    loose = [cell for cell in cells if not pattern.is_fixed(cell)]
    return len(loose) > 1 and all(_can_rise(pattern, cell) for cell in loose)
