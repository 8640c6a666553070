"""Loop of a broker: watchers, turns, and all that any selector loop does."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.server import turn_loop
from penstock.server.turn_loop import TurnLoop, TurnSelector

pytestmark = pytest.mark.skipif(not turn_loop.HAS_EPOLL, reason="this system has no epoll")
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


def test_pause_brings_input_of_others_into_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_loop, "BUSY", 0.0)
    monkeypatch.setattr(turn_loop, "WINDOW_S", 0.0)
    monkeypatch.setattr(turn_loop, "PAUSES_A_WINDOW", 0)
    happened: list[str] = []
    selector = TurnSelector()
    selector.set_latency_target(0.001)
    pairs = [socket.socketpair() for _ in range(2)]

    def turn() -> None:
        happened.append("turn")
        selector.interrupt()

    def watch(number: int, near: socket.socket) -> None:
        def read(events: int) -> None:
            near.recv(1)
            if number == 0:
                selector.schedule(turn)
            happened.append(f"read {number}")

        selector.watch(near.fileno(), READS, read)

    def pause(seconds: float) -> None:
        happened.append(f"pause of {seconds}")
        pairs[1][1].send(b"x")

    for number, (near, _) in enumerate(pairs):
        watch(number, near)
    monkeypatch.setattr(turn_loop.time, "sleep", pause)
    selector.select(0.0005)
    assert not happened, "no pause where a timer is due before its end"
    selector.schedule(turn)
    pairs[0][1].send(b"x")
    selector.select(1.0)
    assert happened == ["read 0", "turn", "turn"], "none where a turn waits"
    happened.clear()
    pairs[0][1].send(b"x")
    selector.select(1.0)
    assert happened[0] == "pause of 0.001"
    assert sorted(happened[1:3]) == ["read 0", "read 1"]
    assert happened[3:] == ["turn"]
    selector.close()
    for pair in pairs:
        for each in pair:
            each.close()


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


def test_streams_and_servers_of_asyncio_work_on_it() -> None:
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


def test_selector_answers_as_those_of_the_library() -> None:
    selector = TurnSelector()
    near, far = socket.socketpair()
    key = selector.register(near, selectors.EVENT_READ, "data")
    assert selector.get_key(near) == selector.get_map()[near.fileno()] == selector.get_map()[near] == key
    assert (list(selector.get_map()), selector.get_map().get(far)) == ([near.fileno()], None)
    assert selector.select(0) == []
    far.send(b"x")
    assert selector.select() == [(key, selectors.EVENT_READ)]
    changed = selector.modify(near, selectors.EVENT_READ | selectors.EVENT_WRITE, "more")
    assert selector.select(1) == [(changed, selectors.EVENT_READ | selectors.EVENT_WRITE)]
    with pytest.raises(KeyError):
        selector.register(near, selectors.EVENT_READ)
    near.close()
    assert selector.unregister(near) == changed
    with pytest.raises(KeyError):
        selector.get_key(near)
    far.close()
    selector.close()
