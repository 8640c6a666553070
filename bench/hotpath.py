"""One step of the hot path in this process, without sockets: what the guard counts and the memory is measured on.

`python -m bench.hotpath10 N STEP...` prepares and takes each step for N messages, then for 2N. All steps begin with the
same number of messages published and, where they need it, delivered, whatever N is: two runs with different N differ
in nothing but the step.
"""

import gc
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connections.connection import Connection
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import WorkMeter, finish
from penstock.persistence.settlements import encode_steps
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.sasl import plain_response

QUEUE = "hotpath"
BODY_OCTETS = 100
BATCH = 100
"""Messages of one read, and of one acknowledgement."""
PREPARED = 20_000
"""Messages that wait before the deliver and ack steps begin; N is at most that."""
CAPACITY = 1 << 40
Check = Callable[[str, Any, int], None]
"""Fails unless exactly that has happened which a step is about."""

PUBLISH = method_frame(1, spec.BASIC_PUBLISH, exchange="", routing_key=QUEUE)
BODY = frame(3, 1, bytes(BODY_OCTETS))
MESSAGE = PUBLISH + frame(2, 1, encode_header(BODY_OCTETS, Properties(delivery_mode=1))) + BODY
BOUND = 1 << 20
"""Capacity of the bounded queue."""
WINDOW = 500
"""Unconfirmed publishes of the publisher of that queue."""
KILOBYTE = PUBLISH + frame(2, 1, encode_header(1024, Properties(delivery_mode=1))) + frame(3, 1, bytes(1024))
ACK = b"\x00\x3c\x00\x50"
PERSISTENT = PUBLISH + frame(2, 1, encode_header(BODY_OCTETS, Properties(delivery_mode=2))) + BODY


