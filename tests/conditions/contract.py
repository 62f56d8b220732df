"""What every kind of condition must do. A test names a kind's examples and calls `check`."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.conditions.registry import KINDS, from_json

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "v"]})
OTHER = cg.Schema({"colour": ["red", "blue"]})
Counts = Sequence[int]


def check(condition: Condition, counts: Counts) -> None:
    """Check one condition against one table of `SCHEMA`."""
    check_registered(condition)
    check_json(condition)
    check_labels(condition)
    check_claims(condition, counts)
    check_exact_values(condition, counts)


def check_registered(condition: Condition) -> None:
    """The registry leads from a kind's name to its class, and a spec's word to one kind of a list."""
    kind = type(condition)
    assert KINDS[condition.kind] is kind
    for stands_in, keys in kind.keys.items():
        assert kind.word in keys
        others = [other for other in KINDS.values() if other is not kind and stands_in in other.keys]
        assert kind.word not in {other.word for other in others}


def check_json(condition: Condition) -> None:
    """Plain values, through JSON and back, give the same condition with the same text; more than that is refused."""
    written = json.dumps(condition.as_json())
    read = from_json(json.loads(written))
    assert read == condition
    assert read.text == condition.text
    assert json.dumps(read.as_json()) == written
    with pytest.raises(cg.CongenialError):
        from_json({**condition.as_json(), "not a part": 1})


def check_labels(condition: Condition) -> None:
    """What fits a schema passes without a table, and a schema without the labels is refused."""
    condition.check(SCHEMA)
    if set(condition.as_json()) - {"kind", "name", "equals", "at_least", "at_most", "lower", "upper"}:
        with pytest.raises(cg.CongenialError):
            condition.check(OTHER)


def check_claims(condition: Condition, counts: Counts) -> None:
    """The table that values come from obeys them; stated ones need no table, others do."""
    claims = condition.claims(SCHEMA, counts, Equalities())
    assert claims
    assert all(claim.text and claim.limits for claim in claims)
    cells = {cell for claim in claims for one in claim.limits for cell in one.row.cells}
    assert cells <= set(range(SCHEMA.n_cells))
    assert set(condition.bounded_cells(SCHEMA)) <= cells
    if condition.is_stated:
        assert condition.claims(SCHEMA, None, Equalities()) == claims
    else:
        assert all(one.holds(counts) for claim in claims for one in claim.limits)
        with pytest.raises(cg.CongenialError, match="needs its value"):
            condition.claims(SCHEMA, None, Equalities())


def check_exact_values(condition: Condition, counts: Counts) -> None:
    """What is said to be exact is the same in every table that obeys the claims, and has a text of its own."""
    values = condition.exact_values(SCHEMA, counts)
    assert len({text for text, _ in values}) == len(values)
    assert all(text and value for text, value in values)
    named = replace(condition, name="some name").exact_values(SCHEMA, counts)
    assert [value for _, value in named] == [value for _, value in values]
    assert all(text.startswith("some name") for text, _ in named)
    limits = [one for claim in condition.claims(SCHEMA, counts, Equalities()) for one in claim.limits]
    if not all(one.holds(counts) for one in limits):
        return  # a stated value that this table does not have
    if not condition.mentioned(SCHEMA) and not condition.bounded_cells(SCHEMA):
        assert [value for _, value in values] == [str(one.lower) for one in limits if one.is_equality]
    for moved in neighbours(counts):
        if all(one.holds(moved) for one in limits):
            assert condition.exact_values(SCHEMA, moved) == values


def neighbours(counts: Counts) -> list[list[int]]:
    """Tables in which one count is one larger or smaller, or moves to another cell, or all double."""
    found = [[2 * count for count in counts]]
    for first in range(len(counts)):
        for second in range(-1, len(counts)):
            for step in (1, -1):
                moved = list(counts)
                moved[first] += step
                if second >= 0:
                    moved[second] -= step
                found.append(moved)
    return found
