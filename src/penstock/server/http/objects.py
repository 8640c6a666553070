"""Handlers that list and show objects with columns, pages and samples, and close connections.

Lists are made in slices, so that long ones do not block the broker. The query parameters are RabbitMQ's: `columns`,
`sort`, `sort_reverse`, and for pages `page`, `page_size` and `name`.
"""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.responses import Response

from penstock.access.password_hash import (
    RABBITMQ_SALT,
    SALT,
    SCRYPT_SALT,
    PasswordHash,
    ScramKeys,
    derive_scram_keys,
    hash_password,
    rabbitmq_hash,
    scram_text,
)
from penstock.access.permission import ADMINISTRATOR, MONITORING
from penstock.access.user import User
from penstock.connections.connection import Connection
from penstock.connections.connection_names import channel_named, channel_parts, connection_named
from penstock.core.queue.queue import Queue
from penstock.core.settings.policies import PolicyPattern
from penstock.core.vhost import VirtualHost
from penstock.describe.lists import (
    FIRST_MOST,
    Item,
    QueueOrder,
    Rows,
    bindings_to,
    collected_steps,
    first_steps,
    is_seen,
    names_of,
)
from penstock.describe.message_stats import SampleRange, SampleRanges, tally_stats
from penstock.describe.queue import QUEUE, queue_in_full
from penstock.describe.session import CONNECTION, channel_name, session_in_full
from penstock.describe.table import Key, Reading, Row, field_at, reading
from penstock.describe.vhost import EXCHANGE as EXCHANGE_TABLE
from penstock.describe.vhost import USER, VHOST
from penstock.errors import ConnectionForced, NotFound
from penstock.operations.topology import destination
from penstock.operations.users import close_connections
from penstock.server.http.login import check_own, found_or_hidden
from penstock.server.http.request import (
    ApiRequest,
    Handler,
    HttpError,
    LongAnswer,
    bad_request,
    json_octets,
    json_response,
    no_content,
    not_found,
    text,
)

AT_ONCE: Final = 4
"""Objects formatted per slice: some tenths of a millisecond."""
FIELDS_AT_ONCE: Final = 25
"""Objects of which one field is read per slice."""
PAGE_DEFAULT: Final = 100
PAGE_MOST: Final = 500
"""Most objects of a page, as in RabbitMQ."""

COLUMNS_MOST: Final = 256
COLUMN_CHARACTERS: Final = 128
"""Most columns of a request, and most characters of the name of one: each is looked up in each object."""
SHOWN_CHARACTERS: Final = 40
"""Characters of a name that is too long which its error quotes."""

COLLECTED_AT_ONCE: Final = 250
SORTED_AT_ONCE: Final = 250
MERGED_AT_ONCE: Final = 100
"""References collected or filtered, sorted, and merged per slice."""
BY_NAME: Final = ("queues", "exchanges", "consumers", "cursors", "vhosts")
"""Kinds listed in the order of names; others are in the order of creation."""


async def collected(request: ApiRequest, kind: str, vhost: VirtualHost | None) -> list[Item]:
    """Return all objects of a kind that the user may see. Objects created meanwhile may be missing."""
    items: list[Item] = []
    whole = await request.in_steps(collected_steps(request.driver, kind, vhost))
    async for part in _slices(request, whole, COLLECTED_AT_ONCE):
        items += [item for item in part if is_seen(request.driver, item, request.rules, request.user)]
    return await _by_name(request, items, False) if kind in BY_NAME else items


def of_kind(kind: str) -> Handler:
    """Return the handler that lists the objects of a kind: all, or those of a virtual host."""

    async def objects(request: ApiRequest) -> Response:
        return await listed(request, await collected(request, kind, request.vhost_or_all()), kind == "bindings")

    objects.__doc__ = f"List {kind}, all or of a virtual host."
    return objects


