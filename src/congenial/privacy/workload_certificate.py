"""What several tables of the same records cost together, and their precisions: docs/claims/measured-tables.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, lcm

import numpy as np

from congenial.arrays import Ints
from congenial.errors import PrivacyError, did_you_mean
from congenial.exact import exact_fraction
from congenial.privacy.bounds_and_enumerated_losses import rounded_down
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD, Certificate, shown
from congenial.privacy.measured_tree import distance_budget
from congenial.privacy.workload import Axes, WorkloadChange, WorkloadFacts
from congenial.privacy.workload_changes import (
    KindOfChange,
    any_records,
    default_kind,
    fewest_records,
    kind_of_change,
)

_KINDS = {1: "measured_tables_double_geometric", 2: "measured_tables_gaussian"}
SHARES = ("tables", "cells")
"""Ways to share a budget: every table counts the same, or every cell does."""

_ROOT = 10**6  # portions by cells are decimals with six digits
_ROUNDS = 4


@dataclass(frozen=True)
class ChangePrice:
    """What changes of one kind cost at most. Public.

    Attributes
    ----------
    kind : str
        ``one record``, ``two that exchange`` or ``any k records``.
    k : int
        How many records apart the pairs are, under the neighbour relation.
    moves : tuple of int
        What the dearest change moves each table by: the sum of absolute differences, or of squares.
    amount : Fraction or None
        Epsilon, or rho under Gaussian noise; None where there is no such change.
    is_attained : bool
        Whether a change that keeps every exact number has these moves, structural zeros aside.
    text : str
        The change in words.
    unmoved : tuple of str
        The tables that no change of the kind moves, but which the exact numbers do not determine.
    """

    kind: str
    k: int
    moves: tuple[int, ...]
    amount: Fraction | None
    is_attained: bool
    text: str
    unmoved: tuple[str, ...]


def checked_names(workload: WorkloadFacts, names: Sequence[str] | None) -> list[str]:
    """Return the names of attributes, one each."""
    if names is not None and len(names) != len(workload.sizes):
        raise PrivacyError(f"{len(workload.sizes)} attributes have a name each, not {len(names)}")
    return list(names) if names is not None else [f"attribute {axis}" for axis in range(len(workload.sizes))]


def table_name(axes: Axes, names: Sequence[str]) -> str:
    """Return the name of a table, such as ``county x age``."""
    return " x ".join(names[axis] for axis in axes) or "the number of records"


def joined(parts: Sequence[str], word: str = "and") -> str:
    """Return a list in words."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def _costs(moves: Ints, precisions: Sequence[Fraction], power: int) -> tuple[int, Fraction]:
    """Return the row that costs most, and what it costs; the first of equal ones."""
    rough = moves @ np.array([float(p) for p in precisions])
    rows = np.flatnonzero(rough >= rough.max() * (1 - 1e-9)).tolist()  # far more than rounding: the largest is there
    unit = lcm(*(p.denominator for p in precisions))
    weights = [int(p * unit) for p in precisions]
    row = max(rows, key=lambda row: sum(w * n for w, n in zip(weights, moves[row].tolist(), strict=True)))
    cost = sum((p * n for p, n in zip(precisions, moves[row].tolist(), strict=True)), Fraction(0))
    return row, cost / power


def promised(workload: WorkloadFacts, name: str) -> KindOfChange:
    """Return all changes that a certificate of a named kind holds for: of two that exchange, those of one as well."""
    kind = kind_of_change(workload, name)
    if name != EXCHANGE or kind.is_empty:
        return kind
    one, n = kind_of_change(workload, ONE_RECORD), len(kind.moves)
    first, then = kind.recipe, one.recipe
    moves = np.vstack([kind.moves, one.moves])
    if first is None or then is None:
        return KindOfChange(name, 2, moves, first if first is not None and one.is_empty else None)
    return KindOfChange(name, 2, moves, lambda row: first(row) if row < n else then(row - n))


