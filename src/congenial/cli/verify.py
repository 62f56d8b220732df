"""`congenial verify`: whether a bundle is as it was published."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.release import ledger_option


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path), help="The publisher's public key; the bundle must be signed by it."
)
@ledger_option
@as_json_option
@refusals_in_words
def verify(bundle: Path, key: Path | None, place: str | None, as_json: bool) -> None:
    """Check that nothing in BUNDLE was changed, that its tables obey its invariants, and that its certificate holds.

    With --ledger, also that the ledger still holds the spend that paid for it.
    """
    from congenial.bundle.loading import load_bundle

    found = load_bundle(bundle, key=key)
    checked = [
        "every file is as it was published",
        "every table obeys the invariants, and the exact numbers are those of the tables",
        "the certificate was computed again from the published law and holds",
    ]
    if found.signed_by is not None:
        whose = (
            "the given key" if key is not None else f"key {found.signed_by[:16]}..., which was not compared with yours"
        )
        checked.append(f"the manifest is signed by {whose}")
    if place is not None:
        checked.append(_in_ledger(found, place))
    if as_json:
        show_json({"bundle": str(bundle), "verified": checked, "is_for_release": found.manifest.is_for_release})
        return
    say(str(found))
    for line in checked:
        say(f"  {line}")
    if found.signed_by is None:
        say("  it is not signed: whoever can write the whole folder can replace it")


def _in_ledger(found: object, place: str) -> str:
    from congenial.bundle.loading import Bundle
    from congenial.errors import BundleError
    from congenial.ledger import open_ledger

    if not isinstance(found, Bundle) or found.manifest.receipt is None:
        raise BundleError("the bundle has no receipt: it is a simulation, and no ledger knows it")
    receipt, ledger = found.manifest.receipt, open_ledger(place)
    ledger.verify(receipt.dataset, receipt.head)
    spend = next((own for own in ledger.history(receipt.dataset) if own.number == receipt.number), None)
    if spend is None or spend.plan != found.manifest.plan_digest:
        raise BundleError("the ledger's spend paid for another plan than this bundle's")
    return "the ledger holds the spend that paid for it"
