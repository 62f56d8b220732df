"""From what a user says to a system of integer rows without slack: redundant rows dropped, contradictions named."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from congenial.conditions.clash import Part, raise_clash
from congenial.conditions.groups import GroupedRow, group_cells
from congenial.conditions.integer_program import EmptyError, find_point, minimise, propagate
from congenial.conditions.lattice import Dependence, dependence
from congenial.conditions.queries import Bounds, Condition, Counts, Query, Share, bounds
from congenial.conditions.rows import Limited, Row
from congenial.errors import ConditionError, UndecidedError
from congenial.schema import Schema

NONNEGATIVE = "counts are not negative"
_MOST_IMPLIED_CHECKS = 200


@dataclass(frozen=True)
class Compiled:
    """Rows over several cells, limits of single cells, and notes about what was dropped."""

    rows: tuple[Limited, ...]
    lower: tuple[int | None, ...]
    upper: tuple[int | None, ...]
    notes: tuple[str, ...]


def compile_conditions(schema: Schema, conditions: Iterable[Condition], counts: Counts | None = None) -> Compiled:
    """Turn conditions into rows and limits.

    Parameters
    ----------
    counts : sequence of int, optional
        The confidential cells, from which invariants without a stated value take theirs. They must obey every stated
        condition; a message about one that they break does not say by how much.
    """
    parts = _parts(schema, conditions, counts)
    if counts is not None:
        _check_table(parts, counts)
    return compile_parts(schema.n_cells, parts, is_feasible=counts is not None)


def compile_parts(n_cells: int, parts: Sequence[Part], *, is_feasible: bool = False) -> Compiled:
    """Turn statements into rows and limits; that some table obeys them is checked unless it is known."""
    lower, upper = _cell_limits(n_cells, parts)
    several = [one for part in parts for one in part.limits if len(one.row.cells) > 1]
    rows, notes = _without_consequences([_reduced(one, parts) for one in several], lower, upper, parts)
    if not is_feasible:
        _check_feasible(rows, lower, upper, parts)
    rows, more = _without_idle_ranges(rows, lower, upper)
    return Compiled(tuple(rows), tuple(lower), tuple(upper), (*notes, *more))


def _parts(schema: Schema, conditions: Iterable[Condition], counts: Counts | None) -> list[Part]:
    """Split the conditions into the smallest statements that make sense alone."""
    parts: list[Part] = []
    shares: list[Share] = []
    bounded: set[int] = set()
    for condition in conditions:
        if isinstance(condition, Bounds):
            cells = [int(cell) for cell in schema.cells(condition.where)]
            bounded |= set(cells)
            parts.append(_bounds_part(schema, cells, condition))
        elif isinstance(condition, Query | Share):
            if isinstance(condition, Query) and (condition.precision is not None or condition.portion is not None):
                what = "precision" if condition.portion is None else "portion"
                raise ConditionError(
                    f"{condition.text} has a {what}, so it is measured, not exact;"
                    f" move it to measure=[...] or drop the {what}"
                )
            if isinstance(condition, Share):
                shares.append(condition)
            else:
                parts += [Part(one.text, (one,)) for one in condition.limits(schema, counts)]
        else:
            raise ConditionError(
                "a condition is made by total, margin, linear, share, bounds, structural_zeros or cells,"
                f" not a {type(condition).__name__}"
            )
    for share in shares:
        parts += [Part(one.text, (one,)) for one in _share_limits(schema, share, counts, parts)]
    rest = [cell for cell in range(schema.n_cells) if cell not in bounded]
    return [*parts, _bounds_part(schema, rest, bounds(), NONNEGATIVE)] if rest else parts


def _share_limits(schema: Schema, share: Share, counts: Counts | None, parts: Sequence[Part]) -> list[Limited]:
    """Say a share as a plain count if the other equalities fix its whole, else as a balance of two counts."""
    value = share.value(schema, counts)
    equalities = [one for part in parts for one in part.limits if one.is_equality]
    whole = implied_value(equalities, share.whole(schema))
    if value is not None and whole is not None:
        count = value * whole
        if count.denominator == 1 and count > 0:
            return [Limited(share.part(schema), int(count), int(count))]
    return share.limits(schema, value)


def _bounds_part(schema: Schema, cells: Sequence[int], limits: Bounds, text: str | None = None) -> Part:
    rows = (Limited(Row.of(schema.cell_name(cell), [cell]), limits.lower, limits.upper) for cell in cells)
    return Part(text or limits.text, tuple(rows))


def _check_table(parts: Sequence[Part], counts: Counts) -> None:
    for part in parts:
        for one in part.limits:
            if not one.allows(one.row.value(counts)):
                raise ConditionError(
                    f"the confidential table breaks the condition «{part.text}» (at {one.row.name});"
                    " correct the condition or the table: a release could not obey it either"
                )


def _cell_limits(n_cells: int, parts: Sequence[Part]) -> tuple[list[int | None], list[int | None]]:
    """Intersect all statements about single cells."""
    lower: list[int | None] = [None] * n_cells
    upper: list[int | None] = [None] * n_cells
    for one in (one for part in parts for one in part.limits if len(one.row.cells) == 1):
        cell, weight = one.row.cells[0], one.row.coefficients[0]
        low, high = (one.lower, one.upper) if weight > 0 else (_negative(one.upper), _negative(one.lower))
        size = abs(weight)
        if low is not None:
            least = -(-low // size)
            lower[cell] = least if lower[cell] is None else max(lower[cell], least)  # type: ignore[type-var]
        if high is not None:
            most = high // size
            upper[cell] = most if upper[cell] is None else min(upper[cell], most)  # type: ignore[type-var]
        if lower[cell] is not None and upper[cell] is not None and lower[cell] > upper[cell]:  # type: ignore[operator]
            raise_clash([part for part in parts if any(cell in other.row.cells for other in part.limits)], n_cells)
    return lower, upper


def _negative(limit: int | None) -> int | None:
    return None if limit is None else -limit


def _reduced(one: Limited, parts: Sequence[Part]) -> Limited:
    """Divide a row by the greatest common divisor of its weights; its limits round inward."""
    divisor = gcd(*one.row.coefficients)
    if divisor == 1:
        return one
    lower = None if one.lower is None else -(-one.lower // divisor)
    upper = None if one.upper is None else one.upper // divisor
    if lower is not None and upper is not None and lower > upper:
        raise_clash([part for part in parts if one in part.limits], max(one.row.cells) + 1)
    name = f"1/{divisor} of [{one.row.name}]"
    return Limited(Row(name, one.row.cells, tuple(w // divisor for w in one.row.coefficients)), lower, upper)


def fixed_cells(lower: Sequence[int | None], upper: Sequence[int | None]) -> list[Limited]:
    """Return the cells with a stated single value as equalities."""
    pairs = enumerate(zip(lower, upper, strict=True))
    return [Limited(Row.of("", [cell]), low, low) for cell, (low, high) in pairs if low is not None and low == high]


def implied_value(equalities: Sequence[Limited], row: Row) -> Fraction | None:
    """Return the value that equalities leave a row; None when they leave it several."""
    combination = equality_dependence([*equalities, Limited(row, None, None)]).follows.get(len(equalities))
    if combination is None:
        return None
    return sum((weight * (equalities[cause].lower or 0) for cause, weight in combination.items()), Fraction(0))


def equality_dependence(equalities: Sequence[Limited]) -> Dependence:
    """Say which equalities follow from which earlier ones."""
    return dependence([dict(zip(one.row.cells, one.row.coefficients, strict=True)) for one in equalities])


def _without_consequences(
    rows: Sequence[Limited], lower: Sequence[int | None], upper: Sequence[int | None], parts: Sequence[Part]
) -> tuple[list[Limited], list[str]]:
    """Drop equalities that follow from fixed cells and earlier ones; a consequence with another value is a clash."""
    equalities = [*fixed_cells(lower, upper), *(one for one in rows if one.is_equality)]
    fixed = len(equalities) - sum(one.is_equality for one in rows)
    dropped: set[int] = set()  # places: two conditions may be the same object, and one of them stays
    notes: list[str] = []
    for position, combination in equality_dependence(equalities).follows.items():
        one, causes = equalities[position], [equalities[cause] for cause in combination]
        implied = sum(weight * (cause.lower or 0) for weight, cause in zip(combination.values(), causes, strict=True))
        if implied != one.lower:
            involved = {limited.row.cells for limited in (one, *causes)}
            raise_clash(
                [part for part in parts if any(other.row.cells in involved for other in part.limits)],
                len(lower),
            )
        dropped.add(position - fixed)
        notes.append(f"«{one.text}» follows from {_listed(causes)} and was dropped")
    kept, place = [], 0
    for one in rows:
        if not one.is_equality or place not in dropped:
            kept.append(one)
        place += one.is_equality
    return kept, notes


def _listed(causes: Sequence[Limited]) -> str:
    named = [f"«{cause.text}»" for cause in causes if cause.row.name]
    cells = len(causes) - len(named)
    shown = [
        *named[:4],
        *([f"{len(named) - 4} more"] if len(named) > 4 else []),
        *([f"{cells} fixed cells"] if cells else []),
    ]
    return ", ".join(shown)


def _check_feasible(
    rows: Sequence[Limited], lower: Sequence[int | None], upper: Sequence[int | None], parts: Sequence[Part]
) -> None:
    """Raise a clash if no integer table obeys the system."""
    grouped = group_cells(rows, lower, upper)
    try:
        found = find_point(grouped.rows, grouped.box)
    except EmptyError:
        raise_clash(parts, len(lower))
    if found is None:
        raise UndecidedError(
            "whether any table of whole numbers obeys the conditions could not be decided within the search limit;"
            " state fewer or simpler conditions, give cells bounds(lower, upper), or disclose the values from a table"
        )


def _without_idle_ranges(
    rows: Sequence[Limited], lower: Sequence[int | None], upper: Sequence[int | None]
) -> tuple[list[Limited], list[str]]:
    """Drop inequality limits that all the other conditions imply: an exact proof is needed, doubt keeps the row."""
    kept = list(rows)
    notes: list[str] = []
    ranges = [one for one in rows if not one.is_equality]
    for one in ranges[:_MOST_IMPLIED_CHECKS]:
        others = [other for other in kept if other is not one]
        grouped = group_cells([*others, one], lower, upper)
        target, system = grouped.rows[-1], grouped.rows[:-1]
        if _implied(target, system, propagate(system, grouped.box)):
            kept = others
            notes.append(f"«{one.text}» follows from the other conditions and was dropped")
    return kept, notes


def _implied(target: GroupedRow, system: Sequence[GroupedRow], box: tuple[list[int | None], list[int | None]]) -> bool:
    for sign, limit in ((1, target.lower), (-1, _negative(target.upper))):
        if limit is None:
            continue
        least = minimise(system, box, {g: sign * weight for g, weight in target.weights.items()}).bound
        if least is None or least < limit:
            return False
    return True
