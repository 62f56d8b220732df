"""From what a curator says of the columns of a file to the text of a spec; only the columns' names enter."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.display import table_rows
from congenial.errors import CongenialError, ReadingError
from congenial.reading.starter import columns_of, guessed
from congenial.table import AreaTables, Table
from congenial.workbench.desk import Desk, is_open
from congenial.workbench.spec_edit import Value, said_at, set_value, written
from congenial.workbench.web import computed, in_words, page

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


# The pages that describe a data file, change parts of a description, and show the confidential table when asked.

_MOST_COLUMNS = 200


def routes(desk: Desk) -> list[Route]:
    """Return the routes of describing."""

    async def show(request: Request) -> Response:
        data = request.query_params.get("data", "")
        path = desk.path(data, "data")
        names, _ = await computed(desk, lambda: columns_of(path))
        count, area, identity = guessed(names)
        guess = {count: "count", area: "areas", identity: "id"}
        columns = [(name, guess.get(name, "dimension")) for name in names[:_MOST_COLUMNS]]
        name = "spec.yaml" if not (path.parent / "spec.yaml").exists() else f"{path.name.split('.')[0]}.yaml"
        return page(
            "describe.html",
            title=f"Describe {data}",
            here="",
            data=data,
            columns=columns,
            roles=ROLES,
            name=name,
            release=path.name.split(".")[0],
            is_counts=count is not None,
        )

    async def write(request: Request) -> Response:
        form = await request.form(max_fields=5 * _MOST_COLUMNS + 50)
        data = str(form.get("data", ""))
        path = desk.path(data, "data")
        _, separator = await computed(desk, lambda: columns_of(path))
        name = check_name(str(form.get("name", "")))
        file = (PurePosixPath(data).parent / name).as_posix()
        text = _described(form, path.name, separator).text()
        try:
            with (path.parent / name).open("x", encoding="utf-8", newline="") as out:
                out.write(text)
        except FileExistsError:
            raise ReadingError(f"{file} is there already; go back and give another name, or open it") from None
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    async def part(request: Request) -> Response:
        form = await request.form()
        file, digest = str(form.get("file", "")), str(form.get("digest", ""))
        text, before = desk.spec_text(file), desk.spec(file)
        title, group, ordered = (str(form.get(name, "")).strip() for name in ("title", "group", "ordered"))
        if title and title != before.title:
            text = set_value(text, ("title",), title)
        if group:
            labels = [one.strip() for one in str(form.get("levels", "")).split(",") if one.strip()]
            text = with_part(text, str(form.get("dimension", "")), "groups", {group: labels})
        if ordered:
            text = with_part(text, ordered, "ordered", True)
        await computed(desk, lambda: desk.spec(file, text))
        desk.save(file, text, digest)
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    async def confidential(request: Request) -> Response:
        file, area = request.query_params.get("file", ""), request.query_params.get("area")
        spec = await computed(desk, lambda: desk.spec(file))
        if spec.hierarchy is not None:
            raise CongenialError("the tables of a tree are not shown here; there may be millions")
        tables = await computed(desk, lambda: desk.tables(spec, file))
        labels = [] if isinstance(tables, Table) else [str(label) for label in tables]
        shown = area if area in labels else (labels[0] if labels else None)
        header, rows = table_rows(spec.schema, _table(tables, shown).counts)
        return page(
            "confidential.html",
            title="CONFIDENTIAL",
            here="",
            file=file,
            confidential=True,
            spec=spec,
            header=header,
            rows=rows,
            labels=labels,
            shown=shown,
        )

    return [
        Route("/describe", in_words(show), methods=["GET"]),
        Route("/describe", in_words(write), methods=["POST"]),
        Route("/describe-part", in_words(part), methods=["POST"]),
        Route("/confidential", in_words(confidential)),
    ]


def _table(tables: Table | AreaTables, area: str | None) -> Table:
    return tables if isinstance(tables, Table) or area is None else tables[area]  # type: ignore[return-value]


def _described(form: FormData, path: str, separator: str) -> Described:
    def said(name: str) -> str:
        return str(form.get(name, "")).replace("\r\n", "\n").strip()

    columns = []
    for number in range(_MOST_COLUMNS):
        if f"column-{number}" not in form:
            break
        role = said(f"role-{number}")
        if role not in ROLES:
            raise ReadingError(f"a column is one of {', '.join(ROLES)}")
        column = Column(
            said(f"column-{number}"), role, said(f"levels-{number}"), form.get(f"ordered-{number}") == "yes"
        )
        columns.append(column)
    return Described(
        said("release"),
        path,
        columns,
        title=said("title"),
        dataset=said("dataset"),
        status=said("status") or "confidential",
        unit=said("unit"),
        separator=separator,
        epsilon=said("epsilon"),
        tree_file=said("tree_file"),
        tree_levels=said("tree_levels"),
    )
