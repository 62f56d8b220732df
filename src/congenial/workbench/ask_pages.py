"""The pages that ask a bundle: whether it is what was published, estimates with intervals, and the same command."""

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

from congenial.bundle.recompute import Bundle
from congenial.bundle.table_files import formula_warnings
from congenial.bundle.verify import Verified
from congenial.errors import BundleError
from congenial.inference.ask_and_answers import Answer, Replies
from congenial.inference.estimates_and_draw_quality import number_text
from congenial.inference.questions import Vocabulary
from congenial.pages.svg_charts import intervals
from congenial.safe_text import is_formula
from congenial.workbench.endpoints_and_templates import computed, in_json, in_words, json_of, page, render
from congenial.workbench.jobs_and_errors import BackgroundJob
from congenial.workbench.open_bundles_and_answers import (
    DRAWS,
    LEVELS,
    SEED,
    AnswerCache,
    OpenBundles,
    Question,
    draw_areas,
    levels_of,
)
from congenial.workbench.workspace import Workspace, list_folder

_MOST_UNITS, _MOST_CELLS = 100, 1_000  # that are listed; of longer tables the totals alone
_SECONDS_A_LEAF = 0.003  # measured: about 3 CPU milliseconds a block
_MOST_PICTURED = 40
_MANY = 1_000
_FORMS = ("all", "share(", "ratio(", "difference(", "odds_ratio(", "median(", " by ", " over areas")


