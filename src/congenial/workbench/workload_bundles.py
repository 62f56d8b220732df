"""A bundle of several tables of the same records on its page: tables, what they share, and answers of all together."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from congenial.bundle.file_registry import RECORDS
from congenial.bundle.manifest import with_commas
from congenial.bundle.method_text import NEGATIVE
from congenial.bundle.report_and_readme import with_mandate
from congenial.bundle.workload_files import file_of, records_note
from congenial.bundle.workload_report import disclosed_lines, shared_dimensions
from congenial.curator.workload_errors import WorkloadErrors
from congenial.inference.workload_answers import AnalystWorkloadBundle, TableAnswer
from congenial.pages.svg_charts import intervals
from congenial.rules.registry import rule_named
from congenial.safe_text import is_formula
from congenial.workbench.workload_panel import changes_of

MODEL = (
    "A model: no measured table says it, so it has no estimate and no interval. It is a count of made-up records, and"
    " how far it is from the truth is not known."
)
"""What is said of a number that lies in no measured table."""

_MOST_ROWS, _MOST_PICTURED, _MOST_PAIRS, _MOST_EXACT = 1_000, 40, 12, 60


@dataclass(frozen=True)
class PublishedTable:
    """A published table as a page lists it."""

    name: str
    over: str
    n_cells: str
    file: str


@dataclass(frozen=True)
class SharedMargin:
    """The numbers by a dimension that several tables share, each once.

    Attributes
    ----------
    rows : list of (str, str, str, str)
        A label, its count, its estimate, and its interval.
    """

    dimension: str
    tables: Sequence[str]
    rows: list[tuple[str, str, str, str]]


def tables_of(bundle: AnalystWorkloadBundle) -> list[PublishedTable]:
    """Return the published tables."""
    return [
        PublishedTable(
            table.name,
            " x ".join(table.dimensions),
            f"{bundle.schema_of(table.name).n_cells:,}",
            file_of("table", number, table, "csv"),
        )
        for number, table in enumerate(bundle.plan.published, 1)
    ]


def shared_margins(bundle: AnalystWorkloadBundle) -> list[SharedMargin]:
    """Return the numbers by single dimensions that several tables share, with estimates and intervals."""
    out: list[SharedMargin] = []
    if not bundle.levels:
        return out
    for dimension in shared_dimensions(bundle.plan.published, bundle.law.schema):
        answers = bundle.estimate(f"all by {dimension.name}")
        rows = [answer.as_row() for answer in answers]
        lines = [(label, row[1], row[2], row[4]) for label, row in zip(dimension.labels, rows, strict=True)]
        users = [table.name for table in bundle.plan.published if dimension.name in table.dimensions]
        out.append(SharedMargin(dimension.name, users, lines))
    return out


def table_shown(bundle: AnalystWorkloadBundle, name: str) -> dict[str, Any]:
    """Return a published table cell by cell: its labels, then count, measurement and estimate with intervals."""
    dimensions = bundle.schema_of(name).names
    columns = bundle.frame(name)
    labels = list(zip(*(columns[dimension] for dimension in dimensions), strict=True))[:_MOST_ROWS]
    keys = ("count", "measured", "low_90", "high_90", "estimate", "estimate_low_90", "estimate_high_90")
    rows = []
    for of, numbers in zip(labels, zip(*(columns[key] for key in keys), strict=True), strict=False):
        count, measured, low, high, estimate, below, above = (
            f"{number:,.2f}" if isinstance(number, float) else f"{number:,}" for number in numbers
        )
        rows.append((", ".join(map(str, of)), count, measured, f"{low} to {high}", estimate, f"{below} to {above}"))
    return {"name": name, "over": " x ".join(dimensions), "rows": rows, "n_rows": len(columns["count"])}


def table_values(bundle: AnalystWorkloadBundle, shown: str) -> dict[str, Any]:
    """Return what a page says of a bundle of tables: values of the template ``published_tables.html``."""
    manifest, plan, law = bundle.manifest, bundle.plan, bundle.law
    chosen = shown if shown in bundle.names else bundle.names[0]
    errors = WorkloadErrors(law)
    unknown = [" x ".join(pair) for pair in errors.unknown_pairs if not bundle.estimator.knows(pair)]
    triples = [" x ".join(names) for names in islice(errors.unknown_triples, _MOST_PAIRS)] if not unknown else []
    exact = [(one.text, with_commas(one.value()), one.mandate or "") for one in manifest.exact_statistics]
    return {
        "all": tables_of(bundle),
        "rule": rule_named(*law.rule),
        "has_tables": bool(bundle.levels),
        "why_no_tables": manifest.decision.why_no_tables if manifest.decision is not None else "",
        "records_file": RECORDS,
        "records_note": records_note(law),
        "negative": NEGATIVE,
        "dropped": plan.dropped_lines,
        "changes": changes_of(plan),
        "not_protected": plan.not_protected_text,
        "disclosed": disclosed_lines(manifest),
        "exact": exact[:_MOST_EXACT],
        "n_exact": len(exact),
        "zeros": [with_mandate(zero) for zero in law.zeros],
        "unmeasured": [*unknown, *triples][:_MOST_PAIRS],
        "n_unmeasured": len(unknown) or len(triples),
        "shared": shared_margins(bundle),
        "shown": table_shown(bundle, chosen) if bundle.levels else None,
    }


# Answers of all tables together.


def answers_of(bundle: AnalystWorkloadBundle, query: str, level: str) -> list[TableAnswer]:
    """Answer a query by least squares over all tables; what no measured table says is a count of made-up records."""
    return bundle.estimate(query, level=float(level), from_records=bundle.records is not None)


def answer_values(answers: Sequence[TableAnswer]) -> dict[str, Any]:
    """Return what a page shows of answers: values of the template ``table_answers.html``."""
    pictured = [
        (answer.query, answer.low, answer.value, answer.high, answer.value if answer.count is None else answer.count)
        for answer in answers
        if not answer.is_exact and answer.low is not None and answer.high is not None and answer.value is not None
    ]
    return {
        "lines": [answer.as_row() for answer in answers],
        "has_models": any(answer.is_model for answer in answers),
        "has_intervals": bool(pictured),
        "has_counts": any(answer.count is not None for answer in answers),
        "is_negative": any((answer.value or 0) < 0 for answer in answers),
        "model": MODEL,
        "picture": intervals(pictured[:_MOST_PICTURED]) if pictured else None,
    }


def answers_csv(answers: Sequence[TableAnswer]) -> str:
    """Return answers as a table; what a spreadsheet would compute begins with an apostrophe."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    names = ("count", "value", "standard_error", "low", "high", "coverage", "level", "is_exact", "is_model", "how")
    rows.writerow(["query", *("estimate" if name == "value" else name for name in names)])
    for answer in answers:
        query = f"'{answer.query}" if is_formula(answer.query) else answer.query
        rows.writerow([query, *(getattr(answer, name) for name in names)])
    return out.getvalue()
