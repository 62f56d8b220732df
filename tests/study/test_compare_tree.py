"""Comparisons of trees: equal certified loss, numbers that are what they say, and nothing confidential shown."""

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.privacy.tree_loss import level_rho
from congenial.randomness import TreeStreams
from congenial.study.baselines.topdown_and_leaves_alone import leaf_noise
from congenial.study.compare import UNRECORDED_USE, Comparison
from congenial.study.equal_loss import TREE_METHODS
from congenial.tree.tree_and_zeros import TreeTables

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["u18", "v18"]})
CODES = [f"9{county}{block:02}" for county in "4132" for block in range(40)]  # not in the order of the tree
TREE = cg.Tree.of_prefixes(CODES, {"state": 1, "county": 2}, "block")
RNG = cg.replay_rng("leaves")
LISTED = RNG.below(np.full((160, 4), 3)) * RNG.below(np.full((160, 4), 15))
SHARES = {"state": 2, "county": 3, "block": 5}
HIERARCHY = cg.Hierarchy(TREE, SCHEMA, invariants=[cg.total()], rho="2", shares=SHARES, method="conditional")


@pytest.fixture(scope="module")
def found() -> Comparison:
    return cg.compare_tree(HIERARCHY, LISTED, source="simulated", n_releases=20, rng=cg.replay_rng("trees"))


def test_every_method_spends_the_same_certified_loss(found: Comparison) -> None:
    plan = HIERARCHY.plan(HIERARCHY.disclose(TREE.in_order(LISTED)))
    measured = [query.noise.precision for query in plan.law.measured[:1]]
    measured += [noise.precision for noise in plan.law.noises_below]
    alone = [leaf_noise(plan).precision]
    for precisions in (measured, alone):
        costs = [level_rho(2, precision, "bounded", 1, total_is_fixed=True) for precision in precisions]
        assert Fraction(2) - Fraction(1, 10**9) < sum(costs) <= 2
    assert {result.spent for result in found.results} == {"rho 2 (epsilon 14.926 at delta 1e-10)"}
    assert {result.certificate.rho for result in found.results} == {plan.certificate.rho}


def test_numbers_are_those_of_the_releases() -> None:
    """The chain's figures against the same releases drawn and measured by hand."""
    found = cg.compare_tree(
        HIERARCHY, LISTED, source="simulated", methods=["conditional"], n_releases=2, rng=cg.replay_rng("same")
    )
    leaves, rng = TREE.in_order(LISTED), cg.replay_rng("same")
    plan, truth = HIERARCHY.plan(HIERARCHY.disclose(leaves)), TREE.summed(leaves)
    releases = [plan.draw(leaves, TreeStreams.simulated(rng)) for _ in range(2)]
    (result,) = found.results
    for number, (level, real) in enumerate(zip(result.levels, truth, strict=True)):
        gap = np.stack([release[number] for release in releases]) - real
        np.testing.assert_allclose(level.cells, np.sqrt((gap**2).mean(axis=(1, 2))))
        np.testing.assert_allclose(level.totals, np.sqrt((gap.sum(axis=2) ** 2).mean(axis=1)))
        np.testing.assert_allclose(level.l1, np.abs(gap).sum(axis=2).mean(axis=0))
        np.testing.assert_allclose(level.l2, np.sqrt((gap**2).sum(axis=2)).mean(axis=0))
        ends = {"0": (0, 0), "1-2": (1, 2), "3-5": (3, 5), "21-50": (21, 50)}
        for size, (low, high) in ends.items():
            among, place = (real >= low) & (real <= high), found.sizes.index(size)
            assert found.n_of_size[number, place] == among.sum()
            if among.any():
                assert found.bias_of_size(result, number)[place] == pytest.approx(gap[:, among].mean())
            else:
                assert np.isnan(found.bias_of_size(result, number)[place])
        assert level.zeros == (gap + real == 0).mean()
        if (real == 0).any():
            assert level.zeros_kept == pytest.approx((gap[:, real == 0] == 0).mean())
    assert [len(level) for level in found.truths] == [1, 4, 160]
    assert result.broken == 0


def test_leaves_alone_lose_at_the_top(found: Comparison) -> None:
    chain, measured, topdown, alone = found.results
    assert (chain.levels[0].totals == 0).all(), "the state's total is exact"
    for result in (chain, measured, topdown):
        assert result.levels[0].cells.mean() < alone.levels[0].cells.mean() / 2
    assert alone.levels[-1].cells.mean() < chain.levels[-1].cells.mean()


class Exact:
    """A method that releases the truth."""

    label = TREE_METHODS["conditional"].label

    def plan_of(self, hierarchy: Any, stated: Any, leaves: Any) -> Any:
        return stated

    def release(self, plan: Any, leaves: Any, rng: Any) -> TreeTables:
        return TREE.summed(leaves)


class OneMore(Exact):
    """A method that adds one record to every cell of every leaf."""

    def release(self, plan: Any, leaves: Any, rng: Any) -> TreeTables:
        return TREE.summed(leaves + 1)


