"""The draws that floats leave open, decided in balls from the same random bits. Confidential."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import TooLargeError
from congenial.exact import ball, ends
from congenial.noise.weight import FLAT, NoiseWeight
from congenial.proven_decisions import Uniform, choose_weighted, refine_until_proven, words_of
from congenial.randomness import RandomStream
from congenial.sampling.elimination.compiled_layout import Elimination, Layout
from congenial.sampling.elimination.merging import Form, Merge, Walk
from congenial.sampling.elimination.order import MergeOrder
from congenial.sampling.kernel_scaled_floats import FAR

# The exact sampler once more, in numbers without rounding: fractions, integers, or balls with proven radius.
#
# It goes through the same merges in the same order as the kernels, so the same random bits give the same table. It
# decides the draws that floats leave open, gives normalisers as exact fractions, and counts tables.

Number = Any
"""A Fraction, an int or an Arb ball: whatever adds and multiplies."""

_MOST_ENTRIES = 5 * 10**7
_FIRST_PRECISION = 128


@dataclass(frozen=True)
class ExactMessages:
    """All messages of one table in exact numbers."""

    layout: Layout
    number: Callable[[NoiseWeight, int, bool], Number]
    prefixes: list[list[list[Number]]]
    nodes: list[list[Number]]

    @property
    def order(self) -> MergeOrder:
        """The merge order they follow."""
        return self.layout.elimination.order

    @classmethod
    def of(cls, layout: Layout, number: Callable[[NoiseWeight, int, bool], Number], zero: Number) -> "ExactMessages":
        """Build them group by group, then merge by merge."""
        order = layout.elimination.order
        messages = cls(layout, number, [], [])
        position = 0
        for cells in order.groups:
            steps: list[list[Number]] = []
            for cell in cells:
                steps.append(messages._convolved(position, cell, steps[-1] if steps else None, zero))
                position += 1
            messages.prefixes.append(steps)
            messages.nodes.append(steps[-1] if steps else [number(FLAT, 0, False)])
        for merge in range(len(order.merges)):
            messages.nodes.append(messages._merged(merge, zero))
        return messages

    def _merged(self, number: int, zero: Number) -> list[Number]:
        """Add up all pairs of a merge, along runs of the last free coordinate where all sums are whole."""
        left, right, merge = self.order.merges[number]
        node = len(self.order.groups) + number
        out = [zero] * int(self.layout.state.node_size[node])
        walk = merge.forward
        if not walk.free or not self.layout.elimination.program.forward.is_whole[number] or walk.checks:
            for z, value in self.pairs(number, walk, ()):
                index = self.layout.index(node, [_apply(form, z) for form in merge.key_forms])
                if index is not None:
                    out[index] = out[index] + value
            return out
        n_left, n = merge.left.width, merge.left.width + merge.right.width
        ranges = [self._range(number, coordinate) for coordinate in walk.free]
        unit = (*([0] * (len(walk.free) - 1)), 1)
        slope = _coordinates(walk, n, unit) or []
        weights = [(self.order.system.rows[row].weight, form) for row, form in merge.complete if self._is_soft(row)]
        for outer in product(*ranges[:-1]):
            z = _coordinates(walk, n, (*outer, ranges[-1].start)) or []
            steps: range = range(len(ranges[-1]))
            runs = [
                self._run(left, z[:n_left], slope[:n_left]),
                self._run(right, z[n_left:], slope[n_left:]),
                self._run(node, _all(merge.key_forms, z), _all(merge.key_forms, slope)),
                *(self._limits_of_row(row, _value(form, z), _value(form, slope)) for row, form in merge.complete),
            ]
            first, last = max(run[2] for run in runs), min(run[3] for run in runs)
            (a, da, *_), (b, db, *_), (c, dc, *_) = runs[:3]
            left_message, right_message = self.nodes[left], self.nodes[right]
            for j in range(max(0, first), min(len(steps) - 1, last) + 1):
                value = left_message[a + da * j] * right_message[b + db * j]
                for weight, form in weights:
                    value = value * self.number(weight, _value(form, z) + j * _value(form, slope), False)
                out[c + dc * j] = out[c + dc * j] + value
        return out

    def _is_soft(self, row: int) -> bool:
        return self.order.system.rows[row].kind == "soft"

    def _range(self, number: int, coordinate: int) -> range:
        left, right, merge = self.order.merges[number]
        n_left = merge.left.width
        node, d = (left, coordinate) if coordinate < n_left else (right, coordinate - n_left)
        low = int(self.layout.state.node_low[node, d])
        return range(low, low + int(self.layout.state.node_length[node, d]))

    def _run(self, node: int, key: list[int], slope: list[int]) -> tuple[int, int, int, int]:
        """Return start and stride in a node's message along a run, and the steps that stay inside its window."""
        state = self.layout.state
        index = stride = 0
        first, last = 0, FAR
        for d, (value, change) in enumerate(zip(key, slope, strict=True)):
            low, size = int(state.node_low[node, d]), int(state.node_stride[node, d])
            first, last = _inside(value, change, low, low + int(state.node_length[node, d]) - 1, first, last)
            index += (value - low) * size
            stride += change * size
        return index, stride, first, last

    def _limits_of_row(self, row: int, value: int, change: int) -> tuple[int, int, int, int]:
        if self._is_soft(row):
            return 0, 0, 0, FAR
        return 0, 0, *_inside(value, change, self.layout.rows_low[row], self.layout.rows_high[row], 0, FAR)

    def _convolved(self, position: int, cell: int, x: list[Number] | None, zero: Number) -> list[Number]:
        state, weight = self.layout.state, self.order.system.weights[cell]
        low, length = int(state.prefix_low[position]), int(state.prefix_length[position])
        below, above = self.layout.reach(cell)
        if x is None:
            values = range(low, low + length)
            return [self.number(weight, v, v == -below) if -below <= v <= above else zero for v in values]
        x_low = int(state.prefix_low[position - 1])
        if weight.ratio is None:
            return [
                sum(
                    (
                        self.number(weight, low + k - x_low - i, False) * x[i]
                        for i in _fits(low + k - x_low, below, above, len(x))
                    ),
                    zero,
                )
                for k in range(length)
            ]
        ratio = self.number(weight, 1, False)
        up = _tail(x, x_low, ratio, above, low, length, zero)
        down = _tail(x[::-1], -(x_low + len(x) - 1), ratio, below - 1, -(low + length), length, zero)
        out = [a + ratio * b for a, b in zip(up, down[::-1], strict=True)] if below > 0 else up
        if weight.zero_weight != 1:  # what the lower limit weighs more
            excess = self.number(weight, below, True) - self.number(weight, below, False)
            for k in range(length):
                if 0 <= (i := low + k + below - x_low) < len(x):
                    out[k] = out[k] + excess * x[i]
        return out

    def pairs(self, number: int, walk: Walk, key: tuple[int, ...]) -> Iterator[tuple[list[int], Number]]:
        """Go through the pairs of parts that fit together, in the kernels' order, with their weight."""
        left, right, merge = self.order.merges[number]
        n_left = merge.left.width
        for free in product(*(self._range(number, coordinate) for coordinate in walk.free)):
            inputs = (*free, *key)
            z = _coordinates(walk, n_left + merge.right.width, inputs)
            if z is None or any(_apply(check, inputs) != 0 for check in walk.checks):
                continue
            left_index, right_index = self.layout.index(left, z[:n_left]), self.layout.index(right, z[n_left:])
            if left_index is None or right_index is None:
                continue
            value = self.nodes[left][left_index] * self.nodes[right][right_index]
            weighted = self._row_weights(merge, z, value)
            if weighted is not None:
                yield z, weighted

    def _row_weights(self, merge: Merge, z: list[int], value: Number) -> Number | None:
        for row, form in merge.complete:
            sum_of_row = _apply(form, z)
            if sum_of_row is None:
                return None
            if self.order.system.rows[row].kind == "range":
                if not self.layout.rows_low[row] <= sum_of_row <= self.layout.rows_high[row]:
                    return None
            else:
                value = value * self.number(self.order.system.rows[row].weight, sum_of_row, False)
        return value

    @property
    def root(self) -> list[Number]:
        """The last message."""
        return self.nodes[-1]


