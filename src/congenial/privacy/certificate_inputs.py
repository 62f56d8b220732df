"""What a certificate depends on but the precisions: conditions of one pattern, what is measured, who is a neighbour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import NONE, AreaGroup, Areas, quick_bounds
from congenial.conditions.constraints import Constraints
from congenial.conditions.determined_cells import distinct
from congenial.conditions.grouped_cells_and_lattice import Equalities, cells_fixed, dependence
from congenial.conditions.rows_and_intervals import Column, Row, columns, connected_parts
from congenial.errors import PrivacyError, TooLargeError, did_you_mean
from congenial.memory_and_threads import parts_of
from congenial.noise import FAMILIES, Noise
from congenial.privacy import RELATIONS, check_relation
from congenial.privacy.bounds_and_enumerated_losses import MOST_TABLES, Enumerated
from congenial.privacy.closest_neighbours_and_unprotected import ClosestPair, Neighbours, closest_pair, neighbours_of
from congenial.privacy.moves import MOST_PAIRS, Moves
from congenial.privacy.unimodular import Unimodularity, certify_unimodular
from congenial.sampling.enumeration import may_be_few
from congenial.sampling.target_and_system import Measured

CONDITIONAL, MEASURED = METHODS = ("conditional", "measured")
"""Tables drawn given all conditions, or measurements whose noise is conditioned on the exact numbers alone."""

USUAL_METHOD, USUAL_METHOD_OF_TREES = CONDITIONAL, MEASURED
"""The method of one table or of areas, and of a tree, unless another is named."""


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
    method : str
        ``"conditional"`` or ``"measured"``: which theorems apply.
    """

    constraints: Constraints
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str
    shared: SharedFacts | None = field(default=None, repr=False)
    bounded: "Case | None" = field(default=None, repr=False)
    method: str = field(default=CONDITIONAL, repr=False)

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if self.method not in METHODS:
            raise PrivacyError(f"method {self.method!r} is not known; {did_you_mean(str(self.method), METHODS)}")
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

    @cached_property
    def class_of_row(self) -> tuple[int, ...]:
        """The class of each measured row, one class after the other."""
        return tuple(number for number, rows in enumerate(self.classes) for _ in rows)

    @cached_property
    def measured_columns(self) -> list[Column]:
        """Every cell's column in the measured rows, one class after the other."""
        return columns([row for rows in self.classes for row in rows], self.constraints.schema.n_cells)

    @cached_property
    def _changes(self) -> dict[str, dict[tuple[int, ...], "Change"]]:
        return {}

    def changes_of_one_record(self, neighbours: str) -> dict[tuple[int, ...], "Change"]:
        """Return changes of one record that keep the equalities, one for each way to count the measured rows.

        Every such way is there, unless there are too many pairs of cells: then each group has one partner.
        """
        if neighbours not in self._changes:
            ends: list[tuple[int, ...]] = [group.cells[:1] for group in self.moves.groups if not group.equal]
            if neighbours == "bounded":
                ends = []
                for groups in self.moves.exchanging:
                    ends += [group.cells[:2] for group in groups if len(group.cells) > 1]
                    n_groups, firsts = len(groups), [group.cells[0] for group in groups]
                    few = n_groups * (n_groups + 1) // 2 <= MOST_PAIRS
                    ends += combinations(firsts, 2) if few else [(firsts[0], other) for other in firsts[1:]]
            out: dict[tuple[int, ...], Change] = {}
            for cells in ends:
                change = Change(tuple(sorted(zip(cells, (1, -1), strict=False))))
                out.setdefault(_counts(self, change), change)
            self._changes[neighbours] = out
        return self._changes[neighbours]

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
        """Whether few tables obey the conditions, as far as a rough count tells; never for several areas at once.

        Nor for measurements, which are not among them: enumerating tables says nothing of their loss.
        """
        return self.method == CONDITIONAL and self.shared is None and may_be_few(self.constraints, MOST_TABLES)

    def listed(self, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction] = ()) -> Enumerated | None:
        """Return all tables with their probabilities where they are few."""
        if not self.is_small:
            return None
        try:
            return Enumerated.of(self.constraints, self.measured(precisions, zero_weights), self.neighbours)
        except TooLargeError:
            return None


