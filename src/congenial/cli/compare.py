"""`congenial compare`: mechanisms side by side at equal certified loss."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.progress import progress_bar

if TYPE_CHECKING:
    from congenial.study.comparison import Comparison
    from congenial.study.tree_comparison import TreeComparison


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="New folder for a page, pictures and a tidy CSV.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    help="congenial, raw, clip, l2, l1 or topdown; of a hierarchy congenial, topdown or leaves; may be repeated.",
)
@click.option("--releases", type=int, help="Releases of each table by each method. Default: 100, or 10 of a hierarchy.")
@click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")
@as_json_option
@refusals_in_words
def compare(
    spec: Path, out: Path | None, methods: tuple[str, ...], releases: int | None, seed: int | None, as_json: bool
) -> None:
    """Compare mechanisms on the tables of SPEC: distances, bias by size of count, zeros, broken invariants, time.

    A comparison with the truth is confidential unless the data are public or simulated (`status:` in the spec). With
    confidential data the result goes to a folder that begins with CONFIDENTIAL, and nowhere else.
    """
    from congenial.curator.pipeline import read_tree
    from congenial.randomness import replay_rng, secure_rng
    from congenial.reading.tables import read_tables
    from congenial.spec.load import load_spec
    from congenial.study.compare import DEFAULT_METHODS
    from congenial.study.compare import compare as run
    from congenial.study.compare_tree import compare_tree

    found, folder = load_spec(spec), spec.absolute().parent
    rng = secure_rng() if seed is None else replay_rng(f"compare {seed}")
    result: Comparison | TreeComparison
    if found.hierarchy is not None:
        hierarchy, leaves = read_tree(found, found.hierarchy, folder)
        n_releases = 10 if releases is None else releases
        with progress_bar("comparing") as step:
            result = compare_tree(
                hierarchy,
                leaves,
                source=found.data.status,
                methods=methods or None,
                n_releases=n_releases,
                rng=rng,
                out=out,
                progress=step,
            )
    else:
        tables = read_tables(found, folder)
        with progress_bar("comparing") as step:
            result = run(
                found.mechanism,
                tables.values(),
                source=found.data.status,
                methods=methods or DEFAULT_METHODS,
                n_releases=100 if releases is None else releases,
                rng=rng,
                out=out,
                progress=step,
            )
    if result.is_confidential and as_json:
        show_json({"is_confidential": True, "folder": str(out)})
    elif result.is_confidential:
        say(f"CONFIDENTIAL: written to {out}")
    elif as_json:
        show_json({name: list(column) for name, column in result.summary.items()})
    else:
        say(*str(result).split("\n"))
        if out is not None:
            say(f"written to {out}; open {out / 'index.html'}")
