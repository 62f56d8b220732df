"""`congenial estimate`: what the release of a tree says of every unit, as files."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.progress import progress_bar


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="A new folder for the estimates.")
@click.option("--level", type=float, default=0.9, show_default=True, help="Probability of the intervals.")
@click.option("--draws", type=int, help="Posterior draws to keep; 1,000 for small trees, 100 for large ones.")
@click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")
@as_json_option
@refusals_in_words
def estimate(bundle: Path, out: Path, level: float, draws: int | None, seed: int | None, as_json: bool) -> None:
    """Estimate every unit and cell of a tree from BUNDLE alone: mean, median, integers that add up, intervals.

    A release is a draw: for small areas use the estimate. It rests on a prior that is learned from the release, and
    says loudly where that does not fit. Files: a Parquet file for each level, summary.txt, estimates.svg.
    """
    from congenial.bundle.loading import load_bundle
    from congenial.inference.intervals import check_level
    from congenial.inference.tree.draws import check_draws
    from congenial.inference.tree.estimate import FEWEST_DRAWS
    from congenial.inference.tree.writing import as_plain_values, check_new, summary, write_estimate
    from congenial.randomness import replay_rng, secure_rng

    check_draws(FEWEST_DRAWS if draws is None else draws, check_level(level))
    check_new(out)
    loaded = load_bundle(bundle)
    for line in loaded.not_checked:
        say(f"NOT checked: {line}", bold=True, err=True)
    rng = secure_rng() if seed is None else replay_rng(f"estimate {seed}")
    with progress_bar("estimating") as step:
        found = loaded.estimate(n_draws=draws, rng=rng, progress=step)
    write_estimate(found, out, level)
    if as_json:
        show_json({"folder": str(out), "seed": seed, **as_plain_values(found, level)})
        return
    if not loaded.manifest.is_for_release:
        say("NOT FOR RELEASE: this bundle is a simulation.", bold=True)
    say(*summary(found, level))
    say(f"Written to {out}.")
