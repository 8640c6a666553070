"""Admission of HTTP sockets: separate shares for strangers, users and health checks.

Theory of operation. A socket is a stranger until a request on it has logged in. Strangers have a share of their own and
limited time. When that share is full, the oldest stranger of the host with the most is closed. So half-sent requests
exclude nobody who sends whole ones, and a flooding host displaces only itself. Users have the other sockets. When those
are taken, an idle one is closed for the next; if all are busy the request is answered with 503. A health check needs no
share: it is answered on its own socket, which is closed afterwards if the users' share is full.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

STRANGERS_MOST: Final = 64
"""Most sockets that are not logged in, health checks included."""
USERS_MOST: Final = 192
"""Most sockets that are logged in."""


class Socket(Protocol):
    """State of one socket."""

    host: str
    """Host of the peer, without the port."""

    def is_busy(self) -> bool:
        """Tell whether a request is being answered."""

    def hang_up(self) -> None:
        """Close it at once; `leave` follows."""


class Admission:
    """Sockets of one broker's HTTP API."""

    def __init__(self) -> None:
        self._strangers: dict[Socket, None] = {}
        """Strangers in the order of their arrival."""
        self._users: dict[Socket, None] = {}
        """Users in the order of their last requests."""

    def arrive(self, socket: Socket) -> bool:
        """Add a socket, and close another one if there are too many; return whether one was closed."""
        displaced = len(self._strangers) >= STRANGERS_MOST
        if displaced:
            hosts = Counter(each.host for each in self._strangers)
            host = max(hosts, key=hosts.__getitem__)
            theirs = [each for each in self._strangers if each.host == host]
            # A busy one waits for its turn, or for the answer to a wrong password.
            longest = next((each for each in theirs if not each.is_busy()), theirs[0])
            self.leave(longest)
            longest.hang_up()
        self._strangers[socket] = None
        return displaced

    def log_in(self, socket: Socket) -> bool:
        """Make a socket a user's; return false, and leave it a stranger, if all of those are busy."""
        self._users.pop(socket, None)
        if len(self._users) >= USERS_MOST:
            idle = next((each for each in self._users if not each.is_busy()), None)
            if idle is None:
                return False
            self.leave(idle)
            idle.hang_up()
        self._strangers.pop(socket, None)
        self._users[socket] = None
        return True

    def is_stranger(self, socket: Socket) -> bool:
        """Tell whether a socket is not logged in."""
        return socket in self._strangers

    def leave(self, socket: Socket) -> None:
        """Remove a closed socket."""
        self._strangers.pop(socket, None)
        self._users.pop(socket, None)
