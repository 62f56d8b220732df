"""Box plots: how far releases lie from the confidential table, a box a method."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from congenial.pictures.drawing import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def distance_boxes(panels: Mapping[str, Mapping[str, ArrayLike]]) -> "Figure":
    """Return a panel for each kind of distance, with a box and its points for each method.

    Parameters
    ----------
    panels : mapping from a distance's name to a mapping from a method to its values
    """
    methods = list(next(iter(panels.values())))
    with styled():
        figure, axes = new_figure(7.2, 1.1 + 0.46 * len(methods), 1, len(panels))
        for axis, (distance, values) in zip(axes, panels.items(), strict=True):
            # The first method on top, as in a table.
            places = np.arange(len(methods))[::-1]
            axis.boxplot(
                [np.asarray(values[method]) for method in methods],
                positions=places.tolist(),
                orientation="horizontal",
                widths=0.55,
                patch_artist=True,
                showfliers=False,
                medianprops={"color": "black", "linewidth": 1.2},
                boxprops={"facecolor": "#eef3f7", "edgecolor": GREY},
                whiskerprops={"color": GREY},
                capprops={"color": GREY},
            )
            for place, method, colour in zip(places, methods, COLOURS * 3, strict=False):
                points = np.asarray(values[method], np.float64)
                spread = (np.arange(len(points)) * 0.618034) % 1.0  # even and repeatable, not random
                axis.plot(points, place + 0.36 * (spread - 0.5), "o", ms=3, alpha=0.7, color=colour, mew=0)
            axis.set_yticks(places.tolist(), methods if axis is axes[0] else [""] * len(methods))
            axis.tick_params(axis="y", length=0)
            axis.grid(False, axis="y")
            axis.set_xlabel(distance)
            axis.set_xlim(0, 1.06 * max(float(np.max(values[method])) for method in methods))
    return figure
