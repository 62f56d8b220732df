"""From what a curator says of the columns of a file to the text of a spec; only the columns' names enter."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from congenial.errors import ReadingError
from congenial.workbench.choice import said_at
from congenial.workbench.places import is_open
from congenial.workbench.spec_edit import Value, set_value, written

ROLES = ("dimension", "areas", "leaves of a tree", "count", "id", "leave out")
_SEPARATORS = {",": None, ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class Column:
    """What a curator says of one column.

    Attributes
    ----------
    levels : str
        A line each, or separated by commas: a label, or ``code = label``; or ``cut 0, 16, 65`` for a numeric column.
    """

    name: str
    role: str
    levels: str = ""
    is_ordered: bool = False

    @property
    def declared(self) -> dict[str, Value]:
        """The levels as a spec has them."""
        said = self.levels.strip()
        if not said:
            return {"levels": ["FILL IN"]}
        if said.startswith("cut"):
            return {"cut": [part for part in re.split(r"[,\s]+", said.removeprefix("cut").strip()) if part]}
        if said.startswith("file "):
            return {"levels": {"file": said.removeprefix("file ").strip()}}
        lines = said.splitlines() if "\n" in said else said.split(",")
        parts = [line.strip() for line in lines if line.strip()]
        if parts and all("=" in part for part in parts):
            pairs = [part.partition("=") for part in parts]
            return {"levels": {code.strip(): label.strip() for code, _, label in pairs}}
        return {"levels": parts}


@dataclass(frozen=True)
class Described:
    """What a curator says of a data file."""

    release: str
    path: str
    columns: Sequence[Column]
    title: str = ""
    dataset: str = ""
    status: str = "confidential"
    unit: str = "person"
    separator: str = ","
    epsilon: str = "1"
    tree_file: str = ""
    tree_levels: str = ""

    def _of(self, role: str) -> list[Column]:
        return [column for column in self.columns if column.role == role]

    def text(self) -> str:
        """Return the text of the spec; what is not said is marked to be filled in."""
        lines = ["# What is released, how, and under which budget. Everything in this file is public."]
        lines += _keys({"release": self.release, "title": self.title, "dataset": self.dataset})
        counts = self._of("count")
        data = {
            "path": self.path,
            "kind": "counts" if counts else "microdata",
            "count": counts[0].name if counts else "",
            "separator": _SEPARATORS.get(self.separator) or "",
            "status": self.status,
        }
        lines += ["", "data:", *_keys(data, 2)]
        if not counts:
            ids = self._of("id")
            unit = {"one_row_per": self.unit or "person", "id": ids[0].name if ids else ""}
            lines += ["", "# Whose privacy is protected: each has one row.", "unit:", *_keys(unit, 2)]
        lines += ["", "# Every level is declared here, and none is taken from the data.", "dimensions:"]
        for column in self._of("dimension"):
            lines += _dimension(column)
        lines += self._areas()
        lines += [
            "",
            "# What comes out exactly, because a law or an earlier publication demands it.",
            "invariants: []",
            "",
        ]
        budget = {"rho": "1/2"} if self._of("leaves of a tree") else {"epsilon": self.epsilon or "1"}
        lines += [f"budget: {written(budget)}", "neighbours: bounded"]
        return "\n".join(lines) + "\n"

    def _areas(self) -> list[str]:
        leaves, areas = self._of("leaves of a tree"), self._of("areas")
        if leaves:
            above = [part.split() for part in re.split(r"[,\n]+", self.tree_levels) if part.strip()]
            levels = [f"    {written(part[0])}: {{prefix: {written(part[-1])}}}" for part in above]
            head = {"file": self.tree_file or "FILL IN", "leaf": leaves[0].name}
            return [
                "",
                "# The public list of all leaves, those without anybody included.",
                "hierarchy:",
                *_keys(head, 2),
                "  levels:",
                *levels,
            ]
        if areas:
            column = areas[0]
            parts = [f"  {key}: {written(value)}" for key, value in column.declared.items()]
            return ["", "# One table for each area.", "by:", f"  name: {written(column.name)}", *parts]
        return []


def _keys(values: Mapping[str, str], indent: int = 0) -> list[str]:
    return [f"{' ' * indent}{key}: {written(value)}" for key, value in values.items() if value]


def _dimension(column: Column) -> list[str]:
    declared = column.declared
    levels = declared.get("levels")
    if isinstance(levels, list) and not column.is_ordered:
        return [f"  {written(column.name)}: {written(levels)}"]
    lines = [f"    {key}: {written(value)}" for key, value in declared.items()]
    ordered = ["    ordered: true"] if column.is_ordered and "cut" not in declared else []
    return [f"  {written(column.name)}:", *lines, *ordered]


def with_part(text: str, dimension: str, key: str, value: Any) -> str:
    r"""Return a spec's text with a key of a dimension set; a dimension that is a mere list becomes one with keys.

    Examples
    --------
    >>> with_part("dimensions:\n  sex: [f, m]  # as coded\n", "sex", "ordered", True)
    'dimensions:\n  sex: {levels: [f, m], ordered: true}  # as coded\n'
    """
    said = said_at(text, ("dimensions", dimension))
    if isinstance(said, list):
        return set_value(text, ("dimensions", dimension), {"levels": said, key: value})
    if key == "groups" and isinstance(value, dict):
        for name, labels in value.items():
            text = set_value(text, ("dimensions", dimension, "groups", name), labels)
        return text
    return set_value(text, ("dimensions", dimension, key), value)


def check_name(name: str) -> str:
    """Return the name of a spec's file, or refuse it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}\.ya?ml", name) or not is_open(name):
        raise ReadingError(f"{name[:80]!r} is not a name for a spec; write one such as spec.yaml")
    return name
