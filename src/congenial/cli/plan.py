"""`congenial plan`: what a release will publish, cost and protect, before it is made."""

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from congenial.curator.section import Section
    from congenial.ledger.records import Spend
    from congenial.spec.spec import Spec


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
    from congenial.curator.given_away import write_given_away
    from congenial.curator.preview import preview
    from congenial.curator.published_before import published_before
    from congenial.curator.target import ErrorTarget
    from congenial.errors import StudyError
    from congenial.spec.load import load_spec

    stated = load_spec(spec)
    spends = () if place is None else _earlier(place, stated.dataset)
    target = None if target_error is None else ErrorTarget(target_error, target_of)
    if stated.hierarchy is not None:
        if target is not None:
            raise StudyError("--target-error is for tables and areas; of a tree, try shares and budgets one by one")
        _plan_tree(stated, spec.absolute().parent, reference, spends, is_listed=is_listed, full=full, as_json=as_json)
        return
    with progress_bar(f"planning {spec.name}") as step:
        found = preview(stated, spec.absolute().parent, reference, target=target, progress=step)
        if found.alternatives:
            step("what each exact number costs")
        values: Any = preview_text.as_json(found) if as_json else preview_text.screen(found, full=full)
    before = published_before(found.planned, spends)
    if is_listed:
        where = write_given_away(stated, spec.absolute().parent, found.reviews)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    if as_json:
        show_json(values | _as_json(before))
        return
    _show([*values, *_some(before)])
    if not full:
        say("What is proven, the noise, and the error of every number: --full.")


def _plan_tree(
    spec: "Spec",
    folder: Path,
    reference: Path | None,
    spends: "Sequence[Spend]",
    *,
    is_listed: bool,
    full: bool,
    as_json: bool,
) -> None:
    from congenial.curator.given_away import write_given_away
    from congenial.curator.published_before import published_before
    from congenial.curator.tree_preview import tree_preview

    with progress_bar("planning the tree") as step:
        found = tree_preview(spec, folder, reference, step)
        step("drawing around a public population")
        header, rows = found.lines
    if is_listed:
        where = write_given_away(spec, folder, found.reviews)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    before = published_before(found.planned, spends) if spends else None
    if as_json:
        show_json(found.as_json() | _as_json(before))
        return
    _show([*found.screen(full=full), *_some(before)])
    show_table(header, rows, found.title)


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