# What a measured release is charged for, as integer vectors: docs/claims/measured.md.


@dataclass(frozen=True)
class Change:
    """A difference of two tables: which cells change, and by how many records.

    Examples
    --------
    >>> one = Change.of([0, 1, -1, 0])
    >>> one.entries, one.n_records("bounded"), one.value(Row.of("first two", [0, 1]))
    (((1, 1), (2, -1)), 1, 1)
    """

    entries: Column

    @classmethod
    def of(cls, vector: Sequence[int]) -> "Change":
        """Return the nonzero entries of a vector over cells."""
        return cls(tuple((cell, int(size)) for cell, size in enumerate(vector) if size))

    def value(self, row: Row) -> int:
        """Return by how much a row changes."""
        return sum(row.terms.get(cell, 0) * size for cell, size in self.entries)

    def n_records(self, neighbours: str) -> int | None:
        """Return how many records change, or come and go; None if a changed record cannot do it."""
        norm = sum(abs(size) for _, size in self.entries)
        if neighbours == "unbounded":
            return norm
        return None if sum(size for _, size in self.entries) else norm // 2

    def text(self, constraints: Constraints) -> str:
        """Return the change in words."""
        name = constraints.schema.cell_name
        largest = max((abs(size) for _, size in self.entries), default=0)
        records = "one record" if largest == 1 else f"{largest:,} records"
        if len(self.entries) == 1:
            return f"{records} of {name(self.entries[0][0])}"
        if sorted(size for _, size in self.entries) == [-largest, largest]:
            (leaving, entering) = (cell for cell, _ in sorted(self.entries, key=lambda entry: entry[1]))
            return f"{records} from {name(leaving)} to {name(entering)}"
        parts = [f"{name(cell)} by {size:+,}" for cell, size in self.entries[:4]]
        return "; ".join(parts) + (f"; and {len(self.entries) - 4} more cells" if len(self.entries) > 4 else "")


def distance_of(case: Case, change: Change, precisions: Sequence[Fraction]) -> Fraction:
    """Return ``sum_r e_r |q_r(z)|``, or ``sum_r p_r q_r(z)^2 / 2``, of one change z, row by row."""
    return _weighted_sum(_counts(case, change), precisions) / case.family.exponent


def _counts(case: Case, change: Change) -> tuple[int, ...]:
    """Return for each class of measured rows the sum of ``|q_r(z)|``, or of its square."""
    power, touched = case.family.exponent, case.measured_columns
    out = [0] * len(case.classes)
    values: dict[int, int] = {}
    for cell, size in change.entries:
        for number, times in touched[cell]:
            values[number] = values.get(number, 0) + times * size
    for number, value in values.items():
        out[case.class_of_row[number]] += abs(value) ** power
    return tuple(out)


def _weighted_sum(counts: Sequence[int], precisions: Sequence[Fraction]) -> Fraction:
    return sum((p * n for p, n in zip(precisions, counts, strict=True) if n), Fraction(0))


def charged_change(case: Case, precisions: Sequence[Fraction], k: int) -> Change | None:
    """Return a change of at most `k` records that a certificate charges for, checked in integers; None without one.

    Of one record it is the worst, unless there are too many pairs of cells to go through. Of several it is that times
    `k`; where no record can change alone, the change between the closest tables of the conditions. The certificate's
    bound is at least its distance.
    """
    relation = case.neighbours
    if relation == "unbounded" and case.moves.total_is_fixed:  # records leave and enter in pairs
        relation, k = "bounded", k // 2
    if k < 1:
        return None
    changes = case.changes_of_one_record(relation)
    change = None
    if changes:
        _, single = max(changes.items(), key=lambda item: _weighted_sum(item[0], precisions))
        change = Change(tuple((cell, k * size) for cell, size in single.entries))
    elif (pair := case.neighbourhood.pair) is not None:
        change = Change.of([after - before for before, after in zip(*pair, strict=True)])
    if change is not None:
        _check_change(case, change, relation, k)
    return change


