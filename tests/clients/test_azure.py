"""The engine inside azure-servicebus over AMQP 1.0 (PyPI): outcomes, and messages without credit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.client_checks import available, declare_with_dead_letters, lines_of
from tests.support.fetched_clients import ROOT, azure_python

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

CAPACITY = 4


def check(python: Path, module: str, *words: str) -> list[Any]:
    """Return what a program of checks has told."""
    return lines_of([str(python), "-m", f"tests.clients.drivers.{module}", *words], ROOT, 60)


def test_azure_receives_and_sends_outcomes(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    """It waits for ever for the outcome of a released message, so an unroutable one is rejected."""
    python = available(azure_python)
    declare_with_dead_letters(channel, name)
    assert check(python, "check_azure", "outcomes", broker.url.rstrip("/"), name) == [
        {"outcomes": ["accepted", "amqp:not-found", "amqp:decode-error"]},
        {"deliveries": [["a", 0], ["a", 0], ["a", 1]]},
    ]
    eventually(lambda: broker.depth(f"{name}-dead") == 1, "the rejected message is a dead letter")


def test_azure_sender_without_credit_is_detached_and_the_capacity_holds(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    """Its sender gives itself credit: what the hold room takes is held, and then its link ends."""
    python = available(azure_python)
    declare_with_dead_letters(channel, name, **{"capacity-messages": CAPACITY})
    told = check(python, "check_azure", "flood", broker.url.rstrip("/"), name)
    assert told[0] == {"sent": 60}
    last = told[-1]
    assert isinstance(last, dict)
    assert last["answers"] == 60, "none of its messages is left without an answer"
    assert last["accepted"] <= broker.queue(name)["highest"]["messages"] <= CAPACITY
    assert "a message without credit on link" in broker.log()
