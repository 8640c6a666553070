"""How each client names itself and obeys a stop: the table in protocols/common/client_profiles.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from pamqp import commands, frame
from pika.adapters.blocking_connection import BlockingChannel

from penstock.protocols.common.client_profiles import UNKNOWN, profile_of
from tests.support.brokers import BrokerProcess, eventually, some_name
from tests.support.client_hold import CLIENTS, Client, Driver, driving, our_side
from tests.support.recording_relay import BASIC_PUBLISH, CHANNEL_FLOW_OK, CONNECTION_START_OK, Stream, spying

pytestmark = [pytest.mark.clients, pytest.mark.slow]

every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name.replace(" ", "-"))

ANSWER_FLOW = {"py-amqp", "kombu", "amqpstorm", "RabbitMQ's Java client"}
"""Who sends channel.flow-ok. All but the last go on publishing nevertheless."""
BREAK = {"amqplib"}
"""Whose connection channel.flow ends: it takes every method that it does not know for an answer, and waits for none."""
ARE_NOT_TOLD = {"librabbitmq"}
"""Who does not announce that it understands connection.blocked."""
COUNT = 10_000_000
"""Messages; more than anybody gets rid of before it is told to stop."""


@dataclass
class Publishing:
    """A client that publishes on and on, seen from between it and the broker."""

    client: Client
    driver: Driver
    said: Stream
    told: Stream
    beside: str
    channel: BlockingChannel
    """Ours."""

    def publishes(self) -> int:
        return sum(method == BASIC_PUBLISH for method, _, _ in self.said.methods)

    def answered_flow(self) -> bool:
        return any(method == CHANNEL_FLOW_OK for method, _, _ in self.said.methods)

    def number(self) -> int:
        """Return the number of the channel that it publishes on."""
        return next(channel for method, channel, _ in self.said.methods if method == BASIC_PUBLISH)

    def properties(self) -> dict[str, object]:
        payload = next(payload for method, _, payload in self.said.methods if method == CONNECTION_START_OK)
        raw = b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce"
        method = frame.unmarshal(raw)[2]
        assert isinstance(method, commands.Connection.StartOk)
        return dict(method.client_properties or {})

    def goes_on(self) -> bool:
        before = self.publishes()
        return eventually(lambda: self.publishes() > before + 500, f"{self.client.name} goes on publishing")


@contextmanager
def publishing(broker: BrokerProcess, client: Client) -> Iterator[Publishing]:
    client.skip_if_missing()
    held, beside = some_name("endless"), some_name("beside")
    with our_side(broker) as (_, channel), spying(broker) as spy:
        channel.queue_declare(held, arguments={"overflow": "drop-head", "capacity-messages": 10})
        channel.queue_declare(beside)
        with driving(client, client.ways[-1], spy.url, held, beside, COUNT, size=20) as driver:

            def look() -> tuple[Stream, Stream] | None:
                for said, told in spy.pairs:
                    if any(method == BASIC_PUBLISH for method, _, _ in list(said.methods)):
                        return said, told
                return None

            said, told = eventually(look, f"{client.name} publishes")
            yield Publishing(client, driver, said, told, beside, channel)
        channel.queue_delete(held)
        channel.queue_delete(beside)


@every_client
def test_who_stops_for_channel_flow_is_who_the_table_says_and_nobody_for_connection_blocked(
    broker: BrokerProcess, client: Client
) -> None:
    with publishing(broker, client) as seen:
        properties = seen.properties()
        profile = profile_of(str(properties["product"]), str(properties.get("platform", "")), {})
        assert profile is not UNKNOWN, properties
        capabilities = properties["capabilities"]
        assert isinstance(capabilities, dict)
        assert ("connection.blocked" in capabilities) is (client.name not in ARE_NOT_TOLD)
        if client.name not in ARE_NOT_TOLD:
            seen.told.say(frame.marshal(commands.Connection.Blocked("so says the test"), 0))
            assert seen.goes_on()
        seen.told.say(frame.marshal(commands.Channel.Flow(False), seen.number()))
        if profile.obeys_flow:
            obeys(seen)
        elif client.name in BREAK:
            seen.driver.listen("failed")
        else:
            assert seen.goes_on()
        if client.name in ANSWER_FLOW:
            eventually(seen.answered_flow, "channel.flow-ok")
        else:
            assert not seen.answered_flow()


def obeys(seen: Publishing) -> None:
    """It answers, publishes nothing while its consumer gets message after message, and goes on when it is told to."""
    eventually(lambda: any(method == CHANNEL_FLOW_OK for method, _, _ in list(seen.said.methods)), "channel.flow-ok")
    before = seen.publishes()
    for number in range(100):
        seen.channel.basic_publish("", seen.beside, str(number).encode())
        seen.driver.listen("received", number + 1)
    assert seen.publishes() == before
    seen.told.say(frame.marshal(commands.Channel.Flow(True), seen.number()))
    assert seen.goes_on()
