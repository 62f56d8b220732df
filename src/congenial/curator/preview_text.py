"""A preview for people: headings with their lines, a table of errors, plain values for JSON."""

from typing import Any

import numpy as np

from congenial.bundle import adding_up_text
from congenial.bundle.expected_error import NO_ERROR, ExpectedError
from congenial.bundle.privacy_json import certificate_json
from congenial.bundle.table_csv import formula_warnings
from congenial.conditions.condition import Condition
from congenial.curator.given_away import given_away_json
from congenial.curator.preview import Preview
from congenial.plan import Plan
from congenial.privacy.certificate import shown


def paragraphs(preview: Preview) -> list[tuple[str, list[str]]]:
    """Return headings with their lines."""
    spec, plan = preview.spec, preview.plan
    law, certificate = plan.law, plan.certificate
    tables = "one table" if law.areas.name is None else f"{len(law.areas):,} tables, one for each {law.areas.name},"
    asked = "no budget, every precision is given" if plan.budget is None else f"budget {plan.budget.text}"
    exact = [_with_mandate(statement.condition) for statement in spec.invariants]
    shown_cells = f"{law.schema.n_cells:,} cells by {', '.join(law.schema.names)}"
    return [
        ("What will be published", [f"{tables} of {shown_cells}: {', '.join(spec.outputs)}", *_warnings(preview)]),
        ("Exactly", exact or ["nothing"]),
        (
            "What it costs",
            [f"{plan.spent.text} for {certificate.per_record}; {asked}", *_charged(plan), certificate.statement],
        ),
        (
            "What stays protected",
            [*preview.spec.membership, str(plan.meaning), *plan.not_protected_text, *preview.given_away],
        ),
        *adding_up_section(preview),
        ("Noise", plan.noise_text),
        ("Sampler", _sampler(preview)),
    ]


def adding_up_section(preview: Preview) -> list[tuple[str, list[str]]]:
    """Warn where tables will add up to too many or too few; nothing where they do not."""
    lines = adding_up_text.warning_lines(preview.sums)
    return [("WARNING: sums", [*lines, f"({adding_up_text.around(preview.sums)})"])] if lines else []


def sums_tables(preview: Preview) -> list[tuple[str, adding_up_text.Grid]]:
    """Return what sums and cells are off by, each table with its title."""
    around = adding_up_text.around(preview.sums)
    return [
        (f"Sums: root mean squared error and bias, {around}", adding_up_text.sums_table(preview.sums)),
        ("Single cells by the size of their count", adding_up_text.classes_table(preview.sums)),
    ]


def _warnings(preview: Preview) -> list[str]:
    law = preview.plan.law
    return formula_warnings(law.schema, (law.areas.name, *law.areas))


def _charged(plan: Plan) -> list[str]:
    """Say what a ledger is charged, where the budget is asked for in other terms: amounts add up in pure ones only."""
    budget, certificate = plan.budget, plan.certificate
    if budget is None or (budget.delta is None and budget.orders != "all"):
        return []
    amounts = [(name, certificate.charged_in(name)) for name in ("epsilon", "rho")]
    listed = [f"{shown(amount)} of one in {name}" for name, amount in amounts if amount is not None]
    return [f"a ledger is charged {', or '.join(listed)}"]


def _with_mandate(condition: Condition) -> str:
    return condition.title + (f" ({condition.mandate})" if condition.mandate else "")


def _sampler(preview: Preview) -> list[str]:
    if preview.rehearsed:
        return [preview.plan.sampler.describe(), *preview.rehearsed]
    return [preview.plan.sampler.describe(), f"a draw of everything takes roughly {_time(preview)}"]


def _time(preview: Preview) -> str:
    seconds = preview.seconds
    return f"{1e3 * seconds:.1g} milliseconds" if seconds < 1 else f"{seconds:.1g} seconds"


def error_title(preview: Preview) -> str:
    """Say what the errors are computed around."""
    return f"Root mean squared error to expect around a public table: {preview.errors[0].reference}"


def error_table(preview: Preview) -> tuple[list[str], list[list[str]]]:
    """Return a header and a line for each released number: its error, a column an area."""
    name = preview.plan.law.areas.name
    areas = [f"{name} {error.area}" for error in preview.errors if error.area is not None]
    columns = [_error_lines(preview, error) for error in preview.errors]
    rows = [[lines[0][0], *(value for _, value in lines)] for lines in zip(*columns, strict=True)]
    return ["released number", *(areas or ["root mean squared error"])], rows


def _error_lines(preview: Preview, error: ExpectedError) -> list[tuple[str, str]]:
    """Return each number with its error; cells are summed up when there are many."""
    lines = list(error.margins)
    if len(error.cells) > 60:
        found = np.percentile(error.cells, (0, 50, 100)).tolist()
        lines += zip(("a cell: least", "a cell: median", "a cell: largest"), found, strict=True)
    else:
        schema = preview.plan.law.schema
        lines += [(schema.cell_name(cell), value) for cell, value in enumerate(error.cells.tolist())]
    return [(name, "exact" if value < NO_ERROR else f"{value:.2f}") for name, value in lines]


def as_json(preview: Preview) -> dict[str, Any]:
    """Return everything as plain values."""
    plan = preview.plan
    return {
        "release": preview.spec.release,
        "dataset": preview.spec.dataset,
        "tables": len(plan.law.areas),
        "cells": plan.law.schema.n_cells,
        "cost": {"currency": plan.spent.currency, "amount": str(plan.spent.amount)},
        "certificate": certificate_json(plan.certificate),
        "precisions": {query.text: str(query.precision) for query in plan.law.queries},
        "meaning": str(plan.meaning),
        "given_away": given_away_json(preview.reviews, preview.unit),
        "warnings": _warnings(preview),
        "sampler": {
            "name": plan.sampler.name,
            "is_exact": plan.is_exact,
            "size": plan.sampler.describe(),
            "rehearsed": list(preview.rehearsed),
        },
        "seconds": preview.seconds,
        "plan_digest": preview.digest,
        "adding_up": adding_up_text.as_json(preview.sums),
        "expected_error": [
            {
                "area": error.area,
                "around": error.reference,
                "cells": error.cells.tolist(),
                "margins": [list(pair) for pair in error.margins],
            }
            for error in preview.errors
        ],
    }
