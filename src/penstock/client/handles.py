"""Parts of connections, publishers and receivers that both shells share: everything off the hot path."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from penstock.client import calls
from penstock.client.engine.connection import ENDED, Engine
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Forwarded, Message
from penstock.client.engine.outcomes import Blocked, Receipt
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.waits import Steps, Wait
from penstock.client.options import Options
from penstock.client.shells import Operation, Shell
from penstock.flow.timers import NEVER
from penstock.markers import override
from penstock.settings.kind import Choices

if TYPE_CHECKING:
    from penstock.client.counters import ConnectionCounters, PublisherCounters, ReceiverCounters
    from penstock.client.engine.receiver import ReceiverCore
    from penstock.client.engine.relay import Relay
    from penstock.client.engine.transaction import TransactionCore
    from penstock.client.option_types import PublisherOptions, ReceiverOptions

PublisherT = TypeVar("PublisherT", bound="PublisherShell")
ReceiverT = TypeVar("ReceiverT", bound="ReceiverShell")
TransactionT = TypeVar("TransactionT", bound="TransactionShell[Any, Any]")
EventsT = TypeVar("EventsT", bound="EventsShell")

EVENTS_MAX: Final = 1000
"""Most events that wait in a list of them."""
ON_ERROR: Final = Choices(("release", "reject"), folded=False)
"""Rules for a message whose handler raises: it returns to its queue as failed, or is refused for good."""


class EventList:
    """Events that wait to be taken: the latest 1,000, and `dropped` older ones were dropped."""

    def __init__(self, engine: Engine) -> None:
        self.dropped = 0
        self._engine = engine
        self._events: deque[Event] = deque()
        self._wait: Wait | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        if len(self._events) == EVENTS_MAX:
            self._events.popleft()
            self.dropped += 1
        self._events.append(event)
        if self._wait is not None:
            self._engine.finish(self._wait)

    def taking(self, timeout: float | None) -> Steps[Event | None]:
        """Wait for an event, at most `timeout` seconds (None: without a limit); None without one, and at the end."""
        if not self._events and self._engine.phase != ENDED:
            self._wait = Wait()
            try:
                yield from self._engine.until(self._wait, NEVER if timeout is None else timeout)
            finally:
                self._wait = None
        return self._events.popleft() if self._events else None


class Linked(Shell, Generic[PublisherT, ReceiverT]):
    """Maker of publishers and receivers: a connection, or a transaction."""

    _publisher: type[PublisherT]
    _receiver: type[ReceiverT]

    def core(self) -> Any:
        """Return the engine, or the transaction's part of it."""
        raise NotImplementedError

    def connection(self) -> ConnectionShell[Any, Any, Any, Any]:
        """Return the connection."""
        raise NotImplementedError

    def publisher(
        self, queue: str = "", *, exchange: str = "", routing_key: str = "", **options: Unpack[PublisherOptions]
    ) -> PublisherT:
        """Return a publisher to a queue, or to an exchange with a routing key; `options` are those of publishers."""
        terms = self.connection().options.publisher_terms(queue, exchange, routing_key, options)
        return self._publisher(self.connection(), lambda: self.core().publisher(terms))

    def receiver(self, queue: str, **options: Unpack[ReceiverOptions]) -> ReceiverT:
        """Return a receiver of a queue, for a `with` block; `options` are those of receivers.

        In asyncio it may be awaited instead; with blocking calls it has begun, and may be closed instead.
        """
        terms = self.connection().options.receiver_terms(queue, options)
        return self._receiver(self.connection(), queue, lambda: self.core().receiver(terms))


