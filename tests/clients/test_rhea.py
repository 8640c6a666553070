"""rhea over AMQP 1.0 (npm: rhea): outcomes of its messages and of its deliveries, and drain."""

from __future__ import annotations

import shutil

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.client_checks import declare_with_dead_letters, lines_of
from tests.support.fetched_clients import HERE

pytestmark = pytest.mark.clients

FOLDER = HERE / "node"


def test_rhea_receives_and_sends_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules" / "rhea").is_dir():
        pytest.skip("rhea is not installed in tests/clients/node: npm was not found by `make setup`")
    declare_with_dead_letters(channel, name)
    (told,) = lines_of([node, "check_rhea.js", broker.url, name], FOLDER)
    assert told == {
        "outcomes": ["accepted", "released", "amqp:not-found"],
        "deliveries": [["a", 0], ["a", 0], ["a", 1]],
        "drained": 0,
        "dead": ["a", "example:bad"],
    }
