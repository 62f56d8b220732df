"""The law of the noise on one measured number."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from congenial.pictures.drawing import COLOURS, DASHES, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def noise_laws(laws: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> "Figure":
    """Return the probabilities of each noise: bars for one query, lines for several."""
    with styled():
        figure, (axis,) = new_figure(6.2, 3.0)
        for number, (name, (u, chances)) in enumerate(laws.items()):
            x, y = np.asarray(u), np.asarray(chances)
            if len(laws) == 1:
                axis.bar(x, y, width=0.85, color=COLOURS[0])
            else:
                dash = DASHES[number % len(DASHES)]
                axis.plot(x, y, color=COLOURS[number % len(COLOURS)], linestyle=dash, label=name)
        if len(laws) > 1:
            axis.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=8.5)  # above: it would hide the peak
        axis.set_xlabel("noise on one measured number, before the invariants are imposed")
        axis.set_ylabel("probability")
        axis.set_ylim(bottom=0)
        axis.grid(False, axis="x")
    return figure
