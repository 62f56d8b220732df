"""The exact elimination against the brute force: normalisers, marginals, the slow path, threads, extremes."""

from fractions import Fraction
from math import comb, log

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import congenial as cg
from agreement import ALPHA, own_rng, p_value
from congenial.arrays import Ints
from congenial.errors import ConditionError, SamplingError, TooLargeError
from congenial.exact import log_of
from congenial.examples import p12_mechanism, p12_schema, p12_table
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.compiled_layout import Elimination, Layout
from congenial.sampling.elimination.exact_fallback import count_tables, exact_normaliser
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.target_and_system import System
from drawn import drawn
from systems import SYSTEMS
from systems import System as Small


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> Small:
    return SYSTEMS[request.param]()


def test_normaliser_is_the_brute_force(system: Small) -> None:
    made = exact.messages(system.target)
    truth = system.law.normaliser
    error = abs(Fraction(float(np.exp(made.log_normaliser))) / truth - 1)
    assert error < Fraction(1, 10**12)
    assert abs(made.log_normaliser - system.law.log_normaliser) < 1e-12 + made.relative_error
    assert exact_normaliser(made.layout.elimination, system.target.centre) == truth


def test_slow_path_gives_the_same_tables_from_the_same_bits(system: Small, request: pytest.FixtureRequest) -> None:
    made = exact.messages(system.target)
    seed = request.node.nodeid
    fast = made.sample(400, cg.replay_rng(seed))
    slow = made.sample(400, cg.replay_rng(seed), always_refined=True)
    assert np.array_equal(fast, slow)


@st.composite
def laws(draw: st.DrawFn) -> cg.Law:
    """Random systems around a random table: mixed signs, ranges, soft rows, zeros, bounds, both noises."""
    n = draw(st.integers(2, 5))
    schema = cg.Schema({"cell": [f"c{i}" for i in range(n)]})
    counts = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    widths = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    limits = [
        cg.bounds(max(0, c - w), c + w, where={"cell": f"c{i}"})
        for i, (c, w) in enumerate(zip(counts, widths, strict=True))
    ]
    weights = st.lists(st.integers(-3, 3), min_size=n, max_size=n).filter(any)
    invariants: list[object] = list(limits)
    for row in draw(st.lists(weights, max_size=2)):
        value = sum(w * c for w, c in zip(row, counts, strict=True))
        slack = draw(st.sampled_from([None, (0, 2), (-3, 1)]))
        if slack is None:
            invariants.append(cg.linear(row))
        else:
            invariants.append(cg.linear(row, at_least=value + slack[0] - slack[1], at_most=value + abs(slack[1])))
    precision = st.sampled_from(["1/3", "1", "5/2"])
    measure = [cg.cells({"cell": f"c{i}"}, precision=draw(precision)) for i in range(n) if draw(st.booleans())]
    several = weights.filter(lambda row: sum(map(bool, row)) > 1 or max(row) != 1)  # a cell is measured once
    soft = draw(st.lists(several, min_size=1, max_size=2, unique_by=tuple))
    measure += [cg.linear(row, precision=draw(precision)) for row in soft]
    noise = draw(st.sampled_from(["double_geometric", "discrete_gaussian"]))
    mechanism = cg.Mechanism(schema, measure=measure, invariants=invariants, noise=noise)  # type: ignore[arg-type]
    return mechanism.law(cg.Table(schema, counts))


@given(laws())
@settings(max_examples=drawn(25))
def test_random_systems_agree_with_the_brute_force(law: cg.Law) -> None:
    truth = law.enumerated
    assert np.isclose(law.log_normaliser(), truth.log_normaliser, rtol=0, atol=1e-12)
    elimination = exact.elimination_of(law.target)
    assert exact_normaliser(elimination, law.target.centre) == truth.normaliser
    probabilities = np.array([float(p) for p in truth.probabilities])
    assert np.allclose(np.exp(law.log_probability(truth.tables)), probabilities, rtol=1e-11)
    assert np.allclose(law.mean(), probabilities @ truth.tables, atol=1e-10)
    assert np.allclose(law.variance(), probabilities @ (truth.tables - law.mean()) ** 2, atol=1e-9)
    draws = law.sample(20, cg.replay_rng("random systems"))
    assert np.all(truth.position(draws) >= 0)
    assert law.target.constraints.count() == len(truth.tables)


