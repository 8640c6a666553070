"""Second declarations of a queue, and invalid arguments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.compat.test_queues_declared import Declare, DeclareOk, Delete, DeleteOk, answer, missing
from tests.support.raw_client import Peer, describe


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {"durable": True}, "'durable' for queue '{}' in vhost '/': received 'true' but current is 'false'"),
        ({"durable": True}, {}, "'durable' for queue '{}' in vhost '/': received 'false' but current is 'true'"),
        (
            {"auto_delete": True},
            {},
            "'auto_delete' for queue '{}' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            {},
            {"auto_delete": True, "durable": True},
            "'durable' for queue '{}' in vhost '/': received 'true' but current is 'false'",
        ),
    ],
)
def test_queue_declared_again_with_other_properties_is_406(
    peer: Peer, name: str, first: dict[str, bool], second: dict[str, bool], said: str
) -> None:
    peer.ask(1, Declare(queue=name, **first), DeclareOk)
    assert answer(peer, Declare(queue=name, **second)) == (
        406,
        f"PRECONDITION_FAILED - inequivalent arg {said.format(name)}",
    )
    peer.ask(1, Declare(queue=name, **first), DeclareOk)
    peer.ask(1, Delete(queue=name), DeleteOk)


@pytest.mark.parametrize(
    ("argument", "one", "two", "kind"),
    [
        ("x-message-ttl", 100_000, 200_000, "signedint"),
        ("x-expires", 100_000, 200_000, "signedint"),
        ("x-max-length", 100_000, 200_000, "signedint"),
        ("x-max-length-bytes", 100_000, 200_000, "signedint"),
        ("x-max-length-bytes", 2**40, 2**41, "long"),
        ("x-dead-letter-exchange", "one", "two", "longstr"),
        ("x-overflow", "drop-head", "reject-publish", "longstr"),
        ("x-queue-mode", "lazy", "default", "longstr"),
    ],
)
def test_queue_declared_again_with_another_argument_is_406(
    peer: Peer, name: str, argument: str, one: Any, two: Any, kind: str
) -> None:
    def differs(given: dict[str, Any], said: str) -> None:
        assert answer(peer, Declare(queue=name, exclusive=True, arguments=given)) == (
            406,
            f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{name}' in vhost '/': {said}",
        )

    peer.declare(name, **{argument: one})
    differs({argument: two}, f"received '{two}' but current is '{one}'")
    differs({}, f"received none but current is the value '{one}' of type '{kind}'")
    peer.declare(name, **{argument: one})
    peer.ask(1, Delete(queue=name), DeleteOk)
    peer.declare(name)
    differs({argument: one}, f"received the value '{one}' of type '{kind}' but current is none")


@pytest.mark.parametrize("again", [5.0, "5", True])
def test_number_of_another_type_is_another_value(peer: Peer, name: str, again: Any) -> None:
    peer.declare(name, **{"x-max-length": 5})
    refused = answer(peer, Declare(queue=name, exclusive=True, arguments={"x-max-length": again}))
    assert isinstance(refused, tuple)
    assert refused[0] == 406


def test_arguments_that_mean_nothing_are_taken_and_not_compared(peer: Peer, name: str) -> None:
    peer.declare(name, **{"x-mine": 1, "note": "text", "x-nested": {"a": [1, {"b": None}]}})
    peer.declare(name, **{"x-mine": "two"})
    peer.declare(name)


def test_queue_without_a_type_is_a_classic_one(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.declare(name, **{"x-queue-type": "classic"})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "5"),
        ("x-message-ttl", 1.5),
        ("x-message-ttl", True),
        ("x-message-ttl", 2**53 + 1),
        ("x-expires", 0),
        ("x-expires", -1),
        ("x-expires", "soon"),
        ("x-expires", 2**53 + 1),
        ("x-max-length", -1),
        ("x-max-length", "5"),
        ("x-max-length-bytes", "5"),
        ("x-overflow", "explode"),
        ("x-overflow", 1),
        ("x-dead-letter-exchange", 1),
        ("x-dead-letter-routing-key", "key"),
    ],
)
def test_argument_that_cannot_be_meant_is_406_and_nothing_is_created(
    peer: Peer, name: str, argument: str, value: Any
) -> None:
    refused = answer(peer, Declare(queue=name, arguments={argument: value}))
    assert isinstance(refused, tuple), describe(refused)
    assert (refused[0], argument in refused[1]) == (406, True)
    assert answer(peer, Declare(queue=name, passive=True)) == missing(name)
