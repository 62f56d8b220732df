"""How several tables of the same records are measured, and what that costs, before anything is drawn. Public."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.queries import Margin, Query, Total
from congenial.decided_tables import measurements_digest, variance_in_rule
from congenial.dry_run import check_measured_level
from congenial.errors import ConditionError, CongenialError, PrivacyError
from congenial.law import check_invariants
from congenial.noise import Noise
from congenial.plan import Plan
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.disclosure import Disclosure, disclosure_of
from congenial.privacy.workload import WorkloadFacts, WorkloadTable
from congenial.privacy.workload_certificate import (
    ChangePrice,
    portions_by_cells,
    price,
    prices,
    unprotected,
    workload_certificate,
    workload_precisions,
)
from congenial.progress_and_interrupts import DECIDING, DRAWING, DRY_RUN, Progress, silent
from congenial.randomness import LevelStreams, RandomStream, replay_rng
from congenial.rules.workload import rule as records_rule
from congenial.rules.workload.components import estimate
from congenial.rules.workload.measurements import ExactSum, WorkloadMeasurements
from congenial.sampling.sampler_and_registry import Sampler
from congenial.schema import RecordSchema
from congenial.tree.tree_and_zeros import TreeTables
from congenial.workload.later import KEEP, REVISE, EarlierRelease, check_agreement
from congenial.workload.law import RecordTable, WorkloadLaw, dimensions_of

SHARES = ("tables", "cells", "portions")
"""Ways to share a budget: every table counts the same, or every cell, or portions are said."""

_FEWEST_DRAWS, _MOST_DRAWS, _NUMBERS_DRAWN = 40, 4_000, 1_000_000
_MADE_UP_COUNT = 20  # of a cell of the largest table, where nothing exact says how many records there are
_MOST_DISCLOSED_CELLS = 20_000  # of a table in which cells are looked for that the exact numbers determine


@dataclass(frozen=True, eq=False)
class WorkloadDecision:
    """What the rule made of the measurements. Public.

    Attributes
    ----------
    records : array (record, dimension)
        Places of labels.
    tables : tuple of arrays (1, cell)
        The published tables: their counts.
    facts : mapping
        What the rule did, and how well the tables fit the measurements.
    """

    records: Ints = field(repr=False)
    tables: TreeTables = field(repr=False)
    facts: Mapping[str, Any]

    @property
    def words(self) -> list[str]:
        """How well the tables fit, in sentences."""
        off = float(self.facts["largest_distance"])
        return [f"Counts of records are at most {off:.1f} from the best numbers that are not whole."]


@dataclass(frozen=True, repr=False)
class WorkloadPlan:
    """How several tables of the same records are measured, and the certificate of the loss of all together.

    Attributes
    ----------
    law : WorkloadLaw
    neighbours : str
    rows_per_unit : int
    budget : Budget or None
        What was requested; None where every precision was given.
    requested : tuple of Query
        The tables as they were stated, each with its precision or its portion of the budget.
    shares_by : str
        ``"tables"``, ``"cells"`` or ``"portions"``.
    protects : str
        The kind of change that the certificate is for.
    earlier : EarlierRelease or None
        The release that the tables agree with. No noise and no certificate hangs on it.
    """

    law: WorkloadLaw
    neighbours: str = "bounded"
    rows_per_unit: int = 1
    budget: Budget | None = None
    requested: tuple[Query, ...] = ()
    shares_by: str = "tables"
    protects: str | None = None
    earlier: EarlierRelease | None = None
    shares: None = field(default=None, init=False)
    invariants_below: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict, init=False)

    @cached_property
    def tables(self) -> tuple[Plan, ...]:
        """Every measured table by itself."""
        return tuple(Plan.of(law, self.neighbours) for law in self.law.measured_laws)

    @cached_property
    def published(self) -> tuple[RecordTable, ...]:
        """The tables whose counts are published: where earlier tables are revised, these as well."""
        tables = list(self.law.published)
        if self.earlier is not None and self.earlier.agreement.how == REVISE:
            over = {table.dimensions for table in tables}
            names = {table.name.casefold() for table in self.law.tables}
            for table in self.earlier.plan.published:
                if table.dimensions not in over:
                    is_taken = table.name.casefold() in names
                    name = f"{table.name} ({self.earlier.agreement.release})" if is_taken else table.name
                    tables.append(RecordTable(name, table.dimensions, Fraction(0)))
        return tuple(tables)

    @cached_property
    def measured_together(self) -> tuple[Plan, ...]:
        """Every table whose measurements the estimates use, by itself: those of an earlier release after its own."""
        earlier = self.earlier
        is_joint = earlier is not None and earlier.agreement.is_unchanged
        return (*self.tables, *(earlier.plan.measured_together if earlier is not None and is_joint else ()))

    def check_agreement(self) -> None:
        """Refuse exact numbers that contradict the release that the tables agree with."""
        check_agreement(self)

    @cached_property
    def facts(self) -> WorkloadFacts:
        """What the certificate depends on."""
        return facts_of(self.law, self.neighbours)

    @cached_property
    def certificate(self) -> Certificate:
        """What all tables cost at most together."""
        for level in (level for plan in self.tables for level in plan.measured_levels):
            level.drawing.check()  # the noise keeps nothing that is not exact in the table
        return workload_certificate(self.facts, self.protects, self.law.schema.names)

    @cached_property
    def prices(self) -> tuple[ChangePrice, ...]:
        """What one record costs, two that exchange an exact attribute, and any so many."""
        return prices(self.facts, self.law.schema.names)

    @property
    def price_lines(self) -> list[str]:
        """Say what one record costs, two that exchange, and any so many; the kind of the certificate is marked."""
        unit = "rho" if self.law.family.exponent == 2 else "epsilon"
        out = []
        for cost in self.prices:
            if cost.amount is None:
                out.append(f"{cost.text}: there is no such change")
                continue
            mark = " (this is what the budget is for)" if cost.kind == self.certificate.change else ""
            out.append(f"{cost.text}: at most {unit} {shown(cost.amount)}{mark}")
        return out

    @property
    def not_protected_text(self) -> list[str]:
        """What the certificate does not promise, in sentences."""
        kind = self.certificate.change
        return list(unprotected(self.facts, kind, self.law.schema.names)) if kind else []

    def calibrated_precisions(self) -> tuple[Fraction, ...]:
        """Return the precision of every table that the budget gives, with what was requested."""
        if self.budget is None:
            raise PrivacyError("without a budget there is nothing to calibrate")
        bare = replace(self.law, tables=tuple(replace(table, precision=Fraction(0)) for table in self.law.tables))
        facts = facts_of(bare, self.neighbours)
        portions = portions_of(facts, bare.tables, self.requested, self.shares_by, self.protects)
        return workload_precisions(facts, self.budget, portions, kind=self.protects)

    def tables_of(self, records: Ints) -> TreeTables:
        """Return the counts of records (record, dimension) in every published table (1, cell)."""
        tables = self.published
        return tuple(_margin(self.law.schema, records, table.dimensions).reshape(1, -1) for table in tables)

    def check_exact_numbers(self, records: Ints) -> None:
        """Refuse records (record, dimension) that do not have the exact numbers, or are in a structural zero."""
        schema = self.law.schema
        for each in self.law.exact:
            part = schema.part(each.dimensions) if each.dimensions else None
            counts = _margin(schema, records, each.dimensions)
            values = (
                [int(counts.sum())]
                if part is None
                else [row.value(counts.tolist()) for row in each.condition.rows(part)]
            )
            if tuple(values) != each.values:
                raise ConditionError(f"the records do not have the exact numbers of {each.condition.title}")
        for zero in self.law.zeros:
            part = schema.part(dimensions_of(zero))
            if _margin(schema, records, part.names)[part.cells(zero.where)].any():
                raise ConditionError(f"some records are in {zero.title}")
        self._check_agreement_of(records)

    def _check_agreement_of(self, records: Ints) -> None:
        """Refuse records that have not the tables that are kept, or not the exact numbers of what is revised."""
        earlier, schema = self.earlier, self.law.schema
        if earlier is None:
            return
        if earlier.agreement.how == REVISE:
            earlier.plan.check_exact_numbers(records[:, list(earlier.axes(schema))])
            return
        for axes, table in earlier.kept_tables(schema).items():
            names = [schema.names[axis] for axis in axes]
            if not np.array_equal(_margin(schema, records, names), table.reshape(-1)):
                raise ConditionError(
                    f"the records do not have the published table {' x '.join(names)} of release"
                    f" {earlier.agreement.release!r}"
                )

    @property
    def spent(self) -> Spent:
        """What the release costs, in the budget's currency."""
        return spent(self.certificate, self.budget)

    @property
    def noises(self) -> dict[str, Noise]:
        """The noise of every measured table, by its name."""
        return {table.name: self.law.family(table.precision) for table in self.law.measured_tables_of_records}

    @property
    def noise_text(self) -> list[str]:
        """Say of every measured table how large its noise is."""
        return [
            f"every cell of {name}: {noise.title} noise of precision {shown_below(noise.precision)}, standard deviation"
            f" {sqrt(float(noise.variance)):.3g} before exact numbers are kept"
            for name, noise in self.noises.items()
        ]

    @property
    def dropped_lines(self) -> list[str]:
        """Say of which tables the noise does not keep all exact sums, and what that costs."""
        names = [table.name for table in self.law.measured_tables_of_records]
        return [f"{name}: {line}" for name, plan in zip(names, self.tables, strict=True) for line in plan.dropped_lines]

    def noise_is_conditioned(self, table: RecordTable) -> bool:
        """Whether the noise of a measured table keeps every exact number inside it."""
        names = [each.name for each in self.law.measured_tables_of_records]
        return not self.tables[names.index(table.name)].dropped_sums

    def noise_is_alike(self, table: RecordTable) -> bool:
        """Whether the noise of all cells of a measured table that have some has one law.

        It has where whole margins are exact and what they pin leaves a full table: labels can then trade places.
        """
        names = [each.name for each in self.law.measured_tables_of_records]
        (level,) = self.tables[names.index(table.name)].measured_levels
        (kind,) = level.drawing.kinds
        inside = self.law.conditions_inside(table.dimensions)
        if (
            kind.choice.dropped
            or kind.choice.lifted
            or not all(isinstance(each, Total | Margin) and each.where is None for each in inside)
        ):
            return False
        shape = self.law.schema.part(table.dimensions).shape
        mobile = np.setdiff1d(np.arange(int(np.prod(shape))), kind.pinned)
        n_labels = [len(np.unique(place)) for place in np.unravel_index(mobile, shape)]
        return int(np.prod(n_labels)) == len(mobile)

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """What draws the noise of each table."""
        return tuple(sampler for plan in self.tables for sampler in plan.samplers)

    @property
    def is_exact(self) -> bool:
        """Whether the noise of every table has its law exactly."""
        return all(plan.is_exact for plan in self.tables)

    def check_samplers(self) -> None:
        """Refuse noise that cannot be drawn, with the reason and the way out."""
        for plan in self.tables:
            plan.check_samplers()

    def dry_run(self, progress: Progress = silent) -> list[str]:
        """Draw noise of every table around zeros, and see that it keeps what it should; nothing is charged."""
        progress(DRY_RUN)
        self.check_samplers()
        for plan in self.tables:
            for level in plan.measured_levels:
                list(check_measured_level(level))
        try:
            self.decide(self._made_up(replay_rng("rehearsal")))
        except (CongenialError, ArithmeticError) as refused:
            if self.earlier is not None:
                raise ConditionError(
                    f"with made-up measurements no tables were reached that agree with release"
                    f" {self.earlier.agreement.release!r}: {refused}"
                ) from None
            return [f"no table will be published, only measurements: {refused}"]
        return []

    def made_up_records(self, rng: RandomStream) -> Ints:
        """Return made-up records (record, dimension) that have the exact numbers. Public.

        They follow from noise around the plainest estimates. Where nothing exact says how many there are, tables have
        some in every cell.
        """
        largest = max(plan.law.schema.n_cells for plan in self.tables)
        return self.decide(self._made_up(rng, _MADE_UP_COUNT * largest)).records

    def _made_up(self, rng: RandomStream, n_records: int = 0) -> list[Ints]:
        """Return measurements of made-up records that have the exact numbers: noise around the plainest estimates.

        Parameters
        ----------
        n_records : int
            How many there are, where the plainest estimates know of none.
        """
        structure = self._with_kept(self.own_structure)
        plain = estimate(replace(structure, variances=(1.0,) * len(structure.variances)))
        n_more = n_records if float(plain.table(())) < 1 else 0
        out = []
        for axes, plan in zip(structure.axes, self.tables, strict=True):
            even = n_more / plan.law.schema.n_cells
            counts = np.maximum(np.rint(plain.table(axes) + even), 0).astype(np.int64).reshape(1, -1)
            out.append(counts + plan.draw_areas(np.zeros_like(counts), rng))
        return out

    def split(self, counts: Ints) -> list[Ints]:
        """Return the counts of each measured table (1, cell) from those of all one after the other (1, cell)."""
        sizes = [law.schema.n_cells for law in self.law.measured_laws]
        return np.split(counts, np.cumsum(sizes)[:-1], axis=1)

    def draw(self, counts: Ints, streams: LevelStreams, progress: Progress = silent) -> TreeTables:
        """Return the measurements of every measured table (1, cell).

        Parameters
        ----------
        counts : array (1, cell of all measured tables)
            Confidential.
        streams : LevelStreams
            The random words of every table; to simulate, a single stream will do.
        """
        drawn = []
        parts = zip(self.law.names_and_codes, self.tables, self.split(counts), strict=True)
        for number, ((name, codes), plan, table) in enumerate(parts, 1):
            drawn.append(plan.draw_areas(table, streams.of_level(name, codes, table)))
            progress(DRAWING, number, len(self.tables))
        check_invariants(self.has_exact_sums(drawn))
        return tuple(drawn)

    def has_exact_sums(self, measurements: Sequence[Ints]) -> bool:
        """Whether the measurements of every table have every exact sum that their noise keeps."""
        return all(plan.has_exact_sums([values]) for plan, values in zip(self.tables, measurements, strict=True))

    @cached_property
    def variances(self) -> tuple[float, ...]:
        """The variance of a cell's noise in each measured table, as least squares has it: before it was conditioned.

        Conditioning leaves that of Gaussian noise as it is in all free directions. Of Double Geometric noise the mean
        over these directions is what public draws have.
        """
        noises = [self.law.family(table.precision) for table in self.law.measured_tables_of_records]
        return tuple(
            variance_in_rule(noise) if noise.exponent == 2 else _drawn_variance(plan) or variance_in_rule(noise)
            for noise, plan in zip(noises, self.tables, strict=True)
        )

    @cached_property
    def own_structure(self) -> WorkloadMeasurements:
        """What is known of this release alone before there are measurements: zeros in place of them."""
        sizes = [self.law.schema.part(table.dimensions).n_cells for table in self.law.measured_tables_of_records]
        return self._measurements([np.zeros((1, n_cells), np.int64) for n_cells in sizes], bytes(32))

    @cached_property
    def measurement_structure(self) -> WorkloadMeasurements:
        """What the estimates know before there are measurements, those of an earlier release too: zeros in place."""
        return self._with_earlier(self.own_structure, zeros=True)

    def _with_earlier(self, own: WorkloadMeasurements, *, zeros: bool = False) -> WorkloadMeasurements:
        """Return measurements with those of the earlier release, if these are of the same records."""
        if self.earlier is None or not self.earlier.agreement.is_unchanged:
            return own
        return self.earlier.together_with(own, self.law.schema, zeros=zeros)

    def _with_kept(self, measurements: WorkloadMeasurements) -> WorkloadMeasurements:
        """Return measurements with the published tables that are held as further exact margins."""
        if self.earlier is None or self.earlier.agreement.how != KEEP:
            return measurements
        stated = {axes for axes, _ in measurements.exact}
        kept = self.earlier.kept_tables(self.law.schema).items()
        return measurements.with_exact([(axes, table) for axes, table in kept if axes not in stated])

    def _measurements(self, measurements: Sequence[Ints], seed: bytes) -> WorkloadMeasurements:
        law = self.law
        tables = law.measured_tables_of_records
        exact, sums = list[tuple[tuple[int, ...], Ints]](), list[ExactSum]()
        for each in law.exact:
            axes = law.axes(each.dimensions)
            if each.is_whole_margin:
                exact.append((axes, each.table(law.schema)))
                continue
            part = law.schema.part(each.dimensions)
            for row, value in zip(each.condition.rows(part), each.values, strict=True):
                coefficients = np.zeros(part.n_cells, np.int64)
                coefficients[list(row.cells)] = row.coefficients
                sums.append(ExactSum(axes, coefficients.reshape(part.shape), value))
        masks = []
        for zero in law.zeros:
            part = law.schema.part(dimensions_of(zero))
            mask = np.zeros(part.n_cells, np.bool_)
            mask[part.cells(zero.where)] = True
            masks.append((law.axes(dimensions_of(zero)), mask.reshape(part.shape)))
        return WorkloadMeasurements(
            sizes=law.schema.shape,
            axes=tuple(law.axes(table.dimensions) for table in tables),
            values=tuple(
                values.reshape(law.schema.part(table.dimensions).shape)
                for values, table in zip(measurements, tables, strict=True)
            ),
            variances=self.variances,
            exact=tuple(exact),
            exact_sums=tuple(sums),
            zeros=tuple(masks),
            seed=seed,
        )

    def measurements(self, measured: Sequence[Ints]) -> WorkloadMeasurements:
        """Return what estimates are made from: the measurements of every table and public structure, nothing else."""
        digests = [
            measurements_digest(law, values) for law, values in zip(self.law.measured_laws, measured, strict=True)
        ]
        if self.earlier is not None:
            digests.append(bytes.fromhex(self.earlier.agreement.manifest))
        seed = hashlib.sha256(b"".join([b"congenial tables of records", *digests])).digest()
        return self._with_earlier(self._measurements(measured, seed))

    def n_records(self, measured: Sequence[Ints]) -> int:
        """Return how many records the rule makes of measurements: the exact total, or what they estimate."""
        return records_rule.number_of_records(self._with_kept(self.measurements(measured)))

    def decide(self, measured: Sequence[Ints], progress: Progress = silent) -> WorkloadDecision:
        """Return the records that the rule makes of the measurements, and the published tables. Public."""
        progress(DECIDING)
        axes = [self.law.axes(table.dimensions) for table in self.published]
        measurements, start = self._with_kept(self.measurements(measured)), None
        if self.earlier is not None and self.earlier.agreement.how == KEEP:
            start = self.earlier.start(measurements, self.law.schema)
        result = records_rule.decide(measurements, axes, start, progress)
        tables = tuple(np.asarray(result.tables[each], np.int64).reshape(1, -1) for each in axes)
        self.check_tables(tables)
        return WorkloadDecision(np.asarray(result.records, np.int64), tables, asdict(result.facts))

    def check_tables(self, tables: Sequence[Ints]) -> None:
        """See that published tables (1, cell) have every exact number inside them."""
        for table, counts in zip(self.published, tables, strict=True):
            if not bool(np.all(self.law.constraints(table.dimensions).holds(counts))):
                raise ConditionError(f"table {table.name!r} does not have the exact numbers that are published")

    def disclosures(self, conditions: Sequence[Condition]) -> tuple[Disclosure, ...]:  # noqa: ARG002
        """Return what the exact numbers disclose by themselves, for each published table that is not very large."""
        out = []
        for table in self.tables_with_disclosures:
            inside = self.law.conditions_inside(table.dimensions)
            out.append(disclosure_of(Areas.one(self.law.constraints(table.dimensions)), inside))
        return tuple(out)

    @property
    def tables_with_disclosures(self) -> tuple[RecordTable, ...]:
        """The published tables of which `disclosures` speaks, in its order."""
        part = self.law.schema.part
        return tuple(t for t in self.law.published if part(t.dimensions).n_cells <= _MOST_DISCLOSED_CELLS)

    def __repr__(self) -> str:
        return "\n".join([*self.noise_text, self._certified()])

    def _certified(self) -> str:
        try:
            return str(self.certificate)
        except CongenialError as refused:
            return f"not certified: {refused}"


