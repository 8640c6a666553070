"""Control API: operations requested by ordinary publishes to the exchange `penstock.control`.

The routing key names the operation and the body is a JSON object. The reply goes to the queue in `reply_to` with the
same `correlation_id`, or else the request's `message_id`. One port, one login and one TLS setup serve everything, from
any AMQP client. A failed operation is answered with an error and its code; it closes no channel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.permission import MONITORING
from penstock.connections.audit_trail import actor_of, audit_refusal
from penstock.connections.authorization import check_reply_queue, check_tag
from penstock.connections.connection import Connection
from penstock.connections.connection_names import label
from penstock.connections.control_request import (
    IMPORT,
    PUBLISH_BLOCK,
    ControlRequest,
    Replies,
    check_fields,
    octets_max,
)
from penstock.connections.log_line import LogLine
from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.gates.disk import Disk
from penstock.core.large_bodies import LargeBody, PieceListener
from penstock.core.large_content import large_content
from penstock.core.message import Envelope
from penstock.core.publish import held
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_lanes import LaneRequest
from penstock.core.publish.session_counts import producers_of
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.gate import gate_row
from penstock.describe.list_kinds import ListKind
from penstock.describe.lists import Found, PagedLists
from penstock.describe.message_stats import QUEUE_LEVELS
from penstock.describe.pools import pool_rows
from penstock.describe.queue import queue_row
from penstock.describe.session import connection_row
from penstock.describe.table import Row, amounts, or_none
from penstock.errors import AccessRefused, BrokerError, ContentTooLarge, NotFound, PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.flow.work import Steps
from penstock.logs.ids import REPLY_DROPPED
from penstock.management.elsewhere import Elsewhere
from penstock.management.jobs import Job
from penstock.management.json_reader import OCTETS_A_UNIT, JsonError, JsonReader, text_steps
from penstock.management.node import Node
from penstock.management.operation import (
    CHANGES,
    DETACH,
    LOOKS,
    Answer,
    DefinedNoun,
    Noun,
    Operation,
    Streamed,
    Waiting,
    job_steps,
)
from penstock.management.waiting_answers import WaitingAnswer
from penstock.ranges.service import RangeService
from penstock.settings.pools import HTTP_BODIES

LAZY_OCTETS: Final = 64 * 1024
"""Octets from which a block is written as its reader takes it."""
REQUEST_VALUES: Final = 10_000
"""Approximate number of values (names, numbers, texts, lists) allowed in a request."""
READ_WORK: Final = 500
"""Units of work to read a part of a long request."""
REQUEST_WORK: Final = 50
"""Units of work of each request; lists are charged per item."""


class ControlApi(Replies):
    """Control operations by name, and their replies."""

    def __init__(
        self,
        node: Node,
        broker: Broker,
        version: str,
        operations: Sequence[Operation],
        kinds: Sequence[ListKind],
        build: str = "",
    ) -> None:
        self.node = node
        self.broker = broker
        self.version = version
        self.build: str = build
        """Form and last change of this build; empty in tests."""
        self.ranges: RangeService = RangeService(self, node)
        self.rows: list[Operation] = list(operations)
        """Operations of all planes."""
        self.operations: dict[str, Operation] = {row.name: row for row in operations if row.name}
        self.kinds: dict[str, ListKind] = {kind.name: kind for kind in kinds}
        """Kinds of lists by name."""
        self.lists: PagedLists = PagedLists(broker.work, broker.pools)
        """Lists of which onlookers have seen the first pages."""
        self.elsewhere: Elsewhere | None = None
        """Other brokers of the node, in one of its shards; None in a broker that is alone."""
        self.defined: dict[str, DefinedNoun] = {}
        """Definitions of added nouns, by their names."""

    def add(self, noun: Noun) -> None:
        """Add a noun to this broker, before it serves: its operations, lists and definitions, on all planes."""
        self.rows += noun.operations
        self.operations.update({row.name: row for row in noun.operations if row.name})
        self.kinds.update({kind.name: kind for kind in noun.kinds})
        if noun.defined is not None:
            self.defined[noun.name] = noun.defined

    def request(self, vhost: VirtualHost, connection: Connection, operation: str, content: bytes) -> None:
        """Carry out an operation and reply; a request without `reply_to` is carried out too."""
        request = ControlRequest(vhost, connection)
        try:
            message_format = self.broker.formats.of(content)
            properties = message_format.properties(content)
            given = properties.correlation_id
            request.reply_to = properties.reply_to
            request.correlation_id = properties.message_id if given is None else given  # As in AMQP 1.0.
            row = self._row(connection, operation)
            size = message_format.body_bytes(content)
            self.broker.work.done += REQUEST_WORK
            if operation != PUBLISH_BLOCK:  # Rows of a block are counted when they are taken.
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
                request.unread = body or b"{}"
            else:
                _check_values(operation, body)
                request.read(body)
                check_fields(operation, row.known_fields, request.fields)
            if self.elsewhere is not None:
                steps = self.elsewhere.asks(row, request)
                if steps is not None:
                    WaitingAnswer(self, row, request, steps).go_on()
                    return
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
        if row.job is not None:
            self._start_job(row, request, connection)
            return
        answer = row.run(self.node, request)
        if isinstance(answer, Waiting):
            assert not row.audited, f"'{row.name}' waits, and only answers that come at once are audited"
            WaitingAnswer(self, row, request, answer.steps).go_on()
            return
        assert not isinstance(answer, (Streamed, Found)), f"'{row.name}' has an answer that only HTTP can give"
        if answer is None or isinstance(answer, (dict, list, str)):
            self._audit(row, request, answer)
            if answer is not None:
                self.answer(request, answer)
            return
        steps = self._answer_in_steps(request, self._audited(row, request, answer))
        if row.how == CHANGES:
            self.node.start(steps, connection)
        else:
            self.node.start_asking(steps, connection, row.how == LOOKS)

    def _start_job(self, row: Operation, request: ControlRequest, connection: Connection) -> None:
        """Start the job of a request; answer with its result, or with `detach` at once with the row of the job."""
        assert row.job is not None
        subjects = () if request.unread else row.job(self.node, request)
        detached = request.fields.pop(DETACH, None) is True
        jobs = self.node.jobs
        job = jobs.add(row.name, request.access, label(connection), subjects)
        request.progress = job
        steps = jobs.carried_out(job, self._job_steps(row, request, job))
        answering = self._answer_in_steps(request, self._audited(row, request, steps), job)
        self.node.start_job(job, answering, None if detached else connection)
        if detached:
            self._detach(request, job)

    def _job_steps(self, row: Operation, request: ControlRequest, job: Job) -> Steps[Answer]:
        """Carry out the operation of a job, after reading its request if the body is long."""
        if request.unread:
            job.phase = "reading"
            yield from _read_steps(row, request, self.broker)
            job.phase = ""
            assert row.job is not None
            detached = request.fields.pop(DETACH, None) is True
            self.node.jobs.claim(job, row.job(self.node, request))
            if detached:
                self._keep_body(request, job)
                self._detach(request, job)
                self.node.detach_job(job)
            yield from self.node.jobs.granted_steps(job)
            request.unread = b""
        self._note_before(row, request)  # Read again: the job may have waited.
        return (yield from job_steps(row, self.node, request))

    def _detach(self, request: ControlRequest, job: Job) -> None:
        """Answer a request with the row of its job; the job itself then sends no answer."""
        self.answer(request, self.node.jobs.row(job))
        job.detached = True

    def _keep_body(self, request: ControlRequest, job: Job) -> None:
        """Count the body of a detached request until its job ends. Raises ResourceError (506) without room."""
        pool, size = self.broker.pools.of(HTTP_BODIES), len(request.unread)
        pool.require(job.holder, size)
        job.on_end = lambda: pool.give(job.holder, size)

    def _audited(self, row: Operation, request: ControlRequest, steps: Steps[Answer]) -> Steps[Answer]:
        """Carry out an operation in steps, and record a completed operation in the audit trail."""
        if row.job is None:
            self._note_before(row, request)  # Read again: the operation waited for earlier changes.
        answer = yield from steps
        self._audit(row, request, answer)
        return answer

    def _note_before(self, row: Operation, request: ControlRequest) -> None:
        if row.before is not None:
            request.before = row.before(self.node, request)

    def _audit(self, row: Operation, request: ControlRequest, answer: Answer) -> None:
        """Record an operation that changes state in the audit trail."""
        if request.connection is None or not row.audited:
            return
        after = answer if row.name == IMPORT else request.fields
        self.node.audit.change(actor_of(request.connection), row.name, request.subject(), request.before, after)

    @override
    def answer(self, request: ControlRequest, answer: Answer) -> None:
        """Reply with an object; the encoding is counted as work."""
        if request.receiver is not None:
            request.receiver.answered(answer)
            return
        body = json.dumps(answer).encode()
        self.broker.work.done += len(body) // OCTETS_A_UNIT
        self.reply(request, "application/json", body)

    @override
    def answer_later(self, request: ControlRequest, steps: Steps[Answer]) -> None:
        """Carry out a reading operation over as many turns as needed, concurrently with changes."""
        self.node.start_asking(self._answer_in_steps(request, steps), request.connection)

    def _answer_in_steps(self, request: ControlRequest, steps: Steps[Answer], job: Job | None = None) -> Steps[None]:
        """Carry out an operation in steps, and reply unless the operation replies by itself (None) or was detached."""
        declared = self.broker.durable_changes.durable_declarations
        try:
            answer = yield from steps
            if answer is not None and (job is None or not job.detached):
                assert isinstance(answer, dict)
                body = yield from text_steps(answer, self.broker.work)
                self.reply(request, "application/json", body)
        except BrokerError as error:
            if job is None or not job.detached:
                self.fail(request, error)
        except Exception as unexpected:
            failure = self.node.failures.report("a control operation", unexpected)
            if job is None or not job.detached:
                self.fail(request, failure)
        if request.connection is not None and (job is None or not job.detached):
            request.connection.output.await_change(declared)

    # Replies

    @override
    def fail(self, request: ControlRequest, error: BrokerError) -> None:
        """Reply with an error."""
        if request.receiver is not None:
            request.receiver.failed(error)
            return
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
        """Return the queue for replies to a requester; None without one, or if the requester may not publish there."""
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
        """Put a block into the queue of its requester like `reply`, as a large message whose pieces are never joined.

        A small block is joined, and so is a block for a queue that may store or republish it.
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
        """Put a reply with a body of so many bytes into a queue with room."""
        charge = octets + OVERHEAD
        if not queue.fits(charge):
            text = f"reply of {octets} bytes to queue '{queue.name}' dropped: it is at its capacity"
            self.node.log(LogLine(text, {"id": REPLY_DROPPED}))
            return
        queue.enqueue(Envelope("", queue.name), content, charge, self.broker.now)
        self.broker.schedule_delivery(queue)


