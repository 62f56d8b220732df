"""Release from a page: the account, consent, progress, the report in place; and a rehearsal on made-up tables."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from congenial.bundle.files import REPORT
from congenial.bundle.metadata import Naming
from congenial.curator import pipeline
from congenial.curator.reference_tables import uneven_tables
from congenial.errors import CongenialError, ReadingError, SpecError, reason_of
from congenial.ledger import Ledger
from congenial.ledger.records import Spend
from congenial.privacy.certificate import shown, shown_left
from congenial.release import Prepared, simulate
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL, Table
from congenial.workbench.bundles import Opened
from congenial.workbench.desk import Desk, Job
from congenial.workbench.grid import Grid
from congenial.workbench.panel import TreePanel, planned
from congenial.workbench.spec_pages import spec_page
from congenial.workbench.web import computed, in_json, in_words, page

SEED = 1
_LARGEST_REPORT = 50_000_000
_SHUT = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)


@dataclass(frozen=True)
class Account:
    """What a ledger says of a dataset, for people; or why nothing can be charged.

    Attributes
    ----------
    trouble : str
        Why a release would be refused; nothing if it would not.
    """

    line: str = ""
    left: str = ""
    spends: tuple[Spend, ...] = ()
    trouble: str = ""

    @classmethod
    def of(cls, desk: Desk, spec: Spec) -> "Account":
        """Ask the ledger whether it could be charged, whatever the plan."""
        try:
            ledger = desk.ledger()
            spends = ledger.history(spec.dataset)
            status = ledger.status(spec.dataset)
        except CongenialError as refused:
            return cls(trouble=str(refused))
        left = f"{shown_left(status.left, status.dataset.cap)} of {status.dataset.currency} {shown(status.dataset.cap)}"
        try:
            pipeline.check_chargeable(spec, ledger)
        except CongenialError as refused:
            return cls(str(status), left, spends, str(refused))
        return cls(str(status), left, spends)


def routes(desk: Desk, opened: Opened) -> list[Route]:
    """Return the routes of releasing."""

    async def show(request: Request) -> Response:
        file = request.query_params.get("file", "")
        try:
            spec = await computed(desk, lambda: desk.spec(file))
        except SpecError:
            return spec_page(desk, file)
        account = await computed(desk, lambda: Account.of(desk, spec))
        out = place_of(desk, spec, file)
        return page(
            "release.html",
            title=f"Release: {spec.release}",
            here="release",
            file=file,
            spec=spec,
            account=account,
            out=out.relative_to(desk.folder.resolve()).as_posix(),
            is_there=out.exists(),
            who=desk.who,
            key="" if desk.key is None else desk.key.name,
        )

    async def start(request: Request) -> Response:
        form = await request.form()
        file, who = str(form.get("file", "")), str(form.get("who", "")).strip()
        spec = await computed(desk, lambda: desk.spec(file))
        if form.get("consent") != spec.release:
            raise CongenialError("tick the box that you agree to the charge; without it nothing is released")
        has_report = form.get("confidential_report") == "yes"
        job = desk.start(f"Releasing {spec.release}", lambda job: _release(desk, spec, file, who, job, has_report))
        return RedirectResponse(f"working?{urlencode({'job': job, 'file': file})}", 303)

    async def rehearse(request: Request) -> Response:
        form = await request.form()
        file = str(form.get("file", ""))
        spec = await computed(desk, lambda: desk.spec(file))
        job = desk.start("A simulated release on made-up tables", lambda job: _rehearse(desk, opened, spec, file, job))
        return RedirectResponse(f"working?{urlencode({'job': job, 'file': file})}", 303)

    async def working(request: Request) -> Response:
        name = request.query_params.get("job", "")
        if name not in desk.jobs:
            raise CongenialError("there is no such job; it may have been of an earlier workbench")
        return page(
            "working.html", title=desk.jobs[name].title, here="release", file=request.query_params.get("file"), job=name
        )

    async def state(request: Request) -> dict[str, Any]:
        job = desk.jobs.get(request.path_params["job"])
        if job is None:
            return {"is_over": True, "error": "there is no such job", "step": "", "done": 0, "of": 0}
        return job.as_json()

    async def report(request: Request) -> Response:
        if request.headers.get("sec-fetch-dest", "iframe") != "iframe":  # by itself, its links would lead anywhere
            raise ReadingError("a report is somebody's file; it is shown on the page of its bundle only")
        folder = opened.folder(request.query_params.get("bundle", ""))
        file = folder / REPORT
        try:
            if file.is_symlink() or file.stat().st_size > _LARGEST_REPORT:
                raise ReadingError("the report is no ordinary file, or too large to be shown here")
            content = file.read_bytes()
        except OSError as refused:
            raise ReadingError(f"the report cannot be read: {reason_of(refused)}") from None
        return HTMLResponse(content, headers={"content-security-policy": _SHUT, "x-frame-options": "SAMEORIGIN"})

    async def ledger(_: Request) -> Response:
        accounts, trouble = await computed(desk, lambda: _history(desk))
        return page("ledger.html", title="Ledger", here="ledger", accounts=accounts, trouble=trouble)

    return [
        Route("/release", in_words(show), methods=["GET"]),
        Route("/release", in_words(start), methods=["POST"]),
        Route("/rehearse", in_words(rehearse), methods=["POST"]),
        Route("/working", in_words(working)),
        Route("/job/{job}", in_json(state)),
        Route("/report", in_words(report)),
        Route("/ledger", in_words(ledger)),
    ]


def place_of(desk: Desk, spec: Spec, file: str) -> Path:
    """Return where the bundle of a spec goes: beside it, by the release's name."""
    return desk.path(file).parent / spec.release


