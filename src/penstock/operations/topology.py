"""Exchanges, queues and bindings: declared and removed over HTTP, and their definitions."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote_plus

from penstock.access.permission import MANAGEMENT
from penstock.access.rules import DEFAULT_EXCHANGE, EXCHANGE, QUEUE
from penstock.connections.control_request import ControlRequest
from penstock.connections.topology import (
    Asker,
    BindingTerms,
    bind,
    check_not_reserved,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    purge_queue,
    unbind,
)
from penstock.content.field_table import InvalidTable, check_table
from penstock.content.properties import check_name
from penstock.core.queue.pager import check
from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import bar_to_retention, check_retention
from penstock.core.queue.types import CLASSIC, QUEUE_TYPE, QueueType, check_flags, read_features, with_default_type
from penstock.core.routing.declarations import check_exchange, check_queue
from penstock.core.routing.exchange import Binding, Exchange, alternate_of, arguments_digest, selector_in, selector_work
from penstock.core.routing.exchange_types import make_exchange
from penstock.core.routing.route import CONTROL_EXCHANGE
from penstock.core.settings.overflow_changes import describe_overflow
from penstock.core.vhost import PREDECLARED, RESERVED, VirtualHost
from penstock.describe.list_kinds import BINDINGS as BINDING_KIND
from penstock.describe.list_kinds import EXCHANGES as EXCHANGE_KIND
from penstock.describe.list_kinds import QUEUES as QUEUE_KIND
from penstock.describe.list_kinds import Groups, bindings_to
from penstock.describe.lists import Rows
from penstock.describe.queue import queue_in_full
from penstock.describe.table import Row
from penstock.describe.vhost import properties_key
from penstock.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed
from penstock.management.node import Node
from penstock.management.operation import Operation, Route, looking
from penstock.operations.definitions_kinds import Definitions, Planned, Undo, check_vhost
from penstock.operations.definitions_parser import Entry, Section
from penstock.operations.lists import listing, sampled, showing
from penstock.settings.lengths import NAME_MAX
from penstock.settings.read import check_exchange_arguments, read_arguments
from penstock.settings.table import shown
from penstock.settings.without_effect import DELAYED, in_exchange, in_queue

PREDECLARED_KINDS: Final = dict(PREDECLARED)
KINDS: Final = {"q": QUEUE, "e": EXCHANGE}
"""Kinds of destinations, as paths have them."""
NO_KIND: Final = "no kind '{}' of destinations; there are q (queues) and e (exchanges)"
STREAM: Final = "stream"
STREAM_ARGUMENTS: Final[tuple[str, ...]] = (
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
)
"""Arguments of streams that mean nothing for a queue."""
AS_QUEUE: Final = (
    "a stream, imported as a durable queue: an acknowledged message is gone, offsets are not kept, and a client that "
    "declares it as a stream is refused; without streams_as_queues it is imported as a stream"
)


def _flags(entry: Entry) -> tuple[bool, bool, bool]:
    return entry.flag("durable"), entry.flag("auto_delete"), entry.flag("internal")


def _exchange(node: Node, entry: Entry) -> Exchange | None:
    vhost = node.broker.vhosts.get(entry.text("vhost"))
    return None if vhost is None else vhost.exchanges.get(entry.text("name"))


def _check_exchange(node: Node, entry: Entry, arguments: Row, planned: Planned | None) -> None:
    host, name = check_vhost(node, entry, planned), entry.text("name")
    check_name("exchange name", name)
    make_exchange(entry.text("type"), host, name)
    VirtualHost.check_not_default(name)


def _same_exchange(node: Node, entry: Entry, before: Exchange | None, arguments: Row) -> bool:
    if before is not None:
        check_exchange(before, entry.text("vhost"), entry.text("type"), arguments, *_flags(entry))
    return before is not None


def _plan_exchange(node: Node, entry: Entry, arguments: Row, planned: Planned) -> None:
    host, name = entry.text("vhost"), entry.text("name")
    if name.startswith(RESERVED):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix '{RESERVED}*'")
    check_exchange_arguments(name, arguments)
    make_exchange(entry.text("type"), host, name).set_arguments(arguments)
    alternate_of(name, host, arguments)
    planned.table.limits("address", name, None, host)
    planned.exchanges[(host, name)] = entry.text("type")


def _make_exchange(node: Node, entry: Entry, arguments: Row, before: Exchange | None) -> Undo:
    vhost = node.vhost(entry.text("vhost"))
    asker = Asker(node.broker, node.services)
    exchange = declare_exchange(asker, vhost, entry.text("name"), entry.text("type"), arguments, *_flags(entry))

    def undo() -> str:
        if vhost.exchanges.get(exchange.name) is exchange:
            try:
                vhost.delete_exchange(exchange.name, True)
            except BrokerError:
                return f"exchange '{exchange.name}'"
        return ""

    return undo


EXCHANGES_DEFINED: Final[Definitions] = Definitions(
    Section(
        "exchanges", "name type", texts="name vhost type", flags="durable auto_delete internal", objects="arguments"
    ),
    subject=lambda entry: f"exchange '{entry.text('name')}' in vhost '{entry.text('vhost')}'",
    read=lambda node, entry: table_of(entry),
    find=_exchange,
    put=_make_exchange,
    check=_check_exchange,
    plan=_plan_exchange,
    same=_same_exchange,
    note=lambda arguments: "; ".join(in_exchange(arguments, DELAYED)),
)

Declared = tuple[Row, bool, str]
"""Arguments and durability of a queue, and the features that a stream loses as a queue."""


def _declaration(node: Node, entry: Entry, streams_as_queues: bool) -> Declared:
    """Return the declaration in an entry. Raises as `table_of`."""
    vhost = node.broker.vhosts.get(entry.text("vhost"))
    default = CLASSIC if vhost is None else vhost.default_type()
    arguments, durable = arguments_of(entry, default), entry.flag("durable")
    if not streams_as_queues or arguments.get(QUEUE_TYPE) != STREAM:
        return with_default_type(arguments, default, durable, entry.flag("auto_delete"), False), durable, ""
    lost = ", ".join(f"{key}={shown(arguments[key])}" for key in STREAM_ARGUMENTS if key in arguments)
    accepted = {key: value for key, value in arguments.items() if key != QUEUE_TYPE and key not in STREAM_ARGUMENTS}
    return accepted, True, AS_QUEUE + (f"; left out: {lost}" if lost else "")


def _same_queue(node: Node, entry: Entry, before: Declared | None, value: Declared) -> bool:
    vhost, name = node.broker.vhosts.get(entry.text("vhost")), entry.text("name")
    there = vhost is not None and name in vhost.queues
    if vhost is not None and there:
        check_queue(vhost.queue(name), value[0], value[1], entry.flag("auto_delete"))
    return there


def _plan_queue(node: Node, entry: Entry, value: Declared, planned: Planned) -> None:
    (arguments, durable, _), host, name = value, entry.text("vhost"), entry.text("name")
    check_name("queue name", name)
    auto_delete = entry.flag("auto_delete")
    arguments = with_default_type(arguments, planned.default_types.get(host, CLASSIC), durable, auto_delete, False)
    features = read_features(name, arguments)
    check_flags(name, features, durable, auto_delete, False)
    node.broker.work.done += planned.table.policies.work(host, name)
    settings = planned.table.queue(host, name, read_arguments(name, arguments), features.type.apply_to)
    check(name, settings, features, node.broker.journal)
    bar = bar_to_retention(features, durable, auto_delete, False)
    check_retention(name, settings, bar, node.broker.journal is not None)
    planned.queues.add((host, name))


def _make_queue(node: Node, entry: Entry, value: Declared, before: Declared | None) -> Undo:
    vhost = node.vhost(entry.text("vhost"))
    asker, durable, arguments = Asker(node.broker, node.services), value[1], value[0]
    queue = declare_queue(asker, vhost, entry.text("name"), arguments, durable, entry.flag("auto_delete"))

    def undo() -> str:
        if queue.deleted:
            return ""
        if queue.consumers or queue.cursors or queue.depth_messages() or queue.gate.in_line():
            return f"queue '{queue.name}'"
        node.broker.delete_queue(queue)
        return ""

    return undo


def queue_definitions(streams_as_queues: bool) -> Definitions:
    """Return definitions of queues that are not exclusive; streams stay streams, or become durable queues."""
    return Definitions(
        Section("queues", "name", texts="name vhost type", flags="durable auto_delete", objects="arguments"),
        subject=lambda entry: f"queue '{entry.text('name')}' in vhost '{entry.text('vhost')}'",
        read=lambda node, entry: _declaration(node, entry, streams_as_queues),
        find=lambda node, entry: None,
        put=_make_queue,
        check=lambda node, entry, value, planned: check_vhost(node, entry, planned),
        plan=_plan_queue,
        same=_same_queue,
        note=lambda value: "; ".join([*([value[2]] if value[2] else []), *in_queue(value[0])]),
    )


def _bound(entry: Entry) -> str:
    to = f"{entry.text('destination_type')} '{entry.text('destination')}'"
    key = entry.text("routing_key")
    return f"binding from exchange '{entry.text('source')}' to {to} by '{key}' in vhost '{entry.text('vhost')}'"


def _check_bound(node: Node, entry: Entry, arguments: Row, planned: Planned | None) -> None:
    host = check_vhost(node, entry, planned)
    kind, name = entry.text("destination_type"), entry.text("destination")
    if kind not in ("queue", "exchange"):
        raise PreconditionFailed(f"destination_type must be queue or exchange, not '{kind}'")
    if planned is None:
        return
    source = _source(node, host, entry.text("source"), planned)
    if kind == "exchange":
        _source(node, host, name, planned)
    elif (host, name) not in planned.queues:
        if host in planned.vhosts:
            raise NotFound(f"no queue '{name}' in vhost '{host}'")
        node.vhost(host).queue(name)
    if source.name in ("", CONTROL_EXCHANGE):
        vhosts = node.broker.vhosts
        vhosts.get(host, next(iter(vhosts.values()))).source(source.name)  # If either refuses, both are refused.
    node.broker.work.done += selector_work(arguments)
    selector_in(arguments)
    check_name("routing key", entry.text("routing_key"))
    source.check_binding(entry.text("routing_key"), arguments)


def _source(node: Node, host: str, name: str, planned: Planned) -> Exchange:
    """Return an existing exchange, or an exchange like the planned one. Raises NotFound (404)."""
    kind = planned.exchanges.get((host, name))
    if kind is None and host in planned.vhosts:
        kind = PREDECLARED_KINDS.get(name)
        if kind is None:
            raise NotFound(f"no exchange '{name}' in vhost '{host}'")
    return node.vhost(host).exchange(name) if kind is None else make_exchange(kind, host, name)


def _is_bound(node: Node, entry: Entry, before: Row | None, arguments: Row) -> bool:
    vhost = node.broker.vhosts.get(entry.text("vhost"))
    source = None if vhost is None else vhost.exchanges.get(entry.text("source"))
    if vhost is None or source is None:
        return False
    name, to_queue = entry.text("destination"), entry.text("destination_type") == "queue"
    queue = vhost.queues.get(name) if to_queue else None
    target = None if to_queue else vhost.exchanges.get(name)
    if queue is None and target is None:
        return False
    return source.find(queue, target, entry.text("routing_key"), arguments) is not None


def _make_binding(node: Node, entry: Entry, arguments: Row, before: Row | None) -> Undo:
    vhost, kind = node.vhost(entry.text("vhost")), entry.text("destination_type")
    terms = BindingTerms(entry.text("source"), kind, entry.text("destination"), entry.text("routing_key"), arguments)
    binding = bind(Asker(node.broker, node.services), vhost, terms)

    def undo() -> str:
        existing = binding.source.find(binding.queue, binding.exchange, binding.key, binding.arguments)
        if existing is binding and vhost.exchanges.get(binding.source.name) is binding.source:
            vhost.remove_binding(binding)
        return ""

    return undo


BINDINGS_DEFINED: Final[Definitions] = Definitions(
    Section(
        "bindings",
        "source destination destination_type",
        texts="source vhost destination destination_type routing_key",
        objects="arguments",
        anything="properties_key",
    ),
    subject=_bound,
    read=lambda node, entry: table_of(entry),
    find=lambda node, entry: None,
    put=_make_binding,
    check=_check_bound,
    same=_is_bound,
    key=lambda entry: f"{_bound(entry)} {sorted(entry.table('arguments').items(), key=str)}",
)


class WrongArguments(PreconditionFailed):
    """Error for arguments that are not a field table."""


def table_of(entry: Entry) -> dict[str, object]:
    """Return the arguments of an entry. Raises WrongArguments for another type."""
    arguments = entry.table("arguments")
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise WrongArguments(str(error)) from None
    return arguments


def arguments_of(entry: Entry, default: QueueType = CLASSIC) -> dict[str, object]:
    """Return the arguments of a queue, with its type unless the type is the default. Raises as `table_of`."""
    arguments, kind = table_of(entry), entry.text("type")
    if kind and QUEUE_TYPE not in arguments and (kind != CLASSIC.name or default is not CLASSIC):
        return {**arguments, QUEUE_TYPE: kind}
    return arguments


# Operations


def put_queue(node: Node, request: ControlRequest) -> Row:
    """Declare a queue, or check that the existing queue is equal."""
    vhost, name = request.vhost, short(request.text("name"), "a queue's name")
    there = name in vhost.queues
    if not there:
        check_not_reserved(name)
    exclusive = request.connection is not None and request.flag("exclusive")
    flags = (request.flag("durable"), request.flag("auto_delete"), exclusive)
    queue = declare_queue(asker(node, request), vhost, name, _arguments(request), *flags)
    return {"created": not there, "overflow": [f"queue {name} {describe_overflow(queue.settings)}"]}


def asker(node: Node, request: ControlRequest) -> Asker:
    """Return the asker of a request."""
    return Asker(node.broker, node.services, request.access, request.connection)


def remove_queue(node: Node, request: ControlRequest) -> Row | None:
    """Delete a queue; `if-empty` and `if-unused` are conditions."""
    conditions = (request.flag("if-unused"), request.flag("if-empty"))
    count = delete_queue(asker(node, request), request.vhost, request.text("name"), *conditions)
    return None if count is None else {"message_count": count}


def purge(node: Node, request: ControlRequest) -> Row | None:
    """Drop the ready messages of a queue; None for a missing queue."""
    return purge_named(node, request) if request.text("name") in request.vhost.queues else None


def purge_named(node: Node, request: ControlRequest) -> Row:
    """Drop the ready messages of a queue. Raises NotFound (404)."""
    return {"message_count": purge_queue(asker(node, request), request.vhost, request.text("name"))}


def put_exchange(node: Node, request: ControlRequest) -> Row:
    """Declare an exchange, or check that the existing exchange is equal."""
    vhost, name = request.vhost, short(_exchange_name(request, "name"), "an exchange's name")
    there = name in vhost.exchanges
    arguments, kind = _arguments(request), request.text("type", "direct")
    flags = (request.flag("durable"), request.flag("auto_delete"), request.flag("internal"))
    declare_exchange(asker(node, request), vhost, name, kind, arguments, *flags)
    return {"created": not there}


def remove_exchange(node: Node, request: ControlRequest) -> Row | None:
    """Delete an exchange; `if-unused` is a condition."""
    name = _exchange_name(request, "name")
    return {} if delete_exchange(asker(node, request), request.vhost, name, request.flag("if-unused")) else None


def add_binding(node: Node, request: ControlRequest) -> Row:
    """Bind a queue or an exchange to an exchange; answer with the binding's path."""
    name = request.text("destination")
    key, arguments = short(request.text("routing_key", ""), "a routing key"), _arguments(request)
    made = bind(asker(node, request), request.vhost, _terms(request, key, arguments))
    where = quote(properties_key(key, arguments_digest(made)), safe="")
    return {"created": True, "location": f"{quote(name, safe='')}/{where}"}


