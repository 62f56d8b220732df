"""Every kind of condition passes the contract, and so does one that the library does not know."""

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import congenial
import congenial as cg
from conditions import contract
from conditions.contract import SCHEMA
from congenial.conditions.base import Claim, Condition, Counts, Entry, Key, Keys, SpecList, arguments
from congenial.conditions.compile import check_conditions
from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.conditions.queries import Query, checked_fields, entry_options
from congenial.conditions.registry import KINDS, from_json
from congenial.conditions.rows_and_intervals import Limited, Row, where_text
from congenial.safe_text import first_hidden
from congenial.sampling.enumeration import enumerate_tables
from congenial.schema import Schema, Where
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.spec.entries_and_sentences import Reader
from congenial.spec.file_format import entry_model
from drawn import drawn

COUNTS = st.lists(st.integers(0, 9), min_size=6, max_size=6)
WHERES: st.SearchStrategy[Where] = st.sampled_from(
    [{"sex": "f"}, {"sex": ["m"], "age": ["y", "v"]}, {"age": ["o"]}, {"sex": ["f", "m"], "age": "v"}]
)
SOME: st.SearchStrategy[Where | None] = st.none() | WHERES
NAMES = st.none() | st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=8).filter(
    lambda text: not first_hidden(text)
)
NUMBERS = st.integers(-9, 20)
LIMITS: st.SearchStrategy[dict[str, int]] = st.one_of(
    st.fixed_dictionaries({"equals": NUMBERS}),
    st.fixed_dictionaries({"at_least": NUMBERS}),
    st.tuples(NUMBERS, NUMBERS).map(lambda ends: {"at_least": min(ends), "at_most": max(ends)}),
    st.just({}),
)
BY_LABELS = st.dictionaries(
    st.tuples(st.sampled_from(["f", "m"]), st.sampled_from(["y", "o", "v"])),
    st.integers(-4, 4).filter(bool),
    min_size=1,
)
BY_PLACE = st.lists(st.integers(-4, 4), min_size=6, max_size=6).filter(any).map(lambda six: [six[:3], six[3:]])

EXAMPLES: dict[str, st.SearchStrategy[Condition]] = {
    "total": st.builds(lambda where, name, limits: cg.total(where, name=name, **limits), SOME, NAMES, LIMITS),
    "margin": st.one_of(
        st.just(cg.margin("sex", "age")),
        st.just(cg.margin("age", where={"sex": "m"})),
        st.lists(NUMBERS, min_size=2, max_size=2).map(lambda values: cg.margin("sex", equals=values)),
        st.lists(NUMBERS, min_size=6, max_size=6).map(
            lambda values: cg.margin("age", "sex", equals=np.reshape(values, (3, 2)))
        ),
    ),
    "linear": st.builds(
        lambda of_cells, name, limits: cg.linear(of_cells, name=name, **limits), BY_LABELS | BY_PLACE, NAMES, LIMITS
    ),
    "share": st.builds(
        lambda where, of, value: cg.share(where, of=of, **value),
        st.sampled_from([{"sex": "f"}, {"sex": ["f", "m"], "age": "y"}]),
        st.sampled_from([None, {"age": ["y", "o"]}]),
        st.just({})
        | st.fractions(0, 1, max_denominator=30).map(lambda value: {"equals": value})
        | st.sampled_from(["83.3 %", "0 %", "100%", "0.5", "7.25 %"]).map(lambda value: {"rounded": value}),
    ),
    "bounds": st.builds(
        lambda low, width, where: cg.bounds(low, None if low is None or width is None else low + width, where=where),
        st.none() | NUMBERS,
        st.none() | st.integers(0, 9),
        SOME,
    ),
    "structural_zeros": WHERES.map(cg.structural_zeros),
    "cells": st.one_of(
        SOME.map(cg.cells), st.lists(NUMBERS, min_size=6, max_size=6).map(lambda values: cg.cells(equals=values))
    ),
}
CONDITIONS = st.one_of(*EXAMPLES.values())


def test_every_kind_has_examples() -> None:
    assert set(EXAMPLES) == set(KINDS)


