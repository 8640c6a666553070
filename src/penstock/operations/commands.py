"""The table of commands that are one operation each, by the nouns of their groups; `penstock.cli` makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from penstock.errors import ConfigError
from penstock.operations.command import (
    BROKER,
    VHOST,
    Absent,
    Answer,
    Command,
    Field,
    Given,
    Says,
    definition,
    limit_numbers,
    named,
    pairs,
    places,
)
from penstock.operations.command_bridges import BRIDGES
from penstock.operations.command_info import INFOS
from penstock.operations.command_jobs import DETACH, JOBS, job_started
from penstock.operations.command_transfers import TRANSFERS
from penstock.settings.kind import COUNT
from penstock.settings.without_effect import in_exchange, in_queue
from penstock.texts import counted, nearest


class Noun(NamedTuple):
    """Group of commands."""

    section: str
    """Section of the help."""
    help: str
    scope: str = ""
    """Scope of its settings by pattern; "" for none."""
    names: str = ""
    """Kind of names that complete one of its objects, which the operator's gate can block; "" for none."""
    example: str = ""
    """Name of one of its objects, for the help."""


MESSAGES: Final = "Queues and messages"
CLIENTS: Final = "Clients"
RULES: Final = "Settings and policies"
ACCESS: Final = "Users and virtual hosts"
WATCH: Final = "See what happens"
WORK: Final = "Long work"
BETWEEN: Final = "Between brokers"
SPARK: Final = "Readers and writers of Spark"
NOUNS: Final[dict[str, Noun]] = {
    "queues": Noun(MESSAGES, "Declare queues, look at them, send and read messages.", "queue", "queues", "orders"),
    "messages": Noun(MESSAGES, "Look at messages, send or cancel delayed ones, move them between brokers."),
    "exchanges": Noun(MESSAGES, "Declare, list and delete exchanges.", "address", "exchanges", "logs"),
    "bindings": Noun(MESSAGES, "Bind queues to exchanges, list bindings and remove them."),
    "connections": Noun(CLIENTS, "List, close and block connections of clients.", "connection", "connections", "con:2"),
    "channels": Noun(CLIENTS, "List channels of AMQP 0-9-1 and sessions of AMQP 1.0."),
    "consumers": Noun(CLIENTS, "List consumers, with the reasons why they wait."),
    "policies": Noun(RULES, "Set, delete and list policies: settings for queues and exchanges, as in RabbitMQ."),
    "operator-policies": Noun(RULES, "Set, delete and list operator policies, which limit other policies."),
    "parameters": Noun(RULES, "List parameters, such as shovels and federation upstreams."),
    "broker": Noun(RULES, "Set and show settings of the whole broker.", "broker"),
    "users": Noun(ACCESS, "Add, change, delete and list users.", "user", "users", "anna"),
    "permissions": Noun(ACCESS, "Set, delete and list permissions: expressions of RE2 for names."),
    "limits": Noun(ACCESS, "Set, delete and list limits of users and virtual hosts."),
    "vhosts": Noun(ACCESS, "Declare, list and delete virtual hosts.", "vhost", "vhosts", "staging"),
    "alarms": Noun(WATCH, "List alarms: conditions that need a person; and test their web hook."),
    "jobs": Noun(WORK, "List, show and cancel jobs: imports and other long work."),
    "bridges": Noun(BETWEEN, "Carry messages between brokers: now, or for as long as both run."),
    "cursors": Noun(SPARK, "Create, show, move, release and delete cursors: read positions of applications."),
    "leases": Noun(SPARK, "List and end leases: ranges of queues that batch reads pin."),
    "sinks": Noun(SPARK, "List, hand over and end queries that publish with the delivery dedup or transactional."),
}
"""Groups of commands, by the plural of their noun, in the order of the help."""
METHODS: Final = frozenset(
    f"{noun}.{verb}" for noun in ("queue", "exchange") for verb in ("declare", "delete", "bind", "unbind", "purge")
)
"""Operations that are methods of AMQP 0-9-1, which every client has."""
EVERYWHERE: Final[Field] = Field("everywhere", "List all virtual hosts, not only the one in --url.", bool)
ARGUMENTS: Final[Field] = Field("arguments", metavar="[ARG=VALUE]...", many=True, required=False, read=pairs)
OF_QUEUE: Final[Field] = ARGUMENTS._replace(names="settings of queue")
OF_EXCHANGE: Final[Field] = ARGUMENTS._replace(names="settings of address")
DURABLE: Final[Field] = Field(
    "durable",
    "Keep the object over restarts of the broker, or not.",
    bool,
    default=True,
    option="--durable/--transient",
)
AUTO_DELETE: Final = Field("auto_delete", "Delete the object with its last consumer or binding.", bool)
IF_UNUSED: Final = Field("if_unused", "Delete the object only if it is unused.", bool)
IN_ALL: Final = Field("everywhere", "In all virtual hosts, not only in the one in --url.", bool)


