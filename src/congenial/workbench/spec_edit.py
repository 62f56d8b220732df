"""Changes of a spec's text that leave every other byte alone: comments, quotes, line ends and order are the curator's.

A change is made in the text, at the place that the parser gives for a part of it. Nothing is written out anew.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from congenial.errors import CongenialError, ReadingError
from congenial.noise import FAMILIES
from congenial.privacy.certificate_inputs import CONDITIONAL, METHODS
from congenial.spec.spec_and_hierarchy import Spec
from congenial.spec.yaml_and_mistakes import parse
from congenial.workbench.workspace import Workspace, digest_of
from congenial.workload.plan import SHARES

Path = tuple[str | int, ...]
Value = str | bool | Sequence[Any] | Mapping[str, Any]

_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+() -]*(?<! )")
_YAML_KEYWORDS = {"true", "false", "null", "yes", "no", "on", "off", "~"}
_INDENT = 2


def set_value(text: str, path: Path, value: Value) -> str:
    r"""Return the text with a part replaced, or added where it is not there.

    Examples
    --------
    >>> set_value("budget: {epsilon: 1}  # agreed\n", ("budget", "epsilon"), "1/2")
    'budget: {epsilon: 1/2}  # agreed\n'
    >>> set_value("release: a\n", ("title",), "Age: and sex")
    'release: a\ntitle: "Age: and sex"\n'
    """
    root = _root(text)
    node = _find(root, path)
    if node is not None:
        start, end = _span(text, node)
        return text[:start] + as_yaml(value) + text[end:]
    parent = _find(root, path[:-1])
    if parent is None:
        return set_value(text, path[:-1], {str(path[-1]): value})
    if not isinstance(parent, MappingNode):
        raise ReadingError(f"{path[-2] if len(path) > 1 else 'the spec'} is no mapping, so nothing can be added to it")
    return _add(text, parent, f"{_scalar(str(path[-1]))}: {as_yaml(value)}", is_root=len(path) == 1)


def append(text: str, path: Path, value: Value) -> str:
    r"""Return the text with an entry more at the end of a list.

    Examples
    --------
    >>> append("invariants:\n  - total  # by law\nbudget: {epsilon: 1}\n", ("invariants",), {"margin": "sex"})
    'invariants:\n  - total  # by law\n  - margin: sex\nbudget: {epsilon: 1}\n'
    >>> append("invariants: [total]\n", ("invariants",), {"margin": "sex"})
    'invariants: [total, {margin: sex}]\n'
    """
    node = _find(_root(text), path)
    if node is None:
        return _new_list(text, path, value)
    if not isinstance(node, SequenceNode):
        raise ReadingError(f"{path[-1]!r} is no list, so nothing can be added to it")
    if node.flow_style and not node.value:
        start, end = _span(text, node)
        return f"{text[:start]}[{as_yaml(value)}]{text[end:]}"
    if node.flow_style:
        return _add(text, node, as_yaml(value))
    column = _dash(text, node.value[-1])[1]
    return _insert_after(text, _last(node), _entry(value, column))


def remove(text: str, path: Path) -> str:
    r"""Return the text without an entry of a list or of a mapping; the last entry leaves an empty list behind.

    Examples
    --------
    >>> remove("invariants:\n  # both by law\n  - total\n  - margin of sex  # since 1990\n", ("invariants", 0))
    'invariants:\n  # both by law\n  - margin of sex  # since 1990\n'
    >>> remove("invariants: [total, margin of sex]\n", ("invariants", 1))
    'invariants: [total]\n'
    """
    root = _root(text)
    parent, node = _find(root, path[:-1]), _find(root, path)
    if not isinstance(parent, CollectionNode) or node is None:
        raise ReadingError("what should be taken out is not in the spec any more; open it again")
    if parent.flow_style:
        return _without_flow(text, parent, path[-1])
    if len(parent.value) == 1:
        start = _key_end(text, root, path[:-1])
        end = _end_of_line(text, _last(node))
        line = "[]" if isinstance(parent, SequenceNode) else "{}"
        # What stands between the key and its only entry, such as a comment, stays above.
        between = text[_end_of_line(text, start) : _line_start(text, _begin(parent, path[-1], text))]
        head = text[start : _end_of_line(text, start)]
        return f"{text[:start]} {line}{head}{between}{text[end:]}"
    start = _line_start(text, _begin(parent, path[-1], text))
    return text[:start] + text[_end_of_line(text, _last(node)) + 1 :]


def _root(text: str) -> MappingNode:
    try:
        root = YAML(typ="rt", pure=True).compose(text)
    except Exception:  # noqa: BLE001  the reader of specs says what is wrong, with its line
        root = None
    if not isinstance(root, MappingNode):
        raise ReadingError("the spec is not YAML that can be changed; correct its text first")
    return root


def _find(node: Node, path: Path) -> Node | None:
    for step in path:
        if isinstance(node, MappingNode):
            inner = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        else:
            inner = None
        if inner is None:
            return None
        node = inner
    return node


def _leaves(node: Node) -> Iterator[Node]:
    """Go through the parts that end where their own last sign stands: scalars, and lists and mappings in brackets."""
    if isinstance(node, ScalarNode) or not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        yield node
        return
    for part in node.value:
        for inner in part if isinstance(part, tuple) else (part,):
            yield from _leaves(inner)


def _last(node: Node) -> int:
    """Return where a part's last sign ends; a block's own end lies behind the comments that follow it."""
    return max(int(leaf.end_mark.index) for leaf in _leaves(node))


def _span(text: str, node: Node) -> tuple[int, int]:
    start, end = int(node.start_mark.index), _last(node)
    return start, start + len(text[start:end].rstrip())


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _end_of_line(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _dash(text: str, item: Node) -> tuple[int, int]:
    """Return where the dash of a block's entry stands, and in which column."""
    dash = text.rindex("-", 0, int(item.start_mark.index))
    return dash, dash - _line_start(text, dash)


