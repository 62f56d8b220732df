"""How often intervals cover the truth, and how wide they are: four ways, at equal certified privacy.

The posterior and the prior-free interval start from a congenial release. The naive interval puts the noise's quantiles
around a TopDown release, as if nothing had been repaired. The GLS interval starts from the raw noisy cells, uses the
equalities, rounds its ends inward and cuts them at zero.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import StudyError
from congenial.inference.error_intervals import error_intervals
from congenial.inference.estimates_and_draw_quality import (
    Estimate,
    PoorDrawsWarning,
    check_level,
    ends_of_draws,
    estimates,
    mean_of_draws,
    median_of_draws,
)
from congenial.inference.frequentist import Confidence, confidences
from congenial.inference.measured_target import cell_measurements, start_tables
from congenial.inference.posterior import Posterior, posterior
from congenial.inference.questions import parse_query
from congenial.inference.statistics_registry import Statistic
from congenial.law import Law, PublicLaw
from congenial.measurement import drawing_of
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, secure_rng
from congenial.schema import Schema
from congenial.study.baselines.base_and_least_squares import Problem, noisy_answers, without_conditions
from congenial.study.baselines.topdown_and_leaves_alone import TopDown
from congenial.study.compare import SOURCES
from congenial.study.metrics import SIZES, size_text
from congenial.study.paper.exhibits_table_1_and_figures import Columns
from congenial.table import Table

POSTERIOR, PRIOR_FREE, NAIVE, GLS = (
    "posterior, flat prior",
    "without a prior",
    "naive around TopDown",
    "GLS of raw noise",
)
METHODS = (POSTERIOR, PRIOR_FREE, NAIVE, GLS)
LEVELS = (0.5, 0.8, 0.9, 0.95)
_ALL = -1  # all sizes of count together

Ends = tuple[Floats, Floats]


@dataclass(frozen=True)
class Coverage:
    """Coverage and mean width of cell intervals, by method, level and size of the true count.

    Attributes
    ----------
    unavailable : mapping from method to reason
        Methods that have no interval for this system.
    """

    columns: Columns
    unavailable: dict[str, str]
    n_tables: int
    n_releases: int

    def rows(self, level: float) -> list[tuple[str, str, str, str, str]]:
        """Return the lines of one level: method, size of count, cells, coverage, width."""
        lines = zip(*self.columns.values(), strict=True)
        return [
            (method, size, f"{n:,}", f"{coverage:.1%}", f"{width:.2f}")
            for method, at, size, n, coverage, width in lines
            if at == level
        ]


def coverage_study(
    mechanism: Mechanism,
    tables: Iterable[Table],
    *,
    source: str,
    levels: Sequence[float] = LEVELS,
    n_releases: int = 5,
    n_draws: int = 1_000,
    rng: RandomStream | None = None,
    progress: Progress = silent,
) -> Coverage:
    """Release each table several times, and count how often each kind of interval covers each cell.

    Parameters
    ----------
    source : str
        ``"public"`` or ``"simulated"``: coverage of confidential tables would be confidential itself.
    """
    if source not in SOURCES:
        raise StudyError(f"a coverage study needs public or simulated tables, and source is {source!r}")
    if not levels:
        raise StudyError("a coverage study needs at least one level, such as 0.9")
    for level in levels:
        check_level(level)
    if {row.cells for rows in mechanism.classes for row in rows} < {(c,) for c in range(mechanism.schema.n_cells)}:
        raise StudyError("a coverage study needs every cell measured by itself: measure cells()")
    if type(n_releases) is not int or n_releases < 1:
        raise StudyError(f"n_releases is a whole number from 1 on, not {n_releases!r}")
    truths = list(tables)
    if not truths:
        raise StudyError("a coverage study needs at least one table")
    stream = rng or secure_rng()
    tally = _CoverageTally(levels)
    unavailable: dict[str, str] = {}
    for number, table in enumerate(truths):
        progress("tables", number, len(truths))
        _one_table(mechanism, table, n_releases, n_draws, stream, tally, unavailable)
    return Coverage(tally.columns(), unavailable, len(truths), n_releases)


class _CoverageTally:
    """Counts of covered cells and sums of widths."""

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels = levels
        self.sums: dict[tuple[str, float, int], Floats] = {}

    def add(self, method: str, level: float, truth: Ints, ends: Ends) -> None:
        low, high = ends
        sizes = np.searchsorted(SIZES, truth, side="right") - 1
        covers, widths = (truth >= low) & (truth <= high), np.maximum(high - low, 0)
        for size in (*np.unique(sizes).tolist(), _ALL):
            in_class = (sizes == size) | (size == _ALL)
            sums = self.sums.setdefault((method, level, size), np.zeros(3))
            sums += in_class.sum(), covers[in_class].sum(), widths[in_class].sum()

    def columns(self) -> Columns:
        """Return a tidy frame, all sizes together last."""
        by_size = [key for key in self.sums if key[2] != _ALL]
        keys = sorted(by_size, key=lambda key: (METHODS.index(key[0]), key[1], key[2]))
        keys += [key for key in self.sums if key[2] == _ALL]
        sums = np.array([self.sums[key] for key in keys]).reshape(-1, 3)
        return {
            "method": [method for method, _, _ in keys],
            "level": [level for _, level, _ in keys],
            "size_of_count": ["all" if size == _ALL else size_text(size) for _, _, size in keys],
            "n_cells": sums[:, 0].astype(int).tolist(),
            "coverage": (sums[:, 1] / sums[:, 0]).tolist(),
            "mean_width": (sums[:, 2] / sums[:, 0]).tolist(),
        }


def _one_table(
    mechanism: Mechanism,
    table: Table,
    n_releases: int,
    n_draws: int,
    rng: RandomStream,
    tally: _CoverageTally,
    unavailable: dict[str, str],
) -> None:
    constraints = mechanism.disclose(table)
    plan = mechanism.plan(constraints)
    plain, law = without_conditions(mechanism, plan.certificate), plan.law
    # Cells that the invariants determine need no interval; the others are cut at what is possible, for every method.
    bounds = constraints.cell_bounds
    open_cells = np.array([cell for cell in range(mechanism.schema.n_cells) if cell not in set(bounds.pinned)], np.intp)
    if not len(open_cells):
        return
    least = np.array([-np.inf if end is None else end for end in bounds.lower])[open_cells]
    most = np.array([np.inf if end is None else end for end in bounds.upper])[open_cells]
    truth = table.counts[open_cells]

    def count(method: str, level: float, ends: Ends) -> None:
        tally.add(method, level, truth, (np.clip(ends[0], least, most), np.clip(ends[1], least, most)))

    cells = [Statistic("", "count", Row.of("", [int(cell)])) for cell in open_cells]
    problem = Problem(constraints, plain.law.measured)
    answers = noisy_answers(problem, table, n_releases, rng)
    for released, noisy in zip(Law(law, table.counts).sample(n_releases, rng), answers, strict=True):
        draws = posterior(law, None, released, prior="flat", n_draws=n_draws, rng=rng)
        repaired = TopDown().repair(problem, noisy).astype(np.float64)
        for level in tally.levels:
            with catch_warnings():  # a study of thousands of intervals counts how they do
                simplefilter("ignore", PoorDrawsWarning)
                intervals = estimates(draws, cells, released, level=level)
            count(POSTERIOR, level, _ends(intervals))
            confidence_intervals = confidences(law, {None: released}, cells, level=level)
            if all(interval.is_available for interval in confidence_intervals):
                count(PRIOR_FREE, level, _ends(confidence_intervals))
            else:
                unavailable[PRIOR_FREE] = next(
                    interval.why for interval in confidence_intervals if not interval.is_available
                )
            count(NAIVE, level, _only(naive(problem, repaired, level), open_cells))
            count(GLS, level, _only(generalised_least_squares(problem, noisy, level), open_cells))


def _ends(intervals: Sequence[Estimate | Confidence]) -> Ends:
    return np.array([interval.low for interval in intervals]), np.array([interval.high for interval in intervals])


def _only(ends: Ends, cells: NDArray[np.intp]) -> Ends:
    return ends[0][cells], ends[1][cells]


def naive(problem: Problem, repaired: Floats, level: float) -> Ends:
    """Put the noise's own quantiles around a repaired table, as if it were the noisy one."""
    noises = {query.cell: query.noise for query in problem.measured if query.cell is not None}
    reach = np.array([float(noises[cell].quantile((1 + level) / 2)) for cell in range(problem.n_cells)])
    return repaired - reach, repaired + reach


