"""`congenial check`: whether the spec is right and the data fit it."""

from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.output import as_json_option, progress_bar, refusals_in_words, say, show_grid, show_json, show_table
from congenial.errors import ReadingError, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from congenial.curator.preview_text import Section
    from congenial.ledger.records import Spend


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--spec-only", is_flag=True, help="Do not read the data.")
@as_json_option
@refusals_in_words
def check(spec: Path, spec_only: bool, as_json: bool) -> None:
    """Check SPEC and the files it names, public lists and data. Nothing is spent, nothing is shown of the data."""
    from congenial.bundle.table_files import formula_warnings
    from congenial.curator.pipeline import disclose
    from congenial.reading.files import public_files
    from congenial.reading.tree import read_spine
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


# `congenial init`: a commented starter spec for a data file.


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("spec.yaml"), show_default=True, help="File to write."
)
@as_json_option
@refusals_in_words
def init(data: Path, out: Path, as_json: bool) -> None:
    """Write a commented starter spec for DATA, a CSV or Parquet file.

    Only the names of its columns are looked at. Levels are yours to declare: what occurs in confidential data is
    confidential itself.
    """
    from congenial.reading.starter import starter_spec

    text = starter_spec(data, out.parent)
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ReadingError(f"{out} is there already; name another file with --out") from None
    except OSError as refused:
        raise ReadingError(f"{out} cannot be written: {reason_of(refused)}") from None
    if as_json:
        show_json({"spec": str(out)})
    else:
        say(f"{out} is written; fill in what it marks, then: congenial check {out}")


# `congenial plan`: what a release will publish, cost and protect, before it is made.


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="A public file of the data's shape, such as last year's: errors and biases are computed around it.",
)
@click.option("--list", "is_listed", is_flag=True, help="List every cell that the invariants give away, in a file.")
@click.option("--full", is_flag=True, help="Show what an expert asks for as well: proof, noise, sampler, every number.")
@click.option(
    "--target-error",
    type=float,
    help="Say which budget would reach this root mean squared error, in people, around the public table.",
)
@click.option(
    "--target-of",
    type=click.Choice(["cells", "margins", "areas"]),
    default="cells",
    show_default=True,
    help="Whose error: single cells, numbers by a single dimension, or cells added up over all areas.",
)
@click.option(
    "--ledger",
    "place",
    help="A budget ledger: says which numbers earlier releases of the dataset have published. Nothing is charged.",
)
@as_json_option
@refusals_in_words
def plan(
    spec: Path,
    reference: Path | None,
    is_listed: bool,
    full: bool,
    target_error: float | None,
    target_of: str,
    place: str | None,
    as_json: bool,
) -> None:
    """Show what SPEC will publish, what it costs, what stays protected and how large errors are. Nothing is spent.

    Of the data, only the values of the invariants enter.
    """
    from congenial.curator import preview_text
    from congenial.curator.alternatives import ErrorTarget
    from congenial.curator.preview import preview, write_disclosed_cells
    from congenial.spec.load import load_spec

    stated = load_spec(spec)
    spends = () if place is None else _earlier(place, stated.dataset)
    target = None if target_error is None else ErrorTarget(target_error, target_of)
    with progress_bar(f"planning {spec.name}") as step:
        found = preview(stated, spec.absolute().parent, reference, target=target, progress=step)
        step("errors to expect and what each exact number costs")
        values: Any = preview_text.as_json(found) if as_json else preview_text.screen(found, full=full)
        levels = found.level_table
    before = preview_text.published_before(found, spends) if spends else None
    if is_listed:
        where = write_disclosed_cells(stated, spec.absolute().parent, found.reviews)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    if as_json:
        show_json(values | _as_json(before))
        return
    _show([*values, *_some(before)])
    if levels is not None:
        show_table(*levels)
    if not full:
        say("What is proven, the noise, and the error of every number: --full.")


def _earlier(place: str, dataset: str) -> "Sequence[Spend]":
    """Return what was charged to a dataset so far; nothing if the ledger does not know it yet."""
    from congenial.ledger import open_ledger

    ledger = open_ledger(place)
    return ledger.history(dataset) if dataset in [known.name for known in ledger.datasets()] else ()


def _some(section: "Section | None") -> "list[Section]":
    return [] if section is None else [section]


def _as_json(before: "Section | None") -> dict[str, list[str]]:
    return {"published_before": [] if before is None else list(before.lines)}


