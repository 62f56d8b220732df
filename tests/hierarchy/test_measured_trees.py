"""Measured releases of trees, from end to end: words, exact numbers at every level, bundles, intervals, refusals."""

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.bundle.decide import decide_again
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.conditions.rows_and_intervals import Row
from congenial.curator.tree_estimate_errors import tree_errors
from congenial.decided_tables import tree_measurements
from congenial.errors import BundleError, ConditionError, CongenialError, HierarchyError, PrivacyError
from congenial.ledger import Ledger
from congenial.randomness import SecretBytes
from congenial.release import charged, resumed
from congenial.release_key import ReleaseKey
from congenial.rules.gls import estimate
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.tree.tree_and_zeros import Zeros
from drawn import drawn

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
CODES = [f"{county}{tract}{block}" for county in "12" for tract in "ab" for block in "xyz"] + ["3cx"]
TREE = cg.Tree.of_prefixes(CODES, {"county": 1, "tract": 2}, "block")
LEAVES = np.array([[(3 * leaf + 5 * cell) % 11 + 2 * cell for cell in range(4)] for leaf in range(len(CODES))])
KEY = ReleaseKey(SecretBytes(bytes(range(32))))

EXACT: dict[str, Any] = {
    "top": [cg.total()],
    "nothing": [],
    "county": {"county": [cg.total()]},
    "tract": {"county": [cg.margin("sex")], "tract": [cg.total()]},
    "everywhere": {"block": [cg.total()]},
    "nested everywhere": {"block": [cg.total(), cg.total({"age": "old"})]},
    "margins": {"county": [cg.margin("sex"), cg.total({"age": "old", "sex": "f"})], "tract": [cg.margin("sex")]},
}
BUDGETS: dict[str, dict[str, str]] = {
    "rho": {"rho": "1"},
    "pure": {"epsilon": "2"},
    "at delta": {"epsilon": "4", "delta": "1e-8"},
    "double geometric, rho": {"rho": "1", "noise": "double_geometric"},
}


def hierarchy(exact: str = "top", budget: str = "rho", **options: Any) -> cg.Hierarchy:
    settings: dict[str, Any] = {"invariants": EXACT[exact], "method": "measured", **BUDGETS[budget]}
    return cg.Hierarchy(TREE, SCHEMA, **(settings | options))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    book = cg.open_ledger(tmp_path / "budget.db", create=True)
    book.create_dataset("town", rho="9", neighbours="bounded", who="Ada")
    return book


def release(ledger: Ledger, folder: Path | None = None, exact: str = "top", name: str = "tree") -> Any:
    return hierarchy(exact).release(LEAVES, ledger=ledger, dataset="town", release=name, who="Ada", folder=folder)


@pytest.mark.parametrize("budget", list(BUDGETS))
@pytest.mark.parametrize("exact", list(EXACT))
def test_measurements_and_tables_have_every_exact_number(exact: str, budget: str) -> None:
    request = hierarchy(exact, budget)
    leaves = request.counts_of(LEAVES)
    plan = request.plan(request.disclose(leaves))
    assert plan.budget is not None
    assert plan.budget.covers(plan.certificate)
    assert plan.dry_run() == []
    truth = TREE.summed(leaves)
    for seed in range(5):
        measured = plan.draw(leaves, cg.replay_rng(seed))
        tables = plan.decide(measured)
        for level, law in enumerate(plan.law.each_level):
            rows = [limited.row for limited in law.areas.groups[0].pattern.equalities]
            for row in rows:
                values = [numbers[level][:, row.cells].sum(axis=1) for numbers in (measured, tables, truth)]
                assert np.array_equal(values[0], values[2])
                assert np.array_equal(values[1], values[2])
        assert all(table.min() >= 0 for table in tables)
        for families, above, below in zip(TREE.families, tables, tables[1:], strict=False):
            assert np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
    if exact == "nothing":
        assert any((numbers < 0).any() for numbers in plan.draw(leaves * 0, cg.replay_rng(1)))


# Total, women and those of age: sums that cross.

