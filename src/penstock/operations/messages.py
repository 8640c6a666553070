"""Messages without a channel: one is published through the usual gates, and some are taken from a queue.

Both wait: a publish for its confirm, and a queue that pages for the disk. The steps of a request are slices of some
messages, or of some 100 KB of bodies. Published and taken bodies are UTF-8 texts or base64.
"""

from __future__ import annotations

import base64
import codecs
from typing import Final

from penstock.access.permission import MANAGEMENT
from penstock.access.rules import DEFAULT_EXCHANGE
from penstock.connections.authorization import check_read_queue, check_write_exchange
from penstock.connections.callbacks import PageLoadCallback
from penstock.connections.control_request import ControlRequest
from penstock.connections.single_publish import SinglePublish
from penstock.content.message_rows import BASE64, NUMBERS, STRING
from penstock.content.properties import TEXT_PROPERTIES, Properties
from penstock.core.consume.bulk_requeue import finish_requeueing
from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.large_content import body_of
from penstock.core.message import Message
from penstock.core.message_format import UnreadableContent
from penstock.core.publish.session_counts import consumed
from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.expiry import expire_slice
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import hides_next
from penstock.core.queue.stream_queue import check_takes
from penstock.describe.table import Row, plain
from penstock.errors import HeldTooLong, NotFound, NotOnDisk, PreconditionFailed, ResourceLocked
from penstock.flow.timers import NEVER
from penstock.flow.wait import Wait, Waits
from penstock.management.node import Node
from penstock.management.operation import Answer, Operation, Route, Waiting
from penstock.operations.body_reads import beginning_of_body
from penstock.operations.topology import short
from penstock.settings.kind import COUNT

MESSAGE_MOST: Final = 4 * 1024 * 1024
"""Most bytes of a request that publishes; larger messages need AMQP."""
BASE64_AT_ONCE: Final = 256 * 1024
"""Characters of a payload decoded per slice: four make three bytes."""
TEXTS: Final[tuple[str, ...]] = (*TEXT_PROPERTIES, "cluster_id")


def publish(node: Node, request: ControlRequest) -> Waiting:
    """Publish a message; the answer follows its confirm: it may be withheld, or refused."""
    return Waiting(_publish_steps(node, request))


def _publish_steps(node: Node, request: ControlRequest) -> Waits[Answer]:
    vhost, name = request.vhost, request.text("name")
    exchange = "" if name == DEFAULT_EXCHANGE else name
    check_write_exchange(request.access, exchange)
    vhost.exchange(exchange)
    key = short(request.text("routing_key"), "a routing key")
    properties = _properties(request.part(request.table("properties")))
    payload = yield from _payload_steps(request)
    request.fields = {}  # The memory of its payload is released while the publish waits.
    publication = SinglePublish(node.single_publishes, request.access, request.peer or "unknown")
    try:
        publication.send(vhost, exchange, key, properties, payload)
        payload = b""
        yield publication.known
    finally:
        publication.give_up()
    if not publication.known.is_over:
        raise NotOnDisk("the message is in its queue but not on the disk; it may be lost if the broker stops")
    if publication.refusal and publication.retriable:
        raise HeldTooLong(publication.refusal)
    if publication.refusal:
        raise PreconditionFailed(f"rejected Unable to publish message. {publication.refusal}")
    return {"routed": publication.routed}


def _payload_steps(request: ControlRequest) -> Waits[bytes]:
    payload, encoding = request.text("payload"), request.text("payload_encoding")
    if encoding == STRING:
        return payload.encode()
    if encoding != BASE64:
        raise PreconditionFailed(f"payload_encoding must be {STRING} or {BASE64}, not '{encoding}'")
    parts: list[bytes] = []
    for start in range(0, len(payload), BASE64_AT_ONCE):
        part = payload[start : start + BASE64_AT_ONCE]
        is_last = start + BASE64_AT_ONCE >= len(payload)
        try:
            parts.append(base64.b64decode(part, validate=True))
        except ValueError:
            raise PreconditionFailed(f"the payload is not {BASE64}") from None
        if not is_last:
            if part.endswith("="):
                raise PreconditionFailed(f"the payload is not {BASE64}")
            yield None
    return b"".join(parts)


