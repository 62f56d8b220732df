"""Choose what is exact: the grid, and beside it what the choice does, as soon as it is made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from congenial.bundle.expected_errors import NO_ERROR
from congenial.bundle.report import MOST_NUMBERS
from congenial.curator.preview_text import no_proven_intervals, screen
from congenial.display import figure
from congenial.errors import CongenialError, SpecError
from congenial.noise import FAMILIES
from congenial.pages.svg import Bar, error_bars
from congenial.privacy.tree import default_shares
from congenial.progress import give_way
from congenial.spec.spec import Spec, TreeFile
from congenial.workbench.desk import AHEAD, AT_ONCE, SOON, Desk, digest_of, forget_some
from congenial.workbench.grid import Grid
from congenial.workbench.panel import Panel, TreePanel, over_areas, panel, planned, price
from congenial.workbench.spec_edit import CURRENCIES, DELTA, Asked, budget_of, changed
from congenial.workbench.spec_pages import spec_page
from congenial.workbench.web import Markup, computed, in_json, in_words, json_of, page, render

# Choose what is exact in a tree of areas, and what each level gets of the budget.

_MAX_TREE_PANELS = 16
TREE_CURRENCIES = ("rho", "epsilon and delta")
"""Below the top, conditioning can double a pure epsilon at every level: it is refused."""


@dataclass
class TreeChooser:
    """Answers pages that choose for trees; remembers what it computed."""

    desk: Desk
    _panels: dict[object, TreePanel] = field(default_factory=dict)

    def panel(self, spec: Spec, asked: Asked) -> TreePanel:
        """Return what a choice does, in the computing thread."""
        key = (asked.key, self.desk.data_key(spec, asked.file))
        if key not in self._panels:
            forget_some(self._panels, _MAX_TREE_PANELS)
            leaves = self.desk.leaves(spec, asked.file)
            self._panels[key] = TreePanel.of(spec, leaves, Grid.of(spec.schema, asked.down, asked.across))
        return self._panels[key]

    def shown(self, spec: Spec, asked: Asked) -> dict[str, Any]:
        """Return what a page shows of a choice at once, as plain values and pieces of HTML."""
        found = self.panel(spec, asked)
        currency, amount = budget_of(spec)
        return {
            "digest": digest_of(asked.text),
            "text": asked.text,
            "is_bound": False,
            "noise": figure(found.noise[-1]),
            "error": "",
            "cost": found.plan.spent.text,
            "currency": currency,
            "amount": amount,
            "noise_family": spec.noise,
            "shares": found.shares,
            "weights": {} if spec.hierarchy is None else dict(shares_of(spec.hierarchy)),
            "grid": _cells(found),
            "invariants": render("invariants.html", stated=spec.invariants, conditions=spec.conditions),
            "html": render(
                "tree_panel.html",
                found=found,
                levels=zip(found.levels, _units(found), found.shares.values(), map(figure, found.noise), strict=False),
                sections=screen(found.preview),
                certificate=found.plan.certificate,
            ),
        }

    def levels(self, spec: Spec, asked: Asked) -> dict[str, Any]:
        """Return the errors to expect at each level, from draws around a made-up population."""
        found = self.panel(spec, asked)
        if not found.has_errors:
            html = render("tree_levels.html", found=found, picture="", rows=(), header=(), most=MOST_NUMBERS)
            return {"html": html, "error": ""}
        header, rows = found.preview.lines
        html = render("tree_levels.html", found=found, picture=found.picture(), rows=rows, header=header)
        return {"html": html, "error": rows[-1][4]}


def shares_of(given: TreeFile) -> list[tuple[str, str]]:
    """Return what each level gets of the budget, as numbers to change: as the spec says, or in hundredths."""
    if given.shares is not None:
        return [(name, str(given.shares[name])) for name in given.names]
    usual = default_shares(len(given.names))
    return [(name, f"{100 * float(share):.3g}") for name, share in zip(given.names, usual, strict=True)]


def _units(found: TreePanel) -> list[str]:
    return [f"{n_units:,}" for n_units in found.plan.law.tree.n_units]


def _cells(found: TreePanel) -> dict[str, dict[str, Any]]:
    """Return what the grid says of every sum: the lowest level at which it is exact."""
    exact = found.exact_at()
    out = {}
    for i, j in found.grid.places:
        level = exact.get((i, j))
        name = f"{'' if i is None else i}.{'' if j is None else j}"
        out[name] = {
            "error": "",
            "exact": level is not None,
            "known": False,
            "text": "" if level is None else f"every {level}",
        }
    return out


_MOST_KEPT = 64
_FURTHER = 1  # positions of the budget's slider that are computed ahead, to either side
_MOST_HEADERS = 6
_AT_MOST = 0.01  # seconds that a person waits for a proof, before seeing what is known without it
_WIDER = 1.25  # the picture's scale leaves that much room, so that a small change does not move it


@dataclass
class Chooser:
    """Answers pages that choose; remembers what it computed, and computes ahead what may be asked next."""

    desk: Desk
    trees: TreeChooser = field(init=False)
    _panels: dict[object, Panel] = field(default_factory=dict)
    _latest: object = None

    def __post_init__(self) -> None:
        self.trees = TreeChooser(self.desk)

    def panel(self, asked: Asked, seconds: float | None = None) -> Panel:
        """Return what a choice does, in the computing thread; with a limit, what is known within it."""
        spec = self.desk.spec(asked.file, asked.text)
        tables = self.desk.tables(spec, asked.file)
        key = (asked.key, self.desk.data_key(spec, asked.file))
        found = self._panels.get(key) or panel(
            spec, tables, Grid.of(spec.schema, asked.down, asked.across), seconds=seconds
        )
        if not found.is_bound:
            forget_some(self._panels, _MOST_KEPT)
            self._panels[key] = found
        return found

    def answer(self, asked: Asked, *, is_whole: bool) -> dict[str, Any]:
        """Return what a page shows of a choice, or what is wrong with it; at once, or when all is proven."""
        self._latest = asked.key
        try:
            spec = self.desk.spec(asked.file, asked.text)
            if spec.hierarchy is not None:
                return {"ok": True, **self.trees.shown(spec, asked)}
            found = self.panel(asked, None if is_whole else _AT_MOST)
        except SpecError as refused:
            lines = [(mistake.line, str(mistake)) for mistake in refused.mistakes]
            return {"ok": False, "html": render("trouble.html", title="This cannot be released", lines=lines)}
        except CongenialError as refused:
            return {
                "ok": False,
                "html": render("trouble.html", title="This cannot be released", lines=[(0, str(refused))]),
            }
        if not found.is_bound:
            self._think_ahead(asked, found)
        return {"ok": True, **shown(found, asked)}

    def cost(self, asked: Asked, number: int) -> dict[str, Any]:
        """Return what one invariant less, or one more, would do: the so-manieth of them."""
        found = self.panel(asked)
        options = alternatives(found.spec, found.grid)
        if number >= len(options):
            return {"is_over": True}
        what, change = options[number]
        try:
            other = self.desk.spec(asked.file, changed(asked.text, [change]))
            tables = self.desk.tables(found.spec, asked.file)
            noise, error = price(other, tables, found.area, found.centre)
        except CongenialError:
            noise, error = None, None
        row = {
            "text": what,
            "noise": figure(noise),
            "error": "by draws" if error is None and noise is not None else figure(error),
            "change": change,
            "is_less": "remove" in change,
        }
        if noise is None:
            row["noise"] = "not certified"
        row["than"] = _than(error, found.error)
        return {"is_over": False, "row": row, "of": len(options)}

    def levels(self, asked: Asked) -> dict[str, Any]:
        """Return the errors to expect at each level of a tree."""
        return self.trees.levels(self.desk.spec(asked.file, asked.text), asked)

    def drawn(self, asked: Asked) -> dict[str, Any]:
        """Return how a choice would be drawn: to find a sampler's order takes as long as all that is shown first."""
        found = self.panel(asked)
        return {"html": render("drawn.html", plan=found.plan, seconds=_time(found.seconds))}

    def adding_up(self, asked: Asked) -> dict[str, Any]:
        """Return what sums over all areas are off by."""
        found = self.panel(asked)
        sums = over_areas(found.plan)
        if sums is None:
            return {"html": ""}
        levels = [one for one in sums.sums if one.n_cells > 1] or list(sums.sums)
        bars: list[Bar] = [
            (one.text, one.size_of_all, one.size_of_all, one.bias_of_all)
            for one in levels
            if one.size_of_all > NO_ERROR
        ]
        bars = sorted(bars, key=lambda bar: -bar[2])[:6]
        largest = _WIDER * max((bar[2] for bar in bars), default=1.0)
        picture = error_bars(bars, largest)
        areas = found.plan.law.areas
        return {
            "html": render("over_areas.html", picture=picture, warnings=sums.warnings, n=len(areas), name=areas.name)
        }

    def _think_ahead(self, asked: Asked, found: Panel) -> None:
        """Plan what may be asked next, when nobody waits: what is proven once is not proven again."""
        for change in ahead(found):
            self.desk.work.do(lambda change=change: self._plan_ahead(asked, change), AHEAD)  # type: ignore[misc]

    def _plan_ahead(self, asked: Asked, change: Mapping[str, Any]) -> None:
        if self._latest != asked.key:
            return
        try:
            spec = self.desk.spec(asked.file, changed(asked.text, [change]))
            give_way()
            _ = planned(spec, self.desk.tables(spec, asked.file)).certificate
        except CongenialError:
            return


