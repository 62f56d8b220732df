"""report.html: one offline page about a release, made from the manifest and the released tables alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import sqrt
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.arrow import texts_of
from congenial.bundle import expected_errors as adding_up_text
from congenial.bundle.expected_errors import (
    NO_ERROR,
    AddingUp,
    ClassError,
    ExpectedError,
    adding_up,
    by_size,
    classes,
    errors_csv,
    expected_error,
    typical_places,
)
from congenial.bundle.manifest import Manifest, with_commas
from congenial.bundle.metadata import left_unpublished, membership
from congenial.bundle.parquet import (
    AREAS,
    EXACT_CELLS,
    EXPECTED_ERRORS,
    PARQUET,
    REPORT,
    REPORT_ERRORS,
    REPORT_PICTURE,
    TABLE,
)
from congenial.bundle.structure_files import SPINE, level_file
from congenial.bundle.tables import formula_warnings, header_of
from congenial.conditions.condition import Condition
from congenial.display import laid_out, row_titles, titles
from congenial.noise import Noise
from congenial.pages.page import filled_in, inline_script, render
from congenial.pages.svg_charts import noise_laws
from congenial.privacy.certificate import shown, shown_left
from congenial.privacy.disclosure import level_sentences
from congenial.privacy.semantics import meaning
from congenial.randomness import replay_rng
from congenial.schema import Schema
from congenial.tree.plan import ChainPlan
from congenial.tree.steps import ChainWords

if TYPE_CHECKING:
    from markupsafe import Markup

# What a report says of a tree: its levels and their errors. Public.

MOST_NUMBERS = 5_000_000
"""In the tables of a tree, up to which they are drawn once more for the errors to expect."""

_SIZES = (0, 1, 5, 20, 100)


def level_lines(chain: ChainPlan, released: Sequence[Ints]) -> list[tuple[str, ...]]:
    """Return for each level its name, units, file, standard deviation of its noise, share of cells that are 0."""
    law = chain.law
    out: list[tuple[str, ...]] = []
    deviations = [level_deviation(chain, number) for number in range(len(law.tree.levels))]
    for number, (name, tables) in enumerate(zip(law.tree.levels, released, strict=True)):
        file = "table.csv" if number == 0 else level_file(number + 1)
        share = "" if chain.shares is None else f"{float(chain.shares[number]):.0%}"
        out.append((name, f"{len(tables):,}", file, share, f"{deviations[number]:.3g}", f"{(tables == 0).mean():.0%}"))
    return out


def level_deviation(chain: ChainPlan, number: int) -> float:
    """Return the standard deviation of a level's noise, before anything is conditioned on."""
    law = chain.law
    noise = law.top.family(law.top.queries[0].precision) if number == 0 else law.noises[number - 1]
    return sqrt(float(noise.variance))


@dataclass(frozen=True)
class LevelError:
    """What to expect at one level of a tree.

    Attributes
    ----------
    cell, total : float
        Mean absolute error of a unit's cell, and of its total.
    biases : tuple of (str, float)
        Mean error by size of the count.
    classes : tuple of ClassError
    """

    name: str
    cell: float
    total: float
    biases: tuple[tuple[str, float], ...]
    classes: tuple[ClassError, ...]


def level_errors(chain: ChainPlan, released: Sequence[Ints]) -> list[LevelError]:
    """Return the errors to expect at each level, from a chain around the release; none of a tree that is too large.

    The release is drawn around as if it were confidential; what is drawn comes from a public seed.
    """
    law, leaves = chain.law, released[-1]
    if sum(tables.size for tables in released) > MOST_NUMBERS:
        return []
    drawn = chain.draw(leaves, ChainWords.simulated(replay_rng("errors of a tree")))
    out = []
    for name, truth, again in zip(law.tree.levels, released, drawn, strict=True):
        gap = again - truth
        exact = gap.astype(np.float64)
        biases = [(words, float(gap[chosen].mean())) for words, chosen in by_size(truth, _SIZES)]
        total = float(np.abs(gap.sum(axis=1)).mean())
        found = tuple(classes(truth, exact, exact**2))
        out.append(LevelError(name, float(np.abs(gap).mean()), total, tuple(biases), found))
    return out


