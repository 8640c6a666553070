"""Kinds of lists: the objects of each kind, their order, and the table of their fields.

A kind yields references some at a time, so that long lists do not block (`ListKind.groups`). Kinds of other nouns are
rows in `penstock.operations`; a list needs only the row of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT, MONITORING
from penstock.access.rules import Rules
from penstock.connections.connection import Connection
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import browsers_of
from penstock.core.consume.session import Session
from penstock.core.queue.cursor_state import CursorState, LeaseState
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE as TO_EXCHANGE
from penstock.core.routing.exchange import QUEUE as TO_QUEUE
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.vhost import VirtualHost
from penstock.describe.queue import CURSOR, POSITION_WORK, QUEUE
from penstock.describe.session import CONNECTION, CONSUMER, SESSION, channel_name
from penstock.describe.spark import LEASE, SINK
from penstock.describe.table import DescribedNode, Table
from penstock.describe.vhost import BINDING, DEFAULT_BINDING, EXCHANGE, SUMMED_A_UNIT, VHOST

ITEM_WORK: Final = 10
"""Units of work per shown item."""
QUEUES_AT_ONCE: Final = 250
"""Queues that are listed, or searched for consumers, per step."""

Groups = Iterator[tuple[VirtualHost | None, Collection[object]]]
"""Objects of a list some at a time, with their virtual host."""


class Item:
    """Item of a list; `name` is its sort key."""

    __slots__ = ("name", "vhost", "subject")

    def __init__(self, name: str, vhost: VirtualHost | None, subject: object) -> None:
        self.name = name
        self.vhost = vhost
        self.subject = subject


class ListKind(NamedTuple):
    """A kind of lists. Its objects are in the order of creation, or with `by_name` in the order of their names."""

    name: str
    groups: Callable[[DescribedNode, VirtualHost | None], Groups]
    """Function that yields the objects of a virtual host, or of all (None), some at a time."""
    table: Table[Any]
    name_of: Callable[[Any], str]
    """Function that returns the name by which an object is found and sorted."""
    by_name: bool = False
    tag: str = MANAGEMENT
    fifths: int = 1
    """Fifths of a unit of work per collected object."""
    everywhere: bool = False
    """True if its objects belong to no virtual host."""
    of_default: Table[Any] | None = None
    """Table of queues in a list of bindings: each stands for its default binding."""
    copied: bool = False
    """True if each of several brokers has all objects, such as users."""
    name_at: tuple[str, ...] = ("name",)
    """Paths in a row of which the first that is not empty has the name."""

    def table_of(self, subject: object) -> Table[Any]:
        """Return the table of an object."""
        return self.table if self.of_default is None or not isinstance(subject, Queue) else self.of_default


def name_in_log(subject: object) -> str:
    """Return the name of an object in log lines, commands and metrics; over HTTP a client's name differs."""
    if isinstance(subject, Session):
        return subject.name
    if isinstance(subject, Connection):
        return subject.name()
    return subject.name if isinstance(subject, Queue | Exchange | VirtualHost | CursorState) else ""


def names_of(item: Item) -> tuple[str, ...]:
    """Return the names by which a search finds an item: both names of a connection or channel."""
    if isinstance(item.subject, (Connection, Session)):
        return item.name, name_in_log(item.subject)
    return (item.name,)


# Objects of each kind


