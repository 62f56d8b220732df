"""Renyi divergences of conditioned noise against the certificates, on every pair of small systems.

Catches a rho that is too small, a theorem used outside its hypotheses, and orders at which a bound does not hold.
"""

from collections.abc import Callable
from fractions import Fraction
from math import log

import flint
import numpy as np
import pytest

import congenial as cg
from brute import BITS, Brute, Dice, Plain, Weights, ball, cell_classes, margins, random_system
from congenial.errors import PrivacyError
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at, rho_at_all_orders, round_up
from congenial.privacy.certificate import Certificate
from congenial.privacy.certify import certificate_of
from congenial.randomness import replay_rng
from drawn import drawn

INTEGER_ORDERS = (*range(2, 13), 16, 20, 25, 30, 40, 50)
ROUNDING = 1e-12


def laminar(dice: Dice) -> tuple[int, list[Weights]]:
    """Nested or disjoint sets of cells."""
    n = dice.integer(3, 6)
    sets = [(0, n)]
    for _ in range(dice.integer(0, 3)):
        low, high = dice.choice(sets)
        if high - low > 2:
            middle = dice.integer(low + 1, high - 1)
            sets.append(dice.choice([(low, middle), (middle, high)]))
    kept = dict.fromkeys(one for one in sets if one[1] - one[0] > 1)
    return n, [tuple(int(low <= cell < high) for cell in range(n)) for low, high in kept]


def two_way(dice: Dice) -> tuple[int, list[Weights]]:
    """Rows and columns of a table."""
    shape = dice.choice([(2, 2), (2, 3), (3, 2), (2, 4)])
    lines = margins(*shape)
    return shape[0] * shape[1], lines[: dice.integer(2, len(lines))]


def network(dice: Dice) -> tuple[int, list[Weights]]:
    """Cells are edges of a directed graph, rows are nodes."""
    n, n_nodes = dice.integer(3, 6), dice.integer(2, 4)
    ends = [(dice.integer(0, n_nodes), dice.integer(0, n_nodes)) for _ in range(n)]
    lines = [tuple(int(a == node) - int(b == node) for a, b in ends) for node in range(n_nodes)]
    return n, [line for line in lines if sum(map(bool, line)) > 1]


def intervals(dice: Dice) -> tuple[int, list[Weights]]:
    """Runs of cells, overlapping in any way."""
    n = dice.integer(3, 6)
    lines = []
    for _ in range(dice.integer(1, 4)):
        low = dice.integer(0, n - 2)
        high = dice.integer(low + 2, n)
        lines.append(tuple(int(low <= cell < high) for cell in range(n)))
    return n, list(dict.fromkeys(lines))


FAMILIES: dict[str, Callable[[Dice], tuple[int, list[Weights]]]] = {
    "laminar": laminar,
    "two-way": two_way,
    "network": network,
    "intervals": intervals,
}


def unimodular_system(family: str, dice: Dice) -> Plain:
    """Return a totally unimodular system: each row hard, limited, measured, or both of these, drawn at random."""
    while True:
        n, lines = FAMILIES[family](dice)
        box = tuple((low := dice.choice([0, 0, 0, -1]), low + dice.integer(1, 4)) for _ in range(n))
        inside = [dice.integer(*ends) for ends in box]
        rows, soft = [], []
        for line in lines:
            value = sum(w * x for w, x in zip(line, inside, strict=True))
            role = dice.integer(0, 4)
            if role <= 1:
                rows.append((line, value, value))
            if role in {2, 4}:
                rows.append((line, value - dice.integer(0, 2), value + dice.integer(0, 2)))
            if role in {3, 4}:
                soft.append((line,))
        ones = cell_classes(n)
        cut = dice.integer(1, n)
        classes = (ones[:cut], ones[cut:], *soft)
        precisions = [dice.between("1/50", "20") for _ in classes]
        if dice.chance(1, 6):
            precisions[1] = Fraction(0)
        rows = [row if row[1] != row[2] else (row[0], row[1], row[1]) for row in rows]
        system = Plain(box, tuple(rows), classes, tuple(precisions), "discrete_gaussian")
        if 3 <= len(system.tables) <= 60:
            return system


