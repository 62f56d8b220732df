"""Every certificate of pure loss against brute force: all tables, all pairs of neighbours, all outputs.

Each test names the defect that it would catch; `test_mutants_are_caught` and the mutants beside the others show that
it does.
"""

from fractions import Fraction
from math import exp, log, nextafter

import flint
import numpy as np
import pytest

import congenial as cg
from brute import BITS, Brute, Dice, Plain, ball, cell_classes, is_at_most, random_system
from congenial.errors import PrivacyError
from congenial.noise import DiscreteGaussian, DiscreteNoise, DoubleGeometric
from congenial.privacy.bounds_and_enumerated_losses import conditional_loss
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import Case
from congenial.privacy.certify import certificate_of
from congenial.randomness import replay_rng
from drawn import drawn
from loss_systems import RELATIONS, SYSTEMS

PRECISIONS = ["1/20", "1/2", "1", "4"]

CASES = [(name, precision, relation) for name in SYSTEMS for precision in PRECISIONS for relation in RELATIONS]


def audit(system: Plain, relation: str, extra: int = 0) -> int:
    """Check both certificates of a system on every ordered pair of neighbours; return the number of pairs."""
    brute, case = Brute.of(system), system.case(relation)
    everyone = brute.pairs(relation)
    if len(everyone) == 0:
        if len(brute.tables) > 1:
            with pytest.raises(PrivacyError, match="no two of them have the same number of records"):
                certificate_of(case, system.precisions)
        else:
            assert certificate_of(case, system.precisions).kind == "singleton"
        return 0
    k = min(k for k in range(1, 40) if len(brute.pairs(relation, k))) + extra
    pairs = brute.pairs(relation, k)
    closed = certificate_of(case, system.precisions, k, try_all_pairs=False)
    best = certificate_of(case, system.precisions, k)
    assert closed.loss is not None
    assert best.loss is not None
    # In balls of 256 bits for the worst pair, in 80 bits for every other.
    worst = brute.worst(pairs)
    with flint.ctx.workprec(BITS):
        assert is_at_most(worst, closed.loss)
        assert is_at_most(worst, best.loss)
        assert ball(best.loss) - worst < 1e-9
    losses = brute.losses(pairs)
    assert (losses <= float(worst) + 1e-12).all()
    where = [float(brute.exact_loss(s, other).mid()) for s, other in pairs[:50].tolist()]
    assert np.allclose(losses[:50].astype(float), where, rtol=0, atol=1e-13), "the worst output is the table itself"
    check_renyi(brute, pairs, closed.rho, best.rho)
    return len(pairs)


def check_renyi(brute: Brute, pairs: np.ndarray, *rhos: Fraction | None) -> None:
    """Double Geometric certificates also bound Renyi divergences, at every order."""
    least = min(float(rho) for rho in rhos if rho is not None)
    for order in (1.01, 1.5, 2.0, 5.3, 20.0):
        assert brute.divergences(pairs, order).max() <= order * least + 1e-12


@pytest.mark.parametrize(("name", "precision", "relation"), CASES)
def test_no_pair_of_neighbours_exceeds_a_certificate(name: str, precision: str, relation: str) -> None:
    """Catches a bound below a true loss: a missed row, a wrong least precision, a pair that is left out."""
    audit(SYSTEMS[name](Fraction(precision)), relation)


