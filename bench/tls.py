"""Processor time per message by TLS 1.3, beside the same without, and beside RabbitMQ: all in turns, in one run.

The load generator speaks no TLS: a relay (tls_relay.c) encrypts what it sends, in records as large as they can be, and
its processor time does not count. Certificates have keys of the curve P-256.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import loadgen, processes
from bench.brokers import (
    COMPILED,
    INTERPRETED,
    RABBITMQ,
    READY_SECONDS,
    BrokerUnavailable,
    PenstockNode,
    RabbitmqNode,
    _read_line,
)

HERE = Path(__file__).resolve().parent
OPTIONS = ("--sizes", "1024", "--ack", "100", "--warm-up", "1", "--seconds", "3")
SETTINGS = """\
[broker]
listen-tls = ["127.0.0.1:0"]

[tls]
certificate = "server.pem"
key = "server-key.pem"
minimum-version = "1.3"
"""
RABBITMQ_SETTINGS = """\
listeners.ssl.1 = 127.0.0.1:{port}
ssl_options.cacertfile = {folder}/ca.pem
ssl_options.certfile = {folder}/server.pem
ssl_options.keyfile = {folder}/server-key.pem
ssl_options.versions.1 = tlsv1.3
"""


@dataclass
class TlsBroker:
    """A running broker with two ports, and the relay to the one with TLS."""

    name: str
    title: str
    port: int
    relay: int
    pids: Callable[[], list[int]]


def certificates(folder: Path) -> None:
    """Make an authority and a certificate of the server by `openssl`."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    authority = ("-subj", "/CN=bench authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    openssl("req", "-x509", *curve, "-days", "2", *authority)
    openssl("req", *curve, "-subj", "/CN=localhost", "-keyout", "server-key.pem", "-out", "server.csr")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial",
            "-days", "2", "-out", "server.pem")  # fmt: skip


def build_relay(folder: Path) -> Path:
    """Compile the relay. Raises LoadError without a compiler or OpenSSL's headers."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise loadgen.LoadError("the relay needs a C compiler (Debian: apt-get install gcc libssl-dev)")
    program = folder / "tls_relay"
    words = [compiler, "-O2", "-o", str(program), str(HERE / "tls_relay.c"), "-lssl", "-lcrypto"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise loadgen.LoadError(f"the relay needs OpenSSL's headers (Debian: libssl-dev):\n{done.stderr}")
    return program


def relay_to(port: int, program: Path, stack: ExitStack) -> int:
    """Run a relay to a port with TLS until the stack unwinds; return its own port."""
    process = subprocess.Popen([str(program), str(port)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    stack.callback(processes.stop, process)
    assert process.stdout is not None
    return int(process.stdout.readline())


def launch_penstock(
    name: str, scratch: Path, stack: ExitStack, settings: str = ""
) -> tuple[PenstockNode, subprocess.Popen[str], int, int]:
    """Run our broker with both listeners until the stack unwinds; return it and its ports without and with TLS.

    `settings` are added to its settings file.
    """
    config = scratch / "penstock.toml"
    config.write_text(SETTINGS + settings)
    node = PenstockNode(name, scratch, config=config)
    process = node.launch()
    stack.callback(processes.stop, process)
    assert process.stdout is not None
    ready = _read_line(process.stdout, time.monotonic() + READY_SECONDS)
    found = re.match(r"ready amqp://127.0.0.1:(\d+) amqps://127.0.0.1:(\d+)", ready)
    if not found:
        raise BrokerUnavailable(f"`penstock serve` printed {ready.strip()!r}, see {node.log}.")
    return node, process, int(found[1]), int(found[2])


def start_penstock(name: str, scratch: Path, program: Path, stack: ExitStack) -> TlsBroker:
    """Start our broker with both listeners."""
    node, process, plain, secure = launch_penstock(name, scratch, stack)
    relay = relay_to(secure, program, stack)
    return TlsBroker(name, node.title, plain, relay, lambda: processes.tree(process.pid))


def start_rabbitmq(scratch: Path, program: Path, stack: ExitStack) -> TlsBroker:
    """Start RabbitMQ with both listeners."""
    node = RabbitmqNode(scratch)
    stack.callback(node.close)
    tls_port = processes.free_port()
    (scratch / "rabbitmq" / "rabbitmq.conf").write_text(RABBITMQ_SETTINGS.format(port=tls_port, folder=scratch))
    process = node.launch()
    stack.callback(processes.stop, process)
    port = node.port(process)
    relay = relay_to(tls_port, program, stack)
    return TlsBroker(RABBITMQ, node.title, port, relay, lambda: processes.tree(process.pid))


def microseconds(broker: TlsBroker, port: int, options: tuple[str, ...]) -> float:
    """Return the microseconds of the broker's processor time per message."""
    found = loadgen.run(port, *options, pids=broker.pids())
    return float(found["broker_cpu"]) / float(found["messages"]) * 1e6


def main() -> int:
    """Measure, and print a table; 1 if a broker could not be measured."""
    parser = argparse.ArgumentParser(prog="bench.tls", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", nargs="+", choices=(COMPILED, INTERPRETED, RABBITMQ), default=[COMPILED, RABBITMQ])
    parser.add_argument("--repeat", type=int, default=3, help="repetitions (default %(default)s)")
    wanted = parser.parse_args()
    loadgen.build()
    found: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-tls-")))
        certificates(scratch)
        program = build_relay(scratch)
        brokers: list[TlsBroker] = []
        for name in wanted.brokers:
            try:
                if name == RABBITMQ:
                    brokers.append(start_rabbitmq(scratch, program, stack))
                else:
                    brokers.append(start_penstock(name, scratch, program, stack))
            except BrokerUnavailable as reason:
                print(f"Without {name}: {reason}", flush=True)
        for repetition in range(wanted.repeat):
            for broker in brokers:
                for way, port in (("plain", broker.port), ("TLS 1.3", broker.relay)):
                    spent = microseconds(broker, port, OPTIONS)
                    found.setdefault((broker.name, way), []).append(spent)
                    print(f"[{repetition + 1}/{wanted.repeat}] {broker.name}, {way}: {spent:.2f} us", flush=True)
    rows = {f"{name}, {way}": round(statistics.median(spent), 2) for (name, way), spent in found.items()}
    print(json.dumps({"us_per_message_of_1_KiB": rows, "least": {f"{n}, {w}": min(s) for (n, w), s in found.items()}}))
    return 0 if len(brokers) == len(wanted.brokers) else 1


if __name__ == "__main__":
    sys.exit(main())
