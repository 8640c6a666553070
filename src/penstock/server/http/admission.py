"""Bounds of HTTP requests: shares of sockets, debts of work, and jobs in steps.

Theory of operation. A socket is a stranger until a request on it has logged in. Strangers have a share of their own and
limited time. When that share is full, the oldest stranger of the host with the most strangers is closed. So incomplete
requests do not exclude complete requests, and a flooding host displaces only itself. Users share a pool of the other
sockets. At the bound an idle socket of the user with the most sockets is closed for the next user; if all sockets are
busy, the request is answered with 503. A health check needs no share: the answer is written to its own socket, which is
closed afterwards if the pool is full.
"""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import Awaitable, Generator
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from starlette.types import Scope

from penstock.connections.peer import is_loopback, network_of
from penstock.driver.entry_times import HTTP, Debt, EntryTimes
from penstock.errors import BrokerError
from penstock.flow.pool import PoolHolder, Pools
from penstock.flow.work import Steps
from penstock.management.jobs import Job
from penstock.server.event_loop import EventLoop
from penstock.server.turn_loop import COMPILED_UNIT_S
from penstock.settings.pools import HTTP_SOCKETS

STRANGERS_MOST: Final = 64
"""Most sockets that are not logged in, health checks included."""
INSIDE_MOST: Final = 512
"""The same of sockets inside a node: more than the node permits its own clients and strangers together."""


class Socket(Protocol):
    """State of one socket."""

    host: str
    """Host of the peer, without the port."""

    def is_busy(self) -> bool:
        """Return whether a request is being answered."""

    def hang_up(self) -> None:
        """Close the socket at once; `leave` follows."""


class Admission:
    """Sockets of one broker's HTTP API."""

    def __init__(self, pools: Pools, strangers_most: int = STRANGERS_MOST) -> None:
        self._pool = pools.of(HTTP_SOCKETS)
        self._strangers_most = strangers_most
        self._strangers: dict[Socket, None] = {}
        """Strangers in the order of their arrival."""
        self._users: dict[Socket, PoolHolder] = {}
        """Users in the order of their last requests."""

    def arrive(self, socket: Socket) -> bool:
        """Add a socket, and close another socket beyond the bound; return whether another socket was closed."""
        displaced = len(self._strangers) >= self._strangers_most
        if displaced:
            hosts = Counter(each.host for each in self._strangers)
            host = max(hosts, key=hosts.__getitem__)
            theirs = [each for each in self._strangers if each.host == host]
            # A busy socket waits for its turn, or for the answer to a wrong password.
            longest = next((each for each in theirs if not each.is_busy()), theirs[0])
            self.leave(longest)
            longest.hang_up()
        self._strangers[socket] = None
        return displaced

    def log_in(self, socket: Socket, holder: PoolHolder) -> bool:
        """Assign a socket to a user; return false, and leave the socket a stranger, if the user's share is full."""
        self._leave_users(socket)
        while not self._pool.fits(holder, 1):
            idle = self._idle_one(holder)
            if idle is None:
                return False
            self.leave(idle)
            idle.hang_up()
        self._strangers.pop(socket, None)
        self._pool.add(holder, 1)
        self._users[socket] = holder
        return True

    def refusal(self, holder: PoolHolder) -> str:
        """Return the reason why a user gets no further socket."""
        return self._pool.refusal(holder, 1)

    def _idle_one(self, holder: PoolHolder) -> Socket | None:
        """Return the socket to close for another: the longest idle socket of the user with the most sockets."""
        most: Socket | None = None
        for socket, owner in self._users.items():
            if not socket.is_busy():
                if most is None or self._pool.of_user(owner.user) > self._pool.of_user(self._users[most].user):
                    most = socket
        if most is None or self._pool.of_user(self._users[most].user) < self._pool.of_user(holder.user):
            return None
        return most

    def is_stranger(self, socket: Socket) -> bool:
        """Return whether a socket is not logged in."""
        return socket in self._strangers

    def leave(self, socket: Socket) -> None:
        """Remove a closed socket."""
        self._strangers.pop(socket, None)
        self._leave_users(socket)

    def _leave_users(self, socket: Socket) -> None:
        holder = self._users.pop(socket, None)
        if holder is not None:
            self._pool.give(holder, 1)


