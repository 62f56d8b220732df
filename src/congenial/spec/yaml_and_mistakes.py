"""The text of a spec file: YAML in which every scalar stays text, with the place of every part.

``010`` stays ``"010"``, ``0.5`` is later read as exactly 1/2, and ``no`` is a label and not a boolean. Aliases and tags
are refused, so that what stands in the file is all there is.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any

from congenial.errors import CongenialError, Mistake, SpecError, did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from ruamel.yaml.events import Event

    from congenial.spec.file_format import SpecFile, SpecSection

LARGEST_FILE = 1_000_000
_DEEPEST = 12  # the format needs 6 levels; thousands of brackets would keep the parser busy for long
_SECOND = "<the second of two equal keys>"

KeyPath = tuple[str | int, ...]
"""Keys and places of list entries (from 0) that lead to a part of the file."""


@dataclass(frozen=True)
class Document:
    """A parsed spec file: mappings, lists and texts, where each of them stands, and in which folder the file is."""

    file_name: str
    text: str
    tree: dict[str, Any]
    values: dict[KeyPath, tuple[int, int]]
    keys: dict[KeyPath, tuple[int, int]]
    mistakes: list[Mistake] = field(default_factory=list)
    folder: Folder | None = None

    def resolve(self, location: KeyPath) -> KeyPath:
        """Return the part of the file that a location names; steps that the file does not have are left out."""
        path: KeyPath = ()
        for step in location:
            if (*path, step) in self.values:
                path = (*path, step)
        return path

    def mistake(self, location: KeyPath, message: str, *, at_key: bool = False) -> Mistake:
        """Return what is wrong at a location, with its line and column."""
        path = self.resolve(location)
        line, column = (self.keys if at_key and path in self.keys else self.values)[path]
        return Mistake(self.file_name, line, column, in_words(path), message)


def in_words(path: KeyPath) -> str:
    """Return a path for people, who count from 1.

    Examples
    --------
    >>> in_words(("invariants", 2, "total"))
    'invariants, entry 3, total'
    """
    return ", ".join(f"entry {step + 1}" if isinstance(step, int) else step for step in path)


def parse(content: bytes | str, file_name: str = "spec.yaml", folder: Folder | None = None) -> Document:
    """Read a spec file's text.

    Examples
    --------
    >>> parse("release: 010").tree
    {'release': '010'}
    """
    text = _decoded(content, file_name) if isinstance(content, bytes) else content
    if len(text) > LARGEST_FILE:
        raise _error(file_name, (1, 1), f"the spec is larger than {LARGEST_FILE:,} bytes; is this the data file?")
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    document = Document(file_name, text, {}, {(): (1, 1)}, {}, folder=folder)
    try:
        events = YAML(typ="safe", pure=True).parse(text)
        _read(document, events)
    except SpecError:
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        raise _error(file_name, place, _explain_yaml(str(error.problem or error.context))) from None
    except ReaderError as error:
        raise _error(file_name, _place(text, error.position), "a character that YAML does not allow") from None
    except Exception:  # noqa: BLE001  a parser that stumbles over odd bytes must not end in a traceback
        raise _error(file_name, (1, 1), "this is not YAML that can be read; compare it with docs/spec.md") from None
    return document


def _error(file_name: str, place: tuple[int, int], message: str) -> SpecError:
    return SpecError([Mistake(file_name, *place, "", message)])


def _decoded(content: bytes, file_name: str) -> str:
    if len(content) > LARGEST_FILE:
        raise _error(file_name, (1, 1), f"the spec is larger than {LARGEST_FILE:,} bytes; is this the data file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = _place(content[: error.start].decode("utf-8-sig", "replace"), None)
        raise _error(file_name, place, "the spec is not UTF-8 text; save it with that encoding") from None


def _place(text: str, position: int | None) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def _explain_yaml(problem: str) -> str:
    if "\\t" in problem:
        return "a tab cannot indent a line here; use spaces"
    hints = {
        "mapping values are not allowed": "put texts with a colon in quotes",
        "unexpected end of stream": "a quote is not closed",
        "but got '<stream end>'": "a bracket is not closed",
        "expected <block end>": "the line is indented unlike its neighbours",
        "could not find expected ':'": "a key is followed by a colon and a space",
    }
    hint = next((f"; {hint}" for sign, hint in hints.items() if sign in problem), "")
    return f"this is not YAML: {problem}{hint}"


def _read(document: Document, events: "Iterator[Event]") -> None:
    from ruamel.yaml.events import DocumentStartEvent, MappingStartEvent, StreamEndEvent

    next(events)  # the start of the stream
    start = next(events)
    if isinstance(start, StreamEndEvent):
        raise _error(document.file_name, (1, 1), "the spec is empty; `congenial init DATA` writes one to start from")
    first = next(events)
    if not isinstance(first, MappingStartEvent):
        message = "a spec is a mapping of keys such as `release: my-release`; this is something else"
        raise _error(document.file_name, _start(first), message)
    document.tree.update(_value(document, first, events, ()))
    next(events)  # the end of the document
    more = next(events)
    if isinstance(more, DocumentStartEvent):
        raise _error(document.file_name, _start(more), "a second document starts here; a spec is one, without `---`")


def _start(event: "Event") -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _value(document: Document, event: "Event", events: "Iterator[Event]", path: KeyPath) -> Any:
    from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

    document.values[path] = _start(event)
    if len(path) > _DEEPEST:
        raise _error(document.file_name, _start(event), f"brackets or indents are nested deeper than {_DEEPEST}")
    if isinstance(event, AliasEvent):
        raise _error(document.file_name, _start(event), "aliases (*name) are not allowed; write the part out")
    if getattr(event, "tag", None) is not None:
        raise _error(document.file_name, _start(event), "tags (!name) are not allowed; every value is read as text")
    if isinstance(event, ScalarEvent):
        if not event.value and event.style is None:
            message = "there is no value here; write one, or take out the line"
            document.mistakes.append(document.mistake(path, message, at_key=True))
        return event.value
    if isinstance(event, MappingStartEvent):
        return _mapping(document, events, path)
    entries: list[Any] = []
    for entry in events:
        if isinstance(entry, SequenceEndEvent):
            break
        entries.append(_value(document, entry, events, (*path, len(entries))))
    return entries


def _mapping(document: Document, events: "Iterator[Event]", path: KeyPath) -> dict[str, Any]:
    from ruamel.yaml.events import MappingEndEvent, ScalarEvent

    mapping: dict[str, Any] = {}
    for key in events:
        if isinstance(key, MappingEndEvent):
            break
        if not isinstance(key, ScalarEvent) or getattr(key, "tag", None) is not None:
            raise _error(document.file_name, _start(key), "a key must be plain text")
        inner = (*path, key.value)
        if key.value in mapping:
            line = document.keys[inner][0]
            message = f"the key {key.value!r} stands here twice, first in line {line}; keep one"
            document.mistakes.append(Mistake(document.file_name, *_start(key), in_words(inner), message))
            _value(document, next(events), events, (*path, _SECOND, key.value))
            continue
        document.keys[inner] = _start(key)
        mapping[key.value] = _value(document, next(events), events, inner)
    return mapping


# Errors of pydantic as mistakes in plain words, each at its line and column.

MOST = 1_000
_LISTS = ("measure", "invariants", "conditions")
_SHAPES = {"<text>": "text", "<list>": "a list", "<mapping>": "a mapping", "<file>": "a file"}
_NEEDED_SHAPE = {"string_type": "text", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}


class Mistakes:
    """Collects everything that is wrong, one mistake a place; raises them together, or the first 1,000 of them.

    A file that has more is not a spec, and each one takes a search for the word that was meant.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.by_path: dict[str, Mistake] = {mistake.path: mistake for mistake in document.mistakes[:MOST]}
        self._seen = set(self.by_path.values())
        self._check_number()

    def add(self, location: KeyPath, message: str, *, at_key: bool = False) -> None:
        """Note what is wrong at a location of the file, unless something is noted there already."""
        mistake = self.document.mistake(location, message, at_key=at_key)
        path = in_words(location)  # a missing key has no place in the file, but is a mistake of its own
        if path not in self.by_path and mistake not in self._seen:
            self.by_path[path] = mistake
            self._seen.add(mistake)
            self._check_number()

    def _check_number(self) -> None:
        if len(self.by_path) >= MOST:
            last = max(mistake.line for mistake in self.by_path.values())
            message = f"there may be more mistakes; these are the first {MOST:,}"
            raise SpecError([*self.by_path.values(), Mistake(self.document.file_name, last + 1, 1, "", message)])

    @contextmanager
    def at(self, location: KeyPath) -> Iterator[None]:
        """Turn what the library refuses inside into a mistake at this location."""
        try:
            yield
        except CongenialError as error:
            self.add(location, str(error))

    def raise_all(self) -> None:
        """Raise what was found, if anything was."""
        if self.by_path:
            raise SpecError(self.by_path.values())


