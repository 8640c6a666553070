"""Management node: queues, exchanges and bindings by HTTP over AMQP, as RabbitMQ 4 does it at `/management`.

| path | methods |
|---|---|
| `/queues/:queue` | GET, PUT, DELETE |
| `/queues/:queue/messages` | DELETE |
| `/exchanges/:exchange` | PUT, DELETE |
| `/bindings` | POST; GET with `src`, `key`, and `dstq` or `dste` in the query |
| `/auth/tokens` | PUT: a newer token, as binary |
| `/bindings/src=:exchange;dstq=:queue;key=:key;args=:hash` | DELETE; `dste` for an exchange |

Requests do what declarations of AMQP 0-9-1 do, with the same checks. An error is a status and a text.

In HTTP over AMQP (OASIS, working draft 6) a request has the method in `subject`, the path and query in `to`, and `$me`
in `reply-to`: the response goes to the paired link. A response has the status in `subject`, and in `correlation-id` the
request's message-id. Bodies are amqp-value: maps and lists, not octets.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote_to_bytes

from penstock.connections import topology
from penstock.connections.audit_trail import actor_of, audit_refusal
from penstock.connections.client_session import ClientSession
from penstock.connections.login import SecretUpdate
from penstock.connections.topology import BindingTerms, asker_of
from penstock.content.field_table import InvalidTable, check_table
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE, QUEUE, Binding, arguments_digest
from penstock.describe.queue import QUEUE as QUEUE_TABLE
from penstock.describe.table import Reading
from penstock.errors import AccessRefused, BrokerError, InvalidField, NotFound, PreconditionFailed
from penstock.protocols.amqp10.error_scopes import MalformedMessage
from penstock.texts import worded
from penstock.wire.amqp10.composite import Composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.neutral_values import neutral_table, to_amqp10
from penstock.wire.amqp10.spec import AMQP_VALUE, APPLICATION_PROPERTIES, PROPERTIES
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import INT, UINT, Array, CodecError, Described, Symbol, Typed, ulong

REPLY_TO: Final = "$me"
_VERSION: Final[dict[object, object]] = {"http:response": "1.1"}
_VERSION_SECTION: Final = encode_value(Described(ulong(APPLICATION_PROPERTIES), _VERSION))


class HttpRequest:
    """A request. Its path and query are percent-decoded when they are asked for."""

    def __init__(self, method: str, target: str, message_id: object, body: object) -> None:
        path, _, query = target.partition("?")
        self.method: Final = method
        self.path: Final = path
        self._query: Final = query
        self.message_id: Final = message_id
        self.body: Final = body
        """Value of its body; None without one."""

    def segments(self) -> list[str]:
        """Return the segments of the path. Raises InvalidField."""
        return [decoded(part) for part in self.path.split("/")[1:]]

    def queries(self) -> list[dict[str, str]]:
        """Return the fields of the query; with `+` for a space (RabbitMQ's .NET client), then for itself (Java's).

        Raises InvalidField.
        """
        own = pairs(self._query, "&")
        return [pairs(self._query.replace("+", "%20"), "&"), own] if "+" in self._query else [own]


def decoded(text: str) -> str:
    """Return percent-decoded text. Raises InvalidField unless it is UTF-8."""
    if "%" not in text:
        return text
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise InvalidField(f"'{text[:60]}', percent-decoded, is not UTF-8") from None


def pairs(text: str, divider: str) -> dict[str, str]:
    """Return the fields of a query, or of a segment that is one: `a=1&b=2`, percent-decoded. Raises InvalidField."""
    pairs: dict[str, str] = {}
    for part in text.split(divider) if text else []:
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidField(f"'{part[:60]}' is no name and value with '=' between them")
        pairs[name] = decoded(value)
    return pairs


def read_request(content: bytes) -> HttpRequest:
    """Return the request in a message. Raises MalformedMessage, and InvalidField if no answer could be sent.

    Sections may have any order: RabbitMQ's Python client writes an empty body before the properties.
    """
    cursor = FieldCursor()
    properties: Composite | None = None
    body: object = None
    pos = 0
    try:
        while pos < len(content):
            code = cursor.open(content, pos, len(content))
            if code == PROPERTIES:
                properties, pos = decode_composite(content, pos)
                continue
            value, pos = decode_value(content, int(cursor.pos))
            if code == AMQP_VALUE:
                body = value
    except CodecError as error:
        raise MalformedMessage(error) from None
    if properties is None:
        raise InvalidField("a request without properties: 'subject' is its method, and 'to' its path")
    reply_to = properties.text("reply_to")
    if reply_to != REPLY_TO:
        raise InvalidField(f"reply-to of a request is '{reply_to[:60]}'; it must be '{REPLY_TO}'")
    return HttpRequest(properties.text("subject"), properties.text("to"), properties.fields["message_id"], body)


def response(request: HttpRequest, status: int, body: object) -> bytes:
    """Return a response as message. Raises CodecError for a body that AMQP cannot express."""
    properties = encode(PROPERTIES, subject=str(status), correlation_id=request.message_id)
    return properties + _VERSION_SECTION + encode_value(Described(ulong(AMQP_VALUE), body))


Fields = dict[str, object]
Answer = tuple[int, object]
"""Status and body."""
_INT_LARGEST: Final = (1 << 31) - 1
BINDINGS_SHOWN: Final = 1000
"""Most bindings in one response; one queue and key has more only with as many different arguments."""
BINDINGS_A_UNIT: Final = 10
"""Bindings that are looked at per unit of work."""
SHOWN: Final = QUEUE_TABLE.select(["name", "vhost", "durable", "auto_delete", "exclusive"])
"""Fields of a queue that need no types of AMQP 1.0."""
QUEUE_FIELDS: Final[dict[str, object]] = {"durable": True, "exclusive": False, "auto_delete": False, "arguments": {}}
EXCHANGE_FIELDS: Final[dict[str, object]] = {
    "type": "direct", "durable": True, "auto_delete": False, "internal": False, "arguments": {},
}  # fmt: skip
BINDING_FIELDS: Final[dict[str, object]] = {
    "source": "", "binding_key": "", "destination_queue": "", "destination_exchange": "", "arguments": {},
}  # fmt: skip
"""Fields of bodies with their defaults, which are RabbitMQ's and whose types are required."""