def check(certificate: Certificate, brute: Brute, relation: str, dice: Dice) -> None:
    """Check everything that a certificate says of its own pairs."""
    pairs = brute.pairs(relation, certificate.k)
    assert certificate.rho is not None
    assert certificate.rho_at_all_orders is not None
    real = [1 + float(dice.between("1/1000", "49")) for _ in range(12)]
    for order in [*INTEGER_ORDERS, 100, 1000] + (real if certificate.orders == "all" else []):
        most = brute.divergences(pairs, order).max()
        assert most <= order * float(certificate.rho) * (1 + ROUNDING) + ROUNDING, (certificate.kind, order)
    for order in real:
        most = brute.divergences(pairs, order).max()
        assert most <= order * float(certificate.rho_at_all_orders) * (1 + ROUNDING) + ROUNDING, (certificate, order)
    if certificate.loss is not None:
        assert brute.losses(pairs).max() <= float(certificate.loss) + ROUNDING
    for delta in ("1/10", "1e-3", "1e-6"):
        spent = hockey_stick(brute, pairs, float(certificate.epsilon(delta)))
        assert spent <= float(Fraction(delta)) * (1 + 1e-9), (certificate.kind, delta)


def hockey_stick(brute: Brute, pairs: np.ndarray, epsilon: float) -> float:
    """Return the smallest delta at an epsilon: ``sum_t max(0, P(t) - exp(epsilon) P'(t))``, the worst pair's."""
    p = np.exp(brute.log_probability)
    return float(np.maximum(p[pairs[:, 0]] - np.exp(np.longdouble(epsilon)) * p[pairs[:, 1]], 0).sum(axis=1).max())


@pytest.mark.parametrize("number", range(drawn(8)))
@pytest.mark.parametrize("family", FAMILIES)
def test_unimodular_systems_cost_nothing_at_integer_orders(
    family: str, number: int, request: pytest.FixtureRequest
) -> None:
    """Theorem D on all pairs, whatever their distance, and everything that the certificates say of neighbours."""
    dice = Dice(replay_rng(request.node.name))
    system = unimodular_system(family, dice)
    brute = Brute.of(system)
    pairs = brute.pairs("unbounded")
    rhos = brute.rhos(pairs)
    for order in INTEGER_ORDERS:
        found = brute.divergences(pairs, order)
        assert (found <= order * rhos * (1 + ROUNDING) + ROUNDING).all(), order
    for relation in ("bounded", "unbounded"):
        if not len(brute.pairs(relation)):
            continue
        case = system.case(relation)
        assert case.unimodularity.is_certified, case.unimodularity.why
        k = case.neighbourhood.k
        for more in (0, 1):
            assert k is not None
            closed = certificate_of(case, system.precisions, k + more, try_all_pairs=False)
            assert closed.kind in {"gaussian_unimodular", "gaussian_rank_one", "gaussian_range"}
            check(closed, brute, relation, dice)
        check(certificate_of(case, system.precisions), brute, relation, dice)


@pytest.mark.parametrize("number", range(drawn(12)))
def test_any_other_system(number: int, request: pytest.FixtureRequest) -> None:
    """Weighted rows, ranges, unmeasured cells: whatever certificate is given must hold."""
    dice = Dice(replay_rng(request.node.name))
    system = random_system(dice, "discrete_gaussian")
    brute = Brute.of(system)
    for relation in ("bounded", "unbounded"):
        if len(brute.pairs(relation)):
            case = system.case(relation)
            check(certificate_of(case, system.precisions, try_all_pairs=False), brute, relation, dice)
            check(certificate_of(case, system.precisions), brute, relation, dice)


