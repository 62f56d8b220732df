"""A release from Python: one table or areas, charged once, drawn once, and the same bundle as the command line's."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.errors import (
    AlreadySpentError,
    BrokenError,
    BudgetError,
    BundleError,
    ConditionError,
    LedgerError,
    PrivacyError,
    SamplingError,
    SuppressedError,
)
from congenial.examples import p12_mechanism, p12_table
from congenial.ledger import Ledger
from congenial.privacy.certificate import shown
from congenial.randomness import TreeStreams

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
NORTH, SOUTH = cg.Table(SCHEMA, [[30, 41], [11, 25]]), cg.Table(SCHEMA, [[3, 0], [8, 2]])
AT = "2026-01-16T12:00:00Z"


def mechanism(**options: object) -> cg.Mechanism:
    said: dict[str, object] = {"epsilon": "1"} | options
    return cg.Mechanism(
        SCHEMA,
        measure=[cg.cells()],
        invariants=[cg.total(mandate="a law"), cg.margin("sex")],
        **said,  # type: ignore[arg-type]
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = cg.open_ledger(tmp_path / "budget.db", create=True)
    made.create_dataset("county", epsilon="3", neighbours="bounded", who="Ada")
    return made


def test_one_table_from_python(ledger: Ledger, tmp_path: Path) -> None:
    made = mechanism().release(NORTH, ledger=ledger, dataset="county", release="2026", who="Ada")
    assert made.receipt is not None
    assert made.receipt.loss == made.plan.certificate.loss
    assert made.tables[None].reshape(2, 2).sum(axis=1).tolist() == [71, 36]
    (spend,) = ledger.history("county")
    assert spend.invariants == (("total", "107"), ("sex=f", "71"), ("sex=m", "36"))
    bundle = cg.load_bundle(made.write(tmp_path / "bundle"))
    assert np.array_equal(bundle.tables[None], made.tables[None])
    assert bundle.manifest.exact_statistics[0].mandate == "a law"
    assert repr(made) == "release '2026' of dataset 'county': one table, charged epsilon 1"


def test_areas_from_python(ledger: Ledger, tmp_path: Path) -> None:
    tables = {"north": NORTH, "south": SOUTH}
    made = mechanism().release(
        tables, ledger=ledger, dataset="county", release="r", who="Ada", area="region", title="Regions", unit="person"
    )
    assert [int(counts.sum()) for counts in made.tables.values()] == [107, 13]
    bundle = cg.load_bundle(made.write(tmp_path / "bundle"))
    assert list(bundle.tables) == ["north", "south"]
    assert bundle.law.areas.name == "region"
    assert bundle.manifest.naming.title == "Regions"
    assert ("region south: sex=m", "10") in ledger.history("county")[0].invariants


def test_a_refused_folder_loses_nothing(ledger: Ledger, tmp_path: Path) -> None:
    made = mechanism().release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "there", tmp_path / "missing" / "bundle"):
        with pytest.raises(BundleError):
            made.write(folder)
    with pytest.raises(BundleError, match="'xlsx' is not an output"):
        made.write(tmp_path / "first", outputs=("csv", "xlsx"))
    first, second = made.write(tmp_path / "first"), made.write(tmp_path / "second", outputs=("csv",))
    assert (first / "table.csv").read_bytes() == (second / "table.csv").read_bytes()
    assert sorted(path.name for path in second.iterdir()) == [
        "README.txt",
        "expected-errors.csv",
        "manifest.json",
        "table.csv",
    ]
    assert ledger.verify().n_spends == 1


def test_no_generator_can_be_given(ledger: Ledger) -> None:
    with pytest.raises(TypeError):
        mechanism().release(  # type: ignore[call-arg]
            NORTH, ledger=ledger, dataset="county", release="r", who="Ada", rng=cg.replay_rng(1)
        )


REFUSED: dict[str, tuple[Callable[[], Any], dict[str, str], type[Exception], str]] = {
    "another schema": (lambda: cg.Table(cg.Schema({"a": ["x"]}), [1]), {}, ConditionError, "schema"),
    "no table": (lambda: [[1, 2], [3, 4]], {}, ConditionError, "a Table"),
    "areas without a table": (dict, {}, ConditionError, "no areas"),
    "an area that is a number": (lambda: {1: NORTH}, {}, ConditionError, "is text"),
    "an unknown dataset": (lambda: NORTH, {"dataset": "town"}, LedgerError, "town"),
    "nobody": (lambda: NORTH, {"who": " "}, LedgerError, "who asks"),
    "no name": (lambda: NORTH, {"release": ""}, LedgerError, "release"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_charged(name: str, ledger: Ledger) -> None:
    make, options, kind, words = REFUSED[name]
    said = {"dataset": "county", "release": "r", "who": "Ada"} | options
    with pytest.raises(kind, match=words):
        mechanism().release(make(), ledger=ledger, **said)
    assert ledger.verify().n_spends == 0


def test_budgets_and_suppression(ledger: Ledger) -> None:
    with pytest.raises(SuppressedError, match="every precision is 0"):
        mechanism(epsilon="0").release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    with pytest.raises(BudgetError, match="Nothing was charged"):
        mechanism(epsilon="4").release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    with pytest.raises(PrivacyError, match="several areas"):
        mechanism(rows_per_unit=2).release(
            {"a": NORTH, "b": SOUTH}, ledger=ledger, dataset="county", release="r", who="A"
        )
    mechanism().release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    with pytest.raises(AlreadySpentError):
        mechanism().release(NORTH, ledger=ledger, dataset="county", release="r", who="Ada")
    assert ledger.verify().n_spends == 1


SPEC = """\
release: r
dataset: county
title: Two regions
data: {path: data.csv, kind: counts, count: n}
dimensions: {sex: [f, m], age: [y, o]}
BY
invariants: [{total: all, mandate: a law}, margin of sex]
budget: {epsilon: 1}
"""


@pytest.mark.parametrize("areas", [False, True])
def test_the_bundle_is_the_command_line_s(areas: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same data, spec and random words: every byte is the same, once the clock is held."""
    monkeypatch.setattr("congenial.ledger.ledger.moment", lambda now: AT)
    monkeypatch.setattr("congenial.release_key.secret_bytes", bytes)  # a seam of the tests
    tables = {"north": NORTH, "south": SOUTH} if areas else {None: NORTH}
    lines = [
        ",".join([*([] if area is None else [area]), sex, age, str(count)])
        for area, table in tables.items()
        for (sex, age), count in zip(
            [("f", "y"), ("f", "o"), ("m", "y"), ("m", "o")], table.counts.tolist(), strict=True
        )
    ]
    head = "region,sex,age,n" if areas else "sex,age,n"
    (tmp_path / "data.csv").write_text("\n".join([head, *lines, ""]), encoding="utf-8")
    by = "by: {name: region, levels: [north, south]}" if areas else ""
    (tmp_path / "spec.yaml").write_text(SPEC.replace("BY", by), encoding="utf-8")
    books = []
    for name in ("command", "python"):
        books.append(cg.open_ledger(tmp_path / f"{name}.db", create=True))
        books[-1].create_dataset("county", epsilon="3", neighbours="bounded", who="Ada")
    options = ["--ledger", str(tmp_path / "command.db"), "--who", "Ada", "--out", str(tmp_path / "command"), "--yes"]
    run = CliRunner().invoke(main, ["release", str(tmp_path / "spec.yaml"), *options])
    assert run.exit_code == 0, run.output
    given = {"north": NORTH, "south": SOUTH} if areas else NORTH
    made = mechanism().release(
        given, ledger=books[1], dataset="county", release="r", who="Ada", title="Two regions", area="region"
    )
    made.write(tmp_path / "python")
    contents = [
        {path.name: path.read_bytes() for path in sorted((tmp_path / name).iterdir())} for name in ("command", "python")
    ]
    assert contents[0] == contents[1]
    assert ("areas.parquet" in contents[0]) == areas


