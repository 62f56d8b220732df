"""Every kind of statistic keeps the contract of the registry, and so does one that the library does not know."""

from pathlib import Path

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats
from congenial.errors import InferenceError
from congenial.inference.ask_and_answers import Answer, plot_answers
from congenial.inference.error_intervals import error_intervals
from congenial.inference.frequentist import confidence
from congenial.inference.posterior import posterior
from congenial.inference.questions import parse_query
from congenial.inference.statistics_registry import STATISTICS, StatisticKind, ones, quotient
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]})
TABLE = cg.Table(SCHEMA, [[2, 1], [1, 3]])


def _surplus(counts: Floats) -> Floats:
    return quotient(counts[:, 0] - counts[:, 1], counts[:, 0] + counts[:, 1])


SURPLUS = StatisticKind(
    name="surplus",
    form="surplus(one / other)",
    separator="/",
    unit="surplus",
    counts=lambda arguments: [ones(cells) for cells in arguments.sets],
    values=_surplus,
    minimum=-1.0,
    is_scaled_count=False,
)
"""The toy: how many more there are of one than of the other, in proportion to both."""

EXAMPLES = {
    "count": "sex=f",
    "share": "share(age=18+ | sex=f)",
    "ratio": "ratio(sex=f / sex=m)",
    "difference": "difference(sex=f, age=18+)",
    "odds_ratio": "odds_ratio(sex=f, age=18+)",
    "median": "median(age | sex=f)",
    "surplus": "surplus(sex=f / sex=m)",
}


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATISTICS, "surplus", SURPLUS)


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) == set(STATISTICS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_keeps_the_contract(kind: str) -> None:
    (statistic,) = parse_query(EXAMPLES[kind], SCHEMA)
    definition = STATISTICS[kind]
    assert (statistic.kind, statistic.definition) == (kind, definition)
    assert bool(statistic.labels) == definition.takes_dimension
    tables = np.array([TABLE.counts, [0, 0, 0, 0], [9, 0, 1, 0], [0, 4, 0, 7]])
    values = statistic.values(tables)
    assert values.shape == (4,)
    assert (values[~np.isnan(values)] >= definition.minimum).all()
    np.testing.assert_array_equal(values, [statistic.values(table[None, :])[0] for table in tables])
    if definition.is_scaled_count:  # intervals by the error's law rest on this
        above, *below = (row.value(TABLE.counts.tolist()) for row in statistic.rows)
        assert values[0] == above / (below[0] if below else 1)
        assert statistic.is_linear == (statistic.below is None)
    if definition.n_nonempty:
        nobody = "sex=f & sex=m"
        query = {"count": nobody, "median": f"median(age | {nobody})"}.get(
            kind, f"{kind}({nobody} {definition.separator} {nobody})"
        )
        with pytest.raises(InferenceError, match=definition.refusal.split(":")[0]):
            parse_query(query, SCHEMA)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_is_answered(kind: str, tmp_path: Path) -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    law = law_of(mechanism, TABLE)
    found = posterior(law, None, TABLE.counts, prior="flat")
    estimate = found.interval(EXAMPLES[kind])
    assert estimate.kind == kind
    assert STATISTICS[kind].minimum <= estimate.low <= estimate.centre <= estimate.high
    statistics = parse_query(EXAMPLES[kind], SCHEMA)
    (by_error,) = error_intervals(found, statistics, 0.9, cg.replay_rng("statistics"))
    without = confidence(law, None, TABLE.counts, statistics[0])
    has_error_law = statistics[0].is_linear  # the divisors of these examples are not published
    assert by_error.is_available == has_error_law
    assert has_error_law or not without.is_available  # of some differences no bound is proven
    plot_answers(tmp_path / "picture.svg", [Answer(None, estimate, without, by_error)])
    assert (tmp_path / "picture.svg").stat().st_size > 1_000


def test_the_toy_has_its_values_and_its_place_in_messages() -> None:
    (surplus,) = parse_query(EXAMPLES["surplus"], SCHEMA)
    assert surplus.values(TABLE.counts[None, :]).tolist() == [(3 - 4) / 7]
    with pytest.raises(InferenceError, match=r"surplus\(one / other\).*did you mean 'surplus'"):
        parse_query("surplu(sex=f / sex=m)", SCHEMA)
    with pytest.raises(InferenceError, match="'/' is expected here, as in surplus"):
        parse_query("surplus(sex=f, sex=m)", SCHEMA)
