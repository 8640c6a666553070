"""Routes: the lookup from an exchange to queues, and cached routes by routing key and by attributes of a message."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.content.properties import BCC, CC, Properties, check_name
from penstock.content.selector.fields import PatternsTooCostly, SelectableMessage
from penstock.content.selector.selector import Selector
from penstock.core.message import BccEnvelope, DelayedEnvelope, Envelope, Message, Origin, OriginEnvelope
from penstock.core.message_format import keys_in
from penstock.core.queue.queue import Queue
from penstock.core.queue.urgency import URGENT_FROM
from penstock.core.routing.exchange import NO_COUNTERS, Binding, Exchange, ExchangeCounters
from penstock.core.routing.header_match import type_name
from penstock.core.routing.spread import text_of
from penstock.errors import PreconditionFailed, ResourceError
from penstock.flow.gate import NO_GATES, Gate
from penstock.flow.timers import NEVER
from penstock.settings.table import MILLISECONDS_MAX

NOWHERE: Final[deque[Message]] = deque(maxlen=0)
"""The ready queue of a route without a single queue."""
NO_EXCHANGES: Final[list[Exchange]] = []
NO_PRIORITIES: Final[dict[int, Route]] = {}
NO_VARIANTS: Final[dict[tuple[int, float], Route]] = {}
"""Shared empty table of most routes; never changed."""
VARIANTS_MAX: Final = 1024
"""Variants of one route by time to live that are cached; at the limit all are dropped, and created again when
needed.
"""


class AddressGates:
    """The gates of an address whose depth may be dropped while it is empty."""

    def present(self) -> list[Gate]:
        """Return the present gates."""
        raise NotImplementedError


class RouteTarget:
    """The outcome of one lookup: the destination of publishes, for a route and all its variants. It never changes."""

    __slots__ = (
        "queues",
        "exchanges",
        "gates",
        "topic",
        "counters",
        "control",
        "by_headers",
        "reads_headers",
        "selects",
        "versions",
    )

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = queues
        self.exchanges: list[Exchange] = NO_EXCHANGES
        """The exchanges that took part in the lookup; none for the default exchange."""
        self.gates: list[Gate] = NO_GATES
        """Gates of the address's exchange; usually empty."""
        self.topic: AddressGates | None = None
        """Gates of an address whose routing keys have bounds, in place of `gates`; None without such bounds."""
        self.counters: ExchangeCounters = NO_COUNTERS
        """Counters of the address's exchange."""
        self.control: bool = False
        """True if the destination is the broker itself (control operations)."""
        self.by_headers: bool = False
        """True if the queues depend on each message's headers, so that nothing may be cached."""
        self.reads_headers: bool = False
        """True if the lookup has read headers. Where chance decides, the next lookup may differ, and is repeated."""
        self.selects: bool = False
        """True if the queues depend on selectors of bindings, which read more than headers; `by_headers` is true
        then.
        """
        self.versions: i64 = 0
        """Sum of the exchanges' versions; versions only grow, so an equal sum means no change."""

    def set_gates(self, gates: list[Gate], topic: AddressGates | None) -> None:
        """Set the gates of the exchange, and the gates of the routing key if keys have bounds."""
        self.gates = gates
        self.topic = topic

    def is_current(self) -> bool:
        """Return whether the result of the last lookup is still valid by the versions of its exchanges."""
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
    """A publish address with the target of its last lookup, and attributes for the fast path of a publish.

    `set_target` computes five attributes, which do not change until the next lookup:

    - `single_queue` and `stored_queue`: the one queue of the fast path. At most one of them is set.
    - `append`: the method of a deque of that queue, which takes its messages. It depends on the priority. A lookup
      of the method for each message would cost as much as the call.
    - `counters`: the counters of the exchange.
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
        """Additional routing keys (CC and BCC) of one message; usually None."""
        self.target: RouteTarget = UNRESOLVED
        self.single_queue: Queue | None = None
        """The only queue for all headers, if the address has no gates and the queue stores no messages."""
        self.stored_queue: Queue | None = None
        """As `single_queue`, if the queue stores its messages."""
        self.append: Callable[[Message], None] = NOWHERE.append
        """Append a message to the only queue."""
        self.counters: ExchangeCounters = NO_COUNTERS
        """Counters of the exchange."""
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
        """Gates of the address; usually empty."""
        target = self.target
        return target.gates if target.topic is None else target.topic.present()

    @property
    def control(self) -> bool:
        """True if the destination is the broker itself (control operations)."""
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
        if len(target.queues) == 1 and not target.by_headers and not self.gates and address.ttl_s == NEVER:
            queue = target.queues[0]
            if queue.features.type.urgent_first and address.priority >= URGENT_FROM:
                return  # The line of urgent messages may be created and removed, so no route may refer to it.
            if address.persistent and queue.storage is not None:
                self.stored_queue = queue
            else:
                self.single_queue = queue
            self.append = queue.ready_queue.ready_for(address.priority).append

    def single_queue_for(self) -> Queue | None:
        """Return the only queue of a message, stored or not; None if there are several or none."""
        queue = self.stored_queue
        if queue is not None and queue.storage is not None and not queue.storage.vhost_usage.all_open:
            return None
        return self.single_queue if queue is None else queue

    def is_current(self, epoch: i64, era: i64) -> bool:
        """Return whether the route is resolved and still valid: no later change concerned it."""
        if self._era != era or not self.target.is_current():
            return False
        self.epoch = epoch
        return True

    def persistent(self) -> Route:
        """Return the same route for persistent messages."""
        route = self._persistent
        if route is None:
            address = self.envelope
            route = self if address.persistent else self._made_for(address.priority, address.ttl_s, True)
            self._persistent = route
        return route

    def with_priority(self, priority: i64) -> Route:
        """Return the same route for messages with this priority; 0 is the route without priority."""
        if priority == self.envelope.priority:
            return self
        route = self._by_priority.get(int(priority))
        if route is None:
            route = self._made_for(priority, self.envelope.ttl_s, self.envelope.persistent)
            if self._by_priority is NO_PRIORITIES:
                self._by_priority = {}
            self._by_priority[int(priority)] = route
        return route

    def variant(self, priority: i64, ttl_s: float) -> Route:
        """Return the same route for messages with this priority and time to live; infinity is no time to live."""
        if ttl_s == self.envelope.ttl_s:
            return self.with_priority(priority)
        key = (int(priority), ttl_s)
        route = self._variants.get(key)
        if route is None:
            if self._variants is NO_VARIANTS or len(self._variants) >= VARIANTS_MAX:
                self._variants = {}
            route = self._made_for(priority, ttl_s, self.envelope.persistent)
            self._variants[key] = route
        return route

    def until(self, priority: i64, ttl_s: float, deadline: float) -> Route:
        """Return the same route for one message that expires at a time (monotonic seconds), or after its time to live.

        `ttl_s` is finite, and not longer than the time until then.
        """
        route = self._made_for(priority, ttl_s, self.envelope.persistent)
        route.envelope.deadline = deadline
        return route

    def delayed(self, due: float) -> Route:
        """Return the same route for one message that is due at a time (monotonic seconds)."""
        address = self.envelope
        if isinstance(address, DelayedEnvelope):
            address = address.plain  # The time that the message itself names is stronger than that of its exchange.
        if address.deadline != NEVER:
            left_s = address.deadline - due if address.deadline > due else 0.0
            ttl_s = address.ttl_s if address.ttl_s < left_s else left_s
            address = address.variant(address.priority, ttl_s, address.persistent)
        route = Route(DelayedEnvelope(address, due), self.mandatory, self.copies)
        route.set_target(self.target, self.checks_delivery_mode, self.epoch, self._era)
        return route

    def _made_for(self, priority: i64, ttl_s: float, persistent: bool) -> Route:
        route = Route(self.envelope.variant(priority, ttl_s, persistent), self.mandatory)
        route.set_target(self.target, self.checks_delivery_mode, self.epoch, self._era)
        return route


def _versions(exchanges: list[Exchange]) -> i64:
    total: i64 = 0
    for exchange in exchanges:
        total += exchange.version
    return total


PERSISTENT: Final = 2
"""Delivery mode of persistent messages."""


def route_for(route: Route, properties: Properties) -> Route:
    """Return the variant of a route for a message with these properties.

    Raises PreconditionFailed (406) for an expiration that is not a number of milliseconds, as RabbitMQ does.
    """
    if properties.delivery_mode == PERSISTENT and route.checks_delivery_mode:
        route = route.persistent()
    priority = 0 if properties.priority is None else properties.priority
    if properties.expiration is None:
        return route.with_priority(priority)
    return route.variant(priority, expiration_s(properties.expiration.encode()))


def expiration_s(text: bytes) -> float:
    """Return an expiration in seconds from its decimal milliseconds. Raises PreconditionFailed (406)."""
    if text.isdigit() and len(text) <= 20:
        number = int(text)
        if number <= MILLISECONDS_MAX:
            return number / 1000
    shown = text.decode(errors="replace")
    raise PreconditionFailed(
        f"invalid expiration '{shown}': it is a number of milliseconds, from 0 to {MILLISECONDS_MAX}, as text"
    )


COPIES_MAX: Final = 1_000
"""Most routing keys in the two headers of one message."""


def keys_of(headers: dict[str, object], name: str) -> list[str]:
    """Return the routing keys in a header. Raises PreconditionFailed (406) if the header is not an array."""
    if name not in headers:
        return []
    value = headers[name]
    if not isinstance(value, list):
        raise PreconditionFailed(
            f"invalid message: header {name} is of type {type_name(value)}; it must be an array of routing keys"
        )
    return keys_in(value)


def route_with_copies(route: Route, headers: dict[str, object]) -> Route | None:
    """Return an unresolved route that includes the CC and BCC of a message; None if the message has neither.

    Raises PreconditionFailed (406).
    """
    copies, blind = keys_of(headers, CC), keys_of(headers, BCC)
    count = len(copies) + len(blind)
    if count > COPIES_MAX:
        raise PreconditionFailed(
            f"invalid message: its headers CC and BCC hold {count} routing keys; the most is {COPIES_MAX}"
        )
    for key in copies + blind:
        check_name("routing key", key)
    address = route.envelope
    if blind:
        address = BccEnvelope(
            address.exchange, address.routing_key, blind, address.priority, address.ttl_s, address.persistent
        )
    return Route(address, route.mandatory, copies + blind) if copies or blind else None


CONTROL_EXCHANGE: Final = "penstock.control"
"""The exchange of control operations, which are ordinary publishes to the broker itself."""


VISITS_MAX: Final = 20_000
"""Bindings, and parts of their indexes, visited for one message: a few milliseconds."""
HOPS_MAX: Final = 256
"""Exchanges visited for one message."""
TARGETS_MAX: Final = 4_000
"""Queues of one message."""
VISITS_A_UNIT: Final = 8
"""Visits counted as a unit of work."""


class RouteLookup:
    """One lookup, for a message or for all messages of a route.

    Raises ResourceError (506) at a limit; the limits bound the cost of one message.
    """

    __slots__ = (
        "_exchanges",
        "_route",
        "_key",
        "_copies",
        "_headers",
        "_found",
        "_seen",
        "_left",
        "through",
        "by_headers",
        "reads_headers",
        "selects",
        "_message",
        "_origin",
        "_late",
        "at_once",
    )

    def __init__(
        self,
        exchanges: dict[str, Exchange],
        route: Route,
        headers: dict[str, object],
        message: SelectableMessage | None = None,
    ) -> None:
        self._exchanges = exchanges
        self._route = route
        self._left: i64 = VISITS_MAX
        self._key = route.envelope.routing_key
        self._copies = route.copies
        self._headers = headers
        self._found: list[Binding] = []
        self._seen: dict[Exchange, None] | None = None
        """Set of `through`, once it has two members."""
        self.through: list[Exchange] = []
        """The exchanges visited, in order."""
        self.by_headers: bool = False
        """True if an exchange depends on more than the key, or a binding has a selector."""
        self.reads_headers: bool = False
        """True if an exchange, or a selector, reads the message."""
        self.selects: bool = False
        """True if a binding has a selector, or an exchange hashes a property: the lookup needs the message."""
        self._message = message
        """The message, for selectors; None if it is unknown: then all selectors match."""
        envelope = route.envelope
        self._origin: Origin | None = envelope.origin if isinstance(envelope, OriginEnvelope) else None
        """The publisher, for no-local; None if it is unknown: then no binding excludes it."""
        self._late: set[Exchange] | None = None
        """Exchanges that delay messages, and those reached through them; None without any."""
        self.at_once: list[Binding] = []
        """Bindings to queues that the message reaches without a delay, if `delays` is true."""

    def begin(self, exchange: Exchange) -> None:
        """Visit an exchange and all its destinations; a cycle is visited once."""
        self.through.append(exchange)
        at = 0
        while at < len(self.through):
            self._lookup(self.through[at])
            at += 1

    def delays(self) -> bool:
        """Return whether an exchange on the way delays messages."""
        return self._late is not None

    def work(self) -> i64:
        """Return the units of work used."""
        return (VISITS_MAX - self._left) // VISITS_A_UNIT

    def queues(self) -> list[Queue]:
        """Return the queues found, each once."""
        queues: dict[Queue, None] = {}
        for binding in self._found:
            # The bindings of a deleted queue may be removed after the queue.
            if binding.queue is not None and not binding.queue.deleted:
                queues[binding.queue] = None
        if len(queues) > TARGETS_MAX:
            raise self._too_much(f"go into {len(queues)} queues; {TARGETS_MAX} is the most")
        return list(queues)

    def _too_much(self, what: str) -> ResourceError:
        address = self._route.envelope
        return ResourceError(
            f"publish to exchange '{address.exchange}' with routing key '{address.routing_key}' refused: "
            f"it would {what}"
        )

    def _match(self, exchange: Exchange, key: str) -> None:
        if exchange.hashed_field is not None:
            key = "" if self._message is None else text_of(self._message.lookup(exchange.hashed_field))
        self._left -= exchange.match(key, self._headers, self._found, self._left)
        if self._left < 0:
            self._left = 0
            raise self._too_much(
                f"visit more than {VISITS_MAX} bindings, or branches of their patterns, on its way to its queues "
                f"(at exchange '{exchange.name}')"
            )

    def _lookup(self, exchange: Exchange) -> None:
        if exchange.by_headers:
            self.by_headers = True
            self.reads_headers = self.reads_headers or not exchange.by_chance
            if exchange.hashed_field is not None:
                self.selects = True
        bindings = self._found
        before = len(bindings)
        if exchange.delays:
            self._begin_delay(exchange)
        self._match(exchange, self._key)
        if self._copies is not None:
            for key in self._copies:
                self._match(exchange, key)
        self._select(before)
        for index in range(before, len(bindings)):
            target = bindings[index].exchange
            if target is not None:
                self._visit(target, exchange)
        if len(bindings) == before and exchange.alternate is not None:
            target = self._exchanges.get(exchange.alternate)
            if target is not None:
                self._visit(target, exchange)
        if self._late is not None and exchange not in self._late:
            self.at_once.extend(bindings[before:])

    def _begin_delay(self, exchange: Exchange) -> None:
        """Record an exchange that delays messages. All bindings found before the first one lead past it."""
        if self._late is None:
            self._late = set()
            self.at_once.extend(self._found)
        self._late.add(exchange)

    def _select(self, before: int) -> None:
        """Drop found bindings, from an index on, that exclude the publisher or whose selector does not match."""
        bindings = self._found
        origin = self._origin
        for index in range(len(bindings) - 1, before - 1, -1):
            excluded = bindings[index].excluded
            if excluded is not None and origin is not None and origin.is_excluded(excluded):
                del bindings[index]
                continue
            selector = bindings[index].selector
            if selector is None:
                continue
            self.selects = True
            self.by_headers = True
            self.reads_headers = True
            if self._message is not None:
                self._left -= (1 + selector.work) * VISITS_A_UNIT
                if self._left < 0:
                    self._left = 0
                    raise self._too_much("evaluate too many selectors of bindings on its way to its queues")
                if not self._matches(selector, self._message):
                    del bindings[index]

    def _matches(self, selector: Selector, message: SelectableMessage) -> bool:
        most = self._left // VISITS_A_UNIT
        try:
            matches = selector.matches(message, most)
        except PatternsTooCostly:
            self._left = 0
            raise self._too_much("search too much text for the patterns of its bindings' selectors") from None
        self._left -= (most - message.work_left) * VISITS_A_UNIT
        return matches

    def _visit(self, exchange: Exchange, source: Exchange) -> None:
        if self._seen is None:
            self._seen = {self.through[0]: None}
        if exchange not in self._seen and not exchange.deleted:
            if len(self.through) >= HOPS_MAX:
                raise self._too_much(f"go through more than {HOPS_MAX} exchanges, the most")
            self._seen[exchange] = None
            self.through.append(exchange)
            if self._late is not None and source in self._late:
                self._late.add(exchange)
