"""`congenial release`: charge the budget, draw once, write the bundle."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from congenial.cli.output import as_json_option, ask, refusals_in_words, say, show_json
from congenial.cli.progress import progress_bar
from congenial.cli.spark_options import engine_of, spark_options, taken

if TYPE_CHECKING:
    from congenial.curator.pipeline import Published
    from congenial.ledger import Ledger, Status
    from congenial.spec.spec import Spec

ledger_option = click.option(
    "--ledger",
    "place",
    help="The budget ledger: a file such as budget.db, or a postgresql:// URL. Default: $CONGENIAL_LEDGER.",
)
keys_option = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="Private folder for the keys of releases under way. Default: $CONGENIAL_KEYS, or beside the ledger's file.",
)
memory_option = click.option(
    "--memory",
    callback=lambda _, __, amount: bound_memory(amount),
    expose_value=False,
    metavar="AMOUNT",
    help="How much memory to take at most, such as 2GB. Default: $CONGENIAL_MEMORY, or half of what the computer has.",
)
who_option = click.option("--who", help="Who does it, for the ledger. Default: the name of the logged-in user.")


def bound_memory(amount: str | None) -> None:
    """Bound the memory of this process, if that is asked for."""
    from congenial.errors import CongenialError
    from congenial.resources import set_memory

    if amount is not None:
        try:
            set_memory(amount)
        except CongenialError as wrong:
            raise click.UsageError(str(wrong)) from None


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
@keys_option
@who_option
@memory_option
@click.option("--sign", "key", type=click.Path(path_type=Path), help="Private key to sign with; see congenial keygen.")
@click.option("--yes", is_flag=True, help="Charge the budget without asking; needed where there is no terminal.")
@click.option("--resume", is_flag=True, help="Go on with a release that was stopped after its charge; charges nothing.")
@click.option("--abandon", is_flag=True, help="Give up a release that was stopped after its charge; the spend stays.")
@click.option(
    "--confidential-report/--no-confidential-report",
    default=True,
    show_default=True,
    help="Write CONFIDENTIAL-<release>.html next to the spec: a comparison with the truth, for the curator alone.",
)
@spark_options
@as_json_option
@refusals_in_words
def release(
    spec: Path,
    out: Path | None,
    place: str | None,
    keys: Path | None,
    who: str | None,
    key: Path | None,
    yes: bool,
    resume: bool,
    abandon: bool,
    confidential_report: bool,
    as_json: bool,
    **spark: object,
) -> None:
    """Release what SPEC describes into a bundle that can be published.

    A release name that was used and a budget that is too full are found at once. Then everything else is checked; then
    the budget is charged, one table is drawn for each area, and the bundle appears
    whole or not at all. The charge is never refunded. A release that was stopped after its charge ends in the same
    bundle with --resume, if data, spec and software are the same.
    """
    from congenial.curator import pipeline
    from congenial.disk import no_core_file
    from congenial.ledger import open_ledger
    from congenial.spec.load import load_spec
    from congenial.table import CONFIDENTIAL

    if resume and abandon:
        raise click.UsageError("--resume goes on with a release and --abandon gives it up; choose one")
    options = taken(spark)
    no_core_file()
    found = load_spec(spec)
    ledger = open_ledger(place, keys=keys)
    if abandon:
        _abandon(ledger, found.dataset, found.release, yes=yes)
        return
    beside = spec.absolute().parent
    secret = beside / f"{CONFIDENTIAL}{found.release}.html" if confidential_report else None
    name = "" if resume else user_name(who)
    if not resume:
        account = pipeline.check_chargeable(found, ledger)
        ask(_question(found, account, repr(ledger)), yes=yes)
    with progress_bar(f"releasing {found.release}") as step, engine_of(options) as engine:
        if resume:
            made = pipeline.resume(
                *(found, beside, out), ledger=ledger, key=key, confidential_report=secret, progress=step, engine=engine
            )
        else:
            folder = Path(found.release) if out is None else out
            made = pipeline.release(
                *(found, beside, folder),
                ledger=ledger,
                who=name,
                key=key,
                confidential_report=secret,
                progress=step,
                engine=engine,
            )
    _show(made, secret, as_json=as_json, is_resumed=resume)


def _question(spec: "Spec", account: "Status", where: str) -> str:
    """Ask whether to charge, with what it will cost at most and what is left."""
    from congenial.privacy.certificate import shown, shown_left

    dataset = account.dataset
    cost = "" if spec.budget is None else f", at most {spec.budget.amount},"
    left = f"{shown_left(account.left, dataset.cap)} of {dataset.currency} {shown(dataset.cap)} is left, and nothing is"
    return f"charge release {spec.release!r}{cost} to dataset {dataset.name!r} in {where} ({left} ever refunded)"


def _abandon(ledger: "Ledger", dataset: str, release: str, *, yes: bool) -> None:
    from congenial.privacy.certificate import shown
    from congenial.release import abandon

    ask(f"give up release {release!r} of dataset {dataset!r} (what it cost stays spent)", yes=yes)
    receipt = abandon(ledger, dataset, release)
    say(
        f"Gave up release {release!r}: its key is destroyed, unfinished bundles are removed, and {receipt.currency}"
        f" {shown(receipt.loss)} of dataset {dataset!r} stays spent."
    )


def _show(made: "Published", secret: Path | None, *, as_json: bool, is_resumed: bool) -> None:
    from congenial.privacy.certificate import shown, shown_left

    receipt = made.release.receipt
    if made.missing:
        say(f"Warning: {made.missing}; the bundle is whole", err=True)
        secret = None
    if as_json:
        values = {"bundle": str(made.folder), "receipt": None if receipt is None else receipt.as_json()}
        show_json({**values, "confidential_report": None if secret is None else str(secret)})
        return
    if receipt is not None:
        told = "Charged before, on " + receipt.at + ":" if is_resumed else "Charged"
        say(
            f"{told} {receipt.currency} {shown(receipt.loss)} to dataset {receipt.dataset!r};"
            f" {shown_left(receipt.left, receipt.cap)} of {shown(receipt.cap)} left."
        )
    if secret is not None:
        say(f"For you alone: {secret}")
    say(f"The bundle is in {made.folder}; open {made.folder / 'report.html'}")