@pytest.mark.parametrize("number", range(drawn(10)))
def test_double_geometric_noise_on_any_system(number: int, request: pytest.FixtureRequest) -> None:
    """Theorem L: D_alpha <= alpha D^2 / 2 for every pair at every order. The mutant, half of it, is broken."""
    dice = Dice(replay_rng(request.node.name))
    brute = Brute.of(random_system(dice))
    pairs = brute.pairs("unbounded")
    change = brute.tables[pairs[:, 0]] - brute.tables[pairs[:, 1]]
    distance = sum(
        (float(p) * np.abs(change @ np.array(w)).astype(np.longdouble) for w, p in brute.system.measured),
        np.zeros(len(pairs), np.longdouble),
    )
    for order in (1.0001, 1.3, 2, 3.7, 10, 50):
        found = brute.divergences(pairs, order)
        assert (found <= order * distance**2 / 2 * (1 + ROUNDING) + ROUNDING).all()


def test_a_smaller_charge_for_double_geometric_noise_is_caught() -> None:
    """Two far tables at a low precision reach nearly all of D^2 / 2: 0.9 of it is no bound."""
    system = Plain(((0, 1),), (), (((1,),),), (Fraction(1, 20),))
    brute = Brute.of(system)
    most = brute.divergences(brute.pairs("unbounded"), 1.001).max()
    half = float(Fraction(1, 20)) ** 2 / 2
    wide = Brute.of(Plain(((0, 200),), (), (((1,),),), (Fraction(1, 20),)))
    middle = np.array([[100, 101]])
    assert most <= 1.001 * half
    assert 0.9 * 1.001 * half < wide.divergences(middle, 1.001).max() <= 1.001 * half


# ---- orders that are not integers ----


def bracket(order: flint.arb, sigma_squared: Fraction) -> flint.arb:
    """Return ``[g(order) - order g(1) + (order - 1) g(0)] / (order - 1)`` of three cells with total 21, in balls."""
    first, other = (1, 10, 10), (1, 9, 11)
    scale = ball(2 * sigma_squared)

    def g(x: flint.arb) -> flint.arb:
        centre = [b + x * (a - b) for a, b in zip(first, other, strict=True)]
        tables = ((i, j, 21 - i - j) for i in range(22) for j in range(22 - i))
        squares = (sum(((t - c) ** 2 for t, c in zip(table, centre, strict=True)), flint.arb(0)) for table in tables)
        return sum(((-square / scale).exp() for square in squares), flint.arb(0)).log()

    return (g(order) - order * g(flint.arb(1)) + (order - 1) * g(flint.arb(0))) / (order - 1)


def test_the_bound_fails_at_an_order_that_is_no_integer() -> None:
    """One total, order 3/2: above 3/2 rho by 2.1e-7. A certificate that claimed all orders would be false."""
    with flint.ctx.workprec(BITS):
        excess = bracket(flint.arb(3) / 2, Fraction(7, 5))
        assert excess.rad() < 1e-40
        assert round(float(excess) * 1e7, 1) == 2.1
        for order in (2, 3, 4, 10):
            assert bracket(flint.arb(order), Fraction(7, 5)) < 0
    total: tuple[tuple[Weights, int, int], ...] = (((1, 1, 1), 21, 21),)
    system = Plain(((0, 21),) * 3, total, (cell_classes(3),), (Fraction(5, 7),), "discrete_gaussian", is_open=True)
    certificate = certificate_of(system.case("bounded"), system.precisions, try_all_pairs=False)
    assert (certificate.kind, certificate.orders) == ("gaussian_unimodular", "integer")
    assert certificate.rho == Fraction(5, 7)
    assert certificate.rho_at_all_orders is not None
    assert certificate.rho_at_all_orders > certificate.rho


