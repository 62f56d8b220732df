"""Measured releases: losses by enumeration of lattices, and certificates against every pair of tables.

docs/claims/measured.md has the theorems. Each test names the defect that it would catch, and mutants show that it does.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, inf

import flint
import numpy as np
import pytest

import congenial as cg
from brute import Dice, Plain, ball, cell_classes, random_system, records_apart
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import PrivacyError
from congenial.noise import FAMILIES
from congenial.privacy.budget import Budget
from congenial.privacy.calibrate import PrecisionRequest, calibrate
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import Case, Change, charged_change, determined_queries, distance_of
from congenial.privacy.certify import certificate_of, certify, check_lattice
from congenial.privacy.compose_and_price_areas import PricedAreas, Pricing, over_areas
from congenial.privacy.moves import Moves, Step
from congenial.randomness import replay_rng
from congenial.sampling.lattice_noise.system import noise_space
from drawn import drawn
from lattice_audit import (
    Ints,
    Lattice,
    Release,
    Tally,
    TwoLaws,
    drawn_release,
    kernel,
    loss_of,
    points_in_box,
    short,
    side_by_side,
)
from loss_systems import RELATIONS, SYSTEMS

NOISES = ["double_geometric", "discrete_gaussian"]
HALF = Fraction(1, 2)


# ---- the theorem, by enumeration ----


def test_kernels_are_whole(request: pytest.FixtureRequest) -> None:
    """Catches a basis of a sublattice: what elimination over the rationals gives."""
    dice = Dice(replay_rng(request.node.name))
    for _ in range(drawn(30)):
        n = dice.integer(2, 4)
        matrix = np.array([dice.weights(n, (0, 1, 2, 3, -2, 6)) for _ in range(dice.integer(1, n - 1))], np.int64)
        basis, points = kernel(matrix), points_in_box(matrix, 3)
        assert not (basis @ matrix.T).any()
        for point in points:
            if len(basis):
                lattice = Lattice(basis, (Fraction(1),) * n)
                assert lattice.coefficients(np.array(point)) is not None
            else:
                assert not any(point)


def test_the_loss_of_measurements_is_their_distance(request: pytest.FixtureRequest) -> None:
    """Catches a loss other than D, a kernel that raises it, and a lattice that misses a change yet looks finite."""
    tally = Tally()
    for number in range(drawn(200)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        tally.pure(drawn_release(dice, 1), dice)
    tally.check()
    assert tally.pure_pairs >= 200
    assert tally.misses > 200


def test_renyi_divergences_are_at_most_the_order_times_rho(request: pytest.FixtureRequest) -> None:
    """Catches a bound that holds at integer orders only, and an integer order at which it is not attained."""
    tally = Tally()
    for number in range(drawn(200)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        tally.gaussian(drawn_release(dice, 2), dice)
    tally.check()
    assert tally.divergences > 1500


def test_areas_add_up(request: pytest.FixtureRequest) -> None:
    """Catches a product law that is priced by its worst part alone: one record may leave an area for another."""
    for number in range(drawn(40)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        exponent = dice.choice([1, 2])
        areas: list[Release] = []
        while len(areas) < 2:
            release = drawn_release(dice, exponent)
            if release.lattice.rank == 1 and release.lattice.reach < 60:
                areas.append(release)
        changes = [release.change(dice) for release in areas]
        joint = side_by_side(*(release.lattice for release in areas))
        laws = TwoLaws.of(joint, np.concatenate(changes), 3.0 if exponent == 2 else 1.0)
        assert laws is not None
        apart = sum(float(release.lattice.distance(z)) for release, z in zip(areas, changes, strict=True))
        if exponent == 1:
            assert laws.loss() == pytest.approx(apart, abs=1e-12)
        else:
            assert laws.divergence(3.0) == pytest.approx(3 * apart, rel=1e-12)
            assert laws.divergence(2.3) <= 2.3 * apart + 1e-12


def test_no_table_is_unbiased_and_nonnegative() -> None:
    """M5, on two cells with a fixed sum: what clamping adds at 0 is at least exp(-D) of the mean at 1."""
    for precision in ("1/4", "1", "3"):
        lattice = Lattice(np.array([[1, -1]]), (Fraction(precision),) * 2)
        laws = TwoLaws.of(lattice, np.array([-1, 1]))  # x = (0, n), x' = (1, n - 1): n_1 = 1 + noise
        assert laws is not None
        table = np.maximum(laws.noise[:, 0] + 1, 0)
        means = [float((np.exp(law) * table).sum()) for law in (laws.first, laws.second)]
        assert means[0] >= exp(-laws.loss()) * means[1] - 1e-12
        assert means[0] > 0


# ---- the whole certificate against every pair of tables ----


def measured_case(system: Plain, neighbours: str) -> Case:
    return replace(system.case(neighbours), method="measured")


def differences(system: Plain, neighbours: str, k: int) -> Ints:
    """Return the differences of all ordered pairs of tables at most k records apart, each once."""
    tables = system.tables
    apart = records_apart(tables, neighbours)
    pairs = np.argwhere((apart > 0) & (apart <= k))
    return np.unique(tables[pairs[:, 0]] - tables[pairs[:, 1]], axis=0)


def distances(system: Plain, changes: Ints) -> list[Fraction]:
    """Return D(z), or rho(z), of each difference, row by row in fractions."""
    power = FAMILIES[system.noise].exponent
    out = [Fraction(0)] * len(changes)
    for weights, precision in system.measured:
        values = np.abs(changes @ np.array(weights)) ** power
        out = [d + precision * v / power for d, v in zip(out, values.tolist(), strict=True)]
    return out


def amount(certificate: Certificate) -> Fraction:
    value = certificate.rho if certificate.kind == "measured_gaussian" else certificate.loss
    assert value is not None
    return value


def fewest(system: Plain, neighbours: str) -> int | None:
    apart = records_apart(system.tables, neighbours)
    return int(apart[apart > 0].min()) if (apart > 0).any() else None


def audit(system: Plain, neighbours: str, extra: int = 0, *, is_bound: bool = False) -> tuple[int, int]:
    """Hold the certificate against every pair; return how many pairs there are, and whether one attains it."""
    case, k = measured_case(system, neighbours), fewest(system, neighbours)
    if k is None:
        if len(system.tables) == 1:
            assert certificate_of(case, system.precisions).kind == "singleton"
        return 0, 0
    k += extra
    certificate = certificate_of(case, system.precisions, k)
    assert certificate.kind == (
        "measured_gaussian" if system.noise == "discrete_gaussian" else "measured_double_geometric"
    )
    assert certificate.orders == "all"
    assert certificate.rho_at_all_orders == certificate.rho
    if system.noise == "discrete_gaussian":
        assert certificate.loss is None
    else:
        assert certificate.loss is not None
        assert certificate.rho == certificate.loss**2 / 2
    changes = differences(system, neighbours, k)
    charges = distances(system, changes)
    assert max(charges) <= amount(certificate)
    # Where the change that is charged is one between tables of S*, nothing is charged in excess.
    witness = charged_change(case, system.precisions, k)
    assert witness is not None
    vector = [0] * len(system.box)
    for cell, size in witness.entries:
        vector[cell] = size
    assert distance_of(case, witness, system.precisions) <= amount(certificate)
    is_there = (changes == np.array(vector)).all(axis=1).any()
    if k == 1 and is_there and not is_bound:
        assert max(charges) == amount(certificate)
    return len(changes), int(max(charges) == amount(certificate))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_no_pair_exceeds_the_certificate(name: str, relation: str, noise: str) -> None:
    """Catches a measured row left out, a pair left out, a pinned cell that is charged, k records priced as one."""
    for extra in (0, 1, 2):
        audit(replace(SYSTEMS[name](HALF), noise=noise), relation, extra)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("number", range(drawn(20)))
def test_drawn_systems(number: int, noise: str, request: pytest.FixtureRequest) -> None:
    """Catches combinations that nobody thought of."""
    dice = Dice(replay_rng(request.node.name))
    for relation in RELATIONS:
        audit(random_system(dice, noise), relation, dice.choice([0, 0, 1, 2]))


def test_most_certificates_are_attained(request: pytest.FixtureRequest) -> None:
    """Catches a surcharge for limits: conditioning on equalities alone costs nothing, and nothing else is charged."""
    dice, n, attained = Dice(replay_rng(request.node.name)), 0, 0
    for _ in range(drawn(60)):
        pairs, hit = audit(random_system(dice, dice.choice(NOISES)), dice.choice(RELATIONS))
        n, attained = n + bool(pairs), attained + hit
    assert attained > 0.6 * n
    system = SYSTEMS["one total"](HALF)
    conditional = certificate_of(system.case("bounded"), system.precisions, try_all_pairs=False)
    measured = certificate_of(measured_case(system, "bounded"), system.precisions)
    assert measured.loss == 1
    assert conditional.loss is not None
    assert conditional.loss > 1.48


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_enumerated_law_of_a_certified_case(relation: str, request: pytest.FixtureRequest) -> None:
    """From the case to the noise's lattice to the loss of the worst pair: catches a mismatch between two of them."""
    dice, n_checked = Dice(replay_rng(request.node.name)), 0
    while n_checked < drawn(12):
        system = random_system(dice)
        k = fewest(system, relation)
        lattice = lattice_of(system, [limited.row for limited in system.constraints.equalities])
        if k is None or not 1 <= lattice.rank <= 3 or lattice.n_points(8) > 60_000:
            continue
        n_checked += 1
        loss = certificate_of(measured_case(system, relation), system.precisions, k).loss
        assert loss is not None
        rows = np.array([weights for weights, _ in system.measured], np.int64)
        changes = differences(system, relation, k)
        charges = distances(system, changes)
        worst = changes[int(np.argmax([float(d) for d in charges]))]
        enumerated = loss_of(lattice, rows @ worst)
        assert enumerated == pytest.approx(float(max(charges)), abs=1e-12)
        assert enumerated <= float(loss) + 1e-12


