"""What several releases cost together, and what their invariants disclose together: docs/claims/composition.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Protocol

from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import PrivacyError, did_you_mean
from congenial.privacy.certificate import Certificate, shown
from congenial.privacy.certificate_inputs import (
    CONDITIONAL,
    FEW_AREAS,
    MEASURED,
    Case,
    Structure,
    determined_queries,
    structures_of,
)
from congenial.privacy.certify import certificate_of
from congenial.privacy.closest_neighbours_and_unprotected import Neighbours, neighbours_of

WAYS = ("data", "areas")


class ComposedPlan(Protocol):
    """A release that is planned: `congenial.plan.Plan` is one."""

    @property
    def parts(self) -> tuple["PricedAreas", ...]:
        """Its areas with their precisions."""

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""

    @property
    def rows_per_unit(self) -> int:
        """How many records a privacy unit may have."""

    @property
    def certificate(self) -> Certificate:
        """What it costs alone."""


@dataclass(frozen=True, repr=False)
class Composition:
    """Several releases taken together. Public.

    Attributes
    ----------
    certificate : Certificate
        What they cost together.
    constraints : Constraints or None
        All invariants together, for releases of one dataset.
    neighbourhood : Neighbours or None
        The neighbour structure that they leave together.
    newly_disclosed : dict
        Cells that no release pins by itself and all of them together do.
    """

    certificate: Certificate
    constraints: Constraints | None = None
    neighbourhood: Neighbours | None = None
    newly_disclosed: dict[str, int] | None = None

    def __repr__(self) -> str:
        lines = [str(self.certificate)]
        if self.neighbourhood is not None:
            lines.append(str(self.neighbourhood))
        if self.newly_disclosed:
            shown = ", ".join(f"{name} = {value:,}" for name, value in list(self.newly_disclosed.items())[:8])
            lines.append(f"only together the releases disclose: {shown}")
        return "\n".join(lines)


def compose(plans: Sequence[ComposedPlan], over: str = "data") -> Composition:
    """Return what several releases cost together.

    Parameters
    ----------
    plans : sequence of Plan
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
    relations = {plan.neighbours for plan in plans}
    if len(relations) > 1:
        raise PrivacyError(
            "the releases name different neighbour relations, bounded and unbounded; plan them under one"
        )
    if over == "data":
        return _over_data(plans)
    check_one_row(max(plan.rows_per_unit for plan in plans))
    parts = [part for plan in plans for part in plan.parts]
    return Composition(over_areas(parts, try_all_pairs=sum(part.n_areas for part in parts) <= FEW_AREAS))


def _check_arguments(plans: object, over: object) -> None:
    # Not the certificate: one area alone may have none, and all together still do.
    if not isinstance(plans, Sequence) or not all(
        hasattr(plan, "parts") and hasattr(plan, "neighbours") for plan in plans
    ):
        raise PrivacyError(
            "compose takes a list of plans, compose([first, second]), each from mechanism.plan(constraints)"
        )
    if over not in WAYS:
        shown = repr(over) if isinstance(over, str) else f"a {type(over).__name__}"
        raise PrivacyError(f"over={shown} is not a way to compose; {did_you_mean(str(over)[:40], WAYS)}")


def _over_data(plans: Sequence[ComposedPlan]) -> Composition:
    """Add up, on the pairs of tables that obey every release's invariants."""
    if any(len(plan.parts) != 1 or plan.parts[0].n_areas != 1 for plan in plans):
        raise PrivacyError(
            "releases of one dataset are composed table by table: plans of several areas go in by their areas, or with"
            " the area as a dimension of one table"
        )
    union = reduce(Constraints.together, [plan.parts[0].case.constraints for plan in plans])
    neighbourhood = neighbours_of(union, plans[0].neighbours)
    most_rows = max(plan.rows_per_unit for plan in plans)
    certificates = []
    for plan in plans:
        # A pair that obeys all invariants obeys each; when all together leave no pair, each keeps its own price.
        k = most_rows * (neighbourhood.k or 0)
        is_enough = plan.certificate.k == 0 or plan.certificate.k >= k
        certificates.append(plan.certificate if is_enough else _certificate(plan, k))
    alone = {name for plan in plans for name in plan.parts[0].case.constraints.disclosed_cells}
    pinned = {name: value for name, value in union.disclosed_cells.items() if name not in alone}
    k = max((certificate.k for certificate in certificates), default=1)
    statement = f"{len(plans)} releases of one dataset: losses add up at k = {k}, under all invariants together"
    if neighbourhood.k is None:
        statement = f"{len(plans)} releases of one dataset: all invariants together leave no pair; each keeps its price"
    each = tuple(
        _part(number, plan, certificate)
        for number, (plan, certificate) in enumerate(zip(plans, certificates, strict=True), 1)
    )
    return Composition(replace(add_up(certificates, k, statement), reasons=each), union, neighbourhood, pinned)


