"""What a comparison of trees found, level by level: errors, bias by size of count, zeros kept, CPU time."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.privacy.certificate import Certificate
from congenial.study.comparison import write_comparison
from congenial.study.exhibit import Columns, Grid

SIZES = (0, 1, 5, 20)
"""Where each class of true counts begins."""
SIZE_TEXTS = ("0", "1-4", "5-19", "20+")


@dataclass(frozen=True)
class TreeResult:
    """What one method did.

    Attributes
    ----------
    certificate : Certificate
        What its release costs at most.
    spent : str
        That cost in the budget's currency, in words.
    holds_for : str
        For which pairs of trees that is known.
    cells, totals : arrays (release, level)
        Mean absolute error of a cell, and of a unit's total.
    bias : array (level, size of count)
        Mean of release less truth over cells of a size; not a number where there are none.
    zeros : array (level,)
        Share of the cells that are truly zero that are released as zero.
    seconds : float
        CPU time of one release, the median.
    """

    name: str
    certificate: Certificate
    spent: str
    holds_for: str
    law: str
    cells: Floats
    totals: Floats
    bias: Floats
    zeros: Floats
    seconds: float


@dataclass(frozen=True, repr=False)
class TreeComparison:
    """Results by method and level. Printed unless the tree is confidential.

    Attributes
    ----------
    levels : tuple of str
        The top first.
    n_units : tuple of int
        How many units each has.
    n_of_size : array (level, size of count)
        How many cells have a true count of each size.
    """

    results: tuple[TreeResult, ...]
    levels: tuple[str, ...]
    n_units: tuple[int, ...]
    n_of_size: Ints
    n_releases: int
    is_confidential: bool

    @property
    def summary(self) -> Columns:
        """One line for each method and level."""
        both = [(result, level) for result in self.results for level in range(len(self.levels))]
        return {
            "method": [result.name for result, _ in both],
            "certified_loss": [result.spent for result, _ in both],
            "level": [self.levels[level] for _, level in both],
            "mean_error_of_a_cell": [float(result.cells[:, level].mean()) for result, level in both],
            "mean_error_of_a_total": [float(result.totals[:, level].mean()) for result, level in both],
            **{
                f"bias_of_{text}": [float(result.bias[level, size]) for result, level in both]
                for size, text in enumerate(SIZE_TEXTS)
            },
            "share_of_zeros_kept": [float(result.zeros[level]) for result, level in both],
            "cpu_seconds_a_release": [result.seconds for result, _ in both],
        }

    @property
    def tidy(self) -> Columns:
        """Every number in a long frame: method, level, statistic, size of count, release, value."""
        rows = list(self._tidy_rows())
        names = ("method", "certified_loss", "level", "statistic", "size_of_count", "n_cells", "release", "value")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def _tidy_rows(self) -> Iterator[tuple[str, str, str, str, str, object, object, float]]:
        for result in self.results:
            for place, level in enumerate(self.levels):
                head = (result.name, result.spent, level)
                for number in range(self.n_releases):
                    yield (*head, "error_of_a_cell", "", "", number + 1, float(result.cells[number, place]))
                    yield (*head, "error_of_a_total", "", "", number + 1, float(result.totals[number, place]))
                for size, text in enumerate(SIZE_TEXTS):
                    n_cells = int(self.n_of_size[place, size])
                    if n_cells:
                        yield (*head, "bias_mean", text, n_cells, "", float(result.bias[place, size]))
                if self.n_of_size[place, 0]:
                    yield (*head, "zeros_kept", "0", int(self.n_of_size[place, 0]), "", float(result.zeros[place]))
            yield (result.name, result.spent, "", "cpu_seconds", "", "", "", result.seconds)

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """Errors and bias by level, and how many cells that is of."""
        lines = tuple(
            (
                f"{result.name}, {level}",
                *(_with_error(result.cells[:, place]), _with_error(result.totals[:, place])),
                *(_shown(value, "+.2f") for value in result.bias[place].tolist()),
                _shown(float(result.zeros[place]), ".1%"),
                f"{result.seconds:.2g}" if place == 0 else "",
            )
            for result in self.results
            for place, level in enumerate(self.levels)
        )
        caption = (
            f"{self.results[0].spent} each, {self.n_releases} releases by each method: mean absolute errors with their"
            " standard errors, bias by true count"
        )
        sizes = tuple(f"bias {text}" for text in SIZE_TEXTS)
        heads = ("method and level", "a cell", "a unit's total", *sizes, "zeros kept", "CPU s")
        n_cells = tuple(
            (level, f"{n:,}", *(f"{count:,}" for count in counts))
            for level, n, counts in zip(self.levels, self.n_units, self.n_of_size.tolist(), strict=True)
        )
        return (
            Grid(caption, heads, lines),
            Grid("Cells by level and true count", ("level", "units", *SIZE_TEXTS), n_cells),
        )

    def write(self, folder: Path) -> None:
        """Write a page and the tidy CSV into a new folder."""
        write_comparison(
            folder,
            "Releases of a tree compared at equal certified loss",
            self.results,
            self.grids,
            self.tidy,
            n_releases=self.n_releases,
            is_confidential=self.is_confidential,
        )

    def __repr__(self) -> str:
        if self.is_confidential:
            return (
                f"confidential comparison of {len(self.results)} methods, not shown; see the folder it was written to"
            )
        return self.grids[0].text


def size_of(counts: Ints) -> NDArray[np.intp]:
    """Return which class of `SIZES` true counts are in.

    Examples
    --------
    >>> [SIZE_TEXTS[size] for size in size_of(np.array([0, 4, 5, 300]))]
    ['0', '1-4', '5-19', '20+']
    """
    return np.searchsorted(SIZES, counts, side="right") - 1


def _shown(value: float, how: str) -> str:
    return "" if isnan(value) else format(value, how)


def _with_error(values: Floats) -> str:
    """Return the mean over releases, and how far it may be off in brackets."""
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    return f"{mean:,.3f} ({error:.3f})"
