"""fe2o3-amqp over AMQP 1.0 (crates.io): outcomes of messages and deliveries, and drain."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.client_checks import available, declare_with_dead_letters, lines_of
from tests.support.fetched_clients import rust_program

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_fe2o3_receives_and_sends_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    program = available(rust_program)
    declare_with_dead_letters(channel, name)
    assert lines_of([str(program), "check", broker.url.rstrip("/"), name]) == [
        {"outcomes": ["accepted", "released", "rejected: Some(AmqpError(NotFound))"]},
        {"counts": [0, 0, 1]},
        {"drained": True},
    ]
    eventually(lambda: broker.depth(f"{name}-dead") == 1, "the rejected message is a dead letter")
