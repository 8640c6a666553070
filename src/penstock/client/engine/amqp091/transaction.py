"""Transaction of AMQP 0-9-1: a channel in transactional mode, which its publishers and receivers share."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.client.engine.amqp091.channel import Channel, Channels
from penstock.client.engine.amqp091.publisher import Publisher091
from penstock.client.engine.amqp091.receiver import Receiver091
from penstock.client.engine.outcomes import CommitRefused
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.engine.transaction import TransactionCore
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, without_name
from penstock.markers import override
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method


class TransactionChannel(Channel):
    """Channel of a transaction, which passes input to the publisher or receiver concerned."""

    def __init__(self, channels: Channels, transaction: Transaction091) -> None:
        super().__init__(channels, is_strict=True)
        self.transaction = transaction
        self.reason: str = ""
        """Reason of the broker, sent before its basic.nack."""

    @override
    def on_confirm(self, tag: i64, is_refused: bool, is_multiple: bool) -> None:
        if self.calls:  # A commit is refused, and may be repeated.
            self.engine.finish(self.calls.popleft(), CommitRefused(self.reason))

    @override
    def on_message(self, body: bytes) -> None:
        receiver = self._receiver_of(str(decode_method(self.envelope).args["consumer_tag"]))
        if receiver is not None:
            receiver.delivered(self.tag, body, self.head, self.envelope)

    @override
    def on_return(self, exchange: str, key: str, body: bytes, reason: str) -> None:
        if not exchange and not key and not body:  # The reason of a refused commit.
            self.reason = reason
            return
        for publisher in self.transaction.publishers:
            if isinstance(publisher, Publisher091) and publisher.returned(exchange, key, body, reason):
                return

    @override
    def on_flow(self, is_active: bool) -> None:
        for publisher in self.transaction.publishers:
            if isinstance(publisher, Publisher091):
                publisher.flow(is_active)

    @override
    def on_cancel(self, tag: str) -> None:
        receiver = self._receiver_of(tag)
        if receiver is not None:
            receiver.cancelled()

    @override
    def on_close(self, error: ChannelClosed) -> None:
        self.transaction.fail(without_name(error.text))

    def _receiver_of(self, tag: str) -> Receiver091 | None:
        """Return the receiver with a consumer, whose tag is its name and a number."""
        name = tag.rpartition("-")[0]
        for receiver in self.transaction.receivers:
            if isinstance(receiver, Receiver091) and receiver.terms.name == name:
                return receiver
        return None


class Transaction091(TransactionCore):
    """Transaction with a channel of its own."""

    def __init__(self, channels: Channels, notify_period: float) -> None:
        super().__init__(channels.engine, notify_period)
        self.channels = channels
        self.channel: Channel | None = None

    @override
    def begin(self) -> Call:
        call = Call("tx.select", (spec.TX_SELECT_OK,))
        if self.channel is None:
            channel = self.channel = TransactionChannel(self.channels, self)
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
        publisher = Publisher091(self.engine, self.channels, terms)
        publisher.unit = self.unit
        assert self.channel is not None
        publisher.use(self.channel)
        publisher.go_on()
        return publisher

    @override
    def new_receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        name = f"{terms.name or 'receiver'}-{len(self.receivers) + 1}"
        receiver = Receiver091(self.engine, self.channels, terms._replace(name=name))
        receiver.unit = self.unit
        assert self.channel is not None
        receiver.use(self.channel)
        return receiver

    @override
    def detach(self) -> None:
        if self.channel is not None:
            self.channel.close()
