"""The brokers that are compared: one alone, and a node with two shards, with the same virtual hosts."""

import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path

from bench import processes
from bench.brokers import READY_SECONDS, Broker, BrokerUnavailable, PenstockNode, _read_line
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, method_frame
from penstock.wire.sasl import plain_response

ALONE, SHARDED = "alone", "shards"
SHARDS = 2
VHOSTS = ("/", "other")
"""Virtual hosts of both; a node has each in a shard of its own."""
PATIENCE_S = 60.0


class Served:
    """A broker that runs: its ports without and with TLS, and its processes."""

    def __init__(self, broker: Broker, secure: int, node: PenstockNode) -> None:
        self.broker = broker
        self.secure = secure
        """Port with TLS; 0 without."""
        self.node = node

    @property
    def port(self) -> int:
        """Port without TLS."""
        return self.broker.port

    def cpu_s(self) -> dict[int, float]:
        """Return the processor time of each process."""
        return {pid: cpu_s(pid) for pid in self.broker.pids()}


def cpu_s(pid: int) -> float:
    """Return the processor time of a process with all its threads, to the nanosecond; 0.0 if it has ended."""
    total = 0
    try:
        for task in (processes.PROC / str(pid) / "task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    except OSError:
        return 0.0
    return total / 1e9


def spent(before: dict[int, float], after: dict[int, float]) -> float:
    """Return the processor time of all processes between two readings."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def start(kind: str, form: str, scratch: Path, stack: ExitStack, settings: str = "") -> Served:
    """Start a broker, alone or with shards, until the stack unwinds. Raises BrokerUnavailable.

    `settings` are tables of the settings file, after that of the broker.
    """
    folder = scratch / f"{kind}-{len(list(scratch.iterdir()))}"
    folder.mkdir()
    config = folder / "penstock.toml"
    names = ", ".join(f'"{vhost}"' for vhost in VHOSTS)
    config.write_text(f"[broker]\nvhosts = [{names}]\n{settings}")
    options = ("--shards", str(SHARDS)) if kind == SHARDED else ()
    node = PenstockNode(form, folder, config=config, options=options)
    process = node.launch()
    stack.callback(processes.stop, process)
    assert process.stdout is not None
    ready = _read_line(process.stdout, time.monotonic() + READY_SECONDS)
    ports = dict(re.findall(r"(amqps?)://127\.0\.0\.1:(\d+)", ready))
    if "amqp" not in ports:
        raise BrokerUnavailable(f"`penstock serve` of the kind {kind} printed {ready.strip()!r}, see {node.log}.")
    served = Served(Broker(kind, node.title, int(ports["amqp"]), process), int(ports.get("amqps", 0)), node)
    for vhost in VHOSTS:
        Client(served.port, vhost).close()  # All shards serve.
    return served


class Client:
    """A blocking connection with one channel, that asks for one queue again and again."""

    def __init__(self, port: int, vhost: str, patience_s: float = PATIENCE_S) -> None:
        """Log in. Raises OSError, also for a connection that ends."""
        self._rest = b""
        self._socket = socket.create_connection(("127.0.0.1", port), patience_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(b"AMQP\x00\x00\x09\x01")
            self._method()
            start_ok = {"client_properties": {}, "mechanism": "PLAIN", "response": plain_response("guest", "guest")}
            tune = self._ask(0, spec.CONNECTION_START_OK, **start_ok, locale="en_US")
            agreed = {name: int(str(tune.args[name])) for name in ("channel_max", "frame_max")}
            opening = method_frame(0, spec.CONNECTION_TUNE_OK, **agreed, heartbeat=0)
            self._socket.sendall(opening)
            self._ask(0, spec.CONNECTION_OPEN, virtual_host=vhost)
        except BaseException:
            self._socket.close()
            raise

    def open_channel(self, queue: str) -> None:
        """Open a channel, and declare a queue."""
        self._ask(1, spec.CHANNEL_OPEN)
        self._ask(1, spec.QUEUE_DECLARE, queue=queue)

    def look(self, queue: str) -> float:
        """Ask for a queue; return the seconds until the answer."""
        begun = time.perf_counter()
        self._ask(1, spec.QUEUE_DECLARE, queue=queue, passive=True)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Close the connection in order."""
        try:
            self._ask(0, spec.CONNECTION_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
        finally:
            self._socket.close()

    def abort(self) -> None:
        """Hang up."""
        self._socket.close()

    def _ask(self, channel: int, method: int, **fields: object) -> Method:
        self._socket.sendall(method_frame(channel, method, **fields))
        return self._method()

    def _method(self) -> Method:
        """Return the next method. Raises OSError at the end, and if the broker closes the connection."""
        while len(self._rest) < 7 or len(self._rest) < (size := int.from_bytes(self._rest[3:7], "big") + 8):
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the connection has ended")
            self._rest += data
        payload, self._rest = self._rest[7 : size - 1], self._rest[size:]
        found = decode_method(payload)
        if found.id in (spec.CONNECTION_CLOSE, spec.CHANNEL_CLOSE):
            raise ConnectionError(f"the broker closed: {found.args['reply_code']} {found.args['reply_text']}")
        return found
