"""What a part of the paper becomes: numbers beside the printed ones, pictures, and the data behind them."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from congenial.pictures.picture import Picture

Columns = Mapping[str, Sequence[Any]]
"""A small frame: columns of equal length by name."""


@dataclass(frozen=True)
class Finding:
    """One number of the paper, or one that its argument needs, and what was computed.

    Examples
    --------
    >>> Finding("section 3", "acceptance", 0.0151, 0.0168).difference_text
    '-0.0017'
    """

    where: str
    what: str
    computed: float
    printed: float | None = None
    note: str = ""

    @property
    def difference(self) -> float | None:
        """Computed less printed."""
        return None if self.printed is None else self.computed - self.printed

    @property
    def computed_text(self) -> str:
        """The computed number to five digits."""
        return _short(self.computed)

    @property
    def printed_text(self) -> str:
        """The printed number as far as it is printed."""
        return "" if self.printed is None else _short(self.printed)

    @property
    def difference_text(self) -> str:
        """The difference to two digits."""
        if self.difference is None or self.difference != self.difference:
            return ""
        return "0" if self.difference == 0 else f"{self.difference:+.2g}"


def _short(number: float) -> str:
    if number == float("inf"):
        return "infinite"
    return f"{number:,.0f}" if number == int(number) else f"{number:.5g}"


@dataclass(frozen=True)
class Grid:
    """A table to read: a caption, heads, and rows that begin with their name.

    Examples
    --------
    >>> print(Grid("Distances", ("method", "L1"), (("raw", "8.1"), ("congenial", "12.0"))).text)
    Distances
    method       L1
    raw         8.1
    congenial  12.0
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The table in plain text, names to the left and numbers to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *(v.rjust(w) for v, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        ]
        return "\n".join([self.caption, *aligned])


@dataclass(frozen=True)
class Exhibit:
    """One part of the paper, done again."""

    key: str
    title: str
    text: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    pictures: tuple[Picture, ...] = ()
    grids: tuple[Grid, ...] = ()
    data: Mapping[str, Columns] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the pictures, and the data behind them as CSV."""
        for picture in self.pictures:
            picture.write(folder)
        for name, columns in self.data.items():
            write_csv(folder / f"{name}.csv", columns)


def write_csv(path: Path, columns: Columns) -> None:
    """Write columns as CSV."""
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*columns.values(), strict=True))
