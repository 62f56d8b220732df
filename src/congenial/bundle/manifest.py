"""The manifest: what was released, by which law, at what cost, under whose mandate. Public, versioned."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from congenial.bundle.canonical import check_texts, digest, is_untouched, parsed, read_as, read_texts, rendered
from congenial.bundle.exact_numbers import Exactly
from congenial.bundle.law_json import AreaValues, law_as_json, law_of_json
from congenial.conditions.condition import Condition
from congenial.conditions.kinds import from_json as condition_of_json
from congenial.errors import BundleError, CongenialError
from congenial.ledger.as_text import certificate_as_json, certificate_from_json
from congenial.ledger.receipt import Receipt
from congenial.plain_text import what_is_hidden
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import THEOREMS, Certificate
from congenial.public_law import PublicLaw

FORMAT = "congenial bundle"
VERSION = 2

ReadAreas = Callable[[int], tuple[AreaValues, list[list[str]]]]
"""Given how many statistics came out exactly: the areas' values, and those statistics in every area."""


@dataclass(frozen=True)
class Naming:
    """What a release is called, and whose privacy it protects, in words.

    Attributes
    ----------
    release, dataset, title : str
    unit : str
        What a protected unit is called, such as person.
    status : str
        Of the data: confidential, public or simulated.
    """

    release: str
    dataset: str
    title: str
    unit: str = "person"
    status: str = "confidential"

    def __post_init__(self) -> None:
        for field in fields(self):
            text = getattr(self, field.name)
            if wrong := what_is_hidden(text, f"the {field.name} {text!r}"):
                raise BundleError(wrong)


@dataclass(frozen=True)
class Manifest:
    """Everything that is published about a release besides its tables.

    Attributes
    ----------
    naming : Naming
    made_at : str
    plan : Plan
        The law, and what its price is computed from.
    certificate : Certificate
        What the release costs, as it is stated.
    conditions : tuple of Condition
        What every table obeys, as it was stated.
    exactly : tuple of Exactly
        What came out exactly, with its values.
    sampler : str
        How the tables were drawn, in words.
    receipt : Receipt or None
        Of the ledger; None for a simulation with a public seed, whose noise protects nobody.
    software : mapping from package to version
    files : mapping from file name to SHA-256
    """

    naming: Naming
    made_at: str
    plan: Plan
    certificate: Certificate
    conditions: tuple[Condition, ...]
    exactly: tuple[Exactly, ...]
    sampler: str
    is_exact: bool
    receipt: Receipt | None
    software: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def law(self) -> PublicLaw:
        """The law of the release, but for the confidential tables."""
        return self.plan.law

    @property
    def rows_per_unit(self) -> int:
        """How many records one protected unit may have."""
        return self.plan.rows_per_unit

    @property
    def is_for_release(self) -> bool:
        """Whether it was charged to a ledger and drawn from secret bits."""
        return self.receipt is not None

    def with_files(self, files: Mapping[str, bytes]) -> "Manifest":
        """Return the manifest with the digests of these files."""
        return replace(self, files={name: digest(content) for name, content in files.items()})

    def as_bytes(self) -> bytes:
        """Return the file: canonical JSON that ends with a digest of all before it."""
        values = self._values()
        return rendered({**values, "digest": digest(rendered(values))})

    def _values(self) -> dict[str, Any]:
        naming, is_one = self.naming, self.law.areas.name is None
        return {
            "format": FORMAT,
            "version": VERSION,
            "release": naming.release,
            "title": naming.title,
            "dataset": naming.dataset,
            "made_at": self.made_at,
            "status": naming.status,
            "is_for_release": self.is_for_release,
            "unit": {"word": naming.unit, "rows": self.rows_per_unit},
            "conditions": [{"text": condition.title, **condition.as_json()} for condition in self.conditions],
            "exactly": [
                {"text": exact.text, "mandate": exact.mandate, "value": exact.values[None] if is_one else None}
                for exact in self.exactly
            ],
            "privacy": {
                "neighbours": self.plan.neighbours,
                "budget": _budget_json(self.plan.budget),
                "certificate": certificate_json(self.certificate),
            },
            "sampler": {"name": self.sampler, "is_exact": self.is_exact},
            "law": law_as_json(self.law),
            "receipt": None if self.receipt is None else self.receipt.as_json(),
            "software": dict(self.software),
            "files": dict(self.files),
        }

    @property
    def plan_digest(self) -> str:
        """SHA-256 of the plan that was charged: what the ledger keeps of it."""
        return plan_digest(self.naming, self.law, self.certificate)

    def _check(self) -> None:
        """Refuse parts that contradict each other."""
        if self.rows_per_unit < 1:
            raise BundleError("a unit has at least one row")
        if self.receipt is None:
            return
        if (self.receipt.release, self.receipt.dataset) != (self.naming.release, self.naming.dataset):
            raise BundleError("its receipt is of another release")
        if self.receipt.loss != self.certificate.charged_in(self.receipt.currency):
            raise BundleError("its receipt is for another amount than its certificate")

    @classmethod
    def from_bytes(cls, content: bytes, read_areas: ReadAreas | None = None) -> "Manifest":
        """Read a manifest and check that not a byte of it was changed; refuses what another version wrote.

        Parameters
        ----------
        read_areas : callable, optional
            Gives the areas' values and what came out exactly in each, given how many exact statistics there are.
        """
        values = parsed(content)
        _check_version(values)
        if not is_untouched(values, content):
            raise BundleError("manifest.json was changed since it was published: its digest does not fit")
        check_texts(values)
        try:
            found = cls._read(values, read_areas)
            if found.as_bytes() != content:
                raise BundleError("it holds keys or values that its version does not have")
            found._check()
            return found
        except (KeyError, TypeError, ValueError, AttributeError, CongenialError) as wrong:
            reason = str(wrong) if isinstance(wrong, CongenialError) else "a part is missing or has the wrong form"
            raise BundleError(f"manifest.json cannot be read: {reason}") from None

    @classmethod
    def _read(cls, values: Mapping[str, Any], read_areas: ReadAreas | None) -> "Manifest":
        stated = values["exactly"]
        areas: AreaValues | None = None
        if values["law"]["area"] is None:
            columns = [[read_as(str, entry["value"])] for entry in stated]
        elif read_areas is not None:
            areas, columns = read_areas(len(stated))
        else:
            raise BundleError("the values of its areas are missing")
        law = law_of_json(values["law"], areas)
        found = tuple(
            Exactly(
                read_as(str, entry["text"]),
                None if entry["mandate"] is None else read_as(str, entry["mandate"]),
                dict(zip(law.areas, column, strict=True)),
            )
            for entry, column in zip(stated, columns, strict=True)
        )
        return cls(
            naming=Naming(
                release=read_as(str, values["release"]),
                dataset=read_as(str, values["dataset"]),
                title=read_as(str, values["title"]),
                unit=read_as(str, values["unit"]["word"]),
                status=read_as(str, values["status"]),
            ),
            made_at=read_as(str, values["made_at"]),
            plan=Plan.of(
                law,
                read_as(str, values["privacy"]["neighbours"]),
                read_as(int, values["unit"]["rows"]),
                _budget_of_json(values["privacy"]["budget"], law.noise),
            ),
            certificate=certificate_of_json(values["privacy"]["certificate"]),
            conditions=tuple(_condition(entry) for entry in values["conditions"]),
            exactly=found,
            sampler=read_as(str, values["sampler"]["name"]),
            is_exact=read_as(bool, values["sampler"]["is_exact"]),
            receipt=None if values["receipt"] is None else Receipt.from_json(values["receipt"]),
            software=dict(zip(values["software"], read_texts(values["software"].values()), strict=True)),
            files=dict(zip(values["files"], read_texts(values["files"].values()), strict=True)),
        )


