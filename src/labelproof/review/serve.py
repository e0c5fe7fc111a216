"""Running the review page on this computer alone."""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable

import uvicorn

from labelproof.errors import BadInput
from labelproof.review.web_app import Desk, make_app

HOST = "127.0.0.1"


def serve(desk: Desk, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C; `ready` is told the address when it can be opened."""
    port, token = listener.getsockname()[1], secrets.token_urlsafe(16)
    config = uvicorn.Config(
        make_app(desk, token=token, port=port),
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws="none",  # an upgrade is answered like any other request
    )
    listener.listen()  # from here on the browser is answered, if a moment late
    ready(f"http://{HOST}:{port}/{token}/")
    uvicorn.Server(config).run(sockets=[listener])


def bind(port: int | None) -> socket.socket:
    """A socket on the loopback address; None takes a free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port or 0))
    except (OSError, OverflowError) as error:
        listener.close()
        raise BadInput(_why(port, error)) from None
    return listener


def _why(port: int | None, error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return f"port {port} is in use; leave out --port to take a free one, or name another."
    if number == errno.EACCES:
        return f"port {port} is reserved for the system; name one above 1023."
    return f"port {port} cannot be used ({error}); name one from 1024 to 65535."