def _release(desk: Desk, spec: Spec, file: str, who: str, job: Job, has_report: bool) -> str:
    """Release, and return where to look at it."""
    beside, out = desk.path(file).parent, place_of(desk, spec, file)
    secret = beside / f"{CONFIDENTIAL}{spec.release}.html" if has_report else None
    pipeline.release(
        *(spec, beside, out),
        ledger=desk.ledger(),
        who=who or desk.who,
        key=desk.key,
        confidential_report=secret,
        progress=job.progress,
    )
    name = out.relative_to(desk.folder.resolve()).as_posix()
    return f"ask?{urlencode({'bundle': name, 'released': 'yes'})}"


def _rehearse(desk: Desk, opened: Opened, spec: Spec, file: str, job: Job) -> str:
    """Draw around made-up tables from a public seed, and return where to look at what readers would get.

    Of the data, the values of the invariants enter, which the release publishes; everything else is made up.
    """
    job.progress("making up tables")
    naming = replace(spec.naming, status="simulated", title=f"{spec.title} (made up)", replaces=None)
    ready = _made_up(desk, spec, file, naming) if spec.hierarchy is None else _made_up_tree(desk, spec, file, naming)
    made = simulate(ready, SEED, progress=job.progress)
    job.progress("writing the bundle")
    name, folder = opened.new_place(f"{spec.release}-made-up")
    made.write(folder, outputs=tuple(dict.fromkeys([*spec.outputs, "report"])))
    return f"ask?{urlencode({'bundle': name})}"


def _made_up(desk: Desk, spec: Spec, file: str, naming: Naming) -> Prepared:
    """Prepare a release of made-up tables that have the exact numbers of the data."""
    plan = planned(spec, desk.tables(spec, file))
    counts = uneven_tables(plan.law, range(len(plan.law.areas)))
    tables = [Table(spec.schema, own.reshape(spec.schema.shape)) for own in counts]
    if spec.by is None:
        return spec.mechanism.prepare(tables[0], naming)
    named = dict(zip(map(str, plan.law.areas.labels), tables, strict=True))
    return spec.mechanism.prepare(named, naming, area=spec.by.name)


def _made_up_tree(desk: Desk, spec: Spec, file: str, naming: Naming) -> Prepared:
    """Prepare a release of a made-up tree that has the exact numbers of the data, at every level."""
    leaves = desk.leaves(spec, file)
    found = TreePanel.of(spec, leaves, Grid.of(spec.schema))
    return spec.tree_mechanism(leaves.tree, leaves.zeros).prepare_ordered(found.preview.leaves, naming)


def _history(desk: Desk) -> tuple[list[tuple[str, tuple[Spend, ...], dict[str, str]]], str]:
    """Return every dataset's account, its spends, and what became of releases."""
    try:
        ledger: Ledger = desk.ledger()
        return [
            (
                str(ledger.status(dataset.name)),
                ledger.history(dataset.name),
                {one.release: one.reason for one in ledger.withdrawals(dataset.name)},
            )
            for dataset in ledger.datasets()
        ], ""
    except CongenialError as refused:
        return [], str(refused)