WIDE = cg.Schema({"sex": ["f", "m"], "age": ["young", "mid", "old"]})
SUMS = [cg.total(), cg.total({"sex": "f"}), cg.total({"age": ["mid", "old"]})]
SUM_CELLS = [[0, 1, 2, 3, 4, 5], [0, 1, 2], [1, 2, 4, 5]]
CROSSING: dict[str, Any] = {
    "everywhere": {"block": SUMS},
    "not in blocks": {"tract": SUMS, "block": [cg.total()]},
    "determined at the top": {"county": [cg.total({"sex": "f", "age": "young"})], "block": SUMS},
}


def crossing(invariants: Any, budget: str = "rho") -> cg.Hierarchy:
    return cg.Hierarchy(TREE, WIDE, invariants=invariants, method="measured", **BUDGETS[budget])  # type: ignore[arg-type]


@pytest.mark.parametrize("exact", list(CROSSING))
def test_every_sparse_tree_with_crossing_sums_has_tables(exact: str, ledger: Ledger, tmp_path: Path) -> None:
    """Nearest at the top alone, some of these trees would have none: see the mutant in the tests of ranges."""
    rng = cg.replay_rng(f"sparse trees {exact}")
    for number in range(drawn(20)):
        leaves = np.maximum(rng.below(np.full((len(CODES), 6), 5)) - 2, 0)
        request = crossing(CROSSING[exact], ["rho", "pure"][number % 2])
        plan, truth = request.plan(request.disclose(leaves)), TREE.summed(leaves)
        assert number or plan.dry_run() == []
        tables = plan.decide(plan.draw(leaves, rng))
        for level, table in enumerate(tables):
            assert (table >= 0).all()
            for cells in SUM_CELLS if level < 2 or exact != "not in blocks" else SUM_CELLS[:1]:
                assert np.array_equal(table[:, cells].sum(axis=1), truth[level][:, cells].sum(axis=1))
        for families, above, below in zip(TREE.families, tables, tables[1:], strict=False):
            assert np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
    done = request.release(leaves, ledger=ledger, dataset="town", release="r", who="Ada", folder=tmp_path / "tree")
    verified = verify_bundle(tmp_path / "tree", ledger=ledger)
    assert "the tables are what rule gls makes of the measurements" in verified.checked
    bundle = cg.load_bundle(tmp_path / "tree")
    assert all(np.array_equal(*pair) for pair in zip(bundle.levels, done.levels, strict=True))


def test_a_pure_budget_is_spent_in_full() -> None:
    request = hierarchy("everywhere", "pure")
    certificate = request.plan(request.disclose(request.counts_of(LEAVES))).certificate
    assert certificate.kind == "measured_tree_double_geometric"
    assert certificate.loss == 2


def test_trees_are_measured_unless_they_are_said_to_be_a_chain() -> None:
    assert cg.Hierarchy(TREE, SCHEMA, rho="1").method == cg.Hierarchy(TREE, SCHEMA, epsilon="1").method == "measured"
    with pytest.raises(PrivacyError, match="no budget in pure epsilon"):
        cg.Hierarchy(TREE, SCHEMA, epsilon="1", method="conditional")
    with pytest.raises(ConditionError, match="'nearest' is for one table and areas; the rule here is 'gls'"):
        cg.Hierarchy(TREE, SCHEMA, rho="1", method="measured", rule="nearest")
    with pytest.raises(ConditionError, match="'gls' is for trees of areas"):
        cg.Mechanism(SCHEMA, measure=[cg.cells()], epsilon="1", method="measured", rule="gls")


# Words: no two levels, and no other counts, ever meet the same noise.


def prepared(leaves: Any = LEAVES, exact: str = "nothing") -> Any:
    return hierarchy(exact).prepare(leaves, Naming("tree", "town", "tree", "person"))


def test_a_county_of_one_tract_of_one_block_has_noise_of_its_own_at_each_level() -> None:
    """County 3 has one tract with one block: the same counts three times, and under the same words the same noise."""
    ready = prepared()
    truth, drawn = TREE.summed(ready.confidential), ready.draw(ready.streams(KEY))
    county, tract, block = (numbers[-1] - exact[-1] for numbers, exact in zip(drawn, truth, strict=True))
    assert not np.array_equal(county, tract)
    assert not np.array_equal(tract, block)

    class Shared:
        """The mutant: one level's words for all."""

        def of_level(self, level: str, codes: Any, counts: Any) -> Any:
            return ready.streams(KEY).of_level("county", codes, counts)

    # County and tract have other codes, "3" and "3c", which are hashed as well: so give them the same.
    words = Shared()
    codes = np.array(["3"])
    law = ready.plan.law.each_level
    noises = [
        drawing.kinds[0].noise(words.of_level(name, codes, truth[level][-1:]), 1)
        for level, (name, drawing) in enumerate(zip(TREE.levels, ready.plan.drawings, strict=True))
        if law[level].queries[0].precision == law[0].queries[0].precision
    ]
    assert len(noises) == 2
    assert np.array_equal(noises[0], noises[1])


