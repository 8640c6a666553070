"""States of a channel: closes of the broker, of the client, of both at once, and of the connection."""

from __future__ import annotations

from penstock.protocols.amqp091.channel_state import ChannelState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver

UNKNOWN_QUEUE = method_frame(1, spec.QUEUE_DECLARE, queue="none", passive=True)
CLOSE = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="bye", class_id=0, method_id=0)
CLOSE_OK = method_frame(1, spec.CHANNEL_CLOSE_OK)
OPEN = method_frame(1, spec.CHANNEL_OPEN)


def test_an_error_closes_the_channel_and_its_number_is_free_after_close_ok() -> None:
    client = Dialogue(make_driver())
    channel = client.connection.engine.channels[1]
    assert client.names(UNKNOWN_QUEUE) == ["channel.close"]
    assert channel.state == ChannelState.CLOSE_SENT
    assert client.names(UNKNOWN_QUEUE) == [], "what is sent on it is ignored"
    assert client.names(CLOSE_OK + OPEN) == ["channel.open-ok"]
    assert channel.state == ChannelState.ENDED


def test_a_close_by_the_client_is_answered_once_the_channel_is_torn_down() -> None:
    client = Dialogue(make_driver())
    channel = client.connection.engine.channels[1]
    assert client.names(CLOSE) == ["channel.close-ok"]
    assert channel.state == ChannelState.ENDED
    assert client.connection.engine.channels == {}


def test_a_channel_that_both_sides_have_closed_may_be_opened_again_before_close_ok() -> None:
    client = Dialogue(make_driver())
    before = client.connection.engine.channels[1]
    assert client.names(UNKNOWN_QUEUE) == ["channel.close"]
    assert client.names(CLOSE + CLOSE) == ["channel.close-ok", "channel.close-ok"]
    assert before.state == ChannelState.CLOSED_BY_BOTH
    assert client.names(OPEN) == ["channel.open-ok"]
    assert before.state == ChannelState.ENDED
    assert client.connection.engine.channels[1].state == ChannelState.OPEN


def test_channels_end_with_their_connection_in_whatever_state() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(2, spec.CHANNEL_OPEN) + UNKNOWN_QUEUE)
    first, second = client.connection.engine.channels[1], client.connection.engine.channels[2]
    assert (first.state, second.state) == (ChannelState.CLOSE_SENT, ChannelState.OPEN)
    client.driver.disconnect(client.connection)
    assert first.state == second.state == ChannelState.ENDED
