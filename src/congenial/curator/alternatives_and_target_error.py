"""Designs near to a spec's: what exactness costs, which budget reaches an error, what can be drawn instead. Public."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, floor, inf, log, sqrt

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.bundle.expected_errors import NO_ERROR, expected_error, quick_errors
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.curator.made_up_tables import even_table
from congenial.curator.tree_estimate_errors import EstimateErrors, TreeErrors, cell_noises, tree_errors
from congenial.errors import CongenialError, PrivacyError, SamplingError, StudyError, TooLargeError
from congenial.law import PublicLaw
from congenial.measured_tree_facts import tree_to_certify
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.noise import DEFAULT
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate_inputs import METHODS
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import replay_rng
from congenial.request_to_plan import TreeRequest
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import Table
from congenial.tree.exact_sums import TreeInvariants

_MOST_ONE_BY_ONE = 10  # invariants that are left out one by one


@dataclass(frozen=True)
class Alternative:
    """A release that leaves something out, planned when its price is requested.

    Attributes
    ----------
    text : str
        What is left out, in words.
    areas : Areas
        What is disclosed without it: some of the values that are disclosed with it, and nothing else of the data.
    """

    text: str
    mechanism: Mechanism
    areas: Areas

    def price(self, area: Area, centre: Ints) -> "Price | None":
        """Return what this release would have; None where it cannot be certified or is not planned quickly."""
        try:
            return price_of(self.text, self.mechanism.plan(self.areas), area, centre)
        except CongenialError:
            return None


@dataclass(frozen=True)
class Price:
    """What a release has for its budget.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise on a cell, before anything is made exact.
    error : float or None
        Root mean squared error of a released cell around a public table; None where that is not quick to compute.
    cost : str
        What is certified, in words.
    """

    text: str
    noise: float
    error: float | None
    cost: str


def price_of(text: str, plan: Plan, area: Area, centre: Ints) -> Price:
    """Return what a plan has for its budget, in one area around a public table."""
    return Price(text, noise_on_a_cell(plan.law), error_of_a_cell(plan, area, centre), plan.spent.text)


def noise_on_a_cell(law: PublicLaw) -> float:
    """Return the standard deviation of the noise on a cell, or on what is measured where no cells are."""
    measured = [query for query in law.queries if query.precision]
    alone = [query for query in measured if all(len(row.cells) == 1 for row in query.rows)] or measured
    variances = [(float(law.family(query.precision).variance), len(query.rows)) for query in alone]
    return sqrt(sum(variance * n for variance, n in variances) / sum(n for _, n in variances))


def error_of_a_cell(plan: Plan, area: Area, centre: Ints) -> float | None:
    """Return the root mean squared error of a released cell around a public table; None where that is slow."""
    if plan.law.is_measured:  # a rule is quick to try
        return _size(expected_error(plan, area, centre, "").cells)
    errors = quick_errors(plan.law, area, centre)
    return None if errors is None else _size(errors)


def alternatives(spec: Spec, tables: Table | Mapping[str, Table]) -> tuple[Alternative, ...]:
    """Return the releases that leave out one invariant each, and the one that leaves out all of them.

    Parameters
    ----------
    tables : Table or mapping of areas
        Confidential. Only what fewer invariants disclose is taken from them.
    """
    named = [(text, other.mechanism) for text, other in _with_less_exact(spec)]
    return tuple(Alternative(text, mechanism, disclosed_areas(spec, mechanism, tables)) for text, mechanism in named)


@dataclass(frozen=True)
class TreeAlternative:
    """The same for a measured tree: errors of every level follow from a plan.

    Attributes
    ----------
    disclosed : TreeInvariants
        Some of the values that are disclosed anyway, and nothing else of the data.
    """

    text: str
    request: TreeRequest
    disclosed: TreeInvariants

    def price(self) -> "TreePrice | None":
        """Return what this release would have; None where it cannot be certified."""
        try:
            return tree_price_of(self.text, self.request.plan(self.disclosed))
        except CongenialError:
            return None


@dataclass(frozen=True)
class TreePrice:
    """What the release of a measured tree has for its budget: the errors of every level, and what is certified."""

    text: str
    levels: tuple[EstimateErrors, ...]
    cost: str


def tree_price_of(text: str, plan: Plan) -> TreePrice:
    """Return what a planned measured tree has for its budget."""
    return TreePrice(text, tree_errors(plan), plan.spent.text)


def tree_alternatives(spec: Spec, plan: Plan, leaves: Ints) -> tuple[TreeAlternative, ...]:
    """Return the releases of a measured tree that leave out one exact number of a level each, and that without any.

    And that without areas that cross the tree, whose share of the budget the levels then have.

    Parameters
    ----------
    leaves : array (leaf, cell)
        Confidential. Only what fewer invariants disclose is taken from them.
    """
    tree, zeros, across = plan.law.tree, plan.law.zeros, plan.law.across
    others = _with_less_exact(spec)
    requests = [(text, other.tree_mechanism(tree, zeros, across)) for text, other in others]
    if across is not None:
        requests.append((f"without each {across.name}", spec.tree_mechanism(tree, zeros)))
    tables = tree.summed(leaves) if requests else ()
    return tuple(TreeAlternative(text, request, request.disclosed_of(tables)) for text, request in requests)


def _with_less_exact(spec: Spec) -> list[tuple[str, Spec]]:
    """Return the spec without one invariant each, if there are several and at most ten, and without any."""
    specs = [*_without_one(spec, _MOST_ONE_BY_ONE)]
    return [*specs, ("with nothing exact", replace(spec, invariants=()))] if spec.invariants else specs


def _without_one(spec: Spec, most: int) -> Iterator[tuple[str, Spec]]:
    """Leave out one invariant after the other, if there are several and at most so many."""
    for invariant in spec.invariants if 1 < len(spec.invariants) <= most else ():
        others = tuple(other for other in spec.invariants if other is not invariant)
        where = "" if invariant.at is None else f" of every {invariant.at}"
        yield f"without {invariant.condition.title}{where}", replace(spec, invariants=others)


def disclosed_areas(spec: Spec, mechanism: Mechanism, tables: Table | Mapping[str, Table]) -> Areas:
    """Return what a mechanism discloses of confidential tables."""
    if isinstance(tables, Table):
        return Areas.one(mechanism.disclose(tables))
    return mechanism.disclose(tables, area="area" if spec.by is None else spec.by.name)


# The same release by the other method.

WHEN_WHICH = (
    "Take measured where readers add numbers up or compare them, or the budget is small: every sum has an exact"
    " interval; take conditional where one file must be both the table and a draw of a known law."
)


@dataclass(frozen=True)
class MethodErrors:
    """What to expect of a release by one method, around a public table.

    Attributes
    ----------
    cell, margin : float
        Root mean squared error of a published cell, and of a number by a single dimension; NaN where there is none.
    why : str
        Why nothing is known of it; nothing, as a rule.
    """

    method: str
    cell: float = float("nan")
    margin: float = float("nan")
    why: str = ""


def errors_of_methods(spec: Spec, plan: Plan, area: Area, centre: Ints) -> tuple[MethodErrors, ...]:
    """Return the errors to expect of the spec's release by its own method, and by the others."""
    out = [_method_errors(plan, area, centre)]
    for method in METHODS:
        if method != plan.law.method:
            try:
                other = replace(spec, method=method, rule=None).mechanism.plan(plan.law.areas)
                other.check_samplers()
                out.append(_method_errors(other, area, centre))
            except CongenialError as refused:
                out.append(MethodErrors(method, why=str(refused)))
    return tuple(out)


