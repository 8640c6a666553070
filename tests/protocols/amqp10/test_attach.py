"""Attach: termini that are granted, and those that are refused."""

from __future__ import annotations

import pytest

from penstock.flow.level import OVERHEAD
from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, names, performative


def test_sender_learns_the_largest_message_and_gets_credit() -> None:
    client = Amqp10Dialogue()
    client.declare("q", capacity_bytes=10_000)
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
    assert client.say(performative(spec.DETACH, handle=0, closed=True)) == []
    assert names(client.attach_sender("/queues/q")) == ["attach", "flow"]


def test_receiver_is_a_consumer_of_its_queue() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    (attached,) = client.attach_receiver("/queues/q")
    assert (attached.field("role"), attached.field("initial_delivery_count")) == (False, 0)
    assert len(client.driver.broker.vhosts["/"].queues["q"].consumers) == 1


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_sender_settle_mode_of_a_sender_is_granted(asked: int) -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached = client.attach_sender("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (asked, 1)


@pytest.mark.parametrize(("asked", "granted"), [(0, 0), (1, 1), (2, 0)])
def test_receiver_is_told_how_its_messages_are_settled(asked: int, granted: int) -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached = client.attach_receiver("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (granted, 1)


def test_sender_must_give_its_delivery_count() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    attached, detached = client.attach_sender("/queues/q", initial_delivery_count=None)
    assert (attached.field("target"), condition(detached)) == (None, "amqp:invalid-field")
