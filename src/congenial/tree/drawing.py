"""How the levels of a tree are drawn: steps from a level to the next, their feasibility, and subtrees of steps."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import ClassVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.arrow_and_unit_codes import CodeTexts
from congenial.conditions.areas_and_bounds import Areas
from congenial.errors import HierarchyError, SamplingError
from congenial.memory_and_threads import n_processors
from congenial.noise import Noise
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.progress_and_interrupts import DRAWING, Progress, silent
from congenial.randomness import KeyedWords, RandomStream, Streams, TreeStreams, replay_rng
from congenial.sampling.allocation_to_children.sampler import Allocation, Families
from congenial.sampling.allocation_to_children.tilts_and_normaliser import Normaliser, fineness_of, level_noise
from congenial.sampling.two_way.counts_given_margins import TwoWayCounts, log_two_way
from congenial.sampling.two_way.sampler_and_pilots import LEAST_ACCEPTANCE
from congenial.schema import Schema
from congenial.tree.exact_sums import ExactSums, SumPart, unit_groups
from congenial.tree.tree_and_zeros import Tree, TreeTables, Zeros


@dataclass(frozen=True, eq=False)
class LevelStep(ABC):
    """Draws the children of every unit of a level, given the units' released tables. Public: it has seen no table.

    For every table that the level above can have, there are children that obey the step's conditions; a step says so
    when it is made, or is not made.

    Attributes
    ----------
    families : Families
        Whose parts the units are.
    noise : DiscreteNoise
        The noise of every cell of the level below.
    """

    families: Families
    noise: DiscreteNoise

    name: ClassVar[str]
    title: ClassVar[str]
    """What a manifest says of it in words."""

    @abstractmethod
    def part(self, first: int, end: int) -> "LevelStep":
        """Return the step of some families that stand together."""

    @abstractmethod
    def dry_run(self, spread: float) -> list[str]:
        """Refuse what cannot be drawn, from public facts and before anything is charged; say what trials promise.

        Parameters
        ----------
        spread : float
            The standard deviation of a parent's released cells, from the noise of all levels above.
        """

    @abstractmethod
    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return the children (child, cell) around their confidential counts, given the released parents.

        A family's draw is a function of its words, its parent's released table and its own counts. `always_refined`
        makes every decision in ball arithmetic: the same draw, slowly.
        """

    @abstractmethod
    def log_probabilities(self, counts: Ints, released: Ints, children: Ints) -> Floats:
        """Return the log probability of each family's children (family,); minus infinity where they do not fit."""


@dataclass(frozen=True, eq=False)
class AllocationStep(LevelStep):
    """Children that only have to add up: every cell by itself, `congenial.sampling.allocation_to_children`."""

    title: ClassVar[str] = "children of a unit drawn independently given its released table, by tilted rejection"

    def part(self, first: int, end: int) -> "AllocationStep":
        """Return the step of some families that stand together."""
        return AllocationStep(self.families.part(first, end), self.noise)

    def dry_run(self, spread: float) -> list[str]:  # noqa: ARG002
        """Make the tilts of families of every size: noise that is too wide for tables is refused there."""
        for fineness in {fineness_of(size) for size in np.unique(self.families.sizes).tolist()}:
            level_noise(self.noise, fineness)
        return []

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return the children (child, cell), each cell of a parent shared out among them."""
        return Allocation(self.noise, always_refined=always_refined).draw(self.families, counts, released, words)

    def log_probabilities(self, counts: Ints, released: Ints, children: Ints) -> Floats:
        """Return the log probability of each family's children (family,)."""
        out, normaliser = np.zeros(len(self.families)), Normaliser(self.noise)
        weights = self.noise.log_weight(children - counts)
        is_open = np.ones_like(children, np.bool_) if self.families.zero_mask is None else ~self.families.zero_mask
        for family, (first, end) in enumerate(zip(self.families.starts, self.families.starts[1:], strict=False)):
            drawn, open_cells = children[first:end], is_open[first:end]
            if (drawn < 0).any() or drawn[~open_cells].any() or (drawn.sum(axis=0) != released[family]).any():
                out[family] = -np.inf
                continue
            for cell in range(children.shape[1]):
                among = open_cells[:, cell]
                if among.any():
                    out[family] += weights[first:end, cell][among].sum() - normaliser.log(
                        counts[first:end, cell][among], int(released[family, cell])
                    )
        return out


# Whether children with exact sums can be drawn, from public facts: attempts at made-up families with those sums.
#
# Nothing here has seen a confidential table or a released one, so a pilot may give up, and say so. Seeds are public.

