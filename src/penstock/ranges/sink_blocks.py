"""Operations of sinks: blocks of publishes, with one answer each.

A block is an ordinary request, and its rows are ordinary publishes. The rows pass the gates through the connection's
producer for blocks (held_block.py). The answer is sent when the block has ended and may be confirmed. The answer
contains the number of rows that are in their queues, and the reason if not all are.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.audit_trail import audit_refusal
from penstock.connections.connection import Connection
from penstock.connections.control_request import PUBLISH_BLOCK, ControlRequest, Replies
from penstock.connections.peer import query_of
from penstock.content.properties import Properties
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.describe.gate import because
from penstock.errors import BrokerError, PreconditionFailed, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.work import SHARE
from penstock.ranges.block_rows import BlockRows
from penstock.ranges.blocks import CONTENT_TYPE
from penstock.ranges.held_block import NO_MARK, NOT_RETRIABLE, BlockLine, BlockMark, HeldBlock, RowSource
from penstock.ranges.incoming_block import IncomingBlock
from penstock.ranges.sinks import SinkBatches
from penstock.ranges.stored_rows import StoredRows
from penstock.settings.pools import BLOCKS

WAITS_SHOWN: Final = 3
"""Gates in the answer about a connection that publishes blocks."""
PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"
COPIED_A_UNIT: Final = 4096
"""Bytes of a block that are put together with one unit of work."""
CONNECTION_OCTETS_MAX: Final = 32 * 1024 * 1024
"""Most bytes of one connection's blocks that are not over; the next block is refused."""


class PublishedBlock:
    """One block of a connection, from the request to its answer."""

    def __init__(self, request: ControlRequest, block: HeldBlock, octets: i64, progress_s: float, now: float) -> None:
        self.request = request
        self.block = block
        self.rows = int(block.source.rows)
        self.octets: i64 = octets
        """Bytes of the request while it is not over; 0 afterwards."""
        self.progress_s = progress_s
        self.noted_at = now
        """Time of the last progress report (monotonic seconds)."""
        self.noted: i64 = 0
        """Number of rows that the request announced."""


class BlockPublisher(ProducerListener):
    """The publisher of one connection's blocks."""

    def __init__(self, sinks: SinkBlocks, connection: Connection) -> None:
        super().__init__(connection.number)
        self._sinks = sinks
        self.connection = connection
        self._holder = connection.access.holder()
        self.producer = Producer(
            sinks.broker, f"{connection.name()}/blocks", connection.pausing.budget, connection.origin, self
        )
        self.producer.confirming = True
        self.producer.query = query_of(connection.peer, connection.access.user)
        self.line = BlockLine(self.producer)
        self.octets: i64 = 0
        """Bytes of the connection's blocks that are not over."""
        self._unanswered: deque[PublishedBlock] = deque()

    def publish(
        self, request: ControlRequest, rows: RowSource, mark: BlockMark, octets: i64, progress_s: float
    ) -> None:
        """Publish a block, after earlier blocks."""
        block = HeldBlock(self.line, rows, mark)
        self.octets += octets
        self._sinks.pool.add(self._holder, octets)
        self._unanswered.append(PublishedBlock(request, block, octets, progress_s, self.producer.broker.now))
        self.line.add(block)
        self.producer.broker.work.count(self.line.work(SHARE, self.producer.broker.now))
        self._release_over()

    def blocks(self) -> int:
        """Return the number of blocks without an answer."""
        return len(self._unanswered)

    def end(self) -> None:
        """Drop the remaining rows, because the connection ends and no answer is awaited."""
        self.line.end()
        self.producer.abort()
        self._sinks.pool.give(self._holder, self.octets)
        self.octets = 0
        self._unanswered.clear()

    def _release_over(self) -> None:
        """Release the bytes of blocks that are over: their rows are messages now."""
        for published in self._unanswered:
            if not published.block.over:
                break
            self.octets -= published.octets
            self._sinks.pool.give(self._holder, published.octets)
            published.octets = 0

    # Producer's client (ProducerListener)

    @override
    def on_confirms(self) -> None:
        self._release_over()
        for outcome in self.producer.confirms.take():
            for _ in range(int(outcome.last - outcome.first) + 1):
                self._answer(self._unanswered.popleft())
        if self._unanswered:
            self._tell_progress(self._unanswered[0])

    def _answer(self, published: PublishedBlock) -> None:
        block = published.block
        answer: dict[str, object] = {"rows": published.rows, "taken": int(block.row)}
        refusal = block.refusal
        if refusal is not None:
            answer["cause"] = refusal.cause
            answer["retriable"] = refusal.cause not in NOT_RETRIABLE
            answer["text"] = refusal.describe()
            if block.code:
                answer["code"] = block.code
            if refusal.error is not None:
                audit_refusal(self.connection, PUBLISH_BLOCK, refusal.error)
        self._sinks.control.answer(published.request, answer)

    def _tell_progress(self, published: PublishedBlock) -> None:
        now = self.producer.broker.now
        taken = published.block.row
        if published.progress_s and taken > published.noted and now >= published.noted_at + published.progress_s:
            published.noted_at = now
            published.noted = taken
            note = {"rows": published.rows, "taken": int(taken)}
            self._sinks.control.reply(published.request, PROGRESS_TYPE, json.dumps(note).encode())

    @override
    def on_closed(self, error: BrokerError) -> None:
        """Answer all blocks with the error; the next block gets a producer of its own."""
        unanswered = list(self._unanswered)
        self._sinks.end(self.connection)
        for published in unanswered:
            self._sinks.control.fail(published.request, error)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, 1)

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, -1)

    def on_departed(self) -> None:
        """Add the lost rows to the losses of the connection, which are logged together."""
        self.connection.count_departed(self.producer)


