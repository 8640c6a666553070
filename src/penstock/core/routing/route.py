"""A cached route: the queues of an exchange and routing key, valid until the topology changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.message import Envelope, Message
from penstock.core.routing.exchange_counters import NO_COUNTERS, ExchangeCounters
from penstock.flow.timers import NEVER

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.exchange import Exchange
    from penstock.flow.gate import Gate

NOWHERE: Final[deque[Message]] = deque(maxlen=0)
"""The waiting line of a route without a single queue."""
NO_EXCHANGES: Final[list[Exchange]] = []
NO_GATES: Final[list[Gate]] = []
NO_PRIORITIES: Final[dict[int, Route]] = {}
NO_VARIANTS: Final[dict[tuple[int, float], Route]] = {}
"""Those of most routes, shared by them; nothing is ever added."""
VARIANTS_MAX: Final = 1024
"""Variants of one route by time to live that are cached; at the limit all are dropped and created again."""


class RouteTarget:
    """The outcome of one lookup: where a publish goes, for a route and all its variants. It never changes."""

    __slots__ = ("queues", "exchanges", "gates", "counters", "control", "by_headers", "selects", "versions")

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.exchanges: list[Exchange] = NO_EXCHANGES
        """The exchanges that took part in the lookup; none for the default exchange."""
        self.gates: list[Gate] = NO_GATES
        """Gates of the address; empty for most."""
        self.counters: ExchangeCounters = NO_COUNTERS
        """Those of the exchange of the address."""
        self.control: bool = False
        """True if it is the broker itself (control operations)."""
        self.by_headers: bool = False
        """True if the queues depend on each message's headers, so that nothing may be cached."""
        self.selects: bool = False
        """True if they depend on selectors of bindings, which see more than headers; `by_headers` is true then."""
        self.versions: i64 = 0
        """Sum of the exchanges' versions; versions only grow, so an equal sum means that none has changed."""

    def is_current(self) -> bool:
        """Return whether a lookup would find the same, as far as the exchanges tell."""
        return bool(self.exchanges) and _versions(self.exchanges) == self.versions


def through_exchanges(queues: list[Queue], exchanges: list[Exchange], by_headers: bool) -> RouteTarget:
    """Return the target that a lookup has found through these exchanges, at least one."""
    target = RouteTarget(queues)
    target.exchanges = exchanges
    target.versions = _versions(exchanges)
    target.counters = exchanges[0].counters
    target.by_headers = by_headers
    return target


UNRESOLVED: Final = RouteTarget([])
"""The target of a route before its first lookup."""