def records_apart(workload: WorkloadFacts, n_records: int) -> int:
    """Return how many records apart, under the neighbour relation, histograms are that differ by so many changes."""
    return n_records if workload.neighbours == "bounded" or workload.comes else 2 * n_records


# Prices and certificates.


def price(workload: WorkloadFacts, kind: str, names: Sequence[str] | None = None) -> ChangePrice:
    """Return what changes of a named kind cost at most: the maximum over changes of the sum over tables.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> weights = {(0, 1, 2): Fraction(1, 3), (0, 3): Fraction(1, 6), (2, 3): Fraction(1, 3)}
    >>> tables = tuple(WorkloadTable(axes, weight) for axes, weight in weights.items())
    >>> health = WorkloadFacts((39, 8, 2, 12), tables, "discrete_gaussian", exact=((0,), (3,)))
    >>> for kind in ("one record", "two that exchange", "any 2 records"):
    ...     cost = price(health, kind, ["county", "age", "sex", "diagnosis"])
    ...     print(cost.amount, cost.moves, cost.text)
    2/3 (2, 0, 2) one record that keeps its county and diagnosis
    5/3 (4, 4, 4) two records that exchange county or diagnosis
    8/3 (8, 0, 8) any 2 records
    """
    called, power = checked_names(workload, names), workload.exponent
    changes = promised(workload, kind)
    k = records_apart(workload, changes.n_records)
    largest = changes.largest
    unmoved = tuple(
        table_name(table.axes, called)
        for table, move, is_determined in zip(workload.tables, largest, workload.determined, strict=True)
        if not move and not is_determined
    )
    if changes.is_empty:
        return ChangePrice(kind, k, largest, None, True, change_text(workload, kind, None, called), unmoved)
    row, amount = _costs(changes.moves, workload.precisions, power)
    change, moves = changes.change(row), tuple(int(x) for x in changes.moves[row])
    if change is not None:
        _check(workload, change, moves, k)
    text = change_text(workload, kind, change, called)
    return ChangePrice(kind, k, moves, amount, change is not None, text, unmoved)


def prices(workload: WorkloadFacts, names: Sequence[str] | None = None) -> tuple[ChangePrice, ChangePrice, ChangePrice]:
    """Return what one record costs, two that exchange, and any k records: the fewest by which every table moves, or 2.

    In the order in which they are printed.
    """
    least = 1 if workload.comes else 2
    kinds = (ONE_RECORD, EXCHANGE, any_records(max(least, fewest_records(workload))))
    one, two, several = (price(workload, kind, names) for kind in kinds)
    return one, two, several


def _check(workload: WorkloadFacts, change: WorkloadChange, moves: Sequence[int], k: int) -> None:
    if not change.keeps(workload):
        raise PrivacyError("internal: a change that is charged moves an exact number")
    apart = change.norm // 2 if workload.neighbours == "bounded" else change.norm
    if change.moves(workload) != tuple(moves) or apart > k:
        raise PrivacyError("internal: a change that is charged has other moves than those counted")


def change_text(workload: WorkloadFacts, kind: str, change: WorkloadChange | None, names: Sequence[str]) -> str:
    """Return a change of a kind in words; the attributes that two exchange are those of the change that is given."""
    held = [names[axis] for axis in sorted(workload.held)]
    further = " and all further exact sums" if workload.sums else ""
    if kind == ONE_RECORD:
        if workload.comes:
            return "one record that comes or goes"
        kept = f" that keeps its {joined(held)}{further}" if held else further and f" that keeps{further[4:]}"
        return f"one record{kept}"
    if kind != EXCHANGE:
        return kind
    sides = _sides(workload, change)
    if len(sides) == 2:
        parts = [joined([names[axis] for axis in side]) for side in sides]
        return f"two records that exchange {' or '.join(parts)}"
    return f"two records that exchange {joined(held, 'or') if held else 'what exact sums count'}"