SHAPES = ("even", "skewed", "apart")
ALONE = "alone"
"""Each child in a single cell: attempts at such families may hardly ever be accepted. What came of them is said."""

_MOST_FAMILIES = 10
_MOST_ATTEMPTS = 1_000
_MOST_CELLS = 40_000  # children times cells of a family: half a minute for its bounds


def check_feasibility(
    noise: DiscreteNoise, spread: float, families: Families, n_cells: int, sums: Ints, level: str
) -> str:
    """Refuse a step where attempts at made-up families are hardly ever accepted; say how often they are.

    Parameters
    ----------
    spread : float
        By how much noise moves a family's sums away from its children's, as a standard deviation.
    sums : array (child,)
        What is exact in every child.
    """
    largest = int(families.sizes.max(initial=0)) * n_cells
    if largest > _MOST_CELLS:
        raise SamplingError(
            f"a unit has {largest // n_cells:,} {level} units with exact numbers of {n_cells:,} cells, and families up"
            f" to {_MOST_CELLS:,} children times cells are drawn; put a level of groups between them"
        )
    rates, alone = [1.0], 1.0
    for family in _typical(families, sums).tolist():
        family_sums = sums[families.starts[family] : families.starts[family + 1]]
        if alone >= LEAST_ACCEPTANCE:
            alone = min(alone, acceptance(noise, spread, family_sums, n_cells, ALONE))
        for shape in SHAPES:
            rate = acceptance(noise, spread, family_sums, n_cells, shape)
            rates.append(rate)
            if rate < LEAST_ACCEPTANCE:
                raise SamplingError(
                    f"children with exact numbers are out of reach at {level}: of {2 * _MOST_ATTEMPTS:,} attempts at a"
                    f" made-up {shape} family of {family_sums.size:,} with the public sums {rate:.2%} went through, and"
                    f" {LEAST_ACCEPTANCE:.1%} are asked for; give {level} or the level above it a larger share, put a"
                    " level of groups between them, or leave out the exact numbers"
                )
    worst = f"{alone:.2g}" if alone >= LEAST_ACCEPTANCE else f"below {LEAST_ACCEPTANCE}: such a draw may take very long"
    return (
        f"{level}: share of attempts accepted at made-up families {min(rates):.2g} to {max(rates):.2g}; where everybody"
        f" of a unit is in one cell {worst}"
    )


