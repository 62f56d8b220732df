"""Measurements of every level of a tree of areas, with the public structure that a rule for trees goes by."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import ConditionError, TooLargeError
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.family_integers import Cells, ExactCellSums
from congenial.rules.rule_and_input import Rule

_VARIANCE_BITS = 36  # of the largest variance; sums over eight million children and more stay below 2^63
_LARGEST_SUM = 2**38

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
        for table in self.measured:
            if _is_large(table):
                raise TooLargeError(f"measurements of a level add up to more than {_LARGEST_SUM:,}")

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

    @cached_property
    def _whole_variances(self) -> tuple[float, ...]:
        """Variances of the levels as whole numbers in units of a power of two, the same for every part of a tree."""
        largest = max(variance for variance in self.variances if not math.isinf(variance))
        unit = math.ldexp(1.0, math.frexp(largest)[1] - _VARIANCE_BITS)
        levels = self.variances[self.first_level :][: self.n_levels]
        return tuple(some if math.isinf(some) else float(max(1, round(some / unit))) for some in levels)

    def whole_variance(self, level: int) -> float:
        """Return the variance of a cell's noise, as a whole number in units that all levels share."""
        return self._whole_variances[level]

    def values(self, level: int, units: slice) -> Ints:
        """Return the exact sums of some units (unit, row)."""
        if self.exact_values:
            return self.exact_values[level][units]
        return np.zeros((len(self.measured[level][units]), 0), np.int64)

    def zeros(self, level: int, units: slice) -> Bools:
        """Return the structural zeros of some units (unit, cell); an array of no size where there are none."""
        return self.zero_masks[level][units] if self.zero_masks else np.zeros((0, 0), np.bool_)

    def key(self, level: int) -> int:
        """Return the 64 bits from which the words of a level follow."""
        state = hashlib.blake2b(key=self.seed, digest_size=8, person=b"gls tie words")
        state.update((self.first_level + level).to_bytes(4, "big"))
        return int.from_bytes(state.digest(), "big")

    def first_place(self, level: int) -> int:
        """Return the number of the first unit of a level in the whole tree."""
        return self.first_places[level] if self.first_places else 0


def _is_large(table: Ints) -> bool:
    largest = max(abs(int(table.max(initial=0))), abs(int(table.min(initial=0))))
    if largest * table.size <= _LARGEST_SUM:
        return False
    if largest > _LARGEST_SUM:
        return True
    return (
        sum(int(np.abs(table[start : start + 65_536]).sum()) for start in range(0, len(table), 65_536)) > _LARGEST_SUM
    )


DecideTop = Callable[[Ints], Ints]
"""From estimates of the first level (unit, cell), in units of ``2**-FRACTION_BITS``, to its integers."""


@dataclass(frozen=True)
class TreeRule(Rule, ABC):
    """A rule for trees of areas: it decides the tables of all levels together."""

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

    def way(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:  # noqa: ARG002
        """Return how the rule decides the tables of a level below the first, given what is exact there; in words."""
        return self.title
