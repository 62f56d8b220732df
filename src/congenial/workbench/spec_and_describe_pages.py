"""The pages of a spec: its text with mistakes at their lines, written from a description of a data file, or changed."""

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
from congenial.errors import CongenialError, ReadingError, SpecError
from congenial.reading.starter import columns_of, guessed
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import AreaTables, Table
from congenial.workbench.endpoints_and_templates import computed, in_words, page
from congenial.workbench.spec_edit import Value, as_yaml, set_value, value_at
from congenial.workbench.workspace import Leaves, Workspace, digest_of, is_visible
from congenial.workload.records import Records

# From a description of the columns of a data file to the text of a spec; only the columns' names enter.

ROLES = ("dimension", "areas", "leaves of a tree", "count", "id", "leave out")
_SEPARATORS = {",": None, ";": "semicolon", "\t": "tab", "|": "bar"}


@dataclass(frozen=True)
class ColumnDescription:
    """A curator's description of one column.

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
        text = self.levels.strip()
        if not text:
            return {"levels": ["FILL IN"]}
        if text.startswith("cut"):
            return {"cut": [part for part in re.split(r"[,\s]+", text.removeprefix("cut").strip()) if part]}
        if text.startswith("file "):
            return {"levels": {"file": text.removeprefix("file ").strip()}}
        lines = text.splitlines() if "\n" in text else text.split(",")
        parts = [line.strip() for line in lines if line.strip()]
        if parts and all("=" in part for part in parts):
            pairs = [part.partition("=") for part in parts]
            return {"levels": {code.strip(): label.strip() for code, _, label in pairs}}
        return {"levels": parts}


@dataclass(frozen=True)
class DataDescription:
    """A curator's description of a data file."""

    release: str
    path: str
    columns: Sequence[ColumnDescription]
    title: str = ""
    dataset: str = ""
    status: str = "confidential"
    unit: str = "person"
    separator: str = ","
    epsilon: str = "1"
    tree_file: str = ""
    tree_levels: str = ""

    def _of(self, role: str) -> list[ColumnDescription]:
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
        lines += [f"budget: {as_yaml(budget)}", "neighbours: bounded"]
        return "\n".join(lines) + "\n"

    def _areas(self) -> list[str]:
        leaves, areas = self._of("leaves of a tree"), self._of("areas")
        if leaves:
            above = [part.split() for part in re.split(r"[,\n]+", self.tree_levels) if part.strip()]
            levels = [f"    {as_yaml(part[0])}: {{prefix: {as_yaml(part[-1])}}}" for part in above]
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
            parts = [f"  {key}: {as_yaml(value)}" for key, value in column.declared.items()]
            return ["", "# One table for each area.", "by:", f"  name: {as_yaml(column.name)}", *parts]
        return []


def _keys(values: Mapping[str, str], indent: int = 0) -> list[str]:
    return [f"{' ' * indent}{key}: {as_yaml(value)}" for key, value in values.items() if value]


def _dimension(column: ColumnDescription) -> list[str]:
    declared = column.declared
    levels = declared.get("levels")
    if isinstance(levels, list) and not column.is_ordered:
        return [f"  {as_yaml(column.name)}: {as_yaml(levels)}"]
    lines = [f"    {key}: {as_yaml(value)}" for key, value in declared.items()]
    ordered = ["    ordered: true"] if column.is_ordered and "cut" not in declared else []
    return [f"  {as_yaml(column.name)}:", *lines, *ordered]


def with_part(text: str, dimension: str, key: str, value: Any) -> str:
    r"""Return a spec's text with a key of a dimension set; a dimension that is a mere list becomes one with keys.

    Examples
    --------
    >>> with_part("dimensions:\n  sex: [f, m]  # as coded\n", "sex", "ordered", True)
    'dimensions:\n  sex: {levels: [f, m], ordered: true}  # as coded\n'
    """
    levels = value_at(text, ("dimensions", dimension))
    if isinstance(levels, list):
        return set_value(text, ("dimensions", dimension), {"levels": levels, key: value})
    if key == "groups" and isinstance(value, dict):
        for name, labels in value.items():
            text = set_value(text, ("dimensions", dimension, "groups", name), labels)
        return text
    return set_value(text, ("dimensions", dimension, key), value)


