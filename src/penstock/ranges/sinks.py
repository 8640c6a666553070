"""Operations of sinks on batches: begin, commit, abort, and the report of a waiting task.

A task begins its partition with `sink.begin`. The answer contains the number of rows that are already in their queues
(delivery `dedup`), or the task gets a stage (`transactional`). Blocks of the task carry the same ids. The driver ends
the batch with `sink.commit`, which publishes the stages, or with `sink.abort`. All these operations are idempotent.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.permission import READ
from penstock.connections.audit_trail import audit_refusal
from penstock.connections.authorization import check_publish, check_write_exchange
from penstock.connections.connection import Connection
from penstock.connections.connection_names import is_given
from penstock.connections.control_request import PUBLISH_BLOCK, ControlRequest, Replies
from penstock.core.publish import admission
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.queue.cursor_state import PinnedRooms, QueryId
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.table import DescribedNode
from penstock.errors import BrokerError, Fenced, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import PoolHolder
from penstock.flow.work import Steps
from penstock.ranges.held_block import INVALID, UNROUTABLE, RowSource
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.marks import BatchProgress, MarkedBlock, SinkMarks
from penstock.ranges.promotions import CommitCheck, PromotionLine
from penstock.ranges.stages import Stage, StagedRow, StagedRows
from penstock.settings.lengths import SPREAD_CHARACTERS
from penstock.settings.pools import WAITING_TASKS
from penstock.texts import worded

QUERY_CHARACTERS: Final = 128
ID_CHARACTERS: Final = 64
"""Most characters of a query's id, and of other ids; they are in every record of a mark."""
TARGET_CHARACTERS: Final = 160
"""Characters of a target above which it is cut and completed by a digest."""
PARTITIONS_MAX: Final = 1 << 31
COMMIT: Final = "sink.commit"
DEDUP: Final = "dedup"
TRANSACTIONAL: Final = "transactional"
NO_ROOM: Final = "no-room"
"""Cause of rows that cannot be staged at present."""
WAITING_S: Final = 15.0
"""Seconds for which a task counts as waiting after its report."""
CONNECTIONS_A_UNIT: Final = 20
"""Connections that are checked with one unit of work."""
IDLE_READER_S: Final = 4.0
"""Seconds without a request after which a reader with a planned batch may be short of cores."""


class BatchIds:
    """The ids of a batch, as a task or a driver sends them. Every error raises PreconditionFailed (406)."""

    def __init__(self, request: ControlRequest) -> None:
        self.query = _id_of(request, "query", QUERY_CHARACTERS)
        if not self.query:
            raise PreconditionFailed("'query' must not be empty: it is the id of the stream, or txnAppId")
        self.batch: i64 = request.number("batch")
        self.run = _id_of(request, "run", ID_CHARACTERS)
        self.write = _id_of(request, "write", ID_CHARACTERS)
        self.exchange = request.text("exchange")
        self.key = request.text("routing_key") if request.fields.get("routing_key") is not None else None
        """Routing key of all rows; None if each row has its own."""
        self.target = _target(self.exchange, self.key)
        given = request.fields.get("spread") is not None
        self.spread = _id_of(request, "spread", SPREAD_CHARACTERS) if given else ""
        """The brokers of the batch, and how its rows are spread over them; empty for one broker."""
        self.user = request.access.user
        self.id = QueryId(self.user, self.query)

    def check_access(self, request: ControlRequest) -> None:
        """Check that the requester may publish to the target. Raises AccessRefused (403)."""
        if self.key is None:
            check_write_exchange(request.access, self.exchange)
        else:
            check_publish(request.access, request.vhost, self.exchange, self.key)

    def begin(self, request: ControlRequest, marks: SinkMarks) -> BatchProgress:
        """Return the progress of the batch; see `SinkMarks.begin_batch`."""
        vhost = request.vhost.name
        progress = marks.begin_batch(
            vhost, self.query, self.target, self.batch, self.run, self.write, self.user, self.spread
        )
        progress.client = request.asker()
        return progress

    def find(self, request: ControlRequest, marks: SinkMarks) -> BatchProgress:
        """Return the progress of a batch that was begun.

        Raises Fenced (409) if it was not begun, or was begun by a newer run; AccessRefused (403) if it belongs to
        another user.
        """
        progress = marks.of(request.vhost.name, self.query, self.target)
        if progress is not None:
            progress.check_user(self.user)
            progress.check(self.batch)
        if progress is None or progress.write != self.write:
            raise Fenced(
                f"batch {self.batch} of query '{self.query}' at {self.target} was not begun by this writer, or another "
                "one has taken it over"
            )
        return progress


