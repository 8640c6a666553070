"""Control client: calls control operations of the broker by messages.

A request is published to the exchange `penstock.control` with the operation as its routing key. The answer arrives in
an exclusive queue. Several requests may be in progress, so that the next block is fetched while one is processed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple, cast

from penstock.client.connection import Connection
from penstock.client.content import Delivery
from penstock.client.errors import ChannelClosed, ClientError, ControlError, Timeout
from penstock.wire.amqp091.codec import Properties

CONTROL_EXCHANGE: Final = "penstock.control"
JSON_TYPE: Final = "application/json"
BLOCK_TYPE: Final = "application/vnd.penstock.block"
ERROR_TYPE: Final = "application/vnd.penstock.error+json"
PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"

OUTSTANDING_MAX: Final = 64
"""Most requests without an answer; each answer may be a block of many megabytes."""

CONTROL_REPLIES: Final = "amq.penstock.replies"
"""Name for a queue of answers: the broker makes a name of its own, and asks for no permission."""
REPLY_QUEUE: Final[dict[str, object]] = {
    **dict.fromkeys(("capacity-messages", "stop-messages", "stop-bytes", "resume-messages", "resume-bytes"), "none"),
    **dict.fromkeys(("message-ttl", "expires", "consumer-window-bytes", "consumer-max-rate"), "none"),
    **dict.fromkeys(("max-length", "max-length-bytes", "slow-consumer-rate"), "none"),
    "capacity-bytes": 256 * 1024 * 1024,
    "overflow": "block",
    "consumer-window-adaptive": False,
}
"""Arguments of the reply queue.

They take precedence over patterns, so that a setting of `#` cannot lock the operator out.
"""

Answer = dict[str, Any] | memoryview
"""JSON object, or a block of messages."""


class Attached(NamedTuple):
    """Result of cursor.attach; an offset S of a queue means everything up to S."""

    token: int
    initial: dict[str, int]
    settled: dict[str, int]
    tail: dict[str, int]
    created: bool


class Plan(NamedTuple):
    """Result of cursor.plan: the end of the next batch, the end of the queues, and the batch's size."""

    end: dict[str, int]
    tail: dict[str, int]
    rows: int
    bytes: int


