"""Commands of a curator before a release: check, init, plan, demo, simulate, workbench."""

from dataclasses import asdict
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.command_and_output import (
    command,
    progress_bar,
    say,
    show_json,
    show_result,
    show_rich_table,
    show_table,
    spec_argument,
)
from congenial.cli.release_withdraw_keygen import ledger_option, user_name, who_option
from congenial.errors import CongenialError, ReadingError, reason_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from congenial.curator.sections import Section
    from congenial.ledger.records import Spend


@command
@spec_argument
@click.option("--spec-only", is_flag=True, help="Do not read the data.")
def check(spec: Path, spec_only: bool, as_json: bool) -> None:
    """Check SPEC and the files it names, public lists and data. Nothing is spent, nothing is shown of the data."""
    from congenial.bundle.table_files import formula_warnings
    from congenial.curator.pipeline import disclose
    from congenial.reading.files_and_columns import public_files
    from congenial.reading.leaf_list import read_spine
    from congenial.spec.load import load_spec

    loaded, folder = load_spec(spec), spec.absolute().parent
    files = public_files(loaded, folder)
    if not spec_only:
        disclose(loaded, folder)
    elif loaded.hierarchy is not None:
        read_spine(loaded.hierarchy, loaded.schema.n_cells, folder)
    areas = 1 if loaded.areas is None else len(loaded.areas)
    warnings = formula_warnings(loaded.schema, () if loaded.by is None else (loaded.by.name, *loaded.by.labels))
    if as_json:
        show_json(
            {
                "release": loaded.release,
                "dataset": loaded.dataset,
                "tables": areas if loaded.tables is None else len(loaded.workload.tables),
                "cells": loaded.schema.n_cells,
                "data_read": not spec_only,
                "public_files": [asdict(file) for file in files],
                "warnings": warnings,
            }
        )
        return
    what = "one table" if areas == 1 else f"{areas:,} tables"
    if len(loaded.level_names) > 1:
        what = f"a tree of {', '.join(loaded.level_names)} tables"
    of = f"of {loaded.schema.n_cells:,} cells"
    if loaded.tables is not None:
        names = [table.name for table in loaded.workload.tables]
        what, of = f"{len(names)} tables of the same records", f"({', '.join(names)})"
    say(f"The spec is right: release {loaded.release!r} of dataset {loaded.dataset!r}, {what} {of}.")
    for file in files:
        say(f"{file.name} gives {file.gives}; its SHA-256 is {file.sha256}.")
    say(*warnings)
    say("The data were not read." if spec_only else "The data fit it. Nothing was spent.")


# `congenial init`: a commented starter spec for a data file.


@command
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("spec.yaml"), show_default=True, help="File to write."
)
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
    text = f"{out} is written; fill in what it marks, then: congenial check {out}"
    show_result({"spec": str(out)}, text, as_json=as_json)


# `congenial plan`: what a release will publish, cost and protect, before it is made.


@command
@spec_argument
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
    help="Say which budget would reach this root mean squared error, in people, around the public table; of a measured"
    " tree or of several tables, this mean absolute error of a cell's estimate.",
)
@click.option(
    "--target-of",
    type=click.Choice(["cells", "margins", "areas"]),
    default="cells",
    show_default=True,
    help="Whose error: single cells, numbers by a single dimension, or cells added up over all areas.",
)
@click.option(
    "--level",
    help="With --target-error, of which level of a measured tree, the lowest by default; or of which of several tables,"
    " all of them by default.",
)
@click.option(
    "--ledger",
    "place",
    help="A budget ledger: says which numbers earlier releases of the dataset have published. Nothing is charged.",
)
@click.option("--compare-methods", is_flag=True, help="Also where it takes long: errors by the other method.")
def plan(
    spec: Path,
    reference: Path | None,
    is_listed: bool,
    full: bool,
    target_error: float | None,
    target_of: str,
    level: str | None,
    place: str | None,
    compare_methods: bool,
    as_json: bool,
) -> None:
    """Show what SPEC will publish, what it costs, what stays protected and how large errors are. Nothing is spent.

    Of the data, only the values of the invariants enter.
    """
    from congenial.curator import preview_text
    from congenial.curator.alternatives_and_target_error import ErrorTarget
    from congenial.curator.preview import preview, write_disclosed_cells
    from congenial.spec.load import load_spec

    loaded, folder = load_spec(spec), spec.absolute().parent
    spends = () if place is None else _earlier(place, loaded.dataset)
    if level is not None and target_error is None:
        raise CongenialError("--level says of which level --target-error is; give that as well")
    target = None if target_error is None else ErrorTarget(target_error, target_of, level)
    with progress_bar(f"planning {spec.name}") as step:
        shown = preview(loaded, folder, reference, target=target, compare_methods=compare_methods, progress=step)
        step("errors to expect and what each exact number costs")
        values: Any = preview_text.as_json(shown) if as_json else preview_text.screen(shown, full=full)
        levels = shown.level_table(full=full)
    before = preview_text.published_before(shown, spends) if spends else None
    if is_listed:
        where = write_disclosed_cells(loaded, folder, shown.disclosures)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    if as_json:
        show_json(values | {"published_before": [] if before is None else list(before.lines)})
        return
    _show(values if before is None else [*values, before])
    if levels is not None:
        show_table(*levels)
    if not full:
        say("What is proven, the noise, and the error of every number: --full.")


