"""The front door of several tables of the same records: disclose, calibrate, plan, release."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.workload_manifest import naming_with_earlier, workload_plan_digest, workload_statistics
from congenial.conditions.base import Condition, as_list
from congenial.conditions.limits_and_shares import StructuralZeros
from congenial.conditions.queries import Cells, Margin, Query, margin
from congenial.errors import BrokenError, ConditionError, PrivacyError, TableError
from congenial.ledger.records import Receipt
from congenial.ledger.released_tables import ReleasedTables
from congenial.mechanism_and_hierarchy import Releasable
from congenial.noise import DEFAULT, FAMILIES
from congenial.privacy import check_relation
from congenial.privacy.budget import Budget
from congenial.privacy.workload_certificate import workload_precisions
from congenial.randomness import LevelStreams
from congenial.release import Prepared
from congenial.release_key import ReleaseKey
from congenial.schema import RecordSchema, Schema
from congenial.tree.tree_and_zeros import TreeTables
from congenial.workload.later import EarlierRelease
from congenial.workload.law import ExactCounts, RecordTable, WorkloadLaw, check_condition, checked_tables, dimensions_of
from congenial.workload.plan import (
    SHARES,
    WorkloadPlan,
    check_stated_precisions,
    facts_of,
    is_determined,
    portions_of,
)
from congenial.workload.records import Records
from congenial.workload.release import WorkloadRelease


class Workload(Releasable):
    """Several tables of the same records, measured and published together so that they agree. Public.

    Parameters
    ----------
    schema : Schema, or mapping from dimension to labels
        The dimensions of the records; their combinations are never listed, so there may be many.
    tables : mapping from name to margin
        The tables that are measured and published: `margin` of some dimensions, each with a portion of the budget or a
        precision if they are not shared out alike.
    also_measure : mapping from name to margin, optional
        Tables that are measured and not published: ``margin`` or ``cells()`` for all dimensions together. A portion of
        one is of the whole budget; the others share what is left.
    invariants : conditions
        Totals, margins and structural zeros, which hold in every table.
    noise : str
        ``"discrete_gaussian"`` or ``"double_geometric"``; the former if not given, but for a pure epsilon.
    epsilon, delta, rho : exact numbers, optional
        The budget of all tables together.
    shares : str
        How tables share it: ``"tables"`` (each counts the same), ``"cells"`` (each cell counts the same), or
        ``"portions"``, those of the tables in any unit.
    protects : str, optional
        The kind of change that the certificate is for: ``"one record"``, ``"two that exchange"``, ``"any k records"``;
        the fewest records by which every measured table moves if not given.
    neighbours : str
        ``"bounded"`` or ``"unbounded"``.
    agree_with : path, optional
        The bundle of an earlier release of tables of the same dataset, with which these are to agree. It is verified.
    how : str, optional
        ``"keep"``, its published tables, or ``"revise"`` them.
    records : str, optional
        ``"unchanged"`` declares that they are those of the earlier release, so that measurements of both are used.
    is_part : bool
        Whether the earlier release is named afterwards, by the method `agree_with`: it may have dimensions that are in
        no table here.

    Examples
    --------
    >>> import congenial as cg
    >>> workload = cg.Workload(
    ...     {"county": ["north", "south"], "sex": ["female", "male"], "ill": ["yes", "no"]},
    ...     tables={"county by sex": cg.margin("county", "sex"), "county by ill": cg.margin("county", "ill")},
    ...     invariants=[cg.margin("county")],
    ...     rho="1",
    ... )
    >>> records = cg.Records.of_cells(workload.schema, np.array([0, 1, 1, 2, 5, 5, 6, 7]))  # confidential
    >>> plan = workload.plan(workload.disclose(records))
    >>> plan.certificate.kind, plan.certificate.per_record
    ('measured_tables_gaussian', 'one record changed')
    >>> decision = plan.decide(plan.draw(workload.counts_of(records), cg.replay_rng(1)))
    >>> [table.reshape(2, 2).sum(axis=1).tolist() for table in decision.tables]
    [[4, 4], [4, 4]]
    """

    def __init__(
        self,
        schema: Schema | Mapping[str, Sequence[str]],
        *,
        tables: Mapping[str, Query],
        also_measure: Mapping[str, Query] | None = None,
        invariants: Iterable[Condition] = (),
        noise: str | None = None,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        shares: str | None = None,
        protects: str | None = None,
        neighbours: str = "bounded",
        agree_with: str | Path | None = None,
        how: str | None = None,
        records: str | None = None,
        is_part: bool = False,
    ) -> None:
        self.schema = as_record_schema(schema)
        if noise is None:
            is_pure = epsilon is not None and delta is None and rho is None
            noise = DEFAULT if is_pure else "discrete_gaussian"
        if noise not in FAMILIES or not FAMILIES[noise].is_for_release:
            names = [name for name, family in FAMILIES.items() if family.is_for_release]
            raise ConditionError(f"noise of several tables is one of {', '.join(names)}, not {noise!r}")
        self.noise, self.neighbours = noise, check_relation(neighbours)
        self.budget = Budget.of(epsilon=epsilon, delta=delta, rho=rho, noise=noise)
        if not isinstance(tables, Mapping):
            raise ConditionError('tables is a mapping from names to margins, such as {"by age": margin("age")}')
        stated = [(name, query, True) for name, query in tables.items()]
        stated += [(name, query, False) for name, query in (also_measure or {}).items()]
        self.requested = tuple(_requested(self.schema, name, query) for name, query, _ in stated)
        facts = zip(self.requested, stated, strict=True)
        self.tables = checked_tables(
            self.schema,
            tuple(
                RecordTable(str(query.name), query.dimensions, query.precision or Fraction(0), is_published)
                for query, (_, _, is_published) in facts
            ),
        )
        self.invariants = as_list(invariants, "invariants")
        self._check_conditions()
        pairs = list(zip(self.requested, self.tables, strict=True))
        has_portions = any(query.portion is not None and table.is_published for query, table in pairs)
        self._check_whole([query for query, table in pairs if not table.is_published])
        self.shares = shares or ("portions" if has_portions else "tables")
        self._check_budget(has_portions=has_portions)
        self.protects = protects
        self.earlier: EarlierRelease | None = None
        if agree_with is None and not is_part:
            self._check_dimensions()
        if agree_with is not None:
            self.agree_with(agree_with, how=how, records=records)
        elif how is not None or records is not None:
            raise ConditionError("how tables agree goes with agree_with, the bundle of an earlier release")

    @property
    def published(self) -> tuple[RecordTable, ...]:
        """The tables whose counts are published."""
        return tuple(table for table in self.tables if table.is_published)

    def agree_with(self, bundle: str | Path, *, how: str | None, records: str | None = None) -> None:
        """Take an earlier release, whose bundle is verified in full, as the one that the tables are to agree with."""
        from congenial.bundle.workload_earlier import earlier_release

        if how is None:
            raise ConditionError('say how tables agree with the earlier release: how="keep", or how="revise"')
        earlier = earlier_release(bundle, how=how, records=records)
        earlier.axes(self.schema)
        self.earlier = earlier
        self._check_dimensions()

    def _check_conditions(self) -> None:
        for condition in self.invariants:
            check_condition(condition, self.schema)

    def _check_dimensions(self) -> None:
        """Refuse dimensions of which neither these tables nor an earlier release say anything."""
        whole = [some.dimensions for some in self.invariants if isinstance(some, Margin) and some.where is None]
        known = {name for dimensions in [*whole, *(table.dimensions for table in self.tables)] for name in dimensions}
        known |= set() if self.earlier is None else set(self.earlier.plan.law.schema.names)
        if unknown := [name for name in self.schema.names if name not in known]:
            raise ConditionError(
                f"dimension {unknown[0]!r} is in no table and in no exact margin, so that nothing would be known of it;"
                " leave it out, or measure a table with it"
            )

    @staticmethod
    def _check_whole(also_measured: Sequence[Margin]) -> None:
        portions = [query.portion for query in also_measured if query.portion is not None]
        if sum(portions) >= 1:
            raise ConditionError(
                f"what is measured and not published has {sum(portions)} of the whole budget, which leaves nothing for"
                " the tables; such a portion is a part of all, as 3/20"
            )

    def _check_budget(self, *, has_portions: bool) -> None:
        if self.shares not in SHARES:
            raise ConditionError(f"shares is one of {', '.join(SHARES)}, not {self.shares!r}")
        n_precise = sum(query.precision is not None for query in self.requested)
        if self.budget is None and n_precise < len(self.requested):
            raise ConditionError('several tables have a budget, rho="1/2", or a precision for every one of them')
        if self.budget is not None and n_precise:
            raise ConditionError(
                "a budget sets the precision of every table: give portions of it, or precisions and no budget"
            )
        if has_portions and self.shares != "portions":
            raise ConditionError(f"tables have portions of the budget, and shares={self.shares!r} says otherwise")
        if self.budget is not None and self.budget.is_nothing:
            raise PrivacyError("a budget of 0 leaves nothing to release")

    def disclose(self, records: Records) -> tuple[ExactCounts, ...]:
        """Return the exact numbers with the values that the confidential records have: public from here on."""
        self._check_records(records)
        out = []
        for condition in self.invariants:
            if not isinstance(condition, Query):
                continue
            dimensions = tuple(name for name in self.schema.names if name in dimensions_of(condition))
            counts = records.margin(dimensions).reshape(-1).tolist()
            if not dimensions:
                values = [sum(counts)]
            else:
                values = [row.value(counts) for row in condition.rows(self.schema.part(dimensions))]
            if condition.equals is not None:
                stated = np.asarray(condition.equals, object).reshape(-1).tolist()
                if stated != values:
                    raise BrokenError(condition.text, "they have other numbers than are stated")
            out.append(ExactCounts(condition, dimensions, tuple(map(int, values))))
        return tuple(out)

    def law_of(self, exact: Sequence[ExactCounts]) -> WorkloadLaw:
        """Return what is measured and exact, with no precision yet where a budget sets it."""
        zeros = tuple(condition for condition in self.invariants if isinstance(condition, StructuralZeros))
        return WorkloadLaw(self.schema, self.noise, self.tables, tuple(exact), zeros)

    def plan(self, exact: Sequence[ExactCounts]) -> WorkloadPlan:
        """Return how tables are measured under these exact numbers, and what that costs. Public."""
        law = self.law_of(exact)
        facts = facts_of(law, self.neighbours)
        if self.budget is None:
            precisions = [
                Fraction(0) if is_known else table.precision
                for table, is_known in zip(law.tables, facts.determined, strict=True)
            ]
        else:
            portions = portions_of(facts, law.tables, self.requested, self.shares, self.protects)
            precisions = list(workload_precisions(facts, self.budget, portions, kind=self.protects))
        if not any(precisions):
            raise PrivacyError("the exact numbers determine every table: leave out some of them")
        pairs = zip(law.tables, precisions, strict=True)
        law = replace(law, tables=tuple(replace(table, precision=precision) for table, precision in pairs))
        if self.budget is None:
            check_stated_precisions(law, self.neighbours, self.protects)
        facts_of_plan = (law, self.neighbours, 1, self.budget, self.requested, self.shares, self.protects)
        plan = WorkloadPlan(*facts_of_plan, self.earlier)
        plan.check_agreement()
        return plan

    def counts_of(self, records: Records) -> Ints:
        """Return the counts of all tables that are measured, one after the other (1, cell). Confidential."""
        return self._counts(self.law_of(self.disclose(records)), records)

    def _counts(self, law: WorkloadLaw, records: Records) -> Ints:
        tables = [
            table
            for table, is_known in zip(law.tables, is_determined(law, self.neighbours), strict=True)
            if not is_known
        ]
        return np.concatenate([records.margin(table.dimensions).reshape(1, -1) for table in tables], axis=1)

    def _check_records(self, records: Records) -> None:
        if not isinstance(records, Records):
            raise TableError(f"several tables are of Records, not of a {type(records).__name__}")
        if records.schema != self.schema:
            raise TableError(f"the records have {records.schema}, and the tables {self.schema}")
        for condition in self.invariants:
            if isinstance(condition, StructuralZeros):
                part = self.schema.part(dimensions_of(condition))
                if records.margin(part.names).reshape(-1)[part.cells(condition.where)].any():
                    raise BrokenError(condition.text, "some records are in a cell that is 0 by logic")

    def prepare(self, data: Records, naming: Naming, *, area: str = "") -> "PreparedWorkload":  # noqa: ARG002
        """Plan a release of records, and see that it can be measured. Nothing is charged, nothing drawn."""
        if self.earlier is not None:
            naming = naming_with_earlier(naming, self.earlier)
        plan = self.plan(self.disclose(data))
        plan.check_samplers()
        _ = plan.certificate
        return PreparedWorkload(plan, naming, tuple(self.invariants), self._counts(plan.law, data))

    def __repr__(self) -> str:
        tables = ", ".join(f"{table.name} ({' x '.join(table.dimensions)})" for table in self.tables)
        exact = ", ".join(condition.text for condition in self.invariants) or "nothing"
        lines = [f"Workload on {self.schema}", f"tables: {tables}; {self.noise} noise", f"exact: {exact}"]
        if self.budget is not None:
            lines.append(f"budget: {self.budget.text}, {self.neighbours} neighbours, shares by {self.shares}")
        return "\n  ".join(lines)


@dataclass(frozen=True, repr=False)
class PreparedWorkload(Prepared):
    """Records whose tables are planned: nothing is charged yet. Confidential.

    Attributes
    ----------
    confidential : array (1, cell)
        The counts of all measured tables, one after the other.
    """

    plan: WorkloadPlan  # type: ignore[assignment]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan. It holds the disclosed values and nothing else of the data."""
        return workload_plan_digest(self.naming, self.plan, self.conditions, self.plan.certificate)

    @property
    def disclosed_numbers(self) -> list[tuple[str, object]]:
        """Every statistic that the release states exactly, with its value, for the ledger."""
        return [(exact.text, exact.value()) for exact in workload_statistics(self.plan.law)]

    @property
    def released_tables(self) -> ReleasedTables:
        """Which tables are measured, and what is exact, for the ledger."""
        return ReleasedTables.of(self.plan.facts, self.plan.law.schema.names)

    def streams(self, key: ReleaseKey) -> LevelStreams:
        """Return the random words of every table under a key."""
        return key.measurement_streams(self.naming.release, self.digest, "tables of records")

    def released(self, receipt: Receipt | None, drawn: TreeTables, made_at: str) -> WorkloadRelease:
        """Return the release of what was drawn."""
        facts = (self.plan, self.naming, self.conditions, receipt, drawn, made_at, self.software, self.disclosures)
        return WorkloadRelease(*facts)


