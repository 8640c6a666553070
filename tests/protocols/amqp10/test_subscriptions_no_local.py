"""No-local on a topic belongs to the binding: own messages enter no queue of the subscription."""

from __future__ import annotations

import pytest

from penstock.core.routing.exchange import NO_LOCAL as BOUND_NO_LOCAL
from penstock.errors import InvalidField
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode_composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section, names
from tests.support.amqp10_transactions import TransactionalPeer

NO_LOCAL = Described(Symbol("apache.org:no-local-filter:list"), [])
RED = Described(Symbol("apache.org:selector-filter:string"), "colour = 'red'")
DURABLE = {"durable": 2, "expiry_policy": "never"}
SUBSCRIPTIONS: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "exclusive": ((), {}),
    "durable": ((), DURABLE),
    "shared": (("shared",), {}),
    "shared durable": (("shared",), DURABLE),
    "global": (("shared", "global"), {}),
    "global durable": (("shared", "global"), DURABLE),
}
EXCHANGES = ("amq.topic", "amq.direct", "amq.fanout", "amq.headers")
PUBLISHERS = {
    "the same connection": (True, "own", {"exclusive": 0}, 0),
    "another connection of the container": (False, "own", {"exclusive": 1}, 0),
    "another container": (False, "other", {}, 1),
}
"""Whether the publisher is the subscriber's connection, its container, and what a subscription then gets: by kind, and
all others."""


def coloured(colour: str) -> bytes:
    return b"\x00\x53\x74" + encode_value({"colour": colour}) + data_section(colour.encode())


def no_local_topic(
    address: str, selects: bool = False, capabilities: tuple[str, ...] = (), **fields: object
) -> Composite:
    filters = {Symbol("n"): NO_LOCAL, **({Symbol("s"): RED} if selects else {})}
    return composite(spec.SOURCE, address=address, capabilities=["topic", *capabilities], filter=filters, **fields)


def subscriber(kind: str, exchange: str = "amq.topic", selects: bool = False) -> Amqp10Dialogue:
    capabilities, fields = SUBSCRIPTIONS[kind]
    source = no_local_topic(f"{exchange}/k", selects, capabilities, **fields)
    client = Amqp10Dialogue(container_id="own")
    (attached,) = client.attach_receiver(None, 1, name="sub", source=source)
    granted = attached.performative.inner("source")
    assert granted is not None
    assert granted.mapping("filter").keys() == source.mapping("filter").keys()
    return client


def kept(client: Amqp10Dialogue) -> int:
    queues = client.vhost.queues.values()
    return sum(int(queue.messages) for queue in queues if queue.name.startswith("amq.subscription"))


@pytest.mark.parametrize("selects", [False, True], ids=["all", "selector"])
@pytest.mark.parametrize("publisher", PUBLISHERS)
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("kind", SUBSCRIPTIONS)
def test_subscription_with_no_local_keeps_only_messages_of_other_connections(
    kind: str, exchange: str, publisher: str, selects: bool
) -> None:
    client = subscriber(kind, exchange, selects)
    is_same, container, by_kind, otherwise = PUBLISHERS[publisher]
    other = client if is_same else Amqp10Dialogue(client.driver, container_id=container)
    other.attach_sender(f"/exchanges/{exchange}/k")
    other.say(*(other.transfer(coloured(each)) for each in ("red", "blue")))
    each = by_kind.get(kind, otherwise)
    assert kept(client) == (each if selects else 2 * each)


TARGETS = {"key": "/exchanges/amq.topic/k", "subject": "/exchanges/amq.topic", "anonymous": None}


@pytest.mark.parametrize("target", TARGETS)
def test_subscription_with_no_local_applies_to_all_kinds_of_targets(target: str) -> None:
    client = subscriber("exclusive")
    properties = composite(spec.PROPERTIES, to="/exchanges/amq.topic/k", subject="k")
    client.attach_sender(TARGETS[target])
    client.say(client.transfer(encode_composite(properties) + data_section(b"1")))
    assert kept(client) == 0


def test_subscription_with_no_local_applies_behind_bound_exchanges() -> None:
    client = subscriber("durable", "amq.fanout")
    client.vhost.bind("amq.topic", None, client.vhost.exchange("amq.fanout"), "#", {})
    other = Amqp10Dialogue(client.driver, container_id="other")
    for each in (client, other):
        each.attach_sender("/exchanges/amq.topic/k")
        each.put(b"1")
    assert kept(client) == 1


def test_own_messages_never_close_the_gate_of_a_no_local_subscription() -> None:
    client = subscriber("exclusive")
    client.attach_sender(
        "/exchanges/amq.topic/k",
        target=composite(spec.TARGET, address="/exchanges/amq.topic/k", capabilities=["topic"]),
    )
    for _ in range(20):
        client.put(*(bytes(60_000) for _ in range(100)))  # 114 MiB, more than the default capacity.
    assert (kept(client), client.credit_of() > 0) == (0, True)


def test_durable_no_local_subscription_excludes_the_container_while_detached() -> None:
    client = subscriber("durable")
    client.detach(1, closed=False)
    again = Amqp10Dialogue(client.driver, container_id="own")
    other = Amqp10Dialogue(client.driver, container_id="other")
    for each in (again, other):
        each.attach_sender("/exchanges/amq.topic/k")
        each.put(b"1")
    assert kept(client) == 1


def test_subscription_with_no_local_leaves_other_subscriptions_alone() -> None:
    client = subscriber("exclusive")
    topic = composite(spec.SOURCE, address="amq.topic/k", capabilities=["topic"])
    client.attach_receiver(None, 2, source=topic)
    client.attach_sender("/exchanges/amq.topic/k")
    client.put(b"1", b"2")
    assert kept(client) == 2


def test_committed_messages_of_the_own_connection_enter_no_queue() -> None:
    client = TransactionalPeer()
    client.attach_receiver(None, 1, name="sub", source=no_local_topic("amq.topic/k"))
    client.attach_sender("/exchanges/amq.topic/k")
    txn = client.begin_transaction()
    client.say(client.post(txn))
    client.discharge(txn)
    assert kept(client) == 0


@pytest.mark.parametrize("value", [True, 1.5, ["own"]])
def test_binding_argument_no_local_of_another_type_is_refused(value: object) -> None:
    client = Amqp10Dialogue().declare("q")
    with pytest.raises(InvalidField, match="x-no-local"):
        client.vhost.bind("amq.topic", client.vhost.queues["q"], None, "k", {BOUND_NO_LOCAL: value})
    assert names(client.attach_sender("/exchanges/amq.topic/k"))[0] == "attach"
