"""Client for asyncio: a transport around an engine, with one write a turn of the loop and one timer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, cast

from penstock.client import calls
from penstock.client.calls import PUSH, SLICE, explain, is_final
from penstock.client.engine.connection import ENDED, IDLE, Engine
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Message, delayed
from penstock.client.engine.outcomes import Blocked, ConnectionLost, Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.waits import Steps, T
from penstock.client.engine.window import SendResult
from penstock.client.errors import ClientError, ConnectionClosed, WrongProtocol
from penstock.client.handles import (
    ConnectionShell,
    EventsShell,
    PublisherShell,
    ReceiverShell,
    TransactionShell,
    check_on_error,
    settle_failed,
)
from penstock.client.operations import Operations
from penstock.client.options import Address, Options
from penstock.client.pauses import Pauses
from penstock.client.shells import AsyncShell
from penstock.flow.timers import NEVER
from penstock.markers import override
from penstock.settings.kind import whole

if TYPE_CHECKING:
    from penstock.client.option_types import ConnectionOptions

__all__ = ["Connection", "Events", "Publisher", "Receiver", "Transaction", "connect"]

CONCURRENCY = whole(1)
HEARTBEAT = 30.0
"""Seconds between heartbeats without an option."""
UNSENT = 512 * 1024
"""Bytes in the transport above which publishers wait."""
ACKNOWLEDGE_AFTER = 0.01
"""Most seconds until accepted messages are acknowledged."""
CLOSE_S = 1.0
"""Most seconds for the end of a transport."""


class Runner(AsyncShell):
    """Connection, as its links use it."""

    def _in_loop(self) -> asyncio.AbstractEventLoop:
        raise NotImplementedError

    def after(self) -> None:
        """Do due work after a call of the engine."""
        raise NotImplementedError


class Publisher(PublisherShell, AsyncShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    _connection: Runner

    def __init__(self, connection: Runner, make: Callable[[], PublisherCore]) -> None:
        connection._in_loop()
        super().__init__(connection, make)

    async def send(
        self, message: bytes | Message, *, timeout: float | None = None, delay: float | None = None
    ) -> Receipt:
        """Wait for room, send, and return when the message is confirmed.

        A call that is cancelled or times out while it waits for room has sent nothing. Raises `FlowControlTimeout`
        then, and `ConfirmTimeout` if no answer came; `MessageRefused`, `MessageTooLarge`, `ConnectionLost`,
        `LinkClosed`. `timeout` in seconds limits both waits together (None: `flow_control_wait_failure` for each).
        `delay`: see `Message`.
        """
        return await self._connection.run(self._core.sending(delayed(message, delay), timeout))

    async def publish(
        self, message: bytes | Message, *, timeout: float | None = None, delay: float | None = None
    ) -> Receipt:
        """Wait for room and send; the receipt has the outcome. Raises as `send`, except errors about the outcome."""
        message = delayed(message, delay)
        receipt = self._core.publish_now(message)
        if receipt is not None:
            return receipt
        return await self._connection.run(self._core.publishing(message, timeout))

    async def forward(
        self,
        delivery: Delivery,
        *,
        routing_key: str | None = None,
        exchange: str | None = None,
        timeout: float | None = None,
    ) -> Receipt:
        """Pass on a received message; the receipt has the outcome. Waits, and raises, as `publish`.

        Body, properties and headers are sent as they came, without being decoded if both brokers speak one protocol.
        Left out are the user-id of another user, which the broker would refuse, and the headers CC and BCC, by which
        it would route copies once more. Accept the delivery when the receipt is confirmed: so no message is lost.
        `routing_key` and `exchange` replace the publisher's.
        """
        return await self._connection.run(self._core.publishing(delivery.forwarded(routing_key, exchange), timeout))

    def try_publish(self, message: bytes | Message) -> Receipt | Blocked:
        """Send if there is room, otherwise return the reason for the wait; never waits."""
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

        At most the window and 256 messages are in memory. `progress` is called with the result so far after each 256
        messages. A given `result` is filled, and can be read after a cancellation or a time-out.
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
            iterator = iter(messages)
            while piece := list(islice(iterator, SLICE)):
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
        """Return the next message; None if none arrived within `timeout` seconds, or at the end after `drain`.

        Raises `ReceiverClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had arrived when the call is cancelled is returned by the next call.
        """
        core = self._core()
        return core.take_now() or await self._connection.run(core.receiving(timeout))

    def receive_nowait(self) -> Delivery | None:
        """Return a message that has arrived; None without one. Raises as `receive`."""
        return self._core().take_now()

    def __aiter__(self) -> Receiver:
        return self

    async def __anext__(self) -> Delivery:
        item = self._core().take_now() or await self.receive()
        if item is None:
            raise StopAsyncIteration
        return item

    async def handle(
        self,
        function: Callable[[Delivery], Awaitable[object] | object],
        *,
        concurrency: int = 1,
        on_error: str = "release",
    ) -> None:
        """Call a function, or an asynchronous one, with each message; at most `concurrency` of its calls are open.

        The return of the function accepts the message, unless it is settled already. An exception is logged, and the
        message returns to its queue as a failed delivery, or with `on_error="reject"` is rejected, with the error as
        the reason. `handle` returns at the end after `drain`; raises as `receive`. A cancellation also cancels the open
        calls, whose messages return to their queue.
        """
        CONCURRENCY.read_typed("concurrency", concurrency)
        check_on_error(on_error)
        self._core()
        workers = [asyncio.ensure_future(self._work(function, on_error)) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, function: Callable[[Delivery], Awaitable[object] | object], on_error: str) -> None:
        """Process one message after the other."""
        async for message in self:
            try:
                awaitable = function(message)
                if isinstance(awaitable, Awaitable):
                    await awaitable
                message.accept()
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                settle_failed(message, error, on_error)  # A task inside the function was cancelled, not this call.
            except Exception as error:
                settle_failed(message, error, on_error)
            finally:
                message.release()  # The message of a cancelled call; the others are settled.


class Events(EventsShell, AsyncShell):
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        item = await self.get()
        if item is None:
            raise StopAsyncIteration
        return item


class Transaction(TransactionShell[Publisher, Receiver], AsyncShell):
    """Transaction; `Connection.transaction` makes it, for `async with`."""

    _publisher, _receiver = Publisher, Receiver


def connect(url: str = "amqp://", **options: Unpack[ConnectionOptions]) -> Connection:
    """Return a connection to the broker at `url`: use it in `async with`, or await it and close it.

    Options are in the URL or keywords (docs/how-to/client.md). Raises `ValueError` for an option that is unknown or out
    of range. Connecting raises `ConnectError` and its kinds.
    """
    return Connection(Options(url, options))


class Connection(ConnectionShell[Publisher, Receiver, Transaction, Events], Runner, Operations):
    """Connection of one event loop; `connect` makes it."""

    _publisher, _receiver, _transaction, _events = Publisher, Receiver, Transaction, Events

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._acknowledging: asyncio.TimerHandle | None = None
        self._lost: asyncio.Event | None = None
        self._gone: asyncio.Event | None = None
        """Set when the transport of a closing connection has ended."""
        self._reconnecting: asyncio.Task[None] | None = None
        self._error: Exception | None = None
        self._is_closing = False
        """True once `close` needs no more transports."""

    def forked(self) -> None:
        """End the connection without notice to the broker: this process was forked from the process that opened it."""
        calls.end_forked(self.core())
        self._transport = None  # The transport is not closed, because the selector is shared with the parent.

    # Opening and closing

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(timeout=None if error is None else 0)

    async def _open(self) -> Connection:
        if self._engine is not None:
            raise RuntimeError("the connection is open already")
        loop = self._loop = asyncio.get_running_loop()
        self._lost = asyncio.Event()
        protocols = calls.PROTOCOLS[self.options["protocol"]]
        try:
            for protocol in protocols:
                try:
                    await self._open_as(protocol, loop)
                    break
                except WrongProtocol:
                    if protocol == protocols[-1]:
                        raise
        except BaseException:
            self._engine = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            raise
        calls.end_at_fork(self)
        if self.options["reconnect"]:
            self._reconnecting = loop.create_task(self._keep(self._lost))
        return self

    async def _open_as(self, protocol: str, loop: asyncio.AbstractEventLoop) -> None:
        """Open the connection with one protocol."""
        terms = self.options.connection_terms(self.options.hosts[0], heartbeat=HEARTBEAT)
        engine = self._engine = calls.engine_of(protocol, terms)
        engine.now = loop.time()
        engine.new_future = loop.create_future
        engine.schedule = self._schedule
        await self._try_hosts()

    async def _try_hosts(self, was_open: bool = False) -> None:
        """Connect to the first host that answers; raises the error of the last host."""
        for address in self.options.hosts:
            try:
                return await self._try(address)
            except ClientError as error:
                if is_final(error, was_open) or address == self.options.hosts[-1]:
                    raise

    async def _try(self, address: Address) -> None:
        loop, engine = self._in_loop(), self.core()
        timeout = self.options["connect_timeout"]
        engine.terms = calls.login_terms(self.options, address, HEARTBEAT)
        name = address.host if self.options.tls is not None else None
        try:
            async with asyncio.timeout(timeout):
                if self.options.dial is not None:
                    await loop.create_connection(lambda: _Wire(self), sock=await self.options.dial())
                elif address.is_path():
                    await loop.create_unix_connection(
                        lambda: _Wire(self), address.host, ssl=self.options.tls, server_hostname=name
                    )
                else:
                    await loop.create_connection(
                        lambda: _Wire(self), *address, ssl=self.options.tls, server_hostname=name
                    )
                await self.run(engine.until(engine.opened, NEVER))
                calls.renew_later(engine, self.options)
        except (OSError, TimeoutError) as error:
            self._drop()
            raise explain(address, error, timeout) from error
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        """Abandon the transport of an attempt; its later callbacks are ignored."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
            engine = self.core()
            engine.lose(engine.fault or ConnectionClosed(None, "the attempt was given up"), True, engine.now)
            self.after()

    async def _keep(self, lost: asyncio.Event) -> None:
        """Connect again after each loss. When the attempts end, the offline connection is closed for good, and this is
        reported.
        """
        engine = self.core()
        error: BaseException = ConnectionClosed(None, "nothing tries to connect again")
        failure: BaseException | None = None
        time = self._in_loop().time
        pauses = Pauses(self.options, time())
        try:
            while engine.phase != ENDED:
                await lost.wait()
                lost.clear()
                error = failure = self._error or ConnectionClosed(None, "it was lost")
                calls.logger().warning("Connection to %s lost: %s", self.options, error)
                pauses.lost(time())
                while (pause := pauses.next()) is not None:
                    await asyncio.sleep(pause)
                    lost.clear()  # The last attempt may have opened the connection.
                    failure = await self._attempt()
                    if failure is None or is_final(failure, was_open=True):
                        break
                if failure is not None:
                    error = failure
                    break
                pauses.opened(time())
                calls.logger().info("Connected again to %s", self.options)
        finally:
            if engine.phase == IDLE and not self._is_closing:
                engine.lose(ConnectionLost(None, str(error) or repr(error)), False, engine.now)
                self.after()

    async def _attempt(self) -> BaseException | None:
        """Try to connect again; return the reason of a failure, None for success. Any exception is a failed attempt."""
        try:
            await self._try_hosts(was_open=True)
        except asyncio.CancelledError as failure:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            calls.note_failed_attempt(failure)
            return failure
        except Exception as failure:
            calls.note_failed_attempt(failure)
            return failure
        return None

    async def close(self, timeout: float | None = None) -> None:
        """Close receivers, publishers after their outcomes have arrived, and the connection; no effect if it is closed.

        `timeout` in seconds bounds the whole call (None: the wait for outcomes has the time-out of the publishers).
        """
        engine = self._engine
        if engine is None:
            return
        time = self._in_loop().time
        began = time()
        try:
            await self.run(engine.closing(timeout))
        finally:
            self._is_closing = True
            if self._reconnecting is not None:
                self._reconnecting.cancel()
            self.after()
            if self._timer is not None:
                self._timer.cancel()
            await self._end_transport(CLOSE_S if timeout is None else min(CLOSE_S, max(began + timeout - time(), 0.05)))

    async def _end_transport(self, limit: float) -> None:
        """Close the transport and wait until it has ended, including the end of TLS. It is aborted after `limit`."""
        transport = self._transport
        if transport is None:
            return
        self._gone = asyncio.Event()
        transport.close()
        try:
            async with asyncio.timeout(limit):
                await self._gone.wait()
        except TimeoutError:
            transport.abort()

    # Used by other modules

    @override
    def core(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the connection is not open: use it in `async with`, or await it")
        return self._engine

    def _in_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise RuntimeError("a connection belongs to the event loop in which it was opened")
        return loop

    @override
    async def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine: wait for each wait that it yields. A cancellation is thrown into the call."""
        loop, engine = self._in_loop(), self.core()
        engine.now = loop.time()
        try:
            wait = next(steps)
            while True:
                self._arm()
                if not wait.done:
                    future = wait.future = loop.create_future()
                    try:
                        await future
                    except BaseException as error:
                        wait.future = None
                        self._throw(steps, error)
                        raise
                wait = steps.send(None)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            if engine.woken or engine.events:
                self._release()  # Waits that the last step has finished.

    def _throw(self, steps: Steps[Any], error: BaseException) -> None:
        """Throw a cancellation into a call."""
        try:
            steps.throw(error)
        finally:
            self.after()

    def _schedule(self, may_wait: bool) -> None:
        loop = self._in_loop()
        self.core().now = loop.time()
        if not may_wait:
            loop.call_soon(self.after)
        elif self._acknowledging is None:
            self._acknowledging = loop.call_later(ACKNOWLEDGE_AFTER, self._acknowledge)

    def _acknowledge(self) -> None:
        self._acknowledging = None
        self.after()

    def after(self) -> None:
        """Do due work after a call of the engine: wake, log, write, set the timer."""
        engine = self.core()
        self._release()
        transport = self._transport
        if transport is not None:
            if not engine.is_congested:
                out = engine.take_output()
                if out:
                    transport.write(out)
            if engine.fault is not None:
                transport.close()
        else:
            engine.is_scheduled = False
        self._arm()

    def _arm(self) -> None:
        due = self.core().next_deadline()
        timer = self._timer
        if due is None or (timer is not None and timer.when() <= due):
            return
        if timer is not None:
            timer.cancel()
        loop = self._loop
        assert loop is not None
        self._timer = loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        loop = self._loop
        assert loop is not None
        self.core().tick(loop.time())
        self.after()

    # Callbacks of the transport

    def connected(self, transport: asyncio.Transport) -> None:
        """Begin to use a transport."""
        loop, engine = self._loop, self.core()
        assert loop is not None
        transport.set_write_buffer_limits(high=UNSENT)
        self._transport = transport
        engine.begin(loop.time())
        self.after()

    def received(self, data: bytes) -> None:
        """Handle input."""
        loop = self._loop
        assert loop is not None
        self.core().receive(data, loop.time())
        self.after()

    def congested(self, is_congested: bool) -> None:
        """Stop or continue publishers."""
        self.core().congest(is_congested)
        self.after()

    def lost(self, transport: asyncio.Transport | None, error: Exception | None) -> None:
        """Handle the loss of a transport."""
        loop, engine = self._loop, self._engine
        if loop is None or engine is None or transport is None or transport is not self._transport:
            return  # The transport was abandoned.
        self._transport = None
        if self._gone is not None:
            self._gone.set()
        reason = engine.fault or ConnectionClosed(
            None, str(error) if error else "the broker closed it without a reason"
        )
        self._error = reason
        was_open = engine.opened.done and engine.opened.error is None
        keeper = self._reconnecting
        is_kept = self.options["reconnect"] and not self._is_closing and (keeper is None or not keeper.done())
        engine.lose(reason, is_kept, loop.time())
        if was_open and self._lost is not None and engine.phase == IDLE:
            self._lost.set()
        self.after()


class _Wire(asyncio.Protocol):
    """Transport of a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.data_received = self.connection.received  # type: ignore[method-assign]  # One call less a read.
        self.connection.connected(self.transport)

    def data_received(self, data: bytes) -> None:
        self.connection.received(data)

    def pause_writing(self) -> None:
        self.connection.congested(True)

    def resume_writing(self) -> None:
        self.connection.congested(False)

    def connection_lost(self, error: Exception | None) -> None:
        self.connection.lost(self.transport, error)
