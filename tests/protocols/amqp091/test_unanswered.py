"""Requests that wait for their answers have one bound for each connection, whatever their method and channel."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp091.engine import Amqp091Engine
from penstock.protocols.amqp091.unanswered import SENT_AHEAD_MOST
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, drain, make_driver, methods, publish

TX_METHODS = {
    "tx.select": spec.TX_SELECT,
    "tx.commit": spec.TX_COMMIT,
    "tx.rollback": spec.TX_ROLLBACK,
}


def held_commit(channels: int = 1) -> Dialogue:
    """Return a client with a held commit on each of its channels; queue q is full."""
    client = Dialogue(make_driver(now=100.0))
    client.declare("q", capacity_messages=2, stop_messages=1, resume_messages=1, hold_deadline=5)
    client.say(publish("q", b"1") + publish("q", b"2"))
    for channel in range(1, channels + 1):
        opened = method_frame(channel, spec.CHANNEL_OPEN) if channel > 1 else b""
        client.say(opened + method_frame(channel, spec.TX_SELECT) + publish("q", b"held", channel))
        assert client.names(method_frame(channel, spec.TX_COMMIT)) in ([], ["connection.blocked"])
    return client


def send(client: Dialogue, data: bytes) -> list[str]:
    """Send octets as the event loop takes them, in turns; return the methods that come back."""
    client.driver.scheduler.receive(client.connection, data)
    return turns(client)


def turns(client: Dialogue, now: float | None = None) -> list[str]:
    """Make turns until nothing is left to do; return the methods that come back."""
    names: list[str] = []
    while True:
        frames = client.listen(now)
        names += [method.name for method in methods(frames)]
        if not client.driver.scheduler.begin_turn():
            return names
        client.driver.scheduler.serve()


@pytest.mark.parametrize("name", TX_METHODS)
def test_requests_behind_a_held_commit_stop_the_input_at_the_bound(name: str) -> None:
    client = held_commit()
    assert send(client, method_frame(1, TX_METHODS[name]) * (3 * SENT_AHEAD_MOST)) == []
    assert client.connection.busy == 1
    left = len(client.connection.unparsed) // len(method_frame(1, TX_METHODS[name]))
    assert left == 2 * SENT_AHEAD_MOST
    drain(client.driver, "q")
    assert turns(client).count(f"{name}-ok") == 3 * SENT_AHEAD_MOST + (name == "tx.commit")
    assert (client.connection.busy, client.connection.unparsed) == (0, b"")


def test_requests_behind_a_held_commit_continue_after_the_hold_deadline() -> None:
    client = held_commit()
    send(client, method_frame(1, spec.TX_ROLLBACK) * (2 * SENT_AHEAD_MOST) + method_frame(2, spec.CHANNEL_OPEN))
    assert client.connection.busy == 1
    assert [name for name in turns(client, 105.1) if name.startswith("channel.")] == [
        "channel.close",
        "channel.open-ok",
    ]
    assert client.connection.busy == 0


def test_requests_sent_ahead_on_many_channels_share_the_bound() -> None:
    channels = 20
    client = held_commit(channels)
    each = 2 * SENT_AHEAD_MOST // channels
    send(client, b"".join(method_frame(channel, spec.TX_COMMIT) * each for channel in range(1, channels + 1)))
    engine = client.connection.engine
    assert isinstance(engine, Amqp091Engine)
    assert engine.reader.unanswered.sent_ahead() == SENT_AHEAD_MOST
    assert client.connection.busy == 1


def test_first_request_of_each_channel_never_stops_the_input() -> None:
    client = held_commit(90)
    assert client.connection.busy == 0
    assert send(client, method_frame(91, spec.CHANNEL_OPEN)) == ["channel.open-ok"]


def test_consuming_connection_closes_the_channel_at_the_bound() -> None:
    client = held_commit()
    client.say(method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.BASIC_CONSUME, queue="q"))
    acknowledged = method_frame(2, spec.BASIC_ACK, delivery_tag=2, multiple=True)
    names = send(client, method_frame(1, spec.TX_COMMIT) * (2 * SENT_AHEAD_MOST) + acknowledged)
    assert [name for name in names if name.startswith("channel.")] == ["channel.close"]
    assert client.connection.busy == 0
    assert client.driver.broker.vhost("/").queue("q").messages == 0, "the acknowledgement was read"


def test_consuming_connection_opens_the_gate_of_the_own_held_commit() -> None:
    client = held_commit()
    client.say(method_frame(2, spec.CHANNEL_OPEN) + method_frame(2, spec.BASIC_CONSUME, queue="q"))
    send(client, method_frame(1, spec.TX_ROLLBACK) * (SENT_AHEAD_MOST - 1))
    assert client.connection.busy == 0
    names = send(client, method_frame(2, spec.BASIC_ACK, delivery_tag=2, multiple=True))
    assert (names.count("tx.commit-ok"), names.count("tx.rollback-ok")) == (1, SENT_AHEAD_MOST - 1)


def test_requests_without_a_held_commit_are_answered_in_any_number() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(method_frame(1, spec.TX_SELECT) + method_frame(1, spec.BASIC_CONSUME, queue="q"))
    names = send(client, method_frame(1, spec.TX_COMMIT) * (3 * SENT_AHEAD_MOST))
    assert names.count("tx.commit-ok") == 3 * SENT_AHEAD_MOST


def test_channel_end_releases_the_requests() -> None:
    client = held_commit(2)
    send(client, method_frame(1, spec.TX_COMMIT) * (SENT_AHEAD_MOST - 1) + method_frame(1, spec.CHANNEL_CLOSE))
    assert send(client, method_frame(2, spec.TX_COMMIT) * (SENT_AHEAD_MOST - 1)) == []
    assert client.connection.busy == 0


def test_end_of_a_connection_at_the_bound_leaves_no_wait() -> None:
    client = held_commit()
    send(client, method_frame(1, spec.TX_COMMIT) * (2 * SENT_AHEAD_MOST))
    client.driver.disconnect(client.connection)
    turns(client)
    assert client.connection.busy == 0
