"""Exchanges, queues and bindings: declared and removed over HTTP, and their definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_plus

from typing_extensions import override

from penstock.access.connection_access import DEFAULT_EXCHANGE, EXCHANGE, QUEUE
from penstock.access.tags import MANAGEMENT
from penstock.content.field_table import InvalidTable, check_table
from penstock.content.names import check_name
from penstock.core.queue.paging_setup import check
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding, arguments_digest, selector_in
from penstock.core.routing.equivalence import check_exchange, check_queue
from penstock.core.routing.exchange import Exchange, alternate_of, make_exchange
from penstock.core.routing.route_lookup import CONTROL_EXCHANGE
from penstock.core.settings.policies import kind_of
from penstock.core.vhost import PREDECLARED, RESERVED, VirtualHost
from penstock.describe.lists import Rows
from penstock.describe.routing import properties_key
from penstock.describe.table import Row
from penstock.errors import AccessRefused, BrokerError, NotFound, PreconditionFailed, ResourceLocked
from penstock.management.control_request import ControlRequest
from penstock.management.operation import Operation, Route, looking
from penstock.operations.definitions_kinds import (
    CREATED,
    UNCHANGED,
    DefinitionKind,
    Difference,
    Made,
    Planned,
    check_vhost,
)
from penstock.operations.definitions_parser import Entry
from penstock.protocols.common import authorization
from penstock.settings.features import check_flags, read_features
from penstock.settings.read import read_arguments

if TYPE_CHECKING:
    from penstock.management.node import Node

PREDECLARED_KINDS: Final = dict(PREDECLARED)
STREAM: Final = "stream"
STREAM_ARGUMENTS: Final = (
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
)
"""Arguments of streams that mean nothing for a queue."""
AS_QUEUE: Final = (
    "a stream, imported as a durable queue: an acknowledged message is gone, offsets are not kept, and a client that "
    "declares it as a stream is refused; a cursor reads a queue again and again (docs/spark.md)"
)


class ExchangeKind(DefinitionKind):
    """Exchanges, except the predeclared ones."""

    name = "exchanges"

    @override
    def subject(self, entry: Entry) -> str:
        return f"exchange '{entry.text('name')}' in vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        host, name, kind = check_vhost(self.node, entry.text("vhost"), planned), entry.text("name"), entry.text("type")
        self.check_once(entry)
        arguments = table_of(entry)
        check_name("exchange name", name)
        make_exchange(kind, host, name)
        VirtualHost.check_not_default(name)
        if (host, name) in planned.exchanges:
            return self.difference(entry, UNCHANGED)
        vhost = self.node.broker.vhosts.get(host)
        exchange = None if vhost is None else vhost.exchanges.get(name)
        if exchange is not None:
            flags = (entry.flag("durable"), entry.flag("auto_delete"), entry.flag("internal"))
            check_exchange(exchange, host, kind, arguments, *flags)
            return self.difference(entry, UNCHANGED)
        if name.startswith(RESERVED):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix '{RESERVED}*'")
        alternate_of(name, host, arguments)
        planned.table.limits("address", name)
        planned.exchanges[(host, name)] = kind
        return self.difference(entry, CREATED)

    @override
    def make(self, entry: Entry, made: Made) -> None:
        vhost = self.node.vhost(entry.text("vhost"))
        self.check_once(entry)
        name = entry.text("name")
        there = name in vhost.exchanges
        vhost.declare_exchange(
            name,
            entry.text("type"),
            table_of(entry),
            entry.flag("durable"),
            entry.flag("auto_delete"),
            entry.flag("internal"),
        )
        exchange = vhost.exchanges.get(name)
        if not there and exchange is not None:
            made.add(self.name, CREATED, lambda: self._drop(vhost, exchange))

    def _drop(self, vhost: VirtualHost, exchange: Exchange) -> str:
        if vhost.exchanges.get(exchange.name) is not exchange:
            return ""
        try:
            vhost.delete_exchange(exchange.name, True)
        except BrokerError:
            return f"exchange '{exchange.name}'"
        return ""


class QueueKind(DefinitionKind):
    """Queues that are not exclusive; streams are refused, or become durable queues."""

    name = "queues"

    def __init__(self, node: Node, streams_as_queues: bool) -> None:
        super().__init__(node)
        self._streams_as_queues = streams_as_queues

    @override
    def subject(self, entry: Entry) -> str:
        return f"queue '{entry.text('name')}' in vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        broker = self.node.broker
        host, name = check_vhost(self.node, entry.text("vhost"), planned), entry.text("name")
        self.check_once(entry)
        arguments, durable, note = self._declaration(entry)
        auto_delete = entry.flag("auto_delete")
        vhost = broker.vhosts.get(host)
        if vhost is not None and name in vhost.queues:
            check_queue(vhost.queue(name), arguments, durable, auto_delete)
            return self.difference(entry, UNCHANGED)
        if (host, name) in planned.queues:
            return self.difference(entry, UNCHANGED)
        check_name("queue name", name)
        features = read_features(name, arguments)
        check_flags(name, features, durable, auto_delete, False)
        broker.work.done += planned.table.policies.work(host, name)
        settings = planned.table.queue(host, name, read_arguments(name, arguments), kind_of(features))
        check(name, settings, features, broker.journal)
        planned.queues.add((host, name))
        found = self.difference(entry, CREATED)
        found.note = note
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        vhost = self.node.vhost(entry.text("vhost"))
        self.check_once(entry)
        name = entry.text("name")
        there = name in vhost.queues
        arguments, durable, note = self._declaration(entry)
        queue = vhost.declare_queue(name, arguments, durable, entry.flag("auto_delete"), None, None)
        self.node.broker.touch_queue(queue)
        if not there:
            made.add(self.name, CREATED, lambda: self._drop(queue))
            if note:
                made.notes.append(f"{self.subject(entry)}: {note}")

    def _declaration(self, entry: Entry) -> tuple[dict[str, object], bool, str]:
        """Return arguments and durability of a queue, and what a stream loses as a queue. Raises as `table_of`."""
        arguments, durable = arguments_of(entry), entry.flag("durable")
        if not self._streams_as_queues or arguments.get("x-queue-type") != STREAM:
            return arguments, durable, ""
        lost = ", ".join(f"{key}={arguments[key]}" for key in STREAM_ARGUMENTS if key in arguments)
        kept = {key: value for key, value in arguments.items() if key != "x-queue-type" and key not in STREAM_ARGUMENTS}
        return kept, True, AS_QUEUE + (f"; left out: {lost}" if lost else "")

    def _drop(self, queue: Queue) -> str:
        if queue.deleted:
            return ""
        if queue.consumers or queue.cursors or queue.depth_messages() or queue.gate.in_line():
            return f"queue '{queue.name}'"
        self.node.broker.delete_queue(queue)
        return ""


class BindingKind(DefinitionKind):
    """Bindings of queues and exchanges."""

    name = "bindings"

    @override
    def subject(self, entry: Entry) -> str:
        to = f"{entry.text('destination_type')} '{entry.text('destination')}'"
        key = entry.text("routing_key")
        return f"binding from exchange '{entry.text('source')}' to {to} by '{key}' in vhost '{entry.text('vhost')}'"

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        host = check_vhost(self.node, entry.text("vhost"), planned)
        source = self._exchange(host, entry.text("source"), planned)
        arguments = table_of(entry)
        kind, name = entry.text("destination_type"), entry.text("destination")
        if kind == "exchange":
            self._exchange(host, name, planned)
        elif kind != "queue":
            raise _wrong_type(kind)
        elif (host, name) not in planned.queues and host in planned.vhosts:
            raise NotFound(f"no queue '{name}' in vhost '{host}'")
        elif (host, name) not in planned.queues:
            self._vhost(host).queue(name)
        if source.name in ("", CONTROL_EXCHANGE):
            self._any_vhost(host).source(source.name)  # It refuses both.
        selector_in(arguments)
        check_name("routing key", entry.text("routing_key"))
        source.check_binding(arguments)
        this = f"{self.subject(entry)} {sorted(arguments.items(), key=str)}"
        if this in planned.bindings:
            return self.difference(entry, UNCHANGED)
        planned.bindings.add(this)
        vhost = self.node.broker.vhosts.get(host)
        if vhost is not None and source.name in vhost.exchanges:
            queue = vhost.queues.get(name) if kind == "queue" else None
            target = vhost.exchanges.get(name) if kind == "exchange" else None
            if queue is not None or target is not None:
                there = source.find(queue, target, entry.text("routing_key"), arguments) is not None
                return self.difference(entry, UNCHANGED if there else CREATED)
        return self.difference(entry, CREATED)

    def _any_vhost(self, host: str) -> VirtualHost:
        """Return a virtual host, or any other one if it is planned."""
        vhosts = self.node.broker.vhosts
        return vhosts[host] if host in vhosts else next(iter(vhosts.values()))

    def _vhost(self, host: str) -> VirtualHost:
        return self.node.vhost(host)

    def _exchange(self, host: str, name: str, planned: Planned) -> Exchange:
        """Return an exchange that exists, or one like that which would be made. Raises NotFound (404)."""
        kind = planned.exchanges.get((host, name))
        if kind is None and host in planned.vhosts:
            kind = PREDECLARED_KINDS.get(name)
            if kind is None:
                raise NotFound(f"no exchange '{name}' in vhost '{host}'")
        return self._vhost(host).exchange(name) if kind is None else make_exchange(kind, host, name)

    @override
    def make(self, entry: Entry, made: Made) -> None:
        vhost = self._vhost(entry.text("vhost"))
        source = vhost.exchange(entry.text("source"))
        key, arguments, name = entry.text("routing_key"), table_of(entry), entry.text("destination")
        queue: Queue | None = None
        target: Exchange | None = None
        kind = entry.text("destination_type")
        if kind == "queue":
            queue = vhost.queue(name)
        elif kind == "exchange":
            target = vhost.exchange(name)
        else:
            raise _wrong_type(kind)
        if source.find(queue, target, key, arguments) is None:
            binding = vhost.bind(source.name, queue, target, key, arguments)
            made.add(self.name, CREATED, lambda: self._drop(vhost, binding))

    def _drop(self, vhost: VirtualHost, binding: Binding) -> str:
        found = binding.source.find(binding.queue, binding.exchange, binding.key, binding.arguments)
        if found is binding and vhost.exchanges.get(binding.source.name) is binding.source:
            vhost.remove_binding(binding)
        return ""


class WrongArguments(PreconditionFailed):
    """Error for arguments that are no field table."""


def table_of(entry: Entry) -> dict[str, object]:
    """Return the arguments of an entry. Raises WrongArguments if they are no field table."""
    arguments = entry.table("arguments")
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise WrongArguments(str(error)) from None
    return arguments


def arguments_of(entry: Entry) -> dict[str, object]:
    """Return the arguments of a queue, with its type. Raises as `table_of`."""
    arguments = table_of(entry)
    kind = entry.text("type", "classic")
    if kind != "classic" and "x-queue-type" not in arguments:
        return {**arguments, "x-queue-type": kind}
    return arguments


def _wrong_type(kind: str) -> PreconditionFailed:
    return PreconditionFailed(f"destination_type must be queue or exchange, not '{kind}'")


# Operations


def put_queue(node: Node, request: ControlRequest) -> Row:
    """Declare a queue, or check that the one that is there is equal."""
    vhost, name = request.vhost, _short(request.text("name"), "a queue's name")
    there = name in vhost.queues
    if name.startswith("amq.") and not there:
        raise AccessRefused(f"queue name '{name}' contains the reserved prefix amq.*")
    arguments = _arguments(request)
    authorization.check_declare_queue(request.access, vhost, name, arguments)
    queue = vhost.declare_queue(name, arguments, request.flag("durable"), request.flag("auto_delete"), None, None)
    node.broker.touch_queue(queue)
    return {"created": not there}


def delete_queue(node: Node, request: ControlRequest) -> Row | None:
    """Delete a queue; `if-empty` and `if-unused` are conditions."""
    name = request.text("name")
    authorization.check_delete_queue(request.access, name)
    queue = request.vhost.queues.get(name)
    if queue is None:
        return None
    if queue.owner is not None:
        raise ResourceLocked(f"queue '{name}' is exclusive: it belongs to the connection that declared it")
    node.broker.delete_queue(queue, request.flag("if-unused"), request.flag("if-empty"))
    return {}


def put_exchange(node: Node, request: ControlRequest) -> Row:
    """Declare an exchange, or check that the one that is there is equal."""
    vhost, name = request.vhost, _short(_exchange_name(request, "name"), "an exchange's name")
    there = name in vhost.exchanges
    if name == "":
        raise AccessRefused("the default exchange cannot be declared")
    arguments, kind = _arguments(request), request.text("type", "direct")
    authorization.check_declare_exchange(request.access, vhost, name, arguments)
    flags = (request.flag("durable"), request.flag("auto_delete"), request.flag("internal"))
    vhost.declare_exchange(name, kind, arguments, *flags)
    return {"created": not there}


def delete_exchange(node: Node, request: ControlRequest) -> Row | None:
    """Delete an exchange; `if-unused` is a condition."""
    vhost, name = request.vhost, _exchange_name(request, "name")
    authorization.check_delete_exchange(request.access, vhost, name)
    if name not in vhost.exchanges:
        return None
    vhost.delete_exchange(name, request.flag("if-unused"))
    return {}


def bind(node: Node, request: ControlRequest) -> Row:
    """Bind a queue or an exchange to an exchange; answer with the binding's path."""
    vhost, source, name = request.vhost, _exchange_name(request, "source"), request.text("destination")
    key, arguments = _short(request.text("routing_key", ""), "a routing key"), _arguments(request)
    _check_binding(request, key)
    queue, target = destination(vhost, request.text("kind"), name)
    made = vhost.bind(source, queue, target, key, arguments)
    where = quote(properties_key(key, arguments_digest(made)), safe="")
    return {"created": True, "location": f"{quote(name, safe='')}/{where}"}