@pytest.mark.parametrize("name", ["one total", "soft margin", "no equalities", "two-way margins", "measured range"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_more_records_than_the_fewest(name: str, relation: str) -> None:
    """Catches a bound of k records that is one record's, or that leaves out pairs fewer apart."""
    for extra in (1, 2):
        assert audit(SYSTEMS[name](Fraction(1, 2)), relation, extra) > 0


@pytest.mark.parametrize("number", range(drawn(25)))
def test_drawn_systems(number: int, request: pytest.FixtureRequest) -> None:
    """Catches combinations that nobody thought of."""
    dice = Dice(replay_rng(request.node.name))
    system = random_system(dice)
    for relation in RELATIONS:
        audit(system, relation)
    several = Brute.of(system)
    if len(several.pairs("bounded")):
        audit(system, "bounded", dice.integer(1, 3))


def worst_of(name: str, precision: str, relation: str = "bounded") -> float:
    brute = Brute.of(SYSTEMS[name](Fraction(precision)))
    k = min(k for k in range(1, 40) if len(brute.pairs(relation, k)))
    return float(brute.worst(brute.pairs(relation, k)))


def test_mutants_are_caught() -> None:
    """Wrong bounds that look right, each below a true loss of some system above."""
    half = Fraction(1, 2)
    # Conditioning said to be free.
    assert worst_of("one total", "1/2") > 1.0
    # One end of the step forgotten.
    assert worst_of("one total", "4") > float(conditional_loss(Fraction(4), Fraction(4)))
    # The largest precision taken for the smallest.
    assert worst_of("uneven precisions", "4") > float(conditional_loss(Fraction(1), Fraction(4)))
    # A soft row left out of the distance.
    assert worst_of("soft margin", "1/2") > float(conditional_loss(Fraction(1), half))
    # The limit of an unmeasured cell treated as if it were measured.
    assert worst_of("unmeasured cells", "1/2") > float(conditional_loss(half, half))
    # Two records charged as one.
    assert worst_of("two-way margins", "1/2") > float(conditional_loss(Fraction(1), half))


# ---- sharpness ----


def log_normaliser(counts: list[int], precision: str) -> float:
    schema = cg.Schema({"cell": [f"c{i}" for i in range(len(counts))]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=precision)], invariants=[cg.total()])
    return mechanism.law(cg.Table(schema, counts)).log_normaliser()


@pytest.mark.parametrize(("precision", "n_cells", "n_records"), [("1/20", 5, 115), ("1/2", 20, 43), ("1", 58, 38)])
def test_the_bound_is_approached(precision: str, n_cells: int, n_records: int) -> None:
    """All records in one cell, all other cells empty, one record moves: 0.9997 of the excess. 2 % less is no bound."""
    before = [n_records] + [0] * (n_cells - 1)
    after = [n_records - 1, 1] + [0] * (n_cells - 2)
    excess = log_normaliser(after, precision) - log_normaliser(before, precision)
    e0 = Fraction(precision)
    bound = float(conditional_loss(2 * e0, e0) - 2 * e0)
    assert bound == pytest.approx(log(2 - exp(-2 * float(e0))), rel=1e-12)
    assert 0.98 * bound < excess <= bound
    assert excess > 0.999 * bound


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_bound_of_several_records_is_approached(k: int) -> None:
    """k records from one cell to another: the excess is log(1 + k (1 - exp(-2 e0))) as a chain, which is smaller."""
    n_cells, n_records, e0 = 25, 80, Fraction(1, 2)
    before = [n_records] + [0] * (n_cells - 1)
    after = [n_records - k, k] + [0] * (n_cells - 2)
    excess = log_normaliser(after, "1/2") - log_normaliser(before, "1/2")
    chain = log(1 + k * (1 - exp(-1.0)))
    assert 0.98 * chain < excess <= chain
    assert chain <= float(conditional_loss(2 * k * e0, e0)) - 2 * k * float(e0)


def test_log_two_is_no_bound_under_a_soft_margin() -> None:
    """Cells at 0.02 under a margin at 2: an excess far above log 2, which the certificate covers."""
    schema = cg.Schema({"group": ["1", "2"], "age": [f"{i}" for i in range(10)]})
    measure = [cg.cells(precision="1/50"), cg.total({"group": "1"}, precision="2")]
    mechanism = cg.Mechanism(schema, measure=measure, invariants=[cg.total()])
    before, after = np.zeros((2, 10), int), np.zeros((2, 10), int)
    before[0, 0], after[0, 0], after[1, 0] = 100, 99, 1
    first, second = (mechanism.law(cg.Table(schema, table.tolist())) for table in (before, after))
    excess = second.log_normaliser() - first.log_normaliser()
    distance = Fraction(2) + Fraction(2, 50)
    assert excess > 1.5 > log(2)
    constraints = mechanism.disclose(cg.Table(schema, before.tolist()))
    case = Case(constraints, mechanism.classes, "double_geometric", "bounded")
    certificate = certificate_of(case, [Fraction(1, 50), Fraction(2)], try_all_pairs=False)
    assert certificate.kind == "limited_cells"
    assert "log 2" not in certificate.statement
    assert certificate.loss == conditional_loss(distance, Fraction(1, 50))
    assert float(distance) + excess <= float(certificate.loss)
    # The mutant: D + log 2.
    assert float(distance) + log(2) < float(distance) + excess


# ---- Gong and Meng's examples ----


def certify_mechanism(schema: cg.Schema, counts: object, relation: str, **parts: object) -> Certificate:
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], neighbours=relation, **parts)  # type: ignore[arg-type]
    return mechanism.certificate(mechanism.disclose(cg.Table(schema, counts)))


