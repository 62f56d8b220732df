"""Errors without a draw, against all tables written down and against draws."""

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.conditions.queries import Query, margin
from congenial.conditions.rows_and_intervals import Row
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling import error_moments as module
from congenial.sampling.error_moments import exact_errors
from congenial.sampling.target_and_system import System
from sampling.enumeration import EnumerationAt

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["a", "b", "c"]})
TABLE = cg.Table(SCHEMA, [[2, 0, 3], [1, 2, 0]])
BOX = cg.bounds(0, 3)
INVARIANTS: dict[str, list[Condition]] = {
    "nothing": [BOX],
    "total": [BOX, cg.total()],
    "a margin": [BOX, cg.margin("sex")],
    "two margins": [BOX, cg.margin("sex"), cg.margin("age")],
    "a range": [BOX, cg.total({"sex": "f"}, at_least=4, at_most=6)],
    "weights": [BOX, cg.linear([[2, 1, 1], [0, 1, 3]])],
    "a share": [BOX, cg.share({"sex": "f"})],
    "zeros": [cg.total(), cg.structural_zeros({"sex": "f", "age": "b"}), BOX],
}
MEASURES: dict[str, list[Query]] = {
    "cells": [cg.cells(precision="1/2")],
    "cells and a margin": [cg.cells(precision="1/2"), cg.margin("age", precision="1")],
}


def statistics(schema: cg.Schema) -> list[Row]:
    cells = [Row.of(schema.cell_name(cell), [cell]) for cell in range(schema.n_cells)]
    return [*cells, *(row for name in schema.names for row in margin(name).rows(schema))]


def listed_errors(system: System, centre: np.ndarray, rows: Sequence[Row]) -> list[list[float]]:
    """The definition: every table with its weight, in fractions; mean errors, and root mean squared ones."""
    at = EnumerationAt(system, centre)
    whole = sum(at.weights, Fraction(0))
    gaps = (at.tables - centre).tolist()
    weighted = list(zip(gaps, at.weights, strict=True))
    means, squares = (
        [sum(weight * sum(gap[c] for c in row.cells) ** power for gap, weight in weighted) / whole for row in rows]
        for power in (1, 2)
    )
    return [[float(mean) for mean in means], [sqrt(square) for square in squares]]


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", INVARIANTS)
def test_errors_are_those_of_the_listed_tables(name: str, measure: str, noise: str) -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=MEASURES[measure], invariants=INVARIANTS[name], noise=noise)
    constraints = mechanism.disclose(TABLE)
    system = System.of(constraints, mechanism.calibrate(constraints).measured)
    rows = statistics(SCHEMA)
    found = exact_errors(system, TABLE.counts, rows)
    assert found is not None
    np.testing.assert_allclose(found, listed_errors(system, TABLE.counts, rows), rtol=1e-9, atol=1e-7)


def test_p12_without_a_draw() -> None:
    """46 cells that nothing bounds above, against draws, within five standard errors."""
    mechanism, table = p12_mechanism(epsilon="1"), p12_table()
    constraints = mechanism.disclose(table)
    law = mechanism.calibrate(constraints)
    rows = statistics(table.schema)
    found = exact_errors(System.of(constraints, law.measured), table.counts, rows)
    assert found is not None
    gaps = cg.Law(law, table.counts).sample(20_000, cg.replay_rng("errors")) - table.counts
    for row, error in zip(rows, found.size, strict=True):
        squares = gaps[:, list(row.cells)].sum(axis=1).astype(float) ** 2
        assert abs(squares.mean() - error**2) <= 5 * squares.std() / sqrt(len(squares)) + 1e-9, row.name


def test_what_is_not_quick_is_left_to_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, table = p12_mechanism(epsilon="1"), p12_table()
    constraints = mechanism.disclose(table)
    system = System.of(constraints, mechanism.calibrate(constraints).measured)
    monkeypatch.setattr(module, "_MOST_SUMS", 10)
    assert exact_errors(system, table.counts, statistics(table.schema)) is None
