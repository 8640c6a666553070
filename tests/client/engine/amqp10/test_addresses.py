"""Addresses of queues, by the properties that a broker announces."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp10.addresses import address_of


@pytest.mark.parametrize(
    ("properties", "queue", "address"),
    [
        ({}, "orders", "orders"),
        ({"product": "Penstock", "version": "3.1"}, "a/b", "/queues/a%2Fb"),
        ({"product": "apache-activemq-artemis", "version": "2.44.0"}, "address::queue", "address::queue"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "orders", "/amq/queue/orders"),
        ({"product": "RabbitMQ", "version": "3.13.0"}, "a/b c%", "/amq/queue/a%2Fb%20c%25"),
        ({"product": "RabbitMQ", "version": "3.10.8"}, "/queue/orders", "/queue/orders"),
        ({"product": "RabbitMQ", "version": "4.1.0"}, "ü", "/queues/%C3%BC"),
        ({"product": "RabbitMQ", "version": "10.0.0"}, "orders", "/queues/orders"),
        ({"product": "RabbitMQ"}, "orders", "/queues/orders"),
    ],
)
def test_address_is_what_the_broker_has_for_the_queue(properties: dict[str, object], queue: str, address: str) -> None:
    assert address_of(queue, properties) == address
