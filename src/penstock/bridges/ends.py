"""Ends of a bridge: a queue, or at the target an exchange, of a broker, as a URL names them.

The URL is that of a connection, with the parameters `queue`, or `exchange` and `key`, in its query. Other parameters
are options of the connection. A URL has a password: the text of an end has none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.errors import ConfigError

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
KEY: Final = "key"


class End:
    """Queue or exchange of a broker."""

    def __init__(self, url: str, queue: str, exchange: str, key: str | None) -> None:
        self.url = url
        """URL of the connection, without the parameters that name the end."""
        self.queue = queue
        """Name of the queue; empty for an exchange."""
        self.exchange = exchange
        self.key = key
        """Routing key of all messages; None if each keeps its own, or is for the queue."""

    @property
    def place(self) -> str:
        """Return the queue, or the exchange with its key."""
        if self.queue:
            return f"queue {self.queue}"
        return f"exchange {self.exchange}" + ("" if self.key is None else f" with key {self.key}")

    @property
    def is_here(self) -> bool:
        """Return whether the broker is the one whose worker runs the bridge: the URL has no host."""
        return not urlsplit(self.url).hostname

    @property
    def broker(self) -> str:
        """Return host, port and virtual host, without a user and a password."""
        parts = urlsplit(self.url)
        if self.is_here:
            vhost = unquote(parts.path[1:]) or "/"
            return "this broker" if vhost == "/" else f"vhost {vhost} of this broker"
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{host}{port}{parts.path or '/'}"

    def __str__(self) -> str:
        return f"{self.place} of {self.broker}"

    def is_same(self, other: End, ports: Collection[int] = ()) -> bool:
        """Return whether this is the same queue of the same broker, as far as the URLs tell.

        `ports` are those at which this broker listens: on this machine they are this broker.
        """
        return bool(self.queue) and self.queue == other.queue and self._where(ports) == other._where(ports)

    def _where(self, ports: Collection[int]) -> tuple[str, int, str]:
        parts = urlsplit(self.url)
        vhost, host = unquote(parts.path[1:]) or "/", parts.hostname or ""
        port = parts.port or (5671 if parts.scheme == "amqps" else 5672)
        is_ours = port in ports and (host in ("localhost", "::1") or host.startswith("127."))
        return ("", 0, vhost) if is_ours or not parts.netloc else (host, port, vhost)


def source_of(url: str, here: bool = False) -> End:
    """Return the end from which messages are taken. Raises `ConfigError` unless the URL names a queue.

    `here`: a URL without a host is this broker.
    """
    end = end_of(url, "source", here)
    if not end.queue:
        raise ConfigError("the source names no queue: add ?queue=NAME to its URL")
    return end


def target_of(url: str, source: End, here: bool = False, ports: Collection[int] = ()) -> End:
    """Return the end to which messages go: without a name, the queue of the source's name. Raises `ConfigError`."""
    end = end_of(url, "target", here)
    if not end.queue and not end.exchange and end.key is None:
        end = End(end.url, source.queue, "", None)
    if not end.queue and not end.exchange:
        raise ConfigError("the target names a key without an exchange: add ?exchange=NAME&key=KEY, or ?queue=NAME")
    if end.is_same(source, ports):
        raise ConfigError(f"{source} would be carried onto itself")
    return end


def end_of(url: str, noun: str, here: bool = False) -> End:
    """Return the end that a URL names. Raises `ConfigError` that does not quote the URL."""
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=100)
        named = parts.port is not None or bool(parts.hostname) or (here and not parts.netloc)
    except ValueError:
        raise ConfigError(f"the {noun} is no URL; an example is amqp://user:password@host/?queue=orders") from None
    if parts.scheme not in ("amqp", "amqps") or not named:
        raise ConfigError(f"the {noun} is no URL of a broker; an example is amqp://user:password@host/?queue=orders")
    found: dict[str, str] = {}
    for name, value in given:
        if name in (QUEUE, EXCHANGE, KEY):
            if name in found:
                raise ConfigError(f"the {noun} names its {name} twice")
            found[name] = value
    if found.get(QUEUE) and (EXCHANGE in found or KEY in found):
        raise ConfigError(f"the {noun} names both a queue and an exchange: leave one out")
    rest = [(name, value) for name, value in given if name not in (QUEUE, EXCHANGE, KEY)]
    plain = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(rest, quote_via=quote), ""))
    return End(plain, found.get(QUEUE, ""), found.get(EXCHANGE, ""), found.get(KEY))
