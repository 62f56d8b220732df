"""The pages that choose what is exact: the table to pick from, and beside it what the draft does."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from congenial.bundle.expected_errors import NO_ERROR
from congenial.bundle.report_and_readme import MOST_NUMBERS
from congenial.curator.alternatives_and_target_error import WHEN_WHICH
from congenial.curator.preview_text import exactness_of_tree
from congenial.curator.sections import Section
from congenial.display import figure
from congenial.errors import CongenialError, SpecError
from congenial.noise import FAMILIES
from congenial.pages.svg_charts import Bar
from congenial.privacy.certificate_inputs import METHODS
from congenial.privacy.tree_loss import default_shares
from congenial.spec.spec_and_hierarchy import Spec
from congenial.workbench.endpoints_and_templates import Endpoint, computed, in_json, in_words, json_of, page, render
from congenial.workbench.jobs_and_errors import AHEAD, AT_ONCE, SOON
from congenial.workbench.measured_drafts import how_it_is_made
from congenial.workbench.panel_and_design import (
    Crosstab,
    Design,
    Panel,
    TreeDesign,
    design_in,
    level_bars,
    picture_of,
    sums_over_areas,
)
from congenial.workbench.spec_and_describe_pages import spec_page
from congenial.workbench.spec_edit import CURRENCIES, DELTA, PanelRequest, budget_of, changed
from congenial.workbench.workload_panel import WorkloadDesign, WorkloadPanel, later_json
from congenial.workbench.workload_panel import panel_json as workload_json
from congenial.workbench.workspace import Workspace, digest_of, evict

_MOST_PANELS, _FEWEST_PANELS, _NUMBERS_KEPT = 64, 16, 48_000_000  # panels in memory: fewer of large trees
_FURTHER = 1  # positions of the budget's slider that are computed ahead, to either side
_MOST_HEADERS = 6
_AT_MOST = 0.01  # seconds that a person waits for a proof, before seeing what is known without it
_REFUSED = "This cannot be released"


@dataclass
class Chooser:
    """Answers pages that choose; caches what it computed, and computes ahead what may be requested next."""

    workspace: Workspace
    _panels: dict[object, Panel | WorkloadPanel] = field(default_factory=dict)
    _latest: tuple[str, ...] | None = None

    def design(self, file: str, draft: str) -> Design:
        """Return a draft with its data, of areas or of a tree."""
        design = design_in(self.workspace, self.workspace.spec(file, draft), file)
        if isinstance(design, WorkloadDesign):
            raise CongenialError("of several tables of the same records this is known at once, with their page")
        return design

    def table_panel(self, request: PanelRequest) -> Panel:
        """Return what a draft of areas or of a tree does."""
        self.design(request.file, request.draft)  # or refused
        panel = self.panel(request)
        assert isinstance(panel, Panel)  # noqa: S101
        return panel

    def panel(self, request: PanelRequest, seconds: float | None = None) -> Panel | WorkloadPanel:
        """Return what a draft does, in the computing thread; with a limit, what is known within it."""
        spec = self.workspace.spec(request.file, request.draft)
        key = (request.key, self.workspace.data_key(spec, request.file))
        panel = self._panels.get(key)
        if panel is None:
            design = design_in(self.workspace, spec, request.file)
            if isinstance(design, WorkloadDesign):
                panel = design.panel()
            else:
                panel = design.panel(Crosstab.of(spec.schema, request.down, request.across), seconds=seconds)
        if not panel.is_bound:
            evict(self._panels, min(_MOST_PANELS, max(_FEWEST_PANELS, _NUMBERS_KEPT // panel.n_numbers)))
            self._panels[key] = panel
        return panel

    def answer(self, request: PanelRequest, *, is_whole: bool) -> dict[str, Any]:
        """Return what a page shows of a draft, or what is wrong with it; at once, or when all is proven."""
        self._latest = request.key
        try:
            panel = self.panel(request, None if is_whole else _AT_MOST)
        except SpecError as refused:
            lines = [(mistake.line, str(mistake)) for mistake in refused.mistakes]
            return {"ok": False, "html": render("trouble.html", title=_REFUSED, lines=lines)}
        except CongenialError as refused:
            return {"ok": False, "html": render("trouble.html", title=_REFUSED, lines=[(0, str(refused))])}
        if isinstance(panel, WorkloadPanel):
            return {"ok": True, **workload_json(panel, request.draft)}
        if not panel.is_bound:
            self._compute_ahead(request, panel)
        return {"ok": True, **panel_json(panel, request.draft)}

    def cost(self, request: PanelRequest, number: int) -> dict[str, Any]:
        """Return what one invariant less, or one more, would do: the one of that number."""
        panel = self.table_panel(request)
        options = alternatives(panel.spec, panel.crosstab)
        if number >= len(options):
            return {"is_over": True}
        title, change = options[number]
        try:
            other = self.workspace.spec(request.file, changed(request.draft, [change]))
            prices = self.design(request.file, request.draft).price(other, panel)
            if prices is None:
                return {"is_over": True}
            noise, error = prices
        except CongenialError:
            noise, error = None, None
        no_error = "no table" if panel.plan.law.is_measured else "by draws"
        row = {
            "text": title,
            "noise": "not certified" if noise is None else figure(noise),
            "error": no_error if error is None and noise is not None else figure(error),
            "change": change,
            "is_less": "remove" in change,
            "than": _relative_change(error, panel.error),
        }
        return {"is_over": False, "row": row, "of": len(options)}

    def level_errors(self, request: PanelRequest) -> dict[str, Any]:
        """Return the errors to expect at each level of a tree, from draws around a made-up population.

        Those of a measured tree are known without draws, and on the page already: then what each exact number costs.
        Of several tables of the same records: what each exact number buys, and other designs.
        """
        if isinstance(tables := self.panel(request), WorkloadPanel):
            latest = self._latest
            if latest is not None and latest[0] == request.file and latest != request.key:
                return {"html": "", "error": ""}  # something else was chosen, and nobody waits for this
            return later_json(tables)
        panel = self.table_panel(request)
        design = self.design(request.file, request.draft)
        if isinstance(design, TreeDesign) and panel.population is not None and panel.plan.law.is_measured:
            section = exactness_of_tree(replace(panel.population, alternatives=design.alternatives(panel)))
            section = section or Section("What exactness costs", ["Nothing is exact."])
            return {"html": render("level_errors.html", section=section), "error": figure(panel.error)}
        population = panel.drawn_errors
        if population is None:
            html = render("level_errors.html", section=None, n_numbers=panel.n_numbers, most=MOST_NUMBERS, rows=())
            return {"html": html, "error": ""}
        _, rows = population.lines
        picture = picture_of(level_bars(population))
        html = render("level_errors.html", section=None, picture=picture, rows=rows, around=population.around)
        return {"html": html, "error": rows[-1][4]}

    def sampler(self, request: PanelRequest) -> dict[str, Any]:
        """Return how a draft would be drawn: to find a sampler's order takes as long as all that is shown first."""
        panel = self.table_panel(request)
        seconds = _duration(panel.seconds)
        if panel.plan.law.is_measured:
            return {"html": render("measured_sampler.html", seconds=seconds, **how_it_is_made(panel.plan))}
        return {"html": render("sampler.html", plan=panel.plan, seconds=seconds)}

    def over_areas(self, request: PanelRequest) -> dict[str, Any]:
        """Return what sums over all areas are off by."""
        panel = self.table_panel(request)
        sums, warnings = sums_over_areas(panel.plan)
        if not sums:
            return {"html": ""}
        bars: list[Bar] = [
            (sum_.text, sum_.size_of_all, sum_.size_of_all, sum_.bias_of_all)
            for sum_ in [sum_ for sum_ in sums if sum_.n_cells > 1] or sums
            if sum_.size_of_all > NO_ERROR
        ]
        picture = picture_of(sorted(bars, key=lambda bar: -bar[2])[:6])
        facts = {"n": panel.levels[0].n_units, "is_measured": panel.plan.law.is_measured}
        return {"html": render("over_areas.html", picture=picture, warnings=warnings, **facts)}

    def _compute_ahead(self, request: PanelRequest, panel: Panel) -> None:
        """Plan what may be requested next, when nobody waits: what is proven once is not proven again."""
        for change in likely_changes(panel):
            self.workspace.worker.submit(lambda change=change: self._plan_ahead(request, change), AHEAD)  # type: ignore[misc]

    def _plan_ahead(self, request: PanelRequest, change: Mapping[str, Any]) -> None:
        if self._latest != request.key:
            return
        try:
            self.design(request.file, changed(request.draft, [change])).prove()
        except CongenialError:
            return


