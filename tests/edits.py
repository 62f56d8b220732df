"""Random edits of a manifest: of one value, one key or one order, anywhere."""

from copy import deepcopy
from random import Random
from typing import Any

Place = tuple[str | int, ...]

_OTHERS = (
    ("confidential", "public", "simulated"),
    ("bounded", "unbounded"),
    ("double_geometric", "discrete_gaussian"),
    ("epsilon", "rho"),
    ("integer", "all"),
    ("total", "margin", "cells", "linear", "share", "bounds"),
    ("f", "m"),
    ("010", "020", "030"),
)


def random_edit(values: dict[str, Any], rng: Random) -> tuple[str, dict[str, Any]]:
    """Return where something was changed, such as `law.rows[].text`, and a changed copy."""
    while True:
        forged = deepcopy(values)
        place = rng.choice(list(_places(forged)))
        holder: Any = forged
        for step in place[:-1]:
            holder = holder[step]
        added = _change(holder, place[-1], rng)
        if repr(forged) != repr(values):  # 1 is not True, and the order counts
            return _named((*place, *added)), forged


def _places(value: Any, place: Place = ()) -> Any:
    """Yield every place, so that numbers deep inside come up as often as names at the top."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield (*place, name)
        yield from _places(part, (*place, name))


def _named(place: Place) -> str:
    out = ""
    for step in place:
        out += "[]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _change(holder: Any, name: Any, rng: Random) -> Place:
    """Change what stands under a name; returns what was added below it."""
    value = holder[name]
    kind = rng.random()
    if kind < 0.1:
        del holder[name]
    elif kind < 0.15 and isinstance(holder, list):
        holder.insert(name, deepcopy(value))
    elif kind < 0.2 and isinstance(holder, list):
        rng.shuffle(holder)
    elif isinstance(value, dict):
        added = rng.choice(["more", "name", "mandate", "portion", "lower", "at_most", "equals"])
        value[added] = rng.choice(["2", 2, None])
        return (added,)
    elif isinstance(value, list):
        value.append(rng.choice([0, "f", [0, 1], {}]))
    else:
        holder[name] = _other(value, rng)
    return ()


def _other(value: Any, rng: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, 2 * value, str(value), None])
    if value is None:
        return rng.choice(["x", 0, [], "1"])
    for others in _OTHERS:
        if value in others and rng.random() < 0.7:
            return rng.choice([one for one in others if one != value])
    if value.isdecimal() or "/" in value:
        return rng.choice([f"1{value}", "1/3", "0", "2", None])
    letters = list(value)
    if letters:
        at = rng.randrange(len(letters))
        letters[at] = rng.choice("abc0123")
    return rng.choice(["".join(letters), f"{value}0", f"{value} x", ""])
