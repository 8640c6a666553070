"""RabbitMQ's Python client of AMQP 1.0, unchanged: management, publishing and consuming (PyPI:
rabbitmq-amqp-python-client)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.brokers import BrokerProcess

client = pytest.importorskip("rabbitmq_amqp_python_client", reason="Qpid Proton could not be built")
utils = pytest.importorskip("rabbitmq_amqp_python_client.qpid.proton.utils")

pytestmark = pytest.mark.clients


@pytest.fixture
def connection(broker_as_rabbitmq_4: BrokerProcess) -> Iterator[Any]:
    environment = client.Environment(uri=broker_as_rabbitmq_4.url)
    found = environment.connection()
    found.dial()
    yield found
    environment.close()


@pytest.fixture
def management(connection: Any) -> Any:
    return connection.management()


def queue_of(management: Any, name: str, **arguments: Any) -> str:
    management.declare_queue(client.ClassicQueueSpecification(name=name, **arguments))
    return client.AddressHelper.queue_address(name)


def message(body: bytes, **fields: Any) -> Any:
    return client.Message(body=body, inferred=True, **fields)


def test_queue_is_declared_shown_purged_and_deleted(connection: Any, management: Any, name: str) -> None:
    name = f"{name}/größe 1"
    address = queue_of(management, name, max_len=100, is_durable=True)
    queue_of(management, name, max_len=100, is_durable=True)
    publisher = connection.publisher(address)
    for number in range(3):
        assert publisher.publish(message(b"%d" % number)).remote_state == client.OutcomeState.ACCEPTED
    found = management.queue_info(name)
    assert (found.name, found.message_count, found.is_durable) == (name, 3, True)
    assert found.arguments == {"x-max-length": 100, "x-queue-type": "classic"}
    assert management.purge_queue(name) == 3
    assert management.queue_info(name).message_count == 0
    publisher.close()
    management.delete_queue(name)
    with pytest.raises(client.ValidationCodeException, match="404"):
        management.queue_info(name)


def test_quorum_queue_is_declared_and_a_stream_is_not(management: Any, name: str) -> None:
    management.declare_queue(client.QuorumQueueSpecification(name=name))
    assert management.queue_info(name).queue_type == client.QueueType.quorum
    management.delete_queue(name)
    with pytest.raises(client.ValidationCodeException, match="400"):
        management.declare_queue(client.StreamSpecification(name=name))


def test_exchange_is_bound_to_an_exchange(management: Any, name: str) -> None:
    for exchange in (f"{name}-a", f"{name}-b"):
        management.declare_exchange(client.ExchangeSpecification(name=exchange))
    binding = client.ExchangeToExchangeBindingSpecification(
        source_exchange=f"{name}-a", destination_exchange=f"{name}-b", binding_key="k"
    )
    management.unbind(management.bind(binding))
    for exchange in (f"{name}-a", f"{name}-b"):
        management.delete_exchange(exchange)


def test_replies_come_without_a_declared_queue(connection: Any) -> None:
    options = client.ConsumerOptions(settle_strategy=client.ConsumerSettleStrategy.DirectReplyTo)
    consumer = connection.consumer(consumer_options=options)
    publisher = connection.publisher(consumer.address)
    publisher.publish(message(b"reply"))
    assert consumer._receiver.receive(timeout=60).body == b"reply"
    publisher.close()
    consumer.close()


def test_declaration_of_a_queue_that_differs_is_refused(management: Any, name: str) -> None:
    queue_of(management, name)
    with pytest.raises(client.ValidationCodeException, match="ErrPreconditionFailed"):
        queue_of(management, name, max_len=7)


def test_messages_come_through_an_exchange_and_a_binding(connection: Any, management: Any, name: str) -> None:
    exchange = f"{name}-e"
    management.declare_exchange(client.ExchangeSpecification(name=exchange, exchange_type=client.ExchangeType.topic))
    queue_of(management, name)
    binding = client.ExchangeToQueueBindingSpecification(
        source_exchange=exchange, destination_queue=name, binding_key="colour.#"
    )
    path = management.bind(binding)
    publisher = connection.publisher(client.AddressHelper.exchange_address(exchange, "colour.red"))
    publisher.publish(message(b"red", application_properties={"n": 1}))
    consumer = connection.consumer(client.AddressHelper.queue_address(name))
    (got,) = received(consumer, 1)
    assert (got.body, got.application_properties) == (b"red", {"n": 1})
    assert got.annotations == {"x-exchange": exchange, "x-routing-key": "colour.red"}
    consumer.close()
    management.unbind(path)
    with pytest.raises(utils.SendException):
        publisher.publish(message(b"nobody"))
    publisher.close()
    management.delete_exchange(exchange)
    management.delete_queue(name)


def test_messages_without_a_target_go_where_their_address_says(connection: Any, management: Any, name: str) -> None:
    address = queue_of(management, name)
    publisher = connection.publisher()
    publisher.publish(message(b"x", address=address))
    assert management.queue_info(name).message_count == 1
    publisher.close()
    management.delete_queue(name)


def received(consumer: Any, count: int) -> list[Any]:
    """Receive and accept messages, one after the other."""
    found = []
    for _ in range(count):
        found.append(consumer._receiver.receive(timeout=60))
        consumer._receiver.accept()
    return found
