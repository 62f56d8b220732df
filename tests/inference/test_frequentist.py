"""Intervals without a prior: the error bound against brute force, coverage for every table, and when there is none."""

from dataclasses import replace
from fractions import Fraction
from itertools import count, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import nbinom

import congenial as cg
from agreement import own_rng
from brute import Dice
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import Interval, Row
from congenial.inference.error_bounds import CountBox, IntegerWeights
from congenial.inference.frequentist import (
    Confidence,
    LinearNumber,
    TableErrors,
    confidence,
    confidences,
    narrowest_bounds,
)
from congenial.inference.questions import Statistic, parse_query
from congenial.law import MeasuredQuery, PublicLaw
from congenial.randomness import replay_rng
from interval_audit import ROUNDING, Small, audit, error_law, law_on
from published import law_of


def all_tables(n_cells: int, total: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([t for t in product(range(total + 1), repeat=n_cells) if sum(t) == total])


WEIGHTS: dict[str, NDArray[np.float64]] = {
    "double geometric": np.power(0.6, np.abs(np.arange(-3, 4))),
    "discrete gaussian": np.power(0.8, np.arange(-3, 4) ** 2),
}
Groups = list[tuple[str, int]]
SUM: Groups = [("all", 0)] * 4
CROSSING: Groups = [("both", 1), ("both", 1), ("first", -1), ("neither", 1)]
SHAPES: dict[str, tuple[Groups, list[int], list[int]]] = {  # groups, the number, and which way it goes in each count
    "one sum": (SUM, [1, 1, 0, 0], [-1, -1, 1, 1]),
    "crossing sums, part of a group": (CROSSING, [1, 0, 0, 0], [-1, 1, 1, -1]),
    "crossing sums, a whole group": (CROSSING, [1, 1, 0, 0], [-1, -1, 1, -1]),
}


def excess(first: dict[int, float], second: dict[int, float]) -> float:
    """Return by how much the second law fails to be the smaller one in the likelihood ratio order."""
    values = sorted({*first, *second})
    p, q = (np.array([law.get(value, 0.0) for value in values]) / sum(law.values()) for law in (first, second))
    return float(np.triu(np.outer(p, q) - np.outer(q, p), 1).max(initial=0.0))


def random_pair(dice: Dice) -> tuple[list[int], list[tuple[int, int]], int]:
    """Counts of four cells between their limits, and a cell that can have one more."""
    limits = [(0, dice.choice([2, 3, 9])) for _ in range(4)]
    cell = dice.integer(0, 3)
    counts = [dice.integer(0, high - (place == cell)) for place, (_, high) in enumerate(limits)]
    return counts, limits, cell


@pytest.mark.parametrize("noise", WEIGHTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_are_ordered_in_every_count(shape: str, noise: str, request: pytest.FixtureRequest) -> None:
    """The lemma behind F1 and F2, on random pairs of counts that differ by one in one cell."""
    dice = Dice(own_rng(request))
    groups, number, ways = SHAPES[shape]
    for _ in range(12):
        counts, limits, cell = random_pair(dice)
        more = [count + (place == cell) for place, count in enumerate(counts)]
        laws = [error_law(own, limits, groups, number, WEIGHTS[noise]) for own in (counts, more)]
        assert excess(*laws[:: -ways[cell]]) <= 1e-12


def test_across_two_groups_errors_are_ordered_stochastically(request: pytest.FixtureRequest) -> None:
    """Parts of two groups that move against each other: the number falls in its cells and rises in their others."""
    dice = Dice(own_rng(request))
    groups: Groups = [("both", 1), ("both", 1), ("second", -1), ("second", -1), ("neither", 1)]
    for _ in range(12):
        counts, limits, cell = random_pair(dice)
        counts, limits = [*counts, dice.integer(0, 2)], [*limits, (0, 9)]
        more = [count + (place == cell) for place, count in enumerate(counts)]
        laws = [
            error_law(own, limits, groups, [1, 0, 1, 0, 0], WEIGHTS["double geometric"][1:-1]) for own in (counts, more)
        ]
        tails = [
            np.array([sum(weight for value, weight in law.items() if value >= r) for r in range(-5, 6)])
            / sum(law.values())
            for law in laws
        ]
        rise = tails[1] - tails[0] if cell in {1, 3} else tails[0] - tails[1]
        assert rise.min() >= -1e-12


def test_weighted_lower_limits_are_not_ordered(request: pytest.FixtureRequest) -> None:
    """Why there is no interval for them; and a check that `excess` sees what is not ordered."""
    dice = Dice(own_rng(request))
    worst = 0.0
    for _ in range(20):
        counts, limits, _ = random_pair(dice)
        counts[0] = 0
        more = [1, *counts[1:]]
        laws = [
            error_law(own, limits, SUM, [1, 0, 0, 0], WEIGHTS["double geometric"], floor=3.75) for own in (counts, more)
        ]
        worst = max(worst, excess(*laws))
    assert worst > 0.01


def test_every_table_of_drawn_systems_is_covered(request: pytest.FixtureRequest) -> None:
    """Exactly: crossing sums, both noises, upper limits, differences. 3,000 systems by `make audit-intervals`."""
    tally = audit((Dice(replay_rng(f"{request.node.nodeid} {number}")) for number in count()), 60)
    assert tally.systems == 60
    assert tally.least >= -ROUNDING


FULL = Small(
    law_on(
        cg.Schema({"c": ["a", "b", "c", "d"]}),
        [cg.total(equals=12), cg.bounds(0, 3, where={"c": ["b", "c", "d"]})],
        "double_geometric",
        [Fraction(1, 2)] * 4,
    ),
    (1, 0, 0, 0),
    0.3,
)
"""One cell without an upper limit beside three that may all be full: then their noise can only push it up."""


def test_upper_limits_are_covered() -> None:
    assert FULL.coverage().min() >= 0.7


def test_free_above_upper_limits_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the most that a limited count can be is its limit, where errors end at 0; they are not free."""
    own = CountBox._window

    def window(box: CountBox, cell: int, reach: int, is_least: bool) -> Interval:
        return own(box, cell, reach, is_least) if is_least else Interval(-reach, reach)

    monkeypatch.setattr(CountBox, "_window", window)
    assert FULL.coverage().min() < 0.6


def test_a_box_that_never_fails_does_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the release taken for the confidential table."""

    def box(errors: TableErrors, affected: object, released: NDArray[np.int64], miss: float) -> CountBox:
        return replace(errors.known, counts=[Interval(int(at), int(at)) for at in released])

    monkeypatch.setattr(TableErrors, "box", box)
    monkeypatch.setattr(LinearNumber, "uses_box", lambda number, fixed, miss: True)
    assert FULL.coverage().min() < 0.65


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
        for counts in all_tables(4, total)[:: 1 if conditions else 12]:
            table = cg.Table(schema, counts.reshape(2, 2))
            law = law_of(mechanism, table)
            if conditions:
                listed = mechanism.law(table).enumerated
                outcomes, chances = listed.tables, np.array([float(p) for p in listed.probabilities])
            else:
                drawn_tables = mechanism.law(table).sample(120, cg.replay_rng(f"{name} {counts}"))
                drawn_tables[:, statistic.above.cells[-1] + 1 :] = 0  # what is in no sum with the query says nothing
                outcomes, times = np.unique(drawn_tables, axis=0, return_counts=True)
                chances = times / 120
            truth = statistic.values(counts[None, :])[0]
            ends = [confidence(law, None, outcome, statistic, level) for outcome in outcomes]
            covered = np.array([end.low <= truth <= end.high for end in ends])
            assert all(end.is_available for end in ends)
            assert chances @ covered >= level - (0.12 if not conditions else 1e-9)


def test_equalities_without_limits_are_exact() -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})
    mechanism = cg.Mechanism(
        schema, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("sex"), cg.margin("age"), cg.bounds(None)]
    )
    table = cg.Table(schema, [[3, 0, 1], [5, 2, 0]])
    law, statistic = law_of(mechanism, table), parse_query("sex=f & age=0", schema)[0]
    draws = mechanism.law(table).sample(4_000, cg.replay_rng("exact interval"))
    first = {int(draw[0]): draw for draw in draws}
    ends = {value: confidence(law, None, draw, statistic, 0.9) for value, draw in first.items()}
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
        ([cg.linear([[1, 2], [1, 1]])], "double_geometric", "age=0", "more than one way"),
        ([cg.total(at_most=9)], "discrete_gaussian", "age=0", "ranges"),
        ([cg.total()], "double_geometric", "share(sex=f | age=0)", "divided by"),
        ([cg.total()], "double_geometric", "odds_ratio(sex=f, age=0)", "not linear"),
        ([cg.total()], "discrete_gaussian", "median(age)", "not linear"),
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
    nobody = Statistic("nobody", "count", Row.of("nobody", []))
    assert confidence(law, None, table.counts, nobody).high == 0


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
    base = 0.733
    up = IntegerWeights(0, np.power(base, np.arange(120)))
    down = IntegerWeights(0, nbinom.pmf(np.arange(400), 45, 1 - base**2))
    found = narrowest_bounds(up, down, 0.1)
    assert found is not None
    assert sum(found) < up.upper_bound(0.05) + down.upper_bound(0.05)


