"""The manifest: what was released, by which law, at what cost, under whose mandate. Public, versioned, append-only."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from congenial.bundle.law_json import law_as_json, law_of_json
from congenial.errors import BundleError, CongenialError
from congenial.ledger.plain import certificate_as_json, certificate_from_json
from congenial.ledger.receipt import Receipt
from congenial.privacy.certificate import PAGES, Certificate
from congenial.public_law import Area, PublicLaw

FORMAT = "congenial bundle"
VERSION = 1
"""Later versions add keys and never change the meaning of old ones."""

_DEEPEST = 4  # levels that get a line for each key
_KINDS = {str: "text", int: "a whole number", bool: "true or false"}


@dataclass(frozen=True)
class Exactly:
    """A statistic that came out exactly: in words, by which mandate, and its value in each table.

    Attributes
    ----------
    values : mapping from area to value
        None where it is a condition without a value of its own.
    """

    text: str
    mandate: str | None
    values: Mapping[Area, str]


@dataclass(frozen=True)
class Manifest:
    """Everything that is published about a release besides its tables.

    Attributes
    ----------
    status : str
        Of the data: confidential, public or simulated.
    is_for_release : bool
        False for a simulation with a public seed: its noise protects nobody.
    unit : str
        Whose privacy is protected, in a word.
    exactly : tuple of Exactly
        The invariants with their values.
    conditions : tuple of (text, mandate)
        Limits and structural zeros.
    budget : mapping
        What was asked for: epsilon, delta or rho as exact text.
    receipt : Receipt or None
        Of the ledger; None for a simulation.
    software : mapping from package to version
    files : mapping from file name to SHA-256
    """

    release: str
    title: str
    dataset: str
    made_at: str
    status: str
    is_for_release: bool
    unit: str
    rows_per_unit: int
    law: PublicLaw
    exactly: tuple[Exactly, ...]
    conditions: tuple[tuple[str, str | None], ...]
    budget: Mapping[str, str]
    neighbours: str
    certificate: Certificate
    sampler: str
    is_exact: bool
    receipt: Receipt | None
    software: Mapping[str, str]
    files: Mapping[str, str]

    def with_files(self, files: Mapping[str, bytes]) -> "Manifest":
        """Return the manifest with the digests of these files."""
        return replace(self, files={name: digest(content) for name, content in files.items()})

    def as_bytes(self) -> bytes:
        """Return the file: canonical JSON that ends with a digest of all before it."""
        values = self._values()
        return _rendered({**values, "digest": digest(_rendered(values))})

    def _values(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "release": self.release,
            "title": self.title,
            "dataset": self.dataset,
            "made_at": self.made_at,
            "status": self.status,
            "is_for_release": self.is_for_release,
            "unit": {"word": self.unit, "rows": self.rows_per_unit},
            "invariants": [
                {"text": one.text, "mandate": one.mandate, "values": [one.values[area] for area in self.law.areas]}
                for one in self.exactly
            ],
            "conditions": [{"text": text, "mandate": mandate} for text, mandate in self.conditions],
            "privacy": {
                "neighbours": self.neighbours,
                "budget": dict(self.budget),
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
        return plan_digest(self.release, self.dataset, self.law, self.certificate)

    def _check(self) -> None:
        """Refuse parts that contradict each other."""
        if self.rows_per_unit < 1:
            raise BundleError("a unit has at least one row")
        if self.is_for_release != (self.receipt is not None):
            raise BundleError("a release has a receipt, and a simulation has none")
        if self.receipt is None:
            return
        if (self.receipt.release, self.receipt.dataset) != (self.release, self.dataset):
            raise BundleError("its receipt is of another release")
        price = {
            "epsilon": (self.certificate.loss,),
            "rho": (self.certificate.rho, self.certificate.rho_at_all_orders),
        }.get(self.receipt.currency, ())
        if self.receipt.loss not in price:
            raise BundleError("its receipt is for another amount than its certificate")

    @classmethod
    def from_bytes(cls, content: bytes) -> "Manifest":
        """Read a manifest and check that not a byte of it was changed; refuses what a newer version wrote."""
        values = _parsed(content)
        if values.get("format") != FORMAT:
            raise BundleError("manifest.json is not the manifest of a congenial bundle")
        version = values.get("version")
        if type(version) is not int or version < 1:
            raise BundleError("manifest.json has no version; it is not the manifest of a congenial bundle")
        if version > VERSION:
            raise BundleError(
                f"the bundle has format version {version}, and this software reads up to {VERSION}; install a newer"
                " congenial"
            )
        if not _is_untouched(values, content):
            raise BundleError("manifest.json was changed since it was published: its digest does not fit")
        _check_texts(values)
        try:
            found = cls._read(values)
            if found.as_bytes() != content:
                raise BundleError("it holds keys or values that its version does not have")
            found._check()
            return found
        except (KeyError, TypeError, ValueError, AttributeError, CongenialError) as wrong:
            reason = str(wrong) if isinstance(wrong, CongenialError) else "a part is missing or has the wrong form"
            raise BundleError(f"manifest.json cannot be read: {reason}") from None

    @classmethod
    def _read(cls, values: Mapping[str, Any]) -> "Manifest":
        law = law_of_json(values["law"])
        return cls(
            release=_as(str, values["release"]),
            title=_as(str, values["title"]),
            dataset=_as(str, values["dataset"]),
            made_at=_as(str, values["made_at"]),
            status=_as(str, values["status"]),
            is_for_release=_as(bool, values["is_for_release"]),
            unit=_as(str, values["unit"]["word"]),
            rows_per_unit=_as(int, values["unit"]["rows"]),
            law=law,
            exactly=tuple(
                Exactly(_as(str, one["text"]), _mandate(one), dict(zip(law.areas, _texts(one["values"]), strict=True)))
                for one in values["invariants"]
            ),
            conditions=tuple((_as(str, one["text"]), _mandate(one)) for one in values["conditions"]),
            budget=dict(zip(values["privacy"]["budget"], _texts(values["privacy"]["budget"].values()), strict=True)),
            neighbours=_as(str, values["privacy"]["neighbours"]),
            certificate=certificate_of_json(values["privacy"]["certificate"]),
            sampler=_as(str, values["sampler"]["name"]),
            is_exact=_as(bool, values["sampler"]["is_exact"]),
            receipt=None if values["receipt"] is None else Receipt.from_json(values["receipt"]),
            software=dict(zip(values["software"], _texts(values["software"].values()), strict=True)),
            files=dict(zip(values["files"], _texts(values["files"].values()), strict=True)),
        )


def _check_texts(value: object) -> None:
    """Refuse control characters: a title must not move the cursor of whoever prints it."""
    if isinstance(value, str) and any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in value):
        raise BundleError("manifest.json has a text with control characters in it")
    for part in (
        (*value.keys(), *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _check_texts(part)


_Plain = TypeVar("_Plain", str, int, bool)


def _as(kind: type[_Plain], value: object) -> _Plain:
    """Return a value of exactly this type, or refuse it: a manifest is never read by guessing."""
    if type(value) is not kind:
        raise BundleError(f"a value that must be {_KINDS[kind]} is not")
    return value


def _texts(values: Iterable[object]) -> list[str]:
    return [_as(str, value) for value in values]


def _mandate(given: Mapping[str, Any]) -> str | None:
    return None if given["mandate"] is None else _as(str, given["mandate"])


def _is_untouched(values: dict[str, Any], content: bytes) -> bool:
    """Take the stated digest out of the values and say whether it fits, and whether nobody else wrote the file."""
    stated = values.pop("digest", None)
    try:
        return stated == digest(_rendered(values)) and _rendered({**values, "digest": stated}) == content
    except (UnicodeEncodeError, RecursionError):  # half a surrogate, or a thousand brackets: never written here
        return False


def plan_digest(release: str, dataset: str, law: PublicLaw, certificate: Certificate) -> str:
    """Return the SHA-256 of a plan. It holds the disclosed values and nothing else of the data."""
    values = {
        "release": release,
        "dataset": dataset,
        "law": law_as_json(law),
        "certificate": certificate_json(certificate),
    }
    return digest(json.dumps(values, sort_keys=True).encode())


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _rendered(values: Mapping[str, Any]) -> bytes:
    """Write JSON in one way only: a key a line, lists of plain values in one."""
    return (_lines(values, "") + "\n").encode()


def _lines(value: Any, indent: str) -> str:
    inner = indent + " "
    if isinstance(value, dict) and value and indent.count(" ") < _DEEPEST:
        parts = [f"{inner}{_plain(str(key))}: {_lines(part, inner)}" for key, part in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return "[\n" + ",\n".join(f"{inner}{_plain(part)}" for part in value) + f"\n{indent}]"
    return _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        values = json.loads(content.decode())
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise BundleError("manifest.json is not JSON: it was cut short or changed") from None
    if not isinstance(values, dict):
        raise BundleError("manifest.json is not the manifest of a congenial bundle")
    return values


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values, exact numbers as text."""
    return {**certificate_as_json(certificate), "reasons": list(certificate.reasons), "page": certificate.page}


def certificate_of_json(given: Mapping[str, Any]) -> Certificate:
    """Read what `certificate_json` wrote."""
    values = dict(given)
    reasons, page = values.pop("reasons"), values.pop("page")
    if PAGES.get(values["kind"]) != page:
        raise BundleError("no theorem makes certificates of this kind")
    return replace(certificate_from_json(values), reasons=tuple(str(reason) for reason in reasons))
