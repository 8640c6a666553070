"""Transaction of the client: messages and settlements that take effect together at the commit, or not at all.

Theory of operation. A transaction has its own publishers and receivers, because AMQP 0-9-1 makes whole channels
transactional. Their messages have no outcome until the commit, which decides all of them. So there is no window, and no
message is sent again: a lost connection rolls back. A message without room until its time-out was not sent, and the
transaction is unchanged. After a commit the next transaction begins. After a rollback the links are closed, and
messages that were received and not committed return to their queue.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine.connection import Engine, Unit
from penstock.client.engine.events import WARNING, Event
from penstock.client.engine.outcomes import CONFIRMED, CommitRefused, TransactionAborted, TransactionInDoubt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.engine.waits import Call, Steps
from penstock.client.engine.window import UNLIMITED
from penstock.client.errors import ChannelClosed, ClientError, LinkClosed
from penstock.flow.timers import NEVER

ROLLBACK_WITHIN: Final = 5.0
"""Seconds of the wait for the answer to a rollback; closing the links rolls back as well."""


class TransactionCore:
    """Transaction of one protocol, which begins and ends it at the broker."""

    def __init__(self, engine: Engine, notify_period: float) -> None:
        self.engine = engine
        self.notify_period: float = notify_period
        """Seconds between two warnings while a commit waits."""
        self.unit = Unit(engine)
        """State shared with the transaction's publishers and receivers."""
        self.publishers: list[PublisherCore] = []
        self.receivers: list[ReceiverCore] = []
        self.is_given_up: bool = False
        """True once the program has rolled the transaction back."""

    # Implemented by a protocol

    def begin(self) -> Call:
        """Begin the first or the next transaction; the call ends when messages may follow."""
        raise NotImplementedError

    def discharge(self, commits: bool) -> Call:
        """Commit or roll back; the call has `CommitRefused`, `TransactionAborted` or `ChannelClosed` as its error."""
        raise NotImplementedError

    def new_publisher(self, terms: PublisherTerms) -> PublisherCore:
        """Return a publisher of the protocol with its messages in this transaction, attached."""
        raise NotImplementedError

    def new_receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        """Return a receiver of the protocol with its settlements in this transaction, attached."""
        raise NotImplementedError

    def detach(self) -> None:
        """Begin to close the channel or links, which rolls back uncommitted work."""
        raise NotImplementedError

    # Links

    def publisher(self, terms: PublisherTerms) -> PublisherCore:
        """Return a new publisher. Its window has no bounds: the broker bounds the transaction."""
        self.unit.check()
        publisher = self.new_publisher(terms._replace(window=UNLIMITED, window_bytes=-1))
        self.publishers.append(publisher)
        self.engine.publishers.append(publisher)
        return publisher

    def receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        """Return a new receiver."""
        self.unit.check()
        receiver = self.new_receiver(terms)
        self.receivers.append(receiver)
        self.engine.receivers.append(receiver)
        return receiver

    # Beginning and end

    def fail(self, reason: str) -> None:
        """End the transaction, because the broker has closed its channel or link."""
        self.end(TransactionAborted(reason))

    def end(self, error: ClientError) -> None:
        """End the transaction and its links; messages without an outcome were rolled back, or are unknown during a
        commit.
        """
        error = self.unit.end(error)
        self.settle(self.unit.outcome(), str(error))
        for publisher in self.publishers:
            if publisher.error is None:
                publisher.end(error, str(error))
        for receiver in self.receivers:
            if receiver.error is None:
                receiver.ready.clear()
                receiver.end(error)

    def settle(self, outcome: i64, reason: str) -> None:
        """Set the outcome of all messages; returned messages keep theirs."""
        for publisher in self.publishers:
            publisher.settle_all(outcome, reason)

    def _flush(self) -> None:
        """Write the gathered settlements, which belong to this transaction."""
        for receiver in self.receivers:
            receiver.flush()

    def answered(self, call: Call, limit: float) -> Steps[bool]:
        """Wait for the answer to a request; return whether there is one. Raises its error, or the connection's."""
        engine = self.engine
        engine.calls.append(call)
        engine.wake_output()
        began = engine.now
        try:
            while True:
                left = began + limit - engine.now
                if (yield from engine.until(call, min(left, self.notify_period))):
                    return True
                passed = engine.now - began
                if passed >= limit:
                    return False
                call.done = call.expired = False
                text = f"Commit delayed by {passed:.3g}s due to broker enforced flow control"
                reason = f": {engine.blocked_reason}" if engine.blocked_reason else ""
                engine.events.append(Event(WARNING, "", text + reason))
        finally:
            if call in self.engine.calls:
                self.engine.calls.remove(call)

    def beginning(self) -> Steps[None]:
        """Begin the transaction, and wait until the broker has; raises its refusal."""
        self.unit.check()
        if not (yield from self.answered(self.begin(), self.engine.terms.call_timeout)):
            self.close(TransactionAborted(f"no answer to its begin within {self.engine.terms.call_timeout:g} s"))
        self.unit.check()

    def close(self, error: ClientError) -> None:
        """End the transaction, and close its links."""
        self.end(error)
        if self.unit.is_connected():
            self.detach()
            self.engine.wake_output()

    def committing(self, timeout: float | None = None) -> Steps[None]:
        """Commit, and wait for the answer at most `timeout` seconds (None: without a limit).

        The broker answers at its hold deadline at the latest: a commit is held until there is room for all of it, and
        its answer is withheld while a gate that it has passed is closed. Raises `CommitRefused`, after which the
        transaction is still open; `TransactionAborted`, and `TransactionInDoubt` if there was no answer. After these
        two, and after a cancellation, the transaction has ended.
        """
        self.unit.check()
        self._flush()
        self.unit.commit(True)
        limit = NEVER if timeout is None else timeout
        in_doubt: ClientError | None = TransactionInDoubt("the call was cancelled")
        try:
            if (yield from self.answered(self.discharge(True), limit)):
                in_doubt = None
            else:
                in_doubt = TransactionInDoubt(f"no answer came within {limit:g} s")
        except CommitRefused:
            in_doubt = None
            raise
        except (TransactionAborted, ChannelClosed) as error:
            in_doubt = None
            aborted = error if isinstance(error, TransactionAborted) else TransactionAborted(error.text)
            self.end(aborted)
            raise aborted from None
        except ClientError as failure:
            in_doubt = TransactionInDoubt(str(failure))
        finally:
            self.unit.commit(False)
            if in_doubt is not None:
                self.close(in_doubt)
        if in_doubt is not None:
            raise in_doubt
        self.settle(CONFIRMED, "")

    def committing_on(self, timeout: float | None = None) -> Steps[None]:
        """Commit, and begin the next transaction with the same publishers and receivers."""
        yield from self.committing(timeout)
        yield from self.beginning()

    def rolling_back(self) -> Steps[None]:
        """Roll back, and close publishers and receivers; received messages return to their queue."""
        if self.unit.error is not None:
            return
        self.is_given_up = True
        try:
            self.unit.check()
            self._flush()
            yield from self.answered(self.discharge(False), ROLLBACK_WITHIN)
        except ClientError:
            pass  # A lost connection and a closed channel also roll back.
        finally:
            self.close(TransactionAborted("by this client"))

    def closing(self, commits: bool, timeout: float | None = None) -> Steps[None]:
        """Commit or roll back, and close publishers and receivers. Raises as `committing`, except `CommitRefused`.

        A commit that is refused at the end is rolled back.
        """
        if not commits or self.is_given_up:
            yield from self.rolling_back()
            return
        try:
            yield from self.committing(timeout)
        except CommitRefused as refusal:
            yield from self.rolling_back()
            raise TransactionAborted(refusal.reason) from refusal
        self.close(LinkClosed(None, "the transaction is committed, and over"))
