"""What is exact in a tree: what a user states for each level, what follows for the levels above, and the values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from congenial.arrays import Ints
from congenial.conditions.areas import Areas
from congenial.conditions.condition import Condition
from congenial.conditions.kinds.query import Query
from congenial.conditions.rows import Row
from congenial.errors import HierarchyError
from congenial.hierarchy.exact_rows import ExactRows, ExactSums, summed_upward
from congenial.schema import Schema


@dataclass(frozen=True, eq=False)
class Disclosed:
    """The exact numbers of a tree. Public.

    Attributes
    ----------
    top : Areas
        What the units at the top obey.
    below : tuple of ExactSums or None
        What is exact in the units of each level below; empty where nothing is anywhere.
    """

    top: Areas
    below: tuple[ExactSums | None, ...] = ()


def exact_rows(
    levels: Sequence[str], schema: Schema, stated: Mapping[str, Sequence[Condition]]
) -> tuple[ExactRows | None, ...]:
    """Return what is exact in each level below the top, with what follows from levels farther down.

    Parameters
    ----------
    levels : sequence of str
        Those below the top, from above.
    stated : mapping from level to conditions
    """
    own = {
        level: [row for one in conditions for row in _sums(one, level, schema)] for level, conditions in stated.items()
    }
    if not any(own.values()):
        return ()
    held = summed_upward(levels, own)
    return tuple(ExactRows(level, held[level], schema.n_cells) if held[level] else None for level in levels)


def with_those_below(
    top: Sequence[Condition], schema: Schema, stated: Mapping[str, Sequence[Condition]]
) -> tuple[Condition, ...]:
    """Return the conditions of the top with those that follow from the levels below: their sums are exact, too."""
    out = list(top)
    seen = {
        (row.cells, row.coefficients)
        for one in out
        if isinstance(one, Query) and not one.is_stated
        for row in one.rows(schema)
    }
    for level, conditions in stated.items():
        for one in conditions:
            rows = {(row.cells, row.coefficients) for row in _sums(one, level, schema)}
            if not rows <= seen:
                out.append(one)
            seen |= rows
    return tuple(out)


def exact_sums(rows: Sequence[ExactRows | None], tables: Sequence[Ints]) -> tuple[ExactSums | None, ...]:
    """Return the values of exact rows in the tables (unit, cell) of each level below the top."""
    return tuple(None if own is None else ExactSums.of(own, table) for own, table in zip(rows, tables, strict=False))


def _sums(condition: Condition, level: str, schema: Schema) -> list[Row]:
    """Return the sums that a condition holds exactly in every unit of a level, or refuse it."""
    if not isinstance(condition, Query):
        raise HierarchyError(
            f"{condition.text} cannot be asked of every {level}: below the top of a tree exact numbers are sums of"
            " cells, such as total() or margin()"
        )
    if condition.is_stated:
        raise HierarchyError(
            f"{condition.text} states its value, and below the top exact numbers come from the data; leave the value"
            " out"
        )
    condition.check(schema)
    rows = condition.rows(schema)
    if any(set(row.coefficients) != {1} for row in rows):
        raise HierarchyError(
            f"{condition.text} has coefficients other than 1, and cannot be exact in every {level}: a step with it is"
            " not unimodular; only sums of cells can be exact below the top"
        )
    return rows