def semi_magic(size: int, line: int) -> cg.Constraints:
    labels = [str(i) for i in range(size)]
    schema = cg.Schema({"row": labels, "column": labels})
    return cg.Constraints.of(schema, [cg.margin(d, equals=[line] * size) for d in ("row", "column")])


def counted(constraints: cg.Constraints) -> int:
    """Count by messages; `constraints.count()` knows a quicker way for two-way tables."""
    return count_tables(Elimination.of(System.of(constraints, ()).counting()), np.array(constraints.point))


def test_semi_magic_squares_are_counted() -> None:
    """3 x 3 with all row and column sums r: (r+1)(r+2)(r^2+3r+4)/8."""
    for r in range(1, 51):
        assert semi_magic(3, r).count() == (r + 1) * (r + 2) * (r * r + 3 * r + 4) // 8
    for r in range(1, 16):
        assert counted(semi_magic(3, r)) == semi_magic(3, r).count()


@pytest.mark.parametrize(("line", "count"), [(1, 24), (2, 282), (3, 2008), (4, 10147), (5, 40176)])
def test_four_by_four_squares_are_counted(line: int, count: int) -> None:
    """The sequence A001496."""
    assert counted(semi_magic(4, line)) == semi_magic(4, line).count() == count


def test_p12_tables_are_counted() -> None:
    constraints = p12_mechanism().disclose(p12_table())
    count = sum(
        comb(y + 3, 3) * comb(130 - y + 18, 18) * comb(43 - y + 3, 3) * comb(126 - 43 + y + 18, 18) for y in range(44)
    )
    assert constraints.count() == count


def test_an_infinite_set_is_not_counted() -> None:
    with pytest.raises(TooLargeError, match="infinitely many"):
        cg.Constraints.of(cg.Schema({"a": ["x", "y"]}), [cg.bounds(None)]).count()


