"""The rule *anchored*: areas lend each other strength, tied to the nearest table where a prior could mislead.

For each area, with n its measurements and N its *nearest* table:

1. each cell has a posterior: negative binomial around the area's size times the profile of all areas, times an effect
   of the area in a band of cells; the exact numbers hold in the mean, by tilting;
2. a cell that is 0 in N is 0;
3. the sum of each part of a band is halfway between the posterior's and N's;
4. the sum of a cell over all areas is the median of those of n, of N and of the posteriors;
5. whole numbers have the least expected absolute error given all that, with the exact numbers.

What is learned from all areas are whole numbers of ``2**-20``, published beside the table. Given these, a run of areas
is decided by itself: a fixed number of areas, in the order of their labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError
from congenial.memory_and_threads import map_in_threads
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules.exact_sums_as_graph import SumsAsGraph
from congenial.rules.learning_from_areas import Fit
from congenial.rules.nearest import NEAREST
from congenial.rules.rule_and_input import Learned, RuleInput, TableRule, check_conditions
from congenial.rules.runs_of_areas import ONE, Frame, Numbers, decided_run, reach_of

FEWEST_AREAS = 20
"""With fewer, there is too little to learn from."""

TOLERANCE = 1e-3
"""How far what is learned again may be from what was published, relative to 1 or to the number itself."""

_MOST_CELLS = 5_000
_MOST_COUNTS, _MOST_CHANCES = 2**15, 2**22  # of a cell, and of all cells of an area


@dataclass(frozen=True)
class Anchored(TableRule):
    """Posterior means of cells under a prior learned from all areas, anchored at the nearest tables.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"age": ["0-17", "18-44", "45-64", "65+"]})
    >>> counts = np.array([[3, 9, 6, 2]] * 24)
    >>> areas = Areas.of_counts(schema, [total()], [f"{n:02}" for n in range(24)], counts, name="area")
    >>> rows = tuple(Row.of(schema.cell_name(cell), [cell]) for cell in range(4))
    >>> measured = counts + np.array([[2, -1, -2, 1], [-1, 2, 1, -2]] * 12)
    >>> data = RuleInput(areas, rows, (Fraction(1, 2),) * 4, 1, measured, bytes(32))
    >>> tables = ANCHORED.decide(data)
    >>> bool((tables.sum(axis=1) == 20).all()), bool(abs(tables - counts).sum() < abs(measured - counts).sum())
    (True, True)
    """

    learns: ClassVar[bool] = True

    @property
    def alone(self) -> TableRule:
        """The rule of a unit that has no others beside it."""
        return NEAREST

    def decide(self, data: RuleInput, progress: Progress = silent, *, n_threads: int | None = None) -> Ints:
        """Return the table of each unit (unit, cell), learning from all of them."""
        return self.decide_with(data, self.learn(data, n_threads=n_threads), progress, n_threads=n_threads)

    def learn(self, data: RuleInput, *, n_threads: int | None = None) -> Learned:
        """Return what is learned from the measurements: whole numbers, in units of ``2**-20`` but for shapes."""
        return Fit(Frame(data), n_threads).learned()

    def decide_with(
        self, data: RuleInput, learned: Learned, progress: Progress = silent, *, n_threads: int | None = None
    ) -> Ints:
        """Return the table of each unit (unit, cell), given what was learned: the same integers on every machine."""
        frame = Frame(data)
        numbers = Numbers.of(learned, frame)
        tables = np.empty((len(data.areas), frame.n_cells), np.int64)
        n_done = 0

        def work(part: slice) -> tuple[Ints, Ints]:
            return frame.runs[part.start].places, decided_run(frame, numbers, frame.runs[part.start])

        parts = [slice(number, number + 1) for number in range(len(frame.runs))]
        for places, some in map_in_threads(work, parts, n_threads):
            tables[places] = some
            n_done += len(places)
            progress(DECIDING, n_done, len(tables))
        check_conditions(data, tables)
        return tables

    def check(self, data: RuleInput, tables: Ints) -> None:
        """Raise `ConditionError` unless these are the tables that follow from what the measurements teach."""
        check_conditions(data, tables)
        self._check_tables(data, tables, self.learn(data))

    def check_with(self, data: RuleInput, tables: Ints, learned: Learned) -> None:
        """Raise `ConditionError` unless tables follow from what was learned, and that from the measurements."""
        check_conditions(data, tables)
        Numbers.of(learned, Frame(data))
        again = self.learn(data)
        for name, numbers in again.items():
            unit = 1 if name in {"shapes", "effect_shapes"} else ONE
            for stated, number in zip(learned[name], numbers, strict=True):
                if abs(stated - number) > TOLERANCE * max(unit, abs(number)):
                    raise ConditionError(
                        f"the {name} that are published as learned are not what the measurements teach: {stated} is"
                        f" there and {number} follows, more than {TOLERANCE:g} apart"
                    )
        self._check_tables(data, tables, learned)  # last: numbers that nothing teaches decide nothing

    def _check_tables(self, data: RuleInput, tables: Ints, learned: Learned) -> None:
        n_wrong = int((self.decide_with(data, learned) != tables).any(axis=1).sum())
        if n_wrong:
            units = "the table of 1 unit is" if n_wrong == 1 else f"the tables of {n_wrong:,} units are"
            raise ConditionError(f"{units} not what the rule {self.name!r}, version {self.version}, gives")

    def seconds(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> float:  # noqa: ARG002
        """Return about how long a table takes among many."""
        return 1e-5 * areas.groups[0].pattern.schema.n_cells

    def why_too_noisy(self, n_cells: int, precision: Fraction, exponent: int) -> str | None:
        """Return why cells with such noise are beyond the rule; None if they are not."""
        width = 2 * reach_of(precision, exponent) + 1
        if width <= _MOST_COUNTS and n_cells * width <= _MOST_CHANCES:
            return None
        return (
            f"the rule {self.name} weighs {width:,} counts of each of {n_cells:,} cells at a precision of"
            f" {float(precision):.2g}, and is made for {_MOST_COUNTS:,}, and {_MOST_CHANCES:,} of all cells: take the"
            f" rule {NEAREST.name}, or a larger budget"
        )

    def why_not(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> str | None:
        """Return why the rule does not apply; None if it does."""
        if len(areas) < FEWEST_AREAS:
            there = "is 1 table" if len(areas) == 1 else f"are {len(areas)} areas"
            return (
                f"the rule {self.name} learns from areas, and is made for {FEWEST_AREAS} or more; there {there}:"
                f" take the rule {NEAREST.name}"
            )
        n_cells = areas.groups[0].pattern.schema.n_cells
        if n_cells > _MOST_CELLS:
            there = f"{_MOST_CELLS:,} cells, and there are {n_cells:,}"
            return f"the rule {self.name} is made for {there}: take the rule {NEAREST.name}"
        if (why := NEAREST.why_not(areas, rows, precisions)) is not None:
            return why
        measured = {
            row.cells[0] for row, share in zip(rows, precisions, strict=True) if row.coefficients == (1,) and share
        }
        for group in areas.groups:
            graph = SumsAsGraph(group.pattern)
            if not measured.issuperset(range(n_cells)) and set(range(n_cells)) - measured - set(graph.structure.fixed):
                return (
                    f"some cells are measured in sums only, and the rule {self.name} is for measured cells: take the"
                    f" rule {NEAREST.name}"
                )
            if (why := graph.why_not) is not None:
                return f"{why}, and the rule {self.name} has no way for that: take the rule {NEAREST.name}"
        return None


ANCHORED = Anchored(
    "anchored",
    1,
    "anchored table",
    "The table with all exact numbers and limits whose expected absolute error is least under a prior that is learned"
    " from the measurements of all areas, so that areas lend to each other; tied to the nearest table: what is 0 there"
    " is 0, sums of bands of cells are halfway, and sums over areas are medians.",
)
