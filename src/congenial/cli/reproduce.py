"""`congenial reproduce`: the paper's numbers, tables and figures into a folder."""

from pathlib import Path

import click

from congenial.cli.output import refusals_in_words, say, show_grid, show_json
from congenial.cli.progress import progress_bar


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("paper"),
    show_default=True,
    help="Folder to write; it must not hold anything yet.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    help="CSV of public P12 tables, a line each, columns f_00_04 ... m_85p: figure 1 is made for them too.",
)
@click.option("--seed", type=int, default=2020, show_default=True, help="Another seed, other random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@refusals_in_words
def reproduce(out: Path, tables: Path | None, seed: int, as_json: bool) -> None:
    """Compute every number, table and figure of Gong and Meng (2020) anew, beside what they print.

    Writes index.html, numbers.csv, and each figure as SVG, PNG and CSV. Takes about a minute.
    """
    from congenial.study.paper.reproduce import reproduce as run

    with progress_bar("reproducing") as step:
        exhibits = run(out, tables=tables, seed=seed, progress=step)
    findings = [finding for exhibit in exhibits for finding in exhibit.findings]
    if as_json:
        rows = [
            {"where": f.where, "what": f.what, "printed": f.printed, "computed": _finite(f.computed), "note": f.note}
            for f in findings
        ]
        show_json({"page": str(out / "index.html"), "numbers": rows})
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(title="Numbers that the paper prints", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("where", "what"):
        grid.add_column(heading)
    for heading in ("printed", "computed", "difference"):
        grid.add_column(heading, justify="right")
    for f in findings:
        if f.printed is not None:
            grid.add_row(*map(Text, (f.where, f.what, f.printed_text, f.computed_text, f.difference_text)))
    show_grid(grid)
    say(f"{len(findings)} numbers; the page with figures and notes: {out / 'index.html'}")


def _finite(value: float) -> float | str:
    """JSON has no infinity."""
    return "infinite" if value == float("inf") else value
