"""Estimates of trees from bundles: whole numbers that add up, questions about units, files, refusals."""

import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from agreement import own_rng
from congenial.cli.main import main
from congenial.errors import BundleError, InferenceError
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.estimates_and_draw_quality import ends_of_draws
from congenial.inference.tree.chain import _warn, ends
from congenial.inference.tree.estimate_and_files import TreeEstimate, at_the_top
from congenial.inference.tree.prior_and_child_laws import child_laws, noise_quantile, noise_quantiles, noise_variances
from congenial.inference.tree.prior_check import FIGURES, SHARES, FitCheck, check_fit
from congenial.randomness import TreeStreams
from table_files import parquet_arrays

# Few draws: what is said of them is looked at where it is meant to be.
pytestmark = [
    pytest.mark.filterwarnings("ignore::congenial.inference.tree.chain.PoorChainsWarning"),
    pytest.mark.filterwarnings("ignore::congenial.inference.estimates_and_draw_quality.PoorDrawsWarning"),
]

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
CODES = [f"44{county}{tract}{block}" for county in "13" for tract in "abc" for block in "vwxyz"]


def bundle_of(folder: Path, *, noise: str = "discrete_gaussian") -> Path:
    tree = cg.Tree.of_prefixes(CODES, {"state": 2, "county": 3, "tract": 4}, "block")
    bars = np.zeros((len(CODES), 4), np.bool_)
    bars[0], bars[7, 2] = True, True
    hierarchy = cg.Hierarchy(
        tree,
        SCHEMA,
        invariants=[cg.total()],
        rho="2",
        noise=noise,
        zeros=cg.Zeros.of_leaves(tree, bars),
        method="conditional",
    )
    people = np.random.default_rng(8).poisson([6, 2, 5, 1], (len(CODES), 4)) * ~bars
    ledger = cg.open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    hierarchy.release(people, ledger=ledger, dataset="town", release="t", who="Ada", folder=folder / "bundle")
    return folder / "bundle"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle_of(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def bundle(place: Path) -> AnalystBundle:
    return cg.load_bundle(place)


@pytest.fixture(scope="module")
def estimate(bundle: AnalystBundle) -> TreeEstimate:
    said: list[str] = []
    found = bundle.estimate(n_draws=200, rng=cg.replay_rng("tree"), progress=lambda step, *_: said.append(step))
    assert any("draw" in text for text in said)
    return found


def test_whole_numbers_and_draws_add_up(bundle: AnalystBundle, estimate: TreeEstimate) -> None:
    tree = estimate.law.tree
    total = int(bundle.level("state")[1].sum())
    for tables in (estimate.integers, tree.summed(estimate.integers[-1])):
        for families, above, below in zip(tree.families, tables, tables[1:], strict=False):
            assert np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
            assert below.min() >= 0
        assert tables[0].sum() == total
    assert (estimate.draws.leaves.sum(axis=(1, 2)) == total).all()
    assert not estimate.integers[-1][estimate.law.zeros.masks[-1]].any()
    assert not estimate.draws.leaves[:, estimate.law.zeros.masks[-1]].any()


def test_whole_numbers_are_the_nearest_that_add_up() -> None:
    """Against every table of three children that adds up; draws that are far apart, so that steps are needed."""
    from congenial.inference.tree.kernels_effects_and_normalisers import fit_children

    rng = np.random.default_rng(2)
    for wanted in (3, 9, 20):
        draws = rng.poisson([2.0, 5.0, 1.0], (21, 3))[:, :, None]
        out, is_open = np.zeros((3, 1), np.int64), np.ones((3, 1), np.bool_)
        fit_children(np.sort(draws, axis=0), is_open, np.array([0, 3]), np.array([[wanted]]), out)
        all_of_them = [table for table in product(range(wanted + 1), repeat=3) if sum(table) == wanted]
        distances = [np.abs(draws[:, :, 0] - np.array(table)).sum() for table in all_of_them]
        assert np.abs(draws - out).sum() == min(distances)


def test_whole_numbers_at_the_top_keep_crossing_invariants() -> None:
    conditions = [cg.total(equals=20), cg.total({"sex": "f"}, equals=12), cg.total({"age": "old"}, equals=7)]
    constraints = cg.Constraints.of(SCHEMA, conditions)
    draws = np.array([[9, 3, 4, 4], [8, 4, 5, 3], [7, 5, 6, 2], [8, 4, 5, 3]])
    assert constraints.holds(at_the_top(draws, constraints))


def test_a_level_has_every_statistic(bundle: AnalystBundle, estimate: TreeEstimate) -> None:
    found = estimate.level("tract", 0.8)
    assert found.codes == bundle.level("tract")[0]
    assert np.array_equal(found.released[:, :-1], bundle.level("tract")[1])
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    wider = estimate.level("tract", 0.95)
    assert (wider.low <= found.low).all()
    assert (wider.high >= found.high).all()
    state = estimate.level("state")
    assert state.low[0, -1] == state.high[0, -1] == state.released[0, -1]  # the total is exact
    with pytest.raises(InferenceError, match="strictly between 0 and 1"):
        estimate.level("tract", 1.0)


def test_sums_and_differences_of_units(estimate: TreeEstimate) -> None:
    one, two = estimate.tables_of("441"), estimate.tables_of("443")
    assert np.array_equal(estimate.tables_of(["441", "443"]), one + two)
    assert np.array_equal(estimate.tables_of(["441", "441a", "441av"]), one)  # each leaf counts once
    both = estimate.interval(["441", "443"])
    assert both.is_exact
    assert both.low == both.high
    less = estimate.interval("441", "sex=f", minus="443")
    assert less.mean == pytest.approx((one - two)[:, :2].sum(axis=1).mean())
    assert less.low <= less.median <= less.high
    share = estimate.interval(["441a", "443b"], "share(age=young | all)")
    assert 0 < share.low < share.high < 1
    with pytest.raises(InferenceError, match="no unit of the tree"):
        estimate.interval("99")
    with pytest.raises(InferenceError, match="one at a time"):
        estimate.interval("441", "all by sex")


def test_only_what_was_published_is_exact(estimate: TreeEstimate) -> None:
    """Draws that are all alike are a statement about draws; structural zeros and exact numbers are known."""
    leaves = estimate.draws.leaves.copy()
    leaves[:, 1, 3] = 0  # a cell of block 441aw, and the same in what was released
    release = (*estimate.release[:-1], estimate.release[-1].copy())
    release[-1][1, 3] = 0
    still = replace(estimate, release=release, draws=replace(estimate.draws, leaves=leaves))
    alike = still.interval("441aw", "sex=m & age=old")
    assert (alike.low, alike.high, alike.mean) == (0, 0, 0)
    assert not alike.is_exact
    assert alike.quality.text == "draws alike"
    assert np.isnan(alike.quality.monte_carlo_error)
    assert "exact" not in repr(alike)
    drawn = still.interval("441aw", "sex=f")
    assert not drawn.is_exact
    assert "effective draws" in drawn.quality.text
    barred = still.interval("441bx", "sex=m & age=young")  # a structural zero
    assert repr(barred) == "sex=m & age=young of 441bx: exactly 0"
    assert barred.quality.text == "exact"
    assert still.interval("441av").is_exact  # nobody may live there
    assert still.interval(["441", "443"], minus="441av").is_exact
    others = [code for code in CODES if code not in {"441av", "441bx"}]
    assert still.interval(others, "sex=m & age=young", minus="441av").quality.text != "exact"
    assert still.interval([code for code in CODES if code != "441av"]).is_exact
    assert not still.interval(others).is_exact
    assert not still.interval("441").is_exact
    assert not still.interval("441", "share(sex=f | all)").is_exact


def test_what_follows_from_exact_numbers_is_exact() -> None:
    """Without women at the top, no unit has any, whatever is drawn of the others."""
    tree = cg.Tree.of_parents({"county": ["A", "A", "B"], "town": ["a", "b", "c"]})
    people = np.array([[0, 0, 30, 4], [0, 0, 20, 31], [0, 0, 22, 42]])
    exact = [cg.total(), cg.total({"sex": "f"})]
    hierarchy = cg.Hierarchy(tree, SCHEMA, invariants=exact, rho="4", method="conditional")
    plan = hierarchy.plan(hierarchy.disclose(people))
    from congenial.inference.tree.estimate_and_files import estimate_tree

    found = estimate_tree(plan.law, tree.sums(people), n_draws=40, rng=cg.replay_rng(1))
    assert found.interval("a", "sex=f & age=old").is_exact
    assert not found.interval("a", "sex=m").is_exact
    assert found.interval(["A"], "sex=m").is_exact


def test_ends_of_intervals_hold_a_further_draw(request: pytest.FixtureRequest) -> None:
    """A truth that is exchangeable with 100 draws: 90 % intervals hold it in 91 of 101 cases, and not in 89."""
    rng, n_cases = own_rng(request), 20_000
    values = rng.uniforms(101 * n_cases).reshape(101, n_cases)
    low, median, high = ends(np.sort(values[1:], axis=0), 0.9)
    covered = ((low <= values[0]) & (values[0] <= high)).mean()
    assert covered == pytest.approx(91 / 101, abs=5 * (0.09 / n_cases) ** 0.5)
    assert covered > 0.89
    assert median.mean() == pytest.approx(0.5, abs=0.01)
    one = [ends_of_draws(column, None, 0.9) for column in values[1:, :50].T]
    assert one == list(zip(low[:50].tolist(), high[:50].tolist(), strict=True))


def test_too_few_draws_for_a_level_are_said(estimate: TreeEstimate, place: Path, tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=r"200 draws are too few for 99.5 % intervals, which take 399"):
        estimate.level("tract", 0.995)
    wide = estimate.interval("441", level=0.995)
    assert (wide.low, wide.high) == (0, np.inf)
    less = estimate.interval("441", level=0.995, minus="443")
    assert (less.low, less.high) == (-np.inf, np.inf)
    assert np.isfinite(estimate.interval("441", level=0.99).high)
    asked = ["estimate", str(place), "--level", "0.99", "--out", str(tmp_path / "e")]
    for more in ([], ["--draws", "198"]):
        done = CliRunner().invoke(main, [*asked, *more])
        assert done.exit_code == 1
        assert "take 199 at least" in " ".join(done.stderr.split())
        assert "estimating" not in done.stderr


def test_poor_draws_are_judged_by_one_rule(estimate: TreeEstimate, request: pytest.FixtureRequest) -> None:
    """Sixty independent draws are too few here as for tables and areas; four hundred are not."""
    rng, tree = own_rng(request), estimate.law.tree
    for n_draws, is_poor in ((60, True), (1_000, False)):
        leaves = rng.below(np.full(n_draws * len(CODES) * 4, 50)).reshape(n_draws, len(CODES), 4)
        draws = replace(estimate.draws, tree=tree, leaves=leaves, fit=())
        quality = replace(estimate, draws=draws).interval("441a").quality
        assert quality.is_poor == is_poor
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            _warn(draws)
        assert any("the draws of tract are poor" in str(one.message) for one in heard) == is_poor
        assert (draws.diagnosed["tract"][2] > 0.1) == is_poor


def test_noise_alone_reaches_what_it_is_said_to(request: pytest.FixtureRequest) -> None:
    """Releases of a tree with units that nobody lives in: at least 95 % of their totals are within reach."""
    codes = [f"1{tract}{block}" for tract in "abcd" for block in "xyz"] + ["1e0", "1f0", "1f1"]
    tree = cg.Tree.of_prefixes(codes, {"state": 1, "tract": 2}, "block")
    people = np.tile([30, 20, 25, 15], (len(codes), 1))
    people[-3:] = 0
    people[:3] = 0
    hierarchy = cg.Hierarchy(tree, SCHEMA, invariants=[cg.total()], rho="1/2", method="conditional")
    plan, rng = hierarchy.plan(hierarchy.disclose(people)), own_rng(request)
    n_releases, words = 600, TreeStreams.simulated(rng)
    totals = np.array([plan.draw(people, words)[1].sum(axis=1) for _ in range(n_releases)])[:, [0, 4, 5]]
    reached = noise_quantiles(noise_variances(plan.law)[1][[0, 4, 5]], np.full(3, 4), 0.05)
    share = (totals <= reached).mean()
    assert share > 0.95 - 5 * (0.05 * 0.95 / totals.size) ** 0.5
    assert (totals > 0).mean() > 0.9  # noise pushes up, where nobody lives


def test_sums_of_many_cells_are_taken_for_normal() -> None:
    """On both sides of where convolution ends, to within the step from one cell to the next."""
    exact, normal = noise_quantile({2.0: 400}, 0.05), noise_quantile({2.0: 401}, 0.05)
    assert 0 <= normal - exact <= 4
    assert (
        noise_quantile({2.0: 300, 5.0: 300}, 0.05) > noise_quantile({2.0: 600}, 0.05) > noise_quantile({2.0: 600}, 0.2)
    )


def test_an_only_child_has_the_noise_of_its_parent() -> None:
    tree = cg.Tree.of_prefixes(["1a0", "1b0", "1b1"], {"state": 1, "tract": 2}, "block")
    people, precisions = np.full((3, 4), 9), {"state": "1", "tract": "1/8", "block": "1/2"}
    hierarchy = cg.Hierarchy(tree, SCHEMA, invariants=[cg.total()], precisions=precisions, method="conditional")
    found = noise_variances(hierarchy.plan(hierarchy.disclose(people)).law)
    assert found[1].tolist() == [8, 8]
    assert found[2].tolist() == [8, 3, 3]  # one of two takes half of the error: 2 / 2 + 8 / 4


def test_intervals_of_units_without_people_include_0(estimate: TreeEstimate) -> None:
    """Every draw of a tract has people, and noise alone may have brought about what was released of it."""
    leaves = estimate.draws.leaves.copy()
    leaves[:, 5:10] += 1
    release = tuple(tables.copy() for tables in estimate.release)
    tail, tracts = 0.05, noise_variances(estimate.law)[2]
    release[2][1] = [0, 1, 1, 0]
    most = int(noise_quantiles(tracts[:2], np.array([3, 4]), tail)[1])
    assert most >= 2
    found = replace(estimate, release=release, draws=replace(estimate.draws, leaves=leaves))
    assert leaves[:, 5:10].sum(axis=(1, 2)).min() > 0
    level = found.level("tract")
    assert level.low[1, -1] == 0
    assert (level.low[1, :-1] == 0).all()
    assert (level.low[[0, 2, 3, 4, 5], -1] > 0).all()  # nobody takes those for empty
    release[-1][5:10] = 0
    release[-1][5] = [0, 1, 1, 0]
    assert found.interval("441b").low == 0
    assert found.interval("441b", "age=old").low == 0
    assert found.interval("441a").low > 0
    block = found.level("block")
    assert block.low[5, -1] > 0  # leaves may be empty under the prior, which speaks for itself


def test_a_code_at_two_levels_is_asked_back() -> None:
    tree = cg.Tree.of_parents({"county": ["A", "A", "B"], "town": ["A", "b", "c"]})
    hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), rho="4", method="conditional")
    plan = hierarchy.plan(hierarchy.disclose(np.array([[30, 4], [20, 31], [22, 42]])))
    from congenial.inference.tree.estimate_and_files import estimate_tree

    release = tree.sums([[30, 4], [20, 31], [22, 42]])
    found = estimate_tree(plan.law, release, n_draws=40, rng=cg.replay_rng(1))
    with pytest.raises(InferenceError, match='say which level is meant, such as at="town"'):
        found.interval("A")
    assert found.interval("A", at="town").mean < found.interval("A", at="county").mean


