"""`congenial infer`: what a bundle says about a number, and how surely."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_table
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from congenial.bundle.loading import Bundle

_FEW_UNITS = 10


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--query", "queries", multiple=True, required=True, help='Such as "sex=female & age in {65-66, 67-69}".')
@click.option("--level", type=float, default=0.9, show_default=True, help="Probability of the intervals.")
@click.option("--area", "areas", multiple=True, help="Area to ask about; may be repeated. Default: all of them.")
@click.option("--pooled", is_flag=True, help="Let areas named by --area lean on all others, as all areas do together.")
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
    pooled: bool,
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
    difference(one, other), odds_ratio(one, other) or median(age | part); `by age` asks for each age, `over areas` adds
    areas up, and difference(area=North, area=South) compares two. Numbers that the invariants determine are given as
    exact.
    """
    from congenial.bundle.loading import load_bundle
    from congenial.errors import InferenceError
    from congenial.inference.answers import check_picture, plot_answers, write_draws
    from congenial.inference.asking import ask
    from congenial.randomness import replay_rng, secure_rng

    if plot is not None:
        check_picture(plot)
    if export_draws is not None and export_draws.exists():
        raise InferenceError(f"{export_draws} exists, and draws are written to a new file; name another")
    loaded = load_bundle(bundle)
    for line in loaded.not_checked:
        say(f"NOT checked: {line}", bold=True, err=True)
    rng = secure_rng() if seed is None else replay_rng(f"infer {seed}")
    with progress_bar("inferring") as step:
        found = ask(
            loaded,
            queries,
            areas,
            level=level,
            prior=prior,
            n_draws=draws,
            is_simultaneous=simultaneous,
            is_pooled=pooled,
            needs_draws=export_draws is not None,
            rng=rng,
            progress=step,
        )
    for line in found.warnings:
        say(f"WARNING: {line}.", bold=True, err=True)
    numbers = found.numbers
    if export_draws is not None:
        write_draws(export_draws, found.posteriors)
    if plot is not None:
        plot_answers(plot, numbers)
    if as_json:
        drawn = {
            "prior": prior,
            "draws": draws,
            "seed": seed,
            "is_pooled": found.is_pooled,
            "warnings": list(found.warnings),
        }
        show_json([number.as_json() | drawn for number in numbers])
        return
    named = list(loaded.tables) != [None]
    header = (
        *(["area"] if named else []),
        *(
            "number",
            "released",
            "by error law*",
            "estimate",
            "MC error",
            "low",
            "high",
            "without a prior",
            "eff. draws",
        ),
    )
    rows = [(*([number.area or "together"] if named else []), *number.as_row()) for number in numbers]
    if not loaded.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    how = [f"{level:.0%} intervals", f"prior {prior}", *(["areas pooled"] if found.is_pooled else [])]
    show_table(header, rows, ", ".join([*how, *(["all together"] if simultaneous else [])]))
    say(*_about(loaded))
    if any(number.estimate.is_median and not number.estimate.is_exact for number in numbers):
        say("Estimates of ratios and medians are posterior medians, the others posterior means.")
    say(
        "* approximate: the released number less the errors of releases of tables like this one. Estimate, low and high"
        " rest on the prior; where they disagree with the error law, it is the prior that speaks."
    )
    for why in dict.fromkeys(number.confidence.why for number in numbers if not number.confidence.is_available):
        say(f"Not available without a prior: {why}.")


def _about(bundle: "Bundle") -> list[str]:
    """Say which units of a tree the answers are about, and how to ask for others; nothing of tables without levels."""
    tree = bundle.tree
    if tree is None:
        return []
    codes, _ = bundle.level(tree.levels[0])
    units = ", ".join(codes) if len(codes) <= _FEW_UNITS else f"units, {len(codes):,} of them"
    return [
        f"These answers are about the top of the tree: {tree.levels[0]} {units}. For each {tree.levels[-1]} and every"
        " unit between: congenial estimate BUNDLE --out FOLDER, or the workbench."
    ]
