"""Which precision and floor each cell gets for a budget: every class of alike cells all that its theorem allows.

What is proposed here is public structure and arithmetic; whether the budget covers it is for its certificate to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from congenial.conditions.areas import Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import Column, columns
from congenial.noise import DoubleGeometric
from congenial.privacy.formulas import calibrated_cells
from congenial.privacy.weighted import calibrated_zeros, likely_zeros

_ALONE, _TOTAL, _GROUP, _PLAIN = range(4)
_LEAST, _MOST = Fraction(1, 10**9), Fraction(100)  # outside there is no such noise, or hardly any


@dataclass(frozen=True)
class CellClass:
    """Cells that share a precision and a floor."""

    text: str
    cells: tuple[int, ...]
    precision: Fraction
    floor: Fraction


class _Rule(NamedTuple):
    """How a cell is calibrated: alone, in a group with an exact total, in a group, or without a floor.

    Attributes
    ----------
    n_cells : int
        How many cells the group has.
    """

    theorem: int
    n_cells: int = 0

    @property
    def text(self) -> str:
        return (
            "every cell in no exact sum",
            f"every cell of the groups of {self.n_cells} with an exact total",
            f"every cell of the groups of {self.n_cells}",
            "every other cell",
        )[self.theorem]

    def scale(self, budget: Fraction, neighbours: str, *, is_likely: bool) -> tuple[Fraction, Fraction]:
        """Return the largest precision that costs no more than a budget in epsilon, and its floor; or about them."""
        if self.theorem == _ALONE:
            precision = budget / (2 if neighbours == "bounded" else 1)
            return precision, clamped_floor(precision)
        if self.theorem == _PLAIN:
            return calibrated_cells(budget, "bounded"), Fraction(1)
        if is_likely:
            return likely_zeros(budget, self.n_cells, is_total_fixed=self.theorem == _TOTAL)
        found = calibrated_zeros(budget, self.n_cells, is_total_fixed=self.theorem == _TOTAL)
        return found.precision, found.weight


_FIXED = _Rule(_PLAIN, -1)


def clamped_floor(precision: Fraction) -> Fraction:
    """Return the floor of noise that is clamped at the lower limit: all that lies below is moved there."""
    return 1 / (1 - DoubleGeometric(precision).base)


def weighted_cells(
    areas: Areas, neighbours: str, budget: Fraction, *, is_likely: bool = False
) -> tuple[CellClass, ...] | None:
    """Return classes of all cells for a budget in epsilon for one record; None where no floor is proposed.

    Parameters
    ----------
    is_likely : bool
        Whether about the precisions is enough, without a proof: to compare choices, never to draw.
    """
    if not _LEAST <= budget <= _MOST:
        return None
    patterns = [group.pattern for group in areas.groups]
    by_pattern = [_rules(pattern, neighbours) for pattern in patterns]
    members: dict[_Rule, list[int]] = {}
    for cell, rules in enumerate(zip(*by_pattern, strict=True)):
        members.setdefault(_joint(rules), []).append(cell)
    if len(members) > 1 and _FIXED in members:
        idle = members.pop(_FIXED)
        members[min(members)].extend(idle)
    if all(rule.theorem == _PLAIN for rule in members):
        return None
    found = []
    for rule, cells in sorted(members.items()):
        precision, floor = rule.scale(budget, neighbours, is_likely=is_likely)
        text = "every cell" if len(members) == 1 else rule.text
        found.append(CellClass(text, tuple(sorted(cells)), precision, floor))
    return tuple(found)


def has_floor(constraints: Constraints, cell: int) -> bool:
    """Whether a cell has a lower limit and no upper one."""
    return constraints.lower[cell] is not None and constraints.upper[cell] is None


def _rules(pattern: Constraints, neighbours: str) -> list[_Rule]:
    """Return the rule of each cell."""
    n_cells = pattern.schema.n_cells
    loose = {cell for cell in range(n_cells) if not pattern.is_fixed(cell)}
    equal = columns([limited.row for limited in pattern.equalities], n_cells)
    ranges = columns([limited.row for limited in pattern.ranges], n_cells)
    if neighbours == "unbounded" and not _is_fixed(pattern, loose, loose):
        are_alone = all(has_floor(pattern, cell) and not equal[cell] and not ranges[cell] for cell in range(n_cells))
        return [_Rule(_ALONE if are_alone else _PLAIN)] * n_cells
    classes: dict[Column, list[int]] = {}
    for cell in sorted(loose):
        classes.setdefault(equal[cell], []).append(cell)
    # Cells that never move take what others have.
    out = [_Rule(_PLAIN)] * n_cells if len(loose) == n_cells else [_FIXED] * n_cells
    for column, cells in classes.items():
        rule = _Rule(_PLAIN)
        if len(cells) > 1 and len({ranges[cell] for cell in cells}) == 1 and all(has_floor(pattern, c) for c in cells):
            is_alone = not column and not ranges[cells[0]]
            theorem = _ALONE if is_alone else _TOTAL if _is_fixed(pattern, set(cells), loose) else _GROUP
            rule = _Rule(theorem, 0 if is_alone else len(cells))
        for cell in cells:
            out[cell] = rule
    return out


def _is_fixed(pattern: Constraints, cells: set[int], loose: set[int]) -> bool:
    """Whether the equalities leave the sum of some cells one value."""
    lines = [
        {
            cell: times
            for cell, times in zip(equality.row.cells, equality.row.coefficients, strict=True)
            if cell in loose
        }
        for equality in pattern.equalities
    ]
    return len(lines) in dependence([*lines, dict.fromkeys(sorted(cells), 1)]).follows


def _joint(rules: Sequence[_Rule]) -> _Rule:
    """Return a rule that serves areas of several patterns."""
    rules = [rule for rule in rules if rule != _FIXED]
    if len(set(rules)) <= 1:
        return rules[0] if rules else _FIXED
    if any(rule.theorem == _PLAIN for rule in rules):
        return _Rule(_PLAIN)
    return _Rule(_GROUP, min(rule.n_cells for rule in rules if rule.n_cells))