def _method_errors(plan: Plan, area: Area, centre: Ints) -> MethodErrors:
    expected = expected_error(plan, area, centre, "")
    margins = np.array([value for _, value in expected.margins if value > NO_ERROR])
    return MethodErrors(plan.law.method, _size(expected.cells), _size(margins) if margins.size else float("nan"))


# Which budget reaches a target error. Public: errors are those around a public table.

OF = ("cells", "margins", "areas")
"""What a target error can be of: single cells, numbers by a single dimension, and cells added up over all areas."""

_TEXTS = {
    "cells": "a single cell",
    "margins": "a number by a single dimension",
    "areas": "a cell added up over all areas",
}
_LEAST, _MOST = Fraction(1, 1000), Fraction(1000)
_SMALLEST = 0.001
_CLOSE = 0.01  # budgets are found to a percent, and rounded up to three digits
_MOST_STEPS = 12
_MOST_AREAS, _DRAWS = 200, 40  # areas whose sum is simulated, as many times each; more areas are scaled up


@dataclass(frozen=True)
class ErrorTarget:
    """An error to reach.

    Attributes
    ----------
    error : float
        Root mean squared error, in people; of a measured tree the mean absolute error, which is 0.8 of it.
    of : str
        One of `OF`.
    level : str or None
        Of a tree, the level whose cells it is about; the lowest if not given.
    """

    error: float
    of: str = "cells"
    level: str | None = None

    def __post_init__(self) -> None:
        if not _SMALLEST <= self.error < inf:
            raise StudyError(f"an error to reach is a number from {_SMALLEST:g} on, such as 5, not {self.error:g}")
        if self.of not in OF:
            raise StudyError(f"an error can be asked for of {', '.join(OF)}, not of {self.of!r}")

    @property
    def text(self) -> str:
        """What the error is, and of what."""
        if self.level is not None:
            return f"mean absolute error of {self.error:g} for a cell's estimate of a {self.level}"
        return f"root mean squared error of {self.error:g} for {_TEXTS[self.of]}"


