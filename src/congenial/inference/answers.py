"""Answers to an analyst's questions, area by area: by the law of the noise, by a posterior, and without a prior."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any

from congenial.bundle.loading import Bundle
from congenial.conditions.areas import Area
from congenial.errors import InferenceError, reason_of
from congenial.inference.areas_posterior import AreasPosterior
from congenial.inference.diagnostics import ALIKE
from congenial.inference.error_law import ErrorInterval
from congenial.inference.frames import frame
from congenial.inference.frequentist import Confidence
from congenial.inference.intervals import Estimate, number_text
from congenial.inference.posterior import Posterior
from congenial.randomness import RandomStream


@dataclass(frozen=True)
class Answer:
    """One number of one area."""

    area: Area
    estimate: Estimate
    confidence: Confidence
    by_error: ErrorInterval

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
            f"{number_text(found.low)} to {number_text(found.high)}" if found.is_available else "not available"
            for found in (self.by_error, without)
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
        notes = f"{' alike' if quality.word == ALIKE else ''}{' POOR' if quality.is_poor else ''}"
        return estimate.query, released, by_error, *numbers, proven, draws + notes

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; what is infinite or missing is null."""
        estimate, without = self.estimate, self.confidence
        return {
            "area": self.area,
            "query": estimate.query,
            "kind": estimate.kind,
            "released": _finite(estimate.released),
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
    def _how_by_error(self) -> str:
        if not self.by_error.is_available:
            return "not available"
        return "exact" if self.by_error.is_exact else "approximate"


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


@dataclass(frozen=True)
class Answers:
    """What was asked of one area, and the posterior that every estimate was computed from."""

    posterior: Posterior
    numbers: tuple[Answer, ...]


def answer(
    bundle: Bundle,
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
    by_error = posterior.error_intervals(queries, level, rng=rng)
    estimates = posterior.intervals(queries, level, is_simultaneous=is_simultaneous)
    parts = zip(estimates, without, by_error, strict=True)
    return Answers(posterior, tuple(Answer(area, *part) for part in parts))


def answers_frame(answers: Sequence[Answer], backend: str = "pandas") -> Any:
    """Return answers as a pandas, polars or pyarrow table, a row a number."""
    rows = [found.as_json() for found in answers]
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in ("area", "query", "released")}
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
    different as they are, where all tables could be gone through.
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
    from congenial.pictures.drawing import as_png, as_svg
    from congenial.pictures.intervals import Shown, interval_picture

    check_picture(path)
    shown = [
        Shown(
            ("" if found.area is None else f"{found.area}: ") + found.estimate.query,
            found.estimate.kind,
            found.estimate.low,
            found.estimate.centre,
            found.estimate.high,
            found.estimate.released,
            found.estimate.labels,
        )
        for found in answers
    ]
    figure = interval_picture(shown, level=answers[0].estimate.level if answers else 0.9)
    try:
        if path.suffix == ".svg":
            path.write_text(as_svg(figure), encoding="utf-8")
        else:
            path.write_bytes(as_png(figure))
    except OSError as refused:
        raise InferenceError(f"{path} cannot be written: {reason_of(refused)}") from None