def portions_of(
    facts: WorkloadFacts,
    tables: Sequence[RecordTable],
    requested: Sequence[Query],
    shares_by: str,
    protects: str | None,
) -> list[Fraction]:
    """Return the part of the budget that each table gets; 0 for what the exact numbers determine.

    A portion of a table that is measured and not published is of the whole budget. All others share what is left:
    alike, by cells, or by the portions that they state.
    """
    by_cells = portions_by_cells(facts, protects) if shares_by == "cells" else (Fraction(1),) * len(tables)
    of_whole, weights = [Fraction(0)] * len(tables), [Fraction(0)] * len(tables)
    for number, (table, query, is_known) in enumerate(zip(tables, requested, facts.determined, strict=True)):
        if is_known:
            continue
        if query.portion is not None and not table.is_published:
            of_whole[number] = query.portion
        else:
            weights[number] = (query.portion or Fraction(1)) if shares_by == "portions" else by_cells[number]
    rest, together = 1 - sum(of_whole), sum(weights)
    if not together:
        return of_whole
    return [part or rest * weight / together for part, weight in zip(of_whole, weights, strict=True)]


def _drawn_variance(plan: Plan) -> float | None:
    """Return the mean square of conditioned noise in a free direction, from public draws; None where it is not."""
    (level,) = plan.measured_levels
    (kind,) = level.drawing.kinds
    equalities = [row.terms for row in kind.choice.system.equalities]
    n_free = len(kind.coordinates) - len(equalities) + len(dependence(equalities).follows)
    if not equalities or not n_free:
        return None
    n_draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, _NUMBERS_DRAWN // len(kind.coordinates)))
    squares = sum(int((line * line).sum()) for line in kind.noise(replay_rng("variance of noise"), n_draws))
    return float(Fraction(squares, n_draws * n_free))