def _sides(workload: WorkloadFacts, change: WorkloadChange | None) -> list[list[int]]:
    """Return the exact attributes that two records keep, and those that they exchange instead."""
    if change is None or change.norm != 4 or any(abs(size) != 1 for _, size in change.entries):
        return []
    leaving = [cell for cell, size in change.entries if size < 0]
    entering = [cell for cell, size in change.entries if size > 0]
    sides: list[list[int]] = [[], []]
    for axis in sorted(workload.held):
        if leaving[0][axis] != leaving[1][axis]:
            sides[entering[0][axis] == leaving[0][axis]].append(axis)
    return sorted(sides) if all(sides) else []


def unprotected(workload: WorkloadFacts, kind: str, names: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return in sentences what a certificate of a named kind does not promise; for the report, in bold.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> table = WorkloadTable((0, 1), Fraction(1, 2))
    >>> workload = WorkloadFacts((3, 3), (table,), "discrete_gaussian", exact=((0,), (1,)))
    >>> print(*unprotected(workload, "one record", ["county", "job"]), sep=chr(10))
    Table county x job does not change with one record that keeps its county and job: what it tells is not protected.
    Two records that exchange county or job can cost rho 1, not covered here.
    """
    called = checked_names(workload, names)
    named = price(workload, kind, called)
    out = [
        f"Table {table} does not change with {named.text}: what it tells is not protected." for table in named.unmoved
    ]
    several = [EXCHANGE, any_records(2)]
    others = {ONE_RECORD: several, any_records(1): several, EXCHANGE: several[1:]}
    most = named.amount or Fraction(0)
    for other in others.get(kind, []):
        cost = price(workload, other, called)
        if cost.amount is not None and cost.amount > most:
            most, unit = cost.amount, "rho" if workload.exponent == 2 else "epsilon"
            out.append(f"{cost.text[0].upper()}{cost.text[1:]} can cost {unit} {shown(most)}, not covered here.")
    return tuple(out)


def workload_certificate(
    workload: WorkloadFacts, kind: str | None = None, names: Sequence[str] | None = None
) -> Certificate:
    """Return what several tables cost together at most, for changes of a named kind.

    Parameters
    ----------
    kind : str, optional
        ``one record``, ``two that exchange`` or ``any k records``; unless given the one of the fewest records by which
        every table moves.
    names : sequence of str, optional
        Of attributes, for people.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> tables = WorkloadTable((0, 1), Fraction(1, 8)), WorkloadTable((1, 2), Fraction(1, 4))
    >>> workload = WorkloadFacts((3, 2, 2), tables, "discrete_gaussian", exact=((0,), (1,)))
    >>> print(workload_certificate(workload, names=["county", "sex", "diagnosis"]))
    measured_tables_gaussian: at most rho 0.75 (epsilon 8.565 at delta 1e-10), bounded neighbours, two that exchange
      2 tables measured, the noise of each independent: the largest sum of their losses is rho = 0.75, at all orders
      charged: two records that exchange county or sex, tables move by 4, 4, rho = 0.75; exact numbers stay
      not covered: Any 2 records can cost rho 1, not covered here.
      proof and audit: docs/claims/measured-tables.md
    """
    called, power, zero = checked_names(workload, names), workload.exponent, Fraction(0)
    if not any(workload.precisions):
        why = "nothing but the exact numbers is released, which they disclose anyway"
        return Certificate("suppression", workload.neighbours, 0, zero, zero, "all", zero, zero, why)
    fewest_records(workload)  # refuses where nothing can change
    chosen = default_kind(workload) if kind is None else kind
    cost = price(workload, chosen, called)
    if cost.amount is None:
        raise PrivacyError(
            f"no certificate: there is no change of {chosen} that keeps all exact numbers; name another kind, such as"
            f" {default_kind(workload)!r}"
        )
    charge = cost.amount
    if not charge:
        raise PrivacyError(
            f"no certificate: {cost.text} moves no table that is measured, so it would promise nothing at no cost; name"
            f" another kind, such as {default_kind(workload)!r}"
        )
    amount = f"rho = {shown(charge)}, at all orders" if power == 2 else f"D = {shown(charge)}"
    n_tables = f"{len(workload.tables)} tables" if len(workload.tables) > 1 else "1 table"
    statement = f"{n_tables} measured, the noise of each independent: the largest sum of their losses is {amount}"
    loss, rho = (None, charge) if power == 2 else (charge, charge**2 / 2)
    moves = ", ".join(map(str, cost.moves))
    unit = "rho" if power == 2 else "D"
    how = "exact numbers stay" if cost.is_attained else "a bound"
    reasons = [f"charged: {cost.text}, tables move by {moves}, {unit} = {shown(charge)}; {how}"]
    reasons += [f"not covered: {sentence}" for sentence in unprotected(workload, chosen, called)]
    plain = loss_without_exact_numbers(workload)
    kind_of = _KINDS[power]
    return Certificate(
        *(kind_of, workload.neighbours, cost.k, loss, rho, "all", rho, plain, statement, tuple(reasons)), chosen
    )


def _free_moves(workload: WorkloadFacts) -> tuple[int, ...]:
    """Return what one record moves each table by if no number is exact."""
    if workload.neighbours == "unbounded":
        return (1,) * len(workload.tables)
    return tuple(2 if workload.varying(table.axes) else 1 for table in workload.tables)


def loss_without_exact_numbers(workload: WorkloadFacts) -> Fraction:
    """Return what one record costs at most, epsilon or rho, if no number is exact."""
    pairs = zip(workload.precisions, _free_moves(workload), strict=True)
    return sum((precision * move for precision, move in pairs), Fraction(0)) / workload.exponent


# From a budget to precisions.


def _root(value: int, degree: int) -> int:
    if degree == 2:
        return isqrt(value)
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def portions_by_cells(workload: WorkloadFacts, kind: str | None = None) -> tuple[Fraction, ...]:
    """Return portions of a budget under which every cell counts the same, in decimals; 0 for what is determined.

    Of rho in proportion to ``sqrt(m q)``, of epsilon to ``(m |z|^2)^(1/3)``: m cells, q the largest sum of squares, and
    ``|z|`` the largest sum of absolute differences, by which a change of the kind moves the table.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> workload = WorkloadFacts((4, 9), (WorkloadTable((0,)), WorkloadTable((0, 1))), "discrete_gaussian")
    >>> [float(part) for part in portions_by_cells(workload)]  # sqrt(4 * 2), sqrt(36 * 2)
    [2.828427, 8.485281]
    """
    chosen = default_kind(workload) if kind is None else kind
    out = []
    facts = (workload.tables, promised(workload, chosen).largest, _free_moves(workload), workload.determined)
    for table, move, free, is_determined in zip(*facts, strict=True):
        m, size = int(np.prod([workload.sizes[axis] for axis in table.axes], dtype=object)), move or free
        degree = 2 if workload.exponent == 2 else 3
        root = _root(m * size ** (1 if degree == 2 else 2) * _ROOT**degree, degree)
        out.append(Fraction(0) if is_determined else Fraction(root, _ROOT))
    return tuple(out)


def workload_precisions(
    workload: WorkloadFacts,
    budget: Budget,
    portions: Sequence[object] | str = "tables",
    *,
    kind: str | None = None,
    records_per_unit: int = 1,
) -> tuple[Fraction, ...]:
    """Return the precision of each table: what its portion of the budget buys, rounded down.

    Precisions are raised together as far as the largest sum over tables allows. No table is more precise than its
    portion would buy if no number were exact, whether records change or come and go. Tables that an exact margin
    determines get 0, and their portion goes to the others.

    Parameters
    ----------
    workload : WorkloadFacts
        Its precisions do not matter.
    portions : sequence, or ``"tables"`` or ``"cells"``
        Of the tables, in any unit; or every table counts the same, or every cell.
    kind : str, optional
        The kind of change that the budget is held to; `default_kind` unless given.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> tables = tuple(WorkloadTable(axes) for axes in ((0, 1, 2), (0, 3), (2, 3)))
    >>> health = WorkloadFacts((39, 8, 2, 12), tables, "discrete_gaussian", exact=((0,), (3,)))
    >>> half = Budget(rho=Fraction(1, 2))
    >>> [round(float(p), 4) for p in workload_precisions(health, half)]
    [0.0833, 0.0833, 0.0833]
    >>> [round(float(p), 4) for p in workload_precisions(health, half, kind="one record")]  # the second table: its cap
    [0.1667, 0.1667, 0.1667]
    """
    power, family = workload.exponent, workload.family
    if type(records_per_unit) is not int or records_per_unit < 1:
        raise PrivacyError(f"a unit has 1 record or more, not {records_per_unit!r}")
    chosen = _kind_for_units(workload, kind, records_per_unit)
    parts = _parts(workload, portions, chosen)
    changes = promised(workload, chosen)
    amount = distance_budget(budget, power)
    facts = list(zip(parts, changes.largest, _free_moves(workload), strict=True))
    caps = [min(part * amount * power / (records_per_unit**power * free), family.most) for part, _, free in facts]
    most = [
        min(cap, part * amount * power / move if move else cap)
        for (part, move, _), cap in zip(facts, caps, strict=True)
    ]
    for _ in range(_ROUNDS):
        charge = _costs(changes.moves, most, power)[1] if len(changes.moves) else Fraction(0)
        if not 0 < charge < amount:
            break
        most = [min(cap, precision * amount / charge) for cap, precision in zip(caps, most, strict=True)]
    out = tuple(rounded_down(precision) if precision else Fraction(0) for precision in most)
    for precision in out:
        if 0 < precision < family.least:
            raise PrivacyError(
                f"a budget of {budget.text} leaves a precision of {float(precision):.3g}, below the least supported,"
                f" {float(family.least):.3g}; raise the budget or measure less"
            )
    if not budget.covers(workload_certificate(workload.with_precisions(out), chosen)):
        raise PrivacyError("internal: precisions were calibrated that cost more than the budget")
    return out


def _kind_for_units(workload: WorkloadFacts, kind: str | None, records_per_unit: int) -> str:
    if records_per_unit == 1:
        return default_kind(workload) if kind is None else kind
    if kind is None:
        return any_records(max(fewest_records(workload), records_per_unit))
    if kind in (ONE_RECORD, EXCHANGE) or kind_of_change(workload, kind).n_records < records_per_unit:
        raise PrivacyError(
            f"a unit has up to {records_per_unit} records, and {kind!r} does not cover them; name"
            f" {any_records(records_per_unit)!r}, or give units one record each"
        )
    return kind


def _parts(workload: WorkloadFacts, portions: Sequence[object] | str, kind: str) -> list[Fraction]:
    n_tables = len(workload.tables)
    if isinstance(portions, str):
        if portions not in SHARES:
            raise PrivacyError(f"shares by {portions!r} are not known; {did_you_mean(portions, SHARES)}")
        weights = [Fraction(1)] * n_tables if portions == "tables" else list(portions_by_cells(workload, kind))
    else:
        weights = [exact_fraction(portion, "a portion of a table") for portion in portions]
    if len(weights) != n_tables or any(
        weight <= 0 and not is_determined for weight, is_determined in zip(weights, workload.determined, strict=True)
    ):
        raise PrivacyError(f"each of {n_tables} tables has a portion above 0")
    weights = [0 * w if is_determined else w for w, is_determined in zip(weights, workload.determined, strict=True)]
    if not sum(weights):
        raise PrivacyError("the exact margins determine every table: there is nothing to measure")
    return [weight / sum(weights) for weight in weights]
