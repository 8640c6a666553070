"""The methods that declare, bind and delete."""

from __future__ import annotations

import pytest

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish, refused


def test_methods_of_the_topology_create_and_delete_objects() -> None:
    client = Dialogue(make_driver())
    vhost = client.driver.broker.vhost("/")
    assert client.names(
        method_frame(1, spec.EXCHANGE_DECLARE, exchange="e", type="topic")
        + method_frame(1, spec.QUEUE_DECLARE, queue="q")
        + method_frame(1, spec.QUEUE_BIND, queue="q", exchange="e", routing_key="k.#")
        + method_frame(1, spec.EXCHANGE_BIND, destination="e", source="amq.fanout")
    ) == ["exchange.declare-ok", "queue.declare-ok", "queue.bind-ok", "exchange.bind-ok"]
    assert vhost.exchange("e").find(vhost.queue("q"), None, "k.#", {}) is not None
    assert client.names(
        method_frame(1, spec.QUEUE_UNBIND, queue="q", exchange="e", routing_key="k.#")
        + method_frame(1, spec.EXCHANGE_UNBIND, destination="e", source="amq.fanout")
        + method_frame(1, spec.QUEUE_PURGE, queue="q")
        + method_frame(1, spec.QUEUE_DELETE, queue="q")
        + method_frame(1, spec.EXCHANGE_DELETE, exchange="e")
    ) == ["queue.unbind-ok", "exchange.unbind-ok", "queue.purge-ok", "queue.delete-ok", "exchange.delete-ok"]
    assert "q" not in vhost.queues
    assert "e" not in vhost.exchanges


def test_methods_of_the_topology_are_not_answered_with_no_wait() -> None:
    client = Dialogue(make_driver())
    assert client.names(method_frame(1, spec.QUEUE_DECLARE, queue="q", no_wait=True)) == []
    assert "q" in client.driver.broker.vhost("/").queues


def test_methods_of_the_topology_change_nothing_when_passive() -> None:
    client = Dialogue(make_driver()).declare("q")
    assert client.names(method_frame(1, spec.QUEUE_DECLARE, queue="q", passive=True)) == ["queue.declare-ok"]
    name, code, text = refused(client, method_frame(1, spec.QUEUE_DECLARE, queue="none", passive=True))
    assert (name, code) == ("channel.close", 404)
    assert "no queue 'none' in vhost '/'" in str(text)


def test_methods_of_the_topology_make_a_name_where_none_is_given() -> None:
    client = Dialogue(make_driver())
    (frame,) = client.say(method_frame(1, spec.QUEUE_DECLARE))
    name = str(decode_method(frame[2]).args["queue"])
    assert name.startswith("amq.gen-")
    assert name in client.driver.broker.vhost("/").queues


REFUSED = {
    "stream that is not durable": {"x-queue-type": "stream"},
    "unknown type": {"x-queue-type": "tree"},
    "policy that ignores the capacity": {"overflowPolicy": "NONE"},
    "unknown policy": {"overflow": "spill"},
    "misspelt argument": {"capacity-mesages": 5},
    "contradiction": {"capacity-messages": 5, "stop-messages": 6},
    "too many priorities": {"x-max-priority": 300},
    "quorum queue that is not durable": {"x-queue-type": "quorum"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_declaration_closes_only_the_channel(what: str) -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    name, code, text = refused(client, method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments=REFUSED[what]))
    assert (name, code) == ("channel.close", 406)
    assert str(text).startswith("PRECONDITION_FAILED - queue 'q'"), text
    assert client.names(method_frame(2, spec.QUEUE_DECLARE, queue="other")) == ["queue.declare-ok"]
    assert "q" not in client.vhost.queues


def test_queue_with_held_publishes_and_no_messages_is_not_deleted_if_empty() -> None:
    client = Dialogue(make_driver()).declare("q", capacity_messages=1).confirm()
    client.say(publish("q", b"first") + publish("q", b"second"))
    client.say(method_frame(1, spec.BASIC_GET, queue="q"))
    other = Dialogue(client.driver)
    assert refused(other, method_frame(1, spec.QUEUE_DELETE, queue="q", if_empty=True)) == (
        "channel.close",
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty: 1 publish to it is held and waits for room; delete "
        "it later, or without if-empty",
    )
    assert not client.vhost.queue("q").deleted


def test_exchange_that_would_lose_messages_of_lavinmq_is_refused() -> None:
    client = Dialogue(make_driver())
    table: dict[str, object] = {"x-alternate-exchange": "spare"}
    _, code, text = refused(client, method_frame(1, spec.EXCHANGE_DECLARE, exchange="e", type="topic", arguments=table))
    assert (code, text) == (
        406,
        "PRECONDITION_FAILED - exchange 'e': x-alternate-exchange of LavinMQ is not supported here; messages without "
        "a route would be lost; use the argument alternate-exchange",
    )
    assert "e" not in client.vhost.exchanges


def test_exchange_with_an_argument_without_effect_is_declared_and_logged() -> None:
    client = Dialogue(make_driver())
    client.driver.log_queue.take()
    table: dict[str, object] = {"hash-header": "id"}
    declare = method_frame(1, spec.EXCHANGE_DECLARE, exchange="e", type="topic", arguments=table)
    assert client.names(declare) == ["exchange.declare-ok"]
    (line,) = [each.text for each in client.driver.log_queue.take() if "hash-header" in each.text]
    assert (
        "argument hash-header of an exchange has no effect: only an exchange of type x-consistent-hash reads it" in line
    )
