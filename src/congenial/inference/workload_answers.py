"""Answers from several tables of the same records: least squares over all tables, with exact intervals. No prior.

An estimate is linear in the measurements, so its error has the same law whatever the records are, and public draws of
the noise give half-widths that cover at least as often as they say: see `congenial.workload.estimates`. What lies in no
measured table is not estimated: made-up records have a count of it, which is a model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import ceil, floor, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats
from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.estimates_and_draw_quality import check_level, number_text
from congenial.inference.questions import parse_query, parsed_query
from congenial.inference.statistics_registry import Statistic
from congenial.workload.estimates import SLACK, Estimator, TableColumns, rank_of, table_columns

DETERMINED = "exact numbers determine it"
LEAST_SQUARES = "least squares of all tables; the law of the error is the same for all records"
MODEL = "a count of the made-up records: no measured table says it, so it is a model without an interval"

_NO_NOISE = 1e-7  # a variance below it is rounding
_GRID = 512  # shares that are tried between 0 and 1, before ends are sought between two of them
_STEPS = 40


@dataclass(frozen=True)
class TableAnswer:
    """A number of the confidential records, as all measured tables together say it.

    Attributes
    ----------
    query : str
    value : float or None
        The estimate; it may be negative. None of a model.
    standard_error : float or None
        None of shares, whose interval is not symmetric, and of a model.
    low, high : float or None
        Ends of the interval, whole numbers for counts, cut at what is possible.
    level : float
    coverage : float or None
        How often the interval covers at least, whatever the records are; 1 where exact numbers determine the number.
    count : float or None
        The same number of the made-up records, so of the published tables; None where there are no tables.
    how : str
        On what it rests.
    is_simultaneous : bool
        Whether all intervals that were asked for hold together with this probability.
    """

    query: str
    value: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    level: float
    coverage: float | None
    count: float | None
    how: str
    is_simultaneous: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether exact numbers determine it."""
        return self.how == DETERMINED

    @property
    def is_model(self) -> bool:
        """Whether nothing was measured of it."""
        return self.how == MODEL

    def as_row(self) -> list[str]:
        """Return it as texts: the query, the count, the estimate, its standard error, the interval, its coverage."""
        count = "" if self.count is None else f"{self.count:,.6g}" if self.count % 1 else f"{self.count:,.0f}"
        if self.is_model or (self.value is None and self.low is None):
            return [self.query, count, "", "", "none: a model", ""]
        if self.is_exact:
            return [self.query, count, f"{self.value:,.10g}", "", "exact", ""]
        is_share = self.standard_error is None
        value = "" if self.value is None else f"{self.value:,.4f}" if is_share else f"{self.value:,.1f}"
        error = "" if self.standard_error is None else f"{self.standard_error:,.2f}"
        ends = f"{self.low:,.4f} to {self.high:,.4f}" if is_share else f"{self.low:,.0f} to {self.high:,.0f}"
        return [self.query, count, value, error, ends, "" if self.coverage is None else f"{self.coverage:.1%}"]

    def __repr__(self) -> str:
        if self.is_model or self.value is None or self.low is None or self.high is None or self.coverage is None:
            return f"{self.query}: {'' if self.count is None else number_text(self.count)} ({self.how})"
        if self.is_exact:
            return f"{self.query}: exactly {number_text(self.value)}"
        ends = f"{number_text(self.low)} to {number_text(self.high)}"
        joint = ", all together" if self.is_simultaneous else ""
        return f"{self.query}: {self.value:,.4g}, interval {ends} (covers {self.coverage:.1%} or more{joint})"


@dataclass(frozen=True)
class _Number:
    """A weighted sum of the cells of a margin, with its estimate and drawn errors."""

    value: float
    variance: float
    errors: Floats

    @property
    def is_exact(self) -> bool:
        return self.variance < _NO_NOISE


