"""Iterations that ask page by page: lists, messages of a queue, and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.client.control_operations import Answer, Names, asking
from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Steps, Wait
from penstock.client.shells import Pages


class ListPages(Pages[Answer]):
    """Pages of a list."""

    def __init__(self, engine: Engine, fields: Answer) -> None:
        self._engine = engine
        self._fields = fields
        self._after: int | None = 0

    def following(self) -> Steps[Sequence[Answer]]:
        """See `Pages.following`."""
        while self._after is not None:
            page = yield from asking(self._engine, "list", {**self._fields, "after": self._after})
            self._after = page["next"]
            if page["items"]:
                return list(page["items"])
        return ()


def list_(
    engine: Engine, kind: str, *, everywhere: bool = False, sort: Names | None = None, filters: Names | None = None
) -> Pages[Answer]:
    """Yield all objects of a kind, page by page: "queues", "exchanges", "bindings", "connections", "channels",
    "consumers", "cursors" or "vhosts".

    Of this connection's virtual host, or of all. Objects that are created meanwhile may be missing. `sort` are paths of
    fields, descending with a minus: "-messages"; without any the order is that of creation. `filters` are conditions
    that an object must meet: "messages>9", "name~^eu".
    """
    fields: Answer = {"kind": kind, "everywhere": everywhere}
    if sort is not None:
        fields["sort"] = list(sort)
    if filters is not None:
        fields["filters"] = list(filters)
    return ListPages(engine, fields)


class BrowsePages(Pages[Answer]):
    """Messages of a queue, page by page."""

    def __init__(self, engine: Engine, fields: Answer, limit: int | None) -> None:
        self._engine = engine
        self._fields = fields
        self._left = limit
        self.next: int | None = fields["from"] or 0
        """Position after the messages so far; None at the end of the queue."""

    def following(self) -> Steps[Sequence[Answer]]:
        """See `Pages.following`."""
        while self.next is not None and self._left != 0:
            limit = BROWSED_AT_ONCE if self._left is None else min(self._left, BROWSED_AT_ONCE)
            fields = {**self._fields, "from": self.next, "limit": limit}
            page = yield from asking(self._engine, "messages.browse", fields)
            self.next = page["next"]
            messages: list[Answer] = page["messages"]
            if messages:
                self._left = None if self._left is None else self._left - len(messages)
                return messages
        return ()


BROWSED_AT_ONCE: Final = 1000
"""Most messages of a page; the broker ends a page before that if the messages are large."""


def browse(
    engine: Engine,
    queue: str,
    *,
    filter: str = "",
    limit: int | None = None,
    start: int = 0,
    truncate: int | None = None,
    skip: int = 0,
    key: str = "",
    headers: Names = (),
    body: str = "",
    reason: str = "",
) -> Pages[Answer]:
    """Yield messages of a queue in the order of their positions, without taking them: nothing is delivered or marked.

    Each is an object with `position`, `state` ("ready", "unacked" or "paged"), `holder` (who has an unacknowledged
    one), `age_s`, `properties`, `payload` and `payload_encoding` ("string" or "base64"). `filter` is a selector, and
    `start` the first position, which is the offset in a stream. `truncate` is the most bytes of a payload (None: 1
    MiB); a longer one is `truncated`. Its first `skip` bytes are left out, and the rest is in base64. Messages that
    move meanwhile may be missing.

    Messages that meet all conditions are shown. `key` is a routing key, in which * stands for any text; `headers` are
    texts NAME=VALUE. `body` is a text in the body, and `reason` that of a dead letter. Raises `ControlError` 404, and
    406 for an invalid selector.
    """
    fields: Answer = {
        "queue": queue,
        "filter": filter or None,
        "from": start,
        "truncate": truncate,
        "skip": skip or None,
        "key": key or None,
        "header": list(headers) or None,
        "body": body or None,
        "reason": reason or None,
    }
    return BrowsePages(engine, fields, limit)


WATCH_PERIOD: Final = 0.5
"""Seconds between two questions for events."""


class WatchPages(Pages[Answer]):
    """Events of the flow log, one page whenever there are any."""

    def __init__(self, engine: Engine, queue: str | None, period: float) -> None:
        self._engine = engine
        self._queue = queue
        self._period = period
        self._after: int | None = None

    def following(self) -> Steps[Sequence[Answer]]:
        """See `Pages.following`."""
        engine = self._engine
        while True:
            page = yield from asking(engine, "watch", {"after": self._after, "queue": self._queue})
            self._after = page["next"]
            if page["items"]:
                return list(page["items"])
            yield from engine.until(Wait(), self._period)


def watch(engine: Engine, queue: str | None = None, *, period: float = WATCH_PERIOD) -> Pages[Answer]:
    """Yield the events of the flow log (docs/flow-log.md) from now on, of a queue or all, without an end.

    The broker is asked each `period` seconds, and has the last 2,000 events. Events that arrive faster than they are
    read are lost, and an event "lost" has their number as `count`. One page of at most 500 events is in memory. Raises
    `ControlError` 406 if the broker has no flow log.
    """
    return WatchPages(engine, queue, period)
