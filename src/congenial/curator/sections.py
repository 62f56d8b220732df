"""Sections of what `congenial plan` shows: a heading, sentences, a small table."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_LINES, LONGEST_LINE = 6, 200
"""Of what is not protected, on the first screen."""

NOT_PROTECTED = "NOT PROTECTED, whatever the budget is"
"""The first heading."""

PROTECTED = "What stays protected"
"""The heading of the promise."""

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


def some(lines: list[str]) -> list[str]:
    """Return the first of many lines, and how many more there are."""
    more = [f"and {len(lines) - MOST_LINES:,} more: --full"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def shortened(line: str) -> str:
    """Return a long line cut where a clause ends."""
    if len(line) <= LONGEST_LINE:
        return line
    cut = line[:LONGEST_LINE]
    return f"{cut[: max(cut.rfind(', '), cut.rfind('; '))]} ... (--full)"
