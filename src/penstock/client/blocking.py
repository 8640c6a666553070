"""Client with blocking calls: a socket around an engine, with poll and without a thread.

Nothing happens between two calls. So acknowledgements go with the next call, by size, at the end of a `with` block, or
by `Connection.poll`; a lost connection is noticed, and made again, by the next call; there are no heartbeats unless
they are asked for, and then `poll` has to be called often enough.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, cast

from penstock.client import calls
from penstock.client.calls import PUSH, SLICE
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.connection import IDLE, Engine
from penstock.client.engine.failures import ConfirmTimeout, ConnectionLost
from penstock.client.engine.messages import Delivery, Message
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receipt import PENDING, Receipt
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call, Steps, T
from penstock.client.engine.window import SendResult
from penstock.client.errors import ClientError, ConnectionClosed, WrongProtocol
from penstock.client.operations import Operations
from penstock.client.options import Address, Options
from penstock.client.reconnect import explain, is_final, pauses
from penstock.client.shells import BlockingShell
from penstock.markers import override

RECEIVE: Final = 256 * 1024
"""Octets of one read."""
UNSENT: Final = 512 * 1024
"""Octets that are kept for a broker that does not read, before publishers wait."""


def connect(url: str = "amqp://", **options: object) -> Connection:
    """Return a connection to the broker at `url`: use it in `with`, or close it.

    Options are those of `penstock.connect`.

    Raises `ValueError` for an option that is unknown or out of range, and `ConnectError` and its kinds.
    """
    return Connection(Options(url, options))


class Connection(BlockingShell, Operations):
    """Connection of one thread; `connect` makes it. `clock` tells seconds, as `time.monotonic` does."""

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self.options = options
        self._clock = clock
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._unsent = memoryview(b"")
        self._batches = 0
        self._engine: Engine
        protocols = calls.PROTOCOLS[options["protocol"]]
        for protocol in protocols:
            terms = options.connection_terms(options.hosts[0], heartbeat=0.0)
            self._engine = calls.engine_of(protocol, terms)
            self._engine.now = clock()
            self._engine.block_for = self._wait_for_receipt
            try:
                self._try_hosts()
                break
            except WrongProtocol:
                if protocol == protocols[-1]:
                    raise

        calls.end_at_fork(self)

    def forked(self) -> None:
        """End it without a word to the broker: this process was forked from the one that opened it."""
        calls.end_forked(self._engine)
        self._drop()

    # Opening and closing

    def _try_hosts(self) -> None:
        """Connect to the first host that answers; raises the error of the last one."""
        for address in self.options.hosts:
            try:
                return self._try(address)
            except ClientError as error:
                if is_final(error) or address == self.options.hosts[-1]:
                    raise

    def _try(self, address: Address) -> None:
        engine, timeout = self._engine, self.options["connect_timeout"]
        engine.terms = calls.login_terms(self.options, address, 0.0)
        try:
            deadline = self._clock() + timeout
            sock = socket.create_connection(address, timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # In the place of heartbeats.
            if self.options.tls is not None:
                sock = self.options.tls.wrap_socket(sock, server_hostname=address.host)
            sock.setblocking(False)
            self._socket = sock
            self._poll.register(sock.fileno(), select.POLLIN)
            self._unsent = memoryview(b"")
            engine.begin(self._clock())
            opened = engine.opened
            while not opened.done:
                left = deadline - self._clock()
                if left <= 0:
                    raise TimeoutError
                self._turn(left, again=False)
            engine.woken.clear()
            opened.check()
            calls.renew_later(engine, self.options)
        except (OSError, ValueError) as error:
            self._drop()
            raise explain(address, error, timeout) from error
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._poll.unregister(sock.fileno())
            sock.close()

    def _reconnect(self) -> None:
        """Connect again; raises `ConnectionLost` when no more attempts are allowed."""
        engine = self._engine
        error: ClientError = ConnectionLost(None, engine.lost_reason)
        calls.logger().warning("Connection to %s lost: %s", self.options, engine.lost_reason)
        for pause in pauses(self.options):
            time.sleep(pause)
            engine.tick(self._clock())
            try:
                self._try_hosts()
            except ClientError as failure:
                error = failure
                if is_final(failure):
                    break
            else:
                calls.logger().info("Connected again to %s", self.options)
                return
        lost = ConnectionLost(None, str(error))
        engine.lose(lost, False, self._clock())
        self._after()
        raise lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(timeout=None if error is None else 0)

    def close(self, timeout: float | None = None) -> None:
        """Close receivers, publishers after their outcomes have come, and the connection; harmless when it is closed.

        `timeout` bounds the wait for outcomes (None: the time-out of the publishers).
        """
        try:
            if self._socket is not None:
                self.run(self._engine.closing(timeout))
        finally:
            self._engine.lose(ConnectionClosed(None, "the client closed it"), False, self._clock())
            self._drop()

    def drain(self, timeout: float | None = None) -> None:
        """Wait until every message that was sent has its outcome."""
        for publisher in list(self._engine.publishers):
            self.run(publisher.draining(timeout))

    @property
    def blocked(self) -> str | None:
        """Return the broker's reason for blocking the connection; None if it does not."""
        return self._engine.blocked_reason or None

    @property
    def protocol(self) -> str:
        """Return the protocol that is spoken: amqp10 or amqp091."""
        return self._engine.protocol

    @property
    def server_properties(self) -> dict[str, object]:
        """Return what the broker says of itself."""
        return self._engine.server

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll beside others; call `poll` when it is readable."""
        if self._socket is None:
            raise ConnectionLost(None, self._engine.lost_reason or "it is closed")
        return self._socket.fileno()

    def poll(self, timeout: float = 0.0) -> bool:
        """Send what there is, and take what comes within `timeout` seconds; return whether anything came."""
        self._engine.now = self._clock()
        return self._turn(timeout)

    def __repr__(self) -> str:
        return f"<Connection {self.options!r}>"

    # Senders and receivers

    def publisher(self, queue: str = "", *, exchange: str = "", routing_key: str = "", **options: object) -> Publisher:
        """Return a publisher to a queue, or to an exchange with a routing key; `options` are those of publishers."""
        terms = self.options.publisher_terms(queue, exchange, routing_key, options)
        return Publisher(self, self._engine.publisher(terms))

    def receiver(self, queue: str, **options: object) -> Receiver:
        """Return a receiver of a queue: use it in `with`, or close it; `options` are those of receivers."""
        return Receiver(self, self.options.receiver_terms(queue, options))

    # What the others use

    @override
    def core(self) -> Engine:
        return self._engine

    @override
    def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine: read until what it waits for is done. An interruption is thrown into it."""
        engine = self._engine
        engine.now = self._clock()
        try:
            wait = next(steps)
            while True:
                while not wait.done:
                    try:
                        self._turn(None)
                    except BaseException as error:
                        if not wait.done:
                            steps.throw(error)
                            raise
                wait = steps.send(None)
        except StopIteration as end:
            self._after()
            return cast(T, end.value)

    def _wait_for_receipt(self, receipt: Receipt, timeout: float | None) -> None:
        now = self._clock()
        deadline = None if timeout is None else now + timeout
        while receipt.outcome == PENDING:
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                raise ConfirmTimeout(cast(float, timeout), receipt.publisher.describe(), receipt)
            self._turn(left)

    def _after(self) -> None:
        engine = self._engine
        while engine.woken:
            woken, engine.woken = engine.woken, []
            for item in woken:
                if isinstance(item, Receipt) and item.callbacks is not None:
                    calls.call_callbacks(item)
                item.release()
        if engine.notices:
            calls.log_notices(engine)

    # Control operations, several at a time

    def begin(self, operation: str, fields: Mapping[str, object] | bytes) -> Call:
        """Send a control operation with its fields, or with a block (docs/blocks.md); `answer` waits for the answer.

        `taken` of the result has the rows of a block that are in their queues so far, if it asks for notes of progress.
        Raises `ClientError` above 64 without an answer.
        """
        self._engine.now = self._clock()
        call = self._engine.request(operation, fields if isinstance(fields, bytes) else dict(fields))
        self.pushed()
        return call

    def answer(self, call: Call, timeout: float | None = None) -> Any:
        """Return the answer to `begin`, an object or a block; may be called again after a `Timeout`."""
        return self.run(self._engine.answering(call, timeout))

    def forget(self, call: Call) -> None:
        """Drop the answer to `begin`, now or when it comes."""
        self._engine.requests.pop(call.number, None)

    def push(self) -> bool:
        """Send what can be sent without waiting; return whether all is sent."""
        sock = self._socket
        if sock is None:
            return True
        while True:
            if not self._unsent:
                out = self._engine.take_output()
                if not out:
                    return True
                self._unsent = memoryview(out)
            try:
                self._unsent = self._unsent[sock.send(self._unsent) :]
            except OSError:  # It would block, or is broken: the next read says why.
                return False

    def _push_within_bound(self) -> bool:
        """Send what can be sent, and stop or continue publishers; return whether all is sent."""
        engine, done = self._engine, self.push()
        if engine.is_congested == done:
            engine.congest(not done and len(self._unsent) + len(engine.out) > UNSENT)
        return done

    def _turn(self, timeout: float | None, again: bool = True) -> bool:
        """Send, and read once, waiting at most `timeout` seconds (None: until a timer is due); connect again if needed.

        Writing and reading go on at the same time, or two peers would wait for each other.
        """
        engine = self._engine
        if self._socket is None:
            if not again or engine.phase != IDLE:
                raise ConnectionLost(None, engine.lost_reason or "it is closed")
            self._reconnect()
        done = self._push_within_bound()
        data = self._read()
        if data is None:
            due = engine.next_deadline()
            if due is not None:
                left = max(due - self._clock(), 0.0)
                timeout = left if timeout is None else min(timeout, left)
            self._await_socket(done, timeout)
            data = self._read()
        now = self._clock()
        if data is None:
            engine.tick(now)
            if engine.fault is None:
                self._after()
                return False
        elif data:
            engine.receive(data, now)
        if not data or engine.fault is not None:
            self.push()
            self._drop()
            reason = engine.fault or ConnectionClosed(None, "the broker closed it without a reason")
            engine.lose(reason, again and bool(self.options["reconnect"]), now)
        elif engine.timers.is_due(now):
            engine.tick(now)
        self._after()
        return True

    def _await_socket(self, done: bool, timeout: float | None) -> None:
        sock = self._socket
        assert sock is not None
        self._poll.modify(sock.fileno(), select.POLLIN if done else select.POLLIN | select.POLLOUT)
        self._poll.poll(None if timeout is None else max(timeout * 1000, 0.0))

    def _read(self) -> bytes | None:
        """Return what has come; None if nothing has, empty at the end."""
        sock = self._socket
        assert sock is not None
        try:
            return sock.recv(RECEIVE)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            return None if _is_tls_pause(error) else b""

    def pushed(self) -> None:
        """Send what was published, unless a batch is open; at 32 KiB in a batch as well."""
        if self._batches == 0 or len(self._engine.out) > PUSH:
            self._push_within_bound()
            self._after()

    @contextmanager
    def batching(self) -> Iterator[None]:
        """Let published messages wait for each other, until the block ends or 32 KiB are together."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            self.push()


def _is_tls_pause(error: OSError) -> bool:
    """Tell whether TLS only waits for the other side (ssl.SSLWantReadError, SSLWantWriteError)."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


