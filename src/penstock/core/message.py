"""A message in a queue, with its envelope.

The charge is fixed when the broker accepts the message, and stored with the message. The same number is subtracted when
the message leaves, whatever protocol delivers it. It is the sum of the encoded properties, the body and `OVERHEAD`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i16, i64, mypyc_attr
from typing_extensions import override

from penstock.core.gates.address_depth import AddressShare
from penstock.flow.timers import NEVER

FAILURES_MAX: Final = 32767
"""Largest number of failed deliveries counted."""
NEVER_DELIVERED: Final = 0
NEVER_FAILED: Final = -1
"""Values of `Message.past` for a message without a failed delivery: never delivered, and delivered before."""

BCC_OVERHEAD: Final = 320
BCC_KEY_OVERHEAD: Final = 64
"""Bytes charged for an envelope of a single message, and for each routing key in it."""


NO_PROTOCOL: Final = -1
"""Protocol of an `EncodedAddress` before the first delivery."""


class EncodedAddress:
    """Cache of an envelope's address as protocols encode it, which repeats in every delivery.

    The entry of the first protocol that delivers is the object itself; entries of other protocols follow in a list.
    """

    __slots__ = ("octet", "encoded", "encoded_redelivered", "next")

    def __init__(self) -> None:
        self.octet: i64 = NO_PROTOCOL
        """First byte of the protocol's contents."""
        self.encoded: bytes = b""
        self.encoded_redelivered: bytes = b""
        """Encodings for a first delivery, and for a redelivered message; filled at first need."""
        self.next: EncodedAddress | None = None

    def entry(self, octet: i64) -> EncodedAddress:
        """Return the entry of the protocol whose contents begin with a byte."""
        address: EncodedAddress = self
        while address.octet != octet:
            if address.octet == NO_PROTOCOL:
                address.octet = octet
                return address
            following = address.next
            if following is None:
                following = EncodedAddress()
                address.next = following
            address = following
        return address


class Envelope:
    """Exchange, routing key and attributes of a publish, shared by all equal messages of a route.

    The attributes are priority, time to live and persistence.
    """

    __slots__ = ("exchange", "routing_key", "priority", "ttl_s", "persistent", "died", "encoded", "deadline")

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        priority: i64 = 0,
        ttl_s: float = NEVER,
        persistent: bool = False,
        died: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.priority: i64 = priority
        """0 (the default) to 255; used by queues with priorities."""
        self.ttl_s = ttl_s
        """Seconds that a message may stay in a queue (its `expiration`); infinity without an own limit."""
        self.persistent = persistent
        """True if durable queues store the message (delivery mode 2); only checked where a store exists."""
        self.died = died
        """True for a dead letter with death headers written by the broker. Other death headers are a publisher's
        data.
        """
        self.encoded = EncodedAddress()
        """Shared by envelopes that look equal to a client."""
        self.deadline: float = NEVER
        """Latest expiry time of the messages, however late they enter a queue (monotonic seconds); infinity for none.
        It is not stored: `ttl_s` is never longer than the time until then.
        """

    def variant(self, priority: i64, ttl_s: float, persistent: bool) -> Envelope:
        """Return the same address with other attributes."""
        envelope = Envelope(self.exchange, self.routing_key, priority, ttl_s, persistent, self.died)
        envelope.encoded = self.encoded
        return envelope

    def from_origin(self, origin: Origin) -> OriginEnvelope:
        """Return the same address for the messages of one connection (see no-local)."""
        envelope = OriginEnvelope(self.exchange, self.routing_key, origin, self.priority, self.ttl_s, self.persistent)
        envelope.encoded = self.encoded
        return envelope

    def charge(self) -> i64:
        """Return the envelope's part of a message's charge: 0, because the envelope is shared."""
        return 0

    def due_time(self) -> float:
        """Return the time from which the message may be delivered (monotonic seconds): always, unless it is delayed."""
        return -NEVER


class BccEnvelope(Envelope):
    """The envelope of one message with BCC routing keys, charged with its message."""

    __slots__ = ("bcc",)

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        blind: list[str],
        priority: i64 = 0,
        ttl_s: float = NEVER,
        persistent: bool = False,
        died: bool = False,
    ) -> None:
        super().__init__(exchange, routing_key, priority, ttl_s, persistent, died)
        self.bcc = blind

    def charge(self) -> i64:
        """See `Envelope.charge`: this envelope belongs to one message. The received properties include the keys
        themselves.
        """
        return BCC_OVERHEAD + len(self.bcc) * BCC_KEY_OVERHEAD


