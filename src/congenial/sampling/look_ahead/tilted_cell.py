"""The exact weight of one cell under its tilt, in balls: what the doubles of an attempt stand for. Confidential."""

from dataclasses import dataclass
from fractions import Fraction

import flint

from congenial.balls import ball
from congenial.noise.fall import Fall


@dataclass(frozen=True, repr=False)
class TiltedCell:
    """Weights ``f(x) tilt^x`` of a deviation x between limits, divided by that of the anchor.

    Attributes
    ----------
    low, high : int or None
        Limits of the deviation.
    tilt : Fraction
    half : int
        How far the window reaches to both sides of the anchor.
    anchor : int
        The deviation whose weight is 1; 0 unless the noise is squared.
    """

    fall: Fall
    low: int | None
    high: int | None
    tilt: Fraction
    half: int
    anchor: int = 0

    def weight(self, x: int) -> flint.arb:
        """Return the weight of a deviation, 0 beyond the limits."""
        if (self.low is not None and x < self.low) or (self.high is not None and x > self.high):
            return flint.arb(0)
        own = self._unlimited(x)
        return own * ball(self.fall.floor) if x == self.low else own

    def _unlimited(self, x: int) -> flint.arb:
        squares = ball(self.fall.quadratic) ** (x * x - self.anchor * self.anchor)
        return ball(self.fall.linear) ** abs(x) * squares * ball(self.tilt) ** (x - self.anchor)

    def window(self, widths: int) -> tuple[int, int]:
        """Return the first and the last deviation of a window so many times as wide, within the limits."""
        half = self.half * (1 if self.fall.is_flat else widths)
        low, high = self.anchor - half, self.anchor + half
        return (
            low if self.low is None else max(self.low, low),
            high if self.high is None else min(self.high, high),
        )

    def missing(self, widths: int) -> flint.arb:
        """Return a bound of all weights outside that window: a geometric series on each side.

        Ratios of neighbours only fall with distance. In balls, because doubles may underflow in a wide window.
        """
        first, last = self.window(widths)
        total = flint.arb(0)
        for edge, step, is_there in (
            (first - 1, -1, self.low is None or self.low < first),
            (last + 1, 1, self.high is None or self.high > last),
        ):
            if is_there:
                at = self._unlimited(edge)
                total += ball(self.fall.floor) * at / (1 - self._unlimited(edge + step) / at)
        return total
