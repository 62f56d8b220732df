"""Ask a bundle: whether it is what was published, then estimates with intervals, a picture, and the same command."""

import asyncio
import csv
import io
import json
import shlex
from concurrent.futures.process import BrokenProcessPool
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.bundle.table_csv import formula_warnings
from congenial.bundle.verifying import Verified
from congenial.errors import BundleError
from congenial.inference.answers import Answer
from congenial.inference.asking import Replies
from congenial.inference.intervals import number_text
from congenial.inference.vocabulary import Vocabulary
from congenial.plain_text import is_taken_for_a_formula
from congenial.workbench import ask_tree
from congenial.workbench.answering import DRAWS, LEVELS, SEED, Answering, Question, draw_together
from congenial.workbench.desk import Desk
from congenial.workbench.opened import Opened
from congenial.workbench.pages import render
from congenial.workbench.picture import intervals
from congenial.workbench.places import look_into
from congenial.workbench.serving import computed, in_json, in_words, json_of, page

_MOST_PICTURED = 40
_MANY = 1_000
_FORMS = ("all", "share(", "ratio(", "difference(", "odds_ratio(", "median(", " by ", " over areas")


def routes(desk: Desk, opened: Opened, estimates: ask_tree.Estimates) -> list[Route]:
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
            **await computed(desk, lambda: ask_tree.shown(standing, name, asked, estimates)),
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
