"""Rates of producers through real clients: set for a user, for a client, or for a link, and exceeded in no second.

A count is compared with the time from before the first message until after the count, so a slow machine only gives more
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pika
import pytest

from penstock.flow.token_bucket import smooth
from tests.support.brokers import BrokerProcess, eventually, some_name
from tests.support.commands import listed

pytestmark = pytest.mark.clients

RATE = 20
COUNT = 25


def paced(broker: BrokerProcess, queue: str, send: Callable[[], Any]) -> None:
    """Send `COUNT` messages at once, and again after an idle second: they come no faster than the rate."""
    per_s, burst = smooth(RATE)  # In one second the rate and one more may pass.
    for already in (0, COUNT):
        begun = time.monotonic()
        send()
        passed = 0
        while passed < COUNT:
            passed = broker.depth(queue) - already
            assert passed <= burst + per_s * (time.monotonic() - begun)
        idle_until = time.monotonic() + 1.0
        eventually(lambda until=idle_until: time.monotonic() > until, "idle time, of which nothing is stored")


def published_by_pika(broker: BrokerProcess, queue: str, properties: dict[str, Any] | None = None) -> None:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = properties
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)

        def send() -> None:
            for _ in range(COUNT):
                channel.basic_publish("", queue, b"x")
            connection.process_data_events(0)

        paced(broker, queue, send)
        channel.queue_delete(queue)


@pytest.mark.slow
def test_rate_of_a_user_is_exceeded_in_no_second(own_broker: BrokerProcess) -> None:
    own_broker.command("users", "set", "guest", "--each-producer", f"producerMaxRate={RATE}")
    published_by_pika(own_broker, "q")
    said = own_broker.command("users", "set", "guest", "--each-producer", "burst-messages=50").splitlines()
    assert said[-1] == "burst-messages has no effect beside producerMaxRate: set rate-messages instead"
    published_by_pika(own_broker, "q")


def test_client_sets_the_rate_of_its_channels(broker: BrokerProcess, name: str) -> None:
    published_by_pika(broker, name, {"producerMaxRate": RATE})


def test_client_sees_its_own_rate_in_the_list_of_channels(broker: BrokerProcess) -> None:
    parameters = pika.URLParameters(broker.url)
    parameters.client_properties = {"rate-messages": 7, "rate-bytes": 1000, "connection_name": some_name("c")}
    with pika.BlockingConnection(parameters) as connection:
        connection.channel()
        rates = [each["penstock"]["rates"] for each in listed(broker, "channels")]
    assert {"messages": 7.0, "bytes": 1000.0} in rates


def test_consumers_byte_window_and_rate_are_in_the_list(broker: BrokerProcess, name: str) -> None:
    windows: list[object] = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name)
        for window in (0, 5000, -1):
            terms = {"consumerWindowSize": window, "consumerMaxRate": 10}
            channel.basic_consume(name, lambda *_: None, arguments=terms, consumer_tag=f"w{window}")
        ours = {each["consumer_tag"]: each["penstock"] for each in listed(broker, "consumers")}
        windows = [ours[f"w{window}"]["window_bytes"] for window in (0, 5000, -1)]
        assert ours["w0"]["max_rate"] == 10.0
        lines = broker.command("list", "consumers", "--filter", f"queue={name}").splitlines()
        channel.queue_delete(name)
    assert windows == [0, 5000, None]
    at = lines[0].split().index("window_bytes")
    assert [line.split()[at] for line in lines[1:]] == ["0", "5,000", "-"]