def answer(session: ClientSession, request: HttpRequest) -> bytes:
    """Carry out a request and return the response as message."""
    node = ManagementNode(session)
    vhost, services = session.vhost, session.connection.services
    epoch = vhost.epoch
    try:
        status, body = node.carry_out(request)
        if vhost.epoch != epoch or (request.method == "DELETE" and request.path.endswith("/messages")):
            services.audit.change(
                actor_of(session.connection), f"{request.method} over AMQP", request.path, after=request.body
            )
        return response(request, status, body)
    except BrokerError as error:
        audit_refusal(session.connection, f"{request.method[:20]} over AMQP", error)
        subject = f"{session.name} {request.method[:20]} {request.path[:200]}"
        session.connection.services.log_request_refused(session.connection, subject, error)
        return response(request, _status(error), str(error))
    except CodecError as unfit:
        return response(request, 400, unfit.reason)


def _status(error: BrokerError) -> int:
    """Return the status of an error: that of the HTTP API, but for AccessRefused, where RabbitMQ's two differ."""
    return 403 if isinstance(error, AccessRefused) else error.http_status


class ManagementNode:
    """The operations, for one client."""

    def __init__(self, session: ClientSession) -> None:
        self._connection = session.connection
        self._vhost = session.vhost
        self._work = session.broker.work

    def carry_out(self, request: HttpRequest) -> Answer:
        """Carry out a request. Raises BrokerError."""
        segments = request.segments()
        count = len(segments)
        first = segments[0] if segments else ""
        if first == "queues" and count == 2:
            return self._queue(request, segments[1])
        if first == "queues" and count == 3 and segments[2] == "messages":
            return self._messages(request, segments[1])
        if first == "exchanges" and count == 2:
            return self._exchange(request, segments[1])
        if first == "bindings" and count == 1:
            return self._bindings(request)
        if first == "bindings" and count == 2:
            return self._binding(request)
        if first == "auth" and count == 2 and segments[1] == "tokens":
            return self._renew(request)
        known = "/queues/:queue, /exchanges/:exchange, /bindings and /auth/tokens"
        raise NotFound(f"no path '{request.path[:200]}'; there are {known}")

    def _renew(self, request: HttpRequest) -> Answer:
        """Take a newer token; the response is sent before it is verified, and one that is refused ends the connection.

        That is RabbitMQ's behaviour.
        """
        if request.method != "PUT":
            return _not_allowed(request, "PUT")
        token = request.body
        if not isinstance(token, bytes):
            raise InvalidField("PUT /auth/tokens needs the token as binary")
        SecretUpdate(self._connection).start(token)
        return 204, None

    # Queues

    def _queue(self, request: HttpRequest, name: str) -> Answer:
        if request.method == "GET":
            queue = self._vhost.queue(name, self._connection)
            topology.observe_queue(asker_of(self._connection), queue)
            return 200, self._shown(queue)
        if request.method == "PUT":
            return self._declare_queue(request, name)
        if request.method == "DELETE":
            count = topology.delete_queue(asker_of(self._connection), self._vhost, name)
            return 200, {"message_count": ulong(count or 0)}
        return _not_allowed(request, "GET, PUT, DELETE")

    def _declare_queue(self, request: HttpRequest, name: str) -> Answer:
        fields = _fields(request.body, QUEUE_FIELDS)
        if not name:
            raise InvalidField("a queue needs a name: PUT /queues/:queue")
        existed = name in self._vhost.queues
        if not existed:
            topology.check_not_reserved(name)
        try:
            queue = topology.declare_queue(
                asker_of(self._connection),
                self._vhost,
                name,
                _arguments(fields),
                fields["durable"] is True,
                fields["auto_delete"] is True,
                fields["exclusive"] is True,
            )
        except PreconditionFailed as error:
            if not existed:
                raise
            return 409, str(error)
        return 200 if existed else 201, self._shown(queue)

    def _shown(self, queue: Queue) -> Fields:
        node = self._connection.services.node_name()
        arguments: dict[object, object] = {key: to_amqp10(value) for key, value in queue.arguments.items()}
        return {
            **QUEUE_TABLE.row(queue, Reading(0.0), SHOWN),
            "type": queue.features.type.name,
            "arguments": arguments,
            "leader": node,
            "replicas": Array("string", [node]),
            "message_count": ulong(int(queue.waiting())),
            "consumer_count": Typed(UINT, len(queue.consumers)),
        }

    def _messages(self, request: HttpRequest, name: str) -> Answer:
        if request.method != "DELETE":
            return _not_allowed(request, "DELETE")
        return 200, {"message_count": ulong(topology.purge_queue(asker_of(self._connection), self._vhost, name))}

    # Exchanges

    def _exchange(self, request: HttpRequest, name: str) -> Answer:
        vhost = self._vhost
        if request.method == "DELETE":
            topology.delete_exchange(asker_of(self._connection), vhost, name)
            return 204, None
        if request.method != "PUT":
            return _not_allowed(request, "PUT, DELETE")
        fields = _fields(request.body, EXCHANGE_FIELDS)
        existed = name in vhost.exchanges
        try:
            topology.declare_exchange(
                asker_of(self._connection),
                vhost,
                name,
                str(fields["type"]),
                _arguments(fields),
                fields["durable"] is True,
                fields["auto_delete"] is True,
                fields["internal"] is True,
            )
        except PreconditionFailed as error:
            if not existed:
                raise
            return 409, str(error)
        return 204, None

    # Bindings

    def _bindings(self, request: HttpRequest) -> Answer:
        if request.method == "POST":
            return self._bind(request)
        if request.method != "GET":
            return _not_allowed(request, "GET, POST")
        bindings: list[Binding] = []
        for query in request.queries():
            if "src" not in query or "key" not in query:
                raise InvalidField("GET /bindings needs src, key, and dstq or dste")
            bindings = bindings or self._found(query)
        if len(bindings) > BINDINGS_SHOWN:
            raise PreconditionFailed(
                f"{len(bindings)} bindings differ in their arguments alone; the most in a response is {BINDINGS_SHOWN}"
            )
        return 200, [_shown_binding(binding) for binding in bindings]

    def _bind(self, request: HttpRequest) -> Answer:
        fields = _fields(request.body, BINDING_FIELDS)
        source, key = str(fields["source"]), str(fields["binding_key"])
        to_queue, to_exchange = str(fields["destination_queue"]), str(fields["destination_exchange"])
        if bool(to_queue) == bool(to_exchange):
            raise InvalidField("a binding has either destination_queue or destination_exchange")
        what = QUEUE if to_queue else EXCHANGE
        terms = BindingTerms(source, what, to_queue or to_exchange, key, _arguments(fields))
        topology.bind(asker_of(self._connection), self._vhost, terms)
        return 204, None

    def _binding(self, request: HttpRequest) -> Answer:
        if request.method != "DELETE":
            return _not_allowed(request, "DELETE")
        # Undecoded: a name may have a ';' of its own, percent-encoded.
        named = pairs(request.path.rpartition("/")[2], ";")
        if not {"src", "key", "args"} <= named.keys():
            raise InvalidField("DELETE /bindings/src=:exchange;dstq=:queue;key=:key;args=:hash: a part is missing")
        what, name = self._led_to(named)
        source = self._vhost.exchanges.get(named["src"])
        binding = None if source is None else source.find_named(what, name, named["key"], named["args"])
        arguments = {} if binding is None else binding.arguments
        terms = BindingTerms(named["src"], what, name, named["key"], arguments)
        topology.unbind(asker_of(self._connection), self._vhost, terms, binding is not None)
        return 204, None

    def _found(self, named: dict[str, str]) -> list[Binding]:
        """Return the bindings of a source, destination and key; none if one of them does not exist."""
        what, name = self._led_to(named)
        leading = self._vhost.bindings.to(what, name)
        self._work.done += len(leading) // BINDINGS_A_UNIT
        return [each for each in leading if each.source.name == named["src"] and each.key == named["key"]]

    def _led_to(self, named: dict[str, str]) -> tuple[str, str]:
        """Return the kind and the name of a binding's destination. A queue that is exclusive to others is locked."""
        if "dste" in named and "dstq" not in named:
            return EXCHANGE, named["dste"]
        if "dstq" not in named:
            raise InvalidField("a binding needs its destination: dstq (a queue) or dste (an exchange)")
        if named["dstq"] in self._vhost.queues:
            self._vhost.queue(named["dstq"], self._connection)
        return QUEUE, named["dstq"]