def _margin(schema: RecordSchema, records: Ints, dimensions: Sequence[str]) -> Ints:
    """Return the counts of records (record, dimension) over some dimensions (cell,)."""
    axes = sorted(schema.axis(name) for name in dimensions)
    shape = tuple(schema.shape[axis] for axis in axes)
    if not axes:
        return np.array([len(records)])
    cells = np.ravel_multi_index(tuple(records[:, axis] for axis in axes), shape)
    return np.bincount(cells, minlength=int(np.prod(shape)))


def is_determined(law: WorkloadLaw, neighbours: str) -> tuple[bool, ...]:
    """Return which of all tables the exact numbers determine: they are not measured."""
    bare = replace(law, tables=tuple(replace(table, precision=Fraction(0)) for table in law.tables))
    return facts_of(bare, neighbours).determined


def check_stated_precisions(law: WorkloadLaw, neighbours: str, protects: str | None) -> None:
    """Refuse stated precisions of tables that no change of the named kind moves: nothing would be charged for them.

    A budget caps those at what their portions buy without exact numbers; stated ones have no portion.
    """
    if protects is None:
        return  # the kind is then that by which every measured table moves
    cost = price(facts_of(law, neighbours), protects, law.schema.names)
    if cost.amount is not None and cost.unmoved:
        raise PrivacyError(
            f"{cost.text} moves no count of table {cost.unmoved[0]}, so that its precision would cost nothing; leave"
            " out protects, or state a budget, which limits the precision of such a table"
        )


