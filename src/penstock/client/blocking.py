"""Client with blocking calls: a socket around an engine, with poll and without a thread.

No code runs between two calls. So acknowledgements are sent with the next call, by size, at the end of a `with` block,
or by `Connection.poll`. A lost connection is detected, and opened again, by the next call. There are no heartbeats
unless requested, and then `poll` must be called often enough.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast

from penstock.client import calls
from penstock.client.calls import PUSH, SLICE, explain, is_final
from penstock.client.engine.connection import IDLE, Engine
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Message, delayed
from penstock.client.engine.outcomes import PENDING, Blocked, ConfirmTimeout, ConnectionLost, Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import Delivery, ReceiverCore
from penstock.client.engine.waits import Call, Steps, T, Wait
from penstock.client.engine.window import SendResult
from penstock.client.errors import ClientError, ConnectionClosed, Timeout, WrongProtocol
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
from penstock.client.shells import BlockingShell
from penstock.markers import override

if TYPE_CHECKING:
    from penstock.client.option_types import ConnectionOptions

__all__ = ["Connection", "Events", "Publisher", "Receiver", "Transaction", "connect"]

RECEIVE: Final = 256 * 1024
"""Bytes of one read."""
KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
"""Options of TCP: an idle connection is probed after 15 s, every 5 s, and ends without an answer after four probes.

