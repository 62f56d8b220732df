"""Totals of the units of a tree: released, estimated, and the interval, a panel a level."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from congenial.pictures.drawing import COLOURS, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 60


@dataclass(frozen=True)
class PanelOfUnits:
    """Numbers of the units of one level (unit,)."""

    level: str
    released: ArrayLike
    median: ArrayLike
    low: ArrayLike
    high: ArrayLike


def tree_estimates(panels: Sequence[PanelOfUnits], probability: float) -> "Figure":
    """Return a panel for each level: how far estimate and interval lie from the release, by released total.

    Of many units some are shown, evenly by their released totals.
    """
    with styled():
        figure, axes = new_figure(7.2, 0.7 + 1.7 * len(panels), len(panels), 1)
        for axis, panel in zip(axes, panels, strict=True):
            released, median, low, high = (
                np.asarray(part, np.float64) for part in (panel.released, panel.median, panel.low, panel.high)
            )
            order = np.argsort(released, kind="stable")
            shown = order[np.unique(np.linspace(0, len(order) - 1, _MOST).astype(int))]
            places = np.arange(len(shown))
            own = released[shown]
            axis.axhline(0, color=COLOURS[1], lw=1.2, label="released" if axis is axes[0] else None)
            axis.vlines(places, low[shown] - own, high[shown] - own, color=COLOURS[0], lw=3, alpha=0.35)
            label = f"estimate and {probability:.0%} interval" if axis is axes[0] else None
            axis.plot(places, median[shown] - own, "o", ms=3.5, color=COLOURS[0], label=label)
            ticks = np.unique(np.linspace(0, len(shown) - 1, 6).astype(int))
            axis.set_xticks(ticks.tolist(), [f"{own[tick]:,.0f}" for tick in ticks])
            n_units = (
                f"{len(released):,} units" if len(shown) == len(released) else f"{len(shown)} of {len(released):,}"
            )
            axis.set_title(f"{panel.level}, {n_units}")
            axis.grid(False, axis="x")
        figure.supxlabel("released total of the unit", fontsize=9.5)
        figure.supylabel("people more or fewer than released", fontsize=9.5)
        figure.legend(loc="outside upper right", ncols=2)
    return figure
