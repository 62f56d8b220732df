"""Plans and their accounts: what a curator reads before anything is charged."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import congenial as cg
from congenial.errors import ConditionError, PrivacyError, TooLargeError
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling import sampler_and_registry as choose
from congenial.sampling.elimination.compiled_layout import Layout
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.target_and_system import System

SQUARE = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
TABLE = cg.Table(SQUARE, [[30, 40], [20, 10]])


def made(*measure: object, **parts: object) -> cg.Mechanism:
    return cg.Mechanism(SQUARE, measure=list(measure) or [cg.cells()], **parts)  # type: ignore[arg-type]


def test_the_account_starts_with_cost_and_meaning() -> None:
    mechanism = p12_mechanism(epsilon="1")
    text = mechanism.explain(mechanism.disclose(p12_table()))
    first, second, *_ = text.split("\n\n")
    assert first == "Budget: epsilon 1, bounded neighbours; certified cost 1 for one record changed."
    assert "at most 2.72-fold" in second
    assert "GM's halving would give precision 0.25" in " ".join(text.split())
    assert "sex: not protected" in text
    assert max(map(len, text.splitlines())) <= 100


def test_an_account_without_a_table() -> None:
    assert p12_mechanism(epsilon="1").explain().startswith("For a table with 1,000 records in every cell:\nBudget")
    with pytest.raises(ConditionError, match="do not fit the made-up table"):
        made(invariants=[cg.total(equals=7)], epsilon="1").explain()


def test_constraints_of_another_mechanism_are_refused() -> None:
    """Their certificate would not be of the law that is drawn from."""
    loose, tied = made(invariants=[cg.total()], epsilon="1"), made(invariants=[cg.margin("sex")], epsilon="1")
    for mechanism, other in ((loose, tied), (tied, loose), (made(epsilon="1"), loose)):
        with pytest.raises(ConditionError, match="not those of the mechanism's own invariants"):
            mechanism.plan(other.disclose(TABLE))
    with pytest.raises(ConditionError, match=r"not a Table: write mechanism\.disclose"):
        loose.plan(TABLE)  # type: ignore[arg-type]
    assert loose.plan(cg.Constraints.of(SQUARE, [cg.total(equals=100)])).certificate.loss


def test_what_is_measured_in_vain_and_what_is_left_over_is_said() -> None:
    mechanism = made(cg.cells(), cg.margin("sex"), invariants=[cg.margin("sex")], epsilon="1")
    text = " ".join(mechanism.explain(mechanism.disclose(TABLE)).split())
    assert "the invariants fix it already, so measuring it adds nothing" in text
    assert "part of the budget is not used" in text


def test_people_without_a_promise_are_named() -> None:
    odd = cg.linear({("f", "y"): 1, ("m", "o"): 1})
    mechanism = made(invariants=[cg.margin("sex"), odd], epsilon="1")
    plan = mechanism.plan(mechanism.disclose(TABLE))
    assert plan.neighbourhood.k == 2
    wide = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "v"]})
    skewed = [cg.margin("sex"), cg.linear({("f", "y"): 1, ("m", "v"): 1})]
    other = cg.Mechanism(wide, measure=[cg.cells()], invariants=skewed, epsilon="1")
    shown = other.explain(other.disclose(cg.Table(wide, [[5, 6, 7], [8, 9, 4]])))
    assert "it cannot change alone: records of sex=f, age=y; sex=m, age=v" in " ".join(shown.split())


def test_budgets_in_their_own_terms() -> None:
    gaussian = made(invariants=[cg.total()], epsilon="1", delta="1e-9", noise="discrete_gaussian")
    constraints = gaussian.disclose(TABLE)
    assert "epsilon 1 at delta 1e-09, bounded neighbours; certified cost 1 for" in gaussian.explain(constraints)
    cost = gaussian.plan(constraints).certificate.epsilon("1e-9")
    assert Fraction(999, 1000) < cost <= 1
    everywhere = made(invariants=[cg.total()], rho="1/2", orders="all", noise="discrete_gaussian")
    certificate = everywhere.plan(everywhere.disclose(TABLE)).certificate
    assert certificate.rho_at_all_orders is not None
    assert Fraction(999, 2000) < certificate.rho_at_all_orders <= Fraction(1, 2)
    with pytest.raises(PrivacyError, match='orders="all" goes with a budget in rho'):
        made(epsilon="1", orders="all")


def test_suppression_is_explained() -> None:
    mechanism = made(invariants=[cg.total()], epsilon="0")
    assert mechanism.is_suppressed
    assert "lower probability 0 and upper probability 1" in mechanism.explain(mechanism.disclose(TABLE))
    assert mechanism.certificate(mechanism.disclose(TABLE)).loss == 0


def test_no_invariants_no_published_totals() -> None:
    mechanism = made(epsilon="1")
    assert "published" not in str(mechanism.plan(mechanism.disclose(TABLE)).meaning)


@pytest.mark.parametrize("order", [("corner", "even"), ("even", "corner")])
def test_one_sampler_fits_every_area_of_its_group(order: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody in one cell needs hardly a message, and fewer people spread evenly need one that does not fit."""
    monkeypatch.setattr(choose, "SAMPLERS", {"contraction": EliminationSampler.of})
    schema = cg.Schema({"a": list("1234"), "b": list("123456")})
    corner = np.zeros((4, 6), int)
    corner[0, 0] = 4000
    tables = {"corner": cg.Table(schema, corner), "even": cg.Table(schema, np.full((4, 6), 100))}
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/10")], invariants=[cg.margin("a"), cg.margin("b")])
    assert mechanism.plan(mechanism.disclose(tables["corner"])).is_exact
    plan = mechanism.plan(mechanism.disclose({name: tables[name] for name in order}))
    assert len(plan.law.areas.groups) == 1
    assert not plan.is_exact
    with pytest.raises(TooLargeError, match="states"):
        plan.check_samplers()


@pytest.mark.parametrize("seed", range(4))
def test_no_table_of_a_group_has_more_states_than_its_sampler_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = cg.Schema({"a": ["1", "2", "3"], "b": ["1", "2"]})
    tables = {str(n): cg.Table(schema, rng.integers(0, 2 ** rng.integers(1, 9), (3, 2))) for n in range(12)}
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/20")], invariants=[cg.margin("a"), cg.margin("b")])
    plan = mechanism.plan(mechanism.disclose(tables))
    sampler = plan.sampler
    assert isinstance(sampler, EliminationSampler)
    sizes = [Layout.of(sampler.elimination, table.counts).size for table in tables.values()]
    assert max(sizes) <= sampler.elimination.order.n_states
    least = min(tables, key=lambda name: int(tables[name].counts.sum()))
    alone = System.of(plan.law.areas[least], plan.law.measured)
    assert max(sizes) > EliminationSampler.of(alone).elimination.order.n_states, (
        "the mutant: the smallest area stands for all"
    )


def test_a_plan_prices_the_law_it_draws_from() -> None:
    first, second = made(cg.cells(precision="1")), made(cg.cells(precision="1"), invariants=[cg.total()])
    plan, other = first.plan(first.disclose(TABLE)), second.plan(second.disclose(TABLE))
    with pytest.raises(PrivacyError, match="prices the law that it draws from"):
        replace(plan, law=other.law)


def test_units_of_several_rows_are_not_called_ties() -> None:
    mechanism = made(cg.cells(precision="1/2"), invariants=[cg.total()], rows_per_unit=3)
    text = str(mechanism.plan(mechanism.disclose(TABLE)).meaning)
    assert text.startswith("Someone who knows all but 3 records")
