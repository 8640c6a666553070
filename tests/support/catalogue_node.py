"""A node's own broker on a catalogue, and shards that copy its users: all in one process, with a channel of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from penstock.cluster.access_pages import page_after, read_place
from penstock.cluster.access_pull import AccessPull
from penstock.cluster.catalogue import Catalogue, CatalogueReader, ShardRow
from penstock.cluster.packet_channel import Row
from penstock.cluster.shard_orders import PULL
from penstock.driver.driver import BrokerDriver
from penstock.server.shard import Allowance, Shard
from penstock.settings.config import Settings

ALLOWANCE = Allowance(1 << 30, 1_024)
T = TypeVar("T")


async def started(shard: Shard) -> Shard:
    """Start a shard."""
    shard.lock()
    shard.begin()
    await shard.hold_store()
    await shard.restore()
    shard.admit()
    return shard


async def stopped(shard: Shard) -> None:
    """Stop a shard."""
    await shard.close()
    await shard.release()


class CatalogueNode:
    """The node's own broker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.versions: list[int] = []
        self.catalogue = Catalogue(folder, self.versions.append)
        self.broker = Shard("penstock@node", Settings(), None, ALLOWANCE, store=self.catalogue)

    async def start(self) -> None:
        await started(self.broker)
        if not self.reader().shards():
            self.catalogue.add_shard(ShardRow("1", ""))

    async def stop(self) -> None:
        await stopped(self.broker)

    def reader(self) -> CatalogueReader:
        return CatalogueReader(self.folder)

    async def change(self, action: Callable[[BrokerDriver], T]) -> T:
        """Change something in a turn of the broker, and wait until it is in the catalogue."""
        driver, event_loop = self.broker.driver, self.broker.event_loop
        driver.begin(event_loop.loop.time())
        before = int(driver.broker.durable_changes.durable_declarations)
        result = action(driver)
        event_loop.schedule()
        if driver.broker.durable_changes.durable_declarations != before:
            await event_loop.on_disk(before)
        return result


class CopyingShard:
    """A shard with a store, whose requests the node answers at once."""

    def __init__(self, node: CatalogueNode, folder: Path) -> None:
        self.shard = Shard("penstock@node", Settings(), folder, ALLOWANCE)
        self.reader = node.reader()
        self.pages = 0
        self.is_deaf = False
        """True if requests are lost."""
        self._stopped = False
        self._ended = asyncio.Event()
        """Set with each last page."""

    async def start(self) -> None:
        await started(self.shard)
        self.pull = AccessPull(self.shard, self._send)
        self.pull.ask()
        await self.pull.whole.wait()

    async def follow(self) -> None:
        """Bring the version of the catalogue, and wait until the shard has it."""
        self._ended.clear()
        self.question()
        if self.pull.version != self.reader.version():
            await self._ended.wait()
        assert self.pull.version == self.reader.version()

    def question(self) -> None:
        """Bring the version of the catalogue, as a question of the node does."""
        self.pull.meet(self.reader.version())

    async def stop(self) -> None:
        """Stop the shard; again does nothing."""
        if not self._stopped:
            self._stopped = True
            self.reader.close()
            await stopped(self.shard)

    def _send(self, row: Row) -> None:
        if not self.is_deaf and PULL in row:
            self.pages += 1
            page = page_after(self.reader, read_place(row[PULL]))
            asyncio.get_running_loop().call_soon(self._apply, page)

    def _apply(self, page: Row) -> None:
        self.pull.apply(page)
        if page["last"]:
            self._ended.set()
