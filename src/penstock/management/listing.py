"""Lists of objects in windows: references first, then plain data item by item, so that long lists do not block.

`window_steps` takes references to some items, and `collected_steps` to all of them, each once. `shape` makes one of
them plain data. The control operation `list` answers a page of at most `PAGE_MOST`; clients request one page after
another.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from penstock.access.rules import Rules
from penstock.access.tags import ADMINISTRATOR, MONITORING
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import browsers_of
from penstock.core.consume.session import Session
from penstock.core.queue.cursor import Cursor
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import EXCHANGE, QUEUE, Binding
from penstock.core.routing.exchange import Exchange
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps
from penstock.management import rabbitmq_json
from penstock.management.control_request import ControlRequest
from penstock.management.cursor_views import POSITION_WORK, cursor_view
from penstock.management.message_stats import SampleRanges
from penstock.management.rabbitmq_json import SUMMED_A_UNIT, Shape
from penstock.protocols.common.connection import Connection

if TYPE_CHECKING:
    from penstock.management.node import Node

KINDS: Final = ("queues", "exchanges", "bindings", "connections", "channels", "consumers", "cursors", "vhosts")
PAGE_MOST: Final = 500
"""Most items in one reply of the control operation `list`."""
ITEM_WORK: Final = 10
COLLECTED_A_UNIT: Final = 50
"""Units of work per shown item, and skipped items per unit."""
QUEUES_AT_ONCE: Final = 500
"""Queues searched for consumers per step."""
GROUPS_AT_ONCE: Final = 500
"""Connections, or exchanges, whose items are looked at per step; also items that are collected."""
MADE_A_UNIT: Final = 5
"""Items that are collected per unit of work: an object is made for each."""


class Item:
    """Item of a list; `name` is its sort key."""

    __slots__ = ("name", "vhost", "subject")

    def __init__(self, name: str, vhost: VirtualHost | None, subject: object) -> None:
        self.name = name
        self.vhost = vhost
        self.subject = subject


class Window:
    """Window of a long list: a number of items after a number of skipped ones, which are not examined."""

    def __init__(self, after: int, count: int) -> None:
        self.items: list[Item] = []
        self.total: int = 0
        """Number of items in the whole list."""
        self._after = after
        self._count = count

    def offer(self, vhost: VirtualHost, subjects: Collection[object]) -> None:
        """Take those of these items that fall into the window; they follow the ones offered before."""
        first = max(self._after - self.total, 0)
        room = self._count - len(self.items)
        if room > 0 and first < len(subjects):
            for subject in itertools.islice(subjects, first, first + room):
                self.items.append(Item(name_of(subject), vhost, subject))
        self.total += len(subjects)

    def pass_over(self, count: int) -> bool:
        """Count items that are before or after the window; return False, and count none, if some are in it."""
        after = self.total >= self._after + self._count
        if not after and self.total + count > self._after:
            return False
        self.total += count
        return True

    def end(self) -> int | None:
        """Return where the next window begins; None after the last one."""
        end = self._after + self._count
        return end if end < self.total else None


def name_of(subject: object) -> str:
    """Return an item's sort key."""
    if isinstance(subject, Queue | Exchange | VirtualHost | Cursor):
        return subject.name
    if isinstance(subject, Binding):
        return subject.source.name
    if isinstance(subject, Consumer):
        return subject.queue.name
    if isinstance(subject, Session):
        return subject.name
    return subject.name() if isinstance(subject, Connection) else ""


def consumers_steps(node: Node, vhost: VirtualHost | None, after: int, count: int) -> Steps[Window]:
    """Return a window of the consumers and browsers of one virtual host or of all (None), queue by queue."""
    found = Window(after, count)
    work = node.broker.work
    for each in list(node.broker.vhosts.values()) if vhost is None else [vhost]:
        queues = list(each.queues.values())
        for start in range(0, len(queues), QUEUES_AT_ONCE):
            for queue in queues[start : start + QUEUES_AT_ONCE]:
                if queue.consumers:
                    found.offer(each, queue.consumers)
                browsers = browsers_of(queue)
                if browsers:
                    found.offer(each, browsers)
            work.done += 1 + QUEUES_AT_ONCE // COLLECTED_A_UNIT
            if work.used_up():
                yield
    return found


def window_steps(node: Node, kind: str, vhost: VirtualHost | None, after: int, count: int) -> Steps[Window]:
    """Return a window of all items of a kind, of one virtual host or of all (None), in order of creation."""
    if kind == "consumers":
        return (yield from consumers_steps(node, vhost, after, count))
    found = Window(after, count)
    work = node.broker.work
    for number, (owner, subjects) in enumerate(_groups(node, kind, vhost)):
        found.offer(owner, subjects)
        if number % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1:
            work.done += GROUPS_AT_ONCE // COLLECTED_A_UNIT
            if work.used_up():
                yield
    work.done += found.total // COLLECTED_A_UNIT
    return found


def collected_steps(node: Node, kind: str, vhost: VirtualHost | None) -> Steps[list[Item]]:
    """Return all items of a kind, each looked at once; what is created meanwhile may be missing."""
    if kind == "consumers":
        return (yield from consumers_steps(node, vhost, 0, UNLIMITED)).items
    found: list[Item] = []
    work = node.broker.work
    seen = 0
    for owner, subjects in _groups(node, kind, vhost):
        group = list(subjects)
        for start in range(0, len(group) or 1, GROUPS_AT_ONCE):
            part = group[start : start + GROUPS_AT_ONCE]
            found += [Item(name_of(subject), owner, subject) for subject in part]
            seen += 1 + len(part)
            if seen >= GROUPS_AT_ONCE:
                work.done += seen // MADE_A_UNIT
                seen = 0
                if work.used_up():
                    yield
    work.done += seen // MADE_A_UNIT
    return found