# The released tables as a report lays them out: one, or units to find and to open, those of one parent together.

_MOST_NUMBERS = 200_000  # in the page: about 4 MB
_MOST_TABLES = 5_000
_FEW_OF_MANY = 500  # of more tables than fit: nobody reads on, and a page is made in a tenth of the time
_MOST_EXACT = 20_000  # exact values in the page
_MOST_ROWS = 5_000  # of one table
_TOGETHER = 100  # areas without parents that stand under one heading, where there are more


@dataclass(frozen=True)
class Grid:
    """A table in two directions: a header, rows, and whether the last row sums the others up."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    ends_in_total: bool


def grids(schema: Schema, tables: Ints) -> "list[Markup]":
    """Lay tables (table, cell) out for a page; of very long ones their beginning."""
    lines = row_titles(schema)
    numbers = laid_out(schema, tables)[:, :_MOST_ROWS]
    header = [title.replace("%", "%%") for title in titles(schema)]
    rows = [[line.replace("%", "%%"), *["%s"] * numbers.shape[2]] for line in lines[:_MOST_ROWS]]
    pattern = Grid(header, rows, ends_in_total=1 < len(lines) <= _MOST_ROWS)
    return filled_in("grid.html", "grid", pattern, numbers.reshape(len(tables), -1).tolist())


@dataclass(frozen=True)
class Unit:
    """What one opens by its title: a table with what is exact of it, its parts, or both."""

    title: str
    grid: "Markup | None" = None
    exact: Sequence[tuple[str, str]] = ()
    parts: list["Unit"] = field(default_factory=list)
    more: str = ""


def units_of_areas(manifest: Manifest, tables: Ints) -> tuple[list[Unit], int]:
    """Return the areas, under their parents where the release names them, and how many were left out.

    Of many areas those with the most people are laid out, in the declared order.
    """
    law, places = manifest.law, _shown(manifest.law.schema, tables)
    labels = [str(law.areas.labels[place]) for place in places]
    laid = grids(law.schema, tables[places])
    units = [
        Unit(f"{label}: {int(tables[place].sum()):,}", grid, _exact(manifest, place, len(places)))
        for label, place, grid in zip(labels, places, laid, strict=True)
    ]
    left_out = len(tables) - len(places)
    if manifest.naming.parents:
        parents = list(_each(manifest.naming.parents))
        return _under(zip((parents[place] for place in places), units, strict=True)), left_out
    if len(units) <= _TOGETHER:
        return units, left_out
    out = []
    for start in range(0, len(units), _TOGETHER):
        some = units[start : start + _TOGETHER]
        out.append(Unit(f"{labels[start]} to {labels[start + len(some) - 1]}", parts=some))
    return out, left_out


def _exact(manifest: Manifest, place: int, n_shown: int) -> list[tuple[str, str]]:
    """Return what is exact of an area, if there is room for that of all areas."""
    if len(manifest.exactly) * n_shown > _MOST_EXACT:
        return []
    return [(exact.text, with_commas(exact.value(place))) for exact in manifest.exactly]


def _shown(schema: Schema, tables: Ints) -> list[int]:
    """Return which tables are laid out: all that fit, or of more than fit the largest, fewer of them."""
    n_shown = _n_shown(schema, len(tables))
    if n_shown == len(tables):
        return list(range(n_shown))
    largest = np.argsort(-tables.sum(axis=1), kind="stable")[: min(n_shown, _FEW_OF_MANY)]
    return sorted(largest.tolist())


def _n_shown(schema: Schema, n_tables: int) -> int:
    return min(n_tables, _MOST_TABLES, max(1, _MOST_NUMBERS // schema.n_cells))


def _each(runs: Iterable[tuple[str, int]]) -> Iterator[str]:
    for parent, n in runs:
        yield from [parent] * n


def _under(parts: Iterable[tuple[str, Unit]]) -> list[Unit]:
    """Put units under their parents, those in the order in which they come first."""
    found: dict[str, list[Unit]] = {}
    for parent, unit in parts:
        found.setdefault(parent, []).append(unit)
    return [Unit(f"{parent} ({len(units):,})", parts=units) for parent, units in found.items()]


def units_of_tree(manifest: Manifest, chain: ChainPlan, released: Sequence[Ints]) -> list[Unit]:
    """Return the units of the upper levels, each with its parts; levels of very many units stay in their files."""
    schema, tree = chain.law.top.schema, chain.law.tree
    n_levels = 1
    while n_levels < len(released):
        n_units = sum(map(len, released[: n_levels + 1]))
        if _n_shown(schema, n_units) < n_units:
            break
        n_levels += 1
    found: list[list[Unit]] = []
    for number, (name, codes, tables) in enumerate(zip(tree.levels, tree.codes, released, strict=True)):
        if number == n_levels:
            break
        more, n_shown = _more(chain, number, n_levels), _n_shown(schema, len(codes))
        laid = grids(schema, tables[:n_shown])
        found.append(
            [
                Unit(
                    f"{name} {code}: {int(table.sum()):,}",
                    grid,
                    () if number else _exact(manifest, place, n_shown),
                    more=more,
                )
                for place, (code, table, grid) in enumerate(zip(texts_of(codes[:n_shown]), tables, laid, strict=False))
            ]
        )
        if number:
            for unit, parent in zip(found[number], tree.parents[number - 1].tolist(), strict=True):
                found[number - 1][parent].parts.append(unit)
    return found[0]


def _more(chain: ChainPlan, number: int, n_levels: int) -> str:
    """Say where the parts of the lowest units in the page are."""
    levels = chain.law.tree.levels
    if number < n_levels - 1 or number == len(levels) - 1:
        return ""
    return f"its {levels[number + 1]} units are in {level_file(number + 2)}"


# What a release promises, in plain words: for the report and the README of a bundle.

SIMULATED = "NOT FOR RELEASE: a simulation. Its noise comes from a public seed and protects nobody."


def strength(manifest: Manifest) -> str:
    """Return whose records are counted, and what an observer can learn about one unit, in a few sentences."""
    text = str(meaning(manifest.certificate, manifest.plan.neighbourhood))
    if manifest.rows_per_unit > 1:
        most = f"up to {manifest.rows_per_unit} records, and all of them are covered"
        text = f"One {manifest.naming.unit} may have {most}. {text}"
    naming = manifest.naming
    counted = membership(naming.kept_rows, manifest.plan.neighbours, naming.unit)
    return " ".join([*counted, *left_unpublished(naming.unpublished, manifest.law.areas.name), text])


def weak(manifest: Manifest) -> str:
    """Return a warning where the loss is so large that hardly anybody is protected; nothing elsewhere."""
    return meaning(manifest.certificate, manifest.plan.neighbourhood).warning


def cost(manifest: Manifest) -> str:
    """Return the certified loss in words."""
    certificate = manifest.certificate
    return f"at most {certificate.amounts} for {certificate.per_record} ({certificate.neighbours} neighbours)"


def left(manifest: Manifest) -> str:
    """Return what the charge has left of the dataset's cap; nothing for a simulation."""
    receipt = manifest.receipt
    return "" if receipt is None else f"{shown_left(receipt.left, receipt.cap)} of {shown(receipt.cap)}"


