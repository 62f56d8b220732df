"""What a comparison found: numbers by method, bias by size of count, pictures, a page and a tidy CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import StudyError
from congenial.page import render
from congenial.pictures.bias import BiasLine, bias_by_size
from congenial.pictures.boxes import distance_boxes
from congenial.pictures.picture import Picture
from congenial.privacy.certificate import Certificate
from congenial.study.exhibit import Columns, Grid, write_csv
from congenial.table import CONFIDENTIAL

SIZES = (0, 1, 3, 6, 11, 21, 51, 101, 501, 1_001, 10_001)
"""Where each class of true counts begins."""
PERCENTILES = (1, 50, 99)


@dataclass(frozen=True)
class Result:
    """What one method did.

    Attributes
    ----------
    certificate : Certificate
        What its release costs at most.
    spent : str
        That cost in the budget's currency, in words.
    holds_for : str
        For which pairs of tables that is known.
    l1, l2 : arrays (table,)
        Average distances of the releases from each table.
    bias : array (table, cell)
        Average of release less truth.
    zeros : float
        Share of released cells that are exactly zero.
    broken : float
        Share of releases that break an invariant or a limit.
    seconds : float
        Time of one release of one table.
    """

    name: str
    certificate: Certificate
    spent: str
    holds_for: str
    law: str
    l1: Floats
    l2: Floats
    bias: Floats
    zeros: float
    broken: float
    seconds: float


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results by method. Printed unless the tables are confidential."""

    results: tuple[Result, ...]
    truths: Ints
    n_releases: int
    is_confidential: bool

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The classes of true counts that occur, in words."""
        return tuple(size_text(number) for number in self._classes)

    @cached_property
    def _classes(self) -> list[int]:
        return sorted(set(self._class_of.reshape(-1).tolist()))

    @cached_property
    def _class_of(self) -> NDArray[np.intp]:
        return np.searchsorted(SIZES, self.truths, side="right") - 1

    def bias_percentiles(self, result: Result) -> Floats:
        """Return the percentiles (size of count, percentile) of a method's bias over the cells of each size."""
        groups = [result.bias[self._class_of == number] for number in self._classes]
        return np.array([np.percentile(group, PERCENTILES) for group in groups])

    @property
    def summary(self) -> Columns:
        """One line a method."""
        results = self.results
        return {
            "method": [result.name for result in results],
            "certified_loss": [result.spent for result in results],
            "mean_l1": [float(result.l1.mean()) for result in results],
            "mean_l2": [float(result.l2.mean()) for result in results],
            "mean_bias_of_zero_cells": [self._bias_of_zeros(result) for result in results],
            "share_of_zeros": [result.zeros for result in results],
            "share_of_broken_releases": [result.broken for result in results],
            "seconds_a_table": [result.seconds for result in results],
        }

    def _bias_of_zeros(self, result: Result) -> float:
        empty = self.truths == 0
        return float(result.bias[empty].mean()) if empty.any() else float("nan")

    @property
    def tidy(self) -> Columns:
        """Every number in a long frame: method, statistic, size of count, table, value."""
        rows = list(self._tidy_rows())
        names = ("method", "certified_loss", "statistic", "size_of_count", "n_cells", "table", "value")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def _tidy_rows(self) -> Iterator[tuple[str, str, str, str, object, object, float]]:
        for result in self.results:
            head = (result.name, result.spent)
            for number in range(len(result.l1)):
                yield (*head, "mean_l1", "", "", number + 1, float(result.l1[number]))
                yield (*head, "mean_l2", "", "", number + 1, float(result.l2[number]))
            for size, klass, values in zip(self.sizes, self._classes, self.bias_percentiles(result), strict=True):
                n_cells = int((self._class_of == klass).sum())
                mean = float(result.bias[self._class_of == klass].mean())
                yield (*head, "bias_mean", size, n_cells, "", mean)
                for percentile, value in zip(PERCENTILES, values.tolist(), strict=True):
                    yield (*head, f"bias_p{percentile:02}", size, n_cells, "", value)
            for name in ("zeros", "broken", "seconds"):
                yield (*head, name, "", "", "", float(getattr(result, name)))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Box plots of the distances, and bias against the size of the count."""
        boxes = distance_boxes(
            {
                "average L1 distance, people": {result.name: result.l1 for result in self.results},
                "average L2 distance, people": {result.name: result.l2 for result in self.results},
            }
        )
        lines = {result.name: BiasLine(*self.bias_percentiles(result).T.tolist()) for result in self.results}
        order = ", ".join(result.name for result in sorted(self.results, key=lambda result: float(result.l1.mean())))
        return (
            Picture(
                "distances",
                boxes,
                f"Distances from the truth at equal certified loss; a point is one table, {self.n_releases} releases"
                " each.",
                f"Box plots of distances by method; from near to far in L1: {order}.",
            ),
            Picture(
                "bias",
                bias_by_size(self.sizes, lines),
                "Bias of a cell by its true count: the median, with a bar from the 1st to the 99th percentile over"
                f" cells. Part of each bar is simulation noise of {self.n_releases} releases.",
                "A panel a method: bias against the size of the true count. Raw noise lies around zero; methods that"
                " keep counts nonnegative push small counts up and large ones down.",
            ),
        )

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The summary and the bias by size, to read."""
        summary = self.summary
        rows = zip(*summary.values(), strict=True)
        heads = ("method", "certified loss", "L1", "L2", "bias of empty cells", "exact zeros", "broken", "ms a table")
        lines = tuple(
            (name, loss, f"{l1:.2f}", f"{l2:.2f}", _signed(bias), f"{zeros:.1%}", f"{broken:.1%}",
             f"{1e3 * seconds:.3g}")
            for name, loss, l1, l2, bias, zeros, broken, seconds in rows
        )  # fmt: skip
        truly = float((self.truths == 0).mean())
        caption = f"Averages over {len(self.truths):,} tables; of the true cells {truly:.1%} are zero"
        n_cells = [int((self._class_of == number).sum()) for number in self._classes]
        bias = [
            (
                f"{result.name}, {percentile}th" if percentile != 1 else f"{result.name}, 1st",
                *(f"{v:+.2f}" for v in column),
            )
            for result in self.results
            for percentile, column in zip(PERCENTILES, self.bias_percentiles(result).T.tolist(), strict=True)
        ]
        return (
            Grid(caption, heads, lines),
            Grid(
                "Percentiles of the bias of a cell, by its true count",
                ("method and percentile", *self.sizes),
                (("number of cells", *(f"{n:,}" for n in n_cells)), *bias),
            ),
        )

    def write(self, folder: Path) -> None:
        """Write the page, the pictures and the tidy CSV into a new folder."""
        write_comparison(
            folder,
            "Mechanisms compared at equal certified loss",
            self.results,
            self.grids,
            self.tidy,
            pictures=self.pictures,
            n_releases=self.n_releases,
            is_confidential=self.is_confidential,
        )

    def __repr__(self) -> str:
        if self.is_confidential:
            return (
                f"confidential comparison of {len(self.results)} methods, not shown; see the folder it was written to"
            )
        return self.grids[0].text


