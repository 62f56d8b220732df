"""Commands of the budget ledger: create, upgrade, status, history, verify, export."""

from pathlib import Path

import click

from congenial.cli.command_and_output import command, say, show_json, show_lines, show_result, show_table
from congenial.cli.release_withdraw_keygen import ledger_option, user_name, who_option
from congenial.errors import LedgerError, OtherVersionError, reason_of
from congenial.privacy import RELATIONS

_MOST_LISTED = 200


@command
@click.argument("dataset")
@ledger_option
@click.option("--epsilon", help="The cap in pure epsilon, exactly: 4, 0.5 or 1/2.")
@click.option("--rho", help="The cap in rho (zCDP) instead.")
@click.option("--delta", help="With --rho: show the account as an epsilon at this delta, too.")
@click.option("--neighbours", type=click.Choice(RELATIONS), default=RELATIONS[0], show_default=True, help="Relation.")
@who_option
def create(
    dataset: str,
    place: str | None,
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    neighbours: str,
    who: str | None,
    as_json: bool,
) -> None:
    """Give DATASET a budget. The ledger is created if there is none; a cap is never changed later."""
    from congenial.ledger import open_ledger

    book = open_ledger(place, create=True)
    book.create_dataset(dataset, epsilon=epsilon, rho=rho, delta=delta, neighbours=neighbours, who=user_name(who))
    account = book.status(dataset)
    show_result(account.as_json(), *str(account).split("\n"), as_json=as_json)


@command
@ledger_option
def upgrade(place: str | None, as_json: bool) -> None:
    """Bring the tables of a ledger that an older version made up to date; its records stay as they are."""
    from congenial.ledger import open_ledger

    try:
        open_ledger(place)
    except OtherVersionError:
        verification = open_ledger(place, create=True).verify()
        message = "The tables are up to date now."
    else:
        verification, message = open_ledger(place).verify(), "The tables were up to date."
    show_result({"result": message}, message, *str(verification).split("\n"), as_json=as_json)


@command
@click.argument("dataset", required=False)
@ledger_option
def status(dataset: str | None, place: str | None, as_json: bool) -> None:
    """Show what is spent and left, of DATASET or of all."""
    from congenial.ledger import open_ledger

    book = open_ledger(place)
    names = [known.name for known in book.datasets()] if dataset is None else [dataset]
    accounts = [book.status(name) for name in names]
    if as_json:
        show_json([account.as_json() for account in accounts])
        return
    for account in accounts:
        say(*str(account).split("\n"))
    if not accounts:
        say("The ledger has no datasets yet; congenial ledger create NAME --epsilon 4 adds one.")


@command
@click.argument("dataset")
@click.option("--release", "name", help="Only this release, with every number that it disclosed exactly.")
@ledger_option
def history(dataset: str, name: str | None, place: str | None, as_json: bool) -> None:
    """List what was charged to DATASET, the newest first, what became of it, and what was disclosed exactly."""
    from congenial.ledger import open_ledger
    from congenial.ledger.status_and_past_releases import past_of, summary_of_disclosed
    from congenial.privacy.certificate import shown

    releases = past_of(open_ledger(place), dataset, name)
    if as_json:
        show_json([past.as_json() for past in releases])
        return
    if not releases:
        say(f"Nothing was charged to dataset {dataset!r} so far.")
        return
    header = ["record", "release", "at", "who", "loss", "spent in all"]
    rows = [
        [str(spend.number), spend.release, spend.at, spend.who, shown(spend.loss), shown(spend.spent)]
        for spend in (past.spend for past in releases)
    ]
    if any(past.became for past in releases):
        header.append("since then")
        rows = [[*row, past.standing] for row, past in zip(rows, releases, strict=True)]
    show_table(header, rows, f"Releases of dataset {dataset}, the newest first")
    say("Disclosed exactly, whatever became of the release; no noise protects it:", bold=True)
    if name is not None:
        (past,) = releases
        show_table(("statistic", "value"), past.spend.invariants[:_MOST_LISTED])
        if len(past.spend.invariants) > _MOST_LISTED:
            say(f"These are the first {_MOST_LISTED} of {len(past.spend.invariants):,}; --json lists all.")
        return
    for past in releases:
        say(f"  {past.spend.release}: {summary_of_disclosed(past.spend.invariants)}")
    say("Every number of one release: --release NAME.")


@command
@click.argument("dataset", required=False)
@ledger_option
@click.option("--bundle", type=click.Path(path_type=Path), help="A bundle whose receipt must still be in the ledger.")
def verify(dataset: str | None, place: str | None, bundle: Path | None, as_json: bool) -> None:
    """Recompute every hash and every sum. With --bundle, truncation and rewriting show as well."""
    from congenial.ledger import open_ledger

    head = None
    if bundle is not None:
        from congenial.inference.analyst_bundle import load_bundle

        receipt = load_bundle(bundle).manifest.receipt
        head = None if receipt is None else receipt.head
    verification = open_ledger(place).verify(dataset, head)
    text = str(verification)
    show_result({"verified": True, "result": text}, *text.split("\n"), as_json=as_json)


@command
@click.argument("dataset", required=False)
@ledger_option
@click.option("--out", type=click.Path(path_type=Path), help="File to write; standard output when not given.")
def export(dataset: str | None, place: str | None, out: Path | None, as_json: bool) -> None:
    """Write all records as JSON lines, which can be verified without the database; with --json as one list."""
    from congenial.ledger import open_ledger

    text = open_ledger(place).export(dataset)
    if out is None and as_json:
        import json

        show_json([json.loads(line) for line in text.splitlines()])
        return
    if out is None:
        show_lines(text)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as refused:
        raise LedgerError(f"{out} cannot be written: {reason_of(refused)}") from None
    show_result({"file": str(out)}, f"written to {out}", as_json=as_json)
