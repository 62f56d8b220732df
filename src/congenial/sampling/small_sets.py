"""Whether so few tables obey the conditions that all of them can be gone through, and which they are."""

from math import log10

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.errors import TooLargeError
from congenial.sampling.all_tables import enumerate_tables, estimate_log10_count, surely_more_than

_MOST_CELLS = 48  # more cells that can move leave more tables than can be listed, and counting them takes long


def may_be_few(constraints: Constraints, limit: int) -> bool:
    """Whether at most so many tables obey the conditions, as far as a rough count tells.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table, two_bins
    >>> may_be_few(two_bins().constraints, 400), may_be_few(p12_mechanism().disclose(p12_table()), 400)
    (True, False)
    """
    if surely_more_than(constraints, 10 * limit):
        return False  # the rough count solves linear programs: 40 ms and half a second to load the solver
    bounds = constraints.quick_bounds
    if None in bounds.lower or None in bounds.upper:
        return False
    if constraints.schema.n_cells - len(bounds.pinned) > _MOST_CELLS:
        return False
    return estimate_log10_count(constraints) <= log10(limit) + 1


def all_tables(constraints: Constraints, limit: int) -> Ints | None:
    """Return every table that obeys the conditions (table, cell); None when they are more than so many."""
    if not may_be_few(constraints, limit):
        return None
    try:
        return enumerate_tables(constraints, limit)
    except TooLargeError:
        return None
