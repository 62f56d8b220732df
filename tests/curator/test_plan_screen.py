"""`congenial plan`: one screen in plain words, what exactness costs, and the budget for an error."""

import json
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from agreement import own_rng
from congenial.cli.main import main
from congenial.curator.alternatives_and_target_error import ErrorTarget, TargetBudget, least_amount
from congenial.curator.preview import TablesPreview
from congenial.curator.preview_text import screen
from congenial.errors import StudyError
from congenial.law import Law
from congenial.privacy.budget import Budget
from congenial.spec.load import load_spec
from congenial.spec.spec_and_hierarchy import Spec
from console import JARGON
from previews import tables_preview as preview
from releases import simulate

SPEC = """\
release: r
dataset: town
data: {path: data.csv, kind: counts, count: n}
dimensions: {sex: [f, m], age: [young, grown, old]}
invariants: [total, {total: f, name: women}]
budget: {epsilon: 1}
"""
ROWS = [(sex, age) for sex in "fm" for age in ("young", "grown", "old")]


def spec_of(folder: Path, counts: list[int], text: str = SPEC, areas: tuple[str, ...] = ()) -> Spec:
    lines = [f"{sex},{age},{n}" for (sex, age), n in zip(ROWS, counts, strict=True)]
    if areas:
        text += f"by: {{name: town, levels: [{', '.join(areas)}]}}\n"
        lines = [f"{area},{line}" for area in areas for line in lines]
    head = "town,sex,age,n" if areas else "sex,age,n"
    (folder / "data.csv").write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    return load_spec(folder / "spec.yaml")


def test_what_an_expert_asks_for_comes_after_the_screen(tmp_path: Path) -> None:
    spec_of(tmp_path, [3, 1, 0, 2, 1, 1])
    done = CliRunner().invoke(main, ["plan", str(tmp_path / "spec.yaml"), "--full"])
    assert done.exit_code == 0, done.output
    first, _, rest = done.stdout.partition("For the expert")
    assert not JARGON.findall(first)
    for words in ("width 1", "states", "For the expert: noise", "sex=m, age=old", "proof and audit"):
        assert words in rest
    assert done.stderr.splitlines()[:2] == ["planning spec.yaml: reading the data", "planning spec.yaml: planning"]


