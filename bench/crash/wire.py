"""A blocking AMQP 0-9-1 connection with one channel, that pipelines and knows exactly what it was told, and when.

What it publishes it numbers as the broker does; confirmations and deliveries are handed on in the order in which they
came. Everything that the broker had written before it died is still read.
"""

import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import decode_properties, encode_header
from penstock.wire.sasl import plain_response

PATIENCE_S = 60.0
"""Seconds of silence after which a broker that is not dead counts as one that does not answer."""
CHANNEL = 1
FORCED = 320
"""The code of a connection.close by a broker that is told to stop (connection-forced)."""


class Address(NamedTuple):
    """Place that clients connect to: a port of 127.0.0.1, and a virtual host there."""

    port: int
    vhost: str = "/"


class Gone(Exception):
    """The connection has ended: the broker's code and text, or None and what the socket said."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(f"{code} {text}" if code else text)
        self.code = code


class Refused(Exception):
    """The broker closed the channel, with this code and text; `BrokerLink.reopen` opens another."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class Delivery(NamedTuple):
    """A message that came."""

    tag: int
    redelivered: bool
    properties: Properties
    body: bytes


class Link:
    """A connection to 127.0.0.1; every call may raise Gone or Refused."""

    def __init__(self, address: Address) -> None:
        self.deliveries: deque[Delivery] = deque()
        """What came for consumers and basic.get, and nobody has taken yet."""
        self.returned = 0
        """Mandatory messages that came back."""
        self.published = 0
        """The number of the last message that was published in confirm mode."""
        self.on_confirm: Callable[[int, bool, bool], None] | None = None
        """Called with number, multiple, and whether it was confirmed (true) or refused."""
        self._answers: deque[Method] = deque()
        self._out = bytearray()
        self._rest = b""
        self._method: Method | None = None
        self._properties = Properties()
        self._left = 0
        self._body: list[bytes] = []
        self._closed: Refused | None = None
        self._vhost = address.vhost
        try:
            self._socket = socket.create_connection(("127.0.0.1", address.port), PATIENCE_S)
        except OSError as error:
            raise Gone(None, str(error)) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._open()
        except BaseException:
            self.abort()
            raise

    def _open(self) -> None:
        self._out += b"AMQP\x00\x00\x09\x01"
        self._answer()
        tune = self._ask(
            0,
            spec.CONNECTION_START_OK,
            client_properties={
                "product": "crash test",
                "capabilities": {"basic.nack": True, "consumer_cancel_notify": True},
            },
            mechanism="PLAIN",
            response=plain_response("guest", "guest"),
            locale="en_US",
        )
        self._frame_max = int(str(tune.args["frame_max"]))
        self._out += method_frame(
            0,
            spec.CONNECTION_TUNE_OK,
            channel_max=int(str(tune.args["channel_max"])),
            frame_max=self._frame_max,
            heartbeat=0,
        )
        self._ask(0, spec.CONNECTION_OPEN, virtual_host=self._vhost)
        self.ask(spec.CHANNEL_OPEN)

    def reopen(self) -> None:
        """Open the channel again that the broker has closed."""
        self._closed = None
        self.ask(spec.CHANNEL_OPEN)

    # -- what is sent ------------------------------------------------------------------------------------------------

    def ask(self, method: int, **args: Any) -> Method:
        """Send what is to be sent, then a method, and wait for its answer."""
        return self._ask(CHANNEL, method, **args)

    def _ask(self, channel: int, method: int, **args: Any) -> Method:
        self._out += method_frame(channel, method, **args)
        return self._answer()

    def _answer(self) -> Method:
        self.flush()
        while not self._answers:
            self.read()
        return self._answers.popleft()

    def say(self, method: int, **args: Any) -> None:
        """Note a method that has no answer; `flush` sends it."""
        self._out += method_frame(CHANNEL, method, **args)

    def publish(
        self, exchange: str, routing_key: str, properties: Properties, body: bytes, *, mandatory: bool = False
    ) -> int:
        """Note a message to be sent; returns its number."""
        self.published += 1
        out = self._out
        out += method_frame(
            CHANNEL, spec.BASIC_PUBLISH, exchange=exchange, routing_key=routing_key, mandatory=mandatory
        )
        out += frame(spec.FRAME_HEADER, CHANNEL, encode_header(len(body), properties))
        step = self._frame_max - spec.FRAME_OVERHEAD
        for start in range(0, len(body), step):
            out += frame(spec.FRAME_BODY, CHANNEL, body[start : start + step])
        return self.published

    @property
    def unsent(self) -> int:
        """How many octets wait for `flush`."""
        return len(self._out)

    def flush(self) -> None:
        """Send what is to be sent."""
        out, self._out = self._out, bytearray()
        if out:
            try:
                self._socket.sendall(out)
            except OSError as error:
                self._read_the_rest()
                raise Gone(None, str(error)) from None

    def abort(self) -> None:
        """Let go of the connection without a word."""
        self._socket.close()

    def close(self) -> None:
        """Close channel and connection, so that what was not acknowledged is back in its queue."""
        self.ask(spec.CHANNEL_CLOSE, reply_code=200, reply_text="done")
        self._ask(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="done")
        self.abort()

    # -- what comes --------------------------------------------------------------------------------------------------

    def read(self, timeout: float | None = None) -> None:
        """Take what is there, waiting for it if need be: at most `timeout` seconds, or until the patience is out."""
        if timeout is not None and not select.select([self._socket], [], [], timeout)[0]:
            return
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError:
            raise Gone(None, f"it has said nothing for {PATIENCE_S:g} s") from None
        except OSError as error:
            raise Gone(None, str(error)) from None
        if not data:
            raise Gone(None, "the connection was lost")
        self._take(data)
        if self._closed is not None:
            raise self._closed

    def _read_the_rest(self) -> None:
        """Sending has failed: what was said before counts none the less, be it the reason."""
        while True:
            self.read(0.0)
            if not select.select([self._socket], [], [], 0.0)[0]:
                return

    def _take(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        while size - at >= 8:
            end = at + 8 + int.from_bytes(data[at + 3 : at + 7], "big")
            if end > size:
                break
            self._frame(data[at], data[at + 7 : end - 1])
            at = end
        self._rest = data[at:]

    def _frame(self, kind: int, payload: bytes) -> None:
        if kind == spec.FRAME_METHOD:
            self._take_method(payload)
        elif kind == spec.FRAME_HEADER:
            self._left, self._properties = decode_properties(payload)
            self._body = []
            self._take_message()
        elif kind == spec.FRAME_BODY:
            self._body.append(payload)
            self._left -= len(payload)
            self._take_message()

    def _take_message(self) -> None:
        method = self._method
        if self._left or method is None:
            return
        self._method = None
        if method.id == spec.BASIC_RETURN:
            self.returned += 1
            return
        tag, redelivered = int(str(method.args["delivery_tag"])), bool(method.args["redelivered"])
        self.deliveries.append(Delivery(tag, redelivered, self._properties, b"".join(self._body)))
        if method.id == spec.BASIC_GET_OK:
            self._answers.append(method)

    def _take_method(self, payload: bytes) -> None:
        id_ = int.from_bytes(payload[:4], "big")
        if id_ in (spec.BASIC_ACK, spec.BASIC_NACK):
            if self.on_confirm is not None:
                self.on_confirm(int.from_bytes(payload[4:12], "big"), payload[12] & 1 == 1, id_ == spec.BASIC_ACK)
            return
        method = decode_method(payload)
        if id_ in (spec.BASIC_DELIVER, spec.BASIC_GET_OK, spec.BASIC_RETURN):
            self._method = method
        elif id_ == spec.CHANNEL_CLOSE:
            self._closed = Refused(int(str(method.args["reply_code"])), str(method.args["reply_text"]))
            self._out += method_frame(CHANNEL, spec.CHANNEL_CLOSE_OK)
        elif id_ == spec.CONNECTION_CLOSE:
            raise Gone(int(str(method.args["reply_code"])), str(method.args["reply_text"]))
        elif id_ not in (spec.CONNECTION_BLOCKED, spec.CONNECTION_UNBLOCKED, spec.BASIC_CANCEL):
            self._answers.append(method)
