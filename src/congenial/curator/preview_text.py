"""What `congenial plan` shows: one screen in plain words, the rest for the expert, plain values for JSON.

A section is a function from a preview to a `Section`, or to nothing. What the first screen has stands in `SCREEN`, and
what `--full` adds in `EXPERT`: to show something more, write such a function and list it.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import isnan, pi, sqrt
from typing import Any

import numpy as np

from congenial.bundle import expected_errors as aggregate_errors_text
from congenial.bundle.canonical_json import certificate_json, counted_json
from congenial.bundle.cell_intervals import cell_widths, sum_widths
from congenial.bundle.expected_errors import NO_ERROR, ExpectedError
from congenial.bundle.report_and_readme import with_mandate
from congenial.bundle.table_files import formula_warnings
from congenial.curator.alternatives_and_target_error import WHEN_WHICH, Price, TreePrice
from congenial.curator.base_preview import Preview
from congenial.curator.differences_from_earlier_releases import published_before_lines
from congenial.curator.preview import TablesPreview, TreePreview
from congenial.curator.sections import (
    LONGEST_LINE,
    MOST_LINES,
    NO_PROVEN_INTERVALS,
    NOT_PROTECTED,
    PROTECTED,
    Section,
    shortened,
    some,
)
from congenial.curator.tree_estimate_errors import EstimateErrors
from congenial.curator.workload_preview import WorkloadPreview
from congenial.curator.workload_preview_text import workload_json, workload_screen
from congenial.decided_tables import rule_of, ways_of_tree
from congenial.dry_run import MOST_TRIED
from congenial.law import PublicLaw
from congenial.ledger.records import Spend
from congenial.plan import Plan
from congenial.privacy.certificate import shown
from congenial.privacy.disclosure import FOLLOWS
from congenial.tree_margins import margins_text

_SMALL_CLASSES = 3  # of counts: those in which biases are large


def screen(preview: Preview, *, full: bool = False) -> list[Section]:
    """Return the sections of the first screen; with `full`, those for the expert as well."""
    if isinstance(preview, WorkloadPreview):
        return workload_screen(preview, full=full)
    makers = (*SCREEN, *SCREEN_OF[type(preview)], *((*EXPERT, *EXPERT_OF[type(preview)]) if full else ()))
    return [section for make in makers if (section := make(preview)) is not None]


def published(preview: Preview) -> Section:
    """Say what will be published, and what of it exactly."""
    lines = [_tables(preview), *_measurements(preview), *_exactly(preview), *_warnings(preview)]
    return Section("What will be published", lines)


def _measurements(preview: Preview) -> list[str]:
    """Say of a measured release what is published beside the tables, and whether its rule works."""
    law = preview.plan.law
    if law.rule is None:
        return []
    if law.is_tree:
        n_numbers, each = (
            sum(len(one.measured) * len(one.areas) for one in law.measured_laws),
            " of all units of all levels",
        )
        each += (
            "" if law.across is None else f" and of {len(law.across.codes):,} {law.across.name} areas that cross them"
        )
    else:
        n_numbers, each = len(law.measured), "" if law.areas.name is None else f" of each {law.areas.name}"
    what = (
        f"Measurements, {n_numbers:,} numbers{each}: true counts plus noise, unbiased, some negative; and"
        f" {'tables' if law.is_tree else 'a table'} that the rule {law.rule[0]} decides from them."
    )
    if not law.is_tree and rule_of(law).learns:
        alone = rule_of(law).alone.name
        what += f" Errors below are those of the rule {alone}: what areas lend to each other is not known yet."
    return [what, *(f"WARNING: {line}." for line in preview.dry_run_lines)]


def _tables(preview: Preview) -> str:
    law = preview.plan.law
    cells, tables = f"{law.schema.n_cells:,} cells by {' and '.join(law.schema.names)}", law.tables_text
    return f"{tables[0].upper()}{tables[1:]} of {cells}: {', '.join(preview.spec.outputs)}."


def _exactly(preview: Preview) -> list[str]:
    """Say what is exact, level by level where there are several."""
    levels = [level.name for level in preview.plan.levels]
    by_level: dict[str, list[str]] = {level: [] for level in levels}
    for statement in preview.spec.invariants:
        by_level[statement.at or levels[0]].append(with_mandate(statement.condition))
    lines = []
    for level, texts in by_level.items():
        above = "" if level == levels[0] else ", and so of every unit above it"
        where = f", of each {level}{above}" if len(levels) > 1 else ""
        lines += [f"Exactly{where}: {'; '.join(texts)}."] if texts else []
    return lines or ["Nothing of it exactly."]


def cost(preview: Preview) -> Section:
    """Say what a ledger will be charged, with a warning where that protects hardly anybody."""
    plan = preview.plan
    spent, budget, weak = plan.spent.text, plan.budget, plan.meaning.warning
    requested = "every precision is given"
    if budget is not None:
        requested = "which is the spec's budget" if budget.amount == spent else f"the spec's budget is {budget.amount}"
    what = f"{spent} for {plan.certificate.per_record}, {requested}; charged once to dataset {preview.spec.dataset!r}."
    lines = [what[0].upper() + what[1:], *([f"WARNING. {weak}"] if weak else []), *_charged(plan)]
    drawn = [] if preview.is_quick else [f"To draw everything takes about {_time(preview)}."]
    return Section("What it costs", [*lines, *no_proven_intervals(plan.law), *plan.dropped_lines, *drawn])


def no_proven_intervals(law: PublicLaw) -> list[str]:
    """Say what weighted zeros take from readers; nothing where they are not weighted."""
    return [NO_PROVEN_INTERVALS] if any(floor != 1 for floor in law.zero_weights) else []


def not_protected(preview: Preview) -> Section | None:
    """Say what is not protected any more: of records in bold, then cells and sums; nothing where that is nothing."""
    of_records = some([*map(shortened, preview.plan.not_protected_text)])
    sentences = preview.disclosure_sentences
    of_cells = some([shortened(line) if line.startswith(FOLLOWS) else line for line in sentences])
    lines = [*of_records, *of_cells]
    return Section(NOT_PROTECTED, lines, n_bold=len(of_records) or 1) if lines else None


def protected(preview: Preview) -> Section:
    """Say what stays protected."""
    return Section(PROTECTED, [*preview.spec.membership, str(preview.plan.meaning)])


def error(preview: TablesPreview) -> Section:
    """Say how large the errors of cells and sums will be."""
    lines = [f"Root mean squared error, computed around a public table: {preview.errors[0].reference}."]
    rows = _by_area(preview, _classes, ["", "error"])
    if half_widths := _half_widths(preview.plan):  # the same for every table, so known beforehand
        lines = [f"{lines[0]} The last column: a measurement is off by no more, with probability 0.9 or more."]
        column = ["a measurement", *half_widths, *[""] * len(rows)]
        rows = [[*row, text] for row, text in zip(rows, column, strict=False)]
    return Section("How far a released number is off", lines, rows)


def _by_area(
    preview: TablesPreview,
    lines_of: Callable[[TablesPreview, ExpectedError], list[tuple[str, str]]],
    header: list[str],
) -> list[list[str]]:
    """Return a header and lines, a column an area; of one table, its column has the second title of the header."""
    name = preview.plan.law.areas.name
    areas = [f"{name} {error.area}" for error in preview.errors if error.area is not None]
    columns = [lines_of(preview, error) for error in preview.errors]
    rows = [[lines[0][0], *(value for _, value in lines)] for lines in zip(*columns, strict=True)]
    return [[header[0], *(areas or header[1:])], *rows]


def _half_widths(plan: Plan) -> list[str]:
    """Return how far measurements are off with probability 0.9: of a cell, and of the numbers by each dimension."""
    widths = cell_widths(plan)
    if widths is None:
        return []
    sums, out = sum_widths(plan), [_reach(widths.noisy)]
    for name in plan.law.schema.names if sums else ():
        n_levels = len(plan.law.schema.labels(name))
        out.append(_reach([one.half_width for one in sums[:n_levels] if not one.is_exact], n_levels))
        sums = sums[n_levels:]
    return out


def _reach(noisy: Sequence[int], n_numbers: int = 0) -> str:
    """Return the half-widths of numbers with noise in a word, and how many of all numbers are exact."""
    if not noisy:
        return "exact"
    text = f"+-{min(noisy):,}" if min(noisy) == max(noisy) else f"+-{min(noisy):,} to {max(noisy):,}"
    return text if len(noisy) >= n_numbers else f"{text}, {n_numbers - len(noisy)} exact"


def aggregates(preview: TablesPreview) -> Section | None:
    """Say what tables will add up to, and cells by the size of their count; of one table if that is a trouble."""
    warnings = aggregate_errors_text.warning_lines(preview.sums)
    if not warnings and preview.plan.law.areas.name is None:
        return None
    header, rows = aggregate_errors_text.classes_table(preview.sums)
    title = "WARNING: what tables add up to" if warnings else "What tables add up to"
    lines = warnings or aggregate_errors_text.no_warning_lines(preview.sums)
    around = f"({aggregate_errors_text.around(preview.sums)}; larger counts and every sum: --full)"
    is_known = not preview.sums.is_made_up or not warnings  # sizes of a made-up population's cells say little
    return Section(title, [*lines, around], [list(header), *rows[:_SMALL_CLASSES]] if is_known else [])


def every_class(preview: TablesPreview) -> Section:
    """List the error and the bias of cells by the size of their count."""
    header, rows = aggregate_errors_text.classes_table(preview.sums)
    return Section("Single cells by the size of their count", [], [list(header), *rows])


def every_sum(preview: TablesPreview) -> Section:
    """List the error and the bias of every sum."""
    header, rows = aggregate_errors_text.sums_table(preview.sums)
    around = aggregate_errors_text.around(preview.sums)
    return Section(f"Sums: root mean squared error and bias, {around}", [], [list(header), *rows])


def exactness(preview: TablesPreview) -> Section | None:
    """Say what exactness costs: the same budget without it."""
    if not preview.alternatives:
        return None
    by_budget = preview.plan.budget is not None
    lines = [
        "The same budget, with something left out: the noise that each cell gets (standard deviation), and how far a"
        " released cell is then off (root mean squared error)."
        if by_budget
        else "The same noise, with something left out: what is certified, and how far a released cell is then off."
    ]
    planned = preview.price
    rows = [["", "noise" if by_budget else "cost", "cell off by"], _priced(planned.text, planned, by_budget=by_budget)]
    rows += [_priced(text, price, by_budget=by_budget) for text, price in preview.prices]
    return Section("What exactness costs", lines, rows)


def two_methods(preview: TablesPreview) -> Section:
    """Say what the other method would give for the same budget, and when to take which."""
    if not preview.methods:
        return Section("The other method", [f"What it would give: --compare-methods. {WHEN_WHICH}"])
    lines = []
    for errors in preview.methods[1:]:
        if errors.why:
            lines.append(f"By method {errors.method} this cannot be released: {errors.why}. {WHEN_WHICH}")
            continue
        by_dimension = f", a number by one dimension by {_figure(errors.margin)}" if not isnan(errors.margin) else ""
        lines.append(
            f"By method {errors.method} a cell would be off by {_figure(errors.cell)}{by_dimension}. {WHEN_WHICH}"
        )
    return Section("The other method, the same budget", lines)


def _figure(error: float) -> str:
    return "exact" if isnan(error) or error < NO_ERROR else f"{error:.2f}"


def duration(preview: TablesPreview) -> Section | None:
    """Say how long draws take, where a dry run was needed to know."""
    lines = () if preview.plan.law.is_measured else preview.dry_run_lines
    return Section("How long it takes", list(lines)) if lines else None


def target_budget(preview: TablesPreview) -> Section | None:
    """Say which budget reaches the target error."""
    return None if preview.target_budget is None else Section("Which budget reaches it", preview.target_budget.lines)


def tree_errors(preview: TreePreview) -> Section | None:
    """Say how far a measured tree is off at each level; nothing of a chain, whose errors are drawn."""
    if not preview.estimates:
        return None
    lines = [
        f"Standard deviations, the same for every population: of a measured cell's noise, of its estimate by the rule"
        f" {_rule(preview)} from all levels, and of the estimate of a unit's total; between them the mean absolute"
        " error of a cell's estimate. Tables are nearer at small counts: they are not negative."
    ]
    return Section("How far numbers are off, level by level", lines, _levels_table(preview.plan, preview.estimates))


def _rule(preview: TreePreview) -> str:
    return "" if preview.plan.law.rule is None else preview.plan.law.rule[0]


def _levels_table(plan: Plan, errors: Sequence[EstimateErrors]) -> list[list[str]]:
    rows = [["level", "units", "budget", "noise", "estimate", "typical error", "unit total"]]
    for level, error in zip(plan.levels, errors, strict=True):
        share = "" if level.share is None else f"{float(level.share):.0%}"
        figures = (error.measured_cell, error.cell, error.typical, error.total)
        rows.append([error.name, f"{error.n_units:,}", share, *map(_figure, figures)])
    return rows


def margins_of_levels(preview: TreePreview) -> Section | None:
    """Say how far each measured margin is off at each level, and what is a model; nothing where cells are measured."""
    if not preview.of_margins:
        return None
    lines = [
        margins_text(preview.plan.law),
        "Standard deviations, the same for every population: of the noise of a cell of a margin, of its estimate by"
        f" the rule {_rule(preview)} from all levels and margins together, and of the estimate of a unit's total."
        " Tables are nearer where counts are small, because they are not negative.",
    ]
    rows = [["level", "units", "budget", "measured", "noise", "estimate", "typical error", "unit total"]]
    before = ""
    for error in preview.of_margins:
        share = "" if error.share is None else f"{float(error.share):.0%}"
        head = ["", "", ""] if error.level == before else [error.level, f"{error.n_units:,}", share]
        figures = (error.measured, error.estimate, error.typical, error.total)
        rows.append([*head, error.margin, *map(_figure, figures)])
        before = error.level
    return Section("How far numbers are off, level by level", lines, rows)


def areas_across(preview: TreePreview) -> Section | None:
    """Say how far areas that cross a measured tree are off, measured and by summation; nothing where there are none."""
    errors, law = preview.across, preview.plan.law
    if errors is None or law.across is None:
        return None
    leaf, portion = law.tree.levels[-1], float(law.across.portion)
    lines = [
        f"{errors.n_areas:,} {errors.name} areas, each some {leaf} units put together, are measured with {portion:.0%}"
        " of the budget. Standard deviations, the same for every population: of a measured cell's noise, of its"
        f" estimate and of that of an area's total, at most; and what estimates of {leaf} units would add up to without"
        f" these measurements. What they cost the levels stands below, in the line without each {errors.name};"
        " estimates of levels are a little nearer than said here, because areas across say something of them too.",
    ]
    figures = (errors.measured_cell, errors.cell, errors.typical, errors.total)
    rows = [
        ["areas", "number", "budget", "noise", "estimate", "typical error", "area total"],
        [errors.name, f"{errors.n_areas:,}", f"{portion:.0%}", *map(_figure, figures)],
        [
            "by summation",
            "",
            "",
            "",
            *map(_figure, (errors.summed_cell, sqrt(2 / pi) * errors.summed_cell, errors.summed_total)),
        ],
    ]
    return Section("Areas across the tree", lines, rows)


def sums_of_units(preview: TreePreview) -> Section | None:
    """Say how far sums over units of a measured tree are off, and which way its tables lean."""
    several = [error for error in preview.estimates if error.n_units > 1]
    if not several:
        return None
    lines = [
        "Standard deviations of one cell added up over units chosen at random. All units of one parent add up to the"
        " parent, with its error.",
        "Measurements and estimates are unbiased. Tables are not negative, so their empty cells are too large on"
        " average, by at most about what the last column says, and larger ones make up for it: add up measurements, or"
        " take a level where the sum is a unit.",
    ]
    rows = [["units added up", "measured", "estimated", "an empty cell"]]
    for error in several:
        figures = [_figure(error.measured_sum), _figure(error.sum), f"+{_figure(error.empty_bias)}"]
        rows.append([f"{error.n_summed} of level {error.name}", *figures])
    return Section("Sums over units", lines, rows)


def exactness_of_tree(preview: TreePreview) -> Section | None:
    """Say what each exact number of a measured tree costs or gains: the same budget without it."""
    if not preview.prices:
        return None
    by_budget = preview.plan.budget is not None
    held = "budget" if by_budget else "noise"
    lines = [
        f"The same {held}, with something left out:{'' if by_budget else ' what is certified, and'} the noise that a"
        f" cell of a {preview.estimates[-1].name} gets, and how far a cell's estimate is off at each level (standard"
        " deviations)."
    ]
    planned = TreePrice("as planned", preview.estimates, preview.plan.spent.text)
    rows = [["", "noise" if by_budget else "cost", *(error.name for error in preview.estimates)]]
    for text, price in ((planned.text, planned), *preview.prices):
        if price is None:
            rows.append([text, "not certified", *[""] * len(preview.estimates)])
            continue
        noise_or_cost = _figure(price.levels[-1].measured_cell) if by_budget else price.cost
        rows.append([text, noise_or_cost, *(_figure(error.cell) for error in price.levels)])
    return Section(
        "What exactness costs" if preview.across is None else "What exactness and areas across cost", lines, rows
    )


def measured_instead(preview: TreePreview) -> Section | None:
    """Say of a chain how far the other method would be off."""
    other = preview.measured_instead
    if other is None:
        return None
    listed = ", ".join(f"{_figure(error.cell)} at level {error.name}" for error in other.levels)
    what = (
        f"By method measured a cell's estimate would have a standard deviation of {listed}, for every population; it"
        " uses what units below say of those above. Tables are nearer where counts are small. Every sum of measurements"
        " has an exact interval."
    )
    return Section("The other method, the same budget" if preview.plan.budget else "The other method", [what])


def way_of_rule(preview: TreePreview) -> Section | None:
    """Say how the tables of each level of a measured tree are decided, and that it was tried."""
    law = preview.plan.law
    if not law.is_measured or preview.dry_run_lines:  # what went wrong is said of what is published
        return None
    tried, leaf = law.part_of_tree(MOST_TRIED).tree.n_leaves, law.tree.levels[-1]
    of = "the whole tree" if tried == law.tree.n_leaves else f"a part of the tree, with {tried:,} of level {leaf}"
    lines = [f"By the rule {_rule(preview)}, which was tried on made-up measurements of {of}, and gave tables:"]
    levels: dict[str, list[str]] = {}
    for name, way in zip(law.tree.levels, ways_of_tree(law), strict=True):
        levels.setdefault(way, []).append(name)
    lines += [f"{', '.join(names)}: {way}." for way, names in levels.items()]
    return Section("How tables are decided", lines)


def target_budget_of_tree(preview: TreePreview) -> Section | None:
    """Say which budget of a measured tree reaches the target error, with its certificate and errors."""
    target = preview.target_budget
    if target is None:
        return None
    if target.plan is None:
        return Section("Which budget reaches it", target.found.lines)
    certificate = target.plan.certificate
    lines = [*target.found.lines, f"Certified with it: {certificate.kind}, {certificate.amounts}. The levels then:"]
    return Section("Which budget reaches it", lines, _levels_table(target.plan, target.levels))


def published_before(preview: Preview, spends: Sequence[Spend]) -> Section | None:
    """Say which numbers earlier releases of the dataset have out, and about how far these will be from them."""
    lines = published_before_lines(preview.planned, spends)
    return Section("WARNING: published before", lines) if lines else None


def certified(preview: Preview) -> Section:
    """Say what is proven."""
    certificate = preview.plan.certificate
    lines = [f"{certificate.kind}: {certificate.amounts}", certificate.statement, *certificate.reasons]
    return Section("For the expert: certificate", [*lines, f"proof and audit: {certificate.page}"])


def noise(preview: Preview) -> Section:
    """Say how large the noise on each measured query is."""
    return Section("For the expert: noise", preview.plan.noise_lines())


def sampler(preview: Preview) -> Section:
    """Say how the tables are drawn, and what attempts at the units of a tree with exact numbers promise."""
    plan = preview.plan
    titles = dict.fromkeys(step.title for step in plan.law.steps)
    trials = preview.dry_run_lines if plan.law.exact_below and not plan.law.is_measured else ()
    return Section("For the expert: sampler", [plan.sampler.describe(), *titles, *trials])


def every_number(preview: TablesPreview) -> Section:
    """List the error of every released number, and all that is not protected."""
    title = f"Root mean squared error to expect around a public table: {preview.errors[0].reference}"
    lines = [*preview.plan.not_protected_text, *preview.disclosure_sentences]
    is_cut = len(lines) > MOST_LINES or any(len(line) > LONGEST_LINE for line in lines)
    header = ["released number", "root mean squared error"]
    return Section(title, lines if is_cut else [], _by_area(preview, _error_lines, header))


SCREEN: tuple[Callable[[Preview], Section | None], ...] = (not_protected, published, cost, protected)
EXPERT: tuple[Callable[[Preview], Section | None], ...] = (certified, noise, sampler)

SCREEN_OF: dict[type[Preview], tuple[Callable[[Any], Section | None], ...]] = {
    TablesPreview: (error, aggregates, exactness, two_methods, duration, target_budget),
    TreePreview: (
        tree_errors,
        margins_of_levels,
        areas_across,
        sums_of_units,
        exactness_of_tree,
        measured_instead,
        way_of_rule,
        target_budget_of_tree,
    ),
}
EXPERT_OF: dict[type[Preview], tuple[Callable[[Any], Section | None], ...]] = {
    TablesPreview: (every_class, every_sum, every_number),
    TreePreview: (),
}


def _priced(text: str, price: Price | None, *, by_budget: bool) -> list[str]:
    if price is None:
        return [text, "not certified", ""]
    return [
        text,
        f"{price.noise:.2f}" if by_budget else price.cost,
        "" if price.error is None else f"{price.error:.2f}",
    ]


def _classes(preview: TablesPreview, error: ExpectedError) -> list[tuple[str, str]]:
    """Return the error of a single cell, and of the sums for each dimension."""
    schema, values = preview.plan.law.schema, [value for _, value in error.margins]
    lines = [("a single cell", _span(error.cells.tolist()))]
    for name in schema.names if values else ():
        n_levels = len(schema.labels(name))
        of_dimension, values = values[:n_levels], values[n_levels:]
        lines.append((f"the {n_levels} numbers by {name}", _span(of_dimension)))
    return lines


def _span(errors: list[float]) -> str:
    """Return errors in a word: one number where they are about the same."""
    loose = [error for error in errors if error > NO_ERROR]
    if not loose:
        return "exact"
    low, high = min(loose), max(loose)
    text = f"{high:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"
    return text if len(loose) == len(errors) else f"{text}, {len(errors) - len(loose)} exact"


def _warnings(preview: Preview) -> list[str]:
    law = preview.plan.law
    return formula_warnings(law.schema, (law.areas.name, *law.areas))


def _charged(plan: Plan) -> list[str]:
    """Say what a ledger is charged, where the budget is in other terms: amounts add up in pure ones only."""
    budget, certificate = plan.budget, plan.certificate
    if budget is None or (budget.delta is None and budget.orders != "all"):
        return []
    amounts = [(name, certificate.charged_in(name)) for name in ("epsilon", "rho")]
    listed = [f"{shown(amount)} of one in {name}" for name, amount in amounts if amount is not None]
    return [f"a ledger is charged {', or '.join(listed)}"]


def _time(preview: Preview) -> str:
    rounded = float(f"{preview.seconds:.1g}")
    return f"{rounded:,g} second{'' if rounded == 1 else 's'}"


def _error_lines(preview: TablesPreview, error: ExpectedError) -> list[tuple[str, str]]:
    """Return each number with its error; cells are summed up when there are many."""
    lines = list(error.margins)
    if len(error.cells) > 60:
        quantiles = np.percentile(error.cells, (0, 50, 100)).tolist()
        lines += zip(("a cell: least", "a cell: median", "a cell: largest"), quantiles, strict=True)
    else:
        schema = preview.plan.law.schema
        lines += [(schema.cell_name(cell), value) for cell, value in enumerate(error.cells.tolist())]
    return [(name, "exact" if value < NO_ERROR else f"{value:.2f}") for name, value in lines]


def as_json(preview: Preview) -> dict[str, Any]:
    """Return everything as plain values."""
    if isinstance(preview, WorkloadPreview):
        return workload_json(preview)
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
        "warning": plan.meaning.warning,
        "not_protected": plan.not_protected_text,
        "given_away": {
            "sentences": preview.disclosure_sentences,
            "counts": [counted_json(review.summary) for review in preview.disclosures],
        },
        "warnings": _warnings(preview),
        "plan_digest": preview.digest,
        **JSON_OF[type(preview)](preview),
    }


def _of_tree(preview: TreePreview) -> dict[str, Any]:
    other, target = preview.measured_instead, preview.target_budget
    drawn: dict[str, Any] = {}
    if not (preview.estimates or preview.of_margins) or preview.reference is not None:
        header, rows = preview.lines
        drawn = {"levels": [dict(zip(header, row, strict=True)) for row in rows], "around": preview.around}
    return {
        **drawn,
        "estimates": list(map(_estimates_json, preview.estimates)),
        "margins": [
            {**asdict(error), "share": error.share and float(error.share), "typical": error.typical}
            for error in preview.of_margins
        ],
        "across": preview.across and {**asdict(preview.across), "typical": preview.across.typical},
        "price_of_exactness": [
            {"text": text, "cost": price and price.cost, "levels": price and list(map(_estimates_json, price.levels))}
            for text, price in preview.prices
        ],
        "measured_instead": other and list(map(_estimates_json, other.levels)),
        "target": target and {**target.found.as_json(), "levels": list(map(_estimates_json, target.levels))},
    }


def _estimates_json(error: EstimateErrors) -> dict[str, Any]:
    return {**asdict(error), "typical": error.typical, "empty_bias": error.empty_bias}


def _number(error: float) -> float | None:
    return None if isnan(error) else error


def _of_tables(preview: TablesPreview) -> dict[str, Any]:
    plan = preview.plan
    return {
        "sampler": {
            "name": plan.sampler.name,
            "is_exact": plan.is_exact,
            "size": plan.sampler.describe(),
            "rehearsed": list(preview.dry_run_lines),
        },
        "seconds": preview.seconds,
        "price_of_exactness": [
            {"text": text, "noise": None, "error": None, "cost": None}
            if price is None
            else {"text": text, "noise": price.noise, "error": price.error, "cost": price.cost}
            for text, price in ((preview.price.text, preview.price), *preview.prices)
        ],
        "methods": [
            {"method": errors.method, "cell": _number(errors.cell), "margin": _number(errors.margin), "why": errors.why}
            for errors in preview.methods
        ],
        "target": None if preview.target_budget is None else preview.target_budget.as_json(),
        "adding_up": aggregate_errors_text.as_json(preview.sums),
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


JSON_OF: dict[type[Preview], Callable[[Any], dict[str, Any]]] = {TablesPreview: _of_tables, TreePreview: _of_tree}
