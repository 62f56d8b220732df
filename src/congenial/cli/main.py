"""The registry of commands, in the order in which help lists them, and their page; a command parses, calls, prints."""

from collections.abc import Iterator, Sequence

import click

from congenial.cli import analyst, curator, ledger, study
from congenial.cli import release_withdraw_keygen as release
from congenial.cli.command_and_output import CommandLine

COMMANDS: tuple[click.Command, ...] = (
    curator.init,
    curator.check,
    curator.plan,
    release.release,
    release.withdraw,
    analyst.verify,
    analyst.decide,
    analyst.show,
    analyst.infer,
    analyst.estimate,
    click.Group(
        "ledger",
        [ledger.create, ledger.upgrade, ledger.status, ledger.history, ledger.verify, ledger.export],
        help="Keep the budget ledger: create datasets, see what was spent, verify, export.",
    ),
    release.keygen,
    curator.simulate,
    study.compare,
    click.Group("study", [study.coverage, study.errors], help="Try the whole on public or simulated tables."),
    study.reproduce,
    curator.demo,
    curator.workbench,
)
"""Every command: a function with `congenial.cli.command_and_output.command` above it."""

_HELP = """Publish tables under differential privacy with some numbers exact.

\b
A curator's way:   init, check, plan, ledger create, release; later withdraw
An analyst's way:  verify, show, infer, estimate, decide
In a browser:      workbench
To study:          simulate, compare, study coverage, study errors, reproduce, demo

Exit codes: 0 done, 1 refused (the message says why), 2 wrong command line, 130 interrupted.
"""


def command_line(commands: Sequence[click.Command] = COMMANDS) -> click.Group:
    """Return `congenial` with these commands."""
    group = CommandLine("congenial", commands, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
    version: click.Group = click.version_option(package_name="congenial")(group)
    return version


main = command_line()


# The help of every command as one page: docs/commands.md.

_WIDTH = 100


def reference(group: click.Group = main) -> str:
    """Return the page, in the order in which commands are used."""
    head = "# Commands\n\nWhat `congenial COMMAND --help` says; `make commands` writes this page.\n"
    return head + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _helps(group, "congenial", None))


def _helps(command: click.Command, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    name = path.rsplit(maxsplit=1)[-1]
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, **command.context_settings)
    yield path, command.get_help(context)
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            yield from _helps(subcommand, f"{path} {inner}", context)