async def listed(request: ApiRequest, items: list[Item], as_bindings: bool = False) -> Response:
    """Answer with a list, or with one page of it if the query asks for one."""
    rows = _rows(request, as_bindings)
    total = len(items)
    page = _number(request, "page", 0)
    if request.query.get("name") and page:
        items = await _named(request, items, request.query["name"])
    items = await _sorted(request, items, as_bindings)
    if not page:
        return LongAnswer(_stream(request, items, rows), request.http_request)
    size = _page_size(request)
    return await _page(request, items[(page - 1) * size : page * size], len(items), total, rows)


async def listed_queues(request: ApiRequest, vhost: VirtualHost | None) -> Response:
    """Answer with a list of queues, all or of a virtual host; one of the first pages is found without the others."""
    page = _number(request, "page", 0)
    column = _column(request.query.get("sort") or "name", "sort")
    number = QUEUE.number(column)
    has_regex = bool(request.query.get("name")) and request.flag("use_regex")
    if not page or has_regex or not (number or column == "name") or page * _page_size(request) > FIRST_MOST:
        return await listed(request, await collected(request, "queues", vhost))
    size = _page_size(request)
    wanted = request.query.get("name", "").lower()
    order = QueueOrder(number, request.flag("sort_reverse"))
    first = await request.in_steps(first_steps(request.driver, vhost, request.rules, wanted, order, page * size))
    request.begin_turn()
    shown = first.items[(page - 1) * size :]
    return await _page(request, shown, first.filtered, first.total, _rows(request, False))


def _paths(request: ApiRequest) -> list[str]:
    """Return the requested columns; none for all. Raises HttpError (400) for too many, or too long ones."""
    text = request.query.get("columns")
    if not text:
        return []
    count = text.count(",") + 1
    if count > COLUMNS_MOST:
        raise bad_request(f"columns names {count:,} columns; at most {COLUMNS_MOST} are permitted")
    return [_column(path, "columns") for path in text.split(",")]


def _column(path: str, parameter: str) -> str:
    """Check the length of a column's name. Raises HttpError (400)."""
    if len(path) > COLUMN_CHARACTERS:
        start = path[:SHOWN_CHARACTERS]
        raise bad_request(
            f"{parameter} has a column of {len(path):,} characters that begins with '{start}'; "
            f"at most {COLUMN_CHARACTERS} are permitted"
        )
    return path


def _rows(request: ApiRequest, as_bindings: bool) -> Rows:
    """Return the rows that the query asks for."""
    return Rows(request.driver, sample_ranges(request), _paths(request), as_bindings)


def _page_size(request: ApiRequest) -> int:
    size = _number(request, "page_size", PAGE_DEFAULT)
    if not 1 <= size <= PAGE_MOST:
        raise bad_request(f"page_size must be between 1 and {PAGE_MOST}, not {size}")
    return size


