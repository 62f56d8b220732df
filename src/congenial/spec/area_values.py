"""Values of invariants and limits that differ by area, from a public file: a row an area."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from congenial.conditions.by_area import by_area
from congenial.conditions.condition import Condition
from congenial.errors import ConditionError
from congenial.spec.levels import Levels
from congenial.spec.public_csv import PublicRows, read_public_csv

if TYPE_CHECKING:
    from congenial.spec.model import ValuesEntry

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def files_in(said: Mapping[str, Any]) -> "dict[str, ValuesEntry]":
    """Return the keys of an entry whose values stand in a file."""
    from congenial.spec.model import ValuesEntry

    return {key: value for key, value in said.items() if isinstance(value, ValuesEntry)}


def read_by_area(
    said: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], Condition],
    by: Levels | None,
    folder: Path | None,
) -> tuple[Condition, tuple[PublicRows, ...]]:
    """Return the condition of an entry whose values stand in files, and those files.

    Parameters
    ----------
    read : function
        Reads an entry with the values of one area.
    """
    if by is None:
        raise ConditionError("values by area go with areas, `by:`, and this spec has none; write the value itself")
    values: dict[str, list[Any]] = {}
    files = []
    for key, entry in files_in(said).items():
        rows, values[key] = _values(key, entry, by, folder)
        files.append(rows)
    name = said.get("name") or (None if "equals" in values else f"limits that differ by {by.name}")
    conditions = {}
    for place, label in enumerate(by.labels):
        own = read({**said, **{key: column[place] for key, column in values.items()}})
        conditions[label] = replace(own, name=name or own.name)
    return by_area(conditions, name=name), tuple(files)


def _values(key: str, entry: "ValuesEntry", by: Levels, folder: Path | None) -> tuple[PublicRows, list[Any]]:
    """Return the values of every area, in the order of the areas."""
    if entry.file is None or not entry.value:
        raise ConditionError(f"`{key}` from a file needs its `file:` and a `value:`, the column of values")
    columns = [entry.value] if isinstance(entry.value, str) else entry.value
    rows = read_public_csv(entry.file, folder, [entry.code or by.name, *columns], entry.separator)
    rows.check_once(0, entry.code or by.name, "give each area one row")
    of_code = {}
    for row, (code, *texts) in enumerate(zip(*rows.columns, strict=True)):
        if code not in by.codes_known:
            raise rows.refused(row, f"{code!r} is not the code of a {by.name}")
        for column, text in zip(columns, texts, strict=True):
            if not _WHOLE.fullmatch(text):
                raise rows.refused(row, f"{column!r} is {text!r}, and a whole number such as 12 is needed")
        of_code[code] = texts
    for code, label in zip(by.codes, by.labels, strict=True):
        if code not in of_code:
            raise ConditionError(f"{rows.path.name} has no row for {by.name} {label!r}, whose code is {code!r}")
    if key == "equals":
        return rows, [own[0] if isinstance(entry.value, str) else own for own in map(of_code.__getitem__, by.codes)]
    if len(columns) > 1:
        raise ConditionError(f"`{key}` is one limit, and {len(columns)} columns are named")
    return rows, [int(of_code[code][0]) for code in by.codes]
