"""Differentially private tables whose mandated numbers come out exact."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from congenial import errors, examples, noise
    from congenial.bundle.recompute import Bundle
    from congenial.conditions.constraints import Constraints
    from congenial.conditions.limits_and_shares import bounds, share, structural_zeros
    from congenial.conditions.queries import cells, linear, margin, total
    from congenial.curator.pipeline import find_violations
    from congenial.errors import CongenialError
    from congenial.inference.analyst_bundle import load_bundle
    from congenial.law import Law, PublicLaw
    from congenial.ledger import open_ledger
    from congenial.mechanism_and_hierarchy import Hierarchy, Mechanism
    from congenial.plan import Plan
    from congenial.privacy.certificate import Certificate
    from congenial.privacy.certify import certify
    from congenial.privacy.compose_and_price_areas import compose
    from congenial.published_release import Release
    from congenial.randomness import replay_rng, secure_rng
    from congenial.schema import RecordSchema, Schema
    from congenial.study.compare import compare, compare_tree
    from congenial.table import Table
    from congenial.tree.tree_and_zeros import Tree, Zeros
    from congenial.workload.records import Records
    from congenial.workload.workload import Workload

__version__ = "0.1.0"

# Each name is imported when it is first used: `congenial --help` must not wait for numpy.
_HOMES = {
    "Bundle": "congenial.bundle.recompute",
    "Certificate": "congenial.privacy.certificate",
    "CongenialError": "congenial.errors",
    "Constraints": "congenial.conditions.constraints",
    "Hierarchy": "congenial.mechanism_and_hierarchy",
    "Law": "congenial.law",
    "Mechanism": "congenial.mechanism_and_hierarchy",
    "Plan": "congenial.plan",
    "PublicLaw": "congenial.law",
    "RecordSchema": "congenial.schema",
    "Records": "congenial.workload.records",
    "Release": "congenial.release",
    "Schema": "congenial.schema",
    "Table": "congenial.table",
    "Tree": "congenial.tree.tree_and_zeros",
    "Workload": "congenial.workload.workload",
    "Zeros": "congenial.tree.tree_and_zeros",
    "bounds": "congenial.conditions.limits_and_shares",
    "cells": "congenial.conditions.queries",
    "certify": "congenial.privacy.certify",
    "compare": "congenial.study.compare",
    "compare_tree": "congenial.study.compare",
    "compose": "congenial.privacy.compose_and_price_areas",
    "find_violations": "congenial.curator.pipeline",
    "linear": "congenial.conditions.queries",
    "load_bundle": "congenial.inference.analyst_bundle",
    "margin": "congenial.conditions.queries",
    "open_ledger": "congenial.ledger",
    "replay_rng": "congenial.randomness",
    "secure_rng": "congenial.randomness",
    "share": "congenial.conditions.limits_and_shares",
    "structural_zeros": "congenial.conditions.limits_and_shares",
    "total": "congenial.conditions.queries",
}
_MODULES = ("errors", "examples", "noise")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"congenial.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'congenial' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])


__all__ = [
    "Bundle",
    "Certificate",
    "CongenialError",
    "Constraints",
    "Hierarchy",
    "Law",
    "Mechanism",
    "Plan",
    "PublicLaw",
    "RecordSchema",
    "Records",
    "Release",
    "Schema",
    "Table",
    "Tree",
    "Workload",
    "Zeros",
    "bounds",
    "cells",
    "certify",
    "compare",
    "compare_tree",
    "compose",
    "errors",
    "examples",
    "find_violations",
    "linear",
    "load_bundle",
    "margin",
    "noise",
    "open_ledger",
    "replay_rng",
    "secure_rng",
    "share",
    "structural_zeros",
    "total",
]
