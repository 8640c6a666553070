"""Giving: the wait of a client until a process of its shard has taken it, as the process that listens sees it.

The socket is not read meanwhile, and nothing is written to it once the shard may have it. The wait is bounded by what
is left of `handshake-s`. A client that closes its side waits a moment longer: its input may be complete.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Coroutine
from typing import Any, Final

from typing_extensions import override

from penstock.cluster.passing import StillPassing
from penstock.connections.connection import Connection
from penstock.errors import PenstockError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.event_loop import EventLoop
from penstock.server.transport import Transport
from penstock.server.turn_selector import TurnSelector

WAIT_PART: Final = 0.9
"""Part of the time that is left for a handshake in which a shard must take the client: then a reason is sent."""
HANG_UP_S: Final = 1.0
"""Seconds in which a shard may still take a client that has closed its side."""
PEER_ENDED: Final = getattr(select, "EPOLLRDHUP", 0)
NOTHING: Final = memoryview(b"")


class GivingTransport(Transport):
    """Transport of a client that may be given to a shard."""

    __slots__ = ("_selector", "_giving", "_hang_up_timer")

    def __init__(self, event_loop: EventLoop, selector: TurnSelector) -> None:
        super().__init__(event_loop)
        self._selector = selector
        self._giving: asyncio.Task[None] | None = None
        """Task that gives the client to a shard; None if there is none."""
        self._hang_up_timer: asyncio.TimerHandle | None = None

    @override
    def get_buffer(self, sizehint: int) -> memoryview | None:  # type: ignore[override]
        return NOTHING if self._giving is not None else super().get_buffer(sizehint)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_giving()
        super().connection_lost(exc)

    @override
    def close(self) -> None:
        if self._giving is not None:
            self.abort()  # The shard may have the socket: it is closed here only.
        else:
            super().close()

    @override
    def abort(self) -> None:
        self._stop_giving()
        super().abort()

    def _start_giving(self, transport: asyncio.Transport, giving: Coroutine[Any, Any, None]) -> None:
        """Begin to give the client away; output is written, and nothing is read any more."""
        transport.pause_reading()
        self._selector.watch(transport.get_extra_info("socket").fileno(), PEER_ENDED, self._on_hang_up)
        self._giving = self.event_loop.loop.create_task(giving)

    def _stop_giving(self) -> None:
        """End the task that gives the client away, unless the task calls this itself."""
        giving, self._giving = self._giving, None
        if giving is not None:
            self._unwatch()
            if giving is not asyncio.current_task():
                giving.cancel()
        if self._hang_up_timer is not None:
            self._hang_up_timer.cancel()
            self._hang_up_timer = None

    async def _outcome(self, connection: Connection, what: str, given: Awaitable[str]) -> str | None:
        """Return the reason why no shard has taken a client, "" if one has, None if the client has ended or may be
        taken still. `what` is what the client wants.
        """
        handshake_s = connection.limits.start.handshake_s
        left_s = connection.times.opened + handshake_s - self.event_loop.loop.time()
        try:
            async with asyncio.timeout(left_s * WAIT_PART):
                return await given
        except (asyncio.CancelledError, StillPassing):  # Nothing may be written to a socket that a shard may have.
            return None
        except TimeoutError:
            return f"{what} is not served yet; the client has waited for most of {handshake_s} s"
        except (OSError, PenstockError) as error:
            return f"{what} cannot be reached: {error}"
        except Exception:
            log(INTERNAL_ERROR, "a client could not be given to its shard", error=True)
            return f"{what} cannot be reached"

    def _on_hang_up(self, events: int) -> None:
        """Wait for the shard a moment longer: the client has closed its side."""
        self._unwatch()
        if self._giving is not None:
            self._hang_up_timer = self.event_loop.loop.call_later(HANG_UP_S, self._giving.cancel)

    def _unwatch(self) -> None:
        if self._socket is not None:
            self._selector.unwatch(self._socket.get_extra_info("socket").fileno())
