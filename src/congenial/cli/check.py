"""`congenial check`: whether the spec is right and the data fit it."""

from dataclasses import asdict
from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--spec-only", is_flag=True, help="Do not read the data.")
@as_json_option
@refusals_in_words
def check(spec: Path, spec_only: bool, as_json: bool) -> None:
    """Check SPEC and the files it names, public lists and data. Nothing is spent, nothing is shown of the data."""
    from congenial.bundle.table_csv import formula_warnings
    from congenial.curator.pipeline import disclose
    from congenial.reading.public_files import public_files
    from congenial.reading.spine import read_spine
    from congenial.spec.load import load_spec

    found, folder = load_spec(spec), spec.absolute().parent
    files = public_files(found, folder)
    if not spec_only:
        disclose(found, folder)
    elif found.hierarchy is not None:
        read_spine(found.hierarchy, found.schema.n_cells, folder)
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
                "public_files": [asdict(file) for file in files],
                "warnings": warnings,
            }
        )
        return
    what = "one table" if areas == 1 else f"{areas:,} tables"
    if found.hierarchy is not None:
        what = f"a tree of {', '.join(found.hierarchy.names)} tables"
    named = f"release {found.release!r} of dataset {found.dataset!r}"
    say(f"The spec is right: {named}, {what} of {found.schema.n_cells:,} cells.")
    for file in files:
        say(f"{file.name} gives {file.gives}; its SHA-256 is {file.sha256}.")
    say(*warnings)
    say("The data were not read." if spec_only else "The data fit it. Nothing was spent.")