def _gone(kind: str, field: str, key: str = "existed") -> Absent:
    """Return the text that is printed for a missing object."""
    return Absent(f"{kind} {{{field}}} does not exist", lambda given: {kind: given[field], key: False})


def _deletion(
    kind: str,
    text: str,
    *more: Field,
    says: str | Says = "",
    first: str = "",
    field: str = "",
    where: str = VHOST,
    then: Callable[[Given], tuple[str, Answer]] | None = None,
) -> Command:
    """Return the command that deletes an object by its name; its JSON has the messages of a queue."""
    name = field or kind

    def shown(given: Given, answer: Answer) -> object:
        if given.get("detach"):
            return answer
        count = {"messages": answer["message_count"]} if "message_count" in answer else {}
        return {kind: given[name], "deleted": True, **count}

    return Command(
        f"{kind}s delete", f"{kind}.delete", text, (Field(name, metavar="NAME", names=f"{kind}s"), *more),
        says or f"{kind} {{{name}}} is deleted", answer=shown, absent=_gone(kind, name, "deleted"), first=first,
        where=where, then=then,
    )  # fmt: skip


# Queues, exchanges, bindings and virtual hosts


def _declared(given: Given, answer: Answer) -> Iterable[str]:
    messages, consumers = counted(answer["message_count"], "message"), counted(answer["consumer_count"], "consumer")
    overflow = f"; it {answer['overflow']}" if "overflow" in answer else ""
    said = f"queue {answer['queue']} is declared; it has {messages} and {consumers}{overflow}"
    return [said, *in_queue(given["arguments"])]


RETAINED: Final = ".retained"
"""End of the name of a stream with settled messages of a queue, which outlives the queue."""
STREAM: Final = "stream"


def _companion_of(given: Given) -> tuple[str, Answer]:
    return "list", {"kind": "queues", "filters": [f"name={given['queue']}{RETAINED}"]}


def _deleted_queue(given: Given, answer: Answer) -> Iterable[str]:
    yield f"queue {given['queue']} is deleted with {counted(answer['message_count'], 'message')}"
    for each in answer.get("items", ()):
        if each["type"] == STREAM:
            kept = counted(each["messages"], "settled message")
            yield f"stream {each['name']} stays with {kept}; `penstock queues delete {each['name']}` deletes the stream"


def _binding(verb: str, does: str, sentence: str, text: str) -> Command:
    """Return the command that binds or unbinds; queues and exchanges have methods of their own."""

    def request(given: Given) -> tuple[str, Answer]:
        ends = ("destination", "source") if given["to_exchange"] else ("queue", "exchange")
        fields = dict(zip(ends, (given["target"], given["source"]), strict=True))
        fields |= {"routing_key": given["key"], "arguments": given["arguments"]}
        return f"{'exchange' if given['to_exchange'] else 'queue'}.{does}", fields

    def sentences(given: Given, answer: Answer) -> Iterable[str]:
        return [sentence.format(by=f" by '{given['key']}'" if given["key"] else "", **given)]

    def shown(given: Given, answer: Answer) -> object:
        kind = "exchange" if given["to_exchange"] else "queue"
        ends = {"source": given["source"], "destination": given["target"], "destination_type": kind}
        return {**ends, "routing_key": given["key"], "arguments": given["arguments"]}

    fields = (
        Field("source", names="exchanges"),
        Field("target", names="target"),
        ARGUMENTS,
        Field("key", "Set the binding key; topic keys may have * and #.", default=""),
        Field("to_exchange", "Take an exchange as TARGET, not a queue.", bool, option="--exchange"),
    )
    return Command(f"bindings {verb}", f"queue.{does}", text, fields, sentences, request, answer=shown)


