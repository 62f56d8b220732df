"""A figure with the words that belong to it, ready for a page or a file."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.pictures.drawing import as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
