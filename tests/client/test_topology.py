"""Declarations and bindings, over both protocols."""

from __future__ import annotations

import pytest

import penstock
import penstock.sync
from tests.client.conversations import fresh


def bindings_of(client: penstock.sync.Connection, source: str) -> list[tuple[str, str, dict[str, object]]]:
    found = [each for each in client.list("bindings") if each["source"] == source]
    return sorted((each["destination"], each["routing_key"], each["arguments"]) for each in found)


def test_exchange_is_bound_to_an_exchange_and_unbound(client: penstock.sync.Connection, client_queue: str) -> None:
    source, middle = fresh("source"), fresh("middle")
    client.declare_exchange(source, "topic")
    client.declare_exchange(middle, "fanout", internal=True)
    client.bind_exchange(middle, source, "eu.#")
    client.bind(client_queue, middle)
    client.publisher(exchange=source, routing_key="eu.de").send(b"over two exchanges")
    assert client.why(client_queue).depth.messages == 1
    client.unbind_exchange(middle, source, "eu.#")
    with pytest.raises(penstock.MessageRefused):
        client.publisher(exchange=source, routing_key="eu.de").send(b"to nobody")
    client.delete_exchange(middle)
    client.delete_exchange(source)


def test_queue_without_a_name_gets_a_name(client: penstock.sync.Connection) -> None:
    names = {client.declare_queue(exclusive=True) for _ in range(2)}
    assert len(names) == 2
    for name in names:
        assert client.why(name).depth.messages == 0


def test_binding_is_removed_by_arguments(client: penstock.sync.Connection, client_queue: str) -> None:
    source = fresh("headers")
    client.declare_exchange(source, "headers")
    arguments: list[dict[str, object]] = [{"x-match": "any", "format": "pdf"}, {"x-match": "all", "pages": 5}]
    for each in arguments:
        client.bind(client_queue, source, **each)
    client.unbind(client_queue, source, **arguments[0])
    assert bindings_of(client, source) == [(client_queue, "", arguments[1])]
    client.unbind(client_queue, source, **arguments[0])
    client.unbind(client_queue, source, **arguments[1])
    assert bindings_of(client, source) == []
    client.delete_exchange(source)


def test_vhost_is_declared_listed_and_deleted(client: penstock.sync.Connection) -> None:
    name = fresh("vhost")
    assert client.declare_vhost(name)
    assert not client.declare_vhost(name)
    assert name in {each["name"] for each in client.list("vhosts")}
    client.delete_vhost(name)