TOPOLOGY: Final = (
    Command(
        "queues declare", "queue.declare",
        "Declare queue NAME, or check that it exists with the same attributes.\n\nIt is durable unless --transient. "
        "docs/settings.md lists the arguments. For example: penstock queues declare orders capacity-bytes=64MiB "
        "hold-deadline=10",
        (Field("queue", metavar="NAME"), OF_QUEUE, DURABLE, AUTO_DELETE),
        _declared,
        answer=lambda given, answer: {
            "queue": answer["queue"], "messages": answer["message_count"], "consumers": answer["consumer_count"],
            "overflow": answer.get("overflow"),
        },
        then=lambda given: ("show", {"queue": given["queue"]}),
    ),
    Command(
        "queues purge", "queue.purge",
        "Drop all ready messages of QUEUE; unacknowledged messages stay.\n\nFor example: penstock queues purge orders",
        (Field("queue", names="queues"),),
        lambda given, answer: [f"queue {given['queue']} is purged of {counted(answer['message_count'], 'message')}"],
        answer=lambda given, answer: {"queue": given["queue"], "purged": answer["message_count"]},
        absent=_gone("queue", "queue"),
    ),
    _deletion(
        "queue", "Delete queue NAME with its messages and bindings. Exit code 1: the queue does not exist.\n\n"
        "For example: penstock queues delete orders --if-empty",
        IF_UNUSED, Field("if_empty", "Delete the queue only if it has no messages.", bool), first="queue.declare",
        says=_deleted_queue, then=_companion_of,
    ),
    Command(
        "exchanges declare", "exchange.declare",
        "Declare exchange NAME, or check that it exists with the same attributes.\n\n"
        "An exchange is durable unless --transient. For example: penstock exchanges declare logs --type topic",
        (Field("exchange", metavar="NAME"), OF_EXCHANGE,
         Field("type", "Set the type: direct, fanout, topic, headers, x-delayed-message ...", default="direct"),
         DURABLE, AUTO_DELETE, Field("internal", "Accept publishes only from other exchanges.", bool)),
        lambda given, answer: [
            f"exchange {given['exchange']} ({given['type']}) is declared",
            *in_exchange(given["arguments"], given["type"]),
        ],
        answer=lambda given, answer: {"exchange": given["exchange"], "type": given["type"]},
    ),
    _deletion(
        "exchange", "Delete exchange NAME with its bindings. Exit code 1: the exchange does not exist.\n\n"
        "For example: penstock exchanges delete logs --if-unused", IF_UNUSED, first="exchange.declare",
    ),
    _binding(
        "declare", "bind", "{target} is bound to {source}{by}",
        "Bind queue TARGET to exchange SOURCE: publishes with a matching key reach the queue.\n\n"
        "A binding to a headers exchange has arguments. For example: penstock bindings declare logs orders --key "
        "'eu.#', or penstock bindings declare papers orders x-match=any format=pdf",
    ),
    _binding(
        "delete", "unbind", "{target} is not bound to {source}{by} any more",
        "Remove a binding with the same SOURCE, TARGET, key and arguments. A missing binding is no error.\n\n"
        "For example: penstock bindings delete logs orders --key 'eu.#'",
    ),
    Command(
        "vhosts declare", "vhost.declare",
        "Create virtual host NAME. It is durable if the broker has a store (not with `penstock serve --memory`).\n\n"
        "For example: penstock vhosts declare staging",
        (Field("name"),),
        lambda given, answer: [f"vhost {given['name']} {'is created' if answer['created'] else 'exists already'}"],
        answer=lambda given, answer: {"vhost": given["name"], "created": bool(answer["created"])},
        where=BROKER,
    ),
    Command(
        "vhosts protect", "vhost.protect",
        "Protect virtual host NAME from deletion, or with --off end the protection.\n\n"
        "For example: penstock vhosts protect production",
        (Field("name", names="vhosts"), Field("off", "permit its deletion again", bool, False)),
        lambda given, answer: [
            f"vhost {given['name']} {'may be deleted again' if given['off'] else 'is protected from deletion'}"
        ],
        request=lambda given: ("vhost.protect", {"name": given["name"], "protected": not given["off"]}),
        answer=lambda given, answer: {"vhost": given["name"], "protected": not given["off"]},
        where=BROKER,
    ),
    _deletion(
        "vhost", "Delete virtual host NAME with all its objects, and close its connections. --url must name another "
        "virtual host.\n\nFor example: penstock vhosts delete staging", DETACH, field="name", where=BROKER,
        says=lambda given, answer: [job_started(answer) if given["detach"] else f"vhost {given['name']} is deleted"],
    ),
)  # fmt: skip


