"""Requests over AMQP 1.0: to the management node, and to the control exchange; each a sender and a receiver of answers.

Declarations are HTTP over AMQP at `/management`, as in RabbitMQ 4. Control operations are messages to the exchange
`penstock.control`, whose answers go to a dynamic queue.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.client.engine.amqp10.addresses import address_of, capabilities_of
from penstock.client.engine.amqp10.receiver import body_of
from penstock.client.engine.amqp10.session import Asked, AskingLink, Link, Session, Sessions, reason_of
from penstock.client.engine.connection import CONTROL_EXCHANGE, REPLY_QUEUE, UPDATE_SECRET
from penstock.client.engine.messages import Message
from penstock.client.engine.requester import Requester
from penstock.client.engine.waits import Call
from penstock.client.errors import ChannelClosed, ClientError, LinkClosed
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral_addresses import exchange_address, quoted
from penstock.wire.amqp10.neutral_reader import properties_of
from penstock.wire.amqp10.neutral_values import to_amqp10, to_neutral
from penstock.wire.amqp10.neutral_writer import data_section, encode_head
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.transfer import TRANSFER_OVERHEAD, Disposition, Transfer, write_continuation, write_delivery
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong

MANAGEMENT: Final = "/management"
CREDIT: Final = 64
"""Most answers that may arrive at a time."""


class AnswerLink(Link):
    """Link on which answers arrive."""

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
        sections = Sections()
        sections.walk(content, 0, len(content))
        self.pair.answered(content, sections)

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.pair.fail(LinkClosed(None, text))


class CallLink(AskingLink):
    """Link on which requests are sent."""

    def __init__(self, session: Session, name: str, pair: RequestPair) -> None:
        super().__init__(session, name)
        self.pair = pair

    @override
    def send(self) -> None:
        self.pair.send()

    @override
    def on_window(self) -> None:
        self.pair.send()

    @override
    def on_attach(self, attach: Composite) -> None:
        self.is_attached = attach.inner("target") is not None

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.pair.fail(LinkClosed(None, text))


class RequestPair:
    """Two links, and the requests that wait for credit."""

    def __init__(
        self,
        sessions: Sessions,
        name: str,
        target: str,
        source: Composite,
        properties: bool,
        is_settled: bool = True,
        capabilities: list[str] | None = None,
    ) -> None:
        self.sessions = sessions
        self.engine = engine = sessions.engine
        session = sessions.session()
        self.reply_to: str = ""
        self.waiting: list[Request] = []
        self.content: bytes = b""
        """Request that is being sent, with frames left."""
        self.is_settled: bool = is_settled
        """True if requests are sent settled, because their answers suffice. Otherwise an outcome reports requests that
        reached no queue.
        """
        self.at: i64 = 0
        """Sent bytes of the request."""
        self.is_over: bool = False
        paired: dict[object, object] = {"paired": True} if properties else {}
        self.answers = AnswerLink(session, name, self)
        self.requests = CallLink(session, name, self)
        self.requests.attach(
            snd_settle_mode=1 if is_settled else 0,
            source=composite(spec.SOURCE, address=MANAGEMENT if properties else engine.terms.container),
            target=composite(spec.TARGET, address=target, capabilities=capabilities),
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
        """Send the requests for which there is credit, as far as the session's window allows."""
        link = self.requests
        while link.is_attached and self.answers.is_attached and link.session.window > 0:
            if not self.content:
                if not self.waiting or link.credit <= 0:
                    return
                request = self.waiting.pop(0)
                self.content = request.content(self)
                self.at = 0
                link.count_sent()
                if not self.is_settled:
                    link.session.requests[int(link.session.next_id)] = request
            self._send_frame(link)

    def _send_frame(self, link: CallLink) -> None:
        session, out = link.session, self.engine.out
        left: i64 = len(self.content) - self.at
        size = min(left, self.sessions.frame_max - TRANSFER_OVERHEAD)
        more = size < left
        if self.at == 0:
            number = session.next_id & 0xFFFFFFFF
            session.next_id += 1
            write_delivery(out, session.channel, link.handle, number, link.sent, self.is_settled, more, size)
        else:
            write_continuation(out, session.channel, link.handle, more, size)
        out.write(self.content[self.at : self.at + size] if more or self.at > 0 else self.content)
        self.at += size
        if not more:
            self.content = b""
        session.window -= 1
        session.next_transfer += 1
        self.engine.wake_output()

    def answered(self, content: bytes, sections: Sections) -> None:
        """Handle an answer."""
        raise NotImplementedError

    def fail(self, error: ClientError) -> None:
        """Fail all waiting requests, because a link was refused or closed."""
        self.is_over = True
        self.waiting.clear()
        self.content = b""
        self.requests.detach()
        self.answers.detach()


