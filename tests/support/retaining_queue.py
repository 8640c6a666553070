"""A broker with one queue `q` that retains, on a shelf: driven by hand, one step of the disk at a time."""

from __future__ import annotations

from penstock.core.consume.outcome import Outcome
from penstock.core.effects import NotRetained
from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import Retention, retention_of
from penstock.core.queue.stream_log import StreamLog, log_of
from penstock.core.settings.limits import DiskLimits
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse

RETAINING: dict[str, object] = {"x-retain-time": "7D"}


class Keeper(PagedHouse):
    """One life of a broker with a queue `q` that retains, and its companion."""

    def __init__(self, shelf: Shelf | None = None, arguments: dict[str, object] | None = None, **more: object) -> None:
        given = {**(RETAINING if arguments is None else arguments)}
        given |= {name.replace("_", "-"): value for name, value in more.items()}
        super().__init__(shelf or Shelf(), {"q": (given, True), "plain": ({}, True)})

    @property
    def queue(self) -> Queue:
        return self.queues["q"]

    @property
    def companion(self) -> Queue:
        return self.vhost.queues["q.retained"]

    @property
    def log(self) -> StreamLog:
        return log_of(self.companion)

    @property
    def retention(self) -> Retention:
        retention = retention_of(self.queue)
        assert retention is not None
        return retention

    def put(self, first: int, last: int, charge: int = 300, persistent: bool = True) -> None:
        for number in range(first, last + 1):
            self.publish("q", b"%d" % number, charge, persistent)

    def take(self, count: int) -> None:
        for _ in range(count):
            assert self.get("q", no_ack=False) is not None

    def settle_all(self, outcome: Outcome = Outcome.ACCEPTED) -> None:
        self.session.unsettled.settle_tag(0, True, outcome, self.now)

    def retained(self) -> list[bytes]:
        """What the companion has on the disk, in order."""
        self.settle()
        log, found = self.log, list[bytes]()
        position = log.next
        while position <= self.companion.tail:
            chunk = log.chunk_at(position)
            if chunk is None:
                assert not log.is_requested(position), "the chunk cannot be read"
                log.request_chunk(position)
                self.settle_reads()
                continue
            found += [message.content for message in chunk.messages if message.sequence >= position]
            position = chunk.end
        return found

    def drain_now(self, count: int) -> None:
        """Take messages without acknowledgements, before anything is written."""
        for _ in range(count):
            assert self.get("q") is not None

    def settle_reads(self) -> None:
        self.ask()
        while self.reads:
            self.load()
            self.ask()

    def gaps(self) -> list[tuple[bool, int, int]]:
        return [
            (each.ended, int(each.gap.messages), int(each.gap.bytes))
            for each in self.broker.effects()
            if isinstance(each, NotRetained)
        ]

    def quota(self, overfull: int, underfull: int) -> None:
        limits = DiskLimits()
        limits.overfull, limits.underfull = overfull, underfull
        self.broker.gates.disk.limit_vhost("/", limits, self.now)