@dataclass
class Bench:
    """A broker with one publisher's and one consumer's connection, and a queue."""

    driver: BrokerDriver = field(default_factory=lambda: make_driver())
    delivered: int = 0
    acknowledged: int = 0
    message: bytes = MESSAGE
    keeps: bool = False
    watched: Connection | None = None
    """Connection whose confirmations are read."""
    confirmed: int = 0
    """Publishes confirmed to the publisher."""
    written: int = 0
    """Bytes that a store would have written."""

    def __post_init__(self) -> None:
        """Log both connections in and declare the queue."""
        self.publisher = self.connect()
        self.consumer = self.connect()
        self.call(self.publisher, spec.QUEUE_DECLARE, queue=QUEUE, arguments={"capacity-bytes": CAPACITY})

    @property
    def queue(self) -> Queue:
        """The queue that everything goes through."""
        return self.driver.broker.vhosts["/"].queues[QUEUE]

    def connect(self) -> Connection:
        """Open a connection with a channel."""
        connection = self.driver.connect(Peer("127.0.0.1:1", True))
        self.feed(connection, b"AMQP\0\0\x09\x01")
        for method, args in (
            (spec.CONNECTION_START_OK, {"mechanism": "PLAIN", "response": plain_response("guest", "guest")}),
            (spec.CONNECTION_TUNE_OK, {"channel_max": 2047, "frame_max": 131072}),
            (spec.CONNECTION_OPEN, {"virtual_host": "/"}),
        ):
            self.feed(connection, method_frame(0, method, **args))
        self.call(connection, spec.CHANNEL_OPEN)
        return connection

    def call(self, connection: Connection, method: int, **args: object) -> None:
        """Send a method on channel 1."""
        self.feed(connection, method_frame(1, method, **args))

    def feed(self, connection: Connection, data: bytes) -> None:
        """Do what the event loop does when a connection has sent something."""
        driver = self.driver
        driver.begin(1.0)
        connection.receive(data)
        self.turn()

    def turn(self) -> None:
        """Let everything go out that may, until nobody has more to say."""
        driver = self.driver
        more = True
        while more:
            more = driver.run_turn()
            for connection in driver.take_pending_output():
                output = b"".join(connection.take_output())
                if connection is self.watched and (at := output.rfind(ACK) + len(ACK)) >= len(ACK):
                    self.confirmed = int.from_bytes(output[at : at + 8], "big")
                if not connection.output.writable:
                    connection.output.drained()
                    more = True
            if self.keeps and self.write():
                more = True

    def write(self) -> bool:
        """Encode what a store would write now, and say that it is on the disk; tells whether there was any."""
        journal = self.driver.broker.journal
        if journal is None or not journal.has_urgent():
            return False
        self.written += finish(encode_steps(journal, journal.take(), 0.0, WorkMeter())).size()
        journal.written()
        return True

    def keep(self, **more: object) -> None:
        """Make the queue a durable one of a broker with a store, and publish persistent messages from now on."""
        self.driver.broker.journal = Journal(self.driver.broker.durable_changes, self.driver.broker.gates.disk)
        self.call(self.publisher, spec.QUEUE_DELETE, queue=QUEUE)
        arguments: dict[str, object] = {"capacity-bytes": CAPACITY}
        arguments |= {name.replace("_", "-"): value for name, value in more.items()}
        self.call(self.publisher, spec.QUEUE_DECLARE, queue=QUEUE, durable=True, arguments=arguments)
        self.message = PERSISTENT
        self.keeps = True

    def publish(self, messages: int) -> None:
        """Publish in reads of a hundred."""
        for _ in range(messages // BATCH):
            self.feed(self.publisher, self.message * BATCH)

    def deliver(self, messages: int) -> None:
        """Subscribe with a prefetch of so many messages, which are then delivered."""
        self.call(self.consumer, spec.BASIC_QOS, prefetch_count=messages)
        self.call(self.consumer, spec.BASIC_CONSUME, queue=QUEUE, consumer_tag="c")
        self.delivered += messages

    def acknowledge(self, messages: int) -> None:
        """Acknowledge in ranges of a hundred."""
        for _ in range(messages // BATCH):
            self.acknowledged += BATCH
            self.call(self.consumer, spec.BASIC_ACK, delivery_tag=self.acknowledged, multiple=True)


def make_driver() -> BrokerDriver:
    """Make a broker as `penstock serve` does, with defaults."""
    broker = Broker(Defaults())
    broker.add_vhost("/")
    return BrokerDriver(broker, ConnectionLimits(), "seed", "0")


def publish(bench: Bench, messages: int) -> None:
    """Take publishes from the wire into a queue without a consumer."""
    mark()
    bench.publish(messages)


def deliver(bench: Bench, messages: int) -> None:
    """Write waiting messages as deliveries to a consumer that acknowledges."""
    bench.publish(PREPARED)
    mark()
    bench.deliver(messages)


def ack(bench: Bench, messages: int) -> None:
    """Settle delivered messages by acknowledgements of a hundred."""
    bench.publish(PREPARED)
    bench.deliver(PREPARED)
    mark()
    bench.acknowledge(messages)


def through(bench: Bench, messages: int) -> None:
    """Take, deliver and settle, a hundred messages at a time: the steady state."""
    bench.deliver(0)
    mark()
    for _ in range(messages // BATCH):
        bench.publish(BATCH)
        bench.acknowledge(BATCH)


def confirm(bench: Bench, messages: int) -> None:
    """As `publish`, in confirm mode."""
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    mark()
    bench.publish(messages)


def stored(bench: Bench, messages: int) -> None:
    """As `through`, but persistent, confirmed, and encoded for the store: all but the disk."""
    bench.keep()
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    through(bench, messages)


def kept(bench: Bench, messages: int) -> None:
    """As `confirm`, but persistent, and encoded for the store."""
    bench.keep()
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    publish(bench, messages)


def retaining(bench: Bench, messages: int) -> None:
    """As `kept`, into a queue that retains what will be settled: 3 % more at most."""
    bench.keep(retain_time="1D")
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    publish(bench, messages)


def retained(bench: Bench, messages: int) -> None:
    """As `stored`, and what is settled is retained."""
    bench.keep(retain_time="1D")
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    through(bench, messages)


def bounded(bench: Bench, messages: int) -> None:
    """Take, deliver and settle 1 KiB behind a bound of 1 MiB, with a window of confirms that keeps the queue full."""
    bench.call(bench.publisher, spec.QUEUE_DELETE, queue=QUEUE)
    bench.call(bench.publisher, spec.QUEUE_DECLARE, queue=QUEUE, arguments={"capacity-bytes": BOUND})
    bench.call(bench.publisher, spec.CONFIRM_SELECT)
    bench.deliver(0)
    bench.message = KILOBYTE
    bench.watched = bench.publisher
    published = 0
    while bench.acknowledged < messages:
        if bench.acknowledged == 0:
            mark()
        while published < messages and published + BATCH <= bench.confirmed + WINDOW:
            bench.publish(BATCH)
            published += BATCH
        bench.acknowledge(BATCH)


_STEPS: Final = (publish, confirm, deliver, ack, through, stored, kept, retaining, retained, bounded)
STEPS: dict[str, Callable[[Bench, int], None]] = {step.__name__: step for step in _STEPS}
WRITES: Final = ("stored", "kept", "retaining", "retained")
"""Steps that a store would write."""
PUBLISHES: Final = ("publish", "confirm", "through", "bounded", *WRITES)
SETTLES: Final = ("ack", "through", "stored", "retained", "bounded")


def check(step: str, bench: Bench, messages: int) -> None:
    """Fail unless exactly that has happened which the step is about."""
    published = messages if step in PUBLISHES else PREPARED
    settled = messages if step in SETTLES else 0
    delivered = {"deliver": messages, "ack": PREPARED}.get(step, 0)
    queue = bench.queue
    found = (int(queue.tail), int(queue.messages), int(queue.unacked_messages))
    if step in SETTLES and step != "ack":
        delivered = messages
    companion = bench.driver.broker.vhosts["/"].queues.get(f"{QUEUE}.retained")
    if companion is not None and int(companion.tail) != settled:
        raise AssertionError(f"{step} of {messages}: {int(companion.tail)} are retained")
    if found != (published, published - settled, delivered - settled) or bool(bench.written) != (step in WRITES):
        raise AssertionError(f"{step} of {messages}: sequence, depth and unacknowledged are {found}")


def take_steps(known: Mapping[str, tuple[Callable[[], Any], Callable[[Any, int], None], Check]]) -> None:
    """Take the steps that the command line names, each for a few, N and 2N messages, with a mark before and after.

    A step makes the first mark itself, when it has prepared what it needs: that costs more than the step.

    Each has a process that begins where this one is: what the steps before it left would change what it takes. Its
    number is printed.
    """
    # A collection falls into one run or the other for reasons that have nothing to do with the step.
    gc.disable()
    messages = int(sys.argv[1])
    for name in sys.argv[2:]:
        if pid := os.fork():
            print(pid, flush=True)
            if os.waitpid(pid, 0)[1]:
                sys.exit(f"{name} failed")
            continue
        make, step, check = known[name]
        benches = []  # What is tidied up would be counted.
        for count in (BATCH, messages, 2 * messages):
            bench = make()
            step(bench, count)
            mark()
            check(name, bench, count)
            benches.append(bench)
        os._exit(0)


def mark() -> None:
    """Call the C function at which callgrind begins to count anew, which nobody else calls (bench.guard)."""
    os.getppid()
