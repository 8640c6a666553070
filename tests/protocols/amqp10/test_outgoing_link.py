"""Outgoing links: credit, drain, unsettled deliveries at the end, and max-message-size.

A message larger than max-message-size is not sent, and stays for other consumers.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    names,
    sender,
    transfers,
)
from tests.support.amqp10_messages import last_octets
from tests.support.driven_connection import Dialogue, publish
from tests.support.large_messages import filled


def receiver(messages: int, credit: int, **fields: object) -> tuple[Amqp10Dialogue, list[Heard]]:
    client = sender()
    client.put(*(bytes([n]) for n in range(messages)))
    heard = client.attach_receiver("/queues/q", credit=credit, **fields)
    return client, [each for each in heard if each.name == "transfer"]


def test_deliveries_stay_within_the_link_credit() -> None:
    client, sent = receiver(10, 4)
    assert len(sent) == 4
    assert len(client.flow(1, 2, delivery_count=4)) == 2
    assert client.flow(1, 2, delivery_count=4) == []


def test_drain_uses_the_credit_or_returns_the_credit() -> None:
    client, _sent = receiver(3, 0)
    *transfers, flow = client.flow(1, 10, drain=True)
    assert flow.field("drain"), "rhea and go-amqp wait for a flow that says drain"
    assert len(transfers) == 3
    assert (flow.name, flow.field("delivery_count"), flow.field("link_credit")) == ("flow", 10, 0)


def test_settled_mode_takes_messages_at_once() -> None:
    client, sent = receiver(5, 5, snd_settle_mode=1)
    assert [each.field("settled") for each in sent] == [True] * 5
    assert client.depth("q") == 0


def test_unsettled_messages_of_a_closed_link_get_the_default_outcome() -> None:
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=composite(spec.ACCEPTED))
    client, _sent = receiver(5, 5, source=source)
    client.settle(1, 1, composite(spec.RELEASED))
    client.detach(1)
    assert client.depth("q") == 1


MOST = 1_000
LARGE = data_section(bytes(2_000))


def attach(client: Amqp10Dialogue, handle: int = 1, credit: int = 9, **fields: Any) -> list[Heard]:
    return client.attach_receiver("/queues/q", handle, credit=credit, max_message_size=MOST, **fields)


@pytest.mark.parametrize("mode", [0, 1])
def test_message_beyond_the_limit_stays_and_the_link_is_detached(mode: int) -> None:
    client = filled(None, data_section(b"1"), data_section(b"2"), LARGE, data_section(b"3"))
    heard = attach(client, snd_settle_mode=mode)
    assert last_octets(heard) == [b"1", b"2"]
    assert [each.field("settled") is True for each in transfers(heard)] == [mode == 1] * 2
    assert (names(heard)[-1], condition(heard[-1])) == ("detach", "amqp:link:message-size-exceeded")
    assert f"larger than the {MOST} bytes" in str(heard[-1].field("error"))
    assert client.listen() == []
    left = [b"1", b"2"] if mode == 0 else []
    others = client.attach_receiver("/queues/q", 2, credit=9)
    assert last_octets(others) == [*left, LARGE[-1:], b"3"], "the other receiver takes everything that is left"


@pytest.mark.parametrize("outcome", [spec.ACCEPTED, spec.REJECTED])
def test_default_outcome_does_not_apply_to_unsent_messages(outcome: int) -> None:
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=composite(outcome))
    client = filled(None, data_section(b"1"), LARGE, data_section(b"3"))
    assert last_octets(attach(client, source=source)) == [b"1"]
    assert client.depth("q") == 2


def test_settled_deliveries_of_a_limited_receiver_leave_the_queue() -> None:
    client = filled(None, *(data_section(b"%d" % number) for number in range(5)))
    assert last_octets(attach(client, credit=3, snd_settle_mode=1)) == [b"0", b"1", b"2"]
    assert client.depth("q") == 2
    assert last_octets(client.flow(1, 5, delivery_count=3)) == [b"3", b"4"]
    assert client.depth("q") == 0
    assert client.session().unsettled.is_empty()


def test_credit_counts_sent_messages() -> None:
    client = filled(None, data_section(b"1"), LARGE)
    attach(client, credit=1)
    client.settle(0, 0, accepted())
    (flow,) = client.flow(1, 0, delivery_count=1, echo=True)
    assert (flow.field("delivery_count"), flow.field("link_credit")) == (1, 0)
    (detached,) = client.flow(1, 1, delivery_count=1)
    assert condition(detached) == "amqp:link:message-size-exceeded"
    assert client.depth("q") == 1


def test_max_message_size_is_exact_to_the_byte() -> None:
    for size in (MOST, MOST + 1):
        client = filled(None)
        client.say(client.transfer(data_section(bytes(size - 400)), settled=True))
        (sent,) = transfers(client.attach_receiver("/queues/q", 5, credit=1))
        added = len(sent.payload) - (size - 400)
        client = filled(None)
        client.say(client.transfer(data_section(bytes(size - added)), settled=True))
        heard = attach(client)
        assert names(heard) == (["attach", "transfer"] if size == MOST else ["attach", "detach"])


def test_message_of_amqp_0_9_1_is_measured_after_conversion() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver).declare("q")
    other.say(publish("q", bytes(900)))
    other.say(publish("q", bytes(1_100)))
    heard = attach(client)
    assert names(heard) == ["attach", "transfer", "detach"]
    assert client.depth("q") == 2


def test_large_message_in_pieces_is_too_large_as_well() -> None:
    client = filled(None, data_section(bytes(1 << 20)))
    heard = attach(client)
    assert names(heard) == ["attach", "detach"]
    assert client.depth("q") == 1


def test_browser_with_a_limit_is_detached_and_removes_no_message() -> None:
    client = filled(None, data_section(b"1"), LARGE)
    source = composite(spec.SOURCE, address="/queues/q", distribution_mode="copy")
    heard = attach(client, source=source)
    assert names(heard) == ["attach", "transfer", "detach"]
    assert client.depth("q") == 2


@pytest.mark.parametrize("most", [0, (1 << 64) - 1])
def test_limit_of_zero_or_more_than_there_can_be_is_none(most: int) -> None:
    client = filled(None, LARGE)
    heard = client.attach_receiver("/queues/q", credit=1, max_message_size=most)
    assert names(heard) == ["attach", "transfer"]
