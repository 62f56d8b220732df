"""Curves: an acceptance rate against a scale, densities of noise, traces of a chain, the law of a cell."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from congenial.errors import import_extra
from congenial.pictures.drawing import COLOURS, DASHES, GREY, new_figure, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
