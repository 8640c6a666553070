"""Lists of what there is: all of a kind, to be shaped a few at a time, so that no list keeps the broker from its work.

`window` takes references to some of them, which is cheap however many there are; `shape` makes one of them plain data.
The control operation `list` answers a page of at most `PAGE_MOST`; who wants all asks for one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from penstock.adapter import shapes
from penstock.adapter.amqp091.channel import Channel
from penstock.adapter.amqp091.connection import Connection
from penstock.adapter.request import Request
from penstock.adapter.shapes import Shape
from penstock.core.binding import EXCHANGE, QUEUE, Binding
from penstock.core.consumer import Consumer
from penstock.core.cursor import Cursor
from penstock.core.exchange import Exchange
from penstock.core.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed

if TYPE_CHECKING:
    from penstock.adapter.hub import Hub

KINDS: Final = ("queues", "exchanges", "bindings", "connections", "channels", "consumers", "cursors", "vhosts")
PAGE_MOST: Final = 500
"""Things in one answer of the control operation `list`."""
ITEM_WORK: Final = 4
COLLECTED_A_UNIT: Final = 50
"""Units of work of one thing that is shown, and things that are only passed over to the unit."""


class Item:
    """One thing of a list; `name` is what lists may be ordered by."""

    __slots__ = ("name", "vhost", "thing")

    def __init__(self, name: str, vhost: VirtualHost | None, thing: object) -> None:
        self.name = name
        self.vhost = vhost
        self.thing = thing


class Window:
    """A part of a long list: so many things at most, after so many others. What goes before is passed over, unseen."""

    def __init__(self, after: int, count: int) -> None:
        self.items: list[Item] = []
        self.total: int = 0
        """Things in the whole list."""
        self._after = after
        self._count = count

    def offer(self, vhost: VirtualHost, things: Collection[object]) -> None:
        """Take from these what falls into the window; they come after what was offered before."""
        first = max(self._after - self.total, 0)
        room = self._count - len(self.items)
        if room > 0 and first < len(things):
            for thing in itertools.islice(things, first, first + room):
                self.items.append(Item(name_of(thing), vhost, thing))
        self.total += len(things)

    def end(self) -> int | None:
        """Return after how many things the next window begins; None if this is the last one."""
        end = self._after + self._count
        return end if end < self.total else None


def name_of(thing: object) -> str:
    """Return what a thing is ordered by in lists."""
    if isinstance(thing, Queue | Exchange | VirtualHost | Cursor):
        return thing.name
    if isinstance(thing, Binding):
        return thing.source.name
    if isinstance(thing, Consumer):
        return thing.queue.name
    if isinstance(thing, Channel):
        return thing.producer.name
    return thing.name() if isinstance(thing, Connection) else ""


def window(hub: Hub, kind: str, vhost: VirtualHost | None, after: int, count: int) -> Window:
    """Return a window of all of a kind, of one virtual host or of all (None), in the order in which they were made."""
    found = Window(after, count)
    vhosts = list(hub.broker.vhosts.values()) if vhost is None else [vhost]
    if kind in ("connections", "channels"):
        for connection in hub.connections.values():
            its = connection.vhost
            if its is not None and (vhost is None or its is vhost):  # Else it is not open yet, or elsewhere.
                found.offer(its, [connection] if kind == "connections" else connection.channels.values())
        return found
    if kind == "cursors":
        for cursor in hub.control.cursors.values():
            if vhost is None or cursor.vhost == vhost.name:
                found.offer(hub.broker.vhosts[cursor.vhost], [cursor])
        return found
    for each in vhosts:
        if kind == "vhosts":
            found.offer(each, [each])
        elif kind == "exchanges":
            found.offer(each, each.exchanges.values())
        elif kind == "consumers":
            for queue in each.queues.values():
                if queue.consumers:
                    found.offer(each, queue.consumers)
        else:
            found.offer(each, each.queues.values())  # Among bindings: every queue's to the default exchange.
            if kind == "bindings":
                for exchange in each.exchanges.values():
                    found.offer(each, exchange.bindings.values())
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
    if isinstance(thing, Cursor):
        return shapes.cursor_of(thing, hub)
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
    page = window(hub, kind, None if everywhere else request.vhost, after, count)
    hub.broker.work.done += page.total // COLLECTED_A_UNIT + len(page.items) * ITEM_WORK
    making = shape_binding if kind == "bindings" else shape
    return {
        "items": [making(hub, item) for item in page.items if not _of_asker(item, request)],
        "next": page.end(),
        "total": page.total,
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