def test_prices_are_those_of_releases_that_leave_something_out(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """And of the data only the invariants' values enter: another table that has them has the same prices."""
    counts = [30, 12, 9, 25, 14, 8]
    planned = preview(spec_of(tmp_path, counts), tmp_path)
    assert [text for text, _ in planned.prices] == ["without total", "without women", "with nothing exact"]
    table = cg.Table(planned.spec.schema, np.array(counts).reshape(2, 3))
    for (_, price), places in zip(planned.prices, ([1], [0], []), strict=True):
        conditions = [planned.spec.invariants[place].condition for place in places]
        other = cg.Mechanism(planned.spec.schema, measure=[cg.cells()], invariants=conditions, epsilon="1")
        law = other.plan(other.disclose(table)).law
        sizes = [(float(law.family(query.precision).variance), len(query.rows)) for query in law.queries]
        assert price is not None
        assert price.noise == pytest.approx(sqrt(sum(size * n for size, n in sizes) / 6))
        gaps = Law(law, planned.centre).sample(20_000, own_rng(request)) - planned.centre
        assert price.error == pytest.approx(sqrt((gaps.astype(float) ** 2).mean()), rel=0.03)
    assert planned.price.noise > min(price.noise for _, price in planned.prices if price is not None)
    moved = preview(spec_of(tmp_path, [20, 20, 11, 5, 1, 41]), tmp_path)
    assert moved.prices == planned.prices
    assert moved.price == planned.price


def test_where_precisions_are_given_the_cost_is_compared(tmp_path: Path) -> None:
    text = SPEC.replace("budget: {epsilon: 1}", "measure: [{cells: all, precision: 1/2}]")
    spec = spec_of(tmp_path, [30, 12, 9, 25, 14, 8], text)
    section = next(part for part in screen(preview(spec, tmp_path)) if part.heading == "What exactness costs")
    costs = [row[1] for row in section.rows]
    assert costs == ["cost", *["epsilon 1.4899"] * 4]  # counts that are not negative cost that alone
    with pytest.raises(StudyError, match="so no budget sets the error"):
        preview(spec, tmp_path, target=ErrorTarget(1.0))


def simulated_error(planned: TablesPreview, spec: Spec, of: str, request: pytest.FixtureRequest) -> float:
    """The error of many draws with a spec's budget around the public table."""
    plan = spec.mechanism.plan(planned.plan.law.areas)
    gaps = (Law(plan.law, planned.centre).sample(20_000, own_rng(request)) - planned.centre).astype(float)
    if of == "margins":
        gaps = gaps.reshape(-1, 2, 3).sum(axis=1)  # the margin of sex is exact
    return sqrt((gaps**2).mean())


@pytest.mark.parametrize(
    ("of", "wanted", "budget"),
    [("cells", 1.0, "{epsilon: 1}"), ("margins", 3.0, "{epsilon: 1}"), ("cells", 4.0, "{rho: 1/2}")],
)
def test_a_release_with_the_budget_that_is_found_has_the_error(
    of: str, wanted: float, budget: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By draws of that release; the mutant with four fifths of the budget does not have it."""
    text = SPEC.replace("{epsilon: 1}", budget) + ("noise: discrete_gaussian\n" if "rho" in budget else "")
    spec = spec_of(tmp_path, [30, 12, 9, 25, 14, 8], text)
    planned = preview(spec, tmp_path, target=ErrorTarget(wanted, of))
    reached = planned.target_budget
    assert reached is not None
    assert reached.budget is not None
    assert reached.error <= wanted
    budget_of: dict[str, Any] = {"epsilon": reached.budget.epsilon, "rho": reached.budget.rho}
    at = replace(spec, **budget_of)
    assert simulated_error(planned, at, of, request) == pytest.approx(wanted, rel=0.03)
    less: dict[str, Any] = {name: None if part is None else part * 4 / 5 for name, part in budget_of.items()}
    mutant = replace(spec, **less)
    assert simulated_error(planned, mutant, of, request) > 1.05 * wanted
    assert str(float(reached.budget.limit)) in reached.lines[-1]


def test_the_error_of_sums_over_areas(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    spec = spec_of(tmp_path, [5, 1, 0, 2, 0, 1], areas=tuple("abcdefgh"))
    planned = preview(spec, tmp_path, target=ErrorTarget(4.0, "areas"))
    reached = planned.target_budget
    assert reached is not None
    assert reached.budget is not None
    plan = replace(spec, epsilon=reached.budget.limit).mechanism.plan(planned.plan.law.areas)
    centres, rng = np.stack([planned.centre] * 8), own_rng(request)
    gaps = [(plan.draw_areas(centres, rng) - centres).sum(axis=0).astype(float) for n in range(400)]
    assert sqrt((np.array(gaps) ** 2).mean()) == pytest.approx(4.0, rel=0.15)


def test_what_no_budget_or_every_budget_reaches_is_said(tmp_path: Path) -> None:
    """Noise that does not get less with the budget, made up here; and few people, who cannot be far off."""
    gaussian = SPEC.replace("{epsilon: 1}", "{rho: 1/2}\nnoise: discrete_gaussian")
    tried: list[Fraction] = []

    def stuck(amount: Fraction) -> float:
        tried.append(amount)
        return 2.0

    assert least_amount(stuck, Fraction(1), 2.0, 1.0) == (None, 2.0)
    assert max(tried) == 1000
    words = TargetBudget(ErrorTarget(1.0), Budget(epsilon=Fraction(1)), 2.0, None, 2.0).lines
    assert words[0].startswith("No budget up to 1000 reaches a root mean squared error of 1 for a single cell: it is 2")
    spec_of(tmp_path, [1, 1, 0, 1, 0, 0], gaussian)
    done = CliRunner().invoke(main, ["plan", str(tmp_path / "spec.yaml"), "--target-error", "90", "--json"])
    target = json.loads(done.stdout)["target"]
    assert (target["error"], target["of"], target["budget"]) == (90, "cells", "1/1000")
    assert target["error_now"] < target["error_reached"] < 90


def test_targets_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    spec = str(tmp_path / "spec.yaml")
    spec_of(tmp_path, [3, 1, 0, 2, 1, 1])
    for words, message in (
        (["--target-error", "0"], "a number from 0.001 on"),
        (["--target-error", "nan"], "a number from 0.001 on"),
        (["--target-error", "1", "--target-of", "areas"], "no areas to add up"),
    ):
        done = CliRunner().invoke(main, ["plan", spec, *words])
        assert (done.exit_code, done.stdout) == (1, "")
        assert message in done.stderr


def test_a_measured_release_is_told_how_far_measurements_will_be_off(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path, [30, 10, 5, 20, 10, 11], SPEC.replace("count: n}", "count: n, status: public}") + "method: measured\n"
    )
    (section,) = [
        part for part in screen(preview(spec, tmp_path)) if part.heading == "How far a released number is off"
    ]
    folder = simulate(tmp_path / "spec.yaml", tmp_path / "out", seed=1).folder
    known = cg.load_bundle(folder).confidence(["sex=f & age=young", "age=young"], level=0.9)
    widths = [(one.high - one.low) / 2 for one in known]
    assert section.rows[0][-1] == "a measurement"
    assert [line[-1] for line in section.rows[1:]] == [f"+-{widths[0]:.0f}", "exact", f"+-{widths[1]:.0f}"]


def told(folder: Path, text: str) -> list[str]:
    """Return what plan says of measurements: of a cell, then of the numbers by each dimension."""
    (section,) = [
        part
        for part in screen(preview(spec_of(folder, [30, 10, 5, 20, 10, 11], text), folder))
        if part.heading == "How far a released number is off"
    ]
    return [line[-1] for line in section.rows[1:]]


def test_a_half_width_of_zero_is_not_called_exact(tmp_path: Path) -> None:
    budget = SPEC.replace("epsilon: 1", "epsilon: 12").replace("total, {total: f, name: women}", "total")
    assert told(tmp_path, budget + "method: measured\n") == ["+-0", "+-0", "+-0"]


def test_widths_where_sums_are_measured_too(tmp_path: Path) -> None:
    text = SPEC + "method: measured\nmeasure: [cells, {margin: [age]}]\n"
    cell, sex, age = told(tmp_path, text)
    assert sex == "exact"
    assert 0 < int(cell.removeprefix("+-")) <= int(age.removeprefix("+-"))


def test_widths_of_a_table_of_one_dimension(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("age,n\nyoung,3\nold,4\n", encoding="utf-8")
    text = SPEC.replace("{sex: [f, m], age: [young, grown, old]}", "{age: [young, old]}")
    text = text.replace("[total, {total: f, name: women}]", "[total]") + "method: measured\n"
    (tmp_path / "spec.yaml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["plan", str(tmp_path / "spec.yaml")])
    assert done.exit_code == 0, done.output
    assert "a measurement" in done.stdout
