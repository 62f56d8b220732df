"""Numbers of a measured tree from all levels together, with intervals by rank among public draws of the noise.

The least squares of the rule *gls* are linear in the measurements, with weights from public precisions and the public
tree. So the error of an estimate is the same function of the noise whatever the counts are, and m draws of the noise of
the whole tree, around any public tables, give m errors of the same law. The error of the release is as likely to have
any rank among those and itself: it is no larger than the ``ceil(level (m + 1))``-th smallest of m with at least the
level (docs/claims/measured-trees.md).

Which is narrower, all levels together or one by itself, is decided by other draws: choosing by the same ones would
spoil their ranks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.conditions.rows_and_intervals import Row, row_values
from congenial.decided_tables import tree_measurements
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.districts import District
from congenial.inference.estimates_and_draw_quality import check_level
from congenial.inference.frequentist import COMBINED, Confidence
from congenial.inference.measurement_intervals import (
    LinearReading,
    Measurements,
    ScaledReading,
    confidences_of,
    scaled_reading,
)
from congenial.inference.questions import parse_queries
from congenial.inference.statistics_registry import Statistic
from congenial.plan import Plan
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import replay_rng
from congenial.rules.gls import estimates_in_parts
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.sampling.lattice_noise.half_widths import HalfWidth, half_width_of

N_CHOOSING = 20
"""Draws that say whether all levels together are narrower."""

_FEWEST, _MOST = 99, 999  # draws for intervals: at a level of 0.9 the 90th smallest of 99
_SLACK = 2.0**-8  # of a half-width, and of a count: what least squares are rounded by, or solved to, at most
_DRAWING = "drawing the noise of the whole tree"


@dataclass(frozen=True, eq=False)
class SummedUnits:
    """Groups of units of a level whose numbers are added up, each unit in one group at most.

    Attributes
    ----------
    level : int
    numbers : array (unit,)
        The group of each unit of the level, -1 for none.
    n_groups : int
    """

    level: int
    numbers: Ints = field(repr=False)
    n_groups: int

    def add(self, rows: Sequence[Row], units: slice, tables: Ints, sums: Ints) -> None:
        """Add what rows of the tables of some units (unit, cell) are to sums (group, row)."""
        numbers = self.numbers[units]
        inside = np.flatnonzero(numbers >= 0)
        if len(inside):
            np.add.at(sums, numbers[inside], row_values(rows, tables[inside]).astype(np.int64, copy=False))


@dataclass(frozen=True, eq=False)
class CombinedLevels:
    """The levels of a measured tree with all that tells what they say together. Public.

    Attributes
    ----------
    plan : Plan
        Of the whole tree.
    measured : tuple of arrays (unit, row)
        The measurements of every level, and of areas that cross the tree.
    tables : tuple of arrays (unit, cell)
        Public tables that have all exact numbers: noise is drawn around them.
    alone : tuple of Measurements
        Of each level by itself.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes([f"{tract}{block}" for tract in "12" for block in "abcdefgh"], {"tract": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), epsilon="1", shares={"tract": 1, "block": 9})
    >>> with TemporaryDirectory() as place:
    ...     ledger = cg.open_ledger(f"{place}/budget.db", create=True)
    ...     _ = ledger.create_dataset("town", epsilon="1", neighbours="bounded", who="Ada")
    ...     _ = hierarchy.release([[30, 40]] * 16, ledger=ledger, dataset="town", release="one", who="Ada",
    ...                           folder=f"{place}/one")
    ...     bundle = cg.load_bundle(f"{place}/one")
    >>> (alone,) = bundle.units("tract").confidence("all", "1")
    >>> ((together,),) = bundle.combined.units("tract", "all", ["1"]).values()
    >>> together.how, together.coverage, together.high - together.low < alone.high - alone.low
    ('combined', 0.9, True)
    """

    plan: Plan
    measured: tuple[Ints, ...] = field(repr=False)
    tables: tuple[Ints, ...] = field(repr=False)
    alone: tuple[Measurements, ...] = field(repr=False)

    def units(
        self,
        level_name: str,
        query: str | Sequence[str],
        codes: Sequence[str] | None = None,
        *,
        level: float = 0.9,
        is_simultaneous: bool = False,
        progress: Progress = silent,
    ) -> dict[str, list[Confidence]]:
        """Return the intervals of each number in each unit of a level, or of areas that cross the tree.

        Parameters
        ----------
        codes : sequence of str, optional
            Which units; all of them if not given.
        is_simultaneous : bool
            Whether the intervals of all numbers of all these units hold together.
        """
        law = self.plan.law
        names = [name for name, _ in law.names_and_codes]
        if level_name not in names:
            raise InferenceError(f"the tree has no level {level_name!r}; {did_you_mean(level_name, names)}")
        number = names.index(level_name)
        texts = codes_as_texts(law.names_and_codes[number][1])
        asked = list(dict.fromkeys(texts if codes is None else codes))
        places = {code: place for place, code in enumerate(texts)}
        if unknown := [code for code in asked if code not in places]:
            raise InferenceError(
                f"{unknown[0]!r} is no {level_name} of this release; {did_you_mean(unknown[0], texts)}"
            )
        groups = np.full(len(texts), -1)
        groups[[places[code] for code in asked]] = np.arange(len(asked))
        if number < len(law.tree.levels):
            summed = SummedUnits(number, groups, len(asked))
        else:
            of_leaves = np.full(law.tree.n_leaves, -1)
            if law.across is not None:
                of_leaves = np.append(groups, -1)[law.across.area_of_leaf]
            summed = SummedUnits(len(law.tree.levels) - 1, of_leaves, len(asked))

        def reading(group: int, row: Row) -> LinearReading | None:
            return self.alone[number].number({asked[group]: row})

        answers = self._answers(query, summed, reading, level, progress, is_simultaneous=is_simultaneous)
        return dict(zip(asked, answers, strict=True))

    def district(
        self,
        leaves: Sequence[str],
        query: str | Sequence[str],
        *,
        level: float = 0.9,
        is_simultaneous: bool = False,
        progress: Progress = silent,
    ) -> list[Confidence]:
        """Return the interval of each number in some leaves put together, by their codes."""
        tree = self.plan.law.tree
        district = District.of(tree, self.alone[: len(tree.levels)], leaves)
        summed = SummedUnits(len(tree.levels) - 1, np.where(district.leaves, 0, -1), 1)

        def reading(_: int, row: Row) -> LinearReading | None:
            return district.number(row)

        return self._answers(query, summed, reading, level, progress, is_simultaneous=is_simultaneous)[0]

    def _answers(
        self,
        query: str | Sequence[str],
        summed: SummedUnits,
        reading: Callable[[int, Row], LinearReading | None],
        level: float,
        progress: Progress,
        *,
        is_simultaneous: bool,
    ) -> list[list[Confidence]]:
        """Return the intervals of each group (group, statistic), from one level where that is no wider."""
        miss = 1 - Fraction(str(check_level(level)))
        statistics = parse_queries(query, self.plan.law.schema)
        numbers: dict[tuple[int, int], ScaledReading] = {}  # what has noise, by group and statistic
        by_level = []
        for group in range(summed.n_groups):

            def of_group(_: Statistic, row: Row, group: int = group) -> LinearReading | None:
                return reading(group, row)

            by_level.append(confidences_of(statistics, of_group, level=level, is_simultaneous=False))
            for place, statistic in enumerate(statistics):
                number = scaled_reading(statistic, of_group)
                if not isinstance(number, str) and number.reading.noise:
                    numbers[group, place] = number
        if not numbers:
            return by_level
        each = 1 - miss / (len(numbers) if is_simultaneous else 1)
        n_draws = max(_FEWEST, ceil(1 / (1 - each)) - 1)
        if n_draws > _MOST:
            raise InferenceError(
                f"{len(numbers):,} numbers at this level need {n_draws:,} draws of the noise of the whole tree, and"
                f" {_MOST} are made at most; ask for fewer together, for a lower level, or not all together"
            )
        rows = [statistic.above for statistic in statistics]
        widths = {key: half_width_of(number.reading.noise, each) for key, number in numbers.items()}
        is_narrower = self._is_narrower(rows, summed, numbers, widths, each, progress)
        estimates = self._sums(rows, summed, self.measured)
        rank = ceil(each * (n_draws + 1))
        reach = self._reach(rows, summed, n_draws, rank, progress) if is_narrower else np.zeros(estimates.shape)
        coverage = float(1 - (1 - Fraction(rank, n_draws + 1)) * (len(numbers) if is_simultaneous else 1))
        how = f"all levels together, by rank among {n_draws} public draws of the noise of the whole tree"
        out = [list(answers) for answers in by_level]
        for (group, place), number in numbers.items():
            statistic, width = statistics[place], widths[group, place]
            if place in is_narrower:
                width = HalfWidth(int(reach[group, place]), coverage, how)
                value = Fraction(int(estimates[group, place]), 1 << FRACTION_BITS)
                estimate = LinearReading(value, 1 << FRACTION_BITS, number.reading.noise, number.reading.limits)
                number = ScaledReading(estimate, number.scale)  # noqa: PLW2901
            text, low, high, _, kind, why = number.interval(statistic.text, width, level)
            kind = COMBINED if place in is_narrower else kind
            stated = coverage if is_simultaneous else width.coverage
            out[group][place] = Confidence(text, low, high, level, kind, why, is_simultaneous, stated, number.value)
        return out

    def _is_narrower(
        self,
        rows: Sequence[Row],
        summed: SummedUnits,
        numbers: Mapping[tuple[int, int], ScaledReading],
        widths: Mapping[tuple[int, int], HalfWidth],
        each: Fraction,
        progress: Progress,
    ) -> set[int]:
        """Return the statistics that all levels together have narrower intervals of, as far as can be told."""
        squares = np.zeros((summed.n_groups, len(rows)))
        for errors in self._errors(rows, summed, "choosing", N_CHOOSING, progress):
            squares += np.square(np.ldexp(errors.astype(np.float64), -FRACTION_BITS)) / N_CHOOSING
        reach = NormalDist().inv_cdf(0.5 + float(each) / 2)
        out = set()
        for place in range(len(rows)):
            groups = [group for group, statistic in numbers if statistic == place]
            if groups:
                together = reach * sqrt(float(squares[groups, place].mean()))
                by_itself = [
                    widths[group, place].half_width / numbers[group, place].reading.divisor for group in groups
                ]
                if together < float(np.mean(by_itself)):
                    out.add(place)
        return out

    def _reach(self, rows: Sequence[Row], summed: SummedUnits, n_draws: int, rank: int, progress: Progress) -> Ints:
        """Return the errors of this rank, from below, with what estimates are rounded by: (group, row)."""
        # All that is kept of the draws: the largest errors, of which the smallest has the rank.
        largest = np.zeros((0, summed.n_groups, len(rows)), np.int64)
        for errors in self._errors(rows, summed, "interval", n_draws, progress):
            largest = np.sort(np.concatenate([largest, errors[None]]), axis=0)[-(n_draws - rank + 1) :]
        reach: Ints = np.ceil(largest[0] * (1 + _SLACK) + (1 << FRACTION_BITS) * _SLACK).astype(np.int64)
        return reach

    def _errors(
        self, rows: Sequence[Row], summed: SummedUnits, purpose: str, n_draws: int, progress: Progress
    ) -> Iterator[Ints]:
        """Yield how far off the estimates of sums (group, row) are in draws of the noise, without sign."""
        truth = np.zeros((summed.n_groups, len(rows)), np.int64)
        summed.add(rows, slice(None), self.tables[summed.level], truth)
        seed = tree_measurements(self.plan.law, self.measured).seed.hex()
        for number in range(n_draws):
            progress(f"{_DRAWING}, {purpose}", number, n_draws)
            drawn = self.plan.draw(self.tables[-1], replay_rng(f"combined levels {seed} {purpose} {number}"))
            yield np.abs(self._sums(rows, summed, drawn) - (truth << FRACTION_BITS))
        progress(f"{_DRAWING}, {purpose}", n_draws, n_draws)

    def _sums(self, rows: Sequence[Row], summed: SummedUnits, measured: Sequence[Ints]) -> Ints:
        """Return what least squares over all levels give sums (group, row), in units of ``2**-FRACTION_BITS``."""
        out = np.zeros((summed.n_groups, len(rows)), np.int64)
        for level, units, estimates in estimates_in_parts(tree_measurements(self.plan.law, measured)):
            if level == summed.level:
                summed.add(rows, units, estimates, out)
        return out
