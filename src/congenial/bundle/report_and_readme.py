"""report.html and README.txt: pages for people, from the manifest and the released tables alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.arrow_and_unit_codes import codes_as_texts
from congenial.bundle import expected_errors as aggregate_errors_text
from congenial.bundle.cell_intervals import cell_widths, sum_widths
from congenial.bundle.expected_errors import (
    NO_ERROR,
    AggregateErrors,
    ClassError,
    ExpectedError,
    aggregate_errors,
    by_size,
    classes,
    errors_csv,
    expected_error,
    typical_places,
)
from congenial.bundle.file_registry import (
    EXACT_CELLS,
    MEASURED_LEVEL,
    MEASUREMENTS,
    PARQUET,
    README,
    REPORT_ERRORS,
    REPORT_PICTURE,
    TABLE,
    files_of,
    level_files,
)
from congenial.bundle.manifest import Manifest, with_commas
from congenial.bundle.method_text import law_lines, what_it_is
from congenial.bundle.naming_and_versions import membership_sentences, unpublished_sentences
from congenial.bundle.table_files import formula_warnings, header_of
from congenial.conditions.base import Condition
from congenial.display import row_titles, table_layout, titles
from congenial.law import PublicLaw
from congenial.noise import Noise
from congenial.pages.page import filled_in, inline_script, render
from congenial.pages.svg_charts import noise_laws
from congenial.plan import Plan
from congenial.privacy.certificate import shown, shown_left
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED
from congenial.privacy.disclosure import level_sentences
from congenial.privacy.meaning_and_counterexample import meaning
from congenial.randomness import replay_rng
from congenial.schema import Schema
from congenial.tree.tree_and_zeros import TreeTables
from congenial.tree_margins import measures_cells

if TYPE_CHECKING:
    from markupsafe import Markup

# What a report says of a tree: its levels and their errors. Public.

MOST_NUMBERS = 5_000_000
"""In the tables of a tree, up to which they are drawn once more for the errors to expect."""

_SIZES = (0, 1, 5, 20, 100)


def level_lines(plan: Plan, released: TreeTables, files: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each level its name, units, file, standard deviation of its noise, share of cells that are 0.

    Then the same of areas that cross a tree.
    """
    out: list[tuple[str, ...]] = []
    law = plan.law
    kinds = [(level.name, level.share, level.deviation) for level in plan.levels]
    if law.across is not None:
        noise = law.family(next(query.precision for query in law.queries_across if query.precision))
        kinds.append((law.across.name, law.across.portion, float(noise.variance) ** 0.5))
    for (name, portion, deviation), file, tables in zip(kinds, files, law.measured_tables(released), strict=True):
        share = "" if portion is None else f"{float(portion):.0%}"
        zeros = f"{(tables == 0).mean():.0%}"
        out.append((name, f"{len(tables):,}", file, share, f"{deviation:.3g}", zeros))
    return out


@dataclass(frozen=True)
class LevelError:
    """What to expect at one level of a tree.

    Attributes
    ----------
    cell, total : float
        Root mean squared error of a unit's cell, and of its total.
    biases : tuple of (str, float)
        Mean error by size of the count.
    classes : tuple of ClassError
    """

    name: str
    cell: float
    total: float
    biases: tuple[tuple[str, float], ...]
    classes: tuple[ClassError, ...]


def level_errors(plan: Plan, released: TreeTables) -> list[LevelError]:
    """Return the errors to expect at each level, from a draw around the release; none of a tree that is too large.

    Then those of areas that cross the tree.

    The release is drawn around as if it were confidential; what is drawn comes from a public seed.
    """
    if sum(tables.size for tables in released) > MOST_NUMBERS:
        return []
    drawn = plan.draw_tables(released[-1], replay_rng("errors of a tree"))
    out = []
    names, law = [name for name, _ in plan.law.names_and_codes], plan.law
    for name, truth, counts in zip(names, law.measured_tables(released), law.measured_tables(drawn), strict=True):
        gap = (counts - truth).astype(np.float64)
        biases = [(text, float(gap[in_class].mean())) for text, in_class in by_size(truth, _SIZES)]
        cell, total = np.sqrt((gap**2).mean()), np.sqrt((gap.sum(axis=1) ** 2).mean())
        by_class = tuple(classes(truth, gap, gap**2))
        out.append(LevelError(name, float(cell), float(total), tuple(biases), by_class))
    return out


