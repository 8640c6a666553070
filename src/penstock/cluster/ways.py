"""Ways of a node to its shards, for requests over HTTP: where a shard listens, and whether it serves.

A request for a shard without a process waits for the next one, for a few seconds. A shard that is stopped answers at
once, by its node, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from penstock.cluster.shard_http import Headers, ShardCut, ShardRequest
from penstock.cluster.shard_watch import STOPPED, ShardWatch, obstacle
from penstock.server.asker import Asker
from penstock.server.http.request import HttpError
from penstock.server.inside import ASKER_HEADER, KEY_HEADER

WAIT_S: Final = 5.0
"""Seconds for which a request waits for a shard that starts."""


class Place(NamedTuple):
    """Address and key of the socket at which a shard serves its node."""

    address: str
    """Name of its socket (server/inside.py)."""
    key: str
    """Key of the requests there."""


class ShardDoor(Protocol):
    """One shard, as its node sees it."""

    watch: ShardWatch | None
    changed: asyncio.Event
    """Set and replaced with each change of the shard's state."""


class Ways:
    """Ways to all shards of a node."""

    def __init__(
        self, vhosts: Mapping[str, str], doors: Mapping[str, ShardDoor], place_of: Callable[[str], Place]
    ) -> None:
        """`vhosts` has the shard of each virtual host."""
        self._vhosts = vhosts
        self._doors = doors
        self._place_of = place_of

    def names(self) -> list[str]:
        """Return the names of all shards."""
        return list(self._doors)

    def shard_of(self, vhost: str) -> str | None:
        """Return the shard of a virtual host; None if there is no such virtual host."""
        return self._vhosts.get(vhost)

    def obstacle(self, name: str) -> str:
        """Return why a shard does not serve, for people; empty if it serves."""
        return obstacle(self._doors[name].watch, name, asyncio.get_running_loop().time())

    def starts(self, name: str) -> int:
        """Return the number of processes of a shard so far."""
        watch = self._doors[name].watch
        return 0 if watch is None else watch.starts

    async def changed(self, name: str) -> None:
        """Wait until the state of a shard is another one."""
        await self._doors[name].changed.wait()

    async def request(
        self, name: str, asker: Asker, method: bytes, target: bytes, headers: Headers, wait_s: float = WAIT_S
    ) -> ShardRequest:
        """Begin a request of a user at a shard, once it serves. Raises HttpError (503)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            door = self._doors[name]
            changed = door.changed  # Taken before a look at the state, so that no change is missed.
            if not self.obstacle(name):
                place = self._place_of(name)
                own = [(KEY_HEADER.encode(), place.key.encode()), (ASKER_HEADER.encode(), asker.text().encode())]
                with contextlib.suppress(ShardCut, OSError):  # Its process has ended: a change of its state follows.
                    return await ShardRequest.begin(place.address, method, target, [*headers, *own])
            stopped = door.watch is not None and door.watch.state == STOPPED
            if stopped or not await _comes(changed, until - loop.time()):
                reason = self.obstacle(name) or f"shard '{name}' does not take requests"
                raise HttpError(503, "service_unavailable", reason, {"Retry-After": "1"})


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; return whether it came in time."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await event.wait()
    except TimeoutError:
        return False
    return True
