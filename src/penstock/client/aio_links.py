"""Publishers, receivers and transactions with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable
from itertools import islice
from types import TracebackType
from typing import Any, Protocol, Self

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

    def _in_loop(self) -> asyncio.AbstractEventLoop: ...

    async def run(self, steps: Steps[T]) -> T: ...  # noqa: D102 - see Connection

    def after(self) -> None: ...  # noqa: D102


class Publisher(PublisherShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    def __init__(self, connection: Runner, core: PublisherCore) -> None:
        super().__init__(core)
        self._connection = connection

    async def send(self, message: bytes | Message, *, timeout: float | None = None) -> Receipt:
        """Wait for room, send, and return when the message is confirmed.

        Cancelled or timed out while it waits for room, it has sent nothing. Raises `FlowControlTimeout` then, and
        `ConfirmTimeout` if no answer came; `MessageRefused`, `MessageTooLarge`, `ConnectionLost`, `LinkClosed`.
        `timeout` in seconds is for each of the two waits (None: `flow_control_wait_failure`).
        """
        return await self._connection.run(self._core.sending(message, timeout))

    async def publish(self, message: bytes | Message, *, timeout: float | None = None) -> Receipt:
        """Wait for room and send; the receipt has the outcome. Raises as `send`, but for what is about the outcome."""
        receipt = self._core.publish_now(message)
        if receipt is not None:
            return receipt
        return await self._connection.run(self._core.publishing(message, timeout))

    def try_publish(self, message: bytes | Message) -> Receipt | Blocked:
        """Send if there is room, else return what blocks the message; never waits."""
        return self._core.try_publish(message)

    async def send_many(
        self,
        messages: Iterable[bytes | Message] | AsyncIterable[bytes | Message],
        *,
        timeout: float | None = None,
        progress: Callable[[SendResult], object] | None = None,
        result: SendResult | None = None,
    ) -> SendResult:
        """Send all messages of an iterable, and return when each has its outcome; `result` lists the refused ones.

        At most the window and 256 messages are in memory. `progress` is called with the result so far each 256
        messages. A `result` that is given is filled, and can be looked at after a cancellation or a time-out.
        """
        result = SendResult() if result is None else result
        core, run = self._core, self._connection.run
        core.check()
        if isinstance(messages, AsyncIterable):
            async for message in messages:
                if core.publish_some((message,), 0, result) == 0:
                    await run(core.sending_slice((message,), result, timeout))
                if progress is not None and result.taken % SLICE == 0:
                    progress(result)
        else:
            found = iter(messages)
            while piece := list(islice(found, SLICE)):
                at = core.publish_some(piece, 0, result)
                if at < len(piece):
                    await run(core.sending_slice(piece[at:], result, timeout))
                elif len(core.engine.out) > PUSH:
                    self._connection.after()
                if progress is not None:
                    progress(result)
        return await run(core.finishing(result, timeout))

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until every message has its outcome; return whether all have."""
        return await self._connection.run(self._core.draining(timeout))

    async def close(self, timeout: float | None = None) -> list[Receipt]:
        """Wait for outcomes at most `timeout` seconds, and close; return the receipts that have none."""
        return await self._connection.run(self._core.closing(timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(None if error is None else 0)


class Receiver(ReceiverShell):
    """Receiver of a queue; `Connection.receiver` makes it. Iterate over it, or ask for single messages."""

    def __init__(self, connection: Runner, queue: str, attach: Callable[[], ReceiverCore]) -> None:
        super().__init__(queue)
        self._connection = connection
        self._attach = attach

    def __await__(self) -> Generator[Any, None, Receiver]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Receiver:
        if self._attached is None:
            self._connection._in_loop()
            core = self._attached = self._attach()
            await self._connection.run(core.engine.waiting(core.attached))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def receive(self, timeout: float | None = None) -> Delivery | None:
        """Return the next message; None if none came within `timeout` seconds, or at the end after `drain`.

        Raises `ReceiverClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had come when the call is cancelled stays for the next one.
        """
        core = self._core()
        return core.take_now() or await self._connection.run(core.receiving(timeout))

    def receive_nowait(self) -> Delivery | None:
        """Return a message that has come; None without one. Raises as `receive`."""
        return self._core().take_now()

    def __aiter__(self) -> Receiver:
        return self

    async def __anext__(self) -> Delivery:
        found = self._core().take_now() or await self.receive()
        if found is None:
            raise StopAsyncIteration
        return found

    async def drain(self) -> bool:
        """Let no more messages come after those that have; tell whether that has shown an empty queue (AMQP 1.0)."""
        return await self._connection.run(self._core().draining())

    def resume(self) -> None:
        """Let messages come again after `drain`."""
        self._core().resume()

    async def count(self, timeout: float | None = None) -> int | None:
        """Return how many messages wait in the queue or here; None if the broker does not tell within `timeout` s."""
        return await self._connection.run(self._core().counting(timeout))

    async def close(self) -> None:
        """Acknowledge what was accepted, and close; all other messages return to their queue."""
        if self._attached is not None:
            await self._connection.run(self._attached.closing())

    async def handle(
        self,
        function: Callable[[Delivery], Awaitable[object] | object],
        *,
        concurrency: int = 1,
        on_error: str = "release",
    ) -> None:
        """Call a function, or an asynchronous one, with each message; at most `concurrency` of its calls are open.

        Its return accepts the message, unless the function has settled it. If it raises, that is logged, and the
        message returns to its queue as a failed delivery, or with `on_error="reject"` is refused for good, with the
        error as the reason. Returns at the end after `drain`; raises as `receive`. Cancelled, it cancels the calls,
        whose messages return to their queue.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency} is not valid: it must be a whole number from 1 on")
        check_on_error(on_error)
        workers = [asyncio.ensure_future(self._work(function, on_error)) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, function: Callable[[Delivery], Awaitable[object] | object], on_error: str) -> None:
        """Work on one message after the other."""
        async for message in self:
            try:
                found = function(message)
                if isinstance(found, Awaitable):
                    await found
                message.accept()
            except Exception as error:
                settle_failed(message, error, on_error)
            finally:
                message.release()  # One that is cancelled; the others are settled.


class Events:
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __init__(self, connection: Runner) -> None:
        self._connection = connection
        self.list = EventList(connection.core())

    async def get(self, timeout: float | None = None) -> Event | None:
        """Return the next event; None if none came within `timeout` seconds, or at the end."""
        return await self._connection.run(self.list.taking(timeout))

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        found = await self.get()
        if found is None:
            raise StopAsyncIteration
        return found


class Transaction:
    """Transaction; `Connection.transaction` makes it, for `async with`.

    What its publishers send and its receivers settle is done at the end of the block, all or none of it. An exception
    rolls it back, also `FlowControlTimeout`, unless the block catches it: then the transaction is as before. A lost
    connection rolls it back: each call raises `TransactionAborted`. Nothing of a transaction is sent again by itself.
    """

    def __init__(self, connection: Runner) -> None:
        self._connection = connection
        self._core: TransactionCore | None = None

    async def __aenter__(self) -> Self:
        connection = self._connection
        self._core = calls.transaction_of(connection.core(), connection.options)
        await connection.run(self._core.beginning())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.run(self._begun().closing(error is None))

    def _begun(self) -> TransactionCore:
        if self._core is None:
            raise RuntimeError("the transaction has not begun: use it in `async with`")
        return self._core

    def publisher(self, queue: str = "", *, exchange: str = "", routing_key: str = "", **options: object) -> Publisher:
        """Return a publisher in it, as `Connection.publisher`.

        `send` waits for room alone; the commit gives all receipts their outcome. There is no window: the broker bounds
        a transaction.
        """
        terms = self._connection.options.publisher_terms(queue, exchange, routing_key, options)
        self._connection._in_loop()
        return Publisher(self._connection, self._begun().publisher(terms))

    def receiver(self, queue: str, **options: object) -> Receiver:
        """Return a receiver in it, as `Connection.receiver`; what is not committed returns to its queue at the end."""
        terms, core = self._connection.options.receiver_terms(queue, options), self._begun()
        return Receiver(self._connection, queue, lambda: core.receiver(terms))

    async def commit(self, timeout: float | None = None) -> None:
        """Commit what has been done so far, and go on with the next transaction.

        Raises `CommitRefused` if there was no room until the broker's hold deadline: all is as before. After the
        others it has ended: `TransactionAborted`, and `TransactionInDoubt` without an answer in `timeout` seconds
        (None: without a limit; Penstock answers at its hold deadline at the latest).
        """
        await self._connection.run(self._begun().committing_on(timeout))

    async def rollback(self) -> None:
        """Roll back, and end it."""
        await self._connection.run(self._begun().rolling_back())
