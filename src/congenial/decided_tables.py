"""From measurements to tables, in public: the rule's input and seed, exact sums checked, decided tables to study.

Everything here takes measurements, or public tables, and public structure; nothing takes confidential ones.
"""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import SamplingError
from congenial.law import PublicLaw
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.memory_and_threads import parts_of
from congenial.randomness import RandomStream, Streams
from congenial.rules.registry import Rule, RuleInput, rule_named


def cell_columns(law: PublicLaw) -> Ints | None:
    """Return the measured row of each cell by itself (cell,); None where some cell is measured in sums only."""
    columns = np.full(law.schema.n_cells, -1, np.int64)
    for number, query in enumerate(law.measured):
        if query.row.coefficients == (1,):
            columns[query.row.cells[0]] = number
    return None if (columns < 0).any() else columns


def exact_sums_hold(law: PublicLaw, drawing: MeasurementDrawing, numbers: Ints, measurements: Ints) -> bool:
    """Whether measurements (unit, row) have every exact sum that their noise keeps, and agree with each other.

    Where cells are measured in sums only, what sums have in common is compared, and exact sums of those that are
    measured.
    """
    columns = cell_columns(law)
    for number, kind in enumerate(drawing.kinds):
        places = np.flatnonzero(numbers == number)
        for part in parts_of(len(places)):
            if not _has_exact_sums(law, kind, columns, places[part], measurements[places[part]]):
                return False
    return True


def _has_exact_sums(law: PublicLaw, kind: NoiseKind, columns: Ints | None, places: Ints, measurements: Ints) -> bool:
    rows = [query.row for query in law.measured]
    group = law.areas.groups[int(law.areas.group_numbers[places[0]])]
    values = group.values[np.searchsorted(group.places, places)]
    if columns is not None:
        cells = measurements[:, columns]
        own_noise = {row.name for row in kind.choice.lifted}
        tied = np.array([row.name not in own_noise for row in rows], np.bool_)
        if not np.array_equal(row_values(rows, cells)[:, tied], measurements[:, tied]):
            return False
        sums = row_values([limited.row for limited in kind.pattern.equalities], cells)
        kept, mobile = _kept_sums(kind), set(kind.space.cells or ())
        is_kept = [tuple(sorted(limited.row.within(mobile).items())) in kept for limited in kind.pattern.equalities]
        return bool((sums == values)[:, np.array(is_kept, np.bool_)].all())
    same = {(row.cells, row.coefficients): number for number, row in enumerate(rows)}
    for number, limited in enumerate(kind.pattern.equalities):
        place = same.get((limited.row.cells, limited.row.coefficients))
        if place is not None and not np.array_equal(measurements[:, place], values[:, number]):
            return False
    return True


def _kept_sums(kind: NoiseKind) -> set[tuple[tuple[int, int], ...]]:
    """Return the sums that the noise keeps, each by its terms over cells."""
    cells = kind.space.cells or ()
    return {
        tuple(sorted((cells[place], times) for place, times in row.terms.items()))
        for row in kind.choice.system.equalities
        if max(row.cells, default=-1) < len(cells)
    }


def measurements_digest(law: PublicLaw, measurements: Ints) -> bytes:
    """Return the SHA-256 of measurements (unit, row), with units and rows: the public seed of a rule's random order."""
    state = hashlib.sha256("\0".join(["congenial measurements", *map(str, law.areas.labels)]).encode())
    state.update("\0".join(query.row.name for query in law.measured).encode())
    for part in parts_of(len(measurements)):
        state.update(np.ascontiguousarray(measurements[part], "<i8").data)
    return state.digest()


def rule_input(law: PublicLaw, measurements: Ints, seed: bytes | None = None) -> RuleInput:
    """Return what a rule decides from: measurements and public structure, nothing else."""
    return RuleInput(
        areas=law.areas,
        rows=tuple(query.row for query in law.measured),
        precisions=tuple(query.noise.precision for query in law.measured),
        exponent=law.family.exponent,
        measurements=measurements,
        seed=measurements_digest(law, measurements) if seed is None else seed,
    )


def rule_of(law: PublicLaw) -> Rule:
    """Return the rule that a law names."""
    if law.rule is None:
        raise SamplingError("a conditional release has no rule: its tables are drawn")
    return rule_named(*law.rule)


@dataclass(frozen=True, eq=False)
class MeasuredTables:
    """The tables of a measured release, as a sampler: noise around a public table, then the rule. To study errors.

    Attributes
    ----------
    kind : NoiseKind
    rows, precisions, exponent
        What is measured; see `RuleInput`.
    """

    law: PublicLaw
    kind: NoiseKind

    name = "measured"
    has_predictable_time = True

    @property
    def title(self) -> str:
        """What a manifest says of it."""
        dropped = f", without {', '.join(self.kind.dropped)}" if self.kind.dropped else ""
        return f"{self.kind.choice.sampler.title}{dropped}"

    @property
    def is_exact(self) -> bool:
        """Whether the noise has its law exactly, and fits into memory."""
        return self.kind.choice.sampler.is_exact

    def check(self) -> None:
        """Raise with the reason and the way out unless `is_exact`."""
        self.kind.check()

    @property
    def seconds(self) -> float:
        """About how long one table takes: its noise, and the rule, at 0.3 microseconds a cell."""
        return self.kind.choice.sampler.seconds + 3e-7 * self.law.schema.n_cells

    def describe(self) -> str:
        """Return its size, for people."""
        return self.kind.choice.sampler.describe()

    def dry_run(self, points: Ints) -> str:  # noqa: ARG002
        """Say what trials promise: nothing, for the noise is the same wherever it is added."""
        return ""

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return the table that each of some public tables (table, cell) would be released as."""
        law, pattern = self.law, self.kind.pattern
        rows = [query.row for query in law.measured]
        measurements = row_values(rows, centres) + self.kind.noise(rng, len(centres))
        values = row_values([limited.row for limited in pattern.equalities], centres)
        group = AreaGroup(pattern, np.arange(len(centres)), values)
        areas = Areas("table", tuple(map(str, range(len(centres)))), (group,))
        there = replace(law, areas=areas)
        return rule_of(law).decide(rule_input(there, measurements), n_threads=n_threads)

    def at(self, centre: Ints) -> "MeasuredTablesAt":
        """Return the sampler at one public table."""
        return MeasuredTablesAt(self, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:  # noqa: ARG002
        """Refuse: a decided table is no draw, and has no normaliser; the law is that of the measurements."""
        raise SamplingError("tables of a measured release have no normaliser; ask for the law of the measurements")


@dataclass(frozen=True, eq=False)
class MeasuredTablesAt:
    """The same at one public table."""

    sampler: MeasuredTables
    centre: Ints = field(repr=False)

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return the tables of independent releases (draw, cell)."""
        return self.sampler.draw_each(np.tile(self.centre, (n_draws, 1)), rng)

    @property
    def log_normaliser(self) -> float:
        """None: see `MeasuredTables.log_normalisers`."""
        raise SamplingError("tables of a measured release have no normaliser; ask for the law of the measurements")
