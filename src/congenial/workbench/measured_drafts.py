"""What a draft of a measured release does: how far its table and its measurements are off, and how both are made.

Public: errors are drawn around a made-up table that has the exact numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from time import perf_counter
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.expected_errors import NO_ERROR
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.rows_and_intervals import Row, row_values
from congenial.decided_tables import cell_columns, rule_of
from congenial.errors import CongenialError
from congenial.measurement import MeasurementDrawing
from congenial.plan import Plan
from congenial.progress_and_interrupts import checkpoint
from congenial.randomness import replay_rng
from congenial.sampling.error_moments import ErrorMoments

_FIRST, _MOST_DRAWS = 100, 1_600  # errors to about two percent where draws are quick
_MOST_NUMBERS = 400_000  # cells that are drawn at most, but for the first draws
_SURE = 4.0  # standard errors of a bias, of which draws could not tell a smaller one from none
_SECONDS = 0.2  # after which no more draws are begun: somebody waits
_MOST_NAMES = 8  # of exact sums that are listed

NO_TABLE = "As it stands, measurements would be published and no table"
"""What a page says, before the reason, where the rule cannot decide."""

PUBLISHED = (
    "Readers get the measurements, with an exact interval for every sum of them that needs no prior, and the table that"
    " the rule decides from them in public. Limits, such as no negative counts, cost nothing."
)
"""What readers of a measured release get, for its curator."""


@dataclass(frozen=True)
class MeasuredErrors:
    """Errors to expect of sums of cells.

    Attributes
    ----------
    table : ErrorMoments or None
        Of the published table; None where the rule decides none.
    measurements : ErrorMoments or None
        Of the measurements, which are never biased; None where cells are measured in sums only.
    why_no_table : str
        What the rule says, where it decides none.
    """

    table: ErrorMoments | None
    measurements: ErrorMoments | None
    why_no_table: str = ""


def measured_errors(plan: Plan, area: Area, centre: Ints, rows: Sequence[Row]) -> MeasuredErrors:
    """Return the errors of sums of cells around a public table of one area, from repeatable draws.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"age": ["0-17", "18-64", "65+"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total()], epsilon="1", method="measured")
    >>> plan = mechanism.plan(mechanism.disclose(cg.Table(schema, [9, 30, 2])))
    >>> rows = [Row.of("total", [0, 1, 2]), Row.of("65+", [2])]
    >>> errors = measured_errors(plan, None, np.array([9, 30, 2]), rows)
    >>> bool(errors.table.size[0] == 0), bool(0 < errors.table.size[1] < errors.measurements.size[1])
    (True, True)
    """
    measurements = _measurement_errors(plan, area, rows)
    try:
        return MeasuredErrors(_table_errors(plan, area, centre, rows), measurements)
    except (CongenialError, ArithmeticError) as refused:  # as a release, which publishes measurements then
        return MeasuredErrors(None, measurements, str(refused))


def table_error_of_a_cell(plan: Plan, area: Area, centre: Ints) -> float | None:
    """Return the root mean squared error of a cell of the published table; None where there is no table."""
    cells = [Row.of("", [cell]) for cell in range(plan.law.schema.n_cells)]
    try:
        errors = _table_errors(plan, area, centre, cells)
    except (CongenialError, ArithmeticError):
        return None
    return float(np.sqrt((errors.size**2).mean()))


def _table_errors(plan: Plan, area: Area, centre: Ints, rows: Sequence[Row]) -> ErrorMoments:
    sampler, rng, start = plan.sampler_of(area).at(centre), replay_rng("errors of a measured draft"), perf_counter()
    most = max(_FIRST, min(_MOST_DRAWS, _MOST_NUMBERS // len(centre)))
    n_draws, once, twice = 0, np.zeros(len(rows)), np.zeros(len(rows))
    while n_draws < most and (n_draws == 0 or perf_counter() - start < _SECONDS):
        checkpoint()
        some = min(max(_FIRST, n_draws), most - n_draws)
        gaps = row_values(rows, sampler.sample(some, rng) - centre).astype(np.float64)
        once, twice, n_draws = once + gaps.sum(axis=0), twice + (gaps**2).sum(axis=0), n_draws + some
    sizes, still = np.sqrt(twice / n_draws), np.flatnonzero(twice == 0)
    implied = plan.law.areas[area].known.implied_each([rows[place] for place in still.tolist()])
    # What is rarely off is not exact for that.
    sizes[still] = [0.0 if value is not None else 2 * NO_ERROR for value in implied]
    bias = once / n_draws
    return ErrorMoments(np.where(np.abs(bias) > _SURE * sizes / sqrt(n_draws), bias, 0.0), sizes)


def _measurement_errors(plan: Plan, area: Area, rows: Sequence[Row]) -> ErrorMoments | None:
    columns, drawing = cell_columns(plan.law), plan.drawing
    if columns is None or not isinstance(drawing, MeasurementDrawing):
        return None
    kind = drawing.kinds[int(plan.sampler_numbers[plan.law.areas.places[area]])]
    n_draws = max(_FIRST, min(_MOST_DRAWS, _MOST_NUMBERS // len(columns)))
    if kind.choice.sampler.seconds * n_draws > _SECONDS:
        n_draws = _FIRST
    noise = kind.noise(replay_rng("noise of a measured draft"), n_draws)[:, columns]
    values = row_values(rows, noise).astype(np.float64)
    # Noise and its reverse are equally likely, so that nothing is biased.
    return ErrorMoments(np.zeros(len(rows)), np.sqrt((values**2).mean(axis=0)))


def how_it_is_made(plan: Plan) -> dict[str, Any]:
    """Return what a page says of the noise and of the rule: values of the template ``measured_sampler.html``."""
    rule, dropped = rule_of(plan.law), list(plan.dropped_sums)
    listed = ", ".join(dropped[:_MOST_NAMES])
    return {
        "sampler": plan.sampler.describe(),
        "is_exact": plan.is_exact,
        "dropped": f"{listed} and {len(dropped) - _MOST_NAMES:,} more" if len(dropped) > _MOST_NAMES else listed,
        "rule": rule,
    }
