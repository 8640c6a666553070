"""A cached route: the queues of an exchange and routing key, valid until the topology changes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import Envelope, Message
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.exchange import Exchange
    from penstock.flow.gate import Gate

NOWHERE: Final[deque[Message]] = deque(maxlen=0)
"""The waiting line of a route without a single queue."""
VARIANTS_MAX: Final = 1024
"""Variants of one route by time to live that are cached; at the limit all are dropped and created again."""


class Route:
    """The queues that a publish reaches, and the topology epoch of the lookup."""

    __slots__ = (
        "envelope",
        "mandatory",
        "copies",
        "queues",
        "single_queue",
        "epoch",
        "by_headers",
        "control",
        "gates",
        "lane",
        "by_priority",
        "variants",
        "is_durable",
        "checks_delivery_mode",
        "_persistent",
        "_through",
        "_versions",
        "_era",
    )

    def __init__(self, address: Envelope, mandatory: bool, copies: list[str] | None = None) -> None:
        self.envelope = address
        self.mandatory = mandatory
        """True if an unroutable message is returned to its publisher (basic.return)."""
        self.copies = copies
        """Additional routing keys (CC and BCC) of one message; None for most."""
        self.queues: list[Queue] = []
        self.single_queue: Queue | None = None
        """The queue, if it is the only one for all headers and the address has no gates: the hot path."""
        self.epoch: i64 = -1
        """Topology epoch of the last check."""
        self.by_headers: bool = False
        """True if the queues depend on each message's headers, so that nothing may be cached."""
        self.control: bool = False
        """True if it leads to the broker itself (control operations)."""
        self.gates: list[Gate] = []
        """Gates of the address; empty for most."""
        self.lane: deque[Message] = NOWHERE
        """The deque of `single_queue` to which its messages are appended."""
        self.by_priority: dict[int, Route] = {}
        """The same route for messages with a priority (0 to 255)."""
        self.variants: dict[tuple[int, float], Route] = {}
        """The same route for messages with a priority and a time to live (seconds)."""
        self.is_durable: Queue | None = None
        """As `single_queue`, if that queue stores its messages."""
        self.checks_delivery_mode: bool = False
        """True if a store exists, so that the delivery mode of a message matters."""
        self._persistent: Route | None = None
        """The same route for persistent messages."""
        self._through: list[Exchange] = []
        """The exchanges that took part in the lookup."""
        self._versions: i64 = 0
        """Sum of their versions; versions only grow, so an equal sum means that none has changed."""
        self._era: i64 = -1

    def set_queues(self, queues: list[Queue], through: list[Exchange], epoch: i64, era: i64) -> None:
        """Set the queues found through these exchanges; `era` counts created and deleted exchanges."""
        self.queues = queues
        self.epoch = epoch
        self._through = through
        self._versions = _versions(through)
        self._era = era
        self.by_priority.clear()
        self.variants.clear()
        self._persistent = None
        self.single_queue = None
        self.is_durable = None
        self.lane = NOWHERE
        address = self.envelope
        if len(queues) == 1 and not self.by_headers and not self.gates and address.ttl_s == NEVER:
            if address.persistent and queues[0].storage is not None:
                self.is_durable = queues[0]
            else:
                self.single_queue = queues[0]
            self.lane = queues[0].ready_queue.ready_for(address.priority)

    def single_queue_for(self) -> Queue | None:
        """Return the only queue of a message, whether it is stored or not; None if there are several or none."""
        queue = self.is_durable
        if queue is not None and queue.storage is not None and not queue.storage.vhost_usage.all_open:
            return None
        return self.single_queue if queue is None else queue

    def is_current(self, epoch: i64, era: i64) -> bool:
        """Return whether it is resolved and still valid: no later change concerned it."""
        if self._era != era or not self._through or _versions(self._through) != self._versions:
            return False
        self.epoch = epoch
        return True

    def persistent(self) -> Route:
        """Return the same route for persistent messages."""
        found = self._persistent
        if found is None:
            address = self.envelope
            found = self if address.persistent else self._made_for(address.priority, address.ttl_s, True)
            self._persistent = found
        return found

    def with_priority(self, priority: i64) -> Route:
        """Return the same route for messages with this priority; 0 is as if they had none."""
        if priority == self.envelope.priority:
            return self
        found = self.by_priority.get(int(priority))
        if found is None:
            found = self._made_for(priority, self.envelope.ttl_s, self.envelope.persistent)
            self.by_priority[int(priority)] = found
        return found

    def variant(self, priority: i64, ttl_s: float) -> Route:
        """Return the same route for messages with this priority and time to live; infinity is no time to live."""
        if ttl_s == self.envelope.ttl_s:
            return self.with_priority(priority)
        key = (int(priority), ttl_s)
        found = self.variants.get(key)
        if found is None:
            if len(self.variants) >= VARIANTS_MAX:
                self.variants.clear()
            found = self._made_for(priority, ttl_s, self.envelope.persistent)
            self.variants[key] = found
        return found

    def _made_for(self, priority: i64, ttl_s: float, persistent: bool) -> Route:
        found = Route(self.envelope.variant(priority, ttl_s, persistent), self.mandatory)
        found.checks_delivery_mode = self.checks_delivery_mode
        found.by_headers = self.by_headers
        found.control = self.control
        found.gates = self.gates
        found.set_queues(self.queues, [], self.epoch, self._era)
        return found


def _versions(exchanges: list[Exchange]) -> i64:
    total: i64 = 0
    for exchange in exchanges:
        total += exchange.version
    return total
