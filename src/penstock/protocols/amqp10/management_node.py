"""Management node: HTTP over AMQP, as RabbitMQ 4 has it at `/management`.

The node reads a request, has it carried out by the operation at its path (`ServedPaths`), and writes the response. An
error is a status and a text. One path is of the connection alone: PUT `/auth/tokens`, a newer token as binary.

In HTTP over AMQP (OASIS, working draft 6) a request has the method in `subject`, the path and query in `to`, and `$me`
in `reply-to`: the response goes to the paired link. A response has the status in `subject`, and in `correlation-id` the
request's message-id. Bodies are amqp-value: maps and lists, not octets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.connections.audit_trail import actor_of, audit_refusal
from penstock.connections.client_session import ClientSession
from penstock.connections.login import SecretUpdate
from penstock.connections.path_request import (
    COMPARED_TABLE,
    COUNT,
    NAMES,
    SMALL_COUNT,
    TABLE,
    PathAnswer,
    PathRequest,
)
from penstock.errors import AccessRefused, BrokerError, InvalidField, NotFound
from penstock.protocols.amqp10.error_scopes import MalformedMessage
from penstock.wire.amqp10.composite import Composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.neutral_values import neutral_table, to_amqp10
from penstock.wire.amqp10.spec import AMQP_VALUE, APPLICATION_PROPERTIES, PROPERTIES
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import INT, UINT, Array, CodecError, Described, Symbol, Typed, ulong

REPLY_TO: Final = "$me"
TOKENS: Final = ["auth", "tokens"]
"""Segments of the path of tokens."""
_VERSION: Final[dict[object, object]] = {"http:response": "1.1"}
_VERSION_SECTION: Final = encode_value(Described(ulong(APPLICATION_PROPERTIES), _VERSION))
_INT_LARGEST: Final = (1 << 31) - 1


class HttpRequest(PathRequest):
    """A request with the message-id to which its response correlates."""

    def __init__(self, method: str, target: str, message_id: object, given: object) -> None:
        super().__init__(method, target, _neutral_body(given))
        self.message_id: Final = message_id
        self.given: Final = given
        """Value of its body with types of AMQP 1.0; None without one."""


def _neutral_body(given: object) -> object:
    """Return a body whose texts and tables are neutral; any other value is kept with its type, for refusals."""
    return {name: _neutral(value) for name, value in given.items()} if isinstance(given, dict) else given


def _neutral(value: object) -> object:
    if isinstance(value, dict):
        return neutral_table(value)
    return value.text if isinstance(value, Symbol) else value


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


def answer(session: ClientSession, request: HttpRequest) -> bytes:
    """Have a request carried out and return the response as message."""
    connection = session.connection
    services = connection.services
    try:
        found = _carry_out(session, request)
        if found.changed:
            actor = actor_of(connection)
            services.audit.change(actor, f"{request.method} over AMQP", request.path, after=request.given)
        return response(request, found.status, _typed_body(found.body, found.kinds))
    except BrokerError as error:
        audit_refusal(connection, f"{request.method[:20]} over AMQP", error)
        subject = f"{session.name} {request.method[:20]} {request.path[:200]}"
        services.log_request_refused(connection, subject, error)
        return response(request, _status(error), str(error))
    except CodecError as unfit:
        return response(request, 400, unfit.reason)


def _status(error: BrokerError) -> int:
    """Return the status of an error: that of the HTTP API, but for AccessRefused, where RabbitMQ's two differ."""
    return 403 if isinstance(error, AccessRefused) else error.http_status


def _carry_out(session: ClientSession, request: HttpRequest) -> PathAnswer:
    """Carry out a request, by its path. Raises BrokerError."""
    connection = session.connection
    served = connection.services.paths
    segments = request.segments()
    methods = ["PUT"] if segments == TOKENS else served.methods_of(segments)
    if not methods:
        known = f"{', '.join(served.names())} and /{'/'.join(TOKENS)}"
        raise NotFound(f"no path '{request.path[:200]}'; there are {known}")
    if request.method not in methods:
        text = f"method {request.method[:20]} is not for '{request.path[:200]}'; it has {', '.join(methods)}"
        return PathAnswer(405, text)
    if segments == TOKENS:
        return _renew(session, request)
    return served.carry_out(connection, session.vhost, request)


def _renew(session: ClientSession, request: HttpRequest) -> PathAnswer:
    """Take a newer token; the response is sent before it is verified, and one that is refused ends the connection.

    That is RabbitMQ's behaviour.
    """
    token = request.given
    if not isinstance(token, bytes):
        raise InvalidField("PUT /auth/tokens needs the token as binary")
    SecretUpdate(session.connection).start(token)
    return PathAnswer(204)


def _typed_body(body: object, kinds: Mapping[str, str]) -> object:
    """Return a body with types of AMQP 1.0."""
    if isinstance(body, list):
        return [_typed_body(row, kinds) for row in body]
    if not isinstance(body, dict):
        return body
    return {name: _typed(value, kinds[name]) if name in kinds else value for name, value in body.items()}


def _typed(value: object, kind: str) -> object:
    """Return a value with the type of AMQP 1.0 for its kind."""
    if isinstance(value, int) and kind == COUNT:
        return ulong(value)
    if isinstance(value, int) and kind == SMALL_COUNT:
        return Typed(UINT, value)
    if isinstance(value, list) and kind == NAMES:
        return Array("string", value)
    if isinstance(value, dict) and kind == TABLE:
        return {key: to_amqp10(each) for key, each in value.items()}
    assert isinstance(value, dict) and kind == COMPARED_TABLE, kind
    return {key: _compared(each) for key, each in value.items()}


def _compared(value: object) -> object:
    """Return an argument with the type that most clients give it: a number of 32 bits is an int, others are longs.

    RabbitMQ's clients for Java and .NET compare it with their own, type included, to find the binding to remove.
    """
    if isinstance(value, int) and not isinstance(value, bool) and -_INT_LARGEST - 1 <= value <= _INT_LARGEST:
        return Typed(INT, value)
    return to_amqp10(value)
