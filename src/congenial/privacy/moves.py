"""What changes when records change: the steps between neighbouring tables of S*, and how far apart noise keeps them.

All of it is public. Every number here is an upper bound of a distance, or a lower bound of a precision, over *all*
pairs of tables of S* that are so many records apart; docs/claims/conditional-loss.md says what follows from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import gcd

from congenial.conditions.constraints import Constraints
from congenial.conditions.groups import Box, GroupedRow
from congenial.conditions.integer_program import EmptyError, minimise
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import Row
from congenial.errors import PrivacyError, did_you_mean

RELATIONS = ("bounded", "unbounded")
MOST_PAIRS = 20_000
MOST_KINDS = 150

Column = tuple[tuple[int, int], ...]


def check_relation(neighbours: object) -> str:
    """Check the name of a neighbour relation.

    Examples
    --------
    >>> check_relation("bounded")
    'bounded'
    """
    if not isinstance(neighbours, str) or neighbours not in RELATIONS:
        raise PrivacyError(
            f"neighbours={neighbours!r} is not a neighbour relation; {did_you_mean(str(neighbours), RELATIONS)}"
            ' ("bounded": one record changes its value; "unbounded": one record is added or removed)'
        )
    return neighbours


@dataclass(frozen=True)
class Kind:
    """Cells that can move and that conditions and measured queries treat alike.

    Attributes
    ----------
    equal, ranges, soft : tuple of (row, weight)
        The cells' columns in the equalities, in the ranges and in the measured rows over several cells.
    own : tuple of (class, weight)
        Measurements of the cell alone: the class of the query and the size of the weight.
    is_limited : bool
        Whether the cells have a limit that they could meet.
    """

    cells: tuple[int, ...]
    equal: Column
    ranges: Column
    soft: Column
    own: Column
    is_limited: bool


@dataclass(frozen=True)
class Soft:
    """A measured row over several cells that can move, with the class of its query."""

    row: Row
    klass: int


@dataclass(frozen=True)
class Step:
    """The worst of some pairs of neighbouring tables.

    Attributes
    ----------
    distance : Fraction
        ``sum_r e_r |q_r(z)|`` (D), or ``sum_r p_r q_r(z)^2 / 2`` (rho) under Gaussian noise.
    least : Fraction or None
        The smallest precision of a limit that the step can meet; None when it meets none.
    """

    distance: Fraction
    least: Fraction | None


@dataclass(frozen=True)
class Moves:
    """The public structure of all steps inside S*; precisions come later, one for each class of queries."""

    constraints: Constraints
    kinds: tuple[Kind, ...]
    soft: tuple[Soft, ...]
    range_own: tuple[Column, ...]
    free_kinds: tuple[Kind, ...]
    all_soft: tuple[Soft, ...]

    @classmethod
    def of(cls, constraints: Constraints, classes: Sequence[Sequence[Row]]) -> "Moves":
        """Collect the columns of every cell that can move.

        Parameters
        ----------
        classes : sequence of sequences of Row
            The measured rows; rows of one class share a precision.
        """
        n_cells = constraints.schema.n_cells
        bounds = constraints.quick_bounds
        fixed = {
            cell
            for cell in range(n_cells)
            if bounds.lower[cell] is not None and bounds.lower[cell] == bounds.upper[cell]
        }
        mobile = [cell for cell in range(n_cells) if cell not in fixed]
        equal = [one.row for one in constraints.equalities]
        ranges = [one.row for one in constraints.ranges]
        several = tuple(Soft(row, c) for c, rows in enumerate(classes) for row in rows if len(row.cells) > 1)
        single = [(row, c) for c, rows in enumerate(classes) for row in rows if len(row.cells) == 1]
        own: list[list[tuple[int, int]]] = [[] for _ in range(n_cells)]
        for row, c in single:
            own[row.cells[0]].append((c, abs(row.weights[0])))
        # A measured row that the equalities fix never changes.
        moving = tuple(one for one in several if not _is_fixed(one.row, equal, fixed))
        limited = [
            low is not None or high is not None for low, high in zip(constraints.lower, constraints.upper, strict=True)
        ]
        kinds = _kinds(mobile, equal, ranges, [one.row for one in moving], own, limited)
        free = _kinds(range(n_cells), [], [], [one.row for one in several], own, limited)
        measured_ranges = tuple(_proportional(row, several) for row in ranges)
        return cls(constraints, kinds, moving, measured_ranges, free, several)

    @cached_property
    def total_is_fixed(self) -> bool:
        """Whether the equalities fix the number of records."""
        everyone = Row.of("", sorted({cell for kind in self.kinds for cell in kind.cells}))
        fixed = set(range(self.constraints.schema.n_cells)) - set(everyone.cells)
        return _is_fixed(everyone, [one.row for one in self.constraints.equalities], fixed)

    def one_record_without_invariants(self, precisions: Sequence[Fraction], power: int, neighbours: str) -> Fraction:
        """Return the worst distance of one record on tables without any condition: the loss of M itself."""
        return _worst_step(self.free_kinds, self.all_soft, precisions, power, neighbours)

    def steps(self, precisions: Sequence[Fraction], power: int, neighbours: str, k: int) -> list[Step]:
        """Return steps that are at least as bad as every pair of tables at most `k` records apart.

        Parameters
        ----------
        power : int
            1 for noise that falls with the distance, 2 for Gaussian noise.
        """
        if neighbours == "unbounded" and self.total_is_fixed:  # records leave and enter in pairs
            neighbours, k = "bounded", k // 2
        if k < 1 or not self.kinds:
            return [Step(Fraction(0), None)]
        if k == 1:
            return self._single(precisions, power, neighbours)
        return [self._several(precisions, power, neighbours, k)]

    def _single(self, precisions: Sequence[Fraction], power: int, neighbours: str) -> list[Step]:
        if neighbours == "unbounded":
            pairs = [(kind, None) for kind in self.kinds if not kind.equal]
            return _worst(self._step(kind, other, precisions, power) for kind, other in pairs)
        steps: list[Step] = []
        for members in self._alike.values():
            if len(members) * (len(members) + 1) // 2 <= MOST_PAIRS:
                same = [(kind, kind) for kind in members if len(kind.cells) > 1]
                steps += _worst(self._step(*pair, precisions, power) for pair in [*same, *combinations(members, 2)])
            else:
                farthest = _worst_step(members, self.soft, precisions, power, "bounded")
                steps.append(Step(farthest, self._least(members, precisions)))
        return _worst(steps)

    @cached_property
    def _alike(self) -> dict[Column, list[Kind]]:
        """Kinds by their column in the equalities: a record can move inside each."""
        out: dict[Column, list[Kind]] = {}
        for kind in self.kinds:
            out.setdefault(kind.equal, []).append(kind)
        return out

    def _step(self, kind: Kind, other: Kind | None, precisions: Sequence[Fraction], power: int) -> Step:
        ends = [kind] if other is None else [kind, other]
        soft = _difference(kind.soft, other.soft if other else ())
        distance = sum((_own(end, precisions, power) for end in ends), Fraction(0))
        distance += sum((precisions[self.soft[r].klass] * abs(w) ** power for r, w in soft.items()), Fraction(0))
        crossed = _difference(kind.ranges, other.ranges if other else ())
        return Step(distance / power, self._least(ends, precisions, crossed))

    def _least(
        self, kinds: Sequence[Kind], precisions: Sequence[Fraction], crossed: Mapping[int, int] | None = None
    ) -> Fraction | None:
        met = [_own(kind, precisions, 1) for kind in kinds if kind.is_limited]
        rows = range(len(self.range_own)) if crossed is None else crossed
        met += [sum((precisions[c] * w for c, w in self.range_own[row]), Fraction(0)) for row in rows]
        return min(met, default=None)

    def _several(self, precisions: Sequence[Fraction], power: int, neighbours: str, k: int) -> Step:
        # k records are k steps of one record, each between any two cells that can move: distances of steps add up, and
        # so do square roots of rho.
        one = _worst_step(self.kinds, self.soft, precisions, power, neighbours)
        crude = one * k**power
        most = self._most(neighbours, k)
        if most is None:
            return Step(crude, self._least(self.kinds, precisions))
        entries, rows = most
        norm = 2 * k if neighbours == "bounded" else k
        reachable = [number for number, entry in enumerate(entries) if entry]
        of_cells = max(
            (_own(self.kinds[n], precisions, power) * entries[n] ** (power - 1) for n in reachable), default=Fraction(0)
        )
        of_rows = (precisions[one.klass] * most_of**power for one, most_of in zip(self.soft, rows, strict=True))
        fine = (of_cells * norm + sum(of_rows, Fraction(0))) / power
        return Step(min(crude, fine), self._least([self.kinds[n] for n in reachable], precisions))

    def _most(self, neighbours: str, k: int) -> tuple[list[int], list[int]] | None:
        """Return how much of a step of `k` records each kind and soft row can take at most, by integer programs."""
        if len(self.kinds) + len(self.soft) > MOST_KINDS:
            return None
        cache = self.__dict__.setdefault("_most_cache", {})
        if (neighbours, k) not in cache:
            cache[neighbours, k] = self._solve_most(neighbours, k)
        found: tuple[list[int], list[int]] = cache[neighbours, k]
        return found

    def _solve_most(self, neighbours: str, k: int) -> tuple[list[int], list[int]]:
        n = len(self.kinds)  # variables: records that enter each kind, then records that leave it
        norm = 2 * k if neighbours == "bounded" else k
        by_row: dict[int, dict[int, int]] = {}
        for number, kind in enumerate(self.kinds):
            for row, weight in kind.equal:
                by_row.setdefault(row, {}).update({number: weight, n + number: -weight})
        rows = [GroupedRow(weights, 0, 0) for weights in by_row.values()]
        if neighbours == "bounded":
            rows += [GroupedRow(dict.fromkeys(range(start, start + n), 1), 0, k) for start in (0, n)]
            rows.append(GroupedRow({i: 1 if i < n else -1 for i in range(2 * n)}, 0, 0))
        else:
            rows.append(GroupedRow(dict.fromkeys(range(2 * n), 1), 0, norm))
        box: Box = ([0] * (2 * n), [norm] * (2 * n))
        entries = []
        for number, kind in enumerate(self.kinds):
            # A single cell cannot be entered and left at once; a kind of several cells can.
            barred = n + number if len(kind.cells) == 1 else None
            own_box: Box = (box[0], [0 if i == barred else norm for i in range(2 * n)])
            entries.append(_largest(rows, own_box, {number: 1}, norm))
        soft = []
        for number, one in enumerate(self.soft):
            weights = {i: w for i, kind in enumerate(self.kinds) for row, w in kind.soft if row == number}
            both = {**weights, **{n + i: -w for i, w in weights.items()}}
            soft.append(_largest(rows, box, both, norm * max(map(abs, one.row.weights))))
        return entries, soft


def _largest(rows: Sequence[GroupedRow], box: Box, objective: dict[int, int], otherwise: int) -> int:
    try:
        bound = minimise(rows, box, {i: -w for i, w in objective.items()}).bound
    except EmptyError:
        return 0
    return otherwise if bound is None else min(otherwise, -bound)


def _own(kind: Kind, precisions: Sequence[Fraction], power: int) -> Fraction:
    return sum((precisions[c] * weight**power for c, weight in kind.own), Fraction(0))


def _difference(first: Column, second: Column) -> dict[int, int]:
    out = dict(first)
    for row, weight in second:
        out[row] = out.get(row, 0) - weight
    return {row: weight for row, weight in out.items() if weight}


def _worst(steps: object) -> list[Step]:
    """Keep the farthest step for each precision of a limit."""
    worst: dict[Fraction | None, Fraction] = {}
    for step in steps:  # type: ignore[attr-defined]
        worst[step.least] = max(worst.get(step.least, Fraction(0)), step.distance)
    return [Step(distance, least) for least, distance in worst.items()]


def _worst_step(
    kinds: Sequence[Kind], soft: Sequence[Soft], precisions: Sequence[Fraction], power: int, neighbours: str
) -> Fraction:
    """Return the worst distance of one record between any two cells: exact for few kinds, else the two farthest."""

    def size(kind: Kind, other: Column = ()) -> Fraction:
        differs = _difference(kind.soft, other)
        return sum((precisions[soft[r].klass] * abs(w) ** power for r, w in differs.items()), Fraction(0))

    if neighbours == "unbounded":
        return max((_own(kind, precisions, power) + size(kind) for kind in kinds), default=Fraction(0)) / power
    if len(kinds) ** 2 // 2 <= MOST_PAIRS:
        same = [2 * _own(kind, precisions, power) for kind in kinds if len(kind.cells) > 1]
        pairs = [
            _own(a, precisions, power) + _own(b, precisions, power) + size(a, b.soft) for a, b in combinations(kinds, 2)
        ]
        return max([*same, *pairs], default=Fraction(0)) / power
    # |w - w'| <= |w| + |w'| for weights of one sign apart; squares need the factor 2.
    alone = sorted((_own(kind, precisions, power) + size(kind) * power for kind in kinds), reverse=True)
    return (alone[0] + alone[1]) / power


def _kinds(
    cells: Sequence[int],
    equal: Sequence[Row],
    ranges: Sequence[Row],
    soft: Sequence[Row],
    own: Sequence[Sequence[tuple[int, int]]],
    limited: Sequence[bool],
) -> tuple[Kind, ...]:
    columns = [_columns(rows, len(limited)) for rows in (equal, ranges, soft)]
    members: dict[tuple[Column, Column, Column, Column, bool], list[int]] = {}
    for cell in cells:
        parts = [tuple(column[cell]) for column in columns]
        key = (parts[0], parts[1], parts[2], tuple(sorted(own[cell])), limited[cell])
        members.setdefault(key, []).append(cell)
    return tuple(Kind(tuple(found), *key) for key, found in members.items())


def _columns(rows: Sequence[Row], n_cells: int) -> list[list[tuple[int, int]]]:
    out: list[list[tuple[int, int]]] = [[] for _ in range(n_cells)]
    for number, row in enumerate(rows):
        for cell, weight in zip(row.cells, row.weights, strict=True):
            out[cell].append((number, weight))
    return out


def _is_fixed(row: Row, equal: Sequence[Row], fixed: set[int]) -> bool:
    """Whether the equalities, given the fixed cells, leave a row one value."""
    lines = [{c: w for c, w in zip(one.cells, one.weights, strict=True) if c not in fixed} for one in (*equal, row)]
    return len(lines) - 1 in dependence(lines).follows


def _proportional(row: Row, several: Sequence[Soft]) -> Column:
    """Return the measurements of a range's own row, or of multiples of it, as (class, size of the multiple)."""
    out = []
    for one in several:
        first, second = (one.row, row)
        if first.cells == second.cells:
            ratio = Fraction(first.weights[0], second.weights[0])
            if all(a == ratio * b for a, b in zip(first.weights, second.weights, strict=True)):
                # Both are integer rows and a range row is divided by its gcd, so the multiple is whole.
                out.append((one.klass, abs(int(ratio)) * gcd(*second.weights)))
    return tuple(out)
