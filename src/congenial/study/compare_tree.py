"""A tree released by the chain and by other methods, at equal certified loss, on simulated or public leaves."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import StudyError
from congenial.mechanism import Hierarchy
from congenial.plan import Plan
from congenial.privacy.certificate import Certificate
from congenial.progress import Progress, silent
from congenial.randomness import RandomStream, TreeStreams, secure_rng
from congenial.study.baselines.base import Label
from congenial.study.baselines.topdown import LeavesAlone, TopDownTree, TreeBaseline
from congenial.study.compare import SOURCES, check_asked, write_comparison
from congenial.study.paper.exhibits import Columns, Grid
from congenial.tree.tree import TreeTables

# What a comparison of trees found, level by level: errors, bias by size of count, zeros kept, CPU time.

SIZES = (0, 1, 5, 20)
"""Where each class of true counts begins."""
SIZE_TEXTS = ("0", "1-4", "5-19", "20+")


@dataclass(frozen=True)
class TreeResult:
    """What one method did.

    Attributes
    ----------
    certificate : Certificate
        What its release costs at most.
    spent : str
        That cost in the budget's currency, in words.
    holds_for : str
        For which pairs of trees that is known.
    cells, totals : arrays (release, level)
        Mean absolute error of a cell, and of a unit's total.
    bias : array (level, size of count)
        Mean of release less truth over cells of a size; not a number where there are none.
    zeros : array (level,)
        Share of the cells that are truly zero that are released as zero.
    seconds : float
        CPU time of one release, the median.
    """

    name: str
    certificate: Certificate
    spent: str
    holds_for: str
    law: str
    cells: Floats
    totals: Floats
    bias: Floats
    zeros: Floats
    seconds: float


@dataclass(frozen=True, repr=False)
class TreeComparison:
    """Results by method and level. Printed unless the tree is confidential.

    Attributes
    ----------
    levels : tuple of str
        The top first.
    n_units : tuple of int
        How many units each has.
    n_of_size : array (level, size of count)
        How many cells have a true count of each size.
    """

    results: tuple[TreeResult, ...]
    levels: tuple[str, ...]
    n_units: tuple[int, ...]
    n_of_size: Ints
    n_releases: int
    is_confidential: bool

    @property
    def summary(self) -> Columns:
        """One line for each method and level."""
        both = [(result, level) for result in self.results for level in range(len(self.levels))]
        return {
            "method": [result.name for result, _ in both],
            "certified_loss": [result.spent for result, _ in both],
            "level": [self.levels[level] for _, level in both],
            "mean_error_of_a_cell": [float(result.cells[:, level].mean()) for result, level in both],
            "mean_error_of_a_total": [float(result.totals[:, level].mean()) for result, level in both],
            **{
                f"bias_of_{text}": [float(result.bias[level, size]) for result, level in both]
                for size, text in enumerate(SIZE_TEXTS)
            },
            "share_of_zeros_kept": [float(result.zeros[level]) for result, level in both],
            "cpu_seconds_a_release": [result.seconds for result, _ in both],
        }

    @property
    def tidy(self) -> Columns:
        """Every number in a long frame: method, level, statistic, size of count, release, value."""
        rows = list(self._tidy_rows())
        names = ("method", "certified_loss", "level", "statistic", "size_of_count", "n_cells", "release", "value")
        return {name: [row[i] for row in rows] for i, name in enumerate(names)}

    def _tidy_rows(self) -> Iterator[tuple[str, str, str, str, str, object, object, float]]:
        for result in self.results:
            for place, level in enumerate(self.levels):
                head = (result.name, result.spent, level)
                for number in range(self.n_releases):
                    yield (*head, "error_of_a_cell", "", "", number + 1, float(result.cells[number, place]))
                    yield (*head, "error_of_a_total", "", "", number + 1, float(result.totals[number, place]))
                for size, text in enumerate(SIZE_TEXTS):
                    n_cells = int(self.n_of_size[place, size])
                    if n_cells:
                        yield (*head, "bias_mean", text, n_cells, "", float(result.bias[place, size]))
                if self.n_of_size[place, 0]:
                    yield (*head, "zeros_kept", "0", int(self.n_of_size[place, 0]), "", float(result.zeros[place]))
            yield (result.name, result.spent, "", "cpu_seconds", "", "", "", result.seconds)

    @property
    def grids(self) -> tuple[Grid, Grid]:
        """Errors and bias by level, and how many cells that is of."""
        lines = tuple(
            (
                f"{result.name}, {level}",
                *(_with_error(result.cells[:, place]), _with_error(result.totals[:, place])),
                *(_shown(value, "+.2f") for value in result.bias[place].tolist()),
                _shown(float(result.zeros[place]), ".1%"),
                f"{result.seconds:.2g}" if place == 0 else "",
            )
            for result in self.results
            for place, level in enumerate(self.levels)
        )
        caption = (
            f"{self.results[0].spent} each, {self.n_releases} releases by each method: mean absolute errors with their"
            " standard errors, bias by true count"
        )
        sizes = tuple(f"bias {text}" for text in SIZE_TEXTS)
        heads = ("method and level", "a cell", "a unit's total", *sizes, "zeros kept", "CPU s")
        n_cells = tuple(
            (level, f"{n:,}", *(f"{count:,}" for count in counts))
            for level, n, counts in zip(self.levels, self.n_units, self.n_of_size.tolist(), strict=True)
        )
        return (
            Grid(caption, heads, lines),
            Grid("Cells by level and true count", ("level", "units", *SIZE_TEXTS), n_cells),
        )

    def write(self, folder: Path) -> None:
        """Write a page and the tidy CSV into a new folder."""
        write_comparison(
            folder,
            "Releases of a tree compared at equal certified loss",
            self.results,
            self.grids,
            self.tidy,
            n_releases=self.n_releases,
            is_confidential=self.is_confidential,
        )

    def __repr__(self) -> str:
        if self.is_confidential:
            return (
                f"confidential comparison of {len(self.results)} methods, not shown; see the folder it was written to"
            )
        return self.grids[0].text


def size_of(counts: Ints) -> NDArray[np.intp]:
    """Return which class of `SIZES` true counts are in.

    Examples
    --------
    >>> [SIZE_TEXTS[size] for size in size_of(np.array([0, 4, 5, 300]))]
    ['0', '1-4', '5-19', '20+']
    """
    return np.searchsorted(SIZES, counts, side="right") - 1


def _shown(value: float, how: str) -> str:
    return "" if isnan(value) else format(value, how)


def _with_error(values: Floats) -> str:
    """Return the mean over releases, and how far it may be off in brackets."""
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))
    return f"{mean:,.3f} ({error:.3f})"


class ChainMethod:
    """The congenial release, as a method among others."""

    label = Label(
        "congenial",
        is_integer=True,
        keeps_invariants=True,
        privacy="all trees that share the invariants' values",
        law="known exactly: a chain of conditional laws",
    )

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Draw the chain under a key taken from the stream."""
        return plan.draw(leaves, TreeStreams.simulated(rng))