# The released tables as a report lays them out: one, or units to find and to open, those of one parent together.

_MOST_NUMBERS = 200_000  # in the page: about 4 MB
_MOST_TABLES = 5_000
_FEW_OF_MANY = 500  # of more tables than fit: nobody reads on, and a page is made in a tenth of the time
_MOST_EXACT = 20_000  # exact values in the page
_MOST_ROWS = 5_000  # of one table
_TOGETHER = 100  # areas without parents that stand under one heading, where there are more


@dataclass(frozen=True)
class PageTable:
    """A table in two directions: a header, rows, and whether the last row sums the others up."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    ends_in_total: bool


def html_tables(schema: Schema, tables: Ints) -> "list[Markup]":
    """Lay tables (table, cell) out for a page; of very long ones their beginning."""
    lines = row_titles(schema)
    numbers = table_layout(schema, tables)[:, :_MOST_ROWS]
    header = [title.replace("%", "%%") for title in titles(schema)]
    rows = [[line.replace("%", "%%"), *["%s"] * numbers.shape[2]] for line in lines[:_MOST_ROWS]]
    pattern = PageTable(header, rows, ends_in_total=1 < len(lines) <= _MOST_ROWS)
    return filled_in("grid.html", "grid", pattern, numbers.reshape(len(tables), -1).tolist())


@dataclass(frozen=True)
class Unit:
    """What one opens by its title: a table with what is exact of it, its parts, or both."""

    title: str
    grid: "Markup | None" = None
    exact: Sequence[tuple[str, str]] = ()
    parts: list["Unit"] = field(default_factory=list)
    more: str = ""


def units_of(manifest: Manifest, levels: TreeTables) -> tuple[list[Unit], int]:
    """Return the units of the first level with their parts, and how many were left out.

    Of many units those with the most people are laid out, in the declared order, under their parents where the release
    names them. Levels of very many units stay in their files.
    """
    law, tree, n_levels = manifest.law, manifest.law.tree, _n_levels(manifest.law.schema, levels)
    places = _shown(law.schema, levels[0])
    units = [_units_of_level(manifest, levels, places, 0, n_levels)]
    for number in range(1, n_levels):  # all of them are shown
        units.append(_units_of_level(manifest, levels, range(len(levels[number])), number, n_levels))
        for unit, parent in zip(units[number], tree.parents[number - 1].tolist(), strict=True):
            units[number - 1][parent].parts.append(unit)
    left_out = len(levels[0]) - len(places)
    if manifest.naming.parents:
        parents = [parent for parent, n in manifest.naming.parents for _ in range(n)]
        return _under(zip((parents[place] for place in places), units[0], strict=True)), left_out
    return _in_hundreds(units[0], [str(tree.codes[0][place]) for place in places]), left_out


def _n_levels(schema: Schema, levels: TreeTables) -> int:
    """Return how many levels are laid out: those below the first only if all of their units are."""
    n_levels = 1
    while n_levels < len(levels):
        n_units = sum(map(len, levels[: n_levels + 1]))
        if _n_shown(schema, n_units) < n_units:
            break
        n_levels += 1
    return n_levels


def _units_of_level(
    manifest: Manifest, levels: TreeTables, places: Sequence[int], number: int, n_levels: int
) -> list[Unit]:
    """Return some units of a level: title, table, what is exact of it, and where its parts are."""
    tree, tables = manifest.law.tree, levels[number][list(places)]
    name = f"{tree.levels[number]} " if len(levels) > 1 else ""  # among areas alone, their labels are searched for
    more = _more(manifest, number, n_levels)
    return [
        Unit(
            f"{name}{code}: {int(table.sum()):,}",
            grid,
            () if number else _exact(manifest, place, len(places)),
            more=more,
        )
        for place, code, table, grid in zip(
            *(
                places,
                codes_as_texts(tree.codes[number][list(places)]),
                tables,
                html_tables(manifest.law.schema, tables),
            ),
            strict=True,
        )
    ]


def _in_hundreds(units: list[Unit], labels: Sequence[str]) -> list[Unit]:
    """Put many units under headings, so that a page opens quickly."""
    if len(units) <= _TOGETHER:
        return units
    out = []
    for start in range(0, len(units), _TOGETHER):
        some = units[start : start + _TOGETHER]
        out.append(Unit(f"{labels[start]} to {labels[start + len(some) - 1]}", parts=some))
    return out


def _exact(manifest: Manifest, place: int, n_shown: int) -> list[tuple[str, str]]:
    """Return what is exact of an area, if there is room for that of all areas."""
    if len(manifest.exact_statistics) * n_shown > _MOST_EXACT:
        return []
    return [(exact.text, with_commas(exact.value(place))) for exact in manifest.exact_statistics]


def _shown(schema: Schema, tables: Ints) -> list[int]:
    """Return which tables are laid out: all that fit, or of more than fit the largest, fewer of them."""
    n_shown = _n_shown(schema, len(tables))
    if n_shown == len(tables):
        return list(range(n_shown))
    largest = np.argsort(-tables.sum(axis=1), kind="stable")[: min(n_shown, _FEW_OF_MANY)]
    return sorted(largest.tolist())


def _n_shown(schema: Schema, n_tables: int) -> int:
    return min(n_tables, _MOST_TABLES, max(1, _MOST_NUMBERS // schema.n_cells))


def _under(parts: Iterable[tuple[str, Unit]]) -> list[Unit]:
    """Put units under their parents, those in the order in which they come first."""
    by_parent: dict[str, list[Unit]] = {}
    for parent, unit in parts:
        by_parent.setdefault(parent, []).append(unit)
    return [Unit(f"{parent} ({len(units):,})", parts=units) for parent, units in by_parent.items()]


def _more(manifest: Manifest, number: int, n_levels: int) -> str:
    """Say where the parts of the lowest units in the page are."""
    levels = manifest.law.tree.levels
    if number < n_levels - 1 or number == len(levels) - 1:
        return ""
    return f"its {levels[number + 1]} units are in {level_files(manifest)[number]}"


# What a release promises, in plain words: for the report and the README of a bundle.

SIMULATED = "NOT FOR RELEASE: a simulation. Its noise comes from a public seed and protects nobody."


def protection_text(manifest: Manifest) -> str:
    """Return whose records are counted, and what an observer can learn about one unit, in a few sentences."""
    text = str(meaning(manifest.certificate, manifest.plan.neighbourhood))
    if manifest.plan.rows_per_unit > 1:
        most = f"up to {manifest.plan.rows_per_unit} records, and all of them are covered"
        text = f"One {manifest.naming.unit} may have {most}. {text}"
    naming = manifest.naming
    counted = membership_sentences(naming.kept_rows, manifest.plan.neighbours, naming.unit)
    return " ".join([*counted, *unpublished_sentences(naming.unpublished, manifest.law.areas.name), text])


def weak_protection(manifest: Manifest) -> str:
    """Return a warning where the loss is so large that hardly anybody is protected; nothing elsewhere."""
    return meaning(manifest.certificate, manifest.plan.neighbourhood).warning


def cost_text(manifest: Manifest) -> str:
    """Return the certified loss in words."""
    certificate = manifest.certificate
    return f"at most {certificate.amounts} for {certificate.per_record} ({certificate.neighbours} neighbours)"


def budget_left(manifest: Manifest) -> str:
    """Return what the charge has left of the dataset's cap; nothing for a simulation."""
    receipt = manifest.receipt
    return "" if receipt is None else f"{shown_left(receipt.left, receipt.cap)} of {shown(receipt.cap)}"


