"""Bad input: the smallest scope is closed, nothing is stored, and other links and connections go on."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import frame
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, names, sender, transfers

MANDATORY = {
    "begin without incoming-window": (b"\x00\x53\x11\xc0\x04\x03\x40\x43\x40", "incoming-window"),
    "attach without a name": (b"\x00\x53\x12\xc0\x04\x03\x40\x43\x42", "name"),
    "attach without a handle": (b"\x00\x53\x12\xc0\x06\x03\xa1\x01a\x40\x42", "handle"),
    "transfer without a handle": (b"\x00\x53\x14\xc0\x02\x01\x40", "handle"),
    "disposition without first": (b"\x00\x53\x15\xc0\x03\x02\x41\x40", "first"),
    "detach without a handle": (b"\x00\x53\x16\xc0\x02\x01\x40", "handle"),
    "flow without windows": (b"\x00\x53\x13\xc0\x02\x01\x40", "incoming-window"),
}
WRONG = {
    "performative cut short": b"\x00\x53\x14\xc0\x20\x05\x43",
    "no described value": b"\x43",
    "a list that is longer than its frame": b"\x00\x53\x14\xd0\xff\xff\xff\xf0\x00\x00\x00\x05",
    "an array of 4 GiB": b"\x00\x53\x12\xc0\x0f\x01\xf0\xff\xff\xff\xf0\xff\xff\xff\xf0\x40\x40\x40\x40",
    "a field of a wrong type": b"\x00\x53\x14\xc0\x04\x01\xa1\x01a",
    "too many fields": b"\x00\x53\x16\xc0\x05\x04\x43\x42\x40\x40",
    "nested 100 deep": b"\x00\x53\x13" + b"\xd0\x00\x00\x00\xff\x00\x00\x00\x01" * 100,
    "octets after it": encode_composite(composite(spec.DETACH, handle=0)) + b"\x40",
}


@pytest.mark.parametrize("what", MANDATORY)
def test_absent_mandatory_field_is_named(what: str) -> None:
    octets, field = MANDATORY[what]
    (ended,) = sender().say(frame(0, octets))
    assert (ended.name, condition(ended)) == ("close" if "begin" in what else "end", "amqp:invalid-field")
    assert field in str(ended.field("error"))


@pytest.fixture
def client() -> Amqp10Dialogue:
    return sender()


@pytest.mark.parametrize("what", WRONG)
def test_malformed_performative_ends_at_most_the_session(what: str, client: Amqp10Dialogue) -> None:
    """What it ends at least is in test_malformed.py."""
    (ended,) = client.say(frame(0, WRONG[what]))
    names_of_ends = {"no described value": "close", "octets after it": "detach", "too many fields": "detach"}
    assert (ended.name, condition(ended)) == (names_of_ends.get(what, "end"), "amqp:decode-error")
    assert client.connection.arriving == 0


@pytest.mark.parametrize(("modes", "field"), [(b"\x50\x03", "snd-settle-mode"), (b"\x40\x50\x02", "rcv-settle-mode")])
def test_field_out_of_range_refuses_the_link(modes: bytes, field: str) -> None:
    fields = b"\xa1\x01a\x43\x41" + modes
    count = 4 if field == "snd-settle-mode" else 5
    heard = Amqp10Dialogue().say(frame(0, b"\x00\x53\x12\xc0" + bytes([len(fields) + 1, count]) + fields))
    assert (names(heard), condition(heard[-1])) == (["attach", "detach"], "amqp:invalid-field")
    assert field in str(heard[-1].field("error"))


def test_empty_frames_are_traffic_and_no_more(client: Amqp10Dialogue) -> None:
    assert client.say(frame(0, b""), frame(77, b"")) == []
    assert names(client.say(client.transfer(data_section(b"x")))) == ["disposition"]


def test_message_of_an_unknown_format_is_rejected(client: Amqp10Dialogue) -> None:
    (rejected,) = client.say(client.transfer(data_section(b"x"), message_format=0x80013700))
    assert condition(rejected) == "amqp:not-implemented"
    assert names(client.say(client.transfer(data_section(b"x"), message_format=None))) == ["disposition"]
    assert client.depth("q") == 1


def test_tag_of_more_than_32_bytes_detaches_the_link(client: Amqp10Dialogue) -> None:
    body = b"\x00\x53\x14\xc0\x28\x03\x43\x43\xa0\x21" + bytes(33)
    (detached,) = client.say(frame(0, body[:4] + bytes([len(body) - 5]) + body[5:]))
    assert detached.name == "detach"


def test_more_transfers_than_the_window_end_the_session(client: Amqp10Dialogue) -> None:
    session = client.session()
    session.windows.incoming_window = 2
    frames = [client.transfer(data_section(b"x"), settled=True) for _ in range(3)]
    heard = client.say(*frames)
    assert condition(heard[-1]) == "amqp:session:window-violation"
    assert names(client.begin(1)) == ["begin"], "the connection goes on"


def test_window_is_renewed_after_half_is_used(client: Amqp10Dialogue) -> None:
    session = client.session()
    client.say(client.transfer(data_section(b"x"), settled=True))
    session.windows.incoming_window = 2_048
    heard = client.say(client.transfer(data_section(b"x"), settled=True))
    told = (*heard, *client.grants.values())
    assert 2 in [each.field("next_incoming_id") for each in told if each.field("incoming_window") == 4096]
    assert int(session.windows.incoming_window) == 4096


def test_transfer_ids_begin_again_at_zero() -> None:
    client = Amqp10Dialogue(session=False)
    client.begin(0, next_outgoing_id=0xFFFFFFFE)
    client.declare("q")
    client.attach_sender("/queues/q", initial_delivery_count=0xFFFFFFFE)
    client.put(*[b"x"] * 4, settled=True)
    assert client.flow(0, 0, next_outgoing_id=2, delivery_count=2, echo=True) == []
    flow = client.grants[0, 0]
    assert (flow.field("next_incoming_id"), flow.field("delivery_count")) == (2, 2)
    assert client.depth("q") == 4


def test_delivery_count_of_a_receiver_begins_again_at_zero(client: Amqp10Dialogue) -> None:
    client.put(*[b"x"] * 6, settled=True)
    client.attach_receiver("/queues/q", 1)
    link = client.session().links.by_handle[1]
    link.credit.delivery_count = 0xFFFFFFFE  # type: ignore[attr-defined]
    assert len(transfers(client.flow(1, 4, delivery_count=0xFFFFFFFE))) == 4
    assert len(transfers(client.flow(1, 3, delivery_count=1))) == 2, "one of three is used already"
    (flow,) = client.flow(1, 0, delivery_count=4, echo=True)
    assert flow.field("delivery_count") == 4


def test_credit_that_wraps_around_is_no_credit_without_end(client: Amqp10Dialogue) -> None:
    client.put(*[b"x"] * 3, settled=True)
    client.attach_receiver("/queues/q", 1)
    assert len(transfers(client.flow(1, 0xFFFFFFFF))) == 3
    assert transfers(client.flow(1, 0, delivery_count=3)) == []


def test_refused_links_take_no_memory_except_handles() -> None:
    client = Amqp10Dialogue()
    for handle in range(1024):
        client.attach_sender("/queues/none", handle)
    assert len(client.session().links.ignored) == 1024
    (ended,) = client.attach_sender("/queues/none", 5)
    assert condition(ended) == "amqp:session:handle-in-use"


def test_disposition_with_a_range_of_the_whole_number_space_is_harmless(client: Amqp10Dialogue) -> None:
    client.put(*[b"x"] * 3, settled=True)
    client.attach_receiver("/queues/q", 1, credit=3)
    client.settle(0x80000004, 2, accepted())
    assert client.depth("q") == 0
    assert client.settle(2, 0, accepted()) == []
    (ended,) = client.settle(0, 0x7FFFFFFF, accepted())
    assert condition(ended) == "amqp:not-allowed"
