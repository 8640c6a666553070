"""Expiry of a message by absolute-expiry-time or ttl, whichever is earlier."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import TIMESTAMP, Described, Symbol, Typed, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, names, sender, transfers
from tests.support.amqp10_transactions import TransactionalPeer

WALL = 1_700_000_000.0
"""Seconds since 1970 at 100.0 s of the broker's clock."""
NOW = 100.0
TIMES: dict[str, tuple[float | None, float | None, float | None]] = {
    "neither": (None, None, None),
    "ttl": (5.0, None, 5.0),
    "absolute": (None, 5.0, 5.0),
    "absolute before ttl": (9.0, 5.0, 5.0),
    "ttl before absolute": (5.0, 9.0, 5.0),
    "absolute in the past": (None, -60.0, 0.0),
    "absolute before 1970": (None, -WALL - 5.0, 0.0),
    "absolute of 0": (None, -WALL, None),
    "absolute of 0 with a ttl": (5.0, -WALL, 5.0),
    "absolute at the end of time": (None, 1e15, None),
    "absolute at the end of time with a ttl": (5.0, 1e15, 5.0),
}
"""Seconds of ttl and until the absolute-expiry-time, and after which the message has expired (None: never)."""
TARGETS = {
    "queue": "/queues/q",
    "subject": "/exchanges/amq.direct",
    "anonymous": None,
    "headers": "/exchanges/amq.match/k",
}


def timed(ttl_s: float | None, until_s: float | None, **annotations: object) -> bytes:
    header = composite(spec.HEADER, ttl=None if ttl_s is None else int(ttl_s * 1000))
    expiry = None if until_s is None else Typed(TIMESTAMP, max(int((WALL + until_s) * 1000), -(1 << 60)))
    properties = composite(
        spec.PROPERTIES, to="/queues/q", subject="q", absolute_expiry_time=expiry.value if expiry else None
    )
    said = {Symbol(name.replace("_", "-")): value for name, value in annotations.items()}
    notes = encode_value(Described(ulong(spec.MESSAGE_ANNOTATIONS), said)) if said else b""
    return encode_composite(header) + notes + encode_composite(properties) + data_section(b"x")


def at_wall(client: Amqp10Dialogue, **arguments: object) -> Amqp10Dialogue:
    client.driver.broker.wall_offset = WALL - NOW
    client.driver.begin(NOW)
    client.declare("q", **arguments)
    for exchange in ("amq.direct", "amq.match"):
        client.vhost.bind(exchange, client.vhost.queues["q"], None, "q", {})
    return client


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("target", TARGETS)
def test_message_expires_at_the_earlier_of_two_times(target: str, times: str) -> None:
    ttl_s, until_s, after_s = TIMES[times]
    client = at_wall(Amqp10Dialogue())
    client.attach_sender(TARGETS[target])
    assert names(client.say(client.transfer(timed(ttl_s, until_s)))) == ["disposition"]
    if after_s is None:
        client.listen(NOW + 1e6)
        assert client.depth("q") == 1
        return
    if after_s > 0.0:
        client.listen(NOW + after_s - 0.1)
        assert client.depth("q") == 1
    client.listen(NOW + after_s + 0.1)
    assert client.depth("q") == 0


def test_expired_message_is_not_delivered_to_a_waiting_consumer() -> None:
    client = at_wall(Amqp10Dialogue())
    client.attach_sender("/queues/q")
    client.attach_receiver("/queues/q", 1, credit=10)
    heard = client.say(client.transfer(timed(None, -60.0)), client.transfer(timed(None, None)))
    assert len(transfers(heard)) == 1


def test_expired_message_becomes_a_dead_letter() -> None:
    client = at_wall(Amqp10Dialogue(), x_dead_letter_exchange="", x_dead_letter_routing_key="letters")
    client.declare("letters").attach_sender("/queues/q")
    client.say(client.transfer(timed(None, 5.0)))
    client.listen(NOW + 5.1)
    client.listen(NOW + 1e6)
    assert (client.depth("q"), client.depth("letters")) == (0, 1)


def test_held_message_expires_at_the_given_time_and_not_after_the_entry() -> None:
    client = at_wall(Amqp10Dialogue(), capacity_messages=1, hold_deadline=1000)
    client.attach_sender("/queues/q")
    client.say(client.transfer(timed(None, None)), client.transfer(timed(None, 5.0)))
    client.listen(NOW + 4.0)
    client.attach_receiver("/queues/q", 1, credit=1)
    client.settle(0, 0, accepted())
    client.listen(NOW + 4.5)
    assert client.depth("q") == 1
    client.listen(NOW + 5.1)
    assert client.depth("q") == 0


def test_committed_message_expires_at_the_given_time_and_not_after_the_commit() -> None:
    client = at_wall(TransactionalPeer())
    assert isinstance(client, TransactionalPeer)
    client.attach_sender("/queues/q")
    txn = client.begin_transaction()
    client.say(client.transfer(timed(None, 5.0), state=composite(spec.TRANSACTIONAL_STATE, txn_id=txn)))
    client.listen(NOW + 4.0)
    client.discharge(txn)
    assert client.depth("q") == 1
    client.listen(NOW + 5.1)
    assert client.depth("q") == 0


def application_properties(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return b"\x00\x53\x74\xc1" + bytes([len(content) + 1, 2 * len(entries)]) + content


TWICE = {
    "two equal keys": (b"\xa1\x01a\x41", b"\xa1\x01a\x41"),
    "two forms of a key": (b"\xa1\x01a\x41", b"\xb1\x00\x00\x00\x01a\x41"),
    "others between them": (b"\xa1\x01a\x41", b"\xa1\x02bb\x41", b"\xa1\x00\x41", b"\xa1\x01a\x42"),
    "two empty keys": (b"\xa1\x00\x41", b"\xa1\x00\x41"),
}
ONCE = {
    "keys with the same ends": (b"\xa1\x03axa\x41", b"\xa1\x03aya\x41", b"\xa1\x02aa\x41"),
    "many keys": tuple(b"\xa1\x02%02d\x41" % number for number in range(40)),
}


@pytest.mark.parametrize("what", TWICE)
def test_message_with_a_duplicate_key_is_rejected_on_arrival(what: str) -> None:
    client = sender()
    (rejected,) = client.say(client.transfer(application_properties(*TWICE[what]) + data_section(b"x")))
    assert condition(rejected) == "amqp:decode-error"
    assert "twice" in str(rejected.field("state"))
    assert client.depth("q") == 0


def test_annotations_with_a_duplicate_key_are_rejected_on_arrival() -> None:
    client = sender()
    notes = b"\x00\x53\x72\xc1\x0d\x04\xa3\x03x-a\x41\xa3\x03x-a\x42"
    (rejected,) = client.say(client.transfer(notes + data_section(b"x")))
    assert condition(rejected) == "amqp:decode-error"


@pytest.mark.parametrize("what", ONCE)
def test_message_with_similar_keys_is_accepted(what: str) -> None:
    client = sender()
    client.say(client.transfer(application_properties(*ONCE[what]) + data_section(b"x")))
    assert client.depth("q") == 1
