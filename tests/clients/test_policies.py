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
    ({}, {"capacity": (None, 100 * MIB), "stop": (None, 80 * MIB), "resume": (None, 70 * MIB)}, "block"),
    ({"capacity-messages": 100}, {"capacity": (100, None), "stop": (80, None), "resume": (70, None)}, "block"),
    ({"x-capacity-bytes": 1000}, {"capacity": (None, 1000), "stop": (None, 500), "resume": (None, 437)}, "block"),
    (
        {"capacity-messages": 100, "stop-percent": 50, "resume-percent": 20},
        {"capacity": (100, None), "stop": (50, None), "resume": (20, None)},
        "block",
    ),
    # Qpid C++: resumes strictly below its threshold.
    (
        {"qpid.max_count": 1000, "qpid.flow_stop_count": 800, "qpid.flow_resume_count": 500},
        {"capacity": (1000, None), "stop": (800, None), "resume": (499, None)},
        "block",
    ),
    (
        {
            "qpid.max_size": 5000,
            "qpid.flow_stop_size": 4000,
            "qpid.flow_resume_size": 3000,
            "qpid.policy_type": "reject",
        },
        {"capacity": (None, 5000), "stop": (None, 4000), "resume": (None, 2999)},
        "reject",
    ),
    (
        {"qpid.max_count": 10, "qpid.policy_type": "ring"},
        {"capacity": (10, None), "stop": (None, None), "resume": (None, None)},
        "drop-head",
    ),
    # Broker-J, today and in Qpid 0.6.
    (
        {"x-qpid-capacity": 10000, "x-qpid-flow-resume-capacity": 5000},
        {"capacity": (None, 26384), "stop": (None, 10000), "resume": (None, 5000)},
        "block",
    ),
    (
        {"maximumQueueDepthMessages": 50, "overflowPolicy": "PRODUCER_FLOW_CONTROL", "queue.queueFlowResumeLimit": 60},
        {"capacity": (50, None), "stop": (40, None), "resume": (30, None)},
        "block",
    ),
    # RabbitMQ: without x-overflow a length means dropping the head.
    (
        {"x-max-length": 5},
        {"capacity": (None, 100 * MIB), "max_length": (5, None), "stop": (None, None), "resume": (None, None)},
        "drop-head",
    ),
    (
        {"x-max-length-bytes": 5000, "x-overflow": "reject-publish"},
        {"capacity": (None, 100 * MIB), "max_length": (None, 5000), "stop": (None, None), "resume": (None, None)},
        "reject",
    ),
    # Small capacities: flow control still engages.
    ({"capacity-messages": 1}, {"capacity": (1, None), "stop": (0, None), "resume": (0, None)}, "block"),
    ({"capacity-messages": 2}, {"capacity": (2, None), "stop": (1, None), "resume": (1, None)}, "block"),
]


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


@pytest.mark.parametrize(
    "arguments", [{"capacity-messages": 3, "overflow": "reject"}, {"x-max-length": 3, "x-overflow": "reject-publish"}]
)
def test_reject_refuses_at_once_what_does_not_fit(
    broker: BrokerProcess, channel: BlockingChannel, name: str, arguments: dict[str, Any]
) -> None:
    channel.queue_declare(name, auto_delete=False, arguments=arguments)
    publishing = channel.connection.channel()
    unconfirmed = channel.connection.channel()
    publishing.confirm_delivery()
    refused = []
    for number in range(6):
        try:
            publishing.basic_publish("", name, str(number).encode())
        except NackError:
            refused.append(number)
        if number == 0:
            broker.queue(name)
    unconfirmed.basic_publish("", name, b"99")
    unconfirmed.basic_qos(prefetch_count=0)
    view = broker.queue(name)
    assert view["refused"] == len(refused) + 1, "without confirms it is counted, as there is nobody to tell"
    kept = [int(body) for body in take_all(channel, name)]
    assert sorted(kept + refused) == list(range(6))
    assert kept == [0, 1, 2]
    channel.queue_delete(name)


@pytest.mark.parametrize(
    "arguments",
    [
        {"capacity-messages": 3, "overflow": "drop-head"},
        {"x-max-length": 3},
        {"qpid.max_count": 3, "qpid.policy_type": "ring"},
    ],
)
def test_drop_head_keeps_the_newest(
    broker: BrokerProcess, channel: BlockingChannel, name: str, arguments: dict[str, Any]
) -> None:
    channel.queue_declare(name, arguments=arguments)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", name, str(number).encode())
    view = broker.queue(name)
    assert (view["dropped"], view["highest"]["messages"]) == (7, 3)
    assert take_all(channel, name) == [b"7", b"8", b"9"]
    channel.queue_delete(name)


def test_drop_head_never_drops_what_a_consumer_has(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"capacity-messages": 2, "overflow": "drop-head"})
    publishing = channel.connection.channel()
    publishing.confirm_delivery()
    publishing.basic_publish("", name, b"0")
    publishing.basic_publish("", name, b"1")
    tags = [channel.basic_get(name)[0].delivery_tag for _ in range(2)]
    with pytest.raises(NackError):
        publishing.basic_publish("", name, b"2")
    channel.basic_nack(tags[0], requeue=True)
    channel.basic_ack(tags[1])
    publishing.basic_publish("", name, b"3")
    assert take_all(channel, name) == [b"0", b"3"]


def test_fan_out_into_a_full_queue_waits_for_it_and_then_reaches_all(
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


def test_two_blocked_queues_name_themselves_to_their_own_producers(
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


def test_mandatory_message_that_is_rejected_comes_back_with_the_reason(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"capacity-messages": 1, "overflow": "reject"})
    returned: list[tuple[int, str]] = []
    channel.add_on_return_callback(lambda _, method, __, ___: returned.append((method.reply_code, method.reply_text)))
    channel.basic_publish("", name, b"1", mandatory=True)
    channel.basic_publish("", name, b"2", mandatory=True)
    channel.basic_publish("", name, b"3")
    assert take_all(channel, name) == [b"1"]
    channel.connection.process_data_events(0)
    ((code, text),) = returned
    assert code == 506
    assert name in text
    assert "capacity is 1 message and its overflow policy reject" in text


def test_queue_that_destroys_itself_cancels_its_consumers_and_refuses_the_last_publish(
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


@pytest.mark.parametrize("policy", ["ring-strict", "drop-new"])
def test_policy_that_turns_away_the_newest_tells_who_asks_for_confirms(
    channel: BlockingChannel, name: str, policy: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"capacity-messages": 2, "overflow": policy})
    channel.confirm_delivery()
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
    kept, _, _ = channel.basic_get(name)
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"3")
    assert kept is not None
    channel.basic_ack(kept.delivery_tag)
    channel.basic_publish("", name, b"4")
    assert take_all(channel, name) == [b"2", b"4"]
