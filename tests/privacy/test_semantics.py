"""What certificates mean: odds checked against posteriors computed by brute force."""

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest

import congenial as cg
from congenial.privacy.meaning_and_counterexample import Vacuous, meaning, two_people
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.target_and_system import Target


def test_the_two_person_counterexample() -> None:
    """The one-record factor fails for tied records; the factor over all pairs of S* holds, whatever the prior."""
    found = two_people()
    assert found.ratio == pytest.approx(51.8, abs=0.05)
    assert found.one_record_factor == pytest.approx(2 * exp(2) - 1)
    assert found.ratio > found.one_record_factor
    for prior in ("1/2", "1/10", "1/100000"):
        assert two_people(prior=prior).ratio <= found.all_pairs_factor * (1 + 1e-12)


def test_knowing_everybody_else_odds_move_at_most_by_the_factor() -> None:
    """GM Theorem 1 conditional on the invariants, by brute force: every table of others, every release."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total(), cg.margin("sex")])
    constraints = mechanism.disclose(cg.Table(schema, [[2, 1], [1, 1]]))
    plan = mechanism.plan(constraints)
    factor = meaning(plan.certificate, plan.neighbourhood).odds
    largest = 0.0
    for others in product(range(4), repeat=4):
        tables = [np.array(others), np.array(others)]  # this person is female: young or old
        tables[0][0] += 1
        tables[1][1] += 1
        if not all(constraints.holds(table) for table in tables):
            continue
        young, old = (EnumeratedLaw.of(Target(constraints, plan.law.measured, table)) for table in tables)
        for one, other in zip(young.probabilities, old.probabilities, strict=True):
            for prior in (Fraction(1, 2), Fraction(1, 50)):
                before = prior / (1 - prior)
                after = prior * one / ((1 - prior) * other)
                largest = max(largest, float(after / before))
    assert 0.9 * factor < largest <= factor


def test_words_carry_the_users_numbers() -> None:
    schema = cg.Schema({"age": ["a", "b", "c"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total()], epsilon="1")
    plan = mechanism.plan(mechanism.disclose(cg.Table(schema, [50, 60, 70])))
    assert "at most 2.72-fold" in str(plan.meaning)
    assert "published totals themselves are not protected" in str(plan.meaning)
    assert plan.meaning.between_releases == pytest.approx(exp(2), rel=0.01)


def test_tied_records_are_said_to_be_tied() -> None:
    schema = cg.Schema({"row": ["1", "2"], "column": ["1", "2"]})
    invariants = [cg.margin("row"), cg.margin("column")]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=invariants)
    plan = mechanism.plan(mechanism.disclose(cg.Table(schema, [[20, 30], [20, 10]])))
    assert "2 or more change together" in str(plan.meaning)


def test_one_table_and_gaussian_noise() -> None:
    schema = cg.Schema({"age": ["a", "b"]})
    pinned = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total(), cg.total({"age": "a"})], epsilon="1")
    plan = pinned.plan(pinned.disclose(cg.Table(schema, [5, 6])))
    assert "adds nothing" in str(plan.meaning)
    assert plan.neighbourhood.disruption == "destroyed"
    gaussian = cg.Mechanism(schema, measure=[cg.cells()], rho="1", noise="discrete_gaussian")
    free = gaussian.plan(gaussian.disclose(cg.Table(schema, [5, 6])))
    assert "at most rho 1 (epsilon 10.065 at delta 1e-10)" in str(free.meaning)
    assert "more than 23,500 times as likely as with the other, plus a probability of 1e-10" in str(free.meaning)
    assert "above 10" in free.meaning.warning


def test_vacuous_knowledge() -> None:
    vacuous = Vacuous()
    assert vacuous.probabilities(0, 10) == (0, 0)
    assert [vacuous.probabilities(size, 10) for size in (1, 9)] == [(0, 1), (0, 1)]
    assert vacuous.probabilities(10, 10) == (1, 1)