def _typical(families: Families, sums: Ints) -> Ints:
    """Return families of several children: the largest, the most populous and the most uneven, and some in between."""
    many = np.flatnonzero(families.sizes > 1)
    if not many.size:
        return many
    starts = families.starts[:-1][many]
    totals, tops = np.add.reduceat(sums, starts), np.maximum.reduceat(sums, starts)
    if many.size < len(families):  # reduceat goes on to the next family that is listed
        ends = families.starts[1:][many]
        totals = np.array([sums[a:b].sum() for a, b in zip(starts, ends, strict=True)])
        tops = np.array([sums[a:b].max() for a, b in zip(starts, ends, strict=True)])
    # Hard are those of many children with few people each, and uneven ones.
    keys = (families.sizes[many], totals, tops / (1 + totals), families.sizes[many] / (1 + totals))
    places = {int(np.argsort(key, kind="stable")[rank]) for key in keys for rank in (-1, many.size // 2)}
    inside = [int(np.argsort(totals, kind="stable")[many.size * part // 4]) for part in (1, 3)]
    typical: Ints = many[sorted({*places, *inside})][:_MOST_FAMILIES]
    return typical


def acceptance(noise: DiscreteNoise, spread: float, sums: Ints, n_cells: int, shape: str) -> float:
    """Return the share of attempts accepted at a made-up family with these sums, in the better orientation."""
    rng = replay_rng(f"pilot of a family, {shape}")
    counts = made_up_family(sums, n_cells, shape, rng)
    columns = shifted_sums(counts.sum(axis=0), max(1.0, spread), rng)
    table = TwoWayCounts(noise, counts, sums, columns)
    if table.is_determined:
        return 1.0
    rates = []
    for is_turned in table.turns:
        attempts = table.attempts(is_turned=is_turned)
        n_accepted = attempts.trial(_MOST_ATTEMPTS, rng, enough=4)
        rates.append(n_accepted / attempts.n_attempts)
        if rates[-1] >= LEAST_ACCEPTANCE:
            break
    return max(rates)


def made_up_family(sums: Ints, n_cells: int, shape: str, rng: RandomStream) -> Ints:
    """Return children (child, cell) with given sums.

    Spread evenly; by a skewed profile; by one that is another for each child; or each child in a single cell.
    """
    if shape == ALONE:
        alone = np.zeros((sums.size, n_cells), np.int64)
        alone[np.arange(sums.size), np.arange(sums.size) % n_cells] = sums
        return alone
    profile: Floats = np.ones((sums.size, n_cells))
    if shape != "even":
        profile = 0.6 ** np.arange(n_cells, dtype=np.float64) * profile
    if shape == "apart":
        order = rng.words(sums.size * n_cells).reshape(sums.size, n_cells).argsort(axis=1)
        profile = np.take_along_axis(profile, order, axis=1)
    ends = np.cumsum(profile, axis=1) / profile.sum(axis=1, keepdims=True)
    running = np.floor(ends * sums[:, None] + 0.5).astype(np.int64)
    running[:, -1] = sums
    children: Ints = np.diff(running, axis=1, prepend=0)
    return children


def shifted_sums(columns: Ints, deviation: float, rng: RandomStream) -> Ints:
    """Return column sums shifted by about a standard deviation each, none below 0, with the same total."""
    signs = np.where(rng.words(columns.size) % np.uint64(2) == 0, 1, -1)
    out: Ints = np.maximum(0, columns + signs * round(deviation))
    while (gap := int(columns.sum() - out.sum())) != 0:
        place = int(out.argmax())
        out[place] += max(gap, -int(out[place]))
    return out


# A step in which every child has exact sums: by two-way rejection, part by part.

_MOST_SIDE = 1 << 12  # how far weights reach: noise with a standard deviation of 400


@dataclass(frozen=True, eq=False)
class ExactSumsStep(LevelStep):
    """Children that add up to their parent and have exact sums of their own.

    Cells in the same exact sums form a part. In each part the children are a table with both margins given, drawn by
    itself; cells in no exact sum are shared out one by one.

    Attributes
    ----------
    exact : ExactSums
        What is exact in every child.
    """

    exact: ExactSums

    title: ClassVar[str] = (
        "children of a unit with exact sums of their own, drawn given its released table by look-ahead rejection,"
        " exact whatever the number of attempts"
    )

    def __post_init__(self) -> None:
        if self.noise.exponent != 2:
            raise HierarchyError("exact numbers below the top of a tree are drawn under discrete Gaussian noise only")
        self.exact.rows.check(int(self.families.sizes.max(initial=1)), self.families.zero_mask)

    @cached_property
    def _held(self) -> list[tuple[SumPart, Ints]]:
        """Parts whose sums are exact, with the sums of all children."""
        parts = [part for part in self.exact.rows.parts if part.is_held]
        return [(part, part.sums(self.exact.values)) for part in parts]

    @cached_property
    def _open(self) -> tuple[Ints, AllocationStep] | None:
        """The cells that are in no exact sum, and the step that shares them out."""
        cells = [np.array(part.cells) for part in self.exact.rows.parts if not part.is_held]
        if not cells:
            return None
        zeros = None if self.families.zero_mask is None else self.families.zero_mask[:, cells[0]]
        return cells[0], AllocationStep(Families(self.families.starts, zeros), self.noise)

    def part(self, first: int, end: int) -> "ExactSumsStep":
        """Return the step of some families that stand together."""
        children = self.families.starts[[first, end]].tolist()
        return ExactSumsStep(self.families.part(first, end), self.noise, self.exact.part(*children))

    def dry_run(self, spread: float) -> list[str]:
        """Refuse what cannot be drawn: by attempts at made-up children with the public sums."""
        if self._open is not None:
            self._open[1].dry_run(spread)
        side = level_noise(self.noise).side
        if side > _MOST_SIDE:
            raise SamplingError(
                f"precision {float(self.noise.precision):.3g} of {self.exact.rows.level} spreads counts over"
                f" {2 * side:,} values, too many for exact numbers below the top; give the level a larger share"
            )
        return [
            check_feasibility(self.noise, spread, self.families, len(part.cells), sums, self.exact.rows.level)
            for part, sums in self._held
        ]

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return the children (child, cell)."""
        out = np.zeros_like(counts)
        if self._open is not None:
            cells, step = self._open
            open_counts, sums = np.ascontiguousarray(counts[:, cells]), np.ascontiguousarray(released[:, cells])
            out[:, cells] = step.draw(open_counts, sums, words.part(0), always_refined=always_refined)
        for number, (part, sums) in enumerate(self._held, 1):
            cells, part_words = np.array(part.cells), words.part(number)
            for family, start, end in self._spans():
                if start < end:
                    margins = sums[start:end], released[family, cells]
                    table = TwoWayCounts(self.noise, counts[start:end, cells], *margins, always_refined=always_refined)
                    out[start:end, cells] = table.draw(part_words.stream(family))
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
                drawn, part_counts = children[start:end, cells], counts[start:end, cells]
                margins = sums[start:end], released[family, cells]
                is_right = (drawn.sum(axis=1) == margins[0]).all() and (drawn.sum(axis=0) == margins[1]).all()
                if not is_right or (drawn < 0).any():
                    out[family] = -np.inf
                elif start < end:
                    out[family] += float(self.noise.log_weight(drawn - part_counts).sum()) - log_two_way(
                        self.noise, part_counts, *margins
                    )
        return out

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        starts = self.families.starts.tolist()
        return ((family, start, end) for family, (start, end) in enumerate(pairwise(starts)))


def discrete_noises(family: type[Noise], precisions: Iterable[Fraction]) -> tuple[DiscreteNoise, ...]:
    """Return the noise of levels at these precisions; refuses a family that is not on the integers."""
    if not issubclass(family, DiscreteNoise):
        raise HierarchyError(f"the noise of a tree is on the integers, and {family.title} noise is not")
    return tuple(map(family, precisions))


# The tree under units whose tables are released: drawn from public structure, confidential leaves and keyed words.
#
# A subtree's tables are a function of these and of nothing else: not of the subtrees drawn beside it, nor of the
# order, the chunks, the threads or the machine. So any engine may draw any subtree, and a retry gives the same
# tables.

_TOGETHER = 1 << 17  # children drawn in one go, about: their words and tables take 100 MB


@dataclass(frozen=True, eq=False)
class Subtree:
    """How the levels below some units are drawn, given the units' released tables. Public: it has seen no table.

    Attributes
    ----------
    tree : Tree
        Its top are the units whose tables are released; of a release, the whole tree or any part of it.
    noises : tuple of DiscreteNoise
        The noise of every cell of each level below the top; empty where levels are measured, and none is drawn.
    zeros : Zeros
        What is zero by structure in these units.
    exact : tuple of ExactSums or None
        What is exact in the units of each level below the top; empty where nothing is anywhere.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> from congenial.randomness import replay_rng
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a", "2b"], {"tract": 1}, "block")
    >>> whole = Subtree(tree, (DiscreteGaussian(1),))
    >>> blocks = np.array([[3], [4], [0], [9]])  # confidential
    >>> tracts = np.array([[8], [10]])  # released
    >>> (drawn,) = whole.draw(blocks, tracts, TreeStreams.simulated(replay_rng(1)))
    >>> (second,) = whole.under(0, 1, 2).draw(blocks[2:], tracts[1:], TreeStreams.simulated(replay_rng(1)))
    >>> drawn[:2].sum(), drawn[2:].sum(), bool((second == drawn[2:]).all())
    (np.int64(8), np.int64(10), True)
    """

    tree: Tree
    noises: tuple[DiscreteNoise, ...]
    zeros: Zeros = field(default_factory=Zeros)
    exact: tuple[ExactSums | None, ...] = ()

    def __post_init__(self) -> None:
        n_below = len(self.tree.levels) - 1
        if self.noises and len(self.noises) != n_below:
            raise HierarchyError(f"{n_below} levels below the top have a noise each, not {len(self.noises)}")
        if self.exact and len(self.exact) != n_below:
            raise HierarchyError(f"exact numbers are said for {n_below} levels below the top, not {len(self.exact)}")

    @cached_property
    def steps(self) -> tuple[LevelStep, ...]:
        """How each level below the top is drawn."""
        steps: list[LevelStep] = []
        for level, noise in enumerate(self.noises):
            families = Families(self.tree.families[level].starts, self.zeros.of_level(level + 1))
            exact = self.exact[level] if self.exact else None
            steps.append(AllocationStep(families, noise) if exact is None else ExactSumsStep(families, noise, exact))
        return tuple(steps)

    def areas_of(self, level: int, schema: Schema) -> Areas:
        """Return what the units of a level below the top obey by themselves: exact numbers and structural zeros."""
        codes, exact = self.tree.codes[level], self.exact[level - 1] if self.exact else None
        groups = unit_groups(schema, exact, len(codes), self.zeros.of_level(level))
        return Areas(self.tree.levels[level], CodeTexts(codes), tuple(groups))

    def under(self, level: int, first: int, end: int) -> "Subtree":
        """Return the part under some units of a level that stand together: they are its top."""
        masks, exact = [], []
        start, stop = first, end
        for below in range(level, len(self.tree.levels)):
            if self.zeros.masks:
                masks.append(self.zeros.masks[below][start:stop])
            if self.exact and below > level:
                sums = self.exact[below - 1]
                exact.append(None if sums is None else sums.part(start, stop))
            if below < len(self.tree.levels) - 1:
                start, stop = self.tree.families[below].starts[[start, stop]].tolist()
        return Subtree(self.tree.under(level, first, end), self.noises[level:], Zeros(tuple(masks)), tuple(exact))

    def dry_run(self, spread: float) -> list[str]:
        """Refuse levels that cannot be drawn, from public facts; say what trials promise.

        Parameters
        ----------
        spread : float
            The standard deviation of the noise in a cell of the units at the top.
        """
        out, variance = [], spread**2
        for step in self.steps:
            out += step.dry_run(sqrt(variance))
            variance += 1 / float(step.noise.precision)
        return out

    def hold(self, released: Sequence[Ints]) -> bool:
        """Whether released tables of all levels add up, are not negative, and have their zeros and exact numbers.

        Of one level, that is what the conditions of its areas say: they may allow negative counts.
        """
        is_right = all(int(tables.min(initial=0)) >= 0 for tables in released if len(released) > 1)
        is_right &= all(
            exact is None or exact.hold(tables) for exact, tables in zip(self.exact, released[1:], strict=False)
        )
        for families, above, below in zip(self.tree.families, released, released[1:], strict=False):
            is_right &= np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
        for mask, tables in zip(self.zeros.masks, released, strict=False):
            is_right &= not bool(tables[mask].any())
        return is_right

    def draw(
        self,
        leaves: Ints,
        released: Ints,
        words: Streams | TreeStreams,
        *,
        n_threads: int | None = None,
        always_refined: bool = False,
        progress: Progress = silent,
    ) -> TreeTables:
        """Return the drawn tables of every level below the top.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order of the tree.
        released : array (unit, cell)
            The released tables of the units at the top.
        words : TreeStreams
            Of the release: each family takes those of its parent.
        n_threads : int, optional
            As many as this process has processors if not given.
        always_refined : bool
            Whether every decision is made in ball arithmetic: the same tables, slowly.
        progress : Progress
            Is told how many units are drawn, those at the top included.
        """
        if not self.steps:
            return ()
        if not isinstance(words, TreeStreams):
            raise SamplingError("internal: a tree is drawn from words of its units")
        n_threads = n_threads or n_processors()
        tables = self.tree.summed(leaves.astype(np.int64, copy=False))
        out = [released]
        n_done, n_units = len(released), sum(map(len, tables))
        progress(DRAWING, n_done, n_units)
        with ThreadPoolExecutor(n_threads) as pool:
            for level, step in enumerate(self.steps):
                drawn = np.empty(tables[level + 1].shape, np.int64)
                drawing = _LevelDraw(self, level, tables[level + 1], out[-1], words, always_refined, drawn)
                for n_children in pool.map(drawing.run, _spans(step.families.starts, n_threads)):
                    n_done += n_children
                    progress(DRAWING, n_done, n_units)
                out.append(drawn)
        return tuple(out[1:])


@dataclass(frozen=True, eq=False)
class _LevelDraw:
    """A level that is being drawn, some families at a time. Confidential."""

    subtree: Subtree
    level: int
    counts: Ints
    above: Ints
    words: TreeStreams
    always_refined: bool
    out: Ints

    def run(self, span: tuple[int, int]) -> int:
        """Draw the children of a run of families, and return how many there are."""
        (first, end), tree, step = span, self.subtree.tree, self.subtree.steps[self.level]
        start, stop = step.families.starts[[first, end]].tolist()
        counts, above, part = self.counts[start:stop], self.above[first:end], step.part(first, end)
        codes, name = tree.codes[self.level][first:end], tree.levels[self.level + 1]
        words = self.words.families(name, codes, above, part.families.starts, counts)
        self.out[start:stop] = part.draw(counts, above, words, always_refined=self.always_refined)
        return int(stop - start)


def _spans(starts: Ints, n_threads: int) -> Iterator[tuple[int, int]]:
    """Cut families into runs of about as many children; how they are cut changes no draw."""
    n_children = int(starts[-1])
    together = max(1, min(_TOGETHER, -(-n_children // n_threads)))
    edges = np.searchsorted(starts, np.arange(together, n_children, together))
    cuts = np.unique([0, *edges.tolist(), len(starts) - 1]).tolist()
    return pairwise(cuts)
