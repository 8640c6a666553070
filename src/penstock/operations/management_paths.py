"""Paths of the management node, each with its operation: queues, exchanges and bindings, as RabbitMQ 4 has them.

A row has the method and path, the fields of its body, its operation, and the function that makes the answer. The
operations are those of the HTTP API, so permissions, sentences and log lines are the same. Codes, defaults and required
types are RabbitMQ's: a difference from an existing object is 409, as PUT over HTTP is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.connections.path_request import (
    COMPARED_TABLE,
    COUNT,
    NAMES,
    SMALL_COUNT,
    TABLE,
    PathAnswer,
    PathRequest,
    ServedPaths,
)
from penstock.connections.topology import BindingTerms, observe_queue, unbind
from penstock.content.field_table import InvalidTable, check_table
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE, QUEUE, Binding, arguments_digest
from penstock.core.vhost import VirtualHost
from penstock.describe.queue import QUEUE as QUEUE_TABLE
from penstock.describe.table import Reading, Row
from penstock.errors import InvalidField, PreconditionFailed
from penstock.management.node import Node
from penstock.operations.topology import (
    add_binding,
    asker,
    purge_named,
    put_exchange,
    put_queue,
    remove_exchange,
    remove_queue,
)
from penstock.texts import worded

BINDINGS_SHOWN: Final = 1000
"""Most bindings in one response; one queue and key has more only with as many different arguments."""
BINDINGS_A_UNIT: Final = 10
"""Bindings that are looked at per unit of work."""
SHOWN: Final = QUEUE_TABLE.select(["name", "vhost", "durable", "auto_delete", "exclusive", "type"])
QUEUE_KINDS: Final = {
    "arguments": TABLE, "replicas": NAMES, "message_count": COUNT, "consumer_count": SMALL_COUNT,
}  # fmt: skip
COUNTED: Final = {"message_count": COUNT}
BINDING_KINDS: Final = {"arguments": COMPARED_TABLE}
QUEUE_FIELDS: Final[Row] = {"durable": True, "exclusive": False, "auto_delete": False, "arguments": {}}
EXCHANGE_FIELDS: Final[Row] = {
    "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
BINDING_FIELDS: Final[Row] = {
    "source": "", "binding_key": "", "destination_queue": "", "destination_exchange": "", "arguments": {},
}  # fmt: skip
"""Fields of bodies with their defaults, which are RabbitMQ's and whose types are required."""
NO_BODY: Final[Row] = {}

Result = Row | list[Row] | None
Run = Callable[[Node, ControlRequest], Result]
Read = Callable[[PathRequest, Row], Row]
Made = Callable[[Node, ControlRequest, Result], PathAnswer]
There = Callable[[ControlRequest], bool]


class Path(NamedTuple):
    """Method and path, with the operation that answers there."""

    where: str
    """Method and path; a segment that begins with a colon is a name."""
    run: Run
    answer: Made
    """Function that makes the answer of the result of the operation."""
    body: Mapping[str, object] = NO_BODY
    """Fields of the body with their defaults. A body that a row does not read is ignored."""
    read: Read = lambda request, fields: fields
    """Function that makes the fields of the operation of those of path and body."""
    there: There = lambda request: False
    """Function that returns whether the object to declare exists: a difference from it is a conflict."""
    audited: bool = False
    """True if a request is recorded though the topology has not changed."""

    @property
    def method(self) -> str:
        """Method of the requests."""
        return self.where.split()[0]

    @property
    def parts(self) -> list[str]:
        """Segments of the path."""
        return self.where.split("/")[1:]

    def fields(self, request: PathRequest) -> Row:
        """Return the fields of the operation. Raises InvalidField."""
        fields = body_fields(request.body, self.body) if self.body else {}
        for part, given in zip(self.parts, request.segments(), strict=True):
            if part.startswith(":"):
                fields["name"] = given
        return self.read(request, fields)


