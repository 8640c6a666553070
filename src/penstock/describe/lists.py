"""Lists: references first, then rows item by item, so that long lists do not block.

`groups` yields references some at a time, and `collected_steps` returns all of them. `Rows` converts a reference to a
row. Clients of control operations request one page after another (`PagedLists`). An object that exists all the time is
in exactly one page, because a list is stored between two pages. A client that requests a page again, or after 64 other
lists, gets the objects that are at that position now.

Most pages over HTTP are among the first. Such pages need neither all queues in order nor an object for each:
`first_steps` keeps the best so far, and other queues cost one comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from penstock.access.permission import ADMINISTRATOR, MONITORING
from penstock.access.rules import Rules
from penstock.access.user import User
from penstock.connections.connection import Connection
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import browsers_of
from penstock.core.consume.session import Session
from penstock.core.publish.sink_state import SinkState
from penstock.core.queue.cursor_state import CursorState, LeaseState
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE as TO_EXCHANGE
from penstock.core.routing.exchange import QUEUE as TO_QUEUE
from penstock.core.routing.exchange import Binding, Exchange
from penstock.core.vhost import VirtualHost
from penstock.describe.message_stats import SampleRanges
from penstock.describe.queue import CURSOR, POSITION_WORK, QUEUE
from penstock.describe.session import CONNECTION, CONSUMER, SESSION, channel_name
from penstock.describe.spark import LEASE, SINK
from penstock.describe.table import DescribedNode, Field, Key, Reading, Row, Table, field_at, key_of, reading
from penstock.describe.vhost import BINDING, DEFAULT_BINDING, EXCHANGE, SUMMED_A_UNIT, USER, VHOST
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import STRANGER, IdleUnits, PoolHolder, Pools, PoolUnit
from penstock.flow.work import Steps, WorkMeter
from penstock.settings.pools import LISTS

T = TypeVar("T")
KINDS: Final = (
    *("queues", "exchanges", "bindings", "connections", "channels", "consumers"),
    *("cursors", "leases", "sinks", "vhosts"),
)
ITEM_WORK: Final = 10
"""Units of work per shown item."""
QUEUES_AT_ONCE: Final = 250
"""Queues that are listed, or searched for consumers, per step."""
PAGE_MOST: Final = 500
"""Most items of a page."""
MADE_A_UNIT: Final = 5
"""Items that are collected per unit of work: an object is created for each."""
FIRST_MOST: Final = 500
"""Most queues that are kept; a later page needs a whole list in order."""
EXAMINED_AT_ONCE: Final = 50
"""Queues examined between two checks of the share of the slice: a unit of work each."""

Groups = Iterator[tuple[VirtualHost, Collection[object]]]
"""Objects of a list some at a time, with their virtual host."""
Rank = tuple[Any, ...]
"""Numbers and texts that determine the order of objects."""
TABLES: Final[tuple[tuple[type, Table[Any]], ...]] = (
    (Queue, QUEUE),
    (Consumer, CONSUMER),
    (Connection, CONNECTION),
    (Session, SESSION),
    (Exchange, EXCHANGE),
    (Binding, BINDING),
    (CursorState, CURSOR),
    (LeaseState, LEASE),
    (SinkState, SINK),
    (VirtualHost, VHOST),
    (User, USER),
)


class Item:
    """Item of a list; `name` is its sort key."""

    __slots__ = ("name", "vhost", "subject")

    def __init__(self, name: str, vhost: VirtualHost | None, subject: object) -> None:
        self.name = name
        self.vhost = vhost
        self.subject = subject


def name_of(subject: object) -> str:
    """Return an item's sort key."""
    if isinstance(subject, Queue | Exchange | VirtualHost | CursorState):
        return subject.name
    if isinstance(subject, Binding):
        return subject.source.name
    if isinstance(subject, LeaseState):
        return str(subject.number)
    if isinstance(subject, SinkState):
        return subject.query
    if isinstance(subject, Consumer):
        return subject.queue.name
    if isinstance(subject, Session):
        return channel_name(subject)
    return subject.peer.ends() if isinstance(subject, Connection) else ""


