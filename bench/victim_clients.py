"""What the experiments of `bench.victim` share: a connection by hand, frames, and the broker where they run."""

import socket
import subprocess
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.sasl import plain_response

LIMIT_S = 120.0


class Client:
    """A connection by hand: it sends what it likes, and reads what comes in a thread."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(LIMIT_S)
        self.received = 0
        login = plain_response("guest", "guest")
        self.socket.sendall(
            b"AMQP\0\0\x09\x01"
            + method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=login)
            + method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=2047, frame_max=131072)
            + method_frame(0, spec.CONNECTION_OPEN, virtual_host="/")
            + method_frame(1, spec.CHANNEL_OPEN)
        )
        self._answered = threading.Event()
        self._asked = 1
        """The channel whose opening was asked for last: the answer comes when what was sent before is done."""
        threading.Thread(target=self._read, daemon=True).start()
        self.finish()

    def _read(self) -> None:
        """Read until the end."""
        tail = b""
        with suppress(OSError):
            while data := self.socket.recv(1 << 18):
                self.received += len(data)
                answer = method_frame(self._asked, spec.CHANNEL_OPEN_OK)
                if answer in tail + data:
                    self._answered.set()
                tail = (tail + data)[1 - len(answer) :]
        self._answered.set()

    def send(self, data: bytes) -> None:
        """Send octets; a connection that the broker has closed is no error."""
        with suppress(OSError):
            self.socket.sendall(data)

    def finish(self) -> None:
        """Wait until everything that was sent has been acted on, or the broker has closed the connection."""
        self._answered.clear()
        self._asked += 1
        self.send(method_frame(self._asked, spec.CHANNEL_OPEN))
        self._answered.wait(LIMIT_S)

    def ask(self, data: bytes) -> None:
        """Send octets, and wait until they have been acted on."""
        self.send(data)
        self.finish()

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def publish(exchange: str, key: str, body: bytes = b"x", channel: int = 1, **properties: object) -> bytes:
    """Return the frames of a publish."""
    frames = [
        method_frame(channel, spec.BASIC_PUBLISH, exchange=exchange, routing_key=key),
        frame(spec.FRAME_HEADER, channel, encode_header(len(body), Properties(**properties))),  # type: ignore[arg-type]
    ]
    frames += [frame(spec.FRAME_BODY, channel, body[start : start + 131064]) for start in range(0, len(body), 131064)]
    return b"".join(frames)


def declare(queue: str, **arguments: object) -> bytes:
    """Return the frame that declares a queue."""
    return method_frame(1, spec.QUEUE_DECLARE, queue=queue, arguments=arguments, no_wait=True)


def exchange(name: str, kind: str) -> bytes:
    """Return the frame that declares an exchange."""
    return method_frame(1, spec.EXCHANGE_DECLARE, exchange=name, type=kind, no_wait=True)


def bind(queue: str, source: str, key: str = "", **arguments: object) -> bytes:
    """Return the frame that binds a queue."""
    return method_frame(
        1, spec.QUEUE_BIND, queue=queue, exchange=source, routing_key=key, arguments=arguments, no_wait=True
    )


def control(operation: str, body: bytes) -> bytes:
    """Return the frames of a request to the broker itself."""
    return publish("penstock.control", operation, body)


@dataclass
class Place:
    """Where the experiments run."""

    port: int
    http_port: int
    process: subprocess.Popen[str]
    config: Path
    closers: list[Callable[[], None]] = field(default_factory=list)
    """What closes the connections of the experiment."""

    def client(self) -> Client:
        """Return another connection; all are closed after the experiment."""
        client = Client(self.port)
        self.closers.append(client.close)
        return client

    def prepare(self, *frames: bytes) -> None:
        """Have something declared."""
        client = self.client()
        client.send(b"".join(frames))
        client.finish()

    def http(self, method: str, path: str, body: bytes | None = None) -> int:
        """Send a request to the HTTP API; return the status of the answer, 0 for none."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.http_port}/api/{path}", body, method=method)
        request.add_header("Authorization", "Basic " + b64encode(b"guest:guest").decode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                answer.read()
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def beside(self, count: int, act: Callable[[], object]) -> None:
        """Do something several times at once."""
        threads = [threading.Thread(target=act) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


Act = Callable[[], None]
Experiment = Callable[[Place], Act]
