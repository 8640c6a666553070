"""Shovels: definitions of RabbitMQ's plugin as carriers by messages.

The meaning of the keys is that of RabbitMQ, with these differences. A message that reaches no queue at the target stays
at the source, and URIs of a list are tried in turn. A queue that is missing at either end is declared, unless it is
predeclared; over AMQP 1.0 nothing is declared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import product
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.bridges.carrier import Carrier, Terms
from penstock.bridges.dialing import Dial, options_of
from penstock.bridges.ends import End
from penstock.bridges.state import State
from penstock.client.aio import Connection
from penstock.client.engine.messages import Forwarded
from penstock.client.engine.receiver import Delivery
from penstock.client.errors import ChannelClosed
from penstock.content.properties import PROPERTY_NAMES, Properties
from penstock.errors import ConfigError
from penstock.operations.key_table import canonical
from penstock.operations.shovel_keys import KEYS

Spec = Mapping[str, Any]
AMQP091: Final = "amqp091"
AMQP10: Final = "amqp10"
PROTOCOLS: Final = {AMQP091: AMQP091, AMQP10: AMQP10, "local": AMQP091}
"""Protocols of an end, with that of its connection."""
PREFETCH_MOST: Final = 65_535
QUEUE_LENGTH: Final = "queue-length"
QUEUES: Final = ("/queues/", "/queue/", "/amq/queue/")
EXCHANGES: Final = ("/exchanges/", "/exchange/")
"""Beginnings of addresses of RabbitMQ that name a queue or an exchange."""
SHOVELLED: Final = "x-shovelled"
SHOVELLED_AT: Final = "x-shovelled-timestamp"
SHOVELLED_MOST: Final = 64
"""Most entries of the header; older ones are dropped."""
NOT_FOUND: Final = 404
LOOK_S: Final = 1.0


class Side:
    """One end of a shovel."""

    def __init__(self, value: Mapping[str, Any], prefix: str, noun: str) -> None:
        self.noun = noun
        self.uris = _uris(value.get(f"{prefix}-uri"), noun)
        self.protocol = PROTOCOLS[value[f"{prefix}-protocol"]]
        self.queue = _text(value, f"{prefix}-queue")
        self.exchange = _text(value, f"{prefix}-exchange")
        self.key = _text(value, f"{prefix}-exchange-key")
        self.address = _text(value, f"{prefix}-address")
        self.arguments: dict[str, Any] = value.get(f"{prefix}-queue-args", {})
        self.is_predeclared = value.get(f"{prefix}-predeclared") is True
        if self.protocol == AMQP10:
            self.queue, self.exchange, self.key = self.address or "", None, None
            if not self.address:
                raise ConfigError(f"the {noun} has no address")

    def end(self, number: int) -> End:
        """Return the end at the URI of an attempt."""
        uri = self.uris[number % len(self.uris)]
        return End(uri, self.queue or "", self.exchange or "", None if self.queue else self.key)

    def shown(self) -> str:
        """Return the end without secrets."""
        end = self.end(0)
        if self.queue or self.exchange is not None:
            return str(end)
        return f"the exchange of each message of {end.broker}"

    def fields(self, prefix: str) -> dict[str, object]:
        """Return the place as fields of the header of a shovelled message."""
        named = {"queue": self.queue, "exchange": self.exchange, "exchange-key": None if self.queue else self.key}
        return {f"{prefix}-{name}": value for name, value in named.items() if value is not None}


class Shovel:
    """Shovel of a spec."""

    def __init__(self, spec: Spec, cluster: str, dial: Dial) -> None:
        value = canonical(KEYS, spec["value"])
        self._spec = spec
        self._value = value
        self._dial = dial
        self._cluster = cluster
        self._old = Side(value, "src", "source")
        self._new = Side(value, "dest", "target")
        if self._old.queue is None and self._old.exchange is None:
            raise ConfigError("the source names no queue and no exchange")
        self.source, self.target = self._old.shown(), self._new.shown()
        if any(
            self._new.end(number).is_same(self._old.end(other), spec.get("ports", ()))
            for number, other in self._pairs()
        ):
            raise ConfigError(f"{self.source} would be carried onto itself")
        self.delay_s = float(value["reconnect-delay"])
        after = value.get("src-delete-after")
        self._left = after if isinstance(after, int) else None
        """Messages after which the shovel has ended; None for no end."""
        seconds = value.get("src-delete-after-duration")
        self._ends_at = None if seconds is None else time.monotonic() + seconds
        self._set = _properties(value.get("dest-publish-properties"))
        self._adds_headers = value.get("dest-add-forward-headers") is True
        self._adds_time = value.get("dest-add-timestamp-header") is True

    def _pairs(self) -> Iterable[tuple[int, int]]:
        return product(range(len(self._new.uris)), range(len(self._old.uris)))

    def carrier(self, number: int, state: State) -> Carrier:
        """Return the carrier of an attempt."""
        old, new = self._old, self._new
        source, target = old.end(number), new.end(number)
        name, user = f"Shovel {self._spec['name']}", str(self._spec["run_as"])
        given = [
            options_of(end.url, side.noun, name, user, self._dial, protocol=side.protocol)
            for end, side in ((source, old), (target, new))
        ]
        return Carrier(source, target, given[0], given[1], self._terms(source, target, state.carried), state)

    def _terms(self, source: End, target: End, done: int) -> Terms:
        old, new, value = self._old, self._new, self._value
        arguments = value.get("src-consumer-args", {})
        changes = self._adds_headers or self._adds_time or bool(self._set)
        return Terms(
            count=None if self._left is None else max(self._left - done, 0),
            seconds=None if self._ends_at is None else max(self._ends_at - time.monotonic(), 0.0),
            counts_first=value.get("src-delete-after") == QUEUE_LENGTH,
            prefetch=value["src-prefetch-count"] or PREFETCH_MOST,
            ack_mode=value["ack-mode"],
            tries_again=True,
            keeps_target=not new.queue and new.exchange is None,
            change=_Change(self, source, target).apply if changes else None,
            source_setup=self._source_ready if old.protocol == AMQP091 else None,
            target_setup=partial(self._target_ready, target.url),
            consumer_arguments=arguments if old.protocol == AMQP091 else {},
            consumer_name=_text(value, "src-consumer-name") or "",
            look_s=LOOK_S,
        )

    async def _source_ready(self, connection: Connection) -> str:
        """Declare the queue if it is missing, or bind a queue of this connection to the exchange; return its name."""
        side = self._old
        if side.queue:
            await declare_missing(connection, side.queue, side.arguments, side.is_predeclared)
            return side.queue
        fields = {"queue": "", "exclusive": True, "auto_delete": True, "arguments": side.arguments}
        queue = str((await _call(connection, "queue.declare", fields))["queue"])
        place = {"queue": queue, "exchange": side.exchange or "", "routing_key": side.key or "", "arguments": {}}
        await _call(connection, "queue.bind", place)
        return queue

    async def _target_ready(self, url: str, connection: Connection) -> End:
        """Declare the queue if it is missing; return the target, whose address depends on the broker."""
        side = self._new
        if side.protocol == AMQP10:
            return place_of(url, side.queue or "", connection)
        if side.queue:
            await declare_missing(connection, side.queue, side.arguments, side.is_predeclared)
        return End(url, side.queue or "", side.exchange or "", None if side.queue else side.key)

    def headers(self, source: End, target: End) -> dict[str, object]:
        """Return the entry of the header of a shovelled message, as RabbitMQ writes it."""
        return {
            "shovelled-by": self._cluster,
            "shovel-type": "dynamic",
            "shovel-name": str(self._spec["name"]),
            "shovel-vhost": str(self._spec["vhost"]),
            "src-uri": plain_uri(source.url),
            "dest-uri": plain_uri(target.url),
            **self._old.fields("src"),
            **self._new.fields("dest"),
        }


class _Change:
    """Change of the messages of a shovel before they are sent."""

    def __init__(self, shovel: Shovel, source: End, target: End) -> None:
        self._entry = shovel.headers(source, target) if shovel._adds_headers else None
        self._adds_time = shovel._adds_time
        self._set = shovel._set
        self._is_amqp10 = shovel._new.protocol == AMQP10

    def apply(self, delivery: Delivery, message: Forwarded) -> bool:
        """Set properties and headers. The properties of the delivery stay as they are."""
        properties = message.properties.copy()
        for name, value in self._set.items():
            setattr(properties, name, value)
        if self._entry is not None:
            _add_entry(properties, self._entry, self._is_amqp10)
        if self._adds_time and self._is_amqp10:
            properties.timestamp = int(time.time())
        elif self._adds_time:
            properties.headers = {**(properties.headers or {}), SHOVELLED_AT: int(time.time())}
        message.properties = properties
        return True


def _add_entry(properties: Properties, entry: Mapping[str, object], is_amqp10: bool) -> None:
    """Add an entry to the header. Application properties of AMQP 1.0 have no lists: there it is one of each field."""
    headers = dict(properties.headers or {})
    if is_amqp10:
        names = ("shovelled-by", "shovel-type", "shovel-name")
        properties.headers = {**headers, **{name: entry[name] for name in names}}
        return
    before = headers.get(SHOVELLED)
    earlier = before if isinstance(before, list) else []
    properties.headers = {**headers, SHOVELLED: [dict(entry), *earlier][:SHOVELLED_MOST]}


def shovel_of(spec: Spec, cluster: str, dial: Dial) -> Shovel:
    """Return the shovel of a spec. Raises `ConfigError`."""
    return Shovel(spec, cluster, dial)


async def declare_missing(
    connection: Connection, queue: str, arguments: Mapping[str, Any], is_predeclared: bool
) -> None:
    """Declare a durable queue unless it exists; a predeclared one must. Raises `ChannelClosed`."""
    try:
        await _call(connection, "queue.declare", {"queue": queue, "passive": True})
    except ChannelClosed as error:
        if error.code != NOT_FOUND or is_predeclared:
            raise
        await _call(connection, "queue.declare", {"queue": queue, "durable": True, "arguments": dict(arguments)})


def place_of(url: str, address: str, connection: Connection) -> End:
    """Return the target of an address of AMQP 1.0. At Penstock it is what the address of RabbitMQ names."""
    if connection.core().is_penstock():
        for start in QUEUES:
            if address.startswith(start):
                return End(url, unquote(address.removeprefix(start)), "", None)
        for start in EXCHANGES:
            if address.startswith(start):
                exchange, slash, key = address.removeprefix(start).partition("/")
                return End(url, "", unquote(exchange), unquote(key) if slash else None)
    return End(url, address, "", None)


def plain_uri(uri: str) -> str:
    """Return a URI without user, password and parameters."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def _call(connection: Connection, method: str, fields: dict[str, Any]) -> Any:
    return await connection.run(connection.core().calling(method, fields))


def _uris(given: object, noun: str) -> list[str]:
    uris = given if isinstance(given, list) else [given]
    found = [uri for uri in uris if isinstance(uri, str)]
    if not found or len(found) < len(uris):
        raise ConfigError(f"the {noun} has no URI")
    return found


def _text(value: Mapping[str, Any], name: str) -> str | None:
    given = value.get(name)
    return given if isinstance(given, str) else None


def _properties(given: object) -> dict[str, Any]:
    """Return the properties that replace those of a message; headers cannot be set, as at RabbitMQ."""
    if not isinstance(given, dict):
        return {}
    return {name: value for name, value in given.items() if name in PROPERTY_NAMES and name != "headers"}
