"""`congenial study`: trials on public or simulated tables."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table
from congenial.cli.progress import progress_bar


@click.group()
def study() -> None:
    """Try the whole on public or simulated tables."""


@study.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--releases", type=int, default=5, show_default=True, help="Releases of each table.")
@click.option("--draws", type=int, default=1_000, show_default=True, help="Posterior draws of each release.")
@click.option("--query", "queries", multiple=True, help="A sum or share to count as well; may be repeated.")
@click.option("--prior", default="smooth", show_default=True, help="Of the posterior that queries are answered from.")
@click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")
@click.option("--csv", "path", type=click.Path(path_type=Path), help="Write all numbers as a tidy CSV.")
@as_json_option
@refusals_in_words
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
    from congenial.randomness import replay_rng, secure_rng
    from congenial.reading.tables import read_tables
    from congenial.spec.load import load_spec
    from congenial.study.answered import answered_study
    from congenial.study.coverage import LEVELS, coverage_study
    from congenial.study.exhibit import write_csv

    found = load_spec(spec)
    tables = read_tables(found, spec.absolute().parent)
    if queries:
        with progress_bar("coverage") as step:
            answered = answered_study(
                found.mechanism,
                tables.values(),
                {query: query for query in queries},
                source=found.data.status,
                prior=prior,
                n_releases=releases,
                n_draws=draws,
                rng=secure_rng() if seed is None else replay_rng(f"coverage {seed}"),
                progress=step,
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
        result = coverage_study(
            found.mechanism,
            tables.values(),
            source=found.data.status,
            n_releases=releases,
            n_draws=draws,
            rng=secure_rng() if seed is None else replay_rng(f"coverage {seed}"),
            progress=step,
        )
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
