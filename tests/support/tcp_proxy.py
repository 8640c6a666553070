"""A TCP proxy that loses connections when it is told to."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Passes octets between clients and one server; `cut` resets every connection that stands.

    With `loses_answer` set it ends the connection at the server's next answer instead of passing it on, once, and with
    `loses_request` at the client's next octets. With `swallows` set what clients send goes nowhere. With `down` set it
    takes no new connection, as if there were no server. `forget` drops what the present connections send from now on,
    one way or both ways, without a word and without an end, as a firewall does; new ones pass.
    """

    def __init__(self, server: str) -> None:
        host, port = server.split(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self.address = f"{self.host}:{self.port}"
        self._open: set[socket.socket] = set()
        self._clients: set[socket.socket] = set()
        self._forgotten: set[socket.socket] = set()
        """Sockets from which all that comes is dropped, and the end too."""
        self._lock = threading.Lock()
        self.accepted = self.refused = 0
        self.octets = [0, 0]
        """Octets passed on to the server, and to clients; exact for one connection at a time."""
        self.loses_answer = False
        self.loses_request = False
        self.swallows = False
        self.down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.down:
                    self.refused += 1
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                with self._lock:
                    self._open |= {client, server}
                    self._clients.add(client)
                    self.accepted += 1
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with suppress(OSError, ValueError):
            while True:
                for ready in select.select(list(other), [], [])[0]:
                    data = ready.recv(1 << 16)
                    if ready in self._forgotten:
                        if not data:  # The other side never hears of it.
                            del other[ready]
                        if not other:
                            return self._end(client, server)
                        continue
                    if ready is server and self.loses_answer:
                        self.loses_answer = False
                        data = b""
                    elif ready is client and self.loses_request:
                        self.loses_request = False
                        data = b""
                    if not data:
                        return self._end(client, server)
                    if ready is client and self.swallows:
                        continue
                    self.octets[ready is server] += len(data)
                    (server if ready is client else client).sendall(data)
        return self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        with self._lock:
            self._open -= set(sockets)
            self._clients -= set(sockets)
            self._forgotten -= set(sockets)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def cut(self) -> None:
        """Lose every connection."""
        with self._lock:
            standing = list(self._open)
        for each in standing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def forget(self, requests: bool = True, answers: bool = True) -> None:
        """Drop what clients send over the present connections, and what the server answers."""
        with self._lock:
            for each in self._open:
                if requests if each in self._clients else answers:
                    self._forgotten.add(each)

    def close(self) -> None:
        # A thread that waits in accept() is woken by shutdown, not by close.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


@contextmanager
def proxied(server: str) -> Iterator[Proxy]:
    """A proxy before `server`, for as long as the context lasts."""
    proxy = Proxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
