"""A subtree is drawn alike in any company: chunks, threads, the order of rows and parts do not matter."""

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.randomness import TreeStreams, replay_rng
from congenial.tree import drawing as subtree
from congenial.tree.tree_and_zeros import Tree, Zeros

CODES = np.array([f"{s}{c}{b:02}" for s in "12" for c in "abc" for b in range(1 + 5 * (c != "b"))])
SCHEMA = cg.Schema({"cell": ["x", "y", "z"]})
COUNTS = replay_rng("leaves of a subtree").below(np.full((len(CODES), 3), 9)) * (np.arange(len(CODES)) % 5 > 0)[:, None]
CASES = ("plain", "zeros", "exact")


def planned(case: str, order: NDArray[np.int64] | None = None) -> tuple[Plan, NDArray[np.int64]]:
    """Return the plan of a tree whose leaves are listed in some order, and its confidential leaves."""
    listed = np.arange(len(CODES)) if order is None else order
    tree = Tree.of_prefixes(CODES[listed], {"state": 1, "county": 2}, "block")
    is_empty = np.repeat((COUNTS[listed].sum(axis=1) == 0)[:, None], 3, axis=1)
    hierarchy = Hierarchy(
        tree,
        SCHEMA,
        invariants={"block" if case == "exact" else "state": [cg.total()]},
        rho="1",
        zeros=Zeros.of_leaves(tree, is_empty) if case == "zeros" else None,
        method="conditional",
    )
    leaves = hierarchy.counts_of(COUNTS[listed])
    return hierarchy.plan(hierarchy.disclose(leaves)), leaves


def words() -> TreeStreams:
    return TreeStreams.simulated(replay_rng("words of a subtree"))


def is_same(first: tuple[NDArray[np.int64], ...], other: tuple[NDArray[np.int64], ...]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_threads_chunks_and_the_order_of_rows_change_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, leaves = planned(case)
    whole = plan.draw(leaves, words())
    shuffled = np.argsort(replay_rng("another order").words(len(CODES)))
    assert is_same(whole, planned(case, shuffled)[0].draw(planned(case, shuffled)[1], words()))
    for together in (1, 4, 7):
        monkeypatch.setattr(subtree, "_TOGETHER", together)
        for n_threads in (1, 3):
            assert is_same(whole, plan.draw(leaves, words(), n_threads=n_threads))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("level", [0, 1])
def test_a_part_by_itself_is_what_it_is_in_the_whole(case: str, level: int) -> None:
    plan, leaves = planned(case)
    whole, tree, below = plan.draw(leaves, words()), plan.law.tree, plan.law.below
    assert below is not None
    for first, end in ((0, 1), (1, 2), (0, len(tree.codes[level]))):
        part, spans = below.under(level, first, end), [(first, end)]
        for families in tree.families[level:]:
            spans.append(tuple(families.starts[list(spans[-1])].tolist()))
        drawn = part.draw(leaves[slice(*spans[-1])], whole[level][first:end], words())
        wanted = tuple(whole[level + 1 + number][slice(*span)] for number, span in enumerate(spans[1:]))
        assert is_same(drawn, wanted)


def test_every_unit_is_told() -> None:
    plan, leaves = planned("plain")
    told: list[tuple[str, int, int]] = []
    plan.draw(leaves, words(), progress=lambda step, done=0, of=0: told.append((step, done, of)))
    n_units = sum(map(len, plan.law.tree.codes))
    assert told[0] == ("drawing", 2, n_units)
    assert told[-1] == ("drawing", n_units, n_units)
