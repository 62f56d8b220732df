"""Answers to an analyst's questions, area by area: by the law of the noise, by a posterior, and without a prior."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import InferenceError, reason_of
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.areas_posterior import AreasPosterior
from congenial.inference.error_intervals import ErrorInterval, areas_errors, interval_by_errors, possible_ends, scale_of
from congenial.inference.estimates_and_draw_quality import (
    ALIKE,
    NOT_DRAWN,
    Estimate,
    check_level,
    estimates_of_draws,
    estimates_without_draws,
    exact_value,
    known_sum,
    number_text,
)
from congenial.inference.frequentist import DETERMINED, Confidence, coverage_text
from congenial.inference.posterior import Posterior, frame
from congenial.inference.priors import DEFAULT_PRIOR, prior_of
from congenial.inference.questions import parse_query
from congenial.inference.statistics_registry import STATISTICS, Statistic
from congenial.law import PublicLaw
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream


@dataclass(frozen=True)
class Answer:
    """One number of one area.

    Attributes
    ----------
    estimate : Estimate
        Under a prior; of a measured release, empty unless one was named.
    confidence : Confidence
        Without a prior.
    by_error : ErrorInterval
        By the law of the release's error: approximate; of a measured release the same as `confidence`, and exact.
    is_measured : bool
        Whether the release is measured.
    """

    area: Area
    estimate: Estimate
    confidence: Confidence
    by_error: ErrorInterval
    is_measured: bool = False

    @property
    def has_posterior(self) -> bool:
        """Whether there is an estimate, drawn or exact."""
        return self.estimate.quality is not NOT_DRAWN

    @property
    def is_drawn(self) -> bool:
        """Whether a posterior was computed for it: exact numbers need none."""
        return self.has_posterior and not self.estimate.is_exact

    def as_measured_row(self, *, has_posterior: bool) -> tuple[str, ...]:
        """Return it as a row of text where the release is measured.

        The query, its value in the table, as it was measured, the interval from the measurements and the coverage that
        it has; then, where there is a posterior: estimate, its Monte Carlo error, the interval's ends, and how many
        draws it is worth.
        """
        estimate, known = self.estimate, self.confidence
        table = estimate.text(estimate.released) if isfinite(estimate.released) else "none"
        posterior = self.as_row()[3:7] + self.as_row()[8:] if has_posterior else ()
        if estimate.is_exact:
            return estimate.query, table, estimate.text(estimate.mean), "exact", "100 %", *posterior
        if not known.is_available or known.measured is None or known.coverage is None:
            return estimate.query, table, "", "not available", "", *posterior
        ends = f"{number_text(known.low)} to {number_text(known.high)}"
        return estimate.query, table, number_text(known.measured), ends, coverage_text(known.coverage), *posterior

    def as_row(self) -> tuple[str, ...]:
        """Return it as a row of text.

        The query, released, the interval by the error's law, then the posterior: estimate, its Monte Carlo error, the
        interval's ends; the interval without a prior, and how many draws the estimate is worth.
        """
        estimate, without = self.estimate, self.confidence
        released = estimate.text(estimate.released)
        if estimate.is_exact:
            return estimate.query, released, "exact", estimate.text(estimate.mean), *["exact"] * 4, ""
        by_error, proven = (
            f"{number_text(interval.low)} to {number_text(interval.high)}" if interval.is_available else "not available"
            for interval in (self.by_error, without)
        )
        quality = estimate.quality
        numbers = [
            estimate.text(estimate.centre),
            number_text(quality.monte_carlo_error) if isfinite(quality.monte_carlo_error) else "unknown",
            estimate.text(estimate.low),
            estimate.text(estimate.high),
        ]
        if isnan(quality.effective_draws):
            draws = "unknown"
        else:
            draws = number_text(round(quality.effective_draws)) if isfinite(quality.effective_draws) else "all"
        notes = f"{' alike' if quality.note == ALIKE else ''}{' POOR' if quality.is_poor else ''}"
        return estimate.query, released, by_error, *numbers, proven, draws + notes

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; what is infinite or missing is null."""
        estimate, without = self.estimate, self.confidence
        return {
            "area": self.area,
            "query": estimate.query,
            "kind": estimate.kind,
            "released": _finite(estimate.released),
            **self._measured_json,
            "by_error_law": {
                "estimate": _finite(self.by_error.estimate),
                "low": _finite(self.by_error.low),
                "high": _finite(self.by_error.high),
                "how": self._how_by_error,
                "why": self.by_error.why,
            },
            "estimate": _finite(estimate.centre),
            "mean": _finite(estimate.mean),
            "median": _finite(estimate.median),
            "low": _finite(estimate.low),
            "high": _finite(estimate.high),
            "level": estimate.level,
            "is_exact": estimate.is_exact,
            "is_simultaneous": estimate.is_simultaneous,
            **({"labels": list(estimate.labels)} if estimate.labels else {}),
            "effective_draws": _finite(estimate.quality.effective_draws),
            "split_rhat": _finite(estimate.quality.split_rhat),
            "monte_carlo_error": _finite(estimate.quality.monte_carlo_error),
            "is_poor": estimate.quality.is_poor,
            "quality": estimate.quality.text,
            "without_a_prior": {
                "low": _finite(without.low),
                "high": _finite(without.high),
                "how": without.how,
                "why": without.why,
            },
        }

    @property
    def _measured_json(self) -> dict[str, Any]:
        """Of a measured release: the number as it was measured, and the coverage of the interval from measurements."""
        if not self.is_measured:
            return {}
        known = self.confidence
        return {"measured": None if known.measured is None else _finite(known.measured), "coverage": known.coverage}

    @property
    def _how_by_error(self) -> str:
        if not self.by_error.is_available:
            return "not available"
        if self.by_error.is_exact:
            return "exact"
        return "from the measurements" if self.is_measured else "approximate"


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


