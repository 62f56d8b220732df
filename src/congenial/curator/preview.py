"""What a release will publish, cost and protect, computed before anything is spent. Public."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.adding_up import EXACTLY, AddingUp, adding_up, statistics
from congenial.bundle.expected_error import NO_ERROR, ExpectedError, expected_error, typical_places
from congenial.conditions.areas import Area
from congenial.curator.given_away import given_away_lines
from congenial.curator.pipeline import prepare
from congenial.curator.price import Alternative, Price, alternatives, price_of
from congenial.curator.public_tables import (
    UNIFORM,
    made_up_sums,
    reference_plan,
    typical_tables,
)
from congenial.curator.published_before import Planned
from congenial.curator.target import ErrorTarget, Reached, reach
from congenial.curator.ways_out import ways_out_named
from congenial.plan import Plan
from congenial.privacy.review import Review
from congenial.progress import Progress, no_news
from congenial.reading.reference import check_public, read_reference
from congenial.release import exact_texts
from congenial.spec.spec import Spec
from congenial.table import Table, tables_by_area

_MOST_COMPARED = 2_000  # areas whose numbers a ledger lists one by one
_MADE_UP_SUMS = 1_000  # in 12 to 24 areas, computed without a draw: so `plan` need not load the kernels


@dataclass(frozen=True, repr=False)
class Preview:
    """A plan with its meaning and the error to expect around a public table."""

    spec: Spec
    plan: Plan
    errors: tuple[ExpectedError, ...]
    digest: str
    reviews: tuple[Review, ...]
    """What the invariants give away by themselves."""
    sums: AddingUp
    """What tables will add up to, around the reference or a made-up population."""
    around: Plan
    """The plan in whose areas errors are computed: this one, or that of a reference."""
    rehearsed: tuple[str, ...] = ()
    """What attempts at made-up tables promise, where the time of a draw depends on more than the structure."""
    centre: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The public table of the middle one of the areas whose errors are shown."""
    alternatives: tuple[Alternative, ...] = ()
    """The same release with invariants left out."""
    reached: Reached | None = None
    """The budget that reaches an error, where one was asked for."""
    exact: tuple[tuple[str, str], ...] = ()
    """What will be stated exactly, as a ledger records it; confidential until the release."""

    @property
    def middle(self) -> ExpectedError:
        """The errors of the table, or of the middle one of the areas that are shown."""
        return self.errors[len(self.errors) // 2]

    @cached_property
    def price(self) -> Price:
        """What the release has for its budget."""
        return price_of("as planned", self.around, self.middle.area, self.centre)

    @cached_property
    def prices(self) -> tuple[tuple[str, Price | None], ...]:
        """What the same budget would give with an invariant left out, and with all left out; None where unknown."""
        return tuple((other.text, other.price(self.middle.area, self.centre)) for other in self.alternatives)

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
    def planned(self) -> Planned:
        """What earlier releases are compared with."""
        areas, one = self.plan.law.areas, self.sums
        sizes = {own.text: own.size for own in one.sums}
        errors = {own.text: own.size_of_all for own in one.sums}  # of all areas together, as one table may have it
        if areas.name is None:
            errors |= dict(self.middle.margins)  # as they are shown
        elif len(areas) <= _MOST_COMPARED:
            errors |= {f"{areas.name} {area}: {text}": size for area in areas for text, size in sizes.items()}
        return Planned(self.spec.release, self.plan.certificate, self.exact, errors, tuple(self._kinds()))

    def _kinds(self) -> Iterator[tuple[str, float]]:
        """Go through single cells and the numbers by each dimension, with their errors; exact ones are left out."""
        kinds = [("a single cell", self.middle.cells.tolist())]
        margins = [value for _, value in self.middle.margins]
        for name in self.spec.schema.names if margins else ():
            n_levels = len(self.spec.schema.labels(name))
            kinds.append((f"a number by {name}", margins[:n_levels]))
            margins = margins[n_levels:]
        for text, errors in kinds:
            size = float(np.sqrt((np.array(errors) ** 2).mean()))
            if size > NO_ERROR:
                yield text, size

    @property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away, in words: no noise protects them."""
        return given_away_lines(self.reviews, self.unit)


def _as_read(tables: Mapping[Area, Table]) -> Table | Mapping[str, Table]:
    """Return one table as such, and tables of areas by their names."""
    return tables[None] if None in tables else cast("Mapping[str, Table]", tables)


def preview(
    spec: Spec,
    folder: Path,
    reference: Path | None = None,
    *,
    target: ErrorTarget | None = None,
    progress: Progress = no_news,
) -> Preview:
    """Return what a spec will do. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    folder : path
        The folder of the spec, where its paths start.
    reference : path, optional
        A public file of the data's shape, such as last year's: errors are computed around it. It has areas of its own,
        and its own values of the invariants.
    target : ErrorTarget, optional
        An error to find the budget for.
    """
    if reference is not None:
        check_public(spec, folder, reference)
    ready = prepare(spec, folder, progress)
    plan = ready.plan
    rehearsed: tuple[str, ...] = ()
    if not all(sampler.is_steady for sampler in plan.samplers):
        # Before any draw around a reference, which would have no end where a system is out of reach.
        with ways_out_named(spec, _as_read(ready.tables), progress):
            rehearsed = tuple(plan.rehearse(progress))
    if reference is None:
        centres, around, tables = typical_tables(plan.law), plan, ready.tables
        sums = made_up_sums(plan, max(12, min(EXACTLY, _MADE_UP_SUMS // len(statistics(spec.schema)))))
    else:
        areas, counts = read_reference(spec, reference)
        around = reference_plan(spec, plan, areas, counts)
        labels = around.law.areas.labels
        tables = tables_by_area(spec.schema, labels, counts)
        centres = {labels[place]: counts[place] for place in typical_places(counts.sum(axis=1))}
        sums = adding_up(around, counts, reference.name)
    name = UNIFORM if reference is None else reference.name
    errors = []
    for number, (area, centre) in enumerate(centres.items()):
        progress("errors to expect", number, len(centres))
        errors.append(expected_error(around, area, centre, name))
    others = alternatives(spec, tables)
    reached = None if target is None else reach(spec, around.law.areas, centres, target, progress)
    middle = list(centres.values())[len(centres) // 2]
    return Preview(
        *(spec, plan, tuple(errors), ready.digest, ready.reviews, sums, around, rehearsed, middle, others, reached),
        exact=exact_texts(ready),
    )
