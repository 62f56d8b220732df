"""Comparisons: equal certified loss, honest numbers, and nothing confidential shown."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.examples import p12_mechanism, p12_schema, p12_table
from congenial.study.baselines.base_and_least_squares import without_conditions
from congenial.study.compare import METHODS, Comparison
from images import is_blank

TABLES = [
    p12_table(),
    cg.Table(p12_schema(), (np.arange(46) ** 2 // 9 % 40).reshape(2, 23)),
]


@pytest.fixture(scope="module")
def found() -> Comparison:
    return cg.compare(
        p12_mechanism(epsilon="1"),
        TABLES,
        source="simulated",
        methods=METHODS,
        n_releases=60,
        rng=cg.replay_rng("compare"),
    )


def test_every_method_spends_the_same_certified_loss(found: Comparison) -> None:
    for result in found.results:
        loss = result.certificate.loss
        assert loss is not None
        assert 0.999 < float(loss) <= 1, result.name
        assert result.spent == "epsilon 1"


@pytest.mark.parametrize(
    ("budget", "noise"),
    [
        ({"rho": "1/2"}, "double_geometric"),
        ({"rho": "1/2"}, "discrete_gaussian"),
        ({"epsilon": "2", "delta": "1e-6"}, "discrete_gaussian"),
    ],
)
def test_equal_loss_in_every_currency(budget: dict[str, Any], noise: str) -> None:
    mechanism = cg.Mechanism(
        p12_schema(), measure=[cg.cells()], invariants=p12_mechanism().invariants, noise=noise, **budget
    )
    result = cg.compare(mechanism, p12_table(), source="simulated", methods=["conditional", "raw"], n_releases=5)
    spent = {one.spent for one in result.results}
    assert len(spent) == 1
    assert next(iter(spent)).startswith("rho 0.5" if "rho" in budget else "epsilon 2 at delta 1e-06")


def test_given_precisions_are_matched_by_what_they_cost() -> None:
    mechanism = p12_mechanism("1/2")
    constraints = mechanism.disclose(p12_table())
    certificate = mechanism.plan(constraints).certificate
    plain = without_conditions(mechanism, certificate)
    precision = plain.law.queries[0].precision
    assert certificate.loss is not None
    assert float(precision) == pytest.approx(float(certificate.loss) / 2, rel=1e-12)
    assert precision <= certificate.loss / 2


def test_raw_distances_are_what_theory_says(found: Comparison) -> None:
    """Precision 1/2 a cell: E|u| = 2 a / (1 - a^2); a wrong calibration of the baselines by 5 % would show."""
    raw = next(result for result in found.results if result.name == "raw")
    base = np.exp(-0.5)
    (level,) = raw.levels
    assert level.l1.mean() == pytest.approx(46 * 2 * base / (1 - base**2), rel=0.04)
    assert abs(level.bias.mean()) < 0.15
    variance = 2 * base / (1 - base) ** 2
    assert np.sqrt((level.cells**2).mean()) == pytest.approx(np.sqrt(variance), rel=0.05)
    assert np.sqrt((level.totals**2).mean()) == pytest.approx(np.sqrt(46 * variance), rel=0.2)
    assert raw.broken > 0.9


def test_what_keeps_the_invariants_breaks_none(found: Comparison) -> None:
    broken = {result.name: result.broken for result in found.results}
    assert broken["conditional"] == broken["L2 projection"] == broken["L1 projection"] == broken["TopDown"] == 0
    assert broken["clip and rescale"] > 0.9


def test_bias_of_the_congenial_release_is_the_law_s(found: Comparison) -> None:
    result = found.results[0]
    mechanism = p12_mechanism(epsilon="1")
    for number, table in enumerate(TABLES):
        law = mechanism.law(table)
        error = np.sqrt(law.variance() / 60)
        assert np.all(np.abs(result.levels[0].bias[number] - (law.mean() - table.counts)) < 5 * error)


def test_percentiles_are_taken_over_the_cells_of_a_size(found: Comparison) -> None:
    result = found.results[2]
    truths = np.concatenate([table.counts for table in TABLES])
    bias = result.levels[0].bias.reshape(-1)
    place = found.sizes.index("3-5")
    np.testing.assert_allclose(
        found.bias_percentiles(result)[place], np.percentile(bias[(truths >= 3) & (truths <= 5)], (1, 50, 99))
    )
    assert found.sizes[0] == "0"


def test_the_tidy_frame_holds_every_number(found: Comparison, tmp_path: Path) -> None:
    found.write(tmp_path / "out")
    with (tmp_path / "out" / "comparison.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["method"] for row in rows} == {result.name for result in found.results}
    assert {row["statistic"] for row in rows} == {
        *("rms_error_of_a_cell", "rms_error_of_a_total", "mean_l1", "mean_l2"),
        *("bias_mean", "bias_p01", "bias_p50", "bias_p99", "zeros", "zeros_kept", "broken", "cpu_seconds"),
    }
    for path in (tmp_path / "out").glob("*.png"):
        assert not is_blank(path), path.name
    assert "CONFIDENTIAL" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "TopDown" in str(found)


@pytest.mark.parametrize("out", [None, "comparison", "results/confidential"])
def test_confidential_tables_are_refused_without_a_marked_folder(out: str | None, tmp_path: Path) -> None:
    folder = None if out is None else tmp_path / out
    with pytest.raises(cg.CongenialError, match="CONFIDENTIAL-comparison"):
        cg.compare(p12_mechanism(epsilon="1"), p12_table(), n_releases=5, out=folder)
    assert list(tmp_path.iterdir()) == []


def test_a_confidential_comparison_is_marked_everywhere(tmp_path: Path) -> None:
    folder = tmp_path / "CONFIDENTIAL-comparison"
    found = cg.compare(
        p12_mechanism(epsilon="1"), p12_table(), methods=["conditional", "raw"], n_releases=5, out=folder
    )
    names = sorted(path.name for path in folder.iterdir())
    assert all(name.startswith("CONFIDENTIAL-") for name in names)
    assert "Do not publish" in (folder / "CONFIDENTIAL-index.html").read_text(encoding="utf-8")
    assert "not shown" in repr(found)
    assert f"{found.results[0].levels[0].l1[0]:.2f}" not in repr(found)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": "open"}, "'open' is not known"),
        ({"methods": ["topdwn"]}, "did you mean 'topdown'"),
        ({"methods": "raw"}, "a list of"),
        ({"methods": []}, "a list of"),
        ({"methods": ["raw", "raw"]}, "one twice"),
        ({"n_releases": 1}, "from 2 on"),
        ({"n_releases": 2.5}, "from 2 on"),
        ({"tables": []}, "one or more tables"),
        ({"tables": [cg.Table(cg.Schema({"a": ["x"]}), [1])]}, "of the mechanism's schema"),
    ],
)
def test_bad_input(changes: dict[str, object], said: str) -> None:
    arguments: dict[str, object] = {"tables": p12_table(), "source": "simulated", "n_releases": 5, **changes}
    with pytest.raises(cg.CongenialError, match=said):
        cg.compare(p12_mechanism(epsilon="1"), **arguments)  # type: ignore[arg-type]


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(cg.CongenialError, match="name a new one"):
        cg.compare(
            p12_mechanism(epsilon="1"), p12_table(), source="simulated", methods=["raw"], n_releases=5, out=tmp_path
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