def replaced(manifest: Manifest) -> list[str]:
    """Say which earlier release this one is the corrected edition of; nothing if it is a first one."""
    earlier = manifest.naming.replaces
    return [] if earlier is None else [f"A corrected edition: it replaces release {earlier}, which should not be used."]


def readme(manifest: Manifest) -> str:
    """Return README.txt: one page for an analyst."""
    law, has_csv = manifest.law, TABLE not in manifest.left_out
    tables = "one table" if len(law.areas) == 1 else f"{len(law.areas):,} tables, one for each {law.areas.name}"
    values = [f": {with_commas(exact.value())}" if law.areas.name is None else "" for exact in manifest.exactly]
    exact_lines = [
        f"  - {exact.text}{value}" + (f" ({exact.mandate})" if exact.mandate else "")
        for exact, value in zip(manifest.exactly, values, strict=True)
    ]
    listed = [
        *(
            [f"{PARQUET}   {'the same as Parquet' if has_csv else 'the released counts, a row a cell'}"]
            if PARQUET not in manifest.left_out
            else []
        ),
        *(
            [f"{REPORT}     the same with tables and pictures, to read in a browser"]
            if REPORT not in manifest.left_out
            else []
        ),
        *(
            [f"{AREAS}   the exact numbers of each area, as the manifest lists them"]
            if law.areas.name is not None
            else []
        ),
        *(
            [f"{EXACT_CELLS}   which cells of which areas follow from the exact numbers, so that nothing protects them"]
            if manifest.gives_cells_away and EXACT_CELLS not in manifest.left_out
            else []
        ),
        *(
            [f"{EXPECTED_ERRORS}   errors and biases to expect, by class of count and level"]
            if EXPECTED_ERRORS not in manifest.left_out
            else []
        ),
    ]
    chain = manifest.chain
    if chain is not None:
        sizes = [
            f"{len(codes):,} {name}" for name, codes in zip(chain.law.tree.levels, chain.law.tree.codes, strict=True)
        ]
        tables = f"a tree of {', '.join(sizes)} units, which add up: tables"
        files = [(level_file(number), name) for number, name in enumerate(chain.law.tree.levels[1:], 2)]
        listed = [
            *(f"{file} the released counts of each {name}, a row a unit" for file, name in files),
            f"{SPINE}   every {chain.law.tree.levels[-1]} with the units that it is part of",
            *listed,
        ]
    lines = [
        manifest.naming.title,
        "=" * min(len(manifest.naming.title), 79),
        "",
        *([SIMULATED, ""] if not manifest.is_for_release else []),
        f"Release {manifest.naming.release} of dataset {manifest.naming.dataset}, {manifest.made_at}.",
        *replaced(manifest),
        f"{tables[0].upper()}{tables[1:]} of {law.schema.n_cells:,} cells by {', '.join(law.schema.names)}.",
        "",
        "What it is",
        "  The counts carry random noise that protects individuals (differential privacy), drawn given the",
        "  numbers below, which are exact. Counts are whole, consistent, and follow one known probability law.",
        "",
        "Exact numbers",
        *(exact_lines or ["  none"]),
        *(f"  - {text}" for text in (*exact_below(manifest), *other_conditions(manifest))),
        "",
        "Privacy",
        f"  Certified loss: {cost(manifest)}.",
        *_wrapped(strength(manifest)),
        *_wrapped(weak(manifest)),
        "",
        "Files",
        *(["  table.csv       the released counts, a row a cell"] if has_csv else []),
        *(f"  {line}" for line in listed),
        "  manifest.json   schema, invariants, noise, certificate: it determines the law",
        "",
        "How to use it",
        *(
            [
                '  Read the counts in R:        x <- read.csv("table.csv", colClasses = "character")',
                "                               x$count <- as.numeric(x$count)" if _count(manifest) == "count" else "",
            ]
            if has_csv
            else [f'  Read the counts in R:        x <- arrow::read_parquet("{PARQUET}")']
        ),
        *(f"  {line}" for line in formula_warnings(law.schema, (law.areas.name, *law.areas))),
        "  Do not treat the counts as exact: small cells are biased upward because counts are not negative.",
        "  Check that nothing was changed:   congenial verify THIS_FOLDER",
        '  Honest intervals from Python:     import congenial; congenial.load_bundle("THIS_FOLDER")',
        "",
        f"Made by {', '.join(f'{name} {version}' for name, version in manifest.software.items())}.",
        "",
    ]
    return "\n".join(lines)


