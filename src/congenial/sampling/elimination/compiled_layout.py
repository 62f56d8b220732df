"""Where the messages of one table lie: windows around its centre, from the merge order's public half-widths."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, isfinite, log
from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.sampling.elimination.kernels_layout import lay_out
from congenial.sampling.elimination.order import Coordinate, MergeOrder, check_reach, find_order
from congenial.sampling.elimination.program import Program, make_program
from congenial.sampling.jit import interpreted_if_small
from congenial.sampling.kernel_scaled_floats import FAR, LANES, WORK, Numbers, empty_numbers
from congenial.sampling.target_and_system import System

_LIGHTER = 0.6  # of the nats: two thirds of the time for P12 at epsilon 1, and enough for 3,143 counties


class State(NamedTuple):
    """Scratch of the kernels for one table: by position of cells in their groups, by node, and small vectors."""

    rest_low: Ints
    rest_high: Ints
    cell_below: Ints
    cell_above: Ints
    cell_first: Ints
    cell_span: Ints
    prefix_low: Ints
    prefix_length: Ints
    prefix_offset: Ints
    prefix_clips: Ints
    prefix_scale: Floats
    prefix_units: Floats
    prefix_missing: Floats
    prefix_log_mass: Floats
    node_low: Ints
    node_length: Ints
    node_stride: Ints
    node_offset: Ints
    node_size: Ints
    node_clips: Ints
    node_exponent: Ints
    node_units: Floats
    node_missing: Floats
    node_flushed: Floats
    node_log_mass: Floats
    chosen: Ints
    key: Ints
    picked: Ints
    inputs: Ints
    walk_bounds: Ints
    walk_stride: Ints
    walk_z: Ints
    group_low: Ints
    group_high: Ints
    group_total: Ints
    rows_low: Ints
    rows_high: Ints


def empty_state(program: Program) -> State:
    """Return scratch of the right shapes."""
    n_cells, n_nodes, width = program.cell_at.size, program.node_dim.size, program.coordinate_row.shape[1]
    n_places = max(program.forward.form.shape[1], program.backward.form.shape[1])
    shapes: dict[str, int | tuple[int, int]] = {
        "prefix": n_cells,
        "rest": n_cells,
        "cell": n_cells,
        "node": n_nodes,
        "group": program.group_start.size - 1,
        "rows": program.row_kind.size,
        "grid": (n_nodes, width),
        "small": 4 * width + 1,
        "walk": n_places,
        "pairs": (n_places, 2),
    }
    return State(*[np.zeros(shapes[place], kind) for place, kind in _FIELDS])


_GRIDS = {"node_low", "node_length", "node_stride", "chosen"}
_PAIRS = {"walk_bounds", "walk_z"}
_PLACES = {"prefix", "rest", "cell", "node", "group", "rows", "walk"}


def _field(name: str, kind: object) -> tuple[str, type]:
    first = name.split("_", maxsplit=1)[0]
    place = "grid" if name in _GRIDS else "pairs" if name in _PAIRS else first if first in _PLACES else "small"
    return place, np.float64 if kind == Floats else np.int64


_FIELDS = [_field(name, kind) for name, kind in State.__annotations__.items()]


@dataclass(frozen=True, eq=False)
class Elimination:
    """A merge order compiled for any number of tables with the same public structure.

    Attributes
    ----------
    has_weights : bool
        Without them it places windows, for exact numbers, and draws nothing.
    """

    order: MergeOrder
    has_weights: bool = True

    @classmethod
    def of(cls, system: System) -> "Elimination":
        """Return that of a system; structures seen before are not ordered again, and hopeless ones not at all."""
        check_reach(system)
        return _elimination(system)

    @cached_property
    def program(self) -> Program:
        """The merge order as arrays."""
        return make_program(self.order, has_weights=self.has_weights)

    @cached_property
    def longest(self) -> int:
        """The longest window of a sum of cells of a group, or of a cell's values."""
        sums = max((prefix.length for group in self.order.prefixes for prefix in group), default=1)
        return int(max(LANES, sums, 2 * int(self.program.table_reach.max()) + 1))

    def buffers(self, n_states: int, longest: int) -> tuple[Numbers, Numbers, Numbers]:
        """Return buffers for messages of so many entries, and two for the work on windows up to a length."""
        messages, work, mirror = (
            empty_numbers(n, is_scaled=self.order.is_scaled) for n in (n_states, WORK * longest, WORK * longest)
        )
        return messages, work, mirror

    @contextmanager
    def scratch(self) -> Iterator[State]:
        """Lend scratch that was used before: to make it takes longer than a small table's normaliser.

        For tables of which nothing is secret; what it held of the last one is still there.
        """
        state = self._spare.pop() if self._spare else empty_state(self.program)
        try:
            yield state
        finally:
            self._spare.append(state)

    @cached_property
    def _spare(self) -> list[State]:
        return []

    @cached_property
    def n_decisions(self) -> int:
        """Random words that a draw takes."""
        return len(self.order.merges) + sum(max(0, len(cells) - 1) for cells in self.order.groups)

    def wider(self) -> "Elimination":
        """Return windows that leave out the square of what these do."""
        return _wider(self)

    def lighter(self) -> "Elimination":
        """Return narrower windows: enough for most tables, and each says of itself whether they were."""
        return _lighter(self)

    def unlimited(self) -> "Elimination":
        """Return windows that leave out nothing: every sum runs over its whole range."""
        order = self.order

        def free(coordinates: tuple[Coordinate, ...]) -> tuple[Coordinate, ...]:
            return tuple(replace(coordinate, half=None) for coordinate in coordinates)

        unlimited = replace(
            order,
            coordinates=tuple(free(node) for node in order.coordinates),
            prefixes=tuple(free(group) for group in order.prefixes),
        )
        return Elimination(unlimited, has_weights=False)