def _properties_for(request: ControlRequest, content_type: str) -> Properties:
    return Properties(content_type=content_type, correlation_id=request.correlation_id)


def _read_steps(row: Operation, request: ControlRequest, broker: Broker) -> Steps[None]:
    """Read the fields of a long body. Raises PreconditionFailed (406) for an invalid body or unknown fields."""
    reader = JsonReader(request.unread)
    try:
        while not reader.step():
            if broker.work.spend(READ_WORK):
                yield
    except JsonError as error:
        raise PreconditionFailed(f"the body of a control request must be a JSON object: {error}") from None
    if reader.has_halves:
        raise PreconditionFailed("a string of the request contains a lone surrogate (half a character)")
    request.fields = reader.found
    check_fields(row.name, row.known_fields, request.fields)


def _check_size(operation: str, size: i64) -> None:
    """Check the size of a request. Raises ContentTooLarge (311) if parsing would take long."""
    most = octets_max(operation)
    if size > most:
        raise ContentTooLarge(f"a request for '{operation}' has {size:,} bytes; the most is {most:,}")


def _check_values(operation: str, body: bytes) -> None:
    """Check the number of values in a request, by which its parsing time grows. Raises ContentTooLarge (311)."""
    values = body.count(b",") + body.count(b"[") + body.count(b"{")
    if values > REQUEST_VALUES:
        raise ContentTooLarge(
            f"a request for '{operation}' has about {values:,} values; the most is {REQUEST_VALUES:,}"
        )