def generalised_least_squares(problem: Problem, noisy: Floats, level: float) -> Ends:
    """Estimate from the raw noisy queries under the equalities, with normal intervals; ends inward, not below zero."""
    queries, weights = problem.queries, problem.weights  # the largest is 1, so that nothing is lost to rounding
    smallest = min(float(value) for value in problem.variances)
    equalities = problem.constraints.known.limits
    rows = dense([equality.row for equality in equalities], problem.n_cells).astype(np.float64)
    values = np.array([float(equality.lower or 0) for equality in equalities])
    information = (queries.T * weights) @ queries
    size = len(rows)
    system = np.block([[information, rows.T], [rows, np.zeros((size, size))]])
    inverse = np.linalg.pinv(system)
    n = problem.n_cells
    centre = (inverse @ np.concatenate([(queries.T * weights) @ noisy, values]))[:n]
    deviation = np.sqrt(np.maximum(np.diag(inverse)[:n], 0.0) * smallest)
    reach = NormalDist().inv_cdf((1 + level) / 2) * deviation
    return np.maximum(np.ceil(centre - reach - 1e-9), 0.0), np.maximum(np.floor(centre + reach + 1e-9), 0.0)


# How well questions are answered on real or simulated tables: sums, shares and measures of dispersion.
#
# Errors that hide in cells add up in sums, so each question has a row of its own: how often its interval covers, with
# a standard error clustered by table, and how far the estimate is from the truth next to the release itself.

