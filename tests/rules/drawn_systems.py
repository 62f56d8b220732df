"""Small systems of every kind that the rule *nearest* takes apart, with a table that obeys them."""

from collections.abc import Callable

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import bounds, structural_zeros
from congenial.conditions.queries import margin, total
from congenial.conditions.rows_and_intervals import Interval, Limited, Row
from congenial.randomness import RandomStream
from congenial.schema import Schema


def whole(rng: RandomStream, low: int, high: int, shape: int | tuple[int, ...] = 1) -> Ints:
    """Return uniform integers of a range, both ends included."""
    return low + rng.below(np.full(shape, high - low + 1))


def one(rng: RandomStream, low: int, high: int) -> int:
    return int(whole(rng, low, high)[0])


def schema_of(*shape: int) -> Schema:
    return Schema({f"d{axis}": [str(label) for label in range(n)] for axis, n in enumerate(shape)})


System = tuple[Constraints, Ints]


def with_total(rng: RandomStream) -> System:
    schema, counts = schema_of(5), whole(rng, 0, 2, 5)
    return Constraints.of(schema, [total()], counts.tolist()), counts


def with_nothing(rng: RandomStream) -> System:
    schema, counts = schema_of(4), whole(rng, 0, 3, 4)
    return Constraints.of(schema, [bounds(0, 4)], counts.tolist()), counts


def with_disjoint_sums(rng: RandomStream) -> System:
    schema, counts = schema_of(2, 3), whole(rng, 0, 2, 6)
    return Constraints.of(schema, [margin("d0")], counts.tolist()), counts


def with_crossing_sums(rng: RandomStream) -> System:
    """P12 in small: the total, one row and some columns are exact; one sum is free."""
    schema, counts = schema_of(2, 3), whole(rng, 0, 2, 6)
    sums = [total(), total({"d0": "0"}), total({"d1": ["1", "2"]})]
    return Constraints.of(schema, sums, counts.tolist()), counts


def with_zeros_and_limits(rng: RandomStream) -> System:
    schema, counts = schema_of(2, 3), whole(rng, 0, 2, 6)
    counts[one(rng, 0, 5)] = 0
    empty = int(np.flatnonzero(counts == 0)[0])
    label = schema.cell_name(empty)
    where = dict(part.split("=") for part in label.split(", "))
    sums = [total(), total({"d0": "0"}), total({"d1": ["1", "2"]}), structural_zeros(where), bounds(0, 3)]
    return Constraints.of(schema, sums, counts.tolist()), counts


def with_range(rng: RandomStream) -> System:
    counts = whole(rng, 0, 2, 5)
    some = int(counts[:3].sum())
    rows = [Limited.equal(Row.of("total", range(5)), int(counts.sum()))]
    rows.append(Limited.of(Row.of("some", [0, 1, 2]), some - one(rng, 0, 1), some + one(rng, 0, 2)))
    return Constraints(schema_of(5), tuple(rows), (Interval(0, None),) * 5), counts


def with_range_alone(rng: RandomStream) -> System:
    counts = whole(rng, 0, 2, 4)
    some = int(counts[:3].sum())
    row = Limited.of(Row.of("some", [0, 1, 2]), some - one(rng, 0, 1), None if one(rng, 0, 1) else some + 1)
    return Constraints(schema_of(4), (row,), (Interval(0, 6),) * 4), counts


def with_margins(rng: RandomStream) -> System:
    schema, counts = schema_of(3, 3), whole(rng, 0, 1, 9)
    return Constraints.of(schema, [margin("d0"), margin("d1")], counts.tolist()), counts


def with_margins_and_limits(rng: RandomStream) -> System:
    schema, counts = schema_of(2, 4), whole(rng, 0, 2, 8)
    counts[3] = 0
    conditions = [margin("d0"), margin("d1"), structural_zeros({"d0": "0", "d1": "3"}), bounds(0, 3)]
    return Constraints.of(schema, conditions, counts.tolist()), counts


def with_parts_of_margins(rng: RandomStream) -> System:
    """Two rows and two columns of a larger table: other cells are in one sum or in none."""
    schema, counts = schema_of(3, 3), whole(rng, 0, 1, 9)
    sums = [total({"d0": "0"}), total({"d0": "1"}), total({"d1": "0"}), total({"d1": "1"})]
    return Constraints.of(schema, [*sums, bounds(0, 2)], counts.tolist()), counts


def with_margin_in_range(rng: RandomStream) -> System:
    counts = whole(rng, 0, 1, 9)
    table = counts.reshape(3, 3)
    rows = [Limited.equal(Row.of(f"row {r}", range(3 * r, 3 * r + 3)), int(table[r].sum())) for r in range(3)]
    for column in range(2):
        value, cells = int(table[:, column].sum()), [column, 3 + column, 6 + column]
        rows.append(Limited.of(Row.of(f"column {column}", cells), value - one(rng, 0, 1), value))
    return Constraints(schema_of(3, 3), tuple(rows), (Interval(0, None),) * 9), counts


def with_nested_sums(rng: RandomStream) -> System:
    """Two sums free: the total, one row, and columns within columns."""
    schema, counts = schema_of(2, 4), whole(rng, 0, 1, 8)
    sums = [total(), total({"d0": "0"}), total({"d1": ["1", "2", "3"]}), total({"d1": ["3"]})]
    return Constraints.of(schema, [*sums, bounds(0, 2)], counts.tolist()), counts


def with_all_two_ways(rng: RandomStream) -> System:
    schema, counts = schema_of(2, 2, 2), whole(rng, 0, 3, 8)
    return Constraints.of(schema, [margin("d0", "d1"), margin("d0", "d2"), margin("d1", "d2")], counts.tolist()), counts


def with_three_margins(rng: RandomStream) -> System:
    schema, counts = schema_of(2, 2, 2), whole(rng, 0, 1, 8)
    return Constraints.of(schema, [margin("d0"), margin("d1"), margin("d2"), bounds(0, 2)], counts.tolist()), counts


def with_any_rows(rng: RandomStream) -> System:
    """Coefficients other than 1, equalities and ranges: not unimodular."""
    n = 5
    counts = whole(rng, 0, 2, n)
    rows: list[Limited] = []
    for number in range(one(rng, 1, 2)):
        times = np.array([0, 1, 1, 2, -1, 3])[whole(rng, 0, 5, n)]
        if np.count_nonzero(times) < 2:
            continue
        row = Row.weighted({cell: int(c) for cell, c in enumerate(times)}, name=f"row {number}")
        value = row.value(counts.tolist())
        rows.append(Limited.equal(row, value) if one(rng, 0, 1) else Limited.of(row, value - 1, value + one(rng, 0, 2)))
    if len({row.row.cells for row in rows}) < len(rows):
        rows = rows[:1]
    return Constraints(schema_of(n), tuple(rows), (Interval(0, 4),) * n), counts


def with_no_lower_limit(rng: RandomStream) -> System:
    counts = whole(rng, 0, 2, 4)
    row = Limited.equal(Row.of("total", range(4)), int(counts.sum()))
    limits = Interval(0, None), Interval(None, 3), Interval(None, None), Interval(0, 2)
    return Constraints(schema_of(4), (row,), limits), counts


KINDS: dict[str, Callable[[RandomStream], System]] = {
    name.removeprefix("with_"): make for name, make in globals().items() if name.startswith("with_")
}
