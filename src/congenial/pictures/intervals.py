"""Intervals of several numbers, one below the other: numbers of one kind share an axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isinf
from typing import TYPE_CHECKING

from congenial.pictures.drawing import COLOURS, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 60
_AXES = {
    "count": "count",
    "difference": "count",
    "share": "share",
    "ratio": "ratio",
    "odds_ratio": "odds ratio",
    "median": "",
}
"""What an axis is labelled with; numbers whose label is the same have one axis."""


@dataclass(frozen=True)
class Shown:
    """A number as a picture shows it.

    Attributes
    ----------
    kind : str
        ``"count"``, ``"share"``, ...; another one has an axis of its own.
    labels : tuple of str
        What the values 0, 1, ... stand for, if they are no numbers.
    """

    name: str
    kind: str
    low: float
    estimate: float
    high: float
    released: float
    labels: tuple[str, ...] = ()


def interval_picture(numbers: Sequence[Shown], *, level: float) -> "Figure":
    """Return a bar from low to high with the estimate on it, and a cross at the released number, for each of them.

    An end that is infinite has an arrow.
    """
    panels: dict[tuple[str, tuple[str, ...]], list[Shown]] = {}
    for number in numbers[:_MOST]:
        panels.setdefault((_AXES.get(number.kind, number.kind), number.labels), []).append(number)
    sizes = [len(own) for own in panels.values()] or [1]
    with styled():
        height = 0.5 + 0.28 * sum(sizes) + 0.55 * len(sizes)
        figure, axes = new_figure(7.2, height, n_rows=len(sizes), heights=[size + 0.6 for size in sizes])
        for axis, ((unit, labels), own) in zip(axes, panels.items(), strict=False):
            _draw(axis, own, unit, labels)
        rest = "" if len(numbers) <= _MOST else f"; the first {_MOST} of {len(numbers):,}"
        figure.suptitle(f"{level:.0%} intervals{rest}", x=0.01, ha="left", fontsize=9.5, color=GREY)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=2)
    return figure


def _draw(axis: "Axes", numbers: Sequence[Shown], unit: str, labels: tuple[str, ...]) -> None:
    finite = [end for one in numbers for end in (one.low, one.estimate, one.high, one.released) if isfinite(end)]
    least, most = min(finite, default=0.0), max(finite, default=1.0)
    margin = 0.08 * (most - least) or max(1.0, abs(most)) / 20
    left, right = least - margin, most + margin
    for place, one in enumerate(numbers):
        if one.low < one.high:
            axis.hlines(place, max(one.low, left), min(one.high, right), color=COLOURS[0], lw=4, alpha=0.35)
        for end, edge, arrow in ((one.low, left, "<"), (one.high, right, ">")):
            if isinf(end):
                axis.plot([edge], [place], arrow, color=COLOURS[0], ms=7, clip_on=False)
        name = ("estimate", "released") if place == 0 else (None, None)
        axis.plot([one.estimate], [place], "o", color=COLOURS[0], ms=5, label=name[0])
        released = min(max(one.released, left), right)  # an infinite one stands at the edge
        axis.plot([released], [place], "x", color=COLOURS[1], ms=6, mew=1.6, label=name[1])
    names = [one.name if len(one.name) <= 60 else one.name[:57] + "..." for one in numbers]
    axis.set_yticks(range(len(numbers)), names)
    axis.set_ylim(len(numbers) - 0.4, -0.6)
    axis.set_xlim(left, right)
    axis.set_xlabel(unit)
    if labels:
        first, last = max(0, round(least)), min(len(labels) - 1, round(most))
        places = list(range(first, last + 1, max(1, (last - first) // 6)))
        axis.set_xticks(places, [labels[place] for place in places])
    axis.grid(False, axis="y")
