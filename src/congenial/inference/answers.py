"""Answers to an analyst's questions, area by area: the estimate, and the interval that needs no prior."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from congenial.bundle.loading import Bundle
from congenial.errors import InferenceError, reason_of
from congenial.inference.frames import frame
from congenial.inference.frequentist import Confidence
from congenial.inference.intervals import Estimate
from congenial.public_law import Area
from congenial.randomness import RandomStream


@dataclass(frozen=True)
class Answer:
    """One number of one area."""

    area: Area
    estimate: Estimate
    confidence: Confidence

    def cells(self) -> tuple[str, ...]:
        """Return it as the cells of a table."""
        one, other = self.estimate, self.confidence
        if one.is_exact:
            return one.query, _text(one.released), _text(one.mean), "exact", "exact", "exact"
        without = f"{_text(other.low)} to {_text(other.high)}" if other.is_available else "not available"
        centre = one.mean if isfinite(one.mean) else one.median
        return one.query, _text(one.released), _text(centre), _text(one.low), _text(one.high), without

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values; what is infinite or missing is null."""
        one, other = self.estimate, self.confidence
        numbers = {"released": one.released, "mean": one.mean, "median": one.median, "low": one.low, "high": one.high}
        return {
            "area": self.area,
            "query": one.query,
            **{name: value if isfinite(value) else None for name, value in numbers.items()},
            "level": one.level,
            "is_exact": one.is_exact,
            "is_simultaneous": one.is_simultaneous,
            "without_a_prior": {
                "low": other.low if isfinite(other.low) else None,
                "high": other.high if isfinite(other.high) else None,
                "how": other.how,
                "why": other.why,
            },
        }


def answers_frame(answers: Sequence[Answer], backend: str = "pandas") -> Any:
    """Return answers as a pandas, polars or pyarrow table, a row a number."""
    rows = [one.as_json() for one in answers]
    names = ("area", "query", "released", "mean", "median", "low", "high", "level", "is_exact")
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
    columns["low_without_a_prior"] = [row["without_a_prior"]["low"] for row in rows]
    columns["high_without_a_prior"] = [row["without_a_prior"]["high"] for row in rows]
    return frame(columns, backend)


def _text(value: float) -> str:
    return f"{value:,.0f}" if isfinite(value) and value == round(value) else f"{value:,.4g}"


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
) -> list[Answer]:
    """Return the answers to some queries about one area."""
    without = [one for query in queries for one in bundle.confidence(query, area, level=level)]
    found = bundle.posterior(area, prior=prior, n_draws=n_draws, rng=rng)
    estimates = found.intervals(queries, level, is_simultaneous=is_simultaneous)
    return [Answer(area, one, other) for one, other in zip(estimates, without, strict=True)]


def write_draws(
    path: Path, bundle: Bundle, areas: Sequence[Area], *, prior: str, n_draws: int, rng: RandomStream
) -> None:
    """Write posterior draws as CSV: a line a draw, a column a cell named by its labels."""
    schema = bundle.law.schema
    header = [
        *([] if bundle.law.area_name is None else [bundle.law.area_name]),
        "draw",
        *map(schema.cell_name, range(schema.n_cells)),
    ]
    try:
        with path.open("x", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
            rows.writerow(header)
            for area in areas:
                found = bundle.posterior(area, prior=prior, n_draws=n_draws, rng=rng)
                if found.weights is not None:  # all tables with their probabilities: draw from them
                    picks = found.weights.cumsum().searchsorted(rng.uniforms(n_draws) * found.weights.sum())
                    tables = found.tables[picks.clip(0, len(found.tables) - 1)]
                else:
                    tables = found.tables
                head = [] if area is None else [area]
                rows.writerows([*head, number, *line] for number, line in enumerate(tables.tolist(), 1))
    except OSError as refused:
        raise InferenceError(f"{path} cannot be written: {reason_of(refused)}") from None


def plot_answers(path: Path, answers: Sequence[Answer]) -> None:
    """Write a picture of the intervals."""
    from congenial.pictures.drawing import as_png, as_svg
    from congenial.pictures.intervals import interval_picture

    if path.suffix not in {".svg", ".png"}:
        raise InferenceError(
            f"a picture is written as .svg or .png, and {path.name} ends in {path.suffix or 'nothing'}"
        )
    names = [one.estimate.query if one.area is None else f"{one.area}: {one.estimate.query}" for one in answers]
    figure = interval_picture(
        names,
        [(one.estimate.low, one.estimate.median, one.estimate.high) for one in answers],
        [one.estimate.released for one in answers],
        level=answers[0].estimate.level if answers else 0.9,
    )
    try:
        if path.suffix == ".svg":
            path.write_text(as_svg(figure), encoding="utf-8")
        else:
            path.write_bytes(as_png(figure))
    except OSError as refused:
        raise InferenceError(f"{path} cannot be written: {reason_of(refused)}") from None
