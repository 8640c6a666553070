"""Lists: references first, then rows item by item, so that long lists do not block.

`collected_steps` returns references to all objects of a kind (`describe/list_kinds.py`), `chosen_steps` selects the
objects of a list, and `sorted_steps` sorts them. `Rows` converts a reference to a row. Clients of control operations
request one page after another (`PagedLists`). An object that exists all the time is in exactly one page, because a list
is stored between two pages. A client that requests a page again, or after 64 other lists, gets the objects that are at
that position now.

Most requested pages of queues are among the first pages. These pages need neither all queues in order nor an object for
each queue: `first_steps` keeps the best queues so far, and each other queue costs one comparison.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from penstock.access.rules import Rules
from penstock.connections.connection import Connection
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.describe.conditions import Key, key_of
from penstock.describe.list_kinds import ITEM_WORK, Groups, Item, ListKind, is_seen
from penstock.describe.message_stats import SampleRanges
from penstock.describe.table import ABSENT, DescribedNode, Field, Reading, Row, Table, field_at, reading
from penstock.flow.level import UNLIMITED
from penstock.flow.pool import STRANGER, IdleUnits, PoolHolder, Pools, PoolUnit
from penstock.flow.work import Steps, WorkMeter
from penstock.settings.pools import LISTS

T = TypeVar("T")
PAGE_DEFAULT: Final = 100
COLUMNS_MOST: Final = 256
"""Most columns of a request: each is looked up in each object."""
PAGE_MOST: Final = 500
"""Most items of a page."""
ALL_AT_ONCE: Final = 1 << 40
"""Most items of a page for several brokers, whose pages are joined: all."""
MADE_A_UNIT: Final = 5
"""Items that are collected per unit of work: an object is created for each."""
FIRST_MOST: Final = 500
"""Most queues that are kept; a later page needs a whole list in order."""
EXAMINED_AT_ONCE: Final = 50
"""Queues examined between two checks of the share of the slice: a unit of work each."""
STORED_MOST: Final = 100_000
"""Most references of lists in an order that wait for their next page; a longer list is sorted again for each."""
SORTED_AT_ONCE: Final = 250
MERGED_AT_ONCE: Final = 50
"""References sorted, and merged, per step."""
SORTED_A_UNIT: Final = 3
"""References sorted per unit of work; one is merged."""
LOOKED_AT_ONCE: Final = 50
"""Items of which a step checks the name or a field."""
NUMBER_WORK: Final = 1
FIELD_WORK: Final = 6
"""Units of work to read a number of an item, or another field of it; more fields cost as much as its row."""

Rank = tuple[Any, ...]
"""Numbers and texts that determine the order of objects."""


class Best(Generic[T]):
    """The offered objects with the lowest or highest ranks; of equal ranks the earliest offered."""

    def __init__(self, count: int, highest: bool = False) -> None:
        self._count = count
        self._highest = highest
        self._best: list[tuple[Rank, int, T]] = []
        """Objects with the number of each offer, negative for the highest ranks, so that all entries differ."""
        self._last: Rank | None = None
        """Rank of the last of the best, when there are as many as requested."""
        self._offered: int = 0

    def offer(self, rank: Rank, subject: T) -> None:
        """Add an object, unless enough offered objects precede it."""
        last = self._last
        if last is not None and (rank < last if self._highest else rank > last):
            return
        self._offered += 1
        self._best.append((rank, -self._offered if self._highest else self._offered, subject))
        if len(self._best) >= 2 * self._count + EXAMINED_AT_ONCE:
            self._cut()

    def ranked(self) -> list[T]:
        """Return the objects in order of their ranks."""
        self._cut()
        return [subject for _, _, subject in self._best]

    def _cut(self) -> None:
        self._best.sort(reverse=self._highest)
        del self._best[self._count :]
        if len(self._best) == self._count:
            self._last = self._best[-1][0]


# Listed objects


def collected_steps(node: DescribedNode, kind: ListKind, vhost: VirtualHost | None) -> Steps[list[Item]]:
    """Return all items of a kind, each examined once. Items created meanwhile may be missing."""
    grouped = kind.groups(node, vhost)
    return (yield from PagedList(grouped, kind.name_of, kind.fifths).page_steps(UNLIMITED, node.broker.work))


class Rows:
    """Rows of one list: whole, or with only the fields at these paths."""

    def __init__(
        self, node: DescribedNode, kind: ListKind, ranges: SampleRanges | None = None, paths: Sequence[str] = ()
    ) -> None:
        self.node = node
        self.kind = kind
        self._ranges = ranges
        self._paths = paths
        self._table: Table[Any] | None = None
        self._fields: list[Field[Any]] | None = None
        """Fields of the table; None for all."""

    def of(self, subject: object) -> Row:
        """Return the row of an object."""
        table = self.kind.table_of(subject)
        if table is not self._table:
            self._table = table
            self._fields = table.select(self._paths) if self._paths else None
        return table.row(subject, reading(self.node, self._ranges), self._fields)


class Column:
    """One column of a list: the field of its items at a path."""

    def __init__(self, node: DescribedNode, kind: ListKind, path: str) -> None:
        self.path = path
        self._node = node
        self._rows = Rows(node, kind, None, [path])
        self._number = kind.table.number(path) if kind.of_default is None else None
        fields = len(kind.table.select([path]))
        self.work: int = NUMBER_WORK if self._number is not None else FIELD_WORK if fields <= 1 else ITEM_WORK
        """Units of work per item."""

    def value(self, item: Item) -> object:
        """Return the value of an item; None for a missing value."""
        if self._number is None:
            return field_at(self._rows.of(item.subject), self.path)
        value = self._number.value(item.subject, reading(self._node))
        return None if value is ABSENT else value

    def keys_steps(self, items: list[Item]) -> Steps[list[Key]]:
        """Return the sort keys of items."""
        work, keys = self._node.broker.work, []
        for start in range(0, len(items), LOOKED_AT_ONCE):
            if self._number is not None:
                part = items[start : start + LOOKED_AT_ONCE]
                keys += [key_of(self.value(item)) for item in part]
                if work.spend(len(part) * NUMBER_WORK):
                    yield
                continue
            for item in items[start : start + LOOKED_AT_ONCE]:
                keys.append(key_of(self.value(item)))
                if work.spend(self.work):
                    yield
        return keys


def chosen_steps(
    work: WorkMeter, items: list[Item], is_chosen: Callable[[Item], bool], units: int
) -> Steps[list[Item]]:
    """Return the items that a function selects; the function costs `work` units for `LOOKED_AT_ONCE` items."""
    chosen: list[Item] = []
    owed = 0
    for start in range(0, len(items), LOOKED_AT_ONCE):
        part = items[start : start + LOOKED_AT_ONCE]
        if units <= LOOKED_AT_ONCE:
            chosen += [item for item in part if is_chosen(item)]
            if work.spend(units):
                yield
            continue
        for item in part:
            if is_chosen(item):
                chosen.append(item)
            owed += units
            if work.spend(owed // LOOKED_AT_ONCE):
                yield
            owed %= LOOKED_AT_ONCE
    return chosen


def seen_steps(node: DescribedNode, items: list[Item], rules: Rules, user: str) -> Steps[list[Item]]:
    """Return the items that a user may see."""
    units = LOOKED_AT_ONCE // MADE_A_UNIT
    return chosen_steps(node.broker.work, items, lambda item: is_seen(node, item, rules, user), units)


def sorted_steps(work: WorkMeter, items: list[Item], keys: Sequence[Any], descending: bool) -> Steps[list[Item]]:
    """Return items in the order of their keys, and of equal keys in the order of the items: sorted, then merged."""
    sign = -1 if descending else 1
    runs: list[list[tuple[Any, int]]] = []
    for start in range(0, len(items), SORTED_AT_ONCE):
        run = [(keys[place], sign * place) for place in range(start, min(start + SORTED_AT_ONCE, len(items)))]
        run.sort(reverse=descending)
        runs.append(run)
        if work.spend(len(run) // SORTED_A_UNIT):
            yield
    if len(runs) == 1:
        return [items[abs(place)] for _, place in runs[0]]
    merged: list[Item] = []
    for _, place in heapq.merge(*runs, reverse=descending):
        merged.append(items[abs(place)])
        if len(merged) % MERGED_AT_ONCE == 0 and work.spend(MERGED_AT_ONCE):
            yield
    return merged


class Found:
    """References of a list or of one page, with the requested rows."""

    def __init__(self, rows: Rows, items: list[Item], total: int, filtered: int, following: int | None = None) -> None:
        self.rows = rows
        self.items = items
        self.total = total
        """Number of all objects that the user may see."""
        self.filtered = filtered
        """Number of those that the list is about."""
        self.following = following
        """Place of the next page, for a client that asks one after another; None at the end."""
        self.page: int = 0
        """Number of this page; 0 for a list without numbers."""
        self.page_size: int = 0
        self.own: Row = {}
        """Numbers of a page that RabbitMQ does not have."""

    def head(self) -> Row:
        """Return the numbers of a page, and those of Penstock's own."""
        return {**self.numbers(), "penstock": self.own} if self.own else self.numbers()

    def pages(self) -> int:
        """Return the number of pages."""
        return max((self.filtered + self.page_size - 1) // self.page_size, 1)

    def numbers(self) -> Row:
        """Return the numbers of a page, in RabbitMQ's form."""
        return {
            "filtered_count": self.filtered,
            "item_count": len(self.items),
            "page": self.page,
            "page_count": self.pages(),
            "page_size": self.page_size,
            "total_count": self.total,
        }


# Page by page


class PagedList(PoolUnit):
    """A list of which some pages have been returned."""

    def __init__(
        self,
        groups: Groups,
        name_of: Callable[[Any], str] | None = None,
        fifths: int = 1,
        items: list[Item] | None = None,
    ) -> None:
        """`items` are the sorted items of a list; a sorted list has no groups."""
        self.holder = STRANGER
        self.key: tuple[int, str, int] = (0, "", 0)
        """Number of the connection, kind of items, and number of the items shown."""
        self.shown: int = 0
        """Number of items of the pages so far."""
        self.ended: bool = False
        """True after the last page."""
        self._groups = groups
        self._name_of = name_of
        self._fifths = fifths
        self._collected: list[Item] = [] if items is None else items
        """The first items of the next page."""
        self.in_order: bool = items is not None
        """True if all items are collected, in an order."""

    def wait(self, number: int, what: str, user: str) -> None:
        """Record the client whose next request the list waits for."""
        self.key = (number, what, self.shown)
        self.holder = PoolHolder(user, "")

    def stored(self) -> int:
        """Return the number of references kept until the next page, for lists that may be long."""
        return len(self._collected) if self.in_order else 0

    def page_steps(self, most: int, work: WorkMeter) -> Steps[list[Item]]:
        """Return the next items."""
        page = self._collected
        seen = 0
        while len(page) <= most:
            group = next(self._groups, None)
            if group is None:
                break
            vhost, name_of = group[0], self._name_of
            page += [Item("" if name_of is None else name_of(each), vhost, each) for each in group[1]]
            seen += 1 + len(group[1]) * self._fifths
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
        self.stored_most: int = STORED_MOST
        self._stored: int = 0
        """References of lists in an order."""
        self._begun: dict[tuple[int, str, int], PagedList] = {}
        """Begun lists by number of the connection, kind of items, and number of the items shown."""

    def page_steps(
        self, asker: Connection | None, after: int, what: str, begun: PagedList, most: int
    ) -> Steps[tuple[list[Item], int | None]]:
        """Return the page of a list after so many items, and the beginning of the next page, or None.

        `begun` is the list itself if the list is not stored.
        """
        kept = self.take(asker, what, after)
        if kept is not None:
            begun = kept
        while begun.shown < after and not begun.ended:
            yield from begun.page_steps(min(after - begun.shown, PAGE_MOST), self._work)
        items = yield from begun.page_steps(most, self._work)
        if begun.ended:
            return items, None
        begun.wait(0 if asker is None else asker.number, what, "" if asker is None else asker.user)
        self._keep(begun)
        return items, begun.shown

    def take(self, asker: Connection | None, what: str, after: int) -> PagedList | None:
        """Take a list whose next page begins after so many items; None for a forgotten list."""
        begun = self._begun.get((0 if asker is None else asker.number, what, after))
        if begun is not None:
            self._end(begun)
        return begun

    def _keep(self, begun: PagedList) -> None:
        """Keep a list until its next page is requested. At a bound the oldest list is forgotten."""
        before = self._begun.get(begun.key)
        if before is not None:
            self._end(before)
        if begun.stored() > self.stored_most:
            return
        while self._stored + begun.stored() > self.stored_most:
            self._end(next(each for each in self._begun.values() if each.in_order))
        oldest = self._idle.to_displace(1)
        if isinstance(oldest, PagedList):
            self._end(oldest)
        self._pool.add(begun.holder, 1)
        self._stored += begun.stored()
        self._begun[begun.key] = begun
        self._idle.rest(begun)

    def _end(self, begun: PagedList) -> None:
        del self._begun[begun.key]
        self._stored -= begun.stored()
        self._idle.wake(begun)
        self._pool.give(begun.holder, 1)


# The first queues in an order


class Search:
    """The first queues in an order, with their ranks."""

    def __init__(self, count: int, backwards: bool) -> None:
        """`backwards`: the highest rank is first."""
        self.best: Best[Queue] = Best(count, backwards)
        self.total: int = 0
        """Number of queues that exist for whom it is."""
        self.filtered: int = 0
        """Number of the wanted ones."""

    def examine(self, queues: list[Queue], at: Reading) -> None:
        """Offer the requested queues among these, each with its rank, and count the requested queues."""
        raise NotImplementedError


class QueueOrder(Search):
    """Order of queues by a number, and among equals by name; without a number by name.

    Only queues whose name contains a text in lower case are returned, without queues of the requesting connection.
    """

    def __init__(
        self, number: Field[Queue] | None, reverse: bool, count: int, wanted: str = "", asker: Connection | None = None
    ) -> None:
        super().__init__(count, reverse and number is None)
        self._number = number
        self._sign: float = -1.0 if reverse else 1.0
        self._wanted = wanted
        self._asker = asker

    @override
    def examine(self, queues: list[Queue], at: Reading) -> None:
        wanted, asker, best, number, sign = self._wanted, self._asker, self.best, self._number, self._sign
        for queue in queues:
            if queue.deleted or (asker is not None and queue.owner is asker):
                continue
            self.total += 1
            if not wanted or wanted in queue.name.lower():
                self.filtered += 1
                value = None if number is None else number.value(queue, at)
                if isinstance(value, (int, float)):
                    best.offer((sign, value * sign, queue.name), queue)
                else:  # A missing number is before all numbers, as in `key_of`.
                    best.offer((0.0, 0.0, queue.name), queue)


def first_steps(node: DescribedNode, vhosts: list[VirtualHost], search: Search) -> Steps[list[Item]]:
    """Return the first queues of virtual hosts. Queues that are created meanwhile may be missed."""
    work = node.broker.work
    homes: dict[str, VirtualHost] = {}
    at = reading(node)
    for each in vhosts:
        homes[each.name] = each
        for part in each.roll.parts(EXAMINED_AT_ONCE):
            search.examine(part, at)
            if work.spend(EXAMINED_AT_ONCE):
                yield
    return [Item(queue.name, homes[queue.vhost], queue) for queue in search.best.ranked()]