@dataclass(frozen=True)
class TargetBudget:
    """The budget that reaches a target.

    Attributes
    ----------
    now : float
        The error with the budget of the spec.
    budget : Budget or None
        The least that was found to reach it; None where none between a thousandth and a thousand does.
    error : float
        The error with it, or with the largest budget that was tried.
    """

    target: ErrorTarget
    requested: Budget
    now: float
    budget: Budget | None
    error: float

    @property
    def lines(self) -> list[str]:
        """The answer in words."""
        wanted = f"a {self.target.text}"
        now = f"the spec's {self.requested.amount} gives {self.now:.3g}"
        if self.budget is None:
            return [f"No budget up to {_MOST} reaches {wanted}: it is {self.error:.3g} even then; {now}."]
        if self.budget.limit <= _LEAST:
            why = "it" if self.target.level else "so few people are in play that it"
            return [f"Every budget reaches {wanted}: {why} is {self.error:.3g} at most; {now}."]
        name = "epsilon" if self.budget.rho is None else "rho"
        written = f"{name}: {_plain(self.budget.limit)}"
        if self.budget.delta is not None:
            written += f", delta: {_plain(self.budget.delta)}"
        return [
            f"{wanted[0].upper()}{wanted[1:]} needs {self.budget.amount}, which gives {self.error:.3g}; {now}.",
            f"In the spec: budget: {{{written}}}",
        ]

    def as_json(self) -> dict[str, object]:
        """Return plain values."""
        return {
            "error": self.target.error,
            "of": self.target.of,
            "level": self.target.level,
            "error_now": self.now,
            "budget": None if self.budget is None else str(self.budget.limit),
            "error_reached": self.error,
        }


@dataclass(frozen=True)
class TreeTargetBudget:
    """The budget that reaches a target of a measured tree, with the plan that it gives; none where no budget does."""

    found: TargetBudget
    plan: Plan | None
    levels: tuple[EstimateErrors, ...]


def find_tree_budget(spec: Spec, plan: Plan, target: ErrorTarget, progress: Progress = silent) -> TreeTargetBudget:
    """Return the least budget with which a cell of a level of a measured tree has the target error, in closed form.

    Parameters
    ----------
    plan : Plan
        Of the spec: its tree and exact numbers are those of every budget.
    """
    law, budget = plan.law, spec.budget
    if budget is None:
        raise StudyError("every level has a precision of its own, so no budget sets the error; give one instead")
    place = len(law.tree.levels) - 1 if target.level is None else law.tree.level_of(target.level)
    target = replace(target, level=law.tree.levels[place])
    errors, request = TreeErrors(law), spec.tree_mechanism(law.tree, law.zeros, law.across)
    certified, k = tree_to_certify(law, plan.neighbours)

    def error_at(amount: Fraction) -> float:
        try:
            precisions = request.precisions_of(_with_amount(budget, amount), certified, k)
        except PrivacyError:  # too small to measure anything
            return inf
        return errors.at(cell_noises(law, precisions))[place].typical

    progress("trying budgets")
    now = error_at(budget.limit)
    amount, error = _least(error_at, budget.limit, now, target.error)
    if amount is None:
        return TreeTargetBudget(TargetBudget(target, budget, now, None, error), None, ())
    reached = _with_amount(budget, amount)
    chosen = replace(spec, epsilon=amount) if budget.rho is None else replace(spec, rho=amount)
    disclosed = TreeInvariants(law.areas, law.exact_below)
    other = chosen.tree_mechanism(law.tree, law.zeros, law.across).plan(disclosed)
    return TreeTargetBudget(TargetBudget(target, budget, now, reached, error), other, tree_errors(other))


