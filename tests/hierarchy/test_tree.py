"""Trees of areas: how they are made, what they refuse, how they add up."""

import numpy as np
import pytest

from congenial.errors import HierarchyError
from congenial.randomness import replay_rng
from congenial.tree.tree_and_zeros import Tree, Zeros

COLUMNS = {
    "state": ["RI", "HI", "RI", "HI", "RI"],
    "county": ["Kent", "Maui", "Bristol", "Maui", "Kent"],
    "block": ["k2", "m1", "b1", "m0", "k1"],
}


def test_children_stand_together_and_leaves_find_their_place() -> None:
    tree = Tree.of_parents(COLUMNS)
    assert [units.tolist() for units in tree.codes] == [
        ["HI", "RI"],
        ["Maui", "Bristol", "Kent"],
        ["m0", "m1", "b1", "k1", "k2"],
    ]
    assert [parents.tolist() for parents in tree.parents] == [[0, 1, 1], [0, 0, 1, 2, 2]]
    assert np.array(COLUMNS["block"])[tree.order].tolist() == tree.codes[-1].tolist()
    assert [families.starts.tolist() for families in tree.families] == [[0, 1, 3], [0, 2, 3, 5]]


def test_sums_are_those_of_a_loop() -> None:
    rng = replay_rng("sums")
    codes = np.array([f"{a}{b}{c}" for a in range(3) for b in range(4) for c in range(5)])[::-1]
    tree = Tree.of_prefixes(codes, {"state": 1, "county": 2}, "block")
    counts = rng.below(np.full((60, 3), 50))
    for level, length in zip(tree.sums(counts), (1, 2, 3), strict=True):
        units = sorted({code[:length] for code in codes})
        for unit, table in zip(units, level, strict=True):
            assert (
                table.tolist() == sum(counts[number] for number in range(60) if codes[number][:length] == unit).tolist()
            )


def test_a_list_in_order_and_a_shuffled_one_give_the_same_tree() -> None:
    codes = np.array([f"{n:06}" for n in range(2000)])
    mixed = codes[np.argsort(replay_rng("mixed").words(2000))]
    first, second = (Tree.of_prefixes(listed, {"a": 2, "b": 5}, "c") for listed in (codes, mixed))
    for listed, other in zip((*first.codes, *first.parents), (*second.codes, *second.parents), strict=True):
        assert np.array_equal(listed, other)
    assert np.array_equal(mixed[second.order], codes)


def test_a_million_leaves_take_arrays_only() -> None:
    codes = np.char.zfill(np.arange(1_000_000).astype("S7"), 7)
    tree = Tree.of_prefixes(codes, {"a": 3, "b": 5}, "c")
    assert [len(units) for units in tree.codes] == [100, 10_000, 1_000_000]
    assert tree.summed(np.ones((1_000_000, 1), np.int64))[0].tolist() == [[10_000]] * 100


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"state": ["RI", "HI"], "county": ["Kent", "Kent"]}, "listed twice, 'Kent'"),
        ({**COLUMNS, "state": ["RI", "HI", "RI", "RI", "RI"]}, "'Maui' is part of two state units"),
        ({**COLUMNS, "county": ["Kent", "", "Bristol", "Maui", "Kent"]}, "has no county"),
        ({"block": COLUMNS["block"], "county": COLUMNS["county"]}, "listed twice"),
        ({"county": COLUMNS["county"], "state": COLUMNS["state"], "block": COLUMNS["block"]}, "part of two"),
        ({"state": ["RI"]}, "at least two levels"),
        ({"state": ["RI"], " ": ["x"]}, "name of a level"),
        ({"state": ["RI"], "county": ["x", "y"]}, "the numbers of codes differ: state 1, county 2"),
        ({"state": [], "county": []}, "text"),
        ({"state": [1, 2], "county": ["x", "y"]}, "codes of state are a list of text"),
    ],
)
def test_what_is_no_tree_is_refused(columns: dict[str, list[str]], words: str) -> None:
    with pytest.raises(HierarchyError, match=words):
        Tree.of_parents(columns)


def test_prefixes_are_checked() -> None:
    with pytest.raises(HierarchyError, match="out of order"):
        Tree.of_prefixes(["44001"], {"county": 3, "state": 2}, "block")
    with pytest.raises(HierarchyError, match="a code of 3 characters"):
        Tree.of_prefixes(["440", "44001"], {"county": 3}, "block")
    with pytest.raises(HierarchyError, match="from 1 on"):
        Tree.of_prefixes(["440"], {"county": 0}, "block")


def test_places_and_levels_by_name() -> None:
    tree = Tree.of_parents(COLUMNS)
    assert tree.places("county", ["Kent", "Maui"]).tolist() == [2, 0]
    with pytest.raises(HierarchyError, match="'Nowhere' is not a county"):
        tree.places("county", ["Nowhere"])
    with pytest.raises(HierarchyError, match="did you mean 'county'"):
        tree.level_of("count")


def test_zeros_are_closed_upward_and_downward() -> None:
    tree = Tree.of_parents(COLUMNS)
    zeros = Zeros.of(tree, 2, {"county": {"Kent": [True, False]}, "block": {"b1": [True, True], "m0": [False, True]}})
    assert zeros.masks[2].tolist() == [[False, True], [False, False], [True, True], [True, False], [True, False]]
    assert zeros.masks[1].tolist() == [[False, False], [True, True], [True, False]]
    assert zeros.masks[0].tolist() == [[False, False], [True, False]]
    leaves = np.zeros((5, 2), np.int64)
    assert zeros.hold(leaves)
    leaves[3, 0] = 1
    assert not zeros.hold(leaves)
    with pytest.raises(HierarchyError, match="each of 2 cells"):
        Zeros.of(tree, 2, {"block": {"b1": [True]}})
