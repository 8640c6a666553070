"""Resumption of receivers' links: outcomes decided meanwhile, and messages that must be sent again."""

from __future__ import annotations

import pytest

from penstock.flow.work import SHARE, UNITS_A_TURN
from penstock.protocols.amqp10.engine import DECODED_A_UNIT
from penstock.protocols.amqp10.resumption import RESUMED_BYTES, SUSPENDED_DELIVERIES
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import as_described, composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    data_section,
    performative,
    sender,
    transfers,
)
from tests.support.longest_turn import LongestTurn
from tests.support.suspended_receivers import detach, owner, receiver, source


def tag(number: int) -> bytes:
    return number.to_bytes(8, "big")


def again(client: Amqp10Dialogue, unsettled: dict[bytes, Described | None] | None) -> list[Heard]:
    return client.attach_receiver(None, 10, source=source(expiry_policy="never"), unsettled=unsettled)


def test_deliveries_continue_as_both_sides_remember() -> None:
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


def test_receiver_that_has_no_delivery_gets_all_again() -> None:
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
    assert (client.available(), client.depth("q")) == (0, 3)
    again(client, {tag(n): None for n in range(1, 4)})
    sent = transfers(client.flow(10, 5))
    assert sorted(str(each.field("delivery_tag")) for each in sent) == [str(tag(n)) for n in range(1, 4)]


@pytest.mark.parametrize("how", ["close", "end", "loss"])
def test_link_that_ends_gives_resumed_deliveries_back(how: str) -> None:
    client = receiver(3, expiry_policy="never")
    detach(client)
    client.attach_receiver(None, 10, source=source(), unsettled={tag(n): None for n in range(1, 4)})
    client.flow(10, 1)
    assert client.available() == 0
    if how == "close":
        detach(client, True)
    elif how == "end":
        client.say(performative(spec.END))
    else:
        client.driver.disconnect(client.connection)
        client.driver.run_turn()
    assert client.available() == client.depth("q") == 3


def test_large_resumed_message_comes_in_frames_and_a_long_map_is_incomplete() -> None:
    client = Amqp10Dialogue(max_frame_size=512).declare("q")
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


def many_unsettled(count: int, **terminus: object) -> Amqp10Dialogue:
    """A peer with very many unsettled deliveries on handle 10; nothing else is sent to it."""
    client = sender()
    queue = client.vhost.queues["q"]
    route = client.vhost.route("", "q", False)
    for _ in range(count):
        queue.append(route.envelope, data_section(b"x"), 250, 0.0)
    properties = {Symbol("consumer-window-bytes"): -1}
    got = len(
        transfers(client.attach_receiver(None, 10, credit=count, source=source(**terminus), properties=properties))
    )
    while got < count:
        got += len(read_on(client))
    return client


def read_on(client: Amqp10Dialogue) -> list[Heard]:
    """Return the deliveries that come when the peer has read its socket empty."""
    client.driver.after_write(client.connection)
    return transfers(client.listen())


@pytest.mark.parametrize("terminus", [{"expiry_policy": "never"}, {"timeout": 60}, {"expiry_policy": "session-end"}])
def test_suspended_link_keeps_the_oldest_deliveries(terminus: dict[str, object]) -> None:
    more = 700
    client = many_unsettled(SUSPENDED_DELIVERIES + more, **terminus)
    client.driver.begin(100.0)
    detach(client)
    remembered = {tag(n): None for n in range(1, SUSPENDED_DELIVERIES + more + 1)}
    properties = {Symbol("consumer-window-bytes"): -1}
    (attached,) = client.attach_receiver(
        None, 10, source=source(**terminus), unsettled=remembered, properties=properties
    )
    kept = attached.performative.mapping("unsettled")
    assert set(kept) == {tag(n) for n in range(1, SUSPENDED_DELIVERIES + 1)}
    assert (client.available(), client.depth("q")) == (more, SUSPENDED_DELIVERIES + more)
    sent = transfers(client.flow(10, SUSPENDED_DELIVERIES + more))
    while len(sent) < SUSPENDED_DELIVERIES + more:
        sent += read_on(client)
    assert [each.field("resume") for each in sent] == [True] * SUSPENDED_DELIVERIES + [False] * more
    first, last = (each.performative.number("delivery_id") for each in (sent[0], sent[-1]))
    client.settle(first, last, accepted())
    assert client.depth("q") == 0


@pytest.mark.parametrize("how", ["detach", "end", "disconnect"])
def test_link_with_very_many_deliveries_is_suspended_and_resumed_in_slices(how: str) -> None:
    client = many_unsettled(20_000, expiry_policy="never")
    driver = client.driver
    turns = LongestTurn(driver)
    if how == "detach":
        client.connection.receive(performative(spec.DETACH, handle=10, closed=False))
    elif how == "end":
        client.connection.receive(performative(spec.END))
    else:
        driver.disconnect(client.connection)
    turns.run()
    assert turns.longest <= UNITS_A_TURN + SHARE
    other = Amqp10Dialogue(driver)
    kept: dict[object, object] = {tag(n): None for n in range(1, 2 * SUSPENDED_DELIVERIES)}
    memory = driver.broker.gates.other_memory
    before = int(memory.bytes)
    frame = performative(
        spec.ATTACH, name="r10", handle=10, role=True, source=source(expiry_policy="never"),
        target=composite(spec.TARGET), unsettled=kept,
    )  # fmt: skip
    other.connection.receive(frame)
    turns.run()
    assert turns.longest - len(frame) // DECODED_A_UNIT <= 2 * SUSPENDED_DELIVERIES
    assert int(memory.bytes) - before >= SUSPENDED_DELIVERIES * RESUMED_BYTES
    driver.disconnect(other.connection)
    turns.run()
    assert int(memory.bytes) == before
