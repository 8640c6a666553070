"""Delays by the annotations of a message over AMQP 1.0, also in transactions, and the capability of JMS."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import DOUBLE, INT, LONG, TIMESTAMP, UINT, ULONG, Described, Symbol, Typed, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, data_section, names, transfers
from tests.support.amqp10_transactions import TransactionalPeer

WALL = 1_700_000_000.0
"""Seconds since 1970 at 100.0 s of the broker's clock."""
NOW = 100.0
LATER = int((WALL + 60) * 1000)


def message(body: bytes = b"x", header: bytes = b"", **annotations: object) -> bytes:
    """Return a message with annotations, with hyphens for underscores."""
    table = {Symbol(name.replace("_", "-")): value for name, value in annotations.items()}
    return header + encode_value(Described(ulong(spec.MESSAGE_ANNOTATIONS), table)) + data_section(body)


def at_wall(client: Amqp10Dialogue, **arguments: object) -> Amqp10Dialogue:
    client.driver.broker.wall_offset = WALL - NOW
    client.listen(NOW)
    client.declare("q", **arguments)
    return client


def waiting(client: Amqp10Dialogue) -> list[float]:
    """Return when the delayed messages of the queue are due, in seconds from now."""
    delays = client.driver.broker.vhosts["/"].queues["q"].delays
    return [] if delays is None else [round(each.envelope.due_time() - NOW, 3) for each in delays.first(1000)]


DELAYS: dict[str, tuple[dict[str, object], list[float]]] = {
    "delay of an unsigned long": ({"x_opt_delivery_delay": Typed(ULONG, 5000)}, [5.0]),
    "delay of an unsigned int": ({"x_opt_delivery_delay": Typed(UINT, 1)}, [0.001]),
    "delay of a long": ({"x_opt_delivery_delay": Typed(LONG, 5000)}, [5.0]),
    "longest delay": ({"x_opt_delivery_delay": Typed(ULONG, 1 << 53)}, [(1 << 53) / 1000]),
    "no delay": ({"x_opt_delivery_delay": Typed(UINT, 0)}, []),
    "negative delay": ({"x_opt_delivery_delay": Typed(INT, -1)}, []),
    "null delay": ({"x_opt_delivery_delay": None}, []),
    "time to come": ({"x_opt_delivery_time": Typed(LONG, LATER)}, [60.0]),
    "time that has passed": ({"x_opt_delivery_time": Typed(LONG, int((WALL - 60) * 1000))}, []),
    "enqueue time to come": ({"x_opt_scheduled_enqueue_time": Typed(TIMESTAMP, LATER)}, [60.0]),
    "time and delay": ({"x_opt_delivery_time": Typed(LONG, LATER), "x_opt_delivery_delay": Typed(UINT, 5)}, [60.0]),
    "another annotation": ({"x_opt_delivery_delays": Typed(UINT, 5)}, []),
}


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "settled"])
@pytest.mark.parametrize("what", DELAYS)
def test_annotation_delays_a_message(what: str, settled: bool) -> None:
    annotations, due = DELAYS[what]
    client = at_wall(Amqp10Dialogue())
    client.attach_sender("/queues/q")
    heard = client.say(client.transfer(message(**annotations), settled=settled))
    assert [round(each) for each in waiting(client)] == [round(each) for each in due]
    assert client.depth("q") == 1
    assert [each.name for each in heard] == ([] if settled else ["disposition"])


INVALID: dict[str, dict[str, object]] = {
    "text": {"x_opt_delivery_delay": "5000"},
    "double": {"x_opt_delivery_delay": Typed(DOUBLE, 5000.0)},
    "boolean": {"x_opt_delivery_delay": True},
    "delay of 2^63": {"x_opt_delivery_delay": Typed(ULONG, 1 << 63)},
    "delay above the longest": {"x_opt_delivery_delay": Typed(ULONG, (1 << 53) + 1)},
    "time as a text": {"x_opt_delivery_time": "2026-01-01"},
    "time above the latest": {"x_opt_delivery_time": Typed(LONG, (1 << 53) + 1)},
    "time as a boolean": {"x_opt_scheduled_enqueue_time": True},
}


