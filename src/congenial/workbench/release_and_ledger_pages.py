"""The pages that release: the account, consent, progress, the report in place; and a simulation on made-up tables."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from congenial.bundle.file_registry import REPORT
from congenial.bundle.method_text import NEGATIVE
from congenial.conditions.queries import cells
from congenial.curator import pipeline
from congenial.errors import CongenialError, ReadingError, SpecError, reason_of
from congenial.ledger import Ledger
from congenial.ledger.records import Spend
from congenial.privacy.certificate import shown, shown_left
from congenial.privacy.certificate_inputs import CONDITIONAL
from congenial.release import simulate
from congenial.request_to_plan import USUAL_RULE, usual_rule_of_tree
from congenial.rules.registry import Rule, rule_named
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import CONFIDENTIAL
from congenial.workbench.endpoints_and_templates import computed, in_json, in_words, page
from congenial.workbench.jobs_and_errors import BackgroundJob
from congenial.workbench.open_bundles_and_answers import SEED, OpenBundles
from congenial.workbench.panel_and_design import design_in
from congenial.workbench.spec_and_describe_pages import spec_page
from congenial.workbench.workspace import Workspace
from congenial.workload.law import RULE

_LARGEST_REPORT = 50_000_000
_SHUT = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)


@dataclass(frozen=True)
class AccountSummary:
    """What a ledger says of a dataset, for people; or why nothing can be charged.

    Attributes
    ----------
    trouble : str
        Why a release would be refused; nothing if it would not.
    """

    line: str = ""
    remaining: str = ""
    spends: tuple[Spend, ...] = ()
    trouble: str = ""

    @classmethod
    def of(cls, workspace: Workspace, spec: Spec) -> "AccountSummary":
        """Ask the ledger whether it could be charged, whatever the plan."""
        try:
            ledger = workspace.ledger()
            spends = ledger.history(spec.dataset)
            status = ledger.status(spec.dataset)
        except CongenialError as refused:
            return cls(trouble=str(refused))
        remaining = (
            f"{shown_left(status.left, status.dataset.cap)} of {status.dataset.currency} {shown(status.dataset.cap)}"
        )
        try:
            pipeline.check_chargeable(spec, ledger)
        except CongenialError as refused:
            return cls(str(status), remaining, spends, str(refused))
        return cls(str(status), remaining, spends)


def routes(workspace: Workspace, bundles: OpenBundles) -> list[Route]:
    """Return the routes of releasing."""

    async def show(request: Request) -> Response:
        file = request.query_params.get("file", "")
        try:
            spec = await computed(workspace, lambda: workspace.spec(file))
        except SpecError:
            return spec_page(workspace, file)
        account = await computed(workspace, lambda: AccountSummary.of(workspace, spec))
        out = bundle_folder(workspace, spec, file)
        return page(
            "release.html",
            title=f"Release: {spec.release}",
            here="release",
            file=file,
            spec=spec,
            rule=_rule_of(spec),
            negative=NEGATIVE,
            account=account,
            out=out.relative_to(workspace.folder.resolve()).as_posix(),
            is_there=out.exists(),
            who=workspace.who,
            key="" if workspace.key is None else workspace.key.name,
        )

    def follow(title: str, file: str, run: Callable[[BackgroundJob], str]) -> Response:
        """Start a job, and lead to the page that shows how far it is."""
        return RedirectResponse(f"working?{urlencode({'job': workspace.start(title, run), 'file': file})}", 303)

    async def start(request: Request) -> Response:
        form = await request.form()
        file, who = str(form.get("file", "")), str(form.get("who", "")).strip()
        spec = await computed(workspace, lambda: workspace.spec(file))
        if form.get("consent") != spec.release:
            raise CongenialError("tick the box that you agree to the charge; without it nothing is released")
        has_report = form.get("confidential_report") == "yes"
        job = workspace.start(
            f"Releasing {spec.release}", lambda job: _release(workspace, spec, file, who, job, has_report)
        )
        return RedirectResponse(f"working?{urlencode({'job': job, 'file': file})}", 303)

    async def simulate_release(request: Request) -> Response:
        form = await request.form()
        file = str(form.get("file", ""))
        spec = await computed(workspace, lambda: workspace.spec(file))
        job = workspace.start(
            "A simulated release on made-up tables", lambda job: _simulate(workspace, bundles, spec, file, job)
        )
        return RedirectResponse(f"working?{urlencode({'job': job, 'file': file})}", 303)

    async def working(request: Request) -> Response:
        name = request.query_params.get("job", "")
        if name not in workspace.jobs:
            raise CongenialError("there is no such job; it may have been of an earlier workbench")
        return page(
            "working.html",
            title=workspace.jobs[name].title,
            here="release",
            file=request.query_params.get("file"),
            job=name,
        )

    async def state(request: Request) -> dict[str, Any]:
        job = workspace.jobs.get(request.path_params["job"])
        if job is None:
            return {"is_over": True, "error": "there is no such job", "step": "", "done": 0, "of": 0}
        return job.as_json()

    async def report(request: Request) -> Response:
        if request.headers.get("sec-fetch-dest", "iframe") != "iframe":  # by itself, its links would lead anywhere
            raise ReadingError("a report is somebody's file; it is shown on the page of its bundle only")
        folder = bundles.folder(request.query_params.get("bundle", ""))
        file = folder / REPORT
        try:
            if file.is_symlink() or file.stat().st_size > _LARGEST_REPORT:
                raise ReadingError("the report is no ordinary file, or too large to be shown here")
            content = file.read_bytes()
        except OSError as refused:
            raise ReadingError(f"the report cannot be read: {reason_of(refused)}") from None
        return HTMLResponse(content, headers={"content-security-policy": _SHUT, "x-frame-options": "SAMEORIGIN"})

    async def ledger(_: Request) -> Response:
        datasets, trouble = await computed(workspace, lambda: accounts(workspace))
        return page("ledger.html", title="Ledger", here="ledger", accounts=datasets, trouble=trouble)

    return [
        Route("/release", in_words(show), methods=["GET"]),
        Route("/release", in_words(start), methods=["POST"]),
        Route("/simulate", in_words(simulate_release), methods=["POST"]),
        Route("/working", in_words(working)),
        Route("/job/{job}", in_json(state)),
        Route("/report", in_words(report)),
        Route("/ledger", in_words(ledger)),
    ]


def _rule_of(spec: Spec) -> Rule | None:
    """Return the rule that decides the tables of a measured release; None of a conditional one."""
    if spec.tables is not None:
        return rule_named(*RULE)
    usual = USUAL_RULE if spec.hierarchy is None else usual_rule_of_tree(spec.measured or (cells(),))
    return None if spec.method == CONDITIONAL else rule_named(spec.rule or usual)


def bundle_folder(workspace: Workspace, spec: Spec, file: str) -> Path:
    """Return where the bundle of a spec goes: beside it, by the release's name."""
    return workspace.path(file).parent / spec.release


