"""Intervals without a prior: the error bound against brute force, coverage for every table, and when there is none."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import nbinom

import congenial as cg
from congenial.conditions.areas import Areas
from congenial.conditions.queries import Condition
from congenial.inference.frequentist import ErrorBound, confidence, reaches
from congenial.inference.question import Statistic, parse_query
from congenial.public_law import MeasuredQuery, PublicLaw
from published import law_of


def all_tables(n_cells: int, total: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([t for t in product(range(total + 1), repeat=n_cells) if sum(t) == total])


def worst_excess(n_cells: int, total: int, base: float, n_inside: int, fewer: int = 0) -> float:
    """Return the largest ratio of a true tail to its bound, over all tables; `fewer` weakens the bound by cells."""
    tables = all_tables(n_cells, total)
    weights = base ** np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2)
    laws = weights / weights.sum(axis=1, keepdims=True)
    gaps = tables[:, :n_inside].sum(axis=1)[None, :] - tables[:, :n_inside].sum(axis=1)[:, None]
    n_outside = n_cells - n_inside
    worst = 0.0
    for sign, size, factor in (
        (1, n_inside, base if n_outside == 1 else 1.0),
        (-1, n_outside, base if n_inside == 1 else 1.0),
    ):
        for r in range(1, total + 1):
            tails = (laws * (sign * gaps >= r)).sum(axis=1)
            bound = nbinom.sf(r - 1, size - fewer, 1 - base * factor)
            worst = max(worst, float(tails.max() / bound))
    return worst


@pytest.mark.parametrize("n_cells", [2, 3, 4, 5])
@pytest.mark.parametrize("base", [0.2, 0.6, 0.9])
def test_the_error_bound_holds_for_every_table(n_cells: int, base: float) -> None:
    for total, n_inside in product((1, 3, 6), range(1, n_cells)):
        assert worst_excess(n_cells, total, base, n_inside) <= 1 + 1e-9


def test_the_error_bound_is_sharp_and_one_cell_fewer_breaks_it() -> None:
    assert worst_excess(4, 8, 0.2, 1) > 0.999
    assert worst_excess(4, 8, 0.2, 1, fewer=0) <= 1 + 1e-9
    assert worst_excess(5, 6, 0.6, 2, fewer=1) > 1.05


SYSTEMS: dict[str, tuple[list[Condition], str]] = {
    "total": ([cg.total()], "sex=f & age=0"),
    "two cells of a total": ([cg.total()], "age=0"),
    "margins": ([cg.margin("sex")], "age in {0, 1}"),
    "no invariants": ([], "age=0"),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_every_table_is_covered(name: str, level: float) -> None:
    """Exactly: the chance that the interval covers, for every confidential table of a small set."""
    conditions, query = SYSTEMS[name]
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=conditions)
    statistic = parse_query(query, schema)[0]
    for total in (1, 4):
        for counts in all_tables(4, total):
            table = cg.Table(schema, counts.reshape(2, 2))
            law = law_of(mechanism, table)
            if conditions:
                listed = mechanism.law(table).enumerated
                outcomes, chances = listed.tables, np.array([float(p) for p in listed.probabilities])
            else:
                outcomes = mechanism.law(table).sample(300, cg.replay_rng(f"{name} {counts}"))
                chances = np.full(300, 1 / 300)
            truth = statistic.values(counts[None, :])[0]
            ends = [confidence(law, None, outcome, statistic, level) for outcome in outcomes]
            covered = np.array([end.low <= truth <= end.high for end in ends])
            assert all(end.is_available for end in ends)
            assert chances @ covered >= level - (0.08 if not conditions else 1e-9)


def test_equalities_without_limits_are_exact() -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})
    mechanism = cg.Mechanism(
        schema, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("sex"), cg.margin("age"), cg.bounds(None)]
    )
    table = cg.Table(schema, [[3, 0, 1], [5, 2, 0]])
    law, statistic = law_of(mechanism, table), parse_query("sex=f & age=0", schema)[0]
    draws = mechanism.law(table).sample(4_000, cg.replay_rng("exact interval"))
    ends = {int(draw[0]): confidence(law, None, draw, statistic, 0.9) for draw in draws}
    assert {end.how for end in ends.values()} == {"exact"}
    covered = np.mean([ends[int(draw[0])].low <= 3 <= ends[int(draw[0])].high for draw in draws])
    exactly = mechanism.law(table).marginal({"sex": "f", "age": "0"})
    width = next(iter(ends.values()))
    inside = np.abs(exactly.values - 3) <= (width.high - width.low) / 2
    assert exactly.probabilities[inside].sum() >= 0.9
    assert covered == pytest.approx(exactly.probabilities[inside].sum(), abs=0.02)


@pytest.mark.parametrize(
    ("conditions", "noise", "query", "why"),
    [
        ([cg.total(), cg.total({"sex": "f"}), cg.total({"age": "0"})], "double_geometric", "sex=f & age=0", "overlap"),
        ([cg.total()], "discrete_gaussian", "age=0", "Double Geometric"),
        ([cg.total(), cg.bounds(0, 9)], "double_geometric", "age=0", "upper limits"),
        ([cg.total()], "double_geometric", "share(sex=f | age=0)", "divided by"),
        ([cg.linear([[1, 2], [1, 1]])], "double_geometric", "age=0", "plain sum"),
    ],
)
def test_where_there_is_none_the_reason_is_given(conditions: list[Condition], noise: str, query: str, why: str) -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=conditions, noise=noise)
    table = cg.Table(schema, [[1, 2], [3, 1]])
    found = confidence(law_of(mechanism, table), None, table.counts, parse_query(query, schema)[0])
    assert not found.is_available
    assert why in found.why


def test_determined_numbers_and_shares_of_exact_totals() -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.margin("sex")])
    table = cg.Table(schema, [[4, 2], [3, 1]])
    law = law_of(mechanism, table)

    def interval(query: str) -> tuple[float, float, str]:
        found = confidence(law, None, table.counts, parse_query(query, schema)[0])
        return found.low, found.high, found.how

    assert interval("sex=f") == (6, 6, "determined")
    low, high, how = interval("share(age=0 | sex=f)")
    count_low, count_high, _ = interval("sex=f & age=0")
    assert (low, high, how) == (count_low / 6, count_high / 6, "conservative")
    assert 0 <= count_low <= 4 <= count_high <= 6
    assert (
        confidence(
            law, None, table.counts, Statistic("nobody", "count", parse_query("sex=f & sex=m", schema)[0].above)
        ).high
        == 0
    )


@pytest.mark.parametrize(
    "conditions",
    [
        [cg.margin("sex"), cg.total()],
        [cg.total(), cg.margin("sex")],
        [cg.total(), cg.total({"sex": "f"})],
        [cg.linear([[-1, -1], [0, 0]]), cg.total()],
    ],
)
def test_the_order_of_nested_sums_does_not_matter(conditions: list[Condition]) -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    table = cg.Table(schema, [[4, 2], [3, 1]])
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=conditions)
    plain = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.margin("sex")])
    query = parse_query("sex=f & age=0", schema)[0]
    found, wanted = (confidence(law_of(made, table), None, table.counts, query) for made in (mechanism, plain))
    assert (found.low, found.high, found.how) == (wanted.low, wanted.high, "conservative")


def test_pinned_cells_count_once() -> None:
    """A negative pinned cell in two published sums: the interval holds what is possible, and is not empty."""
    schema = cg.Schema({"c": list("pxuyv")})
    conditions: list[Condition] = [
        cg.bounds(-5, -5, where={"c": "p"}),
        cg.total({"c": ["p", "x", "u"]}, equals=5),
        cg.total({"c": ["p", "y", "v"]}, equals=5),
    ]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=conditions)
    constraints = cg.Constraints.of(schema, conditions)
    queries = (MeasuredQuery("cells", Fraction(1, 2), tuple(mechanism.classes[0])),)
    law = PublicLaw(schema, "double_geometric", queries, Areas.one(constraints))
    found = confidence(law, None, np.array([-5, 10, 0, 10, 0]), parse_query("c in {p, x, y}", schema)[0])
    assert found.low <= 15 == found.high


def test_uneven_precisions_and_lower_limits_are_covered() -> None:
    """By brute force over every table: cells of different precision, and a lower limit of one."""
    schema = cg.Schema({"c": ["a", "b", "c"]})
    measure = [cg.cells({"c": "a"}, precision="2"), cg.cells({"c": ["b", "c"]}, precision="1/3")]
    mechanism = cg.Mechanism(schema, measure=measure, invariants=[cg.total(), cg.bounds(1, where={"c": "b"})])
    statistic = parse_query("c=b", schema)[0]
    for counts in all_tables(3, 6):
        if counts[1] < 1:
            continue
        table = cg.Table(schema, counts)
        law, listed = law_of(mechanism, table), mechanism.law(table).enumerated
        chances = np.array([float(p) for p in listed.probabilities])
        ends = [confidence(law, None, outcome, statistic, 0.8) for outcome in listed.tables]
        assert chances @ np.array([end.low <= counts[1] <= end.high for end in ends]) >= 0.8


def test_one_published_sum_shares_its_misses() -> None:
    """The narrower pair of reaches, against half of the misses for each side."""
    up, down = [ErrorBound(1, 0.733)], [ErrorBound(45, 0.733**2)]
    above, below = reaches(up, down, 0.1)
    halves = tuple(int(nbinom.isf(0.05, bound.n_cells, 1 - bound.base)) for bound in (up[0], down[0]))
    assert above + below < sum(halves)
    assert reaches(up * 2, down * 2, 0.1)[0] >= above
    flat = [ErrorBound(20, 0.999), ErrorBound(1, 0.998)]
    assert reaches(flat, flat, 0.1)[0] > 10_000  # answered without a long convolution
