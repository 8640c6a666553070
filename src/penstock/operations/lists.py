"""Lists: one query and one handler for all planes.

A plane reads a `ListQuery` of its request. `found_steps` answers it with references (`Found`): those of a page, or all.
Rows are made of them where they are written, some at a time: by `answer_list` here, and by HTTP as it streams them.

A list is in the order of its kind: by name, or by creation. Pages of the control exchange that follow each other are in
the order of creation unless a request has `sort`, so that the first one needs no other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.connections.authorization import check_tag
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.queue.queue import Queue
from penstock.core.settings.policies import PolicyPattern
from penstock.core.vhost import VirtualHost
from penstock.describe.conditions import Condition, condition_of, holds
from penstock.describe.list_kinds import (
    QUEUES,
    Groups,
    Item,
    ListKind,
    is_gone,
    is_seen,
    names_of,
    seen_vhosts,
    work_of,
)
from penstock.describe.lists import (
    ALL_AT_ONCE,
    COLUMNS_MOST,
    FIRST_MOST,
    LOOKED_AT_ONCE,
    PAGE_DEFAULT,
    PAGE_MOST,
    Column,
    Found,
    PagedList,
    QueueOrder,
    Rows,
    Search,
    chosen_steps,
    collected_steps,
    first_steps,
    seen_steps,
    sorted_steps,
)
from penstock.describe.message_stats import SampleRange, SampleRanges
from penstock.describe.queue_groups import GROUP_COLUMN, GroupCounts, GroupOrder, is_in
from penstock.describe.queue_state import CHOICES, group_of, has_dead_letters
from penstock.describe.table import Reading, Row, reading
from penstock.errors import AccessRefused, ConfigError, PreconditionFailed
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import (
    ALL,
    BY_VHOST,
    CATALOGUE,
    JOINED,
    LOOKS,
    OBJECT,
    PAGES,
    VHOST,
    Answer,
    Choice,
    Join,
    Operation,
    Route,
    Run,
)
from penstock.operations import joins
from penstock.texts import nearest, worded

FIELDS: Final[tuple[str, ...]] = (
    *("kind", "after", "count", "everywhere", "columns", "sort", "reverse"),
    *("named", "regex", "filters", "page", "page_size", "rates", "lengths", "state", "groups"),
)
"""Fields of a request for a list."""
COLUMN_CHARACTERS: Final = 128
"""Most characters of the name of a column: each is looked up in each object."""
SHOWN_CHARACTERS: Final = 40
"""Characters of a name that is too long which its error quotes."""
TEXT_CHARACTERS: Final = 1_000
"""Most characters of a text to search for: a list that waits for its next page stores the texts."""
CONDITIONS_MOST: Final = 32
"""Most columns to sort by, and most conditions: each is a pass through all items."""
SEARCH_UNITS: Final = LOOKED_AT_ONCE // 2
"""Units of work to search so many names for a text."""
GROUP_WORK: Final = 3
"""Units of work to find the group of a queue."""
EXPRESSION_WORK: Final = 40
"""Units of work to match a name with an expression: RE2 takes up to half a millisecond."""
OPTIONAL: Final[tuple[str, ...]] = ("policy", "operator_policy", "effective_policy_definition", "backing_queue_status")
"""Fields that the broker leaves out where there is nothing to tell, and that no table names."""
SAMPLED: Final = 100
"""Objects of which one has a column that no table names."""


class Order(NamedTuple):
    """A column to sort by."""

    column: str
    descending: bool


class ListQuery(NamedTuple):
    """Kind of a list, the choice and the order of its objects, and the part that is wanted."""

    kind: ListKind
    vhost: VirtualHost | None
    """None for all that the user may see."""
    whole: bool
    """True for HTTP: all items without a page, and a column that no object has is no error (as in RabbitMQ)."""
    columns: tuple[str, ...]
    """Paths of the wanted fields; none for all."""
    orders: tuple[Order, ...]
    """Columns to sort by; none for the order of the kind."""
    reverse: bool
    name: str
    """Text that is part of the names, in either case; "" for all."""
    expression: PolicyPattern | None
    """Expression in its place."""
    conditions: tuple[Condition, ...]
    page: int
    """Number of the page; 0 for none."""
    page_size: int
    after: int
    most: int
    """Most items after so many, without a number of a page."""
    ranges: SampleRanges | None
    joined: bool
    """True if several brokers are asked for the list: this one answers with all that may be shown of the first items.
    """
    state: str
    """Choice of queues by their state; "" for all."""
    grouped: bool
    """True for queues in the order of their groups first, with the number of queues in each."""

    def is_plain(self) -> bool:
        """Return whether the list is in the order in which its objects are found, and has all of them."""
        ordered = self.orders or self.reverse or (self.kind.by_name and (self.whole or self.page))
        return not (ordered or self.name or self.conditions or self.state)

    def title(self) -> str:
        """Return what the list is of, for its next page."""
        where = "" if self.vhost is None else self.vhost.name
        chosen = (self.name, self.expression is not None, self.conditions, self.state)
        return f"list {self.kind.name} {where!r} {self.orders} {self.reverse} {chosen}"


def list_query(node: Node, request: ControlRequest, kind: ListKind) -> ListQuery:
    """Read the query of a request. Raises PreconditionFailed (406) for a field that is invalid, or has too much."""
    fields = request.fields
    whole = fields.get("whole") is True
    everywhere = kind.everywhere or ("vhost" not in fields if whole else fields.get("everywhere") is True)
    name, page = request.text("named", ""), request.amount("page", 0)
    if not whole:
        _check_length(name, "named")
    size = request.amount("page_size", PAGE_DEFAULT)
    joined = fields.get(JOINED) is True
    state, grouped = _state(request, kind, page)
    most = ALL_AT_ONCE if joined else PAGE_MOST
    if not 1 <= size <= most:
        raise PreconditionFailed(f"page_size must be between 1 and {PAGE_MOST}, not {size}")
    return ListQuery(
        kind,
        None if everywhere else request.vhost,
        whole,
        _columns(request, joined),
        (Order(GROUP_COLUMN, request.flag("reverse")), *_orders(request)) if grouped else _orders(request),
        request.flag("reverse"),
        name,
        PolicyPattern(name, True) if name and request.flag("regex") else None,
        _conditions(request),
        page,
        size,
        request.amount("after", 0),
        max(min(request.amount("count", PAGE_MOST), most), 1),
        sample_ranges(node, request),
        joined,
        state,
        grouped,
    )


def _state(request: ControlRequest, kind: ListKind, page: int) -> tuple[str, bool]:
    """Return the choice of queues by their state, and whether they are in groups.

    Raises PreconditionFailed (406) for an unknown choice, and for lists that have no groups.
    """
    given, grouped = request.fields.get("state"), request.flag("groups")
    if given is None and not grouped:
        return "", False
    if kind.name != QUEUES.name:
        raise PreconditionFailed(f"'state' and 'groups' choose queues: a list of {kind.name} has no groups")
    if grouped and not page:
        raise PreconditionFailed("'groups' counts the queues of a page: give 'page' too")
    if given is not None and given not in CHOICES:
        raise PreconditionFailed(f"'state' must be one of {', '.join(CHOICES)}, not {worded(given)}")
    return ("" if given is None else str(given)), grouped


def _columns(request: ControlRequest, joined: bool) -> tuple[str, ...]:
    """Return the wanted columns. Raises PreconditionFailed (406) for too many, or too long ones."""
    columns = _some(request, "columns")
    if not joined:  # Else the columns of the order are among them.
        check_columns(len(columns))
    return tuple([short_column(each, "columns") for each in columns])


def check_columns(count: int) -> None:
    """Check the number of columns. Raises PreconditionFailed (406)."""
    if count > COLUMNS_MOST:
        raise PreconditionFailed(f"columns names {count:,} columns; at most {COLUMNS_MOST} are permitted")


def short_column(path: str, field: str) -> str:
    """Check the length of a column's name. Raises PreconditionFailed (406)."""
    if len(path) > COLUMN_CHARACTERS:
        start = path[:SHOWN_CHARACTERS]
        raise PreconditionFailed(
            f"{field} has a column of {len(path):,} characters that begins with '{start}'; "
            f"at most {COLUMN_CHARACTERS} are permitted"
        )
    return path


