"""A section of what `congenial plan` shows."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading, sentences, and a small table below them.

    Attributes
    ----------
    lines : sequence of str
        Sentences, each wrapped when it is shown.
    rows : sequence of sequences of str
        A line each: a name, then numbers.
    """

    heading: str
    lines: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

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
