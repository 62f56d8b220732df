"""`congenial simulate`: a bundle that looks like a release and is marked as none."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.progress import progress_bar


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: NOT-FOR-RELEASE-<release>.")
@click.option("--seed", type=int, default=1, show_default=True, help="Public: the same seed gives the same tables.")
@as_json_option
@refusals_in_words
def simulate(spec: Path, out: Path | None, seed: int, as_json: bool) -> None:
    """Make a bundle from public or simulated data and a public seed. Nothing is charged, nobody is protected."""
    from congenial.curator.pipeline import simulate as run
    from congenial.spec.load import load_spec

    found = load_spec(spec)
    folder = Path(f"NOT-FOR-RELEASE-{found.release}") if out is None else out
    with progress_bar("simulating") as step:
        made = run(found, spec.absolute().parent, folder, seed=seed, progress=step)
    if as_json:
        show_json({"bundle": str(made.folder), "is_for_release": False})
    else:
        say(f"NOT FOR RELEASE: a simulation in {made.folder}")
