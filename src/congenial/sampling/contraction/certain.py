"""The draws that floats leave open, decided in balls from the same random bits. Confidential."""

from collections.abc import Iterator

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.balls import ball, ends
from congenial.noise.fall import Fall
from congenial.randomness import RandomStream
from congenial.sampling.contraction.layout import Engine, Layout
from congenial.sampling.contraction.without_rounding import ExactMessages, Number
from congenial.sampling.in_doubt import WORD, Seen, Unclear, look_further, pick


class Certain:
    """Decides draws without doubt. Confidential."""

    def __init__(self, engine: Engine, centre: Ints) -> None:
        self._engine = engine
        self._centre = centre
        self._bits = 128
        self._made: ExactMessages | None = None

    def _messages(self) -> ExactMessages:
        """Build the messages in balls; windows leave out a square of what the float ones did, or nothing."""
        if self._made is None:
            layout = Layout.of(self._engine, self._centre)
            if layout.is_clipped:
                layout = Layout.of(self._engine.wider(), self._centre)
            with flint.ctx.workprec(self._bits):
                bases: dict[Fall, tuple[flint.arb, flint.arb, flint.arb]] = {}

                def weight(fall: Fall, v: int, is_floor: bool) -> flint.arb:
                    if fall not in bases:
                        bases[fall] = (ball(fall.linear), ball(fall.quadratic), ball(fall.floor))
                    linear, quadratic, floor = bases[fall]
                    own = linear ** abs(v) * quadratic ** (v * v) if fall.quadratic != 1 else linear ** abs(v)
                    return floor * own if is_floor else own

                self._made = ExactMessages.of(layout, weight, flint.arb(0))
        return self._made

    def draw(self, words: NDArray[np.uint64], rng: RandomStream) -> Ints:
        """Return the table of these words; where 64 bits do not decide, more are taken from `rng`."""
        bits = {decision: (int(word), WORD) for decision, word in enumerate(words)}
        while True:
            try:
                with flint.ctx.workprec(self._bits):
                    return self._draw(bits)
            except Unclear as unclear:
                look_further(bits, unclear.decision, rng)
                self._bits *= 2
                self._made = None
                if Layout.of(self._engine, self._centre).is_clipped:
                    self._engine = self._engine.wider()

    def _draw(self, bits: dict[int, Seen]) -> Ints:
        made = self._messages()
        order = made.order
        n_groups = len(order.groups)
        chosen: dict[int, list[int]] = {len(order.coordinates) - 1: []}
        decision = 0
        for number in range(len(order.merges) - 1, -1, -1):
            left, right, merge = order.merges[number]
            key = tuple(chosen[n_groups + number])
            pairs = made.pairs(number, merge.backward, key)
            missing = made.layout.missing_of_node(n_groups + number)
            if made.layout.engine.program.is_factor[number]:  # of every pair's weight
                missing *= ends(made.nodes[left][0])[1]
            z = pick(pairs, missing, bits[decision], decision)
            chosen[left], chosen[right] = z[: merge.left.width], z[merge.left.width :]
            decision += 1
        out = self._centre.copy()
        position = 0
        for group, cells in enumerate(order.groups):
            if not cells:
                continue
            rest = chosen[group][0]
            for place in range(len(cells) - 1, 0, -1):
                cell = cells[place]
                terms = self._terms(made, group, place, position + place, cell, rest)
                value = pick(terms, made.layout.missing_of_prefix(position + place), bits[decision], decision)
                out[cell] += value
                rest -= value
                decision += 1
            out[cells[0]] += rest
            position += len(cells)
        return out

    @staticmethod
    def _terms(
        made: ExactMessages, group: int, place: int, position: int, cell: int, rest: int
    ) -> Iterator[tuple[int, Number]]:
        """Go through the values of a cell, nearest first, with their weight."""
        state, fall = made.layout.state, made.order.system.falls[cell]
        x, x0 = made.prefixes[group][place - 1], int(state.prefix_low[position - 1])
        below, above = made.layout.reach(cell)
        farthest = max(abs(rest - x0), abs(rest - x0 - len(x) + 1))
        for size in range(farthest + 1):
            for v in (size, -size) if size else (0,):
                if 0 <= rest - v - x0 < len(x) and -below <= v <= above:
                    yield v, made.weight(fall, v, v == -below) * x[rest - v - x0]