@dataclass(frozen=True)
class Answers:
    """What was asked of one area, and the posterior that every estimate was computed from."""

    posterior: Posterior
    numbers: tuple[Answer, ...]


def answer(
    bundle: AnalystBundle,
    queries: Sequence[str],
    area: Area,
    *,
    level: float,
    prior: str,
    n_draws: int,
    is_simultaneous: bool,
    rng: RandomStream,
    together: AreasPosterior | None = None,
) -> Answers:
    """Return the answers to some queries about one area; from the posterior of all areas together, if it is given."""
    without = bundle.confidence(queries, area, level=level, is_simultaneous=is_simultaneous)
    posterior = bundle.posterior(area, prior=prior, n_draws=n_draws, rng=rng) if together is None else together[area]
    estimates = posterior.intervals(queries, level, is_simultaneous=is_simultaneous)
    if bundle.law.is_measured:
        return Answers(posterior, tuple(_measured_answers(bundle, area, estimates, without)))
    by_error = posterior.error_intervals(queries, level, rng=rng)
    parts = zip(estimates, without, by_error, strict=True)
    return Answers(posterior, tuple(Answer(area, *part) for part in parts))


def _measured_answers(
    bundle: AnalystBundle, area: Area, estimates: Sequence[Estimate], without: Sequence[Confidence]
) -> list[Answer]:
    """Return answers of a measured release: the interval by the law of the error is that from the measurements."""
    out = []
    for estimate, known in zip(estimates, without, strict=True):
        shown = estimate if bundle.levels else replace(estimate, released=nan)  # no rule decided a table
        centre = known.low if known.measured is None else min(max(known.measured, known.low), known.high)
        by_error = ErrorInterval(
            known.query,
            shown.released,
            centre,
            known.low,
            known.high,
            known.level,
            "" if known.is_available else known.why,
            is_exact=known.how == DETERMINED,
        )
        out.append(Answer(area, shown, known, by_error, is_measured=True))
    return out


