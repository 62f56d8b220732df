"""Intervals from measurements: against every table and every noise of small systems, and draws of whole releases."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng
from congenial.arrays import Ints
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import Interval, Row, row_values
from congenial.examples import p12_mechanism, p12_table
from congenial.inference.frequentist import DETERMINED, UNAVAILABLE, Confidence
from congenial.inference.measurement_intervals import NOT_MEASURED, Measurements
from congenial.inference.questions import parse_queries
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.plan import Plan
from congenial.sampling.enumeration import all_tables
from congenial.sampling.lattice_noise.choose import choose_lattice_sampler
from congenial.sampling.lattice_noise.half_widths import HalfWidth, NoiseSum, half_width_of, simulated, sub_gaussian

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
QUERIES = ["sex=f & age=0", "sex=f", "age=1", "difference(sex=f, age=1)", "all"]
LEVEL = 0.9
CELLS = cg.cells(precision="3/2")
ZERO = cg.structural_zeros({"sex": "f", "age": "1"})
SYSTEMS: dict[str, tuple[list[Query], list[Condition], str, list[list[int]]]] = {
    "total": ([CELLS], [cg.total()], "double_geometric", [[1, 0], [2, 0]]),
    "margin": ([CELLS], [cg.margin("sex")], "discrete_gaussian", [[1, 2], [0, 1]]),
    "pinned": ([CELLS], [cg.margin("sex")], "double_geometric", [[2, 1], [0, 0]]),
    "structural zero": ([CELLS], [cg.total(), ZERO], "double_geometric", [[1, 0], [2, 1]]),
    "limits": ([CELLS], [cg.total(), cg.bounds(0, 2)], "discrete_gaussian", [[1, 0], [2, 0]]),
    "coefficients": ([CELLS], [cg.linear([[2, 1], [1, 2]])], "double_geometric", [[1, 0], [1, 0]]),
    "measured sums": ([CELLS, cg.margin("age", precision="1")], [cg.total()], "double_geometric", [[1, 0], [1, 1]]),
}  # fmt: skip
REACH = 7


def kind_of(plan: Plan) -> NoiseKind:
    """Return the only kind of noise."""
    assert isinstance(plan.drawing, MeasurementDrawing)
    (kind,) = plan.drawing.kinds
    return kind


def plan_of(name: str) -> Plan:
    measure, conditions, noise, counts = SYSTEMS[name]
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=conditions, noise=noise, method="measured")
    return mechanism.plan(mechanism.disclose(cg.Table(SCHEMA, counts)))


def noise_by_brute_force(plan: Plan) -> tuple[Ints, np.ndarray]:
    """Return all small changes of cells that keep the exact numbers, and their probabilities."""
    (constraints,) = plan.law.areas.values()
    pinned = [cell for cell, limits in enumerate(constraints.quick_bounds.limits) if limits.is_point]
    changes = np.array(list(product(range(-REACH, REACH + 1), repeat=4)))
    changes = changes[(changes[:, pinned] == 0).all(axis=1)]
    rows = [limited.row for limited in constraints.equalities]
    if rows:
        changes = changes[(row_values(rows, changes) == 0).all(axis=1)]
    values = row_values([query.row for query in plan.law.measured], changes)
    log_weights = sum(query.noise.log_weight(values[:, place]) for place, query in enumerate(plan.law.measured))
    weights = np.exp(log_weights)
    return changes, weights / weights.sum()


def worst_coverage(name: str, intervals: dict[bytes, list[Confidence]] | None = None) -> list[tuple[float, float]]:
    """Return for each query the least exact coverage over all tables, and the coverage that is printed."""
    plan = plan_of(name)
    (constraints,) = plan.law.areas.values()
    tables = all_tables(constraints, 1_000)
    assert tables is not None
    changes, probabilities = noise_by_brute_force(plan)
    likely = probabilities > 1e-7
    changes, probabilities = changes[likely], probabilities[likely]
    statistics = parse_queries(QUERIES, SCHEMA)
    rows = [query.row for query in plan.law.measured]
    known: dict[bytes, list[Confidence]] = {} if intervals is None else intervals
    unlikely, least = 1 - float(probabilities.sum()), [1.0] * len(QUERIES)
    for table in tables:
        truth = [statistic.values(table[None, :])[0] for statistic in statistics]
        covered = np.zeros(len(QUERIES))
        for change, chance in zip(changes, probabilities, strict=True):
            values = row_values(rows, (table + change)[None, :])
            key = values.tobytes()
            if key not in known:
                known[key] = Measurements.of(plan, values).confidences(statistics, level=LEVEL)
            covered += [chance * (one.low <= value <= one.high) for one, value in zip(known[key], truth, strict=True)]
        least = [min(pair) for pair in zip(least, covered, strict=True)]
    printed = [max(one.coverage or 0.0 for one in column) for column in zip(*known.values(), strict=True)]
    return [(covered + unlikely, chance) for covered, chance in zip(least, printed, strict=True)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_table_is_covered_as_printed(name: str) -> None:
    for covered, printed in worst_coverage(name):
        assert covered >= printed - 1e-4
        assert printed >= LEVEL


def narrower(noise: NoiseSum, level: Fraction) -> HalfWidth:
    width = half_width_of(noise, level)
    return replace(width, half_width=max(width.half_width - 1, 0))


def test_a_narrower_interval_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant's half-width is one smaller: no smaller one reaches the level."""
    monkeypatch.setattr("congenial.inference.measurement_intervals.half_width_of", narrower)
    assert min(covered for covered, _ in worst_coverage("margin")) < LEVEL