def _not_allowed(request: HttpRequest, methods: str) -> Answer:
    return 405, f"method {request.method[:20]} is not for '{request.path[:200]}'; it has {methods}"


def _fields(body: object, defaults: dict[str, object]) -> Fields:
    """Return the fields of a body with defaults for absent ones. Raises InvalidField for unknown or wrong ones."""
    if body is None:
        return dict(defaults)
    if not isinstance(body, dict):
        raise InvalidField("the body of the request must be an amqp-value with a map")
    fields = dict(defaults)
    for name, value in body.items():
        if not isinstance(name, str) or name not in defaults:
            raise InvalidField(f"field {worded(name)} is not known; known are {', '.join(defaults)}")
        text = value.text if isinstance(value, Symbol) else value
        if type(text) is not type(defaults[name]):
            raise InvalidField(f"field '{name}' must be a {_kind(defaults[name])}, not {worded(value)}")
        fields[name] = text
    return fields


def _kind(default: object) -> str:
    if isinstance(default, bool):
        return "boolean"
    return "string" if isinstance(default, str) else "map"


def _arguments(fields: Fields) -> dict[str, object]:
    given = fields["arguments"]
    assert isinstance(given, dict)
    arguments = neutral_table(given)
    try:
        check_table(arguments)
    except InvalidTable as error:
        raise InvalidField(f"arguments: {error}") from None
    return arguments


def _shown_argument(value: object) -> object:
    """Return an argument with the type that most clients give it: a number of 32 bits is an int, others are longs.

    RabbitMQ's clients for Java and .NET compare it with their own, type included, to find the binding to remove.
    """
    if isinstance(value, int) and not isinstance(value, bool) and -_INT_LARGEST - 1 <= value <= _INT_LARGEST:
        return Typed(INT, value)
    return to_amqp10(value)


def _shown_binding(binding: Binding) -> Fields:
    queue, exchange = binding.queue, binding.exchange
    arguments: dict[object, object] = {key: _shown_argument(value) for key, value in binding.arguments.items()}
    fields: Fields = {"source": binding.source.name}
    if queue is not None:
        fields["destination_queue"] = queue.name
        where = f"dstq={quote(queue.name, safe='')}"
    else:
        assert exchange is not None
        fields["destination_exchange"] = exchange.name
        where = f"dste={quote(exchange.name, safe='')}"
    source, key = quote(binding.source.name, safe=""), quote(binding.key, safe="")
    fields["binding_key"] = binding.key
    fields["arguments"] = arguments
    fields["location"] = f"/bindings/src={source};{where};key={key};args={arguments_digest(binding)}"
    return fields
