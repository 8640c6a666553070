"""A relay between a client and the broker that writes down every method of both, and can say something of its own."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.support.brokers import BrokerProcess

Method = tuple[int, int]
"""Class and method."""

CONNECTION_START_OK = (10, 11)
CONNECTION_BLOCKED = (10, 60)
CONNECTION_UNBLOCKED = (10, 61)
CHANNEL_FLOW = (20, 20)
CHANNEL_FLOW_OK = (20, 21)
BASIC_PUBLISH = (60, 40)
BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)
GREETING_OCTETS = 8


class Stream:
    """What goes one way on one connection, whole frames at a time, so that others may be put between them."""

    def __init__(self, source: socket.socket, target: socket.socket, greeting: int) -> None:
        self._source = source
        self._target = target
        self._rest = b""
        self._greeting = greeting
        self._writing = threading.Lock()
        self.methods: list[tuple[Method, int, bytes]] = []
        """Method, channel and payload, in order; of publishes and deliveries the payload is left out."""

    def relay(self) -> None:
        with suppress(OSError):
            while data := self._source.recv(1 << 16):
                self.say(self._whole(data))
        with suppress(OSError):
            self._target.shutdown(socket.SHUT_WR)

    def say(self, frames: bytes) -> None:
        with self._writing:
            self._target.sendall(frames)

    def _whole(self, data: bytes) -> bytes:
        """Return what is complete with this, and note its methods."""
        data = self._rest + data
        at = min(self._greeting, len(data))
        self._greeting -= at
        while at + 7 <= len(data):
            kind, channel, size = struct.unpack_from(">BHI", data, at)
            if at + size + 8 > len(data):
                break
            if kind == 1:
                method = struct.unpack_from(">HH", data, at + 7)
                payload = b"" if method in (BASIC_PUBLISH, BASIC_DELIVER) else data[at + 7 : at + 7 + size]
                self.methods.append((method, channel, payload))
            at += size + 8
        self._rest = data[at:]
        return data[:at]


class Spy:
    """Listens on a port of its own; `url` is what a client is given."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._target = (broker.host, broker.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://guest:guest@127.0.0.1:{self._listener.getsockname()[1]}/"
        self.pairs: list[tuple[Stream, Stream]] = []
        """Of each connection what its client says, and what the broker says."""
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def methods(self) -> list[Method]:
        """Return class and method of everything the broker has sent, connection by connection."""
        return [method for _, broker in self.pairs for method, _, _ in broker.methods]

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            pair = (Stream(client, server, GREETING_OCTETS), Stream(server, client, 0))
            self.pairs.append(pair)
            for stream in pair:
                thread = threading.Thread(target=stream.relay)
                self._threads.append(thread)
                thread.start()


@contextmanager
def spying(broker: BrokerProcess) -> Iterator[Spy]:
    """Relay for as long as the context lasts."""
    spy = Spy(broker)
    try:
        yield spy
    finally:
        spy.close()