def test_wrong_limits_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant cuts at 1: tables with an empty cell are missed."""
    monkeypatch.setattr(Measurements, "_limits", lambda *_, **__: Interval(1, None))
    assert min(covered for covered, _ in worst_coverage("margin")) < LEVEL


@pytest.mark.parametrize("name", SYSTEMS)
def test_half_widths_are_those_of_all_noises(name: str) -> None:
    plan = plan_of(name)
    changes, probabilities = noise_by_brute_force(plan)
    known = Measurements.of(plan, row_values([q.row for q in plan.law.measured], np.zeros((1, 4), np.int64)))
    for statistic in parse_queries(QUERIES, SCHEMA):
        reading = known.number({None: statistic.above})
        assert reading is not None
        sizes = np.abs(row_values([statistic.above], changes)[:, 0])
        width = half_width_of(reading.noise, Fraction(9, 10))
        at, below = (float(probabilities[sizes <= width.half_width - less].sum()) for less in (0, 1))
        assert width.coverage == pytest.approx(at, abs=1e-4)
        assert below < 0.9 or width.half_width == 0


AREAS = {"a": [[5, 1], [0, 3]], "b": [[0, 2], [2, 2]], "c": [[9, 9], [1, 0]], "d": [[3, 0], [0, 0]]}


def areas_plan(noise: str = "double_geometric") -> Plan:
    measure = [cg.cells(precision="3/4")]
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=[cg.margin("sex")], noise=noise, method="measured")
    tables = {area: cg.Table(SCHEMA, counts) for area, counts in AREAS.items()}
    return mechanism.plan(mechanism.disclose(tables, area="county"))


COUNTS = np.array(list(AREAS.values())).reshape(4, 4)
SPANNING = [
    "age=1 over areas",
    "difference(age=1 & county=a, age=1 & county=b)",
    "age=1 & county=d",
    "sex=f over areas",
]


def releases(plan: Plan, request: pytest.FixtureRequest) -> Ints:
    """Return many measurements of all areas (release, area, row)."""
    numbers = np.tile(plan.sampler_numbers, N_DRAWS)
    drawn = plan.drawing.draw(numbers, np.tile(COUNTS, (N_DRAWS, 1)), own_rng(request))
    return drawn.reshape(N_DRAWS, 4, -1)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("query", SPANNING)
def test_releases_are_covered_as_printed(noise: str, query: str, request: pytest.FixtureRequest) -> None:
    """Sums over areas, differences of areas, an area in which a sex is empty."""
    plan = areas_plan(noise)
    drawn = releases(plan, request)
    (statistic,) = parse_queries(query, SCHEMA, plan.law.areas)
    (shown,) = Measurements.of(plan, drawn[0]).confidences([statistic])
    number = Measurements.of(plan, drawn[0]).number(statistic.by_area(4))
    assert number is not None
    if shown.how == DETERMINED:
        assert query.startswith("sex")
        assert shown.low == shown.high == COUNTS[:, :2].sum()
        return
    width = half_width_of(number.noise, Fraction(9, 10))
    values, truth = (statistic.values(some.reshape(-1, 16)) for some in (drawn, COUNTS))
    n_covered = int((np.abs(values - truth) <= width.half_width).sum())
    assert shown.coverage == width.coverage
    assert binom.cdf(n_covered, N_DRAWS, width.coverage) > ALPHA
    assert binom.sf(n_covered - 1, N_DRAWS, width.coverage + 1e-6) > ALPHA
    n_of_narrower = int((np.abs(values - truth) <= width.half_width - 1).sum())
    assert binom.cdf(n_of_narrower, N_DRAWS, width.coverage) < ALPHA  # the mutant: one smaller, said to cover as much


@pytest.mark.statistical
def test_the_noise_of_one_area_is_too_small_for_a_sum(request: pytest.FixtureRequest) -> None:
    """The mutant takes the law of one area for all of them together."""
    plan = areas_plan()
    drawn = releases(plan, request)
    (statistic,) = parse_queries(SPANNING[0], SCHEMA, plan.law.areas)
    number = Measurements.of(plan, drawn[0]).number(statistic.by_area(4))
    assert number is not None
    one = tuple((system, coefficients, 1) for system, coefficients, _ in number.noise[:1])
    width = half_width_of(one, Fraction(9, 10))
    values, truth = (statistic.values(some.reshape(-1, 16)) for some in (drawn, COUNTS))
    assert binom.cdf(int((np.abs(values - truth) <= width.half_width).sum()), N_DRAWS, 0.9) < ALPHA


def test_sums_over_areas_are_convolutions() -> None:
    """Areas of two kinds of noise: in one a sex is empty, and its cells have none."""
    plan = areas_plan()
    known = Measurements.of(plan, COUNTS)
    law: dict[int, float] = {0: 1.0}
    base = float(plan.law.measured[0].noise.base)
    pair = {k: base ** (2 * abs(k)) for k in range(-40, 41)}  # cells of a sex have opposite noise
    total = sum(pair.values())
    for _ in range(7):
        mixed: dict[int, float] = {}
        for at, chance in law.items():
            for step, weight in pair.items():
                mixed[at + step] = mixed.get(at + step, 0.0) + chance * weight / total
        law = mixed
    (statistic,) = parse_queries("age=1 over areas", SCHEMA, plan.law.areas)
    number = known.number(statistic.by_area(4))
    assert number is not None
    width = half_width_of(number.noise, Fraction(9, 10))
    assert width.coverage == pytest.approx(sum(p for k, p in law.items() if abs(k) <= width.half_width), abs=1e-9)
    assert sum(p for k, p in law.items() if abs(k) < width.half_width) < 0.9


@pytest.mark.parametrize(
    ("epsilon", "widths"), [("1/2", (26, 18, 9)), ("1", (13, 9, 4)), ("2", (6, 4, 2)), ("4", (3, 2, 1))]
)
def test_half_widths_of_p12(epsilon: str, widths: tuple[int, ...]) -> None:
    """Everybody of 65 and more, women of 65 and more, one cell; MEASURED's figures."""
    table, example = p12_table(), p12_mechanism()
    conditions = list(example.invariants)
    mechanism = cg.Mechanism(
        example.schema, measure=[cg.cells()], invariants=conditions, epsilon=epsilon, method="measured"
    )
    plan = mechanism.plan(mechanism.disclose(table))
    known = Measurements.of(plan, table.counts.reshape(1, -1))
    queries = ["age >= 65-66", "sex=female & age >= 65-66", "sex=female & age=85+"]
    for statistic, width in zip(parse_queries(queries, example.schema), widths, strict=True):
        reading = known.number({None: statistic.above})
        assert reading is not None
        assert half_width_of(reading.noise, Fraction(9, 10)).half_width == width


