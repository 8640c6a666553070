"""The brokers that are measured over AMQP 1.0: ours, and each peer that this machine has."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import loadgen, processes
from bench.brokers import COMPILED, INTERPRETED, RABBITMQ, Broker, BrokerUnavailable, RabbitmqNode, start_penstock
from penstock.client.bench.experiments import KIB_64, MIB

QPIDD, ARTEMIS, ARTEMIS_NIO = "qpidd", "artemis", "artemis-nio"
ARTEMIS_HOME = "ARTEMIS_HOME"
READY_SECONDS = 90.0
WARM_UP_SECONDS = 12
NO_DECLARE = ("--no-declare",)
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
MORE_ADDRESS_SETTINGS = (
    "<default-address-routing-type>ANYCAST</default-address-routing-type>"
    "<default-queue-routing-type>ANYCAST</default-queue-routing-type>"
)
"""A plain address of Artemis is a topic without these."""


def start_rabbitmq(scratch: Path, limit: int | None) -> Broker:
    """Start RabbitMQ with its AMQP 1.0 plugin; queues are declared, and bounded, over AMQP 0-9-1."""
    node = RabbitmqNode(scratch, plugins=("rabbitmq_amqp1_0",))
    process = node.launch()
    try:
        title = node.title.replace("no plugins", "plugin for AMQP 1.0")
        return Broker(RABBITMQ, title, node.port(process), process, node.close, ("--prefix", "/amq/queue/"))
    except BaseException:
        processes.stop(process)
        node.close()
        raise


def start_qpidd(scratch: Path, limit: int | None) -> Broker:
    """Start qpidd without a store; with a limit, its queues have that many bytes."""
    command = shutil.which("qpidd")
    if command is None:
        raise BrokerUnavailable("qpidd is not installed (Debian 12 does not have it).")
    port = processes.free_port()
    options = ["--port", str(port), "--auth", "no", "--data-dir", str(scratch / "qpidd"), "--no-module-dir"]
    if limit is not None:
        options += ["--default-queue-limit", str(limit)]
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return run(QPIDD, done.stdout.strip(), [command, *options], port, scratch)


def start_artemis(scratch: Path, limit: int | None) -> Broker:
    """Start Artemis from ARTEMIS_HOME in its default heap; with a limit, addresses block at that many bytes."""
    return _artemis(ARTEMIS, scratch, limit)


def start_artemis_nio(scratch: Path, limit: int | None) -> Broker:
    """Start Artemis with its journal on the disk, which is synchronised with NIO."""
    return _artemis(ARTEMIS_NIO, scratch, limit)


def _artemis(name: str, scratch: Path, limit: int | None) -> Broker:
    title, command, port = make_artemis(name, scratch, limit)
    return run(name, title, command, port, scratch)


def make_artemis(name: str, scratch: Path, limit: int | None) -> tuple[str, list[str], int]:
    """Make an instance of Artemis; return its title, the command that runs it and its port."""
    home = os.environ.get(ARTEMIS_HOME, "")
    tool = Path(home) / "bin" / "artemis"
    if not home or not tool.exists():
        raise BrokerUnavailable(
            f"{ARTEMIS_HOME} names no unpacked Artemis (Maven: org.apache.activemq:apache-artemis:tar.gz:bin)."
        )
    if not shutil.which("java"):
        raise BrokerUnavailable("Artemis needs Java (Debian: apt-get install openjdk-17-jre-headless).")
    port, folder = processes.free_port(), scratch / name
    create = [str(tool), "create", str(folder), "--user", "guest", "--password", "guest", "--allow-anonymous",
              "--default-port", str(port), "--no-web", "--no-amqp-acceptor", "--no-mqtt-acceptor",
              "--no-stomp-acceptor", "--no-hornetq-acceptor", "--no-autotune", "--nio", "--host",
              "127.0.0.1"]  # fmt: skip
    create += ["--disable-persistence"] if name == ARTEMIS else []
    done = subprocess.run(create, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerUnavailable(f"`artemis create` failed: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    _settle(folder / "etc" / "broker.xml", limit)
    version = next((path.name for path in (Path(home) / "lib").glob("artemis-server-[0-9]*.jar")), "Artemis")
    kept = "no persistence" if name == ARTEMIS else "journal with NIO"
    title = f"{version.removesuffix('.jar')}, its default heap, {kept}"
    return title, [str(folder / "bin" / "artemis"), "run"], port


def _bound(capacity: int) -> str:
    """Return the settings that bound the queues of `penstock bench flow` of this capacity."""
    inside = f"<max-size-bytes>{capacity}</max-size-bytes><address-full-policy>BLOCK</address-full-policy>"
    return f'<address-setting match="penstock-bench.{capacity}.#">{MORE_ADDRESS_SETTINGS}{inside}</address-setting>'


def _settle(config: Path, limit: int | None) -> None:
    text = config.read_text()
    text = text.replace('<address-setting match="#">', f'<address-setting match="#">{MORE_ADDRESS_SETTINGS}')
    text = text.replace("<address-settings>", "<address-settings>" + "".join(map(_bound, (KIB_64, MIB))))
    size = -1 if limit is None else limit
    text = text.replace("<max-size-bytes>-1</max-size-bytes>", f"<max-size-bytes>{size}</max-size-bytes>")
    if limit is not None:
        text = text.replace("<address-full-policy>PAGE<", "<address-full-policy>BLOCK<")
    # Its monitor stops producers when the disk of the machine is fuller than this, whatever else is configured.
    text = text.replace("<max-disk-usage>90<", "<max-disk-usage>100<")
    config.write_text(text)


def run(name: str, title: str, command: list[str], port: int, scratch: Path) -> Broker:
    """Run a broker until it answers. Raises BrokerUnavailable."""
    log = scratch / f"{name}.log"
    with log.open("a") as file:
        process = subprocess.Popen(command, cwd=scratch, stdout=file, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, text=True, start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + READY_SECONDS
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            processes.stop(process)
            lines = log.read_text().strip().splitlines() or ["it printed nothing"]
            raise BrokerUnavailable(f"{name} did not get ready within {READY_SECONDS:.0f} s: {lines[-1].strip()}.")
        time.sleep(0.2)  # it tells nobody when it listens
    return Broker(name, title, port, process, options=NO_DECLARE)


def _answers(port: int) -> bool:
    """Tell whether somebody on the port speaks AMQP 1.0 with SASL."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(SASL_HEADER)
            return connection.recv(8) == SASL_HEADER
    except OSError:
        return False