# Settings by pattern and the operator's gate, for each noun that has them


EXAMPLES: Final[dict[str, str]] = {
    "queue": "capacity-messages=10000 stop-percent=60",
    "address": "capacity-bytes=64MiB",
    "vhost": "hold-deadline=30s",
    "broker": "stop-percent=60",
}
"""Settings in the help, by scope."""


def _scope(given: Given) -> str:
    """Return the scope of a command: of a user it may be that of each of its connections or producers."""
    return each_of(given) or str(given["scope"])


def each_of(given: Given) -> str:
    """Return the scope of the options of a user's settings; "" without one. Raises ConfigError for both."""
    found = [each for each in EACH if given.get(f"each_{each}")]
    if len(found) > 1:
        raise ConfigError("--each-connection and --each-producer are two settings: give one of them at a time")
    return found[0] if found else ""


def _setting(given: Given) -> tuple[str, Answer]:
    scope, pattern, words = _scope(given), given.get("pattern", ""), given["settings"]
    if not words:
        raise ConfigError(f"no settings for {scope} '{pattern}': give at least one NAME=VALUE after the pattern")
    settings = named(words, ": give a setting such as capacity-messages=10000", "setting ")
    fields = {"scope": scope, "pattern": pattern, "settings": settings, "override": given["override"] or None}
    return "settings.set", {**fields, **_everywhere(given)}


def _everywhere(given: Given) -> Answer:
    return {"everywhere": True} if given.get("everywhere") else {}


def _unsetting(given: Given) -> tuple[str, Answer]:
    names = list(given["names"]) or None
    fields = {"scope": _scope(given), "pattern": given.get("pattern", ""), "names": names}
    return "settings.unset", {**fields, **_everywhere(given)}


def _changed(given: Given, answer: Answer) -> Iterable[str]:
    shown = " ".join(f"{name}={value}" for name, value in answer["settings"].items())
    parts = (answer["scope"], answer["pattern"], shown or "nothing set by command")
    return [" ".join(part for part in parts if part), *answer["sentences"]]


PLACED: Final[tuple[str, ...]] = ("queue", "address")
"""Scopes of objects in virtual hosts."""
EACH: Final = ("connection", "producer")
OF_EACH: Final[tuple[Field, ...]] = (
    Field("each_connection", "Of each of the user's connections, not of all together.", bool),
    Field("each_producer", "Of each of its producers: channels, and links that send.", bool),
)
"""Options of a user's settings."""


def _of_connection(given: Given, answer: Answer) -> Iterable[str]:
    shown = " ".join(f"{name}={value}" for name, value in answer["settings"].items())
    return [f"connection {answer['connection']} {shown or 'has no settings of its own'}", *answer["sentences"]]


def _connection_setting(given: Given) -> tuple[str, Answer]:
    settings = named(given["settings"], ": give a setting such as rate-messages=100", "setting ")
    return "connection.set", {"connection": given["connection"], "settings": settings}


def _connection_unsetting(given: Given) -> tuple[str, Answer]:
    return "connection.unset", {"connection": given["connection"], "names": list(given["names"]) or None}


_CONNECTION: Final = Field("connection", metavar="NAME", names="connections")
OF_CONNECTIONS: Final = (
    Command(
        "connections set", "connection.set",
        "Set rates of connection NAME, at once and until it closes: its number, its name in the log, or its client's "
        "connection_name.\n\nFor all connections of a user, `penstock users set USER --each-connection`. For example: "
        "penstock connections set con:2 rate-messages=100",
        (_CONNECTION, Field("settings", metavar="NAME=VALUE...", many=True, names="settings of connection")),
        _of_connection, _connection_setting,
        where=BROKER,
    ),
    Command(
        "connections unset", "connection.unset",
        "Remove settings of connection NAME that `penstock connections set` has made: the named settings, or all.\n\n"
        "For example: penstock connections unset con:2",
        (_CONNECTION,
         Field("names", metavar="[NAME...]", many=True, required=False, names="names of settings of connection")),
        _of_connection, _connection_unsetting,
        absent=Absent("nothing is set for connection {connection}",
                      lambda given: {"connection": given["connection"], "existed": False}),
        where=BROKER,
    ),
)  # fmt: skip


