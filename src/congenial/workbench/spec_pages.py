"""The page of a spec: its text, what is wrong with it at the lines, and a field to change it."""

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.errors import CongenialError, SpecError
from congenial.spec.spec import Spec
from congenial.workbench.desk import Desk, digest_of
from congenial.workbench.web import computed, in_words, page


def spec_page(
    desk: Desk, file: str, text: str | None = None, *, digest: str | None = None, refused: str = ""
) -> Response:
    """Return the page of a spec, with another text than it has on disk if one is given."""
    on_disk = desk.spec_text(file)
    said = on_disk if text is None else text
    spec, wrong, trouble = read(desk, file, said)
    by_line: dict[int, list[str]] = {}
    for line, why in wrong:
        by_line.setdefault(line, []).append(why)
    return page(
        "spec.html",
        200 if not refused else 409,
        title=file,
        here="spec",
        file=file,
        text=said,
        digest=digest or digest_of(on_disk),
        lines=[(number, line, by_line.get(number, [])) for number, line in enumerate(said.split("\n"), 1)],
        n_wrong=len(wrong),
        trouble=trouble,
        spec=spec,
        refused=refused,
        is_saved=said == on_disk,
    )


def read(desk: Desk, file: str, text: str) -> tuple[Spec | None, list[tuple[int, str]], str]:
    """Return a spec; or its mistakes with their lines; or why it is not read at all."""
    try:
        return desk.spec(file, text), [], ""
    except SpecError as found:
        return (
            None,
            [
                (mistake.line, f"{mistake.path}: {mistake.message}" if mistake.path else mistake.message)
                for mistake in found.mistakes
            ],
            "",
        )
    except CongenialError as error:
        return None, [], str(error)


def routes(desk: Desk) -> list[Route]:
    """Return the routes of specs."""

    async def show(request: Request) -> Response:
        file = request.query_params.get("file", "")
        return await computed(desk, lambda: spec_page(desk, file))

    async def save(request: Request) -> Response:
        form = await request.form()
        file, text, digest = (str(form.get(name, "")) for name in ("file", "text", "digest"))
        before = desk.spec_text(file)
        # Browsers send line ends as CR LF, whatever the file has.
        text = text.replace("\r\n", "\n")
        if "\r\n" in before:
            text = text.replace("\n", "\r\n")
        if form.get("only") == "check":
            return await computed(desk, lambda: spec_page(desk, file, text, digest=digest))
        try:
            desk.save(file, text, digest)
        except CongenialError as error:
            refused = str(error)
            return await computed(desk, lambda: spec_page(desk, file, text, digest=digest, refused=refused))
        return RedirectResponse(f"spec?{urlencode({'file': file})}", 303)

    return [Route("/spec", in_words(show), methods=["GET"]), Route("/spec", in_words(save), methods=["POST"])]
