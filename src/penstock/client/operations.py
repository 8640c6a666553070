"""Declarations, questions and commands of a connection, as steps of an engine; `Operations` is their table.

A connection of either shell derives from `Operations`, and gets a method for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

from penstock.client.answers import Why, why_of
from penstock.client.engine.connection import Engine
from penstock.client.engine.messages import Message
from penstock.client.engine.waits import Steps, Wait
from penstock.client.errors import ClientError
from penstock.client.options import queue_arguments
from penstock.client.shells import Listing, Operation, Pages, Shell

if TYPE_CHECKING:
    from penstock.client.option_types import QueueSettings

Answer = dict[str, Any]
"""Answer of the broker, an object of JSON."""
Names = Iterable[str]
Places = str | Mapping[str, int]
""""earliest", "latest", or sequence numbers by queue."""


# Queues, exchanges and bindings


def declare_queue(
    engine: Engine,
    /,
    name: str = "",
    *,
    durable: bool = True,
    exclusive: bool = False,
    auto_delete: bool = False,
    **settings: Unpack[QueueSettings],
) -> Steps[str]:
    """Declare a queue, and return its name, which is chosen if it is empty. Raises `ChannelClosed`.

    `settings` are those of docs/settings.md with `_` for `-`, such as `capacity_messages=1000`.
    """
    if not name and engine.protocol == "amqp10":
        name = engine.services.new_name(engine)
    fields = {"queue": name, "durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
    answer = yield from engine.calling("queue.declare", {**fields, "arguments": queue_arguments(settings)})
    return str(answer["queue"])


def delete_queue(engine: Engine, name: str, *, if_unused: bool = False, if_empty: bool = False) -> Steps[int]:
    """Delete a queue; return the number of its messages."""
    answer = yield from engine.calling("queue.delete", {"queue": name, "if_unused": if_unused, "if_empty": if_empty})
    return int(answer["message_count"])


def purge_queue(engine: Engine, name: str) -> Steps[int]:
    """Drop the ready messages of a queue; return their number."""
    answer = yield from engine.calling("queue.purge", {"queue": name})
    return int(answer["message_count"])


def declare_exchange(
    engine: Engine,
    /,
    name: str,
    kind: str = "direct",
    *,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    **settings: object,
) -> Steps[None]:
    """Declare an exchange of a type such as direct or topic; an internal exchange accepts messages only from
    other exchanges.
    """
    fields = {"exchange": name, "type": kind, "durable": durable, "auto_delete": auto_delete, "internal": internal}
    yield from engine.calling("exchange.declare", {**fields, "arguments": queue_arguments(settings)})


def delete_exchange(engine: Engine, name: str, *, if_unused: bool = False) -> Steps[None]:
    """Delete an exchange."""
    yield from engine.calling("exchange.delete", {"exchange": name, "if_unused": if_unused})


def bind(engine: Engine, /, queue: str, exchange: str, routing_key: str = "", **arguments: object) -> Steps[None]:
    """Bind a queue to an exchange."""
    place = {"queue": queue, "exchange": exchange, "routing_key": routing_key}
    yield from engine.calling("queue.bind", {**place, "arguments": arguments})


def unbind(engine: Engine, /, queue: str, exchange: str, routing_key: str = "", **arguments: object) -> Steps[None]:
    """Undo `bind`; an absent binding is no error."""
    yield from _unbinding(engine, "queue.unbind", {"queue": queue, "exchange": exchange}, routing_key, arguments)


def bind_exchange(
    engine: Engine, /, destination: str, source: str, routing_key: str = "", **arguments: object
) -> Steps[None]:
    """Bind an exchange to an exchange: messages of `source` with a matching key are routed to `destination` too."""
    place = {"destination": destination, "source": source, "routing_key": routing_key}
    yield from engine.calling("exchange.bind", {**place, "arguments": arguments})


def unbind_exchange(
    engine: Engine, /, destination: str, source: str, routing_key: str = "", **arguments: object
) -> Steps[None]:
    """Undo `bind_exchange`; an absent binding is no error."""
    place = {"destination": destination, "source": source}
    yield from _unbinding(engine, "exchange.unbind", place, routing_key, arguments)


def _unbinding(
    engine: Engine, method: str, place: dict[str, Any], routing_key: str, arguments: dict[str, object]
) -> Steps[None]:
    place["routing_key"] = routing_key
    if engine.protocol != "amqp10" or not arguments:
        yield from engine.calling(method, {**place, "arguments": arguments})
        return
    answer = yield from engine.calling("bindings.find", place)
    for each in answer["found"]:
        if each["arguments"] == arguments:
            yield from engine.calling("bindings.drop", {"location": each["location"]})


# Moves of messages between queues


def move_messages(
    engine: Engine,
    source: str,
    target: str | None = None,
    *,
    exchange: str | None = None,
    routing_key: str = "",
    count: int | None = None,
    filter: str = "",
    detach: bool = False,
) -> Steps[Answer]:
    """Move messages of a queue into queue `target`, or publish them to `exchange`; return the counts `moved`, `left`
    and others, with the reasons `why` messages are left.

    A target without room holds the move. `count` takes the first ones, `filter` those that a selector matches. With
    `detach` it returns the row of the job that moves, and does not wait for its end. Raises `ControlError` 404 for a
    missing queue or route, 406 for a move onto itself.
    """
    fields = _transfer(source, target, exchange, routing_key, count, filter, detach)
    return (yield from _asking(engine, "queue.move", fields))


def copy_messages(
    engine: Engine,
    source: str,
    target: str | None = None,
    *,
    exchange: str | None = None,
    routing_key: str = "",
    count: int | None = None,
    filter: str = "",
    detach: bool = False,
) -> Steps[Answer]:
    """Copy messages of a queue, as `move_messages` does; the messages stay, and the count is `copied`."""
    fields = _transfer(source, target, exchange, routing_key, count, filter, detach)
    return (yield from _asking(engine, "queue.copy", fields))


def redrive_messages(
    engine: Engine,
    source: str,
    *,
    count: int | None = None,
    filter: str = "",
    trust_headers: bool = False,
    detach: bool = False,
) -> Steps[Answer]:
    """Move dead letters of a queue back into the queues in which they died last; return the counts `redriven`, `left`
    and others.

    `trust_headers` takes messages too whose death headers the broker has not written itself.
    """
    fields = _transfer(source, None, None, "", count, filter, detach)
    fields |= {"trust_headers": True} if trust_headers else {}
    return (yield from _asking(engine, "queue.redrive", fields))


def _transfer(
    source: str,
    target: str | None,
    exchange: str | None,
    routing_key: str,
    count: int | None,
    selector: str,
    detach: bool,
) -> Answer:
    fields: Answer = {"queue": source, "target": target, "count": count, "filter": selector or None}
    if exchange is not None:
        fields |= {"exchange": exchange, "routing_key": routing_key}
    if detach:
        fields["detach"] = True
    return {name: value for name, value in fields.items() if value is not None}


# Messages


def drain(engine: Engine, timeout: float | None = None) -> Steps[None]:
    """Wait until every message that was sent has its outcome, at most `timeout` seconds for each publisher."""
    for publisher in list(engine.publishers):
        yield from publisher.draining(timeout)


def call(
    engine: Engine,
    queue: str,
    message: bytes | Message,
    *,
    exchange: str = "",
    routing_key: str = "",
    timeout: float | None = None,
) -> Steps[Message]:
    """Send a message to a queue, or with an exchange and a routing key, and return the answer to it.

    The receiver answers by `message.reply`. The message expires with the call. Raises `Timeout` after `timeout` seconds
    (None: the option), `MessageRefused` or `LinkClosed` if it reached no queue, and `ConnectionLost`: then the call may
    have been carried out. At most 1,000 calls of a target are unanswered; further calls wait. Late answers are dropped,
    and counted in `late_answers` of the connection.
    """
    _check_target(queue, exchange, routing_key)
    requester = engine.services.requester(engine, exchange, queue or routing_key)
    return (yield from requester.calling(message, timeout))


def answers(
    engine: Engine,
    queue: str,
    message: bytes | Message,
    *,
    exchange: str = "",
    routing_key: str = "",
    timeout: float | None = None,
) -> Pages[Message]:
    """Send a message as `call` does, and yield its answers as they arrive, until the answer marked as the last.

    The receiver answers by `receiver.answer`; the answer of `message.reply` is a list of one. Raises as `call`, and
    `Timeout` when the last answer has not arrived within `timeout` seconds (None: the option). The answers have a queue
    of their own, and its consumer has a window: a service that is faster than the caller waits.
    """
    from penstock.client.engine.requester import AnswerList

    _check_target(queue, exchange, routing_key)
    return AnswerList(engine, exchange, queue or routing_key, message, timeout)


def _check_target(queue: str, exchange: str, routing_key: str) -> None:
    if queue and (exchange or routing_key):
        raise ValueError("a call goes to a queue, or to an exchange with a routing key")


# Control operations of Penstock


def request(engine: Engine, operation: str, /, **fields: object) -> Steps[Answer]:
    """Carry out any control operation of Penstock; return its answer. Raises `ControlError` with its refusal.

    The other operations raise it too. Fields that are None are left out.
    """
    return (yield from _asking(engine, operation, fields))


def _asking(engine: Engine, operation: str, fields: Mapping[str, object], wait_s: float = 0.0) -> Steps[Answer]:
    given = {name: value for name, value in fields.items() if value is not None}
    answer = yield from engine.requesting(operation, given, engine.terms.call_timeout + wait_s)
    if not isinstance(answer, dict):
        raise ClientError(f"the broker answered {operation} with a block where an object was due")
    return answer


def why(
    engine: Engine,
    queue: str | None = None,
    *,
    connection: str | None = None,
    channel: str | None = None,
    link: str | None = None,
    user: str | None = None,
) -> Steps[Why]:
    """Ask Penstock why nothing moves at a queue, a connection (number or name), a channel ("2/1"), a link or a user.

    Without arguments: everything that is blocked, the longest block first.
    """

    asked = {"queue": queue, "connection": connection, "channel": channel, "link": link, "user": user}
    answer = yield from _asking(engine, "why", asked)
    return why_of(answer, next((kind for kind, name in asked.items() if name is not None), ""))


def block(engine: Engine, scope: str, name: str, reason: str = "") -> Steps[Answer]:
    """Close the operator's gate of a "queue", "address", "vhost", "user" or "connection": publishes are held."""
    return (yield from _asking(engine, "block", {scope: name, "reason": reason}))


