"""`tables:` in a spec: what it means, and every mistake with its place."""

from fractions import Fraction

import pytest

from congenial.errors import SpecError
from congenial.spec.load import parse_spec
from congenial.spec.spec_and_hierarchy import Spec

HEAD = """\
release: tables
data: {path: persons.csv, kind: microdata}
unit: {one_row_per: person}
dimensions: {county: [n, s], sex: [f, m], ill: [a, b]}
"""
TABLES = "tables: {one: [county, sex], two: [ill, county]}\n"
BUDGET = "budget: {rho: 1}\n"


def spec(text: str) -> Spec:
    return parse_spec(text)


def test_tables_are_measured_without_saying_so() -> None:
    read = spec(HEAD + TABLES + BUDGET)
    assert read.method == "measured"
    assert read.tables is not None
    workload = read.workload
    assert [(table.name, table.dimensions) for table in workload.tables] == [
        ("one", ("county", "sex")),
        ("two", ("county", "ill")),
    ]
    assert workload.shares == "tables"
    assert workload.noise == "discrete_gaussian"
    assert workload.protects is None


def test_a_pure_epsilon_has_double_geometric_noise() -> None:
    assert spec(HEAD + TABLES + "budget: {epsilon: 1}\n").workload.noise == "double_geometric"
    assert spec(HEAD + TABLES + "budget: {epsilon: 1, delta: 1e-6}\n").workload.noise == "discrete_gaussian"


def test_every_key_is_read() -> None:
    text = (
        HEAD
        + BUDGET
        + (
            "tables: {one: {margin: [county, sex], portion: 2}, two: {margin: [county, ill], portion: 1}}\n"
            "also_measure: [{cells: all, portion: 1/10}, [sex, ill]]\nshares: {by: portions}\nprotects: any 2 records\n"
            "invariants: [margin of county, total of f]\n"
            "conditions: [{zeros: {sex: f, ill: a}}]\nneighbours: unbounded\n"
        )
    )
    workload = spec(text).workload
    assert [table.is_published for table in workload.tables] == [True, True, False, False]
    assert workload.tables[2].name == "all dimensions"
    assert [query.portion for query in workload.requested] == [2, 1, Fraction(1, 10), None]
    assert (workload.shares, workload.protects, workload.neighbours) == ("portions", "any 2 records", "unbounded")
    assert len(workload.invariants) == 3


def test_precisions_stand_in_place_of_a_budget() -> None:
    workload = spec(
        HEAD + "noise: discrete_gaussian\n"
        "tables: {one: {margin: [county, sex], precision: 1/4}, two: {margin: ill, precision: 1}}\n"
    ).workload
    assert [table.precision for table in workload.tables] == [Fraction(1, 4), 1]
    assert workload.budget is None


def test_the_area_is_one_more_dimension() -> None:
    text = HEAD.replace("county: [n, s], ", "") + "by: {name: county, levels: [n, s]}\n" + TABLES + BUDGET
    assert spec(text).workload.schema.names == ("county", "sex", "ill")


MISTAKES = {
    "shares without tables": (BUDGET + "shares: {by: cells}\n", "`shares` goes with `tables:`"),
    "protects without tables": (BUDGET + "protects: one record\n", "`protects` goes with `tables:`"),
    "also without tables": (BUDGET + "also_measure: [{cells: all}]\n", "`also_measure` goes with `tables:`"),
    "measure": (TABLES + BUDGET + "measure: [cells]\n", "leave `measure:` out"),
    "conditional": (TABLES + BUDGET + "method: conditional\n", "leave `method: conditional` out"),
    "no such dimension": ("tables: {one: [county, sx]}\n" + BUDGET, "'sx' is not a dimension; did you mean 'sex'"),
    "a dimension twice": ("tables: {one: [sex, sex]}\n" + BUDGET, "each named once"),
    "nothing named": ("tables: {one: {portion: 1}}\n" + BUDGET, "name one of them"),
    "both": ("tables: {one: {margin: [sex], cells: all}}\n" + BUDGET, "name one of them"),
    "other cells": ("tables: {one: {cells: some}}\n" + BUDGET, "`cells: all` measures every combination"),
    "portion and precision": (
        "tables: {one: {margin: [sex], portion: 1, precision: 1}}\n" + BUDGET,
        "not both",
    ),
    "no budget": (TABLES, "have a budget"),
    "unknown shares": (TABLES + BUDGET + "shares: {by: luck}\n", "shares"),
    "a dimension in no table": ("tables: {one: [county, sex]}\n" + BUDGET, "'ill' is in no table"),
    "the same table": ("tables: {one: [county, sex, ill], two: [ill, sex, county]}\n" + BUDGET, "measure them once"),
    "measured twice": (TABLES + BUDGET + "also_measure: [{cells: all}, {cells: all}]\n", "listed twice"),
    "measured and published": (TABLES + BUDGET + "also_measure: [[sex, county]]\n", "measure them once"),
    "all of the budget": (TABLES + BUDGET + "also_measure: [{cells: all, portion: 1}]\n", "leaves nothing for"),
    "a share": (
        TABLES + BUDGET + "conditions: [{share: f, of: all, rounded: 50 %}]\n",
        "totals, margins and structural zeros can be exact",
    ),
    "a hidden character": ('tables: {"on\\u200be": [county, sex, ill]}\n' + BUDGET, "U.200B"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name: str) -> None:
    text, words = MISTAKES[name]
    with pytest.raises(SpecError, match=words) as refused:
        spec(HEAD + text)
    assert "internal" not in str(refused.value)


def test_several_rows_of_a_unit_are_refused() -> None:
    text = HEAD.replace("unit: {one_row_per: person}", "unit: {id: person, at_most: 3}") + TABLES + BUDGET
    with pytest.raises(SpecError, match="units with one row each"):
        spec(text)


def test_a_tree_is_refused() -> None:
    text = HEAD + TABLES + BUDGET + "hierarchy: {file: blocks.csv, leaf: block, levels: {state: {prefix: 2}}}\n"
    with pytest.raises(SpecError, match="several tables down a tree"):
        spec(text)
