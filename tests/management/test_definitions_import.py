"""An import: all of it, or nothing."""

from __future__ import annotations

import json

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.flow.work import finish
from penstock.management.definitions_import import import_steps
from tests.support.driven_connection import make_driver

QUEUE: dict[str, object] = {"name": "a", "durable": False, "auto_delete": False, "arguments": {}}
EXCHANGE: dict[str, object] = {
    "name": "e", "type": "topic", "durable": False, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
BINDING: dict[str, object] = {
    "source": "e", "destination": "a", "destination_type": "queue", "routing_key": "k", "arguments": {},
}  # fmt: skip


def imported(driver: BrokerDriver, **definitions: object) -> dict[str, object]:
    return finish(import_steps(driver, json.dumps(definitions).encode(), "/"))


def test_definitions_import_makes_everything_and_counts_what_is_new() -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    definitions = {"queues": [QUEUE], "exchanges": [EXCHANGE], "bindings": [BINDING]}
    assert imported(driver, **definitions)["made"] == {"queues": 1, "exchanges": 1, "bindings": 1}
    assert vhost.exchange("e").find(vhost.queue("a"), None, "k", {}) is not None
    assert not any(dict(imported(driver, **definitions)["made"]).values())  # type: ignore[call-overload]


def test_definitions_import_that_fails_takes_back_what_it_made() -> None:
    driver = make_driver()
    vhost = driver.broker.vhost("/")
    with pytest.raises(PreconditionFailed):
        imported(driver, queues=[QUEUE, {**QUEUE, "name": "b", "arguments": {"capacity-bites": 1}}])
    assert not vhost.queues
    vhost.declare_queue("a", {"capacity-messages": 5}, False, False, None, None)
    with pytest.raises(PreconditionFailed):
        imported(driver, exchanges=[EXCHANGE], queues=[QUEUE])
    assert vhost.queues.keys() == {"a"}
    assert "e" not in vhost.exchanges