async def _page(request: ApiRequest, shown: list[Item], filtered: int, total: int, rows: Rows) -> Response:
    """Answer with one page of `filtered` items, of `total` ones before those were chosen by name."""
    page, size = _number(request, "page", 0), _page_size(request)
    pages = max((filtered + size - 1) // size, 1)
    if page > pages:
        reason = f"page out of range, page: {page} page size: {size}, len: {filtered}"
        raise HttpError(400, "page_out_of_range", reason)
    numbers = {
        "filtered_count": filtered,
        "item_count": len(shown),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": total,
    }
    texts = b"".join([part async for part in _stream(request, shown, rows)])
    head = json_octets(numbers).removesuffix(b"}")
    return Response(b'%b,"items":%b}' % (head, texts), media_type="application/json")


async def _named(request: ApiRequest, items: list[Item], wanted: str) -> list[Item]:
    """Return the items with a part of their name; with use_regex those that an expression matches, as in RabbitMQ.

    Letters count in either case. RE2 takes up to half a millisecond for a name.
    """
    result: list[Item] = []
    if request.flag("use_regex"):
        expression = PolicyPattern(wanted, True)
        async for part in _slices(request, items):
            result += [item for item in part if any(expression.matches(name) for name in names_of(item))]
        return result
    wanted = wanted.lower()
    async for part in _slices(request, items, COLLECTED_AT_ONCE):
        result += [item for item in part if any(wanted in name.lower() for name in names_of(item))]
    return result


def reading_of(request: ApiRequest) -> Reading:
    """Return a reading of the broker now, with the samples that the query asks for."""
    return reading(request.driver, sample_ranges(request))


def sample_ranges(request: ApiRequest) -> SampleRanges | None:
    """Return the samples that the query asks for, by RabbitMQ's parameters; None for none."""
    rates, lengths = _range(request, "msg_rates"), _range(request, "lengths")
    if rates is None and lengths is None:
        return None
    return SampleRanges(rates, lengths, request.driver.broker.wall_offset)


def _range(request: ApiRequest, name: str) -> SampleRange | None:
    if f"{name}_age" not in request.query or f"{name}_incr" not in request.query:
        return None
    return SampleRange(_number(request, f"{name}_age", 1), _number(request, f"{name}_incr", 1))


def one(request: ApiRequest, content: Row) -> Response:
    """Answer with one object."""
    return json_response(chosen(request, content))


def chosen(request: ApiRequest, content: Row) -> Row:
    """Return the requested columns, or all: a.b is b of a."""
    paths = _paths(request)
    if not paths:
        return content
    row: Row = {}
    for path in paths:
        place, _, name = path.rpartition(".")
        source = field_at(content, place) if place else content
        if isinstance(source, dict) and name in source:
            target = row
            for outer in place.split(".") if place else ():
                inner = target.setdefault(outer, {})
                assert isinstance(inner, dict)
                target = inner
            target[name] = source[name]
    return row


async def _sorted(request: ApiRequest, items: list[Item], as_bindings: bool) -> list[Item]:
    """Return the items in the order of the query."""
    column = request.query.get("sort")
    reverse = request.flag("sort_reverse")
    if not column or not items:
        return items
    _column(column, "sort")
    if column == "name":
        return await _by_name(request, items, reverse)
    rows = Rows(request.driver, None, [column], as_bindings)
    table = rows.table_of(items[0].subject)
    at_once = (
        COLLECTED_AT_ONCE if table.number(column) else FIELDS_AT_ONCE if len(table.select([column])) == 1 else AT_ONCE
    )
    keys: list[Key] = []
    async for slice_ in _slices(request, items, at_once):
        keys += rows.keys(slice_, column)
    return await _in_order(request, items, keys.__getitem__, reverse)


async def _by_name(request: ApiRequest, items: list[Item], reverse: bool) -> list[Item]:
    return await _in_order(request, items, lambda index: (2, items[index].name), reverse)


async def _in_order(request: ApiRequest, items: list[Item], key: Callable[[int], Key], reverse: bool) -> list[Item]:
    """Return items in the order of their keys, by index: sorted, then merged, in slices."""
    runs: list[list[int]] = []
    for start in range(0, len(items), SORTED_AT_ONCE):
        run = range(start, min(start + SORTED_AT_ONCE, len(items)))
        runs.append(sorted(run, key=key, reverse=reverse))
        if run.stop < len(items):
            await request.pause()
    order: list[Item] = []
    for index in heapq.merge(*runs, key=key, reverse=reverse):
        order.append(items[index])
        if len(order) % MERGED_AT_ONCE == 0:
            await request.pause()
    return order


async def _stream(request: ApiRequest, items: list[Item], rows: Rows) -> AsyncIterator[bytes]:
    """Stream a list in slices; objects deleted meanwhile are omitted."""
    before = b"["
    async for slice_ in _slices(request, items):
        texts = [
            json_octets(chosen(request, rows.of(item.subject)))
            for item in slice_
            if not (isinstance(item.subject, Queue) and item.subject.deleted)
        ]
        if texts:
            yield before + b",".join(texts)
            before = b","
    yield b"[]" if before == b"[" else b"]"


async def _slices(request: ApiRequest, items: list[Item], at_once: int = AT_ONCE) -> AsyncIterator[list[Item]]:
    for start in range(0, len(items), at_once):
        if start:
            await request.pause()
        yield items[start : start + at_once]


def _number(request: ApiRequest, name: str, otherwise: int) -> int:
    value = request.query.get(name)
    if not value:
        return otherwise
    if not value.isdecimal() or len(value) > 9 or int(value) < 1:
        raise bad_request(f"{name} must be a whole number from 1, not {value}")
    return int(value)


async def queues(request: ApiRequest) -> Response:
    """List queues, all or of a virtual host."""
    return await listed_queues(request, request.vhost_or_all())


async def queue(request: ApiRequest) -> Response:
    """Show a queue."""
    return one(request, queue_in_full(request.queue(), reading_of(request)))


async def exchange(request: ApiRequest) -> Response:
    """Show an exchange."""
    return one(request, EXCHANGE_TABLE.row(request.exchange(), reading_of(request)))


async def bindings_of_queue(request: ApiRequest) -> Response:
    """List the bindings that lead to a queue; none for a missing one, as in RabbitMQ."""
    vhost = request.live_vhost()
    queue = vhost.queues.get(request.part("name"))
    return await listed(request, [] if queue is None else bindings_to(vhost, queue, None), as_bindings=True)


async def bindings_from_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead from an exchange; none for a missing one, as in RabbitMQ."""
    vhost = request.live_vhost()
    source = vhost.exchanges.get(request.exchange_name())
    if source is not None and source.name == "":
        items = await request.in_steps(collected_steps(request.driver, "queues", vhost))
    else:
        bindings = [] if source is None else source.bindings.values()
        items = [Item(binding.source.name, vhost, binding) for binding in bindings]
    return await listed(request, items, as_bindings=True)


async def bindings_to_exchange(request: ApiRequest) -> Response:
    """List the bindings that lead to an exchange; none for a missing one, as in RabbitMQ."""
    vhost = request.live_vhost()
    target = vhost.exchanges.get(request.exchange_name())
    return await listed(request, [] if target is None else bindings_to(vhost, None, target), as_bindings=True)


async def bindings_between(request: ApiRequest) -> Response:
    """List the bindings from an exchange to a queue or exchange; none if one is missing, as in RabbitMQ."""
    return await listed(request, _between(request), as_bindings=True)


def _between(request: ApiRequest) -> list[Item]:
    vhost, kind = request.live_vhost(), request.part("kind")
    source = vhost.exchanges.get(request.exchange_name("source"))
    try:
        origin, target = destination(vhost, kind, request.part("destination"))
    except NotFound:
        if kind not in ("q", "e"):
            raise
        return []
    if source is None:
        return []
    if source.name == "":
        return [] if origin is None else [Item(origin.name, vhost, origin)]
    return [
        Item(source.name, vhost, each)
        for each in source.bindings.values()
        if each.queue is origin and each.exchange is target
    ]


REASON = "Closed via management plugin"
"""Default of X-Reason: RabbitMQ's text, which programs know."""


async def connection(request: ApiRequest) -> Response:
    """Show a connection."""
    connection = connection_of(request)
    check_own(request, connection.user)
    return one(request, CONNECTION.row(connection, reading_of(request)))


async def close_connection(request: ApiRequest) -> Response:
    """Close a connection (320); the header X-Reason is sent to its client."""
    request.begin()
    connection = connection_of(request)
    check_own(request, connection.user, ADMINISTRATOR)
    connection.close(ConnectionForced(_reason(request)))
    return no_content()


async def connections_of_user(request: ApiRequest) -> Response:
    """List the connections of a user."""
    check_own(request, request.part("user"))
    items = await collected(request, "connections", None)
    user = request.part("user")
    return await listed(request, [i for i in items if isinstance(i.subject, Connection) and i.subject.user == user])


async def close_connections_of_user(request: ApiRequest) -> Response:
    """Close all connections of a user."""
    check_own(request, request.part("user"), ADMINISTRATOR)
    request.begin()
    close_connections(request.driver, request.part("user"), None, _reason(request))
    return no_content()


async def channels_of_connection(request: ApiRequest) -> Response:
    """List the channels of a connection."""
    connection = connection_of(request)
    check_own(request, connection.user)
    items = [Item(channel_name(channel), connection.vhost, channel) for channel in connection.engine.sessions()]
    return await listed(request, items)


async def channel(request: ApiRequest) -> Response:
    """Show a channel."""
    name = request.part("name")
    try:
        found = channel_named(request.driver.connections, name, _owner(request)) if channel_parts(name) else None
    except NotFound:
        found = None
    if found is None:
        raise found_or_hidden(request)
    return one(request, session_in_full(found, reading_of(request)))


def connection_of(request: ApiRequest) -> Connection:
    """Return the connection of a path, which any of its names may name (connections/connection_names.py)."""
    try:
        connection = connection_named(request.driver.connections, request.part("name"), _owner(request))
    except NotFound:
        raise found_or_hidden(request) from None
    if connection.vhost is None:
        raise found_or_hidden(request)
    return connection


def _owner(request: ApiRequest) -> str:
    """Return the user that the connections of a path must have; empty for any."""
    return "" if request.rules.has_tag(MONITORING) else request.user


def _reason(request: ApiRequest) -> str:
    return request.http_request.headers.get("x-reason") or REASON


async def vhosts(request: ApiRequest) -> Response:
    """List virtual hosts."""
    return await listed(request, await collected(request, "vhosts", None))


async def vhost(request: ApiRequest) -> Response:
    """Show a virtual host."""
    return one(request, VHOST.row(request.live_vhost(), reading_of(request)))


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


async def users(request: ApiRequest) -> Response:
    """List users."""
    return await _listed_users(request, request.driver.broker.access.users())


async def users_without_permissions(request: ApiRequest) -> Response:
    """List the users who may enter no virtual host."""
    everybody = request.driver.broker.access.users()
    return await _listed_users(request, [user for user in everybody if not user.permissions and not user.everywhere])


async def _listed_users(request: ApiRequest, listed_users: list[User]) -> Response:
    return await listed(request, [Item(user.name, None, user) for user in listed_users])


async def user(request: ApiRequest) -> Response:
    """Show a user."""
    there = request.driver.broker.access.find(request.part("user"))
    if there is None:
        raise not_found()
    at = reading_of(request)
    row = USER.row(there, at)
    counted = request.driver.stats.users.get(request.part("user"))
    stats = None if counted is None else tally_stats(counted.tally, counted.series, at.ranges)
    if stats is not None:
        row["penstock"] = {**USER.own(there, at), "message_stats": stats}
    return json_response(row)


async def hash_given(fields: Row) -> None:
    """Replace the password in a body by its hash and keys. Raises HttpError (400) if there is a hash too."""
    if "password" in fields and "password_hash" in fields:
        raise bad_request("both_password_and_password_hash_are_provided")
    if not text(fields, "password"):
        return
    hashed, scram = await asyncio.to_thread(_derive, text(fields, "password"))
    fields["password_hash"], fields["hashing_algorithm"] = hashed.text(), hashed.algorithm
    if scram is not None:
        fields["scram_secret"] = scram_text(scram)


async def password_hash(request: ApiRequest) -> Response:
    """Return RabbitMQ's hash of the password in the path, for definitions."""
    return json_response({"ok": rabbitmq_hash(request.part("password"), os.urandom(RABBITMQ_SALT)).text()})


def _derive(password: str) -> tuple[PasswordHash, ScramKeys | None]:
    """Return hash and keys of a password: slow, in a thread."""
    return hash_password(password, os.urandom(SCRYPT_SALT)), derive_scram_keys(password, os.urandom(SALT))