def _orders(request: ControlRequest) -> tuple[Order, ...]:
    given = _few(request, "sort")
    return tuple([Order(short_column(each.removeprefix("-"), "sort"), each.startswith("-")) for each in given])


def _conditions(request: ControlRequest) -> tuple[Condition, ...]:
    try:
        conditions = tuple([condition_of(each) for each in _few(request, "filters")])
    except ConfigError as error:
        raise PreconditionFailed(str(error)) from None
    for each in conditions:
        short_column(each.column, "filters")
        _check_length(each.value, "filters")
    return conditions


def _check_length(text: str, field: str) -> None:
    """Check the length of a text that is stored with a list. Raises PreconditionFailed (406)."""
    if len(text) > TEXT_CHARACTERS:
        start = text[:SHOWN_CHARACTERS]
        raise PreconditionFailed(
            f"'{field}' has a text of {len(text):,} characters that begins with '{start}'; at most "
            f"{TEXT_CHARACTERS:,} are permitted"
        )


def _some(request: ControlRequest, field: str) -> list[str]:
    """Return a list of strings; [] if it is absent or null."""
    given = request.fields.get(field)
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise PreconditionFailed(f"'{field}' must be a list of strings, not {worded(given)}")
    return given


def _few(request: ControlRequest, field: str) -> list[str]:
    given = _some(request, field)
    if len(given) > CONDITIONS_MOST:
        raise PreconditionFailed(f"'{field}' has {len(given):,} entries; at most {CONDITIONS_MOST} are permitted")
    return given