def write_comparison(
    folder: Path,
    title: str,
    results: Sequence[object],
    grids: Sequence[Grid],
    tidy: Columns,
    *,
    pictures: Sequence[Picture] = (),
    n_releases: int,
    is_confidential: bool,
) -> None:
    """Write a page, pictures and the tidy CSV into a new folder; all of them marked if they are confidential."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder} is there already and not an empty folder; name a new one")
    mark = CONFIDENTIAL if is_confidential else ""
    folder.mkdir(parents=True, exist_ok=True)
    if is_confidential:
        folder.chmod(0o700)
    for picture in pictures:
        picture.write(folder, prefix=mark)
    write_csv(folder / f"{mark}comparison.csv", tidy)
    page = render(
        "comparison.html",
        title=title,
        mark=mark,
        results=results,
        grids=grids,
        pictures=pictures,
        n_releases=n_releases,
        version=version("congenial"),
    )
    (folder / f"{mark}index.html").write_text(page, encoding="utf-8")


def _signed(value: float) -> str:
    return "" if isnan(value) else f"{value:+.2f}"


def size_text(number: int) -> str:
    """Return a class of counts in words."""
    low = SIZES[number]
    if number + 1 == len(SIZES):
        return f"{low:,}+"
    high = SIZES[number + 1] - 1
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"
