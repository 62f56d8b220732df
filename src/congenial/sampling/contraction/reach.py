"""A quick word on systems that no merge order can hold: ordering them would take minutes, only to refuse. Public."""

from congenial.errors import TooLargeError
from congenial.sampling.system import System

MOST_OPEN = 6
"""So many sums open at once are beyond every limit of states, unless hardly any sum can move."""


def least_open(system: System) -> int:
    """Return how many independent sums are open at once at least, whatever the order.

    Rows are vertices, joined where they share a cell. A graph in which every vertex of some part has degree d has
    treewidth d and branchwidth 2 (d + 1) / 3 at least, which is how many rows some message crosses; equalities of a
    component may depend on one another once.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> least_open(System.of(target.constraints, target.measured))
    0
    """
    near: dict[int, set[int]] = {}
    for column in system.columns:
        rows = [row for row, _ in column]
        for row in rows:
            near.setdefault(row, set()).update(other for other in rows if other != row)
    most = 0
    while near:
        row = min(near, key=lambda number: len(near[number]))
        most = max(most, len(near[row]))
        for other in near.pop(row):
            near[other].discard(row)
    return max(0, -(-2 * (most + 1) // 3) - 1)


def check_reach(system: System) -> None:
    """Raise where no order can fit."""
    if (n_open := least_open(system)) >= MOST_OPEN:
        raise TooLargeError(too_wide(n_open))


def too_wide(n_open: int) -> str:
    """Return what is wrong with so many open sums, and the way out."""
    return (
        f"the exact sums of this system are out of reach: {n_open} or more sums are open at once, whatever the order of"
        f" cells, and {MOST_OPEN - 1} are the limit. Leave one of the exact"
        " or measured sums that cross each other out, or merge their levels; two families of sums that cross, and no"
        " third, are drawn by rejection"
    )
