"""Several tables of the same records from Python: what is planned, drawn and decided, and what is refused."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.cell_intervals import cell_widths
from congenial.errors import CongenialError, PrivacyError
from congenial.workload.estimates import Estimator
from congenial.workload.plan import WorkloadPlan

LABELS = {"county": ["n", "s", "w"], "sex": ["f", "m"], "ill": ["a", "b"], "age": ["1", "2", "3"]}
TABLES = {
    "one": cg.margin("county", "sex"),
    "two": cg.margin("county", "ill"),
    "three": cg.margin("sex", "ill", "age"),
}
CELLS = np.arange(60) ** 2 * 7 % 36


def workload(**options: Any) -> cg.Workload:
    settings: dict[str, Any] = {"tables": TABLES, "rho": "1"}
    if "epsilon" in options:
        del settings["rho"]
    return cg.Workload(LABELS, **(settings | options))


def planned(some: cg.Workload, cells: Any = CELLS) -> tuple[WorkloadPlan, cg.Records]:
    records = cg.Records.of_cells(some.schema, np.asarray(cells, np.int64))
    return some.plan(some.disclose(records)), records


OPTIONS: dict[str, dict[str, Any]] = {
    "zCDP": {},
    "pure epsilon": {"epsilon": "2"},
    "epsilon at delta": {"epsilon": "1", "delta": "1e-6"},
    "Gaussian in epsilon at delta": {"epsilon": "1", "delta": "1e-6", "noise": "discrete_gaussian"},
    "Double Geometric in rho": {"noise": "double_geometric"},
    "unbounded": {"neighbours": "unbounded"},
    "unbounded, total": {"neighbours": "unbounded", "invariants": [cg.total()]},
    "one-way": {"invariants": [cg.margin("county"), cg.margin("age")]},
    "two-way": {"invariants": [cg.margin("sex", "county")]},
    "overlapping": {"invariants": [cg.margin("ill", "county"), cg.margin("county", "sex")]},
    "a group": {"invariants": [cg.total({"sex": "f"})]},
    "a group of each county": {"invariants": [cg.margin("county", where={"sex": "f"})]},
    "stated": {"invariants": [cg.total(equals=60)]},
    "one record": {"protects": "one record", "invariants": [cg.margin("county"), cg.margin("sex")]},
    "any three": {"protects": "any 3 records", "invariants": [cg.margin("county")]},
    "by cells": {"shares": "cells"},
    "cells too": {"also_measure": {"all": cg.cells(portion="3/20")}},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_decided_has_every_exact_number(name: str) -> None:
    some = workload(**OPTIONS[name])
    plan, records = planned(some)
    assert plan.dry_run() == []
    decision = plan.decide(plan.draw(some.counts_of(records), cg.replay_rng(name)))
    again = cg.Records.of_cells(some.schema, np.ravel_multi_index(tuple(decision.records.T), some.schema.shape))
    assert some.disclose(again) == some.disclose(records)
    for table, counts in zip(plan.law.published, decision.tables, strict=True):
        assert np.array_equal(counts.reshape(-1), again.margin(table.dimensions).reshape(-1))
    if plan.budget is not None:
        assert plan.budget.covers(plan.certificate)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no tables": ({"tables": {}}, "name at least one table"),
    "a list": ({"tables": [cg.margin("sex")]}, "a mapping from names to margins"),
    "a total": ({"tables": {"t": cg.total()}}, "is a margin of some dimensions"),
    "a part": ({"tables": {"t": cg.margin("sex", where={"ill": "a"})}}, "is a margin of some dimensions"),
    "no dimension": ({"tables": {"t": cg.margin("job")}}, "job"),
    "a dimension in no table": ({"tables": {"t": cg.margin("sex", "ill")}}, "'county' is in no table"),
    "no budget": ({"rho": None}, "have a budget"),
    "a budget of 0": ({"rho": "0"}, "leaves nothing"),
    "unknown shares": ({"shares": "luck"}, "shares is one of tables, cells, portions"),
    "unknown protects": ({"protects": "two that dance"}, "did you mean 'two that exchange'"),
    "float noise": ({"noise": "laplace"}, "noise of several tables is one of"),
    "all of the budget": ({"also_measure": {"all": cg.cells(portion="1")}}, "leaves nothing for"),
    "a range": ({"invariants": [cg.total(at_least=3)]}, "can be exact"),
    "bounds": ({"invariants": [cg.bounds(0, 5)]}, "can be exact"),
    "all cells 0": ({"invariants": [cg.structural_zeros({})]}, "cells"),
    "precision and budget": ({"tables": {**TABLES, "two": cg.margin("county", "ill", precision="1")}}, "a budget sets"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str) -> None:
    options, words = REFUSED[name]
    with pytest.raises((CongenialError, TypeError), match=words):
        planned(workload(**options))


def test_exact_numbers_that_determine_every_table_are_refused() -> None:
    labels = {"county": ["n", "s"], "sex": ["f", "m"]}
    some = cg.Workload(labels, tables={"t": cg.margin("sex")}, invariants=[cg.margin("county", "sex")], rho="1")
    with pytest.raises(CongenialError, match="determine every table"):
        some.plan(some.disclose(cg.Records.of_cells(some.schema, np.arange(4))))


def test_portions_of_what_is_not_published_are_of_the_whole_budget() -> None:
    """The published tables share the rest as they would share all, whether or not one of them follows."""
    also = {"all": cg.cells(portion="3/20")}
    for options in ({}, {"shares": "cells"}, {"invariants": [cg.margin("county", "sex")]}):
        law = planned(workload(also_measure=also, **options))[0].law
        alone = planned(workload(**options))[0].law
        precisions = [table.precision for table in law.tables]
        if not options.get("invariants"):
            assert abs(precisions[-1] / sum(precisions) - Fraction(3, 20)) < Fraction(1, 10**6)
        for one, other in zip(law.tables, alone.tables, strict=False):
            assert abs(one.precision - Fraction(17, 20) * other.precision) < Fraction(1, 10**6) or options
        assert [bool(table.precision) for table in law.tables][:3] == [bool(table.precision) for table in alone.tables]


def test_no_table_is_more_precise_than_its_share_buys_without_exact_numbers() -> None:
    """The mutant measures a table that the named change does not move as precisely as the noise allows."""
    free = planned(workload())[0].law.tables
    for invariants in ([cg.margin("county")], [cg.margin("county"), cg.margin("ill")]):
        exact = planned(workload(invariants=invariants, protects="one record"))[0].law.tables
        assert all(one.precision <= other.precision for one, other in zip(exact, free, strict=True))


def test_a_stated_precision_is_never_free() -> None:
    """One record moves no count of county by ill if both are exact: its precision would not be charged."""
    options = {"rho": None, "noise": "discrete_gaussian", "invariants": [cg.margin("county"), cg.margin("ill")]}
    tables = {"a": cg.margin("county", "sex", precision="1/10"), "b": cg.margin("county", "ill", precision="100")}
    tables["c"] = cg.margin("age", precision="1/10")
    with pytest.raises(PrivacyError, match="moves no count of table county x ill"):
        planned(workload(**options, tables=tables, protects="one record"))
    plan, _ = planned(workload(**options, tables=tables))
    assert plan.certificate.change == "two that exchange"
    assert (plan.certificate.rho or 0) > 200


def test_a_margin_stated_in_any_order_is_the_same() -> None:
    one, records = planned(workload(invariants=[cg.margin("sex", "county")]))
    other, _ = planned(workload(invariants=[cg.margin("county", "sex")]))
    (here,), (there,) = one.law.exact, other.law.exact
    assert here.values != there.values
    assert np.array_equal(here.table(one.law.schema), there.table(one.law.schema))
    assert np.array_equal(here.table(one.law.schema), records.margin(["county", "sex"]))


def test_an_exact_zero_is_where_it_is_whichever_order_a_margin_is_stated_in() -> None:
    """Nobody can change in such a cell: the certificate is of the others, so it must not be another cell."""
    cells = [cell for cell in CELLS if cell // 6 != 3]  # no men in county s
    for stated in (("sex", "county"), ("county", "sex")):
        plan, _ = planned(workload(invariants=[cg.margin(*stated)]), cells)
        (axes, mask), *_ = plan.facts.zeros
        assert axes == (0, 1)
        assert np.argwhere(mask).tolist() == [[1, 1]]


def test_alike_cells_have_one_half_width() -> None:
    """Labels can trade places in a table of whole margins; after a structural zero they cannot."""
    for invariants in ([], [cg.margin("county"), cg.margin("sex")]):
        plan, _ = planned(workload(invariants=invariants))
        (one, *_), (table, *_) = plan.tables, plan.law.tables
        assert plan.noise_is_alike(table)
        slow, quick = cell_widths(one), cell_widths(one, is_alike=True)
        assert slow is not None
        assert quick is not None
        assert np.array_equal(slow.half_widths, quick.half_widths)
    zero = cg.structural_zeros({"county": "n", "sex": "f"})
    cells = [cell for cell in CELLS if cell >= 6]
    plan, _ = planned(workload(invariants=[cg.margin("county"), zero]), cells)
    assert not plan.noise_is_alike(plan.law.tables[0])


def test_many_dimensions_are_never_listed() -> None:
    labels = {f"d{number}": ["a", "b", "c", "d", "e"] for number in range(13)}  # 1.2e9 cells
    tables = {f"t{number}": cg.margin(f"d{number}", f"d{number + 1}") for number in range(12)}
    some = cg.Workload(labels, tables=tables, invariants=[cg.margin("d0")], rho="1")
    cells = np.arange(400, dtype=np.int64) ** 4 * 7919 % some.schema.n_cells
    plan, records = planned(some, cells)
    decision = plan.decide(plan.draw(some.counts_of(records), cg.replay_rng(1)))
    assert decision.records.shape == (400, 13)
    assert decision.tables[0].reshape(5, 5).sum(axis=1).tolist() == records.margin(["d0"]).tolist()


def test_intervals_of_estimates_cover() -> None:
    """Nine in ten, whatever the records are: 200 draws of 45 cells, and a mutant of half the width is found."""
    some = workload(invariants=[cg.margin("county")])
    plan, records = planned(some)
    counts = some.counts_of(records)
    held = narrow = n = 0
    truth = records.margin(["sex", "ill", "age"])
    widths = None
    for draw in range(200):
        estimator = Estimator(plan, plan.draw(counts, cg.replay_rng(f"cover {draw}")))
        widths = estimator.half_widths(("sex", "ill", "age")) if widths is None else widths
        off = np.abs(estimator.table(("sex", "ill", "age")) - truth)
        held, narrow, n = held + (off <= widths).sum(), narrow + (off <= widths / 2).sum(), n + off.size
    assert held / n > 0.87
    assert narrow / n < 0.75


def test_draws_of_an_interval_are_those_of_its_release() -> None:
    """A seed that all releases share would make the same cells miss nine in ten again and again."""
    some = workload()
    plan, records = planned(some)
    widths = set()
    for draw in range(4):
        estimator = Estimator(plan, plan.draw(some.counts_of(records), cg.replay_rng(f"seed {draw}")))
        again = Estimator(plan, estimator.measured)
        assert np.array_equal(estimator.half_widths(("sex", "ill")), again.half_widths(("sex", "ill")))
        widths.add(tuple(estimator.half_widths(("sex", "ill")).reshape(-1).tolist()))
    assert len(widths) == 4


def test_an_error_as_large_as_a_drawn_one_is_within() -> None:
    """Noise of one table alone is whole, and so are its half-widths: rounding of doubles must not lose the ends."""
    some = workload(tables={"t": cg.margin("county", "sex", "ill", "age")}, epsilon="3")
    plan, records = planned(some)
    counts = some.counts_of(records)
    n_ends = 0
    for draw in range(30):
        measured = plan.draw(counts, cg.replay_rng(f"ends {draw}"))
        estimator = Estimator(plan, measured)
        reach = estimator.half_widths(some.schema.names).reshape(-1)
        error = estimator.table(some.schema.names).reshape(-1) - counts[0]
        at_end = np.rint(np.abs(error)) == np.rint(reach)
        n_ends += int(at_end.sum())
        assert (np.abs(error) <= reach)[at_end].all()
    assert n_ends > 30


def test_simulations_are_marked_and_confidential_data_are_not_simulated() -> None:
    from congenial.bundle.naming_and_versions import Naming
    from congenial.errors import StudyError
    from congenial.release import simulate

    some = workload()
    records = cg.Records.of_cells(some.schema, CELLS)
    public = some.prepare(records, Naming("r", "d", "T", "person", status="simulated"))
    release = simulate(public, seed=1)
    assert not release.manifest.is_for_release
    assert all(map(np.array_equal, release.drawn, simulate(public, seed=1).drawn))
    with pytest.raises(StudyError, match="confidential"):
        simulate(some.prepare(records, Naming("r", "d", "T", "person", status="confidential")), seed=1)
