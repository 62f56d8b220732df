"""Whole releases against chains whose outcomes are all listed; what always holds."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import congenial as cg
from agreement import ALPHA, own_rng, p_value
from chain_audit import SHAPES, Chain
from congenial.arrays import Ints
from congenial.conditions.queries import Query
from congenial.errors import BrokenError, HierarchyError
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.noise import DiscreteGaussian
from congenial.randomness import TreeStreams, replay_rng
from congenial.sampling.allocation_to_children.sampler import Allocation, Families
from congenial.sampling.two_way import kernels_tilt as two_way
from congenial.sampling.two_way.kernels_tilt import tabulate_two_way
from congenial.tree.tree_and_zeros import Tree, Zeros
from drawn import drawn
from hierarchy.forest import Forest


def _chain(
    shape: int,
    exponent: int,
    precisions: Sequence[str],
    counts: list[list[int]],
    barred: tuple[tuple[int, int], ...] = (),
) -> tuple[Chain, list[list[int]]]:
    n = sum(map(sum, counts))
    exact = tuple(Fraction(precision) for precision in precisions)
    return Chain(SHAPES[shape], len(counts[0]), exponent, exact, (n, n), barred=barred), counts


def _exact(
    shape: int, level: int, precisions: Sequence[str], counts: list[list[int]], sets: tuple[tuple[int, ...], ...] = ()
) -> tuple[Chain, list[list[int]]]:
    """Return a chain whose units of a level have exact sums, those of the confidential leaves."""
    chain, _ = _chain(shape, 2, precisions, counts)
    units = [np.sum([counts[leaf] for leaf in group], axis=0) for group in chain.levels[level]]
    of = sets or (tuple(range(chain.n_cells)),)
    totals = tuple(int(unit[list(cells)].sum()) for unit in units for cells in of)
    return replace(chain, exact=level, totals=totals, sets=sets), counts


TREES = {
    "two leaves": _chain(0, 2, ["1/2", "1/4"], [[2, 0], [1, 1]]),
    "two leaves, fine noise above and coarse below": _chain(0, 2, ["4", "1/8"], [[0, 1, 0], [2, 0, 1]]),
    "coarse noise above and fine below": _chain(0, 2, ["1/9", "3"], [[3, 0], [1, 1]]),
    "three leaves": _chain(1, 2, ["1/2", "1/2"], [[1, 0], [0, 2], [1, 0]]),
    "a cell of its own": _chain(1, 2, ["1", "1/5"], [[1, 0], [4, 0], [0, 1]]),
    "three levels, an only child": _chain(2, 2, ["1/2", "1", "1/3"], [[1, 1], [0, 0], [2, 0]]),
    "three levels, four leaves": _chain(3, 2, ["1", "1/2", "1/4"], [[1, 0], [0, 0], [0, 1], [2, 0]]),
    "linear noise": _chain(0, 1, ["1/2", "1/3"], [[2, 0], [1, 1]]),
    "linear noise, three levels": _chain(2, 1, ["1", "1/2", "2"], [[0, 1], [2, 0], [0, 1]]),
    "structural zeros": _chain(1, 2, ["1/2", "1/3"], [[0, 2], [1, 0], [0, 1]], barred=((0, 0), (2, 0), (1, 1))),
    "zeros that close a cell above": _chain(2, 2, ["1/2", "1/3", "1/3"], [[0, 2], [0, 1], [2, 1]], ((0, 0), (1, 0))),
}

EXACT = {
    "every leaf's total": _exact(1, 1, ["1/2", "1/3"], [[1, 0, 1], [0, 2, 0], [1, 0, 0]]),
    "coarse noise above, fine below": _exact(1, 1, ["1/20", "3"], [[2, 0], [0, 3], [1, 1]]),
    "totals of the middle level alone": _exact(3, 1, ["1", "1/2", "1/4"], [[1, 0], [0, 0], [0, 1], [2, 0]]),
    "a total and a part of it": _exact(1, 1, ["1/2", "1/2"], [[1, 0, 1], [0, 2, 0], [0, 1, 1]], ((0, 1, 2), (0, 1))),
    "a part and no total": _exact(0, 1, ["1/2", "1/3"], [[2, 0, 1], [0, 1, 1]], ((0, 1),)),
    "three levels, every leaf's total": _exact(3, 2, ["1", "1/2", "1/4"], [[1, 1], [0, 1], [0, 2], [1, 0]]),
}
"""Trees with exact sums below the top."""
# Whole releases; tests/sampling/test_allocation.py and test_two_way.py draw 100,000 tables of one family.
N_RELEASES, N_EXACT = drawn(40_000), 5_000


@pytest.mark.statistical
@pytest.mark.parametrize("name", EXACT)
def test_releases_with_exact_sums_have_the_enumerated_law(name: str, request: pytest.FixtureRequest) -> None:
    """The two tests below have mutants."""
    forest = Forest.of(*EXACT[name], N_EXACT)
    released = forest.plan.draw(forest.leaves, TreeStreams.simulated(own_rng(request)))
    assert p_value(forest.outcomes(released[-1]), forest.probabilities()) > ALPHA


@pytest.mark.statistical
def test_mutants_of_exact_sums_are_rejected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defects: the parent's confidential table in place of the released one; tilts that the weights forget."""
    forest = Forest.of(*EXACT["coarse noise above, fine below"], N_EXACT)
    tables, words = forest.plan.law.tree.summed(forest.leaves), TreeStreams.simulated(own_rng(request))
    (step,) = forest.plan.law.steps
    family_words = words.families("leaves", forest.plan.law.tree.codes[0], tables[0], step.families.starts, tables[1])
    assert p_value(forest.outcomes(step.draw(tables[1], tables[0], family_words)), forest.probabilities()) < ALPHA

    def forgetful(*given: Any) -> float:
        """Tilt one cell by what its line and column know nothing of."""
        units, (value, first, last) = tabulate_two_way(*given), given[6:9]
        n = int(last[0] - first[0] + 1)
        value[0, :n] *= 4.0 ** np.arange(n)
        return float(units)

    monkeypatch.setattr(two_way, "tabulate_two_way", forgetful)
    forest = Forest.of(*EXACT["every leaf's total"], N_EXACT)
    released = forest.plan.draw(forest.leaves, words)
    assert p_value(forest.outcomes(released[-1]), forest.probabilities()) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("name", TREES)
