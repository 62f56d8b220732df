"""Children of many units, each unit's table allocated to them, cell by cell. Exact; confidential."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import SamplingError
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.proven_decisions import Uniform
from congenial.randomness import KeyedWords
from congenial.sampling.allocation_to_children.exact_fallback import ExactAllocation
from congenial.sampling.allocation_to_children.kernels import DONE, UNPROVEN, LevelNoise, TiltedLaws, empty_laws
from congenial.sampling.allocation_to_children.tilts_and_normaliser import fineness_of, level_noise

# Which children belong together: the structure that allocation goes by.


@dataclass(frozen=True, eq=False)
class Families:
    """Families of children, one after another. Public.

    Attributes
    ----------
    starts : array (family + 1,)
        Where each family's children begin.
    zero_mask : array (child, cell), or None
        Which cells of which children are zero by structure.

    Examples
    --------
    >>> families = Families(np.array([0, 2, 2, 5]))
    >>> len(families), families.sizes
    (3, array([2, 0, 3]))
    """

    starts: Ints
    zero_mask: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """How many children each family has."""
        return np.diff(self.starts)

    def part(self, first: int, end: int) -> "Families":
        """Return some families that stand together, by themselves."""
        starts = self.starts[first : end + 1]
        mask = None if self.zero_mask is None else self.zero_mask[starts[0] : starts[-1]]
        return Families(starts - starts[0], mask)

    def children_of(self, places: Ints) -> Ints:
        """Return the children of some families, family by family."""
        sizes = self.sizes[places]
        ends = np.cumsum(sizes)
        return np.repeat(self.starts[places] - ends + sizes, sizes) + np.arange(int(sizes.sum()))

    def some(self, places: Ints) -> "Families":
        """Return some of the families, by themselves."""
        starts = np.concatenate([[0], np.cumsum(self.sizes[places])]).astype(np.int64)
        return Families(starts, None if self.zero_mask is None else self.zero_mask[self.children_of(places)])


_MOST_WORDS = 1 << 22  # of one call of the kernel: 32 MB


@dataclass(frozen=True)
class Allocation:
    """Draws ``y`` with weights ``prod f(y_i - s_i)`` over nonnegative ``y`` that add up to a given sum, cell by cell.

    Public: it has seen no table. docs/claims/exact-sampling.md, section 5, has the proof that draws are exact.

    Attributes
    ----------
    noise : DiscreteNoise
        The noise of the children's level.
    always_refined : bool
        Whether every decision is made in ball arithmetic: the same draws, slowly. For tests.
    band : float
        What is added to every tolerance, so that more decisions are made again in balls. For tests.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> words = KeyedWords(bytes(32), np.zeros((1, 2), np.uint64))
    >>> children = np.array([[5, 0], [1, 2], [0, 0]])
    >>> sums = np.array([[7, 2]])
    >>> Allocation(DiscreteGaussian(1)).draw(Families(np.array([0, 3])), children, sums, words).sum(axis=0)
    array([7, 2])
    """

    noise: DiscreteNoise
    always_refined: bool = False
    band: float = 0.0

    def draw(self, families: Families, counts: Ints, sums: Ints, words: KeyedWords) -> Ints:
        """Return the children (child, cell) of every family.

        Parameters
        ----------
        counts : array (child, cell)
            The confidential counts; they need not add up to the sums.
        sums : array (family, cell)
            What each family's children add up to.
        words : KeyedWords
            The words of each family: its draw depends on nothing else of the company it is drawn in.
        """
        out = np.zeros_like(counts, dtype=np.int64)
        sizes, need = families.sizes, _words_needed(families, sums)
        held: dict[int, _AllocationRun] = {}
        for places in _parts(sizes, need):
            largest = int(sizes[places].max())
            fineness = fineness_of(largest)
            if fineness not in held:
                held[fineness] = _AllocationRun(self, fineness, families, counts, sums, words, out)
            held[fineness].draw(places, min(int(need[places].max()), max(_MOST_WORDS, 2 * largest)))
        _check_sums(families, sums, out)
        return out


@dataclass(frozen=True, eq=False)
class _AllocationRun:
    """A draw that is under way, in one thread: its tables serve all families of about a size. Confidential."""

    sampler: Allocation
    fineness: int
    families: Families
    counts: Ints
    sums: Ints
    words: KeyedWords
    out: Ints

    @cached_property
    def _noise(self) -> LevelNoise:
        return level_noise(self.sampler.noise, self.fineness)

    @cached_property
    def _laws(self) -> TiltedLaws:
        return empty_laws(self._noise)

    def draw(self, places: Ints, n_words: int) -> None:
        """Draw some families, which need about so many words each."""
        cell, at = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        if self.sampler.always_refined:
            self._refine(places, cell, at, np.arange(len(places)), self.sums.shape[1])
            return
        while places.size:
            status = self._run_floats(places, cell, at, n_words)
            self._refine(places, cell, at, np.flatnonzero(status == UNPROVEN), 1)
            is_open = status != DONE
            places, cell, at = places[is_open], cell[is_open], at[is_open]
            n_words = max(n_words, 2 * int(self.families.sizes[places].max(initial=0)) + 4)

    def _run_floats(self, places: Ints, cell: Ints, at: Ints, n_words: int) -> Ints:
        """Go on with families in floats; `cell` and `at` say where they have got to."""
        from congenial.sampling.allocation_to_children.kernels import allocate  # numba: 0.3 s to import

        some, children = self.families.some(places), self.families.children_of(places)
        mask = np.empty((0, 0), np.bool_) if some.zero_mask is None else some.zero_mask
        taken = self.words.stretch(places, at >> 1, n_words + n_words % 2)
        pointer, status, drawn = at & 1, np.empty(len(places), np.int64), self.out[children]
        allocate(
            self._noise,
            self._laws,
            some.starts,
            self.counts[children],
            mask,
            self.sums[places],
            taken,
            self.sampler.band,
            cell,
            pointer,
            status,
            drawn,
        )
        self.out[children] = drawn
        at += pointer - (at & 1)
        return status

    def _refine(self, places: Ints, cell: Ints, at: Ints, numbers: Ints, n_cells: int) -> None:
        """Go on with some families in balls, for so many cells at most."""
        exact = ExactAllocation(self.sampler.noise, self.fineness)
        for number in numbers.tolist():
            first, place = int(cell[number]), int(places[number])
            cell[number] = min(self.sums.shape[1], first + n_cells)
            for column in range(first, int(cell[number])):
                at[number] = self._cell(exact, place, column, int(at[number]))

    def _cell(self, exact: ExactAllocation, place: int, cell: int, at: int) -> int:
        from congenial.sampling.allocation_to_children.kernels import tilt_of

        children = np.arange(self.families.starts[place], self.families.starts[place + 1])
        mask = self.families.zero_mask
        open_ = children if mask is None else children[~mask[children, cell]]
        wanted = int(self.sums[place, cell])
        self.out[children, cell] = 0
        if wanted == 0 or open_.size == 0:
            return at
        if open_.size == 1:
            self.out[open_[0], cell] = wanted
            return at
        counts = self.counts[open_, cell]
        distinct, times = _in_order(counts)
        tilt = tilt_of(self._noise, self._laws, distinct, times, len(distinct), len(counts), wanted)

        def uniform_at(index: int) -> Uniform:
            word = int(self.words.stretch([place], [index >> 1], 2)[0, index & 1])
            return Uniform(word, (self.words.further(place, index, n)[-1] for n in itertools.count(1)))

        drawn, end = exact.draw(counts.tolist(), wanted, tilt, at, uniform_at)
        self.out[open_, cell] = drawn
        return end


def _parts(sizes: Ints, need: Ints) -> list[Ints]:
    """Return which families are drawn together: those that need about as many words and whose tilts are equally fine.

    How they are put together changes no draw.
    """
    distinct, size_of = np.unique(sizes, return_inverse=True)
    fineness = np.array([fineness_of(size) for size in distinct.tolist()], np.int64)[size_of.reshape(-1)]
    mantissas, exponents = np.frexp(np.maximum(need, 1.0))
    amounts = (8 * mantissas).astype(np.int64) + 4 * exponents  # four steps from a power of two to the next
    order = np.lexsort((amounts, fineness))
    is_new = (np.diff(amounts[order]) != 0) | (np.diff(fineness[order]) != 0)
    parts = []
    for families in np.split(order, np.flatnonzero(is_new) + 1):
        if families.size and need[families].max() > 0:
            at_once = max(1, int(_MOST_WORDS / need[families].max()))
            parts += [families[first : first + at_once] for first in range(0, families.size, at_once)]
    return parts


def _in_order(counts: Ints) -> tuple[Ints, Ints]:
    """Return distinct counts as the kernel lists them: small ones once, in the order in which they come."""
    listed: dict[tuple[int, int], int] = {}
    for number, count in enumerate(counts.tolist()):
        key = (count, 0 if count < 64 else number)
        listed[key] = listed.get(key, 0) + 1
    return np.array([count for count, _ in listed], np.int64), np.array(list(listed.values()), np.int64)


def _words_needed(families: Families, sums: Ints) -> Ints:
    """Return about how many words each family takes, a little more than most do; who needs more goes on with more."""
    sizes = families.sizes.astype(np.float64)
    n_drawn = np.count_nonzero(sums, axis=1)
    need = n_drawn * sizes * (0.5 * np.sqrt(sizes) + 1)
    n_words: Ints = np.where((sizes > 1) & (n_drawn > 0), np.ceil(need) + 2 * sizes + 16, 0).astype(np.int64)
    n_words[(sizes == 1) & (n_drawn > 0)] = 2
    return n_words


def _check_sums(families: Families, sums: Ints, drawn: Ints) -> None:
    totals = np.zeros_like(sums)
    has_children = families.sizes > 0
    if has_children.any():
        totals[has_children] = np.add.reduceat(drawn, families.starts[:-1][has_children], axis=0)
    if not np.array_equal(totals, sums):
        raise SamplingError(
            "internal: children do not add up to what is to be shared out; nothing is published, please report this"
        )