def _part(number: int, plan: ComposedPlan, joint: Certificate) -> str:
    """Return what a release costs alone and in the composition, in words."""
    alone = plan.certificate
    text = f"release {number}: {_amount(alone)} at k = {alone.k}"
    return text if alone.k == joint.k else f"{text}, {_amount(joint)} at k = {joint.k}"


def _amount(certificate: Certificate) -> str:
    return (
        f"epsilon {shown(certificate.loss)}"
        if certificate.loss is not None
        else f"rho {shown(certificate.rho or Fraction(0))}"
    )


def _certificate(plan: ComposedPlan, k: int) -> Certificate:
    part = plan.parts[0]
    return certificate_of(part.case, part.precisions, k, zero_weights=part.zero_weights)


def add_up(certificates: Sequence[Certificate], k: int, statement: str) -> Certificate:
    """Return the certificate of independent releases of one dataset: each bound adds up where every release has it."""
    return Certificate(
        "composition",
        certificates[0].neighbours,
        k,
        _total([certificate.loss for certificate in certificates]),
        _total([certificate.rho for certificate in certificates]),
        "all" if all(certificate.orders == "all" for certificate in certificates) else "integer",
        _total([certificate.rho_at_all_orders for certificate in certificates]),
        sum((certificate.loss_without_invariants for certificate in certificates), Fraction(0)),
        statement,
    )


def _total(parts: Sequence[Fraction | None]) -> Fraction | None:
    known = [part for part in parts if part is not None]
    return sum(known, Fraction(0)) if len(known) == len(parts) else None


@dataclass(frozen=True)
class PricedAreas:
    """One or more areas with one case and the precisions and zero weights of their release."""

    case: Case
    precisions: tuple[Fraction, ...]
    n_areas: int = 1
    zero_weights: tuple[Fraction, ...] = ()


def check_one_row(rows_per_unit: int) -> None:
    """Refuse to certify several areas together when a unit may have records in more than two of them."""
    if rows_per_unit > 1:
        raise PrivacyError(
            f"a unit may have {rows_per_unit} rows, in several areas, and no certificate covers that; release"
            " one table, or keep one row for each unit"
        )


