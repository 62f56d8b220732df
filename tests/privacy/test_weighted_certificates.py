"""Certificates of laws with weighted limits, as a mechanism gets them, against brute force over small systems.

`test_weighted.py` audits the bounds themselves and how tight they are; here it is whether each class of cells is given
a bound whose conditions it meets.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats, Ints
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import CongenialError, PrivacyError
from congenial.examples import p12_mechanism, p12_schema, p12_table
from congenial.noise import DoubleGeometric
from congenial.privacy import certify as under_test
from congenial.privacy.certificate_inputs import Case
from congenial.privacy.certify import _Pricer, certificate_of
from congenial.sampling.enumeration import enumerate_tables
from congenial.sampling.target_and_system import Target

N_SYSTEMS = 300
PRECISIONS = ["1/5", "1/2", "1", "2"]


@dataclass(frozen=True, eq=False)
class Drawn:
    """A system with the scale of each class of measured rows."""

    constraints: Constraints
    classes: tuple[tuple[Row, ...], ...]
    precisions: tuple[Fraction, ...]
    zero_weights: tuple[Fraction, ...]

    def case(self, neighbours: str) -> Case:
        return Case(self.constraints, self.classes, "double_geometric", neighbours)

    @cached_property
    def listed(self) -> tuple[Ints, Floats]:
        """All tables, and the log probability of each (second) as a release of each (first)."""
        tables = enumerate_tables(self.constraints, 1_500)
        measured = self.case("bounded").measured(self.precisions, self.zero_weights)
        log_weight = np.array([Target(self.constraints, measured, table).log_weight(tables) for table in tables])
        return tables, log_weight - np.log(np.exp(log_weight).sum(axis=1, keepdims=True))

    @cache  # noqa: B019  the systems are kept for all tests, and a mutant changes their certificates alone
    def worst(self, neighbours: str, k: int) -> float:
        """The largest loss of a pair at most k records apart, over all outputs; minus infinity without a pair."""
        tables, log_p = self.listed
        change = tables[:, None, :] - tables[None, :, :]
        norm, balance = np.abs(change).sum(axis=2), change.sum(axis=2)
        records = np.where(balance == 0, norm // 2, 10**6) if neighbours == "bounded" else norm
        near = (records > 0) & (records <= k)
        found = (float((own - log_p[others]).max()) for own, others in zip(log_p, near, strict=True) if others.any())
        return max(found, default=-np.inf)


def some_systems(seed: str, n_systems: int) -> Iterator[Drawn]:
    """Totals of parts, ranges, upper limits, cells that never move, measured sums; one to three classes of cells."""
    dice, made = random.Random(seed), 0
    while made < n_systems:
        n = dice.randint(3, 5)
        schema = cg.Schema({"cell": [str(i) for i in range(n)]})
        counts = [dice.choice([0, 0, 1, 2, 3]) for _ in range(n)]
        conditions = list(some_conditions(dice, n))
        groups = [dice.choice([0, 0, 0, 1, 2]) for _ in range(n)]
        classes, precisions, zero_weights = [], [], []
        for number in sorted(set(groups)):
            classes.append(tuple(Row.of(f"c{i}", [i]) for i in range(n) if groups[i] == number))
            precisions.append(Fraction(dice.choice(PRECISIONS)))
            base = DoubleGeometric(precisions[-1]).base
            zero_weights.append(dice.choice([Fraction(1), 1 / (1 - base), 1 / (1 - base), Fraction(3, 2), Fraction(6)]))
        if dice.random() < 0.25:
            classes.append((Row.of("sum", sorted(dice.sample(range(n), 2))),))
            precisions.append(Fraction(dice.choice(PRECISIONS)))
            zero_weights.append(Fraction(1))
        try:
            constraints = Constraints.of(schema, conditions, counts)
            if len(enumerate_tables(constraints, 300)) < 2:
                continue
        except CongenialError:
            continue
        made += 1
        yield Drawn(constraints, tuple(classes), tuple(precisions), tuple(zero_weights))


def some_conditions(dice: random.Random, n: int) -> Iterator[Condition]:
    def some(least: int = 2) -> dict[str, list[str]]:
        return {"cell": [str(i) for i in sorted(dice.sample(range(n), dice.randint(least, n)))]}

    yield cg.total() if dice.random() < 0.7 else cg.total(at_most=dice.randint(3, 6))
    for _ in range(dice.randint(0, 2)):
        yield cg.total(some())
    if dice.random() < 0.2:
        yield cg.total(some(), at_most=dice.randint(2, 5))
    if dice.random() < 0.25:
        yield cg.bounds(0, dice.randint(2, 4), where=some(1))
    if dice.random() < 0.15:
        yield cg.linear({"0": 1, "1": dice.choice([-1, 2])})


@cache
def systems() -> list[Drawn]:
    return list(some_systems("certificates", N_SYSTEMS))


def is_broken(kinds: Counter[str]) -> bool:
    """Return whether some system loses more than its certificate says, and count how often each kind was given."""
    for system in systems():
        for neighbours in ("bounded", "unbounded"):
            case = system.case(neighbours)
            fewest = case.neighbourhood.k
            if fewest is None or fewest > 4:
                continue
            for k in (fewest, fewest + 1):
                try:
                    found = certificate_of(
                        case, system.precisions, k, zero_weights=system.zero_weights, try_all_pairs=False
                    )
                except PrivacyError:
                    continue
                kinds[found.kind] += 1
                assert found.loss is not None
                if system.worst(neighbours, k) > float(found.loss) + 1e-9:
                    return True
    return False


def test_no_pair_loses_more_than_its_certificate_says() -> None:
    kinds = Counter[str]()
    assert not is_broken(kinds)
    assert {"weighted_group", "weighted_fixed_total", "weighted_general", "limited_cells"} <= set(kinds)


@pytest.mark.parametrize("mutant", ["upper limits", "several records", "too small an excess", "forgotten floors"])
def test_mutants_are_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that is given a bound it does not meet the conditions of, or a bound that is too small."""
    if mutant == "upper limits":
        monkeypatch.setattr(_Pricer, "_has_zeros_alone", lambda _, group: len(group.queries) == 1)
    elif mutant == "several records":
        monkeypatch.setattr(_Pricer, "is_sum_of_steps", lambda _self, _neighbours: True)
    elif mutant == "too small an excess":
        monkeypatch.setattr(under_test, "total_excess", lambda *_: Fraction(1, 100))
        monkeypatch.setattr(under_test, "pair_excess", lambda *_: Fraction(1, 1000))
    else:
        monkeypatch.setattr(_Pricer, "_is_weighted", lambda _self, _kind: False)
    assert is_broken(Counter())


