"""The coverage study: intervals cover as they claim where they claim it, and the study can see when they do not."""

from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats
from congenial.study import coverage
from congenial.study.baselines.base_and_least_squares import Problem
from congenial.study.coverage import (
    GLS,
    METHODS,
    NAIVE,
    POSTERIOR,
    PRIOR_FREE,
    coverage_study,
    generalised_least_squares,
)

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})
TABLES = [cg.Table(SCHEMA, counts) for counts in ([[0, 3, 9], [1, 0, 22]], [[5, 5, 5], [0, 0, 1]])]


def mechanism(**budget: Any) -> cg.Mechanism:
    measure = [cg.cells(zeros="unweighted")]  # the law for which intervals without a prior are proven
    return cg.Mechanism(SCHEMA, measure=measure, invariants=[cg.margin("sex")], **budget)


@pytest.fixture(scope="module")
def found() -> coverage.Coverage:
    return coverage_study(
        mechanism(epsilon="1"), TABLES, source="simulated", levels=(0.5, 0.9), n_releases=60, n_draws=400,
        rng=cg.replay_rng("coverage"),
    )  # fmt: skip


def lines(found: coverage.Coverage, method: str, level: float) -> list[tuple[str, int, float, float]]:
    rows = zip(*found.columns.values(), strict=True)
    return [(size, n, share, width) for name, at, size, n, share, width in rows if (name, at) == (method, level)]


def test_all_methods_are_there_and_cells_are_counted(found: coverage.Coverage) -> None:
    assert set(found.columns["method"]) == set(METHODS)
    assert found.unavailable == {}
    for method in METHODS:
        own = lines(found, method, 0.9)
        assert own[-1][0] == "all"
        assert own[-1][1] == 2 * 60 * 6 == sum(n for _, n, _, _ in own[:-1])


def test_prior_free_intervals_cover_in_every_row(found: coverage.Coverage) -> None:
    for level in (0.5, 0.9):
        for size, n, share, _ in lines(found, PRIOR_FREE, level):
            assert share >= level - 4 * np.sqrt(level * (1 - level) / n), size


def test_wider_levels_are_wider(found: coverage.Coverage) -> None:
    for method in METHODS:
        assert lines(found, method, 0.5)[-1][3] < lines(found, method, 0.9)[-1][3]
    assert lines(found, POSTERIOR, 0.9)[-1][2] > 0.85


def test_the_study_sees_intervals_that_are_too_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: naive intervals of a third of their width."""
    honest = coverage.naive

    def narrow(problem: Problem, repaired: Floats, level: float) -> coverage.Ends:
        low, high = honest(problem, repaired, level)
        return repaired - (repaired - low) / 3, repaired + (high - repaired) / 3

    monkeypatch.setattr(coverage, "naive", narrow)
    found = coverage_study(
        mechanism(epsilon="1"),
        TABLES,
        source="simulated",
        levels=(0.9,),
        n_releases=40,
        n_draws=100,
        rng=cg.replay_rng("narrow"),
    )
    assert lines(found, NAIVE, 0.9)[-1][2] < 0.8
    assert lines(found, GLS, 0.9)[-1][2] > 0.75


def test_least_squares_uses_the_equalities() -> None:
    """Compared with the projection formula: x - A'(AA')^-1 (Ax - a) for equal noise, before ends are rounded inward."""
    plain = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/50")], invariants=[cg.margin("sex")])
    problem = Problem.of(plain, plain.disclose(TABLES[0]))
    noisy = np.array([100.0, 200, 300, 400, 500, 600])
    low, high = generalised_least_squares(problem, noisy, 0.5)
    excess = np.repeat([(600 - 12) / 3, (1500 - 23) / 3], 3)
    deviation = float(problem.variances[0]) ** 0.5 * np.sqrt(2 / 3)
    np.testing.assert_allclose((low + high)[noisy - excess > 60] / 2, (noisy - excess)[noisy - excess > 60], atol=1)
    wide = noisy - excess > 60
    np.testing.assert_allclose((high - low)[wide], 2 * 0.67449 * deviation, atol=2.1)


def test_overlapping_sums_have_no_prior_free_interval_and_it_is_said() -> None:
    both = cg.Mechanism(SCHEMA, measure=[cg.cells()], invariants=[cg.margin("sex"), cg.margin("age")], epsilon="1")
    found = coverage_study(
        both, TABLES[:1], source="simulated", levels=(0.9,), n_releases=1, n_draws=100, rng=cg.replay_rng(1)
    )
    assert "overlap" in found.unavailable[PRIOR_FREE]
    assert PRIOR_FREE not in found.columns["method"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"source": "confidential"}, "public or simulated"),
        ({"levels": (1.5,)}, "between 0 and 1"),
        ({"n_releases": 0}, "from 1 on"),
        ({"tables": []}, "at least one table"),
    ],
)
def test_bad_input(changes: dict[str, object], said: str) -> None:
    arguments: dict[str, object] = {"tables": TABLES, "source": "simulated", **changes}
    with pytest.raises(cg.CongenialError, match=said):
        coverage_study(mechanism(epsilon="1"), **arguments)  # type: ignore[arg-type]