def test_sums_that_are_measured_without_their_cells() -> None:
    """Two margins, no cell: sums of them have intervals, cells have none; a half of two rows is read off, too."""
    measure = [cg.margin("sex", precision="1"), cg.linear([[2, 2], [0, 0]], precision="1/2")]
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=[cg.total()], method="measured")
    plan = mechanism.plan(mechanism.disclose(cg.Table(SCHEMA, [[4, 3], [2, 1]])))
    known = Measurements.of(plan, np.array([[8, 2, 16]]))
    women, men, everybody, cell = known.confidences(parse_queries(["sex=f", "sex=m", "all", "sex=f & age=0"], SCHEMA))
    assert (women.measured, men.measured, everybody.low, everybody.how) == (8, 2, 10, DETERMINED)
    assert women.coverage == men.coverage
    assert (10 - men.high, 10 - men.low) == (women.low, women.high)
    assert (cell.how, cell.why) == (UNAVAILABLE, NOT_MEASURED)
    bases = [float(query.noise.base) for query in plan.law.measured]
    law = {k: bases[0] ** (2 * abs(k)) * bases[2] ** (2 * abs(k)) for k in range(-60, 61)}
    covered = sum(p for k, p in law.items() if abs(k) <= women.high - 8) / sum(law.values())
    assert women.coverage == pytest.approx(covered, abs=1e-9)


