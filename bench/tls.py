"""Brokers that are measured by TLS 1.3: `make bench ARGS="--protocol amqps"`.

The load generator speaks no TLS: a relay (tls_relay.c) encrypts what it sends, in records as large as they can be, and
its processor time does not count. Certificates have keys of the curve P-256.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import loadgen, processes
from bench.brokers import (
    COMPILED,
    INTERPRETED,
    RABBITMQ,
    READY_SECONDS,
    Broker,
    BrokerUnavailable,
    PenstockNode,
    RabbitmqNode,
    Starters,
    _read_line,
)

HERE = Path(__file__).resolve().parent
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


def certificates(folder: Path) -> None:
    """Make an authority and a certificate of the server by `openssl`. Raises LoadError without it."""
    if not shutil.which("openssl"):
        raise loadgen.LoadError("TLS needs certificates, and openssl makes them (Debian: apt-get install openssl).")

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
        raise loadgen.LoadError("The relay needs a C compiler (Debian: apt-get install gcc libssl-dev).")
    program = folder / "tls_relay"
    words = [compiler, "-O2", "-o", str(program), str(HERE / "tls_relay.c"), "-lssl", "-lcrypto"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise loadgen.LoadError(f"The relay needs OpenSSL's headers (Debian: libssl-dev):\n{done.stderr}")
    return program


def relay_to(port: int, program: Path, stack: ExitStack, *name: str) -> int:
    """Run a relay to a port with TLS until the stack unwinds; return its own port. `name` is that of the server."""
    process = subprocess.Popen(
        [str(program), str(port), *name], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
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


def start_penstock(name: str, scratch: Path, program: Path, stack: ExitStack) -> Broker:
    """Start our broker with both listeners; its port is that of a relay to the one with TLS."""
    node, process, _, secure = launch_penstock(name, scratch, stack)
    return Broker(name, node.title, relay_to(secure, program, stack), process)


def start_rabbitmq(name: str, scratch: Path, program: Path, stack: ExitStack) -> Broker:
    """Start RabbitMQ with both listeners; its port is that of a relay to the one with TLS."""
    node = RabbitmqNode(scratch)
    stack.callback(node.close)
    port = processes.free_port()
    (scratch / "rabbitmq" / "rabbitmq.conf").write_text(RABBITMQ_SETTINGS.format(port=port, folder=scratch))
    process = node.launch()
    stack.callback(processes.stop, process)
    node.port(process)
    return Broker(name, node.title, relay_to(port, program, stack), process)


def starters(scratch: Path, stack: ExitStack) -> Starters:
    """Return how brokers are started that are measured by TLS, until the stack unwinds. Raises LoadError."""
    certificates(scratch)
    program = build_relay(scratch)
    ours = partial(start_penstock, program=program, stack=stack)
    return {COMPILED: ours, INTERPRETED: ours, RABBITMQ: partial(start_rabbitmq, program=program, stack=stack)}
