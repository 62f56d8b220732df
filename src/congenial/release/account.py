"""What a release will publish, cost and protect, in words and numbers, before it is made. Public."""

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.baselines.baseline import Problem
from congenial.baselines.quadratic import least_squares
from congenial.baselines.topdown import rounded
from congenial.bundle.expected_error import ExpectedError, expected_error, typical_areas
from congenial.bundle.manifest import certificate_json
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.conditions.queries import margin
from congenial.errors import BaselineError, ReadingError
from congenial.noise import FAMILIES
from congenial.privacy.certificate import shown
from congenial.privacy.neighbours import Neighbours, neighbours_of
from congenial.privacy.semantics import meaning
from congenial.public_law import Area, PublicLaw
from congenial.randomness import replay_rng
from congenial.reading.files import find_files
from congenial.reading.tables import read_tables
from congenial.release.planning import SpecPlan, disclose, plan_spec, structure_of
from congenial.sampling.contraction import messages as exact
from congenial.spec.load import load_spec
from congenial.spec.spec import Spec
from congenial.table import Table

_LOOKED_AT = 60  # areas in which every cell is looked at, at some 30 milliseconds each

UNIFORM = "people spread as evenly as the invariants allow"


@dataclass(frozen=True, repr=False)
class Account:
    """A plan with its meaning, the error to expect around a public table, and the time a draw takes."""

    plan: SpecPlan
    structure: Neighbours
    errors: tuple[ExpectedError, ...]
    seconds: float

    def paragraphs(self) -> list[tuple[str, list[str]]]:
        """Return headings with their lines."""
        spec, law, certificate = self.plan.spec, self.plan.law, self.plan.certificate
        tables = "one table" if len(law.tables) == 1 else f"{len(law.tables):,} tables, one for each {law.area_name},"
        currency, amount = self.plan.spent
        asked = "no budget, every precision is given" if self.plan.budget is None else f"budget {self.plan.budget.text}"
        exactly = [f"{one.text}" + (f" ({one.mandate})" if one.mandate else "") for one in spec.invariants]
        return [
            (
                "What will be published",
                [
                    f"{tables} of {law.schema.n_cells:,} cells by {', '.join(law.schema.names)}:"
                    f" {', '.join(spec.outputs)}"
                ],
            ),
            ("Exactly", exactly or ["nothing"]),
            (
                "What it costs",
                [f"{currency} {shown(amount)} for {certificate.per_record}; {asked}", certificate.statement],
            ),
            (
                "What stays protected",
                [
                    str(meaning(certificate, self.structure)),
                    *(one.text for one in self.structure.attributes if one.is_pinned or one.is_narrowed),
                    *self.given_away,
                ],
            ),
            ("Noise", self._noise()),
            ("Sampler", [str(self.plan.sampling), f"a draw of everything takes about {self._time()}"]),
        ]

    @cached_property
    def given_away(self) -> list[str]:
        """Cells and sums that the invariants give away, in words: no noise protects them."""
        law = self.plan.law
        cells = []
        for area, constraints in law.tables[:_LOOKED_AT]:
            where = "" if area is None else f"{law.area_name} {area}: "
            cells += [f"{where}{name} = {value:,}" for name, value in self._disclosed(area, constraints).items()]
        lines = [_listed("The invariants give away", cells)] if cells else []
        if len(law.tables) > _LOOKED_AT:
            lines.append(f"(looked at in the first {_LOOKED_AT} of {len(law.tables):,} areas)")
        stated = {one.row.cells for one in law.tables[0][1].rows}
        rows = {row.name: row.cells for name in law.schema.names for row in margin(name).rows(law.schema)}
        sums = [name for name, error in self.errors[0].margins if error < 1e-6 and rows.get(name) not in stated]
        return [*lines, *([_listed("Exact too, because it follows", sums)] if sums else [])]

    def _disclosed(self, area: Area, constraints: Constraints) -> dict[str, int]:
        """Return cells that the invariants determine, those that the spec declares to be fixed left out."""
        schema = self.plan.law.schema
        drawn = next((one for one in self.errors if one.area == area), None)
        if drawn is not None and (drawn.cells > 0).all():
            return {}  # every cell varied in the draws around a public table: nothing is determined
        conditions = [statement.condition for statement in self.plan.spec.conditions]
        declared = Constraints.of(schema, conditions)
        fixed = {schema.cell_name(cell) for cell in range(schema.n_cells) if _is_fixed(declared, cell)}
        return {name: value for name, value in constraints.disclosed_cells.items() if name not in fixed}

    def _noise(self) -> list[str]:
        make = FAMILIES[self.plan.law.noise]
        return [
            f"{query.text}: precision {shown(query.precision, 6)}, standard deviation"
            f" {float(make(query.precision).variance) ** 0.5:.3g} before the invariants are imposed"
            for query in self.plan.law.queries
            if query.precision
        ]

    def _time(self) -> str:
        total = self.seconds * len(self.plan.law.tables)
        return f"{1e3 * total:.3g} milliseconds" if total < 1 else f"{total:.3g} seconds"

    @property
    def error_title(self) -> str:
        """What the errors are computed around."""
        return f"Root mean squared error to expect around a public table: {self.errors[0].reference}"

    def error_table(self) -> tuple[list[str], list[list[str]]]:
        """Return a header and a line for each released number: its error, a column an area."""
        areas = [f"{self.plan.law.area_name} {one.area}" for one in self.errors if one.area is not None]
        columns = [self._error_lines(one) for one in self.errors]
        rows = [[lines[0][0], *(value for _, value in lines)] for lines in zip(*columns, strict=True)]
        return ["released number", *(areas or ["root mean squared error"])], rows

    def _error_lines(self, one: ExpectedError) -> list[tuple[str, str]]:
        """Return each number with its error; cells are summed up when there are many."""
        lines = list(one.margins)
        if len(one.cells) > 60:
            found = np.percentile(one.cells, (0, 50, 100)).tolist()
            lines += zip(("a cell: least", "a cell: median", "a cell: largest"), found, strict=True)
        else:
            lines += [(self.plan.law.schema.cell_name(cell), value) for cell, value in enumerate(one.cells.tolist())]
        return [(name, "exact" if value < 1e-6 else f"{value:.2f}") for name, value in lines]

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        currency, amount = self.plan.spent
        return {
            "release": self.plan.spec.release,
            "dataset": self.plan.spec.dataset,
            "tables": len(self.plan.law.tables),
            "cells": self.plan.law.schema.n_cells,
            "cost": {"currency": currency, "amount": str(amount)},
            "certificate": certificate_json(self.plan.certificate),
            "precisions": {query.text: str(query.precision) for query in self.plan.law.queries},
            "meaning": str(meaning(self.plan.certificate, self.structure)),
            "given_away": self.given_away,
            "sampler": {
                "is_exact": self.plan.sampling.is_exact,
                "width": self.plan.sampling.width,
                "states": float(self.plan.sampling.n_states),
            },
            "seconds": self.seconds * len(self.plan.law.tables),
            "plan_digest": self.plan.digest,
            "expected_error": [
                {
                    "area": one.area,
                    "around": one.reference,
                    "cells": one.cells.tolist(),
                    "margins": [list(pair) for pair in one.margins],
                }
                for one in self.errors
            ],
        }