def _groups(node: Node, kind: str, vhost: VirtualHost | None) -> Iterator[tuple[VirtualHost, Collection[object]]]:
    """Yield the items of a kind, of one virtual host or of all (None), in order of creation, group by group."""
    if kind in ("connections", "channels"):
        for connection in list(node.connections.values()):
            its = connection.vhost
            if its is not None and (vhost is None or its is vhost):  # Otherwise it is not open, or elsewhere.
                yield its, [connection] if kind == "connections" else connection.engine.sessions()
        return
    for each in list(node.broker.vhosts.values()) if vhost is None else [vhost]:
        if kind == "vhosts":
            yield each, [each]
        elif kind == "exchanges":
            yield each, each.exchanges.values()
        elif kind == "cursors":
            yield each, each.cursors.values()
        else:
            yield each, each.queues.values()  # Bindings include that of every queue to the default exchange.
            if kind == "bindings":
                for exchange in list(each.exchanges.values()):
                    yield each, exchange.bindings.values()


def bindings_to(vhost: VirtualHost, queue: Queue | None, target: Exchange | None) -> list[Item]:
    """Return the bindings that lead to a queue, including that to the default exchange, or to an exchange."""
    found: list[Item] = []
    if queue is not None:
        found.append(Item(queue.name, vhost, queue))
        leading = vhost.bindings.to(QUEUE, queue.name)
    else:
        leading = [] if target is None else vhost.bindings.to(EXCHANGE, target.name)
    return found + [Item(binding.source.name, vhost, binding) for binding in leading]


def shape(node: Node, item: Item, ranges: SampleRanges | None = None) -> Shape:
    """Return one item of a list as plain data. Among bindings a queue stands for its default binding."""
    subject = item.subject
    vhost = item.vhost
    assert vhost is not None
    if isinstance(subject, Queue):
        return rabbitmq_json.queue_of(subject, node, ranges)
    if isinstance(subject, Exchange):
        return rabbitmq_json.exchange_of(vhost, subject, ranges)
    if isinstance(subject, Binding):
        return rabbitmq_json.binding_of(vhost, subject)
    if isinstance(subject, Session):
        return rabbitmq_json.channel_of(subject, node, ranges)
    if isinstance(subject, Consumer):
        return rabbitmq_json.consumer_of(subject, node)
    if isinstance(subject, Cursor):
        return cursor_view(subject, node)
    if isinstance(subject, VirtualHost):
        return rabbitmq_json.virtual_host(subject, node, ranges)
    assert isinstance(subject, Connection)
    return rabbitmq_json.connection_of(subject, node, ranges)


def shape_binding(node: Node, item: Item) -> Shape:
    """Return one item of `bindings` as plain data."""
    subject = item.subject
    return rabbitmq_json.default_binding(subject) if isinstance(subject, Queue) else shape(node, item)


def answer_steps(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer list {kind, after, count, everywhere}: a page, and where the next one begins (null at the end).

    The requesting connection and its exclusive objects are omitted. The page begins after `after` items. Declarations
    and deletions between two pages may shift the others by one.
    """
    kind = request.text("kind")
    if kind not in KINDS:
        raise PreconditionFailed(f"'kind' must be one of {', '.join(KINDS)}, not '{kind}'")
    after = request.amount("after", 0)
    count = max(min(request.amount("count", PAGE_MOST), PAGE_MOST), 1)
    everywhere = request.fields.get("everywhere") is True or kind == "vhosts"
    page = yield from window_steps(node, kind, None if everywhere else request.vhost, after, count)
    making = shape_binding if kind == "bindings" else shape
    items: list[Shape] = []
    for item in page.items:
        if (
            not _of_asker(item, request)
            and not _is_gone(item)
            and is_seen(node, item, request.access.rules, request.access.user)
        ):
            items.append(making(node, item))
        node.broker.work.done += _work_of(item)
        if node.broker.work.used_up():
            yield
    return {"items": items, "next": page.end(), "total": page.total}


def is_seen(node: Node, item: Item, rules: Rules, user: str) -> bool:
    """Tell whether an item of a list is shown to a user, as RabbitMQ filters its lists by tag.

    Connections, channels and consumers of others, and virtual hosts that the user may not enter, are shown to those
    with the tag monitoring; what is in such virtual hosts to administrators.
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


def _work_of(item: Item) -> int:
    """Return the units of work of one item: virtual hosts and cursors are shown with their queues."""
    subject = item.subject
    if isinstance(subject, Cursor):
        return ITEM_WORK + len(subject.positions) * POSITION_WORK
    return ITEM_WORK + (len(subject.queues) // SUMMED_A_UNIT if isinstance(subject, VirtualHost) else 0)


def _is_gone(item: Item) -> bool:
    """Tell whether a queue, or the queue of a consumer, was deleted since it was collected."""
    subject = item.subject
    queue = subject.queue if isinstance(subject, Consumer) else subject
    return isinstance(queue, Queue) and queue.deleted


def _of_asker(item: Item, request: ControlRequest) -> bool:
    """Tell whether the item is the requesting connection, its reply queue or its channel."""
    asker = request.connection
    subject = item.subject
    if asker is None:
        return False
    if isinstance(subject, Queue):
        return subject.owner is asker
    if isinstance(subject, Session):
        return subject.connection_number == asker.number
    if isinstance(subject, Consumer):
        return subject.queue.owner is asker
    return subject is asker
