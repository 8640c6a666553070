"""The files that a publish passes off the fast path, from the frame to the queue and its gate, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish

MOST = 25
"""Files that one path passes at most; they were 37."""
PACKAGE = "/penstock/"


def files_entered(call: Callable[[], object]) -> set[str]:
    """Return the source files of the functions that a call enters; none of compiled ones."""
    found: set[str] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and PACKAGE in frame.f_code.co_filename:
            found.add(frame.f_code.co_filename.rpartition(PACKAGE)[2])

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def dialogue_with(messages: int) -> Dialogue:
    """Return a connection in confirm mode, and a queue that stops at two messages and is full with four."""
    client = Dialogue(make_driver())
    arguments: dict[str, object] = {"capacity-messages": 4, "stop-messages": 2, "resume-messages": 1}
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments=arguments))
    client.say(method_frame(1, spec.CONFIRM_SELECT))
    for _ in range(messages):
        client.say(publish("q", b"x"))
    return client


def test_publish_that_closes_a_gate_passes_few_files() -> None:
    client = dialogue_with(2)
    frames = publish("q", b"x")
    files = files_entered(lambda: client.connection.receive(frames))
    assert not client.driver.broker.vhosts["/"].queues["q"].gate.open
    assert len(files) <= MOST, sorted(files)


def test_held_publish_passes_few_files() -> None:
    client = dialogue_with(4)
    frames = publish("q", b"x")
    files = files_entered(lambda: client.connection.receive(frames))
    assert len(client.driver.broker.vhosts["/"].queues["q"].gate.waiters) == 1
    assert len(files) <= MOST, sorted(files)


def test_held_publish_that_gets_its_turn_passes_few_files() -> None:
    client = dialogue_with(4)
    client.say(publish("q", b"x"))
    queue = client.driver.broker.vhosts["/"].queues["q"]
    for _ in range(3):
        client.connection.receive(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
    assert len(queue.gate.waiters) == 1
    files = files_entered(lambda: client.driver.broker.run(1))
    assert len(queue.gate.waiters) == 0
    assert len(files) <= MOST, sorted(files)