PEERS: dict[str, Callable[[Path, int | None], Broker]] = {
    RABBITMQ: start_rabbitmq,
    QPIDD: start_qpidd,
    ARTEMIS: start_artemis,
    ARTEMIS_NIO: start_artemis_nio,
}
NAMES = (COMPILED, INTERPRETED, *PEERS)


def takes_part(name: str, stored: bool) -> bool:
    """Tell whether a broker is measured with messages that are stored, or with those that are not."""
    return name not in ((QPIDD, ARTEMIS) if stored else (ARTEMIS_NIO,))


def start(name: str, scratch: Path, stack: ExitStack, say: Callable[[str], None], limit: int | None) -> Broker | None:
    """Start a broker until the stack unwinds; None where it cannot be, after a sentence that says why.

    `limit`: bytes of each queue, for peers whose queues cannot be bounded when they are declared.
    """
    try:
        broker = PEERS[name](scratch, limit) if name in PEERS else start_penstock(name, scratch)
    except BrokerUnavailable as reason:
        say(f"Without {name}: {reason}")
        return None
    stack.callback(broker.stop)
    say(f"{name}: {broker.title}, port {broker.port}")
    if name in (ARTEMIS, ARTEMIS_NIO) and limit is None:  # Its virtual machine compiles what is called often enough.
        load = (*broker.options, "--confirms", "1000", "--seconds", str(WARM_UP_SECONDS))
        loadgen.run(broker.port, *load, protocol=loadgen.AMQP1)
    return broker