def unbind(node: Node, request: ControlRequest) -> Row | None:
    """Remove a binding, by its key."""
    found = _named(request)
    if found is None:
        return None
    if not isinstance(found, Binding):
        raise AccessRefused("operation not permitted on the default exchange")
    _check_binding(request, found.key)
    request.vhost.unbind(found.source.name, found.queue, found.exchange, found.key, found.arguments)
    return {}


def _binding_row(node: Node, request: ControlRequest) -> Row | None:
    found = _named(request)
    return None if found is None else Rows(node, as_bindings=True).of(found)


def destination(vhost: VirtualHost, kind: str, name: str) -> tuple[Queue | None, Exchange | None]:
    """Return the queue (kind q) or the exchange (e) that a path names. Raises NotFound (404)."""
    if kind == "q":
        return vhost.queue(name), None
    if kind == "e":
        return None, vhost.exchange("" if name == DEFAULT_EXCHANGE else name)
    raise NotFound(f"no kind '{kind}' of destinations; there are q (queues) and e (exchanges)")


def _named(request: ControlRequest) -> Binding | Queue | None:
    """Return the binding in the path, whose routing key may have a `~` too; a queue for its default binding."""
    vhost, wanted = request.vhost, request.text("key")
    source = vhost.exchanges.get(_exchange_name(request, "source"))
    if source is None:
        return None
    queue, exchange = destination(vhost, request.text("kind"), request.text("destination"))
    if source.name == "":
        return queue if queue is not None and properties_key(queue.name, "") == wanted else None
    what, name = (QUEUE, request.text("destination")) if exchange is None else (EXCHANGE, exchange.name)
    key, _, digest = wanted.rpartition("~")
    found = source.find_named(what, name, unquote_plus(wanted), "")
    return source.find_named(what, name, unquote_plus(key), digest) if found is None else found


