"""Random words for kernels: a supply that is filled up from a stream when it runs low."""

from dataclasses import dataclass, field

import numpy as np

from congenial.inference.kernels.shapes import Words
from congenial.randomness import RandomStream

_AT_ONCE = 1 << 16


@dataclass(eq=False)
class WordSupply:
    """Words of one stream, handed to kernels that take as many as chance has it."""

    rng: RandomStream
    held: Words = field(default_factory=lambda: Words(np.empty(0, np.uint64), np.zeros(1, np.int64)))

    def at_least(self, n_words: int) -> Words:
        """Return words of which at least so many are unused."""
        if len(self.held.words) - int(self.held.used[0]) < n_words:
            self.held = Words(self.rng.words(max(_AT_ONCE, 2 * n_words)), np.zeros(1, np.int64))
        return self.held
