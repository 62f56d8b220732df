"""Errors by simulation around a published table: releases of it with fresh public noise, decided by the same rule.

What a table that areas lend to each other is worth shows in no single area: the rule is run on all of them, and learns
anew from every simulated release. Nothing here sees confidential tables, and nothing is charged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.errors import StudyError
from congenial.plan import Plan
from congenial.randomness import RandomStream, replay_rng
from congenial.study.metrics import LevelTally, Metric
from congenial.study.paper.exhibits_table_1_and_figures import PrintedTable

AS_IF_TRUE = "simulated error, as if this table were the truth"


@dataclass(frozen=True)
class SimulatedErrors:
    """Metrics of simulated releases around published tables, level by level.

    Attributes
    ----------
    n_releases : int
    levels : tuple of (name, metrics)
    """

    n_releases: int
    levels: tuple[tuple[str, tuple[Metric, ...]], ...]

    def __str__(self) -> str:
        tables = []
        for name, metrics in self.levels:
            title = f"{name}: {AS_IF_TRUE} ({self.n_releases} simulated releases, standard errors in brackets)"
            rows = tuple((metric.name, metric.text) for metric in metrics)
            tables.append(PrintedTable(title, ("metric", "error"), rows).text)
        return "\n\n".join(tables)


def simulated_errors(
    plan: Plan, tables: Sequence[Ints], n_releases: int = 20, rng: RandomStream | None = None
) -> SimulatedErrors:
    """Return how far tables of simulated releases lie from published ones, which stand for the truth.

    The published tables are whole, not negative and smoother than the truth, so these errors are about those of the
    release, and as a rule a little smaller; intervals that hold for any truth come from the measurements.

    Parameters
    ----------
    plan : Plan
        Of a measured release, with the rule that made the tables.
    tables : sequence of arrays (unit, cell)
        The published tables of each level; public.
    rng : RandomStream, optional
        The same for everybody if not given.

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"age": ["0-17", "18-64", "65+"]})
    >>> areas = {f"area {n:02}": cg.Table(schema, [4 + n % 3, 9, 2]) for n in range(20)}
    >>> mechanism = cg.Mechanism(
    ...     schema, measure=[cg.cells()], invariants=[cg.total()], epsilon=1, method="measured", rule="anchored"
    ... )
    >>> plan = mechanism.plan(mechanism.disclose(areas))
    >>> counts = np.array([table.counts for table in areas.values()])
    >>> errors = simulated_errors(plan, [counts], n_releases=2)
    >>> str(errors).splitlines()[0]
    'area: simulated error, as if this table were the truth (2 simulated releases, standard errors in brackets)'
    """
    if not plan.law.is_measured:
        raise StudyError("a conditional release has no rule to run again; its expected errors are in its report")
    if n_releases < 2:
        raise StudyError(f"errors take two simulated releases or more, not {n_releases}")
    words = replay_rng("simulated errors") if rng is None else rng
    truths = [np.asarray(table, np.int64).reshape(-1, plan.law.schema.n_cells) for table in tables]
    tallies = [LevelTally(truth, n_releases, plan.law.schema) for truth in truths]
    for number in range(n_releases):
        for tally, decided in zip(tallies, plan.draw_tables(truths[-1], words), strict=True):
            tally.add(decided[None], slice(None), number)
    names = [level.name for level in plan.levels]
    return SimulatedErrors(
        n_releases, tuple((name, tally.result.metrics) for name, tally in zip(names, tallies, strict=True))
    )
