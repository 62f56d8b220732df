"""A request to charge a release, validated before anything is written; canonical texts of records."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from unicodedata import is_normalized

from congenial.errors import LedgerError
from congenial.privacy import RELATIONS
from congenial.privacy.certificate import THEOREMS, Certificate
from congenial.safe_text import explain_hidden

# The canonical text of amounts, lists and certificates, so that equal records have equal hashes.

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
    """Return a certificate as plain values, fractions as text; its reasons stay behind.

    The kind of change that it was named for is a further field, where there is one.
    """
    figures = (certificate.loss, certificate.rho, certificate.rho_at_all_orders, certificate.loss_without_invariants)
    loss, rho, everywhere, plain = (None if figure is None else str(figure) for figure in figures)
    values = (certificate.kind, certificate.neighbours, certificate.k, loss, rho, certificate.orders, everywhere, plain)
    named = {"change": certificate.change} if certificate.change else {}
    return {**dict(zip(_CERTIFICATE, values, strict=True)), "statement": certificate.statement, **named}


def certificate_from_json(value: object) -> Certificate:
    """Read what `certificate_as_json` wrote; raises ValueError when it is something else."""
    if not isinstance(value, dict) or set(value) - {"change"} != {*_CERTIFICATE, "statement"}:
        raise ValueError("certificate does not have the fields of one")
    change = read_text(value, "change") if "change" in value else ""
    if "change" in value and not change:
        raise ValueError("a certificate names no kind of change, or a kind of change")
    k = value["k"]
    if not isinstance(k, int) or isinstance(k, bool):
        raise ValueError("k is no whole number")
    kind, neighbours, orders, statement = (read_text(value, f) for f in ("kind", "neighbours", "orders", "statement"))
    figures = (value["epsilon"], value["rho"], value["rho_at_all_orders"])
    loss, rho, everywhere = (None if figure is None else read_fraction(figure) for figure in figures)
    plain = read_fraction(value["without_invariants"])
    return Certificate(kind, neighbours, k, loss, rho, orders, everywhere, plain, statement, change=change)


LONGEST_NAME = 200
LONGEST_TEXT = 10_000
LONGEST_AMOUNT = 200
LARGEST_AMOUNT = 10**9

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Request:
    """A release that is to be charged. Public.

    Parameters
    ----------
    dataset : str
        As it was created in the ledger.
    release : str
        A name that the dataset has not seen.
    certificate : Certificate
        What the release costs at most, such as ``plan.certificate``.
    invariants : sequence of (str, value)
        What it discloses exactly: each statistic in words, with its value (an integer, a fraction or text).
    plan_digest : str
        SHA-256 of the public plan, 64 hexadecimal digits; never of confidential input.
    who : str
    key_digest : str
        A commitment to the secret key that the release is drawn with, 64 hexadecimal digits; empty without one.
    replaces : str or None
        An earlier release of the dataset that this one is the corrected edition of.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> certificate = mechanism.plan(mechanism.disclose(p12_table())).certificate
    >>> Request("county", "2026 edition", certificate, [("total", 10)], "0" * 64, "Ada").disclosed
    (('total', '10'),)
    """

    dataset: str
    release: str
    certificate: Certificate
    invariants: Sequence[tuple[str, object]]
    plan_digest: str
    who: str
    key_digest: str = ""
    replaces: str | None = None

    def __post_init__(self) -> None:
        check_name(self.dataset, "a dataset's name")
        check_name(self.release, "a release's name")
        check_name(self.who, "who asks")
        if self.replaces is not None:
            check_name(self.replaces, "the name of a replaced release")
        _check_certificate(self.certificate)
        _check_digest(self.plan_digest, "the plan's digest")
        if self.key_digest != "":
            _check_digest(self.key_digest, "the key's digest")
        object.__setattr__(self, "invariants", _pairs(self.invariants))

    @property
    def disclosed(self) -> tuple[tuple[str, str], ...]:
        """The invariants as texts."""
        return tuple((statistic, str(value)) for statistic, value in self.invariants)


def check_name(value: object, what: str) -> str:
    """Return a name that looks the same wherever it is printed and compared."""
    if not isinstance(value, str):
        raise LedgerError(f"{what} is text, not a {type(value).__name__}")
    if not value or value != value.strip() or len(value) > LONGEST_NAME:
        raise LedgerError(
            f"{what} has 1 to {LONGEST_NAME} characters and no spaces around it, and {value[:40]!r} has {len(value)}"
        )
    if wrong := explain_hidden(value, f"{what} {value[:40]!a}"):
        raise LedgerError(wrong)
    if not value.isprintable() or not is_normalized("NFC", value):
        raise LedgerError(f"{what} is one line of printable text in Unicode's composed form, and {value[:40]!a} is not")
    return value


def moment(now: object) -> str:
    """Return a time as UTC text; now when none is given.

    Examples
    --------
    >>> from datetime import timedelta, timezone
    >>> moment(datetime(2026, 11, 16, 12, 0, tzinfo=timezone(timedelta(hours=1))))
    '2026-11-16T11:00:00Z'
    """
    if now is None:
        now = datetime.now(UTC)
    if not isinstance(now, datetime) or now.utcoffset() is None:
        raise LedgerError("the time needs a time zone: write datetime.now(timezone.utc)")
    return time_as_text(now)


def _check_digest(value: object, what: str) -> None:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise LedgerError(f"{what} is SHA-256 in 64 digits 0-9 and a-f; write hashlib's hexdigest()")


def _check_certificate(certificate: object) -> None:
    if not isinstance(certificate, Certificate):
        raise LedgerError(
            f"only a certificate can be charged, not a {type(certificate).__name__}; write plan.certificate"
        )
    if certificate.kind not in THEOREMS:
        raise LedgerError(f"no theorem makes certificates of kind {str(certificate.kind)[:40]!r}; see docs/claims")
    if certificate.neighbours not in RELATIONS or certificate.orders not in ("all", "integer"):
        raise LedgerError("the certificate names no known neighbour relation or orders; take it from plan.certificate")
    k: object = certificate.k
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise LedgerError("the certificate's k is no number of records; take it from plan.certificate")
    check_text(certificate.statement, "the certificate's statement")
    check_text(certificate.change, "the certificate's kind of change")
    optional = {"epsilon": certificate.loss, "rho": certificate.rho, "rho at all orders": certificate.rho_at_all_orders}
    for name, figure in optional.items():
        if figure is not None:
            check_amount(figure, f"the certificate's {name}")
    check_amount(certificate.loss_without_invariants, "the certificate's loss without invariants")


def check_amount(value: object, what: str) -> None:
    """Refuse what is no exact loss of a size that can be written down."""
    if not isinstance(value, Fraction):
        raise LedgerError(f"{what} is an exact Fraction, not a {type(value).__name__}")
    if not 0 <= value <= LARGEST_AMOUNT:
        raise LedgerError(f"{what} lies between 0 and {LARGEST_AMOUNT:,}; beyond, nothing is protected")
    # Compared by size first: to write a number of many thousand digits is an error of its own.
    if value.denominator.bit_length() > 4 * LONGEST_AMOUNT or len(str(value)) > LONGEST_AMOUNT:
        raise LedgerError(
            f"{what} has more than {LONGEST_AMOUNT} digits; round it up,"
            " congenial.privacy.bounds_and_enumerated_losses.round_up"
        )


def check_text(value: object, what: str) -> None:
    """Refuse what is no text that every database and JSON reader keeps as it is."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise LedgerError(f"{what} is text of at most {LONGEST_TEXT:,} characters")
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise LedgerError(f"{what} holds characters that cannot be stored; leave them out")


def _pairs(invariants: object) -> tuple[tuple[str, object], ...]:
    if isinstance(invariants, str) or not isinstance(invariants, Sequence):
        raise LedgerError('invariants are a list of pairs such as [("total", 10)]')
    out = []
    for pair in invariants:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise LedgerError('each invariant is a statistic with its value, such as ("total", 10)')
        statistic, value = pair
        check_text(statistic, "a statistic")
        if isinstance(value, bool) or not isinstance(value, int | Fraction | str):
            raise LedgerError(
                f"the value of an invariant is an integer, a Fraction or text, not a {type(value).__name__}"
            )
        if isinstance(value, int | Fraction) and max(abs(value.numerator), value.denominator) >= 10**LONGEST_AMOUNT:
            raise LedgerError(f"the value of an invariant has at most {LONGEST_AMOUNT} digits")
        check_text(str(value), "the value of an invariant")
        out.append((statistic, value))
    return tuple(out)
