"""Figures by matplotlib, of studies and answers: one style, safe for colour-blind readers, on screen and paper."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from congenial.errors import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette (2008) without its yellow, which is too pale for thin lines on white paper.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)), (0, (8, 2)), "-", "-")
"""Lines differ in dashes too, so that they can be told apart in grey."""

GREY = "#5a5a5a"

_STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "xtick.color": "#222222",
    "ytick.color": "#222222",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "text.parse_math": False,  # a label may hold dollar signs
    "svg.fonttype": "path",  # looks the same where DejaVu Sans is not installed
    "svg.hashsalt": "congenial",  # the same numbers give the same bytes
    "figure.constrained_layout.use": True,
}


@contextmanager
def styled() -> Iterator[None]:
    """Use the style inside; nothing of it stays behind."""
    rc_context = import_extra("matplotlib", "study").rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        # A label in a script that DejaVu Sans lacks shows as boxes in a picture; the page has it in words beside.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        yield


def new_figure(
    width: float, height: float, n_rows: int = 1, n_columns: int = 1, heights: Sequence[float] | None = None
) -> "tuple[Figure, Sequence[Axes]]":
    """Return an empty figure (in inches) and its panels, row by row; call it inside `styled`.

    Parameters
    ----------
    heights : sequence of float, optional
        Of the rows of panels, in proportion; alike if not given.
    """
    figure = import_extra("matplotlib.figure", "study").Figure(figsize=(width, height), facecolor="white")
    panels = figure.subplots(n_rows, n_columns, squeeze=False, height_ratios=heights)
    return figure, list(panels.reshape(-1))


def as_svg(figure: "Figure") -> str:
    """Return the figure as an SVG element to put into a page: no XML head, no metadata."""
    out = io.StringIO()
    with styled():
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return re.sub(r"\s*<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)


def as_png(figure: "Figure", dots_an_inch: int = 150) -> bytes:
    """Return the figure as a PNG file."""
    out = io.BytesIO()
    with styled():
        figure.savefig(out, format="png", dpi=dots_an_inch, metadata={"Software": None})
    return out.getvalue()


# A figure with the words that belong to it, ready for a page or a file.


@dataclass(frozen=True)
class Picture:
    """A figure with its file name, the caption below it, and the words for those who cannot see it."""

    name: str
    figure: "Figure"
    caption: str
    alt: str

    @cached_property
    def svg(self) -> str:
        """The figure as an SVG element."""
        return as_svg(self.figure)

    def write(self, folder: Path, prefix: str = "") -> None:
        """Write the figure as SVG and PNG."""
        (folder / f"{prefix}{self.name}.svg").write_text(self.svg, encoding="utf-8")
        (folder / f"{prefix}{self.name}.png").write_bytes(as_png(self.figure))


# Curves: an acceptance rate against a scale, densities of noise, traces of a chain, the law of a cell.


def acceptance_curve(
    scales: ArrayLike, equilibrium: ArrayLike, chain: ArrayLike, printed: tuple[float, float]
) -> "Figure":
    """Return the acceptance rate against the proposal's precision: expected, observed in chains, and printed."""
    x = np.asarray(scales, np.float64)
    with styled():
        figure, (axis,) = new_figure(6.2, 3.4)
        axis.plot(x, 100 * np.asarray(equilibrium), color=COLOURS[0], label="expected, from exact draws")
        axis.plot(
            x, 100 * np.asarray(chain), "o", ms=5, mfc="white", color=COLOURS[1], label="one chain of Algorithm 1"
        )
        axis.plot([printed[0]], [100 * printed[1]], "D", ms=7, color="black", label="printed by GM")
        axis.annotate(
            f"{100 * printed[1]:.2f} %",
            (printed[0], 100 * printed[1]),
            xytext=(-8, 3),
            textcoords="offset points",
            ha="right",
        )
        axis.set_xlabel("precision of the proposal (GM's inverse scale)")
        axis.set_ylabel("acceptance rate, %")
        axis.set_ylim(0, 110 * max(np.max(equilibrium), np.max(chain), printed[1]))
        axis.legend(loc="upper right")
    return figure


