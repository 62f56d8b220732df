"""Mechanism and Law: what is measured, what is exact, what is refused before any table is seen."""

import numpy as np
import pytest

import congenial as cg
from congenial.errors import ClashError, ConditionError, NoiseError, SchemaError, SuppressedError
from congenial.examples import p12_mechanism, p12_printed_release, p12_table

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
TABLE = cg.Table(SCHEMA, [[1, 2], [3, 4]])
CELLS = cg.cells(precision="1/2")


def test_p12_is_the_published_example() -> None:
    table, mechanism = p12_table(), p12_mechanism()
    assert (table.total, table.counts[:23].sum()) == (256, 130)
    constraints = mechanism.disclose(table)
    assert [one.text for one in constraints.rows] == ["total is 256", "voting age is 213", "total of sex=female is 130"]
    assert constraints.rank == 3
    assert constraints.holds(table.counts)
    assert constraints.violations(p12_printed_release().counts) == []


def test_law_draws_obey_the_invariants() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[CELLS], invariants=[cg.margin("sex")])
    law = mechanism.law(TABLE)
    draws = law.sample(1000)
    assert draws.shape == (1000, 4)
    assert np.all(mechanism.disclose(TABLE).holds(draws))
    assert np.isclose(np.exp(law.log_probability(law.enumerated.tables)).sum(), 1)
    with pytest.raises(cg.CongenialError, match="shape"):
        law.log_probability([1, 2, 3, 4])


def test_precision_zero_is_suppression_and_says_so() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="0")], invariants=[cg.total()])
    assert mechanism.is_suppressed
    assert "nothing but the invariants is released" in repr(mechanism)
    assert mechanism.disclose(TABLE).rows[0].text == "total is 10"
    with pytest.raises(SuppressedError, match="nothing but the invariants"):
        mechanism.law(TABLE)
    partly = cg.Mechanism(SCHEMA, measure=[CELLS, cg.margin("sex", precision="0")])
    assert not partly.is_suppressed
    assert len(partly.calibrate(partly.disclose(TABLE)).measured) == 4


def test_the_representation_reads_as_a_description() -> None:
    text = repr(cg.Mechanism(SCHEMA, measure=[CELLS], invariants=[cg.total(), cg.share({"sex": "f"})]))
    assert "cells() at precision 1/2, double_geometric noise" in text
    assert "exact: total(), share(sex=f)" in text


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"measure": []}, ConditionError, "measure at least one query"),
        ({"measure": [cg.cells()]}, ConditionError, "needs a precision"),
        ({"measure": [cg.bounds(0, 1)]}, ConditionError, "not a Bounds"),
        ({"measure": [cg.total(equals=3)]}, ConditionError, "move it to invariants"),
        ({"measure": [CELLS], "noise": "gaussian"}, NoiseError, "did you mean 'discrete_gaussian'"),
        ({"measure": [CELLS], "invariants": [cg.total(precision="1")]}, ConditionError, "move it to measure"),
        ({"measure": [CELLS], "invariants": [cg.margin("sx")]}, SchemaError, "did you mean 'sex'"),
        ({"measure": [CELLS], "invariants": [cg.share({"sex": "x"})]}, SchemaError, "not a label"),
        ({"measure": [CELLS], "invariants": [cg.bounds(0, 2, where={"ag": "y"})]}, SchemaError, "did you mean 'age'"),
        ({"measure": [CELLS], "invariants": [cg.total(at_least=9), cg.bounds(0, 2)]}, ClashError, "obeys these"),
        ({"measure": [CELLS], "invariants": ["total"]}, ConditionError, "not a str"),
    ],
)
def test_mistakes_are_found_before_any_table(arguments: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        cg.Mechanism(SCHEMA, **arguments)  # type: ignore[arg-type]


def test_a_law_that_does_not_exist_is_refused() -> None:
    free = cg.Mechanism(SCHEMA, measure=[cg.total(precision="1")], invariants=[cg.bounds(None)])
    with pytest.raises(cg.CongenialError, match="cannot be shown to exist"):
        free.law(TABLE)


def test_an_unlimited_law_exists_when_every_direction_is_measured() -> None:
    mechanism = cg.Mechanism(
        SCHEMA,
        measure=[cg.margin("sex", precision="1"), cg.cells({"age": "y"}, precision="1")],
        invariants=[cg.bounds(None)],
    )
    assert mechanism.law(TABLE).target.is_discrete


def test_several_tables_are_sent_to_the_workload_that_takes_them() -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    stated = {"by sex": cg.margin("sex"), "by age": cg.margin("age")}
    with pytest.raises(ConditionError, match=r"are a Workload: cg\.Workload\(schema, tables"):
        cg.Mechanism(schema, tables=stated, rho="1")
    with pytest.raises(ConditionError, match="say what is measured"):
        cg.Mechanism(schema, rho="1")
    assert [table.name for table in cg.Workload(schema, tables=stated, rho="1").tables] == list(stated)
