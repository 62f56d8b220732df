"""Measurements of every level of a tree of areas, with the public structure that a rule for trees goes by."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError, TooLargeError
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.family_integers import Cells, ExactCellSums, families_at_once
from congenial.rules.free_sum_ranges import ranges_by_classes, ranges_with_children
from congenial.rules.further_rows import FurtherRows, PlacedRows
from congenial.rules.rule_and_input import FRACTION_BITS, Learned, Rule
from congenial.rules.sibling_pieces import Pieces, pieces_of_levels

_VARIANCE_BITS = 36  # of the largest variance; sums over eight million children and more stay below 2^63
_LARGEST_SUM = 2**38
_UNITS_AT_ONCE = 2**16

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TreeMeasurements:
    """Measurements of every level of a tree, from the top, and public structure. No place for a confidential table.

    A part of a tree, whole subtrees side by side, is a tree as well: then `first_level` and `first_places` say where
    its levels and units stand in the whole.

    Attributes
    ----------
    starts : tuple of arrays (unit + 1,)
        For each level but the last, where the children of each unit begin in the level below.
    measured : tuple of arrays (unit, cell)
        For each level; they may be negative.
    variances : tuple of float
        Of the noise of a cell, for each level of the whole tree; infinite where a level above the last is not measured.
    exact_rows : tuple of tuple of cells
        For each level the sums of cells that are exact in all its units, and in those above. Empty: none anywhere.
    exact_values : tuple of arrays (unit, row)
    zero_masks : tuple of arrays (unit, cell)
        Structural zeros; a cell of a parent is one if it is in all children. Empty: none anywhere.
    seed : bytes
        32 public bytes; nothing of the key of the noise.
    first_level : int
        The number of the first level in the whole tree.
    first_places : tuple of int
        The number of the first unit of each level in the whole tree. Empty: 0.
    last_ranges : array (unit, free sum, 2), optional
        Of the last level, where its units stand for subtrees: what `free_ranges` says of their first level.
    further : tuple of FurtherRows
        Sums of cells that are measured beside the cells.
    misfits : tuple of arrays (unit, row)
        For each entry of `further` how far its values are above their least squares, in units of
        ``2**-FRACTION_BITS``: what a rule finds first, see `congenial.rules.gls.with_misfits`. Empty: not known.
    exponent : int
        1 for Double Geometric noise, 2 for the discrete Gaussian.
    learned : mapping
        What a rule that learns has learned from these measurements. Empty: not known.

    Examples
    --------
    >>> tree = TreeMeasurements((np.array([0, 2]),), (np.array([[9, 4]]), np.array([[4, 3], [3, -2]])), (1.0, 1.0))
    >>> tree.n_levels, tree.n_cells, tree.whole_variance(0) == tree.whole_variance(1)
    (2, 2, True)
    """

    starts: tuple[Ints, ...]
    measured: tuple[Ints, ...] = field(repr=False)
    variances: tuple[float, ...]
    exact_rows: tuple[tuple[Cells, ...], ...] = ()
    exact_values: tuple[Ints, ...] = field(default=(), repr=False)
    zero_masks: tuple[Bools, ...] = field(default=(), repr=False)
    seed: bytes = field(default=bytes(32), repr=False)
    first_level: int = 0
    first_places: tuple[int, ...] = ()
    last_ranges: Ints | None = field(default=None, repr=False)
    further: tuple[FurtherRows, ...] = ()
    misfits: tuple[Floats, ...] = field(default=(), repr=False)
    exponent: int = 2
    learned: Learned = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        n_levels = len(self.measured)
        if not n_levels or len(self.starts) != n_levels - 1:
            raise ConditionError(
                f"a tree of {n_levels} levels says of all levels but the last where children begin, and this says it"
                f" of {len(self.starts)}"
            )
        if any(table.dtype != np.int64 or table.ndim != 2 for table in self.measured):
            raise ConditionError("measurements are 64-bit whole numbers (unit, cell), for each level")
        if len({table.shape[1] for table in self.measured}) != 1:
            raise ConditionError("all levels of a tree have tables of the same cells")
        for level, starts in enumerate(self.starts):
            n_units, n_children = len(self.measured[level]), len(self.measured[level + 1])
            fits = len(starts) == n_units + 1 and starts[0] == 0 and starts[-1] == n_children
            if starts.dtype != np.int64 or not fits or bool((np.diff(starts) < 1).any()):
                raise ConditionError(
                    f"the {n_units:,} units of level {level} have one or more children each, which stand together and"
                    f" in order among the {n_children:,} units below; starts are 64-bit whole numbers"
                )
        self._check_variances(n_levels)
        self._check_structure(n_levels)
        self._check_further()
        times = max((some.largest_coefficient for some in self.further), default=1)
        for table in self.measured:
            if _is_large(table, times):
                raise TooLargeError(f"measurements of a level add up to more than {_LARGEST_SUM // times:,}")

    def _check_variances(self, n_levels: int) -> None:
        wanted = self.variances[self.first_level :][:n_levels]
        if len(wanted) < n_levels or not all(variance > 0 for variance in self.variances):
            raise ConditionError(f"each level has a variance above 0, and the levels have {self.variances}")
        if math.isinf(self.variances[-1]):
            raise ConditionError("the last level of a tree is measured: its variance is finite")

    def _check_structure(self, n_levels: int) -> None:
        for name in ("exact_rows", "exact_values", "zero_masks", "first_places"):
            if len(getattr(self, name)) not in {0, n_levels}:
                raise ConditionError(f"{name} has an entry for each of {n_levels} levels, or none at all")
        if len(self.exact_rows) != len(self.exact_values):
            raise ConditionError("exact sums have values at each level")
        for level, values in enumerate(self.exact_values):
            if values.shape != (len(self.measured[level]), len(self.exact_rows[level])) or values.dtype != np.int64:
                raise ConditionError(f"level {level} has a 64-bit whole number for each unit and exact sum")
        for level, zeros in enumerate(self.zero_masks):
            if zeros.shape != self.measured[level].shape or zeros.dtype != np.bool_:
                raise ConditionError(f"level {level} says of each cell of each unit whether it is a structural zero")
        if len(self.seed) != 32:
            raise ConditionError(f"the seed of a rule has 32 bytes, and this has {len(self.seed)}")

    def _check_further(self) -> None:
        if self.further and (self.first_level or self.first_places):
            raise ConditionError("further rows are measured in whole trees, and this is a part of one")
        for some in self.further:
            cells = [cell for row in some.rows for cell in row.cells]
            if not 0 <= min(cells) <= max(cells) < self.n_cells:
                raise ConditionError(f"further rows have cells from 0 to {self.n_cells - 1}, and these {sorted(cells)}")
            if some.level is not None:
                if not 0 <= some.level < self.n_levels or len(some.values) != len(self.measured[some.level]):
                    raise ConditionError(
                        f"further rows of level {some.level} have values of {len(some.values):,} units, and the tree"
                        f" has levels of {', '.join(f'{len(table):,}' for table in self.measured)}"
                    )
            elif some.group_of_leaf is not None:
                groups, n_leaves = some.group_of_leaf, len(self.measured[-1])
                fits = groups.dtype == np.int64 and groups.shape == (n_leaves,)
                if not fits or not -1 <= groups.min(initial=-1) <= groups.max(initial=-1) < len(some.values):
                    raise ConditionError(
                        f"each of {n_leaves:,} leaves has the 64-bit number of a group, below {len(some.values):,} as"
                        " there are values of so many, or -1"
                    )
            if _is_large(some.values):
                raise TooLargeError(f"values of further rows add up to more than {_LARGEST_SUM:,}")
        if self.misfits and [m.shape for m in self.misfits] != [some.values.shape for some in self.further]:
            raise ConditionError("misfits are those of all further rows, or none at all")

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return len(self.measured)

    @property
    def n_cells(self) -> int:
        """The number of cells of a table."""
        return int(self.measured[0].shape[1])

    @cached_property
    def exact(self) -> tuple[ExactCellSums, ...]:
        """What is exact in the units of each level."""
        rows = self.exact_rows or ((),) * self.n_levels
        return tuple(ExactCellSums(some, self.n_cells) for some in rows)

    @property
    def _variance_unit(self) -> float:
        largest = max(variance for variance in self.variances if not math.isinf(variance))
        return math.ldexp(1.0, math.frexp(largest)[1] - _VARIANCE_BITS)

    @cached_property
    def _whole_variances(self) -> tuple[float, ...]:
        """Variances of the levels as whole numbers in units of a power of two, the same for every part of a tree."""
        unit = self._variance_unit
        levels = self.variances[self.first_level :][: self.n_levels]
        return tuple(some if math.isinf(some) else float(max(1, round(some / unit))) for some in levels)

    def whole_variance(self, level: int) -> float:
        """Return the variance of a cell's noise, as a whole number in units that all levels share."""
        return self._whole_variances[level]

    @cached_property
    def placed(self) -> tuple[PlacedRows, ...]:
        """Further rows with what they shift: the level that they are of, or the leaves."""
        placed = []
        for some in self.further:
            level, numbers = some.level, some.group_of_leaf
            if level is None or math.isinf(self.whole_variance(level)):
                if level is not None:
                    bounds = self.starts[level]
                    for starts in self.starts[level + 1 :]:
                        bounds = starts[bounds]
                    numbers = np.repeat(np.arange(len(some.values)), np.diff(bounds))
                level = self.n_levels - 1
            variance = self.whole_variance(level) * self._variance_unit
            placed.append(PlacedRows(some, level, numbers, variance, self.n_cells))
        return tuple(placed)

    def targets(self, level: int, units: slice) -> Ints:
        """Return what some units measured (unit, cell) in units of ``2**-FRACTION_BITS``, shifted by further rows."""
        targets = self.measured[level][units] << FRACTION_BITS
        for placed, misfits, shifts in zip(self.placed, self.misfits, self._shifts, strict=bool(self.misfits)):
            if placed.level == level:
                targets += placed.shifts(misfits[units]) if placed.numbers is None else shifts[placed.numbers[units]]
        return targets

    @cached_property
    def _shifts(self) -> tuple[Ints, ...]:
        """Shifts of groups (group, cell), and after them none: what -1 picks."""
        return tuple(
            np.pad(placed.shifts(misfits), ((0, 1), (0, 0)))
            if placed.numbers is not None
            else np.zeros((0, 0), np.int64)
            for placed, misfits in zip(self.placed, self.misfits, strict=bool(self.misfits))
        )

    @cached_property
    def sums_first(self) -> tuple[tuple[Cells, ...], ...]:
        """For each level the measured sums whose integers are decided before those of cells; none if they cross.

        Nor where structural zeros are for some of a sum's cells and not for others: then a parent's sums may leave
        none for its children.
        """
        levels = list[tuple[Cells, ...]]()
        for level, exact in enumerate(self.exact):
            sums = dict.fromkeys(
                row.cells
                for some in self.further
                if some.level == level
                for row in some.rows
                if len(row.cells) > 1 and set(row.coefficients) == {1}
            )
            is_exact = {frozenset(cells) for cells in exact.rows}
            rows = tuple(cells for cells in sums if frozenset(cells) not in is_exact)
            fits = ExactCellSums((*exact.rows, *rows), self.n_cells).is_nested
            levels.append(rows if fits and not self._zeros_divide(level, rows) else ())
        return tuple(levels)

    @cached_property
    def pieces(self) -> tuple[Pieces | None, ...]:
        """For each level the pieces of its families by groups of leaves; None where there are none.

        Nor where exact sums cross each other, as a piece's table might leave none for its children.
        """
        groups = [some.group_of_leaf for some in self.further if some.group_of_leaf is not None]
        levels = pieces_of_levels(self.starts, groups) if groups else (None,) * (self.n_levels - 1)
        return (None, *(some if exact.is_nested else None for some, exact in zip(levels, self.exact[1:], strict=True)))

    def _zeros_divide(self, level: int, rows: tuple[Cells, ...]) -> bool:
        zeros = self.zeros(level, slice(None))
        for cells in rows if zeros.size else ():
            inside = [some for some in self.exact[level].rows if set(some) < set(cells)]
            of_sum = zeros[:, sorted(set(cells).difference(*inside))]
            if bool((of_sum.any(axis=1) & ~of_sum.all(axis=1)).any()):
                return True
        return False

    def values(self, level: int, units: slice) -> Ints:
        """Return the exact sums of some units (unit, row)."""
        if self.exact_values:
            return self.exact_values[level][units]
        return np.zeros((len(self.measured[level][units]), 0), np.int64)

    def zeros(self, level: int, units: slice) -> Bools:
        """Return the structural zeros of some units (unit, cell); an array of no size where there are none."""
        return self.zero_masks[level][units] if self.zero_masks else np.zeros((0, 0), np.bool_)

    @cached_property
    def _summed_ranges(self) -> tuple[Ints, ...]:
        """For each level but the last, the sums of the ranges of each unit's children (unit, free sum, 2)."""
        out: list[Ints] = []
        for level in reversed(range(self.n_levels - 1)):
            starts, sums = self.starts[level], []
            for families in families_at_once(starts, _UNITS_AT_ONCE):
                children = slice(int(starts[families.start]), int(starts[families.stop]))
                ranges = self._ranges(level + 1, children, out[-1] if out else None)
                first = starts[families.start : families.stop] - children.start
                sums.append(np.add.reduceat(ranges, first, axis=0))
            out.append(np.concatenate(sums))
        return tuple(reversed(out))

    def _ranges(self, level: int, units: slice, sums: Ints | None) -> Ints:
        values, zeros = self.values(level, units), self.zeros(level, units)
        if sums is not None:
            return ranges_with_children(self.exact[level], values, zeros, self.exact[level + 1], sums[units])
        if self.last_ranges is not None:
            return self.last_ranges[units]
        return ranges_by_classes(self.exact[level], values, zeros)

    def free_ranges(self, level: int, units: slice) -> Ints:
        """Return from where to where free sums of some units may be, so that all below can have tables.

        See `congenial.rules.free_sum_ranges`.

        Returns
        -------
        array (unit, free sum, 2)
        """
        is_last = level + 1 == self.n_levels
        return self._ranges(level, units, None if is_last else self._summed_ranges[level])

    @property
    def limits_at_top(self) -> tuple[tuple[Cells, Ints], ...]:
        """Cells whose sum must lie in a range in the units of the first level, with their ranges (unit, 2)."""
        if self.n_levels == 1:
            return ()
        return tuple(
            (tied.free_cells, self._summed_ranges[0][:, number]) for number, tied in enumerate(self.exact[1].free)
        )

    def is_outside_at_top(self, tables: Ints) -> Bools:
        """Say of the table of each unit of the first level whether some sum is outside `limits_at_top` (unit,)."""
        out = np.zeros(len(tables), np.bool_)
        for cells, ranges in self.limits_at_top:
            sums = tables[:, list(cells)].sum(axis=1)
            out |= (sums < ranges[:, 0]) | (sums > ranges[:, 1])
        return out

    def key(self, level: int) -> int:
        """Return the 64 bits from which the words of a level follow."""
        state = hashlib.blake2b(key=self.seed, digest_size=8, person=b"gls tie words")
        state.update((self.first_level + level).to_bytes(4, "big"))
        return int.from_bytes(state.digest(), "big")

    def first_place(self, level: int) -> int:
        """Return the number of the first unit of a level in the whole tree."""
        return self.first_places[level] if self.first_places else 0