METHODS: dict[str, TreeBaseline] = {"congenial": ChainMethod(), "topdown": TopDownTree(), "leaves": LeavesAlone()}


def compare_tree(
    hierarchy: Hierarchy,
    leaves: ArrayLike,
    *,
    source: str = "confidential",
    methods: Sequence[str] | None = None,
    n_releases: int = 10,
    rng: RandomStream | None = None,
    out: str | Path | None = None,
    progress: Progress = silent,
) -> TreeComparison:
    """Release a tree some times by each method, and measure level by level how far the releases lie from the truth.

    All methods spend the same certified loss. TopDown measures every cell of every level with the chain's own noise;
    leaves alone have the whole of it.

    Parameters
    ----------
    leaves : array (leaf, cell)
        In the order in which the leaves were listed when the tree was made.
    source : str
        ``"public"`` or ``"simulated"``. A comparison with confidential leaves is itself confidential: it is refused
        unless `out` is a folder whose name begins with CONFIDENTIAL.
    methods : sequence of str
        Of congenial, topdown, leaves; all of them if not given, and congenial alone where numbers below the top
        are exact: the others know no such numbers.
    out : path, optional
        A new folder for a page and the tidy CSV.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=[cg.total()], rho="1")
    >>> found = cg.compare_tree(hierarchy, [[3, 4], [0, 1], [2, 2]], source="simulated", n_releases=3)
    >>> [result.name for result in found.results], found.levels
    (['congenial', 'TopDown', 'leaves alone'], ('county', 'block'))
    """
    folder = None if out is None else Path(out)
    if methods is None:
        methods = ("congenial",) if hierarchy.exact_rows else tuple(METHODS)
    check_asked(source, methods, tuple(METHODS), n_releases, folder)
    if hierarchy.exact_rows and set(methods) != {"congenial"}:
        raise StudyError(
            "exact numbers below the top are kept by congenial alone; compare without them, or by congenial only"
        )
    tree = hierarchy.tree
    counts = hierarchy.counts_of(leaves)
    plan, truth = hierarchy.plan(hierarchy.disclose(counts)), tree.summed(counts)
    stream, results = rng or secure_rng(), []
    for method in methods:
        run = _TreeRun(truth)
        for number in range(n_releases):
            progress(METHODS[method].label.name, number, n_releases)
            start = time.process_time()
            released = METHODS[method].release(plan, counts, stream)
            run.add(released, time.process_time() - start)
        results.append(run.result(METHODS[method].label, plan))
    found = TreeComparison(
        tuple(results),
        tree.levels,
        tuple(len(codes) for codes in tree.codes),
        np.stack([np.bincount(size_of(table).reshape(-1), minlength=len(SIZES)) for table in truth]),
        n_releases=n_releases,
        is_confidential=source not in SOURCES,
    )
    if folder is not None:
        found.write(folder)
    return found


