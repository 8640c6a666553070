"""Requests of one process of a node to another: an operation, for a user, over HTTP/1.1 at a Unix socket.

The other process writes an empty line now and then while it works, so that silence means that it hangs. An answer is
read line by line, as it comes: each line is short, so that the event loop is never busy with one for long.

Bounds of one peer: `CONNECTIONS_MOST` connections, `OF_USER_MOST` for one user. Further requests wait in order,
`WAITING_MOST` at most and for `SILENCE_S`. The bytes of an answer are bounded, and by the room that the caller gives.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any, Final

import h11

from penstock import errors
from penstock.describe.table import Row
from penstock.errors import AccessRefused, BrokerError, InternalError, PenstockError, PreconditionFailed, ResourceError
from penstock.management.operation import Answer
from penstock.server.asker import Asker
from penstock.server.inside import ASKER_HEADER, KEY_HEADER, SILENCE_S, Ask, connected

CONNECTIONS_MOST: Final = 64
"""Most connections to one process."""
OF_USER_MOST: Final = 16
"""Most connections to one process for one user, whose long jobs and lists leave the others to other users."""
IDLE_MOST: Final = 4
"""Most unused connections to one process that stay open."""
WAITING_MOST: Final = 256
"""Most requests that wait for a connection to one process."""
IDLE_S: Final = 10.0
"""Seconds after which an unused connection is not used again: the other end closes it after 15 s."""
READ_OCTETS: Final = 64 * 1024
"""Most bytes of one read."""
LINE_MOST: Final = 16 * 1024 * 1024
"""Longest line of an answer: 50 rows."""
ANSWER_MOST: Final = 32 * 1024 * 1024
"""Most bytes of one answer."""


REFUSALS: Final[dict[int, type[BrokerError]]] = {400: PreconditionFailed, 401: AccessRefused}
"""Errors for statuses; other ones are of bounds, and may be over soon."""


class TooLong(ResourceError):
    """An answer that this process cannot hold; the other one has answered well."""


class Unanswered(PenstockError):
    """A process that has not answered; the text says why, and begins with no name."""


class Budget:
    """Bytes that an answer takes of somebody's room; this one has no bound but that of each answer."""

    def take(self, size: int) -> None:
        """Take bytes of an answer that arrives. Raises BrokerError without room."""


