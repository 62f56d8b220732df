"""report.html: one offline page about a release, made from the manifest and the released tables alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle import adding_up_text, promises
from congenial.bundle.adding_up import AddingUp, adding_up
from congenial.bundle.adding_up_text import errors_csv
from congenial.bundle.exact_numbers import with_commas
from congenial.bundle.expected_error import NO_ERROR, ExpectedError, by_size, expected_error, typical_places
from congenial.bundle.file_names import EXACT_CELLS, PARQUET, REPORT_ERRORS, REPORT_PICTURE, TABLE
from congenial.bundle.manifest import Manifest
from congenial.bundle.tree_report import MOST_NUMBERS, LevelError, level_errors, level_lines
from congenial.bundle.walk import Grid, Unit, units_of_areas, units_of_tree
from congenial.noise import Noise
from congenial.page import own_script, render
from congenial.pictures.noise import noise_laws
from congenial.privacy.review_text import level_sentences

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
        replaced=promises.replaced(manifest),
        receipt_left=promises.left(manifest),
        law=manifest.law,
        cost=promises.cost(manifest),
        strength=promises.strength(manifest),
        weak=promises.weak(manifest),
        noise=manifest.plan.noise_text,
        not_protected=(manifest.chain or manifest.plan).not_protected_text,
        given_away=level_sentences(manifest.reviews, manifest.naming.unit),
        n_given_away=sum(found.counted.n_exact for found in manifest.reviews),
        has_exact_cells=manifest.gives_cells_away and EXACT_CELLS not in manifest.left_out,
        conditions=promises.other_conditions(manifest),
        exact_below=promises.exact_below(manifest),
        simulated=promises.SIMULATED,
        noise_picture=parts.get(REPORT_PICTURE, ""),
        no_picture=manifest.left_out.get(REPORT_PICTURE),
        exactly=[(exact.text, with_commas(exact.value()), exact.mandate or "") for exact in manifest.exactly],
        is_one=manifest.law.areas.name is None and manifest.chain is None,
        units=units,
        unit_words=_unit_words(manifest, units),
        script=own_script("find.js") if _n_units(units) > _FEW else None,
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
