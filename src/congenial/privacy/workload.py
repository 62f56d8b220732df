"""Several tables of the same records: what is measured and exact, and differences of two histograms. Public."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import PrivacyError
from congenial.noise import FAMILIES, Noise
from congenial.privacy import check_relation

Axes = tuple[int, ...]
Mask = NDArray[np.bool_]
Cell = tuple[int, ...]

_PROVEN = {(1, "epsilon"), (2, "rho")}


@dataclass(frozen=True)
class WorkloadTable:
    """A margin that is measured: its attributes, and the precision of each of its cells."""

    axes: Axes
    precision: Fraction = Fraction(0)


@dataclass(frozen=True, eq=False)
class WorkloadFacts:
    """Everything that a certificate of several tables of the same records depends on. Public.

    Attributes
    ----------
    sizes : tuple of int
        The number of levels of each attribute.
    tables : tuple of WorkloadTable
        The margins that are measured, each with noise of its own.
    noise : str
        The family of the noise.
    exact : tuple of tuple of int
        The attributes of each exact margin; ``()`` is the number of records.
    sums : tuple of (tuple of int, array)
        Further exact numbers: attributes, and the integer coefficient of each of their combinations.
    zeros : tuple of (tuple of int, array)
        Structural zeros: attributes, and whether each of their combinations is impossible. A combination whose exact
        number is 0 may be given as one as well: witnesses are then looked for elsewhere.

    Examples
    --------
    >>> tables = tuple(WorkloadTable(axes, Fraction(1, 3)) for axes in ((0, 1, 2), (0, 3), (2, 3)))
    >>> health = WorkloadFacts((39, 8, 2, 12), tables, "discrete_gaussian", exact=((0,), (3,)))
    >>> sorted(health.held), [health.fewest_by_formula(table.axes) for table in health.tables]
    ([0, 3], [1, 2, 1])
    """

    sizes: tuple[int, ...]
    tables: tuple[WorkloadTable, ...]
    noise: str
    exact: tuple[Axes, ...] = ()
    sums: tuple[tuple[Axes, Ints], ...] = ()
    zeros: tuple[tuple[Axes, Mask], ...] = ()
    neighbours: str = "bounded"

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        family = self.family
        if (family.exponent, family.currency) not in _PROVEN or not family.is_for_release:
            raise PrivacyError(f"no theorem here covers several tables under {family.title} noise")
        if not self.sizes or min(self.sizes) < 1:
            raise PrivacyError(f"attributes have 1 level or more each, not {self.sizes}")
        arrays = (*self.sums, *self.zeros)
        for axes in chain((table.axes for table in self.tables), self.exact, (axes for axes, _ in arrays)):
            if len(set(axes)) < len(axes) or not all(0 <= axis < len(self.sizes) for axis in axes):
                raise PrivacyError(f"attributes {axes} are not different ones of 0 to {len(self.sizes) - 1}")
        for axes, array in arrays:
            if np.shape(array) != tuple(self.sizes[axis] for axis in axes):
                raise PrivacyError(f"an array over attributes {axes} has their sizes, not the shape {np.shape(array)}")
        if any(np.asarray(array).dtype.kind not in "iub" for _, array in arrays):
            raise PrivacyError("coefficients of exact sums are integers, and structural zeros are true or false")
        if any(table.precision < 0 for table in self.tables):
            raise PrivacyError("a precision of a table is negative; leave out what is not measured")

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        if self.noise not in FAMILIES:
            raise PrivacyError(f"noise {self.noise!r} is not known; there is {', '.join(FAMILIES)}")
        return FAMILIES[self.noise]

    @property
    def exponent(self) -> int:
        """The power of the deviation with which weights fall: 1 or 2."""
        return self.family.exponent

    @property
    def precisions(self) -> tuple[Fraction, ...]:
        """The precision of each table."""
        return tuple(table.precision for table in self.tables)

    def with_precisions(self, precisions: Sequence[Fraction]) -> "WorkloadFacts":
        """Return the same with other precisions."""
        pairs = zip(self.tables, precisions, strict=True)
        return replace(self, tables=tuple(WorkloadTable(table.axes, precision) for table, precision in pairs))

    def varying(self, axes: Axes) -> frozenset[int]:
        """Return those of some attributes that have two levels or more."""
        return frozenset(axis for axis in axes if self.sizes[axis] > 1)

    @cached_property
    def faces(self) -> tuple[frozenset[int], ...]:
        """The attributes of exact margins, those of one level left out; of bounded neighbours the total is one."""
        margins = {self.varying(axes) for axes in self.exact}
        if self.neighbours == "bounded":
            margins.add(frozenset())
        return tuple(sorted(margins, key=lambda face: (len(face), sorted(face))))

    @cached_property
    def held(self) -> frozenset[int]:
        """The attributes in some exact margin: no change of one record alters them."""
        return frozenset().union(*self.faces)

    @property
    def comes(self) -> bool:
        """Whether records come and go one by one, as the number of records is not exact."""
        return self.neighbours == "unbounded" and not self.exact

    def is_exact(self, axes: Axes) -> bool:
        """Whether a margin follows from one exact margin, as it lies inside it."""
        return any(self.varying(axes) <= face for face in self.faces)

    @cached_property
    def determined(self) -> tuple[bool, ...]:
        """Which tables lie inside an exact margin: they tell nothing."""
        return tuple(bool(self.exact) and self.is_exact(table.axes) for table in self.tables)

    def check_noise(self, conditioned: Sequence[Sequence[Axes]]) -> None:
        """Refuse noise of tables that keeps margins, listed by table, which are not exact.

        Examples
        --------
        >>> workload = WorkloadFacts((2, 2), (WorkloadTable((0, 1)),), "discrete_gaussian", exact=((0,),))
        >>> workload.check_noise([[(0,)]])
        >>> workload.check_noise([[(0,), (1,)]])
        Traceback (most recent call last):
        congenial.errors.PrivacyError: internal: noise of table (0, 1) is conditioned on margin (1,), which is not exact
        """
        for table, margins in zip(self.tables, conditioned, strict=True):
            for axes in margins:
                if not set(axes) <= set(table.axes) or not self.is_exact(axes):
                    raise PrivacyError(
                        f"internal: noise of table {table.axes} is conditioned on margin {axes}, which is not exact"
                    )

    def smallest_free(self, axes: Axes) -> tuple[int, ...] | None:
        """Return the fewest attributes of a table that no exact margin holds together; None if one holds them all."""
        varying = sorted(self.varying(axes))
        for size in range(len(varying) + 1):
            for some in combinations(varying, size):
                if not any(set(some) <= face for face in self.faces):
                    return some
        return None

    def fewest_by_formula(self, axes: Axes) -> int | None:
        """Return the fewest records whose change moves a table, by exact margins alone; None where nothing moves it.

        Where no exact margin holds some m attributes of the table together, and some exact margin holds every m - 1 of
        them, they are ``2^(m - 1)`` records. Structural zeros and further exact sums can only raise it.
        """
        some = self.smallest_free(axes)
        return None if some is None else 2 ** max(0, len(some) - 1)


@dataclass(frozen=True)
class WorkloadChange:
    """A difference of two histograms: by how many records each cell differs."""

    entries: tuple[tuple[Cell, int], ...]

    @classmethod
    def of(cls, entering: Sequence[Cell], leaving: Sequence[Cell]) -> "WorkloadChange":
        """Return the change by records that enter some cells and leave others."""
        sizes: dict[Cell, int] = {}
        for cells, step in ((entering, 1), (leaving, -1)):
            for cell in cells:
                sizes[cell] = sizes.get(cell, 0) + step
        return cls(tuple(sorted((cell, size) for cell, size in sizes.items() if size)))

    @property
    def norm(self) -> int:
        """The sum of absolute differences: two for each record that changes, one for each that comes or goes."""
        return sum(abs(size) for _, size in self.entries)

    def margin(self, axes: Axes) -> dict[Cell, int]:
        """Return the differences of a margin, zeros left out.

        Examples
        --------
        >>> WorkloadChange.of([(0, 1), (1, 0)], [(0, 0), (1, 1)]).margin((0,))
        {}
        """
        sums: dict[Cell, int] = {}
        for cell, size in self.entries:
            part = tuple(cell[axis] for axis in axes)
            sums[part] = sums.get(part, 0) + size
        return {part: size for part, size in sums.items() if size}

    def moves(self, workload: WorkloadFacts) -> tuple[int, ...]:
        """Return the sum of absolute differences of each table, or of their squares under Gaussian noise."""
        power = workload.exponent
        return tuple(sum(abs(d) ** power for d in self.margin(table.axes).values()) for table in workload.tables)

    def keeps(self, workload: WorkloadFacts) -> bool:
        """Whether every exact number stays as it is, in integers, and no structural zero is entered or left."""
        bounded = [()] if workload.neighbours == "bounded" else []
        if any(self.margin(axes) for axes in (*workload.exact, *bounded)):
            return False
        for axes, coefficients in workload.sums:
            if sum(int(coefficients[part]) * size for part, size in self.margin(axes).items()):
                return False
        return True

    def avoids_zeros(self, workload: WorkloadFacts) -> bool:
        """Whether it touches no structural zero."""
        return not any(
            mask[tuple(cell[axis] for axis in axes)] for axes, mask in workload.zeros for cell, _ in self.entries
        )