@dataclass(frozen=True, repr=False)
class AnalystWorkloadBundle(WorkloadBundle):
    """A verified bundle of several tables of the same records, which answers questions. Nothing here reads data."""

    @classmethod
    def of(cls, bundle: WorkloadBundle) -> "AnalystWorkloadBundle":
        """Return a bundle with the methods of this class."""
        facts = (bundle.manifest, bundle.levels, bundle.records, bundle.measured_levels)
        return cls(*facts, bundle.signed_by, bundle.not_checked)

    @cached_property
    def estimator(self) -> Estimator:
        """Estimates of every margin inside a measured table, with standard errors and intervals."""
        return Estimator(self.plan, self.measured_levels)

    def frame(self, name: str) -> dict[str, list[object]]:
        """Return what is published of a table by columns: labels, count, measurement and estimate with intervals.

        Any library of data frames takes them, such as ``pandas.DataFrame(bundle.frame("by age"))``.
        """
        counts = self.table(name)  # or refused
        schema = self.schema_of(name)
        places = np.unravel_index(np.arange(counts.size), counts.shape)
        out: dict[str, list[object]] = {
            dimension.name: [dimension.labels[place] for place in column.tolist()]
            for dimension, column in zip(schema.dimensions, places, strict=True)
        }
        columns = self._columns[self.names.index(name)].as_dict()
        return out | {text: column.tolist() for text, column in columns.items()}

    @cached_property
    def _columns(self) -> tuple[TableColumns, ...]:
        return table_columns(self.plan, self.measured_levels, self.levels)

    def estimate(
        self,
        query: str | Sequence[str],
        *,
        level: float = 0.9,
        is_simultaneous: bool = False,
        from_records: bool = False,
    ) -> list[TableAnswer]:
        """Return what queries ask: counts, differences, and shares of which both parts lie inside one table.

        Parameters
        ----------
        query : str or sequence of str
            In the query language, such as ``"sex=female & age in {0-17, 18+} by county"``.
        is_simultaneous : bool
            Whether the intervals hold all together with this probability, not one by one; not of shares.
        from_records : bool
            Whether to count made-up records where no measured table says a number: a model, without an interval.
        """
        at = Fraction(str(check_level(level)))
        texts = [query] if isinstance(query, str) else list(query)
        asked = [one for text in texts for one in self._asked(text, from_records=from_records)]
        widths: dict[int, float] = {}
        if is_simultaneous:
            widths = self._simultaneous([(statistic, names) for statistic, names, known in asked if known], at)
        return [
            self._answer(statistic, names, at, widths.get(id(statistic)))
            if known
            else self._model(statistic, names, at)
            for statistic, names, known in asked
        ]

    def linear(self, dimensions: Sequence[str], coefficients: ArrayLike, *, level: float = 0.9) -> TableAnswer:
        """Return a weighted sum of the cells of a margin inside a measured table, weights shaped as the margin.

        Parameters
        ----------
        dimensions : sequence of str
            Of the margin; axes of the coefficients are in the order of the bundle's dimensions, whatever this order is.
        coefficients : array
            One for each cell.
        """
        names = tuple(name for name in self.law.schema.names if name in set(dimensions))
        for name in dimensions:
            if name not in names:
                raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(name, self.law.schema.names)}")
        if not names:
            raise InferenceError(f"name at least one dimension, such as {self.law.schema.names[0]!r}")
        part = self.law.schema.part(names)
        weights = np.asarray(coefficients, np.float64)
        if weights.shape != part.shape or not np.isfinite(weights).all():
            raise InferenceError(f"coefficients of {' x '.join(names)} are numbers of shape {part.shape}")
        self._check_known("the sum", names)
        at = Fraction(str(check_level(level)))
        number = self._number(names, weights)
        text = f"weighted sum over {' x '.join(names)}"
        return self._interval(text, number, at, None, self._counted(names, weights), is_whole=False)

    # What a query is about, and whether it was measured.

    def _asked(self, text: str, *, from_records: bool) -> list[tuple[Statistic, tuple[str, ...], bool]]:
        """Return the numbers of a query over the smallest margin that has them, and whether it was measured."""
        schema = self.law.schema
        parsed = parsed_query(text, schema)
        if parsed.kind not in {"count", "difference", "share"}:
            raise InferenceError(
                f"{parsed.kind} is not answered from several tables, for it is no sum of cells; ask for counts,"
                " differences or shares, such as share(part | whole)"
            )
        needed = {*parsed.by, *(name for where in parsed.wheres for name in where)}
        names = tuple(name for name in schema.names if name in needed) or (self._smallest,)
        known = self.estimator.knows(names)
        if not known and not from_records:
            self._check_known(repr(text), names)
        return [(statistic, names, known) for statistic in parse_query(text, schema.part(names))]

    @property
    def _smallest(self) -> str:
        """The dimension with the fewest labels of those that were measured, for the number of all records."""
        known = [name for name in self.law.schema.names if self.estimator.knows((name,))]
        return min(known, key=lambda name: len(self.law.schema.labels(name)))

    def _check_known(self, text: str, names: tuple[str, ...]) -> None:
        if self.estimator.knows(names):
            return
        tables = "; ".join(" x ".join(table.dimensions) for table in self.law.measured_tables_of_records)
        apart = [pair for pair in combinations(names, 2) if not self.estimator.knows(pair)]
        which = " and ".join(apart[0]) if apart else " and ".join(names)
        raise InferenceError(
            f"{text} is not known from this release: {which} are together in no measured table, so that nothing but a"
            f" model says it. Measured: {tables}. The made-up records have a count without an interval:"
            " --from-records (from Python: from_records=True)"
        )

    # Numbers.

    def _number(self, names: tuple[str, ...], coefficients: NDArray[np.generic]) -> _Number:
        weights = np.asarray(coefficients, np.float64)
        axes = self.law.axes(names)
        value = float((self.estimator.table(names) * weights).sum())
        variance = float(np.asarray(self.estimator.estimates.variance(axes, weights)))
        scale = max(1.0, float((weights**2).sum()))
        if variance < _NO_NOISE * scale:
            return _Number(value, 0.0, np.zeros(0))
        return _Number(value, variance, self._errors(names) @ weights.reshape(-1))

    def _errors(self, names: tuple[str, ...]) -> Floats:
        """Return the drawn errors of a margin (draw, cell); those of the last margin are kept."""
        if names not in self._last_errors:
            self._last_errors.clear()
            self._last_errors[names] = self.estimator.errors(names).reshape(self.estimator.n_draws, -1)
        return self._last_errors[names]

    @cached_property
    def _last_errors(self) -> dict[tuple[str, ...], Floats]:
        return {}

    def _of_row(self, names: tuple[str, ...], row: Row) -> _Number:
        return self._number(names, self._weights(names, row))

    def _weights(self, names: tuple[str, ...], row: Row) -> Floats:
        part = self.law.schema.part(names)
        weights = np.zeros(part.n_cells)
        weights[list(row.cells)] = row.coefficients
        return weights.reshape(part.shape)

    def _counted(self, names: tuple[str, ...], weights: Floats) -> float | None:
        if self.records is None:
            return None
        axes = self.law.axes(names)
        cells = np.ravel_multi_index(tuple(self.records[:, axis] for axis in axes), weights.shape)
        return float(np.bincount(cells, minlength=weights.size) @ weights.reshape(-1))

    def _place(self, level: Fraction) -> int:
        """Return which of the ordered drawn sizes is a half-width; refused where there are too few draws."""
        n_draws = self.estimator.n_draws
        place = rank_of(level, n_draws)
        if place > n_draws:
            raise InferenceError(
                f"intervals go by {n_draws} drawn errors, which give levels up to {n_draws / (n_draws + 1):.6g}, and"
                f" {float(level):g} was asked for; ask for no more"
            )
        return place

    def _reach(self, sizes: Floats, level: Fraction) -> float:
        return float(np.partition(sizes, self._place(level) - 1)[self._place(level) - 1]) * (1 + SLACK) + SLACK

    def _coverage(self, level: Fraction) -> float:
        return self._place(level) / (self.estimator.n_draws + 1)

    def _simultaneous(self, asked: Sequence[tuple[Statistic, tuple[str, ...]]], level: Fraction) -> dict[int, float]:
        """Return half-widths that hold all together: the same multiple of each standard error."""
        if any(statistic.below is not None for statistic, _ in asked):
            raise InferenceError("intervals that hold all together are for counts and differences; leave shares out")
        numbers = {id(statistic): self._of_row(names, statistic.above) for statistic, names in asked}
        noisy = {key: number for key, number in numbers.items() if not number.is_exact}
        if not noisy:
            return {}
        largest = np.max([np.abs(number.errors) / sqrt(number.variance) for number in noisy.values()], axis=0)
        times = self._reach(largest, level)
        return {key: times * sqrt(number.variance) for key, number in noisy.items()}

    def _answer(
        self, statistic: Statistic, names: tuple[str, ...], level: Fraction, half_width: float | None
    ) -> TableAnswer:
        weights = self._weights(names, statistic.above)
        above, count = self._number(names, weights), self._counted(names, weights)
        if statistic.below is None:
            possible = self._possible(names, weights)
            return self._interval(statistic.text, above, level, half_width, count, possible)
        return self._share(statistic, names, above, count, level)

    def _interval(
        self,
        text: str,
        number: _Number,
        level: Fraction,
        half_width: float | None,
        count: float | None,
        possible: tuple[float, float] = (-np.inf, np.inf),
        *,
        is_whole: bool = True,
    ) -> TableAnswer:
        if number.is_exact:
            value = float(round(number.value)) if is_whole else number.value
            return TableAnswer(text, value, 0.0, value, value, float(level), 1.0, count, DETERMINED)
        reach = self._reach(np.abs(number.errors), level) if half_width is None else half_width
        low, high = number.value - reach, number.value + reach
        if is_whole:  # the true number is one
            low, high = float(ceil(low - 1e-6)), float(floor(high + 1e-6))
        low, high = max(low, possible[0]), min(high, possible[1])
        if low > high:  # nothing possible is within reach: the nearest that is
            low = high = min(max(float(round(number.value)), possible[0]), possible[1])
        facts = (text, number.value, sqrt(number.variance), low, high, float(level), self._coverage(level), count)
        return TableAnswer(*facts, LEAST_SQUARES, half_width is not None)

    def _possible(self, names: tuple[str, ...], weights: Floats) -> tuple[float, float]:
        """Return what a count can be: at least 0, and at most what exact numbers say of the cells that it touches."""
        if (weights < 0).any() or not np.isin(weights, (0, 1)).all():
            return -np.inf, np.inf
        most = np.inf
        for exact in self.law.exact:
            if not exact.is_whole_margin:
                continue
            shared = [name for name in names if name in exact.dimensions]
            lost = tuple(axis for axis, name in enumerate(names) if name not in exact.dimensions)
            touched = weights.any(axis=lost)
            most = min(most, float(self.law.summed(exact, shared)[touched].sum()))
        return 0.0, most

    def _share(
        self, statistic: Statistic, names: tuple[str, ...], part: _Number, count: float | None, level: Fraction
    ) -> TableAnswer:
        """Return all shares that are compatible with the estimates: ``part - share whole`` is within its reach of 0."""
        assert statistic.below is not None  # noqa: S101
        weights = self._weights(names, statistic.below)
        whole, of = self._number(names, weights), self._counted(names, weights)
        shown = None if count is None or not of else count / of
        text, at = statistic.text, float(level)
        if whole.is_exact and round(whole.value) == 0:
            raise InferenceError(f"{text!r}: what it is divided by is 0")
        if part.is_exact and whole.is_exact:
            exact = round(part.value) / round(whole.value)
            return TableAnswer(text, exact, 0.0, exact, exact, at, 1.0, shown, DETERMINED)
        n_draws = self.estimator.n_draws
        of_part = part.errors if part.errors.size else np.zeros(n_draws)
        of_whole = whole.errors if whole.errors.size else np.zeros(n_draws)
        value: float | None = min(1.0, max(0.0, part.value / whole.value)) if whole.value > 0 else None

        def is_within(share: float) -> bool:
            reach = self._reach(np.abs(of_part - share * of_whole), level)
            return abs(part.value - share * whole.value) <= reach

        low, high = _ends(is_within, 0.5 if value is None else value)
        coverage = self._coverage(level)
        return TableAnswer(text, value, None, low, high, at, coverage, shown, LEAST_SQUARES)

    def _model(self, statistic: Statistic, names: tuple[str, ...], level: Fraction) -> TableAnswer:
        """Return the number of the made-up records alone."""
        if self.records is None:
            raise InferenceError("the bundle has measurements and no records: congenial decide makes them")
        counts = [self._counted(names, self._weights(names, row)) for row in statistic.rows]
        value = statistic.of_known(counts)
        return TableAnswer(statistic.text, None, None, None, None, float(level), None, value, MODEL)


def _ends(is_within: Callable[[float], bool], best: float) -> tuple[float, float]:
    """Return the least and the largest share between 0 and 1 that is within reach."""
    grid = np.unique(np.append(np.linspace(0.0, 1.0, _GRID + 1), best)).tolist()
    inside = [place for place, share in enumerate(grid) if is_within(share)]
    if not inside:
        return best, best
    first, last = inside[0], inside[-1]
    low = grid[first] if first == 0 else _edge(is_within, grid[first], grid[first - 1])
    high = grid[last] if last == len(grid) - 1 else _edge(is_within, grid[last], grid[last + 1])
    return low, high


def _edge(is_within: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the end of what is within reach, on its outer side."""
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_within(middle) else (inside, middle)
    return outside
