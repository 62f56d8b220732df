"""`congenial plan`: what a release will publish, cost and protect, before it is made."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, progress_bar, refusals_in_words, say, show_json, show_table


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

    with progress_bar(f"planning {spec.name}", 1) as step:
        step("drawing around a public table")
        found = preview(load_spec(spec), spec.absolute().parent, reference)
    if as_json:
        show_json(preview_text.as_json(found))
        return
    for heading, lines in preview_text.paragraphs(found):
        say(heading, bold=True)
        for line in lines:
            say(*_wrapped(line))
        say("")
    show_table(*preview_text.error_table(found), preview_text.error_title(found))


def _wrapped(line: str) -> list[str]:
    return click.wrap_text(line, width=100, initial_indent="  ", subsequent_indent="  ").split("\n")
