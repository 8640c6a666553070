"""Publishers, receivers and transactions with blocking calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import TracebackType
from typing import Protocol, Self

from penstock.client import calls
from penstock.client.calls import PUSH, SLICE
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.connection import Engine
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Delivery, Message
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receipt import Receipt
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.transaction import TransactionCore
from penstock.client.engine.waits import Steps, T
from penstock.client.engine.window import SendResult
from penstock.client.handles import (
    EventList,
    PublisherShell,
    ReceiverShell,
    check_on_error,
    settle_failed,
)
from penstock.client.options import Options


class Runner(Protocol):
    """Connection, as its links use it."""

    options: Options

    def core(self) -> Engine: ...  # noqa: D102

    def run(self, steps: Steps[T]) -> T: ...  # noqa: D102 - see Connection

    def poll(self, timeout: float = 0.0) -> bool: ...  # noqa: D102

    def look(self) -> None: ...  # noqa: D102

    def push(self) -> bool: ...  # noqa: D102

    def pushed(self) -> None: ...  # noqa: D102

    def batching(self) -> AbstractContextManager[None]: ...  # noqa: D102


class Publisher(PublisherShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    def __init__(self, connection: Runner, core: PublisherCore) -> None:
        super().__init__(core)
        self._connection = connection

    def send(self, message: bytes | Message, *, timeout: float | None = None) -> Receipt:
        """Wait for room, send, and return when the message is confirmed.

        Interrupted or timed out while it waits for room, it has sent nothing. Raises `FlowControlTimeout` then, and
        `ConfirmTimeout` if no answer came; `MessageRefused`, `MessageTooLarge`, `ConnectionLost`, `LinkClosed`.
        `timeout` in seconds is for each of the two waits (None: `flow_control_wait_failure`).
        """
        return self._connection.run(self._core.sending(message, timeout))

    def publish(self, message: bytes | Message, *, timeout: float | None = None) -> Receipt:
        """Wait for room and send; the receipt has the outcome. Raises as `send`, but for what is about the outcome.

        The message goes at once; in `with publisher.batch():` many go together.
        """
        receipt = self._core.publish_now(message)
        if receipt is None:
            receipt = self._connection.run(self._core.publishing(message, timeout))
        self._connection.pushed()
        return receipt

    def try_publish(self, message: bytes | Message) -> Receipt | Blocked:
        """Send if there is room, else return what blocks the message; never waits."""
        core, connection = self._core, self._connection
        found = core.try_publish(message)
        if isinstance(found, Blocked):
            connection.look()  # Room may have come since the last call.
            found = core.try_publish(message)
        connection.pushed()
        return found

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Let the messages of a `with` block go together; the last ones go at its end."""
        with self._connection.batching():
            yield self

    def send_many(
        self,
        messages: Iterable[bytes | Message],
        *,
        timeout: float | None = None,
        progress: Callable[[SendResult], object] | None = None,
        result: SendResult | None = None,
    ) -> SendResult:
        """Send all messages of an iterable, and return when each has its outcome; `result` lists the refused ones.

        At most the window and 256 messages are in memory. `progress` is called with the result so far each 256
        messages. A `result` that is given is filled, and can be looked at after an interruption or a time-out.
        """
        result = SendResult() if result is None else result
        core, connection = self._core, self._connection
        core.check()
        found = iter(messages)
        while piece := list(islice(found, SLICE)):
            at = core.publish_some(piece, 0, result)
            if at < len(piece):
                connection.run(core.sending_slice(piece[at:], result, timeout))
            elif len(core.engine.out) > PUSH:
                connection.push()
            if progress is not None:
                progress(result)
        return connection.run(core.finishing(result, timeout))

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until every message has its outcome; return whether all have."""
        return self._connection.run(self._core.draining(timeout))

    def close(self, timeout: float | None = None) -> list[Receipt]:
        """Wait for outcomes at most `timeout` seconds, and close; return the receipts that have none."""
        return self._connection.run(self._core.closing(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(None if error is None else 0)


class Receiver(ReceiverShell):
    """Receiver of a queue; `Connection.receiver` makes it. Iterate over it, or ask for single messages."""

    def __init__(self, connection: Runner, core: ReceiverCore) -> None:
        super().__init__(core.terms.queue)
        self._connection = connection
        self._attached = core
        connection.run(core.engine.waiting(core.attached))

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """Return the next message; None if none came within `timeout` seconds, or at the end after `drain`.

        Raises `ReceiverClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had come when the call is interrupted stays for the next one.
        """
        found = self._core().take_now()
        if found is not None:
            return found
        return self._connection.run(self._core().receiving(timeout))

    def get(self) -> Delivery | None:
        """Take a message that waits in the queue now; None without one. For a receiver with a window of 0."""
        return self._connection.run(self._core().getting())

    def receive_nowait(self) -> Delivery | None:
        """Return a message that has come; None without one. Raises as `receive`."""
        core = self._core()
        found = core.take_now()
        if found is None:
            self._connection.poll(0)
            found = core.take_now()
        return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        core = self._attached
        found = None if core is None else core.take_now()
        if found is None:
            found = self._connection.run(self._core().receiving())
            if found is None:
                raise StopIteration
        return found

    def drain(self) -> bool:
        """Let no more messages come; those that have come can be received, and then there is nothing.

        Return whether that has shown that no message waits in the queue, which AMQP 0-9-1 does not tell.
        """
        return self._connection.run(self._core().draining())

    def resume(self) -> None:
        """Let messages come again after `drain`."""
        self._core().resume()

    def count(self, timeout: float | None = None) -> int | None:
        """Ask how many messages wait in the queue, and here for `receive`, beside those that other receivers have.

        None if the broker does not tell within `timeout` seconds; over AMQP 1.0 it is an estimate, and 0 is None.
        """
        return self._connection.run(self._core().counting(timeout))

    def close(self) -> None:
        """Acknowledge what was accepted, and close; all other messages return to their queue."""
        self._connection.run(self._core().closing())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def handle(self, function: Callable[[Delivery], object], *, on_error: str = "release") -> None:
        """Call a function with each message, one after the other.

        Its return accepts the message, unless the function has settled it. If it raises, that is logged, and the
        message returns to its queue as a failed delivery, or with `on_error="reject"` is refused for good, with the
        error as the reason. Returns at the end after `drain`; raises as `receive`.
        """
        check_on_error(on_error)
        for message in self:
            try:
                function(message)
                message.accept()
            except Exception as error:
                settle_failed(message, error, on_error)
            finally:
                message.release()  # One that is interrupted; the others are settled.


class Events:
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __init__(self, connection: Runner) -> None:
        self._connection = connection
        self.list = EventList(connection.core())

    def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout` seconds, or at the end."""
        return self._connection.run(self.list.taking(timeout))

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        found = self.get()
        if found is None:
            raise StopIteration
        return found


class Transaction:
    """Transaction; `Connection.transaction` makes it, for `with`.

    What its publishers send and its receivers settle is done at the end of the block, all or none of it. An exception
    rolls it back, also `FlowControlTimeout`, unless the block catches it: then the transaction is as before. A lost
    connection rolls it back: each call raises `TransactionAborted`. Nothing of a transaction is sent again by itself.
    """

    def __init__(self, connection: Runner) -> None:
        self._connection = connection
        self._core: TransactionCore | None = None

    def __enter__(self) -> Self:
        connection = self._connection
        self._core = calls.transaction_of(connection.core(), connection.options)
        connection.run(self._core.beginning())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.run(self._begun().closing(error is None))

    def _begun(self) -> TransactionCore:
        if self._core is None:
            raise RuntimeError("the transaction has not begun: use it in `with`")
        return self._core

    def publisher(self, queue: str = "", *, exchange: str = "", routing_key: str = "", **options: object) -> Publisher:
        """Return a publisher in it, as `Connection.publisher`.

        `send` waits for room alone; the commit gives all receipts their outcome. There is no window: the broker bounds
        a transaction.
        """
        terms = self._connection.options.publisher_terms(queue, exchange, routing_key, options)
        return Publisher(self._connection, self._begun().publisher(terms))

    def receiver(self, queue: str, **options: object) -> Receiver:
        """Return a receiver in it, as `Connection.receiver`; what is not committed returns to its queue at the end."""
        terms, core = self._connection.options.receiver_terms(queue, options), self._begun()
        return Receiver(self._connection, core.receiver(terms))

    def commit(self, timeout: float | None = None) -> None:
        """Commit what has been done so far, and go on with the next transaction.

        Raises `CommitRefused` if there was no room until the broker's hold deadline: all is as before. After the
        others it has ended: `TransactionAborted`, and `TransactionInDoubt` without an answer in `timeout` seconds
        (None: without a limit; Penstock answers at its hold deadline at the latest).
        """
        self._connection.run(self._begun().committing_on(timeout))

    def rollback(self) -> None:
        """Roll back, and end it."""
        self._connection.run(self._begun().rolling_back())
