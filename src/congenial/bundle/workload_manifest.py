"""The manifest of several tables of the same records: their law as plain values, written and read. Public."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from congenial.bundle.canonical_json import (
    budget_json,
    budget_of_json,
    certificate_json,
    digest,
    read_as,
    read_texts,
)
from congenial.bundle.file_registry import MANIFEST
from congenial.bundle.law_and_tree_json import condition_of_entry, dimension_json, read_dimensions
from congenial.bundle.manifest import Decision, ExactStatistic, Manifest, ReadAreas, ReadTree, read_query
from congenial.bundle.naming_and_versions import Naming, PublicFile
from congenial.conditions.base import Condition
from congenial.conditions.limits_and_shares import StructuralZeros
from congenial.conditions.queries import Query
from congenial.errors import BundleError, ConditionError
from congenial.exact import exact_fraction
from congenial.ledger.records import Receipt
from congenial.noise import FAMILIES
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import MEASURED
from congenial.privacy.disclosure import Disclosure
from congenial.rules.registry import rule_named
from congenial.schema import RecordSchema
from congenial.workload.later import Agreement, EarlierRelease
from congenial.workload.law import RULE, ExactCounts, RecordTable, WorkloadLaw, checked_tables, dimensions_of
from congenial.workload.plan import SHARES, WorkloadPlan


def workload_as_json(plan: WorkloadPlan) -> dict[str, Any]:
    """Return the law of several tables as plain values for a manifest."""
    law = plan.law
    return {
        "dimensions": [dimension_json(dimension) for dimension in law.schema.dimensions],
        "noise": law.noise,
        "method": law.method,
        "rule": {"name": law.rule[0], "version": law.rule[1]},
        "tables": [
            {
                "name": table.name,
                "dimensions": list(table.dimensions),
                "precision": str(table.precision),
                "base": str(law.family(table.precision).base) if table.precision else None,
                "is_published": table.is_published,
            }
            for table in law.tables
        ],
        "exact": [
            {"text": exact.condition.title, "dimensions": list(exact.dimensions), "values": list(exact.values)}
            for exact in law.exact
        ],
        "shares_by": plan.shares_by,
        "protects": plan.protects,
        "agrees_with": None if plan.earlier is None else plan.earlier.agreement.as_json(),
    }


def is_workload(values: Mapping[str, Any]) -> bool:
    """Whether a manifest's values are those of several tables of the same records."""
    law = values.get("law")
    return isinstance(law, dict) and "tables" in law


def workload_of_json(values: Mapping[str, Any], conditions: Sequence[Condition]) -> WorkloadLaw:
    """Read what `workload_as_json` wrote; refuses what does not describe a law."""
    entry = values["law"]
    noise = entry["noise"]
    if noise not in FAMILIES or not FAMILIES[noise].is_for_release:
        raise BundleError(f"noise {noise!r} is not known to this version")
    if entry["method"] != MEASURED:
        raise BundleError("several tables of the same records are measured, and this says something else")
    schema = read_dimensions(entry["dimensions"], RecordSchema)
    assert isinstance(schema, RecordSchema)  # noqa: S101
    tables = tuple(
        RecordTable(
            read_as(str, table["name"]),
            tuple(read_texts(table["dimensions"])),
            exact_fraction(table["precision"], "a precision"),
            read_as(bool, table["is_published"]),
        )
        for table in entry["tables"]
    )
    if checked_tables(schema, tables) != tables or not any(table.precision for table in tables):
        raise BundleError("its tables are not over dimensions in their order, or none is measured")
    if any(table.precision < 0 for table in tables):
        raise BundleError("a precision is negative")
    if not any(table.is_published for table in tables):
        raise BundleError("none of its tables is published")
    if entry["shares_by"] not in SHARES:
        raise BundleError(f"the budget is shared by one of {', '.join(SHARES)}, and this says something else")
    exact_conditions = [condition for condition in conditions if isinstance(condition, Query)]
    zeros = tuple(condition for condition in conditions if isinstance(condition, StructuralZeros))
    if len(exact_conditions) + len(zeros) != len(conditions) or len(exact_conditions) != len(entry["exact"]):
        raise BundleError("its exact numbers are not those that were stated")
    exact = []
    for condition, stated in zip(exact_conditions, entry["exact"], strict=True):
        dimensions = tuple(name for name in schema.names if name in dimensions_of(condition))
        numbers = tuple(read_as(int, value) for value in stated["values"])
        n_rows = len(condition.rows(schema.part(dimensions))) if dimensions else 1
        if dimensions != tuple(stated["dimensions"]) or len(numbers) != n_rows:
            raise BundleError(f"{condition.title} does not have its values")
        exact.append(ExactCounts(condition, dimensions, numbers))
    rule = read_as(str, entry["rule"]["name"]), read_as(int, entry["rule"]["version"])
    if rule[0] != RULE[0]:
        raise BundleError(f"rule {rule[0]!r} decides no tables of records")
    rule_named(*rule)
    return WorkloadLaw(schema, noise, tables, tuple(exact), zeros, rule)