def test_releases_have_the_enumerated_law(name: str, request: pytest.FixtureRequest) -> None:
    """The two tests below have mutants."""
    forest = Forest.of(*TREES[name], N_RELEASES)
    released = forest.plan.draw(forest.leaves, TreeStreams.simulated(own_rng(request)))
    assert p_value(forest.outcomes(released[-1]), forest.probabilities()) > ALPHA


@pytest.mark.statistical
def test_sharing_out_the_confidential_sum_is_rejected(request: pytest.FixtureRequest) -> None:
    """Defect: children given their parent's confidential table in place of the released one."""
    forest = Forest.of(*TREES["two leaves"], N_RELEASES)
    tables, words = forest.plan.law.tree.summed(forest.leaves), TreeStreams.simulated(own_rng(request))
    (step,) = forest.plan.law.steps
    family_words = words.families("leaves", forest.plan.law.tree.codes[0], tables[0], step.families.starts, tables[1])
    mutant = step.draw(tables[1], tables[0], family_words)
    assert p_value(forest.outcomes(mutant), forest.probabilities()) < ALPHA


@pytest.mark.parametrize("name", [*TREES, *EXACT])
def test_log_probability_is_the_enumerated_one(name: str) -> None:
    chain, counts = {**TREES, **EXACT}[name]
    forest = Forest.of(chain, counts, 1)
    (confidential,) = chain.position(np.array([counts]))
    for number in range(0, len(chain.leaves), max(1, len(chain.leaves) // 25)):
        release = forest.plan.law.tree.summed(chain.leaves[number])
        computed = forest.plan.law.log_probability(forest.leaves, release)
        assert np.isclose(computed, chain.log_law[confidential, number], rtol=0, atol=1e-10)


def test_log_probability_of_what_does_not_add_up() -> None:
    forest = Forest.of(*TREES["two leaves"], 1)
    above, below = forest.plan.law.tree.summed(forest.leaves)
    assert forest.plan.law.log_probability(forest.leaves, (above, below + np.array([[1, 0], [0, 0]]))) == -np.inf
    assert forest.plan.law.log_probability(forest.leaves, (above, below + np.array([[-3, 0], [3, 0]]))) == -np.inf
    assert forest.plan.law.log_probability(forest.leaves, (above + np.array([[1, 0]]), below)) == -np.inf


@pytest.mark.parametrize("name", [*TREES, *EXACT])
def test_the_slow_path_gives_the_same_bits(name: str) -> None:
    forest = Forest.of(*{**TREES, **EXACT}[name], 20)
    quick = forest.plan.draw(forest.leaves, TreeStreams.simulated(replay_rng(name)))
    slow = forest.plan.draw(forest.leaves, TreeStreams.simulated(replay_rng(name)), always_refined=True)
    threads = forest.plan.draw(forest.leaves, TreeStreams.simulated(replay_rng(name)), n_threads=3)
    for first, second, third in zip(quick, slow, threads, strict=True):
        assert np.array_equal(first, second)
        assert np.array_equal(first, third)


def test_a_family_is_drawn_alike_in_any_company() -> None:
    """Words follow from what a unit is: not from the order of units, nor from which others there are."""
    rng, noise = replay_rng("company"), DiscreteGaussian("1/4")
    sizes = rng.below(np.full(30, 9))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    counts = rng.below(np.full((int(starts[-1]), 3), 12))
    sums = np.add.reduceat(np.vstack([counts, np.zeros((1, 3), np.int64)]), starts[:-1], axis=0) + 1
    sums[sizes == 0] = 0
    codes = np.array([f"{place:03}" for place in range(30)])
    words = TreeStreams.simulated(rng)
    families, sampler = Families(starts), Allocation(noise)
    together = sampler.draw(families, counts, sums, words.families("x", codes, sums, starts, counts))
    for places in (np.array([4]), np.array([17, 3, 29]), np.arange(29, -1, -1)):
        some, children = families.some(places), families.children_of(places)
        family_words = words.families("x", codes[places], sums[places], some.starts, counts[children])
        assert np.array_equal(sampler.draw(some, counts[children], sums[places], family_words), together[children])


def state() -> tuple[Tree, Ints]:
    """A simulated state: 4 counties, 12 tracts, 200 blocks, a third of them empty."""
    rng = replay_rng("state")
    codes = np.array(sorted(f"{block % 4:02}{block % 12:03}{block:04}" for block in range(200)))
    tree = Tree.of_parents(
        {
            "state": np.full(200, "S"),
            "county": codes.astype("U2"),
            "tract": codes.astype("U5"),
            "block": codes,
        }
    )
    counts = rng.below(np.array([[30, 9, 3, 2]] * 200)) * (rng.below(np.full((200, 1), 3)) > 0)
    return tree, counts


@pytest.mark.parametrize(
    "below", [{}, {"county": [cg.total({"sex": "f"})], "block": [cg.total()]}], ids=["the top exact", "units exact"]
)
def test_a_hundred_releases_add_up(below: dict[str, list[Query]]) -> None:
    tree, counts = state()
    barred = np.zeros((200, 4), np.bool_)
    barred[counts.sum(axis=1) == 0] = True
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    invariants = {"state": [cg.total(), cg.total({"sex": "f"})], **below}
    zeros = Zeros.of_leaves(tree, barred)
    hierarchy = Hierarchy(tree, schema, invariants=invariants, rho="1", zeros=zeros, method="conditional")
    leaves = counts[tree.order]
    plan, truth = hierarchy.plan(hierarchy.disclose(leaves)), tree.summed(leaves)
    rng, seen = replay_rng("a hundred"), set()
    for _ in range(100):
        release = plan.draw(leaves, TreeStreams.simulated(rng))
        sums = tree.summed(release[-1])
        assert all(np.array_equal(total, other) for total, other in zip(sums, release, strict=True))
        assert min(int(level.min()) for level in release) == 0
        assert int(release[0].sum()) == int(counts.sum())
        assert int(release[0][0, :2].sum()) == int(counts[:, :2].sum())
        assert not release[-1][leaves.sum(axis=1) == 0].any()
        if below:
            assert np.array_equal(release[-1].sum(axis=1), truth[-1].sum(axis=1))
            assert np.array_equal(release[1][:, :2].sum(axis=1), truth[1][:, :2].sum(axis=1))
        seen.add(release[-1].tobytes())
    assert len(seen) == 100


def test_confidential_leaves_are_refused_without_a_word_about_them() -> None:
    tree, counts = state()
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    barred = np.zeros((200, 4), np.bool_)
    barred[np.argmax(counts[:, 0])] = True
    zeros = Zeros.of_leaves(tree, barred)
    hierarchy = Hierarchy(tree, schema, invariants=[cg.total()], rho="1", zeros=zeros, method="conditional")
    leaves = counts[tree.order]
    plan = hierarchy.plan(hierarchy.disclose(leaves))
    with pytest.raises(BrokenError, match="structural zeros of the tree"):
        plan.draw(leaves, TreeStreams.simulated(replay_rng(1)))
    with pytest.raises(BrokenError, match="not negative"):
        plan.draw(leaves - 1, TreeStreams.simulated(replay_rng(1)))
    with pytest.raises(HierarchyError, match="shape"):
        plan.draw(leaves[:-1], TreeStreams.simulated(replay_rng(1)))