def answer_by_measurements(
    bundle: AnalystBundle, queries: Sequence[str], area: Area, *, level: float, is_simultaneous: bool = False
) -> list[Answer]:
    """Return the answers to queries about one area, or to queries that span areas, from measurements: no prior.

    Parameters
    ----------
    area : Area
        None where there is one table, and for queries that span areas.
    """
    statistics = bundle.statistics(queries)
    without = bundle.confidence(queries, area, level=level, is_simultaneous=is_simultaneous)
    spans_areas = any(statistic.areas is not None for statistic in statistics)
    values = [nan] * len(statistics)
    if bundle.levels:
        table = bundle.counts.reshape(-1) if spans_areas else bundle.released(area)
        values = [float(statistic.values(table[None, :])[0]) for statistic in statistics]
    known = [
        each.low if each.how == DETERMINED else _known(bundle, area, statistic) if not each.is_available else None
        for each, statistic in zip(without, statistics, strict=True)
    ]
    estimates = estimates_without_draws(statistics, values, known, level=level)
    return _measured_answers(bundle, area, estimates, without)


def answers_frame(answers: Sequence[Answer], backend: str = "pandas") -> Any:
    """Return answers as a pandas, polars or pyarrow table, a row a number."""
    rows = [answer.as_json() for answer in answers]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("area", "query", "released")}
    if any(answer.is_measured for answer in answers):
        columns |= {name: [row.get(name) for row in rows] for name in ("measured", "coverage")}
    columns["low_by_error_law"] = [row["by_error_law"]["low"] for row in rows]
    columns["high_by_error_law"] = [row["by_error_law"]["high"] for row in rows]
    names = ("estimate", "mean", "median", "low", "high", "level", "is_exact", "effective_draws")
    columns |= {name: [row[name] for row in rows] for name in names}
    columns["low_without_a_prior"] = [row["without_a_prior"]["low"] for row in rows]
    columns["high_without_a_prior"] = [row["without_a_prior"]["high"] for row in rows]
    return frame(columns, backend)


