"""Control operations of Penstock: explanations, settings, policies, transfers, definitions; as steps of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.client.answers import Why, why_of
from penstock.client.engine.connection import Engine
from penstock.client.engine.waits import Steps
from penstock.client.errors import ClientError
from penstock.client.options import queue_arguments

MISSING: Final = "penstock.missing"
"""Field of an answer: shards of a node that have not answered, each with the reason."""
SHARDS_SHOWN: Final = 100
"""Most shards that an answer is read for; a node has no more."""
Answer = dict[str, Any]
"""Answer of the broker, an object of JSON."""
Names = Iterable[str]


def request(engine: Engine, operation: str, /, **fields: object) -> Steps[Answer]:
    """Carry out any control operation of Penstock; return its answer. Raises `ControlError` with its refusal.

    The other operations raise it too. Fields that are None are left out.
    """
    return (yield from asking(engine, operation, fields))


def asking(engine: Engine, operation: str, fields: Mapping[str, object], wait_s: float = 0.0) -> Steps[Answer]:
    """Carry out an operation that answers with an object; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    answer = yield from engine.requesting(operation, given, engine.terms.call_timeout + wait_s)
    if not isinstance(answer, dict):
        raise ClientError(f"the broker answered {operation} with a block where an object was due")
    for each in answer.get(MISSING, ())[:SHARDS_SHOWN]:
        engine.absent_shards[str(each["shard"])] = str(each["reason"])
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
    answer = yield from asking(engine, "why", asked)
    return why_of(answer, next((kind for kind, name in asked.items() if name is not None), ""))


def block(engine: Engine, scope: str, name: str, reason: str = "") -> Steps[Answer]:
    """Close the operator's gate of a "queue", "address", "vhost", "user" or "connection": publishes are held."""
    return (yield from asking(engine, "block", {scope: name, "reason": reason}))


def unblock(engine: Engine, scope: str, name: str) -> Steps[Answer]:
    """Open the operator's gate. Raises `ControlError` 404 if it is not closed."""
    return (yield from asking(engine, "unblock", {scope: name}))


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
    return (yield from asking(engine, "settings.set", {**fields, **more}))


def unset(
    engine: Engine, scope: str, pattern: str, names: Names | None = None, *, everywhere: bool = False
) -> Steps[Answer]:
    """Remove settings that were set by command: the named ones, or all of a pattern."""
    listed = None if names is None else list(names)
    fields = {"scope": scope, "pattern": pattern, "names": listed, "everywhere": everywhere or None}
    return (yield from asking(engine, "settings.unset", fields))


def settings(engine: Engine, *, everywhere: bool = False) -> Steps[list[Answer]]:
    """Return settings, from commands and from the settings file, pattern by pattern.

    Those of patterns in other virtual hosts are left out without `everywhere`.
    """
    answer = yield from asking(engine, "settings.list", {"everywhere": everywhere})
    return list(answer["settings"])


def show(engine: Engine, scope: str, name: str = "") -> Steps[list[Answer]]:
    """Return the effective settings of a queue (or another object), each with its source."""
    answer = yield from asking(engine, "show", {scope: name})
    return list(answer["settings"])


def status(engine: Engine) -> Steps[Answer]:
    """Return the broker, its queues and its statistics."""
    return (yield from asking(engine, "status", {}))


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
    return (yield from asking(engine, "policy.set", {**fields, "apply-to": apply_to}))


def clear_policy(engine: Engine, name: str, *, operator: bool = False) -> Steps[Answer]:
    """Remove a policy of the connection's virtual host. Raises `ControlError` 404."""
    return (yield from asking(engine, "policy.clear", {"name": name, "operator": operator}))


def policies(engine: Engine, *, operator: bool = False, everywhere: bool = False) -> Steps[list[Answer]]:
    """Return the policies of the connection's virtual host, or of all, by name."""
    answer = yield from asking(engine, "policy.list", {"operator": operator, "everywhere": everywhere})
    return list(answer["policies"])


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
    return (yield from asking(engine, "queue.move", fields))


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
    return (yield from asking(engine, "queue.copy", fields))


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
    return (yield from asking(engine, "queue.redrive", fields))


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
    answer = yield from asking(engine, "definitions.export", fields)
    if for_rabbitmq:
        fields["for_rabbitmq"] = True
    read = 0
    for section in answer.pop("sections"):
        answer[section] = []
        after: int | None = 0
        while after is not None:
            page = yield from asking(engine, "definitions.export", {**fields, "section": section, "after": after})
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
    return (yield from asking(engine, "definitions.import", given))