TWO = cg.Schema({"bin": ["first", "second"]})
NOTHING = Fraction(0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_trivial_invariants_cost_nothing(relation: str) -> None:
    """GM's example 1: no invariants and no limits, gamma = 0."""
    certificate = certify_mechanism(TWO, [2, 3], relation, invariants=[cg.bounds(None)])
    assert (certificate.kind, certificate.k, certificate.gamma) == ("equalities_only", 1, Fraction(0))
    assert certificate.loss == (1 if relation == "bounded" else Fraction(1, 2))


def test_nonnegative_cells_without_invariants_are_not_free() -> None:
    """Nonnegativity is a condition of its own: independent cells cut at 0 lose more than GM's gamma = 0."""
    certificate = certify_mechanism(TWO, [2, 3], "unbounded")
    assert certificate.kind == "limited_cells"
    assert 0 < certificate.gamma < 1


@pytest.mark.parametrize("relation", RELATIONS)
def test_one_table_loses_nothing(relation: str) -> None:
    """GM's example 3: gamma = -1."""
    certificate = certify_mechanism(TWO, [2, 3], relation, invariants=[cg.cells()])
    assert (certificate.kind, certificate.loss, certificate.rho, certificate.gamma) == (
        "singleton",
        NOTHING,
        NOTHING,
        Fraction(-1),
    )


def test_two_bins_under_both_relations() -> None:
    """A fixed total of two bins: one changed record, or one removed and one added, and both cost 2 e0."""
    parts = {"invariants": [cg.total(), cg.bounds(None)]}
    bounded = certify_mechanism(TWO, [2, 3], "bounded", **parts)
    unbounded = certify_mechanism(TWO, [2, 3], "unbounded", **parts)
    assert (bounded.kind, bounded.k, bounded.loss) == ("equalities_only", 1, Fraction(1))
    assert (unbounded.kind, unbounded.k, unbounded.loss) == ("equalities_only", 2, Fraction(1))
    assert bounded.gamma == unbounded.gamma == 0


def test_tables_of_different_sizes_are_no_bounded_neighbours() -> None:
    """A vacuous promise is refused, not certified at 0."""
    invariants = [cg.linear({"first": 1, "second": -1}, equals=1), cg.bounds(0, 5)]
    with pytest.raises(PrivacyError, match='neighbours="unbounded"'):
        certify_mechanism(TWO, [3, 2], "bounded", invariants=invariants)
    assert certify_mechanism(TWO, [3, 2], "unbounded", invariants=invariants).k == 2


def test_suppression() -> None:
    mechanism = cg.Mechanism(TWO, measure=[cg.cells()], invariants=[cg.total()], epsilon=0)
    certificate = mechanism.certificate(mechanism.disclose(cg.Table(TWO, [2, 3])))
    assert (certificate.kind, certificate.loss, certificate.rho) == ("suppression", NOTHING, NOTHING)


# ---- many kinds of cells ----


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("n_pairs", [30, 300])
def test_the_farthest_step_among_many_kinds_of_cells(n_pairs: int, noise: str) -> None:
    """Two alike cells at precision 10 among many kinds: their step is 20. Catches a shortcut that skips one kind."""
    labels = [f"c{i}" for i in range(2 * n_pairs)]
    schema = cg.Schema({"cell": labels})
    measure = [cg.cells({"cell": labels[:2]}, precision=10), cg.cells({"cell": labels[2:]}, precision="1/100")]
    measure += [cg.total({"cell": labels[2 * i : 2 * i + 2]}, precision="1/100") for i in range(1, n_pairs)]
    mechanism = cg.Mechanism(schema, measure=measure, invariants=[cg.total()], noise=noise)
    constraints = cg.Constraints.of(schema, [cg.total(equals=50)])
    precisions = [query.precision or Fraction(0) for query in mechanism.queries]
    moves = Case(constraints, mechanism.classes, noise, "bounded").moves
    power = 1 if noise == "double_geometric" else 2
    distance = Fraction(20) / power
    assert max(step.distance for step in moves.steps(precisions, power, "bounded", 1)) >= distance
    assert moves.one_record_without_invariants(precisions, power, "bounded") >= distance
    assert max(step.distance for step in moves.steps(precisions, power, "bounded", 2)) >= distance * 2**power


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("signs", [(0, 1, 2), (0, 1, -1, 2)])
def test_no_step_between_many_kinds_of_cells_is_farther(
    noise: str, signs: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    """230 kinds, past the point where pairs are no longer listed: catches squares of weights of opposite signs."""
    dice, n, power = Dice(replay_rng(request.node.name)), 230, 1 if noise == "double_geometric" else 2
    several = tuple(dice.weights(n, signs) for _ in range(12))
    ones = cell_classes(n)
    classes = (ones[:100], ones[100:], several[:4], several[4:8], several[8:])
    precisions = [dice.between("1/20", "4") for _ in classes]
    system = Plain(((0, 9),) * n, (((1,) * n, 9, 9),), classes, tuple(precisions), noise, is_open=True)
    matrix = np.array([row for rows in classes for row in rows])
    prices = np.array([float(p) for rows, p in zip(classes, precisions, strict=True) for _ in rows])
    # Every change of one record, by the definition of the distance.
    farthest = max(
        float(
            (prices[:, None] * np.abs(matrix[:, [cell]] - np.delete(matrix, cell, axis=1)) ** power).sum(axis=0).max()
        )
        for cell in range(n)
    )
    moves = system.case("bounded").moves
    assert len(moves.groups) > 200
    for k in (1, 2):
        most = max(step.distance for step in moves.steps(precisions, power, "bounded", k))
        assert float(most) >= farthest / power * k**power * (1 - 1e-12)
    assert float(moves.one_record_without_invariants(precisions, power, "bounded")) >= farthest / power * (1 - 1e-12)


# ---- rounding ----


@pytest.mark.parametrize("family", [DoubleGeometric, DiscreteGaussian])
def test_the_base_is_rounded_toward_more_noise(family: type[DiscreteNoise], request: pytest.FixtureRequest) -> None:
    """The smallest double at or above exp(-precision); rounding to nearest, the mutant, breaks the nominal loss."""
    dice, broken = Dice(replay_rng(request.node.name)), 0
    for _ in range(300):
        precision = Fraction(dice.integer(1, 10**6), dice.choice([10**3, 10**5, 10**7, 7 * 10**6]))
        precision = min(precision, Fraction(300))
        base = family(precision).base
        exponent = precision if family is DoubleGeometric else precision / 2
        with flint.ctx.workprec(BITS):
            exact = (-ball(exponent)).exp()
            assert ball(base) >= exact
            assert ball(Fraction(nextafter(float(base), 0.0))) < exact
            nearest = ball(Fraction(float(exact)))
            # Two cells with a fixed sum and no limits: the loss is 2 e0 exactly, so nothing hides a wrong rounding.
            assert -2 * ball(base).log() <= 2 * ball(exponent)
            broken += bool(-2 * nearest.log() > 2 * ball(exponent))
    assert broken > 50


@pytest.mark.parametrize("precision", ["1/1000000000", "1/1000003", "1/7", "3/7", "29", "97/3"])
def test_rounding_never_breaks_the_nominal_bound(precision: str) -> None:
    """At extreme precisions, in balls and without a tolerance."""
    for name in ("one total", "soft margin", "measured range"):
        system = SYSTEMS[name](Fraction(precision))
        brute = Brute.of(system)
        closed = certificate_of(system.case("bounded"), system.precisions, try_all_pairs=False)
        assert closed.loss is not None
        assert brute.worst(brute.pairs("bounded", closed.k)) <= ball(closed.loss)


def test_values_beyond_doubles_keep_their_differences() -> None:
    """Row values above 2^53, one apart: the defect is a certificate of 0 from differences of rounded doubles."""
    schema = cg.Schema({"cell": ["1", "2"]})
    row = cg.linear({"1": 10**9, "2": 10**9 + 1}, precision="1")
    bounds = cg.bounds(10**8, 10**8 + 1)
    mechanism = cg.Mechanism(schema, measure=[row], invariants=[cg.total(), bounds])
    certificate = mechanism.certificate(mechanism.disclose(cg.Table(schema, [10**8, 10**8 + 1])))
    assert certificate.loss is not None
    assert certificate.loss >= Fraction(999_999, 1_000_000)


def test_a_query_that_no_neighbour_moves_costs_nothing_at_one_record() -> None:
    """Only two records together move the measured sum; the words must not say that the release says nothing."""
    schema = cg.Schema({"i": ["0", "1"], "j": ["0", "1"], "h": ["0", "1"]})
    measure = [cg.total({"i": "0", "j": "0"}, precision="3")]
    mechanism = cg.Mechanism(schema, measure=measure, invariants=[cg.margin("i"), cg.margin("j"), cg.bounds(0, 9)])
    plan = mechanism.plan(mechanism.disclose(cg.Table(schema, np.full((2, 2, 2), 3))))
    assert plan.certificate.loss == 0
    assert "no measured query changes" in plan.certificate.statement
    assert "adds nothing" not in str(plan.meaning)
    assert (
        certificate_of(plan.structures[0].case, [Fraction(3)], 2).loss == 6
    )  # the cells themselves are not measured: twice D


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 5)])
@pytest.mark.parametrize("has_zero", [False, True])
def test_two_records_under_both_margins_have_four_different_ends(shape: tuple[int, int], has_zero: bool) -> None:
    """What is known without integer programs is what they find, and Gaussian noise is charged for 4, not for 8."""
    schema = cg.Schema({"i": [str(i) for i in range(shape[0])], "j": [str(j) for j in range(shape[1])]})
    zeros = [cg.structural_zeros({"i": "0", "j": "0"})] if has_zero and shape != (2, 2) else []
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.cells(precision="1")],
        invariants=[cg.margin("i"), cg.margin("j"), *zeros],
        noise="discrete_gaussian",
    )
    counts = np.full(shape, 3)
    counts[0, 0] = 0 if zeros else 3
    plan = mechanism.plan(mechanism.disclose(cg.Table(schema, counts)))
    moves = plan.structures[0].case.moves
    assert moves._has_distinct_ends("bounded", 2)
    assert max(moves._solve_most("bounded", 2)[0]) == 1
    certificate = certificate_of(plan.structures[0].case, plan.law.precisions, try_all_pairs=False)
    assert (certificate.k, certificate.rho) == (2, Fraction(2))


def test_distinct_ends_are_not_taken_for_granted() -> None:
    """A sum that counts a cell twice, or cells that no equality tells apart, may have one cell entered twice."""
    schema = cg.Schema({"cell": list("abc")})
    for row in ([2, 1, 3], [0, 0, 1]):
        mechanism = cg.Mechanism(
            schema,
            measure=[cg.cells(precision="1")],
            invariants=[cg.total(), cg.linear(row)],
            noise="discrete_gaussian",
        )
        plan = mechanism.plan(mechanism.disclose(cg.Table(schema, [9, 9, 9])))
        moves = plan.structures[0].case.moves
        assert not moves._has_distinct_ends("bounded", 2)
        assert max(moves._solve_most("bounded", 2)[0]) == 2