def _with_amount(budget: Budget, amount: Fraction) -> Budget:
    return replace(budget, epsilon=amount) if budget.rho is None else replace(budget, rho=amount)


def find_budget(
    spec: Spec, areas: Areas, centres: Mapping[Area, Ints], target: ErrorTarget, progress: Progress = silent
) -> TargetBudget:
    """Return the least budget whose release has the target error.

    Parameters
    ----------
    areas : Areas
        What the spec's invariants disclose.
    centres : mapping from area to array (cell,)
        Public tables: errors are computed around the middle one of them.
    """
    budget = spec.budget
    if budget is None:
        raise StudyError(
            "every measured query has a precision of its own, so no budget sets the error; give one instead"
        )
    if target.of == "areas" and spec.by is None:
        raise StudyError("there is one table, and no areas to add up; ask for cells or margins")
    measure = _error_of(target, areas, centres)
    n_steps = 0

    def error_at(amount: Fraction) -> float:
        nonlocal n_steps
        progress("trying budgets", n_steps, _MOST_STEPS)
        n_steps += 1
        chosen = replace(spec, epsilon=amount) if budget.rho is None else replace(spec, rho=amount)
        try:
            return measure(chosen.mechanism.plan(areas))
        except PrivacyError:  # too small to measure anything
            return inf

    now = error_at(budget.limit)
    amount, error = _least(error_at, budget.limit, now, target.error)
    reached = None if amount is None else _with_amount(budget, amount)
    return TargetBudget(target, budget, now, reached, error)


def _least(
    error_at: Callable[[Fraction], float], start: Fraction, now: float, wanted: float
) -> tuple[Fraction | None, float]:
    """Return about the least amount whose error is at most the one that is wanted, and its error.

    Errors fall with the budget, nearly as a power of it: the next amount lies on the line through the two nearest ones
    on logarithmic scales, and never at their ends.
    """
    low, high, low_error, high_error = start, start, now, now
    while high_error > wanted:
        if high >= _MOST:
            return None, high_error
        low, low_error = high, high_error
        high = min(_MOST, 4 * high)
        high_error = error_at(high)
    if low_error <= wanted and (least := error_at(_LEAST)) <= wanted:
        return _LEAST, least
    while low_error <= wanted:
        high, high_error = low, low_error
        low = max(_LEAST, low / 4)
        low_error = error_at(low)
    for _ in range(_MOST_STEPS):
        span = log(high / low)
        if span < _CLOSE:
            break
        part = 0.5 if low_error == inf or not high_error else log(low_error / wanted) / log(low_error / high_error)
        middle = _rounded_up(low * Fraction(exp(span * min(0.9, max(0.1, part)))))
        if not low < middle < high:
            break
        error = error_at(middle)
        if error <= wanted:
            high, high_error = middle, error
        else:
            low, low_error = middle, error
    return high, high_error


