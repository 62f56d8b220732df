"""A preview for people: headings with their lines, a table of errors, plain values for JSON."""

from typing import Any

import numpy as np

from congenial.bundle.expected_error import NO_ERROR, ExpectedError
from congenial.bundle.manifest import certificate_json
from congenial.conditions.condition import Condition
from congenial.curator.preview import Preview
from congenial.privacy.certificate import shown_below


def paragraphs(preview: Preview) -> list[tuple[str, list[str]]]:
    """Return headings with their lines."""
    spec, plan = preview.spec, preview.plan
    law, certificate = plan.law, plan.certificate
    tables = "one table" if law.areas.name is None else f"{len(law.areas):,} tables, one for each {law.areas.name},"
    asked = "no budget, every precision is given" if plan.budget is None else f"budget {plan.budget.text}"
    exact = [_with_mandate(statement.condition) for statement in spec.invariants]
    shown_cells = f"{law.schema.n_cells:,} cells by {', '.join(law.schema.names)}"
    return [
        ("What will be published", [f"{tables} of {shown_cells}: {', '.join(spec.outputs)}"]),
        ("Exactly", exact or ["nothing"]),
        ("What it costs", [f"{plan.spent.text} for {certificate.per_record}; {asked}", certificate.statement]),
        ("What stays protected", [str(plan.meaning), *_not_protected(preview), *preview.given_away]),
        ("Noise", _noise(preview)),
        ("Sampler", [plan.sampler.describe(), f"a draw of everything takes about {_time(preview)}"]),
    ]


def _with_mandate(condition: Condition) -> str:
    return condition.title + (f" ({condition.mandate})" if condition.mandate else "")


def _not_protected(preview: Preview) -> list[str]:
    n_all = len(preview.plan.law.areas)
    lines = []
    for structure in preview.plan.structures:
        for attribute in structure.case.structure.attributes:
            if attribute.is_pinned or attribute.is_narrowed:
                lines.append((attribute.text, structure.n_areas))
    counted: dict[str, int] = {}
    for text, n_areas in lines:
        counted[text] = counted.get(text, 0) + n_areas
    return [text if n == n_all else f"in {n:,} of {n_all:,} areas, {text}" for text, n in counted.items()]


def _noise(preview: Preview) -> list[str]:
    law = preview.plan.law
    return [
        f"{query.text}: precision {shown_below(query.precision)}, standard deviation"
        f" {float(law.family(query.precision).variance) ** 0.5:.3g} before the invariants are imposed"
        for query in law.queries
        if query.precision
    ]


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
        "given_away": preview.given_away,
        "sampler": {
            "name": plan.sampler.name,
            "is_exact": plan.is_exact,
            "size": plan.sampler.describe(),
        },
        "seconds": preview.seconds,
        "plan_digest": preview.digest,
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