def test_one_seed_one_estimate(bundle: AnalystBundle) -> None:
    first, again, other = (bundle.estimate(n_draws=16, rng=cg.replay_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.draws.leaves, again.draws.leaves)
    assert not np.array_equal(first.draws.leaves, other.draws.leaves)


def test_a_bad_fit_is_loud() -> None:
    far = FitCheck("block", "spread of totals", 3.0, 1.0, 1.2, 1.4)
    near = FitCheck("block", "cells that are zero", 0.73, 0.71, 0.715, 0.72)
    assert far.is_bad
    assert not near.is_bad
    assert "3 in the release, 1 to 1.4" in str(far)


def test_the_prior_is_found_not_to_fit(request: pytest.FixtureRequest) -> None:
    """Sizes that no gamma law has: half of the leaves alike, one in fifty a hundred times as large."""
    from congenial.inference.tree.estimate_and_files import estimate_tree

    rng = own_rng(request)
    codes = [f"{g:02}{i:02}" for g in range(6) for i in range(50)]
    tree = cg.Tree.of_prefixes(codes, {"group": 2}, "leaf")
    people = np.full((300, 2), 3)
    people[::50] = 600
    hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), rho="8", method="conditional")
    plan = hierarchy.plan(hierarchy.disclose(people))
    release = plan.draw(people, TreeStreams.simulated(rng))
    with pytest.warns(UserWarning, match="THE PRIOR DOES NOT FIT"):
        found = estimate_tree(plan.law, release, n_draws=40, rng=rng)
    assert "DOES NOT FIT" in repr(found)


