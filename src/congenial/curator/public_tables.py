"""Public tables to compute with before anything is spent: made up within the invariants, or given by the curator."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.baselines.baseline import Problem
from congenial.baselines.quadratic import least_squares
from congenial.baselines.topdown import rounded
from congenial.bundle.expected_error import typical_places
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.errors import BaselineError, ReadingError
from congenial.public_law import PublicLaw
from congenial.table import Table

UNIFORM = "people spread as evenly as the invariants allow"


def typical_tables(law: PublicLaw) -> dict[Area, Ints]:
    """Return an even table for one area, or for three of many: what the invariants say of their size decides which."""
    sizes = np.zeros(len(law.areas), np.int64)
    for group in law.areas.groups:
        sizes[group.places] = group.values.max(axis=1, initial=0)
    labels = [law.areas.labels[place] for place in typical_places(sizes)]
    return {area: even_table(law, law.areas[area]) for area in labels}


def _size(constraints: Constraints) -> int:
    return max((limited.lower or 0 for limited in constraints.equalities), default=0)


def even_table(law: PublicLaw, constraints: Constraints) -> Ints:
    """Return a public table within the invariants whose cells are as equal as they can be."""
    problem = Problem(constraints, law.measured)
    n = law.schema.n_cells
    level = _size(constraints) / n if constraints.equalities else 10.0
    quick = _even_groups(constraints, level)
    if quick is not None:
        return quick
    try:
        near = least_squares(problem.polytope, np.eye(n), np.ones(n), np.full(n, level))
        return rounded(problem, near)
    except BaselineError:  # a table that obeys the conditions will do
        return np.array(constraints.point, np.int64)


def _even_groups(constraints: Constraints, level: float) -> Ints | None:
    """Spread people evenly over cells that no condition tells apart, sums whole and near even; None if that fails.

    No solver is needed for this, and `congenial plan` need not wait half a second to load one.
    """
    grouped = constraints.grouped
    equal = [(dict(row.coefficients), row.lower or 0) for row in grouped.rows if row.is_equality]
    sizes = np.array([len(cells) for cells in grouped.members])
    solutions = integer_solutions(equal, len(sizes))
    if solutions is None:
        return None
    sums = np.array(solutions.point, np.float64)
    if solutions.basis:
        basis = np.array(solutions.basis, np.float64).T
        scaled = basis / np.sqrt(sizes)[:, None]  # even cells, not even sums
        steps = np.linalg.lstsq(scaled, (level * sizes - sums) / np.sqrt(sizes), rcond=None)[0]
        sums = sums + basis @ np.rint(steps)
    table = np.zeros(constraints.schema.n_cells, np.int64)
    for cells, total in zip(grouped.members, sums.astype(np.int64).tolist(), strict=True):
        whole, rest = divmod(total, len(cells))
        table[list(cells)] = [whole + (place < rest) for place in range(len(cells))]
    return table if constraints.holds(table) else None


def read_reference(law: PublicLaw, path: Path) -> Ints:
    """Read a public table: the dimensions' columns and one of counts. It stands for the first area."""
    names = law.schema.names
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            records = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ReadingError(f"the reference table {path} cannot be read as CSV") from None
    others = [name for name in (records[0] if records else {}) if name not in names]
    if not records or len(others) != 1 or any(name not in records[0] for name in names):
        raise ReadingError(f"the reference table needs the columns {', '.join(names)} and one of counts")
    try:
        counts = {tuple(record[name] for name in names): int(record[others[0]]) for record in records}
    except (TypeError, ValueError):
        raise ReadingError("the reference table has a count that is not a whole number") from None
    table: Sequence[int] = Table(law.schema, counts, fill=0).counts.tolist()
    if not law.areas[law.areas.labels[0]].holds(np.array(table)):
        raise ReadingError(
            "the reference table does not have the invariants' values of the data; give a table that does, or leave"
            " --reference out"
        )
    return np.array(table, np.int64)