def over_areas(parts: Sequence[PricedAreas], *, try_all_pairs: bool = True) -> Certificate:
    """Take the worst of what one record can do: change inside an area, or leave one and enter another."""
    relation, n_areas = parts[0].case.neighbours, sum(part.n_areas for part in parts)
    inside = [price for part in parts if (price := _at_one_record(part, part.case, try_all_pairs)) is not None]
    leaving = [_at_leaving(part, try_all_pairs) for part in parts]
    passing = [price for part, price in zip(parts, leaving, strict=True) if price for _ in range(min(part.n_areas, 2))]
    passing = passing if len(passing) > 1 else []  # one area alone has nowhere to send a record
    for part, price in zip(parts, leaving, strict=True):
        if part.case.neighbourhood.k is None and not (price and passing):
            # Nobody changes, comes or goes there: sound when one table is possible, refused when there are more.
            _ = part.case.is_one_table
    if not inside and not passing:
        raise PrivacyError(
            "no change of one record is possible in any area, so areas cannot be composed at one record;"
            ' compose them as releases of one dataset, over="data", on a schema that has the area as a dimension'
        )
    # Where records can change only several at a time, the fewest that can are priced: an area more never costs less.
    tied = [(part, price) for part in parts if (price := _at_fewest(part)) is not None]
    reasons: tuple[str, ...] = ()
    if tied:
        most = max(price.k for _, price in tied)
        reasons = (
            f"in {sum(part.n_areas for part, _ in tied):,} areas no record can change alone: nothing is promised there"
            f" for one record, and the fewest that can change, up to {most}, are priced",
        )
    alone = [*inside, *(price for _, price in tied)]
    if parts[0].case.method == MEASURED:
        reasons += _charged_reasons(alone, passing)
    statement = f"{n_areas:,} areas, one record: the worst area alone"
    if passing:
        statement = f"{n_areas:,} areas, one record: inside one, or from one to another, where two areas' losses add"
    return Certificate(
        "composition",
        relation,
        1,
        _worst([price.loss for price in alone], [price.loss for price in passing]),
        _worst([price.rho for price in alone], [price.rho for price in passing]),
        "all" if all(price.orders == "all" for price in (*alone, *passing)) else "integer",
        _worst([price.rho_at_all_orders for price in alone], [price.rho_at_all_orders for price in passing]),
        max(price.loss_without_invariants for price in (*alone, *passing)),
        statement,
        reasons,
    )


def _charged_reasons(alone: Sequence[Certificate], passing: Sequence[Certificate]) -> tuple[str, ...]:
    """Return what the dearest area is charged for, and what the dearest record that comes or goes."""

    def dearest(prices: Sequence[Certificate]) -> Certificate | None:
        return max(prices, key=lambda price: price.rho or Fraction(0), default=None)

    out = []
    for where, price in (("inside an area", dearest(alone)), ("from one area to another", dearest(passing))):
        out += [f"{where}, {reason}" for reason in (price.reasons[:1] if price else ())]
    return tuple(out)


def _at_one_record(part: PricedAreas, case: Case, try_all_pairs: bool) -> Certificate | None:
    """Return the price of one record in an area; None when it is proven that none can change alone."""
    k = case.neighbourhood.k
    if k is None or (k > 1 and case.neighbourhood.is_smallest):
        return None
    # Where it is open whether fewer than k records can change, the price of k covers them.
    return certificate_of(case, part.precisions, k, zero_weights=part.zero_weights, try_all_pairs=try_all_pairs)


def _at_leaving(part: PricedAreas, try_all_pairs: bool) -> Certificate | None:
    """Return the price of one record that leaves an area for another, or comes from there; None when none can."""
    if part.case.neighbours != "bounded" or part.case.moves.total_is_fixed:
        return None
    return _at_one_record(part, part.case.unbounded, try_all_pairs)


def _at_fewest(part: PricedAreas) -> Certificate | None:
    """Return the price of the fewest records that can change in an area, where that is proven to be several."""
    neighbourhood = part.case.neighbourhood
    if neighbourhood.k is None or neighbourhood.k == 1 or not neighbourhood.is_smallest:
        return None
    return certificate_of(part.case, part.precisions, zero_weights=part.zero_weights, try_all_pairs=False)


def _worst(inside: Sequence[Fraction | None], passing: Sequence[Fraction | None]) -> Fraction | None:
    """Return the larger of the worst area and the two worst together, bound by bound; None when one is unbounded."""
    if None in inside or None in passing:
        return None
    alone = max((amount for amount in inside if amount is not None), default=Fraction(0))
    return max(alone, sum(sorted(amount for amount in passing if amount is not None)[-2:], Fraction(0)))


# What a release of all areas together costs at some precisions, for one privacy unit.