def unblock(engine: Engine, scope: str, name: str) -> Steps[Answer]:
    """Open the operator's gate. Raises `ControlError` 404 if it is not closed."""
    return (yield from _asking(engine, "unblock", {scope: name}))


def set_(
    engine: Engine,
    scope: str,
    pattern: str,
    settings: Mapping[str, object],
    *,
    override: bool = False,
    everywhere: bool = False,
) -> Steps[Answer]:
    """Set settings for matching names, with `_` or `-`; return all settings of the pattern, and remarks.

    Those of queues and exchanges (scope "address") count in this connection's virtual host, or `everywhere`. An
    `override` of queues is stronger than their arguments and policies.
    """
    fields = {"scope": scope, "pattern": pattern, "settings": queue_arguments(settings)}
    more = {"override": override or None, "everywhere": everywhere or None}
    return (yield from _asking(engine, "settings.set", {**fields, **more}))


def unset(
    engine: Engine, scope: str, pattern: str, names: Names | None = None, *, everywhere: bool = False
) -> Steps[Answer]:
    """Remove settings that were set by command: the named ones, or all of a pattern."""
    listed = None if names is None else list(names)
    fields = {"scope": scope, "pattern": pattern, "names": listed, "everywhere": everywhere or None}
    return (yield from _asking(engine, "settings.unset", fields))


