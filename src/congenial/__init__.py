"""Differentially private tables whose mandated numbers come out exact."""

from congenial import errors, examples, noise
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import bounds, cells, linear, margin, share, structural_zeros, total
from congenial.errors import CongenialError
from congenial.law import Law
from congenial.mechanism import Mechanism
from congenial.plan import ReleasePlan
from congenial.privacy.certificate import Certificate
from congenial.privacy.certify import certify
from congenial.privacy.compose import compose
from congenial.randomness import replay_rng, secure_rng
from congenial.schema import Schema
from congenial.study.compare import compare
from congenial.table import Table

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CongenialError",
    "Constraints",
    "Law",
    "Mechanism",
    "ReleasePlan",
    "Schema",
    "Table",
    "bounds",
    "cells",
    "certify",
    "compare",
    "compose",
    "errors",
    "examples",
    "linear",
    "margin",
    "noise",
    "replay_rng",
    "secure_rng",
    "share",
    "structural_zeros",
    "total",
]