@lru_cache(maxsize=256)
def _elimination(system: System) -> Elimination:
    return Elimination(find_order(system))


@lru_cache(maxsize=64)
def _lighter(elimination: Elimination) -> Elimination:
    return Elimination(elimination.order.with_nats(_LIGHTER * elimination.order.nats))


@lru_cache(maxsize=64)
def _wider(elimination: Elimination) -> Elimination:
    return Elimination(elimination.order.with_nats(2 * elimination.order.nats), has_weights=False)


@dataclass(frozen=True)
class Layout:
    """The windows of one table. Confidential: they lie around its centre."""

    elimination: Elimination
    centre: Ints
    state: State
    size: int

    @classmethod
    def of(cls, elimination: Elimination, centre: Ints, scratch: State | None = None) -> "Layout":
        """Place all windows, in scratch of its own unless some is given."""
        program = elimination.program
        state = empty_state(program) if scratch is None else scratch
        n_operations = program.cell_at.size + program.coordinate_coefficient.size + 4 * program.row_coefficient.size
        return cls.checked(
            elimination, centre, state, interpreted_if_small(lay_out, n_operations)(program, centre, state)
        )

    @classmethod
    def checked(cls, elimination: Elimination, centre: Ints, state: State, size: int) -> "Layout":
        """Return windows that were placed, unless one has no end."""
        if size < 0:
            if isfinite(elimination.order.n_states):
                elimination.order.check()
            raise TooLargeError(
                "a sum of cells has neither limits nor noise, so the exact sampler cannot hold it;"
                " measure cells(precision=...) or give bounds(lower, upper)"
            )
        return cls(elimination, centre, state, int(size))

    @property
    def rows_low(self) -> list[int]:
        """Least deviation of each hard row."""
        return [int(value) for value in self.state.rows_low]

    @property
    def rows_high(self) -> list[int]:
        """Largest deviation of each hard row."""
        return [int(value) for value in self.state.rows_high]

    @property
    def is_clipped(self) -> bool:
        """Whether any window leaves something out."""
        return bool(self.state.node_clips.any())

    def reach(self, cell: int) -> tuple[int, int]:
        """Return how far a cell can go below and above its centre."""
        system, value = self.elimination.order.system, int(self.centre[cell])
        low, high = system.lower[cell], system.upper[cell]
        return FAR if low is None else min(FAR, value - low), FAR if high is None else min(FAR, high - value)

    def index(self, node: int, key: list[int] | list[int | None]) -> int | None:
        """Return the place of a key in a node's message; None outside its window."""
        index = 0
        for d, value in enumerate(key):
            if value is None:
                return None
            place = value - int(self.state.node_low[node, d])
            if not 0 <= place < int(self.state.node_length[node, d]):
                return None
            index += place * int(self.state.node_stride[node, d])
        return index

    def missing_of_node(self, node: int) -> Fraction:
        """Return a bound of what windows left out of any entry of a node's message."""
        return self._missing(int(self.state.node_clips[node]), float(self.state.node_log_mass[node]))

    def missing_of_prefix(self, position: int) -> Fraction:
        """Return the same for the sum of a group's first cells."""
        return self._missing(int(self.state.prefix_clips[position]), float(self.state.prefix_log_mass[position]))

    def _missing(self, clips: int, log_mass: float) -> Fraction:
        if clips == 0:
            return Fraction(0)
        # 2 clips exp(log_mass - nats), rounded up to a power of two.
        bits = (log_mass - self.elimination.order.nats) / log(2)
        return 2 * clips * Fraction(2) ** ceil(bits + 1 + 1e-12 * abs(bits))
