"""Control API: operations requested by ordinary publishes to the exchange `penstock.control`.

The routing key names the operation and the body is a JSON object. The reply goes to the queue in `reply_to` with the
same `correlation_id`, or else the request's `message_id`. One port, one login and one TLS setup serve everything, from
any AMQP client. A failed operation is answered with an error and its code; it closes no channel.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.operations import CONTROL, control_need
from penstock.access.tags import MONITORING
from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.large_bodies import LargeBody, PieceListener
from penstock.core.large_content import large_content
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.lists import PagedLists
from penstock.errors import (
    AccessRefused,
    BrokerError,
    ContentTooLarge,
    NotFound,
    ResourceLocked,
)
from penstock.flow.level import OVERHEAD
from penstock.flow.work import Steps
from penstock.log_ids import REPLY_DROPPED
from penstock.management import (
    access_admin,
    access_api,
    blocked_overview,
    definitions_export,
    looking_api,
    operator_api,
    parameters_api,
    policies_api,
    redaction,
    settings_api,
    vhost_admin,
)
from penstock.management.answer_text import OCTETS_A_UNIT, text_steps
from penstock.management.certificates import answer_reload
from penstock.management.control_fields import check_fields
from penstock.management.control_request import IMPORT, PUBLISH_BLOCK, ControlRequest, Replies, octets_max
from penstock.management.definitions_import import answer_import
from penstock.management.flow_log_records import answer_watch
from penstock.management.producer_api import OPERATIONS
from penstock.protocols.common.audit_trail import actor_of, audit_refusal
from penstock.protocols.common.authorization import check_reply_queue, check_tag
from penstock.protocols.common.log_line import LogLine
from penstock.ranges.service import RangeService

if TYPE_CHECKING:
    from penstock.management.node import Node
    from penstock.protocols.common.connection import Connection

READING: Final = (
    *("show", "why", "watch", "list", "status", "top", "settings.list", "config.show", "user.list", "limit.list"),
    *("policy.list", "parameter.list"),
)
"""Operations of administrators that change nothing."""
UNAUDITED: Final = frozenset({name for name, need in CONTROL.items() if not need.tag} | set(READING)) - {
    "cursor.move",
    "cursor.delete",
    "cursor.release",
}
"""Operations that change nothing that an operator set up: they read, or are the work of a query."""
LAZY_OCTETS: Final = 64 * 1024
"""Octets from which a block is written as its reader takes it."""
REQUEST_VALUES: Final = 10_000
"""Approximate number of values (names, numbers, texts, lists) allowed in a request."""
REQUEST_WORK: Final = 50
"""Units of work of each request; lists are charged per item."""


class ControlApi(Replies):
    """Control operations by name, and their replies."""

    def __init__(self, node: Node, broker: Broker, version: str) -> None:
        self.node = node
        self.broker = broker
        self.version = version
        self.ranges = RangeService(self, node)
        self._operations: dict[str, Callable[[ControlRequest], dict[str, object] | None]] = {
            **self.ranges.operations(),
            "cursor.show": lambda request: redaction.redact(self.ranges.show(request), node, request.access),
            "block": lambda request: operator_api.block(node, request),
            "unblock": lambda request: operator_api.unblock(node, request),
            "connection.close": lambda request: operator_api.close_connection(node, request),
            "show": lambda request: settings_api.show(node, request),
            "tls.reload": lambda request: answer_reload(node.certificates, request),
            "vhost.declare": self._declare_vhost,
            "why": self._why,
            **(access_api.operations(node) | OPERATIONS),
        }
        self._in_steps: dict[str, Callable[[ControlRequest], Steps[dict[str, object]]]] = {
            "settings.set": lambda request: settings_api.set_settings(node, request),
            "policy.set": lambda request: policies_api.answer_set(node, request),
            "policy.clear": lambda request: policies_api.answer_clear(node, request),
            "settings.unset": lambda request: settings_api.unset_settings(node, request),
            "cursor.move": self.ranges.move,
            "vhost.delete": self._delete_vhost,
            IMPORT: lambda request: answer_import(node, request),
        }
        """Operations that change much, one after the other, over as many turns as needed."""
        self._asking = self.ranges.asking()
        """Operations that read much, over as many turns as needed, concurrently with changes."""
        self._looking: dict[str, Callable[[ControlRequest], Steps[dict[str, object] | None]]] = _lists(node)
        """The same for onlookers: they delay others less."""
        self.lists = PagedLists(broker.work)
        """Lists of which onlookers have seen the first pages."""

    def request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        """Carry out an operation and reply; a request without `reply_to` is carried out too."""
        properties = Properties()
        try:
            message_format = self.broker.formats.of(content)
            properties = message_format.properties(content)
            self._admit(connection, operation)
            size = message_format.body_bytes(content)
            self.broker.work.done += REQUEST_WORK
            if operation != PUBLISH_BLOCK:  # Its rows are counted when they are taken.
                self.broker.work.done += size // OCTETS_A_UNIT
            _check_size(operation, size)
            request = ControlRequest(vhost, connection, properties.reply_to, _correlation(properties), b"{}")
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
                _read(request, operation, body)
            in_steps = self._in_steps.get(operation)
            if in_steps is not None:
                self.node.start(self._answer_in_steps(request, self._audited(request, operation, in_steps)), connection)
                return
            asking = self._asking.get(operation)
            if asking is not None:
                self.node.start_asking(self._answer_in_steps(request, asking(request)), connection)
                return
            looking = self._looking.get(operation)
            if looking is not None:
                self.node.start_asking(
                    self._answer_in_steps(request, self._audited(request, operation, looking)), connection, True
                )
                return
            answer = self._operations[operation](request)
            self._audit(request, operation, answer)
            if answer is not None:
                self.answer(request, answer)
        except BrokerError as error:
            audit_refusal(connection, operation, error)
            self._fail(vhost, connection, properties, error)
        except Exception as unexpected:
            failure = self.node.failures.report(f"control operation '{operation}'", unexpected)
            self._fail(vhost, connection, properties, failure)

    def _fail(self, vhost: VirtualHost, connection: Connection, properties: Properties, error: BrokerError) -> None:
        """Reply with an error to a request that may not have been read."""
        self.fail(ControlRequest(vhost, connection, properties.reply_to, _correlation(properties), b"{}"), error)

    def names(self) -> list[str]:
        """Return the names of all operations."""
        return sorted([*self._operations, *self._in_steps, *self._asking, *self._looking, PUBLISH_BLOCK])

    def _admit(self, connection: Connection, operation: str) -> None:
        """Check that a connection's user may request an operation. Raises NotFound (404), AccessRefused (403)."""
        in_steps = operation in self._in_steps or operation in self._asking or operation in self._looking
        if not in_steps and operation not in self._operations and operation != PUBLISH_BLOCK:
            raise NotFound(f"no control operation '{operation}'; known are {', '.join(self.names())}")
        check_tag(connection.access, control_need(operation).tag, f"control operation '{operation}'")

    def _audited(
        self,
        request: ControlRequest,
        operation: str,
        in_steps: Callable[[ControlRequest], Steps[dict[str, object] | None]],
    ) -> Steps[dict[str, object] | None]:
        """Carry out an operation in steps, and record it when it is made."""
        answer = yield from in_steps(request)
        self._audit(request, operation, answer)
        return answer

    def _audit(self, request: ControlRequest, operation: str, answer: dict[str, object] | None) -> None:
        """Record an operation in the audit trail, if it changes anything."""
        if request.connection is None or operation in UNAUDITED:
            return
        after = answer if operation == IMPORT else request.fields
        self.node.audit.change(actor_of(request.connection), operation, request.subject(), request.before, after)

    @override
    def answer(self, request: ControlRequest, answer: dict[str, object]) -> None:
        """Reply with an object; encoding it is work as well."""
        body = json.dumps(answer).encode()
        self.broker.work.done += len(body) // OCTETS_A_UNIT
        self.reply(request, "application/json", body)

    @override
    def answer_later(self, request: ControlRequest, steps: Steps[dict[str, object] | None]) -> None:
        """Carry out a reading operation over as many turns as needed, concurrently with changes."""
        self.node.start_asking(self._answer_in_steps(request, steps), request.connection)

    def _answer_in_steps(self, request: ControlRequest, steps: Steps[dict[str, object] | None]) -> Steps[None]:
        """Carry out an operation in steps, and reply unless it replies by itself (None)."""
        declared = self.broker.durable_changes.durable_declarations
        try:
            answer = yield from steps
            if answer is not None:
                body = yield from text_steps(answer, self.broker.work)
                self.reply(request, "application/json", body)
        except BrokerError as error:
            self.fail(request, error)
        except Exception as unexpected:
            self.fail(request, self.node.failures.report("a control operation", unexpected))
        if request.connection is not None:
            request.connection.output.await_change(declared)

    # Operations

    def _declare_vhost(self, request: ControlRequest) -> dict[str, object]:
        created = vhost_admin.declare_vhost(self.node, request.text("name"))
        if created and request.connection is not None:
            access_admin.permit_creator(self.node, request.connection.user, request.text("name"))
        return {"created": created}

    def _delete_vhost(self, request: ControlRequest) -> Steps[dict[str, object]]:
        if request.text("name") == request.vhost.name:
            raise ResourceLocked(
                f"vhost '{request.vhost.name}' cannot be deleted from inside; connect to another vhost"
            )
        yield from vhost_admin.delete_vhost_steps(self.node, request.text("name"))
        return {}

    def _why(self, request: ControlRequest) -> dict[str, object] | None:
        if blocked_overview.is_named(request):
            return redaction.answer_why(request, self.node)
        check_tag(request.access, MONITORING, "an overview of all that is blocked")
        steps = blocked_overview.of_everything_steps(self.node, request.vhost.name)
        self.node.start_asking(self._answer_in_steps(request, steps), request.connection, True)
        return None

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
            self.node.log(
                LogLine(
                    f"reply of {octets} bytes to queue '{queue.name}' dropped: it is at its capacity",
                    {"id": REPLY_DROPPED},
                )
            )
            return
        queue.enqueue(Envelope("", queue.name), content, charge, self.broker.now)
        self.broker.schedule_delivery(queue)


def _lists(node: Node) -> dict[str, Callable[[ControlRequest], Steps[dict[str, object] | None]]]:
    """Return the operations that list objects."""
    return {
        "definitions.export": lambda request: definitions_export.answer_export(node, request),
        "list": lambda request: looking_api.answer_list(node, request),
        "policy.list": lambda request: policies_api.answer_list(node, request),
        "parameter.list": lambda request: parameters_api.answer_list(node, request),
        "settings.list": lambda request: settings_api.list_settings(node, request),
        "config.show": lambda request: settings_api.show_config(node, request),
        "status": lambda request: looking_api.answer_status(node, request),
        "top": lambda request: looking_api.answer_top(node, request),
        "watch": lambda request: answer_watch(node, request),
    }


def _read(request: ControlRequest, operation: str, body: bytes) -> None:
    """Take the fields of a body. Raises PreconditionFailed (406) for one that the operation does not have."""
    _check_values(operation, body)
    request.read(body)
    check_fields(operation, request.fields)


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
