"""A broker with one stream `s`, on a shelf: driven by hand, one step of the disk at a time."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import MessageFilter
from penstock.core.consume.session import Session
from penstock.core.consume.stream_scan import StreamScan
from penstock.core.queue.queue import Queue
from penstock.core.queue.stream_log import StreamLog, log_of
from penstock.protocols.amqp091.content_frames import make_content, properties_of
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.settings.stream_offset import read_offset
from tests.support.memory_store import WALL, Shelf
from tests.support.paging_broker import PagedHouse

STREAM: dict[str, object] = {"x-queue-type": "stream"}
FORMAT = Amqp091Format()


class StreamHouse(PagedHouse):
    """One life of a broker with a stream."""

    def __init__(self, shelf: Shelf | None = None, **arguments: object) -> None:
        given = {name.replace("_", "-"): value for name, value in arguments.items()}
        super().__init__(shelf or Shelf(), {"s": ({**STREAM, **given}, True)})
        self.broker.formats.add(FORMAT)
        self.broker.wall_offset = WALL
        self.sent: dict[str, list[tuple[int, bytes]]] = {}
        """Deliveries by consumer: offset and body."""
        self.overtaken: list[tuple[str, int, int, bool]] = []

    @property
    def stream(self) -> Queue:
        return self.queues["s"]

    @property
    def log(self) -> StreamLog:
        return log_of(self.stream)

    def append(self, first: int, last: int, octets: int = 0, **properties: object) -> None:
        """Publish messages with these numbers as bodies, and write them as one page."""
        for number in range(first, last + 1):
            given = Properties()
            for name, value in properties.items():
                setattr(given, name, value)
            body = b"%d" % number + b"." * octets
            content = make_content(given, body)
            self.publish("s", content, len(body) + 240, persistent=number % 2 == 0)
        self.write()

    def consume(self, tag: str, at: object = "first", prefetch: int = 1000, session: Session | None = None) -> Consumer:
        """Subscribe a consumer that begins at an offset."""
        session = session or self.session
        consumer = Consumer(tag, session, self.stream, False, False, prefetch)
        start = read_offset("consumer", "x-stream-offset", at, self.now + WALL)
        consumer.scan = StreamScan(consumer, MessageFilter(self.broker.formats), self.broker, start, FORMAT)
        self.broker.consume(session, consumer)
        self.sent.setdefault(tag, [])
        return consumer

    def take(self) -> Batch | None:
        """Take the next batch of deliveries, and note what it has."""
        batch = self.broker.next_batch()
        if batch is not None:
            for message in batch.messages:
                assert message is not None
                headers = properties_of(message.content).headers or {}
                offset = headers["x-stream-offset"]
                assert isinstance(offset, int)
                body = FORMAT.body(message.content).rstrip(b".")
                self.sent[batch.consumer.tag].append((int(offset), body))
        return batch

    def deliver(self) -> None:
        """Deliver whatever consumers may have, with all reads from the disk."""
        for _ in range(10_000):
            self.broker.begin(self.now)
            if self.take() is None and not self._read():
                return
        raise AssertionError("the deliveries never end")

    def _read(self) -> bool:
        self.write()
        self.ask()
        if not self.reads:
            return False
        self.load()
        return True

    def acknowledge(self, session: Session | None = None, outcome: Outcome = Outcome.ACCEPTED) -> None:
        """Settle all deliveries of a session."""
        session = session or self.session
        for queue in session.unsettled.settle_tag(0, True, outcome, self.now):
            self.broker.schedule_delivery(queue)

    def offsets(self, tag: str) -> list[int]:
        """Return the offsets that a consumer got since the last call; each has its body's number."""
        found = self.sent[tag]
        self.sent[tag] = []
        assert all(body == b"%d" % offset for offset, body in found), found
        return [offset for offset, _ in found]

    def forget_chunks(self) -> None:
        """Drop all decoded pages, so that consumers read from the disk."""
        for chunk in list(self.log._chunks):
            self.broker.log_chunks.remove(chunk)
            self.log.drop_chunk(chunk)

    def restarted(self, **arguments: object) -> StreamHouse:
        """Return the next life, on the same shelf."""
        return StreamHouse(self.shelf, **arguments)
