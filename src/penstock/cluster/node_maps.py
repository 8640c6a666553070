"""Flow maps of a node: the newest map of each shard, joined, while a console watches.

The node follows the events of each shard as a console does. A shard that is away, or silent for a few maps, is left out
and named with its state. It is followed again as soon as it serves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Final

from typing_extensions import override

from penstock.access.rules import Rules
from penstock.cluster.map_join import joined_map, joined_node
from penstock.cluster.shard_http import ShardCut
from penstock.cluster.ways import Ways
from penstock.describe.table import Row
from penstock.server.asker import Asker
from penstock.server.http.console.hub import ALARMS_SHOWN, INTERVAL_S, Hub, Maps
from penstock.server.http.request import HttpError, json_octets
from penstock.server.inside import SILENCE_S

EVENTS: Final = b"/api/penstock/events"
EVENT_BYTES_MOST: Final = 8 * 1024 * 1024
"""Most bytes of one event of a shard: a map has some hundred rows."""
AGAIN_S: Final = 1.0
"""Seconds from the end of a stream to the next attempt."""
SILENT_S: Final = 4 * INTERVAL_S
"""Seconds after which the map of a shard is too old to be shown."""


class NodeMaps(Maps):
    """Maps of what one user may see of all shards."""

    def __init__(self, hub: Hub, rules: Rules | None, ways: Ways, asker: Asker) -> None:
        """`rules` None shows everything; shards decide by the `asker`."""
        self._hub = hub
        self._rules = rules
        self._ways = ways
        self._asker = asker
        self._newest: dict[str, Row] = {}
        """Newest map of each shard that sends any."""
        self._arrived: dict[str, float] = {}
        """Times at which they arrived."""
        self._first = asyncio.Event()
        """Set when each shard that serves has sent a map."""
        self._tasks = [asyncio.ensure_future(self._follow(name)) for name in ways.names()]

    @override
    async def text(self) -> bytes:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SILENCE_S):
                await self._first.wait()
        self._first.set()  # Maps that follow wait for nobody.
        hub = self._hub
        hub.event_loop.driver.begin(hub.event_loop.loop.time())
        shards = self._shards()
        nodes = {name: each["node"] for name, each in self._newest.items() if isinstance(each["node"], dict)}
        node = joined_node(hub.node(self._rules), nodes, ALARMS_SHOWN)
        return json_octets({"at": hub.now_ms(), "node": node, "shards": shards, **joined_map(self._newest)})

    @override
    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _shards(self) -> list[Row]:
        """Return the states of all shards; forget the maps of those that do not serve, or are silent."""
        now = self._hub.event_loop.loop.time()
        view = self._hub.event_loop.driver.cluster
        rows: list[Row] = []
        for row in [] if view is None else view.rows():
            name, vhosts = str(row["shard"]), row["vhosts"]
            silent_s = now - self._arrived.get(name, now)
            reason = self._ways.obstacle(name)
            if not reason and silent_s >= SILENT_S:
                reason = f"shard '{name}' has not answered for {silent_s:.0f} s"
            if reason:
                self._newest.pop(name, None)
            assert isinstance(vhosts, list)
            rows.append({**row, "vhosts": len(vhosts), "reason": reason or None})
        return rows

    async def _follow(self, name: str) -> None:
        """Take the maps of a shard, again and again."""
        while True:
            with contextlib.suppress(HttpError, ShardCut, OSError, ValueError):
                await self._take(name)
            await asyncio.sleep(AGAIN_S)

    async def _take(self, name: str) -> None:
        """Take the maps of one stream. Raises HttpError, ShardCut, and ValueError for an event that is no map."""
        request = await self._ways.request(name, self._asker, b"GET", EVENTS, [])
        try:
            await request.end()
            await request.answer()
            if request.status != 200:
                return
            async for data in events(request.parts()):
                self._newest[name] = json.loads(data)
                self._arrived[name] = self._hub.event_loop.loop.time()
                serving = [each for each in self._ways.names() if not self._ways.obstacle(each)]
                if all(each in self._newest for each in serving):
                    self._first.set()
        finally:
            request.close()


async def events(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of server-sent events. Raises ShardCut for one that is too long."""
    rest = b""
    async for part in parts:
        rest += part
        *whole, rest = rest.split(b"\n\n")
        for event in whole:
            data = [line.removeprefix(b"data: ") for line in event.split(b"\n") if line.startswith(b"data: ")]
            if data:
                yield b"\n".join(data)
        if len(rest) > EVENT_BYTES_MOST:
            raise ShardCut(f"an event of a shard has more than {EVENT_BYTES_MOST:,} bytes")
