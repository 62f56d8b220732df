"""`congenial plan`: what a release will publish, cost and protect, before it is made."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from congenial.spec.spec import Spec


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    help="CSV of a public table (dimensions and count) around which errors are computed; uniform when not given.",
)
@as_json_option
@refusals_in_words
def plan(spec: Path, reference: Path | None, as_json: bool) -> None:
    """Show what SPEC will publish, what it costs and what stays protected. Nothing is spent.

    Of the data, only the values of the invariants enter.
    """
    from congenial.curator import preview_text
    from congenial.curator.preview import preview
    from congenial.spec.load import load_spec

    stated = load_spec(spec)
    if stated.hierarchy is not None:
        _plan_tree(stated, spec.absolute().parent, reference, as_json=as_json)
        return
    with progress_bar(f"planning {spec.name}") as step:
        step("drawing around a public table")
        found = preview(stated, spec.absolute().parent, reference)
    if as_json:
        show_json(preview_text.as_json(found))
        return
    _say(preview_text.paragraphs(found))
    show_table(*preview_text.error_table(found), preview_text.error_title(found))


def _plan_tree(spec: "Spec", folder: Path, reference: Path | None, *, as_json: bool) -> None:
    from congenial.curator.tree_preview import tree_preview
    from congenial.errors import ReadingError

    if reference is not None:
        raise ReadingError(
            "--reference is for one table; the errors of a tree are computed around a made-up population"
        )
    with progress_bar("planning the tree") as step:
        step("drawing around a made-up population")
        found = tree_preview(spec, folder)
        header, rows = found.lines
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
