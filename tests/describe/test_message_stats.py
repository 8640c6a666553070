"""`message_stats` in RabbitMQ's form."""

from __future__ import annotations

from typing import Any

from penstock.describe import message_stats
from penstock.describe.message_stats import SampleRange, SampleRanges
from penstock.describe.queue import QUEUE
from penstock.describe.table import reading
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish, sampled


def stats_of(client: Dialogue, ranges: SampleRanges | None = None) -> Any:
    queue = client.driver.broker.vhosts["/"].queues["q"]
    return QUEUE.row(queue, reading(client.driver, ranges), QUEUE.select(["message_stats", "lengths.*"]))


def test_queue_without_messages_has_no_message_stats() -> None:
    client = Dialogue(make_driver()).declare("q")
    lengths = ("messages", "messages_ready", "messages_unacknowledged")
    assert stats_of(client) == {f"{each}_details": {"rate": 0.0} for each in lengths}


def test_queue_without_traffic_has_samples_of_its_lengths() -> None:
    client = Dialogue(make_driver()).declare("q")
    asked = SampleRanges(None, SampleRange(60, 5), 0.0)
    found = stats_of(client, asked)["messages_details"]
    assert (found["rate"], found["avg"], found["avg_rate"]) == (0.0, 0.0, 0.0)
    assert {each["sample"] for each in found["samples"]} == {0}


def test_queue_counts_are_exact_at_once_and_rates_come_with_a_pass() -> None:
    client = Dialogue(make_driver()).declare("q")
    client.say(publish("q", b"x") * 10)
    found = stats_of(client)["message_stats"]
    assert (found["publish"], found["publish_details"], found["deliver_get"]) == (10, {"rate": 0.0}, 0)
    sampled(client.driver, 1)
    client.say(publish("q", b"x") * 20)
    client.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
    sampled(client.driver, 2)
    found = stats_of(client)
    assert found["message_stats"]["publish_details"] == {"rate": 4.0}
    assert found["message_stats"]["deliver_get_details"] == {"rate": 0.2}
    assert found["messages_details"] == {"rate": 3.8}


def test_samples_are_totals_with_times_and_the_newest_is_first() -> None:
    client = Dialogue(make_driver()).declare("q")
    for slot in (1, 2, 3):
        client.say(publish("q", b"x") * slot)
        sampled(client.driver, slot)
    asked = SampleRanges(SampleRange(10, 5), SampleRange(10, 5), 1000.0)
    found = stats_of(client, asked)
    details = found["message_stats"]["publish_details"]
    assert details["samples"] == [
        {"sample": 6, "timestamp": 1_015_000},
        {"sample": 3, "timestamp": 1_010_000},
        {"sample": 1, "timestamp": 1_005_000},
    ]
    assert (details["rate"], details["avg_rate"], details["avg"]) == (0.6, 0.5, 3.333)
    assert [each["sample"] for each in found["messages_details"]["samples"]] == [6, 3, 1]
    assert [each["sample"] for each in found["messages_unacknowledged_details"]["samples"]] == [0, 0, 0]


def test_samples_of_an_hour_are_by_the_minute() -> None:
    client = Dialogue(make_driver()).declare("q")
    for slot in range(1, 100):
        client.say(publish("q", b"x"))
        sampled(client.driver, slot)
    found = stats_of(client, SampleRanges(SampleRange(3600, 60), None, 0.0))
    samples = found["message_stats"]["publish_details"]["samples"]
    assert [each["sample"] for each in samples] == [99, 95, 83, 71, 59, 47, 35, 23, 11]
    assert [each["timestamp"] // 1000 for each in samples][:3] == [495, 475, 415]


def test_losses_have_rates_under_names_of_our_own() -> None:
    client = Dialogue(make_driver()).declare("q", x_max_length=1)
    client.say(publish("q", b"x") * 6)
    sampled(client.driver, 1)
    queue = client.driver.broker.vhosts["/"].queues["q"]
    assert message_stats.queue_rates(queue) == {
        "publish": 1.2, "deliver_get": 0.0, "ack": 0.0, "redeliver": 0.0,
        "dead_letter": 0.0, "drop": 1.0, "expire": 0.0, "refuse": 0.0,
    }  # fmt: skip


def test_exchange_stats_have_messages_in_and_out() -> None:
    client = Dialogue(make_driver()).declare("q")
    exchange = client.driver.broker.vhosts["/"].exchanges[""]
    assert message_stats.exchange_stats(exchange.counters, None) is None
    client.say(publish("q", b"x") * 5)
    sampled(client.driver, 1)
    found: Any = message_stats.exchange_stats(exchange.counters, None)
    assert (found["publish_in"], found["publish_out"]) == (5, 5)
    assert found["publish_in_details"] == {"rate": 1.0}
    losses = message_stats.exchange_losses(exchange.counters)
    assert (losses["drop_unroutable"], losses["drop_unroutable_details"]) == (0, {"rate": 0.0})
