"""A merge order as flat arrays, ready for the kernels."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.balls import ball
from congenial.errors import TooLargeError
from congenial.noise.fall import Fall
from congenial.sampling.contraction.algebra import Form, Merge, Walk
from congenial.sampling.contraction.order import MergeOrder
from congenial.sampling.contraction.windows import half_width, log_base, log_mass
from congenial.sampling.kernels.codes import EQUAL, FAR, FREE, NEVER, NONE, RANGE, SOFT

_LONGEST_TABLE = 2**23
_KIND = {"equal": EQUAL, "range": RANGE, "soft": SOFT, "free": FREE}


class WalkArrays(NamedTuple):
    """The walks of all merges; forms are over the inputs (free coordinates, then the whole's key when it is given)."""

    n_free: Ints  # (merge)
    free: Ints  # (merge, coordinate) which coordinate of (left, right) each free one is
    z: Ints  # (merge, coordinate, input)
    z_divisor: Ints  # (merge, coordinate)
    n_checks: Ints  # (merge)
    checks: Ints  # (merge, check, input)
    x: Ints  # (merge, coordinate of the whole, input)
    x_divisor: Ints
    n_rows: Ints  # (merge) ranges and soft rows that are complete
    row: Ints  # (merge, place)
    row_form: Ints  # (merge, place, input)
    row_divisor: Ints
    is_whole: NDArray[np.bool_]  # (merge) whether every divisor is 1


class Program(NamedTuple):
    """Everything public that the kernels need."""

    cell_at: Ints  # (position) cells by group
    group_start: Ints  # (group + 1) first position of each group
    table_of: Ints  # (cell)
    tables: Floats  # (table, |deviation|)
    table_length: Ints
    table_reach: Ints  # (table) how far a cell's own deviation is followed; beyond lies less than exp(-nats)
    base: Floats  # (table) ratio of a geometric fall, or NONE
    powers: Floats  # (table, n) base ** n, correctly rounded, for one block of a recurrence
    log_mass: Floats  # (cell)
    lower: Ints  # (cell) absolute limits, +-NEVER for none
    upper: Ints
    prefix_half: Ints  # (position) or NONE
    row_kind: Ints  # EQUAL, RANGE, SOFT or FREE
    row_coefficient: Ints  # (row, group)
    row_lower: Ints
    row_upper: Ints
    row_table: Ints
    node_dim: Ints
    coordinate_coefficient: Ints  # (node, coordinate, group)
    coordinate_row: Ints  # (node, coordinate) NONE: a group's own sum
    coordinate_half: Ints
    left: Ints  # (merge)
    right: Ints
    forward: WalkArrays
    backward: WalkArrays
    nats: float


def make_program(order: MergeOrder) -> Program:
    """Lay a merge order out in arrays."""
    system, n_groups = order.system, len(order.groups)
    falls: dict[Fall, int] = {}
    for fall in (*system.falls, *(row.fall for row in system.rows if row.kind == "soft")):
        falls.setdefault(fall, len(falls))
    tables, lengths = _tables(list(falls))
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
    return Program(
        cell_at=np.array([cell for cells in order.groups for cell in cells], np.int64),
        group_start=np.cumsum([0, *map(len, order.groups)]).astype(np.int64),
        table_of=np.array([falls[fall] for fall in system.falls], np.int64),
        tables=tables,
        table_length=lengths,
        table_reach=np.array([_cell_reach(fall, order.nats) for fall in falls], np.int64),
        base=np.array([float(fall.linear) if fall.quadratic == 1 else NONE for fall in falls], np.float64),
        powers=np.array([_powers(fall.linear, _block(order) + 1) for fall in falls]),
        log_mass=np.array([0.0 if fall.is_flat else log_mass(fall) for fall in system.falls]),
        lower=_limits(system.lower, -NEVER),
        upper=_limits(system.upper, NEVER),
        prefix_half=np.array([NONE if p.half is None else p.half for group in order.prefixes for p in group], np.int64),
        row_kind=np.array([_KIND[row.kind] for row in system.rows] or [FREE], np.int64),
        row_coefficient=row_coefficient,
        row_lower=_limits([row.lower for row in system.rows] or [None], -NEVER),
        row_upper=_limits([row.upper for row in system.rows] or [None], NEVER),
        row_table=np.array([falls.get(row.fall, 0) for row in system.rows] or [0], np.int64),
        node_dim=np.array([len(coordinates) for coordinates in order.coordinates], np.int64),
        coordinate_coefficient=coordinate_coefficient,
        coordinate_row=coordinate_row,
        coordinate_half=coordinate_half,
        left=np.array([left for left, _, _ in order.merges], np.int64),
        right=np.array([right for _, right, _ in order.merges], np.int64),
        forward=_walks(merges, [merge.forward for merge in merges], width, has_key=False),
        backward=_walks(merges, [merge.backward for merge in merges], width, has_key=True),
        nats=order.nats,
    )


def _limits(limits: Sequence[int | None], missing: int) -> Ints:
    return np.array([missing if limit is None else limit for limit in limits], np.int64)


def _block(order: MergeOrder) -> int:
    """Return the block length of recurrences: near the square root of the longest message."""
    longest = max((prefix.length for group in order.prefixes for prefix in group), default=1.0)
    return int(min(1024.0, max(16.0, (8 * longest) ** 0.5)))


def _tables(falls: list[Fall]) -> tuple[Floats, Ints]:
    """Return each fall's weights at 0, 1, 2, ... until a double is 0.

    Each entry is correct to three units of the last place.
    """
    lengths = [1 if fall.is_flat else _reach(fall, 745.0) + 1 for fall in falls]
    if max(lengths, default=1) > _LONGEST_TABLE:
        raise TooLargeError(
            f"a precision is so small that its weights reach over {max(lengths):,} values; the exact sampler's limit is"
            f" {_LONGEST_TABLE:,}: give every measured query a precision of at least 1/10000"
        )
    out = np.zeros((max(1, len(falls)), max([1, *lengths])))
    for line, fall, length in zip(out, falls, lengths, strict=False):
        if fall.quadratic == 1:
            # base^(q n + r) = base^(q n) * base^r: two rounded factors and one product.
            n = int(length**0.5) + 1
            large = np.array(_powers(fall.linear**n, length // n + 1))
            line[:length] = np.outer(large, _powers(fall.linear, n)).reshape(-1)[:length]
        else:
            line[:length] = [_rounded_weight(fall, v) for v in range(length)]
    return out, np.array(lengths or [1], np.int64)


def _cell_reach(fall: Fall, nats: float) -> int:
    """Return how far one cell is followed: without end for a geometric fall, whose convolution costs nothing more."""
    return FAR if fall.quadratic == 1 else half_width([(fall, 1)], nats) or 0


def _powers(base: Fraction, n: int) -> list[float]:
    """Return ``base ** 0 .. base ** (n - 1)``, each correctly rounded."""
    with flint.ctx.workprec(256):
        ratio, running, out = ball(base), ball(1), []
        for _ in range(n):
            out.append(float(running.mid()))
            running *= ratio
    return out


def _rounded_weight(fall: Fall, deviation: int) -> float:
    with flint.ctx.workprec(256):
        return float((ball(fall.linear) ** deviation * ball(fall.quadratic) ** (deviation * deviation)).mid())


def _reach(fall: Fall, log_range: float) -> int:
    """Return where the weight is below ``exp(-log_range)``."""
    reaches = []
    if fall.linear < 1:
        reaches.append(log_range / -log_base(fall.linear))
    if fall.quadratic < 1:
        reaches.append((log_range / -log_base(fall.quadratic)) ** 0.5)
    return int(min(reaches)) + 1


def _walks(merges: Sequence[Merge], walks: Sequence[Walk], width: int, *, has_key: bool) -> WalkArrays:
    n_merges, n_z = len(merges), 2 * width
    n_inputs = n_z + (width if has_key else 0)
    n_checks = max([1, *(len(walk.checks) for walk in walks)])
    n_rows = max([1, *(len(merge.complete) for merge in merges)])
    free = np.zeros((n_merges, n_z), np.int64)
    z, z_divisor = np.zeros((n_merges, n_z, n_inputs), np.int64), np.ones((n_merges, n_z), np.int64)
    checks = np.zeros((n_merges, n_checks, n_inputs), np.int64)
    x, x_divisor = np.zeros((n_merges, width, n_inputs), np.int64), np.ones((n_merges, width), np.int64)
    row = np.zeros((n_merges, n_rows), np.int64)
    row_form, row_divisor = np.zeros((n_merges, n_rows, n_inputs), np.int64), np.ones((n_merges, n_rows), np.int64)
    is_whole = np.ones(n_merges, bool)
    for m, (merge, walk) in enumerate(zip(merges, walks, strict=True)):
        vectors = _input_vectors(merge, walk)
        free[m, : len(walk.free)] = walk.free
        divisors = []
        for coordinate, vector in enumerate(vectors):
            divisors.append(_put(z[m, coordinate], z_divisor[m : m + 1, coordinate], Form.of(vector)))
        for place, check in enumerate(walk.checks):
            checks[m, place, : len(check.coefficients)] = check.coefficients
        for place, (number, form) in enumerate(merge.complete):
            row[m, place] = number
            divisors.append(_put(row_form[m, place], row_divisor[m : m + 1, place], _composed(form, vectors)))
        if not has_key:
            for place, form in enumerate(merge.key_forms):
                divisors.append(_put(x[m, place], x_divisor[m : m + 1, place], _composed(form, vectors)))
        is_whole[m] = all(divisor == 1 for divisor in divisors)
    return WalkArrays(
        n_free=np.array([len(walk.free) for walk in walks], np.int64),
        free=free,
        z=z,
        z_divisor=z_divisor,
        n_checks=np.array([len(walk.checks) for walk in walks], np.int64),
        checks=checks,
        x=x,
        x_divisor=x_divisor,
        n_rows=np.array([len(merge.complete) for merge in merges], np.int64),
        row=row,
        row_form=row_form,
        row_divisor=row_divisor,
        is_whole=is_whole,
    )


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


def _put(line: Ints, divisor: Ints, form: Form) -> int:
    line[: len(form.coefficients)] = form.coefficients
    divisor[0] = form.divisor
    return form.divisor
