"""Pauses before polls: kept where they save processor time, given up where they cost messages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from penstock.server.pacer import BUSY, KEPT_WINDOWS, REST_MAX, WINDOW_S, Pacer

WAKE_UP_S = 20e-6
MESSAGE_S = 3e-6
OCTETS = 100
"""Cost and size of what the simulated loops handle."""


@dataclass
class Loop:
    """A loop in simulated time: it polls, and handles what has come."""

    target_s: float
    now: float = 0.0
    busy: float = 0.0
    octets: int = 0
    polls: int = 0
    paused_s: float = 0.0

    def __post_init__(self) -> None:
        self.pacer = Pacer(self.target_s, lambda: self.busy)

    def poll(self, waits_until: float) -> None:
        """Pause as the pacer says, then wait for the next message."""
        self.polls += 1
        pause = self.pacer.pause_s(self.now)
        self.paused_s += pause
        self.now = max(self.now + pause, waits_until)

    def handle(self, messages: int) -> None:
        """Spend the cost of a wake-up with some messages."""
        cost = WAKE_UP_S + messages * MESSAGE_S
        self.now += cost
        self.busy += cost
        self.octets += messages * OCTETS
        self.pacer.received(messages * OCTETS)


def open_load(loop: Loop, rate: float, seconds: float) -> None:
    """Send messages at a rate, whatever becomes of them."""
    until, handled = loop.now + seconds, int(loop.now * rate)
    while loop.now < until:
        loop.poll((handled + 1) / rate)
        due = int(loop.now * rate + 1e-6)
        loop.handle(due - handled)
        handled = due


def requests(loop: Loop, seconds: float) -> int:
    """Send a request when the answer to the last one has come; return their number."""
    until, count = loop.now + seconds, 0
    while loop.now < until:
        loop.poll(loop.now + 30e-6)
        loop.handle(1)
        count += 1
    return count


def test_pauses_serve_an_open_load_with_fewer_polls_and_less_time() -> None:
    plain, paced = Loop(0.0), Loop(0.001)
    open_load(plain, 10_000, 2.0)
    open_load(paced, 10_000, 2.0)
    assert paced.octets == pytest.approx(plain.octets, rel=0.01)
    assert paced.polls < plain.polls / 4
    assert paced.busy < plain.busy / 3


def test_pauses_cost_a_client_that_awaits_replies_next_to_nothing() -> None:
    assert requests(Loop(0.001), 10.0) > 0.97 * requests(Loop(0.0), 10.0)


def test_load_of_few_messages_has_no_pauses() -> None:
    loop = Loop(0.001)
    open_load(loop, BUSY * 0.9, 2.0)
    assert loop.paused_s == 0.0


def test_pauses_end_within_a_second_when_the_open_load_becomes_one_of_requests() -> None:
    loop = Loop(0.001)
    open_load(loop, 10_000, 2.0)
    paused = loop.paused_s
    requests(loop, 1.0)
    assert loop.paused_s - paused < KEPT_WINDOWS * WINDOW_S
    assert requests(loop, 10.0) > 0.95 * requests(Loop(0.0), 10.0)


def test_pauses_end_when_the_load_does() -> None:
    loop = Loop(0.001)
    open_load(loop, 10_000, 2.0)
    paused = loop.paused_s
    open_load(loop, 100, 10.0)
    assert loop.paused_s - paused <= 2 * WINDOW_S, "one window tells that less comes"


def test_pauses_without_gain_are_tried_rarely() -> None:
    loop = Loop(0.001)
    requests(loop, 20.0)
    windows = loop.now / WINDOW_S
    assert loop.paused_s < 0.05 * loop.now
    assert windows > 4 * REST_MAX, "long enough for the longest rest"


def test_clock_that_jumps_back_ends_no_pause_and_makes_none_longer() -> None:
    loop = Loop(0.001)
    open_load(loop, 10_000, 1.0)
    loop.now -= 0.5
    for _ in range(100):
        assert 0.0 <= loop.pacer.pause_s(loop.now) <= 0.001