def test_nothing_tells_the_kinds_apart() -> None:
    """Outside their own files the classes are named in the list of kinds and in what is handed on to users only."""
    source = Path(congenial.__file__).parent
    classes = {kind.__name__ for kind in KINDS.values()}
    for path in (*source.glob("conditions/*.py"), *source.glob("spec/*.py")):
        if path.name in {"queries.py", "limits_and_shares.py", "registry.py"}:
            continue
        names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
        assert not names & classes, path


@pytest.mark.parametrize("kind", EXAMPLES)
@given(data=st.data())
@settings(max_examples=drawn(30))
def test_every_kind_keeps_the_contract(kind: str, data: st.DataObject) -> None:
    contract.check(data.draw(EXAMPLES[kind]), data.draw(COUNTS))


@given(COUNTS)
def test_the_value_of_a_share(counts: list[int]) -> None:
    ((_, value),) = cg.share({"sex": "f"}, of={"age": ["y", "o"]}).exact_values(SCHEMA, counts)
    part, whole = sum(counts[:2]), sum(counts[:2] + counts[3:5])
    expected = f"{Fraction(part, whole)} ({part / whole:.4%})" if whole else "no one to take a share of"
    assert value == expected


@pytest.mark.parametrize(
    "query",
    [
        cg.cells(precision="1/3"),
        cg.total({"sex": "f"}, portion="2/7", name="women"),
        cg.margin("age", precision=2),
        cg.linear({("f", "y"): 3}, portion=1),
    ],
)
def test_measured_queries_go_through_json(query: Query) -> None:
    contract.check_json(query)
    with pytest.raises(cg.CongenialError, match="measured, not exact"):
        query.check(SCHEMA)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(CONDITIONS, st.data())
@settings(max_examples=drawn(100))
def test_broken_plain_values_are_refused_in_the_house_manner(condition: Condition, data: st.DataObject) -> None:
    """A verifier reads conditions that others wrote: nothing but the library's own errors comes of it."""
    written = condition.as_json()
    written[data.draw(st.sampled_from([*written, "equals", "name"]))] = data.draw(PLAIN)
    for given_ in (written, data.draw(PLAIN)):
        try:
            found = from_json(given_)
            found.check(SCHEMA)
        except cg.CongenialError:
            continue
        assert from_json(json.loads(json.dumps(found.as_json()))) == found


@dataclass(frozen=True)
class Difference(Condition):
    """By how much one total is above another."""

    first: Any
    second: Any
    equals: int | None = None

    kind: ClassVar[str] = "difference"
    word: ClassVar[str] = "difference"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "invariants": {"difference": Key("cells", "these cells"), "minus": Key("cells", "less these")}
    }

    @property
    def text(self) -> str:
        return f"difference({self.first}, {self.second})"

    @property
    def is_stated(self) -> bool:
        return self.equals is not None

    def row(self, schema: Schema) -> Row:
        first, second = set(schema.cells(self.first).tolist()), set(schema.cells(self.second).tolist())
        of_cell = {cell: (cell in first) - (cell in second) for cell in sorted(first ^ second)}
        return Row(self.text, tuple(of_cell), tuple(of_cell.values()))

    def check(self, schema: Schema) -> None:
        self.row(schema)

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        if self.equals is None and counts is None:
            raise cg.errors.ConditionError(f"{self.text} needs its value here")
        row = self.row(schema)
        limited = Limited.equal(row, self.equals if self.equals is not None else row.value(counts or ()))
        return [Claim(limited.text, (limited,))]

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        return [(self.name or self.text, str(self.row(schema).value(counts)))]

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        return cls(entry.where("difference"), entry.where("minus"), entry.whole_numbers("equals"))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Condition:
        fields = arguments(values, cls.kind, ("first", "second", "equals"))
        first, second = ({k: tuple(v) for k, v in fields[part].items()} for part in ("first", "second"))
        return cls(first, second, fields.get("equals"))


@pytest.fixture
def toy() -> Iterator[Difference]:
    """The toy kind, registered for one test: a class and a name in the registry are all that it takes."""
    KINDS[Difference.kind] = Difference
    yield Difference({"sex": ("f",)}, {"sex": ("m",)})
    del KINDS[Difference.kind]


def test_a_new_kind_keeps_the_contract(toy: Difference) -> None:
    contract.check(toy, [3, 4, 1, 2, 0, 5])
    contract.check(Difference(toy.first, toy.second, 2), [3, 4, 1, 2, 0, 5])


