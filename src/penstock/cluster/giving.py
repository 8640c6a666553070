"""Giving: the wait of a client until a process of its shard has taken it, as the process that listens sees it.

The socket is not read meanwhile, and nothing is written to it once the shard may have it. The wait is bounded by what
is left of `handshake-s`. A client that closes its side waits a moment longer: its input may be complete.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

from penstock.cluster.passing import StillPassing
from penstock.connections.connection import Connection
from penstock.errors import NotAllowed, PenstockError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.turn_selector import TurnSelector

WAIT_PART: Final = 0.9
"""Part of the time that is left for a handshake in which a shard must take the client: then a reason is sent."""
HANG_UP_S: Final = 1.0
"""Seconds in which a shard may still take a client that has closed its side."""
PEER_ENDED: Final = getattr(select, "EPOLLRDHUP", 0)
NOTHING: Final = memoryview(b"")


class Giving:
    """Wait of one client; its transport asks `is_on` before it reads or closes the socket."""

    __slots__ = ("_loop", "_selector", "_sock", "_task", "_hang_up_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, selector: TurnSelector) -> None:
        self._loop = loop
        self._selector = selector
        self._sock: socket.socket | None = None
        """Socket that is watched for the end of the client's side."""
        self._task: asyncio.Task[None] | None = None
        """Task that gives the client away."""
        self._hang_up_timer: asyncio.TimerHandle | None = None

    def is_on(self) -> bool:
        """Return whether the client waits for its shard, which may have the socket already."""
        return self._task is not None

    def start(self, transport: asyncio.Transport, giving: Coroutine[Any, Any, None]) -> None:
        """Begin to give the client of a transport away; its output is written, and nothing is read any more."""
        transport.pause_reading()
        self._sock = transport.get_extra_info("socket")
        self._selector.watch(self._sock.fileno(), PEER_ENDED, self._on_hang_up)
        self._task = self._loop.create_task(giving)

    def stop(self) -> None:
        """End the wait; the task that gives the client away is cancelled, unless it calls this itself."""
        task, self._task = self._task, None
        self._unwatch()
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        if self._hang_up_timer is not None:
            self._hang_up_timer.cancel()
            self._hang_up_timer = None

    async def outcome(self, connection: Connection, what: str, given: Awaitable[str]) -> str | None:
        """Return the reason why no shard has taken a client, "" if one has, None if the client has ended or may be
        taken still. `what` is what the client wants. Raises NotAllowed at a limit of the node.
        """
        handshake_s = connection.limits.start.handshake_s
        left_s = connection.times.opened + handshake_s - self._loop.time()
        try:
            async with asyncio.timeout(left_s * WAIT_PART):
                return await given
        except (asyncio.CancelledError, StillPassing):  # Nothing may be written to a socket that a shard may have.
            return None
        except TimeoutError:
            return f"{what} is not served yet; the client has waited for most of {handshake_s} s"
        except NotAllowed:
            raise
        except (OSError, PenstockError) as error:
            return f"{what} cannot be reached: {error}"
        except Exception:
            log(INTERNAL_ERROR, "a client could not be given to its shard", error=True)
            return f"{what} cannot be reached"

    def _on_hang_up(self, events: int) -> None:
        """Wait for the shard a moment longer: the client has closed its side."""
        self._unwatch()
        if self._task is not None:
            self._hang_up_timer = self._loop.call_later(HANG_UP_S, self._task.cancel)

    def _unwatch(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None and sock.fileno() >= 0:
            self._selector.unwatch(sock.fileno())
