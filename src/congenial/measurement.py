"""Measurements: true counts plus noise that keeps the exact numbers.

    n = Q x + w     the only step that touches data
    s = rule(n)     public, in `decided_tables`: from the measurements, the exact numbers and the limits of cells alone

The noise w has a law of its own, the same for every table with these exact numbers, and is drawn without looking at
one: docs/claims/measured.md has what that costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints, distinct_rows
from congenial.conditions.areas_and_bounds import AreaGroup, quick_bounds
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row, row_values
from congenial.errors import ConditionError, SamplingError
from congenial.law import PublicLaw
from congenial.memory_and_threads import parts_of
from congenial.privacy.certify import check_lattice
from congenial.randomness import Streams
from congenial.sampling.lattice_noise.choose import LatticeChoice, choose_lattice_sampler, price_of_dropping
from congenial.sampling.lattice_noise.system import LatticeSystem, NoiseSpace, noise_space

MOST_KINDS = 16
"""Sets of pinned cells that have noise of their own in one group of areas; of more, only cells that all pin are."""

_LARGEST = 2**61

ONE_TABLE = "table"
"""What a release of one kind of table calls it: of several, the words of each are its own."""


@lru_cache(maxsize=256)
def _choice(system: LatticeSystem) -> LatticeChoice:
    """Return what draws the noise of a system; its tables are made once in a process, whoever asks."""
    return choose_lattice_sampler(system)


@dataclass(frozen=True, eq=False)
class NoiseKind:
    """The noise of all units that share rows, pinned cells and precisions. Public; it can be pickled.

    Attributes
    ----------
    pattern : Constraints
        Of one of the units; others differ in the values of equalities.
    rows : tuple of Row
        What is measured.
    space : NoiseSpace
        Where the noise is drawn, conditioned on every equality.
    pinned : tuple of int
        The cells that exact numbers and limits determine in each of the units: they have no noise.
    """

    pattern: Constraints
    rows: tuple[Row, ...]
    space: NoiseSpace
    pinned: tuple[int, ...]

    @cached_property
    def choice(self) -> LatticeChoice:
        """What draws it, and which equalities it is not conditioned on because nothing else fits."""
        return _choice(self.space.system)

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """The exact sums that the measurements do not have, by name: all that do not follow from those they keep."""
        if not self.choice.dropped:
            return ()
        exact = [limited.row for limited in self.pattern.equalities]
        kept = [_over_cells(row, self.coordinates) for row in self.choice.system.equalities]
        known = [*kept, *({cell: 1} for cell in self.pinned)]
        follows = dependence([*known, *(row.terms for row in exact)]).follows
        ways = [follows.get(place) for place in range(len(known), len(known) + len(exact))]
        return tuple(
            row.name for row, how in zip(exact, ways, strict=True) if how is None or max(how, default=-1) >= len(known)
        )

    @property
    def untied(self) -> tuple[str, ...]:
        """The measured sums that have noise of their own, independent of that of their parts, by name."""
        return self.choice.untied

    @property
    def price_of_dropping(self) -> float:
        """By how much the mean variance of the noise is larger than if it kept all exact sums; 1 where it does."""
        return price_of_dropping(self.space.system, self.choice)

    @cached_property
    def coordinates(self) -> tuple[Row, ...]:
        """What each coordinate that is drawn is a deviation of, over cells."""
        of_space = self.space.coordinates
        lifted = (Row.weighted(_over_cells(row, of_space), name=row.name) for row in self.choice.lifted)
        return (*of_space, *lifted)

    @cached_property
    def answers(self) -> Ints:
        """The measured rows as sums of the coordinates that are drawn (measured row, coordinate)."""
        return self.choice.answers(self.space.answers)

    def check(self) -> None:
        """Refuse what cannot be drawn, and, in integers, a lattice that misses a change inside the conditions.

        Noise that keeps a sum which is not exact would tell two tables apart for certain.
        """
        self.choice.sampler.check()
        check_lattice(self.choice.system.equalities, (), self.pattern, coordinates=self.coordinates)
        without_noise = []
        if not self.rows_are_coordinates:
            without_noise = [row for row, line in zip(self.rows, self.answers, strict=True) if not line.any()]
        check_lattice(without_noise, () if self.space.cells is None else self.pinned, self.pattern)

    def noise(self, words: Streams, n_units: int) -> Ints:
        """Return the noise of each measured row for some units (unit, row)."""
        drawn = self.choice.sampler.draw(words.keyed(n_units))
        if not self.choice.system.holds(drawn):
            raise SamplingError("internal: noise breaks an exact number; nothing is published, please report this")
        return drawn if self.rows_are_coordinates else drawn @ self.answers.T

    @cached_property
    def rows_are_coordinates(self) -> bool:
        """Whether each measured row is a coordinate of the noise, in their order, as cells are: nothing to add up."""
        return not self.choice.lifted and self.space.rows_are_coordinates

    def __getstate__(self) -> dict[str, object]:
        return {
            "pattern": self.pattern,
            "rows": self.rows,
            "space": self.space,
            "pinned": self.pinned,
        }  # tables of a sampler are made anew in every process

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def _over_cells(row: Row, coordinates: Sequence[Row]) -> dict[int, int]:
    """Return a row over coordinates as one over cells."""
    terms: dict[int, int] = {}
    for place, times in row.terms.items():
        for cell, part in coordinates[place].terms.items():
            terms[cell] = terms.get(cell, 0) + times * part
    return {cell: times for cell, times in terms.items() if times}


@dataclass(frozen=True, eq=False)
class MeasurementDrawing:
    """All that measures the tables of a law's areas, but the tables and the random words. Public; it can be pickled.

    Attributes
    ----------
    rows : tuple of Row
        What is measured, a column of the measurements each.
    kinds : tuple of NoiseKind

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total()], epsilon="1", method="measured")
    >>> table = cg.Table(schema, [[30, 41], [11, 25]])
    >>> drawing = mechanism.plan(mechanism.disclose(table)).drawing
    >>> drawing.draw(np.zeros(3, np.int64), np.stack([table.counts] * 3), cg.replay_rng(1)).sum(axis=1)
    array([107, 107, 107])
    """

    rows: tuple[Row, ...]
    kinds: tuple[NoiseKind, ...]

    @property
    def width(self) -> int:
        """How many numbers a unit has."""
        return len(self.rows)

    def check(self) -> None:
        """Refuse, before anything is charged, noise that cannot be drawn, or that would tell neighbours apart."""
        for kind in self.kinds:
            kind.check()

    def check_counts(self, tables: Ints) -> None:
        """Refuse, before anything is charged, confidential tables with sums that 64 bits might not hold."""
        values = row_values(self.rows, tables)
        if int(np.abs(values).max(initial=0)) >= _LARGEST:
            raise ConditionError("a measured sum is 2^61 or more, and measurements are whole numbers of 64 bits")

    def draw(self, numbers: Ints, tables: Ints, words: Streams) -> Ints:
        """Return the measurements of some units (unit, row), in their order.

        Parameters
        ----------
        numbers : array (unit,)
            The kind of each unit.
        tables : array (unit, cell)
            Their confidential tables.
        words : UnitStreams, or one RandomStream
            The random words of each of these units.
        """
        out = row_values(self.rows, tables).astype(np.int64, copy=False)  # they fit: `check_counts`
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            some = words if len(places) == len(tables) else words.subset(places)
            out[places] += self.kinds[number].noise(some, len(places))
        return out


def drawing_of(law: PublicLaw) -> tuple[MeasurementDrawing, Ints]:
    """Return what measures the areas of a law, and which kind each of them is."""
    measured, kinds = law.measured, list[NoiseKind]()
    measured_rows = tuple(query.row for query in measured)
    numbers = np.zeros(len(law.areas), np.int64)
    for group in law.areas.groups:
        pinned, which = _pinned(group)
        for number, line in enumerate(pinned):
            members = np.flatnonzero(which == number)
            numbers[group.places[members]] = len(kinds)
            pattern = group.pattern if len(law.areas) == 1 else group.constraints(int(members[0]))
            mobile = np.flatnonzero(~line).tolist()
            rows = [limited.row for limited in pattern.equalities]
            space, pinned_cells = noise_space(rows, measured, mobile), tuple(np.flatnonzero(line).tolist())
            kinds.append(NoiseKind(replace(pattern, origin=None), measured_rows, space, pinned_cells))
    return MeasurementDrawing(measured_rows, tuple(kinds)), numbers


def _pinned(group: AreaGroup) -> tuple[NDArray[np.bool_], Ints]:
    """Return the different sets of pinned cells in a group of areas (set, cell), and which one each area has."""
    known: dict[bytes, int] = {}
    sets: list[NDArray[np.bool_]] = []
    which = np.zeros(len(group.places), np.int64)
    for part in parts_of(len(group.places)):
        bounds = quick_bounds(group.part(part))
        some, numbers = distinct_rows(bounds.pinned_lines.astype(np.int64))
        of_some = []
        for cells in some[:, bounds.line_of_cell] == 1:
            of_some.append(known.setdefault(cells.tobytes(), len(sets)))
            if of_some[-1] == len(sets):
                sets.append(cells)
        which[part] = np.array(of_some, np.int64)[numbers]
    pinned = np.array(sets)
    if len(pinned) <= MOST_KINDS:
        return pinned, which
    return np.asarray(pinned.all(axis=0)).reshape(1, -1), np.zeros_like(which)
