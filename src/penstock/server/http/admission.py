"""Which sockets of the HTTP API stay open: shares for strangers, for users and for health checks.

Theory of operation. A socket is a stranger until a request on it has logged in. Strangers have a share of their own
and a bounded time. Where that share is full the one that has waited longest is closed, of the host with the most of
them: so half-sent requests cannot shut anybody out who sends a whole one, and a host that floods displaces itself.
Users have the other sockets. Where those are taken an idle one is closed for the next, and if all are busy the request
is answered with 503. A health check needs none of them: it is answered on the socket on which it came, which is closed
after that where the users' share is full.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

STRANGERS_MOST: Final = 64
"""Sockets that have not logged in, of health checks as well."""
USERS_MOST: Final = 192
"""Sockets that have."""


class Socket(Protocol):
    """What is known of a socket here."""

    host: str
    """Who is at the other end, without the port."""

    def is_busy(self) -> bool:
        """Tell whether a request is being answered."""

    def hang_up(self) -> None:
        """Close it at once; `leave` follows."""


class Admission:
    """The sockets of one broker's HTTP API."""

    def __init__(self) -> None:
        self._strangers: dict[Socket, None] = {}
        """In the order in which they came."""
        self._users: dict[Socket, None] = {}
        """In the order of their last requests."""

    def arrive(self, socket: Socket) -> bool:
        """Take a socket, in the place of another one where there are too many; returns whether one was closed."""
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
        """Make a socket a user's; returns false where all of those are busy, and leaves it a stranger then."""
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
        """Tell whether nobody has logged in on a socket."""
        return socket in self._strangers

    def leave(self, socket: Socket) -> None:
        """Forget a socket that is closed."""
        self._strangers.pop(socket, None)
        self._users.pop(socket, None)
