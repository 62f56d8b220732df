"""Serve a folder on the loopback address, and open the link."""

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import python_multipart  # noqa: F401  what reads forms is needed, and missed at once where it is not there
import uvicorn

from congenial.disk import no_core_file
from congenial.errors import ReadingError, reason_of
from congenial.workbench.app import HOST, make_app
from congenial.workbench.desk import Desk
from congenial.workbench.security import new_token


def serve(
    folder: Path,
    *,
    ledger: str | None,
    key: Path | None,
    who: str,
    port: int,
    opens_browser: bool,
    announce: Callable[[str], None],
) -> None:
    """Serve until interrupted; a release that was begun is finished first.

    Parameters
    ----------
    port : int
        0 is any that is free.
    announce : function
        Tells somebody the link, which is good until the end.
    """
    no_core_file()
    listening = _listen(port)
    own_port = listening.getsockname()[1]
    token = new_token()
    desk = Desk(folder.absolute(), ledger, key, who)
    link = f"http://{HOST}:{own_port}/{token}/"
    announce(link)
    if opens_browser:
        webbrowser.open(page_to(link, desk.scratch).as_uri())
    app = make_app(desk, token, own_port)
    config = uvicorn.Config(
        app,
        log_level="critical",  # what the server would log quotes errors
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def page_to(link: str, folder: Path) -> Path:
    """Write a page that leads to the link, in a folder of this user's alone: all users see arguments of programs."""
    page = folder / "open.html"
    page.write_text(
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<title>congenial workbench</title><meta http-equiv="refresh" content="0; url={link}">'
        f'<a href="{link}">Open the workbench</a></html>\n',
        encoding="utf-8",
    )
    return page


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from here on a browser that comes early waits, and is not turned away
    except OSError as refused:
        listening.close()
        raise ReadingError(
            f"port {port} cannot be used: {reason_of(refused)}; name another one, or leave it out"
        ) from None
    return listening
