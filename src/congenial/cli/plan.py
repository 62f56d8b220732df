"""`congenial plan`: what a release will publish, cost and protect, before it is made."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, progress_bar, refusals_in_words, say, show_json, show_table

if TYPE_CHECKING:
    from congenial.spec.spec import Spec


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="A public file of the data's shape, such as last year's: errors and biases are computed around it.",
)
@click.option("--list", "is_listed", is_flag=True, help="List every cell that the invariants give away, in a file.")
@as_json_option
@refusals_in_words
def plan(spec: Path, reference: Path | None, is_listed: bool, as_json: bool) -> None:
    """Show what SPEC will publish, what it costs and what stays protected. Nothing is spent.

    Of the data, only the values of the invariants enter.
    """
    from congenial.curator import preview_text
    from congenial.curator.given_away import write_given_away
    from congenial.curator.preview import preview
    from congenial.spec.load import load_spec

    stated = load_spec(spec)
    if stated.hierarchy is not None:
        _plan_tree(stated, spec.absolute().parent, reference, is_listed=is_listed, as_json=as_json)
        return
    with progress_bar(f"planning {spec.name}", 1) as step:
        step("drawing around a public table")
        found = preview(stated, spec.absolute().parent, reference)
    if is_listed:
        where = write_given_away(stated, spec.absolute().parent, found.reviews)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    if as_json:
        show_json(preview_text.as_json(found))
        return
    _say(preview_text.paragraphs(found))
    for title, grid in preview_text.sums_tables(found):
        show_table(*grid, title)
    show_table(*preview_text.error_table(found), preview_text.error_title(found))


def _plan_tree(spec: "Spec", folder: Path, reference: Path | None, *, is_listed: bool, as_json: bool) -> None:
    from congenial.curator.given_away import write_given_away
    from congenial.curator.tree_preview import tree_preview

    with progress_bar("planning the tree", 1) as step:
        step("drawing around a public population")
        found = tree_preview(spec, folder, reference)
        header, rows = found.lines
    if is_listed:
        where = write_given_away(spec, folder, found.reviews)
        say(f"Every cell that the invariants give away {where} until the release", err=True)
    if as_json:
        show_json(found.as_json())
        return
    _say(found.paragraphs())
    show_table(header, rows, found.title)


def _say(paragraphs: list[tuple[str, list[str]]]) -> None:
    for heading, lines in paragraphs:
        say(heading, bold=True)
        for line in lines:
            say(*_wrapped(line))
        say("")


def _wrapped(line: str) -> list[str]:
    return click.wrap_text(line, width=100, initial_indent="  ", subsequent_indent="  ").split("\n")