def check_name(name: str) -> str:
    """Return the name of a spec's file, or refuse it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}\.ya?ml", name) or not is_visible(name):
        raise ReadingError(f"{name[:80]!r} is not a name for a spec; write one such as spec.yaml")
    return name


_MOST_COLUMNS = 200


def _description_of(form: FormData, path: str, separator: str) -> DataDescription:
    def text_of(name: str) -> str:
        return str(form.get(name, "")).replace("\r\n", "\n").strip()

    columns = []
    for number in range(_MOST_COLUMNS):
        if f"column-{number}" not in form:
            break
        role = text_of(f"role-{number}")
        if role not in ROLES:
            raise ReadingError(f"a column is one of {', '.join(ROLES)}")
        is_ordered = form.get(f"ordered-{number}") == "yes"
        name, levels = text_of(f"column-{number}"), text_of(f"levels-{number}")
        columns.append(ColumnDescription(name, role, levels, is_ordered))
    names = ("title", "dataset", "unit", "epsilon", "tree_file", "tree_levels")
    return DataDescription(
        text_of("release"),
        path,
        columns,
        status=text_of("status") or "confidential",
        separator=separator,
        **{name: text_of(name) for name in names},
    )


# The pages: a spec's text, a data file to describe, parts to change, and the confidential table on request.


def spec_page(
    workspace: Workspace, file: str, draft: str | None = None, *, digest: str | None = None, refused: str = ""
) -> Response:
    """Return the page of a spec, or of a draft that is not saved."""
    on_disk = workspace.spec_text(file)
    text = on_disk if draft is None else draft
    spec, mistakes, trouble = read(workspace, file, text)
    by_line: dict[int, list[str]] = {}
    for line, message in mistakes:
        by_line.setdefault(line, []).append(message)
    return page(
        "spec.html",
        200 if not refused else 409,
        title=file,
        here="spec",
        file=file,
        text=text,
        digest=digest or digest_of(on_disk),
        lines=[(number, line, by_line.get(number, [])) for number, line in enumerate(text.split("\n"), 1)],
        n_wrong=len(mistakes),
        trouble=trouble,
        spec=spec,
        refused=refused,
        is_saved=text == on_disk,
    )


def read(workspace: Workspace, file: str, text: str) -> tuple[Spec | None, list[tuple[int, str]], str]:
    """Return a spec; or its mistakes with their lines; or why it is not read at all."""
    try:
        return workspace.spec(file, text), [], ""
    except SpecError as refused:
        mistakes = refused.mistakes
        return None, [(wrong.line, ": ".join(filter(None, (wrong.path, wrong.message)))) for wrong in mistakes], ""
    except CongenialError as error:
        return None, [], str(error)


def table_labels(spec: Spec, data: Table | AreaTables | Records) -> tuple[list[str], str]:
    """Return what the confidential tables are told apart by: areas, or their names; nothing where there is one."""
    if isinstance(data, Records):
        return [table.name for table in spec.workload.published], "table"
    if isinstance(data, Table) or spec.by is None:
        return [], ""
    return [str(label) for label in data], spec.by.name


def confidential_rows(spec: Spec, data: Table | AreaTables | Records, label: str) -> tuple[list[str], list[list[str]]]:
    """Return a confidential table laid out: of an area or of several tables, the one with the label."""
    if isinstance(data, Records):
        (dimensions,) = [table.dimensions for table in spec.workload.published if table.name == label]
        return table_rows(spec.workload.schema.part(dimensions), data.margin(dimensions))
    table = data if isinstance(data, Table) else data[label]
    return table_rows(spec.schema, table.counts)


def routes(workspace: Workspace) -> list[Route]:
    """Return the routes of specs."""

    async def show_spec(request: Request) -> Response:
        file = request.query_params.get("file", "")
        return await computed(workspace, lambda: spec_page(workspace, file))

    async def save(request: Request) -> Response:
        form = await request.form()
        file, text, digest = (str(form.get(name, "")) for name in ("file", "text", "digest"))
        before = workspace.spec_text(file)
        # Browsers send line ends as CR LF, whatever the file has.
        text = text.replace("\r\n", "\n")
        if "\r\n" in before:
            text = text.replace("\n", "\r\n")
        if form.get("only") == "check":
            return await computed(workspace, lambda: spec_page(workspace, file, text, digest=digest))
        try:
            workspace.save(file, text, digest)
        except CongenialError as error:
            refused = str(error)
            return await computed(workspace, lambda: spec_page(workspace, file, text, digest=digest, refused=refused))
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    async def confidential(request: Request) -> Response:
        file, area = request.query_params.get("file", ""), request.query_params.get("area")
        spec = await computed(workspace, lambda: workspace.spec(file))
        data = await computed(workspace, lambda: workspace.data(spec, file))
        if isinstance(data, Leaves):
            raise CongenialError("the tables of a tree are not shown here; there may be millions")
        labels, of = table_labels(spec, data)
        shown = area if area in labels else next(iter(labels), None)
        header, rows = confidential_rows(spec, data, shown or "")
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
            of=of,
            shown=shown,
        )

    return [
        Route("/spec", in_words(show_spec), methods=["GET"]),
        Route("/spec", in_words(save), methods=["POST"]),
        Route("/confidential", in_words(confidential)),
        *_description_routes(workspace),
    ]


def _description_routes(workspace: Workspace) -> list[Route]:
    async def describe(request: Request) -> Response:
        data = request.query_params.get("data", "")
        path = workspace.path(data, "data")
        names, _ = await computed(workspace, lambda: columns_of(path))
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

    async def write_spec(request: Request) -> Response:
        form = await request.form(max_fields=5 * _MOST_COLUMNS + 50)
        data = str(form.get("data", ""))
        path = workspace.path(data, "data")
        _, separator = await computed(workspace, lambda: columns_of(path))
        name = check_name(str(form.get("name", "")))
        file = (PurePosixPath(data).parent / name).as_posix()
        text = _description_of(form, path.name, separator).text()
        try:
            with (path.parent / name).open("x", encoding="utf-8", newline="") as out:
                out.write(text)
        except FileExistsError:
            raise ReadingError(f"{file} is there already; go back and give another name, or open it") from None
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    async def change_part(request: Request) -> Response:
        form = await request.form()
        file, digest = str(form.get("file", "")), str(form.get("digest", ""))
        text, before = workspace.spec_text(file), workspace.spec(file)
        title, group, ordered = (str(form.get(name, "")).strip() for name in ("title", "group", "ordered"))
        if title and title != before.title:
            text = set_value(text, ("title",), title)
        if group:
            labels = [label.strip() for label in str(form.get("levels", "")).split(",") if label.strip()]
            text = with_part(text, str(form.get("dimension", "")), "groups", {group: labels})
        if ordered:
            text = with_part(text, ordered, "ordered", True)
        await computed(workspace, lambda: workspace.spec(file, text))
        workspace.save(file, text, digest)
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    return [
        Route("/describe", in_words(describe), methods=["GET"]),
        Route("/describe", in_words(write_spec), methods=["POST"]),
        Route("/describe-part", in_words(change_part), methods=["POST"]),
    ]
