"""Guard of HTTP against web pages: names of this machine, permitted origins, and security headers of answers."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.server.http.request import HttpError

SECURITY_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every answer: restrictions for browsers (OWASP Secure Headers)."""
STRICT_TRANSPORT: Final = "max-age=31536000"
"""Value of Strict-Transport-Security over TLS: a year."""
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
"""Name and port of a Host header (RFC 9110, section 7.2)."""
SHOWN: Final = 100
"""Most characters of a name in an error."""


class BrowserGuard:
    """Guard in front of the application."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        """`hosts` are more names of this machine (`*`: any characters); `origins` are sites that may use the API."""
        self._hosts = ["localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)]
        self._origins = [origin.lower().rstrip("/") for origin in origins]
        self._app = app
        if origins:
            self._app = CORSMiddleware(
                app,
                allow_origins=self._origins,
                allow_methods=["GET", "PUT", "POST", "DELETE"],
                allow_headers=["authorization", "content-type"],
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI: refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_tls = scope.get("scheme") == "https"

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if is_tls:
                    headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_guarded)
        else:
            await refusal.answer()(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> HttpError | None:
        """Return the error for a request that a foreign page may have made; None for a permitted request."""
        host = origin = ""
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"origin":
                origin = value.decode("latin-1").lower()
        if host and not self._is_ours(_without_port(host)):
            reason = f"'{host[:SHOWN]}' is not a name of this broker; use its address, or add the name to http-hosts"
            return HttpError(421, "misdirected_request", reason)
        if origin and origin not in self._origins and not (host and origin.partition("://")[2] == host):
            reason = f"pages of '{origin[:SHOWN]}' may not use this API; http-origins lists those that may"
            return HttpError(403, "not_authorised", reason)
        return None

    def _is_ours(self, name: str) -> bool:
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return any(fnmatchcase(name, host) for host in self._hosts)
        return True


def _without_port(host: str) -> str:
    """Return the name in a Host header: `name:15672` is name, `[::1]:15672` is [::1]; empty for another text."""
    match = _HOST.fullmatch(host)
    return "" if match is None else match[1]