def settings(engine: Engine, *, everywhere: bool = False) -> Steps[list[Answer]]:
    """Return settings, from commands and from the settings file, pattern by pattern.

    Those of patterns in other virtual hosts are left out without `everywhere`.
    """
    answer = yield from _asking(engine, "settings.list", {"everywhere": everywhere})
    return list(answer["settings"])


def show(engine: Engine, scope: str, name: str = "") -> Steps[list[Answer]]:
    """Return the effective settings of a queue (or another object), each with its source."""
    answer = yield from _asking(engine, "show", {scope: name})
    return list(answer["settings"])


def status(engine: Engine) -> Steps[Answer]:
    """Return the broker, its queues and its statistics."""
    return (yield from _asking(engine, "status", {}))


def set_policy(
    engine: Engine,
    name: str,
    pattern: str,
    definition: Mapping[str, object],
    *,
    priority: int = 0,
    apply_to: str | None = None,
    operator: bool = False,
) -> Steps[Answer]:
    """Set a policy of the connection's virtual host, or an operator policy, with RabbitMQ's keys.

    Return it with the numbers of queues and exchanges that it applies to, and `sentences` for people. Raises
    `ControlError` 406 for an invalid policy.
    """
    fields = {"name": name, "pattern": pattern, "definition": definition, "priority": priority, "operator": operator}
    return (yield from _asking(engine, "policy.set", {**fields, "apply-to": apply_to}))


