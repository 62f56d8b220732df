"""What a release of several tables of the same records will publish, cost and protect; designs near to it. Public."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf, prod
from pathlib import Path

from congenial.conditions.queries import Query, cells, margin
from congenial.curator.alternatives_and_target_error import ErrorTarget, TargetBudget, least_amount, with_amount
from congenial.curator.base_preview import Preview
from congenial.curator.differences_from_earlier_releases import PlannedRelease
from congenial.curator.workload_errors import CellError, TableError, WorkloadErrors
from congenial.errors import CongenialError, PrivacyError, StudyError, did_you_mean
from congenial.privacy.budget import spent
from congenial.privacy.certificate import USUAL_DELTA, shown
from congenial.privacy.disclosure import sentences
from congenial.privacy.workload_certificate import workload_certificate
from congenial.progress_and_interrupts import Progress, silent
from congenial.release import Prepared, exact_texts
from congenial.spec.spec_and_hierarchy import Spec
from congenial.spec.stated_tables import StatedTables
from congenial.workload.law import ExactCounts
from congenial.workload.plan import WorkloadPlan

_MOST_ONE_BY_ONE = 10  # exact numbers that are left out one by one
_MOST_PAIRS = 2  # of unmeasured pairs, that are tried as tables
_MOST_CELLS = 1_000_000
TENTH = Fraction(1, 10)
"""Of the precision of all tables: what a further table is tried with."""


@dataclass(frozen=True)
class WorkloadPrice:
    """What a release of tables has for its budget, or for its precisions.

    Attributes
    ----------
    text : str
        What is other than planned, in words.
    change : str
        The kind of change that the budget is held to.
    cost : str
    tables : tuple of CellError
        Of the tables that are planned.
    more : tuple of CellError
        Of what it measures besides.
    """

    text: str
    change: str
    cost: str
    tables: tuple[CellError, ...]
    more: tuple[CellError, ...] = ()


@dataclass(frozen=True)
class WorkloadAlternative:
    """A release of tables near to a spec's, planned when its price is requested.

    Attributes
    ----------
    spec : Spec
    exact : tuple of ExactCounts
        Some of the values that are disclosed anyway, and nothing else of the data.
    more : tuple of tuples of str
        Dimensions whose errors it is asked about besides.
    """

    text: str
    spec: Spec
    exact: tuple[ExactCounts, ...]
    more: tuple[tuple[str, ...], ...] = ()

    def price(self, tables: Sequence[TableError]) -> WorkloadPrice | None:
        """Return what this release would have for the tables that are planned; None where it cannot be certified."""
        try:
            plan = self.spec.workload.plan(self.exact)
            # Not that of the plan, which sees how noise would be drawn: that takes seconds for large tables.
            certificate = workload_certificate(plan.facts, plan.protects, plan.law.schema.names)
            errors = WorkloadErrors(plan.law)
            planned = tuple(_error_of(errors, table.name, table.dimensions) for table in tables)
            more = tuple(_error_of(errors, " x ".join(names), names) for names in self.more)
        except CongenialError:
            return None
        return WorkloadPrice(self.text, certificate.change, spent(certificate, plan.budget).text, planned, more)


def _error_of(errors: WorkloadErrors, name: str, dimensions: tuple[str, ...]) -> CellError:
    n_cells = prod(len(errors.law.schema.labels(each)) for each in dimensions)
    return CellError(name, dimensions, n_cells, errors.at(dimensions))


@dataclass(frozen=True)
class TableTarget(ErrorTarget):
    """A mean absolute error of the cells of a table, or of every table."""

    @property
    def text(self) -> str:
        """What the error is, and of what."""
        of = "a cell of every table" if self.level is None else f"a cell of table {self.level!r}"
        return f"mean absolute error of {self.error:g} for {of}"


@dataclass(frozen=True)
class WorkloadTargetBudget:
    """The budget that reaches a target, with the errors of all tables at it; none where no budget does."""

    answer: TargetBudget
    tables: tuple[TableError, ...]


@dataclass(frozen=True, repr=False)
class WorkloadPreview(Preview):
    """Of several tables of the same records: errors in closed form, and what other designs would give."""

    plan: WorkloadPlan  # type: ignore[assignment]
    target_budget: WorkloadTargetBudget | None = None
    """The budget that reaches a target error, where there is one."""

    @property
    def dry_run_lines(self) -> tuple[str, ...]:
        """Nothing: the rule is tried before the charge, and takes long."""
        return ()

    @cached_property
    def errors(self) -> WorkloadErrors:
        """The errors of tables, and of what lies inside them."""
        return WorkloadErrors(self.plan.law)

    @property
    def disclosure_sentences(self) -> list[str]:
        """Cells and sums of each table that the exact numbers disclose, in words; the same of several tables once."""
        names = {self.plan.law.schema.part(table.dimensions): table.name for table in self.plan.law.published}
        out = []
        for disclosure in self.disclosures:
            out += [f"{names[disclosure.schema]}: {line}" for line in sentences(disclosure, self.unit)]
        return out

    @property
    def planned(self) -> PlannedRelease:
        """What earlier releases are compared with."""
        kinds = [(f"a cell of {table.name}", table.estimate) for table in self.errors.tables if not table.is_exact]
        total = [one for one in self.errors.margins if not one.dimensions and not one.is_exact]
        return self._compared({one.name: one.estimate for one in total}, kinds)

    @cached_property
    def price(self) -> WorkloadPrice:
        """What the release has for its budget."""
        certificate = self.plan.certificate
        return WorkloadPrice("as planned", certificate.change, self.plan.spent.text, self.errors.tables)

    @cached_property
    def prices(self) -> tuple[tuple[str, WorkloadPrice | None], ...]:
        """What the same budget would give with exact numbers left out; None where that cannot be certified."""
        return self._priced(_with_less_exact(self.spec, self.plan.law.exact))

    @cached_property
    def designs(self) -> tuple[tuple[str, WorkloadPrice | None], ...]:
        """What the same budget would give by other shares, or with a further table at a tenth."""
        return self._priced(_other_designs(self.spec, self.plan, self.errors))

    @cached_property
    def budgets(self) -> tuple[tuple[str, WorkloadPrice | None], ...]:
        """What budgets in other terms would give; nothing but for a pure epsilon of several tables."""
        return self._priced(_other_budgets(self.spec, self.plan))

    def _priced(self, others: Iterator[WorkloadAlternative]) -> tuple[tuple[str, WorkloadPrice | None], ...]:
        return tuple((other.text, other.price(self.errors.tables)) for other in others)


def workload_preview(
    spec: Spec,
    ready: Prepared,
    target: ErrorTarget | None = None,
    progress: Progress = silent,
) -> WorkloadPreview:
    """Return what a prepared release of tables will do; of its data the exact numbers enter, and nothing else."""
    plan = ready.plan
    assert isinstance(plan, WorkloadPlan)  # noqa: S101
    reached = None if target is None else find_workload_budget(plan, target, progress)
    return WorkloadPreview(spec, plan, ready.digest, ready.disclosures, exact_texts(ready), reached)


def check_options(
    spec: Spec, reference: Path | None, target: ErrorTarget | None, *, compare_methods: bool = False
) -> None:
    """Refuse, before any data are read, what has no meaning for several tables of the same records."""
    if reference is not None:
        raise StudyError(
            "errors of several tables of the same records follow from their sizes, shares and exact numbers, whatever"
            " the counts: leave --reference out"
        )
    if compare_methods:
        raise StudyError("several tables of the same records are measured; there is no other method: leave it out")
    if target is None:
        return
    if target.of != "cells":
        raise StudyError(f"of several tables an error can be asked for of the cells of a table, not of {target.of}")
    names = [] if spec.tables is None else list(spec.tables.published)
    if target.level is not None and target.level not in names:
        raise StudyError(f"{target.level!r} is not a table of the spec; {did_you_mean(target.level, names)}")
    if spec.budget is None:
        raise StudyError("every table has a precision of its own, so no budget sets the error; give one instead")


def find_workload_budget(plan: WorkloadPlan, target: ErrorTarget, progress: Progress = silent) -> WorkloadTargetBudget:
    """Return the least budget with which the cells of a table, or of every table, have the target error."""
    budget, law = plan.budget, plan.law
    assert budget is not None  # noqa: S101
    target = TableTarget(target.error, target.of, target.level)
    names = [table.name for table in law.published] if target.level is None else [target.level]

    def errors_at(amount: Fraction) -> WorkloadErrors:
        precisions = replace(plan, budget=with_amount(budget, amount)).calibrated_precisions()
        pairs = zip(law.tables, precisions, strict=True)
        return WorkloadErrors(replace(law, tables=tuple(replace(table, precision=p) for table, p in pairs)))

    def error_at(amount: Fraction) -> float:
        try:
            return max(table.typical for table in errors_at(amount).tables if table.name in names)
        except PrivacyError:  # too small to measure anything
            return inf

    progress("trying budgets")
    now = error_at(budget.limit)
    amount, error = least_amount(error_at, budget.limit, now, target.error)
    if amount is None:
        return WorkloadTargetBudget(TargetBudget(target, budget, now, None, error), ())
    reached = with_amount(budget, amount)
    return WorkloadTargetBudget(TargetBudget(target, budget, now, reached, error), errors_at(amount).tables)


# Designs near to the spec's.


def _with_less_exact(spec: Spec, exact: Sequence[ExactCounts]) -> Iterator[WorkloadAlternative]:
    """Leave out one exact number after the other, if there are several and at most ten, and then all of them."""
    stated = spec.invariants
    for invariant in stated if 1 < len(stated) <= _MOST_ONE_BY_ONE else ():
        others = replace(spec, invariants=tuple(other for other in stated if other is not invariant))
        yield _with_exact(f"without {invariant.condition.title}", others, exact)
    if stated:
        yield _with_exact("with nothing exact", replace(spec, invariants=()), exact)


def _with_exact(text: str, spec: Spec, exact: Sequence[ExactCounts]) -> WorkloadAlternative:
    kept = {id(statement.condition) for statement in (*spec.invariants, *spec.conditions)}
    return WorkloadAlternative(text, spec, tuple(counts for counts in exact if id(counts.condition) in kept))


def _other_designs(spec: Spec, plan: WorkloadPlan, errors: WorkloadErrors) -> Iterator[WorkloadAlternative]:
    if spec.tables is None or plan.budget is None:
        return
    law = plan.law
    if plan.shares_by == "tables" and len(law.measured_tables_of_records) > 1:
        shared = replace(spec, tables=replace(spec.tables, shares="cells"))
        yield WorkloadAlternative("shares by cells", shared, law.exact)
    pairs = list(errors.unknown_pairs)
    if pairs and law.schema.n_cells <= _MOST_CELLS:
        further = {"all dimensions": cells(portion=TENTH)}
        text = "all dimensions together, measured at a tenth"
        yield WorkloadAlternative(text, _with_further(spec, spec.tables, plan, further), law.exact, tuple(pairs[:1]))
    for pair in pairs[:_MOST_PAIRS]:
        name = " x ".join(pair)
        further = {name: margin(*pair, portion=TENTH)}
        text = f"{name}, measured at a tenth"
        yield WorkloadAlternative(text, _with_further(spec, spec.tables, plan, further), law.exact, (pair,))


def _with_further(spec: Spec, tables: StatedTables, plan: WorkloadPlan, further: dict[str, Query]) -> Spec:
    """Return the spec with a further measured table; the others share the rest as they do now."""
    whole = sum((table.precision for table in plan.law.tables), Fraction(0))
    portions = {table.name: (1 - TENTH) * table.precision / whole or Fraction(1) for table in plan.law.tables}

    def shared(queries: dict[str, Query]) -> dict[str, Query]:
        return {name: replace(query, portion=portions[name], precision=None) for name, query in queries.items()}

    also = {**shared(tables.also_measured), **further}
    stated = replace(tables, published=shared(tables.published), also_measured=also, shares="portions")
    return replace(spec, tables=stated)


def _other_budgets(spec: Spec, plan: WorkloadPlan) -> Iterator[WorkloadAlternative]:
    budget = plan.budget
    n_measured = len(plan.law.measured_tables_of_records)
    if budget is None or plan.law.family.exponent != 1 or budget.epsilon is None or n_measured < 2:
        return
    epsilon = budget.epsilon
    rho, terms = epsilon**2 / 2, {"noise": "discrete_gaussian"}
    delta = replace(spec, **terms, epsilon=epsilon, delta=USUAL_DELTA)  # type: ignore[arg-type]
    yield WorkloadAlternative(f"epsilon {shown(epsilon)} at delta {float(USUAL_DELTA):g}", delta, plan.law.exact)
    by_rho = replace(spec, **terms, epsilon=None, rho=rho)  # type: ignore[arg-type]
    yield WorkloadAlternative(f"rho {shown(rho)}, which an epsilon of {shown(epsilon)} implies", by_rho, plan.law.exact)
