"""From a spec and what its invariants disclose to a law, its certificate and its sampler. Public."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor, log10

from congenial.bundle.cost import certificate_of
from congenial.bundle.manifest import plan_digest
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.errors import PrivacyError, SuppressedError
from congenial.mechanism import Mechanism
from congenial.noise import FAMILIES
from congenial.privacy.calibrate import Budget
from congenial.privacy.certificate import Certificate
from congenial.privacy.certify import Case
from congenial.public_law import Area, MeasuredQuery, PublicLaw
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.contraction.order import MergeOrder
from congenial.sampling.system import System
from congenial.spec.spec import Spec
from congenial.table import Table

_DIGITS = 15
_STEPS = 50
_WITNESSES = 10  # areas on which a budget for many is tried out; all of them are checked in the end


@dataclass(frozen=True, repr=False)
class SpecPlan:
    """What a spec will publish, what it costs, and how it is drawn, before anything is drawn.

    Attributes
    ----------
    law : PublicLaw
    certificate : Certificate
        Of all tables together, for one privacy unit.
    """

    spec: Spec
    law: PublicLaw
    certificate: Certificate
    budget: Budget | None

    @cached_property
    def engines(self) -> dict[tuple[object, ...], Engine]:
        """The sampler of each structure that occurs; areas with one structure share it."""
        out: dict[tuple[object, ...], Engine] = {}
        for _, constraints in self.law.tables:
            key = structure_of(constraints)
            if key not in out:
                out[key] = Engine.of(System.of(constraints, self.law.measured))
        return out

    @property
    def sampling(self) -> MergeOrder:
        """The largest sampler's plan."""
        return max((engine.order for engine in self.engines.values()), key=lambda order: order.n_states)

    @property
    def spent(self) -> tuple[str, Fraction]:
        """What the release costs, in the budget's currency."""
        if self.budget is not None and (cost := self.budget.cost(self.certificate)) is not None:
            return ("rho" if self.budget.rho is not None else "epsilon"), cost
        if self.certificate.loss is not None:
            return "epsilon", self.certificate.loss
        return "rho", self.certificate.rho or Fraction(0)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan. It holds the disclosed values and nothing else of the data."""
        return plan_digest(self.spec.release, self.spec.dataset, self.law, self.certificate)


def structure_of(constraints: Constraints) -> tuple[object, ...]:
    """Return what a sampler's program depends on: tables whose conditions agree in it can share one."""
    rows = tuple((one.row, None if one.is_equality else (one.lower, one.upper)) for one in constraints.rows)
    return rows, constraints.lower, constraints.upper


def disclose(spec: Spec, tables: Mapping[Area, Table]) -> dict[Area, Constraints]:
    """Return the constraints of every area at its table's invariants. Public from here on."""
    mechanism = spec.mechanism()
    return {area: mechanism.disclose(table) for area, table in tables.items()}


def plan_spec(spec: Spec, disclosed: Mapping[Area, Constraints]) -> SpecPlan:
    """Plan a release: the largest precisions that the budget certifies for all areas together, in the spec's shares."""
    mechanism = spec.mechanism()
    if mechanism.is_suppressed:
        raise SuppressedError(
            "the budget is 0, so nothing but the invariants may be published, and there is no table to draw; raise the"
            " budget, or publish the invariants by themselves"
        )
    tables = tuple(disclosed.items())
    first = mechanism.calibrated_for(Case(tables[0][1], mechanism.classes, mechanism.noise, mechanism.neighbours))
    law = PublicLaw(
        spec.schema,
        spec.noise,
        tuple(
            MeasuredQuery(_in_words(query), query.precision or Fraction(0), tuple(rows))
            for query, rows in zip(first.queries, first.classes, strict=True)
        ),
        None if spec.by is None else spec.by.name,
        tables,
    )
    budget = mechanism.budget
    certificate = certificate_of(law, spec.neighbours, spec.rows_per_unit)
    if budget is not None and not budget.covers(certificate):
        law, certificate = _shrunk(spec, mechanism, law, budget)
    return SpecPlan(spec, law, certificate, budget)


def _in_words(query: Query) -> str:
    return "every cell" if query.kind == "cells" and query.where is None and query.name is None else query.text


def _shrunk(spec: Spec, mechanism: Mechanism, law: PublicLaw, budget: Budget) -> tuple[PublicLaw, Certificate]:
    """Lower the precisions that the budget sets, in proportion, until all areas together stay within it.

    One table calibrates itself; this is for units with several rows, and for areas between which a record can pass.
    The cost grows with the precisions, so the largest scale is found by bisection: on the costliest areas first.
    """
    witnesses = _costliest(law, spec.neighbours)
    few = replace(law, tables=tuple(table for table in law.tables if table[0] in witnesses))
    low, high = Fraction(0), Fraction(1)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = _scaled(mechanism, few, middle)
        fits = budget.covers(certificate_of(tried, spec.neighbours, spec.rows_per_unit))
        low, high = (middle, high) if fits else (low, middle)
    cut = Fraction(1, 100)
    while low and cut < 1:
        made = _scaled(mechanism, law, low)
        certificate = certificate_of(made, spec.neighbours, spec.rows_per_unit)
        if budget.covers(certificate):
            _check_supported(made, budget)
            return made, certificate
        low, cut = low * (1 - cut), 2 * cut  # another area was costlier than the witnesses
    raise PrivacyError(
        f"a budget of {budget.text} is too small to measure anything beside the queries that have a precision of their"
        " own, once all rows of a unit and all areas are counted; raise the budget or lower those precisions"
    )


def _check_supported(law: PublicLaw, budget: Budget) -> None:
    least = FAMILIES[law.noise].least
    for query in law.queries:
        if 0 < query.precision < least:
            raise PrivacyError(
                f"a budget of {budget.text} leaves a precision of {float(query.precision):.3g}, below the least"
                f" supported, {float(least):.3g}; raise the budget or measure less"
            )


def _costliest(law: PublicLaw, neighbours: str) -> set[Area]:
    if len(law.tables) <= _WITNESSES:
        return set(law.areas)
    classes, precisions = tuple(query.rows for query in law.queries), [query.precision for query in law.queries]

    def cost(constraints: Constraints) -> Fraction:
        case = Case(constraints, classes, law.noise, neighbours)
        found = case.certificate(precisions, try_all_pairs=False)
        return found.loss if found.loss is not None else found.rho or Fraction(0)

    ranked = sorted(law.tables, key=lambda table: cost(table[1]), reverse=True)
    return {area for area, _ in ranked[:_WITNESSES]}


def _scaled(mechanism: Mechanism, law: PublicLaw, scale: Fraction) -> PublicLaw:
    """Scale the precisions that the user did not fix; under Gaussian noise too, where precision is 1/variance."""
    pairs = zip(law.queries, mechanism.queries, strict=True)
    queries = tuple(
        query if asked.precision is not None else replace(query, precision=_rounded_down(query.precision * scale))
        for query, asked in pairs
    )
    return replace(law, queries=queries)


def _rounded_down(value: Fraction) -> Fraction:
    if not value:
        return value
    unit = Fraction(10) ** (_DIGITS - 1 - floor(log10(value)))
    return Fraction(floor(value * unit)) / unit
