"""Several tables together, each by itself, and as sums of one table: errors, and whether they agree."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import congenial as cg
from congenial.errors import StudyError
from congenial.study.compare_workload import APART, HISTOGRAM, TOGETHER, WAYS, compare_workload


def request(**more: object) -> cg.Workload:
    schema = {"county": ["n", "s", "w"], "sex": ["f", "m"], "ill": ["no", "flu"]}
    tables = {"by sex": cg.margin("county", "sex"), "by illness": cg.margin("county", "ill")}
    options = {"tables": tables, "invariants": [cg.margin("county")], "rho": "1/8"} | more
    return cg.Workload(schema, **options)  # type: ignore[arg-type]


def records(workload: cg.Workload) -> cg.Records:
    cells = (cg.replay_rng(1).uniforms(600) ** 2 * workload.schema.n_cells).astype(np.int64)
    return cg.Records.of_cells(workload.schema, cells)


def test_every_way_has_its_errors(tmp_path: Path) -> None:
    workload = request(invariants=[])
    result = compare_workload(
        workload, records(workload), source="public", n_releases=3, rng=cg.replay_rng(2), out=tmp_path / "out"
    )
    assert tuple(way.name for way in result.results) == WAYS
    by_name = {way.name: way for way in result.results}
    assert not by_name[TOGETHER].disagreement.any()
    assert by_name[APART].disagreement.any()  # of how many are in a county
    assert not by_name[HISTOGRAM].disagreement.any()
    assert "agree" in str(result)
    assert len(result.summary["table"]) == 6
    assert (tmp_path / "out" / "comparison.csv").read_text(encoding="utf-8").count("\n") == 7


def test_exact_numbers_hold_in_every_way() -> None:
    workload = request()
    result = compare_workload(workload, records(workload), source="simulated", n_releases=2, rng=cg.replay_rng(3))
    assert not any(way.disagreement.any() for way in result.results)  # of counties, which are all that tables share


def test_a_histogram_that_is_too_large_is_left_out() -> None:
    names = "abcdefg"
    tables = {f"{one}{other}": cg.margin(one, other) for one, other in pairwise(names)}
    workload = cg.Workload({name: ["p", "q", "r", "s"] for name in names}, tables=tables, rho="1")
    result = compare_workload(workload, records(workload), source="public", n_releases=2, rng=cg.replay_rng(4))
    assert "16,384 cells, more than 10,000" in result.left_out[HISTOGRAM]


def test_what_cannot_be_compared_is_refused() -> None:
    workload = request()
    with pytest.raises(StudyError, match="public or simulated"):
        compare_workload(workload, records(workload), source="confidential")
    with pytest.raises(StudyError, match="from 2 on"):
        compare_workload(workload, records(workload), source="public", n_releases=1)