def workload_statistics(law: WorkloadLaw) -> tuple[ExactStatistic, ...]:
    """Return every statistic that is exact, with its value, in words."""
    out = []
    for exact in law.exact:
        names = (
            [row.name for row in exact.condition.rows(law.schema.part(exact.dimensions))]
            if exact.dimensions
            else ["total"]
        )
        head = exact.condition.name
        texts = [head or names[0]] if len(names) == 1 else [f"{head}: {name}" if head else name for name in names]
        out += [
            ExactStatistic.of(text, exact.condition.mandate, np.array([value], np.int64))
            for text, value in zip(texts, exact.values, strict=True)
        ]
    return tuple(out)


def naming_with_earlier(naming: Naming, earlier: EarlierRelease) -> Naming:
    """Name the release that tables agree with among the public files; refuses one of other data."""
    agreement = earlier.agreement
    if (earlier.dataset, earlier.status) != (naming.dataset, naming.status):
        raise ConditionError(
            f"release {agreement.release!r} is of dataset {earlier.dataset!r}, {earlier.status} data, and this one"
            f" of {naming.dataset!r}, {naming.status} data; tables agree with those of their own dataset"
        )
    file = PublicFile(f"release {agreement.release}, which tables agree with", MANIFEST, agreement.manifest)
    return replace(naming, public_files=(*naming.public_files, file))


def workload_plan_digest(
    naming: Naming, plan: WorkloadPlan, conditions: Sequence[Condition], certificate: Certificate
) -> str:
    """Return the SHA-256 of a plan. It holds the disclosed values and nothing else of the data."""
    names = asdict(naming)
    del names["codes"]
    values = {
        "names": names,
        "rows_per_unit": plan.rows_per_unit,
        "neighbours": plan.neighbours,
        "budget": budget_json(plan.budget),
        "conditions": [condition.as_json() for condition in conditions],
        "measured": [query.as_json() for query in plan.requested],
        "law": workload_as_json(plan),
        "certificate": certificate_json(certificate),
    }
    return digest(json.dumps(values, sort_keys=True).encode())


@dataclass(frozen=True)
class WorkloadManifest(Manifest):
    """Everything that is published about several tables of the same records, besides the tables."""

    plan: WorkloadPlan  # type: ignore[assignment]

    @classmethod
    def of_plan(
        cls,
        naming: Naming,
        made_at: str,
        plan: WorkloadPlan,
        conditions: Sequence[Condition],
        receipt: Receipt | None,
        software: Mapping[str, str],
        disclosures: tuple[Disclosure, ...] = (),
        decision: Decision | None = None,
    ) -> "WorkloadManifest":
        """Return what follows from a plan; no file is listed yet."""
        disclosures = disclosures or plan.disclosures(conditions)
        return cls(
            naming=naming,
            made_at=made_at,
            plan=plan,
            certificate=plan.certificate,
            conditions=tuple(conditions),
            exact_statistics=workload_statistics(plan.law),
            sampler="; ".join(dict.fromkeys(sampler.title for sampler in plan.samplers)),
            is_exact=plan.is_exact,
            receipt=receipt,
            software=software,
            files={},
            left_out={},
            disclosure_summaries=tuple(disclosure.summary for disclosure in disclosures),
            decision=decision,
            known_disclosures=disclosures,
        )

    @property
    def law(self) -> WorkloadLaw:  # type: ignore[override]
        """The law of the release."""
        return self.plan.law

    @property
    def law_as_json(self) -> dict[str, Any]:
        """The law as plain values."""
        return workload_as_json(self.plan)

    @property
    def plan_digest(self) -> str:
        """SHA-256 of the plan that was charged: what the ledger keeps of it."""
        return workload_plan_digest(self.naming, self.plan, self.conditions, self.certificate)

    @classmethod
    def with_earlier(
        cls, values: Mapping[str, Any], read: "Callable[[Agreement], EarlierRelease]"
    ) -> "WorkloadManifest":
        """Read the values that `untouched_values` gives, and by a callable the release that its tables agree with."""
        return cls.from_values(values, read)  # type: ignore[arg-type]

    @classmethod
    def read_plan(  # type: ignore[override]
        cls,
        values: Mapping[str, Any],
        read_areas: ReadAreas | None,
        read_tree: ReadTree | None,  # noqa: ARG003
    ) -> tuple[WorkloadPlan, tuple[ExactStatistic, ...]]:
        """Return the plan, and what came out exactly, of a manifest's values; what it agrees with by a callable."""
        if read_as(int, values["unit"]["rows"]) != 1:
            raise BundleError("several tables of the same records are certified for units with one row each")
        conditions = tuple(map(condition_of_entry, values["conditions"]))
        law = workload_of_json(values, conditions)
        agreed, read_earlier = values["law"]["agrees_with"], read_areas
        plan = WorkloadPlan(
            law,
            read_as(str, values["privacy"]["neighbours"]),
            1,
            budget_of_json(values["privacy"]["budget"], law.noise),
            tuple(map(read_query, values["measured"])),
            read_as(str, values["law"]["shares_by"]),
            None if values["law"]["protects"] is None else read_as(str, values["law"]["protects"]),
            None if agreed is None else read_earlier(Agreement.of_json(agreed)),  # type: ignore[arg-type, misc]
        )
        plan.check_agreement()
        return plan, workload_statistics(law)
