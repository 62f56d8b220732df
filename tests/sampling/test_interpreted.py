"""Kernels run by Python draw what compiled ones draw, from the same words; packed values reach both."""

from dataclasses import dataclass

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Floats, Ints
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling.contraction import messages as exact
from congenial.sampling.contraction.certain import Certain
from congenial.sampling.kernels import compiled as kernels
from congenial.sampling.kernels.packed import Packed
from congenial.sampling.kernels.wide import Wide
from congenial.sampling.target import Target
from systems import SYSTEMS


def drawn(target: Target, seed: str) -> list[object]:
    """Return what every way through the kernels makes of a table and a seed."""
    engine, centre = exact.engine_of(target), target.centre
    made = exact.Messages.of(engine, centre)
    return [
        exact.sample_one(engine, centre, cg.replay_rng(seed)).tolist(),
        exact.sample_batch(engine, np.stack([centre, centre]), cg.replay_rng(seed)).tolist(),
        made.sample(2, cg.replay_rng(seed)).tolist(),
        round(made.log_normaliser, 9),
        np.round(exact.log_normalisers(engine, centre[None, :]), 9).tolist(),
    ]


@pytest.mark.parametrize("name", [*SYSTEMS, "P12"])
def test_python_draws_the_same_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = p12_mechanism().law(p12_table()).target if name == "P12" else SYSTEMS[name]().target
    monkeypatch.setattr(kernels, "_AT_MOST", -1)
    compiled = drawn(target, name)
    monkeypatch.setattr(exact, "light", lambda kernel, _: kernels.interpreted(kernel))
    assert drawn(target, name) == compiled


@pytest.mark.parametrize("name", SYSTEMS)
def test_python_draws_what_balls_decide(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "light", lambda kernel, _: kernels.interpreted(kernel))
    target = SYSTEMS[name]().target
    engine = exact.engine_of(target)
    for number in range(5):
        rng = cg.replay_rng(f"{name} {number}")
        decided = Certain(engine, target.centre).draw(rng.words(engine.n_decisions), rng)
        drawn_by_python = exact.sample_one(engine, target.centre, cg.replay_rng(f"{name} {number}"))
        assert np.array_equal(drawn_by_python, decided)


def test_a_process_compiles_when_there_is_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernels.compiled(_at)
    monkeypatch.setattr(kernels, "_n_interpreted", 0)
    monkeypatch.setattr(kernels, "_AT_MOST", 100)
    assert kernels.light(kernel, 60) is not kernel
    assert kernels.light(kernel, 60) is kernel
    assert kernels.light(kernel, 30) is not kernel
    assert kernel(np.arange(3), 2) == 2
    assert kernels.light(kernel, 1) is kernel  # what is compiled already is taken


def _at(numbers: Ints, i: int) -> int:
    return int(numbers[i])


@dataclass(frozen=True, eq=False)
class Inside(Packed):
    numbers: Ints
    scale: float


@dataclass(frozen=True, eq=False)
class Outside(Packed):
    inside: Inside
    grid: Floats
    wide: Wide
    is_doubled: bool
    shift: int


@kernels.compiled
def _all_of(given: Outside, out: Floats) -> float:
    for i in range(given.grid.shape[0]):
        for j in range(given.grid.shape[1]):
            out[i, j] = given.grid[i, j] * given.inside.scale + given.inside.numbers[i] + given.wide.value[j]
    given.inside.numbers[0] = 7
    return given.wide.power[1] + given.shift + (0.5 if given.is_doubled else 0.0)  # type: ignore[no-any-return]


def test_packed_values_are_read_and_written_where_they_stand() -> None:
    for run in (_all_of, kernels.interpreted(_all_of)):
        given = Outside(
            Inside(np.array([1, 2]), 0.25),
            np.arange(6.0).reshape(2, 3),
            Wide(np.array([10.0, 20.0, 30.0]), np.array([3, 4, 5])),
            True,
            -9,
        )
        out = np.zeros((2, 3))
        assert run(given, out) == 4 - 9 + 0.5
        assert out.tolist() == [[11.0, 21.25, 31.5], [12.75, 23.0, 33.25]]
        assert given.inside.numbers.tolist() == [7, 2]


def test_what_does_not_stand_in_one_piece_is_refused() -> None:
    with pytest.raises(ValueError, match="in one piece"):
        Inside(np.arange(6)[::2], 1.0)
    with pytest.raises(TypeError, match="a str cannot be packed"):
        Inside("text", 1.0)  # type: ignore[arg-type]