def traces(chains: Mapping[str, Sequence[tuple[str, ArrayLike]]]) -> "Figure":
    """Return trace plots: a column for each cell, a row for each sampler.

    Parameters
    ----------
    chains : mapping from a cell's name to (sampler, its draws in order)
    """
    n_rows = len(next(iter(chains.values())))
    with styled():
        figure, axes = new_figure(7.2, 0.5 + 1.75 * n_rows, n_rows, len(chains))
        for column, (cell, rows) in enumerate(chains.items()):
            top = max(int(np.max(np.asarray(draws))) for _, draws in rows)
            for row, (sampler, draws) in enumerate(rows):
                axis = axes[row * len(chains) + column]
                axis.plot(np.asarray(draws), lw=0.5, color=COLOURS[row], drawstyle="steps-post", rasterized=True)
                axis.set_ylim(-0.5, top + 1)
                axis.set_xticks(np.linspace(0, len(np.asarray(draws)), 3).tolist())
                axis.set_title(f"{cell}: {sampler}")
                if column == 0:
                    axis.set_ylabel("count")
                if row == n_rows - 1:
                    axis.set_xlabel("draw")
    return figure


def densities(curves: Mapping[str, tuple[ArrayLike, ArrayLike]], *, xlabel: str, logarithmic: bool = True) -> "Figure":
    """Return densities of a noise, beside each other on a plain and (if wanted) a logarithmic scale."""
    with styled():
        figure, axes = new_figure(7.2, 3.1, 1, 2 if logarithmic else 1)
        for axis, is_log in zip(axes, (False, True), strict=False):
            for (name, (x, y)), colour, dash in zip(curves.items(), COLOURS, DASHES, strict=False):
                axis.plot(np.asarray(x), np.asarray(y), color=colour, linestyle=dash, label=name)
            axis.set_xlabel(xlabel)
            if is_log:
                axis.set_yscale("log")
                axis.set_title("logarithmic scale")
            else:
                axis.set_ylabel("density")
                axis.set_ylim(bottom=0)
                axis.set_title("plain scale")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(curves))
    return figure


def cell_law(
    values: ArrayLike, conditional: ArrayLike, unconstrained: ArrayLike, *, truth: int | None, name: str
) -> "Figure":
    """Return the exact law of a released cell beside the law of the unconstrained noisy count."""
    ticker = import_extra("matplotlib.ticker", "study")
    x, law = np.asarray(values), np.asarray(conditional, np.float64)
    with styled():
        figure, (axis,) = new_figure(6.2, 3.2)
        axis.bar(x, np.asarray(unconstrained), width=0.9, color="#cfd8dc", label="noise alone")
        possible = law > 0
        axis.plot(
            x[possible], law[possible], "o-", ms=4, lw=1.2, color=COLOURS[0], label="released: given the invariants"
        )
        if truth is not None:
            axis.axvline(truth, color=COLOURS[1], linestyle=DASHES[1], lw=1.3, label=f"confidential count: {truth}")
        if x.min() < 0:
            axis.axvspan(x.min() - 0.6, -0.5, color=GREY, alpha=0.10, lw=0)
            axis.text(x.min() - 0.2, axis.get_ylim()[1] * 0.93, "impossible", color=GREY, fontsize=9)
        axis.set_xlim(x.min() - 0.6, x.max() + 0.6)
        axis.set_xlabel(f"count of {name}")
        axis.set_ylabel("probability")
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.legend(loc="upper right", fontsize=8.5)
        axis.grid(False, axis="x")
    return figure


# Box plots: how far releases lie from the confidential table, a box a method.


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


# Bias against the size of the count, a line a method.


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


# Intervals of several numbers, one below the other: numbers of one kind share an axis.

_MOST = 60