def test_changed_counts_meet_other_noise_and_unchanged_units_the_same() -> None:
    moved = LEAVES.copy()
    moved[0, 0] += 1
    moved[0, 1] -= 1
    truths = [TREE.summed(ready.confidential) for ready in (prepared(), prepared(moved))]
    drawn = [ready.draw(ready.streams(KEY)) for ready in (prepared(), prepared(moved))]
    for level in range(3):
        first, second = (numbers[level] - truth[level] for numbers, truth in zip(drawn, truths, strict=True))
        assert np.array_equal(first[1:], second[1:])
        assert not np.array_equal(first[0], second[0])


def test_chunks_and_threads_do_not_change_a_release() -> None:
    ready = prepared(exact="tract")
    whole = ready.draw(ready.streams(KEY))
    parts = ready.plan.draw(ready.confidential, ready.streams(KEY), at_once=2, n_threads=2)
    assert all(np.array_equal(one, other) for one, other in zip(whole, parts, strict=True))


# Bundles.


@pytest.mark.parametrize("exact", ["top", "everywhere", "margins"])
def test_a_bundle_has_measurements_and_tables_of_every_level(exact: str, ledger: Ledger, tmp_path: Path) -> None:
    done = release(ledger, tmp_path / "tree", exact)
    names = {path.name for path in (tmp_path / "tree").iterdir()}
    assert {"measurements.parquet", "measurements-2-tract.parquet", "measurements-3-block.parquet"} <= names
    verified = verify_bundle(tmp_path / "tree", ledger=ledger)
    assert verified.not_checked == ()
    assert "the tables are what rule gls makes of the measurements" in verified.checked
    bundle = cg.load_bundle(tmp_path / "tree")
    assert all(np.array_equal(*pair) for pair in zip(bundle.measured_levels, done.drawn, strict=True))
    assert all(np.array_equal(*pair) for pair in zip(bundle.levels, done.levels, strict=True))
    assert bundle.manifest.certificate.kind == "measured_tree_gaussian"
    assert done.receipt.loss == 1


def rewritten(folder: Path, name: str, change: Any) -> None:
    """Change a level's file and the digest that the manifest has of it."""
    from pyarrow import parquet

    from congenial.bundle.canonical_json import canonical_json, digest

    table = parquet.read_table(folder / name)
    numbers = table.column(1).to_numpy().copy()
    change(numbers)
    import pyarrow as pa

    parquet.write_table(table.set_column(1, table.column_names[1], pa.array(numbers)), folder / name)
    values = json.loads((folder / "manifest.json").read_text())
    values.pop("digest")
    values["files"][name] = digest((folder / name).read_bytes())
    (folder / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))


def test_other_measurements_of_a_lower_level_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    release(ledger, tmp_path / "tree", "everywhere")
    shutil.copytree(tmp_path / "tree", tmp_path / "forged")

    def more(numbers: Any) -> None:
        numbers[0] += 1

    rewritten(tmp_path / "forged", "measurements-3-block.parquet", more)
    with pytest.raises(BundleError, match="exact sums"):
        cg.load_bundle(tmp_path / "forged")


def test_other_tables_than_those_of_the_rule_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    release(ledger, tmp_path / "tree", "nothing")

    def far(numbers: Any) -> None:
        numbers[0] += 40

    rewritten(tmp_path / "tree", "measurements-3-block.parquet", far)
    with pytest.raises(BundleError, match="not those of the rule 'gls'"):
        cg.load_bundle(tmp_path / "tree")


