"""Loop of a broker: watchers, turns, and all that any selector loop does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.server import turn_selector
from penstock.server.turn_loop import TurnLoop

pytestmark = pytest.mark.skipif(not turn_selector.HAS_EPOLL, reason="this system has no epoll")
READS = 1


def run(story: Callable[[TurnLoop], Any]) -> Any:
    """Run a coroutine function on a loop of its own."""
    with asyncio.Runner(loop_factory=TurnLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, TurnLoop)
        return runner.run(story(loop))


def test_turn_runs_once_and_after_the_watchers_of_all_readable_sockets() -> None:
    async def story(loop: TurnLoop) -> list[str]:
        happened: list[str] = []
        done = loop.create_future()
        pairs = [socket.socketpair() for _ in range(3)]

        def turn() -> None:
            happened.append("turn")
            done.set_result(None)

        def watch(number: int, near: socket.socket) -> None:
            def read(events: int) -> None:
                near.recv(1)
                if not happened:
                    loop.turn_selector.schedule(turn)
                happened.append(f"read {number}")

            loop.turn_selector.watch(near.fileno(), READS, read)

        for number, (near, far) in enumerate(pairs):
            watch(number, near)
            far.send(b"x")
        await done
        for near, far in pairs:
            loop.turn_selector.unwatch(near.fileno())
            near.close()
            far.close()
        return happened

    happened = run(story)
    assert sorted(happened[:3]) == ["read 0", "read 1", "read 2"]
    assert happened[3:] == ["turn"]


def test_turn_that_schedules_the_next_delays_no_sockets_callbacks_or_timers() -> None:
    async def story(loop: TurnLoop) -> int:
        turns = 0
        near, far = socket.socketpair()
        heard = loop.create_future()

        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.turn_selector.schedule(turn)

        loop.turn_selector.schedule(turn)
        loop.turn_selector.watch(near.fileno(), READS, lambda _: heard.done() or heard.set_result(near.recv(1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        far.send(b"x")
        assert await heard == b"x"
        loop.turn_selector.unwatch(near.fileno())
        near.close()
        far.close()
        return turns

    assert run(story) > 0


def test_loop_wakes_for_calls_that_watchers_and_other_threads_schedule() -> None:
    async def story(loop: TurnLoop) -> list[str]:
        near, far = socket.socketpair()
        called: asyncio.Queue[str] = asyncio.Queue()

        def read(_: int) -> None:
            near.recv(1)
            loop.call_soon(called.put_nowait, "soon")
            loop.call_later(0.001, called.put_nowait, "later")

        loop.turn_selector.watch(near.fileno(), READS, read)
        far.send(b"x")
        found = [await called.get(), await called.get()]
        threading.Thread(target=lambda: loop.call_soon_threadsafe(called.put_nowait, "thread")).start()
        found.append(await called.get())
        loop.turn_selector.unwatch(near.fileno())
        near.close()
        far.close()
        return found

    assert run(story) == ["soon", "later", "thread"]


def test_error_of_a_watcher_or_a_turn_is_reported_and_ends_nothing() -> None:
    async def story(loop: TurnLoop) -> list[str]:
        reported: list[str] = []
        loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        near, far = socket.socketpair()
        after = loop.create_future()

        def read(_: int) -> None:
            near.recv(1)
            loop.turn_selector.schedule(turn)
            loop.turn_selector.schedule(lambda: after.set_result(None))
            raise ValueError("in the watcher")

        def turn() -> None:
            raise ValueError("in the turn")

        loop.turn_selector.watch(near.fileno(), READS, read)
        far.send(b"x")
        await after
        loop.turn_selector.unwatch(near.fileno())
        near.close()
        far.close()
        return reported

    assert run(story) == ["in the watcher", "in the turn"]


def test_turn_loop_runs_streams_and_servers_of_asyncio() -> None:
    async def story(loop: TurnLoop) -> bytes:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read())
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(bytes(1 << 20))
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        server.close()
        return answer

    assert run(story) == bytes(1 << 20)
