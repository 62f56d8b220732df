"""The chain behind estimates of trees: its normaliser, its law against every table, and its calibration."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import own_rng
from congenial.errors import InferenceError
from congenial.inference.kernels_random_numbers import Words
from congenial.inference.tree.chain import _LOGS, TreeChain, ends, spine_of
from congenial.inference.tree.kernels_effects_and_normalisers import ChildLaws
from congenial.inference.tree.prior_and_child_laws import TreePrior, child_laws, laws_of, log_normaliser
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.noise import DiscreteGaussian
from congenial.plan import Plan
from congenial.randomness import RandomStream, TreeStreams
from congenial.sampling.allocation_to_children.tilts_and_normaliser import Normaliser

Ints = NDArray[np.int64]


def planned(codes: list[str], leaves: Ints, prefixes: dict[str, int], precisions: dict[str, str]) -> Plan:
    tree = cg.Tree.of_prefixes(codes, prefixes, "leaf")
    schema = cg.Schema({"cell": [str(cell) for cell in range(leaves.shape[1])]})
    hierarchy = Hierarchy(tree, schema, invariants=[cg.total()], precisions=precisions, method="conditional")
    return hierarchy.plan(hierarchy.disclose(tree.in_order(leaves)))


@pytest.mark.parametrize("precision", ["1/10", "1", "1/100"])
def test_differences_of_log_normalisers_are_those_by_convolution(precision: str) -> None:
    """A sampler moves by differences: of one person more or fewer in one child."""
    rng, noise = np.random.default_rng(11), DiscreteGaussian(precision)
    laws, exact, gaps = laws_of([noise], [60]), Normaliser(noise), []
    for _ in range(150):
        n = int(rng.integers(2, 40))
        counts = rng.poisson(rng.gamma(0.7, 6.0, n)).astype(np.int64)
        wanted = max(1, int(counts.sum()) + round(float(rng.normal(0, 1.5))))
        more = counts.copy()
        more[rng.integers(n)] += 1
        close = log_normaliser(laws, 1, more, wanted) - log_normaliser(laws, 1, counts, wanted)
        gaps.append(abs(close - (exact.log(more, wanted) - exact.log(counts, wanted))))
    assert np.mean(gaps) < 0.006, (np.mean(gaps), np.max(gaps))
    assert np.max(gaps) < 0.08


def test_the_normaliser_itself_is_near(request: pytest.FixtureRequest) -> None:
    noise = DiscreteGaussian("1/9")
    laws, exact = laws_of([noise], [30]), Normaliser(noise)
    for number in own_rng(request).below(np.full(40, 9)).tolist():
        counts = np.arange(number + 2, dtype=np.int64)
        assert log_normaliser(laws, 1, counts, 7) == pytest.approx(exact.log(counts, 7), abs=0.1)
    alone = np.array([4])
    assert log_normaliser(laws, 1, alone, 6) == pytest.approx(exact.log(alone, 6))
    assert log_normaliser(laws, 1, np.array([4, 1]), 0) == pytest.approx(exact.log(np.array([4, 1]), 0))


SMALL = {
    "two levels": (["aa", "ab", "ac"], {"top": 1}, np.array([[1, 0], [7, 2], [0, 1]])),
    "three levels": (["apx", "apy", "aqx", "aqy"], {"top": 1, "middle": 2}, np.array([[0, 1], [3, 0], [0, 1], [1, 0]])),
}


def compositions(people: int, n: int) -> list[tuple[int, ...]]:
    return [found for found in product(range(people + 1), repeat=n) if sum(found) == people]


def enumerated(
    plan: Plan, released: tuple[Ints, ...], top: Ints, weights: NDArray[np.float64]
) -> tuple[Ints, NDArray[np.float64]]:
    """Return every table of leaves that adds up to a table at the top, and its posterior probability."""
    logs = np.cumsum([0.0, *np.log(np.arange(1, 40))])
    tables, chances = [], []
    for columns in product(*(compositions(int(people), len(weights)) for people in top)):
        leaves = np.array(columns).T
        prior = float((leaves * np.log(weights) - logs[leaves]).sum())
        tables.append(leaves)
        chances.append(prior + plan.law.log_probability(leaves, released))
    found = np.exp(np.array(chances) - max(chances))
    return np.array(tables), found / found.sum()


def without_normaliser(laws: ChildLaws) -> ChildLaws:
    """The mutant: ``prod f(y - s)`` as if children did not have to add up."""
    table = np.zeros_like(laws.table)
    for level in range(1, len(laws.noise)):
        own = slice(laws.base[level], laws.base[level] + laws.size[level])
        table[own, 1] = -(laws.first[level] + np.arange(laws.size[level])) / laws.parts[level]
    return laws._replace(table=table)


def farthest(case: str, rng: RandomStream, n_sweeps: int, *, is_mutant: bool = False) -> float:
    """Return how far the chain's averages are from the enumerated ones at most: means and chances of zero."""
    from congenial.inference.tree import kernels_effects_and_normalisers as tree_effects
    from congenial.inference.tree import kernels_effects_and_normalisers as tree_law
    from congenial.inference.tree import kernels_moves as tree_moves

    codes, prefixes, leaves = SMALL[case]
    plan = planned(codes, leaves, prefixes, dict.fromkeys([*prefixes, "leaf"], "1/2"))
    released = plan.law.tree.summed(leaves)
    weights = 0.4 + np.arange(leaves.size).reshape(leaves.shape) / 5
    top = leaves.sum(axis=0)
    tables, chances = enumerated(plan, released, top, weights)
    spine, laws = spine_of(plan.law, released), child_laws(plan.law)
    laws = without_normaliser(laws) if is_mutant else laws
    prior = TreePrior.of(plan.law.schema, len(prefixes) + 1).fixed(empty=0.0)
    chain = TreeChain(spine, laws, prior, top[None], rng)
    state = chain.state
    state.is_occupied[:] = True
    state.weights[spine.starts[-2] :] = weights
    # The weight of a unit is the sum of its leaves', so that shares are those of one multinomial law.
    for level in range(len(prefixes) - 1, 0, -1):
        for unit in range(spine.starts[level], spine.starts[level + 1]):
            state.weights[unit] = state.weights[spine.first[unit] : spine.end[unit]].sum(axis=0)
    tree_effects.add_weights(spine, state)
    tree_effects.set_shares(spine, state)
    mean, zero = np.zeros(leaves.shape), np.zeros(leaves.shape)
    for _ in range(n_sweeps):
        tree_law.refresh(spine, laws, state)
        chance = Words(rng.words(2_000), np.zeros(1, np.int64))
        tree_moves.share_out_again(spine, laws, state, _LOGS, int(spine.starts[-3]), chance)
        if len(prefixes) > 1:
            tree_moves.move_far(spine, laws, state, _LOGS, 1, int(spine.starts[-2]), chance)
        mean += chain.leaves
        zero += chain.leaves == 0
    gaps = np.abs(mean / n_sweeps - np.tensordot(chances, tables, 1))
    gaps_of_zeros = np.abs(zero / n_sweeps - np.tensordot(chances, tables == 0, 1))
    return float(max(gaps.max(), gaps_of_zeros.max()))


