"""Numbers of objects that came since the start: what is there now says how many of them have gone."""

from __future__ import annotations

from mypy_extensions import i64


class Churn:
    """Numbers of one virtual host; they only grow."""

    __slots__ = ("queues_declared", "queues_created", "channels_opened")

    def __init__(self) -> None:
        self.queues_declared: i64 = 0
        """Declarations of queues, those of existing ones included."""
        self.queues_created: i64 = 0
        """Queues that were created, or restored from the store."""
        self.channels_opened: i64 = 0
        """Channels of AMQP 0-9-1 and sessions of AMQP 1.0."""
