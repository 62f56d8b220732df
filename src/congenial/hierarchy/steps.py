"""One step of a chain: from the released tables of a level to those of the level below."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.noise.family import DiscreteNoise
from congenial.randomness import KeyedWords
from congenial.sampling.share_out.families import Families
from congenial.sampling.share_out.normaliser import Normaliser
from congenial.sampling.share_out.sampler import ShareOut
from congenial.sampling.share_out.tilts import fineness_of, share_noise


class ChainStep(Protocol):
    """Draws the children of every unit of a level, given the units' released tables. Public: it has seen no table.

    For every table that the level above can have, there are children that obey the step's conditions; a step says so
    when it is made, or is not made.
    """

    @property
    def name(self) -> str:
        """What a manifest says of it."""
        ...

    @property
    def title(self) -> str:
        """What a manifest says of it in words."""
        ...

    @property
    def families(self) -> Families:
        """Whose parts the units are."""
        ...

    @property
    def noise(self) -> DiscreteNoise:
        """The noise of every cell of the level below."""
        ...

    def part(self, first: int, end: int) -> "ChainStep":
        """Return the step of some families that stand together."""
        ...

    def rehearse(self, spread: float) -> list[str]:
        """Refuse what cannot be drawn, from public facts and before anything is charged; say what trials promise.

        Parameters
        ----------
        spread : float
            The standard deviation of a parent's released cells, from the noise of all levels above.
        """
        ...

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_certain: bool = False) -> Ints:
        """Return the children (child, cell) around their confidential counts, given the released parents.

        A family's draw is a function of its words, its parent's released table and its own counts. `always_certain`
        makes every decision in ball arithmetic: the same draw, slowly.
        """
        ...

    def log_probabilities(self, counts: Ints, released: Ints, children: Ints) -> Floats:
        """Return the log probability of each family's children (family,); minus infinity where they do not fit."""
        ...


@dataclass(frozen=True)
class ShareOutStep:
    """Children that only have to add up: cells are drawn by themselves, `congenial.sampling.share_out`."""

    families: Families
    noise: DiscreteNoise

    name: ClassVar[str] = "share_out"
    title: ClassVar[str] = "children of a unit drawn independently given its released table, by tilted rejection"

    def part(self, first: int, end: int) -> "ShareOutStep":
        """Return the step of some families that stand together."""
        return ShareOutStep(self.families.part(first, end), self.noise)

    def rehearse(self, spread: float) -> list[str]:  # noqa: ARG002
        """Make the tilts of families of every size: noise that is too wide for tables is refused there."""
        for fineness in {fineness_of(size) for size in np.unique(self.families.sizes).tolist()}:
            share_noise(self.noise, fineness)
        return []

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_certain: bool = False) -> Ints:
        """Return the children (child, cell), each cell of a parent shared out among them."""
        return ShareOut(self.noise, always_certain=always_certain).draw(self.families, counts, released, words)

    def log_probabilities(self, counts: Ints, released: Ints, children: Ints) -> Floats:
        """Return the log probability of each family's children (family,)."""
        out, normaliser = np.zeros(len(self.families)), Normaliser(self.noise)
        weights = self.noise.log_weight(children - counts)
        is_open = np.ones_like(children, np.bool_) if self.families.is_barred is None else ~self.families.is_barred
        for family, (first, end) in enumerate(zip(self.families.starts, self.families.starts[1:], strict=False)):
            drawn, own = children[first:end], is_open[first:end]
            if (drawn < 0).any() or drawn[~own].any() or (drawn.sum(axis=0) != released[family]).any():
                out[family] = -np.inf
                continue
            for cell in range(children.shape[1]):
                among = own[:, cell]
                if among.any():
                    out[family] += weights[first:end, cell][among].sum() - normaliser.log(
                        counts[first:end, cell][among], int(released[family, cell])
                    )
        return out
