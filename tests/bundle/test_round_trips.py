"""What is written into a manifest is what is read from it: bytes to values to bytes, and every part of a law."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from congenial.bundle.law_json import law_as_json, law_of_json
from congenial.bundle.manifest import Manifest, digest
from congenial.errors import BundleError, CongenialError
from congenial.public_law import MeasuredQuery, PublicLaw
from releases import CASES, Maker
from systems import SYSTEMS


def content_of(made: Maker, case: str = "one table") -> bytes:
    return (made(case) / "bundle" / "manifest.json").read_bytes()


def signed_off(values: dict[str, Any]) -> bytes:
    """Render values as a manifest is, with a digest that fits: what somebody would do who wants to deceive."""
    from congenial.bundle.manifest import _rendered

    plain = {name: value for name, value in values.items() if name != "digest"}
    return _rendered({**plain, "digest": digest(_rendered(plain))})


@pytest.mark.parametrize("case", CASES)
def test_manifests_come_back_byte_for_byte(case: str, made: Maker) -> None:
    content = content_of(made, case)
    manifest = Manifest.from_bytes(content)
    assert manifest.as_bytes() == content
    assert Manifest.from_bytes(manifest.as_bytes()) == manifest
    assert signed_off(json.loads(content)) == content


@pytest.mark.parametrize("case", CASES)
def test_laws_come_back(case: str, made: Maker) -> None:
    law = Manifest.from_bytes(content_of(made, case)).law
    given = json.loads(json.dumps(law_as_json(law)))
    assert law_of_json(given) == law
    assert law_as_json(law_of_json(given)) == given


@pytest.mark.parametrize("name", SYSTEMS)
def test_laws_of_many_systems_come_back(name: str) -> None:
    """Zeros, limits, negative weights, rows that areas share: whatever a mechanism can hold."""
    target = SYSTEMS[name]().target
    schema, noise = target.constraints.schema, target.measured[0].noise.family
    queries = tuple(MeasuredQuery(one.row.name, one.noise.precision, (one.row,)) for one in target.measured)
    tables = (("a", target.constraints), ("b", target.constraints))
    law = PublicLaw(schema, noise, queries, "area", tables)
    again = law_of_json(json.loads(json.dumps(law_as_json(law))))
    assert law_as_json(again) == law_as_json(law)
    for kept in again.constraints.values():  # all but the remarks on conditions that said nothing new
        wanted = target.constraints
        assert (kept.rows, kept.lower, kept.upper) == (wanted.rows, wanted.lower, wanted.upper)
    assert again.target("b", target.centre).measured == target.measured


def edited(path: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(values: Any) -> None:
        *steps, last = [int(step) if step.lstrip("-").isdigit() else step for step in path.split(".")]
        for step in steps:
            values = values[step]
        if value is ...:
            del values[last]
        else:
            values[last] = value

    return edit


FORGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "another format": edited("format", "zip"),
    "no format": edited("format", ...),
    "no version": edited("version", ...),
    "version in words": edited("version", "1"),
    "version true": edited("version", True),
    "version 0": edited("version", 0),
    "a newer version": edited("version", 2),
    "no law": edited("law", ...),
    "law in words": edited("law", "any"),
    "no noise": edited("law.noise", ...),
    "another noise": edited("law.noise", "laplace"),
    "noise a list": edited("law.noise", []),
    "another precision": edited("law.measured.0.precision", "1/4"),
    "a precision as number": edited("law.measured.0.precision", 0.5),
    "a negative precision": edited("law.measured.0.precision", "-1"),
    "another base": edited("law.measured.0.base", "1/2"),
    "cells far out": edited("law.rows.0.cells", [[0, 10**15]]),
    "cells below 0": edited("law.rows.0.cells", [[-1, 2]]),
    "cells backwards": edited("law.rows.0.cells", [[5, 0]]),
    "cells twice": edited("law.rows.0.cells", [[0, 2], [1, 5]]),
    "weights that do not fit": edited("law.rows.0.weights", [1]),
    "a weight of 0": edited("law.rows.0.weights", [1, 1, 1, 1, 1, 0]),
    "a row that is not there": edited("law.tables.0.rows.0.0", 7),
    "a row before the first": edited("law.tables.0.rows.0.0", -1),
    "a value with a point": edited("law.tables.0.rows.0.1", 16.0),
    "a value true": edited("law.tables.0.rows.0.1", True),
    "a limit of no cell": edited("law.tables.0.limits", [[6, 0, 1]]),
    "no tables": edited("law.tables", []),
    "an area without a name": edited("law.tables.0.area", "x"),
    "a label twice": edited("law.dimensions.0.labels", ["f", "f"]),
    "a label a number": edited("law.dimensions.0.labels", [1, 2]),
    "no dimensions": edited("law.dimensions", []),
    "a certificate of no theorem": edited("privacy.certificate.kind", "wishful"),
    "a certificate of another page": edited("privacy.certificate.page", "docs/privacy.md"),
    "a certificate with a float": edited("privacy.certificate.epsilon", 1.5),
    "a receipt with a field too many": edited("receipt.note", "x"),
    "a receipt without a field": edited("receipt.hash", ...),
    "a receipt that is a list": edited("receipt", []),
    "too few values": edited("invariants.0.values", []),
    "half a surrogate": edited("title", "\ud800"),
    "deep": edited("title", json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_manifest_that_describes_nothing_is_refused_in_words(forgery: str, made: Maker) -> None:
    """The digest fits, so only reading it with care helps."""
    values = json.loads(content_of(made))
    FORGED[forgery](values)
    try:
        content = signed_off(values)
    except UnicodeEncodeError:
        content = json.dumps(values).encode()
    with pytest.raises(BundleError):
        Manifest.from_bytes(content)


def test_a_newer_version_says_what_to_do(made: Maker) -> None:
    values = json.loads(content_of(made))
    with pytest.raises(BundleError, match="version 7, and this software reads up to 1; install a newer congenial"):
        Manifest.from_bytes(signed_off(values | {"version": 7}))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN"]
)
def test_what_is_no_manifest_at_all(content: bytes) -> None:
    with pytest.raises(BundleError):
        Manifest.from_bytes(content)


def test_every_part_that_is_left_out_is_missed(made: Maker) -> None:
    values = json.loads(content_of(made))
    for name in values:
        if name != "digest":
            with pytest.raises(CongenialError):
                Manifest.from_bytes(signed_off({key: value for key, value in values.items() if key != name}))