def test_a_rational_combination_is_divided() -> None:
    """Only twice the number of women is measured: the interval has whole numbers of women."""
    measure = [cg.linear([[2, 2], [0, 0]], precision="1/2"), cg.cells({"sex": "m"}, precision="1")]
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=[], method="measured")
    plan = mechanism.plan(mechanism.disclose(cg.Table(SCHEMA, [[4, 3], [2, 1]])))
    (women,) = Measurements.of(plan, np.array([[15, 2, 1]])).confidences(parse_queries("sex=f", SCHEMA))
    number = Measurements.of(plan, np.array([[15, 2, 1]])).number({None: Row.of("", [0, 1])})
    assert number is not None
    width = half_width_of(number.noise, Fraction(9, 10)).half_width
    assert (women.measured, number.divisor) == (7.5, 2)
    assert (women.low, women.high) == (max(0, -((width - 15) // 2)), (15 + width) // 2)


def test_equalities_that_the_noise_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The total is dropped: the whole is exact all the same, and three cells are read off as the total less one."""
    plan = plan_of("total")
    kind = kind_of(plan)
    free = kind.space.system.without(["total"])
    choice = replace(choose_lattice_sampler(free), dropped=("total",))
    monkeypatch.setattr(NoiseKind, "choice", choice)
    known = Measurements.of(plan, np.array([[2, 0, 2, 0]]))
    three, cell, everybody = known.confidences(
        parse_queries(["difference(all, sex=f & age=0)", "sex=f & age=0", "all"], SCHEMA)
    )
    assert (everybody.low, everybody.how) == (3, DETERMINED)
    assert (three.measured, cell.measured) == (1, 2)
    assert three.coverage == cell.coverage
    base = float(plan.law.measured[0].noise.base)
    width = half_width_of(((choice.system, (1, 0, 0, 0), 1),), Fraction(9, 10))
    assert width.coverage == pytest.approx(1 - 2 * base ** (width.half_width + 1) / (1 + base))


def test_what_is_out_of_reach_is_the_nearest_possible_number() -> None:
    known = Measurements.of(plan_of("limits"), np.array([[-40, 41, 1, 1]]))
    low, high = known.confidences(parse_queries(["sex=f & age=0", "sex=f & age=1"], SCHEMA))
    assert (low.low, low.high, low.measured) == (0, 0, -40)
    assert (high.low, high.high) == (2, 2)
    assert "nearest possible" in low.why


def test_shares_and_what_is_not_linear() -> None:
    known = Measurements.of(plan_of("margin"), np.array([[0, 3, 1, 0]]))
    share, ratio, odds = known.confidences(
        parse_queries(["share(age=1 | sex=f)", "ratio(age=1 / age=0)", "odds_ratio(sex=f, age=1)"], SCHEMA)
    )
    (count,) = known.confidences(parse_queries("sex=f & age=1", SCHEMA))
    assert (share.low, share.high) == (count.low / 3, count.high / 3)
    assert share.coverage == count.coverage
    assert ratio.how == odds.how == UNAVAILABLE
    assert "not published exactly" in ratio.why


def test_intervals_that_hold_together(request: pytest.FixtureRequest) -> None:
    """Each of m intervals misses with a part of 1 - level; draws of all of them are covered as printed, or more."""
    plan = areas_plan()
    drawn = releases(plan, request)[:20_000]
    statistics = parse_queries("all by sex, age", SCHEMA, plan.law.areas)
    together = Measurements.of(plan, drawn[0]).confidences(statistics, "a", is_simultaneous=True)
    single = Measurements.of(plan, drawn[0]).confidences(statistics, "a")
    widths = [
        half_width_of(number.noise, 1 - Fraction(1, 10) / 4)
        for statistic in statistics
        if (number := Measurements.of(plan, drawn[0]).number({"a": statistic.above})) is not None
    ]
    assert all(one.is_simultaneous and one.coverage == together[0].coverage for one in together)
    assert (together[0].coverage or 0) >= 0.9 - 1e-12
    assert all(one.low <= other.low and other.high <= one.high for one, other in zip(together, single, strict=True))
    errors = np.abs(drawn[:, 0] - COUNTS[0])
    covered = (errors <= [width.half_width for width in widths]).all(axis=1)
    assert binom.cdf(int(covered.sum()), len(covered), together[0].coverage) > ALPHA


def test_ranks_and_tail_bounds_agree_with_the_law() -> None:
    """Where there are no tables: wider than the law's half-width by little, and never narrower than its level."""
    plan = plan_of("margin")
    kind = kind_of(plan)
    noise, level = ((kind.choice.system, (1, 0, 1, 0), 3),), Fraction(0.9)
    law, by_rank, by_bound = half_width_of(noise, level), simulated(noise, level), sub_gaussian(noise, level)
    assert by_rank is not None
    assert by_bound is not None
    assert law.half_width <= by_bound.half_width
    assert abs(law.half_width - by_rank.half_width) <= 1
    assert by_bound.coverage >= level
    assert by_rank.coverage >= 0.9
    assert sub_gaussian(((kind_of(plan_of("total")).choice.system, (1, 0, 0, 0), 1),), level) is None
