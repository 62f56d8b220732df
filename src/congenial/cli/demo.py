"""`congenial demo`: the P12 example of Gong and Meng, confidential and released side by side."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")
def demo(seed: int | None) -> None:
    """Draw one table for Gong and Meng's P12 example and show it beside the confidential one.

    The confidential table is the simulated one that the paper prints, so showing it discloses nothing.
    """
    from rich.console import Console

    from congenial.examples import p12_mechanism, p12_table
    from congenial.randomness import replay_rng, secure_rng

    table, mechanism = p12_table(), p12_mechanism()
    law = mechanism.law(table)
    released = law.sample(1, secure_rng() if seed is None else replay_rng(seed))[0]
    console = Console(width=100, highlight=False)
    console.print(_side_by_side(table.counts.reshape(2, -1).tolist(), released.reshape(2, -1).tolist()))
    broken = law.target.constraints.violations(released)
    console.print(f"One exact draw from the conditional law: {mechanism.plan(law.target.constraints).sampling}.")
    console.print("Double Geometric noise of precision 1/2 a cell, given the invariants.\n")
    for sentence in broken:
        console.print(sentence, style="bold red")
    if broken:
        raise SystemExit(1)
    rows = ", ".join(one.text for one in law.target.constraints.rows)
    console.print(f"[bold]Every invariant holds[/bold] in the released table: {rows}, no negative count.")


def _side_by_side(confidential: list[list[int]], released: list[list[int]]) -> "Table":
    """Lay both tables out by age, the invariants in bold."""
    from rich import box
    from rich.table import Table

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
            numbers += [f"[bold]{number}[/bold]" if is_bold else str(number) for number, is_bold in marked]
        grid.add_row(name, *numbers)

    n_ages, n_young = len(P12_AGES), len(P12_AGES) - len(P12_VOTING_AGES)
    for age, label in enumerate(P12_AGES):
        line(label, range(age, age + 1), (False, False, False))
    grid.add_section()
    line("under 18", range(n_young), (False, False, True))
    line("voting age", range(n_young, n_ages), (False, False, True))
    line("all ages", range(n_ages), (True, True, True))
    return grid
