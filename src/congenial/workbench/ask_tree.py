"""Ask the bundle of a tree: what was released of units, and estimates of them with intervals."""

import shlex
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from warnings import catch_warnings, simplefilter

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.bundle.loading import Bundle
from congenial.bundle.verifying import Verified
from congenial.errors import InferenceError
from congenial.inference.intervals import Estimate, PoorDrawsWarning
from congenial.inference.question import parse_query
from congenial.inference.tree.estimate import TreeEstimate
from congenial.randomness import replay_rng
from congenial.workbench.answering import SEED
from congenial.workbench.desk import Desk
from congenial.workbench.opened import Opened
from congenial.workbench.picture import intervals
from congenial.workbench.serving import in_words
from congenial.workbench.work import Job

_MOST_UNITS = 100
_MOST_CODES = 500
_SECONDS_A_LEAF = 0.003  # measured: about 3 CPU milliseconds a block


@dataclass(frozen=True)
class UnitsAsked:
    """What is asked of units: which, less which others, what of them, and the level of the interval."""

    units: str = ""
    minus: str = ""
    query: str = "all"
    level: str = "0.9"

    @classmethod
    def of(cls, said: Any) -> "UnitsAsked":
        """Read the fields of a form or an address."""
        names = {"units": "", "minus": "", "query": "all", "level": "0.9"}
        return cls(**{name: str(said.get(name) or usual).strip() for name, usual in names.items()})

    def checked(self, bundle: Bundle) -> "UnitsAsked":
        """Return it, or refuse what cannot be answered before anything is drawn."""
        if not self.units:
            raise InferenceError("name a unit by its code, or several with commas between them")
        if len(_codes(self.units)) + len(_codes(self.minus)) > _MOST_CODES:
            raise InferenceError(f"name up to {_MOST_CODES} units here; from Python there can be any number")
        tree = bundle.tree
        for code in [*_codes(self.units), *_codes(self.minus)]:
            if tree is not None and not any(tree.found(level, code).size for level in range(len(tree.levels))):
                raise InferenceError(f"{code!r} is no unit of the tree; the levels below list their codes")
        parse_query(self.query, bundle.law.schema)
        return self

    def answered(self, found: TreeEstimate) -> Estimate:
        """Return the estimate; the page says how good its draws are."""
        minus = _codes(self.minus) or None
        with catch_warnings():
            simplefilter("ignore", PoorDrawsWarning)
            return found.interval(_codes(self.units), self.query, float(self.level), minus=minus)


def _codes(text: str) -> list[str]:
    return [code.strip() for code in text.split(",") if code.strip()]


@dataclass
class Estimates:
    """Estimates of the trees that were asked, with what has to be said of them.

    The last one is kept, for it can be large.
    """

    opened: Opened
    _kept: dict[object, tuple[TreeEstimate, tuple[str, ...]]] = field(default_factory=dict)

    def known(self, name: str) -> tuple[TreeEstimate | None, tuple[str, ...]]:
        """Return the estimate of a bundle, if it was made and its files have stayed."""
        return self._kept.get(self.opened.key(name), (None, ()))

    def make(self, name: str, verified: Verified, job: Job) -> None:
        """Estimate every unit from a public seed, as `congenial estimate --seed 1` does."""
        if self.known(name)[0] is not None:
            return
        job.progress("estimating every unit")
        with catch_warnings(record=True) as heard:
            simplefilter("always")
            found = verified.bundle.estimate(rng=replay_rng(f"estimate {SEED}"), progress=job.progress)
        said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
        said += [f"THE PRIOR DOES NOT FIT: {check}" for check in found.draws.fit if check.is_bad]
        self._kept.clear()
        self._kept[self.opened.key(name)] = found, tuple(dict.fromkeys(said))


def routes(desk: Desk, opened: Opened, estimates: Estimates) -> list[Route]:
    """Return the routes of asking trees."""

    async def estimate(request: Request) -> Response:
        form = await request.form()
        name, asked = str(form.get("bundle", "")), UnitsAsked.of(form)
        back = f"ask?{urlencode({'bundle': name, **vars(asked)})}"

        def run(job: Job) -> str:
            standing = opened.verified(name)
            if isinstance(standing, str):
                raise InferenceError(f"the bundle is not verified, so it is not asked: {standing}")
            if standing.bundle.tree is None:
                raise InferenceError("the bundle has no tree of areas; ask it as one table or a list of areas")
            asked.checked(standing.bundle)
            estimates.make(name, standing, job)
            return back

        return RedirectResponse(f"working?job={desk.start('Estimating the units of a tree', run)}", 303)

    return [Route("/ask-estimate", in_words(estimate), methods=["POST"])]


def shown(verified: Verified, name: str, said: Any, estimates: Estimates) -> dict[str, Any]:
    """Return what the page of a tree shows: units of a level, and the answer if the tree was estimated."""
    bundle, tree = verified.bundle, verified.bundle.tree
    if tree is None:
        return {"is_tree": False}
    level = str(said.get("show") or (tree.levels[1] if len(tree.levels) > 1 else tree.levels[0]))
    within, asked = str(said.get("within") or ""), UnitsAsked.of(said)
    codes, tables = bundle.level(level)
    chosen = [place for place, code in enumerate(codes) if code.startswith(within)]
    schema = bundle.law.schema
    known, warnings = estimates.known(name)
    answer = asked.checked(bundle).answered(known) if known is not None and asked.units else None
    row = () if answer is None else ((answer.query, answer.low, answer.centre, answer.high, answer.released),)
    return {
        "is_tree": True,
        "tree_levels": [(one, f"{len(own):,}") for one, own in zip(tree.levels, tree.codes, strict=True)],
        "show": level,
        "within": within,
        "n_units": len(chosen),
        "cells": [schema.cell_name(cell) for cell in range(schema.n_cells)],
        "units": [
            (codes[place], f"{int(tables[place].sum()):,}", [f"{n:,}" for n in tables[place].tolist()])
            for place in chosen[:_MOST_UNITS]
        ],
        "asked": asked,
        "poor": warnings,
        "answer": answer,
        "tree_picture": intervals(row) if row and answer is not None and not answer.is_exact else None,
        "minutes": max(1, round(tree.n_leaves * _SECONDS_A_LEAF / 60)),
        "is_estimated": known is not None,
        "tree_command": shlex.join(
            ["congenial", "estimate", name.removeprefix("opened:"), "--out", "estimates", "--seed", str(SEED)]
        ),
    }
