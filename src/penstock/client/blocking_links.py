"""Publishers, receivers and transactions with blocking calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import Self

from penstock.client.calls import PUSH, SLICE
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Delivery, Message
from penstock.client.engine.receipt import Receipt
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.window import SendResult
from penstock.client.handles import (
    EventsShell,
    PublisherShell,
    ReceiverShell,
    TransactionShell,
    check_on_error,
    settle_failed,
)
from penstock.client.shells import BlockingShell


class Runner(BlockingShell):
    """Connection, as its links use it."""

    def poll(self, timeout: float = 0.0) -> bool:
        """Send what there is, and take what comes within `timeout` seconds; return whether anything came."""
        raise NotImplementedError

    def look(self) -> None:
        """Take what has come, if there is a transport; never waits."""
        raise NotImplementedError

    def push(self) -> bool:
        """Send what can be sent without waiting; return whether all is sent."""
        raise NotImplementedError

    def pushed(self) -> None:
        """Send what was published, unless a batch is open."""
        raise NotImplementedError

    def batching(self) -> AbstractContextManager[None]:
        """Let published messages wait for each other, until the block ends."""
        raise NotImplementedError


class Publisher(PublisherShell, BlockingShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    _connection: Runner

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


class Receiver(ReceiverShell, BlockingShell):
    """Receiver of a queue; `Connection.receiver` makes it. Iterate over it, or ask for single messages."""

    _connection: Runner

    def __init__(self, connection: Runner, queue: str, attach: Callable[[], ReceiverCore]) -> None:
        super().__init__(connection, queue, attach)
        self.run(self.entering())

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """Return the next message; None if none came within `timeout` seconds, or at the end after `drain`.

        Raises `ReceiverClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had come when the call is interrupted stays for the next one.
        """
        found = self._core().take_now()
        if found is not None:
            return found
        return self._connection.run(self._core().receiving(timeout))

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


class Events(EventsShell, BlockingShell):
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        found = self.get()
        if found is None:
            raise StopIteration
        return found


class Transaction(TransactionShell[Publisher, Receiver], BlockingShell):
    """Transaction; `Connection.transaction` makes it, for `with`."""

    _publisher, _receiver = Publisher, Receiver
