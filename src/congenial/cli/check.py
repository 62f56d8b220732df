"""`congenial check`: whether the spec is right and the data fit it."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--spec-only", is_flag=True, help="Do not read the data.")
@as_json_option
@refusals_in_words
def check(spec: Path, spec_only: bool, as_json: bool) -> None:
    """Check SPEC and the data it names. Nothing is spent, nothing is shown of the data."""
    from congenial.bundle.table_csv import formula_warnings
    from congenial.spec.load import load_spec

    found = load_spec(spec)
    if not spec_only:
        from congenial.curator.pipeline import disclose

        disclose(found, spec.absolute().parent)
    areas = 1 if found.areas is None else len(found.areas)
    warnings = formula_warnings(found.schema, () if found.by is None else (found.by.name, *found.by.labels))
    if as_json:
        show_json(
            {
                "release": found.release,
                "dataset": found.dataset,
                "tables": areas,
                "cells": found.schema.n_cells,
                "data_read": not spec_only,
                "warnings": warnings,
            }
        )
        return
    what = "one table" if areas == 1 else f"{areas:,} tables"
    if found.hierarchy is not None:
        what = f"a tree of {', '.join(found.hierarchy.names)} tables"
    named = f"release {found.release!r} of dataset {found.dataset!r}"
    say(f"The spec is right: {named}, {what} of {found.schema.n_cells:,} cells.")
    say(*warnings)
    say("The data were not read." if spec_only else "The data fit it. Nothing was spent.")
