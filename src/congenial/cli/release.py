"""`congenial release`: charge the budget, draw once, write the bundle."""

import sys
from pathlib import Path

import click

from congenial.cli.output import as_json_option, ask, progress_bar, refusals_in_words, say, show_json

ledger_option = click.option(
    "--ledger",
    "place",
    help="The budget ledger: a file such as budget.db, or a postgresql:// URL. Default: $CONGENIAL_LEDGER.",
)
who_option = click.option("--who", help="Who does it, for the ledger. Default: the name of the logged-in user.")


def user_name(who: str | None) -> str:
    """Return who is named, or the logged-in user."""
    if who is not None:
        return who
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise click.UsageError("say who releases: --who NAME") from None


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the bundle. Default: the release's name.")
@ledger_option
@who_option
@click.option("--sign", "key", type=click.Path(path_type=Path), help="Private key to sign with; see congenial keygen.")
@click.option("--yes", is_flag=True, help="Do not ask before the budget is charged.")
@click.option(
    "--confidential-report/--no-confidential-report",
    default=True,
    show_default=True,
    help="Write CONFIDENTIAL-<release>.html next to the spec: a comparison with the truth, for the curator alone.",
)
@as_json_option
@refusals_in_words
def release(
    spec: Path,
    out: Path | None,
    place: str | None,
    who: str | None,
    key: Path | None,
    yes: bool,
    confidential_report: bool,
    as_json: bool,
) -> None:
    """Release what SPEC describes into a bundle that can be published.

    Everything is checked first; then the budget is charged, one table is drawn for each area, and the bundle appears
    whole or not at all. The charge is never refunded.
    """
    from congenial.curator.pipeline import STEPS
    from congenial.curator.pipeline import release as run
    from congenial.ledger import open_ledger
    from congenial.spec.load import load_spec
    from congenial.table import CONFIDENTIAL

    found = load_spec(spec)
    folder = Path(found.release) if out is None else out
    ledger = open_ledger(place)
    name = user_name(who)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        ask(f"Charge release {found.release!r} to dataset {found.dataset!r} in {ledger!r}? It is never refunded")
    beside = spec.absolute().parent
    secret = beside / f"{CONFIDENTIAL}{found.release}.html" if confidential_report else None
    with progress_bar(f"releasing {found.release}", len(STEPS)) as step:
        made = run(found, beside, folder, ledger=ledger, who=name, key=key, confidential_report=secret, progress=step)
    receipt = made.release.receipt
    if as_json:
        values = {"bundle": str(made.folder), "receipt": None if receipt is None else receipt.as_json()}
        show_json({**values, "confidential_report": None if secret is None else str(secret)})
        return
    if receipt is not None:
        say(
            f"Charged {receipt.currency} {float(receipt.loss):.6g} to dataset {receipt.dataset!r};"
            f" {float(receipt.left):.6g} of {float(receipt.cap):.6g} left."
        )
    if secret is not None:
        say(f"For you alone: {secret}")
    say(f"The bundle is in {made.folder}; open {made.folder / 'report.html'}")