def _check_change(case: Case, change: Change, relation: str, k: int) -> None:
    """See that exact numbers and determined cells stay, in integers: what is charged is a change inside the lattice."""
    records = change.n_records(relation)
    if records is None or not 0 < records <= k:
        raise PrivacyError(f"internal: a change of {records} records is charged as one of {k}")
    for limited in case.constraints.equalities:
        if change.value(limited.row):
            raise PrivacyError(f"internal: a change is charged that moves an exact number, {limited.row.name}")
    if any(case.constraints.quick_bounds.limits[cell].is_point for cell, _ in change.entries):
        raise PrivacyError("internal: a change is charged that moves a cell that the conditions determine")


def determined_queries(case: Case) -> tuple[int, ...]:
    """Return the classes of measured rows of which no row can move: the exact numbers say what they would.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells(), cg.total()], invariants=[cg.total()], epsilon=1)
    >>> constraints = mechanism.disclose(cg.Table(schema, [[1, 2], [3, 4]]))
    >>> determined_queries(Case(constraints, mechanism.classes, "double_geometric", "bounded"))
    (1,)
    """
    counted = [counts for relation in RELATIONS for counts in case.changes_of_one_record(relation)]
    moving = {number for counts in counted for number, count in enumerate(counts) if count}
    return tuple(c for c in range(len(case.classes)) if c not in moving and _is_determined(case, case.classes[c]))


_FIRST = 3  # rows that are tried one by one: in a query that moves, most rows do, and many rows take seconds


def _is_determined(case: Case, rows: Sequence[Row]) -> bool:
    """Whether the equalities, with cells that cannot move, leave each of some rows one value."""
    constraints = case.constraints
    still = {cell for cell, limits in enumerate(constraints.quick_bounds.limits) if limits.is_point}
    known = Equalities((*cells_fixed(constraints.quick_bounds.limits), *constraints.equalities))
    open_rows = [row for row in rows if not still.issuperset(row.cells)]
    parts = [*([row] for row in open_rows[:_FIRST]), open_rows[_FIRST:]]
    return all(value is not None for part in parts for value in known.implied_each(part))


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
    areas: Areas, classes: tuple[tuple[Row, ...], ...], noise: str, neighbours: str, method: str = CONDITIONAL
) -> tuple[Structure, ...]:
    """Return a case for each area while there are few, else one for all areas that no certificate tells apart."""
    if len(areas) <= FEW_AREAS:
        cases = (Case(constraints, classes, noise, neighbours, method=method) for constraints in areas.values())
        return tuple(Structure(case, np.array([place])) for place, case in enumerate(cases))
    out = []
    for group in areas.groups:
        for members, shared in _split(group):
            case = Case(group.constraints(int(members[0])), classes, noise, neighbours, shared, method=method)
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
        pinned = bounds.pinned_lines
        closest = {relation: _closest_codes(some, pinned, relation) for relation in RELATIONS}
        lines = [np.packbits(pinned, axis=1), *(codes[:, None].view(np.uint8) for codes in closest.values())]
        keys = np.ascontiguousarray(np.concatenate(lines, axis=1))
        _, first, kind_of = np.unique(keys.view(f"V{keys.shape[1]}"), return_index=True, return_inverse=True)
        numbers_of_kinds = np.empty(len(first), np.int64)
        for kind, place in enumerate(first.tolist()):
            members = np.flatnonzero(kind_of.reshape(-1) == kind)
            of_cells = bounds.widest(members)
            numbers_of_kinds[kind] = number = number_of.setdefault(keys[place].tobytes(), len(widest))
            if number == len(widest):
                widest.append(of_cells)
                known.append({relation: _closest(int(codes[place])) for relation, codes in closest.items()})
            else:
                widest[number] = np.maximum(widest[number], of_cells)
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
