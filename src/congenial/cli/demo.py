"""`congenial demo`: the P12 example of Gong and Meng released from its spec, and both tables side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_grid, show_json
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table


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
    from congenial.bundle.exact_numbers import with_commas
    from congenial.curator.demonstration import demonstrate
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
    rows = ", ".join(f"{exact.text} {with_commas(exact.value())}" for exact in made.bundle.manifest.exactly)
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
