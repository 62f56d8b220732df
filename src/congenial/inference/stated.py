"""Cells whose value the published conditions state outright: nothing moves there, and nothing errs."""

from congenial.conditions.compile import fixed_cells
from congenial.conditions.constraints import Constraints


def stated_cells(constraints: Constraints) -> dict[int, int]:
    """Return the cells with a stated single value, and that value.

    Examples
    --------
    >>> from congenial.conditions.queries import bounds, structural_zeros
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> zero, four = structural_zeros({"sex": "male", "age": "0-17"}), bounds(4, 4, where={"sex": "male", "age": "18+"})
    >>> stated_cells(Constraints.of(schema, [zero, four]))
    {2: 0, 3: 4}
    """
    fixed = fixed_cells(constraints.lower, constraints.upper)
    return {equality.row.cells[0]: equality.lower for equality in fixed if equality.lower is not None}
