"""What several releases cost together, and what their invariants give away together: docs/claims/composition.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Protocol

from congenial.conditions.constraints import Constraints
from congenial.errors import PrivacyError, did_you_mean
from congenial.privacy.certificate import Certificate, shown
from congenial.privacy.certify import Case
from congenial.privacy.neighbours import Neighbours, neighbours_of

WAYS = ("data", "areas")


class Planned(Protocol):
    """A release that is planned: `congenial.plan.ReleasePlan` is one."""

    @property
    def case(self) -> Case:
        """What certificates depend on."""

    @property
    def precisions(self) -> tuple[tuple[str, Fraction], ...]:
        """The measured queries and their precisions."""


@dataclass(frozen=True, repr=False)
class Composition:
    """Several releases taken together. Public.

    Attributes
    ----------
    certificate : Certificate
        What they cost together.
    constraints : Constraints or None
        All invariants together, for releases of one dataset.
    structure : Neighbours or None
        The neighbour structure that they leave together.
    newly_disclosed : dict
        Cells that no release pins by itself and all of them together do.
    """

    certificate: Certificate
    constraints: Constraints | None = None
    structure: Neighbours | None = None
    newly_disclosed: dict[str, int] | None = None

    def __repr__(self) -> str:
        lines = [str(self.certificate)]
        if self.structure is not None:
            lines.append(str(self.structure))
        if self.newly_disclosed:
            shown = ", ".join(f"{name} = {value:,}" for name, value in list(self.newly_disclosed.items())[:8])
            lines.append(f"only together the releases disclose: {shown}")
        return "\n".join(lines)


def compose(plans: Sequence[Planned], over: str = "data") -> Composition:
    """Return what several releases cost together.

    Parameters
    ----------
    plans : sequence of ReleasePlan
        All under one neighbour relation.
    over : str
        ``"data"``: all are releases of one dataset; losses add up, and the invariants accumulate. ``"areas"``: each
        release is of another area's records; a changed record stays in its area or moves to another one, unless the
        totals of the areas are invariant.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> plan = mechanism.plan(mechanism.disclose(p12_table()))
    >>> float(compose([plan, plan]).certificate.loss), float(compose([plan, plan], over="areas").certificate.loss)
    (2.9797602512895, 1.48988012564475)
    """
    _check_arguments(plans, over)
    if not plans:
        raise PrivacyError("there is nothing to compose: give at least one plan")
    relations = {plan.case.neighbours for plan in plans}
    if len(relations) > 1:
        raise PrivacyError(
            "the releases name different neighbour relations, bounded and unbounded; plan them under one"
        )
    return _over_data(plans) if over == "data" else _over_areas(plans)


def _check_arguments(plans: object, over: object) -> None:
    if not isinstance(plans, Sequence) or not all(
        hasattr(plan, "case") and hasattr(plan, "precisions") for plan in plans
    ):
        raise PrivacyError(
            "compose takes a list of plans, compose([first, second]), each from mechanism.plan(constraints)"
        )
    if over not in WAYS:
        shown = repr(over) if isinstance(over, str) else f"a {type(over).__name__}"
        raise PrivacyError(f"over={shown} is not a way to compose; {did_you_mean(str(over)[:40], WAYS)}")


def _over_data(plans: Sequence[Planned]) -> Composition:
    """Add up, on the pairs of tables that obey every release's invariants."""
    union = reduce(Constraints.together, [plan.case.constraints for plan in plans])
    structure = neighbours_of(union, plans[0].case.neighbours)
    found = []
    for plan in plans:
        own = plan.case.structure.k or 0
        # A pair that obeys all invariants obeys each; when all together leave no pair, each keeps its own price.
        found.append(_certificate(plan, max(own, structure.k or 0) or None))
    alone = {name for plan in plans for name in plan.case.constraints.disclosed_cells}
    pinned = {name: value for name, value in union.disclosed_cells.items() if name not in alone}
    k = max((one.k for one in found), default=1)
    statement = f"{len(plans)} releases of one dataset: losses add up at k = {k}, under all invariants together"
    each = tuple(_part(number, plan, one) for number, (plan, one) in enumerate(zip(plans, found, strict=True), 1))
    return Composition(replace(_sum(found, k, statement), reasons=each), union, structure, pinned)


