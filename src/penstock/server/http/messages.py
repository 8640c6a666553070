"""Messages: publishing one through the same gates as any other, taking some, and purging."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Final

from starlette.responses import Response

from penstock.adapter.amqp091.content import body_of, properties_of
from penstock.adapter.amqp091.raw import counted
from penstock.adapter.publication import Publication
from penstock.adapter.shapes import Shape, plain
from penstock.core.lifetime import expire
from penstock.core.message import Message
from penstock.core.queue import Queue
from penstock.core.session import Session
from penstock.errors import ResourceLocked
from penstock.flow.deadlines import NEVER
from penstock.server.http.ask import Ask, HttpError, bad, nothing, short, table, text, told, whole
from penstock.wire.amqp091.codec import CodecError, Properties

ACK_MODES: Final = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")
GET_MESSAGES_MOST: Final = 1000
GET_BYTES_MOST: Final = 16 * 1024 * 1024
"""Messages, and octets of their bodies, in one answer: it ends with the message that would pass one of them."""
NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": (1 << 64) - 1}
"""The greatest value of the properties that are numbers (AMQP 0-9-1 section 1.8.1)."""
TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


async def publish(ask: Ask) -> Response:
    """Publish a message; the answer comes when its confirmation would: it may be withheld, or refused (503)."""
    fields = await ask.fields("properties", "routing_key", "payload", "payload_encoding")
    vhost, exchange = ask.vhost(), ask.exchange_name()
    vhost.exchange(exchange)
    key = short(text(fields, "routing_key"), "a routing key")
    properties, payload = _properties(table(fields, "properties")), _payload(fields)
    client = ask.request.client
    publication = Publication(ask.hub, ask.user, "unknown" if client is None else f"{client.host}:{client.port}")
    try:
        publication.send(vhost, exchange, key, properties, payload)
        ask.end()
        known = await _answered(ask, publication)
    finally:
        ask.begin()
        publication.give_up()
    if not known:
        raise HttpError(503, "not_on_disk", "the message is in its queue and not on the disk, and may or may not last")
    if publication.refusal and publication.retriable:
        raise HttpError(503, "held_too_long", publication.refusal, {"Retry-After": "1"})
    if publication.refusal:
        raise bad(f"rejected Unable to publish message. {publication.refusal}")
    return told({"routed": publication.routed})


async def _answered(ask: Ask, publication: Publication) -> bool:
    """Wait until it is known what has become of a message, its sender goes away, or it has waited too long.

    Returns false for the last.
    """
    known = ask.shell.when_published(publication)
    gone = asyncio.ensure_future(_gone(ask))
    try:
        timeout = None if publication.patience_s == NEVER else publication.patience_s
        done, _ = await asyncio.wait((known, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return len(done) > 0
    finally:
        known.cancel()
        gone.cancel()
        ask.shell.forget(publication)


async def _gone(ask: Ask) -> None:
    while (await ask.request.receive())["type"] != "http.disconnect":
        pass


def _payload(fields: Shape) -> bytes:
    payload, encoding = text(fields, "payload"), text(fields, "payload_encoding")
    if encoding == "string":
        return payload.encode()
    if encoding == "base64":
        try:
            return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise bad("the payload is not base64") from None
    raise bad(f"payload_encoding must be string or base64, not '{encoding}'")


def _properties(given: dict[str, object]) -> Properties:
    """Return the properties that are given; names that AMQP does not have are ignored, as by RabbitMQ."""
    properties = Properties()
    for name, value in given.items():
        if name == "headers":
            if not isinstance(value, dict):
                raise bad("the property 'headers' must be an object")
            properties.headers = value
        elif name in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBERS[name]:
                raise bad(f"the property '{name}' must be a whole number from 0 to {NUMBERS[name]}")
            setattr(properties, name, value)
        elif name in TEXTS:
            if not isinstance(value, str):
                raise bad(f"the property '{name}' must be a string")
            setattr(properties, name, value)
    return properties


async def get(ask: Ask) -> Response:
    """Take messages of a queue, and put them back or not, as `ackmode` says."""
    fields = await ask.fields("ackmode", "count", "encoding")
    mode, encoding = text(fields, "ackmode"), text(fields, "encoding")
    if mode not in ACK_MODES:
        raise bad(f"ackmode must be one of {', '.join(ACK_MODES)}, not '{mode}'")
    if encoding not in ("auto", "base64"):
        raise bad("Unsupported encoding. Please use auto or base64.")
    count = min(whole(fields, "count"), GET_MESSAGES_MOST)
    most = whole(fields, "truncate") if fields.get("truncate") is not None else None
    queue = ask.vhost().queue(ask.part("name"))
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by cursor '{queue.cursors[0].name}'")
    await ask.shell.in_memory(queue)
    return told(_take(ask, queue, mode, count, encoding, most))


def _take(ask: Ask, queue: Queue, mode: str, count: int, encoding: str, most: int | None) -> list[Shape]:
    broker = ask.hub.broker
    expire(queue, broker.now, broker.now)
    broker.use(queue)
    session = Session()
    found: list[Shape] = []
    size = 0
    while len(found) < count:
        oldest = queue.backlog.next()
        if oldest is None:
            break
        body = body_of(oldest.content)
        size += len(body) if most is None else min(len(body), most)
        if size > GET_BYTES_MOST:
            if not found:
                session.recover(broker.now)
                raise bad(f"the message has {len(body):,} bytes; an answer has {GET_BYTES_MOST:,}: say truncate")
            break
        batch = session.get(queue, False, broker.now)
        assert batch is not None
        if batch.early and queue.kept is not None:
            queue.kept.journal.promise()
        left = int(queue.waiting())
        told = counted(oldest) if queue.counts_returns() else oldest
        found.append(_message(told, body, left, encoding, most))
    if not found:
        return found
    if mode == "ack_requeue_false":
        session.acknowledge(0, True, broker.now)
    elif mode == "reject_requeue_false":
        session.discard(0, True, broker.now)
    else:
        session.requeue(0, True, broker.now)
    broker.mark(queue)
    return found


def _message(message: Message, body: bytes, left: int, encoding: str, most: int | None) -> Shape:
    try:
        properties: object = plain(properties_of(message.content).as_dict()) or []
    except CodecError:
        properties = []  # The inside of its headers is malformed: nobody has looked at it before.
    shown = body if most is None else body[:most]
    found: Shape = {
        "payload_bytes": len(body),
        "redelivered": message.redelivered,
        "exchange": message.address.exchange,
        "routing_key": message.address.routing_key,
        "message_count": left,
        "properties": properties,
    }
    if encoding == "auto":
        try:
            return {**found, "payload": shown.decode(), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {**found, "payload": base64.b64encode(shown).decode(), "payload_encoding": "base64"}


async def purge(ask: Ask) -> Response:
    """Drop what is in a queue and not with a consumer."""
    ask.begin()
    queue = ask.queue()
    if queue.owner is not None:
        raise ResourceLocked(f"queue '{queue.name}' is exclusive: it belongs to the connection that declared it")
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by cursor '{queue.cursors[0].name}' and cannot be purged")
    queue.purge(ask.hub.broker.now)
    return nothing()
