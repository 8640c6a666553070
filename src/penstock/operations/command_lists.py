"""The table of commands that print a list: the operations that they request, and their columns.

`penstock.cli` builds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from penstock.operations.command import (
    BROKER,
    VHOST,
    Answer,
    Columns,
    Field,
    Given,
    Item,
    Listing,
    Value,
    setting_value,
)
from penstock.operations.command_jobs import job_words
from penstock.operations.commands import EVERYWHERE, NOUNS, OF_EACH, OPERATOR, PLACED, Noun, each_of
from penstock.settings.kind import COUNT
from penstock.texts import shown_age, shown_capacity, shown_percent

POSITIONS_LISTED: Final = 3
"""Most queues of a cursor in a table of cursors."""


def _columns(names: str, texts: dict[str, Callable[[Any], str]] | None = None, **computed: Value) -> Columns:
    """Return columns by their names, each with its path, or the name of a function, where that is another."""
    pairs = [(name, path) for name, _, path in (word.partition("=") for word in names.split(", "))]
    paths: dict[str, Value | str] = {name: computed.get(path, path) for name, path in pairs if path}
    return Columns(tuple(name for name, _ in pairs), paths, texts or {})


def _credit(item: Item) -> int | None:
    """Return the credit of the links of a session that have senders; None for a channel."""
    links = item["penstock"].get("links", [])
    granted = [link["credit"]["credit"] for link in links if "credit" in link]
    return sum(granted) if granted else None


def _consumer_tag(item: Item) -> str:
    return str(item["consumer_tag"]) + (" (browses)" if item["penstock"]["browses"] else "")


def shown_seconds(value: float | None) -> str:
    """Return a number of seconds for people."""
    return "-" if value is None else f"{value:.1f} s"


def asked_last(item: Item) -> str | None:
    """Return the time since the last request of a cursor's reader; None without one."""
    return None if item["asked_s_ago"] is None else f"{item['asked_s_ago']:.1f} s ago"


def _reader(item: Item) -> str | None:
    """Return the connection that reads through a cursor; None if it is gone."""
    reader = item["reader"]
    return str(reader["connection"]) if reader is not None and reader["open"] else None


def _due(item: Item) -> str:
    """Return in how many seconds a delayed message is due."""
    return f"{item['due_in_s']:,.1f} s"


def _idle(item: Item) -> str | None:
    """Return since when no reader is attached to a cursor; None while there is one."""
    return None if item.get("idle_s") is None else f"{item['idle_s']:.1f} s ago"


def _expires(item: Item) -> str:
    """Return when a cursor expires if no reader attaches."""
    ends = item.get("expires_in_s")
    return "never" if ends is None else f"{ends:.1f} s"


def _positions(item: Item) -> str:
    """Return a cursor's progress by queue: settled and last sequence number."""
    parts = [f"{each['queue']} {each['settled']:,}/{each['tail']:,}" for each in item["queues"][:POSITIONS_LISTED]]
    more = len(item["queues"]) + item["more_queues"] - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more else "")


def _ranges(item: Item) -> str:
    """Return what a lease reads, by queue."""
    parts = [f"{each['queue']} {each['lo'] + 1:,}-{each['hi']:,}" for each in item["queues"][:POSITIONS_LISTED]]
    more = len(item["queues"]) + item["more_queues"] - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more else "")


def _listed(
    kind: str,
    example: str,
    names: str,
    texts: dict[str, Callable[[Any], str]] | None = None,
    orders: dict[str, str] | None = None,
    **computed: Value,
) -> Listing:
    """Return one of the broker's own lists, with the options of an example; see `_columns`."""
    by_name = kind in ("queues", "exchanges", "consumers", "cursors", "bridges", "vhosts")
    text = (
        f"List the {'virtual hosts' if kind == 'vhosts' else kind}.\n\n--json has the fields of the HTTP API "
        f"(docs/http.md). For example: penstock {kind} list {example}"
    )
    columns = _columns(names, texts, **computed)._replace(orders=orders or {})
    fixed: dict[str, object] = {"kind": kind, "sort": ["name"]} if by_name else {"kind": kind}
    field, where = (EVERYWHERE._replace(hidden=True), BROKER) if kind == "vhosts" else (EVERYWHERE, VHOST)
    return Listing(f"{kind} list", "list", text, columns, "items", (field,), fixed, where=where)