def name_in_log(subject: object) -> str:
    """Return the name of an object in log lines, commands and metrics, which differs from the name over HTTP for
    clients.
    """
    if isinstance(subject, Session):
        return subject.name
    return subject.name() if isinstance(subject, Connection) else name_of(subject)


def names_of(item: Item) -> tuple[str, ...]:
    """Return the names by which a search finds an item: both names of a connection or channel."""
    if isinstance(item.subject, (Connection, Session)):
        return item.name, name_in_log(item.subject)
    return (item.name,)


class Best(Generic[T]):
    """The objects with the lowest, or the highest, ranks of all offered objects; among equals the first."""

    def __init__(self, count: int, highest: bool = False) -> None:
        self._count = count
        self._highest = highest
        self._best: list[tuple[Rank, int, T]] = []
        """Objects with the number of each offer, negative for the highest ranks, so that all entries differ."""
        self._last: Rank | None = None
        """Rank of the last of the best, when there are as many as requested."""
        self._offered: int = 0

    def offer(self, rank: Rank, subject: T) -> None:
        """Add an object, unless enough others precede it."""
        last = self._last
        if last is not None and (rank < last if self._highest else rank > last):
            return
        self._offered += 1
        self._best.append((rank, -self._offered if self._highest else self._offered, subject))
        if len(self._best) >= 2 * self._count + EXAMINED_AT_ONCE:
            self._cut()

    def ranked(self) -> list[T]:
        """Return the objects in order."""
        self._cut()
        return [subject for _, _, subject in self._best]

    def _cut(self) -> None:
        self._best.sort(reverse=self._highest)
        del self._best[self._count :]
        if len(self._best) == self._count:
            self._last = self._best[-1][0]


def seen_vhosts(node: DescribedNode, rules: Rules) -> list[VirtualHost]:
    """Return the virtual hosts whose objects a user may see: all for an administrator."""
    everywhere = rules.has_tag(ADMINISTRATOR)
    return [vhost for vhost in node.broker.vhosts.values() if everywhere or rules.enters(vhost.name)]


# Listed objects


def collected_steps(node: DescribedNode, kind: str, vhost: VirtualHost | None) -> Steps[list[Item]]:
    """Return all items of a kind, each examined once. Items created meanwhile may be missing."""
    return (yield from PagedList(groups(node, kind, vhost)).page_steps(UNLIMITED, node.broker.work))


def groups(node: DescribedNode, kind: str, vhost: VirtualHost | None) -> Groups:
    """Yield the items of a kind, of one virtual host or of all (None), some at a time.

    Items are in the order of creation; consumers in the order of their queues, and bindings in the order of their
    destinations.
    """
    if kind in ("connections", "channels"):
        for number in list(node.connections):
            connection = node.connections.get(number)
            its = None if connection is None else connection.vhost
            if connection is not None and its is not None and (vhost is None or its is vhost):
                yield its, [connection] if kind == "connections" else connection.engine.sessions()
        return
    for each in list(node.broker.vhosts.values()) if vhost is None else [vhost]:
        if kind == "vhosts":
            yield each, [each]
        elif kind == "exchanges":
            yield each, each.exchanges.values()
        elif kind == "cursors":
            yield each, each.cursors.values()
        elif kind == "leases":
            yield each, node.broker.ranges.leases_of(each.name)
        elif kind == "sinks":
            yield each, node.broker.ranges.sinks_of(each.name)
        elif kind == "bindings":
            yield from binding_groups(each, True)
        else:
            for queues in each.roll.parts(QUEUES_AT_ONCE):
                yield each, _consumers(queues) if kind == "consumers" else queues


def _consumers(queues: list[Queue]) -> list[object]:
    """Return the consumers and browsers of some queues."""
    consumers: list[object] = []
    for queue in queues:
        consumers += queue.consumers
        consumers += browsers_of(queue)
    return consumers