def replacement_sentences(manifest: Manifest) -> list[str]:
    """Say which earlier release this one is the corrected edition of; nothing if it is a first one."""
    earlier = manifest.naming.replaces
    return [] if earlier is None else [f"A corrected edition: it replaces release {earlier}, which should not be used."]


def readme(manifest: Manifest) -> str:
    """Return README.txt: one page for an analyst."""
    law, has_csv = manifest.law, any(file.name == TABLE for file in files_of(manifest))
    tables = law.tables_text
    values = [
        f": {with_commas(exact.value())}" if law.areas.name is None else "" for exact in manifest.exact_statistics
    ]
    exact_lines = [
        f"  - {exact.text}{value}" + (f" ({exact.mandate})" if exact.mandate else "")
        for exact, value in zip(manifest.exact_statistics, values, strict=True)
    ]
    files = [(file.name, file.line) for file in files_of(manifest) if file.name != README]
    files.append(("manifest.json", "schema, invariants, noise, certificate: it determines the law"))
    width = max(len(name) for name, _ in files)
    lines = [
        manifest.naming.title,
        "=" * min(len(manifest.naming.title), 79),
        "",
        *([SIMULATED, ""] if not manifest.is_for_release else []),
        f"Release {manifest.naming.release} of dataset {manifest.naming.dataset}, {manifest.made_at}.",
        *replacement_sentences(manifest),
        f"{tables[0].upper()}{tables[1:]} of {law.schema.n_cells:,} cells by {', '.join(law.schema.names)}.",
        *(line.strip() for sentence in across_sentences(law) for line in _wrapped(sentence)),
        "",
        "What it is",
        *(line for paragraph in what_it_is(manifest) for line in (*_wrapped(paragraph), "")),
        "The law",
        *(f"  {line}" for line in law_lines(manifest.plan)),
        "",
        "Exact numbers",
        *(exact_lines or ["  none"]),
        *(f"  - {text}" for text in (*exact_below(manifest), *other_conditions(manifest))),
        "",
        "Privacy",
        f"  Certified loss: {cost_text(manifest)}.",
        *_wrapped(protection_text(manifest)),
        *_wrapped(weak_protection(manifest)),
        "",
        "Files",
        *(f"  {name.ljust(width)}  {line}" for name, line in files),
        "",
        "How to use it",
        *(
            [
                '  Read the counts in R:        x <- read.csv("table.csv", colClasses = "character")',
                "                               x$count <- as.numeric(x$count)"
                if header_of(law)[-1] == "count"
                else "",
            ]
            if has_csv
            else [f'  Read the numbers in R:       x <- arrow::read_parquet("{_main_file(manifest)}")']
        ),
        *(f"  {line}" for line in formula_warnings(law.schema, (law.areas.name, *law.areas))),
        *(["  Intervals of any sum:             congenial infer THIS_FOLDER --query QUERY"] if law.is_measured else []),
        *(
            [
                f"  The same of every {law.names_and_codes[-1][0]}:".ljust(36)
                + f"congenial infer THIS_FOLDER --units {law.names_and_codes[-1][0]} --query QUERY",
                f"  Of {law.tree.levels[-1]} units put together:".ljust(36)
                + "congenial infer THIS_FOLDER --district FILE --query QUERY",
                *(
                    ["  Narrower ones, from all levels:".ljust(36) + "the same with --combined"]
                    if measures_cells(law)
                    else []
                ),
            ]
            if law.is_measured and law.is_tree
            else []
        ),
        f"  {_CAUTION[law.method]}",
        *([] if (widths := cell_widths(manifest.plan)) is None else _wrapped(widths.text)),
        "  Check that nothing was changed:   congenial verify THIS_FOLDER",
        '  Honest intervals from Python:     import congenial; congenial.load_bundle("THIS_FOLDER")',
        "",
        f"Made by {', '.join(f'{name} {version}' for name, version in manifest.software.items())}.",
        "",
    ]
    return "\n".join(lines)


