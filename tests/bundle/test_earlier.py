"""What version 0.1.0 published and drew: its bundles verify, and the same key, spec and data give the same tables."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from congenial.curator.pipeline import prepare
from congenial.inference.analyst_bundle import load_bundle
from congenial.randomness import SecretBytes
from congenial.release_key import ReleaseKey
from congenial.spec import parse_spec

EARLIER = Path(__file__).parents[1] / "earlier" / "0.1.0"
EXAMPLES = Path(__file__).parents[2] / "examples"
DRAWN = json.loads((EARLIER / "tables.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["one-table", "areas", "tree"])
def test_bundles_verify(name: str) -> None:
    bundle = load_bundle(EARLIER / name)
    assert bundle.manifest.software["congenial"] == "0.1.0"
    assert bundle.manifest.is_for_release


@pytest.mark.parametrize("name", DRAWN)
def test_examples_are_drawn_as_before(name: str) -> None:
    """The plan's digest is part of what random words are made from, so it is the same too."""
    folder = EXAMPLES / name
    text = (folder / "spec.yaml").read_text(encoding="utf-8")
    if "hierarchy:" in text:
        text += "method: conditional\n"  # version 0.1.0 had no other
    ready = prepare(parse_spec(text, "spec.yaml", folder), folder)
    assert ready.digest == DRAWN[name]["plan"]
    tables = ready.draw(ready.streams(ReleaseKey(SecretBytes(bytes(range(32))))))
    assert [_digest_of(level) for level in tables] == DRAWN[name]["tables"]


def _digest_of(tables: "np.ndarray[tuple[int, int], np.dtype[np.int64]]") -> str:
    return hashlib.sha256(np.ascontiguousarray(tables, "<i8").tobytes()).hexdigest()
