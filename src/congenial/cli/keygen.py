"""`congenial keygen`: a key to sign bundles with."""

from pathlib import Path

import click

from congenial.cli.output import refusals_in_words


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@refusals_in_words
def keygen(path: Path) -> None:
    """Write a new private key to PATH and its public key to PATH.pub."""
    from congenial.bundle.signing import create_key

    public = create_key(path)
    click.echo(f"{path} is the private key: keep it. {public} is the public key: publish it.")
