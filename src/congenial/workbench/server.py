"""Serve a folder on the loopback address, and open the link."""

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import python_multipart  # noqa: F401  what reads forms is needed, and missed at once where it is not there
import uvicorn

from congenial.disk import no_core_file
from congenial.errors import ReadingError, reason_of
from congenial.workbench.app import make_app
from congenial.workbench.desk import Desk
from congenial.workbench.security import new_token

HOST = "127.0.0.1"


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
        Tells somebody the link, which works once.
    """
    no_core_file()
    listening = _listen(port)
    own_port = listening.getsockname()[1]
    token = new_token()
    desk = Desk(folder.absolute(), ledger, key, who)
    link = f"http://{HOST}:{own_port}/?token={token}"
    announce(link)
    if opens_browser:
        webbrowser.open(link)
    app = make_app(desk, token, own_port)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, timeout_graceful_shutdown=5, proxy_headers=False
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


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
