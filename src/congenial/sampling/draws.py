"""What a sampler hands back."""

from dataclasses import dataclass

from congenial.arrays import Floats, Ints


@dataclass(frozen=True)
class Draws:
    """Tables from a sampler.

    Attributes
    ----------
    tables : array (draw, cell)
        Integers, or floats for continuous noise.
    acceptance : float
        Share of proposals accepted. It depends on the confidential table, so it is confidential itself.
    is_independent : bool
        Whether the draws are independent of each other and of any starting value.
    """

    tables: Ints | Floats
    acceptance: float
    is_independent: bool

    def __repr__(self) -> str:
        kind = "independent draws" if self.is_independent else "draws of a chain"
        return f"Draws({len(self.tables):,} {kind} of {self.tables.shape[1]} cells)"
