"""Sink task: publishes its rows as blocks, and waits while the target has no room.

A task has several blocks without an answer. The answer to a block has the number of its rows that are in their queues.
The others are sent again, in order, and so are rows without an answer after a lost connection. `Delivery` (delivery.py)
adds the batch and rows of each block, so that the broker skips rows that it has already.

A closed gate withholds answers, so a full target holds the task and the micro-batch. Through the unsettled cursor it
also holds the source's own producers, back to the first of the chain. The task waits in slices of two seconds, so that
Spark can kill it, and logs the reason every ten seconds.

Every enqueued row restarts the time-out: a slow target is no failure.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.client.blocking import Connection
from penstock.client.engine.messages import Message
from penstock.client.engine.outcomes import ConfirmTimeout, FlowControlTimeout, MessageRefused
from penstock.client.engine.waits import Call
from penstock.client.errors import (
    ChannelClosed,
    ConnectError,
    ConnectionClosed,
    ControlError,
    LinkClosed,
    LoginRefused,
    MessageTooLarge,
    Timeout,
)
from pyspark_penstock.block_encoder import encode_block, size_of
from pyspark_penstock.connections import (
    BrokerLink,
    FileUnusable,
    drop_connection,
    name_of,
    query_of_task,
    shared_block_connection,
)
from pyspark_penstock.delivery import Delivery, application_of_task
from pyspark_penstock.errors import PublishFailed, SparkSourceError
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Retries, SinkOptions
from pyspark_penstock.parsing import Address
from pyspark_penstock.rows import constants, message_columns, properties_of
from pyspark_penstock.target_watch import ANSWER_SECONDS, TargetWatch

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.client.engine.amqp091.connection import Engine091

SLICE_SECONDS = 2.0
"""Longest uninterruptible wait, in seconds."""
SAY_SECONDS = 10.0
"""Seconds between two log lines of a waiting task."""
BLOCK_ROWS = 10_000
BLOCK_BYTES = 2 << 20
"""Most rows and bytes of a block; a smaller window has two blocks."""
UNANSWERED_BYTES = 16 << 20
"""Most bytes of blocks without an answer; the broker holds twice as many of a connection."""
PROGRESS_MS = 500
"""Milliseconds between two progress reports of the broker about a block whose rows pass one by one."""
BLOCKS_MOST = 32
"""Most blocks of a task that wait for their answers, of any size."""
BLOCK_MOST = 15 << 20
"""Most bytes of a row in a block; a larger row is sent as an ordinary message."""
_PAUSE_SECONDS = (0.05, 2.0)
"""Shortest and longest pause before refused or lost rows are sent again, in seconds."""
_LOST = (ConnectError, ConnectionClosed, Timeout)
_RESOURCE_ERROR = 506
PUBLISH_BLOCK = "publish.block"
UNROUTABLE = "NO_ROUTE"
"""Text of a returned message that reached no queue."""


class _Exhausted(Exception):
    """Error: no row was confirmed within the time of the option."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _HoldTimer:
    """Time without a confirm, with its log lines."""

    def __init__(self, options: SinkOptions, target: str) -> None:
        self._target, self._most = target, options.timeout_ms / 1000
        self.since = self._reported_at = time.monotonic()
        """Time at which rows were last enqueued."""
        self.step = SLICE_SECONDS
        """Longest wait before the next check."""
        self.confirmed = 0
        """Rows that are in their queues."""

    def moved(self) -> None:
        """Record that more rows are in their queues."""
        self.since = time.monotonic()

    def waited(self) -> float:
        """Return the seconds since rows were last enqueued."""
        return time.monotonic() - self.since

    def slice(self) -> float:
        """Return the seconds to wait before the next check."""
        return min(self.step, max(0.0, self.since + self._most - time.monotonic()))

    def check(self, standing: str) -> None:
        """Log the progress when due; raises `_Exhausted`."""
        now = time.monotonic()
        waited = self.waited()
        if waited >= self._most:
            raise _Exhausted(waited)
        if now - max(self._reported_at, self.since) >= SAY_SECONDS:
            self._reported_at = now
            text = "penstock: %s has confirmed nothing for %.0f s; %d so far, %s"
            LOG.warning(text, self._target, waited, self.confirmed, standing)


@dataclass(slots=True)
class _Piece:
    """Rows that are sent as one block."""

    batch: "pa.RecordBatch"
    """Rows as `message_columns` returns them."""
    first: int
    """Number of its first row among the task's rows, from 0."""
    size: int
    """Approximate bytes."""
    call: Call | None = None
    """Request with the block, while it has no answer; None if it was sent in part."""
    taken: int = 0
    """Rows in their queues, as far as known."""
    digest: str = ""
    """Digest of all rows of the task up to the piece's last row."""

    def rest(self) -> "_Piece":
        """Return the rows that are not enqueued."""
        left = self.batch.slice(self.taken)
        return _Piece(left, self.first + self.taken, size_of(left), digest=self.digest)


