"""The study of questions: coverage and errors, on tables for which they are known."""

from typing import Literal

import numpy as np
import pytest
from scipy.stats import contingency

import congenial as cg
from congenial.study.coverage import answer_study, chi_square

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
QUESTIONS = {"young": "age=0", "women": "sex=f", "young women": "sex=f & age=0"}


def tables_alike(n: int) -> list[cg.Table]:
    """Draw tables with 8 women and 6 men, all of them equally likely: what the flat prior expects."""
    rng = cg.replay_rng("tables for a study")
    young = np.stack([rng.below(np.full(n, 9)), rng.below(np.full(n, 7))], axis=1)
    return [cg.Table(SCHEMA, [[f, 8 - f], [m, 6 - m]]) for f, m in young.tolist()]


def studied(prior: str, method: Literal["conditional", "measured"] = "conditional") -> dict[str, dict[str, float]]:
    measure, invariants = [cg.cells(precision="1/3")], [cg.margin("sex")]
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=invariants, method=method)
    rng = cg.replay_rng("releases for a study")
    found = answer_study(mechanism, tables_alike(30), QUESTIONS, source="simulated", prior=prior, n_releases=2, rng=rng)
    names, *columns = found.columns.values()
    return {
        str(name): dict(zip(list(found.columns)[1:], figures, strict=True))
        for name, *figures in zip(names, *columns, strict=True)
    }


def test_right_prior_covers_and_comes_nearer_than_the_release() -> None:
    """Under the prior that the tables come from, intervals cover and the mean is nearest; under another it is not."""
    found = studied("flat")
    for name in ("young", "young women"):
        row = found[name]
        assert row["coverage"] > 0.9 - 4 * row["standard_error"]
        assert row["error_mean"] < min(row["error_median"], row["error_released"])
    assert found["women"] == {
        "n": 60, "coverage": 1, "standard_error": 0, "error_law_coverage": 1, "mean_width": 0,
        "error_released": 0, "error_mean": 0, "error_median": 0,
    }  # fmt: skip
    mutant = studied("independence")  # what the tables do not have
    assert mutant["young women"]["error_mean"] > found["young women"]["error_mean"]


def test_measured_releases_are_answered_from_their_measurements() -> None:
    """Under the prior that the tables come from, intervals cover; a decided table has no law of its error."""
    found = studied("flat", "measured")
    for name in ("young", "young women"):
        row = found[name]
        assert row["coverage"] > 0.9 - 4 * row["standard_error"]
        assert row["error_mean"] < row["error_released"]
        assert np.isnan(row["error_law_coverage"])
    mutant = studied("independence", "measured")
    assert mutant["young women"]["error_mean"] > found["young women"]["error_mean"]


def test_chi_square_is_the_textbooks() -> None:
    table = np.array([[3, 9], [8, 2]])
    expected = contingency.expected_freq(table)
    assert chi_square(SCHEMA)(table.reshape(1, -1))[0] == pytest.approx(((table - expected) ** 2 / expected).sum())


def test_confidential_tables_are_no_study() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    with pytest.raises(cg.CongenialError, match="public or simulated"):
        answer_study(mechanism, tables_alike(1), QUESTIONS, source="confidential")
