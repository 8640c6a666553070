"""A broker whose queues page, on a shelf: driven by hand, one step of the disk at a time."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.consume.session import Session
from penstock.core.journal.group import JournalGroup
from penstock.core.journal.journal import Journal
from penstock.core.message import Message, StoredMessage
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.pager import PageRead, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.flow.level import Level
from penstock.persistence.page_loader import Loader
from penstock.persistence.restore import WallTimes
from tests.support import at_once
from tests.support.memory_store import WALL, Shelf

PAGE: dict[str, object] = {"x-overflow": "page"}
FEW: dict[str, object] = {**PAGE, "capacity-messages": 4}


class PagedHouse:
    """One life of a broker."""

    def __init__(self, shelf: Shelf, queues: dict[str, tuple[dict[str, object], bool]]) -> None:
        """`queues` gives for each name its arguments, and whether it is durable."""
        self.shelf = shelf
        self.broker = Broker(Defaults(hold_deadline_s=0))
        self.broker.begin(100.0)
        self.journal = Journal(self.broker.durable_changes, self.broker.gates.disk, self.broker.large)
        self.broker.journal = self.journal
        self.vhost = self.broker.add_vhost("/")
        self.queues: dict[str, Queue] = {}
        self.producers: dict[str, Producer] = {}
        self.now = 100.0
        for name, (arguments, durable) in sorted(queues.items(), key=lambda item: not item[1][1]):
            # Those that are durable come first: they have the numbers that they had, as things would see to.
            self.queues[name] = self.vhost.declare_queue(name, arguments, durable, False, None, None)
            self.producers[name] = self.producer(name)
        self.session = Session()
        self.reads: list[PageRead] = []
        self.failed: list[str] = []
        self._loader = Loader()
        self.times = WallTimes(WALL)
        shelf.recover(self.broker, self.journal)
        self.at_start = {
            name: Level(queue.pager.messages, queue.pager.bytes)
            for name, queue in self.queues.items()
            if queue.pager is not None
        }
        """What was on the disk: with what had been read back when the broker died that may be more than the limit."""

    def producer(self, name: str, confirming: bool = True) -> Producer:
        producer = Producer(self.broker, name, HoldBudget(1 << 40))
        producer.confirming = confirming
        return producer

    def pages(self, name: str) -> QueuePager:
        pages = self.queues[name].pager
        assert pages is not None
        return pages

    # What happens

    def publish(
        self, name: str, content: bytes, charge: int = 300, persistent: bool = True, producer: Producer | None = None
    ) -> None:
        route = self.vhost.route("", name, False)
        self.vhost.resolve(route, {})
        publisher = producer or self.producers[name]
        if persistent:
            route = route.persistent()
        publisher.publish(route, content, charge)

    def get(self, name: str, no_ack: bool = True) -> Message | None:
        batch = self.session.get(self.queues[name], no_ack, self.now)
        return None if batch is None else batch.messages[0]

    def set(self, name: str, **settings: object) -> None:
        said = {key.replace("_", "-"): value for key, value in settings.items()}
        at_once.set_named(self.broker, "queue", name, **said)

    def step(self, seconds: float = 0.01) -> None:
        self.now += seconds
        self.broker.begin(self.now)
        self.broker.run(1000)

    # The disk

    def begin_write(self) -> list[JournalGroup]:
        """Write what there is; nobody knows of it yet."""
        groups = self.journal.take()
        self.shelf.commit(at_once.encode(self.journal, groups, WALL))
        return groups

    def write(self) -> None:
        self.begin_write()
        self.journal.written()

    def ask(self) -> None:
        """Take what is wanted from the disk."""
        self.reads += self.broker.take_page_reads()

    def load(self) -> None:
        """Answer the first that was asked for."""
        read = self.reads.pop(0)
        rows = self.shelf.page_heads(read.number, read.first, read.most)
        if read.lister is None:
            first = rows[0].first if read.within and rows else read.first
            rows = self.shelf.some_pages(read.number, first, read.most)
        self.failed += self._loader.load(read, rows, self.times)

    def settle(self) -> None:
        """Let the disk do whatever there is to do."""
        for _ in range(100):
            self.write()
            self.ask()
            while self.reads:
                self.load()
                self.ask()
            self.step()
            if self.journal.is_idle():
                return
        raise AssertionError("the disk never comes to rest")

    def drain(self, name: str) -> list[bytes]:
        """Take all that is in a queue."""
        found: list[bytes] = []
        while True:
            message = self.get(name)
            if message is None:
                self.settle()
                message = self.get(name)
            if message is None:
                return found
            found.append(message.content)

    # What is there

    def memory(self, name: str) -> list[bytes]:
        """What is ready in memory, in order."""
        found = sorted(self.queues[name].ready_queue.messages(), key=lambda message: int(message.sequence))
        assert all(isinstance(message, StoredMessage) for message in found if message.envelope.persistent)
        return [message.content for message in found]

    def check(self) -> None:
        """What holds after every step."""
        for name, queue in self.queues.items():
            pages = queue.pager
            if pages is None:
                continue
            ready = queue.ready_queue.messages()
            assert queue.messages - queue.unacked_messages == len(ready)
            assert queue.bytes - queue.unacked_bytes == sum(message.charge for message in ready)
            assert pages.messages >= pages.unwritten_messages >= 0
            assert pages.bytes >= pages.unwritten_bytes >= 0
            assert (pages.messages == 0) == (pages.bytes == 0)
            limit = queue.settings.page_limit
            if queue.overflow.pages and not limit.covers(pages.messages, pages.bytes):
                assert self.at_start[name].covers(pages.messages, pages.bytes)


def house_with(shelf: Shelf | None = None, durable: bool = True, messages: int = 0, **arguments: object) -> PagedHouse:
    """A broker with one queue `q` that pages and has so many messages; `shelf` is what a former one has left."""
    said = {key.replace("_", "-"): value for key, value in arguments.items()}
    house = PagedHouse(shelf or Shelf(), {"q": ({**FEW, **said}, durable)})
    publish(house, 1, messages)
    return house


def settled(messages: int, shelf: Shelf | None = None, durable: bool = True, **arguments: object) -> PagedHouse:
    """The same, when the disk has come to rest."""
    house = house_with(shelf, durable, messages, **arguments)
    house.settle()
    return house


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def publish(house: PagedHouse, first: int, last: int, charge: int = 300, persistent: bool = True) -> None:
    for content in numbered(first, last):
        house.publish("q", content, charge, persistent)


def told(house: PagedHouse) -> list[tuple[int, int, bool]]:
    return [(int(o.first), int(o.last), o.confirmed) for o in house.producers["q"].confirms.take()]
