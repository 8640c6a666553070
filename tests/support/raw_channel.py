"""AMQP 0-9-1 as it is: frames of channels that a test opens itself, where `penstock.sync` would decide too much.

A publish waits for nothing and its confirms are counted; a call waits for its answer, and so for all that was said
before. Reading and writing go on at the same time, for the broker may read nothing from a producer.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple, Self, cast

from penstock.client.calls import explain
from penstock.client.errors import (
    FIRST_STEP,
    ChannelClosed,
    ConnectError,
    ConnectionClosed,
    LoginRefused,
    Timeout,
    why_closed,
)
from penstock.client.options import Options
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import decode_properties, encode_header
from penstock.wire.sasl import plain_response

METHODS = {method.name: number for number, method in spec.METHODS.items()}
CAPABILITIES = {
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
    "publisher_confirms": True,
    "authentication_failure_close": True,
}
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
PATIENCE = 30.0
"""Seconds that an answer is waited for."""


class Delivery(NamedTuple):
    """Message that has come."""

    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    properties: Properties
    body: bytes


class Confirms:
    """Answers to the publishes of a channel."""

    def __init__(self) -> None:
        self.published = 0
        self.acked = 0
        self.nacked_count = 0
        self._open: list[int] = []

    @property
    def outstanding(self) -> int:
        return len(self._open)

    def add(self) -> None:
        self.published += 1
        self._open.append(self.published)

    def settle(self, tag: int, multiple: bool, positive: bool) -> None:
        settled = [each for each in self._open if each == tag or (multiple and (tag == 0 or each <= tag))]
        self._open = [each for each in self._open if each not in settled]
        if positive:
            self.acked += len(settled)
        else:
            self.nacked_count += len(settled)


class Connection:
    """Connection of one thread. Raises `ConnectError` and its kinds as `penstock.sync.connect` does."""

    def __init__(self, url: str, **keywords: object) -> None:
        self.options = Options(url, keywords)
        self.closed: ConnectionClosed | None = None
        self.blocked: str | None = None
        self.server_properties: dict[str, object] = {}
        self.frame_max = 131_072
        self.out = bytearray()
        self._rest = b""
        self._channels: dict[int, Channel] = {}
        self._open = False
        self._step = FIRST_STEP
        address = self.options.hosts[0]
        try:
            self._socket = socket.create_connection(address, PATIENCE)
            if self.options.tls is not None:
                self._socket = self.options.tls.wrap_socket(self._socket, server_hostname=address.host)
        except OSError as error:
            raise explain(address, error, PATIENCE) from error
        self._socket.setblocking(False)
        try:
            self.send(spec.PROTOCOL_HEADER)
            self.wait_for(lambda: self._open, "connection.open-ok")
        except ConnectionClosed as error:
            self._socket.close()
            kind = LoginRefused if error.code in (403, 530) else ConnectError
            encrypted = self.options.tls is not None
            text = why_closed(self.options.user, self._step, error.code, error.text, is_encrypted=encrypted)
            raise kind(*address, text) from None
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection in order, and the socket."""
        if self.closed is None:
            with contextlib.suppress(ConnectionClosed, Timeout):
                self.send(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="goodbye"))
                self.wait_for(lambda: False, "connection.close-ok", 5)
            self.closed = ConnectionClosed(None, "the client closed it")
        self._socket.close()

    def channel(self) -> Channel:
        """Open a channel."""
        number = 1 + max(self._channels, default=0)
        found = self._channels[number] = Channel(self, number)
        found.call("channel.open")
        return found

    def send(self, data: bytes) -> None:
        """Send octets, as many as the broker takes now; the rest goes with what is said or waited for next."""
        self.out += data
        self.turn(0)

    def wait_for(self, happened: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """Read until `happened()`. Raises `Timeout`, and `ConnectionClosed` when the connection ends before."""
        deadline = monotonic() + timeout
        while not happened():
            if self.closed is not None:
                raise self.closed
            if monotonic() >= deadline:
                raise Timeout(f"no {what} within {timeout:g} s")
            self.turn(deadline - monotonic())

    def turn(self, timeout: float) -> None:
        """Write and read what is possible, waiting at most so many seconds."""
        if self.closed is not None:
            raise self.closed
        pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
        select.select([self._socket], [self._socket] if self.out else [], [], 0 if pending else max(timeout, 0))
        with contextlib.suppress(*NOT_NOW, ConnectionError):  # What is broken is told by the next read.
            while self.out:
                del self.out[: self._socket.send(self.out)]
        try:
            data = self._socket.recv(1 << 18)
        except NOT_NOW:
            return
        except OSError as error:
            data, reason = b"", str(error)
        else:
            reason = "the broker closed it without a reason"
        if not data:
            self.closed = self.closed or ConnectionClosed(None, reason)
            self._socket.close()
            return
        data = self._rest + data
        if self._step == FIRST_STEP and data[:1] != b"\x01":
            self.closed = ConnectionClosed(None, f"it answers {data[:8]!r}")
            self._socket.close()
            return
        while len(data) >= 7 and len(data) >= (end := 8 + int.from_bytes(data[3:7], "big")):
            number, payload = int.from_bytes(data[1:3], "big"), data[7 : end - 1]
            if number == 0:
                self._take(data[0], payload)
            elif number in self._channels:
                self._channels[number].take(data[0], payload)
            data = data[end:]
        self._rest = data

    def _own_name(self) -> dict[str, object]:
        """Return the client's name for the connection, if it has one."""
        name = self.options.values["name"]
        return {"connection_name": name} if name else {}

    def _take(self, kind: int, payload: bytes) -> None:
        if kind != spec.FRAME_METHOD:
            return
        method = decode_method(payload)
        name, args = spec.METHODS[method.id].name, method.args
        if name == "connection.start":
            self.server_properties = cast("dict[str, object]", args["server_properties"])
            self._step = f"an answer to the credentials of {self.options.user}"
            self.out += method_frame(
                0, spec.CONNECTION_START_OK, mechanism="PLAIN", locale="en_US",
                client_properties={"product": "a test", "capabilities": CAPABILITIES, **self._own_name()},
                response=plain_response(self.options.user, self.options.password),
            )  # fmt: skip
        elif name == "connection.tune":
            self.frame_max = cast(int, args["frame_max"]) or self.frame_max
            self._step = f"the virtual host {self.options.virtual_host}"
            limits = {"channel_max": args["channel_max"], "frame_max": self.frame_max, "heartbeat": 0}
            self.out += method_frame(0, spec.CONNECTION_TUNE_OK, **limits)
            self.out += method_frame(0, spec.CONNECTION_OPEN, virtual_host=self.options.virtual_host)
        elif name == "connection.open-ok":
            self._open = True
        elif name == "connection.blocked":
            self.blocked = str(args["reason"])
        elif name == "connection.unblocked":
            self.blocked = None
        elif name == "connection.close":
            self.out += method_frame(0, spec.CONNECTION_CLOSE_OK)
            with contextlib.suppress(OSError):
                self._socket.send(self.out)
            self.closed = ConnectionClosed(cast(int, args["reply_code"]), str(args["reply_text"]))
            self._socket.close()
        elif name == "connection.close-ok":
            self.closed = ConnectionClosed(None, "the client closed it")


class Channel:
    """Channel. Raises `ChannelClosed` when the broker closes it."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.closed: ChannelClosed | None = None
        self.confirms: Confirms | None = None
        self.deliveries: deque[Delivery] = deque()
        self._answers: deque[Method] = deque()
        self._content: Method | None = None
        self._size = 0
        self._properties = Properties()
        self._body = bytearray()

    def call(self, name: str, **args: object) -> dict[str, Any]:
        """Call a method, and return the arguments of its answer."""
        self.write(name, **args)
        self.connection.wait_for(lambda: bool(self._answers) or self.closed is not None, f"answer to {name}")
        if self.closed is not None:
            raise ChannelClosed(self.closed.code, self.closed.text)
        return dict(self._answers.popleft().args)

    def write(self, name: str, **args: object) -> None:
        """Send a method."""
        if self.closed is not None:
            raise ChannelClosed(self.closed.code, self.closed.text)
        given = {name: value for name, value in args.items() if value is not None}
        self.connection.send(method_frame(self.number, METHODS[name], **given))

    def queue_declare(self, queue: str = "", **args: object) -> tuple[str, int, int]:
        """Declare a queue; return its name, its ready messages and its consumers."""
        found = self.call("queue.declare", queue=queue, **args)
        return found["queue"], found["message_count"], found["consumer_count"]

    def queue_delete(self, queue: str) -> None:
        self.call("queue.delete", queue=queue)

    def queue_purge(self, queue: str) -> int:
        return int(self.call("queue.purge", queue=queue)["message_count"])

    def queue_bind(self, queue: str, exchange: str, routing_key: str = "", **args: object) -> None:
        self.call("queue.bind", queue=queue, exchange=exchange, routing_key=routing_key, **args)

    def queue_unbind(self, queue: str, exchange: str, routing_key: str = "", **args: object) -> None:
        self.call("queue.unbind", queue=queue, exchange=exchange, routing_key=routing_key, **args)

    def exchange_declare(self, exchange: str, type: str = "direct", **args: object) -> None:
        self.call("exchange.declare", exchange=exchange, type=type, **args)

    def exchange_delete(self, exchange: str) -> None:
        self.call("exchange.delete", exchange=exchange)

    def qos(self, prefetch_count: int) -> None:
        self.call("basic.qos", prefetch_count=prefetch_count)

    def confirm_select(self) -> Confirms:
        self.call("confirm.select")
        self.confirms = Confirms()
        return self.confirms

    def consume(self, queue: str, **args: object) -> str:
        return str(self.call("basic.consume", queue=queue, **args)["consumer_tag"])

    def get(self, queue: str, *, no_ack: bool = False) -> Delivery | None:
        """Take a message; None without one."""
        found = self.call("basic.get", queue=queue, no_ack=no_ack)
        return self.deliveries.pop() if "delivery_tag" in found else None

    def receive(self, timeout: float) -> Delivery | None:
        """Return the next message; None after `timeout` seconds."""
        with contextlib.suppress(Timeout):
            self.connection.wait_for(lambda: bool(self.deliveries), "message", timeout)
        return self.deliveries.popleft() if self.deliveries else None

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self.write("basic.ack", delivery_tag=delivery_tag, multiple=multiple)

    def publish(
        self, body: bytes, *, exchange: str = "", routing_key: str = "", properties: Properties | None = None
    ) -> None:
        """Send a message, and wait for nothing."""
        if self.confirms is not None:
            self.confirms.add()
        self.write("basic.publish", exchange=exchange, routing_key=routing_key)
        header = encode_header(len(body), properties or Properties())
        step = self.connection.frame_max - spec.FRAME_OVERHEAD
        pieces = [frame(spec.FRAME_BODY, self.number, body[at : at + step]) for at in range(0, len(body), step)]
        self.connection.send(frame(spec.FRAME_HEADER, self.number, header) + b"".join(pieces))

    def close(self) -> None:
        self.call("channel.close", reply_code=200, reply_text="goodbye")
        self.closed = ChannelClosed(None, "the client closed it")

    def take(self, kind: int, payload: bytes) -> None:
        """Take a frame."""
        if kind == spec.FRAME_METHOD:
            self._take_method(decode_method(payload))
            return
        if kind == spec.FRAME_HEADER:
            self._size, self._properties = decode_properties(payload)
        else:
            self._body += payload
        if len(self._body) == self._size:
            self._take_message()

    def _take_method(self, method: Method) -> None:
        args = method.args
        if method.id in (spec.BASIC_ACK, spec.BASIC_NACK) and self.confirms is not None:
            tag = cast(int, args["delivery_tag"])
            self.confirms.settle(tag, args["multiple"] is True, method.id == spec.BASIC_ACK)
        elif method.id in (spec.BASIC_DELIVER, spec.BASIC_GET_OK, spec.BASIC_RETURN):
            self._content = method
        elif method.id == spec.CHANNEL_CLOSE:
            self.closed = ChannelClosed(cast(int, args["reply_code"]), str(args["reply_text"]))
            self.connection.out += method_frame(self.number, spec.CHANNEL_CLOSE_OK)
        elif method.id == spec.CHANNEL_FLOW:
            self.connection.out += method_frame(self.number, spec.CHANNEL_FLOW_OK, active=args["active"])
        elif method.id != spec.BASIC_CANCEL:
            self._answers.append(method)

    def _take_message(self) -> None:
        method, body = self._content, bytes(self._body)
        self._body.clear()
        if method.id == spec.BASIC_RETURN:
            return
        args = method.args
        tag, redelivered = cast(int, args["delivery_tag"]), args["redelivered"] is True
        self.deliveries.append(Delivery(str(args.get("consumer_tag", "")), tag, redelivered, self._properties, body))
        if method.id == spec.BASIC_GET_OK:
            self._answers.append(method)