def facts_of(law: WorkloadLaw, neighbours: str) -> WorkloadFacts:
    """Return what the certificate of a law depends on: its measured tables, or all where none has a precision yet."""
    exact = tuple(law.axes(each.dimensions) for each in law.exact if each.is_whole_margin)
    sums = []
    for each in law.exact:
        if not each.is_whole_margin:
            part = law.schema.part(each.dimensions)
            for row in each.condition.rows(part):
                coefficients = np.zeros(part.n_cells, np.int64)
                coefficients[list(row.cells)] = row.coefficients
                sums.append((law.axes(each.dimensions), coefficients.reshape(part.shape)))
    zeros = []
    for zero in law.zeros:
        part = law.schema.part(dimensions_of(zero))
        mask = np.zeros(part.n_cells, np.bool_)
        mask[part.cells(zero.where)] = True
        zeros.append((law.axes(part.names), mask.reshape(part.shape)))
    for each in law.exact:  # where an exact count is 0 there is nobody who could change
        if each.is_whole_margin and each.dimensions and 0 in each.values:
            zeros.append((law.axes(each.dimensions), each.table(law.schema) == 0))
    measured = law.measured_tables_of_records or law.tables
    tables = tuple(WorkloadTable(law.axes(table.dimensions), table.precision) for table in measured)
    return WorkloadFacts(law.schema.shape, tables, law.noise, exact, tuple(sums), tuple(zeros), neighbours)
