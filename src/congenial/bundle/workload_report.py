"""report.html and README.txt of several tables of the same records: from manifest and published columns alone."""

from collections.abc import Sequence
from itertools import combinations
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from congenial.bundle.file_registry import FIT, RECORDS
from congenial.bundle.manifest import with_commas
from congenial.bundle.method_text import NEGATIVE
from congenial.bundle.report_and_readme import (
    SIMULATED,
    PageTable,
    amounts,
    budget_left,
    cost_text,
    html_tables,
    replacement_sentences,
    with_mandate,
)
from congenial.bundle.workload_files import file_of, files_of_workload, records_note
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.pages.page import render
from congenial.privacy.disclosure import sentences
from congenial.privacy.meaning_and_counterexample import strength_text
from congenial.rules.registry import rule_named
from congenial.schema import Dimension, RecordSchema
from congenial.workload.estimates import TableColumns
from congenial.workload.later import agreement_sentences
from congenial.workload.law import RecordTable
from congenial.workload.plan import WorkloadDecision

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_CELLS = 50_000  # of a table in the page
_SHORT = 100  # cells of a table that is open from the start
_MOST_EXACT = 400
_MOST_EXACT_IN_README = 20


class TableOnPage(NamedTuple):
    """One table in the page: its counts laid out, and how far off they are."""

    title: str
    over: str
    file: str
    grid: "Markup | None"
    n_cells: str
    is_short: bool
    total: str
    error: str
    half_width: str


def what_it_is(manifest: WorkloadManifest) -> list[str]:
    """Return what is published, in paragraphs; only noise that is conditioned on exact numbers is said to be."""
    plan, law = manifest.plan, manifest.law
    measured = law.measured_tables_of_records
    free = [table.name for table in measured if not plan.noise_is_conditioned(table)]
    has_exact = bool(law.exact)
    if not has_exact:
        noise = "The measurements of each table are its true counts plus noise whose law is published."
    elif not free:
        noise = (
            "The measurements of each table are its true counts plus noise whose law is the usual one conditioned on"
            " the exact numbers inside the table, as Gong and Meng propose for mandated numbers: they have these"
            " numbers."
        )
    else:
        noise = (
            "The measurements of each table are its true counts plus noise. That of"
            f" {', '.join(free)} is independent of some of the exact numbers, which its measurements do not have; the"
            " noise of other tables is conditioned on the exact numbers inside them."
        )
    noise += (
        " They are unbiased, may be negative, and the law of the noise is the same for all records with these exact"
        " numbers. Noises of different tables are independent: measurements of two tables do not agree, the published"
        " tables do."
    )
    name, version = law.rule
    rule = (
        "The tables are the counts of one set of made-up records, computed from all measurements by the published rule"
        f" {name}, version {version}: {rule_named(name, version).words} So they are whole, agree with each other, and"
        " have every exact number. They are estimates, not the truth plus noise. Intervals, tests and models should"
        " start from the measurements, or from the estimates beside the counts, which use all tables together."
    )
    unmeasured = (
        "Only what was measured is known. A combination of dimensions that lies in no measured table is a model in"
        " these records, and has no interval here."
    )
    return [noise, rule, *agreement_sentences(plan), unmeasured, NEGATIVE]


def exact_summary(manifest: WorkloadManifest) -> str:
    """Return what is exact in a sentence, as it was stated, with mandates."""
    stated = [with_mandate(exact.condition) for exact in manifest.law.exact]
    n = len(manifest.exact_statistics)
    return f"{'; '.join(stated)}: {n:,} {'number' if n == 1 else 'numbers'}, the same in every table."


def exact_lines(manifest: WorkloadManifest) -> list[str]:
    """Return what is exact, each number where there are few, and structural zeros."""
    lines, zeros = [exact_summary(manifest)] if manifest.law.exact else [], manifest.law.zeros
    for exact in manifest.exact_statistics[:_MOST_EXACT_IN_README]:
        lines.append(f"{exact.text}: {with_commas(exact.value())}")
    if (n_more := len(manifest.exact_statistics) - _MOST_EXACT_IN_README) > 0:
        lines.append(f"and {n_more:,} more, in manifest.json under `exactly`")
    return [*lines, *(with_mandate(zero) for zero in zeros)]


def disclosed_lines(manifest: WorkloadManifest) -> list[str]:
    """Return what the exact numbers give away of each published table by themselves; of several, the same once."""
    users: dict[str, list[str]] = {}
    for table, disclosure in zip(manifest.plan.tables_with_disclosures, manifest.disclosures, strict=True):
        for line in sentences(disclosure, manifest.naming.unit):
            users.setdefault(line, []).append(table.name)
    return [f"In {', '.join(names)}: {line}" for line, names in users.items()]