def clear_policy(engine: Engine, name: str, *, operator: bool = False) -> Steps[Answer]:
    """Remove a policy of the connection's virtual host. Raises `ControlError` 404."""
    return (yield from _asking(engine, "policy.clear", {"name": name, "operator": operator}))


def policies(engine: Engine, *, operator: bool = False, everywhere: bool = False) -> Steps[list[Answer]]:
    """Return the policies of the connection's virtual host, or of all, by name."""
    answer = yield from _asking(engine, "policy.list", {"operator": operator, "everywhere": everywhere})
    return list(answer["policies"])


def declare_vhost(engine: Engine, name: str) -> Steps[bool]:
    """Create a virtual host; return whether it is new."""
    answer = yield from _asking(engine, "vhost.declare", {"name": name})
    return bool(answer["created"])


def delete_vhost(engine: Engine, name: str) -> Steps[None]:
    """Delete a virtual host with all its objects, but not this connection's own; its connections are closed."""
    yield from _asking(engine, "vhost.delete", {"name": name})


# Definitions


def export_definitions(
    engine: Engine,
    *,
    everywhere: bool = True,
    for_rabbitmq: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Steps[Answer]:
    """Return the definitions of all virtual hosts, or of this connection's, in RabbitMQ's format.

    `for_rabbitmq` leaves out keys of policies that RabbitMQ refuses. `progress` is called with the number of entries so
    far after each page.
    """
    fields: Answer = {"everywhere": everywhere}
    answer = yield from _asking(engine, "definitions.export", fields)
    if for_rabbitmq:
        fields["for_rabbitmq"] = True
    read = 0
    for section in answer.pop("sections"):
        answer[section] = []
        after: int | None = 0
        while after is not None:
            page = yield from _asking(engine, "definitions.export", {**fields, "section": section, "after": after})
            answer[section] += page["items"]
            after = page["next"]
            read += len(page["items"])
            if progress is not None:
                progress(read)
    return answer


def import_definitions(
    engine: Engine,
    text: str,
    *,
    everywhere: bool = True,
    skip: Names = (),
    skip_refused: bool = False,
    streams_as_queues: bool = False,
    move: bool = False,
    of: str = "",
    dry_run: bool = False,
    detach: bool = False,
) -> Steps[Answer]:
    """Import definitions in RabbitMQ's format, all or nothing; return the numbers of new items.

    Without `everywhere` entries without a virtual host belong to this connection's. With `dry_run` it returns what
    would differ, and changes nothing. `skip` has kinds, and KIND:NAME for single entries; `skip_refused` leaves out
    what the broker refuses. Entries that depend on a skipped entry are skipped as well. `streams_as_queues` imports
    streams as durable queues. With `move` and without `everywhere`, entries of the file's only virtual host go into
    this connection's; `of` chooses one of several. Users and others that are about no virtual host are left out. With
    `detach` it returns the row of the job that imports, and does not wait for its end: see
    `request("job.show", id=...)`.
    """
    fields = {"definitions": text, "everywhere": everywhere, "skip": list(skip), "skip_refused": skip_refused}
    given = {**fields, "streams_as_queues": streams_as_queues, "dry_run": dry_run}
    given |= {name: value for name, value in (("detach", detach), ("move", move), ("of", of)) if value}
    return (yield from _asking(engine, "definitions.import", given))


# Cursors


class Attached(NamedTuple):
    """Result of `attach_cursor`; a sequence number S of a queue means everything up to S."""

    token: int
    initial: dict[str, int]
    settled: dict[str, int]
    tail: dict[str, int]
    created: bool


class Plan(NamedTuple):
    """Result of `plan_batch`: the end of the next batch, the end of the queues, and the batch's size."""

    end: dict[str, int]
    tail: dict[str, int]
    rows: int
    bytes: int


def create_cursor(engine: Engine, cursor: str, queues: Names, at: Places = "earliest") -> Steps[dict[str, int]]:
    """Create a cursor without a reader, at "earliest", "latest" or sequence numbers; return where each queue begins.

    Raises `ControlError` 405 for a cursor that exists, or as `attach_cursor`.
    """
    fields = {"cursor": cursor, "queues": list(queues), "starting": at, "create": True}
    answer = yield from _asking(engine, "cursor.attach", fields)
    return dict(answer["initial"])


def show_cursor(engine: Engine, cursor: str) -> Steps[Answer]:
    """Return a cursor with its lag by queue and its reader; for an administrator also the producers that wait.

    Raises `ControlError` 404 for a cursor that does not exist.
    """
    return (yield from _asking(engine, "cursor.show", {"cursor": cursor}))


def move_cursor(
    engine: Engine, cursor: str, to: Places, *, dry_run: bool = False, force: bool = False
) -> Steps[Answer]:
    """Move a cursor to "earliest", "latest" or sequence numbers; `dry_run` only returns what a move would do.

    `force` moves it while a reader uses it: the reader gets an error at its next request. Raises `ControlError` 404,
    405 for a cursor in use, and 406 for an impossible position.
    """
    return (yield from _asking(engine, "cursor.move", {"cursor": cursor, "to": to, "dry_run": dry_run, "force": force}))


def release_cursor(engine: Engine, cursor: str, queues: Names) -> Steps[None]:
    """Release the positions of a cursor on queues that its subscription no longer includes.

    Raises `ControlError` 404 for a queue that the cursor does not read, 406 for a subscribed queue.
    """
    yield from _asking(engine, "cursor.release", {"cursor": cursor, "queues": list(queues)})


def delete_cursor(engine: Engine, cursor: str) -> Steps[None]:
    """Delete a cursor; its queues become ordinary queues again."""
    yield from _asking(engine, "cursor.delete", {"cursor": cursor})


def attach_cursor(
    engine: Engine, cursor: str, queues: Names, starting: Places = "earliest", *, takeover: bool = False
) -> Steps[Attached]:
    """Attach to a cursor, creating it if necessary; `starting` is "earliest", "latest" or sequence numbers by queue.

    The new token fences earlier readers off. A refused attach changes nothing. Raises `ControlError` 405 while another
    connection reads through the cursor, unless `takeover`.
    """
    fields = {"cursor": cursor, "queues": list(queues), "starting": starting, "takeover": takeover}
    answer = yield from _asking(engine, "cursor.attach", fields)
    return Attached(
        answer["token"], answer["initial"], answer["settled"], answer["tail"], bool(answer.get("created", False))
    )


def plan_batch(
    engine: Engine,
    cursor: str,
    token: int,
    start: Mapping[str, int],
    *,
    settle: Mapping[str, int] | None = None,
    rows: int | None = None,
    bytes: int | None = None,
    wait: float = 0.0,
    upto: Mapping[str, int] | None = None,
) -> Steps[Plan]:
    """Fix the next batch after `start`, of at most `rows` messages and `bytes` bytes (None: no limit).

    `settle` settles processed messages; `wait` is how many seconds the broker may wait for a first message; `upto`
    bounds the batch by sequence numbers. Without new messages `end` equals `start`.
    """
    holder = {"cursor": cursor, "token": token, "settle": settle, "start": start}
    fields = {**holder, "rows": rows, "bytes": bytes, "wait_ms": round(wait * 1000), "upto": upto}
    answer = yield from _asking(engine, "cursor.plan", fields, wait)
    return Plan(answer["end"], answer["tail"], answer["rows"], answer["bytes"])


def read_range(
    engine: Engine,
    cursor: str,
    token: int,
    queue: str,
    lo: int,
    hi: int,
    *,
    rows: int,
    bytes: int,
    columns: Names | None = None,
    query: str | None = None,
) -> Steps[memoryview]:
    """Return a block of the first messages of (lo, hi] within `rows` and `bytes`; no message is removed.

    `columns` are the columns of the block (docs/inside/blocks.md); None: the twelve that every version has. `query` is
    the id of the Spark query that reads, and is shown beside the cursor; None: the reader is no query.
    """
    fields: Answer = {"cursor": cursor, "token": token, "queue": queue, "lo": lo, "hi": hi}
    if columns is not None:
        fields["columns"] = list(columns)
    if query is not None:
        fields["query"] = query
    answer = yield from engine.requesting("cursor.range", {**fields, "rows": rows, "bytes": bytes})
    if not isinstance(answer, memoryview):
        raise ClientError("the broker answered cursor.range with an object where a block was due")
    return answer


def settle_cursor(engine: Engine, cursor: str, token: int, end: Mapping[str, int]) -> Steps[dict[str, int]]:
    """Settle everything up to `end`; return the settled positions, which never decrease."""
    answer = yield from _asking(engine, "cursor.settle", {"cursor": cursor, "token": token, "end": end})
    return dict(answer["settled"])


# Lists


class ListPages(Pages[Answer]):
    """Pages of a list."""

    def __init__(self, engine: Engine, fields: Answer) -> None:
        self._engine = engine
        self._fields = fields
        self._after: int | None = 0

    def following(self) -> Steps[Sequence[Answer]]:
        """See `Pages.following`."""
        while self._after is not None:
            page = yield from _asking(self._engine, "list", {**self._fields, "after": self._after})
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
            page = yield from _asking(self._engine, "messages.browse", fields)
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

    Messages that meet all conditions are shown: `key` is a routing key, in which * stands for any text, `headers` are
    texts NAME=VALUE, `body` is a text in the body, and `reason` that of a dead letter. Raises `ControlError` 404, and
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
            page = yield from _asking(engine, "watch", {"after": self._after, "queue": self._queue})
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


class Operations(Shell):
    """Calls of a connection besides its publishers and receivers. A connection derives from a shell and this."""

    drain = Operation(drain)

    declare_queue = Operation(declare_queue)
    delete_queue = Operation(delete_queue)
    purge_queue = Operation(purge_queue)
    move_messages = Operation(move_messages)
    copy_messages = Operation(copy_messages)
    redrive_messages = Operation(redrive_messages)
    declare_exchange = Operation(declare_exchange)
    delete_exchange = Operation(delete_exchange)
    bind = Operation(bind)
    unbind = Operation(unbind)
    bind_exchange = Operation(bind_exchange)
    unbind_exchange = Operation(unbind_exchange)
    call = Operation(call)
    request = Operation(request)
    why = Operation(why)
    block = Operation(block)
    unblock = Operation(unblock)
    set = Operation(set_)
    unset = Operation(unset)
    settings = Operation(settings)
    show = Operation(show)
    status = Operation(status)
    set_policy = Operation(set_policy)
    clear_policy = Operation(clear_policy)
    policies = Operation(policies)
    declare_vhost = Operation(declare_vhost)
    delete_vhost = Operation(delete_vhost)
    export_definitions = Operation(export_definitions)
    import_definitions = Operation(import_definitions)
    create_cursor = Operation(create_cursor)
    show_cursor = Operation(show_cursor)
    move_cursor = Operation(move_cursor)
    release_cursor = Operation(release_cursor)
    delete_cursor = Operation(delete_cursor)
    attach_cursor = Operation(attach_cursor)
    plan_batch = Operation(plan_batch)
    read_range = Operation(read_range)
    settle_cursor = Operation(settle_cursor)
    answers = Listing(answers)
    list = Listing(list_)
    browse = Listing(browse)
    watch = Listing(watch)
