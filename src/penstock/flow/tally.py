"""Tallies: what a client did, counted by the keys of RabbitMQ's `message_stats`.

Sessions and publishers count where they act, most of it by the batch. A tally takes those numbers together: of a
session, of a connection with the sessions that it had, of a virtual host or a user with the connections that it had.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

TALLY_KEYS: Final = (
    "publish",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
)
"""RabbitMQ's keys, in the order of `Tally.values`."""


class Tally:
    """Counts of messages; they only grow."""

    __slots__ = (
        "publish",
        "confirm",
        "return_unroutable",
        "drop_unroutable",
        "deliver",
        "deliver_no_ack",
        "get",
        "get_no_ack",
        "get_empty",
        "ack",
        "redeliver",
    )

    def __init__(self) -> None:
        self.publish: i64 = 0
        """Publishes that were taken: they are in queues, reached none, or an overflow policy refused them."""
        self.confirm: i64 = 0
        """Publishes that were confirmed."""
        self.return_unroutable: i64 = 0
        self.drop_unroutable: i64 = 0
        """Publishes that reached no queue: mandatory ones, and others."""
        self.deliver: i64 = 0
        """Deliveries to consumers that acknowledge."""
        self.deliver_no_ack: i64 = 0
        """Deliveries to consumers that do not."""
        self.get: i64 = 0
        self.get_no_ack: i64 = 0
        self.get_empty: i64 = 0
        """Answers to basic.get: with a message to be acknowledged, with one that is not, and without one."""
        self.ack: i64 = 0
        """Deliveries that were acknowledged (accepted, in AMQP 1.0)."""
        self.redeliver: i64 = 0
        """Deliveries, among those above, of messages that had been delivered before."""

    def values(self) -> list[int]:
        """Return the counts in the order of `TALLY_KEYS`."""
        return [
            int(self.publish),
            int(self.confirm),
            int(self.return_unroutable),
            int(self.drop_unroutable),
            int(self.deliver),
            int(self.deliver_no_ack),
            int(self.get),
            int(self.get_no_ack),
            int(self.get_empty),
            int(self.ack),
            int(self.redeliver),
        ]

    def add(self, other: Tally) -> None:
        """Add the counts of another one."""
        self.publish += other.publish
        self.confirm += other.confirm
        self.return_unroutable += other.return_unroutable
        self.drop_unroutable += other.drop_unroutable
        self.deliver += other.deliver
        self.deliver_no_ack += other.deliver_no_ack
        self.get += other.get
        self.get_no_ack += other.get_no_ack
        self.get_empty += other.get_empty
        self.ack += other.ack
        self.redeliver += other.redeliver

    def less(self, other: Tally) -> Tally:
        """Return how much more these counts are than those of another one."""
        found = Tally()
        found.publish = self.publish - other.publish
        found.confirm = self.confirm - other.confirm
        found.return_unroutable = self.return_unroutable - other.return_unroutable
        found.drop_unroutable = self.drop_unroutable - other.drop_unroutable
        found.deliver = self.deliver - other.deliver
        found.deliver_no_ack = self.deliver_no_ack - other.deliver_no_ack
        found.get = self.get - other.get
        found.get_no_ack = self.get_no_ack - other.get_no_ack
        found.get_empty = self.get_empty - other.get_empty
        found.ack = self.ack - other.ack
        found.redeliver = self.redeliver - other.redeliver
        return found
