"""A message in a queue.

The charge is fixed when the broker takes the message and kept with it; that very number is subtracted when it leaves,
whatever protocol delivers it. It is the sum of the encoded properties, the body and `OVERHEAD`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

if TYPE_CHECKING:
    from penstock.core.share import Share

OVERHEAD: Final = 240
"""Octets charged for each message besides properties and body: what the broker really holds in memory for one
(record, bytes object, frames, place in the queue), measured by bench/memory.py and rounded up."""

BLIND_OVERHEAD: Final = 320
BLIND_KEY_OVERHEAD: Final = 64
"""Octets charged for an address that only one message has, and for each routing key that is kept with it."""


class Address:
    """The exchange and routing key that a message was published with; shared by all messages of a route."""

    __slots__ = ("exchange", "routing_key", "encoded", "encoded_redelivered")

    def __init__(self, exchange: str, routing_key: str) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.encoded: bytes = b""
        """Room for the adapter's encoded form (it repeats in every delivery); empty until it is needed."""
        self.encoded_redelivered: bytes = b""

    def charge(self) -> i64:
        """Return what it adds to the charge of a message: nothing, for it is shared."""
        return 0


class BlindAddress(Address):
    """The address of one message with routing keys that nobody is told of (BCC); it is charged with its message."""

    __slots__ = ("blind",)

    def __init__(self, exchange: str, routing_key: str, blind: list[str]) -> None:
        super().__init__(exchange, routing_key)
        self.blind = blind

    def charge(self) -> i64:
        """See `Address.charge`: it is one message's own. The properties as they came include the keys themselves."""
        return BLIND_OVERHEAD + len(self.blind) * BLIND_KEY_OVERHEAD


@mypyc_attr(acyclic=True)
class Message:
    """One message in one queue; the content is shared by the queues that a fan-out put it in."""

    __slots__ = ("address", "content", "charge", "sequence", "arrived", "redelivered")

    def __init__(self, address: Address, content: bytes, charge: i64, sequence: i64, arrived: float) -> None:
        self.address = address
        self.content = content
        """Properties and body as the publisher's protocol encoded them; opaque here."""
        self.charge: i64 = charge
        self.sequence: i64 = sequence
        """The queue's own number of the message: 1, 2, 3 ..., never reused."""
        self.arrived = arrived
        """When the broker took it: seconds of the caller's monotonic clock."""
        self.redelivered: bool = False


class SharedMessage(Message):
    """A message that counts with its address as well as with its queue."""

    __slots__ = ("share",)

    def __init__(
        self, address: Address, content: bytes, charge: i64, sequence: i64, arrived: float, share: Share
    ) -> None:
        super().__init__(address, content, charge, sequence, arrived)
        self.share = share
