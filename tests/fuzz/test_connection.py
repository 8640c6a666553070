"""Whatever comes on connections, nothing is raised, nothing hangs, every answer is well formed, and no trace is left.

PENSTOCK_FUZZ_INPUTS says how many inputs (each what one read of a socket brings), PENSTOCK_FUZZ_SECONDS for how long
instead, PENSTOCK_FUZZ_SEED which ones.
"""

from __future__ import annotations

import gc
import os
import time

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.peer import Peer
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from penstock.wire.amqp091.spec import PROTOCOL_HEADER
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import cut, make_driver
from tests.support.nearly_amqp import Octets

INPUTS = int(os.environ.get("PENSTOCK_FUZZ_INPUTS", "12000"))
SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "0"))
SEED = os.environ.get("PENSTOCK_FUZZ_SEED", "1")
LIFE = 3000
"""Inputs after which everybody leaves and is looked for."""
TURNS = 1000
"""Turns within which a broker has nothing more to do after one input."""
CLIENTS = 4


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


class World:
    """A broker, its clients and its clock."""

    def __init__(self, seed: object) -> None:
        self.octets = Octets(seed)
        self.driver = make_driver()
        self.clients: list[Client] = []
        self.now = 0.0

    def step(self) -> None:
        """One input."""
        chance = self.octets.chance
        self.now += chance.choice((0.0, 0.001, 0.1, 5.0))
        self.driver.begin(self.now)
        if len(self.clients) < CLIENTS:
            self.clients.append(Client(self.driver, self.octets))
        client = chance.choice(self.clients)
        connection = client.connection
        connection.receive(client.next_input())
        self.turn()
        if connection.is_closing() or self.octets.one_in(300):
            self.leave(client)

    def turn(self) -> None:
        """Let everybody go on who may, and read all that is written."""
        for _ in range(TURNS):
            more = self.driver.run_turn()
            for client in self.clients:
                connection = client.connection
                client.hear(connection.take_output())
                if not connection.output.writable:
                    connection.output.drained()
                    more = True
                if connection.input_paused:
                    connection.resume_input()
                    more = True
            if not more:
                break
        else:
            raise AssertionError(f"there is always more to do after {TURNS} turns")
        self.driver.take_pending_output()
        self.driver.notifier.take_unblocked()
        self.driver.log_queue.take()

    def leave(self, client: Client) -> None:
        """A client goes away, in good order or not."""
        if client.connection.state is ConnectionState.RUNNING and self.octets.one_in(2):
            client.connection.receive(method_frame(0, spec.CONNECTION_CLOSE))
            self.turn()
        self.clients.remove(client)
        self.driver.disconnect(client.connection)
        self.turn()

    def end(self) -> None:
        """Everybody goes away, what stays is deleted, time passes: nothing may be left."""
        driver, broker = self.driver, self.driver.broker
        for client in list(self.clients):
            self.leave(client)
        for vhost in broker.vhosts.values():
            assert not vhost.replies
            for queue in list(vhost.queues.values()):
                assert queue.unacked_messages == queue.unacked_bytes == 0, queue.name
                assert not queue.consumers
                assert not queue.owner
                broker.delete_queue(queue)
            for name in list(vhost.exchanges):
                for binding in vhost.bindings.to("exchange", name):
                    vhost.remove_binding(binding)
            for exchange in list(vhost.exchanges.values()):
                if exchange.name and not exchange.name.startswith(("amq.", "penstock.")):
                    vhost.delete_exchange(exchange.name, False)
        for _ in range(3):
            self.now += 10_000
            driver.begin(self.now)
            driver.tick()
            self.turn()
        assert not driver.connections
        assert not broker.gates.connections
        assert broker.closed_session_budget.bytes == 0
        assert driver.next_deadline() is None


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.timeout(0 if SECONDS or INPUTS > 100_000 else 400)
def test_nothing_that_comes_does_more_than_end_its_connection() -> None:
    """Every input in turn; after each life of the broker its objects are counted."""
    world = World(f"{SEED} 0")
    counts: list[int] = []
    done = 0
    stop = time.monotonic() + SECONDS
    while time.monotonic() < stop if SECONDS else done < INPUTS:
        for _ in range(LIFE):
            try:
                world.step()
            except BaseException as error:
                error.add_note(f"PENSTOCK_FUZZ_SEED={SEED}, input {done}")
                raise
            done += 1
        world.end()
        counts.append(objects())
    print(f"\n{done} inputs, objects after each life: {counts[:3]} ... {counts[-3:]}")
    settled = counts[len(counts) // 2]
    assert counts[-1] <= settled * 1.02, f"there are more and more objects: {counts}"
