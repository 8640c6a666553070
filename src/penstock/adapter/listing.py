"""Lists of what there is: all of a kind, to be shaped a few at a time, so that no list keeps the broker from its work.

`collect` takes a snapshot of references, which is cheap however many there are; `shape` makes one of them plain data.
The control operation `list` answers a page of at most `PAGE_MOST`; who wants all asks for one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.adapter import shapes
from penstock.adapter.amqp091.channel import Channel
from penstock.adapter.amqp091.connection import Connection
from penstock.adapter.request import Request
from penstock.adapter.shapes import Shape
from penstock.core.binding import EXCHANGE, QUEUE, Binding
from penstock.core.consumer import Consumer
from penstock.core.exchange import Exchange
from penstock.core.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed

if TYPE_CHECKING:
    from penstock.adapter.hub import Hub

KINDS: Final = ("queues", "exchanges", "bindings", "connections", "channels", "consumers", "vhosts")
PAGE_MOST: Final = 500
"""Things in one answer of the control operation `list`."""
ITEM_WORK: Final = 4
COLLECTED_A_UNIT: Final = 10
"""Units of work of one thing that is shown, and things that are only passed over to the unit."""


class Item:
    """One thing of a list; `name` is what lists are ordered by."""

    __slots__ = ("name", "vhost", "thing")

    def __init__(self, name: str, vhost: VirtualHost | None, thing: object) -> None:
        self.name = name
        self.vhost = vhost
        self.thing = thing


def collect(hub: Hub, kind: str, vhost: VirtualHost | None) -> list[Item]:
    """Return all of a kind, of one virtual host or of all (None), by name."""
    vhosts = list(hub.broker.vhosts.values()) if vhost is None else [vhost]
    found: list[Item] = []
    if kind == "vhosts":
        found = [Item(each.name, each, each) for each in vhosts]
    elif kind == "queues":
        for each in vhosts:
            found += [Item(queue.name, each, queue) for queue in each.queues.values()]
    elif kind == "exchanges":
        for each in vhosts:
            found += [Item(exchange.name, each, exchange) for exchange in each.exchanges.values()]
    elif kind == "bindings":
        for each in vhosts:
            found += bindings(each)
        return found
    elif kind == "consumers":
        for each in vhosts:
            for queue in each.queues.values():
                found += [Item(queue.name, each, consumer) for consumer in queue.consumers]
    else:
        found = _of_connections(hub, kind, vhost)
        return found
    found.sort(key=_name)
    return found


def bindings(vhost: VirtualHost) -> list[Item]:
    """Return the bindings of a virtual host: first every queue's to the default exchange, then those that were made."""
    found = [Item(queue.name, vhost, queue) for queue in vhost.queues.values()]
    for exchange in vhost.exchanges.values():
        found += [Item(exchange.name, vhost, binding) for binding in exchange.bindings.values()]
    return found


def bindings_to(vhost: VirtualHost, queue: Queue | None, target: Exchange | None) -> list[Item]:
    """Return the bindings that lead to a queue, its own to the default exchange included, or to an exchange."""
    found: list[Item] = []
    if queue is not None:
        found.append(Item(queue.name, vhost, queue))
        leading = vhost.bindings.to(QUEUE, queue.name)
    else:
        leading = [] if target is None else vhost.bindings.to(EXCHANGE, target.name)
    return found + [Item(binding.source.name, vhost, binding) for binding in leading]


def _of_connections(hub: Hub, kind: str, vhost: VirtualHost | None) -> list[Item]:
    found: list[Item] = []
    for connection in hub.connections.values():
        if connection.vhost is None or (vhost is not None and connection.vhost is not vhost):
            continue  # It has not come so far as to be open yet, or is elsewhere.
        if kind == "connections":
            found.append(Item(connection.name(), connection.vhost, connection))
        else:
            found += [Item(channel.producer.name, channel.vhost, channel) for channel in connection.channels.values()]
    return found


def shape(hub: Hub, item: Item) -> Shape:
    """Return one thing of a list as plain data. A queue among bindings stands for its binding to the default one."""
    thing = item.thing
    vhost = item.vhost
    assert vhost is not None
    if isinstance(thing, Queue):
        return shapes.queue_of(thing, hub)
    if isinstance(thing, Exchange):
        return shapes.exchange_of(vhost, thing)
    if isinstance(thing, Binding):
        return shapes.binding_of(vhost, thing)
    if isinstance(thing, Channel):
        return shapes.channel_of(thing, hub)
    if isinstance(thing, Consumer):
        return shapes.consumer_of(thing, hub)
    if isinstance(thing, VirtualHost):
        return shapes.virtual_host(thing, hub)
    assert isinstance(thing, Connection)
    return shapes.connection_of(thing, hub)


def shape_binding(hub: Hub, item: Item) -> Shape:
    """Return one item of `bindings` as plain data."""
    thing = item.thing
    return shapes.default_binding(thing) if isinstance(thing, Queue) else shape(hub, item)


def answer(hub: Hub, request: Request) -> dict[str, object]:
    """list {kind, after, count, everywhere}: a page of a list, and where the next one begins (null: that was all).

    The connection that asks, and what is its own alone, is left out. The page begins `after` so many things; what is
    declared or deleted between two pages may shift the others by one.
    """
    kind = request.text("kind")
    if kind not in KINDS:
        raise PreconditionFailed(f"'kind' must be one of {', '.join(KINDS)}, not '{kind}'")
    after = request.amount("after", 0)
    count = max(min(request.amount("count", PAGE_MOST), PAGE_MOST), 1)
    everywhere = request.fields.get("everywhere") is True or kind == "vhosts"
    items = collect(hub, kind, None if everywhere else request.vhost)
    page = items[after : after + count]
    hub.broker.work.done += len(items) // COLLECTED_A_UNIT + len(page) * ITEM_WORK
    end = after + len(page)
    making = shape_binding if kind == "bindings" else shape
    return {
        "items": [making(hub, item) for item in page if not _of_asker(item, request)],
        "next": end if end < len(items) else None,
        "total": len(items),
    }


def _of_asker(item: Item, request: Request) -> bool:
    """Tell whether it is the connection that asks, or belongs to it: the queue for its answers, its channel."""
    asker = request.connection
    thing = item.thing
    if asker is None:
        return False
    if isinstance(thing, Queue):
        return thing.owner is asker
    if isinstance(thing, Channel):
        return thing.connection is asker
    if isinstance(thing, Consumer):
        return thing.queue.owner is asker
    return thing is asker


def _name(item: Item) -> str:
    return item.name