def other_conditions(manifest: Manifest) -> list[str]:
    """Return limits and structural zeros: what tables obey without a number that came out exactly."""
    law = manifest.law
    nothing = [0] * law.schema.n_cells
    others = [condition for condition in manifest.conditions if not condition.exact_values(law.schema, nothing)]
    return [_with_mandate(condition, condition.title) for condition in others]


def exact_below(manifest: Manifest) -> list[str]:
    """Return what is exact in every unit of levels below the top of a tree."""
    below = {} if manifest.chain is None else manifest.chain.invariants_below
    return [
        _with_mandate(condition, f"{condition.title}, of every {level}")
        for level, conditions in below.items()
        for condition in conditions
    ]


def _with_mandate(condition: Condition, text: str) -> str:
    return f"{text} ({condition.mandate})" if condition.mandate else text


def _count(manifest: Manifest) -> str:
    return header_of(manifest.law)[-1]


def _wrapped(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, 96)]


AROUND = "the released tables"

_FEW = 20  # tables that one finds without typing


def report(
    manifest: Manifest,
    tables: Ints,
    parts: Mapping[str, object] | None = None,
    below: Sequence[Ints] = (),
) -> str:
    """Return the page; where a part was left out, it says why.

    Parameters
    ----------
    below : sequence of arrays (unit, cell)
        Of a tree, the tables of each level below the top.
    tables : array (area, cell)
    parts : mapping, optional
        What `PARTS` make, if that was made already.
    """
    if parts is None:
        parts = parts_of(manifest, tables, below)
    released = [tables, *below]
    if manifest.chain is not None:
        units, left_out = units_of_tree(manifest, manifest.chain, released), 0
    else:
        units, left_out = units_of_areas(manifest, tables)
    return render(
        "report.html",
        title=manifest.naming.title,
        manifest=manifest,
        replaced=replaced(manifest),
        receipt_left=left(manifest),
        law=manifest.law,
        cost=cost(manifest),
        strength=strength(manifest),
        weak=weak(manifest),
        noise=manifest.plan.noise_text,
        not_protected=(manifest.chain or manifest.plan).not_protected_text,
        given_away=level_sentences(manifest.reviews, manifest.naming.unit),
        n_given_away=sum(found.counted.n_exact for found in manifest.reviews),
        has_exact_cells=manifest.gives_cells_away and EXACT_CELLS not in manifest.left_out,
        conditions=other_conditions(manifest),
        exact_below=exact_below(manifest),
        simulated=SIMULATED,
        noise_picture=parts.get(REPORT_PICTURE, ""),
        no_picture=manifest.left_out.get(REPORT_PICTURE),
        exactly=[(exact.text, with_commas(exact.value()), exact.mandate or "") for exact in manifest.exactly],
        is_one=manifest.law.areas.name is None and manifest.chain is None,
        units=units,
        unit_words=_unit_words(manifest, units),
        script=inline_script("find.js") if _n_units(units) > _FEW else None,
        left_out=left_out,
        table_file=PARQUET if TABLE in manifest.left_out else TABLE,
        errors=errors.lines if isinstance(errors := parts.get(REPORT_ERRORS), ErrorsToExpect) else [],
        sums=_sums(parts.get(REPORT_ERRORS)),
        no_errors=manifest.left_out.get(REPORT_ERRORS),
        most_numbers=MOST_NUMBERS,
        certificate=manifest.certificate,
        amounts=_amounts(manifest),
        levels=[] if manifest.chain is None else level_lines(manifest.chain, released),
    )