LISTS: Final = (
    _listed(
        "queues", "--sort state,-messages --limit 20",
        "name, state=penstock.state.text, fill=penstock.fill_percent, messages, in/s=penstock.rates.publish"
        ", out/s=penstock.rates.deliver_get, consumers, oldest=penstock.oldest_s, messages_unacknowledged"
        ", bytes=penstock.depth.bytes, capacity=penstock.capacity, gate=gate, held by=penstock.road.held_by"
        ", blocked=penstock.road.blocked, policy, durable, arguments",
        {"capacity": shown_capacity, "fill": shown_percent, "oldest": shown_age},
        {"state": "penstock.state.rank"},
        gate=lambda item: "open" if item["penstock"]["road"]["open"] else "closed",
    ),
    _listed("exchanges", "--filter type=topic", "name, type, durable, auto_delete, internal, policy, arguments"),
    _listed("bindings", "--filter source=logs", "source, routing_key, destination, destination_type, arguments"),
    _listed(
        "connections", "--filter 'state!=running'",
        "name=penstock.label, user, protocol, state, channels, recv_oct, send_oct, client=client_properties.product",
    ),
    _listed(
        "channels", "--filter 'held>0'",
        "name=penstock.label, messages_unacknowledged, consumer_count, prefetch_count, confirm"
        ", held=penstock.held.messages, withheld=penstock.withheld, credit=credit",
        credit=_credit,
    ),
    _listed(
        "consumers", "--filter queue=orders",
        "queue=queue.name, consumer_tag=tag, channel=channel_details.penstock.label, prefetch_count"
        ", credit=penstock.link_credit, window=penstock.adaptive_window.messages, window_bytes=penstock.window_bytes"
        ", ack_required, waits for=waits",
        tag=_consumer_tag, waits=lambda item: "; ".join(item["penstock"]["obstacles"]) or None,
    ),
    _listed(
        "cursors", "--sort -lag",
        "name, queues=positions, lag=lag.messages, bytes=lag.bytes, oldest=lag.oldest_s, blocks, reader=reader"
        ", asked last=asked, idle since=idle, expires in=expires",
        {"oldest": shown_seconds}, positions=_positions, reader=_reader, asked=asked_last, idle=_idle, expires=_expires,
    ),
    _listed(
        "leases", "--sort -held",
        "lease=number, user, query, client, ranges=ranges, held, finished, ends in=ends_in_s",
        {"ends in": shown_seconds}, ranges=_ranges,
    ),
    _listed(
        "sinks", "--sort -staged",
        "query, user, client, target, batch, marks, staged=staged.messages, bytes=staged.bytes, asked last=asked"
        ", ends in=staged.ends_in_s",
        {"ends in": shown_seconds}, asked=asked_last,
    ),
    _listed("vhosts", "--sort -messages", "name, messages, messages_ready, messages_unacknowledged"),
)  # fmt: skip
"""The broker's own lists: names of columns, with the path of the value or the name of a function where that is
another."""


# Settings


def _set(items: list[Item]) -> list[Item]:
    return [
        {
            "scope": each["scope"],
            "pattern": each["pattern"],
            "vhost": each.get("vhost"),
            "setting": f"{name}={value}",
            "by": by,
        }
        for each in items
        for by in ("command", "override", "file")
        for name, value in each.get(by, {}).items()
    ]


def _with_hidden(items: list[Item]) -> list[Item]:
    rows: list[Item] = []
    for row in items:
        rows += [row, *({**each, "setting": row["setting"], "hidden": True} for each in row.get("hides", ()))]
    return rows


def _of_each(given: Given) -> tuple[str, Answer]:
    each = each_of(given)
    return "show", {"user": given["user"], **({"each": each} if each else {})}


def _shown(noun: str, row: Noun) -> Listing:
    scope = row.scope
    name = () if scope == "broker" else (Field(scope, metavar="NAME", names=row.names),)
    each = OF_EACH if scope == "user" else ()
    example = "broker show" if scope == "broker" else f"{noun} show {row.example}"
    return Listing(
        f"{noun} show", "show",
        f"Show the effective settings of {'the broker' if scope == 'broker' else f'{scope} NAME'}, each with its "
        "source.\n\nA value in parentheses is hidden by the source before it. For example: penstock " + example,
        Columns(("setting", "value", "from"), of_items={"value": setting_value}), "settings",
        (*name, *each), {"broker": ""} if scope == "broker" else {}, rows=_with_hidden, raw=True, whole="",
        request=_of_each if each else None, where=VHOST if scope in PLACED else BROKER,
    )  # fmt: skip


# Users, permissions and limits


def _permissions(users: list[Item]) -> list[Item]:
    rows: list[tuple[str, ...]] = []
    for each in users:
        name = each["name"]
        if each["everywhere"]:
            rows.append((name, "(all others)", "", ".*", ".*", ".*"))
        for it in each["permissions"]:
            rows.append((name, it["vhost"], "", it["configure"], it["write"], it["read"]))
        for it in each["topic_permissions"]:
            rows.append((name, it["vhost"], it["exchange"] or "amq.default", "", it["write"], it["read"]))
    return [dict(zip(PERMISSIONS.default, row, strict=True)) for row in rows]