def test_methods_whose_errors_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TREE_METHODS, "exact", Exact())
    monkeypatch.setitem(TREE_METHODS, "more", OneMore())
    exact, more = cg.compare_tree(HIERARCHY, LISTED, source="public", methods=["exact", "more"], n_releases=2).results
    assert not any(level.cells.any() or level.totals.any() or level.l1.any() for level in exact.levels)
    assert exact.levels[-1].zeros_kept == 1
    for level, size in zip(more.levels, (160, 40, 1), strict=True):
        np.testing.assert_array_equal(level.cells, size)
        np.testing.assert_array_equal(level.totals, 4 * size)
        np.testing.assert_array_equal(level.l1, 4 * size)
        np.testing.assert_array_equal(level.l2, 2 * size)
        np.testing.assert_array_equal(level.bias, size)
    assert more.levels[-1].zeros_kept == 0
    assert (exact.broken, more.broken) == (0, 1), "the state's total is one of the invariants"


def test_zeros_by_structure_are_kept_by_all_methods() -> None:
    zeros = cg.Zeros.of_leaves(TREE, LISTED == 0)
    hierarchy = cg.Hierarchy(TREE, SCHEMA, invariants=[cg.total()], rho="2", zeros=zeros)
    for result in cg.compare_tree(hierarchy, LISTED, source="simulated", n_releases=2).results:
        assert result.levels[-1].zeros_kept == 1


def test_it_prints_and_writes_every_number(found: Comparison, tmp_path: Path) -> None:
    text = str(found)
    assert text.startswith(
        "Units (state: 1, county: 4, block: 160), 20 releases by each method: root mean squared errors"
    )
    assert "rho 2 (epsilon 14.926 at delta 1e-10)" in text
    assert all(
        f"{name}, {level}" in text
        for name in ("conditional", "measured", "TopDown", "leaves alone")
        for level in TREE.levels
    )
    assert len({len(line.rstrip()) for line in text.splitlines()[2:14:3]}) == 1, "one row a method with its time"
    for name, level in zip(TREE.levels, found.results[1].levels, strict=True):
        assert f"with standard errors, {name}\n" in text
        assert all(metric.text in text for metric in level.metrics)
    assert "measured is worse than conditional by more than two standard errors in: " in text
    found.write(tmp_path / "out")
    with (tmp_path / "out" / "comparison.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["statistic"] for row in rows} == {
        *("rms_error_of_a_cell", "rms_error_of_a_total", "mean_l1", "mean_l2"),
        *("bias_mean", "bias_p01", "bias_p50", "bias_p99", "zeros", "zeros_kept", "broken", "cpu_seconds"),
    }
    assert {row["size_of_count"] for row in rows} == {"", *found.sizes}
    assert all(np.isfinite(float(row["value"])) for row in rows)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "CONFIDENTIAL" not in page
    assert "leaves alone, block" in page
    assert len(found.summary["method"]) == 12


@pytest.mark.parametrize("out", [None, "comparison"])
def test_confidential_leaves_are_refused_without_a_marked_folder(out: str | None, tmp_path: Path) -> None:
    folder = None if out is None else tmp_path / out
    with pytest.raises(cg.CongenialError, match="CONFIDENTIAL-comparison"):
        cg.compare_tree(HIERARCHY, LISTED, n_releases=2, out=folder)
    assert list(tmp_path.iterdir()) == []


def test_a_confidential_comparison_is_marked_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "CONFIDENTIAL-trees"
    found = cg.compare_tree(HIERARCHY, LISTED, methods=["conditional", "topdown"], n_releases=2, out=folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["CONFIDENTIAL-comparison.csv", "CONFIDENTIAL-index.html", "CONFIDENTIAL-metrics.csv"]
    assert "Do not publish" in (folder / "CONFIDENTIAL-index.html").read_text(encoding="utf-8")
    assert UNRECORDED_USE in (folder / "CONFIDENTIAL-index.html").read_text(encoding="utf-8")
    assert repr(found).startswith(UNRECORDED_USE)
    assert "not shown" in repr(found)
    assert "congenial," not in repr(found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": "open"}, "'open' is not known"),
        ({"methods": ["topdwn"]}, "did you mean 'topdown'"),
        ({"methods": "leaves"}, "a list of"),
        ({"methods": ["leaves", "leaves"]}, "one twice"),
        ({"n_releases": 1}, "from 2 on"),
        ({"leaves": LISTED[1:]}, "tables of leaves have the shape"),
        ({"leaves": LISTED[:, 1:]}, "tables of leaves are whole numbers"),
        ({"leaves": -LISTED}, "not negative"),
    ],
)
def test_bad_input(changes: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"leaves": LISTED, "source": "simulated", "n_releases": 2, **changes}
    with pytest.raises(cg.CongenialError, match=said):
        cg.compare_tree(HIERARCHY, **arguments)