class Request(Asked):
    """Request that is encoded when the address of its answer is known."""

    def __init__(self, number: str, name: str, path: str, body: object, kind: str, octets: bytes) -> None:
        self.number = number
        self.name = name
        """Method, or control operation."""
        self.path = path
        self.body = body
        self.kind = kind
        self.octets = octets

    def content(self, pair: RequestPair) -> bytes:
        """Return the message."""
        if self.path:
            place: dict[str, object] = {"to": self.path, "subject": self.name, "reply_to": "$me"}
            head = encode_head(Properties(message_id=self.number), place)
            return head + encode_value(Described(ulong(spec.AMQP_VALUE), self.body))
        place = {"subject": self.name, "reply_to": pair.reply_to}
        properties = Properties(correlation_id=self.number, content_type=self.kind)
        return encode_head(properties, place) + data_section(self.octets)


class Management(RequestPair):
    """Declarations at the management node."""

    def __init__(self, sessions: Sessions) -> None:
        super().__init__(sessions, "management", MANAGEMENT, composite(spec.SOURCE, address=MANAGEMENT), True)
        self.calls: dict[str, tuple[Call, dict[str, Any]]] = {}
        """Declarations without an answer, and their arguments."""
        self.number: int = 0

    def declare(self, call: Call, name: str, arguments: dict[str, Any]) -> None:
        """Send a declaration as the equivalent request."""
        self.number += 1
        number = str(self.number)
        self.calls[number] = call, arguments
        method, path, body = request_of(name, arguments)
        self.add(Request(number, method, path, body, "", b""))

    @override
    def answered(self, content: bytes, sections: Sections) -> None:
        if sections.properties == ABSENT:
            return
        section = decode_composite(b"\x00\x53\x73" + content[sections.properties :])[0]
        declaration = self.calls.pop(str(section.fields["correlation_id"]), None)
        if declaration is None:
            return
        call, arguments = declaration
        body: object = None
        if sections.body_code == spec.AMQP_VALUE:
            body = to_neutral(decode_value(content, int(sections.body_at) + 3)[0])
        subject = section.text("subject")
        status = int(subject) if subject.isascii() and subject.isdecimal() and len(subject) == 3 else 500
        if call in self.engine.calls:
            self.engine.calls.remove(call)
        if status >= 300:
            self.engine.finish(call, ChannelClosed(status, str(body)))
            return
        call.value = {**arguments, **(body if isinstance(body, dict) else {"found": body})}
        self.engine.finish(call)

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        for call, _ in self.calls.values():
            self.engine.finish(call, error)
        self.calls.clear()


class Control(RequestPair):
    """Control operations of Penstock."""

    def __init__(self, sessions: Sessions) -> None:
        arguments: dict[object, object] = {Symbol(name): to_amqp10(value) for name, value in REPLY_QUEUE.items()}
        source = composite(
            spec.SOURCE, dynamic=True, capabilities=["temporary-queue"], dynamic_node_properties=arguments
        )
        super().__init__(sessions, "control", exchange_address(CONTROL_EXCHANGE), source, False)

    @override
    def answered(self, content: bytes, sections: Sections) -> None:
        properties = properties_of(content, sections)
        self.engine.answer(properties.correlation_id, properties.content_type, body_of(content, sections))

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        self.engine._fail_requests(error)


def request_of(name: str, arguments: dict[str, Any]) -> tuple[str, str, object]:
    """Return method, path and body of the request equivalent to a declaration or deletion of AMQP 0-9-1."""
    if name == UPDATE_SECRET:
        return "PUT", "/auth/tokens", str(arguments["new_secret"]).encode()
    if name.startswith("queue.") and "bind" not in name:
        path = f"/queues/{quoted(arguments['queue'])}"
        if name == "queue.declare":
            if arguments.get("passive"):
                return "GET", path, None
            return "PUT", path, _fields(arguments, ("durable", "exclusive", "auto_delete", "arguments"))
        return "DELETE", path + ("/messages" if name == "queue.purge" else ""), None
    if name == "exchange.declare":
        path = f"/exchanges/{quoted(arguments['exchange'])}"
        return "PUT", path, _fields(arguments, ("type", "durable", "auto_delete", "internal", "arguments"))
    if name == "exchange.delete":
        return "DELETE", f"/exchanges/{quoted(arguments['exchange'])}", None
    return _request_of_binding(name, arguments)


