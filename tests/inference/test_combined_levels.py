"""Numbers from all levels of a measured tree together: their errors, ranks among public draws, coverage, refusals."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import BundleError, InferenceError
from congenial.inference import combined_levels
from congenial.inference.combined_levels import CombinedLevels
from congenial.inference.measurement_intervals import Measurements
from congenial.plan import Plan
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.tree.areas_across import AreasAcross

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["young", "old"]})
CODES = [f"{county}{tract}{block}" for county in "12" for tract in "ab" for block in "wxyz"]
TREE = cg.Tree.of_prefixes(CODES, {"county": 1, "tract": 2}, "block")
LEAVES = np.array([[(3 * leaf + 5 * cell) % 11 for cell in range(4)] for leaf in range(len(CODES))])
PLACES: list[Any] = ["north", "south", None, "south"] * 4
DESIGNS: dict[str, dict[str, Any]] = {
    "rho": {"rho": "1/2"},
    "pure": {"epsilon": "2", "invariants": {"tract": [cg.total()]}},
    "crossing": {"rho": "1", "invariants": {"tract": [cg.total(), cg.total({"sex": "f"}), cg.total({"age": "old"})]}},
    "sums": {"rho": "1", "measure": [cg.cells(portion=3), cg.total(portion=1)]},
    "across": {"rho": "1", "across": AreasAcross.of(TREE, "district", PLACES, "1/3")},
}


def hierarchy(name: str = "rho", **options: Any) -> cg.Hierarchy:
    chosen: dict[str, Any] = {"invariants": [cg.total()]} | DESIGNS[name] | options
    return cg.Hierarchy(TREE, SCHEMA, **chosen)


def planned(request: cg.Hierarchy, leaves: Any = LEAVES) -> Plan:
    return request.plan(request.disclose(request.counts_of(leaves)))


def combined(plan: Plan, measured: Sequence[Any], leaves: Any = LEAVES) -> CombinedLevels:
    laws = zip(plan.law.measured_laws, measured, strict=True)
    alone = tuple(Measurements.of(Plan.of(law, "bounded"), values) for law, values in laws)
    return CombinedLevels(plan, tuple(measured), TREE.summed(leaves), alone)


@pytest.fixture(name="folder")
def released(tmp_path: Path) -> Path:
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", rho="2", neighbours="bounded", who="Ada")
    hierarchy("across").release(
        LEAVES, ledger=ledger, dataset="town", release="one", who="Ada", folder=tmp_path / "one"
    )
    return tmp_path / "one"


@pytest.mark.parametrize("name", DESIGNS)
def test_errors_are_those_of_the_noise_whatever_the_counts_are(name: str) -> None:
    """Estimates of tables without noise are the tables; the same noise is off by the same around other tables."""
    plan = planned(hierarchy(name))
    other = plan.decide(plan.draw(LEAVES, cg.replay_rng("other tables")))[-1]
    assert not np.array_equal(other, LEAVES)
    rows = [query.row for query in plan.law.each_level[-1].measured]
    for level, n_units in enumerate(TREE.n_units):
        every = combined_levels.SummedUnits(level, np.arange(n_units), n_units)
        errors = []
        for leaves in (LEAVES, other):
            tables = plan.law.measured_tables(TREE.summed(leaves))
            laws = zip(plan.law.measured_laws, tables, strict=True)
            exact = [row_values([query.row for query in law.measured], values) for law, values in laws]
            known = combined(plan, exact, leaves)
            truth = np.zeros((n_units, len(rows)), np.int64)
            every.add(rows, slice(None), tables[level], truth)
            assert np.abs(known._sums(rows, every, exact) - (truth << FRACTION_BITS)).max() < 2**FRACTION_BITS / 500
            sums = known._sums(rows, every, plan.draw(leaves, cg.replay_rng("noise")))
            errors.append(sums - (truth << FRACTION_BITS))
        assert np.abs(errors[0] - errors[1]).max() < 2**FRACTION_BITS / 250


@pytest.mark.parametrize(("level", "n_draws", "rank"), [(0.9, 99, 90), (0.95, 99, 95), (0.99, 99, 99), (0.8, 99, 80)])
def test_the_half_width_has_its_rank(level: float, n_draws: int, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def errors(_: Any, rows: Any, summed: Any, purpose: str, n: int, __: Any) -> Iterator[Any]:
        asked.append((purpose, n))
        for number in range(n):
            yield np.full((summed.n_groups, len(rows)), (7 * number % n if purpose == "interval" else 0) + 1, np.int64)

    plan = planned(hierarchy())
    known = combined(plan, plan.draw(LEAVES, cg.replay_rng("ranks")))
    monkeypatch.setattr(CombinedLevels, "_errors", errors)
    reaches: list[Any] = []
    reach = CombinedLevels._reach

    def kept(*arguments: Any) -> Any:
        reaches.append(reach(*arguments))
        return reaches[-1]

    monkeypatch.setattr(CombinedLevels, "_reach", kept)
    (answers,) = known.units("tract", "sex=f", ["1a"], level=level).values()
    assert asked == [("choosing", combined_levels.N_CHOOSING), ("interval", n_draws)]
    assert reaches[0].item() == math.ceil(rank * (1 + combined_levels._SLACK) + 2**FRACTION_BITS * 2.0**-8)
    assert answers[0].coverage == pytest.approx(rank / (n_draws + 1))
    assert (answers[0].coverage or 0) >= level


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sharper"), [("pure", {"epsilon": "8"}), ("across", {"rho": "4"})])
def test_intervals_cover_as_often_as_they_say(name: str, sharper: dict[str, str]) -> None:
    """Units of every level, areas across and districts, in turn, in 100 releases.

    The mutant: public draws of a release with four times the budget, whose noise is half as large.
    """
    plan, n_releases = planned(hierarchy(name)), 100
    wrong = planned(hierarchy(name, **sharper))
    names = [level for level, _ in plan.law.names_and_codes]
    truth = plan.law.measured_tables(TREE.summed(LEAVES))
    some, query = [2, 3, 4, 5, 6, 11], "sex=f & age=old"
    covered = np.zeros((2, n_releases), np.bool_)
    for number in range(n_releases):
        known = combined(plan, plan.draw(LEAVES, cg.replay_rng(f"coverage {name} {number}")))
        level, unit = number % (len(names) + 1), number % 2
        for place, asked in enumerate((known, replace(known, plan=wrong))):
            if level < len(names):
                code = str(plan.law.names_and_codes[level][1][unit])
                ((one,),) = asked.units(names[level], query, [code]).values()
                exact = truth[level][unit, 1]
            else:
                (one,) = asked.district([CODES[leaf] for leaf in some], query)
                exact = LEAVES[some, 1].sum()
            assert (one.coverage or 0) >= 0.9
            covered[place, number] = one.low <= exact <= one.high
    slack = 5 * np.sqrt(0.1 * 0.9 / n_releases)
    assert covered[0].mean() >= 0.9 - slack
    assert covered[1].mean() < 0.9 - slack


def test_levels_together_are_narrower(folder: Path) -> None:
    bundle = cg.load_bundle(folder)
    together = bundle.combined.units("tract", "sex=f")
    alone = [bundle.units("tract").confidence("sex=f", code)[0] for code in together]
    widths = [[one.high - one.low for one in some] for some in ([one for (one,) in together.values()], alone)]
    assert np.mean(widths[0]) < np.mean(widths[1])
    assert {one.how for (one,) in together.values()} == {"combined"}
    assert "estimated" in repr(together["1a"][0])
    assert "from all levels" in repr(together["1a"][0])
    # What is exact stays so, and what no level measures well together is read off its own level.
    ((whole,),) = bundle.combined.units("county", "all", ["1"]).values()
    assert whole.high >= whole.low
    districts = bundle.combined.units("district", ["all", "sex=f"])
    assert [*districts] == ["north", "south"]
    (leaves,) = bundle.combined.district([code for code, place in zip(CODES, PLACES, strict=True) if place], "all")
    parts = [one[0] for one in districts.values()]
    is_combined = {one.how for one in (leaves, *parts)} == {"combined"}
    most = 1e-6 if is_combined else sum(one.high - one.low for one in (leaves, *parts))
    assert abs((leaves.measured or 0) - sum(one.measured or 0 for one in parts)) < most


def test_together_and_what_is_refused(folder: Path) -> None:
    bundle = cg.load_bundle(folder)
    (one,) = bundle.combined.district(CODES[:5], "all")
    both = bundle.combined.district(CODES[:5], ["all", "sex=f"], is_simultaneous=True)
    assert both[0].high - both[0].low >= one.high - one.low
    assert all(number.is_simultaneous for number in both)
    assert both[0].coverage == pytest.approx(0.9)
    (share,) = bundle.combined.district(CODES[:5], "share(sex=f | all)")
    assert not share.is_available
    with pytest.raises(InferenceError, match="need 1,279 draws of the noise of the whole tree, and 999 are made"):
        bundle.combined.units(
            "block", [f"sex={s} & age={a}" for s in "fm" for a in ("young", "old")] * 2, is_simultaneous=True
        )
    with pytest.raises(InferenceError, match="'9' is no tract of this release"):
        bundle.combined.units("tract", "all", ["9"])
    with pytest.raises(InferenceError, match="no level 'ward'"):
        bundle.combined.units("ward", "all")
    with pytest.raises(BundleError, match="this release has none"):
        _ = replace(bundle, levels=()).combined


def test_the_command(folder: Path, tmp_path: Path) -> None:
    def run(*arguments: object) -> Any:
        return CliRunner().invoke(main, ["infer", str(folder), "--query", "sex=f", "--combined", *map(str, arguments)])

    text = run("--units", "tract")
    assert text.exit_code == 0, text.output
    assert "by rank among 99 public draws" in " ".join(text.output.split())
    assert "exact" not in run("--units", "district").output
    file = tmp_path / "some.csv"
    file.write_text("\n".join(["block", *CODES[:5]]))
    (shown,) = json.loads(run("--district", file, "--json").stdout)
    (expected,) = cg.load_bundle(folder).combined.district(CODES[:5], "sex=f")
    assert (shown["low"], shown["high"], shown["area"]) == (expected.low, expected.high, "some.csv")
    refused = run("--prior", "flat")
    assert refused.exit_code == 1
    assert "--combined answers without a prior" in refused.output
