"""Publishers, receivers and transactions with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable
from itertools import islice
from typing import Any

from penstock.client.calls import PUSH, SLICE
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Delivery, Message
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receipt import Receipt
from penstock.client.engine.window import SendResult
from penstock.client.handles import (
    EventsShell,
    PublisherShell,
    ReceiverShell,
    TransactionShell,
    check_on_error,
    settle_failed,
)
from penstock.client.shells import AsyncShell


class Runner(AsyncShell):
    """Connection, as its links use it."""

    def _in_loop(self) -> asyncio.AbstractEventLoop:
        raise NotImplementedError

    def after(self) -> None:
        """Do what is due after the engine was called."""
        raise NotImplementedError


class Publisher(PublisherShell, AsyncShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    _connection: Runner

    def __init__(self, connection: Runner, make: Callable[[], PublisherCore]) -> None:
        connection._in_loop()
        super().__init__(connection, make)

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


class Receiver(ReceiverShell, AsyncShell):
    """Receiver of a queue; `Connection.receiver` makes it. Iterate over it, or ask for single messages."""

    def __await__(self) -> Generator[Any, None, Receiver]:
        return self.__aenter__().__await__()

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


class Events(EventsShell, AsyncShell):
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        found = await self.get()
        if found is None:
            raise StopAsyncIteration
        return found


class Transaction(TransactionShell[Publisher, Receiver], AsyncShell):
    """Transaction; `Connection.transaction` makes it, for `async with`."""

    _publisher, _receiver = Publisher, Receiver
