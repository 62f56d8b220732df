"""What a release will publish, cost and protect, computed before anything is spent. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from congenial.bundle.expected_error import NO_ERROR, ExpectedError, expected_error
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query, margin
from congenial.curator.pipeline import prepare
from congenial.curator.public_tables import UNIFORM, read_reference, typical_tables
from congenial.errors import ReadingError
from congenial.plan import Plan
from congenial.reading.files import find_files
from congenial.spec.spec import Spec

_LOOKED_AT = 60  # areas in which every cell is looked at, at some 30 milliseconds each


@dataclass(frozen=True, repr=False)
class Preview:
    """A plan with its meaning and the error to expect around a public table."""

    spec: Spec
    plan: Plan
    errors: tuple[ExpectedError, ...]
    digest: str
    rehearsed: tuple[str, ...] = ()
    """What attempts at made-up tables promise, where the time of a draw depends on more than the structure."""

    @property
    def seconds(self) -> float:
        """About how long a draw of all areas takes on one core, from its number of operations."""
        groups = zip(self.plan.law.areas.groups, self.plan.samplers, strict=True)
        return sum(len(group.places) * sampler.seconds for group, sampler in groups)

    @cached_property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away, in words: no noise protects them."""
        areas = self.plan.law.areas
        cells = []
        for area in areas.labels[:_LOOKED_AT]:
            where = "" if area is None else f"{areas.name} {area}: "
            cells += [f"{where}{name} = {value:,}" for name, value in self._disclosed(area).items()]
        lines = [_listed("The invariants give away", cells)] if cells else []
        if len(areas) > _LOOKED_AT:
            lines.append(f"(looked at in the first {_LOOKED_AT} of {len(areas):,} areas)")
        schema = self.plan.law.schema
        stated = {limited.row.cells for limited in areas[areas.labels[0]].rows}
        conditions = [statement.condition for statement in self.spec.invariants]
        stated |= {row.cells for query in conditions if isinstance(query, Query) for row in query.rows(schema)}
        rows = {row.name: row.cells for name in schema.names for row in margin(name).rows(schema)}
        sums = [name for name, error in self.errors[0].margins if error < NO_ERROR and rows.get(name) not in stated]
        also = (limited.row for group in areas.groups for limited in group.pattern.also_exact)
        sums += [row.name for row in also if row.cells not in {*stated, *rows.values()}]
        return [*lines, *([_listed("Exact too, because it follows", list(dict.fromkeys(sums)))] if sums else [])]

    def _disclosed(self, area: Area) -> dict[str, int]:
        """Return cells that the invariants determine, those that the spec declares to be fixed left out."""
        drawn = next((error for error in self.errors if error.area == area), None)
        if drawn is not None and (drawn.cells > NO_ERROR).all():
            return {}  # every cell varies around a public table: nothing is determined
        found = self.plan.law.areas[area].disclosed_cells
        return {name: value for name, value in found.items() if name not in self._declared}

    @cached_property
    def _declared(self) -> set[str]:
        """Cells that the spec itself fixes."""
        schema = self.plan.law.schema
        same = [own.condition for own in self.spec.conditions if not own.files]
        declared = Constraints.of(schema, same)
        return {schema.cell_name(cell) for cell in range(schema.n_cells) if declared.is_fixed(cell)}


def _listed(head: str, found: Sequence[str]) -> str:
    more = f" and {len(found) - 8:,} more" if len(found) > 8 else ""
    return f"{head}: {'; '.join(found[:8])}{more}"


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
    return Preview(spec, plan, errors, ready.digest, rehearsed)


def _is_data(spec: Spec, folder: Path, reference: Path) -> bool:
    files = find_files(spec.data.paths, folder)
    return reference.exists() and any(file.samefile(reference) for file in files)