def _settings_of(noun: str, row: Noun) -> tuple[Command, ...]:
    """Return the commands that set and unset settings of a noun."""
    scope = row.scope
    pattern = () if scope == "broker" else (Field("pattern", names=row.names),)
    where = "of the broker" if scope == "broker" else "for all names that match PATTERN"
    setting, shown = EXAMPLES.get(scope, "rate-messages=100"), f" {row.example}" if row.example else ""
    each = OF_EACH if scope == "user" else (IN_ALL,) if scope in PLACED else ()
    of = f"nothing is set for {scope}" + ("" if scope == "broker" else " {pattern}")
    return (
        Command(
            f"{noun} set", "settings.set",
            f"Set flow-control settings {where}, at once and until `penstock {noun} unset`.\n\n"
            + ("" if scope == "broker" else "In a pattern * is one word and # any number of words between dots; the "
               "most specific pattern wins. ")
            + "The exit code is 1 if a stronger source hides a setting. For example: "
            + f"penstock {noun} set{shown} {setting}",
            (*pattern, *each,
             Field("settings", metavar="NAME=VALUE...", many=True, required=scope == "broker",
                   names=f"settings of {scope}"),
             Field("override", "Be stronger than arguments of queues, and than all policies.", bool)),
            _changed, _setting, {"scope": scope}, where=BROKER,
        ),
        Command(
            f"{noun} unset", "settings.unset",
            f"Remove settings of {'the broker' if scope == 'broker' else 'PATTERN'} that `penstock {noun} set` has "
            "made: the named settings, or all.\n\n"
            f"For example: penstock {noun} unset{shown}",
            (*pattern, *each,
             Field("names", metavar="[NAME...]", many=True, required=False, names=f"names of settings of {scope}")),
            _changed, _unsetting, {"scope": scope},
            absent=Absent(of, lambda given: {"scope": scope, "pattern": given.get("pattern", ""), "existed": False}),
            where=BROKER,
        ),
    )  # fmt: skip


def _gate_of(noun: str, row: Noun) -> tuple[Command, ...]:
    """Return the commands that close and open the operator's gate of an object."""
    scope = row.scope
    preposition = "of" if scope in ("user", "connection") else "to"
    fields = (Field(scope, metavar="NAME", names=row.names),)
    return (
        Command(
            f"{noun} block", "block",
            f"Hold all publishes {preposition} {scope} NAME until `penstock {noun} unblock`.\n\n"
            "Consumers continue. A publish is refused at its hold deadline, as with any other gate. For example: "
            f"penstock {noun} block {row.example} --reason 'database upgrade'",
            (*fields, Field("reason", "Send this reason to blocked clients.", default="")),
            f"{scope} {{{scope}}} is blocked; `penstock {noun} unblock {{{scope}}}` releases it",
            where=VHOST if scope in PLACED else BROKER,
        ),
        Command(
            f"{noun} unblock", "unblock",
            f"Release the publishes that `penstock {noun} block` holds.\n\n"
            f"For example: penstock {noun} unblock {row.example}",
            fields, f"{scope} {{{scope}}} is not blocked any more",
            absent=Absent(f"{scope} {{{scope}}} is not blocked", lambda given: {scope: given[scope], "existed": False}),
            where=VHOST if scope in PLACED else BROKER,
        ),
    )  # fmt: skip


OBJECTS: Final = tuple(
    command
    for noun, row in NOUNS.items()
    if row.scope
    for command in (
        *(OF_CONNECTIONS if row.scope == "connection" else _settings_of(noun, row)),
        *(_gate_of(noun, row) if row.names else ()),
    )
)


# Policies

APPLY_TO: Final = ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")
OPERATOR: Final[Field] = Field("operator", "Take operator policies.", bool, hidden=True)


def _policy_set(given: Given, answer: Answer) -> Iterable[str]:
    return [f"policy {given['name']} is {'set' if answer['created'] else 'changed'}", *answer["sentences"]]


def _policies(noun: str, operator: tuple[Field, ...], fixed: Mapping[str, object]) -> tuple[Command, ...]:
    return (
        Command(
            f"{noun} set", "policy.set",
            "Set policy NAME for all names that the regular expression PATTERN matches, at once.\n\n"
            "The definition is a JSON object, as for rabbitmqctl, or KEY=VALUE words. For example: penstock "
            f"{noun} set lost '^orders\\.' alternate-exchange=lost, or penstock {noun} set short '^celery' "
            '\'{"max-length": 1000}\'',
            (Field("name"), Field("pattern"),
             Field("definition", metavar="DEFINITION | KEY=VALUE...", many=True, read=definition,
                   names="settings of queue"),
             Field("priority", "Of several that match, the highest applies.", int, default=0),
             Field("apply-to", "Apply the policy only to these kinds.", choices=APPLY_TO), *operator),
            _policy_set, fixed=fixed,
        ),
        Command(
            f"{noun} delete", "policy.clear",
            f"Remove policy NAME.\n\nFor example: penstock {noun} delete short",
            (Field("name", names="policies"), *operator),
            lambda given, answer: [f"policy {given['name']} is cleared", *answer["overflow"]], fixed=fixed,
            absent=_gone("policy", "name"),
        ),
    )  # fmt: skip