def p12_law(**budget: str) -> tuple[PublicLaw, cg.Table, cg.Mechanism]:
    p12 = cg.examples.p12_mechanism()
    cells = cg.cells() if "rho" in budget else cg.cells(zeros="unweighted")
    mechanism = cg.Mechanism(p12.schema, measure=[cells], invariants=list(p12.invariants), **budget)  # type: ignore[arg-type]
    table = cg.examples.p12_table()
    return mechanism.plan(mechanism.disclose(table)).law, table, mechanism


@pytest.mark.parametrize(
    ("budget", "widths"),
    [
        ({"rho": "1/2", "noise": "discrete_gaussian"}, (27, 17, 6)),
        ({"epsilon": "4"}, (10, 7, 3)),
    ],
)
def test_crossing_sums_of_p12(budget: dict[str, str], widths: tuple[int, ...]) -> None:
    law, table, mechanism = p12_law(**budget)
    released = mechanism.law(table).sample(1, cg.replay_rng("p12 widths"))[0]
    queries = ("age >= 65-66", "sex=female & age >= 65-66", "sex=female & age=85+")
    statistics = [parse_query(query, law.schema)[0] for query in queries]
    found = confidences(law, {None: released}, statistics)
    assert [interval.how for interval in found] == ["conservative"] * 3
    assert all(own.high - own.low <= width for own, width in zip(found, widths, strict=True))


