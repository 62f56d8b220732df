"""What the exact numbers of a tree give away, level by level.

Each level is looked at by its own exact numbers, and by the cells that are 0 above it: where a county has nobody, none
of its blocks has. What siblings say of each other beyond that is not looked for.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_codes import CodeTexts
from congenial.conditions.areas import Group
from congenial.conditions.condition import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.interval import NONNEGATIVE, POINT_ZERO
from congenial.conditions.queries import margin
from congenial.conditions.rows import Limited
from congenial.hierarchy.exact_rows import ExactSums
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.plan import ChainPlan
from congenial.plan import Plan
from congenial.privacy.review import Review, review, reviewed
from congenial.privacy.small_sums import with_differences

Flags = NDArray[np.bool_]


def reviews_of(plan: Plan | ChainPlan, conditions: Sequence[Condition]) -> tuple[Review, ...]:
    """Look at everything that a plan releases: one table, or one for each area; of a tree, level by level."""
    if isinstance(plan, ChainPlan):
        return review_tree(plan.law, conditions)
    return (review(plan.law.areas, conditions),)


def review_tree(law: ChainLaw, conditions: Sequence[Condition]) -> tuple[Review, ...]:
    """Look at every unit of every level, the top first.

    Parameters
    ----------
    conditions : sequence of Condition
        What the units at the top obey, as it was stated.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants={"block": [cg.total()]}, rho="1")
    >>> plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4], [0, 0], [0, 1]])))
    >>> for level in review_tree(plan.law, hierarchy.invariants):
    ...     print(level.counted.area, level.counted.n_exact, [(one.n_zero, one.n_one) for one in level.counted.sums])
    county 0 [(0, 1)]
    block 2 [(1, 1)]
    """
    tree = law.tree
    top = review(law.top.areas, conditions)
    barred = law.zeros.bars[0] if law.zeros.bars else np.zeros((len(law.areas), law.n_cells), np.bool_)
    out, zero = [top], _zeros(top, law.n_cells) | barred
    for level, parents in enumerate(tree.parents, 1):
        barred = law.zeros.bars[level] if law.zeros.bars else np.zeros((len(parents), law.n_cells), np.bool_)
        exact = law.exact[level - 1] if law.exact else None
        groups = list(_groups(law, exact, zero[parents] | barred, barred))
        stated = () if exact is None else exact.rows.rows
        schema = law.top.schema
        others = [row for name in schema.names for row in margin(name).rows(schema)]
        found = reviewed(
            tree.levels[level], CodeTexts(tree.codes[level]), groups, with_differences(schema, stated, others)
        )
        out.append(found)
        zero = _zeros(found, law.n_cells) | barred
    return tuple(out)


def _groups(law: ChainLaw, exact: ExactSums | None, zero: Flags, barred: Flags) -> Iterator[tuple[Group, Flags]]:
    """Go through the units of a level that have the same cells at 0 by structure and from above."""
    first, which = _patterns(zero, barred)
    n_units = len(zero)
    values = np.zeros((n_units, 0), np.int64) if exact is None else exact.values
    rows = () if exact is None else exact.rows.rows
    for number, one in enumerate(first.tolist()):
        places = np.flatnonzero(which == number)
        limits = tuple(POINT_ZERO if is_zero else NONNEGATIVE for is_zero in zero[one].tolist())
        stated = tuple(Limited.equal(row, int(value)) for row, value in zip(rows, values[one].tolist(), strict=True))
        yield Group(Constraints(law.top.schema, stated, limits), places, values[places]), barred[one]


def _patterns(zero: Flags, barred: Flags) -> tuple[Ints, Ints]:
    """Return a unit of each pattern of zeros, and which pattern every unit has."""
    keys = np.packbits(np.hstack([zero, barred]), axis=1)
    if bool((keys == keys[0]).all()):  # nothing is zero anywhere, as a rule
        return np.zeros(1, np.int64), np.zeros(len(keys), np.int64)
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _zeros(found: Review, n_cells: int) -> Flags:
    """Return which cells of each unit are known to be 0 (unit, cell)."""
    out = np.zeros((len(found.labels), n_cells), np.bool_)
    for one in found.kinds:
        out[one.places] = (one.found.is_known & (one.found.values == 0))[one.which]
    return out
