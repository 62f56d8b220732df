"""One step of a chain: from the released tables of a level to those of the level below."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.arrow import Codes
from congenial.errors import HierarchyError, SamplingError
from congenial.noise.base import DiscreteNoise
from congenial.progress import DRAWING, Progress, no_news
from congenial.randomness import KeyedWords, RandomStream, SecretBytes, UnitStreams, replay_rng
from congenial.resources import n_processors
from congenial.sampling.allocation.sampler import Allocation, Families
from congenial.sampling.allocation.tilts import Normaliser, fineness_of, level_noise
from congenial.sampling.two_way.counts import TwoWayCounts, log_two_way
from congenial.sampling.two_way.sampler import LEAST_ACCEPTANCE
from congenial.tree.exact_sums import ExactSums, SumPart
from congenial.tree.tree import Tree, TreeTables, Zeros


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

    def dry_run(self, spread: float) -> list[str]:
        """Refuse what cannot be drawn, from public facts and before anything is charged; say what trials promise.

        Parameters
        ----------
        spread : float
            The standard deviation of a parent's released cells, from the noise of all levels above.
        """
        ...

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return the children (child, cell) around their confidential counts, given the released parents.

        A family's draw is a function of its words, its parent's released table and its own counts. `always_refined`
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


# Whether children with exact sums can be drawn, from public facts: attempts at made-up families with those sums.
#
# Nothing here has seen a confidential table or a released one, so a pilot may give up, and say so. Seeds are public.

SHAPES = ("even", "skewed", "apart")
ALONE = "alone"
"""Each child in a single cell: attempts at such families may hardly ever be accepted. What came of them is said."""

_MOST_FAMILIES = 10
_MOST_ATTEMPTS = 1_000
_MOST_CELLS = 40_000  # children times cells of a family: half a minute for its bounds


def check_pilots(noise: DiscreteNoise, spread: float, families: Families, n_cells: int, sums: Ints, level: str) -> str:
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
        own = sums[families.starts[family] : families.starts[family + 1]]
        if alone >= LEAST_ACCEPTANCE:
            alone = min(alone, acceptance(noise, spread, own, n_cells, ALONE))
        for shape in SHAPES:
            rate = acceptance(noise, spread, own, n_cells, shape)
            rates.append(rate)
            if rate < LEAST_ACCEPTANCE:
                raise SamplingError(
                    f"children with exact numbers are out of reach at {level}: of {2 * _MOST_ATTEMPTS:,} attempts at a"
                    f" made-up {shape} family of {own.size:,} with the public sums {rate:.2%} went through, and"
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
    found: Ints = many[sorted({*places, *inside})][:_MOST_FAMILIES]
    return found


def acceptance(noise: DiscreteNoise, spread: float, sums: Ints, n_cells: int, shape: str) -> float:
    """Return the share of attempts accepted at a made-up family with these sums, in the better orientation."""
    rng = replay_rng(f"pilot of a family, {shape}")
    counts = made_up_family(sums, n_cells, shape, rng)
    columns = moved(counts.sum(axis=0), max(1.0, spread), rng)
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
    found: Ints = np.diff(running, axis=1, prepend=0)
    return found


def moved(columns: Ints, deviation: float, rng: RandomStream) -> Ints:
    """Return column sums moved by about a standard deviation each, none below 0, with the same total."""
    signs = np.where(rng.words(columns.size) % np.uint64(2) == 0, 1, -1)
    out: Ints = np.maximum(0, columns + signs * round(deviation))
    while (gap := int(columns.sum() - out.sum())) != 0:
        place = int(out.argmax())
        out[place] += max(gap, -int(out[place]))
    return out


# One step of a chain in which every child has exact sums of its own: by look-ahead rejection, part by part.

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
        self.exact.rows.check(int(self.families.sizes.max(initial=1)), self.families.zero_mask)

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
        barred = None if self.families.zero_mask is None else self.families.zero_mask[:, cells[0]]
        return cells[0], ShareOutStep(Families(self.families.starts, barred), self.noise)

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
            check_pilots(self.noise, spread, self.families, len(part.cells), sums, self.exact.rows.level)
            for part, sums in self._held
        ]

    def draw(self, counts: Ints, released: Ints, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return the children (child, cell)."""
        out = np.zeros_like(counts)
        if self._open is not None:
            cells, step = self._open
            own, sums = np.ascontiguousarray(counts[:, cells]), np.ascontiguousarray(released[:, cells])
            out[:, cells] = step.draw(own, sums, words.part(0), always_refined=always_refined)
        for number, (part, sums) in enumerate(self._held, 1):
            cells, own_words = np.array(part.cells), words.part(number)
            for family, start, end in self._spans():
                if start < end:
                    margins = sums[start:end], released[family, cells]
                    table = TwoWayCounts(self.noise, counts[start:end, cells], *margins, always_refined=always_refined)
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


