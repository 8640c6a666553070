"""Channels and connections that end with very many messages: requeued in slices, while others go on."""

from __future__ import annotations

import pytest

from penstock.connections.connection_output import OUTPUT_FULL
from penstock.core.broker import CONSUMERS_OF_A_CHANNEL
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import SHARE, UNITS_A_TURN
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.long_teardown import CONNECTION_CLOSE, MANY, consume, heard, turns_until_over, with_many_unsettled

CHANNEL_CLOSE = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200)


def get(queue: str, no_ack: bool = True) -> bytes:
    return method_frame(1, spec.BASIC_GET, queue=queue, no_ack=no_ack)


def test_channel_with_many_unsettled_messages_closes_after_the_requeue() -> None:
    client, other = with_many_unsettled()
    queue = client.vhost.queues["q"]
    client.connection.receive(CHANNEL_CLOSE + get("q"))
    assert heard(client) == []
    assert 0 < queue.unacked_messages < MANY
    other.connection.receive(method_frame(1, spec.QUEUE_DECLARE, queue="other"))
    assert heard(other) == ["queue.declare-ok"]
    turns_until_over(client)
    assert heard(client) == ["channel.close-ok"]
    assert (queue.unacked_messages, queue.available(), len(queue.consumers)) == (0, MANY, 0)
    assert client.names(method_frame(1, spec.CHANNEL_OPEN)) == ["channel.open-ok"]


def test_channel_in_teardown_cannot_be_opened_again_yet() -> None:
    client, _ = with_many_unsettled()
    assert client.names(CHANNEL_CLOSE + method_frame(1, spec.CHANNEL_OPEN))[-1] == "connection.close"


def test_connection_with_many_unsettled_messages_closes_after_the_requeue() -> None:
    client, _ = with_many_unsettled()
    queue = client.vhost.queues["q"]
    client.connection.receive(CONNECTION_CLOSE + CONNECTION_CLOSE)
    assert heard(client) == []
    assert turns_until_over(client) >= (MANY - SHARE) // (UNITS_A_TURN + 256)
    assert heard(client) == ["connection.close-ok"]
    assert (queue.unacked_messages, queue.available()) == (0, MANY)


def test_channel_closed_by_the_broker_is_answered_at_once_and_gets_no_more() -> None:
    client, other = with_many_unsettled()
    wrong = method_frame(1, spec.BASIC_ACK, delivery_tag=MANY + 9)
    client.connection.receive(wrong)
    assert heard(client) == ["channel.close"]
    other.say(publish("q", b"y"))
    turns_until_over(client)
    assert heard(client) == []
    assert client.vhost.queues["q"].available() == MANY + 1


def test_commit_and_get_in_a_single_read_leave_the_message_to_the_consumer() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(method_frame(2, spec.CHANNEL_OPEN) + consume("q", 2, no_ack=True) + method_frame(1, spec.TX_SELECT))
    told = client.names(publish("q", b"x") + method_frame(1, spec.TX_COMMIT) + get("q"))
    assert [name for name in told if name] == ["basic.deliver", "basic.get-empty", "tx.commit-ok"]


def test_get_waits_behind_a_consumer_while_the_connection_takes_deliveries(driver: BrokerDriver) -> None:
    slow, client = Dialogue(driver), Dialogue(driver)
    client.declare("q")
    slow.say(consume("q", no_ack=True))
    body = b"x" * (OUTPUT_FULL - 1)
    slow.connection.receive(b"")
    client.connection.receive(publish("q", body) + publish("q", b"second") + get("q"))
    assert not slow.connection.output.writable
    assert "basic.get-ok" in heard(client)


def test_queues_of_channels_share_a_connection_that_reads_slowly() -> None:
    driver = make_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    body = b"x" * (OUTPUT_FULL // 2)
    for channel in (1, 2, 3):
        if channel > 1:
            client.say(method_frame(channel, spec.CHANNEL_OPEN))
        for name in (f"q{channel}a", f"q{channel}b"):
            other.declare(name)
            for _ in range(30):
                other.say(publish(name, body))
    for channel in (1, 2, 3):
        for name in (f"q{channel}a", f"q{channel}b"):
            client.connection.receive(consume(name, channel, name, no_ack=True))
    counts = dict.fromkeys((f"q{channel}{each}" for channel in (1, 2, 3) for each in "ab"), 0)
    queues = driver.broker.vhosts["/"].queues
    for _ in range(36):
        driver.run_turn()
        client.connection.take_output()
        client.connection.output.drained()
    for name in counts:
        counts[name] = 30 - int(queues[name].messages)
    assert max(counts.values()) - min(counts.values()) <= 4, counts
    assert min(counts.values()) >= 6, counts


@pytest.mark.once
def test_consumer_beyond_the_bound_of_a_channel_closes_the_channel_with_the_reason() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    for start in range(0, CONSUMERS_OF_A_CHANNEL, 100):
        client.say(b"".join(consume("q", 1, f"c{number}", no_wait=True) for number in range(start, start + 100)))
    (told,) = client.say(consume("q", 1, "late"))
    closed = decode_method(told[2])
    assert (closed.name, closed.args["reply_code"]) == ("channel.close", 506)
    assert closed.args["reply_text"] == (
        "RESOURCE_ERROR - the channel has 10000 consumers, the most it may have; 'late' was not added"
    )
    assert client.names(method_frame(1, spec.CHANNEL_CLOSE_OK) + consume("q", 2, "late")) == ["basic.consume-ok"]
    assert len(client.vhost.queues["q"].consumers) == 1
