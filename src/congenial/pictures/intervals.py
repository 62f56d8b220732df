"""Intervals of several numbers, one below the other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from congenial.pictures.drawing import COLOURS, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 60


def interval_picture(
    names: Sequence[str], ends: Sequence[tuple[float, float, float]], released: Sequence[float], *, level: float
) -> "Figure":
    """Return a bar from low to high with the median on it, and a cross at the released number, for each name."""
    shown = min(len(names), _MOST)
    with styled():
        figure, (axis,) = new_figure(7.2, 0.9 + 0.28 * shown)
        finite = [end for line in ends[:shown] for end in line if np.isfinite(end)]
        most = max(finite, default=1.0)
        for place, ((low, middle, high), own) in enumerate(zip(ends[:shown], released[:shown], strict=True)):
            axis.hlines(place, low, min(high, 1.1 * most), color=COLOURS[0], lw=4, alpha=0.35)
            axis.plot([middle], [place], "o", color=COLOURS[0], ms=5, label="median" if place == 0 else None)
            axis.plot([own], [place], "x", color=COLOURS[1], ms=6, mew=1.6, label="released" if place == 0 else None)
        axis.set_yticks(range(shown), [name if len(name) <= 60 else name[:57] + "..." for name in names[:shown]])
        axis.set_ylim(shown - 0.4, -0.6)
        axis.set_xlabel(
            f"{level:.0%} intervals" + ("" if shown == len(names) else f"; the first {shown} of {len(names)}")
        )
        axis.grid(False, axis="y")
        figure.legend(loc="outside upper right", ncols=2)
    return figure