class _Link:
    """One connection to the other process, used by one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.http = h11.Connection(h11.CLIENT)
        self.used_at = 0.0

    def is_usable(self, now: float) -> bool:
        """Return whether the other end has not closed the connection, and does not close it soon."""
        return not self.reader.at_eof() and not self.writer.is_closing() and now - self.used_at < IDLE_S

    def close(self) -> None:
        """Close the connection."""
        self.writer.close()


class _Turn:
    """Request that waits for a connection."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.come: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Peer:
    """Another process of the node."""

    def __init__(self, address: str, key: str, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._address = address
        self._key = key
        self._idle: list[_Link] = []
        self._open = 0
        self._users: dict[str, int] = {}
        """Connections in use by user."""
        self._waiting: deque[_Turn] = deque()
        self._closed = False

    def close(self) -> None:
        """Close all unused connections; used ones are closed after their answers."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def ask(self, ask: Ask, asker: Asker, budget: Budget | None = None, silence_s: float = 0.0) -> Answer:
        """Return the answer to a request. Raises Unanswered; BrokerError as the other process has raised it.

        `silence_s` is the longest silence; 0 for that of the peer.
        """
        silence_s = silence_s or self._silence_s
        body = ask.body or json.dumps(ask.fields).encode()
        headers = [
            ("host", "localhost"), ("content-type", "application/json"), ("content-length", str(len(body))),
            (KEY_HEADER, self._key), (ASKER_HEADER, asker.text()),
        ]  # fmt: skip
        await self._enter(asker.user, silence_s)
        link: _Link | None = None
        try:
            link = await self._link(silence_s)
            link.writer.write(_sent(link.http, h11.Request(method="POST", target=ask.target(), headers=headers), body))
            async with asyncio.timeout(silence_s):
                await link.writer.drain()
            answer = await _read(link, budget or Budget(), silence_s)
            if link.http.our_state is h11.DONE and link.http.their_state is h11.DONE and not self._closed:
                link.http.start_next_cycle()
                link.used_at = asyncio.get_running_loop().time()
                if len(self._idle) < IDLE_MOST:
                    self._idle.append(link)
                    link = None
            return answer
        except TimeoutError:
            raise Unanswered(f"it has not answered for {silence_s:g} s") from None
        except (OSError, EOFError, h11.ProtocolError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it ended meanwhile"
            raise Unanswered(f"it cannot be asked: {reason}") from None
        finally:
            if link is not None:
                link.close()
            self._leave(asker.user)

    async def _enter(self, user: str, silence_s: float) -> None:
        """Wait for a place among the connections. Raises Unanswered, ResourceError (506)."""
        if self._has_place(user):
            self._take_place(user)
            return
        if len(self._waiting) >= WAITING_MOST:
            raise ResourceError(f"{WAITING_MOST} requests wait already for one process of the node; ask again later")
        turn = _Turn(user)
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(silence_s):
                await turn.come
        except BaseException as error:
            if turn.come.done() and not turn.come.cancelled():
                self._leave(user)  # The place came at the same moment.
            else:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise Unanswered(f"its connections for user '{user}' were in use for {silence_s:g} s") from None
            raise

    def _has_place(self, user: str) -> bool:
        return self._open < CONNECTIONS_MOST and self._users.get(user, 0) < OF_USER_MOST

    def _take_place(self, user: str) -> None:
        self._open += 1
        self._users[user] = self._users.get(user, 0) + 1

    def _leave(self, user: str) -> None:
        """Give a place to the request that has waited for the longest, of a user who may have another."""
        self._open -= 1
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]
        for turn in self._waiting:
            if not turn.come.done() and self._has_place(turn.user):
                self._take_place(turn.user)
                self._waiting.remove(turn)
                turn.come.set_result(None)
                return

    async def _link(self, silence_s: float) -> _Link:
        now = asyncio.get_running_loop().time()
        while self._idle:
            link = self._idle.pop()
            if link.is_usable(now):
                return link
            link.close()
        async with asyncio.timeout(silence_s):
            return _Link(*await connected(self._address, READ_OCTETS))


def _sent(http: h11.Connection, request: h11.Request, body: bytes) -> bytes:
    parts = [http.send(request), http.send(h11.Data(data=body)), http.send(h11.EndOfMessage())]
    return b"".join([each for each in parts if each])


async def _read(link: _Link, budget: Budget, silence_s: float) -> Answer:
    """Read the answer as it comes. Raises TimeoutError, EOFError, BrokerError, h11.ProtocolError."""
    status = 0
    lines = _Lines(budget)
    while True:
        event: Any = link.http.next_event()
        if event is h11.NEED_DATA:
            async with asyncio.timeout(silence_s):
                data = await link.reader.read(READ_OCTETS)
            link.http.receive_data(data)
            if not data and link.http.their_state is not h11.DONE:
                raise EOFError
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            lines.add(bytes(event.data))
            await asyncio.sleep(0)
        elif isinstance(event, h11.EndOfMessage):
            break
        elif isinstance(event, h11.ConnectionClosed):
            raise EOFError
    if status != 200:
        refusal = REFUSALS.get(status, ResourceError)
        raise refusal(f"another process of the node has refused the request: {lines.text()}")
    return lines.answer()


class _Lines:
    """Lines of an answer, put together."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0
        self._rest = b""
        self._lists: dict[str, list[Row]] = {}
        self._last: Row | None = None

    def add(self, data: bytes) -> None:
        """Take bytes. Raises TooLong (506) above a bound, or without room in the budget."""
        self._size += len(data)
        if self._size > ANSWER_MOST:
            raise TooLong(f"the answer has more than {ANSWER_MOST:,} bytes: ask for a page of it, or for fewer columns")
        try:
            self._budget.take(len(data))
        except BrokerError as error:
            raise TooLong(str(error)) from None
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LINE_MOST:
            raise TooLong(f"a row of the answer has more than {LINE_MOST:,} bytes")
        for each in whole:
            if each:
                self._take(json.loads(each))

    def _take(self, row: Row) -> None:
        rows = row.get("rows")
        if isinstance(rows, list):
            self._lists.setdefault(str(row["at"]), []).extend(rows)
        else:
            self._last = row

    def text(self) -> str:
        """Return a refusal in words."""
        try:
            return str(json.loads(self._rest)["reason"])
        except (ValueError, KeyError, TypeError):
            return "without a reason"

    def answer(self) -> Answer:
        """Return the answer. Raises the error that the other process has answered, EOFError without an answer."""
        last = self._last
        if last is None:
            raise EOFError
        error = last.get("error")
        if isinstance(error, dict):
            raise error_of(error)
        answer: Any = last["answer"]
        if "" in self._lists:
            return [*self._lists[""]]
        if isinstance(answer, dict):
            answer.update(self._lists)
        found: Answer = answer
        return found


def error_of(row: Row) -> BrokerError:
    """Return the error that another process has answered."""
    kind = getattr(errors, str(row.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, BrokerError):
        return kind(str(row.get("text")))
    return InternalError(str(row.get("text")))
