"""Requests over AMQP 1.0: to the management node, and to the control exchange; each a sender and a receiver of answers.

Declarations are HTTP over AMQP at `/management`, as in RabbitMQ 4. Control operations are messages to the exchange
`penstock.control`, whose answers go to a dynamic queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mypy_extensions import i64
from typing_extensions import override

from penstock.client.engine.amqp10.session import Link, Session
from penstock.client.engine.connection import CONTROL_EXCHANGE, JSON_TYPE, UPDATE_SECRET
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, ClientError
from penstock.content.properties import Properties
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.flow import Flow
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.neutral_message import data_section, encode_head
from penstock.wire.amqp10.neutral_properties import properties_of
from penstock.wire.amqp10.neutral_values import to_amqp10, to_neutral
from penstock.wire.amqp10.node_addresses import exchange_address
from penstock.wire.amqp10.sections import Sections, joined_data
from penstock.wire.amqp10.serial import serial_distance
from penstock.wire.amqp10.transfer import Transfer
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong

if TYPE_CHECKING:
    from penstock.client.engine.amqp10.connection import Engine10

MANAGEMENT: Final = "/management"
CREDIT: Final = 64
"""Answers that may come at a time."""


class AnswerLink(Link):
    """Link on which answers come."""

    def __init__(self, session: Session, name: str, pair: RequestPair) -> None:
        super().__init__(session, name, True)
        self.pair = pair
        self.received: i64 = 0
        self.parts: list[bytes] = []

    @override
    def on_attach(self, attach: Composite) -> None:
        source = attach.inner("source")
        if source is not None:
            self.is_attached = True
            self.pair.reply_to = source.text("address")
            self.session.write_flow(self, 0, CREDIT, ABSENT, False)
            self.pair.send()

    @override
    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        self.parts.append(data[transfer.payload : end])
        if transfer.more:
            return
        content = b"".join(self.parts)
        self.parts = []
        self.received += 1
        self.session.write_flow(self, self.received, CREDIT, ABSENT, False)
        self.pair.answered(content)

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.pair.fail(ClientError(text))


class RequestLink(Link):
    """Link on which requests go."""

    def __init__(self, session: Session, name: str, pair: RequestPair) -> None:
        super().__init__(session, name, False)
        self.pair = pair
        self.sent: i64 = 0
        self.credit: i64 = 0

    @override
    def on_attach(self, attach: Composite) -> None:
        self.is_attached = attach.inner("target") is not None

    @override
    def on_flow(self, flow: Flow) -> None:
        if flow.link_credit != ABSENT:
            count = flow.delivery_count if flow.delivery_count != ABSENT else 0
            self.credit = serial_distance(self.sent & 0xFFFFFFFF, count + flow.link_credit & 0xFFFFFFFF)
        self.pair.send()

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.pair.fail(ClientError(text))


class RequestPair:
    """Two links, and the requests that wait for them."""

    def __init__(self, engine: Engine10, name: str, target: str, source: Composite, properties: bool) -> None:
        self.engine = engine
        session = engine.session()
        self.reply_to: str = ""
        self.waiting: list[Request] = []
        self.is_over: bool = False
        paired: dict[object, object] = {"paired": True} if properties else {}
        self.answers = AnswerLink(session, name, self)
        self.requests = RequestLink(session, name, self)
        self.requests.attach(
            snd_settle_mode=1,
            source=composite(spec.SOURCE, address=MANAGEMENT if properties else engine.terms.container),
            target=composite(spec.TARGET, address=target),
            properties=_symbols(paired),
        )
        self.answers.attach(
            snd_settle_mode=1,
            source=source,
            target=composite(spec.TARGET, address=MANAGEMENT if properties else engine.terms.container),
            properties=_symbols(paired),
        )

    def add(self, request: Request) -> None:
        """Send a request as soon as there is credit."""
        self.waiting.append(request)
        self.send()

    def send(self) -> None:
        """Send the requests for which there is credit."""
        link = self.requests
        while self.waiting and link.is_attached and self.answers.is_attached and link.credit > 0:
            if link.session.window <= 0:
                return
            content = self.waiting.pop(0).content(self)
            session = link.session
            session.next_id += 1
            head = encode(
                spec.TRANSFER,
                handle=link.handle,
                delivery_id=int(session.next_id - 1) & 0xFFFFFFFF,
                delivery_tag=int(link.sent).to_bytes(8, "big"),
                settled=True,
            )
            if len(head) + len(content) + spec.FRAME_OVERHEAD > self.engine.frame_max:
                raise ClientError(f"a request of {len(content)} octets is larger than a frame")
            self.engine.out.write(frame(int(session.channel), head + content))
            session.window -= 1
            session.next_transfer += 1
            link.sent += 1
            link.credit -= 1
            self.engine.wake_output()

    def answered(self, content: bytes) -> None:
        """Take an answer."""
        raise NotImplementedError

    def fail(self, error: ClientError) -> None:
        """Fail what waits for an answer: a link was refused or closed."""
        self.is_over = True
        self.waiting.clear()
        self.requests.detach()
        self.answers.detach()


class Request:
    """Request that is encoded when the address of its answer is known."""

    def __init__(self, number: str, name: str, path: str, body: object, octets: bytes) -> None:
        self.number = number
        self.name = name
        """Method, or control operation."""
        self.path = path
        self.body = body
        self.octets = octets

    def content(self, pair: RequestPair) -> bytes:
        """Return the message."""
        if self.path:
            place: dict[str, object] = {"to": self.path, "subject": self.name, "reply_to": "$me"}
            head = encode_head(Properties(message_id=self.number), place)
            return head + encode_value(Described(ulong(spec.AMQP_VALUE), self.body))
        place = {"subject": self.name, "reply_to": pair.reply_to}
        return encode_head(Properties(correlation_id=self.number, content_type=JSON_TYPE), place) + data_section(
            self.octets
        )


class Management(RequestPair):
    """Declarations at the management node."""

    def __init__(self, engine: Engine10) -> None:
        super().__init__(engine, "management", MANAGEMENT, composite(spec.SOURCE, address=MANAGEMENT), True)
        self.calls: dict[str, Declaration] = {}
        self.number: int = 0

    def declare(self, call: Call, name: str, arguments: dict[str, Any]) -> None:
        """Send a declaration as the request that means the same."""
        self.number += 1
        number = str(self.number)
        self.calls[number] = Declaration(call, name, arguments)
        method, path, body = request_of(name, arguments)
        self.add(Request(number, method, path, body, b""))

    @override
    def answered(self, content: bytes) -> None:
        sections = Sections()
        sections.walk(content, 0, len(content))
        section = decode_composite(b"\x00\x53\x73" + content[sections.properties :])[0]
        declaration = self.calls.pop(str(section.fields["correlation_id"]), None)
        if declaration is None:
            return
        call = declaration.call
        body: object = None
        if sections.body_code == spec.AMQP_VALUE:
            body = to_neutral(decode_value(content, int(sections.body_at) + 3)[0])
        status = int(section.text("subject") or 500)
        if call in self.engine.calls:
            self.engine.calls.remove(call)
        if status >= 300:
            self.engine.finish(call, ChannelClosed(status, str(body)))
            return
        call.value = {**declaration.arguments, **(body if isinstance(body, dict) else {})}
        self.engine.finish(call)

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        for declaration in self.calls.values():
            self.engine.finish(declaration.call, error)
        self.calls.clear()


class Declaration:
    """Declaration that has no answer yet."""

    def __init__(self, call: Call, name: str, arguments: dict[str, Any]) -> None:
        self.call = call
        self.name = name
        self.arguments = arguments


class Control(RequestPair):
    """Control operations of Penstock."""

    def __init__(self, engine: Engine10) -> None:
        source = composite(spec.SOURCE, dynamic=True, capabilities=["temporary-queue"])
        super().__init__(engine, "control", exchange_address(CONTROL_EXCHANGE), source, False)

    @override
    def answered(self, content: bytes) -> None:
        sections = Sections()
        sections.walk(content, 0, len(content))
        properties = properties_of(content, sections)
        self.engine.answer(properties.correlation_id, properties.content_type, joined_data(content, sections))

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        for call in self.engine.requests.values():
            self.engine.finish(call, error)
        self.engine.requests.clear()


def request_of(name: str, arguments: dict[str, Any]) -> tuple[str, str, object]:
    """Return method, path and body of the request that declares or deletes what a method of AMQP 0-9-1 does."""
    if name == UPDATE_SECRET:
        return "PUT", "/auth/tokens", str(arguments["new_secret"]).encode()
    if name.startswith("queue.") and "bind" not in name:
        path = f"/queues/{_part(arguments['queue'])}"
        if name == "queue.declare":
            return "PUT", path, _fields(arguments, ("durable", "exclusive", "auto_delete", "arguments"))
        return "DELETE", path + ("/messages" if name == "queue.purge" else ""), None
    if name == "exchange.declare":
        path = f"/exchanges/{_part(arguments['exchange'])}"
        return "PUT", path, _fields(arguments, ("type", "durable", "auto_delete", "internal", "arguments"))
    if name == "exchange.delete":
        return "DELETE", f"/exchanges/{_part(arguments['exchange'])}", None
    source = arguments["exchange"]
    queue, key = arguments["queue"], arguments["routing_key"]
    if name == "queue.bind":
        body = {"source": source, "binding_key": key, "destination_queue": queue, "arguments": arguments["arguments"]}
        return "POST", "/bindings", _fields(body, tuple(body))
    return "DELETE", f"/bindings/src={_part(source)};dstq={_part(queue)};key={_part(key)};args=", None


def _fields(arguments: dict[str, Any], names: tuple[str, ...]) -> dict[object, object]:
    """Return the named arguments as the map of a body, with strings as keys."""
    found: dict[object, object] = {}
    for name in names:
        value = arguments.get(name)
        if name == "arguments":
            found[name] = {key: to_amqp10(item) for key, item in (value or {}).items()}
        elif value is not None:
            found[name] = value
    return found


def _part(name: str) -> str:
    return quote(name, safe="", errors="replace")


def _symbols(entries: dict[object, object]) -> dict[object, object]:
    return {Symbol(str(key)): value for key, value in entries.items()}
