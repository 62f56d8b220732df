"""From what was asked to a plan: the precision and the floor of everything that is measured. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from congenial.conditions.areas import Areas
from congenial.conditions.kinds.cells import Cells
from congenial.conditions.kinds.query import Query
from congenial.conditions.rows import Row
from congenial.noise import FAMILIES
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.calibrate import precisions_of
from congenial.privacy.pricing import Pricing
from congenial.privacy.weighted_cells import clamped_floor, has_floor, weighted_cells
from congenial.public_law import MeasuredQuery, PublicLaw
from congenial.schema import Schema


@dataclass(frozen=True)
class Asked:
    """What a curator asks for, whatever the areas are.

    Attributes
    ----------
    queries : tuple of Query
        What is measured, each with its precision or its portion of the budget.
    """

    schema: Schema
    noise: str
    queries: tuple[Query, ...]
    budget: Budget | None
    neighbours: str
    rows_per_unit: int = 1

    def plan(self, areas: Areas) -> Plan:
        """Return the plan of a release for these areas: the largest precisions that the budget certifies."""
        return self._weighted(areas) or self._plain(areas)

    def likely_law(self, areas: Areas) -> PublicLaw:
        """Return about the law of the plan, to compare choices; where floors are weighted, without a proof."""
        is_pure = self._chooses_floors and self.budget is not None and self.budget.delta is None
        epsilon = None if self.budget is None else self.budget.epsilon
        law = self._by_class(areas, epsilon, is_likely=True) if is_pure and epsilon else None
        return self.plan(areas).law if law is None else law

    @property
    def _chooses_floors(self) -> bool:
        """Whether floors are for the budget to choose: every cell is measured once, and nothing is given."""
        query, budget = self.queries[0], self.budget
        is_open = len(self.queries) == 1 and isinstance(query, Cells) and (query.precision, query.zeros) == (None, None)
        if not is_open or query.where is not None or budget is None or budget.is_nothing:
            return False
        return FAMILIES[self.noise].exponent == 1

    def _plan(self, law: PublicLaw, pricing: Pricing) -> Plan:
        return Plan(law, pricing, self.budget, self.queries)

    def _pricing(self, areas: Areas, classes: Sequence[Sequence[Row]]) -> Pricing:
        return Pricing(areas, tuple(map(tuple, classes)), self.noise, self.neighbours, self.rows_per_unit)

    def _plain(self, areas: Areas) -> Plan:
        """Return the plan whose floors are those that were given, or 1."""
        classes = [tuple(query.rows(self.schema)) for query in self.queries]
        pricing = self._pricing(areas, classes)
        precisions = precisions_of(pricing, self.queries, self.budget)
        queries = tuple(
            MeasuredQuery(query.title, precision, rows, _floor(query) or Fraction(1))
            for query, precision, rows in zip(self.queries, precisions, classes, strict=True)
        )
        return self._plan(PublicLaw(self.schema, self.noise, queries, areas), pricing)

    def _weighted(self, areas: Areas) -> Plan | None:
        """Return the plan with floors that the budget chooses; None where there are none or they are not covered."""
        budget = self.budget
        if budget is None or not self._chooses_floors:
            return None
        law = self._clamped(areas) if budget.delta is not None else self._by_class(areas, budget.epsilon)
        if law is None:
            return None
        pricing = self._pricing(areas, law.classes)
        plain = pricing.one_record_without_invariants(law.precisions)
        is_covered = budget.covers_plain(plain, currency=law.family.currency)
        plan = self._plan(law, pricing)
        return plan if is_covered and budget.covers(plan.certificate) else None

    def _by_class(self, areas: Areas, epsilon: Fraction | None, *, is_likely: bool = False) -> PublicLaw | None:
        """Return the law for a budget in pure epsilon: each class of cells as precise as its theorem allows."""
        if epsilon is None:
            return self._clamped(areas)
        found = weighted_cells(areas, self.neighbours, epsilon / self.rows_per_unit, is_likely=is_likely)
        if found is None:
            return None
        rows = self.queries[0].rows(self.schema)
        queries = tuple(
            MeasuredQuery(part.text, part.precision, tuple(rows[cell] for cell in part.cells), part.floor)
            for part in found
        )
        return PublicLaw(self.schema, self.noise, queries, areas)

    def _clamped(self, areas: Areas) -> PublicLaw | None:
        """Return the law for a budget in rho, where every floor costs the same: noise clamped at lower limits."""
        (query,) = self._plain(areas).law.queries
        patterns = [group.pattern for group in areas.groups]
        if not all(has_floor(pattern, cell) for pattern in patterns for cell in range(self.schema.n_cells)):
            return None
        floor = clamped_floor(query.precision)
        return PublicLaw(
            self.schema, self.noise, (MeasuredQuery(query.text, query.precision, query.rows, floor),), areas
        )


def _floor(query: Query) -> Fraction | None:
    return query.zeros if isinstance(query, Cells) else None
