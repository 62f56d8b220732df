"""The one way to write amounts, lists and certificates as text, so that equal records have equal hashes."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction

from congenial.privacy.certificate import Certificate

Row = Mapping[str, object]
"""A record as it is stored and exported."""

_FRACTION = re.compile(r"\d{1,4000}(/[1-9]\d{0,4000})?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", re.ASCII)
_CERTIFICATE = ("kind", "neighbours", "k", "epsilon", "rho", "orders", "rho_at_all_orders", "without_invariants")


def canonical(value: object) -> str:
    r"""Return the one way to write a value as JSON: sorted keys, no spaces, ASCII.

    Examples
    --------
    >>> canonical({"b": "é", "a": 1})
    '{"a":1,"b":"\\u00e9"}'
    """
    # A database that was edited by hand can hold values that are not JSON; they must show as a wrong hash.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


def read_text(row: Row, field: str) -> str:
    """Read a field that is text."""
    value = row[field]
    if not isinstance(value, str):
        raise ValueError(f"{field} is no text")
    return value


def read_fraction(text: object) -> Fraction:
    """Read a fraction in lowest terms."""
    if isinstance(text, str) and _FRACTION.fullmatch(text):
        value = Fraction(text)
        if str(value) == text:
            return value
    raise ValueError("an amount is no fraction in lowest terms")


def time_as_text(time: datetime) -> str:
    """Return a time that has a zone as UTC text, to the second: texts compare as their times do."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read_time(text: object) -> datetime:
    """Read what `time_as_text` wrote."""
    if isinstance(text, str) and _TIME.fullmatch(text):
        return datetime.fromisoformat(text)
    raise ValueError("a time is not in UTC and to the second")


def read_json(text: str) -> object:
    """Read JSON in canonical form."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if canonical(value) != text:
        raise ValueError("a field is no JSON in canonical form")
    return value


def certificate_as_json(certificate: Certificate) -> dict[str, object]:
    """Return a certificate as plain values, fractions as text; its reasons stay behind."""
    figures = (certificate.loss, certificate.rho, certificate.rho_at_all_orders, certificate.loss_without_invariants)
    loss, rho, everywhere, plain = (None if figure is None else str(figure) for figure in figures)
    values = (certificate.kind, certificate.neighbours, certificate.k, loss, rho, certificate.orders, everywhere, plain)
    return {**dict(zip(_CERTIFICATE, values, strict=True)), "statement": certificate.statement}


def certificate_from_json(value: object) -> Certificate:
    """Read what `certificate_as_json` wrote; raises ValueError when it is something else."""
    if not isinstance(value, dict) or set(value) != {*_CERTIFICATE, "statement"}:
        raise ValueError("certificate does not have the fields of one")
    k = value["k"]
    if not isinstance(k, int) or isinstance(k, bool):
        raise ValueError("k is no whole number")
    kind, neighbours, orders, statement = (read_text(value, f) for f in ("kind", "neighbours", "orders", "statement"))
    figures = (value["epsilon"], value["rho"], value["rho_at_all_orders"])
    loss, rho, everywhere = (None if figure is None else read_fraction(figure) for figure in figures)
    plain = read_fraction(value["without_invariants"])
    return Certificate(kind, neighbours, k, loss, rho, orders, everywhere, plain, statement)
