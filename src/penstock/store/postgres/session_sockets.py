"""Sockets of a store's sessions, so that another thread can end every wait for an unresponsive server.

A libpq connection belongs to one thread. If another thread closes it, the owner may continue with a descriptor that
already belongs to another file, and the process crashes sooner or later. So other threads never touch libpq. Each
session registers a duplicate descriptor of its socket here. `shutdown` on the duplicate makes the owner's wait fail,
and the owner closes its connection itself. The duplicate is closed with the session, so it never refers to another
socket.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading


class SessionSockets:
    """Sockets of one store's sessions. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.are_cut = False
        """True if all sessions are shut down and no new one may be made."""

    def add(self, descriptor: int) -> socket.socket:
        """Register a session's socket by its descriptor; shut it down at once after `shutdown_all`. Raises OSError."""
        line = socket.socket(fileno=os.dup(descriptor))
        with self._lock:
            self._open.add(line)
            if self.are_cut:
                _cut(line)
        return line

    def remove(self, line: socket.socket) -> None:
        """Remove a closed session."""
        with self._lock:
            self._open.discard(line)
            line.close()

    def shutdown_all(self) -> None:
        """Shut all sessions down for good: every thread that waits for the server gets an error."""
        with self._lock:
            self.are_cut = True
            for line in self._open:
                _cut(line)


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # The server has closed the connection before.
        line.shutdown(socket.SHUT_RDWR)
