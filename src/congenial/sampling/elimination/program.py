"""A merge order as flat arrays, ready for the kernels."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.exact import ball
from congenial.noise.weight import NoiseWeight
from congenial.sampling.elimination.merging import Form, Merge, Walk
from congenial.sampling.elimination.order import MergeOrder
from congenial.sampling.elimination.windows import half_width
from congenial.sampling.kernel_scaled_floats import (
    EQUAL,
    FAR,
    FREE,
    NEVER,
    NONE,
    RANGE,
    SOFT,
    STEP,
    Numbers,
    ScaledFloats,
    as_doubles,
    normal,
)

_LONGEST_TABLE = 2**23
_BITS = 256
_KIND = {"equal": EQUAL, "range": RANGE, "soft": SOFT, "free": FREE}


class WalkArrays(NamedTuple):
    """The walks of all merges; forms are over the inputs (free coordinates, then the whole's key when it is given)."""

    n_free: Ints  # (merge)
    n_stepped: Ints  # (merge) free coordinates that are stepped through: all, or all but the last, which runs
    free: Ints  # (merge, coordinate) which coordinate of (left, right) each free one is
    n_limited: Ints  # (merge) forms that limit a pair: coordinates of (left, right), of the whole, checks, ranges
    n_whole: Ints  # (merge) how many of them are coordinates of the whole: none when its key is given
    n_checks: Ints
    n_ranges: Ints
    form: Ints  # (merge, place, input)
    divisor: Ints  # (merge, place)
    range_row: Ints  # (merge, range) which row
    n_soft: Ints  # (merge) soft rows that are complete
    soft_form: Ints  # (merge, soft row, input)
    soft_divisor: Ints
    soft_table: Ints
    n_rows: Ints  # (merge) ranges and soft rows that are complete
    is_whole: NDArray[np.bool_]  # (merge) whether every divisor is 1


class Program(NamedTuple):
    """Everything public that the kernels need."""

    cell_at: Ints  # (position) cells by group
    group_start: Ints  # (group + 1) first position of each group
    table_of: Ints  # (cell)
    tables: Numbers  # (table, |deviation|)
    table_length: Ints
    table_reach: (
        Ints  # (table) how far a cell's own deviation is followed; beyond lies less than exp(-nats); NONE: flat
    )
    base: Floats  # (table) ratio of a geometric weight, or NONE
    zero_weight: Floats  # (table) what multiplies the weight of a lower limit, and that less 1
    zero_weight_excess: Floats
    powers: Numbers  # (table, n) base ** n, correctly rounded, for one block of a recurrence
    log_mass: Floats  # (cell)
    mass: Floats  # (cell) at most 1e304
    lower: Ints  # (cell) absolute limits, +-NEVER for none
    upper: Ints
    prefix_half: Ints  # (position) or NONE
    row_kind: Ints  # EQUAL, RANGE, SOFT or FREE
    row_coefficient: Ints  # (row, group)
    row_lower: Ints
    row_upper: Ints
    node_dim: Ints
    coordinate_coefficient: Ints  # (node, coordinate, group)
    coordinate_row: Ints  # (node, coordinate) NONE: a group's own sum
    coordinate_half: Ints
    left: Ints  # (merge)
    right: Ints
    is_factor: NDArray[np.bool_]  # (merge) whether the left part is all of the components before, and nothing open
    n_soft: Ints  # (node) soft rows that are complete in it
    forward: WalkArrays
    backward: WalkArrays
    nats: float


def make_program(order: MergeOrder, *, has_weights: bool = True) -> Program:
    """Lay a merge order out in arrays; without weights they serve to place windows, however long those are."""
    system, n_groups = order.system, len(order.groups)
    weights: dict[NoiseWeight, int] = {}
    for weight in (*system.weights, *(row.weight for row in system.rows if row.kind == "soft")):
        weights.setdefault(weight, len(weights))
    tables, lengths = _tables(list(weights) if has_weights else [], order)
    n_rows = max(1, len(system.rows))
    row_coefficient = np.zeros((n_rows, n_groups), np.int64)
    for group, column in enumerate(order.rows.columns):
        for row, coefficient in column.items():
            row_coefficient[row, group] = coefficient
    if float(np.abs(row_coefficient).sum(axis=1).max(initial=0)) * system.n_cells * FAR > NEVER:
        raise TooLargeError(
            "the rows have too large coefficients for the exact sampler; divide them by a common factor"
        )
    n_nodes, width = len(order.coordinates), max(1, order.width)
    coordinate_coefficient = np.zeros((n_nodes, width, n_groups), np.int64)
    coordinate_row = np.full((n_nodes, width), NONE, np.int64)
    coordinate_half = np.full((n_nodes, width), NONE, np.int64)
    for node, coordinates in enumerate(order.coordinates):
        for d, coordinate in enumerate(coordinates):
            for group, coefficient in coordinate.coefficients:
                coordinate_coefficient[node, d, group] = coefficient
            coordinate_row[node, d] = NONE if coordinate.row is None else coordinate.row
            coordinate_half[node, d] = NONE if coordinate.half is None else coordinate.half
    merges = [merge for _, _, merge in order.merges]
    log_masses = np.array([weight.log_mass() for weight in system.weights])
    row_table = np.array([weights.get(row.weight, 0) for row in system.rows] or [0], np.int64)
    return Program(
        cell_at=np.array([cell for cells in order.groups for cell in cells], np.int64),
        group_start=np.cumsum([0, *map(len, order.groups)]).astype(np.int64),
        table_of=np.array([weights[weight] for weight in system.weights], np.int64),
        tables=tables,
        table_length=lengths,
        table_reach=np.array([_cell_reach(weight, order.nats) for weight in weights], np.int64),
        base=np.array([NONE if weight.ratio is None else float(weight.ratio) for weight in weights], np.float64),
        zero_weight=np.array([float(weight.zero_weight) for weight in weights]),
        zero_weight_excess=np.array([float(weight.zero_weight - 1) for weight in weights]),
        powers=_stacked_numbers(
            [_powers(weight.ratio or Fraction(1), _block(order) + 1) for weight in weights if has_weights],
            is_scaled=order.is_scaled,
        ),
        log_mass=log_masses,
        mass=np.exp(np.minimum(700.0, log_masses)),
        lower=_limits(system.lower, -NEVER),
        upper=_limits(system.upper, NEVER),
        prefix_half=np.array([NONE if p.half is None else p.half for group in order.prefixes for p in group], np.int64),
        row_kind=np.array([_KIND[row.kind] for row in system.rows] or [FREE], np.int64),
        row_coefficient=row_coefficient,
        row_lower=_limits([row.lower for row in system.rows] or [None], -NEVER),
        row_upper=_limits([row.upper for row in system.rows] or [None], NEVER),
        node_dim=np.array([len(coordinates) for coordinates in order.coordinates], np.int64),
        coordinate_coefficient=coordinate_coefficient,
        coordinate_row=coordinate_row,
        coordinate_half=coordinate_half,
        is_factor=np.array(_factors(order), bool),
        n_soft=np.array(_soft_rows(order), np.int64),
        left=np.array([left for left, _, _ in order.merges], np.int64),
        right=np.array([right for _, right, _ in order.merges], np.int64),
        forward=_walks(merges, False, order, row_table),
        backward=_walks(merges, True, order, row_table),
        nats=order.nats,
    )


def _factors(order: MergeOrder) -> list[bool]:
    """Say of each merge whether its left part is what closes one component after another, without a key."""
    closed, out = {len(order.groups) - 1}, []  # it begins with the empty group
    for number, (left, _, merge) in enumerate(order.merges):
        if left in closed:
            closed.add(len(order.groups) + number)
        out.append(left in closed and merge.left.width == 0)
    return out


def _soft_rows(order: MergeOrder) -> list[int]:
    """Return how many soft rows are complete in each node."""
    out = [0] * len(order.groups)
    for left, right, merge in order.merges:
        n_complete = sum(order.system.rows[row].kind == "soft" for row, _ in merge.complete)
        out.append(out[left] + out[right] + n_complete)
    return out


def _limits(limits: Sequence[int | None], missing: int) -> Ints:
    return np.array([missing if limit is None else limit for limit in limits], np.int64)


def _block(order: MergeOrder) -> int:
    """Return the block length of recurrences: near the square root of the longest message."""
    longest = max((prefix.length for group in order.prefixes for prefix in group), default=1.0)
    return int(min(1024.0, max(16.0, (8 * longest) ** 0.5)))


def _tables(weights: list[NoiseWeight], order: MergeOrder) -> tuple[Numbers, Ints]:
    """Return each weight at 0, 1, 2, ... until a double is 0; of scaled floats, until nothing is left to lose.

    Each entry is correct to three units of the last place.
    """
    log_range = 2 * order.nats + 50 if order.is_scaled else 745.0
    lengths = [1 if weight.is_flat else int(weight.distance(log_range)) + 2 for weight in weights]
    if max(lengths, default=1) > _LONGEST_TABLE:
        raise TooLargeError(
            f"a precision is so small that its weights reach over {max(lengths):,} values; the exact sampler's limit is"
            f" {_LONGEST_TABLE:,}: give every measured query a precision of at least 1/10000"
        )
    lines = [_weights(weight, length) for weight, length in zip(weights, lengths, strict=True)]
    return _stacked_numbers(lines, is_scaled=order.is_scaled), np.array(lengths or [1], np.int64)


def _weights(weight: NoiseWeight, length: int) -> ScaledFloats:
    if weight.ratio is None:
        with flint.ctx.workprec(_BITS):
            return _rounded(weight.enclosures(range(length)))
    # base^(q n + r) = base^(q n) * base^r: two rounded factors and one product.
    n = int(length**0.5) + 1
    large, small = _powers(weight.ratio**n, length // n + 1), _powers(weight.ratio, n)
    value, power = np.outer(large.value, small.value), np.add.outer(large.power, small.power)
    return normal(value.reshape(-1)[:length], power.reshape(-1)[:length])


def _cell_reach(weight: NoiseWeight, nats: float) -> int:
    """Return how far one cell is followed."""
    half = half_width([(weight, 1)], nats)
    return NONE if half is None else half


def _powers(base: Fraction, n: int) -> ScaledFloats:
    """Return ``base ** 0 .. base ** (n - 1)``, each correctly rounded."""
    with flint.ctx.workprec(_BITS):
        ratio, running, out = ball(base), ball(1), []
        for _ in range(n):
            out.append(running)
            running *= ratio
    return _rounded(out)


def _rounded(numbers: list[flint.arb]) -> ScaledFloats:
    """Return balls above 0 as scaled floats."""
    values, powers = [], []
    with flint.ctx.workprec(_BITS):
        for number in numbers:
            mantissa, exponent = number.mid().man_exp()
            powers.append(round((int(exponent) + int(mantissa).bit_length()) / STEP))
            values.append(float((number * flint.arb(2) ** (-STEP * powers[-1])).mid()))
    return ScaledFloats(np.array(values), np.array(powers, np.int64))


def _stacked_numbers(lines: list[ScaledFloats], *, is_scaled: bool) -> Numbers:
    """Return lines of numbers, filled up with 0."""
    shape = (max(1, len(lines)), max([1, *(line.value.size for line in lines)]))
    stacked = ScaledFloats(np.zeros(shape), np.zeros(shape, np.int64))
    for i, line in enumerate(lines):
        stacked.value[i, : line.value.size], stacked.power[i, : line.value.size] = line
    return stacked if is_scaled else as_doubles(stacked)


def _walks(merges: Sequence[Merge], is_draw: bool, order: MergeOrder, row_table: Ints) -> WalkArrays:
    parts = [_Parts.of(merge, merge.backward if is_draw else merge.forward, is_draw, order) for merge in merges]
    form, divisor = _stacked([part.limited for part in parts])
    soft_form, soft_divisor = _stacked([part.soft for part in parts])
    is_whole = np.array([part.is_whole for part in parts], bool)
    n_free = np.array([len(part.walk.free) for part in parts], np.int64)
    return WalkArrays(
        n_free=n_free,
        n_stepped=np.where(is_whole, np.maximum(0, n_free - 1), n_free),
        free=_padded([part.walk.free for part in parts]),
        n_limited=np.array([len(part.limited) for part in parts], np.int64),
        n_whole=np.array([part.n_whole for part in parts], np.int64),
        n_checks=np.array([len(part.walk.checks) for part in parts], np.int64),
        n_ranges=np.array([len(part.range_rows) for part in parts], np.int64),
        form=form,
        divisor=divisor,
        range_row=_padded([part.range_rows for part in parts]),
        n_soft=np.array([len(part.soft) for part in parts], np.int64),
        soft_form=soft_form,
        soft_divisor=soft_divisor,
        soft_table=_padded([[int(row_table[row]) for row in part.soft_rows] for part in parts]),
        n_rows=np.array([len(merge.complete) for merge in merges], np.int64),
        is_whole=is_whole,
    )


class _Parts(NamedTuple):
    """The forms of one merge, by what the kernels do with them."""

    walk: Walk
    limited: list[Form]
    n_whole: int
    range_rows: list[int]
    soft: list[Form]
    soft_rows: list[int]

    @classmethod
    def of(cls, merge: Merge, walk: Walk, is_draw: bool, order: MergeOrder) -> "_Parts":
        vectors = _input_vectors(merge, walk)
        whole = [] if is_draw else [_composed(form, vectors) for form in merge.key_forms]
        complete = [(row, order.system.rows[row].kind, _composed(form, vectors)) for row, form in merge.complete]
        ranges = [(row, form) for row, kind, form in complete if kind == "range"]
        soft = [(row, form) for row, kind, form in complete if kind == "soft"]
        limited = [*map(Form.of, vectors), *whole, *walk.checks, *(form for _, form in ranges)]
        return cls(
            walk, limited, len(whole), [row for row, _ in ranges], [form for _, form in soft], [row for row, _ in soft]
        )

    @property
    def is_whole(self) -> bool:
        checks = set(self.walk.checks)  # a check is a sum that must be 0: its divisor says nothing
        return all(form.divisor == 1 for form in (*self.limited, *self.soft) if form not in checks)


def _stacked(forms: Sequence[Sequence[Form]]) -> tuple[Ints, Ints]:
    """Return coefficients (merge, place, input) and divisors (merge, place) of forms, filled up with 0 and 1."""
    n_places = max([1, *map(len, forms)])
    n_inputs = max([1, *(len(form.coefficients) for line in forms for form in line)])
    coefficients = np.zeros((len(forms), n_places, n_inputs), np.int64)
    divisors = np.ones((len(forms), n_places), np.int64)
    for m, line in enumerate(forms):
        for place, form in enumerate(line):
            coefficients[m, place, : len(form.coefficients)] = form.coefficients
            divisors[m, place] = form.divisor
    return coefficients, divisors


def _padded(lines: Sequence[Sequence[int]]) -> Ints:
    out = np.zeros((len(lines), max([1, *map(len, lines)])), np.int64)
    for number, line in enumerate(lines):
        out[number, : len(line)] = line
    return out


def _input_vectors(merge: Merge, walk: Walk) -> list[list[Fraction]]:
    """Return every coordinate of (left, right) as a combination of the walk's inputs."""
    n = merge.left.width + merge.right.width
    n_inputs = max([len(walk.free), *(len(form.coefficients) for form in walk.follows.values())])
    vectors = []
    for coordinate in range(n):
        if coordinate in walk.follows:
            form = walk.follows[coordinate]
            vectors.append([Fraction(c, form.divisor) for c in form.coefficients])
        else:
            vectors.append([Fraction(int(i == walk.free.index(coordinate))) for i in range(n_inputs)])
    return vectors


def _composed(form: Form, vectors: list[list[Fraction]]) -> Form:
    """Return a form in (left, right) as one in the inputs."""
    pairs = list(zip(form.coefficients, vectors, strict=True))
    n_inputs = len(vectors[0]) if vectors else 0
    return Form.of([sum((c * v[i] for c, v in pairs), Fraction(0)) / form.divisor for i in range(n_inputs)])
