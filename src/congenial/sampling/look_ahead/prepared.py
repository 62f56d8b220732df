"""What attempts are made with: doubles for the kernels, and the exact weights that they stand for."""

from typing import TYPE_CHECKING, Protocol

from congenial.arrays import Ints
from congenial.sampling.look_ahead.shapes import Room, Tables

if TYPE_CHECKING:
    from congenial.sampling.look_ahead.tilted_cell import TiltedCell


class PreparedTable(Protocol):
    """Everything that attempts at one table share. Confidential."""

    @property
    def tables(self) -> Tables:
        """What the kernels read, lines in the order in which they are drawn."""
        ...

    @property
    def order(self) -> Ints:
        """Which line is drawn when (line,)."""
        ...

    def room(self) -> Room:
        """Return room for lines."""
        ...

    def cell(self, line: int, column: int) -> "TiltedCell | None":
        """Return the exact weight of a cell; None where any deviation weighs 1."""
        ...
