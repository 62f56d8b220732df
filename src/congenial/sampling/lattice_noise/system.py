"""Which noise a measured release adds: weights of the coordinates, on the lattice of vectors that keep exact numbers.

A unit's measurements are ``n = x + u``. The noise u is an integer vector with ``A u = 0``, of probability proportional
to a product of weights. It depends on rows, pinned cells and precisions, and on no table: one `LatticeSystem` serves
all units that share these. docs/claims/measured.md has the law and what it costs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import flint
import numpy as np

from congenial.arrays import Ints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import SamplingError
from congenial.noise.weight import FLAT, NoiseWeight
from congenial.sampling.target_and_system import Measured


@dataclass(frozen=True)
class SoftRow:
    """A measured sum of several coordinates, with the weight of its deviation."""

    row: Row
    weight: NoiseWeight


@dataclass(frozen=True)
class LatticeSystem:
    """Integer vectors u with every equality 0, of weight ``prod weights[i](u[i]) * prod soft.weight(soft.row(u))``.

    Attributes
    ----------
    weights : tuple of NoiseWeight
        Of each coordinate by itself; none is flat.
    equalities : tuple of Row
        Over coordinates, each of value 0. None of them follows from the others.
    soft : tuple of SoftRow
        Over coordinates; rows of one coordinate are part of its weight.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> one = DoubleGeometric(1).weight
    >>> LatticeSystem((one,) * 3, (Row.of("total", [0, 1, 2]),)).rank
    2
    """

    weights: tuple[NoiseWeight, ...]
    equalities: tuple[Row, ...] = ()
    soft: tuple[SoftRow, ...] = ()

    def __post_init__(self) -> None:
        if any(weight.is_flat or weight.zero_weight != 1 for weight in self.weights):
            raise SamplingError("internal: a coordinate of noise has a weight of its own, and zeros have no other")

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates."""
        return len(self.weights)

    @property
    def rank(self) -> int:
        """Number of dimensions of the lattice."""
        return self.n_coordinates - len(self.equalities)

    @cached_property
    def matrix(self) -> Ints:
        """The equalities (row, coordinate)."""
        return dense(self.equalities, self.n_coordinates)

    def without(self, names: Iterable[str]) -> "LatticeSystem":
        """Return the same with some equalities dropped: a larger lattice, which is safe, and noise that is larger."""
        dropped = set(names)
        return LatticeSystem(self.weights, tuple(r for r in self.equalities if r.name not in dropped), self.soft)

    def holds(self, noise: Ints) -> bool:
        """Whether every one of many vectors (unit, coordinate) keeps the exact numbers, in integers."""
        return not len(self.equalities) or not (noise @ self.matrix.T).any()


@dataclass(frozen=True)
class NoiseSpace:
    """Where the noise of a unit is drawn: in its cells, or in the answers to its measured rows.

    Attributes
    ----------
    system : LatticeSystem
    coordinates : tuple of Row
        What each coordinate is a deviation of: a cell, or a measured row.
    rows : tuple of Row
        The measured rows as sums of coordinates.
    is_of_cells : bool
        Whether the coordinates are cells.
    """

    system: LatticeSystem
    coordinates: tuple[Row, ...]
    rows: tuple[Row, ...]
    is_of_cells: bool = True

    @cached_property
    def answers(self) -> Ints:
        """The measured rows as sums of coordinates (measured row, coordinate)."""
        return dense(self.rows, len(self.coordinates))

    @cached_property
    def rows_are_coordinates(self) -> bool:
        """Whether each measured row is a coordinate, in their order, as cells are."""
        is_single = (row.cells == (n,) and row.coefficients == (1,) for n, row in enumerate(self.rows))
        return len(self.rows) == len(self.coordinates) and all(is_single)

    @property
    def cells(self) -> tuple[int, ...] | None:
        """The cells whose deviations the coordinates are; None where they are answers to measured rows."""
        return tuple(row.cells[0] for row in self.coordinates) if self.is_of_cells else None