def _properties(given: ControlRequest) -> Properties:
    """Return the given properties; names unknown to AMQP are ignored, as by RabbitMQ."""
    properties = Properties()
    for name, value in given.fields.items():
        if name == "headers":
            properties.headers = given.table(name)
        elif name in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBERS[name]:
                raise PreconditionFailed(f"the property '{name}' must be a whole number from 0 to {NUMBERS[name]}")
            setattr(properties, name, value)
        elif name in TEXTS:
            if not isinstance(value, str):
                raise PreconditionFailed(f"the property '{name}' must be a string")
            setattr(properties, name, value)
    return properties


ACK_MODES: Final[tuple[str, ...]] = (
    "ack_requeue_true",
    "ack_requeue_false",
    "reject_requeue_true",
    "reject_requeue_false",
)
MESSAGES_MOST: Final = 1000
BYTES_MOST: Final = 4 * 1024 * 1024
"""Most messages, and most bytes of bodies, in one answer: it ends before the message that exceeds one of them."""
PAGE_S: Final = 5.0
"""Seconds that an answer waits for each further page of a queue that pages; then it ends before that."""
MESSAGES_AT_ONCE: Final = 20
SETTLED_AT_ONCE: Final = 100
BYTES_AT_ONCE: Final = 96 * 1024
"""Messages taken, messages settled, and bytes of bodies per slice; of bytes a multiple of three, for base64."""


def take(node: Node, request: ControlRequest) -> Waiting:
    """Take messages from a queue, and requeue or settle them, as `ackmode` says."""
    return Waiting(_take_steps(node, request))


def _take_steps(node: Node, request: ControlRequest) -> Waits[Answer]:
    mode, encoding = request.text("ackmode"), request.text("encoding")
    if mode not in ACK_MODES:
        raise PreconditionFailed(f"ackmode must be one of {', '.join(ACK_MODES)}, not '{mode}'")
    if encoding not in ("auto", BASE64):
        raise PreconditionFailed("Unsupported encoding. Please use auto or base64.")
    count = min(_whole(request, "count"), MESSAGES_MOST)
    most = _whole(request, "truncate") if request.fields.get("truncate") is not None else None
    name = request.text("name")
    check_read_queue(request.access, name)
    queue = request.vhost.queue(name)
    check_takes(queue, "basic.get")
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by {reader_of(queue)}")
    if not queue.available():
        yield from _in_memory(node, queue, NEVER)
        yield None  # A page wakes all that wait for it.
    taking = Taking(node, request.access.user, queue, encoding == BASE64, most)
    try:
        yield from taking.take_steps(count)
        yield from taking.settle_steps(mode)
    finally:
        taking.give_back()
    return taking.rows


def _whole(request: ControlRequest, name: str) -> int:
    """Return a non-negative integer, which may be digits in a text."""
    value = request.fields.get(name)
    found: object = COUNT.parse(value)
    if not isinstance(found, int):
        raise PreconditionFailed(COUNT.fault(f"'{name}'", value))
    return found


def _in_memory(node: Node, queue: Queue, until: float) -> Waits[bool]:
    """Wait until the next message of a queue is in memory, if any is on the disk. Return false if the time is up."""
    while not queue.available() and queue.pager is not None and queue.pager.messages > 0:
        wait = Wait(until - node.broker.now)
        queue.pager.waiters.append(PageLoadCallback(wait.end))
        yield wait
        if not wait.is_over:
            return False
    return True


