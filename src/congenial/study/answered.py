"""How well questions are answered on real or simulated tables: sums, shares and measures of dispersion.

Errors that hide in cells add up in sums, so each question has a row of its own: how often its interval covers, with a
standard error clustered by table, and how far the estimate is from the truth next to the release itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import StudyError
from congenial.inference.error_law import error_intervals
from congenial.inference.intervals import check_level, ends_of_draws, mean_of_draws, median_of_draws
from congenial.inference.posterior import Posterior, posterior
from congenial.inference.question import Statistic, parse_query
from congenial.law import Law
from congenial.mechanism import Mechanism
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream, secure_rng
from congenial.schema import Schema
from congenial.study.asked import SOURCES
from congenial.study.comparison import SIZES, size_text
from congenial.study.exhibit import Columns
from congenial.table import Table

Question = Callable[[Ints], Floats]
"""A number for each of some tables (draw, cell)."""

CELLS = "cells"


@dataclass(frozen=True)
class Answered:
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


def chi_square(schema: Schema) -> Question:
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


def answered_study(
    mechanism: Mechanism,
    tables: Iterable[Table],
    questions: Mapping[str, str | Question],
    *,
    source: str,
    prior: str = "smooth",
    level: float = 0.9,
    n_releases: int = 5,
    n_draws: int = 2_000,
    rng: RandomStream | None = None,
    progress: Progress = no_news,
) -> Answered:
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
    known = {name: _statistic(mechanism.schema, asked) for name, asked in questions.items()}
    stream, tally = rng or secure_rng(), _Tally()
    truths = list(tables)
    for number, table in enumerate(truths):
        progress("tables", number, len(truths))
        law = mechanism.plan(mechanism.disclose(table)).law
        for released in Law(law, table.counts).sample(n_releases, stream):
            found = posterior(law, None, released, prior=prior, n_draws=n_draws, rng=stream)
            _add_cells(tally, number, found, table.counts, level)
            _add_questions(tally, number, found, table.counts, known, level, stream)
    return Answered(tally.columns(), level, len(truths), n_releases)


def _statistic(schema: Schema, asked: str | Question) -> Statistic | Question:
    if not isinstance(asked, str):
        return asked
    found = parse_query(asked, schema)
    if len(found) != 1:
        raise StudyError(f"{asked!r} asks for {len(found)} numbers; a question of a study is one")
    return found[0]


def _add_questions(
    tally: "_Tally",
    number: int,
    found: Posterior,
    truth: Ints,
    questions: Mapping[str, Statistic | Question],
    level: float,
    rng: RandomStream,
) -> None:
    linear = [asked for asked in questions.values() if isinstance(asked, Statistic)]
    by_law = {interval.query: interval for interval in error_intervals(found, linear, level, rng)}
    for name, asked in questions.items():
        values = asked.values if isinstance(asked, Statistic) else asked
        drawn, own = values(found.tables), float(values(truth[None, :])[0])
        low, high = ends_of_draws(drawn, found.weights, level)
        law = by_law[asked.text] if isinstance(asked, Statistic) else None
        is_law = np.nan if law is None or not law.is_available else float(law.low <= own <= law.high)
        released = float(values(found.released[None, :])[0])
        if np.isfinite(own) and np.isfinite(released):
            off = [released - own, *(estimate - own for estimate in _estimates(drawn, found.weights))]
            tally.add(name, number, float(low <= own <= high), is_law, high - low, *off)


def _add_cells(tally: "_Tally", number: int, found: Posterior, truth: Ints, level: float) -> None:
    pinned = set(found.constraints.cell_bounds.pinned)
    for cell in (cell for cell in range(truth.size) if cell not in pinned):
        drawn = found.tables[:, cell].astype(np.float64)
        low, high = ends_of_draws(drawn, found.weights, level)
        covers = float(low <= truth[cell] <= high)
        off = [float(estimate - truth[cell]) for estimate in (found.released[cell], *_estimates(drawn, found.weights))]
        size = int(np.searchsorted(SIZES, found.released[cell], side="right")) - 1
        for name in (CELLS, f"{CELLS} released as {size_text(size)}"):
            tally.add(name, number, covers, np.nan, high - low, *off)


def _estimates(drawn: Floats, weights: Floats | None) -> tuple[float, float]:
    """Return the posterior mean and median of a number."""
    return mean_of_draws(drawn, weights), median_of_draws(drawn, weights)


class _Tally:
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