STATUS_MOST: Final = 500
"""Most queues, and most connections, in a status; `list` gives all, page by page."""
SLOWED_SHOWN: Final = 20
"""Most slowed connections that `status` names; `why` explains each."""
VIEW_WORK: Final = 10
"""Units of work per shown queue or connection."""
# Status


def answer_status(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer status {}: the broker, and up to `STATUS_MOST` connections and queues, without the reply queue."""
    broker, vhost = node.broker, request.vhost
    hidden = _own_queue(request)
    connections: list[Row] = []
    for connection in list(islice(node.connections.values(), STATUS_MOST)):
        connections.append(connection_row(connection))
        if broker.work.spend(VIEW_WORK):
            yield
    shown = [queue for queue in islice(vhost.queues.values(), STATUS_MOST + 1) if queue is not hidden]
    queues: list[Row] = []
    for queue in shown[:STATUS_MOST]:
        if not queue.deleted:
            queues.append(queue_row(queue, broker))
        if broker.work.spend(VIEW_WORK):
            yield
    lingering = broker.closed_session_budget
    return {
        "version": node.version,
        "build": node.control.build,
        "node": node.name,
        "uptime_s": round(node.process.uptime_s(), 1),
        "memory": _memory(node),
        "connections_max": node.services.connection_limits.start.connections_max or None,
        "turns": node.turns_view(),
        "slowed": [label(wait.connection) for wait in node.slowed().slowed()[:SLOWED_SHOWN]],
        "connections": connections,
        "connection_count": len(node.connections),
        "vhost": vhost.name,
        "disk": None if broker.journal is None else _disk(broker.gates.disk, vhost.name, broker.now),
        "certificates": node.certificates.view(),
        "queues": queues,
        "queue_count": len(vhost.queues) - (0 if hidden is None else 1),
        "exchanges": len(vhost.exchanges),
        "bindings": int(vhost.bindings.count),
        "unroutable": int(broker.unroutable),
        "pools": pool_rows(broker, None if request.access.rules.has_tag(MONITORING) else request.access.user),
        "lingering": {**amounts(lingering.messages, lingering.bytes), "sessions": len(lingering.producers)},
    }


def _memory(node: Node) -> Row | None:
    """Return the bytes of all queues as of the last sample, and the thresholds of memory; None without a limit.

    The gate counts more: room that queues may fill without asking.
    """
    memory = node.broker.gates.memory
    if memory is None:
        return None
    thresholds = memory.thresholds
    return {
        "used": node.stats.node.levels[QUEUE_LEVELS.index("bytes")],
        "stop": or_none(thresholds.stop.bytes),
        "capacity": or_none(thresholds.capacity.bytes),
    }


def _own_queue(request: ControlRequest) -> Queue | None:
    """Return the reply queue of the requesting connection if the queue is exclusive."""
    queue = request.vhost.queues.get(request.reply_to or "")
    own = queue is not None and request.connection is not None and queue.owner is request.connection
    return queue if own else None


def _disk(disk: Disk, vhost: str, now: float) -> Row:
    """Return the state of the disk: its gates, the stored data of a virtual host, and data not yet written."""
    stock = disk.vhosts.get(vhost)
    return {
        "used": int(disk.used),
        "free": or_none(disk.free),
        "free_least": None if disk.room is None else int(disk.room.recheck_at()),
        "stored": 0 if stock is None else int(stock.bytes()),
        "unwritten": 0 if disk.backlog is None else int(disk.backlog.unwritten()),
        "gates": [gate_row(gate, now) for gate in disk.gates()],
    }


# Publishes of a channel


def withdraw(request: ControlRequest) -> dict[str, object]:
    """Withdraw a held publish: the message enters no queue, and the confirm is a nack.

    Request: `channel` of the same connection, and `number`, the publish's number among its confirms from 1. Answer:
    `withdrawn`; False if the publish is decided already, and the confirm was sent or will be sent at once. Raises
    NotFound (404), PreconditionFailed (406).
    """
    channel, number = request.number("channel"), request.number("number")
    producer = _producer(request, channel)
    published = int(producer.confirms.published)
    if not 1 <= number <= published:
        raise PreconditionFailed(f"channel {channel} has no publish {number}: its last one is {published}")
    return {"withdrawn": held.withdraw(producer, number)}


def begin(request: ControlRequest) -> dict[str, object]:
    """Begin a session of a lane on a channel with confirms and without publishes (decision 106).

    Request: `channel` of the same connection, `producer`, `lane`, `epoch`, `window`, and `named` if the producer's id
    is a lasting name. Answer: `known`, `taken`, `refused`. Raises NotFound (404), PreconditionFailed (406), and as
    `ProducerLanes.begin`.
    """
    producer = _producer(request, request.number("channel"))
    wanted = LaneRequest(
        request.text("producer"),
        request.text("lane"),
        request.number("epoch"),
        request.number("window"),
        request.flag("named"),
    )
    begun = producer.broker.producer_lanes.begin(producer, request.vhost.name, request.access.user, wanted)
    return {"known": begun.known, "taken": int(begun.taken), "refused": begun.refused}


def _producer(request: ControlRequest, channel: int) -> Producer:
    """Return the producer of a channel with confirms. Raises NotFound (404), PreconditionFailed (406)."""
    session = None if request.connection is None else request.connection.engine.session(channel)
    producers = [] if session is None else producers_of(session)
    if len(producers) != 1:
        raise NotFound(f"no channel {channel} on the connection of the request")
    if not producers[0].confirming:
        raise PreconditionFailed(f"channel {channel} has no confirms: select them first")
    return producers[0]
