"""The nearest nonnegative children of given sums, for all families of a level at once: TopDown below the top.

Least squares with one sum and no negative numbers is projection onto a simplex: a common number is taken off every
answer, and what would be negative is zero. Whole answers and sums make every comparison one of integers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import BaselineError
from congenial.randomness import RandomStream
from congenial.sampling.share_out.families import Families


@dataclass(frozen=True, eq=False)
class SimplexFit:
    """Children above zero, the entries, in the order of the sums that they are part of.

    An entry is ``floor + remainder / n``, n being the number of entries of its sum. The remainder is the same for all
    entries of a sum, because answers are whole.

    Attributes
    ----------
    shape : tuple of int
        (child, cell).
    places : array (entry,)
        Where each entry stands in the flat array of children.
    sum_of : array (entry,)
        Which sum it is part of.
    floors : array (entry,)
    n_entries, remainders : arrays (sum,)

    Examples
    --------
    >>> from congenial.randomness import replay_rng
    >>> fit = SimplexFit.of(Families(np.array([0, 3])), np.array([[5], [2], [-4]]), np.array([[4]]))
    >>> fit.real.tolist()
    [[3.5], [0.5], [0.0]]
    >>> int(fit.rounded(replay_rng(1)).sum())
    4
    """

    shape: tuple[int, int]
    places: Ints
    sum_of: Ints
    floors: Ints
    n_entries: Ints
    remainders: Ints

    @classmethod
    def of(cls, families: Families, answers: Ints, sums: Ints) -> "SimplexFit":
        """Return the children that are nearest in squares to whole answers (child, cell), given their sums.

        Parameters
        ----------
        sums : array (family, cell)
            Not negative; zero where every child is barred.
        """
        n_families, n_cells = len(families), answers.shape[1]
        if answers.dtype.kind != "i" or sums.dtype.kind != "i" or sums.shape != (n_families, n_cells):
            raise BaselineError("children are fitted to whole answers, and to one whole sum for each family and cell")
        family_of = np.repeat(np.arange(n_families), families.sizes)
        all_sums = (family_of[:, None] * n_cells + np.arange(n_cells)).reshape(-1)
        is_open = np.ones(answers.size, np.bool_) if families.is_barred is None else ~families.is_barred.reshape(-1)
        places = np.flatnonzero(is_open)
        order = np.lexsort((-answers.reshape(-1)[places], all_sums[places]))
        places = places[order]
        values, sum_of, aims = answers.reshape(-1)[places], all_sums[places], sums.reshape(-1)
        sizes = np.bincount(sum_of, minlength=aims.size)
        if (aims < 0).any() or aims[sizes == 0].any():
            raise BaselineError("sums that are negative, or of children that are all barred, cannot be shared out")
        firsts = np.cumsum(sizes) - sizes
        ranks = np.arange(values.size) - firsts[sum_of] + 1
        running = np.concatenate([[0], np.cumsum(values)])
        # With the largest r answers above zero, each gives up excess / r; they are the right ones while the least of
        # them stays above zero. That holds up to some r and for none beyond.
        excess = running[1:] - running[firsts[sum_of]] - aims[sum_of]
        is_above = ranks * values > excess
        n_entries = np.bincount(sum_of[is_above], minlength=aims.size)
        given_up = np.zeros(aims.size, np.int64)
        is_any = n_entries > 0
        given_up[is_any] = excess[(firsts + n_entries - 1)[is_any]]
        kept = sum_of[is_above]
        floors = values[is_above] + -given_up[kept] // n_entries[kept]
        remainders = -given_up % np.maximum(n_entries, 1)
        return cls((len(answers), n_cells), places[is_above], kept, floors, n_entries, remainders)

    @property
    def real(self) -> Floats:
        """The nearest real children (child, cell)."""
        share: NDArray[np.float64] = self.remainders / np.maximum(self.n_entries, 1)
        out = np.zeros(self.shape[0] * self.shape[1])
        out[self.places] = self.floors + share[self.sum_of]
        return out.reshape(self.shape)

    def rounded(self, rng: RandomStream) -> Ints:
        """Return whole children (child, cell) of the same sums, by largest remainder.

        The remainders of a sum are alike, so which of them are rounded up is decided by lot.
        """
        lots = np.lexsort((rng.words(self.places.size), self.sum_of))  # entries of a sum stand together already
        firsts = np.cumsum(self.n_entries) - self.n_entries
        is_up = np.arange(lots.size) - firsts[self.sum_of] < self.remainders[self.sum_of]
        out = np.zeros(self.shape[0] * self.shape[1], np.int64)
        out[self.places] = self.floors
        out[self.places[lots[is_up]]] += 1
        return out.reshape(self.shape)
