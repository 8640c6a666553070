"""Targets of incoming links: the route of each message (section 3.5.4)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.connections.authorization import check_route, check_write_exchange
from penstock.content.properties import CC
from penstock.core.message import Origin
from penstock.core.routing.route import Route, route_with_copies
from penstock.core.routing.topology import NO_HEADERS, resolve_message
from penstock.core.vhost import VirtualHost
from penstock.errors import AccessRefused, InvalidField
from penstock.flow.level import OVERHEAD
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.addresses import (
    Address,
    AddressKind,
    Node,
    ToAddresses,
    Unroutable,
    routing_key,
    target_node,
)
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.texts import worded
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.sections import NO_EXPIRY, SUBJECT, TO, USER_ID, Sections, expiry_ms, property_at
from penstock.wire.amqp10.value_walk import u32

SHARED_MAX: Final = 16
"""Most targets that a connection remembers for further links; at the bound the oldest target is dropped."""
ROUTES_MAX: Final = 256
"""Most routes that a link caches by subject and `to`; at the bound the oldest route is dropped."""
HEADER_OCTETS_A_UNIT: Final = 8
"""Bytes of properties per unit of work when they are decoded for routing."""
COPIES: Final = b"x-cc"
"""Annotation with additional routing keys, as the header CC of AMQP 0-9-1 (RabbitMQ 4)."""
DEFAULT_PRIORITY: Final = 4
"""Priority of a message without a priority (section 3.2.1)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Target:
    """Target of one link, or of several. Subclasses determine the exchange and routing key of a message."""

    def __init__(
        self,
        vhost: VirtualHost,
        access: ConnectionAccess,
        unroutable: Unroutable,
        formats: Amqp10Format,
        node: Node | None,
        origin: Origin | None,
    ) -> None:
        self.vhost: VirtualHost = vhost
        self.unroutable: Unroutable = unroutable
        """Outcome of the last message if it reaches no queue."""
        self._access = access
        self._user = access.user.encode()
        self._checked: i64 = access.epoch.count
        """Number of permission changes when the target's routes were checked."""
        self._origin = origin
        """The connection, for no-local; None to publish without an origin."""
        self._format = formats
        self.node: Node | None = node
        """Queue or exchange of all messages of the target; None for the anonymous terminus."""
        self._routes: dict[bytes, Route] = {}
        """Cached routes of the target's messages, if messages have different routes."""

    def fixed_route(self) -> Route | None:
        """Return the route of all messages of the target; None if the route depends on the message."""
        return None

    def _address_route(self, data: bytes, sections: Sections) -> Route:
        """Return the route of a message's exchange and routing key, resolved once. Raises BrokerError."""
        raise NotImplementedError

    def review(self) -> None:
        """Check the target's routes, after a change of permissions or for another link. Raises AccessRefused."""
        self._routes.clear()
        self._checked = self._access.epoch.count

    def largest_message(self, most: i64) -> i64:
        """Return the bytes of the largest message that can ever fit into the target's queues, at most `most`."""
        route = self.fixed_route()
        if route is None:
            return most
        gates = list(route.gates)
        for queue in route.queues:
            gates += queue.gates
        for gate in gates:
            measured = gate.measure()
            if measured is not None and not gate.could_ever_take(1, most + OVERHEAD):
                room = measured.thresholds.capacity.largest_charge() - OVERHEAD
                if 0 < room < most:
                    most = room
        return most

    def route_of(self, content: bytes, data: bytes, sections: Sections) -> Route:
        """Return the route of a message, whose sections lie in `data`. Raises BrokerError."""
        if self._access.epoch.count != self._checked:
            self.review()
        route = self._address_route(data, sections)
        if route.epoch != self.vhost.epoch:
            check_route(self._access, self.vhost, route)  # The exchange may have been replaced by one of another type.
            self.vhost.refresh_route(route)
        if sections.properties != ABSENT:
            self._check_user(data, sections)
        if route.checks_delivery_mode and sections.durable != 0:
            route = route.persistent()
        expiry = expiry_ms(data, sections.properties, sections.end)
        if expiry != NO_EXPIRY:
            route = self._until(route, sections, expiry)
        elif sections.ttl != ABSENT or sections.priority != ABSENT:
            route = _variant(route, sections)
        if sections.message_annotations != ABSENT and data.find(COPIES, sections.message_annotations) >= 0:
            route = self._with_copies(route, content)
        if route.target.by_headers:
            return self._by_headers(route, content)
        return route

    def _until(self, route: Route, sections: Sections, expiry: i64) -> Route:
        """Return the route of a message that expires at a time in milliseconds since 1970, or earlier by its ttl."""
        now = self.vhost.broker.now
        deadline = expiry / 1000 - self.vhost.broker.wall_offset
        left_s = deadline - now if deadline > now else 0.0
        ttl_s = _ttl_s(sections)
        return route.until(_priority(sections), ttl_s if ttl_s < left_s else left_s, deadline)

    def _check_user(self, data: bytes, sections: Sections) -> None:
        """Check that user-id, which must not be forged, is the user of the connection (section 3.2.4)."""
        pos = property_at(data, sections.properties, sections.end, USER_ID)
        if pos != ABSENT:
            claimed = _octets_at(data, pos)
            if claimed != self._user:
                raise AccessRefused(
                    f"user-id {worded(claimed.decode(errors='replace'))} is not the user of the connection, "
                    f"{worded(self._user.decode())}"
                )

    def _with_copies(self, route: Route, content: bytes) -> Route:
        copies = self._format.checked_copies(content)
        own = route_with_copies(route, {CC: list(copies)}) if copies else None
        if own is None:
            return route
        check_route(self._access, self.vhost, own)
        resolve_message(self.vhost, own, self._format.headers(content), content, self._format)
        return own

    def _by_headers(self, route: Route, content: bytes) -> Route:
        """Return a route for one message, chosen by its application properties."""
        own = Route(route.envelope, route.mandatory, route.copies)
        reads = route.target.reads_headers
        resolve_message(self.vhost, own, self._format.headers(content) if reads else NO_HEADERS, content, self._format)
        if own.target.reads_headers and not reads:  # Chance has led to an exchange that reads headers.
            resolve_message(self.vhost, own, self._format.headers(content), content, self._format)
        return own

    def _new_route(self, node: Node, subject: bytes) -> Route:
        """Return the route of a message to a node.

        Raises BrokerError, also if the client may not publish to the node.
        """
        try:
            key = routing_key(node, subject.decode())
        except UnicodeDecodeError:
            raise InvalidField("the subject, which is the routing key, is not UTF-8") from None
        envelope = self.vhost.route(node.exchange, key, True).envelope.variant(DEFAULT_PRIORITY, NEVER, False)
        if self._origin is not None:
            envelope = envelope.from_origin(self._origin)
        route = Route(envelope, True)
        check_route(self._access, self.vhost, route)
        self.vhost.resolve(route, {})
        return route

    def _remember(self, key: bytes, route: Route) -> None:
        if len(self._routes) >= ROUTES_MAX:
            del self._routes[next(iter(self._routes))]
        self._routes[key] = route


