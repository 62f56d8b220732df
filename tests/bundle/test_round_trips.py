"""What is written into a manifest is what is read from it: bytes to values to bytes, and every part of a law."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from congenial.bundle.areas_spine_and_level_files import areas_of_parquet, areas_to_parquet
from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.law_and_tree_json import AreaValues, law_as_json, law_of_json
from congenial.bundle.manifest import Manifest, untouched_values
from congenial.conditions.areas_and_bounds import Areas
from congenial.errors import BundleError, CongenialError
from congenial.law import MeasuredQuery, PublicLaw
from releases import CASES, Maker, manifest_of
from systems import SYSTEMS


def content_of(case_folder: Maker, case: str = "one table") -> bytes:
    return (case_folder(case) / "bundle" / "manifest.json").read_bytes()


def signed_off(values: dict[str, Any]) -> bytes:
    """Render values as a manifest is, with a digest that fits: what somebody would do who wants to deceive."""
    plain = {name: value for name, value in values.items() if name != "digest"}
    return canonical_json({**plain, "digest": digest(canonical_json(plain))})


@pytest.mark.parametrize("case", CASES)
def test_manifests_come_back_byte_for_byte(case: str, case_folder: Maker) -> None:
    content = content_of(case_folder, case)
    manifest = manifest_of(case_folder(case) / "bundle")
    assert manifest.as_bytes() == content
    assert manifest_of(case_folder(case) / "bundle") == manifest
    assert signed_off(json.loads(content)) == content


@pytest.mark.parametrize("case", CASES)
def test_laws_come_back(case: str, case_folder: Maker) -> None:
    law = manifest_of(case_folder(case) / "bundle").law
    values = json.loads(json.dumps(law_as_json(law)))
    read = law_of_json(values, values_of(law))
    assert read == law
    assert law_as_json(read) == values


def values_of(law: PublicLaw) -> AreaValues | None:
    """Return the areas' values by way of their file."""
    return None if law.areas.name is None else areas_of_parquet(areas_to_parquet(law.areas, []), 0)[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_laws_of_many_systems_come_back(name: str) -> None:
    """Zeros, limits, negative coefficients, rows that areas share: whatever a mechanism can hold."""
    target = SYSTEMS[name]().target
    schema, noise = target.constraints.schema, target.measured[0].noise.family
    queries = tuple(MeasuredQuery(each.row.name, each.noise.precision, (each.row,)) for each in target.measured)
    areas = Areas.collected("area", {"a": target.constraints, "b": target.constraints})
    law = PublicLaw(schema, noise, queries, areas)
    read = law_of_json(json.loads(json.dumps(law_as_json(law))), values_of(law))
    assert law_as_json(read) == law_as_json(law)
    for constraints in read.areas.values():  # all but the remarks on conditions that said nothing new
        wanted = target.constraints
        assert (constraints.rows, constraints.lower, constraints.upper) == (wanted.rows, wanted.lower, wanted.upper)
    assert read.target("b", target.centre).measured == target.measured


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
    "an older version": edited("version", 1),
    "a newer version": edited("version", 4),
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
    "coefficients that do not fit": edited("law.rows.0.coefficients", [1]),
    "a coefficient of 0": edited("law.rows.0.coefficients", [1, 1, 1, 1, 1, 0]),
    "a row that is not there": edited("law.groups.0.rows.0.0", 7),
    "a row before the first": edited("law.groups.0.rows.0.0", -1),
    "a value with a point": edited("law.values.0", 16.0),
    "a value true": edited("law.values.0", True),
    "a limit of no cell": edited("law.groups.0.limits", [[6, 0, 1]]),
    "no groups": edited("law.groups", []),
    "a group too many": edited("law.groups", [{"rows": [], "limits": []}] * 2),
    "too many values": edited("law.values", [9, 9]),
    "a range of one value": edited("law.groups.0.rows.0", [0, 9, 9]),
    "weights": edited("law.weights", {"0": "1/2"}),
    "a tree": edited("law.tree", []),
    "an area without a name": edited("law.area", "x"),
    "a label twice": edited("law.dimensions.0.labels", ["f", "f"]),
    "a label a number": edited("law.dimensions.0.labels", [1, 2]),
    "no dimensions": edited("law.dimensions", []),
    "a certificate of no theorem": edited("privacy.certificate.kind", "wishful"),
    "a certificate of another page": edited("privacy.certificate.page", "docs/privacy.md"),
    "a certificate with a float": edited("privacy.certificate.epsilon", 1.5),
    "a receipt with a field too many": edited("receipt.note", "x"),
    "a receipt without a field": edited("receipt.hash", ...),
    "a receipt that is a list": edited("receipt", []),
    "too few values": edited("law.values", []),
    "another exact value": edited("exactly.0.value", 9),
    "a condition of no kind": edited("conditions.0.kind", "wish"),
    "a condition in other words": edited("conditions.0.text", "nothing"),
    "a mandate that is a list": edited("conditions.0.mandate", []),
    "half a surrogate": edited("title", "\ud800"),
    "deep": edited("title", json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_manifest_that_describes_nothing_is_refused_in_words(forgery: str, case_folder: Maker) -> None:
    """The digest fits, so only reading it with care helps."""
    values = json.loads(content_of(case_folder))
    FORGED[forgery](values)
    try:
        content = signed_off(values)
    except UnicodeEncodeError:
        content = json.dumps(values).encode()
    with pytest.raises(BundleError):
        Manifest.from_values(untouched_values(content))


def test_a_newer_version_says_what_to_do(case_folder: Maker) -> None:
    values = json.loads(content_of(case_folder))
    with pytest.raises(BundleError, match="version 7, and this software reads 2 and 3; install a newer"):
        Manifest.from_values(untouched_values(signed_off(values | {"version": 7})))


def test_an_older_version_is_refused_in_words(case_folder: Maker) -> None:
    values = json.loads(content_of(case_folder))
    with pytest.raises(BundleError, match="version 1, and this software reads 2 and 3; the congenial that made"):
        Manifest.from_values(untouched_values(signed_off(values | {"version": 1})))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"NaN"]
)
def test_what_is_no_manifest_at_all(content: bytes) -> None:
    with pytest.raises(BundleError):
        Manifest.from_values(untouched_values(content))


def test_every_part_that_is_left_out_is_missed(case_folder: Maker) -> None:
    values = json.loads(content_of(case_folder))
    for name in values:
        if name != "digest":
            with pytest.raises(CongenialError):
                Manifest.from_values(
                    untouched_values(signed_off({key: value for key, value in values.items() if key != name}))
                )
