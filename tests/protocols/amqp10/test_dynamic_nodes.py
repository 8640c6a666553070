"""Dynamic nodes: the four lifetime policies, on sources and targets, queues and topics.

Subscriptions of receivers on exchanges: volatile, durable, shared and global.
"""

from __future__ import annotations

import pytest

from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_described, composite
from penstock.wire.amqp10.values import UINT, Array, Described, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, names, performative
from tests.support.amqp10_messages import last_octets


def dynamic(code: int, policy: int | None = None, *capabilities: str, **properties: object) -> Composite:
    """Return a dynamic terminus with a lifetime policy."""
    found: dict[object, object] = {Symbol(name.replace("_", "-")): value for name, value in properties.items()}
    if policy is not None:
        found[Symbol("lifetime-policy")] = as_described(composite(policy))
    fields = {"dynamic": True, "dynamic_node_properties": found or None, "capabilities": list(capabilities)}
    return composite(code, **fields)


def address_of(attached: Heard, terminus: str) -> str:
    found = attached.performative.inner(terminus)
    assert found.flag("dynamic")
    return found.text("address")


def nodes_of(client: Amqp10Dialogue) -> list[str]:
    vhost: VirtualHost = client.vhost
    return sorted(each for each in [*vhost.queues, *vhost.exchanges] if each.startswith(("amq.dyn", "dyn-")))


def sender(client: Amqp10Dialogue, handle: int, target: Composite) -> str:
    return address_of(client.attach_sender(None, handle, target=target)[0], "target")


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue()


def test_temporary_queue_takes_requests_of_others_and_ends_with_its_link(client: Amqp10Dialogue) -> None:
    address = address_of(client.attach_receiver(None, 1, source=dynamic(spec.SOURCE))[0], "source")
    other = Amqp10Dialogue(client.driver)
    assert names(other.attach_sender(address)) == ["attach", "flow"]
    other.say(other.transfer(data_section(b"answer")))
    (sent,) = client.flow(1, 1)
    assert sent.payload.endswith(b"answer")
    _, refused = other.attach_receiver(address, 5)
    assert condition(refused) == "amqp:resource-locked"
    client.detach(1)
    assert nodes_of(client) == []


@pytest.mark.parametrize("end", [performative(spec.END), performative(spec.CLOSE)])
def test_node_of_delete_on_close_ends_with_its_session(end: bytes, client: Amqp10Dialogue) -> None:
    sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_CLOSE))
    assert len(nodes_of(client)) == 1
    client.say(end)
    assert nodes_of(client) == []


def test_delete_on_no_links_waits_for_the_last_link(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_LINKS))
    client.attach_receiver(address, 1)
    client.attach_sender(address, 2)
    for handle, left in ((0, 1), (1, 1), (2, 0)):
        client.detach(handle)
        client.listen(client.driver.broker.now + 2)
        assert len(nodes_of(client)) == left


def test_delete_on_no_messages_waits_until_the_queue_is_empty(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_MESSAGES))
    client.say(client.transfer(data_section(b"x")))
    client.detach(0)
    client.listen(client.driver.broker.now + 2)
    assert len(nodes_of(client)) == 1
    client.attach_receiver(address, 1, credit=1)
    client.settle(0, 0, composite(spec.ACCEPTED))
    (detached,) = client.listen(client.driver.broker.now + 2)
    assert condition(detached) == "amqp:resource-deleted"
    assert nodes_of(client) == []


def test_delete_on_no_links_or_messages_waits_for_both(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, spec.DELETE_ON_NO_LINKS_OR_MESSAGES))
    client.say(client.transfer(data_section(b"x")))
    client.detach(0)
    client.attach_receiver(address, 1, credit=1)
    client.settle(0, 0, composite(spec.ACCEPTED))
    client.listen(client.driver.broker.now + 2)
    assert len(nodes_of(client)) == 1
    client.detach(1)
    client.listen(client.driver.broker.now + 2)
    assert nodes_of(client) == []


def test_temporary_topic_is_an_exchange(client: Amqp10Dialogue) -> None:
    address = sender(client, 0, dynamic(spec.TARGET, None, "temporary-topic"))
    topic = composite(spec.SOURCE, address=address, capabilities=["topic"])
    for handle in (1, 2):
        client.attach_receiver(None, handle, credit=1, source=topic)
    heard = client.say(client.transfer(data_section(b"news")))
    assert names(heard).count("transfer") == 2
    client.detach(0)
    assert nodes_of(client) == []


def test_node_properties_are_arguments_of_the_queue(client: Amqp10Dialogue) -> None:
    sender(client, 0, dynamic(spec.TARGET, None, capacity_messages=7))
    (name,) = nodes_of(client)
    assert client.vhost.queues[name].thresholds.capacity.messages == 7


def test_dynamic_terminus_with_an_address_is_refused(client: Amqp10Dialogue) -> None:
    target = composite(spec.TARGET, address="/queues/q", dynamic=True)
    _, detached = client.attach_sender(None, target=target)
    assert condition(detached) == "amqp:invalid-field"
    assert nodes_of(client) == []


@pytest.mark.parametrize("name", ["lifetime-policy", "supported-dist-modes"])
def test_node_property_of_a_wrong_type_is_refused(name: str, client: Amqp10Dialogue) -> None:
    source = composite(spec.SOURCE, dynamic=True, dynamic_node_properties={Symbol(name): Typed(UINT, 7)})
    attached, detached = client.attach_receiver(None, source=source)
    assert (attached.field("source"), condition(detached)) == (None, "amqp:invalid-field")


