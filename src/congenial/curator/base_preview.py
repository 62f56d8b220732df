"""What every preview of a release has, whatever is released: plan, disclosures, exact numbers. Public."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from congenial.curator.differences_from_earlier_releases import PlannedRelease
from congenial.plan import Plan
from congenial.privacy.disclosure import Disclosure, level_sentences
from congenial.spec.spec_and_hierarchy import Spec


@dataclass(frozen=True, repr=False)
class Preview(ABC):
    """A plan with what it discloses and what will be exact; the errors to expect are those of one level or a tree.

    Attributes
    ----------
    digest : str
        Of the plan.
    disclosures : tuple of Disclosure
        What the invariants disclose by themselves, level by level.
    exact : tuple of (str, str)
        What will be stated exactly, as a ledger records it; confidential until the release.
    """

    spec: Spec
    plan: Plan
    digest: str
    disclosures: tuple[Disclosure, ...]
    exact: tuple[tuple[str, str], ...]

    @property
    @abstractmethod
    def dry_run_lines(self) -> tuple[str, ...]:
        """What the dry run promises, or why a rule makes no tables."""

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def disclosure_sentences(self) -> list[str]:
        """Cells and sums that the invariants disclose, in words: no noise protects them."""
        return level_sentences(self.disclosures, self.unit)

    @property
    def seconds(self) -> float:
        """About how long a draw of the first level takes on one core, from its number of operations."""
        return len(self.plan.law.areas) * self.plan.seconds_per_area

    @property
    def is_quick(self) -> bool:
        """Whether nothing has to be said of how long a draw takes."""
        return self.seconds < 1

    def level_table(self, *, full: bool = False) -> tuple[list[str], list[list[str]], str] | None:  # noqa: ARG002
        """Header, lines and title of errors drawn at each level; None where there is one level, or they are known."""
        return None

    @property
    @abstractmethod
    def planned(self) -> PlannedRelease:
        """What earlier releases are compared with."""

    def _compared(self, errors: Mapping[str, float], kinds: Sequence[tuple[str, float]]) -> PlannedRelease:
        return PlannedRelease(self.spec.release, self.plan.certificate, self.exact, errors, tuple(kinds))
