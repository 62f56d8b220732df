"""From conditions to a system of integer rows without slack: redundant rows dropped, contradictions named."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import gcd

from congenial.conditions.base import Claim, Condition, Counts
from congenial.conditions.grouped_cells_and_lattice import Box, Equalities, cells_fixed, group_cells
from congenial.conditions.integer_program import EmptyError, find_point, minimise, propagate, raise_clash
from congenial.conditions.limits_and_shares import cells_claim
from congenial.conditions.registry import KINDS
from congenial.conditions.rows_and_intervals import FREE, NONNEGATIVE, Interval, Limited, Row
from congenial.errors import BrokenError, ConditionError, UndecidedError
from congenial.schema import Schema

NOT_NEGATIVE = "counts are not negative"
_MOST_IMPLIED_CHECKS = 200


@dataclass(frozen=True)
class CompiledConditions:
    """Rows over several cells, limits of single cells, what is exact besides, and notes about what was dropped."""

    rows: tuple[Limited, ...]
    limits: tuple[Interval, ...]
    notes: tuple[str, ...]
    also_exact: tuple[Limited, ...] = ()


def compile_conditions(
    schema: Schema, conditions: Iterable[Condition], counts: Counts | None = None
) -> CompiledConditions:
    """Turn conditions into rows and limits.

    Parameters
    ----------
    counts : sequence of int, optional
        The confidential cells, from which invariants without a stated value take theirs. They must obey every stated
        condition; an error about a broken one tells neither where nor by how much.
    """
    checked = [_known_kind(condition) for condition in conditions]
    first, claims = _claims(schema, checked, counts)
    too = _exact_too(schema, checked, first, claims)
    claims += _nonnegative(schema, checked)
    if counts is not None:
        _check_table(claims, counts)
    compiled = compile_claims(schema.n_cells, claims, is_feasible=counts is not None)
    notes = [
        f"«{limited.text}» is exact too: it follows from «{stated}» and the other exact values"
        for stated, limited in too
    ]
    return replace(compiled, notes=(*compiled.notes, *notes), also_exact=tuple(limited for _, limited in too))


def claims_of(schema: Schema, conditions: Sequence[Condition], counts: Counts) -> list[Claim]:
    """Return every statement about a table, those included that no condition makes: counts are not negative."""
    return [*_claims(schema, conditions, counts)[1], *_nonnegative(schema, conditions)]


def check_conditions(schema: Schema, conditions: Iterable[Condition]) -> None:
    """Refuse conditions before any table is seen: labels and shapes that do not fit, stated values that clash."""
    checked = [_known_kind(condition) for condition in conditions]
    for condition in checked:
        condition.check(schema)
    stated = [condition for condition in checked if condition.is_stated]
    if stated:
        # What cannot be decided here is decided by the table, which must obey its own conditions.
        with suppress(UndecidedError):
            compile_conditions(schema, stated)


def compile_claims(n_cells: int, claims: Sequence[Claim], *, is_feasible: bool = False) -> CompiledConditions:
    """Turn statements into rows and limits; that some table obeys them is checked unless it is known."""
    limits = _cell_limits(n_cells, claims)
    several = [limited for claim in claims for limited in claim.limits if len(limited.row.cells) > 1]
    rows, notes = _without_consequences([_reduced(limited, claims) for limited in several], limits, claims)
    if not is_feasible:
        _check_feasible(rows, limits, claims)
    rows, more = _without_idle_ranges(rows, limits)
    return CompiledConditions(tuple(rows), tuple(limits), (*notes, *more))


def _known_kind(condition: Condition) -> Condition:
    if not isinstance(condition, Condition):
        *most, last = KINDS
        raise ConditionError(f"a condition is made by {', '.join(most)} or {last}, not a {type(condition).__name__}")
    return condition


def _claims(schema: Schema, conditions: Sequence[Condition], counts: Counts | None) -> tuple[list[Claim], list[Claim]]:
    """Split conditions into the smallest statements that make sense alone: those that need no others, and all."""
    claims: list[Claim] = []
    n_first = 0
    for condition in sorted(conditions, key=lambda condition: condition.needs_others):
        known = _equalities(claims) if condition.needs_others else Equalities()
        its_claims = condition.claims(schema, counts, known)
        claims += [replace(claim, of=claim.text if len(its_claims) == 1 else condition.title) for claim in its_claims]
        n_first = n_first if condition.needs_others else len(claims)
    return claims[:n_first], claims


def _nonnegative(schema: Schema, conditions: Sequence[Condition]) -> list[Claim]:
    """Return the statement about cells that no condition bounds."""
    bounded: set[int] = set()
    for condition in conditions:
        bounded |= set(condition.bounded_cells(schema))
    rest = [cell for cell in range(schema.n_cells) if cell not in bounded]
    return [replace(cells_claim(schema, rest, NOT_NEGATIVE, NONNEGATIVE), of=NOT_NEGATIVE)] if rest else []


def _equalities(claims: Sequence[Claim]) -> Equalities:
    return Equalities(tuple(limited for claim in claims for limited in claim.limits if limited.is_equality))


def _exact_too(
    schema: Schema, conditions: Sequence[Condition], first: Sequence[Claim], claims: Sequence[Claim]
) -> list[tuple[str, Limited]]:
    """Return statistics that a condition mentions, that nothing states, and that all equalities together fix."""
    stated = {(limited.row.cells, limited.row.coefficients) for limited in _equalities(first).limits}
    mentioned = {
        (row.cells, row.coefficients): (condition.text, row)
        for condition in conditions
        for row in condition.mentioned(schema)
        if (row.cells, row.coefficients) not in stated
    }
    values = _equalities(claims).implied_each([row for _, row in mentioned.values()])
    pairs = zip(mentioned.values(), values, strict=True)
    # A fraction is a clash, which is found and named later.
    return [
        (text, Limited.equal(row, int(value)))
        for (text, row), value in pairs
        if value is not None and value.denominator == 1
    ]


def _check_table(claims: Sequence[Claim], counts: Counts) -> None:
    """Refuse a table that breaks a condition; the error names the condition, not where: that would be a free answer."""
    for claim in claims:
        if not all(limited.holds(counts) for limited in claim.limits):
            raise BrokenError(claim.of)


def _cell_limits(n_cells: int, claims: Sequence[Claim]) -> list[Interval]:
    """Intersect all statements about single cells."""
    limits = [FREE] * n_cells
    for limited in (limited for claim in claims for limited in claim.limits if len(limited.row.cells) == 1):
        cell, times = limited.row.cells[0], limited.row.coefficients[0]
        limits[cell] &= limited.limits if times == 1 else limited.limits.divided(times)
        if limits[cell].is_empty:
            raise_clash([claim for claim in claims if any(cell in other.row.cells for other in claim.limits)], n_cells)
    return limits


def _reduced(limited: Limited, claims: Sequence[Claim]) -> Limited:
    """Divide a row by the greatest common divisor of its coefficients; its limits round inward."""
    divisor = gcd(*limited.row.coefficients)
    if divisor == 1:
        return limited
    limits = limited.limits.divided(divisor)
    if limits.is_empty:
        raise_clash([claim for claim in claims if limited in claim.limits], max(limited.row.cells) + 1)
    name = f"1/{divisor} of [{limited.row.name}]"
    return Limited(Row(name, limited.row.cells, tuple(times // divisor for times in limited.row.coefficients)), limits)


def _without_consequences(
    rows: Sequence[Limited], limits: Sequence[Interval], claims: Sequence[Claim]
) -> tuple[list[Limited], list[str]]:
    """Drop equalities that follow from fixed cells and earlier ones; a consequence with another value is a clash."""
    equalities = [*cells_fixed(limits), *(limited for limited in rows if limited.is_equality)]
    fixed = len(equalities) - sum(limited.is_equality for limited in rows)
    dropped: set[int] = set()  # places: two conditions may be the same object, and one of them stays
    notes: list[str] = []
    known = Equalities(tuple(equalities))
    for position, combination in known.dependence.follows.items():
        limited, causes = equalities[position], [equalities[cause] for cause in combination]
        if known.combined(combination) != limited.lower:
            involved = {part.row.cells for part in (limited, *causes)}
            raise_clash(
                [claim for claim in claims if any(other.row.cells in involved for other in claim.limits)],
                len(limits),
            )
        dropped.add(position - fixed)
        notes.append(f"«{limited.text}» follows from {_listed(causes)} and was dropped")
    remaining, place = [], 0
    for limited in rows:
        if not limited.is_equality or place not in dropped:
            remaining.append(limited)
        place += limited.is_equality
    return remaining, notes


def _listed(causes: Sequence[Limited]) -> str:
    named = [f"«{cause.text}»" for cause in causes if cause.row.name]
    cells = len(causes) - len(named)
    shown = [
        *named[:4],
        *([f"{len(named) - 4} more"] if len(named) > 4 else []),
        *([f"{cells} fixed cells"] if cells else []),
    ]
    return ", ".join(shown)


def _check_feasible(rows: Sequence[Limited], limits: Sequence[Interval], claims: Sequence[Claim]) -> None:
    """Raise a clash if no integer table obeys the system."""
    grouped = group_cells(rows, limits)
    try:
        point = find_point(grouped.rows, grouped.box)
    except EmptyError:
        raise_clash(claims, len(limits))
    if point is None:
        raise UndecidedError(
            "whether any table of whole numbers obeys the conditions could not be decided within the search limit;"
            " state fewer or simpler conditions, give cells bounds(lower, upper), or disclose the values from a table"
        )


def _without_idle_ranges(rows: Sequence[Limited], limits: Sequence[Interval]) -> tuple[list[Limited], list[str]]:
    """Drop inequality limits that all the other conditions imply: an exact proof is needed, doubt keeps the row."""
    remaining = list(rows)
    notes: list[str] = []
    ranges = [limited for limited in rows if not limited.is_equality]
    for limited in ranges[:_MOST_IMPLIED_CHECKS]:
        others = [other for other in remaining if other is not limited]
        grouped = group_cells([*others, limited], limits)
        target, system = grouped.rows[-1], grouped.rows[:-1]
        if _implied(target, system, propagate(system, grouped.box)):
            remaining = others
            notes.append(f"«{limited.text}» follows from the other conditions and was dropped")
    return remaining, notes


def _implied(target: Limited, system: Sequence[Limited], box: Box) -> bool:
    for sign, limit in ((1, target.limits.low), (-1, target.limits.negated.low)):
        if limit is None:
            continue
        least = minimise(system, box, {g: sign * times for g, times in target.terms.items()}).bound
        if least is None or least < limit:
            return False
    return True