def _check_binding(request: ControlRequest, key: str) -> None:
    """Check that the binding in the path, with a routing key, may be made or removed. Raises AccessRefused."""
    what = EXCHANGE if request.text("kind") == "e" else QUEUE
    name = _exchange_name(request, "destination") if what == EXCHANGE else request.text("destination")
    source = _exchange_name(request, "source")
    authorization.check_binding(request.access, request.vhost, source, what, name, key)


def _exchange_name(request: ControlRequest, field: str) -> str:
    name = request.text(field)
    return "" if name == DEFAULT_EXCHANGE else name


def _arguments(request: ControlRequest) -> dict[str, object]:
    """Return the arguments of a declaration. Raises PreconditionFailed for values that no client can be sent."""
    arguments = request.table("arguments")
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise PreconditionFailed(f"arguments: {error}") from None
    return arguments


def _short(value: str, what: str) -> str:
    """Return a short string (AMQP 0-9-1 section 4.2.5.3). Raises PreconditionFailed."""
    octets = len(value.encode(errors="replace"))
    if octets > SHORT_MOST:
        raise PreconditionFailed(f"{what} has {SHORT_MOST} octets at most, not {octets}")
    return value


SHORT_MOST: Final = 255
QUEUES: Final = "/queues/{vhost}/{name}"
EXCHANGES: Final = "/exchanges/{vhost}/{name}"
BINDINGS: Final = "/bindings/{vhost}/e/{source}/{kind}/{destination}"
DECLARED: Final = "201 if it is new, 204 if an equal one exists."
FLAGS: Final = ("durable", "auto_delete", "internal", "if-unused", "if-empty")
_BIND: Final = ("write queue", "read exchange", "read topic")
OPERATIONS: Final = (
    Operation("", put_queue, ("durable", "auto_delete", "arguments"), tag=MANAGEMENT, permissions=("configure queue",),
              routes=(Route(f"PUT {QUEUES}", f"Declare a queue: {DECLARED}", flags=FLAGS, silent=True),)),
    Operation("", delete_queue, tag=MANAGEMENT, permissions=("configure queue",), routes=(
        Route(f"DELETE {QUEUES}", "Delete a queue; if-empty=true and if-unused=true are conditions.",
              query=("if-unused", "if-empty"), flags=FLAGS, silent=True),
    )),
    Operation("", put_exchange, ("type", "durable", "auto_delete", "internal", "arguments"), tag=MANAGEMENT,
              permissions=("configure exchange",), routes=(
        Route(f"PUT {EXCHANGES}", f"Declare an exchange: {DECLARED}", flags=FLAGS, silent=True),
    )),
    Operation("", delete_exchange, tag=MANAGEMENT, permissions=("configure exchange",), routes=(
        Route(f"DELETE {EXCHANGES}", "Delete an exchange; if-unused=true is a condition.", query=("if-unused",),
              flags=FLAGS, silent=True),
    )),
    Operation("", bind, ("routing_key", "arguments"), tag=MANAGEMENT, permissions=_BIND, routes=(
        Route(f"POST {BINDINGS}", "Bind a queue or an exchange to an exchange; the header Location has the binding's "
              "path.", silent=True),
    )),
    Operation("", unbind, tag=MANAGEMENT, permissions=_BIND, routes=(
        Route(f"DELETE {BINDINGS}/{{key}}", "Remove a binding, by its key.", silent=True),
    )),
    looking("", _binding_row, tag=MANAGEMENT, routes=(
        Route(f"GET {BINDINGS}/{{key}}", "Show a binding, by its key."),
    )),
)  # fmt: skip