def parts_of(manifest: Manifest, tables: Ints, below: Sequence[Ints] = ()) -> dict[str, object]:
    """Make every part of the report that was not left out."""
    return {name: make(manifest, tables, below) for name, make in PARTS.items() if name not in manifest.left_out}


def _n_units(units: Sequence[Unit]) -> int:
    return sum(1 + _n_units(unit.parts) for unit in units)


def _unit_words(manifest: Manifest, units: Sequence[Unit]) -> str:
    """Return what one finds among the tables of the page, in words."""
    if manifest.chain is None:
        return f"a {manifest.law.areas.name}"
    *most, last = manifest.chain.law.tree.levels[: _depth(units)]
    return f"a {', a '.join(most)} or a {last}" if most else f"a {last}"


def _depth(units: Sequence[Unit]) -> int:
    return 1 + max((_depth(unit.parts) for unit in units), default=0) if units else 0


def _amounts(manifest: Manifest) -> list[tuple[str, str]]:
    certificate = manifest.certificate
    named = [
        ("pure epsilon", certificate.loss),
        (f"rho at {certificate.orders} orders", certificate.rho),
        ("rho at all orders", certificate.rho_at_all_orders if certificate.orders != "all" else None),
        ("one record with the same noise and no invariants", certificate.loss_without_invariants),
    ]
    return [(name, f"{float(value):.10g}") for name, value in named if value is not None]


