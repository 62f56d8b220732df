"""Kernels run by Python draw what compiled ones draw, from the same words; named tuples of arrays reach both."""

from typing import NamedTuple

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats, Ints
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling import jit
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.exact_fallback import ExactDraws
from congenial.sampling.kernel_scaled_floats import ScaledFloats
from congenial.sampling.target_and_system import Target
from systems import SYSTEMS


def drawn(target: Target, seed: str) -> list[object]:
    """Return what every way through the kernels makes of a table and a seed."""
    elimination, centre = exact.elimination_of(target), target.centre
    made = exact.Messages.of(elimination, centre)
    return [
        exact.sample_one(elimination, centre, cg.replay_rng(seed)).tolist(),
        exact.sample_batch(elimination, np.stack([centre, centre]), cg.replay_rng(seed)).tolist(),
        made.sample(2, cg.replay_rng(seed)).tolist(),
        round(made.log_normaliser, 9),
        np.round(exact.log_normalisers(elimination, centre[None, :]), 9).tolist(),
    ]


@pytest.mark.parametrize("name", [*SYSTEMS, "P12"])
def test_python_draws_the_same_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = p12_mechanism().law(p12_table()).target if name == "P12" else SYSTEMS[name]().target
    monkeypatch.setattr(jit, "_MAX_INTERPRETED", -1)
    compiled = drawn(target, name)
    monkeypatch.setattr(exact, "interpreted_if_small", lambda kernel, _: jit.interpreted(kernel))
    assert drawn(target, name) == compiled


@pytest.mark.parametrize("name", SYSTEMS)
def test_python_draws_what_balls_decide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "interpreted_if_small", lambda kernel, _: jit.interpreted(kernel))
    target = SYSTEMS[name]().target
    elimination = exact.elimination_of(target)
    for number in range(5):
        rng = cg.replay_rng(f"{name} {number}")
        decided = ExactDraws(elimination, target.centre).draw(rng.words(elimination.n_decisions), rng)
        drawn_by_python = exact.sample_one(elimination, target.centre, cg.replay_rng(f"{name} {number}"))
        assert np.array_equal(drawn_by_python, decided)


def test_a_process_compiles_when_there_is_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = jit.kernel(_at)
    monkeypatch.setattr(jit, "_n_interpreted", 0)
    monkeypatch.setattr(jit, "_MAX_INTERPRETED", 100)
    assert jit.interpreted_if_small(kernel, 60) is not kernel
    assert jit.interpreted_if_small(kernel, 60) is kernel
    assert jit.interpreted_if_small(kernel, 30) is not kernel
    assert kernel(np.arange(3), 2) == 2
    assert jit.interpreted_if_small(kernel, 1) is kernel  # what is compiled already is taken


def _at(numbers: Ints, i: int) -> int:
    return int(numbers[i])


class Inside(NamedTuple):
    numbers: Ints
    scale: float


class Outside(NamedTuple):
    inside: Inside
    grid: Floats
    wide: ScaledFloats
    is_doubled: bool
    shift: int


@jit.kernel
def _all_of(given: Outside, out: Floats) -> float:
    for i in range(given.grid.shape[0]):
        for j in range(given.grid.shape[1]):
            out[i, j] = given.grid[i, j] * given.inside.scale + given.inside.numbers[i] + given.wide.value[j]
    given.inside.numbers[0] = 7
    return given.wide.power[1] + given.shift + (0.5 if given.is_doubled else 0.0)  # type: ignore[no-any-return]


def test_named_tuples_are_read_and_written_in_place() -> None:
    for run in (_all_of, jit.interpreted(_all_of)):
        given = Outside(
            Inside(np.array([1, 2]), 0.25),
            np.arange(6.0).reshape(2, 3),
            ScaledFloats(np.array([10.0, 20.0, 30.0]), np.array([3, 4, 5])),
            True,
            -9,
        )
        out = np.zeros((2, 3))
        assert run(given, out) == 4 - 9 + 0.5
        assert out.tolist() == [[11.0, 21.25, 31.5], [12.75, 23.0, 33.25]]
        assert given.inside.numbers.tolist() == [7, 2]