def _main_file(manifest: Manifest) -> str:
    return PARQUET if manifest.has_tables else MEASUREMENTS


_CAUTION = {
    CONDITIONAL: "Do not treat the counts as exact: small cells are biased upward because counts are not negative.",
    MEASURED: "Sums, tests and models start from the measurements, which are unbiased; the table is an estimate.",
}


def across_sentences(law: PublicLaw) -> list[str]:
    """Say which areas cross a tree, and what was measured of them; nothing of others."""
    if law.across is None:
        return []
    name, leaf, n_areas = law.across.name, law.tree.levels[-1], len(law.across.codes)
    return [
        f"Beside the levels {n_areas:,} {name} areas were measured, which cross the tree, with"
        f" {float(law.across.portion):.0%} of the budget: each is some {leaf} units put together. Tables of all"
        f" levels were decided from this too; that of a {name} is the sum of its {leaf} tables."
    ]


def other_conditions(manifest: Manifest) -> list[str]:
    """Return limits and structural zeros: what tables obey without a number that came out exactly."""
    law = manifest.law
    nothing = [0] * law.schema.n_cells
    others = [condition for condition in manifest.conditions if not condition.exact_values(law.schema, nothing)]
    return [with_mandate(condition) for condition in others]


def exact_below(manifest: Manifest) -> list[str]:
    """Return what is exact in every unit of levels below the top of a tree."""
    return [
        with_mandate(condition, f"{condition.title}, of every {level}")
        for level, conditions in manifest.plan.invariants_below.items()
        for condition in conditions
    ]


