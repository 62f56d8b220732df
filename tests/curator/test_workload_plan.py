"""`congenial plan` of several tables of the same records: errors in closed form, what exact numbers buy, targets."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from congenial.arrays import Floats
from congenial.curator.alternatives_and_target_error import ErrorTarget
from congenial.curator.preview import preview, write_disclosed_cells
from congenial.curator.preview_text import as_json, published_before, screen
from congenial.curator.workload_errors import WorkloadErrors
from congenial.curator.workload_preview import WorkloadPreview
from congenial.errors import StudyError
from congenial.spec.load import load_spec
from tables_of_records import SPEC, place_tables


def planned(folder: Path, text: str = SPEC, **options: object) -> WorkloadPreview:
    spec = place_tables(folder, text)
    out = preview(load_spec(spec), folder, **options)  # type: ignore[arg-type]
    assert isinstance(out, WorkloadPreview)
    return out


def headings(shown: WorkloadPreview, *, full: bool = False) -> dict[str, list[str]]:
    return {one.heading: [*one.lines, *one.aligned] for one in screen(shown, full=full)}


def test_the_errors_are_those_of_dense_least_squares(tmp_path: Path) -> None:
    """Of every table and margin, by the covariance of all cells given the exact counties."""
    plan = planned(tmp_path).plan
    schema, errors = plan.law.schema, WorkloadErrors(plan.law)
    cells = np.eye(schema.n_cells).reshape(schema.n_cells, *schema.shape)

    def rows(names: tuple[str, ...]) -> Floats:
        lost = tuple(1 + axis for axis, name in enumerate(schema.names) if name not in names)
        sums: Floats = cells.sum(axis=lost).reshape(schema.n_cells, -1).T
        return sums

    weights = np.vstack([rows(t.dimensions) * float(t.precision) ** 0.5 for t in plan.law.tables])
    _, sizes, directions = np.linalg.svd(rows(("county",)))
    free = directions[np.sum(sizes > 1e-9) :]
    inner = np.linalg.pinv(free @ weights.T @ weights @ free.T)
    for one in (*errors.tables, *errors.margins):
        query = rows(one.dimensions) @ free.T
        dense = np.sqrt(np.maximum(np.diag(query @ inner @ query.T), 0)).mean()
        assert one.estimate == pytest.approx(dense, abs=1e-7), one.name
    assert [margin.name for margin in errors.margins if margin.is_exact] == ["total", "county"]


def test_the_screen_has_everything_in_its_order(tmp_path: Path) -> None:
    shown = planned(tmp_path)
    sections = headings(shown)
    assert list(sections) == [
        "What a change of records can cost at most",
        "NOT PROTECTED, whatever the budget is",
        "What will be published",
        "How far numbers are off",
        "WARNING: what was not measured is a model",
        "What exactness buys, and what it costs",
        "Other designs",
        "What stays protected",
    ]
    prices = sections["What a change of records can cost at most"]
    assert prices[0].startswith("one record that keeps its county: at most rho 0.5 (this is what the budget is for)")
    assert prices[1].startswith("two records that exchange county")
    assert prices[2].startswith("any 2 records: at most rho 2")
    assert "age x ill; sex x ill" in sections["WARNING: what was not measured is a model"][1]
    assert screen(shown)[1].n_bold == 1
    assert "For the expert: certificate" in headings(shown, full=True)


def test_it_reads_no_counts_but_the_exact_ones(tmp_path: Path) -> None:
    """Other records with the same counties give the same screen, to the letter."""
    before = as_json(planned(tmp_path))
    data = tmp_path / "data.csv"
    text = data.read_text(encoding="utf-8").replace(",f,", ",m,").replace("65+", "0-17")
    data.write_text(text, encoding="utf-8")
    again = preview(load_spec(tmp_path / "spec.yaml"), tmp_path)
    assert as_json(again) == before


def test_an_exact_number_is_left_out_at_the_same_budget(tmp_path: Path) -> None:
    shown = planned(tmp_path)
    ((text, price),) = shown.prices
    assert text == "with nothing exact"
    assert price is not None
    assert price.cost == shown.plan.spent.text
    assert all(without.typical > exact.typical for without, exact in zip(price.tables, shown.price.tables, strict=True))


def test_determined_tables_are_dropped_and_said(tmp_path: Path) -> None:
    shown = planned(tmp_path, SPEC.replace("tables:\n", "tables:\n  by county: [county]\n"))
    assert [table.name for table in shown.errors.tables if not table.noise] == ["by county"]
    assert any("exact numbers determine it: by county" in line for line in headings(shown)["What will be published"])


def test_a_pure_epsilon_says_what_other_terms_would_give(tmp_path: Path) -> None:
    shown = planned(tmp_path, SPEC.replace("rho: 1/2", "epsilon: 1"))
    sections = headings(shown)
    assert "WARNING: a pure epsilon is expensive to split" in sections
    prices = dict(shown.budgets)
    assert set(prices) == {"epsilon 1 at delta 1e-10", "rho 0.5, which an epsilon of 1 implies"}
    by_rho = prices["rho 0.5, which an epsilon of 1 implies"]
    assert by_rho is not None
    assert by_rho.tables[0].typical < shown.price.tables[0].typical


def test_other_designs_measure_a_pair_at_a_tenth(tmp_path: Path) -> None:
    designs = dict(planned(tmp_path).designs)
    assert "shares by cells" in designs
    one = designs["age x ill, measured at a tenth"]
    assert one is not None
    assert [more.name for more in one.more] == ["age x ill"]
    assert one.more[0].typical > one.tables[0].typical


@pytest.mark.parametrize(("table", "error"), [(None, 2.0), ("by illness", 0.5)])
def test_a_target_error_is_reached_by_its_budget(tmp_path: Path, table: str | None, error: float) -> None:
    shown = planned(tmp_path, target=ErrorTarget(error, level=table))
    target = shown.target_budget
    assert target is not None
    assert target.answer.budget is not None
    spec = replace(load_spec(tmp_path / "spec.yaml"), rho=Fraction(target.answer.budget.limit))
    again = WorkloadErrors(spec.workload.plan(shown.plan.law.exact).law)
    reached = max(one.typical for one in again.tables if table in {None, one.name})
    assert 0.97 * error <= reached <= error
    assert "Which budget reaches it" in headings(shown)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reference": Path("data.csv")}, "leave --reference out"),
        ({"compare_methods": True}, "no other method"),
        ({"target": ErrorTarget(1, of="areas")}, "cells of a table, not of areas"),
        ({"target": ErrorTarget(1, level="by sex")}, "'by sex' is not a table"),
    ],
)
def test_what_has_no_meaning_is_refused_before_data_are_read(
    tmp_path: Path, options: dict[str, object], words: str
) -> None:
    spec = load_spec(place_tables(tmp_path))
    (tmp_path / "data.csv").unlink()
    with pytest.raises(StudyError, match=words):
        preview(spec, tmp_path, **options)  # type: ignore[arg-type]


def test_disclosed_cells_are_listed_by_table(tmp_path: Path) -> None:
    shown = planned(tmp_path, SPEC.replace("{margin: [county], mandate: a register}", "{margin: [county, age]}"))
    assert "CONFIDENTIAL-given-away" in write_disclosed_cells(shown.spec, tmp_path, shown.disclosures)
    (file,) = tmp_path.glob("CONFIDENTIAL*")
    assert file.read_text(encoding="utf-8").splitlines()[0] == "level,area,county,age,sex,ill,value"


def test_without_a_budget_it_names_what_is_certified(tmp_path: Path) -> None:
    text = SPEC.replace("budget: {rho: 1/2}\n", "noise: discrete_gaussian\n")
    text = text.replace("[county, age, sex]", "{margin: [county, age, sex], precision: 1/4}")
    text = text.replace("[county, ill]", "{margin: [county, ill], precision: 1/4}")
    shown = planned(tmp_path, text)
    assert shown.designs == ()
    assert headings(shown)["What exactness buys, and what it costs"][1].split()[0] == "cost"
    with pytest.raises(StudyError, match="precision of its own"):
        planned(tmp_path, text, target=ErrorTarget(1))


def test_earlier_releases_are_compared(tmp_path: Path) -> None:
    shown = planned(tmp_path)
    assert published_before(shown, []) is None
    assert [text for text, _ in shown.planned.kinds] == ["a cell of by age and sex", "a cell of by illness"]
