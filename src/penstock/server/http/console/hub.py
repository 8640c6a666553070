"""Hub of the console's events: one flow map every `INTERVAL_S`, computed once for all who may see the same.

A map is computed while somebody watches, in steps beside the broker's other work. Watchers take the newest one when
they are ready for it, so a slow one misses some and delays nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from penstock.access.rules import Rules
from penstock.describe.flow_map import FlowMap
from penstock.describe.list_kinds import seen_vhosts
from penstock.flow.pool import PoolHolder
from penstock.flow.work import Steps
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.management.json_reader import text_steps
from penstock.server.event_loop import EventLoop
from penstock.server.http.admission import result_of
from penstock.settings.pools import CONSOLES

INTERVAL_S: Final = 2.0
"""Seconds from the end of one map to the beginning of the next."""
OF_USER_MOST: Final = 8
"""Most streams of events of one user: consoles that it has open."""


ALARMS_SHOWN: Final = 20
"""Raised alarms in one map; the others are counted."""


ENDED_S: Final = 30.0
"""Seconds for which a finished job stays in maps."""


class Maps:
    """Source of the maps of one channel."""

    async def text(self) -> bytes:
        """Return the next map as JSON."""
        raise NotImplementedError

    def stop(self) -> None:
        """End what the maps need while somebody watches."""


class OwnMaps(Maps):
    """Maps of this process's broker."""

    def __init__(self, hub: Hub, rules: Rules | None) -> None:
        """`rules` None shows everything."""
        self._hub = hub
        self._rules = rules
        self._map = FlowMap(hub.event_loop.driver, rules, hub.event_loop.driver.recorder is None)

    @override
    async def text(self) -> bytes:
        return await result_of(self._hub.event_loop, self._steps())

    @override
    def stop(self) -> None:
        self._map.stop()

    def _steps(self) -> Steps[bytes]:
        answer = yield from self._map.steps()
        broker = self._hub.event_loop.driver.broker
        whole = {"at": self._hub.now_ms(), "node": self._hub.node(self._rules), **answer}
        return (yield from text_steps(whole, broker.work))


class Channel:
    """Maps of what one set of users may see, with its watchers."""

    def __init__(self, hub: Hub, key: str, maps: Maps) -> None:
        self.hub = hub
        self.key = key
        self.number = 0
        """Number of the newest map; 0 before the first."""
        self.newest = b""
        """That map as an event."""
        self.watchers = 0
        self._maps = maps
        self._waiting: list[asyncio.Future[None]] = []
        """Watchers that wait for the next map."""
        self._task: asyncio.Task[None] | None = hub.event_loop.loop.create_task(self._run())
        """Task that computes the maps; None after the last watcher."""

    async def next(self, after: int) -> tuple[int, bytes]:
        """Return the number and the event of a map newer than `after`; of the newest one at the end."""
        while self.number <= after and not self.hub.closed:
            waiting = self.hub.event_loop.loop.create_future()
            self._waiting.append(waiting)
            await waiting
        return self.number, self.newest

    def leave(self) -> None:
        """Remove a watcher; after the last one nothing is computed."""
        self.watchers -= 1
        if self.watchers == 0:
            task, self._task = self._task, None  # Its error refers to a frame, and that to this channel.
            if task is not None:
                task.cancel()
            self._maps.stop()
            del self.hub.channels[self.key]

    def wake(self) -> None:
        """Let all watchers look."""
        for waiting in self._take_waiting():
            waiting.set_result(None)

    def _take_waiting(self) -> list[asyncio.Future[None]]:
        waiting = [each for each in self._waiting if not each.done()]
        self._waiting = []
        return waiting

    async def _run(self) -> None:
        while True:
            try:
                text = await self._maps.text()
            except Exception:
                log(INTERNAL_ERROR, "the flow map of the console cannot be collected", error=True)
            else:
                self.number += 1
                self.newest = b"id: %d\nevent: flow\ndata: %b\n\n" % (self.number, text)
                for waiting in self._take_waiting():
                    await self.hub.event_loop.slices.pause()  # Each writes in a slice of its own.
                    if not waiting.done():
                        waiting.set_result(None)
            await asyncio.sleep(INTERVAL_S)


class Hub:
    """Channels of one broker."""

    def __init__(self, event_loop: EventLoop) -> None:
        self.event_loop = event_loop
        self.channels: dict[str, Channel] = {}
        self.pool = event_loop.driver.broker.pools.of(CONSOLES)
        """Streams of all users."""
        self.closed = False

    def watchers(self) -> int:
        """Return the number of all watchers."""
        return sum(channel.watchers for channel in self.channels.values())

    def refusal(self, holder: PoolHolder) -> str:
        """Return why a user gets no further stream; empty if it may have one."""
        if self.pool.of_user(holder.user) >= OF_USER_MOST:
            return f"{OF_USER_MOST} streams of events of user '{holder.user}' are open; close a console"
        if not self.pool.fits(holder, 1):
            return f"{self.pool.refusal(holder, 1)}. Close a console"
        return "the broker stops" if self.closed else ""

    def join(self, key: str, rules: Rules | None, maps: Callable[[], Maps] | None = None) -> Channel:
        """Return the channel of a key with one watcher more; `rules` None shows everything.

        `maps` returns another source than the broker of this process.
        """
        channel = self.channels.get(key)
        if channel is None:
            channel = self.channels[key] = Channel(self, key, OwnMaps(self, rules) if maps is None else maps())
        channel.watchers += 1
        return channel

    def close(self) -> None:
        """End all streams: the broker stops."""
        self.closed = True
        for channel in list(self.channels.values()):
            channel.wake()

    def now_ms(self) -> int:
        """Return the wall-clock time of a map in milliseconds."""
        broker = self.event_loop.driver.broker
        return round((broker.now + broker.wall_offset) * 1000)

    def node(self, rules: Rules | None) -> dict[str, object]:
        """Return the node: its name, version, and the alarms that a user with these rules may see (None: all)."""
        driver = self.event_loop.driver
        alarms = driver.alarms.rows()
        if rules is not None:
            hosts: list[object] = [None, *[each.name for each in seen_vhosts(driver, rules)]]
            alarms = [row for row in alarms if row["vhost"] in hosts]
        return {
            "name": driver.name,
            "version": driver.version,
            "uptime_s": round(self.event_loop.loop.time() - self.event_loop.started),
            "jobs": [{**driver.jobs.row(job), "result": None} for job in driver.jobs.shown(ENDED_S)],
            "alarms": {"count": len(alarms), "first": alarms[:ALARMS_SHOWN]},
        }
