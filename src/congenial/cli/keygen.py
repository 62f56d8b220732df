"""`congenial keygen`: a key to sign bundles with."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@as_json_option
@refusals_in_words
def keygen(path: Path, as_json: bool) -> None:
    """Write a new private key to PATH and its public key to PATH.pub."""
    from congenial.bundle.signing import create_key

    public = create_key(path)
    if as_json:
        show_json({"private_key": str(path), "public_key": str(path.with_name(public))})
        return
    say(f"{path} is the private key: keep it. {public} is the public key: publish it.")
