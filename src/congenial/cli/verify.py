"""`congenial verify`: whether a bundle agrees with itself, with its publisher's key and with a ledger."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.progress import quiet_bar

NOT_CHECKED = 3
"""Exit code when nothing was found wrong, and something could not be checked."""


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path), help="The publisher's public key; the bundle must be signed by it."
)
@click.option("--ledger", "place", help="A ledger that must hold the bundle's receipt: a file or a postgresql:// URL.")
@as_json_option
@refusals_in_words
def verify(bundle: Path, key: Path | None, place: str | None, as_json: bool) -> None:
    """Check BUNDLE against itself: whatever follows from its tables and conditions is computed again.

    Without a signature it can only agree with itself. With --key, it is as that key published it. With --ledger, the
    ledger holds the spend that paid for it, and says whether the release was withdrawn or replaced since.

    The exit code is 1 when anything is wrong, and 3 when nothing is, but something could not be checked because other
    versions of the software made it.
    """
    from congenial.bundle.promises import replaced
    from congenial.bundle.verifying import verify_bundle
    from congenial.ledger import open_ledger

    ledger = None if place is None else open_ledger(place)
    with quiet_bar(f"verifying {bundle.name}") as step:
        found = verify_bundle(bundle, key=key, ledger=ledger, progress=step)
    if as_json:
        show_json(
            {
                "bundle": str(bundle),
                "standing": found.standing,
                "checked": found.checked,
                "not_checked": found.not_checked,
                "left_out": found.bundle.manifest.left_out,
                "signed_by": found.bundle.signed_by,
                "replaces": found.bundle.manifest.naming.replaces,
                "withdrawn": None if found.became is None else found.became.row,
                "is_for_release": found.bundle.manifest.is_for_release,
            }
        )
    else:
        say(str(found.bundle))
        say(f"It {found.standing}.")
        if found.became is not None:
            say(f"The ledger says that it should no longer be used: it was {found.became.text}.", bold=True)
        say(*replaced(found.bundle.manifest))
        for line in found.checked:
            say(f"  {line}")
        for name, reason in found.bundle.manifest.left_out.items():
            say(f"  {name} was left out: {reason}")
        for line in found.not_checked:
            say(f"  NOT checked: {line}", bold=True)
    if found.not_checked:
        raise SystemExit(NOT_CHECKED)