def checked_format(document: Document, mistakes: Mistakes) -> "tuple[SpecFile, dict[KeyPath, KeyPath]]":
    """Check the keys and the kinds of values.

    Returns
    -------
    file : SpecFile
        What is left when the broken parts are taken out, so that the rest can be checked by meaning too.
    places : mapping
        From the place of an entry of `file` to its place in the document: entries before it may be left out.
    """
    from pydantic import ValidationError

    from congenial.spec.file_format import SpecFile

    tree: dict[Any, Any] = dict(document.tree)
    dropped: set[KeyPath] = set()
    try:
        return SpecFile.model_validate(tree), {}
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            mistakes.add(detail["loc"], _in_words(detail), at_key=detail["type"] == "extra_forbidden")
            dropped.add(detail["loc"][: 2 if detail["loc"][0] in _LISTS else 1])
    places: dict[KeyPath, KeyPath] = {}
    for path in dropped:
        if len(path) == 1:
            tree.pop(path[0], None)
    for section in _LISTS:
        if isinstance(tree.get(section), list):
            remaining = [place for place in range(len(tree[section])) if (section, place) not in dropped]
            tree[section] = [tree[section][place] for place in remaining]
            places |= {(section, new): (section, old) for new, old in enumerate(remaining)}
    return SpecFile.model_validate(tree), places