TableFunction = Callable[[Ints], Floats]
"""A number for each of some tables (draw, cell)."""

CELLS = "cells"


@dataclass(frozen=True)
class AnswerAccuracy:
    """Coverage and error of each question; a row a question, and cells by released size.

    Attributes
    ----------
    columns : columns
        question, n, coverage, standard_error, error_law_coverage, mean_width, error_released, error_mean, error_median:
        errors are root mean squares.
    """

    columns: Columns
    level: float
    n_tables: int
    n_releases: int

    def rows(self) -> list[tuple[str, ...]]:
        """Return the lines for people."""
        out: list[tuple[str, ...]] = []
        for name, n, coverage, error, by_law, *sizes in zip(*self.columns.values(), strict=True):
            law = "" if np.isnan(by_law) else f"{by_law:.1%}"
            figures = (f"{size:.3g}" for size in sizes)
            out.append((name, f"{n:,}", f"{coverage:.1%}", f"{error:.1%}", law, *figures))
        return out


def chi_square(schema: Schema) -> TableFunction:
    """Return Pearson's statistic of independence of a two-way table."""
    if len(schema.shape) != 2:
        raise StudyError("the chi-square of independence is asked of tables with two dimensions")

    def values(tables: Ints) -> Floats:
        cube = tables.reshape(-1, *schema.shape).astype(np.float64)
        lines, columns = cube.sum(axis=2, keepdims=True), cube.sum(axis=1, keepdims=True)
        expected = lines * columns / cube.sum(axis=(1, 2), keepdims=True)
        parts = np.where(expected > 0, (cube - expected) ** 2 / np.where(expected > 0, expected, 1.0), 0.0)
        return np.asarray(parts.sum(axis=(1, 2)))

    return values


def answer_study(
    mechanism: Mechanism,
    tables: Iterable[Table],
    questions: Mapping[str, str | TableFunction],
    *,
    source: str,
    prior: str = "smooth",
    level: float = 0.9,
    n_releases: int = 5,
    n_draws: int = 2_000,
    rng: RandomStream | None = None,
    progress: Progress = silent,
) -> AnswerAccuracy:
    """Release each table several times, answer the questions from each release, and compare with the table.

    Parameters
    ----------
    questions : mapping
        By name, a query such as ``"age in {65-66, 67-69}"``, or a function of tables.
    source : str
        ``"public"`` or ``"simulated"``: how confidential tables are answered would be confidential itself.
    """
    if source not in SOURCES:
        raise StudyError(f"a study needs public or simulated tables, and source is {source!r}")
    check_level(level)
    statistics = {name: _statistic(mechanism.schema, question) for name, question in questions.items()}
    stream, tally = rng or secure_rng(), _AnswerTally()
    truths = list(tables)
    for number, table in enumerate(truths):
        progress("tables", number, len(truths))
        law = mechanism.plan(mechanism.disclose(table)).law
        for released, measurements in _releases(law, table, n_releases, stream):
            draws = posterior(law, None, released, measurements=measurements, prior=prior, n_draws=n_draws, rng=stream)
            _add_cells(tally, number, draws, table.counts, level)
            _add_questions(tally, number, draws, table.counts, statistics, level, stream)
    return AnswerAccuracy(tally.columns(), level, len(truths), n_releases)


