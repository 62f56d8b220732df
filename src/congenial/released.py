"""What was released: the drawn tables, their plan and the receipt of the charge. Public."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.arrays import Ints
from congenial.bundle.manifest import Manifest
from congenial.bundle.naming import Naming
from congenial.conditions.areas import Area
from congenial.conditions.condition import Condition
from congenial.disk import flush_folder
from congenial.errors import BundleError
from congenial.hierarchy.plan import ChainPlan
from congenial.ledger.receipt import Receipt
from congenial.plan import Plan
from congenial.privacy.certificate import shown
from congenial.privacy.review import Review
from congenial.progress import Progress, no_news

if TYPE_CHECKING:
    from congenial.bundle.writing import Unfinished

OUTPUTS = ("csv", "parquet", "report")


@dataclass(frozen=True, repr=False)
class Release:
    """One draw for each area, with the plan it follows and the receipt of its charge. Public.

    Attributes
    ----------
    plan : Plan
        Of a tree, the plan of its top.
    naming : Naming
    conditions : tuple of Condition
        What every table obeys, as it was stated; of a tree, the units at the top.
    receipt : Receipt or None
        None for a simulation, which protects nobody.
    counts : array (area, cell)
        The drawn tables, in the order of the areas.
    made_at : str
    software : mapping
        The versions of whatever decides a byte of a bundle.
    below : tuple of arrays (unit, cell)
        Of a tree, the drawn tables of each level below the top; `counts` are those of the top.
    chain : ChainPlan or None
        The plan of a tree.
    """

    plan: Plan
    naming: Naming
    conditions: tuple[Condition, ...]
    receipt: Receipt | None
    counts: Ints = field(repr=False)
    made_at: str
    software: Mapping[str, str]
    below: tuple[Ints, ...] = ()
    chain: ChainPlan | None = None
    reviews: tuple[Review, ...] = field(default=(), repr=False)
    """What the exact numbers give away; looked for when it is not given."""

    @property
    def tables(self) -> Mapping[Area, Ints]:
        """The drawn table of each area, cell by cell; of a tree, of each unit at the top."""
        return self.plan.law.areas.by_label(self.counts)

    @cached_property
    def manifest(self) -> Manifest:
        """Everything that is published beside the tables."""
        return Manifest.of(
            self.naming,
            self.made_at,
            self.chain or self.plan,
            self.conditions,
            self.counts,
            self.receipt,
            self.software,
            self.reviews,
        )

    def write(
        self,
        folder: str | Path,
        *,
        outputs: tuple[str, ...] = OUTPUTS,
        sign: str | Path | None = None,
        progress: Progress = no_news,
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
        from congenial.bundle.writing import check_new, write_folder

        place = Path(folder)
        unknown = [name for name in outputs if name not in OUTPUTS]
        if unknown:
            raise BundleError(f"{unknown[0]!r} is not an output; write some of {', '.join(OUTPUTS)}")
        check_new(place)
        write_folder(place, self._files(outputs, sign, progress))
        return place

    def is_written(self, folder: Path, *, outputs: tuple[str, ...] = OUTPUTS, sign: str | Path | None = None) -> bool:
        """Return whether this very bundle is in a folder already; refuses a folder that holds anything else."""
        from congenial.bundle.writing import is_folder_of

        if not os.path.lexists(folder):
            return False
        if not is_folder_of(folder, self._files(outputs, sign)):
            raise BundleError(f"{folder} is there already, and is not the bundle of this release; move it away")
        flush_folder(folder)
        flush_folder(folder.absolute().parent)
        return True

    def _files(
        self, outputs: tuple[str, ...], sign: str | Path | None, progress: Progress = no_news
    ) -> Callable[["Unfinished"], None]:
        from congenial.bundle import contents
        from congenial.bundle.signing import read_private_key

        key = None if sign is None else read_private_key(Path(sign))
        return lambda out: contents.bundle_files(
            out, self.manifest, self.counts, tuple(outputs), key, self.below, progress
        )

    def __repr__(self) -> str:
        kind = "release" if self.receipt is not None else "NOT FOR RELEASE, a simulation:"
        what = self.plan.law.areas if self.chain is None else self.chain.law.tree
        paid = "" if self.receipt is None else f", charged {self.receipt.currency} {shown(self.receipt.loss)}"
        return f"{kind} {self.naming.release!r} of dataset {self.naming.dataset!r}: {what}{paid}"
