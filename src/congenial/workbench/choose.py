"""Choose what is exact: the grid, and beside it what the choice does, as soon as it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from congenial.bundle.expected_error import NO_ERROR
from congenial.curator.section import no_proven_intervals
from congenial.errors import CongenialError, SpecError
from congenial.noise import FAMILIES
from congenial.patience import give_way
from congenial.spec.spec import Spec
from congenial.workbench.asked import Asked, budget_of
from congenial.workbench.choice import CURRENCIES, DELTA, changed
from congenial.workbench.choose_tree import TreeChooser
from congenial.workbench.desk import Desk, digest_of, forget_some
from congenial.workbench.grid import Grid
from congenial.workbench.pages import figure, render
from congenial.workbench.panel import Panel, over_areas, panel, planned, price
from congenial.workbench.picture import Bar, error_bars
from congenial.workbench.work import AHEAD

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
