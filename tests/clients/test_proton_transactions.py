"""Transactions through Qpid Proton, as its examples tx_send and tx_recv have them, and what it does when one fails."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

import proton
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

from tests.support.pika_helpers import depth

pytestmark = pytest.mark.clients


class Transactional(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """A client with one transaction at a time, that ends when its transactions are over."""

    def __init__(self, broker: BrokerProcess, queue: str, transactions: int, **options: Any) -> None:
        super().__init__(prefetch=0, auto_accept=False, **options)
        self.url = broker.url.rstrip("/")
        self.queue = queue
        self.left = transactions
        self.transaction: Any = None
        self.settle_before_discharge = False
        self.errors: list[str] = []
        self.ended: list[str] = []
        """What became of each transaction."""

    def run_it(self) -> None:
        Container(self).run()
        assert self.errors == []

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = self.container.connect(self.url, reconnect=False)
        self.links()
        self.declare()
        self.watchdog = self.container.schedule(PATIENCE, self)

    def links(self) -> None:
        """Create the links."""

    def declare(self) -> None:
        self.container.declare_transaction(
            self.connection, handler=self, settle_before_discharge=self.settle_before_discharge
        )

    def next_one(self, what: str) -> None:
        """Declare the next transaction, or end."""
        self.ended.append(what)
        self.transaction = None
        self.left -= 1
        if self.left:
            self.declare()
        else:
            self.close()

    def close(self) -> None:
        self.watchdog.cancel()
        self.connection.close()

    def on_timer_task(self, event: Any) -> None:
        self.errors.append(f"not within {PATIENCE} s")
        self.connection.close()

    def on_transaction_declared(self, event: Any) -> None:
        self.transaction = event.transaction
        self.act()

    def act(self) -> None:
        """Do something in the transaction."""

    def on_transaction_committed(self, event: Any) -> None:
        self.next_one("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self.next_one("aborted")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self.next_one("failed")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self.errors.append("declare failed")

    def on_transport_error(self, event: Any) -> None:
        self.errors.append(str(event.transport.condition))

    def on_link_error(self, event: Any) -> None:
        self.errors.append(str(event.link.remote_condition))


class Sending(Transactional):
    """The example tx_send: ten messages in each transaction, as credit permits; every third one is rolled back."""

    batch = 10

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sent = 0
        self.provisional = 0

    def links(self) -> None:
        self.sender = self.container.create_sender(self.connection, self.queue)

    def on_sendable(self, event: Any) -> None:
        self.act()

    def message(self) -> Any:
        return proton.Message(body=self.sent)

    def act(self) -> None:
        while self.transaction is not None and self.sender.credit > 0:
            self.transaction.send(self.sender, self.message())
            self.sent += 1
            if self.sent % self.batch == 0:
                if self.left % 3 == 0:
                    self.transaction.abort()
                else:
                    self.transaction.commit()
                self.transaction = None

    def on_delivery(self, event: Any) -> None:
        if event.link.is_sender and event.delivery.updated and event.delivery.remote_state == 0x34:
            self.provisional += 1
            event.delivery.settle()


class Receiving(Transactional):
    """The example tx_recv: five messages in each transaction; those of `aborted` transactions are rolled back."""

    batch = 5

    def __init__(self, *args: Any, aborted: int = 0, settle: bool = False) -> None:
        super().__init__(*args)
        self.aborted = aborted
        self.settle_before_discharge = settle
        self.bodies: list[int] = []

    def links(self) -> None:
        self.receiver = self.container.create_receiver(self.connection, self.queue)

    def act(self) -> None:
        self.receiver.flow(self.batch)

    def on_message(self, event: Any) -> None:
        self.bodies.append(event.message.body)
        self.transaction.accept(event.delivery)
        if len(self.bodies) % self.batch == 0:
            if self.aborted > len(self.ended):
                self.transaction.abort()
            else:
                self.transaction.commit()


class Moving(Transactional):
    """A worker that takes a message and puts two into the next queue, one transaction each."""

    def __init__(self, *args: Any, to: str) -> None:
        super().__init__(*args)
        self.to = to

    def links(self) -> None:
        self.receiver = self.container.create_receiver(self.connection, self.queue)
        self.sender = self.container.create_sender(self.connection, self.to)

    def act(self) -> None:
        self.receiver.flow(1)

    def on_message(self, event: Any) -> None:
        for half in range(2):
            self.transaction.send(self.sender, proton.Message(body=2 * event.message.body + half))
        self.transaction.accept(event.delivery)
        self.transaction.commit()


def fill(broker: BrokerProcess, queue: str, count: int) -> None:
    """Put the numbers from 0 on into a queue, outside of transactions."""

    class Filling(Transactional):
        def links(self) -> None:
            self.sender = self.container.create_sender(self.connection, queue)
            self.numbers = list(range(count))

        def declare(self) -> None:
            pass

        def on_sendable(self, event: Any) -> None:
            while self.numbers and self.sender.credit:
                self.sender.send(proton.Message(body=self.numbers.pop(0)))

        def on_accepted(self, event: Any) -> None:
            self.left -= 1
            if not self.left:
                self.close()

    Filling(broker, queue, count).run_it()


@pytest.fixture
def queue(connection: pika.BlockingConnection, channel: BlockingChannel, name: str) -> str:
    channel.queue_declare(name, exclusive=False, auto_delete=False, arguments={"x-expires": 600_000})
    return name


def test_proton_sends_in_transactions(broker: BrokerProcess, channel: BlockingChannel, queue: str) -> None:
    client = Sending(broker, queue, 9)
    client.run_it()
    assert client.ended == ["aborted", "committed", "committed"] * 3
    assert client.provisional == client.sent == 90
    assert depth(channel, queue) == 60
    receiver = Receiving(broker, queue, 12)
    receiver.run_it()
    assert receiver.bodies == [n for n in range(90) if n // 10 % 3]


@pytest.mark.parametrize("settle", [False, True])
def test_proton_receives_in_transactions(
    broker: BrokerProcess, channel: BlockingChannel, queue: str, settle: bool
) -> None:
    fill(broker, queue, 20)
    client = Receiving(broker, queue, 3, settle=settle)
    client.run_it()
    assert client.bodies == list(range(15))
    assert depth(channel, queue) == 5


def test_proton_moves_messages_all_or_nothing(
    broker: BrokerProcess, channel: BlockingChannel, queue: str, name: str
) -> None:
    channel.queue_declare(name + "-next", arguments={"x-expires": 600_000})
    fill(broker, queue, 20)
    client = Moving(broker, queue, 20, to=name + "-next")
    client.run_it()
    assert client.ended == ["committed"] * 20
    assert (depth(channel, queue), depth(channel, name + "-next")) == (0, 40)
