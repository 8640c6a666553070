"""Connection of AMQP 1.0: login, frames, sessions and requests."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.client.engine.amqp10.addresses import RABBITMQ, is_rabbitmq_3
from penstock.client.engine.amqp10.publisher import Publisher10
from penstock.client.engine.amqp10.receiver import Receiver10
from penstock.client.engine.amqp10.requests import Control, Management, Request, Requester10
from penstock.client.engine.amqp10.scram import SCRAM, Scram
from penstock.client.engine.amqp10.session import CHANNEL_MAX, FRAME_MAX, Session, Sessions
from penstock.client.engine.connection import CLOSING, OPENING, Engine
from penstock.client.engine.requester import Requester
from penstock.client.engine.terms import ConnectionTerms, PublisherTerms, ReceiverTerms
from penstock.client.engine.waits import Call
from penstock.client.errors import (
    FIRST_STEP,
    ClientError,
    ConnectError,
    ConnectionClosed,
    LoginRefused,
    WrongProtocol,
    why_closed,
)
from penstock.markers import override
from penstock.version import VERSION
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, decode_performative, encode
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.frames import (
    AMQP_HEADER,
    HEADER_OCTETS,
    INCOMPLETE,
    SASL_HEADER,
    frame,
    frame_body,
    frame_channel,
    frame_end,
)
from penstock.wire.amqp10.transfer import Disposition, Flow, Transfer
from penstock.wire.amqp10.values import CodecError, Symbol, Typed
from penstock.wire.sasl import SaslError, plain_response

CHALLENGES_MOST: Final = 8
"""Most challenges of a login; no supported mechanism has more than two."""

DELAYED_DELIVERY: Final = "DELAYED_DELIVERY"
"""Capability of brokers that deliver messages after a delay (JMS 2)."""


class Login:
    """One login; `error` is the reason of a failure."""

    def __init__(self, terms: ConnectionTerms) -> None:
        self.terms = terms
        self.error: ClientError | None = None
        self.has_begun: bool = False
        """True once a mechanism was chosen."""
        self.challenges: int = 0
        self.scram: Scram | None = None

    def begin(self, offered: list[str]) -> bytes:
        """Return the sasl-init for one of the mechanisms that the broker offers; empty if none fits."""
        terms = self.terms
        usual = ["PLAIN", SCRAM, "ANONYMOUS"] if terms.user else ["ANONYMOUS"]
        wanted = [terms.mechanism] if terms.mechanism else usual
        mechanism = next((name for name in wanted if name in offered), "")
        if not mechanism:
            text = f"the broker offers only {' '.join(offered)}, and {' or '.join(wanted)} is needed"
            self.error = LoginRefused(terms.host, terms.port, text)
            return b""
        try:
            response = self._response(mechanism)
        except SaslError as error:
            self.error = LoginRefused(terms.host, terms.port, str(error))
            return b""
        except ConnectError as refusal:
            self.error = refusal
            return b""
        self.has_begun = True
        return encode(spec.SASL_INIT, mechanism=mechanism, initial_response=response, hostname=terms.host)

    def _response(self, mechanism: str) -> bytes:
        terms = self.terms
        if mechanism == "PLAIN":
            return plain_response(terms.user, terms.password)
        if mechanism == SCRAM:
            self.scram = Scram(terms)
            return self.scram.first
        return b""

    def answer(self, challenge: bytes) -> bytes:
        """Return the sasl-response to a challenge; empty after an error. Raises CodecError if no challenge is due."""
        self.challenges += 1
        if not self.has_begun or self.challenges > CHALLENGES_MOST:
            raise CodecError("a challenge where none was due")
        response = b""
        if self.scram is not None:
            try:
                response = self.scram.answer(challenge)
            except ConnectError as error:
                self.error = error
                return b""
        return encode(spec.SASL_RESPONSE, response=response)

    def end(self, outcome: Composite) -> None:
        """Handle the outcome; with SCRAM the broker has proved before that it knows the password.

        Raises CodecError if no outcome is due.
        """
        terms = self.terms
        if not self.has_begun:
            raise CodecError("the outcome of a login before its mechanism")
        code = outcome.number("code", 1)
        if code == 0:
            if self.scram is not None:
                try:
                    self.scram.end(outcome.octets("additional_data") or b"")
                except ConnectError as error:
                    self.error = error
            return
        if code == 1:
            text = f"the broker refuses {terms.user}; check user, password and permissions"
            self.error = LoginRefused(terms.host, terms.port, text)
        else:
            self.error = ConnectError(terms.host, terms.port, f"the login failed at the broker (code {code})")


REFUSED: Final = ("amqp:not-found", "amqp:unauthorized-access", "amqp:not-allowed", "amqp:invalid-field")
"""Conditions of a refused login: no such virtual host, or no permission."""

SASL_HEADER_DUE: Final = 0
SASL_DUE: Final = 1
AMQP_HEADER_DUE: Final = 2
FRAMES_DUE: Final = 3
"""Kinds of expected input."""


class Engine10(Engine):
    """Connection of AMQP 1.0."""

    protocol = "amqp10"

    def __init__(self, terms: ConnectionTerms) -> None:
        super().__init__(terms)
        self.due: i64 = SASL_HEADER_DUE
        self.step: str = FIRST_STEP
        self.sessions = Sessions(self)
        self.login = Login(terms)
        self.management: Management | None = None
        self.control: Control | None = None
        self.cursor = FieldCursor()
        self.flow = Flow()
        self.transfer = Transfer()
        self.disposition = Disposition()

    # Transport

    @override
    def reset(self) -> None:
        self.due = SASL_HEADER_DUE
        self.step = FIRST_STEP
        self.sessions.reset()
        self.login = Login(self.terms)
        self.management = None
        self.control = None
        self.out.write(SASL_HEADER)

    @override
    def read(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
            self.rest = b""
        pos: i64 = 0
        n: i64 = len(data)
        try:
            while self.fault is None:
                if self.due == SASL_HEADER_DUE or self.due == AMQP_HEADER_DUE:
                    if n - pos < HEADER_OCTETS:
                        break
                    self._header(data[pos : pos + HEADER_OCTETS])
                    pos += HEADER_OCTETS
                    continue
                end = frame_end(data, pos, n, FRAME_MAX)
                if end == INCOMPLETE:
                    break
                start = frame_body(data, pos)
                if start < end:
                    self._performative(data, frame_channel(data, pos), start, end)
                pos = end
        except CodecError as error:
            self.break_off(ConnectionClosed(None, f"the broker broke the protocol: {error.reason}"))
            return
        self.rest = data[pos:]

    def _header(self, header: bytes) -> None:
        wanted = SASL_HEADER if self.due == SASL_HEADER_DUE else AMQP_HEADER
        if header == wanted:
            self.due += 1
            if self.due == FRAMES_DUE:
                self._open()
            return
        self._refuse_server(header, WrongProtocol)

    @override
    def write_heartbeat(self) -> None:
        self.out.write(frame(0))
        self.wake_output()

    @override
    def write_close(self) -> None:
        self._put(spec.CLOSE)

    @override
    def lose(self, error: ClientError, again: bool, now: float) -> None:
        if self.phase == OPENING and type(error) is ConnectionClosed:
            terms = self.terms
            text = why_closed(terms.user, self.step, None, error.text, is_encrypted=terms.is_encrypted)
            error = ConnectError(terms.host, terms.port, text)
        super().lose(error, again and not isinstance(error, LoginRefused), now)

    def _put(self, code: int, **fields: Any) -> None:
        self.out.write(frame(0, encode(code, **fields)))
        self.wake_output()

    # Login

    def _open(self) -> None:
        terms = self.terms
        self.step = f"the virtual host {terms.virtual_host}"
        properties: dict[object, object] = {
            Symbol("product"): terms.product,
            Symbol("version"): VERSION,
            Symbol("platform"): "Python",
        }
        if terms.name:
            properties[Symbol("connection_name")] = terms.name
        self._put(
            spec.OPEN,
            container_id=terms.container,
            hostname=terms.host if terms.virtual_host == "/" else f"vhost:{terms.virtual_host}",
            max_frame_size=FRAME_MAX,
            channel_max=CHANNEL_MAX,
            idle_time_out=round(terms.heartbeat * 1000) or None,
            properties=properties,
        )

    def _opened(self, open: Composite) -> None:
        self.server = {
            key.text: value.value if isinstance(value, Typed) else value
            for key, value in open.mapping("properties").items()
            if isinstance(key, Symbol)
        }
        self.delays = DELAYED_DELIVERY in open.texts("offered_capabilities")
        self.sessions.limit(open.number("channel_max", CHANNEL_MAX), open.number("max_frame_size", FRAME_MAX))
        self.heart.start(max(open.number("idle_time_out", 0), 0) / 1000, self.terms.heartbeat * 2)
        if Symbol("amqp:connection-establishment-failed") in open.mapping("properties"):
            return  # A close with the reason follows.
        self.note_open()

    # Frames

    def _performative(self, data: bytes, channel: i64, pos: i64, end: i64) -> None:
        cursor = self.cursor
        if self.due == SASL_DUE:
            self._sasl(decode_performative(data, int(pos), int(end))[0])
            return
        transfer = self.transfer
        if transfer.read_usual(data, pos, end):
            self.sessions.of_channel(channel).on_transfer(data, transfer, end)
            return
        code = cursor.open(data, pos, end)
        if code == spec.TRANSFER:
            transfer.read(cursor, data, pos, end)
            self.sessions.of_channel(channel).on_transfer(data, transfer, end)
        elif code == spec.DISPOSITION:
            disposition = self.disposition
            disposition.read(cursor, data, pos, end)
            self.sessions.of_channel(channel).on_disposition(disposition)
        elif code == spec.FLOW:
            flow = self.flow
            flow.read(cursor, data, pos, end)
            session = self.sessions.of_channel(channel)
            session.on_flow(flow)
            link = session.remote.get(int(flow.handle))
            if link is not None:
                link.on_flow(flow)
        else:
            self._seldom(decode_performative(data, int(pos), int(end))[0], channel)

    def _sasl(self, performative: Composite) -> None:
        code = performative.code
        login = self.login
        if code == spec.SASL_MECHANISMS and not login.has_begun:
            self.step = f"an answer to the credentials of {self.terms.user}"
            init = login.begin(performative.texts("sasl_server_mechanisms"))
            if init:
                self.out.write(frame(0, init, spec.FRAME_SASL))
        elif code == spec.SASL_CHALLENGE:
            answer = login.answer(performative.octets("challenge"))
            if answer:
                self.out.write(frame(0, answer, spec.FRAME_SASL))
        elif code == spec.SASL_OUTCOME:
            login.end(performative)
            if login.error is None:
                self.due = AMQP_HEADER_DUE
                self.out.write(AMQP_HEADER)
        else:
            raise CodecError("a frame of a login where another was due")
        if login.error is not None:
            self.break_off(login.error)
        self.wake_output()

    def _seldom(self, performative: Composite, channel: i64) -> None:
        if performative.code == spec.END:
            condition, text = _error_of(performative)
            self.break_off(ConnectionClosed(condition or None, text or "the broker ended the session"))
            return
        code = performative.code
        if code == spec.OPEN:
            self._opened(performative)
        elif code == spec.BEGIN:
            self.sessions.begin_answered(performative, int(channel))
        elif code == spec.ATTACH:
            self._attached(self.sessions.of_channel(channel), performative)
        elif code == spec.DETACH:
            self._detached(self.sessions.of_channel(channel), performative)
        elif code == spec.CLOSE:
            self._closed(performative)

    def _attached(self, session: Session, attach: Composite) -> None:
        for link in session.links:
            is_ours = link is not None and link.name == attach.text("name")
            if is_ours and link is not None and link.is_receiver != attach.flag("role") and not link.is_detached:
                session.remote[attach.number("handle")] = link
                link.on_attach(attach)
                return

    def _detached(self, session: Session, detach: Composite) -> None:
        link = session.remote.pop(detach.number("handle"), None)
        if link is None:
            return
        code, text = _error_of(detach)
        if not link.is_detached:
            link.detach()
            link.on_detach(code, text or "the broker detached the link without a reason")
        session.links[link.handle] = None

    def _closed(self, close: Composite) -> None:
        code, text = _error_of(close)
        if self.phase == CLOSING:
            for call in self.calls:
                self.finish(call)
            self.calls.clear()
            return
        self._put(spec.CLOSE)
        if self.phase == OPENING:
            kind = LoginRefused if code in REFUSED else ConnectError
            self.break_off(kind(self.terms.host, self.terms.port, text or "the broker closed it without a reason"))
            return
        self.break_off(ConnectionClosed(code or None, text or "the broker closed it without a reason"))

    # Links

    @override
    def new_publisher(self, terms: PublisherTerms) -> Publisher10:
        return Publisher10(self.sessions, terms)

    @override
    def new_receiver(self, terms: ReceiverTerms) -> Receiver10:
        return Receiver10(self.sessions, terms)

    @override
    def requester(self, exchange: str, key: str) -> Requester:
        return Requester10(self.sessions, exchange, key)

    # Requests

    @override
    def check_declares(self, name: str) -> None:
        rabbitmq = self.server.get("product") == RABBITMQ and not is_rabbitmq_3(self.server)
        if not rabbitmq and not self.is_penstock():
            raise ClientError(
                f"{self.broker_name()} has no service for {name} over AMQP 1.0, as Penstock and RabbitMQ 4 have; "
                f"use its own tools, or protocol=amqp091 if it speaks that"
            )

    @override
    def call(self, name: str, arguments: dict[str, Any]) -> Call:
        call = Call(name)
        self.calls.append(call)
        if self.management is None or self.management.is_over:
            self.management = Management(self.sessions)
        self.management.declare(call, name, arguments)
        return call

    @override
    def send_request(self, operation: str, kind: str, body: bytes, number: str) -> None:
        if self.control is None or self.control.is_over:
            self.control = Control(self.sessions)
        self.control.add(Request(number, operation, "", None, kind, body))

    @override
    def is_sent(self, call: Call) -> bool:
        control = self.control
        return control is None or all(request.number != call.number for request in control.waiting)


def _error_of(performative: Composite) -> tuple[str, str]:
    """Return the condition and the description of the error in a performative; empty without one."""
    error = performative.inner("error")
    if error is None:
        return "", ""
    condition = error.text("condition")
    return condition, error.text("description") or condition
