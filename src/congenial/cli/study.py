"""Commands of a study on public or simulated tables: coverage, errors, compare, reproduce."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from congenial.cli.command_and_output import (
    bundle_argument,
    command,
    progress_bar,
    rng_of,
    say,
    seed_option,
    show_json,
    show_result,
    show_rich_table,
    show_table,
    spec_argument,
)
from congenial.errors import StudyError

if TYPE_CHECKING:
    from congenial.study.compare import Comparison
    from congenial.study.compare_workload import WorkloadComparison


@command
@spec_argument
@click.option("--releases", type=int, default=5, show_default=True, help="Releases of each table.")
@click.option("--draws", type=int, default=1_000, show_default=True, help="Posterior draws of each release.")
@click.option("--query", "queries", multiple=True, help="A sum or share to count as well; may be repeated.")
@click.option("--prior", default="smooth", show_default=True, help="Of the posterior that queries are answered from.")
@seed_option
@click.option("--csv", "path", type=click.Path(path_type=Path), help="Write all numbers as a tidy CSV.")
def coverage(
    spec: Path,
    releases: int,
    draws: int,
    queries: tuple[str, ...],
    prior: str,
    seed: int | None,
    path: Path | None,
    as_json: bool,
) -> None:
    """Release the tables of SPEC again and again, and count how often intervals cover the truth.

    Compares the posterior, the interval without a prior, naive intervals around a TopDown release, and least
    squares of the raw noise, at equal certified privacy, cell by cell; and with --query, the posterior's sums, shares
    and cells by released size, with errors of estimate and release. The data must be public or simulated.
    """
    from congenial.reading.tables_and_data_checks import read_tables
    from congenial.spec.load import load_spec
    from congenial.study.coverage import LEVELS, answer_study, coverage_study
    from congenial.study.paper.exhibits_table_1_and_figures import write_csv

    loaded = load_spec(spec)
    if loaded.tables is not None:
        raise StudyError(
            "intervals of several tables of the same records have the coverage that they say for all records, and"
            " nothing is to be counted here: congenial compare shows errors of such a spec"
        )
    tables = read_tables(loaded, spec.absolute().parent)
    settings: dict[str, Any] = {
        "source": loaded.data.status,
        "n_releases": releases,
        "n_draws": draws,
        "rng": rng_of("coverage", seed),
    }
    if queries:
        with progress_bar("coverage") as step:
            answered = answer_study(
                loaded.mechanism,
                tables.values(),
                {query: query for query in queries},
                prior=prior,
                progress=step,
                **settings,
            )
        if path is not None:
            write_csv(path, answered.columns)
        if as_json:
            show_json({name: list(column) for name, column in answered.columns.items()})
            return
        errors = ("error released", "of mean", "of median")
        header = ("number", "n", "coverage", "s.e.", "by error law", "width", *errors)
        show_table(header, answered.rows(), f"90% intervals, prior {prior}")
        return
    with progress_bar("coverage") as step:
        result = coverage_study(loaded.mechanism, tables.values(), progress=step, **settings)
    if path is not None:
        write_csv(path, result.columns)
    if as_json:
        show_json(
            {"unavailable": result.unavailable, **{name: list(column) for name, column in result.columns.items()}}
        )
        return
    for level in LEVELS:
        show_table(
            ("method", "true count", "cells", "coverage", "mean width"), result.rows(level), f"{level:.0%} intervals"
        )
    for method, why in result.unavailable.items():
        say(f"{method}: not available, {why}")


# `congenial study errors`: how far off the published tables may be, from what is published alone.


@command
@bundle_argument
@click.option("--releases", type=int, default=20, show_default=True, help="Simulated releases.")
@seed_option
def errors(bundle: Path, releases: int, seed: int | None, as_json: bool) -> None:
    """Simulate releases around the tables of BUNDLE, by their rule, and compare with these.

    The published tables stand for the truth: on made-up tables of four kinds the errors of cells were within five per
    cent of the true ones, those of sums over areas and of zeros kept within thirteen. Intervals that hold for any
    truth are those of the measurements. Needs nothing but the bundle.
    """
    from congenial.cli.workload_bundles import is_of_several_tables
    from congenial.inference.analyst_bundle import load_bundle
    from congenial.study.simulated_errors import AS_IF_TRUE, simulated_errors

    loaded = load_bundle(bundle)
    if is_of_several_tables(loaded):
        raise StudyError("several tables of the same records have errors in closed form: see their report")
    decision = loaded.manifest.decision
    if decision is None or not loaded.manifest.has_tables:
        raise StudyError(
            "a conditional release has its errors in its report, and one without tables has none of tables"
        )
    plan = replace(loaded.manifest.plan, law=replace(loaded.law, rule=decision.rule))
    result = simulated_errors(plan, loaded.levels, releases, rng_of("simulated errors", seed))
    if as_json:
        levels = {
            name: {metric.name: {"error": metric.value, "standard_error": metric.standard_error} for metric in metrics}
            for name, metrics in result.levels
        }
        show_json({"what": AS_IF_TRUE, "n_releases": result.n_releases, "levels": levels})
        return
    say(str(result))


# `congenial compare`: mechanisms side by side at equal certified loss.


@command
@spec_argument
@click.option("--out", type=click.Path(path_type=Path), help="New folder for a page, pictures and a tidy CSV.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="conditional, measured, measurements, raw, clip, l2, l1 or topdown; of a hierarchy conditional, measured,"
    " measurements, topdown or leaves; may be repeated.",
)
@click.option("--releases", type=int, help="Releases of each table by each method. Default: 100, or 10 of a hierarchy.")
@seed_option
def compare(
    spec: Path, out: Path | None, methods: tuple[str, ...], releases: int | None, seed: int | None, as_json: bool
) -> None:
    """Compare methods on the tables of SPEC: cells, margins, sums over units, zeros, bias by size of count, time.

    Conditional and measured releases of the spec stand beside what people do today, at equal certified loss, with
    standard errors. A comparison with the truth is confidential unless the data are public or simulated (`status:` in
    the spec). With confidential data the result goes to a folder that begins with CONFIDENTIAL, and nowhere else; and
    to choose by it is a use of the data that no ledger knows.
    """
    from congenial.curator.pipeline import read_tree
    from congenial.reading.tables_and_data_checks import read_records, read_tables
    from congenial.spec.load import load_spec
    from congenial.study.compare import DEFAULT_METHODS, SOURCES, UNRECORDED_USE, compare_tree
    from congenial.study.compare import compare as run
    from congenial.study.compare_workload import compare_workload

    loaded, folder = load_spec(spec), spec.absolute().parent
    if loaded.data.status not in SOURCES:
        say(UNRECORDED_USE, err=True)  # before anything is read
    settings: dict[str, Any] = {"source": loaded.data.status, "rng": rng_of("compare", seed), "out": out}
    result: Comparison | WorkloadComparison
    with progress_bar("comparing") as step:
        if loaded.tables is not None:
            _check_methods(methods)
            settings |= {"n_releases": 3 if releases is None else releases}
            result = compare_workload(loaded.workload, read_records(loaded, folder), progress=step, **settings)
        elif loaded.hierarchy is not None:
            settings |= {"methods": methods or None, "n_releases": 10 if releases is None else releases}
            result = compare_tree(*read_tree(loaded, loaded.hierarchy, folder), progress=step, **settings)
        else:
            settings |= {"methods": methods or DEFAULT_METHODS, "n_releases": 100 if releases is None else releases}
            result = run(loaded.mechanism, read_tables(loaded, folder).values(), progress=step, **settings)
    if result.is_confidential:
        values = {"note": UNRECORDED_USE, "is_confidential": True, "folder": str(out)}
        show_result(values, f"CONFIDENTIAL: written to {out}", as_json=as_json)
    elif as_json:
        show_json({name: list(column) for name, column in result.summary.items()})
    else:
        say(*str(result).split("\n"))
        if out is not None:
            say(f"written to {out}" if loaded.tables else f"written to {out}; open {out / 'index.html'}")


def _check_methods(methods: tuple[str, ...]) -> None:
    if methods:
        raise StudyError(
            "several tables of the same records are compared with one release each and with one table of all"
            " dimensions: leave --method out"
        )


# `congenial reproduce`: the paper's numbers, tables and figures into a folder.


@command
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("paper"),
    show_default=True,
    help="Folder to write; it must not hold anything yet.",
)
@click.option(
    "--tables",
    type=click.Path(path_type=Path),
    help="CSV of public P12 tables, a line each, columns f_00_04 ... m_85p: figure 1 is made for them too.",
)
@click.option("--seed", type=int, default=2020, show_default=True, help="Another seed, other random numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def reproduce(out: Path, tables: Path | None, seed: int, as_json: bool) -> None:
    """Compute every number, table and figure of Gong and Meng (2020) anew, beside what they print.

    Writes index.html, numbers.csv, and each figure as SVG, PNG and CSV. Takes about a minute.
    """
    from congenial.study.paper.reproduce import reproduce as run

    with progress_bar("reproducing") as step:
        exhibits = run(out, tables=tables, seed=seed, progress=step)
    findings = [finding for exhibit in exhibits for finding in exhibit.findings]
    if as_json:
        rows = [
            {"where": f.where, "what": f.what, "printed": f.printed, "computed": _finite(f.computed), "note": f.note}
            for f in findings
        ]
        show_json({"page": str(out / "index.html"), "numbers": rows})
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rich_table = Table(title="Numbers that the paper prints", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("where", "what"):
        rich_table.add_column(heading)
    for heading in ("printed", "computed", "difference"):
        rich_table.add_column(heading, justify="right")
    for f in findings:
        if f.printed is not None:
            rich_table.add_row(*map(Text, (f.where, f.what, f.printed_text, f.computed_text, f.difference_text)))
    show_rich_table(rich_table)
    say(f"{len(findings)} numbers; the page with figures and notes: {out / 'index.html'}")


def _finite(value: float) -> float | str:
    """JSON has no infinity."""
    return "infinite" if value == float("inf") else value
