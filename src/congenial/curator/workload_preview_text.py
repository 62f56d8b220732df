"""What `congenial plan` shows of several tables of the same records: one screen, the expert's rest, plain values."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from congenial.bundle.canonical_json import certificate_json
from congenial.bundle.report_and_readme import with_mandate
from congenial.bundle.table_files import formula_warnings
from congenial.curator.sections import NOT_PROTECTED, PROTECTED, Section, shortened, some
from congenial.curator.workload_errors import TYPICAL, CellError, TableError
from congenial.curator.workload_preview import WorkloadPreview, WorkloadPrice
from congenial.privacy.certificate import USUAL_DELTA, weak_promise
from congenial.privacy.meaning_and_counterexample import strength_text

_MOST_TABLES = 5  # that have a column each
_MOST_PAIRS = 6
_MOST_MARGINS = 8


def workload_screen(preview: WorkloadPreview, *, full: bool = False) -> list[Section]:
    """Return the sections of the first screen; with `full`, those for the expert as well."""
    makers = (*SCREEN, *(EXPERT if full else ()))
    return [section for make in makers if (section := make(preview)) is not None]


def privacy(preview: WorkloadPreview) -> Section:
    """Say what one record costs, two that exchange, and any so many; the kind that is charged is marked."""
    plan = preview.plan
    requested = "every precision is given" if plan.budget is None else f"the spec's budget is {plan.budget.amount}"
    lines = [
        *plan.price_lines,
        f"Charged once to dataset {preview.spec.dataset!r}, for all tables together: {plan.spent.text}; {requested}.",
    ]
    if weak := weak_promise(plan.certificate.epsilon(USUAL_DELTA)):
        lines.append(f"WARNING. {weak}")
    return Section("What a change of records can cost at most", lines)


def not_protected(preview: WorkloadPreview) -> Section | None:
    """Say in bold what the certificate does not promise, then what exact numbers give away."""
    of_records = preview.plan.not_protected_text
    lines = [*of_records, *some([shortened(line) for line in preview.disclosure_sentences])]
    return Section(NOT_PROTECTED, lines, n_bold=len(of_records)) if lines else None


def published(preview: WorkloadPreview) -> Section:
    """Say what will be published, what of it exactly, and what exact numbers determine anyway."""
    law, spec = preview.plan.law, preview.spec
    tables = "; ".join(f"{table.name} ({' x '.join(table.dimensions)})" for table in law.published)
    exactly = "; ".join(with_mandate(statement.condition) for statement in spec.invariants)
    impossible = "; ".join(with_mandate(statement.condition) for statement in spec.conditions)
    lines = [
        f"{law.tables_text[0].upper()}{law.tables_text[1:]}, which agree: {tables}. Their measurements, estimates with"
        " intervals, and the made-up records whose counts they are.",
        f"Exactly: {exactly}." if exactly else "Nothing of it exactly.",
        *([f"And {impossible}."] if impossible else []),
    ]
    dropped = [table.name for table in law.tables if not table.precision]
    if dropped:
        lines.append(f"Not measured, because exact numbers determine it: {', '.join(dropped)}. It costs nothing.")
    if preview.plan.dropped_lines:
        lines += preview.plan.dropped_lines
        lines.append(
            "What noise does not keep, measurements lack and have noise for; tables and estimates have it all the same,"
            " and are as near as otherwise."
        )
    return Section("What will be published", [*lines, *formula_warnings(law.schema, ())])


def errors(preview: WorkloadPreview) -> Section:
    """Say how far cells of every table are off, and of what lies inside them."""
    lines = [
        "Standard deviations, whatever the records are: of the noise of a cell, of a cell from the measurements of its"
        " table alone, and estimated from all tables together; then the mean absolute error of the estimate. Published"
        " counts are nearer where counts are small."
    ]
    measured = [table for table in preview.errors.tables if not table.is_exact]
    rows = [["table", "cells", "share", "noise", "alone", "estimate", "typical error"]]
    rows += [_row_of(table) for table in measured]
    inside = preview.errors.margins
    rows += [[f"inside: {one.name}", f"{one.n_cells:,}", "", "", "", *_figures(one)] for one in inside[:_MOST_MARGINS]]
    if len(inside) > _MOST_MARGINS:
        rows.append([f"and {len(inside) - _MOST_MARGINS:,} more: --full", *[""] * 6])
    return Section("How far numbers are off", lines, rows)


def _row_of(table: TableError) -> list[str]:
    name = table.name if table.is_published else f"{table.name} (measured only)"
    return [
        *(name, f"{table.n_cells:,}", f"{table.share:.0%}", f"{table.noise:.2f}", f"{table.alone:.2f}"),
        *_figures(table),
    ]


def _figures(error: CellError) -> list[str]:
    return ["exact", "exact"] if error.is_exact else [f"{error.estimate:.2f}", f"{error.typical:.2f}"]


def unmeasured(preview: WorkloadPreview) -> Section | None:
    """Warn of combinations in no measured table: what records say of them is a model."""
    names = [" x ".join(pair) for pair in preview.errors.unknown_pairs]
    triples = [" x ".join(names) for names in islice(preview.errors.unknown_triples, _MOST_PAIRS)]
    if not names and not triples:
        return None
    listed = "; ".join(names[:_MOST_PAIRS]) + (f"; and {len(names) - _MOST_PAIRS:,} more" * (len(names) > _MOST_PAIRS))
    lines = [
        "What lies in no measured table is not known from this release: in the made-up records it is a model, however"
        " far from the truth, and has no interval. Add a table under `tables:` or `also_measure:` to know it."
    ]
    if names:
        lines.append(f"Pairs of dimensions in no measured table: {listed}.")
    elif triples:
        lines.append(f"Every pair of dimensions is measured; three together are not: {'; '.join(triples)}.")
    return Section("WARNING: what was not measured is a model", lines)


def exactness(preview: WorkloadPreview) -> Section | None:
    """Say what each exact number buys: the same budget without it."""
    if not preview.prices:
        return None
    held = "budget" if preview.plan.budget else "noise"
    lines = [
        f"The same {held}, with something left out: typical errors of a cell, and the kind of change that the {held} is"
        " held to. Where the kind differs, so does the promise."
    ]
    return Section("What exactness buys, and what it costs", lines, _price_rows(preview, preview.prices))


def designs(preview: WorkloadPreview) -> Section | None:
    """Say what other shares would give, and further tables at a tenth."""
    others = [(text, price) for text, price in preview.designs if price is not None]
    if not others:
        return None
    lines = ["Typical errors of a cell with the same budget, and what is known besides."]
    rows = _price_rows(preview, others)
    rows[0].append("besides")
    rows[1].append("")
    for row, (_, price) in zip(rows[2:], others, strict=True):
        more = [f"{one.name} {'exact' if one.is_exact else f'{one.typical:.2f}'}" for one in price.more]
        row.append("; ".join(more))
    return Section("Other designs", lines, rows)


def pure_epsilon(preview: WorkloadPreview) -> Section | None:
    """Say that splitting a pure epsilon is expensive, and what other terms would give."""
    if not preview.budgets:
        return None
    n = len(preview.plan.law.measured_tables_of_records)
    lines = [
        f"A pure epsilon is split among {n} tables, so that the variance of each grows with the square of their number;"
        " of a rho it grows with their number. Weaker promises, with the typical errors of a cell that they give:"
    ]
    return Section("WARNING: a pure epsilon is expensive to split", lines, _price_rows(preview, preview.budgets))


def _price_rows(preview: WorkloadPreview, prices: Sequence[tuple[str, WorkloadPrice | None]]) -> list[list[str]]:
    names = [table.name for table in preview.price.tables]
    columns = names if len(names) <= _MOST_TABLES else ["nearest table", "mean of tables", "farthest table"]
    by_budget = preview.plan.budget is not None
    rows = [["", "held to" if by_budget else "cost", *columns]]
    for text, price in ((preview.price.text, preview.price), *prices):
        if price is None:
            rows.append([text, "not certified", *[""] * len(columns)])
            continue
        rows.append([text, price.change if by_budget else price.cost, *_typical(price.tables, len(columns))])
    return rows


def _typical(tables: Sequence[CellError], n_columns: int) -> list[str]:
    sizes = [table.typical for table in tables]
    if n_columns < len(sizes):
        sizes = [min(sizes), sum(sizes) / len(sizes), max(sizes)]
        return [f"{size:.2f}" for size in sizes]
    return ["exact" if table.is_exact else f"{table.typical:.2f}" for table in tables]


def target_budget(preview: WorkloadPreview) -> Section | None:
    """Say which budget reaches the target error, and the errors of all tables with it."""
    target = preview.target_budget
    if target is None:
        return None
    rows = [["table", "cells", "share", "noise", "alone", "estimate", "typical error"]] if target.tables else []
    rows += [_row_of(table) for table in target.tables if not table.is_exact]
    return Section("Which budget reaches it", target.answer.lines, rows)


def protected(preview: WorkloadPreview) -> Section:
    """Say what stays protected."""
    return Section(PROTECTED, [*preview.spec.membership, strength_text(preview.plan.certificate)])


def every_margin(preview: WorkloadPreview) -> Section:
    """List the error of every single dimension and pair inside the measured tables."""
    rows = [["margin", "cells", "estimate", "typical error"]]
    rows += [[one.name, f"{one.n_cells:,}", *_figures(one)] for one in preview.errors.margins]
    lines = [f"A typical error is the mean absolute error: {TYPICAL} standard deviations of a normal error."]
    return Section("For the expert: what lies inside the tables", lines, rows)


def certified(preview: WorkloadPreview) -> Section:
    """Say what is proven."""
    certificate = preview.plan.certificate
    lines = [f"{certificate.kind}: {certificate.amounts}", certificate.statement, *certificate.reasons]
    return Section("For the expert: certificate", [*lines, f"proof and audit: {certificate.page}"])


def noise(preview: WorkloadPreview) -> Section:
    """Say how large the noise of each table is, and what draws it."""
    samplers = dict.fromkeys(sampler.describe() for sampler in preview.plan.samplers)
    return Section("For the expert: noise", [*preview.plan.noise_text, *samplers])


SCREEN: tuple[Callable[[WorkloadPreview], Section | None], ...] = (
    *(privacy, not_protected, published, errors, unmeasured, pure_epsilon, exactness, designs, target_budget),
    protected,
)
EXPERT: tuple[Callable[[WorkloadPreview], Section | None], ...] = (every_margin, certified, noise)


def workload_json(preview: WorkloadPreview) -> dict[str, Any]:
    """Return everything as plain values."""
    plan, target = preview.plan, preview.target_budget
    return {
        "release": preview.spec.release,
        "dataset": preview.spec.dataset,
        "tables": [{**table.as_json(), "alone": table.alone} for table in preview.errors.tables],
        "inside": [one.as_json() for one in preview.errors.margins],
        "unmeasured_pairs": [list(pair) for pair in preview.errors.unknown_pairs],
        "cost": {"currency": plan.spent.currency, "amount": str(plan.spent.amount)},
        "certificate": certificate_json(plan.certificate),
        "changes": [
            {
                "kind": price.kind,
                "text": price.text,
                "amount": None if price.amount is None else str(price.amount),
                "is_certified": price.kind == plan.certificate.change,
            }
            for price in plan.prices
        ],
        "precisions": {table.name: str(table.precision) for table in plan.law.tables},
        "meaning": strength_text(plan.certificate),
        "warning": weak_promise(plan.certificate.epsilon(USUAL_DELTA)),
        "not_protected": plan.not_protected_text,
        "given_away": {"sentences": preview.disclosure_sentences},
        "warnings": formula_warnings(plan.law.schema, ()),
        "plan_digest": preview.digest,
        "price_of_exactness": _prices_json(preview.prices),
        "other_designs": _prices_json(preview.designs),
        "other_budgets": _prices_json(preview.budgets),
        "target": target and {**target.answer.as_json(), "tables": [table.as_json() for table in target.tables]},
    }


def _prices_json(prices: Sequence[tuple[str, WorkloadPrice | None]]) -> list[dict[str, Any]]:
    return [
        {"text": text, "change": None, "cost": None, "tables": None, "besides": None}
        if price is None
        else {
            "text": text,
            "change": price.change,
            "cost": price.cost,
            "tables": [table.as_json() for table in price.tables],
            "besides": [one.as_json() for one in price.more],
        }
        for text, price in prices
    ]
