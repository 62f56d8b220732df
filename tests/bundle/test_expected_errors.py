"""Errors and biases of sums over areas, against the listed law; what `plan` warns of, against a simulated release."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

import congenial as cg
from agreement import own_rng
from congenial.bundle import expected_errors as module
from congenial.bundle.expected_errors import AggregateErrors, aggregate_errors, statistics, warning_lines
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.curator.confidential_report import write_confidential_report
from congenial.curator.made_up_tables import reference_plan
from congenial.curator.pipeline import simulate
from congenial.curator.preview import TablesPreview
from congenial.errors import BundleError, ReadingError
from congenial.inference.analyst_bundle import load_bundle
from congenial.plan import Plan
from congenial.reading.reference import read_reference
from congenial.reading.tables_and_data_checks import read_counts
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.spec.load import load_spec
from forger import forge, nothing
from previews import tables_preview as preview

Ints = NDArray[np.int64]
SCHEMA = cg.Schema({"age": ["young", "old"], "group": ["large", "rare"]})


def tables_of(request: pytest.FixtureRequest, n_areas: int) -> Ints:
    """Return tables of up to six people, few of them in a rare group."""
    people = own_rng(request).uniforms(6 * n_areas).reshape(n_areas, 6)
    cells = np.select([people < 0.3, people < 0.6, people < 0.66], [0, 2, 1], default=9)
    return np.stack([np.bincount(line[line < 4], minlength=4) for line in cells])


def plan_of(tables: Ints) -> Plan:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    by_label = {str(number): cg.Table(SCHEMA, table.reshape(2, 2)) for number, table in enumerate(tables)}
    return mechanism.plan(mechanism.disclose(by_label, area="block"))


def listed(plan: Plan, tables: Ints) -> dict[str, tuple[float, float]]:
    """Return bias and root mean squared error of every sum over all areas, from every table with its probability."""
    rows = statistics(SCHEMA)
    means, variances = np.zeros((2, len(rows)))
    for area, table in zip(plan.law.areas, tables, strict=True):
        law = EnumeratedLaw.of(plan.law.target(area, table))
        chances = np.array([float(p) for p in law.probabilities])
        gaps = np.stack([(law.tables - table)[:, list(row.cells)].sum(axis=1) for row in rows], axis=1)
        mean = chances @ gaps
        means += mean
        variances += chances @ (gaps - mean) ** 2
    return {row.name: (m, np.sqrt(m**2 + v)) for row, m, v in zip(rows, means, variances, strict=True)}


def test_few_areas_have_the_moments_of_the_listed_law(request: pytest.FixtureRequest) -> None:
    tables = tables_of(request, 8)
    plan = plan_of(tables)
    truth = listed(plan, tables)
    for error in aggregate_errors(plan, tables, "").sums:
        assert (error.bias_of_all, error.size_of_all) == pytest.approx(truth[error.text], abs=1e-6), error.text


def check_sums(errors: AggregateErrors, truth: dict[str, tuple[float, float]]) -> None:
    for error in errors.sums:
        bias, size = truth[error.text]
        assert abs(error.bias_of_all - bias) <= 5 * error.doubt + 1e-9, error.text
        assert error.size_of_all == pytest.approx(size, rel=0.2, abs=5 * error.doubt), error.text


def test_many_areas_are_drawn_and_some_may_stand_for_all(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Defect: areas that stand for others counted once. The mutant is a sum that is not scaled."""
    tables = tables_of(request, 400)
    plan = plan_of(tables)
    truth = listed(plan, tables)
    drawn = aggregate_errors(plan, tables, "")
    assert drawn.n_looked_at == 400
    assert any(error.text == "group=rare" for error in drawn.biased)
    check_sums(drawn, truth)
    monkeypatch.setattr(module, "_SUM_NUMBERS", 100 * len(statistics(SCHEMA)))
    some = aggregate_errors(plan, tables, "")
    assert (some.n_looked_at, some.n_areas) == (100, 400)
    assert some.sums[0].count == tables.sum()
    assert some.classes[0].n_cells == (tables == 0).sum()
    check_sums(some, truth)
    with pytest.raises(AssertionError):
        check_sums(some, {name: (4 * bias, 4 * size) for name, (bias, size) in truth.items()})


def test_classes_of_counts_have_their_own_bias(request: pytest.FixtureRequest) -> None:
    """Empty cells gain and others lose: the total is exact."""
    tables = tables_of(request, 8)
    zero, *others = aggregate_errors(plan_of(tables), tables, "").classes
    assert zero.text == "0"
    assert zero.n_cells == (tables == 0).sum()
    assert zero.bias > 0
    gained = sum(error.n_cells * error.bias for error in others)
    assert zero.n_cells * zero.bias == pytest.approx(-gained, abs=1e-6)


def test_one_table_is_no_sum_over_areas() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    table = cg.Table(SCHEMA, [[30, 0], [20, 0]])
    errors = aggregate_errors(mechanism.plan(mechanism.disclose(table)), table.counts[None, :], "")
    assert errors.n_areas == 1
    assert warning_lines(errors) == []