def of_vhosts(its: Callable[[DescribedNode, VirtualHost], Collection[object]]) -> Callable[..., Groups]:
    """Return the groups of a kind with objects in each virtual host."""

    def groups(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
        for each in _hosts(node, vhost):
            yield each, its(node, each)

    return groups


def _hosts(node: DescribedNode, vhost: VirtualHost | None) -> list[VirtualHost]:
    return list(node.broker.vhosts.values()) if vhost is None else [vhost]


def _clients(node: DescribedNode, vhost: VirtualHost | None) -> Iterator[tuple[VirtualHost, Connection]]:
    for number in list(node.connections):
        connection = node.connections.get(number)
        its = None if connection is None else connection.vhost
        if connection is not None and its is not None and (vhost is None or its is vhost):
            yield its, connection


def _connections(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    for its, connection in _clients(node, vhost):
        yield its, [connection]


def _channels(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    for its, connection in _clients(node, vhost):
        yield its, connection.engine.sessions()


def _queues(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    for each in _hosts(node, vhost):
        for queues in each.roll.parts(QUEUES_AT_ONCE):
            yield each, queues


def _consumers(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    """Yield consumers and browsers, in the order of their queues."""
    for each in _hosts(node, vhost):
        for queues in each.roll.parts(QUEUES_AT_ONCE):
            yield each, _consumers_of(queues)


def _consumers_of(queues: list[Queue]) -> list[object]:
    """Return the consumers and browsers of some queues."""
    consumers: list[object] = []
    for queue in queues:
        consumers += queue.consumers
        consumers += browsers_of(queue)
    return consumers


def _bindings(node: DescribedNode, vhost: VirtualHost | None) -> Groups:
    for each in _hosts(node, vhost):
        yield from binding_groups(each, True)


def binding_groups(vhost: VirtualHost, with_default: bool) -> Groups:
    """Yield the bindings of a virtual host by destination; `with_default` adds each queue's default binding."""
    for queues in vhost.roll.parts(QUEUES_AT_ONCE):
        for queue in queues:
            if not queue.deleted:
                its: list[object] = [queue] if with_default else []
                its += vhost.bindings.to(TO_QUEUE, queue.name)
                yield vhost, its
    for name in list(vhost.exchanges):
        yield vhost, vhost.bindings.to(TO_EXCHANGE, name)


def bindings_to(vhost: VirtualHost, queue: Queue | None, target: Exchange | None) -> list[object]:
    """Return the bindings to a queue, including the binding to the default exchange, or to an exchange."""
    if queue is not None:
        return [queue, *vhost.bindings.to(TO_QUEUE, queue.name)]
    return [] if target is None else [*vhost.bindings.to(TO_EXCHANGE, target.name)]


def binding_name(subject: Binding | Queue) -> str:
    """Return the name of a binding in lists: the source's name, or for a default binding the queue's name."""
    return subject.name if isinstance(subject, Queue) else subject.source.name


QUEUES: Final = ListKind("queues", _queues, QUEUE, lambda queue: queue.name, by_name=True)
BINDINGS: Final = ListKind(
    "bindings", _bindings, BINDING, binding_name, of_default=DEFAULT_BINDING,
    name_at=("source", "destination"),
)  # fmt: skip
CONNECTIONS: Final = ListKind("connections", _connections, CONNECTION, lambda connection: connection.peer.ends())
CHANNELS: Final = ListKind("channels", _channels, SESSION, channel_name)
EXCHANGES: Final = ListKind(
    "exchanges", of_vhosts(lambda node, vhost: vhost.exchanges.values()), EXCHANGE, lambda exchange: exchange.name,
    by_name=True,
)  # fmt: skip
CONSUMERS: Final = ListKind(
    "consumers", _consumers, CONSUMER, lambda consumer: consumer.queue.name, by_name=True, name_at=("queue.name",)
)
CURSORS: Final = ListKind(
    "cursors", of_vhosts(lambda node, vhost: vhost.cursors.values()), CURSOR, lambda cursor: cursor.name,
    by_name=True,
)  # fmt: skip
LEASES: Final = ListKind(
    "leases", of_vhosts(lambda node, vhost: node.broker.ranges.leases_of(vhost.name)), LEASE,
    lambda lease: str(lease.number), name_at=("number",),
)  # fmt: skip
SINKS: Final = ListKind(
    "sinks", of_vhosts(lambda node, vhost: node.broker.ranges.sinks_of(vhost.name)), SINK, lambda sink: sink.query,
    name_at=("query",),
)  # fmt: skip
VHOSTS: Final = ListKind(
    "vhosts", of_vhosts(lambda node, vhost: [vhost]), VHOST, lambda vhost: vhost.name, by_name=True, everywhere=True
)  # fmt: skip
KINDS: Final[tuple[ListKind, ...]] = (
    *(QUEUES, EXCHANGES, BINDINGS, CONNECTIONS, CHANNELS, CONSUMERS),
    *(CURSORS, LEASES, SINKS, VHOSTS),
)
"""Kinds of objects that belong to virtual hosts and to connections."""


# Visibility and cost of items


def seen_vhosts(node: DescribedNode, rules: Rules) -> list[VirtualHost]:
    """Return the virtual hosts whose objects a user may see: all for an administrator."""
    everywhere = rules.has_tag(ADMINISTRATOR)
    return [vhost for vhost in node.broker.vhosts.values() if everywhere or rules.enters(vhost.name)]


def is_seen(node: DescribedNode, item: Item, rules: Rules, user: str) -> bool:
    """Return whether an item of a list is shown to a user, as RabbitMQ filters its lists by tag.

    Connections, channels and consumers of other users, and virtual hosts that the user may not enter, are shown to
    users with the tag monitoring; objects in such virtual hosts are shown to administrators.
    """
    vhost, subject = item.vhost, item.subject
    if isinstance(subject, Connection):
        return subject.user == user or rules.has_tag(MONITORING)
    session = subject.session if isinstance(subject, Consumer) else subject
    if isinstance(session, Session):
        connection = node.connections.get(session.connection_number)
        if not rules.has_tag(MONITORING):
            return connection is not None and connection.user == user
        if session is subject:
            return True
    if vhost is None or rules.enters(vhost.name):
        return True
    return rules.has_tag(MONITORING if isinstance(subject, VirtualHost) else ADMINISTRATOR)


def work_of(item: Item) -> int:
    """Return the units of work of one item: virtual hosts, cursors and leases are shown with their queues."""
    subject = item.subject
    if isinstance(subject, LeaseState):
        subject = subject.cursor
    if isinstance(subject, CursorState):
        return ITEM_WORK + len(subject.positions) * POSITION_WORK
    return ITEM_WORK + (len(subject.queues) // SUMMED_A_UNIT if isinstance(subject, VirtualHost) else 0)


def is_gone(item: Item) -> bool:
    """Return whether a queue, or the queue of a consumer, was deleted since it was collected."""
    subject = item.subject
    queue = subject.queue if isinstance(subject, Consumer) else subject
    return isinstance(queue, Queue) and queue.deleted