def lattice_of(system: Plain, equalities: Sequence[Row]) -> Lattice:
    """Return the lattice of the answers of noise that keeps some rows, and cells that are pinned."""
    n, pinned = len(system.box), list(system.constraints.quick_bounds.pinned)
    still = [Row.of("", [cell]) for cell in pinned]
    changes = kernel(dense([*equalities, *still], n))
    rows = np.array([weights for weights, _ in system.measured], np.int64)
    return Lattice(short(changes @ rows.T), tuple(precision for _, precision in system.measured))


def noisy_system(dice: Dice) -> Plain:
    """Return a drawn system whose law of noise is small enough to enumerate."""
    while True:
        system = random_system(dice)
        lattice = lattice_of(system, [limited.row for limited in system.constraints.equalities])
        if fewest(system, "bounded") is not None and 1 <= lattice.rank <= 2 and lattice.n_points(8) < 40_000:
            return system


# ---- several areas ----


def areas_of(system: Plain, tables: Sequence[Sequence[int]], neighbours: str) -> Pricing:
    """Return areas with the rows of a system, each with the values of a table of its own."""
    made: list[Condition] = []
    for weights, low, high in system.rows:
        named = {f"c{i}": w for i, w in enumerate(weights) if w}
        made.append(cg.linear(named) if low == high else cg.linear(named, at_least=low, at_most=high))
    for i, (low, high) in enumerate(system.box):
        made.append(cg.bounds(low, None if system.is_open else high, where={"cell": f"c{i}"}))
    own = {f"area {number}": np.array(table) for number, table in enumerate(tables)}
    areas = Areas.disclosed(system.schema, made, own, name="county")
    return Pricing(areas, system.case(neighbours).classes, system.noise, neighbours, 1, "measured")


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [(), (((1, 1, 1), 3, 3),), (((1, 1, 0), 2, 2),)], ids=["open", "total", "a part"])
def test_areas_against_every_pair(rows: tuple[object, ...], relation: str, noise: str) -> None:
    """One record inside an area or from one to another: catches a passing record that is charged in one of them."""
    ones = cell_classes(3)
    classes = (ones, ((1, 1, 1), (1, 0, 0)))
    system = Plain(((0, 3),) * 3, rows, classes, (HALF, Fraction(3, 4)), noise)  # type: ignore[arg-type]
    pricing = areas_of(system, [(2, 0, 1), (1, 1, 1)], relation)
    if relation == "unbounded" and rows and rows[0][0] == (1, 1, 1):  # type: ignore[index]
        with pytest.raises(PrivacyError, match="no change of one record is possible in any area"):
            pricing.certificate(system.precisions)
        return
    certificate = pricing.certificate(system.precisions)
    assert (certificate.kind, certificate.orders) == ("composition", "all")
    assert certificate.rho_at_all_orders == certificate.rho
    assert (certificate.loss is None) == (noise == "discrete_gaussian")
    assert any(reason.startswith("inside an area, charged: one record") for reason in certificate.reasons)
    tables, power = system.tables, FAMILIES[noise].exponent
    worst = Fraction(0)
    moves = [tuple(z) for z in np.unique((tables[:, None] - tables[None]).reshape(-1, 3), axis=0).tolist()]
    for first, second in product(moves, repeat=2):
        both = [*first, *second]
        norm, balance = sum(map(abs, both)), sum(both)
        if 0 < norm <= (2 if relation == "bounded" else 1) and (relation == "unbounded" or balance == 0):
            worst = max(worst, sum(distances(system, np.array([first, second])), Fraction(0)))
    bound = certificate.rho if power == 2 else certificate.loss
    assert bound is not None
    assert worst == bound
    if relation == "bounded" and not rows:
        assert any(
            reason.startswith("from one area to another, charged: one record of") for reason in certificate.reasons
        )