def _is_large(table: Ints, times: int = 1) -> bool:
    most = _LARGEST_SUM // times
    largest = max(abs(int(table.max(initial=0))), abs(int(table.min(initial=0))))
    if largest * table.size <= most:
        return False
    if largest > most:
        return True
    return sum(int(np.abs(table[start : start + 65_536]).sum()) for start in range(0, len(table), 65_536)) > most


DecideTop = Callable[[Ints], Ints]
"""From estimates of the first level (unit, cell), in units of ``2**-FRACTION_BITS``, to its integers."""


@dataclass(frozen=True)
class TreeRule(Rule, ABC):
    """A rule for trees of areas: it decides the tables of all levels together.

    Attributes
    ----------
    measures_cells : bool
        Whether it needs every cell measured; else it takes whole margins (`congenial.rules.margin_trees`).
    """

    measures_cells: ClassVar[bool] = True

    @abstractmethod
    def decide(
        self, data: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
    ) -> tuple[Ints, ...]:
        """Return the tables of every level (unit, cell): none is negative, and children add up to their parent."""

    @abstractmethod
    def check(self, data: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop) -> None:
        """Raise `ConditionError` unless these are the tables of the rule."""

    @abstractmethod
    def why_not(
        self,
        starts: Sequence[Ints],
        n_cells: int,
        exact_rows: Sequence[tuple[Cells, ...]] = (),
        zero_masks: Sequence[Bools] = (),
    ) -> str | None:
        """Return why the rule does not apply to a tree, whatever is measured; None if it does."""

    def learn(self, data: TreeMeasurements, tables: Sequence[Ints]) -> Learned:  # noqa: ARG002
        """Return what the rule learned to decide these tables, of which it needs no more than the levels above leaves.

        Of most rules, nothing.
        """
        return {}

    def way(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:  # noqa: ARG002
        """Return how the rule decides the tables of a level below the first, given what is exact there; in words."""
        return self.title

    def way_at_leaves(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:
        """Return the same of the last level."""
        return self.way(exact_rows, n_cells)