class _TreeRun:
    """What one method did in release after release. Confidential if the leaves are."""

    def __init__(self, truth: TreeTables) -> None:
        self.truth = truth
        self.sizes = [size_of(table).reshape(-1) for table in truth]
        self.cells: list[list[float]] = []
        self.totals: list[list[float]] = []
        self.sums = np.zeros((len(truth), len(SIZES)))
        self.zeros = np.zeros(len(truth))
        self.seconds: list[float] = []

    def add(self, released: TreeTables, seconds: float) -> None:
        gaps = [drawn - real for drawn, real in zip(released, self.truth, strict=True)]
        self.cells.append([float(np.abs(gap).mean()) for gap in gaps])
        self.totals.append([float(np.abs(gap.sum(axis=1)).mean()) for gap in gaps])
        for level, (gap, size) in enumerate(zip(gaps, self.sizes, strict=True)):
            self.sums[level] += np.bincount(size, gap.reshape(-1), minlength=len(SIZES))
            self.zeros[level] += int(((gap == 0).reshape(-1) & (size == 0)).sum())
        self.seconds.append(seconds)

    def result(self, label: Label, plan: Plan) -> TreeResult:
        n_of_size = np.stack([np.bincount(size, minlength=len(SIZES)) for size in self.sizes]) * len(self.seconds)
        with np.errstate(invalid="ignore"):  # no cell of a size: not a number
            bias, zeros = self.sums / n_of_size, self.zeros / n_of_size[:, 0]
        return TreeResult(
            name=label.name,
            certificate=plan.certificate,
            spent=plan.spent.text,
            holds_for=label.privacy,
            law=label.law,
            cells=np.array(self.cells),
            totals=np.array(self.totals),
            bias=bias,
            zeros=zeros,
            seconds=float(np.median(self.seconds)),
        )
