"""Resumption of a receiver's link: outcomes decided meanwhile, messages sent again, and those that are unknown."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import as_described, composite
from penstock.wire.amqp10.values import Described
from tests.protocols.amqp10.test_suspended_links import available, detach, owner, receiver, source
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, accepted, performative, transfers


def tag(number: int) -> bytes:
    return number.to_bytes(8, "big")


def again(client: Amqp10Dialogue, unsettled: dict[bytes, Described | None] | None) -> list[Heard]:
    return client.attach_receiver(None, 10, source=source(expiry_policy="never"), unsettled=unsettled)


def test_deliveries_go_on_as_both_sides_remember_them() -> None:
    client = receiver(4, expiry_policy="never")
    detach(client)
    states = {tag(1): as_described(accepted()), tag(2): None, tag(3): as_described(composite(spec.RELEASED))}
    (attached,) = again(client, {**states, tag(9): None})
    assert set(attached.performative.mapping("unsettled")) == set(states)
    assert attached.field("incomplete_unsettled") is False
    assert client.depth("q") == 3
    first, second, third, *fresh = transfers(client.flow(10, 10))
    assert [each.field("delivery_tag") for each in (first, second, third)] == [tag(1), tag(2), tag(3)]
    assert [each.field("settled") for each in (first, second, third)] == [True, False, True]
    assert all(each.field("resume") for each in (first, second, third))
    assert (first.payload, second.payload[-1:]) == (b"", b"1")
    assert [each.payload[-1:] for each in fresh] == [b"2", b"3"], "released, and unknown to the receiver"
    assert {each.field("delivery_tag") for each in fresh} == {tag(8), tag(9)}
    client.settle(4, 8, accepted())
    assert client.depth("q") == 0


def test_receiver_that_has_nothing_gets_all_again() -> None:
    client = receiver(3, expiry_policy="never")
    detach(client)
    (attached,) = again(client, None)
    assert attached.field("unsettled") is None
    sent = transfers(client.flow(10, 10))
    assert [(each.payload[-1:], each.field("resume")) for each in sent] == [(b"%d" % n, False) for n in range(3)]
    assert owner(client).count() == 0


def test_resumed_deliveries_use_credit_and_are_suspended_again() -> None:
    client = receiver(3, expiry_policy="never")
    detach(client)
    for _ in range(2):
        again(client, {tag(n): None for n in range(1, 4)})
        assert len(transfers(client.flow(10, 2))) == 2
        detach(client)
    assert (available(client), client.depth("q")) == (0, 3)
    again(client, {tag(n): None for n in range(1, 4)})
    sent = transfers(client.flow(10, 5))
    assert sorted(str(each.field("delivery_tag")) for each in sent) == [str(tag(n)) for n in range(1, 4)]


def test_closed_link_gives_resumed_deliveries_back() -> None:
    client = receiver(3, expiry_policy="never")
    detach(client)
    again(client, {tag(n): None for n in range(1, 4)})
    client.flow(10, 1)
    detach(client, True)
    assert available(client) == 3


@pytest.mark.parametrize("graceful", [True, False])
def test_session_that_ends_gives_resumed_deliveries_back(graceful: bool) -> None:
    client = receiver(3, expiry_policy="never")
    detach(client)
    client.attach_receiver(None, 10, source=source(), unsettled={tag(n): None for n in range(1, 4)})
    assert available(client) == 0
    if graceful:
        client.say(performative(spec.END))
    else:
        client.driver.disconnect(client.connection)
        client.driver.run_turn()
    assert available(client) == client.depth("q") == 3


def test_large_resumed_message_comes_in_frames_and_a_long_map_is_incomplete() -> None:
    client = Amqp10Dialogue(max_frame_size=512)
    client.declare("q")
    client.attach_sender("q")
    body = b"\x00\x53\x75\xb0" + (2000).to_bytes(4, "big") + bytes(2000)
    client.say(client.transfer(body, settled=True))
    client.attach_receiver(None, 10, credit=1, source=source(expiry_policy="never"))
    detach(client)
    (attached,) = again(client, {tag(1): None})
    assert attached.field("incomplete_unsettled") is True
    frames = transfers(client.flow(10, 1))
    assert [each.field("resume") for each in frames] == [True] + [False] * (len(frames) - 1)
    assert b"".join(each.payload for each in frames).endswith(body)
    assert performative(spec.TRANSFER, handle=0)