class Taking:
    """One request for messages of a queue: the messages taken, and their rows."""

    def __init__(self, node: Node, user: str, queue: Queue, base64_: bool, most: int | None) -> None:
        self.node = node
        self.queue = queue
        self.rows: list[Row] = []
        self._user = user
        self._session = Session()
        self._base64 = base64_
        self._most = most
        self._taken: int = 0
        self._size: int = 0
        self._unseen: int = 0
        """Bytes since the last pause."""

    def take_steps(self, count: int) -> Waits[None]:
        """Take messages up to the requested number, the end of the queue or the size of an answer."""
        broker, queue = self.node.broker, self.queue
        while not expire_slice(broker, queue) and not queue.deleted:
            yield None
        if not queue.deleted:
            broker.touch_queue(queue)
        if queue.grouping is None:
            yield from self._ungrouped_steps(count)
        else:
            yield from self._grouped_steps(count)

    def _grouped_steps(self, count: int) -> Waits[None]:
        """Take messages as `take_steps` does, none of a group that a consumer holds. Each is taken before its body is
        read, because another message may be the oldest afterwards.
        """
        broker, queue = self.node.broker, self.queue
        getter = self._session.getter_of(queue, False)
        while self._taken < count and not queue.deleted:
            batch = self._session.get(queue, False, broker.now, getter)
            if batch is None or batch.left == 0:
                has_more = not queue.available() and (yield from self._has_read_more())
                if has_more:
                    continue
                return
            message = batch.messages[0]
            assert message is not None
            size = int(broker.formats.body_bytes(message.content))
            most = size if self._most is None else min(self._most, size)
            if self._size + most > BYTES_MOST:
                self._session.unsettled.settle_tag(batch.first, False, Outcome.RELEASED, broker.now)
                self._check_size(size)
                return
            self._note_taken(batch)
            shown = yield from beginning_of_body(broker, message.content, most)
            self._size += most
            yield from self._append(self._with_count(message), size, shown, int(queue.waiting()))
            if self._taken % MESSAGES_AT_ONCE == 0:
                self._unseen = 0
                yield None

    def _ungrouped_steps(self, count: int) -> Waits[None]:
        broker, queue = self.node.broker, self.queue
        while self._taken < count and not queue.deleted:
            finish_requeueing(queue, broker.now)
            oldest = queue.ready_queue.next()
            if oldest is None:
                has_more = yield from self._has_read_more()
                if has_more:
                    continue
            if oldest is None or hides_next(queue):
                return
            size = int(broker.formats.body_bytes(oldest.content))
            most = size if self._most is None else min(self._most, size)
            if self._size + most > BYTES_MOST:
                self._check_size(size)
                return
            shown = yield from self._body(oldest, most)
            if shown is None:
                continue
            self._size += most
            message = self._take_one(oldest)
            left = int(queue.waiting())
            yield from self._append(message, size, shown, left)
            if self._taken % MESSAGES_AT_ONCE == 0:
                self._unseen = 0
                yield None

    def _has_read_more(self) -> Waits[bool]:
        """Wait until more of a queue that pages is in memory. Return false if nothing is left, or the disk is late."""
        queue = self.queue
        if queue.pager is None or queue.pager.messages == 0:
            return False
        in_time = yield from _in_memory(self.node, queue, self.node.broker.now + PAGE_S)
        if not in_time:
            return False
        yield None
        return queue.ready_queue.next() is not None or not queue.available()  # Others have taken the page.

    def _body(self, oldest: Message, most: int) -> Waits[bytes | None]:
        """Return the beginning of a body; None if another message has become the oldest while it was read."""
        shown = yield from beginning_of_body(self.node.broker, oldest.content, most)
        if body_of(oldest.content) is None:
            return shown
        return shown if self.queue.ready_queue.next() is oldest else None

    def _check_size(self, size: int) -> None:
        """Raise PreconditionFailed (406) if the first message has too many bytes for an answer."""
        if not self._taken:
            raise PreconditionFailed(
                f"the message has {size:,} bytes; an answer has at most {BYTES_MOST:,}; set truncate"
            )

    def _take_one(self, oldest: Message) -> Message:
        batch = self._session.get(self.queue, False, self.node.broker.now)
        assert batch is not None
        self._note_taken(batch)
        return self._with_count(oldest)

    def _note_taken(self, batch: Batch) -> None:
        storage = self.queue.storage
        if batch.waits_for_disk and storage is not None:
            storage.journal.require_flush()
        self._taken += 1

    def _with_count(self, message: Message) -> Message:
        return self.node.broker.formats.with_delivery_count(message) if self.queue.counts_returns() else message

    def _append(self, message: Message, size: int, shown: bytes, left: int) -> Waits[None]:
        """Add the row of a message. Its payload is a text of any length, in UTF-8."""
        message_format = self.node.broker.formats.find(message.content)
        try:
            properties: object = plain(message_format.properties(message.content).as_dict()) or []
        except UnreadableContent:
            properties = []  # Its headers are malformed inside: no earlier code has read them.
        row: Row = {
            "payload_bytes": size,
            "redelivered": message.redelivered,
            "exchange": message.envelope.exchange,
            "routing_key": message.envelope.routing_key,
            "message_count": left,
            "properties": properties,
        }
        self.rows.append(row)
        is_text = False
        if not self._base64:
            is_text = yield from self._is_text(shown)
        row["payload"] = shown
        row["payload_encoding"] = STRING
        if not is_text:
            row["payload"] = yield from self._as_base64(shown)
            row["payload_encoding"] = BASE64

    def _is_text(self, shown: bytes) -> Waits[bool]:
        """Return whether a body is UTF-8."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(shown), BYTES_AT_ONCE):
            end = start + BYTES_AT_ONCE
            try:
                decoder.decode(shown[start:end], end >= len(shown))
            except UnicodeDecodeError:
                return False
            if self._has_seen(min(end, len(shown)) - start):
                yield None
        return True

    def _as_base64(self, shown: bytes) -> Waits[bytes]:
        parts: list[bytes] = []
        for start in range(0, len(shown), BYTES_AT_ONCE):
            part = shown[start : start + BYTES_AT_ONCE]
            parts.append(base64.b64encode(part))
            if self._has_seen(len(part)):
                yield None
        return b"".join(parts)

    def _has_seen(self, size: int) -> bool:
        """Count bytes that were worked on; return whether a slice is used up."""
        self._unseen += size
        is_over = self._unseen >= BYTES_AT_ONCE
        if is_over:
            self._unseen = 0
        return is_over

    def settle_steps(self, mode: str) -> Waits[None]:
        """Settle the taken messages, the oldest first, as `mode` says."""
        broker, session = self.node.broker, self._session
        if mode.endswith("requeue_true") and not self.queue.deleted:
            broker.end_session(session)  # All without a pause: no younger message is delivered in between.
            return
        outcome = Outcome.ACCEPTED if mode == "ack_requeue_false" else Outcome.REJECTED
        for last in range(SETTLED_AT_ONCE, self._taken + SETTLED_AT_ONCE, SETTLED_AT_ONCE):
            if self.queue.deleted:
                raise NotFound(f"queue '{self.queue.name}' was deleted meanwhile")
            tag = min(last, self._taken)
            session.unsettled.settle(1, tag, outcome, broker.now)
            broker.schedule_delivery(self.queue)
            if tag < self._taken:
                yield None

    def give_back(self) -> None:
        """Requeue unsettled messages when the request ends."""
        if not self._session.unsettled.is_empty():
            self.node.broker.end_session(self._session)
        self._leave_counts()

    def _leave_counts(self) -> None:
        """Add the counts of the request to those of its user and its virtual host."""
        broker, counts = self.node.broker, consumed(self._session)
        vhost = broker.vhosts.get(self.queue.vhost)
        if vhost is not None:
            vhost.closed_counts.add(counts)
        broker.gates.counts_of_user(self._user).add(counts)


PUBLISHED: Final[tuple[str, ...]] = ("properties", "routing_key", "payload", "payload_encoding")
TAKEN: Final[tuple[str, ...]] = ("ackmode", "count", "encoding")
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("", publish, PUBLISHED, tag=MANAGEMENT, permissions=("write exchange", "write topic"), audited=False,
              routes=(
        Route("POST /exchanges/{vhost}/{name}/publish", "Publish a message; the answer follows its confirm: it may be "
              "withheld, or refused (503).", needed=PUBLISHED, body_most=MESSAGE_MOST),
    )),
    Operation("", take, (*TAKEN, "truncate"), tag=MANAGEMENT, permissions=("read queue",), audited=False, routes=(
        Route("POST /queues/{vhost}/{name}/get", "Take messages from a queue, and requeue or settle them, as `ackmode` "
              "says.", needed=TAKEN),
    )),
)  # fmt: skip
