"""What one record costs where lower limits are weighted, class by class: docs/claims/weighted-zeros.md."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from congenial.privacy.certificate import shown
from congenial.privacy.certified_case import Case
from congenial.privacy.formulas import conditional_loss
from congenial.privacy.moves import Kind
from congenial.privacy.weighted import changed_loss
from congenial.privacy.weighted_group import group_excess
from congenial.privacy.weighted_lines import free_excess, lines_excess, pair_excess
from congenial.privacy.weighted_total import total_excess


@dataclass(frozen=True)
class Priced:
    """A bound of the loss of a step, the kind of certificate that proves it, and why."""

    loss: Fraction
    kind: str
    statement: str


def weighted_loss(case: Case, precisions: Sequence[Fraction], floors: Sequence[Fraction], k: int) -> Priced:
    """Return a bound of the loss of all pairs at most `k` records apart."""
    moves, neighbours = case.moves, case.neighbours
    if neighbours == "unbounded" and moves.total_is_fixed:  # records leave and enter in pairs
        neighbours, k = "bounded", k // 2
    pricer = _Pricer(case, tuple(precisions), tuple(floors))
    if k < 1 or not moves.kinds:
        return Priced(Fraction(0), "equalities_only", "no measured query changes between such tables")
    if k > 1 and not pricer.is_sum_of_steps(neighbours):
        distance = max(step.distance for step in moves.steps(precisions, 1, neighbours, k))
        why = f"{k} records need not change by steps of one: twice the distance D = {shown(distance)}"
        return Priced(2 * distance, "weighted_general", why)
    found = [pricer.unbounded(kind) for kind in moves.kinds if not kind.equal]
    if neighbours == "bounded":
        found = [pricer.bounded(kinds) for kinds in moves.exchanging]
    worst = max((price for price in found if price), key=lambda price: price.loss, default=None)
    if worst is None:
        return Priced(Fraction(0), "equalities_only", "no measured query changes between such tables")
    if k == 1:
        return worst
    return Priced(k * worst.loss, worst.kind, f"{k} times, step by step: {worst.statement}")


@dataclass(frozen=True)
class _Pricer:
    """Prices the steps of one record."""

    case: Case
    precisions: tuple[Fraction, ...]
    floors: tuple[Fraction, ...]

    def is_sum_of_steps(self, neighbours: str) -> bool:
        """Whether every change of several records is one of single records, one after another, inside S*."""
        moves = self.case.moves
        if neighbours == "unbounded":
            return not any(kind.equal or kind.ranges for kind in moves.kinds)
        fixed = (moves.is_fixed([cell for kind in kinds for cell in kind.cells]) for kinds in moves.exchanging)
        return not any(kind.ranges for kind in moves.kinds) and all(fixed)

    def _is_weighted(self, kind: Kind) -> bool:
        return any(self.floors[c] != 1 and self.precisions[c] for c, _ in kind.own)

    def _has_zeros_alone(self, kind: Kind) -> bool:
        """Whether the only limits of the cells are lower ones, and each is measured once, by itself."""
        constraints = self.case.constraints
        limits = {(constraints.lower[cell] is not None, constraints.upper[cell] is None) for cell in kind.cells}
        return limits == {(True, True)} and len(kind.own) == 1 and kind.own[0][1] == 1

    def _scale(self, kind: Kind) -> tuple[Fraction, Fraction, Fraction]:
        """Return precision, base and floor of cells that are measured once."""
        ((c, _),) = kind.own
        return self.precisions[c], self.case.family(self.precisions[c]).base, self.floors[c]

    def _plain(self, kinds: Sequence[Kind], neighbours: str, *, is_weighted: bool) -> Priced | None:
        """Price steps by their distance: weights that the step does not touch are the same on its whole line."""
        steps = self.case.moves.steps_among(kinds, self.precisions, neighbours)
        priced = [
            (2 * step.distance if is_weighted else conditional_loss(step.distance, step.least), step.distance)
            for step in steps
        ]
        loss, distance = max(priced, default=(Fraction(0), Fraction(0)))
        if loss == 0:
            return None
        if is_weighted:
            why = f"weighted limits of cells that no theorem covers: twice the distance D = {shown(distance)}"
            return Priced(loss, "weighted_general", why)
        why = f"cells without weights beside weighted ones: D = {shown(distance)} plus {shown(loss - distance)}"
        return Priced(loss, "limited_cells", why)

    def unbounded(self, kind: Kind) -> Priced | None:
        """Price a record that is added to or removed from a cell of a kind that is in no equality."""
        if not self._is_weighted(kind):
            return self._plain([kind], "unbounded", is_weighted=False)
        if kind.ranges or kind.soft or not self._has_zeros_alone(kind):
            return self._plain([kind], "unbounded", is_weighted=True)
        precision, base, floor = self._scale(kind)
        extra = _extra(free_excess(base, floor))
        return Priced(precision + extra, "clamped_unbounded", _said("cells in no exact sum", precision, extra))

    def bounded(self, kinds: Sequence[Kind]) -> Priced | None:
        """Price a record that passes between two cells of some kinds with equal columns in the equalities."""
        if not any(self._is_weighted(kind) for kind in kinds):
            return self._plain(kinds, "bounded", is_weighted=False)
        if len(kinds) > 1 or not self._has_zeros_alone(kinds[0]):
            return self._plain(kinds, "bounded", is_weighted=True)
        (kind,) = kinds
        n_cells = len(kind.cells)
        if n_cells == 1:
            return None
        precision, base, floor = self._scale(kind)
        if not (kind.equal or kind.ranges or kind.soft):
            extra = 2 * _extra(free_excess(base, floor))
            return Priced(
                2 * precision + extra, "clamped_unbounded", _said("cells in no exact sum", 2 * precision, extra)
            )
        found = {"weighted_lines": lines_excess(base, floor)}
        if (excess := group_excess(n_cells, base, floor)) is not None:
            found["weighted_group"] = excess
        if self.case.moves.is_fixed(kind.cells):
            excess = pair_excess(base, floor) if n_cells == 2 else total_excess(n_cells, base, floor)
            found |= {} if excess is None else {"weighted_fixed_total": excess}
        name = min(found, key=lambda kind: found[kind])
        extra = _extra(found[name])
        what = f"{n_cells} cells that are alike" + (", with an exact total" if name == "weighted_fixed_total" else "")
        return Priced(2 * precision + extra, name, _said(what, 2 * precision, extra))


def _extra(excess: Fraction) -> Fraction:
    """Return what a ratio of normalisers of ``1 + excess`` adds to a loss."""
    return changed_loss(Fraction(0), excess)


def _said(cells: str, distance: Fraction, extra: Fraction) -> str:
    if not extra:
        return f"{cells}, noise clamped at the lower limit: conditioning is free, the loss is D = {shown(distance)}"
    return f"{cells}, their lower limit weighted: D = {shown(distance)} plus {shown(extra)} for conditioning"
