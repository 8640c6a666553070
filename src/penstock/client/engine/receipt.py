"""Receipt of a published message: its outcome, awaited, asked for or told to a callback."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from penstock.client.engine.failures import ConnectionLost, MessageRefused, ReplayUncertain

if TYPE_CHECKING:
    from penstock.client.engine.publisher import PublisherCore
    from penstock.client.engine.waits import Wait

PENDING: Final = 0
CONFIRMED: Final = 1
REFUSED: Final = 2
UNKNOWN: Final = 3
STATES: Final = ("on the wire", "confirmed", "refused", "unknown")
"""Names of the states, as in docs/how-to/client.md."""


class Receipt:
    """Outcome of one message. `await` it, or `wait()` for it in the blocking form: either returns the receipt.

    `state` is true at any time: "on the wire", "confirmed", "refused" or "unknown". Waiting raises `MessageRefused` for
    the second last and `ConnectionLost` for the last. To stop waiting changes nothing: the message is under way.
    """

    def __init__(self, publisher: PublisherCore, message: object, sent_at: float) -> None:
        self.publisher = publisher
        self.message: object = message
        """Message that was published; None once it is confirmed."""
        self.outcome: i64 = PENDING
        self.reason: str = ""
        """Reason why it was refused, or why the outcome is unknown; empty otherwise."""
        self.sent_at: float = sent_at
        self.sender: Wait | None = None
        """Wait of the `send` that published it."""
        self.withdrawn: bool = False
        """True if the broker held it and has given it back: it is in no queue."""
        self.uncertain: bool = False
        """True if the outcome is unknown because the broker has lost its mark."""
        self.futures: list[Any] | None = None
        self.callbacks: list[Callable[[Receipt], object]] | None = None

    @property
    def state(self) -> str:
        """Return the state of the message."""
        return STATES[self.outcome]

    @property
    def done(self) -> bool:
        """Return whether the message has its outcome."""
        return self.outcome != PENDING

    def add_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Call `callback(receipt)` when the message has its outcome; at once if it has."""
        if self.outcome != PENDING:
            callback(self)
        elif self.callbacks is None:
            self.callbacks = [callback]
        else:
            self.callbacks.append(callback)

    def check(self) -> Receipt:
        """Return the receipt of a confirmed message; raises `MessageRefused`, `ConnectionLost` for another outcome."""
        if self.outcome == REFUSED:
            raise MessageRefused(self.reason, self)
        if self.outcome == UNKNOWN:
            raise (ReplayUncertain if self.uncertain else ConnectionLost)(None, self.reason, self)
        return self

    def wait(self, timeout: float | None = None) -> Receipt:
        """Wait for the outcome, at most `timeout` seconds (None: without a limit); in the blocking form only.

        Raises as `check`, and `ConfirmTimeout` when the time is over.
        """
        block = self.publisher.wakes.block_for
        if block is None:
            raise TypeError("a receipt of an asyncio connection is awaited: `await receipt`")
        if self.outcome == PENDING:
            block(self, timeout)
        return self.check()

    def __await__(self) -> Generator[Any, None, Receipt]:
        while self.outcome == PENDING:
            make = self.publisher.wakes.new_future
            if make is None:
                raise TypeError("a receipt of a blocking connection is waited for by `receipt.wait()`")
            future = make()
            if self.futures is None:
                self.futures = [future]
            else:
                self.futures.append(future)
            yield from future.__await__()
        return self.check()

    def release(self) -> None:
        """Wake who waits; callbacks are the shell's to call, for they may raise."""
        futures, self.futures = self.futures, None
        if futures is not None:
            for future in futures:
                if not future.done():  # It may have been cancelled.
                    future.set_result(None)

    def __repr__(self) -> str:
        return f"<Receipt {self.state}{': ' + self.reason if self.reason else ''}>"
