"""JSON written in one way only, and read without guessing."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from congenial.errors import BundleError
from congenial.plain_text import what_is_hidden

_DEEPEST = 4  # levels that get a line for each key
_KINDS = {str: "text", int: "a whole number", bool: "true or false"}
_Plain = TypeVar("_Plain", str, int, bool)


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def rendered(values: Mapping[str, Any]) -> bytes:
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


def parsed(content: bytes) -> dict[str, Any]:
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
        return stated == digest(rendered(values)) and rendered({**values, "digest": stated}) == content
    except (UnicodeEncodeError, RecursionError):  # half a surrogate, or a thousand brackets: never written here
        return False


def check_texts(values: object) -> None:
    """Refuse characters that do not show: a title must not move the cursor of whoever prints it."""
    left = [values]
    while left:
        value = left.pop()
        if isinstance(value, str) and (wrong := what_is_hidden(value, f"manifest.json: the text {value[:40]!r}")):
            raise BundleError(wrong)
        left += (*value.keys(), *value.values()) if isinstance(value, dict) else ()
        left += value if isinstance(value, list) else ()


def read_as(kind: type[_Plain], value: object) -> _Plain:
    """Return a value of exactly this type, or refuse it: a manifest is never read by guessing."""
    if type(value) is not kind:
        raise BundleError(f"a value that must be {_KINDS[kind]} is not")
    return value


def read_texts(values: Iterable[object]) -> list[str]:
    """Return texts, or refuse what is none."""
    return [read_as(str, value) for value in values]
