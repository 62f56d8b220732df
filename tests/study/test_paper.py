"""The paper's numbers, each checked against something that does not come from the code that made it."""

import csv
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.noise import Laplace
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study.baselines.base_and_least_squares import Problem
from congenial.study.baselines.projection import L2Projection
from congenial.study.paper import reproduce as whole
from congenial.study.paper import sections_and_appendices as section4
from congenial.study.paper.exhibits_table_1_and_figures import (
    CHAIN,
    EXACT,
    PROJECTED,
    RAW_1,
    RAW_HALF,
    acceptance_rates,
    distances,
    figure_2,
    figure_3,
    law_of_a_cell,
    negative_binomial,
    simulated_tables,
    table_1,
    trace_columns,
)
from congenial.study.paper.reproduce import read_p12_tables, reproduce
from congenial.study.paper.sections_and_appendices import (
    COUNTS,
    EPSILON,
    appendix_b,
    density_columns,
    p12,
    rounding,
    simulated,
    table_2,
    trivial,
    two_bins,
)
from images import is_blank


def test_simulated_cells_have_the_printed_moments() -> None:
    cells = negative_binomial(400_000, cg.replay_rng("negative binomial"))
    assert cells.mean() == pytest.approx(5.263, abs=0.02)  # standard error 0.004
    assert cells.var() == pytest.approx(5.540, abs=0.07)  # standard error 0.013


def test_figure_1_has_the_ordering_that_gm_describe() -> None:
    """Conditional 1/2 between raw 1/2 and raw 1, projection of raw 1 on par; raw distances as theory has them."""
    found = distances(simulated_tables(6, cg.replay_rng("figure 1 tables")), 60, cg.replay_rng("figure 1"))
    for values in (found.l1, found.l2):
        for table in range(6):
            assert values[RAW_1][table] < values[EXACT][table] < values[RAW_HALF][table]
            assert values[RAW_1][table] < values[CHAIN][table] < values[RAW_HALF][table]
        assert values[PROJECTED].mean() == pytest.approx(values[RAW_1].mean(), rel=0.12)
        assert values[CHAIN].mean() == pytest.approx(values[EXACT].mean(), rel=0.05)
    for method, precision in ((RAW_1, 1.0), (RAW_HALF, 0.5)):
        base = np.exp(-precision)
        assert found.l1[method].mean() == pytest.approx(46 * 2 * base / (1 - base**2), rel=0.03)
    columns = found.columns()
    assert len(columns["l1"]) == 5 * 6


def test_two_bin_variances_are_within_one_percent() -> None:
    columns = simulated(4_000_000, cg.replay_rng("table 2"))
    np.testing.assert_allclose(columns["simulated_variance"], columns["variance"], rtol=0.01)
    np.testing.assert_allclose(columns["simulated_mean"], COUNTS[0], atol=0.02)
    units = np.array(columns["variance"]) * float(EPSILON) ** 2
    assert units[:2].tolist() == [2, 4]
    np.testing.assert_allclose(units[2:], [8 * (b**2 + (1 - b) ** 2) for b in (0.5, 0.625, 0.75, 0.875, 1)])
    # The mutant: noise that is not conditioned on the total is four times as variable.
    plain = Laplace(EPSILON / 2).sample(1_000_000, cg.replay_rng("not conditioned"))
    assert abs(plain.var() / columns["variance"][0] - 1) > 2


def test_densities_integrate_to_one_and_have_their_variance() -> None:
    columns = density_columns()
    u = np.array(columns["u"])
    for name, values in columns.items():
        if name != "u":
            inside = np.trapezoid(values, u)
            assert 0.94 < inside < 1.0, name  # the rest lies beyond 12
            assert np.allclose(values, values[::-1])


