"""A broker whose clients say nearly what their protocols permit, and what must hold after each input."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Protocol

from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.core.publish.reservation import Reservation
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.flow.gate_stats import BlockStats
from penstock.settings import read
from tests.support.driven_connection import make_driver, output_of
from tests.support.nearly_amqp import Octets
from tests.support.piece_store import PieceStore

INPUTS = int(os.environ.get("PENSTOCK_FUZZ_INPUTS", "12000"))
SECONDS = float(os.environ.get("PENSTOCK_FUZZ_SECONDS", "0"))
SEED = os.environ.get("PENSTOCK_FUZZ_SEED", "1")
LIFE = 3000
"""Inputs after which everybody leaves and is looked for."""

TURNS = 1000
"""Turns within which a broker has nothing more to do after one input."""
CLIENTS = 4


class FuzzedClient(Protocol):
    """One connection of a broker under test."""

    connection: Connection

    def next_input(self) -> bytes:
        """Return what the next read of its socket brings."""

    def goodbye(self) -> bytes:
        """Return how it closes in good order."""

    def hear(self, data: bytes) -> None:
        """Read what the broker has written, and check that it is well formed."""


class World:
    """A broker, its clients and its clock."""

    def __init__(self, seed: object, client: Callable[[BrokerDriver, Octets], FuzzedClient]) -> None:
        self.octets = Octets(seed)
        self.driver = make_driver()
        self.store = PieceStore(self.driver.broker.large)
        self.clients: list[FuzzedClient] = []
        self.now = 0.0
        self._client = client

    def step(self) -> None:
        """One input."""
        chance = self.octets.chance
        if self.octets.one_in(100):
            self.driver.connection_limits.change(min_large_message=chance.choice((0, 8, 50)))
        self.now += chance.choice((0.0, 0.001, 0.1, 5.0)) if self.octets.one_in(2) else 0.0
        self.driver.begin(self.now)
        if len(self.clients) < CLIENTS:
            self.clients.append(self._client(self.driver, self.octets))
        client = chance.choice(self.clients)
        connection = client.connection
        connection.receive(client.next_input())
        self.turn()
        self.check()
        if connection.is_closing() or self.octets.one_in(300):
            self.leave(client)

    def turn(self) -> None:
        """Let everybody go on who may, and read all that is written."""
        for _ in range(TURNS):
            more = self.driver.run_turn()
            for client in self.clients:
                connection = client.connection
                client.hear(output_of(connection))
                if not connection.output.writable:
                    connection.output.drained()
                    more = True
                if connection.input_paused:
                    connection.resume_input()
                    more = True
            if self.store.write() + self.store.read():
                more = True
            self.driver.scheduler.begin_turn()
            if self.driver.scheduler.serve() or more:
                continue
            break
        else:
            raise AssertionError(f"there is always more to do after {TURNS} turns")
        self.driver.take_pending_output()
        self.driver.notifier.take_unblocked()
        self.driver.log_queue.take()

    def check(self) -> None:
        """Depth and reserved room never pass the capacity, and what is reserved is what the holders have."""
        for vhost in self.driver.broker.vhosts.values():
            for queue in vhost.queues.values():
                assert queue.reserved.messages >= 0, queue.name
                assert queue.reserved.bytes >= 0, queue.name
                holders = [each for each in queue.reserved.holders() if isinstance(each, Reservation)]
                assert sum(int(each.messages) for each in holders) == queue.reserved.messages, queue.name
                if queue.reserved.messages:
                    capacity = queue.thresholds.capacity
                    assert queue.messages + queue.reserved.messages <= capacity.messages, queue.name
                    assert queue.bytes + queue.reserved.bytes <= capacity.bytes, queue.name

    def leave(self, client: FuzzedClient) -> None:
        """A client goes away, in good order or not."""
        if client.connection.state is ConnectionState.RUNNING and self.octets.one_in(2):
            client.connection.receive(client.goodbye())
            self.turn()
        self.clients.remove(client)
        self.driver.disconnect(client.connection)
        self.turn()

    def end(self) -> None:
        """Everybody goes away, what stays is deleted, time passes: nothing may be left."""
        driver, broker = self.driver, self.driver.broker
        for client in list(self.clients):
            self.leave(client)
        self._pass_time()  # Suspended links of AMQP 1.0 expire, and give their messages back.
        for vhost in broker.vhosts.values():
            assert not vhost.replies
            for queue in list(vhost.queues.values()):
                self.check_unused(queue)
                broker.delete_queue(queue)
            for name in list(vhost.exchanges):
                for binding in vhost.bindings.to("exchange", name):
                    vhost.remove_binding(binding)
            for exchange in list(vhost.exchanges.values()):
                if exchange.name and not exchange.name.startswith(("amq.", "penstock.")):
                    vhost.delete_exchange(exchange.name, False)
        for _ in range(3):
            self._pass_time()
        assert not driver.connections
        assert not broker.gates.connections
        assert broker.closed_session_budget.bytes == 0
        assert driver.next_deadline() is None
        broker.table.forget_shared()  # Bounded caches of arguments.
        read._READ.clear()
        gc.collect()  # Errors that were raised in sources that are not compiled hold the frames of their tracebacks.
        self.store.write()
        assert self.store.pieces == {}
        assert driver.services.partial_messages.pool.taken == 0

    def _pass_time(self) -> None:
        self.now += 10_000
        self.driver.begin(self.now)
        self.driver.tick()
        self.turn()

    def check_unused(self, queue: Queue) -> None:
        """Nobody is left who consumes, settles or has credit."""
        assert queue.unacked_messages == queue.unacked_bytes == 0, queue.name
        assert not queue.consumers
        assert not queue.owner
        assert queue.reserved.messages == queue.reserved.bytes == 0, queue.name
        assert not queue.reserved.holders()


def objects() -> int:
    """Count all objects but the statistics that gates keep of producers that are gone: up to 100 at each gate."""
    gc.collect()
    return sum(not isinstance(each, BlockStats) for each in gc.get_objects())


def run_lives(world: World) -> None:
    """Give a world every input in turn; after each life of the broker its objects are counted."""
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
        try:
            world.end()
        except BaseException as error:
            error.add_note(f"PENSTOCK_FUZZ_SEED={SEED}, after input {done}")
            raise
        counts.append(objects())
    print(f"\n{done} inputs, objects after each life: {counts[:3]} ... {counts[-3:]}")
    settled = counts[len(counts) // 2]
    assert counts[-1] <= settled * 1.02, f"there are more and more objects: {counts}"