def _in_words(detail: "ErrorDetails") -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"])
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        close = did_you_mean(str(value), allowed)
        hint = f"; {close}" if close.startswith("did") else ""
        return f"{_shown(value)} is not one of {', '.join(map(repr, allowed))}{hint}"
    if kind == "union_tag_invalid":
        needed = [_SHAPES[tag] for tag in re.findall(r"'([^']*)'", context["expected_tags"])]
        return f"{' or '.join(needed)} is needed here, not {_SHAPES[context['tag']]}"
    if kind in _NEEDED_SHAPE:
        shape = "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"
        return f"{_NEEDED_SHAPE[kind]} is needed here, not {shape}"
    return detail["msg"].removeprefix("Value error, ")


def _shown(value: object) -> str:
    return repr(value if len(str(value)) <= 40 else str(value)[:40] + "...")


def _unknown_key(location: KeyPath) -> str:
    key = str(location[-1])
    for section in ("invariants", "conditions", "measure"):
        if location[0] in _LISTS and location[0] != section and key in _keys((section, 0, key)):
            return f"{key!r} is not a key here, but one of entries under `{section}:`"
    return f"{_shown(key)} is not a key here; {did_you_mean(key, _keys(location))}"


def _keys(location: KeyPath) -> list[str]:
    """Return the keys that are known at the place of an unknown one."""
    from congenial.spec import file_format as model

    sections: dict[str, type[SpecSection]] = {
        "data": model.DataEntry,
        "unit": model.UnitEntry,
        "by": model.AreaEntry,
        "hierarchy": model.LevelEntry if "levels" in location else model.TreeEntry,
        "budget": model.BudgetEntry,
        "dimensions": model.RangeEntry if "groups" in location else model.DimensionEntry,
        **model.ENTRY_MODELS,
    }
    here = model.SpecFile if len(location) == 1 else sections[str(location[0])]
    here = model.TermEntry if "linear" in location[:-1] else here
    if "<file>" in location:
        lists: dict[str, type[SpecSection]] = {"by": model.AreaListEntry, "dimensions": model.ListEntry}
        here = lists.get(str(location[0]), model.ValuesEntry)
    return [field.alias or name for name, field in here.model_fields.items()]
