"""Candidate: the settings of one simulation, for the queue and for its clients."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

THRESHOLDS = ("stop-percent", "resume-percent")


@dataclass(frozen=True)
class Candidate:
    """Settings of a queue and its clients; None is the broker's default, and no limit for `prefetch`."""

    capacity_bytes: int | None = None
    capacity_messages: int | None = None
    stop_percent: float | None = None
    """Stop threshold in percent of the capacity."""
    resume_percent: float | None = None
    """Resume threshold in percent of the capacity."""
    hold_deadline_s: float | None = None
    """Seconds that a publish may be held; 0 for no deadline."""
    window: int = 1000
    """Unconfirmed messages of a producer: its confirm window, or its credit."""
    prefetch: int | None = 100
    """Unacknowledged messages of a consumer."""
    max_length: int | None = None
    """Most ready messages."""
    max_length_bytes: int | None = None
    """Most bytes of ready bodies."""
    overflow: str | None = None
    """Overflow policy; None blocks publishers at the capacity, and drops the oldest messages above a length."""
    holds_at_capacity: bool = False
    """True if `overflow` acts only at the length, and the capacity, from another source, blocks publishers."""

    def queue_settings(self) -> dict[str, object]:
        """Return the settings of the queue by name, without defaults."""
        return {**self._of_capacity(), **self._of_length()}

    def declared(self) -> dict[str, object]:
        """Return the settings that come from the same source as `overflow`, which acts at their limits."""
        apart = self.set_apart()
        return {name: value for name, value in self.queue_settings().items() if name not in apart}

    def set_apart(self) -> dict[str, object]:
        """Return the settings of another source: limits that `overflow` does not concern, and thresholds.

        A declaration with thresholds and a policy that drops messages is refused.
        """
        found = self._of_capacity()
        if self.holds_at_capacity:
            return found
        return {name: value for name, value in found.items() if self.overflow is not None and name in THRESHOLDS}

    def has_length(self) -> bool:
        """Return whether ready messages are limited."""
        return self.max_length is not None or self.max_length_bytes is not None

    def _of_capacity(self) -> dict[str, object]:
        return _present(
            {
                "capacity-bytes": self.capacity_bytes,
                "capacity-messages": self.capacity_messages,
                "stop-percent": self.stop_percent,
                "resume-percent": self.resume_percent,
                "hold-deadline": self.hold_deadline_s,
            }
        )

    def _of_length(self) -> dict[str, object]:
        return _present(
            {"max-length": self.max_length, "max-length-bytes": self.max_length_bytes, "overflow": self.overflow}
        )

    def command(self, queue: str) -> str:
        """Return the command that sets a queue so; a length with its own source is set by a policy."""
        words = _words(self.set_apart() if self.holds_at_capacity else self.queue_settings())
        command = f"penstock queues set {queue} {words}" if words else f"(the defaults of queue {queue})"
        return f"{command}, and in a policy {_words(self.declared())}" if self.holds_at_capacity else command

    def clients(self) -> str:
        """Return the settings of the clients, as a clause."""
        prefetch = "no prefetch" if self.prefetch is None else f"a prefetch of {self.prefetch}"
        return f"publishers with a window of {self.window} unconfirmed messages, consumers with {prefetch}"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)

    def with_changes(self, **changes: Any) -> Candidate:
        """Return a candidate with some settings changed."""
        return replace(self, **changes)


def _present(values: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _words(values: dict[str, object]) -> str:
    return " ".join(f"{name}={_plain(value)}" for name, value in values.items())


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
