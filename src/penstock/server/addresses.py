"""Addresses of listeners: HOST:PORT as text, the address of the HTTP API, and URLs for clients."""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import StartError
from penstock.settings.config import Settings
from penstock.settings.start import AUTO_HTTP, DEFAULT_HTTP, NO_HTTP


class HttpAddress(NamedTuple):
    """Address of the HTTP API."""

    host: str
    port: int
    optional: bool
    """True if the broker also starts when the port is in use."""


def http_address(wanted: str | None, listen: list[tuple[str, int]], settings: Settings) -> HttpAddress | None:
    """Return the address of the HTTP API; None without one.

    Without a setting the address is `DEFAULT_HTTP`. None is returned if the broker listens at a free port of the
    system's choice, like tests and embedded brokers, or only with TLS, or serves HTTP with TLS. Raises StartError.
    """
    if wanted is None or wanted == NO_HTTP:
        return None
    if wanted != AUTO_HTTP:
        return HttpAddress(*parse_address(wanted, "--http"), False)
    if not listen or settings.http_tls is not None or any(port == 0 for _, port in listen):
        return None
    return HttpAddress(*parse_address(DEFAULT_HTTP), True)


def parse_address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Parse HOST:PORT; an IPv6 host is in brackets. Raises StartError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise StartError(f"{option} {text} is not HOST:PORT, such as 127.0.0.1:5672")
    return host.strip("[]"), int(port)


def url_of(scheme: str, plain: list[tuple[str, int]], tls: list[tuple[str, int]], otherwise: str) -> str:
    """Return the URL of the first listener without TLS, otherwise of the first one. Raises StartError without
    listeners.
    """
    if not plain and not tls:
        raise StartError(otherwise)
    return f"{scheme}://{_reached(*plain[0])}" if plain else f"{scheme}s://{_reached(*tls[0])}"


def _reached(host: str, port: int) -> str:
    """Return the address at which this machine reaches a listener."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{shown}:{port}"
