"""Requests to another process of a node: one that hangs, ends, or answers too much, and the bounds of waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.cluster import asking
from penstock.cluster.answers import NoAnswer
from penstock.cluster.asking import OF_USER_MOST, Budget, Peer, Unanswered, error_of
from penstock.errors import HeldTooLong, InternalError, NotFound, ResourceError
from penstock.management.operation import Answer, Operation
from penstock.server.asker import Asker
from penstock.server.http.asks import Asks, error_row
from penstock.server.http.request import ApiRequest
from penstock.server.inside import ASKER_HEADER, KEY_HEADER, Ask, address_of, listening_at
from tests.support.inside_node import GUEST, KEY, new_name, peer_at, serving

ASK = Ask("user.list", {}, "/")
SOME = 5
"""Connections of these tests."""
BRIEF_S = 0.2
"""Silence that these tests wait for."""


class Slow(Asks):
    """A process that answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = 0
        self._changed = asyncio.Condition()

    async def await_asked(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.asked >= count)

    async def answer(self, request: ApiRequest, row: Operation, ask: Ask, asker: Asker) -> Answer:
        async with self._changed:
            self.asked += 1
            self._changed.notify_all()
        await self.go.wait()
        return {"asked": self.asked}


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def served_by(serve: Serve) -> AsyncIterator[Peer]:
    """Return a client of a program that is no broker."""
    name = new_name()
    server = await asyncio.start_unix_server(serve, sock=listening_at(name))
    async with peer_at(name) as peer:
        yield peer
    server.close()


async def test_process_at_work_writes_empty_lines_until_its_answer() -> None:
    slow = Slow()
    async with serving(slow) as (_, name):
        reader, writer = await asyncio.open_unix_connection(address_of(name))
        head = f"POST {ASK.target()} HTTP/1.1\r\nhost: localhost\r\n{KEY_HEADER}: {KEY}\r\n{ASKER_HEADER}: "
        writer.write(f"{head}{GUEST.text()}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
        await reader.readuntil(b"\r\n1\r\n\n\r\n1\r\n\n\r\n")  # Two chunks with one line end each.
        slow.go.set()
        assert b'{"answer":{"asked":1}}' in await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()


async def test_empty_lines_before_an_answer_are_passed_over() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        body = b'\n\n\n{"answer": {"asked": 7}}\n\n'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async with served_by(serve) as peer:
        assert await peer.ask(ASK, GUEST) == {"asked": 7}


async def test_process_that_hangs_counts_as_silent() -> None:
    hanging = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hanging.wait()
        writer.close()

    async with served_by(hang) as peer:
        with pytest.raises(Unanswered, match=r"^it has not answered for 0\.2 s$"):
            await peer.ask(ASK, GUEST, silence_s=BRIEF_S)
        hanging.set()


async def test_process_that_is_not_there_or_ends_is_named_so() -> None:
    async with peer_at(new_name()) as peer:
        with pytest.raises(Unanswered, match="it cannot be asked: Connection refused"):
            await peer.ask(ASK, GUEST)

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.close()

    async with served_by(end) as peer:
        for _ in range(SOME):  # A failure leaves its place to others.
            with pytest.raises(Unanswered, match="it cannot be asked"):
                await peer.ask(ASK, GUEST)


async def test_answer_that_ends_early_is_no_answer() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"answer":')
        writer.close()

    async with served_by(cut) as peer:
        with pytest.raises(Unanswered, match="it cannot be asked: it ended meanwhile"):
            await peer.ask(ASK, GUEST)


async def test_requests_above_the_bounds_are_refused_or_wait_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "WAITING_MOST", 2)
    monkeypatch.setattr(asking, "CONNECTIONS_MOST", SOME)
    slow = Slow()
    async with serving(slow) as (_, name), peer_at(name) as peer:
        first = [asyncio.ensure_future(peer.ask(ASK, GUEST)) for _ in range(SOME)]
        await slow.await_asked(SOME)
        late = asyncio.ensure_future(peer.ask(ASK, GUEST, silence_s=BRIEF_S))
        waiting = asyncio.ensure_future(peer.ask(ASK, GUEST, silence_s=60.0))
        await asyncio.sleep(0)
        with pytest.raises(ResourceError, match="2 requests wait already for one process of the node"):
            await peer.ask(ASK, GUEST)
        with pytest.raises(Unanswered, match=r"its connections for user 'guest' were in use for 0\.2 s"):
            await late
        slow.go.set()
        assert len(await asyncio.gather(*first)) == SOME
        found: Any = await waiting
        assert found["asked"] == SOME + 1


async def test_long_requests_of_one_user_leave_connections_to_others() -> None:
    slow = Slow()
    async with serving(slow) as (_, name), peer_at(name) as peer:
        first = [asyncio.ensure_future(peer.ask(ASK, GUEST)) for _ in range(OF_USER_MOST)]
        await slow.await_asked(OF_USER_MOST)
        waiting = asyncio.ensure_future(peer.ask(ASK, GUEST, silence_s=60.0))
        other = asyncio.ensure_future(peer.ask(ASK, Asker(user="ada")))
        await slow.await_asked(OF_USER_MOST + 1)
        assert not waiting.done()
        slow.go.set()
        await asyncio.gather(*first, other, waiting)
    assert slow.asked == OF_USER_MOST + 2


async def test_cancelled_request_leaves_its_place() -> None:
    slow = Slow()
    async with serving(slow) as (_, name), peer_at(name) as peer:
        for count in range(SOME):
            asked = asyncio.ensure_future(peer.ask(ASK, GUEST))
            await slow.await_asked(count + 1)
            asked.cancel()
            await asyncio.wait((asked,))
        slow.go.set()
        found: Any = await peer.ask(ASK, GUEST)
        assert found["asked"] == SOME + 1


class Small(Budget):
    """Room for some bytes."""

    def __init__(self) -> None:
        self.left = 1000

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ResourceError("no room")


async def test_answer_above_the_room_of_its_asker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as (_, name), peer_at(name) as peer:
        catalogue = Ask("GET /penstock/settings/catalogue", {}, "")
        with pytest.raises(ResourceError, match="no room"):
            await peer.ask(catalogue, GUEST, Small())
        monkeypatch.setattr(asking, "ANSWER_MOST", 1000)
        with pytest.raises(ResourceError, match="the answer has more than 1,000 bytes: ask for a page"):
            await peer.ask(catalogue, GUEST)
        monkeypatch.undo()
        assert await peer.ask(catalogue, GUEST)


def test_error_is_of_the_same_class_in_both_processes() -> None:
    for error in (NotFound("no queue 'q'"), HeldTooLong("held for 1 s")):
        found = error_of(error_row(error))
        assert type(found) is type(error)
        assert str(found) == str(error)
    silent = error_of(error_row(NoAnswer("shard '2' has not answered")))
    assert type(silent) is ResourceError
    assert type(error_of({"kind": "Codes", "text": "x"})) is InternalError
