"""One step of a chain in which every child has exact sums of its own: by look-ahead rejection, part by part."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import HierarchyError, SamplingError
from congenial.hierarchy.exact_rows import ExactSums, SumPart
from congenial.hierarchy.pilots import check_pilots
from congenial.hierarchy.steps import ShareOutStep
from congenial.noise.family import DiscreteNoise
from congenial.randomness import KeyedWords
from congenial.sampling.look_ahead.two_way import TwoWay
from congenial.sampling.look_ahead.two_way_normaliser import log_two_way
from congenial.sampling.share_out.families import Families
from congenial.sampling.share_out.tilts import share_noise

_MOST_SIDE = 1 << 12  # how far weights reach: noise with a standard deviation of 400


@dataclass(frozen=True, eq=False)
class ExactSumsStep:
    """Children that add up to their parent and have exact sums of their own.

    Cells in the same exact sums form a part. In each part the children are a table with both margins given, drawn by
    itself; cells in no exact sum are shared out one by one.

    Attributes
    ----------
    exact : ExactSums
        What is exact in every child.
    """

    families: Families
    noise: DiscreteNoise
    exact: ExactSums

    name: ClassVar[str] = "look_ahead"
    title: ClassVar[str] = (
        "children of a unit with exact sums of their own, drawn given its released table by look-ahead rejection,"
        " exact whatever the number of attempts"
    )

    def __post_init__(self) -> None:
        if self.noise.exponent != 2:
            raise HierarchyError("exact numbers below the top of a tree are drawn under discrete Gaussian noise only")
        self.exact.rows.check(int(self.families.sizes.max(initial=1)), self.families.is_barred)

    @cached_property
    def _held(self) -> list[tuple[SumPart, Ints]]:
        """Parts whose sums are exact, with the sums of all children."""
        parts = [part for part in self.exact.rows.parts if part.is_held]
        return [(part, part.sums(self.exact.values)) for part in parts]

    @cached_property
    def _open(self) -> tuple[Ints, ShareOutStep] | None:
        """The cells that are in no exact sum, and the step that shares them out."""
        cells = [np.array(part.cells) for part in self.exact.rows.parts if not part.is_held]
        if not cells:
            return None
        barred = None if self.families.is_barred is None else self.families.is_barred[:, cells[0]]
        return cells[0], ShareOutStep(Families(self.families.starts, barred), self.noise)

    def part(self, first: int, end: int) -> "ExactSumsStep":
        """Return the step of some families that stand together."""
        children = self.families.starts[[first, end]].tolist()
        return ExactSumsStep(self.families.part(first, end), self.noise, self.exact.part(*children))

    def rehearse(self, spread: float) -> list[str]:
        """Refuse what cannot be drawn: by attempts at made-up children with the public sums."""
        if self._open is not None:
            self._open[1].rehearse(spread)
        side = share_noise(self.noise).side
        if side > _MOST_SIDE:
            raise SamplingError(
                f"precision {float(self.noise.precision):.3g} of {self.exact.rows.level} spreads counts over"
                f" {2 * side:,} values, too many for exact numbers below the top; give the level a larger share"
            )
        return [
            check_pilots(self.noise, spread, self.families, len(part.cells), sums, self.exact.rows.level)
            for part, sums in self._held
        ]

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_certain: bool = False) -> Ints:
        """Return the children (child, cell)."""
        out = np.zeros_like(counts)
        if self._open is not None:
            cells, step = self._open
            own, sums = np.ascontiguousarray(counts[:, cells]), np.ascontiguousarray(released[:, cells])
            out[:, cells] = step.draw(own, sums, words.part(0), always_certain=always_certain)
        for number, (part, sums) in enumerate(self._held, 1):
            cells, own_words = np.array(part.cells), words.part(number)
            for family, start, end in self._spans():
                if start < end:
                    margins = sums[start:end], released[family, cells]
                    table = TwoWay(self.noise, counts[start:end, cells], *margins, always_certain=always_certain)
                    out[start:end, cells] = table.draw(own_words.stream(family))
        return out

    def log_probabilities(self, counts: Ints, released: Ints, children: Ints) -> Floats:
        """Return the log probability of each family's children (family,); large families are refused."""
        out = np.zeros(len(self.families))
        if self._open is not None:
            cells, step = self._open
            out += step.log_probabilities(counts[:, cells], released[:, cells], children[:, cells])
        for part, sums in self._held:
            cells = np.array(part.cells)
            for family, start, end in self._spans():
                drawn, own = children[start:end, cells], counts[start:end, cells]
                margins = sums[start:end], released[family, cells]
                is_right = (drawn.sum(axis=1) == margins[0]).all() and (drawn.sum(axis=0) == margins[1]).all()
                if not is_right or (drawn < 0).any():
                    out[family] = -np.inf
                elif start < end:
                    out[family] += float(self.noise.log_weight(drawn - own).sum()) - log_two_way(
                        self.noise, own, *margins
                    )
        return out

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        starts = self.families.starts.tolist()
        return ((family, start, end) for family, (start, end) in enumerate(pairwise(starts)))