def test_a_law_is_disclosed_and_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from congenial.conditions import constraints

    calls: list[int] = []
    compile_conditions: Any = constraints.compile_conditions  # type: ignore[attr-defined]

    def counted(*arguments: object) -> object:
        calls.append(1)
        return compile_conditions(*arguments)

    made = p12_mechanism(epsilon="1")
    monkeypatch.setattr(constraints, "compile_conditions", counted)
    made.law(p12_table()).sample(1)
    assert calls == [1]
    made.plan(made.disclose(p12_table()))
    assert calls == [1, 1]


def test_what_was_charged_is_what_the_receipt_says(tmp_path: Path) -> None:
    """A budget at all orders is asked for in one number, and a ledger in rho adds up another."""
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("county", rho="3", neighbours="bounded", who="Ada")
    own = mechanism(epsilon=None, rho="1/2", orders="all", noise="discrete_gaussian")
    made = own.release(NORTH, ledger=ledger, dataset="county", release="2026", who="Ada")
    assert made.receipt is not None
    assert made.receipt.loss == made.plan.certificate.rho
    assert repr(made).endswith(f"charged rho {shown(made.receipt.loss)}")


def test_a_bundle_whose_conditions_are_not_its_law_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    made = mechanism().release(NORTH, ledger=ledger, dataset="county", release="2026", who="Ada")
    fewer = replace(made, conditions=made.conditions[:1])
    with pytest.raises(BundleError, match="receipt is for another plan: other names, conditions"):
        cg.load_bundle(fewer.write(tmp_path / "fewer"))
    cg.load_bundle(made.write(tmp_path / "bundle"))


def test_the_area_that_breaks_a_stated_value_is_not_named() -> None:
    stated = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.total(equals=107)])
    with pytest.raises(BrokenError, match="break the condition «total is 107»") as caught:
        stated.disclose({"north": NORTH, "south": SOUTH})
    assert "south" not in str(caught.value)
    (found,) = cg.find_violations(stated, {"north": NORTH, "south": SOUTH})
    assert (found.area, found.statistic, found.value, found.needed) == ("south", "total", SOUTH.total, "107")


def test_a_first_query_that_is_not_measured_costs_no_report(tmp_path: Path) -> None:
    """Precision 0 is not measured: what is said of levels and noise goes by the queries that are."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
    queries = [cg.margin("age", precision="0"), cg.cells(precision="1")]
    mechanism = cg.Mechanism(schema, measure=queries, invariants=[cg.total()])
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="9", neighbours="bounded", who="Ada")
    table = cg.Table(schema, [[3, 4], [5, 6]])
    mechanism.release(table, ledger=ledger, dataset="town", release="first", who="Ada", folder=tmp_path / "out")
    bundle = cg.load_bundle(tmp_path / "out")
    assert bundle.manifest.left_out == {}
    assert (tmp_path / "out" / "report.html").is_file()
    assert verify_bundle(tmp_path / "out").not_checked == ()


def test_areas_are_not_drawn_from_words_of_a_tree() -> None:
    ready = p12_mechanism().prepare(p12_table(), Naming("r", "d", "a title"))
    with pytest.raises(SamplingError, match="words of their own"):
        ready.draw(TreeStreams.simulated(cg.replay_rng(1)))