# Users, permissions and limits


def _tagged(given: Given, answer: Answer) -> Iterable[str]:
    tags = given["tags"]
    return [f"user {given['name']} has {'the tags ' + ', '.join(tags) if tags else 'no tags'}"]


def unknown_tags(given: Given) -> Iterable[str]:
    """Return a sentence for each tag that permits nothing; they are kept for other programs, as in RabbitMQ."""
    from penstock.access.permission import TAGS

    for tag in given["tags"]:
        if tag not in TAGS:
            near = nearest(tag, TAGS)
            yield f"tag {tag} permits nothing{f'; did you mean {near}?' if near else ''}"


def _permitting(given: Given) -> tuple[str, Answer]:
    topic, expressions = given["topic"], given["expressions"]
    kinds = ("configure", "write", "read") if topic is None else ("write", "read")
    if len(expressions) != len(kinds):
        raise ConfigError(f"give {len(kinds)} expressions, {', '.join(kinds)}, not {len(expressions)}")
    fields = {"user": given["user"], **dict(zip(kinds, expressions, strict=True))}
    return ("permission.set", fields) if topic is None else ("topic-permission.set", {**fields, "exchange": topic})


def _permitted(given: Given, answer: Answer) -> Iterable[str]:
    where = f"vhost {answer['vhost']}"
    where = where if given["topic"] is None else f"exchange {given['topic']} in {where}"
    return [f"user {given['user']} has a permission for {where}"]


def _forbidding(given: Given) -> tuple[str, Answer]:
    if given["topic"] is None:
        return "permission.clear", {"user": given["user"]}
    return "topic-permission.clear", {"user": given["user"], "exchange": given["topic"]}


def _forbidden(given: Given, answer: Answer) -> Iterable[str]:
    user, vhost = given["user"], answer["vhost"]
    if not answer["cleared"] and not given["if_exists"]:
        raise ConfigError(f"user '{user}' has no such permission in vhost '{vhost}': nothing was changed")
    return [f"user {user} has no permission in vhost {vhost}"]


def _limiting(given: Given) -> tuple[str, Answer]:
    return "limit.set", {given["scope"]: given["name"], "limits": given["limits"]}


def _limited(given: Given, answer: Answer) -> Iterable[str]:
    limits = given["limits"].items()
    changed = ", ".join(f"{limit}={value}" if value >= 0 else f"no {limit}" for limit, value in limits)
    return [f"{given['scope']} {given['name']} has {changed}"]


