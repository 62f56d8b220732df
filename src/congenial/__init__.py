"""Differentially private tables whose mandated numbers come out exact."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from congenial import errors, examples, noise
    from congenial.breaches import find_breaches
    from congenial.bundle.loading import Bundle, load_bundle
    from congenial.conditions.constraints import Constraints
    from congenial.conditions.queries import bounds, cells, linear, margin, share, structural_zeros, total
    from congenial.errors import CongenialError
    from congenial.hierarchy.hierarchy import Hierarchy
    from congenial.hierarchy.tree import Tree
    from congenial.hierarchy.zeros import Zeros
    from congenial.law import Law
    from congenial.ledger import open_ledger
    from congenial.mechanism import Mechanism
    from congenial.plan import Plan
    from congenial.privacy.certificate import Certificate
    from congenial.privacy.certify import certify
    from congenial.privacy.compose import compose
    from congenial.public_law import PublicLaw
    from congenial.randomness import replay_rng, secure_rng
    from congenial.released import Release
    from congenial.schema import Schema
    from congenial.study.compare import compare
    from congenial.study.compare_tree import compare_tree
    from congenial.table import Table
    from congenial.tree_release import release_tree, resume_tree

__version__ = "0.1.0"

# Each name is imported when it is first used: `congenial --help` must not wait for numpy.
_HOMES = {
    "Bundle": "congenial.bundle.loading",
    "Certificate": "congenial.privacy.certificate",
    "CongenialError": "congenial.errors",
    "Constraints": "congenial.conditions.constraints",
    "Hierarchy": "congenial.hierarchy.hierarchy",
    "Law": "congenial.law",
    "Mechanism": "congenial.mechanism",
    "Plan": "congenial.plan",
    "PublicLaw": "congenial.public_law",
    "Release": "congenial.released",
    "Schema": "congenial.schema",
    "Table": "congenial.table",
    "Tree": "congenial.hierarchy.tree",
    "Zeros": "congenial.hierarchy.zeros",
    "bounds": "congenial.conditions.queries",
    "cells": "congenial.conditions.queries",
    "certify": "congenial.privacy.certify",
    "compare": "congenial.study.compare",
    "compare_tree": "congenial.study.compare_tree",
    "compose": "congenial.privacy.compose",
    "find_breaches": "congenial.breaches",
    "linear": "congenial.conditions.queries",
    "load_bundle": "congenial.bundle.loading",
    "margin": "congenial.conditions.queries",
    "open_ledger": "congenial.ledger",
    "release_tree": "congenial.tree_release",
    "replay_rng": "congenial.randomness",
    "resume_tree": "congenial.tree_release",
    "secure_rng": "congenial.randomness",
    "share": "congenial.conditions.queries",
    "structural_zeros": "congenial.conditions.queries",
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
    "Release",
    "Schema",
    "Table",
    "Tree",
    "Zeros",
    "bounds",
    "cells",
    "certify",
    "compare",
    "compare_tree",
    "compose",
    "errors",
    "examples",
    "find_breaches",
    "linear",
    "load_bundle",
    "margin",
    "noise",
    "open_ledger",
    "release_tree",
    "replay_rng",
    "resume_tree",
    "secure_rng",
    "share",
    "structural_zeros",
    "total",
]