class ControlClient:
    """Client of control operations on a channel of its own; call `close` when done.

    `timeout` is the default number of seconds that an operation waits for its answer. Every operation may raise
    `ControlError` with the broker's reason, `Timeout`, `ChannelClosed` and `ConnectionClosed`.

    Use another connection than a `Publisher`'s: the broker may pause reading from a producer, and then reads no
    requests.
    """

    def __init__(self, connection: Connection, *, timeout: float = 30.0) -> None:
        self.timeout: Final = timeout
        self.connection = connection
        self._channel = connection.channel()
        self._reply_to, _, _ = self._channel.queue_declare(
            CONTROL_REPLIES, exclusive=True, auto_delete=True, arguments=REPLY_QUEUE
        )
        self._consumer_tag = self._channel.consume(self._reply_to, no_ack=True, exclusive=True)
        self._numbers = count(1)
        self._waiting: set[str] = set()
        self._answers: dict[str, Delivery] = {}
        self.taken: dict[str, int] = {}
        """Rows that published blocks without an answer have in their queues so far, by correlation id."""

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(self, operation: str, arguments: Mapping[str, object], timeout: float | None = None) -> Answer:
        """Send a request and wait for the answer."""
        correlation_id = self.send(operation, arguments)
        try:
            return self.receive(correlation_id, timeout)
        except Timeout:
            self.forget(correlation_id)
            raise

    def send(self, operation: str, arguments: Mapping[str, object] | bytes) -> str:
        """Send a request; return its correlation id, for `receive` or `forget`.

        Octets are a block (docs/blocks.md), for `publish.block`. `taken` has its rows so far, if it asks for notes of
        progress. Raises `Timeout` if the broker does not accept the request in time.
        """
        if len(self._waiting) >= OUTSTANDING_MAX:
            raise ClientError(f"{OUTSTANDING_MAX} control requests are without an answer; receive or forget some")
        correlation_id = str(next(self._numbers))
        kind, body = BLOCK_TYPE, arguments
        if not isinstance(body, bytes):
            kind, body = JSON_TYPE, json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        properties = Properties(content_type=kind, reply_to=self._reply_to, correlation_id=correlation_id)
        self._channel.publish(body, exchange=CONTROL_EXCHANGE, routing_key=operation, properties=properties)
        self._waiting.add(correlation_id)
        return correlation_id

    def receive(self, correlation_id: str, timeout: float | None = None) -> Answer:
        """Wait for an answer; may be repeated after a `Timeout`."""
        if correlation_id not in self._waiting:
            raise ClientError(f"no control request {correlation_id} is without an answer")
        patience = self.timeout if timeout is None else timeout
        self._channel.connection.wait_for(
            lambda: self._arrived(correlation_id), f"answer to control request {correlation_id}", patience
        )
        answer = self._answers.pop(correlation_id, None)
        if answer is None:
            self._channel.check()
            raise ChannelClosed(None, f"the reply queue {self._reply_to} was deleted")
        self._waiting.remove(correlation_id)
        self.taken.pop(correlation_id, None)
        return _understood(answer)

    def forget(self, correlation_id: str) -> None:
        """Drop the answer to a request, now or when it arrives."""
        self._waiting.discard(correlation_id)
        self.taken.pop(correlation_id, None)
        self._answers.pop(correlation_id, None)

    def _arrived(self, correlation_id: str) -> bool:
        """Sort arrived messages; true if the answer has arrived or cannot arrive any more."""
        while self._channel.deliveries:
            delivery = self._channel.deliveries.popleft()
            if delivery.properties.correlation_id not in self._waiting:
                continue
            if delivery.properties.content_type == PROGRESS_TYPE:
                note = json.loads(delivery.body)
                self.taken[str(delivery.properties.correlation_id)] = int(note["taken"])
            else:
                self._answers[str(delivery.properties.correlation_id)] = delivery
        gone = self._channel.closed is not None or self._consumer_tag in self._channel.cancelled
        return correlation_id in self._answers or gone

    def close(self) -> None:
        """Close the channel; the reply queue is deleted with it."""
        self._channel.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- operations --------------------------------------------------------------------------------------------------

    def attach(
        self,
        cursor: str,
        queues: Iterable[str],
        starting: str | Mapping[str, int] = "earliest",
        *,
        takeover: bool = False,
    ) -> Attached:
        """Attach to a cursor, creating it if necessary; `starting` is "earliest", "latest" or offsets by queue.

        The new token fences earlier readers off. A refused attach changes nothing. Raises `ControlError` 405 while
        another connection reads through the cursor, unless `takeover`.
        """
        request = {"cursor": cursor, "queues": list(queues), "starting": starting, "takeover": takeover}
        found = self._object("cursor.attach", request)
        return Attached(
            found["token"], found["initial"], found["settled"], found["tail"], bool(found.get("created", False))
        )

    def plan(
        self,
        cursor: str,
        token: int,
        start: Mapping[str, int],
        *,
        settle: Mapping[str, int] | None = None,
        rows: int | None = None,
        bytes: int | None = None,
        wait_ms: int = 0,
        upto: Mapping[str, int] | None = None,
    ) -> Plan:
        """Fix the next batch after `start`, of at most `rows` messages and `bytes` octets (None: no limit).

        `settle` settles what is processed; `wait_ms` is how long the broker may wait for a first message, in
        milliseconds; `upto` bounds the batch by offsets. Without new messages `end` equals `start`.
        """
        request = {
            "cursor": cursor,
            "token": token,
            "settle": settle,
            "start": start,
            "rows": rows,
            "bytes": bytes,
            "wait_ms": wait_ms,
            "upto": upto,
        }
        found = self._object("cursor.plan", request, self.timeout + wait_ms / 1000)
        return Plan(found["end"], found["tail"], found["rows"], found["bytes"])

    def range(
        self,
        cursor: str,
        token: int,
        queue: str,
        lo: int,
        hi: int,
        *,
        rows: int,
        bytes: int,
        columns: Iterable[str] | None = None,
    ) -> memoryview:
        """Return a block of the first messages of (lo, hi] within `rows` and `bytes`; it removes nothing.

        `columns` are the columns of the block (docs/blocks.md); None: the twelve that every version has.
        """
        return self.receive_block(
            self.send_range(cursor, token, queue, lo, hi, rows=rows, bytes=bytes, columns=columns)
        )

    def send_range(
        self,
        cursor: str,
        token: int,
        queue: str,
        lo: int,
        hi: int,
        *,
        rows: int,
        bytes: int,
        columns: Iterable[str] | None = None,
    ) -> str:
        """Request a block as `range` does, without waiting; `receive_block` waits."""
        request = {"cursor": cursor, "token": token, "queue": queue, "lo": lo, "hi": hi, "rows": rows, "bytes": bytes}
        if columns is not None:
            request["columns"] = list(columns)
        return self.send("cursor.range", request)

    def receive_block(self, correlation_id: str, timeout: float | None = None) -> memoryview:
        """Return the block that `send_range` requested."""
        answer = self.receive(correlation_id, timeout)
        if isinstance(answer, memoryview):
            return answer
        raise ClientError("the broker answered with an object where a block was due")

    def settle(self, cursor: str, token: int, end: Mapping[str, int]) -> dict[str, int]:
        """Settle everything up to `end`; return the settled positions, which never go back."""
        found = self._object("cursor.settle", {"cursor": cursor, "token": token, "end": end})
        return cast("dict[str, int]", found["settled"])

    def delete_cursor(self, cursor: str) -> None:
        """Delete a cursor; its queues become ordinary queues again."""
        self._object("cursor.delete", {"cursor": cursor})

    def why(
        self,
        queue: str | None = None,
        *,
        connection: str | None = None,
        channel: str | None = None,
        link: str | None = None,
        user: str | None = None,
    ) -> dict[str, Any]:
        """Explain why nothing moves at a queue, a connection (number or name), a channel ("2/1"), a link or for a user.

        Without any: everything that is blocked, the longest block first. The answer is plain data, with `sentences` for
        people.
        """
        asked = {"queue": queue, "connection": connection, "channel": channel, "link": link, "user": user}
        return self._object("why", {subject: name for subject, name in asked.items() if name is not None})

    def block(self, scope: str, name: str, reason: str = "") -> dict[str, Any]:
        """Close the operator's gate of a "queue", "address", "vhost", "user" or "connection": publishes are held."""
        return self._object("block", {scope: name, "reason": reason})

    def unblock(self, scope: str, name: str) -> dict[str, Any]:
        """Open the operator's gate; raises `ControlError` 404 if it is not closed."""
        return self._object("unblock", {scope: name})

    def set(self, scope: str, pattern: str, settings: Mapping[str, object], override: bool = False) -> dict[str, Any]:
        """Set settings for matching names; return all settings of the pattern, and remarks.

        An `override` of queues is stronger than their arguments and policies.
        """
        fields: dict[str, object] = {"scope": scope, "pattern": pattern, "settings": settings}
        return self._object("settings.set", {**fields, "override": True} if override else fields)

    def unset(self, scope: str, pattern: str, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Remove settings that were set by command: the named ones, or all of a pattern."""
        listed = None if names is None else list(names)
        return self._object("settings.unset", {"scope": scope, "pattern": pattern, "names": listed})

    def settings(self) -> list[dict[str, Any]]:
        """Return all settings, from commands and from the settings file, pattern by pattern."""
        return cast("list[dict[str, Any]]", self._object("settings.list", {})["settings"])

    def show(self, scope: str, name: str) -> list[dict[str, Any]]:
        """Return the effective settings of a queue (or another object), each with its source."""
        return cast("list[dict[str, Any]]", self._object("show", {scope: name})["settings"])

    def status(self) -> dict[str, Any]:
        """Return the broker, its queues and its statistics as plain data."""
        return self._object("status", {})

    def listed(self, kind: str, everywhere: bool = False) -> Iterator[dict[str, Any]]:
        """Return all objects of a kind, page by page: "queues", "exchanges", "bindings", "connections", "channels",
        "consumers", "cursors" or "vhosts".

        Of this connection's virtual host, or of all. Objects that are created meanwhile may be missing.
        """
        after: int | None = 0
        while after is not None:
            page = self._object("list", {"kind": kind, "after": after, "everywhere": everywhere})
            yield from page["items"]
            after = page["next"]

    def export_definitions(self, everywhere: bool = True, for_rabbitmq: bool = False) -> dict[str, Any]:
        """Return the definitions of all virtual hosts, or of this connection's, in RabbitMQ's format.

        `for_rabbitmq` leaves out keys of policies that RabbitMQ refuses.
        """
        found = self._object("definitions.export", {"everywhere": everywhere})
        for section in found.pop("sections"):
            found[section] = []
            after: int | None = 0
            while after is not None:
                asked: dict[str, object] = {"section": section, "after": after, "everywhere": everywhere}
                if for_rabbitmq:
                    asked["for_rabbitmq"] = True
                page = self._object("definitions.export", asked)
                found[section] += page["items"]
                after = page["next"]
        return found

    def import_definitions(self, text: str, everywhere: bool = True) -> dict[str, Any]:
        """Import definitions in RabbitMQ's format, all or nothing; return the numbers of new items.

        Without `everywhere` entries without a virtual host belong to this connection's.
        """
        return self._object("definitions.import", {"definitions": text, "everywhere": everywhere})

    def declare_vhost(self, name: str) -> bool:
        """Create a virtual host; return whether it is new."""
        return bool(self._object("vhost.declare", {"name": name})["created"])

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with all its objects, but not this connection's own; its connections are closed."""
        self._object("vhost.delete", {"name": name})

    def _object(self, operation: str, arguments: Mapping[str, object], timeout: float | None = None) -> dict[str, Any]:
        answer = self.request(operation, arguments, timeout)
        if isinstance(answer, memoryview):
            raise ClientError(f"the broker answered {operation} with a block where an object was due")
        return answer


def _understood(answer: Delivery) -> Answer:
    """Return the answer's content; raises `ControlError` for a refusal."""
    kind = answer.properties.content_type
    if kind == BLOCK_TYPE:
        return memoryview(answer.body)
    if kind not in (JSON_TYPE, ERROR_TYPE):
        raise ClientError(f"the broker answered with the content type {kind}, which this client does not know")
    found = json.loads(answer.body)
    if kind == ERROR_TYPE:
        raise ControlError(int(found["code"]), str(found["name"]), str(found["text"]))
    return cast("dict[str, Any]", found)
