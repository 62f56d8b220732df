"""How many steps a measurement takes tells neither of the table nor of the noise; `make bench-timing` has the clock.

Steps are lines of Python that are executed, of which NumPy's calls are one each on arrays whose sizes the structure
fixes. A search that stops where it is decided takes steps that tell of the noise, and is found.
"""

import sys
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.examples import p12_mechanism, p12_schema
from congenial.measurement import MeasurementDrawing
from congenial.release import Prepared
from congenial.release_key import ReleaseKey
from congenial.sampling.lattice_noise.sum_tables import DecisionTable

NAMING = Naming("spring", "town", "Spring", "person")
BUDGETS: dict[str, dict[str, Any]] = {
    "double_geometric": {"epsilon": "1"},
    "discrete_gaussian": {"rho": "1/2", "noise": "discrete_gaussian"},
}


def prepared(noise: str, counts: Ints, *, exact: bool = True) -> Prepared:
    schema = p12_schema()
    invariants = p12_mechanism().invariants if exact else [cg.bounds(0)]
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=invariants, method="measured", **BUDGETS[noise])
    return mechanism.prepare(cg.Table(schema, counts.reshape(schema.shape)), NAMING)


def steps_of(call: Callable[[], Ints]) -> tuple[int, Ints]:
    """Return how many lines of the package a call executes, and what it returns."""
    n_lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal n_lines
        n_lines += event == "line"
        return count if "congenial" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        result = call()
    finally:
        sys.settrace(before)
    return n_lines, result


def measure(ready: Prepared) -> tuple[int, Ints]:
    """Return the steps of one unit, from a fresh key to its measurements, and its noise."""
    key, drawing = ReleaseKey(), ready.plan.drawing
    assert isinstance(drawing, MeasurementDrawing)
    number = np.zeros(1, np.int64)
    words = ready.streams(key).of_level("table", np.array([""]), ready.confidential)
    n_steps, drawn = steps_of(lambda: drawing.draw(number, ready.confidential, words))
    return n_steps, (drawn - ready.confidential)[0]


EVEN = np.full((2, 23), 40, np.int64)
HEAPED = np.zeros((2, 23), np.int64)
HEAPED[:, 0], HEAPED[:, 10] = 4 * 40, 19 * 40
NEIGHBOUR = EVEN.copy()
NEIGHBOUR[0, 8:10] += (1, -1)


@pytest.mark.parametrize("noise", BUDGETS)
def test_steps_are_the_same_for_every_table_and_all_noise(noise: str) -> None:
    steps, sizes = set(), []
    for table in (EVEN, HEAPED, NEIGHBOUR):
        ready = prepared(noise, table)
        measure(ready)  # tables of thresholds are made once
        for _ in range(30):
            n_steps, drawn = measure(ready)
            steps.add(n_steps)
            sizes.append(int(np.abs(drawn).sum()))
    assert len(steps) == 1
    assert max(sizes) > 1.3 * min(sizes), "noise of all sizes was seen"


@pytest.mark.parametrize("noise", BUDGETS)
def test_steps_are_those_of_an_empty_table(noise: str) -> None:
    """Where nothing is exact: counts of no size at all, and of any."""
    steps = set()
    for table in (np.zeros((2, 23), np.int64), EVEN, 10**12 * HEAPED):
        ready = prepared(noise, table, exact=False)
        measure(ready)
        steps |= {measure(ready)[0] for _ in range(10)}
    assert len(steps) == 1


def stops_early(self: DecisionTable, rows: Ints, words: Ints, is_open: Any) -> Ints:
    """The mutant: from the middle of a row outwards, until the entry is there."""
    out = np.empty_like(rows)
    for place in np.ndindex(rows.shape):
        row, aim = self.thresholds[rows[place]], int(words[place]) + self.tolerance
        entry = int(np.searchsorted(row, 1 << 61))
        while row[entry] > aim:
            entry -= 1
        while entry + 1 < self.width and row[entry + 1] <= aim:
            entry += 1
        out[place] = entry
        is_open[place] |= aim - row[entry] <= 2 * self.tolerance
    return out


def test_a_search_that_stops_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = prepared("double_geometric", EVEN)
    measure(ready)
    monkeypatch.setattr(DecisionTable, "decide", _in_package(stops_early))
    measured = [measure(ready) for _ in range(60)]
    steps = np.array([n_steps for n_steps, _ in measured])
    sizes = np.array([np.abs(noise).sum() for _, noise in measured])
    assert len(set(steps.tolist())) > 20
    assert np.corrcoef(steps, sizes)[0, 1] > 0.3


def _in_package(function: Callable[..., Ints]) -> Callable[..., Ints]:
    """Return a function whose lines count as the package's."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(co_filename="congenial mutant"), function.__globals__)
