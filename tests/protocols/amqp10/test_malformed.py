"""Malformed performatives end the smallest scope that their readable fields identify."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import UINT, ULONG, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, names, performative, transfers

WRONG = encode_value("no such type here")
"""A value of a type that none of the damaged fields has."""
LONG_TAG = encode_value(bytes(33))
ROLE = encode_value(True)
ZERO = encode_value(Typed(UINT, 0))
NAME = encode_value("new")
HANDLE = encode_value(Typed(UINT, 7))
SENDER = encode_value(Typed(UINT, 0))
RECEIVER = encode_value(Typed(UINT, 1))
NULL = b"\x40"


def fields(code: int, *values: bytes, count: int | None = None) -> bytes:
    """Return a performative with these encoded fields."""
    octets = b"".join(values)
    number = len(values) if count is None else count
    head = b"\x00" + encode_value(Typed(ULONG, code))
    return head + b"\xd0" + (len(octets) + 4).to_bytes(4, "big") + number.to_bytes(4, "big") + octets


class Case(NamedTuple):
    octets: bytes
    ends: str
    """What is said: the name of a performative, and the handle of a detach."""
    condition: str = "amqp:decode-error"


WINDOWS = (ZERO, ZERO, ZERO, encode_value(Typed(UINT, 100)))
CASES = {
    "attach with a mode of another type": Case(fields(spec.ATTACH, NAME, HANDLE, ROLE, WRONG), "detach 7"),
    "attach with a mode that there is not": Case(
        fields(spec.ATTACH, NAME, HANDLE, ROLE, b"\x50\x03"), "detach 7", "amqp:invalid-field"
    ),
    "attach with a source of another type": Case(
        fields(spec.ATTACH, NAME, HANDLE, ROLE, NULL, NULL, encode_value("/queues/q")), "detach 7"
    ),
    "attach with properties whose keys are strings": Case(
        fields(spec.ATTACH, NAME, HANDLE, ROLE, *[NULL] * 10, encode_value({"a": 1})), "detach 7", "amqp:invalid-field"
    ),
    "attach of a sender with a target of another type": Case(
        fields(spec.ATTACH, NAME, HANDLE, b"\x42", NULL, NULL, NULL, WRONG), "detach 7"
    ),
    "attach with too many fields": Case(fields(spec.ATTACH, NAME, HANDLE, ROLE, *[NULL] * 12), "detach 7"),
    "attach with octets behind it": Case(fields(spec.ATTACH, NAME, HANDLE, ROLE) + NULL, "detach 7"),
    "attach with a handle in use": Case(
        fields(spec.ATTACH, NAME, SENDER, ROLE, WRONG), "end", "amqp:session:handle-in-use"
    ),
    "attach without a name": Case(fields(spec.ATTACH, NULL, HANDLE, ROLE), "end", "amqp:invalid-field"),
    "attach without a handle": Case(fields(spec.ATTACH, NAME, NULL, ROLE), "end", "amqp:invalid-field"),
    "attach without a role": Case(fields(spec.ATTACH, NAME, HANDLE), "end", "amqp:invalid-field"),
    "attach whose list is longer than its frame": Case(fields(spec.ATTACH, NAME, HANDLE, ROLE)[:-1], "end"),
    "detach with an error of another type": Case(fields(spec.DETACH, SENDER, ROLE, WRONG), "detach 0"),
    "detach without a handle": Case(fields(spec.DETACH, NULL, ROLE), "end", "amqp:invalid-field"),
    "detach of a handle that no link has": Case(fields(spec.DETACH, HANDLE, ROLE, WRONG), "end"),
    "transfer with a tag that is too long": Case(
        fields(spec.TRANSFER, SENDER, ZERO, LONG_TAG), "detach 0", "amqp:invalid-field"
    ),
    "transfer with a format of another type": Case(fields(spec.TRANSFER, SENDER, ZERO, NULL, WRONG), "detach 0"),
    "transfer with a delivery-id of another type": Case(fields(spec.TRANSFER, SENDER, WRONG), "end"),
    "transfer without a handle": Case(fields(spec.TRANSFER, NULL, ZERO), "end", "amqp:invalid-field"),
    "flow with a credit of another type": Case(fields(spec.FLOW, *WINDOWS, RECEIVER, ZERO, WRONG), "detach 1"),
    "flow with properties whose keys are strings": Case(
        fields(spec.FLOW, *WINDOWS, RECEIVER, *[NULL] * 5, encode_value({"a": 1})), "detach 1", "amqp:invalid-field"
    ),
    "flow without a window": Case(fields(spec.FLOW, ZERO), "end", "amqp:invalid-field"),
    "flow of the session with an echo of another type": Case(fields(spec.FLOW, *WINDOWS, *[NULL] * 5, WRONG), "end"),
    "disposition with a state of another type": Case(
        fields(spec.DISPOSITION, ROLE, ZERO, NULL, ROLE, WRONG), "detach 1"
    ),
    "disposition with a state that is no state": Case(
        fields(spec.DISPOSITION, ROLE, ZERO, NULL, ROLE, fields(spec.SOURCE)), "detach 1"
    ),
    "disposition with a received that lacks its fields": Case(
        fields(spec.DISPOSITION, ROLE, ZERO, NULL, ROLE, fields(spec.RECEIVED)), "detach 1", "amqp:invalid-field"
    ),
    "disposition of deliveries that were not sent": Case(
        fields(spec.DISPOSITION, ROLE, HANDLE, NULL, ROLE, WRONG), "end"
    ),
    "disposition of a sender": Case(fields(spec.DISPOSITION, b"\x42", ZERO, NULL, ROLE, WRONG), "end"),
    "disposition without a first delivery": Case(fields(spec.DISPOSITION, ROLE), "end", "amqp:invalid-field"),
    "begin without a window": Case(fields(spec.BEGIN, NULL, ZERO), "close", "amqp:invalid-field"),
    "end with an error of another type": Case(fields(spec.END, WRONG), "close"),
    "open without a container": Case(fields(spec.OPEN, NULL), "close", "amqp:invalid-field"),
    "no performative": Case(fields(0x99, ZERO), "close", "amqp:not-implemented"),
    "no described value": Case(b"\x43", "close"),
}


def scene() -> Amqp10Dialogue:
    """Sessions 0 and 1, each with a sender to q (0) and a receiver of it (1); the receiver of 0 has a delivery."""
    client = Amqp10Dialogue().declare("q").declare("r")
    client.begin(1)
    for channel in (0, 1):
        client.attach_sender("/queues/r", 0, channel, name=f"s{channel}")
        client.attach_receiver("/queues/q", 1, 0, channel, name=f"r{channel}")
    other = Amqp10Dialogue(client.driver, container_id="other")
    other.attach_sender("/queues/q")
    other.put(b"1", settled=True)
    assert len(transfers(client.flow(1, 1))) == 1
    return client


@pytest.mark.parametrize("what", CASES)
def test_malformed_performative_ends_the_smallest_possible_scope(what: str) -> None:
    client, case = scene(), CASES[what]
    heard = client.say(frame(0, case.octets))
    said = [f"{each.name} {each.field('handle')}" if each.name == "detach" else each.name for each in heard]
    assert [each for each in said if each != "attach"] == [case.ends]
    assert condition(heard[-1]) == case.condition
    if case.ends == "close":
        return
    (accepted_there,) = client.say(
        performative(spec.TRANSFER, 1, b"\x00\x53\x75\xa0\x01x", handle=0, delivery_id=0, delivery_tag=b"t")
    )
    assert accepted_there.name == "disposition", "another session goes on"
    assert client.available("q") + client.depth("r") >= 1
    if case.ends == "end":
        assert client.available("q") == 1, "the delivery of the session has returned"
        return
    handle = int(case.ends.split()[1])
    again = client.say(performative(spec.DETACH, handle=handle, closed=True)) if "detach with" not in what else []
    assert again == []
    assert names(client.attach_sender("/queues/r", handle, name="again"))[0] == "attach", "the handle is free"
    if handle != 1:
        assert names(client.settle(0, 0, accepted())) == []
        assert client.depth("q") == 0, "the receiver of the session goes on"
    if "transfer" not in what and handle != 0:
        payload = b"\x00\x53\x75\xa0\x01x"
        (outcome,) = client.say(performative(spec.TRANSFER, 0, payload, handle=0, delivery_id=0, delivery_tag=b"t"))
        assert outcome.name == "disposition", "the sender of the session goes on"


def test_malformed_transfer_counts_the_delivery_in_the_session() -> None:
    client = scene()
    client.attach_sender("/queues/r", 5, name="other")
    client.say(frame(0, fields(spec.TRANSFER, SENDER, ZERO, NULL, WRONG)))
    payload = b"\x00\x53\x75\xa0\x01x"
    (outcome,) = client.say(performative(spec.TRANSFER, 0, payload, handle=5, delivery_id=1, delivery_tag=b"t"))
    assert outcome.name == "disposition"


def test_malformed_frame_of_a_refused_link_is_ignored() -> None:
    client = scene()
    assert names(client.attach_sender("/queues/none", 7, name="refused")) == ["attach", "detach"]
    assert client.say(frame(0, fields(spec.TRANSFER, HANDLE, ZERO, LONG_TAG))) == []
    assert client.say(frame(0, fields(spec.DETACH, HANDLE, ROLE, WRONG))) == []
    assert names(client.attach_sender("/queues/r", 7, name="new"))[0] == "attach"


def test_malformed_continuation_detaches_the_link_and_drops_the_delivery() -> None:
    client = scene()
    first = performative(spec.TRANSFER, 0, b"\x00\x53\x75", handle=0, delivery_id=0, delivery_tag=b"t", more=True)
    heard = client.say(first, frame(0, fields(spec.TRANSFER, SENDER, NULL, NULL, WRONG)))
    assert names(heard) == ["detach"]
    assert (client.depth("r"), client.connection.arriving) == (0, 0)


def test_malformed_performative_on_a_channel_without_a_session_closes_the_connection() -> None:
    (closed,) = Amqp10Dialogue().say(frame(9, fields(spec.ATTACH, NAME, HANDLE, ROLE, WRONG)))
    assert closed.name == "close"


def test_malformed_performative_of_an_ended_session_is_ignored() -> None:
    client = scene()
    assert names(client.say(frame(0, fields(spec.FLOW, ZERO)))) == ["end"]
    assert client.say(frame(0, fields(spec.ATTACH, NAME, HANDLE, ROLE, WRONG))) == []
    assert client.say(performative(spec.END)) == []
    assert names(client.begin(0)) == ["begin"]
