"""Several tables of the same records: certificates against every pair of histograms, laws of noise by enumeration.

docs/claims/measured-tables.md has the theorem. Each test names the defect that it would catch, and mutants show that it
does.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import inf

import numpy as np
import pytest

from brute import Dice
from congenial.errors import PrivacyError
from congenial.ledger.requests_and_canonical_text import certificate_as_json, certificate_from_json
from congenial.noise import FAMILIES
from congenial.privacy import workload_changes
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD
from congenial.privacy.workload import WorkloadChange, WorkloadFacts, WorkloadTable
from congenial.privacy.workload_certificate import (
    loss_without_exact_numbers,
    portions_by_cells,
    price,
    prices,
    promised,
    unprotected,
    workload_certificate,
    workload_precisions,
)
from congenial.privacy.workload_changes import (
    any_records,
    default_kind,
    fewest_records,
    kind_of_change,
    witness,
)
from congenial.privacy.workload_composition import compose_workloads, union_of
from congenial.randomness import replay_rng
from drawn import drawn
from lattice_audit import loss_of
from workload_audit import NOISES, SmallWorkload, WorkloadTally, drawn_workload

RELATIONS = ["bounded", "unbounded"]
NAMES = ["county", "age", "sex", "diagnosis"]
HALF, ONE = Fraction(1, 2), Fraction(1)


def tables(*axes: tuple[int, ...], precision: Fraction = ONE) -> tuple[WorkloadTable, ...]:
    return tuple(WorkloadTable(one, precision) for one in axes)


def health(noise: str = "discrete_gaussian", neighbours: str = "bounded") -> WorkloadFacts:
    """Return county x age x sex, county x diagnosis, diagnosis x sex, counties and diagnoses exact."""
    weights = (Fraction(1, 3), Fraction(1, 6), Fraction(1, 3))
    measured = tuple(WorkloadTable(a, w) for a, w in zip(((0, 1, 2), (0, 3), (2, 3)), weights, strict=True))
    return WorkloadFacts((39, 8, 2, 12), measured, noise, exact=((0,), (3,)), neighbours=neighbours)


def drawn_ones(test: str, n: int, exponent: int, neighbours: str, *, plain: bool = False) -> Iterator[SmallWorkload]:
    for number in range(drawn(n)):
        yield drawn_workload(Dice(replay_rng(f"{test} {number}")), exponent, neighbours, plain=plain)


# ---- every pair of histograms of few records ----


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_no_pair_of_histograms_exceeds_the_certificate(
    exponent: int, neighbours: str, request: pytest.FixtureRequest
) -> None:
    """Catches a kind of change that was not found, a charge below a pair, a table that the default kind leaves out."""
    tally = WorkloadTally()
    for small in drawn_ones(request.node.name, 8 if neighbours == "bounded" else 24, exponent, neighbours):
        tally.hold(small)
    assert tally.attained > 5
    assert len(tally.defaults) > 1


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_losses_of_tables_add_up_to_the_distance(
    exponent: int, neighbours: str, request: pytest.FixtureRequest
) -> None:
    """Catches a loss other than the sum over tables, at real orders too, and a lattice that misses a pair."""
    tally = WorkloadTally()
    for number in range(drawn(16)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        tally.enumerate_laws(drawn_workload(dice, exponent, neighbours), dice)
    tally.check()
    assert tally.losses > 1 or tally.divergences > 19


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_the_formula_agrees_with_a_search_through_cells(
    exponent: int, neighbours: str, request: pytest.FixtureRequest
) -> None:
    """Catches a mode of equal, kept and swapped attributes that is missing; a sum of nothing makes it a search."""
    compared = 0
    for small in drawn_ones(request.node.name, 40, exponent, neighbours, plain=True):
        formula = small.workload
        search = replace(formula, sums=(((0,), np.zeros(formula.sizes[0], np.int64)),))
        for kind in (ONE_RECORD, EXCHANGE, any_records(2)):
            assert price(formula, kind).amount == price(search, kind).amount
            compared += not kind_of_change(formula, kind).is_empty
        for table in formula.tables:
            plain, searched = witness(formula, table.axes), witness(search, table.axes)
            assert (plain and plain.norm) == (searched and searched.norm)
    assert compared > 40


# ---- mutants ----


def mutant_exceeded(test: str, mutant: str, exponent: int = 2) -> int:
    """Return in how many drawn workloads some pair of a kind costs more than a mutant charges for it."""
    caught = 0
    for small in drawn_ones(test, 10, exponent, "bounded", plain=True):
        workload = small.workload
        kind = EXCHANGE if mutant == "exchange as one record" else any_records(2)
        worst = small.dearest(kind)
        if worst is None or not worst:
            continue
        moves = promised(workload, kind).moves
        if mutant == "a forgotten table":
            moves = moves.copy()
            moves[:, -1] = 0
        elif mutant == "exchange as one record":
            moves = kind_of_change(workload, ONE_RECORD).moves
        elif mutant == "k for the square of k":
            moves = 2 * kind_of_change(workload, ONE_RECORD).moves
        costs = [[p * n for p, n in zip(workload.precisions, row, strict=True)] for row in moves.tolist()]
        of_row = max if mutant == "maximum over tables" else sum
        charge = max((Fraction(of_row(row)) / exponent for row in costs), default=Fraction(0))
        caught += worst > charge
    return caught


@pytest.mark.parametrize(
    "mutant", ["a forgotten table", "maximum over tables", "exchange as one record", "k for the square of k"]
)
def test_mutants_charge_less_than_some_pair(mutant: str, request: pytest.FixtureRequest) -> None:
    assert mutant_exceeded(request.node.name, mutant) > 1
    assert mutant_exceeded(request.node.name, "none") == 0


@pytest.mark.parametrize("mutant", ["attributes are never equal", "free attributes stay"])
def test_mutants_of_the_closed_form(
    mutant: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mutant == "attributes are never equal":
        monkeypatch.setattr(workload_changes, "_may_be_equal", lambda *_: False)
    else:
        monkeypatch.setattr(workload_changes, "_ends", lambda w: ((0,) * len(w.sizes),) * 2)
    caught = 0
    for small in drawn_ones(request.node.name, 8, 2, "bounded", plain=True):
        try:
            WorkloadTally().hold(small)
        except (AssertionError, PrivacyError):
            caught += 1
    assert caught > 1


def test_noise_that_keeps_a_margin_which_is_not_exact_tells_everything() -> None:
    """Catches a table conditioned on the exact numbers of another release."""
    workload = WorkloadFacts((2, 2), tables((0, 1)), NOISES[1], exact=((0,),))
    small = SmallWorkload(workload, 1)
    change = small.matrix((0, 1)) @ small.changes[0][0]
    right, wrong = (small.lattice(workload.tables[0], kept) for kept in ([(0,)], [(0,), (1,)]))
    assert right is not None
    assert wrong is not None
    assert loss_of(right, change) == pytest.approx(2, abs=1e-12)
    assert loss_of(wrong, change) == inf
    workload.check_noise([[(0,), ()]])
    with pytest.raises(PrivacyError, match="not exact"):
        workload.check_noise([[(1,)]])
    with pytest.raises(PrivacyError, match="not exact"):  # not a margin of the table
        WorkloadFacts((2, 2), tables((0,)), NOISES[1], exact=((1,),)).check_noise([[(1,)]])


def is_capped(
    workload: WorkloadFacts, precisions: tuple[Fraction, ...], amount: Fraction, parts: list[Fraction]
) -> bool:
    """Whether no table is more precise than its part buys where no number is exact, by the brute force."""
    for table, precision, part in zip(workload.tables, precisions, parts, strict=True):
        alone = replace(workload, tables=(replace(table, precision=precision),), exact=(), sums=(), zeros=())
        worst = SmallWorkload(alone, 1).dearest(ONE_RECORD)
        assert worst is not None
        if worst > part * amount:
            return False
    return True


@pytest.mark.parametrize("noise", NOISES.values())
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_table_that_the_named_change_does_not_move_is_not_free(noise: str, neighbours: str) -> None:
    """Catches a forgotten cap; the mutant lets each table use what the named change leaves."""
    workload = WorkloadFacts((2, 2, 2), tables((0, 1), (1, 2)), noise, exact=((0,), (1,)), neighbours=neighbours)
    budget, parts = Budget(rho=HALF), [HALF, HALF]
    amount = ONE if workload.exponent == 1 else HALF
    right = workload_precisions(workload, budget, kind=ONE_RECORD)
    assert kind_of_change(workload, ONE_RECORD).largest == (0, 2)
    assert is_capped(workload, right, amount, parts)
    forgotten = (FAMILIES[noise].most, right[1])
    assert budget.covers(workload_certificate(workload.with_precisions(forgotten), ONE_RECORD))
    assert not is_capped(workload, forgotten, amount, parts)


# ---- precisions ----


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("exponent", [1, 2])
def test_precisions_stay_within_budget_and_cap(exponent: int, neighbours: str, request: pytest.FixtureRequest) -> None:
    """Catches precisions above the budget of the worst pair, above the cap, and a budget that is left unused."""
    n_full = 0
    for small in drawn_ones(request.node.name, 15, exponent, neighbours):
        workload, budget = small.workload, Budget(rho=HALF)
        amount = ONE if exponent == 1 else HALF
        try:
            chosen = default_kind(workload)
        except PrivacyError:
            continue
        for shares in ("tables", "cells"):
            precisions = workload_precisions(workload, budget, shares)
            worst = small.dearest(chosen, precisions)
            assert worst is None or worst <= amount
            weights = [ONE] * len(precisions) if shares == "tables" else portions_by_cells(workload)
            weights = [0 * w if idle else w for w, idle in zip(weights, workload.determined, strict=True)]
            assert is_capped(workload, precisions, amount, [w / sum(weights) for w in weights])
            assert [p == 0 for p in precisions] == list(workload.determined)
            n_full += worst is not None and worst > amount * Fraction(999_999, 1_000_000)
    assert n_full > 5


def test_three_exact_attributes_use_the_maximum_of_the_sum() -> None:
    """Two that exchange split at most two of three pairs; sums of maxima would waste a third of the budget."""
    workload = WorkloadFacts((2, 2, 2), tables((0, 1), (0, 2), (1, 2)), NOISES[2], exact=((0,), (1,), (2,)))
    assert price(workload, EXCHANGE).amount == 4
    assert workload_precisions(workload, Budget(rho=HALF)) == (Fraction(1, 8),) * 3
    uneven = [float(p) for p in workload_precisions(workload, Budget(rho=HALF), [2, 1, 1])]
    assert uneven == pytest.approx([1 / 6, 1 / 12, 1 / 12])


def test_units_with_several_records() -> None:
    workload = health()
    alone, units = (workload_precisions(workload, Budget(rho=HALF), records_per_unit=n) for n in (1, 3))
    assert all(a > b for a, b in zip(alone, units, strict=True))
    certificate = workload_certificate(workload.with_precisions(units), any_records(3))
    assert certificate.k == 3
    assert certificate.rho is not None
    assert certificate.rho <= HALF
    with pytest.raises(PrivacyError, match="does not cover them"):
        workload_precisions(workload, Budget(rho=HALF), kind=EXCHANGE, records_per_unit=2)


def test_shares_that_are_not_known_are_refused() -> None:
    with pytest.raises(PrivacyError, match="shares by 'table'"):
        workload_precisions(health(), Budget(rho=HALF), "table")
    with pytest.raises(PrivacyError, match="each of 3 tables"):
        workload_precisions(health(), Budget(rho=HALF), [1, 1])
    with pytest.raises(PrivacyError, match="no pure epsilon"):
        workload_precisions(health(), Budget(epsilon=ONE))


# ---- the health case, and what is refused ----


def test_the_health_case() -> None:
    one, two, several = prices(health(), NAMES)
    assert (one.amount, two.amount, several.amount) == (Fraction(2, 3), Fraction(5, 3), Fraction(8, 3))
    assert (one.moves, two.moves, several.moves) == ((2, 0, 2), (4, 4, 4), (8, 0, 8))
    assert one.unmoved == ("county x diagnosis",)
    assert two.text == "two records that exchange county or diagnosis"
    assert default_kind(health()) == EXCHANGE
    assert loss_without_exact_numbers(health()) == Fraction(5, 6)
    linear = [cost.amount for cost in prices(health("double_geometric"))]
    assert linear == [Fraction(4, 3), Fraction(10, 3), Fraction(10, 3)]
    certificate = workload_certificate(health(), names=NAMES)
    assert (certificate.kind, certificate.k, certificate.change) == ("measured_tables_gaussian", 2, EXCHANGE)
    assert certificate.per_record == EXCHANGE
    assert workload_certificate(health(neighbours="unbounded")).k == 4
    assert unprotected(health(), ONE_RECORD, NAMES) == (
        "Table county x diagnosis does not change with one record that keeps its county and diagnosis: what it tells is"
        " not protected.",
        "Two records that exchange county or diagnosis can cost rho 1.6667, not covered here.",
        "Any 2 records can cost rho 2.6667, not covered here.",
    )


def test_a_change_in_one_county_is_no_exchange() -> None:
    """Two records of one county that swap diagnoses and keep ages are two records that change ages."""
    small = SmallWorkload(replace(health(), sizes=(2, 2, 1, 2)), 2)
    gaps, _ = small.changes
    number = {cell: place for place, cell in enumerate(small.cells)}
    change = np.zeros(len(small.cells), np.int64)
    change[[number[0, 0, 0, 0], number[0, 1, 0, 1]]] = -1
    change[[number[0, 0, 0, 1], number[0, 1, 0, 0]]] = 1
    places = np.flatnonzero((gaps == change).all(axis=1) | (gaps == -change).all(axis=1))
    assert len(places) == 1
    assert not small.is_irreducible[places].any()


@pytest.mark.parametrize(("n", "least"), [(2, 2), (3, 4), (4, 8)])
def test_all_smaller_margins_exact(n: int, least: int) -> None:
    """A table all of whose smaller margins are exact moves with ``2^(n - 1)`` records, and no fewer."""
    exact = tuple(combinations(range(n), n - 1))
    workload = WorkloadFacts((2,) * n, tables(tuple(range(n))), NOISES[2], exact=exact)
    assert fewest_records(workload) == least == workload.fewest_by_formula(tuple(range(n)))
    assert kind_of_change(workload, any_records(least - 1)).largest == (0,)
    assert default_kind(workload) == (EXCHANGE if n == 2 else any_records(least))
    if n < 4:
        _, apart = SmallWorkload(workload, least).changes
        assert apart.min() == least


def test_witnesses_avoid_structural_zeros() -> None:
    """Diagnoses of one sex only: records of the others still change sex; if all are, two exchange what is left."""
    one_sex = np.array([[True, False], [False, True], [False, False]])
    workload = WorkloadFacts((3, 2, 3), tables((1, 2)), NOISES[2], exact=((2,),), zeros=(((2, 1), one_sex),))
    assert fewest_records(workload) == 1
    all_of_one = one_sex.copy()
    all_of_one[2] = [True, False]
    stuck = replace(workload, zeros=(((2, 1), all_of_one),))
    with pytest.raises(PrivacyError, match=r"moves table \(1, 2\); leave out the table"):
        workload_certificate(stuck)
    freed = replace(stuck, exact=((1,),))
    assert fewest_records(freed) == 1  # diagnoses 1 and 2 are of the same sex


def test_refusals() -> None:
    workload = health()
    with pytest.raises(PrivacyError, match="there is no change of two that exchange"):
        workload_certificate(replace(workload, exact=((0,),)), EXCHANGE)
    with pytest.raises(PrivacyError, match="moves no table that is measured"):  # or a ledger would be charged nothing
        workload_certificate(replace(workload, tables=workload.tables[1:2]), ONE_RECORD)
    with pytest.raises(PrivacyError, match="exact margins determine every table"):
        workload_certificate(replace(workload, exact=((0, 1, 2, 3),)))
    with pytest.raises(PrivacyError, match="is no kind of change"):
        price(workload, "three records")
    with pytest.raises(PrivacyError, match="a name each, not 1"):
        price(workload, ONE_RECORD, ["county"])
    with pytest.raises(PrivacyError, match="no theorem here"):
        replace(workload, noise="laplace")
    with pytest.raises(PrivacyError, match="has their sizes"):
        replace(workload, zeros=(((0,), np.zeros(3, np.bool_)),))
    with pytest.raises(PrivacyError, match="are integers"):
        replace(workload, sums=(((2,), np.zeros(2)),))  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="are not different ones of 0 to 3"):
        replace(workload, exact=((4,),))
    with pytest.raises(PrivacyError, match="precision of a table is negative"):
        replace(workload, tables=tables((0,), precision=-ONE))
    total = WorkloadFacts((2, 2), tables(()), NOISES[2])
    with pytest.raises(PrivacyError, match="moves table"):  # the number of records is the same for all neighbours
        workload_certificate(total)


def test_nothing_measured_is_suppression() -> None:
    certificate = workload_certificate(health().with_precisions([Fraction(0)] * 3))
    assert certificate.kind == "suppression"
    assert certificate.loss == 0


def test_a_search_that_is_too_large_charges_bounds() -> None:
    """Catches a search that stops early and charges what it has seen: all pairs of 16 exact attributes are too many."""
    n = 18
    workload = WorkloadFacts(
        (2,) * n, tables(*combinations(range(4), 2)), NOISES[2], exact=tuple((i,) for i in range(n))
    )
    cost = price(workload, EXCHANGE)
    assert not cost.is_attained
    assert cost.moves == (8,) * 6
    assert workload_certificate(workload).reasons[0].endswith("a bound")


# ---- the kind of change in certificates and spends ----


def test_the_named_kind_is_a_further_field() -> None:
    certificate = workload_certificate(health())
    values = certificate_as_json(certificate)
    assert values["change"] == EXCHANGE
    assert certificate_from_json(values) == replace(certificate, reasons=())
    older = {name: value for name, value in values.items() if name != "change"}
    assert certificate_from_json(older).change == ""
    assert certificate_as_json(certificate_from_json(older)) == older
    with pytest.raises(ValueError, match="kind of change"):
        certificate_from_json({**older, "change": ""})


# ---- several releases ----


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_releases_together_cost_no_less_than_any_pair(neighbours: str, request: pytest.FixtureRequest) -> None:
    """Catches sums over releases with pairs that only one of them allows, or noise families added up wrongly."""
    compared = 0
    for number in range(drawn(50)):
        dice = Dice(replay_rng(f"{request.node.name} {number}"))
        first = drawn_workload(dice, dice.choice([1, 2]), neighbours, plain=True)
        second = drawn_workload(dice, dice.choice([1, 2]), neighbours, plain=True).workload
        if len(first.workload.sizes) != len(second.sizes):
            continue
        releases = [first.workload, replace(second, sizes=first.workload.sizes)]
        small = SmallWorkload(union_of(releases), 2)
        gaps, _ = small.changes
        for cost in compose_workloads(releases).prices:
            is_of = small.is_of(cost.kind) if cost.k <= 2 or neighbours == "bounded" else np.zeros(len(gaps), np.bool_)
            of_kind = gaps[is_of]
            rho, epsilon = Fraction(0), Fraction(0)
            for gap in of_kind:
                change = WorkloadChange(
                    tuple((cell, int(size)) for cell, size in zip(small.cells, gap, strict=True) if size)
                )
                parts = [
                    sum((p * m for p, m in zip(release.precisions, change.moves(release), strict=True)), Fraction(0))
                    for release in releases
                ]
                powers = [release.exponent for release in releases]
                halves = [part / 2 if e == 2 else part**2 / 2 for part, e in zip(parts, powers, strict=True)]
                rho, epsilon = max(rho, sum(halves, Fraction(0))), max(epsilon, sum(parts, Fraction(0)))
            if cost.rho is None:
                assert cost.kind == EXCHANGE or not len(of_kind)
            elif is_of.any():
                assert cost.rho == rho
                assert cost.epsilon is None or cost.epsilon == epsilon
                compared += 1
    assert compared > (10 if neighbours == "bounded" else 4)


def test_what_no_change_of_one_record_alters() -> None:
    whole = health()
    parts = [
        replace(whole, tables=(table,), exact=exact)
        for table, exact in zip(whole.tables, [((0,),), ((3,),), ()], strict=True)
    ]
    together = compose_workloads(parts, NAMES)
    assert together.unaltered_attributes == ("county", "diagnosis")
    assert together.unaltered_tables == ("county x diagnosis",)
    assert [cost.rho for cost in together.prices] == [Fraction(2, 3), Fraction(5, 3), Fraction(8, 3)]
    assert "two records that exchange county or diagnosis: rho 1.6667" in together.lines
    with pytest.raises(PrivacyError, match="at least one release"):
        compose_workloads([])
    with pytest.raises(PrivacyError, match="the same attributes"):
        compose_workloads([whole, replace(whole, neighbours="unbounded")])


def test_one_record_by_any_name_leaves_exchanges_unprotected() -> None:
    tables = WorkloadTable((2,), Fraction(1)), WorkloadTable((0, 1), Fraction(1))
    workload = WorkloadFacts((3, 3, 2), tables, "discrete_gaussian", exact=((0,), (1,)))
    assert unprotected(workload, "any 1 records") == tuple(
        sentence.replace("one record that keeps its attribute 0 and attribute 1", "any 1 records")
        for sentence in unprotected(workload, "one record")
    )
    assert any("two records that exchange" in sentence.lower() for sentence in unprotected(workload, "any 1 records"))
