"""Sections of what `congenial plan` shows, and those that it shows of tables and of trees alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from congenial.law import PublicLaw
from congenial.plan import Plan

NOT_PROTECTED = "NOT PROTECTED, whatever the budget is"
"""The first heading."""

NO_PROVEN_INTERVALS = (
    "Zeros are weighted, for less noise: readers get intervals under a prior, and no proven ones without it. For those:"
    " `noise: discrete_gaussian`, or `zeros: unweighted`."
)
"""What a budget in epsilon takes from readers, said where the budget is chosen."""


@dataclass(frozen=True)
class Section:
    """A heading, sentences, and a small table below them.

    Attributes
    ----------
    lines : sequence of str
        Sentences, each wrapped when it is shown.
    rows : sequence of sequences of str
        A line each: a name, then numbers.
    n_bold : int
        How many of the first sentences stand out as the heading does.
    """

    heading: str
    lines: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    n_bold: int = 0

    @property
    def aligned(self) -> list[str]:
        """The table as text: names to the left, numbers to the right.

        Examples
        --------
        >>> Section("Errors", rows=[["", "error"], ["a cell", "3.1"]]).aligned
        ['        error', 'a cell    3.1']
        """
        if not self.rows:
            return []
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        return [
            "  ".join(
                [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in self.rows
        ]


def bare_section(of_records: Sequence[str], of_cells: Sequence[str]) -> Section | None:
    """Return what is not protected any more: of records in bold, then cells and sums; nothing where that is nothing."""
    lines = [*of_records, *of_cells]
    return Section(NOT_PROTECTED, lines, n_bold=len(of_records) or 1) if lines else None


def cost_section(plan: Plan, dataset: str, more: Sequence[str] = ()) -> Section:
    """Return what a ledger will be charged, with a warning where that protects hardly anybody."""
    certificate, spent, budget = plan.certificate, plan.spent.text, plan.budget
    requested = "every precision is given"
    if budget is not None:
        requested = "which is the spec's budget" if budget.amount == spent else f"the spec's budget is {budget.amount}"
    what = f"{spent} for {certificate.per_record}, {requested}; charged once to dataset {dataset!r}."
    weak = plan.meaning.warning
    return Section("What it costs", [what[0].upper() + what[1:], *([f"WARNING. {weak}"] if weak else []), *more])


def no_proven_intervals(law: PublicLaw) -> list[str]:
    """Say what weighted zeros take from readers; nothing where they are not weighted."""
    return [NO_PROVEN_INTERVALS] if any(floor != 1 for floor in law.floors) else []