def ahead(found: Panel) -> list[dict[str, Any]]:
    """Return changes that a curator may make next: the budget a little, each invariant gone, each sum of the grid."""
    spec = found.spec
    options: list[dict[str, Any]] = []
    currency, amount = budget_of(spec)
    if amount is not None:
        stops = list(CURRENCIES[currency])
        here = min(range(len(stops)), key=lambda place: abs(float(stops[place]) - float(amount)))
        near = [here + step for by in range(1, _FURTHER + 1) for step in (by, -by)]
        options += [{"budget": budget(currency, stops[place])} for place in near if 0 <= place < len(stops)]
    options += [{"remove": place} for place in range(len(spec.invariants))]
    keys = [key for key in found.grid.places if key == (None, None) or None in key]
    return [*options, *({"add": {"total": found.grid.where(key) or "all"}} for key in keys[:_MOST_HEADERS])]


def alternatives(spec: Spec, grid: Grid) -> list[tuple[str, dict[str, Any]]]:
    """Return what could be left out or added, in words, with the change: every invariant; total, margins, groups."""
    less = [(f"without {stated.condition.title}", {"remove": place}) for place, stated in enumerate(spec.invariants)]
    more: list[tuple[str, dict[str, Any]]] = [("with the total", {"add": {"total": "all"}})]
    names = [name for name in (grid.across, grid.down) if name is not None]
    more += [(f"with every number by {name}", {"add": {"margin": [name]}}) for name in names]
    groups = [(levels.name, group) for levels in spec.dimensions for group in levels.groups]
    more += [(f"with {group}", {"add": {"total": {name: [group]}}}) for name, group in groups[:4]]
    stated = {stated.condition.title for stated in spec.invariants}
    said = {"with the total": "total", **{f"with {group}": group for _, group in groups}}
    said |= {f"with every number by {name}": f"margin of {name}" for name in names}
    return less + [one for one in more if said.get(one[0]) not in stated]


