"""What a store's sessions run over, so that another thread can end every wait for a server that does not answer.

libpq's connection is one thread's: to close it while that thread waits in it leaves it with a descriptor that may be
somebody else's by then, and ends the process sooner or later. So nothing of libpq is touched from outside. Each session
has a second descriptor of its socket here; who shuts the socket down by that one has the waiting thread hear that the
connection is lost, and the thread closes it itself. The second descriptor is closed with the session and never used
again, so it cannot come to mean another socket in between.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading


class SessionSockets:
    """Those of one store. Any thread may call anything."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.are_cut = False
        """Whether no session of the store may go on, nor be made."""

    def add(self, descriptor: int) -> socket.socket:
        """Take note of a session's socket by its descriptor; cut it at once if they are. Raises OSError."""
        line = socket.socket(fileno=os.dup(descriptor))
        with self._lock:
            self._open.add(line)
            if self.are_cut:
                _cut(line)
        return line

    def remove(self, line: socket.socket) -> None:
        """Forget a session that is closed."""
        with self._lock:
            self._open.discard(line)
            line.close()

    def shutdown_all(self) -> None:
        """End all sessions, for good: whoever waits for the server in one is told that it is lost."""
        with self._lock:
            self.are_cut = True
            for line in self._open:
                _cut(line)


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # The server has done so before us.
        line.shutdown(socket.SHUT_RDWR)