def likely_changes(panel: Panel) -> list[dict[str, Any]]:
    """Return changes that a curator may make next: the budget a little, each invariant gone, each header's sum.

    Of several levels there are none: their certificate is a formula, with nothing to prove ahead.
    """
    spec = panel.spec
    if len(panel.levels) > 1:
        return []
    changes: list[dict[str, Any]] = []
    currency, amount = budget_of(spec)
    if amount is not None:
        stops = list(CURRENCIES[currency])
        here = min(range(len(stops)), key=lambda place: abs(float(stops[place]) - float(amount)))
        near = [here + step for by in range(1, _FURTHER + 1) for step in (by, -by)]
        changes += [{"budget": budget(currency, stops[place])} for place in near if 0 <= place < len(stops)]
    changes += [{"remove": place} for place in range(len(spec.invariants))]
    keys = [key for key in panel.crosstab.places if key == (None, None) or None in key]
    return [*changes, *({"add": {"total": panel.crosstab.where(key) or "all"}} for key in keys[:_MOST_HEADERS])]


def alternatives(spec: Spec, crosstab: Crosstab) -> list[tuple[str, dict[str, Any]]]:
    """Return what could be left out or added, in words, with the change: every invariant; total, margins, groups."""
    stated = [invariant.condition.title for invariant in spec.invariants]
    less: list[tuple[str, dict[str, Any]]] = [(f"without {title}", {"remove": n}) for n, title in enumerate(stated)]
    names = [name for name in (crosstab.across, crosstab.down) if name is not None]
    groups = [(levels.name, group) for levels in spec.dimensions for group in levels.groups]
    more: list[tuple[str, str, dict[str, Any]]] = [("total", "with the total", {"total": "all"})]
    more += [(f"margin of {name}", f"with every number by {name}", {"margin": [name]}) for name in names]
    more += [(group, f"with {group}", {"total": {name: [group]}}) for name, group in groups[:4]]
    return less + [(text, {"add": entry}) for title, text, entry in more if title not in stated]