def _begin(parent: CollectionNode, step: str | int, text: str) -> int:
    if isinstance(parent, SequenceNode):
        return _dash(text, parent.value[step])[0]
    return next(int(key.start_mark.index) for key, _ in parent.value if key.value == step)


def _key_end(text: str, root: MappingNode, path: Path) -> int:
    """Return where the colon after a key ends."""
    parent = _find(root, path[:-1])
    key = next(key for key, _ in parent.value if key.value == path[-1])  # type: ignore[union-attr]
    return text.index(":", int(key.end_mark.index)) + 1


def _add(text: str, parent: CollectionNode, line: str, *, is_root: bool = False) -> str:
    """Add an entry to a mapping, or to a list in brackets."""
    if parent.flow_style:
        end = int(parent.end_mark.index) - 1
        body = text[int(parent.start_mark.index) + 1 : end].rstrip()
        place = int(parent.start_mark.index) + 1 + len(body)
        comma = "" if not body.strip() or body.endswith(",") else ", "
        return text[:place] + (comma or (" " if body.endswith(",") else "")) + line + text[place:]
    if is_root:
        return _with_ends_of(text, _ended(text) + line + "\n")
    key = parent.value[0][0]
    indent = int(key.start_mark.index) - _line_start(text, int(key.start_mark.index))
    return _insert_after(text, _last(parent), " " * indent + line)


def _insert_after(text: str, index: int, lines: str) -> str:
    end = _end_of_line(text, index)
    return _with_ends_of(text, f"{text[:end]}\n{lines}{text[end:]}")


def _with_ends_of(text: str, changed: str) -> str:
    """Return the changed text with the line ends of Windows, where every line of the text has them."""
    is_windows = "\r\n" in text and not re.search(r"(?<!\r)\n", text)
    return re.sub(r"\r?\n", "\r\n", changed) if is_windows else changed