def _releases(law: PublicLaw, table: Table, n_releases: int, rng: RandomStream) -> Iterable[tuple[Ints, Ints | None]]:
    """Return released tables; where they are measured, decided tables and what was measured."""
    if not law.is_measured:
        return ((released, None) for released in Law(law, table.counts).sample(n_releases, rng))
    drawing, _ = drawing_of(law)
    measurements = drawing.draw(np.zeros(n_releases, np.int64), np.tile(table.counts, (n_releases, 1)), rng)
    decided = (start_tables(law, cell_measurements(law, line[None, :]))[0] for line in measurements)
    return zip(decided, measurements, strict=True)


def _statistic(schema: Schema, question: str | TableFunction) -> Statistic | TableFunction:
    if not isinstance(question, str):
        return question
    statistics = parse_query(question, schema)
    if len(statistics) != 1:
        raise StudyError(f"{question!r} asks for {len(statistics)} numbers; a question of a study is one")
    return statistics[0]


def _add_questions(
    tally: "_AnswerTally",
    number: int,
    draws: Posterior,
    truth: Ints,
    questions: Mapping[str, Statistic | TableFunction],
    level: float,
    rng: RandomStream,
) -> None:
    is_decided = draws.law.is_measured  # by a rule: there is no law of the decided table's error
    linear = [] if is_decided else [question for question in questions.values() if isinstance(question, Statistic)]
    by_law = {interval.query: interval for interval in error_intervals(draws, linear, level, rng)}
    for name, question in questions.items():
        values = question.values if isinstance(question, Statistic) else question
        drawn_values, true_value = values(draws.tables), float(values(truth[None, :])[0])
        low, high = ends_of_draws(drawn_values, draws.weights, level)
        law = by_law.get(question.text) if isinstance(question, Statistic) else None
        is_law = np.nan if law is None or not law.is_available else float(law.low <= true_value <= law.high)
        released = float(values(draws.released[None, :])[0])
        if np.isfinite(true_value) and np.isfinite(released):
            off = [
                released - true_value,
                *(estimate - true_value for estimate in _estimates(drawn_values, draws.weights)),
            ]
            tally.add(name, number, float(low <= true_value <= high), is_law, high - low, *off)


def _add_cells(tally: "_AnswerTally", number: int, draws: Posterior, truth: Ints, level: float) -> None:
    pinned = set(draws.constraints.cell_bounds.pinned)
    for cell in (cell for cell in range(truth.size) if cell not in pinned):
        drawn = draws.tables[:, cell].astype(np.float64)
        low, high = ends_of_draws(drawn, draws.weights, level)
        covers = float(low <= truth[cell] <= high)
        off = [float(estimate - truth[cell]) for estimate in (draws.released[cell], *_estimates(drawn, draws.weights))]
        size = int(np.searchsorted(SIZES, draws.released[cell], side="right")) - 1
        for name in (CELLS, f"{CELLS} released as {size_text(size)}"):
            tally.add(name, number, covers, np.nan, high - low, *off)


def _estimates(drawn: Floats, weights: Floats | None) -> tuple[float, float]:
    """Return the posterior mean and median of a number."""
    return mean_of_draws(drawn, weights), median_of_draws(drawn, weights)


class _AnswerTally:
    """Lines of figures by question, each with the number of its table."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[float, ...]]] = {}

    def add(self, name: str, table: int, *figures: float) -> None:
        self.lines.setdefault(name, []).append((table, *figures))

    def columns(self) -> Columns:
        out: dict[str, list[object]] = {name: [] for name in _COLUMNS}
        for name, lines in sorted(self.lines.items(), key=lambda item: item[0].startswith(CELLS + " ")):
            table, covers, by_law, width, *errors = np.array(lines).T
            row = [name, len(lines), covers.mean(), _clustered(table, covers), by_law.mean(), width.mean()]
            row += [np.sqrt((error**2).mean()) for error in errors]
            for key, value in zip(_COLUMNS, row, strict=True):
                out[key].append(value if isinstance(value, str | int) else float(value))
        return out


_COLUMNS = (
    "question",
    "n",
    "coverage",
    "standard_error",
    "error_law_coverage",
    "mean_width",
    "error_released",
    "error_mean",
    "error_median",
)


def _clustered(table: Floats, covers: Floats) -> float:
    """Return the standard error of a share whose cases come in clusters."""
    off = covers - covers.mean()
    sums: Sequence[float] = [float(off[table == number].sum()) for number in np.unique(table)]
    n = len(sums)
    return float(np.sqrt(np.square(sums).sum() * n / max(1, n - 1)) / len(covers))
