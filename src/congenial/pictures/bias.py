"""Bias against the size of the count, a line a method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from congenial.pictures.drawing import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class BiasLine:
    """The 1st, 50th and 99th percentile of the bias of the cells in each size of count."""

    low: Sequence[float]
    middle: Sequence[float]
    high: Sequence[float]


def bias_by_size(sizes: Sequence[str], methods: Mapping[str, BiasLine]) -> "Figure":
    """Return a panel for each method: median bias by size of count, with a bar from the 1st to the 99th percentile."""
    n = len(methods)
    n_columns = min(n, 3)
    n_rows = -(-n // n_columns)
    with styled():
        figure, axes = new_figure(7.2, 0.6 + 2.05 * n_rows, n_rows, n_columns)
        ends = [end for line in methods.values() for part in (line.low, line.high) for end in part if np.isfinite(end)]
        reach = 1.08 * max(map(abs, ends), default=1.0) or 1.0
        places = np.arange(len(sizes))
        for number, axis in enumerate(axes):
            axis.set_visible(number < n)
        for axis, (method, line), colour in zip(axes, methods.items(), COLOURS * 3, strict=False):
            low, middle, high = (np.asarray(part, np.float64) for part in (line.low, line.middle, line.high))
            axis.axhline(0, color=GREY, lw=0.9)
            axis.vlines(places, low, high, color=colour, lw=5, alpha=0.35)
            axis.plot(places, middle, "o", ms=4.5, color=colour)
            axis.set_title(method)
            axis.set_ylim(-reach, reach)
            axis.set_xlim(-0.6, len(sizes) - 0.4)
            axis.set_xticks(places.tolist(), list(sizes), rotation=40, ha="right", fontsize=8)
            axis.grid(False, axis="x")
        for number in range(0, n, n_columns):
            axes[number].set_ylabel("bias, people")
        figure.supxlabel("true count of the cell", fontsize=9.5)
    return figure
