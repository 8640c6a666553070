"""A relay between a client and the broker that writes down every method that the broker sends."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.brokers import BrokerProcess

CHANNEL_FLOW = (20, 20)
CONNECTION_BLOCKED = (10, 60)
CONNECTION_UNBLOCKED = (10, 61)
BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)


class Spy:
    """Listens on a port of its own; `url` is what a client is given."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._target = (broker.host, broker.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"amqp://guest:guest@127.0.0.1:{self._listener.getsockname()[1]}/"
        self._streams: list[bytearray] = []
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def methods(self) -> list[tuple[int, int]]:
        """Return class and method of everything the broker has sent, connection by connection."""
        return [method for stream in self._streams for method in _methods(bytes(stream))]

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
            stream = bytearray()
            self._streams.append(stream)
            self._sockets += [client, server]
            for source, target, record in ((client, server, None), (server, client, stream)):
                thread = threading.Thread(target=_relay, args=(source, target, record))
                self._threads.append(thread)
                thread.start()


def _relay(source: socket.socket, target: socket.socket, record: bytearray | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if record is not None:
                record += data
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _methods(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 7 <= len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        if kind == 1 and at + 11 <= len(data):
            yield struct.unpack_from(">HH", data, at + 7)
        at += size + 8


@contextmanager
def spying(broker: BrokerProcess) -> Iterator[Spy]:
    """Relay for as long as the context lasts."""
    spy = Spy(broker)
    try:
        yield spy
    finally:
        spy.close()