def sampled(node: Node, request: ControlRequest) -> Reading:
    """Return a reading of the broker now, with the wanted samples."""
    return reading(node, sample_ranges(node, request))


def sample_ranges(node: Node, request: ControlRequest) -> SampleRanges | None:
    """Return the wanted samples: age and increment of those of rates and of lengths, in seconds."""
    rates, lengths = _range(request, "rates"), _range(request, "lengths")
    return None if rates is None and lengths is None else SampleRanges(rates, lengths, node.broker.wall_offset)


def _range(request: ControlRequest, field: str) -> SampleRange | None:
    given = request.fields.get(field)
    if given is None:
        return None
    if isinstance(given, list) and len(given) == 2:
        age, increment = given
        if isinstance(age, int) and isinstance(increment, int) and age > 0 and increment > 0:
            return SampleRange(age, increment)
    raise PreconditionFailed(f"'{field}' must be a list of age and increment in seconds, not {worded(given)}")


# The handler


def _checked_steps(node: Node, request: ControlRequest, query: ListQuery) -> Steps[None]:
    """Check that objects have the columns of the order and of the conditions.

    Raises PreconditionFailed (406) for one that neither the table nor any of the first objects has; without objects
    nobody knows.
    """
    table, access, work = query.kind.table, request.access, node.broker.work
    named = [*(order.column for order in query.orders), *(each.column for each in query.conditions)]
    known = ("name", *OPTIONAL)
    unknown = [each for each in named if each.split(".")[0] not in known and not table.has(each)]
    if not unknown:
        return
    names, rows, looked = table.names(), Rows(node, query.kind), 0
    for vhost, subjects in query.kind.groups(node, query.vhost):
        for item in [Item("", vhost, subject) for subject in islice(subjects, SAMPLED - looked)]:
            if is_seen(node, item, access.rules, access.user) and not is_gone(item):
                names += [name for name in rows.of(item.subject) if name not in names]
                looked += 1
            if work.spend(work_of(item)):
                yield
        if looked >= SAMPLED:
            break
        if work.spend(1):
            yield
    for column in unknown if looked else ():
        if column.split(".")[0] not in names:
            near = nearest(column, names)
            hint = f"did you mean {near}? " if near else ""
            raise PreconditionFailed(f"no column '{column:.100}'; {hint}Known are {', '.join(sorted(names))}")


def found_steps(node: Node, request: ControlRequest, query: ListQuery, grouped: Groups | None = None) -> Steps[Found]:
    """Return the references of a list, or of a page of it; `grouped` are its objects, if they are not all of a kind."""
    if not query.whole:
        yield from _checked_steps(node, request, query)
    rows = Rows(node, query.kind, query.ranges, query.columns)
    if query.page:
        return (yield from _page_steps(node, request, query, grouped, rows))
    if query.whole:
        items, total = yield from _chosen_steps(node, request, query, grouped)
        return Found(rows, items, total, len(items))
    lists = node.control.lists
    begun = lists.take(request.connection, query.title(), query.after)
    if begun is None and query.is_plain() and not query.joined:
        every = query.kind.groups(node, query.vhost) if grouped is None else grouped
        begun = PagedList(every, query.kind.name_of, query.kind.fifths)
    elif begun is None:
        items, _ = yield from _chosen_steps(node, request, query, grouped)
        begun = PagedList(iter(()), None, 1, items)
    page, following = yield from lists.page_steps(request.connection, query.after, query.title(), begun, query.most)
    access = request.access
    shown = [
        item for item in page if not is_of(request.connection, item) and is_seen(node, item, access.rules, access.user)
    ]
    return Found(rows, shown, len(shown), len(shown), following)