def test_seven_percent_above_at_orders_near_one() -> None:
    """Seven cells, three overlapping totals: KL is 1.072 rho, and the bound for all orders covers it."""
    rows = ((1, 1, 1, 1, 1, 1, 1), (1, 1, 1, 0, 0, 1, 0), (1, 0, 0, 1, 0, 1, 0))
    other, first = (1, 4, 0, 2, 2, 1, 3), (1, 3, 0, 1, 3, 2, 3)
    upper = (1, 6, 3, 6, 4, 3, 3)
    limits = tuple((row, v, v) for row in rows for v in [sum(w * x for w, x in zip(row, first, strict=True))])
    box = tuple((0, top) for top in upper)
    system = Plain(box, limits, (cell_classes(7),), (1 / Fraction("0.4725"),), "discrete_gaussian")
    brute = Brute.of(system)
    assert len(brute.tables) == 91
    place = {tuple(table): number for number, table in enumerate(brute.tables.tolist())}
    pair = np.array([[place[first], place[other]]])
    rho = float(brute.rhos(pair)[0])
    assert brute.divergences(pair, 1.0001)[0] / rho == pytest.approx(1.072, abs=1e-3)
    case = system.case("bounded")
    assert case.unimodularity.is_certified
    assert brute.divergences(pair, 1.01)[0] > 1.01 * rho
    for order in (1.0001, 1.01, 1.5, 2.5):
        assert brute.divergences(pair, order)[0] <= order * float(rho_at_all_orders(round_up(Fraction(rho))))


# ---- systems that are not unimodular ----


def forked(n_legs: int, *, is_hard: bool) -> Plain:
    """Return x in 0..2 and legs y_j with 0 <= x + 2 y_j <= 2: legs are free at x = 0 and x = 2, pinned between.

    The middle table has fewer tables near it than its two neighbours have, which no unimodular system allows.
    """
    legs = range(n_legs)
    rows: list[tuple[Weights, int, int]] = []
    width = 1 + n_legs * (2 if is_hard else 1)
    for j in legs:
        weights = [0] * width
        weights[0], weights[1 + j] = 1, 2
        if is_hard:  # the slack is a cell without noise
            weights[1 + n_legs + j] = 1
        rows.append((tuple(weights), 2, 2) if is_hard else (tuple(weights), 0, 2))
    box = ((0, 2), *((-1, 1) for _ in legs), *((0, 2) for _ in legs if is_hard))
    measured = cell_classes(width)[: 1 + n_legs]
    return Plain(tuple(box), tuple(rows), (measured,), (Fraction(4),), "discrete_gaussian")


@pytest.mark.parametrize("is_hard", [False, True])
def test_a_certifier_that_skipped_the_check_would_be_caught(is_hard: bool, request: pytest.FixtureRequest) -> None:
    """Weighted rows: D_2 is above 2 rho by more than 10 %, so a certificate from unimodularity would be false."""
    system = forked(3 if is_hard else 4, is_hard=is_hard)
    brute = Brute.of(system)
    near = np.argwhere(brute.rhos(brute.pairs("unbounded")) <= 2.0)[:, 0]
    pairs = brute.pairs("unbounded")[near]
    ratio = (brute.divergences(pairs, 2) / (2 * brute.rhos(pairs))).max()
    assert ratio > (1.04 if is_hard else 1.08)
    case = system.case("unbounded")
    assert case.unimodularity.is_refuted
    for closed in (True, False):
        certificate = certificate_of(case, system.precisions, try_all_pairs=not closed)
        assert certificate.kind != "gaussian_unimodular"
        check(certificate, brute, "unbounded", Dice(replay_rng(request.node.name)))


def test_refused_when_no_theorem_applies() -> None:
    """Weighted rows, cells without upper limits, infinitely many tables: no certificate at all."""
    schema = cg.Schema({"cell": ["a", "b", "c"]})
    invariants = [cg.linear({"a": 1, "b": 2, "c": -3})]
    for noise, is_given in (("discrete_gaussian", False), ("double_geometric", True)):
        mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=1)], invariants=invariants, noise=noise)
        constraints = mechanism.disclose(cg.Table(schema, [3, 3, 3]))
        if is_given:
            assert mechanism.certificate(constraints).kind == "limited_cells"
        else:
            with pytest.raises(PrivacyError, match="no certificate"):
                mechanism.certificate(constraints)


