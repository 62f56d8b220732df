"""`congenial workbench`: a web application on this computer."""

from pathlib import Path

import click

from congenial.cli.output import as_json_option, refusals_in_words, say, show_json
from congenial.cli.release import ledger_option, who_option


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
        from congenial.workbench.server import serve
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