def _show(sections: "list[Section]") -> None:
    for section in sections:
        say(section.heading, bold=True)
        for number, line in enumerate(section.lines):
            say(*_wrapped(line), bold=number < section.n_bold)
        say(*(f"  {line}" for line in section.aligned))
        say("")


def _wrapped(line: str) -> list[str]:
    return wrap(line, 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


# `congenial demo`: the P12 example of Gong and Meng released from its spec, and both tables side by side.


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), help="New folder for the demo. Default: congenial-demo, or the next free."
)
@as_json_option
@refusals_in_words
def demo(out: Path | None, as_json: bool) -> None:
    """Release Gong and Meng's P12 example: a spec, its data, a budget ledger and a bundle, in a new folder.

    The confidential table is the simulated one that the paper prints, so showing it discloses nothing.
    """
    from congenial.bundle.manifest import with_commas
    from congenial.curator.pipeline import demonstrate
    from congenial.examples import p12_table

    folder = _free(Path("congenial-demo")) if out is None else out
    with progress_bar("demo") as step:
        made = demonstrate(folder, progress=step)
    released = made.bundle.tables[None]
    if as_json:
        show_json({"bundle": str(made.folder), "ledger": str(made.ledger), "counts": released.tolist()})
        return
    show_grid(_side_by_side(p12_table().counts.reshape(2, -1).tolist(), released.reshape(2, -1).tolist()), width=100)
    say(f"Charged to the ledger {made.ledger}: {made.account}.")
    rows = ", ".join(f"{exact.text} {with_commas(exact.value())}" for exact in made.bundle.manifest.exact_statistics)
    say(f"Every invariant holds in the released table: {rows}, no negative count.", bold=True)
    say(f"The bundle is verified: {made.folder}; open {made.folder / 'report.html'}")


def _free(wanted: Path) -> Path:
    """Return the folder, or the first of wanted-2, wanted-3, ... that does not exist."""
    number, folder = 1, wanted
    while folder.exists():
        number += 1
        folder = wanted.with_name(f"{wanted.name}-{number}")
    return folder


def _side_by_side(confidential: list[list[int]], released: list[list[int]]) -> "Table":
    """Lay both tables out by age, the invariants in bold."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from congenial.examples import P12_AGES, P12_VOTING_AGES

    title = "Census table P12 (Gong and Meng 2020, Table 1); invariants in bold"
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("age")
    for heading in ("confidential\nfemale", "\nmale", "\nboth", "released\nfemale", "\nmale", "\nboth"):
        grid.add_column(heading, justify="right")

    def line(name: str, ages: range, bold: tuple[bool, bool, bool]) -> None:
        numbers = []
        for table in (confidential, released):
            female, male = (sum(table[sex][age] for age in ages) for sex in (0, 1))
            marked = zip((female, male, female + male), bold, strict=True)
            numbers += [Text(str(number), style="bold" if is_bold else "") for number, is_bold in marked]
        grid.add_row(name, *numbers)

    n_ages, n_young = len(P12_AGES), len(P12_AGES) - len(P12_VOTING_AGES)
    for age, label in enumerate(P12_AGES):
        line(label, range(age, age + 1), (False, False, False))
    grid.add_section()
    line("under 18", range(n_young), (False, False, True))
    line("voting age", range(n_young, n_ages), (False, False, True))
    line("all ages", range(n_ages), (True, True, True))
    return grid


# `congenial simulate`: a bundle that looks like a release and is marked as none.


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: NOT-FOR-RELEASE-<release>.")
@click.option("--seed", type=int, default=1, show_default=True, help="Public: the same seed gives the same tables.")
@as_json_option
@refusals_in_words
def simulate(spec: Path, out: Path | None, seed: int, as_json: bool) -> None:
    """Make a bundle from public or simulated data and a public seed. Nothing is charged, nobody is protected."""
    from congenial.curator.pipeline import simulate as run
    from congenial.spec.load import load_spec

    found = load_spec(spec)
    folder = Path(f"NOT-FOR-RELEASE-{found.release}") if out is None else out
    with progress_bar("simulating") as step:
        made = run(found, spec.absolute().parent, folder, seed=seed, progress=step)
    if as_json:
        show_json({"bundle": str(made.folder), "is_for_release": False})
    else:
        say(f"NOT FOR RELEASE: a simulation in {made.folder}")