def _value(form: Form, inputs: list[int]) -> int:
    return sum(c * i for c, i in zip(form.coefficients, inputs, strict=True)) // form.divisor


def _all(forms: tuple[Form, ...], inputs: list[int]) -> list[int]:
    return [_value(form, inputs) for form in forms]


def _inside(value: int, change: int, low: int, high: int, first: int, last: int) -> tuple[int, int]:
    """Narrow the steps j for which ``low <= value + change * j <= high``."""
    if change == 0:
        return (first, last) if low <= value <= high else (1, 0)
    if change < 0:
        value, change, low, high = -value, -change, -high, -low
    return max(first, -((value - low) // change)), min(last, (high - value) // change)


def _fits(offset: int, below: int, above: int, n: int) -> range:
    """Return the places i of a message with ``-below <= offset - i <= above``."""
    return range(max(0, offset - above), min(n, offset + below + 1))


def _tail(x: list[Number], x0: int, a: Number, reach: int, out0: int, length: int, zero: Number) -> list[Number]:
    """Return ``sum_{v=0..reach} a^v x(k - v)`` for k from `out0` on; what leaves the reach is subtracted again."""
    running, out = zero, [zero] * length
    leaving = a ** (reach + 1) if reach + 1 < out0 + length - x0 else None
    for i in range(out0 + length - x0):
        running = a * running + (x[i] if i < len(x) else zero)
        old = i - reach - 1
        if leaving is not None and 0 <= old < len(x):
            running = running - leaving * x[old]
        k = x0 + i - out0
        if k >= 0:
            out[k] = running
    return out


def _apply(form: Form, inputs: tuple[int, ...] | list[int]) -> int | None:
    value = sum(c * i for c, i in zip(form.coefficients, inputs, strict=True))
    return None if value % form.divisor else value // form.divisor


def _coordinates(walk: Walk, n: int, inputs: tuple[int, ...]) -> list[int] | None:
    out = []
    for coordinate in range(n):
        if coordinate in walk.follows:
            value = _apply(walk.follows[coordinate], inputs)
            if value is None:
                return None
            out.append(value)
        else:
            out.append(inputs[walk.free.index(coordinate)])
    return out


def exact_normaliser(elimination: Elimination, centre: Ints) -> Fraction:
    """Return c(s) as a fraction; needs limits on every cell."""
    layout = Layout.of(elimination, centre)
    if layout.is_clipped:
        layout = Layout.of(elimination.unlimited(), centre)
    _check_size(layout)

    def number(weight: NoiseWeight, v: int, is_limit: bool) -> Fraction:
        return weight.at(v, is_limit=is_limit)

    return sum(ExactMessages.of(layout, number, Fraction(0)).root, Fraction(0))


def _check_size(layout: Layout) -> None:
    if layout.size > _MOST_ENTRIES:
        raise TooLargeError(
            f"exact arithmetic on {layout.size:,} states is out of reach; the limit is {_MOST_ENTRIES:,}"
        )


def count_tables(elimination: Elimination, point: Ints) -> int:
    """Return how many tables obey the conditions, given one of them; the elimination's weights must all be 1."""
    layout = Layout.of(elimination, point)
    _check_size(layout)
    return int(sum(ExactMessages.of(layout, lambda _weight, _v, _is_limit: 1, 0).root))


class ExactDraws:
    """Draws of one table whose every decision is made in balls. Confidential."""

    def __init__(self, elimination: Elimination, centre: Ints) -> None:
        self._engine = elimination
        self._centre = centre
        self._precision = _FIRST_PRECISION
        self._messages: ExactMessages | None = None

    def _messages_at(self, precision: int) -> ExactMessages:
        """Build the messages in balls; windows leave out a square of what those of half the precision did, or nothing.

        Those of floats stand before the first. What is built is kept: draws that follow begin with it.
        """
        if self._messages is None or precision != self._precision:
            layout, width = Layout.of(self._engine, self._centre), _FIRST_PRECISION
            while layout.is_clipped and width <= precision:
                layout, width = Layout.of(layout.elimination.wider(), self._centre), 2 * width

            @cache
            def number(weight: NoiseWeight, v: int, is_limit: bool) -> flint.arb:
                (enclosure,) = weight.enclosures([v])
                return ball(weight.zero_weight) * enclosure if is_limit else enclosure

            self._messages, self._precision = ExactMessages.of(layout, number, flint.arb(0)), precision
        return self._messages

    def draw(self, words: NDArray[np.uint64], rng: RandomStream) -> Ints:
        """Return the table of these words; where 64 bits do not decide, more are taken from `rng`."""
        uniforms = [Uniform(word, words_of(rng)) for word in words.tolist()]
        return refine_until_proven(lambda precision: self._draw(uniforms, precision), self._precision)

    def _draw(self, uniforms: list[Uniform], precision: int) -> Ints:
        messages = self._messages_at(precision)
        order = messages.order
        n_groups = len(order.groups)
        chosen: dict[int, list[int]] = {len(order.coordinates) - 1: []}
        decision = 0
        for number in range(len(order.merges) - 1, -1, -1):
            left, right, merge = order.merges[number]
            key = tuple(chosen[n_groups + number])
            pairs = messages.pairs(number, merge.backward, key)
            missing = messages.layout.missing_of_node(n_groups + number)
            if messages.layout.elimination.program.is_factor[number]:  # of every pair's weight
                missing *= ends(messages.nodes[left][0])[1]
            z = choose_weighted(uniforms[decision], pairs, missing)
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
                terms = self._terms(messages, group, place, position + place, cell, rest)
                value = choose_weighted(uniforms[decision], terms, messages.layout.missing_of_prefix(position + place))
                out[cell] += value
                rest -= value
                decision += 1
            out[cells[0]] += rest
            position += len(cells)
        return out

    @staticmethod
    def _terms(
        messages: ExactMessages, group: int, place: int, position: int, cell: int, rest: int
    ) -> Iterator[tuple[int, Number]]:
        """Go through the values of a cell, nearest first, with their weight."""
        state, weight = messages.layout.state, messages.order.system.weights[cell]
        x, x0 = messages.prefixes[group][place - 1], int(state.prefix_low[position - 1])
        below, above = messages.layout.reach(cell)
        farthest = max(abs(rest - x0), abs(rest - x0 - len(x) + 1))
        for size in range(farthest + 1):
            for v in (size, -size) if size else (0,):
                if 0 <= rest - v - x0 < len(x) and -below <= v <= above:
                    yield v, messages.number(weight, v, v == -below) * x[rest - v - x0]