def with_mandate(condition: Condition, text: str = "") -> str:
    """Return a condition in words, its title if none are given, with its mandate."""
    return f"{text or condition.title} ({condition.mandate})" if condition.mandate else text or condition.title


def _wrapped(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, 96)]


AROUND = "the released tables"

_FEW = 20  # tables that one finds without typing


def report(
    manifest: Manifest,
    levels: TreeTables,
    parts: Mapping[str, object] | None = None,
    measurements: Ints | None = None,
) -> str:
    """Return the page; where a part was left out, it says why.

    Parameters
    ----------
    levels : tuple of arrays (unit, cell)
        The tables of each level.
    parts : mapping, optional
        What `PARTS` make, if that was made already.
    measurements : array (unit, row), optional
        Of a measured release.
    """
    if parts is None:
        parts = parts_of(manifest, levels)
    units, left_out = units_of(manifest, levels)
    files = [TABLE, *level_files(manifest)]
    if manifest.law.across is not None:
        files.append(level_files(manifest, MEASURED_LEVEL)[-1])
    lines = level_lines(manifest.plan, levels, files)
    return render(
        "report.html",
        title=manifest.naming.title,
        manifest=manifest,
        replaced=replacement_sentences(manifest),
        receipt_left=budget_left(manifest),
        law=manifest.law,
        cost=cost_text(manifest),
        strength=protection_text(manifest),
        weak=weak_protection(manifest),
        noise=manifest.plan.noise_text,
        not_protected=manifest.plan.not_protected_text,
        disclosure=level_sentences(manifest.disclosures, manifest.naming.unit),
        n_disclosed_cells=sum(disclosure.summary.n_exact for disclosure in manifest.disclosures),
        has_exact_cells=manifest.discloses_cells and EXACT_CELLS not in manifest.left_out,
        conditions=other_conditions(manifest),
        exact_below=exact_below(manifest),
        about=what_it_is(manifest),
        is_measured=manifest.law.is_measured,
        widths=None if (widths := cell_widths(manifest.plan)) is None else widths.text,
        measured_sums=[] if measurements is None else [one.texts for one in sum_widths(manifest.plan, measurements)],
        sum_widths=[] if manifest.law.areas.name is None else [one.texts for one in sum_widths(manifest.plan)],
        law_text=law_lines(manifest.plan),
        simulated=SIMULATED,
        noise_picture=parts.get(REPORT_PICTURE, ""),
        no_picture=manifest.left_out.get(REPORT_PICTURE),
        exact_statistics=[
            (exact.text, with_commas(exact.value()), exact.mandate or "") for exact in manifest.exact_statistics
        ],
        is_one=manifest.law.areas.name is None and len(levels) == 1,
        units=units,
        unit_names=_unit_names(manifest, _n_levels(manifest.law.schema, levels)),
        script=inline_script("find.js") if _n_units(units) > _FEW else None,
        left_out=left_out,
        table_file=PARQUET if TABLE in manifest.left_out else TABLE,
        errors=errors.lines if isinstance(errors := parts.get(REPORT_ERRORS), ErrorsToExpect) else [],
        sums=_sums(parts.get(REPORT_ERRORS)),
        no_errors=manifest.left_out.get(REPORT_ERRORS),
        most_numbers=MOST_NUMBERS,
        certificate=manifest.certificate,
        amounts=amounts(manifest),
        levels=lines if len(lines) > 1 else [],
        n_levels=len(levels),
        across=across_sentences(manifest.law),
    )


def parts_of(manifest: Manifest, levels: TreeTables) -> dict[str, object]:
    """Make every part of the report that was not left out."""
    return {name: make(manifest, levels) for name, make in PARTS.items() if name not in manifest.left_out}


def _n_units(units: Sequence[Unit]) -> int:
    return sum(1 + _n_units(unit.parts) for unit in units)


def _unit_names(manifest: Manifest, n_levels: int) -> str:
    """Return what one finds among the tables of the page, in words."""
    *most, last = manifest.law.tree.levels[:n_levels]
    return f"a {', a '.join(most)} or a {last}" if most else f"a {last}"