class ConnectionShell(Linked[PublisherT, ReceiverT], Generic[PublisherT, ReceiverT, TransactionT, EventsT]):
    """Connection of either shell."""

    _transaction: type[TransactionT]
    _events: type[EventsT]

    def __init__(self, options: Options) -> None:
        self.options = options
        self._listeners: list[Callable[[Event], object]] = []

    @override
    def core(self) -> Engine:
        """Return the engine."""
        raise NotImplementedError

    @override
    def subject(self) -> Engine:
        return self.core()

    @override
    def connection(self) -> ConnectionShell[Any, Any, Any, Any]:
        return self

    def transaction(self) -> TransactionT:
        """Return a transaction, for a `with` block: its end commits the transaction, or rolls it back after an
        exception.
        """
        return self._transaction(self)

    def events(self) -> EventsT:
        """Return the events from now on, for iteration; the latest 1,000 wait to be taken."""
        events = self._events(self)
        self.on_event(events.list.add)
        return events

    @property
    def late_answers(self) -> int:
        """Return the number of answers that arrived after the deadline of their calls."""
        return self.core().services.late_answers

    @property
    def blocked(self) -> str | None:
        """Return the broker's reason for blocking the connection; None if it is not blocked."""
        return self.core().blocked_reason or None

    @property
    def protocol(self) -> str:
        """Return the protocol in use: amqp10 or amqp091."""
        return self.core().protocol

    @property
    def server_properties(self) -> dict[str, object]:
        """Return the properties announced by the broker."""
        return self.core().server

    @property
    def counters(self) -> ConnectionCounters:
        """Return the connection's counters, with the sums of its publishers and receivers."""
        from penstock.client.counters import of_connection  # Dataclasses take 5 ms to import.

        return of_connection(self.core())

    def on_event(self, callback: Callable[[Event], object]) -> None:
        """Call `callback(event)` at each event from now on: blocked, unblocked, lost, a receiver closed and others.

        An exception of the callback is logged. With blocking calls the callback runs within the next call.
        """
        self._listeners.append(callback)

    def _release(self) -> None:
        """Report events, and release finished waits."""
        engine = self.core()
        while engine.woken or engine.events:
            events, engine.events = engine.events, []
            for event in events:
                calls.tell(event, self._listeners)
            woken, engine.woken = engine.woken, []
            for item in woken:
                if isinstance(item, Receipt) and item.callbacks is not None:
                    calls.call_callbacks(item)
                item.release()

    def __repr__(self) -> str:
        return f"<Connection {self.options!r}>"


def drain_publisher(publisher: PublisherShell, timeout: float | None = None) -> Steps[bool]:
    """Wait until every message has its outcome; return whether all have."""
    return publisher._core.draining(timeout)


def withdraw_publisher(publisher: PublisherShell, timeout: float = 5.0) -> Steps[int]:
    """Take back the messages that the broker holds at a closed gate, and return their number.

    Such a message is in no queue, and its receipt is refused. Only Penstock does that, over AMQP 0-9-1; over AMQP 1.0
    it holds none. Raises `Timeout` if the broker does not answer within `timeout` seconds.
    """
    return publisher._core.withdrawing(timeout)


def close_publisher(publisher: PublisherShell, timeout: float | None = None) -> Steps[list[Receipt]]:
    """Wait for outcomes at most `timeout` seconds, and close; return the receipts without an outcome."""
    return publisher._core.closing(timeout)


class PublisherShell(Shell):
    """Publisher of either shell."""

    drain = Operation(drain_publisher)
    withdraw = Operation(withdraw_publisher)
    close = Operation(close_publisher)

    def __init__(self, connection: Any, make: Callable[[], PublisherCore]) -> None:
        self._connection = connection
        self._core = make()

    @override
    def leaving(self, is_good: bool) -> Steps[None]:
        yield from self._core.closing(None if is_good else 0)

    @property
    def unsettled(self) -> list[Receipt]:
        """Return the receipts of messages under way, the oldest first."""
        return self._core.unsettled

    @property
    def blocked(self) -> Blocked | None:
        """Return the reason why a message cannot be sent now; None if there is room."""
        return None if self._core.is_free(0) else self._core.describe()

    @property
    def counters(self) -> PublisherCounters:
        """Return what it has counted."""
        from penstock.client.counters import of_publisher

        return of_publisher(self._core)

    def __repr__(self) -> str:
        return f"<Publisher to {self._core.target()!r}>"


def get_message(receiver: ReceiverShell) -> Steps[Delivery | None]:
    """Take a message that waits in the queue now; None without one. For a receiver with a window of 0."""
    return receiver._core().getting()


def drain_receiver(receiver: ReceiverShell) -> Steps[bool]:
    """Stop deliveries; messages that have arrived can be received, and then the receiver is at its end.

    Return whether the drain has shown that no message waits in the queue, which AMQP 0-9-1 cannot show.
    """
    return receiver._core().draining()


def count_messages(receiver: ReceiverShell, timeout: float | None = None) -> Steps[int | None]:
    """Return how many messages wait in the queue, and here for `receive`, without messages of other receivers.

    None if the broker does not answer within `timeout` seconds; over AMQP 1.0 the number is an estimate, and 0 is
    returned as None.
    """
    return receiver._core().counting(timeout)


def close_receiver(receiver: ReceiverShell) -> Steps[None]:
    """Acknowledge accepted messages, and close; all other messages return to their queue."""
    return receiver.leaving(True)


def answer(
    receiver: ReceiverShell, message: Delivery, answers: Iterable[bytes | Message], timeout: float | None = None
) -> Steps[int]:
    """Send the answers to a message that requests a list (`Connection.answers`), in order; return their number.

    Each waits for room, at most `timeout` seconds (None: 60). Raises `FlowControlTimeout` then, `MessageRefused` when
    the caller has ended, and `ValueError` for a message that requests no answer. An empty list is sent too.
    """
    from penstock.client.engine.requester import sending_list

    return sending_list(receiver._core(), message.properties, answers, timeout)