def remove_binding(node: Node, request: ControlRequest) -> Row | None:
    """Remove a binding by its key."""
    binding = _named(request)
    if binding is None:
        return None
    if not isinstance(binding, Binding):
        raise AccessRefused("operation not permitted on the default exchange")
    unbind(asker(node, request), request.vhost, _terms(request, binding.key, binding.arguments))
    return {}


def _binding_row(node: Node, request: ControlRequest) -> Row | None:
    binding = _named(request)
    return None if binding is None else Rows(node, BINDING_KIND).of(binding)


def _queue_row(node: Node, request: ControlRequest) -> Row | None:
    queue = request.vhost.queues.get(request.text("name"))
    return None if queue is None else queue_in_full(queue, sampled(node, request))


def _exchange_row(node: Node, request: ControlRequest) -> Row | None:
    exchange = request.vhost.exchanges.get(_exchange_name(request, "name"))
    return None if exchange is None else EXCHANGE_KIND.table.row(exchange, sampled(node, request))


def _to_queue(node: Node, request: ControlRequest) -> Groups:
    queue = request.vhost.queues.get(request.text("name"))
    return iter([(request.vhost, [] if queue is None else bindings_to(request.vhost, queue, None))])


def _to_exchange(node: Node, request: ControlRequest) -> Groups:
    target = request.vhost.exchanges.get(_exchange_name(request, "name"))
    return iter([(request.vhost, [] if target is None else bindings_to(request.vhost, None, target))])


