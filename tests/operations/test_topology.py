"""A dry run over virtual hosts, exchanges, queues and bindings says what the import then does."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, PreconditionFailed
from penstock.operations.vhosts import ATTRIBUTES_MOST
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.at_once import import_definitions
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.operation_calls import ask

HASHED = {"type": "x-consistent-hash", "arguments": {"hash-property": "app_id"}}


def compared(driver: BrokerDriver, **definitions: object) -> list[tuple[str, str]]:
    """Return subject and change of each difference, with the reason of a refusal."""
    found: Any = import_definitions(driver, definitions, dry_run=True)
    return [
        (each["subject"], each["change"] + (f": {each['reason']}" if "reason" in each else ""))
        for each in found["differences"]
    ]


def test_dry_run_counts_entries_that_earlier_ones_would_create() -> None:
    driver = make_driver()
    definitions: dict[str, object] = {
        "vhosts": [{"name": "eu"}],
        "exchanges": [{"name": "e", "vhost": "eu", "type": "headers"}],
        "queues": [{"name": "q", "vhost": "eu"}],
        "bindings": [
            {"source": "e", "vhost": "eu", "destination": "q", "destination_type": "queue"},
            {"source": "amq.fanout", "vhost": "eu", "destination": "e", "destination_type": "exchange"},
        ],
    }
    assert [change for _, change in compared(driver, **definitions)] == ["created"] * 5
    assert "eu" not in driver.broker.vhosts
    import_definitions(driver, definitions, None)
    assert compared(driver, **definitions) == []


def test_exchanges_of_rabbitmqs_plugins_are_imported_with_weights() -> None:
    driver = make_driver()
    exchanges = [
        {"name": "by-key", "type": "x-consistent-hash", "durable": True, "arguments": {}},
        {"name": "by-id", "type": "x-consistent-hash", "arguments": {"hash-property": "message_id"}},
        {"name": "modulus", "type": "x-modulus-hash"},
        {"name": "random", "type": "x-random"},
    ]
    bound = {"destination": "q", "destination_type": "queue", "vhost": "/"}
    definitions: dict[str, object] = {
        "exchanges": [{"vhost": "/", **each} for each in exchanges],
        "queues": [{"name": "q", "vhost": "/"}],
        "bindings": [{"source": each["name"], "routing_key": "20", **bound} for each in exchanges],
    }
    import_definitions(driver, definitions, None)
    assert compared(driver, **definitions) == []
    vhost = driver.broker.vhosts["/"]
    assert [vhost.exchanges[str(each["name"])].kind for each in exchanges] == [each["type"] for each in exchanges]
    no_weight = {"source": "by-key", "routing_key": "orders.#", **bound}
    with pytest.raises(PreconditionFailed, match=r"invalid binding key 'orders\.#' for exchange 'by-key'"):
        import_definitions(driver, {"bindings": [no_weight]}, None)


@pytest.mark.parametrize(
    ("section", "entry", "reason"),
    [
        ("vhosts", {"name": ""}, "a virtual host's name has 1 to 255 bytes"),
        ("exchanges", {"name": "e", "type": "x-odd"}, "unknown exchange type 'x-odd'"),
        ("exchanges", {"name": "e", **HASHED}, "hash-property is 'app_id'; it is one of"),
        ("exchanges", {"name": "amq.mine", "type": "topic"}, "contains reserved prefix 'amq.*'"),
        ("exchanges", {"name": "there", "type": "fanout"}, "inequivalent arg 'type'"),
        ("exchanges", {"name": "e", "vhost": "nowhere", "type": "topic"}, "no vhost 'nowhere'"),
        ("queues", {"name": "there", "durable": True}, "inequivalent arg 'durable'"),
        ("queues", {"name": "q", "arguments": {"capacity-bites": 1}}, "has no argument 'capacity-bites'"),
        ("queues", {"name": "q", "arguments": {"k": 1 << 70}}, ""),
        ("queues", {"name": "q", "arguments": {"x-queue-type": "quorum"}}, "non-durable"),
        ("queues", {"name": "q", "arguments": {"x-overflow": "page"}}, "needs a data directory"),
        ("bindings", {"source": "none", "destination": "there", "destination_type": "queue"}, "no exchange 'none'"),
        ("bindings", {"source": "there", "destination": "none", "destination_type": "queue"}, "no queue 'none'"),
        ("bindings", {"source": "there", "destination": "there", "destination_type": "q"}, "must be queue or exchange"),
        ("bindings", {"source": "amq.headers", "destination": "there", "destination_type": "queue",
                      "arguments": {"x-match": "some"}}, "x-match"),
    ],
)  # fmt: skip
def test_dry_run_refuses_entries_that_the_import_refuses(section: str, entry: dict[str, object], reason: str) -> None:
    driver = make_driver()
    vhost = driver.broker.vhosts["/"]
    vhost.declare_queue("there", {}, False, False, None, None)
    vhost.declare_exchange("there", "topic", {}, False, False, False)
    ((_, change),) = compared(driver, **{section: [entry]})
    assert change.startswith("refused: ")
    assert reason in change
    with pytest.raises(BrokerError) as caught:
        import_definitions(driver, {section: [entry]})
    assert change.removeprefix("refused: ") in str(caught.value)


def test_attributes_of_a_vhost_are_stored_and_listed() -> None:
    driver = make_driver()
    vhosts = [{"name": "/", "description": "main", "default_queue_type": "stream", "limits": []}]
    found: Any = import_definitions(driver, {"vhosts": vhosts}, None, dry_run=True)
    (told,) = found["differences"]
    assert told["change"] == "changed"
    assert "note" not in told
    import_definitions(driver, {"vhosts": vhosts}, None)
    assert driver.broker.vhosts["/"].metadata == {"description": "main", "default_queue_type": "stream"}
    broken = {"vhosts": [{"name": "/", "description": "x"}], "queues": [{"name": "q", "vhost": "none"}]}
    with pytest.raises(BrokerError):
        import_definitions(driver, broken, None)
    assert driver.broker.vhosts["/"].metadata["description"] == "main"


def test_vhost_whose_attributes_are_refused_is_not_created() -> None:
    driver = make_driver()
    refused = {"vhosts": [{"name": "new", "description": "x" * (ATTRIBUTES_MOST + 1)}]}
    with pytest.raises(BrokerError, match="the attributes of a virtual host"):
        import_definitions(driver, refused, None)
    assert "new" not in driver.broker.vhosts


DELETION = "DELETE /queues/{vhost}/{name}"


@pytest.mark.parametrize("condition", ["if-empty", "if-unused"])
def test_queue_with_held_publishes_is_not_deleted_on_a_condition(condition: str) -> None:
    driver = make_driver()
    client = Dialogue(driver).declare("q", capacity_messages=1).confirm()
    client.say(publish("q", b"first") + publish("q", b"second"))
    client.say(method_frame(1, spec.BASIC_GET, queue="q"))
    with pytest.raises(PreconditionFailed, match="1 publish to it is held and waits for room"):
        ask(driver, DELETION, {"name": "q", condition: True}, access=access_of(driver.broker, "guest"))
    assert ask(driver, DELETION, {"name": "q"}, access=access_of(driver.broker, "guest")) == {"message_count": 0}
