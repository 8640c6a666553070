"""Operations of sinks: blocks of publishes, with one answer each.

A block is an ordinary request, and its rows are ordinary publishes. They pass the gates by a producer that the
connection has for its blocks (held_block.py). The answer comes when the block has ended and may be confirmed. It has
the number of rows that are in their queues, and the reason if not all are.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.errors import BrokerError, PreconditionFailed, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.work import SHARE
from penstock.protocols.common.audit_trail import audit_refusal
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.control_request import PUBLISH_BLOCK, ControlRequest, Replies
from penstock.protocols.common.peer import QUERY
from penstock.ranges.blocks import CONTENT_TYPE
from penstock.ranges.held_block import NO_MARK, NOT_RETRIABLE, BlockLine, BlockMark, HeldBlock
from penstock.ranges.incoming import BlockRows, IncomingBlock
from penstock.ranges.sinks import SinkBatches

PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"
COPIED_A_UNIT: Final = 4096
"""Octets of a block that were put together with one unit of work."""
CONNECTION_OCTETS_MAX: Final = 32 * 1024 * 1024
NODE_OCTETS_MAX: Final = 256 * 1024 * 1024
"""Most octets of blocks that are not over, of one connection and of all; the next block is refused."""


class PublishedBlock:
    """One block of a connection, from the request to its answer."""

    def __init__(self, request: ControlRequest, block: HeldBlock, octets: i64, progress_s: float, now: float) -> None:
        self.request = request
        self.block = block
        self.rows = int(block.source.rows)
        self.octets: i64 = octets
        """Octets of the request while it is not over; 0 afterwards."""
        self.progress_s = progress_s
        self.noted_at = now
        """Time of the last note of progress (monotonic seconds)."""
        self.noted: i64 = 0
        """Number of rows that the request announced."""


class BlockPublisher(ProducerListener):
    """The publisher of one connection's blocks."""

    def __init__(self, sinks: SinkBlocks, connection: Connection) -> None:
        super().__init__(connection.number)
        self._sinks = sinks
        self.connection = connection
        self.producer = Producer(
            sinks.broker, f"{connection.name()}/blocks", connection.pausing.budget, connection.origin, self
        )
        self.producer.confirming = True
        self.producer.query = str(connection.peer.properties.get(QUERY, ""))
        self.line = BlockLine(self.producer)
        self.octets: i64 = 0
        """Octets of its blocks that are not over."""
        self._unanswered: deque[PublishedBlock] = deque()

    def publish(
        self, request: ControlRequest, rows: BlockRows, mark: BlockMark, octets: i64, progress_s: float
    ) -> None:
        """Publish a block, after those before it."""
        block = HeldBlock(self.line, rows, mark)
        self.octets += octets
        self._sinks.count(octets)
        self._unanswered.append(PublishedBlock(request, block, octets, progress_s, self.producer.broker.now))
        self.line.add(block)
        self.producer.broker.work.count(self.line.work(SHARE, self.producer.broker.now))
        self._release_over()

    def end(self) -> None:
        """Drop the remaining rows, because the connection ends and nobody waits for an answer."""
        self.line.end()
        self.producer.abort()
        self._sinks.count(-self.octets)
        self.octets = 0
        self._unanswered.clear()

    def _release_over(self) -> None:
        """Give back the octets of blocks that are over: their rows are messages now."""
        for published in self._unanswered:
            if not published.block.over:
                break
            self.octets -= published.octets
            self._sinks.count(-published.octets)
            published.octets = 0

    # Its producer (ProducerListener)

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
        """By the number of the connection."""
        self._batches = batches
        self._octets: i64 = 0
        """Octets of all blocks that are not over."""

    def count(self, octets: i64) -> None:
        """Count octets of blocks that came, or are over (negative).

        They are no part of the node's memory limit, as held publishes are not: they may wait for its gate.
        """
        self._octets += octets

    def publish_block(
        self, request: ControlRequest, properties: Properties, content: bytes, start: i64, octets: i64
    ) -> None:
        """Publish the rows of a block, and answer when it has ended.

        The block lies in the content from `start` on, and is read in place: a copy of 16 MiB takes longer than a turn
        should. That of the frames is counted here.

        Raises PreconditionFailed (406) for a malformed block, ContentTooLarge (311) and ResourceError (506) for too
        much. Nothing was published then.
        """
        if properties.content_type != CONTENT_TYPE:
            raise PreconditionFailed(f"a block has the content type {CONTENT_TYPE}, not {properties.content_type}")
        connection = request.connection
        if connection is None:
            raise PreconditionFailed("a block needs a connection of its own")
        self.broker.work.done += octets // COPIED_A_UNIT
        block = IncomingBlock(content, start, octets)
        rows = BlockRows(self.broker, request.vhost, block, request.access)
        rows.query = str(connection.peer.properties.get(QUERY, ""))
        if block.stage is not None:
            ids = request.part(block.stage)
            self.control.answer_later(ids, self._batches.stage_steps(ids, rows))
            return
        mark = NO_MARK if block.mark is None else self._batches.marked_block(request.part(block.mark), block.rows)
        self._publisher(connection, octets).publish(request, rows, mark, octets, block.progress_s)

    def _publisher(self, connection: Connection, octets: i64) -> BlockPublisher:
        """Return the publisher of a connection, created at first use. Raises ResourceError (506)."""
        publisher = self._publishers.get(connection.number)
        of_connection: i64 = 0 if publisher is None else publisher.octets
        if of_connection and of_connection + octets > CONNECTION_OCTETS_MAX:
            raise ResourceError(
                f"blocks of this connection that are not published yet hold {int(of_connection):,} octets of at most "
                f"{CONNECTION_OCTETS_MAX:,}; wait for an answer"
            )
        if self._octets + octets > NODE_OCTETS_MAX:
            raise ResourceError(
                f"blocks that are not published yet hold {int(self._octets):,} octets of at most {NODE_OCTETS_MAX:,}; "
                "send the block again later"
            )
        if publisher is None:
            publisher = BlockPublisher(self, connection)
            self._publishers[connection.number] = publisher
        return publisher

    def end(self, connection: Connection) -> None:
        """End the publisher of a connection that ends."""
        publisher = self._publishers.pop(connection.number, None)
        if publisher is not None:
            publisher.end()
