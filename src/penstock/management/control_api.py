"""Control API: operations requested by ordinary publishes to the exchange `penstock.control`.

The routing key names the operation and the body is a JSON object. The reply goes to the queue in `reply_to` with the
same `correlation_id`, or else the request's `message_id`. One port, one login and one TLS setup serve everything, from
any AMQP client. A failed operation is answered with an error and its code; it closes no channel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.large_bodies import LargeBody, PieceListener
from penstock.core.large_content import large_content
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.lists import PagedLists
from penstock.errors import AccessRefused, BrokerError, ContentTooLarge, NotFound
from penstock.flow.level import OVERHEAD
from penstock.flow.work import Steps
from penstock.log_ids import REPLY_DROPPED
from penstock.management.answer_text import OCTETS_A_UNIT, text_steps
from penstock.management.operation import CHANGES, LOOKS, Answer, Operation
from penstock.protocols.common.audit_trail import actor_of, audit_refusal
from penstock.protocols.common.authorization import check_reply_queue, check_tag
from penstock.protocols.common.control_request import (
    IMPORT,
    PUBLISH_BLOCK,
    ControlRequest,
    Replies,
    check_fields,
    octets_max,
)
from penstock.protocols.common.log_line import LogLine
from penstock.ranges.service import RangeService

if TYPE_CHECKING:
    from penstock.management.node import Node
    from penstock.protocols.common.connection import Connection

LAZY_OCTETS: Final = 64 * 1024
"""Octets from which a block is written as its reader takes it."""
REQUEST_VALUES: Final = 10_000
"""Approximate number of values (names, numbers, texts, lists) allowed in a request."""
REQUEST_WORK: Final = 50
"""Units of work of each request; lists are charged per item."""


class ControlApi(Replies):
    """Control operations by name, and their replies."""

    def __init__(self, node: Node, broker: Broker, version: str, operations: Sequence[Operation]) -> None:
        self.node = node
        self.broker = broker
        self.version = version
        self.ranges: RangeService = RangeService(self, node)
        self.operations: dict[str, Operation] = {row.name: row for row in operations if row.name}
        self.lists: PagedLists = PagedLists(broker.work)
        """Lists of which onlookers have seen the first pages."""

    def request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        """Carry out an operation and reply; a request without `reply_to` is carried out too."""
        request = ControlRequest(vhost, connection)
        try:
            message_format = self.broker.formats.of(content)
            properties = message_format.properties(content)
            request.reply_to, request.correlation_id = properties.reply_to, _correlation(properties)
            row = self._row(connection, operation)
            size = message_format.body_bytes(content)
            self.broker.work.done += REQUEST_WORK
            if operation != PUBLISH_BLOCK:  # Its rows are counted when they are taken.
                self.broker.work.done += size // OCTETS_A_UNIT
            _check_size(operation, size)
            if operation == PUBLISH_BLOCK:
                start = message_format.payload_at(content)
                if start < 0:
                    content = message_format.payload(content)
                    start = 0
                self.ranges.publish_block(request, properties, content, start, size)
                return
            body = message_format.payload(content)
            if operation == IMPORT:
                request.unread = body
            else:
                _check_values(operation, body)
                request.read(body)
                check_fields(operation, row.fields, request.fields)
            self._carry_out(row, request, connection)
        except BrokerError as error:
            audit_refusal(connection, operation, error)
            self.fail(request, error)
        except Exception as unexpected:
            self.fail(request, self.node.failures.report(f"control operation '{operation}'", unexpected))

    def _row(self, connection: Connection, operation: str) -> Operation:
        """Return an operation that a connection's user may request. Raises NotFound (404), AccessRefused (403)."""
        row = self.operations.get(operation)
        if row is None:
            raise NotFound(f"no control operation '{operation}'; known are {', '.join(sorted(self.operations))}")
        check_tag(connection.access, row.tag, f"control operation '{operation}'")
        return row

    def _carry_out(self, row: Operation, request: ControlRequest, connection: Connection) -> None:
        self._note_before(row, request)
        found = row.run(self.node, request)
        if found is None or isinstance(found, (dict, list)):
            self._audit(row, request, found)
            if found is not None:
                self.answer(request, found)
            return
        steps = self._answer_in_steps(request, self._audited(row, request, found))
        if row.how == CHANGES:
            self.node.start(steps, connection)
        else:
            self.node.start_asking(steps, connection, row.how == LOOKS)

    def _audited(self, row: Operation, request: ControlRequest, steps: Steps[Answer]) -> Steps[Answer]:
        """Carry out an operation in steps, and record it when it is made."""
        self._note_before(row, request)  # Again: it waits for earlier changes.
        answer = yield from steps
        self._audit(row, request, answer)
        return answer

    def _note_before(self, row: Operation, request: ControlRequest) -> None:
        if row.before is not None:
            request.before = row.before(self.node, request)

    def _audit(self, row: Operation, request: ControlRequest, answer: Answer) -> None:
        """Record an operation in the audit trail, if it changes anything."""
        if request.connection is None or not row.audited:
            return
        after = answer if row.name == IMPORT else request.fields
        self.node.audit.change(actor_of(request.connection), row.name, request.subject(), request.before, after)

    @override
    def answer(self, request: ControlRequest, answer: Answer) -> None:
        """Reply with an object; encoding it is work as well."""
        body = json.dumps(answer).encode()
        self.broker.work.done += len(body) // OCTETS_A_UNIT
        self.reply(request, "application/json", body)

    @override
    def answer_later(self, request: ControlRequest, steps: Steps[Answer]) -> None:
        """Carry out a reading operation over as many turns as needed, concurrently with changes."""
        self.node.start_asking(self._answer_in_steps(request, steps), request.connection)

    def _answer_in_steps(self, request: ControlRequest, steps: Steps[Answer]) -> Steps[None]:
        """Carry out an operation in steps, and reply unless it replies by itself (None)."""
        declared = self.broker.durable_changes.durable_declarations
        try:
            answer = yield from steps
            if answer is not None:
                assert isinstance(answer, dict)
                body = yield from text_steps(answer, self.broker.work)
                self.reply(request, "application/json", body)
        except BrokerError as error:
            self.fail(request, error)
        except Exception as unexpected:
            self.fail(request, self.node.failures.report("a control operation", unexpected))
        if request.connection is not None:
            request.connection.output.await_change(declared)

    # Replies

    @override
    def fail(self, request: ControlRequest, error: BrokerError) -> None:
        """Reply with an error."""
        code = int(error.code)
        body = {"code": code, "name": error.reply.lower().replace("_", "-"), "text": str(error)}
        self.reply(request, "application/vnd.penstock.error+json", json.dumps(body).encode())

    @override
    def reply(self, request: ControlRequest, content_type: str, body: bytes) -> None:
        """Put a reply into the queue of its requester.

        The broker never waits for room: without room the reply is dropped and logged.
        """
        queue = self._reply_queue(request)
        if queue is not None:
            self._put(queue, self.broker.formats.encode(_properties_for(request, content_type), body), len(body))

    def _reply_queue(self, request: ControlRequest) -> Queue | None:
        """Return the queue for the replies to a requester; None without one, or if it may not publish there."""
        name = request.reply_to or ""
        queue = request.vhost.default_route(name)
        try:
            if queue is not None:
                number = 0 if request.connection is None else request.connection.number
                check_reply_queue(request.access, request.vhost, name, request.connection, number)
        except AccessRefused as error:
            self.node.log(LogLine(f"reply to {request.asker()} dropped: {error}", {"id": REPLY_DROPPED}))
            return None
        return queue

    @override
    def reply_block(self, request: ControlRequest, content_type: str, block: LargeBody) -> None:
        """Put a block into the queue of its requester, as `reply` does: as a large message, which is never joined.

        A small one is joined, and so is one for a queue that may write it to the store or pass it on.
        """
        queue = self._reply_queue(request)
        if queue is None:
            return
        octets = block.octets
        formats = self.broker.formats
        properties = _properties_for(request, content_type)
        is_plain = queue.owner is not None and queue.storage is None and queue.pager is None
        if octets < LAZY_OCTETS or not is_plain or queue.dead_letters is not None:
            whole = block.open(self.broker.large, block.spans, PieceListener())
            content = formats.encode(properties, whole.take(octets))
        else:
            content = large_content(formats.encode(properties, b""), block)
        self._put(queue, content, octets)

    def _put(self, queue: Queue, content: bytes, octets: i64) -> None:
        """Put a reply with a body of so many octets into a queue, if it has room."""
        charge = octets + OVERHEAD
        if not queue.fits(charge):
            text = f"reply of {octets} bytes to queue '{queue.name}' dropped: it is at its capacity"
            self.node.log(LogLine(text, {"id": REPLY_DROPPED}))
            return
        queue.enqueue(Envelope("", queue.name), content, charge, self.broker.now)
        self.broker.schedule_delivery(queue)


def _properties_for(request: ControlRequest, content_type: str) -> Properties:
    return Properties(content_type=content_type, correlation_id=request.correlation_id)


def _correlation(properties: Properties) -> str | None:
    """Return the correlation id of an answer: the request's, or else its message id, as clients of AMQP 1.0 expect."""
    return properties.message_id if properties.correlation_id is None else properties.correlation_id


def _check_size(operation: str, size: i64) -> None:
    """Check the size of a request. Raises ContentTooLarge (311) if parsing would take long."""
    most = octets_max(operation)
    if size > most:
        raise ContentTooLarge(f"a request for '{operation}' has {size:,} octets; the most is {most:,}")


def _check_values(operation: str, body: bytes) -> None:
    """Check the number of values in a request. Raises ContentTooLarge (311): values cost time, not octets."""
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > REQUEST_VALUES:
        raise ContentTooLarge(
            f"a request for '{operation}' has about {values:,} values; the most is {REQUEST_VALUES:,}"
        )
