"""A message as a JSON object, a line of an export: its properties with typed headers, and its body as text or base64.

The body is `payload`, and `payload_encoding` is `string` for a body of valid UTF-8, otherwise `base64`. Headers that
JSON cannot express have tags (see header_values.py). Headers whose name begins with `x-` are message annotations over
AMQP 1.0. `read_message` reads what `message_row` writes, so an export can be published again.
"""

from __future__ import annotations

import base64
import json
from typing import Final, NamedTuple

from penstock.content.header_values import tagged, untagged
from penstock.content.properties import PROPERTY_NAMES, Properties
from penstock.texts import hint, joined, worded

STRING: Final = "string"
BASE64: Final = "base64"
"""Encodings of payloads."""
NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": (1 << 64) - 1}
"""Largest value of each numeric property (those of AMQP 0-9-1, section 1.8.1)."""
READ: Final = ("payload", "payload_encoding", "exchange", "routing_key", "properties", "truncated")
SHOWN: Final = (
    *("queue", "position", "state", "holder", "client", "consumer", "held_s", "arrived", "age_s", "redelivered"),
    *("delivery_count", "format", "payload_bytes", "message_count", "unreadable"),
)
"""Fields that a publish ignores: what a broker says about the message in its former queue."""


class ReadMessage(NamedTuple):
    """Message of one line."""

    properties: Properties
    body: bytes
    exchange: str
    routing_key: str
    """Exchange and routing key of the publish; empty if the line has none."""


def properties_row(properties: Properties) -> dict[str, object]:
    """Return the properties that are present, with tagged headers."""
    row: dict[str, object] = properties.as_dict()
    if properties.headers is not None:
        row["headers"] = {name: tagged(value) for name, value in properties.headers.items()}
    return row


def message_row(
    properties: Properties, body: bytes, exchange: str, routing_key: str, redelivered: bool
) -> dict[str, object]:
    """Return a received message as an object of JSON."""
    try:
        payload, encoding = body.decode(), STRING
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(body).decode(), BASE64
    return {
        "payload": payload,
        "payload_encoding": encoding,
        "exchange": exchange,
        "routing_key": routing_key,
        "redelivered": redelivered,
        "properties": properties_row(properties),
    }


def read_message(line: bytes) -> ReadMessage:
    """Return the message of a line. Raises ValueError, with a sentence about the line."""
    try:
        fields = json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the line nests too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("the line is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the line is not JSON: {error.msg} (character {error.colno})") from None
    if not isinstance(fields, dict):
        raise ValueError(f"the line must be a JSON object, not {worded(fields)}")
    for name in fields:
        if name not in READ and name not in SHOWN:
            raise ValueError(joined(f"a message has no field {worded(name)}", hint(name, READ)))
    if fields.get("truncated"):
        raise ValueError("the payload is truncated: `penstock messages browse --json --whole` exports whole bodies")
    properties = _properties(fields.get("properties"))
    return ReadMessage(properties, _body(fields), _text(fields, "exchange"), _text(fields, "routing_key"))


def _body(fields: dict[str, object]) -> bytes:
    if "payload" not in fields:
        raise ValueError("the message has no payload")
    payload, encoding = _text(fields, "payload"), fields.get("payload_encoding", STRING)
    if encoding == STRING:
        try:
            return payload.encode()
        except UnicodeEncodeError:
            raise ValueError("the payload has half of a surrogate pair, which UTF-8 does not have") from None
    if encoding != BASE64:
        raise ValueError(f"payload_encoding must be {STRING} or {BASE64}, not {worded(encoding)}")
    try:
        return base64.b64decode(payload, validate=True)
    except ValueError:
        raise ValueError(f"the payload is not {BASE64}") from None


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, not {worded(value)}")
    return value


def _properties(given: object) -> Properties:
    """Return the properties of a line; an empty list means none, as in RabbitMQ's answers."""
    properties = Properties()
    if given is None or given == []:
        return properties
    if not isinstance(given, dict):
        raise ValueError(f"properties must be an object, not {worded(given)}")
    for name, value in given.items():
        if name not in PROPERTY_NAMES:
            raise ValueError(joined(f"a message has no property {worded(name)}", hint(name, PROPERTY_NAMES)))
        if value is not None:
            setattr(properties, name, _property(name, value))
    return properties


def _property(name: str, value: object) -> object:
    if name == "headers":
        if not isinstance(value, dict):
            raise ValueError(f"headers must be an object, not {worded(value)}")
        try:
            return untagged(value)
        except ValueError as error:
            raise ValueError(f"a value of headers {error}") from None
    if name in NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBERS[name]:
            raise ValueError(f"the property {name} must be a whole number from 0 to {NUMBERS[name]}")
        return value
    if not isinstance(value, str):
        raise ValueError(f"the property {name} must be a text, not {worded(value)}")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f'{name} is written {{"$double": "{name}"}}')
