"""Parts that both shells have in common: properties, events and counters, without input or output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.client import calls
from penstock.client.engine.blocked import Blocked
from penstock.client.engine.connection import ENDED, Engine
from penstock.client.engine.events import Event
from penstock.client.engine.messages import Delivery
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receipt import Receipt
from penstock.client.engine.waits import Steps, Wait
from penstock.client.options import Options
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.client.counters import ConnectionCounters, PublisherCounters, ReceiverCounters
    from penstock.client.engine.receiver import ReceiverCore

EVENTS_MAX: Final = 1000
"""Most events that wait in a list of them."""
ON_ERROR: Final = ("release", "reject")
"""Rules for a message whose handler raises: it returns to its queue as failed, or is refused for good."""


class EventList:
    """Events that wait to be taken: the latest 1,000, and `dropped` older ones were dropped."""

    def __init__(self, engine: Engine) -> None:
        self.dropped = 0
        self._engine = engine
        self._events: deque[Event] = deque()
        self._wait: Wait | None = None

    def add(self, event: Event) -> None:
        """Take an event in."""
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


class ConnectionShell:
    """Connection of either shell."""

    options: Options

    def __init__(self, options: Options) -> None:
        self.options = options
        self._listeners: list[Callable[[Event], object]] = []

    def core(self) -> Engine:
        """Return the engine."""
        raise NotImplementedError

    @property
    def blocked(self) -> str | None:
        """Return the broker's reason for blocking the connection; None if it does not."""
        return self.core().blocked_reason or None

    @property
    def protocol(self) -> str:
        """Return the protocol that is spoken: amqp10 or amqp091."""
        return self.core().protocol

    @property
    def server_properties(self) -> dict[str, object]:
        """Return what the broker says of itself."""
        return self.core().server

    @property
    def counters(self) -> ConnectionCounters:
        """Return what it has counted, with the sums of its publishers and receivers."""
        from penstock.client.counters import of_connection  # Dataclasses take 5 ms to import.

        return of_connection(self.core())

    def on_event(self, callback: Callable[[Event], object]) -> None:
        """Call `callback(event)` at each event from now on: blocked, unblocked, lost, a receiver closed and others.

        One that raises is logged and harms nobody. With blocking calls it is called within the next call.
        """
        self._listeners.append(callback)

    def _release(self) -> None:
        """Tell events, and wake what is done."""
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


class PublisherShell:
    """Publisher of either shell."""

    def __init__(self, core: PublisherCore) -> None:
        self._core = core

    @property
    def unsettled(self) -> list[Receipt]:
        """Return the receipts of messages under way, the oldest first."""
        return self._core.unsettled

    @property
    def blocked(self) -> Blocked | None:
        """Return what keeps a message from being sent now; None if there is room."""
        return None if self._core.is_free(0) else self._core.describe()

    @property
    def counters(self) -> PublisherCounters:
        """Return what it has counted."""
        from penstock.client.counters import of_publisher

        return of_publisher(self._core)

    def __repr__(self) -> str:
        return f"<Publisher to {self._core.target()!r}>"


class ReceiverShell:
    """Receiver of either shell."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._attached: ReceiverCore | None = None

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


def check_on_error(on_error: str) -> None:
    """Raise `ValueError` for a rule that is none of `ON_ERROR`."""
    if on_error not in ON_ERROR:
        raise ValueError(f"on_error={on_error!r} is not valid: it must be one of {', '.join(ON_ERROR)}")


def settle_failed(message: Delivery, error: Exception, on_error: str) -> None:
    """Log what a handler has raised, and settle its message, unless the handler has."""
    calls.logger().error("A handler has raised; its message goes by the rule '%s'", on_error, exc_info=error)
    if on_error == "reject":
        message.reject(f"{type(error).__name__}: {error}")
    else:
        message.modify()
