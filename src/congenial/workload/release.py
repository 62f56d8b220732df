"""A release of several tables of the same records: measurements, and what the rule makes of them. Public."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.bundle.manifest import Decision
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.errors import BundleError, CongenialError
from congenial.progress_and_interrupts import Progress, silent
from congenial.published_release import Release
from congenial.tree.tree_and_zeros import TreeTables
from congenial.workload.plan import WorkloadDecision, WorkloadPlan

if TYPE_CHECKING:
    from congenial.bundle.write import Unfinished


@dataclass(frozen=True, repr=False)
class WorkloadRelease(Release):
    """Measurements of several tables of the same records, with the plan they follow and the receipt of the charge.

    Attributes
    ----------
    drawn : tuple of arrays (1, cell)
        The measurements of every measured table.
    """

    plan: WorkloadPlan  # type: ignore[assignment]

    @cached_property
    def _decision(self) -> tuple[WorkloadDecision | None, str]:
        try:
            return self.plan.decide(self.drawn), ""
        except CongenialError as refused:
            return None, str(refused)
        except Exception as failed:  # noqa: BLE001
            return None, f"internal error ({type(failed).__name__})"

    @property
    def decision(self) -> WorkloadDecision:
        """The records that the rule made, and what it did."""
        decision, why = self._decision
        if decision is None:
            raise BundleError(f"this release has measurements and no table: {why}")
        return decision

    @property
    def why_no_tables(self) -> str:
        """Why the rule made no tables of the measurements; nothing where there are tables."""
        return self._decision[1]

    @property
    def levels(self) -> TreeTables:
        """The published tables (1, cell), in the order in which they were stated."""
        return self.decision.tables

    @cached_property
    def manifest(self) -> WorkloadManifest:
        """Everything that is published beside the tables."""
        return WorkloadManifest.of_plan(
            *(self.naming, self.made_at, self.plan, self.conditions, self.receipt, self.software, self.disclosures),
            Decision(self.plan.law.rule, why_no_tables=self.why_no_tables),
        )

    def _files(
        self, outputs: tuple[str, ...], sign: str | Path | None, progress: Progress = silent
    ) -> Callable[["Unfinished"], None]:
        from congenial.bundle.signing import read_private_key
        from congenial.bundle.workload_files import measurement_files, workload_files

        key = None if sign is None else read_private_key(Path(sign))

        def fill(out: "Unfinished") -> None:
            measurement_files(out, self.plan.law, self.drawn)  # on disk before the rule starts
            decision = None if self.why_no_tables else self.decision
            workload_files(out, self.manifest, self.drawn, decision, tuple(outputs), key, progress)

        return fill
