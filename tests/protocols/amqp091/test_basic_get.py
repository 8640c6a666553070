"""A basic.get from a queue full of messages that are too old is answered with one that is not, some turns later."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.core.queue.expiry import EXPIRED_A_TURN, EXPIRED_AT_ONCE, EXPIRED_WORK
from penstock.core.queue.queue import Queue
from penstock.flow.work import SHARE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, cut, make_driver, publish

MANY = 40 * EXPIRED_AT_ONCE
GET = method_frame(1, spec.BASIC_GET, queue="q", no_ack=True)


class Old:
    """A queue with very many messages that are too old, and one that is not."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.driver.begin(0.0)
        self.client = Dialogue(self.driver)
        self.client.declare("q", message_ttl=1000, capacity_messages=2 * MANY)
        self.queue: Queue = self.driver.broker.vhosts["/"].queues["q"]
        for _ in range(MANY):
            self.queue.enqueue(Envelope("", "q"), b"old", 300, 0.0)
        self.driver.begin(1.5)
        self.driver.broker.expiry_cutoff = 1.5
        self.client.connection.receive(publish("q", b"fresh"))
        self.driver.scheduler.begin_turn()

    def ask(self) -> int:
        """Ask for a message; return the units of work that this took at once."""
        before = int(self.driver.broker.work.done)
        self.driver.scheduler.receive(self.client.connection, GET)
        return int(self.driver.broker.work.done) - before

    def turn(self) -> int:
        """Make a turn; return its units of work."""
        before = int(self.driver.broker.work.done)
        self.driver.run_turn()
        return int(self.driver.broker.work.done) - before

    def answers(self) -> list[str]:
        """Return the methods that have come."""
        frames = cut(self.client.connection.take_output())
        return [decode_method(payload).name for kind, _, payload in frames if kind == spec.FRAME_METHOD]


@pytest.mark.once
def test_a_get_drops_what_is_too_old_a_share_a_turn_and_has_the_first_that_is_not() -> None:
    old = Old()
    assert old.ask() <= 2 * EXPIRED_WORK * EXPIRED_AT_ONCE + 100  # Before it, the queue is looked at for its consumers.
    turns = []
    while old.client.connection.busy:
        turns.append(old.turn())
    assert len(turns) > 2
    assert max(turns) <= SHARE + EXPIRED_WORK * (EXPIRED_A_TURN + EXPIRED_AT_ONCE) + 100
    assert old.answers() == ["basic.get-ok"]
    assert (int(old.queue.counters.expired), int(old.queue.messages)) == (MANY, 0)


def test_a_get_is_told_that_there_is_nothing_when_its_queue_goes_meanwhile() -> None:
    old = Old()
    old.ask()
    assert old.client.connection.busy
    old.driver.broker.delete_queue(old.queue)
    while old.client.connection.busy:
        old.turn()
    assert old.answers() == ["basic.get-empty"]


def test_what_follows_a_get_waits_for_its_answer() -> None:
    old = Old()
    old.driver.scheduler.receive(old.client.connection, GET + method_frame(2, spec.CHANNEL_OPEN))
    while old.client.connection.busy:
        old.turn()
    old.driver.scheduler.begin_turn()
    old.driver.scheduler.serve()
    assert old.answers() == ["basic.get-ok", "channel.open-ok"]
