"""What was released: drawn tables, or measurements and what a rule makes of them, with plan and receipt. Public."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.arrays import Ints
from congenial.bundle.manifest import Decision, Manifest, points_of
from congenial.bundle.naming_and_versions import Naming
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.base import Condition
from congenial.disk_and_gzip import flush_folder
from congenial.errors import BundleError, CongenialError
from congenial.ledger.records import Receipt
from congenial.plan import Plan
from congenial.privacy.certificate import shown
from congenial.privacy.disclosure import Disclosure
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.rule_and_input import Learned
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from congenial.bundle.write import Unfinished

OUTPUTS = ("csv", "parquet", "report")


@dataclass(frozen=True, repr=False)
class Release:
    """One draw for each unit of each level, with the plan it follows and the receipt of its charge. Public.

    Attributes
    ----------
    plan : Plan
    naming : Naming
    conditions : tuple of Condition
        What every table obeys, as it was stated; of a tree, the units at the top.
    receipt : Receipt or None
        None for a simulation, which protects nobody.
    drawn : tuple of arrays (unit, cell), or (unit, row)
        What was drawn of each level, in the order of its units; one table and areas are one level. Of a measured
        release, its measurements.
    made_at : str
    software : mapping
        The versions of whatever decides a byte of a bundle.
    """

    plan: Plan
    naming: Naming
    conditions: tuple[Condition, ...]
    receipt: Receipt | None
    drawn: TreeTables = field(repr=False)
    made_at: str
    software: Mapping[str, str]
    disclosures: tuple[Disclosure, ...] = field(default=(), repr=False)
    """What the exact numbers disclose; computed when it is not given."""

    @cached_property
    def _decided(self) -> tuple[TreeTables | None, str, Learned]:
        """The tables, why there are none, what was learned: a rule that fails must not cost paid measurements."""
        if not self.plan.law.is_measured:
            return self.drawn, "", {}
        try:
            tables, learned = self.plan.decide_and_learn(self.drawn)
        except CongenialError as refused:
            return None, str(refused), {}
        except Exception as failed:  # noqa: BLE001
            return None, f"internal error ({type(failed).__name__})", {}
        return tables, "", learned

    @property
    def measurements(self) -> Ints | None:
        """Of a measured release, the measurements (area, row) of its first level; None of a conditional one."""
        return self.drawn[0] if self.plan.law.is_measured else None

    @property
    def why_no_tables(self) -> str:
        """Why the rule made no tables of the measurements; nothing where there are tables."""
        return self._decided[1]

    @property
    def levels(self) -> TreeTables:
        """The published tables of each level (unit, cell), in the order of its units."""
        if self._decided[0] is None:
            raise BundleError(f"this release has measurements and no table: {self.why_no_tables}")
        return self._decided[0]

    @property
    def counts(self) -> Ints:
        """The published tables of the first level (area, cell), in the order of the areas."""
        return self.levels[0]

    @property
    def tables(self) -> Mapping[Area, Ints]:
        """The published table of each area, cell by cell; of a tree, of each unit at the top."""
        return self.plan.law.areas.by_label(self.counts)

    @cached_property
    def manifest(self) -> Manifest:
        """Everything that is published beside the tables."""
        rule = self.plan.law.rule
        return Manifest.of(
            self.naming,
            self.made_at,
            self.plan,
            self.conditions,
            points_of(self.plan.law.areas) if self.why_no_tables else self.counts,
            self.receipt,
            self.software,
            self.disclosures,
            None if rule is None else Decision(rule, why_no_tables=self.why_no_tables, learned=self._decided[2]),
        )

    def write(
        self,
        folder: str | Path,
        *,
        outputs: tuple[str, ...] = OUTPUTS,
        sign: str | Path | None = None,
        progress: Progress = silent,
    ) -> Path:
        """Write the bundle into a new folder, whole or not at all; may be tried again elsewhere.

        Parameters
        ----------
        outputs : tuple of str
            ``"parquet"`` and ``"report"`` besides the table as CSV.
        sign : path, optional
            A private key to sign the manifest with; see `congenial keygen`.
        progress : Progress
            Is told how many areas are written, where there are many.
        """
        from congenial.bundle.write import check_new, write_folder

        place = Path(folder)
        unknown = [name for name in outputs if name not in OUTPUTS]
        if unknown:
            raise BundleError(f"{unknown[0]!r} is not an output; write some of {', '.join(OUTPUTS)}")
        check_new(place)
        write_folder(place, self._files(outputs, sign, progress))
        return place

    def is_written(self, folder: Path, *, outputs: tuple[str, ...] = OUTPUTS, sign: str | Path | None = None) -> bool:
        """Return whether this very bundle is in a folder already; refuses a folder that holds anything else."""
        from congenial.bundle.write import is_folder_of

        if not os.path.lexists(folder):
            return False
        if not is_folder_of(folder, self._files(outputs, sign)):
            raise BundleError(f"{folder} is there already, and is not the bundle of this release; move it away")
        flush_folder(folder)
        flush_folder(folder.absolute().parent)
        return True

    def _files(
        self, outputs: tuple[str, ...], sign: str | Path | None, progress: Progress = silent
    ) -> Callable[["Unfinished"], None]:
        from congenial.bundle import write as contents
        from congenial.bundle.signing import read_private_key

        key = None if sign is None else read_private_key(Path(sign))

        def fill(out: "Unfinished") -> None:
            measured = self.drawn if self.plan.law.is_measured else ()
            if measured:  # on disk before a rule starts
                contents.measurement_files(out, self.plan.law, measured, progress)
            levels = () if self.why_no_tables else self.levels
            contents.bundle_files(out, self.manifest, levels, tuple(outputs), key, progress, measured)

        return fill

    def __repr__(self) -> str:
        kind = "release" if self.receipt is not None else "NOT FOR RELEASE, a simulation:"
        what = self.plan.law.tables_text.removesuffix(",")
        paid = "" if self.receipt is None else f", charged {self.receipt.currency} {shown(self.receipt.loss)}"
        return f"{kind} {self.naming.release!r} of dataset {self.naming.dataset!r}: {what}{paid}"