def test_structures_of_many_areas_are_measured_too(request: pytest.FixtureRequest) -> None:
    """Catches a method that is lost where areas share a case; the reasons and orders of all areas together."""
    system = SYSTEMS["one total"](HALF)
    dice = Dice(replay_rng(request.node.name))
    tables = [tuple(dice.integer(0, 3) for _ in range(4)) for _ in range(30)]
    pricing = areas_of(system, tables, "bounded")
    assert {structure.case.method for structure in pricing.structures} == {"measured"}
    assert not pricing.has_small_sets
    together = pricing.certificate(system.precisions)
    assert (together.loss, together.rho, together.orders) == (Fraction(1), HALF, "all")
    alone = [PricedAreas(replace(structure.case, shared=None), system.precisions) for structure in pricing.structures]
    assert over_areas(alone).loss == together.loss


# ---- what is charged, in integers ----


def test_the_charged_change_is_named() -> None:
    system = SYSTEMS["one total"](HALF)
    certificate = certificate_of(measured_case(system, "bounded"), system.precisions)
    assert certificate.reasons == ("charged: one record from cell=c1 to cell=c0, D = 1; exact sums stay",)
    assert "docs/claims/measured.md" in str(certificate)
    three = certificate_of(measured_case(system, "bounded"), system.precisions, 3)
    assert three.reasons[0].startswith("charged: 3 records from cell=c1 to cell=c0, D = 3")
    margins = SYSTEMS["two-way margins"](HALF)
    tied = certificate_of(measured_case(margins, "bounded"), margins.precisions)
    assert tied.k == 2
    assert "by +1" in tied.reasons[0]
    added = SYSTEMS["no equalities"](HALF)
    assert "one record of cell=c0" in certificate_of(measured_case(added, "unbounded"), added.precisions).reasons[0]