class FixedTarget(Target):
    """Target with one exchange and routing key."""

    def __init__(
        self,
        vhost: VirtualHost,
        access: ConnectionAccess,
        unroutable: Unroutable,
        formats: Amqp10Format,
        node: Node,
        origin: Origin | None,
    ) -> None:
        super().__init__(vhost, access, unroutable, formats, node, origin)
        self._route: Route = self._new_route(node, b"")

    @override
    def fixed_route(self) -> Route | None:
        route = self._route
        if route.epoch != self.vhost.epoch:
            check_route(self._access, self.vhost, route)
            self.vhost.refresh_route(route)
        return None if route.by_headers else route

    @override
    def review(self) -> None:
        check_route(self._access, self.vhost, self._route)
        self._checked = self._access.epoch.count

    @override
    def _address_route(self, data: bytes, sections: Sections) -> Route:
        return self._route


class SharedTargets:
    """Fixed targets of the links of one connection: links to the same exchange and key share one, with its route."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, str, int], FixedTarget] = {}

    def find(self, node: Node, unroutable: Unroutable) -> FixedTarget | None:
        """Return the target of an earlier link to the same node; None if there is none."""
        return self._targets.get((node.exchange, node.key, int(unroutable)))

    def add(self, node: Node, target: FixedTarget) -> None:
        """Remember a target."""
        if len(self._targets) >= SHARED_MAX:
            del self._targets[next(iter(self._targets))]
        self._targets[node.exchange, node.key, int(target.unroutable)] = target


class SubjectTarget(Target):
    """Target with an exchange: the subject of each message is its routing key."""

    @override
    def _address_route(self, data: bytes, sections: Sections) -> Route:
        subject = _text(data, sections, SUBJECT)
        route = self._routes.get(subject)
        if route is None:
            assert self.node is not None
            route = self._new_route(self.node, subject)
            self._remember(subject, route)
        return route


class AnonymousTarget(Target):
    """Target without an address: each message has an address in `to` (Anonymous Terminus for Message Routing)."""

    def __init__(
        self, vhost: VirtualHost, access: ConnectionAccess, formats: Amqp10Format, origin: Origin | None
    ) -> None:
        super().__init__(vhost, access, Unroutable.REJECTED, formats, None, origin)
        self._addresses = ToAddresses()

    @override
    def _address_route(self, data: bytes, sections: Sections) -> Route:
        to = _text(data, sections, TO)
        address = self._addresses.address(to)
        self.unroutable = address.unroutable
        node = target_node(address, self.vhost)
        subject = _text(data, sections, SUBJECT) if node.by_subject else b""
        key = to + b"\0" + subject if node.by_subject else to
        route = self._routes.get(key)
        if route is None or route.envelope.exchange != node.exchange:
            route = self._new_route(node, subject)
            self._remember(key, route)
        return route


def target_of(
    vhost: VirtualHost,
    access: ConnectionAccess,
    formats: Amqp10Format,
    address: Address,
    shared: SharedTargets,
    origin: Origin | None = None,
) -> Target:
    """Return the target for an address; links with a fixed target share it.

    Raises NotFound for an address that names nothing, AccessRefused for an address that the client may not publish to.
    """
    if address.kind is AddressKind.ANONYMOUS:
        return AnonymousTarget(vhost, access, formats, origin)
    node = target_node(address, vhost)
    if node.by_subject:
        check_write_exchange(access, node.exchange)
        return SubjectTarget(vhost, access, address.unroutable, formats, node, origin)
    target = shared.find(node, address.unroutable)
    if target is None:
        target = FixedTarget(vhost, access, address.unroutable, formats, node, origin)
        shared.add(node, target)
    else:
        target.review()
    return target


def _text(data: bytes, sections: Sections, index: i64) -> bytes:
    """Return the bytes of a property; empty if it is absent."""
    pos = property_at(data, sections.properties, sections.end, index)
    return b"" if pos == ABSENT else _octets_at(data, pos)


def _octets_at(data: bytes, pos: i64) -> bytes:
    """Return the bytes of the binary or string at `pos` of well-formed bytes."""
    if data[pos] < 0xB0:
        size: i64 = data[pos + 1]
        return data[pos + 2 : pos + 2 + size]
    return data[pos + 5 : pos + 5 + u32(data, pos + 1)]


def _variant(route: Route, sections: Sections) -> Route:
    """Return the route of a message with a priority, or a time to live in milliseconds."""
    return route.variant(_priority(sections), _ttl_s(sections))


def _priority(sections: Sections) -> i64:
    return DEFAULT_PRIORITY if sections.priority == ABSENT else sections.priority


def _ttl_s(sections: Sections) -> float:
    return NEVER if sections.ttl == ABSENT else sections.ttl / 1000