class TaskIds(BatchIds):
    """The ids of a task: the ids of its batch, its partition and its attempt."""

    def __init__(self, request: ControlRequest) -> None:
        super().__init__(request)
        partition = request.number("partition")
        if partition >= PARTITIONS_MAX:
            raise PreconditionFailed(f"'partition' must be below {PARTITIONS_MAX:,}, not {partition:,}")
        self.partition: i64 = partition
        self.attempt: i64 = request.number("attempt")


class TargetAccess(CommitCheck):
    """The permissions of the requester of a commit, which may be revoked while the commit waits."""

    def __init__(self, ids: BatchIds, request: ControlRequest) -> None:
        self._ids = ids
        self._request = request

    @override
    def refusal(self) -> BrokerError | None:
        try:
            self._ids.check_access(self._request)
        except BrokerError as error:
            return error
        return None


class PromotionAnswer(ProducerListener):
    """A pending commit of a batch, with its producer and the request to answer."""

    def __init__(self, sinks: SinkBatches, request: ControlRequest, connection: Connection, query: QueryId) -> None:
        super().__init__(connection.number)
        self._sinks = sinks
        self._request = request
        self.connection = connection
        self.producer = Producer(
            sinks.broker, f"{connection.name()}/commit", HoldBudget(UNLIMITED), connection.origin, self
        )
        self.producer.confirming = True
        self.producer.query = query

    @override
    def on_confirms(self) -> None:
        for outcome in self.producer.confirms.take():
            refusal = outcome.refusal
            if refusal is None:
                self._sinks.control.answer(self._request, {"promoted": True})
            elif refusal.error is not None:
                audit_refusal(self.connection, COMMIT, refusal.error)
                self._sinks.control.fail(self._request, refusal.error)
            else:
                self._sinks.control.fail(self._request, ResourceError(refusal.describe()))
            self._sinks.finish(self)

    @override
    def on_closed(self, error: BrokerError) -> None:
        self._sinks.control.fail(self._request, error)
        self._sinks.finish(self)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, 1)

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, -1)


