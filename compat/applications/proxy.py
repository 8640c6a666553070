"""A TCP proxy before a broker: what a client sees of a broker that is killed, is away for a while and comes back."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

HOST = "127.0.0.1"


class Proxy:
    """Passes octets on in both directions, for as long as the context lasts."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        self._away = False
        self._lock = threading.Lock()
        self.accepted = 0
        """Connections that have been passed on so far."""

    @property
    def url(self) -> str:
        """The URL of the broker by this way, with the default user."""
        return f"amqp://guest:guest@{HOST}:{self._listener.getsockname()[1]}/%2f"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._listener.close()

    def leave(self) -> None:
        """Cut all connections without a word; new ones are closed at once until `come_back`."""
        with self._lock:
            self._away = True
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._sockets.clear()

    def come_back(self) -> None:
        """Take connections again."""
        with self._lock:
            self._away = False

    def cut(self) -> None:
        """Cut all connections without a word, and take new ones."""
        self.leave()
        self.come_back()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    if self._away:
                        client.close()
                        continue
                    broker = socket.create_connection((HOST, self._target))
                    self._sockets += [client, broker]
                    self.accepted += 1
                for source, target in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
