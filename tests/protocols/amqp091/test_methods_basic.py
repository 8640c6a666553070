"""The methods of the classes basic and tx that consume, settle and commit.

A basic.get from a queue of expired messages is answered with the first fresh one, some turns later.
"""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.core.queue.expiry import EXPIRED_A_TURN, EXPIRED_AT_ONCE, EXPIRED_WORK
from penstock.core.queue.queue import Queue
from penstock.flow.work import SHARE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import (
    Dialogue,
    Frame,
    cut,
    drain,
    make_driver,
    methods,
    output_of,
    publish,
    refused,
)


def test_methods_of_basic_deliver_up_to_the_prefetch_and_a_message_per_ack() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(b"".join(publish("q", b"x") for _ in range(3)))
    names = client.names(
        method_frame(1, spec.BASIC_QOS, prefetch_count=2) + method_frame(1, spec.BASIC_CONSUME, queue="q")
    )
    assert names == ["basic.qos-ok", "basic.consume-ok", "basic.deliver", "basic.deliver"]
    assert client.names(method_frame(1, spec.BASIC_ACK, delivery_tag=1)) == ["basic.deliver"]


def test_methods_of_basic_return_a_rejected_message_to_the_queue() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", b"x"))
    assert client.names(method_frame(1, spec.BASIC_GET, queue="q")) == ["basic.get-ok"]
    client.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=1, requeue=True))
    (frame, *_) = client.say(method_frame(1, spec.BASIC_GET, queue="q"))
    assert decode_method(frame[2]).args["redelivered"] is True


def test_methods_of_basic_refuse_an_unknown_delivery_tag() -> None:
    name, code, text = refused(Dialogue(make_driver()), method_frame(1, spec.BASIC_ACK, delivery_tag=9))
    assert (name, code) == ("channel.close", 406)
    assert "unknown delivery tag 9" in str(text)


def test_methods_of_basic_cancel_a_consumer_and_leave_the_deliveries() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", b"x") + method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t"))
    assert client.names(method_frame(1, spec.BASIC_CANCEL, consumer_tag="t")) == ["basic.cancel-ok"]
    queue = client.driver.broker.vhost("/").queue("q")
    assert (len(queue.consumers), int(queue.unacked_messages)) == (0, 1)


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
        frames = cut(output_of(self.client.connection))
        return [decode_method(payload).name for kind, _, payload in frames if kind == spec.FRAME_METHOD]


@pytest.mark.once
def test_get_drops_expired_messages_in_slices_and_returns_the_first_fresh_message() -> None:
    old = Old()
    assert old.ask() <= 2 * EXPIRED_WORK * EXPIRED_AT_ONCE + 100  # Before it, the queue is looked at for its consumers.
    turns = []
    while old.client.connection.busy:
        turns.append(old.turn())
    assert len(turns) > 2
    assert max(turns) <= SHARE + EXPIRED_WORK * (EXPIRED_A_TURN + EXPIRED_AT_ONCE) + 100
    assert old.answers() == ["basic.get-ok"]
    assert (int(old.queue.counters.expired), int(old.queue.messages)) == (MANY, 0)


def test_get_from_a_queue_deleted_meanwhile_is_answered_as_empty() -> None:
    old = Old()
    old.ask()
    assert old.client.connection.busy
    old.driver.broker.delete_queue(old.queue)
    while old.client.connection.busy:
        old.turn()
    assert old.answers() == ["basic.get-empty"]


def test_frames_after_a_get_wait_for_the_answer() -> None:
    old = Old()
    old.driver.scheduler.receive(old.client.connection, GET + method_frame(2, spec.CHANNEL_OPEN))
    while old.client.connection.busy:
        old.turn()
    old.driver.scheduler.begin_turn()
    old.driver.scheduler.serve()
    assert old.answers() == ["basic.get-ok", "channel.open-ok"]


def test_methods_of_tx_are_answered_in_order() -> None:
    client = Dialogue(make_driver())
    data = b"".join(
        method_frame(1, each) for each in (spec.TX_SELECT, spec.TX_SELECT, spec.TX_COMMIT, spec.TX_ROLLBACK)
    )
    assert client.names(data) == ["tx.select-ok", "tx.select-ok", "tx.commit-ok", "tx.rollback-ok"]


def test_methods_of_tx_need_a_transactional_channel() -> None:
    for method in (spec.TX_COMMIT, spec.TX_ROLLBACK):
        client = Dialogue(make_driver())
        assert refused(client, method_frame(1, method)) == (
            "channel.close", 406, "PRECONDITION_FAILED - channel is not transactional",
        )  # fmt: skip


