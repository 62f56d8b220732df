"""From what pydantic finds wrong to mistakes in plain words, each at its line and column."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from congenial.errors import CongenialError, Mistake, SpecError, did_you_mean
from congenial.spec.yaml_text import Document, Path, in_words

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from congenial.spec.model import Section, SpecFile

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
        self.found: dict[str, Mistake] = {mistake.path: mistake for mistake in document.mistakes[:MOST]}
        self._seen = set(self.found.values())
        self._check_number()

    def add(self, location: Path, message: str, *, at_key: bool = False) -> None:
        """Note what is wrong at a location of the file, unless something is noted there already."""
        mistake = self.document.mistake(location, message, at_key=at_key)
        path = in_words(location)  # a missing key has no place in the file, but is a mistake of its own
        if path not in self.found and mistake not in self._seen:
            self.found[path] = mistake
            self._seen.add(mistake)
            self._check_number()

    def _check_number(self) -> None:
        if len(self.found) >= MOST:
            last = max(mistake.line for mistake in self.found.values())
            message = f"there may be more mistakes; these are the first {MOST:,}"
            raise SpecError([*self.found.values(), Mistake(self.document.file_name, last + 1, 1, "", message)])

    @contextmanager
    def at(self, location: Path) -> Iterator[None]:
        """Turn what the library refuses inside into a mistake at this location."""
        try:
            yield
        except CongenialError as error:
            self.add(location, str(error))

    def raise_all(self) -> None:
        """Raise what was found, if anything was."""
        if self.found:
            raise SpecError(self.found.values())


def checked_format(document: Document, mistakes: Mistakes) -> "tuple[SpecFile, dict[Path, Path]]":
    """Check the keys and the kinds of values.

    Returns
    -------
    file : SpecFile
        What is left when the broken parts are taken out, so that the rest can be checked by meaning too.
    places : mapping
        From the place of an entry of `file` to its place in the document: entries before it may be left out.
    """
    from pydantic import ValidationError

    from congenial.spec.model import SpecFile

    tree: dict[Any, Any] = dict(document.tree)
    dropped: set[Path] = set()
    try:
        return SpecFile.model_validate(tree), {}
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            mistakes.add(detail["loc"], _in_words(detail), at_key=detail["type"] == "extra_forbidden")
            dropped.add(detail["loc"][: 2 if detail["loc"][0] in _LISTS else 1])
    places: dict[Path, Path] = {}
    for path in dropped:
        if len(path) == 1:
            tree.pop(path[0], None)
    for section in _LISTS:
        if isinstance(tree.get(section), list):
            kept = [place for place in range(len(tree[section])) if (section, place) not in dropped]
            tree[section] = [tree[section][place] for place in kept]
            places |= {(section, new): (section, old) for new, old in enumerate(kept)}
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
        got = "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "a mapping"
        return f"{_NEEDED_SHAPE[kind]} is needed here, not {got}"
    return detail["msg"].removeprefix("Value error, ")


def _shown(value: object) -> str:
    return repr(value if len(str(value)) <= 40 else str(value)[:40] + "...")


def _unknown_key(location: Path) -> str:
    key = str(location[-1])
    for section in ("invariants", "conditions", "measure"):
        if location[0] in _LISTS and location[0] != section and key in _keys((section, 0, key)):
            return f"{key!r} is not a key here, but one of entries under `{section}:`"
    return f"{_shown(key)} is not a key here; {did_you_mean(key, _keys(location))}"


def _keys(location: Path) -> list[str]:
    """Return the keys that are known at the place of an unknown one."""
    from congenial.spec import model

    sections: dict[str, type[Section]] = {
        "data": model.DataEntry,
        "unit": model.UnitEntry,
        "by": model.AreaEntry,
        "budget": model.BudgetEntry,
        "dimensions": model.RangeEntry if "groups" in location else model.DimensionEntry,
        **model.ENTRY_MODELS,
    }
    here = model.SpecFile if len(location) == 1 else sections[str(location[0])]
    here = model.TermEntry if "linear" in location[:-1] else here
    if "<file>" in location:
        lists: dict[str, type[Section]] = {"by": model.AreaListEntry, "dimensions": model.ListEntry}
        here = lists.get(str(location[0]), model.ValuesEntry)
    return [field.alias or name for name, field in here.model_fields.items()]
