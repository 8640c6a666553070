"""All clients of AMQP 1.0: idle while others need the room of their credit, drained, and usable again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.brokers import BrokerProcess, eventually, serving, some_name
from tests.support.client_hold import AMQP10_CLIENTS, Client, driving, our_side, take
from tests.support.http_client import Web

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(300)]

CAPACITY = 20
COUNT = 12
OTHERS = 30
SIZE = 100

ANSWERS = {"Qpid JMS", "fe2o3-amqp"}
"""Clients that give the credit back when they are asked to. Its room is free before that (decision 97)."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("idle"), "--http", "127.0.0.1:0") as process:
        yield process
        assert "Traceback" not in process.log()


def credit_of(broker: BrokerProcess) -> dict[str, Any]:
    """Return the credit of the only link that was idle while others waited."""
    found = []
    for channel in Web(broker.http).get("/channels"):
        for link in channel["penstock"].get("links", []):
            if link.get("credit", {}).get("idle"):
                found.append(link["credit"])
    assert len(found) <= 1
    return found[0] if found else {}


@pytest.mark.parametrize("client", AMQP10_CLIENTS, ids=lambda client: client.name.replace(" ", "-"))
def test_idle_client_leaves_its_room_to_other_clients_and_continues(broker: BrokerProcess, client: Client) -> None:
    client.skip_if_missing()
    held, beside = some_name("idle"), some_name("beside")
    limits = {"capacity-messages": CAPACITY, "stop-messages": CAPACITY, "resume-messages": CAPACITY}
    with our_side(broker) as (connection, channel):
        channel.queue_declare(held, arguments=limits)
        channel.queue_declare(beside)
        with driving(client, "idle", broker.url, held, beside, COUNT, SIZE) as driver:
            driver.listen("confirmed")
            for number in range(OTHERS):
                channel.basic_publish("", held, str(COUNT + number).encode())
            connection.process_data_events(0)
            eventually(lambda: broker.depth(held) == CAPACITY, "no place is kept for the idle one")
            credit = credit_of(broker)
            assert credit["idle"] >= 1
            assert (credit["drained"] > 0) == (client.name in ANSWERS), credit
            assert credit["moved"] > 0, credit
            channel.basic_publish("", beside, b"0")
            taken = take(connection.channel(), held, COUNT + OTHERS)
            driver.listen("done")
            driver.leave()
        assert sorted(taken) == list(range(COUNT + OTHERS))
        assert "failed" not in driver.told
        assert broker.queue(held)["highest"]["messages"] <= CAPACITY
        channel.queue_delete(held)
        channel.queue_delete(beside)
