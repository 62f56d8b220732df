"""Measured releases in comparisons: equal certified loss, metrics that are what they say, all of them printed."""

import csv
import shutil
from math import isnan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.curator.pipeline import example_files
from congenial.examples import p12_mechanism, p12_schema, p12_table
from congenial.privacy.certificate import Certificate
from congenial.study.compare import UNRECORDED_USE, Comparison
from congenial.study.equal_loss import by_method
from congenial.study.metrics import LESS, MORE, NEAR_ZERO, LevelTally, Metric, root_mean_square_bias

TABLES = [p12_table(), cg.Table(p12_schema(), (np.arange(46) ** 2 // 9 % 40).reshape(2, 23))]
OURS = ["conditional", "measured", "measurements", "topdown"]


def mechanism_of(method: str, **budget: Any) -> cg.Mechanism:
    invariants = p12_mechanism().invariants
    return cg.Mechanism(p12_schema(), measure=[cg.cells()], invariants=invariants, method=method, **budget)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    mechanism, rng = mechanism_of("measured", epsilon="1"), cg.replay_rng("measured comparison")
    return cg.compare(mechanism, TABLES, source="simulated", methods=OURS, n_releases=100, rng=rng)


def metric_of(comparison: Comparison, method: str, name: str) -> Metric:
    result = next(result for result in comparison.results if result.name == method)
    return next(metric for metric in result.levels[0].metrics if metric.name.startswith(name))


# Equal loss.

BUDGETS: list[dict[str, Any]] = [
    {"epsilon": "1"},
    {"rho": "1/2", "noise": "discrete_gaussian"},
    {"rho": "1/2", "noise": "double_geometric"},
]


def cost(certificate: Certificate) -> float:
    value = certificate.rho if certificate.loss is None else certificate.loss
    assert value is not None
    return float(value)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("method", ["conditional", "measured"])
def test_both_methods_spend_the_same(method: str, budget: dict[str, Any]) -> None:
    found = cg.compare(
        mechanism_of(method, **budget),
        p12_table(),
        source="simulated",
        methods=["conditional", "measured", "raw"],
        n_releases=2,
        rng=cg.replay_rng("equal loss"),
    )
    assert len({result.spent for result in found.results}) == 1
    assert found.results[1].certificate.kind.startswith("measured")
    assert not found.results[0].certificate.kind.startswith("measured")
    if "epsilon" in budget:
        losses = [cost(result.certificate) for result in found.results]
        assert max(losses) - min(losses) < 1e-4 * max(losses)


def test_precisions_are_turned_into_what_they_cost() -> None:
    """Precisions of a conditional release buy a measured one more precision; of a measured one, the other way round."""
    stated = p12_mechanism("1/2")
    certificate = stated.certificate(stated.disclose(p12_table()))
    measured = by_method(stated, certificate, "measured")
    law = measured.calibrate(measured.disclose(p12_table()))
    assert certificate.loss is not None
    assert law.queries[0].precision == certificate.loss / 2
    back = by_method(measured, measured.certificate(measured.disclose(p12_table())), "conditional")
    again = back.certificate(back.disclose(p12_table()))
    assert again.loss is not None
    assert 0.999 * float(certificate.loss) < float(again.loss) <= float(certificate.loss)


def test_weights_of_zeros_are_left_out_of_the_measured_method() -> None:
    invariants = p12_mechanism().invariants
    weighted = cg.Mechanism(p12_schema(), measure=[cg.cells(precision="1/2", zeros="3/2")], invariants=invariants)
    found = cg.compare(weighted, p12_table(), source="simulated", methods=["measured"], n_releases=2)
    assert found.results[0].broken == 0


# What comes out.


def test_tables_keep_every_condition_and_measurements_the_exact_numbers(compared: Comparison) -> None:
    broken = {result.name: result.broken for result in compared.results}
    assert (broken["conditional"], broken["measured"], broken["TopDown"]) == (0, 0, 0)
    assert broken["measurements"] > 0.5, "negative numbers are among them"
    for name in ("margin of sex", "total of a unit"):
        assert metric_of(compared, "measurements", name).value == 0


def test_measurements_are_unbiased_and_tables_are_nearer(compared: Comparison) -> None:
    for metric in compared.results[2].levels[0].metrics:
        if metric.better == NEAR_ZERO:
            assert abs(metric.value) < 5 * metric.standard_error, metric.name
    assert metric_of(compared, "measured", "L1").value < metric_of(compared, "measurements", "L1").value
    assert metric_of(compared, "conditional", "L1").is_worse_than(metric_of(compared, "measured", "L1"))
    assert metric_of(compared, "measured", "bias of cells of 0").value > 0.2


def test_all_metrics_are_printed_with_errors(compared: Comparison, tmp_path: Path) -> None:
    text, names = str(compared), [metric.name for metric in compared.results[0].levels[0].metrics]
    assert all(f"\n{name} " in text for name in names)
    expected = ("L1", "root mean", "margin of sex", "margin of age", "total of a unit", "a cell over 2", "true zeros")
    assert all(any(name.startswith(start) for name in names) for start in expected)
    assert any(name.startswith("bias of cells of 21-50") for name in names)
    for result in compared.results:
        assert all(not isnan(metric.standard_error) for metric in result.levels[0].metrics)
        assert result.levels[0].metrics[0].text in text
    assert "measured is worse than TopDown by more than two standard errors in: " in text
    compared.write(tmp_path / "out")
    with (tmp_path / "out" / "metrics.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(OURS) * len(names)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "measured is worse than conditional" in page
    assert UNRECORDED_USE not in page


def test_where_a_method_loses_is_said(compared: Comparison) -> None:
    """Every metric is looked at: a method that is worse on purpose is worse in each one that can tell."""
    assert "L1 of a unit" in compared.worse("conditional", "measured")
    assert "true zeros kept, share" in compared.worse("measurements", "measured")
    assert compared.worse("measured", "measured") == ()


# Metrics by hand.


def test_metrics_are_those_of_the_releases() -> None:
    schema, rng = cg.Schema({"sex": ["f", "m"], "age": ["a", "b", "c"]}), cg.replay_rng("metrics")
    truth = rng.below(np.full((4, 6), 5))
    releases = truth + rng.below(np.full((7, 4, 6), 5)) - 2
    tally = LevelTally(truth, 7, schema)
    tally.add(releases[:3], slice(None))
    tally.add(releases[3:], slice(None), 3)
    gap = (releases - truth).astype(float)
    shaped = gap.reshape(7, 4, 2, 3)
    metrics = {metric.name: metric for metric in tally.result.metrics}
    by_release = {
        "L1 of a unit": np.abs(gap).sum(axis=2).mean(axis=1),
        "margin of sex": np.abs(shaped.sum(axis=3)).mean(axis=(1, 2)),
        "margin of age": np.abs(shaped.sum(axis=2)).mean(axis=(1, 2)),
        "total of a unit": np.abs(gap.sum(axis=2)).mean(axis=1),
        "a cell over 4 units, error": np.abs(gap.sum(axis=1)).mean(axis=1),
        "true zeros kept, share": (releases[:, truth == 0] == 0).mean(axis=1),
        f"bias of cells of 0 ({(truth == 0).sum()})": gap[:, truth == 0].mean(axis=1),
        f"bias of cells of 3-5 ({(truth >= 3).sum()})": gap[:, truth >= 3].mean(axis=1),
    }
    for name, values in by_release.items():
        assert metrics[name].value == pytest.approx(values.mean()), name
        assert metrics[name].standard_error == pytest.approx(values.std(ddof=1) / sqrt(7)), name
    assert metrics["root mean square of a cell"].value == pytest.approx(sqrt((gap**2).mean()))
    better = {metric.name.split(" (")[0]: metric.better for metric in tally.result.metrics}
    assert (better["L1 of a unit"], better["true zeros kept, share"]) == (LESS, MORE)
    assert better["bias of cells of 0"] == NEAR_ZERO


@pytest.mark.parametrize("bias", [0.0, 0.5, 3.0])
def test_the_size_of_a_bias_is_without_the_noise(bias: float) -> None:
    """The mutant, the root mean square of plain means, is too large by the noise that is left in them."""
    words = cg.replay_rng(f"bias {bias}").uniforms(40 * 500).reshape(40, 500)
    gaps = bias + 6 * (words - 0.5)
    size, error = root_mean_square_bias(gaps)
    assert abs(size - bias) < 5 * error
    plain = float(np.sqrt((gaps.mean(axis=0) ** 2).mean()))
    assert plain > size
    if bias == 0:
        assert plain > 5 * error


# Confidential data: first of all, that to choose by it is a use of them.


@pytest.fixture
def confidential(tmp_path: Path) -> Path:
    for name in ("spec.yaml", "counts.csv"):
        shutil.copyfile(example_files() / name, tmp_path / name)
    spec = tmp_path / "spec.yaml"
    text = spec.read_text(encoding="utf-8")
    assert "status: simulated" in text
    spec.write_text(text.replace("status: simulated", "status: confidential"), encoding="utf-8")
    return spec


def test_a_use_that_no_ledger_knows_is_named_first(confidential: Path, tmp_path: Path) -> None:
    assert "no ledger knows" in UNRECORDED_USE
    marked = tmp_path / "CONFIDENTIAL-comparison"
    arguments = ["compare", str(confidential), "--releases", "3", "--method", "measured", "--method", "raw"]
    run = CliRunner().invoke(main, [*arguments, "--out", str(marked)])
    assert run.exit_code == 0, run.output
    assert run.stderr.splitlines()[0] == UNRECORDED_USE
    page = (marked / "CONFIDENTIAL-index.html").read_text(encoding="utf-8")
    assert UNRECORDED_USE in page
    assert page.index(UNRECORDED_USE) < page.index("<h1>") < page.index("measured")
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[0] == UNRECORDED_USE


def test_a_confidential_comparison_begins_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "CONFIDENTIAL-comparison"
    found = cg.compare(mechanism_of("measured", epsilon="1"), p12_table(), methods=OURS[1:3], n_releases=3, out=folder)
    assert repr(found).startswith(UNRECORDED_USE)
    assert all(path.name.startswith("CONFIDENTIAL-") for path in folder.iterdir())
