"""report.html: one offline page about a release, made from the manifest and the released tables alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle import promises
from congenial.bundle.expected_error import NO_ERROR, ExpectedError, by_size, expected_error, typical_places
from congenial.bundle.file_names import REPORT_ERRORS, REPORT_PICTURE
from congenial.bundle.manifest import Manifest
from congenial.bundle.tree_report import level_errors, level_lines, walk
from congenial.conditions.areas import Area
from congenial.display import as_grid
from congenial.noise import Noise
from congenial.page import render
from congenial.pictures.drawing import as_svg
from congenial.pictures.noise import noise_laws

_WHOLE_TABLES = 100  # areas whose tables are laid out by themselves
_PAGE_OF_AREAS = 100
_MOST_NUMBERS = 300_000  # numbers in the page: about 3 MB
_MOST_EXACT = 20_000  # exact values in the page


@dataclass(frozen=True)
class _Sheet:
    """Some tables in the page: a summary to click on, a header, rows, and whether the last row sums the others up."""

    summary: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    ends_in_total: bool = False


def report(
    manifest: Manifest,
    tables: Mapping[Area, Ints],
    parts: Mapping[str, object] | None = None,
    below: Sequence[Ints] = (),
) -> str:
    """Return the page; where a part was left out, it says why.

    Parameters
    ----------
    below : sequence of arrays (unit, cell)
        Of a tree, the tables of each level below the top.
    parts : mapping, optional
        What `PARTS` make, if that was made already.
    """
    if parts is None:
        parts = {name: make(manifest, tables, below) for name, make in PARTS.items() if name not in manifest.left_out}
    released = [np.stack(list(tables.values())), *below]
    sheets, left_out = _sheets(manifest, tables)
    return render(
        "report.html",
        title=manifest.naming.title,
        manifest=manifest,
        replaced=promises.replaced(manifest),
        receipt_left=promises.left(manifest),
        law=manifest.law,
        cost=promises.cost(manifest),
        strength=promises.strength(manifest),
        noise=manifest.plan.noise_text,
        not_protected=(manifest.chain or manifest.plan).not_protected_text,
        conditions=promises.other_conditions(manifest),
        exact_below=promises.exact_below(manifest),
        simulated=promises.SIMULATED,
        noise_picture=parts.get(REPORT_PICTURE, ""),
        no_picture=manifest.left_out.get(REPORT_PICTURE),
        exactly=[
            (exact.text, _grouped(next(iter(exact.values.values()))), exact.mandate or "") for exact in manifest.exactly
        ],
        exact_by_area=_exact_by_area(manifest),
        sheets=sheets,
        left_out=left_out,
        errors=parts.get(REPORT_ERRORS, []),
        no_errors=manifest.left_out.get(REPORT_ERRORS),
        certificate=manifest.certificate,
        amounts=_amounts(manifest),
        levels=[] if manifest.chain is None else level_lines(manifest.chain, released),
        units=[] if manifest.chain is None else walk(manifest.chain, released),
    )


def _exact_by_area(manifest: Manifest) -> _Sheet | None:
    """Lay the exact values of several areas out, a line an area; as many areas as fit."""
    law, exactly = manifest.law, manifest.exactly
    if law.areas.name is None or not exactly:
        return None
    shown = law.areas.labels[: max(1, _MOST_EXACT // len(exactly))]
    more = f"; the first {len(shown):,}, the others are in areas.parquet" if len(shown) < len(law.areas) else ""
    rows = [[str(area), *(_grouped(exact.values[area]) for exact in exactly)] for area in shown]
    header = [law.areas.name, *(exact.text for exact in exactly)]
    return _Sheet(f"Their values for each {law.areas.name}{more}", header, rows)


def _grouped(value: str) -> str:
    """Write a whole number with commas; a value in words as it is."""
    return f"{int(value):,}" if value.removeprefix("-").isdecimal() else value


def _amounts(manifest: Manifest) -> list[tuple[str, str]]:
    certificate = manifest.certificate
    named = [
        ("pure epsilon", certificate.loss),
        (f"rho at {certificate.orders} orders", certificate.rho),
        ("rho at all orders", certificate.rho_at_all_orders if certificate.orders != "all" else None),
        ("one record with the same noise and no invariants", certificate.loss_without_invariants),
    ]
    return [(name, f"{float(value):.10g}") for name, value in named if value is not None]


def _noise_picture(manifest: Manifest, _: Mapping[Area, Ints], __: Sequence[Ints]) -> str:
    laws = {}
    for query in manifest.law.queries:
        if query.precision:
            text = query.text if manifest.chain is None else f"cells of a {manifest.chain.law.tree.levels[0]}"
            laws[text] = _law_of(manifest.law.family(query.precision))
    if manifest.chain is not None:
        for name, noise in zip(manifest.chain.law.tree.levels[1:], manifest.chain.law.noises, strict=True):
            laws[f"cells of a {name}"] = _law_of(noise)
    return as_svg(noise_laws(dict(islice(laws.items(), 7))))


def _law_of(noise: Noise) -> tuple[Ints, Floats]:
    reach = max(3, int(np.ceil(4 * float(noise.variance) ** 0.5)))
    u = np.arange(-reach, reach + 1) if reach <= 2_000 else np.linspace(-reach, reach, 801).astype(np.int64)
    return u, noise.pmf(u)


def _sheets(manifest: Manifest, tables: Mapping[Area, Ints]) -> tuple[list[_Sheet], int]:
    """Lay the tables out: each by itself while there are few, else a line an area, in pages; as many as fit."""
    law = manifest.law
    n_shown = min(len(tables), max(1, _MOST_NUMBERS // law.schema.n_cells))
    shown = list(islice(tables.items(), n_shown))
    if len(tables) <= _WHOLE_TABLES:
        sheets = []
        for area, counts in shown:
            header, rows = as_grid(law.schema, counts)
            down = [name for name in law.schema.names if not header[1].startswith(f"{name}=")]
            summary = "" if area is None else f"{area}: {int(counts.sum()):,}"
            sheets.append(_Sheet(summary, [", ".join(down), *header[1:]], rows[:5_000], 1 < len(rows) <= 5_000))
        return sheets, len(tables) - n_shown
    header = [law.areas.name or "", "total", *(law.schema.cell_name(cell) for cell in range(law.schema.n_cells))]
    pages = []
    for start in range(0, len(shown), _PAGE_OF_AREAS):
        page = shown[start : start + _PAGE_OF_AREAS]
        rows = [[str(area), f"{int(counts.sum()):,}", *(str(n) for n in counts.tolist())] for area, counts in page]
        pages.append(_Sheet(f"{law.areas.name} {page[0][0]} to {page[-1][0]}", header, rows))
    return pages, len(tables) - n_shown


def _expected_errors(manifest: Manifest, tables: Mapping[Area, Ints], below: Sequence[Ints]) -> list[dict[str, object]]:
    if manifest.chain is not None:
        return level_errors(manifest.chain, [np.stack(list(tables.values())), *below])
    sizes = np.array([counts.sum() for counts in tables.values()])
    typical = [manifest.law.areas.labels[place] for place in typical_places(sizes)]
    errors = [expected_error(manifest.plan, area, tables[area], "the released table") for area in typical]
    return [_error_lines(manifest, error, tables[error.area]) for error in errors]


def _error_lines(manifest: Manifest, error: ExpectedError, counts: Ints) -> dict[str, object]:
    """Sum the errors up: cells by the size of their released count, then the margins."""
    where = "" if error.area is None else f" of {manifest.law.areas.name} {error.area}"
    lines = []
    for name, chosen in by_size(counts, (0, 1, 5, 10, 50, 100, 1_000)) if len(error.cells) else ():
        found = error.cells[chosen]
        lines.append((name, str(int(chosen.sum())), f"{found.mean():.2f}", f"{found.max():.2f}"))
    margins = [(name, "exact" if value < NO_ERROR else f"{value:.2f}") for name, value in error.margins]
    return {"where": where, "cells": lines, "margins": margins, "total": f"{int(counts.sum()):,}"}


PARTS: dict[str, Callable[[Manifest, Mapping[Area, Ints], Sequence[Ints]], object]] = {
    REPORT_ERRORS: _expected_errors,
    REPORT_PICTURE: _noise_picture,
}
"""What the report can do without, by its name in the manifest's `left_out`."""
