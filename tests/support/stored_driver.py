"""A driver whose broker has a store on a shelf: a turn of the store is one call."""

from __future__ import annotations

from penstock.connections.connection_limits import ConnectionLimits
from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.persistence.page_loader import Loader
from penstock.persistence.restore import WallTimes
from tests.support import at_once
from tests.support.memory_store import WALL, Shelf


class StoredDriver:
    """A driver, its broker and what the store has."""

    def __init__(self, now: float = 100.0) -> None:
        self.shelf = Shelf()
        broker = Broker(Defaults())
        self.journal = Journal(broker.durable_changes, broker.gates.disk, broker.large)
        broker.journal = self.journal
        broker.large.stores = True
        broker.wall_offset = WALL
        broker.add_vhost("/")
        self.driver = BrokerDriver(broker, ConnectionLimits(), "seed", "0")
        self.driver.begin(now)
        self._loader = Loader()
        self._times = WallTimes(WALL)

    def settle(self) -> None:
        """Write and read what there is to write and read, and run the turns after it."""
        broker = self.driver.broker
        for _ in range(1000):
            self.shelf.commit(at_once.encode(self.journal, self.journal.take(), WALL))
            self.journal.written()
            reads = broker.take_page_reads()
            for read in reads:
                rows = self.shelf.page_heads(read.number, read.first, read.most)
                if read.lister is None:
                    first = rows[0].first if read.within and rows else read.first
                    rows = self.shelf.some_pages(read.number, first, read.most)
                assert self._loader.load(read, rows, self._times) == []
            self.driver.run_turn()
            if self.journal.is_idle() and not reads and not broker.page_reads:
                return
        raise AssertionError("the store never comes to rest")
