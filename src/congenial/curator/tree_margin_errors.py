"""How far margins of a measured tree without cells are off, in closed form and from public structure alone.

Each component of a margin is a tree of its own for the rule *margins*, in which variances go up and down as those of
cells do (`congenial.curator.tree_estimate_errors`). A cell of a margin over S is the sum of its components over the
subsets U of S, with ``prod(1 - 1/n_a, a in U) / prod(n_a^2, a in S outside U)`` times the variance of each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import pi, prod, sqrt

from congenial.curator.tree_estimate_errors import NoiseVariance, estimate_variances
from congenial.decided_tables import exact_cell_sums, variance_in_rule
from congenial.plan import Plan
from congenial.rules.workload.margins import Axes, subsets
from congenial.tree_margins import exact_components, measured_margins


@dataclass(frozen=True)
class MarginErrors:
    """Standard deviations of one measured margin at one level; the roots of mean variances where units differ.

    Attributes
    ----------
    level : str
    n_units : int
    share : Fraction, optional
        Of the budget that the level gets.
    margin : str
    measured, estimate : float
        Of a cell of the margin of a unit, as measured and as estimated from all levels and margins together.
    total : float
        Of the estimate of a unit's total.
    """

    level: str
    n_units: int
    share: Fraction | None
    margin: str
    measured: float
    estimate: float
    total: float

    @property
    def typical(self) -> float:
        """The mean absolute error of an estimate, whose errors are nearly normal."""
        return sqrt(2 / pi) * self.estimate


def margin_errors(plan: Plan) -> tuple[MarginErrors, ...]:
    """Return the errors of every margin that a planned tree measures in place of cells, level by level.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes([f"{county}{block}" for county in "12" for block in "abc"], {"county": 1}, "block")
    >>> schema = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    >>> measure = [cg.margin("sex"), cg.margin("age")]
    >>> hierarchy = cg.Hierarchy(tree, schema, measure=measure, invariants=[cg.total()], rho="1/2")
    >>> plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4, 2, 1]] * 6)))
    >>> for error in margin_errors(plan)[::2]:
    ...     print(f"{error.level}, {error.margin}: noise {error.measured:.2f}, estimate {error.estimate:.2f}")
    county, margin of sex: noise 1.69, estimate 1.58
    block, margin of sex: noise 3.16, estimate 2.64
    """
    law = plan.law
    sizes, starts = law.schema.shape, [families.starts for families in law.tree.families]
    margins = [margin.axes for margin in measured_margins(law)]
    exact = [exact_components(sizes, rows) for rows in exact_cell_sums(law)]
    noise = [_noise_of_parts(plan, level, margins) for level in range(len(exact))]
    estimates = list[dict[Axes, float]](dict[Axes, float]() for _ in exact)
    for part in dict.fromkeys(some for axes in margins for some in subsets(axes)):
        first = next((level for level, parts in enumerate(exact) if part not in parts), None)
        if first is None:
            continue
        # Above its first noisy level a component has none, whatever stands here.
        of_levels = [of_parts.get(part, NoiseVariance(1.0, 1.0)) for of_parts in noise]
        for level, variances in enumerate(estimate_variances(starts, of_levels, first), first):
            estimates[level][part] = float(variances.mean())
    out = []
    for number, of_plan in enumerate(plan.levels[: len(exact)]):
        measured = {part: some.actual for part, some in noise[number].items() if part not in exact[number]}
        total = sqrt(estimates[number].get((), 0.0))
        for axes, query in zip(margins, law.queries, strict=True):
            noise_of_cell, error = (_of_cell(parts, axes, sizes) for parts in (measured, estimates[number]))
            facts = law.tree.levels[number], law.tree.n_units[number], of_plan.share, query.text
            out.append(MarginErrors(*facts, noise_of_cell, error, total))
    return tuple(out)


def _noise_of_parts(plan: Plan, level: int, margins: list[Axes]) -> dict[Axes, NoiseVariance]:
    """Return the variance of each component as the margins of a level say it together: noise that agrees does."""
    law = plan.law
    sizes, precisions, actual = law.schema.shape, dict[Axes, float](), dict[Axes, float]()
    for axes, query in zip(margins, law.queries_of_levels[level], strict=True):
        if query.precision:
            noise = law.family(query.precision)
            for part in subsets(axes):
                weight = 1 / (variance_in_rule(noise) * prod(sizes[axis] for axis in axes if axis not in part))
                precisions[part] = precisions.get(part, 0.0) + weight
                ratio = float(noise.variance) / variance_in_rule(noise)
                actual[part] = actual.get(part, 0.0) + weight * ratio
    return {part: NoiseVariance(1 / known, actual[part] / known**2) for part, known in precisions.items()}


def _of_cell(variances: Mapping[Axes, float], axes: Axes, sizes: tuple[int, ...]) -> float:
    """Return the standard deviation of a cell of a margin, given the variance of its components."""
    total = 0.0
    for part in subsets(axes):
        inside = prod(1 - 1 / sizes[axis] for axis in part)
        outside = prod(sizes[axis] ** 2 for axis in axes if axis not in part)
        total += variances.get(part, 0.0) * inside / outside
    return sqrt(total)