def test_the_command_writes_files_that_a_seed_repeats(place: Path, tmp_path: Path) -> None:
    words = ["estimate", str(place), "--draws", "40", "--seed", "3"]
    for name in ("a", "b"):
        done = CliRunner().invoke(main, [*words, "--out", str(tmp_path / name), "--json"])
        assert done.exit_code == 0, done.output
        stated = json.loads(done.stdout)
        assert stated["levels"] == ["state", "county", "tract", "block"]
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [
        "estimate-1.parquet",
        "estimate-2.parquet",
        "estimate-3.parquet",
        "estimate-4.parquet",
        "estimates.svg",
        "summary.txt",
    ]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    blocks = parquet_arrays((tmp_path / "a" / "estimate-4.parquet").read_bytes())
    assert list(blocks) == ["block", "cell", "released", "mean", "median", "integers", "low", "high"]
    assert len(blocks["block"]) == 30 * 5
    assert blocks["cell"][4] == "total"
    text = (tmp_path / "a" / "summary.txt").read_text(encoding="utf-8")
    assert "The release is a draw" in text
    assert "Raw noisy measurements would carry more" in text
    again = CliRunner().invoke(main, [*words, "--out", str(tmp_path / "a")])
    assert again.exit_code == 1
    assert "new folder" in again.stderr


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    from congenial.curator.pipeline import demonstrate

    made = demonstrate(tmp_path / "demo")
    with pytest.raises(BundleError, match=r"no tree of areas.*congenial infer"):
        cg.load_bundle(made.folder).estimate()