class Route:
    """A publish address with the target of its last lookup, and what the fast path of a publish needs of it.

    `set_target` computes five attributes, which stay as they are until the next lookup:

    - `single_queue` and `stored_queue`: the one queue of the fast path. At most one of them is set.
    - `append`: the method of a deque of that queue, which takes its messages. It depends on the priority. To look
      the method up for each message would cost as much as the call.
    - `counters`: those of its exchange.
    - `checks_delivery_mode`: the frame reader does not know the journal.
    """

    __slots__ = (
        "envelope",
        "mandatory",
        "copies",
        "target",
        "single_queue",
        "stored_queue",
        "append",
        "counters",
        "checks_delivery_mode",
        "epoch",
        "_era",
        "_persistent",
        "_by_priority",
        "_variants",
    )

    def __init__(self, address: Envelope, mandatory: bool, copies: list[str] | None = None) -> None:
        self.envelope = address
        self.mandatory = mandatory
        """True if an unroutable message is returned to its publisher (basic.return)."""
        self.copies = copies
        """Additional routing keys (CC and BCC) of one message; None for most."""
        self.target: RouteTarget = UNRESOLVED
        self.single_queue: Queue | None = None
        """The queue, if it is the only one for all headers and the address has no gates, and stores nothing."""
        self.stored_queue: Queue | None = None
        """As `single_queue`, if that queue stores its messages."""
        self.append: Callable[[Message], None] = NOWHERE.append
        """Append a message to the only queue."""
        self.counters: ExchangeCounters = NO_COUNTERS
        """Counters of its exchange."""
        self.checks_delivery_mode: bool = False
        """True if a store exists, so that the delivery mode of a message matters."""
        self.epoch: i64 = -1
        """Topology epoch of the last check: the number of changes in the virtual host until then."""
        self._era: i64 = -1
        """Number of created and deleted exchanges at the last lookup."""
        self._persistent: Route | None = None
        """The same route for persistent messages."""
        self._by_priority: dict[int, Route] = NO_PRIORITIES
        """The same route for messages with a priority (0 to 255)."""
        self._variants: dict[tuple[int, float], Route] = NO_VARIANTS
        """The same route for messages with a priority and a time to live (seconds)."""

    @property
    def queues(self) -> list[Queue]:
        """The queues that a publish reaches."""
        return self.target.queues

    @property
    def gates(self) -> list[Gate]:
        """Gates of the address; empty for most."""
        return self.target.gates

    @property
    def control(self) -> bool:
        """True if it leads to the broker itself (control operations)."""
        return self.target.control

    @property
    def selects(self) -> bool:
        """True if the queues depend on selectors: `resolve` needs the message then."""
        return self.target.selects

    @property
    def by_headers(self) -> bool:
        """True if the queues depend on each message's headers, so that nothing may be cached."""
        return self.target.by_headers

    def set_target(self, target: RouteTarget, checks_delivery_mode: bool, epoch: i64, era: i64) -> None:
        """Set the outcome of a lookup; `era` counts created and deleted exchanges."""
        self.target = target
        self.counters = target.counters
        self.checks_delivery_mode = checks_delivery_mode
        self.epoch = epoch
        self._era = era
        self._by_priority = NO_PRIORITIES
        self._variants = NO_VARIANTS
        self._persistent = None
        self.single_queue = None
        self.stored_queue = None
        self.append = NOWHERE.append
        address = self.envelope
        if len(target.queues) == 1 and not target.by_headers and not target.gates and address.ttl_s == NEVER:
            queue = target.queues[0]
            if address.persistent and queue.storage is not None:
                self.stored_queue = queue
            else:
                self.single_queue = queue
            self.append = queue.ready_queue.ready_for(address.priority).append

    def single_queue_for(self) -> Queue | None:
        """Return the only queue of a message, whether it is stored or not; None if there are several or none."""
        queue = self.stored_queue
        if queue is not None and queue.storage is not None and not queue.storage.vhost_usage.all_open:
            return None
        return self.single_queue if queue is None else queue

    def is_current(self, epoch: i64, era: i64) -> bool:
        """Return whether it is resolved and still valid: no later change concerned it."""
        if self._era != era or not self.target.is_current():
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
        found = self._by_priority.get(int(priority))
        if found is None:
            found = self._made_for(priority, self.envelope.ttl_s, self.envelope.persistent)
            if self._by_priority is NO_PRIORITIES:
                self._by_priority = {}
            self._by_priority[int(priority)] = found
        return found

    def variant(self, priority: i64, ttl_s: float) -> Route:
        """Return the same route for messages with this priority and time to live; infinity is no time to live."""
        if ttl_s == self.envelope.ttl_s:
            return self.with_priority(priority)
        key = (int(priority), ttl_s)
        found = self._variants.get(key)
        if found is None:
            if self._variants is NO_VARIANTS or len(self._variants) >= VARIANTS_MAX:
                self._variants = {}
            found = self._made_for(priority, ttl_s, self.envelope.persistent)
            self._variants[key] = found
        return found

    def _made_for(self, priority: i64, ttl_s: float, persistent: bool) -> Route:
        found = Route(self.envelope.variant(priority, ttl_s, persistent), self.mandatory)
        found.set_target(self.target, self.checks_delivery_mode, self.epoch, self._era)
        return found


def _versions(exchanges: list[Exchange]) -> i64:
    total: i64 = 0
    for exchange in exchanges:
        total += exchange.version
    return total
