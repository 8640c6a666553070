"""Long lists on their way to clients, page by page.

References are collected some at a time, so that a list of any length takes little of a turn. What is there all the time
is in one page, and in no other: between two pages a list is kept where it is. A client that asks again for a page that
it had, or for one after 64 other lists, gets what is at that place now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.queue.cursor import Cursor
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding
from penstock.core.routing.exchange import Exchange
from penstock.core.vhost import VirtualHost
from penstock.flow.work import Steps, WorkMeter
from penstock.management.control_request import ControlRequest
from penstock.protocols.common.connection import Connection

PAGE_MOST: Final = 500
"""Most items of a page."""
BEGUN_MOST: Final = 64
"""Most lists that have begun and not ended."""
MADE_A_UNIT: Final = 5
"""Items that are collected per unit of work: an object is made for each."""

Groups = Iterator[tuple[VirtualHost, Collection[object]]]
"""Objects of a list some at a time, with their virtual host."""


class Item:
    """Item of a list; `name` is its sort key."""

    __slots__ = ("name", "vhost", "subject")

    def __init__(self, name: str, vhost: VirtualHost | None, subject: object) -> None:
        self.name = name
        self.vhost = vhost
        self.subject = subject


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


class PagedList:
    """A list of which a part has been shown."""

    def __init__(self, groups: Groups) -> None:
        self.shown: int = 0
        """Number of items of the pages so far."""
        self.ended: bool = False
        """True after the last page."""
        self._groups = groups
        self._collected: list[Item] = []
        """The first items of the next page."""

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
            work.done += seen // MADE_A_UNIT
            seen %= MADE_A_UNIT
            if work.used_up():
                yield
        self._collected = page[most:]
        del page[most:]
        self.ended = not self._collected
        self.shown += len(page)
        return page


class PagedLists:
    """The lists of which clients have not asked for the next page yet: the newest ones."""

    def __init__(self, work: WorkMeter) -> None:
        self._work = work
        self._begun: dict[tuple[int, str, int], PagedList] = {}
        """By number of the connection, what is listed, and number of the items shown."""

    def page_steps(
        self, request: ControlRequest, what: str, groups: Groups, most: int
    ) -> Steps[tuple[list[Item], int | None]]:
        """Return the page of a list after the item that a request names, and where the next one begins, or None."""
        after = request.amount("after", 0)
        number = 0 if request.connection is None else request.connection.number
        found = self._begun.pop((number, what, after), None)
        if found is None:
            found = PagedList(groups)
            while found.shown < after and not found.ended:
                yield from found.page_steps(min(after - found.shown, PAGE_MOST), self._work)
        items = yield from found.page_steps(most, self._work)
        if found.ended:
            return items, None
        self._begun[(number, what, found.shown)] = found
        if len(self._begun) > BEGUN_MOST:
            del self._begun[next(iter(self._begun))]
        return items, found.shown