@pytest.mark.parametrize("settled", [False, True], ids=["unsettled", "settled"])
@pytest.mark.parametrize("what", INVALID)
def test_invalid_delay_is_refused_with_its_name_value_and_rule(what: str, settled: bool) -> None:
    client = at_wall(Amqp10Dialogue())
    client.attach_sender("/queues/q")
    (heard,) = client.say(client.transfer(message(**INVALID[what]), settled=settled))
    assert (heard.name, condition(heard)) == ("detach" if settled else "disposition", "amqp:invalid-field")
    assert client.depth("q") == 0


def test_delayed_message_is_delivered_when_it_is_due_with_its_annotation() -> None:
    client = at_wall(Amqp10Dialogue())
    client.attach_sender("/queues/q")
    client.attach_receiver("/queues/q", 1, credit=10)
    client.say(client.transfer(message(x_opt_delivery_delay=Typed(UINT, 5000))))
    assert not transfers(client.listen(NOW + 4.9))
    (delivered,) = transfers(client.listen(NOW + 5.01))
    assert b"x-opt-delivery-delay" in delivered.payload


def test_delayed_message_on_a_full_queue_is_due_by_the_time_of_its_publish() -> None:
    client = at_wall(Amqp10Dialogue(), capacity_messages=1, hold_deadline=1000)
    client.attach_sender("/queues/q")
    client.say(client.transfer(message(b"first")), client.transfer(message(x_opt_delivery_delay=Typed(UINT, 5000))))
    client.listen(NOW + 4.0)
    client.attach_receiver("/queues/q", 1, credit=1)
    client.settle(0, 0, composite(spec.ACCEPTED))
    client.listen(NOW + 4.5)
    assert waiting(client) == [5.0]


def test_delayed_message_of_a_transaction_is_due_by_the_time_of_its_publish() -> None:
    client = at_wall(TransactionalPeer())
    assert isinstance(client, TransactionalPeer)
    client.attach_sender("/queues/q")
    txn = client.begin_transaction()
    state = composite(spec.TRANSACTIONAL_STATE, txn_id=txn)
    client.say(client.transfer(message(x_opt_delivery_delay=Typed(UINT, 5000)), state=state))
    assert waiting(client) == []
    client.listen(NOW + 2.0)
    client.discharge(txn)
    assert waiting(client) == [5.0]


def test_time_to_live_begins_when_a_delayed_message_is_due() -> None:
    client = at_wall(Amqp10Dialogue())
    client.attach_sender("/queues/q")
    header = encode_composite(composite(spec.HEADER, ttl=2000))
    client.say(client.transfer(message(header=header, x_opt_delivery_delay=Typed(UINT, 5000))))
    client.listen(NOW + 5.0)
    client.listen(NOW + 6.9)
    assert client.depth("q") == 1
    client.listen(NOW + 7.1)
    client.listen(NOW + 7.2)
    assert client.depth("q") == 0


def test_capability_of_jms_is_offered_to_a_sender_that_asks_for_it() -> None:
    client = at_wall(Amqp10Dialogue())
    asked = client.attach_sender("/queues/q", desired_capabilities=["DELAYED_DELIVERY"])
    assert names(asked)[:1] == ["attach"]
    assert asked[0].performative.texts("offered_capabilities") == ["DELAYED_DELIVERY"]
    other = client.attach_sender("/queues/q", 5)
    assert other[0].performative.texts("offered_capabilities") == []


def test_application_property_delays_a_message_to_a_delaying_exchange() -> None:
    client = at_wall(Amqp10Dialogue())
    vhost = client.driver.broker.vhosts["/"]
    vhost.declare_exchange("later", "x-delayed-message", {"x-delayed-type": "fanout"}, False, False, False)
    vhost.bind("later", vhost.queues["q"], None, "", {})
    properties = encode_value(Described(ulong(spec.APPLICATION_PROPERTIES), {"x-delay": Typed(LONG, 7000)}))
    client.attach_sender("/exchanges/later", 6)
    client.say(client.transfer(properties + data_section(b"x"), 6))
    assert waiting(client) == [7.0]
