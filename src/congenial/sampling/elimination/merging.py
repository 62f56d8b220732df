"""The algebra of merging: how partial sums of a set of cells follow from those of its two parts.

A set carries a message indexed by its key: the partial sums over a basis of the rows that are still open (some of
their cells inside, some outside). All partial sums are deviations from the centre's, so every equality reads "= 0" and
every map below is linear without constants. Nothing here knows weights, windows or data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Literal

import flint

from congenial.sampling.target_and_system import connected

Vector = tuple[Fraction, ...]


@dataclass(frozen=True)
class Form:
    """An integer linear form divided by an integer; a value that is not whole means an impossible state."""

    coefficients: tuple[int, ...]
    divisor: int

    @classmethod
    def of(cls, vector: Sequence[Fraction]) -> "Form":
        """Return the form of a rational vector."""
        divisor = lcm(*(value.denominator for value in vector))
        return cls(tuple(int(value * divisor) for value in vector), divisor)


@dataclass(frozen=True)
class Walk:
    """How to go through the states of two parts that fit together.

    Attributes
    ----------
    free : tuple of int
        Coordinates of (left key, right key) that run through their windows; the others follow.
    follows : dict
        For each other coordinate its form in the free ones (and in the whole's key, when that is given).
    checks : tuple of Form
        Forms that must be 0.
    """

    free: tuple[int, ...]
    follows: dict[int, Form]
    checks: tuple[Form, ...]


@dataclass(frozen=True)
class Node:
    """A set of groups of cells.

    Attributes
    ----------
    groups : frozenset of int
    key : tuple of int
        Row numbers whose partial sums are the coordinates; for a single group, its sum (`key` is then (-1,)).
    sums : dict
        For each open row its partial sum as a combination of the coordinates.
    """

    groups: frozenset[int]
    key: tuple[int, ...]
    sums: Mapping[int, Vector]

    @property
    def width(self) -> int:
        """Number of coordinates."""
        return len(self.key)


@dataclass(frozen=True)
class Merge:
    """Two nodes made one.

    Attributes
    ----------
    forward, backward : Walk
        All pairs of parts; and the pairs for one given key of the whole (coordinates: free ones, then the key).
    key_forms : tuple of Form
        The whole's coordinates in (left key, right key).
    complete : tuple of (row, Form)
        Ranges and soft rows that have all their cells inside now, in (left key, right key).
    """

    left: Node
    right: Node
    whole: Node
    forward: Walk
    backward: Walk
    key_forms: tuple[Form, ...]
    complete: tuple[tuple[int, Form], ...]


def leaf(group: int, column: Mapping[int, int]) -> Node:
    """Return the node of one group: its coordinate is the sum of its cells."""
    return Node(frozenset([group]), (-1,), {row: (Fraction(coefficient),) for row, coefficient in column.items()})


@dataclass(frozen=True)
class Rows:
    """The rows of a system over groups: what kind each is, and its coefficient on every group."""

    kinds: tuple[Literal["equal", "range", "soft", "free"], ...]
    columns: tuple[Mapping[int, int], ...]

    @cached_property
    def supports(self) -> tuple[frozenset[int], ...]:
        """The groups that each row touches."""
        touched: list[set[int]] = [set() for _ in self.kinds]
        for group, column in enumerate(self.columns):
            for row in column:
                touched[row].add(group)
        return tuple(frozenset(groups) for groups in touched)

    @cached_property
    def components(self) -> tuple[tuple[int, ...], ...]:
        """Sets of groups that no row connects with each other; a group in no row is alone."""
        return connected(len(self.columns), map(sorted, self.supports))

    @cached_property
    def _equalities(self) -> tuple[tuple[frozenset[int], tuple[int, ...]], ...]:
        """The equalities of each component."""
        return tuple(
            (frozenset(groups), tuple(sorted({r for g in groups for r in self.columns[g] if self.kinds[r] == "equal"})))
            for groups in self.components
        )

    def settled(self, inside: frozenset[int]) -> list[dict[int, Fraction]]:
        """Return combinations of equalities that vanish on every group outside a set: what it must obey by itself."""
        equal = [row for groups, rows in self._equalities if groups & inside for row in rows]
        outside = sorted({g for row in equal for g in self.supports[row]} - inside)
        if not equal:
            return []
        if not outside:
            return [{row: Fraction(1)} for row in equal]
        entries = [self.columns[g].get(row, 0) for g in outside for row in equal]
        basis, rank = flint.fmpz_mat(len(outside), len(equal), entries).nullspace()
        return [
            {row: Fraction(int(basis[i, j])) for i, row in enumerate(equal) if basis[i, j] != 0} for j in range(rank)
        ]


def merge_nodes(left: Node, right: Node, rows: Rows) -> Merge:
    """Merge two nodes; what their union must obey by itself is applied, rows that are complete are dropped."""
    groups = left.groups | right.groups
    n_left, n_right = left.width, right.width
    zero_left, zero_right = (Fraction(0),) * n_left, (Fraction(0),) * n_right
    present = sorted(set(left.sums) | set(right.sums))
    vectors = {row: (*left.sums.get(row, zero_left), *right.sums.get(row, zero_right)) for row in present}
    done = {row for row in present if rows.supports[row] <= groups and rows.kinds[row] != "free"}
    equations = [_combined(factors, vectors, n_left + n_right) for factors in rows.settled(groups)]
    space = _Space(n_left + n_right)
    for equation in equations:
        space.add(equation)
    n_fixed = space.rank
    key = [row for row in present if row not in done and space.add(vectors[row])]
    sums = {row: space.coordinates(vectors[row])[n_fixed:] for row in present if row not in done}
    key_vectors = [vectors[row] for row in key]
    return Merge(
        left,
        right,
        Node(groups, tuple(key), sums),
        forward=_walk(equations, [], n_left + n_right),
        backward=_walk(equations, key_vectors, n_left + n_right),
        key_forms=tuple(map(Form.of, key_vectors)),
        complete=tuple((row, Form.of(vectors[row])) for row in sorted(done) if rows.kinds[row] != "equal"),
    )


def _combined(factors: Mapping[int, Fraction], vectors: Mapping[int, Vector], n: int) -> Vector:
    """Return a combination of rows; one that is open in neither part has sum 0."""
    nothing = (Fraction(0),) * n
    terms = [[factor * value for value in vectors.get(row, nothing)] for row, factor in factors.items()]
    return tuple(sum(column, Fraction(0)) for column in zip(*terms, strict=True))


class _Space:
    """A growing list of independent vectors that expresses others as combinations of them."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.rank = 0
        # Lines [reduced vector | combination of the added ones], each with its pivot column.
        self._lines: list[tuple[int, list[Fraction], list[Fraction]]] = []

    def _reduce(self, vector: Sequence[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
        rest, combination = list(vector), [Fraction(0)] * self.rank
        for pivot, line, made_of in self._lines:
            factor = rest[pivot]
            if factor:
                rest = [a - factor * b for a, b in zip(rest, line, strict=True)]
                for position, value in enumerate(made_of):
                    combination[position] += factor * value
        return rest, combination

    def add(self, vector: Sequence[Fraction]) -> bool:
        """Add a vector unless it depends on the others; return whether it was added."""
        rest, combination = self._reduce(vector)
        pivot = next((column for column, value in enumerate(rest) if value), None)
        if pivot is None:
            return False
        scale = rest[pivot]
        made_of = [-value / scale for value in combination] + [1 / scale]
        self._lines.append((pivot, [value / scale for value in rest], made_of))
        self.rank += 1
        return True

    def coordinates(self, vector: Sequence[Fraction]) -> Vector:
        """Return the combination of the added vectors that gives this one, which must be in their span."""
        return tuple(self._reduce(vector)[1])


def _walk(equations: Sequence[Vector], key_vectors: Sequence[Vector], n: int) -> Walk:
    """Solve ``equations = 0`` and ``key_vectors = key`` for as many coordinates as possible, the last ones first."""
    n_key = len(key_vectors)
    matrix = [[*reversed(vector), *([Fraction(0)] * n_key)] for vector in equations]
    for position, vector in enumerate(key_vectors):
        matrix.append([*reversed(vector), *(Fraction(-int(other == position)) for other in range(n_key))])
    pivots: list[int] = []
    for column in range(n):
        line = next((i for i in range(len(pivots), len(matrix)) if matrix[i][column]), None)
        if line is None:
            continue
        top = len(pivots)
        matrix[top], matrix[line] = matrix[line], matrix[top]
        scale = matrix[top][column]
        matrix[top] = [value / scale for value in matrix[top]]
        for i, other in enumerate(matrix):
            if i != top and other[column]:
                factor = other[column]
                matrix[i] = [a - factor * b for a, b in zip(other, matrix[top], strict=True)]
        pivots.append(column)
    solved = {n - 1 - column: line for line, column in enumerate(pivots)}
    free = tuple(coordinate for coordinate in range(n) if coordinate not in solved)

    def known(line: int) -> list[Fraction]:
        return [-matrix[line][n - 1 - coordinate] for coordinate in free] + [-value for value in matrix[line][n:]]

    follows = {coordinate: Form.of(known(line)) for coordinate, line in solved.items()}
    rest = [known(line) for line in range(len(pivots), len(matrix))]
    return Walk(free, follows, tuple(Form.of(vector) for vector in rest if any(vector)))