def test_a_stopped_release_goes_on_with_the_same_measurements(ledger: Ledger, tmp_path: Path) -> None:
    ready = prepared(exact="county")

    drawn: list[Any] = []

    def stop() -> None:
        with charged(ready, ledger=ledger, who="Ada") as done:
            drawn.append(done.drawn)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    with resumed(prepared(exact="county"), ledger=ledger) as done:
        assert all(np.array_equal(*pair) for pair in zip(done.drawn, drawn[0], strict=True))
        done.write(tmp_path / "tree")
    verify_bundle(tmp_path / "tree", ledger=ledger)


def test_a_rule_that_fails_costs_no_measurements(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from congenial.rules.gls import GLS

    def fail(*_: object, **__: object) -> None:
        raise ConditionError("the moon was full")

    for exact in ("top", "everywhere"):
        place, decided = tmp_path / exact, tmp_path / f"{exact} decided"
        with monkeypatch.context() as patched:
            patched.setattr(type(GLS), "decide", fail)
            done = release(ledger, place, exact, name=exact)
            assert done.why_no_tables == "the moon was full"
        assert not list(place.glob("level-*"))
        assert cg.load_bundle(place).levels == ()
        decide_again(place, decided)
        assert len(cg.load_bundle(decided).levels) == 3
        verify_bundle(decided, ledger=ledger)


# Intervals.


def test_units_of_a_level_answer_from_their_measurements(ledger: Ledger, tmp_path: Path) -> None:
    release(ledger, tmp_path / "tree", "county")
    bundle = cg.load_bundle(tmp_path / "tree")
    tracts = bundle.units("tract")
    (interval,) = tracts.confidence("age=young", "1a")
    measured = bundle.measured_levels[1][0].reshape(2, 2)[:, 0].sum()
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low <= max(0, measured) <= interval.high
    assert (interval.coverage or 0) >= 0.9
    (total,) = bundle.units("county").confidence("all", "2")
    assert total.low == total.high == LEAVES[6:12].sum()
    (district,) = bundle.units("block").confidence("sex=f over areas")
    assert abs((district.low or 0) - LEAVES[:, :2].sum()) < 60
    with pytest.raises(HierarchyError, match="not a level of the tree"):
        bundle.units("ward")
    with pytest.raises(BundleError, match="estimates with a prior"):
        bundle.estimate()


@pytest.mark.slow
def test_intervals_of_every_level_cover_what_they_say() -> None:
    """500 releases: each interval holds the truth at least as often as it says, and not always."""
    from congenial.inference.measurement_intervals import Measurements
    from congenial.inference.questions import parse_queries
    from congenial.plan import Plan

    request = hierarchy("county", "pure")
    leaves = request.counts_of(LEAVES)
    plan, truth = request.plan(request.disclose(leaves)), TREE.summed(leaves)
    rng, n = cg.replay_rng("coverage of trees"), 500
    queries = ["sex=f & age=old", "sex=f"]
    alone = [Plan.of(law, "bounded") for law in plan.law.each_level]
    n_covered = np.zeros((3, 2))
    coverage = np.zeros((3, 2))
    for _ in range(n):
        measured = plan.draw(leaves, rng)
        for level, (of_level, values) in enumerate(zip(alone, measured, strict=True)):
            known = Measurements.of(of_level, values)
            statistics = parse_queries(queries, SCHEMA, of_level.law.areas)
            for number, interval in enumerate(known.confidences(statistics, TREE.texts(level)[0])):
                assert interval.low is not None
                assert interval.high is not None
                cells = [1] if number == 0 else [0, 1]
                n_covered[level, number] += interval.low <= truth[level][0, cells].sum() <= interval.high
                coverage[level, number] = interval.coverage or 0.0
    error = np.sqrt(0.1 * 0.9 / n)
    assert (coverage >= 0.9).all()
    assert (n_covered / n >= coverage - 5 * error).all()
    assert (n_covered / n <= coverage + 5 * error).all()


def test_a_district_is_read_off_the_largest_units_in_it(ledger: Ledger, tmp_path: Path) -> None:
    release(ledger, tmp_path / "tree", "county")
    bundle = cg.load_bundle(tmp_path / "tree")
    whole_and_some = [code for code in CODES if code.startswith(("1", "2a"))] + ["2bx"]
    district = bundle.district(whole_and_some)
    assert district.units_in_use("all") == {"county": 1, "tract": 1, "block": 1}
    assert district.units_in_use("sex=f") == {"county": 1, "tract": 1, "block": 1}
    (interval,) = district.confidence("sex=f")
    county, tract, block = (numbers[:, :2].sum(axis=1) for numbers in bundle.measured_levels)
    assert interval.measured == county[0] + tract[2] + block[CODES.index("2bx")]
    assert (interval.coverage or 0) >= 0.9
    (known,) = bundle.district([code for code in CODES if code[0] in "12"]).confidence("all")
    assert known.low == known.high == LEAVES[:12].sum()
    with pytest.raises(HierarchyError, match="is not a block of the tree"):
        bundle.district(["9zz"])
    file = tmp_path / "district.txt"
    file.write_text("\n".join(whole_and_some))
    answer = CliRunner().invoke(main, ["infer", str(tmp_path / "tree"), "--district", str(file), "--query", "sex=f"])
    assert answer.exit_code == 0, answer.output
    assert "1 county, 1 tract, 1 block units" in answer.output


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"rho": "1"}, {"epsilon": "3"}])
def test_intervals_of_districts_cover_what_they_say(budget: dict[str, Any]) -> None:
    """400 districts of every size, contiguous and at random, in 2,000 releases: as often as stated, by size.

    The mutant: intervals that are shorter at each end by one and an eighth, which cover less than is stated.
    """
    from congenial.inference.districts import District
    from congenial.inference.measurement_intervals import Measurements
    from congenial.plan import Plan
    from congenial.sampling.lattice_noise.half_widths import half_width_of

    codes = [f"{county}{tract:02}{block:02}" for county in "123" for tract in range(8) for block in range(12)]
    tree, rng = cg.Tree.of_prefixes(codes, {"county": 1, "tract": 3}, "block"), cg.replay_rng("districts")
    leaves = rng.below(np.full((len(codes), 4), 9))
    request = cg.Hierarchy(tree, SCHEMA, invariants={"county": [cg.total()]}, method="measured", **budget)
    plan = request.plan(request.disclose(leaves))
    alone = [Plan.of(law, "bounded") for law in plan.law.each_level]
    chosen = []
    for number in range(400):
        size = 1 + number * len(codes) // 500
        first = int(rng.below(np.array([len(codes) - size + 1]))[0])
        places = np.arange(first, first + size) if number % 2 else rng.words(len(codes)).argsort()[:size]
        chosen.append(np.sort(places))
    levels = [Measurements.of(*pair) for pair in zip(alone, tree.summed(leaves), strict=True)]  # of no noise at all
    row, members, widths = Row.of("a cell", [1]), [], []
    for places in chosen:
        district = District.of(tree, levels, [codes[place] for place in places.tolist()])
        reading = district.number(row)
        assert reading is not None
        assert reading.value == leaves[places, 1].sum()
        assert reading.divisor == 1
        widths.append(half_width_of(reading.noise, Fraction(9, 10)))
        members.append(district.chosen(row))
    n_releases, errors = 2_000, np.zeros((400, 2_000), np.int64)
    truth = tree.summed(leaves)
    for release_number in range(n_releases):
        drawn = plan.draw(leaves, rng)
        noises = [(numbers - exact)[:, 1] for numbers, exact in zip(drawn, truth, strict=True)]
        for number, of_levels in enumerate(members):
            parts = zip(noises, of_levels, strict=True)
            errors[number, release_number] = sum(int(noise[places].sum()) for noise, places in parts)
    reach = np.array([width.half_width for width in widths])[:, None]
    stated = np.array([width.coverage for width in widths])
    assert (stated >= 0.9).all()
    covered, mutant = ((np.abs(errors) <= reach - less).mean(axis=1) for less in (0, 1 + reach // 8))
    # Districts of a size share units, so their errors go together: as if all of them were one district.
    slack = 5 * np.sqrt(0.1 * 0.9 / n_releases)
    for part in np.array_split(np.arange(400), 8):  # by size
        assert abs(covered[part].mean() - stated[part].mean()) < slack
    assert mutant[:50].mean() < stated[:50].mean() - slack


def test_the_commands(ledger: Ledger, tmp_path: Path) -> None:
    release(ledger, tmp_path / "tree", "county")
    run = CliRunner().invoke
    answer = run(main, ["infer", str(tmp_path / "tree"), "--units", "block", "--area", "3cx", "--query", "all"])
    assert answer.exit_code == 0, answer.output
    assert "3cx" in answer.output
    refused = run(main, ["infer", str(tmp_path / "tree"), "--units", "ward", "--query", "all"])
    assert refused.exit_code == 1
    assert "ward" in refused.output


# Refusals.


@pytest.mark.parametrize("budget", list(BUDGETS))
@pytest.mark.parametrize(
    "exact",
    [
        {"county": [cg.margin("sex", "age")]},
        {"county": [cg.margin("sex", "age")], "tract": [cg.total()]},
        {"tract": [cg.total(), cg.margin("sex"), cg.margin("age"), cg.total({"sex": "f", "age": "old"})]},
    ],
)
def test_levels_whose_cells_are_all_exact_have_no_noise_and_leave_their_share(
    exact: dict[str, Any], budget: str, ledger: Ledger, tmp_path: Path
) -> None:
    """The share of the budget goes to the levels below, and numbers of the top are known to all estimates."""
    request = hierarchy(budget=budget, invariants=exact)
    leaves = request.counts_of(LEAVES)
    plan, truth = request.plan(request.disclose(leaves)), TREE.summed(leaves)
    n_exact = 1 if "county" in exact else 2
    assert plan.budget is not None
    assert plan.budget.covers(plan.certificate)
    cost = plan.budget.cost(plan.certificate)
    assert cost is not None
    if list(exact) == ["county"]:  # totals of tracts are exact otherwise, and the cap leaves some of the budget
        assert cost > plan.budget.limit * Fraction(99, 100)
    measured = plan.draw(leaves, cg.replay_rng(1))
    tables, errors = plan.decide(measured), tree_errors(plan)
    estimates = estimate(tree_measurements(plan.law, measured))
    for level in range(n_exact):
        assert np.array_equal(measured[level], truth[level])
        assert np.array_equal(tables[level], truth[level])
        assert np.abs(estimates[level] / 2**FRACTION_BITS - truth[level]).max() < 1e-3
        assert (errors[level].measured_cell, errors[level].cell) == (0, 0)
    assert not np.array_equal(measured[-1], truth[-1])
    assert errors[n_exact].cell > 0
    if budget == "rho":
        shown = request.release(LEAVES, ledger=ledger, dataset="town", release="tree", who="Ada", folder=tmp_path / "t")
        assert np.array_equal(shown.levels[0], truth[0])
        assert verify_bundle(tmp_path / "t").not_checked == ()
        (women,) = cg.load_bundle(tmp_path / "t").units("county").confidence("sex=f", "1")
        assert women.low == women.high == truth[0][0, :2].sum()


def test_a_tree_whose_leaves_are_all_exact_is_refused() -> None:
    """Of a single cell a total says all: counties may be exact, and blocks may not."""
    for level, is_refused in (("county", False), ("tract", False), ("block", True)):
        request = cg.Hierarchy(TREE, cg.Schema({"all": ["people"]}), invariants={level: [cg.total()]}, rho="1")
        disclosed = request.disclose(request.counts_of(LEAVES[:, :1]))
        if is_refused:
            with pytest.raises(CongenialError, match="leave no cell and no leaf that one record could change into"):
                request.plan(disclosed)
        else:
            assert request.plan(disclosed).certificate.rho == pytest.approx(Fraction(1))


def test_units_at_the_top_may_have_other_zeros() -> None:
    """A county where nobody can live beside others whose totals are exact."""
    for empty in ("1", "2", "3"):
        mask = np.array([[code.startswith(empty)] * 4 for code in CODES])
        leaves = np.where(mask, 0, LEAVES)
        zeros = Zeros.of_leaves(TREE, mask)
        request = hierarchy("top", zeros=zeros)
        plan = request.plan(request.disclose(request.counts_of(leaves)))
        assert plan.certificate.rho == 1
        tables = plan.decide(plan.draw(request.counts_of(leaves), cg.replay_rng(1)))
        assert not any(table[level_mask].any() for table, level_mask in zip(tables, zeros.masks, strict=True))


def test_a_tree_without_a_rule_is_refused_before_the_charge(ledger: Ledger) -> None:
    mask = np.zeros((len(CODES), 4), np.bool_)
    mask[0, 0] = True
    leaves = np.where(mask, 0, LEAVES)
    request = hierarchy("everywhere", zeros=Zeros.of_leaves(TREE, mask))
    with pytest.raises(HierarchyError, match="structural zeros are for some cells of an exact sum"):
        request.release(leaves, ledger=ledger, dataset="town", release="r", who="Ada")
    with pytest.raises(HierarchyError, match="add up to less than"):
        hierarchy().release(LEAVES + 2**33, ledger=ledger, dataset="town", release="r", who="Ada")
    with pytest.raises(
        HierarchyError, match=r"every tract: the exact sums .* leave more than one number of a unit free"
    ):
        crossing({"tract": [cg.margin("sex"), cg.margin("age")]})
    assert ledger.history("town") == ()


def test_what_has_no_certificate_is_refused() -> None:
    def plan(invariants: Any) -> Any:
        request = hierarchy("top", invariants=invariants)
        return request.plan(request.disclose(request.counts_of(LEAVES)))

    with pytest.raises(CongenialError, match="no ranges, bounds or shares"):
        plan([cg.total(), cg.bounds(1, where={"sex": "f"})])
    with pytest.raises(PrivacyError, match="no cell and no leaf that one record could change into"):
        plan({"block": [cg.cells()]})
    one = plan({"county": [cg.total({"sex": "f", "age": "old"})]})  # a single cell is exact, and the others move
    assert one.certificate.rho == 1


# Sums measured beside the cells.

SUMS = [cg.margin("sex", portion=1), cg.cells(portion=3)]


@pytest.mark.parametrize("exact", ["top", "margins"])
def test_sums_beside_cells_are_measured_at_every_level(exact: str, ledger: Ledger, tmp_path: Path) -> None:
    hierarchy(exact, measure=SUMS).release(
        LEAVES, ledger=ledger, dataset="town", release="sums", who="Ada", folder=tmp_path / "sums"
    )
    assert any("rule gls makes of the measurements" in line for line in verify_bundle(tmp_path / "sums").checked)
    bundle = cg.load_bundle(tmp_path / "sums")
    certificate = bundle.manifest.certificate
    assert certificate.rho is not None
    assert 1 - Fraction(1, 10**9) < certificate.rho <= 1
    for level, queries in enumerate(bundle.law.queries_of_levels):
        of_sums, of_cells = (query.precision for query in queries)
        known = exact == "margins" and level < 2  # exact there, so that all of the share goes to the cells
        assert of_sums == 0 if known else abs(of_cells / of_sums - 3) < Fraction(1, 10**6)
    # Cells of a county have their noise, whichever query is first.
    (interval,) = bundle.district([code for code in CODES if code[0] == "1"]).confidence("sex=f & age=old")
    assert interval.measured == bundle.measured_levels[0][0, bundle_columns(bundle).index((1,))]
    assert (interval.coverage or 0) >= 0.9


def bundle_columns(bundle: Any) -> list[tuple[int, ...]]:
    return [tuple(query.row.cells) for query in next(iter(bundle.law.each_level)).measured]


@pytest.mark.parametrize(
    ("measure", "method", "words"),
    [
        ([cg.total({"sex": "f"})], "measured", "add cells to what is measured"),
        ([cg.cells(), cg.total(portion=1)], "measured", "give all of them one, or none"),
        ([cg.cells(), cg.total(precision=1)], "measured", "give it a portion"),
        ([cg.cells(), cg.margin("sex")], "conditional", "write method: measured"),
    ],
)
def test_what_a_tree_cannot_measure(measure: list[Any], method: str, words: str) -> None:
    with pytest.raises(HierarchyError, match=words):
        hierarchy(measure=measure, method=method)


@pytest.mark.parametrize("condition", [cg.total({"sex": "f"}, at_most=500), cg.share({"sex": "f"})])
def test_limits_at_the_top_name_the_way_out(condition: Any) -> None:
    request = hierarchy(invariants=[condition])
    with pytest.raises(PrivacyError, match="write method: conditional"):
        request.plan(request.disclose(request.counts_of(LEAVES)))