def _without_flow(text: str, parent: CollectionNode, step: str | int) -> str:
    """Take an entry out of brackets, with the comma that belongs to it."""
    if isinstance(parent, SequenceNode):
        spans = [(int(node.start_mark.index), _last(node)) for node in parent.value]
        place = int(step)
    else:
        spans = [(int(key.start_mark.index), _last(value)) for key, value in parent.value]
        place = [key.value for key, _ in parent.value].index(step)
    if len(spans) == 1:
        return text[: spans[0][0]] + text[spans[0][1] :]
    if place:
        return text[: spans[place - 1][1]] + text[spans[place][1] :]
    return text[: spans[0][0]] + text[spans[1][0] :]


def _new_list(text: str, path: Path, value: Value) -> str:
    if len(path) != 1:
        return set_value(text, path, [value])
    return _with_ends_of(text, f"{_ended(text)}{path[0]}:\n{_entry(value, _INDENT)}\n")


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _entry(value: Value, column: int) -> str:
    """Return an entry of a block: a mapping with a line for each key."""
    if not isinstance(value, Mapping):
        return f"{' ' * column}- {as_yaml(value)}"
    lines = [f"{_scalar(key)}: {as_yaml(inner)}" for key, inner in value.items()]
    return "\n".join(f"{' ' * column}{'  ' if number else '- '}{line}" for number, line in enumerate(lines))


def as_yaml(value: Value) -> str:
    """Return a value on one line, as YAML that reads as that very value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {as_yaml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _scalar(value)
    return "[" + ", ".join(as_yaml(inner) for inner in value) + "]"


def _scalar(text: str) -> str:
    """Return a text as YAML that reads as that very text; JSON's quotes are YAML's too."""
    is_plain = _PLAIN.fullmatch(text) and text.casefold() not in _YAML_KEYWORDS and " -" not in text and text != "."
    return text if is_plain and not text.startswith("-") else json.dumps(text, ensure_ascii=False)


# A draft: a spec's text with changes that are not saved yet, made one after the other.

EPSILONS = ("0.1", "0.2", "0.3", "0.5", "0.75", "1", "1.5", "2", "3", "4", "6", "8", "10")
RHOS = ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")
DELTA = "1e-10"
"""Where a budget in epsilon at a delta starts; the curator changes it in the spec."""

CURRENCIES = {"epsilon": EPSILONS, "rho": RHOS, "epsilon and delta": EPSILONS}
_MOST_CHANGES = 200


def changed(text: str, changes: Sequence[Mapping[str, Any]]) -> str:
    """Return a spec's text with all changes made.

    A change is ``{"add": entry}``, ``{"remove": place}``, ``{"mandate": text, "of": place}``,
    ``{"budget": {"epsilon": "1"}}``, ``{"shares": {level: amount}}``, ``{"noise": name}`` or ``{"method": name}``. Of
    several tables of the same records: ``{"add_table": {"name": name, "margin": names}}``, ``{"add_measured": entry}``,
    ``{"remove_table": name}``, ``{"remove_measured": place}``, ``{"portion": amount, "table": name or place}``,
    ``{"share_by": "cells"}`` or ``{"protects": kind}``.
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
        return append(text, ("invariants",), _condition_entry(change["add"]))
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
        return _set_all(
            text, ("hierarchy", "shares"), {str(name): str(share) for name, share in change["shares"].items()}
        )
    if "noise" in change and change["noise"] in FAMILIES:
        return set_value(text, ("noise",), str(change["noise"]))
    if "method" in change and change["method"] in METHODS:
        return set_method(text, str(change["method"]))
    return _with_tables(text, change)