def _error_of(target: ErrorTarget, areas: Areas, centres: Mapping[Area, Ints]) -> Callable[[Plan], float]:
    """Return what computes the error of a plan."""
    if target.of == "areas":
        return lambda plan: _error_of_sums(plan, areas)
    area, centre = list(centres.items())[len(centres) // 2]

    def error(plan: Plan) -> float:
        expected = expected_error(plan, area, centre, "")
        if target.of == "cells":
            return _size(expected.cells)
        errors = np.array([value for _, value in expected.margins if value > NO_ERROR])
        if not errors.size:
            raise StudyError("no number by a single dimension has an error that can be computed here; ask for cells")
        return _size(errors)

    return error


def _error_of_sums(plan: Plan, areas: Areas) -> float:
    """Estimate the error of cells added up over all areas, from repeatable draws around even tables."""
    places = np.unique(np.linspace(0, len(areas) - 1, min(len(areas), _MOST_AREAS)).astype(np.int64))
    bias, variance = np.zeros(plan.law.schema.n_cells), np.zeros(plan.law.schema.n_cells)
    rng = replay_rng("errors of sums")
    for place in places.tolist():
        area = areas.labels[place]
        centre = even_table(plan.law, areas[area])
        gaps = (plan.sampler_of(area).at(centre).sample(_DRAWS, rng) - centre).astype(np.float64)
        bias += gaps.mean(axis=0)
        variance += gaps.var(axis=0, ddof=1)
    times = len(areas) / len(places)
    # The square of an estimated bias is too large by the variance of the estimate.
    squares = np.maximum((times * bias) ** 2 - times**2 * variance / _DRAWS, 0.0) + times * variance
    return _size(np.sqrt(squares))


def _size(errors: Floats) -> float:
    return sqrt(float((errors**2).mean()))


def _rounded_up(amount: Fraction) -> Fraction:
    """Return an amount of three digits that is no less.

    Examples
    --------
    >>> _rounded_up(Fraction(1, 3)), _rounded_up(Fraction(2))
    (Fraction(167, 500), Fraction(2, 1))
    """
    unit = Fraction(10) ** (floor(log(amount) / log(10)) - 2)
    return -(-amount // unit) * unit


def _plain(amount: Fraction) -> str:
    return f"{float(amount):.12g}"


# What can be drawn instead of a design that is out of reach: the spec with one thing changed, tried out. Public.

TRYING = "it cannot be drawn; looking for what can"
"""The step in which other designs are tried."""

_MOST_NAMED = 3
_MOST_LEFT_OUT = 6  # invariants that are left out one by one


@contextmanager
def ways_out_named(spec: Spec, tables: Table | Mapping[str, Table], progress: Progress = silent) -> Iterator[None]:
    """Add to a refusal of the samplers which designs near to the spec's can be drawn.

    Parameters
    ----------
    tables : Table or mapping of areas
        Confidential. What the spec's own invariants disclose of them is all that is taken, or less.
    """
    try:
        yield
    except (SamplingError, TooLargeError) as refused:
        progress(TRYING)
        changes = ways_out(spec, tables)
        if not changes:
            raise
        raise type(refused)(f"{refused}. This can be drawn: {'; or '.join(changes)}") from None


def ways_out(spec: Spec, tables: Table | Mapping[str, Table]) -> list[str]:
    """Return changes of a spec after which it can be drawn, in words: other noise first, then fewer exact numbers."""
    changes: list[str] = []
    for text, other in _changes(spec):
        if len(changes) < _MOST_NAMED and _is_drawn(other, tables):
            changes.append(text)
    return changes


def _changes(spec: Spec) -> Iterator[tuple[str, Spec]]:
    invariants = spec.invariants
    if spec.noise == DEFAULT and spec.epsilon is not None and spec.delta is None:
        rho = Fraction(spec.epsilon) ** 2 / 2  # what a pure epsilon is at most in rho
        yield (
            f"`noise: discrete_gaussian` with `budget: {{rho: {rho}}}`",
            replace(spec, noise="discrete_gaussian", epsilon=None, rho=rho),
        )
    for text, other in _without_one(spec, _MOST_LEFT_OUT):
        yield f"the same {text}", other
    if 2 < len(invariants) <= _MOST_LEFT_OUT:
        for invariant in invariants:
            yield f"the same with {invariant.condition.title} alone exact", replace(spec, invariants=(invariant,))
    if invariants:
        yield "the same with nothing exact", replace(spec, invariants=())
    if len(spec.measured) > 1:
        for query in spec.measured:
            measured = tuple(other for other in spec.measured if other is not query)
            yield f"the same with {query.title} not measured", replace(spec, measured=measured)


def _is_drawn(spec: Spec, tables: Table | Mapping[str, Table]) -> bool:
    """Whether a design is certified and can be drawn, by attempts at made-up tables where those decide."""
    try:
        plan = spec.mechanism.plan(disclosed_areas(spec, spec.mechanism, tables))
        _ = plan.certificate
        plan.check_samplers()
        if not all(sampler.has_predictable_time for sampler in plan.samplers):
            plan.dry_run()
    except CongenialError:
        return False
    return True
