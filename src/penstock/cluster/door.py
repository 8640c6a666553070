"""Door: the way to one shard for clients, and for what the node tells the shard.

A client waits here for a process that has the catalogue of the client's login, and for the next process if one ends.
The number of clients that wait is bounded, so that those of one shard leave descriptors for others.
"""

from __future__ import annotations

import asyncio
import socket

from penstock.cluster.passing import WAITING_MOST, ClientRefused, Handed, NotTaken, Passer
from penstock.cluster.shard_watch import STOPPED, ShardWatch


class Door:
    """Way to one shard: the channel to its present process, if there is one."""

    def __init__(self, most: int = WAITING_MOST) -> None:
        """`most` is the largest number of clients that wait: each has a descriptor of the process that listens."""
        self._most = most
        self._waiting = 0
        self.passer: Passer | None = None
        self.key = b""
        self.watch: ShardWatch | None = None
        self.version = -1
        """Version of the catalogue that the process has."""
        self.heard = 0
        """Number of the last question for ends that a process has answered."""
        self.awaited_reload = 0
        """Number of the reload that the process is to answer; 0 for none."""
        self.changed = asyncio.Event()
        """Set and replaced when the process or the state of the shard is another one."""

    def change(self) -> None:
        """Wake those who wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def close(self) -> None:
        """Close the channel: clients on their way wait for the next process."""
        self.awaited_reload = 0
        if self.passer is not None:
            self.passer.close()
            self.passer = None

    async def give(self, version: int, record: Handed, sock: socket.socket) -> str:
        """Give a client to the shard, once it has a process with this version; return why that is impossible.

        With a number alone, handshake and login are the shard's.

        A shard with an older catalogue might not know the user yet, or the virtual host.
        """
        if self._waiting >= self._most:
            return f"{self._waiting:,} clients wait for the shard of the virtual host already, the most that may"
        self._waiting += 1
        try:
            return await self._give(version, record, sock)
        finally:
            self._waiting -= 1

    async def _give(self, version: int, record: Handed, sock: socket.socket) -> str:
        while True:
            if self.passer is not None and self.passer.is_open() and self.version >= version:
                try:
                    await self.passer.pass_on(record, sock)
                except NotTaken:
                    continue
                except ClientRefused as error:
                    return str(error)
                return ""
            if self.watch is not None and self.watch.state == STOPPED:
                return self.watch.sentence(asyncio.get_running_loop().time())
            await self.changed.wait()