def binding_groups(vhost: VirtualHost, with_default: bool) -> Groups:
    """Yield the bindings of a virtual host by destination; `with_default` includes each queue for its default
    binding.
    """
    for queues in vhost.roll.parts(QUEUES_AT_ONCE):
        for queue in queues:
            if not queue.deleted:
                its: list[object] = [queue] if with_default else []
                its += vhost.bindings.to(TO_QUEUE, queue.name)
                yield vhost, its
    for name in list(vhost.exchanges):
        yield vhost, vhost.bindings.to(TO_EXCHANGE, name)


def bindings_to(vhost: VirtualHost, queue: Queue | None, target: Exchange | None) -> list[Item]:
    """Return the bindings to a queue, including the binding to the default exchange, or to an exchange."""
    items: list[Item] = []
    if queue is not None:
        items.append(Item(queue.name, vhost, queue))
        leading = vhost.bindings.to(TO_QUEUE, queue.name)
    else:
        leading = [] if target is None else vhost.bindings.to(TO_EXCHANGE, target.name)
    return items + [Item(binding.source.name, vhost, binding) for binding in leading]


class Rows:
    """Rows of one list: whole, or with only the fields at these paths."""

    def __init__(
        self,
        node: DescribedNode,
        ranges: SampleRanges | None = None,
        paths: Sequence[str] = (),
        as_bindings: bool = False,
    ) -> None:
        """`as_bindings`: a queue stands for its default binding."""
        self.node = node
        self.as_bindings = as_bindings
        self._ranges = ranges
        self._paths = paths
        self._table: Table[Any] | None = None
        self._fields: list[Field[Any]] | None = None
        """Fields of the table; None for all."""

    def of(self, subject: object) -> Row:
        """Return the row of an object."""
        table = self.table_of(subject)
        if table is not self._table:
            self._table = table
            self._fields = table.select(self._paths) if self._paths else None
        return table.row(subject, reading(self.node, self._ranges), self._fields)

    def keys(self, items: list[Item], path: str) -> list[Key]:
        """Return the sort keys of objects by the field at a path, which is the only field of these rows."""
        number = self.table_of(items[0].subject).number(path)
        if number is None:
            return [key_of(field_at(self.of(item.subject), path)) for item in items]
        at = reading(self.node)
        return [key_of(number.value(item.subject, at)) for item in items]

    def table_of(self, subject: object) -> Table[Any]:
        """Return the table of an object."""
        if self.as_bindings and isinstance(subject, Queue):
            return DEFAULT_BINDING
        for kind, table in TABLES:
            if isinstance(subject, kind):
                return table
        raise AssertionError(subject)


