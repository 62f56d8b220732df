"""`congenial ledger`: budgets of datasets, what was spent, and whether the books are in order."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json, show_lines, show_table
from congenial.cli.release import ledger_option, user_name, who_option
from congenial.errors import LedgerError, OtherVersionError, reason_of
from congenial.privacy.relation import RELATIONS


@click.group()
def ledger() -> None:
    """Keep the budget ledger: create datasets, see what was spent, verify, export."""


@ledger.command()
@click.argument("dataset")
@ledger_option
@click.option("--epsilon", help="The cap in pure epsilon, exactly: 4, 0.5 or 1/2.")
@click.option("--rho", help="The cap in rho (zCDP) instead.")
@click.option("--delta", help="With --rho: show the account as an epsilon at this delta, too.")
@click.option("--neighbours", type=click.Choice(RELATIONS), default=RELATIONS[0], show_default=True, help="Relation.")
@who_option
@as_json_option
@refusals_in_words
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
    if as_json:
        show_json(book.status(dataset).as_json())
    else:
        say(*str(book.status(dataset)).split("\n"))


@ledger.command()
@ledger_option
@as_json_option
@refusals_in_words
def upgrade(place: str | None, as_json: bool) -> None:
    """Bring the tables of a ledger that an older version made up to date; its records stay as they are."""
    from congenial.ledger import open_ledger

    try:
        open_ledger(place)
    except OtherVersionError:
        found = open_ledger(place, create=True).verify()
        told = "The tables are up to date now."
    else:
        found, told = open_ledger(place).verify(), "The tables were up to date."
    if as_json:
        show_json({"result": told})
    else:
        say(told, *str(found).split("\n"))


@ledger.command()
@click.argument("dataset", required=False)
@ledger_option
@as_json_option
@refusals_in_words
def status(dataset: str | None, place: str | None, as_json: bool) -> None:
    """Show what is spent and left, of DATASET or of all."""
    from congenial.ledger import open_ledger

    book = open_ledger(place)
    names = [known.name for known in book.datasets()] if dataset is None else [dataset]
    found = [book.status(name) for name in names]
    if as_json:
        show_json([account.as_json() for account in found])
        return
    for account in found:
        say(*str(account).split("\n"))
    if not found:
        say("The ledger has no datasets yet; congenial ledger create NAME --epsilon 4 adds one.")


@ledger.command()
@click.argument("dataset")
@ledger_option
@as_json_option
@refusals_in_words
def history(dataset: str, place: str | None, as_json: bool) -> None:
    """List every spend of DATASET, and what was disclosed exactly."""
    from congenial.ledger import open_ledger

    book = open_ledger(place)
    spends = book.history(dataset)
    if as_json:
        show_json(
            [
                {
                    "number": spend.number,
                    "release": spend.release,
                    "at": spend.at,
                    "who": spend.who,
                    "loss": str(spend.loss),
                    "spent": str(spend.spent),
                    "invariants": [list(pair) for pair in spend.invariants],
                    "hash": spend.hash,
                }
                for spend in spends
            ]
        )
        return
    rows = [
        (str(spend.number), spend.release, spend.at, spend.who, f"{float(spend.loss):.6g}", f"{float(spend.spent):.6g}")
        for spend in spends
    ]
    show_table(("spend", "release", "at", "who", "loss", "spent in all"), rows, f"Spends of dataset {dataset}")
    known = book.disclosed(dataset)
    if known:
        show_table(
            ("disclosed exactly", "value", "by release"),
            [(disclosure.statistic, disclosure.value, disclosure.release) for disclosure in known[:200]],
            "" if len(known) <= 200 else f"the first 200 of {len(known):,} disclosed statistics",
        )


@ledger.command()
@click.argument("dataset", required=False)
@ledger_option
@click.option("--bundle", type=click.Path(path_type=Path), help="A bundle whose receipt must still be in the ledger.")
@as_json_option
@refusals_in_words
def verify(dataset: str | None, place: str | None, bundle: Path | None, as_json: bool) -> None:
    """Recompute every hash and every sum. With --bundle, truncation and rewriting show as well."""
    from congenial.ledger import open_ledger

    head = None
    if bundle is not None:
        from congenial.bundle.loading import load_bundle

        receipt = load_bundle(bundle).manifest.receipt
        head = None if receipt is None else receipt.head
    found = open_ledger(place).verify(dataset, head)
    if as_json:
        show_json({"verified": True, "result": str(found)})
    else:
        say(*str(found).split("\n"))


@ledger.command()
@click.argument("dataset", required=False)
@ledger_option
@click.option("--out", type=click.Path(path_type=Path), help="File to write; standard output when not given.")
@as_json_option
@refusals_in_words
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
    if as_json:
        show_json({"file": str(out)})
    else:
        say(f"written to {out}")