@pytest.mark.parametrize("population", [0, 40, 10**4, 10**9])
@pytest.mark.parametrize("precision", ["1/50", "1/2", "20"])
def test_invariants_hold_at_every_size(population: int, precision: str) -> None:
    counts = np.full(46, population // 46)
    counts[3] += population % 46
    law = p12_mechanism(precision).law(cg.Table(p12_schema(), counts.reshape(2, 23)))
    draws = law.sample(2_000, cg.replay_rng(1))
    assert np.all(law.target.constraints.holds(draws))
    assert np.isfinite(law.log_normaliser())


def test_two_hundred_thousand_draws_keep_every_invariant() -> None:
    law = p12_mechanism().law(p12_table())
    draws = law.sample(200_000, cg.replay_rng("invariants"))
    assert int(np.sum(law.target.constraints.holds(draws))) == 200_000


def test_p12_slow_path_agrees() -> None:
    made = exact.messages(p12_mechanism().law(p12_table()).target)
    fast = made.sample(25, cg.replay_rng("p12"))
    assert np.array_equal(fast, made.sample(25, cg.replay_rng("p12"), always_refined=True))


def test_clipped_windows_give_the_same_tables() -> None:
    """A table so large that windows are cut: floats with narrow windows, balls with wider ones, the same draws."""
    schema = cg.Schema({"age": [str(i) for i in range(5)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    law = mechanism.law(cg.Table(schema, [10**6] * 5))
    made = exact.messages(law.target)
    assert made.layout.is_clipped
    assert np.array_equal(made.sample(100, cg.replay_rng(1)), made.sample(100, cg.replay_rng(1), always_refined=True))


def test_narrow_windows_are_noticed() -> None:
    """Windows that leave out too much must not go unnoticed: the draw is decided without rounding, wider."""
    law = p12_mechanism().law(cg.Table(p12_schema(), np.full((2, 23), 1000)))
    elimination = exact.elimination_of(law.target)
    narrow = Elimination(elimination.order.with_nats(4.0))
    with pytest.raises(SamplingError, match="internal: windows took too much"):
        exact.Messages.of(narrow, law.target.centre)
    drawn = [exact.sample_one(some, law.target.centre, cg.replay_rng(1)) for some in (narrow, elimination)]
    assert np.array_equal(drawn[0], drawn[1])


def test_window_lengths_do_not_depend_on_the_table() -> None:
    """Two tables with the same invariants: messages of the same sizes, so the same work."""
    mechanism = p12_mechanism()
    first = np.full((2, 23), 400)
    second = first.copy()
    second[0, 6], second[0, 7] = 0, 800
    layouts = [
        Layout.of(exact.elimination_of(mechanism.law(cg.Table(p12_schema(), t)).target), t.reshape(-1).astype(np.int64))
        for t in (first, second)
    ]
    assert layouts[0].size == layouts[1].size


def batch(n: int) -> tuple[Elimination, Ints]:
    elimination = exact.elimination_of(p12_mechanism().law(p12_table()).target)
    return elimination, cg.replay_rng("batch").below(np.full((n, 46), 3))


def test_batches_do_not_depend_on_threads() -> None:
    elimination, centres = batch(300)
    single = exact.sample_batch(elimination, centres, cg.replay_rng(1))
    assert np.array_equal(single, exact.sample_batch(elimination, centres, cg.replay_rng(1), n_threads=3))
    assert np.array_equal(single.sum(axis=1), centres.sum(axis=1))
    assert np.array_equal(single[:, :23].sum(axis=1), centres[:, :23].sum(axis=1))


@pytest.mark.statistical
def test_batch_draws_have_the_law(request: pytest.FixtureRequest) -> None:
    """Defect: a batch that reuses words, or the windows of the table before."""
    system = SYSTEMS["asymmetric centre"]()
    elimination = exact.elimination_of(system.target)
    centres = np.repeat(system.target.centre[None, :], 100_000, axis=0)
    law = system.law
    expected = [float(p) for p in law.probabilities]
    rng = own_rng(request)
    assert p_value(law.position(exact.sample_batch(elimination, centres, rng)), expected) > ALPHA
    mutant = exact.sample_batch(exact.elimination_of(system.with_precision("11/10")), centres, rng)
    assert p_value(law.position(mutant), expected) < ALPHA


def test_marginal_of_a_sum(system: Small) -> None:
    """The distribution of any linear statistic, against the enumerated one."""
    law, truth = cg.Law(system.public, system.target.centre), system.law
    weights = [2, -1, *([1] * (system.target.centre.size - 2))]
    schema = system.target.constraints.schema
    marginal = law.marginal(cg.linear(np.array(weights, object).reshape(schema.shape)))
    values = truth.tables @ np.array(weights)
    for value, probability in zip(marginal.values, marginal.probabilities, strict=True):
        exact_value = sum(p for p, v in zip(truth.probabilities, values, strict=True) if v == value)
        assert abs(probability - float(exact_value)) < 1e-12


def test_marginals_that_make_no_sense_are_refused() -> None:
    law = p12_mechanism().law(p12_table())
    with pytest.raises(ConditionError, match="2 statistics"):
        law.marginal(cg.margin("sex"))
    with pytest.raises(ConditionError, match="not of a str"):
        law.marginal("sex")  # type: ignore[arg-type]
    fixed = law.marginal(cg.total({"sex": "female"}))
    assert fixed.values.tolist() == [130]


def test_plans_explain_themselves() -> None:
    mechanism = p12_mechanism()
    plan = mechanism.plan(mechanism.disclose(p12_table()))
    assert str(plan).startswith("4 groups of cells, width 1, about")
    assert plan.sampler.describe().endswith("states, exact")
    assert plan.is_exact


def test_areas_of_one_structure_share_one_order() -> None:
    """Forty areas with their own totals: components that are alike are merged alike, and drawn independently."""
    schema = cg.Schema({"area": [str(i) for i in range(40)], "sex": ["f", "m"], "age": ["y", "o", "v"]})
    invariants = [cg.margin("area"), cg.margin("area", "sex"), cg.margin("area", where={"age": ["o", "v"]})]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=invariants)
    counts = np.tile([[2, 1, 3], [1, 2, 2]], (40, 1, 1))
    law = mechanism.law(cg.Table(schema, counts))
    sampler = mechanism.plan(law.constraints).sampler
    assert isinstance(sampler, EliminationSampler)
    plan = sampler.elimination.order
    assert len(plan.rows.components) == 40 + 1  # and the empty group that closes them
    assert plan.width == 1
    orders = {tuple((left % 4, right % 4) for left, right, _ in plan.merges[3 * i : 3 * i + 1]) for i in range(40)}
    assert len(orders) == 1
    small = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "v"]})
    alone = cg.Mechanism(
        small,
        measure=[cg.cells(precision="1")],
        invariants=[cg.total(), cg.margin("sex"), cg.total({"age": ["o", "v"]})],
    ).law(cg.Table(small, counts[0]))
    assert np.isclose(law.log_normaliser(), 40 * alone.log_normaliser(), rtol=1e-12)
    assert np.all(law.target.constraints.holds(law.sample(100, cg.replay_rng(1))))