class Origin:
    """The connection that publishes, as no-local compares it."""

    __slots__ = ("number", "container")

    def __init__(self, number: i64, container: str) -> None:
        self.number: i64 = number
        """Number of the connection."""
        self.container: str = container
        """Container-id of the client, which is the client identifier in JMS."""

    def is_excluded(self, own: object) -> bool:
        """Return whether no-local excludes this publisher: a connection by number, or a container by id."""
        return self.container == own if isinstance(own, str) else self.number == own


class OriginEnvelope(Envelope):
    """The envelope of messages of one connection, which no-local may exclude for consumers of the same connection.

    Routes belong to a connection, so the origin costs nothing for a message. The origin is not stored: a message that
    was only on the disk, or stored before a restart, has none.
    """

    __slots__ = ("origin",)

    def __init__(
        self, exchange: str, routing_key: str, origin: Origin, priority: i64, ttl_s: float, persistent: bool
    ) -> None:
        super().__init__(exchange, routing_key, priority, ttl_s, persistent)
        self.origin: Origin = origin

    @override
    def variant(self, priority: i64, ttl_s: float, persistent: bool) -> Envelope:
        return super().variant(priority, ttl_s, persistent).from_origin(self.origin)


NO_TIME_LEFT: Final = 0.0
"""Value of `DelayedEnvelope.ttl_s`: a finite one, so that no publish with such an envelope takes the fast path."""


class HeaderDelay:
    """Delay of a message by its header `x-delay`, at an exchange that delays.

    The header is negated when the message is due, so an exchange that the message reaches again does not delay it
    again (as in RabbitMQ's plug-in).
    """

    __slots__ = ("delay_ms", "negated", "content", "at_once")

    def __init__(self, delay_ms: i64, at_once: list[object] | None = None) -> None:
        self.delay_ms: i64 = delay_ms
        self.negated: bytes | None = None
        """The content with the negated header, for the other queues of a fan-out; None before the first is due."""
        self.content: bytes | None = None
        """The content that `negated` was made of."""
        self.at_once: list[object] | None = at_once
        """Queues that the message reaches without such an exchange; None for none."""


class DelayedEnvelope(Envelope):
    """The envelope of one message that its queues deliver from a time on; the queues of a fan-out share the envelope.

    Its `ttl_s` is not the message's: `plain` has the time to live, which begins when the message is due.
    """

    __slots__ = ("plain", "due", "header")

    def __init__(self, plain: Envelope, due: float, header: HeaderDelay | None = None) -> None:
        super().__init__(plain.exchange, plain.routing_key, plain.priority, NO_TIME_LEFT, plain.persistent, plain.died)
        self.encoded = plain.encoded
        self.plain: Envelope = plain
        """The envelope of the message once it is due."""
        self.due: float = due
        """Time from which the message may be delivered: monotonic seconds."""
        self.header: HeaderDelay | None = header
        """The delay by a header; None if the message was delayed otherwise."""

    @override
    def variant(self, priority: i64, ttl_s: float, persistent: bool) -> Envelope:
        own = self.plain.ttl_s if ttl_s == NO_TIME_LEFT else ttl_s  # The caller has the time to live from this object.
        return DelayedEnvelope(self.plain.variant(priority, own, persistent), self.due, self.header)

    @override
    def charge(self) -> i64:
        return self.plain.charge()

    @override
    def due_time(self) -> float:
        return self.due

    def passes_by(self, queue: object) -> bool:
        """Return whether a queue of the message gets it at once."""
        header = self.header
        return header is not None and header.at_once is not None and queue in header.at_once


