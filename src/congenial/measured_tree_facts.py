"""What the certificate of a measured tree depends on, read off its law: rows, exact numbers, zeros, fewest records."""

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import NONNEGATIVE, Row
from congenial.errors import PrivacyError
from congenial.law import PublicLaw
from congenial.privacy.measured_tree import MeasuredLevel, MeasuredTree
from congenial.privacy.record_changes_in_trees import PublicTree


def tree_to_certify(law: PublicLaw, neighbours: str) -> tuple[MeasuredTree, int]:
    """Return what a certificate of a measured tree depends on, and in how many records two trees differ at least."""
    tree = law.tree
    first = _exact_at_top(law)
    rows, exact = [first[0]], [first]
    for level, sums in enumerate(law.exact_below or [None] * (len(tree.levels) - 1), 1):
        rows.append(() if sums is None else sums.rows.rows)
        exact.append((rows[-1], np.zeros((tree.n_units[level], 0), np.int64) if sums is None else sums.values))
    zeros = tuple(law.zeros.masks)
    public = PublicTree(law.schema.n_cells, tree.n_units[0], tree.parents, zeros, tuple(exact))
    empty = frozenset(np.flatnonzero(zeros[0].all(axis=0)).tolist()) if zeros else frozenset()
    levels = tuple(
        MeasuredLevel(name, tuple((query.precision, query.rows) for query in queries), exact_there)
        for name, queries, exact_there in zip(tree.levels, (law.queries, *law.queries_below), rows, strict=True)
    )
    across, crossings = None, None
    if law.across is not None:
        queries = tuple((query.precision, query.rows) for query in law.queries_across)
        across, crossings = MeasuredLevel(law.across.name, queries), law.across.crossings(tree)
    facts = (law.schema.n_cells, law.noise, neighbours, public.partings, empty, across, crossings)
    measured = MeasuredTree(levels, *facts)
    return measured, public.fewest_records(neighbours)


def _exact_at_top(law: PublicLaw) -> tuple[tuple[Row, ...], Ints]:
    """Return the exact numbers of the units of the first level, with cells that have one value: (row,), (unit, row)."""
    mask, patterns = law.zeros.of_level(0), [group.pattern for group in law.areas.groups]
    fixed = [cell for cell in range(law.schema.n_cells) if all(pattern.is_fixed(cell) for pattern in patterns)]
    for group in law.areas.groups:
        for cell, limit in enumerate(group.pattern.limits):
            is_zero = mask is not None and bool(mask[group.places, cell].all())
            if group.pattern.ranges or not (limit == NONNEGATIVE or cell in fixed or is_zero):
                raise PrivacyError(
                    "no certificate: at the top of a measured tree there are exact numbers and structural zeros, and no"
                    " ranges, bounds or shares, which nobody has shown to leave room for the change of one record."
                    " Leave them out, or write method: conditional"
                )
    rows, of_rows = law.areas.exact_rows
    values = np.hstack([of_rows, np.zeros((len(law.areas), len(fixed)), np.int64)])
    for group in law.areas.groups:
        values[group.places, len(rows) :] = [group.pattern.lower[cell] or 0 for cell in fixed]
    return (*rows, *(Row.of(law.schema.cell_name(cell), [cell]) for cell in fixed)), values
