"""What spends keep of several tables of the same records, and what all releases cost by kinds of change."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from congenial.errors import TamperedError
from congenial.ledger import Ledger, Request, open_ledger
from congenial.ledger.records import Spend
from congenial.ledger.released_tables import ReleasedTables, cost_of_changes
from congenial.ledger.requests_and_canonical_text import canonical
from congenial.ledger.verification_and_export import verify_export
from congenial.privacy.workload import WorkloadFacts, WorkloadTable
from congenial.privacy.workload_certificate import workload_certificate
from congenial.privacy.workload_composition import compose_workloads
from ledgers import DIGEST, certificate, ledger_with, request

NAMES = ("county", "age", "sex", "diagnosis")
SIZES = (39, 8, 2, 12)
WEIGHT = Fraction(1, 6)
FIRST = WorkloadFacts(SIZES, (WorkloadTable((0, 1, 2), 2 * WEIGHT),), "discrete_gaussian", exact=((0,),))
SECOND = WorkloadFacts(
    SIZES, (WorkloadTable((0, 3), WEIGHT), WorkloadTable((2, 3), WEIGHT)), "discrete_gaussian", exact=((3,),)
)


def of_tables(release: str, facts: WorkloadFacts) -> Request:
    cost = workload_certificate(facts, names=NAMES)
    return Request(
        "county", release, cost, [("total", 10)], DIGEST, "Ada", "fedcba98" * 8, tables=ReleasedTables.of(facts, NAMES)
    )


def two_releases(place: str | Path) -> Ledger:
    ledger = ledger_with(place, rho="100")
    ledger.charge(of_tables("first", FIRST))
    ledger.charge(of_tables("second", SECOND))
    return ledger


def test_a_spend_keeps_tables_and_the_kind_of_change(place: str) -> None:
    ledger = two_releases(place)
    ledger.charge(request("plain", certificate(None)))
    first, second, plain = open_ledger(place).history("county")
    assert first.tables == ReleasedTables.of(FIRST, NAMES)
    assert second.certificate.change == "one record"
    assert plain.tables is None
    assert "tables" not in json.loads(str(plain.row["certificate"]))
    assert verify_export(ledger.export(), head=plain.head).accounts[0].spends == (first, second, plain)
    assert Spend.of_row(first.row) == first


def test_a_changed_table_shows(tmp_path: Path) -> None:
    lines = two_releases(tmp_path / "budget.db").export()
    with pytest.raises(TamperedError):
        verify_export(lines.replace("[[0]]", "[]").replace('\\"1/3\\"', '\\"1/4\\"'))


def test_status_says_what_exchanges_cost_over_all_releases(tmp_path: Path) -> None:
    ledger = two_releases(tmp_path / "budget.db")
    status = ledger.status("county")
    together = compose_workloads([FIRST, SECOND], NAMES)
    cost = cost_of_changes(ledger.history("county"), "rho")
    assert cost is not None
    assert (cost.one_record, cost.exchange) == (together.prices[0].rho, together.prices[1].rho)
    assert str(status).splitlines()[2:5] == [
        "  all releases together, one record: at most rho 0.5",
        "  all releases together, two records that exchange an exact attribute: at most rho 1.3334",
        "  no change of one record alters, as all exact numbers together stay: county and diagnosis",
    ]
    assert json.loads(json.dumps(status.as_json()))["changes"] == status.changes


def test_releases_without_structure_are_bounded(tmp_path: Path) -> None:
    ledger = ledger_with(tmp_path / "budget.db", rho="100")
    ledger.charge(request("plain", certificate(None, "1/2")))  # one record without exact numbers: 1
    assert ledger.status("county").changes == []
    ledger.charge(of_tables("first", FIRST))
    ledger.charge(request("pairs", certificate(None, "1/2", k=2)))
    cost = cost_of_changes(ledger.history("county"), "rho")
    assert cost is not None
    assert cost.is_bound
    assert cost.one_record == Fraction(1, 2) + Fraction(1, 3) + Fraction(1, 2)
    assert cost.exchange == 8 + 4 * Fraction(1, 3) + Fraction(1, 2)
    assert cost.lines[-1] == "no change of one record alters, as all exact numbers together stay: at least county"
    planned = cost_of_changes(ledger.history("county"), "rho", ReleasedTables.of(SECOND, NAMES))
    assert planned is not None
    assert planned.unaltered == ("county", "diagnosis")


def test_one_record_that_changes_leaves_and_comes() -> None:
    """Where exact numbers say how many records there are, what one that comes or goes costs is no bound for it."""
    facts = WorkloadFacts(
        (2, 2), (WorkloadTable((0, 1), WEIGHT),), "discrete_gaussian", ((0,),), neighbours="unbounded"
    )
    tables = ReleasedTables.of(facts, NAMES[:2])
    for k, charged in ((1, 2 * 2**2 * 1), (2, Fraction(1, 2))):
        other = SimpleNamespace(
            tables=None, certificate=certificate(None, "1/2", neighbours="unbounded", k=k), loss=Fraction(1, 2)
        )
        cost = cost_of_changes([other], "rho", tables)  # type: ignore[list-item]
        assert cost is not None
        assert cost.one_record == WEIGHT + charged
    free = replace(tables, exact=())
    cost = cost_of_changes([other], "rho", free)  # type: ignore[list-item]
    assert cost is not None
    assert cost.one_record == WEIGHT / 2 + Fraction(1, 2)


def test_bounds_are_no_less_than_what_is_known() -> None:
    """Exact sums that are no margins are not kept, and what is charged instead covers every exchange."""
    tables = ReleasedTables(
        (("county", 39), ("age", 8), ("sex", 2), ("diagnosis", 12)),
        "discrete_gaussian",
        "bounded",
        ((("county", "age", "sex"), 2 * WEIGHT), (("county", "diagnosis"), WEIGHT), (("diagnosis", "sex"), WEIGHT)),
        (("county",), ("diagnosis",)),
        (("age",),),
    )
    bound = cost_of_changes([], "rho", tables)
    exact = compose_workloads([FIRST, SECOND], NAMES)
    assert bound is not None
    assert bound.exchange is not None
    assert all(price.rho is None or bound.exchange >= price.rho for price in exact.prices)


@pytest.mark.parametrize(
    "change",
    [
        {"noise": "none"},
        {"neighbours": "both"},
        {"dimensions": [["county", 0]]},
        {"dimensions": "county"},
        {"exact": [["street"]]},
        {"tables": [[["county", "county"], "1"]]},
        {"tables": [[["county"], "-1"]]},
        {"tables": 7},
        {"more": 1},
    ],
)
def test_other_texts_are_no_tables(change: dict[str, Any]) -> None:
    values = ReleasedTables.of(FIRST, NAMES).as_json()
    assert ReleasedTables.of_json(json.loads(canonical(values))) == ReleasedTables.of(FIRST, NAMES)
    with pytest.raises(ValueError, match="tables"):
        ReleasedTables.of_json(values | change)
