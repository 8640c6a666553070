"""Memory that lists of queues do not show: reply queues, messages that arrive in pieces, and published blocks.

`penstock why` names the largest holders of each kind.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.core.consume.rotation import consumers_of
from penstock.core.queue.queue import Queue
from penstock.flow.level import amount
from penstock.flow.work import Steps
from penstock.management.node import Node

HOLDERS_SHOWN: Final = 10
"""Most holders of a kind in an answer."""
HOLDERS_SAID: Final = 3
"""Most holders of a kind in a sentence."""
SAID_FROM: Final = 1024 * 1024
"""Bytes of a kind from which on a sentence names it."""
LOOKED_AT_A_UNIT: Final = 10
"""Queues and connections that are examined per unit of work."""
REPLIES: Final = "reply queues"
PIECES: Final = "messages that arrive in pieces"
BLOCKS: Final = "published blocks"


class Holder(NamedTuple):
    """Connection, channel or link that holds memory, with its bytes."""

    name: str
    bytes: int


class Held:
    """Memory of one kind, with its largest holders first."""

    def __init__(self, kind: str, holders: list[Holder]) -> None:
        self.kind = kind
        self.bytes = sum(holder.bytes for holder in holders)
        self.count = len(holders)
        self.holders = sorted(holders, key=lambda holder: -holder.bytes)[:HOLDERS_SHOWN]

    def as_dict(self) -> dict[str, object]:
        """Return the kind as plain data."""
        return {
            "kind": self.kind,
            "bytes": self.bytes,
            "count": self.count,
            "holders": [holder._asdict() for holder in self.holders],
        }

    def sentence(self) -> str:
        """Describe the kind with its largest holders."""
        return held_sentence(self.as_dict())


def held_sentence(held: dict[str, object]) -> str:
    """Describe memory of one kind with its largest holders."""
    holders, count, size = held["holders"], held["count"], held["bytes"]
    assert isinstance(holders, list) and isinstance(count, int) and isinstance(size, int)
    named = ", ".join(f"{each['name']} with {amount(each['bytes'])} bytes" for each in holders[:HOLDERS_SAID])
    return f"{held['kind']} hold {amount(size)} bytes; the largest of {count:,}: {named}"


def held_steps(node: Node) -> Steps[list[Held]]:
    """Return the kinds with any memory, with their holders."""
    replies: list[Holder] = []
    work, looked = node.broker.work, 0
    for vhost in list(node.broker.vhosts.values()):
        for queue in list(vhost.replies.values()):
            if queue.depth_bytes() > 0:
                replies.append(Holder(_consumer_of(queue), int(queue.depth_bytes())))
            looked += 1
            if looked % LOOKED_AT_A_UNIT == 0 and work.spend(1):
                yield
    pieces: list[Holder] = []
    for connection in list(node.connections.values()):
        if connection.arriving > 0:
            pieces.append(Holder(connection.name(), int(connection.arriving)))
        looked += 1
        if looked % LOOKED_AT_A_UNIT == 0 and work.spend(1):
            yield
    blocks = [Holder(connection.name(), octets) for connection, octets in node.control.ranges.published_blocks()]
    kinds = ((REPLIES, replies), (PIECES, pieces), (BLOCKS, blocks))
    return [Held(kind, holders) for kind, holders in kinds if holders]


def _consumer_of(queue: Queue) -> str:
    """Return the name of the channel or link that consumes from a reply queue."""
    consumers = list(consumers_of(queue, 1))
    return consumers[0].session.name if consumers else queue.name