class SinkBatches:
    """Operations on the batches of queries that publish."""

    def __init__(self, control: Replies, node: DescribedNode) -> None:
        self.control = control
        self.broker = control.broker
        self._node = node
        self.marks = SinkMarks(self.broker)
        self.promotions = PromotionLine(self.broker, self.marks)
        self._promotions: dict[int, list[PromotionAnswer]] = {}
        """Pending commits, by number of the connection."""
        self._pool = self.broker.pools.of(WAITING_TASKS)
        self._waiting: dict[tuple[str, str, str], tuple[float, PoolHolder]] = {}
        """Time of the last report of a waiting task (monotonic seconds), by user, application and task.

        The oldest is first.
        """

    def begin(self, request: ControlRequest) -> dict[str, object]:
        """Begin a partition of a batch, or begin it again.

        Answers with the number of enqueued rows and the digest of the first `checked` rows. For stages, answers with
        the number of staged rows and with `promoted`: if true, the batch is published already, and its rows are not
        needed.

        A batch that is spread over several brokers begins at each of them before any has a row. Without `partition`
        only the batch begins, for a partition whose rows go to another broker.

        With `sequences` the rows have numbers of their source (column `sequence`), and the answer has that of the last
        enqueued row (`reached`). The batch is stored at once. So a sender that has begun it can ask for it with
        `known`, which is refused (404) if the marks are lost, and begins nothing.
        """
        if request.fields.get("partition") is None:
            self._begin_batch(request, BatchIds(request))
            return {}
        ids = TaskIds(request)
        transactional = _is_transactional(request)
        progress = self._begin_batch(request, ids)
        marks = self.marks
        if transactional:
            if progress.promoted:
                self._flush()
                return {"promoted": True, "rows": 0}
            stage = marks.stages(progress).begin(ids.partition, ids.attempt, self.broker.now)
            return {"promoted": False, "rows": len(stage.rows)}
        mark = marks.begin_partition(progress, ids.partition, ids.attempt)
        found: dict[str, object] = {"rows": int(mark.rows), "checked": int(mark.checked), "digest": mark.digest}
        if request.flag("sequences"):
            found["reached"] = int(mark.reached)
            marks.store_beginning(progress)
            self._flush()
        elif mark.rows > 0:
            self._flush()
        return found

    def _begin_batch(self, request: ControlRequest, ids: BatchIds) -> BatchProgress:
        ids.check_access(request)
        if request.flag("known"):
            self._check_known(request, ids)
        check_no_cycle(self.broker.pinned_rooms, request.vhost, ids.id, self._queues(request, ids))
        progress = ids.begin(request, self.marks)
        self.marks.check_mode(progress, _is_transactional(request))
        if ids.spread:
            self._flush()
        return progress

    def _check_known(self, request: ControlRequest, ids: BatchIds) -> None:
        """Raise NotFound (404) for a query whose marks are not here."""
        if self.marks.of(request.vhost.name, ids.query, ids.target) is None:
            raise NotFound(
                f"query '{ids.query}' at {ids.target} has no marks here: they were dropped after a week without a "
                "request, or lost with their store"
            )

    def commit(self, request: ControlRequest) -> dict[str, object] | None:
        """End a batch: publish the stages of the named attempts, or check that all rows were enqueued."""
        ids = BatchIds(request)
        ids.check_access(request)
        progress = ids.begin(request, self.marks)
        marks = self.marks
        partitions = {int(name): number for name, number in request.offsets("partitions").items()}
        self.broker.work.done += len(partitions)
        if not _is_transactional(request):
            marks.finish(progress, partitions)
            return {"promoted": False}
        if progress.promoted:
            self._flush()
            return {"promoted": True}
        staged = marks.stages(progress)
        stages: list[Stage] = [staged.find(partition, attempt) for partition, attempt in partitions.items()]
        connection = request.connection
        if connection is None:
            raise PreconditionFailed("the commit of a batch needs a connection of its own")
        answer = PromotionAnswer(self, request, connection, ids.id)
        self._promotions.setdefault(connection.number, []).append(answer)
        self.promotions.promote(answer.producer, progress, stages, TargetAccess(ids, request))
        return None

    def abort(self, request: ControlRequest) -> dict[str, object]:
        """Drop the staged rows of a batch; its run may begin it again."""
        ids = BatchIds(request)
        ids.check_access(request)
        progress = self.marks.of(request.vhost.name, ids.query, ids.target)
        if progress is not None:
            progress.check_user(ids.user)
        if progress is not None and progress.batch == ids.batch:
            self.marks.abort(progress, ids.write)
        return {}

    def assign(self, request: ControlRequest) -> dict[str, object]:
        """Hand a query over to another user, who may continue it. Raises NotFound (404) if either is unknown."""
        query, user = request.text("query"), request.text("user")
        if not user:
            raise PreconditionFailed("'user' must not be empty")
        self._node.check_user(user)
        former = self.marks.assign(request.vhost.name, query, user)
        if not former:
            raise NotFound(f"no query '{query}' has published batches in vhost '{request.vhost.name}'")
        request.before = {"users": sorted(set(former))}
        return {"query": query, "user": user, "targets": len(former)}

    def drop(self, request: ControlRequest) -> dict[str, object]:
        """End a query: drop its staged rows and its marks, at all of its targets.

        Raises NotFound (404) for an unknown query; ResourceLocked (405) while a batch of it is being published.
        """
        query = request.text("query")
        found = self.marks.of_query(request.vhost.name, query)
        if not found:
            raise NotFound(f"no query '{query}' has published batches in vhost '{request.vhost.name}'")
        for progress in found:
            if self.promotions.is_entering(progress):
                raise ResourceLocked(f"{progress.describe()} is being published; end the query when that is done")
        staged = sum([int(progress.staged(None).messages) for progress in found])
        request.before = {"users": sorted({progress.user for progress in found}), "staged": staged}
        for progress in found:
            self.marks.end(progress)
        return {"query": query, "targets": len(found), "staged": staged}

    def finish(self, answer: PromotionAnswer) -> None:
        """Remove a commit that is answered."""
        answer.producer.abort()
        number = answer.connection.number
        left = [each for each in self._promotions.get(number, []) if each is not answer]
        if left:
            self._promotions[number] = left
        else:
            self._promotions.pop(number, None)

    def end(self, connection: Connection) -> None:
        """Drop the commits of a connection that ends: they are requested again, or their batch is run again."""
        for answer in self._promotions.pop(connection.number, []):
            answer.producer.abort()

    # Blocks

    def marked_block(self, request: ControlRequest, block: IncomingBlock) -> MarkedBlock:
        """Return the mark of a block; `request` has the fields of its header's `mark`.

        Raises Fenced (409), PreconditionFailed (406).
        """
        ids = TaskIds(request)
        progress = ids.find(request, self.marks)
        mark = progress.marks.get(int(ids.partition))
        if mark is None:
            raise Fenced(f"partition {ids.partition} of {progress.describe()} was not begun")
        digest = _id_of(request, "digest", ID_CHARACTERS)
        first = request.number("row")
        return MarkedBlock(self.marks, mark, ids.write, ids.attempt, first, block.rows, digest, block.sequences)

    def stage_steps(self, request: ControlRequest, source: RowSource) -> Steps[dict[str, object] | None]:
        """Put the rows of a block into a stage; `request` has the fields of its header's `stage`.

        The answer has the form of a published block's; rows without room are sent again.
        """
        ids = TaskIds(request)
        ids.find(request, self.marks)
        loaded = StagedRows(request.number("row"))
        answer: dict[str, object] = {"rows": int(source.rows)}
        row: i64 = 0
        while row < source.rows:
            refused = self._load(request, source, row)
            if refused is not None:
                answer.update(refused)
                break
            loaded.add(StagedRow(source.route, source.content, source.charge))
            row += 1
            if self.broker.work.spend(1):
                yield
        progress = ids.find(request, self.marks)
        answer["taken"] = len(loaded.rows)
        if progress.promoted:
            return {"rows": int(source.rows), "taken": int(source.rows)}
        staged = self.marks.stages(progress)
        try:
            room = self.broker.pinned_rooms.of(ids.id)
            staged.add(staged.find(ids.partition, ids.attempt), loaded, room, self.broker.now)
        except ResourceError as error:
            answer = {"rows": int(source.rows), "taken": 0, "cause": NO_ROOM, "retriable": True, "text": str(error)}
        return answer

    def _load(self, request: ControlRequest, source: RowSource, row: i64) -> dict[str, object] | None:
        """Load a row; returns why it cannot be a message of a stage, or None."""
        try:
            source.load(row)
        except BrokerError as error:
            if request.connection is not None:
                audit_refusal(request.connection, PUBLISH_BLOCK, error)
            text = f"row {int(row)}: {error}"
            return {"cause": INVALID, "retriable": False, "text": text, "code": int(error.code)}
        route = source.route
        if not route.queues:
            text = f"row {int(row)}: {admission.describe_target(route)} reaches no queue"
            return {"cause": UNROUTABLE, "retriable": False, "text": text}
        never = admission.too_large_error(route, route.queues, source.charge, self.broker.now)
        if never is not None:
            return {"cause": INVALID, "retriable": False, "text": f"row {int(row)}: {never}", "code": int(never.code)}
        return None

    # Waiting tasks

    def waiting(self, request: ControlRequest) -> dict[str, object]:
        """Record that a task waits for room in a queue; answers with a warning if it may wait for its own application.

        The warning is sent if the reader of the queue has a batch to read and sends no requests, while the waiting
        tasks of the application use all its cores (0: unknown).
        """
        application = _id_of(request, "application", QUERY_CHARACTERS)
        task = _id_of(request, "task", QUERY_CHARACTERS)
        cores = request.number("cores")
        queue = request.vhost.queues.get(request.text("queue"))
        now = self.broker.now
        user = request.access.user
        self._end_waiting((user, application, task))
        self._forget_waiting(now)
        holder = request.access.holder()
        if self._pool.take(holder, 1):
            self._waiting[(user, application, task)] = (now, holder)
        tasks = sum([1 for waiting in self._waiting if waiting[0] == user and waiting[1] == application])
        self.broker.work.done += len(self._waiting) // 10
        if queue is None or tasks < cores or not request.access.may(READ, queue.name):
            return {}
        return _starvation(queue, tasks, cores, now)

    def commits_of(self, connection: Connection) -> list[Producer]:
        """Return the producers of a connection's waiting commits."""
        return [answer.producer for answer in self._promotions.get(connection.number, [])]

    def connection_named(self, request: ControlRequest) -> Connection | None:
        """Return the connection of the requester's user named in `connection`; None if there is none."""
        name, user = request.text("connection"), request.access.user
        connections = self._node.connections
        self.broker.work.done += len(connections) // CONNECTIONS_A_UNIT
        for connection in connections.values():
            if connection.user == user and is_given(connection, name):
                return connection
        return None

    def _forget_waiting(self, now: float) -> None:
        for key, (since, _) in list(self._waiting.items()):
            if now < since + WAITING_S:
                return
            self._end_waiting(key)

    def _end_waiting(self, key: tuple[str, str, str]) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self._pool.give(waiting[1], 1)

    # Helpers

    def _flush(self) -> None:
        """Hold the answer until everything recorded so far is on the disk, because reported rows are not sent again."""
        if self.broker.journal is not None:
            self.broker.journal.require_flush()

    def _queues(self, request: ControlRequest, ids: BatchIds) -> list[Queue]:
        """Return the queues of a target that are known without its rows."""
        if ids.key is None:
            return []
        route = request.vhost.route(ids.exchange, ids.key, False)
        request.vhost.resolve(route, {})
        return route.queues


