"""Budgets to precisions: closed forms, mixtures, all pairs; and what is refused before anything is charged."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import flint
import pytest

import congenial as cg
from brute import BITS, Brute, Dice, Plain, ball, cell_classes, margins
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query
from congenial.errors import ConditionError, CongenialError, FractionError, NoiseError, PrivacyError
from congenial.examples import p12_mechanism, p12_schema, p12_table
from congenial.privacy.bounds_and_enumerated_losses import calibrated_cells
from congenial.privacy.budget import Budget
from congenial.privacy.calibrate import PrecisionRequest, calibrate
from congenial.privacy.certificate_inputs import Case
from congenial.privacy.certify import certificate_of
from congenial.privacy.compose_and_price_areas import Pricing
from congenial.randomness import replay_rng
from loss_systems import RELATIONS, SYSTEMS

TWO = cg.Schema({"bin": ["first", "second"]})


# ---- GM's P12 table, and calibration ----


def test_p12() -> None:
    """The numbers of the claims page: catches a certificate that drifts."""
    mechanism = p12_mechanism()
    certificate = mechanism.certificate(mechanism.disclose(p12_table()))
    assert (certificate.kind, certificate.k, certificate.neighbours) == ("limited_cells", 1, "bounded")
    assert certificate.loss is not None
    assert 1.4898 < certificate.loss <= Fraction("1.4899")
    assert round(float(certificate.gamma), 2) == 0.49
    assert certificate.rho == Fraction(1, 2)
    with flint.ctx.workprec(BITS):
        assert ball(certificate.loss) >= 1 + (2 - flint.arb(-1).exp()).log()


def p12_precision(epsilon: str) -> Fraction:
    mechanism = cg.Mechanism(
        p12_schema(),
        measure=[cg.cells(zeros="unweighted")],
        invariants=p12_mechanism().invariants,
        epsilon=epsilon,
    )
    precision = mechanism.calibrate(mechanism.disclose(p12_table())).queries[0].precision
    assert precision is not None
    return precision


@pytest.mark.parametrize(("epsilon", "shown"), [("1", 0.620), ("4", 3.325), ("1/3", None), ("0.1", None), ("7", None)])
def test_p12_calibration(epsilon: str, shown: float | None) -> None:
    """2 e0 = log((1 + exp(eps)) / 2) to 12 digits, and never above it."""
    twice = 2 * p12_precision(epsilon)
    with flint.ctx.workprec(BITS):
        closed = ((1 + ball(Fraction(epsilon)).exp()) / 2).log()
        assert ball(twice) <= closed
        assert closed - ball(twice) < closed / 10**12
    assert shown is None or round(float(twice), 3) == shown
    closed_form = 2 * calibrated_cells(Fraction(epsilon), "bounded")
    assert abs(closed_form - twice) < twice / 10**12


EPSILONS = ["1/3", "0.1", "7", "1", "2/7", "1e-3", "20"]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unbounded_calibration_in_closed_form(epsilon: str) -> None:
    """Without an invariant total one record can come or go: e0 = asinh((exp(eps) - 1) / 2)."""
    schema = cg.Schema({"cell": [f"c{i}" for i in range(30)]})
    measure = [cg.cells(zeros="unweighted")]
    mechanism = cg.Mechanism(schema, measure=measure, epsilon=epsilon, neighbours="unbounded")
    constraints = cg.Constraints.of(schema, [])
    (query,) = mechanism.calibrate(constraints).queries
    assert query.precision is not None
    with flint.ctx.workprec(BITS):
        closed = ((ball(Fraction(epsilon)).exp() - 1) / 2).asinh()
        assert ball(query.precision) <= closed
        assert closed - ball(query.precision) < closed / 10**12
    certificate = mechanism.certificate(constraints)
    assert certificate.loss is not None
    assert (certificate.kind, certificate.k) == ("limited_cells", 1)
    assert certificate.loss <= Fraction(epsilon)


MIXES: dict[str, tuple[list[Query], list[Condition]]] = {
    "cells": ([cg.cells()], [cg.total()]),
    "weights": ([cg.cells(portion=2), cg.margin("sex", portion="1/3")], [cg.total()]),
    "a precision of its own": ([cg.cells(), cg.margin("sex", precision="1/200")], [cg.total()]),
    "all three": (
        [cg.cells(portion=3), cg.margin("age", portion=1), cg.margin("sex", precision="1/300")],
        [cg.total({"sex": "f"})],
    ),
    "no total": ([cg.cells(portion=5), cg.total(portion=1)], []),
    "two records": ([cg.cells()], [cg.margin("sex"), cg.margin("age")]),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_calibrated_release_stays_within_its_budget(mix: str, relation: str) -> None:
    """Exactly, as fractions; and one unit of the last digit more breaks it: catches rounding up, and waste."""
    schema = cg.Schema({"sex": ["f", "m"], "age": [f"{i}" for i in range(4)]})
    measure, invariants = MIXES[mix]
    table = cg.Table(schema, [[30, 0, 17, 9], [22, 41, 50, 13]])
    for epsilon in EPSILONS[:3]:
        if mix in {"a precision of its own", "all three"} and Fraction(epsilon) < Fraction(1, 20):
            continue
        mechanism = cg.Mechanism(schema, measure=measure, invariants=invariants, epsilon=epsilon, neighbours=relation)
        constraints = mechanism.disclose(table)
        certificate = mechanism.certificate(constraints)
        assert certificate.loss is not None
        limit = Fraction(epsilon)
        assert certificate.loss <= limit
        assert certificate.loss_without_invariants <= limit
        fixed = mechanism.calibrate(constraints)
        open_ones = [number for number, query in enumerate(measure) if query.precision is None]
        chosen = [query.precision or Fraction(0) for query in fixed.queries]
        top = max(measure[number].portion or Fraction(1) for number in open_ones)
        scale = chosen[open_ones[0]] * top / (measure[open_ones[0]].portion or 1)
        for number in open_ones:
            assert chosen[number] == scale * (measure[number].portion or 1) / top
        unit = Fraction(1)
        while scale / unit < 10**14:
            unit /= 10
        more = [
            (scale + unit) * (query.portion or 1) / top if query.precision is None else query.precision
            for query in measure
        ]
        dearer = certificate_of(Case(constraints, mechanism.classes, "double_geometric", relation), more)
        assert dearer.loss is not None
        assert dearer.loss > limit or dearer.loss_without_invariants > limit, (epsilon, scale)


@pytest.mark.parametrize("name", ["total and upper bounds", "two-way margins", "negative cells"])
def test_calibration_by_all_pairs_stays_within_its_budget(name: str, request: pytest.FixtureRequest) -> None:
    """On small sets the enumerated certificate buys more precision than the closed form; the true loss must fit."""
    system = SYSTEMS[name](Fraction(1))
    epsilon = Dice(replay_rng(request.node.name)).between("1/5", "5")
    case = system.case("bounded")
    pricing = Pricing(Areas.one(case.constraints), case.classes, case.noise, case.neighbours)
    (precision,) = calibrate(pricing, [PrecisionRequest(None)], Budget(epsilon=epsilon))
    brute = Brute.of(replace(system, precisions=(precision,)))
    assert brute.worst(brute.pairs("bounded", case.neighbourhood.k)) <= ball(epsilon)
    closed = certificate_of(case, [precision], try_all_pairs=False).loss
    assert closed is not None
    assert closed > epsilon


# ---- what is refused ----


def made(**parts: object) -> cg.Mechanism:
    return cg.Mechanism(TWO, **{"measure": [cg.cells()], **parts})  # type: ignore[arg-type]


BAD: dict[str, tuple[Callable[[], object], type[CongenialError], str]] = {
    "negative epsilon": (lambda: made(epsilon="-1"), PrivacyError, "epsilon must not be negative.*-1"),
    "float epsilon": (lambda: made(epsilon=0.1), FractionError, 'write "0.1" or "1/10"'),
    "NaN": (lambda: made(epsilon=float("nan")), FractionError, "finite"),
    "infinite": (lambda: made(epsilon=float("inf")), FractionError, "finite"),
    "text": (lambda: made(epsilon="one"), FractionError, "'one'"),
    "boolean": (lambda: made(epsilon=True), FractionError, "boolean"),
    "relation": (lambda: made(epsilon=1, neighbours="bound"), PrivacyError, "did you mean 'bounded'"),
    "relation of another type": (lambda: made(epsilon=1, neighbours=1), PrivacyError, "neighbour relation"),
    "noise": (lambda: made(epsilon=1, noise="discrete_gausian"), NoiseError, "did you mean 'discrete_gaussian'"),
    "nothing measured": (lambda: made(measure=[], epsilon=1), ConditionError, "measure at least one query"),
    "no precision": (made, ConditionError, "needs a precision"),
    "measured twice": (
        lambda: made(measure=[cg.cells(precision=1), cg.cells({"bin": "first"}, precision=2)]),
        ConditionError,
        "measured twice",
    ),
    "precision and weight": (lambda: cg.cells(precision=1, portion=1), ConditionError, "not both"),
    "nothing to set": (
        lambda: made(measure=[cg.cells(precision=1)], epsilon=1),
        ConditionError,
        "has nothing to set",
    ),
    "epsilon and rho": (lambda: made(epsilon=1, rho=1), PrivacyError, "not in both"),
    "delta alone": (lambda: made(delta="1e-10"), PrivacyError, "a delta goes with an epsilon"),
    "delta and rho": (lambda: made(delta="1e-10", rho=1), PrivacyError, "a delta goes with an epsilon"),
    "delta of 0": (lambda: made(epsilon=1, delta=0), PrivacyError, "strictly between 0 and 1"),
    "delta of 1": (lambda: made(epsilon=1, delta=1), PrivacyError, "strictly between 0 and 1"),
    "negative rho": (lambda: made(rho="-1/2"), PrivacyError, "rho must not be negative"),
    "orders": (lambda: made(rho=1, orders="real"), PrivacyError, "orders='real' is not known"),
    "Gaussian, pure": (lambda: made(epsilon=1, noise="discrete_gaussian"), PrivacyError, "no pure epsilon"),
    "Laplace": (
        lambda: made(measure=[cg.cells(precision=1)], noise="laplace").certificate(cg.Constraints.of(TWO, [])),
        PrivacyError,
        "laplace noise has no certificate: .*drawn in doubles",
    ),
    "budget spent": (
        lambda: made(measure=[cg.cells(precision=1), cg.total()], epsilon="1/2").certificate(
            cg.Constraints.of(TWO, [])
        ),
        PrivacyError,
        "too small",
    ),
    "fewer records than can change": (
        lambda: certificate_of(
            Plain(((0, 4),) * 6, tuple((m, 4, 4) for m in margins(2, 3)[:2]), (cell_classes(6),), (Fraction(1),)).case(
                "unbounded"
            ),
            [Fraction(1)],
            1,
        ),
        PrivacyError,
        "fewer than 2 records",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name: str) -> None:
    """Every mistake is named, with the way out, and with an error of this package."""
    make, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        make()