def as_record_schema(schema: object) -> RecordSchema:
    """Return the dimensions of records, however they were stated."""
    if isinstance(schema, RecordSchema):
        return schema
    if isinstance(schema, Schema):
        return RecordSchema(
            {dimension.name: dimension.labels for dimension in schema.dimensions},
            {dimension.name: dict(dimension.groups) for dimension in schema.dimensions},
            schema.ordered,
        )
    if not isinstance(schema, Mapping):
        raise ConditionError(f"several tables need the dimensions of their records, not a {type(schema).__name__}")
    return RecordSchema(schema)


def _requested(schema: RecordSchema, name: object, query: object) -> Margin:
    """Return a table as a margin with a name; refuses what is none."""
    if not isinstance(name, str):
        raise ConditionError(f"a table has a name in plain text, not {name!r}")
    if isinstance(query, Cells) and query.where is None:
        query = margin(*schema.names, precision=query.precision, portion=query.portion)
    if not isinstance(query, Margin) or query.where is not None or query.is_stated:
        raise ConditionError(f"table {name!r} is a margin of some dimensions, such as margin({schema.names[0]!r})")
    axes = sorted({schema.axis(dimension) for dimension in query.dimensions})
    return replace(query, name=name, dimensions=tuple(schema.names[axis] for axis in axes))
