"""Handlers for messages: publishing one through the usual gates, and purging a queue."""

from __future__ import annotations

import asyncio
import base64
from typing import Final

from starlette.responses import Response

from penstock.content.properties import TEXT_PROPERTIES, Properties
from penstock.describe.table import Row
from penstock.errors import ResourceLocked
from penstock.flow.timers import NEVER
from penstock.protocols.common.authorization import check_read_queue, check_write_exchange
from penstock.protocols.common.single_publish import SinglePublish
from penstock.server.http.request import (
    MESSAGE_MOST,
    ApiRequest,
    HttpError,
    bad_request,
    json_response,
    no_content,
    short,
    table,
    text,
    until_gone,
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
            if not isinstance(value, dict):
                raise bad_request("the property 'headers' must be an object")
            properties.headers = value
        elif name in NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBERS[name]:
                raise bad_request(f"the property '{name}' must be a whole number from 0 to {NUMBERS[name]}")
            setattr(properties, name, value)
        elif name in TEXTS:
            if not isinstance(value, str):
                raise bad_request(f"the property '{name}' must be a string")
            setattr(properties, name, value)
    return properties


async def purge(request: ApiRequest) -> Response:
    """Drop the ready messages of a queue."""
    request.begin()
    check_read_queue(request.access(request.vhost()), request.part("name"))
    queue = request.queue()
    if queue.owner is not None:
        raise ResourceLocked(f"queue '{queue.name}' is exclusive: it belongs to the connection that declared it")
    if queue.cursors:
        raise ResourceLocked(f"queue '{queue.name}' is read by cursor '{queue.cursors[0].name}' and cannot be purged")
    request.vhost().purge_queue(queue, request.driver.broker.now)
    return no_content()
