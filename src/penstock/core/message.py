"""A message in a queue.

The charge is fixed when the broker takes the message and kept with it; that very number is subtracted when it leaves,
whatever protocol delivers it. It is the sum of the encoded properties, the body and `OVERHEAD`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i16, i64, mypyc_attr

from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.gates.address_depth import AddressShare
    from penstock.core.journal.group import JournalGroup

OVERHEAD: Final = 240
"""Octets charged for each message besides properties and body: what the broker really holds in memory for one
(record, bytes object, frames, place in the queue), measured by bench/memory.py and rounded up."""
REDELIVERIES_MAX: Final = 32767
"""Above it, what came back is not counted any more."""

BCC_OVERHEAD: Final = 320
BCC_KEY_OVERHEAD: Final = 64
"""Octets charged for an address that only one message has, and for each routing key that is kept with it."""


class EncodedAddress:
    """Room for the adapter's encoded forms of an address, which repeat in every delivery; empty until needed."""

    __slots__ = ("encoded", "encoded_redelivered")

    def __init__(self) -> None:
        self.encoded: bytes = b""
        self.encoded_redelivered: bytes = b""


class Envelope:
    """The exchange and routing key that a message was published with; shared by all messages of a route.

    So are the priority and the time to live that it asked for, and whether it is to outlive the broker.
    """

    __slots__ = ("exchange", "routing_key", "priority", "ttl_s", "persistent", "encoded")

    def __init__(
        self, exchange: str, routing_key: str, priority: i64 = 0, ttl_s: float = NEVER, persistent: bool = False
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.priority: i64 = priority
        """0 (the default) to 255; matters to queues with priorities."""
        self.ttl_s = ttl_s
        """Seconds that it may stay in a queue (its `expiration`); infinity is as long as the queue lets it."""
        self.persistent = persistent
        """Whether durable queues keep it in the store (delivery mode 2); only looked for where there is one."""
        self.encoded = EncodedAddress()
        """Shared by those that a client cannot tell apart."""

    def variant(self, priority: i64, ttl_s: float, persistent: bool) -> Envelope:
        """Return the same address for messages with others of these."""
        found = Envelope(self.exchange, self.routing_key, priority, ttl_s, persistent)
        found.encoded = self.encoded
        return found

    def charge(self) -> i64:
        """Return what it adds to the charge of a message: nothing, for it is shared."""
        return 0


class BccEnvelope(Envelope):
    """The address of one message with routing keys that nobody is told of (BCC); it is charged with its message."""

    __slots__ = ("bcc",)

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        blind: list[str],
        priority: i64 = 0,
        ttl_s: float = NEVER,
        persistent: bool = False,
    ) -> None:
        super().__init__(exchange, routing_key, priority, ttl_s, persistent)
        self.bcc = blind

    def charge(self) -> i64:
        """See `Envelope.charge`: it is one message's own. The properties as they came include the keys themselves."""
        return BCC_OVERHEAD + len(self.bcc) * BCC_KEY_OVERHEAD


@mypyc_attr(acyclic=True)
class Message:
    """One message in one queue; the content is shared by the queues that a fan-out put it in."""

    __slots__ = ("envelope", "content", "charge", "sequence", "arrived", "redeliveries")

    def __init__(self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float) -> None:
        self.envelope = address
        self.content = content
        """Properties and body as the publisher's protocol encoded them; opaque here."""
        self.charge: i64 = charge
        self.sequence: i64 = sequence
        """The queue's own number of the message: 1, 2, 3 ..., never reused."""
        self.arrived = arrived
        """When the broker took it: seconds of the caller's monotonic clock."""
        self.redeliveries: i16 = 0
        """How often it came back from a consumer unsettled; no further than RETURNS_MAX."""

    @property
    def redelivered(self) -> bool:
        """Whether it has been with a consumer before."""
        return self.redeliveries > 0


@mypyc_attr(acyclic=True)
class StoredMessage(Message):
    """A message that the store keeps, or is about to (see journal.py)."""

    __slots__ = ("group", "index")

    def __init__(self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float) -> None:
        self.envelope = address  # As in Message: to ask that to do it takes, interpreted, longer than to do it.
        self.content = content
        self.charge = charge
        self.sequence = sequence
        self.arrived = arrived
        self.redeliveries = 0
        self.group: JournalGroup | None = None
        """With what it is written; it holds the message, so this is emptied when the message leaves. None: nowhere."""
        self.index: i64 = 0
        """Where in that."""


@mypyc_attr(acyclic=True)
class TrackedMessage(StoredMessage):
    """A message with something of its own: a part in its address's sum, or a time to live."""

    __slots__ = ("share", "expires", "expiry", "is_tombstone")

    def __init__(
        self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float, share: AddressShare | None
    ) -> None:
        super().__init__(address, content, charge, sequence, arrived)
        self.share = share
        self.expires: float = arrived + address.ttl_s
        """When it is too old: seconds of the same clock, infinity for never."""
        self.expiry: Expiry | None = None
        """Its entry in the backlog's list of what expires; None while it is not in there."""
        self.is_tombstone: bool = False
        """Whether it has expired and only keeps its place until somebody comes by."""

    def leave_tombstone(self) -> TrackedMessage:
        """Return a message that is what this one was, and leave an empty one in its place."""
        left = TrackedMessage(self.envelope, self.content, self.charge, self.sequence, self.arrived, self.share)
        left.redeliveries = self.redeliveries
        if self.group is not None:
            left.group = self.group
            left.index = self.index
            left.group.messages[left.index] = left
            self.group = None
        self.content = b""
        self.share = None
        self.expiry = None
        self.is_tombstone = True
        return left


@mypyc_attr(acyclic=True)
class Expiry:
    """A message in the list of what expires; emptied when it leaves, for it holds its message, which holds it."""

    __slots__ = ("message",)

    def __init__(self, message: TrackedMessage) -> None:
        self.message: TrackedMessage | None = message

    def __lt__(self, other: Expiry) -> bool:
        """A message that went out and came back is listed twice, once emptied: it does not matter which is first."""
        return False
