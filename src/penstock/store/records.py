"""What one transaction of the store changes, and what the store gives back when it is opened.

A *row* holds messages, of one group commit; what is in it is the broker's business (adapter/keeping). A *note* says
what has become of messages in other rows since: settled, come back. A row goes when none of its messages is left, a
note when all the rows that it is about are gone. A *thing* is something declared (a queue, a binding ...), the newest
state under its kind and key. A *position* says how far a queue has come. Rows and notes are numbered from one
sequence, never reused while anything refers to them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN: Final = -1
"""Where nobody has counted."""
COMMITS: Final = "commits"
"""The name of the count of transactions, beside those of the tables."""


class MessageRow(NamedTuple):
    """Messages."""

    number: int
    data: bytes
    queue: int = 0
    """The number of the queue whose page it is; 0: messages of any queues."""
    first: int = 0
    """Of a page: the sequence of its first message."""
    messages: int = 0
    """How many messages it holds; of a page, those that come back when the broker is restarted."""
    size: int = 0
    """The sum of their charges, in bytes."""


class SettlementRecord(NamedTuple):
    """What has become of messages in rows."""

    number: int
    data: bytes


class MetadataRecord(NamedTuple):
    """Something declared, as it is now."""

    kind: str
    key: str
    data: bytes | None
    """None: it is no more."""


class QueuePosition(NamedTuple):
    """How far a queue has come."""

    queue: int
    """The queue's number."""
    tail: int
    """The last sequence that was given to a message."""
    delivered: int
    """The highest sequence that was with a consumer."""
    messages: int = UNKNOWN
    """How many of its messages are in rows and settled by no note; UNKNOWN in a store of form 1."""


class StoreTransaction:
    """One transaction: all of it, or nothing. What is new is written first, then what is gone goes."""

    __slots__ = (
        "settlements",
        "settlements_gone",
        "pages_gone",
        "positions",
        "positions_gone",
        "rows",
        "rows_gone",
        "metadata",
    )

    def __init__(self) -> None:
        self.rows: list[MessageRow] = []
        self.rows_gone: list[int] = []
        """Numbers of rows that are not needed any more."""
        self.pages_gone: list[tuple[int, int, int]] = []
        """The number of a queue, and two sequences: its pages whose first message is one of these, both included."""
        self.settlements: list[SettlementRecord] = []
        self.settlements_gone: list[int] = []
        self.metadata: list[MetadataRecord] = []
        """In the order of their changes; see `latest`."""
        self.positions: list[QueuePosition] = []
        self.positions_gone: list[int] = []
        """Numbers of queues that are no more."""

    def latest(self) -> list[MetadataRecord]:
        """Return the last state of each thing; what is new in the order in which it was first named.

        This is what is written, and not each change: to delete a thing, declare it and another, and to do so once more
        because nobody knows whether it was done, would else put the two in another order.
        """
        return list({(thing.kind, thing.key): thing for thing in self.metadata}.values())

    def size(self) -> int:
        """Return about how many bytes it writes."""
        return (
            sum(len(row.data) for row in self.rows)
            + sum(len(note.data) for note in self.settlements)
            + sum(len(thing.data or b"") for thing in self.metadata)
        )