FIND_BINDINGS: Final = "bindings.find"
DROP_BINDING: Final = "bindings.drop"
"""Calls without a method in AMQP 0-9-1: one of several bindings that differ only in their arguments has a path."""


def _request_of_binding(name: str, arguments: dict[str, Any]) -> tuple[str, str, object]:
    if name == DROP_BINDING:
        return "DELETE", str(arguments["location"]), None
    of_queue = "queue" in arguments
    source = arguments["exchange"] if of_queue else arguments["source"]
    target = arguments["queue"] if of_queue else arguments["destination"]
    key = arguments["routing_key"]
    if name.endswith(".bind"):
        kind = "destination_queue" if of_queue else "destination_exchange"
        body = {"source": source, "binding_key": key, kind: target, "arguments": arguments["arguments"]}
        return "POST", "/bindings", _fields(body, tuple(body))
    named = (f"src={quoted(source)}", f"{'dstq' if of_queue else 'dste'}={quoted(target)}", f"key={quoted(key)}")
    if name == FIND_BINDINGS:
        return "GET", f"/bindings?{'&'.join(named)}", None
    return "DELETE", f"/bindings/{';'.join(named)};args=", None


def _fields(arguments: dict[str, Any], names: tuple[str, ...]) -> dict[object, object]:
    """Return the named arguments as the map of a body, with strings as keys."""
    fields: dict[object, object] = {}
    for name in names:
        value = arguments.get(name)
        if name == "arguments":
            fields[name] = {key: to_amqp10(item) for key, item in (value or {}).items()}
        elif value is not None:
            fields[name] = value
    return fields


def _symbols(entries: dict[object, object]) -> dict[object, object]:
    return {Symbol(str(key)): value for key, value in entries.items()}


class Requester10(Requester):
    """Requester with two links of its own."""

    def __init__(self, sessions: Sessions, exchange: str, key: str) -> None:
        super().__init__(sessions.engine, exchange, key)
        self.sessions = sessions
        self.pair: CallPair | None = None

    @override
    def attach(self) -> None:
        self.pair = CallPair(self.sessions, self)

    @override
    def write(self, message: Message, number: str, reply_to: str) -> None:
        assert self.pair is not None
        self.pair.add(CallRequest(number, message, self, reply_to))

    @override
    def drop(self, number: str) -> str:
        pair = self.pair
        if pair is None:
            return ""
        left = [request for request in pair.waiting if request.number != number]
        if len(left) == len(pair.waiting):
            return ""
        pair.waiting = left
        return "; it was not sent, for the broker gave no credit"

    @override
    def detach(self) -> None:
        if self.pair is not None:
            self.pair.fail(ClientError("the calls are closed"))


class CallPair(RequestPair):
    """Links of a requester."""

    def __init__(self, sessions: Sessions, requester: Requester10) -> None:
        key = requester.key
        of_queue = not requester.exchange
        server = sessions.engine.server
        target = address_of(key, server) if of_queue else exchange_address(requester.exchange, key)
        capabilities = capabilities_of(key) if of_queue else None
        source = composite(spec.SOURCE, dynamic=True, capabilities=["temporary-queue"])
        name = sessions.new_name("calls")
        super().__init__(sessions, name, target, source, False, is_settled=False, capabilities=capabilities)
        self.requester = requester

    @override
    def answered(self, content: bytes, sections: Sections) -> None:
        properties = properties_of(content, sections)
        self.requester.answered(properties.correlation_id, body_of(content, sections), properties)

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        if self.requester.pair is self:
            self.requester.fail(error)


class CallRequest(Request):
    """Message that is encoded when the address of its answer is known."""

    def __init__(self, number: str, message: Message, requester: Requester10, reply_to: str) -> None:
        super().__init__(number, "", "", None, "", message.body)
        self.requester = requester
        self.properties = message.properties.copy()
        self.properties.correlation_id = number
        self.properties.reply_to = reply_to or None
        encode_head(self.properties)  # An encoding error is the caller's, raised now.

    @override
    def settled(self, disposition: Disposition) -> None:
        if disposition.state_code != spec.ACCEPTED:
            self.requester.refused(self.number, reason_of(disposition.state_code, disposition.state))

    @override
    def content(self, pair: RequestPair) -> bytes:
        if self.properties.reply_to is None:
            self.properties.reply_to = pair.reply_to
        return encode_head(self.properties) + data_section(self.octets)