def _page_steps(
    node: Node, request: ControlRequest, query: ListQuery, grouped: Groups | None, rows: Rows
) -> Steps[Found]:
    """Return a page that has a number."""
    first = None if grouped is not None else _first_search(request, query)
    counts: GroupCounts | None = None
    if first is not None:
        hosts = seen_vhosts(node, request.access.rules) if query.vhost is None else [query.vhost]
        items = yield from first_steps(node, hosts, first)
        found = Found(rows, items[(query.page - 1) * query.page_size :], first.total, first.filtered)
        if query.grouped and isinstance(first, GroupOrder):
            counts = first.counts
    else:
        counts = GroupCounts() if query.grouped else None
        items, total = yield from _chosen_steps(node, request, query, grouped, counts)
        shown = items[(query.page - 1) * query.page_size : query.page * query.page_size]
        found = Found(rows, shown, total, len(items))
    found.page, found.page_size = query.page, query.page_size
    found.own = {} if counts is None else counts.row()
    return found


def _first_search(request: ControlRequest, query: ListQuery) -> Search | None:
    """Return the search for one of the first pages of queues; None if it needs all of them, or another order."""
    orders = query.orders[1:] if query.grouped else query.orders
    by_name = not orders or orders[0].column == "name"
    number = None if by_name else QUEUES.table.number(orders[0].column)
    last = query.page * query.page_size
    one = len(orders) <= 1 and query.expression is None and not query.conditions
    if query.kind.name != QUEUES.name or not one or last > FIRST_MOST or not (by_name or number is not None):
        return None
    descending = (bool(orders) and orders[0].descending) != query.reverse
    wanted = query.name.lower()
    if not query.grouped and not query.state:
        return QueueOrder(number, descending, last, wanted, request.connection)
    if not query.grouped or (by_name and descending):
        return None
    return GroupOrder(number, descending, last, query.state, wanted, request.connection)


def _chosen_steps(
    node: Node,
    request: ControlRequest,
    query: ListQuery,
    grouped: Groups | None,
    counts: GroupCounts | None = None,
) -> Steps[tuple[list[Item], int]]:
    """Return the items of a list in its order, and how many there were before some were chosen.

    `counts` are the numbers of queues by group, to which those with the wanted names are added.
    """
    work, access = node.broker.work, request.access
    if grouped is None:
        items = yield from collected_steps(node, query.kind, query.vhost)
    else:
        items = yield from PagedList(grouped, query.kind.name_of, query.kind.fifths).page_steps(UNLIMITED, work)
    items = yield from seen_steps(node, items, access.rules, access.user)
    asker = request.connection
    if asker is not None:
        items = yield from chosen_steps(work, items, lambda item: not is_of(asker, item), SEARCH_UNITS)
    total = len(items)
    if query.name:
        items = yield from _named_steps(node, query, items)
    if query.state or counts is not None:
        items = yield from _grouped_steps(node, query, items, counts)
    for condition in query.conditions:
        items = yield from _held_steps(node, query, items, condition)
    if not query.is_plain():
        items = yield from _ordered_steps(node, query, items)
    return items, total


def _grouped_steps(node: Node, query: ListQuery, items: list[Item], counts: GroupCounts | None) -> Steps[list[Item]]:
    """Return the queues of the wanted state, and count all by group."""
    broker, state = node.broker, query.state

    def is_chosen(item: Item) -> bool:
        queue = item.subject
        assert isinstance(queue, Queue)
        if counts is not None:
            counts.add(queue, group_of(queue, broker), has_dead_letters(queue))
        return not state or is_in(state, queue, broker)

    return (yield from chosen_steps(broker.work, items, is_chosen, GROUP_WORK * LOOKED_AT_ONCE))


def _named_steps(node: Node, query: ListQuery, items: list[Item]) -> Steps[list[Item]]:
    """Return the items with a part of their name, or which the expression matches; letters count in either case."""
    expression, wanted = query.expression, query.name.lower()
    if expression is not None:
        matches = expression.matches
        return chosen_steps(
            node.broker.work,
            items,
            lambda item: any(matches(name) for name in names_of(item)),
            EXPRESSION_WORK * LOOKED_AT_ONCE,
        )
    return chosen_steps(
        node.broker.work, items, lambda item: any(wanted in name.lower() for name in names_of(item)), SEARCH_UNITS
    )


def _held_steps(node: Node, query: ListQuery, items: list[Item], condition: Condition) -> Steps[list[Item]]:
    """Return the items that meet a condition."""
    column = Column(node, query.kind, condition.column)
    units, matches = column.work, None
    if condition.operator in ("~", "!~"):
        matches, units = PolicyPattern(condition.value).matches, units + EXPRESSION_WORK
    return chosen_steps(
        node.broker.work, items, lambda item: holds(condition, column.value(item), matches), units * LOOKED_AT_ONCE
    )


