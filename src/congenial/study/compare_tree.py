"""A tree released by the chain and by other methods, at equal certified loss, on simulated or public leaves."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.baselines.baseline import Label
from congenial.baselines.tree import LeavesAlone, TopDownTree, TreeBaseline
from congenial.errors import StudyError
from congenial.hierarchy.hierarchy import Hierarchy
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.tree import TreeTables
from congenial.hierarchy.words import ChainWords
from congenial.progress import Progress, no_news
from congenial.randomness import RandomStream, secure_rng
from congenial.study.asked import SOURCES, check_asked
from congenial.study.tree_comparison import SIZES, TreeComparison, TreeResult, size_of


class ChainMethod:
    """The congenial release, as a method among others."""

    label = Label(
        "congenial",
        is_integer=True,
        keeps_invariants=True,
        privacy="all trees that share the invariants' values",
        law="known exactly: a chain of conditional laws",
    )

    def release(self, plan: ChainPlan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Draw the chain under a key taken from the stream."""
        return plan.draw(leaves, ChainWords.simulated(rng))


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
    progress: Progress = no_news,
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

    def result(self, label: Label, plan: ChainPlan) -> TreeResult:
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
