"""JSON of a manifest: its canonical form and digest, plain values read without guessing, and where two differ."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from congenial.errors import BundleError
from congenial.ledger.requests_and_canonical_text import certificate_as_json, certificate_from_json
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import THEOREMS, Certificate
from congenial.privacy.disclosure import DisclosureSummary, SmallSum
from congenial.safe_text import explain_hidden

_DEEPEST = 4  # levels that get a line for each key
_KINDS = {str: "text", int: "a whole number", bool: "true or false"}
_Plain = TypeVar("_Plain", str, int, bool)


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def canonical_json(values: Mapping[str, Any]) -> bytes:
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


def parse_json(content: bytes) -> dict[str, Any]:
    """Read a manifest as JSON."""
    try:
        values = json.loads(content.decode())
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise BundleError("manifest.json is not JSON: it was cut short or changed") from None
    if not isinstance(values, dict):
        raise BundleError("manifest.json is not the manifest of a congenial bundle")
    return values


def is_untouched(values: dict[str, Any], content: bytes) -> bool:
    """Take the stated digest out of the values and say whether it fits, and whether nobody else wrote the file."""
    stated = values.pop("digest", None)
    try:
        return stated == digest(canonical_json(values)) and canonical_json({**values, "digest": stated}) == content
    except (UnicodeEncodeError, RecursionError):  # half a surrogate, or a thousand brackets: never written here
        return False


def check_texts(values: object) -> None:
    """Refuse characters that do not show: a title must not move the cursor of whoever prints it."""
    pending = [values]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and (wrong := explain_hidden(value, f"manifest.json: the text {value[:40]!r}")):
            raise BundleError(wrong)
        pending += (*value.keys(), *value.values()) if isinstance(value, dict) else ()
        pending += value if isinstance(value, list) else ()


def read_as(kind: type[_Plain], value: object) -> _Plain:
    """Return a value of exactly this type, or refuse it: a manifest is never read by guessing."""
    if type(value) is not kind:
        raise BundleError(f"a value that must be {_KINDS[kind]} is not")
    return value


def read_texts(values: Iterable[object]) -> list[str]:
    """Return texts, or refuse what is none."""
    return [read_as(str, value) for value in values]


# Where two JSON values differ first, for people.

_LONGEST = 80


def first_difference(stated: Any, expected: Any, place: str = "") -> tuple[str, str, str] | None:
    """Return the place of the first difference, what is stated there and what was expected; None where there is none.

    Examples
    --------
    >>> first_difference({"law": {"values": [9, 2]}}, {"law": {"values": [9, 3]}})
    ('law.values[1]', '2', '3')
    >>> first_difference({"title": "x", "more": 1}, {"title": "x"})
    ('more', '1', 'nothing')
    """
    if isinstance(stated, dict) and isinstance(expected, dict):
        head = f"{place}." if place else ""
        for name in {**expected, **stated}:
            if name not in stated or name not in expected:
                return f"{head}{name}", _shown(stated.get(name, ...)), _shown(expected.get(name, ...))
            if difference := first_difference(stated[name], expected[name], f"{head}{name}"):
                return difference
        return (
            None if list(stated) == list(expected) else (place or "its keys", "another order", _shown(list(expected)))
        )
    if isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        pairs = enumerate(zip(stated, expected, strict=True))
        return next(
            (difference for at, pair in pairs if (difference := first_difference(*pair, f"{place}[{at}]"))), None
        )
    is_same = type(stated) is type(expected) and stated == expected  # 1 is not True
    return None if is_same else (place, _shown(stated), _shown(expected))


def _shown(value: Any) -> str:
    if value is ...:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# Budgets and certificates as plain values, for a manifest.


def budget_json(budget: Budget | None) -> dict[str, str]:
    """Return a budget as it was requested; nothing where every precision was given."""
    if budget is None:
        return {}
    amounts = {name: getattr(budget, name) for name in ("epsilon", "delta", "rho")}
    out = {name: str(amount) for name, amount in amounts.items() if amount is not None}
    return out if budget.rho is None else {**out, "orders": budget.orders}


def budget_of_json(amounts: Mapping[str, Any], noise: str) -> Budget | None:
    """Read what `budget_json` wrote."""
    return Budget.of(**{name: read_as(str, value) for name, value in amounts.items()}, noise=noise)


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as plain values, exact numbers as text."""
    return {**certificate_as_json(certificate), "reasons": list(certificate.reasons), "page": certificate.page}


def certificate_of_json(entry: Mapping[str, Any]) -> Certificate:
    """Read what `certificate_json` wrote."""
    values = dict(entry)
    reasons, page = values.pop("reasons"), values.pop("page")
    if values["kind"] not in THEOREMS or THEOREMS[values["kind"]].page != page:
        raise BundleError("no theorem makes certificates of this kind")
    return replace(certificate_from_json(values), reasons=tuple(str(reason) for reason in reasons))


# How much exact numbers disclose, as plain values for a manifest.


def counted_json(counted: DisclosureSummary) -> dict[str, Any]:
    """Return counts as plain values; no area is named.

    Examples
    --------
    >>> counts = DisclosureSummary("block", 9, 2, 1, 1, 2, 0, 0, (SmallSum("total", 2, True, 9, 1, 3),))
    >>> counted_of_json(counted_json(counts)) == counts
    True
    """
    return {**asdict(counted), "sums": [asdict(small_sum) for small_sum in counted.sums]}


def counted_of_json(entry: Mapping[str, Any]) -> DisclosureSummary:
    """Read what `counted_json` wrote."""
    values = dict(entry)
    area, sums = values.pop("area"), values.pop("sums")
    names = [field.name for field in fields(DisclosureSummary) if field.name not in {"area", "sums"}]
    if list(values) != names:
        raise BundleError("what the exact numbers give away is not counted as this software counts it")
    numbers = {name: read_as(int, value) for name, value in values.items()}
    return DisclosureSummary(
        area=None if area is None else read_as(str, area),
        sums=tuple(map(_sum_of_json, sums)),
        **numbers,
    )


def _sum_of_json(entry: Mapping[str, Any]) -> SmallSum:
    values = dict(entry)
    text, is_stated = read_as(str, values.pop("text")), read_as(bool, values.pop("is_stated"))
    return SmallSum(text=text, is_stated=is_stated, **{name: read_as(int, value) for name, value in values.items()})