def is_seen(node: DescribedNode, item: Item, rules: Rules, user: str) -> bool:
    """Return whether an item of a list is shown to a user, as RabbitMQ filters its lists by tag.

    Connections, channels and consumers of others, and virtual hosts that the user may not enter, are shown to users
    with the tag monitoring; objects in such virtual hosts to administrators.
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


# Page by page


class PagedList(PoolUnit):
    """A list of which some pages have been shown."""

    def __init__(self, groups: Groups) -> None:
        self.holder = STRANGER
        self.key: tuple[int, str, int] = (0, "", 0)
        """Number of the connection, kind of items, and number of the items shown."""
        self.shown: int = 0
        """Number of items of the pages so far."""
        self.ended: bool = False
        """True after the last page."""
        self._groups = groups
        self._collected: list[Item] = []
        """The first items of the next page."""

    def wait(self, number: int, what: str, user: str) -> None:
        """Record the client whose next request the list waits for."""
        self.key = (number, what, self.shown)
        self.holder = PoolHolder(user, "")

    def page_steps(self, most: int, work: WorkMeter) -> Steps[list[Item]]:
        """Return the next items."""
        page = self._collected
        seen = 0
        while len(page) <= most:
            group = next(self._groups, None)
            if group is None:
                break
            page += [Item(name_of(subject), group[0], subject) for subject in group[1]]
            seen += 1 + len(group[1])
            if work.spend(seen // MADE_A_UNIT):
                yield
            seen %= MADE_A_UNIT
        self._collected = page[most:]
        del page[most:]
        self.ended = not self._collected
        self.shown += len(page)
        return page


class PagedLists:
    """The newest lists whose next page clients have not requested yet."""

    def __init__(self, work: WorkMeter, pools: Pools) -> None:
        self._work = work
        self._pool = pools.of(LISTS)
        self._idle = IdleUnits(self._pool)
        self._begun: dict[tuple[int, str, int], PagedList] = {}
        """Begun lists by number of the connection, kind of items, and number of the items shown."""

    def page_steps(
        self, asker: Connection | None, after: int, what: str, groups: Groups, most: int
    ) -> Steps[tuple[list[Item], int | None]]:
        """Return the page of a list after so many items, and the beginning of the next page, or None."""
        number = 0 if asker is None else asker.number
        begun = self._begun.get((number, what, after))
        if begun is not None:
            self._end(begun)
        else:
            begun = PagedList(groups)
            while begun.shown < after and not begun.ended:
                yield from begun.page_steps(min(after - begun.shown, PAGE_MOST), self._work)
        items = yield from begun.page_steps(most, self._work)
        if begun.ended:
            return items, None
        begun.wait(number, what, "" if asker is None else asker.user)
        self._keep(begun)
        return items, begun.shown

    def _keep(self, begun: PagedList) -> None:
        """Keep a list until its next page is requested. At the bound the oldest list is forgotten."""
        before = self._begun.get(begun.key)
        if before is not None:
            self._end(before)
        oldest = self._idle.to_displace(1)
        if isinstance(oldest, PagedList):
            self._end(oldest)
        self._pool.add(begun.holder, 1)
        self._begun[begun.key] = begun
        self._idle.rest(begun)

    def _end(self, begun: PagedList) -> None:
        del self._begun[begun.key]
        self._idle.wake(begun)
        self._pool.give(begun.holder, 1)


# The first queues in an order


class QueueOrder:
    """Order of queues by a number, and among equals by name; without a number by name."""

    def __init__(self, number: Field[Queue] | None, reverse: bool) -> None:
        self._number = number
        self._sign: float = -1.0 if reverse else 1.0
        self.backwards: bool = reverse and number is None
        """True if the last rank is first."""

    def rank(self, queue: Queue, at: Reading) -> Rank:
        """Return the rank of a queue: class and value of the key, and its name."""
        if self._number is None:
            return 0.0, 0.0, queue.name
        kind, value = key_of(self._number.value(queue, at))
        return kind * self._sign, value * self._sign if isinstance(value, float) else 0.0, queue.name


class First(NamedTuple):
    """The first queues of a list."""

    items: list[Item]
    total: int
    """Number of all queues that the user may see."""
    filtered: int
    """Number of these queues whose name contains the requested text."""


def first_steps(
    node: DescribedNode, vhost: VirtualHost | None, rules: Rules, wanted: str, order: QueueOrder, count: int
) -> Steps[First]:
    """Return the first queues of a virtual host or of all (None) whose name contains `wanted`, in lower case.

    Queues that are created meanwhile may be missed.
    """
    work = node.broker.work
    best: Best[Queue] = Best(count, order.backwards)
    homes: dict[str, VirtualHost] = {}
    total, filtered = 0, 0
    at = reading(node)
    for each in seen_vhosts(node, rules):
        if vhost is not None and each is not vhost:
            continue
        homes[each.name] = each
        total += len(each.queues)
        for part in each.roll.parts(EXAMINED_AT_ONCE):
            for queue in part:
                if not queue.deleted and (not wanted or wanted in queue.name.lower()):
                    filtered += 1
                    best.offer(order.rank(queue, at), queue)
            if work.spend(EXAMINED_AT_ONCE):
                yield
    return First([Item(queue.name, homes[queue.vhost], queue) for queue in best.ranked()], total, filtered)