_LIMITED: Final = (Field("scope", choices=("user", "vhost")), Field("name", names="scope"))
_DELAYED: Final[tuple[Field, ...]] = (Field("queue", names="queues"), Field("id", metavar="ID|all"))
DELAYED: Final = (
    Command(
        "messages send-now",
        "message.send-now",
        "Deliver the delayed message ID of QUEUE now, or all of them; they join the end of the queue.\n\n"
        "The ids are those of `messages delayed`. For example: penstock messages send-now orders d7",
        _DELAYED,
        lambda given, answer: [
            f"{counted(answer['messages'], 'message')} of queue {given['queue']} ready now, {answer['left']:,} delayed"
        ],
    ),
    Command(
        "messages cancel",
        "message.cancel",
        "Remove the delayed message ID of QUEUE, or all of them, without dead letters.\n\n"
        "The ids are those of `messages delayed`. For example: penstock messages cancel orders d7",
        _DELAYED,
        lambda given, answer: [
            f"{counted(answer['messages'], 'message')} of queue {given['queue']} cancelled, {answer['left']:,} delayed"
        ],
    ),
)
USERS: Final = (
    Command(
        "users tags", "user.tags",
        "Replace the tags of user NAME by TAGS; without TAGS remove all.\n\n"
        "For example: penstock users tags anna monitoring policymaker",
        (Field("name", names="users"), Field("tags", many=True, required=False, read=list, names="tags")),
        _tagged, remarks=unknown_tags, where=BROKER,
    ),
    Command(
        "users delete", "user.delete",
        "Delete user NAME with its permissions, and close its connections.\n\nFor example: penstock users delete anna",
        (Field("name", names="users"),), "user {name} is deleted", answer=lambda given, answer: {},
        absent=_gone("user", "name"), ends="user '{name}' was deleted",
        where=BROKER,
    ),
    Command(
        "permissions set", "permission.set",
        "Permit USER the names that CONFIGURE WRITE READ match in the virtual host of --url; '.*' is all, '' none.\n\n"
        "For example: penstock permissions set anna '^anna-' '.*' '.*'",
        (Field("user", names="users"), Field("expressions", many=True),
         Field("topic", "Set a topic permission for this exchange: WRITE READ.", metavar="EXCHANGE",
               names="exchanges")),
        _permitted, _permitting,
    ),
    Command(
        "permissions delete", "permission.clear",
        "Remove the permissions of USER in the virtual host of --url, and close the user's connections there.\n\n"
        "For example: penstock permissions delete anna --url amqp://127.0.0.1/staging",
        (Field("user", names="users"),
         Field("topic", "Delete the topic permission for this exchange.", metavar="EXCHANGE", names="exchanges")),
        _forbidden, _forbidding,
        absent=Absent("user {user} has no permission in this virtual host",
                      lambda given: {"user": given["user"], "existed": False}),
    ),
    Command(
        "limits set", "limit.set",
        "Set limits: max-connections and max-channels of a user, max-connections and max-queues of a vhost.\n\n"
        "For example: penstock limits set user anna max-connections=10",
        (*_LIMITED, Field("limits", metavar="LIMIT=NUMBER...", many=True, read=limit_numbers, names="limits")),
        _limited, _limiting,
        where=BROKER,
    ),
    Command(
        "limits delete", "limit.set",
        "Remove limits of a user or of a virtual host.\n\n"
        "For example: penstock limits delete user anna max-connections",
        (*_LIMITED, Field("limits", metavar="LIMIT...", many=True, read=lambda names: dict.fromkeys(names, -1))),
        _limited, _limiting, where=BROKER,
    ),
)  # fmt: skip


# Clients, cursors and certificates


def _moved(given: Given, answer: Answer) -> Iterable[str]:
    return [f"cursor {given['cursor']}, {sentence}" for sentence in answer["sentences"]]


def _created(given: Given, answer: Answer) -> Iterable[str]:
    begins = answer["initial"].items()
    return [f"cursor {given['cursor']} begins after {offset:,} on queue {queue}" for queue, offset in begins]


def _released(given: Given, answer: Answer) -> Iterable[str]:
    return [f"cursor {given['cursor']} no longer keeps the messages of queue {queue}" for queue in given["queues"]]


def _certificates(given: Given, answer: Answer) -> Iterable[str]:
    for each in answer["certificates"]:
        yield f"{each['file']}: {', '.join(each['names']) or each['subject']}, valid for {each['days_left']:,} days"
        if each["warning"]:
            yield str(each["warning"])


def _hook_test(given: Given, answer: Answer) -> Iterable[str]:
    """Raises ConfigError for a test that the server did not take."""
    sentence = f"{answer['url']} answered {answer['status']} in {answer['ms']:,} ms: {answer['answer'] or 'nothing'}"
    if answer["error"]:
        raise ConfigError(f"{answer['url']}: {answer['error']}")
    return [sentence]