def readme(manifest: WorkloadManifest) -> str:
    """Return README.txt: one page for an analyst."""
    law, naming = manifest.law, manifest.naming
    files = [(file.name, file.line) for file in files_of_workload(manifest)]
    files.append(("manifest.json", "tables, exact numbers, noise, certificate: it determines the law"))
    width = max(len(name) for name, _ in files)
    first = file_of("table", 1, manifest.plan.published[0], "csv")
    lines = [
        naming.title,
        "=" * min(len(naming.title), 79),
        "",
        *([SIMULATED, ""] if not manifest.is_for_release else []),
        f"Release {naming.release} of dataset {naming.dataset}, {manifest.made_at}.",
        *replacement_sentences(manifest),
        f"{law.tables_text[0].upper()}{law.tables_text[1:]}:",
        *(f"  - {table.name}: {' x '.join(table.dimensions)}" for table in manifest.plan.published),
        "",
        "What it is",
        *(line for paragraph in what_it_is(manifest) for line in (*_wrapped(paragraph), "")),
        "The law",
        *(line for text in law_lines(manifest) for line in _wrapped(text)),
        "",
        "Exact numbers",
        *([f"  - {line}" for line in exact_lines(manifest)] or ["  none"]),
        "",
        "Privacy",
        f"  Certified loss: {cost_text(manifest)}, all tables together.",
        *(f"  - {line}" for line in manifest.plan.price_lines),
        *(line for text in manifest.plan.not_protected_text for line in _wrapped(f"NOT PROTECTED: {text}")),
        "",
        "Files",
        *(f"  {name.ljust(width)}  {line}" for name, line in files),
        "",
        "How to use it",
        f'  Read a table in R:                x <- read.csv("{first}")',
        '  Intervals of any sum:             congenial infer THIS_FOLDER --query "sex=female"',
        "  Check that nothing was changed:   congenial verify THIS_FOLDER",
        '  From Python:                      import congenial; congenial.load_bundle("THIS_FOLDER")',
        *(_wrapped(records_note(law)) if manifest.has_tables else []),
        "",
        f"Made by {', '.join(f'{name} {version}' for name, version in manifest.software.items())}.",
        "",
    ]
    return "\n".join(lines)


def law_lines(manifest: WorkloadManifest) -> list[str]:
    """Return the law of the measurements as a formula in plain text."""
    law = manifest.law
    power = "|w|" if law.family.exponent == 1 else "w^2"
    head = (
        "n = x + w for every cell of every measured table; x is the true count. In each table P(w) is proportional to"
        f" the product over cells of b^{power}, on the whole-number vectors that leave the exact numbers inside the"
        " table as they are."
    )
    lines = [
        f"{table.name}: b = {float(law.family(table.precision).base)!r}" for table in law.measured_tables_of_records
    ]
    return [head, *lines, *manifest.plan.dropped_lines]


def _wrapped(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, 96)]


def report(manifest: WorkloadManifest, columns: Sequence[TableColumns], decision: WorkloadDecision) -> str:
    """Return the page of all tables."""
    law, plan = manifest.law, manifest.plan
    tables = [
        _table_on_page(manifest, number, table, of_table)
        for number, (table, of_table) in enumerate(zip(plan.published, columns, strict=True), 1)
    ]
    exact = [
        (each.text, with_commas(each.value()), each.mandate or "") for each in manifest.exact_statistics[:_MOST_EXACT]
    ]
    return render(
        "workload.html",
        title=manifest.naming.title,
        manifest=manifest,
        law=law,
        simulated=SIMULATED,
        replaced=replacement_sentences(manifest),
        receipt_left=budget_left(manifest),
        cost=cost_text(manifest),
        strength=strength_text(manifest.certificate),
        prices=manifest.plan.price_lines,
        not_protected=plan.not_protected_text,
        disclosure=disclosed_lines(manifest),
        about=what_it_is(manifest),
        law_text=law_lines(manifest),
        exact_statistics=exact,
        exact_summary=exact_summary(manifest),
        n_more_exact=max(0, len(manifest.exact_statistics) - _MOST_EXACT),
        zeros=[with_mandate(zero) for zero in law.zeros],
        tables=tables,
        shared=_shared_margins(manifest, columns),
        noise=plan.noise_text,
        dropped=plan.dropped_lines,
        fit=decision.words,
        records_note=records_note(law),
        records_file=RECORDS,
        fit_file=FIT,
        certificate=manifest.certificate,
        amounts=amounts(manifest),
    )


def _table_on_page(manifest: WorkloadManifest, number: int, table: RecordTable, columns: TableColumns) -> TableOnPage:
    schema = manifest.law.schema.part(table.dimensions)
    grid = None
    if schema.n_cells <= _MOST_CELLS:
        (grid,) = html_tables(schema, columns.counts[None])
    width = (columns.estimate_high - columns.estimate_low) / 2
    return TableOnPage(
        title=table.name,
        over=" x ".join(table.dimensions),
        file=file_of("table", number, table, "csv"),
        grid=grid,
        n_cells=f"{schema.n_cells:,}",
        is_short=schema.n_cells <= _SHORT,
        total=f"{int(columns.counts.sum()):,}",
        error=f"{0.798 * float(columns.standard_error.mean()):.2f}",
        half_width=f"+-{float(width.mean()):.1f}",
    )


def shared_dimensions(tables: Sequence[RecordTable], schema: RecordSchema) -> list[Dimension]:
    """Return the dimensions that several tables share."""
    shared = {name for one, other in combinations(tables, 2) for name in set(one.dimensions) & set(other.dimensions)}
    return [dimension for dimension in schema.dimensions if dimension.name in shared]


def _shared_margins(manifest: WorkloadManifest, columns: Sequence[TableColumns]) -> list[tuple[str, PageTable]]:
    """Return the counts by single dimensions that several tables share, each once."""
    law = manifest.law
    tables = list(zip(manifest.plan.published, columns, strict=True))
    out = []
    for dimension in shared_dimensions(manifest.plan.published, law.schema):
        table, of_table = next((one, of_one) for one, of_one in tables if dimension.name in one.dimensions)
        counts = of_table.counts.reshape(law.schema.part(table.dimensions).shape)
        axis = table.dimensions.index(dimension.name)
        sums = counts.sum(axis=tuple(other for other in range(counts.ndim) if other != axis))
        users = [each.name for each, _ in tables if dimension.name in each.dimensions]
        rows = [(label, f"{int(value):,}") for label, value in zip(dimension.labels, np.asarray(sums), strict=True)]
        out.append(
            (
                f"{dimension.name}, in {', '.join(users)}",
                PageTable((dimension.name, "count"), rows, ends_in_total=False),
            )
        )
    return out