def test_distribution_modes_of_a_node_are_one_or_several() -> None:
    for modes in (Symbol("move"), Array("symbol", ["move", "copy"])):
        client = Amqp10Dialogue()
        properties = {Symbol("supported-dist-modes"): modes}
        source = composite(spec.SOURCE, dynamic=True, dynamic_node_properties=properties)
        assert names(client.attach_receiver(None, source=source)) == ["attach"]


TOPIC = "/exchanges/amq.topic/news"
DURABLE = {"durable": 2, "expiry_policy": "never"}


def subscribe(
    client: Amqp10Dialogue, handle: int, name: str, *capabilities: str, address: str = TOPIC, **fields: object
) -> list[Heard]:
    source = composite(spec.SOURCE, address=address, capabilities=["topic", *capabilities], **fields)
    return client.attach_receiver(None, handle, credit=10, name=name, source=source)


def publish(driver: BrokerDriver, body: bytes, address: str = TOPIC) -> None:
    client = Amqp10Dialogue(driver)
    client.attach_sender(address)
    client.say(client.transfer(data_section(body)))


def subscriptions(client: Amqp10Dialogue) -> list[str]:
    return [name for name in client.vhost.queues if name.startswith("amq.subscription")]


def test_each_volatile_subscription_gets_every_message_and_ends_with_its_link(client: Amqp10Dialogue) -> None:
    subscribe(client, 1, "a")
    subscribe(client, 2, "b")
    publish(client.driver, b"1")
    assert last_octets(client.listen()) == [b"1", b"1"]
    client.detach(1)
    assert len(subscriptions(client)) == 1
    client.say(performative(spec.CLOSE))
    assert subscriptions(client) == []


def test_topic_without_a_key_is_all_of_it_unless_a_filter_names_one(client: Amqp10Dialogue) -> None:
    subscribe(client, 1, "all", address="amq.topic")
    key = Described(Symbol("apache.org:legacy-amqp-topic-binding:string"), "sport.#")
    subscribe(client, 2, "some", address="amq.topic", filter={Symbol("topic"): key})
    publish(client.driver, b"1")
    publish(client.driver, b"2", "/exchanges/amq.topic/sport.golf")
    heard = [(each.field("handle"), each.payload[-1:]) for each in client.listen() if each.name == "transfer"]
    assert sorted(heard) == [(1, b"1"), (1, b"2"), (2, b"2")]


def test_durable_subscription_keeps_messages_while_nobody_is_there_and_ends_when_it_is_closed() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.detach(1, closed=False)
    client.say(performative(spec.CLOSE))
    publish(client.driver, b"1")
    again = Amqp10Dialogue(client.driver, container_id="me")
    assert last_octets(subscribe(again, 1, "sub", **DURABLE)) == [b"1"]
    again.detach(1)
    assert subscriptions(again) == []


def test_durable_subscription_that_asks_for_copies_takes_its_messages() -> None:
    """Qpid JMS asks for distribution-mode copy in all durable subscriptions."""
    client = Amqp10Dialogue(container_id="me")
    heard = subscribe(client, 1, "sub", distribution_mode="copy", **DURABLE)
    assert heard[0].field("snd_settle_mode") == 0
    publish(client.driver, b"1")
    (transfer,) = client.listen()
    assert not transfer.field("settled")
    (queue,) = subscriptions(client)
    client.say(performative(spec.DISPOSITION, role=True, first=0, settled=True, state=composite(spec.ACCEPTED)))
    assert client.depth(queue) == 0


def test_unsubscribe_finds_the_durable_subscription_by_a_null_source() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.say(performative(spec.CLOSE))
    again = Amqp10Dialogue(client.driver, container_id="me")
    (attached,) = again.attach_receiver(None, 1, name="sub", source=None)
    assert attached.performative.inner("source") is not None
    again.detach(1)
    assert subscriptions(again) == []
    attached, detached = again.attach_receiver(None, 1, name="sub", source=None)
    assert attached.field("source") is None
    assert condition(detached) == "amqp:not-found"


def test_another_topic_is_another_subscription() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.say(performative(spec.CLOSE))
    publish(client.driver, b"1")
    again = Amqp10Dialogue(client.driver, container_id="me")
    assert last_octets(subscribe(again, 1, "sub", address="/exchanges/amq.topic/other", **DURABLE)) == []


def test_links_of_a_shared_subscription_share_its_messages() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", "shared", **DURABLE)
    subscribe(client, 2, "sub|2", "shared", **DURABLE)
    for number in range(4):
        publish(client.driver, b"%d" % number)
    assert sorted(last_octets(client.listen())) == [b"0", b"1", b"2", b"3"]
    client.detach(1)
    assert len(subscriptions(client)) == 1
    client.detach(2)
    assert subscriptions(client) == []


def test_global_subscription_is_shared_by_containers_and_others_are_not() -> None:
    first, second = Amqp10Dialogue(container_id="one"), None
    second = Amqp10Dialogue(first.driver, container_id="two")
    for client in (first, second):
        subscribe(client, 1, "both|global", "shared", "global", **DURABLE)
        subscribe(client, 2, "own", "shared", **DURABLE)
    publish(first.driver, b"1")
    assert len(last_octets(first.listen()) + last_octets(second.listen())) == 3


def test_name_that_is_too_long_is_refused(client: Amqp10Dialogue) -> None:
    attached, detached = subscribe(client, 1, "x" * 250, **DURABLE)[:2]
    assert names([attached, detached]) == ["attach", "detach"]
    assert condition(detached) == "amqp:invalid-field"
