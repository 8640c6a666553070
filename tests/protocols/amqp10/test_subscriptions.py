"""Subscriptions of receivers on exchanges: volatile, durable, shared and global."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    condition,
    data_section,
    names,
    performative,
    sender,
)
from tests.support.amqp10_messages import last_octets


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue()


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


def test_volatile_subscriptions_get_all_messages_and_end_with_the_links(client: Amqp10Dialogue) -> None:
    subscribe(client, 1, "a")
    subscribe(client, 2, "b")
    publish(client.driver, b"1")
    assert last_octets(client.listen()) == [b"1", b"1"]
    client.detach(1)
    assert len(subscriptions(client)) == 1
    client.say(performative(spec.CLOSE))
    assert subscriptions(client) == []


def test_topic_without_a_key_means_all_messages_unless_a_filter_names_a_key(client: Amqp10Dialogue) -> None:
    subscribe(client, 1, "all", address="amq.topic")
    key = Described(Symbol("apache.org:legacy-amqp-topic-binding:string"), "sport.#")
    subscribe(client, 2, "some", address="amq.topic", filter={Symbol("topic"): key})
    publish(client.driver, b"1")
    publish(client.driver, b"2", "/exchanges/amq.topic/sport.golf")
    heard = [(each.field("handle"), each.payload[-1:]) for each in client.listen() if each.name == "transfer"]
    assert sorted(heard) == [(1, b"1"), (1, b"2"), (2, b"2")]


def test_durable_subscription_keeps_messages_until_the_close() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.detach(1, closed=False)
    client.say(performative(spec.CLOSE))
    publish(client.driver, b"1")
    again = Amqp10Dialogue(client.driver, container_id="me")
    assert last_octets(subscribe(again, 1, "sub", **DURABLE)) == [b"1"]
    again.detach(1)
    assert subscriptions(again) == []


def test_durable_subscription_that_asks_for_copies_takes_the_messages() -> None:
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


KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "durable": ("sub", "sub", ()),
    "shared": ("sub", "sub", ("shared",)),
    "shared, a further link": ("sub|2", "sub", ("shared",)),
    "global": ("sub|global", "sub", ("shared", "global")),
}
"""For each kind of durable subscription the names of its link and of the one that unsubscribes, and capabilities."""
WANTED = {"global": ["shared", "global"]}


def unsubscribe(client: Amqp10Dialogue, kind: str, handle: int = 9) -> list[Heard]:
    """Attach with a null source as Qpid JMS does: without a client identifier it asks for global subscriptions."""
    return client.attach_receiver(
        None, handle, name=KINDS[kind][1], source=None, desired_capabilities=WANTED.get(kind), credit=0
    )


@pytest.mark.parametrize("where", ["same session", "same container", "other container"])
@pytest.mark.parametrize("kind", KINDS)
def test_unsubscribe_of_an_active_subscription_is_refused(kind: str, where: str) -> None:
    client = Amqp10Dialogue(container_id="me")
    name, _, capabilities = KINDS[kind]
    subscribe(client, 1, name, *capabilities, **DURABLE)
    other = client
    if where != "same session":
        other = Amqp10Dialogue(client.driver, container_id="me" if where == "same container" else "you")
    attached, detached = unsubscribe(other, kind)
    assert attached.field("source") is None
    if where == "other container" and kind != "global":
        assert condition(detached) == "amqp:not-found"
    else:
        assert condition(detached) == "amqp:illegal-state"
        assert "has 1 consumer, so it cannot be ended; close every consumer" in str(detached.field("error"))
    other.detach(9)
    publish(client.driver, b"1")
    assert last_octets(client.listen()) == [b"1"], "nobody was stolen, and the subscription goes on"
    assert len(subscriptions(client)) == 1


@pytest.mark.parametrize("how", ["detached", "connection closed"])
@pytest.mark.parametrize("kind", KINDS)
def test_unsubscribe_ends_a_subscription_without_attached_links(kind: str, how: str) -> None:
    client = Amqp10Dialogue(container_id="me")
    name, _, capabilities = KINDS[kind]
    subscribe(client, 1, name, *capabilities, **DURABLE)
    if how == "detached":
        client.detach(1, closed=False)
    else:
        client.say(performative(spec.CLOSE))
    again = Amqp10Dialogue(client.driver, container_id="me")
    publish(client.driver, b"1")
    (attached,) = unsubscribe(again, kind)
    assert attached.performative.inner("source") is not None
    assert names(again.detach(9)) == ["detach"]
    assert subscriptions(again) == []


@pytest.mark.parametrize("kind", KINDS)
def test_subscription_in_deletion_takes_no_consumer(kind: str) -> None:
    client = Amqp10Dialogue(container_id="me")
    name, _, capabilities = KINDS[kind]
    subscribe(client, 1, name, *capabilities, **DURABLE)
    client.detach(1, closed=False)
    assert names(unsubscribe(client, kind)) == ["attach"]
    other = Amqp10Dialogue(client.driver, container_id="me")
    refused = subscribe(other, 1, f"{KINDS[kind][1]}|7", *capabilities, **DURABLE)
    assert "detach" in names(refused)
    assert names(client.detach(9)) == ["detach"]
    assert subscriptions(client) == []


def test_unsubscribe_steals_a_link_of_another_source_by_name() -> None:
    client = sender()
    client.detach(0)
    driver = client.driver
    client = Amqp10Dialogue(driver, container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.detach(1, closed=False)
    client.attach_receiver("/queues/q", 2, name="sub")
    other = Amqp10Dialogue(driver, container_id="me")
    assert names(unsubscribe(other, "durable")) == ["attach"]
    assert [condition(each) for each in client.listen()] == ["amqp:link:stolen"]


def test_another_topic_is_another_subscription() -> None:
    client = Amqp10Dialogue(container_id="me")
    subscribe(client, 1, "sub", **DURABLE)
    client.say(performative(spec.CLOSE))
    publish(client.driver, b"1")
    again = Amqp10Dialogue(client.driver, container_id="me")
    assert last_octets(subscribe(again, 1, "sub", address="/exchanges/amq.topic/other", **DURABLE)) == []


def test_links_of_a_shared_subscription_share_the_messages() -> None:
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


def test_global_subscription_is_shared_by_containers_unlike_other_subscriptions() -> None:
    first, second = Amqp10Dialogue(container_id="one"), None
    second = Amqp10Dialogue(first.driver, container_id="two")
    for client in (first, second):
        subscribe(client, 1, "both|global", "shared", "global", **DURABLE)
        subscribe(client, 2, "own", "shared", **DURABLE)
    publish(first.driver, b"1")
    assert len(last_octets(first.listen()) + last_octets(second.listen())) == 3


def test_name_beyond_the_limit_is_refused(client: Amqp10Dialogue) -> None:
    attached, detached = subscribe(client, 1, "x" * 250, **DURABLE)[:2]
    assert names([attached, detached]) == ["attach", "detach"]
    assert condition(detached) == "amqp:invalid-field"