def budget(currency: str, amount: str) -> dict[str, str]:
    """Return a budget as a spec has it."""
    if currency == "rho":
        return {"rho": amount}
    return {"epsilon": amount} if currency == "epsilon" else {"epsilon": amount, "delta": DELTA}


def panel_json(panel: Panel, draft: str) -> dict[str, Any]:
    """Return what a page shows of a draft, as plain values and pieces of HTML."""
    plan, spec = panel.plan, panel.spec
    currency, amount = budget_of(spec)
    return {
        "digest": digest_of(draft),
        "text": draft,
        "is_bound": panel.is_bound,
        "noise": figure(panel.noise),
        "error": figure(panel.error),
        "cost": plan.budget.amount if panel.is_bound and plan.budget else plan.spent.text,
        "currency": currency,
        "amount": amount,
        "noise_family": spec.noise,
        "method": spec.method,
        "shares": {level.name: level.share for level in panel.levels if level.share},
        "weights": dict(tree_levels(spec)),
        "grid": cell_states(panel),
        "invariants": render("invariants.html", stated=spec.invariants, conditions=spec.conditions),
        "html": render(
            "panel.html",
            panel=panel,
            levels=[(level, f"{level.n_units:,}", figure(level.noise)) for level in panel.levels],
            certificate=None if panel.is_bound else plan.certificate,
            noise_text=panel.plan.noise_text,
            is_measured=panel.plan.law.is_measured,
            picture=picture_of(panel.bars(), panel.measurement_bars()),
            measurements_picture=picture_of(panel.measurement_bars(), panel.bars()),
            why_no_table=panel.why_no_table,
        ),
    }


def tree_levels(spec: Spec) -> list[tuple[str, str]]:
    """Return the levels of a tree, and what each gets of the budget, to change: as stated, or in hundredths."""
    tree = spec.hierarchy
    if tree is None:
        return []
    if tree.shares is not None:
        return [(name, str(tree.shares[name])) for name in tree.names]
    shares = default_shares(len(tree.names))
    return [(name, f"{100 * float(share):.3g}") for name, share in zip(tree.names, shares, strict=True)]


