"""How each client names itself and obeys a stop: the table in connections/client_profiles.py.

The short run has a client of each kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pamqp import commands, frame
from pika.adapters.blocking_connection import BlockingChannel

from penstock.connections.client_profiles import UNKNOWN, profile_of
from tests.support.brokers import BrokerProcess, eventually, some_name
from tests.support.client_hold import CLIENTS, Client, Driver, driving, kernel_bound, our_side
from tests.support.recording_relay import (
    BASIC_ACK,
    BASIC_PUBLISH,
    CHANNEL_FLOW,
    CHANNEL_FLOW_OK,
    CONNECTION_START_OK,
    Stream,
    spying,
)

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def clients(*short: str) -> pytest.MarkDecorator:
    """Return the parameter of a test: each client, all but those of these names in the long run only."""
    cases = [
        pytest.param(client, id=client.name.replace(" ", "-"), marks=() if client.name in short else pytest.mark.long)
        for client in CLIENTS
    ]
    return pytest.mark.parametrize("client", cases)


ANSWER_FLOW = {
    "py-amqp", "kombu", "amqpstorm", "RabbitMQ's Java client", "Spring AMQP", "reactor-rabbitmq", "amqp091-go",
}  # fmt: skip
"""Who sends channel.flow-ok. All but the Java clients go on publishing nevertheless."""
OBEY = {"RabbitMQ's Java client", "Spring AMQP", "reactor-rabbitmq"}
"""Who publishes nothing until the next channel.flow: the Java client, and what is made with it."""
STOP_FOR_GOOD = {"lapin"}
"""Who publishes and acknowledges nothing any more, and answers only if it has nothing else to write."""
ECHO = {"php-amqplib"}
"""Who answers with a channel.flow of its own, which would stop its consumers."""
BREAK = {"amqplib", "rabbitmq-client"}
"""Whose connection channel.flow ends: it takes every method that it does not know for an answer, and waits for none."""
ARE_NOT_TOLD = {"librabbitmq"}
"""Who does not announce that it understands connection.blocked."""
STOP_WRITING = {"rabbitmq-client", "lapin"}
"""Who writes nothing after connection.blocked, no acknowledgement either."""
THROW = {"php-amqplib"}
"""Whose publishes fail after connection.blocked."""
PLAIN_SIZE = 8_000
"""Octets of a message without confirms, large enough that few of them fill the buffers of all sockets."""
COUNT = 10_000_000
"""Messages; more than anybody gets rid of before it is told to stop."""


@dataclass
class Publishing:
    """A client that publishes on and on, seen from between it and the broker."""

    client: Client
    way: str
    driver: Driver
    said: Stream
    told: Stream
    beside: str
    channel: BlockingChannel
    """Ours."""

    def publishes(self) -> int:
        return sum(method == BASIC_PUBLISH for method, _, _ in self.said.methods)

    def answered_flow(self) -> bool:
        return any(method == CHANNEL_FLOW_OK for method, _, _ in list(self.said.methods))

    def number(self) -> int:
        """Return the number of the channel that it publishes on."""
        return next(channel for method, channel, _ in self.said.methods if method == BASIC_PUBLISH)

    def properties(self) -> dict[str, object]:
        payload = next(payload for method, _, payload in self.said.methods if method == CONNECTION_START_OK)
        raw = b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce"
        method = frame.unmarshal(raw)[2]
        assert isinstance(method, commands.Connection.StartOk)
        return dict(method.client_properties or {})

    def acknowledgements(self) -> int:
        return sum(method == BASIC_ACK for method, _, _ in self.said.methods)

    def goes_on(self) -> bool:
        """Wait until it has published more than the sockets between it and the relay may have held."""
        before, in_flight = self.publishes(), 500
        if self.way == "plain":
            in_flight += (kernel_bound("tcp_rmem") + kernel_bound("tcp_wmem")) // PLAIN_SIZE
        return eventually(lambda: self.publishes() > before + in_flight, f"{self.client.name} goes on publishing")

    def feed(self, first: int, count: int) -> None:
        """Have its consumer receive so many messages, one after the other."""
        for number in range(first, first + count):
            self.channel.basic_publish("", self.beside, str(number).encode())
            self.driver.listen("received", number + 1)


@contextmanager
def publishing(broker: BrokerProcess, client: Client, way: str) -> Iterator[Publishing]:
    client.skip_if_missing()
    size = PLAIN_SIZE if way == "plain" else 20
    held, beside = some_name("endless"), some_name("beside")
    with our_side(broker) as (_, channel), spying(broker) as spy:
        channel.queue_declare(held, arguments={"overflow": "drop-head", "capacity-messages": 10})
        channel.queue_declare(beside)
        with driving(client, way, spy.url, held, beside, COUNT, size) as driver:

            def look() -> tuple[Stream, Stream] | None:
                for said, told in spy.pairs:
                    if any(method == BASIC_PUBLISH for method, _, _ in list(said.methods)):
                        return said, told
                return None

            said, told = eventually(look, f"{client.name} publishes")
            yield Publishing(client, way, driver, said, told, beside, channel)
        channel.queue_delete(held)
        channel.queue_delete(beside)


@clients("pika", "py-amqp", "amqpstorm", "librabbitmq", "rabbitmq-client")
def test_connection_blocked_stops_each_client_as_its_profile_says(broker: BrokerProcess, client: Client) -> None:
    """One that goes on is looked at without confirms where it can, for its publishes wait for nothing then."""
    way = client.ways[0 if client.name in STOP_WRITING | THROW else -1]
    with publishing(broker, client, way) as seen:
        properties = seen.properties()
        profile = profile_of(str(properties["product"]), str(properties.get("platform", "")), {})
        assert profile is not UNKNOWN, properties
        capabilities = properties["capabilities"]
        assert isinstance(capabilities, dict)
        assert ("connection.blocked" in capabilities) is (client.name not in ARE_NOT_TOLD)
        assert profile.fails_when_blocked is (client.name in THROW)
        assert profile.stops_writing is (client.name in STOP_WRITING | THROW)
        if client.name in ARE_NOT_TOLD:
            return
        seen.told.say(frame.marshal(commands.Connection.Blocked("so says the test"), 0))
        if client.name in THROW:
            assert "blocked" in str(seen.driver.listen("failed")[0]).lower()
        elif client.name in STOP_WRITING:
            assert seen.driver.listen("blocked") == ["so says the test"]
            writes_nothing(seen)
            seen.told.say(frame.marshal(commands.Connection.Unblocked(), 0))
            assert seen.goes_on()
        else:
            assert seen.goes_on()


def writes_nothing(seen: Publishing) -> None:
    """Its consumer gets message after message, and none is acknowledged until connection.unblocked."""
    seen.feed(0, 50)
    before = seen.publishes(), seen.acknowledgements()
    seen.feed(50, 100)
    assert (seen.publishes(), seen.acknowledgements()) == before


@clients("aio-pika", "kombu", "RabbitMQ's Java client", "amqplib")
def test_channel_flow_stops_only_clients_that_obey(broker: BrokerProcess, client: Client) -> None:
    with publishing(broker, client, client.ways[0 if client.name in BREAK | ECHO | STOP_FOR_GOOD else -1]) as seen:
        properties = seen.properties()
        profile = profile_of(str(properties["product"]), str(properties.get("platform", "")), {})
        assert profile.obeys_flow is (client.name in OBEY)
        seen.told.say(frame.marshal(commands.Channel.Flow(False), seen.number()))
        if client.name in OBEY:
            eventually(seen.answered_flow, "channel.flow-ok")
            stops(seen)
            seen.told.say(frame.marshal(commands.Channel.Flow(True), seen.number()))
            assert seen.goes_on()
        elif client.name in STOP_FOR_GOOD:
            stops(seen)
        elif client.name in BREAK:
            seen.driver.listen("failed")
        else:
            assert seen.goes_on()
        if client.name in ANSWER_FLOW:
            eventually(seen.answered_flow, "channel.flow-ok")
        elif client.name not in STOP_FOR_GOOD:
            assert not seen.answered_flow()
        if client.name in ECHO:
            eventually(lambda: any(method == CHANNEL_FLOW for method, _, _ in list(seen.said.methods)), "channel.flow")


def stops(seen: Publishing) -> None:
    """It publishes nothing while its consumer gets message after message."""
    seen.feed(0, 50)
    before = seen.publishes()
    seen.feed(50, 100)
    assert seen.publishes() == before
