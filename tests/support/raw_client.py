"""A client made of a bare socket: it says what it is told to say, right or wrong, and shows each frame that comes back.

Frames are made and read with pamqp, which shares nothing with Penstock; what pamqp refuses to make is made by hand.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from pamqp import base, commands, common, frame, header

from penstock import Broker
from tests.support.brokers import PATIENCE, BrokerProcess

F = TypeVar("F", bound=base.Frame)
Where = BrokerProcess | Broker | tuple[str, int]
"""A broker to connect to, or its host and port."""

METHOD, HEADER, BODY, HEARTBEAT, END = 1, 2, 3, 8, 0xCE
GREETING = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {"consumer_cancel_notify": True, "connection.blocked": True, "authentication_failure_close": True}
FRAME_MAX = 131072
SAID_OCTETS = 256 * 1024


class GoneError(Exception):
    """The broker has closed the socket."""


def raw_frame(kind: int, channel: int, payload: bytes, end: int = END, size: int | None = None) -> bytes:
    """Return a frame, wrong in whatever way is asked for."""
    return struct.pack(">BHI", kind, channel, len(payload) if size is None else size) + payload + bytes([end])


def method_frame(channel: int, method: base.Frame) -> bytes:
    return frame.marshal(method, channel)


def publish_frames(
    channel: int, exchange: str, key: str, body: bytes, properties: dict[str, Any] | None = None, most: int = FRAME_MAX
) -> bytes:
    """Return all frames of one publish."""
    content = header.ContentHeader(0, len(body), commands.Basic.Properties(**(properties or {})))
    parts = [
        frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), channel),
        frame.marshal(content, channel),
    ]
    parts += [raw_frame(BODY, channel, body[at : at + most - 8]) for at in range(0, len(body), most - 8)]
    return b"".join(parts)


def numbered_publishes(channel: int, queue: str, count: int) -> bytes:
    """Return the frames of so many publishes to a queue: 0, 1, 2 ..."""
    return b"".join(publish_frames(channel, "", queue, b"%d" % number) for number in range(count))


class Peer:
    """One socket. All reading is bounded by `PATIENCE`."""

    def __init__(self, broker: Where) -> None:
        if isinstance(broker, tuple):
            address = broker
        else:
            address = broker.addresses[0] if isinstance(broker, Broker) else (broker.host, broker.port)
        self.socket = socket.create_connection(address, PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        self.tune = commands.Connection.Tune()

    # Saying

    def say(self, data: bytes) -> None:
        """Send octets as they are. A part of them may take `PATIENCE`, not all: the broker may have to read a flood."""
        for at in range(0, len(data), SAID_OCTETS):
            self.socket.settimeout(PATIENCE)
            self.socket.sendall(data[at : at + SAID_OCTETS])

    def send(self, channel: int, *methods: base.Frame) -> None:
        self.say(b"".join(method_frame(channel, method) for method in methods))

    # Hearing

    def read_frame(self, timeout: float = PATIENCE) -> tuple[int, int, bytes]:
        """Return kind, channel and payload of the next frame. Raises GoneError, or TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            if len(self.data) >= 8:
                kind, channel, size = struct.unpack(">BHI", self.data[:7])
                if len(self.data) >= size + 8:
                    assert self.data[size + 7] == END
                    payload, self.data = self.data[7 : size + 7], self.data[size + 8 :]
                    return kind, channel, payload
            self._fill(deadline)

    def _fill(self, deadline: float) -> None:
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            raise GoneError
        self.data += data

    def read_method(self, timeout: float = PATIENCE) -> tuple[int, base.Frame]:
        """Return the next method with its channel; heartbeats are passed over, content is not expected."""
        while True:
            kind, channel, payload = self.read_frame(timeout)
            if kind == HEARTBEAT:
                continue
            assert kind == METHOD, f"a frame of type {kind} with {payload[:40]!r}"
            method = frame.unmarshal(raw_frame(kind, channel, payload))[2]
            assert isinstance(method, base.Frame)
            return channel, method

    def expect(self, channel: int, method: type[F], timeout: float = PATIENCE) -> F:
        """Return the next method, which must be this one on this channel."""
        number, found = self.read_method(timeout)
        assert isinstance(found, method), f"{method.name} expected, {describe(found)} came"
        assert number == channel
        return found

    def ask(self, channel: int, method: base.Frame, answer: type[F]) -> F:
        self.send(channel, method)
        return self.expect(channel, answer)

    def is_closed(self, timeout: float = PATIENCE) -> bool:
        """Tell whether the broker closes the socket in time; frames that still come are dropped."""
        try:
            while True:
                self.read_frame(timeout)
        except GoneError:
            return True
        except TimeoutError:
            return False

    # Beginning and ending

    def greet(self) -> commands.Connection.Start:
        self.say(GREETING)
        return self.expect(0, commands.Connection.Start)

    def log_in(self, user: str = "guest", password: str = "guest", properties: dict[str, Any] | None = None) -> None:
        self.greet()
        client = {"product": "bare socket", "capabilities": CAPABILITIES} if properties is None else properties
        answer = f"\0{user}\0{password}"
        self.send(0, commands.Connection.StartOk(client, "PLAIN", answer, "en_US"))

    def open(
        self, frame_max: int = FRAME_MAX, channel_max: int = 2047, heartbeat: int = 0, vhost: str = "/", **login: Any
    ) -> Peer:
        """Go through the whole negotiation."""
        self.log_in(**login)
        self.tune = self.expect(0, commands.Connection.Tune)
        self.send(0, commands.Connection.TuneOk(channel_max, frame_max, heartbeat))
        self.ask(0, commands.Connection.Open(vhost), commands.Connection.OpenOk)
        return self

    def channel(self, number: int = 1) -> int:
        self.ask(number, commands.Channel.Open(), commands.Channel.OpenOk)
        return number

    def declare(self, queue: str = "", channel: int = 1, **arguments: common.FieldValue) -> str:
        """Declare an exclusive queue."""
        declared = self.ask(
            channel, commands.Queue.Declare(queue=queue, exclusive=True, arguments=arguments), commands.Queue.DeclareOk
        )
        assert declared.queue
        return declared.queue

    def declare_shared(self, queue: str, channel: int = 1, **arguments: object) -> None:
        """Declare a queue that outlives the connection; arguments with underscores or hyphens."""
        table: Any = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.ask(channel, commands.Queue.Declare(queue=queue, arguments=table), commands.Queue.DeclareOk)

    def confirm(self, channel: int = 1) -> int:
        """Select confirms on a channel that is open; return its number."""
        self.ask(channel, commands.Confirm.Select(), commands.Confirm.SelectOk)
        return channel

    def depth(self, queue: str, channel: int = 1) -> int:
        """Return how many messages of a queue could be delivered now."""
        found = self.ask(channel, commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk)
        assert found.message_count is not None
        return found.message_count

    def answer(self, channel: int = 1) -> base.Frame:
        """Return the next method that is no notice of the connection; it must be on this channel."""
        number, found = self.read_method()
        while isinstance(found, commands.Connection.Blocked | commands.Connection.Unblocked):
            number, found = self.read_method()
        assert number == channel
        return found

    def get(self, queue: str, channel: int = 1, no_ack: bool = True) -> tuple[int, bytes]:
        """Get a message that must be there and is one frame; return its delivery tag and its body."""
        self.send(channel, commands.Basic.Get(queue=queue, no_ack=no_ack))
        got = self.answer(channel)
        assert isinstance(got, commands.Basic.GetOk)
        assert self.read_frame()[0] == HEADER
        return got.delivery_tag, self.read_frame()[2]

    def control(self, operation: str, **fields: object) -> dict[str, object]:
        """Carry out a control operation on channel 2, which is open; nothing else may come before its answer."""
        answers = self.declare(channel=2)
        body = json.dumps(fields).encode()
        self.say(publish_frames(2, "penstock.control", operation, body, {"reply_to": answers}))
        self.ask(2, commands.Basic.Get(queue=answers, no_ack=True), commands.Basic.GetOk)
        self.read_frame()
        found: dict[str, object] = json.loads(self.read_frame()[2])
        return found

    def consume(self, queue: str, tag: str, channel: int = 1, **how: Any) -> None:
        """Begin to consume from a queue under a tag."""
        self.ask(channel, commands.Basic.Consume(queue=queue, consumer_tag=tag, **how), commands.Basic.ConsumeOk)

    def put(self, queue: str, count: int) -> None:
        """Publish 0, 1, 2 ... to a queue on channel 1."""
        self.say(numbered_publishes(1, queue, count))

    def content(self) -> tuple[commands.Basic.Properties, bytes]:
        """Return properties and body of the message that must come next, behind its method."""
        kind, _, payload = self.read_frame()
        assert kind == HEADER
        found = header.ContentHeader()
        found.unmarshal(payload)
        body = b""
        while len(body) < found.body_size:
            kind, _, piece = self.read_frame()
            assert kind == BODY
            body += piece
        return found.properties, body

    def counts(self, queue: str) -> tuple[int, int]:
        """Return how many messages and consumers a queue has."""
        found = self.ask(1, commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk)
        return found.message_count or 0, found.consumer_count or 0

    def is_well(self, channel: int = 1) -> bool:
        """Tell whether the connection still answers on a channel."""
        self.ask(channel, commands.Basic.Qos(prefetch_count=0), commands.Basic.QosOk)
        return True

    def close_of(self, channel: int) -> tuple[int, str, int]:
        """Return code, text and method of the close that must come next; it is not answered."""
        close = self.expect(channel, commands.Channel.Close if channel else commands.Connection.Close)
        return close.reply_code or 0, close.reply_text or "", (close.class_id or 0) << 16 | (close.method_id or 0)

    def refused(self, channel: int, timeout: float = PATIENCE) -> tuple[int, str]:
        """Return code and text of the close that must come next: of the connection for channel 0; answer it."""
        if channel == 0:
            close = self.expect(0, commands.Connection.Close, timeout)
            with suppress(ConnectionError):  # The broker waits for it for three seconds.
                self.send(0, commands.Connection.CloseOk())
            assert self.is_closed()
            return close.reply_code or 0, close.reply_text or ""
        closed = self.expect(channel, commands.Channel.Close, timeout)
        self.send(channel, commands.Channel.CloseOk())
        return closed.reply_code or 0, closed.reply_text or ""

    def close(self) -> None:
        self.socket.close()


def describe(method: base.Frame) -> str:
    return f"{method.name} {dict(method)}"


@contextmanager
def peer_of(broker: Where) -> Iterator[Peer]:
    """A socket that is connected and nothing more."""
    peer = Peer(broker)
    try:
        yield peer
    finally:
        peer.close()


@contextmanager
def open_peer(broker: Where, **how: Any) -> Iterator[Peer]:
    """A connection that is open, with channel 1."""
    with peer_of(broker) as peer:
        peer.open(**how)
        peer.channel(1)
        yield peer
