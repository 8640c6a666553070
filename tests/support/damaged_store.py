"""A real store with several queues, to be damaged: what was in it, and what is in it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.core.consume.session import Session
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.persistence.page_loader import Loader
from penstock.persistence.recovery import Recovery
from penstock.persistence.restore import WallTimes
from penstock.store.sqlite import SqliteStore
from tests.support import at_once
from tests.support.memory_store import WALL
from tests.support.restored_broker import journaled

QUEUES = {("/", "orders"): {}, ("/", "bills"): {}, ("eu", "orders"): {}, ("eu", "paged"): {"x-overflow": "page"}}
CAPACITY = {"capacity-messages": 20, "hold-deadline": 0}
ROUNDS = 12


class Life:
    """One life of a broker on a store."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.store.open()
        self.driver: BrokerDriver = journaled()
        broker = self.driver.broker
        broker.begin(100.0)
        self.journal = broker.journal
        self.told = at_once.restore(self.driver.broker, self.store.metadata())
        recovery = Recovery(broker, self.journal, WALL)
        for position in self.store.positions():
            recovery.position(position)
        for note in self.store.settlements():
            recovery.settlement(note.number, note.data)
        for row in self.store.rows():
            recovery.row(row)
        wanted = recovery.wanted()
        while wanted is not None:
            recovery.pages(wanted, self.store.pages(*wanted))
            wanted = recovery.wanted()
        recovery.finish()
        self.account = recovery.account
        self.session = Session()

    def queues(self) -> dict[tuple[str, str], Queue]:
        return {
            (vhost.name, queue.name): queue
            for vhost in self.driver.broker.vhosts.values()
            for queue in vhost.queues.values()
        }

    def declare(self) -> None:
        broker = self.driver.broker
        broker.add_vhost("eu")
        for (vhost, name), arguments in QUEUES.items():
            given = {**CAPACITY, **arguments} if arguments else {}
            broker.vhosts[vhost].declare_queue(name, given, True, False, None, None)

    def publish(self, vhost: str, name: str, content: bytes) -> None:
        host = self.driver.broker.vhosts[vhost]
        route = host.route("", name, False)
        host.resolve(route, {})
        route = route.persistent()
        producer = Producer(self.driver.broker, name, HoldBudget(1 << 40))
        producer.confirming = True
        producer.publish(route, content, len(content) + 240)

    def get(self, queue: Queue) -> bytes | None:
        batch = self.session.get(queue, True, self.driver.broker.now)
        return None if batch is None or batch.messages[0] is None else batch.messages[0].content

    def write(self) -> None:
        self.store.commit(at_once.encode(self.journal, self.journal.take(), WALL))
        self.journal.written()
        self.driver.broker.run(1000)

    def drain(self) -> dict[tuple[str, str], list[bytes]]:
        """Return the contents of all queues, in order; nothing of it is written."""
        loader, found = Loader(), {}
        for name, queue in self.queues().items():
            contents: list[bytes] = []
            while int(queue.messages) or (queue.pager is not None and int(queue.pager.messages)):
                content = self.get(queue)
                if content is not None:
                    contents.append(content)
                self.driver.broker.run(1000)
                for read in self.driver.broker.take_page_reads():
                    pages = self.store.pages(read.number, read.first, read.most)
                    assert loader.load(read, pages, WallTimes(WALL)) == []
            found[name] = contents
        return found

    def close(self) -> None:
        self.store.close()


def make(path: Path) -> dict[tuple[str, str], list[bytes]]:
    """Make a store with queues that have been published to and consumed from; return what is in them."""
    path.mkdir()
    life = Life(path)
    life.declare()
    life.write()
    for at in range(ROUNDS):
        for number, (vhost, name) in enumerate(QUEUES):
            for each in range(7 + number):
                life.publish(vhost, name, f"{vhost}/{name}/{at}/{each};".encode() * (20 + 60 * (each % 3)))
        life.write()
        for (_, name), queue in life.queues().items():
            for _ in range(2 if name != "paged" else 0):
                assert life.get(queue) is not None
        life.write()
    assert life.queues()["eu", "paged"].pager.messages > 20  # type: ignore[union-attr]
    life.close()
    life = Life(path)
    assert life.account.losses([]) == []
    found = life.drain()
    life.close()
    return found


Change = Callable[[bytearray], None]


def flip(at: int, bit: int) -> Change:
    def change(octets: bytearray) -> None:
        octets[at] ^= 1 << bit

    return change


def cut(size: int) -> Change:
    def change(octets: bytearray) -> None:
        del octets[size:]

    return change
