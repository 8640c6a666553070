"""Candidate: the settings of one simulation, those of the queue and those of its clients."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


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
    """Messages of a producer without a confirm: its confirm window, or its credit."""
    prefetch: int | None = 100
    """Messages of a consumer without an acknowledgement."""
    max_length: int | None = None
    """Most ready messages."""
    max_length_bytes: int | None = None
    """Most bytes of their bodies."""
    overflow: str | None = None
    """Overflow policy; None holds publishers at the capacity, and drops the oldest messages above a length."""

    def queue_settings(self) -> dict[str, object]:
        """Return the settings of the queue by their names, without those that are defaults."""
        found: dict[str, object] = {
            "capacity-bytes": self.capacity_bytes,
            "capacity-messages": self.capacity_messages,
            "stop-percent": self.stop_percent,
            "resume-percent": self.resume_percent,
            "hold-deadline": self.hold_deadline_s,
            "max-length": self.max_length,
            "max-length-bytes": self.max_length_bytes,
            "overflow": self.overflow,
        }
        return {name: value for name, value in found.items() if value is not None}

    def command(self, queue: str) -> str:
        """Return the command that gives a queue these settings."""
        words = [f"{name}={_plain(value)}" for name, value in self.queue_settings().items()]
        return f"penstock queues set {queue} {' '.join(words)}" if words else f"(the defaults of queue {queue})"

    def clients(self) -> str:
        """Return what the clients have to set, as a clause."""
        prefetch = "no prefetch" if self.prefetch is None else f"a prefetch of {self.prefetch}"
        return f"publishers with a window of {self.window} unconfirmed messages, consumers with {prefetch}"

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)

    def with_changes(self, **changes: Any) -> Candidate:
        """Return a candidate with some settings changed."""
        return replace(self, **changes)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