def cell_states(panel: Panel) -> dict[str, dict[str, Any]]:
    """Return what the layout says of every sum: its error, whether it is exact or disclosed, and to which level."""
    states = {}
    known = set(np.flatnonzero(panel.is_known).tolist())
    lowest = panel.exact_at()
    for (i, j), place in panel.crosstab.places.items():
        cells = panel.crosstab.cells_of((i, j))
        size = None if panel.errors is None else float(panel.errors.size[place])
        level = lowest.get((i, j), "")
        states[f"{'' if i is None else i}.{'' if j is None else j}"] = {
            "error": figure(size),
            "exact": bool(level) or (size is not None and size <= NO_ERROR),
            "known": bool(cells) and set(cells) <= known,
            "text": f"every {level}" if level and len(panel.levels) > 1 else "",
        }
    return states


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{max(1, round(1e3 * seconds, -1 if seconds > 0.02 else 0)):,.0f} ms"
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} minutes"


def _relative_change(error: float | None, now: float | None) -> str:
    """Say how an error compares with the one of the present draft."""
    if error is None or not now:
        return ""
    change = error / now - 1
    return "the same" if abs(change) < 0.005 else f"{change:+.0%}"


def routes(workspace: Workspace) -> list[Route]:
    """Return the routes of choosing."""
    chooser = Chooser(workspace)

    async def choose(request: Request) -> Response:
        file = request.query_params.get("file", "")
        text = workspace.spec_text(file)
        try:
            spec = await computed(workspace, lambda: workspace.spec(file, text))
        except SpecError:  # its page shows what is wrong, at the lines
            return spec_page(workspace, file)
        crosstab = None
        if spec.tables is None:
            crosstab = Crosstab.of(spec.schema, request.query_params.get("down"), request.query_params.get("across"))
        currency, amount = budget_of(spec)
        levels = tree_levels(spec)
        return page(
            "choose.html",
            title=f"Choose: {file}",
            here="choose",
            file=file,
            spec=spec,
            grid=crosstab,
            digest=digest_of(text),
            text=text,
            stops=json.dumps(CURRENCIES),
            delta=DELTA,
            currencies=list(CURRENCIES),  # a chain has no pure epsilon, and says so: the method can be changed here
            currency=currency,
            amount=amount,
            methods=METHODS,
            when_which=WHEN_WHICH,
            families=[(name, family.title) for name, family in FAMILIES.items() if family.is_for_release],
            groups=[
                (dimension.name, group, list(labels))
                for dimension in spec.dimensions
                for group, labels in dimension.groups.items()
                if crosstab is not None and dimension.name in {crosstab.down, crosstab.across}
            ],
            levels=[name for name, _ in levels],
            shares=levels if spec.budget is not None else [],
            stated=spec.invariants,
            conditions=spec.conditions,
        )

    async def answer(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        query, is_whole = PanelRequest.of(workspace, message), bool(message.get("is_whole"))
        urgency = SOON if is_whole else AT_ONCE
        return await computed(workspace, lambda: chooser.answer(query, is_whole=is_whole), urgency)

    async def cost(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        query, number = PanelRequest.of(workspace, message), int(message.get("number", 0))
        return await computed(workspace, lambda: chooser.cost(query, number), SOON)

    def deferred(part: Callable[[PanelRequest], dict[str, Any]]) -> Endpoint:
        """Return an endpoint for what takes longer than the panel."""

        async def answer_later(request: Request) -> dict[str, Any]:
            query = PanelRequest.of(workspace, await json_of(request))
            return await computed(workspace, lambda: part(query), SOON)

        return in_json(answer_later)

    async def save(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        query = PanelRequest.of(workspace, message)
        await computed(workspace, lambda: workspace.spec(query.file, query.draft))  # mistakes are not written from here
        workspace.save(query.file, query.draft, str(message.get("digest", "")))
        return {"digest": digest_of(query.draft)}

    return [
        Route("/choose", in_words(choose)),
        Route("/choose/panel", in_json(answer), methods=["POST"]),
        Route("/choose/cost", in_json(cost), methods=["POST"]),
        Route("/choose/save", in_json(save), methods=["POST"]),
        Route("/choose/areas", deferred(chooser.over_areas), methods=["POST"]),
        Route("/choose/levels", deferred(chooser.level_errors), methods=["POST"]),
        Route("/choose/sampler", deferred(chooser.sampler), methods=["POST"]),
    ]
