"""Addresses of listeners: HOST:PORT or unix:PATH as text, the address of the HTTP API, and URLs for clients.

A Unix socket is an address whose host is `unix:` with an absolute path, and whose port is 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

from penstock.errors import StartError
from penstock.settings.config import Settings
from penstock.settings.start import AUTO_HTTP, DEFAULT_HTTP, NO_HTTP

UNIX: Final = "unix:"
"""Prefix of the address of a Unix socket."""
PATH_OCTETS: Final = 107
"""Most bytes of the path of a Unix socket (unix(7): 108 with the zero byte)."""


class HttpAddress(NamedTuple):
    """Address of the HTTP API."""

    host: str
    port: int
    optional: bool
    """True if the broker also starts when the port is in use."""


def http_address(wanted: str | None, listen: list[tuple[str, int]], settings: Settings) -> HttpAddress | None:
    """Return the address of the HTTP API; None without one.

    Without a setting the address is `DEFAULT_HTTP`. None is returned if the broker listens at a free port of the
    system's choice, like tests and embedded brokers, only with TLS or at Unix sockets, or serves HTTP with TLS. Raises
    StartError.
    """
    if wanted is None or wanted == NO_HTTP:
        return None
    if wanted != AUTO_HTTP:
        return HttpAddress(*parse_address(wanted, "--http"), False)
    ports = [port for host, port in listen if not is_unix(host)]
    if not ports or settings.http_tls is not None or 0 in ports:
        return None
    return HttpAddress(*parse_address(DEFAULT_HTTP), True)


def parse_address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Parse HOST:PORT, where an IPv6 host is in brackets, or unix:PATH. Raises StartError."""
    if is_unix(text):
        path = socket_path(text)
        if not path.startswith("/") or "\0" in path or len(path.encode()) > PATH_OCTETS:
            raise StartError(
                f"{option} {text} is not unix: with an absolute path of at most {PATH_OCTETS} bytes, such as "
                "unix:/run/penstock/amqp.sock"
            )
        return text, 0
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise StartError(f"{option} {text} is not HOST:PORT, such as 127.0.0.1:5672, or unix:PATH")
    return host.strip("[]"), int(port)


def is_unix(host: str) -> bool:
    """Return whether this is the address of a Unix socket, as text or as a host."""
    return host.startswith(UNIX)


def socket_path(host: str) -> str:
    """Return the path of a Unix socket."""
    return host.removeprefix(UNIX)


def shown(host: str, port: int) -> str:
    """Return an address as text: HOST:PORT, with an IPv6 host in brackets, or unix:PATH."""
    return host if is_unix(host) else f"{f'[{host}]' if ':' in host else host}:{port}"


def listener_url(scheme: str, host: str, port: int) -> str:
    """Return the URL of a listener as it was named; the path of a Unix socket is percent-encoded."""
    return f"{scheme}://{quote(socket_path(host), safe='') if is_unix(host) else shown(host, port)}"


def url_of(scheme: str, plain: list[tuple[str, int]], tls: list[tuple[str, int]], otherwise: str) -> str:
    """Return the URL of the first listener without TLS, otherwise of the first one. Raises StartError without
    listeners.
    """
    if not plain and not tls:
        raise StartError(otherwise)
    host, port = plain[0] if plain else tls[0]
    # This machine reaches a listener of all addresses at its own.
    return listener_url(scheme if plain else f"{scheme}s", {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)