# What a curator sees


def written(path: Path, tables: Ints, first: int = 0) -> None:
    names = [(age, group) for age in SCHEMA.labels("age") for group in SCHEMA.labels("group")]
    lines = [
        f"{first + number:04},{age},{group},{n}"
        for number, table in enumerate(tables.tolist())
        for (age, group), n in zip(names, table, strict=True)
    ]
    path.write_text("\n".join(["block,age,group,n", *lines, ""]), encoding="utf-8")


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A spec with 120 areas, its data, and a reference with 200 areas of its own."""
    tables = tables_of(request, 320)
    written(tmp_path / "data.csv", tables[:120])
    written(tmp_path / "reference.csv", tables[120:], first=5_000)
    codes = ", ".join(f'"{number:04}"' for number in range(120))
    (tmp_path / "spec.yaml").write_text(
        "release: r\ndata: {path: data.csv, kind: counts, count: n, status: simulated}\nbudget: {epsilon: 1}\n"
        f"by: {{name: block, levels: [{codes}]}}\ndimensions: {{age: [young, old], group: [large, rare]}}\n"
        "invariants: [total]\n",
        encoding="utf-8",
    )
    return tmp_path


def planned(folder: Path, reference: str | None = None) -> TablesPreview:
    return preview(load_spec(folder / "spec.yaml"), folder, None if reference is None else folder / reference)


def test_plan_warns_with_the_figure_of_a_simulated_release(folder: Path, request: pytest.FixtureRequest) -> None:
    preview = planned(folder, "reference.csv")
    assert preview.sums.n_areas == 200
    assert warning_lines(preview.sums)[0].startswith("These 200 tables will add up to about ")
    (rare,) = [error for error in preview.sums.sums if error.text == "group=rare"]
    areas, counts = read_reference(preview.spec, folder / "reference.csv")
    around, rng = reference_plan(preview.spec, preview.plan, areas, counts), own_rng(request)
    shown = np.mean([(around.draw(counts, rng)[0] - counts)[:, [1, 3]].sum() for _ in range(20)])
    assert rare.bias_of_all == pytest.approx(shown, rel=0.2)


def test_plan_without_a_reference_is_around_a_made_up_population(folder: Path) -> None:
    short, full = (CliRunner().invoke(main, ["plan", str(folder / "spec.yaml"), *more]) for more in ([], ["--full"]))
    assert short.exit_code == 0, short.output
    shown = " ".join(short.output.split())
    assert "a made-up population" in shown
    assert "24 areas stand for all 120" in shown
    assert warning_lines(planned(folder).sums)[0].startswith("A level that hardly occurs will come out about")
    assert "WARNING: what tables add up to" in shown
    assert "cells whose count is" not in shown
    assert "cells whose count is" in " ".join(full.output.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("block,age,n\n1,young,3\n", "no column 'group'"),
        ("block,age,group,n\n1,young,large,-3\n", "negative"),
        ("block,age,group,n\n", "no rows"),
    ],
)
def test_a_reference_of_another_shape_is_refused(text: str, why: str, folder: Path) -> None:
    (folder / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(ReadingError, match=why):
        planned(folder, "bad.csv")


def test_the_report_and_a_file_have_the_errors_around_the_release(folder: Path) -> None:
    bundle = simulate(load_spec(folder / "spec.yaml"), folder, folder / "bundle", seed=1).folder
    lines = (bundle / "expected-errors.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "level,statistic,count_from,count_to,n,bias,error"
    released = np.stack(list(load_bundle(bundle).tables.values()))
    zeros = next(line for line in lines if line.startswith('"block","one cell",0,0,'))
    assert zeros.split(",")[4] == str((released == 0).sum())
    page = (bundle / "report.html").read_text(encoding="utf-8")
    assert "computed around the released tables" in page
    assert any("expected-errors.csv was made again" in what for what in verify_bundle(bundle).checked)
    forged = Path(shutil.copytree(bundle, folder / "forged"))
    (forged / "expected-errors.csv").write_text("\n".join([*lines[:-1], lines[1], ""]), encoding="utf-8")
    with pytest.raises(BundleError, match=r"expected-errors\.csv is not the file"):
        verify_bundle(forge(forged, nothing))


def test_figures_around_the_truth_stand_on_the_confidential_page_alone(folder: Path) -> None:
    spec = load_spec(folder / "spec.yaml")
    published = simulate(spec, folder, folder / "bundle", seed=1)
    truth = read_counts(spec, folder)
    write_confidential_report(folder / "CONFIDENTIAL-r.html", spec, truth, published.release)
    page = (folder / "CONFIDENTIAL-r.html").read_text(encoding="utf-8")
    assert "computed around the confidential tables" in page
    off = int((published.release.counts - truth)[:, [1, 3]].sum())
    (line,) = [part for part in page.split("<tr>") if ">group=rare<" in part]
    assert f">{int(truth[:, [1, 3]].sum()):,}<" in line
    assert f">{off:+,}<" in line
    for file in published.folder.iterdir():
        assert b"computed around the confidential" not in file.read_bytes()
