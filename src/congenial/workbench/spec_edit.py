"""Changes of a spec's text that leave every other byte alone: comments, quotes, line ends and order are the curator's.

A change is made in the text, at the place that the parser gives for a part of it. Nothing is written out anew.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from congenial.errors import ReadingError

Path = tuple[str | int, ...]
Value = str | bool | Sequence[Any] | Mapping[str, Any]

_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+() -]*(?<! )")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off", "~"}
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
    found = _find(root, path)
    if found is not None:
        start, end = _span(text, found)
        return text[:start] + written(value) + text[end:]
    parent = _find(root, path[:-1])
    if parent is None:
        return set_value(text, path[:-1], {str(path[-1]): value})
    if not isinstance(parent, MappingNode):
        raise ReadingError(f"{path[-2] if len(path) > 1 else 'the spec'} is no mapping, so nothing can be added to it")
    return _add(text, parent, f"{_scalar(str(path[-1]))}: {written(value)}", is_root=len(path) == 1)


def append(text: str, path: Path, value: Value) -> str:
    r"""Return the text with an entry more at the end of a list.

    Examples
    --------
    >>> append("invariants:\n  - total  # by law\nbudget: {epsilon: 1}\n", ("invariants",), {"margin": "sex"})
    'invariants:\n  - total  # by law\n  - margin: sex\nbudget: {epsilon: 1}\n'
    >>> append("invariants: [total]\n", ("invariants",), {"margin": "sex"})
    'invariants: [total, {margin: sex}]\n'
    """
    found = _find(_root(text), path)
    if found is None:
        return _new_list(text, path, value)
    if not isinstance(found, SequenceNode):
        raise ReadingError(f"{path[-1]!r} is no list, so nothing can be added to it")
    if found.flow_style and not found.value:
        start, end = _span(text, found)
        return f"{text[:start]}[{written(value)}]{text[end:]}"
    if found.flow_style:
        return _add(text, found, written(value))
    column = _dash(text, found.value[-1])[1]
    return _insert_after(text, _last(found), _entry(value, column))


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
    parent, found = _find(root, path[:-1]), _find(root, path)
    if not isinstance(parent, CollectionNode) or found is None:
        raise ReadingError("what should be taken out is not in the spec any more; open it again")
    if parent.flow_style:
        return _without_flow(text, parent, path[-1])
    if len(parent.value) == 1:
        start = _key_end(text, root, path[:-1])
        end = _end_of_line(text, _last(found))
        line = "[]" if isinstance(parent, SequenceNode) else "{}"
        # What stands between the key and its only entry, such as a comment, stays above.
        between = text[_end_of_line(text, start) : _line_start(text, _begin(parent, path[-1], text))]
        head = text[start : _end_of_line(text, start)]
        return f"{text[:start]} {line}{head}{between}{text[end:]}"
    start = _line_start(text, _begin(parent, path[-1], text))
    return text[:start] + text[_end_of_line(text, _last(found)) + 1 :]


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
        kept = int(parent.start_mark.index) + 1 + len(body)
        comma = "" if not body.strip() or body.endswith(",") else ", "
        return text[:kept] + (comma or (" " if body.endswith(",") else "")) + line + text[kept:]
    if is_root:
        ended = text if text.endswith("\n") or not text else text + "\n"
        return _with_ends_of(text, ended + line + "\n")
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
    ended = text if text.endswith("\n") or not text else text + "\n"
    return _with_ends_of(text, f"{ended}{path[0]}:\n{_entry(value, _INDENT)}\n")


def _entry(value: Value, column: int) -> str:
    """Return an entry of a block: a mapping with a line for each key."""
    if not isinstance(value, Mapping):
        return f"{' ' * column}- {written(value)}"
    lines = [f"{_scalar(key)}: {written(inner)}" for key, inner in value.items()]
    return "\n".join(f"{' ' * column}{'  ' if number else '- '}{line}" for number, line in enumerate(lines))


def written(value: Value) -> str:
    """Return a value on one line, as YAML that reads as that very value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(key)}: {written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _scalar(value)
    return "[" + ", ".join(written(inner) for inner in value) + "]"


def _scalar(text: str) -> str:
    """Return a text as YAML that reads as that very text; JSON's quotes are YAML's too."""
    is_plain = _PLAIN.fullmatch(text) and text.casefold() not in _WORDS_OF_YAML and " -" not in text and text != "."
    return text if is_plain and not text.startswith("-") else json.dumps(text, ensure_ascii=False)