def _earlier(place: str, dataset: str) -> "Sequence[Spend]":
    """Return what was charged to a dataset so far; nothing if the ledger does not know it yet."""
    from congenial.ledger import open_ledger

    ledger = open_ledger(place)
    return ledger.history(dataset) if dataset in [known.name for known in ledger.datasets()] else ()


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


@command
@click.option(
    "--out", type=click.Path(path_type=Path), help="New folder for the demo. Default: congenial-demo, or the next free."
)
def demo(out: Path | None, as_json: bool) -> None:
    """Release Gong and Meng's P12 example: a spec, its data, a budget ledger and a bundle, in a new folder.

    The confidential table is the simulated one that the paper prints, so showing it discloses nothing.
    """
    from congenial.bundle.manifest import with_commas
    from congenial.curator.pipeline import demonstrate
    from congenial.examples import p12_table

    folder = _free(Path("congenial-demo")) if out is None else out
    with progress_bar("demo") as step:
        result = demonstrate(folder, progress=step)
    released = result.bundle.tables[None]
    if as_json:
        show_json({"bundle": str(result.folder), "ledger": str(result.ledger), "counts": released.tolist()})
        return
    show_rich_table(
        _side_by_side(p12_table().counts.reshape(2, -1).tolist(), released.reshape(2, -1).tolist()), width=100
    )
    say(f"Charged to the ledger {result.ledger}: {result.account}.")
    rows = ", ".join(f"{exact.text} {with_commas(exact.value())}" for exact in result.bundle.manifest.exact_statistics)
    say(f"Every invariant holds in the released table: {rows}, no negative count.", bold=True)
    say(f"The bundle is verified: {result.folder}; open {result.folder / 'report.html'}")


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
    rich_table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    rich_table.add_column("age")
    for heading in ("confidential\nfemale", "\nmale", "\nboth", "released\nfemale", "\nmale", "\nboth"):
        rich_table.add_column(heading, justify="right")

    def line(name: str, ages: range, bold: tuple[bool, bool, bool]) -> None:
        numbers = []
        for table in (confidential, released):
            female, male = (sum(table[sex][age] for age in ages) for sex in (0, 1))
            marked = zip((female, male, female + male), bold, strict=True)
            numbers += [Text(str(number), style="bold" if is_bold else "") for number, is_bold in marked]
        rich_table.add_row(name, *numbers)

    n_ages, n_young = len(P12_AGES), len(P12_AGES) - len(P12_VOTING_AGES)
    for age, label in enumerate(P12_AGES):
        line(label, range(age, age + 1), (False, False, False))
    rich_table.add_section()
    line("under 18", range(n_young), (False, False, True))
    line("voting age", range(n_young, n_ages), (False, False, True))
    line("all ages", range(n_ages), (True, True, True))
    return rich_table


# `congenial simulate`: a bundle that looks like a release and is marked as none.


@command
@spec_argument
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: NOT-FOR-RELEASE-<release>.")
@click.option("--seed", type=int, default=1, show_default=True, help="Public: the same seed gives the same tables.")
def simulate(spec: Path, out: Path | None, seed: int, as_json: bool) -> None:
    """Make a bundle from public or simulated data and a public seed. Nothing is charged, nobody is protected."""
    from congenial.curator.pipeline import simulate as run
    from congenial.spec.load import load_spec

    loaded = load_spec(spec)
    folder = Path(f"NOT-FOR-RELEASE-{loaded.release}") if out is None else out
    with progress_bar("simulating") as step:
        simulation = run(loaded, spec.absolute().parent, folder, seed=seed, progress=step)
    values = {"bundle": str(simulation.folder), "is_for_release": False}
    show_result(values, f"NOT FOR RELEASE: a simulation in {simulation.folder}", as_json=as_json)


# `congenial workbench`: a web application on this computer.


@command
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path())
@ledger_option
@click.option("--key", type=click.Path(path_type=Path), help="Private key to sign releases with; see congenial keygen.")
@who_option
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on. Default: any that is free.")
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
def workbench(
    folder: Path, place: str | None, key: Path | None, who: str | None, port: int, no_browser: bool, as_json: bool
) -> None:
    """Open FOLDER in a web browser: choose what is exact and see what it costs, release, ask bundles.

    It listens on this computer only. Whoever has the link that it prints can use it until it ends: keep the link to
    yourself. No file outside of FOLDER is read or written but the ledger and the key that are named here. Ctrl-C ends
    it. Needs the extra: pip install "congenial[workbench]".
    """
    import os

    try:
        from congenial.workbench.app_and_guard import serve
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"starlette", "uvicorn", "python_multipart"}:
            raise
        raise CongenialError(
            f'the workbench needs the package {package!r}: pip install "congenial[workbench]"'
        ) from None

    def announce(link: str) -> None:
        show_result(
            {"folder": str(folder.absolute()), "link": link},
            f"The workbench of {folder.absolute()} is open at this link, which is for you alone:",
            f"  {link}",
            "Ctrl-C ends it.",
            as_json=as_json,
        )

    ledger = place or os.environ.get("CONGENIAL_LEDGER")
    serve(
        folder, ledger=ledger, key=key, who=user_name(who), port=port, opens_browser=not no_browser, announce=announce
    )
    if not as_json:
        say("The workbench is closed.")