def _budget_json(budget: Budget | None) -> dict[str, str]:
    if budget is None:
        return {}
    said = {name: getattr(budget, name) for name in ("epsilon", "delta", "rho")}
    out = {name: str(amount) for name, amount in said.items() if amount is not None}
    return out if budget.rho is None else {**out, "orders": budget.orders}


def _budget_of_json(given: Mapping[str, Any], noise: str) -> Budget | None:
    return Budget.of(**{name: read_as(str, value) for name, value in given.items()}, noise=noise)


def _condition(given: Mapping[str, Any]) -> Condition:
    return condition_of_json({name: value for name, value in given.items() if name != "text"})


def _check_version(values: Mapping[str, Any]) -> None:
    if values.get("format") != FORMAT:
        raise BundleError("manifest.json is not the manifest of a congenial bundle")
    version = values.get("version")
    if type(version) is not int or version < 1:
        raise BundleError("manifest.json has no version; it is not the manifest of a congenial bundle")
    if version != VERSION:
        way_out = "install a newer congenial" if version > VERSION else "the congenial that made it reads it"
        raise BundleError(
            f"the bundle has format version {version}, and this software reads version {VERSION} only; {way_out}"
        )


def plan_digest(naming: Naming, law: PublicLaw, certificate: Certificate) -> str:
    """Return the SHA-256 of a plan. It holds the disclosed values and nothing else of the data."""
    values = {
        "release": naming.release,
        "dataset": naming.dataset,
        "law": law_as_json(law),
        "areas": areas_digest(law),
        "certificate": certificate_json(certificate),
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


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values, exact numbers as text."""
    return {**certificate_as_json(certificate), "reasons": list(certificate.reasons), "page": certificate.page}


def certificate_of_json(given: Mapping[str, Any]) -> Certificate:
    """Read what `certificate_json` wrote."""
    values = dict(given)
    reasons, page = values.pop("reasons"), values.pop("page")
    if values["kind"] not in THEOREMS or THEOREMS[values["kind"]].page != page:
        raise BundleError("no theorem makes certificates of this kind")
    return replace(certificate_from_json(values), reasons=tuple(str(reason) for reason in reasons))
