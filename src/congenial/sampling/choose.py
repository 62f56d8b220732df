"""Provisional."""

from typing import Any

from congenial.sampling.contraction import messages as exact
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.system import System


class _Contraction:
    name = "contraction"
    words = "independent draw by contraction over partial sums"

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    @property
    def is_exact(self) -> bool:
        return bool(self.engine.plan.is_exact)

    @property
    def n_states(self) -> float:
        return float(self.engine.plan.n_states)

    def check(self) -> None:
        self.engine.plan.check()

    def describe(self) -> str:
        return str(self.engine.plan)

    def draw_each(self, centres: Any, rng: Any) -> Any:
        return exact.sample_batch(self.engine, centres, rng)

    def at(self, centre: Any) -> Any:
        return exact.Messages.of(self.engine, centre)


def choose_sampler(system: System) -> Any:
    """Provisional."""
    return _Contraction(Engine.of(system))
