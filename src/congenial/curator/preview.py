"""What a release will publish, cost and protect, computed before anything is spent. Public."""

from dataclasses import dataclass
from pathlib import Path

from congenial.bundle.expected_error import ExpectedError, expected_error
from congenial.curator.given_away import given_away_lines
from congenial.curator.pipeline import prepare
from congenial.curator.public_tables import UNIFORM, read_reference, typical_tables
from congenial.errors import ReadingError
from congenial.plan import Plan
from congenial.privacy.review import Review
from congenial.reading.files import find_files
from congenial.spec.spec import Spec


@dataclass(frozen=True, repr=False)
class Preview:
    """A plan with its meaning and the error to expect around a public table."""

    spec: Spec
    plan: Plan
    errors: tuple[ExpectedError, ...]
    digest: str
    reviews: tuple[Review, ...]
    """What the invariants give away by themselves."""
    rehearsed: tuple[str, ...] = ()
    """What attempts at made-up tables promise, where the time of a draw depends on more than the structure."""

    @property
    def seconds(self) -> float:
        """About how long a draw of all areas takes on one core, from its number of operations."""
        groups = zip(self.plan.law.areas.groups, self.plan.samplers, strict=True)
        return sum(len(group.places) * sampler.seconds for group, sampler in groups)

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        return "person" if self.spec.unit is None else self.spec.unit.word

    @property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away, in words: no noise protects them."""
        return given_away_lines(self.reviews, self.unit)


def preview(spec: Spec, folder: Path, reference: Path | None = None) -> Preview:
    """Return what a spec will do. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    folder : path
        The folder of the spec, where its paths start.
    reference : path, optional
        A CSV with a public table of one area; errors are computed around it.
    """
    if reference is not None and spec.data.status == "confidential" and _is_data(spec, folder, reference):
        raise ReadingError(
            "the reference is a data file of the spec itself, which is confidential; give a public table"
        )
    ready = prepare(spec, folder)
    plan = ready.plan
    # Before any draw around a reference, which would have no end where a system is out of reach.
    rehearsed = () if all(sampler.is_steady for sampler in plan.samplers) else tuple(plan.rehearse())
    if reference is not None:
        centres = {plan.law.areas.labels[0]: read_reference(plan.law, reference)}
    else:
        centres = typical_tables(plan.law)
    name = UNIFORM if reference is None else reference.name
    errors = tuple(expected_error(plan, area, centre, name) for area, centre in centres.items())
    return Preview(spec, plan, errors, ready.digest, ready.reviews, rehearsed)


def _is_data(spec: Spec, folder: Path, reference: Path) -> bool:
    files = find_files(spec.data.paths, folder)
    return reference.exists() and any(file.samefile(reference) for file in files)
