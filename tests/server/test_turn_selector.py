"""Selector of the loop: pauses before a poll, and descriptors of asyncio."""

from __future__ import annotations

import selectors
import socket

import pytest

from penstock.server import pacer, turn_selector
from penstock.server.turn_selector import TurnSelector

pytestmark = pytest.mark.skipif(not turn_selector.HAS_EPOLL, reason="this system has no epoll")
READS = 1


def test_pause_brings_input_of_other_clients_into_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "BUSY", 0.0)
    monkeypatch.setattr(pacer, "WINDOW_S", 0.0)
    monkeypatch.setattr(pacer, "PAUSES_A_WINDOW", 0)
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
    monkeypatch.setattr(turn_selector.time, "sleep", pause)
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


def test_selector_answers_as_the_library() -> None:
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