DEBTORS_MOST: Final = 1000
"""Most users and addresses with debts; the oldest debt is forgotten."""


def stranger_at(host: str) -> str:
    """Return the payer for requests of strangers from a host: no user has this name."""
    return f"\0{network_of(host, is_loopback(host))}"


class HttpDebts:
    """Debts of all users of the HTTP API, and of the addresses of strangers."""

    def __init__(self, entries: EntryTimes) -> None:
        self._entries = entries
        self._debts: dict[str, Debt] = {}
        self._until: dict[str, float] = {}
        """End of the rest of each payer, in monotonic seconds."""

    def rest_s(self, payer: str) -> float:
        """Return the seconds for which a payer must still rest; usually 0.0."""
        return max(self._until.get(payer, 0.0) - monotonic(), 0.0)

    async def rest(self, user: str) -> bool:
        """Wait until the pause imposed on a user has ended. Return whether the user had to pause: usually not."""
        rest_s = self.rest_s(user)
        if rest_s <= 0.0:
            return False
        await asyncio.sleep(rest_s)
        return True

    @types.coroutine
    def timed(self, scope: Scope, request: Awaitable[None]) -> Generator[Any, Any, None]:
        """Carry out a request, and measure its steps."""
        steps = request.__await__()
        error: BaseException | None = None
        while True:
            self.begin()
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration:
                return
            finally:
                error = None  # The traceback of a raised error refers to this frame.
                self._end(scope)
            try:
                yield step
            except BaseException as raised:  # The waiting request raises the error.
                error = raised
            finally:
                del step  # The future's error refers to this frame.

    def _end(self, scope: Scope) -> None:
        """End a step; if the step took too long, charge its user, or before the login its address."""
        state = scope.get("state", {})
        user = state.get("payer", "")
        name = f"http {user or 'before its login'} {scope.get('method')} {scope.get('path')}"
        self.end(user or state.get("stranger", ""), name)

    def begin(self) -> None:
        """Begin an entry of the event loop for HTTP."""
        self._entries.begin(monotonic())

    def end(self, payer: str, name: str) -> None:
        """End an entry; charge a payer ("": no payer) if the entry took too long."""
        owed = self._entries.end(HTTP, name)
        if owed and payer:
            self._owe(payer, owed)

    def charge(self, payer: str, units: int) -> None:
        """Charge a payer for work outside of entries, done by a library that is always compiled."""
        self._owe(payer, units * COMPILED_UNIT_S)

    def _owe(self, payer: str, seconds: float) -> None:
        if payer not in self._debts and len(self._debts) >= DEBTORS_MOST:
            oldest = next(iter(self._debts))
            del self._debts[oldest], self._until[oldest]
        now = monotonic()
        self._until[payer] = now + self._debts.setdefault(payer, Debt()).add(seconds, now)


Told = TypeVar("Told")


def result_of(
    event_loop: EventLoop, steps: Steps[Told], changes: bool = False, job: Job | None = None
) -> asyncio.Future[Told]:
    """Start work in steps; return a future for its result or error.

    A change runs after other changes, and a job beside them; both complete even if the client has disconnected. All
    other work only reads, and runs beside the broker's other work.
    """
    known: asyncio.Future[Told] = event_loop.loop.create_future()
    work = _known_by(steps, known)
    if job is not None:
        event_loop.driver.start_job(job, work)
    elif changes:
        event_loop.driver.start(work)
    else:
        event_loop.driver.start_asking(work, onlooker=True)
    event_loop.driver.begin(event_loop.loop.time())
    event_loop.schedule()
    return known


def _known_by(steps: Steps[Told], known: asyncio.Future[Told]) -> Steps[None]:
    """Run steps and set their result or error on a future, which may be cancelled by then."""
    try:
        result = yield from steps
    except Exception as error:
        if not known.done():
            known.set_exception(error)
        elif not isinstance(error, BrokerError):
            raise
    else:
        if not known.done():
            known.set_result(result)
    finally:
        del known  # The future's error refers to this frame.
