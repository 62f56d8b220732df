"""The kinds of conditions, one class each; a new kind is a class and a name in the list."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from congenial.conditions.base import ByArea, Condition, SpecList
from congenial.conditions.limits_and_shares import Bounds, Share, StructuralZeros
from congenial.conditions.queries import Cells, Linear, Margin, Total
from congenial.errors import ConditionError, did_you_mean

_ALL: tuple[type[Condition], ...] = (Total, Margin, Linear, Share, Bounds, StructuralZeros, Cells)
KINDS: dict[str, type[Condition]] = {kind.kind: kind for kind in _ALL}


def kinds_of(stands_in: SpecList) -> list[type[Condition]]:
    """Return the kinds that a list of a spec may state."""
    return [kind for kind in KINDS.values() if stands_in in kind.keys]


def from_json(values: Any) -> Condition:
    """Return the condition that plain values determine, whatever its kind.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from_json(total({"sex": "female"}, equals=3).as_json()).text
    'total(sex=female)'
    """
    if not isinstance(values, Mapping):
        raise ConditionError(f"a condition is a mapping with a kind, not a {type(values).__name__}")
    kind = values.get("kind")
    every: dict[str, type[Condition]] = {**KINDS, ByArea.kind: ByArea}
    if not isinstance(kind, str) or kind not in every:
        raise ConditionError(f"{str(kind)[:40]!r} is not a kind of condition; {did_you_mean(str(kind), KINDS)}")
    fields = dict(values)
    names = {part: fields.pop(part, None) for part in ("name", "mandate")}
    if not all(text is None or isinstance(text, str) for text in names.values()):
        raise ConditionError("the name and the mandate of a condition are text")
    return replace(every[kind].from_json(fields), **names)
