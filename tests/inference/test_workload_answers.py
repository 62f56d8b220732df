"""Numbers of several tables of the same records: least squares, intervals that cover, shares, what is a model."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.naming_and_versions import Naming
from congenial.errors import InferenceError
from congenial.inference.questions import parse_query
from congenial.inference.workload_answers import AnalystWorkloadBundle
from congenial.workload.estimates import Estimator
from tables_of_records import lines, release_tables


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> AnalystWorkloadBundle:
    loaded = cg.load_bundle(release_tables(tmp_path_factory.mktemp("tables")))
    assert isinstance(loaded, AnalystWorkloadBundle)
    return loaded


def truth(**labels: str) -> int:
    names = ("county", "age", "sex", "ill")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines()]
    return sum(all(row[name] == label for name, label in labels.items()) for row in rows)


def test_a_count_is_the_sum_of_the_estimates(bundle: AnalystWorkloadBundle) -> None:
    (one,) = bundle.estimate("sex=f & age in {0-17, 65+}")
    table = bundle.estimator.table(("county", "age", "sex"))
    assert one.value == pytest.approx(table[:, [0, 2], 0].sum())
    assert one.count == bundle.table("by age and sex")[:, [0, 2], 0].sum()
    assert one.low is not None
    assert one.high is not None
    assert one.value is not None
    assert one.low <= one.value <= one.high
    assert one.low == int(one.low)


def test_what_exact_numbers_determine_is_said_to_be_exact(bundle: AnalystWorkloadBundle) -> None:
    (everybody, *counties) = bundle.estimate(["all", "all by county"])
    assert everybody.is_exact
    assert everybody.value == len(lines())
    assert [one.value for one in counties] == [truth(county=name) for name in ("n", "s", "w")]
    assert all(one.is_exact and one.low == one.high == one.count for one in counties)
    assert repr(everybody) == "all: exactly 300"
    (share,) = bundle.estimate("share(county=n | all)")
    assert share.is_exact
    assert share.value == pytest.approx(truth(county="n") / 300)


def test_by_gives_a_number_for_each_label(bundle: AnalystWorkloadBundle) -> None:
    numbers = bundle.estimate("ill=flu by county")
    assert [one.query for one in numbers] == [f"ill=flu, county={name}" for name in ("n", "s", "w")]
    total = bundle.estimate("ill=flu")[0]
    assert total.value == pytest.approx(sum(one.value or 0 for one in numbers))
    joint = bundle.estimate("ill=flu by county", is_simultaneous=True)
    for alone, together in zip(numbers, joint, strict=True):
        assert together.is_simultaneous
        assert (together.high or 0) - (together.low or 0) > (alone.high or 0) - (alone.low or 0)


def test_a_weighted_sum_is_that_of_its_cells(bundle: AnalystWorkloadBundle) -> None:
    (difference,) = bundle.estimate("difference(sex=f, sex=m)")
    sum_ = bundle.linear(["sex"], [1, -1])
    assert sum_.value == pytest.approx(difference.value)
    assert sum_.standard_error == pytest.approx(difference.standard_error)
    half = bundle.linear(["sex"], [0.5, -0.5])
    assert half.high is not None
    assert half.value is not None
    assert sum_.high is not None
    assert sum_.value is not None
    assert half.high - half.value == pytest.approx((sum_.high - sum_.value) / 2)
    exact = bundle.linear(["county"], [1, 1, 0.5])
    assert exact.is_exact
    assert exact.value == truth(county="n") + truth(county="s") + truth(county="w") / 2


def test_shares_hold_all_that_is_compatible(bundle: AnalystWorkloadBundle) -> None:
    """Each end is where ``part - share whole`` leaves the reach of its own drawn errors."""
    (one,) = bundle.estimate("share(sex=f & age=0-17 | age=0-17)")
    assert one.low is not None
    assert one.high is not None
    assert one.value is not None
    assert 0 <= one.low < one.value < one.high <= 1
    for end in (one.low, one.high):
        weights = np.zeros((3, 2))
        weights[0] = 1 - end, -end
        value = bundle.linear(["age", "sex"], weights)
        assert value.low == pytest.approx(0, abs=1e-6) or value.high == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("sex=f & ill=flu", "sex and ill are together in no measured table.*--from-records"),
        ("share(ill=flu | age=0-17)", "age and ill are together in no measured table"),
        ("median(age)", "median is not answered"),
        ("sex=x", "'x'"),
        ("", "a query is text"),
        ("area=n", "'area' is not a dimension"),
    ],
)
def test_what_is_not_known_is_refused(bundle: AnalystWorkloadBundle, query: str, words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        bundle.estimate(query)


def test_a_model_has_a_count_and_no_interval(bundle: AnalystWorkloadBundle) -> None:
    (one,) = bundle.estimate("sex=f & ill=flu", from_records=True)
    records = bundle.records
    assert records is not None
    assert one.is_model
    assert one.count == ((records[:, 2] == 0) & (records[:, 3] == 1)).sum()
    assert (one.value, one.low, one.high, one.coverage) == (None, None, None, None)
    assert "model" in repr(one)
    (known,) = bundle.estimate("sex=f", from_records=True)
    assert not known.is_model


def test_levels_beyond_the_draws_are_refused(bundle: AnalystWorkloadBundle) -> None:
    with pytest.raises(InferenceError, match=r"levels up to 0\.999"):
        bundle.estimate("sex=f", level=0.9999)
    with pytest.raises(InferenceError, match="shape"):
        bundle.linear(["sex"], [1, 2, 3])
    with pytest.raises(InferenceError, match="not a dimension"):
        bundle.linear(["sexx"], [1, 2])


def test_a_frame_has_the_columns_of_the_file(bundle: AnalystWorkloadBundle) -> None:
    frame = bundle.frame("by illness")
    assert list(frame)[:3] == ["county", "ill", "count"]
    assert frame["count"] == bundle.table("by illness").reshape(-1).tolist()
    assert {len(column) for column in frame.values()} == {6}


# Coverage on random workloads, with a mutant whose intervals are too narrow.


class Drawn(NamedTuple):
    """A random workload with made-up records, planned."""

    request: cg.Workload
    records: cg.Records
    queries: tuple[str, ...]


def drawn_workload(number: int) -> Drawn:
    rng = cg.replay_rng(f"workload {number}")
    sizes = (2 + (rng.uniforms(3) * 2).astype(int)).tolist()
    schema = {name: [f"{name}{place}" for place in range(size)] for name, size in zip("abc", sizes, strict=True)}
    exact = [[], [cg.margin("a")], [cg.margin("b")], [cg.margin("a"), cg.margin("b")]][number % 4]
    budget = {"rho": "1/50", "epsilon": None} if number % 2 else {"rho": None, "epsilon": "1/5"}
    tables = {"ab": cg.margin("a", "b"), "bc": cg.margin("b", "c")}
    request = cg.Workload(schema, tables=tables, invariants=exact, rho=budget["rho"], epsilon=budget["epsilon"])
    cells = (rng.uniforms(400) ** 2 * request.schema.n_cells).astype(np.int64)
    records = cg.Records.of_cells(request.schema, cells)
    return Drawn(request, records, ("a=a0 & b=b1", "c=c0", "difference(a=a0, a=a1)", "share(c=c1 & b=b0 | b=b0)"))


class Narrow(AnalystWorkloadBundle):
    """The mutant: the half-width of a level that is lower by a quarter."""

    def _place(self, level: Fraction) -> int:
        return super()._place(level - Fraction(1, 4))


def share_covered(kind: type[AnalystWorkloadBundle], numbers: Sequence[int], n_releases: int) -> float:
    covered, asked = 0, 0
    for number in numbers:
        drawn = drawn_workload(number)
        plan = drawn.request.plan(drawn.request.disclose(drawn.records))
        counts = drawn.request.counts_of(drawn.records)
        prepared = drawn.request.prepare(drawn.records, Naming("small", "town", "Town"))
        manifest = prepared.released(None, plan.draw(counts, cg.replay_rng(0)), "2026-01-01T00:00:00Z").manifest
        bundle = kind(manifest, (), None, plan.draw(counts, cg.replay_rng(1)))
        estimator = bundle.estimator
        for release in range(n_releases):
            measured = plan.draw(counts, cg.replay_rng(f"release {number} {release}"))
            again = kind(manifest, (), None, measured)
            again.__dict__["estimator"] = kept_errors(estimator, measured)
            for query in drawn.queries:
                (one,) = again.estimate(query)
                assert one.low is not None
                assert one.high is not None
                value = confidential(drawn, query)
                covered += one.low - 1e-9 <= value <= one.high + 1e-9
                asked += 1
    return covered / asked


def kept_errors(estimator: Estimator, measured: tuple[np.ndarray, ...]) -> Estimator:
    """Return the estimator of another release with the same drawn errors: they do not depend on measurements."""
    out = replace(estimator, measured=measured)
    out.__dict__["_drawn"] = estimator._drawn
    return out


def confidential(drawn: Drawn, query: str) -> float:
    schema = drawn.request.schema
    (statistic,) = parse_query(query, schema)
    return float(statistic.values(drawn.records.margin(schema.names).reshape(1, -1))[0])


def test_intervals_cover_at_least_as_often_as_they_say() -> None:
    """Of 240 intervals at 90 %, fewer than 80 % cover with a probability below 1e-6."""
    assert share_covered(AnalystWorkloadBundle, range(4), 15) >= 0.8


def test_intervals_that_are_too_narrow_are_found_out() -> None:
    assert share_covered(Narrow, range(4), 15) < 0.8