def test_p12_at_several_budgets() -> None:
    """Every group spends the whole budget: no precision can be had by another step of its last digit."""
    for epsilon in ("0.1", "1", "4"):
        mechanism = p12_mechanism(epsilon=epsilon)
        plan = mechanism.plan(mechanism.disclose(p12_table()))
        assert plan.certificate.loss is not None
        assert Fraction(epsilon) * Fraction(999, 1000) < plan.certificate.loss <= Fraction(epsilon)
        (case,) = (structure.case for structure in plan.structures)
        for number in range(len(plan.law.queries)):
            more = [p * (Fraction(1002, 1000) if i == number else 1) for i, p in enumerate(plan.law.precisions)]
            dearer = certificate_of(case, more, zero_weights=plan.law.zero_weights)
            assert dearer.loss is not None
            assert dearer.loss > Fraction(epsilon)


def test_cells_in_no_sum_pay_nothing_for_their_limits() -> None:
    schema = cg.Schema({"cell": [str(i) for i in range(5)]})
    for neighbours, records in (("bounded", 2), ("unbounded", 1)):
        mechanism = cg.Mechanism(schema, measure=[cg.cells()], epsilon="1", neighbours=neighbours)
        plan = mechanism.plan(Constraints.of(schema, []))
        (query,) = plan.law.queries
        assert query.precision == Fraction(1, records)
        assert query.zero_weight == 1 / (1 - DoubleGeometric(query.precision).base)
        assert plan.certificate.kind == "clamped_unbounded"
        assert plan.certificate.loss == 1


def test_under_rho_noise_is_clamped_at_no_cost() -> None:
    made = {}
    for zeros in (None, "unweighted"):
        mechanism = cg.Mechanism(
            p12_schema(), measure=[cg.cells(zeros=zeros)], invariants=p12_mechanism().invariants, rho="1/2"
        )
        made[zeros] = mechanism.plan(mechanism.disclose(p12_table()))
    clamped, plain = made[None], made["unweighted"]
    assert clamped.law.precisions == plain.law.precisions
    assert clamped.certificate.rho == plain.certificate.rho == Fraction(1, 2)
    assert clamped.law.zero_weights[0] == 1 / (1 - DoubleGeometric(clamped.law.precisions[0]).base)


def test_what_keeps_the_noises_own_law() -> None:
    """Upper limits, records that change in twos, other measured sums, Gaussian noise, given precisions."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "x"]})
    table = cg.Table(schema, [[3, 4, 0], [1, 0, 9]])
    total = [cg.total()]
    laws = [
        cg.Mechanism(schema, measure=[cg.cells()], invariants=[*total, cg.bounds(0, 20)], epsilon="1"),
        cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.margin("sex"), cg.margin("age")], epsilon="1"),
        cg.Mechanism(schema, measure=[cg.cells(), cg.margin("sex")], invariants=total, epsilon="1"),
        cg.Mechanism(schema, measure=[cg.cells()], invariants=total, rho="1", noise="discrete_gaussian"),
        cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=total),
        cg.Mechanism(schema, measure=[cg.cells(zeros="unweighted")], invariants=total, epsilon="1"),
    ]
    for mechanism in laws:
        assert set(mechanism.calibrate(mechanism.disclose(table)).zero_weights) == {1}


def test_what_is_said_of_zeros_is_checked() -> None:
    with pytest.raises(cg.errors.ConditionError, match="at least 1"):
        cg.cells(precision="1", zeros="1/2")
    with pytest.raises(cg.errors.ConditionError, match="beside a precision"):
        cg.cells(zeros="2")
    assert cg.cells(zeros="unweighted").zeros == 1  # type: ignore[attr-defined]


def test_a_suppressed_class_has_no_weight() -> None:
    """Precision 0 leaves the cells out of the law, and their weights with them."""
    schema = cg.Schema({"cell": ["0", "1", "2"]})
    plans = [
        mechanism.plan(mechanism.disclose(cg.Table(schema, [1, 2, 0])))
        for zeros in ("2", "unweighted")
        for measure in [[cg.cells(precision="0", zeros=zeros), cg.total(precision="1")]]
        for mechanism in [cg.Mechanism(schema, measure=measure, invariants=[cg.total(at_most=9)])]
    ]
    assert plans[0].certificate.loss == plans[1].certificate.loss


def test_a_sum_has_no_floor() -> None:
    schema = cg.Schema({"cell": ["0", "1"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1"), cg.total(precision="1")])
    case = mechanism.plan(mechanism.disclose(cg.Table(schema, [1, 2]))).structures[0].case
    with pytest.raises(PrivacyError, match="sums of several cells"):
        certificate_of(case, [Fraction(1), Fraction(1)], zero_weights=[Fraction(1), Fraction(2)])
