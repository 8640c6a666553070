"""Handlers for messages: publishing one through the usual gates, taking messages from a queue, and purging it."""

from __future__ import annotations

import asyncio
import base64
import codecs
import json
from typing import Final

from starlette.responses import Response
from typing_extensions import override

from penstock.connections.authorization import check_read_queue, check_write_exchange
from penstock.connections.single_publish import SinglePublish
from penstock.content.properties import TEXT_PROPERTIES, Properties
from penstock.core.consume.bulk_requeue import finish_requeueing
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.large_bodies import LargeReader, PieceListener
from penstock.core.large_content import body_of
from penstock.core.message import Message
from penstock.core.message_format import UnreadableContent
from penstock.core.publish.session_counts import consumed
from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.expiry import expire_slice
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import hides_next
from penstock.describe.table import Row, plain
from penstock.errors import InternalError, NotFound, ResourceLocked
from penstock.flow.timers import NEVER
from penstock.operations.topology import short
from penstock.server.http.request import (
    MESSAGE_MOST,
    ApiRequest,
    HttpError,
    bad_request,
    json_octets,
    json_response,
    table,
    text,
    until_gone,
    whole,
)

BASE64_AT_ONCE: Final = 256 * 1024
"""Characters of a payload decoded per slice: four make three octets."""
NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": (1 << 64) - 1}
"""Largest value of each numeric property (those of AMQP 0-9-1, section 1.8.1)."""
TEXTS: Final = (*TEXT_PROPERTIES, "cluster_id")


async def publish(request: ApiRequest) -> Response:
    """Publish a message; the answer follows its confirm: it may be withheld, or refused (503)."""
    fields = await request.fields("properties", "routing_key", "payload", "payload_encoding", most=MESSAGE_MOST)
    vhost, exchange = request.vhost(), request.exchange_name()
    access = request.access(vhost)
    check_write_exchange(access, exchange)
    vhost.exchange(exchange)
    key = short(text(fields, "routing_key"), "a routing key")
    properties, payload = _properties(table(fields, "properties")), await _payload(request, fields)
    client = request.http_request.client
    publication = SinglePublish(
        request.driver.single_publishes, access, "unknown" if client is None else f"{client.host}:{client.port}"
    )
    try:
        publication.send(vhost, exchange, key, properties, payload)
        request.end()
        known = await _answered(request, publication)
    finally:
        request.begin()
        publication.give_up()
    if not known:
        raise HttpError(
            503, "not_on_disk", "the message is in its queue but not on the disk; it may be lost if the broker stops"
        )
    if publication.refusal and publication.retriable:
        raise HttpError(503, "held_too_long", publication.refusal, {"Retry-After": "1"})
    if publication.refusal:
        raise bad_request(f"rejected Unable to publish message. {publication.refusal}")
    return json_response({"routed": publication.routed})


