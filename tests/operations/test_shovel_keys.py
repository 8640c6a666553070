"""Keys of shovels: those of each protocol, their old names, and what contradicts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import PreconditionFailed
from penstock.operations.shovel_keys import KEYS, check_shovel, idle_keys

SECRET = "s3cret"
URI = f"amqp://carl:{SECRET}@host"
QUEUES: dict[str, Any] = {"src-uri": URI, "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
ADDRESSES: dict[str, Any] = {
    "src-protocol": "amqp10", "src-uri": URI, "src-address": "a",
    "dest-protocol": "amqp10", "dest-uri": "amqp://", "dest-address": "b",
}  # fmt: skip
OF_RABBITMQ = {
    *("src-uri", "src-protocol", "src-queue", "src-queue-args", "src-exchange", "src-exchange-key", "src-address"),
    *("src-prefetch-count", "src-delete-after", "src-delete-after-duration", "src-predeclared", "src-consumer-args"),
    *("src-consumer-name", "prefetch-count", "delete-after", "dest-uri", "dest-protocol", "dest-queue"),
    *("dest-queue-args", "dest-exchange", "dest-exchange-key", "dest-address", "dest-add-forward-headers"),
    *("dest-add-timestamp-header", "dest-publish-properties", "dest-predeclared", "dest-properties"),
    *("dest-application-properties", "dest-message-annotations", "add-forward-headers", "add-timestamp-header"),
    *("publish-properties", "ack-mode", "reconnect-delay", "internal", "internal_owner"),
}
"""Keys that the sources of RabbitMQ 3.10 to 4.3 validate."""


def test_keys_are_all_those_of_rabbitmq() -> None:
    assert {name for key in KEYS for name in key.names} == OF_RABBITMQ


@pytest.mark.parametrize(
    "value",
    [
        QUEUES,
        ADDRESSES,
        {**QUEUES, "src-protocol": "local", "dest-protocol": "local"},
        {**QUEUES, "src-uri": [URI, "amqps://other:5671/v?verify=verify_peer"], "src-queue-args": {"x-max-length": 5}},
        {"src-uri": URI, "src-exchange": "logs", "src-exchange-key": "k.#", "dest-uri": "amqp://"},
        {**QUEUES, "prefetch-count": 10, "delete-after": "queue-length", "add-forward-headers": True},
        {**QUEUES, "src-delete-after": 0, "ack-mode": "on-publish", "reconnect-delay": 0.5},
        {**QUEUES, "ack-mode": "no-ack", "src-delete-after": "never"},
        {**QUEUES, "dest-publish-properties": {"delivery_mode": 2, "type": "t"}, "dest-queue-args": {}},
        {**QUEUES, "src-consumer-args": {"x-priority": 1}, "src-predeclared": True, "dest-predeclared": False},
        {**ADDRESSES, "dest-properties": {"to": "x"}, "src-consumer-name": "c", "src-delete-after-duration": 60},
        {**ADDRESSES, "src-delete-after": 5},
    ],
)
def test_shovel_of_rabbitmq_is_accepted(value: dict[str, Any]) -> None:
    assert check_shovel("s", value) is value


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"hat": 1}, "a shovel has no key 'hat'; known are "),
        ({"src-queu": "x"}, "a shovel has no key 'src-queu'; did you mean src-queue?"),
        ({"dest-exchange": "e"}, "'dest-queue' and 'dest-exchange' contradict each other: give one"),
        ({"src-exchange": "e"}, "'src-queue' and 'src-exchange' contradict each other: give one"),
        ({"src-queue": None}, "src-queue must be a string of 1 to 255 bytes, not null"),
        ({"src-prefetch-count": "x"}, "src-prefetch-count must be a whole number from 0 to 65535, not 'x'"),
        ({"ack-mode": "no"}, "ack-mode must be on-confirm, on-publish or no-ack, not 'no'"),
        ({"src-delete-after": -1}, "src-delete-after must be a whole number from 0, or never or queue-length, not -1"),
        ({"delete-after": "ever"}, "delete-after must be a whole number from 0, or never or queue-length, not 'ever'"),
        ({"src-delete-after": 5, "ack-mode": "no-ack"}, "a number of messages in 'src-delete-after' contradicts ack-"),
        ({"src-protocol": "mqtt"}, "src-protocol must be amqp091, amqp10 or local, not 'mqtt'"),
        ({"src-protocol": "amqp10"}, "'src-queue' is a key of the protocols amqp091 and local, and 'src-pr"),
        (
            {"dest-protocol": "amqp10"},
            "'dest-queue' is a key of the protocols amqp091 and local, and 'dest-",
        ),
        ({"src-address": "a"}, "'src-address' is a key of the protocols amqp10, and 'src-protocol' is amqp091"),
        ({"dest-publish-properties": {"hat": 1}}, "dest-publish-properties: 'dest-publish-properties' has no key"),
        ({"src-uri": []}, "'src-uri' must be a URI of amqp or amqps, or a list of them"),
        ({"src-uri": f"http://carl:{SECRET}@host"}, "'src-uri' must be a URI of amqp or amqps"),
        ({"dest-uri": f"amqp://carl:{SECRET}@host:port"}, "'dest-uri' must be a URI of amqp or amqps"),
        ({"dest-uri": ["amqp://", 5]}, "'dest-uri' must be a URI of amqp or amqps, not a number"),
    ],
)
def test_wrong_shovel_is_refused_with_key_and_rule(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_shovel("s", {**QUEUES, **changes})
    assert str(caught.value).startswith(f"Validation failed: shovel 's': {error}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        (QUEUES, "src-uri"),
        (QUEUES, "dest-uri"),
        (ADDRESSES, "src-address"),
        (ADDRESSES, "dest-address"),
    ],
)
def test_shovel_without_a_needed_key_is_refused(value: dict[str, Any], missing: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"'{missing}' is missing"):
        check_shovel("s", {name: each for name, each in value.items() if name != missing})


def test_shovel_without_a_source_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="'src-queue' or 'src-exchange' is missing"):
        check_shovel("s", {"src-uri": URI, "dest-uri": URI})


def test_keys_of_a_shovel_without_effect_are_named() -> None:
    assert idle_keys(QUEUES) == []
    assert idle_keys({**QUEUES, "src-consumer-args": {"x-priority": 1}}) == []
    assert idle_keys({**ADDRESSES, "src-consumer-args": {"x-priority": 1}}) == [
        "src-consumer-args has no effect: consumers of AMQP 1.0 have no arguments"
    ]
    [sentence] = idle_keys({**ADDRESSES, "dest-properties": {}})
    assert sentence == "dest-properties has no effect: a message keeps its sections, as RabbitMQ 4.2 keeps them"
