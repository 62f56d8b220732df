"""The file learned.json: what a rule learned from the measurements, and decided the tables with."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.canonical_json import canonical_json
from congenial.bundle.manifest import Manifest
from congenial.decided_tables import learned_numbers
from congenial.errors import BundleError
from congenial.law import PublicLaw
from congenial.rules.rule_and_input import FRACTION_BITS, Learned

_LARGEST_FILE = 1 << 24
_REFUSED = "learned.json does not hold what rule {0!r} learned; get the bundle from its publisher again"


def learned_json(manifest: Manifest, measured_levels: Sequence[Ints], levels: Sequence[Ints]) -> bytes:
    """Return the file: the rule, the unit of its numbers, and these by name; learned again from what is published."""
    numbers = learned_numbers(_law(manifest), measured_levels, levels)
    lists = {name: some.tolist() for name, some in numbers.items()}
    return canonical_json({**_head(manifest), "numbers": lists})


def read_learned(manifest: Manifest, content: bytes) -> Learned:
    """Read the file; refuses one of another rule, or with anything but lists of whole numbers of 64 bits."""
    refused = BundleError(_REFUSED.format(_rule(manifest)[0]))
    try:
        values: Any = json.loads(content.decode()) if len(content) <= _LARGEST_FILE else None
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise refused from None
    head = _head(manifest)
    if not isinstance(values, dict) or set(values) != {*head, "numbers"}:
        raise refused
    lists = values["numbers"]
    if any(values[key] != head[key] for key in head) or not isinstance(lists, dict) or not lists:
        raise refused
    for some in lists.values():
        if not isinstance(some, list) or not all(type(one) is int and abs(one) < 2**63 for one in some):
            raise refused
    if canonical_json(values) != content:
        raise refused
    return {name: np.array(some, np.int64) for name, some in lists.items()}


def _head(manifest: Manifest) -> dict[str, Any]:
    name, version = _rule(manifest)
    return {"rule": name, "version": version, "unit": f"2^-{FRACTION_BITS}"}


def _rule(manifest: Manifest) -> tuple[str, int]:
    if manifest.decision is None:
        raise BundleError("a conditional release has no rule, and nothing was learned for its tables")
    return manifest.decision.rule


def _law(manifest: Manifest) -> PublicLaw:
    """Return the law with the rule that decided the tables, which may be another than was charged."""
    return replace(manifest.law, rule=_rule(manifest))