def _with_tables(text: str, change: Mapping[str, Any]) -> str:
    """Make a change of several tables of the same records."""
    if isinstance(change.get("add_table"), dict):
        name, dimensions = str(change["add_table"].get("name", "")).strip(), _texts(change["add_table"].get("margin"))
        if not name or name in _keys(text, ("tables",)):
            raise ReadingError(f"{name[:80]!r} is no name for a further table: give one that no table has")
        return set_value(text, ("tables", name), dimensions)
    if isinstance(change.get("add_measured"), dict):
        return append(text, ("also_measure",), _measured_entry(change["add_measured"]))
    if "remove_table" in change:
        if len(_keys(text, ("tables",))) < 2:
            raise ReadingError("this is the only table; add another one before it is taken out")
        return remove(text, ("tables", str(change["remove_table"])))
    if "remove_measured" in change:
        return remove(text, ("also_measure", _place(change["remove_measured"])))
    if "portion" in change:
        table = change.get("table")
        path = ("tables", table) if isinstance(table, str) else ("also_measure", _place(table))
        return _set_portion(text, path, str(change["portion"]))
    if change.get("share_by") in SHARES:
        return set_shares(text, str(change["share_by"]))
    if "protects" in change:
        kind = str(change["protects"])
        if kind:
            return set_value(text, ("protects",), kind)
        return remove(text, ("protects",)) if "protects" in _keys(text, ()) else text
    raise ReadingError("this change is none that the workbench knows")


def set_shares(text: str, by: str) -> str:
    r"""Return the text with another way to share the budget of several tables; portions come and go with it.

    Examples
    --------
    >>> text = "tables:\n  a: {margin: [sex], portion: 2}\n  b: [age]  # by law\n"
    >>> print(set_shares(text, "cells"), end="")
    tables:
      a: {margin: [sex]}
      b: [age]  # by law
    shares: {by: cells}
    >>> print(set_shares(text, "portions"), end="")
    tables:
      a: {margin: [sex], portion: 2}
      b: {margin: [age], portion: 1}  # by law
    shares: {by: portions}
    """
    text = set_value(text, ("shares", "by"), by)
    for name in _keys(text, ("tables",)):
        has_portion = "portion" in _entry_of_table(text, ("tables", name))
        if by == "portions" and not has_portion:
            text = _set_portion(text, ("tables", name), "1")
        elif by != "portions" and has_portion:
            text = remove(text, ("tables", name, "portion"))
    return text


def _set_portion(text: str, path: Path, portion: str) -> str:
    """Return the text with the portion of a table; a mere list of dimensions becomes an entry with keys."""
    entry = value_at(text, path)
    if isinstance(entry, dict):
        return set_value(text, (*path, "portion"), portion)
    return set_value(text, path, {**_entry_of_table(text, path), "portion": portion})


def _entry_of_table(text: str, path: Path) -> dict[str, Any]:
    entry = value_at(text, path)
    return dict(entry) if isinstance(entry, dict) else {"margin": entry}