def body_fields(body: object, defaults: Mapping[str, object]) -> Row:
    """Return the fields of a body with defaults for absent ones. Raises InvalidField for unknown or wrong ones."""
    fields = dict(defaults)
    if body is None:
        return fields
    if not isinstance(body, dict):
        raise InvalidField("the body of the request must be an amqp-value with a map")
    for name, value in body.items():
        if not isinstance(name, str) or name not in defaults:
            raise InvalidField(f"field {worded(name)} is not known; known are {', '.join(defaults)}")
        if type(value) is not type(defaults[name]):
            raise InvalidField(f"field '{name}' must be a {_type_word(defaults[name])}, not {worded(value)}")
        fields[name] = value
        if isinstance(value, dict):
            try:
                check_table(value)
            except InvalidTable as error:
                raise InvalidField(f"{name}: {error}") from None
    return fields


def _type_word(default: object) -> str:
    if isinstance(default, bool):
        return "boolean"
    return "string" if isinstance(default, str) else "map"


# Queues


def _find_queue(node: Node, request: ControlRequest) -> Row:
    observe_queue(asker(node, request), request.vhost.queue(request.text("name"), request.connection))
    return {}


def _named_queue(request: PathRequest, fields: Row) -> Row:
    if not fields["name"]:
        raise InvalidField("a queue needs a name: PUT /queues/:queue")
    return fields


def _queue_answer(node: Node, request: ControlRequest, result: Result) -> PathAnswer:
    queue = request.vhost.queues[request.text("name")]
    is_new = isinstance(result, dict) and result.get("created") is True
    return PathAnswer(201 if is_new else 200, _queue_row(node, queue), QUEUE_KINDS)


def _queue_row(node: Node, queue: Queue) -> Row:
    name = node.services.node_name()
    return {
        **QUEUE_TABLE.row(queue, Reading(0.0), SHOWN),
        "arguments": queue.arguments,
        "leader": name,
        "replicas": [name],
        "message_count": int(queue.waiting()),
        "consumer_count": len(queue.consumers),
    }


def _counted(node: Node, request: ControlRequest, result: Result) -> PathAnswer:
    """Return the number of messages that are gone; 0 if there was no queue."""
    count = result.get("message_count", 0) if isinstance(result, dict) else 0
    return PathAnswer(200, {"message_count": count}, COUNTED)


def _nothing(node: Node, request: ControlRequest, result: Result) -> PathAnswer:
    return PathAnswer(204)


# Bindings


def _binding(request: PathRequest, fields: Row) -> Row:
    to_queue, to_exchange = fields["destination_queue"], fields["destination_exchange"]
    if bool(to_queue) == bool(to_exchange):
        raise InvalidField("a binding has either destination_queue or destination_exchange")
    return {
        "source": fields["source"],
        "kind": "q" if to_queue else "e",
        "destination": to_queue or to_exchange,
        "routing_key": fields["binding_key"],
        "arguments": fields["arguments"],
    }


def _queries(request: PathRequest, fields: Row) -> Row:
    queries = request.queries()
    for query in queries:
        if "src" not in query or "key" not in query:
            raise InvalidField("GET /bindings needs src, key, and dstq or dste")
    return {"queries": queries}


def _location(request: PathRequest, fields: Row) -> Row:
    named = request.last_fields()
    if not {"src", "key", "args"} <= named.keys():
        raise InvalidField("DELETE /bindings/src=:exchange;dstq=:queue;key=:key;args=:hash: a part is missing")
    return {"location": named}


def _find_bindings(node: Node, request: ControlRequest) -> list[Row]:
    """Return the bindings of a source, destination and key; none if one of them does not exist."""
    queries = request.fields["queries"]
    assert isinstance(queries, list)
    found: list[Binding] = []
    for query in queries:
        if not found:
            leading = request.vhost.bindings.to(*_led_to(request, query))
            node.broker.work.done += len(leading) // BINDINGS_A_UNIT
            found = [each for each in leading if each.source.name == query["src"] and each.key == query["key"]]
    if len(found) > BINDINGS_SHOWN:
        raise PreconditionFailed(
            f"{len(found)} bindings differ in their arguments alone; the most in a response is {BINDINGS_SHOWN}"
        )
    return [_binding_row(binding) for binding in found]