def test_double_geometric_noise_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InferenceError, match=r"discrete Gaussian noise only.*discrete_gaussian"):
        cg.load_bundle(bundle_of(tmp_path, noise="double_geometric")).estimate()


def test_no_figure_of_a_fit_is_negative_and_no_share_above_1() -> None:
    """Ends that are drawn farther apart, because replicates are few, stay within what a figure can be."""
    tree = cg.Tree.of_prefixes([f"1{n:02}" for n in range(40)], {"state": 1}, "block")
    counts = np.zeros((40, 2), np.int64)
    counts[::2] = 3
    replicates = [[np.full(5, value)] for value in (0.01, 0.99, 0.5)]
    found = check_fit(tree, tree.summed(counts), replicates)
    assert [check.figure for check in found] == list(FIGURES)
    assert all(check.low >= 0 for check in found)
    assert [check.high <= 1 for check in found] == [check.figure in SHARES for check in found]


def test_a_tree_with_exact_numbers_below_the_top_is_refused_in_words() -> None:
    tree = cg.Tree.of_prefixes(["1a", "1b"], {"state": 1}, "block")
    schema, exact = cg.Schema({"sex": ["f", "m"]}), {"block": [cg.total()]}
    hierarchy = cg.Hierarchy(tree, schema, invariants=exact, rho="1", method="conditional")
    plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4], [2, 1]])))
    with pytest.raises(cg.CongenialError, match="every block has exact numbers of its own") as refused:
        child_laws(plan.law)
    assert "look_ahead" not in str(refused.value)
