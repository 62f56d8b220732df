"""What a sampler hands back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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

    tables: NDArray[np.int64] | NDArray[np.float64]
    acceptance: float
    is_independent: bool

    def __repr__(self) -> str:
        kind = "independent draws" if self.is_independent else "draws of a chain"
        return f"Draws({len(self.tables):,} {kind} of {self.tables.shape[1]} cells)"
