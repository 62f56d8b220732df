"""A choice that is not saved yet: a spec's text with changes, made one after the other."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from congenial.errors import ReadingError
from congenial.noise import FAMILIES
from congenial.workbench.spec_edit import append, remove, set_value

EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.75", "1", "1.5", "2", "3", "4", "6", "8", "10")
RHOS = ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")
DELTA = "1e-10"
"""Where a budget in epsilon at a delta starts; the curator changes it in the spec."""

CURRENCIES = {"epsilon": EPSILONS, "rho": RHOS, "epsilon and delta": EPSILONS}
_MOST_CHANGES = 200


def changed(text: str, changes: Sequence[Mapping[str, Any]]) -> str:
    """Return a spec's text with all changes made.

    A change is ``{"add": entry}``, ``{"remove": place}``, ``{"mandate": text, "of": place}``,
    ``{"budget": {"epsilon": "1"}}``, ``{"shares": {level: amount}}`` or ``{"noise": name}``.
    """
    if len(changes) > _MOST_CHANGES:
        raise ReadingError(f"{len(changes):,} changes at once; save some of them first")
    for change in changes:
        text = _after(text, json.dumps(change))
    return text


# Every request carries all changes since the spec was saved, and each is a reading of its text: 6 to 20 ms.
@lru_cache(maxsize=256)
def _after(text: str, change: str) -> str:
    return _with(text, json.loads(change))


def _with(text: str, change: Mapping[str, Any]) -> str:
    if "add" in change:
        return append(text, ("invariants",), _entry(change["add"]))
    if "remove" in change:
        return remove(text, ("invariants", _place(change["remove"])))
    if "mandate" in change:
        return set_mandate(text, _place(change["of"]), str(change["mandate"]))
    if "budget" in change:
        budget = {
            str(name): str(amount) for name, amount in change["budget"].items() if name in {"epsilon", "rho", "delta"}
        }
        return _set_all(text, ("budget",), budget)
    if "shares" in change and isinstance(change["shares"], dict):
        return _set_all(text, ("hierarchy", "shares"), {str(name): str(own) for name, own in change["shares"].items()})
    if "noise" in change and change["noise"] in FAMILIES:
        return set_value(text, ("noise",), str(change["noise"]))
    raise ReadingError("this change is none that the workbench knows")


def _set_all(text: str, path: tuple[str, ...], values: dict[str, str]) -> str:
    """Return the text with the values of a mapping; where its keys stay, so does whatever stands around them."""
    if set(_keys(text, path)) != set(values):
        return set_value(text, path, values)
    for name, value in values.items():
        text = set_value(text, (*path, name), value)
    return text


def set_mandate(text: str, place: int, mandate: str) -> str:
    r"""Return the text with the mandate of an invariant; an entry in words becomes one with keys.

    Examples
    --------
    >>> set_mandate("invariants:\n  - total of adults by sex\n", 0, "Census Act")
    'invariants:\n  - {total: adults, by: sex, name: total of adults by sex, mandate: Census Act}\n'
    """
    said = said_at(text, ("invariants", place))
    if isinstance(said, str):
        return set_value(text, ("invariants", place), {**in_keys(said), "mandate": mandate})
    if not mandate.strip() and "mandate" in said:
        return remove(text, ("invariants", place, "mandate"))
    return set_value(text, ("invariants", place, "mandate"), mandate)


def in_keys(words: str) -> dict[str, Any]:
    """Return an invariant in words as one with keys.

    Examples
    --------
    >>> in_keys("margin of sex and age")
    {'margin': ['sex', 'age']}
    """
    kind, _, rest = words.strip().partition(" ")
    if kind == "margin":
        return {"margin": [name.strip() for name in rest.removeprefix("of ").replace(",", " and ").split(" and ")]}
    of, _, by = rest.removeprefix("of ").partition(" by ") if not rest.startswith("by ") else ("all", "", rest[3:])
    found: dict[str, Any] = {kind: of.strip() or "all"}
    if by:
        found["by"] = by.strip()
    return found if found[kind] == "all" else {**found, "name": " ".join(words.split())}


def said_at(text: str, path: tuple[str | int, ...]) -> Any:
    """Return what a spec says at a place, in texts, lists and mappings."""
    from congenial.spec.yaml_text import parse

    said: Any = parse(text.encode("utf-8")).tree
    for step in path:
        try:
            said = said[step]
        except (KeyError, IndexError, TypeError):
            raise ReadingError("what should be changed is not in the spec any more; open it again") from None
    return said


def _keys(text: str, path: tuple[str | int, ...]) -> list[str]:
    try:
        return list(said_at(text, path))
    except ReadingError:
        return []


def _place(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ReadingError("an entry of the spec is named by its place, from 0")
    return given


def _entry(given: Any) -> dict[str, Any]:
    """Return an invariant as a page asks for it: a total of cells, or a margin."""
    if not isinstance(given, dict) or len({"total", "margin"} & set(given)) != 1:
        raise ReadingError("an invariant is a `total` or a `margin` here; write others in the spec's text")
    found: dict[str, Any] = {}
    for key in ("total", "margin", "by", "at", "name", "mandate"):
        value = given.get(key)
        if isinstance(value, dict):
            found[key] = {str(name): [str(label) for label in labels] for name, labels in value.items()}
        elif isinstance(value, list):
            found[key] = [str(one) for one in value]
        elif isinstance(value, str) and value.strip():
            found[key] = value
    return found