@pytest.mark.parametrize("case", SMALL)
def test_the_chain_has_the_enumerated_posterior(case: str, request: pytest.FixtureRequest) -> None:
    """Every table of leaves, through the exact law: a family's likelihood, or a move, that is wrong would show.

    Long averages; what is left is the saddle point's, some percent of a person in families as small as these.
    """
    assert farthest(case, own_rng(request), 10_000) < 0.06


def test_a_chain_without_the_normaliser_does_not(request: pytest.FixtureRequest) -> None:
    assert farthest("two levels", own_rng(request), 4_000, is_mutant=True) > 0.3


def calibrated(rng: RandomStream, *, wrong_noise: bool = False) -> dict[str, tuple[float, float]]:
    """Return, for leaves and groups, how often 80 % intervals cover truths from the prior, and mean ranks."""
    from congenial.inference.tree.kernels_effects_and_normalisers import simulate_children

    n_tops, n_groups, n_leaves = 60, 4, 5
    codes = [f"{t:02}{g}{i}" for t in range(n_tops) for g in range(n_groups) for i in range(n_leaves)]
    prefixes, precisions = {"top": 2, "group": 3}, {"top": "1", "group": "1/2", "leaf": "1/8"}
    top = np.tile([40, 20], (n_tops, 1))
    shapes = np.full((3, len(TreePrior.of(cg.Schema({"cell": ["0", "1"]}), 3).shapes[0])), 3.0)

    def prior(schema: cg.Schema) -> TreePrior:
        return TreePrior.of(schema, 3).fixed(shapes=shapes, empty=0.2, firmness=128.0)

    blank = np.repeat(np.array([[2, 1]]), len(codes), axis=0)
    plan = planned(codes, blank, prefixes, precisions)
    tree, schema = plan.law.tree, plan.law.schema
    maker = TreeChain(spine_of(plan.law, tree.summed(blank)), child_laws(plan.law), prior(schema), top, rng)
    made = np.zeros((n_tops * n_groups, 2), np.int64)
    maker.simulate(1, made, simulate_children)
    maker.state.counts[maker.spine.starts[1] : maker.spine.starts[2]] = made
    truth = np.zeros((len(codes), 2), np.int64)
    maker.simulate(2, truth, simulate_children)
    released = plan.draw(truth, TreeStreams.simulated(rng))
    laws = child_laws(plan.law)
    if wrong_noise:
        laws = laws_of([DiscreteGaussian("2"), DiscreteGaussian("1")], [n_groups, n_leaves])
    chain = TreeChain(spine_of(plan.law, released), laws, prior(schema), top, rng)
    draws = []
    for sweep in range(440):
        chain.sweep()
        if sweep >= 40 and sweep % 4 == 0:
            draws.append(chain.leaves.copy())
    out = {}
    drawn, jitter = np.array(draws).astype(np.float64), 1e-3
    for name, shape in (("leaf", (-1, 2)), ("group", (n_tops * n_groups, n_leaves * 2))):
        real = truth.reshape(shape).sum(axis=1) if name == "group" else truth.sum(axis=1)
        values = drawn.sum(axis=2) if name == "leaf" else drawn.reshape(len(draws), *shape).sum(axis=2)
        # Random parts of less than one break ties, so that ranks are uniform.
        real = real + jitter * rng.uniforms(real.size)
        values = values + jitter * rng.uniforms(values.size).reshape(values.shape)
        low, _, high = ends(np.sort(values, axis=0), 0.8)
        out[name] = (float(((low <= real) & (real <= high)).mean()), float((values < real).mean()))
    return out


def test_intervals_cover_as_they_say_under_the_prior(request: pytest.FixtureRequest) -> None:
    """Truths from the prior, released by the law: 80 % intervals cover 80 % on average, and ranks average one half."""
    found = calibrated(own_rng(request))
    for name, (coverage, rank) in found.items():
        assert coverage == pytest.approx(0.8, abs=0.05), (name, found)
        assert rank == pytest.approx(0.5, abs=0.03), (name, found)


def test_with_the_wrong_noise_they_do_not(request: pytest.FixtureRequest) -> None:
    found = calibrated(own_rng(request), wrong_noise=True)
    assert found["leaf"][0] < 0.72, found
    assert found["group"][0] < 0.74, found


def test_what_has_no_likelihood_is_refused() -> None:
    tree = cg.Tree.of_prefixes(["aa", "ab"], {"top": 1}, "leaf")
    hierarchy = Hierarchy(
        tree, cg.Schema({"cell": ["0", "1"]}), rho="1", noise="double_geometric", method="conditional"
    )
    plan = hierarchy.plan(hierarchy.disclose(np.array([[3, 4], [5, 6]])))
    with pytest.raises(InferenceError, match="discrete Gaussian noise only"):
        child_laws(plan.law)
