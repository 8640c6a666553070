"""Connection parameters: address and credentials, also from a URL."""

from __future__ import annotations

from ssl import SSLContext
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from penstock.client.tls import TLS_FIELDS, context_of

TLS_PORT: Final = 5671
"""Port of `amqps://` by default (IANA)."""


class Parameters(NamedTuple):
    """Address and credentials of a connection; the defaults fit a broker on this machine."""

    host: str = "127.0.0.1"
    port: int = 5672
    user: str = "guest"
    password: str = "guest"
    virtual_host: str = "/"
    query: str = ""
    """Name of the streaming query whose results are published; empty for none."""
    heartbeat: int = 0
    """Seconds between heartbeats that are requested, 0 for none; `Connection.beat` sends them."""
    tls: SSLContext | None = None
    """Context of a connection by TLS; None for one without."""
    name: str = ""
    """Name that the broker shows for the connection; empty for none."""
    product: str = "penstock-client"
    """Program that the client says to be."""

    @classmethod
    def from_url(cls, url: str) -> Parameters:
        """Parse `amqp://user:password@host:port/virtual-host`, each part optional and percent-encoded.

        A missing or empty virtual host is "/". `amqps://` is by TLS; its query may have files as RabbitMQ's clients do:
        `cacertfile` (the authorities), `certfile`, `keyfile` and `password` (the client's certificate), and
        `verify=verify_none`. Raises `ValueError` for anything else; its text never holds a password.
        """
        try:
            parts = urlsplit(url)
        except ValueError:  # Its text repeats the password.
            raise ValueError("the broker's URL cannot be read: its host is malformed") from None
        if parts.scheme not in ("amqp", "amqps"):
            raise ValueError(f"a broker's URL starts with amqp:// or amqps://, not with {parts.scheme or 'nothing'}://")
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f"the port of {parts.hostname} is not a number from 0 to 65535") from None
        default = cls() if parts.scheme == "amqp" else cls(port=TLS_PORT, tls=_context_of(parts.query))
        return cls(
            host=parts.hostname or default.host,
            port=default.port if port is None else port,
            user=default.user if parts.username is None else unquote(parts.username),
            password=default.password if parts.password is None else unquote(parts.password),
            virtual_host=unquote(parts.path[1:]) or default.virtual_host,
            tls=default.tls,
        )

    def __repr__(self) -> str:
        return f"<{self.user} at {self.host}:{self.port}, virtual host {self.virtual_host}>"


def _context_of(query: str) -> SSLContext:
    """Return the context that the query of a URL asks for. Raises `ValueError`."""
    fields = dict(parse_qsl(query, keep_blank_values=True))
    for name in fields:
        if name not in TLS_FIELDS:
            raise ValueError(f"unknown field {name} in the query of an amqps:// URL; known are {', '.join(TLS_FIELDS)}")
    return context_of(fields)
