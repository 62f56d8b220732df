"""The command line: each command parses, makes one library call, and prints."""

from collections.abc import Iterator
from pathlib import Path

import click

from congenial.cli.analyst import estimate, infer, show, verify
from congenial.cli.curator import check, demo, init, plan, simulate
from congenial.cli.ledger import ledger
from congenial.cli.output import Commands, as_json_option, refusals_in_words, say, show_json
from congenial.cli.release import keygen, ledger_option, release, who_option, withdraw
from congenial.cli.study import compare, reproduce, study

# The help of every command as one page: docs/commands.md.

_WIDTH = 100


def reference() -> str:
    """Return the page, in the order in which commands are used."""
    head = "# Commands\n\nWhat `congenial COMMAND --help` says; `make commands` writes this page.\n"
    return head + "".join(f"\n## {name}\n\n```\n{text}\n```\n" for name, text in _helps(main, "congenial", None))


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    own = name.rsplit(maxsplit=1)[-1]
    context = click.Context(command, info_name=own, parent=parent, terminal_width=_WIDTH, **command.context_settings)
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for inner, subcommand in command.commands.items():
            yield from _helps(subcommand, f"{name} {inner}", context)


# `congenial workbench`: a web application on this computer.


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path())
@ledger_option
@click.option("--key", type=click.Path(path_type=Path), help="Private key to sign releases with; see congenial keygen.")
@who_option
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on. Default: any that is free.")
@click.option("--no-browser", is_flag=True, help="Print the link without opening it.")
@as_json_option
@refusals_in_words
def workbench(
    folder: Path, place: str | None, key: Path | None, who: str | None, port: int, no_browser: bool, as_json: bool
) -> None:
    """Open FOLDER in a web browser: choose what is exact and see what it costs, release, ask bundles.

    It listens on this computer only. Whoever has the link that it prints can use it until it ends: keep the link to
    yourself. No file outside of FOLDER is read or written but the ledger and the key that are named here. Ctrl-C ends
    it. Needs the extra: pip install "congenial[workbench]".
    """
    import os

    from congenial.cli.release import user_name
    from congenial.errors import CongenialError

    try:
        from congenial.workbench.app import serve
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in {"starlette", "uvicorn", "python_multipart"}:
            raise
        raise CongenialError(
            f'the workbench needs the package {package!r}: pip install "congenial[workbench]"'
        ) from None

    def announce(link: str) -> None:
        if as_json:
            show_json({"folder": str(folder.absolute()), "link": link})
            return
        say(f"The workbench of {folder.absolute()} is open at this link, which is for you alone:")
        say(f"  {link}")
        say("Ctrl-C ends it.")

    ledger = place or os.environ.get("CONGENIAL_LEDGER")
    serve(
        folder, ledger=ledger, key=key, who=user_name(who), port=port, opens_browser=not no_browser, announce=announce
    )
    if not as_json:
        say("The workbench is closed.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="congenial")
def main() -> None:
    """Publish tables under differential privacy with some numbers exact.

    \b
    A curator's way:   init, check, plan, ledger create, release; later withdraw
    An analyst's way:  verify, show, infer, estimate
    In a browser:      workbench
    To study:          simulate, compare, study coverage, reproduce, demo

    Exit codes: 0 done, 1 refused (the message says why), 2 wrong command line, 130 interrupted.
    """  # noqa: D301  click wants the backspace character itself


for command in (
    init,
    check,
    plan,
    release,
    withdraw,
    verify,
    show,
    infer,
    estimate,
    ledger,
    keygen,
    simulate,
    compare,
    study,
    reproduce,
    demo,
    workbench,
):
    main.add_command(command)