class ReceiverShell(Shell):
    """Receiver of either shell."""

    answer = Operation(answer)

    get = Operation(get_message)
    drain = Operation(drain_receiver)
    count = Operation(count_messages)
    close = Operation(close_receiver)

    def __init__(self, connection: Any, queue: str, attach: Callable[[], ReceiverCore]) -> None:
        self._connection = connection
        self._queue = queue
        self._attach = attach
        self._attached: ReceiverCore | None = None

    @override
    def entering(self) -> Steps[None]:
        if self._attached is None:
            core = self._attached = self._attach()
            yield from core.engine.waiting(core.attached)

    @override
    def leaving(self, is_good: bool) -> Steps[None]:
        if self._attached is not None:
            yield from self._attached.closing()

    def resume(self) -> None:
        """Resume deliveries after `drain`."""
        self._core().resume()

    def _core(self) -> ReceiverCore:
        if self._attached is None:
            raise RuntimeError("the receiver is not open: use it in `async with`, or await it")
        return self._attached

    @property
    def counters(self) -> ReceiverCounters:
        """Return what it has counted."""
        from penstock.client.counters import of_receiver

        return of_receiver(self._core())

    def __repr__(self) -> str:
        return f"<Receiver of {self._queue!r}>"


def relay_of(
    receiver: ReceiverShell,
    publisher: PublisherShell,
    keeps_key: bool,
    prepare: Callable[[Delivery, Forwarded], bool] | None = None,
) -> Relay:
    """Return the relay of a bridge; the connections of the two drive its waits."""
    from penstock.client.engine.relay import Relay  # Most programs pass nothing on.

    return Relay(receiver._core(), publisher._core, keeps_key, prepare)


def check_on_error(on_error: str) -> None:
    """Raise `ValueError` for a rule outside of `ON_ERROR`."""
    ON_ERROR.read("on_error", on_error)


def settle_failed(message: Delivery, error: BaseException, on_error: str) -> None:
    """Log a handler's exception, and settle its message, unless the handler has settled it."""
    calls.logger().error("A handler has raised; its message goes by the rule '%s'", on_error, exc_info=error)
    if on_error == "reject":
        message.reject(f"{type(error).__name__}: {error}")
    else:
        message.modify()


def next_event(events: EventsShell, timeout: float | None = None) -> Steps[Event | None]:
    """Return the next event; None if none arrived within `timeout` seconds, or at the end."""
    return events.list.taking(timeout)


class EventsShell(Shell):
    """Events of a connection of either shell."""

    get = Operation(next_event)

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.list = EventList(connection.core())


def commit(transaction: TransactionShell[Any, Any], timeout: float | None = None) -> Steps[None]:
    """Commit the work so far, and continue with the next transaction.

    Raises `CommitRefused` if there was no room until the broker's hold deadline: the transaction is still open. It has
    ended after `TransactionAborted`, and after `TransactionInDoubt` without an answer in `timeout` seconds (None:
    without a limit; Penstock answers at its hold deadline at the latest).
    """
    return transaction.core().committing_on(timeout)


def rollback(transaction: TransactionShell[Any, Any]) -> Steps[None]:
    """Roll back, and end the transaction."""
    return transaction.core().rolling_back()


class TransactionShell(Linked[PublisherT, ReceiverT]):
    """Transaction: messages of its publishers and settlements of its receivers take effect together at the end of the
    block, or not at all.

    An exception rolls it back, also `FlowControlTimeout`, unless the block catches it: then the transaction is still
    open. A lost connection rolls it back: each call raises `TransactionAborted`. No message of a transaction is sent
    again automatically. `send` waits only for room; the commit decides the outcomes of all receipts. The publishers
    have no window: the broker bounds a transaction. Uncommitted messages return to their queue at the end.
    """

    commit = Operation(commit)
    rollback = Operation(rollback)

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._begun: TransactionCore | None = None

    @override
    def connection(self) -> ConnectionShell[Any, Any, Any, Any]:
        connection: ConnectionShell[Any, Any, Any, Any] = self._connection
        return connection

    @override
    def core(self) -> TransactionCore:
        if self._begun is None:
            raise RuntimeError("the transaction has not begun: use it in a `with` block")
        return self._begun

    @override
    def entering(self) -> Steps[None]:
        connection = self.connection()
        self._begun = calls.transaction_of(connection.core(), connection.options)
        yield from self._begun.beginning()

    @override
    def leaving(self, is_good: bool) -> Steps[None]:
        yield from self.core().closing(is_good)