async def _answered(request: ApiRequest, publication: SinglePublish) -> bool:
    """Wait for a message's outcome, until its client disconnects or the time is up.

    Return false in the last case.
    """
    known = request.event_loop.when_published(publication)
    gone = asyncio.ensure_future(until_gone(request.http_request.receive))
    try:
        timeout = None if publication.timeout_s == NEVER else publication.timeout_s
        done, _ = await asyncio.wait((known, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return len(done) > 0
    finally:
        known.cancel()
        gone.cancel()
        request.event_loop.forget(publication)


async def _payload(request: ApiRequest, fields: Row) -> bytes:
    payload, encoding = text(fields, "payload"), text(fields, "payload_encoding")
    if encoding == "string":
        return payload.encode()
    if encoding != "base64":
        raise bad_request(f"payload_encoding must be string or base64, not '{encoding}'")
    parts: list[bytes] = []
    for start in range(0, len(payload), BASE64_AT_ONCE):
        part = payload[start : start + BASE64_AT_ONCE]
        try:
            parts.append(base64.b64decode(part, validate=True))
        except ValueError:
            raise bad_request("the payload is not base64") from None
        if start + BASE64_AT_ONCE < len(payload):
            if part.endswith("="):
                raise bad_request("the payload is not base64")
            await request.pause()
    request.begin()
    return b"".join(parts)


def _properties(given: dict[str, object]) -> Properties:
    """Return the given properties; names unknown to AMQP are ignored, as by RabbitMQ."""
    properties = Properties()
    for name, value in given.items():
        if name == "headers":
            properties.headers = table(given, name)
        elif name in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBERS[name]:
                raise bad_request(f"the property '{name}' must be a whole number from 0 to {NUMBERS[name]}")
            setattr(properties, name, value)
        elif name in TEXTS:
            if not isinstance(value, str):
                raise bad_request(f"the property '{name}' must be a string")
            setattr(properties, name, value)
    return properties


ACK_MODES: Final = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
MESSAGES_MOST: Final = 1000
BYTES_MOST: Final = 4 * 1024 * 1024
"""Most messages, and most octets of bodies, in one answer: it ends before the message that exceeds one of them."""
PAGE_S: Final = 5.0
"""Seconds that an answer waits for each further page of a queue that pages; then it ends before that."""
MESSAGES_AT_ONCE: Final = 20
SETTLED_AT_ONCE: Final = 100
OCTETS_AT_ONCE: Final = 96 * 1024
"""Messages taken, messages settled, and octets of bodies per slice; of octets a multiple of three, for base64."""


async def get(request: ApiRequest) -> Response:
    """Take messages from a queue, and requeue or settle them, as `ackmode` says."""
    fields = await request.fields("ackmode", "count", "encoding")
    mode, encoding = text(fields, "ackmode"), text(fields, "encoding")
    if mode not in ACK_MODES:
        raise bad_request(f"ackmode must be one of {', '.join(ACK_MODES)}, not '{mode}'")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    count = min(whole(fields, "count"), MESSAGES_MOST)
    most = whole(fields, "truncate") if fields.get("truncate") is not None else None
    check_read_queue(request.access(request.vhost()), request.part("name"))
    queue = request.vhost().queue(request.part("name"))
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by {reader_of(queue)}")
    if not queue.available():
        await request.event_loop.in_memory(queue)
        await request.pause()  # A page wakes all that wait for it.
    taking = Taking(request, queue, encoding == "base64", most)
    try:
        await taking.take(count)
        await taking.settle(mode)
    finally:
        taking.give_back()
    return Response(b"[" + b"".join(taking.parts) + b"]", media_type="application/json")


class _Arrived(PieceListener):
    """Wakes a request when a piece was read."""

    def __init__(self) -> None:
        self._known: asyncio.Future[None] | None = None

    def expect(self) -> asyncio.Future[None]:
        """Return the callback for the next piece that is read."""
        self._known = asyncio.get_running_loop().create_future()
        return self._known

    @override
    def on_piece(self, reader: LargeReader) -> None:
        if self._known is not None and not self._known.done():
            self._known.set_result(None)


class Taking:
    """One `get` request: the messages taken, and the answer so far."""

    def __init__(self, request: ApiRequest, queue: Queue, base64_: bool, most: int | None) -> None:
        self.ask = request
        self.queue = queue
        self.parts: list[bytes] = []
        """Parts of the answer, without its brackets."""
        self._session = Session()
        self._base64 = base64_
        self._most = most
        self._taken = 0
        self._size = 0
        self._unseen = 0
        """Octets since the last pause."""

    async def take(self, count: int) -> None:
        """Take messages up to the requested number, the end of the queue or the size of an answer."""
        broker, queue = self.ask.driver.broker, self.queue
        self.ask.begin()
        while not expire_slice(broker, queue) and not queue.deleted:
            await self._pause()
        if not queue.deleted:
            broker.touch_queue(queue)
        while self._taken < count and not queue.deleted:
            finish_requeueing(queue, broker.now)
            oldest = queue.ready_queue.next()
            if oldest is None and await self._has_read_more():
                continue
            if oldest is None or hides_next(queue):
                return
            size = int(broker.formats.body_bytes(oldest.content))
            most = size if self._most is None else min(self._most, size)
            if self._size + most > BYTES_MOST:
                if not self._taken:
                    raise bad_request(
                        f"the message has {size:,} bytes; an answer has at most {BYTES_MOST:,}; set truncate"
                    )
                return
            shown = await self._body(oldest, most)
            if shown is None:
                continue
            self._size += most
            message = self._take_one(oldest)
            left = int(queue.waiting())
            await self._append(message, size, shown, left)
            if self._taken % MESSAGES_AT_ONCE == 0:
                await self._pause()

    async def _has_read_more(self) -> bool:
        """Wait until more of a queue that pages is in memory. Return false if nothing is left, or the disk is late."""
        pager = self.queue.pager
        if pager is None or pager.messages == 0:
            return False
        try:
            async with asyncio.timeout(PAGE_S):
                await self.ask.event_loop.in_memory(self.queue)
        except TimeoutError:
            return False
        await self._pause()
        return self.queue.ready_queue.next() is not None or not self.queue.available()  # Others have taken the page.

    async def _body(self, oldest: Message, most: int) -> bytes | None:
        """Return the beginning of a body; None if another message has become the oldest while it was read."""
        broker = self.ask.driver.broker
        body = body_of(oldest.content)
        if body is None:
            return broker.formats.find(oldest.content).body(oldest.content)[:most]
        parts: list[bytes] = []
        octets = 0
        listener = _Arrived()
        reader = body.open(broker.large, body.spans, listener)
        while octets < most and not reader.fault:
            part = reader.take(most - octets)
            if part:
                parts.append(part)
                octets += len(part)
                continue
            arrived = listener.expect()
            self.ask.begin()  # Pieces are read at the end of a turn.
            await arrived
            await self._pause()
        reader.end()
        if reader.fault:
            raise InternalError(f"a large message cannot be read from the store: {reader.fault}")
        return b"".join(parts) if self.queue.ready_queue.next() is oldest else None

    def _take_one(self, oldest: Message) -> Message:
        queue = self.queue
        batch = self._session.get(queue, False, self.ask.driver.broker.now)
        assert batch is not None
        if batch.waits_for_disk and queue.storage is not None:
            queue.storage.journal.require_flush()
        self._taken += 1
        return self.ask.driver.broker.formats.with_delivery_count(oldest) if queue.counts_returns() else oldest

    async def _append(self, message: Message, size: int, shown: bytes, left: int) -> None:
        """Add a message to the answer."""
        message_format = self.ask.driver.broker.formats.find(message.content)
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
        head = json_octets(row)[:-1]
        encoding, payload = "string", None if self._base64 else await self._as_text(shown)
        if payload is None:
            encoding, payload = "base64", await self._as_base64(shown)
        before = b"," if self.parts else b""
        self.parts += [before + head + b',"payload":"', *payload, b'","payload_encoding":"%b"}' % encoding.encode()]

    async def _as_text(self, shown: bytes) -> list[bytes] | None:
        """Return a body as the inside of a JSON string, in parts; None if it is not UTF-8."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        parts: list[bytes] = []
        for start in range(0, len(shown), OCTETS_AT_ONCE):
            end = start + OCTETS_AT_ONCE
            try:
                part = decoder.decode(shown[start:end], end >= len(shown))
            except UnicodeDecodeError:
                return None
            parts.append(json.dumps(part, ensure_ascii=False)[1:-1].encode())
            await self._saw(len(part))
        return parts

    async def _as_base64(self, shown: bytes) -> list[bytes]:
        parts: list[bytes] = []
        for start in range(0, len(shown), OCTETS_AT_ONCE):
            parts.append(base64.b64encode(shown[start : start + OCTETS_AT_ONCE]))
            await self._saw(OCTETS_AT_ONCE)
        return parts

    async def _saw(self, octets: int) -> None:
        self._unseen += octets
        if self._unseen >= OCTETS_AT_ONCE:
            await self._pause()

    async def _pause(self) -> None:
        self._unseen = 0
        await self.ask.pause()
        self.ask.begin()

    async def settle(self, mode: str) -> None:
        """Settle the taken messages, the oldest first, as `mode` says."""
        broker, session = self.ask.driver.broker, self._session
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
                await self._pause()

    def give_back(self) -> None:
        """Requeue unsettled messages when the request ends."""
        if not self._session.unsettled.is_empty():
            self.ask.begin()
            self.ask.driver.broker.end_session(self._session)
        self._leave_counts()

    def _leave_counts(self) -> None:
        """Add the counts of the request to those of its user and its virtual host."""
        broker, counts = self.ask.driver.broker, consumed(self._session)
        vhost = broker.vhosts.get(self.queue.vhost)
        if vhost is not None:
            vhost.closed_counts.add(counts)
        broker.gates.counts_of_user(self.ask.user).add(counts)