def _from_exchange(node: Node, request: ControlRequest) -> Groups:
    source = request.vhost.exchanges.get(_exchange_name(request, "name"))
    if source is not None and source.name == "":
        return QUEUE_KIND.groups(node, request.vhost)
    return iter([(request.vhost, [] if source is None else [*source.bindings.values()])])


def _between(node: Node, request: ControlRequest) -> Groups:
    vhost, kind = request.vhost, request.text("kind")
    source = vhost.exchanges.get(_exchange_name(request, "source"))
    its: list[object] = []
    try:
        origin, target = destination(vhost, kind, request.text("destination"))
    except NotFound:
        if kind not in KINDS:
            raise
        return iter([(vhost, its)])
    if source is not None and source.name == "":
        its = [] if origin is None else [origin]
    elif source is not None:
        its = [each for each in source.bindings.values() if each.queue is origin and each.exchange is target]
    return iter([(vhost, its)])


def destination(vhost: VirtualHost, kind: str, name: str) -> tuple[Queue | None, Exchange | None]:
    """Return the queue (kind q) or the exchange (e) that a path names. Raises NotFound (404)."""
    if kind == "q":
        return vhost.queue(name), None
    if kind == "e":
        return None, vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
    raise NotFound(NO_KIND.format(kind))


def _named(request: ControlRequest) -> Binding | Queue | None:
    """Return the binding in the path; a queue for its default binding.

    `~` is the empty routing key. Other keys may contain an unescaped `~`, as in requests of RabbitMQ's tools.
    """
    vhost, wanted = request.vhost, request.text("key")
    source = vhost.exchanges.get(_exchange_name(request, "source"))
    if source is None:
        return None
    queue, exchange = destination(vhost, request.text("kind"), request.text("destination"))
    if source.name == "":
        return queue if queue is not None and properties_key(queue.name, "") == wanted else None
    what, name = (QUEUE, request.text("destination")) if exchange is None else (EXCHANGE, exchange.name)
    key, _, digest = wanted.rpartition("~")
    if wanted == "~":
        return source.find_named(what, name, "", "")
    named = source.find_named(what, name, unquote_plus(wanted), "")
    return source.find_named(what, name, unquote_plus(key), digest) if named is None else named


