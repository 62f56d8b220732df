"""What a ledger keeps of a plan: a digest of everything that is settled before a table is drawn."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from congenial.bundle.canonical import digest
from congenial.bundle.law_json import law_as_json
from congenial.bundle.naming import Naming
from congenial.bundle.privacy_json import budget_json, certificate_json
from congenial.bundle.tree_json import tree_as_json
from congenial.conditions.condition import Condition
from congenial.hierarchy.plan import ChainPlan
from congenial.plan import Plan
from congenial.privacy.certificate import Certificate
from congenial.public_law import PublicLaw


def plan_digest(
    naming: Naming, plan: Plan | ChainPlan, conditions: Sequence[Condition], certificate: Certificate
) -> str:
    """Return the SHA-256 of a plan. It holds the disclosed values and nothing else of the data."""
    asked, tree = plan.budget, {"tree": tree_as_json(plan)} if isinstance(plan, ChainPlan) else {}
    plan = plan.top if isinstance(plan, ChainPlan) else plan
    values = {
        "names": asdict(naming),
        "rows_per_unit": plan.rows_per_unit,
        "neighbours": plan.neighbours,
        "budget": budget_json(asked),
        "conditions": [condition.as_json() for condition in conditions],
        "measured": [query.as_json() for query in plan.asked],
        "law": law_as_json(plan.law),
        "areas": areas_digest(plan.law),
        "certificate": certificate_json(certificate),
        **tree,
    }
    return digest(json.dumps(values, sort_keys=True).encode())


def areas_digest(law: PublicLaw) -> str:
    """Return the SHA-256 of every area's label and values."""
    state = hashlib.sha256("\0".join(map(str, law.areas.labels)).encode())
    for group in law.areas.groups:
        state.update(np.ascontiguousarray(group.places, "<i8").tobytes())
        values = group.values
        state.update(repr(values.tolist()).encode() if values.dtype == object else values.astype("<i8").tobytes())
    return state.hexdigest()


def disclosed_below(chain: ChainPlan | None) -> list[tuple[str, object]]:
    """Return what is exact in every unit of levels below the top of a tree."""
    if chain is None:
        return []
    where = f"in the bundle; SHA-256 of the tree with all values {chain.law.digest}"
    return [
        (f"{condition.title}, of each {level}", where)
        for level, conditions in chain.invariants_below.items()
        for condition in conditions
    ]
