"""System calls of the loop for a message: one poll and one read for what a client sends, one write for each answer."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from types import FrameType

import pytest

import penstock
from penstock import sync
from penstock.server import turn_selector
from penstock.server.turn_loop import TurnLoop

pytestmark = pytest.mark.skipif(not turn_selector.HAS_EPOLL, reason="this system has no epoll")
MESSAGES = 200
CALLS = ("poll", "recv_into", "send", "register", "modify", "unregister", "recv", "accept", "sleep")


class CountedBroker:
    """A broker on a loop in a thread of its own, whose system calls are counted by name."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.address = ("", 0)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> CountedBroker:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=TurnLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with penstock.Broker("127.0.0.1:0") as broker:
            self.address = broker.addresses[0]
            sys.setprofile(self._count)
            self._ready.set()
            await self._stopped.wait()
            sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, called: object) -> None:
        if event == "c_call":
            name = getattr(called, "__name__", "")
            if name in CALLS:
                self.calls[name] += 1


def calls_for_messages(protocol: str) -> Counter[str]:
    """Return the calls for messages that are sent one by one, received and acknowledged on another connection."""
    with CountedBroker() as broker:
        url = "amqp://guest:guest@{}:{}/?protocol={}".format(*broker.address, protocol)
        with sync.connect(url) as near, sync.connect(url) as far:
            near.declare_queue("calls")
            with near.publisher("calls") as publisher, far.receiver("calls") as receiver:
                for number in range(2 * MESSAGES):
                    if number == MESSAGES:
                        before = Counter(broker.calls)
                    publisher.send(b"x")
                    delivery = receiver.receive()
                    delivery.accept()
                return broker.calls - before


@pytest.mark.parametrize("protocol", ["amqp091", "amqp10"])
def test_calls_for_a_message_are_two_polls_two_reads_and_two_writes(protocol: str) -> None:
    calls = calls_for_messages(protocol)
    assert set(calls) <= {"poll", "recv_into", "send"}
    assert calls["send"] <= 2 * MESSAGES + 2, "the delivery, and the confirm"
    assert calls["recv_into"] <= 2 * MESSAGES + 2, "the publish, and the acknowledgement"
    assert calls["poll"] <= calls["recv_into"] + MESSAGES / 4, "the tick of each second has polls of its own"
    assert calls["poll"] >= MESSAGES - 2
