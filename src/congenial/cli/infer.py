"""`congenial infer`: what a bundle says about a number, and how surely."""

from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter, warn

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from congenial.inference.answers import Answers


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--query", "queries", multiple=True, required=True, help='Such as "sex=female & age in {65-66, 67-69}".')
@click.option("--level", type=float, default=0.9, show_default=True, help="Probability of the intervals.")
@click.option("--area", "areas", multiple=True, help="Area to ask about; may be repeated. Default: all of them.")
@click.option("--prior", default="smooth", show_default=True, help="smooth, flat, dirichlet or independence.")
@click.option("--draws", type=int, default=4_000, show_default=True, help="Posterior draws of each area.")
@click.option("--simultaneous", is_flag=True, help="Intervals that hold for all numbers of an area together.")
@click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a picture of the intervals (SVG or PNG).")
@click.option("--export-draws", type=click.Path(path_type=Path), help="Write the draws behind these intervals as CSV.")
@as_json_option
@refusals_in_words
def infer(
    bundle: Path,
    queries: tuple[str, ...],
    level: float,
    areas: tuple[str, ...],
    prior: str,
    draws: int,
    simultaneous: bool,
    seed: int | None,
    plot: Path | None,
    export_draws: Path | None,
    as_json: bool,
) -> None:
    """Answer questions about the confidential table from BUNDLE alone, with honest intervals.

    A query picks cells (sex=female & age >= 65-66), or asks for share(part | whole), ratio(one / other),
    difference(one, other), odds_ratio(one, other) or median(age | part); `by age` asks for each age. Numbers that the
    invariants determine are given as exact.
    """
    from congenial.bundle.loading import load_bundle
    from congenial.inference.answers import answer, plot_answers, write_draws
    from congenial.randomness import replay_rng, secure_rng

    loaded = load_bundle(bundle)
    for line in loaded.not_checked:
        say(f"NOT checked: {line}", bold=True, err=True)
    chosen = list(areas) if areas else list(loaded.tables)
    rng = secure_rng() if seed is None else replay_rng(f"infer {seed}")
    found: list[Answers] = []
    is_pooled = len(chosen) > 1 and prior == "smooth"
    with catch_warnings(record=True) as heard, progress_bar("inferring") as step:
        simplefilter("always")
        together = None
        if is_pooled:
            step("all areas together")
            together = loaded.posterior(prior=prior, n_draws=draws, rng=rng)
        for number, area in enumerate(chosen):
            step("one table" if area is None else "one by one", number, len(chosen))
            found.append(
                answer(
                    loaded,
                    queries,
                    area,
                    level=level,
                    prior=prior,
                    n_draws=draws,
                    is_simultaneous=simultaneous,
                    rng=rng,
                    together=together,
                )
            )
        for answers in found:
            fit = answers.posterior.check_fit(rng)
            if fit is not None and fit.is_contradicted:
                warn(fit.text, UserWarning, stacklevel=2)
    said = list(dict.fromkeys(str(warning.message) for warning in heard if issubclass(warning.category, UserWarning)))
    for line in said:
        say(f"WARNING: {line}.", bold=True, err=True)
    numbers = [number for answers in found for number in answers.numbers]
    if export_draws is not None:
        write_draws(export_draws, [answers.posterior for answers in found])
    if plot is not None:
        plot_answers(plot, numbers)
    if as_json:
        drawn = {"prior": prior, "draws": draws, "seed": seed, "warnings": said}
        show_json([number.as_json() | drawn for number in numbers])
        return
    named = len(chosen) > 1 or chosen != [None]
    header = (
        *(["area"] if named else []),
        *(
            "number",
            "released",
            "estimate",
            "MC error",
            "low",
            "high",
            "by error law*",
            "without a prior",
            "eff. draws",
        ),
    )
    rows = [(*([str(number.area)] if named else []), *number.as_row()) for number in numbers]
    if not loaded.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    show_table(header, rows, f"{level:.0%} intervals, prior {prior}" + (", all together" if simultaneous else ""))
    say("* approximate: the released number less the errors of releases of tables like this one.")
    for why in dict.fromkeys(number.confidence.why for number in numbers if not number.confidence.is_available):
        say(f"Not available without a prior: {why}.")
