"""Ask a bundle: whether it is what was published, then estimates with intervals, a picture, and the same command."""

import asyncio
import csv
import io
import json
import shlex
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from warnings import catch_warnings, simplefilter

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.bundle.recompute import VerifiedBundle
from congenial.bundle.table_files import formula_warnings
from congenial.bundle.verify import Verified
from congenial.errors import BundleError, InferenceError
from congenial.inference.answers import Answer, Replies
from congenial.inference.bundle import Bundle
from congenial.inference.intervals import Estimate, PoorDrawsWarning, number_text
from congenial.inference.questions import Vocabulary, parse_query
from congenial.inference.tree.estimate import TreeEstimate
from congenial.pages.svg import intervals
from congenial.randomness import replay_rng
from congenial.text import is_taken_for_a_formula
from congenial.workbench.bundles import DRAWS, LEVELS, SEED, Answering, Opened, Question, draw_together
from congenial.workbench.desk import Desk, Job, look_into
from congenial.workbench.web import computed, in_json, in_words, json_of, page, render

# Ask the bundle of a tree: what was released of units, and estimates of them with intervals.

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

    def checked(self, bundle: VerifiedBundle) -> "UnitsAsked":
        """Return it, or refuse what cannot be answered before anything is drawn."""
        if not self.units:
            raise InferenceError("name a unit by its code, or several with commas between them")
        if len(_codes(self.units)) + len(_codes(self.minus)) > _MOST_CODES:
            raise InferenceError(f"name up to {_MOST_CODES} units here; from Python there can be any number")
        tree = bundle.tree
        for code in [*_codes(self.units), *_codes(self.minus)]:
            if not any(tree.places_of_code(level, code).size for level in range(len(tree.levels))):
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
            found = Bundle.of(verified.bundle).estimate(rng=replay_rng(f"estimate {SEED}"), progress=job.progress)
        said = [str(one.message) for one in heard if issubclass(one.category, UserWarning)]
        said += [f"THE PRIOR DOES NOT FIT: {check}" for check in found.draws.fit if check.is_bad]
        self._kept.clear()
        self._kept[self.opened.key(name)] = found, tuple(dict.fromkeys(said))


def tree_routes(desk: Desk, opened: Opened, estimates: Estimates) -> list[Route]:
    """Return the routes of asking trees."""

    async def estimate(request: Request) -> Response:
        form = await request.form()
        name, asked = str(form.get("bundle", "")), UnitsAsked.of(form)
        back = f"ask?{urlencode({'bundle': name, **vars(asked)})}"

        def run(job: Job) -> str:
            standing = opened.verified(name)
            if isinstance(standing, str):
                raise InferenceError(f"the bundle is not verified, so it is not asked: {standing}")
            if not standing.bundle.law.steps:
                raise InferenceError("the bundle has no tree of areas; ask it as one table or a list of areas")
            asked.checked(standing.bundle)
            estimates.make(name, standing, job)
            return back

        return RedirectResponse(f"working?job={desk.start('Estimating the units of a tree', run)}", 303)

    return [Route("/ask-estimate", in_words(estimate), methods=["POST"])]


def shown(verified: Verified, name: str, said: Any, estimates: Estimates) -> dict[str, Any]:
    """Return what the page of a tree shows: units of a level, and the answer if the tree was estimated."""
    bundle, tree = verified.bundle, verified.bundle.tree
    if len(tree.levels) == 1:
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


_MOST_PICTURED = 40
_MANY = 1_000
_FORMS = ("all", "share(", "ratio(", "difference(", "odds_ratio(", "median(", " by ", " over areas")


