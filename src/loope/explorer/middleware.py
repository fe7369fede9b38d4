"""Check the origin of requests, and add security headers to responses."""

from __future__ import annotations

import ipaddress
import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that listens on `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Middleware:
    """Refuses cross-site requests, and adds the security headers.

    Args:
        app: the wrapped application.
        local: whether it serves this machine only. Requests must then name a loopback host, which prevents DNS
            rebinding.
    """

    def __init__(self, app: ASGIApp, local: bool):
        self.app = app
        self.local = local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(Headers(scope=scope))
        respond = self.app if refusal is None else JSONResponse({"error": refusal}, 403)
        await respond(scope, receive, send_with_headers)

    def _refusal(self, headers: Headers) -> str | None:
        name = re.sub(r":\d+$", "", headers.get("host", "")).strip("[]")
        if self.local and not is_loopback(name):
            return f"This explorer answers to localhost only, not to {name!r}; start it with --host to admit others."
        origin = headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
        if foreign or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "This request comes from another site; open the explorer itself."
        return None