# The random words of a tree: each unit's follow from a secret key and from all that its draw depends on.

_BLOCK = 16


def _measured(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


class ChainWords:
    """Words for every unit of a tree. Confidential.

    A family's words are those of its parent: a keyed hash of what is being released (`context`, such as the release's
    name and the digest of its plan), the level, the parent's code, its released table and its children's confidential
    tables. The same inputs give the same draw, in any order and on any machine; other inputs never meet the same noise.

    Examples
    --------
    >>> from congenial.randomness import replay_rng
    >>> words = ChainWords.simulated(replay_rng(7))
    >>> words
    ChainWords(secret)
    """

    def __init__(self, key: bytes, context: Sequence[str] = ()) -> None:
        self._key = SecretBytes(key)
        self._context = [part.encode() for part in context]

    @classmethod
    def simulated(cls, rng: RandomStream) -> "ChainWords":
        """Return words whose key is taken from a stream: for a draw that is not a release."""
        return cls(rng.words(4).tobytes(), ["simulation"])

    def top(self, level: str, codes: Codes, counts: Ints) -> UnitStreams:
        """Return the words of the units at the top, which are drawn from their own counts."""
        lines = [line.tobytes() for line in counts.astype("<i8")]
        return UnitStreams(self._keyed(b"top"), self._starts(level, codes, lines, [b""] * len(lines)))

    def families(self, level: str, codes: Codes, released: Ints, starts: Ints, children: Ints) -> KeyedWords:
        """Return the words of the families of a level: `starts` says where each one's children begin."""
        below = np.ascontiguousarray(children.astype("<i8", copy=False))
        data, ends = below.data.cast("B"), (starts * below.strides[0]).tolist()
        parts = [data[first:end] for first, end in pairwise(ends)]
        lines = [line.tobytes() for line in released.astype("<i8", copy=False)]
        blocks = b"".join(self._starts(level, codes, lines, parts))
        return KeyedWords(self._keyed(b"family"), np.frombuffer(blocks, ">u8").astype(np.uint64).reshape(-1, 2))

    def _keyed(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose, key=self._key, digest_size=32, person=b"tree words").digest()

    def _starts(
        self, level: str, codes: Codes, tables: Sequence[bytes], children: Sequence[bytes | memoryview]
    ) -> list[bytes]:
        """Return a keyed hash for each unit: of the context and the level, its code, its table and its children.

        Every part but the last has its length before it, so that no two inputs are hashed alike.
        """
        shared = hashlib.blake2b(key=self._key, digest_size=_BLOCK, person=b"tree unit")
        for part in (len(self._context).to_bytes(8, "little"), *map(_measured, (*self._context, level.encode()))):
            shared.update(part)
        found = []
        for code, table, below in zip(codes.tolist(), tables, children, strict=True):
            made = shared.copy()
            made.update(_measured(code if isinstance(code, bytes) else code.encode()) + _measured(table))
            made.update(below)
            found.append(made.digest())
        return found

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "ChainWords(secret)"


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
        The noise of every cell of each level below the top.
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
    >>> (drawn,) = whole.draw(blocks, tracts, ChainWords.simulated(replay_rng(1)))
    >>> (second,) = whole.under(0, 1, 2).draw(blocks[2:], tracts[1:], ChainWords.simulated(replay_rng(1)))
    >>> drawn[:2].sum(), drawn[2:].sum(), bool((second == drawn[2:]).all())
    (np.int64(8), np.int64(10), True)
    """

    tree: Tree
    noises: tuple[DiscreteNoise, ...]
    zeros: Zeros = field(default_factory=Zeros)
    exact: tuple[ExactSums | None, ...] = ()

    @cached_property
    def steps(self) -> tuple[ChainStep, ...]:
        """How each level below the top is drawn."""
        found: list[ChainStep] = []
        for level, noise in enumerate(self.noises):
            barred = self.zeros.bars[level + 1] if self.zeros.bars else None
            families = Families(self.tree.families[level].starts, barred)
            exact = self.exact[level] if self.exact else None
            found.append(ShareOutStep(families, noise) if exact is None else ExactSumsStep(families, noise, exact))
        return tuple(found)

    def under(self, level: int, first: int, end: int) -> "Subtree":
        """Return the part under some units of a level that stand together: they are its top."""
        bars, exact = [], []
        start, stop = first, end
        for below in range(level, len(self.tree.levels)):
            if self.zeros.bars:
                bars.append(self.zeros.bars[below][start:stop])
            if self.exact and below > level:
                own = self.exact[below - 1]
                exact.append(None if own is None else own.part(start, stop))
            if below < len(self.tree.levels) - 1:
                start, stop = self.tree.families[below].starts[[start, stop]].tolist()
        return Subtree(self.tree.under(level, first, end), self.noises[level:], Zeros(tuple(bars)), tuple(exact))

    def draw(
        self,
        leaves: Ints,
        released: Ints,
        words: ChainWords,
        *,
        n_threads: int | None = None,
        always_refined: bool = False,
        progress: Progress = no_news,
    ) -> TreeTables:
        """Return the drawn tables of every level below the top.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order of the tree.
        released : array (unit, cell)
            The released tables of the units at the top.
        words : ChainWords
            Of the release: each family takes its own.
        n_threads : int, optional
            As many as this process has processors if not given.
        always_refined : bool
            Whether every decision is made in ball arithmetic: the same tables, slowly.
        progress : Progress
            Is told how many units are drawn, those at the top included.
        """
        n_threads = n_threads or n_processors()
        tables = self.tree.summed(leaves.astype(np.int64, copy=False))
        out = [released]
        n_done, n_units = len(released), sum(map(len, tables))
        progress(DRAWING, n_done, n_units)
        with ThreadPoolExecutor(n_threads) as pool:
            for level, step in enumerate(self.steps):
                drawn = np.empty(tables[level + 1].shape, np.int64)
                drawing = _Drawing(self, level, tables[level + 1], out[-1], words, always_refined, drawn)
                for n_children in pool.map(drawing.run, _spans(step.families.starts, n_threads)):
                    n_done += n_children
                    progress(DRAWING, n_done, n_units)
                out.append(drawn)
        return tuple(out[1:])


@dataclass(frozen=True, eq=False)
class _Drawing:
    """A level that is being drawn, some families at a time. Confidential."""

    subtree: Subtree
    level: int
    counts: Ints
    above: Ints
    words: ChainWords
    always_refined: bool
    out: Ints

    def run(self, span: tuple[int, int]) -> int:
        """Draw the children of a run of families, and return how many there are."""
        (first, end), tree, step = span, self.subtree.tree, self.subtree.steps[self.level]
        start, stop = step.families.starts[[first, end]].tolist()
        own, above, part = self.counts[start:stop], self.above[first:end], step.part(first, end)
        codes, name = tree.codes[self.level][first:end], tree.levels[self.level + 1]
        words = self.words.families(name, codes, above, part.families.starts, own)
        self.out[start:stop] = part.draw(own, above, words, always_refined=self.always_refined)
        return int(stop - start)


def _spans(starts: Ints, n_threads: int) -> Iterator[tuple[int, int]]:
    """Cut families into runs of about as many children; how they are cut changes no draw."""
    n_children = int(starts[-1])
    together = max(1, min(_TOGETHER, -(-n_children // n_threads)))
    edges = np.searchsorted(starts, np.arange(together, n_children, together))
    cuts = np.unique([0, *edges.tolist(), len(starts) - 1]).tolist()
    return pairwise(cuts)