@dataclass(frozen=True)
class Pricing:
    """Everything that the price of a release depends on but the precisions. Public.

    Attributes
    ----------
    areas : Areas
        What the table of each area obeys.
    classes : tuple of tuples of Row
        The measured rows of each query; they share a precision.
    rows_per_unit : int
        How many records one privacy unit may have: all of them may change together. Where published numbers tie records
        together, so many units change at once, each with all its records.
    method : str
        ``"conditional"`` or ``"measured"``.
    """

    areas: Areas
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str
    rows_per_unit: int = 1
    method: str = field(default=CONDITIONAL, repr=False)

    @cached_property
    def structures(self) -> tuple[Structure, ...]:
        """The areas by what a certificate can tell apart."""
        return structures_of(self.areas, self.classes, self.noise, self.neighbours, self.method)

    @cached_property
    def determined(self) -> tuple[int, ...]:
        """The queries that the exact numbers determine in every area: they cost nothing, and tell nothing."""
        of_each = [set(determined_queries(structure.case)) for structure in self.structures]
        return tuple(sorted(set.intersection(*of_each)))

    @property
    def is_simple(self) -> bool:
        """Whether there is one table, and one row for each unit."""
        return len(self.areas) == 1 and self.rows_per_unit == 1

    @property
    def has_small_sets(self) -> bool:
        """Whether all pairs of tables can be enumerated in some area with more than one table."""
        cases = [structure.case for structure in self.structures] if len(self.areas) <= FEW_AREAS else []
        return any(case.is_small and not case.is_one_table for case in cases)

    def one_record_without_invariants(self, precisions: Sequence[Fraction]) -> Fraction:
        """Return what one record costs with the same noise and no condition at all."""
        case = self.structures[0].case
        return case.moves.one_record_without_invariants(precisions, case.family.exponent, self.neighbours)

    def without_exact_numbers(self, precisions: Sequence[Fraction]) -> Certificate:
        """Return what the same measurements would cost one unit if no number were exact, whichever relation is taken.

        A query that no pair of neighbours changes, because exact numbers or the relation forbid it, is never free: it
        is no more precise than a record that comes or goes allows, or one that passes between two areas with open
        totals. Queries that the exact numbers determine are left out.
        """
        idle, moves = set(self.determined), self.structures[0].case.moves
        power = self.structures[0].case.family.exponent
        counted = [Fraction(0) if number in idle else p for number, p in enumerate(precisions)]
        alone = moves.one_record_without_invariants(counted, power, "unbounded")
        changed = moves.one_record_without_invariants(counted, power, self.neighbours)
        open_areas = sum(s.n_areas for s in self.structures if not s.case.moves.total_is_fixed)
        twice = 2 if self.neighbours == "bounded" and open_areas > 1 else 1
        n = self.rows_per_unit
        loss = None if power == 2 else n * max(changed, twice * alone)
        rhos = [distance if power == 2 else distance**2 / 2 for distance in (changed, alone)]
        rho = n * n * max(rhos[0], twice * rhos[1])
        kind = "measured_gaussian" if power == 2 else "measured_double_geometric"
        return Certificate(
            kind, self.neighbours, n, loss, rho, "all", rho, max(changed, alone), "no number is exact: no charge"
        )

    def certificate(
        self, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction] = (), *, try_all_pairs: bool = True
    ) -> Certificate:
        """Return the certificate of a release of every area, for one privacy unit; without zero weights they are 1."""
        if len(self.areas) == 1:
            case = self.structures[0].case
            if self.rows_per_unit == 1:
                return certificate_of(case, precisions, zero_weights=zero_weights, try_all_pairs=try_all_pairs)
            if self.neighbours == "bounded" and not case.moves.total_is_fixed:
                # A unit that changes may have fewer or more rows than before: no table of one size is its neighbour.
                raise PrivacyError(
                    f"a unit may have up to {self.rows_per_unit} rows, so that a changed unit can change the number of"
                    " rows, which bounded neighbours never do: publish the total exactly, or use unbounded neighbours"
                )
            k = self.rows_per_unit * (case.neighbourhood.k or 1)
            return certificate_of(case, precisions, k, zero_weights=zero_weights, try_all_pairs=try_all_pairs)
        check_one_row(self.rows_per_unit)
        parts = [
            PricedAreas(structure.case, tuple(precisions), structure.n_areas, tuple(zero_weights))
            for structure in self.structures
        ]
        return over_areas(parts, try_all_pairs=try_all_pairs)
