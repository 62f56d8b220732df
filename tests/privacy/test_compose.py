"""Several releases together: losses, areas, and what their invariants pin together."""

from dataclasses import replace
from fractions import Fraction

import pytest

import congenial as cg
from congenial.errors import ClashError, ConditionError, PrivacyError
from congenial.plan import Plan
from congenial.privacy.bounds_and_enumerated_losses import Enumerated
from congenial.privacy.certificate_inputs import Case
from congenial.privacy.certify import certificate_of
from congenial.privacy.compose_and_price_areas import compose

SQUARE = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
COUNTS = [[3, 4], [1, 2]]


def plan_of(invariants: list[object], precision: str = "1/2", **more: object) -> Plan:
    mechanism = cg.Mechanism(SQUARE, measure=[cg.cells(precision=precision)], invariants=invariants, **more)  # type: ignore[arg-type]
    return mechanism.plan(mechanism.disclose(cg.Table(SQUARE, COUNTS)))


def case_of(plan: Plan) -> Case:
    (structure,) = plan.structures
    return structure.case


def loss(one: object) -> Fraction:
    found = one.loss  # type: ignore[attr-defined]
    assert isinstance(found, Fraction)
    return found


def test_losses_of_one_dataset_add_up() -> None:
    plan = plan_of([cg.total()])
    both = compose([plan, plan])
    assert loss(both.certificate) == 2 * loss(plan.certificate)
    assert both.certificate.rho == 2 * (plan.certificate.rho or 0)
    assert both.newly_disclosed == {}
    assert both.certificate.page == "docs/claims/composition.md"


def test_invariants_accumulate_and_raise_k() -> None:
    """Row sums in one release, column sums in another: together no record can change alone, and two are paid for."""
    rows, columns = plan_of([cg.margin("sex")]), plan_of([cg.margin("age")])
    both = compose([rows, columns])
    assert rows.neighbourhood.k == columns.neighbourhood.k == 1
    assert both.neighbourhood is not None
    assert both.neighbourhood.k == both.certificate.k == 2
    assert both.neighbourhood.disruption == "substantially disrupted"
    # The oracle: every pair of tables that obey both, each release conditioned on its own invariants.
    assert both.constraints is not None
    worst = 0.0
    together = {
        tuple(t) for t in Enumerated.of(both.constraints, case_of(rows).measured([Fraction(1, 2)]), "bounded").tables
    }
    listed = [
        Enumerated.of(case_of(plan).constraints, case_of(plan).measured([Fraction(1, 2)]), "bounded")
        for plan in (rows, columns)
    ]
    index = [{tuple(t): i for i, t in enumerate(one.tables)} for one in listed]
    for s in together:
        for other in together - {s}:
            if sum(abs(a - b) for a, b in zip(s, other, strict=True)) > 4:
                continue
            pair = sum(
                float((one.log_probability[at[s]] - one.log_probability[at[other]]).max())
                for one, at in zip(listed, index, strict=True)
            )
            worst = max(worst, pair)
    assert 0 < worst <= loss(both.certificate)
    # Charging each release at one record would miss it.
    assert worst > loss(rows.certificate) + loss(columns.certificate) - Fraction(1, 2)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1, 0], [1, 0, 0]])
def test_the_same_plan_twice_keeps_its_invariants(order: list[int]) -> None:
    """The defect: conditions that are one object dropped each other, and k fell back to 1."""
    plans = [plan_of([cg.margin("sex")]), plan_of([cg.margin("age")])]
    again = [plan_of([cg.margin("sex")]), plan_of([cg.margin("age")])]
    one = compose([plans[i] for i in order])
    other = compose([plans[order[0]], plans[order[1]], again[order[2]]])
    assert one.certificate.k == other.certificate.k == 2
    assert one.certificate.loss == other.certificate.loss
    constraints = case_of(plans[0]).constraints
    assert constraints.together(constraints).same_rows(constraints)


def test_each_release_is_told_alone_and_in_company() -> None:
    both = compose([plan_of([cg.margin("sex")]), plan_of([cg.margin("age")])])
    assert "at k = 1, epsilon" in both.certificate.reasons[0]


def test_what_only_both_together_disclose() -> None:
    first = plan_of([cg.total(), cg.total({"sex": "f"}), cg.total({"age": "y"})])
    second = plan_of([cg.linear({("f", "y"): 1, ("m", "o"): 1})])
    both = compose([first, second])
    assert both.newly_disclosed == {"sex=f, age=y": 3, "sex=f, age=o": 4, "sex=m, age=y": 1, "sex=m, age=o": 2}
    assert "only together the releases disclose" in str(both)
    assert loss(both.certificate) >= loss(first.certificate) + loss(second.certificate)


