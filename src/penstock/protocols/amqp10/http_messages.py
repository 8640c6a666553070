"""HTTP over AMQP: requests and responses as messages (OASIS, working draft 6; RabbitMQ 4).

A request has the method in `subject`, the path and query in `to`, and `$me` in `reply-to`: the response goes to the
paired link. A response has the status in `subject`, and in `correlation-id` the request's message-id. Bodies are
amqp-value: maps and lists, not octets.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from penstock.errors import InvalidField
from penstock.protocols.amqp10.malformed import MalformedMessage
from penstock.wire.amqp10.composite import Composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.spec import AMQP_VALUE, APPLICATION_PROPERTIES, PROPERTIES
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, ulong

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

    def query(self) -> dict[str, str]:
        """Return the fields of the query. Raises InvalidField."""
        return pairs(self._query, "&")


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
    found: dict[str, str] = {}
    for part in text.split(divider) if text else []:
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidField(f"'{part[:60]}' is no name and value with '=' between them")
        found[name] = decoded(value)
    return found


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
