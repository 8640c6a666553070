"""Transaction of AMQP 0-9-1: a channel in transactional mode, which its publishers and receivers share."""

from __future__ import annotations

from penstock.client.engine.amqp091.channel import Channel
from penstock.client.engine.amqp091.connection import Engine091
from penstock.client.engine.amqp091.publisher import Publisher091
from penstock.client.engine.amqp091.receiver import Receiver091
from penstock.client.engine.outcomes import CommitRefused
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.engine.transaction import TransactionCore
from penstock.client.engine.waits import Call
from penstock.markers import override
from penstock.wire.amqp091 import spec


class Transaction091(TransactionCore):
    """Transaction with a channel of its own."""

    def __init__(self, engine: Engine091, notify_period: float) -> None:
        super().__init__(engine, notify_period)
        self.connection = engine
        self.channel: Channel | None = None
        self.reason: str = ""
        """Words of the broker before its basic.nack."""

    @override
    def begin(self) -> Call:
        call = Call("tx.select", (spec.TX_SELECT_OK,))
        if self.channel is None:
            channel = self.channel = self.connection.channel()
            channel.transaction = self
            channel.write(spec.TX_SELECT, {})
            return channel.expect(call)
        call.done = True  # A commit begins the next transaction.
        return call

    @override
    def discharge(self, commits: bool) -> Call:
        channel = self.channel
        assert channel is not None
        method, answer = (spec.TX_COMMIT, spec.TX_COMMIT_OK) if commits else (spec.TX_ROLLBACK, spec.TX_ROLLBACK_OK)
        channel.write(method, {})
        return channel.expect(Call("the commit" if commits else "the rollback", (answer,)))

    @override
    def new_publisher(self, terms: PublisherTerms) -> PublisherCore:
        publisher = Publisher091(self.connection, terms)
        publisher.unit = self.unit
        assert self.channel is not None
        publisher.use(self.channel)
        publisher.go_on()
        return publisher

    @override
    def new_receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        name = f"{terms.name or 'receiver'}-{len(self.receivers) + 1}"
        receiver = Receiver091(self.connection, terms._replace(name=name))
        receiver.unit = self.unit
        assert self.channel is not None
        receiver.use(self.channel)
        return receiver

    @override
    def detach(self) -> None:
        if self.channel is not None:
            self.channel.close()

    # What the broker says

    def refused(self) -> None:
        """Take the basic.nack that answers a commit: it may be tried again."""
        channel = self.channel
        if channel is not None and channel.calls:
            self.engine.finish(channel.calls.popleft(), CommitRefused(self.reason))

    def returned(self, exchange: str, key: str, body: bytes, reason: str) -> None:
        """Take a message that came back, or the reason of a refused commit, which has no key and no body."""
        if not exchange and not key and not body:
            self.reason = reason
            return
        for publisher in self.publishers:
            if isinstance(publisher, Publisher091) and publisher.returned(exchange, key, body, reason):
                return

    def receiver_of(self, tag: str) -> Receiver091 | None:
        """Return the receiver with a consumer, which has its name and a number as its tag."""
        name = tag.rpartition("-")[0]
        for receiver in self.receivers:
            if isinstance(receiver, Receiver091) and receiver.terms.name == name:
                return receiver
        return None

    def flow(self, is_active: bool) -> None:
        """Stop all publishers, or let them go on."""
        for publisher in self.publishers:
            if isinstance(publisher, Publisher091):
                publisher.flow(is_active)
