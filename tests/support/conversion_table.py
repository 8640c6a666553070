"""The table of docs/amqp10.md: one message each way for every row, published and read through real frames.

`python -m tests.support.conversion_table --write` writes it into the file that a test compares it with: what crosses
is a promise, so a change of it is looked at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.content.properties import Properties
from penstock.protocols.amqp091.content_frames import body_of, properties_of
from penstock.protocols.amqp10.addresses import EXCHANGE_KEY, ROUTING_KEY
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import composite, encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, timestamp, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.amqp10_messages import DecodedMessage, decode_message, delivered
from tests.support.driven_connection import Dialogue, publish

FILE = Path(__file__).with_suffix(".md")
COMMAND = "python -m tests.support.conversion_table --write"

BODY = data_section(b"hello")
UUID = bytes(range(16))
LONG = "i" * 300
DEAD_LETTERS: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "d"}
MOMENT = datetime(2026, 11, 22, tzinfo=UTC)
MILLISECONDS = int(MOMENT.timestamp()) * 1000


class Read091(NamedTuple):
    """A message as a client of AMQP 0-9-1 gets it."""

    redelivered: bool
    properties: dict[str, object]
    body: bytes


class Pair:
    """A client of each protocol on one broker with a queue `q`."""

    def __init__(self, **arguments: object) -> None:
        self.amqp10 = Amqp10Dialogue()
        self.amqp091 = Dialogue(self.amqp10.driver)
        declare = method_frame(1, spec091.QUEUE_DECLARE, queue="q", durable=bool(arguments), arguments=arguments)
        assert self.amqp091.names(declare) == ["queue.declare-ok"]
        self.amqp091.declare("d")
        self.amqp10.attach_sender("/queues/q")
        for handle, queue in ((1, "q"), (2, "d")):
            self.amqp10.attach_receiver(f"/queues/{queue}", handle)
        self._received = {"q": 0, "d": 0}

    def send10(self, message: bytes) -> None:
        self.amqp10.say(self.amqp10.transfer(message))

    def send091(self, properties: Properties, body: bytes = b"hello") -> None:
        self.amqp091.say(publish("q", body, properties=properties))

    def read10(self, queue: str = "q", outcome: Any = None) -> bytes:
        """Return the next message; it gets an outcome, accepted if none is named."""
        heard = self.amqp10.flow(1 if queue == "q" else 2, 1, delivery_count=self._received[queue])
        self._received[queue] += 1
        (message,) = delivered(heard)
        number = next(each.field("delivery_id") for each in heard if each.name == "transfer")
        assert isinstance(number, int)
        self.amqp10.settle(number, number, outcome or composite(spec.ACCEPTED))
        return message

    def read091(self, queue: str = "q") -> Read091:
        frames = self.amqp091.say(method_frame(1, spec091.BASIC_GET, queue=queue, no_ack=True))
        got = decode_method(frames[0][2])
        assert got.name == "basic.get-ok"
        content = b"".join(frame(*each) for each in frames[1:])
        found = {name: value for name, value in properties_of(content).as_dict().items() if value is not None}
        return Read091(bool(got.args["redelivered"]), found, body_of(content))

    def fail(self) -> None:
        """Have one delivery fail: modified with delivery-failed."""
        self.read10(outcome=composite(spec.MODIFIED, delivery_failed=True))

    def reject(self) -> None:
        """Have the next message dead-lettered: it is rejected."""
        self.read10(outcome=composite(spec.REJECTED))


class Row(NamedTuple):
    """A row of the table: what each side sends, and what is done before the other side reads it."""

    name: str
    amqp10: bytes | None
    """Message that AMQP 1.0 sends; None if nothing can be sent."""
    amqp091: Properties | None
    """Properties that AMQP 0-9-1 sends."""
    body: bytes = b"hello"
    """Body that AMQP 0-9-1 sends."""
    before: Callable[[Pair], None] | None = None
    queue: Mapping[str, object] = MappingProxyType({})
    """Arguments of the queue."""
    read_from: str = "q"


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ulong(code), value))


def message(
    *,
    header: dict[str, Any] | None = None,
    annotations: dict[str, object] | None = None,
    application: dict[object, object] | None = None,
    body: bytes = BODY,
    **properties: Any,
) -> bytes:
    """Return a message with the sections that have a field."""
    parts = [] if header is None else [encode(spec.HEADER, **header)]
    if annotations:
        parts.append(section(spec.MESSAGE_ANNOTATIONS, {Symbol(name): value for name, value in annotations.items()}))
    if properties:
        parts.append(encode(spec.PROPERTIES, **properties))
    if application:
        parts.append(section(spec.APPLICATION_PROPERTIES, application))
    return b"".join(parts) + body


def annotated(name: str, value10: object, value091: object) -> Row:
    """Return the row of a value, in an annotation and in a header."""
    return Row(name, message(annotations={"x-v": value10}), Properties(headers={"x-v": value091}))


ROWS = [
    Row("header durable", message(header={"durable": True}), Properties(delivery_mode=2)),
    Row("not durable", b"\x00\x53\x70\xc0\x02\x01\x42" + BODY, Properties(delivery_mode=1)),
    Row("absent", message(), Properties()),
    Row("header priority", message(header={"priority": 7}), Properties(priority=7)),
    Row("header ttl", message(header={"ttl": 60000}), Properties(expiration="60000")),
    Row("one failed delivery", message(), Properties(), before=Pair.fail),
    Row("the same, quorum queue", message(), Properties(), before=Pair.fail, queue={"x-queue-type": "quorum"}),
    Row("message-id, string", message(message_id="id"), Properties(message_id="id")),
    Row("message-id, ulong", message(message_id=ulong(7)), Properties(message_id="7")),
    Row("message-id, uuid", message(message_id=Typed("uuid", UUID)),
        Properties(message_id="urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f")),
    Row("message-id, binary", message(message_id=b"\xff\x00"), Properties(headers={"x-message-id": b"\xff\x00"})),
    Row("message-id of 300 bytes", message(message_id=LONG), Properties(headers={"x-message-id": LONG})),
    Row("correlation-id, string", message(correlation_id="c"), Properties(correlation_id="c")),
    Row("correlation-id, binary", message(correlation_id=b"\xff"), Properties(headers={"x-correlation-id": b"\xff"})),
    Row("user-id", message(user_id=b"guest"), Properties(user_id="guest")),
    Row("to, subject, absolute-expiry-time",
        message(to="/queues/q", subject="s", absolute_expiry_time=MILLISECONDS), None),
    Row("group-sequence, reply-to-group-id", message(group_sequence=1, reply_to_group_id="g"), None),
    Row("reply-to", message(reply_to="/queues/my%20q"), Properties(reply_to="my q")),
    Row("reply-to, another address", message(reply_to="/exchanges/e/k"), Properties(reply_to="/exchanges/e/k")),
    Row("content-type", message(content_type="text/plain"), Properties(content_type="text/plain")),
    Row("content-encoding", message(content_encoding="gzip"), Properties(content_encoding="gzip")),
    Row("creation-time", message(creation_time=MILLISECONDS + 999), Properties(timestamp=MILLISECONDS // 1000)),
    Row("group-id", message(group_id="g"), Properties(app_id="g")),
    Row("annotation x-basic-type", message(annotations={"x-basic-type": "t"}), Properties(type="t")),
    Row("application-properties", message(application={"n": 1, "s": "t"}), Properties(headers={"n": 1, "s": "t"})),
    Row("the same: arrays and tables", None, Properties(headers={"n": 1, "array": [1], "table": {"a": 1}})),
    Row("the same: a key of 300 bytes", message(application={LONG: 1, "n": 1}), None),
    Row("annotations x-...", message(annotations={"x-mine": "a"}), Properties(headers={"x-mine": "a"})),
    Row("annotation x-opt-jms-dest and others", message(annotations={"x-opt-jms-dest": Typed(values.BYTE, 1)}),
        Properties(headers={"x-opt-jms-dest": 1})),
    Row("annotation x-cc", message(annotations={"x-cc": ["other"]}), Properties(headers={"CC": ["other"]})),
    Row("annotation x-opt-deaths", message(), Properties(), before=Pair.reject, queue=DEAD_LETTERS, read_from="d"),
    Row("footer", message(body=BODY + section(spec.FOOTER, {Symbol("f"): 1})), None),
    Row("data", message(body=data_section(b"he") + data_section(b"llo")), Properties()),
    Row("amqp-value", message(body=section(spec.AMQP_VALUE, "text")), Properties(type="amqp-1.0"),
        section(spec.AMQP_VALUE, "text")),
    Row("amqp-sequence", message(body=section(spec.AMQP_SEQUENCE, [1, 2])), Properties(type="amqp-1.0"),
        section(spec.AMQP_SEQUENCE, [1, 2])),
    Row("type amqp-1.0, other bytes", None, Properties(type="amqp-1.0"), b"hello"),
    annotated("string", "text", "text"),
    annotated("string of 300 bytes", LONG, LONG),
    annotated("symbol", Symbol("text"), "text"),
    annotated("binary", b"\xff\x00", b"\xff\x00"),
    annotated("boolean", True, True),
    annotated("ubyte, uint", Typed("ubyte", 200), 200),
    annotated("long", -(2**40), -(2**40)),
    annotated("ulong from 2^63", ulong(2**63), str(2**63)),
    annotated("double", 1.5, 1.5),
    annotated("timestamp", timestamp(MILLISECONDS + 999), MOMENT),
    annotated("list", [1, "a"], [1, "a"]),
    annotated("map", {"a": 1}, {"a": 1}),
    annotated("array", Array(values.UINT, [1, 2]), [1, 2]),
    annotated("null", None, None),
    annotated("uuid", Typed("uuid", UUID), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    annotated("char", Typed("char", "x"), "x"),
    annotated("decimal32", Typed("decimal32", b"\x00\x01\x02\x03"), "00010203"),
]  # fmt: skip

DURABILITY = 3
"""Rows about durability, at the beginning; in the others it is left out."""


# What came out


def cross_to_091(row: Row) -> Read091 | None:
    """Send the message of a row from AMQP 1.0 to AMQP 0-9-1."""
    if row.amqp10 is None:
        return None
    pair = Pair(**row.queue)
    pair.send10(row.amqp10)
    if row.before is not None:
        row.before(pair)
    return pair.read091(row.read_from)


def cross_to_10(row: Row) -> DecodedMessage | None:
    """Send the message of a row from AMQP 0-9-1 to AMQP 1.0."""
    if row.amqp091 is None:
        return None
    pair = Pair(**row.queue)
    pair.send091(row.amqp091, row.body)
    if row.before is not None:
        row.before(pair)
    return decode_message(pair.read10(row.read_from))


def shown(value: object) -> str:
    """Return a value as the table shows it, with the type that its Python type does not tell."""
    if isinstance(value, Typed):
        return f"{value.kind} {shown(value.value)}"
    if isinstance(value, Symbol):
        return f"symbol {value.text}"
    if isinstance(value, Array):
        return f"array of {value.kind} [{', '.join(shown(item) for item in value.values)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{shown(key)}: {shown(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, str) and len(value) > 80:
        return f'"{value[0]}..." ({len(value)} bytes)'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f'"{value}"' if isinstance(value, str) else str(value)


def _pairs(fields: dict[str, object]) -> list[str]:
    return [f"{name}: {shown(value)}" for name, value in fields.items()]


def shown_091(read: Read091, durability: bool = True) -> str:
    """Return what AMQP 0-9-1 reads; the usual body is left out, and so is durability where the row is not about it."""
    fields = dict(read.properties)
    headers = fields.pop("headers", {})
    assert isinstance(headers, dict)
    if not durability:
        fields.pop("delivery_mode", None)
    found = ["redelivered"] if read.redelivered else []
    found += _pairs(fields) + [f"header {pair}" for pair in _pairs(headers)]
    if read.body != b"hello":
        found.append(f"body: {shown(read.body)}")
    return _cell(found)


def shown_10(read: DecodedMessage, durability: bool = True) -> str:
    """Return what AMQP 1.0 reads; x-exchange, x-routing-key and the usual body are left out."""
    annotations = {name: value for name, value in read.annotations.items() if name not in (EXCHANGE_KEY, ROUTING_KEY)}
    header = {name: value for name, value in read.header.items() if value is False or name != "first_acquirer"}
    if not durability:
        header.pop("durable", None)
    found = _hyphened(header) + [f"annotation {pair}" for pair in _pairs(annotations)] + _hyphened(read.properties)
    found += [f"property {pair}" for pair in _pairs(read.application)]
    if read.body != [("data", b"hello")]:
        found += [f"{name}: {shown(value)}" for name, value in read.body]
    return _cell(found)


def _hyphened(fields: dict[str, object]) -> list[str]:
    return _pairs({name.replace("_", "-"): value for name, value in fields.items()})


def _cell(found: list[str]) -> str:
    return "<br>".join(f"`{each}`" for each in found) if found else "-"


def generated() -> str:
    """Return the table in Markdown."""
    lines = [
        "| from AMQP 1.0 | AMQP 0-9-1 reads | AMQP 0-9-1 sends | AMQP 1.0 reads |",
        "|---|---|---|---|",
    ]
    for row in ROWS:
        to_091, to_10 = cross_to_091(row), cross_to_10(row)
        durability = row in ROWS[:DURABILITY]
        sent = "" if row.amqp091 is None else shown_091(Read091(False, _present(row.amqp091), row.body))
        lines.append(
            f"| {row.name} | {'' if to_091 is None else shown_091(to_091, durability)} | {sent} "
            f"| {'' if to_10 is None else shown_10(to_10, durability)} |"
        )
    return "\n".join(lines) + "\n"


def _present(properties: Properties) -> dict[str, object]:
    return {name: value for name, value in properties.as_dict().items() if value is not None}


def tables() -> dict[str, str]:
    """Return the table by its name."""
    return {"conversions": FILE.read_text()}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    FILE.write_text(generated())