class Sender:
    """Sender of one task's rows to one server; it connects at the first row."""

    def __init__(self, options: SinkOptions, delivery: Delivery | None = None, server: Address | None = None) -> None:
        """Store the target, the delivery (None for at least once), and the server (None for the options' server)."""
        self._options = options
        self._delivery = delivery or Delivery()
        self._server = server or options.access.servers[0]
        self._query = query_of_task()
        self._patience = _HoldTimer(options, self._target)
        self._pause = _PAUSE_SECONDS[0]
        self._connection: Connection | None = None
        self._todo: deque[_Piece] = deque()
        """Rows to be sent, in order."""
        self._unanswered: deque[_Piece] = deque()
        self._watch = TargetWatch(options, self._server, *application_of_task())
        self._patience.step = min(SLICE_SECONDS, self._watch.step)
        self._again: list[_Piece] = []
        """Refused and lost rows, which are sent again when all blocks have their answer."""
        self._rows = 0
        """Rows passed to the sender."""

    def send(self, batches: Iterator["pa.RecordBatch"]) -> int:
        """Send every row; return the number of rows, all of them confirmed.

        Raises `PublishFailed` when the target does not exist, routes a message nowhere, or confirms nothing within
        ``publishTimeout``, and `SchemaError` for a row that cannot be a message.
        """
        try:
            while (batch := self._next(batches)) is not None:
                if batch.num_rows:
                    self.begin()
                    self.put(message_columns(batch, self._options))
            return self.complete()
        finally:
            self.close()

    def _next(self, batches: Iterator["pa.RecordBatch"]) -> "pa.RecordBatch | None":
        """Return the next rows; None after the last."""
        began = time.monotonic()
        batch = next(batches, None)
        self.pause(time.monotonic() - began)
        return batch

    def pause(self, seconds: float) -> None:
        """Exclude time that was no wait for the target, such as the computation of rows."""
        self._patience.since += seconds

    def reach(self) -> None:
        """Connect without beginning a partition. Raises `PublishFailed`."""
        with self._refusals():
            self._retried(lambda: shared_block_connection(self._options.access, self._server, self._query))

    def begin(self) -> None:
        """Connect, and begin the partition, before the first row. Raises `PublishFailed`."""
        with self._refusals():
            if self._connection is None:
                self._retried(self._open)

    def put(self, columns: "pa.RecordBatch") -> None:
        """Send rows as `message_columns` returns them, and wait as far as the window requires. Raises as `send`."""
        with self._refusals():
            fresh = self._delivery.fresh(columns, self._rows)
            self._rows += columns.num_rows
            for piece in self._pieces(fresh, self._rows - fresh.num_rows) if fresh.num_rows else ():
                piece.digest = self._delivery.digest(piece.batch)
                self._todo.append(piece)
            self._work(False)

    def complete(self) -> int:
        """Wait for all answers; return the number of rows. Raises as `send`."""
        with self._refusals():
            self._work(True)
            self._delivery.finish(self._rows)
        return self._rows

    def close(self) -> None:
        """Close the sender's own connections, and the shared connection too if it waits for answers."""
        self._watch.close()
        if self._unanswered:
            self._drop()  # The answers are no longer awaited.

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Raise errors as `PublishFailed` with the reason."""
        try:
            yield
        except _Exhausted as waited:
            raise PublishFailed(self._why(waited.seconds)) from None
        except (ChannelClosed, LinkClosed, LoginRefused, FileUnusable, MessageTooLarge) as error:
            raise PublishFailed(f"{self._target} took no message: {error}") from error

    @property
    def _target(self) -> str:
        return f"{self._options.target} at {self._server}"

    def _pieces(self, batch: "pa.RecordBatch", first: int) -> Iterator[_Piece]:
        """Yield the rows of a batch in blocks."""
        rows, size = batch.num_rows, size_of(batch)
        if rows == 1 or (rows <= min(BLOCK_ROWS, max(self._options.window // 2, 1)) and size <= BLOCK_BYTES):
            yield _Piece(batch, first, size)
            return
        half = rows // 2
        yield from self._pieces(batch.slice(0, half), first)
        yield from self._pieces(batch.slice(half), first + half)

    def _retried(self, attempt: Callable[[], object]) -> None:
        """Repeat attempts to reach the server, until one succeeds."""
        while True:
            try:
                attempt()
                return
            except (LoginRefused, FileUnusable):
                raise
            except (ChannelClosed, *_LOST) as error:
                if isinstance(error, ChannelClosed) and error.code is not None:
                    raise
                self._lost(error)

    def _work(self, to_the_end: bool) -> None:
        """Send all rows; wait for the answers as far as the window requires, or for all answers."""
        while self._todo or self._again or (to_the_end and self._unanswered):
            try:
                if self._again and not self._unanswered:
                    self._turn_back()
                elif self._todo and not self._again and self._has_room(self._todo[0]):
                    self._send(self._todo[0])
                else:
                    self._receive(self._unanswered[0])
            except LoginRefused:
                raise
            except ChannelClosed as error:
                if error.code is not None:
                    raise
                self._lost(error)
            except _LOST as error:
                self._lost(error)

    def _has_room(self, piece: _Piece) -> bool:
        """Return whether a block may be sent: the window has room, and a large row has no block before it."""
        if not self._unanswered:
            return True
        if len(self._unanswered) >= BLOCKS_MOST:
            return False
        rows = sum(each.batch.num_rows for each in self._unanswered) + piece.batch.num_rows
        size = sum(each.size for each in self._unanswered) + piece.size
        return rows <= self._options.window and size <= UNANSWERED_BYTES and piece.size <= BLOCK_MOST

    def _send(self, piece: _Piece) -> None:
        connection = self._open()
        if piece.size > BLOCK_MOST:
            if self._delivery.exact:
                raise PublishFailed(
                    f"row {piece.first} of the task has {piece.size:,} bytes; a row of more than {BLOCK_MOST:,} is "
                    f"sent to {self._target} with delivery=at-least-once only"
                )
            self._send_alone(connection, piece)
            return
        fields = {"progress_ms": PROGRESS_MS, **self._delivery.fields(piece.first, piece.digest)}
        block = encode_block(piece.batch, constants(piece.batch, self._options), fields)
        self._todo.popleft()
        piece.call = None
        self._unanswered.append(piece)  # The outcome of a partly sent block is unknown, too.
        piece.call = connection.begin(PUBLISH_BLOCK, block)

    def _receive(self, piece: _Piece) -> None:
        """Wait for the answer to the first block, a slice of time at most."""
        connection, call = self._open(), piece.call
        assert call is not None
        try:
            answer = connection.answer(call, self._patience.slice())
        except ControlError as error:
            if error.code != _RESOURCE_ERROR:
                raise PublishFailed(f"{self._target} took no message: {error}") from error
            answer = {"taken": 0, "retriable": True, "text": str(error)}
        except Timeout:
            if call.taken > piece.taken:
                piece.taken = call.taken
                self._patience.moved()
            self._wait(connection, sum(each.batch.num_rows - each.taken for each in self._unanswered))
            return
        assert isinstance(answer, dict)
        self._unanswered.popleft()
        self._take(piece, answer)

    def _take(self, piece: _Piece, answer: dict[str, object]) -> None:
        """Process the answer to a block; raises `PublishFailed` for a row that cannot be sent."""
        piece.taken = int(str(answer["taken"]))
        self._patience.confirmed += piece.taken
        if piece.taken:
            self._delivery.confirm(piece.first + piece.taken)
            self._patience.moved()
            self._pause = _PAUSE_SECONDS[0]
        if piece.taken == piece.batch.num_rows:
            return
        if answer.get("retriable") is not True:
            raise PublishFailed(self._refusal(piece, answer))
        self._again.append(piece.rest())

    def _refusal(self, piece: _Piece, answer: dict[str, object]) -> str:
        """Return why a row cannot be sent."""
        row = piece.first + piece.taken
        if answer.get("cause") != "unroutable":
            code = f"{answer['code']} " if "code" in answer else ""
            return f"{self._target} did not take row {row} of the task: {code}{answer.get('text')}"
        if self._options.queue is not None:
            return f"{self._target} took no message: 404 there is no such queue; declare it before the query begins"
        names = piece.batch.schema.names
        key = piece.batch.column("routing_key")[piece.taken].as_py() if "routing_key" in names else None
        shown = key or self._options.routing_key or ""
        return f"{self._target} routes the key '{shown}' to no queue; bind one, or correct the exchange or the key"

    def _turn_back(self) -> None:
        """Send refused rows again, after a pause."""
        rows = sum(piece.batch.num_rows for piece in self._again)
        self._watch.look(self._patience.since, None)
        self._patience.check(self._standing(f"{rows} refused"))
        self._back_off()
        self._todo.extendleft(reversed(self._again))
        self._again = []

    def _wait(self, connection: Connection, rows: int) -> None:
        """Find the reason why the unconfirmed rows wait.

        Raises `_Exhausted`, and sends rows of a forgotten connection again.
        """
        try:
            self._watch.look(self._patience.since, name_of(connection))
        except ConnectionClosed as error:
            more = "" if self._delivery.exact else ", and those that have arrived come twice (delivery=at-least-once)"
            LOG.warning("penstock: %s; %d rows for %s are sent again%s", error, rows, self._target, more)
            raise
        blocked = connection.blocked
        self._patience.check(self._standing(f"{rows} unconfirmed" + (f", {blocked}" if blocked else "")))

    def _standing(self, text: str) -> str:
        """Return the progress of the task with the reason of its wait."""
        return f"{text}; {self._watch.standing}" if self._watch.standing else text

    def _lost(self, error: Exception) -> None:
        """Send rows without an answer again: they may be in their queues, and then arrive twice."""
        self._drop()
        for piece in self._unanswered:
            piece.taken = 0  # None of its rows is known to be durable.
        self._again = sorted([*self._again, *self._unanswered], key=lambda piece: piece.first)
        self._unanswered.clear()
        if not self._again:
            self._patience.check(str(error))
            self._back_off()

    def _back_off(self) -> None:
        """Pause; each pause in a row is twice as long as the pause before."""
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _PAUSE_SECONDS[1])

    def _send_alone(self, connection: Connection, piece: _Piece) -> None:
        """Send a row that is larger than a block as an ordinary message, and wait for its confirm."""
        self._check_properties(connection, piece)
        row = piece.batch.to_pylist()[0]
        fixed = constants(piece.batch, self._options)
        properties = properties_of(row)
        key = str(fixed.get("routing_key") or row.get("routing_key") or "")
        message = Message(row["value"], properties=properties)
        with connection.publisher(exchange=str(fixed["exchange"]), routing_key=key, window=1) as publisher:
            receipt = None
            while receipt is None:
                try:
                    receipt = publisher.publish(message, timeout=self._patience.slice())
                except FlowControlTimeout:
                    self._patience.check("1 unsent")
            while not receipt.done:
                try:
                    receipt.wait(self._patience.slice())
                except ConfirmTimeout:
                    self._patience.check("1 unconfirmed")
                except MessageRefused as error:
                    self._todo.popleft()
                    if error.reason == UNROUTABLE:
                        raise PublishFailed(self._refusal(piece, {"cause": "unroutable"})) from error
                    self._again.append(piece)
                    return
            self._todo.popleft()
        self._patience.confirmed += 1
        self._patience.moved()

    def _check_properties(self, connection: Connection, piece: _Piece) -> None:
        """Refuse a row whose properties do not fit into a frame. Raises `PublishFailed`."""
        most = int(cast("Engine091", connection.core()).channels.frame_max)
        octets = sum(piece.batch.column(name).nbytes for name in piece.batch.schema.names if name != "value")
        if octets > most:
            raise PublishFailed(
                f"{self._target} did not take row {piece.first} of the task: it has properties of about {octets:,} "
                f"bytes, but a frame holds {most:,}"
            )

    def _open(self) -> Connection:
        if self._connection is None:
            connection = shared_block_connection(self._options.access, self._server, self._query)
            self._delivery.begin(connection)
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        drop_connection(self._options.access, self._server, self._query)
        self._connection = None

    def _why(self, seconds: float) -> str:
        """Return the reason why a target stays full, requested on a separate connection."""
        text = (
            f"{self._target} has confirmed nothing for {seconds:.0f} s ({self._options.timeout_ms / 1000:g} s allowed)"
        )
        for more in (self._watch.standing, self._watch.warning):
            text = f"{text}; {more}" if more else text
        if self._options.queue is None or self._watch.is_silent:
            return text
        link = BrokerLink(self._options.access, self._server, Retries(0, 1), ANSWER_SECONDS)
        try:
            found = link.ask("why", {"queue": self._options.queue})
        except (ControlError, SparkSourceError) as error:
            return f"{text}; asked why: {error}"
        finally:
            link.close()
        parts = [f"{name} {_level(found.get(name))}" for name in ("depth", "capacity", "stop", "resume")]
        relief = "consume from it, raise its capacity, or allow more time by publishTimeout"
        return "; ".join([text, ", ".join(parts), *found.get("sentences", []), relief])


def _level(level: object) -> str:
    """Return a depth or a threshold as text: messages, bytes, or both."""
    if not isinstance(level, dict):
        return str(level)
    words = [f"{level[unit]} {unit}" for unit in ("messages", "bytes") if level.get(unit) is not None]
    return " and ".join(words) or "unbounded"
