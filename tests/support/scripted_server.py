"""The far end of a connection, played by a test: a socket, the codec, and a script in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.client.options import Address
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header

PATIENCE = 60.0
"""Seconds until a script that waits in vain fails its test."""


class Peer:
    """What a script says and hears. Channel 1 is the first that a client opens."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.settimeout(PATIENCE)

    def hear(self, count: int) -> bytes:
        """Exactly `count` octets."""
        data = bytearray()
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError(f"the client hung up with {count - len(data)} octets due")
            data += part
        return bytes(data)

    def frame(self) -> tuple[int, int, bytes]:
        """The next frame: kind, channel, payload."""
        head = self.hear(7)
        payload = self.hear(int.from_bytes(head[3:7], "big"))
        assert self.hear(1) == b"\xce"
        return head[0], int.from_bytes(head[1:3], "big"), payload

    def expect(self, method_id: int) -> Method:
        """The next frame, which must be this method."""
        method = decode_method(self.frame()[2])
        assert method.id == method_id, method
        return method

    def say(self, method_id: int, channel: int = 1, **args: object) -> None:
        """Send a method."""
        self.socket.sendall(method_frame(channel, method_id, **args))

    def deliver(self, body: bytes, properties: Properties, consumer_tag: str = "c") -> None:
        """Send a message in one body frame."""
        self.socket.sendall(
            method_frame(1, spec.BASIC_DELIVER, consumer_tag=consumer_tag, delivery_tag=1)
            + frame(spec.FRAME_HEADER, 1, encode_header(len(body), properties))
            + frame(spec.FRAME_BODY, 1, body)
        )

    def greet(self, *, frame_max: int = 131072, channel_max: int = 0, mechanisms: bytes = b"PLAIN AMQPLAIN") -> Method:
        """The broker's part of a successful handshake; returns the client's tune-ok."""
        assert self.hear(8) == spec.PROTOCOL_HEADER
        self.say(spec.CONNECTION_START, 0, version_minor=9, mechanisms=mechanisms, locales=b"en_US")
        self.expect(spec.CONNECTION_START_OK)
        self.say(spec.CONNECTION_TUNE, 0, channel_max=channel_max, frame_max=frame_max, heartbeat=60)
        tuned = self.expect(spec.CONNECTION_TUNE_OK)
        self.expect(spec.CONNECTION_OPEN)
        self.say(spec.CONNECTION_OPEN_OK, 0)
        return tuned

    def open_channel(self, channel: int = 1) -> None:
        """Greet, and answer the first channel.open."""
        self.greet()
        self.expect(spec.CHANNEL_OPEN)
        self.say(spec.CHANNEL_OPEN_OK, channel)

    def hear_goodbye(self) -> None:
        """Read on until the client has said connection.close or hung up."""
        while True:
            try:
                kind, _, payload = self.frame()
            except (EOFError, ConnectionError):
                return
            if kind == spec.FRAME_METHOD and decode_method(payload).id == spec.CONNECTION_CLOSE:
                self.say(spec.CONNECTION_CLOSE_OK, 0)
                return


@contextmanager
def played(script: Callable[[Peer], None]) -> Iterator[Address]:
    """Where a client finds a peer that plays `script` for its first connection; fails if the script does."""
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)

        def play() -> None:
            try:
                sock, _ = listener.accept()
                with sock:
                    script(Peer(sock))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        try:
            yield Address("127.0.0.1", listener.getsockname()[1])
        finally:
            thread.join(PATIENCE)
    assert not thread.is_alive(), "the script waits for something that the client did not do"
    if failures:
        raise failures[0]