def _noise_picture(manifest: Manifest, _: Ints, __: Sequence[Ints]) -> str:
    laws = {}
    for query in manifest.law.queries:
        if query.precision:
            text = query.text if manifest.chain is None else f"cells of a {manifest.chain.law.tree.levels[0]}"
            laws[text] = _law_of(manifest.law.family(query.precision))
    if manifest.chain is not None:
        for name, noise in zip(manifest.chain.law.tree.levels[1:], manifest.chain.law.noises, strict=True):
            laws[f"cells of a {name}"] = _law_of(noise)
    return noise_laws(dict(islice(laws.items(), 7)))


def _law_of(noise: Noise) -> tuple[Ints, Floats]:
    reach = max(3, int(np.ceil(4 * float(noise.variance) ** 0.5)))
    u = np.arange(-reach, reach + 1) if reach <= 200 else np.linspace(-reach, reach, 401).astype(np.int64)
    return u, noise.pmf(u)


@dataclass(frozen=True)
class ErrorsToExpect:
    """What the release is off by, around itself: of typical areas or of levels in words, and what sums are off by."""

    lines: Sequence[dict[str, Any] | LevelError]
    levels: list[tuple[str, AddingUp]]


def expected_errors(manifest: Manifest, tables: Ints, below: Sequence[Ints]) -> ErrorsToExpect:
    """Return the errors to expect, computed around the released tables."""
    if manifest.chain is not None:
        found = level_errors(manifest.chain, [tables, *below])
        units = [len(codes) for codes in manifest.chain.law.tree.codes]
        own = [(line.name, AddingUp(AROUND, n, n, (), line.classes)) for n, line in zip(units, found, strict=False)]
        return ErrorsToExpect(found, own)
    lines: list[dict[str, Any]] = []
    for place in typical_places(tables.sum(axis=1)):
        error = expected_error(manifest.plan, manifest.law.areas.labels[place], tables[place], AROUND)
        lines.append(_error_lines(manifest, error, tables[place]))
    return ErrorsToExpect(lines, [(manifest.law.areas.name or "table", adding_up(manifest.plan, tables, AROUND))])


def expected_errors_csv(
    manifest: Manifest, tables: Ints, below: Sequence[Ints], parts: Mapping[str, object] | None = None
) -> bytes:
    """Return expected-errors.csv, from the part of the report if that was made already."""
    made = (parts or {}).get(REPORT_ERRORS)
    found = made if isinstance(made, ErrorsToExpect) else expected_errors(manifest, tables, below)
    return errors_csv(found.levels)


def _sums(errors: object) -> dict[str, Any] | None:
    """Return what the page says of sums over areas; nothing of a tree, whose levels add up."""
    if not isinstance(errors, ErrorsToExpect) or not errors.levels or not errors.levels[0][1].sums:
        return None
    found = errors.levels[0][1]
    return {
        "warnings": adding_up_text.warning_lines(found),
        "around": adding_up_text.around(found),
        "sums": Grid(*adding_up_text.sums_table(found), ends_in_total=False),
        "classes": Grid(*adding_up_text.classes_table(found), ends_in_total=False),
    }


def _error_lines(manifest: Manifest, error: ExpectedError, counts: Ints) -> dict[str, Any]:
    """Sum the errors up: cells by the size of their released count, then the margins."""
    where = "" if error.area is None else f" of {manifest.law.areas.name} {error.area}"
    lines = []
    for name, chosen in by_size(counts, (0, 1, 5, 10, 50, 100, 1_000)) if len(error.cells) else ():
        found = error.cells[chosen]
        lines.append((name, f"{int(chosen.sum()):,}", f"{found.mean():,.2f}", f"{found.max():,.2f}"))
    margins = [(name, "exact" if value < NO_ERROR else f"{value:,.2f}") for name, value in error.margins]
    return {"where": where, "cells": lines, "margins": margins, "total": f"{int(counts.sum()):,}"}


PARTS: dict[str, Callable[[Manifest, Ints, Sequence[Ints]], object]] = {
    REPORT_ERRORS: expected_errors,
    REPORT_PICTURE: _noise_picture,
}
"""What the report can do without, by its name in the manifest's `left_out`."""