@pytest.mark.parametrize(
    "rows",
    [
        [((1, 2, 3, 0), 12)],
        [((2, 1, 1, 1), 9), ((0, 1, 1, 0), 4)],
        [((1, 1, 0, 0), 4), ((0, 1, 1, 0), 4), ((1, 0, 1, 0), 4)],
    ],
)
def test_weighted_and_crossing_rows_are_never_called_unimodular(rows: list[tuple[Weights, int]]) -> None:
    """Measured or hard: catches a check that looks at the equalities alone, or at the signs alone."""
    box, ones = ((0, 4),) * 4, cell_classes(4)
    hard = Plain(box, tuple((w, v, v) for w, v in rows), (ones,), (Fraction(1),), "discrete_gaussian")
    soft = Plain(box, (), (ones, tuple(w for w, _ in rows)), (Fraction(1), Fraction(1)), "discrete_gaussian")
    ranges = Plain(box, tuple((w, v - 1, v + 1) for w, v in rows), (ones,), (Fraction(1),), "discrete_gaussian")
    for system in (hard, soft, ranges):
        case = system.case("unbounded")
        if case.neighbourhood.k is None or case.is_rank_one:
            continue
        found = certificate_of(case, system.precisions, try_all_pairs=False)
        assert found.kind == "gaussian_range", system
        assert not case.unimodularity.is_certified


# ---- conversions ----


def best_epsilon(rho: Fraction, delta: Fraction) -> flint.arb:
    """Minimise over the orders 2 to 10,000 in balls."""
    with flint.ctx.workprec(128):
        need, rate, best = -ball(delta).log(), ball(rho), None
        for k in range(2, 10_001):
            value = k * rate + (need - flint.arb(k - 1).log() + k * (1 - 1 / flint.arb(k)).log()) / (k - 1)
            best = value if best is None or value < best else best
        assert best is not None
        return best


TABLE = {
    "0.01": "0.864", "0.1": "2.882", "0.5": "6.859", "1": "10.065", "2.56": "17.166", "5": "25.558", "10": "40.558",
    "20": "61.640", "40": "101.640",
}  # fmt: skip


@pytest.mark.parametrize("rho", TABLE)
def test_epsilon_at_a_delta(rho: str) -> None:
    """The published figures, and a direct minimisation: catches a wrong order, a wrong sign, rounding down."""
    found = epsilon_at(Fraction(rho), Fraction(1, 10**10))
    assert abs(round_up(found, 3) - Fraction(TABLE[rho])) <= Fraction(1, 1000)
    direct = best_epsilon(Fraction(rho), Fraction(1, 10**10))
    assert direct <= ball(found)
    assert ball(found) - direct < 1e-14
    # delta = min_k exp((k - 1)(k rho - epsilon)) / (k - 1) (1 - 1/k)^k at the epsilon found, by another route.
    rate, eps = float(Fraction(rho)), float(found)
    deltas = [(k - 1) * (k * rate - eps) - log(k - 1) + k * log(1 - 1 / k) for k in range(2, 200)]
    assert min(deltas) == pytest.approx(-10 * log(10), abs=1e-9)


def test_census_budget() -> None:
    assert round_up(epsilon_at(Fraction("2.56"), Fraction(1, 10**10)), 3) == Fraction("17.166")


@pytest.mark.parametrize("delta", ["1/2", "1e-3", "1e-18"])
def test_epsilon_at_other_deltas(delta: str, request: pytest.FixtureRequest) -> None:
    dice = Dice(replay_rng(request.node.name))
    for _ in range(3):
        rho = dice.between("1/100", "30")
        found, direct = epsilon_at(rho, Fraction(delta)), best_epsilon(rho, Fraction(delta))
        with flint.ctx.workprec(128):
            assert ball(found) >= direct
            assert found == 0 or ball(found) - direct < 1e-14


@pytest.mark.parametrize("rho", ["1e-6", "1/100", "1/2", "2", "30"])
def test_rho_at_all_orders(rho: str) -> None:
    """min(2 rho, arccosh(exp(2 rho))^2 / 4), rounded up, in balls by another formula."""
    exact = Fraction(rho)
    found = rho_at_all_orders(exact)
    with flint.ctx.workprec(BITS):
        closed = (2 * ball(exact)).exp().acosh() ** 2 / 4
        assert ball(found) >= closed or found == 2 * exact
        assert found == 2 * exact or ball(found) - closed < 1e-14
        assert not closed < ball(found) - flint.arb("1e-14")
    assert exact < found <= 2 * exact