def amounts(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the bounds of the certificate, each with its name."""
    certificate = manifest.certificate
    amounts = [
        ("pure epsilon", certificate.loss),
        (f"rho at {certificate.orders} orders", certificate.rho),
        ("rho at all orders", certificate.rho_at_all_orders if certificate.orders != "all" else None),
        ("one record with the same noise and no invariants", certificate.loss_without_invariants),
    ]
    return [(name, f"{float(value):.10g}") for name, value in amounts if value is not None]


def _noise_picture(manifest: Manifest, _: TreeTables) -> str:
    laws = {text: _law_of(noise) for text, noise in manifest.plan.noises.items()}
    return noise_laws(dict(islice(laws.items(), 7)))


def _law_of(noise: Noise) -> tuple[Ints, Floats]:
    reach = max(3, int(np.ceil(4 * float(noise.variance) ** 0.5)))
    u = np.arange(-reach, reach + 1) if reach <= 200 else np.linspace(-reach, reach, 401).astype(np.int64)
    return u, noise.pmf(u)


@dataclass(frozen=True)
class ErrorsToExpect:
    """What the release is off by, around itself: of typical areas or of levels in words, and what sums are off by."""

    lines: Sequence[dict[str, Any] | LevelError]
    levels: list[tuple[str, AggregateErrors]]


def expected_errors(manifest: Manifest, levels: TreeTables) -> ErrorsToExpect:
    """Return the errors to expect, computed around the released tables."""
    if manifest.law.is_tree:
        errors, units = level_errors(manifest.plan, levels), map(len, manifest.law.measured_tables(levels))
        sums = [
            (error.name, AggregateErrors(AROUND, n, n, (), error.classes))
            for n, error in zip(units, errors, strict=False)
        ]
        return ErrorsToExpect(errors, sums)
    (tables,) = levels
    lines: list[dict[str, Any]] = []
    for place in typical_places(tables.sum(axis=1)):
        error = expected_error(manifest.plan, manifest.law.areas.labels[place], tables[place], AROUND)
        lines.append(_error_lines(manifest, error, tables[place]))
    return ErrorsToExpect(
        lines, [(manifest.law.areas.name or "table", aggregate_errors(manifest.plan, tables, AROUND))]
    )


def expected_errors_csv(manifest: Manifest, levels: TreeTables, parts: Mapping[str, object] | None = None) -> bytes:
    """Return expected-errors.csv, from the part of the report if that was made already."""
    part = (parts or {}).get(REPORT_ERRORS)
    errors = part if isinstance(part, ErrorsToExpect) else expected_errors(manifest, levels)
    return errors_csv(errors.levels)


def _sums(errors: object) -> dict[str, Any] | None:
    """Return what the page says of sums over areas; nothing of a tree, whose levels add up."""
    if not isinstance(errors, ErrorsToExpect) or not errors.levels or not errors.levels[0][1].sums:
        return None
    aggregates = errors.levels[0][1]
    return {
        "warnings": aggregate_errors_text.warning_lines(aggregates),
        "around": aggregate_errors_text.around(aggregates),
        "sums": PageTable(*aggregate_errors_text.sums_table(aggregates), ends_in_total=False),
        "classes": PageTable(*aggregate_errors_text.classes_table(aggregates), ends_in_total=False),
    }


def _error_lines(manifest: Manifest, error: ExpectedError, counts: Ints) -> dict[str, Any]:
    """Sum the errors up: cells by the size of their released count, then the margins."""
    where = "" if error.area is None else f" of {manifest.law.areas.name} {error.area}"
    lines = []
    for name, in_class in by_size(counts, (0, 1, 5, 10, 50, 100, 1_000)) if len(error.cells) else ():
        of_class = error.cells[in_class]
        lines.append((name, f"{int(in_class.sum()):,}", f"{of_class.mean():,.2f}", f"{of_class.max():,.2f}"))
    margins = [(name, "exact" if value < NO_ERROR else f"{value:,.2f}") for name, value in error.margins]
    return {"where": where, "cells": lines, "margins": margins, "total": f"{int(counts.sum()):,}"}


PARTS: dict[str, Callable[[Manifest, TreeTables], object]] = {
    REPORT_ERRORS: expected_errors,
    REPORT_PICTURE: _noise_picture,
}
"""What the report can do without, by its name in the manifest's `left_out`."""
