"""A durable queue with many messages, whose removal takes several transactions."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.message import Envelope
from penstock.core.queue.deferred_free import RELEASED_A_UNIT
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import UNITS_A_TURN
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, cut, output_of
from tests.support.restored_broker import Declared, journaled

SLICE = UNITS_A_TURN * RELEASED_A_UNIT
"""Messages that leave the store in one turn, at most."""
MANY = 2 * SLICE + SLICE // 2
CHARGE = 300
PURGE = method_frame(1, spec.QUEUE_PURGE, queue="q")


class DurableQueue:
    """A broker with a store, and a client whose durable queue `q` holds many messages, numbered from 0."""

    def __init__(self, count: int = MANY, **arguments: object) -> None:
        self.driver: BrokerDriver = journaled()
        self.driver.begin(100.0)
        self.broker: Broker = self.driver.broker
        self.journal: Journal = self.broker.journal
        self.declared = Declared(self.driver)
        self.client = Dialogue(self.driver)
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.client.say(method_frame(1, spec.QUEUE_DECLARE, queue="q", durable=True, arguments=table))
        self.q: Queue = self.broker.vhosts["/"].queues["q"]
        self.fill(0, count)
        self.write()
        self.client.listen()

    def fill(self, first: int, end: int) -> None:
        for number in range(first, end):
            address = Envelope("", "q", number % 3, persistent=True)
            self.q.enqueue(address, b"%d" % number, CHARGE, self.broker.now)
            if number % 1000 == 0:
                self.driver.begin(self.broker.now)

    def write(self) -> None:
        """Write all groups that there are, transaction by transaction."""
        while not self.journal.is_idle():
            self.declared.write()

    def ask(self, octets: bytes) -> None:
        """Send octets; no turn is made but that in which they are read."""
        self.client.connection.receive(octets)

    def turn(self) -> None:
        self.driver.begin(self.broker.now)
        self.driver.run_turn()

    def replies(self) -> list[str]:
        """What the client is told now; nothing while its answers wait."""
        if self.client.connection.output.waits_for_disk():
            return []
        frames = cut(output_of(self.client.connection))
        return [decode_method(payload).name for kind, _, payload in frames if kind == spec.FRAME_METHOD]

    def stored(self) -> int:
        """How many messages the journal has of the queue."""
        return int(self.q.storage.rows)

    def after_a_kill(self) -> list[int]:
        """What is in the queue when the broker is killed now and started again; the store says nothing of a loss."""
        driver, _ = self.declared.restored()
        journal = driver.broker.journal
        self.declared.shelf.recover(driver.broker, journal)
        queue = driver.broker.vhosts["/"].queues.get("q")
        return [] if queue is None else sorted(int(message.content) for message in queue.ready_queue.messages())
