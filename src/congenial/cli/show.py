"""`congenial show`: a bundle's tables and facts in the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table

if TYPE_CHECKING:
    from congenial.bundle.loading import Bundle

_MOST_UNITS = 100


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--area", help="Which area's table to show; the first when not given.")
@click.option("--level", help="Of a tree: show the units of this level, a line each.")
@click.option("--within", help="With --level: only units whose codes begin so.", default="")
@as_json_option
@refusals_in_words
def show(bundle: Path, area: str | None, level: str | None, within: str, as_json: bool) -> None:
    """Show what BUNDLE publishes: exact numbers, privacy, and a table. It is verified first."""
    from congenial.bundle import promises
    from congenial.bundle.exact_numbers import with_commas
    from congenial.bundle.loading import load_bundle
    from congenial.bundle.table_csv import formula_warnings
    from congenial.display import as_text
    from congenial.errors import BundleError, did_you_mean

    found = load_bundle(bundle)
    manifest = found.manifest
    if level is not None:
        _show_level(found, level, within, as_json=as_json)
        return
    if area is not None and area not in found.tables:
        known = [name for name in found.tables if name is not None]
        raise BundleError(
            f"the bundle has no area {area!r}; {did_you_mean(area, known) if known else 'it has one table'}"
        )
    chosen = area if area is not None else next(iter(found.tables))
    place = found.law.areas.places[chosen]
    if as_json:
        show_json(
            {
                "release": manifest.naming.release,
                "dataset": manifest.naming.dataset,
                "replaces": manifest.naming.replaces,
                "made_at": manifest.made_at,
                "is_for_release": manifest.is_for_release,
                "not_checked": found.not_checked,
                "cost": promises.cost(manifest),
                "exactly": [
                    {"text": exact.text, "mandate": exact.mandate, "value": exact.value(place)}
                    for exact in manifest.exactly
                ],
                "area": chosen,
                "counts": found.tables[chosen].tolist(),
            }
        )
        return
    say(manifest.naming.title, bold=True)
    say(str(found))
    say(*promises.replaced(manifest))
    for line in found.not_checked:
        say(f"NOT checked: {line}", bold=True)
    if not manifest.is_for_release:
        say(promises.SIMULATED, bold=True)
    say(f"Privacy loss {promises.cost(manifest)}.")
    for line in manifest.plan.noise_text:
        say(f"Noise on {line}.")
    if manifest.exactly:
        say("Exact:")
        for exact in manifest.exactly[:40]:
            mandate = f"  ({exact.mandate})" if exact.mandate else ""
            say(f"  {exact.text}: {with_commas(exact.value(place))}{mandate}")
    say(*formula_warnings(manifest.law.schema, (manifest.law.areas.name, *manifest.law.areas)))
    where = "" if chosen is None else f" of {manifest.law.areas.name} {chosen}"
    say("", f"Released table{where}:")
    say(*as_text(manifest.law.schema, found.tables[chosen]).split("\n"))


def _show_level(found: "Bundle", level: str, within: str, *, as_json: bool) -> None:
    codes, tables = found.level(level)
    chosen = [place for place, code in enumerate(codes) if code.startswith(within)]
    names = [found.law.schema.cell_name(cell) for cell in range(found.law.schema.n_cells)]
    if as_json:
        show_json({"level": level, "cells": names, "units": {codes[place]: tables[place].tolist() for place in chosen}})
        return
    shown = chosen[:_MOST_UNITS]
    rows = [
        [codes[place], f"{int(tables[place].sum()):,}", *(f"{n:,}" for n in tables[place].tolist())] for place in shown
    ]
    show_table([level, "total", *names], rows, f"{len(chosen):,} {level} units")
    if len(chosen) > len(shown):
        say(f"These are the first {len(shown)}; --within with the beginning of a code shows others.")