def routes(desk: Desk, opened: Opened, estimates: Estimates) -> list[Route]:
    """Return the routes of asking."""
    answering = Answering(opened.key)

    async def answered(name: str, asked: Question) -> tuple[Verified, Replies]:
        """Answer a question; draws of many areas, which take a minute, are made where no other page waits for them."""
        standing = await computed(desk, lambda: _open(opened, name))
        missing = await computed(desk, lambda: answering.missing(name, standing, asked))
        if missing is not None:
            try:
                together = await asyncio.wrap_future(desk.work.do_apart(draw_together, *missing))
            except BrokenProcessPool:
                raise BundleError("the process that draws for all areas was ended from outside; ask again") from None
            answering.keep(name, together)
        return standing, await computed(desk, lambda: answering.answers(name, standing, asked))

    async def show(request: Request) -> Response:
        asked = request.query_params
        name = asked.get("bundle")
        if not name:
            found = look_into(desk.folder.resolve())
            return page("ask_start.html", title="Ask a bundle", here="ask", bundles=found.bundles)
        standing = await computed(desk, lambda: opened.verified(name))
        if isinstance(standing, str):
            return page("ask_refused.html", title=name, here="ask", name=name, why=standing)
        return page(
            "ask.html",
            here="ask",
            released=asked.get("released") == "yes",
            query=asked.get("query", "all"),
            **_of(standing, name),
            **await computed(desk, lambda: shown(standing, name, asked, estimates)),
        )

    async def upload(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=2) as form:
            given = form.get("zip")
            if not isinstance(given, UploadFile) or not given.filename:
                raise BundleError("choose a zip of a bundle first")
            name = await computed(desk, lambda: opened.unpack(given.file, given.filename or "bundle"))
        return RedirectResponse(f"ask?{urlencode({'bundle': name})}", 303)

    async def at_once(request: Request) -> dict[str, Any]:
        said = await json_of(request)
        name, asked = str(said.get("bundle", "")), Question.of(said)
        found = await computed(desk, lambda: answering.at_once(_open(opened, name), asked))
        rows = [(one.query, one.low, one.estimate, one.high, one.released) for one in found if one.is_available]
        picture = intervals(rows[:_MOST_PICTURED]) if rows else None
        lines = [(one, *map(_whole, (one.released, one.estimate, one.low, one.high))) for one in found]
        level = f"{float(asked.level):.0%}"
        return {"html": render("at_once.html", lines=lines, picture=picture, level=level) if found else ""}

    async def answer(request: Request) -> dict[str, Any]:
        said = await json_of(request)
        name, asked = str(said.get("bundle", "")), Question.of(said)
        standing, found = await answered(name, asked)
        rows = [
            (_title(one), one.estimate.low, one.estimate.centre, one.estimate.high, one.estimate.released)
            for one in found.numbers[:_MOST_PICTURED]
            if not one.estimate.labels
        ]
        html = render(
            "answers.html",
            numbers=[(_title(one), one.as_row(), one) for one in found.numbers],
            picture=intervals(rows) if rows else None,
            level=f"{float(asked.level):.0%}",
            warnings=found.warnings,
            has_without=any(one.confidence.is_available and not one.estimate.is_exact for one in found.numbers),
            command=command_of(name, asked, asked.n_draws(standing.bundle)),
            link=f"answers.csv?{urlencode({'bundle': name, **vars(asked)})}",
            why=list(dict.fromkeys(one.confidence.why for one in found.numbers if not one.confidence.is_available)),
        )
        return {"html": html}

    async def table(request: Request) -> Response:
        name, asked = request.query_params.get("bundle", ""), Question.of(request.query_params)
        _, found = await answered(name, asked)
        headers = {"content-disposition": 'attachment; filename="answers.csv"'}
        return Response(as_csv(found.numbers), media_type="text/csv; charset=utf-8", headers=headers)

    return [
        Route("/ask", in_words(show)),
        Route("/ask-zip", in_words(upload), methods=["POST"]),
        Route("/ask/at-once", in_json(at_once), methods=["POST"]),
        Route("/ask/answer", in_json(answer), methods=["POST"]),
        Route("/answers.csv", in_words(table)),
    ]


def _open(opened: Opened, name: str) -> Verified:
    standing = opened.verified(name)
    if isinstance(standing, str):
        raise BundleError(f"the bundle is not verified, so it is not asked: {standing}")
    return standing


def _of(standing: Verified, name: str) -> dict[str, Any]:
    """Return what the page of a bundle shows."""
    bundle = standing.bundle
    schema, areas = bundle.law.schema, bundle.law.areas
    words = Vocabulary(schema, areas)
    labels = [(own.name, own.labels, [group for group, _ in own.groups]) for own in schema.dimensions]
    known = [*_FORMS, *(f"{dimension}={_quoted(label)}" for dimension, own, _ in labels for label in own)]
    known += [group for _, _, groups in labels for group in groups]
    named = [] if areas.name is None else [str(label) for label in areas.labels]
    known += [f"{words.area_name}={_quoted(label)}" for label in named]
    return {
        "title": bundle.manifest.naming.title,
        "name": name,
        "standing": standing,
        "bundle": bundle,
        "dimensions": [
            (dimension, [(f"{dimension}={_quoted(label)}", label) for label in own], groups)
            for dimension, own, groups in labels
        ],
        "areas": named,
        "area_name": areas.name,
        "area_words": [f"{words.area_name}={_quoted(label)}" for label in named],
        "words": json.dumps(known),
        "levels": LEVELS,
        "has_report": "report.html" in bundle.manifest.files,
        "warnings": formula_warnings(schema, ()),
    }


def _quoted(label: str) -> str:
    """Return a label as queries have it: in quotes where it has signs in it."""
    has_signs = any(sign in label for sign in "&|,/(){}=<>!\"'") or " by " in label or ".." in label
    if not has_signs:
        return label
    quote = "'" if '"' in label else '"'
    return f"{quote}{label}{quote}"


def _whole(value: float) -> str:
    """Return a number to the unit where it has many digits, and else to four figures."""
    return number_text(round(value) if abs(value) >= _MANY else value)


def _title(one: Answer) -> str:
    return one.estimate.query if one.area is None else f"{one.area}: {one.estimate.query}"


def command_of(name: str, asked: Question, n_draws: int = DRAWS) -> str:
    """Return the command line that gives the same answer.

    Examples
    --------
    >>> command_of("p12", Question("sex=female & age=20", "0.9"))
    "congenial infer p12 --query 'sex=female & age=20' --level 0.9 --seed 1"
    """
    parts = ["congenial", "infer", name.removeprefix("opened:"), "--query", asked.query, "--level", asked.level]
    more = [*(["--area", asked.area] if asked.area else []), *(["--draws", str(n_draws)] if n_draws != DRAWS else [])]
    return shlex.join([*parts, *more, "--seed", str(SEED)])


def as_csv(numbers: tuple[Answer, ...]) -> str:
    """Return answers as a table; what a spreadsheet would compute begins with an apostrophe."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    posterior = ("estimate", "low", "high", "level", "is_exact", "effective_draws")
    rows.writerow(["area", "query", "released", "low_by_error_law", "high_by_error_law", *posterior])
    for one in numbers:
        found = one.as_json()
        texts = [found["area"] or "", found["query"]]
        plain = [f"'{text}" if is_taken_for_a_formula(text) else text for text in texts]
        by_error = found["by_error_law"]
        ends = by_error["low"], by_error["high"]
        rows.writerow([*plain, found["released"], *ends, *(found[name] for name in posterior)])
    return out.getvalue()
