"""Delivery writer: frames within the peer's window and frame size, and the header of each delivery."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section, performative, sender
from tests.support.amqp10_messages import decode_message, delivered
from tests.support.driven_connection import Dialogue, publish
from tests.support.large_messages import payload


def test_large_message_is_cut_to_the_peers_frames() -> None:
    client = Amqp10Dialogue(max_frame_size=512).declare("q")
    client.attach_sender("/queues/q")
    body = data_section(bytes(range(256)) * 16)
    client.say(client.transfer(body))
    heard = [each for each in client.attach_receiver("/queues/q", credit=1) if each.name == "transfer"]
    assert [each.field("more") for each in heard] == [True] * (len(heard) - 1) + [False]
    assert payload(heard).endswith(body)


def test_frames_beyond_the_window_wait_and_block_no_other_session() -> None:
    client = Amqp10Dialogue(session=False, max_frame_size=512)
    client.begin(0, incoming_window=2)
    client.begin(1)
    client.declare("q")
    client.attach_sender("/queues/q")
    body = data_section(bytes(2000))
    client.say(client.transfer(body), client.transfer(body))
    sent = [each for each in client.attach_receiver("/queues/q", 1) if each.name == "transfer"]
    flow = {"incoming_window": 2, "next_outgoing_id": 2, "outgoing_window": 9, "handle": 1, "delivery_count": 0}
    sent += client.say(performative(spec.FLOW, 0, next_incoming_id=0, link_credit=1, **flow))
    assert len(sent) == 2
    other = client.attach_receiver("/queues/q", 3, credit=1, channel=1)
    assert len([each for each in other if each.name == "transfer"]) > 2
    for seen in (2, 4, 6):
        sent += client.say(performative(spec.FLOW, 0, next_incoming_id=seen, link_credit=1, **flow))
    assert payload(sent).endswith(body)


@pytest.mark.parametrize("said", [None, False, True])
def test_stored_message_is_as_durable_as_the_sender_declared(said: bool | None) -> None:
    client = Amqp10Dialogue().declare("q")
    queue = client.vhost.queues["q"]
    for fields in ({}, {"priority": 7}, {"ttl": 5000}):
        header = encode(spec.HEADER, durable=said, **fields) if said is not None or fields else b""
        queue.enqueue(Envelope("", "q", persistent=True), header + data_section(b"x"), 300, client.driver.broker.now)
    found = [decode_message(octets).header for octets in delivered(client.attach_receiver("/queues/q", credit=3))]
    assert [header.get("durable") for header in found] == [said is True] * 3


@pytest.mark.parametrize(("said", "expected"), [(b"\x42", False), (b"\x41", True), (b"\x40", True)])
@pytest.mark.parametrize("before", [b"@@@", b"\x41@@", b"\x42\x50\x07@", b"@@\x52\xff"])
def test_first_acquirer_that_the_publisher_has_denied_stays_so(said: bytes, expected: bool, before: bytes) -> None:
    client = sender()
    header = b"\x00\x53\x70\xc0" + bytes([len(before) + 2, 4]) + before + said
    client.say(client.transfer(header + data_section(b"x")))
    (octets,) = delivered(client.attach_receiver("/queues/q", credit=1))
    assert decode_message(octets).header["first_acquirer"] is expected


@pytest.mark.parametrize("header", [b"", b"\x00\x53\x70\x45", b"\x00\x53\x70\xc0\x02\x01\x41"])
def test_first_acquirer_is_true_unless_the_publisher_sets_false(header: bytes) -> None:
    client = sender()
    client.say(client.transfer(header + data_section(b"x")))
    (octets,) = delivered(client.attach_receiver("/queues/q", credit=1))
    assert decode_message(octets).header["first_acquirer"] is True


def test_annotations_of_qpid_jms_are_sent_unchanged() -> None:
    client = sender()
    sent = {
        "x-opt-jms-dest": Typed("byte", 0),
        "x-opt-jms-reply-to": Typed("byte", 3),
        "x-opt-jms-msg-type": Typed("byte", 5),
    }
    annotations = encode_value(Described(ulong(spec.MESSAGE_ANNOTATIONS), {Symbol(key): sent[key] for key in sent}))
    client.say(client.transfer(annotations + data_section(b"x")))
    (octets,) = delivered(client.attach_receiver("/queues/q", credit=1))
    assert decode_message(octets).annotations.items() >= sent.items()


def test_message_of_amqp_0_9_1_is_converted() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver).declare("q")
    other.say(publish("q", b"hello"))
    (sent,) = [each for each in client.attach_receiver("/queues/q", credit=1) if each.name == "transfer"]
    assert sent.payload.endswith(data_section(b"hello"))


def behind_a_window(drain: bool) -> Amqp10Dialogue:
    """A peer that has got two of five messages: more do not fit into the window of its session."""
    client = Amqp10Dialogue(session=False)
    client.begin(0, incoming_window=2)
    client.declare("q")
    client.attach_sender("/queues/q")
    client.put(*[b"x"] * 5, settled=True)
    client.attach_receiver("/queues/q", 1)
    first = client.flow(1, 10, incoming_window=2, drain=drain)
    assert [each.name for each in first] == ["transfer", "transfer"], "no answer before the last message"
    return client


def test_flow_counts_only_deliveries_that_the_peer_has_seen() -> None:
    client = behind_a_window(False)
    (flow,) = client.flow(1, 8, incoming_window=0, next_incoming_id=2, delivery_count=2, echo=True)
    assert (flow.field("delivery_count"), flow.field("link_credit")) == (2, 8)


def test_answer_to_a_drain_follows_the_last_message() -> None:
    client = behind_a_window(True)
    *sent, flow = client.say(
        performative(spec.FLOW, next_incoming_id=2, incoming_window=9, next_outgoing_id=0, outgoing_window=9)
    )
    assert [each.name for each in sent] == ["transfer"] * 3
    assert (flow.name, flow.field("delivery_count"), flow.field("link_credit")) == ("flow", 10, 0)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("more", [b"", encode(spec.PROPERTIES, message_id="m")])
def test_header_with_durable_alone_is_rewritten_and_the_rest_is_unchanged(durable: bool, more: bytes) -> None:
    client = sender()
    rest = more + data_section(b"body")
    flag = b"\x41" if durable else b"\x42"
    for header in (b"\x00\x53\x70\xc0\x02\x01" + flag, b""):
        client.say(client.transfer(header + rest))
    heard = client.attach_receiver("/queues/q", credit=9)
    first, plain = [each.payload for each in heard if each.name == "transfer"]
    assert first.startswith(b"\x00\x53\x70\xc0\x05\x04" + flag + b"@@A")
    assert plain.startswith(b"\x00\x53\x70\xc0\x05\x04\x42@@A")
    assert first.endswith(rest)
    assert first[10:] == plain[10:]