def test_equilibrium_acceptance_is_the_enumerated_one() -> None:
    """By brute force on a small law: sum over states and proposals of p(x) q(y) min(1, w(y) / w(x))."""
    schema = cg.Schema({"c": ["a", "b", "c"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    law = mechanism.law(cg.Table(schema, [1, 3, 2]))
    listed = law.enumerated
    noise = cg.noise.DoubleGeometric("3/4")
    centre = law.target.centre
    q = np.prod([noise.pmf(listed.tables[:, cell] - centre[cell]) for cell in (0, 1)], axis=0)
    p = np.array([float(chance) for chance in listed.probabilities])
    exactly = sum(p[x] * q[y] * min(1, (p[y] / q[y]) / (p[x] / q[x])) for x in range(len(p)) for y in range(len(p)))
    rng = cg.replay_rng("equilibrium acceptance")
    rate = independence.equilibrium_acceptance(
        law.target, law.sample(100_000, rng), 200_000, rng, proposal_precision="3/4", index_set=(0, 1)
    )
    assert rate.acceptance == pytest.approx(exactly, abs=6 * rate.standard_error + 0.002)
    assert rate.standard_error < 0.002


def test_figure_2_peaks_where_gm_find_it() -> None:
    columns = acceptance_rates(cg.replay_rng("figure 2"), n_iterations=2_000, n_proposals=20_000)
    scales, expected = np.array(columns["proposal_precision"]), np.array(columns["expected"])
    assert scales[expected.argmax()] in {0.6, 0.65, 0.7}
    assert expected[scales == 0.6][0] == pytest.approx(0.0151, abs=0.002)  # GM print 0.0168
    assert expected[0] < 1e-3
    assert expected[-1] < 3e-3


def test_figure_3_counts_the_moves_it_shows() -> None:
    columns, moves = trace_columns(cg.replay_rng("figure 3"), n_draws=5_000)
    chain = np.column_stack([columns["cell_2_chain"], columns["cell_1_chain"]])
    seen = int((np.diff(chain, axis=0) != 0).any(axis=1).sum())
    assert 0 < seen <= moves < 250  # a move may leave both cells as they are
    assert len(set(columns["cell_1_exact"])) > 10


def test_projection_in_sixths_is_the_projection() -> None:
    schema = cg.Schema({"cell": ["first", "second", "third"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    problem = Problem.of(mechanism, mechanism.disclose(cg.Table(schema, [4, 0, 0])))
    answers = cg.noise.DoubleGeometric("1/5").sample(600, cg.replay_rng("sixths")).reshape(200, 3)
    ours = section4.projected(answers, 4) / 6
    theirs = np.stack([L2Projection().repair(problem, line.astype(np.float64)) for line in answers])
    np.testing.assert_allclose(ours, theirs, atol=1e-8)


def test_section_4_shows_where_post_processing_is_free() -> None:
    found = section4.worst_ratios()
    assert 0.9 < found["projected, same total"] <= 1
    schema = cg.Schema({"cell": ["first", "second", "third"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    certified = mechanism.plan(mechanism.disclose(cg.Table(schema, [4, 0, 0]))).certificate.loss
    assert certified is not None
    assert found["conditional, same total"] <= float(certified)
    assert found["conditional, same total"] == pytest.approx(float(certified), abs=1e-6)
    assert found["projected, other total"] == found["conditional, other total"] == np.inf
    assert found["projected, other total, first cell only"] > 2 * found["raw, other total, first cell only"]


def test_noise_left_out_of_section_4_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = section4.worst_ratios(2)
    monkeypatch.setattr(section4, "_REACH", 45)
    narrow = section4.worst_ratios(2)
    assert wide == pytest.approx(narrow, abs=1e-8)


def test_gammas() -> None:
    assert trivial().gamma == 0
    assert rounding().gamma == -1
    assert two_bins().gamma == 0
    assert float(p12().gamma) == pytest.approx(0.489880, abs=1e-6)


def test_the_printed_quantile_is_off_at_values_of_the_cdf() -> None:
    assert appendix_b().findings[0].computed == 20


def test_table_1_and_the_law_of_a_cell() -> None:
    exhibit = table_1(cg.replay_rng("table 1"), n_draws=2_000)
    assert all(one.difference == 0 for one in exhibit.findings if one.printed is not None)
    columns = law_of_a_cell()
    conditional = np.array(columns["conditional"])
    assert conditional[np.array(columns["count"]) < 0].max() == 0
    assert conditional.sum() == pytest.approx(1, abs=2e-3)
    draws = cg.examples.p12_mechanism().law(cg.examples.p12_table()).sample(100_000, cg.replay_rng("one cell"))
    assert (draws[:, 12] == 0).mean() == pytest.approx(conditional[columns["count"].index(0)], abs=0.008)


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper") / "out"
    given = folder.parent / "given.csv"
    names = [f"{sex}_{age:02}" for sex in "mf" for age in range(23)]
    counts = negative_binomial(2 * 46, cg.replay_rng("given")).reshape(2, 46)
    lines = [
        ",".join(["name", *names]),
        *(",".join(["x, y", *map(str, row)]).replace("x, y", '"x, y"') for row in counts),
    ]
    given.write_text("\n".join(lines), encoding="utf-8")
    few = {
        "N_TABLES": 3,
        "table_1": partial(table_1, n_draws=5_000),
        "table_2": partial(table_2, n_draws=50_000),
        "figure_2": partial(figure_2, n_iterations=2_000, n_proposals=2_000),
        "figure_3": partial(figure_3, n_draws=1_000),
    }  # the numbers themselves are looked at above
    with pytest.MonkeyPatch.context() as patch:
        for name, part in few.items():
            patch.setattr(whole, name, part)
        run = CliRunner().invoke(main, ["reproduce", "--out", str(folder), "--tables", str(given)])
    assert run.exit_code == 0, run.output
    assert "index.html" in run.output
    return folder


def test_the_folder_is_complete(paper: Path) -> None:
    page = (paper / "index.html").read_text(encoding="utf-8")
    for link in re.findall(r'href="([^"#:]+)"', page):
        assert (paper / link).is_file(), link
    figures = sorted(path.stem for path in paper.glob("*.png"))
    assert figures == ["appendix-a", "figure-1", "figure-1-given", "figure-2", "figure-3", "law-of-a-cell"]
    with (paper / "numbers.csv").open(encoding="utf-8") as lines:
        numbers = list(csv.DictReader(lines))
    assert len(numbers) > 60
    assert {row["where"] for row in numbers} >= {
        "Table 1",
        "Table 2",
        "section 4",
        "figure 1",
        "Appendix A",
        "Appendix C",
    }
    for harmless in ("https://doi.org/", "http://www.w3.org/", "http-equiv="):
        page = page.replace(harmless, "")
    assert "http" not in page  # works offline


def test_no_image_is_blank(paper: Path) -> None:
    for path in paper.glob("*.png"):
        assert not is_blank(path), path.name


def test_bad_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "keep.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(cg.CongenialError, match="not empty"):
        reproduce(tmp_path / "full")
    with pytest.raises(cg.CongenialError, match="is a file"):
        reproduce(tmp_path / "full" / "keep.txt")
    wrong = tmp_path / "wrong.csv"
    for text, said in (
        ("", "23 of each"),
        ("a,b\n1,2\n", "23 of each"),
        (",".join(f"{s}_{i:02}" for s in "fm" for i in range(23)) + "\n", "no table"),
        (",".join(f"{s}_{i:02}" for s in "fm" for i in range(23)) + "\n" + ",".join(["x"] * 46), "line 2"),
        (",".join(f"{s}_{i:02}" for s in "fm" for i in range(23)) + "\n1,2", "line 2"),
    ):
        wrong.write_text(text, encoding="utf-8")
        with pytest.raises(cg.CongenialError, match=said):
            reproduce(tmp_path / "new", tables=wrong)
        assert not (tmp_path / "new").exists()
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(cg.CongenialError, match="cannot be read"):
            read_p12_tables(path)
    run = CliRunner().invoke(main, ["reproduce", "--out", str(tmp_path / "full")])
    assert run.exit_code == 1
    assert run.stdout == ""
    assert "not empty" in run.stderr
