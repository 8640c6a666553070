"""Lists of objects: references first, then plain data item by item, so that long lists do not block.

`groups` yields references some at a time, and `collected_steps` returns all of them. `shape` makes one of them plain
data. The control operation `list` answers a page; clients request one page after another.
"""

from __future__ import annotations

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
from penstock.management.paged_list import PAGE_MOST, Groups, Item, PagedList
from penstock.management.rabbitmq_json import SUMMED_A_UNIT, Shape
from penstock.protocols.common.connection import Connection

if TYPE_CHECKING:
    from penstock.management.node import Node

KINDS: Final = ("queues", "exchanges", "bindings", "connections", "channels", "consumers", "cursors", "vhosts")
ITEM_WORK: Final = 10
"""Units of work per shown item."""
QUEUES_AT_ONCE: Final = 250
"""Queues that are listed, or searched for consumers, per step."""


def collected_steps(node: Node, kind: str, vhost: VirtualHost | None) -> Steps[list[Item]]:
    """Return all items of a kind, each looked at once; what is created meanwhile may be missing."""
    return (yield from PagedList(groups(node, kind, vhost)).page_steps(UNLIMITED, node.broker.work))


def groups(node: Node, kind: str, vhost: VirtualHost | None) -> Groups:
    """Yield the items of a kind, of one virtual host or of all (None), some at a time.

    They are in the order of creation; consumers are in that of their queues, and bindings in that of where they lead.
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
        elif kind == "bindings":
            yield from binding_groups(each, True)
        else:
            for queues in each.roll.parts(QUEUES_AT_ONCE):
                yield each, _consumers(queues) if kind == "consumers" else queues


def _consumers(queues: list[Queue]) -> list[object]:
    """Return the consumers and browsers of some queues."""
    found: list[object] = []
    for queue in queues:
        found += queue.consumers
        found += browsers_of(queue)
    return found


def binding_groups(vhost: VirtualHost, with_default: bool) -> Groups:
    """Yield the bindings of a virtual host by destination; `with_default` has each queue for its default binding."""
    for queues in vhost.roll.parts(QUEUES_AT_ONCE):
        for queue in queues:
            if not queue.deleted:
                its: list[object] = [queue] if with_default else []
                its += vhost.bindings.to(QUEUE, queue.name)
                yield vhost, its
    for name in list(vhost.exchanges):
        yield vhost, vhost.bindings.to(EXCHANGE, name)


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

    The requesting connection and its exclusive objects are omitted. The page begins after `after` items.
    """
    kind = request.text("kind")
    if kind not in KINDS:
        raise PreconditionFailed(f"'kind' must be one of {', '.join(KINDS)}, not '{kind}'")
    count = max(min(request.amount("count", PAGE_MOST), PAGE_MOST), 1)
    everywhere = request.fields.get("everywhere") is True or kind == "vhosts"
    found = groups(node, kind, None if everywhere else request.vhost)
    page, following = yield from node.control.lists.page_steps(request, f"list {kind} {everywhere}", found, count)
    making = shape_binding if kind == "bindings" else shape
    items: list[Shape] = []
    for item in page:
        if (
            not _of_asker(item, request)
            and not _is_gone(item)
            and is_seen(node, item, request.access.rules, request.access.user)
        ):
            items.append(making(node, item))
        node.broker.work.done += _work_of(item)
        if node.broker.work.used_up():
            yield
    return {"items": items, "next": following}


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