def _measured_entry(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table that is measured and not published, as a page requests it: all cells, or a margin."""
    names = _texts(keys.get("margin"))
    entry: dict[str, Any] = {"margin": names} if names else {"cells": "all"}
    portion = str(keys.get("portion") or "").strip()
    return {**entry, "portion": portion} if portion else entry


def _texts(value: Any) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else []


def _set_all(text: str, path: tuple[str, ...], values: dict[str, str]) -> str:
    """Return the text with the values of a mapping; where its keys stay, so does whatever stands around them."""
    if set(_keys(text, path)) != set(values):
        return set_value(text, path, values)
    for name, value in values.items():
        text = set_value(text, (*path, name), value)
    return text


def set_method(text: str, method: str) -> str:
    r"""Return the text with another method; the conditional one has no use for a rule, which goes.

    Examples
    --------
    >>> set_method("method: measured  # agreed\nrule: nearest\nbudget: {epsilon: 1}\n", "conditional")
    'method: conditional  # agreed\nbudget: {epsilon: 1}\n'
    """
    changed = set_value(text, ("method",), method)
    return remove(changed, ("rule",)) if method == CONDITIONAL and "rule" in _keys(changed, ()) else changed


def set_mandate(text: str, place: int, mandate: str) -> str:
    r"""Return the text with the mandate of an invariant; an entry in words becomes one with keys.

    Examples
    --------
    >>> set_mandate("invariants:\n  - total of adults by sex\n", 0, "Census Act")
    'invariants:\n  - {total: adults, by: sex, name: total of adults by sex, mandate: Census Act}\n'
    """
    entry = value_at(text, ("invariants", place))
    if isinstance(entry, str):
        return set_value(text, ("invariants", place), {**in_keys(entry), "mandate": mandate})
    if not mandate.strip() and "mandate" in entry:
        return remove(text, ("invariants", place, "mandate"))
    return set_value(text, ("invariants", place, "mandate"), mandate)


def in_keys(sentence: str) -> dict[str, Any]:
    """Return an invariant in words as one with keys.

    Examples
    --------
    >>> in_keys("margin of sex and age")
    {'margin': ['sex', 'age']}
    """
    kind, _, rest = sentence.strip().partition(" ")
    if kind == "margin":
        return {"margin": [name.strip() for name in rest.removeprefix("of ").replace(",", " and ").split(" and ")]}
    of, _, by = rest.removeprefix("of ").partition(" by ") if not rest.startswith("by ") else ("all", "", rest[3:])
    entry: dict[str, Any] = {kind: of.strip() or "all"}
    if by:
        entry["by"] = by.strip()
    return entry if entry[kind] == "all" else {**entry, "name": " ".join(sentence.split())}


def value_at(text: str, path: tuple[str | int, ...]) -> Any:
    """Return what a spec says at a place, in texts, lists and mappings."""
    value: Any = parse(text.encode("utf-8")).tree
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise ReadingError("what should be changed is not in the spec any more; open it again") from None
    return value


def _keys(text: str, path: tuple[str | int, ...]) -> list[str]:
    try:
        return list(value_at(text, path))
    except ReadingError:
        return []


def _place(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ReadingError("an entry of the spec is named by its place, from 0")
    return value


def _condition_entry(keys: Any) -> dict[str, Any]:
    """Return an invariant as a page requests it: a total of cells, or a margin."""
    if not isinstance(keys, dict) or len({"total", "margin"} & set(keys)) != 1:
        raise ReadingError("an invariant is a `total` or a `margin` here; write others in the spec's text")
    entry: dict[str, Any] = {}
    for key in ("total", "margin", "by", "at", "name", "mandate"):
        value = keys.get(key)
        if isinstance(value, dict):
            entry[key] = {str(name): [str(label) for label in labels] for name, labels in value.items()}
        elif isinstance(value, list):
            entry[key] = [str(part) for part in value]
        elif isinstance(value, str) and value.strip():
            entry[key] = value
    return entry


@dataclass(frozen=True)
class PanelRequest:
    """What a page that chooses requests: a spec, its draft with changes that are not saved, and the layout."""

    file: str
    draft: str
    down: str | None
    across: str | None

    @classmethod
    def of(cls, workspace: Workspace, message: Mapping[str, Any]) -> "PanelRequest":
        """Read a request; a spec that was changed elsewhere in the meantime is refused."""
        file = str(message.get("file", ""))
        text = workspace.spec_text(file)
        if message.get("digest") not in (None, digest_of(text)):
            raise CongenialError(
                f"{file} was changed since this page was opened, in another tab or by an editor. Open it again to see"
                " it as it is now"
            )
        changes = message.get("changes") or []
        down, across = (None if message.get(name) is None else str(message[name]) for name in ("down", "across"))
        return cls(file, changed(text, changes) if changes else text, down, across)

    @property
    def key(self) -> tuple[str, ...]:
        """What the answer depends on, besides the data."""
        return (self.file, digest_of(self.draft), self.down or "", self.across or "")


def budget_of(spec: Spec) -> tuple[str, str | None]:
    """Return the currency of a spec's budget, and its amount as a decimal; None where every precision is stated."""
    if spec.rho is not None:
        return "rho", f"{float(spec.rho):g}"
    if spec.epsilon is None:
        return "epsilon", None
    return ("epsilon" if spec.delta is None else "epsilon and delta"), f"{float(spec.epsilon):g}"
