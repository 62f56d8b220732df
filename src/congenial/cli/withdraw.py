"""`congenial withdraw`: say in the ledger that a published release should no longer be used."""

import click

from congenial.cli.output import as_json_option, ask, refusals_in_words, say, show_json
from congenial.cli.release import ledger_option, user_name, who_option


@click.command()
@click.argument("dataset")
@click.argument("release")
@click.option("--reason", required=True, help="Why, in one line; the ledger keeps it for good.")
@ledger_option
@who_option
@click.option("--yes", is_flag=True, help="Do it without asking; needed where there is no terminal.")
@as_json_option
@refusals_in_words
def withdraw(
    dataset: str, release: str, reason: str, place: str | None, who: str | None, yes: bool, as_json: bool
) -> None:
    """Record that RELEASE of DATASET is withdrawn: it should no longer be used.

    What it cost stays spent, because whoever has a copy keeps it. `congenial verify --ledger` says from now on that it
    is withdrawn. To replace it, release a corrected edition: a new name, with `replaces: RELEASE` in its spec.
    """
    from congenial.ledger import open_ledger
    from congenial.privacy.certificate import shown

    ledger = open_ledger(place)
    name = user_name(who)
    ask(f"withdraw release {release!r} of dataset {dataset!r} in {ledger!r} (what it cost stays spent)", yes=yes)
    made = ledger.withdraw(dataset, release, reason=reason, who=name)
    account = ledger.status(dataset)
    if as_json:
        show_json({"withdrawal": made.row, "status": account.as_json()})
        return
    spent = f"{account.dataset.currency} {shown(account.spent)} of {shown(account.dataset.cap)}"
    say(
        f"Release {release!r} of dataset {dataset!r} is withdrawn.",
        f"What it cost stays spent, because copies of it may be kept: {spent}, as before.",
        "Take its folder off the website, and say there that it is withdrawn and why.",
    )