def budget(currency: str, amount: str) -> dict[str, str]:
    """Return a budget as a spec has it."""
    if currency == "rho":
        return {"rho": amount}
    return {"epsilon": amount} if currency == "epsilon" else {"epsilon": amount, "delta": DELTA}


def shown(found: Panel, asked: Asked) -> dict[str, Any]:
    """Return what a page shows of a choice, as plain values and pieces of HTML."""
    plan, spec = found.plan, found.spec
    bars = found.bars()
    largest = _WIDER * max((bar[2] for bar in bars), default=1.0)
    currency, amount = budget_of(spec)
    return {
        "digest": digest_of(asked.text),
        "text": asked.text,
        "is_bound": found.is_bound,
        "noise": figure(found.noise),
        "error": figure(found.error),
        "cost": plan.budget.amount if found.is_bound and plan.budget else plan.spent.text,
        "currency": currency,
        "amount": amount,
        "noise_family": spec.noise,
        "grid": cells(found),
        "invariants": render("invariants.html", stated=spec.invariants, conditions=spec.conditions),
        "html": render(
            "panel.html",
            found=found,
            plan=plan,
            certificate=None if found.is_bound else plan.certificate,
            picture=error_bars(bars, largest),
            family=FAMILIES[spec.noise].title,
            no_proven_intervals=no_proven_intervals(plan.law),
            not_protected=plan.not_protected_text,
            given_away=found.given_away,
        ),
    }


def cells(found: Panel) -> dict[str, dict[str, Any]]:
    """Return what the grid says of every sum: its error, and whether it is exact, stated or given away."""
    out = {}
    known = set(np.flatnonzero(found.is_known).tolist())
    for (i, j), place in found.grid.places.items():
        own = found.grid.cells_of((i, j))
        size = None if found.errors is None else float(found.errors.size[place])
        is_exact = size is not None and size <= NO_ERROR
        name = f"{'' if i is None else i}.{'' if j is None else j}"
        out[name] = {"error": figure(size), "exact": is_exact, "known": bool(own) and set(own) <= known}
    return out


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{max(1, round(1e3 * seconds, -1 if seconds > 0.02 else 0)):,.0f} ms"
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} minutes"


def _than(error: float | None, now: float | None) -> str:
    """Say how an error compares with the one of the present choice."""
    if error is None or not now:
        return ""
    change = error / now - 1
    return "the same" if abs(change) < 0.005 else f"{change:+.0%}"


# The pages and answers of choosing.


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