BAD_CHANGES = {
    "an exact number moves": (Change(((0, 1),)), "unbounded", "moves an exact number"),
    "a determined cell moves": (Change(((3, 1),)), "unbounded", "determine"),
    "two records": (Change(((1, 1), (2, -1))), "unbounded", "a change of 2 records is charged as one of 1"),
    "no changed record": (Change(((1, 1),)), "bounded", "a change of None records"),
}


@pytest.mark.parametrize("name", BAD_CHANGES)
def test_a_change_outside_of_the_lattice_is_never_charged(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants of what is charged, each caught by the assertion in integers."""
    change, relation, words = BAD_CHANGES[name]
    box = ((0, 4), (0, 4), (0, 4), (2, 2))
    system = Plain(box, (((1, 0, 2, 0), 4, 4),), (cell_classes(4),), (HALF,))
    if relation == "bounded":
        system = replace(system, rows=(((1, 1, 1, 0), 4, 4),))
    case = measured_case(system, relation)
    assert certificate_of(case, system.precisions).k == 1
    monkeypatch.setattr(Case, "changes_of_one_record", lambda _case, _relation: {(2,): change})
    with pytest.raises(PrivacyError, match=f"internal: .*{words}"):
        certificate_of(case, system.precisions)


@pytest.mark.parametrize("noise", NOISES)
def test_a_halved_loss_is_caught(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant charges half of the distance: the change that is charged says so, and the enumeration too."""
    system = replace(SYSTEMS["soft margin"](HALF), noise=noise)
    case = measured_case(system, "bounded")
    right = amount(certificate_of(case, system.precisions))
    assert max(distances(system, differences(system, "bounded", 1))) > right / 2
    steps = Moves.steps

    def halved(moves: Moves, *arguments: object) -> list[Step]:
        return [Step(step.distance / 2, step.least) for step in steps(moves, *arguments)]  # type: ignore[arg-type]

    monkeypatch.setattr(Moves, "steps", halved)
    with pytest.raises(PrivacyError, match="internal: a change of records has a larger distance than is charged"):
        certificate_of(case, system.precisions)


def test_several_records_cost_their_square_in_rho() -> None:
    """The mutant charges k times the rho of one record: below that of a pair."""
    system = replace(SYSTEMS["one total"](HALF), noise="discrete_gaussian")
    case = measured_case(system, "bounded")
    one, two = (amount(certificate_of(case, system.precisions, k)) for k in (1, 2))
    enumerated = max(distances(system, differences(system, "bounded", 2)))
    assert two == enumerated == 4 * one
    assert enumerated > 2 * one  # the mutant
    pure = SYSTEMS["one total"](HALF)
    of_two = certificate_of(measured_case(pure, "bounded"), pure.precisions, 2)
    assert of_two.loss == max(distances(pure, differences(pure, "bounded", 2))) == 2


@pytest.mark.parametrize("factor", [2, -3])
def test_scaled_rows_change_nothing(factor: int) -> None:
    """An exact sum times a number is the same condition: certificate, lattice and law stay."""
    plain = Plain(((0, 6),) * 3, (((1, 2, 2), 6, 6),), (cell_classes(3),), (HALF,))
    scaled = replace(plain, rows=((tuple(factor * w for w in (1, 2, 2)), 6 * factor, 6 * factor),))
    first, second = (certificate_of(measured_case(one, "bounded"), one.precisions) for one in (plain, scaled))
    assert (first.k, first.loss, first.rho) == (second.k, second.loss, second.rho)
    row = Row.weighted({0: factor, 1: 2 * factor, 2: 2 * factor}, name="scaled")
    check_lattice([row], [], plain.constraints)
    z = np.array([0, 1, -1])
    assert loss_of(lattice_of(plain, [row]), z) == pytest.approx(1.0, abs=1e-12)
    # The mutant takes multiples of the factor for all solutions.
    whole = lattice_of(plain, [row])
    assert loss_of(replace(whole, basis=factor * whole.basis), z) == inf


def test_too_many_pairs_of_cells(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pairs are not gone through one by one, a bound is charged, and a change below it is named."""
    dice = Dice(replay_rng(request.node.name))
    for module in ("moves", "certificate_inputs"):
        monkeypatch.setattr(f"congenial.privacy.{module}.MOST_PAIRS", 1)
    for noise, relation in product(NOISES, RELATIONS):
        for _ in range(drawn(10)):
            audit(random_system(dice, noise), relation, is_bound=True)
    system = Plain(((0, 4),) * 3, (), ((*cell_classes(3), (1, 1, 0)),), (HALF,))
    certificate = certificate_of(measured_case(system, "bounded"), system.precisions)
    assert certificate.loss == 2  # the sum of two ends; one pair after another, it is 3/2
    assert certificate.reasons[0].startswith("charged: a bound, D 2; such a change: one record from")


# ---- where the noise lives ----


def test_lattices_that_hold_every_change_pass(request: pytest.FixtureRequest) -> None:
    """The noise of drawn systems, in cells or in answers, has every difference of two tables, at the charged weight."""
    dice, n_answers = Dice(replay_rng(request.node.name)), 0
    for _ in range(drawn(40)):
        system = random_system(dice)
        if dice.chance(1, 3):  # cells that are measured in sums only
            classes = (tuple(dice.weights(len(system.box), (0, 1, 1, 2)) for _ in range(2)),)
            system = replace(system, classes=classes, precisions=(HALF,))
        constraints, case = system.constraints, measured_case(system, "unbounded")
        equalities = [limited.row for limited in constraints.equalities]
        pinned = list(constraints.quick_bounds.pinned)
        mobile = sorted(set(range(len(system.box))) - set(pinned))
        space = noise_space(equalities, case.measured(system.precisions), mobile)
        n_answers += not all(len(row.cells) == 1 for row in space.coordinates)
        check_lattice(space.system.equalities, pinned, constraints, coordinates=space.coordinates)
        tables = system.tables
        for z in np.unique((tables[:, None] - tables[None]).reshape(-1, len(system.box)), axis=0)[::7]:
            noise = np.array([row.value(z) for row in space.coordinates], np.int64)
            assert space.system.holds(noise[None, :])
            assert (space.answers @ noise).tolist() == [one.row.value(z) for one in case.measured(system.precisions)]
            weight = Fraction(1)
            for value, one in zip(noise.tolist(), space.system.weights, strict=True):
                weight *= one.at(value)
            for soft in space.system.soft:
                weight *= soft.weight.at(soft.row.value(noise.tolist()))
            (charge,) = distances(system, z[None, :])
            with flint.ctx.workprec(256):
                gap = ball(charge) + ball(weight).log()  # bases are rounded up: toward more noise
                assert gap > -1e-60
                assert gap < 1e-12
    assert n_answers > 5


def test_one_row_too_many_is_refused_and_has_infinite_loss(request: pytest.FixtureRequest) -> None:
    """Noise that keeps a sum which is not exact: refused in integers, and the enumeration shows why."""
    dice, n_seen = Dice(replay_rng(request.node.name)), 0
    while n_seen < drawn(15):
        system = noisy_system(dice)
        constraints, n = system.constraints, len(system.box)
        equalities = [limited.row for limited in constraints.equalities]
        changes = differences(system, "bounded", fewest(system, "bounded") or 1)
        extra = Row.weighted(dict(enumerate(dice.weights(n, (0, 1, 1, 2)))), name="not exact")
        moved = [z for z in changes if extra.value(z)]
        if not moved:
            continue
        rows = np.array([weights for weights, _ in system.measured], np.int64)
        visible = [z for z in moved if (rows @ z).any()]
        if not visible:
            continue
        n_seen += 1
        check_lattice(equalities, constraints.quick_bounds.pinned, constraints)
        check_lattice(equalities[1:], (), constraints)  # fewer rows: larger noise, and safe
        with pytest.raises(PrivacyError, match="internal: noise is conditioned on not exact"):
            check_lattice([*equalities, extra], (), constraints)
        loose = next(cell for cell, size in enumerate(visible[0].tolist()) if size)
        with pytest.raises(PrivacyError, match=f"internal: noise is conditioned on cell=c{loose}"):
            check_lattice(equalities, [loose], constraints)
        assert loss_of(lattice_of(system, equalities), rows @ visible[0]) < inf
        narrow = lattice_of(system, [*equalities, extra])
        if narrow.coefficients(rows @ visible[0]) is None:  # unless other noise gives the same answers
            assert loss_of(narrow, rows @ visible[0]) == inf


def test_cells_that_only_programs_pin_may_stay_without_noise() -> None:
    """2 a + 3 b + 3 c = 7 and counts: b + c = 1 and a = 2, which intervals alone do not see."""
    schema = cg.Schema({"cell": ["a", "b", "c"]})
    constraints = cg.Constraints.of(schema, [cg.linear({"a": 2, "b": 3, "c": 3}, equals=7)])
    if 0 not in constraints.quick_bounds.pinned:
        assert 0 in constraints.cell_bounds.pinned
    check_lattice([Row.of("b and c", [1, 2])], [0], constraints)
    with pytest.raises(PrivacyError, match="internal: noise is conditioned on cell=b"):
        check_lattice([], [0, 1], constraints)


# ---- calibration ----

LINE = cg.Schema({"cell": list("abcde")})
# One record passes between a and b only: c, d and e move in larger changes, together.
TIED: list[Condition] = [
    cg.linear({"a": 1, "b": 1, "c": 1}),
    cg.linear({"c": 1, "d": 1, "e": 2}),
]


Query = tuple[tuple[str, ...], str]
"""Sums of cells that share a precision, one word a sum, and their portion of the budget."""

EACH = ("a", "b", "c", "d", "e")
ALL = ("abcde",)


def pricing_of(
    measure: Sequence[Query],
    invariants: Sequence[Condition],
    *,
    neighbours: str = "bounded",
    areas: int = 1,
    noise: str = "double_geometric",
) -> tuple[Pricing, list[PrecisionRequest]]:
    classes = tuple(tuple(Row.of(word, ["abcde".index(c) for c in word]) for word in words) for words, _ in measure)
    counts = {f"{number}": np.array([3, 4, 5, 6, 7]) for number in range(areas)}
    public = Areas.disclosed(LINE, invariants, counts, name="county")
    requests = [PrecisionRequest(None, Fraction(portion)) for _, portion in measure]
    return Pricing(public, classes, noise, neighbours, 1, "measured"), requests


def budget_of(noise: str) -> Budget:
    budget = Budget.of(epsilon="1") if noise == "double_geometric" else Budget.of(rho="1", noise=noise)
    assert budget is not None
    return budget


SHARE: list[Condition] = [cg.linear({"a": 1, "b": 1, "c": -1, "d": -1, "e": -1})]
IDLE: dict[str, tuple[list[Query], list[Condition], int]] = {
    "no pair of one record moves it": ([(("c",), "1")], TIED, 1),
    "beside cells": ([(("a", "b"), "1/100"), (("c",), "1")], TIED, 1),
    "a total that bounded neighbours share": ([(ALL, "1")], [], 1),
    "a total beside cells": ([(EACH, "1/100"), (ALL, "1")], [], 1),
    "totals of areas that no record leaves": ([(ALL, "1")], SHARE, 3),
}


def most_without_exact_numbers(pricing: Pricing, requests: list[PrecisionRequest], budget: Budget) -> list[Fraction]:
    """Return what each share would buy of a record that comes or goes, with nothing exact: by hand, query by query."""
    alone = replace(pricing.structures[0].case, neighbours="unbounded")
    free = cg.Constraints.of(LINE, [cg.bounds(None)])
    scale = max(request.portion for request in requests)
    portions = [request.portion / scale for request in requests]
    price = certificate_of(replace(alone, constraints=free), portions)
    most = budget.limit / (price.loss if budget.rho is None else price.rho)  # type: ignore[operator]
    return [most * portion for portion in portions]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", IDLE)
def test_a_query_that_no_pair_moves_is_never_free(name: str, noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate of such a query is 0: without the cap it would be as precise as noise can be."""
    measure, invariants, areas = IDLE[name]
    pricing, requests = pricing_of(measure, invariants, areas=areas, noise=noise)
    budget = budget_of(noise)
    chosen = calibrate(pricing, requests, budget)
    most = most_without_exact_numbers(pricing, requests, budget)
    assert all(precision <= bound for precision, bound in zip(chosen, most, strict=True))
    assert budget.covers(pricing.certificate(chosen))
    # The mutants forget the cap: of a record that comes, goes or passes, which alone sees totals, and of any record.
    nothing = certificate_of(pricing.structures[0].case, [Fraction(0)] * len(requests))
    monkeypatch.setattr(Pricing, "without_exact_numbers", lambda _pricing, _precisions: nothing)
    if "total" in name:
        assert calibrate(pricing, requests, budget)[-1] > 5 * most[-1]
    monkeypatch.setattr(Pricing, "one_record_without_invariants", lambda _pricing, _precisions: Fraction(0))
    forgotten = calibrate(pricing, requests, budget)
    assert forgotten[-1] > 5 * most[-1]


def test_the_cap_counts_all_rows_of_a_unit_and_both_areas() -> None:
    one, requests = pricing_of([(("c",), "1")], [cg.total(), *TIED])
    three = replace(one, rows_per_unit=3)
    budget = budget_of("double_geometric")
    assert calibrate(three, requests, budget)[0] <= calibrate(one, requests, budget)[0] / 3
    alone, requests = pricing_of([(ALL, "1")], SHARE)
    several, _ = pricing_of([(ALL, "1")], SHARE, areas=3)
    assert calibrate(several, requests, budget)[0] == calibrate(alone, requests, budget)[0] / 2 == HALF


@pytest.mark.parametrize("noise", NOISES)
def test_budgets_are_used_up(noise: str) -> None:
    """Where every query moves, the cap takes nothing away: one unit more would be above the budget."""
    measure: list[Query] = [(EACH, "2"), (("ab",), "1")]
    everyone: list[list[Condition]] = [[], [cg.total()]]
    for neighbours, invariants in product(RELATIONS, everyone):
        pricing, requests = pricing_of(measure, invariants, neighbours=neighbours, noise=noise)
        budget = budget_of(noise)
        chosen = calibrate(pricing, requests, budget)
        cost = budget.cost(pricing.certificate(chosen))
        assert cost is not None
        assert Fraction(999_999, 10**6) < cost <= 1
    pricing, requests = pricing_of([(EACH, "1")], [cg.total()], noise=noise)
    assert calibrate(pricing, requests, budget_of(noise)) == (
        (HALF,) if noise == "double_geometric" else (Fraction(1),)
    )


# ---- words, and what is refused ----


def test_determined_queries_are_named() -> None:
    """Of a query all rows of which exact numbers or limits fix; one row that moves is enough to be measured."""
    measure: list[Query] = [(EACH, "1"), (ALL, "1"), (("ab", "cd"), "1"), (("e",), "1"), (("c", "bc"), "1")]
    invariants = [cg.total(), cg.total({"cell": ["c", "d", "e"]}), cg.bounds(7, 7, where={"cell": "e"})]
    pricing, _ = pricing_of(measure, invariants)
    case = pricing.structures[0].case
    assert determined_queries(case) == (1, 2, 3)
    free = certificate_of(case, [HALF, Fraction(9), Fraction(9), Fraction(9), HALF])
    assert free.loss == 2  # c and d, and c by itself and with b
    assert pricing.determined == (1, 2, 3)
    only = certificate_of(case, [Fraction(0), Fraction(9), Fraction(0), Fraction(0), Fraction(0)])
    assert only.loss == 0
    assert only.statement == "no measured query changes between such tables"


def test_determined_queries_are_those_that_no_change_of_the_lattice_moves(request: pytest.FixtureRequest) -> None:
    """Catches a query that is left out although it moves in changes of several records, and one that never does."""
    dice, n_determined = Dice(replay_rng(request.node.name)), 0
    for _ in range(drawn(60)):
        system = random_system(dice)
        exact = [limited.row for limited in system.constraints.equalities]
        still = [Row.of("", [cell]) for cell in system.constraints.quick_bounds.pinned]
        changes = kernel(dense([*exact, *still], len(system.box)))
        expected = tuple(
            c
            for c, rows in enumerate(system.classes)
            if not (np.array(rows).reshape(-1, len(system.box)) @ changes.T).any()
        )
        assert determined_queries(measured_case(system, dice.choice(RELATIONS))) == expected
        n_determined += len(expected)
    assert n_determined > 3


def test_nothing_released_and_one_table() -> None:
    system = SYSTEMS["one total"](HALF)
    assert certificate_of(measured_case(system, "bounded"), [Fraction(0)]).kind == "suppression"
    pinned = Plain(((0, 2),) * 2, (((1, 1), 4, 4),), (cell_classes(2),), (HALF,))
    assert certificate_of(measured_case(pinned, "bounded"), pinned.precisions).kind == "singleton"


def test_what_is_refused() -> None:
    system = SYSTEMS["one total"](HALF)
    case = measured_case(system, "bounded")
    with pytest.raises(PrivacyError, match="weighted limits of measurements, which have no limits"):
        certificate_of(case, system.precisions, zero_weights=[Fraction(3, 2)])
    assert certificate_of(case, system.precisions, zero_weights=[Fraction(1)]).loss == 1
    with pytest.raises(PrivacyError, match="method 'measure' is not known; did you mean 'measured'"):
        replace(case, method="measure")
    assert case.listed(system.precisions) is None
    assert "method" not in repr(case)


def test_certify_takes_the_method() -> None:
    system = SYSTEMS["one total"](HALF)
    case = system.case("bounded")
    measured = certify(system.constraints, case.measured(system.precisions), method="measured")
    assert measured.loss == 1
    assert measured.kind == "measured_double_geometric"
    assert measured.gamma == 0
