"""Open: virtual hosts and limits."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10.values import ULONG, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, names
from tests.support.driven_connection import make_driver
from tests.support.limited_connections import limits


@pytest.mark.parametrize(
    ("hostname", "vhost"), [("", "/"), ("other", "other"), ("vhost:other", "other"), ("broker.example", "/")]
)
def test_virtual_host_by_host_name(hostname: str, vhost: str, driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other")
    client = Amqp10Dialogue(driver, hostname=hostname)
    assert client.connection.vhost is driver.broker.vhosts[vhost]


def test_unknown_virtual_host_is_refused_after_an_open_with_a_notice() -> None:
    client = Amqp10Dialogue(session=False, hostname="vhost:none")
    assert names(client.opened) == ["open", "close"]
    assert "amqp:connection-establishment-failed" in str(client.opened[0].field("properties"))


def test_virtual_host_in_deletion_is_not_replaced_by_another(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other").deleting = True
    client = Amqp10Dialogue(driver, session=False, hostname="other")
    assert condition(client.opened[1]) == "amqp:not-allowed"


def test_open_on_another_channel_than_0_is_refused() -> None:
    client = Amqp10Dialogue(session=False, open_channel=1)
    assert names(client.opened) == ["open", "close"]
    assert condition(client.opened[1]) == "amqp:connection:framing-error"


def test_frame_size_below_the_least_is_refused() -> None:
    client = Amqp10Dialogue(session=False, max_frame_size=511)
    assert condition(client.opened[1]) == "amqp:invalid-field"


def test_product_is_our_own_unless_clients_of_rabbitmq_are_to_be_served() -> None:
    told = Amqp10Dialogue().opened[0].performative.mapping("properties")
    assert (told[Symbol("product")], told[Symbol("version")]) == ("Penstock", "0")
    assert told[Symbol("penstock:hold-deadline")] == Typed(ULONG, 25_000)
    told = Amqp10Dialogue(make_driver(limits(rabbitmq_version="4.0.0"))).opened[0].performative.mapping("properties")
    assert (told[Symbol("product")], told[Symbol("version")]) == ("RabbitMQ", "4.0.0")
    assert told[Symbol("penstock-version")] == "0"


def test_capabilities_are_offered() -> None:
    opened = Amqp10Dialogue().opened[0].performative
    assert opened.texts("offered_capabilities") == [
        "LINK_PAIR_V1_0",
        "ANONYMOUS-RELAY",
        "SHARED-SUBS",
        "DELAYED_DELIVERY",
        "sole-connection-for-container",
    ]


@pytest.mark.parametrize("version", [None, "4.2.0"])
def test_open_names_the_node_and_the_cluster(version: str | None) -> None:
    """RabbitMQ's client for Java ends a connection without a node."""
    opened = Amqp10Dialogue(make_driver(limits(rabbitmq_version=version))).opened[0].performative
    properties = opened.mapping("properties")
    assert properties[Symbol("node")] == properties[Symbol("cluster_name")] == "penstock@localhost"


def test_connection_has_the_name_of_the_client_or_else_of_the_container() -> None:
    named = Amqp10Dialogue(properties={Symbol("connection_name"): "web-1"}, container_id="box").connection
    assert named.peer.properties["connection_name"] == "web-1"
    for properties in ({}, {Symbol("connection_name"): ""}):
        unnamed = Amqp10Dialogue(properties=properties, container_id="box").connection
        assert unnamed.peer.properties["connection_name"] == "box"


def test_rates_among_the_properties_hold_for_each_link_or_are_refused() -> None:
    client = Amqp10Dialogue(properties={Symbol("producerMaxRate"): 10}).declare("q")
    for handle, own in enumerate(({}, {Symbol("rate-messages"): 4}, {Symbol("rate-messages"): 40})):
        attached, _ = client.attach_sender("/queues/q", handle, properties=own)
        rate = attached.performative.mapping("properties")[Symbol("rate-messages")]
        assert rate == (4.0 if handle == 1 else 10.0)
    refused = Amqp10Dialogue(session=False, properties={Symbol("producerMaxRate"): 1.5})
    assert condition(refused.opened[1]) == "amqp:not-allowed"