def check_no_cycle(rooms: PinnedRooms, vhost: VirtualHost, query: QueryId, queues: list[Queue]) -> None:
    """Raise PreconditionFailed (406) if a query would publish to a queue that it reads."""
    room = rooms.of(query)
    if room is None:
        return
    for cursor in room.cursors:
        for position in cursor.positions.values():
            if position.queue in queues and cursor.vhost == vhost.name:
                raise PreconditionFailed(
                    f"the query reads queue '{position.queue.name}' (cursor '{cursor.name}') and would publish to it: "
                    "it would wait for room that only itself can make; publish to another queue"
                )


def _starvation(queue: Queue, tasks: int, cores: int, now: float) -> dict[str, object]:
    """Return a warning if a reader of a queue has a batch to read and sends no requests."""
    for cursor in queue.cursors:
        position = cursor.positions.get(queue.name)
        if cursor.lease is not None or position is None:
            continue
        if position.planned <= position.settled or now < cursor.touched + IDLE_READER_S:
            continue
        held = f"{tasks} of {cores} cores" if cores else f"the cores of {tasks} task{'' if tasks == 1 else 's'}"
        return {
            "warning": f"queue '{queue.name}' is full, and cursor '{cursor.name}' reads it but has asked for nothing "
            f"for {now - cursor.touched:.0f} s; waiting sink tasks hold {held}. If the query of that cursor runs in "
            "this application, it has no core left to make room: give the application more cores than the sink has "
            "partitions (coalesce before the write), or run the two queries as applications of their own"
        }
    return {}


def _is_transactional(request: ControlRequest) -> bool:
    delivery = request.text("delivery")
    if delivery not in (DEDUP, TRANSACTIONAL):
        raise PreconditionFailed(f"'delivery' must be {DEDUP} or {TRANSACTIONAL}, not '{delivery}'")
    return delivery == TRANSACTIONAL


def _id_of(request: ControlRequest, name: str, most: int) -> str:
    """Return an id: printable ASCII. Raises PreconditionFailed (406)."""
    value = request.text(name)
    if len(value) > most or not value.isascii() or not value.isprintable():
        raise PreconditionFailed(
            f"'{name}' must have at most {most} printable ASCII characters, not {worded(value[:most])}"
        )
    return value


def _target(exchange: str, key: str | None) -> str:
    """Return a target for display, unique among targets."""
    if not exchange and key is not None:
        text = f"queue {json.dumps(key)}"
    else:
        text = f"exchange {json.dumps(exchange)}" + ("" if key is None else f", key {json.dumps(key)}")
    if len(text) <= TARGET_CHARACTERS:
        return text
    return f"{text[: TARGET_CHARACTERS - 40]}... #{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