class SinkBlocks:
    """Blocks of publishes, and their publishers by connection."""

    def __init__(self, control: Replies, batches: SinkBatches) -> None:
        self.control = control
        self.broker = control.broker
        self._publishers: dict[int, BlockPublisher] = {}
        """Publishers by the number of the connection."""
        self._batches = batches
        self.pool = self.broker.pools.of(BLOCKS)
        """Bytes of all blocks that are not over. Like held publishes they do not count in the node's memory limit,
        because they may wait for its gate.
        """

    def publish_block(
        self, request: ControlRequest, properties: Properties, content: bytes, start: i64, octets: i64
    ) -> None:
        """Publish the rows of a block, and answer when it has ended.

        The block lies in the content from `start` on, and is read in place: a copy of 16 MiB takes longer than a turn
        should. The copy from the frames is counted here.

        Raises PreconditionFailed (406) for a malformed block, ContentTooLarge (311) and ResourceError (506) for too
        many bytes or rows. Then no row was published.
        """
        if properties.content_type != CONTENT_TYPE:
            raise PreconditionFailed(f"a block has the content type {CONTENT_TYPE}, not {properties.content_type}")
        connection = request.connection
        if connection is None:
            raise PreconditionFailed("a block needs a connection of its own")
        self.broker.work.done += octets // COPIED_A_UNIT
        block = IncomingBlock(content, start, octets)
        rows = self._rows(block, request, connection)
        if block.stage is not None:
            ids = request.part(block.stage)
            self.control.answer_later(ids, self._batches.stage_steps(ids, rows))
            return
        mark = NO_MARK if block.mark is None else self._batches.marked_block(request.part(block.mark), block)
        self._publisher(connection, octets).publish(request, rows, mark, octets, block.progress_s)

    def _rows(self, block: IncomingBlock, request: ControlRequest, connection: Connection) -> RowSource:
        """Return the rows of a block: contents, or columns of properties."""
        query = query_of(connection.peer, connection.access.user)
        if block.is_stored:
            most = connection.limits.message_bytes_max
            contents = StoredRows(self.broker, request.vhost, block, request.access, most)
            contents.routes.query = query
            return contents
        rows = BlockRows(self.broker, request.vhost, block, request.access)
        rows.routes.query = query
        return rows

    def _publisher(self, connection: Connection, octets: i64) -> BlockPublisher:
        """Return the publisher of a connection, created at first use. Raises ResourceError (506)."""
        publisher = self._publishers.get(connection.number)
        of_connection: i64 = 0 if publisher is None else publisher.octets
        if of_connection and of_connection + octets > CONNECTION_OCTETS_MAX:
            raise ResourceError(
                f"blocks of this connection that are not published yet hold {int(of_connection):,} bytes of at most "
                f"{CONNECTION_OCTETS_MAX:,}; wait for an answer"
            )
        holder = connection.access.holder()
        if not self.pool.fits(holder, octets):
            raise ResourceError(f"{self.pool.refusal(holder, octets)}. Send the block again later")
        if publisher is None:
            publisher = BlockPublisher(self, connection)
            self._publishers[connection.number] = publisher
        return publisher

    def state_of(self, connection: Connection) -> dict[str, object]:
        """Return the row of a connection that publishes blocks, for the task that waits for its answers.

        The row shows a connection that was lost on the network: no block is under way, no more input arrives, and no
        answer was sent.
        """
        publisher = self._publishers.get(connection.number)
        producers = self._batches.commits_of(connection)
        blocks = len(producers)
        if publisher is not None:
            blocks += publisher.blocks()
            producers = [publisher.producer, *producers]
        waits: list[str] = []
        for producer in producers:
            for gate, stats in producer.stories():
                if stats.since is not None and len(waits) < WAITS_SHOWN:
                    waits.append(because(producer, gate, self.broker.now))
        return {
            "open": True,
            "blocks": blocks,
            "received": int(connection.peer.traffic.received),
            "paused": connection.may_pause() or connection.waits_for_store(),
            "waits": waits,
        }

    def held(self) -> list[tuple[Connection, int]]:
        """Return the connections with blocks that are not over, and the bytes of these blocks."""
        return [(each.connection, int(each.octets)) for each in self._publishers.values() if each.octets > 0]

    def end(self, connection: Connection) -> None:
        """End the publisher of a connection that ends."""
        publisher = self._publishers.pop(connection.number, None)
        if publisher is not None:
            publisher.end()