def test_a_new_kind_compiles_and_its_tables_are_found(toy: Difference) -> None:
    counts = [1, 0, 1, 0, 1, 0]
    constraints = cg.Constraints.of(SCHEMA, [toy, cg.bounds(0, 1)], counts)
    assert [one.text for one in constraints.rows] == [f"{toy.text} is 1"]
    tables = enumerate_tables(constraints).tolist()
    assert tables == [list(one) for one in product((0, 1), repeat=6) if sum(one[:3]) - sum(one[3:]) == 1]
    check_conditions(SCHEMA, [toy, cg.bounds(0, 1)])
    with pytest.raises(cg.CongenialError, match="not a dimension"):
        check_conditions(contract.OTHER, [toy])


def test_a_spec_can_state_a_new_kind(toy: Difference) -> None:
    assert {"difference", "minus", "equals"} <= set(entry_model("invariants").model_fields)
    levels = tuple(Levels(one.name, one.name, one.labels, one.labels) for one in SCHEMA.dimensions)
    said = {"difference": "f", "minus": {"sex": "m"}, "equals": "2"}
    assert Reader(levels, SCHEMA).invariant(said) == Difference(toy.first, toy.second, 2)
    with pytest.raises(cg.CongenialError, match="`minus` goes with `difference`, not with `total`"):
        Reader(levels, SCHEMA).invariant({"total": "f", "minus": "m"})


@dataclass(frozen=True)
class GroupedMargin(Query):
    """One sum for each of some sets of cells: a margin over grouped levels."""

    groups: tuple[Any, ...] = ()

    kind: ClassVar[str] = "grouped_margin"
    word: ClassVar[str] = "groups"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "measure": {"groups": Key("dimensions", "one sum for each of these groups")},
        "invariants": {"groups": Key("dimensions", "one sum for each of these groups")},
    }

    def rows(self, schema: Schema) -> list[Row]:
        return [Row.of(where_text(where), schema.cells(where)) for where in self.groups]

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        groups = tuple(entry.reader.where(group) for group in entry.values["groups"])
        return cls(groups=groups, **checked_fields(cls.kind, **entry_options(entry, cls.kind)))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Query:
        fields = arguments(values, cls.kind, ("groups", "precision", "portion", "equals"))
        groups = tuple({name: tuple(labels) for name, labels in where.items()} for where in fields.pop("groups", ()))
        return cls(groups=groups, **checked_fields(cls.kind, **fields))


@pytest.fixture
def grouped() -> Iterator[GroupedMargin]:
    """A third kind of margin, registered for one test."""
    KINDS[GroupedMargin.kind] = GroupedMargin
    yield GroupedMargin(groups=({"age": ("y", "o")}, {"age": ("v",)}))
    del KINDS[GroupedMargin.kind]


def test_a_third_kind_of_margin_is_exact_or_measured(grouped: GroupedMargin) -> None:
    """A class and a name in the registry: the contract, the compiler, the plan and the spec go by what it says."""
    counts = [3, 4, 1, 2, 0, 5]
    contract.check(grouped, counts)
    constraints = cg.Constraints.of(SCHEMA, [grouped], counts)
    assert [limited.text for limited in constraints.rows] == ["age in {y, o} is 9", "age=v is 6"]
    measured = GroupedMargin(groups=grouped.groups, precision=Fraction(1, 2))
    contract.check_json(measured)
    mechanism = cg.Mechanism(SCHEMA, measure=[measured], invariants=[cg.total()])
    certificate = mechanism.plan(mechanism.disclose(cg.Table(SCHEMA, np.reshape(counts, (2, 3))))).certificate
    # A record that changes its group moves two sums, at 1/2 each; limits of cells that are not measured double that.
    assert (certificate.kind, certificate.loss) == ("general", Fraction(2))
    levels = tuple(Levels(one.name, one.name, one.labels, one.labels) for one in SCHEMA.dimensions)
    reader = Reader(levels, SCHEMA)
    stated = {"age": ("y",)}, {"age": ("o",)}
    assert reader.invariant({"groups": ["y", "o"]}) == GroupedMargin(groups=stated)
    assert reader.measured({"groups": ["y", "o"], "precision": "1/2"}) == replace(measured, groups=stated)
