"""Overflow policies and the names that other brokers use for our settings, declared through a real client."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.support.brokers import BrokerProcess
from tests.support.pika_helpers import take_all

pytestmark = pytest.mark.clients


MIB = 1024 * 1024
ALIASES: list[tuple[dict[str, Any], dict[str, tuple[int | None, int | None]], str]] = [
    ({"capacity-messages": 100}, {"capacity": (100, None), "stop": (80, None), "resume": (70, None)}, "block"),
    (
        {"qpid.max_size": 5000, "qpid.flow_resume_size": 3000, "qpid.policy_type": "reject"},
        {"capacity": (None, 5000), "stop": (None, 4000), "resume": (None, 2999)},
        "reject",
    ),
    ({"x-max-length": 5}, {"capacity": (None, 100 * MIB), "max_length": (5, None)}, "block"),
]
"""A name of ours, of Qpid C++ and of RabbitMQ; tests/core/queue/test_queue_settings_thresholds.py has them all."""


@pytest.mark.parametrize(
    ("arguments", "marks", "overflow"), ALIASES, ids=[",".join(row[0]) or "none" for row in ALIASES]
)
def test_arguments_of_all_brokers_come_to_the_same_thresholds(
    broker: BrokerProcess,
    channel: BlockingChannel,
    name: str,
    arguments: dict[str, Any],
    marks: dict[str, tuple[int | None, int | None]],
    overflow: str,
) -> None:
    channel.queue_declare(name, arguments=arguments)
    view = broker.queue(name)
    assert {mark: (view[mark]["messages"], view[mark]["bytes"]) for mark in marks} == marks
    assert view["overflow"] == overflow
    channel.queue_delete(name)


def test_fan_out_waits_for_a_full_queue_and_then_reaches_all(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    small, large = f"{name}-small", f"{name}-large"
    channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.queue_declare(small, arguments={"capacity-messages": 2})
    channel.queue_declare(large)
    for queue in (small, large):
        channel.queue_bind(queue, name)
    for number in range(10):
        channel.basic_publish(name, "", str(number).encode())
    channel.basic_qos(prefetch_count=0)
    assert broker.depth(small) == broker.depth(large) == 2
    got = []
    while len(got) < 10:
        got += take_all(channel, small)
    assert got == take_all(channel, large) == [b"%d" % number for number in range(10)]
    for queue in (small, large):
        channel.queue_delete(queue)


def test_blocked_queues_are_named_to_their_own_producers(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    reasons: dict[str, list[str]] = {}
    connections = []
    for queue in (f"{name}-a", f"{name}-b"):
        channel.queue_declare(queue, arguments={"capacity-messages": 1, "hold-deadline": 0})
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        connections.append(connection)
        heard = reasons.setdefault(queue, [])
        connection.add_on_connection_blocked_callback(lambda _, frame, heard=heard: heard.append(frame.method.reason))
        publishing = connection.channel()
        publishing.basic_publish("", queue, b"0")
        publishing.basic_publish("", queue, b"1")
        publishing.basic_qos(prefetch_count=0)
        connection.process_data_events(0)
    for queue, heard in reasons.items():
        assert len(heard) == 1
        assert heard[0].startswith(f"queue {queue}: ")
    for connection in connections:
        connection.close()
    for queue in reasons:
        channel.queue_delete(queue)


def test_self_destruct_queue_cancels_consumers_and_refuses_the_last_publish(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(
        name, arguments={"qpid.max_count": 2, "qpid.policy_type": "self-destruct", "hold-deadline": "1s"}
    )
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(name, lambda *_: None)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1")
    channel.basic_publish("", name, b"2")
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"3")
    channel.connection.process_data_events(0)
    assert len(cancelled) == 1
    assert channel.queue_declare(name, exclusive=True).method.message_count == 0