def noise_space(equalities: Sequence[Row], measured: Sequence[Measured], mobile: Sequence[int]) -> NoiseSpace:
    """Return where the noise of some measured rows is drawn, given what is exact.

    Where each cell that can move is measured by itself, the coordinates are these cells, and further measured rows are
    soft. Else they are the measured rows: vectors of answers, on the lattice of integer vectors that satisfy every
    linear relation that answers of differences satisfy. It contains them all, which is what safety asks for.

    Parameters
    ----------
    equalities : sequence of Row
        Over cells.
    mobile : sequence of int
        The cells that are not pinned; no two tables of the conditions differ in others.
    """
    cells = list(mobile)
    weights: dict[int, NoiseWeight] = {}
    several: dict[tuple[tuple[int, ...], tuple[int, ...]], SoftRow] = {}
    place = {cell: number for number, cell in enumerate(cells)}
    for query in measured:
        terms = query.row.within(place)
        if len(terms) == 1:
            ((cell, times),) = terms.items()
            weights[cell] = weights.get(cell, FLAT) * query.noise.weight.stretched(times)
        elif terms:
            row = Row.weighted({place[cell]: times for cell, times in terms.items()}, name=query.row.name)
            known = several.get((row.cells, row.coefficients))
            weight = query.noise.weight if known is None else known.weight * query.noise.weight
            several[row.cells, row.coefficients] = SoftRow(row, weight)
    if set(weights) == set(cells):
        rows = [Row.weighted({place[c]: t for c, t in row.within(place).items()}, name=row.name) for row in equalities]
        system = LatticeSystem(
            tuple(weights[cell] for cell in cells), _independent(rows), _moving(tuple(several.values()), rows)
        )
        over_coordinates = tuple(Row.weighted(_placed(query.row, place)) for query in measured)
        return NoiseSpace(system, tuple(Row.of(f"cell {cell}", [cell]) for cell in cells), over_coordinates)
    return _answer_space(equalities, measured, cells)


def _answer_space(equalities: Sequence[Row], measured: Sequence[Measured], cells: Sequence[int]) -> NoiseSpace:
    """Return the space of the measured rows that can move."""
    place = {cell: number for number, cell in enumerate(cells)}
    basis = _kernel(dense([Row.weighted(_placed(row, place)) for row in equalities], len(cells)))
    answers = dense([Row.weighted(_placed(query.row, place)) for query in measured], len(cells))
    images = answers @ basis.T if basis.size else np.zeros((len(measured), 0), np.int64)
    moving = [number for number in range(len(measured)) if images[number].any()]
    relations = _kernel(images[moving].T)
    rows = [
        Row.weighted({place: int(times) for place, times in enumerate(line) if times}, name=f"relation {number}")
        for number, line in enumerate(relations, 1)
    ]
    system = LatticeSystem(tuple(measured[number].noise.weight for number in moving), tuple(rows))
    of_row = {number: {coordinate: 1} for coordinate, number in enumerate(moving)}
    picked = tuple(Row.weighted(of_row.get(number, {})) for number in range(len(measured)))
    return NoiseSpace(system, tuple(measured[number].row for number in moving), picked, is_of_cells=False)


def _placed(row: Row, place: dict[int, int]) -> dict[int, int]:
    return {place[cell]: times for cell, times in row.within(place).items()}


def _independent(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return the earliest rows from which the others follow."""
    return tuple(rows[number] for number in dependence([row.terms for row in rows]).independent)


def _moving(soft: tuple[SoftRow, ...], equalities: Sequence[Row]) -> tuple[SoftRow, ...]:
    """Leave out measured sums that the equalities fix: their noise is 0, and their weight 1."""
    n = len(equalities)
    follows = dependence([row.terms for row in (*equalities, *(some.row for some in soft))]).follows
    return tuple(
        some for number, some in enumerate(soft, n) if number not in follows or max(follows[number], default=0) >= n
    )


def _kernel(matrix: Ints) -> Ints:
    """Return a basis (vector, column) of all integer vectors that a matrix (row, column) takes to 0."""
    n_rows, n_columns = matrix.shape
    if n_columns == 0 or n_rows == 0:
        return np.eye(n_columns, dtype=np.int64)
    lines = np.hstack([matrix.T, np.eye(n_columns, dtype=np.int64)])
    reduced = flint.fmpz_mat(lines.tolist()).hnf()
    kernel = [
        [int(entry) for entry in line[n_rows:]] for line in reduced.table() if not any(int(e) for e in line[:n_rows])
    ]
    return np.array(kernel, np.int64).reshape(len(kernel), n_columns)
