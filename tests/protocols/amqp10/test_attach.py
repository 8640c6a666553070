"""Attach: granted and refused termini."""

from __future__ import annotations

import pytest

from penstock.flow.level import OVERHEAD
from penstock.wire.amqp10.values import Symbol, Typed
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    accepted,
    condition,
    data_section,
    names,
    sender,
    transfers,
)


def test_sender_learns_the_largest_message_and_gets_credit() -> None:
    client = Amqp10Dialogue().declare("q", capacity_bytes=10_000)
    attached, flow = client.attach_sender("/queues/q")
    assert (attached.name, attached.field("role"), attached.field("max_message_size")) == (
        "attach",
        True,
        10_000 - OVERHEAD,
    )
    assert flow.field("handle") == 0
    assert int(str(flow.field("link_credit"))) > 0


def test_unknown_queue_is_answered_with_a_null_terminus_and_detached() -> None:
    client = Amqp10Dialogue()
    attached, detached = client.attach_sender("/queues/none")
    assert attached.field("target") is None
    assert (detached.name, detached.field("closed"), condition(detached)) == ("detach", True, "amqp:not-found")
    client.declare("q")
    assert client.say(client.transfer(b"")) == []
    assert client.detach(0) == []
    assert names(client.attach_sender("/queues/q")) == ["attach", "flow"]


def test_receiver_is_a_consumer_of_the_queue() -> None:
    client = Amqp10Dialogue().declare("q")
    (attached,) = client.attach_receiver("/queues/q")
    assert (attached.field("role"), attached.field("initial_delivery_count")) == (False, 0)
    assert len(client.vhost.queues["q"].consumers) == 1


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_sender_settle_mode_of_a_sender_is_granted(asked: int) -> None:
    client = Amqp10Dialogue().declare("q")
    attached = client.attach_sender("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (asked, 1)


@pytest.mark.parametrize(("asked", "granted"), [(0, 0), (1, 1), (2, 0)])
def test_receiver_gets_the_settle_modes_of_the_messages(asked: int, granted: int) -> None:
    client = Amqp10Dialogue().declare("q")
    attached = client.attach_receiver("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (granted, 1)


def test_sender_must_announce_the_delivery_count() -> None:
    client = Amqp10Dialogue().declare("q")
    attached, detached = client.attach_sender("/queues/q", initial_delivery_count=None)
    assert (attached.field("target"), condition(detached)) == (None, "amqp:invalid-field")


def test_attach_answers_the_effective_settings_of_the_consumer() -> None:
    client = Amqp10Dialogue().declare("q", consumer_max_rate=50, consumer_window_adaptive=True, consumer_window_max=20)
    asked = {"consumer-window-bytes": Typed("uint", 5000), "slow-consumer-rate": 0.5, "slow-consumer-policy": "cancel"}
    properties = {Symbol(name): value for name, value in asked.items()}
    (attached,) = client.attach_receiver("/queues/q", 1, properties=properties)
    assert {key.text: value for key, value in attached.performative.mapping("properties").items()} == {
        "consumer-window-bytes": Typed("ulong", 5000),
        "consumer-max-rate": 50.0,
        "slow-consumer-rate": 0.5,
        "slow-consumer-period": 5.0,
        "slow-consumer-policy": Symbol("cancel"),
        "consumer-window-adaptive": True,
        "consumer-window-min": Typed("uint", 1),
        "consumer-window-max": Typed("uint", 20),
    }
    client.declare("plain")
    (attached,) = client.attach_receiver("/queues/plain", 2)
    assert attached.field("properties") is None


def test_adaptive_window_narrows_link_credit_and_settlement_widens_the_window() -> None:
    client = sender(consumer_window_adaptive=True)
    for _ in range(20):
        client.say(client.transfer(data_section(b"red")))
    now = client.driver.broker.now
    sent = transfers(client.attach_receiver("/queues/q", 1, credit=15))
    for step in range(1, 9):
        assert len(sent) == 1
        delivery = int(str(sent[0].field("delivery_id")))
        client.driver.begin(now + step)
        sent = transfers(client.settle(delivery, delivery, accepted()))
    assert len(sent) == 2, "rate times time, and a quarter more"
    *rest, flow = client.flow(1, 15, drain=True)
    assert (len(transfers(rest)), flow.name, flow.field("link_credit")) == (5, "flow", 0), "its credit is used up"


@pytest.mark.parametrize(
    ("asked", "of_queue", "answered"), [(None, 5000, None), (1000, 5000, 1000), (9000, 5000, 5000)]
)
def test_attach_reports_the_consumer_timeout_that_the_link_asked_for(
    asked: int | None, of_queue: int, answered: int | None
) -> None:
    client = sender(consumer_timeout=of_queue)
    properties = None if asked is None else {Symbol("consumer-timeout"): asked}
    heard = client.attach_receiver("/queues/q", 1, properties=properties)
    reported = heard[0].field("properties") or {}
    assert isinstance(reported, dict)
    timeout = reported.get(Symbol("consumer-timeout"))
    assert timeout == (None if answered is None else Typed("ulong", answered))


def test_link_properties_are_settings_of_the_consumer() -> None:
    client = sender()
    client.say(client.transfer(data_section(b"red")), client.transfer(data_section(b"blue")))
    properties = {Symbol("consumer-window-bytes"): 0, Symbol("rabbitmq:priority"): Typed("int", 7)}
    heard = client.attach_receiver("/queues/q", 1, credit=10, properties=properties)
    assert [each.payload[-3:] for each in transfers(heard)] == [b"red"]
    (consumer,) = client.vhost.queues["q"].consumers
    assert consumer.priority == 7
    assert names(client.detach(1)) == ["detach"]
    client.attach_receiver("/queues/q", 2, properties={Symbol("exclusive"): True})
    _, detached = client.attach_receiver("/queues/q", 3)
    assert condition(detached) == "amqp:unauthorized-access"
