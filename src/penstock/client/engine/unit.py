"""Unit of work: what the publishers and receivers of a transaction know of it."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.client.engine.connection import OPEN, Engine
from penstock.client.engine.outcomes import REFUSED, UNKNOWN, TransactionAborted, TransactionInDoubt
from penstock.client.errors import ClientError


class Unit:
    """Messages and settlements of a transaction, which ends with its transport at the latest."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.epoch: i64 = engine.epoch
        self.is_committing: bool = False
        self.error: ClientError | None = None
        """Reason for its end; None before it."""

    def is_over(self) -> bool:
        """Return whether it has ended, perhaps with its connection."""
        if self.error is None and not self.is_connected():
            self.lost()
        return self.error is not None

    def is_connected(self) -> bool:
        """Return whether the transport on which it began is there."""
        return self.epoch == self.engine.epoch and self.engine.phase == OPEN

    def check(self) -> None:
        """Raise the reason for its end."""
        if self.is_over() and self.error is not None:
            raise self.error

    def outcome(self) -> i64:
        """Return what has become of its messages, once it is over."""
        return UNKNOWN if isinstance(self.error, TransactionInDoubt) else REFUSED

    def commit(self, is_committing: bool) -> None:
        """Note that a commit begins, or that it has its answer."""
        self.is_committing = is_committing

    def end(self, error: ClientError) -> ClientError:
        """End it; return the reason, which is an earlier one if it had ended."""
        if self.error is None:
            self.error = error
        return self.error

    def lost(self) -> ClientError:
        """End it with the connection: it is rolled back, or in doubt during its commit. Returns the reason."""
        text = f"the connection was lost: {self.engine.lost_reason or 'it is closed'}"
        return self.end(TransactionInDoubt(text) if self.is_committing else TransactionAborted(text))