def _release(workspace: Workspace, spec: Spec, file: str, who: str, job: BackgroundJob, has_report: bool) -> str:
    """Release, and return where to look at it."""
    beside, out = workspace.path(file).parent, bundle_folder(workspace, spec, file)
    secret = beside / f"{CONFIDENTIAL}{spec.release}.html" if has_report else None
    pipeline.release(
        *(spec, beside, out),
        ledger=workspace.ledger(),
        who=who or workspace.who,
        key=workspace.key,
        confidential_report=secret,
        progress=job.progress,
    )
    name = out.relative_to(workspace.folder.resolve()).as_posix()
    return f"ask?{urlencode({'bundle': name, 'released': 'yes'})}"


def _simulate(workspace: Workspace, bundles: OpenBundles, spec: Spec, file: str, job: BackgroundJob) -> str:
    """Draw around made-up tables from a public seed, and return where to look at what readers would get.

    Of the data, the values of the invariants enter, which the release publishes; everything else is made up.
    """
    job.progress("making up tables")
    naming = replace(spec.naming, status="simulated", title=f"{spec.title} (made up)", replaces=None)
    design = design_in(workspace, spec, file).synthetic()
    release = simulate(design.prepare(naming), SEED, progress=job.progress)
    job.progress("writing the bundle")
    name, folder = bundles.new_folder(f"{spec.release}-made-up")
    release.write(folder, outputs=tuple(dict.fromkeys([*spec.outputs, "report"])))
    return f"ask?{urlencode({'bundle': name})}"


def accounts(workspace: Workspace) -> tuple[list[tuple[str, tuple[Spend, ...], dict[str, str]]], str]:
    """Return every dataset's account, its spends, and what became of releases."""
    try:
        ledger: Ledger = workspace.ledger()
        return [
            (
                str(ledger.status(dataset.name)),
                ledger.history(dataset.name),
                {gone.release: gone.reason for gone in ledger.withdrawals(dataset.name)},
            )
            for dataset in ledger.datasets()
        ], ""
    except CongenialError as refused:
        return [], str(refused)