@pytest.mark.parametrize(
    ("n", "words"), [(4, r"width \d.*Algorithm 1.*not certified"), (6, r"\d or more sums are open at once")]
)
def test_a_plan_too_wide_says_so_with_its_numbers(n: int, words: str) -> None:
    """All two-way margins of three dimensions: too wide for messages, and no grid for rejection."""
    labels = [str(i) for i in range(n)]
    schema = cg.Schema({"a": labels, "b": labels, "c": labels})
    margins = [cg.margin("a", "b"), cg.margin("b", "c"), cg.margin("a", "c")]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/10")], invariants=margins)
    law = mechanism.law(cg.Table(schema, np.full((n, n, n), 500)))
    plan = mechanism.plan(law.target.constraints)
    assert not plan.is_exact
    with pytest.raises(TooLargeError, match=rf"{words}.*Nor is it one for rejection: .*in two sums at most"):
        law.sample(1)
    with pytest.raises(TooLargeError, match=words):
        law.log_normaliser()


def test_continuous_noise_is_refused() -> None:
    schema = cg.Schema({"bin": ["1", "2"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()], noise="laplace")
    with pytest.raises(SamplingError, match="for study"):
        mechanism.law(cg.Table(schema, [1, 1])).sample(1)


def test_error_bound_covers_long_sums() -> None:
    """Two cells in no row: one entry adds up as many terms as a cell has values, and the bound must know it."""
    from congenial.exact import ball, ends

    schema = cg.Schema({"cell": ["a", "b"]})
    limits = [cg.bounds(0, 5, where={"cell": "a"}), cg.bounds(0, 300_000, where={"cell": "b"})]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/10000")], invariants=limits)
    made = exact.messages(mechanism.law(cg.Table(schema, [0, 0])).target)
    a = ball(cg.noise.DoubleGeometric("1/10000").base)
    with flint.ctx.workprec(300):
        truth = (1 - a**6) / (1 - a) * (1 - a**300_001) / (1 - a)
        computed = ball(Fraction(float(made.root.sum()))) * 2**made.exponent
        low, high = ends(abs(computed / truth - 1))
    assert low <= high <= made.relative_error


def test_a_wide_soft_gaussian_sum_is_whole() -> None:
    """The mode of a sum of many flat cells lies far from the centre: its weight's table must reach there."""
    from scipy.special import logsumexp

    schema = cg.Schema({"cell": [str(i) for i in range(120)]})
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.total(precision="1/40000")],
        invariants=[cg.bounds(0, 20)],
        noise="discrete_gaussian",
    )
    law = mechanism.law(cg.Table(schema, np.zeros(120, int)))
    ways = np.array([1], object)
    for _ in range(120):
        ways = np.convolve(ways, np.ones(21, object))
    logs = np.array([log_of(Fraction(int(w))) for w in ways])
    base = float(np.log(float(cg.noise.DiscreteGaussian("1/40000").base)))
    assert np.isclose(law.log_normaliser(), logsumexp(logs + base * np.arange(len(ways)) ** 2.0), rtol=1e-12)


