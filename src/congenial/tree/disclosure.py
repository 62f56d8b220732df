"""What the exact numbers of a release disclose, level by level.

A level's disclosure follows from its own exact numbers, and from the cells that are 0 above it: where a county has
nobody, none of its blocks has. What siblings disclose of each other beyond that is not computed.
"""

from collections.abc import Sequence

import numpy as np

from congenial.arrow_and_unit_codes import CodeTexts
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.queries import margin
from congenial.privacy.disclosure import Disclosure, disclosure_of, disclosure_of_groups, with_differences
from congenial.tree.drawing import Subtree
from congenial.tree.exact_sums import Flags, unit_groups


def disclosures_of_levels(areas: Areas, below: Subtree, conditions: Sequence[Condition]) -> tuple[Disclosure, ...]:
    """Return the disclosure of every level, the first being that of the areas, or of one table.

    Parameters
    ----------
    below : Subtree
        The levels below the areas.
    conditions : sequence of Condition
        What the areas obey, as it was stated.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants={"block": [cg.total()]}, rho="1")
    >>> law = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4], [0, 0], [0, 1]]))).law
    >>> for level in disclosures_of_levels(law.areas, law.below, hierarchy.invariants):
    ...     print(level.summary.area, level.summary.n_exact, [(each.n_zero, each.n_one) for each in level.summary.sums])
    county 0 [(0, 1)]
    block 2 [(1, 1)]
    """
    disclosures = [disclosure_of(areas, conditions)]
    tree, schema = below.tree, areas.groups[0].pattern.schema
    margins = [row for name in schema.names for row in margin(name).rows(schema)]
    masks = below.zeros.masks or [np.zeros((n_units, schema.n_cells), np.bool_) for n_units in tree.n_units]
    for level, parents in enumerate(tree.parents, 1):
        is_zero_above = _known_zeros(disclosures[-1], schema.n_cells) | masks[level - 1]
        exact = below.exact[level - 1] if below.exact else None
        is_zero = is_zero_above[parents] | masks[level]
        units = unit_groups(schema, exact, len(is_zero), is_zero, apart_by=masks[level])
        groups = [(group, masks[level][group.places[0]]) for group in units]
        rows = with_differences(schema, () if exact is None else exact.rows.rows, margins)
        disclosures.append(disclosure_of_groups(tree.levels[level], CodeTexts(tree.codes[level]), groups, rows))
    return tuple(disclosures)


def _known_zeros(disclosure: Disclosure, n_cells: int) -> Flags:
    """Return which cells of each unit are known to be 0 (unit, cell)."""
    out = np.zeros((len(disclosure.labels), n_cells), np.bool_)
    for kind in disclosure.kinds:
        out[kind.places] = (kind.determined.is_known & (kind.determined.values == 0))[kind.kind_of_area]
    return out
