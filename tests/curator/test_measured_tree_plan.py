"""What `congenial plan` says of a measured tree: levels, sums, what exact numbers cost, and the budget of an error."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.curator import alternatives_and_target_error
from congenial.curator.alternatives_and_target_error import ErrorTarget
from congenial.curator.preview import TreePreview
from congenial.curator.preview_text import screen
from congenial.curator.tree_estimate_errors import tree_errors
from congenial.errors import StudyError
from congenial.spec.load import load_spec
from previews import tables_preview, tree_preview

SPEC = """\
release: town
data: {path: counts.csv, kind: counts, count: n}
dimensions: {sex: [f, m], age: [young, old]}
hierarchy:
  file: blocks.csv
  leaf: block
  levels: {county: {prefix: 1}, tract: {prefix: 2}}
invariants: [{total: all, at: county}, {total: {age: old}, at: tract}]
method: measured
budget: {rho: 1}
"""
BLOCKS = [f"{county}{tract}{block:02}" for county in "123" for tract in "abc" for block in range(8)]


def placed(folder: Path, text: str = SPEC) -> Path:
    cells = [(sex, age) for sex in "fm" for age in ("young", "old")]
    rows = [f"{block},{sex},{age},{7 * n % 11}" for n, block in enumerate(BLOCKS) for sex, age in cells]
    (folder / "counts.csv").write_text("\n".join(["block,sex,age,n", *rows]) + "\n")
    (folder / "blocks.csv").write_text("\n".join(["block", *BLOCKS]) + "\n")
    (folder / "spec.yaml").write_text(text)
    return folder / "spec.yaml"


def sections(preview: TreePreview) -> dict[str, Any]:
    return {section.heading: section for section in screen(preview)}


def test_every_level_has_its_errors_and_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("tables were made up or drawn")

    monkeypatch.setattr(TreePreview, "leaves", property(never))
    preview = tree_preview(load_spec(placed(tmp_path)), tmp_path)
    header, *rows = sections(preview)["How far numbers are off, level by level"].rows
    assert header[:3] == ["level", "units", "budget"]
    assert [row[:3] for row in rows] == [["county", "3", "35%"], ["tract", "9", "35%"], ["block", "72", "30%"]]
    assert [row[-1] for row in rows[:1]] == ["exact"]
    for row, error in zip(rows, tree_errors(preview.plan), strict=True):
        assert row[3:6] == [f"{error.measured_cell:.2f}", f"{error.cell:.2f}", f"{np.sqrt(2 / np.pi) * error.cell:.2f}"]
    assert preview.level_table() is None
    assert [row[0] for row in sections(preview)["Sums over units"].rows[1:]] == [
        "3 of level county",
        "9 of level tract",
        "40 of level block",
    ]
    assert preview.planned.errors == {"total": 0.0}


def test_what_exact_numbers_cost_is_what_the_spec_without_them_has(tmp_path: Path) -> None:
    preview = tree_preview(load_spec(placed(tmp_path)), tmp_path)
    assert [text for text, _ in preview.prices] == [
        "without total of every county",
        "without total of age=old of every tract",
        "with nothing exact",
    ]
    placed(tmp_path, SPEC.replace("{total: all, at: county}, ", ""))
    other = tree_preview(load_spec(tmp_path / "spec.yaml"), tmp_path)
    price = preview.prices[0][1]
    assert price is not None
    assert price.levels == other.estimates
    assert price.levels[0].cell > preview.estimates[0].cell
    table = sections(preview)["What exactness costs"].rows
    assert table[0] == ["", "noise", "county", "tract", "block"]
    assert table[2] == [
        preview.prices[0][0],
        *(f"{x:.2f}" for x in (price.levels[-1].measured_cell,)),
        *(f"{error.cell:.2f}" for error in price.levels),
    ]


@pytest.mark.parametrize("level", [None, "county"])
@pytest.mark.parametrize("budget", ["rho: 1", "epsilon: 2", 'epsilon: 4, delta: "1e-8"'])
def test_the_budget_that_reaches_an_error_is_about_the_least(budget: str, level: str | None, tmp_path: Path) -> None:
    spec = load_spec(placed(tmp_path, SPEC.replace("rho: 1", budget)))
    target = tree_preview(spec, tmp_path, target=ErrorTarget(1.25, level=level)).target_budget
    assert target is not None
    assert target.plan is not None
    place = 2 if level is None else 0
    assert target.levels[place].typical <= 1.25
    assert target.found.error == pytest.approx(target.levels[place].typical)
    assert target.plan.budget == target.found.budget
    assert target.plan.budget is not None
    assert target.plan.budget.covers(target.plan.certificate)
    (name, amount) = ("rho", target.plan.budget.rho) if "rho" in budget else ("epsilon", target.plan.budget.epsilon)
    assert amount is not None
    text = budget.replace(budget.split(",", maxsplit=1)[0], f"{name}: {float(amount * Fraction(97, 100)):.6f}")
    less = tree_preview(load_spec(placed(tmp_path, SPEC.replace("rho: 1", text))), tmp_path)
    assert less.estimates[place].typical > 1.25


def test_a_target_is_refused_where_it_is_none(tmp_path: Path) -> None:
    for text, target, words in (
        (SPEC.replace("method: measured", "method: conditional"), ErrorTarget(1.0), "needs `method: measured`"),
        (SPEC, ErrorTarget(1.0, "areas"), "cells of a level, not of areas"),
        (SPEC, ErrorTarget(1.0, level="parish"), "'parish' is not a level"),
    ):
        with pytest.raises(StudyError, match=words):
            tree_preview(load_spec(placed(tmp_path, text)), tmp_path, target=target)
    start, end = SPEC.index("hierarchy:"), SPEC.index("invariants:")
    areas = SPEC[:start] + "by: {name: block, levels: [" + ", ".join(BLOCKS) + "]}\n" + SPEC[end:]
    areas = areas.replace("{total: all, at: county}, {total: {age: old}, at: tract}", "total")
    with pytest.raises(StudyError, match="--level is for a tree"):
        tables_preview(load_spec(placed(tmp_path, areas)), tmp_path, target=ErrorTarget(1.0, level="block"))
    done = CliRunner().invoke(main, ["plan", str(placed(tmp_path)), "--level", "block"])
    assert done.exit_code
    assert "--level says of which level --target-error is" in done.output


def test_no_budget_and_every_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alternatives_and_target_error, "_MOST", Fraction(2))
    spec = load_spec(placed(tmp_path))
    lines = [sections(tree_preview(spec, tmp_path, target=ErrorTarget(error))) for error in (0.1, 900.0)]
    never, always = (found["Which budget reaches it"].lines[0] for found in lines)
    assert never.startswith("No budget up to 2 reaches a mean absolute error of 0.1")
    assert always.startswith("Every budget reaches a mean absolute error of 900")


def test_the_way_of_the_rule_is_said_of_every_level(tmp_path: Path) -> None:
    preview = tree_preview(load_spec(placed(tmp_path)), tmp_path)
    tried, *ways = sections(preview)["How tables are decided"].lines
    assert "tried on made-up measurements of the whole tree" in tried
    assert ways == [
        "county: the nearest to the estimates, by the rule nearest, under all that is exact there.",
        "tract: a transport between children and cells for each exact part, other cells by themselves.",
        "block: each cell by itself.",
    ]


def test_a_chain_says_what_the_other_method_would_give(tmp_path: Path) -> None:
    chain = tree_preview(load_spec(placed(tmp_path, SPEC.replace("method: measured", "method: conditional"))), tmp_path)
    measured = tree_preview(load_spec(placed(tmp_path)), tmp_path)
    assert chain.measured_instead is not None
    assert chain.measured_instead.levels == measured.estimates
    assert measured.measured_instead is None
    (line,) = sections(chain)["The other method, the same budget"].lines
    assert f"{measured.estimates[0].cell:.2f} at level county" in line


def test_the_command_prints_it_and_writes_it_as_json(tmp_path: Path) -> None:
    file = str(placed(tmp_path))
    (tmp_path / "last.csv").write_text("block,sex,age,n\n1a00,f,old,9\n")
    run = CliRunner().invoke
    text = run(main, ["plan", file, "--target-error", "2", "--level", "tract"]).output
    assert "A mean absolute error of 2 for a cell's estimate of a tract needs rho" in text
    assert "Certified with it: measured_tree_gaussian, rho" in " ".join(text.split())
    assert "bias by count" not in text
    assert "bias by count" in run(main, ["plan", file, "--reference", str(tmp_path / "last.csv")]).output
    shown = json.loads(run(main, ["plan", file, "--target-error", "2", "--json"]).stdout)
    estimates = tree_errors(tree_preview(load_spec(Path(file)), tmp_path).plan)
    assert [level["cell"] for level in shown["estimates"]] == [error.cell for error in estimates]
    assert len(shown["price_of_exactness"]) == 3
    assert shown["target"]["level"] == "block"
    assert shown["target"]["levels"][-1]["typical"] <= 2
    assert "levels" not in shown
