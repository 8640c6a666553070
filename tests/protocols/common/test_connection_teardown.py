"""Connections that end with very much to put back: a part in each turn, in order."""

from __future__ import annotations

from itertools import pairwise

from penstock.driver.driver import BrokerDriver
from penstock.flow.chores import UNITS_A_TURN
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.long_teardown import CONNECTION_CLOSE, MANY, consume, heard, turns_until_over, with_many_unsettled


def logs_in(driver: BrokerDriver) -> bool:
    """Tell whether a newcomer is let in without a turn being made."""
    connection = driver.connect(Peer("127.0.0.1:1", True))
    connection.receive(b"AMQP\x00\x00\x09\x01")
    login = plain_response("guest", "guest")
    for method, how in (
        (spec.CONNECTION_START_OK, {"client_properties": {}, "mechanism": "PLAIN", "response": login}),
        (spec.CONNECTION_TUNE_OK, {"channel_max": 9, "frame_max": 131072, "heartbeat": 0}),
        (spec.CONNECTION_OPEN, {"virtual_host": "/"}),
    ):
        connection.receive(method_frame(0, method, **how))
    told = connection.take_output()
    driver.disconnect(connection)
    return told.endswith(method_frame(0, spec.CONNECTION_OPEN_OK))


def test_a_socket_that_is_lost_in_the_middle_of_a_goodbye_changes_nothing_of_it() -> None:
    client, _ = with_many_unsettled()
    client.connection.receive(CONNECTION_CLOSE)
    client.driver.disconnect(client.connection)
    turns_until_over(client)
    queue = client.driver.broker.vhosts["/"].queues["q"]
    assert (queue.unacked_messages, queue.available()) == (0, MANY)
    assert client.connection.origin is None


def test_a_lost_connection_with_many_channels_ends_over_turns_while_others_come_and_go() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    channels, each = 90, 150
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="own", exclusive=True))
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="passing", auto_delete=True))
    for channel in range(2, channels + 2):
        client.say(method_frame(channel, spec.CHANNEL_OPEN))
        client.say(b"".join(consume("passing", channel, f"c{number}") for number in range(each)))
        client.say(consume("own", channel, "own"))
    vhost = driver.broker.vhosts["/"]
    passing = vhost.queues["passing"]
    assert len(passing.consumers) == channels * each
    driver.disconnect(client.connection)
    left, newcomers = [len(passing.consumers)], 0
    while driver.broker.turns.chores.pending():
        newcomers += logs_in(driver)
        driver.run_turn()
        left.append(len(passing.consumers))
    assert newcomers >= 3, "others log in meanwhile"
    assert max(before - after for before, after in pairwise(left)) <= UNITS_A_TURN
    assert "own" not in vhost.queues
    assert "passing" not in vhost.queues
    assert not client.connection.engine.sessions()


def test_what_all_channels_of_a_lost_connection_had_is_delivered_in_order_before_anything_younger() -> None:
    driver = make_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    other.declare("q")
    for channel in (1, 2, 3):
        if channel > 1:
            client.say(method_frame(channel, spec.CHANNEL_OPEN))
        client.say(consume("q", channel))
    for start in range(0, MANY, 1000):
        other.say(b"".join(publish("q", b"%d" % number) for number in range(start, start + 1000)))
        client.connection.output.drained()
        client.listen()
    queue = driver.broker.vhosts["/"].queues["q"]
    assert queue.unacked_messages == MANY
    driver.disconnect(client.connection)
    assert queue.returning is not None
    assert len(queue.returning) >= 2, "every channel's, from the start"
    frames = other.say(publish("q", b"%d" % MANY) + consume("q", no_ack=True))
    while not other.connection.output.writable:
        other.connection.output.drained()
        frames += other.listen()
    got = [int(payload) for kind, _, payload in frames if kind == spec.FRAME_BODY]
    assert got == [*range(MANY + 1)]


def test_a_shut_down_tells_everybody_at_once_whatever_there_is_to_put_back() -> None:
    client, other = with_many_unsettled()
    for each in (client, other):
        each.connection.shut_down()
        assert heard(each) == ["connection.close"]
    turns_until_over(client)
    assert not client.driver.broker.vhosts["/"].queues["q"].unacked_messages
