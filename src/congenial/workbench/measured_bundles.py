"""A measured bundle on its page: what was published, measurements beside the table, and answers from measurements."""

import csv
import io
from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.file_registry import MEASUREMENTS, MEASUREMENTS_CSV, PARQUET, TABLE
from congenial.bundle.method_text import NEGATIVE, table_text
from congenial.bundle.recompute import Bundle
from congenial.decided_tables import cell_columns
from congenial.inference.ask_and_answers import Answer
from congenial.pages.svg_charts import intervals
from congenial.rules.registry import rule_named
from congenial.safe_text import is_formula

MEASUREMENTS_SHOWN, TABLE_SHOWN = "measurements", "table"
"""What a list of areas can show."""

_MOST_ROWS = 1_000  # of one table, that are listed
_MOST_PICTURED = 40


def published(bundle: Bundle) -> dict[str, Any] | None:
    """Return what a page says of a measured bundle: values of the template ``published.html``; None of another one."""
    manifest = bundle.manifest
    if bundle.measurements is None or manifest.decision is None:
        return None
    rule = rule_named(*manifest.decision.rule)
    shown = one_table(bundle) if bundle.law.areas.name is None else []
    return {
        "measurement_files": [name for name in (MEASUREMENTS_CSV, MEASUREMENTS) if name in manifest.files],
        "table_files": [name for name in (TABLE, PARQUET) if name in manifest.files],
        "has_table": bool(bundle.levels),
        "no_table": "" if bundle.levels else table_text(manifest),
        "rule": rule,
        "is_after_publication": manifest.decision.is_after_publication,
        "dropped": manifest.plan.dropped_sums,
        "negative": NEGATIVE,
        "rows": shown[:_MOST_ROWS],
        "n_rows": len(shown),
    }


def one_table(bundle: Bundle) -> list[tuple[str, str, str]]:
    """Return every cell and further measured sum of one table: in words, as it was measured, and in the table.

    What was not measured, or is in no table, is an empty text.
    """
    law, measurements = bundle.law, bundle.measurements
    if measurements is None:
        return []
    of_row = {(query.row.cells, query.row.coefficients): number for number, query in enumerate(law.measured)}
    table = bundle.counts[0] if bundle.levels else None
    rows = []
    for cell in range(law.schema.n_cells):
        number = of_row.pop(((cell,), (1,)), None)
        measured = "" if number is None else f"{int(measurements[0, number]):,}"
        rows.append((law.schema.cell_name(cell), measured, "" if table is None else f"{int(table[cell]):,}"))
    for number in of_row.values():
        row = law.measured[number].row
        decided = "" if table is None else f"{row.value(table):,}"
        rows.append((row.name, f"{int(measurements[0, number]):,}", decided))
    return rows


def choices(bundle: Bundle) -> list[str]:
    """Return what a list of areas can show of a measured bundle, what is shown first at the front."""
    if bundle.measurements is None:
        return []
    return [TABLE_SHOWN, MEASUREMENTS_SHOWN] if bundle.levels else [MEASUREMENTS_SHOWN]


def measured_units(bundle: Bundle) -> tuple[list[str], Ints, Ints | None]:
    """Return the measurements of areas: names of the numbers, the numbers (area, number), and totals (area,).

    There are totals where every cell was measured by itself; they add up measurements.
    """
    law, measurements, columns = bundle.law, bundle.measurements, cell_columns(bundle.law)
    assert measurements is not None  # noqa: S101
    if columns is None:
        return [query.row.name for query in law.measured], measurements, None
    others = [number for number in range(len(law.measured)) if number not in set(columns.tolist())]
    names = [law.schema.cell_name(cell) for cell in range(law.schema.n_cells)]
    names += [law.measured[number].row.name for number in others]
    values = measurements[:, [*columns.tolist(), *others]]
    return names, values, measurements[:, columns].sum(axis=1)


# Answers from measurements: exact intervals at once, and a posterior beside them where it was asked for.


def answer_values(numbers: Sequence[Answer], titles: Sequence[str]) -> dict[str, Any]:
    """Return what a page shows of answers: values of the template ``measured_answers.html``."""
    has_posterior = any(number.is_drawn for number in numbers)
    pictured = [
        (title, *_pictured(number))
        for title, number in zip(titles[:_MOST_PICTURED], numbers, strict=False)
        if number.confidence.is_available and not number.estimate.is_exact and not number.estimate.labels
    ]
    lines = [
        (title, *_line(number, has_posterior=has_posterior)) for title, number in zip(titles, numbers, strict=True)
    ]
    why = [number.confidence.why for number in numbers if not number.confidence.is_available]
    return {
        "lines": lines,
        "has_posterior": has_posterior,
        "has_table": any(isfinite(number.estimate.released) for number in numbers),
        "is_exact": all(number.estimate.is_exact for number in numbers),
        "has_intervals": any(n.confidence.is_available and not n.estimate.is_exact for n in numbers),
        "picture": intervals(pictured) if pictured else None,
        "why": list(dict.fromkeys(why)),
        "negative": NEGATIVE if any((number.confidence.measured or 0) < 0 for number in numbers) else "",
    }


def _pictured(number: Answer) -> tuple[float, float, float, float]:
    shown = number.by_error
    released = number.estimate.released if isfinite(number.estimate.released) else shown.estimate
    return shown.low, shown.estimate, shown.high, released


def _line(number: Answer, *, has_posterior: bool) -> tuple[str, ...]:
    """Return the table's number, the measured one, the interval and its coverage; estimate and interval of a prior."""
    row = number.as_measured_row(has_posterior=has_posterior)[1:]
    if not has_posterior:
        return row
    table, measured, interval, coverage, estimate, _, low, high = row[:8]
    return table, measured, interval, coverage, estimate, "exact" if number.estimate.is_exact else f"{low} to {high}"


def measured_csv(numbers: Sequence[Answer]) -> str:
    """Return answers as a table; what a spreadsheet would compute begins with an apostrophe."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    posterior = ("estimate", "low", "high", "effective_draws") if any(number.is_drawn for number in numbers) else ()
    names = [f"{name}_under_a_prior" if name in {"low", "high"} else name for name in posterior]
    rows.writerow(["area", "query", "table", "measured", "low", "high", "coverage", "level", "is_exact", *names])
    for number in numbers:
        values = number.as_json()
        plain = [f"'{text}" if is_formula(text) else text for text in (values["area"] or "", values["query"])]
        ends = values["by_error_law"]["low"], values["by_error_law"]["high"]
        facts = values["coverage"], values["level"], values["is_exact"]
        under = [values[name] for name in posterior]
        rows.writerow([*plain, values["released"], values["measured"], *ends, *facts, *under])
    return out.getvalue()


def start_of_draws(bundle: Bundle) -> Ints:
    """Return tables (area, cell) that draws of all areas start from: the published ones, or such near measurements."""
    if bundle.levels:
        return bundle.counts
    from congenial.inference.measured_target import cell_measurements, start_tables

    return np.asarray(start_tables(bundle.law, cell_measurements(bundle.law, bundle.measurements)))