def routes(workspace: Workspace, bundles: OpenBundles) -> list[Route]:
    """Return the routes of asking."""
    cache = AnswerCache(bundles.key)

    async def answered(name: str, question: Question) -> tuple[Verified, Replies]:
        """Answer a question; draws of many areas, which take a minute, are made where no other page waits for them."""
        verified = await computed(workspace, lambda: bundles.opened(name))
        missing = await computed(workspace, lambda: cache.missing(name, verified, question))
        if missing is not None:
            try:
                draws = await asyncio.wrap_future(workspace.worker.submit_apart(draw_areas, *missing))
            except BrokenProcessPool:
                raise BundleError("the process that draws for all areas was ended from outside; ask again") from None
            cache.keep(name, draws)
        return verified, await computed(workspace, lambda: cache.answers(name, verified, question))

    async def show(request: Request) -> Response:
        fields = request.query_params
        name = fields.get("bundle")
        if not name:
            listing = list_folder(workspace.folder.resolve())
            return page("ask_start.html", title="Ask a bundle", here="ask", bundles=listing.bundles)
        verified = await computed(workspace, lambda: bundles.verified(name))
        if isinstance(verified, str):
            return page("ask_refused.html", title=name, here="ask", name=name, why=verified)
        return page(
            "ask.html",
            here="ask",
            released=fields.get("released") == "yes",
            **_bundle_values(verified, name),
            **await computed(workspace, lambda: _unit_values(verified.bundle, name, fields, cache)),
        )

    async def upload(request: Request) -> Response:
        async with request.form(max_files=1, max_fields=2) as form:
            file = form.get("zip")
            if not isinstance(file, UploadFile) or not file.filename:
                raise BundleError("choose a zip of a bundle first")
            name = await computed(workspace, lambda: bundles.unpack(file.file, file.filename or "bundle"))
        return RedirectResponse(f"ask?{urlencode({'bundle': name})}", 303)

    async def estimate(request: Request) -> Response:
        form = await request.form()
        name, question = str(form.get("bundle", "")), Question.of(form)

        def run(job: BackgroundJob) -> str:
            bundle = bundles.opened(name).bundle
            question.check_units(bundle)
            cache.compute_estimate(name, bundle, job)
            return f"ask?{urlencode({'bundle': name, **vars(question)})}"

        return RedirectResponse(f"working?job={workspace.start('Estimating the units of a tree', run)}", 303)

    async def at_once(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        name, question = str(message.get("bundle", "")), Question.of(message)
        answers = await computed(workspace, lambda: cache.at_once(bundles.opened(name), question))
        rows = [
            (interval.query, interval.low, interval.estimate, interval.high, interval.released)
            for interval in answers
            if interval.is_available
        ]
        lines = [
            (interval, *map(_rounded, (interval.released, interval.estimate, interval.low, interval.high)))
            for interval in answers
        ]
        picture, level = intervals(rows[:_MOST_PICTURED]) if rows else None, f"{float(question.level):.0%}"
        return {"html": render("at_once.html", lines=lines, picture=picture, level=level) if answers else ""}

    async def answer(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        name, question = str(message.get("bundle", "")), Question.of(message)
        verified, replies = await answered(name, question)
        numbers = replies.numbers
        estimates = [(_title(number), number.estimate) for number in numbers[:_MOST_PICTURED]]
        rows = [
            (title, interval.low, interval.centre, interval.high, interval.released)
            for title, interval in estimates
            if not interval.labels
        ]
        return {
            "html": render(
                "answers.html",
                numbers=[(_title(number), number.as_row(), number) for number in numbers],
                picture=intervals(rows) if rows else None,
                level=f"{float(question.level):.0%}",
                warnings=replies.warnings,
                has_without=any(number.confidence.is_available and not number.estimate.is_exact for number in numbers),
                command=command_of(name, question, question.n_draws(verified.bundle)),
                link=f"answers.csv?{urlencode({'bundle': name, **vars(question)})}",
                why=list(
                    dict.fromkeys(number.confidence.why for number in numbers if not number.confidence.is_available)
                ),
            )
        }

    async def table(request: Request) -> Response:
        name, question = request.query_params.get("bundle", ""), Question.of(request.query_params)
        headers = {"content-disposition": 'attachment; filename="answers.csv"'}
        content = as_csv((await answered(name, question))[1].numbers)
        return Response(content, media_type="text/csv; charset=utf-8", headers=headers)

    return [
        Route("/ask", in_words(show)),
        Route("/ask-zip", in_words(upload), methods=["POST"]),
        Route("/ask-estimate", in_words(estimate), methods=["POST"]),
        Route("/ask/at-once", in_json(at_once), methods=["POST"]),
        Route("/ask/answer", in_json(answer), methods=["POST"]),
        Route("/answers.csv", in_words(table)),
    ]


def _bundle_values(verified: Verified, name: str) -> dict[str, Any]:
    """Return what the page of a bundle shows of it, whatever the question."""
    bundle = verified.bundle
    schema, areas = bundle.law.schema, bundle.law.areas
    area_name = Vocabulary(schema, areas).area_name
    dimensions = [
        (
            dimension.name,
            [(f"{dimension.name}={_quoted(label)}", label) for label in dimension.labels],
            [group for group, _ in dimension.groups],
        )
        for dimension in schema.dimensions
    ]
    labels = [] if areas.name is None else [str(label) for label in areas.labels]
    area_queries = [f"{area_name}={_quoted(label)}" for label in labels]
    completions = [*_FORMS, *(query for _, queries, _ in dimensions for query, _ in queries)]
    completions += [group for _, _, groups in dimensions for group in groups]
    return {
        "title": bundle.manifest.naming.title,
        "name": name,
        "standing": verified,
        "bundle": bundle,
        "dimensions": dimensions,
        "areas": labels,
        "area_name": areas.name,
        "area_queries": area_queries,
        "completions": json.dumps([*completions, *area_queries]),
        "levels": LEVELS,
        "has_report": "report.html" in bundle.manifest.files,
        "warnings": formula_warnings(schema, ()),
    }


def _unit_values(bundle: Bundle, name: str, fields: Any, cache: AnswerCache) -> dict[str, Any]:
    """Return the released units of a level, and the answer about units if the tree was estimated."""
    levels, question, schema = levels_of(bundle), Question.of(fields), bundle.law.schema
    shown = str(fields.get("show") or next(iter([*levels][1:2] or levels), ""))
    within = str(fields.get("within") or "")
    codes, counts = bundle.level(shown) if levels else ((), bundle.counts)
    places = [place for place, code in enumerate(codes) if code.startswith(within)]
    n_cells = schema.n_cells if schema.n_cells <= _MOST_CELLS else 0
    estimate, warnings = cache.estimate(name)
    interval = None
    if estimate is not None and question.units:
        question.check_units(bundle)
        interval = question.interval(estimate)
    picture = None
    if interval is not None and not interval.is_exact:
        picture = intervals([(interval.query, interval.low, interval.centre, interval.high, interval.released)])
    n_leaves = list(levels.values())[-1] if levels else 1
    command = ["congenial", "estimate", name.removeprefix("opened:"), "--out", "estimates", "--seed", str(SEED)]
    return {
        "unit_levels": [(level, f"{n_units:,}") for level, n_units in levels.items()],
        "show": shown,
        "within": within,
        "n_units": len(places),
        "cells": [schema.cell_name(cell) for cell in range(n_cells)],
        "units": [
            (codes[place], f"{int(counts[place].sum()):,}", [f"{n:,}" for n in counts[place, :n_cells].tolist()])
            for place in places[:_MOST_UNITS]
        ],
        "question": question,
        "estimate_warnings": warnings,
        "interval": interval,
        "interval_picture": picture,
        "minutes": max(1, round(n_leaves * _SECONDS_A_LEAF / 60)),
        "is_estimated": estimate is not None,
        "estimate_command": shlex.join(command),
    }


def _quoted(label: str) -> str:
    """Return a label as queries have it: in quotes where it has signs in it."""
    has_signs = any(sign in label for sign in "&|,/(){}=<>!\"'") or " by " in label or ".." in label
    if not has_signs:
        return label
    quote = "'" if '"' in label else '"'
    return f"{quote}{label}{quote}"


def _rounded(value: float) -> str:
    """Return a number to the unit where it has many digits, and else to four figures."""
    return number_text(round(value) if abs(value) >= _MANY else value)


def _title(answer: Answer) -> str:
    return answer.estimate.query if answer.area is None else f"{answer.area}: {answer.estimate.query}"


def command_of(name: str, question: Question, n_draws: int = DRAWS) -> str:
    """Return the command line that gives the same answer.

    Examples
    --------
    >>> command_of("p12", Question("sex=female & age=20", "0.9"))
    "congenial infer p12 --query 'sex=female & age=20' --level 0.9 --seed 1"
    """
    parts = ["congenial", "infer", name.removeprefix("opened:"), "--query", question.query, "--level", question.level]
    more = [
        *(["--area", question.area] if question.area else []),
        *(["--draws", str(n_draws)] if n_draws != DRAWS else []),
    ]
    return shlex.join([*parts, *more, "--seed", str(SEED)])


def as_csv(numbers: tuple[Answer, ...]) -> str:
    """Return answers as a table; what a spreadsheet would compute begins with an apostrophe."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    posterior = ("estimate", "low", "high", "level", "is_exact", "effective_draws")
    rows.writerow(["area", "query", "released", "low_by_error_law", "high_by_error_law", *posterior])
    for number in numbers:
        values = number.as_json()
        texts = [values["area"] or "", values["query"]]
        plain = [f"'{text}" if is_formula(text) else text for text in texts]
        ends = values["by_error_law"]["low"], values["by_error_law"]["high"]
        rows.writerow([*plain, values["released"], *ends, *(values[name] for name in posterior)])
    return out.getvalue()
