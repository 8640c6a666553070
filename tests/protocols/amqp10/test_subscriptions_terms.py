"""Terms of a named subscription: exchange, key, selector, no-local and sharing.

Other terms are refused while it has consumers, and replace it when it has none (JMS 2.0, section 8.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, names

DURABLE = {"durable": 2, "expiry_policy": "never"}
NO_LOCAL = Described(Symbol("apache.org:no-local-filter:list"), [])


def selector(text: str) -> Described:
    return Described(Symbol("apache.org:selector-filter:string"), text)


TERMS: dict[str, dict[str, Any]] = {
    "exchange": {"address": "amq.fanout/one"},
    "key": {"address": "amq.topic/two"},
    "selector": {"filters": {Symbol("s"): selector("a = 2")}},
    "no selector": {"filters": {}},
    "no-local": {"filters": {Symbol("s"): selector("a = 1"), Symbol("n"): NO_LOCAL}},
}
"""Terms that differ from the usual ones of `subscribe`."""
KINDS = {
    "shared": (("shared",), {}),
    "shared durable": (("shared",), DURABLE),
    "global": (("shared", "global"), {}),
    "global durable": (("shared", "global"), DURABLE),
}


def subscribe(
    client: Amqp10Dialogue,
    name: str = "sub",
    handle: int = 1,
    capabilities: tuple[str, ...] = ("shared",),
    fields: dict[str, object] | None = None,
    address: str = "amq.topic/one",
    filters: dict[object, object] | None = None,
) -> list[Heard]:
    chosen = {Symbol("s"): selector("a = 1")} if filters is None else filters
    source = composite(
        spec.SOURCE,
        address=address,
        capabilities=["topic", *capabilities],
        filter=chosen or None,
        **(DURABLE if fields is None else fields),
    )
    return client.attach_receiver(None, handle, name=name, source=source)


def peer(driver: BrokerDriver | None = None, container: str = "one") -> Amqp10Dialogue:
    return Amqp10Dialogue(driver, container_id=container)


def queues(client: Amqp10Dialogue) -> list[str]:
    return [name for name in client.vhost.queues if name.startswith("amq.subscription")]


def keys(client: Amqp10Dialogue) -> list[str]:
    (queue,) = queues(client)
    return [binding.key for binding in client.vhost.bindings.to("queue", queue)]


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("kind", KINDS)
def test_active_subscription_refuses_a_link_with_other_terms(kind: str, term: str) -> None:
    capabilities, fields = KINDS[kind]
    first = peer()
    second = peer(first.driver, "two" if "global" in capabilities else "one")
    assert names(subscribe(first, "sub", capabilities=capabilities, fields=fields)) == ["attach"]
    heard = subscribe(second, "sub|2", capabilities=capabilities, fields=fields, **TERMS[term])
    assert (names(heard), condition(heard[-1])) == (["attach", "detach"], "amqp:illegal-state")
    assert keys(first) == ["one"]
    same = subscribe(second, "sub|3", 2, capabilities, fields)
    assert names(same) == ["attach"], "the terms of the subscription are still those of its first link"


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("kind", KINDS)
def test_inactive_subscription_takes_the_terms_of_the_next_link(kind: str, term: str) -> None:
    capabilities, fields = KINDS[kind]
    client = peer()
    subscribe(client, "sub", capabilities=capabilities, fields=fields)
    client.detach(1, closed=False)
    assert names(subscribe(client, "sub", 2, capabilities, fields, **TERMS[term])) == ["attach"]
    assert len(queues(client)) == 1
    assert len(keys(client)) == 1


@pytest.mark.parametrize("active", [True, False], ids=["active", "inactive"])
@pytest.mark.parametrize("shared_first", [True, False], ids=["shared first", "unshared first"])
def test_durable_subscription_never_changes_the_sharing(shared_first: bool, active: bool) -> None:
    client = peer()
    subscribe(client, capabilities=("shared",) if shared_first else ())
    if not active:
        client.detach(1, closed=False)
    for number, name in enumerate(("sub", "sub|2")):
        heard = subscribe(client, name, 2 + number, () if shared_first else ("shared",))
        assert (names(heard), condition(heard[-1])) == (["attach", "detach"], "amqp:illegal-state")
    assert len(client.vhost.queues["amq.subscription.one.sub"].consumers) == active


def test_volatile_and_durable_subscriptions_of_a_name_are_two() -> None:
    client = peer()
    subscribe(client, "sub")
    assert names(subscribe(client, "sub|2", 2, fields={}, **TERMS["key"])) == ["attach"]
    assert len(queues(client)) == 2


def test_unshared_subscription_refuses_a_second_consumer() -> None:
    client = peer()
    subscribe(client, capabilities=())
    heard = subscribe(client, "sub|2", 2, ())
    assert condition(heard[-1]) == "amqp:illegal-state"


@pytest.mark.parametrize("term", [None, *TERMS])
def test_link_of_the_same_name_steals_the_subscription_with_new_terms(term: str | None) -> None:
    first = peer()
    subscribe(first, capabilities=())
    second = peer(first.driver)
    assert names(subscribe(second, capabilities=(), **({} if term is None else TERMS[term]))) == ["attach"]
    (stolen,) = first.listen()
    assert condition(stolen) == "amqp:link:stolen"


def test_stolen_link_of_a_shared_subscription_keeps_the_terms_of_the_other_links() -> None:
    first = peer()
    subscribe(first, "sub")
    subscribe(first, "sub|2", 2)
    heard = subscribe(peer(first.driver), "sub", **TERMS["key"])
    assert condition(heard[-1]) == "amqp:illegal-state"
    assert first.listen() == [], "a refused attach steals nothing"


def test_subscription_whose_exchange_was_deleted_binds_to_the_new_exchange() -> None:
    client = peer()
    for handle, name in ((1, "sub"), (2, "sub|2")):
        client.vhost.declare_exchange("news", "topic", {}, True, False, False)
        assert names(subscribe(client, name, handle, address="news/one")) == ["attach"]
        client.vhost.delete_exchange("news", False)