def _ordered_steps(node: Node, query: ListQuery, items: list[Item]) -> Steps[list[Item]]:
    """Return the items in the order of the query; equal ones are in the order of their kind."""
    work, orders = node.broker.work, query.orders
    own = not orders or orders[0].column != "name"
    if own and query.kind.by_name:
        reverse = query.reverse and not orders
        items = yield from sorted_steps(work, items, [item.name for item in items], reverse)
    elif query.reverse and not orders:
        items = items[::-1]
    for order in orders[::-1]:
        if order.column == "name":
            names = [item.name for item in items]
            items = yield from sorted_steps(work, items, names, order.descending != query.reverse)
        elif items:
            keys = yield from Column(node, query.kind, order.column).keys_steps(items)
            items = yield from sorted_steps(work, items, keys, order.descending != query.reverse)
    return items


def is_of(asker: Connection | None, item: Item) -> bool:
    """Return whether an item is the requesting connection, its reply queue or its channel."""
    subject = item.subject
    if isinstance(subject, Session):
        return asker is not None and subject.connection_number == asker.number
    if isinstance(subject, Queue | Consumer):
        subject = subject.owner if isinstance(subject, Queue) else subject.queue.owner
    return asker is not None and subject is asker


# Rows of it


def answer_list(node: Node, request: ControlRequest) -> Steps[Answer]:
    """Answer list: a page, and where the next one begins (null at the end).

    The requesting connection and its exclusive objects are omitted. The page begins after `after` items, or has a
    number. Raises PreconditionFailed (406), AccessRefused (403).
    """
    name, kinds = request.text("kind"), node.control.kinds
    kind = kinds.get(name)
    if kind is None:
        raise PreconditionFailed(f"'kind' must be one of {', '.join(kinds)}, not '{name}'")
    check_tag(request.access, kind.tag, f"a list of {name}")
    found = yield from found_steps(node, request, list_query(node, request, kind))
    items: list[Row] = []
    for item in found.items:
        if not is_gone(item):
            items.append(found.rows.of(item.subject))
        if node.broker.work.spend(work_of(item)):
            yield
    answer: Row = {"items": items, "next": found.following}
    return {**found.head(), "items": items} if found.page else answer


Grouped = Callable[[Node, ControlRequest], "Groups | None"]
"""Function that returns the objects of a list that is not of all of a kind; None for 404."""


def showing(
    where: str,
    purpose: str,
    run: Run,
    tag: str = MANAGEMENT,
    permissions: tuple[str, ...] = (),
    asks: str = "",
    join: Join | None = None,
) -> Operation:
    """Return the operation that shows one object at a path of HTTP."""
    return Operation("", run, tag=tag, permissions=permissions, how=LOOKS, audited=False, gives=OBJECT,
                     routes=(Route(where, purpose),), asks=asks, join=join)  # fmt: skip


def listing(
    kind: ListKind,
    where: str,
    purpose: str,
    grouped: Grouped | None = None,
    permissions: tuple[str, ...] = (),
    vhost: str | None = None,
    asks: str | Choice = "",
    join: Join | None = None,
) -> Operation:
    """Return the operation of a list at paths of HTTP. Without `asks`, paths without a virtual host ask all brokers."""

    def run(node: Node, request: ControlRequest) -> Steps[Answer]:
        query = list_query(node, request, kind)
        its = None if grouped is None else grouped(node, request)
        if grouped is not None and its is None:
            return None
        return (yield from found_steps(node, request, query, its))

    asked = asks or _asks_of(kind, where)
    if join is None and ALL in (asked.of if isinstance(asked, Choice) else (asked,)):
        join = joins.list_join(kind)
    return Operation("", run, tag=kind.tag, permissions=permissions, how=LOOKS, audited=False, gives=PAGES,
                     routes=(Route(where, purpose, vhost=vhost),), asks=asked, join=join)  # fmt: skip


def _asks_of(kind: ListKind, where: str) -> str | Choice:
    """Return which brokers answer a list at paths of HTTP."""
    with_vhost = {"{vhost}" in path for path in where.split()[1:]}
    return CATALOGUE if kind.copied else BY_VHOST if len(with_vhost) > 1 else VHOST if True in with_vhost else ALL


OF_CONNECTION: Final = "own connection, or the tag monitoring"
"""Permission that an object of a client needs besides a tag."""
NO_OBJECT: Final = "User not authorised to access object"
"""RabbitMQ's words for an object of another user."""


def check_own(request: ControlRequest, user: str, tag: str = MONITORING) -> None:
    """Check that an object belongs to the user of a request, or that the user has a tag. Raises AccessRefused."""
    if user != request.access.user and not request.access.rules.has_tag(tag):
        raise AccessRefused(NO_OBJECT)