def _terms(request: ControlRequest, key: str, arguments: dict[str, object]) -> BindingTerms:
    """Return the binding in the path, with a routing key. Raises NotFound (404) for another kind of destination."""
    kind = request.text("kind")
    if kind not in KINDS:
        raise NotFound(NO_KIND.format(kind))
    what = KINDS[kind]
    name = _exchange_name(request, "destination") if what == EXCHANGE else request.text("destination")
    return BindingTerms(_exchange_name(request, "source"), what, name, key, arguments)


def _exchange_name(request: ControlRequest, field: str) -> str:
    """Return the name of an exchange. Over HTTP (requests without a connection) the default exchange has a name."""
    name = request.text(field)
    return "" if name == DEFAULT_EXCHANGE and request.connection is None else name


def _arguments(request: ControlRequest) -> dict[str, object]:
    """Return the arguments of a declaration. Raises PreconditionFailed for values without an encoding for clients."""
    arguments = request.table("arguments")
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise PreconditionFailed(f"arguments: {error}") from None
    return arguments


def short(value: str, what: str) -> str:
    """Return a short string (AMQP 0-9-1 section 4.2.5.3). Raises PreconditionFailed."""
    octets = len(value.encode(errors="replace"))
    if octets > NAME_MAX:
        raise PreconditionFailed(f"{what} has {NAME_MAX} bytes at most, not {octets}")
    return value


