"""The pages that ask a bundle: whether it is what was published, estimates with intervals, and the same command."""

import asyncio
import csv
import io
import json
import shlex
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from congenial.arrays import Ints
from congenial.bundle.recompute import Bundle
from congenial.bundle.table_files import formula_warnings
from congenial.bundle.verify import Verified
from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.ask_and_answers import Answer, Replies
from congenial.inference.error_intervals import ErrorInterval
from congenial.inference.estimates_and_draw_quality import number_text
from congenial.inference.priors import DEFAULT_PRIOR
from congenial.inference.questions import Vocabulary
from congenial.inference.workload_answers import TableAnswer
from congenial.pages.svg_charts import intervals
from congenial.safe_text import is_formula
from congenial.schema import Schema
from congenial.workbench.endpoints_and_templates import computed, in_json, in_words, json_of, page, render
from congenial.workbench.jobs_and_errors import BackgroundJob
from congenial.workbench.measured_bundles import (
    MEASUREMENTS_SHOWN,
    answer_values,
    choices,
    measured_csv,
    measured_units,
    published,
)
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
from congenial.workbench.workload_bundles import answer_values as table_answer_values
from congenial.workbench.workload_bundles import answers_csv, table_values
from congenial.workbench.workspace import Workspace, list_folder

_MOST_UNITS, _MOST_CELLS = 100, 1_000  # that are listed; of longer tables the totals alone
_SECONDS_A_LEAF = 0.003  # measured: about 3 CPU milliseconds a block
_MOST_PICTURED = 40
_MANY = 1_000
_FORMS_OF_TABLES = ("all", "share(", "difference(", " by ")
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
        here: dict[str, Any] = {"here": "ask", "released": fields.get("released") == "yes"}
        if isinstance(verified.bundle, WorkloadBundle):
            values = await computed(workspace, lambda: _table_values(verified, name, fields, cache))
            return page("ask_tables.html", **here, **values)
        return page(
            "ask.html",
            **here,
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
        return {"html": _early_answer(answers, f"{float(question.level):.0%}")}

    async def answer(request: Request) -> dict[str, Any]:
        message = await json_of(request)
        name, question = str(message.get("bundle", "")), Question.of(message)
        if (answers := await computed(workspace, lambda: cache.table_answers(name, bundles, question))) is not None:
            return {"html": _table_answer(name, question, answers)}
        verified, replies = await answered(name, question)
        answer_html = _measured_answer if verified.bundle.law.is_measured else _drawn_answer
        return {"html": answer_html(verified.bundle, name, question, replies)}

    async def table(request: Request) -> Response:
        name, question = request.query_params.get("bundle", ""), Question.of(request.query_params)
        if (answers := await computed(workspace, lambda: cache.table_answers(name, bundles, question))) is not None:
            return _download(answers_csv(answers))
        verified, replies = await answered(name, question)
        content = (measured_csv if verified.bundle.law.is_measured else as_csv)(replies.numbers)
        return _download(content)

    return [
        Route("/ask", in_words(show)),
        Route("/ask-zip", in_words(upload), methods=["POST"]),
        Route("/ask-estimate", in_words(estimate), methods=["POST"]),
        Route("/ask/at-once", in_json(at_once), methods=["POST"]),
        Route("/ask/answer", in_json(answer), methods=["POST"]),
        Route("/answers.csv", in_words(table)),
    ]


def _download(content: str) -> Response:
    headers = {"content-disposition": 'attachment; filename="answers.csv"'}
    return Response(content, media_type="text/csv; charset=utf-8", headers=headers)


def _early_answer(answers: Sequence[ErrorInterval], level: str) -> str:
    """Return what is known at once of numbers that span areas; nothing where that is nothing."""
    rows = [
        (interval.query, interval.low, interval.estimate, interval.high, interval.released)
        for interval in answers
        if interval.is_available
    ]
    lines = [
        (interval, *map(_rounded, (interval.released, interval.estimate, interval.low, interval.high)))
        for interval in answers
    ]
    picture = intervals(rows[:_MOST_PICTURED]) if rows else None
    return render("at_once.html", lines=lines, picture=picture, level=level) if answers else ""


def _measured_answer(bundle: Bundle, name: str, question: Question, replies: Replies) -> str:
    """Return the answer of a measured release: from its measurements, and under a prior if that was asked for."""
    return render(
        "measured_answers.html",
        **answer_values(replies.numbers, [_title(number) for number in replies.numbers]),
        level=f"{float(question.level):.0%}",
        is_with_prior=bool(question.prior),
        prior=DEFAULT_PRIOR,
        warnings=replies.warnings,
        command=command_of(name, question, question.n_draws(bundle), is_measured=True),
        link=f"answers.csv?{urlencode({'bundle': name, **vars(question)})}",
    )


def _drawn_answer(bundle: Bundle, name: str, question: Question, replies: Replies) -> str:
    """Return the answer of a conditional release, under a prior."""
    numbers = replies.numbers
    estimates = [(_title(number), number.estimate) for number in numbers[:_MOST_PICTURED]]
    rows = [
        (title, interval.low, interval.centre, interval.high, interval.released)
        for title, interval in estimates
        if not interval.labels
    ]
    why = [number.confidence.why for number in numbers if not number.confidence.is_available]
    return render(
        "answers.html",
        numbers=[(_title(number), number.as_row(), number) for number in numbers],
        picture=intervals(rows) if rows else None,
        level=f"{float(question.level):.0%}",
        warnings=replies.warnings,
        has_without=any(number.confidence.is_available and not number.estimate.is_exact for number in numbers),
        command=command_of(name, question, question.n_draws(bundle)),
        link=f"answers.csv?{urlencode({'bundle': name, **vars(question)})}",
        why=list(dict.fromkeys(why)),
    )


def _table_values(verified: Verified, name: str, fields: Any, cache: AnswerCache) -> dict[str, Any]:
    """Return what the page of a bundle of several tables of the same records shows."""
    bundle = cache.of_tables(name, verified)
    assert bundle is not None  # noqa: S101
    tables = table_values(bundle, str(fields.get("table") or ""))
    common = _common_values(verified, name, bundle.law.schema, _FORMS_OF_TABLES)
    return {**common, "question": Question.of(fields), "tables": tables}


def _table_answer(name: str, question: Question, answers: Sequence[TableAnswer]) -> str:
    """Return the answer of several tables of the same records, by least squares over all of them."""
    command = command_of(name, question, is_measured=True)
    return render(
        "table_answers.html",
        **table_answer_values(answers),
        level=f"{float(question.level):.0%}",
        command=command + " --from-records" * any(answer.is_model for answer in answers),
        link=f"answers.csv?{urlencode({'bundle': name, **vars(question)})}",
    )


def _common_values(verified: Verified, name: str, schema: Schema, forms: Sequence[str]) -> dict[str, Any]:
    """Return what the page of any bundle shows of it: how it stands, and the words of questions."""
    manifest = verified.bundle.manifest
    dimensions = [
        (
            dimension.name,
            [(f"{dimension.name}={_quoted(label)}", label) for label in dimension.labels],
            [group for group, _ in dimension.groups],
        )
        for dimension in schema.dimensions
    ]
    completions = [*forms, *(query for _, queries, _ in dimensions for query, _ in queries)]
    completions += [group for _, _, groups in dimensions for group in groups]
    return {
        "title": manifest.naming.title,
        "name": name,
        "standing": verified,
        "bundle": verified.bundle,
        "dimensions": dimensions,
        "completions": json.dumps(completions),
        "levels": LEVELS,
        "has_report": "report.html" in manifest.files,
        "warnings": formula_warnings(schema, ()),
    }


def _bundle_values(verified: Verified, name: str) -> dict[str, Any]:
    """Return what the page of a bundle shows of it, whatever the question."""
    bundle = verified.bundle
    schema, areas = bundle.law.schema, bundle.law.areas
    area_name = Vocabulary(schema, areas).area_name
    labels = [] if areas.name is None else [str(label) for label in areas.labels]
    area_queries = [f"{area_name}={_quoted(label)}" for label in labels]
    common = _common_values(verified, name, schema, _FORMS)
    return common | {
        "areas": labels,
        "area_name": areas.name,
        "area_queries": area_queries,
        "completions": json.dumps([*json.loads(common["completions"]), *area_queries]),
        "published": published(bundle),
    }


@dataclass(frozen=True, eq=False)
class UnitList:
    """Published numbers of the units of a level.

    Attributes
    ----------
    what : str
        Of a measured release, whether these are measurements or the table.
    totals : array (unit,), or None
    """

    codes: Sequence[str] = ()
    names: Sequence[str] = ()
    numbers: Ints | None = None
    totals: Ints | None = None
    what: str = ""

    @classmethod
    def of(cls, bundle: Bundle, level: str, what: str) -> "UnitList":
        """Return the numbers of a level; of a measured release, what is asked for, or what it has."""
        options = choices(bundle)
        chosen = what if what in options else next(iter(options), "")
        if chosen == MEASUREMENTS_SHOWN:
            of_level = AnalystBundle.of(bundle).units(level) if len(bundle.tree.levels) > 1 else bundle
            return cls(tuple(of_level.tree.texts(0)), *measured_units(of_level), chosen)
        schema, (codes, counts) = bundle.law.schema, bundle.level(level)
        names = [schema.cell_name(cell) for cell in range(schema.n_cells)]
        return cls(codes, names, counts, counts.sum(axis=1), chosen)

    def texts(self, place: int, n_shown: int) -> tuple[str, str, list[str]]:
        """Return a unit's code, its total and its first numbers."""
        total = "" if self.totals is None else f"{int(self.totals[place]):,}"
        numbers = [] if self.numbers is None else self.numbers[place, :n_shown].tolist()
        return self.codes[place], total, [f"{number:,}" for number in numbers]


def _unit_values(bundle: Bundle, name: str, fields: Any, cache: AnswerCache) -> dict[str, Any]:
    """Return the released units of a level, and the answer about units if the tree was estimated."""
    levels, question = levels_of(bundle), Question.of(fields)
    shown = str(fields.get("show") or next(iter([*levels][1:2] or levels), ""))
    within = str(fields.get("within") or "")
    listed = UnitList.of(bundle, shown, str(fields.get("what") or "")) if levels else UnitList()
    codes = listed.codes
    places = [place for place, code in enumerate(codes) if code.startswith(within)]
    n_cells = len(listed.names) if len(listed.names) <= _MOST_CELLS else 0
    estimate, warnings = cache.estimate(name)
    interval = None
    if estimate is not None and question.units:
        question.check_units(bundle)
        interval = question.interval(estimate)
    picture = None
    if interval is not None and not interval.is_exact:
        picture = intervals([(interval.query, interval.low, interval.centre, interval.high, interval.released)])
    n_leaves = bundle.tree.n_leaves
    command = ["congenial", "estimate", name.removeprefix("opened:"), "--out", "estimates", "--seed", str(SEED)]
    return {
        "unit_levels": [(level, f"{n_units:,}") for level, n_units in levels.items()],
        "show": shown,
        "within": within,
        "n_units": len(places),
        "cells": listed.names[:n_cells],
        "units": [listed.texts(place, n_cells) for place in places[:_MOST_UNITS]],
        "has_totals": listed.totals is not None,
        "what": listed.what,
        "choices": choices(bundle),
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


def command_of(name: str, question: Question, n_draws: int = DRAWS, *, is_measured: bool = False) -> str:
    """Return the command line that gives the same answer.

    Examples
    --------
    >>> command_of("p12", Question("sex=female & age=20", "0.9"))
    "congenial infer p12 --query 'sex=female & age=20' --level 0.9 --seed 1"
    """
    parts = ["congenial", "infer", name.removeprefix("opened:"), "--query", question.query, "--level", question.level]
    if is_measured and question.units:
        parts += ["--units", question.units]
    more = [
        *(["--area", question.area] if question.area else []),
        *(["--draws", str(n_draws)] if n_draws != DRAWS else []),
    ]
    if is_measured and not question.prior:
        return shlex.join([*parts, *more[: 2 * bool(question.area)]])
    prior = ["--prior", question.prior] if is_measured else []
    return shlex.join([*parts, *more, *prior, "--seed", str(SEED)])


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
