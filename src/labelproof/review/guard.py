"""Keeps strangers out of the review page: other hosts, other sites, those without the token.

The server listens on this computer alone, but any page in the browser could try to reach it. So
every address holds a random token; the Host header must be the server's own (a name that was made
to point here is refused); what changes something must come from the page itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE = ("GET", "HEAD")
LONGEST = 2000  # letters of a path; numbers in it have a few digits
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """Middleware that refuses what does not come from the page itself."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
            return
        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            return PlainTextResponse("This page can only be opened at its own address.", 421)
        given = path.split("/", 2)[1] if path.count("/") >= 1 else ""
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return PlainTextResponse(
                "Use the complete address that labelproof review printed.", 404
            )
        if len(path) > LONGEST:
            return PlainTextResponse("There is no such address.", 414)
        if method not in SAFE and not self._from_page(host, headers):
            return PlainTextResponse("Only the review page itself may change decisions.", 403)
        return None

    def _from_page(self, host: str, headers: Mapping[str, str]) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        same = origin is None or origin == f"http://{host}"
        kind = headers.get("content-type", "").split(";")[0].strip()
        return same and site in (None, "same-origin") and kind == "application/json"
