"""py-amqp, the base of kombu and Celery; test_holding.py has its behaviour under a hold."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import amqp
import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.recording_relay import CHANNEL_FLOW, CONNECTION_BLOCKED, spying
from tests.support.stalls import undisturbed

pytestmark = pytest.mark.clients


def connect(broker: BrokerProcess, **how: object) -> amqp.Connection:
    connection = amqp.Connection(f"{broker.host}:{broker.port}", **how)
    connection.connect()
    return connection


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[amqp.Connection]:
    connection = connect(broker)
    yield connection
    connection.close()


def drain(connection: amqp.Connection, queue: str, count: int) -> list[int]:
    """Consume so many messages, acknowledging each."""
    channel = connection.channel()
    found: list[int] = []

    def receive(message: amqp.Message) -> None:
        found.append(int(message.body))
        channel.basic_ack(message.delivery_tag)

    channel.basic_qos(0, 10, False)
    channel.basic_consume(queue, callback=receive)
    while len(found) < count:
        connection.drain_events(timeout=PATIENCE)
    channel.close()
    return found


def test_messages_pass_and_errors_have_their_codes(connection: amqp.Connection, name: str) -> None:
    channel = connection.channel()
    assert channel.queue_declare(name, exclusive=True).queue == name
    channel.basic_publish(amqp.Message("7", content_type="text/plain"), routing_key=name)
    assert drain(connection, name, 1) == [7]
    with pytest.raises(amqp.NotFound, match="no queue 'none'"):
        channel.queue_declare("none", passive=True)
    with pytest.raises(amqp.PreconditionFailed, match="is above stop-messages=1"):
        connection.channel().queue_declare("none", arguments={"stop-messages": 1, "resume-messages": 2})


def test_py_amqp_logs_in_by_amqplain(broker: BrokerProcess) -> None:
    connection = amqp.Connection(f"{broker.host}:{broker.port}", login_method="AMQPLAIN")
    connection.connect()
    assert connection.channel().queue_declare(exclusive=True).queue
    connection.close()
    with pytest.raises(amqp.AccessRefused):
        amqp.Connection(f"{broker.host}:{broker.port}", password="wrong").connect()


def test_heartbeats_keep_an_idle_connection(broker: BrokerProcess) -> None:
    def beat() -> None:
        connection = connect(broker, heartbeat=1)
        try:
            assert connection.heartbeat == 1
            deadline = time.monotonic() + 3.5
            while time.monotonic() < deadline:
                connection.heartbeat_tick()
                with pytest.raises(socket.timeout):
                    connection.drain_events(timeout=0.3)
            assert connection.channel().queue_declare(exclusive=True).queue
            connection.close()
        finally:
            connection.collect()

    undisturbed(beat, broker)


def test_py_amqp_is_notified_of_the_block_and_never_by_channel_flow(
    broker: BrokerProcess, connection: amqp.Connection, name: str
) -> None:
    told: list[str] = []
    connection.channel().queue_declare(name, auto_delete=True, arguments={"capacity-messages": 5})
    with spying(broker) as spy:
        publishing = amqp.Connection(
            spy.url.removeprefix("amqp://guest:guest@").rstrip("/"),
            on_blocked=lambda reason: told.append("blocked"),
            on_unblocked=lambda: told.append("unblocked"),
        )
        publishing.connect()
        channel = publishing.channel()
        for number in range(50):
            channel.basic_publish(amqp.Message(str(number)), routing_key=name)

        def look() -> bool:
            with suppress(TimeoutError):  # Perhaps it was told while it published.
                publishing.drain_events(timeout=0.05)
            return bool(told)

        eventually(look, "on_blocked")
        assert told == ["blocked"]
        assert drain(connection, name, 50) == list(range(50))
        publishing.close()
        seen = spy.methods()
    assert CHANNEL_FLOW not in seen
    assert CONNECTION_BLOCKED in seen