QUEUES: Final = "/queues/{vhost}/{name}"
EXCHANGES: Final = "/exchanges/{vhost}/{name}"
BINDINGS: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
DECLARED: Final = "201 if it is new, 204 if an equal one exists."
FLAGS: Final[tuple[str, ...]] = ("durable", "auto_delete", "internal", "if-unused", "if-empty")
_BIND: Final[tuple[str, ...]] = ("write queue", "read exchange", "read topic")
OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("", put_queue, ("durable", "auto_delete", "arguments"), tag=MANAGEMENT, permissions=("configure queue",),
              routes=(Route(f"PUT {QUEUES}", f"Declare a queue: {DECLARED}", flags=FLAGS, silent=True),)),
    Operation("", remove_queue, tag=MANAGEMENT, permissions=("configure queue",), routes=(
        Route(f"DELETE {QUEUES}", "Delete a queue; if-empty=true and if-unused=true are conditions.",
              query=("if-unused", "if-empty"), flags=FLAGS, silent=True),
    )),
    Operation("", purge, tag=MANAGEMENT, permissions=("read queue",), routes=(
        Route(f"DELETE {QUEUES}/contents", "Drop the ready messages of a queue.", silent=True),
    )),
    Operation("", put_exchange, ("type", "durable", "auto_delete", "internal", "arguments"), tag=MANAGEMENT,
              permissions=("configure exchange",), routes=(
        Route(f"PUT {EXCHANGES}", f"Declare an exchange: {DECLARED}", flags=FLAGS, silent=True),
    )),
    Operation("", remove_exchange, tag=MANAGEMENT, permissions=("configure exchange",), routes=(
        Route(f"DELETE {EXCHANGES}", "Delete an exchange; if-unused=true is a condition.", query=("if-unused",),
              flags=FLAGS, silent=True),
    )),
    Operation("", add_binding, ("routing_key", "arguments"), tag=MANAGEMENT, permissions=_BIND, routes=(
        Route(f"POST {BINDINGS}", "Bind a queue or an exchange to an exchange; the header Location has the binding's "
              "path.", silent=True),
    )),
    Operation("", remove_binding, tag=MANAGEMENT, permissions=_BIND, routes=(
        Route(f"DELETE {BINDINGS}/{{key}}", "Remove a binding, by its key.", silent=True),
    )),
    showing(f"GET {QUEUES}", "Show a queue.", _queue_row),
    showing(f"GET {EXCHANGES}", "Show an exchange.", _exchange_row),
    listing(QUEUE_KIND, "GET /queues /queues/detailed /queues/{vhost}", "List queues, all or of a virtual host."),
    listing(EXCHANGE_KIND, "GET /exchanges /exchanges/{vhost}", "List exchanges, all or of a virtual host."),
    listing(BINDING_KIND, "GET /bindings /bindings/{vhost}", "List bindings, all or of a virtual host."),
    listing(BINDING_KIND, f"GET {QUEUES}/bindings",
            "List the bindings that lead to a queue; none for a missing one, as in RabbitMQ.", _to_queue),
    listing(BINDING_KIND, f"GET {EXCHANGES}/bindings/source",
            "List the bindings that lead from an exchange; none for a missing one, as in RabbitMQ.", _from_exchange),
    listing(BINDING_KIND, f"GET {EXCHANGES}/bindings/destination",
            "List the bindings that lead to an exchange; none for a missing one, as in RabbitMQ.", _to_exchange),
    listing(BINDING_KIND, f"GET {BINDINGS}",
            "List the bindings from an exchange to a queue or exchange; none if one is missing, as in RabbitMQ.",
            _between),
    looking("", _binding_row, tag=MANAGEMENT, routes=(
        Route(f"GET {BINDINGS}/{{key}}", "Show a binding, by its key."),
    )),
)  # fmt: skip