def _listed(head: str, found: Sequence[str]) -> str:
    more = f" and {len(found) - 8:,} more" if len(found) > 8 else ""
    return f"{head}: {'; '.join(found[:8])}{more}"


def _is_fixed(constraints: Constraints, cell: int) -> bool:
    return constraints.lower[cell] is not None and constraints.lower[cell] == constraints.upper[cell]


def account_of(spec_path: Path, reference: Path | None = None) -> Account:
    """Return the account of a spec. Of its data, only what the invariants disclose enters.

    Parameters
    ----------
    reference : path, optional
        A CSV with a public table of one area; errors are computed around it.
    """
    spec = load_spec(spec_path)
    if reference is not None and spec.data.status == "confidential" and _is_data(spec, spec_path, reference):
        raise ReadingError(
            "the reference is a data file of the spec itself, which is confidential; give a public table"
        )
    plan = plan_spec(spec, disclose(spec, read_tables(spec, spec_path.absolute().parent)))
    plan.sampling.check()
    centres: dict[Area, Ints] = {}
    if reference is not None:
        area, constraints = plan.law.tables[0]
        centres[area] = _given(plan.law, constraints, reference)
    else:
        centres = _typical(plan.law)
    name = UNIFORM if reference is None else reference.name
    errors = tuple(expected_error(plan.law, area, centre, name) for area, centre in centres.items())
    area, centre = next(iter(centres.items()))
    engine = plan.engines[structure_of(plan.law.constraints[area])]
    start = time.perf_counter()
    exact.Messages.of(engine, centre).sample(1, replay_rng("once to time"))  # its kernels are loaded by now
    seconds = time.perf_counter() - start
    return Account(plan, neighbours_of(plan.law.tables[0][1], spec.neighbours), errors, seconds)