@dataclass(frozen=True)
class Shown:
    """A number as a picture shows it.

    Attributes
    ----------
    unit : str
        The label of its axis; numbers of the same unit share one.
    labels : tuple of str
        What the values 0, 1, ... stand for, if they are no numbers.
    """

    name: str
    unit: str
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
        panels.setdefault((number.unit, number.labels), []).append(number)
    sizes = [len(numbers_of_panel) for numbers_of_panel in panels.values()] or [1]
    with styled():
        height = 0.5 + 0.28 * sum(sizes) + 0.55 * len(sizes)
        figure, axes = new_figure(7.2, height, n_rows=len(sizes), heights=[size + 0.6 for size in sizes])
        for axis, ((unit, labels), numbers_of_panel) in zip(axes, panels.items(), strict=False):
            _draw(axis, numbers_of_panel, unit, labels)
        rest = "" if len(numbers) <= _MOST else f"; the first {_MOST} of {len(numbers):,}"
        figure.suptitle(f"{level:.0%} intervals{rest}", x=0.01, ha="left", fontsize=9.5, color=GREY)
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper right", ncols=2)
    return figure


def _draw(axis: "Axes", numbers: Sequence[Shown], unit: str, labels: tuple[str, ...]) -> None:
    finite = [
        end
        for number in numbers
        for end in (number.low, number.estimate, number.high, number.released)
        if isfinite(end)
    ]
    least, most = min(finite, default=0.0), max(finite, default=1.0)
    margin = 0.08 * (most - least) or max(1.0, abs(most)) / 20
    left, right = least - margin, most + margin
    for place, number in enumerate(numbers):
        if number.low < number.high:
            axis.hlines(place, max(number.low, left), min(number.high, right), color=COLOURS[0], lw=4, alpha=0.35)
        for end, edge, arrow in ((number.low, left, "<"), (number.high, right, ">")):
            if isinf(end):
                axis.plot([edge], [place], arrow, color=COLOURS[0], ms=7, clip_on=False)
        name = ("estimate", "released") if place == 0 else (None, None)
        axis.plot([number.estimate], [place], "o", color=COLOURS[0], ms=5, label=name[0])
        released = min(max(number.released, left), right)  # an infinite one stands at the edge
        axis.plot([released], [place], "x", color=COLOURS[1], ms=6, mew=1.6, label=name[1])
    names = [number.name if len(number.name) <= 60 else number.name[:57] + "..." for number in numbers]
    axis.set_yticks(range(len(numbers)), names)
    axis.set_ylim(len(numbers) - 0.4, -0.6)
    axis.set_xlim(left, right)
    axis.set_xlabel(unit)
    if labels:
        first, last = max(0, round(least)), min(len(labels) - 1, round(most))
        places = list(range(first, last + 1, max(1, (last - first) // 6)))
        axis.set_xticks(places, [labels[place] for place in places])
    axis.grid(False, axis="y")


# Totals of the units of a tree: released, estimated, and the interval, a panel a level.

_MAX_UNITS = 60


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
            shown = order[np.unique(np.linspace(0, len(order) - 1, _MAX_UNITS).astype(int))]
            places = np.arange(len(shown))
            totals = released[shown]
            axis.axhline(0, color=COLOURS[1], lw=1.2, label="released" if axis is axes[0] else None)
            axis.vlines(places, low[shown] - totals, high[shown] - totals, color=COLOURS[0], lw=3, alpha=0.35)
            label = f"estimate and {probability:.0%} interval" if axis is axes[0] else None
            axis.plot(places, median[shown] - totals, "o", ms=3.5, color=COLOURS[0], label=label)
            ticks = np.unique(np.linspace(0, len(shown) - 1, 6).astype(int))
            axis.set_xticks(ticks.tolist(), [f"{totals[tick]:,.0f}" for tick in ticks])
            n_units = (
                f"{len(released):,} units" if len(shown) == len(released) else f"{len(shown)} of {len(released):,}"
            )
            axis.set_title(f"{panel.level}, {n_units}")
            axis.grid(False, axis="x")
        figure.supxlabel("released total of the unit", fontsize=9.5)
        figure.supylabel("people more or fewer than released", fontsize=9.5)
        figure.legend(loc="outside upper right", ncols=2)
    return figure
