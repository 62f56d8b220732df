"""What a ledger promises, on both kinds of databases."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import congenial as cg
from congenial.errors import AlreadySpentError, BudgetError, LedgerError
from congenial.examples import p12_mechanism, p12_table
from congenial.ledger import Head, Ledger, Receipt, Request, open_ledger, verify_export
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at
from congenial.privacy.certificate import EXCHANGE
from drawn import drawn
from ledgers import NOW, certificate, ledger_with, request


def test_a_charge_is_recorded_and_comes_back_as_a_receipt(place: str) -> None:
    ledger = ledger_with(place, epsilon="4")
    receipt = ledger.charge(request(cost=certificate("3/2")), now=NOW)
    assert (receipt.loss, receipt.spent, receipt.left, receipt.cap) == (
        Fraction(3, 2),
        Fraction(3, 2),
        Fraction(5, 2),
        Fraction(4),
    )
    assert (receipt.dataset, receipt.release, receipt.number, receipt.currency) == ("county", "first", 1, "epsilon")
    assert receipt.at == "2026-01-16T11:00:00Z"
    assert receipt.previous == ledger.datasets()[0].hash
    (spend,) = open_ledger(place).history("county")
    assert spend.head == receipt.head
    assert spend.certificate == certificate("3/2")
    assert spend.software.startswith("congenial")
    assert Receipt.from_json(json.dumps(receipt.as_json())) == receipt


def test_a_plan_of_the_library_is_charged(place: str) -> None:
    mechanism = p12_mechanism()
    plan = mechanism.plan(mechanism.disclose(p12_table()))
    assert plan.certificate.loss is not None
    receipt = ledger_with(place, epsilon="2").charge(request(cost=plan.certificate))
    assert receipt.loss == plan.certificate.loss
    (spend,) = open_ledger(place).history("county")
    kept = spend.certificate
    assert (kept.kind, kept.loss, kept.rho, kept.reasons) == (
        plan.certificate.kind,
        plan.certificate.loss,
        plan.certificate.rho,
        (),
    )


def test_sums_are_exact_to_the_last_third(place: str) -> None:
    """Three thirds fit in a cap of one, which floats and decimals get wrong; nothing fits after."""
    ledger = ledger_with(place, epsilon="1")
    for release in ("a", "b", "c"):
        receipt = ledger.charge(request(release, certificate("1/3")))
    assert (receipt.spent, receipt.left) == (Fraction(1), Fraction(0))
    with pytest.raises(BudgetError, match=r"has 0 left: 1 of 1 is spent\. Nothing was charged; nothing is left"):
        ledger.charge(request("d", certificate("1e-15")))
    assert ledger.charge(request("e", certificate("0", "0", k=0))).loss == 0
    assert ledger.verify().n_spends == 4


def test_what_would_pass_the_cap_is_refused_and_not_recorded(place: str) -> None:
    ledger = ledger_with(place, epsilon="2")
    ledger.charge(request("a", certificate("1.2")))
    before = ledger.export()
    with pytest.raises(BudgetError) as caught:
        ledger.charge(request("b", certificate("0.8000001")))
    assert str(caught.value) == (
        "release 'b' costs epsilon 0.8001, and dataset 'county' has 0.8 left: 1.2 of 2 is spent. Nothing was charged;"
        " plan it with epsilon of at most what is left"
    )
    assert ledger.export() == before
    assert ledger.charge(request("b", certificate("0.8"))).left == 0  # the refused name is still free


def test_a_release_name_is_spent_once(place: str) -> None:
    ledger = ledger_with(place, epsilon="4")
    ledger.charge(request(), now=NOW)
    with pytest.raises(AlreadySpentError, match=r"charged on 2026-01-16T11:00:00Z by Ada.*--resume.*choose a new name"):
        ledger.charge(request())
    ledger.create_dataset("other", epsilon="4", neighbours="bounded", who="Ada")
    ledger.charge(request(dataset="other"))  # names are unique for each dataset, not for the ledger
    assert [ledger.status(name).n_spends for name in ("county", "other")] == [1, 1]


@pytest.mark.parametrize("spelling", ["SPRING 2026", "Spring 2026", "\uff53pring 2026"])
def test_a_second_spelling_is_no_second_release(place: str, spelling: str) -> None:
    """As with names of datasets: two bundles that a reader takes for one would be two draws."""
    ledger = ledger_with(place, epsilon="4")
    ledger.charge(request("spring 2026"), now=NOW)
    with pytest.raises(AlreadySpentError, match=r"was charged as 'spring 2026' on 2026-01-16T11:00:00Z by Ada"):
        ledger.charge(request(spelling))
    assert ledger.status("county").n_spends == 1


def test_a_name_is_refused_even_when_nothing_is_left(place: str) -> None:
    """A retry after a crash hears that it was charged, and not that the budget is gone."""
    ledger = ledger_with(place, epsilon="1")
    ledger.charge(request())
    with pytest.raises(AlreadySpentError):
        ledger.charge(request())


def test_currencies(place: str) -> None:
    ledger = ledger_with(place, epsilon="4")
    ledger.create_dataset("gaussian", rho="2", delta="1e-10", neighbours="bounded", who="Ada")
    assert ledger.charge(request("pure", certificate("1", "1/3"), dataset="gaussian")).loss == Fraction(1, 3)
    assert ledger.charge(request("gauss", certificate(None, "1/5"), dataset="gaussian")).loss == Fraction(1, 5)
    with pytest.raises(BudgetError, match=r"capped in epsilon.*bounds rho only.*double_geometric"):
        ledger.charge(request("gauss", certificate(None, "1/5")))
    with pytest.raises(BudgetError, match=r"capped in rho.*bounds epsilon only"):
        ledger.charge(request("x", certificate("1", None), dataset="gaussian"))


@pytest.mark.parametrize(("mine", "asked"), [("bounded", "unbounded"), ("unbounded", "bounded")])
def test_neighbour_relations_do_not_mix(place: str, mine: str, asked: str) -> None:
    ledger = open_ledger(place, create=True)
    ledger.create_dataset("county", epsilon="100", neighbours=mine, who="Ada")
    with pytest.raises(BudgetError, match=f"plan it with neighbours: {mine}"):
        ledger.charge(request(cost=certificate(neighbours=asked)))
    assert ledger.history("county") == ()


def test_renyi_orders_are_composed_exactly(place: str) -> None:
    ledger = ledger_with(place, rho="2", delta="1e-10")
    first = ledger.status("county")
    assert (first.spent, first.epsilon, first.certificate.orders) == (Fraction(0), Fraction(0), "all")
    ledger.charge(request("a", certificate("1", "1/3")))
    ledger.charge(request("b", certificate("1", "1/7")))
    pure = ledger.status("county")
    assert pure.epsilon == pure.certificate.loss == 2  # at this delta the pure losses say more
    ledger.charge(request("c", certificate(None, "1/5", orders="integer", k=2)))
    status = ledger.status("county")
    rho = Fraction(1, 3) + Fraction(1, 7) + Fraction(1, 5)
    assert status.spent == status.certificate.rho == rho
    assert status.left == 2 - rho
    assert status.certificate.orders == "integer"
    assert status.certificate.loss is None  # one release has no pure loss, so all together have none
    assert status.certificate.rho_at_all_orders == Fraction(1, 3) + Fraction(1, 7) + Fraction(2, 5)
    assert status.epsilon == epsilon_at(rho, Fraction(1, 10**10))
    assert status.epsilon_of_cap == epsilon_at(Fraction(2), Fraction(1, 10**10))
    assert status.certificate.k == 1
    assert "integer Renyi orders" in repr(status)
    assert json.loads(json.dumps(status.as_json()))["spent"] == str(rho)


def test_releases_hold_together_at_the_smallest_k(place: str) -> None:
    """A release with no pair of tables at all limits nothing."""
    ledger = ledger_with(place, epsilon="9")
    for release, k in (("a", 3), ("b", 0), ("c", 2)):
        ledger.charge(request(release, certificate(k=k)))
    assert ledger.status("county").certificate.k == 2


def test_a_spend_keeps_the_kind_of_change_that_it_was_certified_for(place: str) -> None:
    """A sum with a release certified for two that exchange does not hold for any two records."""
    ledger = ledger_with(place, epsilon="4")
    ledger.charge(request("a", certificate("1", k=2)))
    assert "change" not in ledger.history("county")[0].row["certificate"]  # type: ignore[operator]
    assert ledger.status("county").certificate.change == ""
    ledger.charge(request("b", replace(certificate("1", k=2), change=EXCHANGE)))
    together = open_ledger(place).status("county").certificate
    assert open_ledger(place).history("county")[1].certificate.change == EXCHANGE
    assert (together.k, together.change, together.per_record) == (2, EXCHANGE, EXCHANGE)
    assert together.statement.endswith("at k = 2, for two that exchange in each release")
    ledger.charge(request("c", certificate("1", k=1)))
    assert ledger.status("county").certificate.change == ""  # one record is in every kind
    assert ledger.verify().n_spends == 3


def test_invariants_accumulate(place: str) -> None:
    ledger = ledger_with(place, epsilon="9")
    ledger.charge(request("a", invariants=(("total", 2**70), ("share of women", Fraction(1, 3)))))
    ledger.charge(request("b", invariants=(("total", "at least 5"), ("naïve “text”\n", -3))))
    found = [(one.statistic, one.value, one.release) for one in ledger.disclosed("county")]
    assert found == [
        ("total", str(2**70), "a"),
        ("share of women", "1/3", "a"),
        ("total", "at least 5", "b"),
        ("naïve “text”\n", "-3", "b"),
    ]
    assert ledger.verify().n_spends == 2


def test_a_cap_is_never_changed(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    with pytest.raises(LedgerError, match="its cap is never changed"):
        ledger.create_dataset("county", epsilon="9", neighbours="bounded", who="Ada")
    assert [dataset.cap for dataset in ledger.datasets()] == [1]


def test_datasets_come_by_name(place: str) -> None:
    ledger = open_ledger(place, create=True)
    assert ledger.datasets() == ()
    with pytest.raises(LedgerError, match="no datasets yet"):
        ledger.status("county")
    for name in ("b", "a", "Straße"):
        ledger.create_dataset(name, rho="1/2", neighbours="unbounded", who="Ada", now=NOW)
    assert {dataset.name for dataset in ledger.datasets()} == {"a", "b", "Straße"}
    with pytest.raises(LedgerError, match="did you mean 'Straße'"):
        ledger.history("Strasse")
    with pytest.raises(LedgerError, match="is not in the ledger"):
        ledger.charge(request())


def test_exported_lines_verify_without_the_database(place: str) -> None:
    ledger = ledger_with(place, epsilon="9")
    receipts = [ledger.charge(request(release)) for release in "abc"]
    ledger.create_dataset("other", rho="1", neighbours="unbounded", who="Ada")
    text = ledger.export()
    assert verify_export(text, receipts[1].head) == ledger.verify(head=receipts[1].head)
    assert len(text.splitlines()) == 5
    assert verify_export(ledger.export("county"), receipts[2].head).heads == (receipts[2].head,)
    assert verify_export("").heads == ()


def test_the_hash_is_that_of_the_canonical_record(place: str) -> None:
    """Written out by hand, on both databases: anyone can recompute the chain from an export."""
    ledger = ledger_with(place, rho="1/2", delta="1e-10")
    ledger.charge(request(cost=certificate("1", "1/8")), now=NOW)
    for line in ledger.export().splitlines():
        record = json.loads(line)
        kept = record.pop("hash")
        assert sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest() == kept


def test_verify_wants_the_head_of_the_dataset(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    with pytest.raises(LedgerError, match="verify that one"):
        ledger.verify("county", Head("other", 0, "x"))
    with pytest.raises(LedgerError, match="not in the ledger"):
        ledger.verify("other")
    with pytest.raises(LedgerError, match="is gone"):
        ledger.verify("other", Head("other", 0, "x"))


def test_creating_twice_keeps_what_is_there(place: str) -> None:
    ledger_with(place, epsilon="1").charge(request())
    assert open_ledger(place, create=True).verify().n_spends == 1


def test_the_clock_is_used_when_no_time_is_given(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    before = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert before <= ledger.charge(request()).at <= datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@settings(max_examples=drawn(10), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.fractions(0, 1, max_denominator=60), min_size=1, max_size=12), st.fractions("1/9", 3))
def test_a_ledger_is_a_sum_with_a_limit(
    tmp_path_factory: pytest.TempPathFactory, costs: list[Fraction], cap: Fraction
) -> None:
    ledger = ledger_with(tmp_path_factory.mktemp("ledger") / "budget.db", epsilon=cap)
    spent = Fraction(0)
    for number, cost in enumerate(costs):
        asked = request(str(number), certificate(str(cost)))
        if spent + cost <= cap:
            spent += cost
            assert ledger.charge(asked).spent == spent
        else:
            with pytest.raises(BudgetError):
                ledger.charge(asked)
    assert ledger.status("county").left == cap - spent
    assert ledger.verify().heads[0].number == len(ledger.history("county"))


def test_sums_that_grow_too_long_are_refused(place: str) -> None:
    """Losses with large prime denominators: the sum would double its digits with each."""
    ledger = ledger_with(place, epsilon="9")
    asked = [request(str(number), certificate(str(Fraction(1, 10**90 + 2 * number + 1)))) for number in range(12)]
    for one in asked[:11]:
        ledger.charge(one)
    with pytest.raises(LedgerError, match="round this loss up"):
        ledger.charge(asked[11])
    assert ledger.verify().n_spends == 11


def test_errors_survive_a_process_boundary() -> None:
    import pickle

    error = cg.errors.TamperedError("wrong", ("a", "b"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.findings) == ("wrong", ("a", "b"))


def test_charge_takes_requests_only(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    with pytest.raises(LedgerError, match="takes a Request"):
        ledger.charge("county")  # type: ignore[arg-type]
    assert isinstance(request(), Request)
    assert repr(ledger).startswith("the ledger ")


def spent_at(ledger: Ledger, release: str, after: timedelta) -> str:
    return ledger.charge(request(release, certificate("1/9")), now=NOW + after).at


def test_a_clock_that_was_set_back_is_noticed(place: str) -> None:
    """Computers that share a ledger differ by seconds: the record then has the time of the one before it."""
    ledger = ledger_with(place, epsilon="1")
    assert spent_at(ledger, "a", timedelta(hours=1)) == "2026-01-16T12:00:00Z"
    assert spent_at(ledger, "b", timedelta(minutes=58)) == "2026-01-16T12:00:00Z"
    assert spent_at(ledger, "c", timedelta(minutes=59)) == "2026-01-16T12:00:00Z"
    before = ledger.export()
    for behind in (timedelta(minutes=57, seconds=59), timedelta(0), timedelta(days=-4000)):
        with pytest.raises(LedgerError, match=r"the clock says .*'county' is from 2026-01-16T12:00:00Z.*set the clock"):
            spent_at(ledger, "d", behind)
    assert ledger.export() == before
    assert spent_at(ledger, "d", timedelta(hours=1, seconds=1)) == "2026-01-16T12:00:01Z"  # the name is still free
    assert ledger.verify().n_spends == 4


def test_a_spend_is_not_before_its_dataset(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    with pytest.raises(LedgerError, match="is from 2026-01-16T11:00:00Z"):
        spent_at(ledger, "a", timedelta(minutes=-3))
    assert spent_at(ledger, "a", timedelta(minutes=-2)) == "2026-01-16T11:00:00Z"


def test_a_wrong_time_of_one_dataset_does_not_lock_the_others(place: str) -> None:
    ledger = ledger_with(place, epsilon="1")
    spent_at(ledger, "a", timedelta(days=30_000))
    ledger.create_dataset("other", epsilon="1", neighbours="bounded", who="Ada", now=NOW)
    assert ledger.charge(request(dataset="other"), now=NOW).number == 1