def _is_data(spec: Spec, spec_path: Path, reference: Path) -> bool:
    files = find_files(spec.data.paths, spec_path.absolute().parent)
    return reference.exists() and any(file.samefile(reference) for file in files)


def _typical(law: PublicLaw) -> dict[Area, Ints]:
    """Return an even table for one area, or for three of many: what the invariants say of their size decides which."""
    if len(law.tables) <= 3:
        return {area: evenly(law, constraints) for area, constraints in law.tables}
    sizes = {area: np.array([_size(constraints)]) for area, constraints in law.tables}
    return {area: evenly(law, law.constraints[area]) for area in typical_areas(sizes)}


def _size(constraints: Constraints) -> int:
    return max((one.lower or 0 for one in constraints.equalities), default=0)


def evenly(law: PublicLaw, constraints: Constraints) -> Ints:
    """Return a public table within the invariants whose cells are as equal as they can be."""
    problem = Problem(constraints, law.measured)
    n = law.schema.n_cells
    level = _size(constraints) / n if constraints.equalities else 10.0
    quick = _even_groups(constraints, level)
    if quick is not None:
        return quick
    try:
        near = least_squares(problem.polytope, np.eye(n), np.ones(n), np.full(n, level))
        return rounded(problem, near)
    except BaselineError:  # a table that obeys the conditions will do
        return np.array(constraints.point, np.int64)


def _even_groups(constraints: Constraints, level: float) -> Ints | None:
    """Spread people evenly over cells that no condition tells apart, sums whole and near even; None if that fails.

    No solver is needed for this, and `congenial plan` need not wait half a second to load one.
    """
    grouped = constraints.grouped
    equal = [
        (dict(row.coefficients), row.lower or 0)
        for row in grouped.rows
        if row.lower is not None and row.lower == row.upper
    ]
    sizes = np.array([len(cells) for cells in grouped.members])
    solutions = integer_solutions(equal, len(sizes))
    if solutions is None:
        return None
    sums = np.array(solutions.point, np.float64)
    if solutions.basis:
        basis = np.array(solutions.basis, np.float64).T
        scaled = basis / np.sqrt(sizes)[:, None]  # even cells, not even sums
        steps = np.linalg.lstsq(scaled, (level * sizes - sums) / np.sqrt(sizes), rcond=None)[0]
        sums = sums + basis @ np.rint(steps)
    table = np.zeros(constraints.schema.n_cells, np.int64)
    for cells, total in zip(grouped.members, sums.astype(np.int64).tolist(), strict=True):
        whole, rest = divmod(total, len(cells))
        table[list(cells)] = [whole + (place < rest) for place in range(len(cells))]
    return table if constraints.holds(table) else None


def _given(law: PublicLaw, constraints: Constraints, path: Path) -> Ints:
    """Read a public table: the dimensions' columns and one of counts."""
    names = law.schema.names
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            records = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ReadingError(f"the reference table {path} cannot be read as CSV") from None
    others = [name for name in (records[0] if records else {}) if name not in names]
    if not records or len(others) != 1 or any(name not in records[0] for name in names):
        raise ReadingError(f"the reference table needs the columns {', '.join(names)} and one of counts")
    try:
        counts = {tuple(record[name] for name in names): int(record[others[0]]) for record in records}
    except (TypeError, ValueError):
        raise ReadingError("the reference table has a count that is not a whole number") from None
    table: Sequence[int] = Table(law.schema, counts, fill=0).counts.tolist()
    if not constraints.holds(np.array(table)):
        raise ReadingError(
            "the reference table does not have the invariants' values of the data; give a table that does, or leave"
            " --reference out"
        )
    return np.array(table, np.int64)
