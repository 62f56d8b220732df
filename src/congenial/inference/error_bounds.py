"""The largest and the least law of the error of a linear number, tie by tie: which construction a query gets.

The choice goes by the published sums and the query alone, never by the release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from congenial.inference.extreme_errors import (
    LONGEST,
    CountBox,
    Part,
    TooWideError,
    largest_across,
    largest_in_a_group,
    largest_in_a_sum,
)
from congenial.inference.integer_weights import NOTHING, Weights
from congenial.inference.ties import Tie

_MANY_PARTS = 8


class NotProvenError(Exception):
    """No bound of errors is proven for what is asked; the message is the reason."""


@dataclass(frozen=True)
class Piece:
    """What a linear number takes from one tie: parts of its groups, whole groups, and `steps` times y.

    Examples
    --------
    >>> tie = Tie(((0, 1), (2,)), (1, -1))
    >>> Piece.of(tie, {0: 1}).parts
    (Part(inside=(0,), outside=(1,), times=1, sign=1),)
    """

    tie: Tie
    parts: tuple[Part, ...]
    others: tuple[tuple[tuple[int, ...], int], ...]
    steps: int

    @classmethod
    def of(cls, tie: Tie, coefficients: Mapping[int, int]) -> "Piece":
        """Write the number as ``steps * y + sum times * D_A``, with no steps if that can be."""
        if tie.why_not:
            raise NotProvenError(tie.why_not)
        whole: list[tuple[tuple[int, ...], int]] = []
        halves: list[tuple[Part, Part]] = []
        steps = 0
        for group, sign in zip(tie.groups, tie.signs, strict=True):
            values = sorted({coefficients.get(cell, 0) for cell in group})
            if len(values) > 2:
                raise NotProvenError("the number gives more than two weights to cells of one published sum")
            if len(values) == 1:
                steps += values[0] * sign
                whole.append((group, sign))
                continue
            sides = [tuple(cell for cell in group if coefficients.get(cell, 0) == value) for value in values]
            gap = values[1] - values[0]
            halves.append((Part(sides[1], sides[0], gap, sign), Part(sides[0], sides[1], -gap, sign)))
            steps += values[0] * sign  # the first half; the other has the larger value besides
        if len(halves) > _MANY_PARTS:
            raise NotProvenError(f"the number takes parts of {len(halves)} groups, and the limit is {_MANY_PARTS}")
        choices = [
            (steps - sum(part.times * part.sign for part in chosen if part.times < 0), chosen)
            for chosen in product(*halves)
        ]
        least, parts = min(choices, key=lambda choice: abs(choice[0]))
        return cls(tie, parts, tuple(whole), least)

    @property
    def is_ordered(self) -> bool:
        """Whether laws are extreme in the likelihood ratio order, not only stochastically."""
        return len(self.parts) <= 1 and not (self.parts and self.steps)

    def largest(self, box: CountBox) -> Weights:
        """Return the largest law of the error over all tables in a box."""
        reach = box.reach(self.tie.cells)
        if reach > LONGEST:
            raise NotProvenError(f"the noise reaches {reach:,} steps, and errors are followed up to {LONGEST:,}")
        try:
            return self._largest(box, reach)
        except TooWideError:
            raise NotProvenError("a published sum has too many cells for its errors to be computed in floats") from None

    def _largest(self, box: CountBox, reach: int) -> Weights:
        if not any(self.tie.signs):
            return largest_in_a_sum(box, self.parts[0], reach) if self.parts else NOTHING
        if self.parts and not self.is_ordered:
            return largest_across(box, self.parts, self.others, self.steps, reach)
        if self.parts:
            return largest_in_a_group(box, self.parts[0], self.others, reach)
        if not self.steps:
            return NOTHING
        (cells, sign), *others = self.others
        return largest_in_a_group(box, Part(cells, (), self.steps * sign, sign), others, reach)

    @property
    def negated(self) -> "Piece":
        """The same for the negative number."""
        return Piece(
            self.tie,
            tuple(Part(part.inside, part.outside, -part.times, part.sign) for part in self.parts),
            self.others,
            -self.steps,
        )

    def laws(self, box: CountBox) -> tuple[Weights, Weights]:
        """Return the largest law of the error, and that of its negative."""
        return self.largest(box), self.negated.largest(box)


def together(laws: Sequence[Weights]) -> Weights:
    """Return the law of a sum of independent errors."""
    out = NOTHING
    for law in laws:
        out = out.plus(law)
    return out