class Publisher:
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    def __init__(self, connection: Connection, core: PublisherCore) -> None:
        self._connection = connection
        self._core = core

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
        found = self._core.try_publish(message)
        self._connection.pushed()
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

    @property
    def unsettled(self) -> list[Receipt]:
        """Return the receipts of messages under way, the oldest first."""
        return self._core.unsettled

    @property
    def blocked(self) -> Blocked | None:
        """Return what keeps a message from being sent now; None if there is room."""
        return None if self._core.is_free(0) else self._core.describe()

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

    def __repr__(self) -> str:
        return f"<Publisher to {self._core.terms.exchange or self._core.terms.key!r}>"


class Receiver:
    """Receiver of a queue; `Connection.receiver` makes it. Iterate over it, or ask for single messages."""

    def __init__(self, connection: Connection, terms: ReceiverTerms) -> None:
        self._connection = connection
        self._core: ReceiverCore = connection.core().receiver(terms)
        connection.run(self._core.engine.waiting(self._core.attached))

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """Return the next message; None if none came within `timeout` seconds, or at the end after `drain`.

        Raises `LinkClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had come when the call is interrupted stays for the next one.
        """
        found = self._core.take_now()
        if found is not None:
            return found
        return self._connection.run(self._core.receiving(timeout))

    def get(self) -> Delivery | None:
        """Take a message that waits in the queue now; None without one. For a receiver with a window of 0."""
        return self._connection.run(self._core.getting())

    def receive_nowait(self) -> Delivery | None:
        """Return a message that has come; None without one. Raises as `receive`."""
        found = self._core.take_now()
        if found is None:
            self._connection.poll(0)
            found = self._core.take_now()
        return found

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        found = self._core.take_now()
        if found is None:
            found = self._connection.run(self._core.receiving())
            if found is None:
                raise StopIteration
        return found

    def drain(self) -> bool:
        """Let no more messages come; those that have come can be received, and then there is nothing.

        Return whether that has shown that no message waits in the queue, which AMQP 0-9-1 does not tell.
        """
        return self._connection.run(self._core.draining())

    def resume(self) -> None:
        """Let messages come again after `drain`."""
        self._core.resume()

    def count(self, timeout: float | None = None) -> int | None:
        """Ask how many messages wait in the queue, and here for `receive`, beside those that other receivers have.

        None if the broker does not tell within `timeout` seconds; over AMQP 1.0 it is an estimate, and 0 is None.
        """
        return self._connection.run(self._core.counting(timeout))

    def close(self) -> None:
        """Acknowledge what was accepted, and close; all other messages return to their queue."""
        self._connection.run(self._core.closing())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Receiver of {self._core.terms.queue!r}>"
