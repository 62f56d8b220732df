"""`congenial init`: a commented starter spec for a data file."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.errors import ReadingError, reason_of


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