_CURSOR: Final = Field("cursor", metavar="NAME", names="cursors")
OTHERS: Final = (
    Command(
        "connections close", "connection.close",
        "Close connection NAME: its number, its name in the log, its client's connection_name or port.\n\n"
        "The client gets connection-forced (320) with the reason, and may connect again; `penstock users block NAME` "
        "holds publishes. For example: penstock connections close 2 --reason 'maintenance'",
        (_CONNECTION, Field("reason", "Send this reason to the client.", default="")),
        "connection {closed} is closed", absent=_gone("connection", "connection"), where=BROKER,
    ),
    Command(
        "alarms test", "alarm.test",
        "Send a test to the web hook of alarms, and print what came back.\n\n"
        "The URL is in [alarm-hook] of the settings file. Exit code 1: the server did not take the test. For example: "
        "penstock alarms test",
        says=_hook_test, where=BROKER,
    ),
    Command(
        "sinks assign", "sink.assign",
        "Let USER continue QUERY: the id of a stream, or its txnAppId. It belonged to the user that began it.\n\n"
        "Tasks of the previous user can publish no more rows. For example: penstock sinks assign nightly-bills etl2",
        (Field("query", names="sinks"), Field("user", names="users")),
        lambda given, answer: [f"query {given['query']} belongs to user {given['user']} now, at "
                               f"{counted(answer['targets'], 'target')}"],
    ),
    Command(
        "sinks end", "sink.end",
        "Drop the staged rows of QUERY, and delete its marks: for a query that will not run again.\n\n"
        "A batch that runs again afterwards is published again, so its rows may arrive twice. For example: "
        "penstock sinks end nightly-bills",
        (Field("query", names="sinks"),),
        lambda given, answer: [f"query {given['query']} is ended at {counted(answer['targets'], 'target')}; "
                               f"{counted(answer['staged'], 'staged message')} dropped"],
        absent=_gone("query", "query"),
    ),
    Command(
        "leases end", "lease.close",
        "End lease NUMBER of a batch read: messages that only this lease pins leave their queue.\n\n"
        "The reader continues under another lease if all messages of its range are still there, and fails otherwise. "
        "For example: penstock leases end 7",
        (Field("lease", metavar="NUMBER", kind=COUNT, names="leases"),), "lease {lease} is ended",
        answer=lambda given, answer: {"lease": given["lease"], "ended": True}, absent=_gone("lease", "lease"),
    ),
    Command(
        "cursors create", "cursor.attach",
        "Create cursor NAME on each QUEUE, before its reader: messages that arrive meanwhile wait for the reader.\n\n"
        "With QUEUE=SEQUENCE all messages up to SEQUENCE count as read; other queues begin at the earliest message. "
        "Exit code 1: the cursor exists. For example: penstock cursors create billing orders --at latest",
        (Field("cursor", metavar="NAME"), Field("queues", metavar="QUEUE...", many=True, names="queues", read=list),
         Field("starting", "earliest (the default), latest or QUEUE=SEQUENCE.", option="--at", metavar="PLACE",
               many=True, read=places)),
        _created, fixed={"create": True},
        answer=lambda given, answer: {"cursor": given["cursor"], "queues": answer["initial"]},
    ),
    Command(
        "cursors move", "cursor.move",
        "Move cursor NAME to PLACE: earliest, latest or QUEUE=SEQUENCE (messages up to SEQUENCE count as read).\n\n"
        "This cursor does not read messages that a move skips. A move back reaches only messages that another cursor "
        "still needs. "
        "For example: penstock cursors move billing latest --dry-run, or penstock cursors move billing orders=1200",
        (_CURSOR, Field("to", metavar="PLACE...", many=True, read=places),
         Field("dry_run", "Only report the effects of the move.", bool),
         Field("force", "Move the cursor while a query reads; the query ends with an error.", bool)),
        _moved,
    ),
    Command(
        "cursors release", "cursor.release",
        "Release each QUEUE that cursor NAME has left: its query no longer subscribes to the queue.\n\n"
        "Unsettled messages stay in the queue, for other cursors and consumers. For example: penstock cursors "
        "release billing old-orders",
        (_CURSOR, Field("queues", metavar="QUEUE...", many=True, names="queues", read=list)), _released,
        answer=lambda given, answer: {"released": given["queues"]}, absent=_gone("cursor", "cursor"),
    ),
    _deletion(
        "cursor", "Delete cursor NAME of a reader that will not return: its queues become ordinary queues again.\n\n"
        "Unsettled messages stay in them. For example: penstock cursors delete billing",
    ),
    Command(
        "tls reload", "tls.reload",
        "Read the files of the certificates again: new connections use the new certificates, open connections stay.\n\n"
        "If a file cannot be used, the old certificates stay and the reason is printed. For example: penstock tls "
        "reload",
        says=_certificates, answer=lambda given, answer: answer["certificates"], where=BROKER,
    ),
)  # fmt: skip

COMMANDS: Final[tuple[Command, ...]] = (
    *TOPOLOGY, *TRANSFERS, *DELAYED, *OBJECTS, *_policies("policies", (OPERATOR,), {}),
    *_policies("operator-policies", (), {"operator": True}), *USERS, *OTHERS, *JOBS, *INFOS, *BRIDGES,
)  # fmt: skip
