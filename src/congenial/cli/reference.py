"""The help of every command as one page: docs/commands.md."""

from collections.abc import Iterator

import click

_WIDTH = 100


def reference() -> str:
    """Return the page, in the order in which commands are used."""
    from congenial.cli import main

    head = "# Commands\n\nWhat `congenial COMMAND --help` says; `make commands` writes this page.\n"
    return head + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _helps(main, "congenial", None))


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    own = name.rsplit(maxsplit=1)[-1]
    context = click.Context(command, info_name=own, parent=parent, terminal_width=_WIDTH, **command.context_settings)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            yield from _helps(subcommand, f"{name} {inner}", context)