class TestAreas:
    def test_with_invariant_totals_the_worst_area_counts(self) -> None:
        near, far = plan_of([cg.total()], "1/2"), plan_of([cg.total()], "1")
        assert loss(compose([near, far, near], over="areas").certificate) == loss(far.certificate)

    def test_a_record_that_can_move_pays_in_both_areas(self) -> None:
        open_area = plan_of([], "1/2")
        case = case_of(open_area)
        one = certificate_of(case, [Fraction(1, 2)])
        together = compose([open_area, open_area], over="areas").certificate
        added = certificate_of(Case(case.constraints, case.classes, "double_geometric", "unbounded"), [Fraction(1, 2)])
        assert loss(together) == max(2 * loss(added), loss(one))
        assert "two areas' losses add" in together.statement

    def test_each_bound_takes_its_own_two_worst_areas(self) -> None:
        """The two worst areas in epsilon, in rho and in rho at all orders can be different ones."""
        wide = cg.Schema({"cell": ["w", "x", "y", "z"]})
        limits = [cg.bounds(0, high, where={"cell": name}) for name, high in zip("wxyz", (1, 4, 2, 2), strict=True)]
        measure = [
            cg.cells(precision="0.2"),
            cg.total(precision="2.25"),
            cg.total({"cell": ["w", "x"]}, precision="10.4"),
        ]
        mechanism = cg.Mechanism(wide, measure=measure, invariants=limits, noise="discrete_gaussian")
        several = mechanism.plan(mechanism.disclose(cg.Table(wide, [1, 2, 1, 1])))
        single = cg.Schema({"cell": ["only"]})
        alone = cg.Mechanism(
            single, measure=[cg.cells(precision="12.8506")], neighbours="bounded", noise="discrete_gaussian"
        )
        one = alone.plan(alone.disclose(cg.Table(single, [4])))
        together = compose([one, one, several, several], over="areas").certificate
        passing = certificate_of(replace(case_of(several), neighbours="unbounded"), several.law.precisions)
        assert passing.orders == together.orders == "integer"
        assert passing.rho_at_all_orders is not None
        assert together.rho_at_all_orders is not None
        assert together.rho_at_all_orders >= 2 * passing.rho_at_all_orders

    def test_an_area_of_unproven_k_is_priced(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plan = plan_of([cg.margin("sex"), cg.margin("age")])
        undecided = replace(plan.neighbourhood, is_smallest=False)
        monkeypatch.setitem(case_of(plan).__dict__, "neighbourhood", undecided)
        assert loss(compose([plan, plan_of([cg.total()], "1/100")], over="areas").certificate) == loss(plan.certificate)

    def test_one_open_area_alone_has_nowhere_to_go(self) -> None:
        open_area, closed = plan_of([], "1/2"), plan_of([cg.total()], "1/2")
        together = compose([open_area, closed], over="areas").certificate
        assert loss(together) == max(loss(open_area.certificate), loss(closed.certificate))

    def test_unbounded_records_come_and_go_in_one_area(self) -> None:
        first, second = plan_of([], "1/2", neighbours="unbounded"), plan_of([], "1", neighbours="unbounded")
        assert loss(compose([first, second], over="areas").certificate) == loss(second.certificate)

    def test_areas_where_no_record_changes_alone(self) -> None:
        tied = plan_of([cg.margin("sex"), cg.margin("age")])
        mixed = compose([tied, plan_of([cg.total()])], over="areas").certificate
        assert any("nothing is promised there" in reason for reason in mixed.reasons)
        with pytest.raises(PrivacyError, match="no change of one record is possible in any area"):
            compose([tied, tied], over="areas")


def test_bad_input() -> None:
    plan = plan_of([cg.total()])
    with pytest.raises(PrivacyError, match="did you mean 'areas'"):
        compose([plan], over="area")
    for wrong in (plan, [plan.certificate], "plans"):
        with pytest.raises(PrivacyError, match="takes a list of plans"):
            compose(wrong)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="over=a Plan is not a way"):
        compose([plan], plan)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="nothing to compose"):
        compose([])
    with pytest.raises(PrivacyError, match="different neighbour relations"):
        compose([plan, plan_of([cg.total()], neighbours="unbounded")])
    mechanism = cg.Mechanism(SQUARE, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    other = mechanism.plan(mechanism.disclose(cg.Table(SQUARE, [[3, 4], [1, 3]])))
    with pytest.raises(ClashError, match="total is 10"):
        compose([plan, other])
    line = cg.Schema({"age": ["y", "o"]})
    narrow = cg.Mechanism(line, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    with pytest.raises(ConditionError, match="different tables"):
        compose([plan, narrow.plan(narrow.disclose(cg.Table(line, [1, 2])))])


def test_units_of_several_rows_are_composed_at_their_rows() -> None:
    rows, columns = plan_of([cg.margin("sex")], rows_per_unit=3), plan_of([cg.margin("age")], rows_per_unit=3)
    assert rows.certificate.k == 3
    both = compose([rows, columns])
    assert both.neighbourhood is not None
    assert (both.neighbourhood.k, both.certificate.k) == (2, 6)
    with pytest.raises(PrivacyError, match="a unit may have 3 rows, in several areas"):
        compose([rows, rows], over="areas")


def test_areas_in_which_nothing_is_promised_are_refused_as_they_are_alone() -> None:
    """The difference of two cells is exact: records come and go in pairs, and no table has a bounded neighbour."""
    schema = cg.Schema({"c": ["x", "y", "z", "w"]})
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.cells(precision="1/2")],
        invariants=[cg.linear({"x": 1, "y": -1}), cg.total({"c": ["z", "w"]})],
    )
    mute, sound = cg.Table(schema, [3, 2, 0, 0]), cg.Table(schema, [3, 2, 2, 3])
    for tables in (mute, {"a": mute, "b": mute}, {str(n): mute if n % 2 else sound for n in range(24)}):
        with pytest.raises(PrivacyError, match="would promise nothing"):
            _ = mechanism.plan(mechanism.disclose(tables)).certificate
    assert mechanism.plan(mechanism.disclose({"a": sound, "b": sound})).certificate.loss
