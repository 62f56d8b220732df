"""A tree of areas from Python: planned, charged, drawn level by level, published."""

from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.bundle.naming import Naming
from congenial.hierarchy.hierarchy import Hierarchy
from congenial.release import Prepared, charge_and_draw, check_first, resume_and_draw
from congenial.released import Release

if TYPE_CHECKING:
    from congenial.ledger import Ledger


def prepare_tree(hierarchy: Hierarchy, counts: Ints, naming: Naming) -> Prepared:
    """Plan a release of a tree, and see that it can be drawn. Nothing is charged, nothing drawn.

    Parameters
    ----------
    counts : array (leaf, cell)
        Confidential, checked and in the order of the tree: see `Hierarchy.counts_of`.
    """
    plan = hierarchy.plan(hierarchy.disclose(counts))
    plan.top.check_samplers()
    _ = plan.certificate
    return Prepared(plan.top, naming, tuple(hierarchy.invariants), counts, chain=plan)


def release_tree(
    hierarchy: Hierarchy,
    leaves: ArrayLike,
    *,
    ledger: "Ledger",
    dataset: str,
    release: str,
    who: str,
    title: str | None = None,
    unit: str = "person",
    folder: str | Path | None = None,
    replaces: str | None = None,
) -> Release:
    """Charge a ledger, draw the tree once, and write the bundle if a folder is named.

    Parameters
    ----------
    leaves : array (leaf, cell)
        Confidential, in the order in which the leaves were listed when the tree was made.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants=[cg.total()], rho="1")
    >>> with TemporaryDirectory() as place:
    ...     ledger = cg.open_ledger(f"{place}/budget.db", create=True)
    ...     _ = ledger.create_dataset("town", rho="2", neighbours="bounded", who="Ada")
    ...     blocks = [[3, 4], [0, 1], [2, 2]]  # confidential
    ...     made = release_tree(hierarchy, blocks, ledger=ledger, dataset="town", release="tree", who="Ada",
    ...                         folder=f"{place}/tree")
    ...     bundle = cg.load_bundle(f"{place}/tree")
    >>> codes, counties = bundle.level("county")
    >>> codes, int(counties.sum()), bool((bundle.level("block")[1][2] == counties[1]).all())
    (('1', '2'), 12, True)
    """
    naming = Naming(release, dataset, title or release, unit, replaces=replaces)
    check_first(ledger, naming, neighbours=hierarchy.neighbours, budget=hierarchy.budget)
    ready = prepare_tree(hierarchy, hierarchy.counts_of(leaves), naming)
    return charge_and_draw(ready, ledger=ledger, who=who, folder=folder)


def resume_tree(
    hierarchy: Hierarchy,
    leaves: ArrayLike,
    *,
    ledger: "Ledger",
    dataset: str,
    release: str,
    title: str | None = None,
    unit: str = "person",
    folder: str | Path | None = None,
    replaces: str | None = None,
) -> Release:
    """Go on with a tree whose release was stopped after its charge: the same tables, and no second charge."""
    naming = Naming(release, dataset, title or release, unit, replaces=replaces)
    ready = prepare_tree(hierarchy, hierarchy.counts_of(leaves), naming)
    return resume_and_draw(ready, ledger=ledger, folder=folder)