The probes also keep the connection known to firewalls. The system's default is two hours.
"""
ATTEMPT_S: Final = 1.0
"""Least seconds for an attempt to connect again, even if the call has less time left."""
UNSENT: Final = 512 * 1024
"""Bytes waiting for a broker that does not read, above which publishers wait."""


class Runner(BlockingShell):
    """Connection, as its links use it."""

    def poll(self, timeout: float = 0.0) -> bool:
        """Send pending output, and handle input that arrives within `timeout` seconds; return whether any arrived."""
        raise NotImplementedError

    def check_thread(self) -> None:
        """Raise `RuntimeError` in a thread other than the one that opened the connection, which does not change."""
        raise NotImplementedError

    def look(self) -> None:
        """Handle input that has arrived, if there is a transport; never waits."""
        raise NotImplementedError

    def push(self) -> bool:
        """Send output that can be sent without waiting; return whether all is sent."""
        raise NotImplementedError

    def pushed(self) -> None:
        """Send published messages, unless a batch is open."""
        raise NotImplementedError

    def batching(self) -> AbstractContextManager[None]:
        """Gather published messages until the block ends."""
        raise NotImplementedError


class Publisher(PublisherShell, BlockingShell):
    """Publisher; `Connection.publisher` makes it. Messages are bytes or `Message`."""

    _connection: Runner

    def __init__(self, connection: Runner, make: Callable[[], PublisherCore]) -> None:
        connection.check_thread()
        super().__init__(connection, make)

    def send(self, message: bytes | Message, *, timeout: float | None = None, delay: float | None = None) -> Receipt:
        """Wait for room, send, and return when the message is confirmed.

        A call that is interrupted or times out while it waits for room has sent nothing. Raises `FlowControlTimeout`
        then, and `ConfirmTimeout` if no answer came; `MessageRefused`, `MessageTooLarge`, `ConnectionLost`,
        `LinkClosed`. `timeout` in seconds limits both waits together (None: `flow_control_wait_failure` for each).
        `delay`: see `Message`.
        """
        self._connection.check_thread()
        return self._connection.run(self._core.sending(delayed(message, delay), timeout))

    def publish(self, message: bytes | Message, *, timeout: float | None = None, delay: float | None = None) -> Receipt:
        """Wait for room and send; the receipt has the outcome. Raises as `send`, except errors about the outcome.

        The message is sent at once; in `with publisher.batch():` many are sent together.
        """
        self._connection.check_thread()
        message = delayed(message, delay)
        receipt = self._core.publish_now(message)
        if receipt is None:
            receipt = self._connection.run(self._core.publishing(message, timeout))
        self._connection.pushed()
        return receipt

    def forward(
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
        return self.publish(delivery.forwarded(routing_key, exchange), timeout=timeout)

    def try_publish(self, message: bytes | Message) -> Receipt | Blocked:
        """Send if there is room, otherwise return the reason for the wait; never waits."""
        core, connection = self._core, self._connection
        connection.check_thread()
        outcome = core.try_publish(message)
        if isinstance(outcome, Blocked):
            connection.look()  # Room may have become free since the last call.
            outcome = core.try_publish(message)
        connection.pushed()
        return outcome

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Send the messages of a `with` block together; the last are sent at its end."""
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

        At most the window and 256 messages are in memory. `progress` is called with the result so far after each 256
        messages. A given `result` is filled, and can be read after an interruption or a time-out.
        """
        result = SendResult() if result is None else result
        core, connection = self._core, self._connection
        connection.check_thread()
        core.check()
        iterator = iter(messages)
        while piece := list(islice(iterator, SLICE)):
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
        """Return the next message; None if none arrived within `timeout` seconds, or at the end after `drain`.

        Raises `ReceiverClosed` when the broker has ended the receiver, for instance because its queue was deleted. A
        message that had arrived when the call is interrupted is returned by the next call.
        """
        self._connection.check_thread()
        delivery = self._core().take_now()
        if delivery is not None:
            return delivery
        return self._connection.run(self._core().receiving(timeout))

    def receive_nowait(self) -> Delivery | None:
        """Return a message that has arrived; None without one. Raises as `receive`."""
        self._connection.check_thread()
        core = self._core()
        delivery = core.take_now()
        if delivery is None:
            self._connection.poll(0)
            delivery = core.take_now()
        return delivery

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        self._connection.check_thread()
        core = self._attached
        item = None if core is None else core.take_now()
        if item is None:
            item = self._connection.run(self._core().receiving())
            if item is None:
                raise StopIteration
        return item

    def handle(self, function: Callable[[Delivery], object], *, on_error: str = "release") -> None:
        """Call a function with each message, one after the other.

        The return of the function accepts the message, unless it is settled already. An exception is logged, and the
        message returns to its queue as a failed delivery, or with `on_error="reject"` is rejected, with the error as
        the reason. `handle` returns at the end after `drain`; raises as `receive`.
        """
        check_on_error(on_error)
        for message in self:
            try:
                function(message)
                message.accept()
            except Exception as error:
                settle_failed(message, error, on_error)
            finally:
                message.release()  # The message of an interrupted call; the others are settled.


class Events(EventsShell, BlockingShell):
    """Events of a connection; `Connection.events` makes it. Iteration ends when the connection is closed for good."""

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        item = self.get()
        if item is None:
            raise StopIteration
        return item


class Transaction(TransactionShell[Publisher, Receiver], BlockingShell):
    """Transaction; `Connection.transaction` makes it, for `with`."""

    _publisher, _receiver = Publisher, Receiver


def connect(url: str = "amqp://", **options: Unpack[ConnectionOptions]) -> Connection:
    """Return a connection to the broker at `url`: use it in `with`, or close it.

    Options are those of `penstock.connect`.

    Raises `ValueError` for an option that is unknown or out of range, and `ConnectError` and its kinds.
    """
    return Connection(Options(url, options))


class Connection(ConnectionShell[Publisher, Receiver, Transaction, Events], Runner, Operations):
    """Connection of one thread; `connect` makes it. `clock` returns seconds, like `time.monotonic`."""

    _publisher, _receiver, _transaction, _events = Publisher, Receiver, Transaction, Events

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(options)
        self._clock = clock
        self._thread = 0
        """Identifier of the thread that owns the connection; 0 before the first call."""
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._unsent = memoryview(b"")
        self._batches = 0
        self._pauses = Pauses(options, clock())
        self._is_trying = False
        """True from the report of a loss to the next open connection."""
        self._retry_at = 0.0
        """Time of the next attempt."""
        self._engine: Engine
        protocols = calls.PROTOCOLS[options["protocol"]]
        for protocol in protocols:
            terms = options.connection_terms(options.hosts[0], heartbeat=0.0)
            self._engine = calls.engine_of(protocol, terms)
            self._engine.now = clock()
            self._engine.block_for = self._wait_for_receipt
            self._engine.check_thread = self.check_thread
            try:
                self._try_hosts(options["connect_timeout"])
                break
            except WrongProtocol:
                if protocol == protocols[-1]:
                    raise

        self._thread = 0  # The thread that opens the connection need not be the thread that uses it.
        calls.end_at_fork(self)

    def forked(self) -> None:
        """End the connection without notice to the broker: this process was forked from the process that opened it."""
        calls.end_forked(self._engine)
        self._drop()

    # Opening and closing

    def _try_hosts(self, timeout: float, was_open: bool = False) -> None:
        """Connect to the first host that answers within `timeout` seconds; raises the error of the last host."""
        for address in self.options.hosts:
            try:
                return self._try(address, timeout)
            except ClientError as error:
                if is_final(error, was_open) or address == self.options.hosts[-1]:
                    raise

    def _try(self, address: Address, timeout: float) -> None:
        engine = self._engine
        engine.terms = calls.login_terms(self.options, address, 0.0)
        try:
            deadline = self._clock() + timeout
            sock = _connected(address, timeout)
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

    def _connect_again(self, timeout: float | None) -> bool:
        """Continue to connect again for about `timeout` seconds, until a timer is due; return whether the connection is
        open.

        The call pauses, or makes one attempt, which has at least `ATTEMPT_S`. Any exception is a failed attempt. Raises
        `ConnectionLost` when no more attempts are allowed.
        """
        engine = self._engine
        if not self._is_trying:
            self._is_trying = True
            self._pauses.lost(self._clock())
            calls.logger().warning("Connection to %s lost: %s", self.options, engine.lost_reason)
            self._pause(ConnectionLost(None, engine.lost_reason))
        left = self._left(timeout)
        now = self._clock()
        rest = min(self._retry_at - now, self.options["reconnect_delay_max"])  # The clock may jump ahead.
        if rest > 0:
            time.sleep(max(min(rest, left), 0.0))
            engine.tick(self._clock())
            self._release()
            if rest > left:
                return False
        try:
            self._try_hosts(min(self.options["connect_timeout"], max(self._left(timeout), ATTEMPT_S)), was_open=True)
        except Exception as failure:
            calls.note_failed_attempt(failure)
            engine.tick(self._clock())
            self._release()
            self._pause(failure)
            return False
        self._is_trying = False
        self._pauses.opened(self._clock())
        calls.logger().info("Connected again to %s", self.options)
        return True

    def _left(self, timeout: float | None) -> float:
        """Return the seconds until a timer is due, at most `timeout`; infinity without one."""
        due = self._engine.next_deadline()
        left = float("inf") if due is None else max(due - self._clock(), 0.0)
        return left if timeout is None else min(left, max(timeout, 0.0))

    def _pause(self, failure: Exception) -> None:
        """Pause until the next attempt; raises `ConnectionLost` if there is none, with the reason of the last
        attempt.
        """
        pause = None if is_final(failure, was_open=True) else self._pauses.next()
        if pause is not None:
            self._retry_at = self._clock() + pause
            return
        lost = ConnectionLost(None, failure.text if isinstance(failure, ConnectionLost) else str(failure))
        self._engine.lose(lost, False, self._clock())
        self._release()
        raise lost

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(timeout=None if error is None else 0)

    def close(self, timeout: float | None = None) -> None:
        """Close receivers, publishers after their outcomes have arrived, and the connection; no effect if it is closed.

        `timeout` in seconds bounds the whole call (None: the wait for outcomes has the time-out of the publishers).
        """
        self.check_thread()
        try:
            if self._socket is not None or self._engine.phase == IDLE:
                self.run(self._engine.closing(timeout))
        finally:
            self._engine.lose(ConnectionClosed(None, "the client closed it"), False, self._clock())
            self._drop()

    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll with other descriptors; call `poll` when it is readable."""
        if self._socket is None:
            raise ConnectionLost(None, self._engine.lost_reason or "it is closed")
        return self._socket.fileno()

    def poll(self, timeout: float = 0.0) -> bool:
        """Send pending output, and handle input that arrives within `timeout` seconds; return whether any arrived."""
        self.check_thread()
        self._engine.now = self._clock()
        return self._turn(timeout)

    def take_over(self) -> None:
        """Make the calling thread the owner of the connection; no other thread may be within a call of it."""
        self._thread = threading.get_ident()

    # Used by other modules

    def check_thread(self) -> None:
        """Raise `RuntimeError` in a thread that does not own the connection, which does not change.

        The owner is the thread of the first call, or of `take_over`. If the owner has ended, the calling thread becomes
        the owner.
        """
        if threading.get_ident() != self._thread:
            if any(thread.ident == self._thread for thread in threading.enumerate()):
                raise RuntimeError(
                    "a connection belongs to the thread that uses it; each thread needs one of its own, "
                    "or calls take_over() when the former one has stopped using it"
                )
            self._thread = threading.get_ident()

    @override
    def core(self) -> Engine:
        return self._engine

    @override
    def run(self, steps: Steps[T]) -> T:
        """Carry out a call of the engine: read until each wait is done. An interruption is thrown into the call.

        An interruption that comes as the wait is done is raised at the next wait, or at the end of the call.
        """
        self.check_thread()
        engine = self._engine
        engine.now = self._clock()
        late: list[BaseException] = []
        try:
            wait = next(steps)
            while True:
                while not wait.done:
                    if late:
                        steps.throw(late[0])
                        raise late[0]
                    try:
                        self._turn(None)
                    except BaseException as error:
                        if not _is_over(wait):
                            steps.throw(error)
                            raise
                        if not isinstance(error, Exception):
                            late.append(error)
                wait = steps.send(None)
        except StopIteration as end:
            self._release()
            if late:
                raise late[0] from None
            return cast(T, end.value)

    def _wait_for_receipt(self, receipt: Receipt, timeout: float | None) -> None:
        self.check_thread()
        now = self._clock()
        deadline = None if timeout is None else now + timeout
        while receipt.outcome == PENDING:
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                raise ConfirmTimeout(cast(float, timeout), receipt.publisher.describe(), receipt)
            self._turn(left)

    # Concurrent control operations

    def begin(self, operation: str, fields: Mapping[str, object] | bytes) -> Call:
        """Send a control operation with fields or a block (docs/inside/blocks.md); `answer` waits for the answer.

        The first operation of a connection waits until its channel or link is open; no call waits for the answer.
        `taken` of the result is the number of rows of a block that are in their queues so far, if progress reports are
        requested. Raises `ClientError` above 64 without an answer, and `Timeout` if it cannot be sent.
        """
        self.check_thread()
        engine = self._engine
        now = engine.now = self._clock()
        call = engine.request(operation, fields if isinstance(fields, bytes) else dict(fields))
        deadline = now + engine.terms.call_timeout
        while not (call.done or engine.is_sent(call)):
            if self._clock() >= deadline:
                self.forget(call)
                raise Timeout(f"{call.what} was not sent within {engine.terms.call_timeout:g} s")
            self._turn(deadline - self._clock())
        self.pushed()
        return call

    def answer(self, call: Call, timeout: float | None = None) -> Any:
        """Return the answer to `begin`, an object or a block; may be called again after a `Timeout`."""
        return self.run(self._engine.answering(call, timeout))

    def forget(self, call: Call) -> None:
        """Drop the answer to `begin`, now or when it arrives."""
        self._engine.requests.pop(call.number, None)

    def look(self) -> None:
        """Handle input that has arrived, if there is a transport; never waits."""
        if self._socket is not None:
            self.poll(0)

    def push(self) -> bool:
        """Send output that can be sent without waiting; return whether all is sent."""
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
            except OSError:  # The socket would block, or is broken: the next read reports it.
                return False

    def _push_within_bound(self) -> bool:
        """Send output that can be sent, and stop or resume publishers; return whether all is sent."""
        engine, done = self._engine, self.push()
        if engine.is_congested == done:
            engine.congest(not done and len(self._unsent) + len(engine.out) > UNSENT)
        return done

    def _turn(self, timeout: float | None, again: bool = True) -> bool:
        """Send, and read once, waiting at most `timeout` seconds (None: until a timer is due); connect again if needed.

        Writing and reading alternate, or two peers would wait for each other.
        """
        engine = self._engine
        if self._socket is None:
            if not again or engine.phase != IDLE:
                raise ConnectionLost(None, engine.lost_reason or "it is closed")
            if not self._connect_again(timeout):
                return False
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
                self._release()
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
        self._release()
        return True

    def _await_socket(self, done: bool, timeout: float | None) -> None:
        sock = self._socket
        assert sock is not None
        self._poll.modify(sock.fileno(), select.POLLIN if done else select.POLLIN | select.POLLOUT)
        self._poll.poll(None if timeout is None else max(timeout * 1000, 0.0))

    def _read(self) -> bytes | None:
        """Return input that has arrived; None if there is none, empty at the end."""
        sock = self._socket
        assert sock is not None
        try:
            return sock.recv(RECEIVE)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            return None if _is_tls_pause(error) else b""

    def pushed(self) -> None:
        """Send published messages, unless a batch is open; in a batch at 32 KiB."""
        if self._batches == 0 or len(self._engine.out) > PUSH:
            self._push_within_bound()
            self._release()

    @contextmanager
    def batching(self) -> Iterator[None]:
        """Gather published messages until the block ends or 32 KiB are gathered."""
        self._batches += 1
        try:
            yield
        finally:
            self._batches -= 1
            self.push()


def _connected(address: Address, timeout: float) -> socket.socket:
    """Return a socket to a host, or at a path. Raises OSError."""
    if address.is_path():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(address.host)
        except OSError:
            sock.close()
            raise
        return sock
    host = address.host.encode() if address.host.isascii() else address.host  # Bytes need no codec for IDNA.
    sock = socket.create_connection((host, address.port), timeout)  # type: ignore[arg-type]  # It takes them.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _keep_alive(sock)  # Instead of heartbeats.
    return sock


def _keep_alive(sock: socket.socket) -> None:
    """Make the system probe an idle connection, as far as it has the options."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _is_tls_pause(error: OSError) -> bool:
    """Return whether TLS only waits for the other side (ssl.SSLWantReadError, SSLWantWriteError)."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


def _is_over(wait: Wait) -> bool:
    """Return whether a wait is done, which a turn may have changed."""
    return wait.done