@mypyc_attr(acyclic=True)
class Message:
    """One message in one queue; the queues of a fan-out share the content."""

    __slots__ = ("envelope", "content", "charge", "sequence", "arrived", "past", "share")

    def __init__(self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float) -> None:
        self.envelope = address
        self.content = content
        """Properties and body in the publisher's encoding; opaque here."""
        self.charge: i64 = charge
        self.sequence: i64 = sequence
        """The queue's own number of the message: 1, 2, 3 ..., never reused."""
        self.arrived = arrived
        """Time at which the broker accepted the message: seconds of the caller's monotonic clock."""
        self.past: i16 = NEVER_DELIVERED
        """Earlier deliveries: the number of failed ones, or NEVER_DELIVERED, or NEVER_FAILED. Stored without
        conversion.
        """
        self.share: AddressShare | None = None
        """The message's part in the depth of its address; None if it counts in no address."""

    @property
    def redelivered(self) -> bool:
        """Return whether the message has been delivered before (first-acquirer in AMQP 1.0 is the opposite)."""
        return self.past != NEVER_DELIVERED

    @property
    def failures(self) -> int:
        """Return the number of failed deliveries (x-delivery-count; delivery-count in AMQP 1.0)."""
        return int(self.past) if self.past > 0 else 0

    def count_failure(self) -> None:
        """Count a failed delivery: its consumer requeued the message, or has ended."""
        if self.past == NEVER_FAILED:
            self.past = 1
        elif self.past < FAILURES_MAX:
            self.past += 1

    def mark_delivered(self) -> None:
        """Record a delivery that did not fail, such as a released delivery."""
        if self.past == NEVER_DELIVERED:
            self.past = NEVER_FAILED


class StoredRow:
    """Messages that are stored together; the row is deleted when no message is left. A journal group is a row."""

    __slots__ = ("number", "messages", "live", "bytes", "size", "state", "compact_at")

    def __init__(self, number: i64, state: i64) -> None:
        self.number: i64 = number
        """Number of the row and of its settlement record."""
        self.messages: list[StoredMessage | None] = []
        """Messages by index; None for settled messages."""
        self.live: i64 = 0
        """Number of unsettled messages."""
        self.bytes: i64 = 0
        """Charges of the unsettled messages."""
        self.size: i64 = 0
        """Charges of all messages when the row was sealed."""
        self.state: i64 = state
        """The `GroupState`, as a number: each settlement reads it."""
        self.compact_at: i64 = 0
        """Number of the group with which the remaining messages move, if the row is sparse; otherwise 0."""

    def append(self, message: StoredMessage) -> None:
        """Append a message."""
        message.index = len(self.messages)
        self.messages.append(message)
        self.live += 1
        self.bytes += message.charge


@mypyc_attr(acyclic=True)
class StoredMessage(Message):
    """A durable message: stored, or about to be (see journal.py)."""

    __slots__ = ("group", "index")

    def __init__(self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float) -> None:
        self.envelope = address  # As in Message: interpreted, a super() call costs more than these lines.
        self.content = content
        self.charge = charge
        self.sequence = sequence
        self.arrived = arrived
        self.past = NEVER_DELIVERED
        self.share = None
        self.group: StoredRow | None = None
        """The journal group that writes the message.

        The group refers to the message, so this is None again once the message leaves.
        """
        self.index: i64 = 0
        """Index of the message in the group."""

    def __lt__(self, other: StoredMessage) -> bool:
        """Order delayed messages by due time, and by sequence among messages with the same."""
        due, others = self.envelope.due_time(), other.envelope.due_time()
        return self.sequence < other.sequence if due == others else due < others


@mypyc_attr(acyclic=True)
class TrackedMessage(StoredMessage):
    """A message of an address with a bound, or with a time to live."""

    __slots__ = ("expires", "expiry", "is_tombstone")

    def __init__(
        self, address: Envelope, content: bytes, charge: i64, sequence: i64, arrived: float, share: AddressShare | None
    ) -> None:
        super().__init__(address, content, charge, sequence, arrived)
        self.share = share
        expires = arrived + address.ttl_s
        self.expires: float = expires if expires < address.deadline else address.deadline
        """Expiry time: seconds of the same clock, infinity without one."""
        self.expiry: Expiry | None = None
        """The message's entry in the ready queue's heap of expiring messages; None without one."""
        self.is_tombstone: bool = False
        """True if the message has expired and remains as a tombstone until the queue reaches it."""

    def leave_tombstone(self) -> TrackedMessage:
        """Move the content to a new message, which is returned, and leave this one as a tombstone."""
        left = TrackedMessage(self.envelope, self.content, self.charge, self.sequence, self.arrived, self.share)
        left.past = self.past
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
    """An entry in the heap of expiring messages; cleared when the message leaves, to break the reference cycle."""

    __slots__ = ("message",)

    def __init__(self, message: TrackedMessage) -> None:
        self.message: TrackedMessage | None = message

    def __lt__(self, other: Expiry) -> bool:
        """Order by expiry time. A requeued message is listed twice, once as a cleared entry; the order of the two is
        irrelevant.
        """
        return False