def test_together_is_wider_than_one_by_one_and_narrower_than_bonferroni() -> None:
    """The box is paid for once, not once for each number."""
    law, table, mechanism = p12_law(rho="1/2", noise="discrete_gaussian")
    released: dict[str | None, NDArray[np.int64]] = {None: mechanism.law(table).sample(1, cg.replay_rng("together"))[0]}
    statistics = parse_query("sex=female & age >= 25-29 by age", law.schema)[8:14]
    alone, joint = (confidences(law, released, statistics, is_simultaneous=both) for both in (False, True))
    divided = confidences(law, released, statistics, level=1 - 0.1 / len(statistics))

    def width(intervals: list[Confidence]) -> float:
        return sum(own.high - own.low for own in intervals)

    assert width(alone) < width(joint) <= width(divided)
    assert all(own.is_simultaneous for own in joint)


def test_all_numbers_are_covered_together() -> None:
    schema = cg.Schema({"c": ["a", "b", "c"]})
    law = law_on(schema, [cg.total(equals=5)], "discrete_gaussian", [Fraction(1)] * 3)
    statistics = parse_query("all by c", schema)
    small = Small(law, (1, 0, 0), 0.4)
    tables = small.tables()
    covered = np.zeros((len(tables), len(tables)), bool)
    for place, released in enumerate(tables):
        found = confidences(law, {None: released}, statistics, level=0.6, is_simultaneous=True)
        low, high = np.array([[own.low, own.high] for own in found]).T
        covered[:, place] = ((tables >= low) & (tables <= high)).all(axis=1)
    assert (small.chances(tables) * covered).sum(axis=1).min() >= 0.6


def test_sums_and_differences_over_areas_are_covered() -> None:
    """Two areas: every pair of tables, exactly."""
    schema = cg.Schema({"c": ["a", "b"]})
    areas = Areas.disclosed(schema, [cg.total()], {"north": [1, 2], "south": [2, 0]}, name="region")
    queries = (MeasuredQuery("cells", Fraction(1), tuple(Row.of(name, [cell]) for cell, name in enumerate("ab"))),)
    law = PublicLaw(schema, "double_geometric", queries, areas)
    tables = {area: np.array([[a, n - a] for a in range(n + 1)]) for area, n in (("north", 3), ("south", 2))}
    chances = {}
    for area, listed in tables.items():
        weights = np.exp(-np.abs(listed[:, None, :] - listed[None, :, :]).sum(axis=2))
        chances[area] = weights / weights.sum(axis=1, keepdims=True)
    for query, times in (("c=a over areas", 1), ("difference(c=a & area=north, c=a & region=south)", -1)):
        (statistic,) = parse_query(query, schema, areas)
        covered = np.zeros((4, 3))
        for (i, north), (j, south) in product(enumerate(tables["north"]), enumerate(tables["south"])):
            (found,) = confidences(law, {"north": north, "south": south}, [statistic], level=0.7)
            inside = tables["north"][:, 0][:, None] + times * tables["south"][:, 0][None, :]
            is_in = (inside >= found.low) & (inside <= found.high)
            covered += is_in * chances["north"][:, i][:, None] * chances["south"][:, j][None, :]
        assert covered.min() >= 0.7


def test_far_noise_is_refused_in_words() -> None:
    schema = cg.Schema({"c": ["a", "b"]})
    law = law_on(schema, [cg.total(equals=5)], "double_geometric", [Fraction(1, 100_000)] * 2)
    found = confidence(law, None, np.array([2, 3]), parse_query("c=a", schema)[0])
    assert "errors are followed up to 20,000" in found.why
