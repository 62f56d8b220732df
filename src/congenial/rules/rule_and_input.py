"""What a public rule is, what it takes, and the public words by which it decides between equals."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import KeyedWords

FRACTION_BITS = 20
"""Estimates are whole numbers, in units of ``2**-FRACTION_BITS`` of a count."""

WORD_BITS = 48
"""Words by which equals are told apart have so many bits: sums of thousands of them are far from the end of 64."""

Learned = Mapping[str, tuple[int, ...]]
"""What a rule learns from the measurements of all units: whole numbers by name, which are published in the manifest."""


@dataclass(frozen=True, eq=False)
class RuleInput:
    """What a rule may know: measurements and public structure. There is no place for a confidential table.

    Attributes
    ----------
    areas : Areas
        The exact numbers of each unit, and the limits of its cells.
    rows : tuple of Row
        The measured rows over cells, in the order of the columns of `measurements`.
    precisions : tuple of Fraction
        Of each measured row.
    exponent : int
        1 for Double Geometric noise, 2 for the discrete Gaussian.
    measurements : array (unit, row)
        They may be negative.
    seed : bytes
        32 public bytes, a digest of the measurements; nothing of the key of the noise.
    fractions : array (unit, row), optional
        What measurements are above these whole numbers, from -1/2 to 1/2, in units of ``2**-FRACTION_BITS``: of
        estimates, which are none. They decide between tables that are equally near to the whole numbers.
    """

    areas: Areas
    rows: tuple[Row, ...]
    precisions: tuple[Fraction, ...]
    exponent: int
    measurements: Ints = field(repr=False)
    seed: bytes = field(repr=False)
    fractions: Ints | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        shape, expected = np.shape(self.measurements), (len(self.areas), len(self.rows))
        if np.asarray(self.measurements).dtype != np.int64:
            raise ConditionError("measurements are 64-bit whole numbers, one for each unit and measured row")
        if shape != expected or len(self.precisions) != len(self.rows):
            raise ConditionError(
                f"measurements of {expected[0]:,} units and {expected[1]:,} rows have the shape {expected}, and a"
                f" precision for each row; these have {shape} and {len(self.precisions):,} precisions"
            )
        if self.exponent not in {1, 2}:
            raise ConditionError(f"the exponent of the noise is 1 or 2, and {self.exponent} is neither")
        if len(self.seed) != 32:
            raise ConditionError(f"the seed of a rule has 32 bytes, and this has {len(self.seed)}")


@dataclass(frozen=True)
class Rule:
    """A public function from measurements to tables that obey every condition.

    The same input gives the same integers on every machine, with any number of threads.

    Attributes
    ----------
    name, version : str, int
        A rule whose tables change gets a new version.
    title : str
    words : str
        One or two sentences for the report.
    settings : mapping
        Default values of its settings.
    """

    name: str
    version: int
    title: str
    words: str
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)

    learns: ClassVar[bool] = False
    """Whether it learns numbers, which are published beside the tables."""

    def why_too_noisy(self, n_cells: int, precision: Fraction, exponent: int) -> str | None:  # noqa: ARG002
        """Return why cells with such noise are beyond the rule, in time and memory; None if they are not."""
        return None


@dataclass(frozen=True)
class TableRule(Rule, ABC):
    """A rule for one table and for areas.

    A unit's table depends on nothing but its measurements, its conditions, the seed and its label, unless `words` says
    that units lend to each other. Such a rule *learns*: what it learns is published, and given that, its tables are the
    same integers on every machine.
    """

    @property
    def alone(self) -> "TableRule":
        """The rule for a unit that has no others beside it: this one, unless it learns from others."""
        return self

    @abstractmethod
    def decide(self, data: RuleInput, progress: Progress = silent, *, n_threads: int | None = None) -> Ints:
        """Return the table of each unit (unit, cell)."""

    def learn(self, data: RuleInput, *, n_threads: int | None = None) -> Learned:  # noqa: ARG002
        """Return what the rule learns from the measurements of all units: of most rules, nothing."""
        return {}

    def decide_with(
        self,
        data: RuleInput,
        learned: Learned,  # noqa: ARG002
        progress: Progress = silent,
        *,
        n_threads: int | None = None,
    ) -> Ints:
        """Return the table of each unit (unit, cell), given what was learned."""
        return self.decide(data, progress, n_threads=n_threads)

    def check_with(self, data: RuleInput, tables: Ints, learned: Learned) -> None:  # noqa: ARG002
        """Raise `ConditionError` unless these are the tables given what was learned, and that from the measurements."""
        self.check(data, tables)

    def seconds(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> float:  # noqa: ARG002
        """Return about how long a table takes among many: by structure alone, the same on every machine."""
        return 3e-7 * areas.groups[0].pattern.schema.n_cells

    @abstractmethod
    def check(self, data: RuleInput, tables: Ints) -> None:
        """Raise `ConditionError` unless these are tables of the rule: conditions and optimum, in integers."""

    @abstractmethod
    def why_not(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> str | None:
        """Return why the rule does not apply to such measurements, whatever their values; None if it does."""


def check_conditions(data: RuleInput, tables: Ints) -> None:
    """Raise `ConditionError` unless there is a table for each unit that obeys its conditions.

    Examples
    --------
    >>> from congenial.conditions.constraints import Constraints
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> areas = Areas.one(Constraints.of(Schema({"sex": ["female", "male"]}), [total(equals=3)]))
    >>> rows = (Row.of("female", [0]), Row.of("male", [1]))
    >>> data = RuleInput(areas, rows, (Fraction(1),) * 2, 1, np.array([[4, -1]]), bytes(32))
    >>> check_conditions(data, np.array([[4, -1]]))
    Traceback (most recent call last):
    congenial.errors.ConditionError: the table of 1 unit breaks a condition; a rule gives none that does
    """
    expected = len(data.areas), data.areas.groups[0].pattern.schema.n_cells
    if np.shape(tables) != expected or np.asarray(tables).dtype.kind != "i":
        raise ConditionError(
            f"the tables of a rule are whole numbers of shape {expected}; these are {np.shape(tables)}"
        )
    n_wrong = int((~data.areas.holds(tables)).sum())
    if n_wrong:
        units = "the table of 1 unit breaks" if n_wrong == 1 else f"the tables of {n_wrong:,} units break"
        raise ConditionError(f"{units} a condition; a rule gives none that does")


class TieWords:
    """A public random word for each cell of each unit, by which equals are told apart. Public.

    A word follows from the seed, the label of the unit and the number of the cell: not from the order of units, nor
    from how many are decided at a time. Words of one unit are distinct, and as likely negative as positive.

    Examples
    --------
    >>> words = TieWords(bytes(32), ("north", "south"), 46)
    >>> bool((words.of([1]) == words.of([0, 1])[1]).all()), int(np.unique(words.of([0])).size)
    (True, 46)
    """

    def __init__(self, seed: bytes, labels: Sequence[Area], n_cells: int, purpose: bytes = b"rule tie words") -> None:
        self._seed, self._labels, self._n_cells, self._purpose = seed, labels, n_cells, purpose

    def of(self, places: Sequence[int] | NDArray[np.int64]) -> Ints:
        """Return the words of some units (unit, cell)."""
        state = hashlib.blake2b(key=self._seed, digest_size=16, person=self._purpose)
        starts = []
        for place in np.asarray(places).tolist():
            unit = state.copy()
            unit.update((self._labels[place] or "").encode())
            starts.append(unit.digest())
        blocks: NDArray[Any] = np.frombuffer(b"".join(starts), ">u8").astype(np.uint64).reshape(-1, 2)
        n = self._n_cells + self._n_cells % 2
        first = np.zeros(len(starts), np.int64)
        words = KeyedWords(self._seed, blocks).stretch(np.arange(len(starts)), first, n)[:, : self._n_cells]
        # The last bits are the number of the cell, so that no two are equal.
        bits = np.uint64(max(self._n_cells - 1, 1).bit_length())
        random = (words >> np.uint64(64 - WORD_BITS) >> bits) << bits
        distinct: Ints = (random | np.arange(self._n_cells, dtype=np.uint64)).astype(np.int64)
        distinct -= 2 ** (WORD_BITS - 1)
        return distinct


def words_by_fraction(words: Ints, fractions: Ints) -> Ints:
    """Return words (unit, cell) that go by fractions first: the cell with the largest gets the next unit.

    Examples
    --------
    >>> words = words_by_fraction(np.array([[3, 1, 2]]), np.array([[-5, 100, 100]]))
    >>> words.argsort(axis=1).tolist()
    [[1, 2, 0]]
    """
    bits = WORD_BITS - FRACTION_BITS - 1
    out: Ints = (-fractions << bits) + (words & ((1 << bits) - 1))
    return out
