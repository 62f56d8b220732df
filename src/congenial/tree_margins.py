"""Which margins the levels of a measured tree measure, and what the rule *margins* decides from. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import ConditionError
from congenial.law import PublicLaw
from congenial.rules.margin_trees import TreeMargins, component
from congenial.rules.workload.margins import Axes, is_inside, subsets

CellSums = tuple[tuple[int, ...], ...]


def measures_cells(law: PublicLaw) -> bool:
    """Whether every level of a measured tree measures every cell by itself."""
    return all(len(_single_cells(level)) == law.schema.n_cells for level in law.each_level)


def _single_cells(level: PublicLaw) -> set[int]:
    return {query.row.cells[0] for query in level.measured if query.row.coefficients == (1,)}


@dataclass(frozen=True, eq=False)
class WholeMargin:
    """A measured margin.

    Attributes
    ----------
    axes : tuple of int
        The places of its dimensions in the schema, ascending.
    order : array (cell of the margin,)
        Which measured row each of its cells is, the last dimension fastest.
    """

    axes: Axes
    order: Ints


@lru_cache(maxsize=256)
def whole_margin(rows: tuple[Row, ...], sizes: tuple[int, ...]) -> WholeMargin | None:
    """Return the margin whose cells rows are, in any order; None if they are none.

    Examples
    --------
    >>> margin = whole_margin((Row.of("m", [2, 3]), Row.of("f", [0, 1])), (2, 2))
    >>> margin.axes, margin.order.tolist(), whole_margin((Row.of("f", [0, 1]),), (2, 2))
    ((0,), [1, 0], None)
    """
    numbers = np.full(prod(sizes), -1, np.int64)
    for number, row in enumerate(rows):
        if set(row.coefficients) != {1} or (numbers[list(row.cells)] >= 0).any():
            return None
        numbers[list(row.cells)] = number
    table = numbers.reshape(sizes)
    axes = tuple(axis for axis in range(len(sizes)) if (np.diff(table, axis=axis) != 0).any())
    of_margin = table[tuple(slice(None) if axis in axes else slice(1) for axis in range(len(sizes)))]
    order = of_margin.reshape(-1)
    is_whole = np.array_equal(np.sort(order), np.arange(len(rows)))
    return WholeMargin(axes, order) if is_whole and np.array_equal(table, np.broadcast_to(of_margin, sizes)) else None


def measured_margins(law: PublicLaw) -> tuple[WholeMargin, ...]:
    """Return the margins that the levels of a tree measure, by query; refuses what is no whole margin."""
    out = []
    for query in law.queries:
        margin = whole_margin(query.rows, law.schema.shape)
        if margin is None:
            raise ConditionError(
                f"a tree without measured cells measures whole margins, and {query.text} is none: measure the margin of"
                " the dimensions it is over, or cells beside it"
            )
        out.append(margin)
    return tuple(out)


def unmeasured_margins(law: PublicLaw) -> tuple[tuple[str, ...], ...]:
    """Return the smallest combinations of dimensions that are in no measured margin: of them tables have a model.

    Examples
    --------
    >>> from congenial.conditions.queries import margin
    >>> from congenial.request_to_plan import TreeRequest
    >>> from congenial.schema import Schema
    >>> from congenial.tree.tree_and_zeros import Tree
    >>> schema = Schema({"sex": ["f", "m"], "age": ["0-17", "18+"], "tenure": ["own", "rent"]})
    >>> tree = Tree.of_prefixes(["1a", "1b"], {"county": 1}, "block")
    >>> request = TreeRequest(tree, schema, measure=[margin("sex", "age"), margin("tenure")], rho="1")
    >>> unmeasured_margins(request.plan(request.disclose(np.ones((2, 8), int))).law)
    (('sex', 'tenure'), ('age', 'tenure'))
    """
    names, measured = law.schema.names, [margin.axes for margin in measured_margins(law)]
    outside = [axes for axes in subsets(tuple(range(len(names)))) if not is_inside(axes, measured)]
    least = [axes for axes in outside if not any(set(other) < set(axes) for other in outside)]
    return tuple(tuple(names[axis] for axis in axes) for axes in least)


def margins_text(law: PublicLaw) -> str:
    """Return in words what a tree without measured cells measures, and what of its tables is a model."""
    listed = ", ".join(query.text for query in law.queries)
    outside = "; or of ".join(" by ".join(names) for names in unmeasured_margins(law))
    measured = f"Of each unit margins are measured, and its cells are not: {listed}."
    if not outside:
        return measured
    return (
        f"{measured} Combinations of {outside} are in no measured margin: in the tables they are a model, and they have"
        " no interval."
    )


def why_no_margins(law: PublicLaw, exact: Sequence[CellSums]) -> str | None:
    """Return why the rule *margins* does not apply to what a tree measures and has exact; None if it does."""
    if law.across is not None:
        return (
            f"each {law.across.name} crosses the tree, and is estimated from measured cells: measure cells, or leave"
            " out `across`"
        )
    try:
        measured_margins(law)
        _components_of_levels(law.schema.shape, exact)
    except ConditionError as refused:
        return str(refused)
    return None


def _components_of_levels(sizes: tuple[int, ...], exact: Sequence[CellSums]) -> list[dict[Axes, Floats]]:
    return [exact_components(sizes, rows) for rows in exact]


@lru_cache(maxsize=256)
def exact_components(sizes: tuple[int, ...], rows: CellSums) -> dict[Axes, Floats]:
    """Return the components that exact sums determine: each times the number of its cells, from the values of the rows.

    Refuses sums that are no whole margins: they would tie components together.

    Returns
    -------
    dict from axes to array (cell of the component, row)

    Examples
    --------
    >>> exact_components((2,), ((0, 1),))
    {(): array([[1.]])}
    >>> exact_components((2,), ((0,),))
    Traceback (most recent call last):
    congenial.errors.ConditionError: exact sums of a tree that measures margins are whole margins: ...
    """
    if not rows:
        return {}
    n_cells, every = prod(sizes), tuple(range(len(sizes)))
    sums = dense([Row.of("", cells) for cells in rows], n_cells)
    cells = np.eye(n_cells, dtype=np.int64)
    of_cells = {part: component(cells, every, part, sizes).T for part in subsets(every)}
    touched = {part: line for part, line in of_cells.items() if (line @ sums.T).any()}
    n_directions = sum(prod(sizes[axis] - 1 for axis in part) for part in touched)
    if np.linalg.matrix_rank(sums.astype(np.float64)) != n_directions:
        raise ConditionError(
            "exact sums of a tree that measures margins are whole margins: of every label of the dimensions they are"
            " over, or with the total that makes them so, at the same level; these are not. State the others as well,"
            " leave them out, or measure every cell"
        )
    inverse = np.linalg.pinv(sums.astype(np.float64))
    return {part: line @ inverse for part, line in touched.items()}


def tree_margins(
    law: PublicLaw,
    measurements: Sequence[Ints],
    variances: Sequence[tuple[float, ...]],
    exact_rows: Sequence[CellSums],
    exact_values: Sequence[Ints],
    seed: bytes,
) -> TreeMargins:
    """Return what the rule *margins* decides from: the measured margins of every level, nothing confidential.

    Parameters
    ----------
    measurements : sequence of arrays (unit, row)
        Of each level, as published.
    variances : sequence of tuples of float
        For each level that of each query's noise; infinite where it is not measured.
    exact_rows, exact_values
        Sums of cells that are exact at each level, and their values (unit, row).
    seed : bytes
    """
    sizes, margins = law.schema.shape, measured_margins(law)
    answers = list[tuple[Ints, ...]]()
    for queries, values in zip(law.queries_of_levels, measurements, strict=True):
        of_level, first = list[Ints](), 0
        for query, margin in zip(queries, margins, strict=True):
            end = first + (len(query.rows) if query.precision else 0)
            nothing = np.zeros((len(values), len(query.rows)), np.int64)
            of_level.append(values[:, first:end][:, margin.order] if query.precision else nothing)
            first = end
        answers.append(tuple(of_level))
    parts = [
        {part: np.rint(values @ lines.T).astype(np.int64) for part, lines in of_level.items()}
        for of_level, values in zip(_components_of_levels(sizes, exact_rows), exact_values, strict=True)
    ]
    return TreeMargins.of(
        [families.starts for families in law.tree.families],
        sizes,
        tuple(margin.axes for margin in margins),
        answers,
        variances,
        exact_rows=tuple(exact_rows),
        exact_values=tuple(exact_values),
        seed=seed,
        exact_parts=parts,
    )