def test_steep_weights() -> None:
    """A base that is 0 in doubles works."""
    schema = cg.Schema({"cell": ["a", "b", "c"]})
    steep = cg.Mechanism(
        schema, measure=[cg.cells(precision="1"), cg.linear([50, 0, 0], precision=20)], invariants=[cg.total()]
    )
    law = steep.law(cg.Table(schema, [3, 2, 1]))
    assert np.isclose(law.log_normaliser(), law.enumerated.log_normaliser, atol=1e-12)


def test_unmeasured_cells_under_a_total_need_no_own_limit() -> None:
    schema = cg.Schema({"cell": [str(i) for i in range(6)]})
    mechanism = cg.Mechanism(
        schema, measure=[cg.cells({"cell": ["0", "1", "2"]}, precision="1")], invariants=[cg.total()]
    )
    law = mechanism.law(cg.Table(schema, [2, 0, 1, 3, 0, 1]))
    assert np.isclose(law.log_normaliser(), law.enumerated.log_normaliser, atol=1e-12)


def test_no_tables_give_no_draws() -> None:
    elimination, centres = batch(1)
    assert exact.sample_batch(elimination, centres[:0], cg.replay_rng(1)).shape == (0, 46)


def test_batches_with_other_invariants_than_the_plan() -> None:
    """The elimination of a small table, run on large ones: the buffers grow."""
    elimination, _ = batch(1)
    centres = np.array([[1] * 46, [5000] * 46, [30] * 46])
    draws = exact.sample_batch(elimination, centres, cg.replay_rng(1))
    assert np.array_equal(draws.sum(axis=1), centres.sum(axis=1))
    small = exact.elimination_of(p12_mechanism().law(cg.Table(p12_schema(), np.zeros((2, 23), int))).target)
    one = exact.sample_one(small, np.full(46, 700), cg.replay_rng(1))
    assert one.sum() == 46 * 700


def test_fractions_of_a_law_without_rounding() -> None:
    law = cg.examples.two_bins()
    a = cg.noise.DoubleGeometric("1").base
    assert EnumeratedLaw.of(law.target).normaliser == 1 + 2 * a**2 + 2 * a**4 + a**6


def test_a_thousand_nearly_empty_cells() -> None:
    """What bounds the lost mass must not grow with cells that have no room: 20 people in 1,000 cells."""
    schema = cg.Schema({"area": [str(i) for i in range(1000)]})
    counts = np.zeros(1000, np.int64)
    counts[0] = 20
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/20")], invariants=[cg.total()])
    law = mechanism.law(cg.Table(schema, counts))
    # j people stay in the first cell; the others spread over 999 cells in C(20 - j + 998, 998) ways, all alike.
    base = float(law.target.measured[0].noise.base)
    truth = sum(base ** (2 * (20 - j)) * comb(20 - j + 998, 998) for j in range(21))
    assert np.isclose(law.log_normaliser(), log(truth), rtol=0, atol=1e-11)
    draws = law.sample(50, cg.replay_rng("nearly empty"))
    assert np.all(draws.sum(axis=1) == 20)
