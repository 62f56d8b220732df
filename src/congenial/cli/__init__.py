"""The command line: each command parses, makes one library call, and prints."""

import click

from congenial.cli.demo import demo
from congenial.cli.reproduce import reproduce


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="congenial")
def main() -> None:
    """Publish tables under differential privacy with some numbers exact."""


for command in (demo, reproduce):
    main.add_command(command)
