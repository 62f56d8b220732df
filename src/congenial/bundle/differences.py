"""Where two JSON values differ first, for people."""

import json
from typing import Any

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
            if found := first_difference(stated[name], expected[name], f"{head}{name}"):
                return found
        return (
            None if list(stated) == list(expected) else (place or "its keys", "another order", _shown(list(expected)))
        )
    if isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        pairs = enumerate(zip(stated, expected, strict=True))
        return next((found for at, pair in pairs if (found := first_difference(*pair, f"{place}[{at}]"))), None)
    is_same = type(stated) is type(expected) and stated == expected  # 1 is not True
    return None if is_same else (place, _shown(stated), _shown(expected))


def _shown(value: Any) -> str:
    if value is ...:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
