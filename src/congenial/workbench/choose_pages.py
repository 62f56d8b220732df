"""The pages and answers of choosing."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from congenial.errors import SpecError
from congenial.noise import FAMILIES
from congenial.workbench.asked import Asked, budget_of
from congenial.workbench.choice import CURRENCIES, DELTA
from congenial.workbench.choose import Chooser
from congenial.workbench.choose_tree import TREE_CURRENCIES, shares_of
from congenial.workbench.desk import Desk, digest_of
from congenial.workbench.grid import Grid
from congenial.workbench.pages import Markup, render
from congenial.workbench.serving import computed, in_json, in_words, json_of, page
from congenial.workbench.spec_pages import spec_page
from congenial.workbench.work import AT_ONCE, SOON


def routes(desk: Desk) -> list[Route]:
    """Return the routes of choosing."""
    chooser = Chooser(desk)

    async def choose(request: Request) -> Response:
        file = request.query_params.get("file", "")
        text = desk.spec_text(file)
        try:
            spec = await computed(desk, lambda: desk.spec(file, text))
        except SpecError:  # its page shows what is wrong, at the lines
            return spec_page(desk, file)
        grid = Grid.of(spec.schema, request.query_params.get("down"), request.query_params.get("across"))
        currency, amount = budget_of(spec)
        named = {grid.down, grid.across}
        return page(
            "choose.html",
            title=f"Choose: {file}",
            here="choose",
            file=file,
            spec=spec,
            grid=grid,
            digest=digest_of(text),
            text=text,
            stops=json.dumps(CURRENCIES),
            delta=DELTA,
            currencies=list(CURRENCIES) if spec.hierarchy is None else list(TREE_CURRENCIES),
            currency=currency,
            amount=amount,
            families=[(name, own.title) for name, own in FAMILIES.items() if own.is_for_release],
            groups=[
                (own.name, group, list(labels))
                for own in spec.dimensions
                for group, labels in own.groups.items()
                if own.name in named
            ],
            levels=[] if spec.hierarchy is None else list(spec.hierarchy.names),
            shares=[] if spec.hierarchy is None or spec.budget is None else shares_of(spec.hierarchy),
            invariants=Markup(render("invariants.html", stated=spec.invariants, conditions=spec.conditions)),
        )

    async def answer(request: Request) -> dict[str, Any]:
        said = await json_of(request)
        asked = Asked.of(desk, said)
        is_whole = bool(said.get("is_whole"))
        return await computed(desk, lambda: chooser.answer(asked, is_whole=is_whole), SOON if is_whole else AT_ONCE)

    async def cost(request: Request) -> dict[str, Any]:
        said = await json_of(request)
        asked, number = Asked.of(desk, said), int(said.get("number", 0))
        return await computed(desk, lambda: chooser.cost(asked, number), SOON)

    async def areas(request: Request) -> dict[str, Any]:
        asked = Asked.of(desk, await json_of(request))
        return await computed(desk, lambda: chooser.adding_up(asked), SOON)

    async def drawn(request: Request) -> dict[str, Any]:
        asked = Asked.of(desk, await json_of(request))
        return await computed(desk, lambda: chooser.drawn(asked), SOON)

    async def levels(request: Request) -> dict[str, Any]:
        asked = Asked.of(desk, await json_of(request))
        return await computed(desk, lambda: chooser.levels(asked), SOON)

    async def save(request: Request) -> dict[str, Any]:
        said = await json_of(request)
        asked = Asked.of(desk, said)
        await computed(desk, lambda: desk.spec(asked.file, asked.text))  # a spec with mistakes is not written from here
        desk.save(asked.file, asked.text, str(said.get("digest", "")))
        return {"digest": digest_of(asked.text)}

    return [
        Route("/choose", in_words(choose)),
        Route("/choose/panel", in_json(answer), methods=["POST"]),
        Route("/choose/cost", in_json(cost), methods=["POST"]),
        Route("/choose/areas", in_json(areas), methods=["POST"]),
        Route("/choose/levels", in_json(levels), methods=["POST"]),
        Route("/choose/drawn", in_json(drawn), methods=["POST"]),
        Route("/choose/save", in_json(save), methods=["POST"]),
    ]
