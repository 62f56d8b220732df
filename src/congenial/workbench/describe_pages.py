"""The pages that describe a data file, change parts of a description, and show the confidential table when asked."""

from pathlib import PurePosixPath
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.display import as_grid
from congenial.errors import CongenialError, ReadingError
from congenial.reading.starter import columns_of, guessed
from congenial.table import AreaTables, Table
from congenial.workbench.describe import ROLES, Column, Described, check_name, with_part
from congenial.workbench.desk import Desk
from congenial.workbench.serving import computed, in_words, page
from congenial.workbench.spec_edit import set_value

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
        header, rows = as_grid(spec.schema, _table(tables, shown).counts)
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
