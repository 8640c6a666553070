"""Messages to the service manager (sd_notify(3)): ready, reloading, stopping, status, and the watchdog.

systemd names a datagram socket in `NOTIFY_SOCKET`. Without that variable nothing is sent. A message that the socket
does not accept at once is dropped: the next message follows within seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from penstock.connections.connection import Connection

INTERVAL_S: Final = 5.0
"""Seconds between two checks of the status, and at most half of the watchdog's time."""
EXTENSION_S: Final = 60
"""Seconds that the start may take longer, counted from each message before the broker is ready."""


class ServiceManager:
    """Connection to the service manager of this process."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        """Read `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`; an invalid value counts as missing."""
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        """Path of the socket; an abstract one begins with a zero byte. Empty without a service manager."""
        self._socket: socket.socket | None = None
        if name.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        given = environment.get("WATCHDOG_USEC", "")
        ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        self.watchdog_s: float | None = int(given) / 1e6 if ours and given.isdecimal() and int(given) > 0 else None
        """Seconds within which the manager expects a keep-alive message; None without a watchdog."""
        self.is_ready = False
        self._status = ""

    @property
    def interval_s(self) -> float:
        """Seconds between two messages: at most half of the watchdog's time."""
        return INTERVAL_S if self.watchdog_s is None else min(INTERVAL_S, self.watchdog_s / 2)

    def notify(self, *lines: str) -> bool:
        """Send a message of these assignments; return whether it was sent."""
        if self._socket is None:
            return False
        try:
            self._socket.sendto("\n".join(lines).encode(), self._address)
        except OSError:  # The manager has ended, or its queue is full.
            return False
        return True

    def ready(self) -> None:
        """Notify that the start or a reload is complete."""
        self.is_ready = True
        self.notify("READY=1")

    def reloading(self) -> None:
        """Notify that a reload begins; `ready` follows. The time distinguishes it from an earlier reload."""
        self.notify("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Notify that the stop begins."""
        self.notify("STOPPING=1", "STATUS=stopping")

    def tell(self, status: str) -> None:
        """Send the status if it has changed, a keep-alive message, and until `ready` a request for more time."""
        lines = [] if status == self._status else [f"STATUS={status}"]
        if self.watchdog_s is not None:
            lines.append("WATCHDOG=1")
        if not self.is_ready:
            lines.append(f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1_000_000}")
        if lines and self.notify(*lines):
            self._status = status

    async def watch(self, status: Callable[[], str]) -> None:
        """Send the status until cancelled. A blocked event loop sends no keep-alive messages."""
        while True:
            self.tell(status() if self.is_ready else "opening the store")
            await asyncio.sleep(self.interval_s)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None


def status_of(connections: Iterable[Connection]) -> str:
    """Return a line about a broker for `systemctl status`: the numbers of connections and of blocked connections."""
    blocks = [connection.reported_blocks for connection in connections]
    return f"{len(blocks):,} connections, {sum(1 for each in blocks if each > 0):,} blocked"
