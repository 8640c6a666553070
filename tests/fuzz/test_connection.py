"""Random input on connections: no exception, no hang, well-formed answers, and no trace left.

PENSTOCK_FUZZ_INPUTS sets the number of inputs (one input is one read of a socket), PENSTOCK_FUZZ_SECONDS the time
instead, and PENSTOCK_FUZZ_SEED the seed.
"""

from __future__ import annotations

import pytest

from penstock.connections.connection import Connection
from penstock.connections.peer import Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from penstock.wire.amqp091.spec import PROTOCOL_HEADER
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import cut
from tests.support.fuzzed_broker import INPUTS, SECONDS, SEED, World, run_lives
from tests.support.nearly_amqp import Octets


class Client:
    """One connection, what it has been told to close, and input that was cut in the middle."""

    def __init__(self, driver: BrokerDriver, octets: Octets) -> None:
        self.connection: Connection = driver.connect(Peer("127.0.0.1:1", True))
        self.octets = octets
        self.answers: list[bytes] = []
        self.tags: dict[int, list[int]] = {}
        self.rest = b""
        self.greeting = self.hello()

    def hello(self) -> bytes:
        capabilities: dict[str, object] = {"consumer_cancel_notify": True, "connection.blocked": True}
        said = PROTOCOL_HEADER
        said += method_frame(
            0,
            spec.CONNECTION_START_OK,
            client_properties={"capabilities": capabilities},
            mechanism="PLAIN",
            response=plain_response("guest", "guest"),
        )
        frame_max = self.octets.chance.choice((0, 4096, 131072))
        said += method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=20, frame_max=frame_max, heartbeat=0)
        said += method_frame(0, spec.CONNECTION_OPEN, virtual_host="/")
        return said + b"".join(method_frame(channel, spec.CHANNEL_OPEN) for channel in (1, 2, 3))

    def next_input(self) -> bytes:
        """What the next read of its socket brings."""
        if self.greeting:
            said, self.greeting = self.greeting, b""
            return self.octets.spoilt(said)
        said = self.rest + b"".join(self.answers)
        self.answers = []
        for _ in range(self.octets.chance.choice((1, 1, 2, 4))):
            channel = self.octets.chance.choice((1, 1, 1, 2, 2, 3) if not self.octets.one_in(300) else (0, 4, 65535))
            self.octets.tags = self.tags.get(channel, [])
            said += self.octets.something(channel)
        said = self.octets.spoilt(said)
        at = self.octets.chance.randrange(len(said) + 1) if self.octets.one_in(5) else len(said)
        self.rest = said[at:]
        return said[:at]

    def goodbye(self) -> bytes:
        return method_frame(0, spec.CONNECTION_CLOSE)

    def hear(self, data: bytes) -> None:
        """Read what the broker has written: it must be whole frames of methods that exist."""
        for kind, channel, payload in cut(data.removeprefix(PROTOCOL_HEADER)):
            assert kind in (spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY, spec.FRAME_HEARTBEAT)
            method = decode_method(payload) if kind == spec.FRAME_METHOD else None
            if method is not None and method.id in (spec.BASIC_DELIVER, spec.BASIC_GET_OK):
                self.tags[channel] = [*self.tags.get(channel, [])[-9:], int(str(method.args["delivery_tag"]))]
            if method is not None and method.id == spec.CHANNEL_CLOSE:
                self.tags.pop(channel, None)
                self.answers.append(method_frame(channel, spec.CHANNEL_CLOSE_OK))
                self.answers.append(method_frame(channel, spec.CHANNEL_OPEN))


@pytest.mark.timeout(0 if SECONDS or INPUTS > 100_000 else 400)
def test_input_of_any_kind_at_most_ends_its_connection() -> None:
    """Every input in turn; after each life of the broker its objects are counted."""
    world = World(f"{SEED} 0", Client)
    run_lives(world)
