"""A consumer and a publisher with confirms on one connection, both of one small queue: it fills up, and drains.

The publisher must be held without any harm to what the consumer acknowledges, or both would wait for ever.
"""

from __future__ import annotations

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.client_hold import CLIENTS, Client, driving, our_side

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SHARING = tuple(client for client in CLIENTS if "confirms" in client.ways)
WAIT_FOR_EACH = {"py-amqp", "kombu", "amqpstorm"}
"""Whose publisher waits for each confirmation: their queue may never fill up while its consumer keeps pace."""
CAPACITY = 20
COUNT = 300
"""Messages: six windows of a driver, and fifteen full queues."""


@pytest.mark.parametrize("client", SHARING, ids=lambda client: client.name.replace(" ", "-"))
def test_consumer_and_publisher_of_a_full_queue_share_a_connection(
    broker: BrokerProcess, name: str, client: Client
) -> None:
    client.skip_if_missing()
    with our_side(broker) as (_, channel):
        channel.queue_declare(name, arguments={"capacity-messages": CAPACITY})
        with driving(client, "confirms", broker.url, name, name, COUNT, size=20) as driver:
            driver.listen("done")
            received = driver.listen("received", COUNT)
            driver.leave()
        view = broker.queue(name)
        channel.queue_delete(name)
    assert received == list(range(COUNT))
    assert sorted(driver.told["confirmed"]) == list(range(COUNT))  # type: ignore[type-var]
    assert not {"refused", "failed"} & driver.told.keys()
    assert view["gate"]["closed_s"] > 0 or client.name in WAIT_FOR_EACH, "the queue was full"
    assert view["highest"]["messages"] <= CAPACITY
    assert view["depth"]["messages"] == 0
