"""Several tables of the same records beside two other ways to release them, at the same budget, on public records.

One release of each table by itself at a part of the budget, and one of all dimensions together where that has at most
10,000 cells, of which tables are sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import process_time

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.base import Condition
from congenial.conditions.queries import Margin, Query, cells, margin, total
from congenial.errors import CongenialError, StudyError
from congenial.progress_and_interrupts import Progress, silent
from congenial.randomness import RandomStream, secure_rng
from congenial.schema import Schema
from congenial.study.compare import SOURCES
from congenial.study.paper.exhibits_table_1_and_figures import Columns, PrintedTable, check_new_folder, write_csv
from congenial.workload.law import dimensions_of
from congenial.workload.plan import WorkloadPlan
from congenial.workload.records import Records
from congenial.workload.workload import Workload, as_record_schema

TOGETHER, APART, HISTOGRAM = "together", "apart", "histogram"
WAYS = (TOGETHER, APART, HISTOGRAM)
"""Ways to release several tables: measured together, each by itself, or as sums of one table of all dimensions."""

_MOST_CELLS = 10_000  # of all dimensions together: drawing their noise takes memory by the square of it


@dataclass(frozen=True)
class WayResult:
    """What one way did.

    Attributes
    ----------
    errors : array (release, table)
        The mean absolute error of the cells of each table.
    disagreement : array (release,)
        The largest difference between two tables in a number that both have.
    seconds : float
        CPU time of one release, the median.
    """

    name: str
    spent: str
    change: str
    errors: Floats
    disagreement: Floats
    seconds: float


@dataclass(frozen=True, repr=False)
class WorkloadComparison:
    """Results by way and table.

    Attributes
    ----------
    tables : tuple of str
    left_out : dict from a way's name to text
        Ways that these tables or this budget do not allow, each with the reason.
    """

    results: tuple[WayResult, ...]
    tables: tuple[str, ...]
    n_releases: int
    left_out: dict[str, str]

    is_confidential = False

    @property
    def summary(self) -> Columns:
        """One line for each way and table."""
        lines = [(result, number) for result in self.results for number in range(len(self.tables))]
        return {
            "way": [result.name for result, _ in lines],
            "certified_loss": [result.spent for result, _ in lines],
            "change": [result.change for result, _ in lines],
            "table": [self.tables[number] for _, number in lines],
            "mean_absolute_error": [float(result.errors[:, number].mean()) for result, number in lines],
            "standard_error": [_standard_error(result.errors[:, number]) for result, number in lines],
            "largest_disagreement": [float(result.disagreement.max()) for result, _ in lines],
            "cpu_seconds_a_release": [result.seconds for result, _ in lines],
        }

    @property
    def printed(self) -> PrintedTable:
        """The results to read."""
        lines = tuple(
            (
                result.name,
                *(f"{e.mean():,.2f} ({_standard_error(e):.2f})" for e in result.errors.T),
                "agree" if not result.disagreement.any() else f"differ by up to {result.disagreement.max():,.0f}",
                f"{result.spent} for {result.change}",
                f"{result.seconds:.2g}",
            )
            for result in self.results
        )
        caption = (
            f"Mean absolute error of a cell, with its standard error over {self.n_releases} releases; do tables agree"
        )
        return PrintedTable(caption, ("way", *self.tables, "shared numbers", "certified together", "CPU s"), lines)

    def __repr__(self) -> str:
        left_out = [f"{way} is left out: {why}" for way, why in self.left_out.items()]
        return "\n".join([self.printed.text, *left_out])


def _standard_error(errors: Floats) -> float:
    return float(errors.std(ddof=1) / np.sqrt(len(errors))) if len(errors) > 1 else float("nan")


def compare_workload(
    workload: Workload,
    records: Records,
    *,
    source: str,
    n_releases: int = 3,
    out: Path | None = None,
    rng: RandomStream | None = None,
    progress: Progress = silent,
) -> WorkloadComparison:
    """Release the tables of public or simulated records again and again, in each way at the budget of the workload.

    Parameters
    ----------
    source : str
        ``"public"`` or ``"simulated"``.
    out : path, optional
        A new folder for the numbers as CSV.

    Examples
    --------
    >>> import congenial as cg
    >>> workload = cg.Workload(
    ...     {"county": ["north", "south"], "sex": ["f", "m"], "ill": ["yes", "no"]},
    ...     tables={"by sex": cg.margin("county", "sex"), "by illness": cg.margin("county", "ill")},
    ...     rho="1",
    ... )
    >>> records = cg.Records.of_cells(workload.schema, np.arange(800) % 8)
    >>> result = compare_workload(workload, records, source="simulated", n_releases=2, rng=cg.replay_rng(1))
    >>> [(way.name, bool(way.disagreement.any())) for way in result.results]
    [('together', False), ('apart', True), ('histogram', False)]
    """
    if source not in SOURCES:
        raise StudyError(
            'tables of the same records are compared on public or simulated data alone: source="public" or "simulated"'
            " (in a spec: data status). Of confidential data congenial plan says errors without looking at them"
        )
    if type(n_releases) is not int or n_releases < 2:
        raise StudyError(f"n_releases is a whole number from 2 on, not {n_releases!r}")
    if workload.budget is None:
        raise StudyError("ways are compared at the same budget: give the workload one in place of precisions")
    if out is not None:
        check_new_folder(out)
    stream = secure_rng() if rng is None else rng
    planned = {TOGETHER: lambda: [workload], APART: lambda: _apart(workload), HISTOGRAM: lambda: _histogram(workload)}
    results, left_out = [], dict[str, str]()
    for way, requests in planned.items():
        try:
            results.append(_released(way, workload, requests, records, n_releases, stream, progress))
        except CongenialError as refused:
            left_out[way] = str(refused)
    result = WorkloadComparison(tuple(results), tuple(_names(workload)), n_releases, left_out)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_csv(out / "comparison.csv", result.summary)
    return result


def _names(workload: Workload) -> list[str]:
    return [table.name for table in workload.tables if table.is_published]


def _request(
    workload: Workload, schema: Schema, tables: dict[str, Query], invariants: Sequence[Condition], share: Fraction
) -> Workload:
    """Return a workload with other tables at a part of the budget; nothing is shared out in another way."""
    budget = workload.budget
    assert budget is not None  # noqa: S101
    return Workload(
        schema,
        tables=tables,
        invariants=invariants,
        noise=workload.noise,
        delta=None if budget.delta is None else budget.delta * share,
        neighbours=workload.neighbours,
        epsilon=None if budget.epsilon is None else budget.epsilon * share,
        rho=None if budget.rho is None else budget.rho * share,
        protects=workload.protects,
    )


def _apart(workload: Workload) -> list[Workload]:
    """Return one release a table. They are charged one by one, so each has the same part of the budget."""
    published = [table for table in workload.tables if table.is_published]
    share = Fraction(1, len(published))
    return [
        _request(
            *(workload, workload.schema.part(table.dimensions), {table.name: margin(*table.dimensions)}),
            *(_inside(workload.invariants, table.dimensions), share),
        )
        for table in published
    ]


def _inside(invariants: Sequence[Condition], dimensions: Sequence[str]) -> list[Condition]:
    """Return what is exact inside a table: of an exact margin that is not, the margin of what both have."""
    out: list[Condition] = []
    for condition in invariants:
        names = dimensions_of(condition)
        shared = [name for name in names if name in dimensions]
        if len(shared) == len(names):
            out.append(condition)
        elif isinstance(condition, Margin) and condition.where is None:
            out.append(margin(*shared) if shared else total())
    return [condition for number, condition in enumerate(out) if condition not in out[:number]]


def _histogram(workload: Workload) -> list[Workload]:
    if workload.schema.n_cells > _MOST_CELLS:
        raise StudyError(f"all dimensions together have {workload.schema.n_cells:,} cells, more than {_MOST_CELLS:,}")
    return [_request(workload, workload.schema, {"all dimensions": cells()}, workload.invariants, Fraction(1))]


def _released(
    way: str,
    workload: Workload,
    requests: Callable[[], list[Workload]],
    records: Records,
    n_releases: int,
    rng: RandomStream,
    progress: Progress,
) -> WayResult:
    asked = requests()
    parts = [_part(records, request.schema) for request in asked]
    plans = [request.plan(request.disclose(part)) for request, part in zip(asked, parts, strict=True)]
    counts = [request.counts_of(part) for request, part in zip(asked, parts, strict=True)]
    published = [table for table in workload.tables if table.is_published]
    truths = [records.margin(table.dimensions) for table in published]
    errors, disagreement, seconds = [], [], []
    for number in range(n_releases):
        progress(f"releasing: {way}", number, n_releases)
        start = process_time()
        made_up = [
            plan.decide(plan.draw(confidential, rng)).records for plan, confidential in zip(plans, counts, strict=True)
        ]
        seconds.append(process_time() - start)
        of = list(zip(plans, made_up, strict=True))
        of = of if len(of) == len(published) else of * len(published)
        tables = [_counts(plan, drawn, table.dimensions) for (plan, drawn), table in zip(of, published, strict=True)]
        errors.append([float(np.abs(table - truth).mean()) for table, truth in zip(tables, truths, strict=True)])
        disagreement.append(_largest_difference([table.dimensions for table in published], tables))
    spent = plans[0].spent.text if len(plans) == 1 else f"{len(plans)} times {plans[0].spent.text}"
    changes = dict.fromkeys(plan.certificate.change for plan in plans)
    facts = (np.array(errors), np.array(disagreement), float(np.median(seconds)))
    return WayResult(way, spent, ", ".join(changes), *facts)


def _part(records: Records, schema: Schema) -> Records:
    """Return the records in some of their dimensions."""
    if schema == records.schema:
        return records
    counts = records.margin(schema.names).reshape(-1)
    return Records.of_cells(as_record_schema(schema), np.arange(len(counts)), counts)


def _counts(plan: WorkloadPlan, records: Ints, dimensions: Sequence[str]) -> Ints:
    axes = plan.law.axes(dimensions)
    shape = tuple(plan.law.schema.shape[axis] for axis in axes)
    places = np.ravel_multi_index(tuple(records[:, axis] for axis in axes), shape)
    return np.bincount(places, minlength=int(np.prod(shape))).reshape(shape)


def _largest_difference(dimensions: Sequence[Sequence[str]], tables: Sequence[Ints]) -> float:
    """Return the largest difference between two tables in their common margin."""
    largest = 0
    for one, (names, table) in enumerate(zip(dimensions, tables, strict=True)):
        for others, other in zip(dimensions[one + 1 :], tables[one + 1 :], strict=True):
            shared = [name for name in names if name in others]
            sums = [
                each.sum(axis=tuple(axis for axis, name in enumerate(mine) if name not in shared))
                for mine, each in ((names, table), (others, other))
            ]
            largest = max(largest, int(np.abs(sums[0] - sums[1]).max()))
    return float(largest)