def _remove_binding(node: Node, request: ControlRequest) -> Row:
    """Remove the binding at a location; the permission is checked even if there is none."""
    named = request.fields["location"]
    assert isinstance(named, dict)
    what, name = _led_to(request, named)
    source = request.vhost.exchanges.get(named["src"])
    binding = None if source is None else source.find_named(what, name, named["key"], named["args"])
    arguments = {} if binding is None else binding.arguments
    terms = BindingTerms(named["src"], what, name, named["key"], arguments)
    unbind(asker(node, request), request.vhost, terms, binding is not None)
    return {}


def _led_to(request: ControlRequest, named: dict[str, str]) -> tuple[str, str]:
    """Return the kind and the name of a binding's destination. A queue that is exclusive to others is locked."""
    if "dste" in named and "dstq" not in named:
        return EXCHANGE, named["dste"]
    if "dstq" not in named:
        raise InvalidField("a binding needs its destination: dstq (a queue) or dste (an exchange)")
    name = named["dstq"]
    if name in request.vhost.queues:
        request.vhost.queue(name, request.connection)
    return QUEUE, name


def _binding_row(binding: Binding) -> Row:
    queue, exchange = binding.queue, binding.exchange
    row: Row = {"source": binding.source.name}
    if queue is not None:
        row["destination_queue"] = queue.name
        where = f"dstq={quote(queue.name, safe='')}"
    else:
        assert exchange is not None
        row["destination_exchange"] = exchange.name
        where = f"dste={quote(exchange.name, safe='')}"
    source, key = quote(binding.source.name, safe=""), quote(binding.key, safe="")
    row["binding_key"] = binding.key
    row["arguments"] = binding.arguments
    row["location"] = f"/bindings/src={source};{where};key={key};args={arguments_digest(binding)}"
    return row


def _bindings_answer(node: Node, request: ControlRequest, result: Result) -> PathAnswer:
    return PathAnswer(200, result, BINDING_KINDS)


PATHS: Final = (
    Path("GET /queues/:queue", _find_queue, _queue_answer),
    Path("PUT /queues/:queue", put_queue, _queue_answer, QUEUE_FIELDS, _named_queue,
         there=lambda request: request.text("name") in request.vhost.queues),
    Path("DELETE /queues/:queue", remove_queue, _counted),
    Path("DELETE /queues/:queue/messages", purge_named, _counted, audited=True),
    Path("PUT /exchanges/:exchange", put_exchange, _nothing, EXCHANGE_FIELDS,
         there=lambda request: request.text("name") in request.vhost.exchanges),
    Path("DELETE /exchanges/:exchange", remove_exchange, _nothing),
    Path("GET /bindings", _find_bindings, _bindings_answer, read=_queries),
    Path("POST /bindings", add_binding, _nothing, BINDING_FIELDS, _binding),
    Path("DELETE /bindings/:binding", _remove_binding, _nothing, read=_location),
)  # fmt: skip


def _matches(parts: list[str], segments: list[str]) -> bool:
    if len(parts) != len(segments):
        return False
    for part, given in zip(parts, segments, strict=True):
        if part != given and not part.startswith(":"):
            return False
    return True


class ManagementPaths(ServedPaths):
    """Paths of the management node, on one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rows: list[tuple[list[str], Path]] = [(path.parts, path) for path in PATHS]

    def _at(self, segments: list[str]) -> list[Path]:
        """Return the rows of a path, one for each method."""
        return [path for parts, path in self._rows if _matches(parts, segments)]

    @override
    def names(self) -> list[str]:
        firsts: dict[str, str] = {}
        for path in PATHS:
            firsts.setdefault(path.parts[0], path.where.split()[1])
        return list(firsts.values())

    @override
    def methods_of(self, segments: list[str]) -> list[str]:
        return [path.method for path in self._at(segments)]

    @override
    def carry_out(self, connection: Connection, vhost: VirtualHost, request: PathRequest) -> PathAnswer:
        (path,) = [each for each in self._at(request.segments()) if each.method == request.method]
        asked = ControlRequest(vhost, connection)
        asked.fields = path.fields(request)
        existed, epoch = path.there(asked), vhost.epoch
        try:
            result = path.run(self._node, asked)
        except PreconditionFailed as error:
            if not existed:
                raise
            return PathAnswer(409, str(error))
        found = path.answer(self._node, asked, result)
        found.changed = path.audited or vhost.epoch != epoch
        return found
