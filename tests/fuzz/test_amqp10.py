"""Random input of AMQP 1.0 clients: no exception, no hang, well-formed answers, and no trace left.

Some clients speak AMQP 0-9-1, so that messages are converted. The variables are those of tests/fuzz/test_connection.py.
"""

from __future__ import annotations

import pytest

from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.frames import frame
from tests.fuzz.test_connection import Client
from tests.support.fuzzed_broker import INPUTS, SECONDS, SEED, FuzzedClient, World, run_lives
from tests.support.nearly_amqp import Octets
from tests.support.nearly_amqp10 import QUEUES, Amqp10Client


class Link10(Amqp10Client):
    """A client of AMQP 1.0 with its connection, and input that was cut in the middle."""

    def __init__(self, driver: BrokerDriver, octets: Octets) -> None:
        super().__init__(octets)
        self.connection: Connection = driver.connect(Peer("127.0.0.1:1", True))
        self.rest = b""

    def next_input(self) -> bytes:
        if self.greeting:
            said, self.greeting = self.greeting, b""
            return self.octets.spoilt(said)
        said = self.rest + b"".join(self.answers)
        self.answers = []
        for _ in range(self.octets.chance.choice((1, 1, 2, 4))):
            said += self.something()
        said = self.octets.spoilt(said)
        at = self.octets.chance.randrange(len(said) + 1) if self.octets.one_in(5) else len(said)
        self.rest = said[at:]
        return said[:at]

    def goodbye(self) -> bytes:
        return frame(0, encode(spec.CLOSE))


def new_client(driver: BrokerDriver, octets: Octets) -> FuzzedClient:
    return Client(driver, octets) if octets.one_in(6) else Link10(driver, octets)


class Nodes(World):
    """A broker with small queues, which clients of AMQP 1.0 cannot declare."""

    def step(self) -> None:
        vhost = self.driver.broker.vhosts["/"]
        for index, name in enumerate(QUEUES):
            if name not in vhost.queues:
                arguments: dict[str, object] = {"capacity-messages": 5 * (index + 1)}
                if index == 3:
                    arguments["overflow"] = self.octets.chance.choice(("drop-head", "reject", "block"))
                vhost.declare_queue(name, arguments, False, False, None, None)
        for name, kind in (("e0", "topic"), ("e1", "headers")):
            if name not in vhost.exchanges:
                vhost.declare_exchange(name, kind, {}, False, False, False)
                vhost.bind(name, vhost.queues["q1"], None, "a.*", {"x-match": "any", "a.b": "q0"})
        super().step()


@pytest.mark.slow
@pytest.mark.timeout(0 if SECONDS or INPUTS > 100_000 else 400)
def test_amqp10_input_of_any_kind_at_most_ends_its_connection() -> None:
    """Every input in turn; after each life of the broker its objects are counted."""
    world = Nodes(f"{SEED} 1.0", new_client)
    run_lives(world)
