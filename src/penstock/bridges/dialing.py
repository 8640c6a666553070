"""Connections of a bridge: options of the client from a URI of a definition, as RabbitMQ's plugins read it, too.

A URI without a host is this broker: the worker asks it for a socket, and logs in by EXTERNAL as the user of the bridge.
No sentence quotes a URI, because it may have a password.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.client.options import Options
from penstock.errors import ConfigError

Dial = Callable[[], Awaitable[socket.socket]]
"""Function that returns a socket which is connected to this broker."""
HEARTBEAT_S: Final = 3
"""Seconds between heartbeats to another broker: its silence is reported after 4 s, and it is given up after 6 s."""
PRODUCT: Final = "penstock-bridge"
IGNORED: Final = frozenset(
    ("channel_max", "frame_max", "max_message_size", "depth", "fail_if_no_peer_cert", "session_cache", "reuse_sessions")
)
"""Parameters of RabbitMQ's URIs that only bound what its own client takes."""
MECHANISMS: Final = {"plain": "PLAIN", "amqplain": "PLAIN", "external": "EXTERNAL"}
SASL: Final = {"plain": "PLAIN", "none": None, "anon": None}
SECOND: Final = 1000


def options_of(uri: str, noun: str, name: str, user: str, dial: Dial, **given: Any) -> Options:
    """Return the options of a connection to a URI; `name` is the connection's, `user` that of the bridge.

    `noun` names the end in errors. Raises `ConfigError` that does not quote the URI.
    """
    parts = urlsplit(uri)
    keywords: dict[str, Any] = {"product": PRODUCT, "name": name, "reconnect": False, **given}
    query, found = _read_query(noun, parts.query)
    try:
        if not parts.netloc:
            vhost = unquote(parts.path[1:]) or "/"
            here = {"virtual_host": vhost, "user": user, "password": "", "mechanism": "EXTERNAL"}
            options = Options(f"amqp://?{query}", {**found, **keywords, **here})
            options.dial = dial
            return options
        if "heartbeat" not in found and "heartbeat" not in dict(parse_qsl(query)):
            found["heartbeat"] = HEARTBEAT_S
        plain = urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))
        return Options(plain, {**found, **keywords})
    except ValueError as error:  # It never quotes a password.
        raise ConfigError(f"the {noun}: {error}") from None


def _read_query(noun: str, query: str) -> tuple[str, dict[str, Any]]:
    """Return the query without RabbitMQ's parameters, and the options of the client that these stand for."""
    kept: list[tuple[str, str]] = []
    found: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key == "connection_timeout":
            found["connect_timeout"] = _milliseconds(noun, key, value)
        elif key == "idle_time_out":
            found["heartbeat"] = _milliseconds(noun, key, value)
        elif key == "auth_mechanism":
            found["mechanism"] = _word(noun, key, value, MECHANISMS)
        elif key == "sasl":
            found["mechanism"] = _word(noun, key, value, SASL)
            if value == "anon":
                found["user"] = ""
        elif key in ("server_name_indication", "hostname"):
            if value != "disable":
                raise ConfigError(f"the {noun}: {key} of a URI is not served; name the host as its certificate does")
        elif key not in IGNORED:
            kept.append((key, value))
    return urlencode(kept, quote_via=quote), found


def _milliseconds(noun: str, key: str, value: str) -> float:
    if not (value.isascii() and value.isdecimal()):
        raise ConfigError(f"the {noun}: {key} of a URI is a number of milliseconds")
    return int(value) / SECOND


def _word(noun: str, key: str, value: str, words: Mapping[str, str | None]) -> str | None:
    if value not in words:
        raise ConfigError(f"the {noun}: {key} of a URI is {', '.join(words)}")
    return words[value]