def _part(number: int, plan: Planned, joint: Certificate) -> str:
    """Say what a release costs alone and in company."""
    alone = _certificate(plan, None)
    text = f"release {number}: {_amount(alone)} at k = {alone.k}"
    return text if alone.k == joint.k else f"{text}, {_amount(joint)} at k = {joint.k}"


def _amount(one: Certificate) -> str:
    return f"epsilon {shown(one.loss)}" if one.loss is not None else f"rho {shown(one.rho or Fraction(0))}"


def _certificate(plan: Planned, k: int | None) -> Certificate:
    return plan.case.certificate([precision for _, precision in plan.precisions], k)


def _sum(found: Sequence[Certificate], k: int, statement: str) -> Certificate:
    return Certificate(
        "composition",
        found[0].neighbours,
        k,
        _total([one.loss for one in found]),
        _total([one.rho for one in found]),
        "all" if all(one.orders == "all" for one in found) else "integer",
        _total([one.rho_at_all_orders for one in found]),
        sum((one.loss_without_invariants for one in found), Fraction(0)),
        statement,
    )


def _total(parts: Sequence[Fraction | None]) -> Fraction | None:
    known = [part for part in parts if part is not None]
    return sum(known, Fraction(0)) if len(known) == len(parts) else None


def _over_areas(plans: Sequence[Planned]) -> Composition:
    """Take the worst of what one record can do: change inside an area, or leave one and enter another."""
    relation = plans[0].case.neighbours
    inside = [_certificate(plan, 1) for plan in plans if plan.case.structure.k == 1]
    silent = sum(plan.case.structure.k != 1 for plan in plans)
    options = list(inside)
    statement = f"{len(plans)} areas, one record: the worst area alone"
    if relation == "bounded":
        passing = [_passing(plan) for plan in plans if not plan.case.moves.total_is_fixed]
        able = [one for one in passing if one is not None]
        if len(able) > 1:
            worst = sorted(able, key=lambda one: (one.loss is None, one.loss or 0, one.rho or 0), reverse=True)
            statement = (
                f"{len(plans)} areas, one record: it can leave one area and enter another, so two areas' losses add"
            )
            options.append(replace(_sum(worst[:2], 1, statement), neighbours=relation))
            options += [replace(_sum(_worst_by_rho(able), 1, statement), neighbours=relation)]
    if not options:
        raise PrivacyError(
            "no change of one record is possible in any area, so areas cannot be composed at one record;"
            ' compose them as releases of one dataset, over="data", on a schema that has the area as a dimension'
        )
    reasons = (
        (f"in {silent} areas one record cannot change alone: nothing is promised there at k = 1",) if silent else ()
    )
    return Composition(
        Certificate(
            "composition",
            relation,
            1,
            _most([one.loss for one in options]),
            _most([one.rho for one in options]),
            "all" if all(one.orders == "all" for one in options) else "integer",
            _most([one.rho_at_all_orders for one in options]),
            max(one.loss_without_invariants for one in options),
            statement,
            reasons,
        )
    )


def _passing(plan: Planned) -> Certificate | None:
    """Return the price of one record that leaves or enters an area; None when that cannot happen alone."""
    case = replace(plan.case, neighbours="unbounded")
    return case.certificate([precision for _, precision in plan.precisions], 1) if case.structure.k == 1 else None


def _worst_by_rho(found: Sequence[Certificate]) -> list[Certificate]:
    return sorted(found, key=lambda one: (one.rho is None, one.rho or 0), reverse=True)[:2]


def _most(parts: Sequence[Fraction | None]) -> Fraction | None:
    known = [part for part in parts if part is not None]
    return max(known) if len(known) == len(parts) else None