def write_draws(path: Path, posteriors: Sequence[Posterior]) -> None:
    """Write the draws of one area's posterior, or of several areas', as CSV: a line a draw, a column a cell.

    Every draw has its probability, which sums to one in each area: the same for all draws of chains; exact, and as
    different as they are, where all tables could be enumerated.
    """
    try:
        with path.open("x", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            for number, posterior in enumerate(posteriors):
                columns = posterior.columns()
                if not number:
                    rows.writerow(columns)
                rows.writerows(zip(*columns.values(), strict=True))
    except OSError as refused:
        raise InferenceError(f"{path} cannot be written: {reason_of(refused)}") from None


def check_picture(path: Path) -> None:
    """Refuse a picture of a kind that is not written."""
    if path.suffix not in {".svg", ".png"}:
        raise InferenceError(
            f"a picture is written as .svg or .png, and {path.name} ends in {path.suffix or 'nothing'}"
        )


def plot_answers(path: Path, answers: Sequence[Answer]) -> None:
    """Write a picture of the intervals."""
    from congenial.pages.matplotlib_figures import Shown, as_png, as_svg, interval_picture

    check_picture(path)
    shown = [
        Shown(
            ("" if answer.area is None else f"{answer.area}: ") + answer.estimate.query,
            STATISTICS[answer.estimate.kind].unit,
            *_pictured(answer),
            answer.estimate.released,
            answer.estimate.labels,
        )
        for answer in answers
        if answer.has_posterior or answer.by_error.is_available
    ]
    figure = interval_picture(shown, level=answers[0].estimate.level if answers else 0.9)
    try:
        if path.suffix == ".svg":
            path.write_text(as_svg(figure), encoding="utf-8")
        else:
            path.write_bytes(as_png(figure))
    except OSError as refused:
        raise InferenceError(f"{path} cannot be written: {reason_of(refused)}") from None


def _pictured(answer: Answer) -> tuple[float, float, float]:
    """Return the ends and the middle of the interval that is drawn: the posterior's if there is one."""
    shown: Estimate | ErrorInterval = answer.estimate if answer.has_posterior else answer.by_error
    middle = shown.centre if isinstance(shown, Estimate) else shown.estimate
    return shown.low, middle, shown.high


# Numbers that span areas: sums over them, differences and shares of some, by all three kinds of intervals.

_AT_ONCE = 4_000_000  # cells of draws


def estimates_across(
    posterior: AreasPosterior, statistics: Sequence[Statistic], level: float, *, is_simultaneous: bool = False
) -> list[Estimate]:
    """Return the estimate of each statistic that spans areas."""
    n_chains, n_draws = posterior.chains.shape[:2]
    flat = posterior.chains.reshape(n_chains * n_draws, -1)
    parts = np.array_split(flat, max(1, flat.size // _AT_ONCE))

    def values(statistic: Statistic) -> Floats:
        values_of_parts = [statistic.values(part.astype(np.int64)) for part in parts]
        return np.concatenate(values_of_parts).reshape(n_chains, n_draws)

    return estimates_of_draws(
        statistics,
        [values(statistic) for statistic in statistics],
        [_released(posterior, statistic) for statistic in statistics],
        [known_across(posterior.law, statistic) for statistic in statistics],
        n_moves=posterior.n_moves,
        level=level,
        is_simultaneous=is_simultaneous,
    )


def error_intervals_across(
    posterior: AreasPosterior, statistics: Sequence[Statistic], level: float, rng: RandomStream
) -> list[ErrorInterval]:
    """Return the interval of each statistic by the law of the releases' errors, which are independent; approximate."""
    check_level(level)
    return [_by_error(posterior, statistic, level, rng) for statistic in statistics]


def _by_error(posterior: AreasPosterior, statistic: Statistic, level: float, rng: RandomStream) -> ErrorInterval:
    law, n_cells = posterior.law, posterior.law.schema.n_cells
    known = known_across(law, statistic)
    below = None if statistic.below is None else known_sum(law, statistic.by_area(n_cells, statistic.below))
    scale, parts = scale_of(statistic, below), statistic.by_area(n_cells)
    has_interval = known is None and not isinstance(scale, str)
    errors = _errors(posterior, parts, rng) if has_interval else np.zeros(1)
    least, most = np.sum([possible_ends(law.areas[area], row) for area, row in parts.items()], axis=0)
    ends = float(least), float(most)
    return interval_by_errors(statistic.text, _released(posterior, statistic), known, scale, errors, ends, level)


def _errors(posterior: AreasPosterior, parts: dict[Area, Row], rng: RandomStream) -> Floats:
    """Return errors of a sum of areas' counts."""
    weights = np.zeros(posterior.released.shape, np.int64)
    for place, area in enumerate(posterior.areas):
        if area in parts:
            weights[place, list(parts[area].cells)] = parts[area].coefficients
    return np.asarray(areas_errors(posterior.law, posterior.chains, weights, rng).sum(axis=0))


def _released(posterior: AreasPosterior, statistic: Statistic) -> float:
    return float(statistic.values(posterior.released.reshape(1, -1))[0])


def known_across(law: PublicLaw, statistic: Statistic) -> float | None:
    """Return the value of a statistic that the invariants of all areas determine; None where they leave it open."""
    return statistic.of_known([known_sum(law, statistic.by_area(law.schema.n_cells, row)) for row in statistic.rows])


# Answers that the published numbers determine: nothing is drawn for them.


def known_answers(
    bundle: AnalystBundle, spanning: Sequence[str], of_areas: Sequence[str], areas: Sequence[Area], level: float
) -> list[Answer] | None:
    """Return the answers to all queries if the invariants determine every one of them, and None otherwise.

    Parameters
    ----------
    spanning, own : sequence of str
        Queries that span areas, and queries about each of these areas.
    """
    answers: list[Answer] = []
    for area, queries in [(None, spanning)] * bool(spanning) + [(area, of_areas) for area in areas if of_areas]:
        statistics = bundle.statistics(queries)
        values = [_known(bundle, area, statistic) for statistic in statistics]
        if None in values:  # one is enough, and areas may be many
            return None
        if bundle.law.is_measured:
            answers += answer_by_measurements(bundle, queries, area, level=level)
            continue
        table = _all_tables(bundle) if queries is spanning else bundle.released(area)
        released = [float(statistic.values(table[None, :])[0]) for statistic in statistics]
        nothing = [np.zeros((1, 1))] * len(statistics)
        estimates = estimates_of_draws(statistics, nothing, released, values, level=level)
        by_error = [
            ErrorInterval(
                estimate.query, estimate.released, estimate.mean, estimate.low, estimate.high, level, is_exact=True
            )
            for estimate in estimates
        ]
        without = bundle.confidence(queries, area, level=level)
        answers += [Answer(area, *part) for part in zip(estimates, without, by_error, strict=True)]
    return answers


def _known(bundle: AnalystBundle, area: Area, statistic: Statistic) -> float | None:
    if statistic.areas is not None:
        return known_across(bundle.law, statistic)
    return exact_value(bundle.law.areas[area], statistic)


def _all_tables(bundle: AnalystBundle) -> Ints:
    return np.concatenate([bundle.tables[area] for area in bundle.law.areas.labels])


# Everything that was asked of a bundle: numbers of each area, and numbers that span areas.

_MOST_WARNINGS = 5  # of single areas


@dataclass(frozen=True)
class Replies:
    """The answers, the posteriors of the areas asked about, and what was said aloud on the way.

    Attributes
    ----------
    numbers : tuple of Answer
        Those that span areas first; they have no area.
    posteriors : tuple of Posterior
        None where the published numbers determine every answer.
    is_pooled : bool
        Whether the areas' own numbers lean on the other areas.
    """

    numbers: tuple[Answer, ...]
    posteriors: tuple[Posterior, ...]
    warnings: tuple[str, ...]
    is_pooled: bool = False


def ask(
    bundle: AnalystBundle,
    queries: Sequence[str],
    areas: Sequence[Area] = (),
    *,
    level: float = 0.9,
    prior: str | None = None,
    n_draws: int = 4_000,
    is_simultaneous: bool = False,
    is_pooled: bool = False,
    needs_draws: bool = False,
    together: AreasPosterior | None = None,
    rng: RandomStream,
    progress: Progress = silent,
) -> Replies:
    """Answer queries about some areas, or all of them, and queries that span areas.

    Parameters
    ----------
    areas : sequence of areas
        None given, all of them, which lean on each other under the smooth prior. Areas that are named are asked each
        by itself, which is quick however many there are.
    prior : str, optional
        Not given, `DEFAULT_PRIOR`; but a measured release is then answered from its measurements alone, at once,
        unless draws are wanted.
    is_pooled : bool
        Whether areas that are named lean on all others too.
    needs_draws : bool
        Whether draws are wanted even if the published numbers determine every answer.
    together : AreasPosterior, optional
        Draws of all areas together under this prior, if there are some already.
    progress : Progress
        Told what is being done.
    """
    spanning = [query for query in queries if parse_query(query, bundle.law.schema, bundle.law.areas)[0].areas]
    of_areas = [query for query in queries if query not in spanning]
    if spanning and areas:
        raise InferenceError(
            f"{spanning[0]!r} spans areas, and is answered from all of them: leave --area out, and name areas in the"
            f" query, such as {bundle.law.areas.name}={areas[0]}"
        )
    check_level(level)
    needs_prior = not bundle.law.is_measured or prior is not None or needs_draws or is_pooled
    prior = DEFAULT_PRIOR if prior is None else prior
    belief = prior_of(bundle.law.schema, prior)
    for area in areas:
        bundle.place(area)  # refused here, before anything is drawn
    chosen = list(areas) if areas else list(bundle.law.areas.labels)
    if not needs_prior:
        asked = [(None, spanning)] * bool(spanning) + [(area, of_areas) for area in chosen if of_areas]
        return Replies(
            tuple(
                answer
                for area, some in asked
                for answer in answer_by_measurements(bundle, some, area, level=level, is_simultaneous=is_simultaneous)
            ),
            (),
            (),
        )
    known = None if needs_draws else known_answers(bundle, spanning, of_areas, chosen, level)
    if known is not None:
        return Replies(tuple(known), (), ())
    is_pooled = belief.is_pooled and len(bundle.law.areas) > 1 and (is_pooled or not areas)
    numbers: list[Answer] = []
    posteriors: list[Posterior] = []
    with catch_warnings(record=True) as heard:
        simplefilter("always")
        if spanning or is_pooled:
            progress("all areas together")
            if together is None:
                together = bundle.posterior(prior=prior, n_draws=n_draws, rng=rng)
            if spanning:
                numbers += answer_across(
                    bundle, together, spanning, level=level, is_simultaneous=is_simultaneous, rng=rng
                )
        places: list[Area] = [None] * len(heard)  # which area each warning is about
        for number, area in enumerate(chosen if of_areas else []):
            progress("one table" if area is None else "one by one", number, len(chosen))
            area_answers = answer(
                bundle,
                of_areas,
                area,
                level=level,
                prior=prior,
                n_draws=n_draws,
                is_simultaneous=is_simultaneous,
                rng=rng,
                together=together if is_pooled else None,
            )
            numbers += area_answers.numbers
            posteriors.append(area_answers.posterior)
            places += [area] * (len(heard) - len(places))
        if not of_areas and together is not None:
            posteriors = [together[area] for area in chosen]
    places += [None] * (len(heard) - len(places))
    messages = [
        (area, str(warning.message))
        for area, warning in zip(places, heard, strict=True)
        if issubclass(warning.category, UserWarning)
    ]
    return Replies(tuple(numbers), tuple(posteriors), _in_words(messages), is_pooled)


def _in_words(messages: Sequence[tuple[Area, str]]) -> tuple[str, ...]:
    """Return warnings with the areas that they are about: those of the first areas, and how many more there are.

    Examples
    --------
    >>> _in_words([(None, "few draws"), *((f"{number}", "it contradicts") for number in range(9))])[3:]
    ('2: it contradicts', '3: it contradicts', '4: it contradicts', 'there are 4 more warnings like these of areas')
    """
    texts = dict.fromkeys(text if area is None else f"{area}: {text}" for area, text in messages)
    of_areas = [f"{area}: {text}" for area, text in messages if area is not None]
    rest = dict.fromkeys(of_areas[_MOST_WARNINGS:])
    more = [f"there are {len(rest):,} more warnings like these of areas"] if rest else []
    return tuple([text for text in texts if text not in rest] + more)


def answer_across(
    bundle: AnalystBundle,
    together: AreasPosterior,
    queries: Sequence[str],
    *,
    level: float,
    is_simultaneous: bool,
    rng: RandomStream,
) -> list[Answer]:
    """Return the answers to queries that span areas, from the posterior of all areas together."""
    statistics = bundle.statistics(queries)
    without = bundle.confidence(queries, level=level, is_simultaneous=is_simultaneous)
    estimates = estimates_across(together, statistics, level, is_simultaneous=is_simultaneous)
    if bundle.law.is_measured:
        return _measured_answers(bundle, None, estimates, without)
    by_error = error_intervals_across(together, statistics, level, rng)
    return [Answer(None, *parts) for parts in zip(estimates, without, by_error, strict=True)]