def test_methods_of_tx_exclude_confirms() -> None:
    client = Dialogue(make_driver())
    client.confirm()
    name, code, text = refused(client, method_frame(1, spec.TX_SELECT))
    assert (name, code) == ("channel.close", 406)
    assert "cannot switch from confirm to tx mode" in str(text)


def test_methods_of_tx_hold_publishes_until_the_commit() -> None:
    client = Dialogue(make_driver()).declare("q")
    queue = client.driver.broker.vhost("/").queue("q")
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one"))
    assert queue.messages == 0
    assert client.names(method_frame(1, spec.TX_COMMIT)) == ["tx.commit-ok"]
    assert queue.messages == 1


def answers(frames: list[Frame]) -> list[str]:
    """Return the methods that answer requests."""
    return [method.name for method in methods(frames) if method.name.startswith(("basic.", "tx."))]


def retrying() -> Dialogue:
    """A client that may commit again, on a transactional channel; queue q has room for one of its two messages."""
    driver = make_driver(now=100.0)
    client = Dialogue(driver, announces=("penstock.tx_commit_retry",))
    client.declare("q", capacity_messages=2, stop_messages=2, resume_messages=2, hold_deadline=5)
    client.say(publish("q", b"before"))
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one") + publish("q", b"two"))
    return client


def test_refused_tx_commit_is_answered_with_the_reason_and_a_nack() -> None:
    client = retrying()
    assert "basic.nack" not in client.names(method_frame(1, spec.TX_COMMIT))
    frames = client.listen(105.1)
    returned, nack = [each for each in methods(frames) if each.name.startswith("basic.")]
    assert (returned.name, returned.args["reply_code"], returned.args["exchange"], returned.args["routing_key"]) == (
        "basic.return", 506, "", "",
    )  # fmt: skip
    assert str(returned.args["reply_text"]).startswith(
        "RESOURCE_ERROR - commit refused after its hold deadline of 5 s and not rolled back; queue 'q' holds 1 message"
    )
    assert [kind for kind, _, _ in frames if kind != spec.FRAME_METHOD] == [spec.FRAME_HEADER], "an empty content"
    assert (nack.args["delivery_tag"], nack.args["multiple"], nack.args["requeue"]) == (0, True, False)
    drain(client.driver, "q")
    assert "tx.commit-ok" in client.names(method_frame(1, spec.TX_COMMIT))
    assert client.driver.broker.vhost("/").queue("q").messages == 2


def test_methods_of_tx_roll_back_after_a_refused_commit() -> None:
    client = retrying()
    client.say(method_frame(1, spec.TX_COMMIT))
    client.listen(105.1)
    assert client.names(method_frame(1, spec.TX_ROLLBACK)) == ["tx.rollback-ok"]
    drain(client.driver, "q")
    assert "tx.commit-ok" in client.names(method_frame(1, spec.TX_COMMIT))
    assert client.driver.broker.vhost("/").queue("q").messages == 0


def test_tx_methods_are_answered_in_order_though_a_refusal_is_known_early() -> None:
    """The first commit closes the gate of r, which withholds its answer for longer than the second may wait."""
    client = retrying()
    client.say(method_frame(1, spec.TX_ROLLBACK))
    client.names(method_frame(2, spec.CHANNEL_OPEN) + publish("q", b"second", channel=2))
    client.declare("r", capacity_messages=5, stop_messages=0, resume_messages=0, hold_deadline=60)
    client.say(publish("r", b"withheld") + method_frame(1, spec.TX_COMMIT))
    client.say(publish("q", b"held") + method_frame(1, spec.TX_COMMIT) + method_frame(1, spec.TX_ROLLBACK))
    assert answers(client.listen(107.0)) == []
    drain(client.driver, "r")
    assert answers(client.listen(108.0)) == ["tx.commit-ok", "basic.return", "basic.nack", "tx.rollback-ok"]
    drain(client.driver, "q")
    assert answers(client.say(method_frame(1, spec.TX_COMMIT))) == ["tx.commit-ok"]
    assert client.driver.broker.vhost("/").queue("q").messages == 0, "the rollback came after the refused commit"


def test_methods_of_tx_close_the_channel_of_a_client_without_the_capability() -> None:
    driver = make_driver(now=100.0)
    client = Dialogue(driver).declare("q", capacity_messages=2, hold_deadline=5)
    client.say(publish("q", b"before"))
    client.say(method_frame(1, spec.TX_SELECT) + publish("q", b"one") + publish("q", b"two"))
    client.say(method_frame(1, spec.TX_COMMIT))
    closed = next(each for each in methods(client.listen(105.1)) if each.name == "channel.close")
    assert (closed.args["reply_code"], "and rolled back" in str(closed.args["reply_text"])) == (506, True)
    assert client.connection.pausing.budget.bytes == 0
