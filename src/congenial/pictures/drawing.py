"""How every picture looks, and how it becomes a file: one style, safe for colour-blind readers, on screen and paper."""

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