def _limits(given: dict[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in given.items()) or "-"


def _job_progress(item: Item) -> str | None:
    return job_words(item) or None


def _limited(answer: list[Item]) -> list[Item]:
    return [
        {"scope": scope, "name": name, "limits": limits}
        for scope in ("user", "vhost")
        for name, limits in answer[0][f"{scope}s"].items()
    ]


def _limits_by_name(rows: list[Item]) -> Answer:
    return {
        f"{scope}s": {row["name"]: row["limits"] for row in rows if row["scope"] == scope}
        for scope in ("user", "vhost")
    }


USERS: Final = _columns(
    "user=name, tags, from=from, virtual hosts=vhosts, limits",
    {"limits": _limits, "tags": lambda tags: ", ".join(tags) or "-"},
    **{
        "from": lambda item: {"file": "settings file", "default": "default"}.get(item["source"], "store"),
        "vhosts": lambda item: (
            "everything" if item["everywhere"] else ", ".join(it["vhost"] for it in item["permissions"]) or None
        ),
    },
)
PERMISSIONS: Final = Columns(("user", "vhost", "topic exchange", "configure", "write", "read"))
POLICIES: Final = Columns(
    ("vhost", "name", "pattern", "apply-to", "priority", "definition", "without effect"),
    {"without effect": lambda item: ", ".join(item["without_effect"]) or None},
)
POLICY_HELP: Final = "keys in the last column are stored, and have no effect here.\n\nFor example: penstock"
BRIDGES: Final = _listed(
    "bridges",
    "--filter 'state!=moving'",
    "name, component, state, source, target, carried, refused, lag, user, reason",
)
JOBS: Final = Listing(
    "jobs list", "job.list",
    "List jobs: unfinished jobs, and the last finished jobs.\n\nFor example: penstock jobs list --filter "
    "state=running",
    _columns("job=id, kind, subject, state, progress=progress, user", progress=_job_progress), "jobs", raw=True,
    where=BROKER,
)  # fmt: skip
DELAYED: Final = Listing(
    "messages delayed", "message.delayed",
    "List the delayed messages of QUEUE, the first ones by due time.\n\nA message with an id such as r7 waits for "
    "another try after a failed delivery. For example: penstock messages delayed orders --count 20",
    _columns("id, due in=due, exchange, routing_key, bytes, persistent, failures", due=_due), "messages",
    (Field("queue", names="queues"), Field("count", "List at most so many; the most is 1,000.", COUNT)), raw=True,
)  # fmt: skip
LISTINGS: Final[tuple[Listing, ...]] = (
    *LISTS,
    DELAYED,
    *(_shown(noun, row) for noun, row in NOUNS.items() if row.scope),
    Listing(
        "settings", "settings.list",
        "List settings by pattern, from commands and from the settings file: of the broker, of all virtual hosts, and "
        "of the one in --url.\n\nFor example: penstock settings --filter scope=queue",
        Columns(("scope", "pattern", "vhost", "setting", "by")), "settings", (EVERYWHERE,), rows=_set, raw=True,
        whole="",
    ),
    Listing(
        "policies list", "policy.list", f"List the policies; {POLICY_HELP} policies list",
        POLICIES, "policies", (EVERYWHERE, OPERATOR),
    ),
    Listing(
        "operator-policies list", "policy.list",
        f"List the operator policies; {POLICY_HELP} operator-policies list",
        POLICIES, "policies", (EVERYWHERE,), {"operator": True},
    ),
    Listing(
        "parameters list", "parameter.list",
        "List the parameters, in the form of RabbitMQ's definitions.\n\nFor example: penstock parameters list",
        Columns(("vhost", "component", "name", "value")), "parameters",
        (EVERYWHERE,),
    ),
    Listing(
        "users list", "user.list",
        "List users, without their passwords.\n\nFor example: penstock users list --filter tags~administrator",
        USERS, "users", whole="users", where=BROKER,
    ),
    Listing(
        "permissions list", "permission.list",
        "List permissions and topic permissions.\n\nFor example: penstock permissions list --user anna",
        PERMISSIONS, "users", (Field("user", "List only permissions of this user.", names="users"), EVERYWHERE),
        rows=_permissions, whole="permissions",
    ),
    Listing(
        "limits list", "limit.list",
        "List all limits of users and virtual hosts.\n\nFor example: penstock limits list",
        Columns(("scope", "name", "limits"), texts={"limits": _limits}), "", rows=_limited, whole="limits",
        as_object=_limits_by_name, where=BROKER,
    ),
    JOBS,
    BRIDGES,
)  # fmt: skip
