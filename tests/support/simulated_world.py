"""A whole broker in the simulation (the real driver and event loop), its users, and the checks of every pass."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter

from penstock.connections.connection_limits import ConnectionLimits
from penstock.core.broker import Broker
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.server.event_loop import EventLoop
from penstock.server.transport import Transport
from penstock.wire.amqp091 import spec
from tests.support.simulated_client import Client, Lost
from tests.support.simulated_loop import SimLoop
from tests.support.simulated_network import connect


class World:
    """One broker with one bounded queue, in one loop."""

    def __init__(self, loop: SimLoop, policy: ConnectionLimits | None = None) -> None:
        self.loop = loop
        self.core = Broker(Defaults())
        self.core.add_vhost("/")
        policy = policy or ConnectionLimits()
        policy.change(handshakes_address_max=10_000)  # A thousand clients of one address log in at the same moment.
        self.driver = BrokerDriver(self.core, policy, "seed", "simulated")
        self.event_loop = EventLoop(self.driver, loop)
        self.queue: Queue
        self.capacity = 0
        self.highest = 0
        self.crossings = 0
        self.trace = hashlib.sha256()
        self._connected = 0
        loop.after_pass = self.look

    def look(self) -> None:
        """The law that holds at every moment: the depth is at most the capacity."""
        if self.capacity:
            depth = int(self.queue.messages)
            assert depth <= self.capacity, f"overrun at {self.loop.time()}: {depth} > {self.capacity}"
            self.highest = max(self.highest, depth)

    def note(self, *what: object) -> None:
        """Add to the trace of the run, with the time."""
        self.trace.update(f"{self.loop.time():.9f} {what}\n".encode())

    def client(self, name: str) -> Client:
        """Connect a client; it has not said anything yet."""
        self._connected += 1
        client = Client(self.loop, name)
        connect(self.loop, Transport(self.event_loop), client, self._connected)
        return client

    async def declare(self, client: Client, name: str, **arguments: int) -> None:
        """Declare the queue that is looked at; `capacity_messages=5` is the argument capacity-messages."""
        table = {word.replace("_", "-"): value for word, value in arguments.items()}
        await client.call(spec.QUEUE_DECLARE, spec.QUEUE_DECLARE_OK, queue=name, arguments=table)
        self.queue = self.core.vhosts["/"].queues[name]
        self.capacity = arguments["capacity_messages"]

    async def settled(self) -> None:
        """Wait until what was sent has arrived, and acted."""
        await asyncio.sleep(1.0)

    def check_empty(self) -> None:
        """Nobody waits, nothing is held, nothing is in the queue, and nobody who went away has left a trace."""
        queue = self.queue
        assert (queue.messages, queue.bytes, queue.unacked_messages) == (0, 0, 0)
        assert queue.gate.open
        assert not queue.gate.waiters
        assert not queue.gate.blocked
        assert not self.core.turns.pending
        assert self.core.closed_session_budget.messages == self.core.closed_session_budget.bytes == 0
        for connection in self.driver.connections.values():
            assert connection.pausing.budget.messages == connection.pausing.budget.bytes == 0
            assert connection.blocks == 0
        sessions = [each for con in self.driver.connections.values() for each in con.engine.sessions()]
        live = {id(producer) for session in sessions for producer in session.producers()}
        assert set(queue.gate.stats.blocks) <= live


class SlowConsumer:
    """Takes messages at a pace, acknowledges in batches, and keeps count; it comes back when it is cut off."""

    def __init__(self, world: World, seconds_each: float, prefetch: int) -> None:
        self.world = world
        self.seconds_each = seconds_each
        self.prefetch = prefetch
        self.order: list[str] = []
        """The producers of what came for the first time, in order."""
        self.got: Counter[str] = Counter()
        self.client: Client
        self.may_work = asyncio.Event()
        """Cleared while it stands still."""
        self.may_work.set()
        self._wanted = 0
        self._enough = asyncio.Event()
        self._waiting: asyncio.Queue[tuple[Client, int, bytes, bool]] = asyncio.Queue()

    async def start(self) -> None:
        """Connect and consume."""
        client = self.client = self.world.client("consumer")
        client.on_delivery = lambda tag, body, again: self._waiting.put_nowait((client, tag, body, again))
        await client.open(prefetch=self.prefetch)
        await client.call(spec.BASIC_CONSUME, spec.BASIC_CONSUME_OK, queue=self.world.queue.name)

    async def run(self) -> None:
        """Consume for ever; what comes on a connection that is gone is left to come again."""
        while True:
            client, tag, body, again = await self._waiting.get()
            await self.may_work.wait()
            if client.lost:
                continue
            text = body.decode()
            self.world.note("got", text, again)
            self.got[text] += 1
            if self.got[text] == 1:
                self.order.append(text.partition(":")[0])
                if len(self.got) == self._wanted:
                    self._enough.set()
            await asyncio.sleep(self.seconds_each)
            if (tag % 10 == 0 or self._waiting.empty()) and not client.lost:
                client.ack(tag, multiple=True)

    async def come_back(self) -> None:
        """Be cut off, and connect anew; what was not acknowledged comes again."""
        self.client.end.abort()
        await self.world.settled()
        await self.start()

    async def until(self, messages: int) -> None:
        """Wait until so many different messages have come."""
        self._wanted = messages
        await self._enough.wait()


async def stream(world: World, client: Client, count: int, window: int, start: int = 0) -> None:
    """Publish `count` messages: with confirms at most `window` at a time, without (0) as fast as the socket takes."""
    try:
        await client.open(confirms=window > 0)
        for number in range(start, start + count):
            await client.may_write.wait()
            if client.lost or client.closed_with:
                raise Lost(client.name)
            client.publish(world.queue.name, f"{client.name}:{number}".encode())
            if window:
                await client.window(window - 1)
        await client.window(0)
    except Lost:
        world.note("lost", client.name, client.closed_with)
